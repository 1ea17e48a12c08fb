/*
 * keys_test.c - keys, roots and batches: which puts are duplicates, and which jobs are dropped; and
 * clients that wait for a tube with something to claim.
 */
#include "jobs/jobs.h"
#include "jobs/jobs_state.h"
#include "t/unit/random.h"
#include "t/unit/unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct jobs *jobs;
static struct jobs_client *client, *other;
static struct jobs_effects effects;
static struct moment now;
static int64_t wall; /* ms */
static struct job_duplicate duplicate;

static int64_t read_wall(void)
{
    return wall;
}

static void pass(int64_t ms)
{
    now.mono_ns += ms * NS_PER_MS;
    wall += ms;
    now.unix_s = wall / 1000;
}

static struct jobs *new_jobs(uint64_t seed)
{
    const struct jobs_config config = {.memory_limit = UINT64_C(1) << 40,
                                       .defaults = job_default_settings,
                                       .seed = seed,
                                       .wall_ms = read_wall};
    struct jobs *made = jobs_new(&config);
    ck_assert(made != NULL);
    return made;
}

static void begin(void)
{
    now.mono_ns = NS_PER_S;
    wall = 1000000;
    pass(0);
    jobs = new_jobs(1);
    jobs_effects_init(&effects);
    client = jobs_client_new(jobs, 1, NULL);
    other = jobs_client_new(jobs, 2, NULL);
    ck_assert(client && other);
}

static void end(void)
{
    jobs_check(jobs, now);
    jobs_client_end(client, now, &effects);
    jobs_client_end(other, now, &effects);
    jobs_free(&jobs);
}

/* A put that is described by a few words: "k" key, "a1.5" at, "rS:20" root; a number alone is a
 * delay in s. */
static struct job_put describe(const char *text)
{
    static char words[64][64];
    static unsigned next;
    struct job_put put = {.tube = bytes_of("t"), .ttr_s = 1000000, .tries = JOB_TRIES_OF_TUBE};
    char *copy = strdup(text), *rest = copy;
    ck_assert(copy != NULL);
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        char *kept = words[next++ % 64];
        ck_assert(strlen(word) < 64);
        strcpy(kept, word);
        if (*kept == 'k') {
            put.key = bytes_of(kept + 1);
        } else if (*kept == 'a') {
            put.has_at = true;
            put.at_ms = strtoll(kept + 1, NULL, 10);
        } else if (*kept == 'r') {
            char *time = strchr(kept, ':');
            *time = '\0';
            put.root = bytes_of(kept + 1);
            put.root_ms = strtoll(time + 1, NULL, 10);
        } else if (*kept) {
            put.delay_s = (uint32_t)strtoul(kept, NULL, 10);
        }
    }
    free(copy);
    put.id = jobs_take_id(jobs);
    put.duplicate_r = &duplicate;
    return put;
}

static enum jobs_status try_put(const char *text)
{
    struct job_put put = describe(text);
    duplicate = (struct job_duplicate){.is = false};
    put.body = job_body_new(jobs, JOBS_PUTS, 0);
    if (!put.body)
        return JOBS_NO_MEMORY;
    enum jobs_status status = jobs_put(client, &put, now, &effects);
    if (status != JOBS_OK)
        job_body_drop(jobs, &put.body);
    return status;
}

/* The id of the new job, or minus that of which it is a duplicate; INT64_MIN: of an executed one.
 */
static int64_t put(const char *text)
{
    uint64_t before = jobs_take_id(jobs);
    ck_assert_int_eq(try_put(text), JOBS_OK);
    if (!duplicate.is)
        return (int64_t)before + 1;
    return duplicate.of > 0 ? -(int64_t)duplicate.of : INT64_MIN;
}
#define NOTHING INT64_MIN

/* Reserves the next job of the tube; 0: none. */
static uint64_t take(struct job_view *view_r)
{
    const struct bytes tube = bytes_of("t");
    const struct job_claim_request request = {
        .tubes = &tube, .tube_count = 1, .count = 1, .answer_max = 1000};
    char reason[JOBS_READ_ONLY_MAX + 1];
    size_t count;
    enum jobs_status status = jobs_claim(client, &request, view_r, &count, reason, now);
    if (status == JOBS_WAITS) { /* many stale jobs are in front */
        while (jobs_search(client, now, &effects))
            continue;
        if (jobs_read(client, view_r))
            status = JOBS_OK;
        else if (jobs_end_wait(client))
            status = JOBS_TIMED_OUT;
    }
    if (status == JOBS_TIMED_OUT)
        return 0;
    ck_assert_int_eq(status, JOBS_OK);
    job_body_drop(jobs, &view_r->body);
    return view_r->id;
}

static uint64_t reserve(void)
{
    struct job_view view;
    return take(&view);
}

static void finish(int64_t id)
{
    ck_assert_int_eq(jobs_delete(client, (uint64_t)id, now), JOBS_OK);
}

static void release(int64_t id)
{
    ck_assert_int_eq(jobs_release(client, (uint64_t)id, 0, 0, now, &effects), JOBS_OK);
}

static struct tube_stats stats(void)
{
    struct tube_stats s;
    ck_assert_int_eq(jobs_stats_tube(jobs, bytes_of("t"), now, &s), JOBS_OK);
    return s;
}

static void run(void)
{
    for (unsigned n = 0; n < 100 && jobs_next_ns(jobs) <= now.mono_ns; n++)
        jobs_run(jobs, now, &effects);
    ck_assert(jobs_next_ns(jobs) > now.mono_ns);
}

static void set_remember(uint32_t seconds)
{
    struct job_settings settings = {.given = 1u << JOB_SETTING_REMEMBER, .remember_s = seconds};
    ck_assert_int_eq(jobs_set_tube(jobs, bytes_of("t"), &settings, now, &effects), JOBS_OK);
}

/* ---- keys -------------------------------------------------------------------------------------
 */

TEST(a_ready_or_delayed_job_has_its_key)
{
    begin();
    int64_t first = put("kone"), delayed = put("ktwo 50");
    ck_assert_int_eq(put("kone"), -first);
    ck_assert_int_eq(put("ktwo"), -delayed);
    ck_assert(put("kthree") > 0 && put("") > 0);
    ck_assert_uint_eq(stats().duplicates, 2);
    ck_assert_uint_eq(stats().total_jobs, 4);
    end();
}
END_TEST

TEST(a_reservation_frees_the_key_and_coming_back_takes_it)
{
    begin();
    int64_t first = put("k1");
    ck_assert_int_eq((int64_t)reserve(), first);
    int64_t second = put("k1");
    ck_assert_int_gt(second, 0);
    release(first);
    ck_assert_int_eq(put("k1"), -first); /* the smallest, and both are there */
    ck_assert_uint_eq(stats().states[JOB_READY], 2);
    finish(first);
    ck_assert_int_eq(put("k1"), -second);
    end();
}
END_TEST

TEST(an_execution_counts_from_the_beginning_of_its_reservation)
{
    begin();
    int64_t first = put("k1");
    pass(1000);
    int64_t began = wall;
    ck_assert_int_eq((int64_t)reserve(), first);
    pass(1000);
    int64_t second = put("k1"); /* while it runs: may not have been seen */
    pass(1000);
    finish(first);
    ck_assert_int_eq((int64_t)reserve(), second);
    release(second);
    char text[64];
    ck_assert_int_eq(put("k1 a1"), -second);
    finish(second); /* not while reserved: it was not executed */
    snprintf(text, sizeof(text), "k1 a%lld", (long long)began - 1);
    ck_assert(put(text) == NOTHING);
    snprintf(text, sizeof(text), "k1 a%lld", (long long)began);
    ck_assert_int_gt(put(text), 0);
    ck_assert_uint_eq(stats().dropped, 0);
    end();
}
END_TEST

TEST(an_acknowledged_execution_drops_what_was_put_before_it)
{
    struct job_view view;
    begin();
    int64_t first = put("k1");
    ck_assert_int_eq((int64_t)take(&view), first);
    pass(10);
    ck_assert_int_gt(put("k1 a5 50"), 0); /* enqueued before the reservation */
    ck_assert_int_gt(put("k2"), 0);
    ck_assert_int_eq(jobs_ack(jobs, view.id, view.token, now), JOBS_OK);
    ck_assert_uint_eq(stats().dropped, 1);
    ck_assert_uint_eq(stats().states[JOB_DELAYED], 0);
    ck_assert_uint_eq(stats().states[JOB_READY], 1);
    end();
}
END_TEST

TEST(a_duplicate_gives_its_later_time)
{
    begin();
    int64_t first = put("k1");
    pass(10);
    ck_assert_int_eq((int64_t)reserve(), first);
    pass(10);
    int64_t second = put("k1 a5");
    ck_assert_int_gt(second, 0);
    ck_assert_int_eq(put("k1"), -second); /* now it was enqueued after that reservation */
    finish(first);
    ck_assert_int_eq((int64_t)reserve(), second);
    end();
}
END_TEST

TEST(a_stale_job_comes_back_and_is_dropped_at_its_turn)
{
    begin();
    int64_t first = put("k1");
    ck_assert_int_eq((int64_t)reserve(), first);
    pass(10);
    int64_t second = put("k1"); /* after the first began, before itself begins */
    ck_assert_int_eq((int64_t)reserve(), second);
    finish(second);
    release(first); /* it was enqueued before the second began */
    ck_assert_uint_eq(reserve(), 0);
    ck_assert_int_eq(jobs_stats_tube(jobs, bytes_of("t"), now, &(struct tube_stats){0}),
                     JOBS_NOT_FOUND);
    end();
}
END_TEST

TEST(a_stale_job_is_not_reserved_by_its_id)
{
    struct job_view view;
    begin();
    int64_t first = put("k1");
    ck_assert_int_eq((int64_t)reserve(), first);
    pass(10);
    int64_t second = put("k1");
    ck_assert_int_eq((int64_t)reserve(), second);
    ck_assert_int_eq(jobs_bury(client, (uint64_t)first, 0, now), JOBS_OK);
    finish(second);
    ck_assert_int_eq(jobs_reserve_job(client, (uint64_t)first, &view, now), JOBS_NOT_FOUND);
    ck_assert_int_eq(jobs_peek(jobs, (uint64_t)first, &view), JOBS_NOT_FOUND);
    end();
}
END_TEST

TEST(an_execution_is_remembered_for_a_while)
{
    begin();
    for (unsigned n = 0; n < 2; n++) {
        uint32_t seconds = n == 0 ? 3600 : 5;
        if (n == 1)
            set_remember(seconds);
        int64_t first = put("k1");
        pass(10);
        ck_assert_int_eq((int64_t)reserve(), first);
        finish(first); /* the tube goes, what is remembered does not */
        pass(seconds * 1000 - 1);
        run();
        ck_assert(put("k1 a1") == NOTHING);
        pass(1);
        run();
        int64_t second = put("k1 a1");
        ck_assert_int_gt(second, 0);
        finish(second);
    }
    end();
}
END_TEST

TEST(a_clock_that_is_set_back_forgets_executions_and_no_roots)
{
    begin();
    int64_t first = put("k1 rS:900000");
    ck_assert_int_eq((int64_t)reserve(), first);
    finish(first);
    wall = 800000;
    ck_assert(put("k1 a1 rS:899999") == NOTHING);
    ck_assert_int_gt(put("k1 a1"), 0);
    end();
}
END_TEST

/* ---- roots ------------------------------------------------------------------------------------
 */

TEST(an_older_root_is_a_duplicate_and_a_newer_one_drops)
{
    begin();
    ck_assert_int_gt(put("rS:500"), 0);
    ck_assert_int_gt(put("rS:500 60"), 0);
    ck_assert_int_gt(put("rR:100"), 0);
    ck_assert(put("rS:499") == NOTHING);
    int64_t newer = put("rS:501");
    ck_assert_int_gt(newer, 0);
    run();
    ck_assert_uint_eq(stats().dropped, 2);
    ck_assert_uint_eq(stats().states[JOB_READY], 2);
    ck_assert_uint_eq(stats().states[JOB_DELAYED], 0);
    end();
}
END_TEST

TEST(a_stale_job_is_never_handed_out)
{
    begin();
    for (unsigned n = 0; n < 3000; n++)
        ck_assert_int_gt(put("rS:500"), 0);
    int64_t newer = put("rS:501");
    ck_assert_int_eq((int64_t)reserve(), newer); /* before any step */
    ck_assert_uint_eq(stats().dropped, 3000);
    end();
}
END_TEST

TEST(a_root_comes_back_old)
{
    begin();
    int64_t first = put("rS:500");
    ck_assert_int_eq((int64_t)reserve(), first);
    ck_assert_int_gt(put("rS:600"), 0);
    run();
    ck_assert_uint_eq(stats().dropped, 0);
    release(first);
    run();
    ck_assert_uint_eq(stats().dropped, 1);
    end();
}
END_TEST

TEST(a_key_is_compared_within_a_root)
{
    begin();
    int64_t of_s = put("k1 rS:500"), of_r = put("k1 rR:500"), of_none = put("k1");
    ck_assert_int_gt(of_s, 0);
    ck_assert_int_gt(of_r, of_s);
    ck_assert_int_gt(of_none, of_r);
    ck_assert_int_eq(put("k1 rS:700"), -of_s); /* which takes the time, and so is not stale */
    ck_assert_int_eq(put("k1 rR:500"), -of_r);
    ck_assert_int_eq(put("k1"), -of_none);
    ck_assert_int_eq(put("k1 rQ:1"), -of_none); /* one without a root is of any */
    run();
    ck_assert_uint_eq(stats().dropped, 0);
    ck_assert(put("rQ:0") == NOTHING); /* the time was kept */
    ck_assert(put("rS:699") == NOTHING);
    end();
}
END_TEST

TEST(a_root_is_forgotten_after_28_days)
{
    begin();
    int64_t first = put("rS:500");
    finish(first);
    pass(INT64_C(28) * 86400 * 1000 - 1);
    run();
    ck_assert(put("rS:499") == NOTHING);
    pass(1);
    run();
    ck_assert_int_gt(put("rS:499"), 0);
    end();
}
END_TEST

TEST(an_enqueued_time_to_come_is_now)
{
    begin();
    int64_t first = put("k1 a99999999999");
    pass(10);
    ck_assert_int_eq((int64_t)reserve(), first);
    pass(10);
    int64_t second = put("k1");
    pass(10);
    ck_assert_int_eq((int64_t)reserve(), second);
    finish(second);
    release(first); /* it was enqueued before the second began */
    ck_assert_uint_eq(reserve(), 0);
    end();
}

TEST(a_root_time_is_compared_as_it_was_given)
{
    begin();
    for (unsigned n = 0; n < 5; n++) {
        ck_assert_int_gt(put("rS:99999999999"), 0);
        ck_assert_int_gt(put("rR:1000000"), 0); /* the wall clock has that time first */
        pass(10);
        run();
    }
    ck_assert(put("rS:99999999998") == NOTHING);
    ck_assert_uint_eq(stats().dropped, 0);
    ck_assert_uint_eq(stats().states[JOB_READY], 10);
    end();
}
END_TEST

/* ---- batches and memory ------------------------------------------------------------------------
 */

static enum jobs_status put_batch(const char *const *texts, size_t count,
                                  struct job_duplicate *duplicates, size_t *failed_r)
{
    struct job_put puts[8] = {{.id = 0}};
    for (size_t n = 0; n < count; n++) {
        puts[n] = describe(texts[n]);
        puts[n].duplicate_r = &duplicates[n];
        puts[n].body = job_body_new(jobs, JOBS_PUTS, 1);
        ck_assert(puts[n].body != NULL);
    }
    enum jobs_status status = jobs_put_all(client, puts, count, failed_r, now, &effects);
    for (size_t n = 0; n < count && status != JOBS_OK; n++)
        job_body_drop(jobs, &puts[n].body);
    return status;
}

TEST(a_batch_is_stored_whole_or_not_at_all)
{
    static const char *const texts[] = {"k1 rS:700", "k2", "k1 rS:800", "k3 rS:900", ""};
    struct job_settings settings = {.given = 1u << JOB_SETTING_LIMIT, .limit = 4};
    struct job_duplicate duplicates[5] = {{.is = false}};
    struct job_put plain;
    size_t failed;
    begin();
    int64_t there = put("k2 a7");
    ck_assert_int_eq(jobs_set_tube(jobs, bytes_of("t"), &settings, now, &effects), JOBS_OK);
    plain = describe("");
    plain.body = job_body_new(jobs, JOBS_PUTS, 0);
    ck_assert_int_eq(jobs_put(client, &plain, now, &effects), JOBS_OK);
    struct jobs_stats before, after;
    jobs_get_stats(jobs, &before);
    ck_assert_int_eq(put_batch(texts, 5, duplicates, &failed), JOBS_TUBE_FULL);
    ck_assert_uint_eq(failed, 4);
    jobs_get_stats(jobs, &after);
    before.visits = after.visits;
    ck_assert_mem_eq(&before, &after, sizeof(before));
    ck_assert_uint_eq(stats().duplicates, 0);
    jobs_check(jobs, now);
    ck_assert_int_eq(put_batch(texts, 4, duplicates, &failed), JOBS_OK);
    ck_assert(!duplicates[0].is && duplicates[1].is && duplicates[2].is && !duplicates[3].is);
    ck_assert_uint_eq(duplicates[1].of, (uint64_t)there);
    ck_assert_uint_eq(stats().total_jobs, 4);
    run();
    ck_assert_uint_eq(stats().dropped, 1); /* of root S, 800 */
    end();
}
END_TEST

/* Puts a batch of jobs whose keys and roots a number says. Returns how many were duplicates; they
 * have looked at a few others each. */
static unsigned put_many(void (*say)(unsigned n, struct job_put *put, char key[32], char root[32]))
{
    enum { MANY = 1000 };
    static struct job_put puts[MANY];
    static struct job_duplicate duplicates[MANY];
    static char keys[MANY][32], roots[MANY][32];
    struct jobs_stats before, after;
    unsigned count = 0;
    size_t failed;
    jobs_get_stats(jobs, &before);
    for (unsigned n = 0; n < MANY; n++) {
        puts[n] = describe("");
        say(n, &puts[n], keys[n], roots[n]);
        puts[n].key = bytes_of(keys[n]);
        puts[n].root = bytes_of(roots[n]);
        puts[n].body = job_body_new(jobs, JOBS_PUTS, 0);
        puts[n].duplicate_r = &duplicates[n];
    }
    ck_assert(jobs_put_all(client, puts, MANY, &failed, now, &effects) == JOBS_OK);
    for (unsigned n = 0; n < MANY; n++)
        count += duplicates[n].is;
    jobs_get_stats(jobs, &after);
    ck_assert(after.visits - before.visits <= 8 * MANY);
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
END_TEST

TEST(a_put_without_memory_changes_nothing_and_ends_need_none)
{
    struct jobs_stats before, after;
    begin();
    int64_t first = put("k1 rS:5"), second = put("k2");
    ck_assert_int_eq((int64_t)reserve(), first);
    ck_assert_int_eq((int64_t)reserve(), second);
    jobs_get_stats(jobs, &before);
    unsigned refused = 0;
    for (uint64_t more = 0;; more += 8) {
        jobs_set_memory_limit(jobs, before.memory + more);
        if (try_put("k3 rQ:7") == JOBS_OK)
            break;
        jobs_get_stats(jobs, &after);
        after.memory_limit = before.memory_limit;
        memcpy(after.refused, before.refused, sizeof(after.refused));
        ck_assert_mem_eq(&before, &after, sizeof(before));
        jobs_check(jobs, now);
        refused++;
    }
    ck_assert_uint_gt(refused, 20);
    jobs_set_memory_limit(jobs, 0);
    finish(first);
    ck_assert_int_eq(jobs_bury(client, (uint64_t)second, 0, now), JOBS_OK);
    finish(second);
    jobs_set_memory_limit(jobs, UINT64_MAX / 2);
    ck_assert(put("k1 a1") == NOTHING);
    end();
}
END_TEST

/* ---- ready --------------------------------------------------------------------------------------
 */

static char listed[256];

static void note(void *arg, struct bytes name, uint64_t count)
{
    (void)arg;
    size_t len = strlen(listed);
    snprintf(listed + len, sizeof(listed) - len, "%.*s=%llu ", (int)name.len,
             (const char *)name.data, (unsigned long long)count);
}

static enum jobs_status list(const char *pattern, const char *after, uint32_t limit, bool waits)
{
    size_t len = strlen(pattern);
    bool prefix = len > 0 && pattern[len - 1] == '*';
    const struct jobs_ready ready = {.pattern = bytes_at(pattern, len - prefix),
                                     .after = bytes_of(after),
                                     .prefix = prefix,
                                     .limit = limit};
    *listed = '\0';
    return jobs_list_ready(other, &ready, waits, note, NULL);
}

static void put_to(const char *tube)
{
    struct job_put put = describe("");
    put.tube = bytes_of(tube);
    put.body = job_body_new(jobs, JOBS_PUTS, 0);
    ck_assert_int_eq(jobs_put(client, &put, now, &effects), JOBS_OK);
}

/* Delivers the letter to the other client, if there is one. */
static bool letter(void)
{
    struct mail *mail = mail_list_take(&effects.letters);
    if (!mail)
        return false;
    ck_assert(jobs_client_of(mail) == other && jobs_client_letter(other));
    return true;
}

TEST(ready_tubes_are_listed_by_name)
{
    begin();
    put_to("b/2");
    put_to("b/1");
    put_to("a");
    put_to("b/1");
    put_to("c");
    ck_assert_int_eq(jobs_pause(jobs, bytes_of("c"), 9, now, &effects), JOBS_OK);
    ck_assert_int_eq(list("*", "", 10, false), JOBS_OK);
    ck_assert_str_eq(listed, "a=1 b/1=2 b/2=1 ");
    ck_assert_int_eq(list("b/*", "", 1, false), JOBS_OK);
    ck_assert_str_eq(listed, "b/1=2 ");
    ck_assert_int_eq(list("b*", "b/1", 10, false), JOBS_OK);
    ck_assert_str_eq(listed, "b/2=1 ");
    ck_assert_int_eq(list("b*", "a", 10, false), JOBS_OK);
    ck_assert_str_eq(listed, "b/1=2 b/2=1 ");
    ck_assert_int_eq(list("b", "", 10, false), JOBS_TIMED_OUT);
    ck_assert_int_eq(list("c", "", 10, false), JOBS_TIMED_OUT);
    ck_assert_int_eq(list("a", "a", 10, false), JOBS_TIMED_OUT);
    end();
}
END_TEST

TEST(a_client_that_waits_hears_of_a_ready_tube)
{
    static const char *const patterns[] = {"t", "t*", "*"};
    begin();
    for (unsigned n = 0; n < 3; n++) {
        struct jobs_clear clear = {.deleted = 0};
        char reason[JOBS_READ_ONLY_MAX + 1];
        ck_assert_int_eq(list(patterns[n], "", 10, true), JOBS_WAITS);
        ck_assert(jobs_client_waits(other) && jobs_wait_soon_ns(other) == INT64_MAX);
        if (n < 2)
            put_to("another");
        ck_assert(!letter());
        int64_t gone = put("");
        ck_assert(letter());
        finish(gone); /* before the letter is read: it waits on */
        *listed = '\0';
        ck_assert(!jobs_read_ready(other, note, NULL));
        int64_t stays = put("");
        ck_assert(letter() && jobs_read_ready(other, note, NULL));
        ck_assert_str_eq(listed, "t=1 ");
        ck_assert(!jobs_client_waits(other));
        finish(stays);
        if (n < 2)
            ck_assert_int_eq(jobs_clear(jobs, bytes_of("another"), JOBS_ALL, &clear, reason, now),
                             JOBS_OK);
        jobs_check(jobs, now);
    }
    ck_assert_int_eq(list("nobody", "", 10, true), JOBS_WAITS);
    ck_assert(jobs_end_wait(other) && !jobs_client_waits(other));
    ck_assert_int_eq(list("no*", "", 10, true), JOBS_WAITS);
    end(); /* with a wait */
}
END_TEST

/* ---- upgrades, and any order
 * ---------------------------------------------------------------------- */

static void upgrade(uint64_t seed)
{
    static struct record_writer writer;
    struct record_reader r, section;
    uint32_t kind;
    struct jobs_client *old_client = client, *old_other = other;
    struct jobs *old = jobs;
    int fd = memfd_create("jobs", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    record_writer_init(&writer, fd);
    jobs_save(jobs, &writer);
    jobs_client_save(client, &writer);
    jobs_client_save(other, &writer);
    ck_assert(record_finish(&writer));
    ck_assert(record_map(&r, fd));
    jobs = new_jobs(seed);
    ck_assert(record_enter(&r, &kind, &section) && kind == JOBS_STATE);
    ck_assert_msg(jobs_restore(jobs, &section), "%s", r.why);
    ck_assert(record_enter(&r, &kind, &section) && kind == JOBS_PUT_TIMES);
    ck_assert_msg(jobs_restore_put_times(jobs, &section), "%s", r.why);
    client = jobs_client_restore(jobs, 1, NULL, &r);
    other = jobs_client_restore(jobs, 2, NULL, &r);
    ck_assert_msg(client && other && jobs_restore_done(jobs, &r), "%s", r.why);
    record_unmap(&r);
    ck_assert_int_eq(close(fd), 0);
    jobs_check(jobs, now);
    struct jobs_effects dropped;
    jobs_effects_init(&dropped);
    jobs_client_end(old_client, now, &dropped);
    jobs_client_end(old_other, now, &dropped);
    jobs_free(&old);
}

TEST(an_upgrade_keeps_keys_roots_and_waits)
{
    begin();
    int64_t done = put("kdone"), running = put("krun rS:500"), ready = put("kready rS:500");
    pass(10);
    ck_assert_int_eq((int64_t)reserve(), done);
    finish(done);
    ck_assert_int_eq((int64_t)reserve(), running);
    ck_assert_int_eq(list("x*", "w", 3, true), JOBS_WAITS);
    upgrade(77);
    ck_assert(put("kdone a1") == NOTHING);
    ck_assert_int_eq(put("kready rS:500"), -ready);
    ck_assert(put("rS:499") == NOTHING);
    finish(running);
    ck_assert(put("krun a1") == NOTHING);
    *listed = '\0';
    put_to("x");
    ck_assert(letter() && jobs_read_ready(other, note, NULL));
    ck_assert_str_eq(listed, "x=1 ");
    pass(3600 * 1000);
    run();
    ck_assert_int_gt(put("kdone a1"), 0);
    end();
}
END_TEST

static struct rng rng;

static void random_put(void)
{
    char text[64] = "", part[32];
    if (rng_below(&rng, 5) > 0) {
        snprintf(part, sizeof(part), "k%u ", rng_below(&rng, 6));
        strcat(text, part);
    }
    if (rng_below(&rng, 2)) {
        snprintf(part, sizeof(part), "a%lld ", (long long)wall - rng_below(&rng, 4000));
        strcat(text, part);
    }
    if (rng_below(&rng, 2)) {
        snprintf(part, sizeof(part), "r%u:%lld ", rng_below(&rng, 3),
                 (long long)wall + 4500 - rng_below(&rng, 9000));
        strcat(text, part);
    }
    snprintf(part, sizeof(part), "%u", rng_one_in(&rng, 4) ? 1 + rng_below(&rng, 3) : 0);
    strcat(text, part);
    int64_t id = put(text);
    struct job_view view;
    if (id != NOTHING) {
        ck_assert_int_eq(jobs_peek(jobs, (uint64_t)(id < 0 ? -id : id), &view), JOBS_OK);
        ck_assert(view.state == JOB_READY || view.state == JOB_DELAYED);
        job_body_drop(jobs, &view.body);
    }
}

TEST(any_order_keeps_every_invariant)
{
    uint64_t held[64];
    unsigned count = 0;
    rng = rng_start("keys of jobs", random_seed());
    begin();
    for (unsigned step = 0; step < 6000; step++) {
        unsigned which = count > 0 ? rng_below(&rng, count) : 0;
        switch (rng_below(&rng, 9)) {
        case 0:
        case 1:
        case 2:
            random_put();
            break;
        case 3:
        case 4:
            if (count < 64 && (held[count] = reserve()) != 0)
                count++;
            break;
        case 5:
            if (count > 0) {
                finish((int64_t)held[which]);
                held[which] = held[--count];
            }
            break;
        case 6:
            if (count > 0) {
                release((int64_t)held[which]);
                held[which] = held[--count];
            }
            break;
        case 7:
            pass(rng_below(&rng, 800));
            run();
            break;
        default:
            if (rng_one_in(&rng, 20))
                upgrade(step);
            else if (rng_one_in(&rng, 60))
                wall -= 3000;
        }
        if (step % 8 == 0)
            jobs_check(jobs, now);
    }
    end();
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(a_ready_or_delayed_job_has_its_key),
    UNIT(a_reservation_frees_the_key_and_coming_back_takes_it),
    UNIT(an_execution_counts_from_the_beginning_of_its_reservation),
    UNIT(an_acknowledged_execution_drops_what_was_put_before_it),
    UNIT(a_duplicate_gives_its_later_time),
    UNIT(a_stale_job_comes_back_and_is_dropped_at_its_turn),
    UNIT(a_stale_job_is_not_reserved_by_its_id),
    UNIT(an_execution_is_remembered_for_a_while),
    UNIT(a_clock_that_is_set_back_forgets_executions_and_no_roots),
    UNIT(an_older_root_is_a_duplicate_and_a_newer_one_drops),
    UNIT(a_stale_job_is_never_handed_out),
    UNIT(a_root_comes_back_old),
    UNIT(a_key_is_compared_within_a_root),
    UNIT(a_root_is_forgotten_after_28_days),
    UNIT(an_enqueued_time_to_come_is_now),
    UNIT(a_root_time_is_compared_as_it_was_given),
    UNIT(a_batch_is_stored_whole_or_not_at_all),
    UNIT(puts_of_a_batch_look_at_few_others),
    UNIT(a_put_without_memory_changes_nothing_and_ends_need_none),
    UNIT(ready_tubes_are_listed_by_name),
    UNIT(a_client_that_waits_hears_of_a_ready_tube),
    UNIT(an_upgrade_keeps_keys_roots_and_waits),
    UNIT(any_order_keeps_every_invariant),
};

UNIT_MAIN("jobs/keys", tests)
