"""Clients of the admin interface that are slow, hostile or in the way; transcripts/api.ctl has what it answers."""

import http.client
import os
import socket
import threading
import time

import tap
import pytest

import http_client
import servers
import wire

pytestmark = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")


def status_of(daemon, target):
    return http_client.ask(daemon.admin, "GET", target)[0]


@pytest.fixture
def watched(start):
    """A daemon with two workers and an admin interface."""
    return start("counter.threads=2", admin=True)


def test_over_a_unix_socket_any_name_will_do(start, tmp_path):
    path = str(tmp_path / "admin.sock")
    with servers.listening(path) as listening:
        start(inherit=[("admin", listening)])
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(wire.DEADLINE)
        client.connect(path)
        client.sendall(b"GET /healthz HTTP/1.0\r\nHost: evil.example\r\n\r\n")
        assert client.makefile("rb").readline().split()[1] == b"200"


def test_slow_clients_of_the_admin_keep_nobody_from_anything(watched):
    held = []
    for number in range(200):
        sock = socket.create_connection(watched.admin, wire.DEADLINE)
        held.append(sock)
        if number % 2:
            sock.sendall(b"GET /api/v1/names HTTP/1.1\r\nX-Half: ")
    with watched.text_client() as text:
        for _ in range(200):
            assert text.ask("ACQ4ME k 1 9 0") == "LOCKED"
            assert text.ask("RELEASE k") == "RELEASED"
    assert status_of(watched, "/healthz") == 200
    assert watched.descriptors() < 64 + 40
    for sock in held:
        sock.close()


def test_a_flood_of_nonsense_is_survived(watched):
    for data in (b"\0" * 100000, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20000, os.urandom(50000)):
        with socket.create_connection(watched.admin, wire.DEADLINE) as sock:
            try:
                sock.sendall(data)
                while sock.recv(65536):
                    pass
            except OSError:
                pass  # the server closed before it had read all
    assert status_of(watched, "/healthz") == 200


def test_daemon_ends_at_once_whatever_its_admin_clients_do(watched):
    idle = socket.create_connection(watched.admin, wire.DEADLINE)
    over, asked = threading.Event(), []

    def ask_on():
        while not over.is_set():
            try:
                asked.append(status_of(watched, "/api/v1/connections"))
            except (OSError, http.client.HTTPException):
                time.sleep(0.01)

    threads = [threading.Thread(target=ask_on) for _ in range(4)]
    for thread in threads:
        thread.start()
    wire.poll(lambda: len(asked) > 100, "they ask")
    watched.stop()
    watched.is_expected_to_be_gone = True
    over.set()
    for thread in threads:
        thread.join()
    idle.close()


if __name__ == "__main__":
    tap.main(__file__)
