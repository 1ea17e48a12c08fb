/*
 * cycle.js - polls the server. Each cycle fetches all that the open view shows, and draws when all
 * answers have arrived, so that the figures belong together. After a failure the intervals grow.
 */

const EVERY_MS = 1000;
const BACKOFF_MS = [1000, 2000, 4000, 8000, 15000];

let timer = 0,
    isAsking = false,
    wantsAgain = false,
    isPaused = false;
let failures = 0,
    trouble = '',
    goodAt = 0,
    nextAt = 0,
    countTimer = 0;

function wake() {
    clearTimeout(timer);
    if (isPaused || document.hidden) return;
    if (isAsking) wantsAgain = true;
    else cycle();
}

async function cycle() {
    isAsking = true;
    wantsAgain = false;
    const started = performance.now();
    let isOk = true;
    try {
        await askAll();
        if (!isPaused) drawAll();
        failures = 0;
        trouble = '';
        goodAt = Date.now();
    } catch (e) {
        isOk = false;
        failures++;
        trouble = e instanceof Trouble ? e.message : 'The daemon’s answer can’t be read.';
        if (!(e instanceof Trouble)) console.error(e);
    }
    isAsking = false;
    if (!isPaused && !document.hidden) {
        const wait =
            wantsAgain && isOk
                ? 0
                : isOk
                  ? Math.max(50, EVERY_MS - (performance.now() - started))
                  : BACKOFF_MS[Math.min(failures, BACKOFF_MS.length) - 1];
        nextAt = Date.now() + wait;
        timer = setTimeout(cycle, wait);
    }
    drawLink();
}

/* Fetches all that the open view shows. Draws nothing before all answers are there. */
async function askAll() {
    const here = route;
    const [newStats, part] = await Promise.all([
        ask('/api/v1/stats'),
        ask(
            '/api/v1/history?seconds=' +
                past.wanted(stats ? stats.now + (Date.now() - goodAt) / 1000 : 0),
        ),
    ]);
    if (stats && stats.started !== newStats.started) {
        past.clear(); // the server was restarted: its history is new
        before = null;
        conns = Object.assign(conns, {cursors: [''], page: 0, again: true});
        pools = {cursors: [''], page: 0, answer: null};
        tubes = {cursors: [''], page: 0, answer: null};
        tubeTotals = new Map();
        forgetJudged();
        past.merge(await ask('/api/v1/history?seconds=' + KEPT_S));
    } else {
        past.merge(part);
    }
    stats = newStats;
    drawRatesFrom(stats);
    if (here.view === 'detail') await askDetail(here.id);
    else if (here.view === 'pool' && pool) await askPool(pool);
    else if (here.view === 'tube' && tube) await askTube(tube);
    else await askOverview();
}

async function askOverview() {
    const wanted = [...new Set(['waiting', 'refused', by])];
    const answers = await Promise.all(
        wanted.map((w) => ask('/api/v1/contended?by=' + w + '&limit=20')),
    );
    wanted.forEach((w, i) => {
        answers[i].names_limit = 20;
        contended[w] = answers[i];
    });
    await askCluster();
    await askPools();
    await askTubes();
    await askJudged();
    feelHeat(contended.waiting.names);
    const row = hottest();
    let answer = null;
    if (row && row.exists && row.id && row.id.length <= ID_MAX) answer = await askName(row.id);
    hot = row ? {row, answer} : null;
    if (conns.again || Date.now() - conns.at >= CONNS_EVERY_MS) await askConns();
}

async function askName(id) {
    try {
        return await ask('/api/v1/names/' + id);
    } catch (e) {
        if (e instanceof NotFound) return null; // the reader has left the view
        throw e;
    }
}

async function askDetail(id) {
    const of = detail;
    if (!of || of.id !== id) return; // the reader has left the view
    await askIfClustered();
    askShared(of);
    const answer = await askName(id);
    if (detail !== of) return;
    detail.answer = answer;
    detail.gone = answer === null;
    detail.history.add(Math.round(stats.now), answer || {in_use: 0, waiting: 0});
}

function drawLink() {
    const state = isPaused ? 'paused' : failures ? 'down' : goodAt ? 'up' : 'wait';
    $('link').dataset.state = state;
    setText(
        $('link-text'),
        {
            paused: 'Paused',
            down: goodAt ? 'Unreachable' : 'Not reached',
            up: 'Live',
            wait: 'Connecting',
        }[state],
    );
    document.body.classList.toggle('stale', state === 'down' && goodAt > 0);
    show($('outage'), state === 'down');
    clearTimeout(countTimer);
    if (state === 'down') {
        setText($('outage-what'), trouble);
        setText(
            $('outage-data'),
            goodAt
                ? 'The figures are from ' + clock(goodAt / 1000) + ', not current.'
                : 'No figures have arrived yet.',
        );
        drawCountdown();
    }
}

function drawCountdown() {
    const left = Math.ceil((nextAt - Date.now()) / 1000);
    setText($('outage-next'), left > 0 ? 'Next try in ' + left + '\u202fs.' : 'Trying…');
    if (failures) countTimer = setTimeout(drawCountdown, 500);
}

function togglePause() {
    isPaused = !isPaused;
    const button = $('pause'),
        label = isPaused ? 'Resume updates' : 'Pause updates';
    button.setAttribute('aria-pressed', String(isPaused));
    button.setAttribute('aria-label', label);
    button.title = label;
    wake();
    drawLink();
}
