/*
 * commit_words.h - jobs over SQLite whose calls fail, for a test: two clients, and short words for
 * what they do. The test plays the store's thread (commit_rig.h).
 */
#ifndef COMMIT_WORDS_H
#define COMMIT_WORDS_H

#include "t/unit/jobs/commit_rig.h"
#include "t/unit/jobs/fake_store.h"
#include "t/unit/random.h"

#include <string.h>

static struct fake_disk *disk;
static struct jobs_client *a, *b;
static struct ask *asks_made[4000];
static size_t made_count;

static inline void begin(void)
{
    disk = fake_disk_new();
    rig_begin(&fake_store, fake_disk_path(disk));
    a = rig_client();
    b = rig_client();
}

/* A request that is freed at the end, or before a restart. */
static inline struct ask *make(struct jobs_client *client, enum job_op_kind kind)
{
    REQUIRE(made_count < ARRAY_SIZE(asks_made));
    return asks_made[made_count++] = ask_new(client, kind);
}

static inline struct ask *new_act(struct jobs_client *client, enum job_verb verb, uint64_t id)
{
    REQUIRE(made_count < ARRAY_SIZE(asks_made));
    return asks_made[made_count++] = ask_act(client, verb, id);
}

static inline void leave_all(void)
{
    rig_commit();
    if (a)
        rig_end(&a);
    if (b)
        rig_end(&b);
    rig_commit();
    while (made_count > 0)
        ask_free(&asks_made[--made_count]);
}

static inline struct jobs_stats all_stats(void)
{
    struct jobs_stats stats;
    jobs_get_stats(rig.jobs, &stats);
    return stats;
}

static inline void end(void)
{
    leave_all();
    ck_assert(!jobs_has_ops(rig.jobs));
    rig_close();
    fake_disk_free(&disk);
}

static inline void restart(void)
{
    leave_all();
    rig_restart();
    a = rig_client();
    b = rig_client();
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Submits, commits, and gives the answer. */
static inline enum jobs_status answer(struct ask *ask)
{
    ask_submit(ask);
    rig_commit();
    REQUIRE(ask->done);
    return ask->status;
}

/* Submits again while there are steps to make. Returns how many there were. */
static inline unsigned make_steps(struct ask *ask)
{
    unsigned steps = 1;
    while (answer(ask) == JOBS_WAITS)
        steps++;
    ck_assert(ask->status == JOBS_OK);
    return steps;
}

static inline struct ask *new_put(const char *tube)
{
    struct ask *ask = make(a, JOB_OP_PUT);
    ask_put(ask, tube, "body");
    return ask;
}

static inline struct ask *new_put_keyed(const char *tube, const char *key, int64_t at_ms)
{
    struct ask *ask = new_put(tube);
    ask_key(ask, key, at_ms);
    return ask;
}

static inline uint64_t put_delayed(const char *tube, uint32_t delay_s)
{
    struct ask *ask = new_put(tube);
    uint64_t id = ask->puts[0].id;
    ask->puts[0].delay_s = delay_s;
    ck_assert(answer(ask) == JOBS_OK);
    return id;
}

static inline uint64_t put(const char *tube)
{
    return put_delayed(tube, 0);
}

static inline uint64_t put_keyed(const char *tube, const char *key, int64_t at_ms)
{
    struct ask *ask = new_put_keyed(tube, key, at_ms);
    uint64_t id = ask->puts[0].id;
    ck_assert(answer(ask) == JOBS_OK);
    return ask->duplicates[0].is ? ask->duplicates[0].of : id;
}

static inline enum jobs_status act(struct jobs_client *client, enum job_verb verb, uint64_t id)
{
    return answer(new_act(client, verb, id));
}

static inline struct ask *new_clear(const char *tube, unsigned state)
{
    struct ask *ask = make(NULL, JOB_OP_CLEAR);
    ask_tube(ask, tube);
    ask->op.state = state;
    return ask;
}

static inline struct ask *new_kick(uint32_t bound)
{
    struct ask *ask = make(a, JOB_OP_KICK);
    ask->kick.left = bound;
    return ask;
}

static inline struct ask *new_pause(const char *tube, uint32_t seconds)
{
    struct ask *ask = make(a, JOB_OP_PAUSE);
    ask_tube(ask, tube);
    ask->op.seconds = seconds;
    return ask;
}

static inline struct ask *new_set(const char *tube, unsigned which, struct job_settings settings)
{
    struct ask *ask = make(a, JOB_OP_SET_TUBE);
    ask_tube(ask, tube);
    ask->settings = settings;
    ask->settings.given = 1u << which;
    return ask;
}

static inline void set(const char *tube, unsigned which, struct job_settings settings)
{
    ck_assert(answer(new_set(tube, which, settings)) == JOBS_OK);
}

static inline void set_tries(const char *tube, uint32_t tries)
{
    set(tube, JOB_SETTING_TRIES, (struct job_settings){.is[JOB_SETTING_TRIES] = tries});
}

static inline void watch(struct jobs_client *client, const char *tube)
{
    uint32_t count;
    ck_assert(jobs_watch(client, bytes_of(tube), &count) == JOBS_OK);
}

/* ---- reservations ---------------------------------------------------------------------------- */

static inline uint64_t seen(struct job_view *view)
{
    ck_assert(view->body != NULL);
    job_body_drop(rig.jobs, &view->body);
    return view->id;
}

/* The job that a client is given at once; 0: none. */
static inline uint64_t reserve(struct jobs_client *client, int64_t timeout_ns)
{
    struct job_view view;
    bool is = jobs_reserve(client, timeout_ns, &view, rig.now) == JOBS_OK;
    return is ? seen(&view) : 0;
}

/* The job that a wait has brought; 0: none yet. */
static inline uint64_t heard(struct jobs_client *client)
{
    struct job_view view;
    return rig_hears(client) && jobs_read(client, &view) ? seen(&view) : 0;
}

/* A job whose reservation is committed first, if it needs that. */
static inline uint64_t take(struct jobs_client *client)
{
    uint64_t id = reserve(client, JOBS_FOREVER);
    if (id != 0)
        return id;
    rig_commit();
    return heard(client);
}

/* The client has begun to wait. */
static inline void waits(struct jobs_client *client, int64_t timeout_ns)
{
    struct job_view view;
    ck_assert(jobs_reserve(client, timeout_ns, &view, rig.now) == JOBS_WAITS);
}

/* ---- what is there --------------------------------------------------------------------------- */

/* State JOB_STATES: it is not there. */
static inline struct job_stats stats_of(uint64_t id)
{
    struct job_stats stats = {.state = JOB_STATES};
    (void)!jobs_stats_job(rig.jobs, id, rig.now, &stats);
    return stats;
}

static inline unsigned state_of(uint64_t id)
{
    return stats_of(id).state;
}

static inline unsigned stored(uint64_t id)
{
    struct job_changing now;
    return fake_disk_job(disk, id, &now) ? now.state : JOB_STATES;
}

static inline struct tube_stats tube_of(const char *tube)
{
    struct tube_stats stats = {.name = ""};
    (void)!jobs_stats_tube(rig.jobs, bytes_of(tube), rig.now, &stats);
    return stats;
}

/* Lets the jobs do what is due, without a commit. */
static inline void run_jobs(unsigned times)
{
    struct jobs_outbox outbox;
    while (times-- > 0) {
        jobs_outbox_init(&outbox);
        jobs_run(rig.jobs, rig.now, &outbox);
        rig_send(&outbox);
    }
}

#endif
