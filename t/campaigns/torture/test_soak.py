"""The short form of ./dev soak: it performs all its actions, and leaves nothing behind."""

import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "..", "system"))
import tap  # noqa: E402
import pytest  # noqa: E402

import servers  # noqa: E402
import soak  # noqa: E402


def test_a_short_soak(tmp_path):
    if not servers.have_counterd():
        pytest.skip("COUNTERD names no daemon")
    seed = int(os.environ.get("T_SEED") or random.randrange(2**32))
    print("seed %d" % seed)
    daemon = soak.start_daemon(tmp_path)
    try:
        taken = soak.soak(daemon, 1, 1, seed)
        # In so short a time memory grows to its working size, but a leak of descriptors shows.
        assert taken[-1][2] <= taken[0][2] + 4, taken
        daemon.stop()
    finally:
        daemon.kill()


if __name__ == "__main__":
    tap.main(__file__)
