#!/usr/bin/env python3
"""
Which of our functions does one request call? `./dev way` prints, for single requests of a warm daemon,
the calls of functions whose body has 6 lines or more with its braces, how many such functions these
are, and the calls of all functions; -v lists the former in their order, with a letter for the thread of each.

The daemon (build/way) is built without optimisation, so inline functions count, too. The calls of a
request are those of all threads from its bytes to the end of what it causes: of the event loop, of
the store's or the node's thread. A timer or a beat of the cluster may come between; so of ROUNDS
rounds, the one with the fewest calls is taken. Libraries do not count.
"""

import argparse
import collections
import contextlib
import mmap
import os
import re
import socket
import string
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(ROOT, "build", "way")
sys.path.insert(0, os.path.join(ROOT, "t", "system"))
import redis_servers  # noqa: E402
import servers  # noqa: E402

ROUNDS = 15
WARM_UP = 5  # rounds
LINES = 6
QUIET_S = 0.03  # without a call: all is done
PATIENCE_S = 30
RING = 1 << 16  # of way.c

# What a round sends, and a regular expression of the answer; ID is the last job's. A step with a name is counted.
Step = collections.namedtuple("Step", "name protocol request answer")
ALONE = [
    Step("ACQ4ME, local", "text", "ACQ4ME name 10 1000 15\n", "LOCKED\n"),
    Step("", "text", "RELEASE name\n", "RELEASED\n"),
    Step("TAKE", "text", "TAKE pool 15\n", "TAKEN .*\n"),
    Step("", "text", "RETURN\n", "RETURNED\n"),
    Step("put", "jobs", "put 0 0 60 4\r\nbody\r\n", r"INSERTED (\d+)\r\n"),
    Step("reserve", "jobs", "reserve\r\n", r"RESERVED (\d+) 4\r\nbody\r\n"),
    Step("delete", "jobs", "delete ID\r\n", r"DELETED\r\n"),
]
SHARED = [
    Step("ACQ4ME, shared", "text", "ACQ4ME shared 10 1000 15\n", "LOCKED\n"),
    Step("", "text", "RELEASE shared\n", "RELEASED\n"),
]
Call = collections.namedtuple("Call", "thread function")
Function = collections.namedtuple("Function", "name place lines")


class Calls:
    """The file that the daemon writes (way.c)."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "calls")
        with open(self.path, "wb") as f:
            f.truncate(8 + 16 * RING)
        with open(self.path, "rb") as f:
            self.map = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)

    def count(self):
        return struct.unpack_from("=Q", self.map)[0]

    def when_quiet(self):
        """Waits until nothing is called any more, and returns the count."""
        until, count = time.monotonic() + PATIENCE_S, -1
        while count != self.count():
            if time.monotonic() > until:
                raise SystemExit("way: the daemon does not come to rest")
            count = self.count()
            time.sleep(QUIET_S)
        return count

    def between(self, start, end):
        """The calls of these numbers: pairs of function and thread."""
        assert end - start < RING
        return [struct.unpack_from("=QQ", self.map, 8 + 16 * (n % RING)) for n in range(start, end)]


class Functions:
    """The functions of the daemon by address, with the lines of their bodies."""

    def __init__(self, program, pid):
        self.program, self.known, self.sources = program, {}, {}
        with open("/proc/%d/maps" % pid) as f:
            self.base = next(int(line.split("-")[0], 16) for line in f if line.rstrip().endswith(program))

    def at(self, addresses):
        new = sorted(set(addresses) - set(self.known))
        asked = "".join("%#x\n" % (address - self.base) for address in new)
        said = subprocess.check_output(["addr2line", "-f", "-e", self.program], input=asked, text=True).splitlines()
        for address, name, place in zip(new, said[::2], said[1::2]):
            path, line = place.split(" ")[0].rsplit(":", 1)
            path = os.path.relpath(os.path.join(BUILD, path), ROOT)
            self.known[address] = Function(name, "%s:%s" % (path, line), self.lines(path, int(line)))
        return [self.known[address] for address in addresses]

    def lines(self, path, line):
        if path not in self.sources:
            with open(os.path.join(ROOT, path)) as f:
                self.sources[path] = f.read().splitlines()
        source = self.sources[path]
        opened = source.index("{", line - 1)
        return source.index("}", opened) - opened + 1


def answer_of(sock, pattern):
    got = b""
    while not re.fullmatch(pattern.encode(), got):
        more = sock.recv(4096)
        got += more
        if not more or len(got) > 4096:
            raise SystemExit("way: %r instead of %r" % (got, pattern))
    return re.fullmatch(pattern.encode(), got)


def play(calls, steps, sockets):
    """Plays a round. Returns the addresses and threads of the calls of each step."""
    job, found = b"", {}
    for step in steps:
        start = calls.when_quiet()
        sock = sockets[step.protocol]
        sock.sendall(step.request.encode().replace(b"ID", job))
        answer = answer_of(sock, step.answer)
        job = answer[1] if answer.re.groups else job
        found[step.name] = calls.between(start, calls.when_quiet())
    return found


def ways(steps, *options):
    """The calls of each step with a name, on a daemon with these options."""
    with tempfile.TemporaryDirectory(prefix="way-") as folder, contextlib.ExitStack() as stack:
        calls, program = Calls(folder), os.path.join(BUILD, "counterd")
        daemon = servers.Counterd(
            "counter.threads=1",
            *options,
            env={"LD_PRELOAD": os.path.join(BUILD, "way.so"), "WAY_FILE": calls.path},
            program=program,
        )
        stack.callback(daemon.kill)
        addresses = {"text": daemon.text, "jobs": daemon.jobs}
        sockets = {p: stack.enter_context(socket.create_connection(addresses[p], PATIENCE_S)) for p in
                   {step.protocol for step in steps}}  # fmt: skip
        rounds = [play(calls, steps, sockets) for _ in range(WARM_UP + ROUNDS)][WARM_UP:]
        functions = Functions(program, daemon.pid)
        for step in filter(lambda step: step.name, steps):
            least = min((found[step.name] for found in rounds), key=len)
            letters = {thread: string.ascii_lowercase[n] for n, thread in enumerate(dict.fromkeys(t for _, t in least))}
            yield step, [Call(letters[t], f) for f, (_, t) in zip(functions.at([a for a, _ in least]), least)]
        daemon.stop()


def main():
    parser = argparse.ArgumentParser(prog="./dev way", description="Which of our functions does one request call?")
    parser.add_argument("-v", action="store_true", help="list the calls in their order: thread, lines, function, place")
    verbose = parser.parse_args().v
    print("%-16s %6s %10s %10s" % ("request", "calls", "functions", "all calls"))
    with redis_servers.RedisServer(tcp=True) as engine, tempfile.TemporaryDirectory(prefix="way-") as folder:
        jobs = "jobs.path=%s" % os.path.join(folder, "jobs.db")
        for step, calls in [
            *ways(ALONE, "pool.pool.members=a,b,c", "jobs.enable=true", "jobs.port=0", jobs),
            *ways(SHARED, "cluster.engine=" + engine.url, "cluster.node=way", "cluster.strict=shared"),
        ]:
            long = [call for call in calls if call.function.lines >= LINES]
            print("%-16s %6d %10d %10d" % (step.name, len(long), len({c.function for c in long}), len(calls)))
            for call in long if verbose else ():
                print("    %s %3d  %-36s %s" % (call.thread, call.function.lines, call.function.name, call.function.place))


if __name__ == "__main__":
    main()
