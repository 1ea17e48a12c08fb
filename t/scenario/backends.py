"""
What stories are played on. FakeBackend drives the program `fakenet`, which runs the daemon's services, engine and
connections on a fake network with a clock that moves only on command. SocketBackend talks to a running server.
"""

import fcntl
import os
import select
import socket
import subprocess
import sys
import tempfile
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import servers  # noqa: E402
import wire  # noqa: E402
from story import BadScript, Failed  # noqa: E402

PATIENCE = 600  # seconds for an answer of fakenet, which waits for nothing


class Connection:
    """The state of one connection: received bytes, and expected binary answers."""

    def __init__(self, name, kind):
        self.name = name
        self.kind = kind
        self.buffer = bytearray()
        self.over = ""  # the transport that a story asks for
        self.closed = None  # None while open, else the reason ("" where the backend knows none)
        self.ended = False  # the script ended it
        self.due = []  # (opcode, opaque) of binary requests not yet answered
        self.opaque = 0
        self.held_back = b""  # bytes put aside with `|`
        self.sent_at = 0  # clock at the last send
        self.since_fault = bytearray()  # all received bytes since the server had trouble


class Died(Failed):
    """The server is gone, or has left something behind."""


class FakeBackend:
    """
    The program `fakenet`, in lock-step over its standard input and output. It plays one story after
    another: `start` begins one, and `finish` ends it.
    """

    server = "fake"
    is_real = False

    def __init__(self, program):
        self.program = [program] if isinstance(program, str) else list(program)
        self.child = None

    def start(self, settings):
        if self.child is None:
            self.errors = tempfile.TemporaryFile()
            self.child = subprocess.Popen(
                self.program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors
            )
            self.pending = b""
        self.connections = {}
        self.now = 0
        self.journal = []  # (connection, piece) in the order of arrival
        self.counts = []  # output of the last command `counts`
        self.info = {}  # numbers of allocations and calls
        self.faults = []  # what went wrong by order of `start`
        self.command("start", *("%s=%s" % pair for pair in settings.items()))

    def _line(self):
        until = time.monotonic() + PATIENCE
        fd = self.child.stdout.fileno()
        while b"\n" not in self.pending:
            left = until - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                raise Died("fakenet does not answer")
            data = os.read(fd, 1 << 20)
            if not data:
                raise Died("fakenet ended (%s):\n%s" % (self.child.wait(), self.said()))
            self.pending += data
        line, _, self.pending = self.pending.partition(b"\n")
        return line.decode("latin-1")

    def said(self):
        """The end of what it has written to standard error."""
        self.errors.seek(0)
        return self.errors.read().decode("utf-8", "replace")[-6000:]

    def command(self, *words):
        try:
            self.child.stdin.write((" ".join(words) + "\n").encode("ascii"))
            self.child.stdin.flush()
        except BrokenPipeError:
            pass  # its output explains the end
        while True:
            line = self._line()
            verb, _, rest = line.partition(" ")
            if verb == "ok":
                return
            if verb == "error":
                raise Died("fakenet: %s: %s" % (" ".join(words)[:80], rest))
            name, _, value = rest.partition(" ")
            conn = self.connections.get(name)
            if verb == "recv" and conn:
                data = bytes.fromhex(value)
                conn.buffer += data
                if self.faults:
                    conn.since_fault += data
                self.journal.append((conn, len(data)))
            elif verb == "closed" and conn:
                conn.closed = value
            elif verb == "count":
                self.counts.append(rest)
            elif verb == "info":
                self.info[name] = int(value)
            elif verb in ("refused", "broke"):
                self.faults.append(line)
            else:
                raise Died("fakenet says what nobody asked: %s" % line[:200])

    def open(self, conn, source):
        self.connections[conn.name] = conn
        over = ["2"] if conn.over.startswith("tls") else []
        self.command("open", conn.name, conn.kind, *([source or "127.0.0.1"] if source or over else []), *over)
        if conn.over == "tls":
            self.command("send", conn.name, "0000")  # its handshake

    def send(self, conn, data):
        # In pieces, because a line may have any length.
        for at in range(0, len(data), 1 << 20):
            self.command("send", conn.name, data[at : at + (1 << 20)].hex())

    def part(self, conn, data):
        self.command("part", conn.name, data.hex())

    def end(self, conn, how):
        self.command("reset" if how == "reset" else "eof", conn.name)

    def window(self, name, size):
        self.command("window", name, size)

    def stubborn(self, conn):
        self.command("stubborn", conn.name)

    def advance(self, nanoseconds):
        self.now += nanoseconds
        self.command("advance", str(nanoseconds))

    def jump(self, nanoseconds):
        self.command("jump", str(nanoseconds))

    def unix(self, seconds):
        self.command("unix", seconds)

    def drain(self, on):
        self.command("drain", on)

    def hold(self, on):
        self.command("hold", "on" if on else "off")

    def counted(self, protocol):
        self.counts = []
        self.command("counts", protocol)
        return self.counts

    def more(self, conn):
        """Returns whether more has arrived. The fake has already passed on everything."""
        return False

    def await_idle(self):
        pass

    def finish(self):
        """Has all clients leave. Nothing may be left of them."""
        self.command("finish")

    def close(self):
        """Ends the program. It must exit with 0 and have no report of a sanitizer."""
        if self.child is None:
            return
        try:
            self.child.stdin.close()
            status = self.child.wait(wire.DEADLINE)
            error = self.said()
        finally:
            self.kill()
        if status != 0 or "Sanitizer" in error or "runtime error" in error:
            raise Died("fakenet ended with %s:\n%s" % (status, error))

    def kill(self):
        if self.child is None:
            return
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()
        for stream in (self.child.stdin, self.child.stdout, self.errors):
            try:
                stream.close()
            except OSError:
                pass
        self.child = None


class SocketBackend:
    """A running server. `process` has its addresses, and its pid shows when it is idle."""

    is_real = True
    transport = ""  # or `unix`, `tls`
    tls = None  # the context of clients

    def __init__(self, process):
        self.process = process
        self.server = process.name
        self.clients = {}

    @property
    def now(self):
        return time.monotonic_ns()

    def open(self, conn, source):
        transport = conn.over or self.transport
        address = getattr(self.process, "_".join(filter(None, (conn.kind, transport))), None)
        if address is None:
            raise BadScript("%s does not speak %s %s" % (self.server, conn.kind, transport))
        tls = self.tls if transport == "tls" else None
        try:
            self.clients[conn.name] = wire.Client(address, source=source, tls=tls)
        except OSError:
            conn.closed = ""  # refused, or the handshake failed
        self.await_idle()

    def send(self, conn, data):
        if conn.name not in self.clients:
            return
        try:
            self.clients[conn.name].send_reading(data)
        except wire.Closed:
            pass  # bytes sent before the close count
        except OSError:
            pass

    def end(self, conn, how):
        client = self.clients.get(conn.name)
        self._take(conn)
        if client is None:
            return
        if how == "eof":
            client.eof()
        elif how == "reset":
            client.reset()
        else:
            client.close()

    def _is_of_the_fake(self, *_):
        raise BadScript("only the fake can do that")

    window = jump = unix = drain = hold = _is_of_the_fake

    def stubborn(self, conn):
        pass  # always true for a connection of this player

    def advance(self, nanoseconds):
        time.sleep(nanoseconds / 1e9)  # the clock of a real server moves by itself

    def _take(self, conn):
        client = self.clients.get(conn.name)
        if client is None:
            return
        if client.sock.fileno() >= 0:
            while not client.at_end and client.fill(0):
                pass
        conn.buffer += client.buffer
        client.buffer.clear()
        if client.at_end and conn.closed is None:
            conn.closed = ""

    def more(self, conn):
        """Waits for more bytes or the end. Returns False if neither comes before the deadline."""
        client = self.clients.get(conn.name)
        if client is None:
            return False
        had, was_closed = len(conn.buffer), conn.closed
        self._take(conn)
        if len(conn.buffer) > had or conn.closed != was_closed:
            return True
        if conn.closed is not None or client.sock.fileno() < 0:
            return False
        if not client.fill():
            return False
        self._take(conn)
        return True

    def await_idle(self):
        servers.await_idle(self.process, is_read=self._is_read)

    def _is_read(self):
        """True if the server has read all that was sent to its unix sockets."""
        unread = bytearray(4)
        for client in self.clients.values():
            if client.sock.family == socket.AF_UNIX and client.sock.fileno() >= 0:
                fcntl.ioctl(client.sock, termios.TIOCOUTQ, unread)
                if any(unread):
                    return False
        return True

    def look(self, conn):
        """Reads all bytes that have arrived."""
        self._take(conn)

    def finish(self):
        for client in self.clients.values():
            client.close()

    kill = finish
