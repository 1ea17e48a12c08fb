/*
 * commit_rig.h - jobs over a store, for tests: the test plays the store's thread, in pieces.
 *
 * A request is a change with everything that it points to; `done` says that it is answered.
 * Messages of clients are kept until the test reads them (rig_hears).
 */
#ifndef COMMIT_RIG_H
#define COMMIT_RIG_H

#include "jobs/jobs.h"
#include "jobs/jobs_commit.h"
#include "jobs/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RIG_PUTS 4u

struct ask;

struct rig {
    struct jobs_config config;
    const struct job_store_kind *kind;
    struct job_store_config store_config;

    struct jobs *jobs;
    struct job_store *store;
    struct moment now;
    uint64_t ids_end; /* ids below it may be used */
    uint64_t rings, answers;
    uint64_t empty; /* bytes that the jobs use when there is nothing */

    struct mail_list messages; /* of clients */
    struct job_op_list list;   /* that the store's thread has */
    bool has_list, written;
    void (*on_damage)(uint64_t id); /* the store could not change a job; NULL */
    bool last_failed;               /* a commit, and none with puts has succeeded since */
    uint64_t commits, failed_commits;
};

struct ask {
    struct job_op op; /* first */
    enum jobs_status status;
    bool done, orphan, good; /* for the test: who asked has gone; its token was good then */
    uint64_t answer;         /* they are numbered */
    struct job_put puts[RIG_PUTS];
    struct job_duplicate duplicates[RIG_PUTS];
    struct jobs_kick kick;
    struct jobs_clear clear;
    struct job_settings settings;
    struct job_view view;
    char reason[JOBS_READ_ONLY_MAX + 1];
    char tube[JOBS_TUBE_MAX], names[RIG_PUTS][2][JOBS_KEY_MAX];
};

/* The wall clock, which tests move: it is `now` and this. */
extern int64_t rig_wall_offset_ns;
/* How many watches are many from the next rig_begin on (struct jobs_config). */
extern uint32_t rig_many_watches;
/* The same of log_bytes of the store. */
extern uint32_t rig_log_bytes;
/* The one rig of a test; its clock gives the time. */
extern struct rig rig;
int64_t rig_wall_ns(void);
int64_t rig_wall_ms(void);

/* Begins with a store that is opened at `path`. */
void rig_begin(const struct job_store_kind *kind, const char *path);
/* The same with rig.config and rig.now as they are. */
void rig_start(const struct job_store_kind *kind, const char *path);
/* Has other jobs use the store, as after an upgrade. */
bool rig_adopt(struct jobs *jobs);
/* Opens the store and loads from it. */
enum job_store_status rig_open(void);
/* Closes without settling anything. All clients must have ended. */
void rig_close(void);
/* The process ends now, whatever is under way. Free the requests that have no answer then. */
void rig_crash(struct ask *const *asks, size_t count);
/* Closes and opens again. */
void rig_restart(void);
void rig_pass_ns(int64_t ns); /* the clocks go on */
void rig_pass(double seconds);

/* The store's thread. rig_take returns false when nothing is queued. */
bool rig_take(void);
void rig_write(void);
void rig_settle(void);
/* All three until nothing is queued. */
void rig_commit(void);
/* Does what is due, and commits it. */
void rig_run(void);
struct jobs_client *rig_client(void);
void rig_end(struct jobs_client **client);
/* Takes a message of a client. Returns false when there is none. */
bool rig_hears(struct jobs_client *client);
void rig_send(struct jobs_outbox *outbox);

/* ---- requests -------------------------------------------------------------------------------- */

struct ask *ask_new(struct jobs_client *client, enum job_op_kind kind);
/* The same for a change of one job. */
struct ask *ask_act(struct jobs_client *client, enum job_verb verb, uint64_t id);
/* Submits; `done` and `status` are set when the answer is there. */
struct ask *ask_submit(struct ask *ask);
void ask_free(struct ask **ask);
void ask_tube(struct ask *ask, const char *tube);
/* Adds a put, with an id. The body is `text`. */
struct job_put *ask_put(struct ask *ask, const char *tube, const char *text);
void ask_key(struct ask *ask, const char *key, int64_t at_ms);
void ask_root(struct ask *ask, const char *root, int64_t root_ms);

#endif
