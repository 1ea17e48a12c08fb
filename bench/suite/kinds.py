"""The kinds of measured servers, started by t/system/servers.py.

A server is a context manager. Inside, it listens, is pinned if its layout says so, and is idle.
Afterwards it is gone, by its process id, whatever happened. Each server gets its own port or
address and its own folder, so any number may run beside other servers of the machine.
"""

import contextlib
import os
import random
import shutil
import socket
import struct
import sys
import tempfile
import time

from machine import in_child

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "..", "t", "system"))
import servers  # pylint: disable=wrong-import-position
import wire  # pylint: disable=wrong-import-position

HOST = "127.0.0.1"


def _poll(condition, what, deadline):
    """As wire.poll, but looks often, for times that are measured."""
    until = time.monotonic() + deadline
    while not condition():
        if time.monotonic() > until:
            raise AssertionError("not within %g s: %s" % (deadline, what))
        time.sleep(0.002)


class Server:
    """The base class. A subclass defines `start`, which sets `child` and `targets`."""

    program = None  # path of the executable, from the build folder
    question = b"list-tube-used\r\n"  # answered by one that has loaded what it keeps
    log_name = None  # of the log of changes, in its folder
    part = "server"

    def __init__(self, build, layout, **options):
        self.build = build
        self.program = os.path.join(build, self.program)
        self.layout = layout
        self.options = options
        self.folder = None
        self.child = None
        self.targets = {}  # family of protocols ("text", "binary", "any", ...) -> address

    def target(self, family):
        return self.targets.get(family) or self.targets["any"]

    def addresses(self, family):
        """The addresses that clients use in turn."""
        return [self.target(family)]

    @property
    def parts(self):
        """Pairs of what a process is, and its id."""
        return [(self.part, self.child.pid)]

    @property
    def keeps(self):
        """How it keeps jobs on disk; None: it does not."""
        return self.options.get("keeps")

    @property
    def _how(self):
        return {"preexec": in_child(self.layout.server_cpus)}

    def _disk(self):
        """A folder on the disk of the build; the usual one for temporary files may be in memory."""
        if self.keeps is None:
            return None
        folder = os.path.join(self.build, "bench", "disk")
        os.makedirs(folder, exist_ok=True)
        return folder

    def _has_loaded(self):
        host, port = self.target("beanstalk").rsplit(":", 1)
        try:
            with socket.create_connection((host, int(port)), wire.DEADLINE) as s:
                s.sendall(self.question)
                return s.recv(100)[:1] not in (b"", b"-")
        except ConnectionError:
            return False

    def restart(self):
        """Kills it and starts it again. Returns the seconds until it answers about its jobs."""
        self.child.kill()
        begun = time.monotonic()
        self.start()
        _poll(self._has_loaded, "%s has loaded its jobs" % self.program, 120)
        return time.monotonic() - begun

    def log_bytes(self):
        """The size of its log of changes; None: it has none."""
        if self.keeps is None or not self.log_name:
            return None
        path = os.path.join(self.folder, self.log_name)
        return os.path.getsize(path) if os.path.exists(path) else 0

    def __enter__(self):
        assert os.access(self.program, os.X_OK), "not installed: %s" % self.program
        self.folder = tempfile.mkdtemp(prefix="counterd-bench-", dir=self._disk())
        with contextlib.ExitStack() as stack:
            stack.push(self.__exit__)
            # A worker of yrmcdsd sometimes spins from the start; then we start another yrmcdsd.
            for _ in range(10):
                self.start()
                with contextlib.suppress(wire.Timeout):
                    servers.await_idle(self.child, 2)
                    stack.pop_all()
                    return self
                self.child.kill()
            raise AssertionError("%s spins at every start" % self.program)

    def __exit__(self, *exception):
        if self.child:
            self.child.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Counterd(Server):
    """counterd, on ports that it chooses. Options: tls (paths of certificate and key); set: options
    of the daemon; keeps: jobs.sync."""

    program = "counterd"
    log_name = "jobs.db-wal"

    def start(self):
        said = {
            "poolcounter.listen": HOST,
            "counter.listen": HOST,
            "counter.threads": self.layout.workers,
            "counter.memory_limit": "4G",
        }
        if "tls" in self.options:
            said["tls.cert"], said["tls.key"] = self.options["tls"]
            # The plain ports stay open too.
            said["poolcounter.tls_port"] = servers.free_port()
            said["counter.tls_port"] = servers.free_port()
        said.update(self.options.get("set", {}))
        if self.keeps is not None:
            said.update({"jobs.path": self.folder + "/jobs.db", "jobs.sync": self.keeps})
        options = ["%s=%s" % pair for pair in said.items()]
        self.child = servers.Counterd(*options, program=self.program, **self._how)
        families = {"text": "text", "binary": "binary", "beanstalk": "jobs", "jobs": "jobs"}
        for family, name in families.items():
            for end in "", "_tls":
                address = getattr(self.child, name + end)
                if address:
                    self.targets[family + end.replace("_", "+")] = "%s:%d" % address


class Floor(Server):
    """The bare server. Options: mode."""

    program = "bench/floor"

    def start(self):
        self.child = servers.Peer([self.program, self.options["mode"]], **self._how)
        self.targets["any"] = self.child.wait_log(r"listening on (\S+)$").group(1)


class Peer(Server):
    """A server that binds a given address; a subclass has `command`, without the program."""

    address = None

    def choose(self):
        return HOST, servers.free_port()

    def start(self):
        self.address = self.choose()
        self.targets["any"] = "%s:%d" % self.address
        argv = [self.program, *self.command(*self.address)]
        self.child = servers.Peer(argv, cwd=self.folder, **self._how)
        servers.wait_listening(self.child, self.address)


class Poolcounterd(Peer):
    """It always binds port 7531, so each gets its own loopback address."""

    program = "/usr/bin/poolcounterd"

    def choose(self):
        return "127.77.%d.%d" % (random.randrange(256), random.randrange(1, 255)), servers.TEXT_PORT

    def command(self, host, port):
        return ["-l", host]


class Yrmcds(Peer):
    """Options: workers (default: the layout's)."""

    program = "/usr/sbin/yrmcdsd"

    def command(self, host, port):
        user = "user = root\ngroup = root\n" if os.geteuid() == 0 else ""
        path = os.path.join(self.folder, "yrmcds.conf")
        with open(path, "w") as f:
            f.write(user)
            f.write('virtual_ip = %s\ntemp_dir = "%s"\n' % (host, self.folder))
            f.write("port = %d\nrepl_port = %d\n" % (servers.free_port(), servers.free_port()))
            f.write("workers = %d\n" % self.options.get("workers", self.layout.workers))
            f.write("buckets = 10000\nlog.threshold = warning\n")
            f.write("counter.enable = true\ncounter.port = %d\n" % port)
        return ["-f", path]


class Redis(Peer):
    """Without persistence, unless `keeps` (an option) is a word for appendfsync."""

    program = "/usr/bin/redis-server"
    question = b"PING\r\n"
    part = "engine"

    def command(self, host, port):
        return [
            "--port", str(port), "--bind", host, "--save", "", "--appendonly", "no" if self.keeps is None else "yes",
            "--appendfsync", self.keeps or "no", "--daemonize", "no", "--maxclients", "15000", "--tcp-backlog", "4096", "--dir", self.folder,
        ]  # fmt: skip


class Beanstalkd(Peer):
    """Without a log of its jobs, unless `keeps` (an option) is the milliseconds between syncs."""

    program = "/usr/bin/beanstalkd"

    def command(self, host, port):
        log = [] if self.keeps is None else ["-b", self.folder, "-f%d" % self.keeps]
        return ["-l", host, "-p", str(port), *log]


class Cluster:
    """
    Nodes that share all names through a Redis. Options: nodes (their number); held: units that a
    client holds while `restart` takes the engine's data away; set: options of the nodes.
    """

    LEASE = 2

    def __init__(self, build, layout, nodes=1, held=0, **options):
        self.build, self.layout, self.held = build, layout, held
        self.redis = Redis(build, layout)
        self.nodes = []
        self.count = nodes
        self.set = options.get("set", {})
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.redis)
            for number in range(self.count):
                said = {"cluster.engine": "redis://" + self.redis.target("any"), "cluster.strict": "*",
                        "cluster.node": "node-%d" % number, "cluster.lease": self.LEASE}  # fmt: skip
                node = Counterd(self.build, self.layout, set=dict(said, **self.set))
                self.nodes.append(stack.enter_context(node))
            wire.poll(self._is_up, "all nodes are live, and grace is over")
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *exception):
        self.stack.close()

    def _is_up(self):
        with self._redis() as ask:
            return (ask("HLEN {counterd}:node") == b":%d" % self.count
                    and ask("HEXISTS {counterd}:meta grace") == b":0")  # fmt: skip

    @contextlib.contextmanager
    def _redis(self):
        """A function that sends a line to Redis and returns the one that answers it."""
        host, port = self.redis.address
        with socket.create_connection((host, port), wire.DEADLINE) as s, s.makefile("rb") as lines:

            def ask(line):
                s.sendall(line.encode() + b"\r\n")
                return lines.readline().rstrip()

            yield ask

    def addresses(self, family):
        return [node.target(family) for node in self.nodes]

    @property
    def parts(self):
        return self.redis.parts + [("nodes", node.child.pid) for node in self.nodes]

    @staticmethod
    def log_bytes():
        return None

    def restart(self):
        """
        A client holds many names; the engine loses its data and its connections. Returns the seconds
        until it knows all units again.
        """
        host, port = self.nodes[0].target("binary").rsplit(":", 1)
        with socket.create_connection((host, int(port)), wire.DEADLINE) as client, self._redis() as ask:
            self._hold(client)

            def is_told():
                return ask("HLEN {counterd}:units") == b":%d" % self.held

            wire.poll(is_told, "the engine has all units")
            begun = time.monotonic()
            ask("FLUSHALL")
            for kind in "pubsub", "normal":
                ask("CLIENT KILL TYPE %s SKIPME yes" % kind)
            _poll(is_told, "the engine has been told all units again", 60)
            return time.monotonic() - begun

    def _hold(self, client):
        """Acquires a unit of each of many names, some hundred at a time."""
        for first in range(0, self.held, 500):
            names = [b"recovery.%08d" % n for n in range(first, min(first + 500, self.held))]
            client.sendall(b"".join(
                struct.pack(">BBBBI4sIIH", 0x90, 2, 0, 0, 10 + len(name), b"", 1, 1, len(name)) + name
                for name in names
            ))  # fmt: skip
            missing = len(names) * (12 + 4)
            while missing > 0:
                data = client.recv(missing)
                if not data:
                    raise AssertionError("the node closed amid acquisitions")
                missing -= len(data)


KINDS = {
    "cluster": Cluster,
    "counterd": Counterd,
    "floor": Floor,
    "poolcounterd": Poolcounterd,
    "yrmcds": Yrmcds,
    "redis": Redis,
    "beanstalkd": Beanstalkd,
}
