"""
`counterctl put`, `work` and `jobs` against the real daemon, and where it is installed against a plain
beanstalkd.
"""

import collections
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading

import tap
import pytest

import ctl
import servers
import test_upgrade
import wire

pytestmark = pytest.mark.skipif(not ctl.have_counterctl(), reason="COUNTERCTL names no program")

NO, USAGE, NO_INPUT, UNAVAILABLE, PROTOCOL, DENIED = 1, 64, 66, 69, 76, 77

BEANSTALKD = shutil.which("beanstalkd")


# --- servers ---------------------------------------------------------------------------------------


class Jobs:
    """A server of job queues; `at` are the words that name it."""

    def __init__(self, port, process, text=None):
        self.port, self.process, self.text = port, process, text
        self.at = ("-s", "127.0.0.1:%d" % port)

    def ctl(self, *words, **kwargs):
        return ctl.run(*self.at, *words, **kwargs)

    def put(self, tube, *bodies, words=()):
        done = self.ctl("put", tube, "--lines", *words, stdin="\n".join(bodies).encode())
        assert (done.status, done.err) == (0, "")
        return [int(line) for line in done.out.split()]

    def tube(self, name):
        """The counts of a tube; None if there is none."""
        done = self.ctl("jobs", "--json")
        assert done.status == 0, done.err
        rows = [json.loads(line) for line in done.out.splitlines()]
        return next((row for row in rows if row["name"] == name), None)

    def counts(self, name):
        row = self.tube(name) or collections.defaultdict(int)
        return tuple(row["current-jobs-" + state] for state in ("ready", "delayed", "reserved", "buried"))

    def list(self, name):
        done = self.ctl("jobs", "list", name, "--json")
        return [json.loads(line) for line in done.out.splitlines()]

    def work(self, *words):
        return ctl.Running(*self.at, "work", *words)


def counterd(start, *options, port=None):
    port = port or servers.free_port()
    process = start("jobs.enable=true", "jobs.port=%d" % port, "counter.threads=2", *options)
    return Jobs(port, process, process.text)


@pytest.fixture(name="jobs")
def the_jobs(start):
    return counterd(start)


@pytest.fixture(name="stored")
def with_a_store(start, tmp_path):
    return counterd(start, "jobs.path=%s" % (tmp_path / "jobs.db"))


@pytest.fixture(name="plain")
def a_beanstalkd():
    if not BEANSTALKD:
        pytest.skip("beanstalkd is not installed")
    port = servers.free_port()
    process = servers.Process([BEANSTALKD, "-l", "127.0.0.1", "-p", str(port)])
    try:
        servers.wait_listening(process, ("127.0.0.1", port))
        yield Jobs(port, process)
    finally:
        process.kill()


@pytest.fixture(name="server", params=["counterd", "stored", "beanstalkd"])
def either(request):
    names = {"counterd": "jobs", "stored": "stored", "beanstalkd": "plain"}
    return request.getfixturevalue(names[request.param])


def processes():
    """Returns the state, the parent and the group of every process."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % entry) as f:
                fields = f.read().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[int(entry)] = (fields[0], int(fields[1]), int(fields[2]))
    return found


def is_there(pid):
    return processes().get(pid, "Z")[0] != "Z"


def wait_pid(path):
    """The process that has written its number into a file."""

    def read():
        return os.path.exists(path) and open(path).read().endswith("\n")

    wire.poll(read, "the command has started")
    with open(path) as f:
        return int(f.read().split()[-1])


def sleeper(path):
    """A command that writes its number into a file, and sleeps until a signal ends it."""
    return ("--", "sh", "-c", 'echo $$ >>"%s"; exec sleep 1000' % path)


class Relay:
    """Stands between workers and a server, until it cuts their connections."""

    def __init__(self, port):
        self.port = port
        self.pairs = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.at = ("-s", ctl.at(self.listener.getsockname()))
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()

    def _accept(self):
        try:
            while True:
                client = self.listener.accept()[0]
                try:
                    pair = client, socket.create_connection(("127.0.0.1", self.port))
                except OSError:  # nothing listens there
                    client.close()
                    continue
                self.pairs.append(pair)
                for way in (pair, pair[::-1]):
                    threading.Thread(target=self._copy, args=way, daemon=True).start()
        except OSError:
            pass

    @staticmethod
    def _copy(one, other):
        try:
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def cut(self):
        pairs, self.pairs = self.pairs, []
        for sock in sum(pairs, ()):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def say(server, *lines):
    """Sends lines to a server. Returns all that it answers."""
    with socket.create_connection(("127.0.0.1", server.port)) as sock:
        sock.settimeout(wire.DEADLINE)
        sock.sendall("".join(line + "\r\n" for line in (*lines, "quit")).encode())
        text = b""
        while chunk := sock.recv(65536):
            text += chunk
    return text.decode()


class Played:
    """A server that the test plays, for one connection: it answers each line with the next text."""

    def __init__(self, *answers):
        self.answers, self.heard = list(answers), []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(wire.DEADLINE)
        self.at = ("-s", ctl.at(self.listener.getsockname()))
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        sock, _ = self.listener.accept()
        with sock, sock.makefile("rb") as lines:
            for answer in self.answers:
                self.heard.append(lines.readline().decode())
                sock.sendall(answer.encode())
            lines.read()

    def end(self):
        self.thread.join(wire.DEADLINE)
        self.listener.close()
        return self.heard


# --- put -------------------------------------------------------------------------------------------


def test_a_job_is_what_the_input_has(server, tmp_path):
    body = bytes(range(256)) * 250
    assert server.ctl("put", "t", stdin=body).out == "1\n"
    file = tmp_path / "body"
    file.write_bytes(body + b"\r\nstats\r\n")
    assert server.ctl("put", "t", str(file), "--pri", "7", "--delay", "100", "--ttr", "9").out == "2\n"
    done = subprocess.run([ctl.COUNTERCTL, *server.at, "jobs", "peek", "2"], capture_output=True, check=True)
    assert done.stdout == file.read_bytes()
    about = json.loads(server.ctl("jobs", "peek", "2", "--json").out)
    assert (about["pri"], about["ttr"], about["state"], about["tube"]) == (7, 9, "delayed", "t")
    assert "body64" in about
    assert server.counts("t") == (1, 1, 0, 0)


def test_a_job_for_each_line(server):
    lines = ["line %d" % i for i in range(1000)] + ["", "last"]
    assert server.put("t", *lines) == list(range(1, 1003))
    assert server.counts("t")[0] == 1002
    assert server.ctl("jobs", "peek", "1000").out == "line 999"
    assert server.ctl("jobs", "peek", "1002").out == "last"


def test_a_refused_line_is_named(start):
    jobs = counterd(start, "jobs.max_job_size=10")
    done = jobs.ctl("put", "t", "--lines", stdin=b"a\nb\nelevenbytes\nc\n")
    assert (done.status, done.out) == (NO, "1\n2\n")
    assert re.search(r"standard input, line 3 \(the 2 before it are stored\).*jobs\.max_job_size", done.err)


def test_a_plain_server_is_not_sent_our_verbs(plain):
    """It would run the body as commands."""
    plain.put("t", "x")
    for word in (("--unique", "k"), ("--tries", "2")):
        done = plain.ctl("put", "t", *word, stdin=b"kick 1\r\ndelete 1\r\n")
        assert done.status == NO and word[0] in done.err
    assert plain.counts("t") == (1, 0, 0, 0)


KNOWS = "OK 4\r\n---\n\r\n"  # the answer to "tube default" of a server that has our verbs


@pytest.mark.parametrize("known", [7, 0])
def test_a_key_that_is_known_is_no_failure(known):
    server = Played(KNOWS, "DUPLICATE %d\r\n" % known)
    done = ctl.run(*server.at, "put", "t", "--unique", "k", "--tries", "3", "--pri", "9")
    assert (done.status, done.out) == (0, "%d\n" % known)
    assert ("was done" if known == 0 else "has a job with this key already: 7") in done.err
    assert server.end() == ["tube default\r\n", "put-into t 9 0 60 0 key=k tries=3\r\n"]


@pytest.mark.parametrize("answer, status, why", [
    ("READ_ONLY we move\x1b[1m\r\n", 69, "the tube is read-only: we move\\x1b[1m"),
    ("TUBE_FULL\r\n", 69, "the tube is full"),
    ("DRAINING\r\n", 69, "takes no new jobs"),
    ("OUT_OF_MEMORY\r\n", 69, "no memory"),
    ("BAD_FORMAT\r\n", PROTOCOL, "BAD_FORMAT"),
    ("USING t\r\n", PROTOCOL, "USING t"),
    ("nonsense\r\n", PROTOCOL, "is this the right port?"),
    ("INSERTED 1\n", PROTOCOL, "is this the right port?"),
])  # fmt: skip
def test_a_refusal_is_explained(answer, status, why):
    server = Played(KNOWS, answer)
    done = ctl.run(*server.at, "put", "t")
    assert (done.status, done.out) == (status, "") and why in done.err, done
    server.end()


def test_what_is_wrong_with_put_is_said(jobs):
    for words, status, why in (
        (("t s",), USAGE, "not the name of a tube"),
        (("t", "--unique", "a b"), USAGE, "not a key"),
        (("t", "--unique", ""), USAGE, "not a key"),
        (("t", "/no/such/file"), NO_INPUT, "/no/such/file: No such file"),
        (("t", "--ttr", "0"), USAGE, "from 1"),
    ):
        done = jobs.ctl("put", *words)
        assert done.status == status and why in done.err, (words, done)
        assert done.out == ""
    wrong = ctl.run("-s", ctl.at(jobs.text), "put", "t", stdin=b"x")
    assert wrong.status == PROTOCOL and "is this the right port?" in wrong.err


# --- work ------------------------------------------------------------------------------------------


def test_the_command_gets_the_job(server):
    server.put("t", "hello")
    done = server.ctl("work", "other", "t", "--once", "--", "sh", "-c",
                      'echo "$COUNTER_JOB_ID $COUNTER_JOB_TUBE $COUNTER_JOB_TRY $(cat)"')  # fmt: skip
    assert (done.status, done.out, done.err) == (0, "1 t 1 hello\n", "")
    assert server.counts("t") == (0, 0, 0, 0)


def test_a_failed_job_is_tried_again_later(server):
    server.put("t", "x")
    done = server.ctl("work", "t", "--once", "--backoff", "1000", "--", "sh", "-c", "exit 3")
    assert done.status == 3
    assert "try 1: sh exited with 3" in done.err and "tried again in 1000 s" in done.err
    assert server.counts("t") == (0, 1, 0, 0)


def test_a_job_waits_longer_after_each_try(server):
    server.put("t", "x")
    with server.work("t", "--backoff", "1", "--", "sh", "-c", "kill -9 $$") as running:
        for line in ("try 1: signal 9 ended sh", "try 1: it is tried again in 1 s",
                     "try 2: signal 9 ended sh", "try 2: it is tried again in 2 s"):  # fmt: skip
            assert running.child.stderr.readline().decode() == "counterctl: job 1 of t, %s\n" % line
        running.signal(signal.SIGTERM)
        running.wait()
    assert server.counts("t") in ((0, 1, 0, 0), (1, 0, 0, 0))  # ready, if that took two seconds


def test_a_job_is_buried_on_request_and_after_its_tries(server):
    server.put("t", "bad", "worse")
    done = server.ctl("work", "t", "--once", "--", "sh", "-c", '[ "$(cat)" = worse ] || exit 100', "x")
    assert done.status == 100 and "it is buried" in done.err
    assert server.counts("t") == (0, 0, 0, 1)
    server.put("t2", "x")
    done = server.ctl("work", "t2", "--once", "--backoff", "0", "--tries", "3", "-q", "--",
                      "sh", "-c", "echo $COUNTER_JOB_TRY; exit 1")  # fmt: skip
    assert (done.out, done.err) == ("1\n2\n3\n", "")
    assert server.counts("t2") == (0, 0, 0, 1)


def test_two_hundred_jobs_of_which_some_fail(server, tmp_path):
    """3 % fail always, 7 % once: all are done or buried after their tries, and none twice."""
    log = tmp_path / "log"
    server.put("t", *map(str, range(200)))
    script = (
        'n=$(cat); echo "$n $COUNTER_JOB_TRY" >>%s; [ $((n %% 33)) != 5 ] || exit 1; '
        '[ $((n %% 14)) != 3 ] || [ $COUNTER_JOB_TRY -gt 1 ]' % log
    )
    words = ("t", "--jobs", "4", "--tries", "3", "--backoff", "0", "-q", "--", "sh", "-c", script)
    with server.work(*words) as one, server.work(*words) as two:
        wire.poll(lambda: server.counts("t") == (0, 0, 0, 6), "all jobs are done or buried", 60)
        for running in (one, two):
            running.signal(signal.SIGTERM)
            done = running.wait()
            assert (done.status, done.err) == (128 + signal.SIGTERM, "")
    tries = collections.Counter(line.split()[0] for line in log.read_text().splitlines())
    for n in range(200):
        assert tries[str(n)] == (3 if n % 33 == 5 else 2 if n % 14 == 3 else 1), n


def test_a_killed_worker_leaves_nothing_and_its_job_comes_back(server, tmp_path):
    pid, apart = str(tmp_path / "pid"), str(tmp_path / "apart")
    script = "setsid sh -c 'echo $$ >%s; exec sleep 1000' & echo $$ >%s; wait" % (apart, pid)
    server.put("t", "x")
    with server.work("t", "--", "sh", "-c", script) as running:
        pids = wait_pid(pid), wait_pid(apart)
        assert server.counts("t") == (0, 0, 1, 0)
        running.signal(signal.SIGKILL)
        wire.poll(lambda: not any(map(is_there, pids)), "all that it started has ended")
        wire.poll(lambda: server.counts("t") == (1, 0, 0, 0), "the job is back")
    assert server.ctl("work", "t", "--once", "--", "sh", "-c", "echo $COUNTER_JOB_TRY").out == "2\n"


def test_what_a_command_has_started_ends_with_it(jobs, tmp_path):
    pids = str(tmp_path / "pids")
    jobs.put("t", "x")
    done = jobs.ctl("work", "t", "--once", "--", "sh", "-c", "sleep 1000 & echo $! >%s" % pids)
    assert done.status == 0
    assert not is_there(wait_pid(pids))


def test_a_first_signal_waits_for_the_command(server, tmp_path):
    pids, go = str(tmp_path / "pids"), str(tmp_path / "go")
    os.mkfifo(go)
    server.put("t", "x")
    script = "echo $$ >>%s; cat %s" % (pids, go)
    with server.work("t", "--jobs", "2", "--", "sh", "-c", script) as running:
        wait_pid(pids)
        running.signal(signal.SIGTERM)
        # The place without a job is over; the signal has been taken then.
        wait_connections(server, 1)
        server.put("t", "y")
        with open(go, "w") as f:
            f.write("went on\n")
        done = running.wait()
    assert (done.status, done.out) == (128 + signal.SIGTERM, "went on\n")
    assert server.counts("t") == (1, 0, 0, 0)


def test_a_second_signal_ends_the_command(server, tmp_path):
    pids = str(tmp_path / "pids")
    server.put("t", "x")
    script = 'trap "" TERM; echo $$ >%s; while :; do sleep 0.1; done' % pids
    with server.work("t", "--jobs", "2", "--grace", "0.2", "--", "sh", "-c", script) as running:
        command = wait_pid(pids)
        running.signal(signal.SIGINT)
        # The place without a job is over; the first signal has been taken then.
        wait_connections(server, 1)
        assert server.counts("t") == (0, 0, 1, 0)
        running.signal(signal.SIGINT)
        done = running.wait()
    assert done.status == 128 + signal.SIGINT and "given back" in done.err
    assert not is_there(command)
    assert server.counts("t") == (1, 0, 0, 0)


def wait_connections(server, workers):
    """Waits until so many connections of workers are left."""

    def count():
        return int(re.search(r"current-workers: (\d+)", say(server, "stats"))[1])

    wire.poll(lambda: count() == workers, "%d workers are left" % workers)


def test_a_job_is_renewed_while_its_command_runs(server):
    server.put("t", "x", words=("--ttr", "6"))
    script = "sleep 10; echo $COUNTER_JOB_TRY"
    done = server.ctl("work", "t", "--once", "--", "sh", "-c", script)
    assert (done.status, done.out, done.err) == (0, "1\n", "")
    assert server.counts("t") == (0, 0, 0, 0)


def test_a_worker_comes_back_when_the_server_does(start, tmp_path):
    log = tmp_path / "log"
    jobs = counterd(start)
    jobs.put("t", "first")
    with jobs.work("t", "--", "sh", "-c", "cat >>%s; echo >>%s" % (log, log)) as running:
        wire.poll(lambda: log.exists() and log.read_text() == "first\n", "the first is done")
        jobs.process.stop()
        jobs.process.is_expected_to_be_gone = True
        again = counterd(start, port=jobs.port)
        again.put("t", "second")
        wire.poll(lambda: log.read_text() == "first\nsecond\n", "the second is done")
        running.signal(signal.SIGTERM)
        done = running.wait()
    assert "the server closed the connection" in done.err or "trying again" in done.err


def test_the_command_ends_when_its_job_is_lost(start, tmp_path):
    pids = str(tmp_path / "pids")
    jobs = counterd(start)
    jobs.put("t", "x")
    with jobs.work("t", "--grace", "1", *sleeper(pids)) as running:
        command = wait_pid(pids)
        jobs.process.stop()
        jobs.process.is_expected_to_be_gone = True
        assert is_there(command)  # the server may know the job when it is back
        counterd(start, port=jobs.port)
        wire.poll(lambda: not is_there(command), "the command has ended")
        running.signal(signal.SIGTERM)
        done = running.wait()
    assert "another worker may run it; sh gets TERM" in done.err


def test_a_leased_job_outlives_the_connection(jobs, tmp_path):
    """The command goes on, the worker renews over a new connection, and acknowledges there."""
    pids, go = str(tmp_path / "pids"), str(tmp_path / "go")
    os.mkfifo(go)
    assert "OK" in say(jobs, "tube t claim=lease")
    jobs.put("t", "x")
    command = ("--", "sh", "-c", "echo $$ >>%s; cat %s" % (pids, go))
    with Relay(jobs.port) as relay, ctl.Running(*relay.at, "work", "t", *command) as running:
        wait_pid(pids)
        relay.cut()
        wire.poll(lambda: relay.pairs, "the worker has connected again")
        with open(go, "w") as f:
            f.write("went on\n")
        wire.poll(lambda: jobs.counts("t") == (0, 0, 0, 0), "the job is done")
        running.signal(signal.SIGTERM)
        done = running.wait()
    assert done.out == "went on\n" and "may run it" not in done.err


def test_an_end_without_a_server_is_reported_later(jobs, tmp_path):
    pids, go = str(tmp_path / "pids"), str(tmp_path / "go")
    os.mkfifo(go)
    say(jobs, "tube t claim=lease")
    jobs.put("t", "x")
    command = ("--", "sh", "-c", "echo $$ >>%s; cat %s" % (pids, go))
    with Relay(jobs.port) as relay, ctl.Running(*relay.at, "work", "t", *command) as running:
        pid = wait_pid(pids)
        port, relay.port = relay.port, 1  # nothing listens there
        relay.cut()
        with open(go, "w") as f:
            f.write("went on\n")
        wire.poll(lambda: not is_there(pid), "the command has ended")
        assert jobs.counts("t") == (0, 0, 1, 0)
        relay.port = port
        wire.poll(lambda: jobs.counts("t") == (0, 0, 0, 0), "the job is done")
        running.signal(signal.SIGTERM)
        running.wait()


def test_a_lost_job_ends_its_command_on_a_plain_server(plain, tmp_path):
    pids = str(tmp_path / "pids")
    plain.put("t", "x")
    with Relay(plain.port) as relay, ctl.Running(*relay.at, "work", "t", *sleeper(pids)) as running:
        command = wait_pid(pids)
        relay.cut()
        wire.poll(lambda: not is_there(command), "the command has ended")
        running.signal(signal.SIGTERM)
        running.signal(signal.SIGINT)  # two of the same might be one
        running.wait()


def test_a_lock_bounds_what_runs_at_once(jobs, tmp_path):
    jobs.put("t", *map(str, range(12)))
    # mkdir fails if another one runs.
    script = "mkdir %s/one || exit 7; sleep 0.02; rmdir %s/one" % (tmp_path, tmp_path)
    done = jobs.ctl("work", "t", "--once", "--jobs", "4", "--lock", "k", "--lock-server",
                    ctl.at(jobs.text), "--", "sh", "-c", script)  # fmt: skip
    assert (done.status, done.err) == (0, "")
    assert jobs.counts("t") == (0, 0, 0, 0)


def test_a_lock_that_is_taken_holds_the_job_back(jobs, tmp_path):
    ran = tmp_path / "ran"
    jobs.put("t", "x", words=("--ttr", "1"))
    with wire.TextClient(jobs.text) as holder:
        holder.ask("ACQ4ME k 1 9 0")
        with jobs.work("t", "--lock", "k", "--lock-server", ctl.at(jobs.text), "--",
                       "touch", str(ran)) as running:  # fmt: skip
            wire.poll(lambda: jobs.counts("t") == (0, 0, 1, 0), "the worker has the job")
            assert not ran.exists()
            holder.ask("RELEASE k")
            wire.poll(lambda: jobs.counts("t") == (0, 0, 0, 0), "the job is done")
            running.signal(signal.SIGTERM)
            running.wait()
    assert ran.exists()


def test_what_is_wrong_with_work_is_said(jobs):
    for words, status, why in (
        (("t s", "--", "true"), USAGE, "not the name of a tube"),
        (("t", "--workers", "2", "--", "true"), USAGE, "need --lock"),
        (("t", "--lock", "a b", "--", "true"), USAGE, "not a key"),
        (("t", "--tls", "--lock", "k", "--", "true"), USAGE, "Name it with --lock-server"),
        (("t",), USAGE, "COMMAND are missing"),
    ):
        done = jobs.ctl("work", *words)
        assert done.status == status and why in done.err, (words, done)
    jobs.put("t", "x")
    done = jobs.ctl("work", "t", "--", "/no/such/command")
    assert done.status == 127 and "/no/such/command: No such file" in done.err
    assert jobs.counts("t") == (1, 0, 0, 0)


# --- jobs ------------------------------------------------------------------------------------------


def test_tubes_and_jobs_are_listed(jobs):
    jobs.put("b", "x", "y\x1b[1m" + 100 * "z")
    jobs.put("a", "x", words=("--delay", "100"))
    rows = jobs.ctl("jobs").out.splitlines()
    assert [row.split()[-1] for row in rows] == ["TUBE", "default", "b", "a"]
    assert rows[2].split()[:5] == ["2", "0", "0", "0", "0"]
    out = jobs.ctl("jobs", "list", "b").out
    assert "\\x1b[1m" in out and "zzz..." in out and "\x1b" not in out
    assert [job["body"] for job in jobs.list("b")] == ["x", "y\x1b[1m" + 100 * "z"]
    assert len(jobs.ctl("jobs", "list", "b", "--limit", "1").out.splitlines()) == 2
    assert jobs.ctl("jobs", "list", "b", "buried").out == ""
    assert jobs.ctl("jobs", "list", "none").status == NO


@pytest.mark.parametrize("at", ["jobs", "stored"])
def test_jobs_are_kicked_and_cleared(request, at):
    jobs = request.getfixturevalue(at)
    jobs.put("t", "a", "b", "c")
    jobs.ctl("work", "t", "--once", "-q", "--", "sh", "-c", "exit 100")
    assert jobs.counts("t") == (0, 0, 0, 3)
    assert jobs.ctl("jobs", "kick", "t", "2").out == "kicked: 2\n"
    assert jobs.counts("t") == (2, 0, 0, 1)
    assert jobs.ctl("jobs", "clear", "t", "ready", "--json").out == '{"cleared":2}\n'
    assert jobs.ctl("jobs", "clear", "t", "all").out == "cleared: 1\n"


@pytest.mark.parametrize("stored", [False, True])
def test_an_export_can_be_imported(start, tmp_path, stored):
    one, two = (
        counterd(start, *(["jobs.path=%s" % (tmp_path / name)] if stored else [])) for name in ("1", "2")
    )
    one.put("t", *("job %d" % i for i in range(10)))
    one.ctl("work", "t", "--once", "-q", "--backoff", "1000", "--", "sh", "-c",
            'if [ "$(cat)" = "job 7" ]; then exit 100; else kill -9 $$; fi', "x")  # fmt: skip
    one.put("t", *("job %d" % i for i in range(10, 250)))
    one.ctl("put", "t", "--pri", "3", stdin=b"\xff\x00\n")
    one.put("t", "later", words=("--delay", "1000", "--ttr", "7"))
    done = one.ctl("jobs", "export", "t")
    assert (done.status, done.err) == (0, "")
    assert two.ctl("jobs", "import", stdin=done.out.encode()).out == "imported: 252\n"

    def seen(text):
        rows = sorted(map(json.loads, text.splitlines()), key=lambda row: row["id"])
        for row in rows:
            assert row["delay"] <= 1000
            row["delay"] = row["delay"] > 900
            row.pop("try")
            row.pop("id")
        return rows

    assert seen(done.out) == seen(two.ctl("jobs", "export", "t").out)
    assert two.counts("t") == (241, 10, 0, 1)


def test_drain(start, tmp_path):
    """It lasts over an upgrade, and not over a start."""
    port = servers.free_port()
    options = ("jobs.enable=true", "jobs.port=%d" % port, "counter.threads=2", "admin.token=hush")
    running = test_upgrade.Running(start, tmp_path, *options, admin=True)
    jobs = Jobs(port, running.daemon)

    def drain(*words, daemon=running.daemon):
        env = {"COUNTER_ADMIN_TOKEN": "hush"}
        return ctl.run("--admin=" + ctl.at(daemon.admin), "jobs", "drain", *words, env=env)

    def is_refused():
        done = jobs.ctl("put", "t", stdin=b"x")
        refused = done.status == UNAVAILABLE and "takes no new jobs now" in done.err
        assert refused or (done.status, done.err) == (0, ""), done
        with wire.JobClient(("127.0.0.1", port)) as client:
            stats = client.body(int(client.ask("stats").split()[1]))
            assert (b"draining: true" in stats) == refused
        return refused

    assert not is_refused()
    assert drain().out.startswith("draining: no new jobs are taken") and is_refused()
    assert json.loads(drain("--json").out) == {"draining": True, "switched": True}
    assert jobs.ctl("work", "t", "--once", "--quiet", "--", "cat").out == "x"
    running.succeed()
    assert is_refused()
    assert drain("--off") == (0, "not draining: new jobs are taken\n", "")
    assert not is_refused()
    running.succeed()
    assert not is_refused()
    done = jobs.ctl("jobs", "tubes", "--off")
    assert done.status == USAGE and "jobs drain" in done.err
    assert drain().status == 0 and is_refused()
    assert running.daemon.end_with(signal.SIGTERM) == 0
    fresh = start(*options, admin=True)
    assert not is_refused()
    assert ctl.run("--admin=" + ctl.at(fresh.admin), "jobs", "drain").status == DENIED
    assert not is_refused()


def test_what_is_wrong_with_jobs_is_said(jobs, tmp_path):
    for words, status, why in (
        (("lst", "t"), USAGE, "did you mean: list"),
        (("list",), USAGE, 'not of the form "counterctl jobs list TUBE [STATE]"'),
        (("list", "t", "nope"), USAGE, "STATE is none of ready"),
        (("kick", "t", "0"), USAGE, "from 1"),
        (("peek", "x"), USAGE, "not the number of a job"),
        (("peek", "7"), NO, "no such job"),
        (("import", str(tmp_path / "none")), NO_INPUT, "No such file"),
    ):
        done = jobs.ctl("jobs", *words)
        assert done.status == status and why in done.err, (words, done)
    good = b'{"tube":"t","body":"x"}\n'
    for line, why in (
        (b"nope", "no JSON"),
        (b"[1]", "no JSON object"),
        (b'{"tube":"t s","body":""}', "name of a tube"),
        (b'{"tube":"t"}', "body64"),
        (b'{"tube":"t","body64":"=A=="}', "body64"),
        (b'{"tube":"t","body":"","pri":-1}', '"pri" is not'),
    ):
        done = jobs.ctl("jobs", "import", stdin=good + line + b"\n" + good)
        assert done.status == USAGE and why in done.err, (line, done)
        assert "line 2 (the 1 jobs before it are stored)" in done.err


def test_a_plain_server_can_be_looked_at(plain):
    plain.put("t", "x", "y")
    assert plain.ctl("jobs", "peek", "1").out == "x"
    for words in (("list", "t"), ("export", "t"), ("clear", "t", "all")):
        done = plain.ctl("jobs", *words)
        assert done.status == NO and "no counterd" in done.err
    assert plain.ctl("jobs", "import", stdin=b'{"tube":"t","body":"z","state":"buried"}\n').status == 0
    assert plain.counts("t") == (2, 0, 0, 1)
    assert plain.ctl("jobs", "kick", "t", "9").out == "kicked: 1\n"


if __name__ == "__main__":
    tap.main(__file__)
