"""The engine in memory does what Redis does with the scripts, and the comparison would see it if not."""

import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "..", "system"))
import tap  # noqa: E402
import pytest  # noqa: E402

import compare  # noqa: E402
import compare_calls  # noqa: E402
import planted  # noqa: E402

SEED = os.environ.get("T_SEED")
QUICK = ["beat-not-compared", "done-for-the-oldest", "deaf-unnoticed"]  # found by the first seeds

pytestmark = pytest.mark.skipif(
    not (compare.redis_servers.have_redis() and shutil.which("patch")),
    reason="redis-server or patch is not installed",
)


def test_random_calls_have_the_same_answers():
    first = int(SEED, 0) if SEED else int.from_bytes(os.urandom(4), "big")
    print("# T_SEED=%d" % first)
    counts = {}
    for seed in range(first, first + (1 if SEED else 5)):
        wrong = compare_calls.run(compare.SCRIPTS, seed, planted.STEPS, counts)
        assert not wrong, wrong
    if not SEED:
        assert {"open OPEN", "error SESSION", "a 1", "a more", "r 1", "c 1"} <= set(counts), counts


@pytest.mark.parametrize("name", planted.names())
def test_planted_bugs_still_apply(name):
    with planted.scripts_with(name) as folder:
        assert os.path.exists(os.path.join(folder, "open.lua"))


@pytest.mark.parametrize("name", QUICK)
def test_planted_bugs_are_found(name):
    with planted.scripts_with(name) as folder:
        assert planted.found(folder, 1, 10)[1], "not found"


if __name__ == "__main__":
    tap.main(__file__)
