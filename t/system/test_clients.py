"""Many clients over real sockets, and what they can use up."""

import resource
import socket
import struct

import tap

import servers
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


def test_without_memory_it_serves_the_names_that_it_has(start):
    daemon = start("counter.memory_limit=16M", "counter.stats_interval=2")
    with daemon.binary_client() as client, daemon.text_client() as text:
        assert text.ask("ACQ4ME first 1 9 0") == "LOCKED"
        statuses, made = set(), 0
        while wire.OUT_OF_MEMORY not in statuses and made < 300000:
            bodies = [wire.acquire_body(1, 1, b"name-%d" % (made + i)) for i in range(5000)]
            client.send_reading(b"".join(wire.binary_request(wire.ACQUIRE, body) for body in bodies))
            statuses = {client.reply().status for _ in bodies}
            made += len(bodies)
        assert wire.OUT_OF_MEMORY in statuses and made > 100000, made
        assert int(dict(client.stats())["used_memory"]) <= 16 << 20
        assert client.acquire(1, 1, b"name-1") == wire.NOT_AVAILABLE
        assert client.release(1, b"name-1") == wire.OK
        assert client.acquire(1, 1, b"name-1") == wire.OK
        assert text.ask("RELEASE first") == "RELEASED"
        client.close()
        wire.poll(lambda: text.ask("ACQ4ME afterwards 1 9 0") == "LOCKED", "there is memory without its holder")


if __name__ == "__main__":
    tap.main(__file__)
