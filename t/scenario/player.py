"""Plays the stories of *.scn files (README.md has the format) against one server or another.

A backend plays a story. FakeBackend drives the program `fakenet`, which runs the daemon's services,
engine and connections on a fake network with a clock that moves only on command. SocketBackend
talks to a running server over TCP. The stories do not know the backend.
"""

import os
import re
import select
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import servers  # noqa: E402
import wire  # noqa: E402

SERVERS = ("fake", "ours", "poolcounterd", "yrmcds", "beanstalkd")
DEFAULT_SERVERS = ("fake", "ours")
KINDS = ("text", "binary", "jobs")
MAX_EXPANDED = 1 << 24
PATIENCE = 600  # seconds for an answer of fakenet, which waits for nothing

# Every move of a pool's member: from and to, and each `why` that makes it.
MOVES = {
    "- free": "add join",
    "- dirty": "add",
    "- down": "add",
    "free taken": "take",
    "free checking": "check",
    "free dirty": "operator",
    "free down": "operator",
    "free stopping": "drop cull lifetime shrink",
    "free -": "drop leave lost",
    "taken taken": "late",
    "taken free": "return quit fail crash hold_max operator undone",
    "taken dirty": "return quit fail crash hold_max operator",
    "taken down": "fail crash hold_max operator",
    "taken stopping": "fail crash hold_max drop lifetime shrink",
    "taken -": "drop leave lost",
    "cleaning cleaning": "late",
    "cleaning free": "cleaned operator",
    "cleaning dirty": "clean_failed operator undone",
    "cleaning down": "clean_failed operator",
    "cleaning -": "drop",
    "checking checking": "late",
    "checking free": "checked fail crash hold_max operator undone",
    "checking dirty": "fail crash hold_max operator",
    "checking down": "fail crash hold_max operator",
    "checking stopping": "fail crash hold_max drop lifetime shrink",
    "checking -": "drop leave lost",
    "dirty cleaning": "clean",
    "dirty free": "rested operator",
    "dirty down": "operator",
    "dirty -": "drop",
    "down free": "operator",
    "down dirty": "operator",
    "down stopping": "drop",
    "down -": "drop leave lost",
    "stopping -": "leave lost stop_timeout drop",
    "- -": "add set drain drop",
}


# The keys of dictionaries of jobs, in order.
DICTIONARIES = {
    "stats-job": "id tube state pri age delay ttr time-left file reserves timeouts releases buries"
    " kicks",
    "stats-tube": "name current-jobs-urgent current-jobs-ready current-jobs-reserved"
    " current-jobs-delayed current-jobs-buried total-jobs current-using current-watching"
    " current-waiting cmd-delete cmd-pause-tube pause pause-time-left",
    "stats": "current-jobs-urgent current-jobs-ready current-jobs-reserved current-jobs-delayed"
    " current-jobs-buried cmd-put cmd-peek cmd-peek-ready cmd-peek-delayed cmd-peek-buried"
    " cmd-reserve cmd-reserve-with-timeout cmd-delete cmd-release cmd-use cmd-watch cmd-ignore"
    " cmd-bury cmd-kick cmd-touch cmd-stats cmd-stats-job cmd-stats-tube cmd-list-tubes"
    " cmd-list-tube-used cmd-list-tubes-watched cmd-pause-tube job-timeouts total-jobs"
    " max-job-size current-tubes current-connections current-producers current-workers"
    " current-waiting total-connections pid version rusage-utime rusage-stime uptime"
    " binlog-oldest-index binlog-current-index binlog-records-migrated binlog-records-written"
    " binlog-max-size draining id hostname os platform",
    "tube": "name order claim tries limit prune remember read-only current-jobs-ready"
    " current-jobs-delayed current-jobs-reserved current-jobs-buried current-jobs-abandoned"
    " oldest-ready-age total-puts total-duplicates total-claims total-dropped total-acks"
    " total-recycled total-abandoned",
}
STRINGS = ("tube", "name", "hostname", "os", "platform")
ALWAYS_QUOTED = {"stats": ("version",), "tube": ("name", "read-only")}
# What YAML takes for something else than a string, of what stories have: the name of the kernel's
# version begins with "#".
QUOTED = re.compile(r"#.*|[0-9.]+(e[0-9]+)?|true")


class BadScript(Exception):
    """A script has an error."""


class Failed(AssertionError):
    """The server's behaviour differs from the story."""


# --- reading scripts ---------------------------------------------------------------------------


class Step:
    """One line of a story. `tags` has the differences between servers."""

    TAG = re.compile(r"\s+\[(only )?(%s)(?:: ([^\]]*))?\]$" % "|".join(SERVERS))

    def __init__(self, path, number, line):
        self.where = "%s:%d" % (os.path.basename(path), number)
        self.tags = {}
        self.only = set()
        while True:
            found = self.TAG.search(line)
            if not found:
                break
            if found.group(1):
                self.only.add(found.group(2))
            else:
                self.tags[found.group(2)] = (found.group(3) or "").strip()
            line = line[: found.start()]
        self.line = line.rstrip()

    def for_server(self, server):
        """Returns the line for `server`; None if that server skips it."""
        if self.only and server not in self.only:
            return None
        tag = self.tags.get(server)
        if tag is None:
            return self.line
        if tag == "skip":
            return None
        if tag == "stop":
            return "stop"
        words = self.line.split(None, 2)
        if len(words) < 2 or words[1] != "<":
            raise BadScript("%s: only an answer can differ: %s" % (self.where, self.line))
        if tag in ("quiet", "closed"):
            return "%s %s" % (words[0], tag)
        return "%s < %s" % (words[0], tag)


class Story:
    def __init__(self, path, title, headers, rows=()):
        self.path = path
        self.title = title
        self.rows = list(rows)  # ids of the rows that it shows
        self.steps = []
        self.servers = DEFAULT_SERVERS
        self.settings = {}
        self.cannot = set()  # modes that it cannot bear
        self.broken = None  # why it fails as yet
        for key, value in headers:
            self.header(key, value)

    def header(self, key, value):
        if key == "servers":
            self.servers = tuple(value.split())
            unknown = set(self.servers) - set(SERVERS)
            if unknown:
                raise BadScript("%s: unknown servers: %s" % (self.path, " ".join(unknown)))
        elif key == "broken":
            self.broken = value
        elif key == "cannot":
            self.cannot |= set(value.partition(" because ")[0].split())
        else:
            self.settings = dict(pair.split("=", 1) for pair in value.split())

    @property
    def file(self):
        return os.path.splitext(os.path.basename(self.path))[0]

    @property
    def name(self):
        return "%s: %s" % (self.file, self.title)


def read_stories(path):
    """All stories of one file, in its order."""
    stories, headers, rows = [], [], []
    with open(path, encoding="ascii") as f:
        for number, raw in enumerate(f, 1):
            line = raw.strip()
            found = re.match(r"#\s*(servers|settings|cannot|broken):\s*(.*)$", line)
            if found:
                if stories:
                    stories[-1].header(*found.groups())
                else:
                    headers.append(found.groups())
            elif re.match(r"#\s*row ", line):
                rows += re.match(r"#\s*row ([^:]*)", line).group(1).split()
            elif line.startswith("story "):
                stories.append(Story(path, line[len("story ") :].strip(), headers, rows))
                rows = []
            elif line and not line.startswith("#"):
                if not stories:
                    raise BadScript("%s:%d: a line before the first story" % (path, number))
                stories[-1].steps.append(Step(path, number, raw.rstrip("\n").strip()))
    titles = [story.title for story in stories]
    if len(set(titles)) != len(titles):
        raise BadScript("%s: two stories of one title" % path)
    return stories


def read_folder(folder):
    stories = []
    for file in sorted(os.listdir(folder)):
        if file.endswith(".scn"):
            stories += read_stories(os.path.join(folder, file))
    return stories


_ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})|\\(.)|\{((?:[^{}*\\]|\\.)+)\*(\d+)\}", re.S)
_LETTERS = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"s": b" ", b"0": b"\0"}


def decode(text):
    r"""Bytes of a script's text: \xNN, \n \r \t \0, \s for a space, {ab*3} for ababab."""

    def replace(found):
        if found.group(1):
            return bytes([int(found.group(1), 16)])
        if found.group(2):
            return _LETTERS.get(found.group(2), found.group(2))
        count = int(found.group(4))
        unit = _ESCAPE.sub(replace, found.group(3))
        if len(unit) * count > MAX_EXPANDED:
            raise BadScript("too long: %s" % text)
        return unit * count

    return _ESCAPE.sub(replace, text.encode("latin-1"))


_VARIABLE = re.compile(r"(\\.)|\$(\w+)")


def substitute(text, known):
    """Puts known values in the place of `$name`; `\\$` is a dollar sign."""

    def replace(found):
        if found.group(1):
            return found.group(1)
        if found.group(2) not in known:
            raise BadScript("no answer had a value for $%s" % found.group(2))
        return known[found.group(2)]

    return _VARIABLE.sub(replace, text)


def line_pattern(text, known):
    """A regular expression for a line in which names without a value yet get one."""
    if text.startswith("~"):
        return text[1:].strip().encode("latin-1")
    text, any_more = re.subn(r" \.\.\.$", "", text)
    pattern, at, new = b"", 0, set()
    for found in _VARIABLE.finditer(text):
        name = found.group(2)
        if not name:
            continue
        pattern += re.escape(decode(text[at : found.start()]))
        at = found.end()
        if name == "_":
            pattern += rb"\S+"
        elif name in known:
            pattern += re.escape(known[name].encode("latin-1"))
        elif name in new:
            pattern += b"(?P=%s)" % name.encode()
        else:
            pattern += rb"(?P<%s>[^\s@]+)" % name.encode()
            new.add(name)
    pattern += re.escape(decode(text[at:]))
    return pattern + (b"(?: .*)?" if any_more else b"")


def parse_duration(text):
    """Nanoseconds of 5s, 20ms, 3us, 999ns, 2m, 1h."""
    found = re.fullmatch(r"(\d+)(ns|us|ms|s|m|h)", text)
    if not found:
        raise BadScript("no duration: %s" % text)
    unit = {
        "ns": 1,
        "us": 10**3,
        "ms": 10**6,
        "s": 10**9,
        "m": 60 * 10**9,
        "h": 3600 * 10**9,
    }
    return int(found.group(1)) * unit[found.group(2)]


# --- backends ----------------------------------------------------------------------------------


class Connection:
    """The state of one connection: received bytes, and expected binary answers."""

    def __init__(self, name, kind):
        self.name = name
        self.kind = kind
        self.buffer = bytearray()
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
        self.command("open", conn.name, conn.kind, *([source] if source else []))

    def send(self, conn, data):
        # In pieces, because a line may have any length.
        for at in range(0, len(data), 1 << 20):
            self.command("send", conn.name, data[at : at + (1 << 20)].hex())

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

    def __init__(self, process):
        self.process = process
        self.server = process.name
        self.clients = {}
        self.journal = None

    @property
    def now(self):
        return time.monotonic_ns()

    def open(self, conn, source):
        address = getattr(self.process, conn.kind, None)
        if address is None:
            raise BadScript("%s does not speak %s" % (self.server, conn.kind))
        self.clients[conn.name] = wire.Client(address, source=source)
        self.await_idle()

    def send(self, conn, data):
        try:
            self.clients[conn.name].send_reading(data)
        except wire.Closed:
            pass  # bytes sent before the close count
        except OSError:
            pass

    def end(self, conn, how):
        client = self.clients[conn.name]
        self._take(conn)
        if how == "eof":
            client.eof()
        elif how == "reset":
            client.reset()
        else:
            client.close()

    def window(self, name, size):
        raise BadScript("a window can only be had on the fake")

    def stubborn(self, conn):
        pass  # always true for a connection of this player

    def jump(self, nanoseconds):
        raise BadScript("the clock can only jump on the fake")

    def unix(self, seconds):
        raise BadScript("unix time can only be set on the fake")

    def drain(self, on):
        raise BadScript("a drain can only be switched on the fake")

    def hold(self, on):
        raise BadScript("only the fake can do nothing for a while")

    def advance(self, nanoseconds):
        time.sleep(nanoseconds / 1e9)  # the clock of a real server moves by itself

    def _take(self, conn):
        client = self.clients[conn.name]
        if client.sock.fileno() >= 0:
            while not client.at_end and client.fill(0):
                pass
        conn.buffer += client.buffer
        client.buffer.clear()
        if client.at_end and conn.closed is None:
            conn.closed = ""

    def more(self, conn):
        """Waits for more bytes or the end. Returns False if neither comes before the deadline."""
        client = self.clients[conn.name]
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
        servers.await_idle(self.process)

    def look(self, conn):
        """Reads all bytes that have arrived."""
        self._take(conn)

    def finish(self):
        for client in self.clients.values():
            client.close()

    kill = finish


# --- the player --------------------------------------------------------------------------------


class Player:
    """
    Plays one story on one backend, in a mode (modes.py). Once trouble of the mode explains why an
    answer differs, the clients go on as the story says, and their answers are not looked at.
    """

    def __init__(self, story, backend, mode=None):
        self.story = story
        self.backend = backend
        self.mode = mode
        self.connections = {}
        self.known = {}  # values of the story's variables
        self.lost = False  # answers may differ from now on

    def play(self):
        server = self.backend.server
        step = None
        try:
            for number, step in enumerate(self.story.steps):
                line = step.for_server(server)
                if line is None:
                    continue
                if line == "stop":
                    return
                if self.mode:
                    self.mode.before(self.backend, number)
                self.attempt(self.act if self.lost else self.step, line)
            step = None
            if not self.lost:
                self.attempt(self.check_nothing_left)
        except (AssertionError, BadScript, OSError) as e:
            if step is None:
                raise Failed("%s [%s] at its end: %s" % (self.story.path, server, e)) from e
            text = "%s [%s] %s\n  %s" % (step.where, server, step.line[:200], e)
            raise Failed(text) from e

    def attempt(self, action, *arguments):
        try:
            action(*arguments)
        except Died:
            raise
        except Failed:
            if not (self.mode and self.mode.explains(self.backend)):
                raise
            self.lost = True

    def act(self, line):
        """Does what clients do in a step, and lets time pass; looks at no answer."""
        found = re.search(r" < .* after (\S+)$", line)
        words = line.split() + [""]
        try:
            if found:
                self.backend.advance(parse_duration(found.group(1)))
            elif words[1] == "each":
                for text in line.partition(": ")[2].split("; "):
                    self.send(self.conn(words[0]), self.request(self.conn(words[0]), text.strip()))
            elif words[1] == "tell":
                text = line.split(None, 2)[2].partition(": ")[0]
                self.send(self.conn(words[0]), self.request(self.conn(words[0]), text))
            elif words[1] in (">", ">>", "|", "split", "window") or (
                words[0] in KINDS + ("hold", "go", "drain", "advance", "jump", "unix")
                or words[-2] in ("close", "eof", "reset", "stubborn")
            ):
                self.step(line)
        except BadScript:
            pass  # it needs a value from an answer that did not come

    def check_nothing_left(self):
        self.backend.await_idle()
        for conn in self.connections.values():
            if conn.ended:
                continue
            self.look(conn)
            if conn.buffer:
                raise Failed("%s has an answer more: %s" % (conn.name, show(conn.buffer)))

    def look(self, conn):
        if self.backend.is_real:
            self.backend.look(conn)

    def conn(self, name):
        if name not in self.connections:
            raise BadScript("no connection is named %s" % name)
        return self.connections[name]

    def step(self, line):
        words = line.split()
        if words[0] in KINDS:
            names, _, source = line.partition(" from ")
            for name in names.split()[1:]:
                self.open(name, words[0], source.strip() or None)
        elif len(words) > 2 and words[1] in (">", "!=") and re.match(r"[$\d]", words[0]):
            self.compare(words)
        elif words[0] in ("hold", "go"):
            self.backend.hold(words[0] == "hold")
        elif words[0] == "drain":
            self.backend.drain(words[1])
        elif words[0] == "advance":
            self.backend.advance(parse_duration(words[1]))
        elif words[0] == "jump":
            self.backend.jump(parse_duration(words[1]))
        elif words[0] == "unix":
            self.backend.unix(words[1])
        elif words[0] == "counted":
            self.counted(words[1].rstrip(":"), line.partition(":")[2])
        elif words[0] == "in" and words[1] == "order:":
            self.in_order(line.split(":", 1)[1])
        elif words[0] == "any" and words[1] == "order:":
            self.any_order(line.split(":", 1)[1])
        elif (
            words[-1] in ("quiet", "close", "eof", "reset", "closed", "stubborn")
            and len(words) >= 2
        ):
            for name in words[:-1]:
                getattr(self, "do_" + words[-1])(self.conn(name))
        elif len(words) >= 2:
            self.connection_step(words, line)
        else:
            raise BadScript("what is this?")

    def connection_step(self, words, line):
        conn, verb = self.conn(words[0]), words[1]
        rest = line.split(None, 2)[2] if len(words) > 2 else ""
        if verb == ">":
            self.send(conn, self.request(conn, rest))
        elif verb == ">>":
            self.send(conn, decode(substitute(rest, self.known)))
        elif verb == "each":
            answer, _, lines = rest.partition(": ")
            for text in lines.split("; "):
                self.send(conn, self.request(conn, text.strip()))
                self.expect(conn, answer)
        elif verb == "|":
            conn.held_back += self.request(conn, rest)
        elif verb == "split":
            size, _, rest = rest.partition(" > ")
            data = self.request(conn, rest.strip())
            for at in range(0, len(data), int(size)):
                self.send(conn, data[at : at + int(size)])
        elif verb == "<":
            self.expect(conn, rest)
        elif verb == "tell":
            self.tell(conn, rest)
        elif verb == "closed":
            self.do_closed(conn, rest)
        elif verb == "window":
            self.backend.window(conn.name, rest)
        elif verb == "swallow":
            self.swallow(conn, rest)
        elif verb == "until":
            self.until(conn, rest)
        else:
            raise BadScript("unknown verb %s" % verb)

    def counted(self, protocol, text):
        """Compares all counters of a protocol, in any order."""
        expected = sorted(" ".join(part.split()) for part in text.split(",") if part.strip())
        told = sorted(self.backend.counted(protocol))
        if told != expected:
            raise Failed("counted %s" % ", ".join(told))

    # actions of the client

    def open(self, name, kind, source):
        if name in self.connections:
            raise BadScript("two connections of the name %s" % name)
        conn = self.connections[name] = Connection(name, kind)
        self.backend.open(conn, source)

    def send(self, conn, data):
        data, conn.held_back = conn.held_back + data, b""
        conn.sent_at = self.backend.now
        self.backend.send(conn, data)
        self.backend.await_idle()

    def request(self, conn, text):
        if conn.kind == "text":
            return decode(substitute(text, self.known)) + b"\n"
        if conn.kind == "jobs":
            return self.job_request(text)
        return self.binary_request(conn, text)

    def job_request(self, text):
        """
        `put 0 0 60 * || body || stats`: lines and bodies, each with its line end; a `*` is the
        length of the body behind it.
        """
        parts = [decode(part) for part in substitute(text, self.known).split(" || ")]
        for number, body in enumerate(parts[1:]):
            length = b"%d" % len(body)
            parts[number] = b" ".join(
                length if word == b"*" else word for word in parts[number].split(b" ")
            )
        return b"".join(part + b"\r\n" for part in parts)

    def binary_request(self, conn, text):
        words, fields = [], {}
        for word in text.split():
            key, sign, value = word.partition("=")
            if sign and key in ("flags", "reserved", "body", "tail", "namelen", "bodylen"):
                fields[key] = value
            else:
                words.append(word)
        verb, args = words[0], words[1:]
        if verb == "raw":
            return bytes.fromhex("".join(args))
        name_len = int(fields["namelen"]) if "namelen" in fields else None
        name = decode(args[-1]) if args and verb in ("get", "acquire", "release") else b""
        if "body" in fields:
            body = bytes.fromhex(fields["body"])
        elif verb == "get":
            body = wire.get_body(name, name_len)
        elif verb == "release":
            body = wire.release_body(int(args[0], 0), name, name_len)
        elif verb == "acquire":
            body = wire.acquire_body(int(args[0], 0), int(args[1], 0), name, name_len)
        else:
            body = b""
        opcode = int(args[0], 0) if verb == "opcode" else wire.OPCODES[verb]
        body += bytes.fromhex(fields.get("tail", ""))
        conn.opaque += 1
        opaque = struct.pack(">HH", 0xBEEF, conn.opaque & 0xFFFF)
        conn.due.append((opcode, opaque))
        return wire.binary_request(
            opcode,
            body,
            opaque,
            flags=int(fields.get("flags", "0"), 0),
            reserved=int(fields.get("reserved", "0"), 0),
            body_len=int(fields["bodylen"], 0) if "bodylen" in fields else None,
        )

    def do_eof(self, conn):
        self.end(conn, "eof")

    def do_reset(self, conn):
        self.end(conn, "reset")

    def do_close(self, conn):
        self.end(conn, "close")

    def end(self, conn, how):
        conn.ended = how != "eof"
        self.backend.end(conn, how)
        self.backend.await_idle()

    def do_stubborn(self, conn):
        self.backend.stubborn(conn)

    # actions of the server

    def do_quiet(self, conn):
        self.backend.await_idle()
        self.look(conn)
        if conn.buffer:
            raise Failed("an answer came: %s" % show(conn.buffer))
        if conn.closed is not None:
            raise Failed("it was closed (%s)" % conn.closed)

    def do_closed(self, conn, reason=""):
        while conn.closed is None:
            if not self.backend.more(conn):
                raise Failed("still open")
        if conn.buffer:
            raise Failed("before it was closed there came %s" % show(conn.buffer))
        if reason and not self.backend.is_real and conn.closed != reason:
            raise Failed("closed for the reason %r" % conn.closed)

    def swallow(self, conn, rest):
        """Reads all complete answers so far, and ignores them."""
        self.backend.await_idle()
        self.look(conn)
        conn.buffer.clear()
        conn.due.clear()

    def expect(self, conn, text):
        found = re.search(r"\s+after (\S+)$", text)
        if found:
            text = text[: found.start()]
            delay = parse_duration(found.group(1))
            self.wait_until(conn, delay)
        if conn.kind != "binary":
            self.expect_line(conn, text)
        else:
            self.expect_binary(conn, text)
        if found and self.backend.is_real and self.backend.server == "ours":
            passed = self.backend.now - conn.sent_at
            if passed < delay:
                raise Failed("it came %.6f s early" % ((delay - passed) / 1e9))

    def wait_until(self, conn, delay):
        """
        On the fake, nothing may arrive a nanosecond earlier. A real server's time passes by itself.
        """
        if self.backend.is_real:
            return
        ahead = conn.sent_at + delay - self.backend.now
        if ahead < 1:
            raise BadScript("that moment is over")
        self.backend.advance(ahead - 1)
        self.do_quiet(conn)
        self.backend.advance(1)

    def take_bytes(self, conn, count):
        while len(conn.buffer) < count:
            if not self.backend.more(conn):
                raise Failed("%d bytes of %d%s" % (len(conn.buffer), count, self.state(conn)))
        data = bytes(conn.buffer[:count])
        del conn.buffer[:count]
        return data

    HAS_BODY = re.compile(rb"(?:OK|(?:RESERVED|FOUND) \d+) (\d+)(?: .*)?")

    def take_line(self, conn):
        """The next answer's line. An answer of jobs has its body behind ` || `."""
        line = self.take_one_line(conn)
        if conn.kind != "jobs":
            self.check_move(line)
            return line
        if not line.endswith(b"\r"):
            raise Failed("no line of jobs ends so: %s" % show(line))
        line = line[:-1]
        found = self.HAS_BODY.fullmatch(line)
        if found:
            body = self.take_bytes(conn, int(found.group(1)) + 2)
            if not body.endswith(b"\r\n"):
                raise Failed("%s: no body ends so: %s" % (show(line), show(body[-20:])))
            line += b" || " + body[:-2]
        return line

    def take_one_line(self, conn):
        while b"\n" not in conn.buffer:
            if not self.backend.more(conn):
                raise Failed("no answer%s" % self.state(conn))
            if conn.closed is not None and b"\n" not in conn.buffer:
                raise Failed("no answer%s" % self.state(conn))
        line, _, _ = bytes(conn.buffer).partition(b"\n")
        del conn.buffer[: len(line) + 1]
        return line

    @staticmethod
    def check_move(line):
        """Every EVENT that anybody reads must be a move that the state table has."""
        words = line.decode("latin-1").split(" ")
        if words[0] != "EVENT":
            return
        if len(words) < 6 or words[5] not in MOVES.get(" ".join(words[3:5]), "").split():
            raise Failed("no such move: %s" % show(line))

    @staticmethod
    def state(conn):
        text = "; it was closed (%s)" % conn.closed if conn.closed is not None else ""
        return text + ("; so far %s" % show(conn.buffer) if conn.buffer else "")

    def matches(self, line, text):
        """True if `line` is `text`, whose new variables then have their values."""
        if text == "(empty)":
            return line == b""
        found = re.fullmatch(line_pattern(text, self.known), line, re.S)
        if not found:
            return False
        for name, value in found.groupdict().items():
            if value is not None:
                self.known[name] = value.decode("latin-1")
        return True

    def expect_line(self, conn, text):
        line = self.take_line(conn)
        if conn.kind == "jobs":
            text = text.replace(" * || ", " $_ || ", 1)  # take_line has checked the length
        if not self.matches(line, text):
            raise Failed("got %s" % show(line))

    def tell(self, conn, rest):
        """
        `stats-job 1: state=ready age>3`: asks, and checks all keys of the dictionary and these
        values.
        """
        command, _, wanted = rest.partition(": ")
        self.send(conn, self.request(conn, command))
        line = self.take_line(conn)
        head, _, text = line.decode("latin-1").partition(" || ")
        if not head.startswith("OK ") or not text.startswith("---\n") or text[-1] != "\n":
            raise Failed("got %s" % show(line))
        pairs = [entry.partition(": ")[::2] for entry in text[4:-1].split("\n")]
        if " ".join(key for key, _ in pairs) != DICTIONARIES[command.split()[0]]:
            raise Failed("got the keys of %s" % text)
        found = {}
        for key, value in pairs:
            quoted = key in ALWAYS_QUOTED.get(command.split()[0], ())
            if key in STRINGS and self.backend.server != "beanstalkd":
                quoted = quoted or QUOTED.fullmatch(value.strip('"')) is not None
            if quoted != bool(re.fullmatch(r'"[^"]*"', value)):
                raise Failed("%s: %s" % (key, value))
            found[key] = value.strip('"')
        for word in wanted.split():
            key, sign, value = re.match(r"([\w-]+)([=<>])(.*)", word).groups()
            new = re.fullmatch(r"\$(\w+)", value)
            if sign == "=" and new and new.group(1) not in self.known:
                self.known[new.group(1)] = found[key]
                continue
            value = decode(substitute(value, self.known)).decode("latin-1")
            good = found[key] == value
            if sign != "=":
                good = int(found[key]) < int(value) if sign == "<" else int(found[key]) > int(value)
            if not good:
                raise Failed("got %s=%s for %s" % (key, found[key], word))

    def until(self, conn, text):
        """Reads lines until one is `text`."""
        while not self.matches(self.take_line(conn), text):
            pass

    def compare(self, words):
        """`$c > $b > $a` compares numbers, `$b != $a` texts."""
        values = [substitute(word, self.known) for word in words[::2]]
        for sign, one, other in zip(words[1::2], values, values[1:]):
            if sign == ">":
                good = int(one) > int(other)
            else:
                good = one != other
            if not good:
                raise Failed("%s %s %s" % (one, sign, other))

    def take_reply(self, conn):
        while True:
            if len(conn.buffer) >= 12:
                magic, opcode, status, reserved, length, opaque = wire.HEADER.unpack(
                    bytes(conn.buffer[:12])
                )
                if magic != wire.MAGIC_REPLY or reserved != 0:
                    raise Failed("no answer begins so: %s" % show(conn.buffer))
                if len(conn.buffer) >= 12 + length:
                    body = bytes(conn.buffer[12 : 12 + length])
                    del conn.buffer[: 12 + length]
                    return wire.Reply(opcode, status, opaque, body)
            if not self.backend.more(conn):
                raise Failed("no answer%s" % self.state(conn))

    def expect_binary(self, conn, text):
        words = text.split()
        verb = words.pop(0)
        opcode = int(words.pop(0), 0) if verb == "opcode" else wire.OPCODES.get(verb)
        opaque = None
        if words and words[-1].startswith("opaque="):
            opaque = bytes.fromhex(words.pop()[len("opaque=") :])
        if opcode is None:
            raise BadScript("unknown answer %s" % verb)
        if conn.due:
            due_opcode, due_opaque = conn.due.pop(0)
            if opaque is None:
                opaque = due_opaque
            if opcode != due_opcode and self.backend.server in ("fake", "ours"):
                raise BadScript("the answer due is of opcode %#x" % due_opcode)
        reply = self.take_reply(conn)
        if reply.opcode != opcode or (opaque is not None and reply.opaque != opaque):
            raise Failed("got %s, opaque %s awaited" % (show_reply(reply), opaque))
        result = words.pop(0) if words else "ok"
        if result == "error":
            self.expect_error(reply, int(words[0], 0))
        elif reply.status != wire.OK:
            raise Failed("got %s" % show_reply(reply))
        elif verb == "dump":
            self.expect_dump(conn, reply, ([] if result == "ok" else [result]) + words)
        elif verb == "stats":
            self.expect_stats(reply, ([] if result == "ok" else [result]) + words)
        elif words:
            if wire.parse_number(reply) != int(words[0], 0):
                raise Failed("got %s" % show_reply(reply))
        elif reply.body:
            raise Failed("got %s" % show_reply(reply))

    @staticmethod
    def expect_error(reply, status):
        if reply.status != status or reply.body != wire.STATUS_TEXT[status]:
            raise Failed("got %s" % show_reply(reply))

    def expect_dump(self, conn, reply, words):
        """`name=consumption/peak`, in any order, or `nothing`."""
        found, first = [], reply
        while True:
            entry = wire.parse_dump(reply)
            if entry is None:
                break
            found.append(entry)
            reply = self.take_reply(conn)
            if reply[:3] != first[:3]:
                raise Failed("amid a Dump: %s" % show_reply(reply))
        awaited = []
        for word in words:
            if word != "nothing":
                name, _, numbers = word.rpartition("=")
                consumption, _, peak = numbers.partition("/")
                awaited.append((decode(name), int(consumption), int(peak)))
        if sorted(found) != sorted(awaited):
            raise Failed("got %s" % show(repr(sorted(found)).encode()))

    @staticmethod
    def expect_stats(reply, words):
        """
        Checks some `name=value` or `name>value`. The published names must come first, in order.
        """
        pairs = wire.parse_stats(reply)
        names = [name for name, _ in pairs][: len(wire.STATS_NAMES)]
        if names != wire.STATS_NAMES:
            raise Failed("got the names %s" % names)
        for word in words:
            name, sign, value = re.fullmatch(r"([\w:]+)([=<>])(\d+)", word).groups()
            got = int(dict(pairs)[name])
            want = int(value)
            if not {"=": got == want, "<": got < want, ">": got > want}[sign]:
                raise Failed("got %s=%d" % (name, got))

    def in_order(self, text):
        """
        `a DONE; b LOCKED`: these answers, each the next of its connection, arrived in this order.
        """
        places = []
        for part in text.split(";"):
            name, _, answer = part.strip().partition(" ")
            conn = self.conn(name)
            if not self.backend.is_real and not (self.mode and self.mode.reorders):
                places.append((self.place_of_next(conn), part.strip()))
            self.expect(conn, answer.strip())
        if places != sorted(places, key=lambda place: place[0]):
            came = "; ".join(text for _, text in sorted(places, key=lambda place: place[0]))
            raise Failed("they came in the order %s" % came)

    def any_order(self, text):
        """`a OK; a WANT p 1`: these are the next answers; those of one connection in any order."""
        awaited = [part.strip().partition(" ")[::2] for part in text.split(";")]
        for name, _ in list(awaited):
            line = self.take_line(self.conn(name))
            for one in awaited:
                if one[0] == name and self.matches(line, one[1].strip()):
                    awaited.remove(one)
                    break
            else:
                raise Failed("%s got %s" % (name, show(line)))

    def place_of_next(self, conn):
        """The position in the journal of the first byte of `conn` that is not yet taken."""
        unread = len(conn.buffer)
        for at in range(len(self.backend.journal) - 1, -1, -1):
            owner, size = self.backend.journal[at]
            if owner is conn:
                unread -= size
                if unread <= 0:
                    # The rest of this piece may belong to an answer already taken; then this piece
                    # still counts.
                    return at
        raise Failed("no answer on %s" % conn.name)


def play(story, backend, mode=None):
    """Plays a story to its end. One that is broken must fail."""
    try:
        Player(story, backend, mode).play()
        backend.finish()
    except Failed:
        if not story.broken:
            raise
        backend.kill()
        return
    if story.broken:
        raise Failed("%s: it does not fail any more: take `# broken:` away" % story.name)


def show(data):
    text = bytes(data[:300]).decode("latin-1").encode("unicode_escape").decode("ascii")
    return text + ("... (%d bytes)" % len(data) if len(data) > 300 else "")


def show_reply(reply):
    return "opcode %#x, status %#x, opaque %s, body %s" % (
        reply.opcode,
        reply.status,
        reply.opaque.hex(),
        show(reply.body),
    )
