/*
 * pools.c - the life of the pools: start, timer, configuration, upgrades, end. See pools.h.
 *
 * At the start of a process that takes over, the configuration fills new pools first. Then
 * `restore` reads the state of the old process into other ones, and when all connections are there,
 * `restore_done` brings these in line with the configuration.
 */
#include "service/pools.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/record.h"
#include "service/pools_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A run of the timer keeps so many late holds for the log; more are counted. */
#define LATE_MAX 8

/* A hold past hold_warn, for the log. */
struct late_hold {
    int64_t held_ns;
    char pool[POOL_NAME_MAX + 1], member[POOL_NAME_MAX + 1], by[POOL_SHORT_MAX + 1];
    uint64_t conn;
};

struct pools_resource {
    struct resource resource; /* first */
    struct pools *pools;
    struct pools *configured; /* after restore, until restore_done: what the configuration has */
    struct shared_timer timer;
    struct pools_limits limits; /* of the main thread */

    struct lock lock; /* protects the networks */
    struct access_networks operators, suppliers;
    _Atomic uint32_t version; /* counts changes of the networks; never 0 */

    struct late_hold late[LATE_MAX]; /* of the timer's thread */
    unsigned late_count;
};

static struct pools_resource *own(const struct resource *r)
{
    return container_of(unconst(r), struct pools_resource, resource);
}

static struct pools_resource *of_services(const struct services *services)
{
    return own(services->pools);
}

struct pools *pools_of(const struct services *services)
{
    return of_services(services)->pools;
}

/* ---- delivery, timer ------------------------------------------------------------------------- */

void pools_deliver(struct worker *from, const struct services *services, struct pool_outbox *outbox)
{
    struct pools_resource *p = of_services(services);
    service_send(from, services, &outbox->clients, pool_on_message);
    if (outbox->woken.first)
        service_deliver(from, services, &outbox->woken);
    shared_timer_by(&p->timer, pools_next_ns(p->pools));
}

static void copy_text(char *to, size_t size, struct bytes from)
{
    size_t len = from.len < size - 1 ? from.len : size - 1;
    if (len > 0)
        memcpy(to, from.data, len);
    to[len] = '\0';
}

/* Hook: keeps a late hold for the log. Under the pools' lock. */
static void note_late(void *arg, const struct pool_event *event, int64_t held_ns)
{
    struct pools_resource *p = arg;
    if (p->late_count++ >= LATE_MAX)
        return;
    struct late_hold *late = &p->late[p->late_count - 1];
    late->held_ns = held_ns;
    late->conn = event->conn;
    copy_text(late->pool, sizeof(late->pool), event->pool);
    copy_text(late->member, sizeof(late->member), event->member);
    copy_text(late->by, sizeof(late->by), event->by);
}

static void log_late(struct pools_resource *p)
{
    char conn[CONN_TAG_TEXT];
    for (unsigned i = 0; i < p->late_count && i < LATE_MAX; i++) {
        const struct late_hold *late = &p->late[i];
        conn_tag_text(late->conn, conn);
        log_warning(
            "pool %s: connection %s has had %s for %lld.%03lld s, longer than hold_warn%s%s",
            late->pool, conn, late->member, (long long)(late->held_ns / NS_PER_S),
            (long long)(late->held_ns % NS_PER_S / NS_PER_MS), late->by[0] ? "; by " : "",
            late->by);
    }
    if (p->late_count > LATE_MAX)
        log_warning("pools: %u more members were held for longer than hold_warn",
                    p->late_count - LATE_MAX);
    p->late_count = 0;
}

static void run(struct shared_timer *timer, struct moment now)
{
    struct pools_resource *p = container_of(timer, struct pools_resource, timer);
    const struct services *services = p->resource.services;
    struct pool_outbox outbox;
    pool_outbox_init(&outbox);
    pools_run(p->pools, now, &outbox);
    pools_deliver(services->server->workers[0], services, &outbox);
    if (p->late_count > 0)
        log_late(p);
}

static const struct pool_hooks hooks = {.event = pool_note_event, .late = note_late};

/* ---- the configuration ----------------------------------------------------------------------- */

static struct pools_limits limits_of(const struct pools_settings *settings)
{
    return (struct pools_limits){
        .pools_max = settings->max,
        .members_max = settings->max_members,
        .watchers_max = settings->max_watchers,
        .taken_max = settings->max_taken,
    };
}

/* Of tests that make services without settings of pools. */
static const struct pools_settings no_settings = {
    .max = 1000, .max_members = 10000, .max_watchers = 100, .max_taken = 64};

/* Puts the networks into force. */
static void set_networks(struct pools_resource *p, const struct pools_settings *settings)
{
    lock_acquire(&p->lock);
    p->operators = settings->operators;
    p->suppliers = settings->suppliers;
    lock_release(&p->lock);
    uint32_t version = atomic_load(&p->version) + 1;
    atomic_store(&p->version, version == 0 ? 1 : version);
}

void pools_change_settings(struct services *services, const struct pools_settings *settings)
{
    struct pools_resource *p = of_services(services);
    struct pool_outbox outbox;
    pool_outbox_init(&outbox);
    p->limits = limits_of(settings);
    pools_set_limits(p->pools, &p->limits, clock_now(), &outbox);
    pools_deliver(NULL, services, &outbox);
    set_networks(p, settings);
}

void pools_get_rights(struct conn *conn, struct pool_rights *rights)
{
    struct pools_resource *p = of_services(service_of(conn)->services);
    uint32_t version = atomic_load(&p->version);
    if (rights->version == version)
        return;
    struct access_networks operators, suppliers;
    lock_acquire(&p->lock);
    operators = p->operators;
    suppliers = p->suppliers;
    lock_release(&p->lock);
    rights->version = version;
    rights->operates = conn_peer_in(conn, operators.at, operators.count);
    rights->supplies = rights->operates || conn_peer_in(conn, suppliers.at, suppliers.count);
}

bool pools_accept(const struct services *services, const char *name, enum pool_kind kind,
                  char *reason_r)
{
    struct pool_options options;
    char group[POOL_NAME_MAX + 1];
    bool of_file;
    if (pool_get_options(pools_of(services), bytes_of(name), &options, group, &of_file) != POOL_OK)
        return true;
    if (!of_file)
        snprintf(reason_r, OPTIONS_REASON_SIZE,
                 "a pool of this name was made by POOL ADD: drop it (POOL DROP), or choose another "
                 "name");
    else if (options.kind != kind)
        snprintf(reason_r, OPTIONS_REASON_SIZE,
                 "the pool is there and of the other kind: drop it first (remove it and reload)");
    return of_file && options.kind == kind;
}

/* How a pool differs from what the configuration says. */
struct difference {
    const struct pool_options *options; /* of the configuration */
    unsigned count;                     /* of options that differ */
    bool draining;
};

static void compare_pool(void *arg, const struct pool_entry *entry)
{
    struct difference *d = arg;
    d->draining = entry->draining;
    for (enum pool_option i = 0; i < POOL_OPTION_COUNT; i++)
        d->count += !pool_option_equal(entry->options, d->options, i);
}

/* Makes or changes a pool, and logs what was not as the configuration says. */
static enum pool_status put_pool(struct pools_resource *p, const char *name,
                                 const struct pool_options *options,
                                 const struct pool_members *members, struct moment now,
                                 struct pool_outbox *outbox)
{
    struct bytes pool = bytes_of(name);
    struct difference d = {.options = options};
    struct pool_changes changes = {0};
    (void)pool_show(p->pools, pool, compare_pool, &d, now);
    enum pool_status status = pool_set(p->pools, pool, options, true, now, outbox);
    if (status == POOL_NO_POOL)
        status = pool_add(p->pools, pool, options, true, now, outbox);
    if (status == POOL_OK && options->kind == POOL_STATIC)
        status = pool_declare(p->pools, pool, members->at, members->count, &changes, now, outbox);
    if (status != POOL_OK)
        return status;
    if (d.draining || d.count + changes.added + changes.dropped + changes.put_back > 0)
        log_info("pool %s: as the configuration says: %u options changed; %u members added, %u "
                 "dropped, %u put back%s",
                 name, d.count, changes.added, changes.dropped, changes.put_back,
                 d.draining ? "; it is no longer being dropped" : "");
    if (changes.left_out > 0)
        log_warning("pool %s: %u members of the configuration are left out: others are held, and "
                    "max or pools.max_members allows no more; reload when they have gone",
                    name, changes.left_out);
    return POOL_OK;
}

static const char *why_not(enum pool_status status)
{
    return status == POOL_NO_MEMORY  ? "there is no memory"
           : status == POOL_TOO_MANY ? "there are as many pools as pools.max allows"
                                     : "a verb has made it since that was checked (POOL ADD)";
}

/* Drops a pool that the configuration had, unless a verb has made it anew. */
static void drop_of_file(struct pools_resource *p, struct bytes name, struct moment now,
                         struct pool_outbox *outbox)
{
    struct pool_options options;
    char group[POOL_NAME_MAX + 1];
    bool of_file;
    if (pool_get_options(p->pools, name, &options, group, &of_file) == POOL_OK && of_file)
        CHECK(pool_drop(p->pools, name, false, now, outbox) == POOL_OK);
}

void pools_configure(struct services *services, const char *name,
                     const struct pool_options *options, const struct pool_members *members)
{
    struct pools_resource *p = of_services(services);
    struct pool_outbox outbox;
    struct moment now = clock_now();
    enum pool_status status = POOL_OK;
    pool_outbox_init(&outbox);
    if (options)
        status = put_pool(p, name, options, members, now, &outbox);
    else
        drop_of_file(p, bytes_of(name), now, &outbox);
    pools_deliver(NULL, services, &outbox);
    if (status != POOL_OK)
        log_error("pool %s: it is not as the configuration says: %s; reload again", name,
                  why_not(status));
}

/* ---- life ------------------------------------------------------------------------------------ */

static struct pools *make_pools(struct pools_resource *p)
{
    const struct services *services = p->resource.services;
    struct pools_config config = {
        .table = services->table,
        .limits = p->limits,
        .first_fence = (uint64_t)(clock_unix_ns() / NS_PER_US),
        .seed = services->hash_key.k0 ^ services->hash_key.k1,
        .hooks = &hooks,
        .arg = p,
    };
    return pools_new(&config);
}

static bool start(struct resource *r, const void *settings, struct moment now)
{
    struct pools_resource *p = own(r);
    (void)now;
    r->services->pools = r;
    if (!settings)
        settings = &no_settings;
    p->limits = limits_of(settings);
    lock_init(&p->lock, LOCK_RANK_RIGHTS);
    set_networks(p, settings);
    p->pools = make_pools(p);
    p->timer.run = run;
    if (p->pools && shared_timer_add(&p->timer, worker_reactor(r->services->server->workers[0])))
        return true;
    pools_free(&p->pools);
    errno = ENOMEM;
    return false;
}

static void end(struct resource *r)
{
    struct pools_resource *p = own(r);
    shared_timer_remove(&p->timer);
    pools_free(&p->pools);
    pools_free(&p->configured);
    lock_destroy(&p->lock);
}

static uint64_t held(const struct resource *r, struct moment now)
{
    struct pools_sums sums;
    (void)now;
    pools_sums(own(r)->pools, &sums);
    return sums.held;
}

/* ---- upgrades -------------------------------------------------------------------------------- */

/* The ends of clients are in no record: they are completed first. */
static bool pause_resource(struct resource *r, int64_t until_ns)
{
    struct pool_outbox outbox;
    bool all;
    (void)until_ns;
    do {
        pool_outbox_init(&outbox);
        all = pools_finish(own(r)->pools, clock_now(), &outbox);
        pools_deliver(NULL, r->services, &outbox);
    } while (!all);
    return true;
}

static void save(const struct resource *r, struct moment now, struct record_writer *w)
{
    pools_save(own(r)->pools, now, w);
}

static bool restore(struct resource *r, struct moment now, uint32_t kind,
                    struct record_reader *section)
{
    struct pools_resource *p = own(r);
    if (kind != POOLS_STATE)
        return false;
    p->configured = p->pools;
    p->pools = make_pools(p);
    if (!p->pools) {
        p->pools = p->configured;
        p->configured = NULL;
        record_refuse(section, "there is no memory for the pools");
        return false;
    }
    return pools_restore(p->pools, now, section);
}

static bool restore_done(struct resource *r, struct record_reader *reader)
{
    struct pools_resource *p = own(r);
    struct pool_outbox outbox;
    struct moment now = clock_now();
    if (!p->configured)
        return true;
    pool_outbox_init(&outbox);
    if (!pools_restore_done(p->pools, now, &outbox, reader))
        return false;
    if (!pools_adopt(p->pools, p->configured, now, &outbox))
        log_error(
            "pools: not all are as the configuration says: there is no memory, or a pool is of "
            "the other kind or was made by POOL ADD");
    pools_free(&p->configured);
    pools_deliver(NULL, r->services, &outbox);
    return true;
}

const struct resource_row pools_resource_row = {
    .name = "pools",
    .size = sizeof(struct pools_resource),
    .start = start,
    .pause = pause_resource,
    .save = save,
    .restore = restore,
    .restore_done = restore_done,
    .held = held,
    .monitor = &pools_monitor,
    .end = end,
};
