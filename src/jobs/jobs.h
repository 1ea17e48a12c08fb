/*
 * jobs.h - tubes of jobs, and the clients that reserve them. (Protocol page: job queues.)
 *
 * A job is in one tube for life and in one state: ready, delayed, reserved, buried, or abandoned
 * (buried because it ran out of tries). A client is what one connection uses, watches, has reserved
 * and waits for. A tube exists while a job, a client or a setting refers to it.
 *
 * The next job of a tube is the first in its order. A job that becomes ready goes at once to the
 * client that has waited longest for its tube. So a tube never has both ready jobs and waiters,
 * unless it is paused or read-only.
 *
 * No change costs more with more tubes, jobs or waiters, but for logarithms. What touches many
 * jobs takes a bound, and the caller calls it again.
 *
 * Threads: one lock for all of it (LOCK_RANK_JOBS), which each function takes itself. Functions
 * with a client are called in the thread of its connection alone. A call may cause messages to
 * other clients (struct jobs_outbox), which the caller sends when it returns. `now` is the time of
 * the call: deadlines are monotonic, ages are by the wall clock.
 */
#ifndef JOBS_JOBS_H
#define JOBS_JOBS_H

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mail.h"
#include "base/ring.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jobs;
struct jobs_client;
struct tube_watch;

#define JOBS_TUBE_MAX      200u        /* bytes of a tube's name */
#define JOBS_KEY_MAX       64u         /* bytes of a key, or of a root's signature */
#define JOBS_READ_ONLY_MAX 200u        /* bytes of the reason */
#define JOB_BODY_MAX       (64u << 20) /* bytes */
#define JOBS_STEP          1000u       /* the most jobs that one call touches */
#define JOBS_TOKEN_MAX     UINT64_C(9007199254740991)

enum jobs_status {
    JOBS_OK,
    JOBS_WAITS, /* a message will come */
    JOBS_TIMED_OUT,
    JOBS_DEADLINE_SOON, /* the client has a reservation in its last second */
    JOBS_NOT_FOUND,
    JOBS_BURIED,      /* instead of ready: the job has run out of tries */
    JOBS_NOT_IGNORED, /* the client watches nothing else */
    JOBS_READ_ONLY,
    JOBS_TUBE_FULL,
    JOBS_NO_MEMORY, /* nothing has changed */
    JOBS_COMMITS,   /* a message will come when it is committed (jobs_commit.h) */
    JOBS_IO,        /* the store cannot read a body */
};

/* States of a job. */
enum job_state { JOB_READY, JOB_DELAYED, JOB_RESERVED, JOB_BURIED, JOB_ABANDONED, JOB_STATES };

/* What is counted of a job. */
enum job_count { JOB_RESERVES, JOB_TIMEOUTS, JOB_RELEASES, JOB_BURIES, JOB_KICKS, JOB_COUNTS };
struct job_counts {
    uint32_t of[JOB_COUNTS];
};

/* The word of a state; JOB_ABANDONED has its own, "abandoned". */
const char *job_state_word(enum job_state state);

/* ---- memory ----------------------------------------------------------------------------------
 *
 * All that clients make the jobs keep is counted against a limit; jobs_memory.c says what each need
 * may use.
 */

enum jobs_need {
    JOBS_PUTS,
    JOBS_TUBES, /* new tubes and watches */
    JOBS_REST,  /* all else: clients, waits, reservations, reading, lists */
    JOBS_ENDS,  /* what ends a job, or prolongs its reservation */
    JOBS_NEEDS
};

/* The word of a need, for metrics. */
const char *jobs_need_word(enum jobs_need need);

/* A reload has changed the limit. What is there stays, and ends. */
void jobs_set_memory_limit(struct jobs *jobs, uint64_t limit);
/* Counts memory that the caller keeps for clients. With a store, bodies that it has give way.
 * Returns false when the need may not use so much; then nothing is counted, but the refusal. Any
 * thread; may lock. */
bool jobs_charge(struct jobs *jobs, enum jobs_need need, size_t bytes) MUST_USE;
/* Counts it no more. Any thread; does not lock. */
void jobs_uncharge(struct jobs *jobs, size_t bytes);

/* ---- bodies ---------------------------------------------------------------------------------- */

/*
 * What a job is about. Shared by counting; it never changes while it is shared.
 *
 * It counts against the memory limit while its keeper has it: who made it, and then the job. What
 * only answers refer to counts towards the output of their connections instead, so that a client
 * that does not read uses up nobody else's memory.
 */
struct job_body {
    _Atomic uint32_t refs; /* and JOB_BODY_KEPT: the keeper's is one of them */
    uint32_t len;
    uint8_t bytes[];
};
#define JOB_BODY_KEPT (UINT32_C(1) << 31)

/*
 * Makes a body with room for `len` bytes; the caller is its keeper, and fills it. NULL: no memory.
 * Both may lock.
 */
struct job_body *job_body_new(struct jobs *jobs, enum jobs_need need, uint32_t len) MUST_USE;
/* Makes *body another size, which must not be shared. Returns false without memory; *body is as
 * before. */
bool job_body_resize(struct jobs *jobs, enum jobs_need need, struct job_body **body,
                     uint32_t len) MUST_USE;
struct job_body *job_body_share(struct job_body *body);
/* Gives up a reference, and sets *body to NULL. Harmless when it is NULL. Any thread. A keeper
 * calls it only if nobody shares the body. */
void job_body_drop(struct jobs *jobs, struct job_body **body);
/* The same for the keeper of a body that may be shared. */
void job_body_leave(struct jobs *jobs, struct job_body **body);
/* The reference of an answer goes on to a connection's output, which counts the bytes from now on.
 * Returns them; the output calls job_body_written with them. Any thread. */
const uint8_t *job_body_to_output(struct jobs *jobs, struct job_body **body);
void job_body_written(const void *bytes);

/* ---- settings of tubes ----------------------------------------------------------------------- */

enum job_order { JOB_ORDER_PRIORITY, JOB_ORDER_FIFO, JOB_ORDER_RANDOM };
enum job_claim { JOB_CLAIM_CONNECTION, JOB_CLAIM_LEASE };

enum job_setting {
    JOB_SETTING_ORDER,     /* enum job_order */
    JOB_SETTING_CLAIM,     /* enum job_claim */
    JOB_SETTING_TRIES,     /* 0: no end */
    JOB_SETTING_LIMIT,     /* jobs; 0: none */
    JOB_SETTING_PRUNE,     /* seconds; 0: never */
    JOB_SETTING_REMEMBER,  /* seconds; of executions */
    JOB_SETTING_READ_ONLY, /* a text; those before it are numbers */
    JOB_SETTINGS
};

struct job_settings {
    uint32_t given; /* a bit for each enum job_setting that was given */
    uint32_t is[JOB_SETTING_READ_ONLY];
    char read_only[JOBS_READ_ONLY_MAX + 1]; /* the reason; empty: it is not */
};

/* How people write a setting. */
struct job_setting_row {
    const char *key;
    const char *const *words; /* of its values; NULL: it is a number */
    uint32_t max;
};
extern const struct job_setting_row job_setting_rows[JOB_SETTINGS];

/* The settings of tubes that were given none. */
extern const struct job_settings job_default_settings;

/* ---- life ------------------------------------------------------------------------------------ */

struct jobs_config {
    uint64_t memory_limit;        /* bytes, of all that clients make it keep */
    struct job_settings defaults; /* of tubes */
    struct hash_key hash_key;
    uint64_t seed;     /* of random choices and tokens */
    uint64_t first_id; /* 1, or above those of before */
    /* The wall clock in ms, for what is compared with times of clients; called under the lock.
     * NULL: the whole seconds of `now`. */
    int64_t (*wall_ms)(void);
    uint32_t many_watches; /* a client that watches more tubes watches many; 0: JOBS_MANY_WATCHES */
};

/* Up to so many watched tubes are looked at one by one. */
#define JOBS_MANY_WATCHES 100u

/* NULL: no memory. */
struct jobs *jobs_new(const struct jobs_config *config) MUST_USE;
/* Frees *jobs and sets it to NULL. All clients must have ended. */
void jobs_free(struct jobs **jobs);

/* What a call has caused for other clients. */
struct jobs_outbox {
    struct mail_list messages; /* jobs_client_of, to their tags */
    struct mail_list done;     /* struct job_op (jobs_commit.h) of owners, to their tags */
};
static inline void jobs_outbox_init(struct jobs_outbox *outbox)
{
    mail_list_init(&outbox->messages);
    mail_list_init(&outbox->done);
}

/*
 * Changes the settings of tubes that were given none, and what follows from that in up to JOBS_STEP
 * tubes from *place on (0: the first). Returns true when it is done; else call it again.
 */
bool jobs_set_defaults(struct jobs *jobs, const struct job_settings *defaults, uint64_t *place,
                       struct moment now, struct jobs_outbox *outbox);

/*
 * Does what is due: delays, pauses and reservations that are over. Does a bounded amount of work.
 * Call it when jobs_next_ns has passed.
 */
void jobs_run(struct jobs *jobs, struct moment now, struct jobs_outbox *outbox);
/* The time at which something is due (monotonic); INT64_MAX: never. Any call may change it. */
int64_t jobs_next_ns(const struct jobs *jobs);

/* ---- clients --------------------------------------------------------------------------------- */

/* Makes the client of a connection. It uses and watches `default`. NULL: no memory. */
struct jobs_client *jobs_client_new(struct jobs *jobs, uint64_t tag, void *owner) MUST_USE;
/*
 * Ends a client: its wait is gone first, then its reservations become ready in the order of
 * reserving, at their old places, but for leases, which go on; then its watches go. If these are
 * many, jobs_run goes on, so that others are served in between. Frees the client, or the message on
 * its way does.
 */
void jobs_client_end(struct jobs_client *client, struct moment now, struct jobs_outbox *outbox);
/* Makes all steps that are left of such ends; an upgrade knows nothing of these clients. Tubes are
 * served later. Returns true when there were any. */
bool jobs_finish_ends(struct jobs *jobs, struct moment now);
/* The daemon ends: clients that wait get no more jobs. Their connections end too, and a job that
 * one gave back must not lose a try by the other. Any thread. */
void jobs_stop_serving(struct jobs *jobs);

struct jobs_client *jobs_client_of(struct mail *mail);
void *jobs_client_owner(const struct jobs_client *client);
/* A message has come. Returns false, and frees the client, when it has ended; else call
 * jobs_read. */
bool jobs_client_message(struct jobs_client *client);

/* True while a wait has not ended, or its end was not read. */
bool jobs_client_waits(const struct jobs_client *client);
/* The number of reservations of a client, with those of its message. */
uint32_t jobs_client_reserved(const struct jobs_client *client);

/* ---- jobs ------------------------------------------------------------------------------------ */

/* A job as it is told to a client. */
struct job_view {
    uint64_t id;
    struct job_body *body; /* a reference, which the caller drops; NULL: only the store has it */
    uint32_t body_len;     /* bytes */
    bool unreadable;       /* after JOB_OP_READ: the job is there, but not its body */
    uint64_t token;        /* of the reservation; 0: none */
    uint32_t tries;        /* 1: this is the first; if it is not reserved, those used so far */
    enum job_state state;
    struct {
        uint8_t len;
        char text[JOBS_TUBE_MAX];
    } tube;
};

/* The most bytes of an answer that a job needs besides its body and its tube's name. */
#define JOBS_LINE 80u

/* The jobs of a claim. */
struct job_views {
    size_t count;
    struct job_view at[];
};

/* The first of `count` ids in a row. Ids are never used twice. Any thread; does not lock. */
uint64_t jobs_take_ids(struct jobs *jobs, uint32_t count);

struct job_put {
    struct bytes tube; /* of a name that is good; empty: the one that the client uses */
    uint64_t id;
    uint32_t pri, delay_s, ttr_s;
    uint32_t tries;                    /* instead of the tube's; JOB_TRIES_OF_TUBE */
    struct job_body *body;             /* becomes the job's when the answer is JOBS_OK */
    struct bytes key, root;            /* empty: none; the root is its signature */
    int64_t at_ms, root_ms;            /* of the wall clock; at_ms only with has_at */
    bool has_at, at_whole, root_whole; /* whole: it stands for the end of that second */
    struct job_duplicate *duplicate_r; /* with a key or root: set when the answer is JOBS_OK */
};
struct job_duplicate {
    bool is; /* nothing was stored */
    uint64_t
        of; /* the id of the job that is there already; 0: it was executed, or its root is old */
};
#define JOB_TRIES_OF_TUBE UINT32_MAX

/* How long a client waits. */
#define JOBS_FOREVER INT64_MAX

/*
 * Reserves the next job of the watched tubes: OK (*view_r), DEADLINE_SOON, or, when there is none,
 * TIMED_OUT with `timeout_ns` 0 and WAITS otherwise. The caller ends the wait when its time is over
 * (jobs_end_wait), and asks jobs_wait_soon_ns when it waits. NO_MEMORY. Whatever the timeout, WAITS
 * also while the reservation is committed by a store, and when so many stale jobs are in front that
 * the search goes on: before the caller ends a wait, it calls jobs_search.
 */
enum jobs_status jobs_reserve(struct jobs_client *client, int64_t timeout_ns,
                              struct job_view *view_r, struct moment now) MUST_USE;

struct job_claim_request {
    const struct bytes *tubes; /* good names; none: the watched ones */
    size_t tube_count;
    uint32_t count; /* 1 to JOBS_STEP */
    int64_t timeout_ns;
    size_t answer_max; /* bytes: the answer ends before the job that would pass it, after one */
};

/*
 * Reserves up to `count` ready jobs of several tubes, which take turns. OK: *count_r of them are in
 * views_r. Else as jobs_reserve, but never DEADLINE_SOON. READ_ONLY: every tube is; *reason_r is a
 * text of JOBS_READ_ONLY_MAX + 1 bytes.
 */
enum jobs_status jobs_claim(struct jobs_client *client, const struct job_claim_request *request,
                            struct job_view *views_r, size_t *count_r, char *reason_r,
                            struct moment now) MUST_USE;

/* Which tubes `ready` lists. */
struct jobs_ready {
    struct bytes pattern; /* a name; or the beginning of names, which may be empty */
    struct bytes after;   /* only greater names; empty: all */
    bool prefix;
    uint32_t limit;
};
typedef void jobs_ready_visit(void *arg, struct bytes name, uint64_t count);
/*
 * Visits the tubes from which a claim would get a job now, by name: OK; if there is none, TIMED_OUT
 * or with `waits` WAITS, NO_MEMORY. The caller ends the wait (jobs_end_wait).
 */
enum jobs_status jobs_list_ready(struct jobs_client *client, const struct jobs_ready *ready,
                                 bool waits, jobs_ready_visit *visit, void *arg) MUST_USE;
/* Visits them for a wait, when a message has come. Returns false when there is none: it goes on. */
bool jobs_read_ready(struct jobs_client *client, jobs_ready_visit *visit, void *arg) MUST_USE;

/* Makes a step of the search for a job with which a wait began. Returns true while it goes on: then
 * the wait has not ended, whatever its time. */
bool jobs_search(struct jobs_client *client, struct moment now,
                 struct jobs_outbox *outbox) MUST_USE;
/* The time when a waiting client must be told DEADLINE_SOON; INT64_MAX: never. */
int64_t jobs_wait_soon_ns(struct jobs_client *client);
/* Ends the wait. Returns true when it has ended; false when a job came first: call jobs_read, or
 * wait for the message if that returns false. */
bool jobs_end_wait(struct jobs_client *client) MUST_USE;
/* Reads how the wait has ended. Returns false when it goes on, or there was none. */
bool jobs_read(struct jobs_client *client, struct job_view *view_r) MUST_USE;
/* The same of a claim that was promised several jobs, which the caller frees; NULL: none. */
struct job_views *jobs_take_claimed(struct jobs_client *client);
void job_views_free(struct jobs *jobs, struct job_views **views);
/* True once when a reservation could not be committed; the wait goes on. */
bool jobs_was_refused(struct jobs_client *client);

/* A kick of many jobs, in steps. Begin with everything zero but `left`. */
struct jobs_kick {
    uint32_t left; /* how many may be kicked yet */
    uint32_t kicked;
    bool begun, buried; /* it kicks buried ones */
    uint64_t tube;      /* the tube's number, which no later tube of its name has */
    uint64_t turn, id; /* it passes by what is before this place: jobs that the store has damaged */
};

/* What jobs_peek looks for. */
enum job_peek { JOB_PEEK_READY, JOB_PEEK_DELAYED, JOB_PEEK_BURIED };
enum jobs_status jobs_peek(struct jobs *jobs, uint64_t id, struct job_view *view_r) MUST_USE;
enum jobs_status jobs_peek_next(struct jobs_client *client, enum job_peek what,
                                struct job_view *view_r) MUST_USE;

/* ---- tubes ----------------------------------------------------------------------------------- */

/* OK, NO_MEMORY. */
enum jobs_status jobs_use(struct jobs_client *client, struct bytes name) MUST_USE;
/* OK with the number of watched tubes, NO_MEMORY. */
enum jobs_status jobs_watch(struct jobs_client *client, struct bytes name,
                            uint32_t *count_r) MUST_USE;
/* OK with the number, NOT_IGNORED. */
enum jobs_status jobs_ignore(struct jobs_client *client, struct bytes name,
                             uint32_t *count_r) MUST_USE;
/* Writes the name of the used tube to `name_r` (JOBS_TUBE_MAX bytes). Returns its length. */
size_t jobs_used(struct jobs_client *client, char *name_r);

/* The settings of tubes that were given none. */
void jobs_get_defaults(struct jobs *jobs, struct job_settings *settings_r);

/* A clear of many jobs, in steps: deletes those that were in the state when it began, and have been
 * since then. Begin with everything zero. */
struct jobs_clear {
    uint64_t deleted;
    uint64_t tube, before_id; /* as in struct jobs_kick; ids from this one on came later */
    uint64_t next_id;         /* the place of the next job to look at: */
    unsigned at;              /* in which state */
    unsigned state;           /* as in struct job_op */
    uint32_t number, round; /* which it is; jobs that came since then have this or a greater one */
    bool begun, again;      /* again: it has passed by jobs under change */
    struct ring running;    /* without a store: of those under way */
};
/* The states of `list-jobs` and `clear`: an enum job_state, or all. For `clear`, all but reserved.
 * JOB_BURIED has the abandoned ones, too. */
#define JOBS_ALL ((unsigned)JOB_STATES)
/* It is given up. Harmless when it is not under way. */
void jobs_clear_end(struct jobs *jobs, struct jobs_clear *clear);
/* It goes on after an upgrade, with the `number` that it had. */
void jobs_clear_restored(struct jobs *jobs, struct jobs_clear *clear);

/*
 * The jobs of a tube in a state with ids greater than `after`, ascending, at most `limit` and
 * JOBS_STEP, in an answer of `answer_max` bytes as in struct job_claim_request. *next_r is the last
 * id, or 0 when there are no more. OK, NOT_FOUND.
 */
enum jobs_status jobs_list(struct jobs *jobs, struct bytes name, unsigned state, uint64_t after,
                           size_t limit, size_t answer_max, struct job_view *views_r,
                           size_t *count_r, uint64_t *next_r) MUST_USE;

/* ---- statistics ------------------------------------------------------------------------------ */

struct job_stats {
    uint64_t id;
    char tube[JOBS_TUBE_MAX + 1];
    enum job_state state;
    uint32_t pri, delay_s, ttr_s;
    uint64_t age_s, time_left_s;
    struct job_counts counts;
    uint32_t tries;    /* as in struct job_view */
    uint32_t body_len; /* bytes */
};
enum jobs_status jobs_stats_job(struct jobs *jobs, uint64_t id, struct moment now,
                                struct job_stats *stats_r) MUST_USE;

struct tube_stats {
    char name[JOBS_TUBE_MAX + 1];
    struct job_settings settings; /* in force */
    uint64_t states[JOB_STATES], urgent;
    uint64_t using, watching, waiting;
    uint64_t total_jobs; /* put since the tube was made */
    uint64_t cmd_delete, cmd_pause;
    uint64_t pause_s, pause_left_s;
    uint64_t oldest_ready_s;
    uint64_t duplicates, claims, dropped, acks, recycled, abandoned;
};
enum jobs_status jobs_stats_tube(struct jobs *jobs, struct bytes name, struct moment now,
                                 struct tube_stats *stats_r) MUST_USE;

/* As jobs_list, with statistics instead of bodies. */
enum jobs_status jobs_list_stats(struct jobs *jobs, struct bytes name, unsigned state,
                                 uint64_t after, size_t limit, struct moment now,
                                 struct job_stats *stats_r, size_t *count_r,
                                 uint64_t *next_r) MUST_USE;

/*
 * The statistics of tubes in the order of creation, from `*place` on (0: the first), at most
 * `budget`. *place is where to go on. Returns true when all were visited. A tube that is there all
 * the time is visited once. `visit` must not call this engine.
 */
bool jobs_visit_tubes(struct jobs *jobs, uint64_t *place, unsigned budget, struct moment now,
                      void (*visit)(void *arg, const struct tube_stats *stats), void *arg);

/* Over all tubes. */
struct jobs_stats {
    uint64_t states[JOB_STATES], urgent;
    uint64_t tubes, waiting;
    uint64_t total_jobs, timeouts;
    uint64_t memory, memory_limit; /* bytes */
    uint64_t doomed; /* jobs that are stale or to be pruned, and not yet deleted from the store */
    uint64_t steps;  /* since the start: what met its bound and went on after others */
    uint64_t refused[JOBS_NEEDS]; /* so often there was no memory for it */
    /* Watches that were visited, places of `ready`, what clients that ended gave back, and puts of
     * a batch, for the keys of others. */
    uint64_t visits;
};
void jobs_get_stats(struct jobs *jobs, struct jobs_stats *stats_r);
/* The number of reservations that connections have. Any thread; does not lock. */
uint64_t jobs_held(const struct jobs *jobs);

/*
 * Names of tubes in the order of creation, from `*place` on (0: the first), at most `budget`, which
 * are shared like bodies. *place is where to go on. Sets the number of names in *count_r. Returns
 * true when there are no more. A tube that is there all the time is listed once.
 */
bool jobs_list_tubes(struct jobs *jobs, uint64_t *place, unsigned budget, struct job_body **names_r,
                     size_t *count_r);
/* The same of the tubes that a client watches, in the order of watching. Begin with *place NULL.
 * Between two calls, it must neither watch nor ignore. */
bool jobs_list_watched(struct jobs_client *client, struct tube_watch **place, unsigned budget,
                       struct job_body **names_r, size_t *count_r);

#endif
