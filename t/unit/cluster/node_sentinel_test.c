/* The majority of the Sentinels: what a node does not do without it. */
#include "t/unit/cluster/node_rig.h"

#define FIRST   "*2\r\n$2\r\ne0\r\n$4\r\n6379\r\n"
#define SECOND  "*2\r\n$2\r\ne1\r\n$4\r\n6379\r\n"
#define UNKNOWN "*-1\r\n"

/* The next question of a Sentinel; the answer is `text`. */
static void votes(unsigned i, const char *text)
{
    ck_assert_str_eq(rig_word(rig_want(NODE_SENTINEL + i, "SENTINEL"), 2), "main");
    rig_say(NODE_SENTINEL + i, "%s", text);
}

static void begin(void)
{
    rig_begin("sentinel://a:1,b:2,c:3/main");
    rig_start();
    for (unsigned i = 0; i < 3; i++)
        rig_opens(NODE_SENTINEL + i);
}

/* Two of three name the first engine. */
static void agree(void)
{
    votes(0, FIRST);
    votes(2, FIRST);
    if (r.open[NODE_SENTINEL + 1])
        votes(1, SECOND);
}

/* Until `ready` is sent. */
static void open_session(bool grace)
{
    agree();
    rig_connect();
    rig_quiet(NODE_COMMANDS);
    agree();
    rig_accepts(grace);
    node_reported(r.node, r.now);
}

static void live(bool grace)
{
    begin();
    open_session(grace);
    rig_readies();
    agree();
    rig_quiet(NODE_COMMANDS);
    ck_assert_int_eq(r.lease_end, r.now + TENTHS(9));
}

TEST(a_majority_finds_the_engine)
{
    begin();
    votes(0, FIRST);
    ck_assert(!r.asked[NODE_COMMANDS]);
    votes(1, SECOND);
    ck_assert(!r.asked[NODE_COMMANDS]);
    votes(2, UNKNOWN);
    ck_assert(!r.asked[NODE_COMMANDS]);
    rig_later(FIFTH);
    ck_assert_uint_eq(rig_seen().losses[NODE_LOSS_SLOW], 1);
    rig_later(100 * MS);
    /* Votes of the last round do not count in this one. */
    votes(1, FIRST);
    ck_assert(!r.asked[NODE_COMMANDS]);
    votes(2, FIRST);
    ck_assert(r.asked[NODE_COMMANDS]);
    rig_end();
}

TEST(open_needs_a_majority)
{
    begin();
    agree();
    rig_connect();
    rig_quiet(NODE_COMMANDS);
    votes(1, SECOND);
    votes(0, FIRST);
    rig_quiet(NODE_COMMANDS);
    rig_later(FIFTH);
    ck_assert(!r.asked[NODE_COMMANDS] && !r.asked[NODE_MESSAGES]);
    rig_later(100 * MS);
    rig_opens(NODE_SENTINEL + 2); /* a new wire for the one that did not answer */
    votes(0, FIRST);
    votes(1, FIRST);
    votes(2, FIRST);
    rig_connect();
    votes(1, SECOND);
    votes(2, SECOND);
    /* A majority names another engine. */
    ck_assert(!r.asked[NODE_COMMANDS]);
    rig_end();
}

TEST(ready_renews_with_a_majority_asked_after_it_was_sent)
{
    struct rig_ask a;
    begin();
    open_session(false);
    int64_t sent = r.now;
    votes(0, FIRST);
    rig_later(100 * MS);
    rig_readies();
    ck_assert_int_eq(r.lease_end, 0);
    /* Granted, but not said: there is no lease. */
    rig_acquire(&a, NODE_WAIT_NO, "s");
    rig_script("call");
    rig_answers("*1\r\n:1\r\n");
    ck_assert(!a.answered);
    votes(2, FIRST);
    ck_assert_int_eq(r.lease_end, sent + TENTHS(9));
    ck_assert(rig_has(&a, NODE_GRANTED));
    rig_end();
}

TEST(votes_of_before_the_beat_do_not_renew_it)
{
    live(false);
    int64_t end = r.lease_end;
    rig_later(FIFTH);
    rig_beats(2, false, "", 0);
    votes(0, FIRST);
    ck_assert_int_eq(r.lease_end, end);
    /* Two did not answer before the next beat: they are asked on new wires. The vote of the first
     * for the last beat does not count any more. */
    rig_later(FIFTH);
    rig_beats(3, false, "", 0);
    ck_assert_int_eq(r.lease_end, end);
    int64_t sent = r.now;
    rig_opens(NODE_SENTINEL + 1);
    rig_opens(NODE_SENTINEL + 2);
    votes(1, FIRST);
    ck_assert_int_eq(r.lease_end, end);
    votes(2, FIRST);
    ck_assert_int_eq(r.lease_end, sent + TENTHS(9));
    rig_end();
}

TEST(votes_for_the_last_connection_do_not_count)
{
    live(false);
    int64_t end = r.lease_end;
    rig_later(FIFTH);
    rig_script("beat");
    rig_cut(NODE_COMMANDS);
    rig_later(100 * MS);
    /* The first questions are those of the beat. */
    for (unsigned i = 0; i < 3; i++)
        votes(i, FIRST);
    ck_assert(!r.asked[NODE_COMMANDS]);
    open_session(false);
    rig_readies();
    ck_assert_int_eq(r.lease_end, end);
    agree();
    ck_assert_int_gt(r.lease_end, end);
    rig_end();
}

TEST(another_engine_ends_the_session)
{
    live(false);
    rig_later(FIFTH);
    rig_script("beat");
    votes(0, SECOND);
    ck_assert(r.asked[NODE_COMMANDS]);
    votes(2, SECOND);
    ck_assert(!r.asked[NODE_COMMANDS]);
    ck_assert_uint_eq(rig_seen().losses[NODE_LOSS_SENTINEL], 1);
    rig_end();
}

/* One beat, answered, with or without a majority. */
static void beat(unsigned number, bool grace, const char *other, bool majority)
{
    rig_later(FIFTH);
    rig_beats(number, grace, other, *other ? 1 : 0);
    if (majority)
        agree();
    else
        for (unsigned i = 0; i < 3; i++)
            votes(i, UNKNOWN);
}

#define OTHER "$16\r\n00000000000000cc\r\n$1\r\n7\r\n"

TEST(others_are_reaped_after_a_renewal_that_was_sent_later)
{
    live(false);
    unsigned number = 2;
    for (; number < 7; number++) {
        beat(number, false, OTHER, number < 6);
        rig_quiet(NODE_COMMANDS);
    }
    /* It was first seen with beat 2; this one comes a lease later, but was not sent after that. */
    beat(number, false, OTHER, true);
    rig_quiet(NODE_COMMANDS);
    beat(number + 1, false, OTHER, false);
    rig_quiet(NODE_COMMANDS);
    beat(number + 2, false, OTHER, true);
    const redisReply *reap = rig_script("reap");
    ck_assert_str_eq(rig_word(reap, 5), "00000000000000cc");
    rig_end();
}

TEST(grace_ends_after_a_renewal_that_was_sent_later)
{
    live(true);
    int64_t since = r.now;
    unsigned number = 2;
    while (r.now + FIFTH <= since + LEASE) {
        beat(number++, true, "", true);
        rig_quiet(NODE_COMMANDS);
    }
    ck_assert_int_eq(r.now, since + LEASE);
    beat(number++, true, "", false);
    rig_quiet(NODE_COMMANDS);
    beat(number++, true, "", true);
    rig_at(r.now);
    rig_script("grace");
    rig_end();
}

TEST(own_sessions_are_reaped_without_a_renewal)
{
    begin();
    open_session(false);
    rig_script("ready");
    rig_answers("*2\r\n$16\r\n00000000000000d1\r\n:3\r\n");
    ck_assert_str_eq(rig_word(rig_script("reap"), 5), "00000000000000d1");
    rig_end();
}

TEST(without_a_majority_the_lease_ends)
{
    live(false);
    int64_t end = r.lease_end;
    for (unsigned number = 2; number < 6; number++)
        beat(number, false, "", false);
    ck_assert_int_eq(r.lease_end, end);
    rig_at(end);
    ck_assert_uint_eq(r.closings, 1);
    ck_assert(!r.asked[NODE_COMMANDS]);
    rig_end();
}

/* A session that was never renewed does not go on for ever. */
TEST(a_session_that_no_majority_saw_ends)
{
    begin();
    open_session(false);
    rig_readies();
    for (unsigned i = 0; i < 3; i++)
        votes(i, UNKNOWN);
    for (unsigned number = 2; number < 6; number++)
        beat(number, false, "", false);
    rig_later(FIFTH);
    ck_assert(!r.asked[NODE_COMMANDS]);
    ck_assert_uint_eq(rig_seen().losses[NODE_LOSS_SENTINEL], 1);
    rig_end();
}

static const char *const odd_votes[] = {
    "+OK\r\n",
    "-ERR No such master with that name\r\n",
    "*2\r\n$2\r\ne0\r\n$5\r\n65536\r\n",
    "*2\r\n$2\r\ne0\r\n$1\r\n0\r\n",
    "*2\r\n$0\r\n\r\n$1\r\n1\r\n",
    "*2\r\n*0\r\n$1\r\n1\r\n",
    "*1\r\n$2\r\ne0\r\n",
    "*3\r\n$2\r\ne0\r\n$4\r\n6379\r\n$1\r\n1\r\n",
    "*2\r\n:1\r\n$4\r\n6379\r\n",
    ":1\r\n",
};

TEST(odd_answers_are_no_votes)
{
    for (size_t i = 0; i < ARRAY_SIZE(odd_votes); i++) {
        begin();
        votes(0, odd_votes[i]);
        votes(1, odd_votes[i]);
        ck_assert(!r.asked[NODE_COMMANDS]);
        /* What nobody asked for closes the wire, which is opened again for the next round. */
        rig_say(NODE_SENTINEL, FIRST);
        ck_assert(!r.asked[NODE_SENTINEL]);
        votes(2, FIRST);
        rig_later(FIFTH);
        rig_later(100 * MS);
        rig_opens(NODE_SENTINEL);
        votes(0, FIRST);
        ck_assert(!r.asked[NODE_COMMANDS]);
        votes(2, FIRST);
        ck_assert(r.asked[NODE_COMMANDS]);
        rig_end();
    }
}

static const struct unit_test tests[] = {
    UNIT(a_majority_finds_the_engine),
    UNIT(open_needs_a_majority),
    UNIT(ready_renews_with_a_majority_asked_after_it_was_sent),
    UNIT(votes_of_before_the_beat_do_not_renew_it),
    UNIT(votes_for_the_last_connection_do_not_count),
    UNIT(another_engine_ends_the_session),
    UNIT(others_are_reaped_after_a_renewal_that_was_sent_later),
    UNIT(grace_ends_after_a_renewal_that_was_sent_later),
    UNIT(own_sessions_are_reaped_without_a_renewal),
    UNIT(without_a_majority_the_lease_ends),
    UNIT(a_session_that_no_majority_saw_ends),
    UNIT(odd_answers_are_no_votes),
};

UNIT_MAIN("node sentinel", tests)
