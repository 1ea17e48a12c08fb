"""The world of the tests of shared limits: its proxies, its observer and its engines, without counterd."""

import os
import socket
import socketserver
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import tap  # noqa: E402
import pytest  # noqa: E402

import cluster_keys  # noqa: E402
import cluster_observer  # noqa: E402
import redis_servers  # noqa: E402
import resp  # noqa: E402
import wire  # noqa: E402
from cluster_proxy import COMMANDS, MESSAGES, Network, Splitter, words_of  # noqa: E402
from cluster_world import World  # noqa: E402

pytestmark = pytest.mark.skipif(not redis_servers.have_redis(), reason="redis-server is not installed")


@pytest.fixture(scope="module")
def engine():
    with redis_servers.RedisServer(tcp=True) as server:
        yield server


@pytest.fixture
def proxy(engine):
    engine.ask("FLUSHALL")
    with Network() as network:
        yield network.proxy(("127.0.0.1", engine.port), "node-a")


def is_cut(client):
    """True if the connection has been reset or closed."""
    try:
        client.read(wire.DEADLINE)
    except (ConnectionError, OSError) as e:
        return not isinstance(e, TimeoutError)
    return False


def is_gone(address):
    """True if a new connection is reset or closed, at once or soon."""
    try:
        with resp.Client(address) as client:
            return is_cut(client)
    except ConnectionError:
        return True


# ---- proxies -------------------------------------------------------------------------------------


def test_values_are_cut_at_any_byte():
    values = [b"+OK\r\n", b"*2\r\n$3\r\na\r\n\r\n*1\r\n:5\r\n", b"$-1\r\n", b"*-1\r\n", b"*0\r\n",
              b"-ERR no\r\n", b"$0\r\n\r\n", b"*1\r\n$4\r\nPING\r\n"]  # fmt: skip
    stream = b"".join(values)
    for size in range(1, len(stream) + 1):
        splitter, found = Splitter(), []
        for at in range(0, len(stream), size):
            found += splitter.feed(stream[at : at + size])
        assert found == values, size
    assert words_of(resp.encode("SET", "a\r\nb", b"")) == [b"SET", b"a\r\nb", b""]


def test_what_passes_is_unchanged(proxy):
    with resp.Client(proxy.address) as client:
        body = os.urandom(300000)
        assert client.ask("SET", "x", body) == b"OK"
        assert client.ask("GET", "x") == body
        assert client.pipeline([("INCR", "n")] * 500) == list(range(1, 501))


def test_connections_are_told_apart(proxy):
    with resp.Client(proxy.address) as commands, resp.Client(proxy.address) as messages:
        sha = commands.ask("SCRIPT", "LOAD", "return 5").decode()
        messages.subscribe("x")
        assert proxy.kinds() == [COMMANDS, MESSAGES]
        assert proxy.cut(MESSAGES) == 1
        assert is_cut(messages)
        assert commands.ask("EVALSHA", sha, 0) == 5
        assert proxy.cut(COMMANDS) == 1
        assert is_cut(commands)


def test_a_cut_is_a_reset(proxy):
    with resp.Client(proxy.address) as client:
        client.ask("PING")
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            client.read()
    with resp.Client(proxy.address) as client:
        assert client.ask("PING") == b"PONG"


def test_refused_until_it_listens(proxy):
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        resp.Client(proxy.address)
    proxy.listen()
    with resp.Client(proxy.address) as client:
        assert client.ask("PING") == b"PONG"


def test_a_stalled_way_up_reaches_the_engine_later_even_from_a_client_that_is_gone(proxy, engine):
    client = resp.Client(proxy.address)
    client.ask("SET", "x", "before")
    proxy.stall("up")
    client.send("SET", "x", "late")
    client.close()
    with resp.Client(proxy.address) as other:  # a new connection is stalled, too
        other.send("PING")
        assert not readable(other)
        assert engine.ask("GET", "x") == b"before"
        proxy.go_on()
        assert other.read() == b"PONG"
    wire.poll(lambda: engine.ask("GET", "x") == b"late", "the late command arrives")


def readable(client):
    return wire.is_ready(client.socket, 0.05)


def test_a_stalled_way_down_holds_back_answers(proxy, engine):
    with resp.Client(proxy.address) as client:
        proxy.stall("down")
        client.send("SET", "x", "1")
        wire.poll(lambda: engine.ask("GET", "x") == b"1", "the command arrives")
        assert not readable(client)
        proxy.go_on()
        assert client.read() == b"OK"


def test_a_stall_of_messages_leaves_commands(proxy, engine):
    with resp.Client(proxy.address) as commands, resp.Client(proxy.address) as messages:
        commands.ask("SCRIPT", "LOAD", "return 1")
        messages.subscribe("x")
        proxy.stall("down", MESSAGES)
        assert commands.ask("PUBLISH", "x", "m") == 1
        assert not readable(messages)
        proxy.go_on()
        assert messages.message() == (b"x", b"m")


def test_a_stall_may_spare_new_connections(proxy):
    with resp.Client(proxy.address) as old:
        old.ask("PING")
        proxy.stall(old_only=True)
        with resp.Client(proxy.address) as new:
            old.send("PING")
            assert new.ask("PING") == b"PONG"
            assert not readable(old)
        proxy.go_on()
        assert old.read() == b"PONG"


def test_a_lost_reply_was_carried_out(proxy, engine):
    rule = proxy.swallow(2, matching=lambda words, _: words[0] == b"INCR")
    for count in 1, 2:
        with resp.Client(proxy.address) as client:
            assert client.ask("GET", "n") == (None if count == 1 else b"1")
            client.send("INCR", "n")
            assert is_cut(client)
    assert rule.left == 0 and proxy.swallowed == 2
    with resp.Client(proxy.address) as client:
        assert client.ask("INCR", "n") == 3


def test_after_a_lost_reply_a_connection_may_be_silent(proxy, engine):
    proxy.swallow(1, "silent")
    with resp.Client(proxy.address) as client:
        client.send("INCR", "n")
        client.send("INCR", "n")
        wire.poll(lambda: engine.ask("GET", "n") == b"2", "both are carried out")
        assert not readable(client)


def test_a_message_is_lost(proxy, engine):
    with resp.Client(proxy.address) as messages:
        messages.subscribe("x")
        proxy.swallow(1, kind=MESSAGES)
        engine.ask("PUBLISH", "x", "lost")
        assert is_cut(messages)


def test_scripts_have_names(proxy):
    with resp.Client(proxy.address) as client:
        seen = []
        proxy.swallow(1, matching=lambda words, script: bool(seen.append(script)))
        sha = client.ask("SCRIPT", "LOAD", "#!lua flags=allow-oom\n-- beat: proof of life\nreturn 1")
        assert client.ask("EVALSHA", sha, 0) == 1
        client.send("EVALSHA", "0" * 40, 0)
        assert client.read().word == "NOSCRIPT"
    assert seen == [None, "beat", "?"]


def test_answers_are_delayed(proxy):
    proxy.delay(0.05, 0.05)
    with resp.Client(proxy.address) as client:
        begun = time.monotonic()
        client.ask("PING")
        assert time.monotonic() - begun >= 0.1
    proxy.heal()


def test_an_engine_that_is_gone_closes_and_may_come_back(engine):
    with redis_servers.RedisServer(tcp=True) as server, Network() as network:
        proxy = network.proxy(("127.0.0.1", server.port))
        client = resp.Client(proxy.address)
        client.ask("PING")
        server.end(kill=True)
        assert is_cut(client)
        client.close()
        assert is_gone(proxy.address)
        server.start()
        with resp.Client(proxy.address) as client:
            assert client.ask("PING") == b"PONG"


# ---- the observer --------------------------------------------------------------------------------


class Generous(socketserver.ThreadingTCPServer):
    """A node that grants everything at once, or closes at the word `bye`."""

    allow_reuse_address, daemon_threads = True, True

    class RequestHandlerClass(socketserver.StreamRequestHandler):
        def handle(self):
            for line in self.rfile:
                word = line.split()[0]
                if word == b"bye":
                    return
                self.wfile.write(b"LOCKED\n" if word.startswith(b"ACQ") else b"RELEASED\n")

    def __init__(self):
        super().__init__(("127.0.0.1", 0), self.RequestHandlerClass)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def seen():
    """An observer and a node that grants everything."""
    with Generous() as server:
        observer = cluster_observer.Observer()
        yield observer, server.server_address
        observer.stop()
        server.shutdown()


def test_more_than_a_limit_is_seen(seen):
    observer, address = seen
    observer.limit("s", 2)
    clients = [observer.text(address) for _ in range(3)]
    for client in clients[:2]:
        assert client.acquire("s", 2).wait() == "LOCKED"
    observer.check()
    assert observer.units("s") == 2 and observer.over("s") == 0
    clients[2].acquire("s", 2).wait()
    with pytest.raises(AssertionError, match="s: 3 units of 2"):
        observer.check()
    assert observer.over("s") == 1


def test_what_is_released_or_closed_is_no_longer_held(seen):
    observer, address = seen
    observer.limit("s", 1)
    for ending in "release", "close", "reset", "by the node":
        client = observer.text(address)
        client.acquire("s").wait()
        if ending == "release":
            client.release("s")
        elif ending == "by the node":
            client.say("bye")
        else:
            client.close(ending == "reset")
        if ending == "by the node":
            client.wait_closed()
        assert observer.units("s") == 0, ending
    observer.check()


def test_an_end_that_is_not_read_yet_counts_before_a_grant(seen):
    observer, address = seen
    observer.limit("s", 1)
    for _ in range(200):
        first, second = observer.text(address), observer.text(address)
        first.acquire("s").wait()
        with observer.lock:  # both arrive before the observer looks
            first.say("bye")
            assert wire.is_ready(first.sock, wire.DEADLINE)
            asked = second.acquire("s")
            assert wire.is_ready(second.sock, wire.DEADLINE)
        asked.wait()
        second.close()
    observer.check()


def test_of_loose_names_and_where_it_is_allowed_more_is_only_recorded(seen):
    observer, address = seen
    observer.limit("l", 1, strict=False)
    observer.limit("s", 1)
    one, other = observer.text(address), observer.text(address)
    one.acquire("l").wait()
    other.acquire("l").wait()
    one.acquire("s").wait()
    with observer.allowed("s"):
        other.acquire("s").wait()
    observer.check()
    assert observer.over("l") == 1 and observer.over("s") == 1
    observer.text(address).acquire("s").wait()
    with pytest.raises(AssertionError):
        observer.check()


def test_units_of_binary_clients_count():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        observer = cluster_observer.Observer()
        client = observer.binary(listener.getsockname())
        node, _ = listener.accept()
        observer.limit("s", 5)
        asked = client.acquire("s", 5, 4)
        assert node.recv(1000)[1] == wire.ACQUIRE
        node.sendall(wire.HEADER.pack(wire.MAGIC_REPLY, wire.ACQUIRE, 0, 0, 4, b"\0" * 4) + b"\0\0\0\4")
        assert asked.wait() == "OK" and observer.units("s") == 4
        client.release("s", 3)
        assert observer.units("s") == 1
        refused = client.acquire("s", 5, 9)
        node.sendall(wire.HEADER.pack(wire.MAGIC_REPLY, wire.RELEASE, 0, 0, 0, b"\0" * 4))
        node.sendall(wire.HEADER.pack(wire.MAGIC_REPLY, wire.ACQUIRE, 0x21, 0, 0, b"\0" * 4))
        assert refused.wait() == "0x21" and observer.units("s") == 1
        node.close()
        client.wait_closed()
        observer.check()
        observer.stop()


# ---- sums ----------------------------------------------------------------------------------------

A, B = "a" * 16, "b" * 16


def put_good_keys(engine):
    """Two sessions: one holds 2 units and waits twice, the other holds 1."""
    k = "{counterd}:"
    for command in (
        ("HSET", k + "meta", "version", 1, "term", "t", "lease", 2000, "seq", 9),
        ("HSET", k + "beat", A, 5, B, 7),
        ("HSET", k + "node", "a", A, "b", B),
        ("HSET", k + "s:" + A, "node", "a", "state", "live"),
        ("HSET", k + "s:" + B, "node", "b", "state", "ended"),
        ("HSET", k + "units", "n:x", 3),
        ("HSET", k + "u:" + A, "n:x", 2),
        ("HSET", k + "u:" + B, "n:x", 1),
        ("ZADD", k + "q:" + A + ":ms1/3:n:x", 4, "11", 6, "12"),
        ("HSET", k + "w:" + A, "ms1/3:n:x", 2),
        ("ZADD", k + "k:n:x", 4, A + ":ms1/3"),
    ):
        engine.ask(*command)


def test_sums_that_are_right(engine):
    engine.ask("FLUSHALL")
    put_good_keys(engine)
    keys = cluster_keys.Keys(engine.path)
    assert keys.problems == []
    assert keys.state_of("a") == "live" and keys.session_of("b")["state"] == "ended"
    assert keys.queues[A, b"ms1/3", b"n:x"] == {b"11": 4, b"12": 6}
    assert len(keys.left(["a", "b"])) == 2 and len(keys.left(["a"])) == 3


@pytest.mark.parametrize(
    "command",
    [("HSET", "units", "n:x", 4), ("HDEL", "u:" + B, "n:x"), ("HSET", "u:" + B, "n:y", 0),
     ("HDEL", "beat", B), ("ZREM", "q:" + A + ":ms1/3:n:x", "12"), ("HSET", "w:" + A, "ms1/3:n:y", 1),
     ("ZREM", "q:" + A + ":ms1/3:n:x", "11"), ("DEL", "k:n:x"), ("ZADD", "k:n:y", 1, A + ":ms1/3")],
)  # fmt: skip
def test_sums_that_are_wrong(engine, command):
    engine.ask("FLUSHALL")
    put_good_keys(engine)
    engine.ask(command[0], "{counterd}:" + command[1], *command[2:])
    assert cluster_keys.Keys(engine.path).problems


def test_waiting_until_nothing_is_left(engine):
    engine.ask("FLUSHALL")
    cluster_keys.await_nothing_left(engine.path, [])
    put_good_keys(engine)
    with pytest.raises(wire.Timeout, match="3 of b'n:x'"):
        cluster_keys.await_nothing_left(engine.path, ["a", "b"], deadline=0.05)


# ---- engines and Sentinels -----------------------------------------------------------------------


def test_an_engine_that_restarts_full_or_refusing(engine):
    with World(nodes=0) as world:
        world.engine.ask("SET", "x", "1")
        world.restart_engine(keep=True)
        assert world.engine.ask("GET", "x") == b"1"
        world.restart_engine(keep=False)
        assert world.engine.ask("GET", "x") is None
        world.fill()
        with pytest.raises(resp.Error, match="OOM"):
            world.engine.ask("SET", "x", "1")
        world.fill(False)
        for how in "NOREPLICAS", "MISCONF":
            world.refuse_writes(how=how)
            with pytest.raises(resp.Error, match=how):
                world.engine.ask("SET", "x", "1")
            world.refuse_writes(False, how)
            world.engine.ask("SET", "x", "1")


def test_failover_with_lag_and_split_brain():
    with World(nodes=2, engines=2, sentinels=3, down_after_ms=1500) as world:
        a, b = world.nodes
        told = ask_sentinel(a, 1)
        assert told == a.to["engine-1"].port and ask_sentinel(b, 2) == b.to["engine-1"].port
        world.engine.ask("SET", "x", "known to both")
        wire.poll(lambda: world.engines[1].ask("GET", "x") == b"known to both", "replicated")

        # The last writes are lost.
        world.lag()
        world.engine.ask("SET", "x", "lost")
        world.failover(with_lag=True)
        assert world.primary_name == "engine-2"
        assert world.engine.ask("GET", "x") == b"known to both"
        assert ask_sentinel(a, 1) == a.to["engine-2"].port
        world.agree()

        # One Sentinel, the primary and node a on one side, all else on the other.
        world.partition(["node-a", "engine-2", "sentinel-1"])
        world.await_failover(0, world.sentinels[1:])
        assert world.engines[1].info("replication")["role"] == "master"
        assert ask_sentinel(a, 1) == a.to["engine-2"].port
        assert ask_sentinel(b, 2) == b.to["engine-1"].port
        with resp.Client(a.to["engine-2"].address) as client:
            assert client.ask("SET", "x", "of the old side") == b"OK"
        world.heal()
        world.agree()
        wire.poll(lambda: all(engine.ask("GET", "x") == world.engine.ask("GET", "x") for engine in world.engines),
                  "both have the same")  # fmt: skip


def ask_sentinel(node, number):
    """The port that a Sentinel names to a node."""
    with resp.Client(node.to["sentinel-%d" % number].address) as client:
        return int(client.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "limits")[1])


if __name__ == "__main__":
    tap.main(__file__)
