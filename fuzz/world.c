/* world.c - see world.h. */
#include "fuzz/world.h"

#include "base/log.h"
#include "service/pools.h"
#include "t/unit/serving.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/* ---- addresses ------------------------------------------------------------------------------ */

/* The clients' addresses, by the number of the peer: of eight worlds at a time. */
static uint32_t addresses[8 * WORLD_CLIENTS];

/* Instead of the C library's (--wrap). */
int __wrap_getpeername(int fd, struct sockaddr *restrict sa, socklen_t *restrict len);
int __wrap_getpeername(int fd, struct sockaddr *restrict sa, socklen_t *restrict len)
{
    struct sockaddr_in *to = (void *)sa;
    CHECK((size_t)fd < ARRAY_SIZE(addresses) && *len >= sizeof(*to));
    *to = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(1), .sin_addr = {.s_addr = htonl(addresses[fd])}};
    *len = sizeof(*to);
    return 0;
}

/* ---- what clients see ---------------------------------------------------------------------- */

static void on_received(struct fake_peer *peer, const uint8_t *bytes, size_t len, bool first,
                        bool last)
{
    struct world_client *c = container_of(peer, struct world_client, peer);
    (void)first;
    (void)last;
    if (c->got_len + len > c->got_room) {
        c->got_room = (c->got_len + len) * 2;
        c->got = realloc(c->got, c->got_room);
        CHECK(c->got);
    }
    if (len > 0)
        memcpy(c->got + c->got_len, bytes, len);
    c->got_len += len;
}

/* ---- life ---------------------------------------------------------------------------------- */

struct world *world_new(const struct world_config *config)
{
    fake_hooks.received = on_received;
    log_set_level(LOG_LEVEL_ERROR);
    struct world *w = calloc(1, sizeof(*w));
    CHECK(w);
    struct rules_config rules_config = {.limits = {.output_buffer = config->output_buffer,
                                                   .request_timeout_ns = 30 * NS_PER_S,
                                                   .write_timeout_ns = 30 * NS_PER_S}};
    struct serving_config services_config = {.table = {.buckets = 64,
                                                       .memory_limit = (size_t)16 << 20,
                                                       .stats_interval_s = WORLD_INTERVAL_S,
                                                       .hash_key = {.k0 = 1, .k1 = 2}},
                                             .poolcounter_max_locks = config->max_locks,
                                             .poolcounter_max_line = config->max_line,
                                             .pools = config->pools,
                                             .jobs = config->jobs,
                                             .tubes = config->tubes};
    w->services = serving_make(&w->server, 1, &rules_config, &services_config);
    return w;
}

void world_free(struct world **world)
{
    struct world *w = *world;
    *world = NULL;
    serving_free(&w->server, &w->services);
    for (unsigned i = 0; i < WORLD_CLIENTS; i++)
        free(w->clients[i].got);
    free(w);
}

/* ---- clients ------------------------------------------------------------------------------- */

struct world_client *world_open(struct world *world, unsigned i, const char *protocol)
{
    struct world_client *c = &world->clients[i];
    CHECK(!c->protocol || c->peer.closed);
    if (c->protocol) {
        /* fake.c keeps this peer's address until all peers leave, so reset the struct in place. */
        int fd = c->peer.fd;
        free(c->peer.input);
        c->peer = (struct fake_peer){.fd = fd, .window = SIZE_MAX};
    } else {
        c->peer = (struct fake_peer){.window = SIZE_MAX};
        fake_peer_join(&c->peer);
    }
    CHECK((size_t)c->peer.fd < ARRAY_SIZE(addresses));
    addresses[c->peer.fd] = WORLD_ADDRESS(i);
    c->protocol = services_protocol(world->services, protocol);
    c->got_len = 0;
    struct stream stream = {.fd = c->peer.fd};
    worker_begin_iteration(world->server.workers[0]);
    atomic_fetch_add(&c->protocol->connections, 1);
    CHECK(worker_open(world->server.workers[0], c->protocol, stream, 0));
    (void)worker_end_iteration(world->server.workers[0]);
    return c;
}

void world_send(struct world *world, unsigned i, const void *bytes, size_t len)
{
    struct world_client *c = &world->clients[i];
    CHECK(c->protocol && !c->peer.closed);
    fake_peer_send(&c->peer, bytes, len);
}

/* ---- the event loop ------------------------------------------------------------------------ */

static struct loop *loop_of(const struct world *world)
{
    return worker_reactor(world->server.workers[0])->loop;
}

bool world_turn(struct world *world)
{
    return fake_turn(loop_of(world));
}

void world_run(struct world *world)
{
    while (world_turn(world))
        continue;
}

/* ---- time ---------------------------------------------------------------------------------- */

static void pass_time(int64_t to_ns)
{
    fake_pass_time(to_ns - fake_now.mono_ns);
}

void world_advance(struct world *const *worlds, unsigned count, int64_t ns)
{
    int64_t end_ns = fake_now.mono_ns + ns;
    for (;;) {
        int64_t next_ns = INT64_MAX;
        for (unsigned i = 0; i < count; i++) {
            world_run(worlds[i]);
            int64_t at_ns = loop_of(worlds[i])->timer_at_ns;
            next_ns = at_ns < next_ns ? at_ns : next_ns;
        }
        if (next_ns > end_ns)
            break;
        pass_time(next_ns);
    }
    pass_time(end_ns);
    for (unsigned i = 0; i < count; i++)
        world_run(worlds[i]);
}

/* ---- the end ------------------------------------------------------------------------------- */

/* The end of a name that may follow. */
struct first_pool {
    uint8_t name[POOL_NAME_MAX];
    size_t len;
};

static bool note_first(void *arg, const struct pool_entry *entry)
{
    struct first_pool *first = arg;
    memcpy(first->name, entry->name.data, entry->name.len);
    first->len = entry->name.len;
    return true;
}

/* Nothing of any pool is held or awaited any more: drops all pools. */
static void drop_pools(struct world *world)
{
    struct pools *pools = pools_of(world->services);
    struct bytes all = bytes_at(NULL, 0);
    struct pools_sums sums;
    struct first_pool first;
    pools_sums(pools, &sums);
    CHECK(sums.held == 0 && sums.waiting == 0);
    while (first.len = 0, pools_list(pools, all, all, 1, note_first, &first, fake_now),
           first.len > 0) {
        struct pool_effects none;
        pool_effects_init(&none);
        CHECK(pool_drop(pools, bytes_at(first.name, first.len), true, fake_now, &none) == POOL_OK);
        CHECK(!none.clients.first && !none.woken.first);
    }
}

void world_drain(struct world *world)
{
    struct table *table = world->services->table;
    for (unsigned i = 0; i < WORLD_CLIENTS; i++) {
        struct world_client *c = &world->clients[i];
        c->peer.broken = c->peer.news = c->protocol != NULL;
    }
    world_run(world);
    for (unsigned i = 0; i < WORLD_CLIENTS; i++)
        CHECK(!world->clients[i].protocol || world->clients[i].peer.closed);
    drop_pools(world);
    struct moment later = fake_now;
    later.unix_s += 2 * (int64_t)WORLD_INTERVAL_S;
    struct table_walk walk = {0};
    uint64_t collected = 0;
    while (!table_collect(table, &walk, later, 1000, &collected))
        continue;
    struct table_stats stats;
    table_get_stats(table, later, &stats);
    CHECK(stats.names == 0 && stats.waiting == 0 && stats.holdings == 0 && stats.units == 0);
    for (unsigned i = 0; i < services_count(world->services); i++)
        CHECK(service_waiting(services_at(world->services, i)) == 0);
    CHECK(worker_connections(world->server.workers[0]) == 0);
    for (unsigned i = 0; i < WORLD_CLIENTS; i++)
        world->clients[i].protocol = NULL;
}

void worlds_drained(void)
{
    fake_now.unix_s += 2 * (int64_t)WORLD_INTERVAL_S;
    fake_peers_leave();
}
