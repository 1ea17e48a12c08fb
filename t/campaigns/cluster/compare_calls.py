"""The random calls of compare.py: a few nodes, whose processes and sessions come, hang and go.

Each process knows roughly what it holds, so that most calls make sense; some do not, on purpose.
"""

import collections
import random

import compare
import resp

NODES = ("left:1", "right:1", "third \x01:7531")
LEASES = (10000, 10000, 10000, 10000, 2000)
KINDS = "nma"
LONG = b"long name " * 300


def acquire(name, number, units, limit, maxqueue, kind, strict):
    return ["a", name, "%s%s%d/%d/%d" % (kind, "ls"[strict], units, limit, maxqueue), number]


class Process:
    """A process of a node: what its connections hold, and its session if it has one."""

    def __init__(self, rng, node, number):
        self.node, self.where = node, "boot/4026531836/%d/%d" % (100 + number, rng.randrange(99))
        self.lease = rng.choice(LEASES)
        self.session, self.state, self.last = None, "none", "-"
        self.units = collections.Counter()
        self.waits = {}  # id -> (name, class, seq)
        self.next_id = number << 56 | rng.getrandbits(55)  # beyond what a double holds
        self.seq = 0
        self.untold = []  # asserts that were not sent yet


class Calls:
    def __init__(self, both, rng, counts):
        self.both, self.rng, self.counts = both, rng, counts
        self.numbers = iter(range(1, 1 << 30))
        self.processes = [Process(rng, node, next(self.numbers)) for node in NODES[:2]]
        self.sessions = []  # all that were ever used
        self.beats = {}
        self.cursors = {}
        self.names = [b"a", b"b", b"c:ms1/5:d", b"\x00bin %d\xff\r\n", LONG]
        self.names = self.names[: rng.randint(1, len(self.names))]
        self.classes = [(units, limit) for units in (1, 2) for limit in (1, 2, 5)]
        self.classes += [(1, 4294967295), (65535, 4294967295)] * rng.randrange(2)
        self.trouble = 0

    # Choices.

    def process(self, *states):
        some = [p for p in self.processes if p.state in states]
        return self.rng.choice(some) if some else None

    def any_session(self):
        if not self.sessions or self.rng.random() < 0.03:
            return "%016x" % self.rng.getrandbits(64)
        return self.rng.choice(self.sessions[-8:])

    def beat_of(self, session):
        """Mostly the beat that was seen last."""
        beat = self.beats.get(session, 1)
        return self.rng.choice([beat] * 6 + [beat + 1, max(beat - 1, 0)])

    # Messages.

    def read(self, in_order=True):
        for session, messages in self.both.messages(in_order).items():
            process = next((p for p in self.processes if p.session == session), None)
            for message in messages:
                if process:
                    self.note(process, message)

    @staticmethod
    def note(process, message):
        kind, rest = message.split(b" ", 1)
        if kind == b"G":
            number, units, name = rest.split(b" ", 2)
            process.units[name] += int(units)
            process.waits.pop(int(number), None)
        elif kind == b"D":
            seq, name = rest.split(b" ", 1)
            process.seq = max(process.seq, int(seq))
            gone = [i for i, w in process.waits.items() if w[0] == name and w[1][0] == "a"]
            for i in gone:
                del process.waits[i]

    def failed(self, process, answer):
        """True if the answer is an error; the session is then over, but for OOM."""
        if not isinstance(answer, resp.Error):
            return False
        self.counts["error " + answer.word] = self.counts.get("error " + answer.word, 0) + 1
        if answer.word not in ("OOM", "NOREPLICAS", "HOLDS") and process:
            process.state = "none"
        return True

    # Steps.

    def open(self):
        process = self.process("none")
        if process is None:
            if self.rng.random() < 0.9:
                return
            process = self.rng.choice(self.processes)
        if self.rng.random() < 0.15:  # another process, or another one of the same name
            new = Process(self.rng, process.node, next(self.numbers))
            self.processes[self.processes.index(process)] = new
            process = new
        session = "%016x" % self.rng.getrandbits(64)
        if self.rng.random() < 0.95:
            self.both.each("listen", session)
        last = process.last
        if self.rng.random() < 0.08:
            last = self.rng.choice(["-", self.any_session()])
        seq = process.seq if self.rng.random() < 0.9 else self.rng.randrange(100)
        listed = []
        for _ in range(self.rng.choice([0, 0, 0, 1, 1, 2, 3])):
            over = self.any_session()
            listed += [over, self.beat_of(over) if self.rng.random() < 0.7 else "-"]
        answer = self.both.run(
            "open", session, process.node, process.where, "digest", process.lease, seq, last, *listed
        )
        if self.failed(None, answer):
            return
        word = answer[0].decode()
        self.counts["open " + word] = self.counts.get("open " + word, 0) + 1
        if word == "REAPED":
            process.last = "-"
            process.units.clear()
        elif word == "LEASE":
            for i in range(2, len(answer), 2):
                self.beats[answer[i].decode()] = int(answer[i + 1])
            if self.rng.random() < 0.5:
                process.lease = int(answer[1])
        elif word == "NODE":
            self.beats[answer[1].decode()] = int(answer[3])
            if self.rng.random() < 0.5:  # the namesake is over
                process.where = answer[2].decode()
        elif word == "OPEN":
            self.sessions.append(session)
            self.beats[session] = 1
            process.session, process.state = session, "opening"
            process.untold = self.asserts(process)

    def asserts(self, process):
        told = []
        for name, units in sorted(process.units.items()):
            if units > 0 and self.rng.random() < 0.95:
                told.append(["s", name, max(units + self.rng.choice([0] * 12 + [-1, 1]), 1)])
        for number, (name, kind, seq) in sorted(process.waits.items()):
            if self.rng.random() < 0.95:
                told.append(["w", name, kind, number, seq])
        return told

    def tell(self):
        process = self.process("opening")
        if process is None:
            return
        some, process.untold = process.untold[:128], process.untold[128:]
        ops = sum(some, [])
        if not some or self.rng.random() < 0.2:
            ops += self.op(process, "rcght")
        self.failed(process, self.both.run("give", process.session, *ops))

    def ready(self):
        process = self.process("opening", "opening", "live")
        if process is None or process.untold:
            return
        answer = self.both.run("ready", process.session)
        if self.failed(process, answer):
            return
        process.state, process.last = "live", process.session
        for session, beat in compare.pairs(answer):
            self.beats[session.decode()] = int(beat)
            if self.rng.random() < 0.7:
                self.reap_one(process, session.decode(), int(beat))

    def op(self, process, allowed):
        kind = self.rng.choice(allowed)
        name = self.rng.choice(self.names)
        if kind == "a":
            units, limit = self.rng.choice(self.classes)
            process.next_id += 1
            maxqueue = self.rng.choice([0, 0, 0, 1, 3, 8])
            how, strict = self.rng.choice(KINDS + "mmaa"), self.rng.randrange(2)
            return acquire(name, process.next_id, units, limit, maxqueue, how, strict)
        if kind == "r":
            mine = sorted(n for n, units in process.units.items() if units > 0)
            if mine and self.rng.random() < 0.7:
                name = self.rng.choice(mine)
            elif self.rng.random() < 0.5:
                return self.op(process, allowed)
            held = process.units[name]
            units = held if held > 0 and self.rng.random() < 0.7 else self.rng.randint(1, 3)
            return [self.rng.choice("rb"), name, units]
        if kind == "c":
            if process.waits and self.rng.random() < 0.85:
                number = self.rng.choice(sorted(process.waits))
                return ["c", process.waits[number][0], process.waits[number][1], number]
            return ["c", name, "ms1/5", self.rng.randrange(1000)]
        return [kind, name]

    def took(self, process, op, answer):
        if isinstance(answer, resp.Error):  # of another type: units change all the same
            answer = 1 if op[0] in "rb" else 0
        if op[0] == "a":
            if answer == 1:
                process.units[op[1]] += int(op[2][2:].partition("/")[0])
            elif answer > 1:
                process.waits[op[3]] = (op[1], op[2].rpartition("/")[0], answer)
                process.seq = max(process.seq, answer)
        elif op[0] in "rb" and answer > 0:
            process.units[op[1]] -= op[2]
        elif op[0] == "c":
            process.waits.pop(op[3], None)

    def call(self):
        process = self.process("live")
        if process is None:
            return
        script = "call" if self.rng.random() < 0.9 else "give"
        allowed = "aaaaaarrrrccgth" if script == "call" else "rrccgth"
        count = self.rng.choice([1, 1, 1, 2, 4, 12, 12])
        ops = [self.op(process, allowed) for _ in range(count)]
        answer = self.both.run(script, process.session, *sum(ops, []))
        if self.failed(process, answer):
            return
        for op, element in zip(ops, answer):
            self.took(process, op, element)
            if isinstance(element, resp.Error):
                self.counts["wrong " + op[0]] = self.counts.get("wrong " + op[0], 0) + 1
                continue
            what = "%s %s" % (op[0], element if isinstance(element, int) and element < 2 else "more")
            self.counts[what] = self.counts.get(what, 0) + 1
        self.read()

    def beat(self):
        process = self.process("live", "live", "opening")
        if process is None:
            return
        answer = self.both.run("beat", process.session)
        if self.failed(process, answer):
            return
        for session, beat in compare.pairs(answer[2]):
            self.beats[session.decode()] = int(beat)
        if answer[1] and self.rng.random() < 0.7:
            self.both.run("give", process.session, *sum((["t", name] for name in answer[1]), []))

    def reap(self):
        process = self.process("live", "live", "opening")
        session = self.any_session()
        if process is not None and session != process.session:
            self.reap_one(process, session, self.beat_of(session))

    def reap_one(self, process, session, beat):
        """
        Gives a session back. Which 250 names, and grants, come first is each side's own affair: of the
        answers only the first and the last are compared, and the names in `more` are finished before
        messages and contents are compared.
        """
        self.read()
        args = [process.session, session, beat]
        self.both.log.append("reap %s" % args)
        answers = [side.run("reap", args + [b"0"]) for side in self.both.sides]
        self.both.log.append("    -> %r" % (answers,))
        if self.kind_of(answers[0]) != self.kind_of(answers[1]):
            raise compare.Differs("answers to reap: redis %r, memory %r" % tuple(answers))
        if self.failed(process, answers[1]):
            return
        if answers[1][0] > 0:
            self.counts["long reaps"] = self.counts.get("long reaps", 0) + 1
            for side, answer in zip(self.both.sides, answers):
                self.reap_rest(side, args, answer)
        self.both.finish_if_other(process.session)
        self.read(in_order=False)

    @staticmethod
    def kind_of(answer):
        return answer.word if isinstance(answer, resp.Error) else answer[0] > 0

    @staticmethod
    def reap_rest(side, args, answer):
        for _ in range(100):
            before = answer[0]
            answer = side.run("reap", args + [answer[1]])
            if answer[0] == 0:
                return
            if answer[0] >= before:
                raise compare.Differs("%s: reaping does nothing" % side.name)
        raise compare.Differs("%s: reaping does not end" % side.name)

    def grace(self):
        process = self.process("live", "live", "opening")
        if process is not None:
            term = self.rng.choice(["TERM"] * 5 + ["0:0"])
            self.failed(process, self.both.run("grace", process.session, term))

    def leave(self):
        process = self.process("live", "opening")
        session = process.session if process and self.rng.random() < 0.9 else self.any_session()
        answer = self.both.run("leave", session)
        if answer == 1 and process and process.session == session:
            process.state = "none"
        self.failed(None, answer)

    def give_all_back(self):
        """What a node does before it leaves."""
        process = self.process("live")
        if process is None:
            return
        ops = [["b", n, u] for n, u in sorted(process.units.items()) if u > 0]
        ops += [["c", name, kind, i] for i, (name, kind, _) in sorted(process.waits.items())]
        for start in range(0, len(ops), 100):
            some = ops[start : start + 100]
            answer = self.both.run("give", process.session, *sum(some, []))
            if self.failed(process, answer):
                return
            for op, element in zip(some, answer):
                self.took(process, op, element)
        self.read()
        self.failed(process, self.both.run("leave", process.session))

    def look(self):
        self.both.run("look")

    def lose(self):
        """A process loses its session, or its subscription."""
        process = self.process("live", "opening")
        if process is None:
            return
        self.read()
        if self.rng.random() < 0.6:
            self.both.each("go_deaf", process.session)
        if self.rng.random() < 0.6:
            process.state = "none"

    def fault(self):
        self.read()
        what = self.rng.random()
        if what < 0.35:
            self.both.each("new_term")
        elif what < 0.5:
            self.calm()
            self.both.each("flush")
            self.both.wrong.clear()
            if self.rng.random() < 0.7:
                self.both.each("new_term")
        else:
            self.trouble = 0 if self.trouble else self.rng.choice([compare.FULL, compare.NOREPLICAS])
            self.both.each("trouble", self.trouble)

    def calm(self):
        if self.trouble:
            self.trouble = 0
            self.both.each("trouble", 0)

    def foreign(self):
        """Another program writes to the queue of a name that nobody waits for, or deletes that again."""
        if self.trouble:
            return
        self.read()
        name = self.rng.choice(self.names[:3])
        key = compare.KEY + b"k:" + name
        if name in self.both.wrong:
            self.both.wrong.discard(name)
            self.both.each("right", name)
        elif self.both.real.client.ask("EXISTS", key) == 0:
            self.both.wrong.add(name)
            self.both.each("wrong", name)
            process = self.process("live")
            if process:  # with so many others that the scripts may pass it by
                ops = sum((["t", b"%d" % n] for n in range(20)), ["t", name])
                self.failed(process, self.both.run("give", process.session, *ops))

    def many_waits(self):
        """More waits of one name than a script grants."""
        process = self.process("live")
        if process is None:
            return
        name, count = b"many", self.rng.choice([120, 249, 250, 251, 520])
        kind, strict = self.rng.choice("ma"), self.rng.randrange(2)
        held = [acquire(name, 1, count, count, 0, "n", 0)]
        process.next_id += count
        waits = [
            acquire(name, process.next_id - i, 1, count, 0, kind, strict) for i in range(count)
        ]
        for start in range(0, count, 100):
            ops = (held if start == 0 else []) + waits[start : start + 100]
            answer = self.both.run("call", process.session, *sum(ops, []))
            if self.failed(process, answer):
                return
            for op, element in zip(ops, answer):
                self.took(process, op, element)
        ops = ["r" if self.rng.random() < 0.3 else "b", name, count]
        ops += acquire(name, process.next_id + 1, 1, 2 * count, 0, "n", 0)
        answer = self.both.run("call", process.session, *ops)
        self.counts["many"] = self.counts.get("many", 0) + 1
        if not self.failed(process, answer) and answer[0] > 0:
            process.units[name] -= count
            if answer[1] == 1:
                process.units[name] += 1
        while process.state == "live" and self.rng.random() < 0.7:
            answer = self.both.run("call", process.session, "t", name)
            self.counts["t of many"] = self.counts.get("t of many", 0) + 1
            if self.failed(process, answer) or answer == [1]:
                break
        self.read()

    def many_names(self):
        """More names in a session than a script gives back."""
        process, other = self.process("live"), self.process("live")
        if process is None:
            return
        count = self.rng.choice([249, 250, 251, 600])
        for start in range(0, count, 100):
            ops = []
            for i in range(start, min(start + 100, count)):
                process.next_id += 1
                ops.append(acquire(b"n%d" % i, process.next_id, 1, 1, 0, "m", 0))
            answer = self.both.run("call", process.session, *sum(ops, []))
            if self.failed(process, answer):
                return
            for op, element in zip(ops, answer):
                self.took(process, op, element)
            ops = []
            for i in range(start, min(start + 100, count), 3):
                other.next_id += 1
                ops.append(acquire(b"n%d" % i, other.next_id, 1, 1, 0, "m", 0))
            answer = self.both.run("call", other.session, *sum(ops, []))
            if self.failed(other, answer):
                return
            for op, element in zip(ops, answer):
                self.took(other, op, element)
        self.counts["many names"] = self.counts.get("many names", 0) + 1
        if other is not process and self.rng.random() < 0.6:  # at once, before others free the names
            answer = self.both.run("beat", other.session)
            if not self.failed(other, answer):
                beats = dict(compare.pairs(answer[2]))
                over = process.session.encode()
                self.reap_one(other, process.session, int(beats.get(over, 0)))

    def many_classes(self):
        """More pairs of session and class than a name may have."""
        name = b"classes%d" % self.rng.randrange(1000)
        holder = self.process("live")
        if holder is None:
            return
        holder.next_id += 1
        took = acquire(name, holder.next_id, 1, 1000, 0, "n", 0)
        if not self.failed(holder, self.both.run("call", holder.session, *took)):
            self.read()
        for start in range(0, 300, 100):
            process = self.process("live")
            if process is None:
                return
            ops = []
            for i in range(start, start + 100):
                process.next_id += 1
                kind = "ma"[i % 2]
                ops.append(acquire(name, process.next_id, 1000 + i, 1000 + i // 7, 0, kind, i // 3 % 2))
            answer = self.both.run("call", process.session, *sum(ops, []))
            if self.failed(process, answer):
                return
            for op, element in zip(ops, answer):
                self.took(process, op, element)
        self.names.append(name)
        self.counts["many classes"] = self.counts.get("many classes", 0) + 1
        if holder.state == "live":
            answer = self.both.run("call", holder.session, self.rng.choice("rb"), name, 1)
            self.failed(holder, answer)
        self.read()

    def many_unfinished(self):
        """More names that are not finished than a beat shows: one takes all grants of the call."""
        process = self.process("live")
        if process is None or self.trouble:
            return
        count = self.rng.choice([20, 99, 100, 101, 130])
        names = [b"unfinished%d" % i for i in range(count)]
        ops = [acquire(b"first", 1, 300, 300, 0, "n", 0)] + [acquire(n, 1, 1, 1, 0, "n", 0) for n in names]
        for i in range(300):
            process.next_id += 1
            ops.append(acquire(b"first", process.next_id, 1, 300, 0, "m", 0))
        for name in names:
            process.next_id += 1
            ops.append(acquire(name, process.next_id, 1, 1, 0, "m", 0))
        back = [["b", b"first", 300]] + [["b", name, 1] for name in names]
        for some in [ops[i : i + 200] for i in range(0, len(ops), 200)] + [back]:
            answer = self.both.run("call", process.session, *sum(some, []))
            if self.failed(process, answer):
                return
            for op, element in zip(some, answer):
                self.took(process, op, element)
        self.counts["many unfinished"] = self.counts.get("many unfinished", 0) + 1
        self.read()
        self.failed(process, self.both.run("beat", process.session))
        if process.state == "live" and self.rng.random() < 0.8:
            for start in range(0, count, 100):
                ops = sum((["t", name] for name in [b"first"] + names[start : start + 100]), [])
                self.both.run("give", process.session, *ops)
        self.read()

    def step(self):
        steps = {
            self.open: 12, self.tell: 12, self.ready: 12, self.call: 60, self.beat: 8, self.reap: 4,
            self.grace: 3, self.leave: 1, self.give_all_back: 1, self.look: 1, self.lose: 3,
            self.fault: 1, self.calm: 6, self.foreign: 1, self.many_waits: 0.3, self.many_names: 0.2,
            self.many_classes: 0.2, self.many_unfinished: 0.3,
        }  # fmt: skip
        step = self.rng.choices(list(steps), list(steps.values()))[0]
        step()
        if self.rng.random() < 0.3:
            self.read()
        if self.rng.random() < 0.05:
            self.both.contents()
        if self.rng.random() < 0.01 and len(self.processes) < len(NODES):
            self.processes.append(Process(self.rng, NODES[2], next(self.numbers)))


def run(folder, seed, steps, counts):
    """Runs a seed. Returns "", or what differs."""
    rng = random.Random(seed)
    both = compare.Both(folder)
    try:
        calls = Calls(both, rng, counts)
        for step in range(steps):
            try:
                calls.step()
            except compare.Differs as e:
                return "seed %d, step %d: %s\nbefore:\n%s" % (
                    seed, step, e, "\n".join(line[:400] for line in both.log[-compare.LOG_SHOWN :]),
                )  # fmt: skip
        calls.calm()
        calls.read()
        both.contents()
        return ""
    except compare.Differs as e:
        return "seed %d: %s" % (seed, e)
    finally:
        both.close()
