"""A world of nodes that share limits: engines, Sentinels, proxies between all of them, nodes, clients.

    with World(nodes=3, lease=2) as world:
        a, b, c = world.start_nodes()
        client = world.text(a)
        assert client.acquire(world.strict("licence", 5), limit=5).wait() == "LOCKED"

Every node reaches each engine and each Sentinel through a proxy of its own (`node.to["engine-1"]`), and
engines and Sentinels reach each other through a gate, which tells them apart by their source address
(`world.gates["engine-1"]`). So any connection can be cut, stalled or made slow alone. The faults of the
table of failures are functions here. `rest` ends all faults and clients and checks that nothing is left.
"""

import collections
import itertools
import os
import signal
import time

import cluster_keys
import redis_servers
import servers
import wire
from cluster_observer import Observer
from cluster_proxy import HOST, Network
from cluster_stalls import Stalls

SERVICE = "limits"
GRACE_SPARE = 1.0  # what a deadline allows beyond the times that the nodes count


def await_stopped(pid):
    """Waits until SIGSTOP has stopped all threads of a process."""

    def has_stopped():
        folder = "/proc/%d/task" % pid
        states = []
        for task in os.listdir(folder):
            with open("%s/%s/stat" % (folder, task)) as f:
                states.append(f.read().rpartition(")")[2].split()[0])
        return set(states) <= {"T", "t"}

    wire.poll(has_stopped, "process %d is stopped" % pid)


class Node:
    """One counterd. `to` has its proxies by the names of their targets."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.to = {}
        self.daemon = None
        self.options = []  # what `start` was given
        self.is_paused = False

    def __repr__(self):
        return "node-" + self.name

    @property
    def engine_url(self):
        if not self.world.sentinels:
            return "redis://%s:%d" % (HOST, self.to["engine-1"].port)
        ports = [self.to[name].port for name in sorted(self.to) if name.startswith("sentinel")]
        return "sentinel://%s/%s" % (",".join("%s:%d" % (HOST, port) for port in ports), SERVICE)

    def start(self, *options, **kwargs):
        """Starts the daemon; `options` override those of the world ("cluster.lease=5")."""
        assert self.daemon is None, "%r runs" % self
        self.options = list(options)
        world = self.world
        chosen = ["counter.threads=2", "cluster.engine=" + self.engine_url]
        chosen += ["cluster.%s=%s" % row for row in (
            ("node", self.name), ("lease", world.lease), ("patience", world.patience),
            ("strict", world.strict_patterns), ("loose", world.loose_patterns),
        )]  # fmt: skip
        self.daemon = servers.Counterd(*chosen, *options, admin=True, **kwargs)
        return self

    @property
    def is_running(self):
        return self.daemon is not None

    @property
    def log(self):
        return self.daemon.log if self.daemon else ""

    def kill(self):
        """kill -9."""
        self.daemon.kill()
        self.daemon.check_log()
        self.world.logs.append((self.name, self.daemon.log))
        self.daemon, self.is_paused = None, False

    def stop(self):
        """SIGTERM; it must exit with 0."""
        daemon, self.daemon = self.daemon, None
        self.world.logs.append((self.name, daemon.log))
        daemon.stop()

    def pause(self):
        """SIGSTOP; returns when all its threads have stopped."""
        self.daemon.child.send_signal(signal.SIGSTOP)
        self.is_paused = True
        await_stopped(self.daemon.pid)

    def resume(self):
        self.daemon.child.send_signal(signal.SIGCONT)
        self.is_paused = False

    # Faults between it and the engines and Sentinels.

    def cut(self, kind=None):
        """Resets its connections (of a kind), once."""
        return sum(proxy.cut(kind) for proxy in self.to.values())

    def isolate(self, silently=True):
        """Cuts it off until `heal`: silently, or by connections that are refused."""
        for proxy in self.to.values():
            proxy.stall() if silently else proxy.refuse()

    def stall(self, way="both", kind=None, old_only=False):
        for proxy in self.to.values():
            proxy.stall(way, kind, old_only=old_only)

    def delay(self, seconds):
        """Each answer takes so long."""
        for proxy in self.to.values():
            proxy.delay(seconds / 2, seconds / 2)

    def heal(self):
        for proxy in self.to.values():
            proxy.heal()

    # What the engine says of it.

    @property
    def session(self):
        return self.world.keys().nodes.get(self.name)

    @property
    def is_live(self):
        return self.world.keys().state_of(self.name) == "live"

    def await_live(self, deadline=None):
        self._poll(lambda: self.is_live, "is live", deadline)

    def await_steady(self, deadline=None):
        """Waits until two beats of one session have passed: it has no fault any more that it will notice."""
        seen = {}

        def is_steady():
            keys = self.world.keys()
            session = keys.nodes.get(self.name, "")
            beat = int(keys.beats.get(session.encode(), 0))
            return keys.state_of(self.name) == "live" and beat >= seen.setdefault(session, beat) + 2

        self._poll(is_steady, "beats in one session", deadline)

    def await_new_session(self, old, deadline=None):
        """Waits until it is live in another session."""

        def is_new():
            keys = self.world.keys()
            return keys.nodes.get(self.name) not in (None, old) and keys.state_of(self.name) == "live"

        self._poll(is_new, "has another session", deadline)

    def _poll(self, condition, what, deadline):
        try:
            wire.poll(condition, "%r %s" % (self, what), deadline)
        except wire.Timeout as e:
            raise wire.Timeout("%s; its log:\n%s" % (e, self.log[-2000:])) from None


class World:
    """
    `engines`: 2 gives the first a replica. `sentinels`: 3 of them watch the first engine, and nodes ask
    them; `down_after_ms` is theirs.
    """

    def __init__(self, nodes=3, lease=2, patience=1, engines=1, sentinels=0, down_after_ms=1000):
        self.lease = lease if lease >= 10 else wire.scaled(lease, 2 * lease)
        self.patience = patience
        self.down_after = down_after_ms / 1000
        self.strict_patterns, self.loose_patterns = "s:*", "l:*"
        self.logs = []  # of nodes that have ended
        self.measured = collections.defaultdict(list)  # what rows report
        self.numbers = itertools.count(1)
        self.network, self.observer, self.stalls = Network(), Observer(), Stalls()
        self.engines, self.sentinels, self.gates, self.nodes = [], [], {}, []
        self.sources = {}  # name by source address
        self.primary_at = 0
        try:
            self._start_engines(engines)
            self._start_sentinels(sentinels, down_after_ms)
            for name in "abcdefgh"[:nodes]:
                self.add_node(name)
        except BaseException:
            self.close(checks=False)
            raise

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.close(checks=kind is None)

    # Making.

    def _start_engines(self, count):
        for number in range(1, count + 1):
            name, source = "engine-%d" % number, "127.0.0.%d" % (20 + number)
            self.sources[source] = name
            gate = servers.free_port()
            config = "bind-source-addr %s\nreplica-announce-ip %s\nreplica-announce-port %d\n" % (
                source, HOST, gate)  # fmt: skip
            config += "repl-diskless-sync-delay 0\nrepl-timeout 60\n"
            if number > 1:
                config += "replicaof %s %d\n" % self.gates["engine-1"].address
            engine = redis_servers.RedisServer(tcp=True, config=config)
            self.engines.append(engine)
            self.gates[name] = self.network.proxy((HOST, engine.port), self.sources, gate)
        for engine in self.engines[1:]:
            wire.poll(lambda e=engine: e.info("replication").get("master_link_status") == "up",
                      "the replica has its data")  # fmt: skip

    def _start_sentinels(self, count, down_after_ms):
        watched = self.gates["engine-1"].address
        for number in range(1, count + 1):
            name, source = "sentinel-%d" % number, "127.0.0.%d" % (30 + number)
            self.sources[source] = name
            gate = servers.free_port()
            config = "\n".join([
                "bind-source-addr " + source,
                "sentinel monitor %s %s %d %d" % (SERVICE, *watched, count // 2 + 1),
                "sentinel down-after-milliseconds %s %d" % (SERVICE, down_after_ms),
                "sentinel failover-timeout %s 4000" % SERVICE,
                "sentinel announce-ip " + HOST,
                "sentinel announce-port %d" % gate,
            ])  # fmt: skip
            sentinel = redis_servers.RedisServer(sentinel=True, config=config)
            self.sentinels.append(sentinel)
            self.gates[name] = self.network.proxy((HOST, sentinel.port), self.sources, gate)
        wire.poll(self._sentinels_know_all, "the Sentinels know each other and the replica",
                  3 * wire.DEADLINE)  # fmt: skip

    def _sentinels_know_all(self):
        for sentinel in self.sentinels:
            seen = sentinel.ask("SENTINEL", "MASTER", SERVICE)
            seen = dict(zip(seen[0::2], seen[1::2]))
            if int(seen[b"num-other-sentinels"]) < len(self.sentinels) - 1 or (
                int(seen[b"num-slaves"]) < len(self.engines) - 1
            ):
                return False
        return True

    def add_node(self, name):
        """A node with its proxies, not started."""
        node = Node(self, name)
        for number, engine in enumerate(self.engines, 1):
            node.to["engine-%d" % number] = self.network.proxy((HOST, engine.port), repr(node))
        for number, sentinel in enumerate(self.sentinels, 1):
            proxy = node.to["sentinel-%d" % number] = self.network.proxy((HOST, sentinel.port), repr(node))
            proxy.translate({
                b"%d" % self.gates[engine].port: b"%d" % node.to[engine].port
                for engine in node.to if engine.startswith("engine")
            })  # fmt: skip
        self.nodes.append(node)
        return node

    def start_nodes(self, *options):
        """Starts all nodes and waits until they are live. Returns them."""
        for node in self.nodes:
            if not node.is_running:
                node.start(*options)
        self.await_live()
        return self.nodes

    def begin(self):
        """Starts all nodes; they grant strict names then, unless the lease is too long to wait for."""
        self.start_nodes()
        if self.lease < 20:
            for node in self.nodes:
                node.await_steady(wire.DEADLINE + 3 * self.lease)
            self.await_no_grace()

    def await_live(self, *nodes, deadline=None):
        for node in nodes or [node for node in self.nodes if node.is_running]:
            node.await_live(deadline or wire.DEADLINE + 3 * self.lease)

    def await_no_grace(self):
        """Waits until strict names are granted."""
        wire.poll(lambda: self.keys().meta and not self.keys().grace, "grace is over",
                  wire.DEADLINE + 3 * self.lease)  # fmt: skip

    # Names and clients.

    def strict(self, limit=1, word="n"):
        """A new strict name with a limit."""
        return self._name("s", limit, word, True)

    def loose(self, limit=1, word="n"):
        return self._name("l", limit, word, False)

    def _name(self, kind, limit, word, strict):
        name = "%s:%s%d" % (kind, word, next(self.numbers))
        self.observer.limit(name, limit, strict)
        return name

    def text(self, node):
        return self.observer.text(node.daemon.text, "client %d of %r" % (next(self.numbers), node))

    def binary(self, node):
        return self.observer.binary(node.daemon.binary, "client %d of %r" % (next(self.numbers), node))

    # The engine.

    @property
    def engine(self):
        return self.engines[self.primary_at]

    @property
    def primary_name(self):
        return "engine-%d" % (self.primary_at + 1)

    def keys(self):
        return cluster_keys.Keys(self.engine.path)

    @property
    def term(self):
        return self.keys().meta.get("term")

    def pause_engine(self):
        """SIGSTOP; `heal` lets it go on."""
        self.engine.pause()
        await_stopped(self.engine.process.pid)

    def restart_engine(self, keep=True):
        """Kills the engine and starts it again, with its data or empty."""
        if keep:
            self.engine.ask("SAVE")
        self.engine.end()
        dump = os.path.join(self.engine.folder, "dump.rdb")
        if not keep and os.path.exists(dump):
            os.unlink(dump)
        self.engine.start()

    def flush(self):
        self.engine.ask("FLUSHALL")


    # Failover.

    def named_by(self, sentinel):
        """The number (from 0) of the engine that a Sentinel names as primary."""
        _, port = sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        ports = [self.gates["engine-%d" % (i + 1)].port for i in range(len(self.engines))]
        return ports.index(int(port))

    def await_failover(self, new, sentinels=None):
        """Waits until these Sentinels (None: a majority) name engine `new` and it is a primary."""

        def is_done():
            chosen = self.sentinels if sentinels is None else sentinels
            naming = sum(self.named_by(s) == new for s in chosen)
            enough = len(self.sentinels) // 2 + 1 if sentinels is None else len(sentinels)
            return naming >= enough and self.engines[new].info("replication")["role"] == "master"

        wire.poll(is_done, "engine-%d is promoted" % (new + 1), 6 * wire.DEADLINE)
        self.primary_at = new

    def lag(self):
        """The replicas get no further writes."""
        for number in range(len(self.engines)):
            if number != self.primary_at:
                self.gates[self.primary_name].stall(source="engine-%d" % (number + 1))

    def failover(self, with_lag=False):
        """Kills the primary; Sentinel promotes the replica, without the last writes if it lags."""
        old, new = self.primary_at, 1 - self.primary_at
        self.engines[old].end()
        self.await_failover(new, self.sentinels)
        if with_lag:
            self.gates["engine-%d" % (old + 1)].heal()
        return old

    def agree(self):
        """
        All engines run, all Sentinels name the same one, and the others follow it. Which one it is may
        change: a Sentinel that was cut off may at first make the new primary a replica of the old one.
        """
        for engine in self.engines:
            if engine.process is None:
                engine.start()

        def do_agree():
            named = {self.named_by(sentinel) for sentinel in self.sentinels} or {self.primary_at}
            number = named.pop()
            if named or self.engines[number].info("replication")["role"] != "master":
                return False
            self.primary_at = number
            for other, engine in enumerate(self.engines):
                seen = engine.info("replication")
                if other == number:
                    continue
                if seen["role"] == "master":
                    engine.ask("REPLICAOF", *self.gates[self.primary_name].address)
                if seen.get("master_link_status") != "up":
                    return False
            return True

        wire.poll(do_agree, "all agree on a primary", 9 * wire.DEADLINE)

    def partition(self, side):
        """Nothing passes between `side` (names such as "node-a", "engine-1") and all others."""
        everyone = [repr(node) for node in self.nodes] + list(self.gates)
        for one in everyone:
            for other in everyone:
                if (one in side) != (other in side):
                    self._stall_link(one, other)

    def _stall_link(self, source, target):
        if target not in self.gates:
            return  # nobody connects to a node
        node = next((node for node in self.nodes if repr(node) == source), None)
        if node:
            node.to[target].stall()
        else:
            self.gates[target].stall(source=source)

    # The end.

    def heal(self):
        """Ends all faults of the network, the engine and the nodes that are stopped."""
        for gate in self.gates.values():
            if gate.stalls:
                gate.cut()  # engines and Sentinels see nothing that is out of date
        self.network.heal()
        for node in self.nodes:
            if node.is_running and node.is_paused:
                node.resume()
        self.engine.resume()

    def check(self):
        """What must be true at each moment."""
        self.observer.check()
        problems = self.keys().problems
        assert not problems, "\n".join(problems)

    @property
    def is_disturbed(self):
        """True if the machine stood still for so long that nodes may have lost the engine by it."""
        return self.stalls.longest > self.lease / 10

    def rest(self):
        """Ends all faults and clients, and waits until nothing is left but live nodes."""
        self.heal()
        self.observer.close_all()
        self.begin()
        names = [node.name for node in self.nodes if node.is_running]
        cluster_keys.await_nothing_left(self.engine.path, names,
                                        deadline=wire.DEADLINE + 4 * self.lease)  # fmt: skip
        self.check()
        self.observer.forget()
        self.stalls.forget()

    def nothing_left(self):
        """Ends the nodes in order. Then the engine has no trace of any of them."""
        self.heal()
        self.observer.close_all()
        for node in self.nodes:
            if node.is_running:
                node.stop()
        keys = self.keys()
        assert not keys.problems, "\n".join(keys.problems)
        left = keys.left([])
        assert not left, "\n".join(left)

    def close(self, checks=True):
        """Ends everything; checks how the nodes end if nothing has failed so far."""
        wrong = []
        try:
            self.stalls.stop()
            self.network.heal()
            self.observer.stop()
            for node in self.nodes:
                if node.is_running:
                    node.resume()
                    self.logs.append((node.name, node.log))
                    try:
                        if checks:
                            node.daemon.stop()
                    except AssertionError as e:
                        wrong.append(str(e))
                    finally:
                        node.daemon.kill()
            if checks:
                self.observer.check()
        finally:
            for server in self.sentinels + self.engines:
                server.stop()
            self.network.close()
        assert not wrong, "\n".join(wrong)


def lasted(since):
    """Seconds since a moment of time.monotonic."""
    return time.monotonic() - since
