"""The daemon as poolcounterd, and as pages show it; transcripts/process.ctl has the rest."""

import os
import re
import signal
import socket

import tap
import pytest

import servers
import wire

TOP = os.environ.get("TOP_SRCDIR", ".")

pytestmark = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")


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


@pytest.mark.parametrize("page", ["doc/operate.md", "debian/README.Debian"])
def test_examples_of_pages_do_not_lock_their_reader_out(start, page):
    with open(os.path.join(TOP, page), encoding="utf-8") as f:
        examples = re.findall(r"^\s+(access\.allow) = (.*)$", f.read(), re.M)
    assert examples
    for example in examples:
        daemon = start("%s=%s" % example)
        for address in filter(None, (daemon.text, daemon.text6)):
            with wire.TextClient(address) as client:
                assert client.ask("RELEASE") == "NOT_LOCKED"


if __name__ == "__main__":
    tap.main(__file__)
