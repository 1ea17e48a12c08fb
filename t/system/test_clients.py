"""Many clients over real sockets. Out of what else they can use up: t/campaigns/torture/exhaustion.py."""

import socket
import struct

import tap

import wire


def test_a_release_that_wakes_very_many_tells_all_of_them(daemon):
    count = 700  # more than a worker sends to in one iteration of its loop
    holder = daemon.text_client()
    assert holder.ask("ACQ4ME herd 1 %d 60" % (count + 1)) == "LOCKED"
    waiters = [daemon.text_client() for _ in range(count)]
    for waiter in waiters:
        waiter.say("ACQ4ANY herd 1 %d 600" % (count + 1))
    wire.poll(lambda: holder.stat("waiting_workers") == count, "all wait")
    assert holder.ask("RELEASE herd") == "RELEASED"
    assert {waiter.line() for waiter in waiters} == {"DONE"}
    assert holder.stat("waiting_workers") == 0
    for waiter in waiters:
        waiter.close()


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


def test_a_client_that_takes_no_answer_and_sends_no_more_has_gone(daemon):
    """It does not wait for the write timeout of 30 s."""
    with daemon.binary_client() as holder, daemon.binary_client(rcvbuf=4096) as blocked:
        for i in range(20):
            assert holder.acquire(1, 2, b"%02d" % i * 30000) == wire.OK
        assert blocked.acquire(5, 9, b"mine") == wire.OK
        blocked.send(wire.binary_request(wire.DUMP) * 20)  # far more than the kernel's buffers
        assert holder.get(b"mine") == 5
        blocked.eof()
        wire.poll(lambda: holder.get(b"mine") == 0, "its units are free", 20)


if __name__ == "__main__":
    tap.main(__file__)
