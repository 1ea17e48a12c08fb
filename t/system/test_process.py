"""The daemon as a process: its command line, exit statuses, signals, listeners and privileges."""

import os
import re
import resource
import signal
import socket
import stat
import subprocess
import urllib.request

import tap
import pytest

import servers
import wire

pytestmark = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")


def run(*args, preexec=None):
    """Runs the daemon to its end. Returns (status, stdout, stderr)."""
    done = subprocess.run(
        [servers.COUNTERD, "-o", "admin.port=0", *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=wire.DEADLINE,
        preexec_fn=preexec,
        check=False,
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    assert "Sanitizer" not in err and "runtime error" not in err, err
    return done.returncode, out, err


# --- the command line ------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["-h", "-V", "-t"])
def test_output_that_cannot_be_written_is_an_error(flag):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [servers.COUNTERD, flag],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=wire.DEADLINE,
            check=False,
        )
    assert done.returncode == 2
    assert b"No space left on device" in done.stderr


# --- listening -------------------------------------------------------------------------------


@pytest.fixture
def syslog(tmp_path):
    """
    Returns a function that listens as syslog does and returns the socket; the words before a
    command that make it find that socket as /dev/log; and the socket's path.
    """
    folder = tmp_path / "dev"
    folder.mkdir()
    prefix = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /dev && exec "$@"', str(folder)]
    try:
        for name, minor in (("null", 3), ("random", 8), ("urandom", 9)):
            os.mknod(folder / name, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
        subprocess.run([*prefix, "true"], stderr=subprocess.DEVNULL, check=True)
        subprocess.run([*prefix, "cat", "/dev/null"], stderr=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a /dev of its own needs root, and a machine that lets root have one")

    def listen():
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sock.settimeout(wire.DEADLINE)
        (folder / "log").unlink(missing_ok=True)
        sock.bind(str(folder / "log"))
        return sock

    return listen, prefix, str(folder / "log")


def fill(path):
    """Sends lines to syslog until it accepts no more. Returns how many it accepted."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.connect(path)
        for taken in range(1 << 20):
            try:
                sock.send(b"filler")
            except BlockingIOError:
                return taken
    raise AssertionError("syslog takes without end")


def lost_lines(daemon):
    with urllib.request.urlopen("http://%s:%d/metrics" % daemon.admin, timeout=wire.DEADLINE) as page:
        found = re.search(r'^counterd_log_lines_dropped_total\{reason="lost"\} (\d+)$', page.read().decode(), re.M)
        return int(found.group(1))


def test_syslog_hears_how_many_lines_it_did_not_take(syslog, start):
    """While it is stuck it holds nobody up, and once it is started again it gets lines."""
    listen, prefix, path = syslog
    address = ("127.0.0.1", servers.free_port())
    options = ("log.output=syslog", "poolcounter.port=%d" % address[1])
    with listen() as reader:
        fillers = fill(path)
        daemon = start(*options, ready=False, prefix=prefix, admin=True)
        servers.wait_listening(daemon, address)
        with wire.TextClient(address) as client:
            assert client.ask("RELEASE") == "NOT_LOCKED"
        wire.poll(lambda: lost_lines(daemon) > 1, "lines are lost")
        assert [reader.recv(4096) for _ in range(fillers)] == [b"filler"] * fillers
        head = r"<%%d>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d counterd\[%d\]: " % daemon.pid
        notice = head % 28 + r"\d+ lines were lost because syslog did not take them"
        while not re.fullmatch(notice, reader.recv(4096).decode()):
            pass
    with listen() as reader:
        reader.settimeout(0.1)

        def hears():
            daemon.child.send_signal(signal.SIGUSR2)
            try:
                return b"stats: " in reader.recv(4096)
            except TimeoutError:
                return False

        wire.poll(hears, "a line for the syslog that was started again")


def test_without_arguments_it_is_poolcounterd():
    for host in ("127.0.0.1", "0.0.0.0"):
        for port in (servers.TEXT_PORT, servers.ADMIN_PORT):
            with socket.socket() as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    s.bind((host, port))
                except OSError:
                    pytest.skip("port %d is in use" % port)
    # /etc/counter.conf would change the daemon's settings.
    if os.path.exists("/etc/counter.conf"):
        pytest.skip("/etc/counter.conf exists")
    daemon = servers.Process([servers.COUNTERD])
    try:
        daemon.wait_log(r" info: ready\b")
        with wire.TextClient(("127.0.0.1", servers.TEXT_PORT)) as client:
            assert client.ask("ACQ4ME k 1 2 0") == "LOCKED"
            assert client.ask("RELEASE k") == "RELEASED"
        if "[::1]:%d" % servers.TEXT_PORT in daemon.log:
            with wire.TextClient(("::1", servers.TEXT_PORT)) as client:
                assert client.ask("RELEASE k") == "NOT_LOCKED"
        assert "counter: listening" not in daemon.log.replace("poolcounter: listening", "")
        daemon.child.send_signal(signal.SIGTERM)
        assert daemon.wait() == 0
    finally:
        daemon.kill()


def test_connections_are_kept_alive(start):
    """Keepalive is on for accepted connections: the server's side has a timer."""
    daemon = start()
    with daemon.text_client() as client, daemon.binary_client() as binary:
        client.ask("RELEASE")
        binary.noop()
        for one in (client, binary):
            port = one.sock.getpeername()[1]
            out = subprocess.run(
                ["ss", "-Htno", "sport = :%d" % port],
                capture_output=True,
                timeout=wire.DEADLINE,
                check=False,
            ).stdout.decode()
            if not out:
                pytest.skip("ss shows nothing")
            assert "timer:(keepalive" in out, out


# --- the process -----------------------------------------------------------------------------


def test_a_hangup_does_not_disturb_the_end(start):
    # The caller of the tests may ignore SIGHUP, and children inherit that.
    daemon = start("counter.threads=2", preexec=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))
    with daemon.text_client() as client:
        assert client.ask("ACQ4ME k 1 9 60") == "LOCKED"
        daemon.is_expected_to_be_gone = True
        daemon.child.send_signal(signal.SIGTERM)
        while daemon.child.poll() is None:
            daemon.child.send_signal(signal.SIGHUP)
        assert daemon.wait() == 0
        client.wait_closed()


def test_a_pid_file_is_not_written_through_a_link(tmp_path):
    path, target = tmp_path / "counterd.pid", tmp_path / "target"
    path.symlink_to(target)
    status, _, err = run("-o", "poolcounter.port=0", "-o", "pid_file=%s" % path)
    assert status == 2
    assert "%s: is a symbolic link" % path in err
    assert not target.exists()


# Executes the daemon in a mount namespace whose users and groups are two more.
WITH_GROUPS = """#!/bin/sh
exec unshare -m sh -c 'mount --bind {0}/passwd /etc/passwd && mount --bind {0}/group /etc/group &&
    exec "$0" "$@"' {1} "$@"
"""


def test_the_user_keeps_its_other_groups(start, monkeypatch, tmp_path):
    for name, more in (
        ("passwd", "counted:x:54321:54321::/nonexistent:/bin/sh\n"),
        ("group", "counted:x:54321:\nkeys:x:54322:counted\n"),
    ):
        with open("/etc/" + name) as f:
            (tmp_path / name).write_text(f.read() + more)
    program = tmp_path / "run"
    program.write_text(WITH_GROUPS.format(tmp_path, servers.COUNTERD))
    program.chmod(0o755)
    if subprocess.run([str(program), "-V"], capture_output=True, check=False).returncode != 0:
        pytest.skip("only root can make a mount namespace")
    monkeypatch.setattr(servers, "COUNTERD", str(program))
    daemon = start("user=counted")
    assert daemon.status_field("Uid").split() == ["54321"] * 4
    assert daemon.status_field("Gid").split() == ["54321"] * 4
    assert daemon.status_field("Groups").split() == ["54321", "54322"]


def test_another_user_than_one_may_become_is_named():
    def become_nobody():
        os.setgid(65534)
        os.setuid(65534)

    preexec = become_nobody if os.geteuid() == 0 else None
    try:
        status, _, err = run("-o", "poolcounter.port=0", "-o", "user=root", preexec=preexec)
    except PermissionError:
        pytest.skip("not everybody may run %s" % servers.COUNTERD)
    assert status == 2
    assert 'user "root"' in err and "start as root, or as that user" in err


def test_the_descriptor_limit_is_raised_to_what_is_allowed(start):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < 512:
        pytest.skip("the hard limit is low already")
    daemon = start(preexec=servers.set_limit(resource.RLIMIT_NOFILE, 256, hard))
    with open("/proc/%d/limits" % daemon.pid) as f:
        line = next(row for row in f if row.startswith("Max open files"))
    soft_now, hard_now = line.split()[3:5]
    assert soft_now == hard_now


def test_a_closed_stdin_and_stdout_do_no_harm(start):
    def close_both():
        os.close(0)
        os.close(1)

    daemon = start(preexec=close_both)
    for fd in (0, 1):
        assert os.readlink("/proc/%d/fd/%d" % (daemon.pid, fd)) == "/dev/null"
    with daemon.text_client() as client, daemon.binary_client() as binary:
        assert client.ask("ACQ4ME k 1 2 0") == "LOCKED"
        assert binary.get(b"k") == 1


if __name__ == "__main__":
    tap.main(__file__)
