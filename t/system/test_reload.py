"""A reload: changes take effect, errors change nothing, and no connection is dropped."""

import contextlib
import http.client
import json
import os
import pwd
import re
import signal
import ssl
import threading

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


# --- what no story shows (t/scenario/daemon-reload.scn) ---------------------------------------------------------


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


def wait_closed_for(running, reason):
    """Waits until one connection of the text protocol has been closed for this reason."""

    def closed_for_it():
        stats = http_client.get(running.daemon.admin, "/api/v1/stats")
        return stats["protocols"][0]["connections"]["closed"][reason] == 1

    wire.poll(closed_for_it, "one is closed for %s" % reason)


def fill(client, requests=30000):
    """Sends requests as long as the server reads, and reads no answers."""
    data = b"STATS FULL\n" * requests
    client.sock.setblocking(False)
    sent = 0
    while sent < len(data):
        try:
            sent += client.sock.send(data[sent : sent + 65536])
        except BlockingIOError:
            return


def effect_limits_write_timeout(running):
    running.apply(running.base + "limits.write_timeout = 1\n")
    client = running.daemon.text_client(rcvbuf=4096)
    fill(client)
    wait_closed_for(running, "write_timeout")
    client.close()


def effect_limits_output_buffer(running):
    def queued_now():
        rows = http_client.get(running.daemon.admin, "/api/v1/connections")["connections"]
        return max(row["queued_bytes"] for row in rows)

    def queued():
        """The bytes that the server finally queues for a client that never reads."""
        with running.daemon.text_client(rcvbuf=4096) as client:
            seen = [0]

            def is_steady():
                fill(client)
                seen.append(queued_now())
                return seen[-1] > 0 and len(seen) > 4 and len(set(seen[-4:])) == 1

            wire.poll(is_steady, "the server reads no more")
            return seen[-1]

    running.apply(running.base + "limits.output_buffer = 16K\n")
    assert 0 < queued() <= 32 * 1024
    running.apply(running.base + "limits.output_buffer = 1M\n")
    wire.poll(lambda: queued() > 128 * 1024, "the server queues more")


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


# --- no connection is dropped --------------------------------------------------------------------


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


def test_100_reloads_drop_none_of_500_connections(running):
    """
    Half of them use TLS. All work during the reloads, and each reload changes the certificate.
    """
    reloads, count = wire.scaled(100, 25), wire.scaled(500, 120)
    trusting = certificates.context(running.authority)
    pairs = [running.authority.issue("a"), running.authority.issue("b")]
    clients = []
    for number in range(count):
        if number % 2:
            clients.append(wire.TextClient(running.daemon.text))
        else:
            clients.append(wire.TextClient(running.daemon.text_tls, tls=trusting))
        assert clients[-1].ask("ACQ4ME held-%d 1 2 5" % number) == "LOCKED"
    failures, over, rounds = [], threading.Event(), [0]

    def work():
        try:
            while not over.is_set() or rounds[0] < 2:
                for number, client in enumerate(clients):
                    assert client.ask("ACQ4ME own-%d 1 2 5" % number) == "LOCKED"
                for number, client in enumerate(clients):
                    assert client.ask("RELEASE own-%d" % number) == "RELEASED"
                rounds[0] += 1
        except Exception as e:  # reported by the main thread
            failures.append(e)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for number in range(reloads):
            said = running.apply(
                "tls.cert = %s\ntls.key = %s\nlimits.write_timeout = %d\n" % (*pairs[number % 2], 20 + number % 2)
            )
            assert "limits.write_timeout is %d now" % (20 + number % 2) in said
            assert not failures, failures
            assert is_served(running.daemon.text_tls, tls=trusting), "new ones come, too"
    finally:
        over.set()
        worker.join(wire.DEADLINE * 3)
    assert not worker.is_alive() and not failures, failures
    for number, client in enumerate(clients):
        assert client.ask("RELEASE held-%d" % number) == "RELEASED"
    stats = http_client.get(running.daemon.admin, "/api/v1/stats")
    closed_for = stats["protocols"][0]["connections"]["closed"]
    assert {reason for reason, n in closed_for.items() if n} <= {"peer"}, closed_for
    for client in clients:
        client.close()


def test_hangups_that_come_in_a_rush_are_taken_together(running):
    """However many signals arrive during a reload, the last file takes effect."""
    for number in range(50):
        running.write(running.base + "limits.write_timeout = %d\n" % (100 + number))
        running.daemon.child.send_signal(signal.SIGHUP)

    def has_the_last():
        options = http_client.get(running.daemon.admin, "/api/v1/config")["options"]
        return any(o["key"] == "limits.write_timeout" and o["value"] == "149" for o in options)

    wire.poll(has_the_last, "the last file is in force")


if __name__ == "__main__":
    tap.main(__file__)
