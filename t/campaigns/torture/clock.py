"""./dev torture clock: no timer is early, late or frozen, whatever the clocks show.

A daemon in a time namespace, whose monotonic clock is about to pass a power of two of
milliseconds, nanoseconds or seconds (needs root), with clients that wait for different times around that
moment, requests that are never completed, and holders whose ages are checked. A wall clock that jumps is
in t/scenario/clock.scn.
"""

import argparse
import contextlib
import os
import random
import re
import select
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "system")]

import http_client  # noqa: E402
import servers  # noqa: E402
import wire  # noqa: E402

# In seconds. At 2^56 and 2^58 ns the stored ages of connections and holdings wrap around.
EDGES = {
    "2^31 ms": 2**31 / 1e3,
    "2^32 ms": 2**32 / 1e3,
    "2^31 us": 2**31 / 1e6,
    "2^53 ns": 2**53 / 1e9,
    "2^56 ns": 2**56 / 1e9,
    "2^58 ns": 2**58 / 1e9,
    "2^31 s": 2**31,
}

# The tolerated delay of an answer, because the machine may be busy. The report has the measured
# one.
LATE = 20.0 if wire.SLOW else 5.0


class Found(AssertionError):
    """A timer was early, late or frozen, or an age is wrong."""


def want(condition, what, *values):
    if not condition:
        raise Found(what % values if values else what)


# Executes the command in argv[2:] in a time namespace whose monotonic clocks are ahead by argv[1],
# lines of the clock, seconds and nanoseconds ("boottime 12 345").
_AHEAD = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
NEWTIME = 0x80
if libc.unshare(NEWTIME) != 0:
    sys.exit("unshare: " + os.strerror(ctypes.get_errno()))
with open("/proc/self/timens_offsets", "w") as f:
    f.write(sys.argv[1])
fd = os.open("/proc/self/ns/time_for_children", os.O_RDONLY)
if libc.setns(fd, NEWTIME) != 0:
    sys.exit("setns: " + os.strerror(ctypes.get_errno()))
os.close(fd)
os.execv(sys.argv[2], sys.argv[2:])
"""

# The daemon reads the second one; its kernel timers run by the first.
CLOCKS = {"monotonic": time.CLOCK_MONOTONIC, "boottime": time.CLOCK_BOOTTIME}


def ahead(edge_s, lead_s):
    """The words before a command that make its monotonic clocks pass `edge_s` after `lead_s`."""
    wanted = int((edge_s - lead_s) * 1e9)
    lines = [
        "%s %d %d" % (name, *divmod(wanted - time.clock_gettime_ns(clock), 10**9)) for name, clock in CLOCKS.items()
    ]
    return [sys.executable, "-I", "-c", _AHEAD, "\n".join(lines)]


def cannot_unshare():
    """Why we can't have a time namespace; None if we can."""
    if os.geteuid() != 0:
        return "a clock of our own needs root"
    done = subprocess.run(ahead(1e7, 0) + ["/bin/true"], capture_output=True, text=True, check=False)
    return done.stderr.strip() or None if done.returncode else None


# ---- clients that wait ---------------------------------------------------------------------------


class Waits:
    """Many clients that wait for one name, each for its own time, and unfinished requests."""

    def __init__(self, daemon, times, request_limit):
        self.daemon = daemon
        self.holder = daemon.text_client(deadline=120)
        want(self.holder.ask("ACQ4ME held 1 1000 0") == "LOCKED", "the holder gets its lock")
        self.held = time.monotonic()
        self.due = {}
        for i, seconds in enumerate(times):
            client = daemon.text_client(deadline=120)
            verb = "ACQ4ANY" if i % 2 else "ACQ4ME"
            asked = time.monotonic()
            client.say("%s held 1 1000 %s" % (verb, seconds))
            self.due[client.fileno()] = (client, asked, seconds, b"TIMEOUT\n")
        self.forever = daemon.text_client(deadline=120)
        self.forever.say("ACQ4ME held 1 1000 86400")
        for _ in range(3):
            client = daemon.text_client(deadline=120)
            asked = time.monotonic()
            client.send(b"ACQ4M")
            self.due[client.fileno()] = (client, asked, request_limit, b"")

    def run(self, step):
        """
        Runs until all clients are answered, and calls `step` often. Returns the longest delay.
        """
        latest = 0.0
        poller = select.poll()
        for fd in self.due:
            poller.register(fd, select.POLLIN)
        while self.due:
            step()
            for fd, _ in poller.poll(10):
                came = time.monotonic()
                poller.unregister(fd)
                client, asked, seconds, answer = self.due.pop(fd)
                got = client.sock.recv(100)
                want(got == answer, "%r instead of %r", got, answer)
                late = came - asked - seconds
                want(late >= 0, "%r %.6f s early, of %s s", answer, -late, seconds)
                want(late < LATE, "%r %.3f s late, of %s s", answer, late, seconds)
                latest = max(latest, late)
                client.close()
            now = time.monotonic()
            for client, asked, seconds, _ in self.due.values():
                want(now - asked < seconds + LATE, "a wait of %s s goes on after %.1f s", seconds,
                     now - asked)  # fmt: skip
        return latest

    def finish(self):
        """Checks that timers work, ages are right, and an endless wait is not forgotten."""
        with self.daemon.text_client(deadline=120) as client:
            asked = time.monotonic()
            want(client.ask("ACQ4ME held 1 1000 0.3") == "TIMEOUT", "a wait afterwards")
            passed = time.monotonic() - asked
            want(0.3 <= passed < 0.3 + LATE, "a wait of 0.3 s afterwards took %.3f s", passed)
            found = re.match(r"uptime: (\d+) days, (\d+)h (\d+)m (\d+)s", client.ask("STATS UPTIME"))
            days, hours, minutes, seconds = map(int, found.groups())
            up = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
            want(up < 600, "up for %d s", up)
        passed = time.monotonic() - self.held
        ages = [c["age_seconds"] for c in http_client.get(self.daemon.admin, "/api/v1/connections")
                ["connections"]]  # fmt: skip
        # Measured in steps of 17 ms, at the start of an iteration of the loop.
        want(passed - 0.5 <= max(ages) <= passed + LATE, "a connection of %.2f s is %.2f s old",
             passed, max(ages))  # fmt: skip
        detail = http_client.get(self.daemon.admin, "/api/v1/names/held")
        held = [h["held_seconds"] for h in detail["holders"]]
        want(len(held) == 1 and passed - 0.5 <= held[0] <= passed + LATE,
             "a lock of %.2f s is held for %s s", passed, held)  # fmt: skip
        want(self.holder.ask("RELEASE") == "RELEASED", "the holder gives back")
        want(self.forever.line() == "LOCKED", "a waiter of a day gets the lock")
        self.forever.close()
        self.holder.close()


def times_around(moment, count, rng):
    """Times to wait for, half of them until about `moment` from now."""
    near = [moment + rng.uniform(-0.2, 0.2) for _ in range(count // 2)]
    return ["%.3f" % t for t in sorted(near + [rng.uniform(0.05, 2 * moment) for _ in near])]


def waits_for(daemon, times, request_limit):
    return Waits(daemon, [float(t) for t in times], request_limit)


# ---- the parts -----------------------------------------------------------------------------------


def monotonic(edges, lead, count, rng):
    """Passes each edge with a daemon of its own, all in parallel. Returns a line for each."""
    with contextlib.ExitStack() as stack:
        running = []
        for name in edges:
            daemon = servers.Counterd(
                "limits.request_timeout=1", "counter.threads=2",
                prefix=ahead(EDGES[name], lead), admin=True,
            )  # fmt: skip
            stack.callback(daemon.kill)
            began = time.monotonic()
            running.append((name, daemon, waits_for(daemon, times_around(lead, count, rng), 1), began))
        lines = []
        for name, daemon, waits, began in running:
            try:
                latest = waits.run(lambda: None)
                while time.monotonic() - began < lead + 0.3:
                    time.sleep(0.05)
                waits.finish()
                daemon.stop()
            except AssertionError as e:
                raise Found("at %s: %s" % (name, e)) from e
            lines.append("%s: %d waits, none early, at most %.1f ms late" % (name, count, latest * 1e3))
        return lines


def main(argv):
    parser = argparse.ArgumentParser(prog="./dev torture clock", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of all (default: 3)")
    parser.add_argument("--waits", type=int, default=200, help="clients that wait (default: 200)")
    parser.add_argument("--seed", type=int, help="of the times they wait for")
    chosen = parser.parse_args(argv)
    seed = random.randrange(1 << 32) if chosen.seed is None else chosen.seed
    print("seed %d" % seed, flush=True)
    rng = random.Random(seed)
    done = failed = 0
    why = cannot_unshare()
    if why:
        print("not tried: " + why)
        return 1
    for _ in range(chosen.rounds):
        for name in EDGES:
            done += 1
            try:
                print("  " + "\n  ".join(monotonic([name], 1.5, chosen.waits, rng)), flush=True)
            except AssertionError as e:
                failed += 1
                print("  FOUND: %s" % e, flush=True)
    print("%d runs, %d failed" % (done, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
