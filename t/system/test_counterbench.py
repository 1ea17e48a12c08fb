"""Short runs of counterbench against the real daemon, and against servers that answer differently.

What it prints and refuses is in t/transcripts/bench.ctl.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import tap
import pytest

import certificates
import ctl
import redis_servers
import servers
import wire

COUNTERBENCH = os.environ.get("COUNTERBENCH", "")

pytestmark = pytest.mark.skipif(
    not servers.have_counterd() or not COUNTERBENCH,
    reason="COUNTERD and COUNTERBENCH name no programs",
)

FAILED = 1


def start_bench(*args):
    if "-n" in args and "-s" not in args:
        args += ("-s", 0)  # as long as that takes, not 5 s
    return subprocess.Popen(
        [COUNTERBENCH, *map(str, args)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(child):
    try:
        out, err = child.communicate(timeout=wire.DEADLINE * 3)
    except subprocess.TimeoutExpired:
        child.kill()
        raise
    ctl.check_sane(err)
    return ctl.Done(child.returncode, out, err)


def run(*args):
    """Runs counterbench to its end."""
    return finish(start_bench(*args))


def measure(*args):
    """Returns the JSON of a run that must succeed."""
    done = run(*args, "--json")
    assert done.status == 0 and done.err == "", done
    found = json.loads(done.out)
    assert found["errors"] == 0
    return found


def check_latency(found, at_least=1):
    """Checks a result: the percentiles rise, and the histogram has at least this many entries."""
    latency = found["latency_us"]
    rising = [latency[name] for name in ("p50", "p90", "p99", "p999", "max")]
    assert rising == sorted(rising) and rising[0] > 0 and latency["mean"] <= latency["max"]
    uppers = [upper for upper, _ in found["histogram"]]
    assert uppers == sorted(set(uppers))
    assert sum(count for _, count in found["histogram"]) >= at_least


class Toy:
    """A server of the text protocol in a thread. It calls `respond` for each connection."""

    def __init__(self, respond):
        self.respond = respond
        self.listener = servers.listening()
        self.target = ctl.at(self.listener.getsockname())
        self.received = b""
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                sock = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._one, args=(sock,), daemon=True).start()

    def _one(self, sock):
        with sock:
            try:
                self.respond(self, sock)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


# --- each workload -------------------------------------------------------------------------------

# Arguments, and what the result has: `N<` is more than N, `entries` those of the histogram at least,
# `ready` the jobs that are left, `acquired` what the daemon has counted.
RUNS = """
pairs -t {text} -c 10 -T 2 -n 4000 --pid {pid} | protocol=text operations=2000 requests=4000 threads=2 entries=4000
pairs -t {text} -c 10 -d 8 -T 2 -n 4000 --pid {pid} | depth=8 operations=2000 requests=4000 entries=4000
pairs -t {binary} -p binary -c 10 -T 2 -n 4000 | protocol=binary connections=10 operations=2000 acquired=2000
pairs -t {binary} -p binary -c 10 -d 8 -T 2 -n 4000 --pid {pid} | operations=2000 requests=4000 acquired=2000
pairs -t {text} -s 0.3 -c 3 | seconds=0.3 operations=0<
pairs -t {text} -l 8000 -k 100 -n 400 -d 4 | operations=200
pairs -t {binary} -p binary -l 8000 -k 100 -n 400 -d 4 | operations=200
pairs -t {binary} -p binary -d 65536 -l 60000 -k 200 -c 1 -s 0.2 | errors=0
names -t {binary} -p binary -d 65536 -l 60000 -k 200 | operations=200
names -t {binary} -k 20000 -c 3 -T 2 --pid {pid} | operations=20000 requests=20000 entries=20000 acquired=20000
names -t {binary} -k 20000 --beside 5 -T 2 | operations=20000 requests=20000< entries=1
churn -t {text} -c 16 -T 2 -n 1000 | operations=500 requests=1000 entries=500
churn -t {binary} -p binary -c 16 -T 2 -n 1000 | operations=500 requests=1000 entries=500
hot -t {text} --waiters 50 -T 2 -n 1000 | operations=500 refused=0 entries=400
hot -t {text} --waiters 50 -k 5 --limit 2 -n 1000 | operations=500
pools -t {text} -c 10 -m 40 -T 2 -n 2000 --pid {pid} | operations=1000 requests=2000 refused=0 entries=2000 members=40
pools -t {text} -c 10 -m 40 -d 8 -T 2 -n 2000 | operations=1000 requests=2000 refused=0 entries=2000 members=40
pools -t {text} -c 50 -m 3 -T 2 -n 1000 | operations=500 refused=0 entries=1000
jobs -t {jobs} -c 10 -k 1 -T 2 -n 3000 --pid {pid} | protocol=beanstalk operations=1000 refused=0 entries=3000 ready=0
jobs -t {jobs} -c 10 -d 32 -k 3 -T 2 -n 3000 | operations=1000 requests=3000 refused=0 entries=3000 ready=0
jobs -t {jobs} -c 10 -d 32 -k 1000 -T 2 -n 3000 | operations=1000 requests=3000 refused=0 entries=3000 ready=0
jobs -t {jobs} -c 3 --waiters 20 -s 0.2 -b 3000 | connections=23 refused=0 operations=0< entries=1
jobs -t {jobs} -c 3 --waiters 20 -T 2 -s 0.2 -b 3000 | connections=23 refused=0 operations=0< entries=1
jobs -t {jobs} -p jobs -c 3 -k 1000 -s 0.2 | operations=0<
jobs -t {jobs} -p jobs -c 3 -k 1000 -s 0.2 --waiters 4 | operations=0<
put-jobs -t {jobs} -c 5 -d 4 -n 300 --pid {pid} | requests=300 operations=300 ready=300
put-jobs -t {jobs} -p jobs -c 5 -d 4 -n 300 | requests=300 operations=300 ready=300
put-jobs -t {jobs} -p jobs -c 5 -d 4 -n 300 --batch 10 | requests=300 operations=3000 ready=3000
herd -t {text} --waiters 200 -n 600 --pid {pid} | operations=600 rounds=3
herd -t {text} --waiters 200 -T 3 -n 600 | operations=600 rounds=3
mixed -t {text} -t {binary} -c 30 -T 2 -n 4000 | protocol=both operations=2000
mixed -t {text} -p text -k 2 --limit 1 -c 30 -n 4000 | operations=2000 refused=0<
dump -t {binary} -k 3000 --beside 5 -T 2 -s 0.2 | operations=0< entries=1 dumped=3000
dump -t {binary} -k 100 --beside 0 -T 2 -r 1000 -s 0.1 | missed=0 latency=none
pairs -t {text} -c 2 -T 4 -n 1000 | requests=1000
pairs -t {text} -c 2 -T 4 -n 200 -r 1000 | operations=100
pairs -t {text} -c 20 -k 1 --limit 1 -T 2 -n 4000 | refused=0<
pairs -t {text} -c 10 -T 2 -r 1000 -n 300 | operations=150
pairs -t {text} -t {unix} --pid {pid} --pid {pid} -c 6 -n 3000 | operations=1500
pairs -t unix:{unix} -n 100 | operations=50
churn -t {unix} -n 100 -c 4 | operations=50
pairs -t {text_tls} {tls} -n 400 | operations=200
pairs -t {binary_tls} -p binary --tls -d 8 -n 800 -T 2 | operations=400
churn -t {text_tls} {tls} -n 40 -c 4 | operations=20
hot -t {text_tls} {tls} --waiters 9 -n 80 | operations=40
names -t {binary_tls} {tls} -k 3000 | operations=3000
pairs -t {redis} -p redis-incr -c 2 -n 100 | operations=50
pairs -t {redis} -p redis-lua -c 2 -k 5 -n 100 | operations=50
pairs -t {redis} -p redis-lua -c 9 -k 1 --limit 1 -n 2000 | refused=0<
pairs -t {redis} -p redis-tokens -c 3 -k 5 --limit 20 -n 2000 | refused=0 operations=1000 tokens=20
pairs -t {redis} -p redis-tokens -c 3 -d 8 -k 5 --limit 20 -n 2000 | refused=0 operations=999< tokens=20
pairs -t {redis} -p redis-tokens -c 9 -k 1 --limit 1 -n 2000 | refused=0<
hot -t {redis} -p redis-tokens --waiters 10 -n 1000 | refused=0 operations=499<
pools -t {redis} -p redis-pool -c 2 -m 3 -n 100 | operations=50 requests=100
jobs -t {redis} -p redis-jobs -c 2 -n 240 | operations=80 requests=240
jobs -t {redis} -p redis-jobs -c 2 -d 8 -n 240 | operations=80 requests=240
pairs -t {echo} -p echo-text -c 3 -d 32 -n 1000 | requests=1000
pairs -t {echo} -p echo-binary -c 3 -d 32 -n 1000 | requests=1000
idle -t {text} -c 300 -T 2 -s 0.1 --pid {pid} | operations=300 connections=300
idle -t {memcached} -p memcached -c 5 -s 0.1 | operations=5
idle -t {binary} -p binary -c 300 -T 2 -s 0.1 --pid {pid} | operations=300 connections=300
"""


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A certificate, its key, and the authority's certificate."""
    authority = certificates.Authority(tmp_path_factory.mktemp("ca"))
    return *authority.issue("server"), authority.cert


@pytest.fixture
def tubes(start, pair, tmp_path):
    """A daemon with job queues, TLS and a unix socket."""
    sockets = [(name, servers.listening()) for name in ("poolcounter-tls", "counter-tls")]
    files = "tls.cert=" + pair[0], "tls.key=" + pair[1], "poolcounter.socket=%s" % (tmp_path / "text")
    return start("jobs.enable=true", "jobs.port=0", *files, inherit=sockets)


@pytest.fixture(scope="module")
def others():
    """Addresses of other servers, and a Redis, if there is one."""

    def echo(_, sock):
        while data := sock.recv(65536):
            sock.sendall(data)

    def memcached(_, sock):
        while sock.recv(65536):
            sock.sendall(b"VERSION 1.6\r\n")

    with Toy(echo) as one, Toy(memcached) as two, contextlib.ExitStack() as stack:
        found = redis_servers.have_redis() and stack.enter_context(redis_servers.RedisServer(tcp=True))
        at = "127.0.0.1:%d" % found.port if found else ""
        yield {"echo": one.target, "memcached": two.target, "redis": at}, found


def jobs_there(daemon):
    """How many jobs are ready; none is reserved."""
    with socket.create_connection(daemon.jobs, wire.DEADLINE) as sock:
        sock.sendall(b"stats\r\nquit\r\n")
        said = b"".join(iter(lambda: sock.recv(65536), b"")).decode()
    assert "current-jobs-reserved: 0\n" in said
    return int(re.search(r"current-jobs-ready: (\d+)", said)[1])


def check_value(found, name, value, daemon):
    if name == "entries":
        check_latency(found, int(value))
    elif name == "ready":
        assert jobs_there(daemon) == int(value)
    elif name == "acquired":
        with daemon.binary_client() as client:
            assert dict(client.stats())["command:acquire"] == value
    elif name == "members":
        with daemon.text_client() as client:
            assert "members=" + value in client.ask("POOL LIST")
    elif name == "latency":
        assert "latency_us" not in found
    elif name == "dumped":
        dump = found["dump"]
        assert dump["names"] == int(value) and dump["dumps"] >= 1 and found["before_us"]["max"] > 0
        assert 0 < dump["seconds"] <= dump["longest"]
    elif name == "rounds":
        times = sorted(one["time_to_last_us"] for one in found["rounds"])
        assert len(times) == int(value) and times[1] == found["time_to_last_us"] and times[0] > 0
        assert found["latency_us"]["max"] == pytest.approx(times[-1], abs=1)
    elif value.endswith("<"):
        assert found[name] > int(value[:-1])
    else:
        assert str(found[name]) == value


@pytest.mark.parametrize("line", RUNS.strip().split("\n"))
def test_workload(tubes, pair, others, line):
    arguments, _, expected = line.partition(" | ")
    addresses, redis = others
    if "{redis}" in arguments and not redis:
        pytest.skip("redis-server is not installed")
    words = arguments.format(
        **{name: ctl.at(getattr(tubes, name)) for name in ("text", "binary", "jobs", "text_tls", "binary_tls")},
        **addresses,
        unix=tubes.text_unix,
        pid=tubes.pid,
        tls="--tls --tls-ca " + pair[2],
    ).split()
    found = measure(*words, *([] if words[0] in ("idle", "names") else ["-w", 0]))
    assert found["workload"] == words[0]
    for name, value in (pair.split("=") for pair in expected.split()):
        if name == "tokens":
            assert {redis.ask("LLEN", key) for key in redis.ask("KEYS", "*")} == {int(value)}
        else:
            check_value(found, name, value, tubes)
    if redis:
        redis.ask("FLUSHALL")
    server, operations = found.get("server"), found["operations"]
    if server:
        assert server["rss_before"] > 0 and server["rss_after"] > 0
    if server and words[0] == "idle":
        grown = (server["rss_after"] - server["rss_before"]) / operations
        assert server["bytes_each"] == pytest.approx(grown, abs=0.01)
    elif server:
        each = server["cpu_us_per_operation"]  # of herd: that of the median round
        assert each == pytest.approx(server["cpu_us"] / operations, abs=0.01) or words[0] == "herd"
        assert server["cpu_us"] > 0 and each > 0
    if words[0] == "put-jobs":
        args = ("-p", found["protocol"], "-c", 5, "-d", 4, "-n", 600, "-w", 0)
        taken = measure("take-jobs", "-t", ctl.at(tubes.jobs), *args)
        assert (taken["requests"], taken["operations"]) == (600, 300)
        assert jobs_there(tubes) == operations - 300


# --- open loop -----------------------------------------------------------------------------------


def answer(toy, sock, stall=None, pause=0):
    """
    Answers LOCKED and RELEASED, after a pause. Does nothing for half a second before request number
    `stall`.
    """
    requests = 0
    while data := sock.recv(65536):
        toy.received += data
        for line in data.decode().splitlines():
            requests += 1
            time.sleep(0.5 if requests == stall else pause)
            sock.sendall(b"RELEASED\n" if line.startswith("R") else b"LOCKED\n")


def test_an_open_loop_does_not_hide_a_stall():
    def stall(toy, sock):
        answer(toy, sock, stall=40)

    with Toy(stall) as toy:
        found = measure("pairs", "-t", toy.target, "-c", 1, "-r", 200, "-n", 200, "-w", 0)
        assert found["operations"] == 100 and found["rate"] == 200 and found["missed"] == 0
        # 50 operations should have begun during the stall; half of them over 0.2 s before its end.
        late = sum(count for upper, count in found["histogram"] if upper > 200000)
        assert found["latency_us"]["max"] >= 490000 and late >= 25
    with Toy(stall) as toy:
        found = measure("pairs", "-t", toy.target, "-c", 1, "-n", 200, "-w", 0)
        assert sum(count for upper, count in found["histogram"] if upper > 450000) >= 1


def test_what_could_not_begin_is_counted():
    def slow(toy, sock):
        answer(toy, sock, pause=0.01)

    with Toy(slow) as toy:
        found = measure("pairs", "-t", toy.target, "-c", 1, "-r", 2000, "-s", "0.5", "-w", 0)
        assert found["missed"] > 100
        assert sum(count for _, count in found["histogram"]) >= found["missed"]


def test_the_same_seed_asks_the_same():
    received = {}
    for name, seed in ("first", 5), ("again", 5), ("other", 6):
        with Toy(answer) as toy:
            measure("pairs", "-t", toy.target, "-c", 1, "-n", 100, "-w", 0, "--seed", seed)
            received[name] = toy.received
    assert received["first"] == received["again"] != received["other"]


def test_what_is_under_way_on_a_lost_connection_is_not_awaited(daemon):
    def leave(_, sock):
        sock.recv(65536)
        sock.sendall(b"NOT_LOCKED\n")
        sock.recv(65536)

    with Toy(leave) as toy:
        done = run("names", "-t", toy.target, "-p", "text", "-k", 10, "--json")
        assert done.status == FAILED and json.loads(done.out)["errors"] == 1
    child = start_bench("herd", "-t", ctl.at(daemon.text), "--waiters", 20, "-w", 0, "--json")
    before = daemon.cpu_seconds()
    wire.poll(lambda: daemon.cpu_seconds() > before + 0.05, "it works")
    daemon.end_with(signal.SIGKILL)
    done = finish(child)
    assert done.status == FAILED and 0 < json.loads(done.out)["errors"] <= 21


def test_a_signal_ends_it_with_what_it_has(daemon):
    for workload in ("pairs",), ("hot",), ("herd", "--waiters", 20), ("churn",):
        child = start_bench(*workload, "-t", ctl.at(daemon.text), "-s", 60, "-w", 0, "--json")
        before = daemon.cpu_seconds()
        wire.poll(lambda before=before: daemon.cpu_seconds() > before + 0.05, "it works")
        child.send_signal(signal.SIGINT)
        done = finish(child)
        assert done.status == FAILED and "signal" in done.err, done
        assert json.loads(done.out)["operations"] > 0


if __name__ == "__main__":
    tap.main(__file__)
