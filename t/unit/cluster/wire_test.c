/*
 * wire_test.c - wires to servers that read and write little, stall, close, reset, or never answer.
 */
#include "t/unit/cluster/wire_rig.h"

/* ---- bytes ----------------------------------------------------------------------------------- */

static const enum transport transports[] = {TRANSPORT_TCP, TRANSPORT_UNIX, TRANSPORT_TLS};

static void trickle(struct bench *b)
{
    (void)server_read(&b->server, 1000);
    if (b->server.sent < 300000)
        server_write(&b->server, 1001);
}

static void send_pieces(struct bench *b)
{
    writes = 0;
    for (int i = 0; i < 10; i++)
        bench_send(b, 100);
    ck_assert_uint_eq(writes, 0);
}

static bool has_written(struct bench *b)
{
    ck_assert_uint_eq(writes, 1); /* at the end of the same iteration */
    return wire_queued(b->wire) == 0;
}

TEST(an_iteration_has_one_write)
{
    struct bench b;
    bench_make(&b, TRANSPORT_TCP);
    bench_connect(&b);
    run_act(&b, send_pieces, has_written);
    b.on_received = send_pieces; /* the same from a callback of the wire */
    server_write(&b.server, 10);
    writes = 1;
    let_pass(&b, 20);
    ck_assert_uint_eq(writes, 1);
    ck_assert_uint_eq(b.got, 10);
    while (server_read(&b.server, 5000) && b.server.got < b.sent)
        ;
    ck_assert_uint_eq(b.server.got, 2000);
    bench_free(&b);
}
END_TEST

static void keep_queue_full(struct bench *b)
{
    while (b->sent < 20 * QUEUE_MAX && wire_queued(b->wire) + 40000 <= QUEUE_MAX)
        bench_send(b, 40000 - b->sent % 777);
    (void)server_read(&b->server, 1 + (b->sent + b->server.got) % 65536);
}

static bool server_has_all(struct bench *b)
{
    return b->sent >= 20 * QUEUE_MAX && b->server.got == b->sent;
}

TEST(slow_server_gets_all)
{
    for (size_t i = 0; i < ARRAY_SIZE(transports); i++) {
        struct bench b;
        bench_make(&b, transports[i]);
        bench_connect(&b);
        b.move = keep_queue_full;
        run(&b, server_has_all);
        ck_assert_uint_eq(wire_queued(b.wire), 0);
        ck_assert_uint_eq(b.closed, 0);
        bench_free(&b);
    }
}
END_TEST

static void pour(struct bench *b)
{
    for (int i = 0; i < 100; i++)
        server_write(&b->server, 65536);
}

/* Its write needs the timer in the same iteration. */
static void send_little(struct bench *b)
{
    bench_send(b, 1);
}

static bool has_much(struct bench *b)
{
    return b->got > 20 * WIRE_ITERATION_MAX;
}

TEST(reading_is_bounded)
{
    for (size_t i = 0; i < ARRAY_SIZE(transports); i++) {
        struct bench b;
        bench_make(&b, transports[i]);
        bench_connect(&b);
        b.on_received = send_little;
        b.move = pour;
        run(&b, has_much);
        ck_assert_uint_le(b.got_max, WIRE_ITERATION_MAX + WIRE_PIECE_MAX);
        ck_assert_uint_gt(b.got_max, WIRE_PIECE_MAX);
        bench_free(&b);
    }
}
END_TEST

static bool has_what_was_sent(struct bench *b)
{
    return b->server.sent > 0 && b->got == b->server.sent;
}

static void write_at_once(struct bench *b)
{
    if (b->server.sent == 0 && b->server.ssl && SSL_is_init_finished(b->server.ssl))
        server_write(&b->server, 100);
}

/* TLS 1.2: the server's first bytes come with the end of its handshake, and nothing after them. */
TEST(bytes_come_with_the_handshake)
{
    struct bench b;
    bench_make(&b, TRANSPORT_TLS);
    ck_assert(SSL_CTX_set_max_proto_version(b.server.context, TLS1_2_VERSION) == 1);
    b.move = write_at_once;
    bench_open(&b);
    run(&b, has_what_was_sent);
    ck_assert_uint_eq(b.got, 100);
    bench_free(&b);
}
END_TEST

/* The last bytes are in TLS already when an iteration has read enough: no event reports them. */
TEST(tls_keeps_the_last_bytes)
{
    struct bench b;
    bench_make(&b, TRANSPORT_TLS);
    bench_connect(&b);
    let_pass(&b, 20);
    for (size_t more = 300; more < WIRE_PIECE_MAX; more += 300) {
        size_t end = b.server.sent + WIRE_ITERATION_MAX + more;
        while (b.server.sent < end) {
            size_t was = b.server.sent;
            server_write(&b.server, end - was < 1000 ? end - was : 1000);
            ck_assert_uint_gt(b.server.sent, was);
        }
        run(&b, has_what_was_sent);
    }
    bench_free(&b);
}
END_TEST

/* ---- ends ------------------------------------------------------------------------------------ */

TEST(server_closes)
{
    for (size_t i = 0; i < ARRAY_SIZE(transports); i++) {
        struct bench b;
        bench_make(&b, transports[i]);
        b.move = NULL;
        bench_open(&b);
        b.move = trickle;
        run(&b, is_open);
        let_pass(&b, 20); /* also for the handshake of the server */
        size_t last = b.server.sent;
        server_drop(&b.server);
        b.move = NULL;
        run(&b, has_closed);
        ck_assert_str_eq(b.reason, "the server closed the connection");
        ck_assert_uint_eq(b.got, last); /* what came before the end */
        let_pass(&b, 5);
        ck_assert_uint_eq(b.closed, 1);
        bench_free(&b);
    }
}
END_TEST

TEST(server_resets)
{
    struct bench b;
    bench_make(&b, TRANSPORT_TCP);
    bench_connect(&b);
    server_reset(&b.server);
    run(&b, has_closed);
    ck_assert_str_eq(b.reason, "the server reset the connection");
    bench_free(&b);
}
END_TEST

static void end_before_a_write(struct bench *b)
{
    server_write(&b->server, 500);
    server_drop(&b->server);
    bench_send(b, 1000);
}

/* The last words of a server arrive although a write fails first. */
TEST(last_words)
{
    struct bench b;
    bench_make(&b, TRANSPORT_UNIX);
    bench_connect(&b);
    run_act(&b, end_before_a_write, has_closed);
    ck_assert_uint_eq(b.got, 500);
    ck_assert_uint_eq(b.closed, 1);
    bench_free(&b);
}
END_TEST

static void send_too_much(struct bench *b)
{
    for (size_t sent = 0; sent <= QUEUE_MAX; sent += 65536) {
        ck_assert_uint_le(wire_queued(b->wire), QUEUE_MAX);
        bench_send(b, 65536);
    }
    ck_assert(!wire_is_open(b->wire));
    ck_assert_uint_eq(b->closed, 0); /* not inside wire_send */
    ck_assert_uint_eq(wire_queued(b->wire), 0);
    bench_send(b, 10);
    ck_assert_uint_eq(wire_queued(b->wire), 0);
}

TEST(server_stalls)
{
    struct bench b;
    bench_make(&b, TRANSPORT_TCP);
    bench_connect(&b);
    run_act(&b, send_too_much, has_closed);
    ck_assert_str_eq(b.reason, "more than 1048576 bytes wait for the server to read them");
    b.closed = b.opened = 0;
    bench_open(&b); /* the same while it opens, and once more after that */
    send_too_much(&b);
    run(&b, has_closed);
    b.closed = 0;
    bench_connect(&b);
    send_too_much(&b);
    wire_close(b.wire); /* nobody wants to know any more */
    ck_assert(wire_is_closed(b.wire));
    let_pass(&b, 5);
    ck_assert_uint_eq(b.closed, 0);
    bench_free(&b);
}
END_TEST

/* ---- what owners do in calls ----------------------------------------------------------------- */

static void close_it(struct bench *b)
{
    wire_close(b->wire);
    wire_close(b->wire);
    ck_assert(wire_is_closed(b->wire));
}

static void free_it(struct bench *b)
{
    wire_free(&b->wire);
}

static void open_again(struct bench *b)
{
    close_it(b);
    b->on_opened = b->on_received = b->on_closed = NULL;
    bench_open(b);
    bench_send(b, 300);
}

static void (*const deeds[])(struct bench *b) = {close_it, free_it, open_again};

static void serve(struct bench *b)
{
    (void)server_read(&b->server, 65536);
    if (b->server.sent < 100000)
        server_write(&b->server, 65536);
}

static bool is_served(struct bench *b)
{
    return b->server.got == 300 && b->got == b->server.sent && b->got >= 100000;
}

/* Checks what is left after deed number `deed`. */
static void check_deed(struct bench *b, size_t deed)
{
    if (deed == 2)
        run(b, is_served);
    else
        let_pass(b, 20);
    ck_assert(deed != 1 || !b->wire);
    ck_assert(deed != 0 || wire_is_closed(b->wire));
    bench_free(b);
}

static bool has_some(struct bench *b)
{
    return b->got > 0 || b->opened > 1;
}

static bool closed_once(struct bench *b)
{
    return b->closed == 1;
}

/* A deed in one of the owner's functions: 0 opened, 1 received, 2 closed. */
static void deed_in(unsigned call, enum transport transport, size_t deed)
{
    struct bench b;
    bench_make(&b, transport);
    b.move = serve;
    if (call == 0)
        b.on_opened = deeds[deed];
    else if (call == 1)
        b.on_received = deeds[deed];
    bench_open(&b);
    if (call == 0)
        bench_send(&b, 10);
    run(&b, call == 1 ? has_some : is_open);
    if (call == 2) {
        let_pass(&b, 20);
        b.on_closed = deeds[deed];
        server_drop(&b.server);
        run(&b, closed_once);
    }
    check_deed(&b, deed);
}

TEST(deeds_in_calls)
{
    for (unsigned call = 0; call < 3; call++)
        for (size_t t = 0; t < ARRAY_SIZE(transports); t++)
            for (size_t i = 0; i < ARRAY_SIZE(deeds); i++)
                deed_in(call, transports[t], i);
}
END_TEST

/* ---- no memory ------------------------------------------------------------------------------- */

static bool is_over(struct bench *b)
{
    return b->closed > 0 || (b->server.got == b->sent && b->got == b->server.sent && b->got > 0);
}

static void try_without_memory(unsigned long countdown, bool *failed_r)
{
    struct bench b;
    bench_make(&b, TRANSPORT_TCP);
    b.move = trickle;
    faults = 0;
    wire_free(&b.wire);
    fault_countdown = countdown;
    b.wire = wire_new(&b.reactor, QUEUE_MAX, &calls, &b);
    if (b.wire) {
        wire_open(b.wire, &b.target, b.limit_ns);
        bench_send(&b, 3000);
        bench_send(&b, 30000);
        run(&b, is_over);
    }
    fault_countdown = 0;
    *failed_r = faults > 0;
    if (b.wire && b.closed)
        ck_assert_msg(strstr(b.reason, "no memory") || strstr(b.reason, "emory"), "%s", b.reason);
    ck_assert(*failed_r || b.closed == 0);
    bench_free(&b);
}

TEST(memory_is_short)
{
    bool failed = true;
    unsigned count = 0;
    for (unsigned long countdown = 1; failed; countdown++, count++)
        try_without_memory(countdown, &failed);
    ck_assert_uint_ge(count, 5); /* wire, its deadline, dial, lookup, queue */
}
END_TEST

/* ---- at random ------------------------------------------------------------------------------- */

static void act_at_random(struct bench *b)
{
    struct rng *rng = &b->rng;
    for (uint32_t n = rng_below(rng, 4); n > 0 && b->wire; n--) {
        size_t len = rng_below(rng, rng_one_in(rng, 10) ? 65536 : 300);
        if (wire_queued(b->wire) + len <= QUEUE_MAX && !wire_is_closed(b->wire))
            bench_send(b, len);
    }
    if (rng_one_in(rng, 200))
        wire_close(b->wire);
    if (wire_is_closed(b->wire) && rng_one_in(rng, 2))
        bench_open(b);
}

static void serve_at_random(struct bench *b)
{
    struct rng *rng = &b->rng;
    struct peer *s = &b->server;
    if (!rng_one_in(rng, 3) && !server_read(s, 1 + rng_below(rng, 65536)) && s->fd >= 0)
        server_drop(s);
    if (!rng_one_in(rng, 3))
        server_write(s, rng_below(rng, rng_one_in(rng, 10) ? 65536 : 300));
    if (s->fd >= 0 && rng_one_in(rng, 300))
        server_drop(s);
    else if (s->fd >= 0 && rng_one_in(rng, 300))
        server_reset(s);
    if (rng_one_in(rng, 2))
        act_at_random(b);
}

static void settle_at_random(struct bench *b)
{
    (void)server_read(&b->server, 65536);
    if (wire_is_closed(b->wire))
        bench_open(b);
}

static bool has_settled(struct bench *b)
{
    return wire_is_open(b->wire) && b->server.got == b->sent && b->got == b->server.sent;
}

TEST(random_deeds)
{
    uint64_t seed = rng_start("wires", random_seed()).state;
    for (size_t t = 0; t < ARRAY_SIZE(transports); t++) {
        struct bench b;
        bench_make(&b, transports[t]);
        b.rng.state = seed + t;
        b.on_received = b.on_opened = b.on_closed = act_at_random;
        b.move = serve_at_random;
        let_pass(&b, 5000);
        ck_assert_uint_gt(b.opened, 10);
        ck_assert_uint_gt(b.closed, 5);
        b.on_received = b.on_opened = b.on_closed = NULL;
        b.move = settle_at_random; /* whatever came before, the next connection works */
        run(&b, has_settled);
        bench_free(&b);
    }
}
END_TEST

UNIT_MAIN("wire")
