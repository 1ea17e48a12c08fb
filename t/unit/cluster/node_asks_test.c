/* The life of a request: cancelled in each state, granted early and late, done, lost with the
 * engine, told again; word by word with an engine that the test plays. */
#include "cluster/node_inside.h"
#include "t/unit/cluster/node_rig.h"

/* One op of the call under way, at this place: its words. */
static const redisReply *op_is(const redisReply *command, size_t at, const char *op,
                               const char *name)
{
    ck_assert_str_eq(rig_word(command, at), op);
    ck_assert_str_eq(rig_word(command, at + 1), name);
    return command;
}

/* The next command gives back a unit, not explicitly. */
static void goes_back(const char *name)
{
    const redisReply *give = op_is(rig_script("give"), 5, "b", name);
    ck_assert_uint_eq(give->elements, 8);
    ck_assert_str_eq(rig_word(give, 7), "1");
    rig_answers("*1\r\n:1\r\n");
}

/* The engine is lost and found again, until its `open` is answered. */
static void anew(bool grace)
{
    rig_cut(NODE_COMMANDS);
    rig_later(300 * MS);
    rig_connect();
    rig_accepts(grace);
}

/* ---- cancelling ------------------------------------------------------------------------------ */

TEST(cancelled_before_it_was_sent)
{
    struct rig_ask a, b;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_acquire(&a, NODE_WAIT_ME, "l");
    rig_script("call");
    rig_acquire(&b, NODE_WAIT_ME, "l");
    rig_cancel(&b);
    ck_assert(rig_has(&b, NODE_CANCELLED));
    rig_answers("*1\r\n:2\r\n");
    rig_quiet(NODE_COMMANDS);
    /* A wait that is not in the engine now is only forgotten. */
    anew(false);
    rig_cancel(&a);
    ck_assert(rig_has(&a, NODE_CANCELLED));
    node_reported(r.node, r.now);
    rig_readies();
    rig_quiet(NODE_COMMANDS);
    rig_end();
}

TEST(cancelled_while_its_acquisition_is_under_way)
{
    static const int answers[] = {1, 0, -1, 5};
    for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
        struct rig_ask a;
        rig_begin("redis://e:1");
        rig_live(false);
        rig_acquire(&a, answers[i] == 0 ? NODE_WAIT_NO : NODE_WAIT_ME, "l");
        rig_script("call");
        rig_cancel(&a);
        ck_assert(!a.answered);
        rig_answers("*1\r\n:%d\r\n", answers[i]);
        if (answers[i] == 1)
            goes_back("l");
        if (answers[i] == 5) {
            const redisReply *give = op_is(rig_script("give"), 5, "c", "l");
            ck_assert_str_eq(rig_word(give, 7), "ml1/1");
            ck_assert(!a.answered && !a.queued);
            rig_answers("*1\r\n:1\r\n");
        }
        ck_assert(a.answered && a.ask.result != NODE_GRANTED && a.ask.result != NODE_QUEUE_FULL);
        rig_quiet(NODE_COMMANDS);
        ck_assert_uint_eq(rig_seen().asks, 0);
        rig_end();
    }
}

/* The units come while the wait is being cancelled: before `c` is sent, or before its answer. */
TEST(units_for_a_cancelled_wait_go_back)
{
    struct rig_ask a, b;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_waits(&a, NODE_WAIT_ME, "l", 2);
    rig_acquire(&b, NODE_WAIT_NO, "l");
    rig_script("call"); /* so that `c` waits */
    rig_cancel(&a);
    rig_grants(&a);
    rig_answers("*1\r\n:0\r\n");
    const redisReply *give = rig_script("give");
    op_is(give, 5, "c", "l");
    op_is(give, 9, "b", "l");
    rig_answers("*2\r\n:0\r\n:1\r\n");
    ck_assert(rig_has(&a, NODE_CANCELLED));

    rig_waits(&a, NODE_WAIT_ME, "l", 3);
    rig_cancel(&a);
    op_is(rig_script("give"), 5, "c", "l");
    rig_grants(&a);
    rig_answers("*1\r\n:0\r\n");
    ck_assert(rig_has(&a, NODE_CANCELLED));
    goes_back("l");

    /* After it: nobody knows the id. */
    rig_waits(&a, NODE_WAIT_ME, "l", 4);
    rig_cancel(&a);
    rig_script("give");
    rig_answers("*1\r\n:0\r\n");
    rig_grants(&a);
    goes_back("l");
    rig_quiet(NODE_COMMANDS);
    ck_assert_uint_eq(rig_seen().asks, 0);
    rig_end();
}

TEST(units_before_the_answer)
{
    struct rig_ask a;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_acquire(&a, NODE_WAIT_ME, "l");
    rig_script("call");
    rig_grants(&a);
    rig_answers("*1\r\n:7\r\n");
    ck_assert(rig_has(&a, NODE_GRANTED));
    rig_acquire(&a, NODE_WAIT_ME, "l");
    rig_script("call");
    rig_grants(&a);
    rig_cancel(&a);
    rig_answers("*1\r\n:8\r\n");
    goes_back("l");
    ck_assert(rig_has(&a, NODE_CANCELLED));
    rig_end();
}

/* The engine is lost before the answer: the units were of that session. */
TEST(units_before_an_answer_that_never_comes)
{
    struct rig_ask a, b;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_waits(&a, NODE_WAIT_ME, "l", 6);
    rig_acquire(&b, NODE_WAIT_ME, "l");
    rig_script("call");
    rig_grants(&b);
    anew(false);
    node_reported(r.node, r.now);
    rig_script("give");
    rig_grants(&a);
    anew(false);
    node_reported(r.node, r.now);
    rig_script("give");
    rig_answers("*1\r\n:1\r\n");
    rig_readies();
    const redisReply *call = rig_script("call");
    op_is(call, 5, "t", "l");
    op_is(call, 7, "a", "l");
    rig_answers("*2\r\n:1\r\n:8\r\n");
    ck_assert(!a.answered && !b.answered && b.queued);
    rig_end();
}

/* ---- units while the session opens ------------------------------------------------------------
 */

TEST(units_while_opening_within_the_lease)
{
    struct rig_ask loose, strict;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_waits(&loose, NODE_WAIT_ME, "l", 2);
    rig_waits(&strict, NODE_WAIT_ME, "s", 3);
    anew(false);
    node_reported(r.node, r.now);
    rig_script("give");
    /* Before the answer of `w`, and after it. */
    rig_grants(&loose);
    ck_assert(!loose.answered);
    rig_answers("*2\r\n:1\r\n:1\r\n");
    ck_assert(rig_has(&loose, NODE_GRANTED));
    rig_grants(&strict);
    ck_assert(rig_has(&strict, NODE_GRANTED));
    /* A release of it waits for the session. */
    rig_release(&loose, "l");
    ck_assert(!loose.answered);
    rig_readies();
    op_is(rig_script("give"), 5, "r", "l");
    rig_answers("*1\r\n:1\r\n");
    ck_assert(rig_has(&loose, NODE_RELEASED));
    rig_end();
}

TEST(units_while_opening_without_a_lease)
{
    for (int cancel = 0; cancel < 2; cancel++) {
        struct rig_ask loose, strict;
        rig_begin("redis://e:1");
        rig_live(false);
        rig_waits(&loose, NODE_WAIT_ME, "l", 2);
        rig_waits(&strict, NODE_WAIT_ME, "s", 3);
        rig_at(r.lease_end);
        node_strict_closed(r.node, r.now);
        rig_later(100 * MS);
        rig_connect();
        rig_accepts(false);
        node_reported(r.node, r.now);
        rig_script("give");
        rig_answers("*2\r\n:1\r\n:1\r\n");
        rig_grants(&loose);
        rig_grants(&strict);
        ck_assert(rig_has(&loose, NODE_GRANTED) && !strict.answered);
        if (cancel)
            rig_cancel(&strict);
        rig_readies();
        if (cancel)
            goes_back("s");
        ck_assert(rig_has(&strict, cancel ? NODE_CANCELLED : NODE_GRANTED));
        rig_end();
    }
}

/* The opening fails after that: the wait is told again, with its place. */
TEST(units_of_an_opening_that_failed)
{
    struct rig_ask strict;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_waits(&strict, NODE_WAIT_ME, "s", 3);
    rig_at(r.lease_end);
    node_strict_closed(r.node, r.now);
    rig_later(100 * MS);
    rig_connect();
    rig_accepts(false);
    node_reported(r.node, r.now);
    rig_script("give");
    rig_answers("*1\r\n:1\r\n");
    rig_grants(&strict);
    anew(false);
    node_reported(r.node, r.now);
    const redisReply *give = op_is(rig_script("give"), 5, "w", "s");
    ck_assert_str_eq(rig_word(give, 9), "3");
    rig_answers("*1\r\n:1\r\n");
    rig_readies();
    ck_assert(!strict.answered);
    rig_end();
}

/* ---- DONE ------------------------------------------------------------------------------------ */

TEST(done_for_waits_up_to_its_seq)
{
    struct rig_ask any[3], me;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_waits(&any[0], NODE_WAIT_ANY, "l", 2);
    rig_waits(&me, NODE_WAIT_ME, "l", 3);
    rig_waits(&any[1], NODE_WAIT_ANY, "l", 5);
    rig_acquire(&any[2], NODE_WAIT_ANY, "l");
    rig_script("call");
    rig_message("D 4 l");
    ck_assert(rig_has(&any[0], NODE_DONE) && !any[1].answered && !me.answered);
    /* Its place comes late, and is before the D. */
    rig_answers("*1\r\n:4\r\n");
    ck_assert(rig_has(&any[2], NODE_DONE));
    ck_assert(!any[2].queued);
    rig_quiet(NODE_COMMANDS);
    /* The highest number ever seen goes with `open`. */
    rig_message("D 77 other");
    rig_cut(NODE_COMMANDS);
    rig_later(100 * MS);
    rig_connect();
    ck_assert_str_eq(rig_word(rig_script("open"), 9), "77");
    rig_end();
}

TEST(done_of_another_term_is_forgotten)
{
    for (int same = 0; same < 2; same++) {
        struct rig_ask me, any;
        rig_begin("redis://e:1");
        rig_live(false);
        rig_waits(&me, NODE_WAIT_ME, "l", 50);
        rig_message("D 60 l");
        rig_cut(NODE_COMMANDS);
        rig_later(100 * MS);
        rig_connect();
        rig_script("open");
        rig_answers("*3\r\n$4\r\nOPEN\r\n$5\r\n%s\r\n:0\r\n", same ? TERM : "aa:cc");
        node_reported(r.node, r.now);
        rig_script("give");
        rig_answers("*1\r\n:1\r\n");
        rig_readies();
        rig_script("give");
        rig_answers("*1\r\n:1\r\n");
        rig_acquire(&any, NODE_WAIT_ANY, "l");
        rig_script("call");
        rig_answers("*1\r\n:55\r\n");
        ck_assert(any.answered == (same != 0));
        rig_end();
    }
}

TEST(done_is_kept_only_while_somebody_waits)
{
    struct rig_ask any;
    rig_begin("redis://e:1");
    rig_live(false);
    for (unsigned i = 0; i < 100; i++) {
        char text[32];
        snprintf(text, sizeof(text), "D %u l%u", i + 2, i);
        rig_message(text);
    }
    ck_assert_uint_eq(r.node->names_count, 0);
    rig_waits(&any, NODE_WAIT_ANY, "l", 200);
    rig_message("D 200 l");
    ck_assert(rig_has(&any, NODE_DONE));
    ck_assert_uint_eq(r.node->names_count, 0);
    rig_end();
}

/* A wait that is told again comes to the engine behind the D that ends it. */
TEST(done_while_a_wait_is_told_again)
{
    struct rig_ask any;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_waits(&any, NODE_WAIT_ANY, "l", 20);
    anew(false);
    node_reported(r.node, r.now);
    rig_script("give");
    rig_message("D 30 l");
    ck_assert(!any.answered);
    rig_answers("*1\r\n:1\r\n");
    rig_readies();
    const redisReply *give = op_is(rig_script("give"), 5, "c", "l");
    ck_assert_str_eq(rig_word(give, 7), "al1/1");
    rig_answers("*1\r\n:1\r\n");
    ck_assert(rig_has(&any, NODE_DONE));
    rig_end();
}

/* ---- releases ------------------------------------------------------------------------------- */

TEST(a_release_that_was_lost_is_done)
{
    struct rig_ask any, fresh, me, done;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_waits(&any, NODE_WAIT_ANY, "l", 20);
    rig_waits(&me, NODE_WAIT_ME, "l", 21);
    rig_release(&done, "l");
    rig_script("give");
    rig_acquire(&fresh, NODE_WAIT_ANY, "l");
    rig_cut(NODE_COMMANDS);
    ck_assert(rig_has(&done, NODE_RELEASED) && rig_has(&any, NODE_DONE) && !me.answered);
    ck_assert(!fresh.answered); /* it came after the release */
    /* A release while the engine is away ends all waits that came before it. */
    rig_release(&done, "l");
    ck_assert(rig_has(&done, NODE_RELEASED) && rig_has(&fresh, NODE_DONE));
    rig_later(100 * MS);
    rig_connect();
    rig_accepts(false);
    node_reported(r.node, r.now);
    const redisReply *give = op_is(rig_script("give"), 5, "w", "l");
    ck_assert_uint_eq(give->elements, 10);
    ck_assert_str_eq(rig_word(give, 9), "21");
    rig_end();
}

/* The end of a connection makes nobody DONE. */
TEST(an_end_while_away_is_no_done)
{
    struct rig_ask any, end;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_waits(&any, NODE_WAIT_ANY, "l", 20);
    rig_cut(NODE_COMMANDS);
    end = (struct rig_ask){
        .ask = {.op = NODE_RELEASE, .by_end = true, .units = 1, .name = bytes_of("l")}};
    node_submit(r.node, &end.ask, r.now);
    ck_assert(rig_has(&end, NODE_RELEASED) && !any.answered);
    rig_end();
}

TEST(a_release_is_reported_or_sent)
{
    struct rig_ask before, after;
    rig_begin("redis://e:1");
    rig_live(false);
    uint32_t old = r.report;
    anew(false);
    /* This thread has given its part; the other one has not. */
    rig_release(&after, "l");
    ck_assert(!after.answered);
    uint32_t new = r.report;
    r.report = old;
    rig_release(&before, "l2");
    ck_assert(rig_has(&before, NODE_RELEASED));
    r.report = new;
    node_report(r.node, bytes_of("l"), 3);
    node_report(r.node, bytes_of("l"), 4);
    node_reported(r.node, r.now);
    const redisReply *give = op_is(rig_script("give"), 5, "s", "l");
    ck_assert_str_eq(rig_word(give, 7), "7");
    ck_assert_uint_eq(give->elements, 8);
    rig_answers("*1\r\n:1\r\n");
    rig_readies();
    op_is(rig_script("give"), 5, "r", "l");
    rig_quiet(NODE_COMMANDS);
    rig_end();
}

/* A report that was asked for a session before is not asserted. */
TEST(an_old_report_is_not_asserted)
{
    rig_begin("redis://e:1");
    rig_live(false);
    anew(false);
    unsigned reports = r.reports;
    node_report(r.node, bytes_of("l"), 3);
    anew(false);
    ck_assert_uint_eq(r.reports, reports);
    node_report(r.node, bytes_of("l"), 3);
    node_reported(r.node, r.now);
    ck_assert_uint_eq(r.reports, reports + 1);
    node_report(r.node, bytes_of("l"), 1);
    node_reported(r.node, r.now);
    ck_assert_str_eq(rig_word(op_is(rig_script("give"), 5, "s", "l"), 7), "1");
    rig_end();
}

TEST(units_that_the_engine_does_not_have)
{
    struct rig_ask a;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_release(&a, "l");
    rig_script("give");
    rig_answers("*1\r\n:-2\r\n");
    ck_assert(rig_has(&a, NODE_RELEASED));
    ck_assert(!r.asked[NODE_COMMANDS] && !r.asked[NODE_MESSAGES]);
    ck_assert_uint_eq(rig_seen().losses[NODE_LOSS_LEDGER], 1);
    ck_assert_ptr_nonnull(strstr(r.log, "fewer units"));
    rig_end();
}

TEST(what_is_not_finished_goes_on_at_once)
{
    struct rig_ask a;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_release(&a, "l");
    rig_script("give");
    rig_answers("*1\r\n:2\r\n");
    ck_assert(rig_has(&a, NODE_RELEASED));
    for (unsigned i = 0; i < 3; i++) {
        op_is(rig_script("give"), 5, "t", "l");
        rig_answers("*1\r\n:%d\r\n", i < 2 ? 2 : 1);
    }
    rig_quiet(NODE_COMMANDS);
    ck_assert_uint_eq(r.node->names_count, 0);
    /* Names of others, too. */
    rig_later(FIFTH);
    rig_script("beat");
    rig_answers("*3\r\n:0\r\n*2\r\n$1\r\nx\r\n$3\r\na b\r\n*2\r\n$16\r\n%s\r\n:2\r\n", r.session);
    const redisReply *give = op_is(rig_script("give"), 5, "t", "x");
    op_is(give, 7, "t", "a b");
    rig_answers("*2\r\n:1\r\n:1\r\n");
    ck_assert_uint_eq(r.node->names_count, 0);
    rig_end();
}

/* ---- a full engine ----------------------------------------------------------------------------
 */

TEST(a_full_engine)
{
    struct rig_ask first, wait, a, b, c, release, get;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_waits(&wait, NODE_WAIT_ME, "l3", 2);
    rig_acquire(&first, NODE_WAIT_NO, "l");
    rig_script("call");
    rig_acquire(&a, NODE_WAIT_ME, "l");
    rig_release(&release, "l2");
    rig_acquire(&b, NODE_WAIT_NO, "s");
    rig_cancel(&wait);
    rig_submit(&get, NODE_GET, NODE_WAIT_NO, bytes_of("l4"), 0, 0);
    rig_acquire(&c, NODE_WAIT_ME, "l");
    rig_answers("*1\r\n:0\r\n");
    rig_script("call");
    rig_cancel(&c);
    rig_answers("-OOM command not allowed when used memory > 'maxmemory'.\r\n");
    ck_assert(rig_has(&a, NODE_ENGINE_FULL) && rig_has(&b, NODE_ENGINE_FULL));
    ck_assert(rig_has(&c, NODE_CANCELLED));
    ck_assert(!release.answered && !wait.answered && !get.answered);
    const redisReply *give = rig_script("give");
    op_is(give, 5, "r", "l2");
    op_is(give, 8, "c", "l3");
    op_is(give, 12, "g", "l4");
    rig_answers("*3\r\n:1\r\n:1\r\n*2\r\n:3\r\n:4\r\n");
    ck_assert(rig_has(&release, NODE_RELEASED) && rig_has(&wait, NODE_CANCELLED));
    ck_assert(rig_has(&get, NODE_COUNTED) && get.ask.count_units == 3 && get.ask.count_waits == 4);
    ck_assert_int_eq(rig_seen().state, NODE_LIVE);
    /* Of `give` it is an error like others. */
    rig_release(&release, "l2");
    rig_script("give");
    rig_answers("-OOM no\r\n");
    rig_script("give");
    rig_answers("-OOM no\r\n");
    ck_assert(!r.asked[NODE_COMMANDS]);
    ck_assert(rig_has(&release, NODE_RELEASED));
    rig_end();
}

/* ---- acquisitions and the loss of the engine ---------------------------------------------------
 */

TEST(what_was_not_answered_is_sent_again)
{
    struct rig_ask fresh[3], queued;
    rig_begin("redis://e:1");
    rig_live(false);
    for (unsigned i = 0; i < 3; i++) {
        fresh[i] = (struct rig_ask){.ask = {.op = NODE_ACQUIRE,
                                            .wait = (enum node_wait)i,
                                            .units = 2,
                                            .limit = 3,
                                            .queue_max = 9,
                                            .id = r.next_id++,
                                            .name = bytes_of("l")}};
        node_submit(r.node, &fresh[i].ask, r.now);
    }
    node_flush(r.node, r.now);
    rig_script("call");
    anew(false);
    /* One that was a wait, but has lost its place. */
    queued = fresh[1];
    queued.ask.id = r.next_id++;
    queued.ask.queued = queued.queued = true;
    node_submit(r.node, &queued.ask, r.now);
    node_reported(r.node, r.now);
    rig_readies();
    const redisReply *call = rig_script("call");
    ck_assert_uint_eq(call->elements, 5 + 4 * 4);
    for (size_t i = 0; i < 4; i++) {
        static const char *const classes[] = {"al2/3/0", "nl2/3/9", "al2/3/9", "ml2/3/9"};
        char id[24];
        snprintf(id, sizeof(id), "%llu", (unsigned long long)(i ? fresh[i - 1] : queued).ask.id);
        op_is(call, 5 + 4 * i, "a", "l");
        ck_assert_str_eq(rig_word(call, 7 + 4 * i), classes[i]);
        ck_assert_str_eq(rig_word(call, 8 + 4 * i), id);
    }
    /* Queued, lost, told again with the place; lost again while that is under way. */
    rig_answers("*4\r\n:10\r\n:0\r\n:11\r\n:12\r\n");
    for (unsigned i = 0; i < 2; i++) {
        anew(false);
        node_report(r.node, bytes_of("l"), 5);
        node_reported(r.node, r.now);
        const redisReply *give = rig_script("give");
        op_is(give, 5, "s", "l");
        ck_assert_str_eq(rig_word(give, 7), "5");
        op_is(give, 8, "w", "l");
        ck_assert_uint_eq(give->elements, 8 + 3 * 5);
    }
    rig_answers("*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n");
    rig_readies();
    ck_assert_uint_eq(queued.ask.seq, 10);
    ck_assert_uint_eq(fresh[1].ask.seq, 11);
    ck_assert_uint_eq(fresh[2].ask.seq, 12);
    rig_end();
}

TEST(waits_without_a_place_get_it_by_age)
{
    static const int64_t since[] = {5, 9, 3, 7, 3, 1};
    static const unsigned order[] = {5, 2, 4, 0, 3, 1};
    struct rig_ask waits[6], release, fresh;
    rig_begin("redis://e:1");
    rig_live(false);
    anew(false);
    node_report(r.node, bytes_of("l"), 2);
    release = (struct rig_ask){.ask = {.op = NODE_RELEASE, .units = 1, .name = bytes_of("l")}};
    release.ask.report = r.report;
    node_submit(r.node, &release.ask, r.now);
    for (unsigned i = 0; i < 6; i++) {
        waits[i] = (struct rig_ask){.queued = true,
                                    .ask = {.op = NODE_ACQUIRE,
                                            .wait = i % 2 ? NODE_WAIT_ME : NODE_WAIT_ANY,
                                            .units = 1,
                                            .limit = 2,
                                            .id = 100 + i,
                                            .since_ns = since[i],
                                            .queued = true,
                                            .name = bytes_of("l")}};
        node_submit(r.node, &waits[i].ask, r.now);
    }
    fresh = waits[0];
    fresh.ask.queued = fresh.queued = false;
    fresh.ask.id = 200;
    fresh.ask.since_ns = 0;
    node_submit(r.node, &fresh.ask, r.now);
    node_reported(r.node, r.now);
    rig_script("give");
    rig_answers("*1\r\n:1\r\n");
    rig_readies();
    const redisReply *call = rig_script("call");
    for (unsigned i = 0; i < 6; i++) {
        char id[24];
        snprintf(id, sizeof(id), "%u", 100 + order[i]);
        ck_assert_str_eq(rig_word(op_is(call, 5 + 4 * i, "a", "l"), 8 + 4 * i), id);
    }
    op_is(call, 5 + 4 * 6, "r", "l");
    ck_assert_str_eq(rig_word(op_is(call, 8 + 4 * 6, "a", "l"), 11 + 4 * 6), "200");
    ck_assert_uint_eq(call->elements, 5 + 4 * 7 + 3);
    rig_answers("*8\r\n:2\r\n:3\r\n:4\r\n:5\r\n:6\r\n:7\r\n:1\r\n:8\r\n");
    ck_assert_uint_eq(waits[5].ask.seq, 2);
    rig_end();
}

/* Any error while it tells what it has begins again, and all is told again. */
TEST(an_error_while_asserting_begins_again)
{
    static const char *const errors[] = {"*1\r\n:0\r\n",      "*0\r\n",          "*1\r\n:2\r\n",
                                         "*1\r\n$1\r\n1\r\n", "-SESSION no\r\n", "-ERR no\r\n",
                                         "*1\r\n-ERR no\r\n"};
    for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
        rig_begin("redis://e:1");
        rig_live(false);
        anew(false);
        node_report(r.node, bytes_of("l"), 3);
        node_reported(r.node, r.now);
        rig_script("give");
        rig_answers("%s", errors[i]);
        ck_assert_msg(!r.asked[NODE_COMMANDS], "%s", errors[i]);
        rig_later(200 * MS);
        rig_connect();
        rig_accepts(false);
        node_report(r.node, bytes_of("l"), 2);
        node_reported(r.node, r.now);
        ck_assert_str_eq(rig_word(op_is(rig_script("give"), 5, "s", "l"), 7), "2");
        rig_end();
    }
}

/* ---- reloads and upgrades ----------------------------------------------------------------------
 */

TEST(other_patterns_open_anew)
{
    struct rig_ask own, now_strict, get;
    char reason[PATTERNS_REASON_SIZE];
    rig_begin("redis://e:1");
    rig_live(false);
    rig_waits(&own, NODE_WAIT_ME, "l", 5);
    rig_waits(&now_strict, NODE_WAIT_ME, "l2", 6);
    rig_submit(&get, NODE_GET, NODE_WAIT_NO, bytes_of("l"), 0, 0);
    rig_script("give");
    patterns_free(&r.patterns);
    r.patterns = patterns_new("l2", NULL, NULL, reason);
    node_set_patterns(r.node, r.patterns, r.now);
    ck_assert(rig_has(&own, NODE_ALONE) && rig_has(&get, NODE_ALONE) && !now_strict.answered);
    ck_assert(!r.asked[NODE_COMMANDS]);
    /* At once. */
    rig_at(r.now);
    rig_connect();
    const redisReply *open = rig_script("open");
    ck_assert_str_eq(rig_word(open, 7), patterns_digest(r.patterns));
    rig_answers("*3\r\n$4\r\nOPEN\r\n$5\r\n" TERM "\r\n:0\r\n");
    node_report(r.node, bytes_of("l"), 1);
    node_report(r.node, bytes_of("l2"), 2);
    node_reported(r.node, r.now);
    const redisReply *give = op_is(rig_script("give"), 5, "s", "l2");
    op_is(give, 8, "w", "l2");
    ck_assert_str_eq(rig_word(give, 10), "ms1/1");
    ck_assert_uint_eq(give->elements, 13);
    rig_end();
}

TEST(a_successor_goes_on_where_it_was)
{
    struct rig_ask loose;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_message("D 44 l");
    rig_cut(NODE_COMMANDS);
    int64_t lost = r.now;
    rig_later(300 * MS);
    rig_succeed();
    rig_start();
    rig_acquire(&loose, NODE_WAIT_ME, "l");
    /* Patience is that of the predecessor, and so is the number. */
    rig_at(lost + 1000 * MS - 1);
    ck_assert(!loose.answered);
    rig_connect();
    ck_assert_str_eq(rig_word(rig_script("open"), 9), "44");
    rig_at(lost + 1000 * MS);
    ck_assert(rig_has(&loose, NODE_ALONE));
    /* Strict holders may be there: a namesake closes them. */
    rig_answers("*5\r\n$4\r\nNODE\r\n$16\r\n00000000000000aa\r\n$1\r\nw\r\n:1\r\n:4000\r\n");
    ck_assert_uint_eq(r.closings, 1);
    rig_end();
}

/* A hand over that was not sent is none of the next session. */
TEST(hand_overs_end_with_the_session)
{
    struct rig_ask a;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_later(FIFTH - 500 * MS);
    rig_acquire(&a, NODE_WAIT_NO, "l");
    rig_script("call");
    rig_later(500 * MS);
    rig_script("beat");
    rig_answers("*1\r\n:1\r\n");
    rig_release(&a, "l");
    rig_script("give");
    rig_answers("*3\r\n:0\r\n*1\r\n$1\r\nx\r\n*2\r\n$16\r\n%s\r\n:2\r\n", r.session);
    anew(false);
    ck_assert_uint_eq(r.node->names_count, 0);
    node_reported(r.node, r.now);
    rig_readies();
    rig_quiet(NODE_COMMANDS);
    rig_end();
}

/* ---- patience -------------------------------------------------------------------------------- */

TEST(patience_is_not_begun_anew_by_an_opening_that_fails)
{
    struct rig_ask loose;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_cut(NODE_COMMANDS);
    int64_t lost = r.now;
    rig_acquire(&loose, NODE_WAIT_ME, "l");
    rig_later(100 * MS);
    rig_connect();
    rig_accepts(false);
    /* While it opens, too, requests wait for no longer. */
    rig_at(lost + 1000 * MS - 1);
    ck_assert(!loose.answered && r.alone == 0);
    rig_at(lost + 1000 * MS);
    ck_assert(rig_has(&loose, NODE_ALONE));
    /* It fails: patience was over already. */
    rig_cut(NODE_MESSAGES);
    rig_later(200 * MS);
    rig_connect();
    rig_acquire(&loose, NODE_WAIT_ME, "l");
    ck_assert(rig_has(&loose, NODE_ALONE));
    rig_accepts(false);
    rig_acquire(&loose, NODE_WAIT_ME, "l");
    ck_assert(rig_has(&loose, NODE_ALONE));
    ck_assert_uint_eq(r.alone, 1);
    rig_end();
}

TEST(patience_counts_from_the_start)
{
    struct rig_ask loose, strict;
    rig_begin("redis://e:1");
    rig_start();
    rig_acquire(&loose, NODE_WAIT_ME, "l");
    rig_acquire(&strict, NODE_WAIT_NO, "s");
    int64_t start = r.now;
    rig_later(900 * MS);
    rig_cut(NODE_COMMANDS);
    rig_at(start + 1000 * MS - 1);
    ck_assert(!loose.answered && !strict.answered);
    rig_at(start + 1000 * MS);
    ck_assert(rig_has(&loose, NODE_ALONE) && rig_has(&strict, NODE_ENGINE_AWAY));
    rig_end();
}

/* Its place is kept through the table. */
TEST(a_loose_wait_keeps_its_place)
{
    struct rig_ask wait;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_waits(&wait, NODE_WAIT_ME, "l", 40);
    rig_cut(NODE_COMMANDS);
    rig_later(1000 * MS);
    ck_assert(rig_has(&wait, NODE_ALONE));
    ck_assert_uint_eq(wait.ask.seq, 40);
    rig_connect();
    rig_accepts(false);
    node_reported(r.node, r.now);
    wait.answered = false;
    wait.ask.queued = true;
    node_submit(r.node, &wait.ask, r.now);
    node_reported(r.node, r.now);
    ck_assert_str_eq(rig_word(op_is(rig_script("give"), 5, "w", "l"), 9), "40");
    rig_end();
}

static const struct unit_test tests[] = {
    UNIT(cancelled_before_it_was_sent),
    UNIT(cancelled_while_its_acquisition_is_under_way),
    UNIT(units_for_a_cancelled_wait_go_back),
    UNIT(units_before_the_answer),
    UNIT(units_before_an_answer_that_never_comes),
    UNIT(units_while_opening_within_the_lease),
    UNIT(units_while_opening_without_a_lease),
    UNIT(units_of_an_opening_that_failed),
    UNIT(done_for_waits_up_to_its_seq),
    UNIT(done_of_another_term_is_forgotten),
    UNIT(done_is_kept_only_while_somebody_waits),
    UNIT(done_while_a_wait_is_told_again),
    UNIT(a_release_that_was_lost_is_done),
    UNIT(an_end_while_away_is_no_done),
    UNIT(a_release_is_reported_or_sent),
    UNIT(an_old_report_is_not_asserted),
    UNIT(units_that_the_engine_does_not_have),
    UNIT(what_is_not_finished_goes_on_at_once),
    UNIT(a_full_engine),
    UNIT(what_was_not_answered_is_sent_again),
    UNIT(waits_without_a_place_get_it_by_age),
    UNIT(an_error_while_asserting_begins_again),
    UNIT(other_patterns_open_anew),
    UNIT(a_successor_goes_on_where_it_was),
    UNIT(hand_overs_end_with_the_session),
    UNIT(patience_is_not_begun_anew_by_an_opening_that_fails),
    UNIT(patience_counts_from_the_start),
    UNIT(a_loose_wait_keeps_its_place),
};

UNIT_MAIN("node asks", tests)
