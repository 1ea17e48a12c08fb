"""TLS that no story shows (t/scenario/daemon-tls.scn): no memory, other bytes, a key that all may read."""

import os
import ssl

import tap
import pytest

import certificates
import servers
import wire


@pytest.fixture
def start_tls(start, tmp_path):
    """A function that starts a daemon with TLS and a new certificate, and returns it and a context."""

    def start_one(mode=0o600, **kwargs):
        authority = certificates.Authority(tmp_path)
        cert, key = authority.issue("server")
        os.chmod(key, mode)
        sock = servers.listening()
        daemon = start("tls.cert=%s" % cert, "tls.key=%s" % key, inherit=[("poolcounter-tls", sock)], **kwargs)
        sock.close()
        return daemon, certificates.context(authority)

    return start_one


def is_served(address, tls):
    try:
        with wire.TextClient(address, tls=tls) as client:
            return client.ask("RELEASE") == "NOT_LOCKED"
    except (wire.Closed, ssl.SSLError, ConnectionError):
        return False


def test_who_does_not_speak_tls_is_not_served(start_tls):
    daemon, _ = start_tls()
    with wire.TextClient(daemon.text_tls) as client:
        client.send(b"ACQ4ME k 1 2 0\n")
        assert b"LOCKED" not in client.wait_closed()


def test_openssl_without_memory_costs_a_connection_at_most(start_tls):
    """One allocation in some hundred is refused: the client that needs it is closed, no other notices."""
    program = os.path.join(os.environ.get("TOP_BUILDDIR", "."), "t", "scenario", "calls")
    served = 0
    for one_in in wire.scaled((31, 97, 311, 1009), (97, 1009)):
        environment = {"CALLS_REFUSE": str(one_in), "CALLS_SEED": str(os.getpid())}
        environment["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"  # OpenSSL leaks then
        daemon, trusting = start_tls(program=program, env=environment)
        served += sum(is_served(daemon.text_tls, trusting) for _ in range(60))
        with daemon.binary_client() as plain:
            assert plain.acquire(1, 1, b"k") == wire.OK
            wire.poll(lambda: int(dict(plain.stats())["curr_connections"]) == 1, "all others are gone")
    assert 10 < served < wire.scaled(4, 2) * 60, "none was refused, or nearly all"


def test_a_key_that_all_may_read_is_warned_of(start_tls):
    assert " warning: tls" not in start_tls()[0].log
    assert "warning: tls.key: " in start_tls(0o644)[0].log


if __name__ == "__main__":
    tap.main(__file__)
