"""Stories of the scripts (stories/*.story) on a real Redis.

A line is a step. `n1`, `n1.2` are sessions of the node n1; `$n1` is the id of one, `$term` the engine's term.

    story TITLE                           each begins with an empty engine, out of grace
    cannot MODE...                        see `modes`
    live n1 n2                            opens sessions that listen, and makes them live
    n1 open [deaf] [where=W] [last=S] [lease=N] [seq=N] [digest=D] [over=S:BEAT]... -> ANSWER
    n1 a x ms1/5/0 7 -> 1                 a call of one op, here of the session n1
    n1 call a x ms1/5/0 7; g x -> 1 [1 0] one of several; `give` likewise; `ready`, `beat`, `leave`, `look`, `grace TERM`
    n1 reap S BEAT -> 0                   reaps once: what is left, and names that it could not hand over
    n1 reads G 7 1 x | D x                all messages since the last time; D has the present seq
    n1 goes deaf                          ends its subscription
    HSET meta grace 1                     a command of Redis on a key of the prefix, of any other program [-> ANSWER]
    costs hget=1 hset=2                   so many commands were called by the last script
    n1 reaps S BEAT; n1 finishes -> 0     reaps to the end; hands over the names that its beat shows, so many

In answers `!WORD` is an error, [] an array, {} one in any order, `wait` a number above 1, `_` anything. `3 * a x# ns1/1/0 #`
among ops is three of them, with 0, 1, 2 for `#`; `3 * 1` are three answers. Bytes may be \\xff, {ab*3} is ababab, {} is a space.

After each step the keys add up (sums.lua), and an error has changed nothing. At the end all sessions end, are reaped
and leave, and nothing is left.
"""

import glob
import itertools
import os
import random
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "system"))
import tap  # noqa: E402
import pytest  # noqa: E402

import redis_servers  # noqa: E402
import resp  # noqa: E402

TOP = os.environ.get("TOP_SRCDIR", os.path.join(HERE, "..", "..", ".."))
SCRIPTS = os.path.join(TOP, "src", "cluster", "scripts")
NAMES = "open call give ready beat reap grace leave look".split()
PREFIX = b"{counterd}:"
# What an operator gives the daemon's user (counterd-cluster(7)).
ACL = (
    "resetkeys ~{counterd}:* resetchannels &{counterd}:* -@all +info +evalsha +script|load +subscribe +publish"
    " +hget +hmget +hset +hdel +hincrby +hgetall +hlen +hscan +exists +unlink +sadd +srem +sismember +srandmember"
    " +zadd +zrem +zrange +zpopmin +zcard +zscore"
)
MODES = ("alone", "among", "queue", "line")

pytestmark = pytest.mark.skipif(not redis_servers.have_redis(), reason="redis-server is not installed")


def text_of(name):
    """The script `name` as the build embeds it."""
    files = [os.path.join(SCRIPTS, f) for f in ("assemble.awk", name + ".lua")]
    return subprocess.run(["awk", "-f", *files], capture_output=True, check=True).stdout


class Place:
    """
    Where stories are played: a server with the scripts, which a user with the recommended rights runs. `admin` does
    what is no script.
    """

    def __init__(self, server):
        self.server = server
        self.costs = {}  # of the last script
        self.admin = resp.Client(server.path)
        self.admin.ask("ACL", "SETUSER", "counterd", "on", ">secret", *ACL.split())
        self.client = resp.Client(server.path, "counterd", "secret")
        with open(os.path.join(HERE, "sums.lua"), encoding="ascii") as f:
            self.sums = self.ask("SCRIPT", "LOAD", f.read())
        replies = self.client.pipeline(("SCRIPT", "LOAD", text_of(n)) for n in NAMES)
        assert not any(isinstance(r, resp.Error) for r in replies), replies
        self.shas = dict(zip(NAMES, replies))

    def stop(self):
        self.client.close()
        self.admin.close()
        self.server.stop()

    def ask(self, *words):
        """The reply to a command, which may be an error."""
        self.admin.send(*words)
        return self.admin.read()

    def run(self, script, *arguments):
        """The reply of a script, behind which the keys add up."""
        self.ask("CONFIG", "RESETSTAT")
        self.client.send("EVALSHA", self.shas[script], 1, PREFIX, *arguments)
        reply = self.client.read()
        self.costs = self.admin.info("commandstats")
        wrong = self.ask("EVALSHA", self.sums, 1, PREFIX)
        assert wrong == [], wrong
        return reply

    def term(self):
        info = self.admin.info("server")
        info.update(self.admin.info("replication"))
        return info["run_id"] + ":" + info["master_replid"]

    def keys(self):
        """All keys with what they hold, but those of other types, and `more`."""
        how = {b"hash": ("HGETALL",), b"set": ("SMEMBERS",), b"zset": ("ZRANGE", 0, -1, "WITHSCORES")}
        names = sorted(self.ask("KEYS", "*"))
        kinds = self.admin.pipeline(("TYPE", n) for n in names)
        known = [(n, how[k]) for n, k in zip(names, kinds) if k in how]
        known = [k for k in known if k[0] != PREFIX + b"more"]
        values = self.admin.pipeline((h[0], n, *h[1:]) for n, h in known)
        return {n: v if h[0] == "ZRANGE" else sorted(v) for (n, h), v in zip(known, values)}


# ---- Text ------------------------------------------------------------------------------------


def unescaped(word):
    """A word of a story as bytes."""
    word = word.replace("{}", " ")
    word = re.sub(r"\{(.*?)\*(\d+)\}", lambda m: m[1] * int(m[2]), word)
    word = re.sub(r"\\x(..)|\\(.)", lambda m: chr(int(m[1], 16)) if m[1] else m[2], word)
    return word.encode("latin1")


def escaped(value):
    """Bytes as a word."""
    if value == b"":
        return "{*0}"
    if len(value) > 200 and value == value[:1] * len(value):
        return "{%c*%d}" % (value[:1].decode(), len(value))
    word = "".join(chr(c) if 33 <= c < 127 and c not in b"\\{}[];|" else "\\x%02x" % c for c in value)
    return word.replace("\\x20", "{}")


def repeated(text, separator):
    """`3 * a x#` among parts as three."""
    parts = []
    for part in text.split(separator):
        many = re.fullmatch(r"\s*(\d+) \* (.*?)(?: from (\d+))?\s*", part)
        if many:
            first = int(many[3] or 0)
            parts += [many[2].replace("#", str(i)) for i in range(first, first + int(many[1]))]
        else:
            parts.append(part.strip())
    return parts


def same(shown, wanted):
    """Is an answer the one that the story wants?"""
    wanted = re.sub(r"(\d+) \* (\[.*?\]|\S+)", lambda m: " ".join([m[2]] * int(m[1])), wanted)
    if "_" not in wanted and "wait" not in wanted:
        return shown == wanted
    pattern = "".join(
        {"wait": r"(?:[2-9]|\d{2,})", "_": ".*"}.get(p, re.escape(p)) for p in re.split(r"\b(wait|_)\b", wanted)
    )
    return re.fullmatch(pattern, shown) is not None


class Player:
    """One story in one mode."""

    def __init__(self, place, mode):
        self.place, self.mode, self.term = place, mode, place.term()
        self.ids, self.ears, self.count = {}, {}, 0

    # Words.

    def id_of(self, label):
        if label not in self.ids:
            self.ids[label] = "%016x" % (0xABC0001 + len(self.ids))
        return self.ids[label]

    def value(self, word):
        if word == "$term":
            return self.term.encode()
        return unescaped(re.sub(r"\$(\w+(?:\.\d+)?)", lambda m: self.id_of(m[1]), word))

    def key(self, word):
        return PREFIX + self.value(word)

    def shown(self, value):
        if isinstance(value, resp.Error):
            text = str(value)
            return "!" + self.labels(text.replace(PREFIX.decode(), "") if value.word == "WRONGTYPE" else value.word)
        if isinstance(value, list):
            return "[%s]" % " ".join(map(self.shown, value))
        return "nil" if value is None else self.labels(escaped(value)) if isinstance(value, bytes) else str(value)

    def labels(self, text):
        text = text.replace(self.term, "$term")
        for label, session in self.ids.items():
            text = text.replace(session, "$" + label)
        return text

    def unordered(self, flat, width=1):
        rows = ["=".join(map(self.shown, flat[i : i + width])) for i in range(0, len(flat), width)]
        if self.mode == "queue":
            rows = [r for r in rows if not re.search(r"\bqueues\b|^other{}name", r)]
        return "{%s}" % " ".join(sorted(rows))

    def answer(self, what, reply):
        """A reply as stories write it."""
        if isinstance(reply, resp.Error):
            return self.shown(reply)
        if what == "open":
            word, rest = reply[0].decode(), reply[1:]
            if word == "OPEN":
                assert rest[0].decode() == self.term
                rest = rest[1:]
            tail = [self.unordered(rest[1:], 2)] if word == "LEASE" else map(self.shown, rest[1:])
            return " ".join([word, *map(self.shown, rest[:1]), *tail])
        if what == "beat":
            return "%d %s %s" % (reply[0], self.unordered(reply[1]), self.unordered(reply[2], 2))
        if what in ("ready", "HGETALL"):
            return self.unordered(reply, 2)
        if what == "reap":
            return " ".join([str(reply[0]), *([self.unordered(reply[2])] if reply[2] else [])])
        if what in ("look", "SMEMBERS"):
            return self.unordered(reply)
        if what in ("call", "give"):
            return " ".join(map(self.shown, reply))
        return self.shown(reply)

    # Steps.

    def open(self, label, options):
        values = {
            "where": "boot/ns/1/" + label.partition(".")[0],
            "lease": "10000",
            "seq": "0",
            "last": "-",
            "digest": "d",
        }
        over = []
        for option in options:
            name, _, value = option.partition("=")
            if name == "over":
                over += value.rsplit(":", 1)
            elif name != "deaf":
                values[name] = value
        if "deaf" not in options:
            self.ears[label] = resp.Client(self.place.server.path)
            self.ears[label].ask("SUBSCRIBE", self.key("to:$" + label))
        node = label.partition(".")[0]
        words = [node, *(values[n] for n in ("where", "digest", "lease", "seq", "last")), *over]
        return self.place.run("open", self.id_of(label), *map(self.value, words))

    def ops(self, text):
        return [list(map(self.value, op.split())) for op in repeated(text, ";") if op]

    def one(self, label, op):
        """A call of one op, in the way of the mode."""
        session = self.id_of(label)
        if self.mode == "alone" or not op:
            return self.place.run("call", session, *op)
        self.count += 1
        if self.mode == "line":
            me = "line %d" % self.count
            before = ["a", me, "nl1/1/0", 1, "a", me, "ml1/1/0", 10**9 + self.count]
            after, at, rest = ["c", me, "ml1/1", 10**9 + self.count, "b", me, 1], 2, [1, 1]
        else:
            before, after, at, rest = ["g", "other name"], ["g", "third name"], 1, [[0, 0]]
        reply = self.place.run("call", session, *before, *op, *after)
        if isinstance(reply, resp.Error):
            return reply
        assert reply[at + 1 :] == rest, reply
        return reply[at : at + 1]

    def messages(self, label):
        seq = self.place.ask("HGET", PREFIX + b"meta", "seq")
        shown = []
        for message in self.ears[label].published():
            kind, *rest = message.split(b" ", 3 if message[:1] == b"G" else 2)
            if kind == b"D":
                assert rest[0] == seq, (message, seq)
                del rest[0]
            shown.append(" ".join(map(escaped, [kind, *rest])))
        return " | ".join(shown) or "nothing"

    def reaps(self, session, over, beat):
        """Reaps to the end: each call does a bounded part, and says each name that it could not hand over."""
        left, cursor, broken = None, "0", set()
        while left != 0:
            before = left
            left, cursor, names = self.place.run("reap", session, over, beat, cursor)
            assert before is None or before - 500 <= left < before, (before, left)
            assert len(set(names)) == len(names), names
            broken.update(names)
        assert broken <= set(self.place.ask("SMEMBERS", PREFIX + b"more")), broken
        return "done"

    def finishes(self, session):
        """Hands over what its beat says is in `more`; how many names that were."""
        names = self.place.run("beat", session)[1]
        for name in names:
            self.place.run("give", session, "t", name)
        return len(names)

    def command(self, words):
        name = words[0]
        plain = name in ("CONFIG", "DEBUG", "FLUSHALL")
        reply = self.place.ask(
            name,
            *([] if plain or len(words) < 2 else [self.key(words[1])]),
            *map(self.value, words[1 if plain else 2 :])
        )
        return self.answer(name, reply)

    def step(self, line):
        """Does a step; returns its answer, or None if it has none."""
        line = re.sub(r"\((\d+ \* \S+)\)", lambda m: " ".join(repeated(m[1], ";")), line)
        words = line.split()
        label, rest = words[0], words[1:]
        if label == "live":
            for one in rest:
                answer = self.answer("open", self.open(one, []))
                assert answer.startswith("OPEN"), answer
                self.place.run("ready", self.id_of(one))
            return None
        if label.isupper():
            return self.command(words)
        if label == "costs":
            ours = ("evalsha", "config|resetstat")
            costs = {k[8:]: re.match(r"calls=(\d+)", v)[1] for k, v in self.place.costs.items() if k[8:] not in ours}
            assert sorted(rest) == ["%s=%s" % item for item in sorted(costs.items())]
            return None
        what = rest[0]
        session = self.id_of(label)
        if what == "open":
            return self.answer(what, self.open(label, rest[1:]))
        if what == "reads":
            return self.messages(label)
        if what == "goes":
            self.ears.pop(label).ask("UNSUBSCRIBE", self.key("to:$" + label))
            return None
        if what in ("call", "give"):
            text = line.split(None, 2)[2] if len(rest) > 1 else ""
            return self.answer(what, self.place.run(what, session, *sum(self.ops(text), [])))
        if what == "reap":
            cursor = rest[3] if len(rest) > 3 else "0"
            return self.answer(what, self.place.run(what, session, self.value(rest[1]), self.value(rest[2]), cursor))
        if what == "reaps":
            return self.reaps(session, self.value(rest[1]), self.value(rest[2]))
        if what == "finishes":
            return str(self.finishes(session))
        if what in ("ready", "beat", "leave", "look", "grace"):
            return self.answer(
                what, self.place.run(what, *([] if what == "look" else [session]), *map(self.value, rest[1:]))
            )
        return self.answer("call", self.one(label, self.ops(line.split(None, 1)[1])[0]))

    def line(self, line):
        step, arrow, wanted = line.partition(" -> ")
        if " reads " in step:
            step, arrow, wanted = step.partition(" reads ")
            step, wanted = step + " reads", " | ".join(repeated(wanted, " | "))
        # An error has changed nothing, but of a beat that nobody reads, which counts.
        still = wanted[:1] == "!" and wanted != "!DEAF" and not re.match(r"\S+ [rb] ", step) and self.mode != "line"
        before = self.place.keys() if still else None
        answer = self.step(step)
        assert before is None or self.place.keys() == before, "%s\n  has changed something" % line
        assert not (answer or "").startswith("!") or arrow, "%s\n  answered %s" % (line, answer)
        assert not arrow or same(answer, wanted.strip()), "%s\n  answered %s" % (line, answer)

    def empty(self):
        """All sessions end, are reaped and leave: nothing is left."""
        self.place.ask("CONFIG", "SET", "maxmemory", "0")
        over = self.place.ask("HGETALL", PREFIX + b"beat")
        reply = self.open("last", ["over=%s:%s" % (a.decode(), b.decode()) for a, b in zip(over[::2], over[1::2])])
        assert reply[0] == b"OPEN", reply
        last = self.id_of("last")
        self.place.run("ready", last)
        for session, beat in zip(over[::2], over[1::2]):
            self.reaps(last, session, beat)
        assert any(self.finishes(last) == 0 for _ in range(1000)), "a name stays in `more`"
        assert self.place.run("leave", last) == 1
        assert self.place.ask("KEYS", "*") == [PREFIX + b"meta"]

    def play(self, lines, values):
        """Plays it; `values` stand for $name."""
        lines = [
            re.sub(r"\$(%s)\b" % "|".join(values), lambda m: values[m[1]], line) if values else line for line in lines
        ]
        self.place.ask("FLUSHALL")
        self.place.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
        try:
            if not any(line.startswith("FLUSHALL") for line in lines):
                self.line("first open -> OPEN 1")
                for step in ("first ready", "first grace $term -> 1", "first leave -> 1"):
                    self.line(step)
            if self.mode == "queue":
                self.line("live queues")
                self.line("queues call a other{}name ns1/1/0 0; a other{}name ms1/1/0 1 -> 1 wait")
            for line in lines:
                self.line(line)
            self.empty()
        finally:
            for ear in self.ears.values():
                ear.close()


def stories():
    """[(file, title, modes that it cannot bear, lines, [values of its names])]"""
    found = []
    for path in sorted(glob.glob(os.path.join(HERE, "stories", "*.story"))):
        with open(path, encoding="ascii") as f:
            for line in map(str.strip, f):
                if line.startswith("story "):
                    found.append((os.path.basename(path)[:-6], line[6:], [], [], []))
                elif line.startswith("with "):
                    name, *values = line.split()[1:]
                    found[-1][4].extend({name: value} for value in values)
                elif line.startswith("cannot "):
                    found[-1][2].extend(line.partition(" because")[0].split()[1:])
                elif line and line[0] != "#":
                    found[-1][3].append(line)
    return found


STORIES = stories()
SEED = int(os.environ.get("T_SEED") or str(int.from_bytes(os.urandom(4), "big")), 0)
RANDOM = random.Random(SEED)


def play(place, story):
    """Plays it in all modes. None, or what is wrong."""
    _, title, cannot, lines, values = story
    for mode, some in itertools.product(MODES, values or [{}]):
        if mode in cannot:
            continue
        try:
            Player(place, mode).play(lines, some)
        except (AssertionError, LookupError, TypeError, ValueError) as e:
            return "%s (%s %s; T_SEED=%d): %s" % (title, mode, some, SEED, e)
    return None


@pytest.fixture(name="place", scope="session")
def make_place():
    entries = RANDOM.choice((1, 512, 100000))  # hashes in each encoding
    one = Place(redis_servers.RedisServer(hash_max_listpack_entries=entries))
    yield one
    one.stop()


@pytest.mark.parametrize("story", STORIES, ids=["%s: %s" % s[:2] for s in STORIES])
def test_story(place, story):
    assert play(place, story) is None


def test_open_names_what_its_user_may_not():
    place = Place(redis_servers.RedisServer())
    rights = [
        (["-" + word[1:]], word[1:]) for word in ACL.split() if word[0] == "+" and word[1:] not in ("evalsha", "hget")
    ]
    rights += [(["resetchannels", "&other:*"], "subscribe")]
    before = place.keys()
    for number, (less, named) in enumerate(rights):
        user = "u%d" % number
        place.ask("ACL", "SETUSER", user, "on", ">pw", *ACL.split(), *less)
        with resp.Client(place.server.path, user, "pw") as client:
            answer = client.ask("EVALSHA", place.shas["open"], 1, PREFIX, "f" * 16, "n", "w", "d", 10000, 0, "-")
        assert answer == [b"ACL", named.encode()]
        assert place.keys() == before
    place.stop()


if __name__ == "__main__":
    tap.main(__file__)
