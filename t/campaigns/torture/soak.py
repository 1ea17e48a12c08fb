"""./dev soak [SECONDS]: mixed load for an hour; the daemon's memory and descriptors must stay flat.

The load: requests of both protocols, waits, hand-overs, timeouts, clients that reset, die inside a
request or never read, connections that the operator kills, reloads, dumps, statistics, and the
admin interface. At intervals the load pauses, all connections close, and the soak takes a sample,
so it measures what is left behind. The verdict is the slope of a line through the samples after the
warm-up: over the whole run neither memory nor descriptors may grow by more than the tolerance.
"""

import argparse
import os
import random
import statistics
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "system")]

import http_client  # noqa: E402
import servers  # noqa: E402
import wire  # noqa: E402

TOKEN = "soaked"
CLIENTS = 12
WARM_UP = 0.2  # fraction of the time
JUDGED = 30  # least seconds after it; in less time memory only grows to its working size

# Tolerated growth by chance: two huge pages or 2 %, and one descriptor.
TOLERANCE_KIB = 4096
TOLERANCE_SHARE = 0.02
TOLERANCE_DESCRIPTORS = 1.0


class Load:
    """Clients that work until `end`, each with its own random sequence."""

    def __init__(self, daemon, seed, clients=CLIENTS):
        self.daemon = daemon
        self.over = threading.Event()
        self.failures = []
        self.done = [0] * clients
        self.threads = [
            threading.Thread(target=self._run, args=(i, random.Random("%d-%d" % (seed, i))))
            for i in range(clients)
        ]
        self.operator = threading.Thread(target=self._operate, args=(random.Random(seed),))

    def run(self, seconds):
        self.over.clear()
        for thread in self.threads + [self.operator]:
            thread.start()
        self.over.wait(seconds)
        self.over.set()
        for thread in self.threads + [self.operator]:
            thread.join(120)
            assert not thread.is_alive(), "a client hangs"
        if self.failures:
            raise self.failures[0]

    def _run(self, number, rng):
        while not self.over.is_set() and not self.failures:
            try:
                self.done[number] += rng.choice(DEEDS)(self.daemon, rng)
            except (wire.Closed, ConnectionError):
                pass  # the operator has killed it
            except BaseException as e:  # pylint: disable=broad-except
                self.failures.append(e)

    def _operate(self, rng):
        """Reloads, reads the admin interface, and kills connections."""
        pages = ["/metrics", "/api/v1/stats", "/api/v1/names", "/api/v1/contended", "/api/v1/history",
                 "/api/v1/config", "/"]  # fmt: skip
        try:
            while not self.over.is_set():
                what = rng.randrange(10)
                if what == 0:
                    self.daemon.reload(120)
                elif what < 4:
                    found = http_client.get(self.daemon.admin, "/api/v1/connections?limit=100")
                    if found["connections"]:
                        one = rng.choice(found["connections"])["connection"]
                        path = "/api/v1/connections/%s/kill" % one
                        status, body = http_client.ask(self.daemon.admin, "POST", path, TOKEN)
                        assert status in (200, 404), body
                else:
                    status, body = http_client.ask(self.daemon.admin, "GET", rng.choice(pages))
                    assert status == 200, body
                self.over.wait(0.05)
        except BaseException as e:  # pylint: disable=broad-except
            self.failures.append(e)


# ---- actions of clients: each returns its number of requests -------------------------------------


def name_of(rng):
    return "name-%d" % min(rng.randrange(500), rng.randrange(500))


def locks(daemon, rng):
    with daemon.text_client(deadline=60) as client:
        for _ in range(30):
            key = name_of(rng)
            verb = rng.choice(["ACQ4ME", "ACQ4ANY"])
            answer = client.ask("%s %s 2 20 %s" % (verb, key, rng.choice(["0", "0.01", "0.1"])))
            assert answer in ("LOCKED", "TIMEOUT", "DONE", "QUEUE_FULL", "LOCK_HELD"), answer
            if answer == "LOCKED" and rng.randrange(4):
                assert client.ask("RELEASE " + key) == "RELEASED"
        if rng.randrange(4) == 0:
            client.reset()
    return 50


def units(daemon, rng):
    with daemon.binary_client(deadline=60) as client:
        for _ in range(30):
            name = name_of(rng).encode()
            if client.acquire(rng.randrange(1, 4), 8, name) == wire.OK and rng.randrange(3):
                client.release(1, name)
            client.get(name)
        if rng.randrange(4) == 0:
            client.eof()
    return 80


def lookers(daemon, rng):
    with daemon.binary_client(deadline=60) as client, daemon.text_client(deadline=60) as text:
        client.dump()
        client.stats()
        text.stats()
    return 3


def many_names(daemon, rng):
    tail = b"x" * rng.choice([1, 30, 300, 3000])
    with daemon.binary_client(deadline=60) as client:
        for i in range(50):
            client.acquire(1, 1, b"%d-%d" % (rng.randrange(10000), i) + tail)
    return 50


def unread(daemon, rng):
    with daemon.text_client(rcvbuf=4096) as client:
        client.sock.setblocking(False)
        try:
            for _ in range(20):
                client.sock.send(b"STATS FULL\n" * 100)
        except OSError:
            pass
        if rng.randrange(2):
            client.reset()
    return 100


def unfinished(daemon, rng):
    with daemon.text_client() as client:
        client.send(b"ACQ4ME half-of-a-request"[: rng.randrange(1, 20)])
        if rng.randrange(2):
            client.reset()
    return 0


def waiting_when_it_ends(daemon, rng):
    key = name_of(rng)
    clients = [daemon.text_client(deadline=60) for _ in range(6)]
    for client in clients:
        client.say("%s %s 1 50 600" % (rng.choice(["ACQ4ME", "ACQ4ANY"]), key))
    for client in clients:
        client.reset() if rng.randrange(2) else client.close()
    return len(clients)


DEEDS = [locks] * 4 + [units] * 4 + [lookers, many_names, unread, unfinished, waiting_when_it_ends]


# ---- samples -------------------------------------------------------------------------------------


def quiet(daemon):
    """
    Waits until the load has left nothing behind and the daemon has noticed the end of each
    connection.
    """
    with daemon.binary_client(deadline=60) as client:
        wire.poll(lambda: int(dict(client.stats())["curr_connections"]) == 1, "all are gone", 60)
        with daemon.text_client(deadline=60) as text:
            wire.poll(lambda: text.stat("processing_workers") == 0, "locks are free", 60)
            wire.poll(lambda: text.stat("waiting_workers") == 0, "nobody waits", 60)
        wire.poll(lambda: all(units == 0 for _, units, _ in client.dump()), "units are free", 60)

    def descriptors_are_closed():
        return not http_client.get(daemon.admin, "/api/v1/connections")["connections"]

    wire.poll(descriptors_are_closed, "no connection is left", 60)


def slope(times, values):
    """The slope of the least-squares line, per second."""
    return statistics.linear_regression(times, values).slope if len(set(times)) > 1 else 0.0


def verdict(samples):
    """A list of what has grown over these samples, by their slope; [] if nothing has."""
    times, kib, descriptors = zip(*samples)
    lasted = times[-1] - times[0]
    grown = slope(times, kib) * lasted
    more = slope(times, descriptors) * lasted
    print("over %.0f s: memory %+.0f KiB of %.0f, descriptors %+.2f of %.0f"
          % (lasted, grown, statistics.mean(kib), more, statistics.mean(descriptors)))  # fmt: skip
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
    print("%8s %12s %12s %12s" % ("seconds", "KiB", "descriptors", "requests"))
    while time.monotonic() - began < seconds or len(samples) < 2:
        load = Load(daemon, seed + len(samples))
        load.run(every)
        quiet(daemon)
        done += sum(load.done)
        samples.append((time.monotonic() - began, daemon.resident_kib(), daemon.descriptors()))
        print("%8.0f %12d %12d %12d" % (*samples[-1], done), flush=True)
    return samples


def start_daemon():
    return servers.Counterd(
        "counter.threads=2", "admin.token=" + TOKEN, "counter.stats_interval=5",
        "limits.write_timeout=2", admin=True,
    )  # fmt: skip


def main(argv):
    parser = argparse.ArgumentParser(prog="./dev soak", description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=3600, help="how long (default: 3600)")
    parser.add_argument("--every", type=float, help="seconds between samples (default: a 60th)")
    parser.add_argument("--seed", type=int, help="of what the clients do; threads make it another run"
                        " of the same plan")  # fmt: skip
    chosen = parser.parse_args(argv)
    seed = random.randrange(1 << 32) if chosen.seed is None else chosen.seed
    print("seed %d" % seed, flush=True)
    daemon = start_daemon()
    try:
        samples = soak(daemon, chosen.seconds, chosen.every or max(1, chosen.seconds / 60), seed)
        warm = [s for s in samples if s[0] >= WARM_UP * chosen.seconds] or samples
        found = verdict(warm)
        daemon.stop()
    except AssertionError as e:
        found, samples = [str(e)], []
    finally:
        daemon.kill()
    for what in found:
        print("FOUND: " + what)
    print("%d samples, %d findings" % (len(samples), len(found)))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
