"""
The Python client where stories do not reach: signals, forgotten jobs, hooks, loops, and how a run of a worker and its
jobs end.
"""

import asyncio
import contextlib
import gc
import hashlib
import logging
import os
import signal
import socket
import ssl
import threading
import time
import warnings
import weakref

import programs
from programs import JOBS, url
import tap
import pytest

import counterd
import wire
from conftest import start  # noqa: F401: a fixture
from counterd import _wire, aio, worker
from counterd._sync import run

KNOWN = b"OK 4\r\n---\n\r\n"
TTR = b"OK 12\r\n---\nttr: 60\n\r\n"
WAYS = pytest.mark.parametrize("way", ["threads", "tasks"])


@contextlib.contextmanager
def serving(rule=None):
    """
    A server of locks and of jobs, whose claims give one after the other. `rule`: what a line is answered; None: as
    usual; a tuple: that, and then the connection closes. Yields its port, the lines heard, and the numbers of
    connections that have ended.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    heard, ended = [], []
    usual = {"tube": KNOWN, "ack": b"DELETED\r\n", "nack": b"RELEASED\r\n", "stats-job": TTR, "renew": b"TOUCHED\r\n"}
    usual.update(ACQ4ME=b"LOCKED\n", RELEASE=b"RELEASED\n")

    def answer(line):
        word = line.split()[0]
        if word == "claim":
            number = sum(line.startswith("claim") for line in heard)
            return b"CLAIMED 1\r\nRESERVED %d 1 99 t 1\r\nx\r\n" % number
        return usual[word]

    def serve(client, number):
        with client, client.makefile("rb") as lines, contextlib.suppress(OSError):
            for line in lines:
                heard.append(line.decode().strip())
                given = rule(heard[-1]) if rule else None
                if isinstance(given, tuple):
                    client.sendall(*given)
                    break
                client.sendall(answer(heard[-1]) if given is None else given)
        ended.append(number)

    def accept():
        with contextlib.suppress(OSError):
            for number in range(1000):
                threading.Thread(target=serve, args=(listener.accept()[0], number), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1], heard, ended
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def work(way, port, handler, story=None, io_timeout=20, **more):
    """
    Runs a worker of that kind, and returns what its `run` does. `handler(worker, job, sleep)`: a
    coroutine, run by a thread as well. `story(start, worker)`: instead of one `run`.
    """

    async def once(start, made):
        return await start()

    story = story or once
    if way == "threads":

        async def sleep(seconds):
            time.sleep(seconds)

        with counterd.Client("counter://127.0.0.1", jobs=port, io_timeout=io_timeout) as client:
            made = counterd.Worker(client, ["t"], lambda job: run(handler(made, job, sleep)), **more)

            async def start():
                return made.run(signals=False)

            return run(story(start, made))

    async def whole():
        async with aio.Client("counter://127.0.0.1", jobs=port, io_timeout=io_timeout) as client:

            async def call(job):
                await handler(made, job, asyncio.sleep)

            made = aio.Worker(client, ["t"], call, **more)
            return await story(lambda: made.run(signals=False), made)

    return asyncio.run(whole())


def until(holds):
    """Waits for it."""
    end = time.monotonic() + 20
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    assert holds()


@contextlib.contextmanager
def on_alarm(handler):
    """What SIGALRM does meanwhile. Yields what raises it."""
    before = signal.signal(signal.SIGALRM, handler)
    try:
        yield lambda: os.kill(os.getpid(), signal.SIGALRM)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_what_is_no_text_is_a_wrong_type():
    client = counterd.Client("counter://127.0.0.1:1?jobs=1")
    for body in (5, None, ["x"]):
        with pytest.raises(TypeError):
            client.put("t", body)
    with pytest.raises(counterd.Usage):
        client.put("t", "\ud800")
    assert _wire.record(counterd.NewJob(bytearray(b"ab"))) == b"1024 0 60 2\r\nab\r\n"


def test_a_forgotten_job_goes_back_when_the_others_of_its_claim_have_ended(start):
    daemon = start(*JOBS)
    with counterd.Client(url(daemon)) as client:
        client.put_many("t", [counterd.NewJob(b"1"), counterd.NewJob(b"2")])
        one, other = client.claim("t", count=2)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del one
            gc.collect()
        assert [w.category for w in caught] == [ResourceWarning]
        assert client.tube("t")["current-jobs-reserved"] == 2  # nothing was taken from the other
        other.ack()
        job = client.claim("t", timeout=20)[0]
        assert job.body == b"1"
        job.ack()


def test_a_lost_job_is_forgotten_without_a_warning(start):
    daemon = start(*JOBS)
    with counterd.Client(url(daemon)) as client:
        client.put("t", b"1", ttr=1)
        job = client.claim("t")[0]
        wire.poll(lambda: client.tube("t")["current-jobs-ready"] == 1, "the ttr is over")
        with pytest.raises(counterd.Lost):
            job.renew()
        assert job.lost
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            del job
            gc.collect()


def test_a_worker_with_a_hook_tells_that_one(start):
    daemon = start(*JOBS)
    told, own = [], []
    with counterd.Client(url(daemon), on_event=lambda event: told.append(event.kind)) as client:
        client.put("t", b"1")
        made = counterd.Worker(client, ["t"], lambda job: made.stop(), on_event=own.append)
        assert made.run(signals=False) == 0
    assert [event.result for event in own if event.kind == "job"] == ["ack"]
    assert "job" not in told


def test_backoff_doubles_up_to_an_hour():
    for tries, least in ((1, 0.8), (2, 1.6), (3, 3.2), (13, 2880), (1000, 2880)):
        assert all(least <= worker.backoff(tries) <= least * 1.5 for _ in range(100))


def test_refused_calls_leave_no_cycles(start):
    daemon = start()
    with counterd.Client(url(daemon)) as client, client.lock("k"):
        gc.collect()
        gc.disable()
        try:
            for _ in range(20):
                with pytest.raises(counterd.Busy):
                    client.lock("k", timeout=0)
            with client.lock("other"):
                pass
            assert gc.collect() < 20
        finally:
            gc.enable()


# --- who owns a connection


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_job_forgotten_in_a_cycle_is_given_back(start):
    daemon = start(*JOBS)

    def forget(client):
        job = client.claim("t")[0]
        try:
            raise ValueError
        except ValueError as error:
            kept = error  # its traceback has this frame, with the error and the job
        job._claim.__del__()  # the collector may begin with it
        assert kept

    with counterd.Client(url(daemon)) as client:
        client.put("t", b"1", ttr=3600)
        forget(client)
        gc.collect()
        client.put("other", b"2")  # not over the connection that has the job
        until(lambda: client.tube("t")["current-jobs-ready"] == 1)


# --- hooks, alarms, forks


def test_a_hook_may_release_what_is_lost():
    holds, told = [], []

    def hook(event):
        told.append(event.kind)
        if event.kind == "lost":
            with contextlib.suppress(counterd.Lost):
                holds[0].release()

    with serving(lambda line: (b"LOCKED\n",)) as (port, _, ended):
        with counterd.Client("counter://127.0.0.1:%d" % port, on_event=hook) as client:
            holds.append(client.lock("k", timeout=0))
            until(lambda: ended)
            looks = threading.Thread(target=lambda: until(lambda: holds[0].lost), daemon=True)
            looks.start()
            looks.join(20)
            assert not looks.is_alive() and told.count("lost") == told.count("held") == 1


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_collector_calls_no_hook():
    told = []
    with serving() as (port, _, ended):
        client = counterd.Client("counter://127.0.0.1:%d" % port, on_event=told.append)
        cycle = [client.lock("k", timeout=0)]
        cycle.append(cycle)
        before = len(told)
        del cycle
        gc.collect()
        until(lambda: ended)
        assert before == len(told)


def test_an_alarm_of_the_program_stays_its_own():
    def alarm(number, frame):
        raise TimeoutError("of the program")

    with on_alarm(alarm) as ring, serving(lambda line: ring() or b"") as (port, _, ended):
        with counterd.Client("counter://127.0.0.1:%d" % port, io_timeout=20) as client:
            with pytest.raises(TimeoutError, match="of the program"):
                client.lock("k", timeout=0)
            until(lambda: ended)


def test_a_child_has_no_connection_in_the_making():
    listener = socket.create_server(("127.0.0.1", 0))
    address = "counter://127.0.0.1:%d?tls=1" % listener.getsockname()[1]
    client = counterd.Client(address, connect_timeout=1)
    errors = []

    def lock():
        try:
            client.lock("k", timeout=0)
        except counterd.Unreachable as error:
            errors.append(error)

    thread = threading.Thread(target=lock, daemon=True)
    thread.start()
    server = listener.accept()[0]
    server.settimeout(20)
    assert server.recv(1)  # of the handshake
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)  # lives as long as the test
        os._exit(0)
    try:
        while server.recv(4096):  # the end comes, as the child has no copy
            pass
    finally:
        os.close(writer)
        os.close(reader)
        os.waitpid(child, 0)
        server.close()
        listener.close()
    thread.join(20)
    assert errors


def test_a_handshake_has_its_share_of_the_time(monkeypatch):
    shares = []

    def handshake(sock):
        shares.append(sock.gettimeout())
        raise ConnectionResetError

    monkeypatch.setattr(ssl.SSLSocket, "do_handshake", handshake)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address)] * 2
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        client = counterd.Client(f"counter://localhost:{address[1]}", tls=True, connect_timeout=20)
        with pytest.raises(counterd.Unreachable):
            client.lock("k")
    assert len(shares) == 2 and shares[0] <= 10


# --- options


@pytest.mark.parametrize(
    "wrong",
    [
        {"tls_name": "."},
        {"tls_name": ".a"},
        {"tls_name": "a\0b"},
        {"tls_name": "a" * 70},
        {"tls_name": "\u00fc" * 70},
        {"tls": True, "tls_ca": "a\0b"},
        {"text": "unix:/tmp/\ud800"},
        {"io_timeout": 10**400},
    ],
)
def test_wrong_options_are_usage(wrong):
    with pytest.raises(counterd.Usage):
        counterd.Client("counter://127.0.0.1:1", **wrong)


def test_the_order_of_servers_is_no_security(monkeypatch):
    md5 = hashlib.md5

    def fips(data, *, usedforsecurity=True):
        if usedforsecurity:
            raise ValueError("disabled for FIPS")
        return md5(data)

    monkeypatch.setattr(hashlib, "md5", fips)
    assert counterd.servers_for("k", ["a:7531", "c:7531", "b:7531"]) == ["a:7531", "b:7531", "c:7531"]


# --- asyncio


def test_a_hold_of_an_ended_loop_is_lost(start):
    daemon = start()
    client = aio.Client("counter://127.0.0.1:%d" % daemon.text[1])

    async def lock():
        return await client.lock("k", timeout=20)

    async def release(hold):
        with pytest.raises(counterd.Lost):
            await hold.release()
        await (await client.lock("k", timeout=20)).release()  # it is free

    gc.disable()  # the collector would hide it
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            asyncio.run(release(asyncio.run(lock())))
            asyncio.run(lock())  # forgotten
            asyncio.run(release(asyncio.run(lock())))
    finally:
        gc.enable()


def test_loops_leave_no_connections(start):
    daemon = start()
    client = aio.Client("counter://127.0.0.1:%d" % daemon.text[1])

    async def lock():
        async with client.lock("k", timeout=20):
            return len(os.listdir("/proc/self/fd"))

    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            asyncio.run(lock())
            assert len({asyncio.run(lock()) for _ in range(4)}) == 1
    finally:
        gc.enable()


# --- workers


async def stop(made, job, sleep):
    made.stop()


def test_threads_claim_no_more_when_run_was_left_by_an_exception():
    def interrupt(number, frame):
        raise InterruptedError

    async def handler(made, job, sleep):
        if job.id == 3:
            ring()
        await sleep(0.05)

    async def story(start, made):
        with pytest.raises(InterruptedError):
            await start()
        until(lambda: not [thread for thread in threading.enumerate() if "_place" in thread.name])

    with on_alarm(interrupt) as ring, serving() as (port, _, _):
        work("threads", port, handler, story, concurrency=3)


@WAYS
def test_what_leaves_a_place_leaves_run(way, monkeypatch):
    async def broken(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(counterd._core.Core, "reserve", broken)
    with pytest.raises(ZeroDivisionError):
        work(way, 1, stop, concurrency=3)


@WAYS
def test_failed_jobs_are_freed_at_once(way, monkeypatch):
    monkeypatch.setattr(logging.getLogger("counterd"), "disabled", True)  # tests keep what is logged
    jobs, alive = [], []

    async def handler(made, job, sleep):
        alive.append(sum(one() is not None for one in jobs))
        jobs.append(weakref.ref(job))
        if job.id == 10:
            made.stop()
        raise ValueError

    gc.collect()
    gc.disable()
    try:
        with serving() as (port, _, _):
            work(way, port, handler)
    finally:
        gc.enable()
    assert max(alive) <= 1, alive


@WAYS
def test_a_stop_before_run_is_not_forgotten(way):
    async def story(start, made):
        made.stop()
        return [await start(), await start()]

    with serving() as (port, heard, _):
        assert work(way, port, stop, story) == [0, 0]
    assert [line for line in heard if line.startswith("claim")] == ["claim 1 2 t"]


def test_a_handler_that_ends_well_in_the_last_second_acknowledges():
    async def handler(made, job, sleep):
        made.stop()
        await sleep(0.7)

    with serving() as (port, heard, _):
        assert work("threads", port, handler, grace=0.2) == 0
    assert "ack 1 99" in heard and not [line for line in heard if line.startswith("nack")]


@WAYS
def test_the_end_of_the_grace_gives_all_jobs_back_at_once(way):
    running, end = [], threading.Event()

    async def handler(made, job, sleep):
        running.append(job)
        if len(running) == 25:
            made.stop()
        while not end.is_set():
            await sleep(0.01)

    with serving(lambda line: b"" if line.startswith("nack") else None) as (port, _, _):
        start = time.monotonic()
        assert work(way, port, handler, io_timeout=1, concurrency=25, grace=0.01) == 25
        assert time.monotonic() - start < 20
        end.set()


def test_a_job_that_comes_when_run_has_returned_goes_back():
    returned = threading.Event()

    def rule(line):
        if line.startswith("claim"):
            returned.wait(20)

    async def story(start, made):
        def end():
            until(lambda: [line for line in heard if line.startswith("claim")])
            made.stop()

        threading.Thread(target=end, daemon=True).start()
        assert await start() == 0
        returned.set()
        until(lambda: "nack 1 99 0" in heard)

    async def handler(made, job, sleep):
        ran.append(job)

    ran = []
    with serving(rule) as (port, heard, _):
        work("threads", port, handler, story, grace=0.01)
    assert not ran


def test_a_run_that_is_cancelled_awaits_its_handlers():
    begun, ended = [], []

    async def handler(made, job, sleep):
        begun.append(job)
        try:
            await sleep(60)
        finally:
            await sleep(0.3)
            ended.append(job.id)

    async def story(start, made):
        task = asyncio.ensure_future(start())
        while not begun:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        found = list(ended)
        async with asyncio.timeout(20):
            while not gone:  # the job goes back with its connection
                await asyncio.sleep(0.01)
        return found

    with serving() as (port, _, gone):
        assert work("tasks", port, handler, story) == [1]


@WAYS
def test_after_a_fault_handlers_have_their_grace(way):
    lost = []

    async def handler(made, job, sleep):
        began = time.monotonic()
        try:
            while not job.lost and time.monotonic() - began < 25:
                await sleep(0.01)
        finally:
            lost.append(job.lost)

    def rule(line):
        return b"UNKNOWN_COMMAND\r\n" if line.startswith("claim") and "claim 1 2 t" in heard[:-1] else None

    with serving(rule) as (port, heard, _), pytest.raises(counterd.Unsupported):
        work(way, port, handler, concurrency=2, grace=0.3)
    assert lost == [True]


def test_signals_that_python_did_not_set_become_the_usual_ones(monkeypatch):
    set_to = []

    def record(number, handler):
        set_to.append(handler)
        return None

    monkeypatch.setattr(signal, "signal", record)
    with worker.handled(True, print):
        assert len(set_to) == 2
    assert set_to[2:] == [signal.SIG_DFL] * 2


if __name__ == "__main__":
    tap.main(__file__)
