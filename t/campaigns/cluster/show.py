"""
./dev cluster: three nodes on loopback that share limits through Redis, under load, while one thing after
another goes wrong: first with one Redis, then with a replica and three Sentinels. An observer sees all
clients of all nodes; a table says what they saw. The status is 0 if never more than 5 units of the strict
name were held, and nothing is left at the end.

The addresses of the status pages are printed first. With --stay the load goes on until Enter is pressed.
"""

import argparse
import os
import random
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "..", "system"))

import wire
from cluster_load import Load
from cluster_world import World

LIMIT = 5
COLUMNS = "%-42s %7s %6s %5s %8s %8s %7s %7s %9s %7s"


class Table:
    """What clients saw, step by step."""

    def __init__(self, world, name, load):
        self.world, self.name, self.load = world, name, load
        print(COLUMNS % ("step", "seconds", "locked", "most", "no grant", "timeouts", "full", "away",
                         "lost conn", "over"))  # fmt: skip

    def step(self, text, does):
        """Does something under load, and prints a line."""
        known = self.world.observer.names[self.name]
        with self.world.observer.lock:
            first, before, known.peak = len(known.grants), dict(self.load.answers), known.units
            over, lost = len(known.over), self.load.lost
        began = time.monotonic()
        does()
        seconds = time.monotonic() - began
        with self.world.observer.lock:
            times = [began] + [grant[0] for grant in known.grants[first:]] + [began + seconds]
            most, over = known.peak, len(known.over) - over
        gap = max(b - a for a, b in zip(times, times[1:]))
        seen = {word: n - before.get(word, 0) for word, n in self.load.answers.items()}
        print(COLUMNS % (text, "%.1f" % seconds, seen.get("LOCKED", 0), most, "%.2f s" % gap,
                         seen.get("TIMEOUT", 0), seen.get("QUEUE_FULL", 0),
                         seen.get("ERROR ENGINE_AWAY", 0), self.load.lost - lost, over),
              flush=True)  # fmt: skip
        self.world.observer.check()


def bench(world, seconds):
    """Puts the load of counterbench on all nodes at once. Its names are loose."""
    program = os.environ.get("COUNTERBENCH", "build/counterbench")
    targets = [word for node in world.nodes for word in ("-t", "%s:%d" % node.daemon.text)]
    command = [program, "-q", *targets, "-p", "text", "-c", "96", "-s", "%g" % seconds, "-k", "1000", "pairs"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          timeout=seconds + 3 * wire.DEADLINE)  # fmt: skip
    assert done.returncode == 0, done.stdout
    print(done.stdout)


def wait(seconds):
    """Lets the load go on for so long. Nothing is awaited: time is what the step is about."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(min(0.1, max(deadline - time.monotonic(), 0)))


class Steps:
    """What goes wrong. Each function returns when clients are granted units again, or after a time."""

    def __init__(self, world, table, away):
        self.world, self.table, self.away = world, table, away

    def granted(self):
        """Waits for the next grant."""
        grants = self.world.observer.names[self.table.name].grants
        before = len(grants)
        wire.poll(lambda: len(grants) > before, "units are granted again", wire.DEADLINE + 6 * self.world.lease)
        wait(1)

    def kill_node(self):
        self.world.nodes[1].kill()
        wait(1.6 * self.world.lease)

    def restart_node(self):
        node = self.world.nodes[1].start()
        node.await_live(wire.DEADLINE + 4 * self.world.lease)
        wait(1)

    def stop_node(self):
        node = self.world.nodes[2]
        node.pause()
        wait(1.2 * self.world.lease)
        node.resume()

    def pause(self, seconds):
        self.world.engine.pause()
        try:
            wait(seconds)
        finally:
            self.world.engine.resume()

    def lose_data(self):
        self.world.restart_engine(keep=False)
        self.granted()

    def fail_over(self):
        self.world.failover()
        self.granted()
        self.world.agree()

    def alone(self):
        """With one Redis."""
        step = self.table.step
        step("all is well", lambda: wait(3))
        step("kill -9 of node-b", self.kill_node)
        step("node-b comes back", self.restart_node)
        step("node-c is stopped longer than the lease", self.stop_node)
        step("node-c goes on", self.granted)
        step("Redis stops for a second", lambda: self.pause(1))
        step("Redis goes on", self.granted)
        step("Redis stops for %g seconds" % self.away, lambda: self.pause(self.away))
        step("Redis goes on", self.granted)
        step("Redis restarts, empty", self.lose_data)
        step("all is well", lambda: wait(3))

    def watched(self):
        """With a replica and three Sentinels."""
        step = self.table.step
        step("all is well", lambda: wait(3))
        step("Redis is killed, Sentinel fails over", self.fail_over)
        step("all is well", lambda: wait(3))


def show(title, args, does, lease, **needs):
    """Does the steps in a world. Returns by how much the limit was exceeded."""
    print("\n%s, lease %g s" % (title, lease))
    with World(nodes=3, lease=lease, **needs) as world:
        world.loose_patterns = "*"
        world.begin()
        world.await_no_grace()
        for node in world.nodes:
            print("%r: http://%s:%d/" % (node, *node.daemon.admin))
        name = world.strict(LIMIT, "show")
        bench(world, 3)
        load = Load(world, world.nodes, {name: LIMIT}, args.clients, random.Random(args.seed), hold=0.1)
        try:
            does(Steps(world, Table(world, name, load), args.away))
            if args.stay:
                input("press Enter to go on")
        finally:
            load.end()
        over = max([LIMIT] + [grant[1] for grant in world.observer.names[name].over]) - LIMIT
        world.rest()
        world.nothing_left()
    return over


def main():
    """Ends with 0 if nothing was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--away", type=float, default=60, help="how long Redis stops the second time, in s")
    parser.add_argument("--clients", type=int, default=30, help="clients that want the strict name")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--stay", action="store_true", help="go on at the end until Enter is pressed")
    args = parser.parse_args()
    print("seed %d" % args.seed)
    over = max(
        show("Three nodes, one Redis", args, Steps.alone, 4),
        show("Three nodes, Redis with a replica and three Sentinels", args, Steps.watched, 6,
             engines=2, sentinels=3, down_after_ms=1000),
    )  # fmt: skip
    print("\nThe strict name had at most %d units of %d; nothing is left in Redis." % (LIMIT + over, LIMIT))
    sys.exit(over > 0)


if __name__ == "__main__":
    main()
