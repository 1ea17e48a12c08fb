"""Upgrades in place under load: clients may notice only a pause.

Clients of both protocols hold names up to their limit, and others wait in line. All the time
holders give back and queue again, and the campaign knows the next holder; requests are sent in
pieces. Two clients in separate processes, one of each protocol, only send requests and measure how
long answers take. Meanwhile the daemon is upgraded again and again: to another file of the same
program, with other numbers of threads, and sometimes to one that crashes, hangs, refuses or has too
little memory.

Pools over upgrades: ./dev torture pools.

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
                    said = client.ask("ACQ4ME %s 1 2 5" % name if step == "take" else "RELEASE %s" % name)
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
        self.acquire = "ACQ4ME %s %d %d 3600\n" % (self.text, limit, 4 * limit)

    def begin(self):
        self.giver = self.crowd.random.choice(self.holders)
        self.getter = self.waiters[0]
        self.step = "giving"
        self.has_given = self.has_got = False
        self.giver.say("RELEASE %s\n" % self.text)

    def heard(self, client, line):
        """Handles a line for one of its clients."""
        if self.step == "giving" and client is self.giver and line == "RELEASED":
            self.has_given = True
        elif self.step == "giving" and client is self.getter and line == "LOCKED":
            self.has_got = True
        elif self.step == "queueing" and client is self.giver and line.startswith("uptime: "):
            self.waiters.append(client)
            self.step = self.giver = self.getter = None
            self.crowd.steps += 1
            return
        elif line == "LOCKED" and client in self.waiters:
            raise Found("order inverted: of %s, number %d got it" % (self.text, self.waiters.index(client)))
        else:
            raise Found("%s: %r came, in step %s" % (self.text, line, self.step))
        if self.has_given and self.has_got and self.step == "giving":
            self.holders.remove(self.giver)
            self.holders.append(self.waiters.pop(0))
            self.step = "queueing"
            self.giver.say(self.acquire + "STATS uptime\n")


class Crowd:
    """All names, and the loop that keeps them busy."""

    def __init__(self, daemon, rng, holders, waiters):
        self.daemon, self.random = daemon, rng
        self.selector = selectors.DefaultSelector()
        self.halves, self.steps = [], 0
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
            got = self.binary.get(name.text.encode())
            if got != LIMIT:
                raise Found("%s: %r units are held, not %d" % (name.text, got, LIMIT))

    def finish(self):
        """Gives everything back; each waiter must get its unit in order."""
        self.come_to_rest()
        for name in self.names:
            for client in name.holders + name.waiters:
                client.socket.sock.setblocking(True)
            while name.holders:
                giver = name.holders.pop(0)
                if giver.socket.ask("RELEASE " + name.text) != "RELEASED":
                    raise Found("%s: a unit was lost" % name.text)
                giver.socket.close()
                if name.waiters:
                    getter = name.waiters.pop(0)
                    if getter.socket.line() != "LOCKED":
                        raise Found("%s: a waiter was lost" % name.text)
                    name.holders.append(getter)
            if self.binary.get(name.text.encode()) != LIMIT // 2:
                raise Found("%s: units are left over" % name.text)
        for client in self.binaries:
            client.close()
        wire.poll(lambda: self.control.stat("processing_workers") <= 1, "all is free", PATIENCE)


# --- upgrades ------------------------------------------------------------------------------------


class Upgrader:
    """The daemon, its program and its settings."""

    def __init__(self, folder, rng):
        self.random = rng
        self.program = os.path.join(folder, "counterd")
        self.settings = os.path.join(folder, "counter.conf")
        self.number = self.threads = 0
        self.configure(2)
        self.install()
        self.daemon = servers.Counterd(
            "upgrade.timeout=5" if not wire.SLOW else "upgrade.timeout=60",
            program=self.program,
            args=["-f", self.settings],
        )

    def configure(self, threads):
        if threads != self.threads:
            with open(self.settings, "w") as f:
                f.write("counter.threads = %d\n" % threads)
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


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0.0


def campaign(options, folder):
    rng = random.Random(options.seed)
    upgrader = Upgrader(folder, rng)
    try:
        put_through(options, rng, upgrader)
    finally:
        upgrader.daemon.kill()


def put_through(options, rng, upgrader):
    daemon = upgrader.daemon
    end, results = multiprocessing.Event(), multiprocessing.Queue()
    processes = []
    good, refused = [], 0
    try:
        crowd = Crowd(daemon, rng, options.holders, options.waiters)
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
            window = upgrader.upgrade(crowd, bad)
            refused += not window
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
