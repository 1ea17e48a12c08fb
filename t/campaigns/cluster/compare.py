"""Random calls of nodes to the engine in memory and to a real Redis with the scripts.

Compares every answer, every message on each session's channel, and at times all keys. What may differ is
made alike first: the term, the order in which hashes answer, texts of errors behind their word.

    compare.py [--seeds N] [--first N] [--steps N] [--scripts FOLDER] [--seed N]

Prints the seed of a run that differs; --seed repeats it. Needs redis-server, and `make t/campaigns/cluster/serve` has built the other.
"""

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.environ.get("TOP_SRCDIR", os.path.dirname(os.path.dirname(os.path.dirname(HERE))))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "..", "system"))

import redis_servers  # noqa: E402
import resp  # noqa: E402

BUILD = os.environ.get("TOP_BUILDDIR", os.path.join(TOP, "build"))
SCRIPTS = os.path.join(TOP, "src", "cluster", "scripts")
NAMES = ("open", "call", "give", "ready", "beat", "reap", "grace", "leave", "look")
PREFIX = "cmp"
KEY = b"{cmp}:"
LOG_SHOWN = 25
FINISHED_AFTER = 20  # rounds of 200 names, each with up to 250 grants
FULL, NOREPLICAS = 1, 3  # enum fake_trouble


class Differs(Exception):
    """The two answered, sent or hold something else."""


def assembled(folder, name):
    """The text of a script, with the files that it includes."""
    with open(os.path.join(folder, name), encoding="ascii") as f:
        lines = f.read().splitlines(True)
    return "".join(
        assembled(folder, line.split()[1]) if line.startswith("--:include ") else line for line in lines
    )


def plain(text):
    """Bytes as the engine in memory writes them in its contents."""
    return "".join(chr(c) if 32 < c < 127 and c != 92 else "\\x%02x" % c for c in text)


class Side:
    """What both have: a connection for scripts, and one for each session that listens."""

    def __init__(self, folder):
        self.client = self.connect()
        self.ears = {}
        self.shas = {n: self.client.ask("SCRIPT", "LOAD", assembled(folder, n + ".lua")) for n in NAMES}

    def run(self, script, args):
        args = [self.term() if a == "TERM" else a for a in args]
        self.client.send("EVALSHA", self.shas[script], 1, KEY, *args)
        return self.client.read()

    def listen(self, session):
        self.ears[session] = self.connect()
        self.ears[session].subscribe(KEY + b"to:" + session.encode())

    def go_deaf(self, session):
        if session in self.ears:
            self.ears.pop(session).close()
            self.client.ask("PING")

    def close(self):
        for ear in self.ears.values():
            ear.close()
        self.ears = {}
        self.client.close()


class Real(Side):
    """redis-server with the scripts."""

    name = "redis"

    def __init__(self, folder):
        self.server = redis_servers.RedisServer(enable_debug_command="local")
        try:
            super().__init__(folder)
        except BaseException:
            self.server.stop()
            raise

    def connect(self):
        return resp.Client(self.server.path)

    def term(self):
        info = self.client.info()
        return info["run_id"] + ":" + info["master_replid"]

    def new_term(self):
        self.client.ask("DEBUG", "CHANGE-REPL-ID")

    def flush(self):
        self.client.ask("FLUSHALL")

    def wrong(self, name):
        self.client.ask("SET", KEY + b"k:" + name, "foreign")

    def right(self, name):
        self.client.ask("DEL", KEY + b"k:" + name)

    def trouble(self, number):
        self.client.ask("CONFIG", "SET", "maxmemory", "1" if number == FULL else "0")
        self.client.ask("CONFIG", "SET", "min-replicas-to-write", int(number == NOREPLICAS))

    def contents(self):
        lines = set()
        keys = self.client.ask("KEYS", "*")
        kinds = dict(zip(keys, self.client.pipeline([("TYPE", k) for k in keys])))
        keys = [k for k in keys if kinds[k] != b"string"]  # of another program
        read = {b"hash": ("HGETALL",), b"set": ("SMEMBERS",), b"zset": ("ZRANGE", 0, -1, "WITHSCORES")}
        words = [(k, *read[kinds[k]]) for k in keys]
        values = self.client.pipeline([(command, k, *more) for k, command, *more in words])
        for key, value in zip(keys, values):
            lines |= set(self.lines(key, value))
        return sorted(lines)

    @staticmethod
    def lines(key, value):
        assert key.startswith(KEY), key
        key = key[len(KEY) :]
        pairs = list(zip(value[::2], value[1::2]))
        fields = {k.decode("latin1"): v for k, v in pairs} if len(pairs) * 2 == len(value) else {}
        if key == b"more":
            return ["more " + plain(name) for name in value]
        if key == b"meta":
            number = lambda f: int(fields.get(f, 0))  # noqa: E731
            return [
                "meta version %d lease %d grace %d seq %d"
                % (number("version"), number("lease"), "grace" in fields, number("seq"))
            ]
        if key.startswith(b"s:"):
            return [
                "s:%s node %s where %s state %s reaped %d last %s"
                % (
                    key[2:].decode(),
                    plain(fields["node"]),
                    plain(fields["where"]),
                    fields["state"].decode(),
                    "reaped" in fields,
                    fields.get("last", b"-").decode(),
                )
            ]
        return ["%s %s %s" % (plain(key), plain(f), plain(v)) for f, v in pairs]

    def close(self):
        super().close()
        self.server.stop()


class Fake(Side):
    """The engine in memory."""

    name = "memory"

    def __init__(self, folder):
        self.folder = tempfile.mkdtemp(prefix="fake.", dir="/tmp")
        self.path = os.path.join(self.folder, "socket")
        self.process = subprocess.Popen(
            [os.path.join(BUILD, "t", "campaigns", "cluster", "serve"), self.path, PREFIX, "1"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self.said()
            super().__init__(folder)
        except BaseException:
            self.end()
            raise

    def said(self):
        lines = []
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError("serve ended")
            if line == ".\n":
                return lines
            lines.append(line.rstrip("\n"))

    def do(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.said()

    def connect(self):
        return resp.Client(self.path)

    def term(self):
        return self.do("term")[0]

    def new_term(self):
        self.do("term again")

    def flush(self):
        self.do("flush")

    def wrong(self, name):
        self.do("wrong " + name.decode())

    def right(self, name):
        self.do("right " + name.decode())

    def trouble(self, number):
        self.do("trouble %d" % number)

    def contents(self):
        wrong = self.do("check") + self.do("misuse")
        if wrong:
            raise Differs("memory: " + "; ".join(wrong))
        return sorted(self.do("contents"))

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def close(self):
        super().close()
        self.end()
        if self.process.returncode:
            raise Differs("serve ended with %d" % self.process.returncode)


def pairs(flat, width=2):
    """A flat array as a sorted list of tuples."""
    return sorted(tuple(flat[i : i + width]) for i in range(0, len(flat), width))


def alike(script, args, answer):
    """An answer without what may differ."""
    if isinstance(answer, resp.Error):
        return "error " + answer.word
    if script == "open" and answer[0] == b"OPEN":
        return [answer[0], re.fullmatch(rb"[0-9a-f]{40}:[0-9a-f]{40}", answer[1]) is not None] + answer[2:]
    if script == "open" and answer[0] == b"LEASE":
        return answer[:2] + pairs(answer[2:])
    if script == "ready":
        return pairs(answer)
    if script == "beat":
        more = sorted(answer[1]) if len(answer[1]) < 100 else len(answer[1])
        return [answer[0], more, pairs(answer[2])]
    if script == "look":
        return sorted(answer)
    if script in ("call", "give"):
        plain_ops = [alike("op", args, a) for a in answer]
        return [pairs(a, 3) if isinstance(a, list) and len(a) != 2 else a for a in plain_ops]
    return answer


def by_name(messages):
    """Messages in an order that does not depend on that of the names."""
    def name(message):
        kind = message[:1]
        return message.split(b" ", 2 if kind == b"D" else 3)[-1]

    return sorted(messages, key=name)


class Both:
    """The two, asked the same."""

    def __init__(self, folder):
        self.real = Real(folder)
        try:
            self.fake = Fake(folder)
        except BaseException:
            self.real.close()
            raise
        self.sides = (self.real, self.fake)
        self.wrong = set()  # names whose queue another program has written
        self.log = []

    def close(self):
        try:
            self.fake.close()
        finally:
            self.real.close()

    def each(self, method, *args):
        self.log.append("%s %s" % (method, args))
        for side in self.sides:
            getattr(side, method)(*args)

    def run(self, script, *args):
        """Runs a script in both. Returns the answer, which is the same."""
        self.log.append("%s %s" % (script, " ".join(map(str, args))))
        answers = [side.run(script, args) for side in self.sides]
        self.log.append("    -> %r" % (answers[1],))
        seen = [alike(script, args, a) for a in answers]
        if seen[0] != seen[1]:
            raise Differs("answers to %s:\n  redis  %r\n  memory %r" % (script, *answers))
        return answers[1]

    def messages(self, in_order=True):
        """What the sessions were sent; the same in both. {session: [message]}"""
        heard = {}
        for session in list(self.fake.ears):
            lists = [side.ears[session].published() for side in self.sides]
            same = lists if in_order else [by_name(m) for m in lists]
            if same[0] != same[1]:
                raise Differs("messages to %s:\n  redis  %r\n  memory %r" % (session, *lists))
            if lists[1]:
                heard[session] = lists[1]
                self.log.append("    %s: %r" % (session, lists[1]))
        return heard

    def contents(self):
        lines = [side.contents() for side in self.sides]
        if lines[0] != lines[1]:
            only = [sorted(set(lines[i]) - set(lines[1 - i])) for i in (0, 1)]
            raise Differs("contents:\n  only redis  %s\n  only memory %s" % (only[0], only[1]))
        return lines[1]

    def finish_if_other(self, session):
        """Finishes the names in `more`, if these may be the reason why the contents differ."""
        lines = [side.contents() for side in self.sides]
        if lines[0] != lines[1] and any(line.startswith("more ") for line in lines[0] + lines[1]):
            self.finish(session)

    def finish(self, session):
        """Lets each side finish its names in `more`, in equally many calls: each is a beat of one that opens."""
        calls = [self.finish_one(side, session) for side in self.sides]
        for side, count in zip(self.sides, calls):
            for _ in range(max(calls) - count):
                side.run("give", [session])

    def finish_one(self, side, session):
        """Returns the number of calls that it took."""
        calls = 0
        kept = {"more " + plain(name) for name in self.wrong}
        for _ in range(FINISHED_AFTER):
            more = [line for line in side.contents() if line.startswith("more ") and line not in kept]
            if not more:
                return calls
            for line in more[:200]:
                name = re.sub(r"\\x(..)", lambda m: chr(int(m.group(1), 16)), line[5:])
                side.run("give", [session, "t", name.encode("latin1")])
                calls += 1
        raise Differs("%s: names stay in `more`" % side.name)


def main():
    import compare_calls

    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=None, help="the first seed; at random if missing")
    parser.add_argument("--seed", type=int, default=None, help="only this one")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--scripts", default=SCRIPTS)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that servers end
    first = options.first if options.first is not None else random.SystemRandom().randrange(1 << 31)
    seeds = [options.seed] if options.seed is not None else range(first, first + options.seeds)
    counts = {}
    for seed in seeds:
        print("seed %d" % seed, flush=True)
        wrong = compare_calls.run(options.scripts, seed, options.steps, counts)
        if wrong:
            print(wrong)
            return 1
    print("%d seeds: %s" % (len(seeds), " ".join("%s %d" % c for c in sorted(counts.items()))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
