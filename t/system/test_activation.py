"""Inherited sockets, and notifications to a service manager."""

import os
import re
import signal
import socket
import subprocess

import tap
import pytest

import certificates
import http_client
import servers
import wire

pytestmark = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")


@pytest.fixture
def pair(tmp_path):
    """The options of a certificate."""
    cert, key = certificates.Authority(tmp_path).issue("server")
    return "tls.cert=%s" % cert, "tls.key=%s" % key


def fails(*options, inherit=(), stdin=subprocess.DEVNULL, env=None):
    """Starts a daemon that must fail to start. Returns its log."""
    daemon = servers.Counterd(*options, inherit=inherit, stdin=stdin, env=env, ready=False)
    try:
        assert daemon.wait() == 2, daemon.log
        assert "info: ready" not in daemon.log
        daemon.check_log()
        return daemon.log
    finally:
        daemon.kill()


def is_text(address, **kwargs):
    with wire.TextClient(address, **kwargs) as client:
        return client.ask("RELEASE") == "NOT_LOCKED"


def is_binary(address, **kwargs):
    with wire.BinaryClient(address, **kwargs) as client:
        return client.noop() == wire.OK


def listeners(daemon):
    """The TCP addresses at which its process listens."""
    rows = subprocess.run(["ss", "-Htlnp"], capture_output=True, check=True).stdout.decode()
    return {r.split()[3] for r in rows.splitlines() if "pid=%d," % daemon.pid in r}


def text_of(address):
    return "%s:%d" % address[:2]


# --- by name -------------------------------------------------------------------------------------


def test_every_name_gets_its_protocol(start, pair):
    names = ["counter-tls", "poolcounter", "admin", "poolcounter-tls", "counter"]
    sockets = {name: servers.listening() for name in names}
    at = {name: sock.getsockname() for name, sock in sockets.items()}
    daemon = start(*pair, inherit=[(name, sockets[name]) for name in names])
    anybody = certificates.context()
    assert is_text(at["poolcounter"])
    assert is_binary(at["counter"])
    assert is_text(at["poolcounter-tls"], tls=anybody)
    assert is_binary(at["counter-tls"], tls=anybody)
    assert http_client.ask(at["admin"], "GET", "/readyz") == (200, "ready\n")
    assert listeners(daemon) in ({text_of(a) for a in at.values()}, set()), "and nothing besides"
    assert len(re.findall(r"listening .* \(inherited\)", daemon.log)) == 4


def test_several_sockets_may_have_one_name(start):
    sockets = [servers.listening(), servers.listening(("127.0.0.2", 0))]
    start(inherit=[("poolcounter", sock) for sock in sockets])
    for sock in sockets:
        assert is_text(sock.getsockname())


def test_what_was_queued_before_the_start_is_served(start):
    sock = servers.listening()
    with wire.TextClient(sock.getsockname()) as early:
        early.say("ACQ4ME k 1 2 0")
        start(inherit=[("poolcounter", sock)])
        assert early.line() == "LOCKED"


def test_a_socket_outlives_the_daemon(start):
    """The service manager keeps the socket, so clients wait for the next daemon."""
    sock = servers.listening()
    first = start(inherit=[("poolcounter", sock)])
    assert is_text(sock.getsockname())
    assert first.end_with(signal.SIGTERM) == 0
    with wire.TextClient(sock.getsockname()) as client:
        client.say("ACQ4ME k 1 2 0")
        start(inherit=[("poolcounter", sock)])
        assert client.line() == "LOCKED"


def test_unix_sockets_are_handed_over_too(start, tmp_path):
    path = str(tmp_path / "text.sock")
    abstract = "@counterd-test-%d" % os.getpid()
    daemon = start(
        inherit=[("poolcounter", servers.listening(path)), ("counter", servers.listening(abstract))]
    )
    assert is_text(path) and is_binary(abstract)
    assert daemon.end_with(signal.SIGTERM) == 0
    assert os.path.exists(path), "it is not the daemon's to remove"


# --- sockets that the daemon opens too -----------------------------------------------------------


def test_a_kind_that_was_handed_over_is_not_opened(start, pair, tmp_path):
    path = str(tmp_path / "text.sock")
    plain, tls = servers.listening(), servers.listening()
    busy = servers.listening()
    port = busy.getsockname()[1]
    daemon = start(
        *pair,
        "counter.enable=false",
        "poolcounter.port=%d" % port,  # in use, so opening it would fail
        "poolcounter.tls_port=%d" % (servers.free_port()),
        "poolcounter.socket=%s" % path,
        inherit=[("poolcounter", plain), ("poolcounter-tls", tls)],
    )
    assert daemon.text == plain.getsockname() and daemon.text_tls == tls.getsockname()
    assert not os.path.exists(path) and "unix socket %s is not opened" % path in daemon.log


def test_the_other_kind_is_opened(start, pair):
    tls = servers.listening()
    daemon = start(*pair, inherit=[("poolcounter-tls", tls)])
    assert is_text(daemon.text) and is_binary(daemon.binary)
    assert daemon.text_tls == tls.getsockname()
    plain = servers.listening()
    port = servers.free_port()
    daemon = start(*pair, "poolcounter.tls_port=%d" % port, inherit=[("poolcounter", plain)])
    assert daemon.text == plain.getsockname()
    assert is_text(("127.0.0.1", port), tls=certificates.context())


def test_an_admin_socket_takes_the_place_of_its_port(start):
    busy = servers.listening()
    daemon = start("admin.port=%d" % busy.getsockname()[1], admin=True)
    assert http_client.ask(daemon.admin, "GET", "/healthz") == (200, "ok\n")


# --- by port or path -----------------------------------------------------------------------------


def test_another_name_goes_by_its_port(start, tmp_path):
    path = str(tmp_path / "counter.sock")
    text, admin = servers.listening(), servers.listening()
    local = servers.listening(path)
    daemon = start(
        "poolcounter.port=%d" % text.getsockname()[1],
        "admin.port=%d" % admin.getsockname()[1],
        "counter.socket=%s" % path,
        inherit=[("counterd.socket", text), ("", admin), ("x", local)],
    )
    assert is_text(text.getsockname())
    assert is_binary(path)
    assert http_client.ask(admin.getsockname(), "GET", "/healthz")[0] == 200
    assert daemon.binary is None, "its unix socket came, so it opens no port"


def test_sockets_without_names_go_by_their_port(start):
    text = servers.listening()
    start("poolcounter.port=%d" % text.getsockname()[1], inherit=[(None, text)])
    assert is_text(text.getsockname())


def test_an_unknown_name_and_port_is_an_error():
    sock = servers.listening()
    log = fails(inherit=[("web", sock)])
    assert 'descriptor 3 ("web") listens on %s, which no option names' % text_of(sock.getsockname()) in log
    assert "counter, counter-tls, jobs, jobs-tls or admin" in log


# --- errors --------------------------------------------------------------------------------------


def test_a_socket_of_no_use_is_an_error(pair, tmp_path):
    def made():
        return servers.listening()

    assert "set counter.enable to true" in fails(
        "counter.enable=false", inherit=[("counter", made())]
    )
    assert "set tls.cert" in fails(inherit=[("poolcounter-tls", made())])
    log = fails(
        *pair, "poolcounter.plain=false", "poolcounter.tls_port=1", inherit=[("poolcounter", made())]
    )
    assert "poolcounter.plain is false" in log
    path = str(tmp_path / "x.sock")
    assert "TLS is not served" in fails(*pair, inherit=[("counter-tls", servers.listening(path))])
    quiet = socket.socket()
    quiet.bind(("127.0.0.1", 0))
    assert "is not a listening stream socket" in fails(inherit=[("counter", quiet)])


@pytest.mark.parametrize(
    "variables, said",
    [
        ({"LISTEN_FDS": "many"}, 'LISTEN_FDS: "many"'),
        ({"LISTEN_FDS": "1", "LISTEN_FDNAMES": "a:b"}, "LISTEN_FDNAMES has 2 names"),
        ({"LISTEN_FDS": "9"}, "that LISTEN_FDS announces"),
    ],
)
def test_an_environment_that_makes_no_sense_is_an_error(variables, said):
    set_pid = ["/bin/sh", "-c", 'export LISTEN_PID=$$; exec "$@"', "sh"]
    daemon = servers.Counterd(env=variables, prefix=set_pid, ready=False)
    try:
        assert daemon.wait() == 2
        assert said in daemon.log
    finally:
        daemon.kill()


def test_what_is_meant_for_another_process_is_ignored(start):
    daemon = start(env={"LISTEN_PID": "1", "LISTEN_FDS": "nonsense"})
    assert is_text(daemon.text)


@pytest.mark.parametrize("flag", ["-t", "-h", "-V"])
def test_flags_that_only_print_do_not_look_at_sockets(flag):
    sock = servers.listening()
    hand, fds = servers.hand_over([sock], ["nonsense"])
    done = subprocess.run(
        [*hand, servers.COUNTERD, flag], capture_output=True, pass_fds=fds, timeout=wire.DEADLINE,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


# --- as poolcounterd -----------------------------------------------------------------------------


def test_a_listening_standard_input_is_served(start):
    sock = servers.listening()
    daemon = start(stdin=sock.fileno())
    assert daemon.text == sock.getsockname()
    assert is_text(sock.getsockname()) and is_binary(daemon.binary)
    assert os.readlink("/proc/%d/fd/0" % daemon.pid) == "/dev/null"


def test_it_and_other_sockets_go_together(start):
    sock, other = servers.listening(), servers.listening()
    start(stdin=sock.fileno(), inherit=[("poolcounter", other)])
    assert is_text(sock.getsockname()) and is_text(other.getsockname())


def test_any_other_standard_input_is_no_listener(start):
    ends = socket.socketpair()
    daemon = start(stdin=ends[0].fileno())
    assert is_text(daemon.text)
    assert "(inherited)" not in daemon.log


def test_without_the_text_protocol_it_is_an_error():
    sock = servers.listening()
    log = fails("poolcounter.enable=false", stdin=sock.fileno())
    assert 'descriptor 0 ("poolcounter")' in log and "poolcounter.enable" in log


# --- the service manager -------------------------------------------------------------------------


class Manager:
    """A service manager that reads the daemon's notifications."""

    def __init__(self, folder):
        self.path = str(folder / "notify")
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(self.path)
        self.sock.settimeout(wire.DEADLINE)

    def heard(self):
        """Returns the next message as a dictionary."""
        lines = self.sock.recv(4096).decode().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def next_but_life(self):
        while True:
            message = self.heard()
            if "WATCHDOG" not in message:
                return message


@pytest.fixture
def manager(tmp_path):
    made = Manager(tmp_path)
    libraries = subprocess.run(
        ["ldd", servers.COUNTERD], capture_output=True, check=False
    ).stdout.decode()
    if "libsystemd" not in libraries:
        pytest.skip("built without systemd")
    yield made
    made.sock.close()


def test_a_manager_hears_of_start_reload_and_end(start, manager):
    daemon = start("counter.threads=2", env={"NOTIFY_SOCKET": manager.path})
    first = manager.heard()
    assert first == {"READY": "1", "STATUS": "serving poolcounter, counter in 2 threads"}
    assert is_text(daemon.text), "what is ready serves"
    daemon.reload()
    reloading = manager.heard()
    assert reloading["RELOADING"] == "1" and int(reloading["MONOTONIC_USEC"]) > 0
    assert manager.heard() == first
    assert daemon.end_with(signal.SIGTERM) == 0
    assert manager.heard()["STOPPING"] == "1"


def test_a_manager_that_watches_hears_of_life(start, manager):
    usec = str(wire.scaled(300000, 3000000))
    daemon = start(env={"NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": usec})
    assert "READY" in manager.heard()
    for _ in range(3):
        assert manager.heard() == {"WATCHDOG": "1"}
    daemon.reload()
    assert "RELOADING" in manager.next_but_life()
    assert "READY" in manager.next_but_life()
    assert daemon.end_with(signal.SIGTERM) == 0
    assert "STOPPING" in manager.next_but_life()


def test_a_start_that_fails_is_not_ready(manager):
    fails("pid_file=/no/such/folder/pid", env={"NOTIFY_SOCKET": manager.path})
    manager.sock.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.sock.recv(1)


def test_a_manager_that_has_gone_is_no_reason_to_end(start, tmp_path):
    daemon = start(env={"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    assert is_text(daemon.text)


if __name__ == "__main__":
    tap.main(__file__)
