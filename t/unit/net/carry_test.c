/*
 * carry_test.c - paused workers, which go on; and records of connections that are damaged. How
 * connections go on with other workers is in conn.script and in the stories.
 */
#include "net/carry.h"

#include "base/record.h"
#include "t/unit/net/toy.h"

#include <sys/mman.h>

/* ---- the frame ------------------------------------------------------------------------------- */

static void toy_save(struct conn *conn, struct record_writer *w)
{
    const struct toy_session *session = conn_session(conn);
    CHECK(session->open);
    record_put_u32(w, session->dump_at);
    record_put_u32(w, session->dump_end);
}

static bool toy_restore(struct conn *conn, struct record_reader *r)
{
    struct toy_session *session = conn_session(conn);
    session->open = true;
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
    s->row.save = toy_save;
    s->row.restore = toy_restore;
}

static bool restore(struct toy_server *s, struct record_reader *r)
{
    struct carry carry = {.server = &s->server, .protocol = protocol_of, .arg = s, .dry_run = true};
    struct record_reader section;
    uint32_t kind;
    while (record_enter(r, &kind, &section)) {
        if (!carry_restore(&carry, kind, &section))
            record_unknown(&section, kind);
    }
    if (!record_ok(r))
        return false;
    carry_done(&carry);
    return true;
}

/* Saves a paused server's state; returns the file's descriptor. */
static int carry_save(const struct toy_server *s)
{
    struct record_writer *w = malloc(sizeof(*w));
    int fd = memfd_create("carry", MFD_CLOEXEC);
    ck_assert(w != NULL && fd >= 0);
    record_writer_init(w, fd);
    server_save(&s->server, w);
    ck_assert(record_finish(w));
    free(w);
    return fd;
}

/* ---- pausing --------------------------------------------------------------------------------- */

TEST(paused_workers_go_on)
{
    struct toy_server s;
    make(&s, 2);
    toy_run(&s);
    int one = connect_tcp(&s, 0), two = connect_local(&s, 1), late;
    send_text(one, "ehalf");
    wait_taken(one);
    for (int i = 0; i < 20; i++) {
        server_pause(&s.server);
        ck_assert_uint_eq(worker_cpu_ns(s.server.workers[0]), 0);
        send_text(one, "\n");
        send_text(two, "etwo\n");
        ck_assert(!wait_ready(two, POLLIN, clock_mono_ns() + NS_PER_MS));
        ck_assert(!wait_ready(one, POLLIN, 0));
        server_resume(&s.server);
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

/* A message that sends itself on to the other worker, `left` times. */
struct relay {
    struct mail mail;
    struct toy_server *server;
    unsigned left;
};

static void pass_on(struct mail *mail, void *reader)
{
    struct relay *relay = container_of(mail, struct relay, mail);
    if (relay->left-- > 1)
        reactor_post(worker_reactor(relay->server->server.workers[1 - worker_number(reader)]),
                     mail);
}

TEST(messages_under_way_are_delivered_before_the_workers_are_paused)
{
    struct toy_server s;
    struct relay relays[16];
    make(&s, 2);
    toy_run(&s);
    for (int round = 0; round < 10; round++) {
        for (unsigned i = 0; i < ARRAY_SIZE(relays); i++) {
            relays[i] = (struct relay){.mail.deliver = pass_on, .server = &s, .left = 1000};
            reactor_post(worker_reactor(s.server.workers[i % 2]), &relays[i].mail);
        }
        server_pause(&s.server);
        for (unsigned i = 0; i < ARRAY_SIZE(relays); i++)
            ck_assert_uint_eq(relays[i].left, 0);
        server_resume(&s.server);
    }
    toy_stop(&s);
}

/* Acts as if a connection had waited for this one to end. */
static void close_and_tell(struct conn *conn)
{
    struct conn *told = worker_conn_at(conn_worker(conn), 0);
    toy_close(conn);
    if (told != conn)
        conn_reply(told, "it has gone\n", 12);
}

TEST(who_is_told_something_while_paused_hears_it_when_the_workers_go_on)
{
    struct toy_server s;
    make(&s, 1);
    s.row.close = close_and_tell;
    toy_run(&s);
    int waiter = connect_tcp(&s, 0), secure = connect_tcp(&s, 0);
    server_pause(&s.server);
    worker_conn_at(s.server.workers[0], 1)->stream.transport = TRANSPORT_TLS;
    ck_assert_uint_eq(server_close_tls(&s.server), 1);
    server_resume(&s.server);
    expect(waiter, "it has gone\n");
    expect_end(secure);
    close(waiter);
    close(secure);
    toy_stop(&s);
}

/* ---- damaged records ------------------------------------------------------------------------- */

/* Makes a dry run of a record; whatever the result, nothing may crash. */
static bool dry_run(const uint8_t *data, size_t len)
{
    struct toy_server s;
    struct record_reader r;
    make(&s, 2);
    record_reader_init(&r, data, len);
    bool good = restore(&s, &r);
    for (unsigned i = 0; i < 2; i++) {
        for (uint32_t slot = 0; slot < worker_slots(s.server.workers[i]); slot++) {
            struct conn *conn = worker_conn_at(s.server.workers[i], slot);
            if (!conn)
                continue;
            conn->reading = READING_DISCARD; /* its session may be incomplete */
            conn_close(conn, CLOSE_KILLED);
        }
        worker_chain_free_slots(s.server.workers[i]);
    }
    for (unsigned i = 0; i < 2; i++)
        worker_drain(s.server.workers[i]);
    for (unsigned i = 0; i < 2; i++)
        worker_free(&s.server.workers[i]);
    server_free_snapshot(&s.server);
    return good;
}

TEST(a_record_that_is_cut_or_wrong_is_refused_or_harmless)
{
    struct toy_server s;
    make(&s, 2);
    toy_run(&s);
    int half = connect_tcp(&s, 0), idle = connect_local(&s, 1);
    send_text(half, "etwelve ");
    wait_taken(half);
    ck_assert_uint_ne(ask_names(idle).tag, 0);
    server_pause(&s.server);
    int fd = carry_save(&s);
    struct record_reader r;
    ck_assert(record_map(&r, fd));
    uint8_t *copy = malloc(r.len);
    ck_assert(copy != NULL);
    memcpy(copy, r.data, r.len);
    ck_assert(dry_run(copy, r.len));
    for (size_t len = 0; len < r.len;
         len += 1 + len / 16) /* a cut between sections goes unnoticed */
        (void)dry_run(copy, len);
    ck_assert(!dry_run(copy, r.len - 1));
    unsigned refused = 0;
    for (size_t i = 0; i < r.len; i += 1 + i % 2) {
        static const uint8_t flips[] = {0x01, 0xff, 0x80, 0x10};
        copy[i] ^= flips[i % ARRAY_SIZE(flips)];
        refused += !dry_run(copy, r.len);
        copy[i] ^= flips[i % ARRAY_SIZE(flips)];
    }
    ck_assert_uint_gt(refused, r.len / 8);
    record_unmap(&r);
    free(copy);
    close(fd);
    server_resume(&s.server);
    send_text(half, "bytes.\n");
    expect(half, "twelve bytes.\n");
    close(half);
    close(idle);
    toy_stop(&s);
}

/* A record with so many slots for the first of two workers. */
static bool restore_slots(uint32_t slots, const char *why)
{
    struct toy_server s;
    struct record_reader r;
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
    bool good = restore(&s, &r);
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

UNIT_MAIN("carry")
