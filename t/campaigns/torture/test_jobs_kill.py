"""The daemon is killed amid stored jobs: the short form of ./dev torture jobs-kill."""

import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "..", "system"))
import tap  # noqa: E402
import pytest  # noqa: E402

import jobs_kill  # noqa: E402
import servers  # noqa: E402


def test_no_answered_job_is_lost_and_no_deleted_one_is_back():
    if not servers.have_counterd():
        pytest.skip("COUNTERD names no daemon")
    seed = int(os.environ.get("T_SEED") or random.randrange(2**31))
    print("seed %d" % seed)
    print(jobs_kill.campaign(5, seed))


if __name__ == "__main__":
    tap.main(__file__)
