"""./dev model: lets spin search counter.pml, as it is and with planted bugs.

There is no seed: spin tries every order of steps, so each run is the same.
"""

import argparse
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import search as spin  # noqa: E402

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


def search(events, limit, plant=0, optimize="-O2"):
    """Builds and runs one search."""
    defines = {"EVENTS": events, "LIMIT_OF_LAST": limit, "PLANT": plant}
    build = [optimize, "-DCOLLAPSE", "-DMEMLIM=6000"]
    return spin.search("counter.pml", defines, build, ["-m100000", "-w22"])


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
        bad = search_planted(chosen.events or 6) if chosen.planted else search_all(chosen.events or 7)
        return 1 if bad else 0
    except spin.Failed as e:
        print(e, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
