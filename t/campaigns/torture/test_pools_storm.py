"""Clients of pools are killed at random: the short form of ./dev torture pools."""

import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "..", "system"))
import tap  # noqa: E402
import pytest  # noqa: E402

import pools  # noqa: E402
import servers  # noqa: E402


def test_every_member_is_in_one_state_and_all_are_free_at_the_end():
    if not servers.have_counterd():
        pytest.skip("COUNTERD names no daemon")
    seed = int(os.environ.get("T_SEED") or random.randrange(2**31))
    print("seed %d" % seed)
    print(pools.storm(6, seed))


if __name__ == "__main__":
    tap.main(__file__)
