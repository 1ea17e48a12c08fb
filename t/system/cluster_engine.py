"""The scripts of src/cluster/scripts in a real Redis, as a node calls them, and a check that adds the keys up."""

import os
import subprocess

import pytest

import redis_servers
import resp

TOP = os.environ.get("TOP_SRCDIR") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
SCRIPTS = os.path.join(TOP, "src/cluster/scripts")
NAMES = "open call give ready beat reap grace leave look".split()
ARGUMENTS = {"a": 3, "r": 2, "b": 2, "c": 3, "g": 1, "h": 1, "t": 1, "s": 2, "w": 4}

# Section 6 of the specification: what an operator gives the daemon's user.
ACL = (
    "resetkeys ~{counterd}:* resetchannels &{counterd}:* -@all +info +evalsha +script|load +subscribe +publish"
    " +hget +hmget +hset +hdel +hincrby +hgetall +hlen +hscan +exists +unlink +sadd +srem +sismember +srandmember"
    " +zadd +zrem +zrange +zpopmin +zcard +zscore"
)


def text_of(name):
    """The script `name` as the build embeds it."""
    return subprocess.run(
        ["awk", "-f", os.path.join(SCRIPTS, "assemble.awk"), os.path.join(SCRIPTS, name + ".lua")],
        capture_output=True,
        check=True,
    ).stdout


class Engine:
    """
    A redis-server with the scripts loaded: `server`, or one of its own. `client` is the connection that
    calls them.
    """

    def __init__(self, prefix="counterd", server=None, **options):
        self.server = server or redis_servers.RedisServer(**options)
        self.prefix = "{%s}:" % prefix
        self.sessions = {}
        self.serial = 0
        self.load()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop()

    def load(self, user=None, password=None):
        """Connects and loads the scripts; again after a restart."""
        self.client = self.server.client(user, password)
        replies = self.client.pipeline(("SCRIPT", "LOAD", text_of(name)) for name in NAMES)
        self.shas = dict(zip(NAMES, replies))

    def key(self, name):
        """A key of the prefix."""
        return self.prefix.encode() + resp.as_bytes(name)

    def run(self, script, *arguments):
        """Calls a script; raises the resp.Error that it answered."""
        return self.client.ask("EVALSHA", self.shas[script], 1, self.prefix, *arguments)

    def fails(self, script, *arguments):
        """Calls a script that must answer an error, and returns the error's first word."""
        try:
            answer = self.run(script, *arguments)
        except resp.Error as e:
            return e.word
        raise AssertionError("%s answered %r" % (script, answer))

    def session_id(self):
        """A new session's name."""
        self.serial += 1
        return "%016x" % (0xABC0000 + self.serial)

    def meta(self, field):
        """A field of `meta`."""
        return self.client.ask("HGET", self.key("meta"), field)

    def end_grace(self):
        """Ends grace as no node does: at once."""
        self.client.ask("HDEL", self.key("meta"), "grace")

    def hash(self, name):
        """A hash as a dictionary."""
        flat = self.client.ask("HGETALL", self.key(name))
        return dict(zip(flat[::2], flat[1::2]))

    def keys(self):
        """All keys of the database, sorted."""
        return sorted(self.client.ask("KEYS", "*"))

    def check(self):
        """Adds up: `units` is the sum of the u:S, `w` counts the `q`, `k` has each pair at the place of its oldest."""
        start = len(self.prefix)
        keys = [k[start:] for k in self.keys() if k.startswith(self.prefix.encode())]
        sums, counts, places = {}, {}, {}
        for key in keys:
            if key.startswith(b"u:"):
                for name, n in self.hash(key).items():
                    assert int(n) > 0, (key, name, n)
                    sums[name] = sums.get(name, 0) + int(n)
            elif key.startswith(b"q:"):
                _, session, of_class, name = key.split(b":", 3)
                waits = self.client.ask("ZRANGE", self.key(key), 0, -1, "WITHSCORES")
                counts[(session, of_class + b":" + name)] = len(waits) // 2
                places.setdefault(name, {})[session + b":" + of_class] = int(waits[1])
        assert {n: int(v) for n, v in self.hash("units").items()} == sums
        written = {}
        for key in keys:
            if key.startswith(b"w:"):
                for field, n in self.hash(key).items():
                    written[(key[2:], field)] = int(n)
        assert written == counts
        ranked = {}
        for key in keys:
            if key.startswith(b"k:"):
                pairs = self.client.ask("ZRANGE", self.key(key), 0, -1, "WITHSCORES")
                ranked[key[2:]] = {m: int(s) for m, s in zip(pairs[::2], pairs[1::2])}
        assert ranked == places
        live = self.hash("node")
        for node, session in live.items():
            s = self.hash(b"s:" + session)
            assert s[b"node"] == node and s[b"state"] in (b"opening", b"live"), (node, s)
        beats = self.hash("beat")
        for key in keys:
            if key.startswith(b"s:"):
                assert key[2:] in beats, key
                if self.hash(key)[b"state"] != b"ended":
                    assert live[self.hash(key)[b"node"]] == key[2:], key
            elif key[:2] in (b"u:", b"w:"):
                assert key[2:] in beats, key

    def nothing_left(self):
        """After all sessions have left: nothing but `meta`."""
        assert self.keys() == [self.key("meta")]


def acquisition(name, wait_id, units, limit, maxqueue, kind, strict):
    """The op of an acquisition."""
    return "a", name, "%s%s%d/%d/%d" % (kind, "ls"[strict], units, limit, maxqueue), wait_id


def giving_back(name, units, explicit):
    """The op of a release by a client (`explicit`), or by the end of a connection."""
    return "r" if explicit else "b", name, units


def flat(*ops):
    """The flat arguments of `call` and `give`. `a` and `r` have the arguments of the functions above."""
    arguments = []
    for op in ops:
        if op[0] in "ar":
            op = (acquisition if op[0] == "a" else giving_back)(*op[1:])
        assert len(op) == ARGUMENTS[op[0]] + 1, op
        arguments += op
    return arguments


class Session:
    """
    One session of a node: a subscription, unless it is `deaf`, then `open`. It tells the ops `told`, and goes
    live if `ready`. `over` are pairs of sessions and beats.
    """

    def __init__(self, engine, node="n1", where=None, last="-", lease=10000, seq=0, over=(), ready=True, deaf=False,
                 digest="d", told=()):  # fmt: skip
        self.engine = engine
        self.node = node
        self.where = where or "boot/ns/1/" + node
        self.id = engine.session_id()
        self.channel = engine.prefix + "to:" + self.id
        self.ear = None
        if not deaf:
            self.ear = engine.server.client()
            self.ear.subscribe(self.channel)
        self.last = last
        over = [x for pair in over for x in pair]
        self.answer = engine.run("open", self.id, node, self.where, digest, lease, seq, last, *over)
        self.is_open = self.answer[0] == b"OPEN"
        if self.is_open:
            engine.sessions[self.id] = self
            if told:
                self.give(*told)
            if ready:
                self.ended = self.ready()

    @property
    def term(self):
        return self.answer[1]

    @property
    def beat_now(self):
        """The session's beat, read from the engine."""
        return self.engine.client.ask("HGET", self.engine.key("beat"), self.id)

    def ready(self):
        flat_list = self.engine.run("ready", self.id)
        return dict(zip(flat_list[::2], flat_list[1::2]))

    def call(self, *ops):
        return self.engine.run("call", self.id, *flat(*ops))

    def one(self, *op):
        """A call of one op; its answer."""
        return self.call(op)[0]

    def give(self, *ops):
        return self.engine.run("give", self.id, *flat(*ops))

    def beat(self):
        """Beats; returns grace, the set of `more` and the beats."""
        grace, more, beats = self.engine.run("beat", self.id)
        return grace, set(more), dict(zip(beats[::2], beats[1::2]))

    def heard(self):
        """What was published to this session since the last call."""
        return self.ear.published()

    def reap(self, other, b=None, cursor="0"):
        """One call of `reap`: how much is left, the cursor, names whose hand over is not finished."""
        return self.engine.run("reap", self.id, other, b, cursor)

    def reap_all(self, other, b=None):
        """Reaps until nothing is left; returns how many calls that took."""
        if b is None:
            b = self.engine.client.ask("HGET", self.engine.key("beat"), other)
        cursor, calls = "0", 0
        while True:
            left, cursor, _ = self.reap(other, b, cursor)
            calls += 1
            if left == 0:
                return calls
            assert calls < 10000

    def leave(self):
        return self.engine.run("leave", self.id)

    def deafen(self):
        """Ends the subscription, and waits until the engine has noticed."""
        self.ear.ask("UNSUBSCRIBE", self.channel)

    # Ops by name, with the usual arguments.

    def acquire(self, name, wait_id=0, units=1, limit=1, maxqueue=0, kind="n", strict=1):
        return self.one("a", name, wait_id, units, limit, maxqueue, kind, strict)

    def release(self, name, units=1, explicit=1):
        return self.one("r", name, units, explicit)

    def get(self, name):
        return self.one("g", name)


# ---- for tests ----


def snapshot(e):
    """All keys with what they hold."""
    found = {}
    for key in e.keys():
        kind = e.client.ask("TYPE", key)
        if kind == b"hash":
            found[key] = e.hash(key[len(e.prefix) :])
        elif kind == b"zset":
            found[key] = e.client.ask("ZRANGE", key, 0, -1, "WITHSCORES")
        else:
            found[key] = set(e.client.ask("SMEMBERS", key))
    return found


def held(e, session, name):
    """The units of `name` that the engine counts for a session."""
    return int(e.client.ask("HGET", e.key("u:" + session.id), name) or 0)


@pytest.fixture(scope="session")
def redis_for_tests():
    """One Redis for all tests that leave it as it was; `engine` empties it."""
    if not redis_servers.have_redis():
        pytest.skip("redis-server is not installed")
    with redis_servers.RedisServer() as server:
        yield server


@pytest.fixture
def engine(redis_for_tests):
    """A Redis with the scripts, out of grace. The keys must add up at the end."""
    e = Engine(server=redis_for_tests)
    try:
        first = Session(e, "first")
        e.end_grace()
        first.leave()
        yield e
        e.check()
        empty(e)
    finally:
        users = [u for u in redis_for_tests.ask("ACL", "USERS") if u != b"default"]
        for command in (("REPLICAOF", "NO", "ONE"), ("CONFIG", "SET", "maxmemory", 0), ("FLUSHALL",)):
            redis_for_tests.ask(*command)
        if users:
            redis_for_tests.ask("ACL", "DELUSER", *users)
        redis_for_tests.hang_up()


def empty(e):
    """All sessions end, are reaped and leave: nothing is left."""
    last = Session(e, "last", lease=int(e.meta("lease") or 10000))
    if not last.is_open:
        over = e.hash("beat")
        last = Session(e, "last", over=list(over.items()))
    for other in e.hash("beat"):
        if other.decode() != last.id:
            last.reap_all(other)
    while True:
        _, more, _ = last.beat()
        if not more:
            break
        last.give(*[("t", name) for name in more])
    e.check()
    assert last.leave() == 1
    e.nothing_left()


@pytest.fixture(params=["alone", "among others", "beside a queue", "after its own queue"])
def ask(request, engine):
    """
    A function that has a session do one op in each way in which the scripts carry ops out: as the only one of a call,
    with ops for other names, where somebody waits for another name, and where the call itself has begun to queue.
    """
    if request.param == "beside a queue":
        other = Session(engine, "queues")
        assert other.acquire("other name") == 1
        assert other.acquire("other name", 1, kind="m") > 1
    count = [0]

    def among(session, op):
        if request.param == "alone":
            return session.one(*op)
        if request.param == "after its own queue":
            me, wait_id = "line %d" % count[0], 10**9 + count[0]
            answers = session.call(
                ("a", me, 1, 1, 1, 0, "n", 0), ("a", me, wait_id, 1, 1, 0, "m", 0), op,
                ("c", me, "ml1/1", wait_id), ("r", me, 1, 0),
            )  # fmt: skip
            assert answers[0] == 1 and answers[1] > 1 and answers[3:] == [1, 1]
            return answers[2]
        answers = session.call(("g", "other name"), op, ("g", "third name"))
        assert answers[2] == [0, 0]
        return answers[1]

    def do(session, *op):
        count[0] += 1
        answer = among(session, op)
        engine.check()
        return answer

    return do
