"""Plays a story (story.py) on one server or another (backends.py). Stories do not know the backend."""

import re
import struct

import backends
import daemon
import wire
from story import BadScript, Failed, decode, line_pattern, parse_duration, substitute

KINDS = ("text", "binary", "jobs")

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
    "stats-job": "id tube state pri age delay ttr time-left file reserves timeouts releases buries" " kicks",
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


def repeated(line):
    """`times 3: w > watch t$#` stands for so many lines, each with its number for `$#`."""
    found = re.fullmatch(r"times (\d+): (.*)", line)
    if not found:
        return [line]
    return [found.group(2).replace("$#", str(number)) for number in range(1, int(found.group(1)) + 1)]


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
                for text in repeated(line):
                    self.attempt(self.act if self.lost else self.step, text)
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
        except backends.Died:
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
        if words[0] in daemon.STEPS:
            self.backend.step(words[0], line.partition(" ")[2], self.known)
        elif words[0] in KINDS:
            names, _, source = line.partition(" from ")
            names, _, over = names.partition(" over ")
            for name in names.split()[1:]:
                self.open(name, words[0], source.strip() or None, over.strip())
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
        elif words[-1] in ("quiet", "close", "eof", "reset", "closed", "stubborn") and len(words) >= 2:
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
        elif verb == "part":
            self.backend.part(conn, self.request(conn, rest))
            conn.sent_at = self.backend.now
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

    def open(self, name, kind, source, over):
        if name in self.connections:
            raise BadScript("two connections of the name %s" % name)
        conn = self.connections[name] = backends.Connection(name, kind)
        conn.over = over
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
            parts[number] = b" ".join(length if word == b"*" else word for word in parts[number].split(b" "))
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
                # On a real clock the machine may have stood still.
                slack = 30 if key.endswith("time-left") and self.backend.server != "fake" else 0
                good = int(found[key]) < int(value) if sign == "<" else int(found[key]) > int(value) - slack
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
                magic, opcode, status, reserved, length, opaque = wire.HEADER.unpack(bytes(conn.buffer[:12]))
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
            self.expect_error(reply, int(words[0], 0), " ".join(words[1:]))
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
    def expect_error(reply, status, text):
        if reply.status != status or reply.body != (text.encode() or wire.STATUS_TEXT[status]):
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
