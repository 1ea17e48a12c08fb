/*
 * jobs_test.c - rules of the jobs that are easy to break, each in a few calls. The model test
 * (t/models/jobs_test.c) has all of them, in any order.
 */
#include "jobs/jobs_state.h"
#include "t/unit/jobs/jobs_rig.h"

#include <sys/mman.h>
#include <unistd.h>

/* A job, with its share of the table of ids and the head of its body. */
_Static_assert(sizeof(struct job) + 12 + sizeof(struct job_body) <= 160, "a job costs too much");

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
    ck_assert(jobs_restore(jobs, &section));
    while (record_enter(&r, &kind, &section)) {
        if (kind == JOBS_CLEARS)
            ck_assert(jobs_restore_clears(jobs, &section));
        if (kind == JOBS_PUT_TIMES)
            ck_assert(jobs_restore_put_times(jobs, &section));
    }
    ck_assert(jobs_restore_done(jobs, &r));
    record_unmap(&r);
}

TEST(an_upgrade_keeps_the_first_tube_when_nobody_is_connected)
{
    const struct job_settings settings = {.given = 1u << JOB_SETTING_TRIES, .tries = 3};
    begin();
    ck_assert(jobs_set_tube(jobs, bytes_of("default"), &settings, now, &effects) == JOBS_OK);
    end_clients();
    upgrade();
    ck_assert(stats_of("default").settings.tries == 3);
    jobs_free(&jobs);
}

TEST(a_restored_wait_names_each_tube_once)
{
    struct bytes tubes[] = {bytes_of("name1"), bytes_of("name2")};
    struct job_claim_request request = {
        .tubes = tubes, .tube_count = 2, .count = 1, .timeout_ns = 1, .answer_max = SIZE_MAX};
    char reason[JOBS_READ_ONLY_MAX + 1];
    struct record_reader r, again, section;
    struct job_view view;
    size_t count;
    uint32_t kind;
    begin();
    ck_assert(jobs_claim(client, &request, &view, &count, reason, now) == JOBS_WAITS);
    int fd = begin_record();
    record_begin(&writer, 1);
    jobs_client_save(client, &writer);
    record_end(&writer);
    map_record(&r, fd);
    uint8_t *bytes = malloc(r.len);
    ck_assert(bytes != NULL);
    memcpy(bytes, r.data, r.len);
    for (unsigned damaged = 0; damaged < 2; damaged++) {
        jobs_client_end(client, now, &effects);
        record_reader_init(&again, bytes, r.len);
        ck_assert(record_enter(&again, &kind, &section));
        client = jobs_client_restore(jobs, 1, NULL, &section);
        ck_assert(damaged ? client == NULL && strstr(again.why, "twice") : client != NULL);
        ((uint8_t *)memmem(bytes, r.len, "name", 4))[4] = '2';
    }
    record_unmap(&r);
    free(bytes);
    client = jobs_client_new(jobs, 0, NULL);
    end();
}

/* ---- lists, trees, tables -------------------------------------------------------------------- */

uint32_t __real_job_tree_from(const struct jobs *of, const struct job_tree *tree, uint64_t id);
uint32_t __wrap_job_tree_from(const struct jobs *of, const struct job_tree *tree, uint64_t id);
void __real_jobs_enter(struct jobs *of);
void __wrap_jobs_enter(struct jobs *of);
uint64_t __real_hash_bytes(const struct hash_key *key, const void *data, size_t len);
uint64_t __wrap_hash_bytes(const struct hash_key *key, const void *data, size_t len);

static unsigned searches, most_searches, locks, hashes; /* most: under one lock */

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
        last = put_t(n % 3);
    locks = most_searches = 0;
    ck_assert(jobs_list(jobs, bytes_of("t"), JOBS_ALL, 0, JOBS_STEP, SIZE_MAX, views, &count,
                        &next) == JOBS_OK);
    ck_assert(count == JOBS_STEP && next == last - 1 && views[0].id == last - JOBS_STEP);
    ck_assert(most_searches <= 80 && locks <= 1 + JOBS_STEP / 64);
    for (size_t n = 0; n < count; n++) {
        ck_assert(n == 0 || views[n].id == views[n - 1].id + 1);
        job_body_drop(jobs, &views[n].body);
    }
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
        (void)put_t(0);
    const struct tube *tube = tube_find(jobs, bytes_of("t"));
    ck_assert_uint_lt(depth_of(tube->by_id[JOB_READY].root), 60); /* about 28 */
    end();
}

TEST(the_table_of_tubes_grows_in_steps)
{
    enum { TUBES = 5000 };
    begin();
    for (unsigned n = 0; n < TUBES; n++) {
        hashes = 0;
        (void)put(numbered("t", n));
        ck_assert(hashes <= 64); /* chains are short */
    }
    jobs_check(jobs, now);
    for (unsigned n = 0; n < TUBES; n++) {
        ck_assert(tube_find(jobs, numbered("t", n)) != NULL);
        delete (other, n + 1);
    }
    end();
}

/* ---- clears -------------------------------------------------------------------------------- */

#define CLEARED 2500u

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

/* JOB_STATES: it is not there. */
static unsigned state_of(uint64_t id)
{
    struct job_stats s = {.state = JOB_STATES};
    (void)!jobs_stats_job(jobs, id, now, &s);
    return s.state;
}

static void reserve_id(uint64_t id)
{
    struct job_view view;
    ck_assert(jobs_reserve_job(client, id, &view, now) == JOBS_OK);
    job_body_drop(jobs, &view.body);
}

static void release(uint64_t id)
{
    ck_assert(jobs_release(client, id, 0, 0, now, &effects) == JOBS_OK);
}

/* Puts so many, and returns the last. */
static uint64_t put_many_t(unsigned count, uint32_t delay_s)
{
    uint64_t last = 0;
    while (count-- > 0)
        last = put_t(delay_s);
    return last;
}

TEST(a_clear_leaves_what_comes_meanwhile)
{
    struct jobs_clear clear = {.deleted = 0}, second = {.deleted = 0};
    begin();
    uint64_t early = jobs_take_id(jobs); /* of a put whose body is still to come */
    uint64_t last = put_many_t(CLEARED, 0), reserved = put_t(0), delayed = put_t(1);
    reserve_id(reserved);
    ck_assert(step(&clear, JOB_READY) == JOBS_WAITS && clear.deleted == 1000);
    (void)put_with(bytes_of("t"), early, 0, 0);
    reserve_id(last);
    release(last);
    release(reserved);
    now.mono_ns += NS_PER_S;
    jobs_run(jobs, now, &effects);
    ck_assert(finish(&clear, JOB_READY) == CLEARED - 1);
    const uint64_t left[] = {early, last, reserved, delayed};
    for (size_t n = 0; n < ARRAY_SIZE(left); n++)
        ck_assert(state_of(left[n]) == JOB_READY);
    ck_assert(finish(&second, JOB_READY) == ARRAY_SIZE(left));
    end();
}

TEST(a_clear_of_all_has_jobs_that_only_change_their_state)
{
    struct jobs_clear clear = {.deleted = 0}, ready = {.deleted = 0};
    begin();
    (void)put_many_t(CLEARED, 100);
    uint64_t delayed = put_t(1);
    (void)put_t(0);
    ck_assert(step(&clear, JOBS_ALL) == JOBS_WAITS && clear.deleted == 1000);
    ck_assert(step(&ready, JOB_READY) == JOBS_OK && ready.deleted == 1);
    uint64_t late = put_t(0);
    now.mono_ns += NS_PER_S;
    jobs_run(jobs, now, &effects);
    ck_assert(state_of(delayed) == JOB_READY);
    reserve_id(late);
    release(late);
    ck_assert(finish(&clear, JOBS_ALL) == CLEARED + 1);
    ck_assert(state_of(delayed) == JOB_STATES && state_of(late) == JOB_READY);
    end();
}

TEST(a_clear_of_reserved_jobs_leaves_new_reservations)
{
    struct jobs_clear clear = {.deleted = 0};
    begin();
    uint64_t last = put_many_t(CLEARED, 0);
    for (uint64_t id = 1; id <= last; id++)
        reserve_id(id);
    ck_assert(step(&clear, JOB_RESERVED) == JOBS_WAITS);
    ck_assert(jobs_touch(client, last - 1, now) == JOBS_OK); /* it stays reserved */
    release(last);
    reserve_id(last);
    ck_assert(finish(&clear, JOB_RESERVED) == CLEARED - 1 && state_of(last) == JOB_RESERVED);
    end();
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
    char reason[JOBS_READ_ONLY_MAX + 1];
    begin();
    uint64_t back = put_many_t(CLEARED, 0);
    for (unsigned n = 0; n < CLEARED; n++)
        (void)put(bytes_of("u"));
    ck_assert(step(&clear, JOB_READY) == JOBS_WAITS);
    uint64_t late = put_t(0);
    reserve_id(back);
    release(back);
    ck_assert(jobs_clear(jobs, bytes_of("u"), JOB_READY, &given_up, reason, now) == JOBS_WAITS);
    jobs_clear_end(jobs, &given_up);
    struct jobs_clear saved = {.deleted = clear.deleted,
                               .tube = clear.tube,
                               .before_id = clear.before_id,
                               .number = clear.number,
                               .begun = true};
    ring_remove(&clear.running);
    ring_add(&jobs->clearing, &saved.running);
    end_clients();
    for (unsigned n = 0; n < 2; n++) { /* another one before its next step */
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
    ck_assert(jobs_pause(jobs, tube, 9, now, &effects) == JOBS_OK);
    for (unsigned n = 0; n < CLIENTS; n++) {
        (void)put(tube);
        clients[n] = jobs_client_new(jobs, 1, NULL);
        wait_for_job(clients[n]);
    }
    ck_assert(jobs_pause(jobs, tube, 0, now, &effects) == JOBS_OK);
    ck_assert(stats().waiting == CLIENTS - JOBS_STEP && stats().steps == 1);
    (void)put(tube); /* the tube has its next step to come */
    ck_assert(stats().waiting == CLIENTS - JOBS_STEP);
    for (uint64_t before = stats().waiting; before > 0; before = stats().waiting) {
        jobs_check(jobs, now);
        ck_assert(jobs_next_ns(jobs) <= now.mono_ns);
        jobs_run(jobs, now, &effects);
        ck_assert(stats().waiting < before && before - stats().waiting <= 256);
    }
    for (unsigned n = 0; n < CLIENTS; n++) {
        ck_assert(jobs_client_letter(clients[n]) && jobs_read(clients[n], &view));
        job_body_drop(jobs, &view.body);
        jobs_client_end(clients[n], now, &effects);
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
    ck_assert(jobs_list_ready(client, &ready, true, add_ready, &seen) == JOBS_WAITS);
    for (unsigned n = 0; n < 4; n++) { /* the job has gone before the letter comes; at last not */
        uint64_t id = put_t(0);
        if (n < 3)
            delete (other, id);
        struct mail *mail = mail_list_take(&effects.letters);
        ck_assert(mail && jobs_client_of(mail) == client && jobs_client_letter(client));
        ck_assert(jobs_read_ready(client, add_ready, &seen) == (n == 3));
    }
    ck_assert(seen == 1);
    end();
}

UNIT_MAIN("jobs/jobs")
