"""
Nodes that share limits through a Redis: the stories of cluster.story on two of them, ends, reloads, upgrades,
and an engine that is away or does not fit.
"""

import json
import os
import re
import shutil
import signal
import sys

import pytest
import tap

import cluster_clocks
import http_client
import redis_servers
import servers
import wire

pytestmark = [
    pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon"),
    pytest.mark.skipif(not redis_servers.have_redis(), reason="there is no redis-server"),
]


@pytest.fixture(name="engine")
def make_engine():
    with redis_servers.RedisServer() as server:
        yield server


@pytest.fixture(name="node")
def make_node(start, engine):
    """
    A function that starts a node of this name and waits until it is live. `grace`: and until names
    that are strict can be granted.
    """

    def start_node(name, *options, grace=True, live=True, **kwargs):
        daemon = start(
            "cluster.engine=" + engine.url,
            "cluster.node=" + name,
            "cluster.lease=5",
            "cluster.strict=s-*",
            "cluster.loose=l-*, both*",
            "counter.threads=2",
            "admin.token=secret",
            *options,
            admin=True,
            **kwargs,
        )
        if live:
            daemon.wait_log("session [0-9a-f]{16} is live")
            wire.poll(lambda: state(daemon)["state"] == "live", "it is live")
        if live and grace:
            engine.ask("HDEL", "{counterd}:meta", "grace")  # no test waits for a grace that nothing needs
            wire.poll(lambda: not state(daemon)["grace"], "the grace is over")
        return daemon

    return start_node


@pytest.fixture
def clocks(tmp_path):
    """Clocks of a node, which a test moves instead of waiting for the end of a lease."""
    if wire.SLOW or not cluster_clocks.have_clocks():
        pytest.skip("t/system/clock_shift.so is not built, or a sanitizer would have to come first")
    return cluster_clocks.Clocks(tmp_path)


def state(daemon, name=None):
    """What /api/v1/cluster says; with `name`, the part of it that is about this name."""
    answer = http_client.get(daemon.admin, "/api/v1/cluster" + ("?name=" + name if name else ""))
    return answer["name"] if name else answer


def shares(daemon, name):
    """Which nodes have units and waits of a name. Asks again while the node has no session."""
    found = []

    def knows():
        status, body = http_client.ask(daemon.admin, "GET", "/api/v1/cluster?name=" + name)
        assert status in (200, 503), (name, status, body)
        if status == 200:
            found.append(json.loads(body)["name"]["nodes"])
        return found

    wire.poll(knows, "the node tells the holders of " + name)
    return found[0]


def metric(daemon, name):
    """The value of a metric, with its labels."""
    status, body = http_client.ask(daemon.admin, "GET", "/metrics")
    assert status == 200
    for line in body.splitlines():
        if line.startswith(name + " "):
            return float(line.split()[-1])
    raise AssertionError("no metric " + name)


def left_in(engine):
    """The keys of the engine that a node which has gone in order does not leave."""
    return sorted(key for key in engine.ask("KEYS", "*") if key != b"{counterd}:meta")


def await_stopped(pid):
    """Waits until SIGSTOP has stopped all threads of a process."""

    def has_stopped():
        states = []
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/stat" % (pid, task), encoding="latin-1") as f:
                states.append(f.read().rpartition(")")[2].split()[0])
        return set(states) <= {"T", "t"}

    wire.poll(has_stopped, "process %d is stopped" % pid)


def waiter_count(daemon):
    with daemon.text_client() as client:
        return client.stat("waiting_workers")


# ---- stories ------------------------------------------------------------------------------------

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cluster.story")


def stories():
    """(title, columns, lines) of each row of each story."""
    with open(PATH, encoding="utf-8") as f:
        for text in f.read().split("\nstory ")[1:]:
            title, *lines = text.strip().split("\n")
            rows = lines.pop(0)[5:].split("|") if lines[0].startswith("each ") else [""]
            for row in rows:
                yield title, [column.strip() for column in row.split("~")], lines


class Player:
    """Plays stories on nodes that go on from one to the next; each has names of its own."""

    def __init__(self, nodes):
        self.nodes, self.number, self.clients = nodes, 0, {}

    def play(self, columns, lines):
        self.number += 1
        for client in self.clients.values():
            client.close()
        self.clients = {}
        wire.poll(lambda: not any(map(waiter_count, self.nodes.values())), "the last story is over")
        for line in lines:
            for at, column in enumerate(columns, 1):
                line = line.replace("$%d" % at, column)
            line = re.sub(r"\b([lsx]2?|both)(?=\s|\\n|$)", r"\1-%d" % self.number, line)
            what, arrow, answers = (line + " ").partition(" ->")
            who, _, what = what.strip().partition(" ")
            self.step(who, what, bool(arrow), answers.strip())

    def step(self, who, what, reads, answers):
        if who == "shares":
            status = {"not shared": 404}.get(answers, 200)
            found = answers.split(", ") if status == 200 and answers else []
            wire.poll(lambda: shares_in_words(self.nodes["a"], what) == (status, found), who + " " + what)
            return
        node = self.nodes[who[0]]
        if what.startswith("binary"):
            assert str(self.binary(who, node, *what.split()[1:])) == answers, what
            return
        client = self.clients.setdefault(who, None) or node.text_client()
        self.clients[who] = client
        before = waiter_count(node) if answers == "waits" else 0
        if what == "end":
            self.clients.pop(who).close()
        elif what == "eof":
            client.eof()
            assert client.wait_closed().decode().split() == answers.split()
            del self.clients[who]
        elif what:
            client.say(what.replace("\\n", "\n"))
        if what == "eof" or not reads:
            return
        if answers == "waits":
            wire.poll(lambda: waiter_count(node) == before + 1, who + " waits")
        elif answers == "silent":
            assert client.is_silent()
        else:
            lines = what.count("\\n") + 1
            assert " ".join(client.line() for _ in range(lines)) == answers, (who, what)

    def binary(self, who, node, word, *arguments):
        client = self.clients.get(who) or node.binary_client()
        self.clients[who] = client
        name = arguments[-1].encode()
        if word == "get":
            return client.get(name)
        units = [int(n) for n in arguments[0].split("/")]
        return client.acquire(*units, name) if word == "acquire" else client.release(*units, name)


def shares_in_words(daemon, name):
    status, body = http_client.ask(daemon.admin, "GET", "/api/v1/cluster?name=" + name)
    nodes = json.loads(body)["name"]["nodes"] if status == 200 else []
    return status, sorted("%(node)s %(units)d %(waits)d" % node for node in nodes)


@pytest.fixture(name="player", scope="module")
def make_player():
    with redis_servers.RedisServer() as server:
        nodes = {}
        try:
            for name in "ab":
                nodes[name] = servers.Counterd(
                    "cluster.engine=" + server.url, "cluster.node=" + name, "cluster.strict=s*",
                    "cluster.loose=l*, both*", "counter.threads=2", "poolcounter.max_locks=2", admin=True,
                )  # fmt: skip
                wire.poll(lambda name=name: state(nodes[name])["state"] == "live", "it is live")
            server.ask("HDEL", "{counterd}:meta", "grace")
            for daemon in nodes.values():
                wire.poll(lambda daemon=daemon: not state(daemon)["grace"], "the grace is over")
            yield Player(nodes)
            for daemon in nodes.values():
                daemon.stop()
        finally:
            for daemon in nodes.values():
                daemon.kill()


@pytest.mark.parametrize("title, columns, lines", stories())
def test_story(player, title, columns, lines):
    player.play(columns, lines)


# ---- threads and ends ---------------------------------------------------------------------------


def test_answers_of_a_wait_and_of_a_release_do_not_get_lost(node, tmp_path):
    a, b = node("a", program=program(tmp_path)), node("b")
    client, holder = a.text_client(), b.text_client()
    seen = set()
    for i in range(60):
        assert client.ask("ACQ4ME l-1 1 9 5") == "LOCKED"
        assert holder.ask("ACQ4ME l-2 1 9 5") == "LOCKED"
        # Each third wait runs out about when the release is on its way.
        client.say("ACQ4ME l-2 1 9 %s" % ("0.001" if i % 3 == 0 else "5"))
        if i % 3 != 0:
            wire.poll(lambda: waiter_count(a) == 1, "it waits")
        if i % 30 == 1:
            upgrade(a, i // 30 + 1)
        if i % 2:
            holder.say("RELEASE l-2")
        client.say("RELEASE l-1")
        if not i % 2:
            holder.say("RELEASE l-2")
        answers = [client.line(), client.line()]
        seen.add(tuple(answers))
        assert sorted(answers) in (["LOCKED", "RELEASED"], ["RELEASED", "TIMEOUT"]), answers
        assert holder.line() == "RELEASED"
        if "LOCKED" in answers:
            assert client.ask("RELEASE l-2") == "RELEASED"
        assert client.ask("RELEASE") == "NOT_LOCKED"
    assert len(seen) > 1, seen


def test_the_page_has_what_tools_read(node):
    a, b = node("a"), node("b")
    said = wire.poll(lambda: len(state(a)["nodes"]) == 2 and state(a), "it has looked")
    assert set(said) == set(
        "enabled state node session engine term grace refused reason reason_age reason_times "
        "reasons_before advice lease lease_left patience prefix "
        "strict loose requests waits beats calls ops round_trip asserted reaped leases_lost "
        "connections_closed reconnects nodes".split()
    )
    assert (said["lease"], said["patience"], said["strict"]) == (5, 1, "s-*")
    assert sorted((n["node"], n["this"], n["same_patterns"]) for n in said["nodes"]) == [
        ("a", True, True), ("b", False, True)
    ]  # fmt: skip
    assert set(said["nodes"][0]) == set(
        "node session state this same_patterns beat beat_age names waits units".split()
    )
    status, _ = http_client.ask(a.admin, "GET", "/api/v1/cluster?name=own")
    assert status == 404
    client = b.binary_client()
    assert client.acquire(2, 9, b"s-x") == wire.OK
    said = http_client.get(a.admin, "/api/v1/cluster?name=s-x")
    assert said["name"] == {
        "name": "s-x", "class": "strict", "units": 2, "waits": 0,
        "nodes": [{"node": "b", "units": 2, "waits": 0}],
    }  # fmt: skip


# ---- nodes come and go --------------------------------------------------------------------------


def test_a_node_that_ends_leaves_nothing_in_the_engine(node, engine):
    a, b = node("a"), node("b")
    clients = [d.text_client() for d in (a, b) for _ in range(20)]
    for i, client in enumerate(clients):
        client.say("ACQ4ME %s-%d 1 9 60" % ("ls"[i % 2], i % 5))
        client.say("STATS UPTIME")
    binary = a.binary_client()
    for i in range(50):
        assert binary.acquire(2, 9, b"l-%d" % (i + 100)) == wire.OK
    assert a.end_with(signal.SIGTERM) == 0
    assert b.end_with(signal.SIGTERM) == 0
    for each in (a, b):
        assert "could not leave" not in each.log and "units or waits" not in each.log
    assert left_in(engine) == []


def test_a_grant_that_comes_while_the_node_ends_goes_back(node, engine):
    """Workers end while what other nodes gave back is granted to them."""
    a = node("a", grace=False)
    keys = ["l-%d" % i for i in range(20)]
    for _ in range(wire.scaled(4, 2)):
        b = node("b", grace=False)
        holders, waiters = [a.text_client() for _ in keys], [b.text_client() for _ in keys]
        for holder, key in zip(holders, keys):
            assert holder.ask("ACQ4ME %s 1 9 0" % key) == "LOCKED"
        for waiter, key in zip(waiters, keys):
            waiter.say("ACQ4ME %s 1 9 60" % key)
        wire.poll(lambda: waiter_count(b) == len(keys), "all wait")
        for holder in holders:
            holder.close()
        assert b.end_with(signal.SIGTERM) == 0
        assert "units or waits" not in b.log
        assert len(engine.ask("KEYS", "{counterd}:s:*")) == 1  # that of a


def test_a_drain_ends_when_shared_units_are_given_back(node, engine):
    a = node("a", "shutdown.drain=600", grace=False)
    b = node("b", grace=False)
    holder, waiter = a.text_client(), b.text_client()
    assert holder.ask("ACQ4ME l-1 1 9 0") == "LOCKED"
    waiter.say("ACQ4ME l-1 1 9 60")
    wire.poll(lambda: waiter_count(b) == 1, "it waits")
    a.is_expected_to_be_gone = True
    a.child.send_signal(signal.SIGTERM)
    a.wait_log("draining: no new acquires")
    late = a.text_client()
    assert late.ask("ACQ4ME l-2 1 9 5") == "ERROR SHUTTING_DOWN"
    assert holder.ask("RELEASE") == "RELEASED"
    assert waiter.line() == "LOCKED"
    assert a.wait() == 0
    wire.poll(lambda: [n["node"] for n in state(b)["nodes"]] == ["b"], "it has left")


# ---- reloads and upgrades -----------------------------------------------------------------------


def configured(tmp_path, engine, **options):
    """A configuration file for a node; `write` changes it."""
    path = tmp_path / "counter.conf"
    lines = {"cluster.strict": "s-*", "cluster.loose": "l-*", "cluster.patience": "1"}

    def write(**changes):
        lines.update({"cluster." + key: value for key, value in changes.items()})
        path.write_text("".join("%s = %s\n" % item for item in lines.items()))

    write(**options)
    return path, write


def test_a_reload_changes_which_names_are_shared(start, node, engine, tmp_path):
    b = node("b", "cluster.loose=l-*,own*")
    path, write = configured(tmp_path, engine)
    a = start(
        "cluster.engine=" + engine.url, "cluster.node=a", "cluster.lease=5", args=["-f", str(path)],
        admin=True,
    )  # fmt: skip
    a.wait_log("is live")
    wire.poll(lambda: state(a)["state"] == "live", "it is live")
    holder, waiter, other = a.text_client(), a.text_client(), b.text_client()
    assert holder.ask("ACQ4ME own 1 9 0") == "LOCKED"
    waiter.say("ACQ4ME own 1 9 60")
    wire.poll(lambda: waiter_count(a) == 1, "it waits")
    assert other.ask("ACQ4ME own 1 9 0") == "LOCKED"
    assert other.ask("RELEASE") == "RELEASED"
    write(loose="l-*,own*")
    a.reload()
    expected = [{"node": "a", "units": 1, "waits": 1}]
    wire.poll(lambda: shares(b, "own") == expected, "the holder and the wait are told")
    assert other.ask("ACQ4ME own 1 9 0") == "TIMEOUT"
    assert holder.ask("RELEASE") == "RELEASED"
    assert waiter.line() == "LOCKED"
    write(loose="l-*")
    a.reload()
    wire.poll(lambda: shares(b, "own") == [], "it is shared no more")
    assert other.ask("ACQ4ME own 1 9 0") == "LOCKED"
    assert holder.ask("ACQ4ME own 1 9 0") == "TIMEOUT"
    assert waiter.ask("RELEASE") == "RELEASED"


def program(tmp_path):
    """A copy of the daemon, to be replaced."""
    path = tmp_path / "counterd"
    shutil.copy(servers.COUNTERD, path)
    return str(path)


def upgrade(daemon, count):
    """Tries again if the machine is so slow that the daemon gives it up, because the lease would end."""
    given_up = daemon.log.count("is not enough to take over")
    daemon.child.send_signal(signal.SIGUSR1)

    def is_over():
        nonlocal given_up
        if daemon.log.count("is not enough to take over") > given_up:
            given_up += 1
            daemon.child.send_signal(signal.SIGUSR1)
        return daemon.log.count("has taken over") == count

    wire.poll(is_over, "it has taken over", 5 * wire.DEADLINE)


def misbehave(path, part, deed):
    """Puts a program there that does something else in one part of an upgrade."""
    with open(path + ".new", "w", encoding="ascii") as f:
        f.write('#!/bin/sh\ncase "$COUNTERD_UPGRADE" in %s*) %s ;; esac\n' % (part, deed))
        f.write('exec %s "$@"\n' % os.path.abspath(servers.COUNTERD))
    os.chmod(path + ".new", 0o755)
    os.replace(path + ".new", path)


def test_an_upgrade_keeps_locks_and_waits(node, engine, tmp_path):
    a, b = node("a", program=program(tmp_path)), node("b")
    holder, waiter, strict, last = a.text_client(), a.text_client(), a.text_client(), b.text_client()
    binary = a.binary_client()
    assert holder.ask("ACQ4ME l-u 1 9 0") == "LOCKED"
    assert strict.ask("ACQ4ME s-u 1 9 0") == "LOCKED"
    assert binary.acquire(3, 9, b"l-n") == wire.OK
    waiter.say("ACQ4ME l-u 1 9 600")
    wire.poll(lambda: waiter_count(a) == 1, "it waits")
    last.say("ACQ4ME l-u 1 9 600")
    wire.poll(lambda: waiter_count(b) == 1, "the other one waits behind it")
    upgrade(a, 1)
    wire.poll(lambda: state(a)["state"] == "live", "it is live")
    assert waiter_count(a) == 1
    assert waiter.is_silent() and last.is_silent()
    assert binary.get(b"l-n") == 3
    assert b.text_client().ask("ACQ4ME s-u 1 9 0") == "TIMEOUT"
    assert holder.ask("RELEASE l-u") == "RELEASED"
    assert waiter.line() == "LOCKED", "its place was kept"
    assert last.is_silent()
    assert waiter.ask("RELEASE") == "RELEASED"
    assert last.line() == "LOCKED"
    assert strict.ask("RELEASE s-u") == "RELEASED"
    assert binary.release(3, b"l-n") == wire.OK
    assert binary.get(b"l-n") == 0
    for client in (holder, waiter, strict, last, binary):
        client.close()


def test_after_an_upgrade_that_failed_the_node_goes_on(node, engine, tmp_path):
    path = program(tmp_path)
    a, b = node("a", program=path), node("b")
    misbehave(path, "rehearse", "exit 1")
    holder, waiter = a.text_client(), a.text_client()
    assert holder.ask("ACQ4ME l-u 1 9 0") == "LOCKED"
    waiter.say("ACQ4ME l-u 1 9 600")
    wire.poll(lambda: waiter_count(a) == 1, "it waits")
    before = state(a)["session"]
    a.child.send_signal(signal.SIGUSR1)
    a.wait_log("goes on as before")
    wire.poll(lambda: state(a)["state"] == "live" and state(a)["session"] != before, "it is live")
    assert shares(b, "l-u") == [{"node": "a", "units": 1, "waits": 1}]
    assert holder.ask("RELEASE l-u") == "RELEASED"
    assert waiter.line() == "LOCKED"


@pytest.mark.parametrize(
    "changed, said",
    [
        ("", "cluster.engine has changed, which needs a restart"),
        ("engine = unix:/other", "cluster.engine has changed, which needs a restart"),
        ("prefix = other", "cluster.prefix has changed, which needs a restart"),
        ("lease = 11", "cluster.lease can't change from 10 s to 11 s in an upgrade: restart"),
        ("node = other", "cluster.node can't change from a to other in an upgrade: restart"),
    ],
)
def test_what_needs_a_restart_is_not_changed_by_an_upgrade(start, engine, tmp_path, changed, said):
    path = tmp_path / "counter.conf"
    lines = ["engine = " + engine.url, "node = a", "lease = 10", "prefix = p", "loose = l-*"]
    path.write_text("".join("cluster.%s\n" % line for line in lines))
    a = start(args=["-f", str(path)], program=program(tmp_path))
    a.wait_log("is live")
    kept = [line for line in lines if line.split()[0] != changed.partition(" ")[0]]
    path.write_text("".join("cluster.%s\n" % line for line in [*kept, changed] if changed))
    assert "restart" in a.reload()
    a.child.send_signal(signal.SIGUSR1)
    a.wait_log("goes on as before")
    assert said in a.log
    assert a.text_client().ask("ACQ4ME l-1 1 9 0") == "LOCKED"


def test_an_upgrade_that_waits_for_the_lease_ends_with_the_daemon(node, engine, tmp_path):
    a = node("a", program=program(tmp_path))
    holder = a.text_client()
    assert holder.ask("ACQ4ME s-1 1 9 0") == "LOCKED"
    a.child.send_signal(signal.SIGUSR1)
    a.wait_log("upgrade: to ")
    assert a.end_with(signal.SIGTERM) == 0
    assert "it is given up, because this program is to end" in a.log
    assert "has taken over" not in a.log


def test_no_pause_of_an_upgrade_begins_with_an_old_lease(node, engine, clocks, tmp_path):
    a = node("a", "cluster.lease=6", program=program(tmp_path), env=clocks.environment)
    assert a.text_client().ask("ACQ4ME s-1 1 9 0") == "LOCKED"
    engine.pause()
    try:
        await_stopped(engine.process.pid)
        a.child.send_signal(signal.SIGUSR1)
        a.wait_log("upgrade: to ")
        clocks.shift(others_s=7)  # the lease is over; the new program has 20 s to say that it can take over
        a.text_client().say("ACQ4ME l-1 1 9 0")  # wakes the thread of the cluster
        a.wait_log("has taken over")
    finally:
        engine.resume()
    assert a.log.index("the lease is over") < a.log.index("to copy the state")


# Comes when the lease is over, with a state that has another sum.
LATE_AND_DAMAGED = """touch %(begun)s; sleep 2; %(python)s -I -c 'import os
fd = int(os.environ["COUNTERD_UPGRADE"].split()[1])
at = os.fstat(fd).st_size - 1
os.pwrite(fd, bytes([os.pread(fd, 1, at)[0] ^ 1]), at)'"""


def test_the_way_back_after_the_lease_closes_what_is_strict_first(node, engine, tmp_path):
    path, begun = program(tmp_path), tmp_path / "begun"
    a = node("a", "cluster.lease=2", program=path)
    strict, loose = a.text_client(), a.text_client()
    assert strict.ask("ACQ4ME s-1 1 9 0") == "LOCKED"
    assert loose.ask("ACQ4ME l-1 1 9 0") == "LOCKED"
    misbehave(path, "take", LATE_AND_DAMAGED % {"begun": begun, "python": sys.executable})
    a.child.send_signal(signal.SIGUSR1)
    wire.poll(begun.exists, "nobody is served")
    strict.say("RELEASE s-1")
    loose.say("RELEASE l-1")
    a.wait_log("counterd .* goes on again")
    assert strict.wait_closed() == b""
    assert loose.line() == "RELEASED"
    assert (state(a)["leases_lost"], state(a)["connections_closed"]) == (1, 1)
    assert metric(a, "counterd_cluster_closed_total") == 1
    assert metric(a, "counterd_cluster_leases_lost_total") == 1


# ---- without the engine -------------------------------------------------------------------------


def test_without_the_engine_loose_names_go_on_alone(node, engine):
    a = node("a", "cluster.patience=0")
    holder, waiter = a.text_client(), a.text_client()
    assert holder.ask("ACQ4ME l-1 1 9 0") == "LOCKED"
    waiter.say("ACQ4ME l-1 1 9 600")
    wire.poll(lambda: waiter_count(a) == 1, "it waits")
    engine.end()
    wire.poll(lambda: state(a)["state"] != "live", "it is away")
    other = a.text_client()
    assert other.ask("ACQ4ME l-2 1 9 0") == "LOCKED"
    assert other.ask("ACQ4ME l-1 1 9 0") == "TIMEOUT"
    assert other.ask("ACQ4ME s-1 1 9 0") == "ERROR ENGINE_AWAY"
    binary = a.binary_client()
    assert binary.acquire(1, 9, b"s-1") == wire.NOT_AVAILABLE
    assert binary.acquire(1, 9, b"l-2") == wire.OK
    assert binary.get(b"l-2") == 2
    assert holder.ask("RELEASE") == "RELEASED"
    assert waiter.line() == "LOCKED"
    engine.start()
    wire.poll(lambda: state(a)["state"] == "live", "it is live again")
    expected = [{"node": "a", "units": 2, "waits": 0}]
    assert shares(a, "l-2") == expected, "what was granted meanwhile is told"
    assert shares(a, "l-1") == [{"node": "a", "units": 1, "waits": 0}]


# ---- engines that do not fit --------------------------------------------------------------------


def test_a_wrong_password_is_refused_and_a_reload_mends_it(start, engine, tmp_path):
    engine.ask("ACL", "SETUSER", "counterd", "on", ">pass-one", "~{counterd}:*", "&{counterd}:*", "+@all")
    path, write = configured(tmp_path, engine, user="counterd", password="pass-two", patience=0)
    a = start(
        "cluster.engine=" + engine.url, "cluster.node=a", "cluster.lease=5", args=["-f", str(path)],
        admin=True,
    )  # fmt: skip
    wire.poll(lambda: state(a)["state"] == "refused" and "password" in state(a)["refused"], "the page says so")
    assert a.text_client().ask("ACQ4ME l-1 1 9 0") == "LOCKED", "it goes on alone"
    write(password="pass-one")
    assert "pass-" not in a.reload() and "pass-" not in a.log
    wire.poll(lambda: state(a)["state"] == "live", "it is live")


@pytest.mark.parametrize("patterns", [("strict=*",), ("loose=*", "strict=l-*")])
def test_counters_of_pools_are_this_nodes_own(start, engine, patterns):
    a = start(
        "cluster.engine=" + engine.url, "cluster.node=a", "pool.gpu.members=one=1",
        *("cluster." + pattern for pattern in patterns), admin=True,
    )  # fmt: skip
    wire.poll(lambda: state(a)["state"] == "live", "it is live")
    assert "names that begin with pool: are units of this node's own pools" in a.log
    taker = a.text_client()
    assert taker.ask("TAKE gpu 0").startswith("TAKEN")
    assert a.text_client().ask("ACQ4ME pool:gpu 1 9 0") == "TIMEOUT", "the member counts"


if __name__ == "__main__":
    tap.main(__file__)
