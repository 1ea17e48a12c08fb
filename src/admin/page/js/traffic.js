/*
 * traffic.js - requests and durations: percentiles, requests by outcome, and rates computed from two
 * answers.
 */

const DURATIONS = [
    ['waits', 'Waits'],
    ['holds', 'Holdings'],
    ['answers', 'Answers'],
];
const WAITED = [
    ['granted', 'Waits, granted'],
    ['done', 'Waits, done by others'],
    ['timed_out', 'Waits, timed out'],
    ['cancelled', 'Waits, cancelled'],
];

function drawDurations() {
    const sections = [
        {
            key: '',
            title: 'All, last ' + Math.round(stats.recent.window_seconds) + ' seconds',
            rows: DURATIONS.map(([key, label]) => Object.assign({label}, stats.recent[key])),
        },
    ];
    for (const p of stats.protocols) {
        const rows = [];
        for (const [key, label] of WAITED)
            if (p.waits && p.waits[key] && p.waits[key].count)
                rows.push(Object.assign({label}, p.waits[key]));
        rows.push(
            Object.assign({label: 'Holdings'}, p.holds),
            Object.assign({label: 'Answers'}, p.answers),
        );
        if (p.enabled || p.answers.count)
            sections.push({key: p.name, title: p.name + ', since the start', rows});
    }
    tables.durations.update(sections);
}

function drawRequests() {
    const sections = [];
    for (const p of stats.protocols) {
        if (!p.requests.length) continue;
        const all = p.requests.reduce((n, r) => n + r.count, 0);
        sections.push({
            key: p.name,
            title: p.name,
            rows: p.requests.map((r) => ({
                key: r.verb + ' ' + r.outcome,
                label: r.verb,
                outcome: r.outcome,
                count: r.count,
                rate: rates.has(p.name + r.verb + r.outcome)
                    ? rates.get(p.name + r.verb + r.outcome)
                    : null,
                share: r.count / all,
            })),
        });
    }
    tables.requests.update(sections);
    show($('requests'), sections.length > 0);
    show($('requests-empty'), sections.length === 0);
}

/* Rates of counters that only rise, over the last ten seconds of known values. */
function drawRatesFrom(now) {
    if (before === null || before[0].started !== now.started) before = [now];
    while (before.length > 1 && now.now - before[1].now >= 10) before.shift();
    const old = before[0],
        span = now.now - old.now;
    before.push(now);
    if (span < 0.5) return;
    rates = new Map();
    for (const p of now.protocols) {
        const earlier = old.protocols.find((q) => q.name === p.name) || {requests: []};
        for (const r of p.requests) {
            const was = earlier.requests.find((q) => q.verb === r.verb && q.outcome === r.outcome);
            rates.set(p.name + r.verb + r.outcome, (r.count - (was ? was.count : 0)) / span);
        }
    }
    busyShares = new Map();
    for (const w of now.workers) {
        const was = old.workers.find((q) => q.worker === w.worker);
        if (was)
            busyShares.set(w.worker, [
                (w.busy_seconds - was.busy_seconds) / span,
                (w.cpu_seconds - was.cpu_seconds) / span,
            ]);
    }
}
