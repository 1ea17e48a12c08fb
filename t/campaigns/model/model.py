"""./dev model: lets spin search counter.pml exhaustively, as it is and with planted bugs.

There is no seed: spin tries every order of steps, so each run is the same.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(HERE, "counter.pml")

# The bug for each PLANT=n.
PLANTED = {
    1: "the bell is rung before the letter lies in the box",
    2: "a letter is pushed with a store instead of a compare-and-swap",
    3: "the bell is rung when the box was not empty",
    4: "the box is read and emptied in two steps",
    5: "one letter is taken at each ring, not all",
    6: "the oldest is granted whether it fits or not",
    7: "a grant is in the ledger only when its client is told",
    8: "a holding is reaped with its last unit, though it has waits",
    9: "the letter of a noted verdict is noted again",
    10: "a waiter is freed while its letter is on the way",
    11: "a timeout looks for the verdict before it has the lock",
    12: "a timeout ends a wait that was granted",
    13: "a letter is not told that its connection has ended",
    14: "a close gives back what the client knows of, not what the ledger has",
    15: "what a close frees is handed on to nobody",
    16: "a close gives units back before it leaves its waits",
    17: "the bell is cleared after the box was looked into",
}

# Limits of the last connection: the same as all others, and higher.
LIMITS = (1, 2)


class Failed(Exception):
    """The model could not be built or searched."""


class Result:
    """The result of a search. `error` is None if the search was complete and found nothing."""

    def __init__(self, text):
        self.text = text
        found = re.search(r"^pan:1: (.*)", text, re.M)
        self.error = found and found.group(1)
        self.trail = ""
        self.states = self._number(r"(\d+) states, stored")
        self.transitions = self._number(r"(\d+) transitions")
        self.depth = self._number(r"depth reached (\d+)")
        if "Search not completed" in text and not self.error:
            raise Failed("the search was not completed:\n" + text)
        if self.states == 0:
            raise Failed(text)

    def _number(self, pattern):
        found = re.search(pattern, self.text)
        return int(found.group(1)) if found else 0


def have_tools():
    return all(shutil.which(program) for program in ("spin", "gcc"))


def search(events, limit, plant=0, folder=None, optimize="-O2"):
    """Builds and runs one search."""
    defines = ["-DEVENTS=%d" % events, "-DLIMIT_OF_LAST=%d" % limit, "-DPLANT=%d" % plant]
    with tempfile.TemporaryDirectory(prefix="model-", dir=folder) as work:
        shutil.copy(MODEL, work)
        for command in (
            ["spin", "-a", *defines, "counter.pml"],
            ["gcc", optimize, "-w", "-DSAFETY", "-DNOFAIR", "-DCOLLAPSE", "-DMEMLIM=6000",
             "-o", "pan", "pan.c"],
        ):  # fmt: skip
            done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise Failed("%s\n%s%s" % (" ".join(command), done.stdout, done.stderr))
        done = subprocess.run(
            ["./pan", "-m100000", "-w22"], cwd=work, capture_output=True, text=True, check=False
        )
        result = Result(done.stdout)
        if result.error:
            trail = subprocess.run(
                ["spin", "-t", "-p", "-g", *defines, "counter.pml"],
                cwd=work, capture_output=True, text=True, check=False,
            )  # fmt: skip
            result.trail = trail.stdout
        return result


def search_all(events):
    """Searches the unchanged model. Returns the number of searches that found something."""
    bad = 0
    for limit in LIMITS:
        began = time.monotonic()
        result = search(events, limit)
        print(
            "%d events, limits 1, 1, %d: %d states, %d transitions, depth %d, %.1f s: %s"
            % (events, limit, result.states, result.transitions, result.depth,
               time.monotonic() - began, result.error or "all holds"),
            flush=True,
        )  # fmt: skip
        if result.error:
            bad += 1
            print(result.trail)
    print("%d searches, %d with errors" % (len(LIMITS), bad))
    return bad


def search_planted(events):
    """Searches for each planted bug. Returns the number of bugs that were not found."""
    missed = 0
    for plant, what in PLANTED.items():
        result = search(events, 2, plant, optimize="-O0")
        if not result.error:
            result = search(events, 1, plant, optimize="-O0")
        print("%2d %s: %s" % (plant, what, result.error or "NOT FOUND"), flush=True)
        missed += not result.error
    print("%d bugs planted, %d found" % (len(PLANTED), len(PLANTED) - missed))
    return missed


def main(argv):
    parser = argparse.ArgumentParser(
        prog="./dev model",
        description="Searches a model of grant, timeout, close, mailbox and bell exhaustively.",
    )
    parser.add_argument("--events", type=int, metavar="N",
                        help="so many requests, ends and timeouts (default: 7; planted: 6)")  # fmt: skip
    parser.add_argument("--planted", action="store_true", help="search for bugs that are planted")
    chosen = parser.parse_args(argv)
    if chosen.events is not None and not 1 <= chosen.events <= 20:
        parser.error("--events: from 1 to 20")
    try:
        if chosen.planted:
            return 1 if search_planted(chosen.events or 6) else 0
        return 1 if search_all(chosen.events or 7) else 0
    except Failed as e:
        print(e, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
