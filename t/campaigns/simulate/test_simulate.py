"""
Short forms of the campaigns of this folder (t/README.md). Each program prints what it has found,
and the seed that finds it again.
"""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "system"))
import tap  # noqa: E402

TOP = os.environ.get("TOP_BUILDDIR", os.path.join(HERE, "..", "..", "..", "build"))
BUILD = os.path.join(TOP, "t", "campaigns", "simulate")
SLOW = os.environ.get("T_SLOW") == "1"
SEED = os.environ.get("T_SEED")


def run(program, *arguments, seeded=True):
    seed = ["--seed", str(int(SEED, 0))] if SEED and seeded else []
    try:
        done = subprocess.run(
            [os.path.join(BUILD, program), *arguments, *seed],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=1200,
            check=False,
        )
    except subprocess.TimeoutExpired as e:  # its seed
        raise AssertionError("after 20 minutes: %s" % (e.stdout or b"")[-4000:]) from None
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def test_simulation():
    run("simulate", "--seeds", "30" if SLOW else "150")


def test_admin_interface_without_memory():
    every = 40 if SLOW else 12
    first = 1 + (int(SEED, 0) if SEED else int.from_bytes(os.urandom(4), "big")) % every
    run("admin", "--every", str(every), "--first", str(first), seeded=False)


if __name__ == "__main__":
    tap.main(__file__)
