"""Workers of jobs: places that claim, call a handler, renew meanwhile, and report. See `Worker`."""

from __future__ import annotations

import contextlib
import copy
import random
import signal
import threading
from time import monotonic, sleep
from typing import Any, Awaitable, Callable, Coroutine, Iterable, Iterator

from ._core import Core, Event, JobBase, log
from ._errors import CounterError, Lost, Text, Unsupported, Usage
from ._options import seconds
from ._sync import Client, Job, run
from ._wire import tube, whole

CLAIM_SECONDS = 2  # an idle place waits so long at most for a job, so that it can end
RENEW_AFTER = 0.4  # seconds that a job runs without costing a renewal
LONGEST = (2**31 - 1) / 1000  # seconds that every timer can wait
LAST = 1.0  # seconds that a handler has to end, once it is told to


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


@contextlib.contextmanager
def handled(wanted: bool, told: Callable[[], object]) -> Iterator[None]:
    """In the main thread, TERM and INT call `told` meanwhile."""
    before: dict[signal.Signals, Any] = {}
    try:
        if wanted and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                before[number] = signal.signal(number, lambda *_: told())
        yield
    finally:
        for number, handler in before.items():  # None: it was not set by Python
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


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
        self.failing = False
        self.overdue: set[JobBase] = set()  # grace was over before their handlers had ended

    async def places(
        self,
        is_over: Callable[[], bool],
        pause: Callable[[float], Awaitable[object]],
        work: Callable[[Any], Awaitable[None]],
    ) -> None:
        """
        What a place does until the worker stops. `pause` ends early then. Raises what will not get
        better, and what is not ours.
        """
        delay = 0.0
        while not is_over():
            try:
                jobs = await self.core.reserve(self.tubes, 1, CLAIM_SECONDS, again=False)
                self.failing, delay = False, 0.0
            except (Usage, Unsupported):
                raise
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
        lost. `pause` ends early when its connection does: then the job is renewed by token at once.
        Its ttr is known from the first renewal on; until then the first try has `io_timeout`.
        """
        ends = 0.0
        wait, delay, ttr = since + RENEW_AFTER - monotonic(), 0.0, 0
        while not await pause(min(max(wait, 0.0), LONGEST)):
            sent = monotonic()
            ends = ends or sent + self.core.io_timeout
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

    def delay_of(self, job: JobBase) -> int:
        """Seconds after which a failed job comes back."""
        try:
            return whole(self.backoff(job.tries), "backoff")
        except Exception as error:
            self.core.tell("retry", job.server, job.tube, error=error)
            return whole(backoff(job.tries), "backoff")

    async def report(self, job: JobBase, error: BaseException | None) -> None:
        """
        Says how the handler ended, unless the job is not ours any more. One that was told to end
        may still end well by itself; else `give_up` gives its job back.
        """
        if error is not None and not isinstance(error, (Bury, Retry)):
            log.warning("the handler of job %d of tube %s failed", job.id, job.tube, exc_info=error)
        if job in self.overdue and (error is not None or job._heard):
            return
        try:
            if job._gone and job not in self.overdue:
                pass
            elif error is None:
                await job._ack()
            elif isinstance(error, Retry):
                await job._nack(error.delay)
            elif isinstance(error, Bury) or 0 < self.tries <= job.tries:
                await job._bury(instead=self.delay_of(job))
            else:
                await job._nack(self.delay_of(job))
        except CounterError:
            pass  # the hook was told; the job runs again, or was done
        finally:
            claim = job._claim
            if claim is not None:  # it was not given back: it goes with its connection
                await claim.link.begin()
                job._claim = None
                self.core.drop(claim.link)
                claim.link.end()

    async def give_up(
        self,
        jobs: list[Any],
        pause: Callable[[float], Awaitable[object]],
        together: Callable[[list[Coroutine[Any, Any, None]]], Awaitable[object]],
    ) -> int:
        """
        After the grace: their handlers are told as by a loss, and the jobs go back `together`, but
        those that end meanwhile. Returns how many went.
        """

        async def nack(job: Any) -> None:
            try:
                await job._nack()
            except Usage:  # it was reported
                return
            except CounterError:
                pass  # it goes back with its connection
            went.append(job)

        late: list[Any] = [job for job in jobs if not job._gone]
        went: list[Any] = []
        self.overdue.update(late)
        for job in late:
            job._gone = True
        if late:
            await pause(LAST)
            await together([nack(job) for job in late])
        return len(went)


class _Run:
    """A job whose handler runs."""

    def __init__(self, job: Job) -> None:
        self.job, self.since = job, monotonic()
        self.is_renewed = self.is_over = False
        self.news = threading.Event()  # it is over, or its connection has ended

    def end(self) -> None:
        self.is_over = True
        self.news.set()


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
        self._stop = threading.Event()  # of one run

    def run(self, signals: bool = True) -> int:
        """
        Runs until `stop`, TERM or INT (`signals`, in the main thread); then handlers run on for
        `grace` seconds at most, or until a second signal. Returns how many jobs went back since
        their handlers had not ended. Raises what no claim can do without: Usage, Unsupported.
        """
        faults: list[BaseException] = []
        over = threading.Event()  # jobs that come go back
        places = [
            threading.Thread(target=self._place, args=(self._stop, over, faults), daemon=True)
            for _ in range(self.concurrency)
        ]
        late: list[_Run] = []
        try:
            with handled(signals, self._signalled):
                for thread in places:
                    thread.start()
                while places and monotonic() < self._until:
                    places[0].join(0.1)
                    places = [thread for thread in places if thread.is_alive()]
                    for one in list(self._runs):
                        self._look(one)
                over.set()
                late = list(self._runs)
                count = run(self.give_up([one.job for one in late], self._sleep, self._together))
        finally:
            over.set()
            self._stop.set()
            for one in late:
                one.end()
            self._stop, self._until = threading.Event(), float("inf")
            self.overdue.clear()
        if faults:
            raise faults[0]
        return count

    def stop(self) -> None:
        """
        No more claims; `run` returns when all handlers have ended, or is yet to be called: then it
        returns at once. From any thread.
        """
        if not self._stop.is_set():
            self._until = monotonic() + self.grace
            self._stop.set()

    def _signalled(self) -> None:
        if self._stop.is_set():
            self._until = 0.0
        self.stop()

    @staticmethod
    async def _sleep(delay: float) -> None:
        sleep(delay)

    @staticmethod
    async def _together(calls: list[Coroutine[Any, Any, None]]) -> None:
        threads = [threading.Thread(target=run, args=(call,), daemon=True) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _place(
        self, stop: threading.Event, over: threading.Event, faults: list[BaseException]
    ) -> None:
        async def pause(delay: float) -> None:
            stop.wait(delay)

        async def work(job: Job) -> None:
            await self._work(job, over)

        try:
            run(self.places(stop.is_set, pause, work))
        except BaseException as error:
            faults.append(error)
            if stop is self._stop:
                self.stop()

    async def _work(self, job: Job, over: threading.Event) -> None:
        one, error = _Run(job), None
        self._runs.add(one)
        try:
            if over.is_set():
                with contextlib.suppress(CounterError):
                    await job._nack()
                return
            try:
                self._handler(job)
            except BaseException as cause:
                error = cause
            one.end()
            await self.report(job, error)
        finally:
            self._runs.discard(one)
            del error, job, one  # no cycle with the frame that the error knows

    def _look(self, one: _Run) -> None:
        """Sees that its connection has ended, or that it is time to renew its job."""
        is_cut = one.job._is_cut()
        if is_cut:
            one.news.set()
        if not one.is_renewed and (is_cut or monotonic() - one.since >= RENEW_AFTER):
            one.is_renewed = True
            threading.Thread(target=self._renew, args=(one,), daemon=True).start()

    def _renew(self, one: _Run) -> None:
        async def pause(delay: float) -> bool:
            one.news.wait(delay)
            one.news.clear()
            return one.is_over

        run(self.renewals(one.job, one.since, pause))
