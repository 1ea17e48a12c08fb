/*
 * arbiter_test.c - what the door to names refuses in a record, and what clients are answered late.
 * The workers do not run, nor the thread of the cluster: what the node is asked stays in its
 * mailbox until `end`.
 */
#include "t/unit/serving.h"

#include "base/record.h"
#include "service/arbiter.h"
#include "service/cluster.h"
#include "t/unit/unit.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

struct world {
    struct server server;
    struct services *services;
    struct conn *conn;
    int peer;
};

static void begin(struct world *world, const char *protocol_name)
{
    static char engine[] = "redis://127.0.0.1:1", strict[] = "s:*";
    static const struct cluster_settings cluster = {
        .engine = engine, .strict = strict, .lease_ns = 10 * NS_PER_S, .patience_ns = NS_PER_S};
    const struct snapshot_config snapshot = {.limits = {.output_buffer = 1u << 20,
                                                        .request_timeout_ns = 100 * NS_PER_S,
                                                        .write_timeout_ns = 100 * NS_PER_S}};
    const struct serving_config config = {
        .table = {.buckets = 100, .memory_limit = (size_t)64 << 20, .stats_interval_s = 60},
        .poolcounter_max_locks = 3,
        .poolcounter_max_line = 1000,
        .cluster = &cluster,
    };
    int fds[2];
    *world = (struct world){0};
    world->services = serving_make(&world->server, 1, &snapshot, &config);
    struct worker *worker = world->server.workers[0];
    struct protocol *protocol = services_protocol(world->services, protocol_name);
    worker_begin_iteration(worker);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    atomic_fetch_add(&protocol->connections, 1);
    ck_assert(worker_open(worker, protocol,
                          (struct stream){.fd = fds[0], .transport = TRANSPORT_UNIX}, 0));
    world->conn = worker_conn_at(worker, worker_slots(worker) - 1);
    world->peer = fds[1];
}

static void end(struct world *world)
{
    conn_close(world->conn, CLOSE_PEER);
    close(world->peer);
    reactor_deliver(&world->services->cluster->thread);
    worker_drain(world->server.workers[0]);
    serving_free(&world->server, &world->services);
}

/* ---- records --------------------------------------------------------------------------------- */

/* A record of a connection whose request, an acquisition with this kind of wait, is pending. */
static struct record_reader saved_request(enum node_wait kind)
{
    static struct record_writer w;
    struct record_reader r;
    int fd = memfd_create("arbiter", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    record_writer_init(&w, fd);
    record_put_head(&w);
    record_begin(&w, 1);
    record_put_u8(&w, NODE_ACQUIRE + 1);
    record_put_u8(&w, false);
    record_put_i64(&w, 0);
    record_put_u8(&w, (uint8_t)kind);
    record_put_u32(&w, 1); /* units, limit, queue_max */
    record_put_u32(&w, 1);
    record_put_u32(&w, 0);
    record_put_u64(&w, 1); /* id, seq */
    record_put_u64(&w, 0);
    record_put_u32(&w, 0); /* the note */
    record_put_text(&w, "s:name");
    record_put_u8(&w, 0); /* no wait */
    record_put_u64(&w, 0);
    record_put_u64(&w, 0);
    record_put_u8(&w, false);
    record_end(&w);
    ck_assert(record_finish(&w) && record_map(&r, fd));
    close(fd);
    return r;
}

TEST(only_a_protocol_with_waits_has_requests_that_wait)
{
    static const struct {
        const char *protocol;
        enum node_wait kind;
        const char *why; /* NULL: it is good */
    } rows[] = {
        {"counter", NODE_WAIT_NO, NULL},
        {"counter", NODE_WAIT_ANY, "a request for a shared name has inconsistent values"},
        {"counter", NODE_WAIT_ME, "a request for a shared name has inconsistent values"},
        {"poolcounter", NODE_WAIT_NO, NULL},
        {"poolcounter", NODE_WAIT_ANY, NULL},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct world world;
        uint32_t kind, number;
        begin(&world, rows[i].protocol);
        ck_assert(conn_pend(world.conn, &number));
        struct record_reader r = saved_request(rows[i].kind), section;
        record_get_head(&r);
        ck_assert(record_enter(&r, &kind, &section));
        ck_assert(arbiter_restore(world.conn, &section, true) == !rows[i].why);
        ck_assert_pstr_eq(section.why, rows[i].why);
        ck_assert(!arbiter_pending(world.conn) == (rows[i].why != NULL));
        record_unmap(&r);
        end(&world);
    }
}
END_TEST

/* ---- late answers ---------------------------------------------------------------------------- */

static uint64_t acquired(const struct world *world)
{
    const struct service *service = service_of(world->conn);
    const struct service_row *row = service->row;
    unsigned verb = 0, outcome = 0;
    while (strcmp(row->verbs[verb], "acquire") != 0)
        verb++;
    while (strcmp(row->outcomes[outcome], "success") != 0)
        outcome++;
    return service_requests(service, verb, outcome);
}

TEST(a_binary_acquisition_succeeds_with_units_alone)
{
    static const enum arbiter_status ends[] = {
        ARBITER_OK,   ARBITER_BUSY,      ARBITER_FULL,        ARBITER_NO_MEMORY,
        ARBITER_DONE, ARBITER_TIMED_OUT, ARBITER_ENGINE_AWAY, ARBITER_ENGINE_FULL};
    for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
        struct world world;
        uint32_t number;
        begin(&world, "counter");
        ck_assert(conn_pend(world.conn, &number));
        const struct arbiter_answer answer = {
            .op = NODE_ACQUIRE, .status = ends[i], .was.pending = true, .units = 1};
        conn_answer(world.conn, number);
        service_of(world.conn)->row->answered(world.conn, &answer);
        conn_answered(world.conn);
        ck_assert_uint_eq(acquired(&world), ends[i] == ARBITER_OK);
        end(&world);
    }
}
END_TEST

UNIT_MAIN("service/arbiter")
