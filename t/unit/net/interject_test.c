/* interject_test.c - lines between answers: where they stand, and when there is no room for them.
 */
#include "t/unit/net/stage.h"

#include <stdio.h>

/* A client that is sent more than this, and has not taken it, gets no more lines. */
enum { UNSENT_MAX = 1000 };

struct session {
    unsigned lines;             /* interjected so far */
    unsigned lost;              /* had no room since the last that had */
    unsigned rooms;             /* calls of `room` */
    size_t unsent_at_room;      /* bytes, at the last of these */
    unsigned pieces_left, many; /* of an answer */
    uint32_t numbers[8];        /* of pending answers */
    unsigned pending;
};

static struct session *session_of(struct stage_client *c)
{
    return conn_session(c->conn);
}

/* One line; what has no room is counted, not queued. */
static void interject(struct conn *conn)
{
    struct session *session = conn_session(conn);
    char line[32];
    int len = snprintf(line, sizeof(line), "<%u>", session->lines + session->lost);
    if (conn_interject(conn, line, (size_t)len, UNSENT_MAX))
        session->lines++;
    else
        session->lost++;
}

static void room(struct conn *conn)
{
    struct session *session = conn_session(conn);
    session->rooms++;
    session->unsent_at_room = conn->out_bytes;
    if (session->lost == 0)
        return;
    char line[32];
    int len = snprintf(line, sizeof(line), "<lost %u>", session->lost);
    ck_assert(conn_interject(conn, line, (size_t)len, UNSENT_MAX));
    session->lines += session->lost;
    session->lost = 0;
}

static bool resume(struct conn *conn)
{
    struct session *session = conn_session(conn);
    static char piece[256];
    memset(piece, 'P', sizeof(piece));
    for (unsigned i = 0; i < session->many && session->pieces_left > 0; i++) {
        conn_reply(conn, piece, 2);
        session->pieces_left--;
    }
    return session->pieces_left == 0;
}

/*
 * eTEXT  TEXT      p  an answer that comes later    dN  an answer of N pieces
 * i      a line, then "i"
 */
static enum served serve(struct conn *conn, const void *request)
{
    const struct stage_line *line = request;
    struct session *session = conn_session(conn);
    switch (line->text[0]) {
    case 'e':
        conn_reply(conn, line->text + 1, line->len - 1);
        return SERVED;
    case 'i':
        interject(conn);
        conn_reply(conn, "i", 1);
        return SERVED;
    case 'p':
        ck_assert(conn_pend(conn, &session->numbers[session->pending++]));
        return SERVED_PENDING_NEXT;
    case 'd':
        if (conn_pending(conn) > 0)
            return SERVED_LATER;
        session->pieces_left = (unsigned)stage_line_number(line);
        return SERVED_PIECES;
    default:
        conn_finish(conn, CLOSE_PROTOCOL);
        return SERVED_LAST;
    }
}

static const struct protocol_row row = {
    .pending_max = 8, .tracks_output = true, .serve = serve, .resume = resume, .room = room};

static struct stage_client *begin(void)
{
    stage_make(&row, sizeof(struct session), stage_limits());
    return stage_connect();
}

static void interject_some(struct conn *conn, void *arg)
{
    const unsigned *count = arg;
    for (unsigned i = 0; i < *count; i++)
        interject(conn);
}

static void interject_so_many(struct stage_client *c, unsigned count)
{
    stage_do(interject_some, c, &count);
}

/* ---- where they stand ----------------------------------------------------------------------- */

TEST(lines_leave_at_once_between_answers)
{
    struct stage_client *c = begin();
    interject_so_many(c, 1);
    stage_expect(c, "<0>");
    stage_send(c, "eone,\ni\netwo,\n");
    stage_expect(c, "one,<1>itwo,");
    interject_so_many(c, 2);
    stage_expect(c, "<2><3>");
    stage_end();
}
END_TEST

static void answer(struct conn *conn, void *arg)
{
    const struct session *session = conn_session(conn);
    const unsigned *which = arg;
    conn_answer(conn, session->numbers[*which]);
    conn_reply(conn, "later,", 6);
    conn_answered(conn);
}

TEST(lines_do_not_wait_for_pending_answers)
{
    struct stage_client *c = begin();
    unsigned which = 0;
    stage_send(c, "p\nebehind,\ni\np\n");
    stage_expect(c, "<0>");
    interject_so_many(c, 1);
    stage_expect(c, "<1>");
    stage_do(answer, c, &which);
    stage_expect(c, "later,behind,i");
    interject_so_many(c, 1);
    which = 1;
    stage_do(answer, c, &which);
    stage_expect(c, "<2>later,");
    stage_end();
}
END_TEST

TEST(lines_follow_an_answer_in_pieces)
{
    struct stage_client *c = begin();
    session_of(c)->many = 1;
    fake_peer_send(&c->peer, "d4\nebehind\n", 11);
    while (session_of(c)->pieces_left != 2)
        ck_assert(stage_iterate());
    worker_begin_iteration(stage_worker());
    interject(c->conn);
    interject(c->conn);
    (void)worker_end_iteration(stage_worker());
    stage_run();
    stage_expect(c, "PPPPPPPP<0><1>behind");
    ck_assert_uint_eq(c->conn->out_bytes, 0);
    interject_so_many(c, 1);
    stage_expect(c, "<2>");
    stage_end();
}
END_TEST

/* Bytes that wait behind an answer in pieces are not lost to the books when the client goes. */
TEST(client_may_go_while_lines_wait_behind_an_answer)
{
    static const char *const ends[] = {"reset", "finish"};
    struct stage_client *c = begin();
    for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
        if (i > 0)
            c = stage_connect();
        session_of(c)->many = 1;
        fake_peer_send(&c->peer, "d4\n", 3);
        while (session_of(c)->pieces_left != 2)
            ck_assert(stage_iterate());
        worker_begin_iteration(stage_worker());
        interject(c->conn);
        if (i == 0)
            c->peer.broken = c->peer.news = true;
        else
            conn_finish(c->conn, CLOSE_PROTOCOL);
        (void)worker_end_iteration(stage_worker());
        stage_run();
        ck_assert(c->peer.closed);
    }
    stage_expect(c, "PPPP<0>");
    ck_assert_uint_eq(stage_closed(CLOSE_RESET), 1);
    ck_assert_uint_eq(stage_closed(CLOSE_PROTOCOL), 1);
    stage_end();
}
END_TEST

/* ---- no room -------------------------------------------------------------------------------- */

TEST(lines_beyond_the_bound_are_counted_and_not_queued)
{
    struct stage_client *c = begin();
    stage_take(c, 0);
    interject_so_many(c, 5000);
    struct session *session = session_of(c);
    ck_assert_uint_eq(session->lines + session->lost, 5000);
    ck_assert_uint_ge(c->conn->out_bytes, UNSENT_MAX);
    ck_assert_uint_lt(c->conn->out_bytes, UNSENT_MAX + 8);
    unsigned queued = session->lines;
    interject_so_many(c, 100000);
    ck_assert_uint_eq(session->lines, queued);
    ck_assert_uint_lt(c->conn->out_bytes, UNSENT_MAX + 8);
    ck_assert_uint_eq(session->rooms, 0);
    stage_end();
}
END_TEST

TEST(room_is_offered_once_when_half_was_taken)
{
    struct stage_client *c = begin();
    stage_take(c, 0);
    interject_so_many(c, 300);
    struct session *session = session_of(c);
    unsigned lost = session->lost, lines = session->lines;
    ck_assert_uint_gt(lost, 0);
    size_t unsent = c->conn->out_bytes;
    stage_take(c, unsent - UNSENT_MAX / 2 - 1);
    ck_assert_uint_eq(session->rooms, 0);
    stage_take(c, 1);
    ck_assert_uint_eq(session->rooms, 1);
    ck_assert_uint_eq(session->unsent_at_room, UNSENT_MAX / 2);
    ck_assert_uint_eq(session->lost, 0);
    stage_take(c, SIZE_MAX);
    ck_assert_uint_eq(session->rooms, 1);
    char *expected = calloc(1, 4000);
    ck_assert(expected != NULL);
    size_t at = 0;
    for (unsigned i = 0; i < lines; i++)
        at += (size_t)snprintf(expected + at, 4000 - at, "<%u>", i);
    snprintf(expected + at, 4000 - at, "<lost %u>", lost);
    stage_expect(c, expected);
    free(expected);
    interject_so_many(c, 1);
    stage_expect(c, "<300>");
    ck_assert_uint_eq(session->rooms, 1);
    stage_end();
}
END_TEST

TEST(room_is_offered_each_time_there_was_none)
{
    struct stage_client *c = begin();
    for (unsigned round = 1; round <= 20; round++) {
        stage_take(c, 0);
        interject_so_many(c, 1000);
        ck_assert_uint_gt(session_of(c)->lost, 0);
        stage_take(c, SIZE_MAX);
        ck_assert_uint_eq(session_of(c)->rooms, round);
        ck_assert_uint_eq(session_of(c)->lost, 0);
    }
    stage_end();
}
END_TEST

/* Answers count as unsent too. */
TEST(full_output_has_no_room_for_lines)
{
    struct stage_client *c = begin();
    char line[502] = "";
    memset(line, 'e', sizeof(line) - 1);
    line[sizeof(line) - 2] = '\n';
    stage_take(c, 0);
    stage_send(c, line);
    stage_send(c, line);
    interject_so_many(c, 1);
    ck_assert_uint_eq(session_of(c)->lines, 1);
    stage_send(c, "e1234\n");
    interject_so_many(c, 1);
    ck_assert_uint_eq(session_of(c)->lines, 1);
    ck_assert_uint_eq(session_of(c)->lost, 1);
    stage_take(c, SIZE_MAX);
    ck_assert_uint_eq(session_of(c)->rooms, 1);
    ck_assert_uint_eq(session_of(c)->lines, 2);
    stage_end();
}
END_TEST

TEST(room_is_not_offered_to_a_connection_that_finishes)
{
    struct stage_client *c = begin();
    stage_take(c, 0);
    interject_so_many(c, 1000);
    stage_send(c, "finish\n");
    ck_assert_uint_eq(session_of(c)->rooms, 0);
    c->peer.stubborn = true;
    stage_take(c, SIZE_MAX);
    ck_assert_uint_eq(session_of(c)->rooms, 0);
    stage_end();
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(lines_leave_at_once_between_answers),
    UNIT(lines_do_not_wait_for_pending_answers),
    UNIT(lines_follow_an_answer_in_pieces),
    UNIT(client_may_go_while_lines_wait_behind_an_answer),
    UNIT(lines_beyond_the_bound_are_counted_and_not_queued),
    UNIT(room_is_offered_once_when_half_was_taken),
    UNIT(room_is_offered_each_time_there_was_none),
    UNIT(full_output_has_no_room_for_lines),
    UNIT(room_is_not_offered_to_a_connection_that_finishes),
};

UNIT_MAIN("interject", tests)
