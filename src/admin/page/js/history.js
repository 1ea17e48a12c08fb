/* history.js - the last 600 seconds of some figures: one value per second, oldest first. */

const KEPT_S = 600; // the same as on the server

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
    'wait_max_seconds',
    'busy',
];

class History {
    constructor(names) {
        this.names = names;
        this.clear();
    }

    clear() {
        this.end = 0; // Unix seconds time of the newest element
        this.data = {};
        for (const name of this.names) this.data[name] = new Array(KEPT_S).fill(null);
    }

    /* The number of seconds to fetch: all at first, later the new ones and a little more. */
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
        // The server's clock went back. The next query fetches everything and corrects this.
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

    /* Adds an element for `now`, or replaces the one of the same second. */
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
