"""
Sessions in a real Redis: open, what a session tells again, ready, beat, reap, grace, leave and look, to
src/cluster/engine.md. Added up as in test_cluster_scripts.py.
"""

import tap
import pytest

import cluster_engine
import redis_servers
import resp
from cluster_engine import Session, engine, held, redis_for_tests, snapshot

pytestmark = pytest.mark.skipif(not redis_servers.have_redis(), reason="redis-server is not installed")


# ---- open -------------------------------------------------------------------------------------


def test_the_first_open_begins_grace():
    with cluster_engine.Engine() as e:
        s = Session(e, "n1", lease=7000, seq=41, ready=False)
        info = dict(e.client.info("server"), **e.client.info("replication"))
        term = (info["run_id"] + ":" + info["master_replid"]).encode()
        assert s.answer == [b"OPEN", term, 1]
        assert e.hash("meta") == {
            b"version": b"1", b"term": term, b"lease": b"7000", b"grace": b"1", b"seq": b"41",
        }  # fmt: skip
        assert e.hash("node") == {b"n1": s.id.encode()}
        assert e.hash("beat") == {s.id.encode(): b"1"}
        one = e.hash("s:" + s.id)
        assert one[b"state"] == b"opening" and one[b"where"] == b"boot/ns/1/n1" and one[b"digest"] == b"d"
        assert b"last" not in one and one[b"prev"] == b""
        e.check()


def test_a_second_open_in_the_term_has_the_grace_of_the_first(engine):
    assert Session(engine).answer[2] == 0
    engine.client.ask("HSET", engine.key("meta"), "grace", 1)
    assert Session(engine, "n2").answer[2] == 1


def test_seq_grows_to_the_highest_that_a_node_has_seen(engine):
    Session(engine, seq=0)
    assert engine.meta("seq") == b"1"
    Session(engine, seq=1000)
    assert engine.meta("seq") == b"1000"
    s = Session(engine, seq=7)
    assert engine.meta("seq") == b"1000"
    s.acquire("x")
    assert s.acquire("x", 1, kind="m") == 1001


def test_another_version_is_refused(engine):
    engine.client.ask("HSET", engine.key("meta"), "version", "2")
    engine.client.ask("HSET", engine.key("meta"), "term", "gone")
    before = snapshot(engine)
    assert Session(engine).answer == [b"VERSION", b"2"]
    assert snapshot(engine) == before
    engine.client.ask("HSET", engine.key("meta"), "version", "1")


def test_a_restart_with_data_is_another_term_with_grace():
    with cluster_engine.Engine(persistent=True) as e:
        s = Session(e)
        assert e.run("grace", s.id, s.term) == 1 and e.meta("grace") is None
        s.acquire("x")
        e.server.restart()
        e.load()
        assert e.hash("units") == {b"x": b"1"}
        assert e.fails("beat", s.id) == "TERM"
        again = Session(e, last=s.id, told=[("s", "x", 1)])
        assert again.answer[0] == b"OPEN" and again.answer[2] == 1 and again.term != s.term
        assert e.meta("grace") == b"1"
        assert e.hash("units") == {b"x": b"1"}
        e.check()


def test_a_new_term_begins_grace_also_where_open_refuses(engine):
    s = Session(engine)
    engine.client.ask("HSET", engine.key("meta"), "term", "gone")
    engine.client.ask("HSET", engine.key("s:" + s.id), "reaped", 1)
    assert Session(engine, last=s.id).answer == [b"REAPED"]
    assert engine.meta("grace") == b"1" and engine.meta("term") == s.term


def test_last_that_is_unknown_is_reaped_but_not_in_grace(engine):
    assert Session(engine, last="0" * 16).answer == [b"REAPED"]
    assert engine.hash("node") == {}
    engine.client.ask("HSET", engine.key("meta"), "grace", 1)
    assert Session(engine, last="0" * 16).is_open


def test_last_that_another_node_has_begun_to_reap_is_reaped_also_in_grace(engine):
    s, other = Session(engine, "n1"), Session(engine, "n2")
    s.call(*[("a", "x%d" % i, 0, 1, 1, 0, "n", 1) for i in range(128)])
    s.call(*[("a", "y%d" % i, 0, 1, 1, 0, "n", 1) for i in range(128)])
    assert other.reap(s.id, s.beat_now)[0] > 0
    assert Session(engine, "n1", last=s.id).answer == [b"REAPED"]
    engine.client.ask("HSET", engine.key("meta"), "grace", 1)
    assert Session(engine, "n1", last=s.id).answer == [b"REAPED"]
    assert Session(engine, "n1", last="-").is_open


def test_a_namesake_that_lives_is_named(engine):
    s = Session(engine, "n1", where="boot/ns/1/100", lease=3000)
    answer = Session(engine, "n1", where="boot/ns/2/200", lease=5000).answer
    assert answer == [b"NODE", s.id.encode(), b"boot/ns/1/100", s.beat_now, 3000]
    old = s.beat_now
    s.beat()
    answer = Session(engine, "n1", where="boot/ns/2/200", over=[(s.id, old)]).answer
    assert answer[:2] == [b"NODE", s.id.encode()] and answer[3] == s.beat_now != old
    assert engine.hash("node")[b"n1"] == s.id.encode() and s.acquire("x") == 1


@pytest.mark.parametrize("how", ["beat", "-"])
def test_a_namesake_whose_beat_stands_still_is_ended(engine, how):
    s = Session(engine, "n1", where="boot/ns/1/100")
    s.acquire("x")
    b = s.beat_now if how == "beat" else "-"
    new = Session(engine, "n1", where="boot/ns/2/200", over=[(s.id, b)])
    assert new.is_open and new.ended == {s.id.encode(): s.beat_now}
    assert engine.fails("call", s.id, "g", "x") == "SESSION"
    assert new.get("x") == [1, 0]


def test_another_lease_is_refused_while_sessions_of_others_are_not_over(engine):
    one, two = Session(engine, "n1", lease=3000), Session(engine, "n2", lease=3000)
    gone = Session(engine, "n3", lease=3000)
    Session(engine, "n4", lease=3000, over=[(gone.id, gone.beat_now)])
    four = engine.hash("node")[b"n4"]
    answer = Session(engine, "n5", lease=4000).answer
    assert answer[:2] == [b"LEASE", 3000]
    pairs = dict(zip(answer[2::2], answer[3::2]))
    assert pairs == {one.id.encode(): b"2", two.id.encode(): b"2", four: b"2"}
    answer = Session(engine, "n5", lease=4000, over=[(one.id, 2), (two.id, 1)]).answer
    assert set(answer[2::2]) == {two.id.encode(), four}
    assert one.acquire("x") == 1, "no session is ended where open refuses"
    assert engine.meta("lease") == b"3000"
    assert Session(engine, "n5", lease=4000, over=[(one.id, 2), (two.id, 2), (four, 2)]).is_open
    assert engine.meta("lease") == b"4000"
    assert engine.fails("beat", one.id) == "SESSION"
    assert list(engine.hash("node")) == [b"n5"]


def test_a_node_alone_may_change_the_lease(engine):
    Session(engine, "n1", lease=3000)
    assert Session(engine, "n1", lease=4000).is_open
    assert engine.meta("lease") == b"4000"


def test_a_session_whose_beat_has_changed_is_not_ended(engine):
    other = Session(engine, "n2")
    old = other.beat_now
    other.beat()
    Session(engine, "n1", over=[(other.id, old)])
    assert other.acquire("x") == 1


def test_open_ends_the_session_of_the_same_process_and_keeps_what_it_has(engine):
    s = Session(engine)
    s.acquire("x")
    s.acquire("x", 1, kind="m")
    new = Session(engine, last=s.id, ready=False)
    assert new.is_open
    assert engine.hash("s:" + s.id)[b"state"] == b"ended"
    assert engine.hash("s:" + new.id)[b"prev"] == s.id.encode()
    assert engine.hash("node") == {b"n1": new.id.encode()}
    assert engine.run("give", new.id, "g", "x") == [[1, 1]]


def test_the_user_is_allowed_each_command_or_open_names_it(engine):
    commands = [word[1:] for word in cluster_engine.ACL.split() if word.startswith("+")]
    assert len(commands) == 25
    for number, command in enumerate(commands):
        if command in ("evalsha", "hget"):
            continue  # without evalsha nothing can be asked
        before = snapshot(engine)
        user = "u%d" % number
        engine.client.ask("ACL", "SETUSER", user, "on", ">pw", *cluster_engine.ACL.split(), "-" + command)
        client = engine.server.client(user, "pw")
        answer = client.ask("EVALSHA", engine.shas["open"], 1, engine.prefix, "f" * 16, "n", "w", "d", 10000, 0, "-")
        assert answer == [b"ACL", command.encode()]
        assert snapshot(engine) == before


def test_keys_and_channels_that_are_not_allowed_are_named(engine):
    for wrong, command in (("resetkeys ~other:*", b"evalsha"), ("resetchannels &other:*", b"subscribe")):
        engine.client.ask("ACL", "SETUSER", "u", "on", ">pw", *cluster_engine.ACL.split(), *wrong.split())
        client = engine.server.client("u", "pw")
        try:
            answer = client.ask(
                "EVALSHA", engine.shas["open"], 1, engine.prefix, "f" * 16, "n", "w", "d", 10000, 0, "-"
            )
        except resp.Error as e:  # Redis checks the key of EVALSHA itself
            assert e.word == "NOPERM" and command == b"evalsha"
        else:
            assert answer == [b"ACL", command]


# ---- ready, beat, grace, leave, look ---------------------------------------------------------


def test_ready_makes_an_opening_session_live(engine):
    s = Session(engine, ready=False)
    assert engine.fails("call", s.id, "g", "x") == "SESSION"
    assert engine.fails("beat", s.id) == "SESSION"
    assert s.ready() == {} and s.beat_now == b"2"
    assert s.call(("g", "x")) == [[0, 0]]
    new = Session(engine, last=s.id, ready=False)
    assert engine.hash("s:" + new.id)[b"last"] == s.id.encode()
    assert engine.fails("ready", s.id) == "SESSION" and engine.fails("ready", "0" * 16) == "SESSION"
    assert new.ready() == {s.id.encode(): b"2"}
    assert b"last" not in engine.hash("s:" + new.id)
    assert new.reap_all(s.id) == 1
    assert new.ready() == {}, "a session that was reaped is not listed"


def test_ready_lists_all_ended_sessions_of_the_node_and_only_these(engine):
    other = Session(engine, "n2")
    ids = [Session(engine, "n1", ready=i % 2 == 0).id for i in range(4)]
    over = Session(engine, "n3")
    Session(engine, "n4", over=[(ids[-1], "-"), (over.id, "-")])
    assert set(Session(engine, "n1").ended) == {i.encode() for i in ids}
    assert set(Session(engine, "n3").ended) == {over.id.encode()}
    other.beat()


def test_beat_proves_life_and_shows_all_beats(engine):
    s, other = Session(engine, "n1"), Session(engine, "n2")
    ended = Session(engine, "n3").id.encode()
    new = Session(engine, "n3", ready=False)
    assert s.beat() == (
        0, set(),
        {s.id.encode(): b"3", other.id.encode(): b"2", ended: b"2", new.id.encode(): b"1"},
    )  # fmt: skip
    assert s.heard() == [b"B 3"] and other.heard() == []
    engine.client.ask("HSET", engine.key("meta"), "grace", 1)
    assert s.beat()[0] == 1


def test_give_proves_the_life_of_an_opening_session(engine):
    other, s = Session(engine, "n1"), Session(engine, "n2", ready=False)
    for n in (2, 3):
        assert s.give() == [] and s.beat_now == b"%d" % n
    s.give(("s", "x", 1))
    assert s.beat_now == b"4"
    s.ready()
    s.give(("g", "x"))
    assert s.beat_now == b"5", "a live session has beats for that"
    s.give(("r", "x", 1, 1))
    other.leave()


def test_beat_tells_a_deaf_node(engine):
    s = Session(engine)
    s.deafen()
    assert engine.fails("beat", s.id) == "DEAF"


def test_beat_tells_another_term(engine):
    s = Session(engine)
    engine.client.ask("HSET", engine.key("meta"), "term", "gone")
    before = snapshot(engine)
    assert engine.fails("beat", s.id) == "TERM"
    assert snapshot(engine) == before and s.heard() == []


def test_beat_tells_an_engine_that_evicts(engine):
    s = Session(engine)
    before = snapshot(engine)
    for policy in ("allkeys-lru", "allkeys-random", "volatile-ttl", "noeviction"):
        engine.client.ask("CONFIG", "SET", "maxmemory-policy", policy)
        if policy.startswith("allkeys"):
            assert engine.fails("beat", s.id) == "POLICY"
            assert snapshot(engine) == before and s.heard() == []
        else:
            s.beat()
            s.heard()


def test_beat_of_a_session_that_is_not_live(engine):
    s = Session(engine)
    Session(engine)
    for session in (s.id, "0" * 16):
        assert engine.fails("beat", session) == "SESSION"
    assert s.heard() == []


def test_beat_shows_at_most_100_of_more(engine):
    s = Session(engine)
    engine.client.ask("SADD", engine.key("more"), *["x%d" % i for i in range(150)])
    seen = s.beat()[1]
    assert len(seen) == 100
    assert s.give(*[("t", name) for name in seen]) == [1] * 100
    assert len(s.beat()[1]) == 50


def test_grace_ends_only_in_its_term(engine):
    s = Session(engine)
    engine.client.ask("HSET", engine.key("meta"), "grace", 1)
    assert engine.run("grace", s.id, "other:term") == 0 and engine.meta("grace") == b"1"
    engine.client.ask("HSET", engine.key("meta"), "term", "gone")
    assert engine.run("grace", s.id, "gone") == 0, "the engine has begun another term"
    assert engine.run("grace", s.id, s.term) == 0, "nobody has opened in this term"
    engine.client.ask("HSET", engine.key("meta"), "term", s.term)
    assert engine.run("grace", s.id, s.term) == 1 and engine.meta("grace") is None
    assert engine.run("grace", s.id, s.term) == 1
    opening = Session(engine, ready=False)
    for session in (s, opening):
        assert engine.fails("grace", session.id, s.term) == "SESSION"


def test_leave_needs_empty_hands(engine):
    s = Session(engine)
    s.acquire("x")
    s.acquire("x", 1, kind="m")
    assert engine.fails("leave", s.id) == "HOLDS"
    s.one("c", "x", "ms1/1", 1)
    assert engine.fails("leave", s.id) == "HOLDS"
    s.release("x")
    s.acquire("y")
    s.acquire("z")
    s.release("y")
    s.acquire("z", 2, kind="m")
    s.release("z", 1, 0)
    assert engine.fails("leave", s.id) == "HOLDS", "the wait was granted"
    s.release("z", 1, 0)
    other = Session(engine, "n2")
    other.acquire("x")
    s.acquire("x", 3, kind="m")
    assert engine.fails("leave", s.id) == "HOLDS", "a wait alone holds it, too"
    s.one("c", "x", "ms1/1", 3)
    other.release("x")
    assert other.leave() == 1
    assert s.leave() == 1
    assert engine.fails("leave", s.id) == "SESSION"
    assert engine.keys() == [engine.key("meta")]


def test_leave_of_an_ended_session_spares_the_new_one(engine):
    s = Session(engine)
    new = Session(engine)
    assert s.leave() == 1
    assert engine.hash("node") == {b"n1": new.id.encode()} and new.acquire("x") == 1


def test_look_shows_each_session(engine):
    s = Session(engine, "n1", lease=3000)
    s.call(("a", "x", 0, 3, 9, 0, "n", 1), ("a", "y", 0, 9, 9, 0, "n", 1), ("a", "y", 1, 1, 9, 0, "m", 1))
    new = Session(engine, "n1", lease=3000, digest="e", ready=False)
    other = Session(engine, "n2", lease=3000)
    other.reap(s.id, "wrong")
    before = snapshot(engine)
    seen = {row[0].decode(): row[1:] for row in engine.run("look")}
    assert seen == {
        s.id: [b"n1", b"ended", b"2", b"d", 2, 1, -1, 3000, 0],
        new.id: [b"n1", b"opening", b"1", b"e", 0, 0, -1, 3000, 0],
        other.id: [b"n2", b"live", b"2", b"d", 0, 0, -1, 3000, 0],
    }
    assert snapshot(engine) == before
    engine.client.ask("HSET", engine.key("s:" + s.id), "reaped", 1)
    assert [row[9] for row in engine.run("look") if row[0].decode() == s.id] == [1]


# ---- what a session tells again -------------------------------------------------------------


def test_told_units_move_from_the_ended_sessions(engine):
    first = Session(engine, "n1")
    first.acquire("x", units=3, limit=9)
    first.acquire("y", units=2, limit=9)
    other = Session(engine, "n2")
    other.acquire("x", units=2, limit=9)
    second = Session(engine, "n1", last=first.id, ready=False)
    assert second.give(("s", "x", 1)) == [1]
    engine.check()
    third = Session(engine, "n1", last=first.id, ready=False)
    assert third.give(("s", "x", 4), ("s", "y", 1), ("s", "z", 5), ("g", "x"), ("h", "x")) == [
        1, 1, 1, [6, 0], [b"n1", 4, 0, b"n2", 2, 0],
    ]  # fmt: skip
    assert engine.hash("units") == {b"x": b"6", b"y": b"2", b"z": b"5"}
    assert [held(engine, s, "x") for s in (first, second, third, other)] == [0, 0, 4, 2]
    assert [held(engine, s, "y") for s in (first, third)] == [1, 1]
    assert set(third.ready()) == {first.id.encode(), second.id.encode()}
    third.reap_all(first.id)
    third.reap_all(second.id)
    assert engine.hash("units") == {b"x": b"6", b"y": b"1", b"z": b"5"}


def test_told_units_may_be_above_every_limit(engine):
    s = Session(engine, told=[("s", "x", 7)])
    assert s.acquire("x", limit=5) == 0 and s.get("x") == [7, 0]


def test_told_waits_move_with_their_places(engine):
    first = Session(engine, "n1")
    other = Session(engine, "n2")
    first.acquire("x")
    places = [first.acquire("x", i, kind="ma"[i % 2]) for i in range(6)]
    between = other.acquire("x", 1, kind="m")
    second = Session(engine, "n1", last=first.id, ready=False)
    told = [("w", "x", "%ss1/1" % "ma"[i % 2], i, places[i]) for i in (4, 2, 3)]
    assert second.give(("s", "x", 1), *told[:1]) == [1, 1]
    assert second.give(*told[1:], ("g", "x")) == [1, 1, [1, 7]]
    assert len(engine.hash("w:" + first.id)) == 2
    assert second.give(("w", "x", "ms1/1", 77, between + 5), ("g", "x")) == [1, [1, 8]], "only the rest is added"
    engine.check()
    second.ready()
    second.reap_all(first.id)
    assert second.get("x") == [1, 5]
    order = []
    while second.get("x")[1] > 0 or second.get("x")[0] > 0:
        holder = second if held(engine, second, "x") else other
        holder.release("x", 1, 0)
        order += [m.split()[1] for m in second.heard()] + [b"other" for m in other.heard()]
    assert order == [b"2", b"4", b"other", b"77", b"3"]


def test_told_again_queue_full_stays_exact(engine):
    s = Session(engine)
    s.acquire("x")
    place = s.acquire("x", 1, kind="m")
    new = Session(engine, last=s.id, told=[("s", "x", 1), ("w", "x", "ms1/1", 1, place)])
    assert new.get("x") == [1, 1]
    assert new.acquire("x", 2, maxqueue=3, kind="m") > 1
    assert new.acquire("x", 3, maxqueue=3, kind="m") == -1


def test_what_other_nodes_have_is_not_taken_over(engine):
    other = Session(engine, "n2")
    other.acquire("x", units=2, limit=9)
    Session(engine, "n2")
    s = Session(engine, "n1", told=[("s", "x", 1)])
    assert s.get("x") == [3, 0]


def test_a_session_that_another_node_has_ended_is_taken_over(engine):
    s = Session(engine, "n1")
    s.acquire("x")
    Session(engine, "n2", over=[(s.id, "-")])
    new = Session(engine, "n1", last=s.id, told=[("s", "x", 1)])
    assert new.get("x") == [1, 0] and list(new.ended) == [s.id.encode()]


# ---- reap ------------------------------------------------------------------------------------


def test_reap_needs_a_session_that_is_not_ended(engine):
    s, other = Session(engine, "n1"), Session(engine, "n2")
    s.acquire("x")
    ended = Session(engine, "n3").id
    opening = Session(engine, "n3", ready=False)
    before = snapshot(engine)
    for session in (ended, "0" * 16):
        assert engine.fails("reap", session, s.id, s.beat_now, "0") == "SESSION"
    assert snapshot(engine) == before
    assert opening.reap(s.id, s.beat_now) == [0, b"0", []]
    assert other.get("x") == [0, 0]


def test_reap_compares_the_beat(engine):
    s, other = Session(engine, "n1"), Session(engine, "n2")
    s.acquire("x")
    old = s.beat_now
    s.beat()
    before = snapshot(engine)
    for b in (old, "-", "", "99"):
        assert other.reap(s.id, b) == [0, b"0", []]
    assert snapshot(engine) == before


def test_reap_of_an_unknown_session_removes_its_beat(engine):
    s = Session(engine)
    engine.client.ask("HSET", engine.key("beat"), "0" * 16, 5)
    assert s.reap("0" * 16, "4") == [0, b"0", []]
    assert list(s.beat()[2]) == [s.id.encode()]


def test_reap_gives_back_all_and_hands_over(engine):
    s, other = Session(engine, "n1"), Session(engine, "n2")
    s.acquire("x")
    s.acquire("z")
    other.acquire("x", 1, kind="a")
    other.acquire("y")
    s.acquire("y", 2, kind="m")
    s.acquire("z", 3, kind="m")
    assert other.reap(s.id, s.beat_now) == [0, b"0", []]
    assert other.heard() == [b"G 1 1 x"], "as when a connection ends: no DONE"
    assert engine.fails("beat", s.id) == "SESSION"
    assert engine.hash("units") == {b"x": b"1", b"y": b"1"}
    assert other.get("y") == [1, 0] and s.heard() == []
    left = b"".join(engine.keys())
    assert s.id.encode() not in left and list(engine.hash("beat")) == [other.id.encode()]
    assert other.reap(s.id, "9") == [0, b"0", []]


def test_reap_hands_over_also_where_only_waits_went(engine):
    s, other = Session(engine, "n1"), Session(engine, "n2")
    other.acquire("x")
    s.acquire("x", 1, kind="m")
    other.acquire("x", 2, kind="a")
    engine.check()
    engine.client.ask("HDEL", engine.key("units"), "x")
    engine.client.ask("HDEL", engine.key("u:" + other.id), "x")
    other.reap_all(s.id)
    assert other.heard() == [b"G 2 1 x"]


def test_reap_goes_on_where_it_stopped(engine):
    s, other = Session(engine, "n1"), Session(engine, "n2")
    other.acquire("shared", units=5, limit=9)
    for start in range(0, 1200, 120):
        names = ["name %d" % i for i in range(start, start + 120)]
        s.call(*[("a", n, 1, 1, 1, 0, "n", 1) for n in names])
        s.call(*[("a", n, 2, 1, 1, 0, "m", 1) for n in names])
        other.call(*[("a", n, 3, 1, 1, 0, "m", 1) for n in names])
    s.acquire("shared", units=3, limit=9)
    b, cursor, lefts, grants, broken = s.beat_now, "0", [2401], 0, []
    while lefts[-1]:
        left, cursor, names = other.reap(s.id, b, cursor)
        assert len(set(names)) == len(names)
        broken += names
        assert lefts[-1] - left <= 500, "250 names, and what their hand overs dropped"
        lefts.append(left)
        engine.check()
        grants += len(other.heard())
    assert len(lefts) >= 6
    assert engine.client.ask("HGET", engine.key("units"), "shared") == b"5"
    assert set(broken) == set(engine.client.ask("SMEMBERS", engine.key("more"))) != set()
    broken = sorted(set(broken))
    for start in range(0, len(broken), 100):
        other.give(*[("t", name) for name in broken[start : start + 100]])
    assert not other.beat()[1], "what was broken off is said in full"
    assert grants + sum(m.startswith(b"G") for m in other.heard()) == 1200


def test_reaps_that_are_sent_together_go_on_one_behind_the_other(engine):
    s, other = Session(engine, "n1"), Session(engine, "n2")
    for start in range(0, 2000, 125):
        s.call(*[("a", "name %d" % i, 0, 1, 1, 0, "n", 1) for i in range(start, start + 125)])
    reap = ("EVALSHA", engine.shas["reap"], 1, engine.key(""), other.id, s.id, s.beat_now, "0")
    lefts = [answer[0] for answer in engine.client.pipeline([reap] * 6)]
    assert lefts == sorted(lefts, reverse=True) and len(set(lefts)) == 6, lefts
    assert lefts[-1] <= 2000 - 6 * 200, "each gives back another part"
    other.reap_all(s.id)
    assert other.reap(s.id, s.beat_now) == [0, b"0", []], "one that comes later does nothing"
    other.leave()
    engine.nothing_left()


@pytest.mark.parametrize("entries", [1, 100000])
def test_reap_of_hashes_in_each_encoding(entries):
    with cluster_engine.Engine(hash_max_listpack_entries=entries) as e:
        s, other = Session(e, "n1"), Session(e, "n2")
        e.end_grace()
        for start in range(0, 1000, 100):
            names = ["n%d" % i for i in range(start, start + 100)]
            s.call(*[("a", n, 1, 1, 1, 0, "n", 1) for n in names[:8]])
            s.call(*[("a", n, 1, 1, 1, 0, "n", 1) for n in names[8:]])
        for i in range(300):
            s.acquire("n%d" % i, 5, kind="m")
        calls = other.reap_all(s.id)
        assert calls >= 4
        e.check()
        other.leave()
        e.nothing_left()


def test_reap_of_its_own_node_does_not_mark(engine):
    s = Session(engine)
    s.call(*[("a", "x%d" % i, 0, 1, 1, 0, "n", 1) for i in range(250)])
    s.call(*[("a", "y%d" % i, 0, 1, 1, 0, "n", 1) for i in range(250)])
    new = Session(engine, last=s.id)
    assert new.reap(s.id, s.beat_now)[0] > 0
    assert b"reaped" not in engine.hash("s:" + s.id)


def test_reap_of_a_session_that_is_opening_marks_its_last(engine):
    """A node's new session is reaped before it is ready: what it was live in before must not count as kept."""
    s, other = Session(engine, "n1"), Session(engine, "n2")
    s.acquire("x")
    opening = Session(engine, "n1", last=s.id, ready=False)
    other.reap_all(opening.id)
    assert engine.hash("s:" + s.id)[b"reaped"] == b"1"
    assert Session(engine, "n1", last=s.id).answer == [b"REAPED"]


def test_reap_ends_a_session_that_opens_on_what_is_reaped(engine):
    s, other = Session(engine, "n1"), Session(engine, "n2")
    s.acquire("x")
    opening = Session(engine, "n1", last=s.id, ready=False)
    other.reap_all(s.id)
    assert engine.fails("ready", opening.id) == "SESSION"
    assert b"n1" not in engine.hash("node")


def test_reap_ends_a_session_that_opens_on_the_last_of_what_is_reaped(engine):
    s, other = Session(engine, "n1"), Session(engine, "n2")
    first = Session(engine, "n1", last=s.id, ready=False)
    second = Session(engine, "n1", last=s.id, ready=False)
    other.reap_all(first.id)
    assert engine.fails("ready", second.id) == "SESSION"


def test_reap_spares_sessions_that_do_not_rest_on_what_is_reaped(engine):
    s, other = Session(engine, "n1"), Session(engine, "n2")
    live = Session(engine, "n1", last=s.id)
    other.reap_all(s.id)
    assert live.acquire("x") == 1
    fresh = Session(engine, "n1", last="-", ready=False)
    other.reap_all(live.id)
    assert fresh.ready() == {} and fresh.get("x") == [0, 0]


def test_reap_does_not_make_an_unknown_last_known(engine):
    s, other = Session(engine, "n1"), Session(engine, "n2")
    engine.client.ask("HSET", engine.key("meta"), "grace", 1)
    opening = Session(engine, "n1", last="0" * 16, ready=False)
    other.reap_all(opening.id)
    assert engine.client.ask("EXISTS", engine.key("s:" + "0" * 16)) == 0
    engine.end_grace()
    s.leave()


def test_reap_in_grace_hands_over_loose_only(engine):
    s, other = Session(engine, "n1"), Session(engine, "n2")
    for strict in (0, 1):
        s.acquire("x%d" % strict, strict=strict)
        other.acquire("x%d" % strict, 1, kind="m", strict=strict)
    engine.client.ask("HSET", engine.key("meta"), "grace", 1)
    other.reap_all(s.id)
    assert other.heard() == [b"G 1 1 x0"]
    engine.end_grace()
    other.one("t", "x1")
    assert other.heard() == [b"G 1 1 x1"]


if __name__ == "__main__":
    tap.main(__file__)
