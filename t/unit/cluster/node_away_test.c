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

/* ---- reasons --------------------------------------------------------------------------------- */

static unsigned times_in_log(const char *text)
{
    unsigned times = 0;
    for (const char *at = r.log; (at = strstr(at, text)); at++)
        times++;
    return times;
}

/* Waits until the node connects, and has both wires open. */
static void connects(void)
{
    while (!r.asked[NODE_COMMANDS])
        rig_at(node_due_ns(r.node));
    rig_opens(NODE_COMMANDS);
    rig_opens(NODE_MESSAGES);
}

/* An attempt that the engine refuses. */
static void refused_with(const char *error)
{
    connects();
    rig_want(NODE_COMMANDS, "INFO");
    rig_answers("-%s\r\n", error);
}

/* An attempt that ends before there is a connection. */
static void not_reached(const char *why)
{
    while (!r.asked[NODE_COMMANDS])
        rig_at(node_due_ns(r.node));
    rig_forget(NODE_COMMANDS);
    node_closed(r.node, NODE_COMMANDS, why, r.now);
}

static const struct {
    const char *error, *says;
} errors[] = {
    {"NOAUTH Authentication required.", "set cluster.password"},
    {"NOPERM no permissions", "counterctl cluster acl"},
    {"ERR max number of clients reached", "maxclients"},
    {"ERR unknown command 'INFO', with args beginning with: ", "do not rename"},
    {"DENIED Redis is running in protected mode", "protected-mode"},
    {"NOREPLICAS Not enough good replicas to write.", "min-replicas-to-write"},
    {"MISCONF Redis is configured to save", "stop-writes-on-bgsave-error"},
    {"READONLY You can't write against a read only replica.", "primary"},
    {"LOADING Redis is loading the dataset in memory", "still loads"},
    {"BUSY Redis is busy running a script.", "SCRIPT KILL"},
    {"ERR something else", "ERR something else"},
};

TEST(each_error_is_the_reason)
{
    for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
        rig_begin("redis://e:1");
        rig_start();
        ck_assert_uint_eq(rig_seen().reasons_count, 0);
        refused_with(errors[i].error);
        ck_assert_msg(strstr(rig_seen().reasons[0].text, errors[i].says) != NULL, "%s: %s",
                      errors[i].error, rig_seen().reasons[0].text);
        ck_assert_ptr_nonnull(strstr(r.log, errors[i].says));
        rig_end();
    }
}

TEST(a_reason_is_said_when_it_comes_and_each_minute)
{
    rig_begin("redis://e:1");
    rig_start();
    not_reached("e:1: Connection refused");
    int64_t first = r.now;
    ck_assert_int_eq(rig_seen().state, NODE_AWAY);
    while (r.now < first + 59000 * MS)
        not_reached("e:1: Connection refused");
    ck_assert_uint_eq(times_in_log("Connection refused"), 1);
    uint64_t times = rig_seen().reasons[0].times;
    ck_assert_uint_gt(times, 40);
    ck_assert_int_eq(rig_seen().reasons[0].since_ns, first);
    not_reached("e:1: Connection refused");
    not_reached("e:1: Connection refused");
    ck_assert_uint_eq(times_in_log("Connection refused"), 2);
    ck_assert_ptr_nonnull(strstr(r.log, "times in 60 s)"));
    /* Another one is said at once, and counts from then; the first is not forgotten. */
    refused_with("NOREPLICAS few");
    ck_assert_int_eq(rig_seen().state, NODE_REFUSED);
    ck_assert_uint_eq(times_in_log("NOREPLICAS"), 1);
    ck_assert_int_eq(rig_seen().reasons[0].since_ns, r.now);
    ck_assert_uint_eq(rig_seen().reasons[0].times, 1);
    not_reached("e:1: Connection refused");
    ck_assert_int_eq(rig_seen().state, NODE_AWAY);
    ck_assert_ptr_nonnull(strstr(rig_seen().reasons[1].text, "NOREPLICAS"));
    ck_assert_uint_eq(rig_seen().reasons_count, 2);
    ck_assert_uint_eq(rig_seen().reasons[0].times, times + 3);
    ck_assert_int_eq(rig_seen().reasons[0].since_ns, first);
    rig_end();
}

/* Reasons that come in turn do not fill the log. */
TEST(reasons_that_alternate_are_said_once_a_minute_each)
{
    char why[32];
    rig_begin("redis://e:1");
    rig_start();
    int64_t first = r.now;
    for (unsigned i = 0; r.now < first + 50000 * MS; i++) {
        snprintf(why, sizeof(why), "reason %u", i % NODE_REASONS_MAX);
        not_reached(why);
    }
    ck_assert_uint_eq(times_in_log("reason "), NODE_REASONS_MAX);
    rig_end();
}

/* A session that is lost before its first beat is no end of the trouble. */
TEST(reasons_end_with_an_answered_beat)
{
    rig_begin("redis://e:1");
    rig_start();
    not_reached("no route");
    for (unsigned i = 0; i < 2; i++) {
        while (!r.asked[NODE_COMMANDS])
            rig_at(node_due_ns(r.node));
        rig_connect();
        rig_accepts(false);
        ck_assert_str_eq(rig_seen().reasons[0].text, "no route");
        ck_assert_int_eq(rig_seen().state, NODE_OPENING);
        node_reported(r.node, r.now);
        rig_readies();
        ck_assert_uint_eq(rig_seen().reasons_count, 0);
        if (i) {
            rig_later(FIFTH);
            rig_beats(3, false, "", 0);
        }
        rig_cut(NODE_COMMANDS);
        not_reached("no route");
        ck_assert_uint_eq(rig_seen().reasons[0].times, i ? 1 : 2);
    }
    rig_end();
}

/* What a Sentinel says, or why there is no connection to it. */
TEST(why_sentinels_name_nobody)
{
    rig_begin("sentinel://a:1,b:2,c:3/main");
    rig_start();
    rig_opens(NODE_SENTINEL);
    rig_want(NODE_SENTINEL, "SENTINEL");
    rig_say(NODE_SENTINEL, "*2\r\n$1\r\ne\r\n$1\r\n1\r\n");
    rig_opens(NODE_SENTINEL + 1);
    rig_want(NODE_SENTINEL + 1, "SENTINEL");
    rig_say(NODE_SENTINEL + 1, "*-1\r\n");
    rig_forget(NODE_SENTINEL + 2);
    node_closed(r.node, NODE_SENTINEL + 2, "c:3: Connection refused", r.now);
    rig_later(FIFTH);
    ck_assert_str_eq(rig_seen().reasons[0].text,
                     "no majority of the Sentinels names one engine; b:2: it "
                     "does not know the service of cluster.engine");
    rig_end();
}

/* ---- the password ---------------------------------------------------------------------------- */

/* An engine, or something else, that repeats what it was asked. */
TEST(the_password_is_never_quoted)
{
    static const char *const answers[] = {
        "-ERR unknown command 'AUTH', with args beginning with: 'bob' 'TOPSECRET'\r\n",
        "-WRONGPASS TOPSECRET\r\n",
        "-ERR AUTH <TOPSECRET>\r\n",
        "-TOPSECRET\r\n",
        "*3\r\n$4\r\nAUTH\r\n$3\r\nbob\r\n$9\r\nTOPSECRET\r\n",
        "$9\r\nTOPSECRET\r\n",
        "AUTH bob TOPSECRET\r\n",
        "*0\r\n",
        "$-1\r\n",
    };
    for (size_t i = 0; i < ARRAY_SIZE(answers); i++)
        for (unsigned wire = NODE_COMMANDS; wire <= NODE_MESSAGES; wire++) {
            rig_begin("redis://e:1");
            ck_assert(node_set_access(r.node, "bob", "TOPSECRET", r.now));
            rig_start();
            connects();
            rig_want(NODE_COMMANDS, "AUTH");
            if (wire == NODE_MESSAGES) {
                rig_answers("+OK\r\n$%zu\r\n%s\r\n-NOPERM no\r\n-NOPERM no\r\n", strlen(RIG_INFO),
                            RIG_INFO);
                for (unsigned n = 0; n < CLUSTER_SCRIPT_COUNT; n++)
                    rig_answers("$1\r\nx\r\n");
                rig_want(NODE_MESSAGES, "AUTH");
            }
            rig_say(wire, "%s", answers[i]);
            ck_assert(!r.asked[NODE_COMMANDS]);
            ck_assert_str_ne(rig_seen().reasons[0].text, "");
            ck_assert_ptr_null(strstr(rig_seen().reasons[0].text, "TOPSECRET"));
            ck_assert_ptr_nonnull(strstr(r.log, rig_seen().reasons[0].text));
            ck_assert_ptr_null(strstr(r.log, "TOPSECRET"));
            rig_end();
        }
}

/* What comes before the answer to AUTH is explained all the same. */
TEST(an_engine_without_room_for_a_client_with_a_password)
{
    rig_begin("redis://e:1");
    ck_assert(node_set_access(r.node, "", "TOPSECRET", r.now));
    rig_start();
    connects();
    rig_answers("-ERR max number of clients reached\r\n");
    ck_assert_ptr_nonnull(strstr(rig_seen().reasons[0].text, "maxclients"));
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
    UNIT(each_error_is_the_reason),
    UNIT(a_reason_is_said_when_it_comes_and_each_minute),
    UNIT(reasons_that_alternate_are_said_once_a_minute_each),
    UNIT(reasons_end_with_an_answered_beat),
    UNIT(why_sentinels_name_nobody),
    UNIT(the_password_is_never_quoted),
    UNIT(an_engine_without_room_for_a_client_with_a_password),
};

UNIT_MAIN("node away", tests)
