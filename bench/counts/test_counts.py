"""
Fails when a request costs over 5 % more instructions or system calls than the record. A lower cost
does not fail; the tests report it until it is in the record.
"""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "..", "t", "system"))
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
    judged, why = RECORD.judged(built)
    grown = now[name].grown(RECORD.counts[name], judged)
    assert not grown, "%s: %s; %s" % (" and ".join(grown), line, HOW)
    if "own" not in judged:
        pytest.skip("only calls are judged: %s: %s" % (why, line))


@pytest.mark.parametrize("name", [name for name in RECORD.counts if name.startswith("take-")])
def test_members_cost_at_most_twice_what_locks_cost(measured, name):
    _, now = measured
    lock = {
        "take-refusal": "text-refusal",
        "take-pair-50": "text-pair-50",
        "take-pair-deep": "text-pair-deep",
    }
    usual = "text-handover" if "handover" in name else "text-pair"
    assert now[name].total <= 2 * now[lock.get(name, usual)].total


def test_all_is_on_record(measured):
    _, now = measured
    assert sorted(now) == sorted(RECORD.counts), HOW
    less = [name for name in now if now[name].has_shrunk(RECORD.counts[name])]
    if less:
        pytest.skip("costs less than is on record (./dev counts): " + ", ".join(less))


if __name__ == "__main__":
    tap.main(__file__)
