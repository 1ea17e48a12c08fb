/* The lease of a node, its sessions and those of others: each rule that keeps two nodes from
 * holding the same unit, word by word with an engine that the test plays. */
#include "t/unit/cluster/node_rig.h"

/* ---- the lease ------------------------------------------------------------------------------- */

TEST(open_does_not_renew)
{
    rig_begin("redis://e:1");
    rig_live(false);
    int64_t end = r.lease_end;
    ck_assert_int_eq(end, r.now + TENTHS(9));
    r.now += 3000 * MS;
    rig_cut(NODE_COMMANDS);
    rig_later(100 * MS);
    rig_connect();
    rig_accepts(false);
    ck_assert_int_eq(r.lease_end, end);
    node_reported(r.node, r.now);
    int64_t sent = r.now;
    r.now += 500 * MS;
    ck_assert_int_eq(r.lease_end, end);
    rig_readies();
    ck_assert_int_eq(r.lease_end, sent + TENTHS(9));
    rig_end();
}

/* Everything that comes from outside looks at the lease before it does anything. */
static struct rig_ask entry_ask, entry_wait;

static void by_tick(void)
{
    node_tick(r.node, r.now);
}

static void by_flush(void)
{
    node_flush(r.node, r.now);
}

static void by_message(void)
{
    rig_grants(&entry_wait);
}

static void by_beat(void)
{
    /* It would renew the lease, but comes too late. */
    rig_answers("*3\r\n:0\r\n*0\r\n*2\r\n$16\r\n%s\r\n:2\r\n", r.session);
}

static void by_closed(void)
{
    rig_forget(NODE_MESSAGES);
    node_closed(r.node, NODE_MESSAGES, "a test", r.now);
}

static void by_submit(void)
{
    entry_ask = (struct rig_ask){
        .ask = {.op = NODE_ACQUIRE, .units = 1, .limit = 1, .id = 99, .name = bytes_of("s2")}};
    node_submit(r.node, &entry_ask.ask, r.now);
}

static void by_cancel(void)
{
    node_cancel(r.node, entry_wait.ask.id, r.now);
}

static void by_anew(void)
{
    node_open_anew(r.node, "a test", r.now);
}

static void by_patience(void)
{
    node_set_patience(r.node, 5000 * MS, r.now);
}

static void by_patterns(void)
{
    node_set_patterns(r.node, r.patterns, r.now);
}

static void by_leave(void)
{
    node_leave(r.node, r.now);
}

static void by_park(void)
{
    node_park(r.node, r.now);
}

TEST(every_entry_looks_at_the_lease_first)
{
    static void (*const entries[])(void) = {by_tick,     by_flush,    by_message, by_beat,
                                            by_closed,   by_submit,   by_cancel,  by_anew,
                                            by_patience, by_patterns, by_leave,   by_park};
    for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
        rig_begin("redis://e:1");
        rig_live(false);
        rig_waits(&entry_wait, NODE_WAIT_ME, "s1", 2);
        rig_later(FIFTH);
        rig_script("beat");
        r.now = r.lease_end;
        entries[i]();
        ck_assert_msg(r.closings == 1, "entry %zu", i);
        ck_assert_int_eq(r.lease_end, 0);
        ck_assert_uint_eq(rig_seen().leases_lost, 1);
        ck_assert(!r.asked[NODE_COMMANDS] && !r.asked[NODE_MESSAGES]);
        ck_assert(!rig_has(&entry_wait, NODE_GRANTED));
        rig_end();
    }
}

/* A wire that opens, a report and closed holders are entries as well. */
TEST(entries_of_an_opening_look_first)
{
    for (unsigned i = 0; i < 3; i++) {
        rig_begin("redis://e:1");
        rig_live(false);
        int64_t end = r.lease_end;
        r.now += 8000 * MS;
        rig_cut(NODE_COMMANDS);
        rig_later(100 * MS);
        if (i > 0) {
            rig_connect();
            rig_accepts(false);
        }
        r.now = end;
        if (i == 0) {
            r.open[NODE_COMMANDS] = true;
            node_opened(r.node, NODE_COMMANDS, r.now);
        } else if (i == 1) {
            node_reported(r.node, r.now);
        } else {
            node_strict_closed(r.node, r.now);
        }
        ck_assert_uint_eq(r.closings, 1);
        ck_assert(!r.asked[NODE_COMMANDS]);
        rig_end();
    }
}

TEST(after_the_lease_strict_are_closed_then_open_without_last)
{
    rig_begin("redis://e:1");
    rig_live(false);
    char session[17];
    memcpy(session, r.session, sizeof(session));
    r.now += 100 * MS;
    rig_cut(NODE_COMMANDS);
    rig_later(100 * MS);
    rig_connect();
    /* Within the lease: the session is named. */
    ck_assert_str_eq(rig_word(rig_script("open"), 10), session);
    rig_at(r.lease_end);
    ck_assert_uint_eq(r.closings, 1);
    rig_later(200 * MS);
    rig_connect();
    rig_quiet(NODE_COMMANDS);
    rig_later(FIFTH / 2);
    rig_quiet(NODE_COMMANDS);
    node_strict_closed(r.node, r.now);
    ck_assert_str_eq(rig_word(rig_script("open"), 10), "-");
    rig_end();
}

TEST(reaped_closes_then_opens_without_last)
{
    rig_begin("redis://e:1");
    rig_live(false);
    rig_later(100 * MS);
    rig_cut(NODE_COMMANDS);
    rig_later(100 * MS);
    rig_connect();
    rig_script("open");
    rig_answers("*1\r\n$6\r\nREAPED\r\n");
    ck_assert_uint_eq(r.closings, 1);
    ck_assert_int_eq(r.lease_end, 0);
    rig_later(FIFTH);
    rig_quiet(NODE_COMMANDS);
    node_strict_closed(r.node, r.now);
    ck_assert_str_eq(rig_word(rig_script("open"), 10), "-");
    /* A second REAPED makes no sense. */
    rig_answers("*1\r\n$6\r\nREAPED\r\n");
    ck_assert(!r.asked[NODE_COMMANDS]);
    rig_end();
}

static void answer_node(unsigned beat)
{
    rig_answers("*5\r\n$4\r\nNODE\r\n$16\r\n00000000000000aa\r\n$10\r\nboot/1/9/"
                "9\r\n$%d\r\n%u\r\n:4000\r\n",
                beat < 10 ? 1 : 2, beat);
}

TEST(a_namesake_closes_strict_holders)
{
    rig_begin("redis://e:1");
    rig_live(false);
    rig_later(100 * MS);
    rig_cut(NODE_COMMANDS);
    rig_later(100 * MS);
    rig_connect();
    rig_script("open");
    answer_node(5);
    ck_assert_uint_eq(r.closings, 1);
    /* Nobody here holds strict units any more: there is no lease to lose. */
    ck_assert_int_eq(r.lease_end, 0);
    rig_later(FIFTH);
    rig_quiet(NODE_COMMANDS);
    node_strict_closed(r.node, r.now);
    ck_assert_str_eq(rig_word(rig_script("open"), 10), "-");
    answer_node(5);
    ck_assert_uint_eq(r.closings, 1);
    /* The beat changes, then stays for the engine's lease of 4 seconds. */
    rig_later(FIFTH);
    rig_script("open");
    answer_node(6);
    for (unsigned i = 0; i < 2; i++) {
        rig_later(FIFTH);
        ck_assert_uint_eq(rig_script("open")->elements, 11);
        answer_node(6);
    }
    const redisReply *open = rig_script("open");
    ck_assert_str_eq(rig_word(open, 11), "00000000000000aa");
    ck_assert_str_eq(rig_word(open, 12), "6");
    rig_end();
}

TEST(a_namesake_that_is_gone_is_over_at_once)
{
    rig_begin("redis://e:1");
    rig_start();
    rig_connect();
    rig_script("open");
    r.gone = true;
    answer_node(5);
    ck_assert_str_eq(r.is_gone_asked, "boot/1/9/9");
    ck_assert_uint_eq(r.closings, 0);
    const redisReply *open = rig_script("open");
    ck_assert_str_eq(rig_word(open, 11), "00000000000000aa");
    ck_assert_str_eq(rig_word(open, 12), "-");
    /* It is not said twice: then `open` waits. */
    answer_node(5);
    rig_quiet(NODE_COMMANDS);
    rig_later(FIFTH);
    rig_script("open");
    rig_end();
}

TEST(what_stands_in_the_way_is_said_each_minute)
{
    rig_begin("redis://e:1");
    rig_start();
    rig_connect();
    for (unsigned i = 0; i <= 31; i++) {
        rig_script("open");
        rig_answers("*4\r\n$5\r\nLEASE\r\n:4000\r\n$16\r\n00000000000000bb\r\n$%d\r\n%u\r\n",
                    i < 10 ? 1 : 2, i);
        rig_later(FIFTH);
    }
    char *first = strstr(r.log, "4000 ms");
    ck_assert_ptr_nonnull(first);
    char *second = strstr(first + 1, "4000 ms");
    ck_assert_ptr_nonnull(second);
    ck_assert_ptr_null(strstr(second + 1, "4000 ms"));
    rig_end();
}

TEST(many_sessions_that_are_over_fit_into_an_open)
{
    enum { COUNT = 400 };
    static char answer[COUNT * 40 + 64];
    int at = snprintf(answer, sizeof(answer), "*%d\r\n$5\r\nLEASE\r\n:4000\r\n", 2 + 2 * COUNT);
    for (unsigned i = 0; i < COUNT; i++)
        at += snprintf(answer + at, sizeof(answer) - (size_t)at, "$16\r\n%016x\r\n$1\r\n7\r\n",
                       i + 1);
    rig_begin("redis://e:1");
    rig_start();
    rig_connect();
    const redisReply *open = rig_script("open");
    for (unsigned i = 0; i < 40 && open->elements == 11; i++) {
        rig_answers("%s", answer);
        open = rig_take(NODE_COMMANDS);
        if (open)
            break;
        rig_later(FIFTH);
        open = rig_script("open");
    }
    ck_assert_uint_eq(open->elements, 11 + 2 * COUNT);
    rig_end();
}

/* ---- watching -------------------------------------------------------------------------------- */

#define OTHER(beat) "$16\r\n00000000000000cc\r\n$1\r\n" #beat "\r\n"

/* Beats go on until the time; the other session's does not. */
static unsigned beat_until(int64_t until, unsigned beat, const char *other)
{
    while (r.now + FIFTH <= until) {
        rig_later(FIFTH);
        rig_beats(++beat, false, other, 1);
        rig_quiet(NODE_COMMANDS);
    }
    return beat;
}

TEST(a_silent_session_is_reaped_after_a_lease_on_this_connection)
{
    rig_begin("redis://e:1");
    rig_live(false);
    int64_t live = r.now;
    unsigned beat = beat_until(live + 4 * FIFTH, 1, OTHER(7));
    rig_cut(NODE_COMMANDS);
    rig_later(100 * MS);
    rig_connect();
    rig_accepts(false);
    node_reported(r.node, r.now);
    rig_readies();
    /* The first beat on the new connection counts, not that on the old one. */
    live = r.now;
    beat = beat_until(live + 5 * FIFTH, beat, OTHER(7));
    rig_later(FIFTH);
    rig_beats(++beat, false, OTHER(7), 1);
    const redisReply *reap = rig_script("reap");
    ck_assert_str_eq(rig_word(reap, 5), "00000000000000cc");
    ck_assert_str_eq(rig_word(reap, 6), "7");
    ck_assert_str_eq(rig_word(reap, 7), "0");
    /* It goes on as long as anything is left. */
    rig_answers("*3\r\n:200\r\n$4\r\nu123\r\n*0\r\n");
    ck_assert_str_eq(rig_word(rig_script("reap"), 5), "00000000000000cc");
    rig_answers(REAPED);
    rig_quiet(NODE_COMMANDS);
    rig_end();
}

/* ---- what `ready` lists -----------------------------------------------------------------------
 */

TEST(sessions_of_before_are_reaped_beside_calls)
{
    struct rig_ask a;
    rig_begin("redis://e:1");
    rig_start();
    rig_connect();
    rig_accepts(false);
    rig_acquire(&a, NODE_WAIT_NO, "l");
    node_reported(r.node, r.now);
    rig_script("ready");
    rig_answers("*4\r\n$16\r\n00000000000000d1\r\n:3\r\n$16\r\n00000000000000d2\r\n$1\r\n4\r\n");
    ck_assert_str_eq(rig_word(rig_script("reap"), 5), "00000000000000d1");
    rig_script("call");
    rig_quiet(NODE_COMMANDS);
    rig_answers("*3\r\n:1\r\n$2\r\nw0\r\n*0\r\n");
    rig_answers("*1\r\n:1\r\n");
    ck_assert(rig_has(&a, NODE_GRANTED));
    rig_script("reap");
    rig_answers(REAPED);
    const redisReply *reap = rig_script("reap");
    ck_assert_str_eq(rig_word(reap, 5), "00000000000000d2");
    ck_assert_str_eq(rig_word(reap, 6), "4");
    rig_answers(REAPED);
    rig_quiet(NODE_COMMANDS);
    rig_end();
}

/* ---- grace ----------------------------------------------------------------------------------- */

TEST(grace_is_ended_by_who_saw_it_for_a_lease)
{
    struct rig_ask strict;
    rig_begin("redis://e:1");
    rig_live(true);
    int64_t live = r.now;
    rig_waits(&strict, NODE_WAIT_ME, "s", 2);
    unsigned beat = 1;
    while (r.now + FIFTH < live + LEASE) {
        rig_later(FIFTH);
        rig_beats(++beat, true, "", 0);
        rig_quiet(NODE_COMMANDS);
    }
    rig_at(live + LEASE);
    rig_beats(++beat, true, "", 0);
    ck_assert_str_eq(rig_word(rig_script("grace"), 5), TERM);
    rig_answers(":1\r\n");
    /* Clients that wait are looked at again. */
    /* All waits are looked at again. */
    const redisReply *call = rig_script("give");
    ck_assert_str_eq(rig_word(call, 5), "t");
    ck_assert_str_eq(rig_word(call, 6), "s");
    rig_end();
}

TEST(hand_overs_after_ready)
{
    struct rig_ask strict, loose;
    for (int grace = 0; grace < 2; grace++) {
        rig_begin("redis://e:1");
        rig_live(false);
        rig_waits(&strict, NODE_WAIT_ME, "s", 2);
        rig_waits(&loose, NODE_WAIT_ANY, "l", 3);
        rig_cut(NODE_MESSAGES);
        rig_later(100 * MS);
        rig_connect();
        rig_accepts(grace);
        node_reported(r.node, r.now);
        const redisReply *give = rig_script("give");
        ck_assert_str_eq(rig_word(give, 5), "w");
        ck_assert_str_eq(rig_word(give, 6), "s");
        ck_assert_str_eq(rig_word(give, 7), "ms1/1");
        ck_assert_str_eq(rig_word(give, 9), "2");
        ck_assert_str_eq(rig_word(give, 10), "w");
        ck_assert_str_eq(rig_word(give, 12), "al1/1");
        ck_assert_str_eq(rig_word(give, 14), "3");
        rig_answers("*2\r\n:1\r\n:1\r\n");
        rig_readies();
        give = rig_script("give");
        ck_assert_str_eq(rig_word(give, 6), "s");
        ck_assert_uint_eq(give->elements, grace ? 7 : 9);
        rig_answers(grace ? "*1\r\n:1\r\n" : "*2\r\n:1\r\n:1\r\n");
        rig_later(FIFTH);
        rig_beats(2, grace, "", 0);
        if (grace) {
            give = rig_script("give");
            ck_assert_str_eq(rig_word(give, 6), "l");
            ck_assert_uint_eq(give->elements, 7);
        } else {
            rig_quiet(NODE_COMMANDS);
        }
        rig_end();
    }
}

/* ---- patterns -------------------------------------------------------------------------------- */

#define PEER(name, digest)                                                                         \
    "*10\r\n$16\r\n00000000000000a" name "\r\n$1\r\n" name                                         \
    "\r\n$4\r\nlive\r\n$1\r\n1\r\n$1\r\n" digest "\r\n:0\r\n:0\r\n:-1\r\n:9\r\n:0\r\n"

/* Each node with other patterns is named, once. */
TEST(nodes_with_other_patterns_are_named)
{
    rig_begin("redis://e:1");
    rig_start();
    rig_connect();
    rig_accepts(false);
    node_reported(r.node, r.now);
    rig_readies();
    for (unsigned beat = 2; beat < 20; beat++) {
        r.look = beat < 8 ? "*2\r\n" PEER("b", "x") PEER("c", "y") : "*1\r\n" PEER("c", "z");
        rig_later(FIFTH);
        rig_beats(beat, false, "", 0);
        rig_quiet(NODE_COMMANDS);
    }
    char *both = strstr(r.log, "b, c");
    ck_assert_ptr_nonnull(both);
    ck_assert_ptr_null(strstr(both + 1, "b, c"));
    char *one = strstr(both, ": c;");
    ck_assert_ptr_nonnull(one);
    ck_assert_ptr_null(strstr(one + 1, ": c;"));
    size_t count;
    const struct node_peer *peers = node_peers(r.node, &count);
    ck_assert_uint_eq(count, 1);
    ck_assert_str_eq(peers[0].node, "c");
    rig_end();
}

/* ---- other nodes ----------------------------------------------------------------------------- */

#define BEAT(name, number) "$16\r\n00000000000000a" name "\r\n$1\r\n" number "\r\n"

static void beat_shows(unsigned beat, const char *others, unsigned others_count, size_t peers_count)
{
    size_t count;
    rig_later(FIFTH);
    rig_beats(beat, false, others, others_count);
    rig_at(r.now);
    rig_quiet(NODE_COMMANDS);
    (void)node_peers(r.node, &count);
    ck_assert_uint_eq(count, peers_count);
}

/* Who came or left is known with the next beat, not a lease later. */
TEST(nodes_that_come_or_leave_are_looked_at_with_the_next_beat)
{
    rig_begin("redis://e:1");
    r.look = "*1\r\n" PEER("b", "x");
    rig_live(false);
    beat_shows(2, BEAT("b", "1"), 1, 1);
    r.look = "*2\r\n" PEER("b", "x") PEER("c", "x");
    beat_shows(3, BEAT("b", "2") BEAT("c", "1"), 2, 2);
    r.look = "*1\r\n" PEER("c", "x");
    beat_shows(4, BEAT("c", "2"), 1, 1);
    r.look = NULL; /* but no look without a change */
    beat_shows(5, BEAT("c", "3"), 1, 1);
    rig_end();
}

/* ---- silence --------------------------------------------------------------------------------- */

TEST(a_beat_must_be_answered_and_heard)
{
    rig_begin("redis://e:1");
    rig_live(false);
    rig_later(FIFTH);
    rig_script("beat");
    rig_later(FIFTH - 1);
    ck_assert(r.asked[NODE_COMMANDS]);
    rig_later(1);
    ck_assert(!r.asked[NODE_COMMANDS] && !r.asked[NODE_MESSAGES]);
    ck_assert_uint_eq(rig_seen().losses[NODE_LOSS_SLOW], 1);
    rig_later(100 * MS);
    rig_connect();
    rig_accepts(false);
    node_reported(r.node, r.now);
    rig_readies();
    rig_later(FIFTH);
    rig_script("beat");
    rig_answers("*3\r\n:0\r\n*0\r\n*2\r\n$16\r\n%s\r\n$1\r\n2\r\n", r.session);
    rig_later(FIFTH - 1);
    ck_assert(r.asked[NODE_COMMANDS]);
    rig_later(1);
    ck_assert(!r.asked[NODE_COMMANDS] && !r.asked[NODE_MESSAGES]);
    ck_assert_uint_eq(rig_seen().losses[NODE_LOSS_DEAF], 1);
    rig_end();
}

/* Each step of an opening has lease / 5 for its answer. */
TEST(each_answer_of_an_opening_has_a_limit)
{
    for (unsigned step = 0; step < 5; step++) {
        rig_begin("redis://e:1");
        rig_start();
        if (step >= 1)
            rig_opens(NODE_COMMANDS);
        if (step >= 1)
            rig_opens(NODE_MESSAGES); /* INFO is asked */
        if (step >= 2) {
            rig_want(NODE_COMMANDS, "INFO");
            rig_answers("$%zu\r\n%s\r\n", strlen(RIG_INFO), RIG_INFO);
            rig_answers_settings();
            rig_answers("$1\r\na\r\n");
        }
        for (unsigned i = 1; step >= 3 && i < CLUSTER_SCRIPT_COUNT; i++)
            rig_answers("$1\r\na\r\n");
        if (step >= 4)
            rig_say(NODE_MESSAGES, "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n");
        rig_later(FIFTH - 1);
        ck_assert_msg(r.asked[NODE_COMMANDS], "step %u", step);
        rig_later(1);
        ck_assert_msg(!r.asked[NODE_COMMANDS] && !r.asked[NODE_MESSAGES], "step %u", step);
        ck_assert_uint_eq(rig_seen().losses[NODE_LOSS_SLOW], 1);
        rig_end();
    }
}

TEST(attempts_come_after_growing_times)
{
    int64_t waits[12];
    rig_begin("redis://e:1");
    rig_start();
    for (size_t i = 0; i < ARRAY_SIZE(waits); i++) {
        rig_cut(NODE_COMMANDS);
        int64_t lost = r.now;
        while (!r.asked[NODE_COMMANDS])
            rig_at(node_due_ns(r.node));
        waits[i] = r.now - lost;
    }
    ck_assert_int_ge(waits[0], 50 * MS);
    ck_assert_int_lt(waits[0], 100 * MS);
    ck_assert_int_ge(waits[1], 100 * MS);
    ck_assert_int_ge(waits[3], 400 * MS);
    ck_assert_int_ge(waits[11], LEASE / 10);
    ck_assert_int_le(waits[11], LEASE / 10 * 5 / 4);
    /* Neither `open` nor `ready` that succeeds is enough; a beat is. */
    rig_connect();
    rig_accepts(false);
    rig_reported();
    rig_cut(NODE_COMMANDS);
    ck_assert_int_ge(node_due_ns(r.node), r.now + LEASE / 10);
    while (!r.asked[NODE_COMMANDS])
        rig_at(node_due_ns(r.node));
    for (unsigned beats = 0; beats < 2; beats++) {
        rig_connect();
        rig_accepts(false);
        rig_reported();
        rig_readies();
        if (beats) {
            rig_later(FIFTH);
            rig_beats(3, false, "", 0);
        }
        rig_cut(NODE_COMMANDS);
        ck_assert(beats ? node_due_ns(r.node) < r.now + 100 * MS
                        : node_due_ns(r.node) >= r.now + LEASE / 10);
        while (!r.asked[NODE_COMMANDS])
            rig_at(node_due_ns(r.node));
    }
    rig_end();
}

/* Sessions with another lease that were silent for it are over: `open` names them, and they are
 * reaped behind this node's own. */
TEST(sessions_in_the_way_are_ended_then_reaped)
{
    rig_begin("redis://e:1");
    rig_start();
    rig_connect();
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_uint_eq(rig_script("open")->elements, 11);
        rig_answers("*4\r\n$5\r\nLEASE\r\n:4000\r\n$16\r\n00000000000000bb\r\n$1\r\n8\r\n");
        if (i < 2)
            rig_later(FIFTH);
    }
    const redisReply *open = rig_script("open");
    ck_assert_str_eq(rig_word(open, 11), "00000000000000bb");
    ck_assert_str_eq(rig_word(open, 12), "8");
    rig_answers("*3\r\n$4\r\nOPEN\r\n$5\r\n" TERM "\r\n:0\r\n");
    rig_reported();
    rig_script("ready");
    rig_answers("*2\r\n$16\r\n00000000000000d1\r\n:3\r\n");
    ck_assert_str_eq(rig_word(rig_script("reap"), 5), "00000000000000d1");
    rig_answers(REAPED);
    const redisReply *reap = rig_script("reap");
    ck_assert_str_eq(rig_word(reap, 5), "00000000000000bb");
    ck_assert_str_eq(rig_word(reap, 6), "8");
    rig_answers(REAPED);
    rig_quiet(NODE_COMMANDS);
    rig_end();
}

/* ---- the end --------------------------------------------------------------------------------- */

TEST(leaves_after_what_it_gave_back)
{
    struct rig_ask a, late;
    rig_begin("redis://e:1");
    rig_live(false);
    rig_release(&a, "l");
    rig_script("give");
    node_leave(r.node, r.now);
    rig_acquire(&late, NODE_WAIT_ME, "l");
    ck_assert(rig_has(&late, NODE_ENGINE_AWAY));
    rig_later(1);
    rig_quiet(NODE_COMMANDS);
    rig_answers("*1\r\n:1\r\n");
    int64_t begun = r.now;
    unsigned leaves = 0;
    /* Units are on their way: they are given back, and it leaves again, for a fifth of the lease.
     */
    while (!node_has_left(r.node)) {
        const redisReply *command = rig_want(NODE_COMMANDS, "EVALSHA");
        if (strcmp(rig_word(command, 1), "beat") == 0) {
            rig_answers("*3\r\n:0\r\n*0\r\n*2\r\n$16\r\n%s\r\n:2\r\n", r.session);
            continue;
        }
        ck_assert_str_eq(rig_word(command, 1), "leave");
        rig_answers("-HOLDS the session has units or waits\r\n");
        leaves++;
        if (leaves == 2) {
            rig_message("G 77 1 l");
            rig_script("give");
            rig_later(LEASE / 50);
            rig_quiet(NODE_COMMANDS);
            rig_answers("*1\r\n:1\r\n");
        } else if (!node_has_left(r.node)) {
            rig_later(LEASE / 50);
        }
    }
    ck_assert_int_ge(r.now, begun + FIFTH - 1);
    ck_assert_int_lt(r.now, begun + FIFTH + LEASE / 50);
    ck_assert_uint_ge(leaves, 9);
    rig_end();
}

TEST(a_node_that_could_not_leave_still_loses_its_lease)
{
    rig_begin("redis://e:1");
    rig_live(false);
    int64_t end = r.lease_end;
    rig_cut(NODE_COMMANDS);
    node_leave(r.node, r.now);
    ck_assert(!node_has_left(r.node)); /* it tries once more */
    rig_at(r.now);
    rig_cut(NODE_COMMANDS);
    ck_assert(node_has_left(r.node));
    ck_assert_int_eq(node_due_ns(r.node), end);
    rig_at(end);
    ck_assert_uint_eq(r.closings, 1);
    ck_assert_int_eq(node_due_ns(r.node), INT64_MAX);
    rig_end();
}

TEST(an_upgrade_does_not_forget_to_close_strict_holders)
{
    rig_begin("redis://e:1");
    rig_live(false);
    rig_at(r.lease_end);
    ck_assert_uint_eq(r.closings, 1);
    /* Nobody has said that they are closed. */
    rig_succeed();
    node_start(r.node, r.now);
    ck_assert_uint_eq(r.closings, 2);
    rig_at(r.now);
    rig_connect();
    rig_quiet(NODE_COMMANDS);
    node_strict_closed(r.node, r.now);
    ck_assert_str_eq(rig_word(rig_script("open"), 10), "-");
    rig_end();
}

TEST(a_successor_names_its_predecessors_sessions)
{
    rig_begin("redis://e:1");
    rig_live(false);
    int64_t end = r.lease_end;
    char live[17], opened[17];
    memcpy(live, r.session, sizeof(live));
    rig_cut(NODE_COMMANDS);
    rig_later(100 * MS);
    rig_connect();
    rig_accepts(false);
    memcpy(opened, r.session, sizeof(opened));
    rig_succeed();
    rig_start();
    ck_assert_int_eq(r.lease_end, end);
    for (unsigned i = 0; i < 2; i++) {
        rig_connect();
        const redisReply *open = rig_script("open");
        ck_assert_str_eq(rig_word(open, 10), live);
        ck_assert_str_eq(rig_word(open, 11), opened);
        ck_assert_str_eq(rig_word(open, 12), "-");
        /* Also on the next connection, until `open` succeeds. */
        rig_cut(NODE_COMMANDS);
        rig_later(200 * MS);
    }
    rig_end();
}

static const struct unit_test tests[] = {
    UNIT(open_does_not_renew),
    UNIT(every_entry_looks_at_the_lease_first),
    UNIT(entries_of_an_opening_look_first),
    UNIT(after_the_lease_strict_are_closed_then_open_without_last),
    UNIT(reaped_closes_then_opens_without_last),
    UNIT(a_namesake_closes_strict_holders),
    UNIT(a_namesake_that_is_gone_is_over_at_once),
    UNIT(what_stands_in_the_way_is_said_each_minute),
    UNIT(many_sessions_that_are_over_fit_into_an_open),
    UNIT(a_silent_session_is_reaped_after_a_lease_on_this_connection),
    UNIT(sessions_of_before_are_reaped_beside_calls),
    UNIT(grace_is_ended_by_who_saw_it_for_a_lease),
    UNIT(hand_overs_after_ready),
    UNIT(nodes_with_other_patterns_are_named),
    UNIT(nodes_that_come_or_leave_are_looked_at_with_the_next_beat),
    UNIT(a_beat_must_be_answered_and_heard),
    UNIT(sessions_in_the_way_are_ended_then_reaped),
    UNIT(each_answer_of_an_opening_has_a_limit),
    UNIT(attempts_come_after_growing_times),
    UNIT(leaves_after_what_it_gave_back),
    UNIT(a_node_that_could_not_leave_still_loses_its_lease),
    UNIT(an_upgrade_does_not_forget_to_close_strict_holders),
    UNIT(a_successor_names_its_predecessors_sessions),
};

UNIT_MAIN("node lease", tests)
