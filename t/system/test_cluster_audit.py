"""
Shared names in a daemon: rare orders of events between its threads, its clients and the engine; nodes that are
killed, stopped and cut off; a failover by Sentinels; what a node advises to set in the engine.
"""

import contextlib
import os
import signal
import ssl
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
from test_cluster_basics import (  # pylint: disable=unused-import
    await_stopped,
    clocks,
    configured,
    make_engine,
    make_node,
    metric,
    misbehave,
    program,
    shares,
    state,
    upgrade,
    waiter_count,
)

pytestmark = [
    pytest.mark.skipif(not servers.have_counterd(), reason="COUNTERD names no daemon"),
    pytest.mark.skipif(not redis_servers.have_redis(), reason="there is no redis-server"),
]


def is_away(daemon):
    """Waits until the node serves loose names alone."""
    daemon.wait_log("patience is over")
    wire.poll(lambda: state(daemon)["state"] != "live", "it is away")


def test_a_wait_does_not_get_the_place_of_an_earlier_one(node, engine):
    a = node("a", "cluster.patience=0")
    holder, first, second = (a.text_client() for _ in range(3))
    assert holder.ask("ACQ4ME l-1 1 9 0") == "LOCKED"
    second.say("ACQ4ME l-1 1 9 600")
    wire.poll(lambda: shares(a, "l-1") == [{"node": "a", "units": 1, "waits": 1}], "it has a place")
    engine.end()
    is_away(a)
    assert holder.ask("RELEASE") == "RELEASED"
    assert second.line() == "LOCKED"
    assert second.ask("RELEASE") == "RELEASED"
    assert holder.ask("ACQ4ME l-2 1 9 0") == "LOCKED"
    first.say("ACQ4ME l-2 1 9 600")
    wire.poll(lambda: waiter_count(a) == 1, "one waits")
    second.say("ACQ4ME l-2 1 9 600")
    wire.poll(lambda: waiter_count(a) == 2, "both wait")
    engine.start()
    wire.poll(lambda: state(a)["state"] == "live", "it is live again")
    wire.poll(lambda: shares(a, "l-2") == [{"node": "a", "units": 1, "waits": 2}], "all is told")
    assert holder.ask("RELEASE") == "RELEASED"
    assert first.line() == "LOCKED"
    assert second.is_silent()


def test_a_wait_keeps_its_place_while_its_node_is_alone(node, engine):
    engine.ask("ACL", "SETUSER", "a", "on", ">secret", "~*", "&*", "+@all")
    a = node("a", "cluster.patience=0", "cluster.lease=60", "cluster.user=a", "cluster.password=secret", grace=False)
    b = node("b", "cluster.lease=60", grace=False)
    holder, first, second = a.text_client(), a.text_client(), b.text_client()
    assert holder.ask("ACQ4ME l-1 1 9 0") == "LOCKED"
    for daemon, client in (a, first), (b, second):
        client.say("ACQ4ME l-1 1 9 600")
        wire.poll(lambda d=daemon: waiter_count(d) == 1, "it waits")
    engine.ask("ACL", "SETUSER", "a", "off")
    engine.ask("CLIENT", "KILL", "USER", "a")
    is_away(a)
    engine.ask("ACL", "SETUSER", "a", "on")
    both = [{"node": "a", "units": 1, "waits": 1}, {"node": "b", "units": 0, "waits": 1}]
    wire.poll(lambda: state(a)["state"] == "live" and shares(b, "l-1") == both, "all is told")
    assert holder.ask("RELEASE") == "RELEASED"
    assert first.line() == "LOCKED"
    assert second.is_silent()


def test_a_request_that_times_out_before_the_engine_answers(node, engine, tmp_path):
    a = node("a", "cluster.patience=20", grace=False, program=program(tmp_path))
    engine.pause()
    try:
        assert a.text_client().ask("ACQ4ME l-1 1 9 0.2") == "TIMEOUT"
    finally:
        engine.resume()
    waits = 'counterd_wait_duration_seconds_count{protocol="poolcounter",outcome="timed_out"}'
    refused = 'counterd_refused_total{protocol="poolcounter"}'
    assert (metric(a, waits), metric(a, refused)) == (1, 0)
    upgrade(a, 1)
    assert (metric(a, waits), metric(a, refused)) == (1, 0)


def fill(daemon, members):
    """Adds a pool with members of more than 500 bytes each."""
    with daemon.text_client() as client:
        assert client.ask("POOL ADD db") == "OK"
        rest = " ".join("%s=%s" % (key, "x" * 120) for key in "abcd")
        lines = ["MEMBER ADD db m%05d - %s" % (i, rest) for i in range(members)]
        client.send_reading("".join(line + "\n" for line in lines).encode())
        for _ in lines:
            assert client.line() == "OK"


def test_a_strict_lock_that_comes_behind_an_answer_in_pieces(node, engine, clocks, tmp_path):
    # A third of the lease has to be enough for the new program to read the state.
    options = "cluster.lease=20", "limits.output_buffer=65536"
    a = node("a", *options, program=program(tmp_path), env=clocks.environment)
    fill(a, 10000)
    holder, client = a.text_client(), a.text_client(rcvbuf=4096)
    assert holder.ask("ACQ4ME s-1 1 9 0") == "LOCKED"
    client.say("ACQ4ME s-1 1 9 600")
    wire.poll(lambda: waiter_count(a) == 1, "it waits")
    client.say("POOL SHOW db")
    assert client.line().startswith("POOL db static open ")
    assert holder.ask("RELEASE") == "RELEASED"
    wire.poll(lambda: waiter_count(a) == 0, "it waits no more")
    upgrade(a, 1)
    while client.line():
        pass
    assert client.line() == "LOCKED"
    assert client.ask("RELEASE") == "RELEASED"
    engine.end()
    clocks.shift(others_s=25)
    wire.poll(lambda: state(a)["lease_left"] == 0, "the lease is over")
    assert client.ask("STATS UPTIME").startswith("uptime:")


@pytest.mark.parametrize("ask", [True, False])
def test_the_end_with_an_engine_that_hangs(node, engine, ask):
    a = node("a", "cluster.lease=60", grace=False)
    holder, waiter = a.text_client(), a.text_client()
    assert holder.ask("ACQ4ME l-1 1 9 0") == "LOCKED"
    waiter.say("ACQ4ME l-1 1 9 600")
    wire.poll(lambda: waiter_count(a) == 1, "it waits")
    engine.pause()
    a.is_expected_to_be_gone = True
    try:
        waiter.say("RELEASE")
        holder.say("ACQ4ME l-2 1 9 5")
        asking = threading.Thread(
            target=lambda: ask and http_client.ask(a.admin, "GET", "/api/v1/cluster?name=l-1")
        )
        asking.start()
        if ask:
            wire.poll(lambda: state(a)["requests"] >= 3, "the question is on its way")
        a.child.terminate()
        assert a.wait() == 0
        asking.join()
    finally:
        engine.resume()


def test_a_name_that_becomes_strict_without_the_engine(start, engine, tmp_path):
    path, write = configured(tmp_path, engine, patience=0)
    a = start(
        "cluster.engine=" + engine.url, "cluster.node=a", "cluster.lease=5", "counter.threads=1",
        args=["-f", str(path)], admin=True,
    )  # fmt: skip
    a.wait_log("is live")
    engine.end()
    is_away(a)
    holder, waiter, other = (a.text_client() for _ in range(3))
    assert holder.ask("ACQ4ME l-1 1 9 0") == "LOCKED"
    waiter.say("ACQ4ME l-1 1 9 600")
    wire.poll(lambda: waiter_count(a) == 1, "it waits")
    write(strict="l-*", loose="x")
    a.reload()

    def is_refused():
        answer = other.ask("ACQ4ME l-2 1 9 0")
        return answer == "ERROR ENGINE_AWAY" or other.ask("RELEASE") != "RELEASED"

    wire.poll(is_refused, "strict names are refused")
    assert holder.ask("RELEASE") == "RELEASED"
    assert waiter.is_silent(), "nothing strict is granted without the engine"
    engine.start()
    assert waiter.line() == "LOCKED"
    assert shares(a, "l-1") == [{"node": "a", "units": 1, "waits": 0}]


def test_an_upgrade_gives_back_what_tls_connections_had(node, tmp_path):
    authority = certificates.Authority(tmp_path)
    cert, key = authority.issue("localhost")
    a = node(
        "a", "tls.cert=%s" % cert, "tls.key=%s" % key, "poolcounter.tls_port=%d" % servers.free_port(),
        "counter.tls_port=%d" % servers.free_port(), program=program(tmp_path), grace=False,
    )  # fmt: skip
    b = node("b", grace=False)
    trusting = ssl.create_default_context(cafile=authority.cert)
    trusting.check_hostname = False
    holder, waiter, other = (wire.TextClient(a.text_tls, tls=trusting) for _ in range(3))
    binary = wire.BinaryClient(a.binary_tls, tls=trusting)
    last = b.text_client()
    assert holder.ask("ACQ4ME l-1 1 9 0") == "LOCKED"
    assert holder.ask("ACQ4ME l-2 1 9 0") == "LOCKED"
    assert binary.acquire(3, 9, b"l-3") == wire.OK
    waiter.say("ACQ4ME l-1 1 9 600")
    other.say("ACQ4ANY l-2 1 9 600")
    wire.poll(lambda: waiter_count(a) == 2, "two wait")
    last.say("ACQ4ME l-1 1 9 600")
    wire.poll(lambda: waiter_count(b) == 1, "one waits behind")
    upgrade(a, 1)
    for client in (holder, waiter, other, binary):
        assert client.wait_closed() == b""
    assert last.line() == "LOCKED"
    wire.poll(lambda: shares(b, "l-1") == [{"node": "b", "units": 1, "waits": 0}], "no other wait")
    wire.poll(lambda: shares(b, "l-2") == shares(b, "l-3") == [], "nothing is held")


# ---- nodes and engines that fail ----------------------------------------------------------------


def test_a_node_that_is_killed_and_starts_again_frees_its_units_at_once(node):
    b = node("b", "cluster.lease=300", grace=False)
    a = node("a", "cluster.lease=300", grace=False)
    holder, waiter = a.text_client(), b.text_client()
    assert holder.ask("ACQ4ME l-1 1 9 0") == "LOCKED"
    waiter.say("ACQ4ME l-1 1 9 600")
    wire.poll(lambda: waiter_count(b) == 1, "it waits")
    a.is_expected_to_be_gone = True
    a.kill()
    node("a", "cluster.lease=300", grace=False)
    assert waiter.line() == "LOCKED", "long before the lease is over"


def test_a_node_that_stood_still_closes_strict_holders_before_it_reads(node, clocks):
    a = node("a", env=clocks.environment)
    strict = [(a.text_client(), a.binary_client()) for _ in range(4)]
    loose = a.text_client()
    assert loose.ask("ACQ4ME l-1 1 9 0") == "LOCKED"
    for number, (text, binary) in enumerate(strict):
        assert text.ask("ACQ4ME s-%d 1 9 0" % number) == "LOCKED"
        assert binary.acquire(1, 9, b"s-b%d" % number) == wire.OK
    a.child.send_signal(signal.SIGSTOP)
    try:
        await_stopped(a.pid)
        for number, (text, binary) in enumerate(strict):
            text.say("RELEASE s-%d" % number)
            binary.send(wire.binary_request(wire.RELEASE, wire.release_body(1, b"s-b%d" % number)))
        loose.say("RELEASE l-1")
        clocks.shift(others_s=7)  # longer than the lease
    finally:
        a.child.send_signal(signal.SIGCONT)
    assert {client.wait_closed() for pair in strict for client in pair} == {b""}
    assert loose.line() == "RELEASED"
    wire.poll(lambda: state(a)["connections_closed"] == 8, "all are counted")
    assert metric(a, "counterd_cluster_closed_total") == 8


def test_a_node_that_is_cut_off(node, engine):
    """It closes strict holders, whose units others get; each part admits loose names by what it holds."""
    rights = [">secret", "~*", "&*", "+@all"]
    engine.ask("ACL", "SETUSER", "a", "on", *rights)
    a = node("a", "cluster.user=a", "cluster.password=secret")
    b = node("b")
    strict, loose, other = a.text_client(), a.text_client(), b.text_client()
    waiter = b.text_client()
    assert loose.ask("ACQ4ME l-1 1 9 0") == "LOCKED"
    wire.poll(lambda: strict.ask("ACQ4ME s-1 1 9 5") == "LOCKED", "it has a lease")
    waiter.say("ACQ4ME s-1 1 9 600")
    wire.poll(lambda: waiter_count(b) == 1, "it waits")
    engine.ask("ACL", "SETUSER", "a", "off")
    engine.ask("CLIENT", "KILL", "USER", "a")
    assert strict.wait_closed() == b""
    assert waiter.line() == "LOCKED"
    assert a.text_client().ask("ACQ4ME s-1 1 9 0") == "ERROR ENGINE_AWAY"
    wire.poll(lambda: other.ask("ACQ4ME l-1 1 9 0") == "LOCKED", "its session is given back")
    engine.ask("ACL", "SETUSER", "a", "on")
    both = [{"node": "a", "units": 1, "waits": 0}, {"node": "b", "units": 1, "waits": 0}]
    wire.poll(lambda: shares(b, "l-1") == both, "what it holds is told")
    assert b.text_client().ask("ACQ4ME l-1 2 9 0") == "TIMEOUT"
    assert loose.ask("RELEASE") == "RELEASED"


def test_a_new_program_that_reads_for_longer_than_the_lease_does_not_take_over(node, tmp_path):
    path = program(tmp_path)
    a = node("a", "upgrade.timeout=60", program=path)
    holder = a.text_client()
    assert holder.ask("ACQ4ME s-1 1 9 0") == "LOCKED"
    late = "%s \"$@\" | sed '/ rehearse /s/[0-9]*$/9000000000/'; exit" % os.path.abspath(servers.COUNTERD)
    misbehave(path, "rehearse", late)  # so many nanoseconds, it says
    a.child.send_signal(signal.SIGUSR1)
    a.wait_log("is not enough to take over")
    assert holder.ask("RELEASE") == "RELEASED"


def test_a_failover_keeps_holders_and_their_order(node):
    """Sentinels promote the replica of an engine that is killed."""
    with contextlib.ExitStack() as stack:

        def start(**options):
            return stack.enter_context(redis_servers.RedisServer(**options))

        first = start(tcp=True, config="repl-diskless-sync-delay 0")
        second = start(tcp=True, config="replicaof 127.0.0.1 %d" % first.port)
        limits = ["monitor limits 127.0.0.1 %d 2" % first.port, "down-after-milliseconds limits 5000",
                  "failover-timeout limits 4000"]  # fmt: skip
        config = "".join("sentinel %s\n" % line for line in limits)
        watchers = [start(sentinel=True, config=config) for _ in range(3)]

        def knows_all(watcher):
            said = watcher.ask("SENTINEL", "MASTER", "limits")
            said = dict(zip(said[::2], said[1::2]))
            return (said[b"num-other-sentinels"], said[b"num-slaves"]) == (b"2", b"1")

        wire.poll(lambda: all(map(knows_all, watchers)), "the Sentinels know all", 5 * wire.DEADLINE)
        url = "cluster.engine=sentinel://%s/limits" % ",".join("127.0.0.1:%d" % w.port for w in watchers)
        a, b = (node(n, url, "cluster.lease=20", "cluster.patience=60", grace=False) for n in "ab")
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


# ---- what is advised ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "save, stop, advised",
    [('""', "yes", False), ("3600 1", "no", False), ("3600 1", "yes", True)],
)
def test_snapshots_that_can_stop_writes_are_advised_against(start, save, stop, advised):
    with redis_servers.RedisServer(save=save, stop_writes_on_bgsave_error=stop) as engine:
        a = start("cluster.engine=" + engine.url, "cluster.loose=*", admin=True)
        wire.poll(lambda: state(a)["state"] == "live", "it is live")
        assert any(line.startswith("the engine saves snapshots") for line in state(a)["advice"]) == advised
        engine.ask("CONFIG", "SET", "save", "")
        engine.ask("CLIENT", "KILL", "TYPE", "pubsub")  # each connect looks again
        wire.poll(lambda: state(a)["state"] == "live" and state(a)["advice"] == [], "nothing is advised")


@pytest.mark.parametrize("db", ["0", "3"])
def test_an_engine_by_host_name_database_and_prefix(start, db):
    """Its user has the rights that counterctl recommends, and may not read settings."""
    line = ctl.run("cluster", "acl", "--db", db, "--prefix", "other").out.split()
    with redis_servers.RedisServer(tcp=True, save="3600 1") as engine:
        assert engine.ask(*line) == b"OK"
        a = start(
            "cluster.engine=redis://localhost:%d/%s" % (engine.port, db), "cluster.prefix=other",
            "cluster.user=USER", "cluster.password=PASSWORD", "cluster.loose=*", admin=True,
        )  # fmt: skip
        wire.poll(lambda: state(a)["state"] == "live", "it is live")
        assert state(a)["advice"] == []
        holder = a.text_client()
        assert holder.ask("ACQ4ME l-1 1 9 0") == "LOCKED"
        with resp.Client(engine.path) as client:
            client.ask("SELECT", db)
            assert client.ask("HGETALL", "{other}:units") == [b"l-1", b"1"]


if __name__ == "__main__":
    tap.main(__file__)
