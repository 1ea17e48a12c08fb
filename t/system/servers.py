"""Starts the daemon under test, and the three servers that it replaces.

Each server object knows its process, its addresses (`text`, `binary` and `jobs`, None if it has
none) and its log. `stop` ends it and checks how it ended. Readiness is read from the log or found by
connecting; no test just waits for it.
"""

import os
import random
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading

import wire

COUNTERD = os.environ.get("COUNTERD", "")
TEXT_PORT = 7531  # always bound by poolcounterd, and by counterd without arguments
ADMIN_PORT = 7532  # of counterd's admin interface, unless told otherwise


def have_counterd():
    """
    True if there is a daemon to test. Tests are skipped only if COUNTERD is unset; a missing file
    must make them fail.
    """
    return bool(COUNTERD)


given_ports = set()


def free_port(host="127.0.0.1"):
    """
    Returns a port that was free a moment ago, below the range that the kernel gives to clients;
    never the same one twice. For servers that can't choose a port themselves.
    """
    while True:
        port = random.randrange(16000, 32000)
        with socket.socket() as s:
            try:
                s.bind((host, port))
            except OSError:
                continue
        if port not in given_ports:
            given_ports.add(port)
            return port


def set_limit(name, soft, hard=None):
    """A preexec function that sets a resource limit."""
    return lambda: resource.setrlimit(name, (soft, soft if hard is None else hard))


class Process:
    """A child process whose stderr is collected by a thread."""

    def __init__(
        self,
        argv,
        cwd=None,
        env=None,
        preexec=None,
        pass_fds=(),
    ):
        self.argv = argv
        self.lines = []
        self.changed = threading.Condition()
        full_env = dict(os.environ)
        full_env.update(env or {})
        self.child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=full_env,
            preexec_fn=preexec,
            pass_fds=pass_fds,
        )
        self.pid = self.child.pid
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for raw in self.child.stderr:
            with self.changed:
                self.lines.append(raw.decode("utf-8", "replace").rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.lines.append(None)
            self.changed.notify_all()

    @property
    def log(self):
        """Its output so far."""
        with self.changed:
            return "\n".join(line for line in self.lines if line is not None)

    def wait_log(self, pattern, deadline=None):
        """Waits for a line of the log that matches. Returns the match."""

        def said():
            has_ended = not self.reader.is_alive()  # before we look: what it said last counts
            found = re.search(pattern, self.log, re.M)
            assert found or not has_ended, "ended before saying %r:\n%s" % (pattern, self.log)
            return found

        try:
            return wire.poll(said, "it says so", deadline)
        except wire.Timeout:
            raise wire.Timeout("no line %r in the log:\n%s" % (pattern, self.log)) from None

    def wait(self, deadline=None):
        """Waits for its end. Returns the exit status."""
        try:
            status = self.child.wait(wire.DEADLINE if deadline is None else deadline)
        except subprocess.TimeoutExpired:
            self.kill()
            raise wire.Timeout("still running: %s\n%s" % (self.argv, self.log)) from None
        self.reader.join(wire.DEADLINE)
        return status

    def kill(self):
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()

    def is_running(self):
        return self.child.poll() is None


def listening(address=("127.0.0.1", 0), backlog=512):
    """A listening socket to pass to a daemon: of an address, or of a path ("@" abstract)."""
    if isinstance(address, str):
        sock = socket.socket(socket.AF_UNIX)
        sock.bind("\0" + address[1:] if address.startswith("@") else address)
    else:
        sock = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    sock.listen(backlog)
    return sock


# Executes the command in argv[3:], and passes it sockets as a service manager does: the descriptors
# in argv[1] become 3, 4, ..., with the names in argv[2].
_HAND_OVER = """
import fcntl, os, sys
given = [int(fd) for fd in sys.argv[1].split(",")]
high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100 + len(given)) for fd in given]
os.closerange(3, 100 + len(given))
for number, fd in enumerate(high):
    os.dup2(fd, 3 + number)
os.closerange(3 + len(given), 100 + 3 * len(given))
os.environ["LISTEN_PID"] = str(os.getpid())
os.environ["LISTEN_FDS"] = str(len(given))
os.environ["LISTEN_FDNAMES"] = sys.argv[2]
os.execv(sys.argv[3], sys.argv[3:])
"""


def hand_over(sockets, names):
    """
    Returns the words before a command that make it inherit `sockets` by these names, and the descriptors that Popen must
    pass on.
    """
    fds = [sock.fileno() for sock in sockets]
    return [sys.executable, "-I", "-c", _HAND_OVER, ",".join(map(str, fds)), ":".join(names)], fds


class Counterd(Process):
    """
    The daemon under test, on ports of its own choice.

    With `admin` it has an admin interface, on a socket that we pass to it; `admin` is then its
    address. `inherit` has further pairs of names and listening sockets to pass.
    """

    name = "ours"

    def __init__(
        self,
        *options,
        args=(),
        preexec=None,
        env=None,
        ready=True,
        prefix=(),
        inherit=(),
        admin=False,
        program=None,
    ):
        argv = list(prefix)
        inherit, fds, made = list(inherit), (), None
        self.admin = None
        if admin:
            made = listening()
            self.admin = made.getsockname()
            inherit.append(("admin", made))
        if inherit:
            hand, fds = hand_over([sock for _, sock in inherit], [name for name, _ in inherit])
            argv += hand
        argv.append(program or COUNTERD)
        chosen = {
            "poolcounter.port": "0",
            "counter.port": "0",
            "counter.enable": "true",
            "admin.port": "0",
        }
        for option in options:
            key, _, value = option.partition("=")
            chosen[key.strip()] = None if value == "None" else value
        for key, value in chosen.items():
            if value is not None:
                argv += ["-o", "%s=%s" % (key, value)]
        super().__init__(argv + list(args), preexec=preexec, env=env, pass_fds=fds)
        if made:
            made.close()
        self.is_expected_to_be_gone = False  # a test that ends it sets this
        self.text = self.text6 = self.binary = self.binary6 = None
        self.text_tls = self.binary_tls = self.text_unix = self.binary_unix = None
        self.jobs = self.jobs6 = self.jobs_tls = self.jobs_unix = None
        if ready:
            self.wait_ready()

    def wait_ready(self):
        try:
            self.wait_log(r"(info: |\"message\":\")ready\b")
        except AssertionError:
            self.kill()
            raise
        for service, tls, path, host, port in re.findall(
            r"(poolcounter|counter|jobs): listening( with TLS)? on " r"(?:unix socket ([^\s;]+)|(\S+):(\d+))",
            self.log,
        ):
            kind = {"poolcounter": "text", "counter": "binary", "jobs": "jobs"}[service]
            if path:
                setattr(self, kind + "_unix", path)
                continue
            address = (host.strip("[]"), int(port))
            which = kind + ("_tls" if tls else "6" if ":" in address[0] else "")
            if getattr(self, which) is None:
                setattr(self, which, address)

    def reload(self, deadline=None):
        """Sends SIGHUP and waits for the reload. Returns the log lines of the reload."""
        with self.changed:
            seen = len(self.lines)
        self.child.send_signal(signal.SIGHUP)
        said = []

        def is_done():
            with self.changed:
                said[:] = [line for line in self.lines[seen:] if line is not None]
                assert None not in self.lines[seen:], "it ended:\n" + "\n".join(said)
            return any(re.search(r"reload: (done|nothing was changed)", line) for line in said)

        wire.poll(is_done, "the reload is done", deadline)
        return "\n".join(said)

    def text_client(self, **kwargs):
        return wire.TextClient(self.text or self.text6, **kwargs)

    def binary_client(self, **kwargs):
        return wire.BinaryClient(self.binary or self.binary6, **kwargs)

    def job_client(self, **kwargs):
        return wire.JobClient(self.jobs or self.jobs6, **kwargs)

    def check_log(self):
        assert "Sanitizer" not in self.log and "runtime error" not in self.log, self.log

    def end_with(self, number):
        """Sends a signal and returns the exit status."""
        self.is_expected_to_be_gone = True
        self.child.send_signal(number)
        return self.wait()

    def stop(self, status=0):
        """Sends SIGTERM. The daemon must exit in order, without a sanitizer's report."""
        if self.child.poll() is not None:
            raise AssertionError("it had ended with %d:\n%s" % (self.child.returncode, self.log[-4000:]))
        self.child.send_signal(signal.SIGTERM)
        got = self.wait()
        self.check_log()
        assert got == status, "exit status %d:\n%s" % (got, self.log[-4000:])

    def cpu_seconds(self):
        """The processor time that it has used, user and system."""
        with open("/proc/%d/stat" % self.pid) as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_kib(self):
        with open("/proc/%d/status" % self.pid) as f:
            return int(re.search(r"^VmRSS:\s*(\d+)", f.read(), re.M)[1])

    def descriptors(self):
        return len(os.listdir("/proc/%d/fd" % self.pid))


class Peer(Process):
    """One of the servers that the daemon replaces."""

    program = None
    text = binary = jobs = None

    @classmethod
    def is_installed(cls):
        return os.access(cls.program, os.X_OK)

    def stop(self):
        self.kill()


class Poolcounterd(Peer):
    """Debian's poolcounterd. It always binds port 7531, so each gets a loopback address."""

    name, program = "poolcounterd", "/usr/bin/poolcounterd"
    _next_host = [os.getpid() % 200 * 250]

    def __init__(self):
        number = self._next_host[0] = self._next_host[0] + 1
        host = "127.77.%d.%d" % (number // 250 % 250, number % 250 + 1)
        super().__init__([self.program, "-l", host])
        self.text = (host, TEXT_PORT)
        wait_listening(self, self.text)


class Yrmcdsd(Peer):
    """
    Debian's yrmcdsd with its counter extension, on ports of its own. On a busy machine a worker
    sometimes spins from the start; then we start another yrmcdsd.
    """

    name, program = "yrmcds", "/usr/sbin/yrmcdsd"

    def __init__(self, stats_interval=86400, max_connections=0):
        self.folder = tempfile.mkdtemp(prefix="yrmcds-")
        port = free_port()
        config = os.path.join(self.folder, "yrmcds.conf")
        user = "root" if os.geteuid() == 0 else ""
        with open(config, "w") as f:
            if user:
                f.write("user = root\ngroup = root\n")
            f.write('virtual_ip = 127.0.0.1\ntemp_dir = "%s"\n' % self.folder)
            f.write("port = %d\nrepl_port = %d\n" % (free_port(), free_port()))
            f.write("buckets = 10000\nworkers = 2\ncounter.buckets = 10000\n")
            f.write("counter.enable = true\ncounter.port = %d\n" % port)
            f.write("counter.stat_interval = %d\n" % int(stats_interval))
            f.write("counter.max_connections = %d\n" % int(max_connections))
        self.binary = ("127.0.0.1", port)
        for _ in range(20):
            super().__init__([self.program, "-f", config])
            wait_listening(self, self.binary)
            try:
                await_idle(self, 4)
                return
            except wire.Timeout:
                super().kill()
        raise AssertionError("yrmcdsd spins at every start")

    def kill(self):
        super().kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Beanstalkd(Peer):
    """Debian's beanstalkd, on a port of its own."""

    name, program = "beanstalkd", "/usr/bin/beanstalkd"

    def __init__(self, max_job_size=1 << 20):
        self.jobs = ("127.0.0.1", free_port())
        host, port = self.jobs
        super().__init__([self.program, "-l", host, "-p", str(port), "-z", str(max_job_size)])
        wait_listening(self, self.jobs)


# What linux/inet_diag.h has: the header of a message, a request, and the begin of an answer.
_MESSAGE = struct.Struct("=IHHII")
_ASKED = struct.Struct("=B3xH46xII")
_SOCKET = struct.Struct("=BBxx2s2x16s32xI")
_TCP_STATES = {1: "ESTABLISHED", 8: "CLOSE-WAIT", 10: "LISTEN"}
_ASK = sum(1 << state for state in _TCP_STATES)


def _sockets(addresses):
    """
    The kernel's TCP sockets of a server's addresses: state and number of unread bytes. Asked over
    netlink, because tests ask after each request: ss would be a process each time, and
    /proc/net/tcp also lists the many sockets in TIME_WAIT.
    """
    wanted = {(port.to_bytes(2, "big"), any_or_host) for host, port in addresses
              for any_or_host in (host, "0.0.0.0", "::")}  # fmt: skip
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as asker:  # NETLINK_SOCK_DIAG
        asked = _ASKED.pack(socket.AF_INET, 0, _ASK, 0)
        # 18: TCPDIAG_GETSOCK, of both families; 0x301: a request, for all there are
        asker.send(_MESSAGE.pack(_MESSAGE.size + len(asked), 18, 0x301, 0, 0) + asked)
        while True:
            data = asker.recv(1 << 16)
            while data:
                size, kind = _MESSAGE.unpack_from(data)[:2]
                if kind == 3:  # NLMSG_DONE
                    return
                if kind == 2:  # NLMSG_ERROR
                    raise OSError("the kernel does not list its sockets")
                family, state, port, source, unread = _SOCKET.unpack_from(data, _MESSAGE.size)
                local = socket.inet_ntop(family, source[: 4 if family == socket.AF_INET else 16])
                if (port, local.replace("::ffff:", "")) in wanted:
                    yield _TCP_STATES[state], unread
                data = data[(size + 3) & ~3 :]


def wait_listening(process, address):
    """
    Waits until a process listens at `address`, without connecting: yrmcdsd never notices the end of
    a connection that was closed before it was accepted.
    """

    def listens():
        if not process.is_running():
            raise AssertionError("%s ended at once:\n%s" % (process.argv, process.log))
        return any(state == "LISTEN" for state, _ in _sockets([address]))

    try:
        wire.poll(listens, "%s listens" % process.argv[0])
    except AssertionError:
        process.kill()
        raise


# --- waiting until a server has handled all requests ---------------------------------------------


def _unread_by_server(addresses):
    """Bytes that the kernel holds for the server, from clients to any of `addresses`."""
    # For a listener this counts connections to accept. CLOSE-WAIT is an end not yet noticed.
    return sum(unread + (state == "CLOSE-WAIT") for state, unread in _sockets(addresses))


def _thread_states(pid):
    """
    The states of the threads that serve: ours are named; a sanitizer's own thread wakes up at
    times.
    """
    states = []
    folder = "/proc/%d/task" % pid
    for task in os.listdir(folder):
        with open("%s/%s/status" % (folder, task)) as f:
            text = f.read()
        name = re.search(r"^Name:\s+(.*)", text, re.M).group(1)
        state = re.search(r"^State:\s+(\S)", text, re.M).group(1)
        switches = re.findall(r"ctxt_switches:\s+(\d+)", text)
        states.append((task, state, tuple(switches), name))
    workers = [state for state in states if state[3].startswith(("worker ", "job store"))]
    return sorted(workers or states)


def await_idle(process, deadline=None, is_read=lambda: True):
    """
    Waits until the server has read everything sent to it and sleeps: two checks find all its
    threads idle, with no context switch between. Its answers are then on their way. `is_read`
    knows of unix sockets.
    """
    seen = {}

    def is_idle():
        tls = [getattr(process, kind + "_tls", None) for kind in ("text", "binary", "jobs")]
        addresses = [a for a in (process.text, process.binary, process.jobs, *tls) if a is not None]
        try:
            seen["before"] = _thread_states(process.pid)
            if any(state[1] not in "S" for state in seen["before"]):
                return not process.is_running() or seen["before"][0][1] == "Z"
            seen["unread"] = _unread_by_server(addresses)
            if seen["unread"] or not is_read():
                return False
            seen["after"] = _thread_states(process.pid)
            return seen["after"] == seen["before"]
        except (FileNotFoundError, ProcessLookupError):
            return not process.is_running()  # it has ended, or a thread has

    try:
        wire.poll(is_idle, "the server has done all it was asked", deadline)
    except wire.Timeout as e:
        raise wire.Timeout("%s; %s" % (e, seen)) from None
