"""
A peer that vanishes: its units must be free, and its jobs ready again, within 35 seconds.
"""

import contextlib
import os
import random
import subprocess
import sys
import time

import tap
import pytest

import servers
import wire

HERE = os.path.dirname(os.path.abspath(__file__))
PROMISE = 35  # seconds

# The program of the vanishing peer, in a network of its own: it acquires units, reserves a job, waits for others,
# sends half a job, reports that, and waits. What the end of a connection does then, stories show.
PEER = """
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import wire
host, text, binary, jobs = sys.argv[2], *map(int, sys.argv[3:6])
holder, waiter, unread = [wire.TextClient((host, text)) for _ in range(3)]
units = wire.BinaryClient((host, binary))
assert holder.ask("ACQ4ME lock 1 9 0") == "LOCKED"
assert units.acquire(3, 3, b"units") == wire.OK
unread.say("ACQ4ME lock 1 9 3")  # its TIMEOUT will find nobody
waiter.say("ACQ4ME lock 1 9 86400")
worker, claimer, putter = [wire.JobClient((host, jobs)) for _ in range(3)]
assert worker.put(b"first", ttr=3600) == 1 and worker.fetch("reserve")[1] == b"first"
claimer.say("claim 1 86400 idle")
putter.send(b"put 0 0 60 1000\\r\\nhalf a")
while holder.stat("waiting_workers") != 2 or worker.stats()["current-waiting"] != "1":
    pass
print("holding", flush=True)
sys.stdin.read()
"""


def ip(*args):
    return subprocess.run(
        ["ip", *args], capture_output=True, timeout=wire.DEADLINE, check=False
    ).returncode == 0  # fmt: skip


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
    with contextlib.ExitStack() as cleanup:
        for name in (server, peer):
            try:
                made = ip("netns", "add", name)
            except (OSError, subprocess.TimeoutExpired):
                made = False
            if not made:
                pytest.skip("ip netns add does not work here")
            cleanup.callback(ip, "netns", "delete", name)
            if not ip("netns", "exec", name, "ip", "link", "set", "lo", "up"):
                pytest.skip("ip netns exec does not work here")
        ends = (tag + "a", tag + "b")
        if not ip("link", "add", ends[0], "netns", server, "type", "veth",
                  "peer", "name", ends[1], "netns", peer):  # fmt: skip
            pytest.skip("no veth here")
        net = "10.%d.%d" % (random.randrange(200, 250), random.randrange(250))
        for netns, end, number in ((server, ends[0], 1), (peer, ends[1], 2)):
            assert ip("-n", netns, "address", "add", "%s.%d/24" % (net, number), "dev", end)
            assert ip("-n", netns, "link", "set", end, "up")
            assert ip("-n", netns, "link", "set", "lo", "up")

        def vanish():
            """
            Removes the peer's address; no packet tells the server so. (If we took the link down,
            the kernel would know that the server's own cable is broken, and would not count its
            probes as unanswered.)
            """
            hardware = subprocess.run(
                ["ip", "netns", "exec", peer, "cat", "/sys/class/net/%s/address" % ends[1]],
                capture_output=True,
                check=True,
            ).stdout.decode().strip()  # fmt: skip
            assert ip("-n", server, "neighbour", "replace", net + ".2", "lladdr", hardware,
                      "nud", "permanent", "dev", ends[0])  # fmt: skip
            assert ip("-n", peer, "address", "flush", "dev", ends[1])

        yield server, peer, net + ".1", vanish


def test_units_of_a_vanished_peer_are_free_in_time(start, cable):
    server, peer, host, vanish = cable
    daemon = start("jobs.enable=true", "jobs.port=0", args=["-l", "0.0.0.0"], prefix=["ip", "netns", "exec", server])
    program = subprocess.Popen(
        ["ip", "netns", "exec", peer, sys.executable, "-c", PEER, HERE, host,
         str(daemon.text[1]), str(daemon.binary[1]), str(daemon.jobs[1])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert program.stdout.readline() == b"holding\n"
        watch = [
            "ip", "netns", "exec", server, sys.executable, "-c", WATCH, HERE,
            str(daemon.text[1]), str(daemon.binary[1]), str(daemon.jobs[1]),
        ]  # fmt: skip
        watcher = subprocess.Popen(watch, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert watcher.stdout.readline() == b"watching\n"
        vanish()
        began = time.monotonic()
        watcher.stdin.write(b"gone\n")
        watcher.stdin.flush()
        out = watcher.communicate(timeout=PROMISE + wire.DEADLINE * 4)[0].decode()
        passed = time.monotonic() - began
        print(out)
        assert watcher.returncode == 0, out
        assert passed < PROMISE + wire.DEADLINE * 3, "%.1f s" % passed
    finally:
        program.kill()
        program.communicate()


# The program of an observer on the server's side: polls until nothing is held and nobody waits, and puts a job for the
# client that waits for one.
WATCH = (
    """
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import wire
text = wire.TextClient(("127.0.0.1", int(sys.argv[2])))
binary = wire.BinaryClient(("127.0.0.1", int(sys.argv[3])))
jobs = wire.JobClient(("127.0.0.1", int(sys.argv[4])))
print("watching", flush=True)
sys.stdin.readline()
until = %d + 5
assert jobs.put(b"lost on its way", into="idle", ttr=3600) == 3
assert jobs.stats("stats-job 3")["state"] == "reserved"
wire.poll(lambda: binary.get(b"units") == 0, "the units are free", until)
wire.poll(lambda: text.stat("waiting_workers") == 0, "nobody waits", until)
wire.poll(lambda: text.stat("processing_workers") == 0, "the locks are free", until)
wire.poll(lambda: jobs.stats()["current-connections"] == "1", "its connections to jobs are gone", until)
assert [jobs.fetch("reserve-job %%d" %% job)[1] for job in (1, 3)] == [b"first", b"lost on its way"]
assert jobs.ask("peek 2") == "NOT_FOUND", "half of it came"
print("free", flush=True)
"""
    % PROMISE
)


if __name__ == "__main__":
    tap.main(__file__)
