"""
What sync and asyncio share: servers, idle connections, what is tried again, and all calls.

`Core` is written once, as coroutines over a `Transport`. To add a transport: subclass `Transport`
(one connection), write `async def connect(core, point, seconds) -> Transport`, and subclass the
bases of holds and jobs below with public methods that run their coroutines (`_release`, `_ack`...).
A transport that blocks inside its methods never suspends, so a coroutine over it ends at the first
`send(None)`: that is how the sync client runs them.
"""

from __future__ import annotations

import errno
import logging
import math
import warnings
from time import monotonic
from typing import (
    Any,
    Awaitable,
    Callable,
    Generic,
    Iterable,
    Mapping,
    NamedTuple,
    Sequence,
    TypeVar,
)

from . import _wire as wire
from ._errors import (
    CounterError,
    Draining,
    Lost,
    Refused,
    Text,
    Unanswered,
    Unreachable,
    Usage,
    quote,
)
from ._options import Address, Options, seconds, servers_for
from ._wire import JobView, NewJob, Put, Taken

log = logging.getLogger("counterd")
log.addHandler(logging.NullHandler())
LOGGED = frozenset(("down", "lost", "retry"))
T = TypeVar("T")
OURS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)  # no fault of a server


class Late(Exception):
    """A deadline of ours has passed. A TimeoutError may be one of the program's own alarms."""


class Event(NamedTuple):
    """
    What `on_event` is called with. `kind`: connect, disconnect, down, up, wait (an acquire ended),
    held (a hold ended), lost, retry, put, job. `result`: locked, done, released, ack... or the name
    of the error's class in lower case.
    """

    kind: str
    server: str
    name: str | None = None
    seconds: float | None = None
    result: str | None = None
    error: Exception | None = None


class Point:
    """A server, for one protocol: its text as configured, its address, its idle connections."""

    def __init__(self, text: str, proto: str, address: Address) -> None:
        self.text, self.proto, self.address = text, proto, address
        self.idle: list[Transport] = []
        self.down_until = 0.0  # 0: it is up


class Transport:
    """
    One connection. Deadlines are absolute, of time.monotonic(); what fails raises Late (a deadline
    passed), EOFError (the end), an OSError, or Malformed.
    """

    def __init__(self, point: Point) -> None:
        self.point = point
        self.line_end = b"\r\n" if point.proto == "jobs" else b"\n"
        self.buffer = b""  # what has come and is not read yet
        self.sent = False  # `write` sets it when the system has taken a byte; the core clears it
        self.partial = False  # a request was not sent to its end, since an answer came before
        self.foreign = False  # it belongs to the parent of this process
        self.open = True
        self.since = 0.0  # idle since then
        self.checked = False  # the server knows our verbs for jobs

    async def write(self, data: bytes, io_timeout: float) -> None:
        """Sends all, `io_timeout` for each 64 KiB. Reads meanwhile; what comes ends the sending."""
        raise NotImplementedError

    async def line(self, limit: int, begin: float, io_timeout: float) -> bytes:
        """A line without its end: its first byte by `begin`, the rest `io_timeout` later."""
        raise NotImplementedError

    async def exactly(self, size: int, io_timeout: float) -> bytes:
        """So many bytes; `io_timeout` begins anew with each 64 KiB."""
        raise NotImplementedError

    def fresh(self) -> bool:
        """Open, and nothing to read: may an idle one be used? Never waits."""
        raise NotImplementedError

    def ended(self) -> bool:
        """The connection of a hold is at its end, or has bytes that nobody asked for."""
        return not self.fresh()

    async def begin(self) -> None:
        """Takes the turn: requests of the jobs of one claim queue for it."""

    def end(self) -> None:
        """Gives the turn on."""

    def close(self) -> None:
        """Closes it without waiting. Sets `open`."""
        raise NotImplementedError


Ask = Callable[[Transport, float, bool], Awaitable[T]]


class HoldBase:
    """What lock, units and member have in common."""

    _request = b""
    _answers = 1
    _good = {b"RELEASED": 1, b"NOT_LOCKED": 1}
    _shared = False

    def __init__(
        self, core: Core[Any, Any, Any, Any], link: Transport | None, target: Text
    ) -> None:
        self._core, self._link, self._target = core, link, target
        self.server = ""  # the server, as configured
        if link is not None:
            self.server = link.point.text
        self._since = monotonic()
        self._over = self._gone = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {quote(self._target)!r} of {self.server}>"

    def __del__(self) -> None:
        link = getattr(self, "_link", None)
        if link is not None and link.open:
            link.close()  # no event: the collector runs anywhere
            forgotten(self)

    def note_loss(self, error: Lost | None = None) -> None:
        """Called once its connection is at its end."""
        if not self._gone:
            self._gone = True
            if self._link is not None:
                self._core.drop(self._link)
            self._core.tell("lost", self.server, self._target, error=error)

    def _look(self) -> bool:
        if self._link is not None and not self._gone and self._link.ended():
            self.note_loss()
        return self._gone

    async def _give_back(self, link: Transport, ok: bool) -> bytes:
        """Returns the first answer that is not as it should be, or an empty one."""
        await link.write(self._request, self._core.io_timeout)
        bad = b""
        for _ in range(self._answers):
            word = (await self._core.answer(link, self._good))[0]
            if word != b"RELEASED" and word != b"RETURNED":
                bad = bad or word
        return bad

    async def _release(self, ok: bool = True) -> None:
        link, core = self._link, self._core
        if self._over or link is None:
            return
        self._over, keep = True, ok or not self._shared
        error: CounterError | None = None
        await link.begin()
        try:
            link.sent = False
            if self._gone or link.ended():
                error = Lost("the connection of the hold has ended")
            elif keep and (answer := await self._give_back(link, ok)):
                error = Lost("the server had taken it away", answer=answer)
        except BaseException as cause:
            error = failure(cause, link.sent)
            if error is None:
                core.drop(link)
                raise
            if error.ended or isinstance(error, Unreachable):
                error = Lost("the connection of the hold has ended", reason=error.reason)
        finally:
            self._link = None
            link.end()
        if error is None:
            core.give(link) if keep else core.drop(link)
            core.tell("held", self.server, self._target, self._since, "released")
            return
        core.drop(link)
        core.place(error, self.server, self._target)
        if isinstance(error, Lost):
            self.note_loss(error)
        core.tell("held", self.server, self._target, self._since, error=error)
        try:
            raise error
        finally:
            del error


class LockBase(HoldBase):
    """A lock. `done`: the work was done by another, and nothing is held."""

    def __init__(
        self,
        core: Core[Any, Any, Any, Any],
        link: Transport | None,
        name: Text,
        sent: bytes,
        shared: bool,
    ) -> None:
        super().__init__(core, link, name)
        self.name, self.done, self._shared = name, link is None, shared
        self._request = b"RELEASE %s\n" % sent


class UnitsBase(HoldBase):
    """Units of a counter."""

    def __init__(
        self, core: Core[Any, Any, Any, Any], link: Transport, name: Text, count: int
    ) -> None:
        super().__init__(core, link, name)
        self.name, self.count = name, count

    async def _give_back(self, link: Transport, ok: bool) -> bytes:
        request = wire.binary(wire.RELEASE, (self.count,), wire.name(self.name))
        code, body = await self._core.binary(link, wire.RELEASE, request, (0x01, 0x22))
        return b"0x%02x %s" % (code, body) if code else b""


class MemberBase(HoldBase):
    """Members of a pool: `all`; the other fields are those of the first."""

    _good = {b"RETURNED": 1, b"GONE": 1, b"NOT_TAKEN": 1}

    def __init__(
        self, core: Core[Any, Any, Any, Any], link: Transport, pool: str, members: list[Taken]
    ) -> None:
        super().__init__(core, link, pool)
        self.pool, self.all, self._answers = pool, members, len(members)
        self.name, self.value, self.attrs, self.fence = members[0]

    async def _give_back(self, link: Transport, ok: bool) -> bytes:
        word = b"ok" if ok else b"fail"
        self._request = b"".join(b"RETURN %d %s\n" % (m.fence, word) for m in self.all)
        return await super()._give_back(link, ok)


class Claim:
    """The connection of the jobs of one claim. It is theirs until the last of them has ended."""

    def __init__(self, core: Core[Any, Any, Any, Any], link: Transport, jobs: int) -> None:
        self.core, self.link, self.jobs, self.spoiled = core, link, jobs, False

    def leave(self, well: bool) -> bool:
        """A job ends, in its turn. True for the last one, which then calls `over`."""
        self.jobs -= 1
        self.spoiled |= not well
        return not self.jobs

    def over(self) -> None:
        """Gives the connection back; a job that has not ended well is reserved on it still."""
        self.core.drop(self.link) if self.spoiled else self.core.give(self.link)

    def __del__(self) -> None:
        if self.jobs:  # one was forgotten
            self.link.close()


class JobBase:
    """
    A reserved job: `id`, `token`, `tube`, `tries` (1 for its first run), `body` (bytes), `lost`.
    """

    _heard = False  # the handler was told that it is lost

    def __init__(
        self, claim: Claim, id: int, token: int, tube: str, tries: int, body: bytes
    ) -> None:
        self.id, self.token, self.tube, self.tries, self.body = id, token, tube, tries, body
        self.server = claim.link.point.text
        self._core, self._gone = claim.core, False
        self._claim: Claim | None = claim

    def __repr__(self) -> str:
        return f"<Job {self.id} of {self.tube!r}, {self.server}>"

    @property
    def lost(self) -> bool:
        """A renewal has found that it is reserved no more; or it is that of a parent process."""
        return self._gone or (self._claim is not None and self._claim.link.foreign)

    def __del__(self) -> None:
        claim, self._claim = self._claim, None  # a warning that is recorded keeps the job
        if claim is not None and claim.link.open and not self._gone:
            forgotten(self)

    def note_loss(self) -> None:
        """Called once it is known to be reserved no more."""
        if not self._gone:
            self._gone = True
            self._core.tell("lost", self.server, self.tube)
            self._core.tell("job", self.server, self.tube, result="lost")

    async def _ask(
        self,
        request: bytes,
        good: dict[bytes, int],
        *,
        again: bool = False,
        ends: bool = False,
        stats: str = "",
        bury: bool = False,
        within: float | None = None,
    ) -> tuple[bytes, int]:
        """
        One request, on the connection that reserved the job; if that is gone by token on another
        (`bury`: not then). `ends`: whatever is said, the job takes no more calls. `stats`: an
        answer to stats-job is behind the first one, and has this number. `bury`: it is the first,
        and its number goes into a second request. `within`: seconds for it all. NOT_FOUND is
        `Lost`, unless an earlier attempt may have been it. Returns the word, and the number.
        """
        claim, core = self._claim, self._core
        if claim is None:
            raise Usage("the job has been given back", target=self.tube, server=self.server)
        own, earlier, is_last, is_lost, well = claim.link, False, False, False, False

        async def ask(link: Transport, told: float, tried: bool) -> tuple[bytes, int]:
            nonlocal earlier
            if link is own and link.ended():
                raise EOFError
            earlier, io = tried, min(told, core.io_timeout) if within else None
            number, behind = 0, {b"OK": 2, b"NOT_FOUND": 1} if stats and not bury else {}
            try:
                words = await core.jobs(link, request, {**good, b"NOT_FOUND": 1}, io=io)
            except Refused:
                if behind and not link.partial:
                    await core.answer(link, behind, io=io)
                raise
            word = words[0]
            if behind:
                words = await core.answer(link, behind, io=io)
            if stats and words[0] == b"OK":
                number = wire.entry(words[-1], stats)
                if bury:
                    second = b"bury %d %d\r\n" % (self.id, number)
                    word = (await core.jobs(link, second, {b"BURIED": 1, b"NOT_FOUND": 1}))[0]
            return b"NOT_FOUND" if words[0] == b"NOT_FOUND" else word, number

        await own.begin()
        try:
            if self._claim is None:
                ends = False
                raise Usage("the job has been given back meanwhile", target=self.tube)
            if own.foreign or (bury and own.ended()):
                raise core.place(Lost("its connection has ended"), self.server, self.tube)
            link, (word, number) = await core.run(
                "jobs", self.tube, ask, within or 0, again=again, silent=again, link=own
            )
            if link is not own:
                core.give(link)
            if word == b"NOT_FOUND":
                error = Unanswered if earlier else Lost
                what = "it is reserved no more, or the first request has done it already"
                raise core.place(error(what, answer=word, sent=earlier), self.server, self.tube)
            well = True
            return word, number
        except Lost:
            is_lost = True
            raise
        finally:
            if ends:
                self._claim, is_last = None, claim.leave(well)
            own.end()
            if is_last:
                claim.over()
            if is_lost:
                self.note_loss()

    async def _end(
        self,
        kind: str,
        request: bytes,
        good: dict[bytes, int],
        *,
        again: bool = False,
        bury: bool = False,
    ) -> bytes:
        """Gives the job back; after that, it takes no more calls."""
        error: CounterError | None = None
        try:
            word, _ = await self._ask(
                request, good, again=again, ends=True, stats="pri" if bury else "", bury=bury
            )
        except CounterError as cause:
            error = cause
            raise
        finally:
            if not isinstance(error, (Lost, Usage)):
                self._core.tell("job", self.server, self.tube, result=kind, error=error)
            del error
        return word

    async def _ack(self) -> None:
        request = b"ack %d %d\r\n" % (self.id, self.token)
        await self._end("ack", request, {b"DELETED": 1}, again=True)

    async def _nack(self, delay: float = 0) -> bool:
        later = wire.whole(delay, "delay")
        request = b"nack %d %d %d\r\n" % (self.id, self.token, later)
        word = await self._end("nack", request, {b"RELEASED": 1, b"BURIED": 1})
        return word == b"BURIED"

    async def _bury(self, instead: float | None = None) -> None:
        """`instead`: seconds of a nack, if the connection that reserved it is gone."""
        claim = self._claim
        if instead is not None and claim is not None:
            await claim.link.begin()
            gone = claim.link.ended()
            claim.link.end()
            if gone:
                await self._nack(instead)
                return
        await self._end("bury", b"stats-job %d\r\n" % self.id, {b"OK": 2}, bury=True)

    async def _renew(self, within: float | None = None) -> None:
        request = b"renew %d %d\r\n" % (self.id, self.token)
        await self._ask(request, {b"TOUCHED": 1}, again=True, within=within)

    async def _renew_first(self, within: float) -> int:
        """Renews it within so many seconds, and returns its ttr."""
        request = b"renew %d %d\r\nstats-job %d\r\n" % (self.id, self.token, self.id)
        good = {b"TOUCHED": 1}
        return (await self._ask(request, good, again=True, stats="ttr", within=within))[1]


L = TypeVar("L", bound=LockBase)
U = TypeVar("U", bound=UnitsBase)
M = TypeVar("M", bound=MemberBase)
J = TypeVar("J", bound=JobBase)


class Core(Generic[L, U, M, J]):
    """All calls of a client. `types` are the classes of what they give."""

    def __init__(
        self,
        types: tuple[type[L], type[U], type[M], type[J]],
        connect: Callable[[Core[L, U, M, J], Point, float], Awaitable[Transport]],
        options: Options,
        on_event: Callable[[Event], object] | None,
    ) -> None:
        self._lock, self._units, self._member, self._job = types
        self._connect, self.options, self.on_event = connect, options, on_event
        self.io_timeout = options.io_timeout
        self.context = options.context()
        self._closed: list[bool] = []  # as the points, one for all copies
        self._points: dict[str, list[Point]] = {}

    @property
    def closed(self) -> bool:
        return bool(self._closed)

    # ---- hooks, servers, idle connections

    def tell(
        self,
        kind: str,
        server: str,
        name: Text | None = None,
        since: float | None = None,
        result: str | None = None,
        error: Exception | None = None,
    ) -> None:
        """Calls the hook, and logs what matters."""
        if kind in LOGGED:
            log.warning("%s: server %s, name %s: %s", kind, server, quote(name or ""), error or "-")
        if self.on_event is not None:
            took = None if since is None else monotonic() - since
            if error is not None and result is None:
                result = type(error).__name__.lower()
            shown = None if name is None else quote(name)
            try:
                self.on_event(Event(kind, server, shown, took, result, error))
            except Exception:
                pass  # a hook must not change what a call does

    @staticmethod
    def place(error: CounterError, server: str, target: Text) -> CounterError:
        """Says in the error where it happened."""
        error.server = error.server or server
        error.target = error.target or quote(target)
        return error

    def _order(self, proto: str, target: Text) -> list[Point]:
        """The servers in the order of asking. Those that are down come last."""
        points = self._points.get(proto)
        if points is None:
            points = [Point(text, proto, at) for text, at in self.options.addresses(proto)]
            points = self._points.setdefault(proto, points)
        if len(points) == 1:
            return points
        by_text = {point.text: point for point in points}
        now = monotonic()
        ordered = [by_text[text] for text in servers_for(target, list(by_text))]
        return sorted(ordered, key=lambda point: now < point.down_until)

    def _set_down(self, point: Point, error: CounterError) -> None:
        was, point.down_until = point.down_until, monotonic() + self.options.down_seconds
        if not was:
            self.tell("down", point.text, error=error)

    def _set_up(self, point: Point) -> None:
        point.down_until = 0.0
        self.tell("up", point.text)

    def _take(self, point: Point) -> Transport | None:
        """The newest idle connection that is still good."""
        while True:
            try:
                link = point.idle.pop()
            except IndexError:
                return None
            if monotonic() - link.since <= self.options.idle_seconds and link.fresh():
                return link
            self.drop(link)

    def give(self, link: Transport) -> None:
        """Gives a connection back, to be used again."""
        if self.closed or link.buffer or link.partial or not link.open:
            return self.drop(link)
        idle = link.point.idle
        link.since = monotonic()
        idle.append(link)
        try:  # others may take away meanwhile
            while (
                len(idle) > self.options.idle
                or link.since - idle[0].since > self.options.idle_seconds
            ):
                self.drop(idle.pop(0))
        except IndexError:
            pass

    def drop(self, link: Transport) -> None:
        if link.open:
            link.close()
            self.tell("disconnect", link.point.text)

    async def _open(self, point: Point, within: float) -> Transport:
        start = monotonic()
        if point.down_until:
            point.down_until = start + self.options.down_seconds  # others pass by meanwhile
        try:
            link = await self._connect(self, point, within)
        except (OSError, EOFError, Late) as cause:
            if failure(cause, False) is None:
                raise
            at = point.address
            where = repr(at) if isinstance(at, str) else "%s port %d" % at
            error = Unreachable(f"no connection to {where}", reason=str(cause) or "timeout")
            self.place(error, point.text, "")
            if getattr(cause, "errno", None) not in OURS:
                self._set_down(point, error)
            raise error from None
        self.tell("connect", point.text, since=start)
        return link

    def close(self) -> None:
        """Closes idle connections. Holds and jobs keep theirs."""
        self._closed.append(True)
        for points in self._points.values():
            for point in points:
                while (link := self._take(point)) is not None:
                    self.drop(link)

    # ---- one request, and what is tried again

    async def run(
        self,
        proto: str,
        target: Text,
        ask: Ask[T],
        timeout: float = 0,
        *,
        again: bool = True,
        silent: bool = False,
        link: Transport | None = None,
    ) -> tuple[Transport, T]:
        """
        Asks a server, and others where that may be. `ask` gets a connection, the time that is left
        of `timeout`, and whether an earlier attempt may have been heard. `again`: it is asked anew
        when the connection ended, with `silent` also when no answer came in time; a refusal of a
        later attempt is then no proof that the first was not heard. `link`: try it first, and bound
        connecting by `timeout`; it stays the caller's if the server refuses. Returns the
        connection, which is the caller's.
        """
        own, until, attempt = link, monotonic() + timeout, 0
        most, bounded = self.options.connect_timeout, link is not None and timeout > 0
        points = self._order(proto, target)
        failed: CounterError | None = None
        while True:
            point = points[attempt % len(points)]
            link = link or self._take(point)
            idle = link is not None
            told = timeout if idle and not attempt else max(0.0, until - monotonic())
            try:
                if link is None:
                    link = await self._open(point, min(most, told) if bounded else most)
                    told = max(0.0, until - monotonic())
                link.sent = False
                value = await ask(link, told, isinstance(failed, Unanswered))
                if link.buffer:
                    wire.malformed(link.buffer, "the server sent more than the answer")
                if point.down_until:
                    self._set_up(point)
                return link, value
            except BaseException as cause:
                error = failure(cause, link is not None and link.sent)
                if error is None:
                    if link is not None:
                        self.drop(link)
                    raise
                self.place(error, point.text, target)
                if link is not None:
                    if not isinstance(error, Refused):
                        self.drop(link)
                    elif link is not own:
                        self.give(link)
                if isinstance(error, Unreachable) and idle:
                    link = None
                    continue
                if "SHUTTING_DOWN" in error.answer:
                    self._set_down(point, error)
                elif isinstance(error, Refused) and point.down_until:
                    self._set_up(point)
                if not isinstance(error, (Unreachable, Draining)) and not (
                    isinstance(error, Unanswered) and again and (error.ended or silent)
                ):
                    if silent and isinstance(failed, Unanswered) and isinstance(error, Refused):
                        failed.answer = error.answer  # the first request may have been done
                    else:
                        failed = error
                    break
            link = None
            attempt += 1
            if failed is None or isinstance(error, Unanswered) or isinstance(failed, Unreachable):
                failed = error
            if attempt >= len(points) + (again and isinstance(failed, Unanswered)):
                break
            self.tell("retry", error.server, target, error=error)
        try:
            raise failed
        finally:
            del error, failed  # no cycles with the frames of this call

    async def _once(
        self,
        proto: str,
        target: Text,
        ask: Ask[T],
        timeout: float = 0,
        *,
        again: bool = True,
        silent: bool = False,
    ) -> T:
        """As `run`, for what needs the connection no longer."""
        self._check(target)
        link, value = await self.run(proto, target, ask, timeout, again=again, silent=silent)
        self.give(link)
        return value

    async def _acquire(
        self, proto: str, target: Text, ask: Ask[T], timeout: float
    ) -> tuple[Transport, T]:
        """As `run`, for holds."""
        self._check(target)
        start = monotonic()
        try:
            link, value = await self.run(proto, target, ask, timeout)
        except CounterError as error:
            self.tell("wait", error.server, target, start, error=error)
            raise
        result = "done" if value == b"DONE" else "locked"
        self.tell("wait", link.point.text, target, start, result)
        return link, value

    def _check(self, target: Text) -> None:
        if self.closed:
            raise Usage("the client is closed", target=target)

    async def answer(
        self,
        link: Transport,
        good: Mapping[bytes, int],
        refusals: str | None = "",
        *,
        wait: float = 0,
        io: float | None = None,
    ) -> list[bytes]:
        """The words of an answer, and the body of an OK as the last. See `wire.words`."""
        io = self.io_timeout if io is None else io
        line = await link.line(wire.LIMITS[link.point.proto], monotonic() + wait + io, io)
        words = wire.words(line, good, refusals)
        if words[0] == b"OK":
            words.append(await self._body(link, words[1], wire.MAX_OK))
        return words

    async def _body(self, link: Transport, size: bytes, top: int) -> bytes:
        body = await link.exactly(wire.number(size, 0, top) + 2, self.io_timeout)
        if body[-2:] != b"\r\n":
            wire.malformed(body[-2:])
        return body[:-2]

    async def jobs(
        self,
        link: Transport,
        request: bytes,
        good: Mapping[bytes, int],
        refusals: str = "",
        *,
        wait: float = 0,
        body: bool = False,
        io: float | None = None,
    ) -> list[bytes]:
        """
        A request of the protocol for jobs. A new connection asks `tube default` first, and with a
        `body` waits for the answer: a plain beanstalkd would take the body for commands.
        """
        if link.checked:
            await link.write(request, self.io_timeout)
        else:
            await link.write(b"tube default\r\n" + (b"" if body else request), self.io_timeout)
            link.sent, link.partial = not body, True  # a refusal leaves an answer to come
            await self.answer(link, {b"OK": 2}, io=io)
            link.checked, link.partial = True, False
            if body:
                await link.write(request, self.io_timeout)
        return await self.answer(link, good, refusals, wait=wait, io=io)

    async def _plain(
        self,
        target: Text,
        request: bytes,
        good: Mapping[bytes, int],
        parse: Callable[[list[bytes]], T],
        refusals: str = "",
        *,
        again: bool = True,
        silent: bool = False,
        body: bool = False,
    ) -> T:
        """A request for jobs that never waits."""

        async def ask(link: Transport, told: float, tried: bool) -> T:
            return parse(await self.jobs(link, request, good, refusals, body=body))

        return await self._once("jobs", target, ask, again=again, silent=silent)

    async def binary(
        self, link: Transport, opcode: int, request: bytes, known: Sequence[int]
    ) -> tuple[int, bytes]:
        """A request of the binary protocol. Returns status 0 or a known one, and the body."""
        await link.write(request, self.io_timeout)
        code, length = wire.status(await link.exactly(12, self.io_timeout), opcode)
        body = await link.exactly(length, self.io_timeout) if length else b""
        if code and code not in known:
            raise wire.binary_error(code, body)
        return code, body

    # ---- calls

    async def lock(
        self,
        name: Text,
        *,
        workers: int = 1,
        queue: int | None = None,
        timeout: float = 10,
        shared: bool = False,
    ) -> L:
        """
        Takes a lock that `workers` may have at once. `queue`: holders and waiters together at most
        (workers + 100). `timeout`: seconds. `shared`: it is also granted, with `done`, when another
        holder has done the work. Raises Busy, QueueFull, Draining, EngineAway, NoMemory.
        """
        verb = b"ACQ4ANY" if shared else b"ACQ4ME"
        workers = wire.whole(workers, "workers", 1)
        queue = wire.whole(workers + 100 if queue is None else queue, "queue", 1)
        sent = wire.name(name)
        head = b"%s %s %d %d " % (verb, sent, workers, queue)
        good = wire.SHARED if shared else wire.LOCKED

        async def ask(link: Transport, told: float, tried: bool) -> bytes:
            await link.write(head + wire.wait(told) + b"\n", self.io_timeout)
            words = await self.answer(link, good, "TIMEOUT QUEUE_FULL LOCK_HELD", wait=told)
            return words[0]

        link, word = await self._acquire("text", name, ask, seconds(timeout, "timeout"))
        if word == b"LOCKED":
            return self._lock(self, link, name, sent, shared)
        self.give(link)
        lock = self._lock(self, None, name, sent, shared)
        lock.server = link.point.text
        return lock

    async def units(self, name: Text, count: int, limit: int) -> U:
        """
        Takes `count` units of a counter of which `limit` may be held. Never waits. Raises Busy,
        NoMemory.
        """
        numbers = (wire.whole(count, "count", 1), wire.whole(limit, "limit", 1))
        request = wire.binary(wire.ACQUIRE, numbers, wire.name(name))
        if count > limit:
            raise Usage(f"{count} units are more than the limit, {limit}", target=name)

        async def ask(link: Transport, told: float, tried: bool) -> bytes:
            code, body = await self.binary(link, wire.ACQUIRE, request, ())
            if int.from_bytes(body, "big") != count or len(body) != 4:
                wire.malformed(body)
            return body

        link, _ = await self._acquire("binary", name, ask, 0)
        return self._units(self, link, name, count)

    async def usage(self, name: Text) -> int:
        """Returns how many units of a counter are held; 0 if there is none."""
        request = wire.binary(wire.GET, (), wire.name(name))

        async def ask(link: Transport, told: float, tried: bool) -> int:
            code, body = await self.binary(link, wire.GET, request, (0x01,))
            if not code and len(body) != 4:
                wire.malformed(body)
            return 0 if code else int.from_bytes(body, "big")

        return await self._once("binary", name, ask)

    async def member(
        self,
        target: Text,
        *,
        timeout: float = 10,
        count: int = 1,
        name: Text | None = None,
        attrs: Mapping[str, str] = {},
        purpose: str = "use",
        by: Text | None = None,
    ) -> M:
        """
        Takes `count` members of a pool, of the first that can serve of several with commas between,
        or of a pool of @GROUP. `name`, `attrs`: only this one, only those with all of these.
        `purpose`: use, clean or check. `by`: a name of the caller, for people. `timeout`: seconds. Raises Busy,
        QueueFull, NotFound, Wrong, TooMany, Draining, NoMemory.
        """
        pools, head, tail = wire.take(target, count, name, attrs, purpose, by)
        group = head.startswith(b"TAKE @")
        if (group or len(pools) > 1) and len(self._order("text", pools[0])) > 1:
            raise Usage("with several servers, a target is one pool", target=target)

        async def ask(link: Transport, told: float, tried: bool) -> tuple[str, list[Taken]]:
            await link.write(head + wire.wait(told) + tail, self.io_timeout)
            good = {b"TAKEN": 5}
            members: list[Taken] = []
            words = await self.answer(link, good, "TIMEOUT QUEUE_FULL", wait=told)
            pool = words[1]
            while words[1] == pool and (group or pool in pools):
                members.append(wire.taken(words))
                if len(members) == count:
                    return pool.decode("utf-8", "surrogateescape"), members
                words = await self.answer(link, good, None)
            wire.malformed(words[1])

        link, (pool, members) = await self._acquire(
            "text", pools[0], ask, seconds(timeout, "timeout")
        )
        return self._member(self, link, pool, members)

    async def put(
        self,
        tube: Text,
        body: Text,
        *,
        priority: int = 1024,
        delay: float = 0,
        ttr: float = 60,
        key: Text | None = None,
        at: float | None = None,
        root: tuple[Text, float | str] | None = None,
        tries: int | None = None,
    ) -> Put:
        """
        Puts a job into a tube. `delay`, `ttr`: seconds, rounded up; `at` and the time of `root`
        (signature, time): unix seconds. Without a `key` it is never tried again. Raises TooBig,
        Draining, ReadOnly, QueueFull, NoMemory.
        """
        sent = wire.record(NewJob(body, priority, delay, ttr, key, at, root, tries))
        put = await self._plain(
            tube,
            b"put-into %s %s" % (wire.tube(tube), sent),
            {b"INSERTED": 2, b"DUPLICATE": 2},
            wire.put_answer,
            "JOB_TOO_BIG DRAINING READ_ONLY TUBE_FULL",
            again=key is not None,
            silent=key is not None,
            body=True,
        )
        result = "duplicate" if put.duplicate else "inserted"
        self.tell("put", self._order("jobs", tube)[0].text, tube, result=result)
        return put

    async def put_many(self, tube: Text, jobs: Iterable[NewJob]) -> list[Put]:
        """
        Puts all of these jobs, or none: up to 1,000 and 16 MiB. Raises as `put`, and like it tries
        again only if every job has a key.
        """
        new = list(jobs)
        sent = b"".join(wire.record(job) for job in new)
        if not 1 <= len(new) <= 1000 or len(sent) > 16 << 20:
            raise Usage("1 to 1,000 jobs and 16 MiB can be put at once", target=tube)
        keyed = all(job.key is not None for job in new)
        puts = await self._plain(
            tube,
            b"put-batch %s %d %d\r\n%s\r\n" % (wire.tube(tube), len(new), len(sent), sent),
            {b"OK": 2},
            lambda words: wire.batch(words[-1], len(new)),
            "JOB_TOO_BIG DRAINING READ_ONLY TUBE_FULL",
            again=keyed,
            silent=keyed,
            body=True,
        )
        self.tell("put", self._order("jobs", tube)[0].text, tube, result="inserted")
        return puts

    async def claim(
        self, tubes: Text | Iterable[Text], *, count: int = 1, timeout: float = 10
    ) -> list[J]:
        """
        Reserves 1 to `count` jobs of the tubes, which take turns; an empty list if none comes
        within `timeout` seconds, rounded up. Raises ReadOnly, NoMemory.
        """
        tubes = [tubes] if isinstance(tubes, (str, bytes)) else tubes
        return await self.reserve(tubes, count, seconds(timeout, "timeout"))

    async def reserve(
        self, tubes: Iterable[Text], count: int, timeout: float, again: bool = True
    ) -> list[J]:
        """As `claim`."""
        names = [wire.tube(tube) for tube in tubes]
        head = b"claim %d %%d %s\r\n" % (wire.whole(count, "count", 1, 1000), b" ".join(names))
        if not names or len(head) > 8000:
            raise Usage("claim needs 1 tube or more, and a line of up to 8,000 bytes")

        async def ask(
            link: Transport, told: float, tried: bool
        ) -> list[tuple[int, int, str, int, bytes]]:
            whole = math.ceil(told)
            good = {b"CLAIMED": 2, b"TIMED_OUT": 1}
            words = await self.jobs(link, head % whole, good, "READ_ONLY", wait=whole)
            jobs = []
            if words[0] == b"CLAIMED":
                for _ in range(wire.number(words[1], 1, count)):
                    words = await self.answer(link, {b"RESERVED": 6}, None)
                    if words[4] not in names:
                        wire.malformed(words[4], "the server sent a job of another tube")
                    body = await self._body(link, words[2], self.options.max_body)
                    id, token, tries = (wire.number(words[i], 1) for i in (1, 3, 5))
                    jobs.append((id, token, words[4].decode(), tries, body))
            return jobs

        self._check(names[0])
        link, jobs = await self.run("jobs", names[0], ask, timeout, again=again)
        if not jobs:
            self.give(link)
            return []
        claim = Claim(self, link, len(jobs))
        return [self._job(claim, *job) for job in jobs]

    async def tube(
        self, name: Text, settings: Mapping[str, Text | int] = {}
    ) -> dict[str, int | str]:
        """
        Returns settings and counts of a tube, after setting what is given: order, claim, tries,
        limit, prune, remember, read_only. Raises NotFound without settings.
        """
        request = b"tube %s%s\r\n" % (wire.tube(name), wire.settings(settings))
        refusals = "" if settings else "NOT_FOUND"
        return await self._plain(
            name,
            request,
            {b"OK": 2},
            lambda words: wire.dictionary(words[-1]),
            refusals,
            again=not settings,
        )

    async def ready(
        self, pattern: Text, *, after: Text = "", limit: int = 1000, timeout: float = 0
    ) -> dict[str, int]:
        """
        Returns the tubes with ready jobs, and how many, ordered by name: those of the pattern (a
        name, or a beginning and '*') behind `after`. Empty after `timeout` seconds, rounded up.
        """
        rest = wire.pattern(pattern, after)
        limit = wire.whole(limit, "limit", 1, 1000)

        async def ask(link: Transport, told: float, tried: bool) -> dict[str, int]:
            whole = math.ceil(told)
            request = b"ready %d %d %s\r\n" % (whole, limit, rest)
            words = await self.jobs(link, request, {b"OK": 2, b"TIMED_OUT": 1}, wait=whole)
            found = wire.dictionary(words[-1]) if words[0] == b"OK" else {}
            counts = {key: count for key, count in found.items() if isinstance(count, int)}
            return counts if len(counts) == len(found) <= limit else wire.malformed(words[-1])

        return await self._once("jobs", pattern, ask, seconds(timeout, "timeout"))

    async def jobs_page(self, tube: Text, state: str, after: int) -> tuple[list[JobView], int]:
        """Up to 100 jobs with ids greater than `after`, and the next `after`; 0 at the end."""
        if state not in wire.STATES:
            raise Usage(f"{state!r} is no state: {', '.join(wire.STATES)} are", target=tube)
        request = b"list-jobs %s %s %d 100\r\n" % (wire.tube(tube), state.encode(), after)

        async def ask(link: Transport, told: float, tried: bool) -> tuple[list[JobView], int]:
            words = await self.jobs(link, request, {b"LISTED": 3}, "NOT_FOUND")
            count, following = wire.number(words[1], 0, 100), wire.number(words[2])
            views: list[JobView] = []
            for _ in range(count):
                found, body = await self.answer(link, {b"FOUND": 5, b"UNREADABLE": 4}, None), None
                if found[0] == b"FOUND":
                    body = await self._body(link, found.pop(2), self.options.max_body)
                id, tries = wire.number(found[1], 1), wire.number(found[3])
                views.append(JobView(id, found[2].decode("ascii", "replace"), tries, body))
            if following and following <= after:
                wire.malformed(words[2], "the server's list does not go on")
            return views, following

        return await self._once("jobs", tube, ask)

    async def clear(self, tube: Text, state: str) -> int:
        """Deletes the tube's jobs in that state ('all': but reserved ones). Returns how many."""
        if state not in wire.STATES:
            raise Usage(f"{state!r} is no state: {', '.join(wire.STATES)} are", target=tube)
        request = b"clear %s %s\r\n" % (wire.tube(tube), state.encode())
        refusals = "NOT_FOUND READ_ONLY"
        return await self._plain(
            tube, request, {b"CLEARED": 2}, lambda w: wire.number(w[1]), refusals, again=False
        )

    async def delete(self, id: int) -> None:
        """Deletes a job that nobody has reserved. Raises NotFound."""
        request = b"delete %d\r\n" % wire.whole(id, "id", 1, (1 << 63) - 1)
        await self._plain(str(id), request, {b"DELETED": 1}, len, "NOT_FOUND", silent=True)

    async def kick(self, id: int) -> None:
        """Makes a buried or delayed job ready. Raises NotFound."""
        request = b"kick-job %d\r\n" % wire.whole(id, "id", 1, (1 << 63) - 1)
        await self._plain(str(id), request, {b"KICKED": 1}, len, "NOT_FOUND", again=False)


def forgotten(what: object) -> None:
    """Warns of an object that was collected before it was given back."""
    warnings.warn(f"{what!r} was not given back", ResourceWarning, source=what, stacklevel=3)


def failure(error: BaseException, sent: bool) -> CounterError | None:
    """The error of a connection as one of our tree. None: it is none, but the program's own."""
    if isinstance(error, CounterError):
        return error
    late = isinstance(error, Late)
    if isinstance(error, TimeoutError) and error.errno is None:
        return None
    if not late and not isinstance(error, (OSError, EOFError)):
        return None
    what = "no answer came in time" if late else "the connection ended before an answer came"
    kind = Unanswered if sent else Unreachable
    found = kind(what, reason="" if late else str(error), sent=sent)
    found.ended = not late
    return found
