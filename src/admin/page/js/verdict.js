/*
 * verdict.js - the verdict at the top of the overview: the worst finding (judge.js), for a contended name
 * also since when, and its holders and waiters; below it, the other findings.
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

const SIGNS = {bad: 'Alarm', warn: 'Warning', note: 'Note'}; // for screen readers

let saidVerdict = null;

function drawVerdict() {
    const found = judge(factsNow()),
        worst = found[0],
        row = (worst && worst.place.row) || null;
    $('verdict').dataset.level = worst ? worst.level : 'ok';
    setText($('verdict-level'), worst ? worst.title : 'All clear');
    if (worst) placeLink(verdictHead('span'), worst.place);
    else setText(verdictHead(), 'Nothing waits. No name is contended.');
    setText($('verdict-text'), worst ? worst.text : calmText());
    show($('verdict-facts'), Boolean(row));
    if (row) drawFacts(row);
    const who = row && hot.answer;
    show($('verdict-who'), Boolean(who && (who.holders.length || who.waiters.length)));
    if (who) {
        drawHosts($('v-holders'), who.holders, who.holders_total, 'nobody now');
        drawHosts($('v-waiters'), who.waiters, who.waiting, 'nobody now');
    }
    drawFindings(found.slice(1));
    // Not the figures, which change all the time.
    const told = found.length
        ? found.map((f) => f.title + ': ' + placeText(f.place)).join('. ')
        : 'All clear';
    if (saidVerdict !== null && saidVerdict !== told) say(told);
    saidVerdict = told;
    return found;
}

/* The heading: itself for a sentence, or a part of it for a place. */
function verdictHead(tag) {
    const head = $('verdict-head');
    if (Boolean(head.firstElementChild) !== Boolean(tag)) head.replaceChildren(...(tag ? [el(tag)] : []));
    return tag ? head.firstElementChild : head;
}

const placeText = (place) => nameText(place.row ? place.row.name : place.name, 60);

/* A link to what a finding is about, or its name if it has no place on the page. */
function placeLink(cell, place) {
    const kind = place.row ? 'row' : place.href ? 'link' : 'text';
    if (cell.dataset.kind !== kind) {
        cell.dataset.kind = kind;
        cell.replaceChildren();
    }
    if (place.row) return nameLink(cell, place.row);
    if (!cell.firstChild) {
        const box = el(place.href ? 'a' : 'span', 'name');
        box.append(el('bdi'));
        cell.append(box);
    }
    if (place.href) setAttr(cell.firstChild, 'href', place.href);
    showName(cell.firstChild.firstChild, place.name, 84);
}

function drawFindings(found) {
    const list = $('verdict-more');
    show(list, found.length > 0);
    while (list.children.length > found.length) list.lastChild.remove();
    while (list.children.length < found.length) {
        const item = el('li'),
            what = el('p', 'finding'),
            mark = el('span', 'level-mark');
        mark.setAttribute('aria-hidden', 'true');
        what.append(mark, el('span', 'hide'), el('strong'), el('span', 'finding-place'));
        item.append(what, el('p', 'finding-text'));
        list.append(item);
    }
    found.forEach((f, i) => {
        const [what, text] = list.children[i].children;
        list.children[i].dataset.level = f.level;
        setText(what.children[1], SIGNS[f.level] + ': ');
        setText(what.children[2], f.title);
        placeLink(what.children[3], f.place);
        setText(text, f.text);
    });
}

/* What there is to say when all is clear. */
function calmText() {
    const lately = contended.waiting.names.find((n) => n.waiting_load >= 0.1);
    if (lately) return 'Until recently clients waited for ' + nameText(lately.name, 60) + '.';
    return past.highest('requests', 60) > 0
        ? 'Every request that asked for units got them at once.'
        : 'No request has arrived in the last 60 seconds.';
}

function drawFacts(row) {
    setText($('v-waiting'), count(row.waiting));
    setText(
        $('v-use'),
        row.limit ? count(row.in_use) + ' of ' + count(row.limit) : count(row.in_use),
    );
    const first = hot.answer && hot.answer.waiters[0];
    setText($('v-longest'), first ? duration(first.waited_seconds) : '–');
    setText($('v-refused'), rate(row.refused_per_second) + '\u202f/s');
    const since = isHot(row) ? waitingSince() : null;
    const span = since ? longTime(Math.max(stats.now - since.at, 1)) : '';
    setText(
        $('v-since'),
        since ? (since.whole ? 'before ' : '') + clock(since.at, !since.whole) : '–',
    );
    setText($('v-span'), since && since.whole ? 'over ' + span : span);
}
