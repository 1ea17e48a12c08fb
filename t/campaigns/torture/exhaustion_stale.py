"""The part `stale` of ./dev torture exhaustion: jobs that nobody may get, in front of all others.

First a newer root makes very many jobs stale at once. Then stale jobs are in front while there is
no memory left to delete them, and clients ask for a job again and again.
"""

import os
import tempfile
import time

import http_client

SLACK_MS = 10  # with two processors, which the daemon shares with its clients


def batch(client, tube, record, count):
    """Puts `count` jobs with one request. Returns how many were stored."""
    records = b"".join(record(n) for n in range(count))
    client.send_reading(b"put-batch %s %d %d\r\n%s\r\n" % (tube, count, len(records), records))
    line, text = client.job()
    return text.count(b"INSERTED") if text else 0


def metric(daemon, name):
    text = http_client.ask(daemon.admin, "GET", "/metrics")[1]
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(name + " "))


def p99_ms(client, seconds, request, goes_on=lambda: True, attack=None, after=None):
    """
    Repeats a request, for so long or while something goes on; the attack begins before it, and
    `after` reads the attack's answers. Returns the 99th percentile.
    """
    took, began = [], time.monotonic()
    while time.monotonic() < began + seconds and (len(took) % 200 or goes_on()):
        if attack:
            attack()
        at = time.monotonic()
        request(client)
        took.append((time.monotonic() - at) * 1000)
        if after:
            after()
    return sorted(took)[int(len(took) * 0.99)]


def put_and_delete(client):
    job = client.put(b"x", into="others")
    assert client.ask("delete %d" % job) == "DELETED", "another client is refused"


def compare(what, before, during):
    print("  %s: others' 99th percentile: %.1f -> %.1f ms" % (what, before, during), flush=True)


def newer_root(daemon, many, seconds):
    client, other = daemon.job_client(deadline=60), daemon.job_client(deadline=60)
    for _ in range(0, many, 1000):
        assert batch(client, b"q", lambda n: b"1 0 60 1 root=r:1000\r\nx\r\n", 1000) == 1000
    before = p99_ms(other, seconds, put_and_delete)
    began = time.monotonic()
    client.send(b"put-into q 9 0 60 3 root=r:2000\r\nnew\r\nreserve-with-timeout 0\r\nwatch q\r\n"
                b"reserve-with-timeout 0\r\n")  # fmt: skip
    assert client.line().startswith("INSERTED") and client.line() == "TIMED_OUT"
    assert client.line() == "WATCHING 2"
    line, body = client.job()
    assert body == b"new", "a stale job was handed out, or none: %s" % line
    searched = time.monotonic() - began
    left = lambda: client.stats("tube q")["total-dropped"] != str(many)  # noqa: E731
    during = p99_ms(other, 300, put_and_delete, left)
    print("  %d stale jobs: the next good one after %.2f s, all deleted after %.1f s, %d steps"
          % (many, searched, time.monotonic() - began, metric(daemon, "counterd_jobs_steps_total")))  # fmt: skip
    compare("a newer root", before, during)
    if seconds > 1:
        assert during <= 2 * before + SLACK_MS, "a newer root: %.1f ms" % during


def no_memory(daemon, seconds):
    client, other = daemon.job_client(deadline=60), daemon.job_client(deadline=60)
    client.send(b"put-into k 0 0 600 1 key=k\r\nx\r\n")
    first = int(client.line().split()[1])
    client.fetch("reserve-job %d" % first)
    for n in range(3):
        record = lambda i, n=n: b"1 0 60 1 key=k at=1000 root=r%d.%d:1\r\nx\r\n" % (n, i)  # noqa: E731
        assert batch(client, b"k", record, 1000) == 1000
    wait = lambda c: c.ask("stats-job 999999999")  # noqa: E731
    before = p99_ms(other, seconds, wait)
    assert client.ask("delete %d" % first) == "DELETED"  # which makes all of those stale
    for size in (1000, 100, 10, 1):
        while batch(client, b"fill", lambda n: b"9 0 60 0\r\n\r\n", size):
            pass
    beggars = [daemon.job_client(deadline=60) for _ in range(2)]
    for c in beggars:
        c.ask("watch k")
        c.ask("ignore default")

    def beg():
        for b in beggars:
            b.say("reserve-with-timeout 0")

    def read():
        for b in beggars:
            assert b.line() == "TIMED_OUT", "a request for a job is not answered with TIMED_OUT"

    during = p99_ms(other, seconds, wait, attack=beg, after=read)
    compare("a full memory", before, during)
    if seconds > 1:
        assert during <= 2 * before + SLACK_MS, "a full memory: %.1f ms" % during


def stale(start, scale, rng):
    """Stale jobs in front: very many, and with no memory."""
    del rng
    seconds, many = (4, 300000) if scale.beside else (0.3, 3000)
    with tempfile.TemporaryDirectory() as folder:
        for name, limit in (("root", "1G"), ("memory", "4M")):
            daemon = start("jobs.enable=true", "jobs.port=0", "counter.threads=2", "jobs.sync=normal",
                           "jobs.memory_limit=" + limit,
                           "jobs.path=" + os.path.join(folder, name), admin=True)  # fmt: skip
            if name == "root":
                newer_root(daemon, many, seconds)
            else:
                no_memory(daemon, seconds)
            daemon.stop()
