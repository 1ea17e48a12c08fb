/* output_test.c - positions of output: what was written, also at the end; and answers that are
 * checked before they are written. */
#include "t/unit/net/stage.h"

#include <stdio.h>

struct session {
    uint64_t ends[32]; /* of the answers so far */
    unsigned answers;
    unsigned asked;   /* calls of may_write */
    bool refuses;     /* may_write closes the connection */
    size_t got_first; /* bytes that the client had when may_write was first called, and last */
    size_t got_last;
    uint32_t numbers[8]; /* of pending answers */
    unsigned pending;
    unsigned pieces;
};

static struct stage_client *client; /* of the tests with one */

/* What `close` saw. */
static struct {
    unsigned calls, asked;
    bool written[32];
    uint64_t end;
} at_close;

static struct session *session_of(struct stage_client *c)
{
    return conn_session(c->conn);
}

static void note_answer(struct conn *conn)
{
    struct session *session = conn_session(conn);
    session->ends[session->answers++] = conn_output_end(conn);
}

static bool may_write(struct conn *conn)
{
    struct session *session = conn_session(conn);
    if (session->asked++ == 0)
        session->got_first = client->got_len;
    session->got_last = client->got_len;
    if (session->refuses)
        conn_close(conn, CLOSE_OWN);
    return !session->refuses;
}

static void on_close(struct conn *conn)
{
    const struct session *session = conn_session(conn);
    at_close.calls++;
    at_close.asked = session->asked;
    at_close.end = conn_output_end(conn);
    for (unsigned i = 0; i < session->answers; i++)
        at_close.written[i] = conn_was_written(conn, session->ends[i] - 1);
}

static char bytes[1 << 17];
static unsigned shares, drops; /* of `bytes`: now, so far */

static void drop_share(const void *at)
{
    ck_assert(at == bytes && shares > 0);
    shares--;
    drops++;
}

/*
 * eTEXT  TEXT                          bN  N bytes; sN: shared
 * cTEXT  TEXT, which is checked        p   an answer that comes later
 * f      finishes                      P   an answer in pieces
 */
static enum served serve(struct conn *conn, const void *request)
{
    const struct stage_line *line = request;
    struct session *session = conn_session(conn);
    switch (line->text[0]) {
    case 'c':
        conn_check_output(conn);
        conn_reply(conn, line->text + 1, line->len - 1);
        break;
    case 'e':
        conn_reply(conn, line->text + 1, line->len - 1);
        break;
    case 'b':
        memset(bytes, 'b', sizeof(bytes));
        conn_reply(conn, bytes, stage_line_number(line));
        break;
    case 's':
        memset(bytes, 's', sizeof(bytes));
        shares++;
        conn_reply_shared(conn, bytes, stage_line_number(line), drop_share);
        break;
    case 'p':
        ck_assert(conn_pend(conn, &session->numbers[session->pending++]));
        return SERVED_PENDING_NEXT;
    case 'P':
        return SERVED_PIECES;
    default:
        conn_finish(conn, CLOSE_PROTOCOL);
        return SERVED_LAST;
    }
    note_answer(conn);
    return SERVED;
}

/* In the first piece a line comes between, which is checked; the second is the last. */
static bool resume(struct conn *conn)
{
    struct session *session = conn_session(conn);
    if (session->pieces++ == 0) {
        conn_check_output(conn);
        ck_assert(conn_interject(conn, "line", 4, SIZE_MAX));
        return false;
    }
    conn_reply(conn, "piece,", 6);
    return true;
}

static const char *const ends[] = {"stale", NULL};
static const struct protocol_row row = {.pending_max = 8,
                                        .tracks_output = true,
                                        .ends = ends,
                                        .serve = serve,
                                        .resume = resume,
                                        .may_write = may_write,
                                        .close = on_close};

static void begin(void)
{
    stage_make(&row, sizeof(struct session), stage_limits());
    client = stage_connect();
}

/* ---- what was written ----------------------------------------------------------------------- */

TEST(bytes_count_as_written_one_after_the_other)
{
    begin();
    ck_assert_uint_eq(conn_output_end(client->conn), 0);
    ck_assert(!conn_was_written(client->conn, 0));
    stage_take(client, 0);
    stage_send(client, "eabc\nedefgh\n");
    const struct session *session = session_of(client);
    ck_assert_uint_eq(session->ends[0], 3);
    ck_assert_uint_eq(session->ends[1], 8);
    ck_assert_uint_eq(conn_output_end(client->conn), 8);
    for (uint64_t taken = 0; taken <= 8; taken++) {
        for (uint64_t at = 0; at < 10; at++)
            ck_assert(conn_was_written(client->conn, at) == (at < taken));
        stage_take(client, 1);
    }
    stage_take(client, 0);
    stage_send(client, "e\n"); /* no bytes */
    ck_assert_uint_eq(conn_output_end(client->conn), 8);
    stage_end();
}
END_TEST

TEST(positions_hold_over_many_chunks)
{
    begin();
    uint64_t end = 0;
    for (unsigned i = 0; i < 20; i++) {
        char text[32];
        snprintf(text, sizeof(text), "b%u\n", i * 3001);
        stage_send(client, text);
        end += (uint64_t)i * 3001;
        ck_assert_uint_eq(conn_output_end(client->conn), end);
        ck_assert(end == 0 || conn_was_written(client->conn, end - 1));
        ck_assert(!conn_was_written(client->conn, end));
    }
    stage_end();
}
END_TEST

TEST(close_learns_what_was_written_however_it_ends)
{
    for (unsigned how = 0; how < 4; how++) {
        begin();
        memset(&at_close, 0, sizeof(at_close));
        stage_take(client, 0);
        stage_send(client, "eone\netwo\nethree\n");
        stage_take(client, 6); /* all of the first and the second, nothing of the third */
        ck_assert_uint_eq(at_close.calls, 0);
        client->peer.broken = how == 0;
        client->peer.news = true;
        if (how == 1)
            conn_close(client->conn, CLOSE_KILLED);
        else if (how == 2)
            stage_send(client, "f\n");
        else if (how == 3)
            stage_advance(31 * NS_PER_S); /* it takes nothing */
        stage_run();
        ck_assert_uint_eq(at_close.calls, 1);
        ck_assert_uint_eq(at_close.end, 11);
        ck_assert(at_close.written[0] && at_close.written[1] && !at_close.written[2]);
        stage_end();
        ck_assert_uint_eq(at_close.calls, 1);
        stage.client_count = 0;
        memset(&stage, 0, sizeof(stage));
    }
}
END_TEST

static void answer(struct conn *conn, void *arg)
{
    const struct session *session = conn_session(conn);
    const unsigned *which = arg;
    conn_answer(conn, session->numbers[*which]);
    conn_reply(conn, "later", 5);
    conn_answered(conn);
    note_answer(conn);
}

TEST(position_of_an_answer_that_came_later_is_behind_it)
{
    begin();
    unsigned which = 0;
    stage_send(client, "p\np\n");
    stage_do(answer, client, &which);
    ck_assert_uint_eq(session_of(client)->ends[0], 5);
    ck_assert(conn_was_written(client->conn, 4));
    which = 1;
    stage_do(answer, client, &which);
    ck_assert_uint_eq(session_of(client)->ends[1], 10);
    stage_end();
}
END_TEST

TEST(answers_that_are_kept_count_when_their_turn_has_come)
{
    begin();
    unsigned which = 0;
    stage_send(client, "p\nebehind\n");
    ck_assert_uint_eq(conn_output_end(client->conn), 0);
    stage_do(answer, client, &which);
    ck_assert_uint_eq(conn_output_end(client->conn), 11);
    ck_assert(conn_was_written(client->conn, 10));
    stage_expect(client, "laterbehind");
    stage_end();
}
END_TEST

/* Expects a text, and then `len` times "s". */
static void expect_run(const char **got, const char *text, size_t len)
{
    ck_assert(strncmp(*got, text, strlen(text)) == 0);
    *got += strlen(text);
    ck_assert_uint_eq(strspn(*got, "s"), len);
    *got += len;
}

TEST(shared_bytes_go_out_in_their_places_and_are_given_back)
{
    begin();
    unsigned which = 0;
    shares = drops = 0;
    stage_take(client, 0);
    stage_send(client, "eone\ns100000\ns100\netwo\np\ns20000\nethree\n");
    ck_assert_uint_eq(drops, 1); /* the short one was copied */
    ck_assert_uint_eq(shares, 2);
    ck_assert_uint_eq(conn_output_end(client->conn), 100106);
    ck_assert_uint_eq(client->conn->out_bytes, 120111); /* one that is kept counts, too */
    stage_take(client, 60000);
    ck_assert_uint_eq(shares, 2);
    stage_do(answer, client, &which);
    ck_assert_uint_eq(conn_output_end(client->conn), 120116);
    stage_take(client, SIZE_MAX);
    ck_assert_uint_eq(shares, 0);
    const char *got = client->got;
    expect_run(&got, "one", 100100);
    expect_run(&got, "twolater", 20000);
    ck_assert_str_eq(got, "three");
    stage_end();
}
END_TEST

TEST(shared_bytes_are_given_back_however_the_connection_ends)
{
    for (unsigned how = 0; how < 3; how++) {
        begin();
        shares = 0;
        stage_take(client, 0);
        stage_send(client, "s50000\np\ns50000\n");
        ck_assert_uint_eq(shares, 2);
        client->peer.broken = how == 0;
        client->peer.news = true;
        if (how == 1)
            conn_close(client->conn, CLOSE_KILLED);
        else if (how == 2)
            stage_advance(31 * NS_PER_S); /* it takes nothing */
        stage_run();
        ck_assert_uint_eq(shares, 0);
        stage_end();
        stage.client_count = 0;
        memset(&stage, 0, sizeof(stage));
    }
}
END_TEST

TEST(positions_are_saved_from_what_was_written)
{
    begin();
    stage_take(client, 4);
    stage_send(client, "eabcdefgh\n");
    struct stage_client *other = stage_connect();
    for (uint64_t at = 0; at < 8; at++) {
        int64_t saved = conn_position_save(client->conn, at);
        ck_assert_int_eq(saved, (int64_t)at - 4);
        ck_assert_uint_eq(conn_position_restore(client->conn, saved), at);
        /* Nothing was written to the other yet: written is what it was before. */
        uint64_t restored = conn_position_restore(other->conn, saved);
        ck_assert(conn_was_written(other->conn, restored) == (at < 4));
        ck_assert(at < 4 || restored == at - 4);
    }
    stage_end();
}
END_TEST

/* ---- checks --------------------------------------------------------------------------------- */

TEST(answer_is_checked_before_its_first_byte)
{
    begin();
    stage_send(client, "eone,\nctwo,\nethree\n");
    const struct session *session = session_of(client);
    ck_assert_uint_eq(session->asked, 1);
    ck_assert_uint_eq(session->got_first, 0);
    stage_expect(client, "one,two,three");
    stage_send(client, "efour\n"); /* that is not */
    ck_assert_uint_eq(session->asked, 1);
    stage_end();
}
END_TEST

TEST(answer_is_checked_at_each_write_until_it_begins_to_leave)
{
    begin();
    stage_take(client, 0);
    stage_send(client, "eone,\nctwo,\n");
    const struct session *session = session_of(client);
    unsigned before = session->asked;
    for (unsigned i = 1; i <= 5; i++) {
        stage_take(client, 1);
        ck_assert_uint_gt(session->asked, before);
        before = session->asked;
        ck_assert_uint_le(session->got_last, 4);
    }
    stage_expect(client, "one,t"); /* it has begun */
    stage_take(client, SIZE_MAX);
    ck_assert_uint_eq(session->asked, before);
    stage_expect(client, "wo,");
    stage_end();
}
END_TEST

TEST(answer_that_is_refused_does_not_leave)
{
    begin();
    stage_take(client, 0);
    stage_send(client, "eone,\nctwo,\nethree\n");
    stage_take(client, 2);
    ck_assert(!client->peer.closed);
    session_of(client)->refuses = true;
    stage_take(client, SIZE_MAX);
    stage_expect(client, "on");
    ck_assert(client->peer.closed);
    ck_assert_uint_eq(stage_closed(CLOSE_OWN), 1);
    ck_assert_uint_eq(at_close.calls, 1);
    ck_assert(!at_close.written[0] && !at_close.written[1]);
    stage_end();
}
END_TEST

TEST(later_answer_is_checked_too)
{
    begin();
    stage_take(client, 0);
    stage_send(client, "cone,\nctwo,\n");
    stage_take(client, 4);
    unsigned asked = session_of(client)->asked;
    ck_assert_uint_ge(asked, 1);
    session_of(client)->refuses = true;
    stage_take(client, SIZE_MAX);
    ck_assert_uint_gt(at_close.asked, asked);
    stage_expect(client, "one,");
    stage_end();
}
END_TEST

/* The mark stands at the answer, wherever it is kept meanwhile. */
TEST(answer_that_is_kept_is_checked_when_its_turn_has_come)
{
    begin();
    unsigned which = 0;
    stage_take(client, 0);
    stage_send(client, "p\nebehind,\nckept\n");
    stage_do(answer, client, &which);
    for (unsigned i = 0; i < 12; i++) {
        unsigned asked = session_of(client)->asked;
        stage_take(client, 1);
        ck_assert_uint_gt(session_of(client)->asked, asked);
    }
    session_of(client)->refuses = true;
    stage_take(client, SIZE_MAX);
    stage_expect(client, "laterbehind,");
    ck_assert_uint_eq(stage_closed(CLOSE_OWN), 1);
    stage_end();
}
END_TEST

static void mark_again(struct conn *conn, void *arg)
{
    (void)arg;
    conn_check_output(conn);
}

/* Nobody knows where it will stand: all is checked, until there is another mark. */
TEST(line_behind_an_answer_in_pieces_is_checked)
{
    for (unsigned refuses = 0; refuses < 2; refuses++) {
        begin();
        stage_take(client, 0);
        stage_send(client, "P\n");
        for (unsigned i = 0; i < 6; i++) {
            unsigned asked = session_of(client)->asked;
            stage_take(client, 1);
            ck_assert_uint_gt(session_of(client)->asked, asked);
        }
        session_of(client)->refuses = refuses;
        stage_take(client, SIZE_MAX);
        stage_expect(client, refuses ? "piece," : "piece,line");
        ck_assert_uint_eq(stage_closed(CLOSE_OWN), refuses);
        if (!refuses) {
            stage_do(mark_again, client, NULL);
            stage_send(client, "eone,\n");
            unsigned asked = session_of(client)->asked;
            stage_send(client, "etwo\n");
            ck_assert_uint_eq(session_of(client)->asked, asked);
        }
        stage_end();
        stage.client_count = 0;
        memset(&stage, 0, sizeof(stage));
    }
}
END_TEST

TEST(answer_that_was_queued_is_checked_when_the_connection_finishes)
{
    begin();
    stage_take(client, 0);
    stage_send(client, "eone,\nctwo\n");
    session_of(client)->refuses = true;
    stage_send(client, "f\n");
    stage_take(client, SIZE_MAX);
    stage_expect(client, "");
    ck_assert_uint_eq(stage_closed(CLOSE_OWN), 1);
    ck_assert_uint_eq(at_close.calls, 1);
    stage_end();
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(bytes_count_as_written_one_after_the_other),
    UNIT(positions_hold_over_many_chunks),
    UNIT(shared_bytes_go_out_in_their_places_and_are_given_back),
    UNIT(shared_bytes_are_given_back_however_the_connection_ends),
    UNIT(close_learns_what_was_written_however_it_ends),
    UNIT(position_of_an_answer_that_came_later_is_behind_it),
    UNIT(answers_that_are_kept_count_when_their_turn_has_come),
    UNIT(positions_are_saved_from_what_was_written),
    UNIT(answer_is_checked_before_its_first_byte),
    UNIT(answer_is_checked_at_each_write_until_it_begins_to_leave),
    UNIT(answer_that_is_refused_does_not_leave),
    UNIT(later_answer_is_checked_too),
    UNIT(answer_that_is_kept_is_checked_when_its_turn_has_come),
    UNIT(line_behind_an_answer_in_pieces_is_checked),
    UNIT(answer_that_was_queued_is_checked_when_the_connection_finishes),
};

UNIT_MAIN("output", tests)
