/* tables.js - the columns of all tables of the page. */

const tables = {};
let tops = {};

function makeTables() {
    tables.names = new Rows(
        $('names'),
        [
            {head: true, cls: 'wide', set: nameLink},
            {label: 'In use', cls: 'use-cell', set: useCell},
            num('Peak', (n) => count(n.peak)),
            {
                label: 'Waiting',
                cls: 'n',
                set: (c, n) =>
                    weighed(c, count(n.waiting), by === 'waiting' ? n.waiting / tops.waiting : 0),
            },
            {
                label: 'Waiting load',
                cls: 'n',
                set: (c, n) =>
                    weighed(
                        c,
                        rate(n.waiting_load),
                        by === 'waiting' ? n.waiting_load / tops.load : 0,
                    ),
            },
            {
                label: 'Refused /s',
                cls: 'n',
                set: (c, n) =>
                    weighed(
                        c,
                        rate(n.refused_per_second),
                        by === 'refused' ? n.refused_per_second / tops.refused : 0,
                    ),
            },
        ],
        (n) => n.id || n.name,
    );
    tables.conns = new Rows(
        $('conns'),
        [
            {head: true, cls: 'wide', set: clientCell},
            col('Protocol', 'minor', (x) => x.protocol),
            col('Over', 'minor', (x) => x.transport),
            num('Open for', (x) => duration(x.age_seconds)),
            num('Holds', (x) => count(x.holds)),
            num('Waits', (x) => count(x.waits)),
            num('Queued', (x) => bytes(x.queued_bytes), true),
            col('Connection', 'soft minor', (x) => x.connection),
        ],
        (x) => x.connection,
    );
    tables.workers = new Rows(
        $('workers'),
        [
            {head: true, cls: 'wide', set: (c, w) => setText(c, String(w.worker))},
            num('Connections', (w) => count(w.connections)),
            num('Busy', (w) => share((busyShares.get(w.worker) || [null])[0])),
            num('CPU', (w) => share((busyShares.get(w.worker) || [0, null])[1])),
        ],
        (w) => w.worker,
    );
    tables.protocols = new Rows(
        $('protocols'),
        [
            {head: true, cls: 'wide', set: (c, p) => setText(c, p.name)},
            col('Listens on', 'wide soft', (p) =>
                !p.enabled
                    ? 'not served'
                    : p.listeners.length
                      ? p.listeners.join(', ')
                      : 'no listener',
            ),
            num('Open', (p) => count(p.connections.open)),
            num('Limit', (p) => (p.connections.max ? count(p.connections.max) : 'none')),
            num('Made', (p) => count(p.connections.made)),
            num('Received', (p) => bytes(p.bytes.received)),
            num('Sent', (p) => bytes(p.bytes.sent)),
            num('Errors', (p) => count(p.connections.accept_errors + p.connections.send_errors)),
        ],
        (p) => p.name,
    );
    const held = [
        {head: true, cls: 'wide', set: clientCell},
        col('Since', '', (h) => moment(h.since, stats ? stats.now : Date.now() / 1000)),
    ];
    const units = [num('Units', (h) => count(h.units)), num('Limit', (h) => (h.limit ? count(h.limit) : '–'))];
    const oneOf = (h) => h.connection + ' ' + h.since + ' ' + h.units + ' ' + h.limit;
    tables.holders = new Rows(
        $('holders'),
        [...held, num('Held for', (h) => duration(h.held_seconds)), ...units],
        oneOf,
    );
    tables.waiters = new Rows(
        $('waiters'),
        [
            ...held,
            num('Waited for', (h) => duration(h.waited_seconds)),
            ...units,
            col('Wants', '', (h) => (h.kind === 'me' ? 'own' : h.kind)),
        ],
        oneOf,
    );
    const time = (seconds) => (seconds === null ? '–' : duration(seconds));
    tables.durations = new Sections($('durations'), [
        num('Count', (x) => count(x.count)),
        num(
            'Mean',
            (x) =>
                x.count && x.sum_seconds !== undefined ? duration(x.sum_seconds / x.count) : '–',
            true,
        ),
        num('p50', (x) => time(x.p50_seconds)),
        num('p90', (x) => time(x.p90_seconds), true),
        num('p99', (x) => time(x.p99_seconds)),
        num('Longest', (x) => time(x.max_seconds), true),
    ]);
    tables.requests = new Sections($('requests'), [
        col('Outcome', 'wide', (x) => x.outcome),
        num('Count', (x) => count(x.count)),
        num('Per second', (x) => rate(x.rate)),
        {label: 'Share', cls: 'n minor', set: (c, x) => weighed(c, share(x.share), x.share)},
    ]);
}

function clientCell(cell, h) {
    if (!cell.firstChild) cell.append(el('span'), el('small', 'soft'));
    setText(cell.firstChild, h.client);
    setText(cell.lastChild, h.protocol + ' over ' + h.transport);
    cell.title = 'connection ' + h.connection;
}
