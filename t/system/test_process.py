"""The daemon as a process: its command line, exit statuses, signals, listeners and privileges."""

import json
import os
import pwd
import re
import resource
import signal
import socket
import stat
import subprocess
import urllib.error
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


@pytest.fixture
def config(tmp_path):
    def write(text):
        path = tmp_path / "counter.conf"
        path.write_text(text)
        return str(path)

    return write


# --- the command line ------------------------------------------------------------------------


def test_h_prints_usage_and_every_option_key():
    status, out, err = run("-h")
    assert status == 0
    assert "counterd" in out and err == ""
    for key in (
        "counter.enable",
        "counter.port",
        "counter.max_connections",
        "counter.buckets",
        "counter.stats_interval",
        "counter.listen",
        "counter.memory_limit",
        "counter.threads",
        "counter.busy_poll",
        "poolcounter.enable",
        "poolcounter.port",
        "poolcounter.listen",
        "poolcounter.max_connections",
        "poolcounter.max_locks",
        "poolcounter.max_line",
        "poolcounter.tls_port",
        "counter.socket",
        "tls.cert",
        "access.allow",
        "admin.port",
        "log.format",
    ):
        assert key in out, key


def test_capital_v_prints_the_version():
    status, out, err = run("-V")
    assert status == 0
    assert re.search(r"counterd\D* \d+\.\d+", out)
    assert err == ""


def test_t_accepts_a_good_configuration(config):
    path = config("counter.enable = true\ncounter.port = 0 # any\n\npoolcounter.port = 0\n")
    status, _, err = run("-t", "-f", path)
    assert status == 0, err


def test_t_names_file_line_and_nearest_key(config):
    path = config("counter.enable = true\ncounter.prot = 11215\n")
    status, out, err = run("-t", "-f", path)
    assert status == 2
    text = out + err
    assert path in text and re.search(r"\b2\b", text)
    assert "counter.prot" in text and "counter.port" in text


def test_an_unknown_key_in_the_file_starts_nothing(config):
    path = config("poolcounter.port = 0\npoolcounter.max_lock = 4\n")
    status, _, err = run("-f", path)
    assert status == 2
    assert "poolcounter.max_lock" in err and "poolcounter.max_locks" in err
    assert "info: ready" not in err


def test_an_unknown_key_on_the_command_line_names_the_nearest():
    status, _, err = run("-o", "counter.thread=3")
    assert status == 2
    assert "counter.threads" in err


@pytest.mark.parametrize(
    "option",
    [
        "counter.port=65536",
        "counter.port=-1",
        "counter.port=http",
        "counter.port=",
        "counter.enable=maybe",
        "counter.threads=x",
        "poolcounter.max_locks=0",
        "counter.stats_interval=0",
        "counter.memory_limit=much",
        "counter.listen=nowhere.invalid/",
    ],
)
def test_a_bad_value_is_refused(option):
    status, _, err = run("-o", option)
    assert status == 2, err
    assert option.split("=")[0] in err


def test_an_option_without_a_value_is_refused():
    status, _, err = run("-o", "counter.port")
    assert status == 2
    assert "counter.port" in err


def test_an_option_given_twice_in_the_file_is_refused(config):
    path = config("counter.port = 0\ncounter.port = 0\n")
    status, _, err = run("-t", "-f", path)
    assert status == 2
    assert path in err and "counter.port" in err


def test_an_unknown_flag_is_refused_with_a_hint():
    status, _, err = run("-x")
    assert status == 2
    assert err


def test_an_unreadable_file_is_refused(tmp_path):
    path = str(tmp_path / "absent.conf")
    status, _, err = run("-f", path)
    assert status == 2
    assert path in err


def test_a_folder_is_no_configuration(tmp_path):
    status, _, err = run("-f", str(tmp_path))
    assert status == 2
    assert str(tmp_path) in err


@pytest.mark.parametrize("address", ["nonsense", "999.1.1.1", "::zz", ""])
def test_a_bad_address_for_l_ends_with_1(address):
    status, _, err = run("-l", address)
    assert status == 1, err
    assert err


def test_a_yrmcds_file_is_taken_and_its_other_keys_named_once(start, config):
    path = config(
        'user = %s\nport = 11211\nvirtual_ip = 127.0.0.1\nlog.threshold = info\n'
        'temp_dir = "/var/tmp"\nworkers = 10\ncounter.stat_interval = 3600\n'
        % pwd.getpwuid(os.geteuid()).pw_name
    )
    daemon = start(args=["-f", path])
    with daemon.binary_client() as client:
        assert client.noop() == wire.OK
    notices = [line for line in daemon.log.splitlines() if "virtual_ip" in line]
    assert len(notices) == 1 and "repl" not in notices[0]
    assert "counter.listen: 127.0.0.1, ::1" in notices[0]


def test_both_spellings_of_the_interval_are_one_option(config):
    path = config("counter.stat_interval = 60\ncounter.stats_interval = 60\n")
    status, _, err = run("-t", "-f", path)
    assert status == 2, err


def test_a_fifo_is_no_configuration(tmp_path):
    path = str(tmp_path / "counter.conf")
    os.mkfifo(path)
    status, _, err = run("-f", path)
    assert status == 2
    assert path in err


@pytest.mark.parametrize(
    "option", ["user=no-such-user-here", "group=no-such-group-here", "poolcounter.enable=false"]
)
def test_t_finds_what_can_never_start(option):
    status, out, err = run("-t", "-o", option)
    assert status == 2 and out == ""
    assert option.split("=")[1] in err or "nothing to serve" in err


def test_dev_null_is_an_empty_file(start):
    assert run("-t", "-f", "/dev/null") == (0, "counterd: /dev/null is good\n", "")
    daemon = start(args=["-f", "/dev/null"])
    assert "reload: done: 0 changed" in daemon.reload()
    with daemon.text_client() as client:
        assert client.ask("ACQ4ME k 1 1 1") == "LOCKED"


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


def test_a_port_in_use_ends_with_2_and_says_which():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        status, _, err = run(
            "-o", "poolcounter.port=%d" % port, "-o", "poolcounter.listen=127.0.0.1"
        )
    assert status == 2
    assert str(port) in err and "in use" in err and "poolcounter.port" in err
    assert "info: ready" not in err


def test_a_start_that_fails_says_why_on_standard_error_too(tmp_path):
    path = str(tmp_path / "absent" / "counterd.pid")
    for option in ("pid_file=%s" % path, "poolcounter.listen=192.0.2.1", "group=no-such-group"):
        status, _, err = run("-o", "log.output=syslog", "-o", "poolcounter.port=0", "-o", option)
        assert status == 2
        assert option.split("=")[1] in err


def test_with_syslog_nothing_is_said_on_standard_error(start):
    address = ("127.0.0.1", servers.free_port())
    daemon = start("log.output=syslog", "poolcounter.port=%d" % address[1], ready=False)
    servers.wait_listening(daemon, address)
    with wire.TextClient(address) as client:
        assert client.ask("RELEASE") == "NOT_LOCKED"
    assert daemon.end_with(signal.SIGTERM) == 0
    assert daemon.log == ""


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


@pytest.fixture
def start_to_syslog(start, syslog):
    """A function that starts a daemon that logs to the fixture above, and waits until it serves."""

    def start_one(*more):
        address = ("127.0.0.1", servers.free_port())
        options = ("log.output=syslog", "poolcounter.port=%d" % address[1], *more)
        daemon = start(*options, ready=False, prefix=syslog[1], admin=True)
        servers.wait_listening(daemon, address)
        with wire.TextClient(address) as client:
            assert client.ask("RELEASE") == "NOT_LOCKED"
        return daemon

    return start_one


def test_a_stuck_syslog_holds_nobody_up(syslog, start_to_syslog):
    listen, _, path = syslog
    with listen():
        fill(path)
        assert start_to_syslog().end_with(signal.SIGTERM) == 0


def lost_lines(daemon):
    with urllib.request.urlopen("http://%s:%d/metrics" % daemon.admin, timeout=wire.DEADLINE) as page:
        found = re.search(r'^counterd_log_lines_dropped_total\{reason="lost"\} (\d+)$', page.read().decode(), re.M)
        return int(found.group(1))


def test_syslog_hears_how_many_lines_it_did_not_take(syslog, start_to_syslog):
    listen, _, path = syslog
    with listen() as reader:
        fillers = fill(path)
        daemon = start_to_syslog()
        wire.poll(lambda: lost_lines(daemon) > 1, "lines are lost")
        assert [reader.recv(4096) for _ in range(fillers)] == [b"filler"] * fillers
        head = r"<%%d>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d counterd\[%d\]: " % daemon.pid
        notice = head % 28 + r"\d+ lines were lost because syslog did not take them"
        while not re.fullmatch(notice, reader.recv(4096).decode()):
            pass


def test_a_syslog_that_was_started_again_gets_lines(syslog, start_to_syslog):
    listen = syslog[0]
    with listen():
        daemon = start_to_syslog()
    with listen() as reader:
        reader.settimeout(0.1)

        def hears():
            daemon.child.send_signal(signal.SIGUSR2)
            try:
                return b"stats: " in reader.recv(4096)
            except TimeoutError:
                return False

        wire.poll(hears, "a line for the syslog that was started again")


def ask_for_a_change(daemon):
    """Sends no token, so the admin thread logs a warning."""
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen("http://%s:%d/api/v1/reload" % daemon.admin, b"", timeout=wire.DEADLINE)


def test_signals_that_keep_coming_leave_syslog_no_less_connected(syslog, start_to_syslog):
    """
    The main thread logs nothing about these signals at this level; a log line would reconnect it.
    """
    listen = syslog[0]
    with listen():
        daemon = start_to_syslog("log.level=warning", "admin.token=t0ken")
    with listen() as reader:
        reader.settimeout(0.1)

        def hears():
            daemon.child.send_signal(signal.SIGUSR2)
            try:
                return b"counterd[" in reader.recv(4096)
            except TimeoutError:
                return False

        ask_for_a_change(daemon)
        wire.poll(hears, "a line for the syslog that was started again")


def test_two_daemons_cannot_share_a_port(start):
    first = start()
    status, _, err = run(
        "-o", "counter.enable=true",
        "-o", "poolcounter.port=0",
        "-o", "counter.listen=127.0.0.1",
        "-o", "counter.port=%d" % first.binary[1],
    )  # fmt: skip
    assert status == 2 and "in use" in err


def test_both_protocols_are_served_on_both_families(start):
    daemon = start()
    assert daemon.text and daemon.binary
    with wire.TextClient(daemon.text) as a, wire.BinaryClient(daemon.binary) as b:
        assert a.ask("ACQ4ME k 1 2 0") == "LOCKED"
        assert b.get(b"k") == 1
    if daemon.text6 is None:
        pytest.skip("no IPv6 here")
    with wire.TextClient(daemon.text6) as a, wire.BinaryClient(daemon.binary6) as b:
        assert a.ask("ACQ4ME k6 1 2 0") == "LOCKED"
        assert b.get(b"k6") == 1


def test_l_sets_the_address_of_every_listener(start):
    daemon = start(args=["-l", "127.0.0.9"])
    assert daemon.text[0] == daemon.binary[0] == "127.0.0.9"
    assert daemon.text6 is None and daemon.binary6 is None
    with wire.TextClient(daemon.text) as a:
        assert a.ask("RELEASE") == "NOT_LOCKED"


def test_a_protocol_that_is_not_enabled_is_not_served(start):
    daemon = start("counter.enable=false")
    assert daemon.binary is None and daemon.text
    daemon = start("poolcounter.enable=false")
    assert daemon.text is None and daemon.binary


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


def busy_clients(daemon):
    """Clients that hold and wait in all ways, and one in the middle of a request."""
    holder, waiter, partial = (daemon.text_client() for _ in range(3))
    binary = daemon.binary_client()
    assert holder.ask("ACQ4ME k 1 9 60") == "LOCKED"
    waiter.say("ACQ4ME k 1 9 3600")
    wire.poll(lambda: holder.stat("waiting_workers") == 1, "one waits")
    partial.send(b"ACQ4ME k 1")
    assert binary.acquire(3, 9, b"k") == wire.OK
    return holder, waiter, partial, binary


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_a_signal_ends_it_in_order_whoever_holds_and_waits(start, number):
    daemon = start("counter.threads=2")
    clients = busy_clients(daemon)
    assert daemon.end_with(number) == 0
    for client in clients:
        assert client.wait_closed() == b"", "an end is no answer"
        client.close()


def test_a_hangup_does_not_disturb_the_end(start):
    # The caller of the tests may ignore SIGHUP, and children inherit that.
    daemon = start("counter.threads=2", preexec=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))
    clients = busy_clients(daemon)
    daemon.is_expected_to_be_gone = True
    daemon.child.send_signal(signal.SIGTERM)
    while daemon.child.poll() is None:
        daemon.child.send_signal(signal.SIGHUP)
    assert daemon.wait() == 0
    for client in clients:
        client.wait_closed()
        client.close()


def test_a_second_signal_ends_it_at_once(start, tmp_path):
    """The orderly end may take any time. The second signal may also arrive after it."""
    path = tmp_path / "counterd.pid"
    daemon = start("pid_file=%s" % path)
    clients = busy_clients(daemon)
    daemon.is_expected_to_be_gone = True
    daemon.child.send_signal(signal.SIGSTOP)
    daemon.child.send_signal(signal.SIGTERM)
    daemon.child.send_signal(signal.SIGINT)
    daemon.child.send_signal(signal.SIGCONT)
    status = daemon.wait()
    assert status in (0, 1, 128 + signal.SIGTERM, 128 + signal.SIGINT, -signal.SIGTERM,
                      -signal.SIGINT), status  # fmt: skip
    assert not path.exists()
    for client in clients:
        client.wait_closed()
        client.close()


def test_debug_lines_say_how_connections_end(start):
    daemon = start(args=["-o", "log.level=debug"])
    with wire.TextClient(daemon.text) as client:
        assert client.ask("ACQ4ME k 1 9 0") == "LOCKED"
    wire.poll(lambda: re.search(r"debug: poolcounter: connection \d+ closed: peer", daemon.log),
              "the end is logged")  # fmt: skip


def test_a_log_in_json_is_an_object_a_line(start, config):
    path = config("log.format = json\nlog.level = debug\n")
    daemon = start(args=["-f", path])
    with daemon.text_client() as client:
        assert client.ask('ACQ4ME \\x"\xe9 1 9 0') == "LOCKED"
    with daemon.binary_client() as client:
        client.send(b"nonsense that is no request")
        client.wait_closed()
    daemon.child.send_signal(signal.SIGUSR2)
    daemon.wait_log("stats: ")
    with open(path, "w") as f:
        f.write('log.format = json\n"quoted\\" \xc3\xa9 nonsense')
    daemon.reload()
    assert daemon.end_with(signal.SIGTERM) == 0
    lines = [json.loads(line) for line in daemon.log.splitlines()]
    levels = {line["level"] for line in lines}
    assert {"debug", "info", "error"} <= levels <= {"debug", "info", "warning", "error"}
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    for line in lines:
        assert list(line) == ["time", "level", "message"]
        assert re.fullmatch(stamp, line["time"]) and line["message"].isascii()
    assert lines[-1]["message"] == "ended"


def test_a_start_that_fails_says_so_in_json_too():
    status, _, err = run(
        "-o", "log.format=json", "-o", "poolcounter.port=0", "-o", "pid_file=/no/such/folder/pid"
    )  # fmt: skip
    assert status == 2
    levels = [json.loads(line)["level"] for line in err.splitlines()]
    if "info" in levels:
        levels.remove("info")  # builds with a sanitizer log that they have no sandbox
    assert levels == ["error"]


def test_a_signal_has_it_say_how_it_is(start):
    daemon = start("counter.threads=2")
    with daemon.text_client() as holder, daemon.text_client() as waiter:
        with daemon.binary_client() as binary:
            assert holder.ask("ACQ4ME k 1 9 60") == "LOCKED"
            assert binary.acquire(3, 9, b"b") == wire.OK
            waiter.say("ACQ4ME k 1 9 60")
            wire.poll(lambda: holder.stat("waiting_workers") == 1, "one waits")
            daemon.child.send_signal(signal.SIGUSR2)
            line = daemon.wait_log("info: stats: (.*)").group(1)
            assert re.fullmatch(
                r"2 poolcounter connections, 1 counter connections, 0 jobs connections, 2 names, "
                r"4 units, 1 waiting, \d+ requests, \d+ of 1073741824 bytes of memory, up for \d+ s",
                line,
            ), line
            assert int(re.search(r"(\d+) requests", line).group(1)) >= 3
    for _ in range(20):
        daemon.child.send_signal(signal.SIGUSR2)  # any number of times
    with daemon.text_client() as client:
        wire.poll(lambda: client.ask("ACQ4ME k 1 9 0") == "LOCKED", "it goes on")


def test_a_pid_file_is_there_while_it_runs(start, tmp_path):
    path = tmp_path / "counterd.pid"
    daemon = start("pid_file=%s" % path)
    assert int(path.read_text()) == daemon.pid
    assert daemon.end_with(signal.SIGTERM) == 0
    assert not path.exists()


def test_a_pid_file_of_another_process_is_left(start, tmp_path):
    path = tmp_path / "counterd.pid"
    daemon = start("pid_file=%s" % path)
    path.write_text("%d\n" % os.getpid())
    assert daemon.end_with(signal.SIGTERM) == 0
    assert int(path.read_text()) == os.getpid()


def test_a_pid_file_is_not_written_through_a_link(tmp_path):
    path, target = tmp_path / "counterd.pid", tmp_path / "target"
    path.symlink_to(target)
    status, _, err = run("-o", "poolcounter.port=0", "-o", "pid_file=%s" % path)
    assert status == 2
    assert "%s: is a symbolic link" % path in err
    assert not target.exists()


def test_a_pid_file_that_cannot_be_written_stops_the_start(tmp_path):
    path = str(tmp_path / "absent" / "counterd.pid")
    status, _, err = run("-o", "poolcounter.port=0", "-o", "pid_file=%s" % path)
    assert status == 2
    assert path in err


def test_as_root_it_becomes_the_user_it_is_told(start):
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        pytest.skip("there is no user nobody")
    daemon = start("user=nobody")
    assert daemon.status_field("Uid").split() == [str(nobody.pw_uid)] * 4
    assert daemon.status_field("Gid").split() == [str(nobody.pw_gid)] * 4
    groups = set(daemon.status_field("Groups").split())
    assert "0" not in groups
    assert int(daemon.status_field("CapEff"), 16) == 0
    with daemon.text_client() as client:
        assert client.ask("ACQ4ME k 1 2 0") == "LOCKED"


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


def test_an_unknown_user_stops_the_start():
    status, _, err = run("-o", "poolcounter.port=0", "-o", "user=no-such-user-here")
    assert status == 2
    assert "no-such-user-here" in err


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
