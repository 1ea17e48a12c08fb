"""The arithmetic of the suite: medians over rounds, ratios within a round, percentiles.

A ratio is taken within each round, of two runs that were made one after the other, and the median
of these is what counts: what the machine does at one time it does to both.
"""

from collections import namedtuple

# What is said of several rounds. `low` and `high` are the least and the greatest.
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
    """A Figure of what was measured in rounds (None where one failed); None where there is nothing."""
    there = [value for value in values if value is not None]
    if not there:
        return None
    return Figure(choose(there), min(there), max(there), len(there))


def ratios(over, under):
    """Round by round; None for a round that lacks one of the two, or whose divisor is 0."""
    return [
        None if a is None or not b else a / b for a, b in zip(over, under)
    ]  # fmt: skip


def lookup(result, path):
    """A number of a result by its dotted path, as in "latency_us.p999"; None where it is not there."""
    for key in path.split("."):
        if not isinstance(result, dict) or key not in result:
            return None
        result = result[key]
    return result


def merged(histograms):
    """One histogram of several: pairs of upper bound and count, by rising bounds."""
    counts = {}
    for histogram in histograms:
        for upper, count in histogram:
            counts[upper] = counts.get(upper, 0) + count
    return sorted(counts.items())


def percentile(histogram, fraction):
    """The upper bound of the class that holds this fraction of all; None where it is empty."""
    total = sum(count for _, count in histogram)
    seen = 0
    for upper, count in histogram:
        seen += count
        if count and seen >= fraction * total:
            return upper
    return None


def tail(histogram):
    """Points for a curve of percentiles: one in how many takes longer than what, up to the worst."""
    total = sum(count for _, count in histogram)
    seen, points = 0, []
    for upper, count in histogram:
        if count:
            # The class's own share lies at or above its beginning.
            points.append((total / (total - seen), upper))
            seen += count
    if points and points[-1][0] < total:
        points.append((total, points[-1][1]))
    return points
