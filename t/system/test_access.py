"""Who may come, and files of sockets and secrets, as far as no story shows it (t/scenario/daemon-access.scn)."""

import os
import pwd
import re
import signal
import socket
import stat

import tap
import pytest

import servers
import wire

pytestmark = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")


def is_served(address, **kwargs):
    try:
        with wire.TextClient(address, **kwargs) as client:
            return client.ask("RELEASE") == "NOT_LOCKED"
    except (wire.Closed, ConnectionError):
        return False


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


# --- warnings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["admin.token_file", "admin.token", "cluster.password"])
def test_secrets_that_all_may_read_are_warned_of(start, tmp_path, option):
    secret = tmp_path / "secret"
    in_file = option != "admin.token_file"
    secret.write_text("%s = secret\n" % option if in_file else "secret\n")
    for mode, count in ((0o644, 1), (0o640, 0)):
        secret.chmod(mode)
        daemon = start(args=["-f", str(secret)]) if in_file else start("%s=%s" % (option, secret))
        said = re.findall(" warning: (?!running as root).*", daemon.log)
        assert len(said) == count, said
        assert not said or "%s: %s can be read by every user" % (option, secret) in said[0]


if __name__ == "__main__":
    tap.main(__file__)
