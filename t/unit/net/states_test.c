/* states_test.c - the states of a connection for reading: which follow which; and the deadlines of
 * protocols that have none, one or several. */
#include "t/unit/net/stage.h"

#include <sys/wait.h>
#include <unistd.h>

/* ---- states -------------------------------------------------------------------------------- */

#define TO(name) (1u << READING_##name)

/* What conn.c says in its head. */
static const unsigned possible[READING_COUNT] = {
    [READING_HANDSHAKE] = TO(OPEN) | TO(DISCARD) | TO(CLOSED),
    [READING_OPEN] = TO(PENDING) | TO(PIECES) | TO(FULL) | TO(ENDED) | TO(DISCARD) | TO(CLOSED),
    [READING_PENDING] = TO(OPEN) | TO(DISCARD) | TO(CLOSED),
    [READING_PIECES] = TO(OPEN) | TO(DISCARD) | TO(CLOSED),
    [READING_FULL] = TO(OPEN) | TO(DISCARD) | TO(CLOSED),
    [READING_ENDED] = TO(DISCARD) | TO(CLOSED),
    [READING_DISCARD] = TO(CLOSED),
    [READING_CLOSED] = 0,
};

static unsigned closes;

static void count_close(struct conn *conn)
{
    (void)conn;
    closes++;
}

static enum served serve_nothing(struct conn *conn, const void *request)
{
    (void)conn;
    (void)request;
    return SERVED;
}

static void expire_never(struct conn *conn, unsigned which)
{
    (void)conn;
    (void)which;
    ck_abort_msg("a deadline that was not set has come");
}

static const struct protocol_row states_row = {
    .deadlines = 1, .serve = serve_nothing, .expire = expire_never, .close = count_close};

/* Moves a connection of its own from one state to another. */
static void move(unsigned from, unsigned to)
{
    struct stream none = {.fd = -1};
    struct conn *conn = conn_new(stage_worker(), &stage.protocol, none);
    ck_assert(conn != NULL);
    ck_assert(deadlines_reserve(conn_deadlines(conn), conn_deadline_count(&stage.protocol)));
    conn->reading = (uint8_t)from;
    bool was_served = conn_is_served(conn);
    closes = 0;
    uint32_t source = source_enter_peer(&stage.server.sources, -1);
    if (from == READING_HANDSHAKE) {
        conn->claim = claim_handshake(stage_worker(), 0, source);
        ck_assert_uint_eq(atomic_load(&stage.server.handshakes), 1);
    }
    if (was_served)
        conn_expire_in(conn, 0, NS_PER_S);
    conn_move(conn, (enum conn_reading)to);
    ck_assert_uint_eq(conn->reading, to);
    /* The client is not served any more, or it is as before. */
    ck_assert_uint_eq(closes, was_served && to >= READING_DISCARD);
    ck_assert(conn_expires(conn, 0) == (was_served && to < READING_DISCARD));
    ck_assert_uint_eq(atomic_load(&stage.server.handshakes), 0);
    ck_assert(conn->claim == NULL);
    source_leave(&stage.server.sources, source);
    conn_clear_deadline(conn, 0);
    deadlines_unreserve(conn_deadlines(conn), conn_deadline_count(&stage.protocol));
    free(conn);
}

TEST(possible_transitions_are_made)
{
    stage_make(&states_row, 0, stage_limits());
    unsigned made = 0;
    for (unsigned from = 0; from < READING_COUNT; from++) {
        for (unsigned to = 0; to < READING_COUNT; to++) {
            if (!(possible[from] & 1u << to))
                continue;
            move(from, to);
            made++;
        }
    }
    ck_assert_uint_eq(made, 21);
    stage_end();
}
END_TEST

/* True: the child that moves so was aborted. */
static bool aborts(unsigned from, unsigned to)
{
    int status;
    pid_t child = fork();
    ck_assert(child >= 0);
    if (child == 0) {
        (void)close(STDERR_FILENO);
        move(from, to);
        _exit(0);
    }
    ck_assert(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

TEST(impossible_transitions_end_the_process)
{
    stage_make(&states_row, 0, stage_limits());
    for (unsigned from = 0; from < READING_COUNT; from++) {
        for (unsigned to = 0; to < READING_COUNT; to++) {
            if (!(possible[from] & 1u << to))
                ck_assert_msg(aborts(from, to), "%u to %u is possible", from, to);
        }
    }
    stage_end();
}
END_TEST

/* ---- deadlines ----------------------------------------------------------------------------- */

/* More than any protocol here has. */
enum { MOST = 5 };

static struct {
    unsigned count;
    unsigned which[64];
    int64_t at_ns[64];
} expired;

static bool sets_again; /* in `expire`, once a second */

static void expire(struct conn *conn, unsigned which)
{
    ck_assert_uint_lt(expired.count, ARRAY_SIZE(expired.which));
    ck_assert_uint_lt(which, conn_protocol(conn)->row->deadlines);
    ck_assert(!conn_expires(conn, which));
    expired.which[expired.count] = which;
    expired.at_ns[expired.count] = fake_now.mono_ns;
    expired.count++;
    if (sets_again)
        conn_expire_in(conn, which, NS_PER_S);
    else
        conn_reply(conn, "0123456789" + which, 1);
}

/* sN: sets all its deadlines, number i to N + i seconds; cN clears number N; rN: all at once in N;
 * anything else finishes. */
static enum served serve_deadlines(struct conn *conn, const void *request)
{
    const struct stage_line *line = request;
    unsigned count = conn_protocol(conn)->row->deadlines;
    unsigned number = (unsigned)stage_line_number(line);
    switch (line->text[0]) {
    case 's':
    case 'r':
        for (unsigned i = count; i > 0; i--)
            conn_expire_in(conn, i - 1, (number + (line->text[0] == 's' ? i - 1 : 0)) * NS_PER_S);
        return SERVED;
    case 'c':
        conn_clear_deadline(conn, number);
        return SERVED;
    default:
        conn_finish(conn, CLOSE_PROTOCOL);
        return SERVED_LAST;
    }
}

static struct stage_client *begin(unsigned deadlines)
{
    struct protocol_row row = {.deadlines = deadlines, .serve = serve_deadlines, .expire = expire};
    memset(&stage, 0, sizeof(stage));
    memset(&expired, 0, sizeof(expired));
    stage_make(&row, 13, stage_limits()); /* what follows the session is aligned all the same */
    return stage_connect();
}

TEST(each_deadline_comes_in_time_and_once)
{
    static const char *const all = "01234";
    for (unsigned n = 0; n <= MOST; n++) {
        struct stage_client *c = begin(n);
        int64_t began_ns = fake_now.mono_ns;
        stage_send(c, "s3\n");
        stage_advance(3 * NS_PER_S - 1);
        ck_assert_uint_eq(expired.count, 0);
        for (unsigned i = 0; i < n; i++)
            ck_assert(conn_expires(c->conn, i));
        stage_advance(1000 * NS_PER_S);
        ck_assert_uint_eq(expired.count, n);
        for (unsigned i = 0; i < n; i++) {
            ck_assert_uint_eq(expired.which[i], i);
            ck_assert_int_eq(expired.at_ns[i] - began_ns, (3 + i) * NS_PER_S);
            ck_assert(!conn_expires(c->conn, i));
        }
        char expected[MOST + 1] = "";
        memcpy(expected, all, n);
        stage_expect(c, expected);
        stage_end();
    }
}
END_TEST

TEST(deadlines_that_are_set_again_cleared_or_finished_do_not_come)
{
    for (unsigned n = 1; n <= MOST; n++) {
        struct stage_client *c = begin(n);
        stage_send(c, "s1\nr20\nc0\n");
        stage_advance(19 * NS_PER_S);
        ck_assert_uint_eq(expired.count, 0);
        stage_advance(NS_PER_S);
        ck_assert_uint_eq(expired.count, n - 1);
        stage_send(c, "r1\nfinish\n");
        stage_advance(10 * NS_PER_S);
        ck_assert_uint_eq(expired.count, n - 1);
        stage_end();
    }
}
END_TEST

TEST(deadlines_may_be_set_again_when_they_come)
{
    sets_again = true;
    for (unsigned n = 2; n <= MOST; n += 3) {
        struct stage_client *c = begin(n);
        stage_send(c, "r1\n");
        stage_advance(10 * NS_PER_S);
        ck_assert_uint_eq(expired.count, 10UL * n);
        stage_end();
    }
}
END_TEST

/* A worker's heap has room for all deadlines of all connections. */
TEST(connections_have_deadlines_of_their_own)
{
    struct stage_client *c[STAGE_CLIENTS];
    c[0] = begin(MOST);
    for (unsigned i = 1; i < ARRAY_SIZE(c); i++)
        c[i] = stage_connect();
    for (unsigned i = 0; i < ARRAY_SIZE(c); i++)
        stage_send(c[i], i % 2 ? "c1\n" : "r5\n");
    stage_send(c[0], "finish\n");
    stage_advance(5 * NS_PER_S);
    ck_assert_uint_eq(expired.count, (ARRAY_SIZE(c) / 2 - 1) * MOST);
    stage_end();
}
END_TEST

static void expire_too_high(struct conn *conn, void *arg)
{
    (void)arg;
    conn_expire_in(conn, 2, NS_PER_S);
}

TEST(deadline_that_is_not_there_cannot_be_set)
{
    struct stage_client *c = begin(2);
    stage_do(expire_too_high, c, NULL);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(possible_transitions_are_made),
    UNIT(impossible_transitions_end_the_process),
    UNIT(each_deadline_comes_in_time_and_once),
    UNIT(deadlines_that_are_set_again_cleared_or_finished_do_not_come),
    UNIT(deadlines_may_be_set_again_when_they_come),
    UNIT(connections_have_deadlines_of_their_own),
    UNIT_ABORTS(deadline_that_is_not_there_cannot_be_set),
};

UNIT_MAIN("states", tests)
