/*
 * chart.js - a chart: lines over the last seconds in SVG, with a cursor for pointer and keys. All
 * charts share the cursor's time.
 */

const SUMMARY_MS = 15000; // interval between changes of the charts' texts for screen readers

const charts = [];
let cursor = null; // Unix second of the shared cursor, or null

/*
 * One chart: a figure with a head (title, and a legend that also shows the values under the cursor)
 * and an SVG as wide as the figure. The scale is steady: it grows at once, and shrinks only after it
 * was far too high for a while.
 */
class Chart {
    constructor(parent, history, spec) {
        Object.assign(this, spec);
        this.unit = UNITS[spec.unit];
        this.history = history;
        this.span = range;
        this.ownSpan = 0; // overrides the page's span, unless 0
        this.top = 0;
        this.low = 0; // number of updates with too high a scale
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
            // Labels stand at round times of the reader's clock, also in zones of half hours.
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

    /* Reuses the elements of the last grid. */
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
                // Draw a single point as a dot.
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

    /* Describes the chart in words. Changes seldom, so that it does not interrupt a screen reader. */
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

let cursorOf = null; // the chart under the pointer

function setCursor(time, chart) {
    cursor = time;
    cursorOf = chart;
    for (const c of charts) if (c.plot.clientWidth) c.drawCross();
}

let sayTimer = 0;

/* Tells a screen reader the values once the keys are released. */
function say(text) {
    clearTimeout(sayTimer);
    sayTimer = setTimeout(() => setText($('say'), text), 250);
}
