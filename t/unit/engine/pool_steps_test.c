/*
 * pool_steps_test.c - what a call of the pools visits under one hold of the lock: never many
 * members, waits and suppliers, however many there are. Long work goes on in steps.
 */
#include "engine/pool_inside.h"
#include "t/unit/engine/tables.h"

#include <pthread.h>
#include <stdio.h>

enum {
    CLIENTS = 70,
    MEMBERS = 5000,
    MOST = POOL_VISITS_MAX + 4 * POOL_CHOOSY_MAX, /* what is compared at once comes on top */
};

static struct pools *pools;
static struct pool_effects effects;
static struct pool_client *clients[CLIENTS];
static unsigned taken, stops, events;
static char last_taken[16];
static const struct bytes big = {(const uint8_t *)"big", 3}, small = {(const uint8_t *)"small", 5};

static void hear_event(void *owner, const struct pool_event *event)
{
    (void)owner;
    (void)event;
    events++;
}

static void hear_late(void *arg, const struct pool_event *event, int64_t held_ns)
{
    (void)arg;
    (void)event;
    (void)held_ns;
}

static void hear_taken(void *owner, const struct pool_taken *t_)
{
    (void)owner;
    taken++;
    snprintf(last_taken, sizeof(last_taken), "%.*s", (int)t_->member.len, t_->member.data);
}

static void hear_refused(void *owner, enum pool_status why)
{
    (void)owner;
    (void)why;
}

static void hear_stop(void *owner, struct bytes pool, struct bytes member, enum pool_why why)
{
    (void)owner;
    (void)pool;
    (void)member;
    (void)why;
    stops++;
}

static bool hear_want(void *owner, struct bytes pool, uint32_t want)
{
    (void)owner;
    (void)pool;
    (void)want;
    return true;
}

static bool hear_events(void *owner)
{
    (void)owner;
    return true;
}

static const struct pool_hooks hooks = {hear_event, hear_late};
static const struct pool_reader reader = {hear_taken, hear_refused, hear_stop, hear_want,
                                          hear_events};

static struct pool_client *new_client(uint32_t c)
{
    struct pool_client *client = pool_client_new(pools, 1000 + c, c + 1, &clients[0]);
    ck_assert(client != NULL);
    return client;
}

static void begin(enum pool_kind kind)
{
    struct pool_options options = {.kind = kind, .queue_max = 100, .overtakes = 1};
    start();
    struct pools_config config = {
        .table = t, .limits = {10, 100000, 10, 64}, .first_fence = 100, .seed = 7, .hooks = &hooks};
    pools = pools_new(&config);
    ck_assert(pools != NULL);
    pool_effects_init(&effects);
    ck_assert(pool_add(pools, big, &options, false, now, &effects) == POOL_OK);
    options.kind = POOL_STATIC;
    ck_assert(pool_add(pools, small, &options, false, now, &effects) == POOL_OK);
    struct pool_new_member one = {.pool = small, .name = bytes_of("one")};
    ck_assert(pool_member_add(pools, &one, now, &effects) == POOL_OK);
    for (uint32_t c = 0; c < CLIENTS; c++)
        clients[c] = new_client(c);
    taken = stops = events = 0;
}

static void end(void)
{
    for (uint32_t c = 0; c < CLIENTS; c++) {
        if (clients[c])
            pool_client_end(clients[c], POOL_END_QUIT, NULL, now, &effects);
    }
    while (!pools_finish(pools, now, &effects))
        continue;
    for (struct mail *mail; (mail = mail_list_take(&effects.clients)) != NULL;)
        (void)pool_client_letter(pool_client_of(mail));
    pools_free(&pools);
    finish();
}

/* The member number i: "m00017", with g=i%2, and with z=1 if it is the last. */
static struct pool_new_member member_of(unsigned i, char *name, struct pool_attribute *attributes)
{
    snprintf(name, 16, "m%05u", i);
    attributes[0] = (struct pool_attribute){bytes_of("g"), bytes_of(i % 2 ? "1" : "0")};
    attributes[1] = (struct pool_attribute){bytes_of("z"), bytes_of("1")};
    return (struct pool_new_member){.pool = big,
                                    .name = bytes_of(name),
                                    .attributes = attributes,
                                    .attribute_count = i == 0 ? 2 : 1};
}

/* Adds members; with `lifo` the first one is taken last. */
static void fill(struct pool_client *joiner)
{
    char name[16];
    struct pool_attribute attributes[2];
    for (unsigned i = 0; i < MEMBERS; i++) {
        struct pool_new_member new = member_of(i, name, attributes);
        if (joiner)
            ck_assert(pool_join(joiner, &new, now, &effects) == POOL_OK);
        else
            ck_assert(pool_member_add(pools, &new, now, &effects) == POOL_OK);
    }
}

static uint64_t most(void)
{
    uint64_t visited = pools->visited_most;
    atomic_store(&pools->visited_most, 0);
    return visited;
}

static enum pool_status try_take(struct pool_client *client, struct bytes pool, uint32_t count,
                                 const char *value, int64_t timeout_ns)
{
    struct pool_attribute with = {bytes_of("z"), bytes_of(value)};
    struct pool_take take = {.targets = &pool,
                             .target_count = 1,
                             .count = count,
                             .with = &with,
                             .with_count = *value ? 1 : 0,
                             .timeout_ns = timeout_ns};
    effects.visits = 0;
    return pool_take(client, &take, &reader, 0, now, &effects);
}

/* Goes on with a request until it is decided; each step is short. Returns how it ended. */
static enum pool_status go_on(struct pool_client *client, unsigned *steps_r)
{
    enum pool_status status = POOL_LOOKS;
    for (*steps_r = 0; status == POOL_LOOKS; ++*steps_r) {
        now.mono_ns++;
        most();
        status = pool_take_on(client, &reader, 0, now, &effects);
        ck_assert_uint_le(most(), MOST);
        ck_assert_uint_lt(*steps_r, 100000);
    }
    return status;
}

/* Lets the timer do all that is due. */
static void run(void)
{
    for (unsigned times = 0; pools_next_ns(pools) <= now.mono_ns; times++) {
        ck_assert_uint_lt(times, 100000);
        unsigned before = events;
        most();
        pools_run(pools, now, &effects);
        ck_assert_uint_le(most(), MOST);
        ck_assert_uint_le(events - before, MOST);
    }
    pools_check(pools, now);
}

TEST(request_for_what_nobody_has_looks_in_steps)
{
    unsigned steps;
    begin(POOL_STATIC);
    fill(NULL);
    most();
    ck_assert_int_eq(try_take(clients[0], big, 1, "2", 0), POOL_LOOKS);
    ck_assert_uint_le(most(), MOST);
    /* Others are served meanwhile. */
    ck_assert_int_eq(try_take(clients[1], small, 1, "", 0), POOL_OK);
    ck_assert_int_eq(try_take(clients[2], big, 1, "", 0), POOL_OK);
    ck_assert_uint_le(most(), 10);
    ck_assert_int_eq(go_on(clients[0], &steps), POOL_TIMES_OUT);
    ck_assert_uint_ge(steps, MEMBERS / POOL_VISITS_MAX);
    ck_assert_uint_eq(taken, 2);
    /* It finds the last one, too. */
    ck_assert_int_eq(try_take(clients[0], big, 1, "1", 0), POOL_LOOKS);
    ck_assert_int_eq(go_on(clients[0], &steps), POOL_OK);
    ck_assert_str_eq(last_taken, "m00000");
    /* One that may wait waits then, and is served by what is returned. */
    ck_assert_int_eq(try_take(clients[3], big, 1, "1", NS_PER_S), POOL_LOOKS);
    ck_assert_int_eq(go_on(clients[3], &steps), POOL_WAITS);
    most();
    ck_assert_int_eq(pool_return(clients[0], 0, true, now, &effects), POOL_OK);
    ck_assert_uint_le(most(), 10);
    taken = 0;
    pool_client_read(clients[3], &reader, 0, now, &effects);
    ck_assert_uint_eq(taken, 1);
    /* It is over when its time is. */
    ck_assert_int_eq(try_take(clients[4], big, 1, "2", 5), POOL_LOOKS);
    now.mono_ns += 10;
    ck_assert_int_eq(go_on(clients[4], &steps), POOL_TIMES_OUT);
    ck_assert_uint_eq(steps, 1);
    end();
}
END_TEST

TEST(request_in_steps_stands_in_line_from_the_beginning)
{
    unsigned steps;
    begin(POOL_STATIC);
    fill(NULL);
    ck_assert_int_eq(try_take(clients[1], big, 1, "1", 0), POOL_LOOKS);
    ck_assert_int_eq(go_on(clients[1], &steps), POOL_OK);
    ck_assert_int_eq(try_take(clients[0], big, 1, "1", 0), POOL_LOOKS);
    now.mono_ns++;
    ck_assert_int_eq(pool_take_on(clients[0], &reader, 0, now, &effects), POOL_LOOKS);
    pools_check(pools, now);
    /* It becomes free in the part that was looked at: it is compared at once. */
    taken = 0;
    ck_assert_int_eq(pool_return(clients[1], 0, true, now, &effects), POOL_OK);
    ck_assert_int_eq(try_take(clients[2], big, 1, "1", 0), POOL_LOOKS);
    ck_assert_int_eq(go_on(clients[0], &steps), POOL_OK);
    ck_assert_uint_eq(steps, 1);
    ck_assert_int_eq(go_on(clients[2], &steps), POOL_TIMES_OUT);
    /* One that is dropped meanwhile, and one whose client ends. */
    ck_assert_int_eq(try_take(clients[3], big, 2, "1", 0), POOL_LOOKS);
    ck_assert_int_eq(try_take(clients[4], big, 2, "1", 0), POOL_LOOKS);
    pool_client_end(clients[4], POOL_END_CRASH, NULL, now, &effects);
    clients[4] = NULL;
    ck_assert(pool_drop(pools, big, false, now, &effects) == POOL_OK);
    ck_assert_int_eq(go_on(clients[3], &steps), POOL_NO_POOL);
    end();
}
END_TEST

/* Makes a step in a thread whose round began later. */
static void *step_later(void *client)
{
    struct moment later = {.mono_ns = now.mono_ns + 1000, .unix_s = now.unix_s};
    struct pool_effects its;
    pool_effects_init(&its);
    return pool_take_on(client, &reader, 0, later, &its) == POOL_LOOKS ? client : NULL;
}

TEST(quick_thread_keeps_a_slow_one_from_no_step)
{
    pthread_t thread;
    void *looks;
    begin(POOL_STATIC);
    fill(NULL);
    ck_assert_int_eq(try_take(clients[0], big, 1, "2", 0), POOL_LOOKS);
    ck_assert_int_eq(try_take(clients[1], big, 1, "2", 0), POOL_LOOKS);
    now.mono_ns++;
    ck_assert_int_eq(pthread_create(&thread, NULL, step_later, clients[1]), 0);
    ck_assert_int_eq(pthread_join(thread, &looks), 0);
    ck_assert(looks == clients[1]);
    most();
    ck_assert_int_eq(pool_take_on(clients[0], &reader, 0, now, &effects), POOL_LOOKS);
    ck_assert_uint_gt(most(), 100);
    end();
}
END_TEST

TEST(choosy_waits_cost_one_comparison_each)
{
    unsigned steps;
    begin(POOL_STATIC);
    fill(NULL);
    ck_assert_int_eq(try_take(clients[68], big, 1, "1", 0), POOL_LOOKS);
    ck_assert_int_eq(go_on(clients[68], &steps), POOL_OK);
    for (unsigned c = 0; c < POOL_CHOOSY_MAX; c++) {
        ck_assert_int_eq(try_take(clients[c], big, 2, "1", NS_PER_S), POOL_LOOKS);
        ck_assert_int_eq(go_on(clients[c], &steps), POOL_WAITS);
    }
    run(); /* they count how many they could use */
    ck_assert_int_eq(try_take(clients[66], big, 1, "1", NS_PER_S), POOL_QUEUE_FULL);
    ck_assert_int_eq(try_take(clients[66], big, 2, "", NS_PER_S), POOL_OK);
    most();
    ck_assert_int_eq(pool_return(clients[68], 0, true, now, &effects), POOL_OK);
    ck_assert_uint_le(most(), POOL_CHOOSY_MAX + 10);
    ck_assert_int_eq(try_take(clients[69], big, 1, "", 0), POOL_OK);
    ck_assert_uint_le(most(), POOL_CHOOSY_MAX + 10);
    run();
    end();
}
END_TEST

TEST(end_of_a_large_supplier_goes_in_steps)
{
    char name[16];
    struct pool_attribute attributes[2];
    struct pool_new_member first = member_of(0, name, attributes);
    begin(POOL_JOINED);
    fill(clients[0]);
    ck_assert_int_eq(try_take(clients[1], big, 1, "", 0), POOL_OK);
    most();
    pool_client_end(clients[0], POOL_END_CRASH, NULL, now, &effects);
    clients[0] = NULL;
    ck_assert_uint_le(most(), MOST);
    pools_check(pools, now);
    ck_assert_uint_gt(pool_find(pools, big)->member_count, MEMBERS / 2);
    ck_assert_int_eq(try_take(clients[2], small, 1, "", 0), POOL_OK);
    ck_assert_uint_gt(pool_find(pools, big)->member_count, MEMBERS / 2);
    /* Requests for that pool wait until all have left. */
    ck_assert_int_eq(pool_return(clients[1], 0, true, now, &effects), POOL_GONE);
    ck_assert_uint_eq(pool_find(pools, big)->member_count, 0);
    ck_assert_uint_le(most(), MOST);
    ck_assert(pool_join(clients[3], &first, now, &effects) == POOL_OK);
    run();
    end();
}
END_TEST

TEST(lifetimes_stops_and_events_of_many_members_go_in_steps)
{
    enum { WATCHERS = 10 };
    struct pool_options options = {.kind = POOL_JOINED,
                                   .queue_max = 10,
                                   .max_lifetime_ns = NS_PER_S,
                                   .stop_timeout_ns = 100 * NS_PER_S};
    unsigned steps;
    begin(POOL_JOINED);
    ck_assert(pool_set(pools, big, &options, false, now, &effects) == POOL_OK);
    fill(clients[0]);
    for (unsigned i = 0; i < WATCHERS; i++)
        ck_assert(pool_watch(clients[2 + i], bytes_of("*"), false) == POOL_OK);
    now.mono_ns += NS_PER_S;
    most();
    /* None is handed out any more, though most have not been stopped yet. */
    ck_assert_int_eq(try_take(clients[1], big, 1, "", 0), POOL_LOOKS);
    ck_assert_uint_le(most(), MOST);
    ck_assert_int_eq(go_on(clients[1], &steps), POOL_TIMES_OUT);
    run();
    ck_assert_uint_eq(pool_find(pools, big)->states[MEMBER_STOPPING], MEMBERS);
    most();
    pool_client_read(clients[0], &reader, 0, now, &effects);
    ck_assert_uint_le(stops, POOL_VISITS_MAX);
    for (struct mail *mail; (mail = mail_list_take(&effects.clients)) != NULL;) {
        struct pool_client *client = pool_client_of(mail);
        ck_assert(pool_client_letter(client));
        pool_client_read(client, &reader, 0, now, &effects);
        ck_assert_uint_le(most(), MOST);
    }
    ck_assert_uint_eq(stops, MEMBERS);
    now.mono_ns += 50 * NS_PER_S;
    events = 0;
    pool_client_end(clients[0], POOL_END_CRASH, NULL, now, &effects);
    clients[0] = NULL;
    run();
    ck_assert_uint_eq(pool_find(pools, big)->member_count, 0);
    ck_assert_uint_eq(events, WATCHERS * MEMBERS);
    end();
}
END_TEST

static bool see_one(void *seen, const struct pool_supplier_entry *entry)
{
    (void)entry;
    ++*(unsigned *)seen;
    return false;
}

TEST(pool_with_many_suppliers_shares_seldom)
{
    enum { SUPPLIERS = 1000 };
    static struct pool_client *suppliers[SUPPLIERS];
    char name[16];
    struct pool_attribute attributes[2];
    begin(POOL_JOINED);
    struct pool *pool = pool_find(pools, big);
    for (unsigned i = 0; i < SUPPLIERS; i++) {
        suppliers[i] = new_client(CLIENTS + i);
        ck_assert(pool_supply(suppliers[i], big, 1, 10, now, &effects) == POOL_OK);
    }
    run();
    int64_t share_ns = pool->share_ns;
    ck_assert(pool->share_due && share_ns > now.mono_ns);
    for (unsigned i = 0; i < 100; i++) {
        struct pool_new_member new = member_of(i, name, attributes);
        ck_assert(pool_join(suppliers[i], &new, now, &effects) == POOL_OK);
        ck_assert(pool_member_drop(pools, suppliers[i], true, big, new.name, true, now, &effects) ==
                  POOL_OK);
    }
    ck_assert_int_eq(pool->share_ns, share_ns); /* nobody has shared */
    now.mono_ns = share_ns;
    run();
    ck_assert(!pool->share_due && pool->share_ns > share_ns);
    unsigned seen = 0;
    pool_show_suppliers(pools, big, see_one, &seen);
    ck_assert_uint_eq(seen, 1); /* what is not shown is not visited */
    for (unsigned i = 0; i < SUPPLIERS; i++)
        ck_assert_uint_eq(pool_supplier_of(suppliers[i], pool)->want, 1);
    for (unsigned i = 0; i < SUPPLIERS; i++) {
        pool_client_end(suppliers[i], POOL_END_QUIT, NULL, now, &effects);
    }
    end();
}
END_TEST

/* Waits for several members close so many that a wait for any one meets only these in a step. */
TEST(wait_behind_many_closed_members_is_served)
{
    enum { GROUPS = 20, EACH = POOL_COUNT_MAX };
    struct pool_options options = {.queue_max = 100, .on_start = POOL_AFTER_DIRTY};
    char name[16], group[GROUPS][16];
    begin(POOL_STATIC);
    options.order = POOL_FIFO;
    ck_assert(pool_set(pools, big, &options, false, now, &effects) == POOL_OK);
    for (unsigned i = 0; i < GROUPS * EACH; i++) {
        snprintf(name, sizeof(name), "m%05u", i);
        snprintf(group[i / EACH], sizeof(group[0]), "%u", i / EACH);
        struct pool_attribute z = {bytes_of("z"), bytes_of(group[i / EACH])};
        struct pool_new_member new = {
            .pool = big, .name = bytes_of(name), .attributes = &z, .attribute_count = 1};
        ck_assert(pool_member_add(pools, &new, now, &effects) == POOL_OK);
    }
    for (unsigned c = 0; c < GROUPS; c++)
        ck_assert_int_eq(try_take(clients[c], big, EACH, group[c], NS_PER_S), POOL_WAITS);
    run();
    ck_assert_int_eq(try_take(clients[GROUPS], big, 1, "", NS_PER_S), POOL_WAITS);
    ck_assert_int_eq(try_take(clients[GROUPS + 1], big, 1, "", NS_PER_S), POOL_WAITS);
    for (unsigned i = 0; i < GROUPS * EACH; i++) {
        snprintf(name, sizeof(name), "m%05u", i);
        struct pool_member_change change = {
            .pool = big, .name = bytes_of(name), .sets_state = true, .state = MEMBER_FREE};
        if (i % EACH > 0)
            ck_assert(pool_member_set(pools, &change, now, &effects) == POOL_OK);
    }
    ck_assert_uint_eq(pool_find(pools, big)->closed, GROUPS * (EACH - 1));
    run(); /* it ends */
    taken = 0;
    pool_client_end(clients[GROUPS - 1], POOL_END_CRASH, NULL, now, &effects);
    clients[GROUPS - 1] = NULL;
    run();
    pool_client_read(clients[GROUPS], &reader, 0, now, &effects);
    pool_client_read(clients[GROUPS + 1], &reader, 0, now, &effects);
    ck_assert_uint_eq(taken, 2);
    end();
}
END_TEST

/* In an order of ages others take members at its beginning and return them at its end, faster than
 * a step looks. */
static void look_beside_a_flood(unsigned order)
{
    struct pool_options options = {.queue_max = 100, .overtakes = 1, .order = order};
    enum pool_status status = POOL_LOOKS;
    unsigned steps;
    begin(POOL_STATIC);
    ck_assert(pool_set(pools, big, &options, false, now, &effects) == POOL_OK);
    fill(NULL);
    ck_assert_int_eq(try_take(clients[0], big, 1, "2", 0), POOL_LOOKS);
    for (steps = 0; status == POOL_LOOKS; steps++) {
        ck_assert_uint_lt(steps, MEMBERS / 100);
        for (unsigned i = 0; i < 300; i++) {
            ck_assert_int_eq(try_take(clients[1], big, 1, "", 0), POOL_OK);
            ck_assert_int_eq(pool_return(clients[1], 0, true, now, &effects), POOL_OK);
        }
        now.mono_ns++;
        status = pool_take_on(clients[0], &reader, 0, now, &effects);
        pools_check(pools, now);
    }
    ck_assert_int_eq(status, POOL_TIMES_OUT);
    end();
}

TEST(request_in_steps_ends_beside_a_flood)
{
    for (unsigned order = POOL_LIFO; order <= POOL_LEAST; order++)
        look_beside_a_flood(order);
}
END_TEST

UNIT_MAIN("engine/pool_steps")
