/* tubes.js - the overview's table of tubes of jobs, one page at a time, with rates. */

const TUBES_A_PAGE = 20;

/* Rates are over the last ten seconds of known values. */
const TUBE_RATES_S = 10;

/* True: the job queues are served, and some tube was used since the start. */
function hasTubes() {
    const all = stats && stats.resources && stats.resources.tubes;
    if (!all || !stats.protocols.some((p) => p.name === 'jobs' && p.enabled)) return false;
    return all.draining || all.tubes > 1 || all.puts + jobsIn(all) > 0;
}

/* What keeps the jobs on disk; null: nothing does. */
function jobStore() {
    const store = stats && stats.resources && stats.resources['job store'];
    return store && store.enabled ? store : null;
}

const buriedIn = (states) => states.buried + states.abandoned;
const jobsIn = (states) => states.ready + states.delayed + states.reserved + buriedIn(states);

/* ---- rates ---- */

let tubeTotals = new Map(); // id -> [{at, puts, acks}], oldest first

/* Notes the totals of these tubes; forgets those of all others. */
function noteTotals(list) {
    const kept = new Map();
    for (const t of list) {
        let past = tubeTotals.get(t.id) || [];
        const last = past[past.length - 1];
        // A tube that was made anew begins again.
        if (last && (t.totals.puts < last.puts || t.totals.acks < last.acks)) past = [];
        while (past.length > 1 && stats.now - past[1].at >= TUBE_RATES_S) past.shift();
        if (!last || stats.now > last.at)
            past.push({at: stats.now, puts: t.totals.puts, acks: t.totals.acks});
        kept.set(t.id, past);
    }
    tubeTotals = kept;
}

function tubeRate(t, key) {
    const past = tubeTotals.get(t.id) || [];
    if (past.length < 2) return null;
    const first = past[0],
        last = past[past.length - 1];
    return (last[key] - first[key]) / (last.at - first.at);
}

/* ---- the table ---- */

function tubesPath() {
    const cursor = tubes.cursors[tubes.page];
    return '/api/v1/tubes?limit=' + TUBES_A_PAGE + (cursor ? '&cursor=' + cursor : '');
}

function makeTubesTable() {
    tables.tubes = new Rows(
        $('tubes'),
        [
            {head: true, cls: 'wide', set: tubeLink},
            num('Ready', (t) => count(t.states.ready)),
            num('Reserved', (t) => count(t.states.reserved)),
            num('Delayed', (t) => count(t.states.delayed)),
            num('Buried', (t) => count(buriedIn(t.states))),
            num('Waiting', (t) => count(t.waiting)),
            num('Oldest ready', (t) => duration(t.oldest_ready_seconds)),
            num('Put /s', (t) => rate(tubeRate(t, 'puts'))),
            num('Done /s', (t) => rate(tubeRate(t, 'acks'))),
        ],
        (t) => t.id,
    );
}

/* "paused for 5 s", "read-only", or nothing. */
function closedText(t) {
    const texts = [];
    if (t.pause_left_seconds > 0) texts.push('paused for ' + longTime(t.pause_left_seconds));
    else if (t.pause_seconds > 0) texts.push('paused');
    if (t.settings.read_only !== '') texts.push('read-only');
    return texts.join(', ');
}

function tubeLink(cell, t) {
    if (!cell.firstChild) {
        const link = el('a', 'name');
        link.append(el('bdi'));
        cell.append(link, el('small', 'soft'));
    }
    setAttr(cell.firstChild, 'href', '#/tube/' + t.id);
    showName(cell.firstChild.firstChild, t.name, 84);
    setText(cell.lastChild, closedText(t));
    show(cell.lastChild, cell.lastChild.textContent !== '');
}

function drawTubes() {
    show($('tubes-part'), hasTubes());
    const answer = tubes.answer;
    if (!answer || !hasTubes()) return;
    const all = stats.resources.tubes;
    tables.tubes.update(answer.tubes);
    setText(
        $('tubes-note'),
        plural(all.tubes, 'tube', 'tubes') +
            ' with ' +
            plural(jobsIn(all), 'job', 'jobs') +
            ', in ' +
            bytes(all.memory_bytes) +
            ' of at most ' +
            bytes(all.memory_limit_bytes) +
            '.' +
            (jobStore() ? ' Their file has ' + bytes(jobStore().file_bytes) + '.' : '') +
            (all.draining ? ' They are being drained: no new jobs are taken.' : ''),
    );
    tubes.cursors[tubes.page + 1] = answer.cursor;
    show($('tubes-pager'), tubes.page > 0 || answer.cursor !== null);
    $('tubes-next').disabled = !answer.cursor;
    $('tubes-back').disabled = tubes.page === 0;
    setText($('tubes-where'), 'Page ' + (tubes.page + 1));
}

async function askTubes() {
    if (!hasTubes()) {
        tubes = {cursors: [''], page: 0, answer: null};
        return;
    }
    const wanted = tubesPath(),
        answer = await ask(wanted);
    if (wanted !== tubesPath()) return;
    tubes.answer = answer;
    noteTotals(answer.tubes);
}

function turnTubes(to) {
    tubes.page = to;
    tubes.answer = null;
    wake();
}
