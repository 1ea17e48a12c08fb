"""No timer is early, late or frozen, whatever the clocks show: the short form of ./dev torture clock."""

import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "..", "system"))
import tap  # noqa: E402
import pytest  # noqa: E402

import clock  # noqa: E402
import servers  # noqa: E402
import wire  # noqa: E402


@pytest.fixture
def rng(monkeypatch):
    if not servers.have_counterd():
        pytest.skip("COUNTERD names no daemon")
    monkeypatch.setattr(clock, "LATE", 60)  # the machine may be as busy as it likes
    seed = int(os.environ.get("T_SEED") or random.randrange(2**32))
    print("seed %d" % seed)
    return random.Random(seed)


def test_monotonic_clock_at_powers_of_two(rng):
    why = clock.cannot_unshare()
    if why:
        pytest.skip(why)
    clock.monotonic(["2^31 ms", "2^32 ms", "2^53 ns"], 1.2, 10, rng)


if __name__ == "__main__":
    tap.main(__file__)
