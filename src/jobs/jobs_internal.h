/*
 * jobs_internal.h - the inside of the jobs, which the files of src/jobs share.
 *
 * A job is one slot of a page of JOB_PAGE slots, named by its handle (a number), so that it can
 * link others in 4 bytes. It is in two trees (job_tree.c), in a way that never allocates:
 *
 *     by id    tube->by_id[state]: of jobs of one state; for list-jobs, clear, the oldest ready job
 *     by turn  what comes next:
 *              ready      tube->ready, by priority
 *              delayed    tube->delayed, by the end of the delay
 *              reserved   client->reserved, by the end of the reservation
 *              buried     tube->buried, by time of burying
 *              abandoned  tube->abandoned, the same
 *
 * job_move changes a state, and everything that depends on it. Leases whose connection has gone
 * belong to a client of the jobs' own, `jobs->leases`.
 *
 * With a store, a job that waits for a commit is locked (job_lock): it keeps its state, but is in
 * trees of its own, so that nobody reserves it, nothing ends it, and lists and counts still have
 * it.
 *
 * With a store, too, a job that is stale or to be pruned is doomed (job_doom): that changes memory
 * alone, so it cannot fail. The job leaves the order of its state at once; lists and counts have it
 * until it is deleted, in steps (job_begin_drops). Whoever names it by its id may still change it.
 *
 * Everything is under jobs->lock, but for what is atomic.
 */
#ifndef JOBS_INTERNAL_H
#define JOBS_INTERNAL_H

#include "jobs/job_change.h"
#include "jobs/jobs.h"

#include "base/deadlines.h"
#include "base/lock.h"
#include "base/ring.h"
#include "base/tree.h"

#define JOB_NONE UINT32_MAX /* no handle */

struct job_node {
    uint32_t left, right;
};

/* What orders a set; the id decides between equals. */
enum job_tree_by {
    JOB_BY_ID,
    JOB_BY_TURN, /* priority or time, see above */
    JOB_DOOMED,  /* by id, of those that will be deleted; in the place of their turn */
    JOB_BY_KEY,  /* by root; of the jobs with one key */
    JOB_BY_ROOT, /* by time of the root; of the jobs with one root */
};

struct job_tree {
    uint32_t root, first; /* handles */
    uint32_t count;
    uint8_t by; /* enum job_tree_by */
};

#define JOB_PAGE 512u /* slots */

#define JOB_NO_TIME INT64_MIN

/* What is known of a key, or of a root's signature, of one tube. It is there while a job has it, or
 * while its time is remembered, also when the tube has gone. */
struct job_mark {
    uint64_t name[2]; /* a hash of tube, kind and text */
    struct job_mark *next_by_hash;
    struct job_tree jobs; /* the ready and delayed ones that have it */
    int64_t time_ms;  /* wall clock. Key: beginning of the last reservation that was executed; root:
                         the newest time; JOB_NO_TIME */
    int64_t until_ns; /* when the time is forgotten. Key: set while no job has it */
    struct deadline due; /* that, or at once while a root has jobs to be dropped */
    uint32_t refs;       /* jobs that have it, in any state; and changes that need it */
    uint32_t busy;       /* of a key: locked and coming jobs that have it; of a root: puts under way
                            that take its time out of the store */
    uint32_t leaving;    /* of those: the ones that will leave it */
    uint32_t lookers;    /* puts under way that need it for what they read */
    bool is_root;
    bool known; /* with a store: the time is what the store has */
    bool over;  /* the store may have a time that memory has forgotten: it is over, or of a key and
                   ahead of the wall clock; or a change of a key has failed, of which others were
                   planned. What is planned next replaces it */
    /* While puts are decided together (jobs_put.c): which, and what those before have planned. */
    uint64_t plan;
    int64_t planned_ms; /* of a root: the newest time */
};

/* Of a job with a key or a root. Times are milliseconds of the wall clock. */
struct job_keys {
    struct job_mark *key, *root; /* NULL: none */
    int64_t at_ms, root_ms;
    int64_t began_ms; /* of the reservation */
    struct job_node by_key, by_root;
};

struct job {
    uint64_t id; /* 0: the slot is free, and by_id.left the next free one */
    struct job_node by_id, by_turn;
    struct tube *tube;
    struct job_body *body;      /* NULL: only the store has it */
    struct jobs_client *holder; /* of a reserved one */
    uint64_t token;             /* the same */
    struct job_keys *keys;      /* NULL: it has neither key nor root */
    uint64_t turn; /* delayed, reserved: when that ends; buried: when it was, never equal; monotonic
                      ns */
    uint64_t put_ms : 42;  /* when it was put, in unix ms, until 2109 (job_set_put) */
    uint64_t entered : 19; /* jobs->clears when it came into its state (job_set_entered) */
    uint64_t state : 3;
    uint32_t next_by_hash;  /* handle */
    uint32_t prev_reserved; /* of a reserved one: of its holder, in the order of reserving */
    union {
        uint32_t next_reserved; /* the same */
        uint32_t came; /* of others: jobs->clears when it was put or its reservation ended */
    };
    uint32_t pri, delay_s, ttr_s;
    struct job_counts counts;
    uint32_t tries;         /* reservations since it was put or kicked */
    uint32_t tries_max;     /* JOB_TRIES_OF_TUBE; 0: no end */
    uint32_t body_len : 27; /* bytes, also of a body that only the store has */
    bool doomed : 1;        /* it will be deleted; not while it is locked for that */
    bool locked : 1;
    bool damaged : 1; /* the store could not change it, so changes of many jobs leave it out */
    bool is_lease : 1, last_try : 1; /* of the reservation; settings of its tube when it began */
};
#define CLEARS_MAX   ((UINT32_C(1) << 19) - 1)
#define PUT_MS_MAX   ((INT64_C(1) << 42) - 1)
#define BODY_LEN_MAX ((UINT32_C(1) << 27) - 1)
_Static_assert(JOB_STATES < 1 << 3 && JOB_BODY_MAX <= BODY_LEN_MAX, "they have their bits");
_Static_assert(sizeof(struct job) == 136, "there are millions of them");

struct tube {
    uint64_t number; /* in the order of creation, from 1 */
    uint64_t turn;   /* a hash of the name alone: the same when it vanishes and comes again */
    struct tube *next_by_hash;
    struct tree_node by_number, by_name; /* by_name: of those with something to claim */
    struct job_tree by_id[JOB_STATES], ready, delayed, buried, abandoned;
    struct job_tree locked_by_id[JOB_STATES], locked_by_turn[JOB_STATES];
    struct job_tree doomed_by_id[JOB_STATES];
    uint64_t urgent;
    uint64_t named;                    /* the last claim that named it */
    struct ring line;                  /* watches of the clients that wait for it, longest first */
    uint32_t using, watching, waiting; /* waiting: but for those that watch many tubes */
    /* Of clients that watch many (jobs_watch.c): watches that found no job; those that did, and the
     * last place among these; how many there are. */
    struct tree empty;
    struct ring looked;
    uint64_t told_id;
    uint32_t told_pri, many;
    int64_t paused_until_ns; /* 0: it is not paused */
    uint32_t pause_s;
    struct deadline due;          /* set by tube_set_due */
    struct job_settings settings; /* only those that are `given` */
    bool became_ready;            /* and no message has said so yet */
    bool serve_on;                /* a promise of tube_serve could not be made: it tries later */
    bool searching;               /* tube_serve has done so much that it goes on later */
    bool changing;                /* a change of its settings waits for its commit */
    bool kept;                    /* the store has a row of it */
    uint32_t coming;              /* new jobs that wait for their commit */
    uint32_t under_way;           /* changes that need it */
    uint64_t total_jobs, cmd_delete, cmd_pause;
    uint64_t duplicates, claims, dropped, acks, recycled, given_up;
    struct job_body *name; /* shared with lists, like a body */
};

/* A tube that a client watches, or names in a claim. */
struct tube_watch {
    struct tree_node node; /* of client->watches, by tube */
    struct ring order;     /* of client->watched, in the order of watching */
    uint64_t number;       /* rises in that order */
    struct ring line;      /* of tube->line, while the client waits; with many, see below */
    struct tube *tube;
    struct jobs_client *client;
    /* Of a client that watches many tubes (jobs_watch.c). `line` is of client->unseen or
     * tube->looked then. */
    struct tree_node by_turn, by_order; /* client->ready or tube->empty; client->turns */
    uint64_t place;                     /* id of a job, or age of a wait */
    uint32_t pri;
};

enum wait_state {
    NOT_WAITING,
    WAITING,
    PROMISED, /* jobs are locked for it, until a commit or until their bodies have been read */
    SERVED,
    ASKS,  /* waits for a tube with something to claim */
    ASKED, /* the same; there was one, and a message is on its way */
};

struct jobs_client {
    struct message message; /* first */
    struct jobs *jobs;
    void *owner;
    bool on_its_way;  /* the message */
    bool ended, gone; /* its connection has; nothing refers to it but the message */
    bool ends_on;     /* jobs_run goes on with its end, */
    int64_t ends_ns;  /* then */
    struct ring all;  /* of jobs->clients, or jobs->ending */
    struct tube *used;
    struct tree watches;
    struct ring watched;
    uint32_t watch_count;
    /* With many watches (jobs_watch.c): */
    bool many;
    bool passed_by; /* tubes that it waited for have got jobs, and kept them */
    bool lines_up;  /* it waits, and jobs_run goes on to look at what is not empty */
    struct tree ready, turns;
    struct ring unseen;
    struct tube_watch *last; /* of the tube that served it last; NULL: it does not watch that */
    struct tree_node by_age; /* of jobs->many_waits */
    struct job_tree reserved;
    uint32_t first_reserved, last_reserved; /* handles, in the order of reserving */
    uint32_t locked;                        /* of those */
    uint32_t under_way;                     /* changes that it asked for, or that serve it */
    uint32_t writes, behind;                /* their writes; how many are behind those of others */
    bool refused;                           /* what was promised could not be committed */
    struct deadline due;                    /* set by client_set_due */
    uint64_t turn;                          /* of the tube that served it last; see struct tube */
    enum wait_state wait;
    bool claims;              /* the wait is a claim's */
    bool searching;           /* it began before all ready jobs of its tubes were looked at */
    uint64_t age;             /* of the wait: smaller is older */
    struct tube_watch *named; /* the tubes of a waiting claim; NULL: the watched ones */
    size_t named_count, named_room;
    struct job_view served;
    struct job_views *claimed; /* what a claim was promised; NULL: it is in `served` */
    struct job_ask *ask;       /* in ASKS and ASKED */
};

struct jobs {
    struct lock lock;
    struct hash_key hash_key;
    struct job_settings defaults;
    uint64_t random;
    _Atomic uint64_t next_id;
    _Atomic uint64_t memory, memory_limit; /* bytes */
    _Atomic uint64_t memory_for_puts;
    _Atomic uint64_t memory_over; /* what was there when the limit was lower; 0: not too much */
    uint64_t limit_then;          /* while it is loaded or restored: the limit */
    _Atomic uint64_t refused[JOBS_NEEDS];
    _Atomic uint64_t held_now; /* reservations of connections */
    _Atomic int64_t next_ns;

    struct job **pages;
    bool *has_bodies;                 /* of each page: false is sure */
    _Atomic uint32_t pages_of_bodies; /* those for which it is true */
    uint32_t page_count, page_room;
    uint32_t free;                       /* handle of a free slot; JOB_NONE */
    uint32_t *by_hash, *old_by_hash;     /* jobs by id; old: while the table grows */
    uint32_t hash_mask, old_mask, moved; /* moved: buckets of the old table that are empty */
    uint32_t job_count;

    struct tube **tubes_by_hash, **old_tubes; /* old: while the table grows */
    size_t tube_mask, old_tube_mask, tubes_moved, tube_count;
    int64_t (*wall_ms)(void);
    struct hash_key mark_keys[2];
    struct job_mark **marks, **old_marks; /* by hash; old: while the table grows */
    size_t mark_mask, old_mark_mask, marks_moved, mark_count;
    struct tree tubes, ready_tubes; /* by number; by name */
    struct tree asks, prefix_asks;  /* for one name, for a beginning (jobs_ready.c) */
    struct tree many_waits;         /* of clients that watch many tubes, by age */
    uint32_t many_watches;
    uint64_t visits;                    /* see struct jobs_stats */
    uint64_t visits_noted, visits_most; /* when they were noted last; the most until the next */
    uint64_t tube_numbers, watch_numbers, last_burial;
    int64_t last_burial_wall_ns; /* in the store */

    struct deadlines due;
    struct ring clients;
    struct ring ending; /* those of them for whose end nothing is under way any more */
    struct jobs_client *leases;
    bool used;          /* somebody has used it */
    bool stopped;       /* clients that wait get no more jobs */
    uint64_t waits;     /* so far */
    uint64_t claims;    /* that named tubes, so far */
    uint32_t unclaimed; /* while it is restored: reservations whose connections have not come */
    uint64_t states[JOB_STATES], urgent, waiting, total_jobs, timeouts;
    uint64_t steps;           /* of what goes on later, so far */
    uint64_t plans;           /* puts that were decided together, so far */
    struct put_plan *planned; /* those that are being decided */
    size_t planned_count;
    unsigned looks;         /* stale jobs that those may yet look at for keys */
    uint32_t clears;        /* so far, or since they were last counted anew */
    uint32_t clear_rounds;  /* how often they were counted anew */
    struct ring clearing;   /* clears under way, without a store */
    struct job_ops *commit; /* NULL: there is no store */
    struct job_tree doomed; /* with a store */
    struct deadline drops;  /* when deletions of those begin */
    int64_t hold_until_ns;  /* the store fails: what the jobs themselves change waits until then */
    int64_t rest_until_ns;  /* so do deletions of doomed jobs, for the sake of clients */
    uint32_t evict_next;    /* the page where bodies give way next */
};

/* Kinds of jobs->due. */
enum { DUE_TUBE, DUE_CLIENT, DUE_MARK, DUE_DROPS };

static inline struct job *job_at(const struct jobs *jobs, uint32_t handle)
{
    return &jobs->pages[handle / JOB_PAGE][handle % JOB_PAGE];
}

static inline struct tube *tube_of_number(const struct tree_node *node)
{
    return container_of(unconst(node), struct tube, by_number);
}

static inline struct bytes tube_name(const struct tube *tube)
{
    return bytes_at(tube->name->bytes, tube->name->len);
}

/* ---- job_tree.c ------------------------------------------------------------------------------ */

static inline void job_tree_init(struct job_tree *tree, enum job_tree_by by)
{
    *tree = (struct job_tree){.root = JOB_NONE, .first = JOB_NONE, .by = (uint8_t)by};
}

/* Adds a job that is not in the set; removes one that is. The key must be the same in both. */
void job_tree_add(struct jobs *jobs, struct job_tree *tree, uint32_t handle);
void job_tree_remove(struct jobs *jobs, struct job_tree *tree, uint32_t handle);

/* The one of two jobs with the smaller id; JOB_NONE counts as none. The same by turn. */
uint32_t job_first_of(const struct jobs *jobs, uint32_t a, uint32_t b);
uint32_t job_first_turn_of(const struct jobs *jobs, uint32_t a, uint32_t b);

/* The first job with an id of at least `id`, of a set by id. JOB_NONE: none. */
uint32_t job_tree_from(const struct jobs *jobs, const struct job_tree *tree, uint64_t id);

/* The first job at or after this place of a set in another order: first by `major`, then by id. */
uint32_t job_tree_from_place(const struct jobs *jobs, const struct job_tree *tree, uint64_t major,
                             uint64_t id);
/* Calls `visit` for all, in order; for checks. Recursive. */
void job_tree_visit(const struct jobs *jobs, const struct job_tree *tree,
                    void (*visit)(void *arg, uint32_t handle), void *arg);

/* ---- jobs_life.c: life and lock -------------------------------------------------------------- */

void jobs_enter(struct jobs *jobs);
/* Notes when something is due next, and unlocks. */
void jobs_leave(struct jobs *jobs);

/* Others may get the lock. */
static inline void jobs_let_others(struct jobs *jobs)
{
    jobs_leave(jobs);
    jobs_enter(jobs);
}

/* So many visits there may be under one hold of the lock, or for one put of a batch (jobs_check).
 */
#define JOBS_VISITS_MAX (JOBS_STEP + 2 * JOBS_MANY_WATCHES)
/* A hold of the lock ends, or a put of a batch begins. */
void jobs_note_visits(struct jobs *jobs);

uint64_t jobs_random(struct jobs *jobs);

/* ---- jobs_memory.c --------------------------------------------------------------------------- */

void jobs_memory_init(struct jobs *jobs, uint64_t limit);
/* As jobs_charge, with the lock. */
bool jobs_charge_here(struct jobs *jobs, enum jobs_need need, size_t bytes) MUST_USE;
/* Memory that counts against the limit. */
void *jobs_alloc(struct jobs *jobs, enum jobs_need need, size_t size);
/* The same; that there is none counts as no refusal. */
void *jobs_try_alloc(struct jobs *jobs, enum jobs_need need, size_t size);
void jobs_release_memory(struct jobs *jobs, void *memory, size_t size);

/* What is loaded or restored was there already: the limit holds again afterwards. */
void jobs_begin_load(struct jobs *jobs);
void jobs_end_load(struct jobs *jobs);
/* A job of this page has a body that the store has, too. */
void jobs_note_body(struct jobs *jobs, uint32_t handle);
/* As job_body_new, with the lock. */
struct job_body *job_body_new_here(struct jobs *jobs, enum jobs_need need, uint32_t len);

/* ---- job_moves.c: slots, jobs by id, and moves ----------------------------------------------- */

/* Returns false without memory. */
bool job_slots_init(struct jobs *jobs) MUST_USE;
/* The handle of a job, or JOB_NONE. */
uint32_t job_find(const struct jobs *jobs, uint64_t id);
/* Counts the memory of `more` jobs, which job_make makes then without fail. */
bool jobs_reserve_slots(struct jobs *jobs, uint32_t more) MUST_USE;
/* Counts it no more. */
void jobs_unreserve_slots(struct jobs *jobs, uint32_t fewer);
/* Makes a job of this tube in no state, which no id finds yet. */
uint32_t job_make(struct jobs *jobs, struct tube *tube, uint64_t id);
/* From now on its id finds it. */
void job_publish(struct jobs *jobs, uint32_t handle);
/* Frees a job that was not published. */
void job_unmake(struct jobs *jobs, uint32_t handle, struct moment now);

/* Where a job goes in its new state. */
struct job_place {
    uint64_t turn;              /* see struct job */
    struct jobs_client *holder; /* of a reserved one */
    uint32_t pri;
};
/* Moves a job to a state; JOB_STATES: no more. Checks that there is such a move. */
void job_move(struct jobs *jobs, uint32_t handle, unsigned state, struct job_place to);
/* Moves a new job to whatever state, by way of others if need be. */
void job_place_restored(struct jobs *jobs, uint32_t handle, unsigned state, struct job_place to);
/* Locks a job; undoes it. A locked job is not moved. If its holder has ended and only waited for
 * this, it joins jobs->ending; clients_end follows. */
void job_lock(struct jobs *jobs, uint32_t handle);
void job_unlock(struct jobs *jobs, uint32_t handle);
/* Dooms a job, which is not locked; harmless if it is doomed. Moving, locking and unlocking it undo
 * that. */
void job_doom(struct jobs *jobs, uint32_t handle);
/* Deletes a job in whatever state. */
void job_remove(struct jobs *jobs, uint32_t handle, struct moment now);

/* ---- jobs_tubes.c ---------------------------------------------------------------------------- */

/* Returns false without memory. */
bool tubes_init(struct jobs *jobs, uint64_t seed) MUST_USE;
struct tube *tube_find(const struct jobs *jobs, struct bytes name);
/* What `turn` of a tube of this name is. */
uint64_t tube_turn(struct bytes name);
/* Finds or makes it; NULL: no memory. Follow by a reference, or tube_drop_if_unused. */
struct tube *tube_get(struct jobs *jobs, struct bytes name);
void tube_drop_if_unused(struct jobs *jobs, struct tube *tube);
/* The first tube whose number is at least this one; NULL: none. */
struct tube *tube_from(const struct jobs *jobs, uint64_t number);

/* A setting of a tube, but for JOB_SETTING_READ_ONLY. */
static inline uint32_t tube_setting(const struct jobs *jobs, const struct tube *tube,
                                    enum job_setting n)
{
    return tube->settings.given & 1u << n ? tube->settings.is[n] : jobs->defaults.is[n];
}
/* How often a job may be reserved; 0: no end. */
uint32_t job_tries(const struct jobs *jobs, const struct job *job);
const char *tube_read_only(const struct jobs *jobs, const struct tube *tube);
/* The next ready job in the tube's order, JOB_NONE: none. With JOB_ORDER_RANDOM, another one at
 * each call. */
uint32_t tube_next(struct jobs *jobs, const struct tube *tube);
/* The one of both kinds that was buried first, from this time on (0: the first); JOB_NONE: none. */
uint32_t tube_first_buried(const struct jobs *jobs, const struct tube *tube, uint64_t turn);
/* The first job of a state with an id of at least `id` that is not locked; JOB_NONE: none. */
uint32_t tube_from_id(const struct jobs *jobs, const struct tube *tube, unsigned state,
                      uint64_t id);
/* The number of jobs of a state, with those that are locked or doomed. */
static inline uint32_t tube_count(const struct tube *tube, unsigned state)
{
    return tube->by_id[state].count + tube->locked_by_id[state].count +
           tube->doomed_by_id[state].count;
}
/* True when nothing is reserved from it now. */
bool tube_is_closed(const struct jobs *jobs, const struct tube *tube);
/* The number of jobs in any state. */
uint64_t tube_jobs(const struct tube *tube);

/* Sets the time when something is due in a tube or a client, after a change. */
void tube_set_due(struct jobs *jobs, struct tube *tube);
void client_set_due(struct jobs *jobs, struct jobs_client *client);
/* Keeps jobs->ready_tubes true after a change. */
void tube_note_ready(struct jobs *jobs, struct tube *tube);
/* The settings of a tube after those in `given` are set; a setting that is the default is
 * forgotten. */
void settings_with(const struct jobs *jobs, struct job_settings *settings,
                   const struct job_settings *given);
/* Pauses a tube; tube_changed follows. */
void tube_pause(struct tube *tube, uint32_t seconds, struct moment now);
/* Does what follows from other settings of a tube, or from another pause. */
void tube_changed(struct jobs *jobs, struct tube *tube, struct moment now,
                  struct jobs_outbox *outbox);

/* ---- jobs_client.c --------------------------------------------------------------------------- */

/* Makes a client that uses and watches nothing; frees it. */
struct jobs_client *client_make(struct jobs *jobs, uint64_t tag, void *owner);
void client_free(struct jobs_client *client);
/* Ends what a client uses, watches and waits for, and its place among all. It has no reservations.
 */
void client_drop(struct jobs_client *client);
/* Frees the clients whose ends are under way, which nobody goes on with any more. */
void clients_free(struct jobs *jobs);
/* Watches a tube; false: no memory. */
bool client_watch(struct jobs_client *client, struct tube *tube, enum jobs_need need) MUST_USE;
/* NULL: it does not watch this tube. */
struct tube_watch *client_find_watch(const struct jobs_client *client, const struct tube *tube);
/* The watch after this one (NULL: the first) in the order of watching; NULL: it was the last. */
static inline struct tube_watch *client_next_watch(const struct jobs_client *client,
                                                   struct tube_watch *watch)
{
    struct ring *at =
        watch ? ring_after(&client->watched, &watch->order) : ring_first(&client->watched);
    return at ? container_of(at, struct tube_watch, order) : NULL;
}
/* So many reservations and watches an ended client gives back at once. */
#define JOBS_END_STEP 128u
/* Goes on with the end of a client. Without outbox, tubes are served later. */
void client_end_on(struct jobs_client *client, unsigned *budget, struct moment now,
                   struct jobs_outbox *outbox);

/* ---- jobs_watch.c: clients that watch many tubes --------------------------------------------- */

void watches_init(struct jobs *jobs, uint32_t seed);
void watches_init_tube(struct tube *tube);
void watches_init_client(struct jobs_client *client, uint32_t seed);
/* A watch is new, or its client watches many from now on; it goes. */
void watch_begin(struct tube_watch *watch);
void watch_end(struct tube_watch *watch);
/* Ready jobs of a tube have changed, or may have become stale. */
void watches_note_turn(const struct jobs *jobs, struct tube *tube);
/* The client that has waited longest for a tube with a job; NULL: none does. */
struct jobs_client *watches_first_waiting(struct tube *tube);
/* A tube has a job that it keeps, though clients wait for it. */
void watches_keep_waiting(struct tube *tube);
/* The first of the next jobs of the watched tubes; JOB_NONE: there is none, or *budget, of stale
 * jobs, is used up. More than JOBS_STEP tubes in random order are not compared. Others may get the
 * lock. */
uint32_t watches_best(struct jobs_client *client, unsigned *budget, struct moment now);
/* The next watched tube with a job in the order of watching, after the one in *after and round
 * again; NULL: none, or *looks, of watches, are used up. */
struct tube *watches_next_turn(struct jobs_client *client, uint64_t *after, unsigned *looks);
/* True when all are read-only; *reason_r is the reason of the first. Others may get the lock. */
bool watches_read_only(struct jobs_client *client, char *reason_r);
/* Finds the tube that served a client last, after client->turn was set. */
void watches_restore_last(struct jobs_client *client);
/* A wait begins, and is over. */
void watches_count_wait(struct jobs_client *client);
void watches_uncount_wait(struct jobs_client *client);
/* The first waiting client whose age is at least this one; NULL: none. */
const struct jobs_client *watches_wait_from(const struct jobs *jobs, uint64_t age);
/* Has a client that waits, wait for all its tubes, also for those with jobs, which are served
 * later. */
void watches_line_up(struct jobs_client *client, unsigned budget);
/* Serves those with jobs now, until the client has one. Others may get the lock. */
void watches_serve(struct jobs_client *client, unsigned *budget, struct moment now,
                   struct jobs_outbox *outbox);

/* ---- jobs_take.c: which client gets a job ---------------------------------------------------- */

/* Gives ready jobs of a tube to the clients that wait for it, up to JOBS_STEP of them; the rest is
 * due at once. Call it after anything has become ready. */
void tube_serve(struct jobs *jobs, struct tube *tube, struct moment now,
                struct jobs_outbox *outbox);
/* The same with what is left of *budget, also when the rest was due. */
void tube_serve_some(struct jobs *jobs, struct tube *tube, unsigned *budget, struct moment now,
                     struct jobs_outbox *outbox);
/* Serves the tubes that a client waits for, until it has a job; not the watched ones of a client
 * with many. */
void client_serve_tubes(struct jobs_client *client, unsigned *budget, struct moment now,
                        struct jobs_outbox *outbox);
/* Takes a waiting client out of the lines, though it goes on waiting; puts it back to its place;
 * ends its wait with what is in client->served or client->claimed. */
void client_promise(struct jobs_client *client);
void client_refuse(struct jobs_client *client, bool refused, struct jobs_outbox *outbox);
void client_serve(struct jobs_client *client, const struct tube *last, struct jobs_outbox *outbox);
/* Visits the tubes that a client waits for, but for the watched ones of a client with many. */
void client_each_waited(struct jobs_client *client, void (*visit)(struct tube_watch *watch));
/* Puts a watch into the line of its tube, before those that began to wait later. */
void rejoin_line(struct tube_watch *watch);
/* Has jobs_run serve a tube. */
void tube_serve_later(struct jobs *jobs, struct tube *tube);
/* Ends a wait without an answer; it must not have been promised a job. */
void client_stop_waiting(struct jobs_client *client);
void job_see(const struct jobs *jobs, uint32_t handle, struct job_view *view_r);

/* ---- jobs_ready.c: clients that wait for a tube with something to claim ---------------------- */

void asks_init(struct jobs *jobs, uint32_t seed);
/* Waits; false: no memory. */
bool client_ask(struct jobs_client *client, const struct jobs_ready *ready) MUST_USE;
/* What a client waits for. It points into the client. */
void client_asks(const struct jobs_client *client, struct jobs_ready *ready_r);
void client_stop_asking(struct jobs_client *client);
/* Tells some clients that wait for it that a tube has become ready, even when nothing is left of
 * *budget. Each takes one of it. */
void tube_tell_ready(struct jobs *jobs, struct tube *tube, unsigned *budget,
                     struct jobs_outbox *outbox);

/* ---- jobs_apply.c: what a change makes of one job -------------------------------------------- */

/* True when the job is in a state for it, and the client or the token has a right to it. */
bool job_act_fits(const struct jobs *jobs, const struct job_act *act, const struct job *job);
/* What an act that fits makes of a job. Changes nothing, but a burial and a token are taken. */
void job_apply(struct jobs *jobs, const struct job_act *act, const struct job *job,
               struct moment now, struct job_change *change_r);
/* Sets what a change counts, the delay and the reservation; of a job or of a copy. */
void job_set(struct job *job, const struct job_change *change);
/* True if the change deletes a job after an execution. */
bool job_change_executes(const struct job_change *change, const struct job *job);
/* Makes what an act makes of a job that is not locked, at once. Its tube stays, and is not served.
 */
void job_change_now(struct jobs *jobs, uint32_t handle, const struct job_act *act,
                    struct moment now);
/* Makes a change of a job that is not locked, and what follows from it for others: the tube is
 * served, or goes with its last job. *view_r is set by a reservation. Returns the answer: OK or
 * BURIED. */
enum jobs_status job_install_act(struct jobs *jobs, uint32_t handle,
                                 const struct job_change *change, struct job_view *view_r,
                                 struct moment now, struct jobs_outbox *outbox);
/* The same of what an act makes of a job, at once. */
enum jobs_status job_act_now(struct jobs *jobs, uint32_t handle, const struct job_act *act,
                             struct job_view *view_r, struct moment now,
                             struct jobs_outbox *outbox);
/* The turn of a buried job is the monotonic time of its burial and this, since it may have been
 * buried before the machine started. */
#define BURIAL_BASE (INT64_C(1) << 61)

/* ---- jobs_many.c: what changes many jobs, in steps ------------------------------------------- */

/* True while a kick goes on in the tube where it began. */
bool kick_goes_on(struct jobs_kick *kick, const struct jobs *jobs, const struct tube *tube);
/* The next job of a kick; JOB_NONE: none. */
uint32_t kick_next(const struct jobs *jobs, const struct jobs_kick *kick, const struct tube *tube);
/* The kick passes that one by. */
void kick_pass(struct jobs_kick *kick, const struct job *job);
/* Begins a clear, or goes on with it: OK, NOT_FOUND, READ_ONLY, NO_MEMORY; *tube_r is NULL when
 * nothing is left. */
enum jobs_status clear_begin(struct jobs *jobs, struct bytes name, unsigned state,
                             struct jobs_clear *clear, char *reason_r, struct tube **tube_r);
/* The next job to delete, of *budget that it may look at; JOB_NONE: none. */
uint32_t clear_next(const struct jobs *jobs, const struct tube *tube, struct jobs_clear *clear,
                    unsigned *budget);
/* Without a store, those under way are known by this. */
void clear_note(struct jobs *jobs, struct jobs_clear *clear, bool goes_on);
/* True when changes of jobs that it would delete are under way. */
bool clear_has_locked(const struct jobs *jobs, const struct tube *tube,
                      const struct jobs_clear *clear);
/* When a job came into its state, as the number of a clear. */
static inline uint32_t job_entered(const struct job *job)
{
    return (uint32_t)job->entered;
}
static inline void job_set_entered(struct job *job, uint32_t clears)
{
    job->entered = clears & CLEARS_MAX;
}
static inline void job_set_put(struct job *job, int64_t unix_ms)
{
    unix_ms = unix_ms < 0 ? 0 : unix_ms > PUT_MS_MAX ? PUT_MS_MAX : unix_ms;
    job->put_ms = (uint64_t)unix_ms & PUT_MS_MAX;
}
static inline void job_set_body_len(struct job *job, uint32_t len)
{
    job->body_len = len & BODY_LEN_MAX;
}
/* Looks for its jobs from the first one again. */
void clear_again(struct jobs_clear *clear);
int64_t after_seconds(struct moment now, uint32_t seconds);
/* The wall clock. */
int64_t jobs_wall_ms(const struct jobs *jobs, struct moment now);
/* ---- jobs_put.c ------------------------------------------------------------------------------ */

/* The first state of a new job. */
static inline enum job_state put_state(const struct job_put *put)
{
    return put->delay_s > 0 ? JOB_DELAYED : JOB_READY;
}
/* Decides puts to one tube, in order: as JOB_OP_PUT. `plans` are zeros. Until puts_make or
 * puts_forget, their memory and ids are taken, and nothing else has changed. */
enum jobs_status puts_decide(struct jobs *jobs, struct tube *tube, const struct job_put *puts,
                             struct put_plan *plans, size_t count, size_t *failed_r,
                             struct moment now);
/* Makes them; the bodies belong to the jobs, or are dropped. The caller serves the tube. */
void puts_make(struct jobs *jobs, struct tube *tube, const struct job_put *puts,
               struct put_plan *plans, size_t count, struct moment now);
void puts_forget(struct jobs *jobs, struct tube *tube, struct put_plan *plans, size_t count,
                 struct moment now);
/* ---- jobs_commit.c: with a store ------------------------------------------------------------- */

/* True when the store keeps the reservation of this job. */
bool job_is_counted(const struct jobs *jobs, const struct job *job);
/* True when this reservation must be committed, or its body read, before it is made. */
bool job_needs_store(const struct jobs *jobs, const struct job *job);
/* Reserves `count` locked jobs for a client, which waits, when that is committed. Returns false
 * without memory; they are then unlocked. */
bool jobs_promise(struct jobs_client *client, const uint32_t *handles, size_t count,
                  struct moment now) MUST_USE;
/* Begins to delete doomed jobs, a step of them. Returns what it uses of the budget. */
unsigned jobs_begin_drops(struct jobs *jobs, unsigned budget, struct moment now);
/* Sets when that is due next. */
void drops_set_due(struct jobs *jobs);
/* Begins a change of a job by the jobs themselves, of which the store must know. Returns false when
 * that must wait. */
bool job_begin_own(struct jobs *jobs, enum job_verb verb, uint32_t handle, struct moment now);
/* True while the jobs' own changes under way are as many as may be. */
bool jobs_are_busy(const struct jobs *jobs);
/* A tube that the store has a row of goes. */
void tube_forget_row(struct jobs *jobs, const struct tube *tube);
/* True when the store's thread must be woken, which job_ops_wake does without the lock. */
bool job_ops_ring(struct job_ops *ops);
/* True when nothing is queued, deferred or under way. */
bool job_ops_rest(const struct job_ops *ops);
void job_ops_wake(struct job_ops *ops);
/* Frees what is left at the end. */
void jobs_commit_free(struct jobs *jobs);
/* A client has ended, or what it asked for is done. Frees it if nothing refers to it. */
void client_settle(struct jobs_client *client, struct moment now, struct jobs_outbox *outbox);
/* The same for the holders of the jobs that one change has unlocked, which may be many. */
void clients_end(struct jobs *jobs, struct moment now, struct jobs_outbox *outbox);

/* ---- jobs_keys.c: keys and roots ------------------------------------------------------------- */

/* Draws the keys of the hashes; frees all marks. */
void marks_init(struct jobs *jobs);
void marks_free(struct jobs *jobs);
/* Sets when a mark is due, after its time was set; frees it if nothing needs it. */
void mark_settle(struct jobs *jobs, struct job_mark *mark);
/* When a key was executed. A time ahead of the wall clock, which was set back, is forgotten. */
int64_t mark_executed_ms(struct job_mark *key, int64_t wall_ms);

/* What a put's key and root mean now. */
struct job_keys_found {
    bool duplicate;
    uint32_t of; /* the job that is there already; JOB_NONE: it was executed, or its root is old */
    int64_t at_ms, root_ms;
    uint64_t key[2], root[2]; /* names */
    struct job_keys *keys;    /* room for them, and for all that follows from the job */
    struct job_mark *root_mark;
};

/* Looks at a put with a key or root, after those that were planned with it; *found_r says if it is
 * a duplicate. It meets jobs->looks stale jobs at most. */
void job_keys_look(struct jobs *jobs, const struct tube *tube, const struct job_put *put,
                   struct moment now, struct job_keys_found *found_r);
/* Makes what a put needs. Returns false without memory; then nothing has changed. */
bool job_keys_make(struct jobs *jobs, const struct job_put *put,
                   struct job_keys_found *found) MUST_USE;
/* Plans: gives a new job, which is in no state, its key and root; gives a job that is there already
 * the later times, and locks it. */
void job_keys_plan(struct jobs *jobs, struct put_plan *plan, const struct job_keys_found *found);
/* The key of the job that a put makes, or is a duplicate of; NULL: none. */
struct job_mark *job_keys_of_plan(const struct jobs *jobs, const struct put_plan *plan);
/* The put is made; it is not. */
void job_keys_learn(struct jobs *jobs, struct put_plan *plan, struct moment now);
void job_keys_unplan(struct jobs *jobs, struct put_plan *plan);
/* Finds the marks of a put; NULL: there is none, or the put names none. */
void job_keys_marks(const struct jobs *jobs, const struct tube *tube, const struct job_put *put,
                    struct job_mark **key_r, struct job_mark **root_r);
/* The mark of a name that a put gives, which is made if it is new. NULL: no memory. */
struct job_mark *job_keys_mark(struct jobs *jobs, const struct tube *tube, struct bytes text,
                               bool is_root);
/* When a time in ms that is remembered from now on may be forgotten, by the wall clock. */
#define JOB_ROOT_S (UINT32_C(28) * 86400)

/* A job of `state` has come into it, or leaves it. */
void job_keys_enter(struct jobs *jobs, uint32_t handle);
void job_keys_leave(struct jobs *jobs, uint32_t handle);
/* A job is deleted. */
void job_keys_forget(struct jobs *jobs, struct job *job, struct moment now);
/* A job is deleted after an execution: drops jobs of its tube. */
void job_keys_executed(struct jobs *jobs, const struct job *job, struct moment now);

/* True if a job must not be handed out; the second one also of some that are not stale, because the
 * clock was set back. */
bool job_is_stale(struct jobs *jobs, const struct job *job, struct moment now);
bool job_may_be_stale(const struct job *job);
/* Deletes a stale job, or one to be pruned, and counts the former; with a store, dooms it. Its tube
 * stays. */
void job_drop(struct jobs *jobs, uint32_t handle, struct moment now);
/* The next ready job that is not stale; those before it are dropped, at most *budget. JOB_NONE:
 * there is none, or the budget is used up. */
uint32_t tube_next_good(struct jobs *jobs, const struct tube *tube, unsigned *budget,
                        struct moment now);
/* A mark is due. */
void mark_run(struct jobs *jobs, struct job_mark *mark, unsigned *budget, struct moment now);
/* What an upgrade carries (jobs_state.h): marks with a time; the keys of a job. */
struct record_writer;
struct record_reader;
void marks_save(const struct jobs *jobs, struct record_writer *w);
void marks_restore(struct jobs *jobs, struct record_reader *r);
void job_keys_save(const struct job *job, struct record_writer *w);
/* NULL: it has none, or `r` has failed. */
struct job_keys *job_keys_restore(struct jobs *jobs, struct record_reader *r);

#endif
