/*
 * jobs_test.c - rules of the jobs that are easy to break, each in a few calls. The model test
 * (t/models/jobs_test.c) has all of them, in any order.
 */
#include "jobs/jobs.h"
#include "jobs/jobs_internal.h"
#include "jobs/jobs_state.h"
#include "t/models/jobs_check.h"
#include "t/unit/jobs/submit.h"
#include "t/unit/random.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A job, with its share of the table of ids and the head of its body. */
_Static_assert(sizeof(struct job) + 12 + sizeof(struct job_body) <= 160, "a job costs too much");

/* ---- two clients, and short words for what they do ------------------------------------------- */

static struct jobs *jobs;
static struct jobs_client *client, *other;
static struct jobs_outbox outbox;
static struct moment now;

static struct jobs *new_jobs(void)
{
    const struct jobs_config config = {.memory_limit = UINT64_MAX,
                                       .defaults = job_default_settings};
    struct jobs *made = jobs_new(&config);
    ck_assert(made != NULL);
    return made;
}

static void begin(void)
{
    now = (struct moment){.mono_ns = NS_PER_S, .unix_s = 1000};
    jobs = new_jobs();
    jobs_outbox_init(&outbox);
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
    jobs_run(jobs, now, &outbox);
    return true;
}

static void run(void)
{
    while (run_once())
        continue;
}

static void end_clients(void)
{
    jobs_client_end(client, now, &outbox);
    jobs_client_end(other, now, &outbox);
}

static void end(void)
{
    jobs_check(jobs, now);
    end_clients();
    run();
    jobs_check(jobs, now);
    jobs_free(&jobs);
}

static struct bytes numbered(const char *before, unsigned number)
{
    static char name[JOBS_TUBE_MAX];
    int len = snprintf(name, sizeof(name), "%s%u", before, number);
    return bytes_at(name, (size_t)len);
}

static uint64_t put_with(struct bytes tube, uint64_t id, uint32_t pri, uint32_t delay_s)
{
    struct job_put put = {.tube = tube,
                          .id = id,
                          .pri = pri,
                          .delay_s = delay_s,
                          .ttr_s = 100,
                          .tries = JOB_TRIES_OF_TUBE,
                          .body = job_body_new(jobs, JOBS_PUTS, 0)};
    ck_assert(put.body && submit_puts(jobs, other, &put, 1, now, &outbox) == JOBS_OK);
    return put.id;
}

static uint64_t put(struct bytes tube)
{
    return put_with(tube, jobs_take_ids(jobs, 1), 0, 0);
}

static uint64_t put_t(uint32_t delay_s)
{
    return put_with(bytes_of("t"), jobs_take_ids(jobs, 1), 0, delay_s);
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

/* The client has a message with this job. */
static void hears(struct jobs_client *which, uint64_t id)
{
    struct mail *mail = mail_list_take(&outbox.messages);
    struct job_view view;
    ck_assert(mail && jobs_client_of(mail) == which && jobs_client_message(which));
    ck_assert(jobs_read(which, &view) && view.id == id);
    job_body_drop(jobs, &view.body);
}

static void watch(struct jobs_client *by, unsigned count)
{
    uint32_t watched;
    for (unsigned n = 0; n < count; n++)
        ck_assert(jobs_watch(by, numbered("w", n), &watched) == JOBS_OK);
}

static struct jobs_stats stats(void)
{
    struct jobs_stats s;
    jobs_get_stats(jobs, &s);
    return s;
}

static struct tube_stats stats_of(const char *tube)
{
    struct tube_stats s;
    ck_assert(jobs_stats_tube(jobs, bytes_of(tube), now, &s) == JOBS_OK);
    return s;
}

/* ---- upgrades -------------------------------------------------------------------------------- */

static struct record_writer writer;

static void map_record(struct record_reader *r, int fd)
{
    ck_assert(record_finish(&writer) && record_map(r, fd));
    ck_assert(close(fd) == 0);
}

static int begin_record(void)
{
    int fd = memfd_create("jobs", MFD_CLOEXEC);
    ck_assert(fd >= 0);
    record_writer_init(&writer, fd);
    return fd;
}

/* Jobs as the next process has them. */
static void upgrade(void)
{
    struct record_reader r, section;
    uint32_t kind;
    int fd = begin_record();
    jobs_save(jobs, &writer);
    jobs_free(&jobs);
    jobs = new_jobs();
    map_record(&r, fd);
    ck_assert(record_enter(&r, &kind, &section) && kind == JOBS_STATE);
    ck_assert(jobs_restore(jobs, kind, &section));
    while (record_enter(&r, &kind, &section))
        ck_assert(jobs_restore(jobs, kind, &section));
    ck_assert(jobs_restore_done(jobs, &r));
    record_unmap(&r);
}

/* ---- trees, tables --------------------------------------------------------------------------- */

/* Recursive. */
static unsigned depth_of(uint32_t at)
{
    if (at == JOB_NONE)
        return 0;
    const struct job *job = job_at(jobs, at);
    unsigned left = depth_of(job->by_id.left), right = depth_of(job->by_id.right);
    return 1 + (left > right ? left : right);
}

TEST(a_tree_of_many_jobs_is_not_deep)
{
    begin();
    for (unsigned n = 0; n < 4000; n++)
        (void)put_t(0);
    const struct tube *tube = tube_find(jobs, bytes_of("t"));
    ck_assert_uint_lt(depth_of(tube->by_id[JOB_READY].root), 60); /* about 28 */
    end();
}

TEST(the_table_of_tubes_grows_with_them)
{
    enum { TUBES = 5000 };
    begin();
    for (unsigned n = 0; n < TUBES; n++)
        (void)put(numbered("t", n));
    ck_assert_uint_ge(jobs->tube_mask, TUBES / 2);
    for (unsigned n = 0; n < TUBES; n++)
        ck_assert(tube_find(jobs, numbered("t", n)) != NULL);
    end();
}

/* ---- clears ---------------------------------------------------------------------------------- */

#define CLEARED 2500u

static enum jobs_status step(struct jobs_clear *clear, unsigned state)
{
    return submit_clear(jobs, bytes_of("t"), state, clear, now);
}

/* Makes the steps that are left. */
static uint64_t finish(struct jobs_clear *clear, unsigned state)
{
    enum jobs_status status;
    while ((status = step(clear, state)) == JOBS_WAITS)
        continue;
    ck_assert(status == JOBS_OK);
    jobs_check(jobs, now);
    return clear->deleted;
}

/* JOB_STATES: it is not there. */
static unsigned state_of(uint64_t id)
{
    struct job_stats s = {.state = JOB_STATES};
    (void)!jobs_stats_job(jobs, id, now, &s);
    return s.state;
}

static void reserve_id(uint64_t id)
{
    const struct job_act act = {.verb = JOB_RESERVE, .client = client, .id = id};
    struct job_view view;
    ck_assert(submit_act(jobs, act, &view, now, &outbox) == JOBS_OK);
    job_body_drop(jobs, &view.body);
}

static void release(uint64_t id)
{
    const struct job_act act = {.verb = JOB_RELEASE, .client = client, .id = id};
    ck_assert(submit_act(jobs, act, NULL, now, &outbox) == JOBS_OK);
}

/* Puts so many, and returns the last. */
static uint64_t put_many_t(unsigned count, uint32_t delay_s)
{
    uint64_t last = 0;
    while (count-- > 0)
        last = put_t(delay_s);
    return last;
}

TEST(clears_are_counted_anew)
{
    struct jobs_clear clear = {.deleted = 0}, next = {.deleted = 0}, given_up = {.deleted = 0};
    begin();
    jobs->clears = CLEARS_MAX - 2;
    (void)put_many_t(2 * CLEARED, 0);
    ck_assert(step(&given_up, JOB_READY) == JOBS_WAITS);
    ck_assert(step(&clear, JOB_READY) == JOBS_WAITS);
    uint64_t late = put_t(0);
    ck_assert(step(&next, JOB_READY) == JOBS_WAITS && jobs->clears == 1);
    jobs_clear_end(jobs, &given_up);
    ck_assert(step(&clear, JOB_READY) == JOBS_NO_MEMORY); /* rather than too many, or too few */
    uint64_t later = put_t(0);
    ck_assert(finish(&next, JOB_READY) == 2 * CLEARED - 2000 + 1);
    ck_assert(state_of(late) == JOB_STATES && state_of(later) == JOB_READY);
    end();
}

TEST(an_upgrade_goes_on_with_a_clear)
{
    struct jobs_clear clear = {.deleted = 0}, given_up = {.deleted = 0};
    begin();
    jobs->defaults.is[JOB_SETTING_CLAIM] = JOB_CLAIM_LEASE; /* reservations outlast their clients */
    jobs->clears = CLEARS_MAX - 2;
    uint64_t back = put_many_t(CLEARED, 0);
    for (unsigned n = 0; n < CLEARED; n++)
        (void)put(bytes_of("u"));
    ck_assert(step(&clear, JOB_READY) == JOBS_WAITS);
    uint64_t late = put_t(0);
    reserve_id(back);
    release(back);
    for (unsigned n = 0; n < 2; n++)
        reserve_id(put_t(0));
    ck_assert(submit_clear(jobs, bytes_of("u"), JOB_READY, &given_up, now) == JOBS_WAITS);
    jobs_clear_end(jobs, &given_up);
    struct jobs_clear saved = {.deleted = clear.deleted,
                               .tube = clear.tube,
                               .before_id = clear.before_id,
                               .number = clear.number,
                               .begun = true};
    ring_remove(&clear.running);
    ring_add(&jobs->clearing, &saved.running);
    end_clients();
    atomic_store(&jobs->next_id, (uint64_t)INT64_MAX / 2); /* the greatest one */
    for (unsigned n = 0; n < 2; n++) {                     /* another one before its next step */
        upgrade();
        ck_assert(stats_of("t").states[JOB_READY] == CLEARED - clear.deleted + 1);
        memset(&saved.running, 0, sizeof(saved.running));
        jobs_clear_restored(jobs, &saved);
    }
    ck_assert(finish(&saved, JOB_READY) == CLEARED - 1);
    ck_assert(state_of(late) == JOB_READY && state_of(back) == JOB_READY);
    ck_assert(stats_of("u").states[JOB_READY] == CLEARED - 1000);
    jobs_free(&jobs);
}

TEST(a_restored_wait_for_no_tube_is_refused)
{
    const struct jobs_ready none = {.limit = 1};
    struct record_reader r, section;
    uint32_t kind;
    begin();
    int fd = begin_record();
    ck_assert(jobs_list_ready(client, &none, true, NULL, NULL) == JOBS_WAITS);
    record_begin(&writer, 1);
    jobs_client_save(client, &writer);
    record_end(&writer);
    map_record(&r, fd);
    ck_assert(record_enter(&r, &kind, &section));
    ck_assert(jobs_client_restore(jobs, 0, NULL, &section) == NULL);
    record_unmap(&r);
    ck_assert(jobs_end_wait(client));
    end();
}

/* ---- answers and lines ----------------------------------------------------------------------- */

TEST(a_body_that_was_read_for_an_answer_counts_until_the_output_has_it)
{
    begin();
    uint64_t empty = stats().memory;
    struct job_body *body = job_body_new(jobs, JOBS_PUTS, 5000);
    ck_assert(body != NULL && stats().memory > empty + 5000);
    const uint8_t *unread = job_body_to_output(jobs, &body);
    ck_assert(body == NULL && stats().memory == empty);
    job_body_written(unread);
    ck_assert_uint_eq(stats().memory, empty);
    end();
}

TEST(a_tube_serves_its_line_in_steps)
{
    enum { CLIENTS = JOBS_STEP + 300 };
    static struct jobs_client *clients[CLIENTS];
    struct bytes tube = bytes_of("default");
    struct job_view view;
    begin();
    ck_assert(submit_pause(jobs, tube, 9, now, &outbox) == JOBS_OK);
    for (unsigned n = 0; n < CLIENTS; n++) {
        (void)put(tube);
        clients[n] = jobs_client_new(jobs, 1, NULL);
        wait_for_job(clients[n]);
    }
    ck_assert(submit_pause(jobs, tube, 0, now, &outbox) == JOBS_OK);
    ck_assert(stats().waiting == CLIENTS - JOBS_STEP && stats().steps == 1);
    for (uint64_t before; (before = stats().waiting) > 0;) {
        jobs_run(jobs, now, &outbox);
        ck_assert(stats().waiting < before && before - stats().waiting <= 256);
    }
    for (unsigned n = 0; n < CLIENTS; n++) {
        ck_assert(jobs_client_message(clients[n]) && jobs_read(clients[n], &view));
        job_body_drop(jobs, &view.body);
        jobs_client_end(clients[n], now, &outbox);
    }
    end();
}

/* ---- watches, ends, batches: visits are counted ---------------------------------------------- */

enum { FEW_VISITS = 12 };

static uint64_t claim(void)
{
    const struct job_claim_request request = {.count = 1, .answer_max = SIZE_MAX};
    char reason[JOBS_READ_ONLY_MAX + 1];
    struct job_view view;
    size_t count;
    ck_assert(jobs_claim(client, &request, &view, &count, reason, now) == JOBS_OK);
    job_body_drop(jobs, &view.body);
    return view.id;
}

TEST(a_reserve_looks_at_few_of_many_tubes_with_jobs)
{
    enum { TUBES = 3000 };
    begin();
    watch(client, TUBES);
    for (unsigned n = 0; n < TUBES; n++)
        (void)put(numbered("w", n));
    ck_assert(reserve(client) == 1);
    for (unsigned n = 2; n <= TUBES; n++) {
        uint64_t before = stats().visits;
        ck_assert((n < TUBES / 2 ? reserve(client) : claim()) == n);
        ck_assert_uint_le(stats().visits - before, FEW_VISITS);
    }
    end();
}

TEST(the_longest_wait_is_found_among_many)
{
    enum { CLIENTS = 300, FIRST = 10 };
    struct jobs_client *clients[CLIENTS];
    begin();
    for (unsigned n = 0; n < CLIENTS; n++) {
        ck_assert((clients[n] = jobs_client_new(jobs, 2 + n, NULL)) != NULL);
        watch(clients[n], JOBS_MANY_WATCHES + n % 2); /* some watch few tubes */
        wait_for_job(clients[n]);
    }
    hears(clients[0], put(numbered("w", 1)));
    for (unsigned n = 0; n < FIRST; n++) { /* these begin anew */
        ck_assert(n == 0 || jobs_end_wait(clients[n]));
        wait_for_job(clients[n]);
    }
    ck_assert(stats_of("w1").waiting == CLIENTS);
    for (unsigned n = 0; n < 2; n++) {
        uint64_t before = stats().visits;
        hears(clients[FIRST + n], put(numbered("w", 1)));
        ck_assert_uint_le(stats().visits - before, (n == 0 ? FIRST : 0) + FEW_VISITS);
    }
    ck_assert(stats_of("w2").waiting == CLIENTS - 2);
    for (unsigned n = 0; n < CLIENTS; n++)
        jobs_client_end(clients[n], now, &outbox);
    end();
}

TEST(ends_under_way_go_on_are_finished_before_an_upgrade_or_freed)
{
    enum { MANY = 1500 };
    uint64_t ids[MANY];
    for (unsigned finished = 0; finished < 3; finished++) {
        begin();
        watch(client, MANY);
        for (unsigned n = 0; n < MANY; n++) {
            ids[n] = put(numbered("w", 7));
            ck_assert(reserve(client) == ids[n]);
        }
        if (finished) {
            jobs_client_end(client, now, &outbox);
            ck_assert(finished == 2 || jobs_finish_ends(jobs, now));
            run();
            ck_assert(!jobs_finish_ends(jobs, now));
            ck_assert(stats().states[JOB_RESERVED] == 0 && stats().states[JOB_READY] == MANY);
            ck_assert(stats().tubes == 2 && outbox.messages.first == NULL);
            jobs_check(jobs, now);
            watch(other, 8);
            ck_assert(reserve(other) == ids[0]);
            ck_assert((client = jobs_client_new(jobs, 0, NULL)) != NULL);
        }
        end_clients();
        jobs_free(&jobs);
    }
}

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
    uint64_t before = stats().visits;
    for (unsigned n = 0; n < BATCH; n++) {
        snprintf(keys[n], 32, "%s%u", names->key, n % names->key_modulus);
        snprintf(roots[n], 32, "%s%u", names->root, n / names->root_divisor % names->root_modulus);
        puts[n] = (struct job_put){.tube = bytes_of("t"),
                                   .id = jobs_take_ids(jobs, 1),
                                   .ttr_s = 60,
                                   .tries = JOB_TRIES_OF_TUBE,
                                   .key = bytes_of(keys[n]),
                                   .root = bytes_of(*names->root ? roots[n] : ""),
                                   .root_ms = names->newer ? n + 1 : 0,
                                   .body = job_body_new(jobs, JOBS_PUTS, 0),
                                   .duplicate_r = &duplicates[n]};
    }
    ck_assert(submit_puts(jobs, client, puts, BATCH, now, &outbox) == JOBS_OK);
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

UNIT_MAIN("jobs/jobs")
