"""Processes of both protocols on a few names, which are killed, with an observer that counts (storm_kill.c)."""

import os
import random
import subprocess

import tap

BUILD = os.environ.get("TOP_BUILDDIR", ".")
STORM_KILL = os.path.join(BUILD, "t", "campaigns", "torture", "storm_kill")


def test_a_storm_of_processes_that_are_killed_leaves_all_free(start):
    seed = int(os.environ.get("T_SEED") or random.randrange(2**32))
    daemon = start("counter.threads=4")
    numbers = (daemon.text[1], daemon.binary[1], 0, 3, seed, 60000)
    done = subprocess.run(
        [STORM_KILL, daemon.text[0], *map(str, numbers)],
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
