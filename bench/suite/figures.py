"""The arithmetic of the suite: medians over rounds, ratios within a round.

A ratio is taken within each round, of two runs made one after the other; the median of these ratios
counts. Most disturbances of the machine affect both runs of a round.
"""

from collections import namedtuple

# The result of several rounds. `low` and `high` are the least and the greatest value.
Figure = namedtuple("Figure", "value low high rounds")


def median(values):
    """The middle one, or the mean of the two in the middle."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    half = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2


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
