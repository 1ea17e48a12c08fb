/* ends_test.c - ends of connections: a client's end that is served first or closes at once, over
 * each transport, and a protocol's own reasons. */
#include "t/unit/net/late.h"

static const enum transport transports[] = {TRANSPORT_TCP, TRANSPORT_TLS, TRANSPORT_UNIX};

/* More than half of it stops the next request, so less than that is queued at once. */
enum { OUTPUT_LIMIT = 4 << 20, MIB = 1 << 20 };

/* A server of one worker with TLS, which runs. */
static void start(struct toy_server *s, struct pki *pki, enum input_end input_end,
                  struct late_count *count)
{
    struct server_limits limits = toy_limits();
    limits.output_buffer = OUTPUT_LIMIT;
    late_make(s, 1, 32, limits);
    s->row.input_end = input_end;
    s->row.ended = input_end == INPUT_END_SERVED ? late_ended : NULL;
    pki_make(pki);
    s->secure = true;
    secure_rules(s, limits, pki_tls(pki, "server", TLS_VERIFY_OFF, TLS_VERSION_1_2));
    if (count)
        late_count_iterations(s, 0, count);
    toy_run(s);
}

static void stop(struct toy_server *s, struct pki *pki)
{
    toy_stop(s);
    pki_remove(pki);
}

/* ---- served first --------------------------------------------------------------------------- */

/* The end comes while an answer is pending and another, of a MiB, does not fit into the socket. */
TEST(end_is_served_after_all_that_came_before_it)
{
    struct toy_server s;
    struct pki pki;
    struct late_count count;
    start(&s, &pki, INPUT_END_SERVED, &count);
    for (unsigned i = 0; i < ARRAY_SIZE(transports); i++) {
        struct late_client c;
        late_connect(&s, 0, transports[i], &c);
        late_send(&c, "b1048576\nplater\nebehind\n");
        late_shut(&c);
        WAIT_UNTIL(atomic_load(&late.ends) == i + 1);
        late_expect_asleep(&count); /* the client takes nothing */
        ck_assert_uint_eq(atomic_load(&s.protocol.connections), 1);
        late_expect_pattern(&c, MIB);
        late_expect_asleep(&count); /* the answer is pending */
        ck_assert_uint_eq(atomic_load(&s.protocol.connections), 1);
        late_answer(&s, i);
        late_expect(&c, "later\nbehind\n");
        late_expect_end(&c);
        WAIT_UNTIL(toy_closed(&s, CLOSE_PEER) == i + 1);
        late_free(&c);
    }
    stop(&s, &pki);
    ck_assert_uint_eq(atomic_load(&late.ends), ARRAY_SIZE(transports));
}
END_TEST

TEST(end_is_served_where_answers_leave_last)
{
    struct toy_server s;
    struct pki pki;
    start(&s, &pki, INPUT_END_SERVED, NULL);
    for (unsigned i = 0; i < ARRAY_SIZE(transports); i++) {
        struct late_client c;
        late_connect(&s, 0, transports[i], &c);
        late_send(&c, "wfirst\nb1048576\nelast\n");
        late_shut(&c);
        WAIT_UNTIL(atomic_load(&late.ends) == i + 1);
        late_answer(&s, i);
        late_expect(&c, "first\n");
        late_expect_pattern(&c, MIB);
        late_expect(&c, "last\n");
        late_expect_end(&c);
        WAIT_UNTIL(toy_closed(&s, CLOSE_PEER) == i + 1);
        late_free(&c);
    }
    stop(&s, &pki);
}
END_TEST

/* More than may be queued: requests wait for the client to read, after its end too. */
TEST(end_is_served_behind_more_than_may_be_queued)
{
    struct toy_server s;
    struct pki pki;
    struct late_count count;
    start(&s, &pki, INPUT_END_SERVED, &count);
    for (unsigned i = 0; i < ARRAY_SIZE(transports); i++) {
        struct late_client c;
        late_connect(&s, 0, transports[i], &c);
        for (unsigned k = 0; k < 10; k++)
            late_send(&c, "b1048576\n");
        late_send(&c, "elast\n");
        WAIT_UNTIL(atomic_load(&s.toy.requests) >= 11 * i + 2);
        late_shut(&c);
        WAIT_UNTIL(atomic_load(&late.ends) == i + 1);
        late_expect_asleep(&count);
        for (unsigned k = 0; k < 10; k++)
            late_expect_pattern(&c, MIB);
        late_expect(&c, "last\n");
        late_expect_end(&c);
        WAIT_UNTIL(toy_closed(&s, CLOSE_PEER) == i + 1);
        late_free(&c);
    }
    stop(&s, &pki);
}
END_TEST

TEST(end_without_anything_to_serve_closes)
{
    struct toy_server s;
    struct pki pki;
    start(&s, &pki, INPUT_END_SERVED, NULL);
    static const char *const before[] = {"", "ehalf of a requ"};
    unsigned ended = 0;
    for (unsigned i = 0; i < ARRAY_SIZE(transports); i++) {
        for (unsigned k = 0; k < ARRAY_SIZE(before); k++) {
            struct late_client c;
            late_connect(&s, 0, transports[i], &c);
            if (k > 0)
                late_send(&c, before[k]);
            late_shut(&c);
            late_expect_end(&c);
            ended++;
            WAIT_UNTIL(toy_closed(&s, CLOSE_PEER) == ended);
            late_free(&c);
        }
    }
    stop(&s, &pki);
    ck_assert_uint_eq(atomic_load(&late.ends), ended);
}
END_TEST

/* A client that never takes its answers is closed in time, its end served or not. */
TEST(end_is_not_served_for_ever)
{
    struct toy_server s;
    struct pki pki;
    start(&s, &pki, INPUT_END_SERVED, NULL);
    struct server_limits limits = toy_limits();
    limits.output_buffer = OUTPUT_LIMIT;
    limits.write_timeout_ns = 50 * NS_PER_MS;
    secure_rules(&s, limits, pki_tls(&pki, "server", TLS_VERIFY_OFF, TLS_VERSION_1_2));
    server_barrier(&s.server);
    for (unsigned i = 0; i < ARRAY_SIZE(transports); i++) {
        struct late_client c;
        late_connect(&s, 0, transports[i], &c);
        set_buffer(c.fd, SO_RCVBUF, 4096);
        late_send(&c, "b1048576\nb1048576\nb1048576\nb1048576\nb1048576\nb1048576\n");
        late_shut(&c);
        WAIT_UNTIL(toy_closed(&s, CLOSE_WRITE_TIMEOUT) == i + 1);
        late_free(&c);
    }
    stop(&s, &pki);
}
END_TEST

/* ---- closed at once ------------------------------------------------------------------------- */

TEST(end_closes_at_once_where_the_protocol_says_nothing)
{
    struct toy_server s;
    struct pki pki;
    start(&s, &pki, INPUT_END_CLOSES, NULL);
    for (unsigned i = 0; i < ARRAY_SIZE(transports); i++) {
        struct late_client c;
        late_connect(&s, 0, transports[i], &c);
        late_send(&c, "b1048576\nplater\nebehind\n");
        WAIT_UNTIL(atomic_load(&late.count) == i + 1);
        late_shut(&c);
        WAIT_UNTIL(toy_closed(&s, CLOSE_PEER) == i + 1);
        late_answer(&s, i);
        WAIT_UNTIL(atomic_load(&late.errands[i].undone) == 1);
        late_free(&c);
    }
    stop(&s, &pki);
    ck_assert_uint_eq(atomic_load(&late.ends), 0);
}
END_TEST

/* ---- reasons -------------------------------------------------------------------------------- */

static void close_tired(struct worker *worker, void *arg)
{
    const enum transport *transport = arg;
    for (uint32_t slot = 0; slot < worker_slots(worker); slot++) {
        struct conn *conn = worker_conn_at(worker, slot);
        if (conn && conn_transport(conn) == *transport)
            conn_finish(conn, LATE_BORED + 1);
    }
}

TEST(own_reasons_are_counted)
{
    struct toy_server s;
    struct pki pki;
    start(&s, &pki, INPUT_END_CLOSES, NULL);
    for (unsigned i = 0; i < ARRAY_SIZE(transports); i++) {
        struct late_client bored, tired;
        enum transport transport = transports[i];
        late_connect(&s, 0, transport, &bored);
        late_connect(&s, 0, transport, &tired);
        late_send(&bored, "k\n");
        late_expect_end(&bored);
        WAIT_UNTIL(toy_closed(&s, LATE_BORED) == i + 1);
        ck_assert_uint_eq(toy_closed(&s, LATE_BORED + 1), i);
        late_send(&tired, "p\n");
        WAIT_UNTIL(atomic_load(&late.count) == i + 1);
        in_worker(&s, 0, close_tired, &transport);
        late_expect_end(&tired);
        late_free(&bored);
        late_free(&tired);
        WAIT_UNTIL(toy_closed(&s, LATE_BORED + 1) == i + 1);
    }
    stop(&s, &pki);
    for (unsigned i = 0; i < CLOSE_MAX; i++)
        ck_assert_uint_eq(toy_closed(&s, i), i == LATE_BORED || i == LATE_BORED + 1 ? 3 : 0);
    ck_assert_str_eq(protocol_close_word(&s.row, LATE_BORED), "bored");
    ck_assert_str_eq(protocol_close_word(&s.row, LATE_BORED + 1), "tired");
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(end_is_served_after_all_that_came_before_it),
    UNIT(end_is_served_where_answers_leave_last),
    UNIT(end_is_served_behind_more_than_may_be_queued),
    UNIT(end_without_anything_to_serve_closes),
    UNIT(end_is_not_served_for_ever),
    UNIT(end_closes_at_once_where_the_protocol_says_nothing),
    UNIT(own_reasons_are_counted),
};

UNIT_MAIN("ends", tests)
