"""Pools on the real daemon: transports, sizes, the configuration, reloads, upgrades, ends.

The stories in t/scenario/pools-*.scn show the verbs; a comment `# row ID` names what only this file
shows (t/scenario/pools.rows).
"""

import json
import re
import signal
import threading
from collections import namedtuple

import pytest
import tap

import certificates
import http_client
import servers
import test_reload
import test_upgrade
import wire

pytestmark = pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon")

Taken = namedtuple("Taken", "pool member fence value attrs")
Member = namedtuple("Member", "name state seconds fence holder facts")
Shown = namedtuple("Shown", "pool members waiters")


class Client(wire.TextClient):
    """A client that knows the verbs of pools."""

    def does(self, *lines):
        for line in lines:
            answer = self.ask(line)
            assert answer == "OK", (line, answer)

    def join(self, *lines):
        for line in lines:
            answer = self.ask("JOIN " + line)
            assert answer == "JOINED", (line, answer)

    def taken(self):
        """Reads a TAKEN line."""
        line = self.line()
        words = line.split(" ")
        assert words[0] == "TAKEN" and len(words) >= 5, line
        return Taken(words[1], words[2], int(words[3]), words[4], words[5:])

    def take(self, words):
        self.say("TAKE " + words)
        return self.taken()

    def lines(self):
        """Reads lines to an empty one."""
        return list(iter(self.line, ""))

    def show(self, pool):
        self.say("POOL SHOW " + pool)
        head = self.line()
        assert head.startswith("POOL %s " % pool), head
        members, waiters = [], []
        for line in self.lines():
            words = line.split(" ")
            if words[0] == "MEMBER":
                assert not waiters, "a member behind waiters"
                members.append(Member(*words[1:6], words[6:]))
            else:
                assert words[0] == "WAITER", line
                waiters.append(words[1:])
        return Shown(facts_of(head), members, waiters)

    def states(self, pool):
        return {member.name: member.state for member in self.show(pool).members}

    def pools(self, prefix=""):
        """The lines of LIST by pool."""
        self.say(("POOL LIST " + prefix).rstrip())
        return {line.split(" ")[1]: facts_of(line) for line in self.lines()}


def facts_of(line):
    """The words NAME=VALUE of a POOL line, its kind and whether it is open."""
    words = line.split(" ")
    facts = dict(word.partition("=")[::2] for word in words[4:])
    facts["kind"], facts["open"] = words[2], words[3] == "open"
    return facts


def connect(daemon, **kwargs):
    return Client(daemon.text or daemon.text6, **kwargs)


def waits(client, pool, number):
    """Waits until so many wait in a pool."""
    wire.poll(lambda: len(client.show(pool).waiters) == number, "%d wait in %s" % (number, pool))


def has_states(client, pool, states):
    wire.poll(lambda: client.states(pool) == states, "%s has the states %s" % (pool, states))


# --- transports ----------------------------------------------------------------------------------

TRANSPORTS = ("tcp", "tls", "unix")
# Requests and the answers to each, as regular expressions. Afterwards all is as it was before.
DIALOGUE = [
    ("POOL ADD db order=fifo on_fail=down clean_after=0", ["OK"]),
    ("MEMBER ADD db m1 host:5433 a=1 b=two", ["OK"]),
    ("MEMBER ADD db m1", ["ERROR EXISTS"]),
    ("MEMBER ADD db m2", ["OK"]),
    ("MEMBER SET db m2 value=%s note=why c=3" % ("x" * 300), ["OK"]),
    ("POOL ADD br kind=joined max=3", ["OK"]),
    ("SUPPLY br 1 2", ["OK", "WANT br 1"]),
    ("JOIN br b1 host:9222 a=1", ["JOINED"]),
    ("TAKE db 5 member=m1 with=a=1 by=me", [r"TAKEN db m1 \d+ host:5433 a=1 b=two"]),
    ("TAKE db 0 for=check count=1", [r"TAKEN db m2 \d+ x{300} c=3"]),
    ("TAKE br,db 0 for=use", [r"TAKEN br b1 \d+ host:9222 a=1"]),
    ("TAKE db", ["TIMEOUT"]),
    ("TAKE db 0 count=x", ["ERROR BAD_SYNTAX"]),
    ("POOL LIST d", [r"POOL db static open group=- members=2 free=0 taken=1 .*", ""]),
    (
        "POOL SHOW db",
        [
            r"POOL db static open group=- members=2 free=0 taken=1 .*",
            r"MEMBER m1 taken \d+\.\d{3} \d+ \d+\.\d+\.\d+@[^ ]+ takes=1 fails=0 by=me a=1 b=two",
            r"MEMBER m2 checking \d+\.\d{3} \d+ \d+\.\d+\.\d+@[^ ]+ takes=\d fails=0 note=why c=3",
            "",
        ],
    ),
    ("RETURN", ["RETURNED"]),
    ("RETURN fail", ["RETURNED"]),
    ("RETURN 1", ["NOT_TAKEN"]),
    ("MEMBER DROP br b1 now", ["OK"]),
    ("POOL SET db max=2 order=lifo", ["OK"]),
    ("RETURN", ["RETURNED"]),
    ("POOL DROP br", ["(OK|WANT br 0)", "(OK|WANT br 0)"]),
    ("SUPPLY br 0 1", ["ERROR NO_POOL"]),
    ("MEMBER DROP db m1", ["OK"]),
    ("POOL DROP db now", ["OK"]),
    ("WATCH *", ["OK"]),
    ("ACQ4ME k 1 9", ["LOCKED"]),
    ("HELLO", ["ERROR BAD_COMMAND"]),
    ("QUIT", ["BYE"]),
]


@pytest.fixture
def everywhere(start, tmp_path):
    """A function that connects to one daemon over a transport."""
    authority = certificates.Authority(tmp_path)
    cert, key = authority.issue("server")
    daemon = start(
        "counter.threads=2",
        "tls.cert=%s" % cert,
        "tls.key=%s" % key,
        "poolcounter.tls_port=%d" % servers.free_port(),
        "poolcounter.socket=%s" % (tmp_path / "text.sock"),
    )

    def connect_over(transport, **kwargs):
        if transport == "tls":
            trusted = certificates.context(authority)
            return Client(daemon.text_tls, tls=trusted, **kwargs)
        return Client(daemon.text_unix if transport == "unix" else daemon.text, **kwargs)

    return connect_over


def check_answers(client, requests):
    for line, answers in requests:
        for answer in answers:
            got = client.line()
            assert re.fullmatch(answer, got), (line, answer, got)


# row lines.unix lines.stream
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_each_verb_over_each_transport(everywhere, transport):
    for _ in range(2):
        with everywhere(transport) as client:
            for request in DIALOGUE:
                client.say(request[0])
                check_answers(client, [request])
            assert client.wait_closed() == b""


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_all_verbs_in_one_packet(everywhere, transport):
    for _ in range(20):
        with everywhere(transport) as client:
            client.send("".join(line + "\n" for line, _ in DIALOGUE).encode())
            check_answers(client, DIALOGUE)
            assert client.wait_closed() == b""


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_all_verbs_byte_by_byte(everywhere, transport):
    with everywhere(transport) as client:
        for byte in "".join(line + "\r\n" for line, _ in DIALOGUE).encode():
            client.send(bytes([byte]))
        check_answers(client, DIALOGUE)
        assert client.wait_closed() == b""


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_each_verb_cut_at_each_byte(everywhere, transport):
    """What precedes the first part is answered, so the server has read that part."""
    with everywhere(transport) as client:
        client.does("POOL ADD cut", "MEMBER ADD cut m1 v a=1", "POOL ADD joined kind=joined")
        for before, line, answer, after in (
            ("RELEASE", "TAKE cut 0 by=me", r"TAKEN cut m1 \d+ v a=1", "RETURN"),
            ("TAKE cut", "RETURN", "RETURNED", "RELEASE"),
            ("RELEASE", "JOIN joined b1 v", "JOINED", "MEMBER DROP joined b1 now"),
            ("JOIN joined b1", "MEMBER DROP joined b1 now", "OK", "RELEASE"),
            ("RELEASE", "SUPPLY none 1 2", "ERROR NO_POOL", "RELEASE"),
            ("RELEASE", "POOL SET cut max=9", "OK", "RELEASE"),
            ("RELEASE", "POOL LIST x", "", "RELEASE"),
            ("RELEASE", "WATCH cut mine", "OK", "RELEASE"),
        ):
            for at in range(1, len(line) + 1):
                client.send(b"%s\n%s" % (before.encode(), line[:at].encode()))
                client.line()
                client.send(line[at:].encode() + b"\n")
                got = client.line()
                assert re.fullmatch(answer, got), (line, at, got)
                client.ask(after)
        client.does("POOL DROP cut", "POOL DROP joined")


# --- sizes ---------------------------------------------------------------------------------------


def add_members(client, pool, names, value="", attrs=""):
    """Adds many members in few packets."""
    for begin in range(0, len(names), 200):
        some = names[begin : begin + 200]
        lines = ["MEMBER ADD %s %s %s %s\n" % (pool, name, value, attrs) for name in some]
        client.send_reading("".join(lines).encode())
        for _ in some:
            assert client.line() == "OK"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_64_members_with_the_longest_values_at_once(everywhere, transport):
    with everywhere(transport) as operator, everywhere(transport) as client:
        operator.does("POOL ADD big")
        names = ["m%03d-" % i + "n" * 250 for i in range(70)]
        add_members(operator, "big", names, "v" * 4096, "k=" + "w" * 128)
        with everywhere(transport) as waiter:
            client.say("TAKE big 0 count=64")
            wire.poll(lambda: operator.pools("big")["big"]["taken"] == "64", "they are taken")
            waiter.say("TAKE big 600 count=64")
            waits(operator, "big", 1)
            got = [client.taken() for _ in range(64)]
            assert len({taken.member for taken in got}) == 64
            fences = [taken.fence for taken in got]
            assert fences == sorted(set(fences))
            for taken in got:
                assert taken.pool == "big" and taken.member in names
                assert taken.value == "v" * 4096 and taken.attrs == ["k=" + "w" * 128]
            assert client.ask("TAKE big") == "ERROR TOO_MANY"
            client.send("".join("RETURN %d\n" % fence for fence in fences).encode())
            assert [client.line() for _ in range(64)] == ["RETURNED"] * 64
            later = [waiter.taken() for _ in range(64)]
            assert min(taken.fence for taken in later) > fences[-1]
        wire.poll(lambda: operator.pools("big")["big"]["dirty"] == "64", "they crashed")
        operator.does("POOL DROP big now")


def test_a_client_takes_64_long_members_again_and_again_and_reads_slowly(start):
    daemon = start("counter.threads=2", "limits.output_buffer=64K")
    with connect(daemon) as operator, connect(daemon, rcvbuf=4096) as client:
        operator.does("POOL ADD big")
        add_members(operator, "big", ["m%02d" % i for i in range(64)], "v" * 4096)
        rounds = 20
        thread = threading.Thread(
            target=client.send,
            args=((b"TAKE big 0 count=64\n" + b"RETURN\n" * 64) * rounds,),
        )
        thread.start()
        for _ in range(rounds):
            assert len({client.taken().member for _ in range(64)}) == 64
            assert [client.line() for _ in range(64)] == ["RETURNED"] * 64
        thread.join()
        assert operator.pools()["big"]["free"] == "64"


# row watch.lost
def test_a_watcher_that_reads_nothing_is_served_and_told_what_it_lost(start, tmp_path):
    moves = 20000  # more than the kernel's buffers take
    # Not over TCP, where the kernel ends a connection that takes nothing for 30 s.
    socket = "poolcounter.socket=%s" % (tmp_path / "text.sock")
    daemon = start("counter.threads=2", "limits.write_timeout=600", socket)
    with connect(daemon) as operator, connect(daemon) as busy:
        operator.does("POOL ADD db", "MEMBER ADD db m1", "POOL ADD own", "MEMBER ADD own m2")
        watcher = Client(daemon.text_unix)
        hold = watcher.take("own")
        watcher.does("WATCH db")
        for begin in range(0, moves // 2, 1000):
            busy.send_reading(b"TAKE db\nRETURN\n" * 1000)
            for _ in range(1000):
                busy.taken()
                assert busy.line() == "RETURNED"
        watcher.say("RETURN %d" % hold.fence)
        has_states(operator, "own", {"m2": "free"})
        watcher.say("TAKE own 0 by=again")
        has_states(operator, "own", {"m2": "taken"})
        told, lost, answers = 0, 0, []
        while len(answers) < 2 or told + lost < moves:
            line = watcher.line()
            if line.startswith("EVENT db m1 "):
                told += 1
            elif line.startswith("LOST "):
                lost += int(line.split(" ")[1])
            else:
                answers.append(line)
        assert answers[0] == "RETURNED" and answers[1].startswith("TAKEN own m2 ")
        assert told + lost == moves and lost > 0
        busy.take("db")
        assert watcher.line().startswith("EVENT db m1 free taken take ")
        watcher.close()


# row list.pieces
def test_show_of_many_members_while_they_come_and_go(start):
    daemon = start("counter.threads=2", "counter.memory_limit=4G", "pools.max_members=20000")
    count = wire.scaled(10000, 3000)
    names = ["m%05d" % i for i in range(count)]
    passing = ["m%05d-passing" % i for i in range(0, count, 50)]
    with connect(daemon) as operator, connect(daemon) as busy, connect(daemon) as changing:
        operator.does("POOL ADD db order=random queue_max=1000")
        operator.does("POOL ADD list", "POOL ADD listed group=g", "POOL ADD listing kind=joined")
        add_members(operator, "db", names, "value", "a=" + "x" * 100)
        add_members(operator, "db", passing[::2])
        waiters = [connect(daemon) for _ in range(20)]
        for waiter in waiters:
            waiter.say("TAKE db 600 for=clean")
        waits(operator, "db", 20)
        over, failures = threading.Event(), []

        def take_and_return():
            try:
                while not over.is_set():
                    busy.send(b"TAKE db 0 with=a=%s\nRETURN\n" % (b"x" * 100) * 20)
                    for _ in range(20):
                        assert busy.taken().member in names
                        assert busy.line() == "RETURNED"
            except AssertionError as e:
                failures.append(e)

        def add_and_drop():
            there = set(passing[::2])
            try:
                while not over.is_set():
                    for name in passing:
                        if name in there:
                            changing.does("MEMBER DROP db " + name)
                            there.discard(name)
                        else:
                            changing.does("MEMBER ADD db " + name)
                            there.add(name)
            except AssertionError as e:
                failures.append(e)

        threads = [threading.Thread(target=f) for f in (take_and_return, add_and_drop)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(wire.scaled(5, 2)):
                with connect(daemon, rcvbuf=4096) as reader:
                    shown = reader.show("db")
                    listed = [member.name for member in shown.members]
                    assert listed == sorted(set(listed)), "by name, and each at most once"
                    assert [name for name in listed if name not in passing] == names
                    assert len(shown.waiters) == 20
                    assert sorted(reader.pools("list")) == ["list", "listed", "listing"]
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert not failures, failures
        for waiter in waiters:
            assert waiter.is_silent()
            waiter.close()


def test_a_list_of_many_pools_while_they_come_and_go(start):
    daemon = start("counter.threads=2", "pools.max=3000")
    names = ["p%04d" % i + "n" * 200 for i in range(2000)]
    passing = ["p%04d-passing" % i for i in range(0, 2000, 40)]
    with connect(daemon) as operator, connect(daemon) as changing:
        for begin in range(0, len(names), 100):
            some = names[begin : begin + 100]
            operator.send_reading("".join("POOL ADD %s\n" % name for name in some).encode())
            for _ in range(100):
                assert operator.line() == "OK"
        over, failures = threading.Event(), []

        def add_and_drop():
            try:
                while not over.is_set():
                    for name in passing:
                        changing.does("POOL ADD " + name)
                    for name in passing:
                        changing.does("POOL DROP " + name)
            except AssertionError as e:
                failures.append(e)

        thread = threading.Thread(target=add_and_drop)
        thread.start()
        try:
            for _ in range(5):
                with connect(daemon, rcvbuf=4096) as reader:
                    reader.say("POOL LIST p")
                    listed = [line.split(" ")[1] for line in reader.lines()]
                    assert listed == sorted(set(listed))
                    assert [name for name in listed if name not in passing] == names
        finally:
            over.set()
            thread.join()
        assert not failures, failures


def test_a_pool_dropped_while_it_is_shown(start):
    daemon = start("counter.threads=2")
    with connect(daemon) as operator, connect(daemon, rcvbuf=4096) as reader:
        operator.does("POOL ADD db")
        names = ["m%04d" % i for i in range(3000)]
        add_members(operator, "db", names, "-", "a=" + "x" * 100)
        reader.say("POOL SHOW db")
        assert reader.line().startswith("POOL db static open ")
        operator.does("POOL DROP db now", "POOL ADD db", "MEMBER ADD db m0000 - a=other")
        rest = reader.lines()
        listed = [line.split(" ")[1] for line in rest]
        assert listed == sorted(set(listed))
        assert reader.ask("RETURN") == "NOT_TAKEN"
        assert operator.states("db") == {"m0000": "free"}


# row lines.between
def test_lines_that_meet_a_long_list_follow_it(start):
    daemon = start("counter.threads=2", "limits.write_timeout=600")
    with connect(daemon) as operator, connect(daemon) as holder:
        operator.does("POOL ADD db on_fail=down", "POOL ADD long", "POOL ADD br kind=joined")
        add_members(operator, "db", ["m1", "m2"])
        # More than the kernel keeps: it may have 4 MB of a connection that does not read.
        attrs = " ".join("%s=%s" % (key, "x" * 120) for key in "abcdef")
        add_members(operator, "long", ["m%05d" % i for i in range(9000)], "-", attrs)
        holds = [holder.take("db 0 member=%s" % name) for name in ("m1", "m2")]
        reader, dying = connect(daemon, rcvbuf=4096), connect(daemon, rcvbuf=4096)
        reader.join("br b1")
        reader.does("WATCH db", "SUPPLY br 0 5")
        assert reader.line() == "WANT br 0"
        reader.say("TAKE db 600")
        waits(operator, "db", 1)
        dying.say("TAKE db 600")
        waits(operator, "db", 2)
        for client in (reader, dying):
            client.say("POOL SHOW long")
            assert client.line().startswith("POOL long ")
        for hold in holds:
            assert holder.ask("RETURN %d" % hold.fence) == "RETURNED"
        has_states(operator, "db", {"m1": "taken", "m2": "taken"})
        holder.say("TAKE br 600 count=3")
        operator.does("MEMBER DROP br b1")
        # This one has read no byte of its TAKEN: it never had the member.
        dying.reset()
        wire.poll(lambda: operator.pools("db")["db"]["free"] == "1", "its member is free")
        assert operator.pools("db")["db"]["down"] == "0"
        reader.say("POOL SHOW db")
        members = reader.lines()
        assert len(members) == 9000 and all(line.startswith("MEMBER m0") for line in members)
        rest, got = [], None
        while got is None or "STOP br b1 drop" not in rest or "" not in rest:
            rest.append(reader.line())
            if rest[-1].startswith("TAKEN "):
                got = rest[-1]
        kinds = {line.split(" ")[0] for line in rest}
        assert kinds <= {"TAKEN", "EVENT", "WANT", "STOP", "POOL", "MEMBER", ""}, rest
        begin = next(at for at, line in enumerate(rest) if line.startswith("POOL db "))
        shown = rest[begin : rest.index("")]
        assert len(shown) == 3, "nothing between the lines of an answer: %s" % rest
        reader.say("RETURN %s" % got.split(" ")[3])
        while reader.line() != "RETURNED":
            pass
        reader.close()


# --- who may -------------------------------------------------------------------------------------


# row lines.unix
def test_verbs_for_operators_and_suppliers_are_denied_to_others(start, tmp_path):
    daemon = start(
        "counter.threads=2",
        "pools.operators=10.0.0.0/8",
        "pools.suppliers=127.0.0.2, ::1",
        "poolcounter.socket=%s" % (tmp_path / "text.sock"),
    )
    operator = Client(daemon.text_unix)
    operator.does("POOL ADD db", "MEMBER ADD db m1", "POOL ADD br kind=joined")
    operator.join("br b0")
    anybody = connect(daemon)
    for line in (
        "POOL ADD p", "POOL SET db max=1", "POOL DROP db", "POOL DROP none now", "MEMBER ADD db m2",
        "MEMBER SET db m1 state=down", "MEMBER DROP db m1", "MEMBER DROP none m1", "JOIN br b1",
        "SUPPLY br 0 1", "JOIN none b1",
    ):  # fmt: skip
        assert anybody.ask(line) == "ERROR DENIED", line
    assert anybody.take("db").member == "m1"
    assert anybody.ask("RETURN") == "RETURNED"
    assert sorted(anybody.pools()) == ["br", "db"]
    assert anybody.states("br") == {"b0": "free"}
    anybody.does("WATCH *")
    supplier = connect(daemon, source="127.0.0.2")
    assert supplier.ask("POOL ADD p") == "ERROR DENIED"
    assert supplier.ask("MEMBER SET br b0 a=1") == "ERROR DENIED"
    supplier.join("br b1")
    supplier.does("SUPPLY br 0 3")
    assert supplier.line() == "WANT br 0"
    assert supplier.ask("MEMBER DROP br b0 now") == "ERROR DENIED"
    assert supplier.ask("MEMBER DROP br none now") == "ERROR NO_MEMBER"
    assert supplier.ask("MEMBER DROP db m1") == "ERROR DENIED"
    assert supplier.ask("MEMBER DROP none m1") == "ERROR NO_POOL"
    supplier.does("MEMBER DROP br b1 now")
    operator.does("MEMBER DROP br b0 now")
    if daemon.text6:
        with Client(daemon.text6) as other:
            other.join("br b6")
            assert other.ask("POOL ADD p") == "ERROR DENIED"
    for client in (operator, anybody, supplier):
        client.close()


def test_by_default_only_this_host_operates_and_nobody_else_supplies(start):
    daemon = start("counter.threads=1", "poolcounter.listen=127.0.0.1, ::1")
    with connect(daemon) as operator, connect(daemon, source="127.9.9.9") as other:
        operator.does("POOL ADD br kind=joined")
        other.join("br b1")
        other.does("POOL SET br max=5")
    if daemon.text6:
        with Client(daemon.text6) as other:
            other.join("br b1")
            other.does("POOL DROP br now")


def test_a_holder_on_a_unix_socket_is_shown_in_one_word(start, tmp_path):
    daemon = start("poolcounter.socket=%s" % (tmp_path / "text.sock"))
    with Client(daemon.text_unix) as client, Client(daemon.text_unix) as waiter:
        client.does("POOL ADD db", "MEMBER ADD db m1 - a=1")
        client.take("db 0 by=me")
        waiter.say("TAKE db 600 by=you")
        waits(client, "db", 1)
        shown = client.show("db")
        (member,) = shown.members
        assert re.fullmatch(r"\d+\.\d+\.\d+@\S+", member.holder)
        assert member.facts == ["takes=1", "fails=0", "by=me", "a=1"]
        assert shown.waiters[0][2:] == ["600", "count=1", "for=use", "by=you"]


# --- the configuration ---------------------------------------------------------------------------


# row options.file move.add
def test_pools_of_the_file(start, tmp_path):
    path = tmp_path / "gpus"
    path.write_text(
        "# the old ones\n"
        "gpu_0 0 model=t4\n"
        "\n"
        "gpu_1\n"
        "gpu_2 - model=a100 state=down note=fan\n"
        "gpu,3 3 note=spare model=a100\n"
    )
    config = tmp_path / "counter.conf"
    config.write_text(
        "pool.db.members = db_1, db_2=host:5433\n"
        "pool.db.on_return = dirty\n"
        "pool.db.clean_after = 0.5\n"
        "pool.gpu.members_file = %s\n"
        "pool.gpu.group = cards\n"
        "pool.br.kind = joined\n"
        "pool.br.min_free = 2\n"
        "pool.start-dirty_9.on_start = dirty\n"
        "pool.start-dirty_9.members = one\n" % path
    )
    daemon = start("counter.threads=2", args=["-f", str(config)])
    with connect(daemon) as client:
        pools = client.pools()
        assert sorted(pools) == ["br", "db", "gpu", "start-dirty_9"]
        assert pools["br"]["kind"] == "joined" and pools["br"]["min_free"] == "2"
        assert pools["db"]["on_return"] == "dirty" and pools["db"]["clean_after"] == "0.5"
        assert pools["gpu"]["group"] == "cards"
        assert client.states("db") == {"db_1": "free", "db_2": "free"}
        assert client.states("start-dirty_9") == {"one": "dirty"}
        gpus = {member.name: member for member in client.show("gpu").members}
        assert {name: member.state for name, member in gpus.items()} == {
            "gpu_0": "free", "gpu_1": "free", "gpu_2": "down", "gpu,3": "free",
        }  # fmt: skip
        assert gpus["gpu_2"].facts == ["takes=0", "fails=0", "note=fan", "model=a100"]
        assert client.take("db 0 member=db_2").value == "host:5433"
        assert client.take("db 0 member=db_1").value == "-"
        assert client.take("@cards 0 with=model=t4")[1:4:2] == ("gpu_0", "0")
        assert client.take("gpu 0 member=gpu,3").value == "3"
        assert client.ask("TAKE gpu 0 member=gpu_2") == "TIMEOUT"
        client.does("MEMBER ADD db db_3", "POOL SET gpu max=9")
        client.join("br b1")


@pytest.mark.parametrize(
    "text, said",
    [
        ("pool.db.on_fail = sometimes\n", "on_fail"),
        ("pool.db.colour = red\n", "colour"),
        ("pool.db.min_free = 2\n", "min_free"),
        ("pool.db.members = a, b, a\n", "members"),
        ("pool.db.members = a\npool.db.kind = joined\n", "members"),
        ("pool.db.kind = joined\npool.db.max_lifetime = 5\npool.db.lifetime_jitter = 5\n", "jitt"),
        ("pool.a.b.max = 3\n", "pool"),
        ("pool.@x.max = 3\n", "@x"),
        ("pool.db.members_file = %(folder)s/none\n", "none"),
        ("pool.db.members_file = %(folder)s/bad\n", "bad:3"),
    ],
)
def test_a_wrong_file_starts_nothing(start, tmp_path, text, said):
    (tmp_path / "bad").write_text("a\nb value x=1\nc value X=1\n")
    path = tmp_path / "counter.conf"
    path.write_text(text % {"folder": tmp_path})
    daemon = start(args=["-f", str(path)], ready=False)
    daemon.is_expected_to_be_gone = True
    assert daemon.wait() == 2
    assert said in daemon.log


# row options.reload
def test_a_reload_adds_drops_and_puts_back_members(start, tmp_path):
    running = test_reload.Running(start, tmp_path)
    daemon = running.daemon
    with connect(daemon) as client, connect(daemon) as holder:
        said = running.apply("pool.db.members = m1, m2=two, m3\n")
        assert "db" in said, "the reload says so"
        assert client.states("db") == {"m1": "free", "m2": "free", "m3": "free"}
        client.does("MEMBER ADD db byhand", "MEMBER SET db m2 value=other a=1", "POOL SET db max=9")
        client.does("MEMBER SET db m3 state=down note=broken")
        hold = holder.take("db 0 member=m1")
        # m1 is dropped when it is returned, what verbs added goes, and options are as in the file.
        running.apply("pool.db.members = m2=two, m3, m4\n")
        shown = client.show("db")
        members = {member.name: member for member in shown.members}
        assert sorted(members) == ["m1", "m2", "m3", "m4"]
        assert members["m1"].state == "taken" and members["m1"].facts[2].startswith("then=")
        assert members["m2"].facts == ["takes=0", "fails=0"], "attributes as in the file"
        assert members["m3"].state == "down", "states stay"
        assert "note=broken" in members["m3"].facts, "notes stay"
        assert shown.pool["max"] == "0"
        assert client.take("db 0 member=m2").value == "two"
        assert client.ask("RETURN") == "RETURNED"
        # Put back before it was returned, it stays.
        running.apply("pool.db.members = m1, m2=two, m3\n")
        members = {member.name: member for member in client.show("db").members}
        assert sorted(members) == ["m1", "m2", "m3"]
        assert members["m1"].facts == ["takes=1", "fails=0"]
        assert holder.ask("RETURN %d" % hold.fence) == "RETURNED"
        assert client.states("db") == {"m1": "free", "m2": "free", "m3": "down"}
        hold = holder.take("db 0 member=m1")
        running.apply("pool.db.members = m2=two, m3\n")
        assert holder.ask("RETURN %d" % hold.fence) == "RETURNED"
        assert client.states("db") == {"m2": "free", "m3": "down"}
        # What has no room while others are held is left out, and the log says so.
        holder.take("db 0 member=m2")
        text = "pool.db.members = n1, n2\npool.db.max = 2\n"
        said = running.apply(text)
        assert "pool db: 1 members of the configuration are left out" in said
        assert client.states("db") == {"m2": "taken", "n1": "free"}
        assert holder.ask("RETURN") == "RETURNED"
        assert "left out" not in running.apply(text)
        assert client.states("db") == {"n1": "free", "n2": "free"}


def test_a_reload_of_a_members_file(start, tmp_path):
    path = tmp_path / "members"
    text = "pool.db.members_file = %s\n" % path
    path.write_text("m1 one a=1\nm2 two state=down note=new\n")
    running = test_reload.Running(start, tmp_path)
    with connect(running.daemon) as client, connect(running.daemon) as waiter:
        running.apply(text)
        assert client.states("db") == {"m1": "free", "m2": "down"}
        waiter.say("TAKE db 600 with=a=2")
        waits(client, "db", 1)
        path.write_text("m2 two\nm1 uno a=2\nm3 three\n")
        running.apply(text)
        assert waiter.taken()[1:4:2] == ("m1", "uno")
        assert client.states("db") == {"m1": "taken", "m2": "down", "m3": "free"}
        # A wrong line changes nothing, nowhere.
        path.write_text("m3 three\nm4 four A=1\n")
        said = running.reload(text + "pool.other.members = x\n")
        assert "nothing was changed" in said and "members:2" in said
        assert sorted(client.pools()) == ["db"]
        assert client.states("db") == {"m1": "taken", "m2": "down", "m3": "free"}
        assert client.take("db").value == "three"


def test_a_reload_adds_drops_and_puts_back_pools(start, tmp_path):
    running = test_reload.Running(start, tmp_path)
    daemon = running.daemon
    with connect(daemon) as client, connect(daemon) as holder, connect(daemon) as waiter:
        client.does("POOL ADD byhand", "MEMBER ADD byhand h1")
        first = "pool.a.members = m1\npool.b.members = m1, m2\n"
        running.apply(first)
        assert sorted(client.pools()) == ["a", "b", "byhand"]
        holds = [holder.take("b 0 member=m1"), holder.take("byhand")]
        running.apply("pool.a.members = m1\npool.c.kind = joined\n")
        pools = client.pools()
        assert sorted(pools) == ["a", "b", "byhand", "c"]
        assert not pools["b"]["open"] and pools["a"]["open"] and pools["byhand"]["open"]
        assert client.ask("TAKE b") == "ERROR NO_POOL"
        assert client.states("b") == {"m1": "taken"}
        # Back while a member is held: it stays, and the others are new.
        running.apply(first)
        pools = client.pools()
        assert sorted(pools) == ["a", "b", "byhand"] and pools["b"]["open"]
        assert client.states("b") == {"m1": "taken", "m2": "free"}
        waiter.say("TAKE b 600 member=m1")
        waits(client, "b", 1)
        assert holder.ask("RETURN %d" % holds[0].fence) == "RETURNED"
        assert waiter.taken().member == "m1"
        running.apply("")
        assert sorted(client.pools()) == ["b", "byhand"]
        assert waiter.ask("RETURN") == "RETURNED"
        assert sorted(client.pools()) == ["byhand"]
        assert holder.ask("RETURN") == "RETURNED"


# row options.reload-wrong event.reload
def test_a_reload_of_another_kind_or_of_a_pool_made_by_verbs_is_refused(start, tmp_path):
    running = test_reload.Running(start, tmp_path)
    daemon = running.daemon
    with connect(daemon) as client:
        running.apply("pool.db.members = m1\n")
        client.does("POOL ADD byhand", "MEMBER ADD byhand h1")
        for text, name in (
            ("pool.db.kind = joined\npool.new.members = x\n", "db"),
            ("pool.db.members = m1, m2\npool.byhand.members = h1\n", "byhand"),
            ("pool.db.members = m1, m2\npool.byhand.kind = joined\n", "byhand"),
            ("pool.db.max = much\n", "max"),
            ("pool.db.members = m1, m2\npool.db.max = 1\n", "db"),
            ("pool.db.members = m1, m1\n", "m1"),
            ("pool.db.members = m1\npools.operators = nowhere\n", "operators"),
        ):
            said = running.reload(text)
            assert "nothing was changed" in said and name in said, (text, said)
            assert sorted(client.pools()) == ["byhand", "db"]
            assert client.states("db") == {"m1": "free"}
        # Without the pool first, then the other kind.
        running.apply("")
        assert sorted(client.pools()) == ["byhand"]
        running.apply("pool.db.kind = joined\n")
        assert client.pools()["db"]["kind"] == "joined"
        client.does("POOL DROP byhand")
        running.apply("pool.db.kind = joined\npool.byhand.members = h1\n")
        assert client.states("byhand") == {"h1": "free"}


def test_a_reload_of_options_moves_members_and_waiters_as_pool_set_does(start, tmp_path):
    running = test_reload.Running(start, tmp_path)
    daemon = running.daemon
    with connect(daemon) as client, connect(daemon) as member, connect(daemon) as waiter:
        other = connect(daemon)
        running.apply("pool.br.kind = joined\npool.db.members = m1\n")
        member.join("br b1", "br b2")
        hold = client.take("db")
        waiter.say("TAKE db 600")
        waits(client, "db", 1)
        other.say("TAKE db 600")
        waits(client, "db", 2)
        running.apply(
            "pool.br.kind = joined\npool.br.max = 1\npool.br.group = g\n"
            "pool.db.members = m1\npool.db.queue_max = 1\npool.db.on_return = dirty\n"
        )
        assert re.fullmatch("STOP br b[12] shrink", member.line())
        assert other.line() == "QUEUE_FULL"
        assert client.take("@g").pool == "br"
        assert client.ask("RETURN %d" % hold.fence) == "RETURNED"
        assert client.states("db") == {"m1": "dirty"}
        client.does("MEMBER SET db m1 state=free")
        assert waiter.taken().member == "m1"
        other.close()


def test_a_reload_of_who_may_and_how_many(start, tmp_path):
    running = test_reload.Running(start, tmp_path)
    daemon = running.daemon
    with connect(daemon) as client, connect(daemon) as watcher:
        client.does("POOL ADD br kind=joined", "POOL ADD db")
        client.join("br b1")
        running.apply("pools.operators = 10.0.0.0/8\npools.suppliers = 127.0.0.1\n")
        assert client.ask("POOL ADD more") == "ERROR DENIED"
        client.join("br b2")
        running.apply("pools.operators = 10.0.0.0/8\n")
        assert client.ask("JOIN br b3") == "ERROR DENIED"
        assert client.states("br") == {"b1": "free", "b2": "free"}, "what has joined stays"
        assert watcher.ask("MEMBER DROP br b2 now") == "ERROR DENIED"
        assert client.ask("MEMBER DROP br none now") == "ERROR DENIED"
        client.does("MEMBER DROP br b2 now")  # the client that joined it always may
        assert client.states("br") == {"b1": "free"}
        running.apply("pools.max = 2\npools.max_members = 2\npools.max_watchers = 0\n")
        assert client.ask("POOL ADD more") == "ERROR TOO_MANY"
        client.join("br b2")
        assert client.ask("JOIN br b3") == "ERROR POOL_FULL"
        assert watcher.ask("WATCH db") == "ERROR TOO_MANY"
        running.apply("")
        client.does("POOL ADD more")
        watcher.does("WATCH db")


# --- memory --------------------------------------------------------------------------------------


# row event.memory
def test_past_the_memory_limit_nothing_new_comes_and_all_goes_on(start):
    daemon = start("counter.threads=2", "counter.memory_limit=16M", "counter.buckets=1000")
    operator, holder, waiter, greedy = (connect(daemon) for _ in range(4))
    binary = daemon.binary_client()
    operator.does("POOL ADD db queue_max=1000000", "MEMBER ADD db m1 value a=1", "MEMBER ADD db m2")
    operator.does("POOL ADD br kind=joined", "POOL ADD fill")
    operator.join("br b1")
    holds = [holder.take("db 0 member=m1"), holder.take("br")]
    waiter.say("TAKE db 600 member=m1")
    waits(operator, "db", 1)
    number, size = 0, 4096
    while size:  # fills it with members, the last of them small
        answer = operator.ask("MEMBER ADD fill m%d %s" % (number, "v" * size))
        assert answer in ("OK", "ERROR OUT_OF_MEMORY"), answer
        number += 1
        assert number < 100000
        if answer != "OK":
            size //= 2
    for begin in range(1000000):  # and with names
        if binary.acquire(1, 1, b"name-%d" % begin) == wire.OUT_OF_MEMORY:
            break
    before = operator.pools()
    refused = "ERROR OUT_OF_MEMORY"
    for line in (
        "MEMBER ADD fill more %s a=%s" % ("v" * 4096, "w" * 128),
        "MEMBER SET db m2 value=%s" % ("v" * 4096),
        "JOIN br more %s" % ("v" * 4096),
    ):
        assert greedy.ask(line) == refused, line[:40]
    answers = set()
    for i in range(2000):
        answers.add(greedy.ask("POOL ADD p%d" % i))
        if refused in answers:
            break
    assert answers <= {"OK", refused} and refused in answers
    crowd = []
    for line in ("TAKE db 600 member=m1 with=a=1 by=%s" % ("x" * 128), "WATCH db", "SUPPLY br 0 1"):
        # Memory that is left in pieces may do for some; at last one is refused.
        for _ in range(300):
            crowd.append(connect(daemon))
            crowd[-1].say(line)
            if not line.startswith("TAKE"):
                answer = crowd[-1].line()
                assert answer in ("OK", refused), (line, answer)
                if answer == refused:
                    break
    after = operator.pools("db")["db"]
    assert {k: v for k, v in after.items() if k != "waiting"} == {
        k: v for k, v in before["db"].items() if k != "waiting"
    }
    assert holder.ask("RETURN %d" % holds[0].fence) == "RETURNED"
    assert waiter.taken().member == "m1"
    assert waiter.ask("RETURN") == "RETURNED"
    holder.close()
    wire.poll(lambda: greedy.pools("br")["br"]["stopping"] == "1", "its member is to stop")
    assert operator.line() == "STOP br b1 crash"
    for client in crowd:
        client.close()
    operator.does("POOL DROP fill now")
    wire.poll(lambda: operator.pools("db")["db"]["waiting"] == "0", "nobody waits")
    assert greedy.ask("MEMBER ADD db more") == "OK"
    for client in (operator, waiter, greedy, binary):
        client.close()


# --- upgrades ------------------------------------------------------------------------------------


def strip_times(shown):
    """What SHOW says, without seconds and ids of connections."""

    def peer(word):
        return word.partition("@")[2]

    members = [(m.name, m.state, m.fence, peer(m.holder), m.facts) for m in shown.members]
    waiters = [(peer(words[0]), words[2:]) for words in shown.waiters]
    return shown.pool, members, waiters


class Crowd:
    """Clients of pools in the midst of all that pools can be in the midst of."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.operator = o = connect(daemon)
        o.does(
            "POOL ADD db on_return=dirty overtakes=7", "POOL ADD de group=g", "POOL ADD dr",
            "POOL ADD od on_start=dirty", "POOL ADD br kind=joined max=9 min_free=1",
        )  # fmt: skip
        for pool, member in (
            ("db", "m1 one a=1 b=2"), ("db", "m2 two"), ("db", "m3"), ("db", "m4"), ("db", "m5"),
            ("de", "m1"), ("dr", "m1"), ("dr", "m2"), ("od", "d1"), ("od", "d2"), ("od", "d3"),
        ):  # fmt: skip
            o.does("MEMBER ADD %s %s" % (pool, member))
        self.holder, self.cleaner, self.robbed = connect(daemon), connect(daemon), connect(daemon)
        self.use = self.holder.take("db 0 member=m1 by=holder")
        self.other = self.holder.take("de")
        self.draining = self.holder.take("dr 0 member=m1")
        self.clean = self.cleaner.take("od 0 for=clean")
        self.check = self.cleaner.take("db 0 for=check member=m2")
        self.gone = self.robbed.take("db 0 member=m3")
        self.kept = self.robbed.take("db 0 member=m4")
        o.does(
            "MEMBER SET db m3 state=dirty now", "MEMBER SET db m4 state=down note=later",
            "MEMBER SET db m5 state=down note=fan c=3", "POOL DROP dr",
        )  # fmt: skip
        self.supplier, self.member = connect(daemon), connect(daemon)
        self.wanted = None  # the last WANT
        self.supplier.does("SUPPLY br 2 5")
        self.until("WANT br 2")
        self.supplier.join("br b1 host:1 a=1", "br b2")
        self.member.join("br b3")
        self.browser = self.holder.take("br 0 member=b1")
        o.does("MEMBER DROP br b2")
        self.until("STOP br b2 drop")
        # Their places: two in db, the second also in de; one elsewhere.
        self.first, self.second, self.third = connect(daemon), connect(daemon), connect(daemon)
        self.first.say("TAKE db 600 count=1 member=m1 by=first")
        waits(o, "db", 1)
        self.second.say("TAKE de,db 600 by=second")
        waits(o, "db", 2)
        self.third.say("TAKE de 600.5")
        waits(o, "de", 2)
        self.by_name, self.all, self.mine = connect(daemon), connect(daemon), connect(daemon)
        self.by_name.does("WATCH de")
        self.all.does("WATCH *")
        self.mine.does("WATCH br mine")
        self.mine.say("JOIN br b4")
        assert sorted(self.mine.line().split(" ")[0] for _ in range(2)) == ["EVENT", "JOINED"]
        assert self.all.line().startswith("EVENT br b4 - free join")
        self.seen = None

    def until(self, awaited):
        """Reads the supplier's lines until one is as awaited; all others must be WANTs."""
        while True:
            line = self.supplier.line()
            if line.startswith("WANT "):
                self.wanted = line
            if line == awaited:
                return
            assert line.startswith("WANT "), line

    def wants(self):
        """The last WANT that the supplier was told."""
        self.supplier.say("RELEASE")
        self.until("NOT_LOCKED")
        return self.wanted

    def look(self):
        pools = {name: strip_times(self.operator.show(name)) for name in self.operator.pools()}
        seen = pools, self.wants()
        self.seen = self.seen or seen
        assert seen == self.seen
        for client in (
            self.holder, self.cleaner, self.robbed, self.member, self.first, self.second,
            self.third, self.by_name, self.all, self.mine,
        ):  # fmt: skip
            assert client.is_silent(), bytes(client.buffer)

    def finish(self):
        """Each goes on."""
        o, highest = self.operator, self.browser.fence
        assert self.robbed.ask("RETURN %d" % self.gone.fence) == "GONE"
        assert self.robbed.ask("RETURN %d" % self.gone.fence) == "NOT_TAKEN"
        assert self.holder.ask("RETURN %d" % self.kept.fence) == "NOT_TAKEN"
        assert self.robbed.ask("RETURN %d" % self.kept.fence) == "RETURNED"
        assert o.states("db")["m4"] == "down"
        assert self.holder.ask("RETURN %d" % self.other.fence) == "RETURNED"
        got = self.second.taken()
        assert (got.pool, got.member) == ("de", "m1") and got.fence > highest
        assert self.by_name.line().startswith("EVENT de m1 taken free return ")
        assert self.by_name.line().startswith("EVENT de m1 free taken take fence=%d " % got.fence)
        assert self.second.ask("RETURN") == "RETURNED"
        later = self.third.taken()
        assert later.member == "m1" and later.fence > got.fence
        assert self.holder.ask("RETURN %d ok" % self.use.fence) == "RETURNED"
        assert o.states("db")["m1"] == "dirty" and self.first.is_silent()
        o.does("MEMBER SET db m1 state=free")
        got = self.first.taken()
        assert got.member == "m1" and got.value == "one" and got.attrs == ["a=1", "b=2"]
        assert self.holder.ask("RETURN %d" % self.draining.fence) == "RETURNED"
        assert "dr" not in o.pools()
        assert self.cleaner.ask("RETURN %d fail" % self.clean.fence) == "RETURNED"
        assert self.cleaner.ask("RETURN") == "RETURNED"
        assert o.states("od")[self.clean.member] == "dirty"
        assert o.states("db")["m2"] == "free"
        self.supplier.say("MEMBER DROP br b2 now")
        self.until("OK")
        self.member.close()
        has_states(o, "br", {"b1": "taken", "b4": "free"})
        o.does("MEMBER SET br b4 a=1 state=down")
        assert self.mine.line().startswith("EVENT br b4 free down operator")
        self.supplier.close()
        has_states(o, "br", {"b4": "down"})
        assert self.holder.ask("RETURN") == "GONE"
        for client in vars(self).values():
            if isinstance(client, wire.Client):
                client.close()
        with connect(self.daemon) as late:
            wire.poll(
                lambda: all(
                    pool["taken"] == pool["cleaning"] == pool["checking"] == pool["waiting"] == "0"
                    for pool in late.pools().values()
                ),
                "all is back",
            )


# row event.upgrade
def test_pools_go_on_over_several_upgrades(start, tmp_path):
    running = test_upgrade.Running(start, tmp_path, "counter.threads=2")
    crowd = Crowd(running.daemon)
    crowd.look()
    running.succeed()
    crowd.look()
    running.install()
    running.succeed(signal.SIGHUP)
    crowd.look()
    assert "reload: done" in running.daemon.reload()
    crowd.look()
    crowd.finish()


def test_pools_go_on_when_an_upgrade_fails(start, tmp_path):
    running = test_upgrade.Running(start, tmp_path, "counter.threads=2")
    crowd = Crowd(running.daemon)
    crowd.look()
    for part in ("check", "rehearse"):
        running.misbehave(part, "exit 1")
        running.fail()
        crowd.look()
    running.install()
    running.succeed()
    crowd.finish()


def test_an_upgrade_keeps_pools_of_the_file_and_of_verbs(start, tmp_path):
    text = "pool.db.members = m1, m2\npool.db.on_return = dirty\n"
    running = test_upgrade.Running(start, tmp_path, "counter.threads=2", settings=text)
    with connect(running.daemon) as client:
        client.does("POOL ADD byhand max=3", "MEMBER ADD byhand h1", "MEMBER SET db m2 state=down")
        hold = client.take("db")
        before = client.pools(), client.states("db"), client.states("byhand")
        running.succeed()
        assert (client.pools(), client.states("db"), client.states("byhand")) == before
        # What the new file says takes effect; the pool of verbs stays one.
        running.write("pool.db.members = m2, m3\n")
        running.succeed()
        assert client.states("db") == {"m1": "taken", "m2": "down", "m3": "free"}
        assert client.pools()["db"]["on_return"] == "free"
        assert client.states("byhand") == {"h1": "free"}
        assert client.ask("RETURN %d" % hold.fence) == "RETURNED"
        assert client.states("db") == {"m2": "down", "m3": "free"}


def test_requests_that_look_at_many_members(start, tmp_path):
    """They are answered in order, wait in their turn, and go on over an upgrade."""
    running = test_upgrade.Running(start, tmp_path, "counter.threads=2", admin=True)
    over, answers = threading.Event(), []

    def look():
        with connect(running.daemon) as client:
            while not over.is_set():
                client.send_reading(b"TAKE big 0 with=z=2\n" * 5)
                answers.extend(client.line() for _ in range(5))

    with connect(running.daemon) as client, connect(running.daemon) as other:
        client.does("POOL ADD big", "POOL ADD small", "MEMBER ADD small s")
        add_members(client, "big", ["m%04d" % i for i in range(3000)], "value", "z=0")
        client.say("TAKE big 0 with=z=1")
        client.say("TAKE small")
        client.say("TAKE big 600 with=z=1")
        client.say("RETURN")
        client.say("TAKE big 600 with=z=1 count=2")
        client.say("TAKE small")
        assert client.line() == "TIMEOUT"
        assert client.taken().pool == "small"
        assert client.line() == "RETURNED"  # the wait, which is newer
        assert client.line() == "ERROR WAIT_FOR_RESPONSE"
        other.does("MEMBER SET big m0000 z=1")
        threads = [threading.Thread(target=look) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            running.succeed()
            count = len(answers)
            wire.poll(lambda: len(answers) > count + 15, "requests go on after the upgrade", 60)
            most = http_client.ask(running.daemon.admin, "GET", "/metrics")[1]
            assert int(re.search(r"^counterd_pools_visited_most (\d+)$", most, re.M)[1]) < 1300
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert set(answers) == {"TIMEOUT"}
        other.does("MEMBER SET big m2999 z=1")
        assert {client.taken().member for _ in range(2)} == {"m0000", "m2999"}
        other.say("TAKE big 0 with=z=1")
        other.say("QUIT")
        assert [other.line(), other.line()] == ["TIMEOUT", "BYE"]


def test_a_step_of_a_request_finds_its_member(start):
    daemon = start("counter.threads=1")
    with connect(daemon) as client, connect(daemon) as other:
        client.does("POOL ADD big")
        add_members(client, "big", ["m%04d" % i for i in range(3000)], "value", "z=0")
        client.does("MEMBER SET big m0000 z=1", "MEMBER SET big m0001 z=1")
        assert client.take("big 0 with=z=1").member == "m0001"
        other.say("TAKE big 5 count=2 with=z=1")
        assert client.ask("RETURN") == "RETURNED"
        assert {other.taken().member for _ in range(2)} == {"m0000", "m0001"}
        client.say("TAKE big 5 with=z=1")
        assert other.ask("RETURN") == "RETURNED"
        assert client.taken().member in ("m0000", "m0001")


def test_an_upgrade_that_a_reload_would_refuse_is_refused(start, tmp_path):
    running = test_upgrade.Running(start, tmp_path, settings="pool.db.members = m1\n")
    with connect(running.daemon) as client:
        client.does("POOL ADD byhand", "MEMBER ADD byhand h1")
        for text, name in (
            ("pool.db.members = m1\npool.byhand.members = f1\n", "byhand"),
            ("pool.db.kind = joined\n", "db"),
        ):
            running.write(text)
            for said in (running.daemon.reload(), running.fail()):
                assert "error: " in said and "pool.%s: " % name in said, said
                assert client.states("byhand") == {"h1": "free"}
                assert client.states("db") == {"m1": "free"}
        # As the messages say.
        running.write("pool.byhand.members = f1\n")
        client.does("POOL DROP byhand")
        running.succeed()
        assert sorted(client.pools()) == ["byhand"]
        assert client.states("byhand") == {"f1": "free"}


def test_a_file_that_says_what_is_so_is_no_event(start, tmp_path):
    text = "pool.db.members = m1\npool.db.group = g\npool.br.kind = joined\n"
    running = test_upgrade.Running(start, tmp_path, "counter.threads=2", settings=text)
    with connect(running.daemon) as client, connect(running.daemon) as watcher:
        watcher.does("WATCH *")
        running.succeed()
        assert "reload: done" in running.daemon.reload()
        client.does("POOL ADD byhand")
        assert watcher.line() == "EVENT byhand - - - add"
        running.write(text + "pool.db.max = 3\n")
        assert "reload: done" in running.daemon.reload()
        assert watcher.line() == "EVENT db - - - set"
        client.does("POOL DROP byhand now")
        assert watcher.line() == "EVENT byhand - - - drop"


def test_times_go_on_over_an_upgrade(start, tmp_path):
    running = test_upgrade.Running(start, tmp_path, "counter.threads=2")
    with connect(running.daemon) as client, connect(running.daemon) as waiter:
        seconds = 6
        client.does("POOL ADD db clean_after=%d on_start=dirty" % seconds, "MEMBER ADD db m1")
        client.does("POOL ADD de hold_max=%d" % seconds, "MEMBER ADD de m2")
        client.does("POOL ADD br kind=joined max_lifetime=%d stop_timeout=%d" % (seconds, seconds))
        client.join("br b1")
        client.take("de")
        waiter.say("TAKE de 3600 member=m2 for=clean")
        waits(client, "de", 1)
        running.succeed()
        assert client.line() == "STOP br b1 lifetime"
        assert waiter.taken().member == "m2"
        has_states(client, "db", {"m1": "free"})
        assert client.ask("RETURN") == "GONE"
        has_states(client, "br", {})


def test_overtakings_count_over_an_upgrade(start, tmp_path):
    running = test_upgrade.Running(start, tmp_path, "counter.threads=2")
    with connect(running.daemon) as client, connect(running.daemon) as waiter:
        client.does("POOL ADD db overtakes=1", "MEMBER ADD db m1", "MEMBER ADD db m2")
        client.take("db 0 member=m1")
        waiter.say("TAKE db 3600 count=2")
        waits(client, "db", 1)
        client.take("db")
        assert client.ask("RETURN") == "RETURNED"
        running.succeed()
        assert client.ask("TAKE db") == "TIMEOUT"
        assert client.ask("RETURN") == "RETURNED"
        assert {waiter.taken().member, waiter.taken().member} == {"m1", "m2"}


# row ends.killed
def test_tls_connections_crash_at_an_upgrade(start, tmp_path):
    authority = certificates.Authority(str(tmp_path))
    cert, key = authority.issue("server")
    running = test_upgrade.Running(
        start,
        tmp_path,
        "counter.threads=2",
        "tls.cert=%s" % cert,
        "tls.key=%s" % key,
        "poolcounter.tls_port=%d" % servers.free_port(),
    )
    trusting = certificates.context(authority)
    secure = Client(running.daemon.text_tls, tls=trusting)
    waiting = Client(running.daemon.text_tls, tls=trusting)
    with connect(running.daemon) as plain, connect(running.daemon) as waiter:
        plain.does("POOL ADD db", "MEMBER ADD db m1", "MEMBER ADD db m2", "POOL ADD br kind=joined")
        plain.does("POOL ADD de on_fail=free", "MEMBER ADD de m3")
        secure.join("br b1")
        hold = plain.take("br")
        secure.take("db 0 member=m1")
        secure.take("de")
        waiting.say("TAKE de 600")
        waits(plain, "de", 1)
        waiter.say("TAKE de 600")
        waits(plain, "de", 2)
        running.succeed()
        assert secure.wait_closed() == b"" and waiting.wait_closed() == b""
        assert waiter.taken().member == "m3"
        assert plain.states("db") == {"m1": "dirty", "m2": "free"}
        assert plain.states("br") == {}
        assert plain.ask("RETURN %d" % hold.fence) == "GONE"
    secure.close()
    waiting.close()


# --- ends ----------------------------------------------------------------------------------------


# row ends.killed
def test_a_connection_killed_by_an_administrator_crashes(start):
    daemon = start("counter.threads=2", "admin.token=secret", admin=True)
    with connect(daemon) as operator, connect(daemon) as victim, connect(daemon) as waiter:
        operator.does("POOL ADD db on_fail=free", "MEMBER ADD db m1", "POOL ADD br kind=joined")
        victim.join("br b1")
        hold = operator.take("br")
        victim.take("db")
        waiter.say("TAKE db 600")
        waits(operator, "db", 1)
        holder = operator.show("db").members[0].holder
        tag, _, peer = holder.partition("@")
        assert peer == "%s:%d" % victim.sock.getsockname()
        path = "/api/v1/connections/%s/kill" % tag
        assert http_client.ask(daemon.admin, "POST", path, "secret")[0] == 200
        assert victim.wait_closed() == b""
        assert waiter.taken().member == "m1"
        assert operator.ask("RETURN %d" % hold.fence) == "GONE"
        assert operator.states("br") == {}


# row event.killed
def test_a_daemon_that_was_killed_begins_anew(start, tmp_path):
    path = tmp_path / "counter.conf"
    path.write_text("pool.db.members = m1, m2\npool.db.on_start = dirty\npool.de.members = m3\n")
    port = servers.free_port()
    options = ["counter.threads=2", "poolcounter.port=%d" % port]
    daemon = start(*options, args=["-f", str(path)])
    with connect(daemon) as client:
        client.does("POOL ADD byhand", "MEMBER ADD byhand h1", "MEMBER SET db m1 state=free")
        old = [client.take("db"), client.take("de"), client.take("byhand")]
        daemon.is_expected_to_be_gone = True
        daemon.kill()
    daemon = start(*options, args=["-f", str(path)])
    with connect(daemon) as client:
        assert sorted(client.pools()) == ["db", "de"]
        assert client.states("db") == {"m1": "dirty", "m2": "dirty"}
        assert client.states("de") == {"m3": "free"}
        for hold in old:
            assert client.ask("RETURN %d" % hold.fence) == "NOT_TAKEN"
        assert client.take("de").fence > max(hold.fence for hold in old)


# row drain
def test_a_shutdown_waits_for_held_members(start):
    daemon = start("counter.threads=2", "shutdown.drain=600")
    with connect(daemon) as operator, connect(daemon) as holder, connect(daemon) as waiter:
        operator.does("POOL ADD db", "MEMBER ADD db m1", "POOL ADD br kind=joined")
        operator.join("br b1")
        hold = holder.take("db")
        waiter.say("TAKE db 600")
        waits(operator, "db", 1)
        daemon.is_expected_to_be_gone = True
        daemon.child.send_signal(signal.SIGTERM)
        daemon.wait_log("draining: no new acquires")
        with connect(daemon) as late:
            assert late.ask("TAKE db") == "ERROR SHUTTING_DOWN"
            assert late.ask("TAKE br 5") == "ERROR SHUTTING_DOWN"
            assert late.ask("JOIN br b2") == "ERROR SHUTTING_DOWN"
            assert late.pools()["db"]["taken"] == "1"
        assert holder.ask("RETURN %d" % hold.fence) == "RETURNED"
        assert waiter.taken().member == "m1"
        assert daemon.is_running(), "it waits for that one, too"
        assert waiter.ask("RETURN") == "RETURNED"
        assert daemon.wait() == 0


def test_many_clients_that_die_leave_nothing_held(start):
    daemon = start("counter.threads=2")
    with connect(daemon) as operator:
        operator.does("POOL ADD db on_fail=free queue_max=1000", "POOL ADD br kind=joined")
        add_members(operator, "db", ["m%d" % i for i in range(50)])
        crowd = [connect(daemon) for _ in range(wire.scaled(300, 100))]
        for number, client in enumerate(crowd):
            client.send(
                b"JOIN br b%d\nTAKE db 600 count=%d\nTAKE br 0\n" % (number, number % 7 + 1)
            )
        for number, client in enumerate(crowd):
            if number % 3 == 0:
                client.reset()
            elif number % 3 == 1:
                client.close()
            else:
                client.eof()
        for client in crowd[2::3]:
            client.wait_closed()
            client.close()

        def is_over():
            pools = operator.pools()
            return pools["db"]["free"] == "50" and pools["db"]["waiting"] == "0" and (
                pools["br"]["members"] == "0"
            )

        wire.poll(is_over, "all is back")
        with daemon.binary_client() as binary:
            assert not binary.get(b"pool:db") and not binary.get(b"pool:br")
            stats = dict(binary.stats())
            assert (stats["pool_held"], stats["pool_waiting"]) == ("0", "0")
            names = [name for name, _ in binary.stats()]
            assert names[-4:] == ["pools", "pool_members", "pool_held", "pool_waiting"]


# --- metrics and JSON ----------------------------------------------------------------------------


# row metrics
def test_metrics_of_pools(start):
    daemon = start("counter.threads=2", admin=True)
    with connect(daemon) as client, connect(daemon) as waiter:
        client.does("POOL ADD db queue_max=1 hold_warn=0.01", "MEMBER ADD db m1")
        client.does("MEMBER ADD db m2", "MEMBER SET db m2 state=down", "POOL ADD br kind=joined")
        assert client.ask("TAKE db 0 for=clean") == "TIMEOUT"
        client.take("db")
        waiter.say("TAKE db 600")
        waits(client, "db", 1)
        assert client.ask("TAKE db 5") == "QUEUE_FULL"

        def metrics():
            status, body = http_client.ask(daemon.admin, "GET", "/metrics")
            assert status == 200
            return body

        for line in (
            'counterd_pool_members{pool="db",state="taken"} 1',
            'counterd_pool_members{pool="db",state="down"} 1',
            'counterd_pool_members{pool="db",state="free"} 0',
            'counterd_pool_waiting{pool="db"} 1',
            'counterd_pool_want{pool="br"} 0',
            'counterd_pool_takes_total{pool="db",for="use",outcome="taken"} 1',
            'counterd_pool_takes_total{pool="db",for="use",outcome="queue_full"} 1',
            'counterd_pool_moves_total{pool="db",why="take"} 1',
            'counterd_pool_moves_total{pool="db",why="operator"} 1',
        ):
            assert line in metrics(), line
        wire.poll(lambda: 'counterd_pool_late{pool="db"} 1' in metrics(), "it is late")
        assert client.ask("RETURN") == "RETURNED"
        waiter.taken()
        body = metrics()
        assert 'counterd_pool_wait_duration_seconds_count{pool="db"' in body
        assert 'counterd_pool_hold_duration_seconds_count{pool="db"' in body


# row api
def test_pools_as_json(start):
    daemon = start("counter.threads=2", admin=True)
    with connect(daemon) as client, connect(daemon) as waiter:
        client.does("POOL ADD db", "MEMBER ADD db m1 secret-value a=1", "POOL ADD br kind=joined")
        client.take("db 0 by=me")
        waiter.say("TAKE db 600")
        waits(client, "db", 1)
        everything = json.dumps(http_client.get(daemon.admin, "/api/v1/pools"))
        assert '"db"' in everything and '"br"' in everything
        one = json.dumps(http_client.get(daemon.admin, "/api/v1/pools/db"))
        assert '"m1"' in one and '"taken"' in one and '"me"' in one
        for text in (everything, one):
            assert "secret-value" not in text
        assert http_client.ask(daemon.admin, "GET", "/api/v1/pools/none")[0] == 404
        assert "secret-value" not in daemon.log


if __name__ == "__main__":
    tap.main(__file__)
