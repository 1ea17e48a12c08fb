/*
 * state_test.c - what services share, and what they have counted, is the same after an upgrade;
 * damage is refused. Stories in the mode `upgrade` show what clients keep, and upgrade_test.c that
 * what version 1 wrote is read. The clock is the test's (it stands in for base/clock.c), and the
 * workers do not run.
 */
#include "t/unit/serving.h"

#include "base/record.h"
#include "net/worker_internal.h"
#include "service/pools.h"
#include "t/unit/random.h"
#include "t/unit/unit.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

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

struct world {
    struct server server;
    struct services *services;
};

static void begin(struct world *world, unsigned workers)
{
    const struct snapshot_config snapshot = {.limits = {.output_buffer = 1u << 20,
                                                        .request_timeout_ns = 100 * NS_PER_S,
                                                        .write_timeout_ns = 100 * NS_PER_S}};
    const struct serving_config config = {
        .table = {.buckets = 100, .memory_limit = (size_t)64 << 20, .stats_interval_s = 60},
        .poolcounter_max_locks = 3,
        .poolcounter_max_line = 1000,
    };
    memset(world, 0, sizeof(*world));
    world->services = serving_make(&world->server, workers, &snapshot, &config);
}

static void end(struct world *world)
{
    for (unsigned i = 0; i < world->server.count; i++)
        worker_drain(world->server.workers[i]);
    serving_free(&world->server, &world->services);
}

/* ---- counters -------------------------------------------------------------------------------- */

/* Counts something of everything, in each worker; sums of times need more than 64 bits. */
static void count_all(const struct world *world, struct service *service)
{
    const int64_t century_ns = INT64_C(3155760000) * NS_PER_S;
    const struct service_row *row = service->row;
    struct protocol *protocol = &service->protocol;
    for (unsigned n = 0; n < world->server.count; n++) {
        struct service_counts *counts = service_counts_of(service, n);
        for (unsigned i = 0; i < service->verbs * service->outcomes; i++)
            tally_add(&counts->requests[i], 50 + rng_below(&rng, 9));
        tally_add(&counts->busy, 1 + rng_below(&rng, 9));
        for (unsigned i = 0; i < SERVICE_TIMES; i++) {
            histogram_add(service_histogram(service, n, i), century_ns + (int64_t)i, 6 + i);
            histogram_add(service_histogram(service, n, i), rng_below(&rng, 9000000), 2);
        }
        for (unsigned i = 0; i < row->own_tallies; i++)
            tally_add(service_own_tally(service, n, i), 1 + rng_below(&rng, 9));
        for (unsigned i = 0; i < row->own_times; i++)
            duration_sum_add(service_own_time(service, n, i), (duration)century_ns * (7 + i));
        tally_add(&protocol->traffic[n].received, 1 + rng_below(&rng, 9));
        tally_add(&protocol->traffic[n].sent, 11 + rng_below(&rng, 9));
        tally_add(&protocol->traffic[n].requests, 21 + rng_below(&rng, 9));
    }
    for (unsigned i = 0; protocol_close_word(&row->protocol, i); i++)
        protocol->closed[i] = 1 + rng_below(&rng, 9);
    protocol->connections_made = 31 + rng_below(&rng, 9);
    protocol->accept_errors = 41 + rng_below(&rng, 9);
    protocol->send_errors = 51 + rng_below(&rng, 9);
}

/* Sums of the workers' own tallies and times, and of requests. */
static void sum_own(const struct world *world, const struct service *service, duration sums[9])
{
    const struct service_row *row = service->row;
    memset(sums, 0, 9 * sizeof(*sums));
    for (unsigned n = 0; n < world->server.count; n++) {
        duration *sum = sums;
        for (unsigned i = 0; i < row->own_tallies; i++)
            *sum++ += tally_get(service_own_tally(service, n, i));
        for (unsigned i = 0; i < row->own_times; i++)
            *sum++ += duration_sum_get(service_own_time(service, n, i));
        *sum += tally_get(&service->protocol.traffic[n].requests);
    }
}

static void compare(const struct world *a, const struct world *b)
{
    ck_assert(a->services->started_ns == b->services->started_ns);
    for (unsigned i = 0; i < services_count(a->services); i++) {
        const struct service *of_a = services_at(a->services, i);
        const struct service *of_b = services_at(b->services, i);
        const struct protocol *p = &of_a->protocol, *q = &of_b->protocol;
        for (unsigned v = 0; v < of_a->verbs; v++) {
            for (unsigned o = 0; o < of_a->outcomes; o++)
                REQUIRE(service_requests(of_a, v, o) == service_requests(of_b, v, o));
        }
        ck_assert(service_busy(of_a) == service_busy(of_b));
        ck_assert(service_sent(of_a) == service_sent(of_b));
        ck_assert(service_received(of_a) == service_received(of_b));
        for (unsigned t = 0; t < SERVICE_TIMES; t++) {
            struct buckets_sum buckets_a, buckets_b;
            struct histogram_sum classes_a, classes_b;
            service_buckets(of_a, t, &buckets_a);
            service_buckets(of_b, t, &buckets_b);
            ck_assert_mem_eq(buckets_a.counts, buckets_b.counts, sizeof(buckets_a.counts));
            ck_assert(buckets_a.sum_ns == buckets_b.sum_ns);
            service_times(of_a, t, &classes_a);
            service_times(of_b, t, &classes_b);
            ck_assert_mem_eq(&classes_a, &classes_b, sizeof(classes_a));
        }
        duration own_a[9], own_b[9];
        sum_own(a, of_a, own_a);
        sum_own(b, of_b, own_b);
        ck_assert_mem_eq(own_a, own_b, sizeof(own_a));
        ck_assert(p->connections_made == q->connections_made);
        ck_assert(p->accept_errors == q->accept_errors && p->send_errors == q->send_errors);
        for (unsigned k = 0; k < CLOSE_MAX; k++)
            REQUIRE(p->closed[k] == q->closed[k]);
    }
}

static struct record_reader save(const struct world *world)
{
    struct record_reader r;
    int fd = memfd_create("state", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    record_writer_init(&writer, fd);
    services_save(world->services, now, &writer);
    ck_assert(record_finish(&writer) && record_map(&r, fd));
    close(fd);
    return r;
}

static bool restore(struct world *world, struct record_reader *r)
{
    struct record_reader section;
    uint32_t kind;
    while (record_enter(r, &kind, &section)) {
        if (!services_restore(world->services, now, kind, &section))
            record_unknown(&section, kind);
    }
    return record_ok(r) && services_restore_done(world->services, r);
}

static void hand_on(const struct world *from, struct world *to, unsigned workers)
{
    struct record_reader r = save(from);
    begin(to, workers);
    now.mono_ns += 100;
    ck_assert_msg(restore(to, &r), "%s", r.why);
    record_unmap(&r);
    compare(from, to);
}

TEST(counters_and_sums_of_centuries_go_on_with_other_workers)
{
    struct world a, b, c;
    rng = rng_start("counters", random_seed());
    begin(&a, 2);
    for (unsigned i = 0; i < services_count(a.services); i++)
        count_all(&a, services_at(a.services, i));
    hand_on(&a, &b, 3);
    hand_on(&b, &c, 1);
    end(&a);
    end(&b);
    end(&c);
}
END_TEST

TEST(damage_is_refused_or_harmless)
{
    rng = rng_start("damage", random_seed());
    struct world a, b;
    begin(&a, 2);
    for (unsigned i = 0; i < services_count(a.services); i++)
        count_all(&a, services_at(a.services, i));
    struct record_reader r = save(&a), damaged;
    uint8_t *copy = malloc(r.len);
    ck_assert_ptr_nonnull(copy);
    for (unsigned i = 0; i < 300; i++) {
        memcpy(copy, r.data, r.len);
        copy[rng_below(&rng, (uint32_t)r.len)] ^= (uint8_t)(1u << rng_below(&rng, 8));
        record_reader_init(&damaged, copy, i % 2 ? r.len : rng_below(&rng, (uint32_t)r.len));
        begin(&b, 1 + i % 3);
        if (restore(&b, &damaged))
            table_check(b.services->table);
        end(&b);
    }
    free(copy);
    record_unmap(&r);
    end(&a);
}
END_TEST

/* ---- sections -------------------------------------------------------------------------------- */

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
        begin(&world, 1);
        const struct service *service = services_at(world.services, 0);
        struct buckets_sum buckets = {.counts = {[3] = 3}};
        buckets_add_sum(&service_histogram(service, 0, SERVICE_ANSWERS)->buckets, &buckets);
        int fd = begin_written(SERVICES_CLASSES);
        record_put_text(&writer, service_name(service));
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

/* The services' section must come first, because it sets how many locks a session has room for. A
 * build without SERVICES_TIMES skips the upper halves of sums. */
TEST(what_services_share_comes_before_connections)
{
    struct world world;
    begin(&world, 1);
    struct protocol *protocol = services_protocol(world.services, "counter");
    struct record_reader r = save(&world), unknown = {0};
    protocol->connections = 1;
    ck_assert(!restore(&world, &r));
    ck_assert_str_eq(r.why, "a connection comes before the services");
    protocol->connections = 0;
    record_unmap(&r);
    for (int round = 0; round < 3; round++) {
        static const char *const why[] = {
            "the services' start time or session room is out of range", NULL,
            "the services come twice"};
        struct record_reader section = {0};
        bool good =
            services_restore_shared(world.services, now, now.mono_ns + (round == 0), 3, &section);
        ck_assert(good == !why[round]);
        ck_assert_pstr_eq(section.why, why[round]);
    }
    record_unknown(&unknown, SERVICES_TIMES);
    ck_assert(record_ok(&unknown));
    end(&world);
}
END_TEST

/* ---- ends of connections --------------------------------------------------------------------- */

static struct conn *open_one(struct world *world, int *peer)
{
    struct worker *worker = world->server.workers[0];
    struct protocol *protocol = services_protocol(world->services, "counter");
    int fds[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    atomic_fetch_add(&protocol->connections, 1);
    ck_assert(worker_open(worker, protocol,
                          (struct stream){.fd = fds[0], .transport = TRANSPORT_UNIX}, 0));
    *peer = fds[1];
    return worker_conn_at(worker, worker_slots(worker) - 1);
}

static uint64_t holdings(const struct world *world)
{
    struct table_stats stats = {0};
    table_get_stats(world->services->table, now, &stats);
    return stats.holdings;
}

/* Others are served between the steps; until the last one nobody else gets the holder's id. */
TEST(many_names_of_a_closed_connection_are_given_back_in_steps)
{
    enum { MANY = 2000, FIRST = 32, STEP = 512 };
    struct world world;
    int peers[2];
    begin(&world, 1);
    struct worker *worker = world.server.workers[0];
    worker_begin_iteration(worker);
    struct conn *conn = open_one(&world, &peers[0]);
    ck_assert_ptr_nonnull(conn);
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
    ck_assert_uint_eq(holdings(&world), MANY - FIRST);
    ck_assert(!conn_gave_back(conn));
    ck_assert_uint_eq(holdings(&world), MANY - FIRST - STEP);
    conn = open_one(&world, &peers[1]);
    ck_assert_uint_ne(conn_id(conn), id);
    ck_assert(worker_flush_paused(worker)); /* an upgrade gives the rest back */
    ck_assert_uint_eq(holdings(&world), 0);
    table_check(world.services->table);
    conn_close(conn, CLOSE_PEER);
    close(peers[0]);
    close(peers[1]);
    end(&world);
}
END_TEST

/* ---- rights ---------------------------------------------------------------------------------- */

static atomic_bool has_asked;

static void *ask_for_rights(void *conn)
{
    for (unsigned i = 0; i < 2000; i++) {
        struct pool_rights rights = {0};
        pools_get_rights(conn, &rights);
    }
    atomic_store(&has_asked, true);
    return NULL;
}

/* TSan finds what the lock is for. */
TEST(rights_are_asked_for_while_reloads_change_them)
{
    struct world world;
    pthread_t asker;
    struct pools_settings settings = {.max = 1, .max_members = 1};
    begin(&world, 1);
    struct conn conn = {.protocol = services_protocol(world.services, "poolcounter"),
                        .stream.fd = -1};
    ck_assert_int_eq(pthread_create(&asker, NULL, ask_for_rights, &conn), 0);
    while (!atomic_load(&has_asked)) {
        settings.operators.count ^= 1;
        pools_change_settings(world.services, &settings);
    }
    ck_assert_int_eq(pthread_join(asker, NULL), 0);
    end(&world);
}
END_TEST

UNIT_MAIN("service/state")
