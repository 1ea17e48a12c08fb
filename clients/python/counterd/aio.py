"""
counterd for asyncio: the calls of `counterd`, to be awaited, in the thread of the loop.

`async with client.lock("k")` cancels its task when the lock is lost, and raises `Lost` at its end;
after `lock = await client.lock("k")`, or with `watch=False`, a loss only sets `lock.lost`.
Cancelling a call closes its connection; a release goes on, for `io_timeout` at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import weakref
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
)
from time import monotonic
from types import TracebackType
from typing import Any, Coroutine, TypeVar, cast

from ._core import Core, Event, HoldBase, JobBase, Late, LockBase, MemberBase, Point, Transport
from ._core import UnitsBase
from ._errors import CounterError, Lost, Malformed, Text
from ._options import Options, tune
from ._sync import _links as links
from ._wire import JobView
from .worker import LAST, WorkerBase, backoff, handled

_PIECE = 65536
_T = TypeVar("_T")
_H = TypeVar("_H", bound="Hold")


class _Link(Transport, asyncio.Protocol):
    buffer: bytearray

    def __init__(self, point: Point, sock: socket.socket) -> None:
        super().__init__(point)
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self.buffer = bytearray()
        self._io: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._turn = asyncio.Lock()
        self._is_full = False  # the buffer of what is sent
        self._fault: Exception | None = None  # how it ended
        self.on_loss: Callable[[], object] | None = None
        cast(Any, links).add(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._io = cast(asyncio.Transport, transport)
        self._io.set_write_buffer_limits(high=1)  # 0: that of TLS never resumes

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if self._io and not self._waiter and len(self.buffer) > 4 * _PIECE:
            self._io.pause_reading()
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._fault = self._fault or error or EOFError()
        self._wake()

    def eof_received(self) -> None:
        self.connection_lost(None)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        if self._waiter:
            self._wake()

    def _wake(self, error: Exception | None = None) -> None:
        if not self._waiter:
            if self.on_loss:
                self.on_loss()
        elif not self._waiter.done():
            self._waiter.set_exception(error) if error else self._waiter.set_result(None)

    async def _news(self, deadline: float) -> None:
        """Waits until something has come or has been sent. Raises what ended the connection."""
        if self._fault or not self._io:
            raise self._fault or EOFError
        self._io.resume_reading()
        self._waiter = self._loop.create_future()
        timer = self._loop.call_later(deadline - monotonic(), self._wake, Late())
        try:
            await self._waiter
        finally:
            self._waiter = None
            timer.cancel()

    async def write(self, data: bytes, io_timeout: float) -> None:
        for end in range(_PIECE, len(data) + _PIECE, _PIECE):
            if self._fault or not self._io:
                raise self._fault or EOFError
            self._io.write(data[end - _PIECE : end])
            self.sent = self.sent or not self._io.is_closing()
            deadline = monotonic() + io_timeout
            while self._is_full and not self.buffer:
                await self._news(deadline)
            self.partial = bool(self.buffer) and (self._is_full or end < len(data))
            if self.partial:
                return

    async def line(self, limit: int, begin: float, io_timeout: float) -> bytes:
        if not self.buffer:
            await self._news(begin)
        deadline = monotonic() + io_timeout
        while (end := self.buffer.find(b"\n") + 1) == 0 and len(self.buffer) <= limit:
            await self._news(deadline)
        line = bytes(self.buffer[: end or limit])
        if not line.endswith(self.line_end) or len(line) > limit + len(self.line_end):
            raise Malformed("the server's line is too long, or has no end", answer=line, sent=True)
        del self.buffer[:end]
        return line[: -len(self.line_end)]

    async def exactly(self, size: int, io_timeout: float) -> bytes:
        while len(self.buffer) < size:
            piece, deadline = len(self.buffer) // _PIECE, monotonic() + io_timeout
            while len(self.buffer) < size and len(self.buffer) // _PIECE == piece:
                await self._news(deadline)
        data = bytes(memoryview(self.buffer)[:size])
        del self.buffer[:size]
        return data

    def fresh(self) -> bool:
        return self._loop is asyncio._get_running_loop() and not self.ended()

    def ended(self) -> bool:
        if self._loop.is_closed() or asyncio._get_running_loop() not in (None, self._loop):
            return True  # nobody reads it any more
        if not self._fault and not self.buffer:
            try:  # what the loop has not read yet
                self._sock.recv(1, socket.MSG_PEEK)
            except (BlockingIOError, InterruptedError):
                return False
            except OSError:
                pass
        return True

    async def begin(self) -> None:
        await self._turn.acquire()

    def end(self) -> None:
        self._turn.release()

    def close(self) -> None:
        self.open, self.on_loss = False, None
        self._fault = self._fault or EOFError()
        if self._io and self._loop is asyncio._get_running_loop():
            self._io.abort()
        elif self._io:
            try:  # collected in another thread
                self._loop.call_soon_threadsafe(self._io.abort)
            except RuntimeError:  # its loop is closed
                self._sock.close()

    def forget(self) -> None:
        """In a child of fork: the connection is the parent's."""
        self.open, self.on_loss, self._fault = False, None, EOFError()
        self._sock.close()


@contextlib.asynccontextmanager
async def _within(seconds: float) -> AsyncIterator[None]:
    """As asyncio.timeout, with the error of a transport."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise Late if error.errno is None else error from None


async def _connect(core: Any, point: Point, seconds: float) -> _Link:
    loop, deadline = asyncio.get_running_loop(), monotonic() + seconds
    context, where = core.options.context(), point.address
    name = None
    if isinstance(where, str):
        found: list[tuple[int, Any]] = [(socket.AF_UNIX, where)]
    else:
        name = (core.options.tls_name or where[0]) if context else None
        try:
            async with _within(seconds):
                infos = await loop.getaddrinfo(*where, type=socket.SOCK_STREAM)
        except socket.gaierror:
            socket.socket().close()  # the resolver does not say that descriptors lack; this does
            raise
        except UnicodeError as wrong:
            raise OSError(f"{where[0]!r} is no name of a host: {wrong}") from None
        found = [(info[0], info[4]) for info in infos]
    for left, (family, address) in zip(range(len(found), 0, -1), found):
        sock = socket.socket(family, socket.SOCK_STREAM)
        link = _Link(point, sock)
        try:
            sock.setblocking(False)
            tune(sock)
            async with _within((deadline - monotonic()) / left):
                await loop.sock_connect(sock, address)
                await loop.create_connection(
                    lambda: link, sock=sock, ssl=context, server_hostname=name
                )
            return link
        except BaseException as error:
            link.close()
            sock.close()
            if left == 1 or not isinstance(error, (OSError, Late)):
                raise
    raise OSError("the name has no address")


async def _finish(work: Coroutine[Any, Any, _T]) -> _T:
    """Awaits it; a cancel of the caller is told behind it."""
    task, cancel = asyncio.ensure_future(work), None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancel = error
        except Exception:
            break  # of the task
    if cancel:
        raise cancel from (None if task.cancelled() else task.exception())
    return task.result()


class Hold(HoldBase):
    """What a call gave; `server` is the one that has it."""

    _task: asyncio.Task[Any] | None = None  # is cancelled by a loss
    _is_cut = False  # it was

    def __init__(self, core: Any, link: Transport | None, *rest: Any) -> None:
        super().__init__(core, link, *rest)
        if isinstance(link, _Link):
            me = weakref.ref(self)
            link.on_loss = lambda: (hold := me()) and hold.lost

    @property
    def lost(self) -> bool:
        """True once the connection has ended. Never waits."""
        return self._gone if self._over else self._look()

    def note_loss(self, error: Lost | None = None) -> None:
        super().note_loss(error)
        if self._task and not self._task.get_loop().is_closed():
            self._task.get_loop().call_soon(self._cut)  # later: the task itself may be looking

    def _cut(self) -> None:
        if self._task and not self._is_cut:
            self._is_cut = self._task.cancel()

    async def release(self, ok: bool = True) -> None:
        """
        Gives it back; a second call does nothing. `ok=False`: what was done with it has failed.
        Raises Lost, Unanswered. What cancels the caller does not cut it off: it has `io_timeout`.
        """
        self._task = None
        await _finish(self._release(ok))


class Lock(LockBase, Hold):
    __doc__ = LockBase.__doc__


class Units(UnitsBase, Hold):
    __doc__ = UnitsBase.__doc__


class Member(MemberBase, Hold):
    __doc__ = MemberBase.__doc__


class Job(JobBase):
    __doc__ = JobBase.__doc__

    @property
    def lost(self) -> bool:
        return self._gone

    def _forget(self) -> None:
        """It goes back at once."""
        if self._claim:
            self._core.drop(self._claim.link)

    async def ack(self) -> None:
        """It is done. Raises Lost, Unanswered."""
        await _finish(self._ack())

    async def nack(self, delay: float = 0) -> bool:
        """It runs again after `delay` seconds. True: it is buried, its tries are used up."""
        return await _finish(self._nack(delay))

    async def bury(self) -> None:
        """It is put aside for an operator. Raises Lost, also when the connection has ended."""
        await _finish(self._bury())

    async def renew(self) -> None:
        """Its ttr begins anew. Raises Lost, Unanswered."""
        await self._renew()


class _Acquire(Coroutine[Any, Any, _H]):
    """A call that gives a hold: awaited, or entered by `async with`."""

    def __init__(self, work: Coroutine[Any, Any, _H], watch: bool) -> None:
        self._work, self._watch = work, watch

    def send(self, value: Any) -> Any:
        return self._work.send(value)

    def throw(self, *error: Any) -> Any:
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, None, _H]:
        return self._work.__await__()

    async def __aenter__(self) -> _H:
        hold, task = await self._work, asyncio.current_task()
        self._hold, self._task = hold, task
        self._count = task.cancelling() if task else 0
        if self._watch:
            hold._task = task
            hold._look()
        return hold

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        hold, task, failed = self._hold, self._task, None
        hold._task = None
        is_ours = bool(hold._is_cut and task and task.uncancel() <= self._count)
        try:
            await hold.release(kind is None)
        except CounterError as cause:
            failed = cause
        if is_ours and isinstance(error, asyncio.CancelledError):
            raise failed or Lost("it was lost", server=hold.server) from error
        if failed and error is None:
            raise failed


class Client:
    """
    As `counterd.Client`, for one loop at a time: `async with Client() as client`, or
    `await client.close()`. All calls are coroutines with the same arguments.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        on_event: Callable[[Event], object] | None = None,
        **parameters: Any,
    ) -> None:
        types = (Lock, Units, Member, Job)
        self._core = core = Core(types, _connect, Options(url, parameters), on_event)
        self.usage, self.put, self.put_many = core.usage, core.put, core.put_many
        self.claim, self.tube, self.ready = core.claim, core.tube, core.ready
        self.clear, self.delete, self.kick = core.clear, core.delete, core.kick

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes idle connections; holds and jobs keep theirs. Later calls are Usage."""
        self._core.close()
        await asyncio.sleep(0)  # the loop closes them

    def lock(
        self,
        name: Text,
        *,
        workers: int = 1,
        queue: int | None = None,
        timeout: float = 10,
        shared: bool = False,
        watch: bool = True,
    ) -> _Acquire[Lock]:
        """
        As `counterd.Client.lock`, awaited or entered. `watch`: a loss cancels the task that has
        entered it.
        """
        work = self._core.lock(name, workers=workers, queue=queue, timeout=timeout, shared=shared)
        return _Acquire(work, watch)

    def units(self, name: Text, count: int, limit: int, *, watch: bool = True) -> _Acquire[Units]:
        """As `counterd.Client.units`; `watch`: as of `lock`."""
        return _Acquire(self._core.units(name, count, limit), watch)

    def member(
        self,
        target: Text,
        *,
        timeout: float = 10,
        count: int = 1,
        name: Text | None = None,
        attrs: Mapping[str, str] = {},
        purpose: str = "use",
        by: Text | None = None,
        watch: bool = True,
    ) -> _Acquire[Member]:
        """As `counterd.Client.member`; `watch`: as of `lock`."""
        work = self._core.member(
            target, timeout=timeout, count=count, name=name, attrs=attrs, purpose=purpose, by=by
        )
        return _Acquire(work, watch)

    async def list_jobs(self, tube: Text, state: str) -> AsyncIterator[JobView]:
        """Yields the tube's jobs in that state, asking for 100 at a time. Raises NotFound."""
        after = 0
        while True:
            page, after = await self._core.jobs_page(tube, state, after)
            for job in page:
                yield job
            if not after:
                return


class Worker(WorkerBase):
    """
    As `counterd.Worker`, with tasks: `handler` is a coroutine function. It is cancelled when its
    job is lost, or `grace` is over. One that blocks the loop is not renewed meanwhile.
    """

    def __init__(
        self,
        client: Client,
        tubes: Iterable[Text],
        handler: Callable[[Job], Awaitable[object]],
        *,
        concurrency: int = 1,
        backoff: Callable[[int], float] = backoff,
        tries: int = 0,
        grace: float = 30,
        on_event: Callable[[Event], object] | None = None,
    ) -> None:
        super().__init__(client._core, tubes, concurrency, backoff, tries, grace, on_event)
        self._handler = handler
        self._runs: dict[asyncio.Task[None], Job] = {}
        self._stop, self._end = asyncio.Event(), asyncio.Event()  # no more claims; no more grace

    async def run(self, signals: bool = True) -> int:
        """
        Runs until `stop`, TERM or INT (`signals`, in the main thread); then handlers run on for
        `grace` seconds at most, or until a second signal. Returns how many jobs went back since
        their handlers had not ended. Raises what no claim can do without: Usage, Unsupported.
        """
        loop = asyncio.get_running_loop()
        end = loop.create_task(self._end.wait())
        places = [loop.create_task(self._place()) for _ in range(self.concurrency)]
        try:
            with handled(signals, lambda: loop.call_soon_threadsafe(self._signalled)):
                busy: set[asyncio.Task[Any]] = {end, *places}
                while end in busy and len(busy) > 1:
                    _, busy = await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)
                count = await self.give_up(list(self._runs.values()), self._cut, self._together)
        finally:
            for task in (end, *places):
                task.cancel()
            await asyncio.wait(places)
            self._stop, self._end = asyncio.Event(), asyncio.Event()
            self.overdue.clear()
        for fault in [place.exception() for place in places if not place.cancelled()]:
            if fault:
                raise fault
        return count

    def stop(self) -> None:
        """As `counterd.Worker.stop`, in the loop's thread."""
        if not self._stop.is_set():
            self._stop.set()
            asyncio.get_running_loop().call_later(self.grace, self._end.set)

    def _signalled(self) -> None:
        if self._stop.is_set():
            self._end.set()
        self.stop()

    async def _cut(self, delay: float) -> None:
        for task, job in self._runs.items():
            job._heard = task.cancel()
        await asyncio.sleep(delay)

    @staticmethod
    async def _together(calls: list[Coroutine[Any, Any, None]]) -> None:
        await asyncio.gather(*calls)

    async def _place(self) -> None:
        async def pause(delay: float) -> None:
            await asyncio.wait([stop], timeout=delay)

        stop = asyncio.ensure_future(self._stop.wait())
        try:
            await self.places(self._stop.is_set, pause, self._work)
        finally:
            stop.cancel()
            self.stop()

    async def _work(self, job: Job) -> None:
        async def call() -> None:
            await self._handler(job)

        task = asyncio.create_task(call())
        self._runs[task] = job
        try:
            await self.renewals(job, monotonic(), lambda delay: self._pause(job, task, delay))
            if job.lost:
                task.cancel()
            await asyncio.wait([task])
            cancelled = asyncio.CancelledError() if task.cancelled() else None
            await self.report(job, cancelled or task.exception())
        except BaseException:
            task.cancel()
            try:
                await asyncio.wait([task], timeout=LAST)
            finally:
                job._forget()
            raise
        finally:
            del self._runs[task]

    @staticmethod
    async def _pause(job: Job, task: asyncio.Task[None], delay: float) -> bool:
        """Waits for the end of the task, or of the job's connection."""
        link = job._claim.link if job._claim else None
        cut = asyncio.get_running_loop().create_future()
        if isinstance(link, _Link) and link.open:
            if link.ended():
                return task.done()
            link.on_loss = cut.cancel
        await asyncio.wait([task, cut], timeout=delay, return_when=asyncio.FIRST_COMPLETED)
        if isinstance(link, _Link) and link.on_loss == cut.cancel:  # not that of a later hold
            link.on_loss = None
        return task.done()
