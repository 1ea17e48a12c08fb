/*
 * carry_pending_test.c - connections that go on with other workers while answers are pending: their
 * order, what is kept of them, what is checked, and clients whose end is served. The two servers of
 * a test are in one process, as in carry_test.c.
 */
#include "net/carry.h"

#include "base/record.h"
#include "t/unit/net/carried.h"
#include "t/unit/net/late.h"
#include "t/unit/random.h"

#include <sys/mman.h>
#include <sys/resource.h>

/* ---- the frame ----------------------------------------------------------------------------- */

static _Atomic unsigned rooms; /* calls of `room` */
static _Atomic bool refuses;   /* `may_write` closes the connection */
static _Atomic unsigned asked; /* calls of `may_write` */

static void on_room(struct conn *conn)
{
    (void)conn;
    atomic_fetch_add(&rooms, 1);
}

static bool may_write(struct conn *conn)
{
    atomic_fetch_add(&asked, 1);
    if (!atomic_load(&refuses))
        return true;
    conn_close(conn, LATE_BORED);
    return false;
}

static void late_save(struct conn *conn, struct record_writer *w)
{
    const struct late_session *session = conn_session(conn);
    record_put_u32(w, session->count);
    for (unsigned i = 0; i < session->count; i++) {
        record_put_u32(w, session->waits[i].number - session->waits[0].number);
        record_put_u32(w, session->waits[i].errand);
    }
}

static bool late_restore(struct conn *conn, struct record_reader *r)
{
    struct late_session *session = conn_session(conn);
    session->toy.open = true;
    atomic_fetch_add(&toy_of(conn)->opened, 1);
    session->count = record_get_u32(r);
    for (unsigned i = 0; i < session->count; i++) {
        session->waits[i].number = record_get_u32(r);
        session->waits[i].errand = record_get_u32(r);
        struct late_errand *errand = &late.errands[session->waits[i].errand];
        errand->letter.to = conn_tag(conn);
        errand->number = session->waits[i].number;
    }
    return record_ok(r);
}

static struct protocol *protocol_of(void *arg, const char *name)
{
    struct toy_server *s = arg;
    return strcmp(name, "late") == 0 ? &s->protocol : NULL;
}

static void make(struct toy_server *s, unsigned workers, enum input_end input_end)
{
    late_make(s, workers, 32, toy_limits());
    s->row.tracks_output = true;
    s->row.input_end = input_end;
    s->row.room = on_room;
    s->row.may_write = may_write;
    s->row.save = late_save;
    s->row.restore = late_restore;
}

/* Has all that `from` has go on with `workers` others, which run. */
static void carry_over(struct toy_server *from, struct toy_server *to, unsigned workers)
{
    struct record_reader r, section;
    uint32_t kind;
    enum input_end input_end = from->row.input_end;
    server_park(&from->server);
    int fd = carry_save(from);
    carry_abandon(from);
    make(to, workers, input_end);
    struct carry carry = {.server = &to->server, .protocol = protocol_of, .arg = to};
    ck_assert(record_map(&r, fd));
    while (record_enter(&r, &kind, &section))
        ck_assert_msg(carry_restore(&carry, kind, &section), "%s", section.why);
    ck_assert_msg(record_ok(&r), "%s", r.why);
    carry_done(&carry);
    atomic_store(&to->protocol.connections_made, carry.carried); /* which the service would */
    record_unmap(&r);
    close(fd);
    toy_run(to);
}

/* ---- many ---------------------------------------------------------------------------------- */

enum { CLIENTS = 1000, EACH = 3 };

static void shuffle(struct rng *rng, unsigned *order, unsigned count)
{
    for (unsigned i = count; i > 1; i--) {
        unsigned j = rng_below(rng, i), other = order[j];
        order[j] = order[i - 1];
        order[i - 1] = other;
    }
}

static void serves_none(struct worker *worker, void *arg)
{
    *(bool *)arg = worker->pending_conn == NULL;
}

/* Each client has three answers pending, and one at once behind them; a third of all answers come
 * before, the rest after. */
static void carry_many(unsigned from, unsigned to)
{
    static int clients[CLIENTS];
    static unsigned order[CLIENTS * EACH];
    struct toy_server s, other;
    struct rng rng = rng_start("the order of answers", random_seed());
    struct rlimit files;
    ck_assert(getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = files.rlim_max;
    ck_assert(setrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max > 2 * CLIENTS + 64);
    make(&s, from, INPUT_END_CLOSES);
    toy_run(&s);
    for (unsigned i = 0; i < CLIENTS; i++) {
        char text[64];
        clients[i] = connect_local(&s, i % from);
        snprintf(text, sizeof(text), "p%u a\np%u b\n%c%u c\ne%u d\n", i, i, i % 2 ? 'p' : 'w', i,
                 i);
        send_text(clients[i], text);
    }
    WAIT_UNTIL(atomic_load(&late.count) == CLIENTS * EACH);
    for (unsigned i = 0; i < CLIENTS * EACH; i++)
        order[i] = i;
    shuffle(&rng, order, CLIENTS * EACH);
    for (unsigned i = 0; i < CLIENTS; i++)
        late_answer(&s, order[i]);
    carry_over(&s, &other, to);
    ck_assert_uint_eq(atomic_load(&other.protocol.connections), CLIENTS);
    for (unsigned i = 0; i < to; i++) {
        bool none = false;
        ck_assert_uint_eq(worker_connections(other.server.workers[i]), CLIENTS / to);
        worker_ask(other.server.workers[i], serves_none, &none);
        ck_assert(none);
    }
    for (unsigned i = CLIENTS; i < CLIENTS * EACH; i++)
        late_answer(&other, order[i]);
    for (unsigned i = 0; i < CLIENTS; i++) {
        char text[64];
        snprintf(text, sizeof(text), "%u a\n%u b\n%u c\n%u d\n", i, i, i, i);
        expect(clients[i], text);
    }
    for (unsigned i = 0; i < CLIENTS * EACH; i++) {
        ck_assert_uint_eq(atomic_load(&late.errands[i].answered), 1);
        ck_assert_uint_eq(atomic_load(&late.errands[i].undone), 0);
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        send_text(clients[i], "eon\n");
        expect(clients[i], "on\n");
        close(clients[i]);
    }
    WAIT_UNTIL(atomic_load(&other.protocol.connections) == 0);
    toy_stop(&other);
}

TEST(pending_answers_go_on_with_more_workers)
{
    carry_many(1, 2);
}
END_TEST

TEST(pending_answers_go_on_with_fewer_workers)
{
    carry_many(2, 1);
}
END_TEST

TEST(pending_answers_go_on_in_their_places)
{
    carry_many(2, 2);
}
END_TEST

/* ---- one ----------------------------------------------------------------------------------- */

TEST(client_whose_end_is_served_gets_its_answers_from_other_workers)
{
    for (unsigned i = 0; i < 2; i++) {
        struct toy_server s, other;
        make(&s, 1, INPUT_END_SERVED);
        toy_run(&s);
        int client = connect_tcp(&s, 0);
        send_text(client, i ? "wlater\nebehind\n" : "plater\nebehind\n");
        WAIT_UNTIL(atomic_load(&late.count) == i + 1);
        ck_assert(shutdown(client, SHUT_WR) == 0);
        WAIT_UNTIL(atomic_load(&late.ends) == i + 1);
        carry_over(&s, &other, 2);
        expect_quiet(client);
        late_answer(&other, i);
        expect(client, "later\nbehind\n");
        expect_end(client);
        close(client);
        WAIT_UNTIL(toy_closed(&other, CLOSE_PEER) == 1);
        toy_stop(&other);
        ck_assert_uint_eq(atomic_load(&late.ends), i + 1); /* it is told once */
    }
}
END_TEST

static void answer_marked(struct worker *worker, void *arg)
{
    (void)arg;
    struct late_errand *errand = &late.errands[1];
    struct conn *conn = conn_by_tag(worker, errand->letter.to);
    late_forget(conn, errand->number);
    conn_answer(conn, errand->number);
    conn_reply(conn, "not checked,", 12);
    conn_check_output(conn);
    conn_reply(conn, "checked\n", 8);
    conn_answered(conn);
}

TEST(answer_that_is_kept_is_checked_by_other_workers)
{
    for (unsigned i = 0; i < 2; i++) {
        struct toy_server s, other;
        memset(&late, 0, sizeof(late));
        make(&s, 1, INPUT_END_CLOSES);
        toy_run(&s);
        int client = connect_local(&s, 0);
        send_text(client, "p\np\n");
        WAIT_UNTIL(atomic_load(&late.count) == 2 && atomic_load(&late.errands[1].ready));
        in_worker(&s, 0, answer_marked, NULL);
        ck_assert_uint_eq(atomic_load(&asked), 0);
        carry_over(&s, &other, 2);
        atomic_store(&refuses, i == 0);
        late_answer(&other, 0);
        if (i > 0)
            expect(client, "not checked,checked\n");
        else
            expect_end(client);
        ck_assert_uint_eq(atomic_exchange(&asked, 0), 1);
        close(client);
        toy_stop(&other);
    }
}
END_TEST

static void interject_until_full(struct worker *worker, void *arg)
{
    struct conn *conn = worker_conn_at(worker, 0);
    (void)arg;
    while (conn_interject(conn, toy_pattern, 1000, 1000))
        continue;
}

TEST(room_is_offered_by_other_workers)
{
    struct toy_server s, other;
    make(&s, 1, INPUT_END_CLOSES);
    toy_run(&s);
    int client = connect_local(&s, 0);
    send_text(client, "b1000000\n");
    WAIT_UNTIL(atomic_load(&s.toy.requests) == 1);
    in_worker(&s, 0, interject_until_full, NULL);
    carry_over(&s, &other, 2);
    ck_assert_uint_eq(atomic_load(&rooms), 0);
    expect_pattern(client, 1000000);
    WAIT_UNTIL(atomic_load(&rooms) == 1);
    close(client);
    toy_stop(&other);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(pending_answers_go_on_with_more_workers),
    UNIT(pending_answers_go_on_with_fewer_workers),
    UNIT(pending_answers_go_on_in_their_places),
    UNIT(client_whose_end_is_served_gets_its_answers_from_other_workers),
    UNIT(answer_that_is_kept_is_checked_by_other_workers),
    UNIT(room_is_offered_by_other_workers),
};

UNIT_MAIN("carry_pending", tests)
