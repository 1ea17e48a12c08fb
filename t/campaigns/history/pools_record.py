"""
Records a history of pools: requests of clients and their answers, with times (pools_check.py).

The processes play four roles. Consumers take members for use and for checks, wait, give up waiting,
return, and end their connections in every way. Cleaners take dirty members. An operator changes
states of two pools. Suppliers join members, and end them or their connections at random.

Some waits are followed by a marker, a line without meaning. Once the server has answered it, the
wait before it is surely in the queue. A client that ends its connection while it waits lets the
server close first, so that it knows when the wait was over.

At the end nobody holds or awaits anything. The seed determines the plan; the processes race.
"""

import multiprocessing
import random
import time

import wire

CONSUMERS, CLEANERS, SUPPLIERS = 7, 2, 2
CLIENTS = CONSUMERS + CLEANERS + SUPPLIERS + 1  # the last one is the operator
HOLDS_MAX = 4
PLANS = {  # options, and members with their attributes
    "plain": ("queue_max=3 on_fail=free overtakes=4", {"p0": "kind=a", "p1": "kind=b"}),
    "wash": (
        "queue_max=3 on_return=dirty clean_tries=0",
        {"w0": "kind=a", "w1": "kind=b", "w2": "kind=b"},
    ),
    "frail": ("queue_max=2 on_return=free clean_tries=0", {"f0": "kind=a", "f1": "kind=a"}),
    "web": ("kind=joined queue_max=4 cull_after=0", {}),
}
POOLS = list(PLANS)
MARK = "ERROR BAD_COMMAND"


class Wrong(Exception):
    """An answer is wrong or missing."""


class Ended(Exception):
    """The connection has to end, because its wait is abandoned."""


class Recorder:
    """One client, in all its lives."""

    def __init__(self, address, number, seed, made, fence):
        self.address, self.number, self.made, self.some_fence = address, number, made, fence
        self.rng = random.Random("%d %d" % (seed, number))
        self.lines, self.conn, self.peer, self.taking = [], number, None, None
        self.clear()

    def clear(self):
        self.holds, self.returned, self.waits, self.marked = [], 0, False, False
        self.there, self.stopped = set(), set()

    def one_in(self, n):
        return self.rng.randrange(n) == 0

    def put(self, verb, **words):
        """Writes a line of the history. What is unknown is None, and left out."""
        said = " ".join("%s=%s" % (k.strip("_"), v) for k, v in words.items() if v is not None)
        self.lines.append("%s conn=%d %s" % (verb, self.conn, said))
        self.made[self.number] += 1

    def say(self, line):
        self.peer.send(line.encode() + b"\n")
        return time.monotonic_ns()

    def is_answer(self, line):
        """Notes a STOP line, and when the answer to a marker was read."""
        if line == MARK and self.marked:
            self.marked = False
            if self.taking:
                self.taking["seen"] = time.monotonic_ns()
        elif line.startswith("STOP "):
            self.stopped.add(line.split(" ")[2])
        else:
            return True
        return False

    def read(self):
        while not self.is_answer(line := self.peer.line()):
            pass
        return line

    def arrives(self, seconds):
        """Waits so long for a line. Returns False if none has arrived."""
        until = time.monotonic() + seconds
        while b"\n" not in self.peer.buffer and not self.peer.at_end:
            if not self.peer.fill(max(until - time.monotonic(), 0)):
                return False
        return True

    # --- TAKE and RETURN ---

    def take(self, pools, what, member=None, with_=None, count=1):
        timeout_us = 0 if self.one_in(4) else 200 + self.rng.randrange(6000)
        hurry = self.rng.random() * 3e-3 if timeout_us and self.one_in(4) else None
        line = "TAKE %s %d.%06d for=%s count=%d" % (pools, 0, timeout_us, what, count)
        line += " member=" + member if member else ""
        line += " with=" + with_ if with_ else ""
        while self.marked:
            self.is_answer(self.peer.line())
        if timeout_us and not self.one_in(3):
            line, self.marked = line + "\nMARK", True
        t = self.taking = {"call": time.monotonic_ns(), "ret": None, "seen": None, "left": None}
        self.say(line)
        t.update(pools=pools, for_=what, count=count, timeout=timeout_us * 1000)
        t.update(member=member, with_=with_)
        until = time.monotonic() + (hurry or 0)
        while hurry is not None and self.arrives(until - time.monotonic()):
            if self.is_answer(line := self.peer.line()):
                return self.note_answer(line)
        if hurry is None:
            return self.note_answer(self.read())
        if self.one_in(2):
            return self.cancel()
        self.put("take", **t, answer="unknown")
        self.waits = True
        raise Ended

    def note_answer(self, line, **more):
        t, self.taking = self.taking, None
        words = {"TIMEOUT": "timeout", "QUEUE_FULL": "queue_full", "ERROR NO_MEMBER": "no_member"}
        answer, held = words.get(line), {}
        if line == "RETURNED" and more:
            answer = "cancelled"
        if not answer:
            answer, got = "taken", [line.split(" ")]
            while len(got) < t["count"]:
                got.append(self.read().split(" "))
            if any(len(w) < 4 or w[:2] != ["TAKEN", got[0][1]] for w in got):
                raise Wrong("TAKE was answered with %s" % got)
            held = {"in_": got[0][1], "hold": " hold=".join("%s:%s" % (w[2], w[3]) for w in got)}
            self.holds += [int(w[3]) for w in got]
            self.some_fence.value = self.holds[-1]
        t.update(more, ret=time.monotonic_ns())
        self.put("take", **t, answer=answer, **held)

    def cancel(self):
        """Sends RETURN, because no answer has arrived: it ends the wait, or the newest hold."""
        call = time.monotonic_ns()
        self.say("RETURN")
        line = self.read()
        if line == "RETURNED":
            self.note_answer(line, left=call)
        else:
            self.note_answer(line)
            self.finish_return(call, self.holds[-1] if self.holds else 0, "ok")

    def finish_return(self, call, fence, how):
        line = self.read()
        if line not in ("RETURNED", "GONE", "NOT_TAKEN"):
            raise Wrong("RETURN was answered with " + line)
        self.put(
            "return", call=call, ret=time.monotonic_ns(), fence=fence, how=how, answer=line.lower()
        )
        if line != "NOT_TAKEN" and fence in self.holds:
            self.holds.remove(fence)
            self.returned = fence

    def give_back(self):
        how = "ok" if not self.one_in(5) else "fail"
        fence = self.rng.choice(self.holds) if self.holds else 0
        line = "RETURN %d " + how
        if self.holds and self.one_in(4):
            fence, line = self.holds[-1], "RETURN" + (" fail" if how == "fail" else "")
        elif fence == 0 or self.one_in(16):
            fence = self.rng.choice((self.returned, self.some_fence.value))
        call = time.monotonic_ns()
        self.say(line % fence if "%" in line else line)
        self.finish_return(call, fence, how)

    # --- roles ---

    def consume(self):
        pool = self.rng.choice(["plain"] * 3 + ["wash"] * 2 + ["frail"] * 2 + ["web"] * 2)
        members = list(PLANS[pool][1])
        pools, more = pool, {}
        if self.one_in(8) and members:
            more["member"] = self.rng.choice(members[:2])
        elif self.one_in(8):
            pools += "," + POOLS[(POOLS.index(pool) + 1) % len(POOLS)]
        elif self.one_in(8) and members:
            more["with_"] = "kind=b" if self.one_in(2) and pool != "frail" else "kind=a"
        elif self.one_in(8):
            more["count"] = 2
        self.take(pools, "check" if self.one_in(12) else "use", **more)

    def step(self):
        """Of a consumer or cleaner."""
        if self.holds and self.one_in(4):
            time.sleep(self.rng.random() * 2e-4)
        few = len(self.holds) < HOLDS_MAX - 1
        if not few or (self.holds and not self.one_in(4)) or self.one_in(32):
            self.give_back()
        elif self.number < CONSUMERS:
            self.consume()
        else:
            self.take(self.rng.choice(("wash", "frail")), "clean")

    def supply(self):
        """A step of a supplier."""
        if self.arrives(self.rng.random() * 2e-3):
            if self.is_answer(line := self.peer.line()):
                raise Wrong("a supplier was told " + line)
        for member in ("s%d-0" % self.number, "s%d-1" % self.number):
            there = member in self.there
            if there and member not in self.stopped and not self.one_in(8):
                continue
            call = time.monotonic_ns()
            self.say(("MEMBER DROP web %s now" if there else "JOIN web %s") % member)
            line = self.read()
            late = there and member in self.stopped and line == "ERROR NO_MEMBER"  # stop_timeout
            well = line == ("OK" if there else "JOINED") or late
            if not well and (there or line != "ERROR EXISTS"):
                raise Wrong(
                    "%s of %s was answered with %s" % ("DROP" if there else "JOIN", member, line)
                )
            self.put(
                "drop" if there else "join",
                call=call,
                ret=time.monotonic_ns(),
                pool="web",
                member=member,
                answer="ok" if well else "exists",
            )
            self.there ^= {member} if well else set()
            self.stopped.discard(member)

    def set_state(self, pool, member, state, now):
        call = time.monotonic_ns()
        self.say("MEMBER SET %s %s state=%s%s" % (pool, member, state, " now" if now else ""))
        if self.read() != "OK":
            raise Wrong("MEMBER SET is not OK")
        ret = time.monotonic_ns()
        self.put("set", call=call, ret=ret, pool=pool, member=member, state=state, now=int(now))

    def operate(self):
        """Changes states of `frail`; says now and then that a member of `wash` is clean."""
        time.sleep(self.rng.random() * 3e-3)
        if self.one_in(8):
            return self.set_state("wash", self.rng.choice(("w0", "w1", "w2")), "free", False)
        member, state = self.rng.choice(("f0", "f1")), self.rng.choice(("free", "dirty", "down"))
        self.set_state("frail", member, state, self.one_in(2))
        if state == "down":
            time.sleep(self.rng.random() * 1e-3)
            self.set_state("frail", member, "free", False)

    # --- lives ---

    def end(self):
        """Ends the connection in one of four ways."""
        call, ret = time.monotonic_ns(), None
        how = self.rng.choice(("quit", "quit", "half", "half", "reset", "close"))
        if self.waits or how == "half":
            how = "half"
            self.peer.eof()
            self.peer.wait_closed()
        elif how == "quit":
            self.say("QUIT")
            if self.read() != "BYE":
                raise Wrong("QUIT is not answered with BYE")
        elif how == "reset":
            self.peer.reset()
        if how in ("half", "quit"):
            ret = time.monotonic_ns()
        self.put("end", call=call, ret=ret, how=how)

    def live(self, step, most):
        self.clear()
        self.taking = None
        with wire.TextClient(self.address) as self.peer:
            try:
                for _ in range(1 + self.rng.randrange(most)):
                    step()
            except Ended:
                pass
            if step != self.operate:
                self.end()
        self.conn += CLIENTS

    def run(self, wanted):
        step, most = self.step, 40
        if self.number >= CONSUMERS + CLEANERS:
            step, most = self.supply, 60
        if self.number == CLIENTS - 1:
            step = self.operate
        while sum(self.made) < wanted:
            self.live(step, most)


def run(pipe, recorder, wanted):
    """A process. Sends its history, and what went wrong."""
    wrong = None
    try:
        recorder.run(wanted)
    except (Wrong, OSError, wire.Closed, wire.Timeout) as e:
        wrong = "connection %d: %s" % (recorder.conn, e)
        recorder.made[recorder.number] += wanted  # all others end
    pipe.send((recorder.lines, wrong))


def set_up(client, lines):
    for name, (options, members) in PLANS.items():
        client.ask("POOL DROP %s now" % name)
        lines.append("pool name=%s %s" % (name, options))
        requests = ["POOL ADD %s %s" % (name, options)]
        for member, attribute in members.items():
            requests.append("MEMBER ADD %s %s - %s" % (name, member, attribute))
            lines.append("member pool=%s name=%s %s" % (name, member, attribute))
        for request in requests:
            if client.ask(request) != "OK":
                raise Wrong("not OK: " + request)


def is_quiet(client):
    client.say("POOL LIST")
    return all(
        " taken=0 cleaning=0 checking=0 " in line and " waiting=0 " in line
        for line in iter(client.line, "")
    )


def record(address, operations, seed):
    """Returns the lines of a history, and what went wrong ("": nothing)."""
    made = multiprocessing.Array("L", CLIENTS, lock=False)
    fence = multiprocessing.Value("Q", 0, lock=False)
    lines, wrong, running = ["# seed %d" % seed], [], []
    with wire.TextClient(address) as client:
        set_up(client, lines)
        for number in range(CLIENTS):
            pipe, end = multiprocessing.Pipe(False)
            recorder = Recorder(address, number, seed, made, fence)
            process = multiprocessing.Process(target=run, args=(end, recorder, operations))
            process.start()
            end.close()
            running.append((process, pipe))
        for process, pipe in running:
            try:
                more, bad = pipe.recv()
                lines += more
                wrong += [bad] if bad else []
            except EOFError:
                wrong.append("a recorder ended")
            process.join()
        if not wrong:
            wire.poll(lambda: is_quiet(client), "nobody holds or awaits anything")
    return lines, "\n".join(wrong)
