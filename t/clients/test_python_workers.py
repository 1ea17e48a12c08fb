"""The workers of the Python client, of threads and of tasks, where stories do not reach: how a run and its jobs end."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
import weakref

TOP = os.environ.get("TOP_SRCDIR") or os.path.join(os.path.dirname(__file__), "..", "..")
TOP = os.path.abspath(TOP)
sys.path[:0] = [os.path.join(TOP, "t", "system"), os.path.join(TOP, "clients", "python")]

import tap
import pytest

import counterd
from counterd import aio, worker
from counterd._sync import run

KNOWN = b"OK 4\r\n---\n\r\n"
TTR = b"OK 12\r\n---\nttr: 60\n\r\n"
WAYS = pytest.mark.parametrize("way", ["threads", "tasks"])


@contextlib.contextmanager
def serving(rule=None):
    """
    A server of jobs whose claims give one after the other. `rule`: what a line is answered, None:
    as usual. Yields its port, the lines heard, and the numbers of connections that have ended.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    heard, ended = [], []
    usual = {"tube": KNOWN, "ack": b"DELETED\r\n", "nack": b"RELEASED\r\n", "stats-job": TTR, "renew": b"TOUCHED\r\n"}

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


async def stop(made, job, sleep):
    made.stop()


def test_threads_claim_no_more_when_run_was_left_by_an_exception():
    def interrupt(number, frame):
        raise InterruptedError

    async def handler(made, job, sleep):
        await sleep(0.05)

    async def story(start, made):
        with pytest.raises(InterruptedError):
            await start()
        until(lambda: not [thread for thread in threading.enumerate() if "_place" in thread.name])

    old = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with serving() as (port, _, _):
            work("threads", port, handler, story, concurrency=3)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


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
def test_the_connection_of_a_lost_job_closes(way):
    kept = []

    async def handler(made, job, sleep):
        kept.append(job)
        made.stop()
        while not job.lost:
            await sleep(0.01)

    with serving(lambda line: b"NOT_FOUND\r\n" if line[:5] in ("renew", "stats") else None) as (port, _, ended):
        assert work(way, port, handler) == 0
        until(lambda: ended == [0])
    assert len(kept) == 1


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
def test_a_handler_that_ends_since_it_was_told_to_does_not_acknowledge(way):
    async def handler(made, job, sleep):
        made.stop()
        with contextlib.suppress(asyncio.CancelledError):
            while not job.lost:
                await sleep(0.01)

    with serving() as (port, heard, _):
        assert work(way, port, handler, grace=0.2) == 1
    assert "nack 1 99 0" in heard and "ack 1 99" not in heard


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
        return list(ended)

    with serving() as (port, _, _):
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
