/* node_away_test.c - an engine that does not do what a node needs: how long clients wait for it. */
#include "cluster/node_inside.h"
#include "t/unit/cluster/node_rig.h"

/* ---- calls without an answer ----------------------------------------------------------------- */

static void set_patience(int64_t ns)
{
    node_set_patience(r.node, ns, r.now);
}

TEST(a_call_without_an_answer_ends_patience)
{
    struct rig_ask loose, strict, wait;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_acquire(&loose, NODE_WAIT_NO, "l");
    rig_script("call");
    rig_later(500 * MS);
    rig_acquire(&strict, NODE_WAIT_NO, "s");
    rig_acquire(&wait, NODE_WAIT_ME, "s");
    rig_at(r.now + 500 * MS - 1);
    ck_assert(r.open[NODE_COMMANDS] && !r.alone && !loose.answered);
    ck_assert_int_eq(node_due_ns(r.node), r.now + 1);
    rig_at(r.now + 1);
    ck_assert(!r.open[NODE_COMMANDS] && !r.open[NODE_MESSAGES]);
    ck_assert_uint_eq(r.alone, 1);
    ck_assert(rig_has(&loose, NODE_ALONE) && rig_has(&strict, NODE_ENGINE_AWAY));
    ck_assert(wait.queued && !wait.answered);
    ck_assert_uint_eq(rig_seen().losses[NODE_LOSS_SLOW], 1);
    rig_end();
}

TEST(a_call_has_a_fifth_of_a_second_without_patience)
{
    struct rig_ask a;
    rig_begin("redis://e:1");
    rig_live(false);
    set_patience(0);
    rig_acquire(&a, NODE_WAIT_NO, "l");
    rig_script("call");
    rig_later(200 * MS - 1);
    ck_assert(r.open[NODE_COMMANDS] && !r.alone);
    rig_later(1);
    ck_assert(!r.open[NODE_COMMANDS] && r.alone == 1 && rig_has(&a, NODE_ALONE));
    rig_end();
}

TEST(each_call_has_its_own_patience)
{
    struct rig_ask a, b;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_acquire(&a, NODE_WAIT_NO, "l");
    rig_script("call");
    rig_acquire(&b, NODE_WAIT_NO, "l");
    rig_later(900 * MS);
    rig_answers("*1\r\n:1\r\n");
    rig_script("call");
    rig_later(900 * MS);
    rig_answers("*1\r\n:0\r\n");
    ck_assert(rig_has(&a, NODE_GRANTED) && rig_has(&b, NODE_BUSY));
    ck_assert_int_ge(node_due_ns(r.node), r.now + 1);
    ck_assert(r.open[NODE_COMMANDS] && !r.alone);
    rig_end();
}

/* A call that a full engine refused goes again, and its clients have waited already. */
TEST(a_call_that_goes_again_has_the_patience_of_the_first)
{
    struct rig_ask a;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_release(&a, "l");
    rig_script("give");
    rig_later(600 * MS);
    rig_answers("-OOM full\r\n");
    rig_script("give");
    rig_later(400 * MS);
    ck_assert(!r.open[NODE_COMMANDS] && rig_has(&a, NODE_RELEASED));
    rig_end();
}

/* A long patience: beats find out first, and what a client has waited by then counts. */
TEST(patience_counts_from_the_oldest_call)
{
    struct rig_ask a;
    rig_begin("redis://e:1");
    rig_live(false);
    set_patience(5000 * MS);
    int64_t sent = r.now;
    rig_acquire(&a, NODE_WAIT_NO, "l");
    rig_script("call");
    while (r.open[NODE_COMMANDS])
        rig_at(node_due_ns(r.node));
    ck_assert_int_eq(r.now, sent + 2 * FIFTH);
    ck_assert(!r.alone && !a.answered);
    rig_at(sent + 5000 * MS - 1);
    ck_assert(!r.alone);
    rig_at(sent + 5000 * MS);
    ck_assert(r.alone == 1 && rig_has(&a, NODE_ALONE));
    rig_end();
}

/* An engine that opens sessions and answers no call: patience is over with each, at once. */
TEST(patience_does_not_begin_anew_with_a_session_that_hangs)
{
    struct rig_ask a[4];
    rig_begin("redis://e:1");
    rig_start();
    for (size_t i = 0; i < ARRAY_SIZE(a); i++) {
        while (!r.asked[NODE_COMMANDS])
            rig_at(node_due_ns(r.node));
        rig_connect();
        rig_accepts(false);
        rig_reported();
        rig_readies();
        rig_acquire(&a[i], NODE_WAIT_NO, "l");
        rig_script("call");
        rig_later(1000 * MS);
        ck_assert(!r.open[NODE_COMMANDS] && rig_has(&a[i], NODE_ALONE));
        ck_assert_uint_eq(r.alone, i + 1);
        /* No beat was answered: the next attempt comes later each time. */
        ck_assert_int_ge(r.node->retry_ns, r.now + (INT64_C(50) << i) * MS);
    }
    rig_end();
}

TEST(a_node_that_leaves_has_no_clients_that_wait)
{
    struct rig_ask a;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_release(&a, "l");
    rig_script("give");
    node_leave(r.node, r.now);
    rig_later(1500 * MS);
    ck_assert(r.open[NODE_COMMANDS]);
    rig_answers("*1\r\n:1\r\n");
    rig_script("leave");
    rig_answers(":1\r\n");
    ck_assert(node_has_left(r.node) && !strstr(r.log, "this node ends while"));
    rig_end();
}

static const struct unit_test tests[] = {
    UNIT(a_call_without_an_answer_ends_patience),
    UNIT(a_call_has_a_fifth_of_a_second_without_patience),
    UNIT(each_call_has_its_own_patience),
    UNIT(a_call_that_goes_again_has_the_patience_of_the_first),
    UNIT(patience_counts_from_the_oldest_call),
    UNIT(patience_does_not_begin_anew_with_a_session_that_hangs),
    UNIT(a_node_that_leaves_has_no_clients_that_wait),
};

UNIT_MAIN("node away", tests)
