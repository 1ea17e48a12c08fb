"""A protocol in one file (echo.c) on a daemon whose registry has it: what the seams promise to such
a protocol holds for hundreds of connections, at a drain, over an upgrade and under sanitizers."""

import os
import re
import signal
import ssl
import sys
import threading

sys.path.insert(0, os.path.join(os.environ.get("TOP_SRCDIR", "."), "t", "system"))

import tap

import pytest

import certificates
from conftest import start  # noqa: F401  # pylint: disable=unused-import
import http_client
import servers
import wire

PROGRAM = os.path.join(os.environ.get("TOP_BUILDDIR", "."), "t", "echo", "counterd-echo")
SOURCE = os.path.join(os.environ.get("TOP_SRCDIR", "."), "t", "echo", "echo.c")

pytestmark = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")


@pytest.fixture
def echo(start, tmp_path):
    """A function that starts the daemon; its lines go to tmp_path/lines."""

    def start_one(*options, **kwargs):
        daemon = start("echo.port=0", "echo.folder=%s" % tmp_path, *options, program=PROGRAM, **kwargs)
        listening = daemon.wait_log(r"echo: listening on (\S+):(\d+)")
        daemon.echo = (listening.group(1), int(listening.group(2)))
        return daemon

    return start_one


class Client(wire.Client):
    """Sends lines; reads answers, and the events between them."""

    def __init__(self, daemon):
        super().__init__(daemon.echo)
        self.events = []

    def say(self, *lines):
        self.send(b"".join(line + b"\n" for line in lines))

    def lines(self, count):
        """The next answers."""
        found = []
        while len(found) < count:
            line = self.take_line(b"\n").encode()
            event = re.fullmatch(rb"event (\d+) lines", line)
            (self.events if event else found).append(int(event.group(1)) if event else line)
        return found

    def rest(self):
        """What comes until the end, but events."""
        return re.sub(rb"event \d+ lines\n", b"", self.wait_closed())


def written(tmp_path):
    return (tmp_path / "lines").read_bytes().splitlines()


def test_it_is_short():
    with open(SOURCE, encoding="ascii") as f:
        assert len(f.readlines()) <= 270


def test_lines_come_back_in_order_with_events_and_are_written(echo, tmp_path):
    client = Client(echo("counter.threads=1"))
    sent = [b"line %d" % i for i in range(200)] + [b""]
    client.say(*sent)
    assert client.lines(len(sent)) == sent
    assert client.events == list(range(8, 201, 8))
    assert written(tmp_path) == sent
    client.say(b"x" * 1000, b"last")
    client.eof()  # does not take the answers away
    assert client.lines(2) == [b"x" * 1000, b"last"]
    assert client.rest() == b""
    client.close()


def test_the_thread_says_hello_over_tls(echo, tmp_path):
    authority, got = certificates.Authority(tmp_path), []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("upstream"))
    listener = servers.listening()
    listener.settimeout(wire.DEADLINE)

    def serve():
        with listener, listener.accept()[0] as plain, context.wrap_socket(plain, server_side=True) as secure:
            secure.settimeout(wire.DEADLINE)
            got.append(secure.recv(100))
            secure.sendall(b"and hello to you\n")

    thread = threading.Thread(target=serve)
    thread.start()
    daemon = echo("echo.upstream_port=%d" % listener.getsockname()[1])
    daemon.wait_log(r"echo: the upstream says: and hello to you")
    thread.join(wire.DEADLINE)
    assert got == [b"hello\n"]


def test_the_metric_and_the_route(echo):
    daemon = echo(admin=True)
    client = Client(daemon)
    client.say(*[b"x"] * 20)
    client.lines(20)
    status, body = http_client.ask(daemon.admin, "GET", "/metrics")
    assert status == 200 and "counterd_echo_lines_total 20\n" in body
    assert re.search(r'counterd_requests_total\{[^}]*protocol="echo"[^}]*\} 20\n', body)
    assert http_client.get(daemon.admin, "/api/v1/echo") == {"lines": 20}
    client.close()


def test_a_drain_answers_all_that_is_pending(echo):
    daemon = echo("counter.threads=2", "shutdown.drain=600")
    clients = [Client(daemon) for _ in range(200)]
    sent = [b"line %d" % i for i in range(100)]  # more than may be pending
    for client in clients:
        client.say(*sent)
    clients.pop().close()  # one that goes leaves nothing behind
    assert daemon.end_with(signal.SIGTERM) == 0
    for client in clients:
        assert client.lines(len(sent)) == sent
        assert client.rest() == b""
        client.close()


@pytest.mark.parametrize("threads", [1, 2])
def test_an_upgrade_loses_and_doubles_nothing(echo, tmp_path, threads):
    config = tmp_path / "counter.conf"
    config.write_text("counter.threads = 2\n")
    daemon = echo(args=["-f", str(config)], admin=True)
    clients = [Client(daemon) for _ in range(200)]
    config.write_text("counter.threads = %d\n" % threads)
    rounds, sent = 3, 0  # lines of each client
    for _ in range(rounds):
        with daemon.changed:
            seen = len(daemon.lines)
        daemon.child.send_signal(signal.SIGUSR1)

        def is_over():
            with daemon.changed:
                said = [line or "it ended" for line in daemon.lines[seen:]]
            assert not any("goes on as before" in line or line == "it ended" for line in said), said
            return any("info: ready" in line for line in said)

        def say_more():
            """So that some lines are pending, and some unread, whenever it is that it pauses."""
            nonlocal sent
            for number, client in enumerate(clients):
                client.say(*[b"%d.%d" % (number, sent + i) for i in range(20)])
            sent += 20
            return is_over()

        first = sent
        wire.poll(say_more, "the upgrade is over", 60)
        for number, client in enumerate(clients):
            assert client.lines(sent - first) == [b"%d.%d" % (number, i) for i in range(first, sent)]
    assert daemon.log.count("has taken over") == rounds
    lines = written(tmp_path)
    assert len(lines) == len(set(lines)) == sent * len(clients)
    for client in clients:
        client.close()


if __name__ == "__main__":
    tap.main(__file__)
