"""./dev soak [SECONDS]: mixed load for an hour; the daemon's memory and descriptors must stay flat.

The load: requests of both protocols, waits, hand-overs, timeouts, members of pools that are taken,
joined, watched and left, stored jobs, clients that reset, die inside a request or never read,
connections that the operator kills, reloads, dumps, statistics, and the admin interface. At
intervals the load pauses, all connections close, and the soak takes a sample, so it measures what is
left behind. The verdict is the slope of a line through the samples after the warm-up: over the whole
run neither memory nor descriptors may grow by more than the tolerance. --cluster: two daemons that
share names (soak_cluster.py).
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "system")]

import http_client  # noqa: E402
import servers  # noqa: E402
import wire  # noqa: E402

TOKEN = "soaked"
ANSWERS = ["LOCKED", "TIMEOUT", "DONE", "QUEUE_FULL", "LOCK_HELD"]  # to ACQ4ME and ACQ4ANY
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
            threading.Thread(target=self._run, args=(i, random.Random("%s-%d" % (seed, i))))
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
        pages = ["/metrics", "/api/v1/stats", "/api/v1/names", "/api/v1/contended", "/api/v1/pools",
                 "/api/v1/pools/web", "/api/v1/history", "/api/v1/config", "/"]  # fmt: skip
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
            assert answer in ANSWERS, answer
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


def members(daemon, rng):
    """Takes members, from both pools; a static one that fails is dirty, and then cleaned."""
    with daemon.text_client(deadline=60) as client:
        for _ in range(20):
            what = rng.choice(["", "", " for=check", " by=soak"])
            target = rng.choice(["db", "db", "web", "db,web", "@all"])
            answer = client.ask("TAKE %s %s%s" % (target, rng.choice(["0", "0.01", "0.1"]), what))
            assert answer.startswith("TAKEN") or answer in ("TIMEOUT", "QUEUE_FULL"), answer
            if answer.startswith("TAKEN") and rng.randrange(4):
                answer = client.ask(rng.choice(["RETURN", "RETURN", "RETURN fail"]))
                assert answer in ("RETURNED", "GONE"), answer
            if rng.randrange(4) == 0 and client.ask("TAKE db 0 for=clean").startswith("TAKEN"):
                assert client.ask("RETURN") == "RETURNED"
        if rng.randrange(2):
            assert client.ask("QUIT") == "BYE"
        elif rng.randrange(2):
            client.reset()
    return 40


def joiners(daemon, rng):
    """Joins members, and ends what it is told to end; a watcher beside it reads its events."""
    number, mine, requests = rng.randrange(1 << 60), [], 0
    with daemon.text_client(deadline=60) as client, daemon.text_client(deadline=60) as watcher:
        assert watcher.ask("WATCH " + rng.choice(["web", "*"])) == "OK"
        client.say("SUPPLY web %d 4" % rng.randrange(3))
        for i in range(10):
            name = "%x-%d" % (number, i)
            client.say("JOIN web %s 10.0.0.%d:5555 n=%d" % (name, i, i))
            mine.append(name)
            if rng.randrange(2):
                client.say("MEMBER DROP web %s now" % mine.pop(rng.randrange(len(mine))))
            requests += 2
        watcher.fill(0.01)
        if rng.randrange(2):
            client.say("QUIT")
            while client.line() != "BYE":
                pass
        elif rng.randrange(2):
            client.reset()
    return requests


def pools_that_come_and_go(daemon, rng):
    pool = "some-%d" % rng.randrange(1 << 60)
    with daemon.text_client(deadline=60) as client:
        assert client.ask("POOL ADD %s group=some" % pool) == "OK"
        for i in range(10):
            assert client.ask("MEMBER ADD %s m%d value-%d" % (pool, i, i)) == "OK"
        assert client.ask("TAKE %s 0" % pool).startswith("TAKEN")
        assert client.ask("POOL DROP %s now" % pool) == "OK"
    return 13


def queues(daemon, rng):
    """Puts jobs, some with a key, and works on them; some are left, and some bodies come in part."""
    body = b"b" * rng.choice([0, 10, 500, 600, 20000])
    tube, count = b"jobs-%d" % rng.randrange(4), rng.randrange(1, 30)
    with daemon.job_client(deadline=60) as client:
        if rng.randrange(4) == 0:
            client.fetch("tube %s claim=lease tries=3 remember=1" % tube.decode())
        key = rng.choice([b"", b" key=k%d" % rng.randrange(20)])
        client.send_reading(b"put-into %s 0 %d 2 %d%s\r\n%s\r\n" % (
            tube, rng.choice([0, 0, 1]), len(body), key, body) * count)  # fmt: skip
        for _ in range(count):
            assert client.line().split()[0] in ("INSERTED", "DUPLICATE")
        records = b"0 0 2 %d\r\n%s\r\n" % (len(body), body) * 10
        client.send_reading(b"put-batch %s 10 %d\r\n%s\r\n" % (tube, len(records), records))
        assert client.job()[0].startswith("OK ")
        head, rows = client.ask("claim %d 0 %s" % (rng.randrange(1, 40), tube.decode())), []
        for _ in range(int(head.split()[1]) if head.startswith("CLAIMED") else 0):
            rows.append(client.job()[0].split())
        for row in rows:
            verb = rng.choice(["ack", "ack", "ack", "nack", "bury", "renew", "none"])
            if verb == "bury":
                client.ask("bury %s 5" % row[1])
            elif verb != "none":
                client.ask("%s %s %s%s" % (verb, row[1], row[3], " 0" if verb == "nack" else ""))
        client.ask("use " + tube.decode())
        client.ask("kick 5")
        client.ask("clear %s delayed" % tube.decode())
        if rng.randrange(4) == 0:
            client.send(b"put 0 0 60 100000\r\n" + b"h" * rng.randrange(100000))
        if rng.randrange(3) == 0:
            client.say("claim 5 60 nothing-here")
        if rng.randrange(2):
            client.reset()
    return count + 2 + 2 * len(rows)


DEEDS = [locks] * 4 + [units] * 4 + [lookers, many_names, unread, unfinished, waiting_when_it_ends]
DEEDS += [members] * 2 + [joiners, pools_that_come_and_go] + [queues] * 2
POOLS = ["pool.db.members=db_1, db_2, db_3", "pool.db.group=all", "pool.web.kind=joined", "pool.web.group=all",
         "pool.web.max=6", "pool.web.min_free=1", "pool.web.cull_after=1", "pool.web.stop_timeout=1"]  # fmt: skip


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
            text.say("POOL LIST some-")  # of clients that were killed
            for line in list(iter(text.line, "")):
                assert text.ask("POOL DROP %s now" % line.split()[1]) == "OK"
        with daemon.job_client(deadline=60) as jobs:
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

    def descriptors_are_closed():
        return not http_client.get(daemon.admin, "/api/v1/connections")["connections"]

    wire.poll(descriptors_are_closed, "no connection is left", 60)


def slope(times, values):
    """The slope of the least-squares line, per second."""
    return statistics.linear_regression(times, values).slope if len(set(times)) > 1 else 0.0


def verdict(samples, counted="descriptors"):
    """
    A list of what has grown over these samples, by their slope; [] if nothing has. Their last column
    has numbers of `counted`.
    """
    times, kib, descriptors = zip(*samples)
    lasted = times[-1] - times[0]
    grown = slope(times, kib) * lasted
    more = slope(times, descriptors) * lasted
    print("over %.0f s: memory %+.0f KiB of %.0f, %s %+.2f of %.0f"
          % (lasted, grown, statistics.mean(kib), counted, more, statistics.mean(descriptors)))  # fmt: skip
    found = []
    if lasted < JUDGED:
        print("too short to judge memory by")
    elif grown > max(TOLERANCE_KIB, TOLERANCE_SHARE * statistics.mean(kib)):
        found.append("memory grows: %+.0f KiB" % grown)
    if more > TOLERANCE_DESCRIPTORS:
        found.append("%s grow: %+.2f" % (counted, more))
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


def start_daemon(folder, *options, name="jobs"):
    return servers.Counterd(
        "counter.threads=2", "jobs.enable=true", "jobs.port=0", "jobs.path=%s/%s.db" % (folder, name), "jobs.sync=normal", "admin.token=" + TOKEN, "counter.stats_interval=5",
        "limits.write_timeout=2", *POOLS, *options, admin=True,
    )  # fmt: skip


def soak_one(folder, seconds, every, seed):
    """Returns the samples of one daemon, and what was found."""
    daemon = start_daemon(folder)
    try:
        samples = soak(daemon, seconds, every, seed)
        found = verdict([s for s in samples if s[0] >= WARM_UP * seconds] or samples)
        daemon.stop()
    finally:
        daemon.kill()
    return samples, found


def soak_nodes(folder, seconds, every, seed):
    """The same of two nodes; the samples are those of the engine."""
    import soak_cluster  # pylint: disable=import-outside-toplevel

    nodes = soak_cluster.Nodes(folder)
    try:
        samples = soak_cluster.run(nodes, seconds, every, seed, random.Random(seed))
        found = soak_cluster.verdict(samples, WARM_UP * seconds)
        nodes.stop()
    finally:
        nodes.kill()
    return samples["engine"], found


def main(argv):
    parser = argparse.ArgumentParser(prog="./dev soak", description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=3600, help="how long (default: 3600)")
    parser.add_argument("--every", type=float, help="seconds between samples (default: a 60th)")
    parser.add_argument("--cluster", action="store_true", help="two nodes that share names")
    parser.add_argument("--seed", type=int, help="of what the clients do; threads make it another run"
                        " of the same plan")  # fmt: skip
    chosen = parser.parse_args(argv)
    seed = random.randrange(1 << 32) if chosen.seed is None else chosen.seed
    print("seed %d" % seed, flush=True)
    folder = tempfile.TemporaryDirectory(prefix="soak-")
    part = soak_nodes if chosen.cluster else soak_one
    try:
        samples, found = part(folder.name, chosen.seconds, chosen.every or max(1, chosen.seconds / 60), seed)
    except AssertionError as e:
        found, samples = [str(e)], []
    finally:
        folder.cleanup()
    for what in found:
        print("FOUND: " + what)
    print("%d samples, %d findings" % (len(samples), len(found)))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
