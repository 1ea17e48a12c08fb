"""A part of exhaustion.py: producers that fill jobs.memory_limit and try again, beside a worker."""

import contextlib
import os
import statistics
import subprocess
import time

COUNTERBENCH = os.environ.get("COUNTERBENCH", "")
SLACK_S = 0.005  # two cores have producers, worker and daemon


def fill(client):
    """Puts until nothing more is taken."""
    records = b"9 0 600 10\r\n0123456789\r\n" * 500
    while client.fetch("put-batch default 500 %d\r\n%s" % (len(records), records.decode()))[1]:
        pass
    while client.put(b"x") != "OUT_OF_MEMORY":
        pass


@contextlib.contextmanager
def producers(daemon):
    """30 connections that put 3,000 times a second, whatever the answers are."""
    child = subprocess.Popen(
        [COUNTERBENCH, "put-jobs", "-q", "-t", "%s:%d" % daemon.jobs, "-c", "30", "-r", "3000",
         "-k", "1", "-w", "0", "-s", "60"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield
        assert child.poll() is None, "the producers have ended: status %d" % child.returncode
    finally:
        child.kill()
        child.wait()


def work(client, seconds):
    """Reserves and deletes. Returns the 99th percentile of both together, in seconds."""
    took, until = [], time.monotonic() + seconds
    while time.monotonic() < until or len(took) < 100:
        begun = time.monotonic()
        line, _ = client.fetch("reserve-with-timeout 0")
        assert line.startswith("RESERVED"), "a worker is refused: " + line
        answer = client.ask("delete " + line.split()[1])
        assert answer == "DELETED", "a worker is refused: " + answer
        took.append(time.monotonic() - begun)
    return statistics.quantiles(took, n=100)[98]


def jobs_memory(start, scale, rng):
    """Puts are refused when memory is full; workers, lists and new connections notice nothing."""
    if not COUNTERBENCH:
        return
    seconds = 5 if scale.beside else 0.3
    daemon = start("counter.threads=2", "jobs.enable=true", "jobs.port=0",
                   "jobs.memory_limit=" + ("64M" if scale.beside else "4M"))  # fmt: skip
    with daemon.job_client(deadline=120) as client, daemon.job_client(deadline=120) as worker:
        fill(client)
        before = work(worker, seconds)
        fill(client)
        with producers(daemon):
            after = work(worker, seconds)
            with daemon.job_client(deadline=120) as late:
                assert "default" in late.fetch("list-tubes")[1].decode(), "a new client is served"
        print("  workers' 99th percentile: %.0f us -> %.0f us" % (before * 1e6, after * 1e6), flush=True)
        assert not scale.beside or after <= 2 * before + SLACK_S, "workers are too slow"
        left = int(client.stats("stats-tube default")["current-jobs-ready"])
        assert client.ask("clear default all") == "CLEARED %d" % left, "all is cleared"
