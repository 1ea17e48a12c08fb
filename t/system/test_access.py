"""Access: networks, connections from one address, unix sockets, and warnings."""

import os
import pwd
import re
import signal
import socket
import stat

import tap
import pytest

import http_client
import servers
import wire

pytestmark = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")


def is_served(address, **kwargs):
    try:
        with wire.TextClient(address, **kwargs) as client:
            return client.ask("RELEASE") == "NOT_LOCKED"
    except (wire.Closed, ConnectionError):
        return False


def wait_closed_for(daemon, reason, count, protocol="poolcounter"):
    """Waits until `count` connections have been closed for this reason."""

    def closed():
        stats = http_client.get(daemon.admin, "/api/v1/stats")["protocols"]
        found = next(p for p in stats if p["name"] == protocol)["connections"]["closed"]
        assert found[reason] <= count, found
        return found[reason] == count

    wire.poll(closed, "%d closed for %s" % (count, reason))


def fails(*options):
    daemon = servers.Counterd(*options, ready=False)
    try:
        assert daemon.wait() == 2, daemon.log
        return daemon.log
    finally:
        daemon.kill()


# --- networks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["doc/operate.md", "debian/README.Debian"])
def test_examples_of_pages_do_not_lock_their_reader_out(start, page):
    with open(os.path.join(os.environ.get("TOP_SRCDIR", "."), page), encoding="utf-8") as f:
        examples = re.findall(r"^\s+(access\.allow) = (.*)$", f.read(), re.M)
    assert examples
    for example in examples:
        daemon = start("%s=%s" % example)
        assert is_served(daemon.text) and (not daemon.text6 or is_served(daemon.text6))


def test_only_networks_that_are_allowed_are_served(start):
    daemon = start("access.allow=127.0.0.8/30, ::1", admin=True)
    for source, allowed in (
        ("127.0.0.7", False), ("127.0.0.8", True), ("127.0.0.11", True), ("127.0.0.12", False),
    ):  # fmt: skip
        assert is_served(daemon.text, source=source) == allowed, source
    with wire.BinaryClient(daemon.binary, source="127.0.0.9") as client:
        assert client.noop() == wire.OK
    with pytest.raises((wire.Closed, ConnectionError)):
        wire.BinaryClient(daemon.binary, source="127.0.0.1").noop()
    if daemon.text6:
        assert is_served(daemon.text6)
    wait_closed_for(daemon, "denied", 2)
    wait_closed_for(daemon, "denied", 1, "counter")


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
    assert is_served(("127.0.0.1", port), source="127.0.0.2")
    assert not is_served(("127.0.0.1", port), source="127.0.0.3")


def test_the_admin_interface_has_its_own_addresses(start):
    daemon = start("access.allow=192.0.2.0/24", admin=True)
    assert not is_served(daemon.text)
    assert http_client.ask(daemon.admin, "GET", "/healthz") == (200, "ok\n")


def test_a_network_that_is_none_is_refused():
    log = fails("access.allow=10.0.0.1/8")
    assert 'access.allow: "10.0.0.1/8" is not an address or a network' in log


# --- one source ----------------------------------------------------------------------------------


def test_one_address_has_so_many_connections_in_both_protocols(start):
    daemon = start("access.max_per_source=3", "counter.threads=2", admin=True)
    text = [wire.TextClient(daemon.text, source="127.0.0.2") for _ in range(2)]
    binary = wire.BinaryClient(daemon.binary, source="127.0.0.2")
    for client in text:
        assert client.ask("RELEASE") == "NOT_LOCKED"
    assert binary.noop() == wire.OK
    assert not is_served(daemon.text, source="127.0.0.2")
    with pytest.raises((wire.Closed, ConnectionError)):
        wire.BinaryClient(daemon.binary, source="127.0.0.2").noop()
    assert is_served(daemon.text, source="127.0.0.3"), "another address has its own"
    wait_closed_for(daemon, "per_source", 1)
    # The end of one makes room for another.
    text[0].close()
    wire.poll(lambda: is_served(daemon.text, source="127.0.0.2"), "there is room again")
    for client in (text[1], binary):
        client.close()


# --- unix sockets --------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "text.sock")


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_both_protocols_are_served_on_unix_sockets(start, tmp_path, path):
    binary = str(tmp_path / "binary.sock")
    daemon = start("poolcounter.socket=%s" % path, "counter.socket=%s" % binary, admin=True)
    assert (daemon.text_unix, daemon.binary_unix) == (path, binary)
    with wire.TextClient(path) as a, wire.BinaryClient(binary) as b:
        assert a.ask("ACQ4ME k 1 2 0") == "LOCKED"
        assert b.get(b"k") == 1
        rows = http_client.get(daemon.admin, "/api/v1/connections")["connections"]
        assert {row["transport"] for row in rows} == {"unix"}
        assert all("pid %d" % os.getpid() in row["client"] for row in rows)
    assert is_served(daemon.text), "beside TCP"
    assert daemon.end_with(signal.SIGTERM) == 0
    assert not os.path.exists(path) and not os.path.exists(binary)


def test_a_unix_socket_may_be_all_there_is(start, path):
    daemon = start("poolcounter.plain=false", "poolcounter.socket=%s" % path)
    assert daemon.text is None
    assert is_served(path)


def test_a_unix_socket_has_the_mode_it_is_given(start, path):
    daemon = start("poolcounter.socket=%s" % path, preexec=lambda: os.umask(0o077))
    assert mode_of(path) == 0o660
    assert daemon.end_with(signal.SIGTERM) == 0
    start(
        "poolcounter.socket=%s" % path,
        "poolcounter.socket_mode=0602",
        preexec=lambda: os.umask(0),
    )
    assert mode_of(path) == 0o602


def test_a_unix_socket_belongs_to_the_user(start, path):
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    nobody = pwd.getpwnam("nobody")
    start("poolcounter.socket=%s" % path, "user=nobody")
    status = os.stat(path)
    assert (status.st_uid, status.st_gid) == (nobody.pw_uid, nobody.pw_gid)
    assert is_served(path)


def test_allow_is_not_about_unix_sockets(start, path):
    daemon = start(
        "poolcounter.socket=%s" % path, "access.allow=192.0.2.0/24", "access.max_per_source=1"
    )
    assert not is_served(daemon.text)
    with wire.TextClient(path) as first:
        assert first.ask("RELEASE") == "NOT_LOCKED"
        assert is_served(path)


def test_an_abstract_socket_has_no_file(start):
    name = "@counterd-access-%d" % os.getpid()
    daemon = start("poolcounter.socket=%s" % name)
    assert daemon.text_unix == name
    assert is_served(name)
    assert not os.path.exists(name)


def test_what_a_server_left_behind_is_replaced(start, path):
    first = start("poolcounter.socket=%s" % path)
    first.is_expected_to_be_gone = True
    first.kill()
    assert os.path.exists(path)
    start("poolcounter.socket=%s" % path)
    assert is_served(path)


def test_a_socket_of_a_server_that_lives_is_left(start, path):
    start("poolcounter.socket=%s" % path)
    log = fails("poolcounter.socket=%s" % path)
    assert "can't listen on unix socket %s: " % path in log
    assert "another server listens there" in log
    assert is_served(path)


def test_anything_else_there_is_left(path, tmp_path):
    with open(path, "w") as f:
        f.write("mine")
    log = fails("poolcounter.socket=%s" % path)
    assert path in log and "the file is not a socket, and stays" in log
    with open(path) as f:
        assert f.read() == "mine"
    log = fails("poolcounter.socket=%s" % (tmp_path / "absent" / "x.sock"))
    assert "make its folder first" in log


# --- warnings ------------------------------------------------------------------------------------


def warnings(daemon):
    lines = daemon.log.splitlines()
    return [line for line in lines if " warning: " in line and "running as root" not in line]


def test_a_listener_for_everybody_is_warned_of(start):
    daemon = start(args=["-l", "0.0.0.0"])
    told = warnings(daemon)
    assert len(told) == 2 and all("access.allow" in line for line in told)
    assert "every client that reaches 0.0.0.0:%d" % daemon.text[1] in told[0] + told[1]


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("poolcounter.listen=0.0.0.0", "access.allow=10.0.0.0/8"),
        ("poolcounter.listen=127.0.0.5",),
    ],
)
def test_others_are_not(start, options):
    assert warnings(start("counter.enable=false", *options)) == []


def test_an_admin_interface_for_everybody_is_warned_of(start):
    daemon = start("admin.port=%d" % servers.free_port(), "admin.listen=0.0.0.0")
    assert ["admin: other machines can reach it" in line for line in warnings(daemon)] == [True]
    sock = servers.listening(("0.0.0.0", 0))
    daemon = start(inherit=[("admin", sock)])
    assert ["admin: other machines can reach it" in line for line in warnings(daemon)] == [True]


def test_secrets_that_all_may_read_are_warned_of(start, tmp_path):
    token = tmp_path / "token"
    token.write_text("secret\n")
    token.chmod(0o644)
    daemon = start("admin.token_file=%s" % token)
    assert len(warnings(daemon)) == 1
    assert "admin.token_file: %s can be read by every user" % token in warnings(daemon)[0]
    token.chmod(0o640)
    assert warnings(start("admin.token_file=%s" % token)) == []
    for option in ("admin.token", "cluster.password"):
        token.write_text("%s = secret\n" % option)
        token.chmod(0o644)
        daemon = start(args=["-f", str(token)])
        assert len(warnings(daemon)) == 1
        assert "%s: %s can be read by every user" % (option, token) in warnings(daemon)[0]
        token.chmod(0o640)
        assert warnings(start(args=["-f", str(token)])) == []


if __name__ == "__main__":
    tap.main(__file__)
