"""An observer of all clients of all nodes: what each of them holds, by the answers that it read.

A client holds units from the answer that it read until it sends their release, or until the end of its
connection is seen. One thread reads the connections of all clients. When a client is granted units, the
ends of the connections of all others that hold some of that name are looked for first: the kernel has
them before a node that knows of them can say anything. So no sum is too high by mistake, and one that
is too high for a moment only is seen.
"""

import contextlib
import select
import socket
import struct
import threading
import time

import wire

TEXT_GRANTED, BINARY_STATUS = "LOCKED", {wire.OK: "OK"}


class Asked:
    """A request and its answer; None until it comes, "closed" if the connection ends first."""

    def __init__(self, what, name, units):
        self.what, self.name, self.units = what, name, units
        self.answer = None
        self.asked_at = time.monotonic()
        self.answered_at = None
        self.event = threading.Event()

    def finish(self, answer):
        self.answer, self.answered_at = answer, time.monotonic()
        self.event.set()

    def wait(self, deadline=None):
        """Waits for the answer and returns it."""
        if not self.event.wait(wire.DEADLINE if deadline is None else deadline):
            raise wire.Timeout("no answer to %s %s" % (self.what, self.name))
        return self.answer

    @property
    def is_answered(self):
        return self.event.is_set()


class Name:
    """What is known of one name."""

    def __init__(self, limit, strict):
        self.limit, self.strict = limit, strict
        self.held = {}  # client -> units
        self.peak = 0
        self.allowed = 0  # times that somebody expects more than the limit now

    @property
    def units(self):
        return sum(self.held.values())


class Client:
    """A connection that the observer reads. Answers come in the order of the requests."""

    def __init__(self, observer, address, label):
        self.observer, self.label = observer, label
        self.sock = socket.create_connection(address, wire.DEADLINE)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        self.buffer = bytearray()
        self.pending = []
        self.is_open = True
        self.is_closed_here = False  # by `close`
        self.gone = threading.Event()
        observer.add(self)

    def __repr__(self):
        return self.label

    def _ask(self, data, asked, gives_back=0):
        with self.observer.lock:
            if gives_back:
                self.observer.drop(self, asked.name, gives_back)
            self.pending.append(asked)
            if not self.is_open:
                self._fail()
                return asked
            try:
                self.sock.send(data)
            except OSError:
                pass  # the observer sees the end
        return asked

    def _fail(self):
        for asked in self.pending:
            asked.finish("closed")
        self.pending.clear()

    def close(self, reset=False):
        """Ends the connection. What it holds is no longer held."""
        with self.observer.lock:
            if not self.is_open:
                return
            if reset:
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.is_closed_here = True
            self.observer.ended(self)

    def wait_closed(self, deadline=None):
        """Waits until the node has closed the connection."""
        if not self.gone.wait(wire.DEADLINE if deadline is None else deadline):
            raise wire.Timeout("%s is still connected" % self)

    # Called by the observer, under its lock.

    def receive(self):
        """Takes what has arrived. Returns False at the end of the connection."""
        while True:
            try:
                data = self.sock.recv(1 << 16)
            except BlockingIOError:
                return True
            except OSError:
                data = b""
            if not data:
                return False
            self.buffer += data
            self._take()

    def _take(self):
        raise NotImplementedError

    def _answered(self, answer):
        if not self.pending:
            self.observer.wrong.append("%s reads %r, unasked" % (self, answer))
            return
        asked = self.pending.pop(0)
        if asked.what in ("acquire", "wait") and answer in ("LOCKED", "OK"):
            self.observer.take(self, asked.name, asked.units)
            self.observer.waited = max(self.observer.waited, time.monotonic() - asked.asked_at)
        elif asked.what == "release" and answer not in ("RELEASED", "OK"):
            self.observer.wrong.append("%s: release of %s: %s" % (self, asked.name, answer))
        asked.finish(answer)


class TextClient(Client):
    """A client of the text protocol, which holds one unit of a name."""

    def acquire(self, name, limit=1, timeout=0, queue=1000, shared=False):
        """ACQ4ME, or ACQ4ANY if it is `shared`."""
        verb = "ACQ4ANY" if shared else "ACQ4ME"
        line = "%s %s %d %d %g\n" % (verb, name, limit, queue, timeout)
        return self._ask(line.encode(), Asked("acquire", name, 1))

    def release(self, name):
        return self._ask(b"RELEASE %s\n" % name.encode(), Asked("release", name, 1), 1)

    def _take(self):
        while b"\n" in self.buffer:
            line, _, rest = bytes(self.buffer).partition(b"\n")
            self.buffer[:] = rest
            self._answered(line.decode("latin-1"))


class BinaryClient(Client):
    """A client of the binary protocol. Answers are names of statuses: OK, or a number in hexadecimal."""

    def acquire(self, name, limit=1, units=1):
        body = wire.acquire_body(units, limit, name.encode())
        return self._ask(wire.binary_request(wire.ACQUIRE, body), Asked("acquire", name, units))

    def release(self, name, units=1):
        body = wire.release_body(units, name.encode())
        return self._ask(wire.binary_request(wire.RELEASE, body), Asked("release", name, units), units)

    def _take(self):
        head = wire.HEADER.size
        while len(self.buffer) >= head:
            _, _, status, _, length, _ = wire.HEADER.unpack(self.buffer[:head])
            if len(self.buffer) < head + length:
                return
            del self.buffer[: head + length]
            self._answered(BINARY_STATUS.get(status, "0x%02x" % status))


class Observer(threading.Thread):
    """Reads all clients. `wrong` has a line for each thing that must not be."""

    def __init__(self):
        super().__init__(daemon=True)
        self.lock = threading.RLock()
        self.names, self.wrong, self.clients = {}, [], {}
        self.closed = 0  # connections that nodes have closed
        self.waited = 0.0  # the longest time until units were granted
        self.poller = select.epoll()
        self.is_over = False
        self.start()

    def limit(self, name, units, strict=True):
        """From now on this name has this limit; only of strict ones more is wrong."""
        with self.lock:
            known = self.names.setdefault(name, Name(units, strict))
            known.limit, known.strict = units, strict

    @contextlib.contextmanager
    def allowed(self, *names):
        """Within it more than the limit of these names is not wrong, only recorded."""
        with self.lock:
            for name in names:
                self.names[name].allowed += 1
        try:
            yield
        finally:
            with self.lock:
                for name in names:
                    self.names[name].allowed -= 1

    def over(self, name):
        """The most units beyond the limit that clients held at once."""
        with self.lock:
            known = self.names[name]
            return max(known.peak - known.limit, 0)

    def seen(self):
        """What was seen since `forget`: units beyond limits, connections that were closed, the longest wait."""
        with self.lock:
            over = {True: 0, False: 0}
            for known in self.names.values():
                over[known.strict] = max(over[known.strict], known.peak - known.limit)
            return {"over, strict": over[True], "over, loose": over[False], "closed": self.closed,
                    "waited": self.waited}  # fmt: skip

    def forget(self):
        """Forgets what was seen of all names; nobody may hold anything."""
        with self.lock:
            held = {name: known.held for name, known in self.names.items() if known.held}
            assert not held, held
            self.names.clear()
            self.closed, self.waited = 0, 0.0

    def check(self):
        """Fails if anything was wrong so far."""
        with self.lock:
            assert not self.wrong, "\n".join(self.wrong)

    def text(self, address, label=None):
        return TextClient(self, address, label or "client %d" % (len(self.clients) + 1))

    def binary(self, address, label=None):
        return BinaryClient(self, address, label or "binary client %d" % (len(self.clients) + 1))

    def close_all(self, reset=False):
        with self.lock:
            for client in list(self.clients.values()):
                client.close(reset)

    def stop(self):
        self.close_all()
        self.is_over = True
        self.join(wire.DEADLINE)
        self.poller.close()

    # What clients call, under the lock.

    def add(self, client):
        with self.lock:
            self.clients[client.sock.fileno()] = client
            self.poller.register(client.sock, select.EPOLLIN | select.EPOLLRDHUP)

    def ended(self, client):
        """The connection has ended."""
        if not client.is_open:
            return
        client.is_open = False
        self.closed += not client.is_closed_here
        for known in self.names.values():
            known.held.pop(client, None)
        self.clients.pop(client.sock.fileno(), None)
        self.poller.unregister(client.sock)
        client.sock.close()
        client._fail()  # pylint: disable=protected-access
        client.gone.set()

    def drop(self, client, name, units):
        """The client is about to give units back."""
        held = self.names[name].held if name in self.names else {}
        if client in held:
            held[client] -= units
            if held[client] <= 0:
                del held[client]

    def take(self, client, name, units):
        """The client was granted units."""
        known = self.names.setdefault(name, Name(1 << 32, False))
        known.held[client] = known.held.get(client, 0) + units
        if known.units > known.limit:
            self._look_for_ends([other for other in known.held if other is not client])
        known.peak = max(known.peak, known.units)
        if known.units > known.limit:
            text = "%s: %d units of %d: %s" % (
                name, known.units, known.limit, ", ".join("%s has %d" % h for h in known.held.items()))  # fmt: skip
            if known.strict and not known.allowed:
                self.wrong.append(text)

    @staticmethod
    def _look_for_ends(clients):
        poller = select.poll()
        for client in clients:
            poller.register(client.sock, select.POLLRDHUP)
        by_fd = {client.sock.fileno(): client for client in clients}
        for fd, _ in poller.poll(0):
            by_fd[fd].observer.ended(by_fd[fd])

    def run(self):
        while not self.is_over:
            ready = self.poller.poll(0.05)
            with self.lock:
                for fd, _ in ready:
                    client = self.clients.get(fd)
                    if client is not None and not client.receive() and client.is_open:
                        self.ended(client)
