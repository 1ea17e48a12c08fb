"""What a reload does to TLS, hosts and files of root; other effects are in t/scenario/daemon-reload.scn."""

import contextlib
import http.client
import os
import pwd
import re
import ssl

import tap
import pytest

import certificates
import http_client
import servers
import wire

pytestmark = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")


class Running:
    """A daemon with a TLS port of the text protocol, whose certificate is in its file; `base` is the text of that."""

    def __init__(self, start, folder):
        self.authority, self.folder = certificates.Authority(folder), folder
        self.pair = self.authority.issue("first")
        self.base = "tls.cert = %s\ntls.key = %s\n" % self.pair
        self.path = str(folder / "counter.conf")
        self.write(self.base)
        sockets = [(name, servers.listening()) for name in ("poolcounter", "poolcounter-tls")]
        self.daemon = start("counter.threads=2", inherit=sockets, admin=True, args=["-f", self.path])
        for _, sock in sockets:
            sock.close()

    def write(self, text):
        with open(self.path + ".new", "w") as f:
            f.write(text)
        os.replace(self.path + ".new", self.path)

    def apply(self, text):
        """Writes this file and reloads. Returns the log lines of the reload."""
        self.write(text)
        said = self.daemon.reload()
        assert "reload: done" in said, said
        return said


@pytest.fixture
def running(start, tmp_path):
    return Running(start, tmp_path)


def is_served(address, **kwargs):
    """True if a client with these arguments gets an answer."""
    try:
        with wire.TextClient(address, **kwargs) as client:
            return client.ask("RELEASE") == "NOT_LOCKED"
    except (wire.Closed, ssl.SSLError, ConnectionError):
        return False


def effect_tls_verify_client(running):
    shown = running.authority.issue("client")
    tls = running.daemon.text_tls
    running.apply(running.base + "tls.ca = %s\ntls.verify_client = require\n" % running.authority.cert)
    assert not is_served(tls, tls=certificates.context(running.authority))
    assert is_served(tls, tls=certificates.context(running.authority, shown=shown))
    running.apply(running.base + "tls.ca = %s\ntls.verify_client = optional\n" % running.authority.cert)
    assert is_served(tls, tls=certificates.context(running.authority))


def effect_tls_ca(running):
    other = certificates.Authority(running.folder, "other")
    shown = other.issue("client")
    tls = running.daemon.text_tls
    require = running.base + "tls.verify_client = require\ntls.ca = %s\n"
    running.apply(require % running.authority.cert)
    assert not is_served(tls, tls=certificates.context(running.authority, shown=shown))
    running.apply(require % other.cert)
    assert is_served(tls, tls=certificates.context(running.authority, shown=shown))


def effect_tls_min_version(running):
    tls = running.daemon.text_tls
    old = certificates.context(running.authority, version=ssl.TLSVersion.TLSv1_2)
    assert is_served(tls, tls=old)
    running.apply(running.base + "tls.min_version = 1.3\n")
    assert not is_served(tls, tls=old)
    assert is_served(tls, tls=certificates.context(running.authority))


def effect_tls_max_handshakes(running):
    running.apply(running.base + "tls.max_handshakes = 1\n")
    with wire.Client(running.daemon.text_tls) as first:
        wire.poll(
            lambda: http_client.get(running.daemon.admin, "/api/v1/connections")["connections"],
            "it begins a handshake",
        )
        with wire.Client(running.daemon.text_tls) as second:
            assert first.wait_closed() == b""
            assert second.is_silent()


def effect_admin_hosts(running):
    def status():
        connection = http.client.HTTPConnection(*running.daemon.admin[:2], timeout=wire.DEADLINE)
        with contextlib.closing(connection):
            connection.request("GET", "/healthz", headers={"Host": "counter.example"})
            return connection.getresponse().status

    assert status() == 421
    running.apply(running.base + "admin.hosts = counter.example\n")
    assert status() == 200
    running.apply(running.base)
    assert status() == 421


EFFECTS = {name[len("effect_") :]: function for name, function in list(globals().items()) if name.startswith("effect_")}


@pytest.mark.parametrize("key", sorted(EFFECTS))
def test_a_reload_shows_its_effect(running, key):
    EFFECTS[key](running)


def test_every_reloadable_option_is_here_or_in_a_story(running):
    options = http_client.get(running.daemon.admin, "/api/v1/config")["options"]
    reloadable = {o["key"].replace(".", "_") for o in options if o["reloadable"]}
    with open(os.path.join(os.path.dirname(__file__), "..", "scenario", "daemon-reload.scn"), encoding="ascii") as f:
        shown = {key.replace(".", "_") for key in re.findall(r"^file ([\w.]+) = ", f.read(), re.M)}
    assert reloadable <= shown | set(EFFECTS), reloadable - shown - set(EFFECTS)


def test_what_only_root_may_read_stays_as_it_was_read(start, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    pwd.getpwnam("nobody")
    authority = certificates.Authority(tmp_path)
    cert, key = authority.issue("root")
    os.chmod(key, 0o600)
    sock = servers.listening()
    daemon = start(
        "tls.cert=%s" % cert,
        "tls.key=%s" % key,
        "user=nobody",
        inherit=[("poolcounter-tls", sock)],
    )
    sock.close()
    said = daemon.reload()
    assert "nothing was changed" in said and "Permission denied" in said
    assert is_served(daemon.text_tls, tls=certificates.context(authority))


if __name__ == "__main__":
    tap.main(__file__)
