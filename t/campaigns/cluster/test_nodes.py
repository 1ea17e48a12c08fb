"""A short form of the simulation of nodes (t/README.md). It prints the seed that finds a failure again."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "system"))
import tap  # noqa: E402

TOP = os.environ.get("TOP_BUILDDIR", os.path.join(HERE, "..", "..", "..", "build"))
SLOW = os.environ.get("T_SLOW") == "1"
SEED = os.environ.get("T_SEED")


def test_nodes():
    program = os.path.join(TOP, "t", "campaigns", "cluster", "simulate")
    seeds = ["--seed", str(int(SEED, 0))] if SEED else ["--seeds", "20" if SLOW else "100"]
    done = subprocess.run(
        [program, *seeds],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]


if __name__ == "__main__":
    tap.main(__file__)
