"""
A peer that vanishes: its units must be free, and its jobs ready again, within 35 seconds.
"""

import contextlib
import ctypes
import os
import random
import subprocess

import tap
import pytest

import wire

PROMISE = 35  # seconds
PATIENCE = PROMISE + 5 + wire.DEADLINE
CLONE_NEWNET = 0x40000000


def ip(*args):
    return subprocess.run(["ip", *args], capture_output=True, timeout=wire.DEADLINE, check=False).returncode == 0


@contextlib.contextmanager
def inside(netns):
    """This thread makes its sockets in that network meanwhile; they stay there."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net") as ours, open("/run/netns/" + netns) as theirs:
        assert libc.setns(theirs.fileno(), CLONE_NEWNET) == 0
        try:
            yield
        finally:
            assert libc.setns(ours.fileno(), CLONE_NEWNET) == 0


@pytest.fixture
def cable():
    """
    Two networks of our own, joined by a cable: the names of both, the server's address, and a
    function that makes the peer vanish.
    """
    if os.geteuid() != 0:
        pytest.skip("networks of our own need root")
    tag = "ct%05x" % random.randrange(1 << 20)
    server, peer = tag + "s", tag + "p"
    ends = (tag + "a", tag + "b")
    net = "10.%d.%d" % (random.randrange(200, 250), random.randrange(250))
    with contextlib.ExitStack() as cleanup:
        made = True
        try:
            for name in (server, peer):
                cleanup.callback(ip, "netns", "delete", name)
                made = made and ip("netns", "add", name) and ip("-n", name, "link", "set", "lo", "up")
            made = made and ip("link", "add", ends[0], "netns", server, "type", "veth",
                               "peer", "name", ends[1], "netns", peer)  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            made = False
        if not made:
            pytest.skip("no networks with a cable can be made here")
        for netns, end, number in ((server, ends[0], 1), (peer, ends[1], 2)):
            assert ip("-n", netns, "address", "add", "%s.%d/24" % (net, number), "dev", end)
            assert ip("-n", netns, "link", "set", end, "up")

        def vanish():
            """
            Removes the peer's address; no packet tells the server so. (If we took the link down,
            the kernel would know that the server's own cable is broken, and would not count its
            probes as unanswered.)
            """
            asked = ["ip", "netns", "exec", peer, "cat", "/sys/class/net/%s/address" % ends[1]]
            hardware = subprocess.check_output(asked, text=True).strip()
            assert ip("-n", server, "neighbour", "replace", net + ".2", "lladdr", hardware,
                      "nud", "permanent", "dev", ends[0])  # fmt: skip
            assert ip("-n", peer, "address", "flush", "dev", ends[1])

        yield server, peer, net + ".1", vanish


def test_units_of_a_vanished_peer_are_free_in_time(start, cable):
    """It holds, waits, has a job and sends half of another. What the end of a connection does then, stories show."""
    server, peer, host, vanish = cable
    daemon = start("jobs.enable=true", "jobs.port=0", args=["-l", "0.0.0.0"], prefix=["ip", "netns", "exec", server])
    with inside(server):
        text, binary, jobs = daemon.text_client(), daemon.binary_client(), daemon.job_client()
    with inside(peer):
        holder, waiter, unread = [wire.TextClient((host, daemon.text[1])) for _ in range(3)]
        units = wire.BinaryClient((host, daemon.binary[1]))
        worker, claimer, putter = [wire.JobClient((host, daemon.jobs[1])) for _ in range(3)]
    assert holder.ask("ACQ4ME lock 1 9 0") == "LOCKED"
    assert units.acquire(3, 3, b"units") == wire.OK
    unread.say("ACQ4ME lock 1 9 3")  # its TIMEOUT will find nobody
    waiter.say("ACQ4ME lock 1 9 86400")
    assert worker.put(b"first", ttr=3600) == 1 and worker.fetch("reserve")[1] == b"first"
    claimer.say("claim 1 86400 idle")
    putter.send(b"put 0 0 60 1000\r\nhalf a")
    wire.poll(lambda: jobs.stats()["current-waiting"] == "1", "it waits for a job")
    vanish()
    assert jobs.put(b"lost on its way", into="idle", ttr=3600) == 3
    assert jobs.stats("stats-job 3")["state"] == "reserved"
    wire.poll(lambda: binary.get(b"units") == 0, "the units are free", PATIENCE)
    wire.poll(lambda: text.stat("waiting_workers") == 0, "nobody waits", PATIENCE)
    wire.poll(lambda: text.stat("processing_workers") == 0, "the locks are free", PATIENCE)
    wire.poll(lambda: jobs.stats()["current-connections"] == "1", "its connections to jobs are gone", PATIENCE)
    assert [jobs.fetch("reserve-job %d" % job)[1] for job in (1, 3)] == [b"first", b"lost on its way"]
    assert jobs.ask("peek 2") == "NOT_FOUND", "half of it came"


if __name__ == "__main__":
    tap.main(__file__)
