"""Searches cluster.pml: the rules by which nodes share a limit, as they are and with planted bugs.

States are kept as hashes of 64 bits, so a search of 10^7 states may overlook one with a probability of
about 10^-5. Planted bugs are searched for breadth first, so that their traces are the shortest.
"""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import search as spin  # noqa: E402

# Kinds of faults, as in cluster.pml.
RESET, SUBSCRIBED, RESTART, EMPTY, FLUSH, STOP, MACHINE, CRASH, FAILOVER, SLOW = (
    1 << i for i in range(10)
)

# First states, as in cluster.pml.
ASKED, PROMOTED, AWAY = 1, 2, 4


def bounds(kinds, faults=1, beats=4, acts=0, start=ASKED, calm=0, late=1, shows=0):
    return {
        "KINDS": kinds, "FAULTS": faults, "BEATS": beats, "ACTS": acts, "START": start,
        "CALM": calm, "LATE": late, "SHOWS": shows,
    }  # fmt: skip


# What is searched, and bounds, which are so small that a search ends in a minute or two.
SEARCHES = {
    "a reset": bounds(RESET, acts=1),
    "a reset, and openings that show life": bounds(RESET, beats=3, shows=1),
    "a reset, and recovery": bounds(RESET, beats=3, acts=1, calm=1),
    "a reset, and recovery with slow openings": bounds(RESET, beats=3, acts=1, calm=2),
    "two resets": bounds(RESET, faults=2, beats=3),
    "a slow engine or a reset": bounds(SLOW + RESET),
    "a subscription that ends, and recovery": bounds(SUBSCRIBED, beats=3, acts=1, calm=1),
    "stopped, paused and crashed nodes, and recovery":
        bounds(STOP + MACHINE + CRASH, beats=3, acts=1, calm=1),
    "a paused machine and a reset": bounds(MACHINE + RESET, faults=2, beats=3),
    "a restart with data, while a node is away": bounds(RESTART, beats=3, start=ASKED + AWAY, late=0),
    "a restart without data, while a node is away": bounds(EMPTY, beats=3, start=ASKED + AWAY, late=0),
    "an old and a new primary":
        bounds(FAILOVER, faults=0, beats=3, start=ASKED + PROMOTED + AWAY, late=0),
}  # fmt: skip

# The bug for each PLANT=n, and bounds in which it is found.
PLANTED = {
    1: ("`open` renews the lease", bounds(RESET, faults=2)),
    2: ("`ready` does not add to the beat", bounds(RESET, faults=2)),
    3: ("no majority for beats", bounds(FAILOVER, faults=0, beats=5, start=ASKED + PROMOTED + AWAY)),
    4: ("no majority for `ready`",
        bounds(FAILOVER + RESET, beats=5, start=ASKED + PROMOTED + AWAY)),
    5: ("no majority before `open`",
        bounds(FAILOVER, faults=0, beats=5, start=ASKED + PROMOTED + AWAY)),
    6: ("the majority is asked before the beat is sent",
        bounds(FAILOVER, faults=0, beats=5, start=ASKED + PROMOTED + AWAY)),
    7: ("no fresh beat before `reap` and `grace`",
        bounds(FAILOVER + RESET, start=ASKED + PROMOTED)),
    8: ("`reap` does not compare the beats", bounds(RESET)),
    9: ("a lease is counted from the answer", bounds(RESET)),
    10: ("ended sessions go on", bounds(MACHINE, beats=5)),
    11: ("no `t` after `ready`", bounds(RESET, beats=3, acts=1, calm=1)),
    12: ("sessions that are opening are not granted anything", bounds(RESET, beats=3, acts=1, calm=1)),
    13: ("ended sessions are not watched", bounds(CRASH + RESET, faults=2, beats=3, calm=1)),
    14: ("the message of a beat is not waited for", bounds(SUBSCRIBED, beats=3, acts=1, calm=1)),
    15: ("a session is opened before its subscription is confirmed", bounds(RESET, beats=3, acts=1, calm=1)),
    16: ("strict names are granted in grace", bounds(EMPTY)),
    17: ("a node does not learn that its last session was reaped", bounds(MACHINE)),
    18: ("a node that was stopped reads before it looks at its lease", bounds(STOP)),
    19: ("`reap` does not mark what counts on the session", bounds(MACHINE + RESET, faults=2, beats=5)),
    20: ("a beat that reaches nobody succeeds", bounds(SUBSCRIBED, beats=3, acts=1, calm=1)),
    21: ("a `give` renews the lease", bounds(RESET, faults=2, shows=1)),
    22: ("a session that opens does not show that it lives", bounds(RESET, beats=3, acts=1, calm=2)),
    23: ("an opening that takes longer than a lease begins again",
         bounds(RESET, beats=3, acts=1, calm=2)),
}  # fmt: skip


def search(chosen, plant=0, optimize="-O1"):
    """Builds and runs one search."""
    build = [optimize, "-DHC4", "-DMEMLIM=1500"]
    run = ["-E", "-w24"]
    if plant:
        build.append("-DBFS")
    else:
        run.append("-m1000000")
    defines = {**chosen, "PLANT": plant}
    result = spin.search("cluster.pml", defines, build, run, show=())
    if result.error and not plant:  # again, with a trace that says what each step has changed
        result = spin.search("cluster.pml", {**defines, "SHOW": 1}, [*build, "-DBFS"], ["-E", "-w24"], show=())
    return result


def search_all():
    """Searches the unchanged model. Returns the number of searches that found something."""
    bad = 0
    for what, chosen in SEARCHES.items():
        began = time.monotonic()
        result = search(chosen)
        print(
            "%s: %d states, %d transitions, depth %d, %.1f s: %s"
            % (what, result.states, result.transitions, result.depth, time.monotonic() - began,
               result.error or "all holds"),
            flush=True,
        )  # fmt: skip
        if result.error:
            bad += 1
            print(result.trail)
    print("%d searches, %d with errors" % (len(SEARCHES), bad))
    return bad


def search_planted():
    """Searches for each planted bug. Returns the number of bugs that were not found."""
    missed = 0
    for plant, (what, chosen) in PLANTED.items():
        result = search(chosen, plant, optimize="-O0")
        print("%2d %s: %s" % (plant, what, result.error or "NOT FOUND"), flush=True)
        missed += not result.error
    print("%d bugs planted, %d found" % (len(PLANTED), len(PLANTED) - missed))
    return missed
