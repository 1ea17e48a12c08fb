"""A client of Redis: commands, pipelines and subscriptions, over TCP and unix sockets.

An address is a pair (host, port) or the path of a unix socket. Bulk strings and status lines come back
as bytes, integers as int, arrays as lists, nothing as None. An error reply is raised as Error by `ask`,
and is returned as an Error by `read` and `pipeline`.
"""

import collections
import socket
import time

DEADLINE = 60  # seconds; far beyond what any answer takes


class Error(Exception):
    """An error reply. `word` is its first word: ERR, OOM, SESSION."""

    @property
    def word(self):
        return str(self).split(" ", 1)[0]

    def __eq__(self, other):
        return isinstance(other, Error) and str(self) == str(other)

    def __hash__(self):
        return hash(str(self))


def connect(address, timeout=DEADLINE):
    """Returns a socket connected to `address`."""
    if isinstance(address, (str, bytes)):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(timeout)
        try:
            s.connect(address)
        except OSError:
            s.close()
            raise
        return s
    s = socket.create_connection(address, timeout)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def as_bytes(argument):
    """An argument of a command as its bytes."""
    return argument if isinstance(argument, bytes) else str(argument).encode()


def encode(*arguments):
    """A command as bytes for the wire."""
    parts = [b"*%d\r\n" % len(arguments)]
    for argument in map(as_bytes, arguments):
        parts.append(b"$%d\r\n%s\r\n" % (len(argument), argument))
    return b"".join(parts)


class Client:
    """One connection."""

    def __init__(self, address, user=None, password=None):
        self.address = address
        self.socket = connect(address)
        self.unread = bytearray()
        self.messages = collections.deque()  # (channel, payload) that `message` has not returned yet
        self.channels = set()
        if password is not None:
            self.ask("AUTH", *([user] if user else []), password)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    # Bytes.

    def _fill(self, until):
        self.socket.settimeout(max(until - time.monotonic(), 0.001))
        piece = self.socket.recv(1 << 18)
        if not piece:
            raise ConnectionError("the server closed the connection")
        self.unread += piece

    def _line(self, until):
        start = 0
        while True:
            end = self.unread.find(b"\r\n", start)
            if end >= 0:
                line = bytes(self.unread[:end])
                del self.unread[: end + 2]
                return line
            start = max(len(self.unread) - 1, 0)
            self._fill(until)

    def _exactly(self, count, until):
        while len(self.unread) < count + 2:
            self._fill(until)
        body = bytes(self.unread[:count])
        del self.unread[: count + 2]
        return body

    def _reply(self, until):
        line = self._line(until)
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b"-":
            return Error(rest.decode("utf-8", "replace"))
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._exactly(int(rest), until)
        if kind == b"*":
            return None if rest == b"-1" else [self._reply(until) for _ in range(int(rest))]
        raise ValueError("not RESP2: %r" % line)

    # Commands.

    def send(self, *arguments):
        """Sends a command; `read` returns its reply."""
        self.socket.settimeout(DEADLINE)
        self.socket.sendall(encode(*arguments))

    def read(self, timeout=DEADLINE):
        """
        Returns the next reply. Raises TimeoutError when it has not begun within `timeout`; a reply that
        has begun must be complete within DEADLINE.
        """
        if not self.unread:
            self._fill(time.monotonic() + timeout)
        return self._reply(time.monotonic() + DEADLINE)

    def ask(self, *arguments):
        """Sends a command and returns its reply, or raises the Error that it was."""
        self.send(*arguments)
        reply = self.read()
        if isinstance(reply, Error):
            raise reply
        return reply

    def pipeline(self, commands):
        """Sends all `commands`, each a sequence, and returns the list of their replies."""
        commands = list(commands)
        replies = []
        for start in range(0, len(commands), 500):
            some = commands[start : start + 500]
            self.socket.settimeout(DEADLINE)
            self.socket.sendall(b"".join(encode(*c) for c in some))
            replies += [self.read() for _ in some]
        return replies

    def info(self, section="all"):
        """INFO as a dictionary of text."""
        lines = self.ask("INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line and line[0] != "#")

    # Messages. A connection that has subscribed is used for messages only.

    def subscribe(self, *channels):
        """Subscribes, and returns when all is confirmed."""
        self.send("SUBSCRIBE", *channels)
        missing = set(map(as_bytes, channels))
        while missing:
            reply = self.read()
            if isinstance(reply, Error):
                raise reply
            if reply[0] == b"subscribe":
                missing.discard(reply[1])
                self.channels.add(reply[1])
            else:
                self._keep(reply)

    def _keep(self, reply):
        if isinstance(reply, list) and reply[0] == b"message":
            self.messages.append((reply[1], reply[2]))
        elif isinstance(reply, Error):
            raise reply

    def message(self, timeout=DEADLINE):
        """Returns the next message as (channel, payload), or None when none came within `timeout`."""
        until = time.monotonic() + timeout
        while not self.messages:
            try:
                self._keep(self.read(max(until - time.monotonic(), 0.0)))
            except TimeoutError:
                return None
        return self.messages.popleft()

    def published(self):
        """
        Returns the payloads of all messages that were published before this call: the server answers the
        PING of a subscriber behind them.
        """
        self.send("PING", "up to here")
        while True:
            reply = self.read()
            if isinstance(reply, list) and reply[0] == b"pong":
                break
            self._keep(reply)
        payloads = [payload for _, payload in self.messages]
        self.messages.clear()
        return payloads
