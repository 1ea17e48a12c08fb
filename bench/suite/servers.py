"""Starts the measured servers, and ends them.

A server is a context manager. Inside, it listens, is pinned if its layout says so, and is idle.
Afterwards it is gone, by its process id, whatever happened. Each server gets its own port or
address and its own folder, so any number may run beside other servers of the machine. We poll for
readiness and never just wait.
"""

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

from child import bound, cpu_ns

DEADLINE = 15.0  # seconds for a server to start or to end
POLL = 0.002
HOST = "127.0.0.1"
LISTENS = "0A"  # a socket's state in /proc/net/tcp


class Trouble(Exception):
    """A server or a tool failed; the message says how."""


def _poll(condition, what, deadline=DEADLINE):
    until = time.monotonic() + deadline
    while True:
        got = condition()
        if got:
            return got
        if time.monotonic() > until:
            raise Trouble("not within %g s: %s" % (deadline, what))
        time.sleep(POLL)


def _free_port(host=HOST):
    """A port that was free a moment ago, below the range that the kernel gives to clients."""
    while True:
        port = random.randrange(16000, 32000)
        with socket.socket() as s:
            try:
                s.bind((host, port))
                return port
            except OSError:
                pass


def _is_listened_on(host, port):
    """
    True if a process listens at this address, or at any address. Reads the kernel's table instead
    of connecting: yrmcdsd never notices the end of a connection that it has not accepted.
    """
    packed = "%08X" % int.from_bytes(socket.inet_aton(host), "little")
    wanted = {"%s:%04X" % (address, port) for address in (packed, "0" * 8, "0" * 32)}
    for path in "/proc/net/tcp", "/proc/net/tcp6":
        with open(path) as table:
            next(table)
            for line in table:
                fields = line.split()
                if fields[3] != LISTENS:  # listening sockets come first
                    break
                if fields[1] in wanted:
                    return True
    return False


class Server:
    """The base class. A subclass defines `argv` and `is_ready`."""

    program = None  # path of the executable, from the build folder
    end_signal = signal.SIGKILL
    question = b"list-tube-used\r\n"  # answered by one that has loaded what it keeps
    log_name = None  # of the log of changes, in its folder

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
    def pid(self):
        return self.child.pid

    @property
    def parts(self):
        """Pairs of what a process is, and its id."""
        return [("server", self.pid)]

    @property
    def log(self):
        with open(os.path.join(self.folder, "log"), errors="replace") as f:
            return f.read()

    def _launch(self):
        argv = self.argv()
        with open(os.path.join(self.folder, "log"), "w") as log:
            self.child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **bound(self.layout.server_cpus),
            )
        _poll(self._has_come_up, "%s is ready\n%s" % (os.path.basename(argv[0]), self.log))

    def _has_come_up(self):
        if self.child.poll() is not None:
            raise Trouble("%s ended at once:\n%s" % (self.program, self.log))
        return self.is_ready()

    def is_ready(self):
        host, port = self.address
        return _is_listened_on(host, port)

    def _settle(self, patience=2.0):
        """Waits until it uses no processor time; False if it stays busy."""
        until = time.monotonic() + patience
        while time.monotonic() < until:
            before = cpu_ns(self.pid)
            time.sleep(0.02)
            if cpu_ns(self.pid) - before < 1000000:
                return True
        return False

    @property
    def keeps(self):
        """How it keeps jobs on disk; None: it does not."""
        return self.options.get("keeps")

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
            with socket.create_connection((host, int(port)), DEADLINE) as s:
                s.sendall(self.question)
                return s.recv(100)[:1] not in (b"", b"-")
        except ConnectionError:
            return False

    def restart(self):
        """Kills it and starts it again. Returns the seconds until it answers about its jobs."""
        self.child.kill()
        self.child.wait()
        begun = time.monotonic()
        self._launch()
        _poll(self._has_loaded, "%s has loaded its jobs" % self.program, 120)
        return time.monotonic() - begun

    def log_bytes(self):
        """The size of its log of changes; None: it has none."""
        if self.keeps is None or not self.log_name:
            return None
        path = os.path.join(self.folder, self.log_name)
        return os.path.getsize(path) if os.path.exists(path) else 0

    def __enter__(self):
        if not os.access(self.program, os.X_OK):
            raise Trouble("not installed: %s" % self.program)
        self.folder = tempfile.mkdtemp(prefix="counterd-bench-", dir=self._disk())
        try:
            # A worker of yrmcdsd sometimes spins from the start; then we start another yrmcdsd.
            for _ in range(10):
                self._launch()
                if self._settle():
                    return self
                self._end()
            raise Trouble("%s spins at every start" % self.program)
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def _end(self):
        if self.child is None or self.child.poll() is not None:
            return
        self.child.send_signal(self.end_signal)
        try:
            self.child.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()

    def __exit__(self, *exception):
        try:
            self._end()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


class Counterd(Server):
    """counterd, on ports that it chooses. Options: tls (paths of certificate and key); set: options
    of the daemon; keeps: jobs.sync."""

    program = "counterd"
    end_signal = signal.SIGTERM
    log_name = "jobs.db-wal"

    def argv(self):
        said = {
            "poolcounter.port": 0,
            "poolcounter.listen": HOST,
            "counter.enable": "true",
            "counter.port": 0,
            "counter.listen": HOST,
            "counter.threads": self.layout.workers,
            "counter.memory_limit": "4G",
            "admin.port": 0,
        }
        if "tls" in self.options:
            cert, key = self.options["tls"]
            said.update({"tls.cert": cert, "tls.key": key})
            # The plain ports stay open too.
            said["poolcounter.tls_port"] = _free_port()
            said["counter.tls_port"] = _free_port()
        said.update(self.options.get("set", {}))
        if self.keeps is not None:
            said.update({"jobs.path": self.folder + "/jobs.db", "jobs.sync": self.keeps})
        argv = [self.program]
        for key, value in said.items():
            argv += ["-o", "%s=%s" % (key, value)]
        return argv

    def is_ready(self):
        log = self.log
        if not re.search(r"\bready\b", log):
            return False
        families = {"poolcounter": "text", "counter": "binary", "jobs": "beanstalk"}
        for service, tls, address in re.findall(
            r"(poolcounter|counter|jobs): listening( with TLS)? on ([0-9.]+:\d+)", log
        ):
            self.targets[families[service] + ("+tls" if tls else "")] = address
            if service == "jobs":
                self.targets["jobs"] = address  # by our own verbs
        return True


class Floor(Server):
    """The bare server. Options: mode."""

    program = "bench/floor"

    def argv(self):
        return [self.program, self.options["mode"], str(self.layout.workers)]

    def is_ready(self):
        found = re.search(r"listening on (\S+)\n", self.log)
        if found:
            self.targets["any"] = found.group(1)
        return bool(found)


class Peer(Server):
    """A server that binds a given address; a subclass has `command`, without the program."""

    address = None

    def choose(self):
        return HOST, _free_port()

    def argv(self):
        self.address = self.choose()
        self.targets["any"] = "%s:%d" % self.address
        return [self.program, *self.command(*self.address)]


class Poolcounterd(Peer):
    """It always binds port 7531, so each gets its own loopback address."""

    program = "/usr/bin/poolcounterd"

    def choose(self):
        while True:
            host = "127.77.%d.%d" % (random.randrange(256), random.randrange(1, 255))
            if not _is_listened_on(host, 7531):
                return host, 7531

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
            f.write("port = %d\nrepl_port = %d\n" % (_free_port(), _free_port()))
            f.write("workers = %d\n" % self.options.get("workers", self.layout.workers))
            f.write("buckets = 10000\nlog.threshold = warning\n")
            f.write("counter.enable = true\ncounter.port = %d\n" % port)
        return ["-f", path]


class Redis(Peer):
    """Without persistence, unless `keeps` (an option) is a word for appendfsync."""

    program = "/usr/bin/redis-server"
    question = b"PING\r\n"

    @property
    def parts(self):
        return [("engine", self.pid)]

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
            _poll(self._is_up, "all nodes are live, and grace is over", DEADLINE + 3 * self.LEASE)
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
        with socket.create_connection((host, port), DEADLINE) as s, s.makefile("rb") as lines:

            def ask(line):
                s.sendall(line.encode() + b"\r\n")
                return lines.readline().rstrip()

            yield ask

    def addresses(self, family):
        return [node.target(family) for node in self.nodes]

    @property
    def parts(self):
        return [("engine", self.redis.pid)] + [("nodes", node.pid) for node in self.nodes]

    @staticmethod
    def log_bytes():
        return None

    def restart(self):
        """
        A client holds many names; the engine loses its data and its connections. Returns the seconds
        until it knows all units again.
        """
        host, port = self.nodes[0].target("binary").rsplit(":", 1)
        with socket.create_connection((host, int(port)), DEADLINE) as client, self._redis() as ask:
            self._hold(client)

            def is_told():
                return ask("HLEN {counterd}:units") == b":%d" % self.held

            _poll(is_told, "the engine has all units")
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
                    raise Trouble("the node closed amid acquisitions")
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
