/*
 * cluster_upgrade_test.c - upgrades of a node: when the pause may begin, how long it may be, and
 * which settings the next process must have. The clock is the test's, and no thread runs.
 */
#include "t/unit/serving.h"

#include "base/record.h"
#include "net/private.h"
#include "service/cluster.h"
#include "service/shared.h"
#include "t/unit/unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

static struct moment now = {.mono_ns = 1000 * NS_PER_S, .unix_s = 1700000000};

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

static char engine[] = "unix:/nowhere", strict[] = "s*", loose[] = "l*", name_a[] = "a",
            name_b[] = "b", prefix[] = "counterd";
static struct cluster_settings settings;
static struct server server;
static struct services *services;
static int client;

static void begin(void)
{
    const struct rules_config rules = {.limits = {.output_buffer = 1u << 20}};
    const struct serving_config config = {
        .table = {.buckets = 100, .memory_limit = (size_t)64 << 20, .stats_interval_s = 60},
        .poolcounter_max_locks = 3,
        .poolcounter_max_line = 1000,
        .cluster = &settings,
    };
    server = (struct server){.count = 0};
    services = serving_make(&server, 1, &rules, &config);
}

static void begin_node_a(void)
{
    settings = (struct cluster_settings){
        .engine = engine,
        .strict = strict,
        .loose = loose,
        .node = name_a,
        .prefix = prefix,
        .lease_ns = 10 * NS_PER_S,
    };
    begin();
}

static void end(void)
{
    reactor_deliver(&services->cluster->thread); /* releases of connections that were closed */
    worker_drain(server.workers[0]);
    serving_free(&server, &services);
}

static struct cluster *cluster(void)
{
    return cluster_of(services);
}

static struct conn *open_client(void)
{
    struct protocol *protocol = services_protocol(services, "poolcounter");
    int fds[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    client = fds[1];
    worker_begin_iteration(server.workers[0]);
    atomic_fetch_add(&protocol->connections, 1);
    ck_assert(worker_open(server.workers[0], protocol,
                          (struct stream){.fd = fds[0], .transport = TRANSPORT_UNIX}, 0));
    struct conn *conn = worker_conn_at(server.workers[0], 0);
    ck_assert_ptr_nonnull(conn);
    return conn;
}

static void grant(struct conn *conn, const char *name)
{
    const struct acquire a = {.name = bytes_of(name), .units = 1, .limit = 1};
    ck_assert(table_grant(services->table, service_holder(conn), &a, now, NULL) == TABLE_OK);
    if (*name == 's')
        shared_mark_strict(conn);
}

static bool may_pause(int64_t since_ns)
{
    return services_may_pause(services, since_ns, now.mono_ns);
}

static int64_t serve_by(void)
{
    const char *what;
    int64_t by_ns = services_serve_by(services, &what);
    ck_assert((by_ns == INT64_MAX) == !what);
    return by_ns;
}

TEST(pause_begins_when_the_lease_was_renewed)
{
    begin_node_a();
    int64_t since_ns = now.mono_ns, end_ns = now.mono_ns + 9 * NS_PER_S;
    ck_assert(may_pause(since_ns)); /* no lease */
    atomic_store(&cluster()->lease_end_ns, end_ns);
    shared_mark_strict(open_client());
    ck_assert(!may_pause(++since_ns));
    now.mono_ns += 2 * NS_PER_S;
    ck_assert(!may_pause(since_ns));
    atomic_store(&cluster()->lease_end_ns, end_ns + NS_PER_S);
    ck_assert(may_pause(since_ns));
    since_ns = now.mono_ns;
    ck_assert(!may_pause(since_ns));
    now.mono_ns += 6 * NS_PER_S; /* a session that opens for long */
    ck_assert(!may_pause(since_ns));
    now.mono_ns = end_ns + NS_PER_S;
    ck_assert(may_pause(since_ns)); /* the lease is over */
    conn_close(worker_conn_at(server.workers[0], 0), CLOSE_PEER);
    close(client);
    end();
}
END_TEST

TEST(strict_units_alone_limit_the_pause)
{
    begin_node_a();
    struct conn *conn = open_client();
    int64_t end_ns = now.mono_ns + 9 * NS_PER_S;
    atomic_store(&cluster()->lease_end_ns, end_ns);
    grant(conn, "own");
    grant(conn, "loose");
    ck_assert(serve_by() == INT64_MAX);
    ck_assert(may_pause(now.mono_ns));
    grant(conn, "strict");
    ck_assert(!may_pause(now.mono_ns + 1));
    ck_assert(serve_by() == end_ns);
    ck_assert(serve_by() == end_ns);
    atomic_store(&cluster()->lease_end_ns, 0); /* there was none */
    ck_assert(serve_by() == INT64_MAX);
    atomic_store(&cluster()->lease_end_ns, now.mono_ns); /* over */
    ck_assert(serve_by() == now.mono_ns);
    cluster()->views[0].closed_for_ns = now.mono_ns; /* and its holders were closed */
    ck_assert(serve_by() == INT64_MAX);
    conn_close(conn, CLOSE_PEER);
    ck_assert(serve_by() == INT64_MAX);
    close(client);
    end();
}
END_TEST

TEST(holders_are_closed_first_when_the_lease_ended_in_the_pause)
{
    char reply;
    begin_node_a();
    grant(open_client(), "strict");
    ck_assert_int_eq(send(client, "STATS\n", 6, 0), 6);
    atomic_store(&cluster()->lease_end_ns, now.mono_ns);
    worker_begin_iteration(server.workers[0]);
    ck_assert_ptr_null(worker_conn_at(server.workers[0], 0));
    ck_assert_int_le(recv(client, &reply, 1, MSG_DONTWAIT), 0);
    close(client);
    end();
}
END_TEST

/* Restores what the node has saved; returns why not, or "". */
static const char *why_not(int fd)
{
    static char why[200];
    struct record_reader r, section;
    uint32_t kind;
    ck_assert(record_map(&r, fd));
    record_get_head(&r);
    while (record_enter(&r, &kind, &section))
        (void)cluster_resource_row.restore(services->cluster, now, kind, &section);
    snprintf(why, sizeof(why), "%s", record_ok(&r) ? "" : r.why);
    record_unmap(&r);
    return why;
}

TEST(another_lease_or_name_is_refused)
{
    static struct record_writer w;
    int fd = memfd_create("state", MFD_CLOEXEC);
    begin_node_a();
    record_writer_init(&w, fd);
    record_put_head(&w);
    cluster_resource_row.save(services->cluster, now, &w);
    ck_assert(record_finish(&w));
    end();
    begin();
    ck_assert_str_eq(why_not(fd), "");
    end();
    settings.lease_ns = 11 * NS_PER_S;
    begin();
    ck_assert_str_eq(why_not(fd), "cluster.lease can't change from 10 s to 11 s in an upgrade: "
                                  "restart counterd");
    end();
    settings.lease_ns = 10 * NS_PER_S;
    settings.node = name_b;
    begin();
    ck_assert_str_eq(why_not(fd),
                     "cluster.node can't change from a to b in an upgrade: restart counterd");
    end();
    close(fd);
}
END_TEST

UNIT_MAIN("service/cluster_upgrade")
