"""
Text from peers never controls a terminal or breaks a line of the HTTP interface and of counterctl (of the log:
t/scenario/daemon-process.scn). And secrets are unpredictable.
"""

import re
import subprocess
import urllib.error
import urllib.request

import tap
import pytest

import ctl
import servers
import wire


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
    assert b"\\\\xff" in fetch(held, "/api/v1/names")  # the list has it


def test_two_starts_hash_differently(start):
    """Otherwise a client could make names that collide. A dump is in the order of the hashes."""
    orders = []
    for _ in range(2):
        daemon = start("counter.threads=1")
        with daemon.binary_client() as client:
            for i in range(64):
                client.acquire(1, 1, b"name %d" % i)
            orders.append([row[0] for row in client.dump()])
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


if __name__ == "__main__":
    tap.main(__file__)
