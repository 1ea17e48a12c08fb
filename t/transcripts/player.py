"""
Reads transcripts of counterctl and plays them. README.md has the language.

A Case is one transcript, or one row of its table. It has a folder, and actors by name: processes,
terminals, and connections to a server or from counterctl to a server that the transcript plays.
A thread for each stream puts its lines into a queue, so no step can block for ever.
"""

import codecs
import contextlib
import fcntl
import getpass
import http.server
import itertools
import json
import os
import pty
import queue
import re
import select
import shlex
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import threading
import time

import ctl
import redis_servers
import servers
import wire

HERE = os.path.dirname(os.path.abspath(__file__))
STEP = re.compile(r"([a-z]\w*)?(\$\$?|<[<=*]?|[>!?@])(?: (.*))?$", re.S)
WORDS = "daemon beanstalkd redis needs let until route asked size listen stop kill".split()
DEEDS = "accept agree signal eof close resize restored quiet said raw without whole selected".split()
DEED = re.compile(r"(?:([a-z]\w*) )?(%s)(?: (.*))?$" % "|".join(DEEDS), re.S)
WORD = re.compile(r"(%s)(?: (.*))?$" % "|".join(WORDS), re.S)
OPERATORS = {
    "<": "say",
    "<<": "say_raw",
    "<=": "say_made",
    "<*": "flood",
    ">": "hear",
    "!": "hear_error",
    "?": "finish",
}
ENVIRONMENT = ctl.environment()  # pytest changes it while transcripts play
NETS = itertools.count(1)  # addresses of this machine that only one case uses
PART = re.compile(r"(\.\.\.)|\{(\w*)=((?:[^{}]|\{\d+\})+)\}")
CANNOT = "# cannot: "
BAD = ("Sanitizer", "runtime error", "CHECK ")


class Wrong(AssertionError):
    """The transcript and what happened differ."""


class Skipped(Exception):
    """This machine lacks what the transcript needs."""


class Step:
    """One line of a transcript with its indented lines: an actor and what it does."""

    def __init__(self, number, text):
        self.number, self.text = number, text
        found = STEP.match(text)
        deed, word = DEED.match(text), WORD.match(text)
        if found:
            self.name, self.what, self.rest = found[1] or "", found[2], found[3] or ""
        elif deed:
            self.name, self.what, self.rest = deed[1] or "", deed[2], deed[3] or ""
        elif word:
            self.name, self.what, self.rest = "", word[1], word[2] or ""
        else:
            self.name, self.what, self.rest = "", ">", text


class Case:
    """A transcript: its file, its title, its steps."""

    def __init__(self, path, title, lines):
        self.file, self.title, self.mode = os.path.basename(path), title, ""
        self.cannot = {word for _, text in lines if text.startswith(CANNOT) for word in text.split()[2:]}
        self.steps = [Step(number, text) for number, text in lines if not text.startswith(CANNOT)]
        self.id = "%s: %s" % (self.file[:-4], title)


def folded(path):
    """Yields the number and the text of each line; indented lines belong to the one before."""
    number, held = 0, None
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            line = line.rstrip("\n")
            if line.startswith("    ") and held:
                held[1].append(line[4:])
                continue
            if held:
                yield held[0], "\n".join(held[1])
            held = (number, [line]) if line and (line.startswith(CANNOT) or not line.startswith("# ")) else None
    if held:
        yield held[0], "\n".join(held[1])


def read(path):
    """Returns the cases of a file."""
    head, parts, blocks = [], [], {}
    for number, text in folded(path):
        if text.startswith("== "):
            parts.append((text[3:], []))
        elif text.startswith("steps "):
            name, *lines = re.split(r"\n(?!    )", text)
            blocks[name[6:]] = [line.replace("\n    ", "\n") for line in lines]
        else:
            target = parts[-1][1] if parts else head
            target.extend((number, line) for line in expanded(text, blocks))
    cases = []
    for title, lines in parts:
        tables = [text for _, text in lines if text.startswith("each ")]
        lines = [line for line in lines if not line[1].startswith("each ")]
        for rows in itertools.product(*map(rows_of, tables)):
            values = {key: value for row in rows for key, value in row.items()}
            name = title + (" [%s]" % " | ".join(row[next(iter(row))] for row in rows) if rows else "")
            filled = [(number, known(text, values)) for number, text in head + lines]
            cases.append(Case(path, name, filled))
    return cases


def expanded(text, blocks):
    """The steps of `do NAME`; other lines are themselves."""
    if not text.startswith("do "):
        return [text]
    return [line for inner in blocks[text[3:]] for line in expanded(inner, blocks)]


def rows_of(table):
    names, *rows = table.split("\n")
    names = names[5:].split(" | ")
    for row in rows:
        values = [value.strip() for value in (row + " ").split(" | ")]
        assert len(values) == len(names), "a row of %d values: %s" % (len(names), row)
        yield dict(zip(names, values))


def known(text, values):
    """Puts in the values of names in braces; braces around other things stay."""
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), text)


def shown(data):
    """The text of bytes; controls and what is no UTF-8 as <1b>."""
    text = data.decode("utf-8", "surrogateescape")
    odd = lambda found: "<%02x>" % (ord(found[0]) & 0xFF)
    return re.sub("[\0-\x08\x0a-\x1f\x7f-\x9f\udc80-\udcff]", odd, text)


def raw(text):
    """The bytes of a text with escapes."""
    return codecs.escape_decode(text.encode())[0]


def matcher(text):
    """A compiled pattern: `...` is anything, {name=RE} keeps what matches, {=RE} does not."""
    out, at = "", 0
    for found in PART.finditer(text):
        out += re.escape(text[at : found.start()])
        out += ".*" if found[1] else "(?P<%s>%s)" % (found[2], found[3]) if found[2] else "(?:%s)" % found[3]
        at = found.end()
    return re.compile(out + re.escape(text[at:]), re.S)


class Stream:
    """The lines of a file, as they come."""

    def __init__(self, file, at_end=None):
        self.lines = queue.Queue()
        self.skips = False  # after `...`
        self.is_over = False
        self.at_end = at_end
        threading.Thread(target=self._read, args=(file,), daemon=True).start()

    def _read(self, file):
        try:
            for line in file:
                self.lines.put(line)
        except (OSError, ValueError):
            pass
        self.lines.put(None)
        if self.at_end:
            self.at_end()

    def next(self):
        """The next line; None at the end."""
        if self.is_over:
            return None
        try:
            line = self.lines.get(timeout=wire.DEADLINE * 5)
        except queue.Empty:
            raise Wrong("nothing comes") from None
        if line is None:
            self.is_over = True
            return None
        return line

    def expect(self, text, values):
        """The next line must match, or with `...` before it some line after it."""
        if text == "...":
            self.skips = True
            return
        pattern, missed = matcher(text), []
        while True:
            line = self.next()
            if line is None:
                raise Wrong("no such line; there were %s" % missed if missed else "no more lines")
            got = shown(line.rstrip(b"\n").removesuffix(b"\r"))
            if any(bad in got for bad in BAD):
                raise Wrong("got: " + got)
            found = pattern.fullmatch(got)
            if found:
                self.skips = False
                values.update(found.groupdict())
                return
            missed.append(got)
            if not self.skips:
                raise Wrong("got: " + got[:4000])

    def rest(self):
        """All that is left, until the end."""
        out = []
        while (line := self.next()) is not None:
            out.append(shown(line.rstrip(b"\n")))
        return out


class Process:
    """A command of a shell."""

    def __init__(self, command, case, has_input):
        self.command = command
        self.child = subprocess.Popen(
            ["bash", "-c", command],
            stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=case.folder,
            env=case.env,
            process_group=0,
        )
        self.pid = self.child.pid
        self.out, self.err = Stream(self.child.stdout), Stream(self.child.stderr)
        self.is_done = False

    def say(self, data):
        self.child.stdin.write(data)
        self.child.stdin.flush()

    def close(self):
        if self.child.stdin:
            try:
                self.child.stdin.close()
            except OSError:
                pass

    def finish(self, status):
        """It must end with this status, and have said no more than was expected."""
        self.is_done = True
        got, err = self.out.rest(), self.err.rest()
        ended = self.child.wait(wire.DEADLINE * 5)
        wrong = [line for line in err if any(bad in line for bad in BAD)]
        if wrong or (err and not self.err.skips):
            raise Wrong("standard error:\n" + "\n".join(err))
        if got and not self.out.skips:
            raise Wrong("standard output:\n" + "\n".join(got)[:4000])
        if status != "any" and str(ended if ended >= 0 else 128 - ended) not in status.split("|"):
            raise Wrong("status %d" % ended)

    def end(self):
        self.close()
        if self.child.returncode is None:  # nobody else has the number of its group yet
            os.killpg(self.pid, signal.SIGKILL)
        self.child.wait()


class Connection:
    """One end of a connection, to a server or from a client."""

    def __init__(self, sock, is_crlf):
        self.sock, self.is_crlf, self.piece = sock, is_crlf, 1 << 20
        self.out = Stream(sock.makefile("rb"), at_end=self.close)

    def say(self, data):
        """What the other side has closed before it read all shows in what it does."""
        with contextlib.suppress(ConnectionError):
            for at in range(0, len(data), self.piece):
                self.sock.sendall(data[at : at + self.piece])

    def flood(self, data):
        """Says it again and again, until the other side has closed."""

        def pour():
            try:
                while True:
                    self.sock.sendall(data)
            except OSError:
                pass

        threading.Thread(target=pour, daemon=True).start()

    def close(self):
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def finish(self, _):
        if self.out.next() is not None:
            raise Wrong("it says more")

    def end(self):
        self.close()
        self.sock.close()


class Terminal:
    """A command on a terminal of its own, with a screen."""

    def __init__(self, command, case):
        import pyte

        self.size = case.size
        self.screen = pyte.Screen(self.size[1], self.size[0])
        self.stream = pyte.ByteStream(self.screen)
        self.output = b""
        self.fd, slave = pty.openpty()
        self.resize(*self.size)
        self.modes = termios.tcgetattr(slave)
        self.child = subprocess.Popen(
            ["setsid", "--ctty", "bash", "-c", command],
            stdin=slave, stdout=slave, stderr=slave, cwd=case.folder, env=case.env,
        )  # fmt: skip
        self.pid = self.child.pid
        self.slave = slave  # so that it has modes when nobody else has it open

    def resize(self, rows, columns):
        self.screen.resize(rows, columns)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def say(self, data):
        os.write(self.fd, data)

    def close(self):
        """Hangs up."""
        os.close(self.slave)
        os.close(self.fd)
        self.fd = self.slave = -1

    def lines(self):
        while self.fd >= 0 and select.select([self.fd], [], [], 0.01)[0]:
            data = os.read(self.fd, 65536)
            self.output += data
            self.stream.feed(data)
        return [line.rstrip() for line in self.screen.display]

    def wait(self, is_seen, what):
        try:
            wire.poll(lambda: is_seen(self.lines()), what, wire.DEADLINE * 5)
        except wire.Timeout:
            raise Wrong("the screen:\n" + "\n".join(self.lines())) from None

    def selected(self, lines):
        """The highlighted row that is no heading."""
        for number, line in enumerate(lines):
            heading = re.search("NAME|POOL|TUBE", line)
            if number and self.screen.buffer[number][0].reverse and not heading:
                return line
        return ""

    def restored(self):
        """The first screen is back, the cursor can be seen, and the modes are as before."""
        for on, off in ((b"\x1b[?1049h", b"\x1b[?1049l"), (b"\x1b[?25l", b"\x1b[?25h")):
            if self.output.rfind(off) < self.output.rfind(on):
                raise Wrong("%r is not undone" % on)
        if termios.tcgetattr(self.slave)[:4] != self.modes[:4]:
            raise Wrong("the modes are others")

    def finish(self, status):
        def is_over():
            self.lines()
            return self.child.poll() is not None

        try:
            wire.poll(is_over, "its end", wire.DEADLINE * 5)
        except wire.Timeout:
            raise Wrong("it goes on:\n" + "\n".join(self.lines())) from None
        lines, ended = self.lines(), self.child.returncode
        if any(bad in line for bad in BAD for line in lines):
            raise Wrong("\n".join(lines))
        if str(ended if ended >= 0 else 128 - ended) not in status.split("|"):
            raise Wrong("status %d:\n%s" % (ended, "\n".join(lines)))

    def end(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        if self.fd >= 0:
            self.close()


class Pages(http.server.ThreadingHTTPServer):
    """An admin interface: an answer for each page, and a record of what was asked."""

    daemon_threads = True

    def __init__(self, address=("127.0.0.1", 0)):
        self.routes, self.asked, self.open = {}, queue.Queue(), []
        super().__init__(address, Page)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def handle_error(self, *_):
        """A client that has gone is no error."""

    def stop(self):
        self.shutdown()
        self.server_close()
        for sock in self.open:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def route(self, text):
        """`[METHOD] PATH [CODE] BODY`: texts of JSON with + between them are one object."""
        method, path, code, body = re.match(r"(?:([A-Z]+) )?(\S+) (?:(\d+) )?(.*)$", text, re.S).groups()
        if body.startswith("="):
            body = compile(body[1:].strip(), path, "eval")
        elif " + " in body:
            merged = {}
            for part in body.split(" + "):
                merged.update(json.loads(part))
            body = json.dumps(merged)
        self.routes[method or "GET", path] = (int(code or 200), body)


class Page(http.server.BaseHTTPRequestHandler):
    """One connection to the pages."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one piece

    def setup(self):
        super().setup()
        self.server.open.append(self.connection)

    def log_message(self, *_):
        pass

    def answer(self):
        said = " ".join(filter(None, (self.command, self.path, self.headers.get("Authorization"))))
        self.server.asked.put(said)
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        none = (404, '{"error":{"status":404,"reason":"nothing here"}}')
        found = self.server.routes.get((self.command, self.path))
        short = self.path.partition("?")[0]
        code, body = found or self.server.routes.get((self.command, short), none)
        if not isinstance(body, str):
            body = json.dumps(eval(body, {"n": self.server.asked.qsize()}))  # pylint: disable=eval-used
        body = body.encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer


class Daemons:
    """Starts daemons. One without options serves one case after another."""

    def __init__(self):
        self.idle, self.lock = [], threading.Lock()

    def take(self, *options, admin=False):
        with self.lock:
            if not options and self.idle:
                return self.idle.pop()
        daemon = servers.Counterd(*options, admin=admin)
        daemon.is_plain = not options
        return daemon

    def give(self, daemon):
        """Takes one back, or ends it in order."""
        if daemon.is_expected_to_be_gone:
            daemon.check_log()
        elif daemon.is_plain and daemon.is_running():
            with wire.TextClient(daemon.text) as client:  # the ends of the case's clients may be on their way
                wire.poll(lambda: not client.stat("hashtable_entries"), "no names are left")
            with self.lock:
                self.idle.append(daemon)
        else:
            daemon.stop()

    def stop(self):
        wrong = []
        for daemon in self.idle:
            try:
                daemon.stop()
            except AssertionError as e:
                wrong.append(str(e))
            finally:
                daemon.kill()
        if wrong:
            raise Wrong("\n".join(wrong))


class Player:
    """Plays one case."""

    def __init__(self, case, all_daemons):
        self.case, self.all_daemons = case, all_daemons
        self.actors, self.daemons, self.sockets = {}, [], []
        self.size, self.place = (24, 80), self.case.file
        self.pages = self.redis = None
        self.temporary = tempfile.TemporaryDirectory(prefix="ctl-")
        self.folder = self.temporary.name
        self.env = dict(ENVIRONMENT)
        self.env["PATH"] = "%s:%s" % (os.path.dirname(ctl.COUNTERCTL), os.environ["PATH"])
        self.env.update(TERM="xterm", BASH_ENV=os.path.join(HERE, "shell"))
        self.values = {
            "dir": self.folder,
            "top": os.path.abspath(os.environ.get("TOP_SRCDIR", ".")),
            "host": socket.gethostname(),
            "user": getpass.getuser(),
            # sanitizers reserve terabytes
            "bounded": "" if wire.SLOW else "ulimit -d %d;" % (600 << 10),
        }
        self.uses = " ".join(step.text for step in case.steps)
        if "{play}" in self.uses:
            self.play = self.listener("play", socket.create_server(("127.0.0.1", 0)))
        if "{silent}" in self.uses:
            self.listener("silent", socket.create_server(("127.0.0.1", 0)))
        if "{port}" in self.uses:
            self.values["port"] = str(servers.free_port())
        if "{net}" in self.uses:
            number = os.getpid() * 16 + next(NETS)
            self.values["net"] = "127.88.%d.%d" % (number >> 8 & 255, number & 255)
        if "{none}" in self.uses:
            sock = socket.socket()  # bound, so that no other program listens there
            sock.bind(("127.0.0.1", 0))
            self.listener("none", sock)
        if "{mock}" in self.uses:
            self.pages = Pages()
            self.values["mock"] = ctl.at(self.pages.server_address)

    def listener(self, name, sock):
        self.sockets.append(sock)
        self.values[name] = ctl.at(sock.getsockname())
        return sock

    def actor(self, step):
        """The actor of a step. A name that is new is the next connection to the played server."""
        if step.name not in self.actors:
            self.play.settimeout(wire.DEADLINE * 5)
            try:
                sock = self.play.accept()[0]
            except TimeoutError:
                raise Wrong("nobody connects") from None
            sock.settimeout(None)
            self.actors[step.name] = Connection(sock, step.name.startswith("j"))
        return self.actors[step.name]

    def has_input(self, number):
        """True if a later step says something to the command without a name that this step starts."""
        for step in self.case.steps[number + 1 :]:
            if not step.name and step.what in ("$", "$$", "<", "<<", "<=", "eof"):
                return step.what[0] != "$"
        return False

    def goes_on(self, number):
        """True if a later step concerns the command without a name that runs now."""
        for step in self.case.steps[number + 1 :]:
            if not step.name and step.what in ("$", "$$"):
                return False
            if not step.name and (step.what in OPERATORS or step.what in DEEDS):
                return True
        return False

    def run(self):
        try:
            self.go()
            said = self.what_else()
            if any(bad in said for bad in BAD):
                raise Wrong("standard error:" + said)
            self.end_actors()
            while self.daemons:
                self.all_daemons.give(self.daemons.pop())
        except (Wrong, OSError, wire.Timeout, KeyError, ValueError, AssertionError) as e:
            text = "%s\n%s: %s" % (self.place, type(e).__name__, e)
            raise Wrong(text + self.what_else() + self.log()) from (None if isinstance(e, Wrong) else e)
        finally:
            self.end()

    def go(self):
        self.begin(len(self.case.steps))
        self.place = "%s:%d: the end of %s" % (self.case.file, self.case.steps[-1].number, self.case.title)
        self.done()

    def begin(self, count):
        """Plays that many steps."""
        for number, step in enumerate(self.case.steps[:count]):
            self.place = "%s:%d: %s" % (self.case.file, step.number, step.text)
            self.step(number, step)

    def what_else(self):
        """What the commands have said on standard error and nobody has read."""
        said = []
        for name, actor in self.actors.items():
            while isinstance(actor, Process) and not actor.err.lines.empty():
                said.append("%s! %s" % (name, actor.err.lines.get()))
        return "".join("\n" + line for line in said)

    def log(self):
        """The end of the file `log`, where most daemons of transcripts write."""
        path = os.path.join(self.folder, "log")
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8", errors="replace") as f:
            return "".join("\nlog: " + line.rstrip() for line in f.readlines()[-8:])

    def end_actors(self):
        while self.actors:
            self.actors.popitem()[1].end()

    def end(self):
        self.end_actors()
        for daemon in self.daemons:
            daemon.kill()
        if self.redis:
            self.redis.end()
        for sock in self.sockets:
            sock.close()
        if self.pages:
            self.pages.stop()
        self.temporary.cleanup()

    def done(self, status="0"):
        """The command without a name ends."""
        actor = self.actors.get("")
        if actor and not actor.is_done:
            actor.close()
            self.finish(actor, status)

    def step(self, number, step):
        rest, name, what = self.fill(step.rest), step.name, step.what
        if what in ("$", "$$"):
            if not name or not self.goes_on(number):
                self.done()
            if what == "$":
                self.actors[name] = Process(rest, self, bool(name) or self.has_input(number))
            else:
                self.actors[name] = Terminal(rest, self)
            self.values[name + "pid"] = str(self.actors[name].pid)
        elif what == "@":
            host, _, port = rest.rpartition(":")
            sock = socket.create_connection((host, int(port)))
            self.actors[name] = Connection(sock, rest == self.values.get("jobs"))
        elif what == "?":
            self.finish(self.actor(step), rest)
        elif what in OPERATORS or what in DEEDS:
            getattr(self, "do_" + OPERATORS.get(what, what))(self.actor(step), rest)
        else:
            if what == "daemon" and not self.goes_on(number):  # it may need what the command makes
                self.done()
            getattr(self, "do_" + what)(rest)

    def fill(self, text):
        return known(text, self.values)

    # --- what actors do

    @staticmethod
    def do_say(actor, text):
        if isinstance(actor, Terminal):
            actor.say(raw(text))
        else:
            data = (text if text.endswith("\n") else text + "\n").encode()
            actor.say(data.replace(b"\n", b"\r\n") if getattr(actor, "is_crlf", False) else data)

    @staticmethod
    def do_say_raw(actor, text):
        actor.say(raw(text))

    @staticmethod
    def do_say_made(actor, text):
        actor.say(eval(text))  # pylint: disable=eval-used

    @staticmethod
    def do_flood(actor, text):
        actor.flood(raw(text) * (1 + 65536 // len(text)))

    def do_hear(self, actor, text):
        if isinstance(actor, Terminal):
            pattern = matcher(text)
            actor.wait(lambda lines: any(map(pattern.search, lines)), text)
        else:
            for line in text.rstrip("\n").split("\n"):
                actor.out.expect(line, self.values)

    def do_hear_error(self, actor, text):
        actor.err.expect(text, self.values)

    @staticmethod
    def finish(actor, status):
        actor.finish(status)

    @staticmethod
    def do_accept(_actor, _):
        pass

    @staticmethod
    def do_agree(actor, _):
        def answer():
            while (line := actor.out.lines.get()) is not None:
                actor.say({b"QUIT": b"BYE\n", b"JOIN": b"JOINED\n"}.get(line[:4].strip(), b"OK\n"))

        threading.Thread(target=answer, daemon=True).start()

    @staticmethod
    def do_signal(actor, text):
        for word in text.split():
            os.kill(actor.pid, getattr(signal, "SIG" + word))

    @staticmethod
    def do_eof(actor, _):
        actor.close()

    do_close = do_eof

    @staticmethod
    def do_resize(actor, text):
        actor.resize(*map(int, text.split("x")))

    @staticmethod
    def do_restored(actor, _):
        actor.restored()

    @staticmethod
    def do_quiet(actor, _):
        """Nothing is drawn for a while."""
        before = None
        while before != len(actor.output):
            before = len(actor.output)
            time.sleep(0.2)
            actor.lines()

    @staticmethod
    def do_said(actor, text):
        """It has written that, though it may be gone from the screen."""
        actor.wait(lambda _: text.encode() in actor.output, text)

    @staticmethod
    def do_raw(actor, _):
        """A key is read without an end of line."""
        actor.wait(lambda _: not termios.tcgetattr(actor.slave)[3] & termios.ICANON, "raw modes")

    @staticmethod
    def do_without(actor, text):
        pattern = matcher(text)
        actor.wait(lambda lines: not any(map(pattern.search, lines)), "no " + text)

    @staticmethod
    def do_whole(actor, text):
        pattern = matcher(text)
        actor.wait(lambda lines: any(map(pattern.fullmatch, lines)), text)

    @staticmethod
    def do_selected(actor, text):
        pattern = matcher(text)
        actor.wait(lambda lines: pattern.search(actor.selected(lines)), "selected " + text)

    # --- what nobody does

    def do_daemon(self, text):
        options = shlex.split(text)
        daemon = self.all_daemons.take(*options, admin=any(option.startswith("admin.") for option in options))
        self.daemons.append(daemon)
        for key, address in (
            ("text", daemon.text), ("binary", daemon.binary), ("jobs", daemon.jobs),
            ("admin", daemon.admin), ("tls", daemon.text_tls),
        ):  # fmt: skip
            if address:
                self.values[key] = ctl.at(address)
        if "{binary}" in self.uses:  # names of units are remembered for a while
            daemon.is_plain = False

    def do_beanstalkd(self, _):
        if not servers.Beanstalkd.is_installed():
            raise Skipped("beanstalkd is not installed")
        daemon = servers.Beanstalkd()
        daemon.is_expected_to_be_gone = daemon.is_plain = False
        self.daemons.append(daemon)
        self.values["jobs"] = ctl.at(daemon.jobs)

    def do_redis(self, text):
        if text == "off":
            self.redis.end()
            return
        if not redis_servers.have_redis():
            raise Skipped("there is no redis-server")
        self.redis = redis_servers.RedisServer()
        self.values["redis"] = self.redis.path

    def do_needs(self, command):
        if subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=self.env, capture_output=True, check=False
        ).returncode:
            raise Skipped("not here: " + command)

    def do_stop(self, _):
        self.daemons[-1].stop()
        self.daemons[-1].is_expected_to_be_gone = True

    def do_kill(self, _):
        daemon = self.daemons[-1]
        daemon.is_expected_to_be_gone = True
        daemon.child.kill()
        daemon.wait()

    def do_let(self, text):
        name, value = re.match(r"(\w+)(?: = |\n)(.*)$", text, re.S).groups()
        self.values[name] = value + ("\n" if "\n" in text else "")

    def do_until(self, text):
        def is_true():
            try:
                return not subprocess.run(
                    ["bash", "-c", text], cwd=self.folder, env=self.env, check=False, timeout=wire.DEADLINE,
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                ).returncode  # fmt: skip
            except subprocess.TimeoutExpired:
                return False  # whom it asks has not begun to answer

        wire.poll(is_true, text, wire.DEADLINE * 5)

    def do_listen(self, text):
        """`listen off` ends the played servers, and `listen on` begins them again."""
        if text == "off":
            if self.pages:
                self.pages.stop()
            else:
                self.play.shutdown(socket.SHUT_RDWR)
                self.play.close()
        elif self.pages:
            routes = self.pages.routes
            self.pages = Pages(self.pages.server_address)
            self.pages.routes = routes
        else:
            host, _, port = self.values["play"].rpartition(":")
            self.play = self.listener("play", socket.create_server((host, int(port))))

    def do_route(self, text):
        self.pages.route(text)

    def do_asked(self, text):
        """Such a request has come since the last one; `none`: no further one has."""
        self.done()
        if text == "rest":
            self.pages.asked.queue.clear()
            return
        if text == "none":
            if not self.pages.asked.empty():
                raise Wrong("asked: " + self.pages.asked.get())
            return
        seen = []
        while True:
            try:
                seen.append(self.pages.asked.get(timeout=wire.DEADLINE * 5))
            except queue.Empty:
                raise Wrong("asked: %s" % seen) from None
            if matcher(text).fullmatch(seen[-1]):
                return

    def do_size(self, text):
        self.size = tuple(map(int, text.split("x")))
