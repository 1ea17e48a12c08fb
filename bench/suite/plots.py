"""Draws the plots: gnuplot, SVG.

The plots have their own background, light or dark as the reader's browser prefers. gnuplot draws
the light version, and a style sheet in the file replaces its colours for the dark one.
"""

import os
import re
import subprocess
from collections import namedtuple

import figures
import goals
import rows
from columns import CPU_REQUEST, NS, REQUESTS

INK, FAINT, GROUND = "#24303c", "#d5dbe1", "#ffffff"
# For each series: colour on light and on dark background, type of point, dashes.
LOOKS = {
    "counterd, text": ("#1257b8", "#6fb1ff", 7, 1),
    "counterd, binary": ("#0f8a9d", "#4fd6e8", 5, 1),
    "echo, text": ("#6b7680", "#a9b4be", 6, 2),
    "echo, binary": ("#8b959d", "#7f8a94", 4, 3),
    "fixed words": ("#6b7680", "#a9b4be", 6, 2),
    "poolcounterd": ("#c2410c", "#ff9a5c", 9, 1),
    "yrmcds": ("#2f7d32", "#7fd483", 11, 1),
    "Redis INCR": ("#a3298e", "#f08fdd", 13, 1),
    "Redis Lua": ("#8a6a00", "#e6c34d", 15, 1),
}
# Looks of other series, in order.
OTHERS = ("counterd, text", "counterd, binary", "yrmcds", "Redis Lua")
GROUND_DARK = {INK: "#dfe6ee", FAINT: "#39434e", GROUND: "#161b22"}

# A series of a plot: its name, its look (of LOOKS), its points, and is_steps: the value holds from
# a point to the next.
Series = namedtuple("Series", "name look points is_steps")
# Ticks: position -> label, on a logarithmic scale; None: gnuplot's own, on a linear scale from 0.
# whole: show all ticks, whatever the points.
Axis = namedtuple("Axis", "label ticks whole", defaults=(None, False))
# row: the part of the report that shows it; draw: makes the series from a store.
Plot = namedtuple("Plot", "row file title x y draw")

def axis_commands(letter, axis, values):
    """The gnuplot commands for an axis that shows these values."""
    yield 'set %slabel "%s" textcolor rgb "%s"' % (letter, axis.label, INK)
    if not axis.ticks:
        yield "set %srange [0:*]" % letter
        return
    # Just enough ticks for all points.
    low = min(axis.ticks if axis.whole else values)
    high = max(axis.ticks if axis.whole else values)
    first = max((at for at in axis.ticks if at <= low), default=low)
    last = min((at for at in axis.ticks if at >= high), default=high)
    labels = ", ".join("'%s' %g" % (label, at) for at, label in axis.ticks.items())
    # Slightly wider: gnuplot sometimes omits the label of a tick at the very end.
    yield "set logscale %s; set %srange [%g*0.9999:%g*1.0001]; set %stics (%s)" % (
        letter, letter, first, last, letter, labels)  # fmt: skip


def plain_ticks(*values):
    return {value: format(value, ",") for value in values}


def power_ticks(low, high):
    return {10**exponent: "10^%d" % exponent for exponent in range(low, high + 1)}


def curve(row_name, path, scale=1.0):
    """Medians over rounds, by the x of each subject."""

    def draw(store):
        subjects = [s for s in rows.named(row_name).subjects if s.x is not None]
        names = list(dict.fromkeys(s.series for s in subjects))
        others = iter(OTHERS)
        for name in names:
            points = []
            for subject in subjects:
                values = goals.Value(row_name, subject.name, path).by_round(store)
                figure = figures.summary(values) if subject.series == name else None
                if figure:
                    points.append((subject.x, figure.value * scale))
            look = name if name in LOOKS else next(others)
            if points:
                yield Series(name, look, points, False)

    return draw


def distribution(row_name):
    """The percentile curve of all rounds together."""

    def draw(store):
        for name in (subject.name for subject in rows.named(row_name).subjects):
            there = [r["histogram"] for r in store.results(row_name, name) if r and "histogram" in r]
            if there:
                points = figures.tail(figures.merged(there))
                yield Series(name, name, [(x, y) for x, y in points if y > 0], True)

    return draw


def script(plot, series, path):
    """The gnuplot script."""
    lines = [
        'set terminal svg size 860,480 dynamic enhanced font "sans-serif,14" background "%s"' % GROUND,
        'set output "%s"' % path,
        'set border 3 linecolor rgb "%s"' % INK,
        'set tics nomirror out scale 0.5 textcolor rgb "%s"' % INK,
        'set grid linecolor rgb "%s" linetype 1' % FAINT,
        'set title "%s" textcolor rgb "%s"' % (plot.title, INK),
        'set key outside right top Left reverse samplen 2 spacing 1.3 textcolor rgb "%s"' % INK,
        *axis_commands("x", plot.x, [x for one in series for x, _ in one.points]),
        *axis_commands("y", plot.y, [y for one in series for _, y in one.points]),
    ]
    parts, ours = [], []
    for number, one in enumerate(series):
        lines.append("$data%d << END" % number)
        lines += ["%.9g %.9g" % point for point in one.points]
        lines.append("END")
        colour, _, point, dashes = LOOKS[one.look]
        is_ours = one.look.startswith("counterd")
        part = "$data%d using 1:2 with %s linewidth %s dashtype %d linecolor rgb '%s' title" % (
            number, "steps" if one.is_steps else "linespoints pointtype %d pointsize 0.7" % point,
            "2.5" if is_ours else "1.5", dashes, colour,
        )  # fmt: skip
        parts.append('%s "%s"' % (part, one.name))
        if is_ours:  # first among the names, but above the other lines
            ours.append(part + ' ""')
    lines.append("plot " + ", ".join(parts + ours))
    return "\n".join(lines) + "\n"


def with_dark(svg):
    """The picture with a style sheet for a dark background."""
    svg = re.sub(
        r"rgb\(\s*(\d+),\s*(\d+),\s*(\d+)\)",
        lambda m: "#%02x%02x%02x" % tuple(map(int, m.groups())),
        svg,
    )
    colours = dict(GROUND_DARK)
    colours.update((light, dark) for light, dark, _, _ in LOOKS.values())
    rules = "\n".join(
        "[%s='%s'] { %s: %s }" % (what, light, what, dark)
        for light, dark in colours.items()
        for what in ("fill", "stroke", "color")
        if "%s='%s'" % (what, light) in svg or '%s="%s"' % (what, light) in svg
    )
    style = "<style>@media (prefers-color-scheme: dark) {\n%s\n}</style>\n" % rules
    return svg.replace("<defs>", style + "<defs>", 1)


def draw(plots, store, folder):
    """Draws all plots that have results; returns these plots."""
    os.makedirs(folder, exist_ok=True)
    drawn = []
    for plot in plots:
        path = os.path.join(folder, plot.file)
        series = list(plot.draw(store))
        if not series:
            continue
        subprocess.run(
            ["gnuplot"], input=script(plot, series, path), text=True, check=True, timeout=60,
            capture_output=True,
        )  # fmt: skip
        with open(path) as f:
            svg = with_dark(f.read())
        with open(path, "w") as f:
            f.write(svg)
        drawn.append(plot)
    return drawn


PERCENTILES = Axis("percentile", {
    1: "0", 2: "50", 10: "90", 100: "99", 1e3: "99.9", 1e4: "99.99", 1e5: "99.999", 1e6: "99.9999",
    1e7: "99.99999",
})  # fmt: skip
TIMES = Axis("", {
    1: "1 µs", 3: "3 µs", 10: "10 µs", 30: "30 µs", 100: "100 µs", 300: "300 µs", 1e3: "1 ms",
    3e3: "3 ms", 1e4: "10 ms", 3e4: "30 ms", 1e5: "100 ms", 3e5: "300 ms", 1e6: "1 s", 3e6: "3 s",
    1e7: "10 s",
})  # fmt: skip
CONNECTIONS = Axis("connections", plain_ticks(1, 10, 50, 200, 1000, 5000), True)
DEPTHS = Axis("requests in flight on each connection", plain_ticks(1, 2, 4, 8, 16, 32, 64, 128), True)
COUNTS = Axis("names that exist", power_ticks(3, 7), True)
RATES = Axis("thousand requests/s",
             plain_ticks(2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000))  # fmt: skip
COSTS = Axis("µs of the server's CPU", plain_ticks(0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100))


def _throughput(row_name, title, x):
    return Plot(row_name, row_name + "-throughput.svg", "Requests per second, " + title, x, RATES,
                curve(row_name, REQUESTS.path, REQUESTS.scale))  # fmt: skip


def _cpu(row_name, title, x):
    return Plot(row_name, row_name + "-cpu.svg", "Processor time per request, " + title, x, COSTS,
                curve(row_name, CPU_REQUEST.path))  # fmt: skip


def _latency(row_name, title):
    return Plot(row_name, "latency-%s.svg" % row_name, title, PERCENTILES, TIMES,
                distribution(row_name))  # fmt: skip


PLOTS = [
    _latency("open-loop", "Time of an answer, 30,000 requests a second over 50 connections"),
    _latency("churn-200", "Time of connect, lock, release and close, 200 at once"),
    _latency("dump", "Time of an answer to 50 connections while a million names are dumped"),
    Plot("engine", "engine-names.svg", "An acquire and its release in the engine alone", COUNTS,
         Axis("nanoseconds"), curve("engine", NS.path)),
    _throughput("connections", "one in flight on each connection", CONNECTIONS),
    _cpu("connections", "one in flight on each connection", CONNECTIONS),
    _throughput("depth", "50 connections", DEPTHS),
    _cpu("depth", "50 connections", DEPTHS),
    _cpu("among-names", "50 connections with 32 in flight on each", COUNTS),
]  # fmt: skip
