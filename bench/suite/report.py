"""RESULTS.md: the goals and what was measured for them, the loads, the machine."""

import os

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


def unit_of(path):
    """The unit of a number of a result."""
    return "a second" if path == "per_second" else "ns" if path.startswith("ns_") else "µs"


def both(formula, store):
    """The two numbers of a ratio, each the median of its rounds."""
    if not isinstance(formula, goals.Ratio):
        return NONE
    over, under = (number(one.figure(store).value) for one in (formula.over, formula.under))
    return "%s ÷ %s" % (over, with_unit(under, unit_of(formula.over.path)))


def goal_line(goal, store):
    figure, is_met = goals.judged(goal, store)
    if not figure:
        return [goal.workload, goal.measure, goal.bound, NONE, NONE, NONE, "not measured"]
    seen = with_unit(beside(figure.value, goal.limit), goal.unit)
    return [goal.workload, goal.measure, goal.bound, seen, spread(figure) or NONE,
            both(goal.formula, store), "yes" if is_met else "**no**"]  # fmt: skip


def goals_part(store):
    results = [goals.judged(goal, store)[1] for goal in goals.GOALS]
    measured = [one for one in results if one is not None]
    yield "## Goals"
    yield ""
    yield "%d of %d are met%s. The column \"seen\" is the median over rounds, or for a worst " \
        "answer the worst of all rounds; a ratio is one of two runs of the same round. The " \
        "spread is from the least to the greatest value, \"measured\" both numbers of a ratio." % (
            sum(measured), len(results),
            "" if len(measured) == len(results)
            else ", %d have not been measured" % (len(results) - len(measured)))  # fmt: skip
    yield ""
    lines = [goal_line(goal, store) for goal in goals.GOALS]
    yield from table(["workload", "measure", "goal", "seen", "spread", "measured", "met"], lines, 2)
    yield ""


# ---- loads ---------------------------------------------------------------------------------------


def remarks(row, kept, tree):
    """Remarks on how a row was measured."""
    rounds = len(kept["rounds"])
    yield "%d round%s%s" % (rounds, "" if rounds == 1 else "s",
                           " of %d asked for" % kept["asked"] if rounds < kept["asked"] else "")  # fmt: skip
    if any(s.load and s.load.timed for s in row.subjects):
        yield "%g s for each run" % kept["seconds"]
    shares = [goals.lookup(one, "others") or 0 for results in kept["rounds"] for one in results.values()]
    if max(shares) > machine.OTHERS_MAX:
        yield "other processes took up to %.0f %% of the cores during a run, %.0f %% on average" % (
            100 * max(shares), 100 * sum(shares) / len(shares))  # fmt: skip
    if kept["tree"] != tree:
        yield "measured on %s with counterd %s" % (kept["date"], kept["tree"])


def troubles(row, store):
    """Failed runs and wrong answers."""
    for name, why in dict(store.failures(row.name)).items():
        yield "  - %s failed at least once: `%s`" % (name, why.replace("\n", " ").replace("`", "'"))
    for subject in row.subjects:
        errors = goals.Value(row.name, subject.name, "errors").by_round(store)
        total = sum(filter(None, errors))
        if total:
            yield "  - %s: %d requests went wrong in all rounds together" % (subject.name, total)


def loads_part(store, tree):
    """What each row is, and how it went."""
    yield "## Loads"
    yield ""
    for row in rows.ROWS:
        if kept := store.read(row.name):
            said = ", ".join(remarks(row, kept, tree))
            yield "- `%s`: %s. %s (%s.)" % (row.name, row.title, row.about, said)
            yield from troubles(row, store)
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
    yield from loads_part(store, tree)
    yield from machine_part(build)


def write(build, store, tree, out, note=""):
    """RESULTS.md in the folder `out`; returns its path."""
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, "RESULTS.md")
    findings = os.path.exists(os.path.join(out, "FINDINGS.md"))
    with open(path, "w") as f:
        f.write("\n".join(whole(build, store, tree, note, findings)) + "\n")
    return path
