"""./dev bench: compares counterd with its peers and the floor, and writes bench/RESULTS.md."""

import argparse
import os
import signal
import sys
import time

import machine
import report
import rounds
import rows
from store import Store

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Seconds of each run; number of rounds; time limit of the whole, in seconds.
USUAL = {"seconds": 2.0, "warmup": 0.3, "rounds": 5, "minutes": 38.0}
QUICK = {"seconds": 0.4, "warmup": 0.1, "rounds": 1, "minutes": 5.5}


def arguments(argv):
    parser = argparse.ArgumentParser(
        prog="./dev bench",
        description="Measures counterd beside its peers and the floor; writes bench/RESULTS.md.",
    )
    parser.add_argument("--quick", action="store_true",
                        help="a look: one short round; the report goes to build/bench/quick/")  # fmt: skip
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of each row (default: 5)")
    parser.add_argument("--only", nargs="+", metavar="ROW", default=[],
                        help="measure only these; the report uses stored results for the others")  # fmt: skip
    parser.add_argument("--report", action="store_true",
                        help="measure nothing; write the report from stored results")  # fmt: skip
    parser.add_argument("--list", action="store_true", help="name the rows")
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"), metavar="DIR",
                        help="folder of the executables (default: build)")  # fmt: skip
    parser.add_argument("--out", metavar="DIR",
                        help="folder for the report (default: bench, or build/bench/quick)")  # fmt: skip
    chosen = parser.parse_args(argv)
    unknown = [name for name in chosen.only if not rows.named(name)]
    if unknown:
        parser.error("no such row: %s; --list names them" % " ".join(unknown))
    if chosen.rounds is not None and chosen.rounds < 1:
        parser.error("--rounds: at least 1")
    return chosen


def end_in_order(*_):
    """SIGTERM works like Ctrl-C: it ends what the suite has started."""
    raise KeyboardInterrupt


def measure(chosen, scale, build, store, tree):
    machine.raise_limits()
    until = time.monotonic() + scale["minutes"] * 60
    measuring = rounds.Measuring(
        build, store, tree, scale["seconds"], scale["warmup"], until, chosen.quick
    )
    asked = chosen.rounds or scale["rounds"]
    for row in rows.ROWS:
        if not chosen.only or row.name in chosen.only:
            measuring.row(row, max(1, round(asked * row.rounds)))


def main(argv):
    chosen = arguments(argv)
    if chosen.list:
        for row in rows.ROWS:
            print("%-18s %s" % (row.name, row.title))
        return 0
    scale = QUICK if chosen.quick else USUAL
    build = os.path.abspath(chosen.build)
    kept_in = os.path.join(build, "bench", "quick" if chosen.quick else "full")
    out = chosen.out or (kept_in if chosen.quick else os.path.join(SOURCE, "bench"))
    store = Store(os.path.join(kept_in, "rows"))
    tree = machine.version(SOURCE)
    signal.signal(signal.SIGTERM, end_in_order)
    try:
        if not chosen.report:
            measure(chosen, scale, build, store, tree)
    except KeyboardInterrupt:
        rounds.say("interrupted; finished measurements are stored, --report writes them up")
        return 130
    except machine.Unfit as e:
        rounds.say(str(e))
        return 1
    note = ", a quick look that decides nothing" if chosen.quick else ""
    print(report.write(build, store, tree, out, note))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
