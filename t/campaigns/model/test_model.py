"""The model of grants, verdicts and mailboxes is correct, and fails when it has a planted bug."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "..", "system"))
import tap  # noqa: E402
import pytest  # noqa: E402

import model  # noqa: E402
import search  # noqa: E402
import wire  # noqa: E402

EVENTS = 5  # ./dev model searches more


@pytest.fixture(autouse=True)
def needs_spin():
    if not search.have_tools():
        pytest.skip("spin or gcc is not installed")
    if wire.SLOW:
        pytest.skip("the model is the same for every build: the plain run searches it")


def test_all_holds():
    result = model.search(EVENTS, 2, optimize="-O0")
    assert not result.error, "%s\n%s" % (result.error, result.trail)
    assert result.states > 100000


@pytest.mark.parametrize("plant", [5])
def test_planted_bug_is_found(plant):
    assert model.search(EVENTS + 1, 2, plant, optimize="-O0").error, model.PLANTED[plant]


if __name__ == "__main__":
    tap.main(__file__)
