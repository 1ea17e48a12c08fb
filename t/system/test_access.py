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


# --- one source ----------------------------------------------------------------------------------


# --- unix sockets --------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "text.sock")


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


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


def test_an_abstract_socket_has_no_file(start):
    name = "@counterd-access-%d" % os.getpid()
    daemon = start("poolcounter.socket=%s" % name)
    assert daemon.text_unix == name
    assert is_served(name)
    assert not os.path.exists(name)


def test_a_socket_of_a_server_that_lives_is_left(start, path):
    start("poolcounter.socket=%s" % path)
    log = fails("poolcounter.socket=%s" % path)
    assert "can't listen on unix socket %s: " % path in log
    assert "another server listens there" in log
    assert is_served(path)


# --- warnings ------------------------------------------------------------------------------------


def warnings(daemon):
    lines = daemon.log.splitlines()
    return [line for line in lines if " warning: " in line and "running as root" not in line]


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
