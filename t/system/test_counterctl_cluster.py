"""`counterctl cluster`: what it asks, what it makes of the answers, and the access list that Redis takes."""

import copy
import glob
import os
import re
import subprocess

import tap
import pytest

import ctl
import http_client
import mock_admin
import redis_servers
import resp
import wire

pytestmark = pytest.mark.skipif(not ctl.have_counterctl(), reason="COUNTERCTL names no program")

NO, USAGE, UNAVAILABLE, PROTOCOL = 1, 64, 69, 76

PAGE = "/api/v1/cluster"
SCRIPTS = os.path.join(os.environ.get("TOP_SRCDIR", "."), "src", "cluster", "scripts")


def node(name, **fields):
    row = {
        "node": name,
        "session": "00000000000000aa",
        "state": "live",
        "this": False,
        "same_patterns": True,
        "beat": 17,
        "beat_age": 0.4,
        "names": 3,
        "waits": 1,
        "units": 5,
    }
    row.update(fields)
    return row


LIVE = {
    "enabled": True,
    "state": "live",
    "node": "a:7531",
    "session": "0123456789abcdef",
    "engine": "127.0.0.1:6379",
    "term": "3f2a1b9c" + "0" * 32 + ":" + "9d8e7f6a" + "1" * 32,
    "grace": False,
    "refused": "",
    "advice": [],
    "lease": 10.0,
    "lease_left": 8.1,
    "patience": 1.0,
    "prefix": "counterd",
    "strict": "licence:*,b",
    "loose": "render:*",
    "requests": 3,
    "waits": 2,
    "beats": 21,
    "calls": 4,
    "ops": 10,
    "round_trip": 0.00021,
    "asserted": 7,
    "reaped": 8,
    "leases_lost": 1,
    "connections_closed": 6,
    "reconnects": {"closed": 2, "slow": 1, "deaf": 0},
    "nodes": [
        node("a:7531", this=True),
        node("b:7531", beat_age=-1, units=-1, waits=0),
        node("c:7531", state="ended", same_patterns=False, beat_age=12.0),
    ],
}

NAMED = {
    "name": "odd\\x0a\\\\name",
    "class": "strict",
    "units": 4,
    "waits": 2,
    "nodes": [{"node": "a:7531", "units": 3, "waits": 0}, {"node": "b:7531", "units": 1, "waits": 2}],
}


@pytest.fixture
def mock():
    server = mock_admin.MockAdmin()
    yield server
    server.stop()


def serve(mock, code=200, base=LIVE, **changes):
    """Sets the answer, and returns it."""
    answer = dict(copy.deepcopy(base), **changes)
    mock.canned[PAGE] = (code, answer)
    return answer


def cluster(mock, *words):
    return ctl.run("--admin", mock.address, "cluster", *words)


def facts(out):
    """The lines about this node by their first word."""
    return dict(re.findall(r"(?m)^  (\w+(?: lost)?) +(.*)$", out))


# --- all nodes -----------------------------------------------------------------------------------


def test_this_node_and_all_nodes(mock):
    serve(mock, advice=["a fourth Sentinel helps nobody: have an odd number", "and this"])
    done = cluster(mock)
    assert (done.status, done.err, mock.paths()) == (0, "", [PAGE])
    assert done.out.splitlines()[0] == "a:7531: live, session 0123456789abcdef"
    assert facts(done.out) == {
        "engine": "127.0.0.1:6379, term 3f2a1b9c:9d8e7f6a",
        "lease": "8.1 s left of 10.0 s",
        "patience": "1.0 s",
        "prefix": "counterd",
        "strict": "licence:*,b",
        "loose": "render:*",
        "requests": "3 now, 2 of them waits",
        "calls": "4, 2.5 ops a call, 210 us round trip; 21 beats",
        "asserted": "7; reaped 8",
        "leases lost": "1, with 6 connections closed",
        "reconnects": "3: closed 2, slow 1",
    }
    table = done.out.split("\n\n")[1].splitlines()
    assert [re.split(r" {2,}", line.strip()) for line in table] == [
        ["STATE", "LAST BEAT", "NAMES", "UNITS", "WAITS", "NODE"],
        ["live", "400 ms", "3", "5", "1", "a:7531", "(this node)"],
        ["live", "-", "3", "-", "0", "b:7531"],
        ["ended", "12.0 s", "3", "5", "1", "c:7531"],
    ]
    assert done.out.split("\n\n")[2] == (
        "advice: a fourth Sentinel helps nobody: have an odd number\nadvice: and this\n"
    )


def test_other_patterns_are_marked(mock):
    serve(mock, nodes=[node("a:1", this=True), node("b:1", same_patterns=False)])
    done = cluster(mock)
    assert done.out.splitlines()[-1].endswith("b:1  (other patterns)")


def test_grace_and_a_lease_that_is_over(mock):
    serve(mock, grace=True)
    assert facts(cluster(mock).out)["lease"] == "8.1 s left of 10.0 s; grace: nothing strict is granted"
    serve(mock, state="away", lease_left=0, engine="", term="", session="", calls=0, ops=0,
          strict="", reconnects={}, nodes=[])  # fmt: skip
    done = cluster(mock)
    shown = facts(done.out)
    assert done.status == 0 and "\n\n" not in done.out
    assert done.out.startswith("a:7531: away\n")
    assert shown["lease"] == "over, of 10.0 s: nothing strict is granted"
    assert shown["engine"] == "none is connected" and shown["strict"] == "none"
    assert shown["calls"] == "0, - ops a call, - round trip; 21 beats" and shown["reconnects"] == "0"


def test_a_node_that_is_away_says_why(mock):
    serve(mock, state="away", reason="h:1: Connection refused", reason_age=75.2, reason_times=61, nodes=[],
          reasons_before=[{"reason": "too slow", "reason_age": 80, "reason_times": 1}])  # fmt: skip
    assert cluster(mock).out.splitlines()[1:5] == [
        "  reason      h:1: Connection refused", "  times       61, the first 1m 15s ago",
        "  before      too slow", "  times       1, the first 1m 20s ago"]  # fmt: skip
    assert cluster(mock, "check") == (NO, "not live: away\nreason: h:1: Connection refused\n", "")


def test_a_node_that_is_refused_says_why(mock):
    serve(mock, state="refused", refused="maxmemory-policy is allkeys-lru: set noeviction", nodes=[])
    done = cluster(mock)
    assert facts(done.out)["refused"] == "maxmemory-policy is allkeys-lru: set noeviction"


def test_json_is_the_answer_as_it_is(mock):
    answer = serve(mock)
    for words in ([], ["check"], ["licence:x"]):
        assert ctl.run_json("--admin", mock.address, "cluster", "--json", *words) == (answer, 0)
    answer = serve(mock, state="away")
    assert ctl.run_json("--admin", mock.address, "cluster", "check", "-j") == (answer, NO)


# --- one name ------------------------------------------------------------------------------------


def test_a_name_by_node(mock):
    serve(mock, name=NAMED)
    done = cluster(mock, "odd\n\\name")
    assert (done.status, done.err, mock.paths()) == (0, "", [PAGE + "?name=odd%0A%5Cname"])
    lines = done.out.splitlines()
    assert lines[0] == "odd\\x0a\\\\name: strict, 4 in use and 2 waiting on all nodes"
    assert [line.split() for line in lines[1:]] == [
        ["UNITS", "WAITS", "NODE"], ["3", "0", "a:7531"], ["1", "2", "b:7531"]]  # fmt: skip
    assert cluster(mock, "-e", "odd\\x0a\\\\name").out == done.out


def test_names_that_are_words_of_the_command(mock):
    serve(mock, name=dict(NAMED, name="acl"))
    for name, given in (("acl", "\\x61cl"), ("check", "\\x63heck")):
        done = cluster(mock, "--escapes", given)
        assert done.status == 0 and done.out.startswith(name + ": strict, ")
        assert mock.paths()[-1] == PAGE + "?name=" + name
    done = cluster(mock, "-e", "\\x6")
    assert done.status == USAGE and "the name is wrong" in done.err


def test_a_name_that_is_not_shared(mock):
    serve(mock)
    mock.canned[PAGE + "?name=mine"] = (404, {"error": {"status": 404, "reason": "the name is not shared"}})
    done = cluster(mock, "mine")
    assert (done.status, done.out) == (NO, "") and "the name is not shared (404)" in done.err
    mock.canned.clear()
    serve(mock, name={"name": "mine", "class": "own", "units": 0, "waits": 0, "nodes": []})
    done = cluster(mock, "mine")
    assert (done.status, done.out) == (NO, "") and "this node's own" in done.err


def test_a_name_while_the_engine_is_away(mock):
    mock.canned[PAGE] = (503, {"error": {"status": 503, "reason": "the engine is away"}})
    done = cluster(mock, "licence:x")
    assert (done.status, done.out) == (UNAVAILABLE, "") and "the engine is away (503)" in done.err


# --- servers without a cluster, and wrong ones ---------------------------------------------------


@pytest.mark.parametrize("words", [(), ("check",), ("name",)])
def test_a_server_without_an_engine(mock, words):
    mock.canned[PAGE] = (200, {"enabled": False})
    done = cluster(mock, *words)
    assert (done.status, done.out) == (NO, "")
    assert "the server at %s shares no limits: it has no cluster.engine" % mock.address in done.err
    assert ctl.run_json("--admin", mock.address, "cluster", "-j", *words) == ({"enabled": False}, NO)


@pytest.mark.parametrize("words", [(), ("check",)])
def test_a_server_that_is_too_old(mock, words):
    done = cluster(mock, *words)
    assert (done.status, done.out) == (NO, "") and "older than this counterctl" in done.err


def test_a_name_at_a_server_that_is_too_old(mock):
    done = cluster(mock, "name")
    assert (done.status, done.out) == (NO, "") and "older than this counterctl" in done.err
    assert mock.paths() == [PAGE + "?name=name", PAGE]


def test_answers_of_the_wrong_shape_print_nothing_wrong(mock):
    odd = {"enabled": True, "nodes": [None, {}, {"node": 7, "this": 1}], "reconnects": [1], "advice": [{}],
           "term": ":", "name": {"nodes": [3]}}  # fmt: skip
    mock.canned[PAGE] = (200, odd)
    assert cluster(mock).status == 0 and cluster(mock, "n").status == 0
    assert cluster(mock, "check").status == NO
    for answer in (b"no JSON", b"[1]"):
        mock.canned[PAGE] = (200, answer)
        assert cluster(mock).status == PROTOCOL


def test_hostile_bytes_do_no_harm(mock):
    bad = "\x1b[2J\u202e\x07\n"
    serve(mock, node=bad, state=bad, engine=bad, strict=bad, loose=bad, refused=bad, advice=[bad],
          reconnects={bad: 1}, prefix=bad, session=bad, term=bad + ":" + bad,
          nodes=[node(bad, state=bad, same_patterns=False)],
          name={"name": bad, "class": bad, "units": 1, "waits": 0,
                "nodes": [{"node": bad, "units": 1, "waits": 0}]})  # fmt: skip
    clean = "\\x1b[2J\\xe2\\x80\\xae\\x07\\x0a"
    for words in ((), ("check",), (bad,)):
        done = cluster(mock, *words)
        assert clean in done.out
        assert not re.search("[^\x20-\x7e\n]", done.out + done.err)
    done = cluster(mock, "check")
    assert len(done.out.splitlines()) == 4, done.out


# --- check ---------------------------------------------------------------------------------------


def test_check_of_a_good_node(mock):
    serve(mock)
    assert cluster(mock, "check") == (0, "live, and nothing to set\n", "")
    serve(mock, grace=True)
    assert cluster(mock, "check").status == 0


def test_check_says_what_is_wrong_and_what_to_set(mock):
    serve(mock, state="connecting")
    assert cluster(mock, "check") == (NO, "not live: connecting; the server's log says why\n", "")
    serve(mock, state="refused", refused="it has redis_version 6.2: use 7.0 or later")
    assert cluster(mock, "check") == (
        NO, "not live: refused\nrefused: it has redis_version 6.2: use 7.0 or later\n", "")  # fmt: skip
    serve(mock, advice=["set save \"\" at the engine"])
    assert cluster(mock, "check") == (NO, "advice: set save \"\" at the engine\n", "")


def test_check_finds_other_patterns(mock):
    nodes = [node("a:1", this=True), node("b:1", same_patterns=False),
             node("c:1", same_patterns=False, state="ended")]  # fmt: skip
    serve(mock, nodes=nodes)
    done = cluster(mock, "check")
    assert done.status == NO and len(done.out.splitlines()) == 1
    assert done.out.startswith("b:1: has other patterns; set cluster.strict and cluster.loose")
    serve(mock, nodes=nodes, advice=["set save, b:1"])
    assert len(cluster(mock, "check").out.splitlines()) == 2
    serve(mock, nodes=nodes, advice=["b:1 has other patterns"])
    assert cluster(mock, "check") == (NO, "advice: b:1 has other patterns\n", "")


# --- two nodes and a Redis -----------------------------------------------------------------------


@pytest.mark.skipif(not redis_servers.have_redis(), reason="there is no redis-server")
def test_nodes_of_the_daemon(start):
    def begin(name, strict):
        daemon = start("cluster.engine=" + redis.url, "cluster.node=" + name, "cluster.lease=2",
                       "cluster.strict=" + strict, "cluster.loose=l-*", admin=True)  # fmt: skip
        return daemon, lambda *words: ctl.run("--admin", ctl.at(daemon.admin), "cluster", *words)

    def state(daemon):
        return http_client.get(daemon.admin, "/api/v1/cluster")

    with redis_servers.RedisServer() as redis:
        (a, ask_a), (b, _) = begin("a", "s-*"), begin("b", "s-*")
        wire.poll(lambda: len(state(a)["nodes"]) == 2 and not state(a)["grace"], "two nodes")
        wire.poll(lambda: not state(b)["grace"], "the grace is over")
        wire.poll(lambda: ask_a("check") == (0, "live, and nothing to set\n", ""), "all is well")
        with a.text_client() as one, b.text_client() as two, b.text_client() as waits:
            assert one.ask("ACQ4ME s-x 2 9 5") == two.ask("ACQ4ME s-x 2 9 5") == "LOCKED"
            waits.say("ACQ4ME s-x 2 9 1000")
            wire.poll(lambda: " 1 waiting" in ask_a("s-x").out, "one waits")
            lines = ask_a("s-x").out.splitlines()
            assert lines[0] == "s-x: strict, 2 in use and 1 waiting on all nodes"
            assert sorted(line.split() for line in lines[2:]) == [["1", "0", "a"], ["1", "1", "b"]]
            done = ask_a()
            assert done.status == 0 and done.out.startswith("a: live, session ")
            assert re.search(r"(?m)^live .*  a  \(this node\)$", done.out)
            assert re.search(r"(?m)^live .*  b$", done.out)
        beat = next(n["beat"] for n in state(a)["nodes"] if n["node"] == "b")
        wire.poll(lambda: [n["beat"] > beat for n in state(a)["nodes"] if n["node"] == "b"] == [True],
                  "a beat of the other node is seen")  # fmt: skip
        done = ask_a("own")
        assert (done.status, done.out) == (NO, "") and "the name is not shared" in done.err
        assert ask_a("-e", "s-\\x00\\xff").out.startswith("s-\\x00\\xff: strict, 0 in use")
        begin("c", "s-*,t-*")
        wire.poll(lambda: "c  (other patterns)" in ask_a().out, "another one has other patterns")
        done = ask_a("check")
        assert done.status == NO and len(done.out.splitlines()) == 1
        assert done.out.startswith("advice: node c has other patterns: set cluster.strict")
        redis.end()
        wire.poll(lambda: state(a)["state"] != "live", "the engine is away")
        done = ask_a("check")
        assert done.status == NO and done.out.startswith("not live: ")
        done = ask_a("s-x")
        assert (done.status, done.out) == (UNAVAILABLE, "") and "the engine is away" in done.err


# --- the access list -----------------------------------------------------------------------------

LINE = ("ACL SETUSER USER on >PASSWORD resetkeys ~{counterd}:* resetchannels &{counterd}:* -@all +info +evalsha "
        "+script|load +subscribe +publish +hget +hmget +hset +hdel +hincrby +hgetall +hlen +hscan "
        "+exists +unlink +sadd +srem +sismember +srandmember +zadd +zrem +zrange +zpopmin +zcard "
        "+zscore")  # fmt: skip


def test_the_access_list():
    assert ctl.run("cluster", "acl") == (0, LINE + "\n", "")
    assert ctl.run("cluster", "acl", "--db", "0").out == LINE + "\n"
    done = ctl.run("cluster", "acl", "--db=3", "-p", "wiki_1-b")
    assert done.out == LINE.replace("{counterd}", "{wiki_1-b}") + " +select\n"
    assert ctl.run_json("cluster", "acl", "--json") == ({"acl": LINE}, 0)


def test_an_access_list_that_makes_no_sense():
    for prefix in ("", "A", "a b", "a:b", "ä", "x" * 33):
        done = ctl.run("cluster", "acl", "--prefix", prefix)
        assert (done.status, done.out) == (USAGE, "") and "cluster.prefix" in done.err
    assert ctl.run("cluster", "acl", "--prefix", "x" * 32).status == 0
    for words in (("--db", "-1"), ("--db", "x"), ("--db", str(2**31))):
        assert ctl.run("cluster", "acl", *words).status == USAGE
    for words in ((), ("check",), ("name",)):
        done = ctl.run("cluster", *words, "--db", "0")
        assert done.status == USAGE and "--prefix and --db of cluster are for acl" in done.err


def script(name):
    with open(os.path.join(SCRIPTS, name), encoding="utf-8") as f:
        return f.read()


def test_the_access_list_is_what_scripts_call_and_what_a_node_asks_for():
    allowed = [word[1:] for word in LINE.split() if word.startswith("+")]
    called = set()
    for path in glob.glob(os.path.join(SCRIPTS, "*.lua")):
        called |= set(re.findall(r"""\bcall\(\s*['"]([A-Za-z]+)['"]""", script(path)))
    called = {word.lower() for word in called}
    assert len(called) > 10 and called <= set(allowed), called - set(allowed)
    needed = re.search(r"(?s)local needed = \{(.*?)\n\}", script("open.lua")).group(1)
    assert re.findall(r"\{'([a-z|]+)'", needed) == allowed


@pytest.mark.skipif(not redis_servers.have_redis(), reason="there is no redis-server")
def test_redis_takes_the_access_list():
    line = ctl.run("cluster", "acl", "--db", "1").out
    with redis_servers.RedisServer() as redis, resp.Client(redis.address) as admin:
        pasted = subprocess.run(
            ["redis-cli", "-s", redis.path], input=line, capture_output=True, text=True, check=True
        )
        assert pasted.stdout.strip() == "OK", "it is a command as it stands"

        def may(*words):
            return admin.ask("ACL", "DRYRUN", "USER", *words) == b"OK"

        key, other = "{counterd}:units", "{other}:units"
        assert may("INFO", "server") and may("SELECT", "1") and may("SCRIPT", "LOAD", "return 1")
        assert may("EVALSHA", "0" * 40, "1", "{counterd}:")
        assert may("SUBSCRIBE", "{counterd}:to:00") and may("PUBLISH", "{counterd}:to:00", "B 1")
        assert may("HINCRBY", key, "n", "1") and may("ZPOPMIN", key) and may("UNLINK", key)
        for words in (("HGET", other, "n"), ("EVALSHA", "0" * 40, "1", "{other}:"), ("DEL", key),
                      ("SUBSCRIBE", "{other}:to:00"), ("FLUSHALL",), ("CONFIG", "GET", "*"),
                      ("SCRIPT", "FLUSH"), ("EVAL", "return 1", "0"), ("KEYS", "*")):  # fmt: skip
            assert not may(*words), words


if __name__ == "__main__":
    tap.main(__file__)
