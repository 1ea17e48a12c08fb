/* contended.js - the table of contended names: tabs by waiting, refusals or peak. */

/* A lower average per second is only the decaying rest of an old rush. */
const FAINT = 0.02;

const isWorthTelling = {
    waiting: (n) => n.waiting > 0 || n.waiting_load >= FAINT,
    refused: (n) => n.refused_per_second >= FAINT,
    peak: () => true,
};

function drawNames() {
    const answer = contended[by];
    if (!answer) return;
    const names = answer.names.filter(isWorthTelling[by]);
    const most = (key) => Math.max(1e-9, ...names.map((n) => n[key]));
    tops = {
        waiting: most('waiting'),
        load: most('waiting_load'),
        refused: most('refused_per_second'),
    };
    tables.names.update(names);
    show($('names'), names.length > 0);
    show($('names-empty'), names.length === 0);
    setText(
        $('names-empty'),
        {
            waiting: 'Nothing waits. No name is contended.',
            refused: 'Nothing has been refused.',
            peak: 'No name is in use, and none was recently.',
        }[by],
    );
    setText(
        $('names-caption'),
        {
            waiting: 'Names by how many clients wait for them',
            refused: 'Names by refused requests per second',
            peak: 'Names by the most units in use at once',
        }[by],
    );
    let note = '';
    if (names.length && answer.names.length >= answer.names_limit)
        note = 'The first ' + names.length + '.';
    if (answer.bound > 0 && names.length)
        note +=
            ' A name not listed has at most ' +
            {
                waiting: rate(answer.bound) + ' waiting on average',
                refused: rate(answer.bound) + ' refused per second',
                peak: count(answer.bound) + ' units as its peak',
            }[by] +
            '.';
    setText($('names-note'), note.trim());
}

function setTab(tab, withFocus) {
    by = tab.dataset.by;
    for (const other of $('tabs').children) {
        other.setAttribute('aria-selected', String(other === tab));
        other.tabIndex = other === tab ? 0 : -1;
    }
    $('names-panel').setAttribute('aria-labelledby', tab.id);
    if (withFocus) tab.focus();
    if (contended[by]) drawNames();
    wake();
}

function onTabKey(e) {
    const tabs = [...$('tabs').children],
        at = tabs.indexOf(e.target);
    const to = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1}[e.key];
    if (at < 0 || to === undefined) return;
    setTab(tabs[(to + tabs.length) % tabs.length], true);
    e.preventDefault();
}
