"""Upgrades in place under load: clients may notice only a pause.

Clients of both protocols hold names up to their limit, and others wait in line. All the time
holders give back and queue again, and the campaign knows the next holder; requests are sent in
pieces. Two clients in separate processes, one of each protocol, only send requests and measure how
long answers take. Meanwhile the daemon is upgraded again and again: to another file of the same
program, with other numbers of threads, and sometimes to one that crashes, hangs, refuses or has too
little memory.

Pools have lines of the same kind, whose members must go with growing fences to the next in line; a
supplier whose members fail, is told STOP and joins others; clients with TLS, whose member crashes
and is lost at each upgrade; and a watcher, who must be told of each move once.

The campaign finds: connections that end, wrong answers, a waiter that is granted out of order or
not at all, units that are lost or doubled, answers that take too long. The seed determines which
holders give back when, and which upgrades are made; the machine determines when these meet.
"""

import argparse
import multiprocessing
import os
import random
import re
import resource
import selectors
import shutil
import signal
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "system"))

import certificates  # noqa: E402
import servers  # noqa: E402
import wire  # noqa: E402

LIMIT = 10  # number of holders of a name
PATIENCE = 60.0  # s, until an answer is taken for lost
LONG = 0.005  # s: answers that took longer are noted

# Programs that crash, hang or refuse in one part, and otherwise are the daemon.
BAD = [
    ("check", "kill -SEGV $$"),
    ("check", "echo it does not want to >&2; exit 1"),
    ("rehearse", "kill -ABRT $$"),
    ("rehearse", "kill -KILL $$"),
    ("rehearse", "exec sleep 600"),
    ("rehearse", "exit 7"),
]
LEAN = ("rehearse", "ulimit -v %d")  # KiB: refuses, or is good enough


class Found(Exception):
    """The daemon has made a mistake."""


# --- clients that measure ------------------------------------------------------------------------


def measure(kind, address, end, results):
    """Sends requests until `end`. Reports slow answers as (time of the request, duration)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    slow, count, failure = [], 0, None
    try:
        if kind == "text":
            client = wire.TextClient(address, deadline=PATIENCE)
            name = "steady"
        else:
            client = wire.BinaryClient(address, deadline=PATIENCE)
            name = b"steady binary"
        while not end.is_set():
            for step in ("take", "give"):
                begun = time.monotonic()
                if kind == "text":
                    said = client.ask(
                        "ACQ4ME %s 1 2 5" % name if step == "take" else "RELEASE %s" % name
                    )
                    good = said == ("LOCKED" if step == "take" else "RELEASED")
                else:
                    said = client.acquire(2, 2, name) if step == "take" else client.release(2, name)
                    good = said == wire.OK
                took = time.monotonic() - begun
                count += 1
                if took > LONG:
                    slow.append((begun, took))
                if not good:
                    raise Found("%s: %s was answered %r" % (kind, step, said))
            time.sleep(0.0005)
    except (Found, AssertionError, OSError) as e:
        failure = "%s client that measures: %s" % (kind, e)
    results.put((kind, count, slow, failure))


# --- holders and waiters -------------------------------------------------------------------------


class Client:
    """A connection of the crowd, with the bytes still to send and the bytes read."""

    def __init__(self, crowd, name):
        self.crowd = crowd
        self.name = name
        self.socket = wire.TextClient(crowd.daemon.text, deadline=PATIENCE)
        self.socket.sock.setblocking(False)
        self.to_send = b""
        self.since = time.monotonic()
        crowd.selector.register(self.socket.sock, selectors.EVENT_READ, self)

    def say(self, text):
        """Sends text, sometimes in two pieces: the second in the crowd's next iteration."""
        data = text.encode()
        self.since = time.monotonic()
        cut = len(data) if self.crowd.random.random() < 0.7 else self.crowd.random.randrange(len(data))
        if cut:
            self.socket.sock.send(data[:cut])
        if cut < len(data):
            self.to_send = data[cut:]
            self.crowd.halves.append(self)

    def ask(self, line, answer):
        """At the start: sends a line, and checks how the answer begins."""
        self.socket.sock.setblocking(True)
        said = self.socket.ask(line) if line else self.socket.line()
        self.socket.sock.setblocking(False)
        if not said.startswith(answer):
            raise Found("at the start: %s: %r" % (line, said))

    def send_rest(self):
        self.socket.sock.send(self.to_send)
        self.to_send = b""

    def read(self):
        """Returns the lines that have arrived."""
        try:
            data = self.socket.sock.recv(65536)
        except BlockingIOError:
            return []
        except OSError as e:
            raise Found("connection dropped: %s" % e) from None
        if not data:
            raise Found("connection dropped, of a client of %s" % self.name.text)
        self.socket.buffer += data
        *lines, rest = bytes(self.socket.buffer).split(b"\n")
        self.socket.buffer = bytearray(rest)
        return [line.decode() for line in lines]


class Name:
    """
    A name, its holders, and its waiters, oldest first. One event at a time: a holder gives back,
    the oldest waiter gets the unit, and then the former holder queues again.
    """

    def __init__(self, crowd, number, limit):
        self.crowd = crowd
        self.text = "name-%d" % number
        self.holders, self.waiters = [], []
        self.giver = self.getter = None
        self.step = None
        self.limit = limit
        self.acquire = "ACQ4ME %s %d %d 3600\n" % (self.text, limit, 4 * limit)
        self.got_word = "LOCKED"
        self.counter = self.text  # its units
        self.kept = LIMIT // 2  # by the binary clients

    def giving(self, client):
        return "RELEASE %s\n" % self.text

    def is_given(self, line):
        return line == "RELEASED"

    def got(self, client, line):
        """Its unit has come to a client."""

    def begin(self):
        self.giver = self.crowd.random.choice(self.holders)
        self.getter = self.waiters[0]
        self.step = "giving"
        self.has_given = self.has_got = False
        self.giver.say(self.giving(self.giver))

    def heard(self, client, line):
        """Handles a line for one of its clients."""
        if self.step == "giving" and client is self.giver and self.is_given(line):
            self.has_given = True
        elif self.step == "giving" and client is self.getter and line.startswith(self.got_word):
            self.got(client, line)
            self.has_got = True
        elif self.step == "queueing" and client is self.giver and line.startswith("uptime: "):
            self.waiters.append(client)
            self.step = self.giver = self.getter = None
            self.crowd.steps += 1
            return
        elif line.startswith(self.got_word) and client in self.waiters:
            raise Found("order inverted: of %s, number %d got it" % (self.text, self.waiters.index(client)))
        else:
            raise Found("%s: %r came, in step %s" % (self.text, line, self.step))
        if self.has_given and self.has_got and self.step == "giving":
            self.holders.remove(self.giver)
            self.holders.append(self.waiters.pop(0))
            self.step = "queueing"
            self.giver.say(self.acquire + "STATS uptime\n")


class Line(Name):
    """A static pool, as a name: its members go from hand to hand, with growing fences."""

    def __init__(self, crowd, number):
        super().__init__(crowd, number, LIMIT)
        self.text = "db-%d" % number
        self.counter, self.kept = "pool:" + self.text, 0
        self.acquire = "TAKE %s 3600\n" % self.text
        self.got_word = "TAKEN %s " % self.text
        self.holds, self.fence, self.member = {}, 0, None

    def giving(self, client):
        self.member, fence = self.holds.pop(client)
        return self.crowd.random.choice(["RETURN\n", "RETURN %s ok\n" % fence])

    def is_given(self, line):
        return line == "RETURNED"

    def got(self, client, line):
        """Its member has come to a client."""
        _, _, member, fence, value = line.split()
        if self.member not in (None, member) or value != "at-" + member or int(fence) <= self.fence:
            raise Found("%r, after a return of %s, and the fence %d" % (line, self.member, self.fence))
        if member in (held for held, _ in self.holds.values()):
            raise Found("%r, which is held" % line)
        self.holds[client] = member, fence
        self.fence = int(fence)
        self.crowd.moves += 1 if self.member is None else 2


class Joined:
    """
    A joined pool. A taker fails its member; the supplier is told to stop it, does, and joins
    another, which the taker gets.
    """

    MEMBERS = 3

    def __init__(self, crowd):
        self.crowd, self.text, self.number, self.step = crowd, "br", 0, None
        self.counter = "pool:br"
        self.supplier = Client(crowd, self)
        self.takers = [Client(crowd, self) for _ in range(self.MEMBERS)]
        self.giver, self.getter, self.holds = self.supplier, None, {}
        self.supplier.ask("SUPPLY br 3 3", "OK")
        self.supplier.ask(None, "WANT br 3")
        for taker in self.takers:
            self.number += 1
            self.supplier.ask("JOIN br b%d" % self.number, "JOINED")
            self.holds[taker] = "b%d" % self.number
            taker.ask("TAKE br", "TAKEN br b%d " % self.number)
        crowd.moves += 2 * self.MEMBERS

    def begin(self):
        self.giver = self.crowd.random.choice(self.takers)
        self.awaited = {"RETURNED": self.giver, "STOP br %s fail" % self.holds[self.giver]: self.supplier}
        self.step = "failing"
        self.giver.say("RETURN fail\n")

    def heard(self, client, line):
        if self.step == "taking" and client is self.giver and line.startswith("TAKEN br b%d " % self.number):
            self.holds[client] = "b%d" % self.number
            self.step = None
            self.crowd.steps += 1
            self.crowd.moves += 4
            return
        if self.step not in ("failing", "joining") or self.awaited.pop(line, None) is not client:
            raise Found("br: %r came, in step %s" % (line, self.step))
        if self.awaited:
            return
        if self.step == "failing":
            self.number += 1
            self.awaited = {"OK": self.supplier, "JOINED": self.supplier}
            self.step = "joining"
            self.supplier.say("MEMBER DROP br %s now\nJOIN br b%d\n" % (self.holds[self.giver], self.number))
        else:
            self.step = "taking"
            self.giver.say("TAKE br 3600\n")


class Secure:
    """Clients with TLS of this upgrade: one has taken a member, one has joined one."""

    def __init__(self, crowd, tls):
        self.crowd, self.tls, self.clients = crowd, tls, []

    def come(self):
        if self.clients:
            for client in self.clients:
                if not client.ask("STATS uptime").startswith("uptime: "):
                    raise Found("a client with TLS was answered wrongly")
            return
        self.clients = [wire.TextClient(self.crowd.daemon.text_tls, deadline=PATIENCE, tls=self.tls)
                        for _ in range(2)]  # fmt: skip
        for line, answer in (("TAKE tls", "TAKEN tls t1 "), ("JOIN far f1", "JOINED")):
            client = self.clients[answer == "JOINED"]
            said = client.ask(line)
            if not said.startswith(answer):
                raise Found("%s with TLS: %r" % (line, said))
        self.crowd.moves += 2

    def judge(self):
        """After an upgrade they are gone, with their members."""
        for client in self.clients:
            if client.wait_closed():
                raise Found("a client with TLS was told something at its end")
            client.close()
        self.clients = []
        counts = self.crowd.pools()
        if counts["tls"]["dirty"] != 1 or counts["far"]["members"] != 0:
            raise Found("of clients with TLS: %s" % counts)
        if self.crowd.control.ask("MEMBER SET tls t1 state=free") != "OK":
            raise Found("their member stays dirty")
        self.crowd.moves += 3  # crash, lost, operator


class Watcher:
    """Follows all members by their events: each begins in the state where the one before ended."""

    def __init__(self, crowd):
        self.text, self.events, self.states, self.is_answered = "*", 0, {}, False
        self.client = Client(crowd, self)
        self.client.ask("WATCH *", "OK")

    def heard(self, client, line):
        words = line.split()
        if line.startswith("uptime: "):
            self.is_answered = True
            return
        if words[0] != "EVENT" or words[2] == "-":
            raise Found("the watcher was told %r" % line)
        member = words[1], words[2]
        before = self.states.get(member, "free" if words[1] != "br" and words[1] != "far" else "-")
        if before != words[3]:
            raise Found("%s was %s: %r" % (words[2], before, line))
        self.states[member] = words[4]
        self.events += 1


class Crowd:
    """All names, and the loop that keeps them busy."""

    def __init__(self, daemon, rng, holders, waiters, tls):
        self.daemon, self.random = daemon, rng
        self.selector = selectors.DefaultSelector()
        self.halves, self.steps, self.moves = [], 0, 0
        self.control = wire.TextClient(daemon.text, deadline=PATIENCE)
        self.binary = wire.BinaryClient(daemon.binary, deadline=PATIENCE)
        self.binaries = []
        self.names = []
        count = max(1, holders // LIMIT)
        each = max(1, waiters // count)
        for number in range(count):
            name = Name(self, number, LIMIT)
            for i in range(LIMIT):  # half of them binary; these keep their units
                if i % 2:
                    client = wire.BinaryClient(daemon.binary, deadline=PATIENCE)
                    assert client.acquire(1, LIMIT, name.text.encode()) == wire.OK
                    self.binaries.append(client)
                else:
                    self.await_line(name, name.holders, name.acquire, "LOCKED")
            for _ in range(each):
                self.await_line(name, name.waiters, name.acquire + "STATS uptime\n", "uptime: ")
            self.names.append(name)
        self.waiting = each * count
        self.watcher = Watcher(self)
        self.lines = [Line(self, number) for number in range(lines_of(holders))]
        for name in self.lines:
            for _ in range(LIMIT):
                self.await_line(name, name.holders, name.acquire, name.got_word)
            for _ in range(LIMIT):
                self.await_line(name, name.waiters, name.acquire + "STATS uptime\n", "uptime: ")
        self.joined = Joined(self)
        self.names += self.lines + [self.joined]
        self.secure = Secure(self, tls)

    def await_line(self, name, kind, text, start):
        """
        Connects a client that sends `text`, checks that its answer begins with `start`, and adds it
        to `kind`.
        """
        client = Client(self, name)
        client.socket.sock.setblocking(True)
        client.socket.send(text.encode())
        line = client.socket.line()
        if not line.startswith(start):
            raise Found("at the start: %r" % line)
        client.socket.sock.setblocking(False)
        if line.startswith(name.got_word):
            name.got(client, line)
        kind.append(client)

    def turn(self, begin=True):
        """One iteration: starts events and reads answers for a moment."""
        halves, self.halves = self.halves, []
        if begin:
            for name in self.names:
                if name.step is None and self.random.random() < 0.5:
                    name.begin()
        for key, _ in self.selector.select(0.005):
            for line in key.data.read():
                key.data.name.heard(key.data, line)
        for client in halves:
            client.send_rest()
        now = time.monotonic()
        for name in self.names:
            if name.step and now - name.giver.since > PATIENCE:
                raise Found("%s: nothing has come for %d s in step %s" % (name.text, PATIENCE, name.step))

    def come_to_rest(self):
        while any(name.step for name in self.names) or self.halves:
            self.turn(begin=False)

    def check(self):
        """Waits for rest, and compares the daemon's numbers with the expected ones."""
        self.come_to_rest()
        got = self.control.stat("waiting_workers")
        if got != self.waiting:
            raise Found("%d wait, and should be %d" % (got, self.waiting))
        for name in self.names:
            got = self.binary.get(name.counter.encode())
            should = Joined.MEMBERS if name is self.joined else LIMIT
            if got != should:
                raise Found("%s: %r units are held, not %d" % (name.counter, got, should))
        counts = self.pools()
        for name in self.lines:
            is_right = counts[name.text]["taken"] == counts[name.text]["waiting"] == LIMIT
            if not is_right or self.fences(name.text) != dict(name.holds.values()):
                raise Found("%s: %s" % (name.text, counts[name.text]))
        if set(self.fences("br")) != set(self.joined.holds.values()):
            raise Found("br: %s" % self.fences("br"))
        self.check_events()

    def check_events(self):
        """All moves have been told, and then no more come."""
        until = time.monotonic() + PATIENCE
        while self.watcher.events < self.moves and time.monotonic() < until:
            self.turn(begin=False)
        self.watcher.is_answered = False
        self.watcher.client.socket.sock.send(b"STATS uptime\n")
        while not self.watcher.is_answered and time.monotonic() < until:
            self.turn(begin=False)
        if self.watcher.events != self.moves or not self.watcher.is_answered:
            raise Found("%d events, and %d moves" % (self.watcher.events, self.moves))

    def listing(self, line):
        self.control.say(line)
        return [line.split() for line in iter(self.control.line, "")]

    def pools(self):
        """The counts of each pool."""
        return {words[1]: {key: int(value) for key, _, value in (w.partition("=") for w in words[5:14])}
                for words in self.listing("POOL LIST")}  # fmt: skip

    def fences(self, pool):
        """The held members of a pool."""
        return {words[1]: words[4] for words in self.listing("POOL SHOW " + pool)
                if words[0] == "MEMBER" and words[4] != "-"}  # fmt: skip

    def finish(self):
        """Gives everything back; each waiter must get its unit in order."""
        self.come_to_rest()
        self.names.remove(self.joined)
        for client in self.secure.clients:
            client.close()
        for name in self.names:
            for client in name.holders + name.waiters:
                client.socket.sock.setblocking(True)
            while name.holders:
                giver = name.holders.pop(0)
                giver.socket.send(name.giving(giver).encode())
                if not name.is_given(giver.socket.line()):
                    raise Found("%s: a unit was lost" % name.text)
                giver.socket.close()
                if name.waiters:
                    getter = name.waiters.pop(0)
                    line = getter.socket.line()
                    if not line.startswith(name.got_word):
                        raise Found("%s: a waiter was lost" % name.text)
                    name.got(getter, line)
                    name.holders.append(getter)
            if self.binary.get(name.counter.encode()) != name.kept:
                raise Found("%s: units are left over" % name.text)
        for client in self.binaries:
            client.close()
        for client in self.joined.takers + [self.joined.supplier]:
            client.socket.close()
        wire.poll(lambda: self.pools()["br"]["members"] == 0, "joined members are lost", PATIENCE)
        wire.poll(lambda: self.control.stat("processing_workers") <= 1, "all is free", PATIENCE)


# --- upgrades ------------------------------------------------------------------------------------


class Upgrader:
    """The daemon, its program and its settings."""

    def __init__(self, folder, rng, lines, pair):
        self.random = rng
        self.pools = "pool.br.kind = joined\npool.far.kind = joined\npool.tls.members = t1\n"
        self.pools += "".join("pool.db-%d.members = %s\n" % (i, ", ".join("m%d=at-m%d" % (n, n) for n in range(LIMIT)))
                              for i in range(lines))  # fmt: skip
        self.program = os.path.join(folder, "counterd")
        self.settings = os.path.join(folder, "counter.conf")
        self.number = self.threads = 0
        self.configure(2)
        self.install()
        self.daemon = servers.Counterd(
            "upgrade.timeout=5" if not wire.SLOW else "upgrade.timeout=60",
            "tls.cert=" + pair[0],
            "tls.key=" + pair[1],
            "poolcounter.tls_port=%d" % servers.free_port(),
            program=self.program,
            args=["-f", self.settings],
        )

    def configure(self, threads):
        if threads != self.threads:
            with open(self.settings, "w") as f:
                f.write("counter.threads = %d\n%s" % (threads, self.pools))
            self.threads = threads

    def install(self, bad=None):
        self.number += 1
        fresh = "%s.%d" % (self.program, self.number % 2)
        if os.path.exists(fresh):
            os.unlink(fresh)
        if bad:
            with open(fresh, "w") as f:
                # One that is good enough puts the daemon into its own place.
                f.write(
                    '#!/bin/sh\ncase "$COUNTERD_UPGRADE" in\n%s*) %s ;;\n'
                    'take*) cp %s %s.own && mv %s.own %s && exec %s "$@" ;;\nesac\nexec %s "$@"\n'
                    % (bad[0], bad[1], os.path.abspath(servers.COUNTERD), *[self.program] * 4,
                       os.path.abspath(servers.COUNTERD))
                )  # fmt: skip
            os.chmod(fresh, 0o755)
        else:
            shutil.copy(servers.COUNTERD, fresh)
        os.rename(fresh, self.program)

    def upgrade(self, crowd, bad):
        """Makes one upgrade. Returns when it began and ended; False if it was refused, as it may."""
        daemon = self.daemon
        self.install(bad)
        with daemon.changed:
            seen = len(daemon.lines)
        begun = time.monotonic()
        daemon.child.send_signal(signal.SIGUSR1)
        refused, done = "goes on as before", r"info: ready: "
        may_be_refused = bool(bad) and "ulimit" in bad[1]
        pattern = "%s|%s" % (refused, done) if may_be_refused else refused if bad else done
        while True:
            crowd.turn()
            with daemon.changed:
                said = daemon.lines[seen:]
            if None in said:
                raise Found("the daemon ended:\n%s" % daemon.log[-2000:])
            if any(re.search(pattern, line) for line in said):
                break
            if not bad and any(refused in line for line in said):
                raise Found("it was not upgraded:\n%s" % "\n".join(said))
            if time.monotonic() - begun > PATIENCE + 60:
                raise Found("the upgrade is not over:\n%s" % "\n".join(said))
        return not any(refused in line for line in said) and (begun, time.monotonic())


def lines_of(holders):
    """The number of pools, for so many holders of names."""
    return max(1, holders // 100)


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0.0


def campaign(options, folder):
    rng = random.Random(options.seed)
    authority = certificates.Authority(folder)
    upgrader = Upgrader(folder, rng, lines_of(options.holders), authority.issue("server"))
    try:
        put_through(options, rng, upgrader, certificates.context(authority))
    finally:
        upgrader.daemon.kill()


def put_through(options, rng, upgrader, tls):
    daemon = upgrader.daemon
    end, results = multiprocessing.Event(), multiprocessing.Queue()
    processes = []
    good, refused = [], 0
    try:
        crowd = Crowd(daemon, rng, options.holders, options.waiters, tls)
        for kind, address in (("text", daemon.text), ("binary", daemon.binary)):
            process = multiprocessing.Process(target=measure, args=(kind, address, end, results))
            process.start()
            processes.append(process)
        for number in range(options.upgrades):
            bad = rng.choice(BAD) if number % 10 == 4 or rng.random() < 0.02 else None
            if number % 10 in (2, 7) and not wire.SLOW:
                bad = LEAN[0], LEAN[1] % rng.randrange(*rng.choice([(10000, 200000), (1000000, 1120000)]))
            if wire.SLOW and bad and "sleep" in bad[1]:
                bad = BAD[0]
            upgrader.configure(rng.choice((1, 2, 3)) if rng.random() < 0.1 else upgrader.threads)
            until = time.monotonic() + rng.uniform(0, options.between)
            while time.monotonic() < until:
                crowd.turn()
            crowd.secure.come()
            window = upgrader.upgrade(crowd, bad)
            refused += not window
            if window:
                crowd.secure.judge()
            if not bad:  # one that has little memory also copies itself
                good.append(window)
            if number % 10 == 9 or number == options.upgrades - 1:
                crowd.check()
                print("# %d upgrades, %d hand-overs" % (number + 1, crowd.steps), flush=True)
        crowd.check()
    finally:
        end.set()
        measured = [results.get(timeout=2 * PATIENCE) for _ in processes]
        for process in processes:
            process.join()
    asked = 0
    pauses = [0.0] * len(good)
    for _, count, slow, failure in measured:
        if failure:
            raise Found(failure)
        asked += count
        for when, took in slow:
            for i, (first, last) in enumerate(good):
                if when <= last and when + took >= first:
                    pauses[i] = max(pauses[i], took)
                    break  # sent before or during this upgrade
    crowd.finish()
    daemon.stop()
    worst, high = max(pauses, default=0.0), percentile(pauses, 0.99)
    own = [int(ms) for ms in re.findall(r"has taken over from .* for (\d+) ms", daemon.log)]
    print("# by the daemon's own clock: median %d ms, worst %d ms" % (percentile(own, 0.5), max(own or [0])))
    print(
        "upgrade: seed %d: %d upgrades, %d of them refused, %d hand-overs, %d steady requests; 0 dropped, "
        "0 lost or doubled, 0 out of order; pause: median %.0f ms, 99th percentile %.0f ms, worst %.0f ms"
        % (
            options.seed, options.upgrades, refused, crowd.steps, asked,
            percentile(pauses, 0.5) * 1e3, high * 1e3, worst * 1e3,
        )
    )  # fmt: skip
    if options.pause_ms and high * 1e3 > options.pause_ms:
        raise Found("the 99th percentile of the pauses is above %d ms" % options.pause_ms)


def main():
    parser = argparse.ArgumentParser(prog="./dev torture upgrade", description=__doc__.split("\n")[0])
    parser.add_argument("--upgrades", type=int, default=100)
    parser.add_argument("--holders", type=int, default=1000)
    parser.add_argument("--waiters", type=int, default=1000)
    parser.add_argument("--between", type=float, default=0.3, help="s, at most, between two upgrades")
    parser.add_argument("--pause-ms", type=int, default=250, help="99th percentile; 0: not judged")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    options = parser.parse_args()
    print("# seed %d" % options.seed, flush=True)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory(prefix="upgrade-") as folder:
        try:
            campaign(options, folder)
        except (Found, AssertionError, OSError, ValueError) as e:
            print("upgrade: seed %d: FOUND: %s" % (options.seed, e))
            os._exit(1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
