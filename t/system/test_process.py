"""The daemon as a process: its command line, exit statuses, signals, listeners and privileges."""

import contextlib
import os
import re
import signal
import socket
import stat
import subprocess

import tap
import pytest

import certificates
import http_client
import servers
import wire

TOP = os.environ.get("TOP_SRCDIR", ".")

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


def test_a_syslog_that_was_started_again_gets_lines_of_a_confined_daemon(start, tmp_path):
    folder = tmp_path / "dev"
    folder.mkdir()
    prefix = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /dev && exec "$@"', str(folder)]
    try:
        for name, minor in (("null", 3), ("random", 8), ("urandom", 9)):
            os.mknod(folder / name, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
        subprocess.run([*prefix, "cat", "/dev/null"], stderr=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a /dev of its own needs root, and a machine that lets root have one")
    daemon = None
    for wanted in (b"ready: ", b"stats: "):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            (folder / "log").unlink(missing_ok=True)
            sock.bind(str(folder / "log"))
            sock.settimeout(0.1)
            daemon = daemon or start("log.output=syslog", ready=False, prefix=prefix, admin=True)
            head = rb"<30>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d counterd\[%d\]: " % daemon.pid

            def hears(sock=sock, head=head, wanted=wanted):
                try:
                    line = sock.recv(4096)
                except TimeoutError:
                    if wanted == b"stats: ":
                        daemon.child.send_signal(signal.SIGUSR2)
                    return False
                assert re.match(rb"<\d+>" + head[4:], line), line
                return re.match(head + wanted, line)

            wire.poll(hears, "a line for the syslog")
        daemon.child.send_signal(signal.SIGUSR2)  # a line that nobody takes
        is_lost = re.compile(r'log_lines_dropped_total.reason="lost". [1-9]')
        wire.poll(lambda: is_lost.search(http_client.ask(daemon.admin, "GET", "/metrics")[1]), "it is counted")


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


def test_the_variable_of_upgrades_is_not_for_people(start):
    daemon = start(env={"COUNTERD_UPGRADE": "take 99"}, ready=False)
    daemon.is_expected_to_be_gone = True
    assert daemon.wait() == 2
    assert "do not set COUNTERD_UPGRADE by hand" in daemon.log


def test_every_reloadable_option_is_in_a_story_of_reloads(start):
    options = http_client.get(start(admin=True).admin, "/api/v1/config")["options"]
    reloadable = {o["key"] for o in options if o["reloadable"]}
    with open(os.path.join(TOP, "t", "scenario", "daemon-reload.scn"), encoding="ascii") as f:
        shown = set(re.findall(r"^file ([\w.]+) = ", f.read(), re.M))
    assert reloadable <= shown, reloadable - shown


@pytest.mark.parametrize("page", ["doc/operate.md", "debian/README.Debian"])
def test_examples_of_pages_do_not_lock_their_reader_out(start, page):
    with open(os.path.join(TOP, page), encoding="utf-8") as f:
        examples = re.findall(r"^\s+(access\.allow) = (.*)$", f.read(), re.M)
    assert examples
    for example in examples:
        daemon = start("%s=%s" % example)
        for address in filter(None, (daemon.text, daemon.text6)):
            with wire.TextClient(address) as client:
                assert client.ask("RELEASE") == "NOT_LOCKED"


def test_openssl_without_memory_costs_a_connection_at_most(start, tmp_path):
    """One allocation in some hundred is refused: the client that needs it is closed, no other notices."""
    program = os.path.join(os.environ.get("TOP_BUILDDIR", "."), "t", "scenario", "calls")
    authority, served = certificates.Authority(tmp_path), 0
    options, trusting = "tls.cert=%s tls.key=%s" % authority.issue("server"), certificates.context(authority)
    for one_in in wire.scaled((31, 97, 311, 1009), (97, 1009)):
        environment = {"CALLS_REFUSE": str(one_in), "CALLS_SEED": str(os.getpid())}
        environment["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"  # OpenSSL leaks then
        sockets = [("poolcounter-tls", servers.listening())]
        daemon = start(*options.split(), inherit=sockets, program=program, env=environment)
        sockets[0][1].close()
        for _ in range(60):
            with contextlib.suppress(wire.Closed, OSError):
                with wire.TextClient(daemon.text_tls, tls=trusting) as client:
                    served += client.ask("RELEASE") == "NOT_LOCKED"
        with daemon.binary_client() as plain:
            assert plain.acquire(1, 1, b"k") == wire.OK
            wire.poll(lambda: int(dict(plain.stats())["curr_connections"]) == 1, "all others are gone")
    assert 10 < served < wire.scaled(4, 2) * 60, "none was refused, or nearly all"


if __name__ == "__main__":
    tap.main(__file__)
