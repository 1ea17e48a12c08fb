"""The blocking client."""

from __future__ import annotations

import functools
import os
import select
import socket
import threading
import weakref
from time import monotonic
from typing import TYPE_CHECKING, Any, Callable, Concatenate, Coroutine, Iterator, ParamSpec, Self
from typing import TypeVar, cast

from ._core import Core, Event, HoldBase, JobBase, Late, LockBase, MemberBase, Point, Transport
from ._core import UnitsBase
from ._errors import CounterError, Malformed, Text
from ._options import Options, tune
from ._wire import JobView

if TYPE_CHECKING:
    import ssl

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=socket.socket)
CHUNK = 65_536


def run(coroutine: Coroutine[Any, Any, R]) -> R:
    """Runs what never suspends, since its transport blocks."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: R = end.value
        return value
    raise RuntimeError("a blocking transport has suspended")


class Link(Transport):
    """A connection whose methods block, within their deadlines. The socket itself never does."""

    def __init__(self, point: Point, sock: socket.socket | ssl.SSLSocket) -> None:
        super().__init__(point)
        sock.setblocking(False)
        self._sock = sock
        self._pending = getattr(sock, "pending", None)  # of TLS
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._turn = threading.RLock()  # an interrupt that keeps it blocks only other threads
        _links.add(self)

    def _receive(self, deadline: float) -> bytes:
        while True:
            if self._pending is None or not self._pending():
                left = deadline - monotonic()
                if not self._poll.poll(left * 1000 if left > 0 else 0):
                    raise Late
            data = self._try_receive()
            if data:
                return data
            if data is not None:
                raise EOFError

    def _try_receive(self) -> bytes | None:
        """What is there now; None: nothing yet."""
        try:
            return self._sock.recv(CHUNK)
        except BlockingIOError:
            return None
        except OSError as error:
            if self._pending and error.errno == _WANT_READ:
                return None
            raise

    async def write(self, data: bytes, io_timeout: float) -> None:
        try:
            count = self._sock.send(data if len(data) <= CHUNK else data[:CHUNK])
            self.sent = True
        except OSError:
            count = 0  # the loop meets it again
        if count < len(data):
            self._write_slowly(memoryview(data)[count:], io_timeout)

    def _write_slowly(self, rest: memoryview, io_timeout: float) -> None:
        poll = select.poll()
        poll.register(self._sock, select.POLLIN | select.POLLOUT)
        deadline, mark = 0.0, len(rest) + 1
        while rest:
            try:
                count = self._sock.send(rest[:CHUNK])
                self.sent = True
            except BlockingIOError:
                count = 0
            except OSError as error:
                if not (self._pending and error.errno in (_WANT_READ, _WANT_WRITE)):
                    self._hear_end(error)
                    return
                count = 0
            rest = rest[count:]
            if not rest:
                return
            if len(rest) < mark:
                deadline, mark = monotonic() + io_timeout, len(rest) - CHUNK
            events = poll.poll(max(0.0, deadline - monotonic()) * 1000)
            if not events:
                raise Late
            if events[0][1] & ~select.POLLOUT and (came := self._try_receive()) is not None:
                if not came and not self.buffer:
                    raise EOFError
                self.buffer += came
                self.partial = True
                return

    def _hear_end(self, error: OSError) -> None:
        """Sending failed: goes on if the server has said why, before it closed."""
        try:
            came = self.sent and self._try_receive()
        except OSError:
            came = None
        if not came:
            raise error
        self.buffer += came
        self.partial = True

    async def line(self, limit: int, begin: float, io_timeout: float) -> bytes:
        buffer, end = self.buffer or self._receive(begin), self.line_end
        at = buffer.find(end)
        if at < 0:
            deadline = monotonic() + io_timeout
            while at < 0 and len(buffer) <= limit + len(end):
                buffer += self._receive(deadline)
                at = buffer.find(end)
        if not 0 <= at <= limit:
            raise Malformed("the server's line is too long", answer=buffer, sent=True)
        self.buffer = buffer[at + len(end) :]
        return buffer[:at]

    async def exactly(self, size: int, io_timeout: float) -> bytes:
        parts = [self.buffer]
        have, mark, deadline = len(self.buffer), 0, 0.0
        while have < size:
            if have >= mark:
                deadline, mark = monotonic() + io_timeout, have + CHUNK
            parts.append(self._receive(deadline))
            have += len(parts[-1])
        data = b"".join(parts)
        self.buffer = data[size:]
        return data[:size]

    def fresh(self) -> bool:
        if not self.open or self.buffer:
            return False
        if not self._poll.poll(0) and (self._pending is None or not self._pending()):
            return True
        try:
            return self._try_receive() is None
        except OSError:
            return False

    async def begin(self) -> None:
        self._turn.acquire()

    def begin_now(self) -> bool:
        return self._turn.acquire(blocking=False)

    def end(self) -> None:
        self._turn.release()

    def close(self) -> None:
        self.open = False
        self._sock.close()

    def forget(self) -> None:
        """In a child of fork: the connection is the parent's."""
        self._turn = threading.RLock()
        self.foreign = True
        self.close()


_WANT_READ, _WANT_WRITE = 2, 3  # errno of ssl.SSLWantReadError, SSLWantWriteError
_links: weakref.WeakSet[Link] = weakref.WeakSet()
_sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()  # also of links in the making
_births = threading.RLock()  # no fork between a socket's birth and its place in the set


def _forked() -> None:
    _births.release()
    for sock in list(_sockets):
        sock.close()
    for link in list(_links):
        link.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_births.acquire, after_in_parent=_births.release, after_in_child=_forked
    )


def _born(make: Callable[[], S]) -> S:
    with _births:
        sock = make()
        _sockets.add(sock)
        return sock


async def connect(core: Core[Any, Any, Any, Any], point: Point, within: float) -> Link:
    """Connects within so many seconds, after names have been looked up."""
    where: list[tuple[int, Any]] = [(socket.AF_UNIX, point.address)]
    if not isinstance(point.address, str):
        host, port = point.address
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except socket.gaierror:
            socket.socket().close()  # the resolver does not say that descriptors lack; this does
            raise
        except UnicodeError as wrong:
            raise OSError(f"{host!r} is no name of a host: {wrong}") from None
        where = [(entry[0], entry[4]) for entry in found]
    error: OSError | Late = OSError("the name has no address")
    deadline = monotonic() + within
    for i, (family, address) in enumerate(where):
        due = monotonic() + (deadline - monotonic()) / (len(where) - i)
        sock = _born(functools.partial(socket.socket, family, socket.SOCK_STREAM))
        try:
            tune(sock)
            sock.settimeout(max(0.001, due - monotonic()))
            sock.connect(address)
            if core.context is not None:
                name = core.options.tls_name or host
                wrap = functools.partial(core.context.wrap_socket, sock, server_hostname=name)
                sock = tls = _born(functools.partial(wrap, do_handshake_on_connect=False))
                tls.settimeout(max(0.001, due - monotonic()))
                tls.do_handshake()
            return Link(point, sock)
        except OSError as cause:
            sock.close()
            error = cause
            if isinstance(cause, TimeoutError) and cause.errno is None:
                if monotonic() < due:
                    raise  # an alarm of the program
                error = Late()
        except BaseException:
            sock.close()
            raise
    raise error


class Hold(HoldBase):
    """What is held until `release`, the end of `with`, or the end of its connection."""

    @property
    def lost(self) -> bool:
        """It is not held any more. Looks at the connection without waiting; from any thread."""
        link = self._link
        if self._over or not isinstance(link, Link) or not link.begin_now():
            return self._gone
        try:
            ended = self._link is link and link.ended()
        finally:
            link.end()
        if ended:
            self.note_loss()
        return self._gone

    def release(self, ok: bool = True) -> None:
        """
        Gives it back; a second time does nothing. `ok`: the work was done; else no waiter
        for a shared lock is told so, and a member is returned as failed. Raises Lost, Failed.
        """
        run(self._release(ok))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self.release(error is None)
        except CounterError:
            if error is None:
                raise


class Lock(LockBase, Hold):
    """A lock: `name`; `done`: another has done the work, and nothing is held."""


class Units(UnitsBase, Hold):
    """Units of a counter: `name`, `count`."""


class Member(MemberBase, Hold):
    """Members of a pool: `pool`; `name`, `value`, `attrs`, `fence` of the first; `all`."""


class Job(JobBase):
    __doc__ = JobBase.__doc__

    @property
    def lost(self) -> bool:
        """A renewal has found that it is reserved no more; or it is that of a parent process."""
        self._heard = super().lost
        return self._heard

    def _is_cut(self) -> bool:
        """Its connection has ended, and nobody has met that yet. Never waits; from any thread."""
        claim = self._claim
        if claim is None or not isinstance(claim.link, Link) or not claim.link.begin_now():
            return False
        try:
            return self._claim is claim and claim.link.open and claim.link.ended()
        finally:
            claim.link.end()

    def ack(self) -> None:
        """The job is done. Tried once more by its token. Raises Lost, Failed."""
        run(self._ack())

    def nack(self, delay: float = 0) -> bool:
        """Gives it back for another try, `delay` seconds later. True: its tries are used up."""
        return run(self._nack(delay))

    def bury(self) -> None:
        """Puts it aside, until somebody kicks it. Raises Lost, Failed."""
        run(self._bury())

    def renew(self) -> None:
        """Its time to run begins anew. Raises Lost, Failed."""
        run(self._renew())


class SyncCore(Core[Lock, Units, Member, Job]):
    """The core with what the blocking client gives."""


def blocking(call: Callable[P, Coroutine[Any, Any, R]]) -> Callable[Concatenate[Client, P], R]:
    """A call of the core, for type checkers bound to one, as a method of the client."""
    unbound: Callable[..., Coroutine[Any, Any, R]] = call

    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return run(unbound(self._core, *args, **kwargs))

    return functools.update_wrapper(method, call)


_calls = cast(SyncCore, SyncCore)


class Client:
    """
    Servers, defaults and idle connections; one for a process, used by all its threads. Making one
    connects to nothing. `url`: counter://HOST[:PORT][,HOST...][?OPTION=VALUE...], else
    $COUNTER_URL, else counter://127.0.0.1; parameters are its options, and win. `on_event` is
    called with each `Event`, on the caller's thread. Raises Usage.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        on_event: Callable[[Event], object] | None = None,
        **parameters: Any,
    ) -> None:
        types = (Lock, Units, Member, Job)
        self._core: SyncCore = SyncCore(types, connect, Options(url, parameters), on_event)

    lock = blocking(_calls.lock)
    units = blocking(_calls.units)
    usage = blocking(_calls.usage)
    member = blocking(_calls.member)
    put = blocking(_calls.put)
    put_many = blocking(_calls.put_many)
    claim = blocking(_calls.claim)
    tube = blocking(_calls.tube)
    ready = blocking(_calls.ready)
    clear = blocking(_calls.clear)
    delete = blocking(_calls.delete)
    kick = blocking(_calls.kick)

    def list_jobs(self, tube: Text, state: str) -> Iterator[JobView]:
        """The tube's jobs in that state, asked for 100 at a time. Raises NotFound."""
        after = 0
        while True:
            views, after = run(self._core.jobs_page(tube, state, after))
            yield from views
            if not after:
                return

    def close(self) -> None:
        """Closes idle connections. Holds and jobs keep theirs; later calls are Usage."""
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
