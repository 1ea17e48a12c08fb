"""
Nodes that share limits through a Redis: the stories of cluster.story, which says its words, and what no story can
say: answers at random times, a failover by Sentinels, an answer in pieces.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import threading

import pytest
import tap

import certificates
import ctl
import http_client
import redis_servers
import resp
import servers
import wire

pytestmark = [
    pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon"),
    pytest.mark.skipif(not redis_servers.have_redis(), reason="there is no redis-server"),
]


# ---- nodes --------------------------------------------------------------------------------------


def state(daemon, name=None):
    """What /api/v1/cluster says; with `name`, which nodes have units and waits of it, or why not."""
    status, body = http_client.ask(daemon.admin, "GET", "/api/v1/cluster" + ("?name=" + name if name else ""))
    if name is None or status != 200:
        return json.loads(body) if name is None else {404: "not shared"}.get(status, status)
    nodes = json.loads(body)["name"]["nodes"]
    return ", ".join(sorted("%(node)s %(units)d %(waits)d" % node for node in nodes))


def await_live(daemon):
    wire.poll(lambda: state(daemon)["state"] == "live", "it is live")


def waiter_count(daemon):
    with daemon.text_client() as client:
        return client.stat("waiting_workers")


def await_waits(daemon, count):
    wire.poll(lambda: waiter_count(daemon) == count, "%d wait" % count)


def await_stopped(pid):
    """Waits until SIGSTOP has stopped all threads of a process."""

    def has_stopped():
        states = []
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/stat" % (pid, task), encoding="latin-1") as f:
                states.append(f.read().rpartition(")")[2].split()[0])
        return set(states) <= {"T", "t"}

    wire.poll(has_stopped, "process %d is stopped" % pid)


CLOCKS = os.path.join(os.path.abspath(os.environ.get("TOP_BUILDDIR", "build")), "t", "system", "clock_shift.so")


class Place:
    """A Redis and its nodes, by name. Each node reads a file, in which are its options."""

    def __init__(self, folder):
        self.folder, self.engine = folder, redis_servers.RedisServer()
        self.nodes, self.options, self.authority = {}, {}, None
        self.more = {}  # options of all nodes

    def set(self, name, *options):
        """Changes options of the file: those of cluster.* without that word; an empty value takes one out."""
        values = self.options.setdefault(name, {
            "cluster.engine": self.engine.url, "cluster.node": name, "cluster.lease": 5, "cluster.strict": "s*",
            "cluster.loose": "l*, both*", "counter.threads": 2, "poolcounter.max_locks": 2, "admin.token": "secret",
            **self.more,
        })  # fmt: skip
        for key, _, value in (option.partition("=") for option in options):
            values[key if "." in key else "cluster." + key] = value
        text = "".join("%s = %s\n" % item for item in values.items() if item[1] != "")
        (self.folder / (name + ".conf")).write_text(text)

    def engine_over_tls(self, shown):
        """
        A Redis with a certificate of the CA `ours`, which wants one of it. The folder has certificates of that CA and
        of another one, and a node's files beside them.
        """
        ours, other = (certificates.Authority(self.folder, name) for name in ("ours", "other"))
        for authority, name in (ours, "redis"), (ours, "node"), (other, "node"):
            authority.issue(name)
        ours.issue("elsewhere", "DNS:x.test")
        for source, name in ("ours.pem", "ca.pem"), ("ours-node.pem", "node.pem"), ("ours-node.key", "node.key"):
            shutil.copy(self.folder / source, self.folder / name)
        port, path = servers.free_port(), "%s/ours-%s." % (self.folder, shown or "redis")
        self.more = {"cluster.%s" % key: self.folder / name for key, name in (
            ("ca", "ca.pem"), ("cert", "node.pem"), ("key", "node.key"))}  # fmt: skip
        self.more["cluster.engine"] = "rediss://localhost:%d" % port
        self.engine.stop()
        self.engine = redis_servers.RedisServer(
            tls_port=port, tls_cert_file=path + "pem", tls_key_file=path + "key", tls_ca_cert_file=ours.cert,
        )  # fmt: skip

    def begin(self, name, *options):
        """Starts a node. `tls`: with a certificate; `clocks`: they can be moved."""
        if "tls" in options:
            self.authority = certificates.Authority(self.folder)
            files = ["tls.cert=%s" % "\ntls.key = ".join(self.authority.issue("localhost"))]
            files += ["%s.tls_port=%d" % (kind, servers.free_port()) for kind in ("poolcounter", "counter")]
            options = [*options, *files]
        env = None
        if "clocks" in options:
            if wire.SLOW or not os.path.exists(CLOCKS):
                pytest.skip("t/system/clock_shift.so is not built, or a sanitizer would have to come first")
            (self.folder / "clocks").write_bytes(bytes(16))
            env = {"LD_PRELOAD": CLOCKS, "CLOCK_SHIFT_FILE": str(self.folder / "clocks")}
        self.set(name, *(option for option in options if "=" in option))
        shutil.copy(servers.COUNTERD, self.folder / name)  # to be replaced
        self.nodes[name] = servers.Counterd(
            args=["-f", str(self.folder / (name + ".conf"))], admin=True, program=str(self.folder / name), env=env
        )
        return self.nodes[name]

    def start(self, name, *options):
        """Starts a node, and waits until it is live."""
        await_live(self.begin(name, *options))
        return self.nodes[name]

    def end_grace(self):
        """No test waits for a grace that nothing needs."""
        self.engine.ask("HDEL", "{counterd}:meta", "grace")
        for daemon in self.nodes.values():
            wire.poll(lambda d=daemon: not state(d)["grace"], "the grace is over")

    def shift(self, seconds):
        """The clocks of nodes with `clocks` are ahead, but the wall clock."""
        with open(self.folder / "clocks", "r+b") as f:  # in place, because it is mapped
            f.write(struct.pack("=qq", 0, int(seconds * 1e9)))

    def upgrade(self, name):
        """Tries again if the machine is so slow that the daemon gives it up, because the lease would end."""
        daemon, ends = self.nodes[name], "has taken over|is not enough to take over"
        for _ in range(20):
            count = len(re.findall(ends, daemon.log))
            daemon.child.send_signal(signal.SIGUSR1)
            said = wire.poll(lambda n=count: re.findall(ends, daemon.log)[n:], "the upgrade is over", 5 * wire.DEADLINE)
            if said == ["has taken over"]:
                return
        raise AssertionError("there never was time to take over")

    def stop(self):
        """Each node must end in order."""
        try:
            for daemon in self.nodes.values():
                (daemon.check_log if daemon.is_expected_to_be_gone else daemon.stop)()
        finally:
            for daemon in self.nodes.values():
                daemon.kill()
            self.engine.stop()


@pytest.fixture(name="place")
def make_place(tmp_path):
    place = Place(tmp_path)
    try:
        yield place
    finally:
        place.stop()


# ---- stories ------------------------------------------------------------------------------------

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cluster.story")
# What a program does in one part of an upgrade, if not `exit 1`: it says that it needs so many nanoseconds; it comes
# when the lease is over, with a state that has another sum.
DEEDS = {
    "late": "%s \"$@\" | sed '/ rehearse /s/[0-9]*$/9000000000/'; exit" % os.path.abspath(servers.COUNTERD),
    "late and damaged": """touch "$0.begun"; sleep 2; %s -I -c 'import os
fd = int(os.environ["COUNTERD_UPGRADE"].split()[1])
at = os.fstat(fd).st_size - 1
os.pwrite(fd, bytes([os.pread(fd, 1, at)[0] ^ 1]), at)'"""
    % sys.executable,
}


def stories():
    """(title, columns, steps) of each row of each story."""
    with open(PATH, encoding="utf-8") as f:
        for text in f.read().split("\nstory ")[1:]:
            title, *lines = text.strip().split("\n")
            rows = lines.pop(0)[5:].split("|") if lines[0].startswith("each ") else [""]
            steps = [step for line in lines if line and line[0] != "#" for step in line.split("; ")]
            for row in rows:
                yield title, [column.strip() for column in row.split("~")], steps


class Player:
    """Plays stories on nodes that go on from one to the next; each story has names of its own."""

    def __init__(self, place):
        self.place, self.number, self.is_strict = place, 0, False
        self.clients, self.asking = {}, []

    def play(self, columns, steps):
        self.number += 1
        steps = [re.sub(r"\$([1-9])", lambda m: columns[int(m[1]) - 1], step) for step in steps]
        self.is_strict = any(re.search(r"(ACQ4\w+|acquire \S+) s", step) for step in steps)
        try:
            for step in filter(None, steps):
                many = re.match(r"times (\d+): ", step)
                for at in range(int(many[1]) if many else 1):
                    self.line(step[many.end() :].replace("$#", str(at)) if many else step)
        finally:
            for client in self.clients.values():
                client.close()
            for thread in self.asking:
                thread.join()
            self.clients, self.asking = {}, []

    def line(self, line):
        line = line.replace("$dir", str(self.place.folder))
        line = re.sub(r"(?<= )([lsx]\d*|both)(?=\s|\\n|$)", r"\1-%d" % self.number, line)
        what, arrow, answers = (line + " ").partition(" ->")
        who, _, what = what.strip().partition(" ")
        self.step(who, what, bool(arrow), answers.strip())

    def step(self, who, what, reads, answers):
        word, _, rest = what.partition(" ")
        if who == "engine":
            self.engine_step(word, what, reads, answers)
        elif who[1:] == "" and what:
            self.node_step(who, word, rest, answers)
        elif word == "binary":
            self.binary(who, reads, answers, *rest.split())
        elif word == "end":
            self.clients.pop(who).close()
        elif word == "eof":
            client = self.clients.pop(who)
            client.eof()
            assert client.wait_closed().decode().split() == answers.split()
        else:
            self.text(who, what, reads, answers)

    def client(self, who, kind):
        """A client: its node's letter, `t` if it is one over TLS, and a number."""
        if who not in self.clients:
            node, tls = self.place.nodes[who[0]], None
            if who[1] == "t":
                tls = certificates.context(self.place.authority)
            made = {"text": wire.TextClient, "binary": wire.BinaryClient}[kind]
            self.clients[who] = made(getattr(node, kind + ("_tls" if tls else "")), tls=tls)
        return self.clients[who]

    def text(self, who, what, reads, answers):
        client, node = self.client(who, "text"), self.place.nodes[who[0]]
        before = waiter_count(node) if answers == "waits" else 0
        if what.startswith("until "):  # asks until it is answered so
            asked = what[6:].replace("\\n", "\n")
            wire.poll(lambda: client.ask(asked) == answers or client.ask("RELEASE") != "RELEASED", answers)
        elif what:
            client.say(what.replace("\\n", "\n"))
        if not reads or what.startswith("until "):
            return
        if answers == "waits":
            await_waits(node, before + 1)
        elif answers == "silent":
            assert client.is_silent()
        elif answers == "closed":
            assert client.wait_closed() == b""
        else:
            lines = what.count("\\n") + 1
            assert " ".join(client.line() for _ in range(lines)) == answers, (who, what)

    def binary(self, who, reads, answers, word, *arguments):
        client, name = self.client(who, "binary"), arguments[-1].encode()
        units = [int(n) for n in arguments[0].split("/")] if len(arguments) > 1 else []
        if not reads:
            client.send(wire.binary_request(wire.RELEASE, wire.release_body(*units, name)))
        else:
            assert str(getattr(client, word)(*units, name)) == answers, (who, word)

    def engine_step(self, word, what, reads, answers):
        engine = self.place.engine
        if word == "tls":
            self.place.engine_over_tls(what[4:])
            return
        if word.islower():
            getattr(engine, word)()
            if word == "pause":
                await_stopped(engine.process.pid)
            return
        answer = engine.ask(*shlex.split(what))
        answer = answer if isinstance(answer, list) else [answer]
        assert not reads or [a.decode() for a in answer] == answers.split(), (what, answer)

    def node_step(self, name, word, rest, answers):
        place, node = self.place, self.place.nodes.get(name)
        match word:
            case "begin":
                place.begin(name, *rest.split())
            case "start":
                place.start(name, *rest.split())
                if self.is_strict:
                    place.end_grace()
            case "live":
                await_live(node)
            case "set":
                place.set(name, *rest.split())
            case "program":
                part, _, deed = rest.partition(": ")
                path = str(place.folder / name)
                with open(path + ".new", "w", encoding="ascii") as f:
                    f.write('#!/bin/sh\ncase "$COUNTERD_UPGRADE" in %s*) %s ;; esac\n' % (part, DEEDS.get(deed, deed)))
                    f.write('exec %s "$@"\n' % os.path.abspath(servers.COUNTERD))
                os.chmod(path + ".new", 0o755)
                os.replace(path + ".new", path)
            case "begun":
                wire.poll((place.folder / (name + ".begun")).exists, "nobody is served")
            case "upgrade":
                place.upgrade(name)
            case "reload":
                node.reload()
            case "signal":
                node.child.send_signal(signal.Signals["SIG" + rest])
                if rest == "STOP":
                    await_stopped(node.pid)
            case "ends":
                assert node.end_with(signal.SIGTERM) == 0
            case "exits":
                node.is_expected_to_be_gone = True
                assert node.wait() == 0
            case "killed":
                node.is_expected_to_be_gone = True
                node.kill()
            case "clock":
                place.shift(float(rest))
            case "said":
                node.wait_log(rest)
            case "unsaid":
                assert not re.search(rest, node.log), node.log
            case "page":
                wire.poll(lambda: re.search(rest, json.dumps(state(node))), "the page has " + rest)
            case "reason":  # why it is not live
                wire.poll(lambda: re.search(rest, state(node)["reason"]), "the API has the reason: " + rest)
                if ctl.have_counterctl():
                    assert re.search(rest, ctl.run("cluster", "--admin", "%s:%d" % node.admin).out)
                node.wait_log(rest)
            case "sh":
                subprocess.run(rest, shell=True, cwd=place.folder, check=True)
            case "checks":  # its file with these options
                place.set(name, *rest.split())
                argv = [servers.COUNTERD, "-t", "-f", place.folder / (name + ".conf")]
                done = subprocess.run(argv, cwd=place.folder, capture_output=True, text=True, check=False)
                assert (done.returncode == 0) == (answers == "right"), done
                assert answers == "right" or re.search(answers, done.stderr), done
            case "metric":
                _, body = http_client.ask(node.admin, "GET", "/metrics")
                assert rest in body.splitlines(), rest
            case "asks":
                self.asking.append(threading.Thread(target=state, args=(node, rest)))
                self.asking[-1].start()
            case "shares":
                wire.poll(lambda: state(node, rest) == answers, "%s shares %s" % (name, rest))
            case _:
                raise AssertionError("what is %s?" % word)


@pytest.fixture(name="player", scope="module")
def make_player(tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("nodes"))
    try:
        for name in "ab":
            place.start(name)
        place.end_grace()
        yield Player(place)
    finally:
        place.stop()


@pytest.mark.parametrize("title, columns, steps", stories())
def test_story(request, title, columns, steps):
    if any(re.match(r"(\w (start|begin)|engine tls)\b", step) for step in steps):
        Player(request.getfixturevalue("place")).play(columns, steps)
        return
    player = request.getfixturevalue("player")
    for daemon in player.place.nodes.values():
        await_waits(daemon, 0)
    player.play(columns, steps)


# ---- what no story can say ----------------------------------------------------------------------


def test_answers_of_a_wait_and_of_a_release_do_not_get_lost(place):
    a, b = place.start("a"), place.start("b")
    client, holder = a.text_client(), b.text_client()
    seen = set()
    for i in range(60):
        assert client.ask("ACQ4ME l-1 1 9 5") == "LOCKED"
        assert holder.ask("ACQ4ME l-2 1 9 5") == "LOCKED"
        # Each third wait runs out about when the release is on its way.
        client.say("ACQ4ME l-2 1 9 %s" % ("0.001" if i % 3 == 0 else "5"))
        if i % 3 != 0:
            await_waits(a, 1)
        if i % 30 == 1:
            place.upgrade("a")
        for who, line in [(holder, "RELEASE l-2"), (client, "RELEASE l-1")][:: 1 if i % 2 else -1]:
            who.say(line)
        answers = [client.line(), client.line()]
        seen.add(tuple(answers))
        assert sorted(answers) in (["LOCKED", "RELEASED"], ["RELEASED", "TIMEOUT"]), answers
        assert holder.line() == "RELEASED"
        if "LOCKED" in answers:
            assert client.ask("RELEASE l-2") == "RELEASED"
        assert client.ask("RELEASE") == "NOT_LOCKED"
    assert len(seen) > 1, seen


def test_the_page_has_what_tools_read(place):
    a, b = place.start("a"), place.start("b")
    said = wire.poll(lambda: len(state(a)["nodes"]) == 2 and state(a), "it has looked")
    assert set(said) == set(
        "enabled state node session engine term grace refused reason reason_age reason_times "
        "reasons_before advice lease lease_left patience prefix "
        "strict loose requests waits beats calls ops round_trip asserted reaped leases_lost "
        "connections_closed reconnects nodes".split()
    )
    assert (said["lease"], said["patience"], said["strict"]) == (5, 1, "s*")
    assert sorted((n["node"], n["this"], n["same_patterns"]) for n in said["nodes"]) == [
        ("a", True, True), ("b", False, True)
    ]  # fmt: skip
    assert set(said["nodes"][0]) == set("node session state this same_patterns beat beat_age names waits units".split())
    place.end_grace()
    client = b.binary_client()
    assert client.acquire(2, 9, b"s-x") == wire.OK
    assert http_client.get(a.admin, "/api/v1/cluster?name=s-x")["name"] == {
        "name": "s-x", "class": "strict", "units": 2, "waits": 0,
        "nodes": [{"node": "b", "units": 2, "waits": 0}],
    }  # fmt: skip


def test_a_strict_lock_that_comes_behind_an_answer_in_pieces(place):
    # A third of the lease has to be enough for the new program to read the state.
    a = place.start("a", "clocks", "lease=20", "limits.output_buffer=65536")
    place.end_grace()
    with a.text_client() as client:
        rest = " ".join("%s=%s" % (key, "x" * 120) for key in "abcd")
        lines = ["POOL ADD db", *("MEMBER ADD db m%05d - %s" % (i, rest) for i in range(10000))]
        client.send_reading("".join(line + "\n" for line in lines).encode())
        assert {client.line() for _ in lines} == {"OK"}
    holder, client = a.text_client(), a.text_client(rcvbuf=4096)
    assert holder.ask("ACQ4ME s-1 1 9 0") == "LOCKED"
    client.say("ACQ4ME s-1 1 9 600")
    await_waits(a, 1)
    client.say("POOL SHOW db")
    assert client.line().startswith("POOL db static open ")
    assert holder.ask("RELEASE") == "RELEASED"
    await_waits(a, 0)
    place.upgrade("a")
    while client.line():
        pass
    assert client.line() == "LOCKED"
    assert client.ask("RELEASE") == "RELEASED"
    place.engine.end()
    place.shift(25)
    wire.poll(lambda: state(a)["lease_left"] == 0, "the lease is over")
    assert client.ask("STATS UPTIME").startswith("uptime:")


def test_a_failover_keeps_holders_and_their_order(place):
    """Sentinels promote the replica of an engine that is killed."""
    with contextlib.ExitStack() as stack:

        def server(**options):
            return stack.enter_context(redis_servers.RedisServer(**options))

        first = server(tcp=True, config="repl-diskless-sync-delay 0")
        second = server(tcp=True, config="replicaof 127.0.0.1 %d" % first.port)
        limits = ["monitor limits 127.0.0.1 %d 2" % first.port, "down-after-milliseconds limits 5000",
                  "failover-timeout limits 4000"]  # fmt: skip
        config = "".join("sentinel %s\n" % line for line in limits)
        watchers = [server(sentinel=True, config=config) for _ in range(3)]

        def knows_all(watcher):
            said = watcher.ask("SENTINEL", "MASTER", "limits")
            said = dict(zip(said[::2], said[1::2]))
            return (said[b"num-other-sentinels"], said[b"num-slaves"]) == (b"2", b"1")

        wire.poll(lambda: all(map(knows_all, watchers)), "the Sentinels know all", 5 * wire.DEADLINE)
        url = "engine=sentinel://%s/limits" % ",".join("127.0.0.1:%d" % w.port for w in watchers)
        a, b = (place.start(n, url, "lease=20", "patience=60") for n in "ab")
        holder, waiters = a.text_client(), [b.text_client(), a.text_client()]
        assert holder.ask("ACQ4ME l-1 1 9 0") == "LOCKED"
        for number, waiter in enumerate(waiters, 1):
            waiter.say("ACQ4ME l-1 1 9 600")
            wire.poll(lambda n=number: waiter_count(a) + waiter_count(b) == n, "it waits")
        was = [state(n)["term"] for n in (a, b)]
        first.end()
        for one, term in zip((a, b), was):
            wire.poll(lambda o=one, t=term: state(o)["state"] == "live" and state(o)["term"] != t,
                      "it is live at the replica", 5 * wire.DEADLINE)  # fmt: skip
        assert second.info("replication")["role"] == "master"
        for holder, waiter in zip([holder, waiters[0]], waiters):
            assert waiter.is_silent()
            assert holder.ask("RELEASE") == "RELEASED"
            assert waiter.line() == "LOCKED"


@pytest.mark.parametrize("db", ["0", "3"])
def test_an_engine_by_host_name_database_and_prefix(place, db):
    """Its user has the rights that counterctl recommends, and may not read settings."""
    line = ctl.run("cluster", "acl", "--db", db, "--prefix", "other").out.split()
    with redis_servers.RedisServer(tcp=True, save="3600 1") as engine:
        assert engine.ask(*line) == b"OK"
        a = place.start("a", "engine=redis://localhost:%d/%s" % (engine.port, db), "prefix=other",
                        "user=USER", "password=PASSWORD", "loose=*")  # fmt: skip
        assert state(a)["advice"] == []
        holder = a.text_client()
        assert holder.ask("ACQ4ME l-1 1 9 0") == "LOCKED"
        with resp.Client(engine.path) as client:
            client.ask("SELECT", db)
            assert client.ask("HGETALL", "{other}:units") == [b"l-1", b"1"]


if __name__ == "__main__":
    tap.main(__file__)
