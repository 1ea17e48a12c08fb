"""
Records a history (check.c): the requests of clients of both protocols on a few names, and the answers.

Each process makes one connection after another, of the text or of the binary protocol. It acquires, waits, gives up
waiting, releases, asks, and shuts down its sending side, with or without a release, while it waits or not. Requests
have different limits. The names depend on the seed, so a server may serve one history after another.

Half of the clients that wait know that they are in the queue: the server has answered a later request of them (a marker).

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


class Request:
    """A request that begins now."""

    def __init__(self, verb, name, units=0, limit=0, queue=0, timeout=0):
        self.verb, self.name, self.units = verb, name, units
        self.limit, self.queue, self.timeout = limit, queue, timeout
        self.seen = self.left = 0
        self.call = time.monotonic_ns()


class Recorder:
    """One client, in all its lives."""

    def __init__(self, text, binary, number, seed, made):
        self.addresses, self.seed, self.number, self.made = (text, binary), seed, number, made
        self.rng = random.Random("%d %d" % (seed, number))
        self.lines = []

    def below(self, limit):
        return self.rng.randrange(limit)

    def key(self, name):
        return "history-%d-%d" % (self.seed, name)

    def choose_limit(self, name):
        """Mostly the name's limit; sometimes less, or one more."""
        return self.below(4) and 1 << name or 1 + self.below((1 << name) + 1)

    def ends(self, o, result):
        words = self.number, o.name, o.verb, result, o.units, o.limit, o.queue, int(o.timeout > 0)
        self.lines.append(" ".join(map(str, (*words, o.call, o.seen, o.left, time.monotonic_ns()))))
        self.made[self.number] += 1

    # --- text ---

    def has_line(self, seconds):
        """Waits so long for a line. Returns False if none has arrived."""
        until = time.monotonic() + seconds
        while b"\n" not in self.peer.buffer and not self.peer.at_end:
            if not self.peer.fill(max(until - time.monotonic(), 0)):
                return False
        return True

    @staticmethod
    def note_timeout(o, line):
        """The result that a line tells."""
        if line == "TIMEOUT" and o.timeout:
            o.left = o.call + o.timeout
        return RESULTS[line]

    def lock(self):
        name, wait_us = self.below(NAMES), self.below(4) and 200 + self.below(6000)
        queue = self.below(4) and 100 or 1 + self.below(6)
        patient = not wait_us or self.below(3) > 0
        self.marked = wait_us > 0 and self.below(2) > 0
        o = Request(self.rng.choice(("acq4me", "acq4any")), name, 1, self.choose_limit(name), queue, wait_us * 1000)
        words = o.verb.upper(), self.key(name), o.limit, queue, wait_us, "MARK\n" if self.marked else ""
        self.peer.send(("%s %s %d %d 0.%06d\n%s" % words).encode())
        until = time.monotonic() + self.below(3000) / 1e6
        while patient or self.has_line(until - time.monotonic()):
            line = self.peer.line()
            if line != MARK:
                self.ends(o, self.note_timeout(o, line))
                self.held[name] += line == "LOCKED"
                assert not self.marked or self.peer.line() == MARK, "no answer to a marker"
                return
            self.marked, o.seen = False, time.monotonic_ns()
        if self.held[name] == 0 and self.below(2):
            self.cancel(o)
            return
        self.given_up = o
        raise Abandoned

    def cancel(self, o):
        """Sends RELEASE, because no answer has arrived: it ends the wait, or gives back."""
        left = time.monotonic_ns()
        self.peer.say("RELEASE " + self.key(o.name))
        answers = []
        while answers[-1:] != ["RELEASED"] and len(answers) < 2:
            line = self.peer.line()
            if line != MARK:
                answers.append(line)
            elif not answers:
                o.seen = time.monotonic_ns()
        if "RELEASED" in answers:
            o.left, result = left, "timeout" if len(answers) == 1 else "released"
            assert len(answers) == 1 or answers[0] == "LOCKED", answers
        else:
            result = self.note_timeout(o, answers[0])
            assert answers[1] == "NOT_LOCKED", answers
        self.ends(o, result)

    def unlock(self, name):
        o = Request("release", name, 1)
        line = self.peer.ask("RELEASE " + self.key(name))
        assert line == "RELEASED", "releasing was answered with " + line
        self.ends(o, "ok")
        self.held[name] -= 1

    # --- binary ---

    def acquire(self):
        name = self.below(NAMES)
        limit = self.choose_limit(name)
        o = Request("acquire", name, 1 + self.below(min(limit, 3)), limit)
        status = self.peer.acquire(o.units, limit, self.key(name).encode())
        self.ends(o, {wire.OK: "ok", wire.NOT_AVAILABLE: "unavailable"}[status])
        self.held[name] += o.units * (status == wire.OK)

    def give(self, name):
        """Gives back some of the units held of a name; sometimes more, which must be refused."""
        held = self.held[name]
        o = Request("give", name, 1 + self.below(held) if held and self.below(16) else held + 1)
        status = self.peer.release(o.units, self.key(name).encode())
        self.ends(o, {wire.OK: "ok", wire.NOT_FOUND: "not_found", wire.NOT_ACQUIRED: "not_acquired"}[status])
        self.held[name] -= o.units * (status == wire.OK)

    def get(self, name):
        o = Request("get", name)
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
        """Ends the connection: records the end of a wait that was given up, and a close for each name that is held."""
        closes = [Request("close", name) for name in range(NAMES) if self.held[name]]
        given_up, now = self.given_up, time.monotonic_ns()
        self.peer.eof()
        self.peer.wait_closed()
        if given_up:
            given_up.left = now
            self.ends(given_up, "gone")
        for o in closes:
            if not given_up or o.name != given_up.name:
                self.ends(o, "ok")

    def live(self):
        self.text = self.below(3) > 0
        self.held, self.given_up, self.marked = [0] * NAMES, None, False
        with (wire.TextClient if self.text else wire.BinaryClient)(self.addresses[not self.text]) as self.peer:
            try:
                for _ in range(1 + self.below(40)):
                    self.step()
            except Abandoned:
                pass
            self.end()

    def run(self, pipe, wanted):
        """Sends the lines, and what went wrong."""
        wrong = ""
        try:
            while sum(self.made) < wanted:
                self.live()
        except (AssertionError, KeyError, OSError) as e:
            wrong = "violation: client %d: %r" % (self.number, e)
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
    made = [0] * (CLIENTS + 1)
    last = Recorder(text, binary, CLIENTS, seed, made)
    with wire.BinaryClient(binary) as last.peer:
        for name in range(NAMES):
            wire.poll(lambda name=name: not last.get(name), "nobody holds units")
    return sorted(lines + last.lines, key=lambda line: int(line.split()[8])), wrong
