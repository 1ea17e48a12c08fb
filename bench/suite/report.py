"""RESULTS.md: the goals and their results, a part with a table for each row, the machine."""

import os

import figures
import goals
import machine
import rows

NONE = "–"


def number(value):
    """At most three significant digits; commas in large numbers."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1000:
        # Digits beyond the fourth are noise.
        step = 10 ** max(0, len("%d" % size) - 4)
        return format(int(round(value / step) * step), ",")
    return "%.0f" % value if size >= 100 else "%.1f" % value if size >= 10 else "%.2f" % value


def beside(value, limit):
    """A number with enough digits to differ from its limit."""
    text = number(value)
    return "%.4g" % value if text == number(limit) else text


def with_unit(text, unit):
    return text + (" " + unit if unit else "")


def spread(figure):
    """The least and the greatest value; empty for one round."""
    return "%s–%s" % (number(figure.low), number(figure.high)) if figure.rounds > 1 else ""


def table(head, lines, left=1):
    """A Markdown table; the first `left` columns are text, the others numbers."""
    yield "| " + " | ".join(head) + " |"
    yield "| " + " | ".join("---" if n < left else "---:" for n in range(len(head))) + " |"
    for line in lines:
        yield "| " + " | ".join(line) + " |"


# ---- goals ---------------------------------------------------------------------------------------


def goal_line(goal, store):
    figure, is_met = goals.judged(goal, store)
    said = {True: "yes", False: "**no**", None: "not measured"}[is_met]
    seen = with_unit(beside(figure.value, goal.limit), goal.unit) if figure else NONE
    between = (spread(figure) if figure else "") or NONE
    return [goal.workload, goal.measure, goal.bound, seen, between, said]


def goals_part(store):
    verdicts = [goals.judged(goal, store)[1] for goal in goals.GOALS]
    measured = [one for one in verdicts if one is not None]
    yield "## Goals"
    yield ""
    yield "%d of %d are met%s. The column \"seen\" is the median over rounds, or for a worst " \
        "answer the worst of all rounds; a ratio is one of two runs of the same round. The " \
        "spread is from the least to the greatest value." % (
            sum(measured), len(verdicts),
            "" if len(measured) == len(verdicts)
            else ", %d have not been measured" % (len(verdicts) - len(measured)))  # fmt: skip
    yield ""
    lines = [goal_line(goal, store) for goal in goals.GOALS]
    yield from table(["workload", "measure", "goal", "seen", "spread", "met"], lines, 2)
    yield ""


# ---- rows ----------------------------------------------------------------------------------------


def values(row, subject, column, store):
    """The values of a column for a subject, by round."""
    mine = goals.Value(row.name, subject.name, column.path).by_round(store)
    if column.compared:
        if not subject.ours:
            return []
        mine = figures.ratios(mine, goals.Value(row.name, subject.ours, column.path).by_round(store))
    return [None if value is None else value * column.scale for value in mine]


def cell(figure, column):
    if figure is None:
        return NONE
    text = number(figure.value)
    between = spread(figure) if column.spread else ""
    return "%s (%s)" % (text, between) if between else text


def line_for_each(row, store):
    """A line for each measured subject."""
    lines = []
    for subject in row.subjects:
        there = [figures.summary(values(row, subject, one, store)) for one in row.columns]
        if any(there):
            lines.append([subject.name, *map(cell, there, row.columns)])
    yield from table(["", *(column.title for column in row.columns)], lines)


def remarks(row, kept, store, tree):
    """Remarks on how a row was measured."""
    rounds = len(kept["rounds"])
    yield "%d round%s%s" % (rounds, "" if rounds == 1 else "s",
                           " of %d asked for" % kept["asked"] if rounds < kept["asked"] else "")  # fmt: skip
    if any(s.load and s.load.timed for s in row.subjects):
        yield "%g s for each run" % kept["seconds"]
    shares = [figures.lookup(one, "others") or 0 for results in kept["rounds"] for one in results.values()]
    if max(shares) > machine.OTHERS_MAX:
        yield "other processes took up to %.0f %% of the cores during a run, %.0f %% on average" % (
            100 * max(shares), 100 * sum(shares) / len(shares))  # fmt: skip
    if kept["tree"] != tree:
        yield "measured on %s with counterd %s" % (kept["date"], kept["tree"])


def troubles(row, store):
    """Failed runs and wrong answers."""
    for name, why in dict(store.failures(row.name)).items():
        yield "- %s failed at least once: `%s`" % (name, why.replace("\n", " ").replace("`", "'"))
    for subject in row.subjects:
        errors = goals.Value(row.name, subject.name, "errors").by_round(store)
        total = sum(filter(None, errors))
        if total:
            yield "- %s: %d requests went wrong in all rounds together" % (subject.name, total)


def row_part(row, store, tree):
    kept = store.read(row.name)
    if kept is None:
        return
    yield "### %s" % row.title
    yield ""
    yield "%s (`%s`: %s.)" % (row.about, row.name, ", ".join(remarks(row, kept, store, tree)))
    yield ""
    yield from line_for_each(row, store)
    yield ""
    said = list(troubles(row, store))
    if said:
        yield from said
        yield ""


# ---- the whole -----------------------------------------------------------------------------------


def machine_part(build):
    yield "## Machine"
    yield ""
    yield from table(["what", "which"], machine.facts(build), 2)


def prevailing(store, default):
    """The version that most rows were measured with, and the date."""
    kept = [one for one in (store.read(row.name) for row in rows.ROWS) if one]
    return max(
        [(one["tree"], one["date"]) for one in kept] or [(default, machine.today())],
        key=lambda which: (sum((one["tree"], one["date"]) == which for one in kept), which[1]),
    )


def whole(build, store, tree, note, findings=False):
    """Lines of the file. `tree`: the current version; `findings`: FINDINGS.md exists."""
    tree, date = prevailing(store, tree)
    yield "# Results"
    yield ""
    yield "Measured by `./dev bench` on %s with counterd %s%s; do not edit. How to run and read it: " \
        "[README.md](README.md).%s" % (
            date, tree, note,
            " Where the time goes: [FINDINGS.md](FINDINGS.md)." if findings else "")  # fmt: skip
    yield ""
    yield from goals_part(store)
    yield "## Measurements"
    yield ""
    for row in rows.ROWS:
        yield from row_part(row, store, tree)
    yield from machine_part(build)


def write(build, store, tree, out, note=""):
    """RESULTS.md in the folder `out`; returns its path."""
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, "RESULTS.md")
    findings = os.path.exists(os.path.join(out, "FINDINGS.md"))
    with open(path, "w") as f:
        f.write("\n".join(whole(build, store, tree, note, findings)) + "\n")
    return path
