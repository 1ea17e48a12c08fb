"""
Plays the stories of t/scenario over TCP against the daemon. Plays those with the matching tags also
against Debian's poolcounterd, yrmcdsd and beanstalkd; and those of jobs with a store. Each story has a server of its own.

Of the daemon's, which run.py plays, too, T_SEED draws a quarter each time, unless arguments choose some.
"""

import os
import random
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
    for server in ("ours", "poolcounterd", "yrmcds", "beanstalkd")
    for story in STORIES
    if server in story.servers
]
CASES += [
    ("stored", story)
    for story in STORIES
    if "ours" in story.servers
    and story.file.startswith("jobs-")
    and "jobs_memory" not in story.settings
]

if len(sys.argv) == 1:
    SEED = int(os.environ.get("T_SEED") or random.randrange(2**32))
    print("# stories: T_SEED=%d" % SEED, flush=True)
    DRAWN = random.Random(SEED)
    CASES = [case for case in CASES if case[0] not in ("ours", "stored") or DRAWN.random() < 0.25]

# The daemon's names for the settings of a story.
OPTIONS = {
    "stats_interval": ["counter.stats_interval"],
    "max_locks": ["poolcounter.max_locks"],
    "max_line": ["poolcounter.max_line"],
    "request_timeout": ["limits.request_timeout"],
    "write_timeout": ["limits.write_timeout"],
    "max_connections": ["counter.max_connections", "poolcounter.max_connections"],
    "operators": ["pools.operators"],
    "suppliers": ["pools.suppliers"],
    "pools_max": ["pools.max"],
    "pools_max_members": ["pools.max_members"],
    "pools_max_watchers": ["pools.max_watchers"],
    "pools_max_taken": ["pools.max_taken"],
    "max_job_size": ["jobs.max_job_size"],
    "jobs_memory": ["jobs.memory_limit"],
    "tube_defaults": ["jobs.tube_defaults"],
}


def start(server, settings, *more):
    if server in ("ours", "stored"):
        if not servers.have_counterd():
            pytest.skip("COUNTERD names no daemon")
        options = [
            "%s=%s" % (key, value.replace(",", " "))
            for name, value in settings.items()
            for key in OPTIONS[name]
        ]
        return servers.Counterd("counter.threads=2", "counter.buckets=1000", *more, *options)
    kind = {
        "poolcounterd": servers.Poolcounterd,
        "yrmcds": servers.Yrmcdsd,
        "beanstalkd": servers.Beanstalkd,
    }[server]
    if not kind.is_installed():
        pytest.skip("%s is not installed" % server)
    return kind(**settings)


@pytest.mark.parametrize("server,story", CASES, ids=lambda x: getattr(x, "name", x))
def test_story(server, story, tmp_path):
    of_jobs = ["jobs.enable=true", "jobs.port=0"] if story.file.startswith("jobs-") else []
    if server == "stored":
        of_jobs.append("jobs.path=%s" % (tmp_path / "jobs.db"))
    process = start(server, story.settings, *of_jobs)
    backend = player.SocketBackend(process)
    try:
        try:
            player.play(story, backend)
        finally:
            process.stop()  # tells of a server that has ended, and of a sanitizer's report
    finally:
        backend.kill()
        process.kill()


if __name__ == "__main__":
    tap.main(__file__)
