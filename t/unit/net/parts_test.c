/* parts_test.c - requests that are served in parts: how long they may take, what they cost, and
 * what all connections together may keep of them. */
#include "t/unit/net/stage.h"

#include <endian.h>
#include <malloc.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* So many bytes renew the deadline, which is stage_limits().request_timeout_ns. */
enum { STEP = 64 * 1024, HEAD = 9 };

/* A request is 's' or 'k' (skip, keep) and its length, 8 bytes, little endian; then its bytes. It
 * is answered "done", or "full" where 'k' finds no room. */
struct session {
    uint64_t left; /* bytes of the request that goes on */
    uint64_t kept;
    bool keeps, is_full;
    unsigned parts;
};

struct request {
    const uint8_t *data;
    size_t len;
    bool is_head;
};

static struct session *session_of(struct stage_client *c)
{
    return conn_session(c->conn);
}

static enum parsed parse(struct conn *conn, const uint8_t *data, size_t len, void *to,
                         size_t *used_r)
{
    const struct session *session = conn_session(conn);
    struct request *request = to;
    if (session->left > 0) {
        *used_r = len < session->left ? len : session->left;
        *request = (struct request){.data = data, .len = *used_r};
        return PARSED_LAST;
    }
    *used_r = HEAD;
    if (len < HEAD)
        return PARSED_MORE;
    *request = (struct request){.data = data, .len = HEAD, .is_head = true};
    return PARSED_LAST;
}

static enum served serve(struct conn *conn, const void *parsed)
{
    const struct request *request = parsed;
    struct session *session = conn_session(conn);
    if (request->is_head) {
        memcpy(&session->left, request->data + 1, 8);
        session->left = le64toh(session->left);
        session->keeps = request->data[0] == 'k';
        session->is_full = false;
    } else {
        session->left -= request->len;
        session->parts++;
    }
    if (session->keeps && !request->is_head && !session->is_full) {
        if (conn_hold(conn, request->len)) {
            session->kept += request->len;
        } else {
            session->is_full = true;
            conn_unhold(conn, session->kept);
            session->kept = 0;
        }
    }
    if (session->left > 0)
        return SERVED_PART;
    conn_reply(conn, session->is_full ? "full" : "done", 4);
    conn_unhold(conn, session->kept);
    session->kept = 0;
    return SERVED;
}

static const struct protocol_row row = {
    .request_size = sizeof(struct request), .part_step = STEP, .parse = parse, .serve = serve};

static void begin(uint64_t unfinished)
{
    struct server_limits limits = stage_limits();
    limits.unfinished = unfinished;
    stage_make(&row, sizeof(struct session), limits);
}

static void send_head(struct stage_client *c, char kind, uint64_t len)
{
    uint8_t head[HEAD] = {(uint8_t)kind};
    len = htole64(len);
    memcpy(head + 1, &len, 8);
    stage_send_bytes(c, head, HEAD);
}

static uint8_t zeros[MIB];

/* ---- time ---------------------------------------------------------------------------------- */

TEST(request_of_64_mib_at_1_mib_a_second_has_the_time)
{
    begin(0);
    struct stage_client *c = stage_connect();
    send_head(c, 's', 64 * MIB);
    for (unsigned i = 0; i < 64; i++) {
        stage_expect(c, "");
        stage_advance(NS_PER_S);
        ck_assert(!c->peer.closed);
        stage_send_bytes(c, zeros, MIB);
    }
    stage_expect(c, "done");
    ck_assert(!deadline_is_set(&c->conn->read_deadline));
    stage_advance(1000 * NS_PER_S); /* idle now */
    ck_assert(!c->peer.closed);
    stage_end();
}
END_TEST

TEST(request_at_1_byte_a_second_has_not)
{
    begin(0);
    struct stage_client *c = stage_connect();
    send_head(c, 's', 64 * MIB);
    unsigned seconds = 0;
    while (!c->peer.closed && seconds < 1000) {
        stage_send_bytes(c, zeros, 1);
        stage_advance(NS_PER_S);
        seconds++;
    }
    ck_assert_uint_eq(seconds, 30);
    ck_assert_uint_eq(stage_closed(CLOSE_REQUEST_TIMEOUT), 1);
    stage_end();
}
END_TEST

/* Just under a step for each time-out is too little, just a step is enough. */
TEST(step_renews_the_deadline_and_less_does_not)
{
    for (unsigned less = 0; less < 2; less++) {
        begin(0);
        struct stage_client *c = stage_connect();
        send_head(c, 's', GIB);
        for (unsigned i = 0; i < 10 && !c->peer.closed; i++) {
            stage_advance(29 * NS_PER_S);
            if (!c->peer.closed)
                stage_send_bytes(c, zeros, STEP - less);
        }
        ck_assert(c->peer.closed == (less > 0));
        stage_end();
        memset(&stage, 0, sizeof(stage));
    }
}
END_TEST

TEST(step_may_come_in_small_pieces)
{
    begin(0);
    struct stage_client *c = stage_connect();
    send_head(c, 's', GIB);
    for (unsigned i = 0; i < 1000; i++) { /* 1/26 of a step every second */
        stage_advance(NS_PER_S);
        ck_assert(!c->peer.closed);
        stage_send_bytes(c, zeros, STEP / 26);
    }
    stage_advance(31 * NS_PER_S);
    ck_assert_uint_eq(stage_closed(CLOSE_REQUEST_TIMEOUT), 1);
    stage_end();
}
END_TEST

/* Bytes of the request before do not count for the next. */
TEST(each_request_begins_anew)
{
    begin(0);
    struct stage_client *c = stage_connect();
    send_head(c, 's', STEP - 1);
    stage_send_bytes(c, zeros, STEP - 2);
    stage_advance(29 * NS_PER_S);
    stage_send_bytes(c, zeros, 1);
    stage_expect(c, "done");
    send_head(c, 's', STEP);
    stage_advance(29 * NS_PER_S);
    stage_send_bytes(c, zeros, 2); /* would have made a step */
    ck_assert(!c->peer.closed);
    stage_advance(2 * NS_PER_S);
    ck_assert_uint_eq(stage_closed(CLOSE_REQUEST_TIMEOUT), 1);
    stage_end();
}
END_TEST

TEST(head_that_is_cut_has_its_time_as_before)
{
    begin(0);
    struct stage_client *c = stage_connect();
    stage_send_bytes(c, "s", 1);
    stage_advance(29 * NS_PER_S);
    stage_send_bytes(c, zeros, 7);
    ck_assert(!c->peer.closed);
    stage_advance(2 * NS_PER_S);
    ck_assert_uint_eq(stage_closed(CLOSE_REQUEST_TIMEOUT), 1);
    stage_end();
}
END_TEST

/* ---- memory -------------------------------------------------------------------------------- */

TEST(skipping_4_gib_costs_no_memory)
{
    begin(MIB);
    struct stage_client *c = stage_connect();
    send_head(c, 's', 4 * GIB + 1);
    stage_send_bytes(c, zeros, WORKER_INPUT); /* the peer has its buffer now */
    size_t before = mallinfo2().uordblks;
    uint64_t sent = WORKER_INPUT;
    unsigned parts = session_of(c)->parts;
    for (; sent + WORKER_INPUT <= 4 * GIB; sent += WORKER_INPUT) {
        stage_send_bytes(c, zeros, WORKER_INPUT);
        ck_assert(c->conn->in == NULL);
        ck_assert_uint_eq(atomic_load(&stage.server.unfinished), 0);
    }
    ck_assert_uint_eq(sent, 4 * GIB);
    ck_assert_uint_eq(mallinfo2().uordblks, before);
    ck_assert_uint_ge(session_of(c)->parts - parts, 4 * GIB / WORKER_INPUT - 1);
    stage_expect(c, "");
    stage_send_bytes(c, zeros, 1);
    stage_expect(c, "done");
    stage_end();
}
END_TEST

TEST(kept_bytes_of_all_connections_are_limited)
{
    begin(10 * MIB);
    struct stage_client *c[4];
    for (unsigned i = 0; i < ARRAY_SIZE(c); i++) {
        c[i] = stage_connect();
        send_head(c[i], 'k', 4 * MIB);
    }
    for (unsigned mib = 0; mib < 3; mib++) {
        for (unsigned i = 0; i < 3; i++)
            stage_send_bytes(c[i], zeros, MIB);
    }
    ck_assert_uint_eq(atomic_load(&stage.server.unfinished), 9 * MIB);
    stage_send_bytes(c[3], zeros, MIB); /* fits */
    ck_assert_uint_eq(atomic_load(&stage.server.unfinished), 10 * MIB);
    ck_assert(!session_of(c[3])->is_full);
    stage_send_bytes(c[0], zeros, 1); /* does not */
    ck_assert(session_of(c[0])->is_full);
    ck_assert_uint_eq(atomic_load(&stage.server.unfinished), 7 * MIB);
    stage_send_bytes(c[0], zeros, MIB - 1);
    stage_expect(c[0], "full");
    stage_send_bytes(c[1], zeros, MIB);
    stage_expect(c[1], "done");
    ck_assert_uint_eq(atomic_load(&stage.server.unfinished), 4 * MIB);
    c[2]->peer.broken = c[2]->peer.news = true; /* its 3 MiB come back with its end */
    stage_run();
    ck_assert_uint_eq(atomic_load(&stage.server.unfinished), MIB);
    stage_advance(40 * NS_PER_S); /* and so those of a request that takes too long */
    ck_assert(c[3]->peer.closed);
    ck_assert_uint_eq(atomic_load(&stage.server.unfinished), 0);
    stage_end();
}
END_TEST

static void hold_all(struct conn *conn, void *arg)
{
    (void)arg;
    ck_assert(!conn_hold(conn, SIZE_MAX));
    ck_assert(!conn_hold(conn, MIB + 1));
    ck_assert(conn_hold(conn, MIB));
    ck_assert(!conn_hold(conn, 1));
    ck_assert(conn_hold(conn, 0));
    conn_unhold(conn, MIB - 1);
    ck_assert(conn_hold(conn, 5));
    conn_unhold(conn, 6);
    ck_assert(conn_hold(conn, MIB));
}

TEST(hold_counts_to_the_byte)
{
    begin(MIB);
    struct stage_client *c = stage_connect();
    stage_do(hold_all, c, NULL);
    stage_send_bytes(c, "s", 1); /* the begin of a head that is cut claims nothing */
    ck_assert(!c->peer.closed);
    ck_assert_uint_eq(atomic_load(&stage.server.unfinished), MIB);
    stage_end();
}
END_TEST

TEST(giving_back_more_than_is_held_is_a_bug)
{
    begin(MIB);
    struct stage_client *c = stage_connect();
    conn_unhold(c->conn, 1);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(request_of_64_mib_at_1_mib_a_second_has_the_time),
    UNIT(request_at_1_byte_a_second_has_not),
    UNIT(step_renews_the_deadline_and_less_does_not),
    UNIT(step_may_come_in_small_pieces),
    UNIT(each_request_begins_anew),
    UNIT(head_that_is_cut_has_its_time_as_before),
    UNIT(skipping_4_gib_costs_no_memory),
    UNIT(kept_bytes_of_all_connections_are_limited),
    UNIT(hold_counts_to_the_byte),
    UNIT_ABORTS(giving_back_more_than_is_held_is_a_bug),
};

UNIT_MAIN("parts", tests)
