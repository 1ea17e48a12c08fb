"""Workers of the client libraries while things go wrong: the short form of ./dev torture clients."""

import os
import random
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "..", "system"))
import tap  # noqa: E402
import pytest  # noqa: E402

import clients  # noqa: E402
import planted  # noqa: E402
import servers  # noqa: E402


def test_each_job_runs_and_twice_only_with_a_reason():
    if not servers.have_counterd():
        pytest.skip("COUNTERD names no daemon")
    seed = int(os.environ.get("T_SEED") or random.randrange(2**31))
    print("seed %d" % seed)
    lines, found = clients.storm(seed, 300, 2, kinds=clients.installed(), deadline=300, ttr=3)
    assert not found, "\n".join(lines + found[:20])


@pytest.mark.parametrize("bug", planted.BUGS, ids=lambda bug: bug[0])
def test_planted_bug_applies(bug):
    with tempfile.TemporaryDirectory() as folder:
        assert planted.planted(folder, bug), "%s has not this text: %s" % (bug[2], bug[3])
        if bug[2].endswith(".py"):
            with open(os.path.join(folder, bug[0], bug[2])) as f:
                compile(f.read(), bug[2], "exec")


if __name__ == "__main__":
    tap.main(__file__)
