/*
 * pools.js - the overview's table of pools, one page at a time, and the bar of states that a pool has
 * there and in its own view.
 */

const POOLS_A_PAGE = 20;

/* In the order of the bar and of its legend. */
const STATES = ['free', 'taken', 'cleaning', 'checking', 'dirty', 'stopping', 'down'];

/* ---- the bar ---- */

function makeBar() {
    const bar = svg('svg', {
        class: 'bar-states',
        viewBox: '0 0 100 8',
        preserveAspectRatio: 'none',
        'aria-hidden': 'true',
    });
    bar.append(svg('rect', {class: 'track', width: 100, height: 8}));
    for (const state of STATES)
        bar.append(svg('rect', {class: 'state-' + state, height: 8, visibility: 'hidden'}));
    return bar;
}

function drawBar(bar, states) {
    const total = STATES.reduce((n, state) => n + states[state], 0);
    let x = 0;
    STATES.forEach((state, i) => {
        const rect = bar.children[i + 1],
            width = total ? (100 * states[state]) / total : 0;
        setAttr(rect, 'visibility', width ? 'visible' : 'hidden');
        setAttr(rect, 'x', x.toFixed(2));
        setAttr(rect, 'width', width.toFixed(2));
        x += width;
    });
}

/* "2 free · 1 taken": the same without colours. */
function statesText(states) {
    const parts = STATES.filter((state) => states[state] > 0);
    return parts.length
        ? parts.map((state) => count(states[state]) + ' ' + state).join(' · ')
        : 'no members';
}

function makeLegend(list) {
    for (const state of STATES) {
        const item = el('li'),
            sample = svg('svg', {viewBox: '0 0 10 10', width: 10, height: 10, 'aria-hidden': 'true'});
        sample.append(svg('rect', {class: 'state-' + state, width: 10, height: 10, rx: 2}));
        item.append(sample, el('span', '', state));
        list.append(item);
    }
}

/* ---- the table ---- */

const hasPools = () =>
    Boolean(stats && stats.resources && stats.resources.pools && stats.resources.pools.pools);

function poolsPath() {
    const cursor = pools.cursors[pools.page];
    return '/api/v1/pools?limit=' + POOLS_A_PAGE + (cursor ? '&cursor=' + cursor : '');
}

function makePoolsTable() {
    makeLegend($('pools-legend'));
    tables.pools = new Rows(
        $('pools'),
        [
            {head: true, cls: 'wide', set: poolLink},
            {label: 'Members', cls: 'states-cell', set: statesCell},
            num('Waiting', (p) => count(p.waiting)),
            num('Want', (p) => (p.want === null ? '–' : count(p.want))),
            num('Longest hold', (p) => duration(p.longest_hold_seconds)),
            num('Oldest wait', (p) => duration(p.oldest_wait_seconds)),
        ],
        (p) => p.id,
    );
}

function poolLink(cell, p) {
    if (!cell.firstChild) {
        const link = el('a', 'name');
        link.append(el('bdi'));
        cell.append(link, el('small', 'soft'));
    }
    setAttr(cell.firstChild, 'href', '#/pool/' + p.id);
    showName(cell.firstChild.firstChild, p.name, 84);
    setText(cell.lastChild, p.kind + (p.state === 'draining' ? ', being dropped' : ''));
}

function statesCell(cell, p) {
    if (!cell.firstChild) cell.append(el('span', 'states-text'), makeBar());
    setText(cell.firstChild, statesText(p.states));
    drawBar(cell.lastChild, p.states);
}

function drawPools() {
    show($('pools-part'), hasPools());
    const answer = pools.answer;
    if (!answer || !hasPools()) return;
    const all = stats.resources.pools;
    tables.pools.update(answer.pools);
    setText(
        $('pools-note'),
        plural(all.pools, 'pool', 'pools') +
            ' with ' +
            plural(all.members, 'member', 'members') +
            ', of which ' +
            count(all.held) +
            (all.held === 1 ? ' is held.' : ' are held.'),
    );
    pools.cursors[pools.page + 1] = answer.cursor;
    show($('pools-pager'), pools.page > 0 || answer.cursor !== null);
    $('pools-next').disabled = !answer.cursor;
    $('pools-back').disabled = pools.page === 0;
    setText($('pools-where'), 'Page ' + (pools.page + 1));
}

async function askPools() {
    if (!hasPools()) {
        pools = {cursors: [''], page: 0, answer: null};
        return;
    }
    const wanted = poolsPath(),
        answer = await ask(wanted);
    if (wanted === poolsPath()) pools.answer = answer;
}

function turnPools(to) {
    pools.page = to;
    pools.answer = null;
    wake();
}
