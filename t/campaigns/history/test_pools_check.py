"""The checker of histories of pools, on histories made by hand: good ones, and bad ones for each rule."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "system"))

import tap

import pools_check

POOLS = """
# pools of all histories here
pool name=plain queue_max=2 on_fail=free
member pool=plain name=p0 kind=a
member pool=plain name=p1 kind=b
pool name=wash queue_max=2 on_return=dirty
member pool=wash name=w0
pool name=frail queue_max=2
member pool=frail name=f0
pool name=hardy queue_max=2 on_crash=ok
member pool=hardy name=h0
pool name=web kind=joined queue_max=2
"""


def take(conn, call, ret, answer, pool="plain", more="", what="use", count=1, timeout=0):
    """A line; `answer` is a word, or members with fences, `p0:1 p1:2`. ret: 0 if unknown."""
    words = ["take conn=%d call=%d" % (conn, call)] + (["ret=%d" % ret] if ret else [])
    words.append("pools=%s for=%s count=%d timeout=%d %s" % (pool, what, count, timeout, more))
    if ":" in answer:
        words.append("answer=taken in=%s" % pool.split(",")[0])
        words += ["hold=" + hold for hold in answer.split()]
    else:
        words.append("answer=" + answer)
    return " ".join(words)


def waits(conn, call, seen, ret, answer, timeout=1000, more="", **other):
    """A take that surely waited from `seen` on."""
    return take(conn, call, ret, answer, timeout=timeout, more="seen=%d %s" % (seen, more), **other)


def returns(conn, call, ret, fence, answer="returned", how="ok"):
    what = "fence=%d how=%s answer=%s" % (fence, how, answer)
    return "return conn=%d call=%d ret=%d %s" % (conn, call, ret, what)


def ends(conn, call, ret, how):
    return "end conn=%d call=%d %s how=%s" % (conn, call, "ret=%d" % ret if ret else "", how)


def sets(call, ret, member, state, now=0, pool="frail"):
    what = "pool=%s member=%s state=%s now=%d" % (pool, member, state, now)
    return "set conn=90 call=%d ret=%d %s" % (call, ret, what)


def joins(conn, call, ret, member, verb="join", answer="ok"):
    return "%s conn=%d call=%d ret=%d pool=web member=%s answer=%s" % (verb, conn, call, ret, member, answer)


def verdict(lines):
    """The rule that a history breaks, or ""."""
    try:
        pools_check.check_lines(POOLS.splitlines() + list(lines))
    except pools_check.Bad as e:
        return str(e).split(":")[0]
    return ""


def good(*lines):
    assert verdict(lines) == "", lines


def bad(rule, *lines):
    assert verdict(lines) == rule, lines


def test_takes_and_returns_in_turn_are_good():
    good()
    good(take(1, 10, 20, "p0:1"), returns(1, 30, 40, 1), take(2, 50, 60, "p0:2"), ends(2, 70, 80, "quit"))
    good(take(1, 10, 20, "p0:1 p1:2", count=2), take(2, 30, 40, "timeout"), returns(1, 50, 60, 2))


def test_a_timeout_is_not_early():
    good(waits(1, 10, 12, 1010, "timeout"))
    bad("times", waits(1, 10, 12, 1009, "timeout"))


def test_members_fit_the_request():
    bad("answers", take(1, 10, 20, "p0:1", count=2))
    bad("answers", take(1, 10, 20, "p0:1 p0:2", count=2))
    good(take(1, 10, 20, "p0:1", more="member=p0"), take(2, 10, 20, "p1:2", more="with=kind=b"))
    bad("answers", take(1, 10, 20, "p1:1", more="member=p0"))
    bad("answers", take(1, 10, 20, "p1:1", more="with=kind=a"))
    bad("answers", take(1, 10, 20, "p0:1").replace("in=plain", "in=wash"))


def test_fences_grow():
    good(take(1, 10, 50, "p0:2"), take(2, 20, 30, "p1:1"))
    bad("fences", take(1, 10, 20, "p0:1"), take(2, 10, 20, "p1:1"))
    bad("fences", take(1, 10, 20, "p0:2"), take(2, 30, 40, "p1:1"))
    bad("fences", take(1, 10, 20, "w0:2", pool="wash"), take(2, 30, 40, "p1:1"))
    bad("fences", take(1, 10, 20, "p0:5"), take(2, 15, 90, "p1:6"), take(3, 30, 40, "f0:4", pool="frail"))


def test_a_member_has_one_holder():
    first = take(1, 10, 20, "p0:1")
    good(first, returns(1, 30, 90, 1), take(2, 25, 31, "p0:2"))
    bad("holders", first, take(2, 30, 40, "p0:2"))
    bad("holders", first, take(2, 30, 40, "p0:2"), returns(1, 41, 50, 1))
    good(first, ends(1, 35, 0, "reset"), take(2, 30, 40, "p0:2"))
    bad("holders", first, ends(1, 41, 0, "reset"), take(2, 30, 40, "p0:2"))
    # The first ends last of all.
    bad(
        "holders", first, returns(1, 90, 95, 1), take(2, 30, 91, "p0:2"), returns(2, 92, 93, 2),
        take(3, 40, 80, "p0:3"),
    )


def test_taking_a_member_away_ends_its_hold():
    first, second = take(1, 10, 20, "f0:1", pool="frail"), take(2, 30, 40, "f0:2", pool="frail")
    good(first, sets(25, 35, "f0", "free", now=1), second)
    bad("holders", first, sets(25, 35, "f0", "free"), second)
    bad("holders", first, sets(41, 45, "f0", "free", now=1), second)
    web = take(1, 10, 20, "s0:1", pool="web"), take(2, 30, 40, "s0:2", pool="web")
    good(joins(5, 1, 2, "s0"), web[0], joins(5, 25, 26, "s0", "drop"), joins(6, 27, 28, "s0"), web[1])
    good(joins(5, 1, 2, "s0"), web[0], ends(5, 25, 0, "reset"), joins(6, 27, 28, "s0"), web[1])
    bad("holders", joins(5, 1, 2, "s0"), web[0], joins(5, 41, 42, "s0", "drop"), web[1])


def test_a_joined_member_is_handed_out_while_it_is_there():
    held = take(1, 10, 20, "s0:1", pool="web")
    good(joins(5, 15, 30, "s0"), held)
    bad("lives", held)
    bad("lives", joins(5, 21, 30, "s0"), held)
    bad("lives", joins(5, 1, 2, "s0", answer="exists"), held)
    good(joins(5, 1, 2, "s0"), joins(5, 5, 11, "s0", "drop"), held)
    bad("lives", joins(5, 1, 2, "s0"), joins(5, 5, 9, "s0", "drop"), held)
    bad("lives", joins(5, 1, 2, "s0"), ends(5, 5, 9, "half"), held)
    good(joins(5, 1, 2, "s0"), ends(5, 5, 0, "close"), held)
    # When the name is joined again, the life before is over.
    bad(
        "lives", joins(5, 1, 2, "s0"), ends(5, 3, 0, "close"), joins(6, 4, 5, "s0"),
        joins(6, 6, 7, "s0", "drop"), held,
    )


def test_return_is_answered_as_the_hold_is():
    held = take(1, 10, 20, "p0:1")
    bad("answers", held, returns(1, 30, 40, 1, "not_taken"))
    bad("answers", held, returns(1, 30, 40, 1, "gone"))
    bad("answers", held, returns(1, 30, 40, 1), returns(1, 50, 60, 1))
    good(held, returns(1, 30, 40, 1), returns(1, 50, 60, 1, "not_taken"))
    bad("answers", held, returns(2, 30, 40, 1))
    bad("answers", returns(2, 30, 40, 7, "gone"))


def test_gone_is_said_when_somebody_took_it():
    held = take(1, 10, 20, "f0:1", pool="frail")
    good(held, sets(25, 35, "f0", "down", now=1), returns(1, 30, 40, 1))
    good(held, sets(25, 35, "f0", "down", now=1), returns(1, 30, 40, 1, "gone"))
    bad("answers", held, sets(25, 29, "f0", "down", now=1), returns(1, 30, 40, 1))
    bad("answers", held, sets(5, 9, "f0", "down", now=1), returns(1, 30, 40, 1, "gone"))
    bad("answers", held, sets(41, 42, "f0", "down", now=1), returns(1, 30, 40, 1, "gone"))
    good(held, sets(25, 29, "f0", "down"), returns(1, 30, 40, 1))


def test_the_oldest_waiter_comes_first():
    held = take(1, 1, 5, "p0:1"), returns(1, 40, 90, 1)
    young = waits(3, 30, 31, 50, "p0:2")
    bad("order", *held, waits(2, 10, 20, 95, "p0:3"), returns(3, 60, 61, 2), young)
    bad("order", *held, waits(2, 10, 20, 1200, "timeout"), young)
    bad("order", *held, waits(2, 10, 20, 1200, "timeout"), take(3, 30, 50, "p0:2"))
    bad("order", *held, waits(2, 10, 20, 95, "cancelled", more="left=60"), young)
    good(*held, waits(2, 10, 20, 60, "cancelled", more="left=45"), young)
    good(*held, waits(2, 10, 20, 0, "unknown"), ends(2, 60, 70, "half"), young)  # it may have had p1
    good(*held, waits(2, 10, 30, 1200, "timeout"), young)  # which of them was first?
    good(*held, waits(2, 10, 20, 1200, "timeout", more="member=p1"), young)
    good(*held, waits(2, 10, 20, 1200, "timeout", count=2), young)
    bad("order", *held, waits(2, 10, 20, 1200, "timeout", more="with=kind=a"), young)


def test_checks_come_behind_uses():
    held = take(1, 1, 5, "p0:1"), returns(1, 40, 90, 1)
    good(*held, waits(2, 10, 20, 1200, "timeout", what="check"), waits(3, 30, 31, 50, "p0:2"))
    bad(
        "order", *held, waits(2, 10, 20, 1200, "timeout", what="check"),
        waits(3, 30, 31, 50, "p0:2", what="check"),
    )
    bad("order", *held, waits(2, 10, 20, 1200, "timeout"), waits(3, 30, 31, 50, "p0:2", what="check"))


def test_one_whose_member_was_taken_away_waits_again():
    old, young = waits(2, 10, 20, 95, "f0:3", pool="frail"), waits(3, 30, 31, 50, "f0:2", pool="frail")
    lines = old, young, returns(3, 60, 61, 2)
    bad("order", *lines)
    good(sets(40, 70, "f0", "down", now=1), *lines)
    bad("order", sets(1, 9, "f0", "down", now=1), *lines)


def test_a_dirty_member_is_cleaned_first():
    used = take(1, 10, 20, "w0:1", pool="wash"), returns(1, 30, 40, 1)
    again = take(2, 100, 110, "w0:9", pool="wash")
    clean = take(3, 50, 60, "w0:2", pool="wash", what="clean")
    bad("dirty", *used, again)
    bad("dirty", *used, take(2, 100, 110, "w0:9", pool="wash", what="check"))
    good(*used, clean, returns(3, 70, 80, 2), again)
    bad("dirty", *used, clean, returns(3, 70, 80, 2, how="fail"), again)
    good(*used, clean, ends(3, 70, 80, "quit"), again)
    bad("dirty", *used, clean, ends(3, 70, 80, "half"), again)
    good(*used, sets(50, 60, "w0", "free", pool="wash"), again)
    good(*used, sets(15, 16, "w0", "free", pool="wash"), again)
    bad("dirty", *used, sets(1, 9, "w0", "free", pool="wash"), again)
    bad("dirty", *used, sets(50, 60, "w0", "down", pool="wash"), again)
    # Cleaned once; used again, it is dirty again.
    bad(
        "dirty", *used, clean, returns(3, 70, 80, 2), again, returns(2, 120, 130, 9),
        take(4, 140, 150, "w0:10", pool="wash"),
    )


def test_a_member_that_failed_is_dirty():
    used, again = take(1, 10, 20, "f0:1", pool="frail"), take(2, 100, 110, "f0:2", pool="frail")
    good(used, returns(1, 30, 40, 1), again)
    bad("dirty", used, returns(1, 30, 40, 1, how="fail"), again)
    bad("dirty", used, ends(1, 30, 0, "close"), again)
    good(used, ends(1, 30, 40, "quit"), again)
    hardy = take(1, 10, 20, "h0:1", pool="hardy"), take(2, 100, 110, "h0:2", pool="hardy")
    good(hardy[0], ends(1, 30, 0, "close"), hardy[1])
    bad("dirty", hardy[0], returns(1, 30, 40, 1, how="fail"), hardy[1])


def test_no_more_wait_than_may():
    lines = [waits(1, 10, 20, 1200, "timeout"), waits(2, 10, 20, 1200, "timeout")]
    good(*lines)
    bad("queues", *lines, waits(3, 10, 30, 1200, "timeout"))
    good(*lines, waits(3, 10, 30, 1200, "timeout", what="check"))
    good(*lines, take(3, 10, 1200, "timeout", timeout=1000))
    good(waits(1, 10, 20, 40, "p0:1"), lines[1], waits(3, 25, 30, 1200, "timeout"))
    bad(
        "queues", waits(1, 10, 20, 60, "p0:2"), lines[1], waits(3, 25, 30, 1200, "timeout"),
        take(4, 50, 60, "f0:1", pool="frail"),
    )


def test_a_queue_that_is_full_can_have_been_full():
    full = take(3, 30, 40, "queue_full", timeout=1000)
    bad("answers", full)
    bad("answers", full, waits(1, 10, 20, 1200, "timeout"))
    good(full, waits(1, 10, 20, 1200, "timeout"), take(2, 40, 1200, "timeout", timeout=1000))
    bad("answers", full, waits(1, 10, 20, 1200, "timeout"), take(2, 41, 1200, "timeout", timeout=1000))
    bad(
        "answers", full, waits(1, 10, 20, 1200, "timeout"),
        take(2, 10, 1200, "timeout", timeout=1000, what="check"),
    )
    # Never two at once: one is over when the other begins.
    bad(
        "answers", full, waits(1, 10, 20, 34, "cancelled", more="left=33"),
        take(2, 35, 1200, "timeout", timeout=1000),
    )
    good(
        full, take(1, 10, 0, "unknown", timeout=1000), ends(1, 12, 30, "half"),
        waits(2, 10, 20, 1200, "timeout"),
    )
    bad(
        "answers", full, take(1, 10, 0, "unknown", timeout=1000), ends(1, 12, 29, "half"),
        waits(2, 10, 20, 1200, "timeout"),
    )


def test_nobody_waits_while_a_member_is_free():
    held = take(1, 1, 5, "p0:1"), returns(1, 40, 50, 1)
    later = take(3, 500, 510, "p0:9")
    good(*held, waits(2, 10, 20, 49, "timeout", timeout=35), later)
    bad("idle", *held, waits(2, 10, 20, 90, "timeout", timeout=42), later)
    bad("idle", *held, waits(2, 60, 70, 110, "timeout", timeout=42), later)
    bad("idle", *held, waits(2, 10, 20, 90, "cancelled", more="left=60"), later)
    bad("idle", *held, take(2, 60, 70, "timeout"), later)
    bad("idle", *held, take(2, 60, 70, "timeout", more="with=kind=a"), later)
    good(*held, take(2, 49, 70, "timeout"), later)
    good(*held, take(2, 60, 70, "timeout"), take(3, 69, 90, "p0:9"))
    good(*held, take(2, 60, 70, "timeout", more="member=p1"), later)
    good(*held, take(2, 60, 70, "timeout", count=2), later)
    # One that was not told, or waits for two, may have it.
    good(*held, take(2, 60, 70, "timeout"), take(4, 30, 0, "unknown", timeout=90), ends(4, 41, 45, "half"), later)
    good(*held, take(2, 60, 70, "timeout"), take(4, 30, 130, "timeout", timeout=90, count=2), later)
    used = take(1, 1, 5, "w0:1", pool="wash"), returns(1, 40, 50, 1)
    clean = take(5, 55, 60, "w0:2", pool="wash", what="clean"), returns(5, 65, 70, 2)
    good(*used, *clean, take(2, 51, 60, "timeout", pool="wash"), later)
    bad("idle", *used, *clean, take(2, 80, 90, "timeout", pool="wash"), later)
    good(*used, *clean, sets(75, 76, "w0", "down", pool="wash"), take(2, 80, 90, "timeout", pool="wash"), later)


if __name__ == "__main__":
    tap.main(__file__)
