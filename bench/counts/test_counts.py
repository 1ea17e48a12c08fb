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


def a_count(own, library=0, calls=2.0):
    layers = {**dict.fromkeys(counts.COLUMNS, 0), "engine": own, "libc": library}
    return counts.Count("pair", own + library, calls, layers)


@pytest.mark.parametrize(
    "now, grown",
    [
        (a_count(1000), []),
        (a_count(1050), []),
        (a_count(500), []),
        (a_count(1051), ["own", "total"]),
        (a_count(1000, 51), ["total"]),
        (a_count(900, 151), ["total"]),
        (a_count(1000, calls=2.1), []),
        (a_count(1000, calls=2.2), ["calls"]),
    ],
    ids=lambda x: "+".join(x) or "less" if isinstance(x, list) else "%d,%.1f" % (x.total, x.calls),
)
def test_judgement(now, grown):
    assert now.grown(a_count(1000), ["calls", "own", "total"]) == grown


def test_record_is_read_as_written(tmp_path, monkeypatch):
    monkeypatch.setattr(counts, "RECORD", str(tmp_path / "record"))
    assert counts.Record.read().counts == {}
    counts.Record.read().write(RECORD.built, {"a": a_count(1000)}, "First")
    counts.Record.read().write(RECORD.built, {"a": a_count(1000), "b": a_count(1)}, "Second")
    counts.Record.read().write(RECORD.built, {"a": a_count(1100, calls=3.0)}, "Third")
    record = counts.Record.read()
    assert record.built == RECORD.built
    assert list(record.counts) == ["a"] and record.counts["a"].own == 1100
    said = (tmp_path / "record").read_text().partition("\nLast change\n\n")[2].splitlines()
    assert [line.split("  ")[-1] for line in said] == [
        "Third",
        "a 1000 -> 1100, calls 2.00 -> 3.00",
        "b 1, no more",
    ]


if __name__ == "__main__":
    tap.main(__file__)
