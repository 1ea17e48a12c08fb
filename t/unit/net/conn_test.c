/*
 * conn_test.c - connections over real sockets: transports, the loop's wake-ups, ends and names.
 * conn.script has what does not need the kernel.
 */
#include "net/conn.h"

#include "t/unit/net/secure.h"

/* ---- answers that come later, and ends, over each transport ---------------------------------- */

static const enum transport transports[] = {TRANSPORT_TCP, TRANSPORT_TLS, TRANSPORT_UNIX};

/* The pending answer of the connection that asked last, and what became of its message. */
static struct {
    struct message message; /* first */
    uint32_t number;
    _Atomic unsigned asked, answered, undone, ends;
} late;

static void deliver(struct mail *mail, void *reader)
{
    struct conn *conn = conn_by_tag(reader, late.message.to);
    (void)mail;
    if (conn) {
        conn_answer(conn, late.number);
        conn_reply(conn, "late\n", 5);
        conn_answered(conn);
    }
    atomic_fetch_add(conn ? &late.answered : &late.undone, 1);
}

/* q: an answer that comes later; the next request waits. */
static enum served serve(struct conn *conn, const void *parsed)
{
    const struct toy_request *request = parsed;
    if (request->len != 1 || request->text[0] != 'q')
        return toy_serve(conn, parsed);
    late.message = (struct message){.mail.deliver = deliver, .to = conn_tag(conn)};
    CHECK(conn_pend(conn, &late.number));
    atomic_fetch_add(&late.asked, 1);
    return SERVED_PENDING;
}

static void ended(struct conn *conn)
{
    (void)conn;
    atomic_fetch_add(&late.ends, 1);
}

/* Counts the iterations of the worker. */
struct count {
    struct reactor_hook hook;
    _Atomic unsigned iterations;
};

static void count_one(struct reactor_hook *hook, struct moment now)
{
    (void)now;
    atomic_fetch_add(&container_of(hook, struct count, hook)->iterations, 1);
}

/* Nothing wakes the worker any more: several stretches of time pass without an iteration. */
static void expect_asleep(struct count *count)
{
    int64_t give_up_ns = clock_mono_ns() + PATIENCE_NS;
    unsigned seen = atomic_load(&count->iterations);
    for (unsigned stretches = 0; stretches < 4;) {
        pause_ns(5 * NS_PER_MS);
        unsigned now = atomic_load(&count->iterations);
        stretches = now == seen ? stretches + 1 : 0;
        seen = now;
        ck_assert_msg(clock_mono_ns() < give_up_ns, "the worker is woken again and again");
    }
}

/* A client of any transport. */
static struct secure_client join(struct toy_server *s, enum transport transport)
{
    struct secure_client c = {0};
    int fd = transport == TRANSPORT_UNIX ? local_pair(SOCK_STREAM, &c.fd) : tcp_pair(&c.fd);
    struct toy_opening opening = {.protocol = &s->protocol, .transport = transport, .fd = fd};
    in_worker(s, 0, toy_open_there, &opening);
    ck_assert(opening.ok);
    if (transport == TRANSPORT_TLS) {
        c = client_new(c.fd, TLS1_3_VERSION);
        ck_assert_int_eq(SSL_do_handshake(c.ssl), 1);
    }
    return c;
}

/* It sends nothing more, and still reads. */
static void shut(struct secure_client *c)
{
    if (c->ssl)
        ck_assert_int_eq(SSL_shutdown(c->ssl), 0);
    ck_assert(shutdown(c->fd, SHUT_WR) == 0);
}

/* It goes; by a reset where it can. */
static void go(struct secure_client *c, bool resets)
{
    struct linger now = {.l_onoff = resets, .l_linger = 0};
    ck_assert(setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) == 0);
    client_free(c);
}

static uint64_t gone(struct toy_server *s)
{
    return toy_closed(s, CLOSE_PEER) + toy_closed(s, CLOSE_RESET);
}

/* One client: its end is served, or closes at once; it half-closes, closes or resets, with a
 * request behind the pending one, and with answers that it has not taken. */
static void end_while_pending(struct toy_server *s, struct count *count, enum transport transport,
                              unsigned how, bool is_served)
{
    static uint8_t got[1000000];
    struct secure_client c = join(s, transport);
    unsigned asked = atomic_load(&late.asked), answered = atomic_load(&late.answered);
    uint64_t gone_before = gone(s);
    client_send(&c, "b1000000\nq\nebehind\n");
    client_receive(&c, got, sizeof(got));
    ck_assert(memcmp(got, toy_pattern, sizeof(got)) == 0);
    WAIT_UNTIL(atomic_load(&late.asked) == asked + 1);
    expect_asleep(count);
    client_send(&c, "emore\n");
    expect_asleep(count);
    if (how == 0)
        shut(&c);
    else
        go(&c, how == 2);
    if (is_served && how == 0) {
        WAIT_UNTIL(atomic_load(&late.ends) > 0);
        expect_asleep(count);
        ck_assert_uint_eq(gone(s), gone_before);
    } else if (!is_served) {
        WAIT_UNTIL(gone(s) == gone_before + 1);
    }
    conn_post(&s->server, &late.message);
    if (is_served && how == 0)
        client_expect(&c, "late\nbehind\nmore\n");
    WAIT_UNTIL(gone(s) == gone_before + 1);
    WAIT_UNTIL(atomic_load(&late.answered) + atomic_load(&late.undone) == asked + 1);
    ck_assert(is_served || atomic_load(&late.answered) == answered);
    if (how == 0)
        go(&c, false);
    atomic_store(&late.ends, 0);
}

TEST(clients_may_go_while_answers_are_pending)
{
    for (unsigned is_served = 0; is_served < 2; is_served++) {
        struct toy_server s;
        struct pki pki;
        struct count count = {.hook.run = count_one};
        struct server_limits limits = toy_limits();
        limits.output_buffer = 4u << 20;
        pki_make(&pki);
        toy_make(&s, 1, limits);
        memset(&late, 0, sizeof(late));
        s.secure = true;
        secure_snapshot(&s, limits, pki_tls(&pki, "server", TLS_VERIFY_OFF, TLS_VERSION_1_2));
        s.row.pending_max = 8;
        s.row.serve = serve;
        s.row.input_end = is_served ? INPUT_END_SERVED : INPUT_END_CLOSES;
        s.row.ended = is_served ? ended : NULL;
        reactor_add_hook(worker_reactor(s.server.workers[0]), &count.hook);
        toy_run(&s);
        for (unsigned i = 0; i < 3 * ARRAY_SIZE(transports); i++)
            end_while_pending(&s, &count, transports[i / 3], i % 3, is_served);
        toy_stop(&s);
        pki_remove(&pki);
    }
}

TEST(urgent_data_hides_nothing_behind_it)
{
    struct toy_server s;
    toy_start(&s, 1, toy_limits());
    for (int end = 0; end < 2; end++) {
        int client, fd = tcp_pair(&client);
        send_text(client, "ea\n");
        ck_assert(send(client, "!", 1, MSG_OOB) == 1); /* the server ignores urgent data */
        send_text(client, "eb\n");
        if (end)
            ck_assert(shutdown(client, SHUT_WR) == 0);
        /* Everything has arrived before the worker reads any of it. */
        int there;
        WAIT_UNTIL(ioctl(fd, FIONREAD, &there) == 0 && there >= 3);
        toy_give(&s, 0, fd);
        expect(client, "a\nb\n");
        if (end)
            expect_end(client);
        for (int i = 0; !end && i < 20; i++) { /* now the worker is already watching */
            send_text(client, "ec\n");
            ck_assert(send(client, "!", 1, MSG_OOB) == 1);
            send_text(client, "ed\n");
            expect(client, "c\nd\n");
        }
        close(client);
    }
    toy_stop(&s);
}

/* The first write tells of the reset, the next ones of a broken pipe; in one piece and in two. */
TEST(writing_after_a_reset_is_error)
{
    int client;
    char bytes[] = "ab";
    struct stream stream = {.fd = tcp_pair(&client)};
    struct iovec pieces[] = {{.iov_base = bytes, .iov_len = 1},
                             {.iov_base = bytes + 1, .iov_len = 1}};
    signal(SIGPIPE, SIG_IGN); /* as the daemon does */
    reset(client);
    ck_assert(wait_ready(stream.fd, POLLIN, clock_mono_ns() + PATIENCE_NS));
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(stream_write(&stream, pieces, i < 2 ? 1 : 2), STREAM_RESET);
    stream_finish(&stream);
    stream_close(&stream);
    ck_assert_int_eq(stream.fd, -1);
}

/* ---- names ----------------------------------------------------------------------------------- */

struct finding {
    uint64_t tag;
    bool found;
};

static void find(struct worker *worker, void *arg)
{
    struct finding *finding = arg;
    finding->found = conn_by_tag(worker, finding->tag) != NULL;
}

static bool tag_found(struct toy_server *s, unsigned number, uint64_t tag)
{
    struct finding finding = {.tag = tag};
    in_worker(s, number, find, &finding);
    return finding.found;
}

TEST(tag_finds_its_connection_and_no_later_one_in_its_slot)
{
    struct toy_server s;
    toy_start(&s, 2, toy_limits());
    uint64_t tags[20];
    int namesake = connect_local(&s, 0); /* in the same slot of the other worker */
    int stays = connect_local(&s, 1);
    uint64_t stays_tag = ask_names(stays).tag;
    for (unsigned i = 0; i < ARRAY_SIZE(tags); i++) {
        int client = connect_local(&s, 1);
        tags[i] = ask_names(client).tag;
        ck_assert_uint_eq(conn_tag_worker(tags[i]), 1);
        ck_assert(tag_found(&s, 1, tags[i]));
        for (unsigned j = 0; j < i; j++)
            ck_assert(!tag_found(&s, 1, tags[j]));
        ck_assert_uint_eq(tags[i] >> 32, tags[0] >> 32); /* the slot is used again */
        close(client);
        WAIT_UNTIL(atomic_load(&s.toy.ended) == i + 1);
        ck_assert(!tag_found(&s, 1, tags[i]));
    }
    ck_assert(!tag_found(&s, 1, 0) && !tag_found(&s, 1, UINT64_MAX));
    ck_assert(!tag_found(&s, 1, stays_tag + (UINT64_C(1) << 32 << 10))); /* no such slot */
    ck_assert(tag_found(&s, 1, stays_tag) && !tag_found(&s, 0, stays_tag));
    close(stays);
    close(namesake);
    toy_stop(&s);
}

UNIT_MAIN("net/conn")
