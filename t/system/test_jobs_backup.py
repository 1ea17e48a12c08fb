"""Backups of stored job queues while they are in use: `counterctl jobs backup` and its interface."""

import json
import os
import signal
import sqlite3
import threading
from contextlib import closing

import pytest
import tap

import ctl
import http_client
import servers
import test_upgrade
import wire

pytestmark = pytest.mark.skipif(
    not servers.have_counterd() or not ctl.have_counterctl(),
    reason="COUNTERD names no daemon, or COUNTERCTL no client",
)

JOBS = ("counter.threads=2", "jobs.enable=true", "jobs.port=0", "jobs.sync=normal", "admin.token=hush")
LARGE = ("jobs.max_job_size=8M", "jobs.memory_limit=1G")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


@pytest.fixture
def begin(start, folder):
    """Starts the daemon on the file of the folder, and knows its admin interface."""
    return lambda *options: start(*JOBS, "jobs.path=%s/jobs.db" % folder, *options, admin=True)


def backup(daemon, name):
    env = {"COUNTER_ADMIN_TOKEN": "hush"}
    return ctl.run("--admin=" + ctl.at(daemon.admin), "jobs", "backup", name, env=env)


def post(daemon, name):
    return http_client.ask(daemon.admin, "POST", "/api/v1/backup?file=" + name, "hush")


def state(daemon):
    return http_client.get(daemon.admin, "/api/v1/backup")


def ids(path):
    """The ids of the jobs in a file that nobody uses, after a check of all of it."""
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [row[0] for row in database.execute("SELECT id FROM jobs ORDER BY id")]


def put_large(daemon, count=20):
    """Puts 80 MB, so that a copy is under way for a while."""
    with daemon.job_client() as client:
        for _ in range(count):
            client.put(b"x" * (4 << 20))


def names_in(folder):
    """The files, without those that a running daemon has beside its own."""
    return sorted(name for name in os.listdir(folder) if not name.startswith("jobs.db"))


class Load:
    """A client that puts and deletes as fast as it can."""

    def __init__(self, daemon):
        self.daemon, self.rounds, self.ends = daemon, 0, False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        with self.daemon.job_client() as client:
            while not self.ends:
                assert client.ask("delete %d" % client.put(b"abc" * 100)) == "DELETED"
                self.rounds += 1

    def end(self):
        self.ends = True
        self.thread.join()


def test_a_backup_beside_clients_that_work_is_whole(begin, start, folder):
    daemon = begin()
    with daemon.job_client() as client:
        kept = [client.put(b"y" * 30000) for _ in range(300)]
    loads = [Load(daemon) for _ in range(2)]
    try:
        wire.poll(lambda: all(load.rounds > 20 for load in loads), "they work")
        done = backup(daemon, "copy.db")
        assert done.status == 0 and done.out.startswith("%s/copy.db: " % folder), done
        rounds = [load.rounds for load in loads]
        wire.poll(lambda: all(load.rounds > was for load, was in zip(loads, rounds)), "they still work")
    finally:
        for load in loads:
            load.end()
    assert set(kept) <= set(ids(str(folder / "copy.db")))
    _, text = http_client.ask(daemon.admin, "GET", "/metrics")
    assert 'counterd_jobs_store_backups_total{outcome="good"} 1\n' in text
    assert 'counterd_jobs_store_backups_total{outcome="failed"} 0\n' in text
    assert "counterd_jobs_store_backup_running 0\n" in text
    assert os.stat(folder / "copy.db").st_mode & 0o777 == 0o640
    with start(*JOBS, "jobs.path=%s/copy.db" % folder).job_client() as client:
        assert client.fetch("peek %d" % kept[-1])[1] == b"y" * 30000


def test_one_at_a_time(begin, folder):
    daemon = begin(*LARGE)
    put_large(daemon)
    for number in range(20):  # the first may be over before the second is asked for
        assert post(daemon, "a%d" % number)[0] == 202
        status, text = post(daemon, "b%d" % number)
        wire.poll(lambda: not state(daemon)["running"], "the backup is over")
        if status == 409:
            break
        assert status == 202
        os.unlink(folder / ("b%d" % number))
        os.unlink(folder / ("a%d" % number))
    assert "another backup is under way: a%d" % number in text
    assert names_in(folder) == ["a%d" % number]


ENDED = "/copy.db: counterd ends or is upgraded; nothing is left of it"


def test_the_end_of_the_daemon_ends_it(begin, folder):
    daemon = begin(*LARGE)
    put_large(daemon)
    for _ in range(20):  # it may be over before the signal
        assert post(daemon, "copy.db")[0] == 202
        assert daemon.end_with(signal.SIGTERM) == 0
        if ENDED in daemon.log:
            break
        os.unlink(folder / "copy.db")
        daemon = begin(*LARGE)
    assert ENDED in daemon.log
    assert names_in(folder) == []


def test_an_upgrade_ends_it(start, tmp_path, folder):
    running = test_upgrade.Running(start, tmp_path, *JOBS, "jobs.path=%s/jobs.db" % folder, *LARGE, admin=True)
    put_large(running.daemon)
    for _ in range(20):
        assert post(running.daemon, "copy.db")[0] == 202
        running.succeed()
        if ENDED in running.daemon.log:
            break
        os.unlink(folder / "copy.db")
    assert ENDED in running.daemon.log
    assert names_in(folder) == []
    assert state(running.daemon)["file"] is None
    assert backup(running.daemon, "copy.db").status == 0


def test_another_folder(begin, folder, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / ".jobs.db.part").write_text("of one that was killed")
    daemon = begin("jobs.backup_path=%s" % other)
    assert names_in(other) == []
    with daemon.job_client() as client:
        client.put(b"x")
    assert backup(daemon, "copy.db").status == 0
    assert ids(str(other / "copy.db")) == [1]
    assert names_in(folder) == []


if __name__ == "__main__":
    tap.main(__file__)
