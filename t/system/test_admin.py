"""Clients of the admin interface that are slow, hostile or in the way; transcripts/api.ctl has what it answers."""

import http.client
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
