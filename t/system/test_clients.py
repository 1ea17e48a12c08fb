"""Many clients over real sockets, and what they can use up."""

import resource
import socket
import struct

import tap

import servers
import wire


def test_connections_that_end_before_they_are_accepted_leak_nothing(daemon):
    with daemon.text_client() as client:
        client.ask("RELEASE")
        before = daemon.descriptors()
        for i in range(wire.scaled(300, 100)):
            s = socket.create_connection(daemon.text if i % 2 else daemon.binary)
            if i % 3 == 0:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
        wire.poll(lambda: daemon.descriptors() <= before, "their descriptors are closed")
        assert client.ask("RELEASE") == "NOT_LOCKED"


def test_two_starts_hash_differently(start):
    """Otherwise a client could make names that collide. A dump is in the order of the hashes."""
    orders = []
    for _ in range(2):
        with start("counter.threads=1").binary_client() as client:
            for i in range(64):
                client.acquire(1, 1, b"name %d" % i)
            orders.append([row[0] for row in client.dump()])
    assert sorted(orders[0]) == sorted(orders[1]) and len(orders[0]) == 64
    assert orders[0] != orders[1]


def test_without_descriptors_it_does_not_spin_and_serves_whom_it_has(start):
    daemon = start(preexec=servers.set_limit(resource.RLIMIT_NOFILE, 64))
    with daemon.text_client() as early:
        assert early.ask("ACQ4ME early 1 9 60") == "LOCKED"
        crowd = [socket.create_connection(daemon.text) for _ in range(100)]
        wire.poll(lambda: daemon.descriptors() >= 60, "it is out of descriptors")
        used, steps = daemon.cpu_seconds(), 0
        while steps < 10:  # half a second, or more on a busy machine
            assert early.ask("RELEASE other") == "NOT_LOCKED"
            steps += wire.is_ready(early.sock, 0.05) is False
        assert daemon.cpu_seconds() - used <= wire.scaled(1, 4) * 0.15
        for sock in crowd:
            sock.close()
        with daemon.text_client() as late:
            assert late.ask("RELEASE") == "NOT_LOCKED"
        assert early.ask("RELEASE early") == "RELEASED"


if __name__ == "__main__":
    tap.main(__file__)
