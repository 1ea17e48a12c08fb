"""The short form of the admin interface without memory (t/README.md)."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "..", "system"))
import tap  # noqa: E402
from test_simulate import SEED, SLOW, run  # noqa: E402


def test_each_piece_of_the_admin_interface():
    every = 40 if SLOW else 12
    first = 1 + (int(SEED, 0) if SEED else int.from_bytes(os.urandom(4), "big")) % every
    run("admin", "--every", str(every), "--first", str(first), seeded=False)


if __name__ == "__main__":
    tap.main(__file__)
