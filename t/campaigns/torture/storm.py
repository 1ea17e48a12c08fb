"""
./dev torture storm: client processes of both protocols are killed, reset and half-closed under
load, while an observer outside the server counts (storm_kill.c). All units must be free within a
second after the end.

With --tsan the daemon is built with ThreadSanitizer, and the storm lasts ten minutes. With
--planted it looks for planted bugs, as ./dev check-history does; with both, for the one that only
ThreadSanitizer can find.
"""

import argparse
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "history"))

import campaign
import servers

PROGRAM = os.path.join(campaign.BUILD, "t", "campaigns", "torture", "storm_kill")
PLANTED = ["limit-off-by-one", "close-forgets-grant", "grant-before-ledger"]
RACE = os.path.join(HERE, "storm_race.patch")  # only a sanitizer can find it
FREE_MS = 1000


def storm(operations, seconds, seed, free_ms, threads=4):
    """Runs the storm on a daemon with `threads` workers. Returns the output, or raises Found."""
    daemon = servers.Counterd("counter.threads=%d" % threads)
    try:
        host, port = daemon.text
        numbers = (port, daemon.binary[1], operations, seconds, seed, free_ms)
        status, said = campaign.call(PROGRAM, host, *map(str, numbers), timeout=seconds + 300)
        if status != 0:
            campaign.raise_if_ended(daemon)
            # The first violation comes first, because --planted prints the start.
            raise campaign.Found(said[max(said.find("violation:"), 0) :] + said)
        daemon.stop()
    except AssertionError as e:
        raise campaign.Found(str(e)) from None
    finally:
        daemon.kill()
    return said


def build_with_tsan(tree):
    """Builds the daemon of a tree. Returns its path."""
    folder = os.path.join(tree, "build", "tsan")
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(os.path.join(folder, "Makefile")):
        script = "cd '%s' && ../../configure -q --enable-sanitize=thread CFLAGS='-O1 -g'" % folder
        if campaign.call("sh", "-c", script)[0] != 0:
            raise RuntimeError("can't be configured: " + folder)
    jobs = os.environ.get("JOBS") or str(os.cpu_count())
    status, said = campaign.call("make", "-s", "-C", folder, "-j", jobs, "counterd", timeout=1800)
    if status != 0:
        raise RuntimeError("can't be built:\n" + said)
    return os.path.join(folder, "counterd")


def main():
    parser = argparse.ArgumentParser(prog="./dev torture storm", description=__doc__)
    number = {"type": int, "metavar": "N"}
    parser.add_argument("--operations", help="how many (10^7; with --tsan until the time is up)", **number)
    parser.add_argument("--seconds", help="at most (3600; with --tsan 600)", **number)
    parser.add_argument("--seed", help="of the plan", **number)
    parser.add_argument("--tsan", action="store_true", help="put a daemon with ThreadSanitizer to it")
    parser.add_argument("--planted", nargs="*", metavar="BUG", help="look for some planted bugs, or these")
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else random.randrange(2**31)
    operations = args.operations
    if operations is None:
        operations = 0 if args.tsan else 10**7
    seconds = args.seconds or (600 if args.tsan else 3600)
    if args.planted is not None:
        def look():
            return storm(operations, min(seconds, 60), seed, 60000 if args.tsan else FREE_MS)

        if args.tsan:
            missed = campaign.planted([RACE], look, build_with_tsan)
        else:
            missed = campaign.planted(campaign.named(args.planted, campaign.named(PLANTED, [])), look)
        sys.exit(1 if missed else 0)
    try:
        # A daemon with a sanitizer is too slow for the limit of a second.
        print(storm(operations, seconds, seed, 60000 if args.tsan else FREE_MS), end="")
    except campaign.Found as e:
        print(e)
        sys.exit(1)


if __name__ == "__main__":
    main()
