"""Upgrades in place: clients notice only a pause; a program that fails changes nothing."""

import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import pytest
import tap

import certificates
import ctl
import http_client
import servers
import wire

pytestmark = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")

# A new program that does something else in one part ("check", "rehearse", "take"), and is the
# daemon in the others.
MISBEHAVING = """#!/bin/sh
case "$COUNTERD_UPGRADE" in
%(part)s*) %(deed)s ;;
esac
exec %(program)s "$@"
"""


class Running:
    """A daemon whose program and configuration file can be replaced."""

    def __init__(self, start, tmp_path, *options, settings="", args=None, **kwargs):
        self.program = str(tmp_path / "counterd")
        self.settings = str(tmp_path / "counter.conf")
        self.number = 0
        if settings is not None:
            self.write(settings)
        self.install()
        args = ["-f", self.settings] if args is None else args
        self.daemon = start(*options, program=self.program, args=args, **kwargs)
        self.pid = self.daemon.pid

    def write(self, text):
        with open(self.settings, "w") as f:
            f.write(text)

    def install(self, text=None):
        """Installs another program at the path: a script, or a new copy of the daemon."""
        self.number += 1
        fresh = "%s.%d" % (self.program, self.number)
        if text is None:
            shutil.copy(servers.COUNTERD, fresh)
        else:
            with open(fresh, "w") as f:
                f.write(text)
            os.chmod(fresh, 0o755)
        os.replace(fresh, self.program)

    def misbehave(self, part, deed):
        program = os.path.abspath(servers.COUNTERD)
        self.install(MISBEHAVING % {"part": part, "deed": deed, "program": program})

    def upgrade(self, number=signal.SIGUSR1):
        """
        Sends the signal and waits for the end of the upgrade. Returns the log lines, and True if it
        succeeded.
        """
        with self.daemon.changed:
            seen = len(self.daemon.lines)
        self.daemon.child.send_signal(number)
        said = []

        def is_over():
            with self.daemon.changed:
                assert None not in self.daemon.lines, "it ended:\n" + self.daemon.log
                said[:] = self.daemon.lines[seen:]
            return any(re.search(r"info: ready: |upgrade: counterd .* goes on as before", line) for line in said)

        wire.poll(is_over, "the upgrade is over", 60)
        said = "\n".join(said)
        return said, "goes on as before" not in said

    def succeed(self, number=signal.SIGUSR1):
        said, good = self.upgrade(number)
        assert good, said
        assert "has taken over" in said
        return said

    def fail(self):
        said, good = self.upgrade()
        assert not good, said
        return said


class Crowd:
    """Clients that hold and wait, and one amid a request."""

    def __init__(self, daemon):
        self.holder, self.waiter, self.half = (daemon.text_client() for _ in range(3))
        self.other = daemon.binary_client()
        assert self.holder.ask("ACQ4ME k 1 9 600") == "LOCKED"
        self.waiter.say("ACQ4ME k 1 9 600")
        wire.poll(lambda: self.holder.stat("waiting_workers") == 1, "one waits")
        assert self.other.acquire(5, 5, b"n") == wire.OK
        self.half.send(b"ACQ4ME ha")

    def look(self):
        """Checks that nothing has changed."""
        assert self.waiter.is_silent() and self.half.is_silent()
        assert self.holder.stat("waiting_workers") == 1
        assert self.other.get(b"n") == 5

    def finish(self):
        """Each client continues its action."""
        self.look()
        self.half.send(b"lf 1 9 600\n")
        assert self.half.line() == "LOCKED"
        assert self.other.release(5, b"n") == wire.OK
        assert self.holder.ask("RELEASE k") == "RELEASED"
        assert self.waiter.line() == "LOCKED"
        for client in vars(self).values():
            client.close()


def sockets_of(daemon):
    """Returns its sockets, as the kernel identifies them."""
    found = set()
    for fd in os.listdir("/proc/%d/fd" % daemon.pid):
        try:
            found.add(os.readlink("/proc/%d/fd/%s" % (daemon.pid, fd)))
        except OSError:
            pass
    return {name for name in found if name.startswith("socket:")}


# --- state that is kept --------------------------------------------------------------------------


# Reports when it is checked. When it takes over, waits until a client has sent something, and then
# until that would be too late.
SLOW = """#!/bin/sh
case "$COUNTERD_UPGRADE" in
check*) echo >%(files)s.checked; sleep 0.3 ;;
take*) echo >%(files)s.parked; until [ -e %(files)s.sent ]; do sleep 0.05; done; sleep 5.2 ;;
esac
exec %(program)s "$@"
"""


def test_what_came_in_time_during_the_pause_is_in_time(start, tmp_path):
    settings = "limits.request_timeout = 5\nupgrade.timeout = 60\n"
    running = Running(start, tmp_path, settings=settings)
    files = str(tmp_path / "it-is")
    running.install(SLOW % {"files": files, "program": os.path.abspath(servers.COUNTERD)})
    holder = running.daemon.text_client()
    assert holder.ask("ACQ4ME k 1 9 60") == "LOCKED"
    running.daemon.child.send_signal(signal.SIGUSR1)
    wire.poll(lambda: os.path.exists(files + ".checked"), "it was asked")
    holder.send(b"RELEA")
    wire.poll(lambda: os.path.exists(files + ".parked"), "nobody is served")
    holder.send(b"SE k\n")
    with open(files + ".sent", "w"):
        pass
    assert holder.line() == "RELEASED"
    running.daemon.wait_log("has taken over")
    holder.close()


def test_clients_are_served_while_it_rehearses(start, tmp_path):
    running = Running(start, tmp_path, settings="upgrade.timeout = 600\n")
    files = str(tmp_path / "it")
    wait = "echo >%s.rehearses; until [ -e %s.goes-on ]; do sleep 0.05; done" % (files, files)
    running.misbehave("rehearse", wait)
    holder = running.daemon.text_client()
    assert holder.ask("ACQ4ME before 1 9 60") == "LOCKED"
    running.daemon.child.send_signal(signal.SIGUSR1)
    wire.poll(lambda: os.path.exists(files + ".rehearses"), "it rehearses")
    assert holder.ask("RELEASE before") == "RELEASED"
    assert holder.ask("ACQ4ME after 1 9 60") == "LOCKED"
    other = running.daemon.text_client()
    assert other.ask("ACQ4ME after 1 9 0") == "TIMEOUT"
    assert other.ask("ACQ4ME before 1 9 0") == "LOCKED"
    with open(files + ".goes-on", "w"):
        pass
    running.daemon.wait_log("has taken over")
    assert "all threads stood still" in running.daemon.log
    # What they did meanwhile is in the state of the end.
    third = running.daemon.text_client()
    for name in ("before", "after"):
        assert third.ask("ACQ4ME %s 1 9 0" % name) == "TIMEOUT"
    for client, name in ((holder, "after"), (other, "before")):
        assert client.ask("RELEASE " + name) == "RELEASED"
    for client in (holder, other, third):
        client.close()


# --- state that is not kept ----------------------------------------------------------------------


def test_the_admin_interface_that_nobody_handed_over_stays_for_good(start, tmp_path):
    address = ("127.0.0.1", servers.free_port())
    running = Running(start, tmp_path, "admin.port=%d" % address[1], "admin.listen=127.0.0.1")
    before = sockets_of(running.daemon)
    for number in range(1, 4):
        running.succeed()
        assert before <= sockets_of(running.daemon), "its listener, too"
        status, body = http_client.ask(address, "GET", "/metrics")
        assert status == 200 and 'upgrades_total{result="done"} %d\n' % number in body


# Starts a program, and replaces its file before the program can find its own path.
REPLACED = """import os, shutil, sys
path = sys.argv[1]
fd = os.open(path, os.O_RDONLY)
shutil.copy(path, path + ".new")
os.replace(path + ".new", path)
os.execv("/proc/self/fd/%d" % fd, sys.argv[1:])
"""


def test_a_program_that_was_replaced_while_it_started_finds_the_new_one(start, tmp_path):
    running = Running(start, tmp_path, prefix=[sys.executable, "-I", "-c", REPLACED])
    assert os.readlink("/proc/%d/exe" % running.pid).endswith(" (deleted)")
    crowd = Crowd(running.daemon)
    running.succeed()
    assert os.readlink("/proc/%d/exe" % running.pid) == running.program
    crowd.finish()


# --- failures ------------------------------------------------------------------------------------


# Changes one byte of the state, so that another value is as good: the time at which it was parked,
# which follows the version and the path of the pid file.
ONE_BYTE = """%(python)s -I -c 'import os
fd = int(os.environ["COUNTERD_UPGRADE"].split()[1])
at = 24
for _ in range(2):
    at += 4 + int.from_bytes(os.pread(fd, 4, at), "little")
os.pwrite(fd, bytes([os.pread(fd, 1, at)[0] ^ 1]), at)'"""


def test_a_state_that_changed_on_its_way_changes_nothing(start, tmp_path):
    running = Running(start, tmp_path, "counter.threads=1")
    crowd = Crowd(running.daemon)
    running.misbehave("rehearse", ONE_BYTE % {"python": sys.executable})
    assert "its bytes have another sum than when it was written" in running.fail()
    crowd.finish()


def run_where(folder, place):
    """The words before a command that make it see `folder` at `place`."""
    return ["unshare", "-m", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"', folder, place]


def test_the_default_file_that_is_missing_changes_nothing_once_it_was_read(start, tmp_path):
    usage = subprocess.run([servers.COUNTERD, "-h"], capture_output=True, text=True, check=True)
    place = os.path.dirname(re.search(r"without it, (\S+) if", usage.stdout).group(1))
    prefix = run_where(str(tmp_path), place)
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no folder can be put over " + place)
    running = Running(start, tmp_path, settings=None, args=[], prefix=prefix)
    running.succeed()
    running.write("access.max_per_source = 9\n")
    running.succeed()
    os.unlink(running.settings)
    missing = "counter.conf: no such file, and one was read before: put it back, or restart"
    for _ in range(2):
        assert missing in running.fail()
        assert missing in running.daemon.reload()
    running.write("")
    assert "access.max_per_source is 0 now; it was 9" in running.daemon.reload()
    running.succeed()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_that_it_can_not_become_any_more_changes_nothing(start, tmp_path):
    running = Running(start, tmp_path)
    crowd = Crowd(running.daemon)
    may = int(running.daemon.status_field("CapEff"), 16) != 0  # true without a sandbox
    running.write("user = nobody\n")
    said, good = running.upgrade()
    assert good == may, said
    assert may or 'can\'t become user "nobody"' in said
    crowd.finish()


def test_a_manager_that_watches_hears_of_life_meanwhile(start, tmp_path):
    libraries = subprocess.run(["ldd", servers.COUNTERD], capture_output=True, check=False).stdout
    if b"libsystemd" not in libraries:
        pytest.skip("built without systemd")
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    manager.bind(str(tmp_path / "notify"))
    watched = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "900000"}
    running = Running(start, tmp_path, env=watched)
    over = tmp_path / "over"
    wait = "for i in $(seq 600); do [ -e %s ] || sleep 0.1; done" % over
    running.misbehave("rehearse", wait + "; exit 1")
    said = []  # since the upgrade began: times and messages

    def hears(what, count=1):
        """True if so many messages that begin with `what` came within 1.5 s."""
        try:
            text = manager.recv(4096)
        except BlockingIOError:
            return False
        if said or b"RELOADING" in text:
            said.append((time.monotonic(), text))
        times = [when for when, text in said if text.startswith(what)][-count:]
        return len(times) == count and times[-1] - times[0] < 1.5

    running.daemon.child.send_signal(signal.SIGUSR1)
    wire.poll(lambda: hears(b"WATCHDOG=1", 4), "it tells every 0.3 s that it lives", 60)
    over.touch()
    wire.poll(lambda: hears(b"READY=1"), "it serves again", 60)
    wire.poll(lambda: "goes on as before" in running.daemon.log, "the upgrade has failed")
    manager.close()


def test_a_state_that_may_not_be_written_changes_nothing(start, tmp_path):
    limit = servers.set_limit(resource.RLIMIT_FSIZE, 16384)
    running = Running(start, tmp_path, "counter.threads=2", preexec=limit)
    crowd = Crowd(running.daemon)
    maker = running.daemon.binary_client()
    for i in range(100):
        assert maker.acquire(1, 1, b"%03d" % i + b"n" * 250) == wire.OK
    assert "the state can't be written to memory: File too large" in running.fail()
    maker.close()
    wire.poll(lambda: crowd.other.get(b"000" + b"n" * 250) == 0, "it gave back what it had")
    crowd.finish()


def test_too_few_descriptors_for_new_settings_change_nothing(start, tmp_path):
    limit = servers.set_limit(resource.RLIMIT_NOFILE, 90)
    running = Running(start, tmp_path, settings="counter.threads = 1\n", preexec=limit)
    daemon = running.daemon
    crowd = Crowd(daemon)
    others = []
    while daemon.descriptors() < 80:
        others.append(daemon.text_client())
        assert others[-1].stat("processing_workers") == 1
    running.write("counter.threads = 8\n")
    assert "descriptors, but only 90 are allowed" in running.fail()
    crowd.look()
    running.write("counter.threads = 1\n")
    running.succeed()
    crowd.finish()
    for client in others:
        client.close()


class MemoryGroup:
    """A control group for memory, of version 1 or 2. Skips the test where none can be made."""

    def __init__(self, name):
        first = "/sys/fs/cgroup/memory"
        top = first if os.path.isdir(first) else "/sys/fs/cgroup"
        self.folder = os.path.join(top, "%s-%d" % (name, os.getpid()))
        old = top == first
        self.limit_file = "memory.limit_in_bytes" if old else "memory.max"
        self.used_file = "memory.usage_in_bytes" if old else "memory.current"
        try:
            os.mkdir(self.folder)
            with open(os.path.join(self.folder, self.limit_file)):
                pass
        except OSError as e:
            pytest.skip("no control group can be made: %s" % e)

    def enter(self):
        with open(os.path.join(self.folder, "cgroup.procs"), "w") as f:
            f.write(str(os.getpid()))

    def used(self):
        with open(os.path.join(self.folder, self.used_file)) as f:
            return int(f.read())

    def limit(self, size):
        with open(os.path.join(self.folder, self.limit_file), "w") as f:
            f.write(str(size))

    def remove(self):
        def is_gone():
            try:
                os.rmdir(self.folder)
            except OSError:
                return False
            return True

        wire.poll(is_gone, "the control group is gone")


def test_a_limit_of_memory_refuses_what_it_would_end(start, tmp_path):
    if wire.SLOW:
        pytest.skip("a sanitizer's own memory is most of it")
    group = MemoryGroup("counterd-upgrade")
    try:
        patient = "counter.threads = 1\nupgrade.timeout = 60\n"
        running = Running(start, tmp_path, settings=patient, preexec=group.enter)
        daemon = running.daemon
        crowd, maker = Crowd(daemon), daemon.binary_client()
        for i in range(0, 200000, 1000):
            body = [wire.acquire_body(1, 1, b"name-%08d" % n) for n in range(i, i + 1000)]
            maker.send(b"".join(wire.binary_request(wire.ACQUIRE, b) for b in body))
            for _ in body:
                assert maker.reply().status == wire.OK
        group.limit(group.used() * 3 // 2)
        said = running.fail()
        assert re.search(r"needs up to \d+ MiB of memory.*%s" % group.folder, said), said
        crowd.look()
        # Enough for the upgrade, but not for a copy of the process too.
        with open("/proc/%d/statm" % daemon.pid) as f:
            resident, shared = [int(n) * resource.getpagesize() for n in f.read().split()[1:3]]
        group.limit(group.used() + (resident - shared) * 5 // 2 + (8 << 20))
        running.install()
        said = running.succeed()
        assert "all threads stood still" not in said, said
        crowd.look()
        group.limit(1 << 30)
        # The child becomes the first to go, even if it is small.
        offered = "until grep -q 1000 /proc/$$/oom_score_adj; do sleep 0.1; done"
        running.misbehave("rehearse", offered + "; echo offered >&2; exit 1")
        said = running.fail()
        assert "upgrade: offered" in said, said
        running.install()
        assert "all threads stood still" in running.succeed()
        crowd.finish()
        maker.close()
        daemon.stop()
        daemon.is_expected_to_be_gone = True
    finally:
        group.remove()


# A user without other threads, so that a limit of threads is the test's alone.
LONELY_USER = 61537


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without threads")
def test_too_few_threads_for_new_settings_change_nothing(start):
    def become_limited():
        resource.setrlimit(resource.RLIMIT_NPROC, (24, 24))
        os.setgroups([])
        os.setgid(LONELY_USER)
        os.setuid(LONELY_USER)

    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        settings = "counter.threads = 2\n"
        running = Running(start, pathlib.Path(folder), settings=settings, preexec=become_limited)
        os.chmod(running.settings, 0o644)
        crowd = Crowd(running.daemon)
        running.write("counter.threads = 64\n")
        assert "can't start thread" in running.fail()
        crowd.look()
        running.write(settings)
        running.succeed()
        crowd.finish()
        running.daemon.stop()
        running.daemon.is_expected_to_be_gone = True


def name_of(pid):
    with open("/proc/%d/comm" % pid) as f:
        return f.read().strip()


def test_a_program_that_can_not_read_the_state_gives_it_back(start, tmp_path):
    path, pid_file = str(tmp_path / "text.sock"), str(tmp_path / "pid")
    settings = "counter.threads = 2\npoolcounter.socket = %s\npid_file = %s\n" % (path, pid_file)
    running = Running(start, tmp_path, settings=settings, admin=True)
    daemon = running.daemon
    crowd, before = Crowd(daemon), sockets_of(daemon)
    for _ in range(2):
        running.misbehave("take", ONE_BYTE % {"python": sys.executable})
        said = running.fail()
        assert "another sum than when it was written" in said
        assert re.search(r"counterd \S+ can't take over: counterd \S+ goes on again", said), said
        daemon.wait_log("info: ready: .*$")
        assert name_of(running.pid) == "counterd"
        assert before <= sockets_of(daemon)
        crowd.look()
        with open(pid_file) as f:
            assert f.read() == "%d\n" % running.pid
        status, body = http_client.ask(daemon.admin, "GET", "/metrics")
        assert status == 200 and 'counterd_upgrades_total{result="done"} 0' in body
    running.install()
    running.succeed()
    assert os.readlink("/proc/%d/exe" % running.pid) == running.program
    crowd.finish()
    assert wire.TextClient(path).ask("RELEASE u") == "NOT_LOCKED"


def test_the_settings_from_before_are_used_on_the_way_back(start, tmp_path):
    authority = certificates.Authority(str(tmp_path))
    settings = "counter.threads = 1\naccess.max_per_source = 77\nadmin.token = secret\n"
    settings += "pool.p.members = a, b\ntls.cert = %s\ntls.key = %s\n" % authority.issue("server")
    settings += "poolcounter.tls_port = %d\n" % servers.free_port()
    running = Running(start, tmp_path, settings=settings, admin=True)
    daemon = running.daemon
    crowd, waiting = Crowd(daemon), daemon.text_client()
    trusting = certificates.context(authority)
    secure = wire.TextClient(daemon.text_tls, tls=trusting)
    shaking = socket.create_connection(daemon.text_tls)
    assert secure.ask("ACQ4ME s 1 9 600") == "LOCKED"
    waiting.say("ACQ4ME s 1 9 600")
    # Only a newer program knows such an option, and this one fails then.
    running.misbehave("take", "echo new.option = 1 > %s" % running.settings)
    said = running.fail()
    assert re.search(r"counter\.conf:1: .*new\.option", said), said
    assert waiting.line() == "LOCKED", "TLS is lost, as in any upgrade"
    assert shaking.recv(1) == b""
    assert waiting.ask("RELEASE s") == "RELEASED"
    crowd.look()
    assert wire.TextClient(daemon.text_tls, tls=trusting).ask("RELEASE s") == "NOT_LOCKED"
    where, environment = "%s:%d" % daemon.admin, {"COUNTER_ADMIN_TOKEN": "secret"}
    status, body = http_client.ask(daemon.admin, "GET", "/api/v1/config")
    assert status == 200 and '"77"' in body
    done = ctl.run("--admin", where, "reload", env=environment)
    assert done.status != 0 and "new.option" in done.out + done.err, done
    running.write(settings)
    done = ctl.run("--admin", where, "reload", env=environment)
    assert done.status == 0, done
    running.install()
    done = ctl.run("--admin", where, "upgrade", env=environment)
    assert done.status == 0 and "has taken over from" in done.out, done
    crowd.finish()
    for client in (secure, shaking, waiting):
        client.close()


def test_the_variable_is_not_for_people(start):
    daemon = start(env={"COUNTERD_UPGRADE": "take 99"}, ready=False)
    daemon.is_expected_to_be_gone = True
    assert daemon.wait() == 2
    assert "do not set COUNTERD_UPGRADE by hand" in daemon.log


if __name__ == "__main__":
    tap.main(__file__)
