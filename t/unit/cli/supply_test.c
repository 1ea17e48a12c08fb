/*
 * supply_test.c - what a supplier does after each event, with a clock that the test moves.
 */
#include "base/clock.h"
#include "cli/supply.h"
#include "t/unit/unit.h"

#include <stdio.h>
#include <string.h>

#define SECOND NS_PER_S

static int64_t now; /* monotonic */
static struct supply s;

/* Carries out nothing, and tells in words what there was to do: "start 0, join 0". */
static const char *todo(void)
{
    static const char *const words[] = {
        [DO_CONNECT] = "connect", [DO_SUPPLY] = "supply",   [DO_RESIGN] = "resign",
        [DO_START] = "start",     [DO_JOIN] = "join",       [DO_CHECK] = "check",
        [DO_DROP] = "drop",       [DO_TERM] = "term",       [DO_KILL] = "kill",
        [DO_LEAVE] = "leave",     [DO_GIVE_UP] = "give up",
    };
    static char said[400];
    size_t len = 0;
    struct supply_action action;
    *said = '\0';
    while ((action = supply_next(&s, now)).what != DO_NOTHING) {
        bool of_slot = action.what >= DO_START && action.what <= DO_KILL;
        ck_assert_uint_lt(len, sizeof said - 20);
        len += (size_t)sprintf(said + len, "%s%s", len ? ", " : "", words[action.what]);
        if (of_slot)
            len += (size_t)sprintf(said + len, " %u", action.slot);
        if (action.what == DO_LEAVE)
            break;
    }
    if (action.what == DO_NOTHING)
        ck_assert_int_gt(action.at_ns, now);
    return said;
}

#define TODO(expected) ck_assert_str_eq(todo(), expected)

/* Moves the clock to the next time at which there is something to do; at most `longest`. Returns
   by how much. */
static int64_t pass(int64_t longest)
{
    struct supply_action action = supply_next(&s, now);
    ck_assert_int_eq(action.what, DO_NOTHING);
    int64_t wait = action.at_ns - now;
    wait = action.at_ns == SUPPLY_NEVER || wait > longest ? longest : wait;
    now += wait;
    return wait;
}

static void begin(uint32_t max, struct supply_rules rules)
{
    now = 1000 * SECOND;
    rules.max = max;
    rules.start_timeout_ns = 60 * SECOND;
    rules.grace_ns = 10 * SECOND;
    supply_init(&s, &rules);
}

/* A supplier that the server wants `want` members of; nothing runs. */
static void begin_wanted(uint32_t max, uint32_t want, struct supply_rules rules)
{
    begin(max, rules);
    TODO("connect");
    supply_up(&s);
    TODO("supply");
    supply_answered(&s, true, now);
    TODO("");
    supply_want(&s, want);
}

static void join(uint32_t slot)
{
    supply_joined(&s, slot, now);
    ck_assert_int_eq(supply_state(&s, slot), SLOT_JOINED);
}

TEST(as_many_start_as_are_wanted)
{
    begin_wanted(4, 1, (struct supply_rules){0});
    TODO("start 0, join 0");
    join(0);
    TODO("");
    supply_want(&s, 3);
    TODO("start 1, join 1, start 2, join 2");
    join(1);
    join(2);
    supply_want(&s, 9); /* more than we have said we can run */
    TODO("start 3, join 3");
    supply_free(&s);
}
END_TEST

TEST(a_supplier_that_has_more_ends_only_what_it_is_told_to)
{
    begin_wanted(4, 3, (struct supply_rules){0});
    TODO("start 0, join 0, start 1, join 1, start 2, join 2");
    for (uint32_t i = 0; i < 3; i++)
        join(i);
    supply_want(&s, 1);
    TODO("");
    supply_stop(&s, 1, false);
    TODO("term 1");
    supply_stop(&s, 1, false);
    TODO("");
    supply_ended(&s, 1, false, now);
    TODO("drop 1");
    ck_assert_int_eq(supply_state(&s, 1), SLOT_FREE);
    supply_stop(&s, 1, false);
    TODO("");
    supply_want(&s, 3);
    TODO("start 1, join 1"); /* the lowest that is free, at once */
    supply_free(&s);
}
END_TEST

TEST(who_has_to_end_is_killed_after_the_grace)
{
    begin_wanted(2, 1, (struct supply_rules){0});
    TODO("start 0, join 0");
    join(0);
    supply_stop(&s, 0, false);
    TODO("term 0, start 1, join 1"); /* it does not count any more */
    ck_assert_int_eq(pass(60 * SECOND), 10 * SECOND);
    TODO("kill 0");
    ck_assert_int_eq(pass(SECOND), SECOND);
    TODO("");
    supply_ended(&s, 0, false, now);
    TODO("drop 0");
    supply_free(&s);
}
END_TEST

TEST(there_are_never_more_than_max_also_while_some_end)
{
    begin_wanted(1, 1, (struct supply_rules){0});
    TODO("start 0, join 0");
    join(0);
    supply_stop(&s, 0, false);
    TODO("term 0");
    supply_ended(&s, 0, true, now); /* what it has started runs on */
    TODO("drop 0");
    ck_assert_int_eq(pass(60 * SECOND), 10 * SECOND);
    TODO("kill 0");
    supply_ended(&s, 0, false, now);
    TODO("start 0, join 0");
    supply_free(&s);
}
END_TEST

TEST(what_a_command_leaves_behind_is_ended_too)
{
    begin_wanted(1, 1, (struct supply_rules){0});
    TODO("start 0, join 0");
    join(0);
    supply_ended(&s, 0, true, now);
    TODO("drop 0, term 0"); /* the server is told at once */
    ck_assert_int_eq(pass(60 * SECOND), 10 * SECOND);
    TODO("kill 0");
    supply_ended(&s, 0, false, now);
    TODO("start 0, join 0"); /* the wait after the failure is over, too */
    supply_free(&s);
}
END_TEST

TEST(restarts_wait_longer_and_longer)
{
    static const int64_t waits_ms[] = {100,  200,   400,   800,   1600,  3200,
                                       6400, 12800, 25600, 30000, 30000, 30000};
    begin_wanted(1, 1, (struct supply_rules){0});
    TODO("start 0, join 0");
    for (size_t i = 0; i < ARRAY_SIZE(waits_ms); i++) {
        supply_ended(&s, 0, false, now);
        TODO("drop 0");
        ck_assert_int_eq(pass(60 * SECOND), waits_ms[i] * NS_PER_MS);
        TODO("start 0, join 0");
    }
    join(0);
    now += SUPPLY_STEADY_NS - 1;
    supply_ended(&s, 0, false, now);
    TODO("drop 0");
    ck_assert_int_eq(pass(60 * SECOND), 30 * SECOND);
    TODO("start 0, join 0");
    now += SUPPLY_STEADY_NS;
    supply_ended(&s, 0, false, now);
    TODO("drop 0");
    ck_assert_int_eq(pass(60 * SECOND), SUPPLY_FIRST_WAIT_NS);
    supply_free(&s);
}
END_TEST

TEST(a_slot_that_waits_is_not_passed_over)
{
    begin_wanted(4, 2, (struct supply_rules){0});
    TODO("start 0, join 0, start 1, join 1");
    join(0);
    join(1);
    supply_ended(&s, 0, false, now);
    TODO("drop 0");
    supply_want(&s, 3);
    TODO("start 2, join 2"); /* one for slot 0, which waits, and one more */
    supply_want(&s, 2);
    ck_assert_int_eq(pass(SECOND), SECOND); /* enough run */
    supply_want(&s, 3);
    TODO("start 0, join 0");
    supply_free(&s);
}
END_TEST

TEST(a_wait_stays_with_its_slot)
{
    begin_wanted(2, 1, (struct supply_rules){0});
    TODO("start 0, join 0");
    for (int i = 0; i < 5; i++) { /* 0.1 to 1.6 s */
        supply_ended(&s, 0, false, now);
        TODO("drop 0");
        pass(60 * SECOND);
        TODO("start 0, join 0");
    }
    supply_ended(&s, 0, false, now);
    TODO("drop 0");
    for (int i = 0; i < 10; i++) {
        supply_want(&s, 0);
        supply_want(&s, 1);
        TODO("");
    }
    ck_assert_int_eq(pass(60 * SECOND), 3200 * NS_PER_MS);
    TODO("start 0, join 0");
    supply_free(&s);
}
END_TEST

TEST(it_joins_when_it_says_that_it_is_ready)
{
    begin_wanted(1, 1, (struct supply_rules){.says_ready = true});
    TODO("start 0");
    now += 59 * SECOND;
    TODO("");
    supply_ready(&s, 0, now);
    TODO("join 0");
    supply_ready(&s, 0, now); /* it says so again */
    join(0);
    ck_assert_int_eq(pass(1000 * SECOND), 1000 * SECOND);
    supply_free(&s);
}
END_TEST

TEST(a_start_that_takes_too_long_is_a_failure)
{
    begin_wanted(1, 1, (struct supply_rules){.says_ready = true});
    TODO("start 0");
    ck_assert_int_eq(pass(1000 * SECOND), 60 * SECOND);
    TODO("give up 0");
    supply_ready(&s, 0, now); /* too late */
    TODO("");
    ck_assert_int_eq(pass(1000 * SECOND), 10 * SECOND);
    TODO("kill 0");
    supply_ended(&s, 0, false, now);
    TODO("");
    ck_assert_int_eq(pass(1000 * SECOND), SUPPLY_FIRST_WAIT_NS);
    TODO("start 0");
    pass(1000 * SECOND);
    TODO("give up 0");
    supply_ended(&s, 0, true, now);
    supply_ended(&s, 0, false, now); /* one failure, not two */
    ck_assert_int_eq(pass(1000 * SECOND), 2 * SUPPLY_FIRST_WAIT_NS);
    supply_free(&s);
}
END_TEST

TEST(a_command_that_can_not_be_started_is_a_failure)
{
    begin_wanted(1, 1, (struct supply_rules){0});
    for (int64_t wait = SUPPLY_FIRST_WAIT_NS; wait < SECOND; wait *= 2) {
        struct supply_action action = supply_next(&s, now);
        ck_assert_int_eq(action.what, DO_START);
        supply_ended(&s, 0, false, now);
        TODO("");
        ck_assert_int_eq(pass(60 * SECOND), wait);
    }
    supply_free(&s);
}
END_TEST

TEST(a_refused_join_is_tried_again_or_ends_the_command)
{
    begin_wanted(2, 2, (struct supply_rules){0});
    TODO("start 0, join 0, start 1, join 1");
    supply_refused(&s, 0, false, now);
    supply_refused(&s, 1, true, now);
    TODO("term 1");
    ck_assert_int_eq(pass(60 * SECOND), SUPPLY_FIRST_WAIT_NS);
    TODO("join 0");
    supply_refused(&s, 0, false, now);
    TODO("");
    ck_assert_int_eq(pass(60 * SECOND), 2 * SUPPLY_FIRST_WAIT_NS);
    TODO("join 0");
    join(0);
    supply_ended(&s, 1, false, now);
    TODO(""); /* it was no member */
    ck_assert_int_eq(pass(60 * SECOND), SUPPLY_FIRST_WAIT_NS);
    TODO("start 1, join 1");
    supply_free(&s);
}
END_TEST

TEST(an_answer_for_a_command_that_has_ended_changes_nothing)
{
    begin_wanted(1, 1, (struct supply_rules){0});
    TODO("start 0, join 0");
    supply_ended(&s, 0, false, now);
    TODO("drop 0");
    supply_joined(&s, 0, now);
    supply_refused(&s, 0, true, now);
    supply_checked(&s, 0, now);
    ck_assert_int_eq(supply_state(&s, 0), SLOT_FREE);
    supply_free(&s);
}
END_TEST

TEST(members_are_checked_from_time_to_time)
{
    begin_wanted(2, 2, (struct supply_rules){.every_ns = 5 * SECOND});
    TODO("start 0, join 0, start 1, join 1");
    join(0);
    ck_assert_int_eq(pass(2 * SECOND), 2 * SECOND);
    join(1);
    ck_assert_int_eq(pass(60 * SECOND), 3 * SECOND);
    TODO("check 0");
    ck_assert_int_eq(pass(60 * SECOND), 2 * SECOND);
    TODO("check 1");
    ck_assert_int_eq(pass(60 * SECOND), 60 * SECOND); /* none begins before the last has ended */
    supply_checked(&s, 0, now);
    ck_assert_int_eq(pass(60 * SECOND), 5 * SECOND);
    TODO("check 0");
    supply_free(&s);
}
END_TEST

TEST(all_end_when_the_connection_is_lost)
{
    begin_wanted(3, 2, (struct supply_rules){.says_ready = true});
    TODO("start 0, start 1");
    supply_ready(&s, 0, now);
    TODO("join 0");
    join(0);
    supply_down(&s, now);
    TODO("term 0, term 1");
    supply_ended(&s, 0, false, now);
    TODO(""); /* there is nobody to tell */
    ck_assert_int_eq(pass(60 * SECOND), SUPPLY_FIRST_WAIT_NS);
    TODO("connect");
    supply_up(&s);
    TODO("supply");
    supply_answered(&s, true, now);
    supply_want(&s, 1);
    TODO("start 0");
    supply_ended(&s, 1, false, now);
    TODO("");
    supply_free(&s);
}
END_TEST

TEST(kept_ones_join_again)
{
    begin_wanted(3, 3, (struct supply_rules){.keeps = true, .says_ready = true});
    TODO("start 0, start 1, start 2");
    supply_ready(&s, 0, now);
    supply_ready(&s, 1, now);
    TODO("join 0, join 1");
    join(0); /* 1 is not answered */
    supply_down(&s, now);
    supply_ready(&s, 2, now);
    TODO("");
    supply_ended(&s, 0, false, now); /* others start, as before */
    ck_assert_int_eq(pass(60 * SECOND), SUPPLY_FIRST_WAIT_NS);
    TODO("connect, start 0");
    supply_up(&s);
    TODO("supply");
    supply_answered(&s, true, now);
    supply_want(&s, 1); /* the server does not know of them yet */
    TODO("join 1, join 2");
    join(1);
    join(2);
    supply_ready(&s, 0, now);
    TODO("join 0");
    supply_free(&s);
}
END_TEST

TEST(connecting_waits_longer_and_longer)
{
    begin_wanted(1, 0, (struct supply_rules){0});
    for (int i = 0; i < 12; i++) {
        int64_t wait = SUPPLY_FIRST_WAIT_NS << i;
        wait = wait < SUPPLY_LONGEST_WAIT_NS ? wait : SUPPLY_LONGEST_WAIT_NS;
        supply_down(&s, now);
        ck_assert_int_eq(pass(60 * SECOND), wait);
        TODO("connect");
        if (i % 2) { /* a server that closes the connection again is no better */
            supply_up(&s);
            TODO("supply");
        }
    }
    supply_down(&s, now);
    pass(60 * SECOND);
    TODO("connect");
    supply_up(&s);
    TODO("supply");
    supply_answered(&s, true, now);
    supply_down(&s, now);
    ck_assert_int_eq(pass(60 * SECOND), SUPPLY_FIRST_WAIT_NS);
    supply_free(&s);
}
END_TEST

TEST(a_pool_that_is_dropped_is_supplied_when_it_is_there_again)
{
    begin_wanted(1, 1, (struct supply_rules){0});
    TODO("start 0, join 0");
    join(0);
    supply_want(&s, 0); /* it is dropped */
    supply_stop(&s, 0, false);
    TODO("supply, term 0");
    supply_answered(&s, false, now);
    ck_assert_int_eq(pass(60 * SECOND), SUPPLY_FIRST_WAIT_NS);
    TODO("supply"); /* does not wait for the command to end */
    supply_answered(&s, false, now);
    supply_ended(&s, 0, false, now);
    TODO("drop 0");
    for (int64_t wait = 2 * SUPPLY_FIRST_WAIT_NS; wait < 10 * SECOND; wait *= 2) {
        ck_assert_int_eq(pass(60 * SECOND), wait);
        TODO("supply");
        supply_answered(&s, false, now);
    }
    pass(60 * SECOND);
    TODO("supply");
    supply_answered(&s, true, now);
    supply_want(&s, 1);
    TODO("start 0, join 0");
    ck_assert_int_eq(pass(60 * SECOND), 60 * SECOND);
    supply_free(&s);
}
END_TEST

TEST(a_supplier_of_nothing_asks_seldom)
{
    begin_wanted(4, 0, (struct supply_rules){0});
    for (int i = 0; i < 20; i++) {
        pass(60 * SECOND);
        TODO("supply");
        supply_answered(&s, true, now);
        supply_want(&s, 0);
    }
    ck_assert_int_eq(pass(60 * SECOND), SUPPLY_LONGEST_WAIT_NS);
    supply_free(&s);
}
END_TEST

TEST(at_the_end_nobody_gets_a_member_that_ends)
{
    begin_wanted(4, 3, (struct supply_rules){.says_ready = true});
    TODO("start 0, start 1, start 2");
    supply_ready(&s, 0, now);
    supply_ready(&s, 1, now);
    TODO("join 0, join 1");
    join(0);
    supply_finish(&s, false);
    TODO("resign, drop 0, term 0, drop 1, term 1, term 2");
    supply_want(&s, 4);
    supply_joined(&s, 1, now);
    supply_ended(&s, 0, false, now);
    supply_ended(&s, 2, false, now);
    ck_assert_int_eq(pass(60 * SECOND), 10 * SECOND);
    TODO("kill 1");
    supply_ended(&s, 1, false, now);
    TODO("leave");
    supply_free(&s);
}
END_TEST

TEST(who_is_in_a_hurry_kills_at_once)
{
    begin_wanted(2, 2, (struct supply_rules){.keeps = true});
    TODO("start 0, join 0, start 1, join 1");
    join(0);
    join(1);
    supply_down(&s, now);
    supply_finish(&s, false);
    TODO("term 0, term 1");
    supply_finish(&s, true);
    TODO("kill 0, kill 1");
    supply_ended(&s, 0, false, now);
    supply_ended(&s, 1, false, now);
    TODO("leave");
    supply_free(&s);
}
END_TEST

TEST(without_a_command_there_is_one_member)
{
    begin(1, (struct supply_rules){.is_single = true, .keeps = true, .every_ns = SECOND});
    TODO("connect, start 0");
    supply_up(&s);
    TODO("join 0");
    join(0);
    ck_assert_int_eq(pass(60 * SECOND), SECOND);
    TODO("check 0");
    supply_down(&s, now);
    ck_assert_int_eq(pass(60 * SECOND), SUPPLY_FIRST_WAIT_NS);
    TODO("connect");
    supply_up(&s);
    TODO("join 0");
    supply_refused(&s, 0, false, now);
    pass(60 * SECOND);
    TODO("join 0");
    join(0);
    supply_finish(&s, false);
    TODO("drop 0, term 0");
    supply_ended(&s, 0, false, now);
    TODO("leave");
    supply_free(&s);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(as_many_start_as_are_wanted),
    UNIT(a_supplier_that_has_more_ends_only_what_it_is_told_to),
    UNIT(who_has_to_end_is_killed_after_the_grace),
    UNIT(there_are_never_more_than_max_also_while_some_end),
    UNIT(what_a_command_leaves_behind_is_ended_too),
    UNIT(restarts_wait_longer_and_longer),
    UNIT(a_slot_that_waits_is_not_passed_over),
    UNIT(a_wait_stays_with_its_slot),
    UNIT(it_joins_when_it_says_that_it_is_ready),
    UNIT(a_start_that_takes_too_long_is_a_failure),
    UNIT(a_command_that_can_not_be_started_is_a_failure),
    UNIT(a_refused_join_is_tried_again_or_ends_the_command),
    UNIT(an_answer_for_a_command_that_has_ended_changes_nothing),
    UNIT(members_are_checked_from_time_to_time),
    UNIT(all_end_when_the_connection_is_lost),
    UNIT(kept_ones_join_again),
    UNIT(connecting_waits_longer_and_longer),
    UNIT(a_pool_that_is_dropped_is_supplied_when_it_is_there_again),
    UNIT(a_supplier_of_nothing_asks_seldom),
    UNIT(at_the_end_nobody_gets_a_member_that_ends),
    UNIT(who_is_in_a_hurry_kills_at_once),
    UNIT(without_a_command_there_is_one_member),
};

UNIT_MAIN("cli/supply", tests)
