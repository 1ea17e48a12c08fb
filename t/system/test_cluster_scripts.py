"""
Requests on shared names in a real Redis: what call and give do, op by op, to src/cluster/engine.md. After each test
the keys are added up, and when all sessions have given back and left, nothing is left.
"""

import os
import random
import re
import time

import tap
import pytest

import cluster_engine
import redis_servers
import resp
from cluster_engine import Session, ask, engine, held, redis_for_tests, snapshot

pytestmark = pytest.mark.skipif(not redis_servers.have_redis(), reason="redis-server is not installed")

SEED = int(os.environ.get("T_SEED") or time.time_ns() % 1000000)


# ---- acquire and release ---------------------------------------------------------------------


def test_units_up_to_the_limit(engine, ask):
    s, other = Session(engine), Session(engine, "n2")
    assert ask(s, "a", "x", 0, 2, 5, 0, "n", 1) == 1
    assert ask(other, "a", "x", 0, 2, 5, 0, "n", 1) == 1
    assert ask(other, "a", "x", 0, 2, 5, 0, "n", 1) == 0
    assert ask(other, "a", "x", 0, 1, 5, 0, "n", 1) == 1
    assert ask(s, "a", "x", 0, 1, 5, 0, "n", 1) == 0
    assert ask(s, "g", "x") == [5, 0]
    assert (held(engine, s, "x"), held(engine, other, "x")) == (2, 3)
    assert ask(s, "r", "x", 3, 1) == -2, "more than S has"
    assert ask(s, "g", "x") == [5, 0]
    assert ask(s, "r", "x", 1, 0) == 1
    assert ask(s, "r", "x", 1, 1) == 1
    assert ask(s, "r", "x", 1, 1) == -2
    assert ask(other, "r", "x", 3, 1) == 1
    assert ask(s, "g", "x") == [0, 0] and engine.client.ask("HGET", engine.key("units"), "x") is None


def test_maxqueue_counts_units_and_waits(engine, ask):
    s, other = Session(engine), Session(engine, "n2")
    assert ask(s, "a", "x", 0, 1, 5, 1, "n", 1) == 1
    assert ask(s, "a", "x", 0, 1, 5, 1, "n", 1) == -1, "also where it fits"
    assert ask(s, "a", "x", 0, 1, 5, 2, "n", 1) == 1
    assert ask(s, "a", "x", 1, 1, 2, 3, "m", 1) > 1
    assert ask(other, "a", "x", 1, 1, 2, 3, "m", 1) == -1
    assert ask(other, "a", "x", 1, 1, 2, 4, "a", 0) > 1
    assert ask(other, "a", "x", 2, 1, 2, 4, "m", 1) == -1
    assert ask(other, "a", "x", 0, 1, 2, 4, "n", 1) == -1
    assert ask(other, "a", "x", 2, 1, 2, 0, "m", 1) > 1, "0: none"
    assert ask(s, "g", "x") == [2, 3]


def test_waits_have_growing_places(engine, ask):
    s = Session(engine)
    assert ask(s, "a", "x", 0, 1, 1, 0, "m", 1) == 1, "it fits"
    places = [ask(s, "a", "x", i, 1, 1, 0, "ma"[i % 2], 1) for i in range(1, 7)]
    assert places == sorted(places) and places[0] > 1 and len(set(places)) == 6
    assert int(engine.meta("seq")) >= places[-1]
    assert {k: int(v) for k, v in engine.hash("w:" + s.id).items() if b"x" in k} == {b"ms1/1:x": 3, b"as1/1:x": 3}


def test_cancel(engine, ask):
    s = Session(engine)
    s.acquire("x")
    first, second = s.acquire("x", 1, kind="m"), s.acquire("x", 2, kind="m")
    assert first < second
    assert ask(s, "c", "x", "ms1/1", 9) == 0
    assert ask(s, "c", "x", "as1/1", 1) == 0
    assert ask(s, "c", "x", "ms1/1", 1) == 1
    engine.check()
    assert ask(s, "c", "x", "ms1/1", 1) == 0
    assert ask(s, "g", "x") == [1, 1]
    assert ask(s, "c", "x", "ms1/1", 2) == 1
    assert ask(s, "g", "x") == [1, 0]
    assert engine.client.ask("EXISTS", engine.key("k:x")) == 0


def test_a_release_hands_over_to_the_oldest(engine, ask):
    one, two = Session(engine, "n1"), Session(engine, "n2")
    one.acquire("x")
    two.acquire("x", 7, kind="m")
    one.acquire("x", 8, kind="m")
    two.acquire("x", 9, kind="m")
    assert ask(one, "r", "x", 1, 1) == 1
    assert (one.heard(), two.heard()) == ([], [b"G 7 1 x"])
    assert ask(two, "r", "x", 1, 0) == 1
    assert (one.heard(), two.heard()) == ([b"G 8 1 x"], [])
    assert (held(engine, one, "x"), held(engine, two, "x")) == (1, 0)
    assert ask(one, "r", "x", 1, 1) == 1
    assert two.heard() == [b"G 9 1 x"]
    assert ask(one, "g", "x") == [1, 0]


def test_a_released_unit_goes_to_acq4me_before_acq4any_unless_it_was_explicit(engine, ask):
    one, two = Session(engine, "n1"), Session(engine, "n2")
    one.acquire("x")
    two.acquire("x", 1, kind="a")
    two.acquire("x", 2, kind="m")
    assert ask(one, "r", "x", 1, 0) == 1
    assert two.heard() == [b"G 2 1 x"]
    assert ask(two, "r", "x", 1, 0) == 1
    assert two.heard() == [b"G 1 1 x"], "as when a connection ends: no DONE"


def test_an_explicit_release_tells_every_acq4any_wait_done(engine, ask):
    sessions = [Session(engine, "n%d" % i) for i in range(3)]
    one, two, three = sessions
    one.acquire("x")
    for i in range(6):
        sessions[i % 2].acquire("x", i, kind="a")
    two.acquire("x", 6, limit=1, kind="a", strict=0)
    two.acquire("x", 7, kind="m")
    three.acquire("y")
    three.acquire("y", 8, kind="a")
    assert ask(one, "r", "x", 1, 1) == 1
    seq = int(engine.meta("seq"))
    assert [s.heard() for s in sessions] == [[b"D %d x" % seq], [b"D %d x" % seq, b"G 7 1 x"], []]
    assert two.get("x") == [1, 0] and three.get("y") == [1, 1]


def test_what_does_not_fit_is_passed_over(engine, ask):
    one, two = Session(engine, "n1"), Session(engine, "n2")
    one.acquire("x", units=4, limit=4)
    two.acquire("x", 1, units=3, limit=4, kind="m")
    two.acquire("x", 2, units=1, limit=2, kind="m")
    two.acquire("x", 3, units=1, limit=4, kind="m")
    two.acquire("x", 4, units=1, limit=4, kind="a")
    assert ask(one, "r", "x", 1, 0) == 1
    assert two.heard() == [b"G 3 1 x"]
    assert ask(one, "r", "x", 2, 0) == 1
    assert two.heard() == [b"G 4 1 x"], "three do not fit, nor a limit of two"
    assert ask(one, "r", "x", 1, 0) == 1
    assert two.heard() == [] and two.get("x") == [2, 2]
    assert ask(two, "r", "x", 1, 0) == 1
    assert two.heard() == [b"G 1 3 x"], "the oldest, though another fits as well"


def test_an_acquisition_hands_over_first(engine, ask):
    """Units that came free without a hand over (their holder's limit was higher) go to those that wait."""
    one, two = Session(engine, "n1"), Session(engine, "n2")
    one.acquire("x")
    two.acquire("x", 1, kind="m")
    engine.client.ask("HDEL", engine.key("units"), "x")
    engine.client.ask("HDEL", engine.key("u:" + one.id), "x")
    assert ask(one, "a", "x", 0, 1, 1, 0, "n", 1) == 0
    assert two.heard() == [b"G 1 1 x"]
    assert ask(one, "a", "x", 0, 1, 2, 0, "n", 1) == 1


def test_t_hands_over(engine, ask):
    one, two = Session(engine, "n1"), Session(engine, "n2")
    one.acquire("x")
    two.acquire("x", 1, kind="m")
    assert ask(one, "t", "x") == 1 and two.heard() == []
    engine.client.ask("HDEL", engine.key("units"), "x")
    engine.client.ask("HDEL", engine.key("u:" + one.id), "x")
    engine.client.ask("SADD", engine.key("more"), "x", "y")
    assert ask(one, "t", "x") == 1 and two.heard() == [b"G 1 1 x"]
    assert engine.client.ask("SISMEMBER", engine.key("more"), "x") == 0
    assert ask(one, "t", "y") == 1
    assert engine.client.ask("EXISTS", engine.key("more")) == 0


def test_get_by_node(engine, ask):
    one, two = Session(engine, "n1"), Session(engine, "n2")
    assert ask(one, "h", "x") == []
    one.acquire("x", units=3, limit=5)
    two.acquire("x", units=2, limit=5)
    two.acquire("x", 1, limit=5, kind="m")
    two.acquire("x", 2, limit=5, kind="a")
    new = Session(engine, "n1", told=[("s", "x", 2)])
    assert ask(new, "h", "x") == [b"n1", 3, 0, b"n2", 2, 2]
    assert ask(new, "g", "x") == [5, 2]


def test_ops_of_a_call_follow_each_other(engine):
    s, other = Session(engine), Session(engine, "n2")
    answers = s.call(
        ("a", "x", 1, 1, 1, 0, "m", 1), ("a", "x", 2, 1, 1, 0, "m", 1), ("a", "x", 3, 1, 1, 3, "a", 1),
        ("a", "x", 4, 1, 1, 3, "a", 1), ("g", "x"), ("c", "x", "ms1/1", 2), ("g", "x"), ("r", "x", 1, 1),
        ("g", "x"), ("r", "x", 1, 1), ("a", "x", 5, 1, 1, 1, "n", 1), ("r", "x", 1, 0), ("g", "x"), ("h", "x"),
    )  # fmt: skip
    assert answers == [1, 2, 3, -1, [1, 2], 1, [1, 1], 1, [0, 0], -2, 1, 1, [0, 0], []]
    assert s.heard() == [b"D 3 x"]
    answers = other.call(
        ("a", "x", 1, 1, 1, 0, "m", 1), ("a", "x", 2, 1, 1, 0, "m", 1), ("r", "x", 1, 1), ("g", "x"), ("h", "x"),
        ("r", "x", 1, 0),
    )  # fmt: skip
    assert answers == [1, 4, 1, [1, 0], [b"n2", 1, 0], 1]
    assert other.heard() == [b"G 2 1 x"]


def test_many_names_in_a_call(engine):
    s = Session(engine)
    for count in (1, 2, 3, 9, 40, 128, 250):
        names = ["name %d" % i for i in range(count)]
        assert s.call(*[("a", n, 1, 1, 2, 0, "n", 1) for n in names]) == [1] * count
        assert s.call(*[("a", n, 1, 1, 2, 0, "n", 0) for n in names]) == [1] * count
        assert s.call(*[("g", n) for n in names]) == [[2, 0]] * count
        engine.check()
        assert s.call(*[("r", n, 2, 1) for n in names]) == [1] * count
        assert engine.hash("units") == {}


def test_names_of_any_bytes(engine, ask):
    s = Session(engine)
    for name in (b"a:b", b":", b" ", b"\x00", b"\r\n", b"%s%d", bytes(range(256)), b"n" * 65535, b"{x}", b"-1", b"1e3"):
        assert ask(s, "a", name, 1, 1, 1, 0, "m", 1) == 1
        assert ask(s, "a", name, 2, 1, 1, 0, "m", 1) > 1
        engine.check()
        assert ask(s, "r", name, 1, 1) == 1
        assert s.heard() == [b"G 2 1 " + name]
        assert ask(s, "a", name, 3, 1, 1, 0, "a", 1) > 1
        assert ask(s, "r", name, 1, 1) == 1
        seq = int(engine.meta("seq"))
        assert s.heard() == [b"D %d %s" % (seq, name)]


def test_great_numbers_stay_exact(engine, ask):
    s = Session(engine, seq=2**52)
    most, wait = 2**32 - 1, 2**64 - 1
    assert ask(s, "a", "x", 1, most - 1, most, 0, "n", 1) == 1
    assert ask(s, "a", "x", wait, most, most, most, "m", 1) >= 2**52 + 1
    assert ask(s, "g", "x") == [most - 1, 1]
    assert ask(s, "c", "x", "ms%d/%d" % (most, most), wait) == 1
    assert ask(s, "a", "x", wait, most, most, most, "m", 1) > 2**52
    assert ask(s, "r", "x", most - 1, 0) == 1
    assert s.heard() == [b"G %d %d x" % (wait, most)]
    assert ask(s, "r", "x", most, 0) == 1


def test_the_257th_pair_of_a_name_is_refused(engine, ask):
    s, other = Session(engine), Session(engine, "n2")
    s.acquire("x", limit=1)
    for start in range(0, 256, 128):
        answers = s.call(*[("a", "x", i, i + 1, i + 1, 0, "ma"[i % 2], 1) for i in range(start, start + 128)])
        assert min(answers) > 1
    assert engine.client.ask("ZCARD", engine.key("k:x")) == 256
    assert ask(other, "a", "x", 900, 1, 1, 0, "m", 1) == -1
    assert ask(s, "a", "x", 901, 1, 1, 0, "a", 1) == -1
    assert ask(s, "a", "x", 902, 1, 1, 0, "m", 1) > 1, "a pair that is there"
    assert ask(s, "a", "x", 903, 1, 1, 0, "n", 1) == 0
    assert ask(s, "c", "x", "as256/256", 255) == 1
    assert ask(other, "a", "x", 904, 1, 1, 0, "m", 1) > 1
    assert ask(s, "g", "x") == [1, 257]


# ---- grace -----------------------------------------------------------------------------------


def test_in_grace_nothing_strict_is_granted(engine, ask):
    s = Session(engine)
    engine.client.ask("HSET", engine.key("meta"), "grace", 1)
    assert ask(s, "a", "x", 0, 1, 1, 0, "n", 1) == 0
    assert ask(s, "a", "x", 1, 1, 1, 0, "m", 1) > 1
    assert ask(s, "a", "x", 2, 1, 1, 0, "a", 1) > 1
    assert s.heard() == [] and ask(s, "g", "x") == [0, 2]
    assert ask(s, "a", "y", 3, 1, 1, 0, "n", 0) == 1, "loose"
    assert ask(s, "a", "x", 4, 1, 1, 0, "n", 0) == 1, "loose, though strict ones wait"
    assert ask(s, "a", "x", 5, 1, 1, 0, "m", 0) > 1
    assert ask(s, "r", "x", 1, 0) == 1
    assert s.heard() == [b"G 5 1 x"], "in grace loose classes only"
    assert ask(s, "r", "x", 1, 0) == 1 and s.heard() == []
    assert ask(s, "t", "x") == 1 and s.heard() == []
    engine.end_grace()
    assert ask(s, "t", "x") == 1 and s.heard() == [b"G 1 1 x"]


def test_done_comes_also_in_grace(engine, ask):
    s = Session(engine)
    s.acquire("x")
    s.acquire("x", 1, kind="a")
    engine.client.ask("HSET", engine.key("meta"), "grace", 1)
    assert ask(s, "r", "x", 1, 1) == 1
    assert s.heard() == [b"D %d x" % int(engine.meta("seq"))]


# ---- hand over to sessions that are not live, or do not listen ----------------------------


def test_a_session_that_is_opening_is_granted(engine, ask):
    s, other = Session(engine, "n1"), Session(engine, "n2", ready=False, told=[("w", "x", "ms1/1", 5, 1)])
    assert ask(s, "t", "x") == 1
    assert other.heard() == [b"G 5 1 x"] and held(engine, other, "x") == 1


def test_an_ended_session_is_dropped_with_its_whole_queue(engine, ask):
    s, other = Session(engine, "n1"), Session(engine, "n2")
    s.acquire("x")
    for i in range(5):
        other.acquire("x", i, kind="m")
    other.acquire("x", 5, kind="a")
    other.acquire("x", 6, units=2, limit=2, kind="m")
    s.acquire("x", 7, kind="m")
    Session(engine, "n2")
    assert ask(s, "g", "x") == [1, 8]
    assert ask(s, "r", "x", 1, 0) == 1
    assert s.heard() == [b"G 7 1 x"] and other.heard() == []
    assert {k for k in engine.hash("w:" + other.id)} == {b"as1/1:x"}, "what fitted and was asked is gone"
    assert ask(s, "g", "x") == [1, 1]


def test_a_grant_that_reached_nobody_is_undone(engine, ask):
    s, other = Session(engine, "n1"), Session(engine, "n2")
    s.acquire("x")
    other.acquire("x", 1, kind="m")
    other.acquire("x", 2, kind="m")
    s.acquire("x", 3, kind="m")
    other.deafen()
    assert ask(s, "r", "x", 1, 0) == 1
    assert s.heard() == [b"G 3 1 x"]
    assert held(engine, other, "x") == 0
    assert ask(s, "g", "x") == [1, 0], "both waits of the deaf session are dropped"
    assert held(engine, s, "x") == 1


# ---- keys that another program has written ---------------------------------------------------


def is_wrong(engine, answer, key):
    """True for the answer of an op that found this key to be of another type."""
    return answer == resp.Error("WRONGTYPE " + engine.prefix + key)


def snapshot_without(engine, key):
    """All other keys with what they hold, and what is not there for long."""
    value = engine.client.ask("GET", engine.key(key))
    engine.client.ask("DEL", engine.key(key))
    found = snapshot(engine)
    engine.client.ask("SET", engine.key(key), value)
    found.pop(engine.key("more"), None)
    return found


def test_a_queue_of_another_type(engine):
    s, other = Session(engine, "n1"), Session(engine, "n2")
    assert s.acquire("x", units=2, limit=5) == other.acquire("x", limit=5) == 1
    engine.client.ask("SET", engine.key("k:x"), "foreign")
    ops = [("a", "x", 7, 1, 9, 0, "n", 0), ("a", "x", 7, 1, 1, 5, "m", 1), ("c", "x", "ms1/1", 7), ("g", "x"),
           ("h", "x"), ("t", "x")]  # fmt: skip
    before = snapshot_without(engine, "k:x")
    for op in ops:
        assert is_wrong(engine, s.one(*op), "k:x"), op
    assert engine.client.ask("SMEMBERS", engine.key("more")) == [b"x"], "all nodes learn of it by their beats"
    engine.client.ask("DEL", engine.key("more"))
    assert snapshot_without(engine, "k:x") == before
    # Others of the call are answered as ever, and units change all the same.
    answers = s.call(("a", "y", 0, 1, 1, 0, "n", 1), *ops, ("a", "y", 0, 1, 1, 0, "n", 1), ("r", "x", 1, 1))
    assert answers[0] == 1 and answers[-2] == 0
    assert all(is_wrong(engine, answer, "k:x") for answer in [*answers[1:-2], answers[-1]])
    assert held(engine, s, "x") == 1
    assert s.release("x", 2) == -2, "more than S has"
    assert is_wrong(engine, s.release("x", 1, 0), "k:x")
    assert (held(engine, s, "x"), held(engine, other, "x")) == (0, 1)
    assert s.beat()[1] == {b"x"}
    engine.client.ask("DEL", engine.key("k:x"))
    assert s.one("t", "x") == 1 and s.beat()[1] == set()
    assert s.get("x") == [1, 0]


def test_a_queue_of_another_type_where_nobody_waits(engine):
    """The scripts mostly find out that nobody waits without a look at the name's key."""
    s = Session(engine)
    engine.client.ask("SET", engine.key("k:n9"), "foreign")
    fit = [("a", "n%d" % i, 0, 1, 1, 0, "n", 1) for i in range(20)]
    assert s.call(*fit) == [1] * 20
    queue = [("a", "n%d" % i, i, 1, 1, 0, "m", 1) for i in range(20)]
    answers = s.call(*queue)
    assert [i for i, answer in enumerate(answers) if is_wrong(engine, answer, "k:n9")] == [9]
    for i in (0, 19):
        assert s.one("c", "n%d" % i, "ms1/1", i) == 1
    left = [("c", "n%d" % i, "ms1/1", i) for i in range(1, 19) if i != 9]
    assert s.call(*left) == [1] * 17
    answers = s.give(*[("t", "n%d" % i) for i in range(20)])
    assert [i for i, answer in enumerate(answers) if is_wrong(engine, answer, "k:n9")] == [9]
    engine.client.ask("DEL", engine.key("k:n9"))
    assert s.give(*[("t", "n%d" % i) for i in range(20)]) == [1] * 20


def test_a_queue_with_foreign_members(engine):
    s = Session(engine)
    assert s.acquire("x") == 1
    engine.client.ask("ZADD", engine.key("k:x"), 1, "foreign")
    assert is_wrong(engine, s.acquire("x"), "k:x") and is_wrong(engine, s.release("x"), "k:x")
    engine.client.ask("DEL", engine.key("k:x"))
    assert s.one("t", "x") == 1 and s.get("x") == [0, 0]


def test_waits_of_another_type(engine):
    """The key of a pair that waits, and one of a pair that would."""
    s, other = Session(engine, "n1"), Session(engine, "n2")
    assert s.acquire("x") == 1 and other.acquire("x", 1, kind="m") > 1
    key = "q:%s:ms1/1:x" % other.id
    engine.client.ask("SET", engine.key(key), "foreign")
    assert is_wrong(engine, s.acquire("x", 2, kind="a"), key)
    assert is_wrong(engine, s.release("x"), key)
    assert held(engine, s, "x") == 0 and other.heard() == []
    s.reap_all(other.id)
    assert s.beat()[1] == {b"x"} and s.one("t", "x") == 1
    assert s.acquire("x") == 1
    key = "q:%s:ms1/1:x" % s.id
    engine.client.ask("SET", engine.key(key), "foreign")
    before = snapshot_without(engine, key)
    assert is_wrong(engine, s.acquire("x", 3, kind="m"), key)
    assert snapshot_without(engine, key) == before
    engine.client.ask("DEL", engine.key(key))
    assert s.acquire("x", 3, kind="m") > 1


def test_waits_that_another_program_has_deleted(engine):
    s, other = Session(engine, "n1"), Session(engine, "n2")
    assert s.acquire("x") == 1 and other.acquire("x", 1, kind="m") > 1 and s.acquire("x", 2, kind="m") > 1
    engine.client.ask("DEL", engine.key("q:%s:ms1/1:x" % other.id))
    assert s.release("x") == 1 and s.heard() == [b"G 2 1 x"]
    assert s.get("x") == [1, 0] and other.give() == []
    engine.check()


def test_an_opening_session_tells_units_beside_a_wrong_queue(engine):
    s = Session(engine, "n1")
    assert s.acquire("x") == 1
    engine.client.ask("SET", engine.key("k:x"), "foreign")
    new = Session(engine, "n1", last=s.id, ready=False)
    answers = new.give(("s", "x", 1), ("w", "x", "ms1/1", 7, 5))
    assert answers[0] == 1 and is_wrong(engine, answers[1], "k:x")
    assert (held(engine, s, "x"), held(engine, new, "x")) == (0, 1)
    engine.client.ask("DEL", engine.key("k:x"))
    assert new.give(("w", "x", "ms1/1", 7, 5)) == [1]
    new.ready()


def test_a_session_with_waits_in_a_wrong_queue_is_reaped(engine):
    s, other = Session(engine, "n1"), Session(engine, "n2")
    assert other.acquire("x") == 1 and other.acquire("x", 1, kind="m") > 1
    engine.client.ask("SET", engine.key("k:x"), "foreign")
    s.reap_all(other.id)
    assert not [key for key in engine.keys() if other.id.encode() in key]
    assert s.beat()[1] == {b"x"} and engine.hash("units") == {}
    engine.client.ask("DEL", engine.key("k:x"))
    assert s.one("t", "x") == 1


# ---- bounds ----------------------------------------------------------------------------------


def test_a_hand_over_grants_250_and_says_that_there_are_more(engine, ask):
    s, other = Session(engine, "n1"), Session(engine, "n2")
    assert s.acquire("x", units=1000, limit=1000) == 1
    for start in range(0, 600, 120):
        other.call(*[("a", "x", i, 1, 1000, 0, "m", 1) for i in range(start, start + 120)])
    assert ask(s, "r", "x", 1000, 0) == 2
    assert other.heard() == [b"G %d 1 x" % i for i in range(250)]
    assert s.beat()[1] == {b"x"}
    assert ask(s, "t", "x") == 2
    assert other.heard() == [b"G %d 1 x" % i for i in range(250, 500)]
    assert s.beat()[1] == {b"x"}
    assert ask(s, "t", "x") == 1
    assert other.heard() == [b"G %d 1 x" % i for i in range(500, 600)]
    assert s.beat()[1] == set()


def test_nothing_fits_behind_a_hand_over_that_is_not_finished(engine, ask):
    s, other = Session(engine, "n1"), Session(engine, "n2")
    assert s.acquire("x", units=1000, limit=1000) == 1
    for start in range(0, 600, 120):
        other.call(*[("a", "x", i, 1, 1000, 0, "m", 1) for i in range(start, start + 120)])
    engine.client.ask("HDEL", engine.key("units"), "x")
    engine.client.ask("HDEL", engine.key("u:" + s.id), "x")
    assert ask(s, "a", "x", 900, 1, 5000, 0, "n", 1) == 0
    assert len(other.heard()) == 250 and s.beat()[1] == {b"x"}
    assert ask(s, "a", "x", 901, 1, 5000, 601, "m", 1) > 1
    assert len(other.heard()) == 250
    assert ask(s, "a", "x", 902, 1, 5000, 601, "n", 1) == -1, "601 there are already"
    assert len(other.heard()) == 100 and s.heard()[-1:] == [b"G 901 1 x"]


def test_the_bound_is_one_of_all_ops_of_a_call(engine):
    s, other = Session(engine, "n1"), Session(engine, "n2")
    names = ["x%d" % i for i in range(3)]
    for name in names:
        assert s.acquire(name, units=100, limit=100) == 1
        other.call(*[("a", name, i, 1, 100, 0, "m", 1) for i in range(100)])
    assert s.call(*[("r", name, 100, 0) for name in names]) == [1, 1, 2]
    assert len(other.heard()) == 250 and s.beat()[1] == {b"x2"}
    assert s.one("t", "x2") == 1 and len(other.heard()) == 50


def test_done_reaches_the_queues_of_256_pairs_at_once(engine):
    s = Session(engine)
    s.acquire("x")
    for start in (0, 128):
        s.call(*[("a", "x", i, i + 1, i + 1, 0, "a", 1) for i in range(start, start + 128)])
    assert s.release("x") == 1
    assert len(s.heard()) == 1 and s.get("x") == [0, 0]


def commands_of(engine, do):
    """How many commands a function has Redis execute, in scripts too."""
    engine.client.ask("CONFIG", "RESETSTAT")
    do()
    stats = engine.client.info("commandstats")
    return {
        name[len("cmdstat_") :]: int(re.search(r"calls=(\d+)", text)[1])
        for name, text in stats.items()
        if "config" not in name and "info" not in name
    }


@pytest.mark.parametrize("explicit, kind", [(0, "m"), (1, "a")])
def test_grants_and_dones_cost_the_same_with_many_waiters(engine, explicit, kind):
    s = Session(engine)
    counts = []
    for waiters in (10, 3000):
        s.acquire("x")
        for start in range(0, waiters, 100):
            s.call(*[("a", "x", start + i, 1, 1, 0, kind, 1) for i in range(min(100, waiters - start))])
        counts.append(commands_of(engine, lambda: s.release("x", 1, explicit)))
        s.call(("r", "x", 1, 1), *[("a", "x", 9, 1, 1, 0, "n", 1)])
        s = Session(engine)
        s.reap_all(*[k for k in engine.hash("beat") if k.decode() != s.id])
    assert counts[0] == counts[1]


def test_a_call_for_names_that_nobody_waits_for_costs_few_commands(engine):
    s = Session(engine)
    acquire = [("a", "x%d" % i, 1, 1, 1, 9, "m", 1) for i in range(100)]
    release = [("r", "x%d" % i, 1, 1) for i in range(100)]
    assert commands_of(engine, lambda: s.call(*acquire)) == {
        "evalsha": 1, "hget": 2, "hmget": 2, "hlen": 1, "hgetall": 1, "exists": 1, "hset": 2,
    }  # fmt: skip
    assert commands_of(engine, lambda: s.call(*release)) == {
        "evalsha": 1, "hget": 1, "hmget": 2, "hlen": 1, "hgetall": 1, "exists": 1, "hdel": 2,
    }  # fmt: skip


def test_many_names_are_looked_at_when_somebody_waits_for_one(engine):
    s, other = Session(engine, "n1"), Session(engine, "n2")
    names = ["x%d" % i for i in range(60)]
    s.call(*[("a", name, 1, 1, 1, 0, "n", 1) for name in names])
    assert other.acquire("x30", 7, kind="m") > 1
    assert other.heard() == []
    assert s.call(*[("r", name, 1, 1) for name in names]) == [1] * 60
    assert other.heard() == [b"G 7 1 x30"]
    assert other.release("x30") == 1
    # Also while the session that waits has ended.
    s.call(*[("a", name, 1, 1, 1, 0, "n", 1) for name in names])
    other.acquire("x31", 8, kind="a")
    engine.client.ask("HSET", engine.key("s:" + other.id), "state", "ended")
    engine.client.ask("HDEL", engine.key("node"), "n2")
    assert s.call(*[("b", name, 1) if i else ("r", name, 1, 1) for i, name in enumerate(names)]) == [1] * 60
    assert other.heard() == [] and engine.client.ask("EXISTS", engine.key("k:x31")) == 0


def test_what_changes_nothing_writes_nothing(engine):
    s = Session(engine)
    s.acquire("x")
    s.acquire("x", 1, kind="m")
    s.acquire("y")
    ops = ("g", "x"), ("a", "x", 2, 1, 1, 0, "n", 1), ("a", "y", 3, 1, 1, 1, "m", 1), ("c", "x", "ms1/1", 9)
    assert commands_of(engine, lambda: s.call(*ops)).keys() & {"hset", "hdel", "hincrby", "zadd"} == set()


# ---- sessions, wrong ops, a full engine -----------------------------------------------------


def test_call_and_give_need_their_session(engine):
    s = Session(engine)
    s.acquire("x")
    opening = Session(engine, ready=False)
    before = snapshot(engine)
    for session in (s.id, "0" * 16):
        for script in ("call", "give"):
            assert engine.fails(script, session, "r", "x", 1) == "SESSION"
            assert engine.fails(script, session, "g", "x", "r", "x", 1) == "SESSION"
    assert engine.fails("call", opening.id, "a", "y", "nl1/1/0", 1) == "SESSION"
    assert engine.fails("call", opening.id, "g", "x") == "SESSION"
    assert snapshot(engine) == before
    assert opening.give(("g", "x")) == [[1, 0]]
    opening.ready()
    before = snapshot(engine)
    assert engine.fails("give", opening.id, "g", "x", "s", "x", 1) == "SESSION"
    assert engine.fails("give", opening.id, "w", "x", "ms1/1", 1, 1) == "SESSION"
    assert snapshot(engine) == before


@pytest.mark.parametrize("op", [
    ("z", "x"), ("g",), ("a", "x", "ms1/1/0"), ("a", "x", "msone/1/0", 1), ("a", "x", "ms1/", 1),
    ("a", "x", "ms1/1/-1", 1), ("a", "x", "ms1/1", 1), ("a", "x", "zs1/1/0", 1), ("a", "x", "mz1/1/0", 1),
    ("a", "x", "ms1/1/0 ", 1), ("r", "x", "y"), ("b", "x", "y"), ("r", "x"), ("c", "x", "ms1/1"),
])  # fmt: skip
def test_wrong_ops_change_nothing(engine, op):
    s = Session(engine)
    s.acquire("x")
    before = snapshot(engine)
    for first in ((), ("r", "x", 1), ("a", "y", "ns1/1/0", 1)):
        assert engine.fails("call", s.id, *first, *op) == "ERR"
    assert engine.fails("give", s.id, "a", "y", "ns1/1/0", 1) == "ERR", "give takes no acquisitions"
    assert snapshot(engine) == before


def test_a_full_engine_refuses_calls_as_a_whole_and_nothing_else(engine):
    s, other = Session(engine, "n1"), Session(engine, "n2")
    s.acquire("x")
    other.acquire("x", 1, kind="m")
    other.acquire("y")
    before = snapshot(engine)
    engine.client.ask("CONFIG", "SET", "maxmemory", "1mb")
    take = ("a", "z", "ns1/1/0", 1)
    for ops in (take, ("r", "x", 1), ("b", "x", 1, *take)):
        assert engine.fails("call", s.id, *ops) == "OOM"
    assert snapshot(engine) == before
    assert s.beat()[0] == 0
    assert s.give(("r", "x", 1, 1)) == [1] and other.heard() == [b"G 1 1 x"]
    new = Session(engine, "n2", last=other.id, told=[("s", "x", 1), ("s", "y", 1), ("w", "x", "ms1/1", 2, 9)])
    assert new.is_open and new.reap_all(other.id) == 1
    assert engine.run("grace", new.id, new.term) == 1
    assert new.give(("r", "x", 1, 0), ("c", "y", "ms1/1", 9), ("t", "y"), ("g", "x")) == [1, 0, 1, [1, 0]]
    assert s.leave() == 1
    engine.client.ask("CONFIG", "SET", "maxmemory", "0")


# ---- the engine's side ----------------------------------------------------------------------


def play(s, other):
    """A short story in which every script and every op has a part."""
    s.acquire("x")
    other.acquire("x", 1, kind="m")
    other.acquire("x", 2, kind="a")
    assert s.release("x") == 1 and other.release("x") == 1
    s.call(("a", "y", 1, 1, 1, 0, "m", 1), ("a", "y", 2, 1, 1, 0, "m", 0), ("a", "y", 3, 1, 1, 0, "a", 0))
    s.call(("c", "y", "ml1/1", 2), ("g", "y"), ("h", "y"), ("t", "y"))
    s.beat()


def test_all_scripts_run_with_the_recommended_acl():
    with cluster_engine.Engine() as e:
        e.client.ask("ACL", "SETUSER", "counterd", "on", ">secret", *cluster_engine.ACL.split())
        e.load("counterd", "secret")
        admin = e.server.client()
        s, other = Session(e, "n1"), Session(e, "n2")
        e.run("grace", s.id, s.term)
        play(s, other)
        new = Session(e, "n1", last=s.id, told=[("s", "y", 1), ("w", "y", "al1/1", 3, 2)])
        assert list(new.ended) == [s.id.encode()] and new.reap_all(s.id) == 1
        new.call(*[("a", "z%d" % i, 1, 1, 1, 0, "n", 1) for i in range(128)])
        e.run("look")
        other.reap_all(new.id)
        other.leave()
        listener = e.server.client("counterd", "secret")
        listener.subscribe(e.prefix + "to:x")
        e.client = admin
        e.nothing_left()
        with pytest.raises(resp.Error, match="NOPERM"):
            listener.ask("SUBSCRIBE", "other")
        assert "NOPERM" not in e.server.log


def test_another_prefix_is_another_cluster(engine):
    s = Session(engine)
    s.acquire("x")
    before = snapshot(engine)
    sha = engine.shas["open"]
    prefix, session = "{other}:", "e" * 16
    assert engine.client.ask("EVALSHA", sha, 1, prefix, session, "n1", "w", "d", 9000, 0, "-")[0] == b"OPEN"
    engine.client.ask("EVALSHA", engine.shas["ready"], 1, prefix, session)
    op = ("a", "x", "nl1/1/0", 1)
    assert engine.client.ask("EVALSHA", engine.shas["call"], 1, prefix, session, *op) == [1]
    after = snapshot(engine)
    assert {k: v for k, v in after.items() if not k.startswith(b"{other}")} == before
    engine.client.ask("UNLINK", *[k for k in after if k.startswith(b"{other}")])


def test_a_replica_refuses_every_script(engine):
    s = Session(engine)
    engine.client.ask("REPLICAOF", "127.0.0.1", 1)
    engine.client.ask("CONFIG", "SET", "replica-serve-stale-data", "yes")
    for script, arguments in (("call", ("g", "x")), ("beat", ()), ("ready", ())):
        assert engine.fails(script, s.id, *arguments) == "READONLY"
    engine.client.ask("REPLICAOF", "NO", "ONE")


def test_the_build_embeds_these_scripts():
    path = os.path.join(os.environ.get("TOP_BUILDDIR") or ".", "src/cluster/scripts.c")
    if not os.path.exists(path):
        pytest.skip("scripts.c is not built")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    for name in cluster_engine.NAMES:
        body = re.search(r"text_%s\[\] =\n(.*?)\n    \"\";" % name, text, re.S)[1]
        lines = re.findall(r'^    "(.*)\\n"$', body, re.M)
        embedded = "".join(re.sub(r"\\(.)", r"\1", line) + "\n" for line in lines)
        assert embedded.encode() == cluster_engine.text_of(name)
        first, second = embedded.splitlines()[:2]
        assert first == ("#!lua" if name == "call" else "#!lua flags=allow-oom")
        assert second.startswith("-- %s: " % name)


# ---- random calls ----------------------------------------------------------------------------


class Player:
    """Several nodes that call the scripts at random, with what their sessions should have."""

    def __init__(self, engine, seed):
        self.engine = engine
        self.random = random.Random(seed)
        self.nodes = {}
        self.serial = 0
        self.names = ["x", "y:1", "z", b"\xff z"]
        for node in ("n1", "n2", "n3"):
            self.open(node)

    def open(self, node):
        """The node opens anew and tells what it has."""
        old = self.nodes.get(node)
        units, waits = (old.units, old.waits) if old else ({}, {})
        told = [("s", name, n) for name, n in units.items() if n]
        told += [("w", name, of_class, i, place) for i, (name, of_class, place) in waits.items()]
        s = Session(self.engine, node, last=old.id if old else "-", ready=False)
        assert s.is_open, s.answer
        s.units, s.waits = units, waits
        self.nodes[node] = s
        while told:
            some, told = told[:40], told[40:]
            assert s.give(*some) == [1] * len(some)
        if old:
            self.take_messages(old)
        self.take_messages(s)
        for ended in s.ready():
            s.reap_all(ended)
            self.take_all()

    def take_messages(self, s):
        """Does what a node does with its messages."""
        known = s is self.nodes[s.node]
        for message in s.heard():
            kind, number, rest = message.split(b" ", 2) if message[:1] != b"B" else (b"B", b"", b"")
            if kind == b"G" and known:
                _, name = rest.split(b" ", 1)
                units = int(rest.split(b" ", 1)[0])
                del s.waits[int(number)]
                s.units[name] = s.units.get(name, 0) + units
            elif kind == b"D" and known:
                for i in [i for i, w in s.waits.items() if w[0] == rest and w[1][0] == "a" and w[2] <= int(number)]:
                    del s.waits[i]

    def take_all(self):
        for s in self.nodes.values():
            self.take_messages(s)

    def op(self, s):
        r = self.random
        name = resp.as_bytes(r.choice(self.names))
        what = r.random()
        if what < 0.5:
            self.serial += 1
            units, limit = r.choice([(1, 1), (1, 3), (2, 3), (1, 4)])
            return ("a", name, self.serial, units, limit, r.choice([0, 0, 4, 9]), r.choice("nma"), r.choice([0, 1]))
        if what < 0.8 and s.units.get(name):
            return ("r", name, r.randint(1, s.units[name]), r.choice([0, 1]))
        if what < 0.9 and s.waits:
            i = r.choice(list(s.waits))
            return ("c", s.waits[i][0], s.waits[i][1], i)
        return (r.choice("ght"), name)

    def call(self):
        s = self.random.choice(list(self.nodes.values()))
        ops, seen = [], set()
        for _ in range(self.random.choice([1, 1, 2, 5, 20])):
            op = self.op(s)
            if op[0] == "r" and op[1] in seen or op[0] == "c" and op[3] in seen:
                continue
            seen.add(op[1] if op[0] == "r" else op[3] if op[0] == "c" else None)
            ops.append(op)
        answers = s.call(*ops)
        for op, answer in zip(ops, answers):
            name = op[1]
            if op[0] == "a" and answer == 1:
                s.units[name] = s.units.get(name, 0) + op[3]
            elif op[0] == "a" and answer > 1:
                s.waits[op[2]] = (name, "%s%s%d/%d" % (op[6], "ls"[op[7]], op[3], op[4]), answer)
            elif op[0] == "r":
                assert answer in (1, 2), (op, answer)
                s.units[name] -= op[2]
            elif op[0] == "c" and answer == 1:
                s.waits.pop(op[3], None)
        self.take_all()

    def compare(self):
        """What the nodes have is what the engine counts for them."""
        self.engine.check()
        for s in self.nodes.values():
            mine = {name: n for name, n in s.units.items() if n}
            assert {n: int(v) for n, v in self.engine.hash("u:" + s.id).items()} == mine
            counts = {}
            for name, of_class, _ in s.waits.values():
                field = of_class.encode() + b":" + name
                counts[field] = counts.get(field, 0) + 1
            assert {f: int(v) for f, v in self.engine.hash("w:" + s.id).items()} == counts
        assert self.engine.client.ask("EXISTS", self.engine.key("more")) == 0


@pytest.mark.parametrize("number", range(int(os.environ.get("T_RUNS") or 3)))
def test_random_calls_add_up(engine, number):
    seed = SEED + number
    print("seed %d (T_SEED sets it)" % seed)
    player = Player(engine, seed)
    for step in range(250):
        what = player.random.random()
        if what < 0.04:
            player.open(player.random.choice(list(player.nodes)))
        elif what < 0.06:
            engine.client.ask("HSET", engine.key("meta"), "grace", 1)
        elif what < 0.1:
            engine.end_grace()
        else:
            player.call()
        if step % 5 == 0:
            player.compare()
    player.compare()


if __name__ == "__main__":
    tap.main(__file__)
