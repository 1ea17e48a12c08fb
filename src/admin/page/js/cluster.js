/*
 * cluster.js - the nodes that share limits with this one: a part of the overview; and in the view of a
 * shared name, which node has how many of its units.
 */

const CLUSTER_AGAIN_MS = 60000; // how often to look if there is a cluster; an upgrade may change it
const NOT_SHARED_MS = 10000; // how long a name that was not shared is taken for such

/* What the server said last; `since`: the start of the server that said it. */
let cluster = {isOn: false, at: -Infinity, since: null, answer: null};

/* Asks if the server has an engine, unless that is known. */
async function askIfClustered() {
    if (cluster.since === stats.started && Date.now() - cluster.at < CLUSTER_AGAIN_MS) return;
    const config = await ask('/api/v1/config');
    const isOn = config.options.some((o) => o.key === 'cluster.engine' && o.value !== '');
    cluster = {isOn, at: Date.now(), since: stats.started, answer: isOn ? cluster.answer : null};
}

async function askCluster() {
    await askIfClustered();
    if (!cluster.isOn) return;
    const answer = await ask('/api/v1/cluster');
    cluster.answer = answer.enabled ? answer : null;
}

/* ---- the part of the overview ---- */

const CLUSTER_FACTS = [
    {label: 'This node', get: (c) => c.state},
    {label: 'Lease left', get: (c) => (c.lease_left > 0 ? duration(c.lease_left) : 'over')},
    {label: 'Grace', get: (c) => (c.grace ? 'yes' : 'no')},
    {label: 'Round trip', get: (c) => (c.calls ? duration(c.round_trip) : '–')},
    {label: 'Operations a call', get: (c) => (c.calls ? rate(c.ops / c.calls) : '–')},
    {label: 'Requests under way', get: (c) => count(c.requests)},
    {label: 'Reconnects', get: (c) => count(reconnects(c))},
    {
        label: 'Without a session',
        get: (c) => (c.reason_times ? duration(c.reason_age) + ', ' + count(c.reason_times) + ' times' : '–'),
    },
];

const reconnects = (c) => Object.values(c.reconnects).reduce((sum, n) => sum + n, 0);

/* "closed 2, slow 1" */
const reconnectsText = (c) =>
    Object.entries(c.reconnects)
        .filter(([, n]) => n > 0)
        .map(([why, n]) => why + ' ' + count(n))
        .join(', ');

const known = (n) => (n < 0 ? '–' : count(n));

function makeClusterTables() {
    for (const f of CLUSTER_FACTS) {
        const box = el('div');
        f.value = el('dd');
        box.append(el('dt', '', f.label), f.value);
        $('cluster-facts').append(box);
    }
    tables.nodes = new Rows(
        $('nodes'),
        [
            {head: true, cls: 'wide', set: nodeCell},
            {label: 'State', cls: '', set: nodeStateCell},
            num('Last beat', (n) => (n.beat_age < 0 ? '–' : duration(n.beat_age) + ' ago')),
            num('Names', (n) => known(n.names)),
            num('Units', (n) => known(n.units)),
            num('Waiting', (n) => known(n.waits)),
        ],
        (n) => n.session,
    );
    tables.shared = new Rows(
        $('shared'),
        [
            {head: true, cls: 'wide', set: sharedNodeCell},
            {
                label: 'Units',
                cls: 'n',
                set: (c, n) => weighed(c, count(n.units), n.of ? n.units / n.of : 0),
            },
            num('Waiting', (n) => count(n.waits)),
        ],
        (n) => n.node,
    );
}

/* The name of a node and, below, what is said of it. */
function setNode(cell, name, note) {
    if (!cell.firstChild) cell.append(el('bdi', 'name'), el('small', 'soft'));
    showName(cell.firstChild, name, 64);
    setText(cell.lastChild, note);
    show(cell.lastChild, note !== '');
}

const isOdd = (n) => n.same_patterns === false && n.state !== 'ended';

function nodeCell(cell, n) {
    setNode(
        cell,
        n.node,
        [n.this ? 'this node' : '', isOdd(n) ? 'other patterns' : ''].filter((t) => t !== '').join(', '),
    );
    cell.classList.toggle('odd', isOdd(n));
}

const NODE_STATES = ['live', 'opening', 'ended'];

function nodeStateCell(cell, n) {
    if (!cell.firstChild) {
        const sample = svg('svg', {viewBox: '0 0 10 10', width: 10, height: 10, 'aria-hidden': 'true'});
        const box = el('span', 'state');
        sample.append(svg('rect', {width: 10, height: 10, rx: 2}));
        box.append(sample, el('span'));
        cell.append(box);
    }
    const state = NODE_STATES.includes(n.state) ? n.state : 'ended';
    setAttr(cell.firstChild.firstChild.firstChild, 'class', 'node-' + state);
    setText(cell.firstChild.lastChild, n.state);
}

function drawCluster() {
    const c = cluster.answer;
    show($('cluster-part'), c !== null);
    if (!c) return;
    $('cluster-part').dataset.level = isCutOff(c) ? 'bad' : 'warn'; // of what is wrong with the engine
    for (const f of CLUSTER_FACTS) setText(f.value, f.get(c));
    const advice = [c.refused || c.reason, ...c.advice].filter((t) => t !== '');
    const key = JSON.stringify(advice);
    if ($('cluster-advice').shownKey !== key) {
        $('cluster-advice').shownKey = key;
        $('cluster-advice').replaceChildren(
            ...advice.map((text) => {
                const item = el('li');
                showName(item, text, 500);
                return item;
            }),
        );
    }
    tables.nodes.update(c.nodes);
    show($('nodes'), c.nodes.length > 0);
    show($('nodes-empty'), c.nodes.length === 0);
    const note = $('cluster-note');
    if (!note.firstChild) note.append(el('span', '', 'Engine '), el('bdi', 'name'), el('span'));
    showName(note.children[1], c.engine || 'not connected', 80);
    const why = reconnectsText(c);
    setText(
        note.lastChild,
        '. A lease lasts ' +
            duration(c.lease) +
            '; ' +
            plural(c.leases_lost, 'was lost', 'were lost') +
            ', with ' +
            plural(c.connections_closed, 'connection', 'connections') +
            ' closed.' +
            (why ? ' Reconnects: ' + why + '.' : ''),
    );
}

/* ---- in the view of one name ---- */

/*
 * Asks which nodes have units of the name in view. The engine answers that, so nothing else waits for
 * it: it draws itself.
 */
async function askShared(of) {
    if (!cluster.isOn || of.isAskingShared || Date.now() < of.notSharedUntil) return;
    of.isAskingShared = true;
    try {
        const answer = await ask('/api/v1/cluster?name=' + of.id);
        of.shared = answer.name && answer.name.class !== 'own' ? answer : null;
        of.sharedTrouble = '';
        if (!of.shared) of.notSharedUntil = Date.now() + NOT_SHARED_MS;
    } catch (e) {
        if (e instanceof NotFound) {
            of.shared = null;
            of.sharedTrouble = '';
            of.notSharedUntil = Date.now() + NOT_SHARED_MS;
        } else {
            of.sharedTrouble = 'What the nodes have of it is not known while the engine is away.';
        }
    }
    of.isAskingShared = false;
    if (detail === of && !isPaused) drawDetail();
}

/* True: clients of some node hold units of the name in view, or wait for it. */
const isUsedSomewhere = (of) => Boolean(of.shared && (of.shared.name.units || of.shared.name.waits));

function sharedNodeCell(cell, n) {
    setNode(cell, n.node, n.this ? 'this node' : '');
}

function drawShared(of) {
    const answer = of.shared,
        all = answer && answer.name,
        limit = of.answer && of.answer.limit;
    show($('shared-part'), Boolean(all || of.sharedTrouble));
    if (!all && !of.sharedTrouble) return;
    const rows = of.sharedTrouble
        ? []
        : all.nodes.map((n) => Object.assign({of: all.units, this: n.node === answer.node}, n));
    tables.shared.update(rows);
    show($('shared'), rows.length > 0);
    show($('shared-empty'), rows.length === 0);
    setText($('shared-empty'), of.sharedTrouble || 'Nobody holds units of it on any node.');
    setText(
        $('shared-count'),
        of.sharedTrouble
            ? ''
            : all.class +
                  ' · ' +
                  count(all.units) +
                  (limit ? ' of ' + count(limit) : '') +
                  ' in use · ' +
                  count(all.waits) +
                  ' waiting',
    );
}
