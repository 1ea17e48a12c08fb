/*
 * pool_threads_test.c - several threads on the same pools, each with its own clients, clock and
 * mailbox, as workers have: at any moment all invariants hold, each member has one holder, and in
 * the end nothing is left.
 */
#include "engine/pool_internal.h"
#include "t/models/pools_check.h"
#include "t/unit/random.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

enum {
    THREADS = 4,
    CLIENTS = 5, /* of each thread */
    POOLS = 3,   /* the last is a joined one */
    MEMBERS = 4,
#ifdef __SANITIZE_THREAD__
    OPERATIONS = 20000,
#else
    OPERATIONS = 60000,
#endif
};

static const struct bytes names[POOLS] = {
    {(const uint8_t *)"a", 1}, {(const uint8_t *)"b", 1}, {(const uint8_t *)"j", 1}};

static struct table *table;
static struct pools *pools;
static pthread_barrier_t all_ended;

/* The last fence of each member, by the bytes of its pool's name and its own. Under the lock of the
 * pools, because readers are called there. */
static uint64_t last_fences[256][256];

struct client {
    struct worker *worker;
    struct pool_client *real; /* NULL: it has ended */
    uint64_t fences[8];       /* of the last members that it got */
    unsigned taken;           /* how many it got */
};

struct worker {
    struct mailbox box;
    struct rng rng;
    unsigned number;
    struct moment now;
    struct pool_outbox outbox;
    struct client clients[CLIENTS];
    uint64_t taken, stops, wants;
};

static struct worker workers[THREADS];

/* ---- what clients are told ------------------------------------------------------------------- */

static void on_event(void *owner, const struct pool_event *event)
{
    (void)owner;
    CHECK(event->pool.len == 1);
}

static void on_late(void *arg, const struct pool_event *event, int64_t held_ns)
{
    (void)arg;
    (void)event;
    CHECK(held_ns > 0);
}

static void on_taken(void *owner, const struct pool_taken *taken)
{
    struct client *c = owner;
    uint64_t *last = &last_fences[taken->pool.data[0]][taken->member.data[0]];
    CHECK(taken->fence > *last);
    *last = taken->fence;
    c->fences[c->taken++ % ARRAY_SIZE(c->fences)] = taken->fence;
    c->worker->taken++;
}

static void on_refused(void *owner, enum pool_status why)
{
    (void)owner;
    CHECK(why == POOL_NO_POOL || why == POOL_QUEUE_FULL);
}

static void on_stop(void *owner, struct bytes pool, struct bytes member, enum pool_why why)
{
    CHECK(pool.len == 1 && member.len > 0 && why < POOL_WHY_COUNT);
    ((struct client *)owner)->worker->stops++;
}

static bool on_want(void *owner, struct bytes pool, uint32_t want)
{
    CHECK(pool.len == 1 && want <= 4);
    return ++((struct client *)owner)->worker->wants % 7 > 0; /* now and then there is no room */
}

static bool on_events(void *owner)
{
    (void)owner;
    return true;
}

static const struct pool_hooks hooks = {on_event, on_late};
static const struct pool_reader reader = {on_taken, on_refused, on_stop, on_want, on_events};

/* ---- messages -------------------------------------------------------------------------------- */

static void send_messages(struct worker *w)
{
    for (struct mail *m; (m = mail_list_take(&w->outbox.clients)) != NULL;)
        (void)mailbox_send(&workers[pool_client_tag(pool_client_of(m))].box, m);
    CHECK(w->outbox.woken.first == NULL);
}

static void read_client(struct worker *w, struct pool_client *client)
{
    pool_client_read(client, &reader, 0, w->now, &w->outbox);
    send_messages(w);
}

static void read_messages(struct worker *w)
{
    struct mail *next;
    for (struct mail *m = mailbox_take(&w->box); m; m = next) {
        next = m->next;
        struct pool_client *client = pool_client_of(m);
        if (pool_client_message(client))
            read_client(w, client);
    }
}

/* ---- what clients do ------------------------------------------------------------------------- */

static bool nothing_was_written(void *owner, uint64_t position)
{
    const struct client *c = owner;
    return position == 0 && c->taken % 2 == 0;
}

static void begin_client(struct worker *w, struct client *c)
{
    uint32_t id = 1 + w->number * CLIENTS + (uint32_t)(c - w->clients);
    *c = (struct client){.worker = w, .real = pool_client_new(pools, id, w->number, c)};
    CHECK(c->real);
}

static void end_client(struct worker *w, struct client *c)
{
    enum pool_end how = rng_one_in(&w->rng, 2) ? POOL_END_QUIT : POOL_END_CRASH;
    pool_client_end(c->real, how, nothing_was_written, w->now, &w->outbox);
    c->real = NULL;
    send_messages(w);
}

static struct bytes random_member(struct worker *w)
{
    static const char members[] = "0123456";
    return bytes_at(members + rng_below(&w->rng, MEMBERS + 2), 1);
}

static void take(struct worker *w, struct client *c)
{
    struct bytes targets[2];
    unsigned first = rng_below(&w->rng, POOLS);
    struct pool_take take = {
        .targets = targets,
        .target_count = 1 + rng_below(&w->rng, 2),
        .count = rng_one_in(&w->rng, 4) ? 2 : 1,
        .what = rng_one_in(&w->rng, 6) ? POOL_FOR_CHECK : POOL_FOR_USE,
        .timeout_ns = rng_one_in(&w->rng, 3) ? 0 : NS_PER_S,
    };
    targets[0] = names[first];
    targets[1] = names[(first + 1) % POOLS];
    if (rng_one_in(&w->rng, 6)) {
        take.target_count = take.count = 1;
        take.member = random_member(w);
    }
    struct pool_attribute none = {bytes_of("z"), bytes_at(NULL, 0)}; /* all are without it */
    if (rng_one_in(&w->rng, 3)) {
        take.with = &none;
        take.with_count = 1;
    }
    if (pool_client_waits(c->real))
        return;
    if (pool_client_looks(c->real))
        (void)!pool_take_on(c->real, &reader, 0, w->now, &w->outbox);
    else
        (void)!pool_take(c->real, &take, &reader, 0, w->now, &w->outbox);
}

static void end_wait(struct worker *w, struct client *c)
{
    /* What it was served may be taken away before it reads that: then it waits again. */
    while (pool_client_waits(c->real) &&
           !pool_end_wait(c->real, rng_one_in(&w->rng, 2), w->now, &w->outbox)) {
        send_messages(w);
        read_client(w, c->real);
    }
}

static void give_back(struct worker *w, struct client *c)
{
    uint64_t fence = c->fences[rng_below(&w->rng, ARRAY_SIZE(c->fences))];
    enum pool_status status =
        pool_return(c->real, fence, !rng_one_in(&w->rng, 4), w->now, &w->outbox);
    CHECK(status == POOL_OK || status == POOL_GONE || status == POOL_NOT_TAKEN);
}

static void supply(struct worker *w, struct client *c)
{
    struct pool_new_member member = {.pool = names[POOLS - 1], .name = random_member(w)};
    if (rng_one_in(&w->rng, 3))
        (void)!pool_supply(c->real, member.pool, rng_below(&w->rng, 2), 1 + rng_below(&w->rng, 3),
                           w->now, &w->outbox);
    else
        (void)!pool_join(c->real, &member, w->now, &w->outbox);
}

static void operate(struct worker *w, struct client *c)
{
    struct pool_member_change change = {.pool = names[rng_below(&w->rng, POOLS)],
                                        .name = random_member(w),
                                        .sets_state = true,
                                        .state = rng_one_in(&w->rng, 4) ? MEMBER_DOWN : MEMBER_FREE,
                                        .now = rng_one_in(&w->rng, 3)};
    if (rng_one_in(&w->rng, 4))
        (void)!pool_member_drop(pools, c->real, false, names[POOLS - 1], change.name, change.now,
                                w->now, &w->outbox);
    else
        (void)!pool_member_set(pools, &change, w->now, &w->outbox);
}

static bool see_pool(void *arg, const struct pool_entry *entry)
{
    (void)arg;
    CHECK(entry->name.len == 1);
    return true;
}

static bool see_member(void *arg, const struct pool_member_entry *entry)
{
    (void)arg;
    CHECK(entry->name.len == 1 && (entry->holder == 0 || entry->fence > 0));
    return true;
}

static bool see_waiter(void *arg, const struct pool_waiter_entry *entry)
{
    (void)arg;
    CHECK(entry->count > 0);
    return true;
}

static void show(struct worker *w)
{
    const struct bytes none = bytes_at(NULL, 0), name = names[rng_below(&w->rng, POOLS)];
    (void)!pools_list(pools, none, none, 9, see_pool, NULL, w->now);
    (void)!pool_show_members(pools, name, none, 9, see_member, NULL);
    (void)!pool_show_waiters(pools, name, 0, 9, see_waiter, NULL);
}

static void act(struct worker *w, struct client *c)
{
    uint32_t what = rng_below(&w->rng, 100);
    if (!c->real)
        begin_client(w, c);
    else if (what < 40)
        take(w, c);
    else if (what < 70)
        give_back(w, c);
    else if (what < 78)
        end_wait(w, c);
    else if (what < 88)
        supply(w, c);
    else if (what < 94)
        operate(w, c);
    else if (what < 96)
        (void)!pool_watch(c->real, rng_one_in(&w->rng, 2) ? bytes_of("*") : names[0],
                          rng_one_in(&w->rng, 2));
    else if (what < 97)
        end_client(w, c);
    else if (what < 98)
        show(w);
    else
        pools_run(pools, w->now, &w->outbox);
    send_messages(w);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    for (unsigned i = 0; i < OPERATIONS; i++) {
        w->now.mono_ns += rng_below(&w->rng, 2 * NS_PER_MS);
        act(w, &w->clients[rng_below(&w->rng, CLIENTS)]);
        if (rng_one_in(&w->rng, 3))
            read_messages(w);
        if (rng_one_in(&w->rng, 50))
            pools_check(pools, w->now);
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        if (w->clients[i].real)
            end_client(w, &w->clients[i]);
    }
    (void)pthread_barrier_wait(&all_ended);
    read_messages(w);
    return NULL;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static const struct moment start_time = {.mono_ns = NS_PER_S, .unix_s = 1000};

static void begin(uint32_t visits_max)
{
    struct pool_outbox outbox;
    pool_outbox_init(&outbox);
    table = table_new(&(struct table_config){
        .buckets = 10, .memory_limit = 64 * MIB, .stats_interval_s = 100, .hash_key = {1, 2}});
    ck_assert(table != NULL);
    pools = pools_new(&(struct pools_config){
        .table = table, .limits = {10, 100, 5, 6}, .first_fence = 1, .seed = 1, .hooks = &hooks});
    ck_assert(pools != NULL);
    pools->visits_max = visits_max;
    for (unsigned i = 0; i < POOLS; i++) {
        bool joined = i == POOLS - 1;
        struct pool_options options = {.kind = joined ? POOL_JOINED : POOL_STATIC,
                                       .order = i,
                                       .queue_max = 9,
                                       .overtakes = i,
                                       .max = joined ? 4 : 5,
                                       .hold_warn_ns = 20 * NS_PER_MS,
                                       .hold_max_ns = 50 * NS_PER_MS,
                                       .start_timeout_ns = 30 * NS_PER_MS,
                                       .stop_timeout_ns = 30 * NS_PER_MS,
                                       .min_free = joined,
                                       .cull_after_ns = joined * 20 * NS_PER_MS,
                                       .max_lifetime_ns = joined * 100 * NS_PER_MS,
                                       .lifetime_jitter_ns = joined * 50 * NS_PER_MS};
        ck_assert(pool_add(pools, names[i], &options, false, start_time, &outbox) == POOL_OK);
        for (unsigned k = 0; k < MEMBERS && options.kind == POOL_STATIC; k++) {
            char name = (char)('0' + k);
            struct pool_new_member member = {.pool = names[i], .name = bytes_at(&name, 1)};
            ck_assert(pool_member_add(pools, &member, start_time, &outbox) == POOL_OK);
        }
    }
}

static void finish(struct moment now)
{
    struct pools_sums sums;
    struct pool_outbox outbox;
    pool_outbox_init(&outbox);
    while (!pools_finish(pools, now, &outbox)) /* what events left for later */
        continue;
    pools_check(pools, now);
    pools_sums(pools, &sums);
    ck_assert(sums.held == 0 && sums.waiting == 0 && sums.members == 2 * MEMBERS);
    pools_free(&pools);
    table_check(table);
    struct table_stats stats;
    table_get_stats(table, now, &stats);
    ck_assert(stats.units == 0 && stats.holdings == 0);
    table_free(&table);
}

static void run(uint32_t visits_max)
{
    struct rng rng = rng_start("pool threads", random_seed());
    pthread_t threads[THREADS];
    uint64_t taken = 0, stops = 0, wants = 0;
    begin(visits_max);
    ck_assert(pthread_barrier_init(&all_ended, NULL, THREADS) == 0);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.rng = {rng_next(&rng)}, .number = i, .now = start_time};
        mailbox_init(&workers[i].box);
        pool_outbox_init(&workers[i].outbox);
    }
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    struct moment last = start_time;
    for (unsigned i = 0; i < THREADS; i++) {
        ck_assert(pthread_join(threads[i], NULL) == 0);
        ck_assert(mailbox_take(&workers[i].box) == NULL);
        taken += workers[i].taken;
        stops += workers[i].stops;
        wants += workers[i].wants;
        if (last.mono_ns < workers[i].now.mono_ns)
            last = workers[i].now;
    }
    ck_assert(taken > 1000 && stops > 100 && wants > 100);
    finish(last);
}

TEST(invariants_hold_under_several_threads)
{
    run(POOL_VISITS_MAX);
}
END_TEST

/* A call visits few members: so nearly all goes on in steps, between which others change much. */
TEST(invariants_hold_in_small_steps)
{
    run(3);
}
END_TEST

UNIT_MAIN("engine/pool_threads")
