/*
 * verdict.js - the verdict at the top of the overview: are names contended, which one most, since
 * when, and its holders and waiters.
 */

/*
 * The Unix second since which some client has always been waiting, without a gap of five seconds;
 * null if none waits. `whole`: it began before the known history.
 */
function waitingSince() {
    const data = past.data.waiting;
    let free = 0,
        oldest = null;
    for (let i = KEPT_S - 1; i >= 0; i--) {
        if (data[i] === null) return oldest === null ? null : {at: oldest, whole: false};
        free = data[i] > 0 ? 0 : free + 1;
        if (free >= 5) return oldest === null ? null : {at: oldest, whole: false};
        if (data[i] > 0) oldest = Math.round(past.end) - (KEPT_S - 1 - i);
    }
    return oldest === null ? null : {at: oldest, whole: true};
}

/*
 * The number of waiters of each listed name in the last seconds, as the page saw it. The server's
 * waiting_load is an average over minutes: it would keep a name on top long after its rush.
 */
let heat = new Map();

function feelHeat(names) {
    const newer = new Map();
    for (const n of names) {
        const old = heat.has(n.name) ? heat.get(n.name) : n.waiting;
        newer.set(n.name, Math.max(n.waiting, 0.75 * old + 0.25 * n.waiting));
    }
    heat = newer;
}

const heatOf = (row) => heat.get(row.name) || 0;
const isHot = (row) => heatOf(row) >= 0.1;

/* The name for the verdict: the one with most waiters, or else the one with most refusals. */
function hottest() {
    const waiting = contended.waiting.names.filter(isHot);
    if (waiting.length) return waiting.reduce((a, b) => (heatOf(b) > heatOf(a) ? b : a));
    const refused = contended.refused.names.filter((n) => n.refused_per_second >= 0.01);
    return refused.length && past.highest('refused', 60) > 0 ? refused[0] : null;
}

const LEVELS = {
    ok: 'All clear',
    warn: 'Contended',
    bad: 'Contended, clients are turned away',
    wait: 'Reading',
};

function judge(row) {
    if (storeFails() || isCutOff()) return 'bad';
    const refused = past.mean('refused', 60) || 0,
        late = past.mean('timed_out', 60) || 0;
    if (!row) return refused + late > 0 ? 'warn' : 'ok';
    return refused + late > 0 && isHot(row) ? 'bad' : 'warn';
}

/* Says how many requests were refused in the last 60 seconds, over all names. */
function turnedAway() {
    const times = (name) => Math.round(past.last(name, 60).reduce((sum, x) => sum + (x || 0), 0));
    const refused = times('refused'),
        late = times('timed_out');
    const texts = [
        refused ? plural(refused, 'request was refused', 'requests were refused') : '',
        late ? plural(late, 'wait timed out', 'waits timed out') : '',
    ];
    const text = texts.filter((t) => t !== '').join(' and ');
    return text ? 'In the last 60 seconds ' + text + '.' : '';
}

const waitingInPools = () => (hasPools() ? stats.resources.pools.waiting : 0);

function aboutPools() {
    const n = waitingInPools();
    return n ? plural(n, 'request waits', 'requests wait') + ' for members of pools.' : '';
}

const aboutStore = () =>
    storeFails() ? 'New jobs are refused; the log says why jobs.path cannot be written.' : '';

let saidLevel = null;

function drawVerdict() {
    const row = hot && hot.row,
        level = judge(row),
        box = $('verdict');
    box.dataset.level = level;
    const label = storeFails()
        ? 'Jobs cannot be written'
        : isCutOff()
          ? 'Limits are not shared'
          : level !== 'warn'
            ? LEVELS[level]
            : row && isHot(row)
              ? LEVELS.warn
              : 'Clients are turned away';
    setText($('verdict-level'), label);
    if (row) drawHot(row);
    else drawCalm(level);
    show($('verdict-facts'), Boolean(row));
    const who = hot && hot.answer;
    show($('verdict-who'), Boolean(who && (who.holders.length || who.waiters.length)));
    if (who) {
        drawHosts($('v-holders'), who.holders, who.holders_total, 'nobody now');
        drawHosts($('v-waiters'), who.waiters, who.waiting, 'nobody now');
    }
    const told = label + '. ' + $('verdict-head').textContent;
    if (saidLevel !== null && saidLevel !== told) say(told);
    saidLevel = told;
}

function drawCalm(level) {
    const head = $('verdict-head');
    if (head.firstElementChild) head.replaceChildren();
    setText(
        head,
        waitingInPools()
            ? 'No name is contended now.'
            : level === 'ok'
              ? 'Nothing waits. No name is contended.'
              : 'Nothing waits now.',
    );
    const lately = contended.waiting.names.find((n) => n.waiting_load >= 0.1);
    const texts = [
        aboutStore(),
        aboutCluster(),
        aboutPools(),
        turnedAway(),
        lately ? 'Until recently clients waited for ' + nameText(lately.name, 60) + '.' : '',
    ];
    if (past.highest('requests', 60) > 0)
        texts.push(
            level === 'ok' && !lately ? 'Every request that asked for units got them at once.' : '',
        );
    else texts.push('No request has arrived in the last 60 seconds.');
    setText($('verdict-text'), texts.filter((t) => t !== '').join(' '));
}

function drawHot(row) {
    const head = $('verdict-head');
    if (!head.firstElementChild) head.replaceChildren(el('span'));
    nameLink(head.firstElementChild, row);
    const others = Math.max(
        (contended.waiting.names || []).filter((n) => n.waiting > 0 && n.name !== row.name).length,
        0,
    );
    const waits = isHot(row);
    const texts = [
        aboutStore(),
        aboutCluster(),
        row.truncated ? 'Only the start of this name is known.' : '',
        turnedAway(),
        aboutPools(),
        waits && others
            ? 'Clients wait for ' +
              (others >= 19 ? 'at least ' : '') +
              plural(others, 'other name', 'other names') +
              ', too.'
            : '',
    ];
    setText($('verdict-text'), texts.filter((t) => t !== '').join(' '));
    setText($('v-waiting'), count(row.waiting));
    setText(
        $('v-use'),
        row.limit ? count(row.in_use) + ' of ' + count(row.limit) : count(row.in_use),
    );
    const first = hot.answer && hot.answer.waiters[0];
    setText($('v-longest'), first ? duration(first.waited_seconds) : '–');
    setText($('v-refused'), rate(row.refused_per_second) + '\u202f/s');
    const since = waits ? waitingSince() : null;
    const span = since ? longTime(Math.max(stats.now - since.at, 1)) : '';
    setText(
        $('v-since'),
        since ? (since.whole ? 'before ' : '') + clock(since.at, !since.whole) : '–',
    );
    setText($('v-span'), since && since.whole ? 'over ' + span : span);
}
