"""./dev soak --cluster: the load of the soak on two nodes that share their names through one Redis.

Most names are shared, strict and loose ones, and the operator also ends the nodes' connections to the
engine, so sessions come and go. A sample is taken when no client is there: then the engine may have
nothing but the two live sessions, and all sums must be right. Memory of nodes and engine, descriptors
of the nodes and the number of keys must stay flat.
"""

import threading
import time

import cluster_keys
import http_client
import redis_servers
import soak
import wire

NAMES = ("a", "b")
SHARED = ["cluster.lease=4", "cluster.patience=60", "cluster.strict=name-1*, name-2*",
          "cluster.loose=name-*, ??-*"]  # fmt: skip

# To requests for strict names whose timeout ends while there is no session.
soak.ANSWERS.append("ERROR ENGINE_AWAY")


class Nodes:
    """The engine, and two daemons; `folder` is for their files."""

    def __init__(self, folder):
        self.daemons = []
        self.engine = redis_servers.RedisServer()
        try:
            for name in NAMES:
                self.daemons.append(soak.start_daemon(
                    folder, "cluster.engine=" + self.engine.url, "cluster.node=" + name, *SHARED, name=name))  # fmt: skip
            for daemon in self.daemons:
                daemon.wait_log("session [0-9a-f]{16} is live", 60)
        except BaseException:
            self.kill()
            raise

    def quiet(self):
        """Waits until nothing is left but two live sessions. Returns the number of keys."""
        for daemon in self.daemons:
            wire.poll(lambda d=daemon: http_client.get(d.admin, "/api/v1/cluster")["state"] == "live",
                      "it is live", 60)  # fmt: skip
            soak.quiet(daemon)
        cluster_keys.await_nothing_left(self.engine.path, NAMES, deadline=60)
        return self.engine.ask("DBSIZE")

    def engine_kib(self):
        with open("/proc/%d/status" % self.engine.process.pid, encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))

    def stop(self):
        """Ends the nodes in order: they leave, and no session is left."""
        for daemon in self.daemons:
            daemon.stop()
        left = cluster_keys.Keys(self.engine.path).left([])
        assert not left, "\n".join(left)

    def kill(self):
        for daemon in self.daemons:
            daemon.kill()
        self.engine.stop()


def disturb(nodes, over, rng):
    """Ends the connections of all nodes to the engine, now and then."""
    while not over.wait(rng.uniform(0.5, 2)):
        nodes.engine.ask("CLIENT", "KILL", "TYPE", rng.choice(["normal", "pubsub"]))


def run_loads(nodes, seconds, seed, rng):
    """All clients and operators of one interval. Returns the number of requests."""
    loads = [soak.Load(daemon, "%d-%d" % (seed, i), soak.CLIENTS // 2)
             for i, daemon in enumerate(nodes.daemons)]  # fmt: skip
    over, failures = threading.Event(), []

    def run(load):
        try:
            load.run(seconds)
        except BaseException as e:  # pylint: disable=broad-except
            failures.append(e)

    threads = [threading.Thread(target=run, args=(load,)) for load in loads]
    threads.append(threading.Thread(target=disturb, args=(nodes, over, rng)))
    for thread in threads:
        thread.start()
    for thread in threads[:-1]:
        thread.join()
    over.set()
    threads[-1].join()
    if failures:
        raise failures[0]
    return sum(sum(load.done) for load in loads)


def run(nodes, seconds, every, seed, rng):
    """Returns the samples of each process: time, resident KiB, and descriptors or keys."""
    samples, done, began = {"node a": [], "node b": [], "engine": []}, 0, time.monotonic()
    print("%8s %12s %12s %12s %8s %12s" % ("seconds", "KiB a", "KiB b", "KiB engine", "keys", "requests"))
    while time.monotonic() - began < seconds or len(samples["engine"]) < 2:
        done += run_loads(nodes, every, seed + len(samples["engine"]), rng)
        keys, now = nodes.quiet(), time.monotonic() - began
        for name, daemon in zip(NAMES, nodes.daemons):
            samples["node " + name].append((now, daemon.resident_kib(), daemon.descriptors()))
        samples["engine"].append((now, nodes.engine_kib(), keys))
        kib = [samples[of][-1][1] for of in samples]
        print("%8.0f %12d %12d %12d %8d %12d" % (now, *kib, keys, done), flush=True)
    return samples


def verdict(samples, warm_up):
    """A line for each thing that has grown after the first `warm_up` seconds."""
    found = []
    for of, rows in samples.items():
        print(of + ": ", end="")
        counted = "keys" if of == "engine" else "descriptors"
        warm = [row for row in rows if row[0] >= warm_up] or rows
        found += ["%s: %s" % (of, what) for what in soak.verdict(warm, counted)]
    return found
