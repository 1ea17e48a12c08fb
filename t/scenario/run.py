"""Plays every story on the fake network: the daemon's real services with a clock of our own."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import tap  # noqa: E402
import pytest  # noqa: E402

import player  # noqa: E402

FAKENET = os.environ.get("FAKENET") or os.path.join(
    os.environ.get("TOP_BUILDDIR", "."), "t", "scenario", "fakenet"
)
STORIES = [
    story
    for story in player.read_folder(os.path.dirname(os.path.abspath(__file__)))
    if "fake" in story.servers
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_story(story):
    backend = player.FakeBackend(FAKENET, story.settings)
    try:
        player.Player(story, backend).play()
        backend.finish()
    finally:
        backend.kill()


if __name__ == "__main__":
    tap.main(__file__)
