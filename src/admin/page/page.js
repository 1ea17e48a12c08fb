/*
 * page.js - the status page: asks the API once a second and shows what is contended, by whom, how
 * badly and since when.
 *
 * The server owns all figures; the page keeps only the last 600 seconds of history and what it
 * needs to tell rates. One cycle (`cycle`) asks for what the open view shows and draws it when all
 * of it has come, so that the figures of a view belong together. Names are untrusted bytes: they
 * are only ever put into text nodes, and what cannot be seen in them is spelled out (`showName`).
 * Nothing here writes to the server, and nothing needs more than the page's own origin.
 */
(function () {
'use strict';

const KEPT_S = 600; // what the server keeps, too
const EVERY_MS = 1000;
const TIMEOUT_MS = 5000;
const BACKOFF_MS = [1000, 2000, 4000, 8000, 15000];
const CONNS_EVERY_MS = 5000; // connections are asked of the workers: less often
const CONNS_A_PAGE = 20;
const SUMMARY_MS = 15000; // how often the texts of charts for screen readers change
const FOUND_MAX = 12;
const ROWS_SHOWN = 200; // of a name's holders and of its waiters
const ID_MAX = 6000; // longer ones make no useful address

/* --- what is kept in the browser ------------------------------------------------------------- */

function recall(key) {
    try {
        return localStorage.getItem('counterd.' + key);
    } catch (e) {
        return null; // storage is forbidden: the page works without
    }
}

function remember(key, value) {
    try {
        if (value === null) localStorage.removeItem('counterd.' + key);
        else localStorage.setItem('counterd.' + key, value);
    } catch (e) {
        // as above
    }
}

/* --- theme: the system's, until the reader says otherwise ------------------------------------ */

const systemDark = matchMedia('(prefers-color-scheme: dark)');

function themeNow() {
    const said = recall('theme');
    return said === 'dark' || said === 'light' ? said : systemDark.matches ? 'dark' : 'light';
}

function applyTheme() {
    const theme = themeNow();
    document.documentElement.dataset.theme = theme;
    const button = document.getElementById('theme');
    if (button) {
        const label = theme === 'dark' ? 'Use light colours' : 'Use dark colours';
        button.setAttribute('aria-label', label);
        button.title = label;
    }
}

applyTheme();
systemDark.addEventListener('change', applyTheme);

function toggleTheme() {
    const wanted = themeNow() === 'dark' ? 'light' : 'dark';
    // Back at what the system says, the page follows the system again.
    remember('theme', wanted === (systemDark.matches ? 'dark' : 'light') ? null : wanted);
    applyTheme();
}

/* --- the document ---------------------------------------------------------------------------- */

const $ = (id) => document.getElementById(id);
const SVG = 'http://www.w3.org/2000/svg';

function el(tag, cls, text) {
    const node = document.createElement(tag);
    if (cls) node.className = cls;
    if (text !== undefined) node.textContent = text;
    return node;
}

function svg(tag, attributes) {
    const node = document.createElementNS(SVG, tag);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    return node;
}

/* Sets a text only where it differs: selections and screen readers are left in peace. */
function setText(node, text) {
    if (node.textContent !== text) node.textContent = text;
}

function setAttr(node, key, value) {
    if (node.getAttribute(key) !== String(value)) node.setAttribute(key, value);
}

function show(node, is) {
    if (node.hidden === is) node.hidden = !is;
}

/* --- figures for people ---------------------------------------------------------------------- */

function grouped(n) {
    return String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ',');
}

/* Three significant digits and a letter for what is large. */
function compact(n) {
    for (const [size, letter] of [
        [1e12, 'T'],
        [1e9, 'G'],
        [1e6, 'M'],
        [1e3, 'k'],
    ]) {
        if (n >= size * 0.9995) {
            const x = n / size;
            return x.toFixed(x < 9.995 ? 2 : x < 99.95 ? 1 : 0) + '\u202f' + letter;
        }
    }
    return String(Math.round(n));
}

function count(n) {
    return !isFinite(n) || n === null ? '–' : n < 99999.5 ? grouped(n) : compact(n);
}

function rate(n) {
    if (n === null || !isFinite(n)) return '–';
    if (n === 0) return '0';
    if (n < 0.005) return '<0.01';
    if (n < 0.995) return n.toFixed(2);
    if (n < 99.95) return n.toFixed(1);
    return count(n);
}

function duration(s) {
    if (s === null || s === undefined || !isFinite(s)) return '–';
    if (s <= 0) return '0\u202fs';
    const digits = (x) => x.toFixed(x < 9.95 ? 1 : 0);
    if (s < 0.0009995) return digits(s * 1e6) + '\u202fµs';
    if (s < 0.9995) return digits(s * 1e3) + '\u202fms';
    if (s < 59.95) return digits(s) + '\u202fs';
    return longTime(s);
}

function longTime(s) {
    const whole = Math.max(0, Math.floor(s));
    const parts = [
        [86400, 'd'],
        [3600, 'h'],
        [60, 'min'],
        [1, 's'],
    ];
    let i = 0;
    while (i < 3 && whole < parts[i][0]) i++;
    let text = Math.floor(whole / parts[i][0]) + '\u202f' + parts[i][1];
    if (i < 3) {
        const rest = Math.floor((whole % parts[i][0]) / parts[i + 1][0]);
        if (rest) text += ' ' + rest + '\u202f' + parts[i + 1][1];
    }
    return text;
}

function bytes(n) {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let i = 0;
    while (n >= 1023.5 && i < units.length - 1) {
        n /= 1024;
        i++;
    }
    return (
        (i === 0 ? String(Math.round(n)) : n.toFixed(n < 9.95 ? 2 : n < 99.5 ? 1 : 0)) +
        '\u202f' +
        units[i]
    );
}

function share(x) {
    return x === null || !isFinite(x) ? '–' : (x * 100).toFixed(x < 0.0995 ? 1 : 0) + '\u202f%';
}

const two = (n) => String(n).padStart(2, '0');

function clock(unix, withSeconds = true) {
    const d = new Date(unix * 1000);
    return (
        two(d.getHours()) +
        ':' +
        two(d.getMinutes()) +
        (withSeconds ? ':' + two(d.getSeconds()) : '')
    );
}

/* A clock time; with its day where that is not today's. */
function moment(unix, now) {
    const d = new Date(unix * 1000);
    const today = new Date(now * 1000).toDateString() === d.toDateString();
    return (
        (today ? '' : d.toLocaleDateString(undefined, {day: 'numeric', month: 'short'}) + ' ') +
        clock(unix)
    );
}

const plural = (n, one, many) => count(n) + ' ' + (n === 1 ? one : many);

/* --- names ----------------------------------------------------------------------------------- */

/*
 * What the eye cannot tell: controls, what changes the direction of writing, what takes no room,
 * unassigned and private characters, spaces that are not the common one, and more marks on one
 * letter than any script needs.
 */
const UNSEEN = new RegExp(
    '\\\\x[0-9a-f]{2}|\\\\\\\\' + // as the API spells bytes that are no text
        '|[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\p{Cs}\\p{Co}\\p{Cn}' +
        '\\u034f\\u115f\\u1160\\u2800\\u3164\\uffa0\\ufe00-\\ufe0f\\u{e0100}-\\u{e01ef}]' +
        '|(?! )\\p{Zs}|(?<=\\p{M}{3})\\p{M}',
    'giu',
);

/*
 * Puts a name as the API writes it into `node`, in a direction of its own, with what is unseen
 * spelled out: \xNN for bytes, U+NNNN for characters. Beyond `room` characters its middle is left
 * out (ends tell names apart as often as beginnings do).
 */
function showName(node, name, room) {
    const key = room + ':' + name;
    if (node.shownName === key) return;
    node.shownName = key;
    node.replaceChildren();
    const put = (text) => {
        let at = 0;
        for (const found of text.matchAll(UNSEEN)) {
            if (found.index > at) node.append(text.slice(at, found.index));
            const isByte = found[0][0] === '\\';
            const code = found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, '0');
            node.append(el('bdi', 'unseen', isByte ? found[0] : 'U+' + code));
            at = found.index + found[0].length;
        }
        if (at < text.length) node.append(text.slice(at));
    };
    const letters = room && name.length > room ? Array.from(name) : null;
    if (letters && letters.length > room) {
        const tail = Math.floor(room / 3);
        put(letters.slice(0, room - tail).join(''));
        node.append(el('span', 'cut', '…'));
        put(letters.slice(-tail).join(''));
    } else {
        put(name);
    }
    if (name === '') node.append(el('span', 'soft', '(empty)'));
}

/* A name as plain words, for titles and for screen readers' texts. */
function nameText(name, room) {
    const node = el('span');
    showName(node, name, room);
    return node.textContent;
}

/* The id (percent-encoded bytes) of a name written as the API does, or typed in that way. */
function nameToId(text) {
    let id = '';
    for (const part of text.split(/(\\x[0-9a-fA-F]{2}|\\\\)/)) {
        if (/^\\x[0-9a-fA-F]{2}$/.test(part)) {
            const byte = parseInt(part.slice(2), 16);
            const letter = String.fromCharCode(byte);
            id += /[A-Za-z0-9\-._~]/.test(letter) ? letter : '%' + part.slice(2).toUpperCase();
        } else {
            id += encodeURIComponent(
                (part === '\\\\' ? '\\' : part).replace(
                    /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g,
                    '\ufffd',
                ),
            ).replace(/[!'()*]/g, (c) => '%' + c.charCodeAt(0).toString(16).toUpperCase());
        }
    }
    return id;
}

/* The other way: what the API would call the name with this id. */
function idToName(id) {
    const raw = [];
    for (let i = 0; i < id.length; i++) {
        if (id[i] === '%' && /^[0-9a-fA-F]{2}$/.test(id.slice(i + 1, i + 3))) {
            raw.push(parseInt(id.slice(i + 1, i + 3), 16));
            i += 2;
        } else {
            raw.push(...new TextEncoder().encode(id[i]));
        }
    }
    const strict = new TextDecoder('utf-8', {fatal: true, ignoreBOM: true});
    let name = '';
    for (let i = 0; i < raw.length;) {
        const lead = raw[i];
        const len = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
        let letter = null;
        try {
            letter = strict.decode(new Uint8Array(raw.slice(i, i + len)));
        } catch (e) {
            // no UTF-8: the byte itself
        }
        if (letter === null || lead < 0x20 || lead === 0x7f) {
            name += '\\x' + two(lead.toString(16));
            i++;
        } else {
            name += letter === '\\' ? '\\\\' : letter;
            i += len;
        }
    }
    return name;
}

/* A name that leads to its detail; one of which only the beginning is known leads to the search. */
function nameLink(cell, row) {
    if (!cell.firstChild) {
        const link = el('a', 'name');
        link.append(el('bdi'));
        cell.append(link);
    }
    const link = cell.firstChild,
        canOpen = row.id && row.id.length <= ID_MAX;
    setAttr(link, 'href', canOpen ? '#/name/' + row.id : '#/find/' + nameToId(row.name));
    showName(
        link.firstChild,
        row.truncated ? row.name.slice(0, 84) + '…' : row.name,
        row.truncated ? 0 : 84,
    );
    link.title = row.truncated
        ? 'Only the beginning of this name is known: look for it'
        : nameText(row.name, 500);
}

/* --- asking ---------------------------------------------------------------------------------- */

class Trouble extends Error {} // what the reader is told
class NotFound extends Error {}

async function ask(path, signal) {
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(), TIMEOUT_MS);
    const stop = () => limit.abort();
    if (signal) signal.addEventListener('abort', stop);
    try {
        let answer;
        try {
            answer = await fetch(path, {cache: 'no-store', signal: limit.signal});
        } catch (e) {
            throw new Trouble(
                limit.signal.aborted
                    ? 'The daemon does not answer.'
                    : 'The daemon can’t be reached.',
            );
        }
        if (answer.status === 404) throw new NotFound();
        if (!answer.ok) throw new Trouble('The daemon answers with error ' + answer.status + '.');
        try {
            return await answer.json();
        } catch (e) {
            throw new Trouble(
                limit.signal.aborted
                    ? 'The daemon does not answer.'
                    : 'The daemon’s answer can’t be read.',
            );
        }
    } finally {
        clearTimeout(timer);
        if (signal) signal.removeEventListener('abort', stop);
    }
}

/* --- history: the last 600 seconds, oldest first --------------------------------------------- */

const SERIES = [
    'requests',
    'granted',
    'refused',
    'timed_out',
    'waiting',
    'units',
    'names',
    'connections',
    'wait_p50_seconds',
    'wait_p99_seconds',
    'busy',
];

class History {
    constructor(names) {
        this.names = names;
        this.clear();
    }

    clear() {
        this.end = 0; // Unix seconds of the newest element
        this.data = {};
        for (const name of this.names) this.data[name] = new Array(KEPT_S).fill(null);
    }

    /* How many seconds to ask for: all at first, later what is new and a little more. */
    wanted(now) {
        const gap = Math.ceil(now - this.end) + 3;
        return this.end === 0 || gap > KEPT_S ? KEPT_S : Math.max(gap, 5);
    }

    /* Makes room for `steps` newer elements. */
    advance(steps) {
        for (const name of this.names) {
            const a = this.data[name];
            if (steps >= KEPT_S) a.fill(null);
            else (a.splice(0, steps), a.push(...new Array(steps).fill(null)));
        }
    }

    merge(part) {
        const steps = this.end === 0 ? KEPT_S : Math.round(part.end - this.end);
        // The server's clock went back: what is asked for next, which is all, tells.
        if (steps < 0 && part.seconds < KEPT_S) {
            this.end = 0;
            return;
        }
        this.advance(steps < 0 ? KEPT_S : Math.min(steps, KEPT_S));
        this.end = part.end;
        for (const name of this.names) {
            const from = part.series[name] || [];
            for (let i = 0; i < from.length && i < KEPT_S; i++)
                this.data[name][KEPT_S - 1 - i] = from[from.length - 1 - i];
        }
    }

    /* Adds one element `now`, in place of one of the same second. */
    add(now, values) {
        const steps = this.end === 0 ? KEPT_S : Math.round(now - this.end);
        if (steps > 0) {
            this.advance(Math.min(steps, KEPT_S));
            this.end = this.end === 0 ? now : this.end + steps;
        }
        for (const name of this.names) this.data[name][KEPT_S - 1] = values[name];
    }

    last(name, seconds) {
        return this.data[name].slice(KEPT_S - seconds);
    }

    mean(name, seconds) {
        const known = this.last(name, seconds).filter((x) => x !== null);
        return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
    }

    highest(name, seconds) {
        const known = this.last(name, seconds).filter((x) => x !== null);
        return known.length ? known.reduce((a, b) => Math.max(a, b), -Infinity) : null;
    }
}

/* --- charts ---------------------------------------------------------------------------------- */

/* What a chart counts: how a value is written, and which steps its axis may have. */
const UNITS = {
    rate: {
        text: rate,
        tick: (v) => (v < 1000 ? String(+v.toFixed(2)) : compact(v)),
        least: 1,
        steps: decimal,
    },
    count: {text: count, tick: (v) => (v < 1000 ? String(v) : compact(v)), least: 4, steps: whole},
    seconds: {text: duration, tick: tickSeconds, least: 0.001, steps: timeSteps},
    share: {text: share, tick: (v) => Math.round(v * 100) + '\u202f%', least: 1, fixed: [1, 0.25]},
};

function tickSeconds(v) {
    if (v === 0) return '0';
    for (const [size, unit] of [
        [60, 'min'],
        [1, 's'],
        [1e-3, 'ms'],
        [1e-6, 'µs'],
    ]) {
        if (v >= size * 0.999) return +(v / size).toPrecision(4) + '\u202f' + unit;
    }
    return '0';
}

/* The step of an axis up to `max` in about four: 1, 2 or 5 times a power of ten. */
function decimal(max) {
    const raw = max / 4,
        power = Math.pow(10, Math.floor(Math.log10(raw) + 1e-9)),
        x = raw / power;
    return (x <= 1.0001 ? 1 : x <= 2.0001 ? 2 : x <= 5.0001 ? 5 : 10) * power;
}

function whole(max) {
    return Math.max(1, decimal(max));
}

function timeSteps(max) {
    if (max <= 40) return decimal(max);
    for (const step of [15, 30, 60, 120, 300, 600]) if (max / step <= 4.0001) return step;
    return 60 * decimal(max / 60);
}

/* Distance of the labels of time, in seconds, for a span and a width in pixels. */
function timeStep(span, width) {
    for (const step of [10, 15, 30, 60, 120, 300])
        if ((width * step) / span >= (step < 60 ? 66 : 48)) return step;
    return 600;
}

const charts = [];
let cursor = null; // Unix second that all charts read out, or null

/*
 * One chart: a figure with a head (title, legend that is the read-out, too) and an SVG drawn in
 * pixels of its own width. Scales are kept steady: the top grows at once and shrinks only after it
 * was far too high for a while.
 */
class Chart {
    constructor(parent, history, spec) {
        Object.assign(this, spec);
        this.unit = UNITS[spec.unit];
        this.history = history;
        this.span = range;
        this.ownSpan = 0; // in place of the page's, where not 0
        this.top = 0;
        this.low = 0; // for how many updates the top was too high
        this.summaryAt = 0;
        this.pointer = null;
        this.build(parent);
        charts.push(this);
    }

    build(parent) {
        const figure = el('figure', 'card chart');
        const head = el('figcaption', 'chart-head');
        const id = 'chart-' + this.key;
        const title = el('h3', '', this.title);
        title.id = id;
        this.when = el('span', 'when');
        const line = el('div', 'chart-title');
        line.append(title, this.when);
        this.legend = el('ul', 'legend');
        for (const s of this.series) {
            const item = el('li', s.cls);
            const sample = svg('svg', {
                viewBox: '0 0 22 8',
                width: 22,
                height: 8,
                'aria-hidden': 'true',
            });
            sample.append(svg('path', {d: 'M1 4H21', class: 'line'}));
            s.value = el('b');
            item.append(sample, el('span', '', s.label), s.value);
            this.legend.append(item);
        }
        head.append(line, this.legend);
        this.plot = el('div', 'plot');
        this.plot.tabIndex = 0;
        this.plot.setAttribute('role', 'img');
        this.plot.setAttribute('aria-describedby', 'chart-keys');
        this.plot.setAttribute('aria-label', this.title + ', no figures yet');
        this.svg = svg('svg', {'aria-hidden': 'true', focusable: 'false'});
        this.grid = svg('g', {class: 'grid'});
        this.lines = svg('g', {class: 'lines'});
        this.cross = svg('g', {class: 'cross'});
        this.svg.append(this.grid, this.lines, this.cross);
        for (const s of this.series) {
            s.area = svg('path', {class: 'area ' + s.cls});
            s.path = svg('path', {class: 'line ' + s.cls});
            s.points = svg('path', {class: 'line points ' + s.cls});
            this.lines.append(s.area);
        }
        for (const s of this.series) this.lines.append(s.path, s.points);
        this.rule = svg('line', {class: 'rule'});
        this.cross.append(this.rule);
        for (const s of this.series) {
            s.dot = svg('circle', {r: 3.5, class: 'dot ' + s.cls});
            this.cross.append(s.dot);
        }
        this.tip = el('div', 'tip');
        this.tip.hidden = true;
        this.nothing = el('p', 'nothing', this.empty || '');
        this.nothing.hidden = true;
        this.plot.append(this.svg, this.nothing, this.tip);
        figure.append(head, this.plot);
        figure.setAttribute('aria-labelledby', id);
        parent.append(figure);
        this.listen();
        new ResizeObserver(() => this.draw()).observe(this.plot);
    }

    listen() {
        this.plot.addEventListener('pointermove', (e) => {
            this.pointer = e.clientX - this.plot.getBoundingClientRect().left;
            this.pointTo(this.pointer);
        });
        this.plot.addEventListener('pointerdown', (e) => {
            this.pointer = e.clientX - this.plot.getBoundingClientRect().left;
            this.pointTo(this.pointer);
        });
        const leave = () => {
            this.pointer = null;
            setCursor(null, null);
        };
        this.plot.addEventListener('pointerleave', leave);
        this.plot.addEventListener('pointercancel', leave);
        this.plot.addEventListener('blur', () => setCursor(null, null));
        this.plot.addEventListener('keydown', (e) => this.onKey(e));
    }

    onKey(e) {
        const step = e.shiftKey ? 10 : 1,
            newest = Math.round(this.history.end),
            oldest = newest - this.span + 1;
        const at = cursor === null ? newest : cursor;
        const to = {
            ArrowLeft: cursor === null ? newest : at - step,
            ArrowRight: at + step,
            Home: oldest,
            End: newest,
        }[e.key];
        if (e.key === 'Escape' && cursor !== null) {
            setCursor(null, null);
            e.stopPropagation();
            e.preventDefault();
        } else if (
            to !== undefined &&
            this.history.end !== 0 &&
            !e.ctrlKey &&
            !e.altKey &&
            !e.metaKey
        ) {
            this.pointer = null;
            setCursor(Math.min(newest, Math.max(oldest, to)), this);
            say(this.reading());
            e.preventDefault();
        }
    }

    /* The values under the cursor as a sentence. */
    reading() {
        const i = this.indexOf(cursor);
        return (
            clock(cursor) +
            ': ' +
            this.series.map((s) => s.label + ' ' + this.unit.text(this.valueAt(s, i))).join(', ')
        );
    }

    valueAt(s, i) {
        const v = this.history.data[s.key][i];
        return v === undefined ? null : v;
    }

    indexOf(time) {
        return KEPT_S - 1 - (Math.round(this.history.end) - time);
    }

    pointTo(x) {
        if (this.history.end === 0 || !this.width) return;
        const back = Math.round((1 - (x - this.left) / this.width) * (this.span - 1));
        setCursor(Math.round(this.history.end) - Math.min(this.span - 1, Math.max(0, back)), this);
    }

    scale() {
        let max = 0;
        for (const s of this.series) {
            const m = this.history.highest(s.key, this.span);
            max = Math.max(max, m || 0);
        }
        if (this.unit.fixed) {
            [this.top, this.step] = this.unit.fixed;
            return max;
        }
        const step = this.unit.steps(Math.max(max, this.unit.least));
        const wanted = step * Math.max(1, Math.ceil(Math.max(max, this.unit.least) / step - 1e-9));
        this.low = wanted < this.top * 0.75 ? this.low + 1 : 0;
        if (wanted > this.top || this.low > 8 || this.scaledFor !== this.span) {
            this.top = wanted;
            this.step = step;
            this.low = 0;
        }
        this.scaledFor = this.span;
        return max;
    }

    draw() {
        const full = this.plot.clientWidth,
            tall = this.plot.clientHeight;
        if (!full || !tall) return;
        this.span = this.ownSpan || range;
        const known = this.history.end !== 0;
        const max = this.scale();
        this.left = 46;
        this.width = full - this.left - 10;
        this.height = tall - 8 - 22;
        this.bottom = 8 + this.height;
        setAttr(this.svg, 'width', full);
        setAttr(this.svg, 'height', tall);
        this.drawGrid(known);
        for (const s of this.series) this.drawLine(s);
        show(this.nothing, known && max === 0 && Boolean(this.empty));
        this.drawCross();
        this.summarise();
    }

    x(back) {
        return this.left + this.width * (1 - back / (this.span - 1));
    }

    y(v) {
        return this.bottom - this.height * Math.min(1, Math.max(0, v / this.top));
    }

    drawGrid(known) {
        const marks = [];
        for (let v = 0; v <= this.top * 1.0001; v += this.step) {
            const y = Math.round(this.y(v)) + 0.5;
            marks.push([
                'line',
                {
                    x1: this.left,
                    x2: this.left + this.width,
                    y1: y,
                    y2: y,
                    class: v === 0 ? 'base' : '',
                },
            ]);
            marks.push([
                'text',
                {x: this.left - 8, y: y + 3.5, 'text-anchor': 'end'},
                this.unit.tick(v),
            ]);
        }
        if (known) {
            // Labels stand on round times of the reader's clock, in zones of half hours, too.
            const end = Math.round(this.history.end),
                step = timeStep(this.span, this.width);
            const zone = -new Date(end * 1000).getTimezoneOffset() * 60;
            for (let t = end - ((end + zone) % step); t > end - this.span; t -= step) {
                const x = this.x(end - t);
                marks.push([
                    'line',
                    {
                        x1: x.toFixed(1),
                        x2: x.toFixed(1),
                        y1: this.bottom,
                        y2: this.bottom + 4,
                        class: 'base',
                    },
                ]);
                if (x > this.left + 16 && x < this.left + this.width - 12)
                    marks.push([
                        'text',
                        {x: x.toFixed(1), y: this.bottom + 17, 'text-anchor': 'middle'},
                        clock(t, step < 60),
                    ]);
            }
        }
        this.putMarks(marks);
    }

    /* Reuses the grid's elements of last time. */
    putMarks(marks) {
        const pool = {line: [], text: []};
        for (const node of this.grid.children) pool[node.tagName].push(node);
        for (const [tag, attributes, text] of marks) {
            const node = pool[tag].shift() || this.grid.appendChild(svg(tag, {}));
            for (const key in attributes) setAttr(node, key, attributes[key]);
            if (text !== undefined) setText(node, text);
        }
        for (const left of [...pool.line, ...pool.text]) left.remove();
    }

    drawLine(s) {
        const data = this.history.last(s.key, this.span);
        let line = '',
            area = '',
            points = '',
            start = -1,
            last = '';
        for (let i = 0; i <= this.span; i++) {
            const v = i < this.span ? data[i] : null;
            if (v === null || v === undefined) {
                // One alone is a dot.
                if (start >= 0 && start === i - 1) points += 'M' + last + 'h.01';
                if (start >= 0)
                    area += 'L' + this.x(this.span - i).toFixed(1) + ' ' + this.bottom + 'Z';
                start = -1;
                continue;
            }
            const at = this.x(this.span - 1 - i).toFixed(1) + ' ' + this.y(v).toFixed(1);
            if (start < 0) {
                line += 'M' + at;
                area += 'M' + this.x(this.span - 1 - i).toFixed(1) + ' ' + this.bottom + 'L' + at;
                start = i;
            } else {
                line += 'L' + at;
                area += 'L' + at;
            }
            last = at;
        }
        setAttr(s.path, 'd', line);
        setAttr(s.points, 'd', points);
        if (s.fill) setAttr(s.area, 'd', area);
    }

    drawCross() {
        const newest = Math.round(this.history.end);
        const back = cursor === null ? -1 : newest - cursor;
        const is = back >= 0 && back < this.span;
        const i = is ? this.indexOf(cursor) : KEPT_S - 1;
        this.cross.classList.toggle('on', is);
        setText(this.when, is ? clock(cursor) : '');
        for (const s of this.series) {
            const v = this.history.end === 0 ? null : this.valueAt(s, i);
            setText(s.value, this.unit.text(v));
            const dot = is && v !== null;
            setAttr(s.dot, 'visibility', dot ? 'visible' : 'hidden');
            if (dot) {
                setAttr(s.dot, 'cx', this.x(back).toFixed(1));
                setAttr(s.dot, 'cy', this.y(v).toFixed(1));
            }
        }
        if (is) {
            const x = this.x(back).toFixed(1);
            for (const [key, value] of [
                ['x1', x],
                ['x2', x],
                ['y1', 8],
                ['y2', this.bottom],
            ])
                setAttr(this.rule, key, value);
        }
        this.drawTip(is, back, i);
    }

    drawTip(is, back, i) {
        const mine = is && cursorOf === this;
        show(this.tip, mine);
        if (!mine) return;
        const lines = this.series.map((s) => {
            const line = el('span', s.cls);
            const sample = svg('svg', {viewBox: '0 0 22 8', width: 22, height: 8});
            sample.append(svg('path', {d: 'M1 4H21', class: 'line'}));
            line.append(
                sample,
                el('span', '', s.label),
                el('b', '', this.unit.text(this.valueAt(s, i))),
            );
            return line;
        });
        this.tip.replaceChildren(
            el('em', '', clock(cursor) + ' · ' + (back === 0 ? 'now' : longTime(back) + ' ago')),
            ...lines,
        );
        const x = this.x(back),
            width = this.tip.offsetWidth,
            right = x + 12 + width <= this.left + this.width + 10;
        this.tip.style.left = Math.max(0, right ? x + 12 : x - 12 - width) + 'px';
    }

    /* What there is to see, in words. Changes seldom: a screen reader is not to be talked over. */
    summarise() {
        if (
            this.history.end === 0 ||
            (Date.now() - this.summaryAt < SUMMARY_MS && this.summaryFor === this.span)
        )
            return;
        this.summaryAt = Date.now();
        this.summaryFor = this.span;
        const parts = this.series.map((s) => {
            const data = this.history.last(s.key, this.span);
            const max = this.history.highest(s.key, this.span);
            if (max === null) return s.label + ' nothing known';
            const now = data[this.span - 1];
            const at = Math.round(this.history.end) - (this.span - 1 - data.indexOf(max));
            return (
                s.label +
                ' now ' +
                (now === null ? 'nothing' : this.unit.text(now)) +
                ', highest ' +
                this.unit.text(max) +
                (max > 0 ? ' at ' + clock(at) : '')
            );
        });
        setAttr(
            this.plot,
            'aria-label',
            this.title + ', last ' + longTime(this.span) + ': ' + parts.join('; '),
        );
    }
}

let cursorOf = null; // the chart that is pointed at

function setCursor(time, chart) {
    cursor = time;
    cursorOf = chart;
    for (const c of charts) if (c.plot.clientWidth) c.drawCross();
}

let sayTimer = 0;

/* Tells a screen reader, when the keys have come to rest. */
function say(text) {
    clearTimeout(sayTimer);
    sayTimer = setTimeout(() => setText($('say'), text), 250);
}

/* --- tables ---------------------------------------------------------------------------------- */

/*
 * A table body with a row for each element of a list, told apart by key. Rows are kept while their
 * element stays, and the row that has the focus is never moved: the others go around it.
 */
class Rows {
    constructor(table, columns, keyOf) {
        this.table = table;
        this.body = table.tBodies[0] || table.createTBody();
        this.columns = columns;
        this.keyOf = keyOf;
        this.rows = new Map();
        setRoles(table);
    }

    update(list) {
        const rows = new Map();
        for (const item of list) {
            const key = this.keyOf(item);
            if (rows.has(key)) continue;
            const row = this.rows.get(key) || this.make();
            rows.set(key, row);
            this.columns.forEach((column, i) => column.set(row.cells[i], item));
        }
        for (const [key, row] of this.rows) if (!rows.has(key)) row.remove();
        this.rows = rows;
        this.arrange([...rows.values()]);
    }

    arrange(wanted) {
        if (wanted.every((row, i) => this.body.children[i] === row)) return;
        const focused = wanted.findIndex((row) => row.contains(document.activeElement));
        const stays = focused < 0 ? null : wanted[focused];
        wanted.forEach((row, i) => {
            if (stays && i < focused) this.body.insertBefore(row, stays);
            else if (row !== stays) this.body.append(row);
        });
    }

    make() {
        const row = el('tr');
        row.setAttribute('role', 'row');
        this.columns.forEach((column) => {
            const cell = el(column.head ? 'th' : 'td', column.cls || '');
            if (column.head) cell.scope = 'row';
            cell.setAttribute('role', column.head ? 'rowheader' : 'cell');
            if (column.label) cell.dataset.label = column.label;
            row.append(cell);
        });
        return row;
    }
}

/* On narrow screens rows are laid out as grids; the roles keep them a table for screen readers. */
function setRoles(table) {
    table.setAttribute('role', 'table');
    for (const part of table.querySelectorAll('thead, tbody'))
        part.setAttribute('role', 'rowgroup');
    for (const row of table.querySelectorAll('tr')) row.setAttribute('role', 'row');
    for (const head of table.querySelectorAll('thead th'))
        head.setAttribute('role', 'columnheader');
}

const col = (label, cls, text) => ({label, cls, set: (cell, item) => setText(cell, text(item))});
const num = (label, text, minor) => col(label, minor ? 'n minor' : 'n', text);

/* "3 of 4" and a bar. The bar is full, and says so by its colour, when none is free. */
function useCell(cell, item) {
    if (!cell.firstChild) {
        const meter = svg('svg', {
            class: 'meter',
            viewBox: '0 0 100 8',
            preserveAspectRatio: 'none',
            'aria-hidden': 'true',
        });
        meter.append(
            svg('rect', {class: 'track', width: 100, height: 8}),
            svg('rect', {class: 'fill', width: 0, height: 8}),
        );
        const box = el('div', 'use');
        box.append(el('span', 'use-text'), meter);
        cell.append(box);
    }
    const box = cell.firstChild;
    setText(
        box.firstChild,
        item.limit ? count(item.in_use) + ' of ' + count(item.limit) : count(item.in_use),
    );
    box.lastChild.classList.toggle('none', !item.limit);
    setMeter(box.lastChild, item.limit ? item.in_use / item.limit : 0);
}

function setMeter(meter, part) {
    const x = Math.min(1, Math.max(0, part || 0));
    setAttr(meter.lastElementChild, 'width', (x * 100).toFixed(1));
    meter.classList.toggle('full', x >= 0.9995);
}

/* A number over a bar as long as its share of the highest in its column. */
function weighed(cell, text, part) {
    if (!cell.firstChild) {
        const bar = svg('svg', {
            class: 'weight',
            viewBox: '0 0 100 1',
            preserveAspectRatio: 'none',
            'aria-hidden': 'true',
        });
        bar.append(svg('rect', {x: 100, width: 0, height: 1}));
        cell.classList.add('weighed');
        cell.append(bar, el('span', 'over'));
    }
    setText(cell.lastChild, text);
    const width = (Math.min(1, Math.max(0, part || 0)) * 100).toFixed(1);
    setAttr(cell.firstChild.firstChild, 'width', width);
    setAttr(cell.firstChild.firstChild, 'x', (100 - width).toFixed(1));
}

/* --- state ----------------------------------------------------------------------------------- */

const past = new History(SERIES);
let range = 300;
let by = 'waiting';
let stats = null; // the newest of each, or null
let contended = {}; // by what -> answer
let hot = null; // the name that is told of first: its row and what it says of itself
let before = null; // older stats, to tell rates of requests and of workers
let rates = new Map();
let busyShares = new Map();
let route = {view: 'overview', id: null};
let detail = null; // {id, answer | null, gone, history}
let conns = {cursors: [''], page: 0, of: '', at: -Infinity, answer: null, again: true};

const rangeText = () => ({60: '60 seconds', 300: '5 minutes', 600: '10 minutes'})[range];

/* --- overview: figures and charts ------------------------------------------------------------ */

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
        // Rates are of the last five seconds: steady enough to read, and still of now.
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

/* --- overview: the verdict ------------------------------------------------------------------- */

/*
 * Since when somebody has waited without a break of five seconds, in Unix seconds; null when
 * nobody does. `whole`: for longer than is known.
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
 * How many waited for each listed name in the last seconds, as the page saw it. The server's
 * waiting_load tells of minutes: it would keep a name on top long after its rush is over.
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

/* The name to tell of first: the one most wait for, or else the one most are refused. */
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
    const refused = past.mean('refused', 60) || 0,
        late = past.mean('timed_out', 60) || 0;
    if (!row) return refused + late > 0 ? 'warn' : 'ok';
    return refused + late > 0 && isHot(row) ? 'bad' : 'warn';
}

/* How many did not get what they asked for in the last 60 seconds, over all names, in words. */
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

let saidLevel = null;

function drawVerdict() {
    const row = hot && hot.row,
        level = judge(row),
        box = $('verdict');
    box.dataset.level = level;
    const label =
        level !== 'warn'
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
    setText(head, level === 'ok' ? 'Nothing waits. No name is contended.' : 'Nothing waits now.');
    const lately = contended.waiting.names.find((n) => n.waiting_load >= 0.1);
    const texts = [
        turnedAway(),
        lately ? 'Until lately clients waited for ' + nameText(lately.name, 60) + '.' : '',
    ];
    if (past.highest('requests', 60) > 0)
        texts.push(
            level === 'ok' && !lately ? 'Every request that asked for units got them at once.' : '',
        );
    else texts.push('No request has come in the last 60 seconds.');
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
        row.truncated ? 'Only the beginning of this name is known.' : '',
        turnedAway(),
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

/* Clients by host, those with most first: "192.0.2.1 ×3". */
function hostOf(client) {
    const ip6 = /^\[([^\]]*)\]:\d+$/.exec(client),
        ip4 = /^([^:]*):\d+$/.exec(client);
    return ip6 ? ip6[1] : ip4 ? ip4[1] : client;
}

function drawHosts(list, all, total, none) {
    const hosts = new Map();
    for (const one of all) {
        const host = hostOf(one.client);
        hosts.set(host, (hosts.get(host) || 0) + 1);
    }
    const sorted = [...hosts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
    const shown = sorted.slice(0, 5);
    const texts = shown.map(([host, n]) => [host, n > 1 ? '×' + count(n) : '']);
    const rest = total - shown.reduce((n, h) => n + h[1], 0);
    if (rest > 0 && shown.length) texts.push(['and ' + count(rest) + ' more', '']);
    if (!texts.length && none) texts.push([none, '']);
    const key = JSON.stringify(texts);
    if (list.shownKey === key) return;
    list.shownKey = key;
    list.replaceChildren(
        ...texts.map(([host, n], i) => {
            const item = el('li', i < shown.length ? '' : 'rest');
            const text = el('bdi');
            showName(text, host, 60);
            item.append(text);
            if (n) item.append(el('b', '', n));
            return item;
        }),
    );
}

/* --- overview: tables ------------------------------------------------------------------------ */

const tables = {};
let tops = {};

function makeTables() {
    tables.names = new Rows(
        $('names'),
        [
            {head: true, cls: 'wide', set: nameLink},
            {label: 'In use', cls: 'use-cell', set: useCell},
            num('Peak', (n) => count(n.peak)),
            {
                label: 'Waiting',
                cls: 'n',
                set: (c, n) =>
                    weighed(c, count(n.waiting), by === 'waiting' ? n.waiting / tops.waiting : 0),
            },
            {
                label: 'Waiting load',
                cls: 'n',
                set: (c, n) =>
                    weighed(
                        c,
                        rate(n.waiting_load),
                        by === 'waiting' ? n.waiting_load / tops.load : 0,
                    ),
            },
            {
                label: 'Refused /s',
                cls: 'n',
                set: (c, n) =>
                    weighed(
                        c,
                        rate(n.refused_per_second),
                        by === 'refused' ? n.refused_per_second / tops.refused : 0,
                    ),
            },
        ],
        (n) => n.id || n.name,
    );
    tables.conns = new Rows(
        $('conns'),
        [
            {head: true, cls: 'wide', set: clientCell},
            col('Protocol', 'minor', (x) => x.protocol),
            col('Over', 'minor', (x) => x.transport),
            num('Open for', (x) => duration(x.age_seconds)),
            num('Holds', (x) => count(x.holds)),
            num('Waits', (x) => count(x.waits)),
            num('Queued', (x) => bytes(x.queued_bytes), true),
            col('Connection', 'soft minor', (x) => x.connection),
        ],
        (x) => x.connection,
    );
    tables.workers = new Rows(
        $('workers'),
        [
            {head: true, cls: 'wide', set: (c, w) => setText(c, String(w.worker))},
            num('Connections', (w) => count(w.connections)),
            num('Busy', (w) => share((busyShares.get(w.worker) || [null])[0])),
            num('CPU', (w) => share((busyShares.get(w.worker) || [0, null])[1])),
        ],
        (w) => w.worker,
    );
    tables.protocols = new Rows(
        $('protocols'),
        [
            {head: true, cls: 'wide', set: (c, p) => setText(c, p.name)},
            col('Listens on', 'wide soft', (p) =>
                !p.enabled
                    ? 'not served'
                    : p.listeners.length
                      ? p.listeners.join(', ')
                      : 'no listener',
            ),
            num('Open', (p) => count(p.connections.open)),
            num('Limit', (p) => (p.connections.max ? count(p.connections.max) : 'none')),
            num('Made', (p) => count(p.connections.made)),
            num('Received', (p) => bytes(p.bytes.received)),
            num('Sent', (p) => bytes(p.bytes.sent)),
            num('Errors', (p) => count(p.connections.accept_errors + p.connections.send_errors)),
        ],
        (p) => p.name,
    );
    const held = [
        {head: true, cls: 'wide', set: clientCell},
        col('Since', '', (h) => moment(h.since, stats ? stats.now : Date.now() / 1000)),
    ];
    const units = [num('Units', (h) => count(h.units)), num('Limit', (h) => count(h.limit))];
    const oneOf = (h) => h.connection + ' ' + h.since + ' ' + h.units + ' ' + h.limit;
    tables.holders = new Rows(
        $('holders'),
        [...held, num('Held for', (h) => duration(h.held_seconds)), ...units],
        oneOf,
    );
    tables.waiters = new Rows(
        $('waiters'),
        [
            ...held,
            num('Waited for', (h) => duration(h.waited_seconds)),
            ...units,
            col('Wants', '', (h) => (h.kind === 'me' ? 'own' : h.kind)),
        ],
        oneOf,
    );
    tables.durations = new Sections($('durations'), [
        num('Count', (x) => count(x.count)),
        num(
            'Mean',
            (x) =>
                x.count && x.sum_seconds !== undefined ? duration(x.sum_seconds / x.count) : '–',
            true,
        ),
        num('p50', (x) => (x.count ? duration(x.p50_seconds) : '–')),
        num('p90', (x) => (x.count ? duration(x.p90_seconds) : '–'), true),
        num('p99', (x) => (x.count ? duration(x.p99_seconds) : '–')),
    ]);
    tables.requests = new Sections($('requests'), [
        col('Outcome', 'wide', (x) => x.outcome),
        num('Count', (x) => count(x.count)),
        num('Per second', (x) => rate(x.rate)),
        {label: 'Share', cls: 'n minor', set: (c, x) => weighed(c, share(x.share), x.share)},
    ]);
}

function clientCell(cell, h) {
    if (!cell.firstChild) cell.append(el('span'), el('small', 'soft'));
    setText(cell.firstChild, h.client);
    setText(cell.lastChild, h.protocol + ' over ' + h.transport);
    cell.title = 'connection ' + h.connection;
}

/* A table of several bodies, each with a heading row: [{key, title, rows: [{label, ...}]}]. */
class Sections {
    constructor(table, columns) {
        this.table = table;
        this.columns = [{head: true, cls: 'wide', set: (c, x) => setText(c, x.label)}, ...columns];
        this.parts = new Map();
        setRoles(table);
    }

    update(sections) {
        const bodies = [];
        for (const s of sections) {
            const part = this.part(s.key);
            setText(part.head, s.title);
            part.rows.update(s.rows);
            bodies.push(part.title, part.rows.body);
        }
        for (const [key, part] of this.parts)
            if (!bodies.includes(part.title)) {
                part.title.remove();
                part.rows.body.remove();
                this.parts.delete(key);
            }
        if (!bodies.every((body, i) => this.table.tBodies[i] === body))
            this.table.append(...bodies);
    }

    part(key) {
        if (!this.parts.has(key)) {
            const title = this.table.createTBody(),
                row = el('tr'),
                head = el('th');
            title.className = 'title';
            head.colSpan = this.columns.length;
            head.scope = 'rowgroup';
            title.setAttribute('role', 'rowgroup');
            row.setAttribute('role', 'row');
            head.setAttribute('role', 'rowheader');
            row.append(head);
            title.append(row);
            const body = this.table.createTBody();
            body.setAttribute('role', 'rowgroup');
            const rows = new Rows(this.table, this.columns, (x) => x.key || x.label);
            rows.body = body;
            this.parts.set(key, {title, head, rows});
        }
        return this.parts.get(key);
    }
}

/* Less than that, in a second and on average, is what is left of a rush long over. */
const FAINT = 0.02;

const isWorthTelling = {
    waiting: (n) => n.waiting > 0 || n.waiting_load >= FAINT,
    refused: (n) => n.refused_per_second >= FAINT,
    peak: () => true,
};

function drawNames() {
    const answer = contended[by];
    if (!answer) return;
    const names = answer.names.filter(isWorthTelling[by]);
    const most = (key) => Math.max(1e-9, ...names.map((n) => n[key]));
    tops = {
        waiting: most('waiting'),
        load: most('waiting_load'),
        refused: most('refused_per_second'),
    };
    tables.names.update(names);
    show($('names'), names.length > 0);
    show($('names-empty'), names.length === 0);
    setText(
        $('names-empty'),
        {
            waiting: 'Nothing waits. No name is contended.',
            refused: 'Nothing has been refused.',
            peak: 'No name is in use, and none was lately.',
        }[by],
    );
    setText(
        $('names-caption'),
        {
            waiting: 'Names by how many clients wait for them',
            refused: 'Names by refused requests per second',
            peak: 'Names by the most units in use at once',
        }[by],
    );
    let note = '';
    if (names.length && answer.names.length >= answer.names_limit)
        note = 'The first ' + names.length + '.';
    if (answer.bound > 0 && names.length)
        note +=
            ' A name not listed has at most ' +
            {
                waiting: rate(answer.bound) + ' waiting on average',
                refused: rate(answer.bound) + ' refused per second',
                peak: count(answer.bound) + ' units as its peak',
            }[by] +
            '.';
    setText($('names-note'), note.trim());
}

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

/* Rates of counters that only rise, over the last ten seconds that were seen. */
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

function drawMemory() {
    const m = stats.memory;
    setText($('memory-used'), bytes(m.used_bytes));
    setText(
        $('memory-of'),
        m.limit_bytes
            ? 'of ' + bytes(m.limit_bytes) + ' (' + share(m.used_bytes / m.limit_bytes) + ')'
            : 'no limit',
    );
    setMeter($('memory-meter'), m.limit_bytes ? m.used_bytes / m.limit_bytes : 0);
    setAttr(
        $('memory-meter'),
        'aria-label',
        'Memory of names: ' + $('memory-used').textContent + ' ' + $('memory-of').textContent,
    );
    const pairs = [
        ['Resident in all', bytes(m.resident_bytes)],
        ['Names', count(stats.names)],
        ['Holdings', count(stats.holdings)],
    ];
    const list = $('memory');
    if (!list.firstChild)
        for (const [label] of pairs) {
            const pair = el('div');
            pair.append(el('dt', '', label), el('dd'));
            list.append(pair);
        }
    pairs.forEach(([, value], i) => setText(list.children[i].lastChild, value));
}

const REASONS = {peer: 'closed by the client', reset: 'reset by the client'};

function drawCloses() {
    const names = stats.protocols.map((p) => p.name),
        table = $('closes');
    const key = names.join(' ');
    if (!tables.closes || tables.closesKey !== key) {
        const head = table.tHead.rows[0];
        while (head.cells.length > 1) head.lastChild.remove();
        for (const name of names) {
            const th = el('th', 'n', name);
            th.scope = 'col';
            head.append(th);
        }
        table.tBodies[0].replaceChildren();
        tables.closesKey = key;
        tables.closes = new Rows(
            table,
            [
                {head: true, cls: 'wide', set: (c, x) => setText(c, x.label)},
                ...names.map((name) => num(name, (x) => count(x.counts[name] || 0))),
            ],
            (x) => x.label,
        );
    }
    const reasons = new Map();
    for (const p of stats.protocols)
        for (const [reason, n] of Object.entries(p.connections.closed))
            if (n > 0) {
                if (!reasons.has(reason))
                    reasons.set(reason, {
                        label: REASONS[reason] || reason.replace(/_/g, ' '),
                        counts: {},
                        total: 0,
                    });
                reasons.get(reason).counts[p.name] = n;
                reasons.get(reason).total += n;
            }
    const list = [...reasons.values()].sort((a, b) => b.total - a.total);
    tables.closes.update(list);
    show(table, list.length > 0);
    show($('closes-empty'), list.length === 0);
}

/* --- connections: pages by cursor ------------------------------------------------------------ */

function connsPath() {
    return (
        '/api/v1/connections?limit=' +
        CONNS_A_PAGE +
        (conns.of ? '&protocol=' + encodeURIComponent(conns.of) : '') +
        (conns.cursors[conns.page]
            ? '&cursor=' + encodeURIComponent(conns.cursors[conns.page])
            : '')
    );
}

function drawConns() {
    const answer = conns.answer;
    if (!answer) return;
    tables.conns.update(answer.connections);
    show($('conns'), answer.connections.length > 0);
    show($('conns-empty'), answer.connections.length === 0);
    setText($('conns-empty'), conns.page ? 'No more connections.' : 'No client is connected.');
    conns.cursors[conns.page + 1] = answer.cursor;
    $('conns-next').disabled = !answer.cursor;
    $('conns-back').disabled = conns.page === 0;
    setText($('conns-where'), 'Page ' + (conns.page + 1));
}

function turn(to) {
    conns.page = to;
    conns.again = true;
    askConns();
}

async function askConns() {
    const wanted = connsPath();
    conns.again = false;
    conns.at = Date.now();
    try {
        const answer = await ask(wanted);
        if (wanted === connsPath()) {
            conns.answer = answer;
            drawConns();
        }
    } catch (e) {
        conns.again = true; // whether the daemon is there is told by the cycle
    }
}

function fillProtocols() {
    const select = $('conns-of');
    for (const p of stats.protocols)
        if (![...select.options].some((o) => o.value === p.name)) {
            const option = el('option', '', p.name);
            option.value = p.name;
            select.append(option);
        }
}

/* --- detail of one name ---------------------------------------------------------------------- */

const DETAIL_FIGURES = [
    {
        label: 'In use',
        get: (n) => count(n.in_use),
        sub: (n) => (n.limit ? 'of ' + count(n.limit) + ', the last limit' : ''),
    },
    {
        label: 'Waiting',
        get: (n) => count(n.waiting),
        sub: (n) =>
            n.waiters.length ? 'longest ' + duration(n.waiters[0].waited_seconds) : 'nobody',
        alarm: (n) => n.waiting > 0,
    },
    {
        label: 'Holders',
        get: (n) => count(n.holders_total),
        sub: (n) =>
            n.holders.length ? 'longest ' + duration(n.holders[0].held_seconds) : 'nobody',
    },
    {label: 'Peak', get: (n) => count(n.peak), sub: () => 'most units at once'},
];

const DETAIL_SERIES = ['in_use', 'waiting'];
let detailChart = null;

function drawDetail() {
    const d = detail,
        n = d.answer;
    const name = n ? n.name : idToName(d.id);
    showName($('detail-head'), name, 0);
    const size = idLength(d.id);
    setText($('detail-size'), plural(size, 'byte', 'bytes'));
    document.title = nameText(name, 60) + ' · counterd';
    const level = d.gone ? 'ok' : !n ? 'wait' : n.waiting > 0 ? 'warn' : 'ok';
    $('named').dataset.level = level;
    setText(
        $('detail-level'),
        d.gone
            ? 'There is no such name now: nobody holds or awaits units of it'
            : !n
              ? 'Reading'
              : n.waiting > 0
                ? plural(n.waiting, 'client waits', 'clients wait')
                : n.limit && n.in_use >= n.limit
                  ? 'All units in use, nobody waits'
                  : 'Nobody waits',
    );
    const shown = n || {
        in_use: 0,
        limit: 0,
        peak: 0,
        waiting: 0,
        holders: [],
        waiters: [],
        holders_total: 0,
    };
    for (const f of DETAIL_FIGURES) {
        setText(f.value, n || d.gone ? f.get(shown) : '–');
        setText(f.below, n ? f.sub(n) : '');
        f.box.dataset.alarm = f.alarm && f.alarm(shown) ? 'warn' : '';
    }
    drawPeople('holders', shown.holders, shown.holders_total);
    drawPeople('waiters', shown.waiters, shown.waiting);
    detailChart.history = d.history;
    const seen = Date.now() / 1000 - d.opened;
    detailChart.ownSpan = seen < 58 ? 60 : seen < 298 ? 300 : KEPT_S;
    detailChart.draw();
}

function drawPeople(what, list, total) {
    tables[what].update(list.slice(0, ROWS_SHOWN));
    show($(what), list.length > 0);
    show($(what + '-empty'), list.length === 0);
    const shown = Math.min(list.length, ROWS_SHOWN);
    setText(
        $(what + '-count'),
        total > shown
            ? 'oldest ' + count(shown) + ' of ' + count(total)
            : total
              ? count(total)
              : '',
    );
    drawHosts($(what + '-by'), list, total, '');
    show($(what + '-by'), list.length > 1);
}

/* How many bytes an id stands for. */
function idLength(id) {
    return id.replace(/%[0-9a-fA-F]{2}/g, 'x').length;
}

/* --- routes ---------------------------------------------------------------------------------- */

function readRoute() {
    const found = /^#\/(name|find)\/(.+)$/.exec(location.hash);
    // Some browsers show an address decoded and hand it back so: what is no id is encoded again.
    const id = found && found[2].replace(/[^A-Za-z0-9\-._~%]+/g, (c) => encodeURIComponent(c));
    if (!id) return {view: 'overview', id: null};
    return {view: found[1] === 'name' ? 'detail' : 'find', id};
}

function go() {
    const old = route;
    route = readRoute();
    if (route.view === 'find') {
        startSearch(idToName(route.id));
        history.replaceState(null, '', '#/');
        route = readRoute();
    }
    if (old.view === 'overview') cameFrom = document.activeElement.closest('#overview a.name');
    show($('overview'), route.view === 'overview');
    show($('detail'), route.view === 'detail');
    setCursor(null, null);
    if (route.view === 'detail') {
        detail = {
            id: route.id,
            answer: null,
            gone: false,
            history: new History(DETAIL_SERIES),
            opened: Date.now() / 1000,
        };
        drawDetail();
        scrollTo(0, 0);
        $('detail-head').focus({preventScroll: true});
    } else if (old.view === 'detail') {
        detail = null;
        document.title = 'counterd';
        drawOverview();
        if (document.activeElement !== $('find')) returnFocus(old.id);
    }
    wake();
}

let cameFrom = null; // the link that led to the detail, if one did

/* Back where the reader was: at the link, at another of the same name, or at the top. */
function returnFocus(id) {
    const link =
        cameFrom && cameFrom.isConnected
            ? cameFrom
            : [...document.querySelectorAll('#overview a.name')].find(
                  (a) => a.getAttribute('href') === '#/name/' + id,
              );
    if (link) link.focus();
    else $('main').focus({preventScroll: true});
}

function closeDetail() {
    if (route.view === 'detail') location.hash = '#/';
}

/* --- search: a combobox over the names that begin so ----------------------------------------- */

let search = {text: '', names: [], at: -1, stop: null, timer: 0};

function closeSearch() {
    clearTimeout(search.timer);
    if (search.stop) search.stop.abort();
    search.names = [];
    search.at = -1;
    $('found').replaceChildren();
    show($('found-box'), false);
    $('find').setAttribute('aria-expanded', 'false');
    $('find').removeAttribute('aria-activedescendant');
}

function startSearch(text) {
    $('find').value = text;
    $('find').focus();
    onSearchInput();
}

function onSearchInput() {
    const text = $('find').value;
    closeSearch();
    search.text = text;
    if (text !== '') search.timer = setTimeout(() => find(text), 150);
}

/* Walks on through the table until there are enough names or no more; a new input stops it. */
async function find(text) {
    const stop = (search.stop = new AbortController());
    let cursorText = null,
        examined = 0,
        names = [];
    try {
        do {
            const answer = await ask(
                '/api/v1/names?sort=none&limit=' +
                    FOUND_MAX +
                    '&prefix=' +
                    nameToId(text) +
                    (cursorText ? '&cursor=' + encodeURIComponent(cursorText) : ''),
                stop.signal,
            );
            if (stop.signal.aborted) return;
            names = names.concat(answer.names).slice(0, FOUND_MAX);
            examined += answer.examined;
            cursorText = answer.cursor;
            drawFound(
                names,
                cursorText && names.length < FOUND_MAX
                    ? 'Looked at ' + count(examined) + ' names so far'
                    : '',
            );
        } while (cursorText && names.length < FOUND_MAX);
        const known = names.some((n) => n.id === nameToId(text));
        drawFound(
            names,
            names.length >= FOUND_MAX && cursorText
                ? 'The first ' + names.length + ' found; more letters find others'
                : names.length === 0
                  ? 'No name begins so now.'
                  : known
                    ? ''
                    : plural(names.length, 'name begins so', 'names begin so'),
        );
        say(
            names.length === 0
                ? 'No name begins so'
                : plural(names.length, 'name', 'names') + ' found',
        );
    } catch (e) {
        if (!stop.signal.aborted)
            drawFound([], e instanceof NotFound ? 'No name begins so now.' : e.message);
    }
}

function drawFound(names, note) {
    search.names = names;
    $('found').replaceChildren(
        ...names.map((n, i) => {
            const item = el('li'),
                text = el('bdi', 'name');
            item.id = 'found-' + i;
            item.setAttribute('role', 'option');
            item.setAttribute('aria-selected', String(i === search.at));
            showName(text, n.name, 100);
            item.append(
                text,
                el(
                    'span',
                    'soft',
                    (n.limit ? count(n.in_use) + ' of ' + count(n.limit) : count(n.in_use)) +
                        ' in use' +
                        (n.waiting ? ', ' + count(n.waiting) + ' waiting' : ''),
                ),
            );
            // The focus stays in the box.
            item.addEventListener('pointerdown', (e) => e.preventDefault());
            item.addEventListener('click', () => open(n.id));
            return item;
        }),
    );
    setText($('found-note'), note);
    show($('found-note'), note !== '');
    show($('found-box'), true);
    show($('found'), names.length > 0);
    $('find').setAttribute('aria-expanded', String(names.length > 0));
}

function choose(i) {
    search.at = i;
    for (const [k, item] of [...$('found').children].entries())
        item.setAttribute('aria-selected', String(k === i));
    if (i < 0) {
        $('find').removeAttribute('aria-activedescendant');
    } else {
        $('find').setAttribute('aria-activedescendant', 'found-' + i);
        $('found').children[i].scrollIntoView({block: 'nearest'});
    }
}

function open(id) {
    closeSearch();
    $('find').value = '';
    if (location.hash === '#/name/' + id) $('detail-head').focus();
    else location.hash = '#/name/' + id;
}

function onSearchKey(e) {
    const n = search.names.length;
    if (e.key === 'ArrowDown' && n) choose((search.at + 1) % n);
    else if (e.key === 'ArrowUp' && n) choose(search.at <= 0 ? n - 1 : search.at - 1);
    else if (e.key === 'Enter' && search.at >= 0) open(search.names[search.at].id);
    else if (e.key === 'Enter' && $('find').value !== '') open(nameToId($('find').value));
    else if (e.key === 'Escape' && ($('find').value !== '' || !$('found-box').hidden)) {
        closeSearch();
        $('find').value = '';
    } else return;
    e.preventDefault();
    e.stopPropagation();
}

/* --- the link to the daemon: one cycle after another ----------------------------------------- */

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

/* Asks for all that the open view shows. Nothing is drawn before all of it is there. */
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
        past.clear(); // another daemon, and a history of its own
        before = null;
        conns = Object.assign(conns, {cursors: [''], page: 0, again: true});
        past.merge(await ask('/api/v1/history?seconds=' + KEPT_S));
    } else {
        past.merge(part);
    }
    stats = newStats;
    drawRatesFrom(stats);
    if (here.view === 'detail') await askDetail(here.id);
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
        if (e instanceof NotFound) return null; // nobody wants it any more
        throw e;
    }
}

async function askDetail(id) {
    const answer = await askName(id);
    if (!detail || detail.id !== id) return;
    detail.answer = answer;
    detail.gone = answer === null;
    detail.history.add(Math.round(stats.now), answer || {in_use: 0, waiting: 0});
}

function drawAll() {
    setText($('version'), stats.version);
    setText($('uptime'), 'up ' + longTime(stats.uptime_seconds));
    if (route.view === 'detail') drawDetail();
    else drawOverview();
}

function drawOverview() {
    if (!stats || !contended.waiting) return;
    document.title = (stats.waiting ? '(' + count(stats.waiting) + ' waiting) ' : '') + 'counterd';
    drawVerdict();
    drawFigures();
    for (const c of charts)
        if (c !== detailChart) {
            if (c.pointer !== null && cursorOf === c) c.pointTo(c.pointer);
            c.draw();
        }
    drawNames();
    drawDurations();
    drawRequests();
    drawMemory();
    tables.workers.update(stats.workers);
    tables.protocols.update(stats.protocols);
    drawCloses();
    fillProtocols();
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
                ? 'What is shown is of ' + clock(goodAt / 1000) + ', not of now.'
                : 'Nothing has been read yet.',
        );
        drawCountdown();
    }
}

function drawCountdown() {
    const left = Math.ceil((nextAt - Date.now()) / 1000);
    setText($('outage-next'), left > 0 ? 'Next try in ' + left + '\u202fs.' : 'Trying…');
    if (failures) countTimer = setTimeout(drawCountdown, 500);
}

/* --- set-up ---------------------------------------------------------------------------------- */

function setRange(to, isSaved) {
    range = to;
    setText($('charts-head'), 'Last ' + rangeText());
    if (isSaved) remember('range', String(to));
    setCursor(null, null);
    drawOverview();
}

function setTab(tab, withFocus) {
    by = tab.dataset.by;
    for (const other of $('tabs').children) {
        other.setAttribute('aria-selected', String(other === tab));
        other.tabIndex = other === tab ? 0 : -1;
    }
    $('names-panel').setAttribute('aria-labelledby', tab.id);
    if (withFocus) tab.focus();
    if (contended[by]) drawNames();
    wake();
}

function onTabKey(e) {
    const tabs = [...$('tabs').children],
        at = tabs.indexOf(e.target);
    const to = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1}[e.key];
    if (at < 0 || to === undefined) return;
    setTab(tabs[(to + tabs.length) % tabs.length], true);
    e.preventDefault();
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

function onKey(e) {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) && e.target.type !== 'radio';
    if (e.key === 'Escape' && !e.defaultPrevented && !typing) {
        closeDetail();
    } else if (e.key === '/' && !typing && !e.ctrlKey && !e.metaKey && !e.altKey) {
        $('find').focus();
        e.preventDefault();
    }
}

function start() {
    applyTheme();
    makeFigures(FIGURES, $('figures'));
    makeFigures(DETAIL_FIGURES, $('detail-figures'));
    makeTables();
    for (const spec of OVERVIEW_CHARTS) new Chart($('charts'), past, spec);
    detailChart = new Chart($('detail-charts'), new History(DETAIL_SERIES), {
        key: 'name',
        title: 'Since this view was opened',
        unit: 'count',
        series: [
            {key: 'in_use', label: 'in use', cls: 's1', fill: true},
            {key: 'waiting', label: 'waiting', cls: 's2 dash'},
        ],
    });
    for (const radio of document.querySelectorAll('#ranges input')) {
        radio.checked = radio.value === (recall('range') || '300');
        radio.addEventListener('change', () => setRange(Number(radio.value), true));
        if (radio.checked) setRange(Number(radio.value), false);
    }
    for (const tab of $('tabs').children) tab.addEventListener('click', () => setTab(tab, false));
    $('tabs').addEventListener('keydown', onTabKey);
    $('theme').addEventListener('click', toggleTheme);
    $('pause').addEventListener('click', togglePause);
    $('retry').addEventListener('click', wake);
    $('find').addEventListener('input', onSearchInput);
    $('find').addEventListener('keydown', onSearchKey);
    $('find').addEventListener('blur', closeSearch);
    $('conns-next').addEventListener('click', () => turn(conns.page + 1));
    $('conns-back').addEventListener('click', () => turn(Math.max(0, conns.page - 1)));
    $('conns-of').addEventListener('change', () => {
        conns.of = $('conns-of').value;
        conns.cursors = [''];
        turn(0);
    });
    document.addEventListener('keydown', onKey);
    document.addEventListener('visibilitychange', () => {
        clearTimeout(timer);
        wake();
    });
    addEventListener('hashchange', go);
    go();
}

document.addEventListener('DOMContentLoaded', start);
})();
