/* format.js - figures for people: counts, rates, durations, bytes, times of day. */

function grouped(n) {
    return String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ',');
}

/* Three significant digits, and a letter for large numbers. */
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

/* A clock time, with the date if it is not today. */
function moment(unix, now) {
    const d = new Date(unix * 1000);
    const today = new Date(now * 1000).toDateString() === d.toDateString();
    return (
        (today ? '' : d.toLocaleDateString(undefined, {day: 'numeric', month: 'short'}) + ' ') +
        clock(unix)
    );
}

const plural = (n, one, many) => count(n) + ' ' + (n === 1 ? one : many);
