"""
./dev torture cluster: each row of the table of failures of shared limits, again and again: real daemons,
Redis, Sentinels, and proxies between them. An observer sees all clients of all nodes and never counts
more units of a strict name than its limit; after each run the keys in the engine are added up, and
nothing is left of clients and nodes that are gone.

A run that fails while the machine itself stood still for a tenth of the lease, or in which Sentinel was
slow, says nothing of holders and waiters: it is counted as disturbed and made again, three times at
most. More units than the limit, or sums in the engine that are wrong, are never excused.

Several worlds run beside each other, each in a process of its own. What failed is printed with its
seed; the logs of its nodes and engines are kept in build/cluster/.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "..", "system"))

import resp
from cluster_rows_load import ROWS
from cluster_stalls import Disturbed
from cluster_world import World

CHUNK = 5  # runs in one world
ATTEMPTS = 4  # of a run that is disturbed
BUILD = os.environ.get("TOP_BUILDDIR", "build")


# ---- a process with a world ----------------------------------------------------------------------


def keep_logs(world, name, seed):
    """Writes the logs of nodes and engines to a file. Returns its path."""
    folder = os.path.join(BUILD, "cluster")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "%s.%s.log" % (name, seed.rpartition(" ")[2]))
    logs = list(world.logs) + [(repr(node), node.log) for node in world.nodes if node.is_running]
    logs += [("engine %d" % n, e.log) for n, e in enumerate(world.engines, 1)]
    logs += [("sentinel %d" % n, s.log) for n, s in enumerate(world.sentinels, 1)]
    try:
        logs.append(("keys", "\n".join("%r: %r" % row for row in sorted(world.keys().found.items()))))
    except (OSError, resp.Error) as e:
        logs.append(("keys", str(e)))
    with open(path, "w") as f:
        for who, log in logs:
            f.write("== %s\n%s\n" % (who, log))
    return path


class Chunk:
    """Runs of one row in one world."""

    def __init__(self, name):
        self.name, self.world = name, None

    def run(self, seed):
        """One run. Returns what it found."""
        disturbed = []
        for left in reversed(range(ATTEMPTS)):
            result = self._try(seed)
            if not result.pop("is_disturbed", False) or not left:
                break
            disturbed.append(result["failed"])
        result["disturbed"] = disturbed
        return result

    def _try(self, seed):
        began, result = time.monotonic(), {"row": self.name, "seed": seed}
        try:
            if self.world is None:
                self.world = World(**ROWS[self.name].needs)
                self.world.begin()
            ROWS[self.name](self.world, random.Random(seed))
            seen = self.world.observer.seen()
            self.world.rest()
            result["seen"] = {what: [number] for what, number in seen.items()}
            result["measured"] = dict(self.world.measured)
            self.world.measured.clear()
        except Exception:  # pylint: disable=broad-except
            self._failed(result)
        result["seconds"] = time.monotonic() - began
        return result

    def finish(self, seed):
        """Ends the world in order. Returns what was found; None: nothing."""
        result = {"row": self.name, "seed": seed}
        if self.world is not None:
            try:
                self.world.nothing_left()
            except Exception:  # pylint: disable=broad-except
                self._failed(result)
        self.close()
        return result if "failed" in result else None

    def _failed(self, result):
        result["failed"] = traceback.format_exc()[-3000:]
        if self.world is not None:
            disturbed = isinstance(sys.exc_info()[1], Disturbed) or self.world.is_disturbed
            result["is_disturbed"] = disturbed and not self._is_wrong()
            result["logs"] = keep_logs(self.world, self.name, result["seed"])
        self.close()

    def _is_wrong(self):
        """True if there is what nothing excuses."""
        try:
            self.world.check()
        except AssertionError:
            return True
        except (OSError, resp.Error):  # of an engine that has ended
            return bool(self.world.observer.wrong)
        return False

    def close(self):
        world, self.world = self.world, None
        if world is not None:
            world.close(checks=False)


def run_chunk(name, seeds, until):
    """Runs a row once for each seed; prints a line of JSON for each."""
    chunk = Chunk(name)
    try:
        for seed in seeds:
            if time.time() >= until:
                break
            print(json.dumps(chunk.run(seed)), flush=True)
        found = chunk.finish(seeds[-1])
        if found and not found.pop("is_disturbed", False):
            print(json.dumps(found), flush=True)
    finally:
        chunk.close()


def results(name, seeds, until=float(1 << 40)):
    """Runs a chunk in a process of its own. Yields what each run found."""
    argv = [sys.executable, "-B", os.path.abspath(__file__), "--chunk", json.dumps([name, seeds, until])]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
        said = []
        for line in child.stdout:
            if line.startswith("{"):
                yield json.loads(line)
            else:
                said.append(line)
        if child.wait() != 0:
            yield {"row": name, "seed": seeds[0], "failed": "".join(said)[-3000:]}


# ---- all of them ---------------------------------------------------------------------------------


class Campaign:
    """Hands chunks of runs to `jobs` processes until all are done or the time is over."""

    def __init__(self, rows, times, seed, jobs, until):
        self.until = until
        self.done = {name: 0 for name in rows}
        self.failures, self.measured = [], {}
        self.seen = {name: {} for name in rows}  # row -> what -> numbers
        self.disturbed = 0
        self.lock = threading.Lock()
        # Each row has a turn before any has a second one.
        self.chunks = [
            (name, ["%s %d %d" % (name, seed, n) for n in range(first, min(first + CHUNK, times))])
            for first in range(0, times, CHUNK) for name in rows
        ]  # fmt: skip
        self.threads = [threading.Thread(target=self._work) for _ in range(jobs)]

    def run(self):
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join()

    def _work(self):
        while time.time() < self.until:
            with self.lock:
                if not self.chunks:
                    return
                name, seeds = self.chunks.pop(0)
            for result in results(name, seeds, self.until):
                self._note(result)

    def _note(self, result):
        with self.lock:
            name = result["row"]
            for text in result.get("disturbed", ()):
                self.disturbed += 1
                print("disturbed: %s (%s): %s" % (name, result["seed"], text.strip().splitlines()[-1]), flush=True)
            for what, values in result.get("measured", {}).items():
                self.measured.setdefault(what, []).extend(values)
            for what, values in result.get("seen", {}).items():
                self.seen[name].setdefault(what, []).extend(values)
            if "failed" in result:
                self.failures.append(result)
                print("FOUND: %s (--row %s --exactly '%s'; logs: %s)\n%s" % (
                    name, name, result["seed"], result.get("logs", "none"), result["failed"]), flush=True)  # fmt: skip
            elif "seconds" in result:
                self.done[name] += 1


def text_of(seen):
    """What the observer saw, at most, in all runs of a row."""
    return "; ".join("%s %s" % (what, "%.1f s" % max(values) if what == "waited" else max(values))
                     for what, values in seen.items())  # fmt: skip


def campaign(rows, times, seed, jobs, minutes):
    """Returns a text that says how far it went, and how many runs failed."""
    until = time.time() + minutes * 60 if minutes else float(1 << 40)
    one = Campaign(rows, times, seed, jobs, until)
    one.run()
    lines = ["%4d  %-38s %s" % (count, name.replace("_", " "), text_of(one.seen[name]))
             for name, count in one.done.items()]  # fmt: skip
    for what, values in sorted(one.measured.items()):
        lines.append("%s: %.2f to %.2f" % (what, min(values), max(values)))
    lines.append("%d runs, %d of them with findings; %d more were disturbed (--seed %d)" % (
        sum(one.done.values()) + len(one.failures), len(one.failures), one.disturbed, seed))  # fmt: skip
    return "\n".join(lines), len(one.failures)


def arguments(argv):
    parser = argparse.ArgumentParser(prog="./dev torture cluster", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--row", action="append", metavar="NAME", choices=list(ROWS),
                        help="only this row; may be repeated: %s" % ", ".join(ROWS))  # fmt: skip
    parser.add_argument("--times", type=int, default=50, help="runs of each row (50)")
    parser.add_argument("--minutes", type=float, default=10, help="begins no run after that (10; 0: no limit)")
    parser.add_argument("--jobs", type=int, default=6, help="worlds beside each other (6)")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--exactly", metavar="SEED", help="one run of --row with this whole seed")
    parser.add_argument("--chunk", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv):
    chosen = arguments(argv)
    if chosen.chunk:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the world is closed then
        run_chunk(*json.loads(chosen.chunk))
        return 0
    if chosen.exactly:
        run_chunk(chosen.row[0], [chosen.exactly], float(1 << 40))
        return 0
    seed = random.randrange(1 << 31) if chosen.seed is None else chosen.seed
    print("seed %d" % seed, flush=True)
    text, failed = campaign(chosen.row or list(ROWS), chosen.times, seed, chosen.jobs, chosen.minutes)
    print(text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
