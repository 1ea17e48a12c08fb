"""The core of the Python client, where stories do not reach: signals, forgotten jobs, hooks, loops."""

import asyncio
import contextlib
import gc
import hashlib
import os
import resource
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import warnings

TOP = os.environ.get("TOP_SRCDIR") or os.path.join(os.path.dirname(__file__), "..", "..")
TOP = os.path.abspath(TOP)
sys.path[:0] = [os.path.join(TOP, "t", "system"), os.path.join(TOP, "clients", "python")]

import tap
import pytest

from conftest import start  # noqa: F401: a fixture

import counterd
import wire
from counterd import _wire, aio, worker

JOBS = ("jobs.enable=true", "jobs.port=0")
ACQUIRE, LOCKED = b"ACQ4ME k 1 101 0\n", b"LOCKED\n"


@contextlib.contextmanager
def scripted(*scripts):
    """
    A server. Each script is of one connection: a list of (what is read, what is sent; None: it
    closes). Yields its port, and how many connections have ended.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    ended = []

    def serve():
        for script in scripts:
            client = listener.accept()[0]
            for wanted, answer in script:
                heard = b""
                while len(heard) < len(wanted):
                    heard += client.recv(len(wanted) - len(heard)) or b"\0" * len(wanted)
                if answer is None:
                    break
                client.sendall(answer)
            else:
                client.recv(1)
            client.close()
            ended.append(True)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1], ended
    finally:
        thread.join(20)
        listener.close()
        assert not thread.is_alive()


def soon(what):
    """Waits for it to become true."""
    until = time.monotonic() + 20
    while not what() and time.monotonic() < until:
        time.sleep(0.01)
    assert what()


def connect(daemon, **more):
    return counterd.Client(
        "counter://127.0.0.1:%d" % daemon.text[1],
        binary=daemon.binary[1],
        jobs=daemon.jobs[1] if daemon.jobs else None,
        connect_timeout=20,
        io_timeout=20,
        **more,
    )


def test_signals_do_not_prolong_a_wait():
    before = signal.signal(signal.SIGALRM, lambda number, frame: None)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        with scripted([(b"ACQ4ME k 1 101 0\n", b"")]) as (port, _):
            began = time.monotonic()
            with counterd.Client("counter://127.0.0.1:%d" % port, io_timeout=0.3) as client:
                with pytest.raises(counterd.Unanswered):
                    client.lock("k", timeout=0)
        assert 0.3 <= time.monotonic() - began < 60
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
    with connect(daemon) as client:
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
    with connect(daemon) as client:
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
    with connect(daemon, on_event=lambda event: told.append(event.kind)) as client:
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
    with connect(daemon) as client, client.lock("k"):
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

    with connect(daemon) as client:
        client.put("t", b"1", ttr=3600)
        forget(client)
        gc.collect()
        client.put("other", b"2")  # not over the connection that has the job
        soon(lambda: client.tube("t")["current-jobs-ready"] == 1)


# --- hooks, alarms, forks


def test_a_hook_may_release_what_is_lost():
    holds, told = [], []

    def hook(event):
        told.append(event.kind)
        if event.kind == "lost":
            with contextlib.suppress(counterd.Lost):
                holds[0].release()

    with scripted([(ACQUIRE, LOCKED), (b"", None)]) as (port, ended):
        with counterd.Client("counter://127.0.0.1:%d" % port, on_event=hook) as client:
            holds.append(client.lock("k", timeout=0))
            soon(lambda: ended)
            looks = threading.Thread(target=lambda: soon(lambda: holds[0].lost), daemon=True)
            looks.start()
            looks.join(20)
            assert not looks.is_alive() and told.count("lost") == told.count("held") == 1


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_collector_calls_no_hook():
    told = []
    with scripted([(ACQUIRE, LOCKED)]) as (port, ended):
        client = counterd.Client("counter://127.0.0.1:%d" % port, on_event=told.append)
        cycle = [client.lock("k", timeout=0)]
        cycle.append(cycle)
        before = len(told)
        del cycle
        gc.collect()
        soon(lambda: ended)
        assert before == len(told)


def test_an_alarm_of_the_program_stays_its_own():
    def alarm(number, frame):
        raise TimeoutError("of the program")

    before = signal.signal(signal.SIGALRM, alarm)
    try:
        with scripted([(ACQUIRE, b"")]) as (port, ended):
            with counterd.Client("counter://127.0.0.1:%d" % port, io_timeout=20) as client:
                signal.setitimer(signal.ITIMER_REAL, 0.3)
                with pytest.raises(TimeoutError, match="of the program"):
                    client.lock("k", timeout=0)
                soon(lambda: ended)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


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


def test_a_name_that_descriptors_lack_for_is_no_fault_of_the_server(monkeypatch):
    told, kept = [], []

    def unknown(*_, **__):  # what the resolver says when it can't read its files
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    client = counterd.Client("counter://localhost", on_event=told.append)
    few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, most))
    try:
        with contextlib.suppress(OSError):
            while True:
                kept.append(os.dup(0))
        with pytest.raises(counterd.Unreachable):
            client.lock("k")
    finally:
        for fd in kept:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, most))
    assert "down" not in [event.kind for event in told]
    with pytest.raises(counterd.Unreachable):
        client.lock("k")
    assert "down" in [event.kind for event in told]


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


def test_an_empty_variable_is_none(monkeypatch):
    monkeypatch.setenv("COUNTER_URL", "")
    counterd.Client()
    with pytest.raises(counterd.Usage):
        counterd.Client("")


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


def test_a_key_with_a_password_is_usage(tmp_path):
    key, cert = str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")
    make = "openssl req -x509 -newkey rsa:2048 -passout pass:secret -subj /CN=x -days 2".split()
    subprocess.run([*make, "-keyout", key, "-out", cert], check=True, capture_output=True)
    program = "import sys, counterd; counterd.Client('counter://h:1', tls=1, tls_cert=sys.argv[1], tls_key=sys.argv[2])"
    done = subprocess.run(
        [sys.executable, "-c", program, cert, key],
        env={**os.environ, "PYTHONPATH": os.path.join(TOP, "clients", "python")},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert "Usage" in done.stderr and "PEM pass phrase" not in done.stderr


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


if __name__ == "__main__":
    tap.main(__file__)
