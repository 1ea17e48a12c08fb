"""TLS for clients and operators: both protocols, versions, certificates of both sides."""

import os
import socket
import ssl
import subprocess

import tap
import pytest

import certificates
import http_client
import servers
import wire

pytestmark = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")


@pytest.fixture
def authority(tmp_path):
    return certificates.Authority(tmp_path)


@pytest.fixture
def start_tls(start, authority):
    """
    A function that starts a daemon with TLS on both protocols, with a new certificate (`cert`, `key`).
    """

    def start_one(*options, **kwargs):
        cert, key = authority.issue("server")
        sockets = [(name, servers.listening()) for name in ("poolcounter-tls", "counter-tls")]
        kwargs["inherit"] = sockets + list(kwargs.get("inherit", ()))
        daemon = start("tls.cert=%s" % cert, "tls.key=%s" % key, *options, **kwargs)
        daemon.cert, daemon.key = cert, key
        for _, sock in sockets:
            sock.close()
        return daemon

    return start_one


def check(*options):
    """Runs the daemon with -t and these options. Returns (status, output)."""
    args = [part for option in options for part in ("-o", option)]
    done = subprocess.run(
        [servers.COUNTERD, "-t", *args], capture_output=True, timeout=wire.DEADLINE, check=False
    )
    return done.returncode, done.stdout.decode() + done.stderr.decode()


def is_refused(address, tls):
    """True if no answer arrives, because the handshake fails or the connection ends after it."""
    try:
        with wire.TextClient(address, tls=tls) as client:
            client.ask("RELEASE")
            return False
    except (wire.Closed, ssl.SSLError, ConnectionError):
        return True


# --- serving -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_protocols_are_served_and_share_their_counters(start_tls, authority, version):
    daemon = start_tls("counter.threads=2", admin=True)
    trusting = certificates.context(authority, version=version)
    with wire.TextClient(daemon.text_tls, tls=trusting) as text:
        with wire.BinaryClient(daemon.binary_tls, tls=trusting) as binary:
            with wire.TextClient(daemon.text) as plain:
                assert text.sock.version().replace(".", "_") == version.name
                assert text.ask("ACQ4ME k 3 9 0") == "LOCKED"
                assert binary.acquire(2, 3, b"k") == wire.OK
                assert plain.ask("ACQ4ME k 3 9 0") == "TIMEOUT"
                plain.say("ACQ4ME k 3 9 30")
                wire.poll(lambda: text.stat("waiting_workers") == 1, "one waits")
                assert binary.release(1, b"k") == wire.OK
                assert plain.line() == "LOCKED"
                rows = http_client.get(daemon.admin, "/api/v1/connections")["connections"]
                assert sorted(r["transport"] for r in rows) == ["tcp", "tls", "tls"]


def test_requests_of_any_size_and_number_go_through(start_tls, authority):
    daemon = start_tls()
    with wire.TextClient(daemon.text_tls, tls=certificates.context(authority)) as client:
        key = "k" * 4000
        client.say("ACQ4ME %s 1 2 0" % key)
        assert client.line() == "LOCKED"
        client.send(b"RELEASE x\n" * 2000)
        for _ in range(2000):
            assert client.line() == "NOT_LOCKED"
        assert client.ask("RELEASE %s" % key) == "RELEASED"
        assert len(client.stats()) > 5


def test_units_are_free_when_a_client_ends(start_tls, authority):
    daemon = start_tls()
    trusting = certificates.context(authority)
    for end in ("close", "reset"):
        client = wire.TextClient(daemon.text_tls, tls=trusting)
        assert client.ask("ACQ4ME k 1 1 0") == "LOCKED"
        getattr(client, end)()
        with daemon.text_client() as other:
            wire.poll(lambda: other.ask("ACQ4ME k 1 1 0") == "LOCKED", "it is free")
            assert other.ask("RELEASE k") == "RELEASED"


def test_a_protocol_may_be_served_with_tls_alone(start, authority):
    cert, key = authority.issue("server")
    port = servers.free_port()
    daemon = start(
        "tls.cert=%s" % cert,
        "tls.key=%s" % key,
        "counter.enable=false",
        "poolcounter.plain=false",
        "poolcounter.tls_port=%d" % port,
    )
    assert daemon.text is None and daemon.text_tls == ("127.0.0.1", port)
    with wire.TextClient(daemon.text_tls, tls=certificates.context(authority)) as client:
        assert client.ask("RELEASE") == "NOT_LOCKED"


def test_who_does_not_speak_tls_is_not_served(start_tls):
    daemon = start_tls(admin=True)
    client = wire.TextClient(daemon.text_tls)
    client.send(b"ACQ4ME k 1 2 0\n")
    assert b"LOCKED" not in client.wait_closed()
    client.close()

    def is_counted():
        stats = http_client.get(daemon.admin, "/api/v1/stats")["protocols"][0]["connections"]
        return stats["closed"]["handshake"] == 1

    wire.poll(is_counted, "it is counted")


def test_the_end_closes_connections_and_handshakes(start_tls, authority):
    daemon = start_tls()
    client = wire.TextClient(daemon.text_tls, tls=certificates.context(authority))
    assert client.ask("ACQ4ME k 1 1 0") == "LOCKED"
    silent = socket.create_connection(daemon.text_tls)
    daemon.stop()
    daemon.is_expected_to_be_gone = True
    client.wait_closed()
    client.close()
    silent.close()


def test_openssl_without_memory_costs_a_connection_at_most(start_tls, authority):
    """One allocation in some hundred is refused: who is not served is closed, and nobody else notices."""
    trusting = certificates.context(authority)
    program = os.path.join(os.environ.get("TOP_BUILDDIR", "."), "t", "scenario", "calls")
    served = 0
    for one_in in wire.scaled((31, 97, 311, 1009), (97, 1009)):
        daemon = start_tls(program=program, env={"CALLS_REFUSE": str(one_in), "CALLS_SEED": str(os.getpid())})
        for _ in range(60):
            served += not is_refused(daemon.text_tls, trusting)
        with daemon.binary_client() as plain:
            assert plain.acquire(1, 1, b"k") == wire.OK
            wire.poll(lambda: int(dict(plain.stats())["curr_connections"]) == 1, "all others are gone")
    assert 10 < served


# --- certificates of clients ---------------------------------------------------------------------


def test_a_client_may_have_to_show_a_certificate(start_tls, authority, tmp_path):
    shown = authority.issue("client")
    stranger = certificates.Authority(tmp_path, "stranger").issue("client")
    daemon = start_tls("tls.ca=%s" % authority.cert, "tls.verify_client=require")
    with wire.TextClient(daemon.text_tls, tls=certificates.context(authority, shown)) as client:
        assert client.ask("RELEASE") == "NOT_LOCKED"
    assert is_refused(daemon.text_tls, certificates.context(authority))
    assert is_refused(daemon.text_tls, certificates.context(authority, stranger))
    daemon = start_tls("tls.ca=%s" % authority.cert, "tls.verify_client=optional")
    assert not is_refused(daemon.text_tls, certificates.context(authority))
    assert not is_refused(daemon.text_tls, certificates.context(authority, shown))
    assert is_refused(daemon.text_tls, certificates.context(authority, stranger))


def test_the_oldest_version_can_be_set(start_tls, authority):
    daemon = start_tls("tls.min_version=1.3")
    assert is_refused(
        daemon.text_tls, certificates.context(authority, version=ssl.TLSVersion.TLSv1_2)
    )
    assert not is_refused(daemon.text_tls, certificates.context(authority))


# --- bad certificates ----------------------------------------------------------------------------


def test_t_tries_the_files(authority, tmp_path):
    cert, key = authority.issue("server")
    other = authority.issue("other")[1]
    good = "tls.cert=%s" % cert, "tls.key=%s" % key
    assert check(*good)[0] == 0
    assert check(*good, "tls.ca=%s" % authority.cert, "tls.verify_client=require")[0] == 0
    absent, empty = str(tmp_path / "absent.pem"), str(tmp_path / "empty.pem")
    with open(empty, "w"):
        pass
    for options, said in (
        (("tls.cert=%s" % absent, good[1]), "%s: No such file" % absent),
        (("tls.cert=%s" % empty, good[1]), empty),
        ((good[0], "tls.key=%s" % other), "does not belong to the certificate"),
        ((good[0], "tls.key=%s" % empty), empty),
        ((good[0],), "no private key"),
        ((*good, "tls.ca=%s" % empty), empty),
        ((*good, "tls.verify_client=require"), "set tls.ca"),
        (("poolcounter.tls_port=1",), "set tls.cert"),
        (("tls.key=%s" % key,), "set tls.cert"),
        (("poolcounter.plain=false",), "set poolcounter.tls_port or poolcounter.socket"),
        (("admin.token_file=%s" % absent,), "%s: can't be read: No such file" % absent),
        (("admin.token_file=%s" % empty,), "its first line is not"),
        (("poolcounter.port=7532",), "poolcounter.port and admin.port are both 7532"),
    ):
        status, out = check(*options)
        assert status == 2 and said in out, (options, status, out)
        assert "is good" not in out


def test_a_start_with_bad_files_says_so_and_ends(authority):
    cert, _ = authority.issue("server")
    daemon = servers.Counterd(
        "tls.cert=%s" % cert, "tls.key=%s" % authority.key, "log.output=syslog", ready=False
    )
    try:
        assert daemon.wait() == 2
        assert "error: tls: key %s: it does not belong to the certificate" % authority.key in daemon.log
    finally:
        daemon.kill()


def test_a_key_that_all_may_read_is_warned_of(start_tls, start, authority):
    assert " warning: tls" not in start_tls().log
    cert, key = authority.issue("open")
    os.chmod(key, 0o644)
    daemon = start("tls.cert=%s" % cert, "tls.key=%s" % key)
    assert "warning: tls.key: %s can be read by every user" % key in daemon.log


if __name__ == "__main__":
    tap.main(__file__)
