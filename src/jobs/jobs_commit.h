/*
 * jobs_commit.h - changes of jobs. (Protocol page: job queues, sections 3, 6 and 8.)
 *
 * Each is a change (struct job_op). Without a store, jobs_submit makes it at once. With one, it
 * takes effect when it is committed:
 *
 *     jobs_submit  decides what changes, locks those jobs, and queues the change
 *     the store's thread takes what is queued (jobs_take_ops), writes it in one transaction
 *                  (job_ops_read, job_ops_write), and says how that went
 *     jobs_settle  makes the changes in memory, or forgets them; the changes that are done go
 *                  back to their owners as messages
 *
 * A change that concerns a job, a key or the settings of a tube under change is deferred, and
 * decided again after that commit, in the order of arrival. A put whose key is not in memory is
 * decided in two rounds: the first only reads when that key was executed. The same thread reads
 * bodies that memory has no room for.
 *
 * Some changes are the jobs' own: reservations that a client waits for, jobs that are dropped or
 * pruned, last tries that end. They are tried again when they fail. If the store has the job
 * damaged, it is buried instead, in memory alone if need be, until somebody looks at it.
 *
 * What changes many jobs goes in steps: kicks, clears and drops of up to JOBS_OP_STEP jobs; and
 * last tries that end, so many together. A transaction has one step, behind what else is queued;
 * what comes meanwhile waits for it, and has one beside it in its own transaction. Under way are at
 * most JOBS_OWN_MAX jobs of the jobs' own, and JOBS_MANY_MAX steps of clients.
 *
 * What clients ask for is written in order, but behind that of others from the 33rd write of a
 * client on that is under way, and with more than 32 writes (JOB_OP_FEW). A transaction has half as
 * many of those.
 *
 * Threads: jobs_submit in the thread of the client; the rest in that of the store, where the jobs'
 * lock is held only while something is decided or made. One thread at a time.
 */
#ifndef JOBS_JOBS_COMMIT_H
#define JOBS_JOBS_COMMIT_H

#include "jobs/job_change.h"
#include "jobs/jobs.h"
#include "jobs/store.h"

struct tube;

/* ---- inside of changes ----------------------------------------------------------------------- */

enum job_write_kind {
    JOB_WRITE_NOTHING, /* it only reads a body */
    JOB_WRITE_PUT,
    JOB_WRITE_CHANGE,
    JOB_WRITE_REMOVE,
    JOB_WRITE_REMEMBER, /* an execution, or a root's time */
    JOB_WRITE_FORGET,   /* the same */
    JOB_WRITE_TUBE,
    JOB_WRITE_LOOK, /* reads when a key was executed, or a root's newest time */
};

/* One thing that the store's thread does for a change, without the engine's memory. */
struct job_write {
    enum job_write_kind kind;
    uint32_t handle; /* of a locked job; JOB_NONE */
    uint64_t id;
    struct job_change change;
    union {
        struct job_changing now; /* JOB_WRITE_PUT, JOB_WRITE_CHANGE */
        uint32_t pause_s;        /* JOB_WRITE_TUBE; its end is time_ns */
        struct {                 /* JOB_WRITE_REMEMBER, JOB_WRITE_FORGET, JOB_WRITE_LOOK */
            enum job_memory_kind memory;
            struct bytes name; /* text of the owner */
        };
    };
    struct job_mark *mark; /* of a look: it is kept until the put is decided */

    /* JOB_WRITE_PUT */
    const struct job_put *put;
    int64_t put_ns;

    /* A job with a key leaves it: before JOB_WRITE_REMOVE. */
    struct job_mark *leaves;
    bool executes; /* the store keeps time_ns and forget_ns */

    int64_t time_ns, forget_ns;
    bool is_over; /* of a look: the store has a time that it should have forgotten */

    bool damaged; /* the store cannot write it, because what it has there is damaged */

    /* A body is read first. */
    bool reads, unreadable;
    uint32_t body_len;
    struct job_body *body;
};

/* ---- changes --------------------------------------------------------------------------------- */

#define JOBS_OP_STEP  256u
#define JOBS_OWN_MAX  ((size_t)4 * JOBS_OP_STEP)
#define JOBS_MANY_MAX 2u

/* Each says what it reads of struct job_op, and its answers. */
enum job_op_kind {
    /* act.client, puts, count: all of these jobs are added in order, or none. OK, READ_ONLY,
     * TUBE_FULL, NO_MEMORY (`failed` is the first that could not be added). */
    JOB_OP_PUT,
    /* act: a change of one job. OK; BURIED: the job is given back, and has run out of tries;
     * NOT_FOUND. JOB_RESERVE sets views[0]. */
    JOB_OP_ACT,
    /* act.client, kick: a step for the used tube. OK; WAITS: submit it again. */
    JOB_OP_KICK,
    /* tube, state, clear, reason: a step. OK; WAITS: submit it again, or call jobs_clear_end;
     * NOT_FOUND, READ_ONLY (`reason`), NO_MEMORY: far too many began meanwhile. */
    JOB_OP_CLEAR,
    /* tube, seconds; 0 end a pause. OK, NOT_FOUND. */
    JOB_OP_PAUSE,
    /* tube, settings: sets those that are given, and makes the tube if it is new. OK, NO_MEMORY. */
    JOB_OP_SET_TUBE,
    /* views, view_count: those without a body get it; a job that has gone gets none. OK, IO. */
    JOB_OP_READ,
    /* The jobs' own: */
    JOB_OP_GIVE,        /* reserve jobs for a client that waits */
    JOB_OP_CHANGE,      /* end the last try of a job, or bury one without a readable body */
    JOB_OP_DROP,        /* delete doomed jobs */
    JOB_OP_FORGET_TUBE, /* a tube that the store has a row of has gone */
};

struct job_op {
    struct message message; /* first; back to the owner, whose tag is in `message.to` */
    enum job_op_kind kind;
    struct job_act act;

    /* The answer. */
    enum jobs_status status; /* with a store also NO_MEMORY, and IO: what it has is damaged */
    bool
        deferred; /* jobs_submit has, or will: each commit looks at it; ask for no more meanwhile */
    size_t failed; /* see JOB_OP_PUT */

    /* Inside; jobs_submit sets it. */
    struct tube *of;
    struct put_plan *plans;
    struct job_settings *new_settings;
    struct job_write *writes;
    size_t write_count, write_room;
    enum job_store_status stored;
    bool fetches;    /* this round only asks the store for times of keys */
    bool has_writes; /* not only reads */
    bool counted;    /* in client->under_way */
    bool many;       /* it changes many jobs, and takes turns with others that do */
    bool behind;     /* it is written behind what others ask for */

    /* What is asked; each kind reads its own. All pointers are to the owner's memory, which stays
     * until the answer. */
    uint32_t seconds;
    unsigned state;
    struct bytes tube;
    const struct job_put *puts; /* duplicate_r of each is set */
    size_t count;
    const struct job_settings *settings;
    struct jobs_kick *kick;
    struct jobs_clear *clear;
    struct job_view *views;
    size_t view_count;
    char *reason; /* of READ_ONLY: JOBS_READ_ONLY_MAX + 1 bytes, the owner's */

    /* Room for one. */
    struct put_plan plan;
    struct job_write write;
};
/*
 * Uses a store from now on. `wake` is called when something is queued, by any thread, without the
 * jobs' lock. Call it before the first client comes. Returns false without memory.
 */
bool jobs_use_store(struct jobs *jobs, void (*wake)(void *arg), void *arg) MUST_USE;
bool jobs_has_store(const struct jobs *jobs);

/*
 * Decides a change, and without a store makes it. JOBS_COMMITS: it is the jobs' until its
 * message comes (outbox->done, of this call or of jobs_settle), with the answer in op->status. Any
 * other status is the answer; without a store, there is no JOBS_COMMITS.
 */
enum jobs_status jobs_submit(struct jobs *jobs, struct job_op *op, struct moment now,
                             struct jobs_outbox *outbox);

/* ---- the store's thread ---------------------------------------------------------------------- */

struct job_op_list {
    struct mail_list ops; /* their messages */
    struct job_op *rest;  /* the first one that is not yet committed, nor refused by itself */
    uint64_t max_id;      /* of new jobs */
    bool has_puts, has_writes;

    /* What was found damaged: how often, the last job (0: it was none), and why. */
    unsigned damages;
    uint64_t damaged_id;
    char damage_reason[JOB_STORE_REASON];
};

/* Takes what is queued until it has so many writes or bytes of bodies; then half as many of what is
 * behind, and a step. Returns false when nothing is queued. */
bool jobs_take_ops(struct jobs *jobs, struct job_op_list *list_r, size_t writes, size_t bytes);
/* True while something is queued, deferred, or with the store's thread. */
bool jobs_has_ops(struct jobs *jobs);

/* Reads what the changes need, outside of a transaction. */
void job_ops_read(struct jobs *jobs, struct job_store *store, struct job_op_list *list,
                  int64_t wall_ns);
/*
 * Writes their changes; `but_puts`: those of puts fail. The status is that of the store. An
 * change that meets damage fails alone, and a kick, clear or drop only leaves such jobs out:
 * those before it and behind it are committed in transactions of their own.
 */
enum job_store_status job_ops_write(struct job_store *store, struct job_op_list *list,
                                    int64_t mono_ns, bool but_puts);
/* Takes note of how the last transaction ended, for all that were in it. */
void job_ops_committed(struct job_op_list *list, enum job_store_status status, bool but_puts);

/*
 * Makes or forgets the changes, and decides what was deferred. `outbox` has the messages of
 * clients, and of changes that are done. Empties the list.
 */
void jobs_settle(struct jobs *jobs, struct job_op_list *list, struct moment now,
                 struct jobs_outbox *outbox);

/*
 * Upkeep of the store (job_store_kind.tend) is over, and took so long. Deletions of doomed jobs are
 * what makes it due often, and clients wait for it: they rest for 16 times as long, a second at
 * most, if clients have changed something since the last one. Returns the time until then.
 */
int64_t jobs_upkeep_over(struct jobs *jobs, int64_t took_ns, struct moment now);

/* ---- start ----------------------------------------------------------------------------------- */

/* Adds everything that a store has, as after the end of the process that wrote it. Reservations of
 * connections have ended. Bodies stay in the store. Returns the store's status. */
enum job_store_status jobs_load(struct jobs *jobs, struct job_store *store, struct moment now);
/* Ids go on from this one. */
void jobs_set_next_id(struct jobs *jobs, uint64_t next);

#endif
