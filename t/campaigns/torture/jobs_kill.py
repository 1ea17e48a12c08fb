"""
./dev torture jobs-kill: the daemon is killed by SIGKILL in the midst of load on stored job queues,
and started again on the same file, 1,000 times. Every second round has jobs.sync = normal.

After each start, by the protocol and by the file:
- each job whose put was answered is there, with its body, unless its deletion was sent;
- none is there whose deletion was answered, whose put was refused, or that was never put whole;
- a put or deletion without an answer has happened, or not; a batch is there whole, or not at all;
- a lease that was answered is good still, with its token and its try; nothing else is reserved;
- a key that was executed is a duplicate still;
- a tube that one client alone uses is as after its last answered command, or the one after it:
  states, priorities, the order of burying, pause and settings;
- ids are greater than all before; PRAGMA integrity_check is ok.
While it runs: no job has two reservations at a time, and bodies are those that were put.
"""

import argparse
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "..", "system"))

import servers
import wire

CLIENTS = 6
WORK, LEASE, TRIES, KEYED = ["w0", "w1"], "l", "t", "k"
TRIES_MAX = 3
TTR, LEASE_TTR = 3600, 900
BACKLOG = 1500  # above it, more is taken than put
STATES = ["ready", "delayed", "reserved", "buried", "abandoned"]  # as the file numbers them


class Wrong(AssertionError):
    """A promise is broken."""


def require(condition, text, *values):
    if not condition:
        raise Wrong(text % values)


class Job:
    """What is known of one put. `label` is the beginning of its body, and unique."""

    __slots__ = ("label", "body", "tube", "key", "batch", "id", "deleting", "is_gone", "sent_at", "token",
                 "ends", "tries", "flying")  # fmt: skip

    def __init__(self, label, tube, size, key=None, batch=None):
        self.label, self.tube, self.key, self.batch = label, tube, key, batch
        self.body = label + b" " + (label * (size // len(label) + 1))[:size]
        self.id = None  # unknown until it is answered, or somebody was given it
        self.deleting = 0  # deletions that were sent, and not answered
        self.is_gone = False
        self.sent_at = time.time()
        self.token, self.ends = 0, 0.0  # of a lease, and until when it is good at least
        self.tries = 0
        self.flying = None  # what one client asks of its lease has no answer


class World:
    """What all clients know. One lock for all."""

    def __init__(self):
        self.lock = threading.RLock()
        self.jobs = {}  # by label: those that may be there
        self.by_id = {}
        self.gone = set()  # ids
        self.held = {}  # by id: the client that has reserved it
        self.floor = self.top = 0
        self.executed_before, self.executed_after = {}, {}  # by key: bounds of the last execution
        self.serial = 0
        self.answered = 0
        self.claiming = set()  # clients whose claim of leases has no answer
        self.wrong = []
        self.counts = {}

    def count(self, what, by=1):
        self.counts[what] = self.counts.get(what, 0) + by

    def make(self, rng, tube, key=None, batch=None):
        with self.lock:
            self.serial += 1
            label = b"job-%d" % self.serial
            size = rng.choice([0, 20, 200, 500, 520, 2000, 20000, 100000 if rng.random() < 0.1 else 9])
            job = self.jobs[label] = Job(label, tube, size, key, batch)
            return job

    def refuse(self, job):
        with self.lock:
            require(job.id is None, "%r was refused, and somebody has got it", job.label)
            del self.jobs[job.label]

    def insert(self, job, number):
        with self.lock:
            require(job.id or number > self.floor, "id %d, after %d", number, self.floor)
            require(job.id in (None, number), "%r: ids %s and %d", job.label, job.id, number)
            require(self.by_id.get(number, job) is job, "id %d twice", number)
            require(number not in self.gone or job.is_gone, "id %d again", number)
            job.id = number
            self.top = max(self.top, number)
            if number not in self.gone:
                self.by_id[number] = job

    def remove(self, job):
        """It is known to be gone."""
        with self.lock:
            job.is_gone, job.token, job.flying = True, 0, None
            self.jobs.pop(job.label, None)
            self.by_id.pop(job.id, None)
            self.held.pop(job.id, None)
            if job.id is not None:
                self.gone.add(job.id)

    def reserve(self, client, line, body, asked_at, lease=False):
        """Somebody was given a job."""
        words = line.split()
        number, label = int(words[1]), body.split(b" ", 1)[0]
        with self.lock:
            job = self.jobs.get(label)
            require(job, "%s: %r was deleted or never put", line, label)
            require(job.body == body, "%s: another body", line)
            require(not job.is_gone, "%s: it was deleted", line)
            require(number not in self.held, "%s: client %s has it", line, self.held.get(number))
            require(job.flying or not job.token or time.time() > job.ends, "%s: it has a lease", line)
            self.insert(job, number)
            if lease:
                job.token, job.ends = int(words[3]), asked_at + LEASE_TTR
                require(words[4] == job.tube, "%s: put into %s", line, job.tube)
                if job.tube == TRIES:
                    require(int(words[5]) == job.tries + 1, "%s: after try %d", line, job.tries)
                job.tries = int(words[5])
                job.flying = None
            else:
                self.held[number] = client
            return job

    def drop(self, job):
        """Before the client gives it back, in whatever way."""
        with self.lock:
            self.held.pop(job.id, None)

    def execute(self, job, asked_at, got_at):
        """A deletion of a reserved job with a key is sent."""
        with self.lock:
            self.executed_after[job.key] = max(self.executed_after.get(job.key, 0), got_at)

    def executed(self, job, asked_at):
        with self.lock:
            self.executed_before[job.key] = max(self.executed_before.get(job.key, 0), asked_at)


class Own:
    """A tube of one client: what it must be, after each command."""

    def __init__(self):
        self.jobs = {}  # label: [state, pri]
        self.ids = {}  # label: id
        self.buried, self.delayed = [], []  # in order
        self.paused = False
        self.remember = None

    def copy(self):
        new = Own()
        new.jobs = {label: list(row) for label, row in self.jobs.items()}
        new.ids = dict(self.ids)
        new.buried, new.delayed = list(self.buried), list(self.delayed)
        new.paused, new.remember = self.paused, self.remember
        return new

    def move(self, label, state, pri=None):
        row = self.jobs[label]
        for where in (self.buried, self.delayed):
            if label in where:
                where.remove(label)
        row[0] = state
        row[1] = row[1] if pri is None else pri
        if state == "buried":
            self.buried.append(label)
        elif state == "delayed":
            self.delayed.append(label)

    def remove(self, label):
        self.move(label, "ready")
        del self.jobs[label]
        self.ids.pop(label, None)

    def restart(self):
        for label, row in self.jobs.items():
            if row[0] == "reserved":
                row[0] = "ready"

    def seen(self):
        """What is compared."""
        rows = {label: tuple(row) for label, row in self.jobs.items()}
        return rows, list(self.buried), self.paused, self.remember


class Client(threading.Thread):
    """Works until the daemon is killed. `own` may be as it is, or as `next_own`."""

    def __init__(self, world, number, seed, daemon, own):
        super().__init__(daemon=True)
        self.world, self.number, self.daemon_at = world, number, daemon.jobs
        self.rng = random.Random(seed)
        self.own, self.next_own = own, None
        self.tube = "own-%d" % number
        self.client = None

    def run(self):
        deeds = [self.puts] * 3 + [self.work] * 4 + [self.batch, self.deletes, self.kicks, self.half]
        deeds += [self.leases] * 4 + [self.keyed] * 3 + [self.own_step] * 10
        try:
            self.connect()
            while True:
                deed = self.rng.choice(deeds)
                if deed in (self.puts, self.batch) and len(self.world.jobs) > BACKLOG:
                    deed = self.work
                deed()
                if self.rng.random() < 0.01:
                    self.connect()
        except (wire.Closed, ConnectionError):
            pass
        except BaseException as e:  # pylint: disable=broad-except
            self.world.wrong.append(e)
        finally:
            if self.client:
                self.client.close()

    def connect(self):
        if self.client:
            with self.world.lock:
                for number in [n for n, who in self.world.held.items() if who == self.number]:
                    del self.world.held[number]
            (self.client.reset if self.rng.random() < 0.5 else self.client.close)()
            # It may take a moment until the server notices, and an own job is ready.
            self.own.restart()
        self.client = wire.JobClient(self.daemon_at)
        if self.next_own is None:
            self.settle_own()
        for tube in WORK:
            self.client.say("watch " + tube)
        self.client.say("ignore default")
        for _ in range(3):
            self.client.line()

    def settle_own(self):
        """Waits until the jobs of the connection before are ready."""
        def none_is_reserved():
            head, _ = self.client.fetch("tube " + self.tube)
            return head == "NOT_FOUND" or self.client.stats("tube " + self.tube)["current-jobs-reserved"] == "0"
        wire.poll(none_is_reserved, "reservations have ended")

    def answer(self):
        line = self.client.line()
        self.world.answered += 1
        return line

    # --- tubes that all use

    def put_text(self, job):
        options = " key=%s" % job.key if job.key else ""
        ttr = LEASE_TTR if job.tube in (LEASE, TRIES) else TTR
        return b"put-into %s %d 0 %d %d%s\r\n%s\r\n" % (
            job.tube.encode(), self.rng.randrange(3), ttr, len(job.body), options.encode(), job.body)  # fmt: skip

    def put_answer(self, job, answer):
        if answer.startswith("INSERTED "):
            self.world.insert(job, int(answer[9:]))
            return
        if answer.startswith("DUPLICATE "):
            require(job.key, "%s for %r", answer, job.label)
            self.world.count("duplicates")
        else:
            require(answer == "OUT_OF_MEMORY", "%s for a put", answer)
            self.world.count("refused puts")
        self.world.refuse(job)

    def puts(self):
        tube = self.rng.choice(WORK + [LEASE, TRIES])
        jobs = [self.world.make(self.rng, tube) for _ in range(self.rng.randrange(1, 10))]
        self.client.send_reading(b"".join(map(self.put_text, jobs)))
        for job in jobs:
            self.put_answer(job, self.answer())

    def batch(self):
        rng, tube = self.rng, self.rng.choice(WORK + [LEASE])
        name = object()
        jobs = [self.world.make(rng, tube, batch=name) for _ in range(rng.randrange(2, 30))]
        ttr = LEASE_TTR if tube == LEASE else TTR
        records = b"".join(b"1 0 %d %d\r\n%s\r\n" % (ttr, len(job.body), job.body) for job in jobs)
        head = b"put-batch %s %d %d\r\n" % (tube.encode(), len(jobs), len(records))
        self.client.send_reading(head + records + b"\r\n")
        line, text = self.client.job()
        self.world.answered += 1
        if text is None:
            require(line == "OUT_OF_MEMORY", "%s for a batch", line)
            for job in jobs:
                self.world.refuse(job)
            return
        rows = text.decode().splitlines()[1:]
        require(len(rows) == len(jobs), "%d rows for %d records", len(rows), len(jobs))
        for job, row in zip(jobs, rows):
            self.put_answer(job, row[2:])

    def half(self):
        """A put that does not come whole."""
        job = self.world.make(self.rng, WORK[0])
        text = self.put_text(job)
        with self.world.lock:
            del self.world.jobs[job.label]
        self.client.send(text[: self.rng.randrange(1, len(text) - 1)])
        self.connect()

    def delete(self, jobs, verb=b"delete %d"):
        """Deletes jobs, in one packet."""
        with self.world.lock:
            for job in jobs:
                job.deleting += 1
                self.world.drop(job)
        self.client.send(b"".join((verb % job.id) + b"\r\n" for job in jobs))
        for job in jobs:
            answer = self.answer()
            if answer == "DELETED":
                self.world.remove(job)
            else:
                require(answer == "OUT_OF_MEMORY", "%s for the deletion of a reserved job", answer)
                job.deleting -= 1

    def take(self, tubes, count, lease=False):
        """Returns jobs that were reserved."""
        asked_at = time.time()
        if lease:
            self.world.claiming.add(self.number)
        answer = self.client.ask("claim %d 0 %s" % (count, " ".join(tubes)))
        self.world.answered += 1
        if answer in ("TIMED_OUT", "OUT_OF_MEMORY"):
            self.world.claiming.discard(self.number)
            return []
        require(answer.startswith("CLAIMED "), "%s for a claim", answer)
        jobs = []
        for _ in range(int(answer[8:])):
            line, body = self.client.job()
            jobs.append(self.world.reserve(self.number, line, body, asked_at, lease))
        self.world.claiming.discard(self.number)
        return jobs

    def work(self):
        rng = self.rng
        jobs = self.take(WORK, rng.randrange(1, 8))
        if rng.random() < 0.3:
            line, body = self.client.fetch("reserve-with-timeout 0")
            if body is not None:
                jobs.append(self.world.reserve(self.number, line, body, 0))
        if rng.random() < 0.7:
            self.delete(jobs)
            return
        for job in jobs:
            self.world.drop(job)
            words = rng.choice(["release %d 5 0", "bury %d 7", "release %d 0 1"])
            require(self.client.ask(words % job.id) in ("RELEASED", "BURIED", "OUT_OF_MEMORY"), "no %s", words)
            self.world.answered += 1

    def deletes(self):
        """Deletes jobs that somebody may have."""
        with self.world.lock:
            jobs = [j for j in self.rng.sample(list(self.world.by_id.values()), min(20, len(self.world.by_id)))
                    if j.tube in WORK and j.id not in self.world.held][:3]  # fmt: skip
            for job in jobs:
                job.deleting += 1
        self.client.send(b"".join(b"delete %d\r\n" % job.id for job in jobs))
        for job in jobs:
            if self.answer() == "DELETED":
                self.world.remove(job)
            else:
                with self.world.lock:
                    job.deleting -= 1

    def kicks(self):
        self.client.ask("use " + self.rng.choice(WORK))
        answer = self.client.ask("kick %d" % self.rng.randrange(1, 50))
        require(answer.startswith("KICKED ") or answer == "OUT_OF_MEMORY", "%s for a kick", answer)
        self.world.answered += 2

    # --- leases

    def leases(self):
        rng = self.rng
        if rng.random() < 0.5:
            self.take([LEASE, TRIES], rng.randrange(1, 6), lease=True)
            return
        with self.world.lock:
            jobs = [j for j in self.world.by_id.values() if j.token and not j.flying and not j.deleting
                    and time.time() < j.ends][: rng.randrange(1, 12)]  # fmt: skip
            mine = object()
            for job in jobs:
                job.flying = mine
        for job in jobs:
            deed = rng.random()
            if deed < 0.5:
                job.deleting += 1
                answer = self.client.ask("ack %d %d" % (job.id, job.token))
                require(answer in ("DELETED", "OUT_OF_MEMORY"), "%s for ack of %d, a good lease", answer, job.id)
                if answer == "DELETED":
                    self.world.remove(job)
                else:
                    job.deleting -= 1
            elif deed < 0.7:
                answer = self.client.ask("renew %d %d" % (job.id, job.token))
                require(answer in ("TOUCHED", "OUT_OF_MEMORY"), "%s for renew of %d", answer, job.id)
            else:
                last = job.tube == TRIES and job.tries == TRIES_MAX
                token, number = job.token, job.id
                answer = self.client.ask("nack %d %d 0" % (number, token))
                expected = "BURIED" if last else "RELEASED"
                require(answer in (expected, "OUT_OF_MEMORY"), "%s for nack of %d, try %d", answer, number,
                        job.tries)  # fmt: skip
                with self.world.lock:
                    if answer == expected and job.token == token:
                        job.token = 0
                require(answer == "OUT_OF_MEMORY" or self.client.ask("ack %d %d" % (number, token)) == "NOT_FOUND",
                        "a token is good twice")  # fmt: skip
                if last and answer == expected:
                    job.tries = 0  # before somebody is given it
                    require(self.client.ask("kick-job %d" % number) in ("KICKED", "OUT_OF_MEMORY"), "no kick-job")
            self.world.answered += 1
            with self.world.lock:
                if job.flying is mine:
                    job.flying = None

    # --- keys

    def keyed(self):
        rng = self.rng
        if rng.random() < 0.5:
            jobs = [self.world.make(rng, KEYED, "key-%d" % rng.randrange(40)) for _ in range(rng.randrange(1, 5))]
            self.client.send_reading(b"".join(map(self.put_text, jobs)))
            for job in jobs:
                self.put_answer(job, self.answer())
            return
        asked_at = time.time()
        jobs = self.take([KEYED], rng.randrange(1, 4))
        got_at = time.time()
        for job in jobs:
            if rng.random() < 0.3:
                self.world.drop(job)
                require(self.client.ask("release %d 1 0" % job.id) in ("RELEASED", "OUT_OF_MEMORY"), "no release")
            else:
                self.world.execute(job, asked_at, got_at)
                self.delete([job])
                if job.is_gone:
                    self.world.executed(job, asked_at)

    # --- the client's own tube

    def own_ask(self, line, change, *expected):
        """Sends a line that changes the tube. Until the answer, both are possible."""
        self.next_own = self.own.copy()
        change(self.next_own)
        answer = self.client.ask(line)
        self.world.answered += 1
        require(answer in expected or answer == "OUT_OF_MEMORY", "%s for %s", answer, line)
        if answer != "OUT_OF_MEMORY":
            self.own = self.next_own
        self.next_own = None

    def own_put(self):
        job = self.world.make(self.rng, self.tube)
        pri, delay = self.rng.randrange(4), self.rng.choice([0, 0, 3600])
        self.next_own = self.own.copy()
        self.next_own.jobs[job.label] = ["ready", pri]
        self.next_own.move(job.label, "delayed" if delay else "ready")
        answer = self.client.put(job.body, pri, delay, TTR, into=self.tube)
        self.world.answered += 1
        if isinstance(answer, int):
            self.world.insert(job, answer)
            self.own = self.next_own
            self.own.ids[job.label] = answer
        else:
            require(answer == "OUT_OF_MEMORY", "%s for a put", answer)
            self.world.refuse(job)
        self.next_own = None

    def own_delete(self, label):
        job = self.world.jobs[label]
        job.deleting += 1
        self.own_ask("delete %d" % job.id, lambda own: own.remove(label), "DELETED")
        if label in self.own.jobs:
            job.deleting -= 1
        else:
            self.world.remove(job)

    def own_claim(self):
        own = self.own
        ready = sorted((row[1], own.ids[label], label) for label, row in own.jobs.items() if row[0] == "ready")
        line, body = self.client.fetch("claim 1 0 " + self.tube)
        self.world.answered += 1
        if line == "OUT_OF_MEMORY":
            return
        if own.paused or not ready:
            require(line == "TIMED_OUT", "%s from %s (paused %s), ready %s", line, self.tube, own.paused, ready)
            return
        require(line == "CLAIMED 1", "%s from %s, ready %s", line, self.tube, ready)
        line, body = self.client.job()
        require(int(line.split()[1]) == ready[0][1], "%s, but the next is %s", line, ready[0])
        require(body == self.world.jobs[ready[0][2]].body, "%s: another body", line)
        own.move(ready[0][2], "reserved")

    def own_kick(self):
        own, count = self.own, self.rng.randrange(1, 4)
        self.client.ask("use " + self.tube)
        labels = (own.buried or own.delayed)[:count]
        self.own_ask("kick %d" % count, lambda new: [new.move(label, "ready") for label in labels],
                     "KICKED %d" % len(labels))  # fmt: skip

    def own_step(self):
        rng, own = self.rng, self.own
        what = rng.randrange(12)
        if what == 0 or own.remember is None:
            seconds = rng.randrange(4000, 9000)
            line = "tube %s remember=%d" % (self.tube, seconds)
            self.next_own = own.copy()
            self.next_own.remember = seconds
            head, text = self.client.fetch(line)
            self.world.answered += 1
            require(text or head == "OUT_OF_MEMORY", "%s for %s", head, line)
            if text:
                self.own = self.next_own
            self.next_own = None
        elif what == 1:
            paused = not own.paused
            self.own_ask("pause-tube %s %d" % (self.tube, 3000 if paused else 0),
                         lambda new: setattr(new, "paused", paused), "PAUSED")  # fmt: skip
        elif what == 2:
            self.own_kick()
        elif what in (3, 4):
            self.own_claim()
        elif what in (5, 6) and len(own.jobs) < 25 or not own.jobs:
            self.own_put()
        else:
            label = rng.choice(list(own.jobs))
            state, number = own.jobs[label][0], own.ids[label]
            if state == "ready" or rng.random() < 0.25:
                self.own_delete(label) if rng.random() < 0.6 or state == "reserved" else self.own_take(label)
            elif state == "reserved":
                pri, delay = rng.randrange(4), rng.choice([0, 3600])
                if rng.random() < 0.5:
                    self.own_ask("bury %d %d" % (number, pri), lambda new: new.move(label, "buried", pri), "BURIED")
                else:
                    self.own_ask("release %d %d %d" % (number, pri, delay),
                                 lambda new: new.move(label, "delayed" if delay else "ready", pri), "RELEASED")  # fmt: skip
            else:
                self.own_ask("kick-job %d" % number, lambda new: new.move(label, "ready"), "KICKED")

    def own_take(self, label):
        self.next_own = self.own.copy()
        self.next_own.move(label, "reserved")
        line, _ = self.client.fetch("reserve-job %d" % self.own.ids[label])
        self.world.answered += 1
        require(line.startswith("RESERVED ") or line == "OUT_OF_MEMORY", "%s for reserve-job of %s", line, label)
        if line != "OUT_OF_MEMORY":
            self.own = self.next_own
        self.next_own = None


# ---- after a start -------------------------------------------------------------------------------


def file_is_good(path, folder):
    """Checks a copy of what a kill has left, as the daemon would find it."""
    copy = os.path.join(folder, "copy.db")
    for ending in ("", "-wal"):
        if os.path.exists(path + ending):
            shutil.copy(path + ending, copy + ending)
    good = check_file("file:%s" % copy)
    for ending in ("", "-wal", "-shm"):
        if os.path.exists(copy + ending):
            os.unlink(copy + ending)
    return good


def check_file(name):
    with closing(sqlite3.connect(name, uri=True)) as database:
        rows = database.execute("PRAGMA integrity_check").fetchall()
        require(rows == [("ok",)], "integrity_check: %s", rows[:5])
        lost = database.execute(
            "SELECT count(*) FROM jobs LEFT JOIN large_bodies USING (id)"
            " WHERE length(coalesce(jobs.body, large_bodies.body)) IS NOT jobs.bytes"
        ).fetchone()[0]
        require(lost == 0, "%d jobs in the file have no body, or one of another length", lost)


def listed(client, tube):
    """All jobs of a tube: rows of id, state, try, body."""
    rows, after = [], 0
    while True:
        head = client.ask("list-jobs %s all %d 1000" % (tube, after))
        if head == "NOT_FOUND":
            return rows
        _, count, after = head.split()
        for _ in range(int(count)):
            line, body = client.job()
            words = line.split()
            rows.append((int(words[1]), words[3], int(words[4]), body))
        after = int(after)
        if after == 0:
            return rows


def check_own(world, clients, client, found, database):
    for one in clients:
        possible = [own for own in (one.own, one.next_own) if own]
        rows = {}
        for label, (number, state, _) in found.get(one.tube, {}).items():
            rows[label] = ("buried" if state == "abandoned" else state, int(client.stats("stats-job %d" % number)["pri"]))
        buried = [body.split(b" ", 1)[0] for (body,) in database.execute(
            "SELECT b.body FROM jobs JOIN bodies b USING (id) WHERE tube = ? AND state = 3 ORDER BY due, id",
            (one.tube,))]  # fmt: skip
        if client.fetch("tube " + one.tube)[0] == "NOT_FOUND":
            seen = rows, buried, False, None
        else:
            pause = client.stats("stats-tube " + one.tube)["pause"]
            remember = int(client.stats("tube " + one.tube)["remember"])
            seen = rows, buried, pause == "3000", None if remember == 3600 else remember
        for own in possible:
            own.restart()
        good = [own for own in possible if own.seen() == seen]
        require(good, "%s is\n%s\nand may be\n%s", one.tube, seen, "\nor\n".join(str(o.seen()) for o in possible))
        one.own, one.next_own = good[0], None
        one.own.ids = {label: number for label, (number, _, _) in found.get(one.tube, {}).items()}
        client.ask("use " + one.tube)
        line, body = client.fetch("peek-buried")
        require((body or b"").split(b" ", 1)[0] == (buried[0] if buried else b""), "peek-buried: %s", line)
        for label, row in one.own.jobs.items():
            require(label in world.jobs, "%r is in no list", label)


def check_leases(world, client, database, found):
    """Leases whose answer was lost are given back with the token of the file."""
    for tube in (LEASE, TRIES):
        for label, (number, state, tries) in found.get(tube, {}).items():
            job = world.jobs[label]
            was_flying, job.flying = job.flying, None
            if job.token and time.time() > job.ends:
                continue  # it may be over
            if job.token and not was_flying:
                require(state == "reserved", "the lease of %d was answered, and it is %s", number, state)
                require(tries == job.tries, "job %d had try %d, and has %d", number, job.tries, tries)
            elif state == "reserved" and not job.token:
                row = database.execute("SELECT token, tries FROM jobs WHERE id = ?", (number,)).fetchone()
                require(world.claiming or was_flying, "job %d is reserved, and nobody asked for it", number)
                world.count("leases without an answer")
                if tube == TRIES and tries == TRIES_MAX:
                    job.token, job.tries, job.ends = row[0], tries, time.time() + 60
                    continue
                require(client.ask("nack %d %d 0" % (number, row[0])) == "RELEASED", "the file's token is bad")
            elif state != "reserved":
                job.token = 0
                if state == "abandoned":
                    require(client.ask("kick-job %d" % number) == "KICKED", "no kick-job")
                    tries = 0
                elif tube == TRIES and not was_flying:
                    require(tries == job.tries, "job %d had try %d, and has %d", number, job.tries, tries)
            job.tries = tries


def check(world, clients, daemon, path):
    """Compares what is there with what was answered."""
    found, labels, top = {}, set(), 0
    with daemon.job_client() as client, closing(sqlite3.connect("file:%s?mode=ro" % path, uri=True)) as database:
        in_file = dict(database.execute("SELECT id, length(body) FROM bodies"))
        for tube in WORK + [LEASE, TRIES, KEYED] + [one.tube for one in clients]:
            for number, state, tries, body in listed(client, tube):
                label = body.split(b" ", 1)[0]
                job = world.jobs.get(label)
                require(number not in world.gone, "job %d is back (%r)", number, label)
                require(job, "job %d, %r: its put was refused or not whole, or its deletion answered", number, label)
                require(job.body == body, "job %d has another body: %r", number, body[:100])
                require(job.tube == tube and job.id in (None, number), "%r is job %d in %s", label, number, tube)
                require(label not in labels, "%r is there twice", label)
                require(tube in (LEASE, TRIES) or state != "reserved", "job %d is reserved", number)
                require(in_file.pop(number, None) == len(body), "job %d is not in the file so", number)
                labels.add(label)
                found.setdefault(tube, {})[label] = (number, state, tries)
                top = max(top, number)
        wire.poll(lambda: not in_file.keys() & {row[0] for row in database.execute("SELECT id FROM jobs")},
                  "jobs that are in the file alone are dropped")  # fmt: skip
        batches = {}
        for job in list(world.jobs.values()):
            if job.batch is not None:
                batches.setdefault(job.batch, []).append(job.label in labels or job.id is not None)
        for batch in batches.values():
            require(all(batch) or not any(batch), "of a batch there are %d of %d", sum(batch), len(batch))
        for job in list(world.jobs.values()):
            if job.label in labels:
                if job.id is None:
                    world.count("puts without an answer, done")
                    world.floor = 0
                    world.insert(job, found[job.tube][job.label][0])
                if job.deleting:
                    world.count("deletions without an answer, not done")
                    job.deleting = 0
                continue
            if job.id is None:
                world.count("puts without an answer, not done")
                del world.jobs[job.label]
                continue
            dropped = job.key and world.executed_after.get(job.key, 0) > job.sent_at
            require(job.deleting or dropped, "job %s (%r, %s) is lost", job.id, job.label, job.tube)
            world.count("deletions without an answer, done" if job.deleting else "dropped")
            world.remove(job)
        for job in world.jobs.values():
            if job.batch is not None:
                job.batch = None
        check_own(world, clients, client, found, database)
        check_leases(world, client, database, found)
        for key in random.sample(sorted(world.executed_before), min(4, len(world.executed_before))):
            at = world.executed_before[key] - 0.1
            client.say("put-into %s 0 0 60 3 key=%s at=%.3f\r\nnew" % (KEYED, key, at))
            answer = client.line()
            require(answer.startswith("DUPLICATE"), "%s for %s, executed after %.3f", answer, key, at)
        number = client.put(b"probe", into="probe")
        require(isinstance(number, int) and number > max(top, world.top), "id %s after %d", number, max(top, world.top))
        require(client.ask("delete %d" % number) == "DELETED", "the probe is not deleted")
        world.top = world.floor = number
    world.held.clear()
    world.claiming.clear()


# ---- rounds --------------------------------------------------------------------------------------


def start_daemon(path, sync, limit):
    return servers.Counterd("counter.threads=2", "jobs.enable=true", "jobs.port=0", "jobs.path=" + path,
                            "jobs.sync=" + sync, "jobs.memory_limit=" + limit, "counter.enable=false",
                            "poolcounter.enable=false")  # fmt: skip


def kill_at_start(rng, path, sync):
    """Kills a daemon that is starting."""
    daemon = servers.Counterd("jobs.enable=true", "jobs.port=0", "jobs.path=" + path, "jobs.sync=" + sync,
                              "counter.enable=false", "poolcounter.enable=false", ready=False)  # fmt: skip
    try:
        daemon.child.wait(rng.random() * 0.1)
    except subprocess.TimeoutExpired:
        pass
    require(daemon.child.returncode is None, "it ended at its start:\n%s", daemon.log)
    daemon.kill()


def prepare(daemon):
    with daemon.job_client() as client:
        for line in ("tube %s claim=lease" % LEASE, "tube %s claim=lease tries=%d" % (TRIES, TRIES_MAX)):
            require(client.fetch(line)[1], "no %s", line)
        for tube in WORK + [KEYED]:
            require(client.fetch("tube %s remember=7200" % tube)[1], "no settings")


def load(world, clients, daemon, rng):
    """Works until a random number of answers, and kills the daemon then."""
    until = world.answered + int(10 ** rng.uniform(0, 3))
    for client in clients:
        client.start()
    deadline = time.monotonic() + 120
    while world.answered < until and not world.wrong:
        require(time.monotonic() < deadline, "no answers:\n%s", daemon.log)
        require(daemon.is_running(), "it ended with %s:\n%s", daemon.child.returncode, daemon.log)
        time.sleep(0.0005)
    daemon.is_expected_to_be_gone = True
    daemon.child.send_signal(signal.SIGKILL)
    daemon.wait()
    for client in clients:
        client.join(60)
        require(not client.is_alive(), "a client hangs")
    if world.wrong:
        raise world.wrong[0]


def campaign(kills, seed, show=False):
    """Returns a table of what was seen. Raises Wrong."""
    rng = random.Random(seed)
    folder = tempfile.mkdtemp(prefix="jobs-kill-")
    path = os.path.join(folder, "jobs.db")
    world, owns, done, began = World(), [Own() for _ in range(CLIENTS)], 0, time.monotonic()
    daemon = None
    try:
        while done < kills:
            sync = ("full", "normal")[done % 2]
            daemon = start_daemon(path, sync, rng.choice(["1G", "1G", "4M"]))
            clients = [Client(world, n, rng.random(), daemon, owns[n]) for n in range(CLIENTS)]
            if done == 0:
                prepare(daemon)
            load(world, clients, daemon, rng)
            done += 1
            world.count("kills with sync=" + sync)
            if rng.random() < 0.1 and done < kills:
                kill_at_start(rng, path, sync)
                world.count("kills at the start")
                done += 1
            file_is_good(path, folder)
            daemon = start_daemon(path, sync, "1G")
            check(world, clients, daemon, path)
            owns = [client.own for client in clients]
            if rng.random() < 0.5:  # else the check's daemon is killed, too
                daemon.stop()
                world.count("ends by SIGTERM")
            else:
                daemon.is_expected_to_be_gone = True
                daemon.kill()
            if show and done % 50 < 2:
                print("%5d kills, %7d answers, %5d jobs, %.0f s" % (
                    done, world.answered, len(world.jobs), time.monotonic() - began), flush=True)  # fmt: skip
        daemon = start_daemon(path, "full", "1G")
        check(world, clients, daemon, path)
        daemon.stop()
    except BaseException:
        print("seed %d, after %d kills; the file: %s" % (seed, done, folder))
        if daemon:
            daemon.kill()
            print(daemon.log[-3000:])
        raise
    shutil.rmtree(folder)
    rows = [("kills", done), ("answers", world.answered), ("puts", world.serial), ("jobs at the end", len(world.jobs)),
            ("seconds", int(time.monotonic() - began))]  # fmt: skip
    return rows + sorted(world.counts.items())


def main():
    parser = argparse.ArgumentParser(prog="./dev torture jobs-kill", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--kills", type=int, default=1000, help="how many (1000)")
    parser.add_argument("--seed", type=int, help="of the plan")
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else random.randrange(2**31)
    print("seed %d" % seed, flush=True)
    for what, number in campaign(args.kills, seed, show=True):
        print("%-40s %8d" % (what, number))


if __name__ == "__main__":
    main()
