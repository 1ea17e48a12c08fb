"""
A farm of wikis, as MediaWiki's job queue sees it: producers with keys, enqueue times and root jobs,
and ten runners that find 1,000 tubes by waiting for `ready wiki/*`. All answers are noted with their
times, and in the end every job must have been run, dropped or abandoned, as the rules say.

T_SEED repeats the plan of a run; the threads race anyway.
"""

import collections
import json
import os
import random
import threading
import time

import pytest
import tap

import servers
import wire

pytestmark = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")

WIKIS = wire.scaled(250, 60)
TYPES = ("refreshLinks", "htmlCacheUpdate", "cirrusSearch", "email")
TUBES = ["wiki/%d/%s" % (wiki, kind) for wiki in range(WIKIS) for kind in TYPES]
RUNNERS = 10
TRIES = 3
SLACK = 0.002  # between the clock of time.time and three decimals

# A put: what was asked, when, and the answer ("INSERTED" or "DUPLICATE", and the id).
Put = collections.namedtuple("Put", "tube key at root fate tries sent answered wall word id")
# A reservation. `end` is when the runner gave it up (or it ran out), before it said so;
# `word` is the answer, or "LOST".
Run = collections.namedtuple("Run", "id tube try_ sent got wall_sent wall_got end answered word")


class Farm:
    """The daemon, and what its clients have seen."""

    def __init__(self, daemon, seed):
        self.daemon = daemon
        self.seed = seed
        self.puts = []  # list.append is atomic
        self.runs = []
        self.is_over = False
        self.errors = []

    def thread(self, function, *arguments):
        def body():
            try:
                function(*arguments)
            except BaseException as e:  # pylint: disable=broad-except
                self.errors.append("%s%r: %r" % (function.__name__, arguments, e))

        made = threading.Thread(target=body)
        made.start()
        return made


# --- producers -----------------------------------------------------------------------------------


def words_of(job):
    """The options of a put."""
    words = []
    if job.get("key"):
        words.append("key=" + job["key"])
    if job.get("at"):
        words.append("at=%.3f" % job["at"])
    if job.get("root"):
        words.append("root=%s:%.3f" % job["root"])
    if job.get("tries"):
        words.append("tries=%d" % job["tries"])
    return " ".join(words)


def numbers_of(job, body):
    return "%d %d %d %d" % (job.get("pri", 0), job.get("delay", 0), job.get("ttr", 60), len(body))


def body_of(job):
    return json.dumps({"tube": job["tube"], "fate": job.get("fate", "good")}).encode()


def note_put(farm, job, sent, wall, answer):
    word, number = answer.split()
    assert word in ("INSERTED", "DUPLICATE"), answer
    farm.puts.append(
        Put(job["tube"], job.get("key"), job.get("at"), job.get("root"), job.get("fate", "good"),
            job.get("tries", TRIES), sent, time.monotonic(), wall, word, int(number))
    )  # fmt: skip
    return word, int(number)


def put_each(farm, client, jobs):
    """Puts each job by itself, in one packet. Returns pairs of word and id."""
    sent, wall, data = time.monotonic(), time.time(), b""
    for job in jobs:
        body = body_of(job)
        line = "put-into %s %s %s" % (job["tube"], numbers_of(job, body), words_of(job))
        data += line.rstrip().encode() + b"\r\n" + body + b"\r\n"
    client.send_reading(data)
    return [note_put(farm, job, sent, wall, client.line()) for job in jobs]


def put_batch(farm, client, jobs):
    """Puts jobs of one tube in one batch. Returns pairs of word and id."""
    sent, wall, records = time.monotonic(), time.time(), b""
    for job in jobs:
        body = body_of(job)
        line = "%s %s" % (numbers_of(job, body), words_of(job))
        records += line.rstrip().encode() + b"\r\n" + body + b"\r\n"
    head = "put-batch %s %d %d" % (jobs[0]["tube"], len(jobs), len(records))
    client.send_reading(head.encode() + b"\r\n" + records + b"\r\n")
    line, text = client.job()
    assert text is not None, line
    rows = text.decode().splitlines()
    assert rows[0] == "---" and len(rows) == len(jobs) + 1, rows
    return [note_put(farm, job, sent, wall, row[2:]) for job, row in zip(jobs, rows[1:])]


def job_for(rng, tube):
    """A job of the kind that its tube is for."""
    job = {"tube": tube, "pri": rng.randrange(3), "delay": rng.random() < 0.03}
    job["fate"] = rng.choices(("good", "flaky", "bad", "lost"), (90, 5, 3, 0.5))[0]
    if job["fate"] == "lost":
        job["ttr"] = 1
    kind = tube.rpartition("/")[2]
    if kind in ("refreshLinks", "htmlCacheUpdate"):
        job["key"] = "page-%d" % rng.randrange(4)
        if rng.random() < 0.8:
            job["at"] = round(time.time() - rng.choice((0, 0, 0.05, 2, 60)), 3)
    if kind == "refreshLinks" and rng.random() < 0.5:
        job["root"] = ("template-%d" % rng.randrange(2), 1000.5 + rng.randrange(3))
    if kind == "email":
        job["tries"] = 1  # MediaWiki's allowRetries() is false
        if job["fate"] == "flaky":
            job["fate"] = "bad"
        elif job["fate"] == "lost":
            job["fate"] = "good"
    return job


def produce(farm, number, count):
    rng = random.Random(farm.seed * 100 + number)
    with farm.daemon.job_client() as client:
        done = 0
        while done < count and not farm.errors:
            tube = rng.choice(TUBES)
            if rng.random() < 0.5:
                jobs = [job_for(rng, tube) for _ in range(rng.randrange(1, 12))]
                put_batch(farm, client, jobs)
            else:
                jobs = [job_for(rng, rng.choice(TUBES)) for _ in range(rng.randrange(1, 12))]
                put_each(farm, client, jobs)
            done += len(jobs)


# --- runners -------------------------------------------------------------------------------------


def claim(farm, client, count, tubes):
    """Claims jobs. Returns runs that are not over, each with the job's token and fate."""
    sent, wall_sent = time.monotonic(), time.time()
    line = client.ask("claim %d 0 %s" % (count, " ".join(tubes)))
    if line == "TIMED_OUT":
        return []
    word, number = line.split()
    assert word == "CLAIMED" and 0 < int(number) <= count, line
    found = []
    for _ in range(int(number)):
        line, body = client.job()
        word, job, _, token, tube, try_ = line.split()
        job, told = int(job), json.loads(body)
        assert word == "RESERVED" and tube in tubes and told["tube"] == tube, line
        run = Run(job, tube, int(try_), sent, time.monotonic(), wall_sent, time.time(), 0, 0, "")
        found.append((run, token, told["fate"]))
    return found


def finish(farm, client, claimed):
    """Acknowledges, refuses or forgets what was claimed."""
    asked = []
    lines = b""
    for run, token, fate in claimed:
        if fate == "lost" and run.try_ == 1:
            ends = run.sent + 1  # its ttr; the server's reservation did not begin earlier
            farm.runs.append(run._replace(end=ends, answered=ends, word="LOST"))
            continue
        if fate == "bad" or (fate == "flaky" and run.try_ == 1):
            lines += b"nack %d %s 0\r\n" % (run.id, token.encode())
        else:
            lines += b"ack %d %s\r\n" % (run.id, token.encode())
        asked.append(run._replace(end=time.monotonic()))
    if asked:
        client.send_reading(lines)
        for run in asked:
            word = client.line()
            farm.runs.append(run._replace(answered=time.monotonic(), word=word))


def run_jobs(farm, number):
    rng = random.Random(farm.seed * 100 + 50 + number)
    # Jobs are leased, so any connection may acknowledge them.
    with farm.daemon.job_client() as client, farm.daemon.job_client() as other:
        while not farm.is_over and not farm.errors:
            line, text = client.fetch("ready 1 1000 wiki/*")
            if line == "TIMED_OUT":
                continue
            rows = [row.split(": ") for row in text.decode().splitlines()[1:]]
            names = [name.strip('"') for name, _ in rows]
            assert names == sorted(names) and all(int(jobs) > 0 for _, jobs in rows), rows
            assert set(names) <= set(TUBES)
            chosen = rng.sample(names, min(len(names), 20))
            claimed = claim(farm, client, rng.randrange(1, 30), chosen)
            if claimed and rng.random() < 0.2:
                run, token, _ = claimed[0]
                assert other.ask("renew %d %s" % (run.id, token)) == "TOUCHED"
            finish(farm, rng.choice((client, other)), claimed)


# --- before the runners --------------------------------------------------------------------------


def make_tubes(farm):
    """Gives each tube a setting of its own, so that it lives on without jobs, and keeps its counts."""
    with farm.daemon.job_client() as client:
        client.send_reading(b"".join(b"tube %s prune=604800\r\n" % t.encode() for t in TUBES))
        for tube in TUBES:
            line, text = client.job()
            assert line.startswith("OK ") and ('name: "%s"' % tube).encode() in text, line


def certain_cases(farm):
    """What each run must have, whatever the threads do later."""
    with farm.daemon.job_client() as client:
        tube = TUBES[0]
        old = {"tube": tube, "root": ("template-certain", 1000.0)}
        new = {"tube": tube, "root": ("template-certain", 1001.0)}
        assert [word for word, _ in put_batch(farm, client, [old] * 5)] == ["INSERTED"] * 5
        # A root's time counts from the commit of its put on, so each waits for the one before.
        assert put_each(farm, client, [new])[0][0] == "INSERTED"
        assert put_each(farm, client, [old]) == [("DUPLICATE", 0)]
        assert put_each(farm, client, [new])[0][0] == "INSERTED"
        # Found later: the key is free while its job runs, and was executed when that is finished.
        tube = TUBES[1]
        keyed = {"tube": tube, "key": "certain", "at": round(time.time() - 30, 3)}
        put_each(farm, client, [keyed])
        claimed = claim(farm, client, 1, [tube])
        assert [word for word, _ in put_each(farm, client, [keyed, keyed])] == [
            "INSERTED", "DUPLICATE",
        ]  # fmt: skip
        finish(farm, client, claimed)
        assert claim(farm, client, 9, [tube]) == []
        assert put_each(farm, client, [keyed]) == [("DUPLICATE", 0)]
        # The same, but a newer duplicate came meanwhile: the job takes its time, and is run.
        keyed = dict(keyed, tube=TUBES[4])
        put_each(farm, client, [keyed])
        claimed = claim(farm, client, 1, [TUBES[4]])
        put_each(farm, client, [keyed])
        newer = dict(keyed, at=round(time.time() + 0.001, 3))
        assert put_each(farm, client, [newer])[0][0] == "DUPLICATE"
        finish(farm, client, claimed)
        claimed = claim(farm, client, 1, [TUBES[4]])
        assert len(claimed) == 1
        finish(farm, client, claimed)
        # Of one batch; the second record is a duplicate of the first.
        tube = TUBES[5]
        fresh = {"tube": tube, "key": "batch", "fate": "bad"}
        (one, first), (two, second) = put_batch(farm, client, [fresh, fresh])
        assert (one, two, first) == ("INSERTED", "DUPLICATE", second)
        # One that a lost runner had.
        put_each(farm, client, [{"tube": TUBES[2], "ttr": 1, "fate": "lost"}])
        # An e-mail that is tried once.
        put_each(farm, client, [{"tube": TUBES[3], "tries": 1, "fate": "bad"}])


# --- afterwards ----------------------------------------------------------------------------------


class Record:
    """What the notes say of one job."""

    def __init__(self, put):
        self.put = put
        self.merged = []  # puts that are its duplicates
        self.runs = []

    @property
    def last(self):
        return self.runs[-1].word if self.runs else None

    def newest(self):
        """
        The latest times that it may have, of the enqueueing and of its root: its own or those of
        its duplicates. A job without a root gets none from a duplicate.
        """
        all_of_it = [self.put] + self.merged
        ats = [put.at or put.answered - put.sent + put.wall for put in all_of_it]
        roots = [put.root[1] for put in all_of_it if put.root] if self.put.root else [None]
        return max(ats), max(roots)


def gather(farm):
    jobs = {put.id: Record(put) for put in farm.puts if put.word == "INSERTED"}
    assert len(jobs) == sum(put.word == "INSERTED" for put in farm.puts), "an id twice"
    for put in farm.puts:
        if put.word == "DUPLICATE" and put.id:
            of = jobs[put.id].put
            assert put.key and (of.tube, of.key) == (put.tube, put.key), (put, of)
            assert not of.root or not put.root or of.root[0] == put.root[0], (put, of)
            jobs[put.id].merged.append(put)
    for run in sorted(farm.runs, key=lambda run: run.got):
        assert run.tube == jobs[run.id].put.tube, run
        jobs[run.id].runs.append(run)
    return jobs


def check_runs(job):
    """One run after the other, each a try, with the right answer in the end."""
    tries = job.put.tries
    for number, run in enumerate(job.runs):
        assert run.try_ == number + 1, job.runs
        assert number == 0 or run.got >= job.runs[number - 1].end, "run twice at once: %s" % job.runs
        is_last = number + 1 == len(job.runs)
        if run.word == "BURIED":
            assert is_last and run.try_ == tries, job.runs
        elif run.word == "DELETED":
            assert is_last, job.runs
        else:
            assert run.word in ("RELEASED", "LOST") and run.try_ < tries, job.runs


def may_be_dropped(put, merged, puts, executions):
    """True if a root has a newer time than the job, or its key was executed after its time."""
    all_of_it = [put] + merged
    if put.root:
        newest = max(each.root[1] for each in all_of_it if each.root)
        for other in puts[put.tube]:
            if other.root and other.root[0] == put.root[0] and other.root[1] > newest:
                return True
    at = max(each.at or each.wall for each in all_of_it) - SLACK
    return any(run.wall_got >= at for run in executions[put.tube, put.key])


def check_handed_out(job, puts, executions):
    """No run began when it was certain that the job was a duplicate."""
    at, root = job.newest()
    for run in job.runs:
        for other in puts[job.put.tube]:
            if root is not None and other.root and other.id:  # DUPLICATE 0 registers no time
                is_newer = other.root[0] == job.put.root[0] and other.root[1] > root
                assert not (is_newer and other.answered < run.sent), (run, job.put, other)
        for done in executions[job.put.tube, job.put.key]:
            is_later = done.wall_sent > at + SLACK and done.id != job.put.id
            is_wrong = is_later and done.answered < run.sent
            assert not is_wrong, "run: %s; %s; %s; but: %s" % (run, job.put, job.merged, done)


def check_tube(told, tube, records, puts, runs):
    words = collections.Counter(run.word for run in runs)
    ended = words["DELETED"] + words["BURIED"]
    expected = {
        "current-jobs-ready": 0,
        "current-jobs-delayed": 0,
        "current-jobs-reserved": 0,
        "current-jobs-abandoned": words["BURIED"],
        "total-puts": len(records),
        "total-duplicates": sum(put.word == "DUPLICATE" for put in puts),
        "total-claims": len(runs),
        "total-acks": words["DELETED"],
        "total-recycled": words["LOST"],
        "total-abandoned": words["BURIED"],
        "total-dropped": len(records) - ended,
    }
    got = {name: int(told[name]) for name in expected}
    assert got == expected, "%s: %s, not %s" % (tube, got, expected)


def check(farm):
    jobs = gather(farm)
    puts, executions = collections.defaultdict(list), collections.defaultdict(list)
    by_tube, runs = collections.defaultdict(list), collections.defaultdict(list)
    for put in farm.puts:
        puts[put.tube].append(put)
    for job in jobs.values():
        by_tube[job.put.tube].append(job)
        runs[job.put.tube].extend(job.runs)
        if job.put.key and job.last == "DELETED":
            executions[job.put.tube, job.put.key].append(job.runs[-1])
    for put in farm.puts:
        if put.word == "DUPLICATE" and put.id == 0:
            assert may_be_dropped(put, [], puts, executions), "no duplicate: %s" % (put,)
    ends = collections.Counter()
    for job in jobs.values():
        check_runs(job)
        check_handed_out(job, puts, executions)
        if job.last not in ("DELETED", "BURIED"):
            is_due = may_be_dropped(job.put, job.merged, puts, executions)
            assert is_due, "lost: %s %s" % (job.put, job.runs)
        ends[job.last if job.last in ("DELETED", "BURIED") else "dropped"] += 1
        if job.last == "DELETED":
            assert job.put.fate != "bad", job.runs
        if job.last == "BURIED":
            assert job.put.fate == "bad", job.runs
    with farm.daemon.job_client() as client:
        for tube in TUBES:
            told = client.stats("tube " + tube)
            check_tube(told, tube, by_tube[tube], puts[tube], runs[tube])
        stats = client.stats()
        assert stats["current-jobs-ready"] == stats["current-jobs-reserved"] == "0"
        assert int(stats["total-jobs"]) == len(jobs)
    return ends


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_farm_of_wikis(start, tmp_path, store):
    seed = int(os.environ.get("T_SEED") or random.randrange(1 << 30))
    print("T_SEED=%d" % seed)
    defaults = "jobs.tube_defaults=tries=%d claim=lease" % TRIES
    options = ["counter.threads=4", "jobs.enable=true", "jobs.port=0", defaults]
    if store == "sqlite":
        # Nothing here is about power losses, so the disk need not be waited for.
        options += ["jobs.path=%s" % (tmp_path / "jobs.db"), "jobs.sync=normal"]
    daemon = start(*options)
    farm = Farm(daemon, seed)
    make_tubes(farm)
    certain_cases(farm)
    runners = [farm.thread(run_jobs, farm, number) for number in range(RUNNERS)]
    producers = [farm.thread(produce, farm, number, wire.scaled(2500, 500)) for number in range(3)]
    for thread in producers:
        thread.join()

    def all_is_done():
        assert not farm.errors, farm.errors
        with daemon.job_client() as client:
            stats = client.stats()
            return all(
                stats["current-jobs-" + state] == "0" for state in ("ready", "delayed", "reserved")
            )

    try:
        wire.poll(all_is_done, "nothing is left to do", wire.DEADLINE * 3)
    finally:
        farm.is_over = True
        for thread in runners:
            thread.join()
    assert not farm.errors, farm.errors
    ends = check(farm)
    print(dict(ends), len(farm.puts), "puts", len(farm.runs), "runs")
    assert all(ends[end] > 0 for end in ("DELETED", "BURIED", "dropped")), ends
    assert any(run.word == "LOST" for run in farm.runs)


if __name__ == "__main__":
    tap.main(__file__)
