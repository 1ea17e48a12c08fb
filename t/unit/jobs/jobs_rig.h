/*
 * jobs_rig.h - jobs without a store for a test: two clients, and short words for what they do.
 */
#ifndef JOBS_RIG_H
#define JOBS_RIG_H

#include "jobs/jobs.h"
#include "jobs/jobs_inside.h"
#include "t/unit/random.h"

#include <stdio.h>
#include <string.h>

static struct jobs *jobs;
static struct jobs_client *client, *other;
static struct jobs_effects effects;
static struct moment now;

static inline struct jobs *new_jobs(void)
{
    const struct jobs_config config = {.memory_limit = UINT64_MAX,
                                       .defaults = job_default_settings};
    struct jobs *made = jobs_new(&config);
    ck_assert(made != NULL);
    return made;
}

static inline void begin(void)
{
    now = (struct moment){.mono_ns = NS_PER_S, .unix_s = 1000};
    jobs = new_jobs();
    jobs_effects_init(&effects);
    client = jobs_client_new(jobs, 0, NULL);
    other = jobs_client_new(jobs, 1, NULL);
    ck_assert(client && other);
}

/* Does what is due now. */
static inline bool run_once(void)
{
    if (jobs_next_ns(jobs) > now.mono_ns + 1)
        return false;
    now.mono_ns++;
    jobs_run(jobs, now, &effects);
    return true;
}

static inline void run(void)
{
    while (run_once())
        continue;
}

static inline void end_clients(void)
{
    jobs_client_end(client, now, &effects);
    jobs_client_end(other, now, &effects);
}

static inline void end(void)
{
    jobs_check(jobs, now);
    end_clients();
    run();
    jobs_check(jobs, now);
    jobs_free(&jobs);
}

static inline struct bytes numbered(const char *before, unsigned number)
{
    static char name[JOBS_TUBE_MAX];
    int len = snprintf(name, sizeof(name), "%s%u", before, number);
    return bytes_at(name, (size_t)len);
}

static inline uint64_t put_with(struct bytes tube, uint64_t id, uint32_t pri, uint32_t delay_s)
{
    struct job_put put = {.tube = tube,
                          .id = id,
                          .pri = pri,
                          .delay_s = delay_s,
                          .ttr_s = 100,
                          .tries = JOB_TRIES_OF_TUBE,
                          .body = job_body_new(jobs, JOBS_PUTS, 0)};
    ck_assert(put.body && jobs_put(other, &put, now, &effects) == JOBS_OK);
    return put.id;
}

static inline uint64_t put(struct bytes tube)
{
    return put_with(tube, jobs_take_id(jobs), 0, 0);
}

static inline uint64_t put_t(uint32_t delay_s)
{
    return put_with(bytes_of("t"), jobs_take_id(jobs), 0, delay_s);
}

/* 0: there is none. */
static inline uint64_t reserve(struct jobs_client *by)
{
    struct job_view view;
    if (jobs_reserve(by, 0, &view, now) != JOBS_OK)
        return 0;
    job_body_drop(jobs, &view.body);
    return view.id;
}

static inline void wait_for_job(struct jobs_client *by)
{
    struct job_view view;
    ck_assert(jobs_reserve(by, JOBS_FOREVER, &view, now) == JOBS_WAITS);
}

static inline uint64_t claim(struct jobs_client *by)
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
static inline void hears(struct jobs_client *which, uint64_t id)
{
    struct mail *mail = mail_list_take(&effects.letters);
    struct job_view view;
    ck_assert(mail && jobs_client_of(mail) == which && jobs_client_letter(which));
    ck_assert(jobs_read(which, &view) && view.id == id);
    job_body_drop(jobs, &view.body);
}

static inline void delete (struct jobs_client *by, uint64_t id)
{
    ck_assert(jobs_delete(by, id, now) == JOBS_OK);
}

static inline void watch(struct jobs_client *by, unsigned count)
{
    uint32_t watched;
    for (unsigned n = 0; n < count; n++)
        ck_assert(jobs_watch(by, numbered("w", n), &watched) == JOBS_OK);
    ck_assert(by->many == (watched > JOBS_MANY_WATCHES)); /* else no visits are counted */
}

static inline struct jobs_stats stats(void)
{
    struct jobs_stats s;
    jobs_get_stats(jobs, &s);
    return s;
}

static inline struct tube_stats stats_of(const char *tube)
{
    struct tube_stats s;
    ck_assert(jobs_stats_tube(jobs, bytes_of(tube), now, &s) == JOBS_OK);
    return s;
}

#endif
