"""
The Python client: its types, wheel, examples and README, and what stories cannot show: children that live on,
forgotten holds, the log, and cancelling by tasks.
"""

import asyncio
import gc
import functools
import importlib.util
import logging
import os
import re
import shutil
import signal
import threading
import time

import programs
from programs import EXAMPLES, JOBS, POOL, TOP, url
import tap
import pytest

import wire
from conftest import start  # noqa: F401: a fixture

import counterd
from counterd import aio
from counterd._options import Options

SOURCES = os.path.join(TOP, "clients", "python")
PYTHON = "/usr/bin/python3"
run = functools.partial(programs.run, PYTHONDONTWRITEBYTECODE="1")


def have(module):
    """Skips the test where Debian's Python has no such module."""
    if importlib.util.find_spec(module) is None:
        pytest.skip("python3-%s is not installed" % module)


# --- the package ---------------------------------------------------------------------------------


def test_types_are_strict(tmp_path):
    have("mypy")
    program = tmp_path / "readme.py"
    program.write_text("\n".join(programs.blocks("python", "python")))
    for name in EXAMPLES:  # each is a program, so each is a __main__
        shutil.copy(os.path.join(SOURCES, "examples", name + ".py"), tmp_path / (name + "_example.py"))
    run(
        PYTHON, "-m", "mypy", "--strict", "--python-version", "3.11",
        "--cache-dir", str(tmp_path / "cache"), os.path.join(SOURCES, "counterd"), *map(str, tmp_path.glob("*.py")),
        MYPYPATH=SOURCES,
    )  # fmt: skip


def test_wheel_builds_and_imports_without_a_network(tmp_path):
    for module in ("pip", "setuptools", "wheel"):
        have(module)
    copy, wheels, target = (str(tmp_path / name) for name in ("copy", "wheels", "target"))
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    pip = (PYTHON, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir")
    offline = ("--no-deps", "--no-index", "--quiet")
    run(*pip, "wheel", "--no-build-isolation", *offline, "-w", wheels, copy)
    (wheel,) = os.listdir(wheels)
    assert re.fullmatch(r"counterd-[\d.]+-py3-none-any\.whl", wheel)
    run(*pip, "install", *offline, "--target", target, os.path.join(wheels, wheel))
    modules = sorted(n for n in os.listdir(os.path.join(SOURCES, "counterd")) if n[0] != "_" or n == "__init__.py")
    assert "py.typed" in modules and set(modules) <= set(os.listdir(os.path.join(target, "counterd")))
    said = run(
        PYTHON, "-P", "-c", "import counterd, counterd.aio; print(counterd.Client, counterd.__file__)",
        folder=str(tmp_path), PYTHONPATH=target,
    )  # fmt: skip
    assert target in said


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_print_what_the_readme_says(start, name):
    daemon = start(*JOBS, *POOL)
    path = "examples/%s.py" % name
    said = run(PYTHON, os.path.join(SOURCES, path), PYTHONPATH=SOURCES, COUNTER_URL=url(daemon))
    assert said == programs.printed("python", path)


def test_readme_runs(start):
    daemon = start(*JOBS)
    programs.add_gpu(daemon)
    program = "\n".join(programs.blocks("python", "python"))
    address = re.search(r'Client\("(counter://.*?)"\)', program).group(1)
    for proto in ("text", "binary", "jobs"):  # the calls below it can be made
        assert Options(address, {}).addresses(proto)
    for other in re.findall(r"`(counter://[^`]*)`", programs.read("clients", "python", "README.md")):
        assert Options(other, {}).addresses("text")
    program = program.replace('"%s"' % address, "")
    program = program.replace('print("cut off:', 'threading.Timer(1, worker.stop).start()\nprint("cut off:')
    program = "import threading\n" + program
    said = run(PYTHON, "-W", "error", "-c", program, PYTHONPATH=SOURCES, COUNTER_URL=url(daemon))
    for words in ("at most 2 are here", "do the work", "3 of 10", "gpu0 /dev/nvidia0", "put now", "cut off: 0"):
        assert words in said
    assert "b'Dear customer' 1" in said and "this block is cancelled" in said


# --- forks, threads, forgotten holds -------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sync", "aio"])
def test_a_child_that_lives_on_keeps_no_lock(start, kind):
    daemon = start()
    client = counterd.Client(url(daemon))
    reader, writer = os.pipe()

    def fork(lock):
        """Forks, and ends the parent; its child goes on."""
        if os.fork() == 0:
            os.close(reader)
            os.write(writer, b"%d %d" % (os.getpid(), lock.lost))
            time.sleep(60)
        os._exit(0)

    async def hold():
        fork(await aio.Client(url(daemon)).lock("k"))

    holder = os.fork()
    if holder == 0:
        fork(client.lock("k")) if kind == "sync" else asyncio.run(hold())
    os.close(writer)
    grandchild, is_lost = (int(word) for word in os.read(reader, 100).split())
    try:
        os.waitpid(holder, 0)
        assert is_lost
        client.lock("k", timeout=20).release()
    finally:
        os.kill(grandchild, signal.SIGKILL)
        os.close(reader)


def test_a_forgotten_hold_is_warned_of(start):
    """Stories show that it closes."""
    client = counterd.Client(url(start()))
    with pytest.warns(ResourceWarning, match="was not given back"):
        client.lock("k")
        gc.collect()
    client.close()


# --- hooks ---------------------------------------------------------------------------------------


def test_what_is_logged(start, caplog):
    daemon = start()
    caplog.set_level(logging.DEBUG, "counterd")
    with counterd.Client("counter://127.0.0.1:1,127.0.0.1:%d" % daemon.text[1]) as client:
        for n in range(20):
            client.lock("k%d" % n).release()
        lock = client.lock("k")
        daemon.end_with(signal.SIGTERM)
        wire.poll(lambda: lock.lost, "the loss is seen")
        with pytest.raises(counterd.Lost):
            lock.release()
    words = [record.getMessage() for record in caplog.records]
    assert {record.name for record in caplog.records} == {"counterd"}
    assert any("down" in text for text in words) and any("lost" in text for text in words)


# --- asyncio -------------------------------------------------------------------------------------


def play(daemon, story, **parameters):
    """Runs `story(client)` with a client of its own, for a minute at most."""

    async def whole():
        async with asyncio.timeout(60):
            async with aio.Client(url(daemon), **parameters) as client:
                return await story(client)

    return asyncio.run(whole())


def test_nested_holds_are_lost_together(start):
    daemon = start()

    async def story(client):
        with pytest.raises(counterd.Lost):
            async with client.lock("a"), client.units("b", 1, 1), client.lock("c"):
                daemon.end_with(signal.SIGKILL)
                await asyncio.sleep(60)
        assert asyncio.current_task().cancelling() == 0
        await asyncio.sleep(0)

    play(daemon, story)


def test_both_cancels_at_once_are_a_cancel(start):
    daemon = start()

    async def story(client):
        async def hold():
            async with client.lock("k") as lock:
                held.set_result(lock)
                await asyncio.sleep(60)

        loop = asyncio.get_running_loop()
        held = loop.create_future()
        task = asyncio.create_task(hold())
        lock = await held
        daemon.end_with(signal.SIGKILL)
        wire.poll(lambda: lock.lost, "the loss is seen")  # without the loop, which cancels next
        loop.call_soon(task.cancel)  # and this right behind
        with pytest.raises(asyncio.CancelledError):
            await task

    play(daemon, story)


def test_an_error_of_the_body_is_not_replaced(start):
    daemon = start()
    seen = []

    async def story(client):
        with pytest.raises(ZeroDivisionError):
            async with client.lock("k"):
                daemon.end_with(signal.SIGKILL)
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    raise ZeroDivisionError from None
        assert asyncio.current_task().cancelling() == 0

    play(daemon, story, on_event=lambda event: seen.append(event.kind))
    assert "lost" in seen


@pytest.mark.parametrize("way", ["awaited", "watch"])
def test_who_is_not_watched_is_only_told(start, way):
    daemon = start()

    async def story(client):
        async def told(lock):
            daemon.end_with(signal.SIGKILL)
            while not lock.lost:
                await asyncio.sleep(0.01)

        if way == "awaited":
            lock = await client.lock("k")
            await told(lock)
            with pytest.raises(counterd.Lost):
                await lock.release()
        else:
            with pytest.raises(counterd.Lost):
                async with client.lock("k", watch=False) as lock:
                    await told(lock)
        assert asyncio.current_task().cancelling() == 0

    play(daemon, story)


def test_a_look_during_a_release_loses_nothing(start):
    daemon = start()

    async def story(client):
        for _ in range(20):
            lock = await client.lock("k", timeout=0)
            release = asyncio.create_task(lock.release())
            while not release.done():
                assert not lock.lost
                await asyncio.sleep(0)
            await release

    play(daemon, story)


def test_a_handler_that_is_no_coroutine_has_failed(start, caplog):
    daemon = start(*JOBS)

    async def story(client):
        worker = aio.Worker(client, ["t"], lambda job: worker.stop(), tries=1)
        await client.put("t", b"x")
        assert await worker.run() == 0
        assert [job.tries async for job in client.list_jobs("t", "buried")] == [1]

    play(daemon, story)
    assert "failed" in caplog.text


def test_signals_are_set_as_before(start):
    daemon = start(*JOBS)

    async def story(client):
        before = signal.getsignal(signal.SIGTERM)

        async def handler(job):
            os.kill(os.getpid(), signal.SIGTERM)

        await client.put("t", b"x")
        assert await aio.Worker(client, ["t"], handler).run() == 0
        assert signal.getsignal(signal.SIGTERM) == before

    play(daemon, story)


def test_a_worker_in_a_thread_touches_no_signal(start):
    daemon = start(*JOBS)
    before = signal.getsignal(signal.SIGTERM)
    with counterd.Client(url(daemon)) as client:
        client.put("t", b"x")
        worker = counterd.Worker(client, ["t"], lambda job: worker.stop())
        done = []
        thread = threading.Thread(target=lambda: done.append(worker.run()))
        thread.start()
        assert signal.getsignal(signal.SIGTERM) == before
        thread.join(40)
    assert done == [0]


if __name__ == "__main__":
    tap.main(__file__)
