/* extend_test.c - a connection whose output has positions, and lines between answers, only from the
 * moment when it needs them (conn_extend). */
#include "t/unit/net/stage.h"

#include <stdio.h>

static bool no_memory;

void *__real_calloc(size_t count, size_t size) __attribute__((weak));
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return no_memory ? NULL : __real_calloc(count, size);
}

struct session {
    unsigned pieces_left;
    unsigned rooms;      /* calls of `room` */
    bool marked;         /* `close` looks at the next two */
    uint64_t mark;       /* the end of what must have been written, and of nothing more */
    unsigned *good_ends; /* counts each `close` that finds it so */
};

static struct stage_client *client; /* of the tests with one */

static struct session *session_of(struct stage_client *c)
{
    return conn_session(c->conn);
}

static bool resume(struct conn *conn)
{
    struct session *session = conn_session(conn);
    conn_reply(conn, "P", 1);
    return --session->pieces_left == 0;
}

static void room(struct conn *conn)
{
    struct session *session = conn_session(conn);
    session->rooms++;
}

static void on_close(struct conn *conn)
{
    const struct session *session = conn_session(conn);
    if (session->marked)
        *session->good_ends +=
            conn_was_written(conn, session->mark - 1) && !conn_was_written(conn, session->mark);
}

/* eTEXT  TEXT    dN  an answer of N pieces    x  "x", and extends behind it    f  finishes */
static enum served serve(struct conn *conn, const void *request)
{
    const struct stage_line *line = request;
    struct session *session = conn_session(conn);
    switch (line->text[0]) {
    case 'e':
        conn_reply(conn, line->text + 1, line->len - 1);
        return SERVED;
    case 'x':
        conn_reply(conn, "x", 1);
        ck_assert(conn_extend(conn));
        return SERVED;
    case 'd':
        session->pieces_left = (unsigned)stage_line_number(line);
        return SERVED_PIECES;
    default:
        conn_finish(conn, CLOSE_PROTOCOL);
        return SERVED_LAST;
    }
}

static const struct protocol_row row = {.deadlines = 1,
                                        .extends_later = true,
                                        .serve = serve,
                                        .resume = resume,
                                        .room = room,
                                        .close = on_close};

static void begin(void)
{
    stage_make(&row, sizeof(struct session), stage_limits());
    client = stage_connect();
}

static void extend(struct conn *conn, void *arg)
{
    (void)arg;
    ck_assert(conn_extend(conn));
}

/* A line that goes if nothing or little is unsent. */
static void interject(struct conn *conn, void *arg)
{
    bool *goes_r = arg;
    *goes_r = conn_interject(conn, "<line>", 6, 100);
}

static bool interject_to(struct stage_client *c)
{
    bool goes = false;
    stage_do(interject, c, &goes);
    return goes;
}

/* ---- what it costs -------------------------------------------------------------------------- */

TEST(connection_that_may_be_extended_has_one_pointer_more)
{
    struct protocol_row plain_row = row;
    struct protocol plain = {.row = &plain_row, .session_size = sizeof(struct session)};
    begin();
    plain_row.extends_later = false;
    ck_assert_uint_eq(conn_size(&stage.protocol), conn_size(&plain) + sizeof(void *));
    stage_send(client, "eone\n");
    ck_assert(!client->conn->extended);
    struct stage_client *other = stage_connect();
    stage_do(extend, other, NULL);
    ck_assert(other->conn->extended && !client->conn->extended);
    stage_end();
}
END_TEST

TEST(without_memory_nothing_changes)
{
    begin();
    no_memory = true;
    ck_assert(!conn_extend(client->conn));
    no_memory = false;
    ck_assert(!client->conn->extended);
    stage_send(client, "eone\nx\n");
    stage_expect(client, "onex");
    ck_assert_uint_eq(conn_output_end(client->conn), 4); /* none of it was written yet */
    stage_end();
}
END_TEST

static void extend_wrongly(struct conn *conn, void *arg)
{
    (void)arg;
    (void)!conn_extend(conn);
}

TEST(rows_must_say_that_they_extend)
{
    struct protocol_row plain_row = row;
    plain_row.extends_later = false;
    stage_make(&plain_row, sizeof(struct session), stage_limits());
    stage_do(extend_wrongly, stage_connect(), NULL);
}
END_TEST

/* ---- positions ------------------------------------------------------------------------------ */

/* The client has taken `taken` of the bytes that were unsent or came since. */
static void expect_written(uint64_t taken)
{
    for (uint64_t at = 0; at < 12; at++) {
        ck_assert(conn_was_written(client->conn, at) == (at < taken));
        ck_assert_int_eq(conn_position_save(client->conn, at), (int64_t)(at - taken));
        ck_assert_uint_eq(conn_position_restore(client->conn, conn_position_save(client->conn, at)),
                          at);
    }
}

TEST(positions_count_from_the_first_unsent_byte)
{
    begin();
    stage_send(client, "elong gone\n");
    stage_take(client, 2);
    stage_send(client, "eabcdef\n");
    stage_do(extend, client, NULL);
    ck_assert_uint_eq(conn_output_end(client->conn), 4);
    expect_written(0);
    stage_send(client, "eghij\n");
    ck_assert_uint_eq(conn_output_end(client->conn), 8);
    for (uint64_t taken = 0; taken <= 8; taken++) {
        expect_written(taken);
        stage_take(client, 1);
    }
    stage_take(client, SIZE_MAX);
    stage_send(client, "ekl\n");
    ck_assert_uint_eq(conn_output_end(client->conn), 10);
    expect_written(10);
    stage_expect(client, "long goneabcdefghijkl");
    stage_end();
}
END_TEST

TEST(positions_are_right_when_a_request_extends)
{
    begin();
    stage_take(client, 0);
    stage_send(client, "ebefore\nx\nebehind\n");
    ck_assert_uint_eq(conn_output_end(client->conn), 13);
    stage_take(client, 7);
    expect_written(7);
    stage_end();
}
END_TEST

TEST(extending_again_changes_nothing)
{
    begin();
    stage_take(client, 2);
    stage_send(client, "x\neabc\n");
    expect_written(2);
    stage_do(extend, client, NULL);
    ck_assert_uint_eq(conn_output_end(client->conn), 4);
    expect_written(2);
    stage_end();
}
END_TEST

TEST(close_learns_what_was_written)
{
    unsigned good_ends = 0;
    for (unsigned how = 0; how < 3; how++) {
        begin();
        stage_take(client, 0);
        stage_send(client, "eabc\nx\nedef\n");
        stage_take(client, 5);
        *session_of(client) = (struct session){.marked = true, .mark = 5, .good_ends = &good_ends};
        client->peer.broken = how == 0;
        client->peer.news = true;
        if (how == 1)
            conn_close(client->conn, CLOSE_KILLED);
        else if (how == 2)
            stage_send(client, "f\n");
        stage_run();
        ck_assert_uint_eq(good_ends, how + 1);
        stage_end();
        memset(&stage, 0, sizeof(stage));
    }
}
END_TEST

/* ---- lines between answers ------------------------------------------------------------------ */

TEST(lines_leave_between_answers)
{
    begin();
    stage_send(client, "x\neone\n");
    ck_assert(interject_to(client));
    stage_send(client, "etwo\n");
    stage_expect(client, "xone<line>two");
    stage_end();
}
END_TEST

/* The connection may be extended while such an answer is made. */
TEST(lines_follow_an_answer_in_pieces)
{
    begin();
    fake_peer_send(&client->peer, "d4\nebehind\n", 11);
    ck_assert(!conn_in_pieces(client->conn));
    while (session_of(client)->pieces_left != 2)
        ck_assert(stage_iterate());
    ck_assert(conn_in_pieces(client->conn));
    worker_begin_iteration(stage_worker());
    bool goes = false;
    extend(client->conn, NULL);
    interject(client->conn, &goes);
    ck_assert(goes);
    (void)worker_end_iteration(stage_worker());
    stage_run();
    ck_assert(!conn_in_pieces(client->conn));
    stage_expect(client, "PPPP<line>behind");
    stage_end();
}
END_TEST

TEST(room_is_offered)
{
    begin();
    stage_take(client, 0);
    stage_send(client, "x\n");
    while (interject_to(client))
        continue;
    size_t unsent = client->conn->out_bytes;
    stage_take(client, unsent - 51);
    ck_assert_uint_eq(session_of(client)->rooms, 0);
    stage_take(client, 1);
    ck_assert_uint_eq(session_of(client)->rooms, 1);
    stage_end();
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(connection_that_may_be_extended_has_one_pointer_more),
    UNIT(without_memory_nothing_changes),
    UNIT_ABORTS(rows_must_say_that_they_extend),
    UNIT(positions_count_from_the_first_unsent_byte),
    UNIT(positions_are_right_when_a_request_extends),
    UNIT(extending_again_changes_nothing),
    UNIT(close_learns_what_was_written),
    UNIT(lines_leave_between_answers),
    UNIT(lines_follow_an_answer_in_pieces),
    UNIT(room_is_offered),
};

UNIT_MAIN("extend", tests)
