"""Bugs planted in the scripts: compare.py must find each.

    planted.py [NAME]... [--seeds N] [--first N]

A bug is a patch in planted/, whose first line says what is wrong. The scripts are copied, and the copy has
the bug. Ends with 1 if a bug was not found, or if the scripts differ without one.
"""

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)

import compare  # noqa: E402
import compare_calls  # noqa: E402

FOLDER = os.path.join(HERE, "planted")
STEPS = 500


def names():
    """The planted bugs."""
    return sorted(n[: -len(".patch")] for n in os.listdir(FOLDER) if n.endswith(".patch"))


@contextlib.contextmanager
def scripts_with(name):
    """The path of a copy of the scripts with a bug, applied exactly where it was."""
    with tempfile.TemporaryDirectory(prefix="planted.", dir="/tmp") as folder:
        copy = os.path.join(folder, "scripts")
        shutil.copytree(compare.SCRIPTS, copy)
        subprocess.run(["chmod", "-R", "u+w", copy], check=True)
        patch = os.path.join(FOLDER, name + ".patch")
        subprocess.run(["patch", "-s", "-F0", "-p4", "-d", copy, "-i", patch], check=True)
        yield copy


def found(folder, first, seeds):
    """Returns (seeds needed, what differed), or (seeds, "")."""
    for n in range(seeds):
        wrong = compare_calls.run(folder, first + n, STEPS, {})
        if wrong:
            return n + 1, wrong
    return seeds, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--first", type=int, default=None, help="the first seed; at random if missing")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that servers end
    first = options.first if options.first is not None else random.SystemRandom().randrange(1 << 31)
    print("first seed %d" % first)
    _, wrong = found(compare.SCRIPTS, first, 5)
    if wrong:
        print("without a bug: " + wrong)
        return 1
    missed = []
    for name in options.names or names():
        with scripts_with(name) as folder:
            needed, wrong = found(folder, first, options.seeds)
        shown = wrong.split("\n", 1)[0] if wrong else "not found"
        print("%s: %d seeds: %s" % (name, needed, shown), flush=True)
        if not wrong:
            missed.append(name)
    if missed:
        print("not found: " + " ".join(missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
