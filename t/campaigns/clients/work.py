"""
A worker or producer of the campaign, in Python: `work.py ROLE URL FILE SETTINGS`. ROLE: sync, aio,
produce. It appends what it does to FILE, a JSON object a line, each by one write.

The body of a job is `LABEL PLAN`, and PLAN is `quick`, `long SECONDS`, `raise`, `retry`, `bury`. A long
handler looks every 20 ms if its job is lost; one of asyncio is cancelled.
"""

import asyncio
import json
import os
import random
import sys
import time
import traceback

import counterd

LOOK = 0.02


class Notes:
    def __init__(self, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def note(self, what, **values):
        os.write(self.fd, (json.dumps({"e": what, "t": time.monotonic(), **values}) + "\n").encode())


class Run:
    """One run of a handler."""

    def __init__(self, notes, job):
        self.notes, self.job, self.looks = notes, job, []
        self.label, self.plan, *rest = job.body.decode().split(" ")
        self.seconds = float(rest[0]) if rest else 0.0
        self.note("start", tries=job.tries, tube=job.tube, label=self.label)

    def note(self, what, **values):
        self.notes.note(what, id=self.job.id, token=self.job.token, **values)

    def look(self):
        """True if the job is lost."""
        at, lost = time.monotonic(), self.job.lost
        if not lost:
            self.looks.append(round(at, 3))
        return lost

    def lost(self):
        self.note("lost", looks=self.looks)

    def end(self):
        """The end of a handler that was not told of a loss."""
        first = self.job.tries == 1
        how = {"raise": "raise" if first else "ok", "retry": "retry" if first else "ok", "bury": "bury"}.get(
            self.plan, "ok"
        )
        self.note("end", how=how, looks=self.looks)
        if how == "raise":
            raise ValueError("as planned")
        if how == "retry":
            raise counterd.Retry(1)
        if how == "bury":
            raise counterd.Bury()


def work(url, notes, settings):
    def handler(job):
        run = Run(notes, job)
        until = time.monotonic() + run.seconds
        while time.monotonic() < until:
            if run.look():
                run.lost()
                return
            time.sleep(LOOK)
        run.end()

    with counterd.Client(url) as client:
        worker = counterd.Worker(client, settings["tubes"], handler, concurrency=settings["concurrency"])
        notes.note("over", nacked=worker.run())


def work_aio(url, notes, settings):
    from counterd import aio

    async def handler(job):
        run = Run(notes, job)
        until = time.monotonic() + run.seconds
        try:
            while time.monotonic() < until:
                run.looks.append(round(time.monotonic(), 3))
                await asyncio.sleep(LOOK)
        except asyncio.CancelledError:
            run.lost()
            raise
        run.end()

    async def main():
        async with aio.Client(url) as client:
            worker = aio.Worker(client, settings["tubes"], handler, concurrency=settings["concurrency"])
            notes.note("over", nacked=await worker.run())

    asyncio.run(main())


def produce(url, notes, settings):
    """Puts the jobs of `settings["jobs"]`: rows of label, tube, plan, key or null; rows in lists are batches."""
    with counterd.Client(url) as client:
        rng = random.Random(settings["seed"])
        for rows in settings["jobs"]:
            one = len(rows) == 1
            label, tube, plan, key = rows[0]
            first = time.monotonic()
            options = {"ttr": settings["ttr"]}
            while True:
                asked = time.monotonic()
                try:
                    if one:
                        body = "%s %s" % (label, plan)
                        extra = {"key": key} if key else {}
                        puts = [client.put(tube, body, **options, **extra)]
                    else:
                        puts = client.put_many(
                            tube,
                            [
                                counterd.NewJob(
                                    "%s %s" % (row[0], row[2]), **options, **({"key": row[3]} if row[3] else {})
                                )
                                for row in rows
                            ],
                        )
                    notes.note("put", labels=[row[0] for row in rows], ids=[put.id for put in puts],
                               duplicates=[put.duplicate for put in puts], asked=asked, first=first)  # fmt: skip
                    break
                except counterd.Failed as e:
                    notes.note(
                        "failed", labels=[row[0] for row in rows], error=type(e).__name__, sent=e.sent, asked=asked
                    )
                    if e.sent and not all(row[3] for row in rows):
                        break  # it may be there, and without a key must not be put again
                    time.sleep(0.1)
            time.sleep(rng.expovariate(1 / settings["pause"]))
        notes.note("over")


def main():
    role, url, path, settings = sys.argv[1:5]
    notes = Notes(path)
    try:
        settings = json.loads(settings)
        if "file" in settings:
            with open(settings["file"]) as f:
                settings = json.load(f)
        {"sync": work, "aio": work_aio, "produce": produce}[role](url, notes, settings)
    except BaseException:
        notes.note("crash", text=traceback.format_exc())
        raise


if __name__ == "__main__":
    main()
