/*
 * pool_steps_test.c - calls of the pools whose work goes on in steps, beside threads and requests
 * that no story can place between two of them. What a step visits is compared by pools_check. And
 * records that no daemon writes.
 */
#include "engine/pool_internal.h"
#include "engine/state.h"
#include "t/models/pools_check.h"
#include "t/unit/engine/tables.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CLIENTS = 22, MEMBERS = 5000 };

static struct pools *pools;
static struct pool_outbox outbox;
static struct pool_client *clients[CLIENTS];
static unsigned taken, stops;
static const struct bytes big = {(const uint8_t *)"big", 3};

static void hear_taken(void *owner, const struct pool_taken *t_)
{
    (void)owner;
    (void)t_;
    taken++;
}

static void hear_stop(void *owner, struct bytes pool, struct bytes member, enum pool_why why)
{
    (void)owner;
    (void)pool;
    (void)member;
    (void)why;
    stops++;
}

static const struct pool_hooks hooks = {0};
static const struct pool_reader reader = {.taken = hear_taken, .stop = hear_stop};

static struct pools *new_pools(void)
{
    struct pools_config config = {
        .table = t, .limits = {10, 100000, 10, 64}, .first_fence = 100, .seed = 7, .hooks = &hooks};
    struct pools *made = pools_new(&config);
    ck_assert(made != NULL);
    return made;
}

static void begin(struct pool_options options)
{
    options.queue_max = 100;
    start();
    pools = new_pools();
    pool_outbox_init(&outbox);
    ck_assert(pool_add(pools, big, &options, false, now, &outbox) == POOL_OK);
    for (uint32_t c = 0; c < CLIENTS; c++) {
        clients[c] = pool_client_new(pools, 1000 + c, c + 1, &clients[0]);
        ck_assert(clients[c] != NULL);
    }
    taken = stops = 0;
}

static void end_client(unsigned c)
{
    pool_client_end(clients[c], POOL_END_QUIT, NULL, now, &outbox);
    clients[c] = NULL;
}

static void end(void)
{
    pools_check(pools, now);
    for (uint32_t c = 0; c < CLIENTS; c++) {
        if (clients[c])
            end_client(c);
    }
    while (!pools_finish(pools, now, &outbox))
        continue;
    for (struct mail *mail; (mail = mail_list_take(&outbox.clients)) != NULL;)
        (void)pool_client_message(pool_client_of(mail));
    pools_check(pools, now);
    pools_free(&pools);
    finish();
}

/* Adds so many members, of which `each` in turn have z=0, z=1, ...; a client may join them. */
static void fill(unsigned count, unsigned each, struct pool_client *joiner)
{
    char name[16], group[16];
    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "m%05u", i);
        snprintf(group, sizeof(group), "%u", i / each);
        struct pool_attribute z = {bytes_of("z"), bytes_of(group)};
        struct pool_new_member new = {
            .pool = big, .name = bytes_of(name), .attributes = &z, .attribute_count = 1};
        ck_assert((joiner ? pool_join(joiner, &new, now, &outbox)
                          : pool_member_add(pools, &new, now, &outbox)) == POOL_OK);
    }
}

static enum pool_status try_take(struct pool_client *client, uint32_t count, const char *value,
                                 int64_t timeout_ns)
{
    struct pool_attribute with = {bytes_of("z"), bytes_of(value)};
    struct pool_take take = {.targets = &big,
                             .target_count = 1,
                             .count = count,
                             .with = &with,
                             .with_count = *value ? 1 : 0,
                             .timeout_ns = timeout_ns};
    return pool_take(client, &take, &reader, 0, now, &outbox);
}

/* Lets the timer do all that is due. */
static void run(void)
{
    for (unsigned times = 0; pools_next_ns(pools) <= now.mono_ns; times++) {
        ck_assert_uint_lt(times, 100000);
        pools_run(pools, now, &outbox);
    }
    pools_check(pools, now);
}

/* Makes a step in a thread whose round began later. */
static void *step_later(void *client)
{
    struct moment later = {.mono_ns = now.mono_ns + 1000, .unix_s = now.unix_s};
    struct pool_outbox its;
    pool_outbox_init(&its);
    return pool_take_on(client, &reader, 0, later, &its) == POOL_LOOKS ? client : NULL;
}

TEST(quick_thread_keeps_a_slow_one_from_no_step)
{
    pthread_t thread;
    void *looks;
    begin((struct pool_options){.kind = POOL_STATIC});
    fill(MEMBERS, MEMBERS, NULL);
    ck_assert_int_eq(try_take(clients[0], 1, "2", 0), POOL_LOOKS);
    ck_assert_int_eq(try_take(clients[1], 1, "2", 0), POOL_LOOKS);
    now.mono_ns++;
    ck_assert_int_eq(pthread_create(&thread, NULL, step_later, clients[1]), 0);
    ck_assert_int_eq(pthread_join(thread, &looks), 0);
    ck_assert(looks == clients[1]);
    outbox.visits = 0;
    ck_assert_int_eq(pool_take_on(clients[0], &reader, 0, now, &outbox), POOL_LOOKS);
    ck_assert_uint_gt(outbox.visits, 100);
    end();
}
END_TEST

TEST(stops_are_read_in_steps)
{
    begin((struct pool_options){.kind = POOL_JOINED, .max_lifetime_ns = NS_PER_S});
    fill(MEMBERS, MEMBERS, clients[0]);
    now.mono_ns += NS_PER_S;
    run();
    for (unsigned before = 0; stops < MEMBERS; before = stops) {
        pool_client_read(clients[0], &reader, 0, now, &outbox);
        ck_assert(stops > before && stops - before <= POOL_VISITS_MAX);
    }
    end();
}
END_TEST

/* Waits for several members close so many that a wait for any one meets only these in a step. */
TEST(wait_behind_many_closed_members_is_served)
{
    enum { GROUPS = 20, EACH = POOL_COUNT_MAX };
    char group[16];
    begin((struct pool_options){.order = POOL_FIFO, .on_start = POOL_AFTER_DIRTY});
    fill(GROUPS * EACH, EACH, NULL);
    for (unsigned c = 0; c < GROUPS + 2; c++) {
        snprintf(group, sizeof(group), "%u", c);
        bool any = c >= GROUPS;
        ck_assert_int_eq(try_take(clients[c], any ? 1 : EACH, any ? "" : group, NS_PER_S),
                         POOL_WAITS);
        run();
    }
    for (unsigned i = 0; i < GROUPS * EACH; i++) {
        char name[16];
        snprintf(name, sizeof(name), "m%05u", i);
        struct pool_member_change change = {
            .pool = big, .name = bytes_of(name), .sets_state = true, .state = MEMBER_FREE};
        if (i % EACH > 0)
            ck_assert(pool_member_set(pools, &change, now, &outbox) == POOL_OK);
    }
    ck_assert_uint_eq(pool_find(pools, big)->closed, GROUPS * (EACH - 1));
    run(); /* it ends */
    taken = 0;
    end_client(GROUPS - 1);
    run();
    pool_client_read(clients[GROUPS], &reader, 0, now, &outbox);
    pool_client_read(clients[GROUPS + 1], &reader, 0, now, &outbox);
    ck_assert_uint_eq(taken, 2);
    end();
}
END_TEST

/* In an order of ages others take members at its beginning and return them at its end, faster than
 * a step looks. */
TEST(request_in_steps_ends_beside_a_flood)
{
    for (unsigned order = POOL_LIFO; order <= POOL_LEAST; order++) {
        enum pool_status status = POOL_LOOKS;
        begin((struct pool_options){.order = order, .overtakes = 1});
        fill(MEMBERS, MEMBERS, NULL);
        ck_assert_int_eq(try_take(clients[0], 1, "2", 0), POOL_LOOKS);
        for (unsigned steps = 0; status == POOL_LOOKS; steps++) {
            ck_assert_uint_lt(steps, MEMBERS / 100);
            for (unsigned i = 0; i < 300; i++) {
                ck_assert_int_eq(try_take(clients[1], 1, "", 0), POOL_OK);
                ck_assert_int_eq(pool_return(clients[1], 0, true, now, &outbox), POOL_OK);
            }
            now.mono_ns++;
            status = pool_take_on(clients[0], &reader, 0, now, &outbox);
            pools_check(pools, now);
        }
        ck_assert_int_eq(status, POOL_TIMES_OUT);
        end();
    }
}
END_TEST

/* A member has a stop that its supplier was not told yet. */
TEST(pools_are_restored_unless_a_byte_says_what_cannot_be)
{
    static const struct {
        unsigned names; /* before the byte: the member's name of its pool, and of its supplier */
        int at;
        uint8_t byte;
        const char *why;
    } rows[] = {
        {1, 0, 0, NULL},
        {1, 8, POOL_ATTRIBUTES_MAX + 1, "a value of a pool is out of its range"},
        {2, -1, 'x', "a client has a member that is not there"},
        {2, 0, POOL_WHY_COUNT, "a member was joined twice, or is not to stop"},
    };
    static struct record_writer writer;
    static uint8_t record[65536], damaged[65536];
    int fd = memfd_create("pools", MFD_CLOEXEC);
    begin((struct pool_options){.kind = POOL_JOINED, .max_lifetime_ns = NS_PER_S});
    fill(1, 1, clients[0]);
    now.mono_ns += NS_PER_S;
    run();
    record_writer_init(&writer, fd);
    pools_save(pools, now, &writer);
    ck_assert(record_finish(&writer));
    ssize_t len = pread(fd, record, sizeof(record), 0);
    ck_assert(len > 0 && close(fd) == 0);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct pools *restored = new_pools();
        struct record_reader r, section;
        uint32_t kind;
        uint8_t *at = memcpy(damaged, record, sizeof(record));
        for (unsigned n = 0; n < rows[i].names; n++)
            at = (uint8_t *)memmem(at, sizeof(damaged) / 2, "m00000", 6) + 6;
        at[rows[i].at] = rows[i].byte;
        record_reader_init(&r, damaged, (size_t)len);
        ck_assert(record_enter(&r, &kind, &section));
        ck_assert(pools_restore(restored, now, &section) == !rows[i].why);
        ck_assert_pstr_eq(section.why, rows[i].why);
        pools_free(&restored);
    }
    end();
}
END_TEST

UNIT_MAIN("engine/pool_steps")
