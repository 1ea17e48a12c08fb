"""The model of limits that nodes share is correct, and fails when it has a planted bug."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "..", "system"))
import tap  # noqa: E402
import pytest  # noqa: E402

import cluster  # noqa: E402
import search  # noqa: E402
import wire  # noqa: E402
from cluster import CRASH, MACHINE, RESET, STOP, SUBSCRIBED  # noqa: E402

# ./dev model searches more.
SHORT = {
    "reset": cluster.bounds(RESET, beats=3, acts=1, calm=1),
    "subscription": cluster.bounds(SUBSCRIBED, beats=3, acts=1, calm=1),
    "processes": cluster.bounds(STOP + MACHINE + CRASH, beats=3, calm=1),
}


@pytest.fixture(autouse=True)
def needs_spin():
    if not search.have_tools():
        pytest.skip("spin or gcc is not installed")
    if wire.SLOW:
        pytest.skip("the model is the same for every build: the plain run searches it")


@pytest.mark.parametrize("what", SHORT)
def test_all_holds(what):
    result = cluster.search(SHORT[what], optimize="-O0")
    assert not result.error, "%s\n%s" % (result.error, result.trail)
    assert result.states > 1000


@pytest.mark.parametrize("plant", [8, 10, 12, 14, 16, 18])
def test_planted_bug_is_found(plant):
    what, chosen = cluster.PLANTED[plant]
    assert cluster.search(chosen, plant, optimize="-O0").error, what


if __name__ == "__main__":
    tap.main(__file__)
