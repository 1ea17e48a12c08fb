"""Pools on the real daemon: transports, the configuration, reloads, upgrades, ends.

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


class Client(wire.TextClient):
    """A client that knows the verbs of pools."""

    def does(self, *lines, answer="OK"):
        for line in lines:
            got = self.ask(line)
            assert got == answer, (line, got)

    def taken(self):
        """Reads a TAKEN line."""
        words = self.line().split(" ")
        assert words[0] == "TAKEN" and len(words) >= 5, words
        return Taken(words[1], words[2], int(words[3]), words[4], words[5:])

    def take(self, words):
        self.say("TAKE " + words)
        return self.taken()

    def lines(self):
        """Reads lines to an empty one."""
        return list(iter(self.line, ""))

    def show(self, pool):
        """The lines of SHOW as words, those of members by name; and the number of waiters."""
        self.say("POOL SHOW " + pool)
        lines = [line.split(" ") for line in self.lines()]
        assert lines[0][:2] == ["POOL", pool], lines
        return {w[1]: w for w in lines if w[0] == "MEMBER"}, sum(w[0] == "WAITER" for w in lines)

    def states(self, pool):
        return {name: words[2] for name, words in self.show(pool)[0].items()}

    def pools(self):
        """The words of LIST by pool."""
        self.say("POOL LIST")
        return {line.split(" ")[1]: line.split(" ") for line in self.lines()}


def connect(daemon, **kwargs):
    return Client(daemon.text or daemon.text6, **kwargs)


def waits(client, pool, number):
    wire.poll(lambda: client.show(pool)[1] == number, "%d wait in %s" % (number, pool))


def has_states(client, pool, states):
    wire.poll(lambda: client.states(pool) == states, "%s has the states %s" % (pool, states))


def add_members(client, pool, names, more=""):
    """Adds many members in few packets."""
    for begin in range(0, len(names), 200):
        some = names[begin : begin + 200]
        lines = ["MEMBER ADD %s %s %s\n" % (pool, name, more) for name in some]
        client.send_reading("".join(lines).encode())
        for _ in some:
            assert client.line() == "OK"


# --- transports ----------------------------------------------------------------------------------


# row lines.unix
@pytest.mark.parametrize("transport", ("tcp", "tls", "unix"))
def test_64_members_with_the_longest_values_at_once(start, tmp_path, transport):
    authority = certificates.Authority(tmp_path)
    daemon = start(
        "counter.threads=2",
        "tls.cert=%s" % authority.issue("server")[0],
        "tls.key=%s" % authority.issue("server")[1],
        "poolcounter.tls_port=%d" % servers.free_port(),
        "poolcounter.socket=%s" % (tmp_path / "text.sock"),
        "pools.operators=" + ("10.0.0.0/8" if transport == "unix" else "127.0.0.0/8"),
    )
    address = {"tls": daemon.text_tls, "unix": daemon.text_unix}.get(transport, daemon.text)
    trusted = certificates.context(authority) if transport == "tls" else None
    operator, client, waiter = (Client(address, tls=trusted) for _ in range(3))
    operator.does("POOL ADD big")
    names = ["m%03d-" % i + "n" * 250 for i in range(70)]
    add_members(operator, "big", names, "v" * 4096 + " k=" + "w" * 128)
    client.say("TAKE big 0 count=64 by=me")
    wire.poll(lambda: list(operator.states("big").values()).count("taken") == 64, "they are taken")
    waiter.say("TAKE big 600 count=64")
    waits(operator, "big", 1)
    got = [client.taken() for _ in range(64)]
    assert len({taken.member for taken in got}) == 64
    fences = [taken.fence for taken in got]
    assert fences == sorted(set(fences))
    for taken in got:
        assert taken.value == "v" * 4096 and taken.attrs == ["k=" + "w" * 128]
    assert re.fullmatch(r"\d+\.\d+\.\d+@\S+", operator.show("big")[0][got[0].member][5])
    client.send("".join("RETURN %d\n" % fence for fence in fences).encode())
    assert [client.line() for _ in range(64)] == ["RETURNED"] * 64
    assert min(waiter.taken().fence for _ in range(64)) > fences[-1]
    waiter.close()
    wire.poll(lambda: list(operator.states("big").values()).count("dirty") == 64, "they crashed")
    if transport == "unix":
        with connect(daemon) as other:
            other.does("POOL ADD p", "JOIN big b1", answer="ERROR DENIED")
    operator.close()
    client.close()


def test_by_default_only_this_host_operates_and_supplies(start):
    daemon = start("counter.threads=1", "poolcounter.listen=127.0.0.1, ::1")
    for address in filter(None, (daemon.text, daemon.text6)):
        with Client(address) as client:
            client.does("POOL ADD br kind=joined")
            client.does("JOIN br b1", answer="JOINED")
            client.does("POOL DROP br now")
            assert client.line() == "STOP br b1 drop"


# --- the configuration ---------------------------------------------------------------------------


# row options.file move.add
def test_pools_of_the_file(start, tmp_path):
    (tmp_path / "gpus").write_text(
        "# the old ones\n\ngpu_0 0 model=t4\ngpu_2 - model=a100 state=down note=fan\n"
        "gpu,3 3 note=spare model=a100\n"
    )
    config = tmp_path / "counter.conf"
    config.write_text(
        "pool.db.members = db_1, db_2=host:5433\npool.db.on_return = dirty\n"
        "pool.gpu.members_file = %s\npool.gpu.group = cards\n"
        "pool.br.kind = joined\npool.br.min_free = 2\n"
        "pool.start-dirty_9.on_start = dirty\npool.start-dirty_9.members = one\n"
        % (tmp_path / "gpus")
    )
    daemon = start("counter.threads=2", args=["-f", str(config)])
    with connect(daemon) as client:
        pools = client.pools()
        assert sorted(pools) == ["br", "db", "gpu", "start-dirty_9"]
        assert "joined" in pools["br"] and "min_free=2" in pools["br"]
        assert "on_return=dirty" in pools["db"] and "group=cards" in pools["gpu"]
        assert client.states("db") == {"db_1": "free", "db_2": "free"}
        assert client.states("start-dirty_9") == {"one": "dirty"}
        assert client.states("gpu") == {"gpu_0": "free", "gpu_2": "down", "gpu,3": "free"}
        facts = client.show("gpu")[0]["gpu_2"][6:]
        assert facts == ["takes=0", "fails=0", "note=fan", "model=a100"]
        assert client.take("db 0 member=db_2").value == "host:5433"
        assert client.take("@cards 0 with=model=t4")[1:4:2] == ("gpu_0", "0")
        client.does("MEMBER ADD db db_3", "POOL SET gpu max=9")


# row options.reload
def test_a_reload_adds_drops_and_puts_back(start, tmp_path):
    running = test_reload.Running(start, tmp_path)
    path = tmp_path / "members"
    path.write_text("m1 one a=1\n")
    text = "pool.of_file.members_file = %s\n" % path
    with connect(running.daemon) as client, connect(running.daemon) as holder:
        assert "db" in running.apply(running.base + "pool.db.members = m1, m2=two, m3\n"), "the reload says so"
        client.does("MEMBER ADD db byhand", "MEMBER SET db m2 value=other a=1", "POOL SET db max=9")
        client.does("MEMBER SET db m3 state=down note=broken", "POOL ADD byhand")
        hold = holder.take("db 0 member=m1")
        # m1 is dropped when it is returned, what verbs added goes, and options are as in the file.
        running.apply(running.base + text + "pool.db.members = m2=two, m3, m4\n")
        members = client.show("db")[0]
        assert client.states("db") == {"m1": "taken", "m2": "free", "m3": "down", "m4": "free"}
        assert members["m1"][8] == "then=drop" and "note=broken" in members["m3"]
        assert members["m2"][6:] == ["takes=0", "fails=0"] and "max=0" in client.pools()["db"]
        assert client.take("db 0 member=m2").value == "two"
        # Put back before it was returned, it stays. A pool that is not there any more drains.
        running.apply(running.base + "pool.db.members = m1, m2=two\n")
        assert holder.ask("RETURN %d" % hold.fence) == "RETURNED"
        assert client.states("db") == {"m1": "free", "m2": "taken"}
        assert sorted(client.pools()) == ["byhand", "db"]
        running.apply(running.base + text)
        assert client.pools()["db"][3] == "draining" and client.ask("TAKE db") == "ERROR NO_POOL"
        # What has no room while others are held is left out, and the log says so.
        more = text + "pool.db.members = n1, n2\npool.db.max = 2\n"
        assert "pool db: 1 members of the configuration are left out" in running.apply(running.base + more)
        assert client.states("db") == {"m2": "taken", "n1": "free"}
        assert client.ask("RETURN") == "RETURNED"
        holder.say("TAKE of_file 600 with=a=2")
        waits(client, "of_file", 1)
        path.write_text("m1 uno a=2\nm3 three\n")
        assert "left out" not in running.apply(running.base + more)
        assert holder.taken()[1:4:2] == ("m1", "uno")
        assert client.states("db") == {"n1": "free", "n2": "free"}
        # A wrong line changes nothing, nowhere.
        path.write_text("m3 three\nm4 four A=1\n")
        said = refused(running, text)
        assert "nothing was changed" in said and "members:2" in said
        assert sorted(client.pools()) == ["byhand", "db", "of_file"]


def refused(running, text):
    running.write(running.base + text)
    return running.daemon.reload()


# row options.reload-wrong event.reload
def test_a_reload_of_another_kind_or_of_a_pool_made_by_verbs_is_refused(start, tmp_path):
    running = test_reload.Running(start, tmp_path)
    with connect(running.daemon) as client:
        running.apply(running.base + "pool.db.members = m1\n")
        client.does("POOL ADD byhand", "MEMBER ADD byhand h1")
        for text, name in (
            ("pool.db.kind = joined\npool.new.members = x\n", "db"),
            ("pool.db.members = m1, m2\npool.byhand.members = h1\n", "byhand"),
            ("pool.db.max = much\n", "max"),
            ("pool.db.members = m1, m2\npool.db.max = 1\n", "db"),
            ("pool.db.members = m1\npools.operators = nowhere\n", "operators"),
        ):
            said = refused(running, text)
            assert "nothing was changed" in said and name in said, (text, said)
            assert sorted(client.pools()) == ["byhand", "db"]
            assert client.states("db") == {"m1": "free"}
        running.apply(running.base + "")
        client.does("POOL DROP byhand")
        running.apply(running.base + "pool.db.kind = joined\npool.byhand.members = h1\n")
        assert "joined" in client.pools()["db"] and client.states("byhand") == {"h1": "free"}


def test_a_reload_of_options_who_may_and_how_many(start, tmp_path):
    running = test_reload.Running(start, tmp_path)
    with connect(running.daemon) as client, connect(running.daemon) as other:
        running.apply(running.base + "pool.br.kind = joined\npool.db.members = m1\n")
        client.does("JOIN br b1", "JOIN br b2", answer="JOINED")
        client.take("db")
        other.say("TAKE db 600")
        waits(client, "db", 1)
        rest = "pool.db.members = m1\npool.db.queue_max = 0\n"
        running.apply(running.base + "pool.br.kind = joined\npool.br.max = 1\npool.br.group = g\n" + rest)
        assert re.fullmatch("STOP br b[12] shrink", client.line())
        assert other.line() == "QUEUE_FULL"
        assert client.take("@g").pool == "br"
        rest = "pool.br.kind = joined\npool.db.members = m1\n"
        running.apply(running.base + rest + "pools.operators = 10.0.0.0/8\npools.suppliers = 127.0.0.1\n")
        other.does("POOL ADD more", answer="ERROR DENIED")
        other.does("JOIN br b3", answer="JOINED")
        running.apply(running.base + rest + "pools.operators = 10.0.0.0/8\n")
        other.does("JOIN br b4", "MEMBER DROP br b1 now", answer="ERROR DENIED")
        other.does("MEMBER DROP br b3 now")  # the client that joined it always may
        running.apply(running.base + rest + "pools.max = 2\npools.max_members = 2\npools.max_watchers = 0\n")
        assert other.ask("POOL ADD more") == other.ask("WATCH db") == "ERROR TOO_MANY"
        assert other.ask("JOIN br b3") == "ERROR POOL_FULL"
        running.apply(running.base + rest)
        other.does("POOL ADD more", "WATCH db")


# --- memory --------------------------------------------------------------------------------------


# row event.memory
def test_past_the_memory_limit_nothing_new_comes_and_all_goes_on(start):
    daemon = start("counter.threads=2", "counter.memory_limit=16M", "counter.buckets=1000")
    operator, holder, waiter, greedy = (connect(daemon) for _ in range(4))
    operator.does("POOL ADD db", "MEMBER ADD db m1", "POOL ADD br kind=joined", "POOL ADD fill")
    operator.does("JOIN br b1", answer="JOINED")
    holder.take("br")
    holder.take("db")
    waiter.say("TAKE db 600 member=m1")
    waits(operator, "db", 1)
    number, size, refused = 0, 4096, "ERROR OUT_OF_MEMORY"
    while size:  # fills it with members, the last of them small
        answer = operator.ask("MEMBER ADD fill m%d %s" % (number, "v" * size))
        assert answer in ("OK", refused), answer
        number += 1
        size = size if answer == "OK" else size // 2
        assert number < 100000
    greedy.does(
        "JOIN br more " + "v" * 4096, "MEMBER SET db m1 value=" + "v" * 4096, answer=refused
    )
    assert holder.ask("RETURN") == "RETURNED"
    assert waiter.taken().member == "m1"
    assert waiter.ask("RETURN") == "RETURNED"
    holder.close()
    assert operator.line() == "STOP br b1 crash"
    operator.does("POOL DROP fill now", "MEMBER ADD db m2")
    for client in (operator, waiter, greedy):
        client.close()


# --- upgrades ------------------------------------------------------------------------------------


# row event.upgrade ends.killed
def test_pools_go_on_over_upgrades_and_clients_with_tls_crash(start, tmp_path):
    authority = certificates.Authority(str(tmp_path))
    cert, key = authority.issue("server")
    running = test_upgrade.Running(
        start,
        tmp_path,
        "counter.threads=2",
        "tls.cert=%s" % cert,
        "tls.key=%s" % key,
        "poolcounter.tls_port=%d" % servers.free_port(),
        settings="pool.db.members = m1, m2\npool.db.on_return = dirty\n",
    )
    secure = Client(running.daemon.text_tls, tls=certificates.context(authority))
    plain, waiter, watcher = (connect(running.daemon) for _ in range(3))
    plain.does("POOL ADD br kind=joined", "POOL ADD de on_fail=free max=3", "MEMBER ADD de m3")
    plain.does("MEMBER SET db m2 state=down note=fan", "SUPPLY br 0 5")
    assert plain.line() == "WANT br 0"
    secure.does("JOIN br b1", answer="JOINED")
    gone, hold = plain.take("br"), plain.take("db 0 by=me")
    secure.take("de")
    waiter.say("TAKE de,db 600")
    waits(plain, "de", 1)
    watcher.does("WATCH de")
    for part in ("check", "rehearse"):
        running.misbehave(part, "exit 1")
        running.fail()
    running.install()
    assert plain.states("br") == {"b1": "taken"}
    before = plain.pools()["de"][14:], plain.show("db")[0]["m2"][5:]
    running.succeed()
    assert secure.wait_closed() == b""
    got = waiter.taken()
    assert (got.pool, got.member) == ("de", "m3") and got.fence > hold.fence
    assert watcher.line().startswith("EVENT de m3 taken free crash ")
    assert watcher.line().startswith("EVENT de m3 free taken take fence=%d " % got.fence)
    assert (plain.pools()["de"][14:], plain.show("db")[0]["m2"][5:]) == before
    assert plain.ask("RETURN %d" % gone.fence) == "GONE" and plain.states("br") == {}
    # What the new file says takes effect; the pool of verbs stays one.
    running.write("pool.db.members = m2, m3\n")
    running.succeed()
    assert plain.states("db") == {"m1": "taken", "m2": "down", "m3": "free"}
    assert "on_return=free" in plain.pools()["db"] and plain.states("de") == {"m3": "taken"}
    assert waiter.ask("RETURN") == "RETURNED"
    assert plain.ask("RETURN %d" % hold.fence) == "RETURNED"
    assert plain.states("db") == {"m2": "down", "m3": "free"}
    for client in (secure, plain, waiter, watcher):
        client.close()


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
        add_members(client, "big", ["m%04d" % i for i in range(3000)], "value z=0")
        for line in ("big 0 with=z=1", "small", "big 600 with=z=1"):
            client.say("TAKE " + line)
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
        client.send(b"RETURN\nRETURN\n")
        assert client.line() == client.line() == "RETURNED"
        assert other.take("big 0 with=z=1").member in ("m0000", "m2999")
        other.say("TAKE big 0 with=z=3")
        other.say("QUIT")
        assert [other.line(), other.line()] == ["TIMEOUT", "BYE"]


def test_an_upgrade_that_a_reload_would_refuse_is_refused(start, tmp_path):
    text = "pool.db.members = m1\npool.db.group = g\n"
    running = test_upgrade.Running(start, tmp_path, settings=text)
    with connect(running.daemon) as client, connect(running.daemon) as watcher:
        watcher.does("WATCH *")
        running.succeed()  # the same file is no event
        assert "reload: done" in running.daemon.reload()
        client.does("POOL ADD byhand", "MEMBER ADD byhand h1")
        assert watcher.line() == "EVENT byhand - - - add"
        for bad, name in (
            (text + "pool.byhand.members = f1\n", "byhand"),
            ("pool.db.kind = joined\n", "db"),
        ):
            running.write(bad)
            for said in (running.daemon.reload(), running.fail()):
                assert "error: " in said and "pool.%s: " % name in said, said
                assert client.states("byhand") == {"h1": "free"}
                assert client.states("db") == {"m1": "free"}
        # As the messages say.
        running.write("pool.byhand.members = f1\n")
        client.does("POOL DROP byhand")
        running.succeed()
        assert sorted(client.pools()) == ["byhand"] and client.states("byhand") == {"f1": "free"}


# --- ends ----------------------------------------------------------------------------------------


# row ends.killed
def test_a_connection_killed_by_an_administrator_crashes(start):
    daemon = start("counter.threads=2", "admin.token=secret", admin=True)
    with connect(daemon) as operator, connect(daemon) as victim, connect(daemon) as waiter:
        operator.does("POOL ADD db on_fail=free", "MEMBER ADD db m1", "POOL ADD br kind=joined")
        victim.does("JOIN br b1", answer="JOINED")
        hold = operator.take("br")
        victim.take("db")
        waiter.say("TAKE db 600")
        waits(operator, "db", 1)
        tag, _, peer = operator.show("db")[0]["m1"][5].partition("@")
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
        for hold in old:
            assert client.ask("RETURN %d" % hold.fence) == "NOT_TAKEN"
        assert client.take("de").fence > max(hold.fence for hold in old)


# row drain
def test_a_shutdown_waits_for_held_members(start):
    daemon = start("counter.threads=2", "shutdown.drain=600")
    with connect(daemon) as operator, connect(daemon) as holder, connect(daemon) as waiter:
        operator.does("POOL ADD db", "MEMBER ADD db m1", "POOL ADD br kind=joined")
        holder.take("db")
        waiter.say("TAKE db 600")
        waits(operator, "db", 1)
        daemon.is_expected_to_be_gone = True
        daemon.child.send_signal(signal.SIGTERM)
        daemon.wait_log("draining: no new acquires")
        with connect(daemon) as late:
            late.does("TAKE db", "TAKE br 5", "JOIN br b2", answer="ERROR SHUTTING_DOWN")
        assert holder.ask("RETURN") == "RETURNED"
        assert waiter.taken().member == "m1"
        assert daemon.is_running(), "it waits for that one, too"
        assert waiter.ask("RETURN") == "RETURNED"
        assert daemon.wait() == 0


# --- metrics and JSON ----------------------------------------------------------------------------


# row metrics api
def test_metrics_and_json_of_pools(start):
    daemon = start("counter.threads=2", admin=True)
    with connect(daemon) as client, connect(daemon) as waiter:
        client.does("POOL ADD db queue_max=1 hold_warn=0.01", "MEMBER ADD db m1 secret-value a=1")
        client.does("MEMBER ADD db m2", "MEMBER SET db m2 state=down", "POOL ADD br kind=joined")
        client.take("db 0 by=me")
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
            'counterd_pool_waiting{pool="db"} 1',
            'counterd_pool_want{pool="br"} 0',
            'counterd_pool_takes_total{pool="db",for="use",outcome="taken"} 1',
            'counterd_pool_takes_total{pool="db",for="use",outcome="queue_full"} 1',
            'counterd_pool_moves_total{pool="db",why="operator"} 1',
        ):
            assert line in metrics(), line
        wire.poll(lambda: 'counterd_pool_late{pool="db"} 1' in metrics(), "it is late")
        everything = json.dumps(http_client.get(daemon.admin, "/api/v1/pools"))
        one = json.dumps(http_client.get(daemon.admin, "/api/v1/pools/db"))
        assert '"br"' in everything and '"m1"' in one and '"taken"' in one and '"me"' in one
        assert "secret-value" not in everything + one + daemon.log
        assert http_client.ask(daemon.admin, "GET", "/api/v1/pools/none")[0] == 404
        assert client.ask("RETURN") == "RETURNED"
        waiter.taken()
        for kind in ("wait", "hold"):
            assert 'counterd_pool_%s_duration_seconds_count{pool="db"' % kind in metrics()


if __name__ == "__main__":
    tap.main(__file__)
