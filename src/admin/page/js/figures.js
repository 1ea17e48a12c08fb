/* figures.js - the overview's key figures and their small curves, and the list of its charts. */

const FIGURES = [
    {key: 'requests', label: 'Requests', per: '/s'},
    {key: 'granted', label: 'Granted', per: '/s'},
    {key: 'refused', label: 'Refused', per: '/s', alarm: 'bad'},
    {key: 'timed_out', label: 'Timed out', per: '/s', alarm: 'bad'},
    {key: 'waiting', label: 'Waiting now', now: (s) => s.waiting, alarm: 'warn'},
    {key: 'units', label: 'Units in use', now: (s) => s.units},
    {key: 'names', label: 'Names', now: (s) => s.names},
    {
        key: 'connections',
        label: 'Connections',
        now: (s) => s.protocols.reduce((n, p) => n + p.connections.open, 0),
    },
];

function makeFigures(list, parent) {
    for (const f of list) {
        f.box = el('div', 'card figure');
        f.value = el('span', 'value');
        f.below = el('dd', 'sub');
        const dd = el('dd', 'big');
        dd.append(f.value);
        if (f.per) dd.append(el('span', 'per', f.per));
        f.box.append(el('dt', '', f.label), dd, f.below);
        if (f.key) {
            f.spark = svg('svg', {
                class: 'spark',
                viewBox: '0 0 100 24',
                preserveAspectRatio: 'none',
                'aria-hidden': 'true',
            });
            f.spark.append(svg('path', {class: 'spark-area'}), svg('path', {class: 'spark-line'}));
            f.box.append(f.spark);
        }
        parent.append(f.box);
    }
}

function drawSpark(f) {
    const data = past.last(f.key, range),
        max = Math.max(past.highest(f.key, range) || 0, 1e-9);
    let line = '',
        area = '',
        from = null;
    data.forEach((v, i) => {
        const x = ((i * 100) / (range - 1)).toFixed(2);
        if (v === null) {
            if (from !== null) area += 'V24Z';
            from = null;
            return;
        }
        const at = x + ' ' + (22.5 - (20 * v) / max).toFixed(1);
        line += (from === null ? 'M' : 'L') + at;
        area += (from === null ? 'M' + x + ' 24L' : 'L') + at;
        from = x;
    });
    if (from !== null) area += 'V24Z';
    setAttr(f.spark.firstChild, 'd', area);
    setAttr(f.spark.lastChild, 'd', line);
}

function drawFigures() {
    for (const f of FIGURES) {
        // Rates cover the last five seconds: steady enough to read, and still current.
        const v = f.now ? f.now(stats) : past.mean(f.key, 5);
        setText(f.value, f.now ? count(v) : rate(v));
        const sub = f.now
            ? 'peak ' + count(Math.max(past.highest(f.key, range) || 0, v))
            : '60\u202fs mean ' + rate(past.mean(f.key, 60));
        setText(f.below, sub);
        f.box.dataset.alarm = f.alarm && v > 0 ? f.alarm : '';
        drawSpark(f);
    }
}

const OVERVIEW_CHARTS = [
    {
        key: 'queue',
        title: 'Waiting clients',
        unit: 'count',
        empty: 'Nothing waits',
        series: [{key: 'waiting', label: 'waiting', cls: 's2', fill: true}],
    },
    {
        key: 'wait',
        title: 'Time waited',
        unit: 'seconds',
        empty: 'Nothing waited',
        series: [
            {key: 'wait_p50_seconds', label: 'p50', cls: 's1'},
            {key: 'wait_p99_seconds', label: 'p99', cls: 's2 dash'},
            {key: 'wait_max_seconds', label: 'longest', cls: 's4 dash'},
        ],
    },
    {
        key: 'refusals',
        title: 'Refused and timed out, per second',
        unit: 'rate',
        empty: 'Nothing refused',
        series: [
            {key: 'refused', label: 'refused', cls: 's2'},
            {key: 'timed_out', label: 'timed out', cls: 's4 dash'},
        ],
    },
    {
        key: 'rates',
        title: 'Requests and grants, per second',
        unit: 'rate',
        empty: 'No requests',
        series: [
            {key: 'requests', label: 'requests', cls: 's1'},
            {key: 'granted', label: 'granted', cls: 's3 dash'},
        ],
    },
    {
        key: 'connections',
        title: 'Connections',
        unit: 'count',
        empty: 'No connections',
        series: [{key: 'connections', label: 'open', cls: 's1', fill: true}],
    },
    {
        key: 'busy',
        title: 'Workers busy',
        unit: 'share',
        series: [{key: 'busy', label: 'of their time', cls: 's3', fill: true}],
    },
];
