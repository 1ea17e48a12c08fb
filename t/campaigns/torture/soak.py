"""./dev soak [SECONDS]: mixed load for an hour; the daemon's memory and descriptors must stay flat.

Clients say random lines of all protocols and read some of the answers, whatever they are; they reset, die inside a
request, never read, or are killed by an operator, who also reloads and reads the admin interface. At intervals the
load pauses, all connections close, nothing may be held or wait, and a sample is taken of what is left behind. The
result is the slope of a line through the samples after the warm-up: over the whole run neither memory nor descriptors
may grow by more than the tolerance.
"""

import argparse
import os
import random
import re
import statistics
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "..", "system"))

import http_client  # noqa: E402
import servers  # noqa: E402
import wire  # noqa: E402

CLIENTS = 12
WARM_UP = 0.2  # fraction of the time
JUDGED = 30  # least seconds after it; in less time memory only grows to its working size

# Tolerated growth by chance: two huge pages or 2 %, and one descriptor.
TOLERANCE_KIB, TOLERANCE_SHARE, TOLERANCE_DESCRIPTORS = 4096, 0.02, 1.0

# What clients say: {N} is a random number below N, {word|word} one of these.
TEXT = """
ACQ4{ME|ANY} name-{500} 2 20 {0|0.01|0.1|600}
ACQ4{ME|ANY} name-{5} 2 20 {0|0.01|0.1|600}
RELEASE name-{5}
RELEASE
STATS {FULL|UPTIME}
TAKE {db|web|db,web|@all|some-{9}} {0|0.01|0.1|600}{| for=check| for=clean| by=soak| count=2| with=k=v}
RETURN{| fail}
WATCH {web|*}
SUPPLY web {3} 4
JOIN web w-{1000000} 10.0.0.{250}:5555 n={9}
MEMBER DROP web w-{1000000} now
MEMBER SET db db_{1|2|3} state={free|dirty}
POOL ADD some-{9} group=all
MEMBER ADD some-{9} m{9} value
POOL {DROP some-{9} now|LIST|SHOW db}
QUIT
""".strip().split("\n")
JOBS = """
put-into jobs-{4} 0 {0|1} 2 *{0|10|600|20000}{| key=k{20}}
tube jobs-{4} claim=lease tries=3 remember=1
claim {40} {0|60} jobs-{4}
use jobs-{4}
watch jobs-{4}
reserve-with-timeout {0|0|60}
{delete|bury|touch|release|kick-job} {9999}
{ack|nack} {9999} {9999}
kick 5
clear jobs-{4} delayed
{stats|list-tubes|stats-tube jobs-{4}}
quit
""".strip().split("\n")
PAGES = ["metrics", "api/v1/stats", "api/v1/names", "api/v1/contended", "api/v1/pools", "api/v1/pools/web",
         "api/v1/history", "api/v1/config", ""]  # fmt: skip
OPTIONS = """counter.threads=2 jobs.enable=true jobs.port=0 jobs.sync=normal admin.token=soaked counter.stats_interval=5
limits.write_timeout=2 pool.db.group=all pool.web.kind=joined pool.web.group=all pool.web.max=6 pool.web.min_free=1
pool.web.cull_after=1 pool.web.stop_timeout=1""".split()


def start_daemon(folder):
    path = "jobs.path=%s/jobs.db" % folder
    return servers.Counterd(*OPTIONS, path, "pool.db.members=db_1, db_2, db_3", admin=True)


def filled(line, rng):
    """A line with all choices made, inner ones first."""
    while found := re.search(r"\{([^{}]*)\}", line):
        word = rng.choice(found[1].split("|")) if "|" in found[1] else str(rng.randrange(int(found[1])))
        line = line[: found.start()] + word + line[found.end() :]
    return line


def text_bytes(rng):
    return filled(rng.choice(TEXT), rng).encode() + b"\n"


def jobs_bytes(rng):
    line = filled(rng.choice(JOBS), rng)
    if "*" not in line:
        return line.encode() + b"\r\n"
    size = int(re.search(r"\*(\d+)", line)[1])
    return line.replace("*", "").encode() + b"\r\n" + b"b" * size + b"\r\n"


def binary_bytes(rng):
    name = b"name-%d" % rng.randrange(rng.choice((5, 10000))) + b"x" * rng.choice((0, 30, 3000))
    opcode, body = rng.choice((
        (wire.ACQUIRE, wire.acquire_body(rng.randrange(1, 4), 8, name)),
        (wire.RELEASE, wire.release_body(1, name)),
        (wire.GET, wire.get_body(name)),
        (rng.choice((wire.STATS, wire.DUMP, wire.NOOP)), b""),
    ))  # fmt: skip
    return wire.binary_request(opcode, body)


class Load:
    """Clients that work until the end, each with its own random sequence, and the operator."""

    def __init__(self, daemon, seed):
        self.daemon, self.over, self.failures, self.done = daemon, threading.Event(), [], [0] * CLIENTS
        runs = [(self.live, i, random.Random("%s-%d" % (seed, i))) for i in range(CLIENTS)]
        runs.append((self.operate, 0, random.Random(seed)))
        self.threads = [threading.Thread(target=self.run, args=run) for run in runs]

    def go(self, seconds):
        for thread in self.threads:
            thread.start()
        self.over.wait(seconds)
        self.over.set()
        for thread in self.threads:
            thread.join(120)
            assert not thread.is_alive(), "a client hangs"
        if self.failures:
            raise self.failures[0]

    def run(self, what, number, rng):
        while not self.over.is_set() and not self.failures:
            try:
                what(number, rng)
            except (wire.Closed, ConnectionError):
                pass  # the operator has killed it
            except BaseException as e:  # pylint: disable=broad-except
                self.failures.append(e)

    def live(self, number, rng):
        """One connection."""
        daemon = self.daemon
        address, some = rng.choice(
            [(daemon.text, text_bytes)] * 2 + [(daemon.binary, binary_bytes), (daemon.jobs, jobs_bytes)]
        )
        with wire.Client(address, rcvbuf=4096 if rng.randrange(8) == 0 else None) as client:
            for _ in range(rng.randrange(1, 40)):
                client.sock.setblocking(False)
                try:
                    client.sock.send(b"".join(some(rng) for _ in range(rng.randrange(1, 6))))
                except BlockingIOError:
                    break  # it does not read what such a client says
                self.done[number] += 1
                client.fill(rng.choice((0, 0.001, 0.02)))
                client.buffer.clear()
                if client.at_end:
                    return
            if rng.randrange(3) == 0:
                client.reset()
            elif rng.randrange(3) == 0:
                client.send(some(rng)[: rng.randrange(1, 20)])
                client.eof()
                client.reset()  # nothing else would tell a server that serves a half-closed client

    def operate(self, _, rng):
        """Reloads, reads the admin interface, and kills a connection."""
        admin, what = self.daemon.admin, rng.randrange(10)
        if what == 0:
            self.daemon.reload(120)
        elif what > 3:
            status, body = http_client.ask(admin, "GET", "/" + rng.choice(PAGES))
            assert status == 200, body
        elif found := http_client.get(admin, "/api/v1/connections?limit=100")["connections"]:
            path = "/api/v1/connections/%s/kill" % rng.choice(found)["connection"]
            status, body = http_client.ask(admin, "POST", path, "soaked")
            assert status in (200, 404), body
        self.over.wait(0.05)


def quiet(daemon):
    """Waits until the load has left nothing behind and the daemon has noticed the end of each connection."""
    with daemon.binary_client(deadline=60) as client:
        wire.poll(lambda: int(dict(client.stats())["curr_connections"]) == 1, "all are gone", 60)
        with daemon.text_client(deadline=60) as text, daemon.job_client(deadline=60) as jobs:
            for name in ("processing_workers", "waiting_workers"):
                wire.poll(lambda name=name: text.stat(name) == 0, name, 60)
            for number in range(9):
                text.ask("POOL DROP some-%d now" % number)

            def no_job_is_left():
                for number in range(4):
                    jobs.ask("clear jobs-%d all" % number)
                stats = jobs.stats()
                return not any(int(stats[key]) for key in stats if key.startswith("current-jobs-"))

            wire.poll(no_job_is_left, "all jobs are gone", 60)
        wire.poll(lambda: all(units == 0 for _, units, _ in client.dump()), "units are free", 60)
        stats = dict(client.stats())
        assert stats["pool_held"] == stats["pool_waiting"] == "0", stats
        assert (stats["pools"], stats["pool_members"]) == ("2", "3"), stats
    wire.poll(lambda: not http_client.get(daemon.admin, "/api/v1/connections")["connections"], "no connection is left", 60)


def result(samples):
    """A list of what has grown over these samples, by the slope of a line; [] if nothing has."""
    times, kib, descriptors = zip(*samples)
    lasted = times[-1] - times[0]
    grown, more = (statistics.linear_regression(times, of).slope * lasted if lasted else 0 for of in (kib, descriptors))
    print("over %.0f s: memory %+.0f KiB of %.0f, descriptors %+.2f" % (lasted, grown, statistics.mean(kib), more))
    found = []
    if lasted < JUDGED:
        print("too short to judge memory by")
    elif grown > max(TOLERANCE_KIB, TOLERANCE_SHARE * statistics.mean(kib)):
        found.append("memory grows: %+.0f KiB" % grown)
    if more > TOLERANCE_DESCRIPTORS:
        found.append("descriptors grow: %+.2f" % more)
    return found


def soak(daemon, seconds, every, seed):
    """Returns samples: time, resident KiB, descriptors."""
    samples, done, began = [], 0, time.monotonic()
    print("%8s %12s %12s %12s" % ("seconds", "KiB", "descriptors", "packets"))
    while time.monotonic() - began < seconds or len(samples) < 2:
        load = Load(daemon, seed + len(samples))
        load.go(every)
        quiet(daemon)
        done += sum(load.done)
        samples.append((time.monotonic() - began, daemon.resident_kib(), daemon.descriptors()))
        print("%8.0f %12d %12d %12d" % (*samples[-1], done), flush=True)
    return samples


def main(argv):
    parser = argparse.ArgumentParser(prog="./dev soak", description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=3600, help="how long (default: 3600)")
    parser.add_argument("--every", type=float, help="seconds between samples (default: a 60th)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of what the clients do")
    chosen = parser.parse_args(argv)
    print("seed %d (of the plan; the threads race)" % chosen.seed, flush=True)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        daemon = start_daemon(folder)
        try:
            samples = soak(daemon, chosen.seconds, chosen.every or max(1, chosen.seconds / 60), chosen.seed)
            found = result([s for s in samples if s[0] >= WARM_UP * chosen.seconds] or samples)
            daemon.stop()
        except AssertionError as e:
            found = [str(e)]
        finally:
            daemon.kill()
    for what in found:
        print("FOUND: " + what)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
