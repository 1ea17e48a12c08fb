/*
 * watch_test.c - what clients with many watches, waits, reservations and keys cost others. Steps
 * are counted (struct jobs_stats), not time. The model test (t/models/jobs_test.c) has which client
 * gets which job.
 */
#include "t/unit/jobs/jobs_rig.h"

enum { MANY = 27000, FEW_STEPS = 12 };

#define COSTS_LITTLE(...)                                                                          \
    do {                                                                                           \
        uint64_t visits_before = stats().visits;                                                   \
        __VA_ARGS__;                                                                               \
        ck_assert_uint_le(stats().visits - visits_before, FEW_STEPS);                              \
    } while (0)

TEST(watches_of_others_cost_a_put_nothing)
{
    begin();
    watch(client, MANY);
    wait_for_job(client);
    COSTS_LITTLE(delete (other, put(bytes_of("elsewhere"))));
    for (unsigned n = 0; n < 100; n++) {
        uint64_t id;
        COSTS_LITTLE(id = put(numbered("w", n * 7)));
        hears(client, id);
        delete (client, id);
        COSTS_LITTLE(delete (other, put(numbered("w", n * 7))));
        COSTS_LITTLE(wait_for_job(client));
    }
    ck_assert(jobs_end_wait(client));
    end();
}

TEST(a_reserve_looks_at_tubes_with_jobs)
{
    begin();
    watch(client, MANY);
    ck_assert(reserve(client) == 0);
    COSTS_LITTLE(ck_assert(reserve(client) == 0));
    uint64_t id = put(numbered("w", MANY / 2));
    COSTS_LITTLE(ck_assert(reserve(client) == id));
    COSTS_LITTLE(ck_assert(reserve(client) == 0));
    id = put(numbered("w", MANY / 3));
    COSTS_LITTLE(ck_assert(claim(client) == id));
    COSTS_LITTLE(ck_assert(claim(client) == 0));
    end();
}

TEST(a_reserve_looks_at_few_of_many_tubes_with_jobs)
{
    enum { TUBES = 3000 };
    uint64_t ids[TUBES], late = 0;
    begin();
    watch(client, TUBES);
    for (unsigned n = 0; n < TUBES; n++)
        ids[n] = put_with(numbered("w", n), jobs_take_id(jobs), TUBES - n, 0);
    ck_assert(reserve(client) == ids[TUBES - 1]);
    for (unsigned n = TUBES - 1; n > 2 * TUBES / 3; n--)
        COSTS_LITTLE(ck_assert(reserve(client) == ids[n - 1]));
    COSTS_LITTLE(late = put(numbered("w", 3)));
    COSTS_LITTLE(ck_assert(reserve(client) == late));
    unsigned turn = 4; /* the turn after the tube that served last */
    for (; turn < TUBES / 3; turn++)
        COSTS_LITTLE(ck_assert(claim(client) == ids[turn]));
    /* Each tube that others have emptied is visited once. */
    for (; turn < TUBES / 2; turn++)
        delete (other, ids[turn]);
    uint64_t before = stats().visits;
    ck_assert(claim(client) == ids[turn]);
    ck_assert_uint_le(stats().visits - before, 4 * (TUBES / 2 - TUBES / 3) + FEW_STEPS);
    COSTS_LITTLE(ck_assert(claim(client) == ids[turn + 1]));
    end();
}

TEST(the_longest_wait_is_found_among_many)
{
    enum { CLIENTS = 300, FIRST = 10 };
    struct jobs_client *clients[CLIENTS];
    begin();
    for (unsigned n = 0; n < CLIENTS; n++) {
        clients[n] = jobs_client_new(jobs, 2 + n, NULL);
        ck_assert(clients[n] != NULL);
        watch(clients[n], JOBS_MANY_WATCHES + n % 2); /* some watch few tubes */
        wait_for_job(clients[n]);
    }
    hears(clients[0], put(numbered("w", 1)));
    for (unsigned n = 0; n < FIRST; n++) { /* these begin anew */
        ck_assert(n == 0 || jobs_end_wait(clients[n]));
        wait_for_job(clients[n]);
    }
    ck_assert(stats_of("w1").waiting == CLIENTS);
    uint64_t before = stats().visits;
    hears(clients[FIRST], put(numbered("w", 1)));
    ck_assert_uint_le(stats().visits - before, FIRST + FEW_STEPS);
    uint64_t id;
    COSTS_LITTLE(id = put(numbered("w", 1)));
    hears(clients[FIRST + 1], id);
    ck_assert(stats_of("w2").waiting == CLIENTS - 2);
    for (unsigned n = 0; n < CLIENTS; n++)
        jobs_client_end(clients[n], now, &effects);
    end();
}

/* ---- ready ----------------------------------------------------------------------------------- */

static void visit_ready(void *arg, struct bytes name, uint64_t count)
{
    (void)name;
    (void)count;
    ++*(unsigned *)arg;
}

static struct jobs_client *wait_for_ready(struct bytes pattern)
{
    static uint64_t tag = 2;
    unsigned seen = 0;
    struct jobs_client *by = jobs_client_new(jobs, tag++, NULL);
    const struct jobs_ready ready = {.pattern = pattern, .prefix = true, .limit = 1};
    ck_assert(by && jobs_list_ready(by, &ready, true, visit_ready, &seen) == JOBS_WAITS);
    return by;
}

static unsigned take_letters(void)
{
    unsigned count = 0, seen = 0;
    for (struct mail *mail; (mail = mail_list_take(&effects.letters)); count++)
        ck_assert(jobs_client_letter(jobs_client_of(mail)) &&
                  jobs_read_ready(jobs_client_of(mail), visit_ready, &seen));
    return count;
}

TEST(waits_for_other_beginnings_cost_a_put_nothing)
{
    enum { CLIENTS = 10000 };
    static struct jobs_client *clients[CLIENTS];
    begin();
    for (unsigned n = 0; n < CLIENTS; n++)
        clients[n] = wait_for_ready(numbered(n % 2 ? "a" : "zz", n));
    COSTS_LITTLE(delete (other, put(bytes_of("middle"))));
    COSTS_LITTLE(delete (other, put(bytes_of("zz"))));
    COSTS_LITTLE(delete (other, put(bytes_of("a2x"))));
    ck_assert(take_letters() == 0);
    for (unsigned n = 0; n < CLIENTS; n++)
        jobs_client_end(clients[n], now, &effects);
    end();
}

TEST(a_put_looks_at_no_more_beginnings_than_its_name_is_long)
{
    char name[JOBS_TUBE_MAX];
    struct jobs_client *clients[2 * JOBS_TUBE_MAX];
    size_t count = 0;
    begin();
    memset(name, 'm', sizeof(name));
    for (size_t n = 1; n <= JOBS_TUBE_MAX; n++) { /* each has all but its last byte in common */
        name[n - 1] = 'a';
        clients[count++] = wait_for_ready(bytes_at(name, n));
        name[n - 1] = 'z';
        clients[count++] = wait_for_ready(bytes_at(name, n));
        name[n - 1] = 'm';
    }
    uint64_t before = stats().visits;
    uint64_t id = put(bytes_at(name, sizeof(name)));
    ck_assert_uint_le(stats().visits - before, JOBS_TUBE_MAX);
    ck_assert(take_letters() == 0);
    delete (other, id);
    struct jobs_client *one = wait_for_ready(bytes_at(name, 100));
    struct jobs_client *all = wait_for_ready(bytes_at(name, 0));
    id = put(bytes_at(name, sizeof(name)));
    ck_assert(take_letters() == 2);
    delete (other, id);
    while (count > 0)
        jobs_client_end(clients[--count], now, &effects);
    jobs_client_end(one, now, &effects);
    jobs_client_end(all, now, &effects);
    end();
}

TEST(a_put_tells_some_waiting_clients_and_the_rest_follow)
{
    enum { CLIENTS = 1000 };
    struct jobs_client *clients[CLIENTS];
    begin();
    for (unsigned n = 0; n < CLIENTS; n++)
        clients[n] = wait_for_ready(bytes_of("t"));
    uint64_t id = put(bytes_of("tube"));
    unsigned told = take_letters();
    ck_assert(told > 0 && told < 100);
    delete (other, id); /* the others are not told of it */
    run();
    ck_assert(take_letters() == 0);
    (void)put(bytes_of("tube"));
    for (uint64_t before = stats().visits; run_once(); before = stats().visits)
        ck_assert_uint_le(stats().visits - before, 1000);
    ck_assert(told + take_letters() == CLIENTS);
    for (unsigned n = 0; n < CLIENTS; n++)
        jobs_client_end(clients[n], now, &effects);
    end();
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* A client that has much. */
static void burden(unsigned watches, unsigned reservations, uint64_t *ids)
{
    watch(client, watches);
    for (unsigned n = 0; n < reservations; n++)
        ids[n] = put(bytes_of("t"));
    uint32_t count;
    ck_assert(jobs_watch(client, bytes_of("t"), &count) == JOBS_OK);
    for (unsigned n = 0; n < reservations; n++)
        ck_assert(reserve(client) == ids[n]);
}

TEST(a_client_ends_in_steps)
{
    enum { WATCHES = 5000, RESERVED = 3000 };
    static uint64_t ids[RESERVED];
    begin();
    uint64_t memory = stats().memory;
    burden(WATCHES, RESERVED, ids);
    wait_for_job(client);
    uint64_t before = stats().visits, seen = 0;
    jobs_client_end(client, now, &effects);
    ck_assert_uint_le(stats().visits - before, JOBS_END_STEP + FEW_STEPS);
    /* The wait is gone, and reservations are, in order. */
    uint64_t id = put(numbered("w", 7));
    ck_assert(effects.letters.first == NULL);
    delete (other, id);
    ck_assert(stats().waiting == 0 && stats().states[JOB_READY] == JOBS_END_STEP);
    unsigned steps = 0;
    for (before = stats().visits; run_once(); before = stats().visits, steps++) {
        ck_assert_uint_le(stats().visits - before, JOBS_STEP);
        jobs_check(jobs, now);
        ck_assert(stats().states[JOB_READY] >= seen);
        seen = stats().states[JOB_READY];
        ck_assert(stats().states[JOB_RESERVED] == RESERVED - seen);
    }
    ck_assert(steps > 5 && seen == RESERVED);
    for (unsigned n = 0; n < RESERVED; n++)
        delete (other, ids[n]);
    ck_assert(stats().tubes == 1 && stats().memory < memory);
    client = jobs_client_new(jobs, 0, NULL);
    ck_assert(client && stats().memory == memory);
    end();
}

TEST(an_upgrade_finishes_ends)
{
    enum { RESERVED = 2500 };
    static uint64_t ids[RESERVED];
    uint32_t count;
    begin();
    burden(1500, RESERVED, ids);
    jobs_client_end(client, now, &effects);
    ck_assert(jobs_finish_ends(jobs, now) && !jobs_finish_ends(jobs, now));
    ck_assert(stats().states[JOB_RESERVED] == 0 && stats().states[JOB_READY] == RESERVED);
    ck_assert(stats().tubes == 2 && effects.letters.first == NULL);
    jobs_check(jobs, now);
    ck_assert(jobs_watch(other, bytes_of("t"), &count) == JOBS_OK && reserve(other) == ids[0]);
    client = jobs_client_new(jobs, 0, NULL);
    ck_assert(client != NULL);
    end();
}

TEST(ends_under_way_are_freed)
{
    static uint64_t ids[1500];
    begin();
    burden(1500, 1500, ids);
    end_clients();
    jobs_free(&jobs);
}

/* ---- batches --------------------------------------------------------------------------------- */

/* A batch's job has a key and a root, which may have its number modulo something, or a part of it.
 */
struct names {
    const char *key, *root;
    unsigned key_modulus, root_divisor, root_modulus;
    bool newer; /* each root makes the one before stale */
    unsigned duplicates;
};

/* Puts a batch, whose jobs look at a few others each. */
static void put_batch(const struct names *names)
{
    enum { BATCH = 1000 };
    static struct job_put puts[BATCH];
    static struct job_duplicate duplicates[BATCH];
    static char keys[BATCH][32], roots[BATCH][32];
    unsigned count = 0;
    size_t failed;
    uint64_t before = stats().visits;
    for (unsigned n = 0; n < BATCH; n++) {
        snprintf(keys[n], 32, "%s%u", names->key, n % names->key_modulus);
        snprintf(roots[n], 32, "%s%u", names->root, n / names->root_divisor % names->root_modulus);
        puts[n] = (struct job_put){.tube = bytes_of("t"),
                                   .id = jobs_take_id(jobs),
                                   .ttr_s = 60,
                                   .tries = JOB_TRIES_OF_TUBE,
                                   .key = bytes_of(keys[n]),
                                   .root = bytes_of(*names->root ? roots[n] : ""),
                                   .root_ms = names->newer ? n + 1 : 0,
                                   .body = job_body_new(jobs, JOBS_PUTS, 0),
                                   .duplicate_r = &duplicates[n]};
    }
    ck_assert(jobs_put_all(client, puts, BATCH, &failed, now, &effects) == JOBS_OK);
    for (unsigned n = 0; n < BATCH; n++)
        count += duplicates[n].is;
    ck_assert_uint_eq(count, names->duplicates);
    ck_assert(stats().visits - before <= 8 * BATCH);
}

TEST(puts_of_a_batch_look_at_few_others)
{
    static const struct names rows[] = {
        {"same", "root", 1, 1, 1000, false, 0},
        {"turn", "newer", 2, 1, 1, true, 0},
        {"key", "some", 20, 20, 20, false, 600},
        {"same", "", 1, 1, 1, false, 999},
        {"same", "", 1, 1, 1, false, 1000},
        {"same", "root", 1, 1, 1000, false, 1000}, /* one of no root is there */
    };
    begin();
    for (size_t n = 0; n < ARRAY_SIZE(rows); n++)
        put_batch(&rows[n]);
    end();
}

UNIT_MAIN("jobs/watch")
