"""Tests a daemon that runs out of something: the short form of ./dev torture exhaustion."""

import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "..", "system"))
import tap  # noqa: E402
import pytest  # noqa: E402

import exhaustion  # noqa: E402
import servers  # noqa: E402
import wire  # noqa: E402


@pytest.mark.parametrize("part", list(exhaustion.PARTS))
def test_exhaustion(part):
    if not servers.have_counterd():
        pytest.skip("COUNTERD names no daemon")
    seed = int(os.environ.get("T_SEED") or random.randrange(2**32))
    print("seed %d" % seed)
    with exhaustion.starting() as start:
        scale = exhaustion.SLOW if wire.SLOW else exhaustion.SHORT
        exhaustion.PARTS[part](start, scale, random.Random(seed))


if __name__ == "__main__":
    tap.main(__file__)
