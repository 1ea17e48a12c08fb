"""
No request costs over 5 % more instructions or system calls than the record says. What costs less
does not fail, and is told of until it is on record.
"""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "system"))
import tap  # noqa: E402
import pytest  # noqa: E402

import counts  # noqa: E402

RECORD = counts.Record.read()
HOW = "if it must be: ./dev counts --accept 'REASON'"


@pytest.fixture(scope="module")
def measured():
    why = counts.cannot_count()
    if why:
        pytest.skip(why)
    return counts.measure()


def test_script_is_played_to_its_end():
    subprocess.run([counts.REQUESTS], stdout=subprocess.DEVNULL, check=True, timeout=300)


@pytest.mark.parametrize("name", RECORD.counts)
def test_no_growth(measured, name):
    built, now = measured
    assert name in now, "it is not counted any more; " + HOW
    line = counts.compare(name, RECORD.counts[name], now[name])
    if built != RECORD.built:
        other = ["%s %s" % item for item in built.items() if item not in RECORD.built.items()]
        pytest.skip("the record is of another build than %s: %s" % (", ".join(other), line))
    assert not now[name].has_grown(RECORD.counts[name]), line + "; " + HOW


def test_all_is_on_record(measured):
    _, now = measured
    assert sorted(now) == sorted(RECORD.counts), HOW
    less = [name for name in now if now[name].has_shrunk(RECORD.counts[name])]
    if less:
        pytest.skip("costs less than is on record (./dev counts): " + ", ".join(less))


def a_count(total, calls=2.0):
    return counts.Count("pair", total, calls, {layer: 0.0 for layer in counts.COLUMNS})


@pytest.mark.parametrize(
    "now, grown",
    [
        (a_count(1000), False),
        (a_count(1050), False),
        (a_count(1051), True),
        (a_count(500), False),
        (a_count(1000, 2.1), False),
        (a_count(1000, 2.5), True),
    ],
    ids=lambda x: x if isinstance(x, bool) else "%d-%.1f" % (x.total, x.calls),
)
def test_judgement(now, grown):
    assert now.has_grown(a_count(1000)) == grown


if __name__ == "__main__":
    tap.main(__file__)
