/*
 * tube.js - the view of one tube: its figures, its jobs page by page, and one of them with its body,
 * which an operator can kick or delete.
 *
 * Bodies are untrusted bytes. They only ever go into text nodes, with invisible characters spelled
 * out; those that are no text are shown in hexadecimal.
 */

const JOBS_A_PAGE = 50;

const TUBE_FIGURES = [
    {
        label: 'Ready',
        get: (t) => count(t.states.ready),
        sub: (t) =>
            t.oldest_ready_seconds === null
                ? 'nothing'
                : 'oldest ' + duration(t.oldest_ready_seconds),
    },
    {
        label: 'Reserved',
        get: (t) => count(t.states.reserved),
        sub: (t) => plural(t.waiting, 'client waits', 'clients wait'),
    },
    {
        label: 'Delayed',
        get: (t) => count(t.states.delayed),
        sub: (t) => rate(tubeRate(t, 'puts')) + '\u202f/s put',
    },
    {
        label: 'Buried',
        get: (t) => count(buriedIn(t.states)),
        sub: (t) => count(t.states.abandoned) + ' out of tries',
        alarm: (t) => buriedIn(t.states) > 0,
    },
];

/* ---- tables ---- */

function jobCell(cell, j) {
    if (!cell.firstChild) {
        const button = el('button', 'button');
        button.type = 'button';
        button.addEventListener('click', () => openJob(button.job));
        cell.append(button);
    }
    const button = cell.firstChild;
    button.job = j.id;
    setText(button, String(j.id));
    setAttr(button, 'aria-label', 'Show job ' + j.id);
    setAttr(button, 'aria-expanded', String(tube !== null && tube.job === j.id));
}

function jobStateCell(cell, j) {
    if (!cell.firstChild) {
        const sample = svg('svg', {viewBox: '0 0 10 10', width: 10, height: 10, 'aria-hidden': 'true'});
        const box = el('span', 'state');
        sample.append(svg('rect', {width: 10, height: 10, rx: 2}));
        box.append(sample, el('span'));
        cell.append(box);
    }
    setAttr(cell.firstChild.firstChild.firstChild, 'class', 'job-' + j.state);
    setText(cell.firstChild.lastChild, j.state);
}

function makeTubeTables() {
    tables.jobs = new Rows(
        $('jobs'),
        [
            {head: true, cls: '', set: jobCell},
            {label: 'State', cls: '', set: jobStateCell},
            num('Priority', (j) => count(j.pri)),
            num('Age', (j) => duration(j.age_seconds)),
            num('Left', (j) => duration(j.left_seconds)),
            num('Tries', (j) => count(j.tries)),
            num('Timeouts', (j) => count(j.timeouts)),
            num('Releases', (j) => count(j.releases)),
            num('Body', (j) => bytes(j.body_bytes)),
        ],
        (j) => j.id,
    );
}

/* ---- bodies ---- */

const UNSEEN_IN_BODY = new RegExp(
    '(?:(?![\\n\\t])[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\p{Cs}\\p{Co}\\p{Cn}' +
        '\\u034f\\u115f\\u1160\\u2800\\u3164\\uffa0\\ufe00-\\ufe0f\\u{e0100}-\\u{e01ef}]' +
        '|(?! )\\p{Zs}|(?<=\\p{M}{3})\\p{M})+',
    'gu',
);

function showText(node, text) {
    let at = 0;
    for (const found of text.matchAll(UNSEEN_IN_BODY)) {
        if (found.index > at) node.append(text.slice(at, found.index));
        const codes = Array.from(
            found[0],
            (c) => 'U+' + c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0'),
        );
        node.append(el('bdi', 'unseen', codes.join(' ')));
        at = found.index + found[0].length;
    }
    if (at < text.length) node.append(text.slice(at));
}

/* Lines of 16 bytes: where they are, in hexadecimal, and those that are printable ASCII. */
function hexText(binary) {
    const lines = [];
    for (let at = 0; at < binary.length; at += 16) {
        const part = binary.slice(at, at + 16);
        const hex = Array.from(part, (c) => c.charCodeAt(0).toString(16).padStart(2, '0'));
        lines.push(
            at.toString(16).padStart(5, '0') +
                '  ' +
                hex.join(' ').padEnd(48) +
                ' ' +
                part.replace(/[^ -~]/g, '.'),
        );
    }
    return lines.join('\n');
}

function showBody(node, job) {
    const key = job.id + job.encoding + job.cut + job.body;
    if (node.shownBody === key) return;
    node.shownBody = key;
    node.replaceChildren();
    if (job.encoding === 'text') showText(node, job.body);
    else node.append(hexText(atob(job.body)));
    if (job.body_bytes === 0) node.append(el('span', 'soft', '(empty)'));
}

/* ---- drawing ---- */

function tubeLevel(t) {
    const closed = closedText(t);
    if (closed) return ['warn', closed[0].toUpperCase() + closed.slice(1)];
    if (buriedIn(t.states) > 0)
        return ['warn', plural(buriedIn(t.states), 'job is buried', 'jobs are buried')];
    if (t.states.ready > 0) return ['ok', plural(t.states.ready, 'job is ready', 'jobs are ready')];
    return ['ok', 'No job is ready'];
}

function drawTube() {
    const t = tube.answer && tube.answer.tube;
    const name = t ? t.name : idToName(tube.id);
    showName($('tube-head'), name, 0);
    document.title = nameText(name, 60) + ' · counterd';
    const [level, text] = tube.gone
        ? ['ok', 'There is no such tube now']
        : t
          ? tubeLevel(t)
          : ['wait', 'Reading'];
    $('tube-named').dataset.level = level;
    setText($('tube-level'), text);
    show($('tube-about'), Boolean(t));
    if (t) {
        const settings = Object.entries(t.settings).filter(([, value]) => value !== '');
        showName($('tube-about'), settings.map(([k, v]) => k + '=' + v).join('  '), 0);
    }
    for (const f of TUBE_FIGURES) {
        setText(f.value, t ? f.get(t) : '–');
        setText(f.below, t ? f.sub(t) : '');
        f.box.dataset.alarm = t && f.alarm && f.alarm(t) ? 'warn' : '';
    }
    drawJobs();
    drawJob();
}

function drawJobs() {
    const list = tube.jobs ? tube.jobs.jobs : [],
        next = tube.jobs ? tube.jobs.next : null;
    tables.jobs.update(list);
    show($('jobs'), list.length > 0);
    show($('jobs-empty'), list.length === 0);
    tube.cursors[tube.page + 1] = next;
    $('jobs-next').disabled = next === null;
    $('jobs-back').disabled = tube.page === 0;
    setText($('jobs-where'), 'Page ' + (tube.page + 1));
}

function drawJob() {
    const job = tube.shown;
    show($('job'), tube.job !== null);
    if (tube.job === null) return;
    setText($('job-head'), 'Job ' + tube.job);
    setText(
        $('job-about'),
        !job
            ? tube.jobGone
                ? 'There is no such job now.'
                : 'Reading'
            : [
                  job.state,
                  'priority ' + count(job.pri),
                  'put ' + duration(job.age_seconds) + ' ago',
                  'time to run ' + duration(job.ttr_seconds),
                  plural(job.reserves, 'reservation', 'reservations'),
                  plural(job.timeouts, 'timeout', 'timeouts'),
                  plural(job.releases, 'release', 'releases'),
                  plural(job.buries, 'burial', 'burials'),
                  plural(job.kicks, 'kick', 'kicks'),
              ].join(' · '),
    );
    show($('job-body'), Boolean(job));
    if (job) showBody($('job-body'), job);
    show($('job-cut'), Boolean(job) && job.cut);
    if (job && job.cut)
        setText($('job-cut'), 'Only the beginning of ' + bytes(job.body_bytes) + ' is shown.');
    show($('job-order'), mayOperate && Boolean(job));
    if (!job) return;
    $('job-kick').disabled = job.state === 'ready' || job.state === 'reserved';
    $('job-delete').disabled = job.state === 'reserved';
}

/* ---- asking ---- */

function jobsPath(of) {
    const after = of.cursors[of.page];
    return (
        '/api/v1/jobs?tube=' +
        of.id +
        '&state=' +
        of.state +
        '&limit=' +
        JOBS_A_PAGE +
        (after ? '&after=' + after : '')
    );
}

/* The answer, or null if there is no such thing. */
async function askMaybe(path) {
    try {
        return await ask(path);
    } catch (e) {
        if (e instanceof NotFound) return null;
        throw e;
    }
}

async function askTube(of) {
    const wanted = jobsPath(of),
        job = of.job;
    if (!of.isOpen) {
        of.isOpen = true;
        await askOperable();
    }
    const [answer, list, shown] = await Promise.all([
        askMaybe('/api/v1/tubes/' + of.id),
        askMaybe(wanted),
        job === null ? null : askMaybe('/api/v1/jobs/' + job),
    ]);
    if (tube !== of) return;
    of.answer = answer;
    of.gone = answer === null;
    if (answer) noteTotals([answer.tube]);
    if (wanted === jobsPath(of)) of.jobs = list;
    if (job === of.job) {
        of.shown = shown && shown.job;
        of.jobGone = shown === null;
    }
}

function turnJobs(to) {
    tube.page = to;
    tube.jobs = null;
    wake();
}

function chooseJobs() {
    tube.state = $('jobs-of').value;
    tube.cursors = [''];
    turnJobs(0);
}

/* Shows a job, or no more if it is shown. */
function openJob(id) {
    tube.job = tube.job === id ? null : id;
    tube.shown = null;
    tube.jobGone = false;
    setText($('job-said'), '');
    $('job-token').value = token;
    drawTube();
    if (tube.job !== null) $('job-head').focus();
    wake();
}

async function sendJobOrder(e) {
    e.preventDefault();
    const what = e.submitter === $('job-delete') ? 'delete' : 'kick',
        sent = tube.job;
    token = $('job-token').value;
    setText($('job-said'), 'Sending…');
    try {
        await post('/api/v1/jobs/' + sent + '/' + what);
        if (tube && tube.job === sent) {
            setText($('job-said'), what === 'kick' ? 'It was kicked.' : '');
            if (what === 'delete') openJob(sent);
        }
        wake();
    } catch (failure) {
        setText($('job-said'), failure.message);
    }
}
