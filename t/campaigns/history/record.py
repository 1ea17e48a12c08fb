"""
Records a history (history.h): the operations of clients of both protocols on a few names, and the answers.

Each process makes one connection after another, of the text or of the binary protocol. It acquires, waits, gives up
waiting, releases, asks, and ends with or without a release: by close, by RST, or by shutting down its sending side,
while it waits or not. Requests have different limits. The names depend on the seed, so a server may serve one history
after another.

Before a client closes its connection to stop waiting, it must know that it was in the queue: the server has answered
a later request of it (a marker). Otherwise it waits until the server closes. Without this it would stay unknown if
the server handled the request, and the checker would have to consider both until the end.

At the end nobody holds anything. The seed determines the plan; the processes race.
"""

import multiprocessing
import random
import time

import wire

CLIENTS, NAMES, HELD_MAX = 8, 3, 3
MARK = "ERROR BAD_COMMAND"  # the answer to a marker
RESULTS = {"LOCKED": "locked", "DONE": "done", "TIMEOUT": "timeout", "QUEUE_FULL": "full"}


class Abandoned(Exception):
    """The connection has to end, because its wait is given up."""


class Operation:
    """An operation that begins now."""

    def __init__(self, verb, name, units=0, limit=0, queue=0, timeout=0):
        self.verb, self.name, self.units = verb, name, units
        self.asked = "%d %d %d" % (limit, queue, timeout)
        self.timeout, self.limit = timeout, limit
        self.seen = self.left = self.ret = "-"
        self.call = time.monotonic_ns()


class Recorder:
    """One client, in all its lives."""

    def __init__(self, text, binary, number, seed, made):
        self.addresses, self.seed, self.number, self.conn, self.made = (text, binary), seed, number, number, made
        self.rng = random.Random("%d %d" % (seed, number))
        self.lines = []

    def below(self, limit):
        return self.rng.randrange(limit)

    def key(self, name):
        return "history-%d-%d" % (self.seed, name)

    def choose_limit(self, name):
        """Mostly the name's limit; sometimes less, or one more."""
        return self.below(4) and 1 << name or 1 + self.below((1 << name) + 1)

    def put(self, o, result):
        words = self.conn, o.name, o.verb, result, o.units, o.asked, o.call, o.seen, o.left, o.ret
        self.lines.append(" ".join(map(str, words)))
        self.made[self.number] += 1

    def ends(self, o, result):
        o.ret = time.monotonic_ns()
        self.put(o, result)

    # --- text ---

    def has_line(self, seconds):
        """Waits so long for a line. Returns False if none has arrived."""
        until = time.monotonic() + seconds
        while b"\n" not in self.peer.buffer and not self.peer.at_end:
            if not self.peer.fill(max(until - time.monotonic(), 0)):
                return False
        return True

    def answer_to(self, o):
        """The next line that does not answer the marker; the time of that is noted."""
        while self.marked and (line := self.peer.line()) == MARK:
            self.marked, o.seen = False, time.monotonic_ns()
        return line if self.marked else self.peer.line()

    def note_answer(self, o, line):
        if line == "TIMEOUT" and o.timeout:
            o.left = o.call + o.timeout
        self.ends(o, RESULTS[line])
        self.held[o.name] += line == "LOCKED"

    def lock(self):
        name, wait_us = self.below(NAMES), self.below(4) and 200 + self.below(6000)
        queue = self.below(4) and 100 or 1 + self.below(6)
        patient = not wait_us or self.below(3) > 0
        self.marked = wait_us > 0 and self.below(2) > 0
        o = Operation(self.rng.choice(("acq4me", "acq4any")), name, 1, self.choose_limit(name), queue, wait_us * 1000)
        words = o.verb.upper(), self.key(name), o.limit, queue, wait_us, "MARK\n" if self.marked else ""
        self.peer.send(("%s %s %d %d 0.%06d\n%s" % words).encode())
        until = time.monotonic() + self.below(3000) / 1e6
        while patient or self.has_line(until - time.monotonic()):
            line = self.peer.line()
            if line != MARK:
                self.note_answer(o, line)
                assert not self.marked or self.peer.line() == MARK, "no answer to a marker"
                return
            self.marked, o.seen = False, time.monotonic_ns()
        if self.held[name] == 0 and self.below(2):
            self.cancel(o)
            return
        self.put(o, "unknown")
        self.waits.add(name)
        self.unseen = o.seen == "-"
        raise Abandoned

    def cancel(self, o):
        """Sends RELEASE, because no answer has arrived: it ends the wait, or gives back."""
        release = Operation("release", o.name)
        self.peer.say("RELEASE " + self.key(o.name))
        line = self.answer_to(o)
        if line == "RELEASED":
            o.left = release.call
            self.ends(o, "cancelled")
            return
        self.note_answer(o, line)
        locked = line == "LOCKED"
        line = self.answer_to(Operation("release", o.name))
        assert line == ("RELEASED" if locked else "NOT_LOCKED"), "releasing after a wait: " + line
        self.ends(release, "ok" if locked else "not_locked")
        self.held[o.name] -= locked

    def unlock(self, name):
        o = Operation("release", name)
        line = self.peer.ask("RELEASE " + self.key(name))
        assert line == "RELEASED", "releasing was answered with " + line
        self.ends(o, "ok")
        self.held[name] -= 1

    # --- binary ---

    def acquire(self):
        name = self.below(NAMES)
        limit = self.choose_limit(name)
        o = Operation("acquire", name, 1 + self.below(min(limit, 3)), limit)
        status = self.peer.acquire(o.units, limit, self.key(name).encode())
        self.ends(o, {wire.OK: "ok", wire.NOT_AVAILABLE: "unavailable"}[status])
        self.held[name] += o.units * (status == wire.OK)

    def give(self, name):
        """Gives back some of the units held of a name; sometimes more, which must be refused."""
        held = self.held[name]
        o = Operation("give", name, 1 + self.below(held) if held and self.below(16) else held + 1)
        status = self.peer.release(o.units, self.key(name).encode())
        self.ends(o, {wire.OK: "ok", wire.NOT_FOUND: "not_found", wire.NOT_ACQUIRED: "not_acquired"}[status])
        self.held[name] -= o.units * (status == wire.OK)

    def get(self, name):
        o = Operation("get", name)
        number = self.peer.get(self.key(name).encode())
        o.units = number or 0
        self.ends(o, "not_found" if number is None else "ok")
        return number

    # --- a connection ---

    def step(self):
        held = [name for name in range(NAMES) if self.held[name]]
        name = self.rng.choice(held or range(NAMES))
        if held and not self.below(4):
            time.sleep(self.rng.random() * 2e-4)
        releases = held and self.below(3)
        if self.text:
            self.unlock(name) if releases or sum(self.held) == HELD_MAX else self.lock()
        elif not self.below(4):
            self.get(self.below(NAMES))
        else:
            self.give(name) if releases or not self.below(32) else self.acquire()

    def end(self):
        """Ends the connection, and records a close for each of its names."""
        o = Operation("close", 0)
        if self.unseen or self.below(2):
            self.peer.eof()
            self.peer.wait_closed()
            o.ret = time.monotonic_ns()
        elif self.below(2):
            self.peer.reset()
        for o.name in range(NAMES):
            if self.held[o.name] or o.name in self.waits:
                self.put(o, "ok")

    def live(self):
        self.text = self.below(3) > 0
        self.held, self.waits, self.unseen, self.marked = [0] * NAMES, set(), False, False
        with (wire.TextClient if self.text else wire.BinaryClient)(self.addresses[not self.text]) as self.peer:
            try:
                for _ in range(1 + self.below(40)):
                    self.step()
            except Abandoned:
                pass
            self.end()
        self.conn += CLIENTS

    def run(self, pipe, wanted):
        """Sends the lines, and what went wrong."""
        wrong = ""
        try:
            while sum(self.made) < wanted:
                self.live()
        except (AssertionError, KeyError, OSError) as e:
            wrong = "violation: connection %d: %r" % (self.conn, e)
            self.made[self.number] += wanted  # all others end
        pipe.send((self.lines, wrong))


def record(text, binary, operations, seed):
    """Returns the lines of a history, and what went wrong ("": nothing)."""
    made = multiprocessing.Array("L", CLIENTS, lock=False)
    running, lines, wrong = [], [], ""
    for number in range(CLIENTS):
        pipe, end = multiprocessing.Pipe(False)
        recorder = Recorder(text, binary, number, seed, made)
        running.append((multiprocessing.Process(target=recorder.run, args=(end, operations)), pipe))
        running[-1][0].start()
    for process, pipe in running:
        more, bad = pipe.recv()
        process.join()
        lines, wrong = lines + more, wrong or bad
    last = Recorder(text, binary, 0, seed, made)
    last.conn = CLIENTS << 24
    with wire.BinaryClient(binary) as last.peer:
        for name in range(NAMES):
            wire.poll(lambda name=name: not last.get(name), "nobody holds units")
    return sorted(lines + last.lines, key=lambda line: int(line.split()[8])), wrong
