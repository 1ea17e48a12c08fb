/* The node opens with many names, or far from its engine: what counts is that answers come, how
 * much goes ahead of them, what others see of it, what clients get meanwhile, and how sessions are
 * reaped behind `ready`. */
#include "cluster/node_inside.h"
#include "t/unit/cluster/node_rig.h"

#include <stdlib.h>

/* ---- what the node tells --------------------------------------------------------------------- */

/* Reports so many names, `l0` and so on, of a unit each. */
static void report_many(unsigned names)
{
    char name[64];
    for (unsigned i = 0; i < names; i++) {
        int len = snprintf(name, sizeof(name), "l%u", i);
        node_report(r.node, bytes_at(name, (size_t)len), 1);
    }
    node_reported(r.node, r.now);
}

/* Answers a `give` of that many ops. */
static void answer_give(unsigned ops)
{
    char text[8 + 128 * 4 + 8];
    size_t len = (size_t)snprintf(text, sizeof(text), "*%u\r\n", ops);
    for (unsigned i = 0; i < ops; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, ":1\r\n");
    rig_answers("%s", text);
}

static unsigned ops_of(const redisReply *give)
{
    return (unsigned)(give->elements - 5) / 3;
}

/* An op of a command, three arguments from `at` on. */
static void is_op(const redisReply *command, size_t at, const char *op, const char *name,
                  const char *units)
{
    ck_assert_str_eq(rig_word(command, at), op);
    ck_assert_str_eq(rig_word(command, at + 1), name);
    ck_assert_str_eq(rig_word(command, at + 2), units);
}

/* Without a limit of patience that matters. */
static void open_session(void)
{
    rig_begin("redis://e:1");
    node_set_patience(r.node, 100 * LEASE, r.now);
    rig_start();
    rig_connect();
    rig_accepts(false);
}

/* The node was live, lost the engine, and opens when patience is over. */
static void open_late(void)
{
    rig_begin("redis://e:1");
    rig_live(false);
    rig_cut(NODE_COMMANDS);
    rig_later(1000 * MS);
    ck_assert_uint_eq(r.alone, 1);
    rig_connect();
    rig_accepts(false);
    ck_assert_uint_eq(r.report, 0);
}

/* ---- progress -------------------------------------------------------------------------------- */

TEST(an_opening_goes_on_as_long_as_answers_come)
{
    unsigned gives[64], first = 0, count = 0, told = 0;
    open_session();
    int64_t begun = r.now;
    report_many(3000);
    for (const redisReply *command;;) {
        while ((command = rig_take(NODE_COMMANDS)) != NULL &&
               strcmp(rig_word(command, 1), "give") == 0)
            gives[count++] = ops_of(command);
        if (first == count)
            break;
        rig_later(FIFTH - 1);
        told += gives[first];
        answer_give(gives[first++]);
    }
    ck_assert_uint_eq(told, 3000);
    ck_assert_int_gt(r.now - begun, 2 * LEASE);
    rig_answers("*0\r\n");
    ck_assert_int_eq(rig_seen().state, NODE_LIVE);
    ck_assert_uint_eq(rig_seen().losses[NODE_LOSS_SLOW], 0);
    ck_assert_uint_eq(r.node->names_count, 0);
    ck_assert_uint_le(r.node->names_size, 64);
    rig_end();
}

TEST(an_opening_fails_when_nothing_is_answered)
{
    open_session();
    report_many(1000);
    rig_later(FIFTH - 1);
    answer_give(ops_of(rig_script("give")));
    rig_later(FIFTH - 1);
    ck_assert(r.asked[NODE_COMMANDS]);
    rig_later(1);
    ck_assert(!r.asked[NODE_COMMANDS]);
    ck_assert_uint_eq(rig_seen().losses[NODE_LOSS_SLOW], 1);
    ck_assert_uint_eq(r.node->names_count, 0);
    rig_end();
}

TEST(a_thread_that_was_held_up_reads_before_it_gives_up)
{
    open_session();
    report_many(300);
    unsigned ops = ops_of(rig_script("give"));
    rig_later(2 * FIFTH);
    ck_assert(r.asked[NODE_COMMANDS]);
    ck_assert_int_le(node_due_ns(r.node), r.now);
    answer_give(ops);
    ck_assert_int_eq(node_due_ns(r.node), r.now + FIFTH);
    /* There is nothing to read. */
    rig_later(2 * FIFTH);
    rig_later(0);
    ck_assert(!r.asked[NODE_COMMANDS]);
    rig_end();
}

TEST(gives_go_ahead_of_their_answers_up_to_a_mebibyte)
{
    size_t ahead = 0, most = 0;
    unsigned ops[400], first = 0, count = 0, told = 0;
    open_session();
    report_many(60000);
    while (told < 60000) {
        for (const redisReply *give; (give = rig_take(NODE_COMMANDS)) != NULL;) {
            ck_assert_str_eq(rig_word(give, 1), "give");
            ops[count++ % 400] = ops_of(give);
            ck_assert_uint_lt(count - first, 400);
        }
        ahead = r.node->ahead;
        most = ahead > most ? ahead : most;
        ck_assert_uint_gt(count, first);
        told += ops[first % 400];
        answer_give(ops[first++ % 400]);
    }
    ck_assert_uint_le(most, 1024 * 1024);
    ck_assert_uint_gt(most, 700 * 1024);
    rig_script("ready");
    rig_end();
}

TEST(a_report_that_takes_long_shows_life)
{
    open_session();
    rig_later(FIFTH - 1);
    rig_quiet(NODE_COMMANDS);
    for (unsigned i = 0; i < 12; i++) {
        rig_later(1);
        ck_assert_uint_eq(rig_script("give")->elements, 5);
        answer_give(0);
        rig_later(FIFTH - 1);
        rig_quiet(NODE_COMMANDS);
    }
    /* It renews no lease. */
    ck_assert_int_eq(r.lease_end, 0);
    report_many(1);
    is_op(rig_script("give"), 5, "s", "l0", "1");
    answer_give(1);
    rig_readies();
    rig_end();
}

/* ---- alone until `ready` --------------------------------------------------------------------- */

TEST(a_late_session_leaves_the_node_alone_until_all_is_told)
{
    struct rig_ask a;
    open_late();
    node_report(r.node, bytes_of("l1"), 2);
    node_report(r.node, bytes_of("l2"), 5);
    node_report(r.node, bytes_of("s1"), 1);
    node_reported(r.node, r.now);
    is_op(rig_script("give"), 5, "s", "l1", "2");
    rig_acquire(&a, NODE_WAIT_ME, "l9");
    ck_assert(rig_has(&a, NODE_ALONE));
    answer_give(3);
    /* All is told: now the threads ask again, and the difference is told, too. */
    rig_quiet(NODE_COMMANDS);
    ck_assert_uint_ne(r.report, 0);
    rig_acquire(&a, NODE_WAIT_ME, "l9");
    ck_assert(!a.answered);
    node_report(r.node, bytes_of("l1"), 3);
    node_report(r.node, bytes_of("l2"), 1);
    node_report(r.node, bytes_of("l3"), 1);
    node_reported(r.node, r.now);
    const redisReply *give = rig_script("give");
    ck_assert_uint_eq(ops_of(give), 4);
    is_op(give, 5, "s", "l1", "1");
    is_op(give, 8, "b", "l2", "4");
    is_op(give, 11, "b", "s1", "1");
    is_op(give, 14, "s", "l3", "1");
    rig_answers("*4\r\n:1\r\n:2\r\n:1\r\n:1\r\n");
    rig_readies();
    ck_assert_uint_eq(r.alone, 1);
    /* What a release did not finish is handed over, and the request goes. */
    give = rig_script("call");
    ck_assert_str_eq(rig_word(give, 5), "t");
    ck_assert_str_eq(rig_word(give, 6), "l2");
    ck_assert_str_eq(rig_word(give, 7), "a");
    rig_end();
}

/* `more` names beside these. */
static void report_both(unsigned l1, unsigned l3, unsigned more)
{
    node_report(r.node, bytes_of("l1"), l1);
    node_report(r.node, bytes_of("l3"), l3);
    for (unsigned i = 0; i < more; i++) {
        char name[16];
        snprintf(name, sizeof(name), "lm%u", i);
        node_report(r.node, bytes_of(name), 1);
    }
    node_reported(r.node, r.now);
}

TEST(patience_that_ends_while_a_session_opens)
{
    struct rig_ask loose, strict, wait, freed;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_waits(&wait, NODE_WAIT_ME, "l1", 40);
    rig_cut(NODE_COMMANDS);
    int64_t lost = r.now;
    rig_later(100 * MS);
    rig_connect();
    rig_accepts(false);
    rig_acquire(&loose, NODE_WAIT_ME, "l2");
    rig_acquire(&strict, NODE_WAIT_ME, "s2");
    report_both(1, 2, 200);
    const redisReply *give = rig_script("give");
    is_op(give, 5, "s", "l1", "1");
    ck_assert_str_eq(rig_word(give, 8), "w");
    rig_release(&freed, "l3");
    answer_give(128);
    ck_assert(!freed.answered);
    rig_at(lost + 1000 * MS);
    ck_assert_uint_eq(r.alone, 1);
    ck_assert(rig_has(&loose, NODE_ALONE) && rig_has(&freed, NODE_RELEASED));
    ck_assert(!strict.answered && strict.queued && !wait.answered);
    /* That wait is the engine's, which grants it meanwhile. */
    rig_grants(&wait);
    ck_assert(rig_has(&wait, NODE_GRANTED));
    ck_assert_uint_eq(r.report, 1 + 1);
    answer_give(203 - 128);
    /* The second report has the grant, and has the release no more. */
    ck_assert_uint_eq(r.report, 1 + 2);
    report_both(2, 1, 200);
    give = rig_script("give");
    while (ops_of(give) != 1) /* the rest of the first */
        give = rig_script("give");
    is_op(give, 5, "b", "l3", "1");
    answer_give(1);
    rig_readies();
    rig_end();
}

TEST(patience_that_ends_amid_ready)
{
    struct rig_ask loose;
    open_session();
    node_set_patience(r.node, 1000 * MS, r.now);
    rig_acquire(&loose, NODE_WAIT_ME, "l");
    node_reported(r.node, r.now);
    rig_script("ready");
    rig_later(1000 * MS);
    ck_assert(rig_has(&loose, NODE_ALONE));
    ck_assert(!r.asked[NODE_COMMANDS]);
    rig_end();
}

TEST(a_node_that_leaves_has_no_patience)
{
    open_session();
    node_set_patience(r.node, 1000 * MS, r.now);
    node_leave(r.node, r.now);
    node_report(r.node, bytes_of("l"), 1);
    node_reported(r.node, r.now);
    rig_script("give");
    rig_later(1000 * MS);
    answer_give(1);
    rig_later(1000 * MS);
    ck_assert_uint_eq(r.alone, 0);
    rig_script("ready");
    rig_answers("*0\r\n");
    rig_script("leave");
    rig_end();
}

TEST(a_session_that_ends_the_time_alone_has_no_patience)
{
    struct rig_ask loose;
    open_late();
    node_reported(r.node, r.now);
    rig_acquire(&loose, NODE_WAIT_ME, "l");
    rig_later(1000 * MS);
    ck_assert(!loose.answered);
    ck_assert_uint_eq(r.alone, 1);
    /* But when it fails the node is alone again, at once. */
    rig_cut(NODE_COMMANDS);
    ck_assert(rig_has(&loose, NODE_ALONE));
    ck_assert_uint_eq(r.alone, 2);
    rig_end();
}

TEST(a_session_that_ends_the_time_alone_may_be_silent_within_patience)
{
    struct rig_ask loose;
    open_late();
    node_reported(r.node, r.now);
    node_reported(r.node, r.now);
    rig_script("ready");
    rig_acquire(&loose, NODE_WAIT_ME, "l");
    rig_later(1000 * MS - 1);
    ck_assert(!loose.answered);
    rig_later(1);
    ck_assert(rig_has(&loose, NODE_ALONE));
    ck_assert_uint_eq(r.alone, 2);
    rig_end();
}

/* ---- reaping --------------------------------------------------------------------------------- */

static unsigned reaps(void)
{
    unsigned count = 0;
    for (const redisReply *command; (command = rig_take(NODE_COMMANDS)) != NULL; count++)
        ck_assert_str_eq(rig_word(command, 1), "reap");
    return count;
}

static void begin_to_reap(void)
{
    open_session();
    node_reported(r.node, r.now);
    rig_script("ready");
    rig_answers("*4\r\n$16\r\n00000000000000d1\r\n:3\r\n$16\r\n00000000000000d2\r\n:4\r\n");
    ck_assert_int_eq(rig_seen().state, NODE_LIVE);
    ck_assert_uint_eq(reaps(), 1);
}

TEST(as_many_reaps_go_together_as_are_quick)
{
    static const unsigned counts[] = {2, 4, 8, 8};
    begin_to_reap();
    rig_answers("*3\r\n:9000\r\n$1\r\n0\r\n*0\r\n");
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
        ck_assert_uint_eq(reaps(), counts[i]);
        for (unsigned n = 0; n < counts[i]; n++) {
            rig_at(r.now + LEASE / 100 / 10);
            rig_answers("*3\r\n:%u\r\n$1\r\n0\r\n*0\r\n", 8000 - (unsigned)i * 1000 - n);
        }
    }
    /* The next ones take longer. */
    ck_assert_uint_eq(reaps(), 8);
    rig_later(LEASE / 100);
    for (unsigned n = 0; n < 8; n++)
        rig_answers("*3\r\n:3000\r\n$1\r\n0\r\n*0\r\n");
    ck_assert_uint_eq(reaps(), 4);
    /* Not more than what is left needs. */
    for (unsigned n = 0; n < 4; n++)
        rig_answers("*3\r\n:501\r\n$1\r\n0\r\n*0\r\n");
    ck_assert_uint_eq(reaps(), 3);
    rig_answers("*3\r\n:10\r\n$1\r\n0\r\n*0\r\n");
    rig_answers(REAPED);
    rig_answers(REAPED);
    /* The other session begins with one. */
    const redisReply *reap = rig_script("reap");
    ck_assert_str_eq(rig_word(reap, 5), "00000000000000d2");
    ck_assert_str_eq(rig_word(reap, 6), "4");
    rig_answers(REAPED);
    rig_quiet(NODE_COMMANDS);
    rig_end();
}

TEST(names_that_a_reap_broke_off_are_handed_over_at_once)
{
    begin_to_reap();
    rig_answers("*3\r\n:0\r\n$1\r\n0\r\n*2\r\n$2\r\nl1\r\n$2\r\ns1\r\n");
    ck_assert_str_eq(rig_word(rig_script("reap"), 5), "00000000000000d2");
    const redisReply *give = rig_script("give");
    ck_assert_uint_eq(give->elements, 9);
    ck_assert_str_eq(rig_word(give, 5), "t");
    ck_assert_str_eq(rig_word(give, 6), "l1");
    ck_assert_str_eq(rig_word(give, 8), "s1");
    rig_answers(REAPED);
    rig_answers("*2\r\n:2\r\n:1\r\n");
    ck_assert_str_eq(rig_word(rig_script("give"), 6), "l1");
    answer_give(1);
    rig_quiet(NODE_COMMANDS);
    rig_end();
}

static const struct unit_test tests[] = {
    UNIT(an_opening_goes_on_as_long_as_answers_come),
    UNIT(an_opening_fails_when_nothing_is_answered),
    UNIT(a_thread_that_was_held_up_reads_before_it_gives_up),
    UNIT(gives_go_ahead_of_their_answers_up_to_a_mebibyte),
    UNIT(a_report_that_takes_long_shows_life),
    UNIT(a_late_session_leaves_the_node_alone_until_all_is_told),
    UNIT(patience_that_ends_while_a_session_opens),
    UNIT(patience_that_ends_amid_ready),
    UNIT(a_node_that_leaves_has_no_patience),
    UNIT(a_session_that_ends_the_time_alone_has_no_patience),
    UNIT(a_session_that_ends_the_time_alone_may_be_silent_within_patience),
    UNIT(as_many_reaps_go_together_as_are_quick),
    UNIT(names_that_a_reap_broke_off_are_handed_over_at_once),
};

UNIT_MAIN("node opening", tests)
