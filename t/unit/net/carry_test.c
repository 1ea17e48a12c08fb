/*
 * carry_test.c - parked workers, and connections that continue with other workers, in the middle of
 * everything they can do. Both servers of a test are in one process: the first gives up its
 * descriptors, as exec would do.
 */
#include "net/carry.h"

#include "base/record.h"
#include "t/unit/net/carried.h"

#include <sys/mman.h>

/* ---- the frame ----------------------------------------------------------------------------- */

struct session {
    struct toy_session toy; /* first */
    bool extended;
    uint64_t mark; /* if so: a position of its output */
};

static _Atomic unsigned rooms; /* calls of `room` */

static void on_room(struct conn *conn)
{
    (void)conn;
    atomic_fetch_add(&rooms, 1);
}

static void toy_save(struct conn *conn, struct record_writer *w)
{
    const struct session *own = conn_session(conn);
    const struct toy_session *session = &own->toy;
    CHECK(session->open);
    record_put_u8(w, own->extended);
    if (own->extended)
        record_put_i64(w, conn_position_save(conn, own->mark));
    record_put_u8(w, session->deadline_set);
    record_put_u32(w, session->dump_at);
    record_put_u32(w, session->dump_end);
}

static bool toy_restore(struct conn *conn, struct record_reader *r)
{
    struct session *own = conn_session(conn);
    struct toy_session *session = &own->toy;
    session->open = true;
    atomic_fetch_add(&toy_of(conn)->opened, 1);
    own->extended = record_get_bool(r);
    if (own->extended) {
        if (!conn_extend(conn))
            return false;
        own->mark = conn_position_restore(conn, record_get_i64(r));
    }
    session->deadline_set = record_get_bool(r);
    session->dump_at = record_get_u32(r);
    session->dump_end = record_get_u32(r);
    return record_ok(r);
}

static struct protocol *protocol_of(void *arg, const char *name)
{
    struct toy_server *s = arg;
    return strcmp(name, "toy") == 0 ? &s->protocol : NULL;
}

static void make(struct toy_server *s, unsigned workers)
{
    toy_make(s, workers, toy_limits());
    s->protocol.session_size = sizeof(struct session);
    s->row.extends_later = true;
    s->row.room = on_room;
    s->row.save = toy_save;
    s->row.restore = toy_restore;
}

static bool restore(struct toy_server *s, struct record_reader *r, bool rehearse,
                    struct carry *carry_r)
{
    *carry_r = (struct carry){
        .server = &s->server, .protocol = protocol_of, .arg = s, .rehearse = rehearse};
    struct record_reader section;
    uint32_t kind;
    while (record_enter(r, &kind, &section)) {
        if (!carry_restore(carry_r, kind, &section))
            record_unknown(&section, kind);
    }
    if (!record_ok(r))
        return false;
    carry_done(carry_r);
    atomic_store(&s->protocol.connections_made, carry_r->carried); /* in place of the service */
    unsigned finishing = carry_r->carried - atomic_load(&s->toy.opened);
    atomic_fetch_add(&s->toy.opened, finishing);
    atomic_fetch_add(&s->toy.ended, finishing);
    return true;
}

/* Moves all connections of `from` to a new server with `workers` workers. */
static void carry_over(struct toy_server *from, struct toy_server *to, unsigned workers)
{
    struct record_reader r;
    struct carry carry;
    server_park(&from->server);
    int fd = carry_save(from);
    carry_abandon(from);
    make(to, workers);
    ck_assert(record_map(&r, fd));
    ck_assert_msg(restore(to, &r, false, &carry), "%s", r.why);
    ck_assert(carry.same_places == (workers == 2));
    record_unmap(&r);
    close(fd);
    toy_run(to);
}

/* ---- parking ------------------------------------------------------------------------------- */

TEST(parked_workers_go_on)
{
    struct toy_server s;
    make(&s, 2);
    toy_run(&s);
    int one = connect_tcp(&s, 0), two = connect_local(&s, 1), late;
    send_text(one, "ehalf");
    wait_taken(one);
    for (int i = 0; i < 20; i++) {
        server_park(&s.server);
        ck_assert_uint_eq(worker_cpu_ns(s.server.workers[0]), 0);
        send_text(one, "\n");
        send_text(two, "etwo\n");
        ck_assert(!wait_ready(two, POLLIN, clock_mono_ns() + NS_PER_MS));
        expect_quiet(one);
        server_unpark(&s.server);
        expect(one, i == 0 ? "half\n" : "\n");
        expect(two, "two\n");
        send_text(one, "e");
        wait_taken(one);
    }
    late = connect_tcp(&s, 1);
    send_text(late, "elate\n");
    expect(late, "late\n");
    close(one);
    close(two);
    close(late);
    toy_stop(&s);
}
END_TEST

/* A letter that sends itself on to the other worker, `left` times. */
struct relay {
    struct mail mail;
    struct toy_server *server;
    unsigned left;
};

static void pass_on(struct mail *mail, void *reader)
{
    struct relay *relay = container_of(mail, struct relay, mail);
    if (relay->left-- > 1)
        worker_post(relay->server->server.workers[1 - worker_number(reader)], mail);
}

TEST(letters_under_way_are_delivered_before_the_workers_are_parked)
{
    struct toy_server s;
    struct relay relays[16];
    make(&s, 2);
    toy_run(&s);
    for (int round = 0; round < 10; round++) {
        for (unsigned i = 0; i < ARRAY_SIZE(relays); i++) {
            relays[i] = (struct relay){.mail.deliver = pass_on, .server = &s, .left = 1000};
            worker_post(s.server.workers[i % 2], &relays[i].mail);
        }
        server_park(&s.server);
        for (unsigned i = 0; i < ARRAY_SIZE(relays); i++)
            ck_assert_uint_eq(relays[i].left, 0);
        server_unpark(&s.server);
    }
    toy_stop(&s);
}
END_TEST

/* Acts as if a connection had waited for this one to end. */
static void close_and_tell(struct conn *conn)
{
    struct conn *told = worker_conn_at(conn_worker(conn), 0);
    toy_close(conn);
    if (told != conn)
        conn_reply(told, "it has gone\n", 12);
}

TEST(who_is_told_something_while_parked_hears_it_when_the_workers_go_on)
{
    struct toy_server s;
    make(&s, 1);
    s.row.close = close_and_tell;
    toy_run(&s);
    int waiter = connect_tcp(&s, 0), secure = connect_tcp(&s, 0);
    server_park(&s.server);
    worker_conn_at(s.server.workers[0], 1)->stream.transport = TRANSPORT_TLS;
    ck_assert_uint_eq(server_close_tls(&s.server), 1);
    server_unpark(&s.server);
    expect(waiter, "it has gone\n");
    expect_end(secure);
    close(waiter);
    close(secure);
    toy_stop(&s);
}
END_TEST

/* ---- continuing with other workers ---------------------------------------------------------- */

/* Expects the lines of a dump from `at` to `end`. */
static void expect_dump(int fd, unsigned at, unsigned end)
{
    char line[16];
    for (; at < end; at++) {
        snprintf(line, sizeof(line), "%u\n", at);
        expect(fd, line);
    }
    expect(fd, "end\n");
}

static void go_on_with(unsigned workers)
{
    struct toy_server s, other;
    make(&s, 2);
    toy_run(&s);
    int gone = connect_tcp(&s, 0);
    int half = connect_tcp(&s, 0), greedy = connect_local(&s, 1), dumper = connect_local(&s, 0);
    int timed = connect_tcp(&s, 1), ending = connect_local(&s, 1), idle = connect_local(&s, 0);
    struct toy_names before = ask_names(idle), half_before = ask_names(half);
    send_text(half, "n0013twelve ");
    send_text(timed, "t1\n");
    expect(timed, "expired\n");
    send_text(timed, "t300\n");
    send_text(greedy, "s300000\nb300000\neover\n");
    send_text(dumper, "d60000\nedumped\n");
    send_text(ending, "b300000\nf\n");
    close(gone);
    /* The one that finishes, and the one whose client closed. */
    WAIT_UNTIL(atomic_load(&s.toy.ended) == 2);
    WAIT_UNTIL(atomic_load(&s.toy.queued_max) >= 128u * 1024);
    wait_taken(half);
    wait_taken(timed);
    ck_assert_int_eq(atomic_load(&toy_shares), 1);
    carry_over(&s, &other, workers);
    ck_assert_int_eq(atomic_load(&toy_shares), 0);
    struct toy_names after = ask_names(idle);
    if (workers == 2) {
        ck_assert_uint_eq(after.tag, before.tag);
        ck_assert_uint_eq(after.id, before.id);
    }
    send_text(half, "bytes.");
    expect(half, "twelve bytes.\n");
    ck_assert(workers != 2 || ask_names(half).tag == half_before.tag);
    expect_pattern(greedy, 300000);
    expect_pattern(greedy, 300000);
    expect(greedy, "over\n");
    expect_dump(dumper, 0, 60000);
    expect(dumper, "dumped\n");
    expect_pattern(ending, 300000);
    expect(ending, "bye\n");
    expect_end(ending);
    expect(timed, "expired\n");
    int fresh = connect_tcp(&other, 0); /* gets the free slot, with a different tag */
    ck_assert_uint_ne(ask_names(fresh).tag, half_before.tag);
    int all[] = {half, greedy, dumper, timed, ending, idle, fresh};
    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        close(all[i]);
    WAIT_UNTIL(atomic_load(&other.protocol.connections) == 0);
    toy_stop(&other);
}

TEST(connections_go_on_in_their_places)
{
    go_on_with(2);
}
END_TEST

TEST(connections_are_spread_over_another_number_of_workers)
{
    go_on_with(3);
    go_on_with(1);
}
END_TEST

/* ---- extended connections ------------------------------------------------------------------- */

static void extend_and_mark(struct conn *conn)
{
    struct session *session = conn_session(conn);
    ck_assert(conn_extend(conn));
    session->extended = true;
    session->mark = conn_output_end(conn);
}

/* What is done to the clients of the next test in the worker; slots are in their order. */
static void extend_reader(struct worker *worker, void *arg)
{
    (void)arg;
    extend_and_mark(worker_conn_at(worker, 2));
}

static void extend_all_but_one(struct worker *worker, void *arg)
{
    struct conn *greedy = worker_conn_at(worker, 0), *dumper = worker_conn_at(worker, 1);
    (void)arg;
    extend_and_mark(greedy);
    ck_assert(!conn_interject(greedy, "never", 5, 1000));
    extend_and_mark(dumper);
    ck_assert(conn_in_pieces(dumper));
    ck_assert(conn_interject(dumper, "behind\n", 7, SIZE_MAX));
    extend_reader(worker, NULL); /* again */
}

static struct session *session_at(struct worker *worker, uint32_t slot)
{
    return conn_session(worker_conn_at(worker, slot));
}

static void look_when_carried(struct worker *worker, void *arg)
{
    struct conn *greedy = worker_conn_at(worker, 0), *read_all = worker_conn_at(worker, 2);
    (void)arg;
    ck_assert(!conn_was_written(greedy, session_at(worker, 0)->mark - 1));
    uint64_t unread = conn_output_end(greedy) - session_at(worker, 0)->mark;
    ck_assert_uint_eq(unread, 0);
    ck_assert(conn_was_written(read_all, session_at(worker, 2)->mark - 1));
    ck_assert(!conn_was_written(read_all, session_at(worker, 2)->mark));
    ck_assert_uint_eq(conn_output_end(read_all), session_at(worker, 2)->mark);
    ck_assert(!worker_conn_at(worker, 3)->extended);
    ck_assert_uint_eq(atomic_load(&rooms), 0);
}

static void look_when_read(struct worker *worker, void *arg)
{
    (void)arg;
    ck_assert(conn_was_written(worker_conn_at(worker, 0), session_at(worker, 0)->mark - 1));
    ck_assert(conn_was_written(worker_conn_at(worker, 1), session_at(worker, 1)->mark - 1));
}

TEST(extended_connections_go_on)
{
    struct toy_server s, other;
    make(&s, 2);
    toy_run(&s);
    int greedy = connect_local(&s, 0), dumper = connect_local(&s, 0);
    int read_all = connect_local(&s, 0), plain = connect_local(&s, 0);
    send_text(plain, "eplain\n");
    expect(plain, "plain\n");
    in_worker(&s, 0, extend_reader, NULL);
    send_text(read_all, "eread\n");
    expect(read_all, "read\n");
    send_text(greedy, "b1000000\n");
    send_text(dumper, "d200000\nedumped\n");
    WAIT_UNTIL(atomic_load(&s.toy.requests) >= 4);
    in_worker(&s, 0, extend_all_but_one, NULL);
    carry_over(&s, &other, 2);
    in_worker(&other, 0, look_when_carried, NULL);
    expect_pattern(greedy, 1000000);
    WAIT_UNTIL(atomic_load(&rooms) == 1);
    expect_dump(dumper, 0, 200000);
    expect(dumper, "behind\ndumped\n");
    in_worker(&other, 0, look_when_read, NULL);
    send_text(plain, "eplain\n");
    expect(plain, "plain\n");
    int all[] = {greedy, dumper, read_all, plain};
    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        close(all[i]);
    WAIT_UNTIL(atomic_load(&other.protocol.connections) == 0);
    toy_stop(&other);
}
END_TEST

/* ---- damaged records ------------------------------------------------------------------------ */

/* Tries to restore a record; whatever the result, nothing may crash. */
static bool rehearse(const uint8_t *data, size_t len)
{
    struct toy_server s;
    struct record_reader r;
    struct carry carry;
    make(&s, 2);
    record_reader_init(&r, data, len);
    bool good = restore(&s, &r, true, &carry);
    for (unsigned i = 0; i < 2; i++) {
        for (uint32_t slot = 0; slot < worker_slots(s.server.workers[i]); slot++) {
            struct conn *conn = worker_conn_at(s.server.workers[i], slot);
            if (!conn)
                continue;
            conn_clear_deadline(conn, 0);
            conn->reading = READING_DISCARD; /* its session may be incomplete */
            conn_close(conn, CLOSE_KILLED);
        }
        worker_chain_free_slots(s.server.workers[i]);
    }
    for (unsigned i = 0; i < 2; i++)
        worker_drain(s.server.workers[i]);
    for (unsigned i = 0; i < 2; i++)
        worker_free(&s.server.workers[i]);
    server_free_rules(&s.server);
    return good;
}

TEST(a_record_that_is_cut_or_wrong_is_refused_or_harmless)
{
    struct toy_server s;
    make(&s, 2);
    toy_run(&s);
    int half = connect_tcp(&s, 0), idle = connect_local(&s, 1);
    send_text(half, "n0013twelve ");
    wait_taken(half);
    ck_assert_uint_ne(ask_names(idle).tag, 0);
    server_park(&s.server);
    int fd = carry_save(&s);
    struct record_reader r;
    ck_assert(record_map(&r, fd));
    uint8_t *copy = malloc(r.len);
    ck_assert(copy != NULL);
    memcpy(copy, r.data, r.len);
    ck_assert(rehearse(copy, r.len));
    for (size_t len = 0; len < r.len;
         len += 1 + len / 16) /* a cut between sections goes unnoticed */
        (void)rehearse(copy, len);
    ck_assert(!rehearse(copy, r.len - 1));
    unsigned refused = 0;
    for (size_t i = 0; i < r.len; i += 1 + i % 2) {
        static const uint8_t flips[] = {0x01, 0xff, 0x80, 0x10};
        copy[i] ^= flips[i % ARRAY_SIZE(flips)];
        refused += !rehearse(copy, r.len);
        copy[i] ^= flips[i % ARRAY_SIZE(flips)];
    }
    ck_assert_uint_gt(refused, r.len / 8);
    record_unmap(&r);
    free(copy);
    close(fd);
    server_unpark(&s.server);
    send_text(half, "bytes.");
    expect(half, "twelve bytes.\n");
    close(half);
    close(idle);
    toy_stop(&s);
}
END_TEST

/* A record with so many slots for the first of two workers. */
static bool restore_slots(uint32_t slots, const char *why)
{
    struct toy_server s;
    struct record_reader r;
    struct carry carry;
    struct record_writer *w = malloc(sizeof(*w));
    int fd = memfd_create("carry", MFD_CLOEXEC);
    ck_assert(w != NULL && fd >= 0);
    record_writer_init(w, fd);
    record_begin(w, CARRY_WORKERS);
    record_put_u32(w, 2);
    record_put_u32(w, slots);
    for (uint32_t i = 0; i <= slots; i++)
        record_put_u32(w, 0); /* generations, and the other worker's number of slots */
    record_end(w);
    ck_assert(record_finish(w));
    free(w);
    make(&s, 2);
    ck_assert(record_map(&r, fd));
    bool good = restore(&s, &r, true, &carry);
    ck_assert(good || strstr(r.why, why) != NULL);
    record_unmap(&r);
    close(fd);
    toy_free(&s);
    return good;
}

/* An id has a bit for the second holder of its connection, which no slot may use. */
TEST(record_with_too_many_slots_is_refused)
{
    ck_assert(restore_slots(SLOTS_MAX, ""));
    ck_assert(!restore_slots(SLOTS_MAX + 1, "no memory for the workers' connections"));
}
END_TEST

/* A limit that is lower than what clients have sent may refuse them, but not all others. */
TEST(unfinished_requests_beyond_the_limit_are_restored)
{
    enum { LIMIT = 500 };
    struct toy_server a, b;
    struct record_reader r;
    struct carry carry;
    char text[901];
    int fds[2];
    make(&a, 1);
    toy_run(&a);
    memset(text, 'e', sizeof(text));
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        fds[i] = connect_local(&a, 0);
        text[sizeof(text) - 1 - i] = '\0';
        send_text(fds[i], text);
        wait_taken(fds[i]);
    }
    server_park(&a.server);
    int fd = carry_save(&a);
    carry_abandon(&a);
    make(&b, 1);
    struct rules_config config = {.limits = toy_limits()};
    config.limits.unfinished = LIMIT;
    struct rules *rules = rules_new(&config);
    ck_assert(rules != NULL);
    server_set_rules(&b.server, rules);
    ck_assert(record_map(&r, fd));
    ck_assert_msg(restore(&b, &r, false, &carry), "%s", r.why);
    ck_assert_uint_gt(atomic_load(&b.server.unfinished), LIMIT);
    record_unmap(&r);
    close(fd);
    toy_run(&b);
    WAIT_UNTIL(atomic_load(&b.server.unfinished) <= LIMIT);
    WAIT_UNTIL(toy_closed(&b, CLOSE_UNFINISHED) >= 1);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        close(fds[i]);
    toy_stop(&b);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(parked_workers_go_on),
    UNIT(letters_under_way_are_delivered_before_the_workers_are_parked),
    UNIT(who_is_told_something_while_parked_hears_it_when_the_workers_go_on),
    UNIT(connections_go_on_in_their_places),
    UNIT(connections_are_spread_over_another_number_of_workers),
    UNIT(extended_connections_go_on),
    UNIT(a_record_that_is_cut_or_wrong_is_refused_or_harmless),
    UNIT(record_with_too_many_slots_is_refused),
    UNIT(unfinished_requests_beyond_the_limit_are_restored),
};

UNIT_MAIN("carry", tests)
