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
import test_upgrade
import wire

pytestmark = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")


@pytest.fixture
def pair(tmp_path):
    """The options of a certificate."""
    cert, key = certificates.Authority(tmp_path).issue("server")
    return "tls.cert=%s" % cert, "tls.key=%s" % key


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
    daemon = start(inherit=[("poolcounter", servers.listening(path)), ("counter", servers.listening(abstract))])
    assert is_text(path) and is_binary(abstract)
    assert daemon.end_with(signal.SIGTERM) == 0
    assert os.path.exists(path), "it is not the daemon's to remove"


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


# --- as poolcounterd -----------------------------------------------------------------------------


def test_a_listening_standard_input_is_served(start):
    sock, other = servers.listening(), servers.listening()
    daemon = start(stdin=sock.fileno(), inherit=[("poolcounter", other)])
    assert is_text(sock.getsockname()) and is_text(other.getsockname()) and is_binary(daemon.binary)
    assert os.readlink("/proc/%d/fd/0" % daemon.pid) == "/dev/null"


def test_who_comes_over_ipv6_by_ipv4_counts_as_ipv4(start):
    """Uses a socket of both families, as a service manager may pass one."""
    sock = socket.socket(socket.AF_INET6)
    try:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(("::", 0))
    except OSError:
        pytest.skip("no IPv6 here")
    sock.listen()
    port = sock.getsockname()[1]
    start("access.allow=127.0.0.2", inherit=[("poolcounter", sock)])
    sock.close()
    assert is_text(("127.0.0.1", port), source="127.0.0.2")
    with pytest.raises((wire.Closed, ConnectionError)):
        is_text(("127.0.0.1", port), source="127.0.0.3")


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
    libraries = subprocess.run(["ldd", servers.COUNTERD], capture_output=True, check=False).stdout.decode()
    if "libsystemd" not in libraries:
        pytest.skip("built without systemd")
    yield made
    made.sock.close()


def test_a_manager_that_watches_hears_of_start_life_reload_and_end(start, manager):
    usec = str(wire.scaled(300000, 3000000))
    daemon = start("counter.threads=2", env={"NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": usec})
    first = manager.heard()
    assert first == {"READY": "1", "STATUS": "serving poolcounter, counter in 2 threads"}
    assert is_text(daemon.text), "what is ready serves"
    for _ in range(3):
        assert manager.heard() == {"WATCHDOG": "1"}
    daemon.reload()
    reloading = manager.next_but_life()
    assert reloading["RELOADING"] == "1" and int(reloading["MONOTONIC_USEC"]) > 0
    assert manager.next_but_life() == first
    assert daemon.end_with(signal.SIGTERM) == 0
    assert manager.next_but_life()["STOPPING"] == "1"


def test_a_manager_that_watches_hears_of_life_amid_an_upgrade(start, manager, tmp_path):
    watched = {"NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "900000"}
    running = test_upgrade.Running(start, tmp_path, settings="upgrade.timeout = 600\n", env=watched)
    running.misbehave("rehearse", "until [ -e %s/over ]; do sleep 0.1; done; exit 1" % tmp_path)
    running.daemon.child.send_signal(signal.SIGUSR1)
    while "RELOADING" not in manager.heard():
        pass
    for _ in range(3):
        assert manager.heard() == {"WATCHDOG": "1"}
    (tmp_path / "over").touch()
    assert "READY" in manager.next_but_life()


def test_a_start_that_fails_is_not_ready(manager):
    options = "pid_file=/no/such/folder/pid"
    assert servers.Counterd(options, env={"NOTIFY_SOCKET": manager.path}, ready=False).wait() == 2
    manager.sock.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.sock.recv(1)


if __name__ == "__main__":
    tap.main(__file__)
