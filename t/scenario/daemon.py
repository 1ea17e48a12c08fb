"""
The real daemon as a place for stories: it starts with the story's options, and steps of a story change its
configuration file, send signals, and look at its log and its HTTP interface (README.md, "The daemon itself").

A mode of it (MODES) says over what clients connect, or what happens between steps. `calls` is another program: the
daemon whose system calls are interrupted, not ready, or move one byte (calls.c). With `clock` its monotonic clock passes
a power of two meanwhile, in a time namespace, which needs root. With `service` the kernel kills it for a system call
that the systemd unit does not allow.
"""

import os
import pwd
import random
import re
import resource
import shutil
import signal
import ssl
import stat
import subprocess
import sys
import tempfile
import time

import backends
import certificates
import confined
import http_client
import servers
import wire
from story import BadScript, Failed, decode, substitute

STEPS = (
    *("file", "write", "remove", "start", "ends", "reload", "upgrade", "signal", "exits", "said", "unsaid", "http"),
    *("program", "chmod", "mode"),
)
MODES = ("tcp", "unix", "tls", "store", "reload", "upgrade", "wrong", "calls", "clock", "service")
SERVICE = os.path.join(os.path.dirname(__file__), "..", "..", "conf", "systemd", "counterd.service")
CALLS = os.path.join(os.environ.get("TOP_BUILDDIR", "."), "t", "scenario", "calls")

# What a new program does in a part of an upgrade that must fail: it ends, flips a bit of the state, or has a wrong option.
ENDS = ("exit 0", "exit 3", "kill -ABRT \\$\\$")
OTHER = "echo counterd-upgrade rehearse 9.9 1 2 3 4; exit 0"
FLIPS = (
    '/usr/bin/python3 -Ic \'import os; fd = int(os.environ["COUNTERD_UPGRADE"].split()[1]); '
    "at = 24 + {0} % (os.fstat(fd).st_size - 24); os.pwrite(fd, bytes([os.pread(fd, 1, at)[0] ^ {1}]), at)'"
)
IS_WRONG = 'set -- "\$@" -o new.option=1'
WRONG = {"check": (*ENDS, IS_WRONG), "rehearse": (*ENDS, OTHER, FLIPS, IS_WRONG), "take": (IS_WRONG,)}

# In ns: milliseconds in 31 and 32 bits, a double, stored ages of connections and holdings, and seconds in 31 bits.
EDGES = [2**31 * 10**6, 2**32 * 10**6, 2**53, 2**56, 2**58, 2**31 * 10**9]
CLOCKS = {"monotonic": time.CLOCK_MONOTONIC, "boottime": time.CLOCK_BOOTTIME}  # of timers, and of the daemon

# Executes the command in argv[2:] in a time namespace whose clocks are ahead as argv[1] says.
AHEAD = """
import ctypes, os, sys
libc, new_time = ctypes.CDLL(None), 0x80
if libc.unshare(new_time) != 0:
    sys.exit(1)
with open("/proc/self/timens_offsets", "w") as f:
    f.write(sys.argv[1])
if libc.setns(os.open("/proc/self/ns/time_for_children", os.O_RDONLY), new_time) != 0:
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


def ahead(ns):
    """The words before a command that make its monotonic clocks begin at `ns`."""
    offsets = (
        "%s %d %d\n" % (name, *divmod(int(ns) - time.clock_gettime_ns(clock), 10**9))
        for name, clock in CLOCKS.items()
    )
    return [sys.executable, "-I", "-c", AHEAD, "".join(offsets)]


CAN_UNSHARE = subprocess.run([*ahead(2**53), "/bin/true"], stderr=subprocess.DEVNULL, check=False).returncode == 0

# The daemon's names for the settings of a story.
OPTIONS = {
    "stats_interval": ["counter.stats_interval"],
    "max_locks": ["poolcounter.max_locks"],
    "max_line": ["poolcounter.max_line"],
    "request_timeout": ["limits.request_timeout"],
    "write_timeout": ["limits.write_timeout"],
    "max_connections": ["counter.max_connections", "poolcounter.max_connections"],
    "operators": ["pools.operators"],
    "suppliers": ["pools.suppliers"],
    "pools_max": ["pools.max"],
    "pools_max_members": ["pools.max_members"],
    "pools_max_watchers": ["pools.max_watchers"],
    "pools_max_taken": ["pools.max_taken"],
    "max_job_size": ["jobs.max_job_size"],
    "jobs_memory": ["jobs.memory_limit"],
    "tube_defaults": ["jobs.tube_defaults"],
}


def is_own(story):
    """True if it does with the daemon what its operator does."""
    return any(step.line.split()[0] in STEPS or " over " in step.line for step in story.steps)


def bears(story, mode):
    """True if a story can be played in a mode."""
    if {mode, "real-" + mode} & story.cannot or "ours" not in story.servers:
        return False
    if os.geteuid() and (story.user or any(option.startswith("user=") for option in story.options)):
        return False
    if mode == "service":
        changes = story.user or story.limits or any(option.startswith("user=") for option in story.options)
        changes = changes or any(step.line.startswith("program") for step in story.steps)
        return is_own(story) and not changes and not wire.SLOW and confined.works()
    if is_own(story):
        return mode == "tcp"
    if mode == "clock":
        return CAN_UNSHARE
    if mode == "store":
        return story.file.startswith("jobs-") and "jobs_memory" not in story.settings
    if mode == "unix":
        return not any(" from " in step.line for step in story.steps)
    if mode == "tls":  # has no half-closed connections
        return not any(step.line.endswith(" eof") for step in story.steps)
    return True


class Daemon(backends.SocketBackend):
    """The daemon for one story. It starts with the first step that needs it."""

    server = "ours"
    authority = None  # makes certificates; one for all stories

    def __init__(self, story, mode="tcp", seed=0):
        self.story, self.mode, self.random = story, mode, random.Random("%d %s" % (seed, story.name))
        self.transport = mode if mode in ("unix", "tls") else ""
        if mode == "calls" and bears(story, "tls"):
            self.transport = self.random.choice(("", "tls"))
        self.clients, self.contexts = {}, {"": None}
        self.folder = tempfile.mkdtemp(prefix="st-")
        os.chmod(self.folder, 0o755)
        self.config = os.path.join(self.folder, "counter.conf")
        self.text = self.seen = ""  # the file's text; the log before the last step that acts
        self.running = None
        self.others = []  # that ran when another one was started
        self.values = {"dir": self.folder, "conf": self.config, "port": str(servers.free_port())}
        self.values["user"] = pwd.getpwuid(os.geteuid()).pw_name
        if self.transport == "tls" or any(" over tls" in step.line or "$cert" in step.line for step in story.steps):
            self._certify()

    def _certify(self):
        if not Daemon.authority:
            Daemon.authority = certificates.Authority(tempfile.mkdtemp(prefix="ca-"))
            Daemon.pairs = Daemon.authority.issue("one"), Daemon.authority.issue("two")
        (cert, key), (cert2, key2) = Daemon.pairs
        self.values.update(cert=cert, key=key, cert2=cert2, key2=key2, ca=Daemon.authority.cert)
        self.contexts = {
            "": certificates.context(Daemon.authority),
            "shown": certificates.context(Daemon.authority, shown=Daemon.pairs[1]),
            "old": certificates.context(Daemon.authority, version=ssl.TLSVersion.TLSv1_2),
            "none": None,
        }

    def open(self, conn, source):
        """`over tls-shown` shows a certificate, `tls-old` speaks TLS 1.2, `tls-none` bytes that are no TLS."""
        conn.over, _, how = conn.over.partition("-")
        self.tls = self.contexts[how]
        super().open(conn, source)

    def before(self, _, number):
        """Does what the mode does before a step; called as a mode of modes.py is."""
        if number and self.mode in ("reload", "upgrade", "wrong") and not self.random.randrange(3):
            self.step(self.mode, "", {})

    def do_wrong(self, *_):
        """An upgrade to a program that cannot take over; nothing changes."""
        part = self.random.choice(list(WRONG))
        deed = self.random.choice(WRONG[part])
        deed = deed.format(self.random.getrandbits(40), 1 << self.random.randrange(8))
        self.do_program("%s: %s" % (part, deed), None)
        self.do_upgrade("fails", None)

    def explains(self, _):
        return False

    @property
    def process(self):
        if self.running is None:
            if self.mode == "wrong":
                self.do_program("", None)
            self.running = self._start(self._options())
        return self.running

    def _options(self):
        found = ["counter.threads=2", "counter.buckets=1000"]
        if not is_own(self.story):  # its clients and the machine take the time they take
            found += [
                key + "=3600" for key in ("limits.request_timeout", "limits.write_timeout", "tls.handshake_timeout")
            ]
        if self.story.file.startswith("jobs-"):
            found += ["jobs.enable=true", "jobs.port=0"]
        if self.mode in ("store", "service"):
            found.append("jobs.path=" + os.path.join(self.folder, "jobs.db"))
        if self.mode == "unix":
            found += ["%s.socket=%s/%s" % (name, self.folder, name) for name in ("poolcounter", "counter", "jobs")]
        if "cert" in self.values and not any("$cert" in step.line for step in self.story.steps):
            found += ["tls.cert=%(cert)s" % self.values, "tls.key=%(key)s" % self.values]
        settings = self.story.settings.items()
        found += ["%s=%s" % (key, value.replace(",", " ")) for name, value in settings for key in OPTIONS[name]]
        return found + [substitute(option, self.values) for option in self.story.options]

    def _start(self, options, **kwargs):
        if not servers.have_counterd():
            raise BadScript("COUNTERD names no daemon")
        inherit = []
        if "cert" in self.values:
            names = ["poolcounter", "counter"] + (["jobs"] if self.story.file.startswith("jobs-") else [])
            inherit = [(name + end, servers.listening()) for name in names for end in ("", "-tls")]
        program = os.path.join(self.folder, "counterd")
        environment = {"CALLS_SEED": str(self.random.getrandbits(32))}
        try:
            return servers.Counterd(
                *options,
                args=["-f", self.config] if os.path.exists(self.config) else [],
                program=CALLS if self.mode == "calls" else program if os.path.exists(program) else None,
                env=environment,
                prefix=self._prefix(),
                inherit=inherit,
                preexec=self._restrict if self.story.limits or self.story.user else None,
                admin=any(step.line.startswith("http ") for step in self.story.steps) and not self._has_port(),
                **kwargs,
            )
        finally:
            for _, sock in inherit:
                sock.close()

    def _prefix(self):
        """The words before its command."""
        if self.mode == "service":
            return confined.words(SERVICE)
        return ahead(self.random.choice(EDGES) - self.random.random() * 2e9) if self.mode == "clock" else ()

    def _restrict(self):
        """In the new process: sets the story's limits and user."""
        for name, value in self.story.limits.items():
            soft, _, hard = value.partition(":")
            resource.setrlimit(getattr(resource, "RLIMIT_" + name.upper()), (int(soft), int(hard or soft)))
        if self.story.user:
            os.setgroups([])
            os.setgid(self.story.user)
            os.setuid(self.story.user)

    def _has_port(self):
        """True if the story gives the admin interface a port of its own, $port."""
        return any(option.startswith("admin.port=$port") for option in self.story.options)

    # --- steps of the daemon alone

    def step(self, verb, rest, known):
        if self.running and self.running.text:
            self.values["text"] = str(self.running.text[1])
        for name, value in self.values.items():
            known.setdefault(name, value)
        getattr(self, "do_" + verb)(substitute(rest, known) if verb not in ("said", "unsaid", "http") else rest, known)

    def do_file(self, rest, _):
        self.text = self.text + decode(rest).decode("latin-1") + "\n" if rest else ""
        self._replace("counter.conf", self.text.encode("latin-1"))

    def do_write(self, rest, _):
        name, _, text = rest.partition(" ")
        self._replace(name, decode(text))

    def do_chmod(self, rest, _):
        mode, name = rest.split()
        os.chmod(os.path.join(self.folder, name), int(mode, 8))

    def do_mode(self, rest, _):
        """`mode 660 nobody t`: a file's mode and owner."""
        mode, owner, name = rest.split()
        self.process  # pylint: disable=pointless-statement  # it has started
        status = os.stat(os.path.join(self.folder, name))
        found = "%o %s" % (stat.S_IMODE(status.st_mode), pwd.getpwuid(status.st_uid).pw_name)
        if found != "%s %s" % (mode, owner):
            raise Failed("it is " + found)

    def do_remove(self, rest, _):
        os.unlink(os.path.join(self.folder, rest))

    def _replace(self, name, data):
        path = os.path.join(self.folder, name)
        with open(path + ".new", "wb") as f:
            f.write(data)
        os.replace(path + ".new", path)

    def do_start(self, rest, known):
        """Starts it with further options; in a story that starts it again, the last one has ended."""
        self.seen = ""
        self.running = self._start(self._options() + rest.split())

    def do_ends(self, rest, _):
        """`ends 2 OPTION...`: it starts with these options, and ends with this status."""
        status, *options = rest.split()
        before, self.seen = self.running, ""
        self.running = self._start(self._options() + options, ready=False)
        if before and before.is_running():
            self.others.append(before)
        self.do_exits(status, _)

    def do_program(self, rest, _):
        """
        `program rehearse: exit 3`: puts a program into the daemon's place that does this in one part of an upgrade, and
        is the daemon in the others; `program` alone: another copy of the daemon.
        """
        part, _, deed = decode(rest).decode("latin-1").partition(": ")
        path, source = os.path.join(self.folder, "counterd"), servers.COUNTERD
        if part:
            text = '#!/bin/sh\ncase "$COUNTERD_UPGRADE" in\n%s*) %s ;;\nesac\nexec %s "$@"\n'
            self._replace("script", (text % (part, deed, os.path.abspath(servers.COUNTERD))).encode())
            source = os.path.join(self.folder, "script")
        # Written by another process: what threads start here may inherit a descriptor, and the program would be busy.
        subprocess.run(["install", "-m", "755", source, path + ".new"], check=True)
        os.replace(path + ".new", path)

    def do_signal(self, rest, _):
        self.seen = self.process.log
        self.process.child.send_signal(getattr(signal, "SIG" + rest))

    def do_exits(self, rest, _):
        self.process.is_expected_to_be_gone = True
        status = self.process.wait()
        self.process.check_log()
        if status != int(rest):
            raise Failed("it ended with %d: %s" % (status, self._new()[-2000:]))

    def do_reload(self, rest, _):
        self.seen = self.process.log
        self.process.reload()

    def do_upgrade(self, rest, _):
        self.seen = self.process.log
        self.process.child.send_signal(signal.SIGUSR1)
        over = r"info: ready: |goes on as before"
        wire.poll(lambda: re.search(over, self._new()), "the upgrade is over", 60)
        if ("goes on as before" in self._new()) != (rest == "fails"):
            raise Failed(self._new())

    def _new(self):
        """The log since the last step that acts."""
        return self.process.log[len(self.seen) :].lstrip("\n")

    def do_said(self, rest, known):
        wanted = re.compile(substitute(rest, {name: re.escape(value) for name, value in known.items()}), re.M)
        try:
            wire.poll(lambda: wanted.search(self._new()) or not self.process.is_running(), "it says so")
        except wire.Timeout:
            pass
        if not wanted.search(self._new()):
            raise Failed("it said: " + self._new()[-2000:])

    def do_unsaid(self, rest, known):
        if re.search(substitute(rest, {name: re.escape(value) for name, value in known.items()}), self._new(), re.M):
            raise Failed("it said: " + self._new()[-2000:])

    def do_http(self, rest, known):
        """`http GET /healthz TOKEN: 200 PATTERN`: asks until the answer is this."""
        request, _, wanted = rest.partition(": ")
        method, path, *token = substitute(request, known).split()
        status, _, pattern = wanted.partition(" ")
        got = []

        def is_so():
            address = self.process.admin or ("127.0.0.1", int(self.values["port"]))
            host, _, rest = path[2:].partition("/") if path.startswith("//") else (None, "", path[1:])
            got[:] = http_client.ask(address, method, "/" + rest, *token, host=host)
            return got[0] == int(status) and re.search(pattern, got[1])

        try:
            wire.poll(is_so, "the answer")
        except wire.Timeout:
            raise Failed("HTTP: %d %s" % (got[0], got[1][:1000])) from None

    # --- the end

    def finish(self):
        """Ends it. It must end in order, without a sanitizer's report."""
        super().finish()
        if self.mode == "wrong" and self.running and not self.random.randrange(3):  # it ends while one hangs
            self.do_program(self.random.choice(("check", "rehearse")) + ": exec sleep 1000", None)
            self.do_signal("USR1", None)
            self.do_said("upgrade: to", {})
        for process in filter(None, [self.running, *self.others]):
            if not process.is_expected_to_be_gone:
                process.stop()
        self.kill()

    def kill(self):
        super().finish()
        for process in filter(None, [self.running, *self.others]):
            process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @classmethod
    def forget(cls):
        if cls.authority:
            shutil.rmtree(cls.authority.folder)
