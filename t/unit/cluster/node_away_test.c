/* node_away_test.c - an engine that does not do what a node needs: how long clients wait for it. */
#include "cluster/node_inside.h"
#include "t/unit/cluster/node_rig.h"

/* ---- calls without an answer ----------------------------------------------------------------- */

/* The owner reads between the two ticks. */
static void late_at(int64_t now)
{
    rig_at(now);
    ck_assert(r.open[NODE_COMMANDS]);
    ck_assert_int_le(node_due_ns(r.node), r.now);
    rig_at(now);
}

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
    late_at(r.now + 1);
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
    late_at(r.now + 1);
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

/* The node stood still, and the answer is there. */
TEST(an_answer_that_came_while_the_node_stood_still)
{
    struct rig_ask a;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_acquire(&a, NODE_WAIT_NO, "l");
    rig_script("call");
    rig_later(1500 * MS);
    rig_answers("*1\r\n:1\r\n");
    rig_at(r.now);
    ck_assert(rig_has(&a, NODE_GRANTED) && r.open[NODE_COMMANDS] && !r.alone);
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
    late_at(r.now + 400 * MS);
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
        late_at(r.now + 1000 * MS);
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

/* ---- keys that another program has written --------------------------------------------------- */

#define WRONG "-WRONGTYPE {p}:k:x\r\n"

static unsigned times_in_log(const char *text)
{
    unsigned times = 0;
    for (const char *at = r.log; (at = strstr(at, text)); at++)
        times++;
    return times;
}

/* A beat; then `t` of names with a wrong key, with this answer. */
static void tries_again(unsigned beat, const char *answer)
{
    rig_at(r.now + FIFTH);
    rig_beats(beat, false, "", 0);
    const redisReply *command = rig_script("give");
    ck_assert_str_eq(rig_word(command, 5), "t");
    ck_assert_int_eq((int)command->elements, 7);
    rig_answers("*1\r\n%s", answer);
}

/* The next session, up to the report. */
static void opens_anew(void)
{
    ck_assert(!r.open[NODE_COMMANDS]);
    while (!r.asked[NODE_COMMANDS])
        rig_at(node_due_ns(r.node));
    rig_connect();
    rig_accepts(false);
}

TEST(a_wrong_key_stops_no_other_name)
{
    struct rig_ask first, asks[6], later[3];
    rig_begin("redis://e:1");
    rig_live(false);
    rig_acquire(&first, NODE_WAIT_NO, "s");
    rig_script("call");
    rig_acquire(&asks[0], NODE_WAIT_NO, "sx");
    rig_acquire(&asks[1], NODE_WAIT_ME, "sx");
    rig_acquire(&asks[2], NODE_WAIT_NO, "lx");
    rig_acquire(&asks[3], NODE_WAIT_ANY, "lx");
    rig_submit(&asks[4], NODE_GET, NODE_WAIT_NO, bytes_of("lx"), 0, 0);
    rig_acquire(&asks[5], NODE_WAIT_NO, "s2");
    rig_answers("*1\r\n:1\r\n");
    rig_script("call");
    rig_answers("*6\r\n" WRONG WRONG WRONG WRONG WRONG ":1\r\n");
    ck_assert(rig_has(&asks[0], NODE_ENGINE_AWAY) && rig_has(&asks[1], NODE_ENGINE_AWAY));
    ck_assert(!asks[1].queued && rig_has(&asks[2], NODE_ALONE) && rig_has(&asks[3], NODE_ALONE));
    ck_assert(rig_has(&asks[4], NODE_ALONE) && rig_has(&asks[5], NODE_GRANTED));
    ck_assert_uint_eq(rig_seen().wrong_names, 2);
    ck_assert_str_eq(rig_seen().wrong_key, "{p}:k:x");
    /* From now on the engine is not asked. */
    rig_acquire(&later[0], NODE_WAIT_ME, "sx");
    rig_acquire(&later[1], NODE_WAIT_ME, "lx");
    rig_quiet(NODE_COMMANDS);
    ck_assert(rig_has(&later[0], NODE_ENGINE_AWAY) && rig_has(&later[1], NODE_ALONE));
    rig_acquire(&later[2], NODE_WAIT_NO, "s2");
    rig_script("call");
    rig_answers("*1\r\n:0\r\n");
    ck_assert(rig_has(&later[2], NODE_BUSY) && !r.alone);
    rig_end();
}

TEST(a_wrong_key_is_tried_with_each_beat_and_said_each_minute)
{
    struct rig_ask a;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_acquire(&a, NODE_WAIT_NO, "lx");
    rig_script("call");
    rig_answers("*1\r\n" WRONG);
    unsigned beat = 3;
    for (; beat < 3 + 29; beat++)
        tries_again(beat, WRONG);
    ck_assert_uint_eq(times_in_log("{p}:k:x is not what"), 1);
    tries_again(beat++, WRONG);
    ck_assert_uint_eq(times_in_log("{p}:k:x is not what"), 2);
    tries_again(beat, ":1\r\n");
    opens_anew();
    node_report(r.node, bytes_of("lx"), 1);
    node_reported(r.node, r.now);
    ck_assert_str_eq(rig_word(rig_script("give"), 5), "s");
    rig_answers("*1\r\n:1\r\n");
    rig_readies();
    ck_assert_uint_eq(rig_seen().wrong_names, 0);
    ck_assert_uint_eq(r.node->names_count, 0);
    rig_acquire(&a, NODE_WAIT_NO, "lx");
    rig_script("call");
    rig_answers("*1\r\n:1\r\n");
    ck_assert(rig_has(&a, NODE_GRANTED));
    rig_end();
}

/* Units go back all the same. */
TEST(releases_of_a_name_with_a_wrong_key)
{
    struct rig_ask strict, any, me, loose, untold;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_waits(&any, NODE_WAIT_ANY, "sx", 5);
    rig_waits(&me, NODE_WAIT_ME, "sx", 6);
    rig_release(&strict, "sx");
    rig_script("give");
    rig_answers("*1\r\n" WRONG);
    ck_assert(rig_has(&strict, NODE_RELEASED) && rig_has(&any, NODE_DONE) && !me.answered);
    rig_release(&loose, "lx");
    rig_script("give");
    rig_answers("*1\r\n" WRONG);
    /* What this node alone has admitted the engine does not have. */
    rig_release(&untold, "lx");
    rig_script("give");
    rig_answers("*1\r\n:-2\r\n");
    ck_assert(rig_has(&loose, NODE_RELEASED) && rig_has(&untold, NODE_RELEASED));
    ck_assert(r.open[NODE_COMMANDS]);
    rig_release(&strict, "sx");
    rig_script("give");
    rig_answers("*1\r\n:-2\r\n");
    ck_assert(!r.open[NODE_COMMANDS]);
    rig_end();
}

/* Strict waits keep their place; they are told once the key is right. */
TEST(waits_for_a_name_with_a_wrong_key)
{
    struct rig_ask strict, gone, loose, a;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_waits(&strict, NODE_WAIT_ME, "sx", 5);
    rig_waits(&gone, NODE_WAIT_ME, "sx", 6);
    rig_waits(&loose, NODE_WAIT_ME, "lx", 7);
    rig_acquire(&a, NODE_WAIT_NO, "sx");
    rig_script("call");
    rig_answers("*1\r\n" WRONG);
    rig_acquire(&a, NODE_WAIT_NO, "lx");
    rig_script("call");
    rig_answers("*1\r\n" WRONG);
    ck_assert(!strict.answered && rig_has(&loose, NODE_ALONE));
    rig_cancel(&gone);
    ck_assert(rig_has(&gone, NODE_CANCELLED));
    rig_quiet(NODE_COMMANDS);
    /* Units that come all the same go back. */
    rig_grants(&strict);
    ck_assert_str_eq(rig_word(rig_script("give"), 5), "b");
    rig_answers("*1\r\n" WRONG);
    /* Another session does not tell them while the key is wrong. */
    rig_cut(NODE_COMMANDS);
    opens_anew();
    node_reported(r.node, r.now);
    rig_readies();
    rig_later(FIFTH);
    rig_beats(3, false, "", 0);
    rig_script("give");
    rig_answers("*2\r\n:1\r\n" WRONG);
    opens_anew();
    node_reported(r.node, r.now);
    const redisReply *command = rig_script("give");
    ck_assert_str_eq(rig_word(command, 5), "w");
    ck_assert_str_eq(rig_word(command, 9), "5");
    rig_answers("*1\r\n:1\r\n");
    rig_readies();
    rig_grants(&strict);
    ck_assert(rig_has(&strict, NODE_GRANTED));
    rig_end();
}

/* A wait that can't be told: no `ready`; the next session leaves it out. */
TEST(a_wrong_key_while_opening)
{
    struct rig_ask strict, loose;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_waits(&strict, NODE_WAIT_ME, "sx", 5);
    rig_waits(&loose, NODE_WAIT_ME, "lx", 6);
    rig_cut(NODE_COMMANDS);
    for (unsigned i = 0; i < 2; i++) {
        opens_anew();
        node_reported(r.node, r.now);
        ck_assert_str_eq(rig_word(rig_script("give"), 5), "w");
        rig_answers(i == 0 ? "*2\r\n" WRONG ":1\r\n" : "*1\r\n" WRONG);
    }
    ck_assert(!strict.answered && rig_has(&loose, NODE_ALONE));
    opens_anew();
    node_reported(r.node, r.now);
    rig_readies();
    rig_end();
}

TEST(wrong_keys_while_opening_cost_one_session)
{
    struct rig_ask strict, loose, other;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_waits(&strict, NODE_WAIT_ME, "sx", 5);
    rig_waits(&other, NODE_WAIT_ME, "sy", 6);
    rig_waits(&loose, NODE_WAIT_ME, "lx", 7);
    rig_cut(NODE_COMMANDS);
    opens_anew();
    node_reported(r.node, r.now);
    rig_script("give");
    rig_answers("*3\r\n" WRONG ":1\r\n" WRONG);
    ck_assert(!strict.answered && !other.answered && rig_has(&loose, NODE_ALONE));
    opens_anew();
    node_reported(r.node, r.now);
    ck_assert_str_eq(rig_word(rig_script("give"), 6), "sy");
    rig_answers("*1\r\n:1\r\n");
    rig_readies();
    rig_end();
}

/* Names of other nodes come with beats, and are tried while they are in `more`. */
TEST(a_wrong_key_of_other_nodes)
{
    rig_begin("redis://e:1");
    rig_live(false);
    for (unsigned beat = 3; beat < 5; beat++) {
        rig_later(FIFTH);
        rig_script("beat");
        rig_answers("*3\r\n:0\r\n*1\r\n$2\r\nlx\r\n*2\r\n$16\r\n%s\r\n:%u\r\n", r.session, beat);
        char text[32];
        snprintf(text, sizeof(text), "B %u", beat);
        rig_message(text);
        rig_script("give");
        rig_answers("*1\r\n%s", beat == 3 ? WRONG : ":1\r\n");
    }
    ck_assert(r.open[NODE_COMMANDS]);
    ck_assert_uint_eq(rig_seen().wrong_names, 0);
    ck_assert_uint_eq(r.node->names_count, 0);
    rig_end();
}

TEST(other_patterns_forget_wrong_keys)
{
    struct rig_ask a;
    char reason[URL_REASON_SIZE];
    rig_begin("redis://e:1");
    rig_live(false);
    rig_acquire(&a, NODE_WAIT_NO, "lx");
    rig_script("call");
    rig_answers("*1\r\n" WRONG);
    struct patterns *patterns = patterns_new("s*", "m*", NULL, reason);
    node_set_patterns(r.node, patterns, r.now);
    patterns_free(&patterns);
    ck_assert_uint_eq(rig_seen().wrong_names, 0);
    ck_assert_uint_eq(r.node->names_count, 0);
    rig_end();
}

/* ---- reasons --------------------------------------------------------------------------------- */

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
    UNIT(an_answer_that_came_while_the_node_stood_still),
    UNIT(a_call_that_goes_again_has_the_patience_of_the_first),
    UNIT(patience_counts_from_the_oldest_call),
    UNIT(patience_does_not_begin_anew_with_a_session_that_hangs),
    UNIT(a_node_that_leaves_has_no_clients_that_wait),
    UNIT(a_wrong_key_stops_no_other_name),
    UNIT(a_wrong_key_is_tried_with_each_beat_and_said_each_minute),
    UNIT(releases_of_a_name_with_a_wrong_key),
    UNIT(waits_for_a_name_with_a_wrong_key),
    UNIT(a_wrong_key_while_opening),
    UNIT(wrong_keys_while_opening_cost_one_session),
    UNIT(a_wrong_key_of_other_nodes),
    UNIT(other_patterns_forget_wrong_keys),
    UNIT(each_error_is_the_reason),
    UNIT(a_reason_is_said_when_it_comes_and_each_minute),
    UNIT(reasons_that_alternate_are_said_once_a_minute_each),
    UNIT(reasons_end_with_an_answered_beat),
    UNIT(why_sentinels_name_nobody),
    UNIT(the_password_is_never_quoted),
    UNIT(an_engine_without_room_for_a_client_with_a_password),
};

UNIT_MAIN("node away", tests)
