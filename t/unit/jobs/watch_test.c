/*
 * watch_test.c - what clients with many watches, waits, reservations and keys cost others. Steps
 * are counted (struct jobs_stats), not time. The model test (t/models/jobs_test.c) has which client
 * gets which job.
 */
#include "jobs/jobs.h"
#include "jobs/jobs_inside.h"
#include "t/unit/random.h"

#include <stdio.h>
#include <string.h>

enum { MANY = 27000, FEW_STEPS = 12 };

static struct jobs *jobs;
static struct jobs_client *client, *other;
static struct jobs_effects effects;
static struct moment now;

static void begin(void)
{
    const struct jobs_config config = {.memory_limit = UINT64_MAX,
                                       .defaults = job_default_settings};
    now = (struct moment){.mono_ns = NS_PER_S, .unix_s = 1000};
    jobs = jobs_new(&config);
    ck_assert(jobs != NULL);
    jobs_effects_init(&effects);
    client = jobs_client_new(jobs, 0, NULL);
    other = jobs_client_new(jobs, 1, NULL);
    ck_assert(client && other);
}

/* Does what is due now. */
static bool run_once(void)
{
    if (jobs_next_ns(jobs) > now.mono_ns + 1)
        return false;
    now.mono_ns++;
    jobs_run(jobs, now, &effects);
    return true;
}

static void run(void)
{
    while (run_once())
        continue;
}

static void end(void)
{
    jobs_check(jobs, now);
    jobs_client_end(client, now, &effects);
    jobs_client_end(other, now, &effects);
    run();
    jobs_check(jobs, now);
    jobs_free(&jobs);
}

static uint64_t visits(void)
{
    struct jobs_stats stats;
    jobs_get_stats(jobs, &stats);
    return stats.visits;
}

static struct bytes numbered(const char *before, unsigned number)
{
    static char name[JOBS_TUBE_MAX];
    int len = snprintf(name, sizeof(name), "%s%u", before, number);
    return bytes_at(name, (size_t)len);
}

static uint64_t put_pri(struct bytes tube, uint32_t pri)
{
    struct job_put put = {.tube = tube,
                          .id = jobs_take_id(jobs),
                          .pri = pri,
                          .ttr_s = 100,
                          .tries = JOB_TRIES_OF_TUBE,
                          .body = job_body_new(jobs, JOBS_PUTS, 0)};
    ck_assert(put.body != NULL);
    ck_assert(jobs_put(other, &put, now, &effects) == JOBS_OK);
    return put.id;
}

static uint64_t put(struct bytes tube)
{
    return put_pri(tube, 0);
}

/* 0: there is none. */
static uint64_t reserve(struct jobs_client *by)
{
    struct job_view view;
    if (jobs_reserve(by, 0, &view, now) != JOBS_OK)
        return 0;
    job_body_drop(jobs, &view.body);
    return view.id;
}

static void wait_for_job(struct jobs_client *by)
{
    struct job_view view;
    ck_assert(jobs_reserve(by, JOBS_FOREVER, &view, now) == JOBS_WAITS);
}

static uint64_t claim(struct jobs_client *by)
{
    const struct job_claim_request request = {.count = 1, .answer_max = SIZE_MAX};
    char reason[JOBS_READ_ONLY_MAX + 1];
    struct job_view view;
    size_t count;
    if (jobs_claim(by, &request, &view, &count, reason, now) != JOBS_OK)
        return 0;
    job_body_drop(jobs, &view.body);
    return view.id;
}

/* The client has a letter with this job. */
static void hears(struct jobs_client *which, uint64_t id)
{
    struct mail *mail = mail_list_take(&effects.letters);
    struct job_view view;
    ck_assert(mail && jobs_client_of(mail) == which && jobs_client_letter(which));
    ck_assert(jobs_read(which, &view) && view.id == id);
    job_body_drop(jobs, &view.body);
}

static void delete (struct jobs_client *by, uint64_t id)
{
    ck_assert(jobs_delete(by, id, now) == JOBS_OK);
}

static void watch(struct jobs_client *by, unsigned count)
{
    uint32_t watched;
    for (unsigned n = 0; n < count; n++)
        ck_assert(jobs_watch(by, numbered("w", n), &watched) == JOBS_OK);
}

#define COSTS_LITTLE(...)                                                                          \
    do {                                                                                           \
        uint64_t visits_before = visits();                                                         \
        __VA_ARGS__;                                                                               \
        ck_assert_uint_le(visits() - visits_before, FEW_STEPS);                                    \
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
        ids[n] = put_pri(numbered("w", n), TUBES - n);
    ck_assert(reserve(client) == ids[TUBES - 1]);
    for (unsigned n = TUBES - 1; n > 2 * TUBES / 3; n--)
        COSTS_LITTLE(ck_assert(reserve(client) == ids[n - 1]));
    COSTS_LITTLE(late = put_pri(numbered("w", 3), 0));
    COSTS_LITTLE(ck_assert(reserve(client) == late));
    unsigned turn = 4; /* the turn after the tube that served last */
    for (; turn < TUBES / 3; turn++)
        COSTS_LITTLE(ck_assert(claim(client) == ids[turn]));
    /* Each tube that others have emptied is visited once. */
    for (; turn < TUBES / 2; turn++)
        delete (other, ids[turn]);
    uint64_t before = visits();
    ck_assert(claim(client) == ids[turn]);
    ck_assert_uint_le(visits() - before, 4 * (TUBES / 2 - TUBES / 3) + FEW_STEPS);
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
    struct tube_stats stats;
    ck_assert(jobs_stats_tube(jobs, numbered("w", 1), now, &stats) == JOBS_OK);
    ck_assert(stats.waiting == CLIENTS);
    uint64_t before = visits();
    hears(clients[FIRST], put(numbered("w", 1)));
    ck_assert_uint_le(visits() - before, FIRST + FEW_STEPS);
    uint64_t id;
    COSTS_LITTLE(id = put(numbered("w", 1)));
    hears(clients[FIRST + 1], id);
    ck_assert(jobs_stats_tube(jobs, numbered("w", 2), now, &stats) == JOBS_OK);
    ck_assert(stats.waiting == CLIENTS - 2);
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
    uint64_t before = visits();
    uint64_t id = put(bytes_at(name, sizeof(name)));
    ck_assert_uint_le(visits() - before, JOBS_TUBE_MAX);
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
    for (uint64_t before = visits(); run_once(); before = visits())
        ck_assert_uint_le(visits() - before, 1000);
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
    struct jobs_stats stats;
    struct tube_stats tube;
    begin();
    jobs_get_stats(jobs, &stats);
    uint64_t memory = stats.memory;
    burden(WATCHES, RESERVED, ids);
    wait_for_job(client);
    uint64_t before = visits(), seen = 0;
    jobs_client_end(client, now, &effects);
    ck_assert_uint_le(visits() - before, JOBS_END_STEP + FEW_STEPS);
    /* The wait is gone, and reservations are, in order. */
    uint64_t id = put(numbered("w", 7));
    ck_assert(effects.letters.first == NULL);
    delete (other, id);
    jobs_get_stats(jobs, &stats);
    ck_assert(stats.waiting == 0 && stats.states[JOB_READY] == JOBS_END_STEP);
    unsigned steps = 0;
    for (before = visits(); run_once(); before = visits(), steps++) {
        ck_assert_uint_le(visits() - before, JOBS_STEP);
        jobs_check(jobs, now);
        jobs_get_stats(jobs, &stats);
        ck_assert(stats.states[JOB_READY] >= seen);
        seen = stats.states[JOB_READY];
        ck_assert(seen == RESERVED ||
                  (jobs_stats_tube(jobs, bytes_of("t"), now, &tube) == JOBS_OK &&
                   tube.states[JOB_RESERVED] == RESERVED - seen));
    }
    ck_assert(steps > 5 && seen == RESERVED);
    for (unsigned n = 0; n < RESERVED; n++)
        delete (other, ids[n]);
    jobs_get_stats(jobs, &stats);
    ck_assert(stats.tubes == 1 && stats.memory < memory);
    client = jobs_client_new(jobs, 0, NULL);
    jobs_get_stats(jobs, &stats);
    ck_assert(client && stats.memory == memory);
    end();
}

TEST(an_upgrade_finishes_ends)
{
    enum { RESERVED = 2500 };
    static uint64_t ids[RESERVED];
    struct jobs_stats stats;
    uint32_t count;
    begin();
    burden(1500, RESERVED, ids);
    jobs_client_end(client, now, &effects);
    ck_assert(jobs_finish_ends(jobs, now) && !jobs_finish_ends(jobs, now));
    jobs_get_stats(jobs, &stats);
    ck_assert(stats.states[JOB_RESERVED] == 0 && stats.states[JOB_READY] == RESERVED);
    ck_assert(stats.tubes == 2 && effects.letters.first == NULL);
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
    jobs_client_end(client, now, &effects);
    jobs_client_end(other, now, &effects);
    jobs_free(&jobs);
}

/* Puts a batch of jobs whose keys and roots a number says. Returns how many were duplicates; they
 * have looked at a few others each. */
static unsigned put_many(void (*say)(unsigned n, struct job_put *put, char key[32], char root[32]))
{
    enum { BATCH = 1000 };
    static struct job_put puts[BATCH];
    static struct job_duplicate duplicates[BATCH];
    static char keys[BATCH][32], roots[BATCH][32];
    struct jobs_stats before, after;
    unsigned count = 0;
    size_t failed;
    jobs_get_stats(jobs, &before);
    for (unsigned n = 0; n < BATCH; n++) {
        puts[n] = (struct job_put){.tube = bytes_of("t"),
                                   .id = jobs_take_id(jobs),
                                   .ttr_s = 60,
                                   .tries = JOB_TRIES_OF_TUBE};
        say(n, &puts[n], keys[n], roots[n]);
        puts[n].key = bytes_of(keys[n]);
        puts[n].root = bytes_of(roots[n]);
        puts[n].body = job_body_new(jobs, JOBS_PUTS, 0);
        puts[n].duplicate_r = &duplicates[n];
    }
    ck_assert(jobs_put_all(client, puts, BATCH, &failed, now, &effects) == JOBS_OK);
    for (unsigned n = 0; n < BATCH; n++)
        count += duplicates[n].is;
    jobs_get_stats(jobs, &after);
    ck_assert(after.visits - before.visits <= 8 * BATCH);
    return count;
}

static void say_same(unsigned n, struct job_put *put, char key[32], char root[32])
{
    (void)n, (void)put;
    strcpy(key, "same");
    *root = '\0';
}

static void say_roots(unsigned n, struct job_put *put, char key[32], char root[32])
{
    say_same(n, put, key, root);
    snprintf(root, 32, "root%u", n);
}

static void say_newer(unsigned n, struct job_put *put, char key[32], char root[32])
{
    snprintf(key, 32, "turn%u", n % 2);
    strcpy(root, "newer"); /* makes the one before stale */
    put->root_ms = n + 1;
}

static void say_some(unsigned n, struct job_put *put, char key[32], char root[32])
{
    (void)put;
    snprintf(key, 32, "key%u", n % 20);
    snprintf(root, 32, "some%u", n / 20 % 20);
}

TEST(puts_of_a_batch_look_at_few_others)
{
    begin();
    ck_assert(put_many(say_roots) == 0);
    ck_assert(put_many(say_newer) == 0);
    ck_assert(put_many(say_some) == 600);
    ck_assert(put_many(say_same) == 999);
    ck_assert(put_many(say_same) == 1000);
    ck_assert(put_many(say_roots) == 1000); /* one of no root is there */
    end();
}

UNIT_MAIN("jobs/watch")
