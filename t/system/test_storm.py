"""Many clients of both protocols on a few names, with an observer that counts (storm.c)."""

import os
import random
import subprocess

import tap
import pytest

import wire

BUILD = os.environ.get("TOP_BUILDDIR", ".")
STORM = os.path.join(BUILD, "t", "system", "storm")
STORM_KILL = os.path.join(BUILD, "t", "campaigns", "torture", "storm_kill")


@pytest.mark.parametrize("threads", [4])
def test_a_storm_of_clients_never_exceeds_a_limit_and_leaves_all_free(start, threads):
    seconds = int(os.environ.get("T_STORM_SECONDS") or 5)
    seed = int(os.environ.get("T_SEED") or random.randrange(2**32))
    daemon = start("counter.threads=%d" % threads)
    host, text_port = daemon.text
    done = subprocess.run(
        [STORM, host, str(text_port), str(daemon.binary[1]), str(seconds), str(seed)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=seconds + 120,
        check=False,
    )
    print(done.stdout.decode())
    assert done.returncode == 0, done.stdout.decode()
    with daemon.binary_client() as client:
        wire.poll(lambda: int(dict(client.stats())["curr_connections"]) == 1, "all others are gone")


def test_a_storm_of_processes_that_are_killed_leaves_all_free(start):
    seed = int(os.environ.get("T_SEED") or random.randrange(2**32))
    daemon = start("counter.threads=4")
    host, text_port = daemon.text
    numbers = (text_port, daemon.binary[1], 0, 3, seed, 60000)
    done = subprocess.run(
        [STORM_KILL, host, *map(str, numbers)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
        check=False,
    )
    print(done.stdout.decode())
    assert done.returncode == 0, done.stdout.decode()


if __name__ == "__main__":
    tap.main(__file__)
