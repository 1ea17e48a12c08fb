/*
 * axis.js - the units of charts: how to write values, and where to put the marks of axes.
 */

/* The unit of a chart: how to write a value, and the steps its axis may have. */
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

/* The step of an axis that divides `max` into about four: 1, 2 or 5 times a power of ten. */
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

/* The distance of time labels in seconds, for a span in seconds and a width in pixels. */
function timeStep(span, width) {
    for (const step of [10, 15, 30, 60, 120, 300])
        if ((width * step) / span >= (step < 60 ? 66 : 48)) return step;
    return 600;
}
