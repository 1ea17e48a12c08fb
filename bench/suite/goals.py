"""The goals: goals.txt, and the value that was measured for each.

There is a value for each round. The median of these is compared with the goal; for a worst answer or a log's size, the
greatest. A ratio is taken within each round, of two runs made one after the other; the median of these ratios counts.
Most disturbances of the machine affect both runs of a round.
"""

import os
from collections import namedtuple
from statistics import median

# The result of several rounds. `low` and `high` are the least and the greatest value.
Figure = namedtuple("Figure", "value low high rounds")


def summary(values, choose=median):
    """A Figure of the values of rounds (None: a failed round); None if there are none."""
    there = [value for value in values if value is not None]
    if not there:
        return None
    return Figure(choose(there), min(there), max(there), len(there))


def ratios(over, under):
    """The ratio for each round; None if a value is missing or the divisor is 0."""
    return [
        None if a is None or not b else a / b for a, b in zip(over, under)
    ]  # fmt: skip


def lookup(result, path):
    """A number of a result by its dotted path, as in "latency_us.p999"; None if it is missing."""
    for key in path.split("."):
        if not isinstance(result, dict) or key not in result:
            return None
        result = result[key]
    return result


GREATEST = ("latency_us.max", "log_bytes")


class Value:
    """A number measured for one subject, by its path in the results."""

    def __init__(self, row, subject, path):
        self.needs = [(row, subject)]
        self.row, self.subject, self.path = row, subject, path
        self.choose = max if path in GREATEST else median

    def by_round(self, store):
        return [lookup(result, self.path) for result in store.results(self.row, self.subject)]

    def figure(self, store):
        return summary(self.by_round(store), self.choose)


class Ratio:
    """The ratio of two numbers within each round."""

    def __init__(self, over, under):
        self.over, self.under = over, under
        self.needs = over.needs + under.needs

    def figure(self, store):
        return summary(ratios(self.over.by_round(store), self.under.by_round(store)))


# bound: as in the file; is_most: the limit is an upper one.
Goal = namedtuple("Goal", "bound workload measure formula is_most limit unit")


def _goal(line):
    bound, workload, measure, path, of, *beside = line.strip().split(" | ")
    row, subject = of.split(": ")
    formula = Value(row, subject, path)
    if beside and beside[0].startswith("~ "):
        formula = Ratio(formula, Value(row, subject, beside[0][2:]))
    elif beside:
        other_row, _, other = ("%s: %s" % (row, beside[0])).rpartition(": ")
        formula = Ratio(formula, Value(other_row.split(": ")[-1], other, path))
    sign, limit, *unit = bound.split()
    return Goal(bound, workload, measure, formula, sign == "≤", float(limit), "".join(unit))


with open(os.path.join(os.path.dirname(__file__), "goals.txt"), encoding="utf-8") as lines:
    GOALS = [_goal(line) for line in lines if line[0] != "#"]

# Results are in microseconds, bytes and seconds.
SCALES = {"ms": 1e-3, "MiB": 1 / 1048576}


def judged(goal, store):
    """A Figure in the goal's unit, and True if the goal is met; None, None without results."""
    figure = goal.formula.figure(store)
    if figure is None:
        return None, None
    scale = SCALES.get(goal.unit, 1)
    value, low, high, count = figure
    figure = Figure(value * scale, low * scale, high * scale, count)
    return figure, figure.value <= goal.limit if goal.is_most else figure.value >= goal.limit
