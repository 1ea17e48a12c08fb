/*
 * state_test.c - services with a saved and restored state continue like those before. Two worlds of
 * workers, connections and services answer the same requests; the second starts with the state of
 * the first, and answers must match byte for byte. Damage is refused, or harmless.
 *
 * The clock is the test's (it stands in for base/clock.c). Workers do not run; the test acts for
 * their threads.
 */
#include "t/unit/serving.h"

#include "engine/contention.h"
#include "engine/state.h"
#include "net/private.h"
#include "proto/counter.h"
#include "t/unit/random.h"
#include "t/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { CLIENTS = 30, NAMES = 8, KIND_CONN = 0x7001, TABLE_COLLECTOR = 0x0110, REPLY_MAX = 65536 };

static struct moment now = {.mono_ns = 1000, .unix_s = 1700000000};
static struct rng rng;
static struct record_writer writer;

struct moment clock_now(void)
{
    return now;
}

int64_t clock_mono_ns(void)
{
    return now.mono_ns;
}

int64_t clock_unix_ns(void)
{
    return now.unix_s * NS_PER_S;
}

/* ---- a world ----------------------------------------------------------------------------- */

struct client {
    int fd; /* the client's end of the socket pair */
    struct conn *conn;
};

struct world {
    struct server server;
    struct services *services;
    struct client clients[CLIENTS]; /* the first half uses the text protocol */
};

static struct serving_config usual_config(void)
{
    return (struct serving_config){
        .table = {.buckets = 100,
                  .memory_limit = (size_t)64 << 20,
                  .stats_interval_s = 60,
                  .hash_key = {rng_next(&rng), 2}},
        .poolcounter_max_locks = 3,
        .poolcounter_max_line = 1000,
    };
}

static void begin(struct world *world, const struct serving_config *config, unsigned workers)
{
    struct rules_config rules = {.limits = {.output_buffer = 1u << 20,
                                            .request_timeout_ns = 100 * NS_PER_S,
                                            .write_timeout_ns = 100 * NS_PER_S}};
    memset(world, 0, sizeof(*world));
    server_set_rules(&world->server, rules_new(&rules));
    for (; world->server.count < workers; world->server.count++) {
        struct worker *worker = worker_new(&world->server, world->server.count);
        ck_assert_ptr_nonnull(worker);
        world->server.workers[world->server.count] = worker;
        worker_begin_iteration(worker);
    }
    world->services = serving_services(config, &world->server, now);
    ck_assert_ptr_nonnull(world->services);
}

static bool is_text(unsigned i)
{
    return i < CLIENTS / 2;
}

/* Runs every worker until it has nothing more to do. */
static void run_workers(struct world *world)
{
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < world->server.count; i++) {
            struct worker *worker = world->server.workers[i];
            worker_begin_iteration(worker);
            reactor_deliver(worker_reactor(worker));
            (void)worker_end_iteration(worker);
        }
    }
}

static void open_client(struct world *world, unsigned i)
{
    struct client *client = &world->clients[i];
    struct worker *worker = world->server.workers[i % world->server.count];
    struct protocol *protocol =
        services_protocol(world->services, is_text(i) ? "poolcounter" : "counter");
    int fds[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    atomic_fetch_add(&protocol->connections, 1);
    ck_assert(worker_open(worker, protocol,
                          (struct stream){.fd = fds[0], .transport = TRANSPORT_UNIX}, 0));
    client->fd = fds[1];
    client->conn = NULL;
    for (uint32_t slot = 0; slot < worker_slots(worker); slot++) {
        struct conn *conn = worker_conn_at(worker, slot);
        if (conn && conn->stream.fd == fds[0])
            client->conn = conn;
    }
    ck_assert_ptr_nonnull(client->conn);
}

static void close_client(struct world *world, unsigned i)
{
    conn_close(world->clients[i].conn, CLOSE_PEER);
    close(world->clients[i].fd);
    run_workers(world);
}

static void end(struct world *world)
{
    for (unsigned i = 0; i < CLIENTS; i++)
        close_client(world, i);
    for (unsigned i = 0; i < world->server.count; i++)
        worker_drain(world->server.workers[i]);
    services_free(&world->services);
    while (world->server.count > 0)
        worker_free(&world->server.workers[--world->server.count]);
    server_free_rules(&world->server);
}

/* Receives what was sent to a client; returns its length. */
static size_t receive(const struct world *world, unsigned i, uint8_t *to)
{
    ssize_t n = recv(world->clients[i].fd, to, REPLY_MAX, MSG_DONTWAIT);
    return n > 0 ? (size_t)n : 0;
}

static void say(struct world *world, unsigned i, const void *data, size_t len)
{
    struct conn *conn = world->clients[i].conn;
    const struct protocol_row *row = conn->protocol->row;
    _Alignas(16) uint8_t request[PROTOCOL_REQUEST_MAX];
    size_t used = 0;
    if (conn_in_pieces(conn))
        return;
    ck_assert_int_eq(row->parse(conn, data, len, request, &used), PARSED);
    ck_assert_uint_eq(used, len);
    switch (row->serve(conn, request)) {
    case SERVED_PIECES:
        conn_move(conn, READING_PIECES);
        break;
    case SERVED:
        break;
    default:
        ck_abort_msg("not a request");
    }
    run_workers(world);
}

static void say_text(struct world *world, unsigned i, const char *line)
{
    say(world, i, line, strlen(line));
}

static void expect(struct world *world, unsigned i, const char *line)
{
    char got[REPLY_MAX + 1];
    got[receive(world, i, (uint8_t *)got)] = 0;
    ck_assert_str_eq(got, line);
}

static void say_binary(struct world *world, unsigned i, struct ctr_request req)
{
    uint8_t data[1000];
    say(world, i, data, ctr_compose_request(&req, data, sizeof(data)));
}

static void resume(struct world *world, unsigned i)
{
    struct conn *conn = world->clients[i].conn;
    if (conn_in_pieces(conn) && conn->protocol->row->resume(conn))
        conn_pieces_done(conn);
    run_workers(world);
}

/* ---- random requests ---------------------------------------------------------------------- */

static void text_request(struct world *world, unsigned i, struct rng *at)
{
    static const char *const stats[] = {"STATS FULL\n", "STATS UPTIME\n", "STATS x\n"};
    char line[200];
    unsigned n = rng_below(at, NAMES), what = rng_below(at, 20);
    if (what < 11)
        snprintf(line, sizeof(line), "ACQ4%s name%u %u %u %u\n", rng_one_in(at, 2) ? "ME" : "ANY",
                 n, 1 + rng_below(at, 3), 5 + rng_below(at, 10), rng_below(at, 5));
    else if (what < 15)
        snprintf(line, sizeof(line), "RELEASE\n");
    else if (what < 18)
        snprintf(line, sizeof(line), "RELEASE name%u\n", n);
    else
        snprintf(line, sizeof(line), "%s", stats[rng_below(at, 3)]);
    say_text(world, i, line);
}

static void binary_request(struct world *world, unsigned i, struct rng *at)
{
    char name[20];
    int len = snprintf(name, sizeof(name), "name%u", rng_below(at, 40));
    static const uint8_t opcodes[] = {CTR_ACQUIRE, CTR_ACQUIRE, CTR_ACQUIRE, CTR_RELEASE,
                                      CTR_RELEASE, CTR_GET,     CTR_DUMP};
    struct ctr_request req = {
        .opcode = opcodes[rng_below(at, ARRAY_SIZE(opcodes))],
        .opaque = {(uint8_t)i, 2, 3, 4},
        .units = 1 + rng_below(at, 2),
        .name = {.data = (const uint8_t *)name, .len = (size_t)len},
    };
    req.maximum = req.units + rng_below(at, 10);
    say_binary(world, i, req);
}

static void one_request(struct world *world, struct rng *at)
{
    unsigned i = rng_below(at, CLIENTS), what = rng_below(at, 100);
    struct conn *conn = world->clients[i].conn;
    for (unsigned n = 0; n < world->server.count; n++)
        worker_begin_iteration(world->server.workers[n]);
    if (what < 3) {
        close_client(world, i);
        open_client(world, i);
    } else if (what < 8 && is_text(i) && conn_expires(conn, 0)) {
        conn->protocol->row->expire(conn, 0);
        run_workers(world);
    } else if (what < 60 && conn_in_pieces(conn)) {
        resume(world, i);
    } else if (is_text(i)) {
        text_request(world, i, at);
    } else {
        binary_request(world, i, at);
    }
}

static void pass_time(struct rng *at)
{
    now.mono_ns += rng_below(at, 20000000);
    now.unix_s += rng_one_in(at, 50);
}

static void run(struct world *world, unsigned steps)
{
    static uint8_t ignored[REPLY_MAX];
    for (unsigned step = 0; step < steps; step++) {
        pass_time(&rng);
        one_request(world, &rng);
        for (unsigned i = 0; i < CLIENTS; i++)
            (void)receive(world, i, ignored);
    }
}

/* ---- handing on --------------------------------------------------------------------------- */

static struct record_reader save(const struct world *world)
{
    int fd = memfd_create("state", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    record_writer_init(&writer, fd);
    services_save(world->services, now, &writer);
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct conn *conn = world->clients[i].conn;
        record_begin(&writer, KIND_CONN);
        record_put_u8(&writer, is_text(i) && conn_expires(conn, 0));
        record_put_u8(&writer, conn_in_pieces(conn));
        conn->protocol->row->save(conn, &writer);
        record_end(&writer);
    }
    struct record_reader r;
    ck_assert(record_finish(&writer));
    ck_assert(record_map(&r, fd));
    close(fd);
    return r;
}

static bool restore_client(struct world *world, unsigned i, struct record_reader *r)
{
    open_client(world, i);
    struct conn *conn = world->clients[i].conn;
    atomic_fetch_sub(&conn->protocol->connections_made, 1);
    if (record_get_bool(r) && is_text(i))
        conn_expire_in(conn, 0, NS_PER_S);
    if (record_get_bool(r))
        conn_move(conn, READING_PIECES);
    return record_ok(r) && conn->protocol->row->restore(conn, r);
}

static bool restore(struct world *world, struct record_reader *r)
{
    struct record_reader section;
    uint32_t kind;
    unsigned i = 0;
    while (record_enter(r, &kind, &section)) {
        if (kind == KIND_CONN && i < CLIENTS) {
            if (!restore_client(world, i++, &section))
                return false;
        } else if (!services_restore(world->services, now, kind, &section)) {
            record_unknown(&section, kind);
        }
    }
    return record_ok(r) && services_restore_done(world->services, r) && i == CLIENTS;
}

static void hand_on(const struct world *from, struct world *to, const struct serving_config *config,
                    unsigned workers)
{
    begin(to, config, workers);
    struct record_reader r = save(from);
    ck_assert_msg(restore(to, &r), "%s", r.why);
    record_unmap(&r);
}

static void compare_sums(const char *what, const struct buckets_sum *a, const struct buckets_sum *b)
{
    for (size_t i = 0; i < ARRAY_SIZE(a->counts); i++)
        ck_assert_msg(a->counts[i] == b->counts[i], "%s", what);
    ck_assert_msg(a->sum_ns == b->sum_ns, "%s", what);
}

static void compare_classes(const struct service *a, const struct service *b)
{
    for (unsigned i = 0; i < SERVICE_TIMES; i++) {
        struct histogram_sum sum_a, sum_b;
        service_times(a, i, &sum_a);
        service_times(b, i, &sum_b);
        ck_assert(memcmp(&sum_a, &sum_b, sizeof(sum_a)) == 0);
    }
}

static void compare_counts(const struct world *a, const struct world *b)
{
    REQUIRE(a->services->started_ns == b->services->started_ns);
    for (unsigned i = 0; i < services_count(a->services); i++) {
        const struct service *of_a = services_at(a->services, i);
        const struct service *of_b = services_at(b->services, i);
        const struct protocol *p = &of_a->protocol, *q = &of_b->protocol;
        struct buckets_sum sum_a, sum_b;
        REQUIRE(of_a->row == of_b->row);
        for (unsigned v = 0; v < of_a->verbs; v++) {
            for (unsigned o = 0; o < of_a->outcomes; o++)
                REQUIRE(service_requests(of_a, v, o) == service_requests(of_b, v, o));
        }
        REQUIRE(service_waiting(of_a) == service_waiting(of_b));
        REQUIRE(service_refused(of_a) == service_refused(of_b));
        REQUIRE(service_sent(of_a) == service_sent(of_b));
        REQUIRE(service_received(of_a) == service_received(of_b));
        for (unsigned how = 0; how < WAITED_COUNT; how++) {
            service_waits(of_a, (enum waited)how, &sum_a);
            service_waits(of_b, (enum waited)how, &sum_b);
            compare_sums(waited_word((enum waited)how), &sum_a, &sum_b);
        }
        service_holds(of_a, &sum_a);
        service_holds(of_b, &sum_b);
        compare_sums("holds", &sum_a, &sum_b);
        service_answers(of_a, &sum_a);
        service_answers(of_b, &sum_b);
        compare_sums("answers", &sum_a, &sum_b);
        compare_classes(of_a, of_b);
        REQUIRE(p->connections == q->connections && p->connections_made == q->connections_made);
        REQUIRE(p->accept_errors == q->accept_errors && p->send_errors == q->send_errors);
        for (unsigned k = 0; k < CLOSE_MAX; k++)
            REQUIRE(p->closed[k] == q->closed[k]);
    }
}

static void compare_replies(const struct world *a, const struct world *b)
{
    static uint8_t got_a[REPLY_MAX], got_b[REPLY_MAX];
    for (unsigned i = 0; i < CLIENTS; i++) {
        size_t len = receive(a, i, got_a);
        REQUIRE(receive(b, i, got_b) == len && memcmp(got_a, got_b, len) == 0);
    }
}

TEST(restored_services_go_on_as_those_before)
{
    rng = rng_start("worlds", random_seed());
    for (unsigned round = 0; round < 10; round++) {
        struct world a, b;
        struct serving_config config = usual_config(), other = usual_config();
        other.table.buckets = rng_below(&rng, 1000);
        begin(&a, &config, 1 + rng_below(&rng, 3));
        for (unsigned i = 0; i < CLIENTS; i++)
            open_client(&a, i);
        run(&a, 100 + rng_below(&rng, 1000));
        hand_on(&a, &b, &other, 1 + rng_below(&rng, 3));
        for (unsigned step = 0; step < 500; step++) {
            if (step % 50 == 0)
                compare_counts(&a, &b);
            pass_time(&rng);
            struct rng twin = rng;
            one_request(&a, &rng);
            one_request(&b, &twin);
            compare_replies(&a, &b);
        }
        compare_counts(&a, &b);
        table_check(b.services->table);
        end(&a);
        end(&b);
    }
}
END_TEST

static void open_all(struct world *world)
{
    for (unsigned i = 0; i < CLIENTS; i++)
        open_client(world, i);
}

TEST(who_has_more_locks_than_are_allowed_now_keeps_them)
{
    struct world a, b, c;
    struct serving_config config = usual_config();
    begin(&a, &config, 1);
    open_all(&a);
    say_text(&a, 0, "ACQ4ME a 2 9 9\n");
    say_text(&a, 0, "ACQ4ME a 2 9 9\n");
    say_text(&a, 1, "ACQ4ME b 1 9 9\n");
    expect(&a, 1, "LOCKED\n");
    say_text(&a, 0, "ACQ4ME b 1 9 9\n");
    expect(&a, 0, "LOCKED\nLOCKED\n");
    config.poolcounter_max_locks = 1;
    hand_on(&a, &b, &config, 1);
    say_text(&b, 1, "RELEASE\n");
    expect(&b, 1, "RELEASED\n");
    expect(&b, 0, "LOCKED\n"); /* its third lock */
    say_text(&b, 0, "ACQ4ME c 1 9 9\n");
    expect(&b, 0, "LOCK_HELD\n");
    hand_on(&b, &c, &config, 1);
    say_text(&c, 0, "RELEASE a\n");
    say_text(&c, 0, "RELEASE\n");
    say_text(&c, 0, "ACQ4ME c 1 9 9\n");
    expect(&c, 0, "RELEASED\nRELEASED\nLOCK_HELD\n");
    say_text(&c, 0, "RELEASE a\n");
    say_text(&c, 0, "ACQ4ME c 1 9 9\n");
    expect(&c, 0, "RELEASED\nLOCKED\n");
    end(&a);
    end(&b);
    end(&c);
}
END_TEST

/* Holds, waits and gains 700 years each, more than 64 bits of nanoseconds can count. */
static void spend_centuries(struct world *world)
{
    enum { ME = 7, TEXT = CLIENTS / 2 };
    const int64_t century_ns = INT64_C(3155760000) * NS_PER_S;
    say_text(world, 0, "ACQ4ME k 1 99 0\n");
    for (unsigned i = 1; i < TEXT; i++)
        say_text(world, i, i <= ME ? "ACQ4ME k 1 99 4000000000\n" : "ACQ4ANY k 1 99 4000000000\n");
    now.mono_ns += century_ns;
    run_workers(world);
    expect(world, 0, "LOCKED\n");
    for (unsigned i = 0; i <= ME; i++) {
        say_text(world, i, "RELEASE\n");
        expect(world, i, i ? "LOCKED\nRELEASED\n" : "RELEASED\n");
    }
    for (unsigned i = ME + 1; i < TEXT; i++)
        expect(world, i, "DONE\n");
    struct service *service = services_protocol(world->services, "poolcounter")->service;
    for (unsigned i = 0; i < 7; i++)
        histogram_add(&service_counts_of(service, i % world->server.count)->holds, century_ns, 1);
}

/* Checks that STATS has this line. */
static void expect_stat(struct world *world, const char *line)
{
    char got[REPLY_MAX + 1];
    say_text(world, 0, "STATS\n");
    got[receive(world, 0, (uint8_t *)got)] = 0;
    ck_assert_msg(strstr(got, line) != NULL, "%s is not in %s", line, got);
}

TEST(sums_of_centuries_go_on)
{
    struct world a, b, c;
    struct serving_config config = usual_config();
    begin(&a, &config, 2);
    open_all(&a);
    spend_centuries(&a);
    hand_on(&a, &b, &config, 3);
    compare_counts(&a, &b);
    hand_on(&b, &c, &config, 1);
    compare_counts(&a, &c);
    expect_stat(&c, "\ntotal processing time: 292200 days 0h 0m 0.000000s\n");
    expect_stat(&c, "\ngained time: 255675 days 0h 0m 0.000000s\n");
    expect_stat(&c, "\nwaiting time: 255675 days 0h 0m 0.000000s\n");
    expect_stat(&c, "\nwaiting time for good: 255675 days 0h 0m 0.000000s\n");
    end(&a);
    end(&b);
    end(&c);
}
END_TEST

/* Ends a wait that timed out with another answer than TIMEOUT, as that for a strict name does when
 * the engine is away: answers and waits do not show how many requests were refused. */
TEST(requests_refused_at_once_are_as_many_as_before)
{
    struct world a, b, c;
    struct serving_config config = usual_config();
    begin(&a, &config, 2);
    open_all(&a);
    say_text(&a, 0, "ACQ4ME k 1 9 0\n");
    say_text(&a, 1, "ACQ4ME k 1 9 0\n");
    expect(&a, 1, "TIMEOUT\n");
    const struct service *service = services_protocol(a.services, "poolcounter")->service;
    histogram_add(&service_counts_of(service, 1)->waits[WAITED_TIMED_OUT], NS_PER_S, 1);
    ck_assert_uint_eq(service_refused(service), 1);
    hand_on(&a, &b, &config, 3);
    compare_counts(&a, &b);
    hand_on(&b, &c, &config, 1);
    compare_counts(&a, &c);
    end(&a);
    end(&b);
    end(&c);
}
END_TEST

/* Writes a histogram with `count` times in its last class, in the form of SERVICES_PROTOCOL. */
static void put_histogram(struct record_writer *w, uint64_t count, uint64_t sum_ns)
{
    record_put_u8(w, BUCKET_BOUNDS + 1);
    for (unsigned i = 0; i <= BUCKET_BOUNDS; i++)
        record_put_u64(w, i == BUCKET_BOUNDS ? count : 0);
    record_put_u64(w, sum_ns);
}

/* Begins a record with one section, which restore_written ends and reads. */
static int begin_written(uint32_t kind)
{
    int fd = memfd_create("state", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    record_writer_init(&writer, fd);
    record_put_head(&writer);
    record_begin(&writer, kind);
    return fd;
}

static bool restore_written(struct world *world, int fd)
{
    struct record_reader r, section;
    uint32_t kind;
    record_end(&writer);
    ck_assert(record_finish(&writer) && record_map(&r, fd));
    close(fd);
    record_get_head(&r);
    ck_assert(record_enter(&r, &kind, &section));
    bool restored = services_restore(world->services, now, kind, &section);
    record_unmap(&r);
    return restored;
}

TEST(classes_of_histograms_that_the_buckets_do_not_have_are_refused)
{
    static const struct {
        uint16_t class_index;
        uint64_t count;
        bool good;
    } rows[] = {{150, 3, true}, {150, 4, false}, {HISTOGRAM_CLASSES, 1, false}};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct world world;
        struct serving_config config = usual_config();
        begin(&world, &config, 1);
        open_all(&world);
        const struct service *service = services_at(world.services, 0);
        struct buckets_sum buckets = {.counts = {[3] = 3}};
        buckets_add_sum(&service_histogram(service, 0, SERVICE_ANSWERS)->buckets, &buckets);
        int fd = begin_written(SERVICES_CLASSES);
        record_put_bytes(&writer, service_name(service), strlen(service_name(service)));
        record_put_u8(&writer, SERVICE_TIMES);
        for (unsigned k = 0; k < SERVICE_TIMES; k++) {
            record_put_u64(&writer, 9000);
            record_put_u16(&writer, k == SERVICE_ANSWERS);
            if (k == SERVICE_ANSWERS) {
                record_put_u16(&writer, rows[i].class_index);
                record_put_u64(&writer, rows[i].count);
            }
        }
        record_put_u64(&writer, 0); /* busy */
        ck_assert(restore_written(&world, fd) == rows[i].good);
        end(&world);
    }
}
END_TEST

/* Reads the sections of an older build, which has sums of 64 bits, and neither SERVICES_TIMES nor
 * SERVICES_CLASSES. */
TEST(sums_of_64_bits_are_read)
{
    const uint64_t year_ns = UINT64_C(31557600) * (uint64_t)NS_PER_S;
    struct world world;
    struct serving_config config = usual_config();
    begin(&world, &config, 2);
    open_all(&world);
    int fd = begin_written(SERVICES_PROTOCOL);
    record_put_bytes(&writer, "poolcounter", 11);
    for (unsigned i = 0; i < 3; i++)
        record_put_u64(&writer, 0); /* connections and errors */
    record_put_bytes(&writer, "", 0);
    record_put_bytes(&writer, "ACQ4ME", 6);
    record_put_bytes(&writer, "LOCKED", 6);
    record_put_u64(&writer, 5);
    record_put_bytes(&writer, "ACQ4ME", 6);
    record_put_bytes(&writer, "TIMEOUT", 7);
    record_put_u64(&writer, 3); /* one of them after a wait */
    record_put_bytes(&writer, "", 0);
    for (unsigned i = 0; i < 3; i++)
        record_put_u64(&writer, 0); /* bytes and requests */
    put_histogram(&writer, 0, 0);
    record_put_u8(&writer, WAITED_COUNT);
    for (unsigned how = 0; how < WAITED_COUNT; how++)
        put_histogram(&writer, 1, (how + 1) * 100 * year_ns);
    put_histogram(&writer, 5, 500 * year_ns);
    record_put_u8(&writer,
                  5); /* releases, locks while waiting, gained, waited for me, for anyone */
    record_put_u64(&writer, 4);
    record_put_u64(&writer, 3);
    record_put_u64(&writer, 400 * year_ns);
    record_put_u64(&writer, 350 * year_ns);
    record_put_u64(&writer, 300 * year_ns);
    ck_assert(restore_written(&world, fd));
    ck_assert_uint_eq(service_refused(services_at(world.services, 0)), 2);
    struct histogram_sum sum; /* what has no classes has no percentiles */
    service_times(services_at(world.services, 0), SERVICE_HOLDS, &sum);
    ck_assert(histogram_sum_count(&sum) == 0 && histogram_longest_ns(&sum) == 0);
    expect_stat(&world, "\ntotal processing time: 182625 days 0h 0m 0.000000s\n"
                        "average processing time: 36525 days 0h 0m 0.000000s\n"
                        "gained time: 146100 days 0h 0m 0.000000s\n"
                        "waiting time: 237412 days 12h 0m 0.000000s\n"
                        "waiting time for me: 127837 days 12h 0m 0.000000s\n"
                        "waiting time for anyone: 109575 days 0h 0m 0.000000s\n"
                        "waiting time for good: 73050 days 0h 0m 0.000000s\n"
                        "wasted timeout time: 109575 days 0h 0m 0.000000s\n"
                        "total_acquired: 5\n"
                        "total_releases: 4\n");
    expect_stat(&world, "\nlock_while_waiting: 3\n");
    end(&world);
}
END_TEST

/* Checks the state of the table's collector, without the length of its interval. */
static void expect_collector(struct record_reader *r, const uint8_t *rest, size_t len)
{
    struct record_reader section;
    uint32_t kind = 0;
    while (kind != TABLE_COLLECTOR)
        ck_assert(record_enter(r, &kind, &section));
    ck_assert_uint_eq(record_get_u32(&section), 60);
    const uint8_t *got = record_take(&section, len);
    ck_assert_ptr_nonnull(got);
    ck_assert_mem_eq(got, rest, len);
    record_leave(&section);
    ck_assert(record_ok(r));
}

/*
 * The section that version 1 wrote for all services, byte for byte, in the middle of a sweep. It
 * has the table's collector and the number of locks per session.
 */
TEST(what_version_1_wrote_of_all_services_is_read)
{
    static const uint8_t contents[] = {
        60,   0, 0, 0,                                      /* length of an interval */
        0x20, 3, 0, 0, 0, 0,  0, 0,                         /* began at 800 ns */
        7,    0, 0, 0,                                      /* the most locks of a session */
        1,    5, 0, 0, 0, 99, 0, 0, 0, 0, 0, 0, 0,          /* a sweep, its interval, busy ns */
        9,    0, 0, 0, 1, 2,  3, 4, 0, 0, 0, 0,             /* its position: shard, hash */
        2,    0, 0, 0, 0, 0,  0, 0, 0, 1, 0, 0, 0, 0, 0, 0, /* sweeps, names removed */
        3,    0, 0, 0, 0, 0,  0, 0, 8, 0, 0, 0, 0, 0, 0, 0, /* us of the last sweep, of all */
    };
    struct world world;
    struct record_reader section, again;
    struct collector_stats collector;
    struct serving_config config = usual_config();
    begin(&world, &config, 1);
    for (size_t len = 0; len < sizeof(contents); len++) { /* a cut section is refused */
        world.services->restored = false;
        record_reader_init(&section, contents, len);
        ck_assert(!services_restore(world.services, now, SERVICES_V1, &section));
    }
    open_all(&world);
    end(&world);
    begin(&world, &config, 1);
    record_reader_init(&section, contents, sizeof(contents));
    ck_assert_msg(services_restore(world.services, now, SERVICES_V1, &section), "%s", section.why);
    record_reader_init(&again, contents, sizeof(contents));
    ck_assert(!services_restore(world.services, now, SERVICES_V1, &again));
    ck_assert_str_eq(again.why, "the services come twice");
    ck_assert_int_eq(world.services->started_ns, 800);
    ck_assert_uint_eq(world.services->session_room, 7);
    table_resource_collector(world.services, &collector);
    ck_assert(collector.collections == 2 && collector.collected == 256);
    ck_assert(collector.last_us == 3 && collector.all_us == 8);
    open_all(&world);
    struct record_reader r = save(&world);
    expect_collector(&r, &contents[16], sizeof(contents) - 16);
    record_unmap(&r);
    end(&world);
}
END_TEST

/* The services' section must come first, because it sets how many locks a session has room for. */
TEST(what_services_share_comes_before_connections)
{
    struct world a, b;
    struct serving_config config = usual_config();
    begin(&a, &config, 1);
    open_all(&a);
    config.poolcounter_max_locks = 1;
    begin(&b, &config, 1);
    open_all(&b);
    struct record_reader r = save(&a), section;
    uint32_t kind = 0;
    while (kind != SERVICES)
        ck_assert(record_enter(&r, &kind, &section));
    ck_assert(!services_restore(b.services, now, kind, &section));
    ck_assert_str_eq(r.why, "a connection comes before the services");
    record_unmap(&r);
    end(&a);
    end(&b);
}
END_TEST

/* A build without them skips the upper halves of sums. */
TEST(sums_beyond_64_bits_may_be_missed)
{
    struct record_reader reader = {0};
    record_unknown(&reader, SERVICES_TIMES);
    ck_assert(record_ok(&reader));
}
END_TEST

/* Counts the names in a Dump's output so far; returns true at the end of the Dump. */
static bool read_dump(struct world *world, unsigned i, unsigned *names)
{
    static uint8_t got[4 * REPLY_MAX];
    for (ssize_t n; (n = recv(world->clients[i].fd, got, sizeof(got), MSG_DONTWAIT)) > 0;) {
        for (ssize_t at = 0; at < n;) {
            uint32_t body = (uint32_t)got[at + 4] << 24 | (uint32_t)got[at + 5] << 16 |
                            (uint32_t)got[at + 6] << 8 | got[at + 7];
            if (body == 0)
                return true;
            ++*names;
            at += CTR_HEADER + body;
        }
    }
    return false;
}

TEST(a_dump_goes_on)
{
    enum { MANY = 3000 };
    rng = rng_start("dump", random_seed());
    struct world a, b;
    struct serving_config config = usual_config();
    begin(&a, &config, 1);
    open_all(&a);
    unsigned client = CLIENTS - 1, names = 0;
    for (unsigned i = 0; i < MANY; i++) {
        char name[20];
        int len = snprintf(name, sizeof(name), "%u", i);
        say_binary(&a, client,
                   (struct ctr_request){.opcode = CTR_ACQUIRE,
                                        .units = 1,
                                        .maximum = 1,
                                        .name = {.data = (uint8_t *)name, .len = (size_t)len}});
        static uint8_t ignored[REPLY_MAX];
        (void)receive(&a, client, ignored);
    }
    say_binary(&a, client, (struct ctr_request){.opcode = CTR_DUMP, .opaque = {7, 8, 9, 10}});
    for (unsigned i = 0; i < 5; i++) {
        resume(&a, client);
        ck_assert(!read_dump(&a, client, &names));
    }
    ck_assert(names > 0 && names < MANY);
    config.table.buckets = 10000;
    hand_on(&a, &b, &config, 2);
    bool over = false;
    while (!over) {
        ck_assert(conn_in_pieces(b.clients[client].conn));
        resume(&b, client);
        over = read_dump(&b, client, &names);
    }
    ck_assert_uint_eq(names, MANY);
    end(&a);
    end(&b);
}
END_TEST

/* ---- damage ------------------------------------------------------------------------------ */

/*
 * Restores a state in a child process, which must not crash, and serves requests if that succeeds.
 * Returns true if it succeeded.
 */
static bool try_state(const void *data, size_t len)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct world world;
        struct serving_config config = usual_config();
        struct record_reader r;
        begin(&world, &config, 1 + rng_below(&rng, 2));
        record_reader_init(&r, data, len);
        bool restored = restore(&world, &r);
        if (restored) {
            table_check(world.services->table);
            run(&world, 30);
            table_check(world.services->table);
            end(&world);
        }
        _exit(restored ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) <= 1, "it crashed");
    return WEXITSTATUS(status) == 0;
}

/* The holdings of all clients. */
static uint64_t holdings(const struct world *world)
{
    struct table_stats stats = {0};
    table_get_stats(world->services->table, now, &stats);
    return stats.holdings;
}

/* Others are served between the steps; until the last one nobody else gets the holder's id. */
TEST(many_names_of_a_closed_connection_are_given_back_in_steps)
{
    enum { MANY = 2000, FIRST = 32, STEP = 512, LAST = CLIENTS - 1 };
    static struct world world;
    const struct serving_config config = usual_config();
    begin(&world, &config, 1);
    for (unsigned i = 0; i < CLIENTS; i++)
        open_client(&world, i);
    struct conn *conn = world.clients[LAST].conn;
    struct worker *worker = world.server.workers[0];
    uint32_t id = conn_id(conn);
    for (unsigned i = 0; i < MANY; i++) {
        char name[20];
        struct holding *held;
        struct waiter *waiter;
        struct acquire a = {.units = 1, .limit = 1, .wait = WAIT_NO};
        a.name = (struct bytes){(const uint8_t *)name,
                                (size_t)snprintf(name, sizeof(name), "many%u", i)};
        ck_assert_int_eq(
            table_acquire(world.services->table, service_holder(conn), &a, now, &held, &waiter),
            TABLE_OK);
    }
    conn_close(conn, CLOSE_PEER);
    close(world.clients[LAST].fd);
    ck_assert_uint_eq(holdings(&world), MANY - FIRST);
    ck_assert(!conn_gave_back(conn));
    ck_assert_uint_eq(holdings(&world), MANY - FIRST - STEP);
    open_client(&world, LAST);
    ck_assert_uint_ne(conn_id(world.clients[LAST].conn), id);
    ck_assert(worker_flush_parked(worker)); /* an upgrade gives the rest back */
    ck_assert_uint_eq(holdings(&world), 0);
    table_check(world.services->table);
    close_client(&world, LAST);
    open_client(&world, LAST);
    end(&world);
}
END_TEST

TEST(damage_is_refused_or_harmless)
{
    rng = rng_start("damage", random_seed());
    struct world a;
    struct serving_config config = usual_config();
    begin(&a, &config, 2);
    open_all(&a);
    run(&a, 400);
    struct record_reader r = save(&a);
    uint8_t *copy = malloc(r.len);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, r.data, r.len);
    unsigned well = 0, tries = (unsigned)env_number("T_TRIES", 150);
    ck_assert(try_state(copy, r.len));
    for (unsigned i = 0; i < tries; i++) {
        /* Half of the flips hit the last sixth, which has the connections. */
        size_t from = rng_one_in(&rng, 2) ? r.len - r.len / 6 : 0;
        size_t at = from + rng_below(&rng, (uint32_t)(r.len - from));
        uint8_t before = copy[at];
        copy[at] ^= (uint8_t)(1u << rng_below(&rng, 8));
        well += try_state(copy, r.len);
        copy[at] = before;
        ck_assert(!try_state(copy, at));
    }
    ck_assert(well > 0 && well < tries);
    free(copy);
    record_unmap(&r);
    end(&a);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(restored_services_go_on_as_those_before),
    UNIT(who_has_more_locks_than_are_allowed_now_keeps_them),
    UNIT(sums_of_centuries_go_on),
    UNIT(requests_refused_at_once_are_as_many_as_before),
    UNIT(classes_of_histograms_that_the_buckets_do_not_have_are_refused),
    UNIT(sums_of_64_bits_are_read),
    UNIT(what_version_1_wrote_of_all_services_is_read),
    UNIT(what_services_share_comes_before_connections),
    UNIT(sums_beyond_64_bits_may_be_missed),
    UNIT(a_dump_goes_on),
    UNIT(many_names_of_a_closed_connection_are_given_back_in_steps),
    UNIT(damage_is_refused_or_harmless),
};

UNIT_MAIN("service/state", tests)
