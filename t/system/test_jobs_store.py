"""Stored job queues on the real daemon: what a restart, a kill, an upgrade and a full disk leave."""

import itertools
import json
import os
import pwd
import random
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
from contextlib import closing

import pytest
import tap

import ctl
import http_client
import servers
import test_upgrade
import wire

pytestmark = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")

JOBS = ("counter.threads=2", "jobs.enable=true", "jobs.port=0")


@pytest.fixture
def path(tmp_path):
    """The file of the jobs."""
    (tmp_path / "store").mkdir()
    return str(tmp_path / "store" / "jobs.db")


@pytest.fixture
def begin(start, path):
    """Starts the daemon on the file."""
    return lambda *options, **kwargs: start(*JOBS, "jobs.path=" + path, *options, **kwargs)


def kill(daemon):
    assert daemon.end_with(signal.SIGKILL) == -signal.SIGKILL


def sql(path, text, *values):
    """Reads the file as people may at any time."""
    with closing(sqlite3.connect("file:%s?mode=ro" % path, uri=True)) as database:
        return database.execute(text, values).fetchall()


def damage(path, at, data):
    with open(path, "r+b") as f:
        f.seek(at)
        f.write(data)
        os.fsync(f.fileno())


def reserved(answer):
    """The id, token, and try of a RESERVED line of a claim."""
    words = answer.split()
    assert words[0] == "RESERVED", answer
    return int(words[1]), int(words[3]), int(words[5])


def claim(client, tube):
    assert client.ask("claim 1 0 %s" % tube) == "CLAIMED 1"
    line, body = client.job()
    return *reserved(line), body


def listed(client, tube, state="all"):
    """Pairs of id and state."""
    head = client.ask("list-jobs %s %s 0 1000" % (tube, state))
    rows = []
    for _ in range(int(head.split()[1]) if head != "NOT_FOUND" else 0):
        words = client.job()[0].split()
        rows.append((int(words[1]), words[3]))
    return rows


def counts(client, tube):
    stats = client.stats("tube " + tube)
    return [int(stats["current-jobs-" + state]) for state in ("ready", "delayed", "reserved", "buried", "abandoned")]


# --- restarts ------------------------------------------------------------------------------------

ENDS = {"kill": kill, "term": lambda daemon: daemon.end_with(signal.SIGTERM)}


@pytest.fixture(params=list(itertools.product(ENDS, ("full", "normal"))), ids="-".join)
def restart(request, begin):
    """A function that ends the daemon in some way, and starts another one on its file."""
    end, sync = request.param
    running = []

    def again(*options):
        if running:
            ENDS[end](running.pop())
        running.append(begin("jobs.sync=" + sync, *options))
        return running[0]

    return again


# row store.rebuilt
# row real.rebuilt
def test_states_and_order_are_rebuilt(restart):
    with restart().job_client() as client:
        for number in range(1, 13):
            assert client.put(b"body %d" % number, pri=number % 3, ttr=600, into="t") == number
        for number in (5, 3, 4):
            assert client.fetch("reserve-job %d" % number)[1] == b"body %d" % number
            assert client.ask("bury %d 2" % number) == "BURIED"
        assert client.fetch("reserve-job 6")[1]
        assert client.ask("release 6 9 3000") == "RELEASED"
        assert client.fetch("reserve-job 7")[1]
        assert client.ask("release 7 0 0") == "RELEASED"
        assert client.fetch("reserve-job 3")[1]  # was buried; its reservation ends with us
        assert client.ask("delete 8") == "DELETED"
        assert client.put(b"later", delay=2000, into="t") == 13
        assert client.put(b"\r\n\0", into="u") == 14
        assert client.put(b"", into="u") == 15
    with restart().job_client() as client:
        wire.poll(lambda: counts(client, "t") == [8, 2, 0, 2, 0], "as it was")
        assert client.ask("use t") == "USING t"
        assert client.fetch("peek-buried") == ("FOUND 5 6", b"body 5")
        assert client.fetch("peek-delayed") == ("FOUND 13 5", b"later")
        stats = client.stats("stats-job 6")
        assert (stats["pri"], stats["delay"], stats["releases"], stats["reserves"]) == ("9", "3000", "1", "1")
        assert 2900 < int(stats["time-left"]) <= 3000
        order = []
        while client.ask("claim 1 0 t") == "CLAIMED 1":
            order.append(int(client.job()[0].split()[1]))
        assert order == [7, 9, 12, 1, 10, 2, 3, 11] or order == [3, 7, 9, 12, 1, 10, 2, 11], order
        assert client.ask("kick 1") == "KICKED 1"
        assert claim(client, "t")[3] == b"body 5"
        assert client.ask("watch u") == "WATCHING 2"
        assert client.fetch("reserve") == ("RESERVED 14 3", b"\r\n\0")
        assert client.fetch("reserve") == ("RESERVED 15 0", b"")
        assert client.ask("delete 8") == "NOT_FOUND"


# row store.ids
# row real.rebuilt
def test_ids_go_on_when_nothing_is_left(restart):
    with restart().job_client() as client:
        last = [client.put(b"x") for _ in range(5)][-1]
        assert client.ask("clear default all") == "CLEARED 5"
    for _ in range(3):
        with restart().job_client() as client:
            assert client.stats()["current-jobs-ready"] == "0"
            number = client.put(b"x")
            assert number > last
            assert client.ask("delete %d" % number) == "DELETED"
            last = number


def test_jobs_given_back_at_the_end_go_to_no_client_that_waits(begin):
    """Else the job would lose a try to a client whose connection ends too."""
    daemon = begin("counter.threads=1")
    with daemon.job_client() as holder, daemon.job_client() as waiter:
        assert holder.ask("put-into t 0 0 600 1 tries=2\r\nx") == "INSERTED 1"
        assert claim(holder, "t")[2] == 1
        assert waiter.ask("watch t") == "WATCHING 2"
        waiter.say("reserve")
        wire.poll(lambda: holder.stats()["current-waiting"] == "1", "it waits")
        assert daemon.end_with(signal.SIGTERM) == 0
    with begin("counter.threads=1").job_client() as client:
        wire.poll(lambda: counts(client, "t")[0] == 1, "it is ready")
        assert claim(client, "t")[2] == 2


# row real.batch
def test_a_batch_is_there_whole(restart):
    with restart().job_client() as client:
        records = b"".join(b"0 0 60 3 key=k%d\r\n%03d\r\n" % (n % 50, n) for n in range(100))
        client.send(b"put-batch t 100 %d\r\n%s\r\n" % (len(records), records))
        rows = client.job()[1].decode().splitlines()[1:]
        assert rows[:50] == ["- INSERTED %d" % (n + 1) for n in range(50)]
        assert rows[50:] == ["- DUPLICATE %d" % (n + 1) for n in range(50)]
    with restart().job_client() as client:
        assert counts(client, "t") == [50, 0, 0, 0, 0]
        assert claim(client, "t")[3] == b"000"


def test_counts_since_the_start_begin_at_0(restart):
    with restart().job_client() as client:
        assert client.put(b"x") == 1
        first = client.stats()["id"]
    with restart().job_client() as client:
        stats = client.stats()
        assert stats["total-jobs"] == stats["cmd-put"] == "0" and stats["current-jobs-ready"] == "1"
        assert stats["id"] != first


# row store.answers
def test_the_sample_of_answers_is_committed_before_they_leave(begin, path):
    """Each answer that was read is in the file at that moment."""
    with begin().job_client() as client:
        for number in range(1, 30):
            assert client.put(b"x" * number) == number
            assert sql(path, "SELECT bytes FROM jobs WHERE id = ?", number) == [(number,)]
            assert client.ask("delete %d" % number) == "DELETED"
            assert sql(path, "SELECT count(*) FROM jobs") == [(0,)]


# --- the file ------------------------------------------------------------------------------------


def test_the_file_may_be_read_while_the_daemon_runs(begin, path):
    program = shutil.which("sqlite3")
    with begin().job_client() as client:
        client.fetch("tube mail claim=lease tries=3")
        for body in (b"one", b"two", b"x" * 5000):
            assert isinstance(client.put(body, ttr=600, into="mail"), int)
        number, token, _, _ = claim(client, "mail")
        rows = sql(path, "SELECT id, tube, state, tries, bytes FROM jobs_seen ORDER BY id")
        assert rows == [(1, "mail", "reserved", 1, 3), (2, "mail", "ready", 0, 3), (3, "mail", "ready", 0, 5000)]
        assert sql(path, "SELECT token FROM jobs WHERE id = ?", number) == [(token,)]
        assert sql(path, "SELECT body FROM bodies WHERE id = 3") == [(b"x" * 5000,)]
        assert sql(path, "PRAGMA integrity_check") == [("ok",)]
        assert sql(path, "SELECT name, claim, tries, job_limit FROM tubes") == [("mail", 1, 3, None)]
        with closing(sqlite3.connect("file:%s?mode=ro" % path, uri=True, isolation_level=None)) as database:
            database.execute("BEGIN")
            before = database.execute("SELECT count(*) FROM jobs").fetchone()
            for _ in range(200):  # a reader holds nobody up
                number = client.put(b"y" * 3000)
                assert client.ask("delete %d" % number) == "DELETED"
            assert database.execute("SELECT count(*) FROM jobs").fetchone() == before == (3,)
        if program:
            out = subprocess.run([program, "-readonly", path, "SELECT count(*) FROM jobs_seen"],
                                 capture_output=True, timeout=30, check=True).stdout  # fmt: skip
            assert out == b"3\n"


def refused(*options, preexec=None):
    """What a daemon says that does not start."""
    daemon = servers.Counterd(*JOBS, *options, ready=False, preexec=preexec)
    status = daemon.wait()
    daemon.check_log()
    assert status not in (0, None) and status > 0, daemon.log
    assert "ready" not in daemon.log, daemon.log
    return daemon.log


def test_a_second_daemon_is_kept_out(begin, path):
    daemon = begin()
    with daemon.job_client() as client:
        assert client.put(b"x") == 1
        said = refused("jobs.path=" + path)
        assert re.search(r"error: jobs\.path: %s: .*process %d uses it; is another counterd running\?" % (path, daemon.pid),
                         said), said  # fmt: skip
        assert client.put(b"y") == 2


# A file that is damaged stops the job queues, and nothing else.
def stopped(begin, path, reason):
    port = servers.free_port()
    daemon = begin("jobs.port=%d" % port, "admin.token=0123456789abcdef", admin=True)
    daemon.wait_log(r"error: jobs\.path: %s: corrupt: .*%s.*; the job queues do not serve" % (re.escape(path), reason))
    with daemon.text_client() as client:
        assert client.ask("ACQ4ME k 1 1 1") == "LOCKED"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5)
    for route in ("GET /api/v1/tubes", "GET /api/v1/jobs/1", "POST /api/v1/jobs/1/kick"):
        status, text = http_client.ask(daemon.admin, *route.split(), token="0123456789abcdef")
        assert status == 503 and "the job queues do not serve: jobs.path: " + path in text, text
    status, text = http_client.ask(daemon.admin, "GET", "/api/v1/stats")
    assert path in json.loads(text)["resources"]["job store"]["stopped"]
    assert re.search("^counterd_jobs_store_stopped 1$", http_client.ask(daemon.admin, "GET", "/metrics")[1], re.M)
    return daemon


def test_the_file_is_no_database(begin, path):
    for text in (b"This is a text of people.\n" * 500, b"hello\n"):
        with open(path, "wb") as f:
            f.write(text)
        assert stopped(begin, path, "not a database").end_with(signal.SIGTERM) == 0
        with open(path, "rb") as f:
            assert f.read() == text  # as it was


def test_the_file_belongs_to_another_program(begin, path):
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE songs (name)")
        database.commit()
    assert stopped(begin, path, "it is a database of another program").end_with(signal.SIGTERM) == 0
    assert sql(path, "SELECT name FROM sqlite_master") == [("songs",)]


def test_the_file_is_of_a_later_version(begin, path):
    kill(begin())
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 2")
    said = refused("jobs.path=" + path)
    assert re.search(r"error: jobs\.path: %s: .*a newer program has written it \(version 2; this one knows 1\)" % path,
                     said), said  # fmt: skip


def damaged(begin, path):
    """Leaves a file of which many pages are damaged."""
    daemon = begin()
    with daemon.job_client() as client:
        for _ in range(300):
            assert isinstance(client.put(b"x" * 400), int)
    assert daemon.end_with(signal.SIGTERM) == 0
    for at in range(4096 * 5, os.path.getsize(path), 4096):
        damage(path, at, b"\xff" * 1000)


def test_the_file_is_damaged(begin, path):
    damaged(begin, path)
    assert stopped(begin, path, "malformed").end_with(signal.SIGTERM) == 0


# The socket of the job queues is closed, though the service manager made it.
def test_an_upgrade_goes_on_without_the_job_queues(begin, start, tmp_path, path):
    damaged(begin, path)
    inherit = [("jobs", servers.listening())]
    running = test_upgrade.Running(start, tmp_path, *JOBS, "jobs.path=" + path, inherit=inherit)
    with running.daemon.text_client() as client:
        assert client.ask("ACQ4ME k 1 1 1") == "LOCKED"
        running.succeed()
        assert client.ask("RELEASE k") == "RELEASED"


def test_damage_concerns_its_job_alone(begin, path):
    daemon = begin()
    with daemon.job_client() as client:
        for number in range(1, 6):
            assert client.put(bytes([64 + number]) * 20000, into="t") == number
    assert daemon.end_with(signal.SIGTERM) == 0
    with open(path, "rb") as f:
        at = f.read().index(b"C" * 3000)
    damage(path, at // 4096 * 4096, b"\xff\xff\xff\xf0")  # the next page of the third body
    daemon = begin(admin=True)
    with daemon.job_client() as client, daemon.job_client() as other:
        client.send(b"list-jobs t all 0 10\r\n")
        assert client.line() == "LISTED 5 0"
        for number in (1, 2):
            assert client.job() == ("FOUND %d 20000 ready 0" % number, bytes([64 + number]) * 20000)
        assert client.line() == "UNREADABLE 3 ready 0"
        for number in (4, 5):
            assert client.job()[1] == bytes([64 + number]) * 20000
        exported = ctl.run("-s", "127.0.0.1:%d" % daemon.jobs[1], "jobs", "export", "t")
        assert exported.status == 65 and "cannot read job 3" in exported.err, exported
        assert [json.loads(line)["id"] for line in exported.out.splitlines()] == [1, 2, 4, 5]
        client.send(b"delete 3\r\n")
        assert [other.put(b"x") for _ in range(3)] == [1001, 1002, 1003]
        assert client.line() == "INTERNAL_ERROR"
        assert client.ask("peek 3") == "INTERNAL_ERROR"
        client.ask("watch t")
        client.ask("ignore default")
        for number in (1, 2, 4, 5):
            assert client.fetch("reserve-with-timeout 0")[0] == "RESERVED %d 20000" % number
        assert client.ask("reserve-with-timeout 0") == "TIMED_OUT"
        assert client.stats("stats-job 3")["state"] == "buried"
    daemon.wait_log(r"error: jobs\.path: %s: the file is damaged: job 3 cannot be read" % re.escape(path))
    text = http_client.ask(daemon.admin, "GET", "/metrics")[1]
    assert float(re.search(r"^counterd_jobs_store_damages_total (\S+)$", text, re.M).group(1)) >= 4


@pytest.mark.parametrize("name, reason", [
    ("jobs.db", r"jobs\.path.*not an absolute path"),
    ("./jobs.db", r"jobs\.path.*not an absolute path"),
    ("/no/such/folder/jobs.db", r"error: jobs\.path: /no/such/folder/jobs\.db: .*No such file or directory"),
    ("/dev/null/jobs.db", r"jobs\.path: .*Not a directory"),
    ("/", r"jobs\.path: .*"),
    ("/tmp/", r"jobs\.path: .*"),
])  # fmt: skip
def test_paths_that_cannot_be(name, reason):
    said = refused("jobs.path=" + name)
    assert re.search(reason, said), said


def test_the_file_is_no_file(tmp_path):
    (tmp_path / "jobs.db").mkdir()
    said = refused("jobs.path=%s" % (tmp_path / "jobs.db"))
    assert "error: jobs.path: %s" % (tmp_path / "jobs.db") in said, said


@pytest.fixture
def of_nobody():
    """A folder of the user nobody, that he can reach."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    try:
        user = pwd.getpwnam("nobody")
    except KeyError:
        pytest.skip("there is no user nobody")
    folder = tempfile.mkdtemp(prefix="jobs-store-")
    os.chmod(folder, 0o755)
    yield folder, user
    shutil.rmtree(folder)


def test_the_folder_is_not_writable(of_nobody):
    folder, _ = of_nobody
    said = refused("user=nobody", "jobs.path=%s/jobs.db" % folder)
    assert re.search(r"error: jobs\.path: .*: %s belongs to user root, with mode 0755, .* user nobody, "
                     r"who may not write it: chown nobody %s, or set jobs\.path to" % (folder, folder), said), said  # fmt: skip


def test_files_of_another_user(start, of_nobody):
    """It was started as root once; the message says which file, whose, who counterd is, and what helps."""
    folder, user = of_nobody
    path = folder + "/jobs.db"
    option = "jobs.path=" + path
    os.chown(folder, user.pw_uid, user.pw_gid)
    daemon = start(*JOBS, option)
    with daemon.job_client() as client:
        assert client.put(b"of root") == 1
    kill(daemon)

    def said_of(name, owner="root", mode="0640", who="nobody"):
        return "%s belongs to user %s, with mode %s, and counterd runs as user %s, who may not write it: " % (
            name, owner, mode, who)  # fmt: skip

    advice = "chown nobody %s*" % path
    assert said_of(path) + advice in refused("user=nobody", option)
    checked = subprocess.run(
        [servers.COUNTERD, "-t", "-o", "user=nobody", "-o", option], stderr=subprocess.PIPE, text=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (2, "counterd: jobs.path: %s%s\n" % (said_of(path), advice))
    subprocess.run(advice, shell=True, check=True)

    daemon = start(*JOBS, "user=nobody", option)
    with daemon.job_client() as client:
        assert client.fetch("reserve-with-timeout 0")[1] == b"of root"
    for ending in ("-wal", "-lock"):
        os.chown(path + ending, 0, 0)
        daemon.child.send_signal(signal.SIGHUP)
        daemon.wait_log(r"error: reload: jobs\.path: " + said_of(path + ending))
        daemon.child.send_signal(signal.SIGUSR1)
        daemon.wait_log(r"upgrade: jobs\.path: " + said_of(path + ending))
        os.chown(path + ending, user.pw_uid, 0)
    with daemon.job_client() as client:
        assert isinstance(client.put(b"of nobody"), int)
    kill(daemon)

    for ending in ("", "-wal", "-shm", "-lock", "-reserve"):
        os.chown(path + ending, 0, 0)
        assert said_of(path + ending) + advice in refused("user=nobody", option)
        os.chown(path + ending, user.pw_uid, 0)
    os.chmod(path, 0o400)
    assert said_of(path, "nobody", "0400") + "chmod u+rw %s*" % path in refused("user=nobody", option)


def test_a_check_reads_as_root_what_a_start_reads_as_root(start, of_nobody):
    folder, _ = of_nobody
    members = folder + "/members"
    with open(members, "w", encoding="ascii") as f:
        f.write("m1 one\n")
    os.chmod(members, 0o600)
    options = ("user=nobody", "pool.db.members_file=" + members)
    flags = [word for option in options for word in ("-o", option)]
    checked = subprocess.run([servers.COUNTERD, "-t", *flags], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "") and " is good" in checked.stdout, checked
    start(*options)


@pytest.mark.parametrize("sandbox", ["auto", "false"])
def test_the_files_belong_to_the_user(start, of_nobody, sandbox):
    folder, user = of_nobody
    os.chown(folder, user.pw_uid, user.pw_gid)
    for _ in range(2):
        options = ["user=nobody", "jobs.path=%s/jobs.db" % folder]
        if sandbox == "false":
            options.append("security.sandbox=false")
        daemon = start(*JOBS, *options)
        with daemon.job_client() as client:
            assert isinstance(client.put(b"x" * 5000), int)
        names = os.listdir(folder)
        assert {"jobs.db", "jobs.db-wal", "jobs.db-lock"} <= set(names)
        for name in names:
            found = os.stat(os.path.join(folder, name))
            assert (found.st_uid, found.st_mode & 0o137) == (user.pw_uid, 0), name
        kill(daemon)


def test_a_path_is_no_uri(start, tmp_path):
    folder = tmp_path / "a b%41?e#f&mode=ro"
    folder.mkdir()
    daemon = start(*JOBS, "jobs.path=%s" % (folder / "jobs.db"))
    with daemon.job_client() as client:
        assert client.put(b"x") == 1
    assert (folder / "jobs.db").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == [folder.name]


# --- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["", "kill"])
def test_a_backlog_larger_than_memory_comes_back_right(begin, end):
    generator, limit = random.Random(7), 4 << 20
    daemon = begin("jobs.memory_limit=4M")
    bodies = {}
    with daemon.job_client() as client:
        while sum(map(len, bodies.values())) < 5 * limit:
            body = generator.randbytes(generator.choice([0, 100, 511, 512, 513, 5000, 60000, 300000]))
            number = client.put(body, ttr=600)
            assert isinstance(number, int), "%s with %d jobs" % (number, len(bodies))
            bodies[number] = body
        if end:
            kill(daemon)
            daemon = begin("jobs.memory_limit=4M")
    assert daemon.resident_kib() < (limit >> 10) + 60 * 1024 * wire.scaled(1, 10)
    with daemon.job_client() as client, daemon.job_client() as other:
        for number in generator.sample(sorted(bodies), 30):
            assert other.fetch("peek %d" % number)[1] == bodies[number]
        after, seen = 0, {}
        while True:
            _, count, after = other.ask("list-jobs default all %d 8" % after).split()
            for _ in range(int(count)):
                line, body = other.job()
                seen[int(line.split()[1])] = body
            after = int(after)
            if after == 0:
                break
        assert seen == bodies
        while bodies:
            line, body = client.fetch("reserve-with-timeout 0")
            assert body == bodies.pop(int(line.split()[1])), line
            assert client.ask("delete %s" % line.split()[1]) == "DELETED"
        assert client.stats()["current-jobs-ready"] == "0"


# --- the disk is full ----------------------------------------------------------------------------

SMALL_DISK = ["unshare", "-m", "--propagation", "private", "sh", "-c",
              'mount -t tmpfs -o size=%s none "$0" && exec "$@"']  # fmt: skip


@pytest.fixture
def small_disk(start, tmp_path):
    """Starts the daemon with its file on a file system of 16 MiB, that only it sees."""
    folder = tmp_path / "disk"
    folder.mkdir()
    prefix = SMALL_DISK[:-1] + [SMALL_DISK[-1] % "16M", str(folder)]
    if os.geteuid() != 0 or subprocess.run(prefix + ["true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    return lambda *options, **kwargs: start(
        *JOBS, "jobs.path=%s/jobs.db" % folder, *options, prefix=prefix, **kwargs
    )


def fill(client, size=30000):
    """Puts until the disk is full. Returns the ids."""
    ids = []
    while True:
        got = client.put(b"%08d" % len(ids) + b"x" * size, ttr=600)
        if got == "OUT_OF_MEMORY":
            return ids
        assert isinstance(got, int) and len(ids) < 2000, got
        ids.append(got)


# row bugs.disk
# row real.full
@pytest.mark.parametrize("sync", ["full", "normal"])
def test_a_full_disk_refuses_puts_and_can_be_emptied(small_disk, sync):
    daemon = small_disk("jobs.sync=" + sync, admin=True)
    metric = lambda name: float(re.search(r"^counterd_jobs_store_%s (\S+)" % name,
                                          http_client.ask(daemon.admin, "GET", "/metrics")[1], re.M).group(1))  # fmt: skip
    with daemon.job_client() as client, daemon.job_client() as other, daemon.job_client() as waiter:
        client.fetch("tube lease claim=lease")
        assert client.put(b"lease", ttr=600, into="lease") == 1
        waiter.say("claim 1 3000 w")
        ids = fill(client)
        assert len(ids) > 100
        daemon.wait_log(r"error: jobs\.path: .*puts are refused until that is over")
        assert metric("failures_total") >= 1
        # Everything else goes on.
        assert other.fetch("peek %d" % ids[5])[1] == b"%08d" % 5 + b"x" * 30000
        number, token, tried, body = claim(other, "lease")
        assert (number, tried, body) == (1, 1, b"lease")
        assert other.ask("ack 1 %d" % token) == "DELETED"
        line, body = other.fetch("reserve")
        assert line == "RESERVED %d 30008" % ids[0]
        assert other.ask("bury %d 3" % ids[0]) == "BURIED"
        assert other.ask("kick-job %d" % ids[0]) == "KICKED"
        assert waiter.is_silent()
        gone = ids[: len(ids) // 2]
        for one in gone:
            assert other.ask("delete %d" % one) == "DELETED"
        # There is room again.
        wire.poll(lambda: isinstance(client.put(b"again", into="w"), int), "puts are taken again", 30)
        assert waiter.line() == "CLAIMED 1"
        assert waiter.job()[1] == b"again"
        wire.poll(lambda: metric("failing") == 0, "it succeeds again")
        daemon.wait_log("puts are taken again")
        more = fill(client)  # once more
        assert len(more) > len(gone) * 2 // 3
        left = [row[0] for row in listed(other, "default")]
        after = left[-1]
        while True:
            rows = other.ask("list-jobs default all %d 1000" % after).split()
            for _ in range(int(rows[1])):
                left.append(int(other.job()[0].split()[1]))
            if rows[2] == "0":
                break
            after = int(rows[2])
        assert left == ids[len(gone) :] + more
        assert other.ask("clear default all") == "CLEARED %d" % len(left)
        wire.poll(lambda: isinstance(client.put(b"at the end"), int), "puts are taken again", 30)


# --- the sandbox ---------------------------------------------------------------------------------


def test_only_the_thread_of_the_store_may_write(begin, path):
    program = os.path.join(os.path.dirname(servers.COUNTERD), "t", "system", "misbehaving")
    if not os.path.exists(program):
        pytest.skip("the program misbehaving is not built")
    daemon = begin(program=program)
    task = None
    for name in os.listdir("/proc/%d/task" % daemon.pid):
        with open("/proc/%d/task/%s/comm" % (daemon.pid, name)) as f:
            task = name if f.read().strip() == "job store" else task
    assert task, "it has no thread of the store"
    with open("/proc/%d/task/%s/status" % (daemon.pid, task)) as f:
        fields = dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)
    if fields["Seccomp"] != "2":
        pytest.skip("threads cannot be confined here")
    assert fields["CapEff"].strip("0\n ") == "" and fields["NoNewPrivs"] == "1"
    with daemon.job_client() as client:
        assert client.put(b"x" * 4000) == 1
    with daemon.text_client() as client:
        daemon.is_expected_to_be_gone = True
        client.say("MISBEHAVE write")
        try:
            client.line()
        except wire.Closed:
            pass
    with begin().job_client() as client:
        assert client.fetch("peek 1") == ("FOUND 1 4000", b"x" * 4000)


# --- metrics -------------------------------------------------------------------------------------


def test_metrics_of_the_store(begin, path):
    daemon = begin(admin=True)

    def metrics():
        text = http_client.ask(daemon.admin, "GET", "/metrics")[1]
        return {name: float(value) for name, value in re.findall(r"^counterd_jobs_store_(\w+) (\S+)$", text, re.M)}

    before = metrics()
    assert set(before) == {"commits_total", "commit_seconds_total", "longest_commit_seconds", "failures_total",
                           "failing", "damages_total", "stopped", "backup_running", "file_bytes", "log_bytes"}  # fmt: skip
    with daemon.job_client() as client:
        for _ in range(10):
            assert isinstance(client.put(b"x" * 100), int)
        after = metrics()
        assert after["commits_total"] - before["commits_total"] == 10
        assert 0 < after["longest_commit_seconds"] <= after["commit_seconds_total"]
        assert after["failures_total"] == after["failing"] == 0
        client.fetch("stats")
        client.fetch("peek 1")
        assert client.ask("list-jobs default all 0 10").startswith("LISTED 10")
        for _ in range(10):
            client.job()
        assert metrics()["commits_total"] == after["commits_total"]  # reading commits nothing
        body = b"y" * 1000000
        for _ in range(12):
            assert isinstance(client.put(body), int)
        wire.poll(lambda: metrics()["file_bytes"] > 8e6, "the log is written to the file")
        assert os.path.getsize(path) > 8e6


def test_many_puts_share_a_transaction(begin):
    daemon = begin(admin=True)
    commits = lambda: float(re.search(r"^counterd_jobs_store_commits_total (\S+)$",
                                      http_client.ask(daemon.admin, "GET", "/metrics")[1], re.M).group(1))  # fmt: skip
    with daemon.job_client() as client:
        before = commits()
        client.send_reading(b"put 0 0 60 1\r\nx\r\n" * 2000)
        assert [client.line() for _ in range(2000)] == ["INSERTED %d" % (n + 1) for n in range(2000)]
        assert commits() - before < 1000
        before = commits()
        client.send_reading(b"".join(b"delete %d\r\n" % (n + 1) for n in range(2000)))
        assert [client.line() for _ in range(2000)] == ["DELETED"] * 2000
        assert commits() - before < 1000


# --- upgrades ------------------------------------------------------------------------------------


def test_an_upgrade_to_another_file_is_refused(start, tmp_path, path):
    running = test_upgrade.Running(start, tmp_path, *JOBS, settings="jobs.path = %s\n" % path)
    with running.daemon.job_client() as client:
        assert client.put(b"x") == 1
        for other in ("jobs.path = %s-other\n" % path, ""):
            running.write(other)
            said = running.fail()
            assert "jobs.path" in said and "restart" in said, said
            assert client.put(b"y") > 1
        assert os.listdir(os.path.dirname(path)) and not os.path.exists(path + "-other")
        running.write("jobs.path = %s\n" % path)
        running.succeed()
        assert client.fetch("peek 1") == ("FOUND 1 1", b"x")


# The next process reads all bodies from the file, and would lose all connections without it.
def test_an_upgrade_without_a_good_file_is_refused(start, tmp_path, path):
    running = test_upgrade.Running(start, tmp_path, *JOBS, "jobs.path=" + path)
    with running.daemon.job_client() as client:
        assert client.put(b"x" * 1000) == 1
        os.rename(path, path + "-away")
        said = running.fail()
        assert "jobs.path: %s: io: the file was moved, removed or replaced" % path in said, said
        assert client.ask("put 0 0 60 1\r\ny") == "OUT_OF_MEMORY"
        os.rename(path + "-away", path)
        assert client.put(b"y") == 3
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with open(path, "rb") as f:
            head = f.read(4096)
        damage(path, 100, b"\xff" * 3996)  # the schema
        assert "jobs.path: %s: corrupt: " % path in running.fail()
        damage(path, 0, head)
        running.succeed()
        assert client.fetch("peek 1") == ("FOUND 1 1000", b"x" * 1000)


def test_an_upgrade_from_memory_to_a_file_is_refused(start, tmp_path, path):
    running = test_upgrade.Running(start, tmp_path, *JOBS)
    with running.daemon.job_client() as client:
        assert client.put(b"x") == 1
        running.write("jobs.path = %s\n" % path)
        said = running.fail()
        assert "jobs.path" in said and "restart" in said, said
        assert client.fetch("reserve") == ("RESERVED 1 1", b"x")
        assert not os.path.exists(path)
        # What a client uses is not in the file, either.
        assert client.ask("delete 1") == "DELETED"
        running.fail()


def test_a_reload_does_not_change_the_file(start, tmp_path, path):
    running = test_upgrade.Running(start, tmp_path, *JOBS, settings="jobs.path = %s\n" % path)
    running.write("jobs.path = %s-other\n" % path)
    said = running.daemon.reload()
    assert "jobs.path" in said, said
    with running.daemon.job_client() as client:
        assert client.put(b"x") == 1
    assert not os.path.exists(path + "-other")


class Worker(threading.Thread):
    """Puts jobs into a tube, claims some, and acknowledges them, until it is over."""

    def __init__(self, daemon, tube, seed):
        super().__init__()
        self.daemon, self.tube, self.rng = daemon, tube, random.Random(seed)
        self.there, self.unsure = set(), set()  # bodies; unsure: of a put or an ack without an answer
        self.answers, self.is_over, self.wrong = 0, False, None
        self.start()

    def run(self):
        try:
            with self.daemon.job_client() as client:
                client.fetch("tube %s claim=lease" % self.tube)
                while not self.is_over:
                    self.put(client)
                    self.finish(client)
        except (wire.Closed, OSError):
            self.wrong = "the connection has ended"
        except BaseException as e:  # pylint: disable=broad-except
            self.wrong = e

    def put(self, client):
        bodies = []
        for _ in range(self.rng.randrange(1, 20)):
            self.answers += 1
            bodies.append(b"%d " % self.answers + b"x" * self.rng.choice([9, 600]))
        self.unsure.update(bodies)
        client.send(b"".join(b"put-into %s 0 0 600 %d\r\n%s\r\n" % (self.tube.encode(), len(b), b) for b in bodies))
        for body in bodies:
            assert client.line().startswith("INSERTED ")
            self.there.add(body)
            self.unsure.remove(body)

    def finish(self, client):
        line = client.ask("claim %d 0 %s" % (self.rng.randrange(1, 25), self.tube))
        jobs = []
        for _ in range(int(line.split()[1])):
            line, body = client.job()
            self.there.remove(body)
            self.unsure.add(body)
            jobs.append((*reserved(line)[:2], body))
        client.send(b"".join(b"ack %d %d\r\n" % job[:2] for job in jobs))
        for job in jobs:
            assert client.line() == "DELETED"
            self.unsure.remove(job[2])

    def check(self, client):
        """What is left is what must be, but for what is unsure."""
        head, got = client.ask("list-jobs %s all 0 1000" % self.tube), set()
        for _ in range(int(head.split()[1]) if head != "NOT_FOUND" else 0):
            got.add(client.job()[1])
        assert self.there <= got <= self.there | self.unsure


# row real.upgrade
@pytest.mark.parametrize("sync", ["full", "normal"])
def test_upgrades_and_kills_under_load_lose_nothing(start, tmp_path, path, sync):
    seed = int(os.environ.get("T_SEED") or random.randrange(1 << 30))
    print("T_SEED=%d" % seed)
    rng = random.Random(seed)
    options = JOBS + ("jobs.path=" + path, "jobs.sync=" + sync)
    running = test_upgrade.Running(start, tmp_path, *options)
    daemon = running.daemon
    for kills in range(5):
        workers = [Worker(daemon, "t%d-%d" % (kills, n), seed + n) for n in range(3)]
        for _ in range(3 if kills == 0 else 0):
            running.install()
            running.succeed()
        enough = rng.randrange(20, 600)
        wire.poll(lambda: any(w.wrong or w.answers > enough for w in workers), "they work")
        if kills == 0:
            for worker in workers:
                worker.is_over = True
                worker.join(60)
            assert not any(w.wrong or w.unsure for w in workers), [w.wrong for w in workers]
        kill(daemon)
        for worker in workers:
            worker.join(60)
            assert worker.wrong in (None, "the connection has ended"), worker.wrong
        daemon = start(*options)
        with daemon.job_client() as client:
            for worker in workers:
                worker.check(client)
        assert sql(path, "PRAGMA integrity_check") == [("ok",)]


if __name__ == "__main__":
    tap.main(__file__)
