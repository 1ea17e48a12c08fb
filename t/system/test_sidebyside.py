"""
Plays the stories of t/scenario over TCP against the daemon. Plays those with the matching tags also
against Debian's poolcounterd and yrmcdsd. Each story has a server of its own.
"""

import os
import sys

import tap
import pytest

import servers
import wire

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "scenario"))
import player  # noqa: E402

STORIES = player.read_folder(os.path.join(HERE, "..", "scenario"))
CASES = [
    (server, story)
    for server in ("ours", "poolcounterd", "yrmcds")
    for story in STORIES
    if server in story.servers
]

# The daemon's names for the settings of a story.
OPTIONS = {
    "stats_interval": ["counter.stats_interval"],
    "max_locks": ["poolcounter.max_locks"],
    "max_line": ["poolcounter.max_line"],
    "request_timeout": ["limits.request_timeout"],
    "write_timeout": ["limits.write_timeout"],
    "max_connections": ["counter.max_connections", "poolcounter.max_connections"],
}


def start(server, settings):
    if server == "ours":
        if not servers.have_counterd():
            pytest.skip("COUNTERD names no daemon")
        options = [
            "%s=%s" % (key, value) for name, value in settings.items() for key in OPTIONS[name]
        ]
        return servers.Counterd("counter.threads=2", "counter.buckets=1000", *options)
    kind = {"poolcounterd": servers.Poolcounterd, "yrmcds": servers.Yrmcdsd}[server]
    if not kind.is_installed():
        pytest.skip("%s is not installed" % server)
    return kind(**settings)


@pytest.mark.parametrize("server,story", CASES, ids=lambda x: getattr(x, "name", x))
def test_story(server, story):
    process = start(server, story.settings)
    backend = player.SocketBackend(process)
    try:
        player.Player(story, backend).play()
        backend.finish()
        process.stop()
    finally:
        backend.kill()
        process.kill()


if __name__ == "__main__":
    tap.main(__file__)
