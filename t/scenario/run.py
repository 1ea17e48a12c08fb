"""
Plays every story on the fake network, the daemon's real services with a clock of our own: once
plainly, and in modes that T_SEED chooses (modes.py). `./dev torture stories` has all modes.
"""

import itertools
import os
import random
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import tap  # noqa: E402
import pytest  # noqa: E402

import backends  # noqa: E402
import modes  # noqa: E402
import player  # noqa: E402
from story import read_folder  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
STORIES = [story for story in read_folder(HERE) if "fake" in story.servers]
SEED = int(os.environ.get("T_SEED") or random.randrange(2**32))
os.environ["T_SEED"] = str(SEED)  # pytest imports this file again
SAMPLE = [story for story in STORIES if not story.broken]
if os.environ.get("T_SLOW") == "1":
    SAMPLE = random.Random(SEED).sample(SAMPLE, len(SAMPLE) // 4)
INFO = {}  # numbers of allocations and calls in each story

FILE_MOVES = {("- down", "add")}  # only the configuration makes it, before anybody can watch (daemon-pools.scn)


@pytest.fixture(scope="module")
def fakenet():
    backend = backends.FakeBackend(modes.FAKENET)
    yield backend
    backend.close()


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_story(story, fakenet):
    modes.play(story, fakenet, modes.Mode("", 0))
    INFO[story] = fakenet.info


@pytest.mark.parametrize("story", SAMPLE, ids=lambda story: story.name)
def test_modes(story, fakenet):
    chance = random.Random("%d %s" % (SEED, story.name))
    spec = modes.sample(story, INFO.get(story) or modes.counts(story, fakenet), chance)
    modes.play(story, fakenet, modes.Mode(spec, SEED))


def test_start_without_memory(fakenet):
    """Each allocation of the start is refused once: nothing is left of the server."""
    for number in itertools.count(1):
        try:
            fakenet.start({"refuse_start": number})
        except backends.Died as e:
            assert "it does not start" in str(e)
        refused = fakenet.faults
        fakenet.finish()
        if not refused:
            break
    assert number > 50


def test_every_move_of_a_pool_is_expected_by_a_story():
    """Both ways: a story can't expect a move that player.py does not know."""
    expected = set()
    for story in STORIES:
        for step in story.steps:
            for found in re.finditer(r"EVENT \S+ \S+ (\S+ \S+) (\w+)", step.line):
                expected.add(found.groups())
    known = {(fromto, why) for fromto, whys in player.MOVES.items() for why in whys.split()}
    assert not expected - known, "no such moves"
    assert not known - expected - FILE_MOVES, "moves that no story expects"


if __name__ == "__main__":
    print("# T_SEED=%d" % SEED, flush=True)
    tap.main(__file__)
