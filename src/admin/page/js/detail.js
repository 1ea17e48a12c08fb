/* detail.js - the view of one name: its figures, its chart, its holders and waiters. */

const ROWS_SHOWN = 200; // for the holders and for the waiters of a name

const DETAIL_FIGURES = [
    {
        label: 'In use',
        get: (n) => count(n.in_use),
        sub: (n) =>
            detail.shared
                ? 'on this node'
                : n.limit
                  ? 'of ' + count(n.limit) + ', the last limit'
                  : '',
    },
    {
        label: 'Waiting',
        get: (n) => count(n.waiting),
        sub: (n) =>
            n.waiters.length ? 'longest ' + duration(n.waiters[0].waited_seconds) : 'nobody',
        alarm: (n) => n.waiting > 0,
    },
    {
        label: 'Holders',
        get: (n) => count(n.holders_total),
        sub: (n) =>
            n.holders.length ? 'longest ' + duration(n.holders[0].held_seconds) : 'nobody',
    },
    {label: 'Peak', get: (n) => count(n.peak), sub: () => 'most units at once'},
];

const DETAIL_SERIES = ['in_use', 'waiting'];
let detailChart = null;

function drawDetail() {
    const d = detail,
        n = d.answer;
    const name = n ? n.name : idToName(d.id);
    showName($('detail-head'), name, 0);
    const size = idLength(d.id);
    setText($('detail-size'), plural(size, 'byte', 'bytes'));
    document.title = nameText(name, 60) + ' · counterd';
    const level = d.gone ? 'ok' : !n ? 'wait' : n.waiting > 0 ? 'warn' : 'ok';
    $('named').dataset.level = level;
    setText(
        $('detail-level'),
        d.gone
            ? isUsedSomewhere(d)
                ? 'No client of this node holds units or waits for them'
                : 'There is no such name now: no client holds units or waits for them'
            : !n
              ? 'Reading'
              : n.waiting > 0
                ? plural(n.waiting, 'client waits', 'clients wait')
                : n.limit && n.in_use >= n.limit
                  ? 'All units in use, nobody waits'
                  : 'Nobody waits',
    );
    const shown = n || {
        in_use: 0,
        limit: 0,
        peak: 0,
        waiting: 0,
        holders: [],
        waiters: [],
        holders_total: 0,
    };
    for (const f of DETAIL_FIGURES) {
        setText(f.value, n || d.gone ? f.get(shown) : '–');
        setText(f.below, n ? f.sub(n) : '');
        f.box.dataset.alarm = f.alarm && f.alarm(shown) ? 'warn' : '';
    }
    drawShared(d);
    drawPeople('holders', shown.holders, shown.holders_total);
    drawPeople('waiters', shown.waiters, shown.waiting);
    detailChart.history = d.history;
    const seen = Date.now() / 1000 - d.opened;
    detailChart.ownSpan = seen < 58 ? 60 : seen < 298 ? 300 : KEPT_S;
    detailChart.draw();
}

function drawPeople(what, list, total) {
    tables[what].update(list.slice(0, ROWS_SHOWN));
    show($(what), list.length > 0);
    show($(what + '-empty'), list.length === 0);
    const shown = Math.min(list.length, ROWS_SHOWN);
    setText(
        $(what + '-count'),
        total > shown
            ? 'oldest ' + count(shown) + ' of ' + count(total)
            : total
              ? count(total)
              : '',
    );
    drawHosts($(what + '-by'), list, total, '');
    show($(what + '-by'), list.length > 1);
}

/* The number of bytes in an id. */
function idLength(id) {
    return id.replace(/%[0-9a-fA-F]{2}/g, 'x').length;
}
