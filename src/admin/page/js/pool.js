/* pool.js - the view of one pool: its states, its members and their holders, its waiters and its
 * suppliers. */

const MEMBERS_A_PAGE = 100;
const WAITERS_SHOWN = 100;

const POOL_FIGURES = [
    {
        label: 'Free',
        get: (p) => count(p.states.free),
        sub: (p) => 'of ' + plural(p.members, 'member', 'members'),
    },
    {
        label: 'Held',
        get: (p) => count(heldOf(p)),
        sub: (p) =>
            p.longest_hold_seconds === null
                ? 'nobody'
                : 'longest ' + duration(p.longest_hold_seconds),
    },
    {
        label: 'Waiting',
        get: (p) => count(p.waiting),
        sub: (p) =>
            p.oldest_wait_seconds === null
                ? 'nobody'
                : 'longest ' + duration(p.oldest_wait_seconds),
        alarm: (p) => p.waiting > 0,
    },
    {
        label: 'Want',
        get: (p) => (p.want === null ? '–' : count(p.want)),
        sub: (p) =>
            p.want === null
                ? 'members are declared'
                : 'from ' + plural(p.suppliers, 'supplier', 'suppliers'),
    },
];

const heldOf = (p) => p.states.taken + p.states.cleaning + p.states.checking;

/* ---- tables ---- */

/* A word of a client or an operator, or a dash. */
const word = (label, cls, get) => ({
    label,
    cls,
    set: (cell, item) => {
        if (!cell.firstChild) cell.append(el('bdi', 'name'));
        const text = get(item);
        if (text === null) cell.firstChild.shownName = undefined;
        if (text === null) setText(cell.firstChild, '–');
        else showName(cell.firstChild, text, 60);
    },
});

function memberCell(cell, m) {
    if (!cell.firstChild) cell.append(el('bdi', 'name'), el('small', 'soft'));
    const pairs = Object.entries(m.attributes).map(([key, value]) => key + '=' + value);
    showName(cell.firstChild, m.name, 60);
    show(cell.lastChild, pairs.length > 0);
    if (pairs.length) showName(cell.lastChild, pairs.join(' '), 200);
}

function stateCell(cell, m) {
    if (!cell.firstChild) {
        const sample = svg('svg', {viewBox: '0 0 10 10', width: 10, height: 10, 'aria-hidden': 'true'});
        const box = el('span', 'state');
        sample.append(svg('rect', {width: 10, height: 10, rx: 2}));
        box.append(sample, el('span'));
        cell.append(box);
    }
    setAttr(cell.firstChild.firstChild.firstChild, 'class', 'state-' + m.state);
    setText(cell.firstChild.lastChild, m.state);
}

function holderCell(cell, m) {
    if (!cell.firstChild) cell.append(el('span'), el('small', 'soft'));
    setText(cell.firstChild, m.holder ? m.holder.client : '–');
    setText(cell.lastChild, m.holder ? 'connection ' + m.holder.connection : '');
}

function partyCell(cell, w) {
    if (!cell.firstChild) cell.append(el('span'), el('small', 'soft'));
    setText(cell.firstChild, w.client);
    setText(cell.lastChild, 'connection ' + w.connection);
}

function changeCell(cell, m) {
    if (!cell.firstChild) {
        const button = el('button', 'button', 'Change…');
        button.type = 'button';
        button.addEventListener('click', () => openOrder(button.member));
        cell.append(button);
    }
    cell.firstChild.member = m;
    cell.firstChild.setAttribute('aria-label', 'Change ' + nameText(m.name, 60));
    show(cell.firstChild, mayOperate);
}

const sinceText = (x) => moment(x.since, stats ? stats.now : Date.now() / 1000);

function makePoolTables() {
    makeLegend($('pool-legend'));
    $('pool-bar').append(makeBar());
    tables.members = new Rows(
        $('members'),
        [
            {head: true, cls: 'wide', set: memberCell},
            {label: 'State', cls: '', set: stateCell},
            col('Since', '', sinceText),
            num('For', (m) => duration(m.seconds)),
            {label: 'Held by', cls: 'holder-cell', set: holderCell},
            word('By', '', (m) => m.by),
            word('Then', '', (m) => m.then),
            word('Note', '', (m) => m.note),
            num('Takes', (m) => count(m.takes)),
            num('Fails', (m) => count(m.fails)),
            {label: '', cls: 'n', set: changeCell},
        ],
        (m) => m.id,
    );
    tables.poolWaiters = new Rows(
        $('pool-waiters'),
        [
            {head: true, cls: 'wide', set: partyCell},
            col('Since', '', sinceText),
            num('Waited for', (w) => duration(w.seconds)),
            num('Timeout', (w) => duration(w.timeout_seconds)),
            num('Members', (w) => count(w.count)),
            col('For', '', (w) => w.for),
            word('Only', '', onlyText),
            word('By', '', (w) => w.by),
        ],
        (w) => w.connection,
    );
    tables.suppliers = new Rows(
        $('suppliers'),
        [
            {head: true, cls: 'wide', set: partyCell},
            num('Has', (s) => count(s.members)),
            num('Wanted', (s) => count(s.want)),
            num('At least', (s) => count(s.init)),
            num('At most', (s) => count(s.max)),
            col('', '', (s) => (s.late ? 'late' : '')),
        ],
        (s) => s.connection,
    );
}

/* What a waiter insists on: a member, attributes; null: nothing. */
function onlyText(w) {
    const parts = Object.entries(w.with).map(([key, value]) => key + '=' + value);
    if (w.member !== null) parts.unshift(w.member);
    return parts.length ? parts.join(' ') : null;
}

/* ---- drawing ---- */

function poolLevel(p) {
    if (p.state === 'draining') return ['warn', 'It is being dropped: nothing more is handed out'];
    if (p.waiting > 0) return ['warn', plural(p.waiting, 'request waits', 'requests wait')];
    if (p.members === 0) return ['ok', 'It has no members'];
    if (p.states.free === 0) return ['ok', 'None is free, nobody waits'];
    return ['ok', 'Nobody waits'];
}

function drawPool() {
    const p = pool.answer && pool.answer.pool;
    const name = p ? p.name : idToName(pool.id);
    showName($('pool-head'), name, 0);
    document.title = nameText(name, 60) + ' · counterd';
    const [level, text] = pool.gone
        ? ['ok', 'There is no such pool now']
        : p
          ? poolLevel(p)
          : ['wait', 'Reading'];
    $('pool-named').dataset.level = level;
    setText($('pool-level'), text);
    drawPoolAbout(p);
    for (const f of POOL_FIGURES) {
        setText(f.value, p ? f.get(p) : '–');
        setText(f.below, p ? f.sub(p) : '');
        f.box.dataset.alarm = p && f.alarm && f.alarm(p) ? 'warn' : '';
    }
    show($('pool-drop'), mayOperate && Boolean(p));
    show($('supply-part'), Boolean(p) && p.kind === 'joined');
    const shown = pool.answer || {members: [], waiters: [], suppliers: [], cursor: null};
    drawMembers(p, shown);
    tables.poolWaiters.update(shown.waiters);
    tables.suppliers.update(shown.suppliers);
    for (const [id, list] of [
        ['pool-waiters', shown.waiters],
        ['suppliers', shown.suppliers],
    ]) {
        show($(id), list.length > 0);
        show($(id + '-empty'), list.length === 0);
    }
    setText(
        $('pool-waiters-count'),
        p && p.waiting > shown.waiters.length
            ? 'oldest ' + count(shown.waiters.length) + ' of ' + count(p.waiting)
            : '',
    );
}

/* The kind, the group and the options, below the name. */
function drawPoolAbout(p) {
    show($('pool-about'), Boolean(p));
    if (!p) return;
    setText($('pool-kind'), p.kind + (p.of_file ? ', declared in the file' : ''));
    show($('pool-group-box'), p.group !== null);
    if (p.group !== null) showName($('pool-group'), p.group, 60);
    setAttr($('pool-counter'), 'href', '#/name/pool%3A' + p.id);
    showName($('pool-counter').firstChild, 'pool:' + p.name, 60);
    const options = Object.entries(p.options).map(([key, value]) => key + '=' + value);
    setText($('pool-options'), options.join('  '));
}

function drawMembers(p, answer) {
    const states = p ? p.states : Object.fromEntries(STATES.map((state) => [state, 0]));
    drawBar($('pool-bar').firstChild, states);
    setText($('pool-states'), p ? statesText(states) : '');
    $('members').classList.toggle('may-change', mayOperate);
    tables.members.update(answer.members);
    show($('members'), answer.members.length > 0);
    show($('members-empty'), answer.members.length === 0);
    pool.cursors[pool.page + 1] = answer.cursor;
    show($('members-pager'), pool.page > 0 || answer.cursor !== null);
    $('members-next').disabled = !answer.cursor;
    $('members-back').disabled = pool.page === 0;
    setText($('members-where'), 'Page ' + (pool.page + 1));
}

/* ---- asking ---- */

function poolPath(of) {
    const cursor = of.cursors[of.page];
    return (
        '/api/v1/pools/' +
        of.id +
        '?limit=' +
        MEMBERS_A_PAGE +
        '&waiters_limit=' +
        WAITERS_SHOWN +
        (cursor ? '&cursor=' + cursor : '')
    );
}

async function askPool(of) {
    const wanted = poolPath(of);
    if (!of.isOpen) {
        of.isOpen = true;
        await askOperable();
    }
    let answer = null;
    try {
        answer = await ask(wanted);
    } catch (e) {
        if (!(e instanceof NotFound)) throw e;
    }
    if (pool !== of || wanted !== poolPath(of)) return;
    of.answer = answer;
    of.gone = answer === null;
}

function turnMembers(to) {
    pool.page = to;
    wake();
}
