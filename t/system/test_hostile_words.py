"""
Text from peers never controls a terminal or breaks a line in any output: the log, the HTTP
interface, counterctl and counterbench. And secrets are unpredictable.
"""

import os
import re
import socket
import subprocess
import threading
import urllib.error
import urllib.request

import tap
import pytest

import ctl
import servers
import wire

COUNTERBENCH = os.path.join(os.path.dirname(servers.COUNTERD), "counterbench")

# Escape sequences in 7 and 8 bits, a title, direction marks, line ends, invalid UTF-8.
HOSTILE = (
    b"\x1b[2J\x1b]0;owned\x07\xc2\x9b31m\x9b\r\x08\x7f" b"\xe2\x80\xae\xe2\x81\xa6\xe2\x80\xa8\xef\xbb\xbf\xff\xc0\xaf"
)
# The same for the text protocol, whose keys have no line ends.
HOSTILE_KEY = HOSTILE.replace(b"\r", b"")

pytestmark = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")


def check_harmless(output):
    """Checks output for a terminal: no controls except line ends, no direction marks."""
    text = output.decode("utf-8")  # fails if it is not UTF-8
    found = re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]", text)
    assert not found, (found, text)


def fetch(daemon, path, headers=None):
    request = urllib.request.Request("http://%s:%d%s" % (*daemon.admin, path), headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=wire.DEADLINE) as answer:
            return answer.read()
    except urllib.error.HTTPError as e:
        return e.read()


@pytest.fixture
def held(start):
    """A daemon with a hostile name that one client holds and another waits for."""
    daemon = start("log.level=debug", "counter.threads=1", admin=True)
    with daemon.binary_client() as client, daemon.text_client() as one, daemon.text_client() as two:
        client.acquire(1, 1, HOSTILE)
        for text in (one, two):
            text.send(b"ACQ4ME " + HOSTILE_KEY + b" 1 5 1000\n")
        assert one.line() == "LOCKED"
        wire.poll(lambda: b"waiting_workers: 1" in ask_stats(daemon), "one waits")
        yield daemon


def ask_stats(daemon):
    with daemon.text_client() as client:
        client.send(b"STATS FULL\n")
        found = b""
        while not found.endswith(b"\n\n"):
            found += client.take(1)
        return found


# --- the daemon ----------------------------------------------------------------------------------


def test_answers_of_the_http_interface(held):
    slug = "".join("%%%02X" % byte for byte in HOSTILE)
    for path in (
        "/metrics",
        "/api/v1/stats",
        "/api/v1/names",
        "/api/v1/names/" + slug,
        "/api/v1/names/" + slug + "?x=" + slug,
        "/api/v1/connections",
        "/api/v1/contended",
        "/api/v1/" + slug,
        "/api/v1/names?sort=" + slug,
        "/api/v1/names?cursor=" + slug,
        "/api/v1/names?prefix=" + slug[:60],
    ):
        check_harmless(fetch(held, path))
    assert b'\\\\xff' in fetch(held, "/api/v1/names")  # the list has it


def test_lines_of_the_log(held):
    for raw in (
        b"GET / HTTP/1.1\r\nHost: " + HOSTILE.replace(b"\r", b"") + b"\r\n\r\n",
        b"POST /api/v1/connections/" + HOSTILE.replace(b"\r", b"") + b"/kill HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /api/v1/%1b%0a%9b%e2%80%ae HTTP/1.1\r\nHost: localhost\r\n\r\n",
        HOSTILE + b"\r\n\r\n",
    ):
        with socket.create_connection(held.admin, timeout=wire.DEADLINE) as sock:
            sock.sendall(raw)
            sock.shutdown(socket.SHUT_WR)
            answer = b""
            while True:
                got = sock.recv(4096)
                if not got:
                    break
                answer += got
            check_harmless(answer.replace(b"\r\n", b"\n"))
    with held.text_client() as client:
        client.send(HOSTILE + b"\n")
        client.line()
    held.wait_log("asked for")
    check_harmless(held.log.encode())
    assert all(re.match(r"\d{4}-\d\d-\d\dT\S+ \w+: ", line) for line in held.log.splitlines())


def dump_order(daemon):
    with daemon.binary_client() as client:
        return [row[0] for row in client.dump()]


def test_two_starts_hash_differently(start):
    """Otherwise a client could make names that collide. A dump is in the order of the hashes."""
    orders = []
    for _ in range(2):
        daemon = start("counter.threads=1")
        with daemon.binary_client() as client:
            for i in range(64):
                client.acquire(1, 1, b"name %d" % i)
            orders.append(dump_order(daemon))
    assert sorted(orders[0]) == sorted(orders[1]) and len(orders[0]) == 64
    assert orders[0] != orders[1]


# --- the tools -----------------------------------------------------------------------------------

needs_tools = pytest.mark.skipif(not ctl.have_counterctl(), reason="COUNTERCTL names no client")


def run(*argv):
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=wire.DEADLINE * 2,
        env=ctl.environment(),
        check=False,
    )
    assert b"Sanitizer" not in done.stdout, done.stdout
    return done.returncode, done.stdout


@needs_tools
def test_what_counterctl_shows_of_names(held):
    admin, binary = "--admin=%s:%d" % held.admin, "--server=" + ctl.at(held.binary)
    for argv in (
        [admin, "contended"],
        [admin, "contended", "--json"],
        [admin, "top", "--once"],
        [binary, "dump"],
        [binary, "dump", "--json"],
        [binary, "stats"],
        [binary, "stats", "--json"],
    ):
        status, output = run(ctl.COUNTERCTL, *argv)
        assert output and status == 0, (argv, output)
        check_harmless(output)


class Liar:
    """
    A server that sends one of the given answers for each thing it receives, and then may close.
    """

    def __init__(self, *answers, closes=False):
        self.answers = list(answers)
        self.closes = closes
        self.listener = servers.listening()
        self.where = "%s:%d" % self.listener.getsockname()
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self):
        try:
            sock, _ = self.listener.accept()
            with sock:
                for answer in self.answers:
                    if not sock.recv(65536):
                        return
                    sock.sendall(answer)
                while not self.closes and sock.recv(65536):
                    pass
        except OSError:
            pass

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@needs_tools
@pytest.mark.parametrize("answers", [(b"ERROR " + HOSTILE_KEY + b"\n",), (b"LOCKED\n", HOSTILE_KEY + b"\n")])
def test_what_counterctl_tells_of_a_servers_lines(answers):
    with Liar(*answers) as liar:
        _, output = run(ctl.COUNTERCTL, "run", "--server", liar.where, "k", "--", "true")
    assert rb"\x1b[2J" in output, output
    check_harmless(output)


@needs_tools
@pytest.mark.parametrize("json", [False, True])
def test_what_counterctl_tells_of_an_http_answer(json):
    body = b'{"error":{"status":404,"reason":"\xe2\x80\xae\xc2\x9b31m\\u001b[2J\\u009b"}}'
    head = b"HTTP/1.1 404 \x1b[2J\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    with Liar(head + body) as liar:
        _, output = run(ctl.COUNTERCTL, "contended", "--admin", liar.where, *(["--json"] if json else []))
    assert output
    check_harmless(output)


@needs_tools
@pytest.mark.parametrize(
    "protocol, answer",
    [("text", HOSTILE + b"\n"), ("redis-incr", b"-ERR " + HOSTILE_KEY + b"\r\n"), ("binary", HOSTILE)],
    ids=["text", "redis-incr", "binary"],
)
def test_what_counterbench_tells_of_a_servers_lines(protocol, answer):
    with Liar(answer, closes=True) as liar:
        status, output = run(
            COUNTERBENCH, "pairs", "-p", protocol, "-t", liar.where, "--connections", "1", "--requests", "4"
        )
    assert status == 1 and output
    check_harmless(output)


if __name__ == "__main__":
    tap.main(__file__)
