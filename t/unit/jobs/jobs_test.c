/*
 * jobs_test.c - rules of the jobs that are easy to break, each in a few calls. The model test
 * (t/models/jobs_test.c) has all of them, in any order.
 */
#include "jobs/jobs.h"
#include "jobs/jobs_inside.h"
#include "jobs/jobs_state.h"
#include "t/unit/random.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A job, with its share of the table of ids and the head of its body. */
_Static_assert(sizeof(struct job) + 12 + sizeof(struct job_body) <= 160, "a job costs too much");

static struct jobs *jobs;
static struct jobs_client *client;
static struct jobs_effects effects;
static struct moment now;
static int64_t wall_ms; /* 0: as `now` says */

static int64_t read_wall(void)
{
    return wall_ms;
}

static struct jobs *new_jobs(void)
{
    struct jobs_config config = {.memory_limit = UINT64_MAX,
                                 .defaults = job_default_settings,
                                 .wall_ms = wall_ms ? read_wall : NULL};
    struct jobs *made = jobs_new(&config);
    ck_assert(made != NULL);
    return made;
}

static void begin(void)
{
    now = (struct moment){.mono_ns = NS_PER_S, .unix_s = 1000};
    jobs = new_jobs();
    jobs_effects_init(&effects);
    client = jobs_client_new(jobs, 0, NULL);
    ck_assert(client != NULL);
}

static void end(void)
{
    jobs_client_end(client, now, &effects);
    jobs_free(&jobs);
}

static uint64_t put_id(const char *tube, uint64_t id, uint32_t delay_s)
{
    struct job_put put = {.tube = bytes_of(tube),
                          .id = id,
                          .delay_s = delay_s,
                          .ttr_s = 10,
                          .tries = JOB_TRIES_OF_TUBE,
                          .body = job_body_new(jobs, JOBS_PUTS, 0)};
    ck_assert(put.body != NULL);
    ck_assert(jobs_put(client, &put, now, &effects) == JOBS_OK);
    return put.id;
}

static uint64_t put(const char *tube, uint32_t delay_s)
{
    return put_id(tube, jobs_take_id(jobs), delay_s);
}

static void set(const char *tube, struct job_settings settings, enum job_setting which)
{
    settings.given = 1u << which;
    ck_assert(jobs_set_tube(jobs, bytes_of(tube), &settings, now, &effects) == JOBS_OK);
}

static void set_tries(const char *tube, uint32_t tries)
{
    set(tube, (struct job_settings){.tries = tries}, JOB_SETTING_TRIES);
}

static enum job_state state_of(uint64_t id)
{
    struct job_stats stats;
    ck_assert(jobs_stats_job(jobs, id, now, &stats) == JOBS_OK);
    return stats.state;
}

static struct tube_stats stats_of(const char *tube)
{
    struct tube_stats stats;
    ck_assert(jobs_stats_tube(jobs, bytes_of(tube), now, &stats) == JOBS_OK);
    return stats;
}

static struct record_writer writer;

/* Jobs as the next process has them. */
static void upgrade(void)
{
    struct record_reader r, section;
    uint32_t kind;
    int fd = memfd_create("jobs", MFD_CLOEXEC);
    ck_assert(fd >= 0);
    record_writer_init(&writer, fd);
    jobs_save(jobs, &writer);
    jobs_free(&jobs);
    jobs = new_jobs();
    ck_assert(record_finish(&writer) && record_map(&r, fd));
    ck_assert(record_enter(&r, &kind, &section) && kind == JOBS_STATE);
    ck_assert(jobs_restore(jobs, &section));
    while (record_enter(&r, &kind, &section)) {
        if (kind == JOBS_CLEARS)
            ck_assert(jobs_restore_clears(jobs, &section));
        if (kind == JOBS_PUT_TIMES)
            ck_assert(jobs_restore_put_times(jobs, &section));
    }
    ck_assert(jobs_restore_done(jobs, &r));
    record_unmap(&r);
    ck_assert(close(fd) == 0);
}

TEST(an_upgrade_keeps_the_first_tube_when_nobody_is_connected)
{
    begin();
    set_tries("default", 3);
    jobs_client_end(client, now, &effects);
    upgrade();
    ck_assert(stats_of("default").settings.tries == 3);
    jobs_free(&jobs);
}

TEST(a_tube_serves_its_line_in_steps)
{
    enum { CLIENTS = JOBS_STEP + 300 };
    static struct jobs_client *clients[CLIENTS];
    struct jobs_stats stats;
    struct job_view view;
    begin();
    (void)put("default", 0);
    ck_assert(jobs_pause(jobs, bytes_of("default"), 9, now, &effects) == JOBS_OK);
    for (unsigned n = 0; n < CLIENTS; n++) {
        (void)put("default", 0);
        clients[n] = jobs_client_new(jobs, 1, NULL);
        ck_assert(clients[n] && jobs_reserve(clients[n], 1, &view, now) == JOBS_WAITS);
    }
    ck_assert(jobs_pause(jobs, bytes_of("default"), 0, now, &effects) == JOBS_OK);
    jobs_get_stats(jobs, &stats);
    ck_assert(stats.waiting == CLIENTS - JOBS_STEP && stats.steps == 1);
    (void)put("default", 0); /* the tube has its next step to come */
    jobs_get_stats(jobs, &stats);
    ck_assert(stats.waiting == CLIENTS - JOBS_STEP);
    for (unsigned n = 0; stats.waiting > 0 && n < 10; n++) {
        uint64_t before = stats.waiting;
        jobs_check(jobs, now);
        ck_assert(jobs_next_ns(jobs) <= now.mono_ns);
        jobs_run(jobs, now, &effects);
        jobs_get_stats(jobs, &stats);
        ck_assert(stats.waiting < before && before - stats.waiting <= 256);
    }
    for (unsigned n = 0; n < CLIENTS; n++) {
        ck_assert(jobs_client_letter(clients[n]) && jobs_read(clients[n], &view));
        job_body_drop(jobs, &view.body);
        jobs_client_end(clients[n], now, &effects);
    }
    end();
}

/* ---- lists --------------------------------------------------------------------------------- */

uint32_t __real_job_tree_from(const struct jobs *of, const struct job_tree *tree, uint64_t id);
uint32_t __wrap_job_tree_from(const struct jobs *of, const struct job_tree *tree, uint64_t id);
void __real_jobs_enter(struct jobs *of);
void __wrap_jobs_enter(struct jobs *of);

uint64_t __real_hash_bytes(const struct hash_key *key, const void *data, size_t len);
uint64_t __wrap_hash_bytes(const struct hash_key *key, const void *data, size_t len);

static unsigned searches, most_searches, locks; /* most: under one lock */
static unsigned hashes;

uint64_t __wrap_hash_bytes(const struct hash_key *key, const void *data, size_t len)
{
    hashes++;
    return __real_hash_bytes(key, data, len);
}

uint32_t __wrap_job_tree_from(const struct jobs *of, const struct job_tree *tree, uint64_t id)
{
    searches++;
    most_searches = searches > most_searches ? searches : most_searches;
    return __real_job_tree_from(of, tree, id);
}

void __wrap_jobs_enter(struct jobs *of)
{
    locks++;
    searches = 0;
    __real_jobs_enter(of);
}

TEST(a_list_searches_once_for_each_job_and_lets_others_in_between)
{
    static struct job_view views[JOBS_STEP];
    size_t count;
    uint64_t next, last = 0;
    begin();
    for (unsigned n = 0; n < JOBS_STEP + 1; n++)
        last = put("t", n % 3);
    locks = most_searches = 0;
    ck_assert(jobs_list(jobs, bytes_of("t"), JOBS_ALL, 0, JOBS_STEP, SIZE_MAX, views, &count,
                        &next) == JOBS_OK);
    ck_assert(count == JOBS_STEP && next == last - 1 && views[0].id == last - JOBS_STEP);
    ck_assert(most_searches <= 80 && locks <= 1 + JOBS_STEP / 64);
    for (size_t n = 0; n < count; n++) {
        ck_assert(n == 0 || views[n].id == views[n - 1].id + 1);
        job_body_drop(jobs, &views[n].body);
    }
    ck_assert(jobs_list(jobs, bytes_of("t"), JOBS_ALL, next, JOBS_STEP, SIZE_MAX, views, &count,
                        &next) == JOBS_OK);
    ck_assert(count == 1 && next == 0 && views[0].id == last);
    job_body_drop(jobs, &views[0].body);
    end();
}

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
        (void)put("t", 0);
    const struct tube *tube = tube_find(jobs, bytes_of("t"));
    ck_assert_uint_lt(depth_of(tube->by_id[JOB_READY].root), 60); /* about 28 */
    end();
}

TEST(the_table_of_tubes_grows_in_steps)
{
    enum { TUBES = 5000 };
    char name[16];
    begin();
    for (unsigned n = 0; n < TUBES; n++) {
        snprintf(name, sizeof(name), "t%u", n);
        hashes = 0;
        (void)put(name, 0);
        ck_assert(hashes <= 64); /* chains are short */
    }
    jobs_check(jobs, now);
    for (unsigned n = 0; n < TUBES; n++) {
        snprintf(name, sizeof(name), "t%u", n);
        ck_assert(stats_of(name).states[JOB_READY] == 1);
        ck_assert(jobs_delete(client, n + 1, now) == JOBS_OK);
    }
    end();
}

/* ---- clears -------------------------------------------------------------------------------- */

#define MANY 2500u

static enum jobs_status step(struct jobs_clear *clear, unsigned state)
{
    char reason[JOBS_READ_ONLY_MAX + 1];
    return jobs_clear(jobs, bytes_of("t"), state, clear, reason, now);
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

static bool is_there(uint64_t id)
{
    struct job_stats stats;
    return jobs_stats_job(jobs, id, now, &stats) == JOBS_OK;
}

/* A job goes to a client, and comes back. */
static void go_and_come(uint64_t id)
{
    struct job_view view;
    ck_assert(jobs_reserve_job(client, id, &view, now) == JOBS_OK);
    job_body_drop(jobs, &view.body);
    ck_assert(jobs_release(client, id, 0, 0, now, &effects) == JOBS_OK);
}

TEST(a_clear_leaves_what_comes_meanwhile)
{
    begin();
    uint64_t read = jobs_take_id(jobs), first = 0, last = 0; /* the line of `read` was read first */
    struct jobs_clear clear = {.deleted = 0}, second = {.deleted = 0};
    for (unsigned n = 0; n < MANY; n++) {
        last = put("t", 0);
        first = first ? first : last;
    }
    uint64_t reserved = put("t", 0), delayed = put("t", 1);
    struct job_view view;
    ck_assert(jobs_reserve_job(client, reserved, &view, now) == JOBS_OK);
    job_body_drop(jobs, &view.body);
    ck_assert(step(&clear, JOB_READY) == JOBS_WAITS && clear.deleted == 1000);
    (void)put_id("t", read, 0);
    go_and_come(last);
    ck_assert(jobs_release(client, reserved, 0, 0, now, &effects) == JOBS_OK);
    now.mono_ns += NS_PER_S;
    jobs_run(jobs, now, &effects);
    ck_assert(state_of(delayed) == JOB_READY);
    ck_assert(finish(&clear, JOB_READY) == MANY - 1);
    ck_assert(!is_there(first) && is_there(read) && is_there(last) && is_there(reserved) &&
              is_there(delayed));
    ck_assert(finish(&second, JOB_READY) == 4);
    end();
}

TEST(a_clear_of_all_has_jobs_that_only_change_their_state)
{
    begin();
    struct jobs_clear clear = {.deleted = 0}, other = {.deleted = 0};
    for (unsigned n = 0; n < MANY; n++)
        (void)put("t", 100);
    uint64_t delayed = put("t", 1), come = put("t", 0);
    ck_assert(step(&clear, JOBS_ALL) == JOBS_WAITS && clear.deleted == 1000);
    ck_assert(step(&other, JOB_READY) == JOBS_OK && other.deleted == 1);
    come = put("t", 0);
    now.mono_ns += NS_PER_S;
    jobs_run(jobs, now, &effects);
    ck_assert(state_of(delayed) == JOB_READY);
    go_and_come(come);
    ck_assert(finish(&clear, JOBS_ALL) == MANY + 1);
    ck_assert(!is_there(delayed) && is_there(come));
    end();
}

TEST(a_clear_of_reserved_jobs_leaves_new_reservations)
{
    begin();
    struct jobs_clear clear = {.deleted = 0};
    uint64_t last = 0;
    for (unsigned n = 0; n < MANY; n++) {
        struct job_view view;
        last = put("t", 0);
        ck_assert(jobs_reserve_job(client, last, &view, now) == JOBS_OK);
        job_body_drop(jobs, &view.body);
    }
    ck_assert(step(&clear, JOB_RESERVED) == JOBS_WAITS);
    ck_assert(jobs_touch(client, last - 1, now) == JOBS_OK); /* it stays reserved */
    ck_assert(jobs_release(client, last, 0, 0, now, &effects) == JOBS_OK);
    struct job_view view;
    ck_assert(jobs_reserve_job(client, last, &view, now) == JOBS_OK);
    job_body_drop(jobs, &view.body);
    ck_assert(finish(&clear, JOB_RESERVED) == MANY - 1);
    ck_assert(state_of(last) == JOB_RESERVED);
    end();
}

TEST(clears_are_counted_anew)
{
    begin();
    struct jobs_clear clear = {.deleted = 0}, next = {.deleted = 0}, given_up = {.deleted = 0};
    jobs->clears = CLEARS_MAX - 2;
    for (unsigned n = 0; n < 2 * MANY; n++)
        (void)put("t", 0);
    ck_assert(step(&given_up, JOB_READY) == JOBS_WAITS);
    ck_assert(step(&clear, JOB_READY) == JOBS_WAITS);
    uint64_t late = put("t", 0);
    ck_assert(step(&next, JOB_READY) == JOBS_WAITS && jobs->clears == 1);
    jobs_clear_end(jobs, &given_up);
    ck_assert(step(&clear, JOB_READY) == JOBS_NO_MEMORY); /* rather than too many, or too few */
    uint64_t later = put("t", 0);
    ck_assert(finish(&next, JOB_READY) == 2 * MANY - 2000 + 1);
    ck_assert(!is_there(late) && is_there(later));
    end();
}

TEST(a_restored_wait_names_each_tube_once)
{
    begin();
    struct bytes tubes[] = {bytes_of("name1"), bytes_of("name2")};
    struct job_claim_request request = {
        .tubes = tubes, .tube_count = 2, .count = 1, .timeout_ns = 1, .answer_max = SIZE_MAX};
    char reason[JOBS_READ_ONLY_MAX + 1];
    struct job_view view;
    struct record_reader r, section;
    size_t count;
    uint32_t kind;
    int fd = memfd_create("client", MFD_CLOEXEC);
    ck_assert(fd >= 0);
    ck_assert(jobs_claim(client, &request, &view, &count, reason, now) == JOBS_WAITS);
    record_writer_init(&writer, fd);
    record_begin(&writer, 1);
    jobs_client_save(client, &writer);
    record_end(&writer);
    jobs_client_end(client, now, &effects);
    ck_assert(record_finish(&writer) && record_map(&r, fd));
    uint8_t *bytes = malloc(r.len);
    size_t len = r.len;
    ck_assert(bytes != NULL);
    memcpy(bytes, r.data, len);
    record_unmap(&r);
    ck_assert(close(fd) == 0);
    for (unsigned damaged = 0; damaged < 2; damaged++) {
        record_reader_init(&r, bytes, len);
        ck_assert(record_enter(&r, &kind, &section));
        client = jobs_client_restore(jobs, 1, NULL, &section);
        ck_assert(damaged ? client == NULL && strstr(r.why, "twice") : client != NULL);
        if (client)
            jobs_client_end(client, now, &effects);
        uint8_t *second = memmem(bytes, len, "name2", 5);
        ck_assert(damaged || second);
        if (second)
            second[4] = '1';
    }
    free(bytes);
    jobs_free(&jobs);
}

TEST(an_upgrade_goes_on_with_a_clear)
{
    begin();
    struct jobs_clear clear = {.deleted = 0}, given_up = {.deleted = 0};
    uint64_t back = 0;
    for (unsigned n = 0; n < 2 * MANY; n++) {
        uint64_t id = put(n % 2 ? "t" : "u", 0);
        back = n % 2 ? id : back;
    }
    ck_assert(step(&clear, JOB_READY) == JOBS_WAITS);
    uint64_t late = put("t", 0);
    go_and_come(back);
    char reason[JOBS_READ_ONLY_MAX + 1];
    ck_assert(jobs_clear(jobs, bytes_of("u"), JOB_READY, &given_up, reason, now) == JOBS_WAITS);
    jobs_clear_end(jobs, &given_up);
    uint64_t before = clear.deleted;
    struct jobs_clear saved = {.deleted = clear.deleted,
                               .tube = clear.tube,
                               .before_id = clear.before_id,
                               .number = clear.number,
                               .begun = true};
    ring_remove(&clear.running);
    ring_add(&jobs->clearing, &saved.running);
    jobs_client_end(client, now, &effects);
    for (unsigned n = 0; n < 2; n++) { /* another one before its next step */
        upgrade();
        ck_assert(stats_of("t").states[JOB_READY] == MANY - before + 1);
        memset(&saved.running, 0, sizeof(saved.running));
        jobs_clear_restored(jobs, &saved);
    }
    ck_assert(finish(&saved, JOB_READY) == MANY - 1);
    ck_assert(is_there(late) && is_there(back) && stats_of("t").states[JOB_READY] == 2);
    ck_assert(stats_of("u").states[JOB_READY] == MANY - 1000);
    jobs_free(&jobs);
}

/* ---- unread answers ----------------------------------------------------------------------------
 */

static uint64_t memory(void)
{
    struct jobs_stats stats;
    jobs_get_stats(jobs, &stats);
    return stats.memory;
}

TEST(a_body_that_was_read_for_an_answer_counts_until_the_output_has_it)
{
    begin();
    uint64_t empty = memory();
    struct job_body *body = job_body_new(jobs, JOBS_PUTS, 5000);
    ck_assert(body != NULL && memory() > empty + 5000);
    const uint8_t *unread = job_body_to_output(jobs, &body);
    ck_assert(body == NULL && memory() == empty);
    job_body_written(unread);
    ck_assert_uint_eq(memory(), empty);
    end();
}

TEST(an_answer_of_several_jobs_ends_before_the_one_that_would_pass_it)
{
    struct job_view views[8];
    char reason[JOBS_READ_ONLY_MAX + 1];
    size_t count;
    uint64_t next;
    begin();
    for (unsigned n = 0; n < 8; n++) /* without a body; the name has 7 bytes */
        ck_assert(put("default", 0) == n + 1);
    ck_assert(jobs_list(jobs, bytes_of("default"), JOB_READY, 2, 8, 2 * JOBS_LINE, views, &count,
                        &next) == JOBS_OK);
    ck_assert(count == 2 && next == 4);
    while (count > 0)
        job_body_drop(jobs, &views[--count].body);
    static const struct {
        size_t answer_max, claimed, reserved;
    } rows[] = {{3 * (JOBS_LINE + 7), 3, 3}, {1, 1, 4}, {SIZE_MAX, 4, 8}};
    for (size_t n = 0; n < ARRAY_SIZE(rows); n++) {
        struct job_claim_request request = {.count = 8, .answer_max = rows[n].answer_max};
        ck_assert(jobs_claim(client, &request, views, &count, reason, now) == JOBS_OK);
        ck_assert_uint_eq(count, rows[n].claimed);
        ck_assert_uint_eq(jobs_client_reserved(client), rows[n].reserved);
        while (count > 0)
            job_body_drop(jobs, &views[--count].body);
    }
    end();
}

static void add_ready(void *arg, struct bytes name, uint64_t jobs_there)
{
    ck_assert(bytes_equal(name, bytes_of("t")));
    *(uint64_t *)arg += jobs_there;
}

TEST(who_looks_too_late_for_what_is_ready_waits_on)
{
    const struct jobs_ready ready = {.pattern = bytes_of("t"), .limit = 1};
    uint64_t seen = 0;
    begin();
    struct jobs_client *asks = jobs_client_new(jobs, 1, NULL);
    ck_assert(asks && jobs_list_ready(asks, &ready, true, add_ready, &seen) == JOBS_WAITS);
    for (unsigned n = 0; n < 3; n++) { /* the job has gone before the letter comes */
        ck_assert(jobs_delete(client, put("t", 0), now) == JOBS_OK);
        struct mail *mail = mail_list_take(&effects.letters);
        ck_assert(mail && jobs_client_letter(jobs_client_of(mail)));
        ck_assert(!jobs_read_ready(asks, add_ready, &seen));
    }
    (void)put("t", 0);
    struct mail *mail = mail_list_take(&effects.letters);
    ck_assert(mail && jobs_client_letter(jobs_client_of(mail)));
    ck_assert(jobs_read_ready(asks, add_ready, &seen) && seen == 1);
    jobs_client_end(asks, now, &effects);
    end();
}

UNIT_MAIN("jobs/jobs")
