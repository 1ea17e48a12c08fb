/*
 * jobs_internal.h - what both files of the model of jobs have: jobs.c has states, keys and roots,
 * and which job is next; jobs_calls.c has the calls, time and restarts.
 */
#ifndef MODELS_JOBS_INTERNAL_H
#define MODELS_JOBS_INTERNAL_H

#include "t/models/jobs.h"
#include "t/unit/random.h"

#define EACH_JOB(job)                                                                              \
    for (struct m_job *job = model.jobs; job < model.jobs + model.job_count; job++)

/* ---- jobs.c ---------------------------------------------------------------------------------- */

/* Forgets a tube, but for what is remembered of its keys and roots. */
void model_forget_tube(int t);
void model_make_tube(int t);
unsigned model_jobs_in(int tube);
bool model_is_read_only(int tube);

/* The store forgets at that time, memory when it runs then. */
void model_forget_key(int tube, int key);
bool model_is_of_old_root(const struct m_job *job);

/* True if a job must not be handed out: its key was executed since, or its root is old. */
bool model_is_stale(const struct m_job *job);
bool model_is_good(const struct m_job *job);

/* Of a ready or delayed job, it is due at once. */
bool model_is_due(const struct m_job *job);

/* The job of which a put would be a duplicate. */
struct m_job *model_twin_of(int tube, int key, int root);
void model_learn_root(int tube, int root, int64_t time_ms);

/* A put of a key, or its last job that goes, forgets an execution that is over, or ahead of the
 * clock, in the store, too. */
void model_forget_ahead(int tube, int key);

/* A reserved job is done. */
void model_execute(const struct m_job *job);
bool model_is_closed(int tube);
bool model_comes_before(const struct m_job *a, const struct m_job *b);

/* `chosen` is the one that the engine took. */
struct m_job *model_next_job(int tube, uint64_t chosen);
bool model_has_ready(int tube);
int64_t model_after(uint32_t seconds);
void model_remove_job(struct m_job *job);

/* A point in monotonic time, by the wall clock. */
int64_t model_wall_of(int64_t mono_ns);

/* The store has the job as it is. */
void model_keep(struct m_job *job);
uint32_t model_most_tries(const struct m_job *job);
void model_take(struct m_job *job, int client);
void model_serve(int tube);
void model_bury(struct m_job *job, enum job_state state);

/* A reservation ends. Returns true when it was the last try. */
bool model_give_back(struct m_job *job, uint32_t delay_s);

#endif
