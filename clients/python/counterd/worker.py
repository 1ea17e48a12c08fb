"""Workers of jobs: places that claim, call a handler, renew meanwhile, and report. See `Worker`."""

from __future__ import annotations

import copy
import random
import signal
import threading
from time import monotonic, sleep
from typing import Any, Awaitable, Callable, Iterable

from ._core import Core, Event, JobBase, log
from ._errors import CounterError, Lost, Text, Unsupported, Usage
from ._options import seconds
from ._sync import Client, Job, run
from ._wire import tube, whole

CLAIM_SECONDS = 2  # an idle place waits so long at most for a job, so that it can end
RENEW_AFTER = 0.4  # seconds that a job runs without costing a renewal
LONGEST = (2**31 - 1) / 1000  # seconds that every timer can wait


class Bury(Exception):
    """Raised by a handler: the job is put aside, until somebody kicks it."""


class Retry(Exception):
    """Raised by a handler: the job comes back after `delay` seconds."""

    def __init__(self, delay: float = 0) -> None:
        super().__init__(delay)
        self.delay = seconds(delay, "delay")


def jittered(delay: float) -> float:
    return delay * random.uniform(0.8, 1.2)


def backoff(tries: int) -> float:
    """Seconds after which a failed job comes back: 1, doubled with each try, up to an hour."""
    return jittered(min(3600.0, 2.0 ** min(tries - 1, 12)))


class WorkerBase:
    """The rules of workers, for threads and tasks."""

    def __init__(
        self,
        core: Core[Any, Any, Any, Any],
        tubes: Iterable[Text],
        concurrency: int,
        backoff: Callable[[int], float],
        tries: int,
        grace: float,
        on_event: Callable[[Event], object] | None,
    ) -> None:
        self.core = core
        if on_event is not None:
            self.core = copy.copy(core)
            self.core.on_event = on_event
        self.tubes: list[Text] = [tubes] if isinstance(tubes, (str, bytes)) else [*tubes]
        if not [tube(name) for name in self.tubes]:
            raise Usage("a worker needs 1 tube or more")
        self.concurrency = whole(concurrency, "concurrency", 1, 1000)
        self.backoff, self.tries = backoff, whole(tries, "tries")
        self.grace = seconds(grace, "grace")
        self.stopping = self.failing = False
        self.fault: CounterError | None = None

    async def places(
        self, pause: Callable[[float], Awaitable[object]], work: Callable[[Any], Awaitable[None]]
    ) -> None:
        """What a place does until the worker stops. `pause` ends early then."""
        delay = 0.0
        while not self.stopping:
            try:
                jobs = await self.core.reserve(self.tubes, 1, CLAIM_SECONDS, again=False)
                self.failing, delay = False, 0.0
            except (Usage, Unsupported) as error:
                self.fault = error  # it will not get better
                self.stopping = True
            except CounterError as error:
                if not self.failing:  # once for all places
                    self.failing = True
                    self.core.tell("retry", error.server, self.tubes[0], error=error)
                delay = min(30.0, delay * 2 or 0.1)
                await pause(jittered(delay))
            else:
                while jobs:  # keeps none: the connection of a claim goes back with its last job
                    await work(jobs.pop())

    async def renewals(
        self, job: JobBase, since: float, pause: Callable[[float], Awaitable[bool]]
    ) -> None:
        """
        Renews a job that runs since then, until `pause` says that its handler has ended, or it is
        lost. Its ttr is known from the first renewal on; until then `io_timeout` stands for it.
        """
        ends = since + self.core.io_timeout
        wait, delay, ttr = since + RENEW_AFTER - monotonic(), 0.0, 0
        while not await pause(min(max(wait, 0.0), LONGEST)):
            sent = monotonic()
            if sent >= ends:
                return job.note_loss()
            try:
                if ttr:
                    await job._renew(ends - sent)
                else:
                    ttr = await job._renew_first(ends - sent)
                ends, wait, delay = sent + ttr, ttr / 3, 0.0
            except (Lost, Usage):  # told already; reported meanwhile
                return
            except CounterError:
                delay = min(30.0, delay * 2 or 0.1)
                wait = min(jittered(delay), max(0.0, ends - monotonic()))

    async def report(self, job: JobBase, error: BaseException | None) -> None:
        """Says how the handler ended, unless the job is not ours any more."""
        if error is not None and not isinstance(error, (Bury, Retry)):
            log.warning("the handler of job %d of tube %s failed", job.id, job.tube, exc_info=error)
        try:
            if job.lost:
                return
            if error is None:
                await job._ack()
            elif isinstance(error, Retry):
                await job._nack(error.delay)
            elif isinstance(error, Bury) or 0 < self.tries <= job.tries:
                await job._bury(instead=self.backoff(job.tries))
            else:
                await job._nack(self.backoff(job.tries))
        except CounterError:
            pass  # the hook was told; the job runs again, or was done

    async def give_up(self, jobs: list[Any], pause: Callable[[float], Awaitable[object]]) -> int:
        """After the grace: their handlers are told as by a loss, and the jobs go back."""
        for job in jobs:
            job._gone = True
        if jobs:
            await pause(1)
        for job in jobs:
            try:
                await job._nack()
            except CounterError:
                pass  # it goes back by itself
        return len(jobs)


class _Run:
    """A job whose handler runs."""

    def __init__(self, job: Job) -> None:
        self.job, self.since = job, monotonic()
        self.over: threading.Event | None = None  # set at its end; there once it is renewed


class Worker(WorkerBase):
    """
    Claims jobs of the tubes, and calls `handler` with each, in `concurrency` threads. The handler
    ends well: ack; raises Bury: bury; Retry(delay): nack; anything else: nack after
    `backoff(tries)` seconds, with `tries` set and reached bury. A job that runs for longer is
    renewed meanwhile; when it is lost, `job.lost` says so. A thread can't be ended: a handler may
    still run after `grace` seconds, beside the next run of its job. Raises Usage.
    """

    def __init__(
        self,
        client: Client,
        tubes: Iterable[Text],
        handler: Callable[[Job], object],
        *,
        concurrency: int = 1,
        backoff: Callable[[int], float] = backoff,
        tries: int = 0,
        grace: float = 30,
        on_event: Callable[[Event], object] | None = None,
    ) -> None:
        super().__init__(client._core, tubes, concurrency, backoff, tries, grace, on_event)
        self._handler = handler
        self._runs: set[_Run] = set()
        self._until = float("inf")  # the end of the grace
        self._stop = threading.Event()

    def run(self, signals: bool = True) -> int:
        """
        Runs until `stop`, TERM or INT (`signals`, in the main thread); then handlers run on for
        `grace` seconds at most, or until a second signal. Returns how many jobs went back since
        their handlers had not ended. Raises what no claim can do without: Usage, Unsupported.
        """
        self.stopping, self.fault, self._until = False, None, float("inf")
        self._stop.clear()
        main = signals and threading.current_thread() is threading.main_thread()
        before = {
            number: signal.signal(number, self._signalled)
            for number in ((signal.SIGTERM, signal.SIGINT) if main else ())
        }
        try:
            threads = [threading.Thread(target=self._place) for _ in range(self.concurrency)]
            for thread in threads:
                thread.daemon = True
                thread.start()
            while threads and monotonic() < self._until:
                threads[0].join(0.1)
                threads = [thread for thread in threads if thread.is_alive()]
                for one in list(self._runs):
                    if one.over is None and monotonic() - one.since >= RENEW_AFTER:
                        one.over = threading.Event()
                        threading.Thread(target=self._renew, args=(one,), daemon=True).start()
            late = list(self._runs)
            count = run(self.give_up([one.job for one in late], self._sleep))
            for one in late:
                if one.over is not None:
                    one.over.set()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self.fault is not None:
            raise self.fault
        return count

    def stop(self) -> None:
        """No more claims; `run` returns when all handlers have ended. From any thread."""
        if not self.stopping:
            self._until = monotonic() + self.grace
            self.stopping = True
            self._stop.set()

    def _signalled(self, number: int, frame: object) -> None:
        if self.stopping:
            self._until = 0.0
        self.stop()

    @staticmethod
    async def _sleep(delay: float) -> None:
        sleep(delay)

    def _place(self) -> None:
        async def pause(delay: float) -> None:
            self._stop.wait(delay)

        run(self.places(pause, self._work))
        if self.fault is not None and not self._stop.is_set():
            self.stopping = False
            self.stop()

    async def _work(self, job: Job) -> None:
        one, error = _Run(job), None
        self._runs.add(one)
        try:
            self._handler(job)
        except BaseException as cause:
            error = cause
        if one.over is not None:
            one.over.set()
        await self.report(job, error)
        self._runs.discard(one)

    def _renew(self, one: _Run) -> None:
        async def pause(delay: float) -> bool:
            return one.over is None or one.over.wait(delay)

        run(self.renewals(one.job, one.since, pause))
