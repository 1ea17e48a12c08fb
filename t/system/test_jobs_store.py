"""Stored job queues on the real daemon: what stories cannot show of files, damage, full disks and load."""

import json
import os
import pwd
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
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


# --- the file ------------------------------------------------------------------------------------


def refused(*options):
    """What a daemon says that does not start."""
    daemon = servers.Counterd(*JOBS, *options, ready=False)
    status = daemon.wait()
    daemon.check_log()
    assert status not in (0, None) and status > 0, daemon.log
    assert "ready" not in daemon.log, daemon.log
    return daemon.log


# The socket of the job queues is closed, though the service manager made it.
def test_an_upgrade_goes_on_without_the_job_queues(begin, start, tmp_path, path):
    daemon = begin()
    with daemon.job_client() as client:
        for _ in range(300):
            assert isinstance(client.put(b"x" * 400), int)
    assert daemon.end_with(signal.SIGTERM) == 0
    for at in range(4096 * 5, os.path.getsize(path), 4096):
        damage(path, at, b"\xff" * 1000)
    inherit = [("jobs", servers.listening())]
    running = test_upgrade.Running(start, tmp_path, *JOBS, "jobs.path=" + path, inherit=inherit)
    running.daemon.wait_log(r"corrupt: .*malformed.*; the job queues do not serve")
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
        left, after = [], "0"
        while not left or after != "0":
            _, count, after = other.ask("list-jobs default all %s 1000" % after).split()
            left += [int(other.job()[0].split()[1]) for _ in range(int(count))]
        assert left == ids[len(gone) :] + more
        assert other.ask("clear default all") == "CLEARED %d" % len(left)
        wire.poll(lambda: isinstance(client.put(b"at the end"), int), "puts are taken again", 30)


# --- upgrades ------------------------------------------------------------------------------------


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
