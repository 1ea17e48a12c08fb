"""Clients of both protocols, written from the specifications alone.

Nothing here shares code with the daemon: this module composes and parses all bytes, so a mistake in
the daemon's codec cannot hide in the tests. The clients block, and each of their waits has a
deadline.
"""

import errno
import os
import select
import socket
import ssl
import struct
import time
from collections import namedtuple

MAGIC_REQUEST = 0x90
MAGIC_REPLY = 0x91
HEADER = struct.Struct(">BBBBI4s")

NOOP, GET, ACQUIRE, RELEASE, STATS, DUMP = 0x00, 0x01, 0x02, 0x03, 0x10, 0x11
OPCODES = {
    "noop": NOOP,
    "get": GET,
    "acquire": ACQUIRE,
    "release": RELEASE,
    "stats": STATS,
    "dump": DUMP,
}

OK, NOT_FOUND, INVALID = 0x00, 0x01, 0x04
NOT_AVAILABLE, NOT_ACQUIRED = 0x21, 0x22
UNKNOWN_COMMAND, OUT_OF_MEMORY = 0x81, 0x82
STATUS_TEXT = {
    NOT_FOUND: b"Not found",
    INVALID: b"Invalid arguments",
    NOT_AVAILABLE: b"Resource not available",
    NOT_ACQUIRED: b"Not acquired",
    UNKNOWN_COMMAND: b"Unknown command",
    OUT_OF_MEMORY: b"Out of memory",
}

# The names in the counter extension's Stats, in order.
STATS_NAMES = [
    "objects",
    "total_objects",
    "used_memory",
    "conflicts",
    "gc_count",
    "last_gc_elapsed",
    "total_gc_elapsed",
    "curr_connections",
    "total_connections",
    "command:noop",
    "command:get",
    "command:acquire",
    "command:release",
    "command:stats",
    "command:dump",
]

Reply = namedtuple("Reply", "opcode status opaque body")
Counter = namedtuple("Counter", "consumption peak")


def _is_slow():
    """True if the daemon under test has a sanitizer (or T_SLOW is set): tests allow more time."""
    said = os.environ.get("T_SLOW", "")
    if said:
        return said != "0"
    try:
        with open(os.environ["COUNTERD"], "rb") as program:
            content = program.read()
    except (KeyError, OSError):
        return False
    return b"__tsan_init" in content or b"__asan_init" in content


SLOW = _is_slow()
DEADLINE = 40.0 if SLOW else 20.0


def scaled(count, slow_count):
    """A number for a test: `count` normally, `slow_count` under a sanitizer."""
    return slow_count if SLOW else count


class Timeout(AssertionError):
    """The peer did not answer before the deadline."""


class Closed(AssertionError):
    """The peer closed the connection (or reset it) before an answer."""


class Malformed(AssertionError):
    """The bytes are no message of the protocol."""


# --- the binary protocol ---------------------------------------------------------------------


def binary_request(opcode, body=b"", opaque=b"\0\0\0\0", flags=0, reserved=0, body_len=None):
    """
    Composes a request. With `body_len` the header announces that length instead of the body's.
    """
    length = len(body) if body_len is None else body_len
    return HEADER.pack(MAGIC_REQUEST, opcode, flags, reserved, length, opaque) + body


def get_body(name, name_len=None):
    return struct.pack(">H", len(name) if name_len is None else name_len) + name


def release_body(units, name, name_len=None):
    return struct.pack(">I", units) + get_body(name, name_len)


def acquire_body(units, maximum, name, name_len=None):
    return struct.pack(">II", units, maximum) + get_body(name, name_len)


def parse_number(reply):
    if len(reply.body) != 4:
        raise Malformed("a number of %d bytes: %r" % (len(reply.body), reply))
    return struct.unpack(">I", reply.body)[0]


def parse_dump(reply):
    """(name, consumption, peak) of one Dump reply; None for the one that ends the dump."""
    if reply.body == b"":
        return None
    if len(reply.body) < 10:
        raise Malformed("a Dump reply of %d bytes: %r" % (len(reply.body), reply))
    consumption, peak, name_len = struct.unpack(">IIH", reply.body[:10])
    name = reply.body[10:]
    if len(name) != name_len or name_len == 0:
        raise Malformed("a Dump name of %d bytes, %d announced" % (len(name), name_len))
    return name, consumption, peak


def parse_stats(reply):
    """The (name, value) pairs of a Stats reply, in order."""
    pairs, body = [], reply.body
    while body:
        if len(body) < 4:
            raise Malformed("bytes at the end of Stats: %r" % body)
        name_len, value_len = struct.unpack(">HH", body[:4])
        if len(body) < 4 + name_len + value_len:
            raise Malformed("a Stats pair runs past the body: %r" % body)
        name = body[4 : 4 + name_len].decode("ascii")
        value = body[4 + name_len : 4 + name_len + value_len].decode("ascii")
        pairs.append((name, value))
        body = body[4 + name_len + value_len :]
    return pairs


# --- clients ---------------------------------------------------------------------------------


# Seconds. A wait that took so much longer than it should shows that the machine stood still: the
# server did, too, and gets more time. Not so short waits, which see that nothing comes.
STOOD_STILL = 1.0


def is_ready(sock, seconds):
    """Waits until there is something to read. Works with any descriptor number, unlike select()."""
    waiting = select.poll()
    waiting.register(sock, select.POLLIN)
    began = time.monotonic()
    if waiting.poll(seconds * 1000):
        return True
    stood_still = time.monotonic() - began > seconds + STOOD_STILL
    return stood_still and seconds > DEADLINE / 4 and bool(waiting.poll(DEADLINE * 500))


class Client:
    """
    One connection, with a buffer of received bytes that no call has taken: over TCP, or to a unix
    socket if the address is a path ("@" abstract); with TLS if there is a context for it.
    """

    def __init__(self, address, deadline=None, rcvbuf=None, source=None, tls=None):
        self.deadline = DEADLINE if deadline is None else deadline
        is_unix = isinstance(address, str)
        if is_unix:
            family = socket.AF_UNIX
            address = "\0" + address[1:] if address.startswith("@") else address
        else:
            family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        if rcvbuf is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.sock.settimeout(self.deadline)
        if source is not None:
            self.sock.bind((source, 0))
        self.buffer = bytearray()
        self.at_end = False
        try:
            self.sock.connect(address)
            if not is_unix:
                self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls:
                self.sock = tls.wrap_socket(self.sock, server_hostname="localhost")
        except BaseException:
            self.sock.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def fileno(self):
        return self.sock.fileno()

    def send(self, data):
        """Sends all bytes, and reads nothing meanwhile."""
        self.sock.settimeout(self.deadline)
        try:
            self.sock.sendall(data)
        except socket.timeout:
            raise Timeout("the server took no more bytes") from None
        except OSError as e:
            if e.errno in (errno.EPIPE, errno.ECONNRESET) or isinstance(e, ssl.SSLError):
                raise Closed("the server had closed: %s" % e) from None
            raise

    def send_reading(self, data):
        """Sends all bytes, and reads answers into the buffer meanwhile (for long pipelines)."""
        view, until = memoryview(data), time.monotonic() + self.deadline
        self.sock.setblocking(False)
        while view:
            left = until - time.monotonic()
            readable, writable, _ = select.select([self.sock], [self.sock], [], max(left, 0))
            if not readable and not writable:
                raise Timeout("the server neither reads nor writes")
            if readable:
                self._fill_once()
                if self.at_end:
                    raise Closed("the server closed amid a pipeline")
            if writable:
                try:
                    view = view[self.sock.send(view) :]
                except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    pass
            until = time.monotonic() + self.deadline

    def _fill_once(self):
        try:
            data = self.sock.recv(262144)
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        except ssl.SSLError:
            data = b""  # an alert, or an end without close_notify
        except OSError as e:
            if e.errno not in (errno.ECONNRESET, errno.EPIPE):
                raise
            data = b""
        if data:
            self.buffer += data
        else:
            self.at_end = True

    def fill(self, seconds=None):
        """Waits up to `seconds` for more bytes or the end. Returns False if neither arrives."""
        if self.at_end:
            return True
        wait = self.deadline if seconds is None else seconds
        if not is_ready(self.sock, wait):
            return False
        self.sock.setblocking(False)
        self._fill_once()
        return True

    def take(self, count):
        """Returns the next `count` bytes."""
        until = time.monotonic() + self.deadline
        while len(self.buffer) < count:
            if self.at_end:
                raise Closed("closed after %r" % bytes(self.buffer[:200]))
            if not self.fill(max(until - time.monotonic(), 0)):
                raise Timeout("%d bytes awaited, got %r" % (count, bytes(self.buffer[:200])))
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        return data

    def is_silent(self):
        """True if nothing has arrived so far, neither bytes nor the end."""
        self.fill(0)
        return not self.buffer and not self.at_end

    def take_line(self, ending):
        """Returns the next line, without its end."""
        until = time.monotonic() + self.deadline
        while ending not in self.buffer:
            if self.at_end:
                raise Closed("closed after %r" % bytes(self.buffer[:200]))
            if not self.fill(max(until - time.monotonic(), 0)):
                raise Timeout("a line awaited, got %r" % bytes(self.buffer[:200]))
        end = self.buffer.index(ending)
        line = bytes(self.buffer[:end]).decode("latin-1")
        del self.buffer[: end + len(ending)]
        return line

    def wait_closed(self):
        """
        Waits until the server closes the connection. Returns the bytes that arrived before that.
        """
        until = time.monotonic() + self.deadline
        while not self.at_end:
            if not self.fill(max(until - time.monotonic(), 0)):
                raise Timeout("still open; got %r" % bytes(self.buffer[:200]))
        data = bytes(self.buffer)
        self.buffer.clear()
        return data

    def eof(self):
        """Shuts down the sending side."""
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError as e:
            if e.errno == errno.ENOTCONN:
                raise Closed("the server had closed: %s" % e) from None
            raise

    def reset(self):
        """Closes with RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self):
        self.sock.close()


class TextClient(Client):
    """A client of the PoolCounter protocol."""

    def line(self):
        """Returns the next answer line, without its line end."""
        return self.take_line(b"\n")

    def say(self, line):
        self.send(line.encode("latin-1") + b"\n")

    def ask(self, line):
        self.say(line)
        return self.line()

    def stat(self, name):
        """Returns a count from STATS <name>."""
        answer = self.ask("STATS " + name)
        label, _, value = answer.partition(": ")
        assert label == name, answer
        return int(value)

    def stats(self):
        """Returns STATS FULL as a dictionary of strings."""
        self.say("STATS FULL")
        found = {}
        while True:
            line = self.line()
            if line == "":
                return found
            label, _, value = line.partition(": ")
            found[label] = value


class JobClient(Client):
    """A client of the job queues."""

    def line(self):
        """Returns the next answer line, without its line end."""
        return self.take_line(b"\r\n")

    def body(self, length):
        data = self.take(length + 2)
        if data[-2:] != b"\r\n":
            raise Malformed("a body ends with %r" % data[-2:])
        return data[:-2]

    def say(self, line):
        self.send(line.encode("latin-1") + b"\r\n")

    def ask(self, line):
        """Sends a line. Returns the line of the answer."""
        self.say(line)
        return self.line()

    def put(self, body, pri=0, delay=0, ttr=60, into=None):
        """Returns the id, or the answer if it is no id."""
        verb = "put" if into is None else "put-into %s" % into
        self.send_reading(b"%s %d %d %d %d\r\n%s\r\n" % (
            verb.encode(), pri, delay, ttr, len(body), body))  # fmt: skip
        line = self.line()
        return int(line[9:]) if line.startswith("INSERTED ") else line

    def job(self):
        """The next answer with a body: a pair of its line and the body."""
        line = self.line()
        words = line.split()
        at = {"RESERVED": 2, "FOUND": 2, "OK": 1}.get(words[0])
        return line, None if at is None else self.body(int(words[at]))

    def fetch(self, line):
        """Sends a line. Returns the answer as `job` does."""
        self.say(line)
        return self.job()

    def stats(self, line="stats"):
        """Asks for a dictionary of strings."""
        head, text = self.fetch(line)
        if text is None or not text.startswith(b"---\n"):
            raise Malformed("no dictionary: %r" % head)
        return dict(row.split(": ", 1) for row in text.decode("latin-1").splitlines()[1:])


class BinaryClient(Client):
    """A client of the counter protocol. Counts up its opaques, and checks them."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.next_opaque = 1

    def opaque(self):
        value = struct.pack(">I", self.next_opaque & 0xFFFFFFFF)
        self.next_opaque += 1
        return value

    def reply(self):
        magic, opcode, status, reserved, length, opaque = HEADER.unpack(self.take(HEADER.size))
        if magic != MAGIC_REPLY or reserved != 0:
            raise Malformed("magic %#x, reserved %#x" % (magic, reserved))
        return Reply(opcode, status, opaque, self.take(length))

    def ask(self, opcode, body=b"", **fields):
        opaque = self.opaque()
        self.send(binary_request(opcode, body, opaque, **fields))
        reply = self.reply()
        assert (reply.opcode, reply.opaque) == (opcode, opaque), reply
        if reply.status in STATUS_TEXT:
            assert reply.body == STATUS_TEXT[reply.status], reply
        return reply

    def get(self, name):
        """Returns the consumption of `name`; None if there is no such counter."""
        reply = self.ask(GET, get_body(name))
        if reply.status == NOT_FOUND:
            return None
        assert reply.status == OK, reply
        return parse_number(reply)

    def acquire(self, units, maximum, name):
        """Returns the status. On success the answer must have the units asked for."""
        reply = self.ask(ACQUIRE, acquire_body(units, maximum, name))
        if reply.status == OK:
            assert parse_number(reply) == units, reply
        return reply.status

    def release(self, units, name):
        reply = self.ask(RELEASE, release_body(units, name))
        if reply.status == OK:
            assert reply.body == b"", reply
        return reply.status

    def stats(self):
        reply = self.ask(STATS)
        assert reply.status == OK, reply
        return parse_stats(reply)

    def dump(self):
        """Returns every counter: a list of (name, consumption, peak)."""
        opaque, found = self.opaque(), []
        self.send(binary_request(DUMP, opaque=opaque))
        while True:
            reply = self.reply()
            assert (reply.opcode, reply.status, reply.opaque) == (DUMP, OK, opaque), reply
            entry = parse_dump(reply)
            if entry is None:
                return found
            found.append(entry)


def poll(condition, what, deadline=None):
    """Calls `condition` repeatedly until it is true; fails with `what` at the deadline."""
    until = time.monotonic() + (DEADLINE if deadline is None else deadline)
    pause = 0.001
    while True:
        value = condition()
        if value:
            return value
        before = time.monotonic()
        if before > until:
            raise Timeout("not within the deadline: " + what)
        time.sleep(pause)
        now = time.monotonic()
        if now - before > pause + STOOD_STILL:
            until = max(until, now + DEADLINE / 2)
        pause = min(pause * 1.5, 0.05)
