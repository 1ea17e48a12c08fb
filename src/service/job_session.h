/*
 * job_session.h - the session of a connection to the job queues, and the functions that the files
 * of that service share: beanstalk.c (life, requests and their bodies, options), job_verbs.c (what
 * the verbs do), job_puts.c and job_ready.c (what the verbs of these names do), job_lists.c (lists
 * of tubes), job_text.c (dictionaries).
 *
 * All in the thread of the connection's worker.
 */
#ifndef SERVICE_JOB_SESSION_H
#define SERVICE_JOB_SESSION_H

#include "jobs/jobs.h"
#include "jobs/jobs_commit.h"
#include "proto/beanstalk.h"
#include "service/wait.h"

#include <sys/utsname.h>

/* More jobs or tubes make a request dear (conn_dear). */
#define JOB_CHEAP_COUNT 16u

/* What the next bytes of a connection are. */
enum job_input {
    JOB_INPUT_LINE,
    JOB_INPUT_REST_OF_LINE, /* it was too long: BAD_FORMAT at its end */
    JOB_INPUT_BODY,         /* of a put, with the "\r\n" after it */
    JOB_INPUT_REST_OF_BODY, /* the same, but it is dropped, and answered by `refusal` */
};

/* A parsed request: a line, or a part of what follows it. */
struct job_request {
    enum bs_parsed parsed;
    enum job_input input;
    union {
        struct bs_request line; /* of JOB_INPUT_LINE, if it is parsed */
        struct bytes part;      /* of others */
    };
};

/* An answer in several steps. */
enum job_steps { JOB_STEPS_NONE, JOB_STEPS_KICK, JOB_STEPS_CLEAR, JOB_STEPS_LIST };

/* Requests whose answers may wait for one commit together. */
enum job_class { JOB_CLASS_NONE, JOB_CLASS_PUTS, JOB_CLASS_ENDS };

struct job_session {
    struct jobs_client *client; /* NULL: there was no memory for it */
    enum job_input input;
    bool produces, works, half_closed;

    /* A put whose body is coming. */
    struct {
        enum bs_verb verb;
        /* But for its tube, key and root. The body has room for what has come and somewhat more. */
        struct job_put is;
        uint32_t count;
        uint32_t len;   /* of the body */
        uint64_t have;  /* what has come, with its "\r\n" */
        uint8_t end[2]; /* the bytes after the body */
        enum bs_answer refusal;
        uint8_t key_len, root_len;
        uint8_t tube_len; /* 0: the used tube */
        char tube[JOBS_TUBE_MAX], key[JOBS_KEY_MAX], root[JOBS_KEY_MAX];
    } put;

    struct wait wait; /* its note is the verb, enum bs_verb */

    /* Requests that wait for commits. */
    unsigned under_way;
    bool has_room, room_lent; /* memory for one that ends a job; one has it */
    enum job_class class;
    size_t lists; /* bytes that the lists of put-batches among them may have */

    enum job_steps steps;
    struct jobs_kick kick;
    struct jobs_clear clear;
    enum bs_state clear_state;
    struct job_list *list; /* of tubes, that is being told; NULL: none */
};

/* Outcomes for metrics. */
#define JOB_OUTCOMES(ROW)                                                                          \
    ROW(OK, "ok")                                                                                  \
    ROW(INSERTED, "INSERTED")                                                                      \
    ROW(RESERVED, "RESERVED")                                                                      \
    ROW(BURIED, "BURIED")                                                                          \
    ROW(NOT_FOUND, "NOT_FOUND")                                                                    \
    ROW(TIMED_OUT, "TIMED_OUT")                                                                    \
    ROW(DEADLINE_SOON, "DEADLINE_SOON")                                                            \
    ROW(DRAINING, "DRAINING")                                                                      \
    ROW(OUT_OF_MEMORY, "OUT_OF_MEMORY")                                                            \
    ROW(GONE, "gone")                                                                              \
    ROW(ERROR, "error")

enum job_outcome {
#define ROW(name, word) JOB_OUTCOME_##name,
    JOB_OUTCOMES(ROW)
#undef ROW
        JOB_OUTCOME_COUNT
};

/* What a verb is. */
struct job_verb_row {
    enum served (*serve)(struct conn *conn, const struct bs_request *request);
    enum job_class class;
    bool ends;           /* it ends or prolongs reservations, or deletes jobs */
    enum job_verb act;   /* of job_change */
    enum bs_answer good; /* of job_answer_change */
    enum job_peek peeks;
};
extern const struct job_verb_row job_verb_rows[BS_VERB_COUNT]; /* job_verbs.c */

/* The verb of lines that are no request, after all of enum bs_verb. */
#define JOB_VERB_INVALID ((unsigned)BS_VERB_COUNT)

static inline struct job_session *job_session(struct conn *conn)
{
    return conn_session(conn);
}

/* The verb of a session's wait. */
static inline enum bs_verb job_waiting_verb(const struct job_session *s)
{
    return (enum bs_verb)s->wait.note[0];
}

/* What is counted of all connections. */
enum {
    JOBS_PRODUCERS,   /* open connections that have ever put */
    JOBS_WORKERS,     /* the same, reserved */
    JOBS_ROOTS_AHEAD, /* root times that were far ahead of the wall clock */
    JOBS_WAITING,     /* and a verb: connections that wait in it now */
};

/* The resource. Any thread reads it. */
struct tubes {
    struct resource resource; /* first */
    struct jobs *jobs;
    struct jobs_config config;
    const char *stopped; /* why nothing is served; NULL: it is. Set before any thread runs */
    struct shared_timer timer;
    _Atomic uint64_t counts[JOBS_WAITING + BS_VERB_COUNT];
    /* An administrator's switch. It stays on over an upgrade in place, not over a restart. */
    _Atomic bool drains;
    struct utsname system; /* the machine */
    uint64_t id;           /* new at each start */
};

static inline struct tubes *tubes_resource(const struct services *services)
{
    return container_of(services->tubes, struct tubes, resource);
}

static inline struct jobs *jobs_of(const struct services *services)
{
    return tubes_resource(services)->jobs;
}

static inline struct tubes *conn_tubes(const struct conn *conn)
{
    return tubes_resource(service_of(conn)->services);
}

static inline struct jobs *conn_jobs(const struct conn *conn)
{
    return conn_tubes(conn)->jobs;
}

/* ---- tubes.c --------------------------------------------------------------------------------- */

/* The job queues serve nothing until the next start; `reason` stays. Before any thread runs.
 * Returns false without memory. */
bool jobs_stop(struct services *services, const char *reason) MUST_USE;

/* True while puts are answered with DRAINING: before the end of the daemon, or because an
 * administrator has switched it on. Any thread. */
bool jobs_draining(const struct services *services);
/* Sends messages, and sets the timer. `from` is NULL in a thread that is no worker's. */
void jobs_deliver(struct worker *from, const struct services *services, struct jobs_outbox *outbox);
/* Makes the timer run when something is due. */
void jobs_set_timer(const struct services *services);
/* Makes settings of those that were parsed; others are the table's defaults. */
void job_settings_from(const struct bs_settings *given, struct job_settings *settings_r);

/* ---- beanstalk.c ----------------------------------------------------------------------------- */

/* This connection reserves. */
void job_works(struct conn *conn);

/* The largest body, in bytes. */
uint32_t job_size_max(const struct conn *conn);

/* ---- job_verbs.c ----------------------------------------------------------------------------- */

/* Answers with a fixed text, and counts it. */
void job_answer(struct conn *conn, unsigned verb, enum bs_answer answer);
/* Delivers a message to a client, in its worker's thread. */
void job_on_message(struct mail *mail, void *worker);
/* Continues an answer in steps. Returns true when it is complete. */
bool job_resume(struct conn *conn);
/* The connection has ended while it waits. */
void job_give_up_wait(struct conn *conn);
/* The connection waits, from now on or again. */
void job_wait_begins(struct conn *conn, enum bs_verb verb, int64_t until_ns);
/* The end of a wait has come, or the client sends nothing more. */
void job_wait_expired(struct conn *conn);
void job_half_closed(struct conn *conn);

/* Answers a put. */
void job_answer_put(struct conn *conn, enum bs_verb verb, enum jobs_status status,
                    const struct job_put *put);
/* Answers with a job, whose body is taken; a number; the reason why a tube is read-only. */
void job_answer_one(struct conn *conn, unsigned verb, enum bs_answer answer, struct job_view *view);
void job_answer_number(struct conn *conn, unsigned verb, enum bs_answer answer, uint64_t number);
void job_answer_read_only(struct conn *conn, unsigned verb, const char *reason);
/* Answers a verb about one job, pause-tube, and list-jobs, which takes the bodies. */
void job_answer_change(struct conn *conn, enum bs_verb verb, enum jobs_status status);
void job_answer_list(struct conn *conn, struct job_view *views, size_t count, uint64_t next);
/* The state of the engine, or JOBS_ALL. */
unsigned job_state_of(enum bs_state state);
/* The current request waits. */
enum served job_begin_wait(struct conn *conn, enum bs_verb verb, int64_t timeout_ns);
/* The session waits no more. */
void job_forget_wait(struct conn *conn);

/* ---- job_puts.c ------------------------------------------------------------------------------ */

/* Takes the options of the line of a put-into into the session. */
void job_take_options(struct job_session *s, const struct bs_put_options *options);
/* The put of the session. */
void job_fill_put(const struct job_session *s, struct job_put *put);
/* Logs and counts a root time that is far ahead of the wall clock. */
void job_note_root(struct conn *conn, struct bytes root, int64_t root_ms);
/* Executes the batch of the session, whose records are whole. */
enum served job_put_batch(struct conn *conn, bool draining);

/* ---- job_commits.c: requests that change jobs ------------------------------------------------ */

/* Counts the room that a connection has for a request that ends a job. Returns false without
 * memory. */
bool job_take_room(struct conn *conn) MUST_USE;
/* The connection closes. */
void job_leave_room(struct conn *conn);
/* True when a request that was parsed must wait until those before it are committed. */
bool job_must_wait(const struct conn *conn, const struct bs_request *request);

/* Each answers at once, or when the change is committed. job_put makes the put of the session,
 * whose body is whole. */
enum served job_put(struct conn *conn);
enum served job_change(struct conn *conn, const struct bs_request *request);
enum served job_pause(struct conn *conn, const struct bs_request *request);
enum served job_set_tube(struct conn *conn, struct bytes tube, const struct job_settings *settings);
/* With a store. */
enum served job_kick(struct conn *conn, uint32_t count);
enum served job_clear(struct conn *conn, struct bytes tube, unsigned state);
/* Without one: makes a step of the session's kick or clear. SERVED_PIECES: another one follows. */
enum served job_step(struct conn *conn, struct bytes tube);
/* Answer when bodies have been read that only the store has. The views are taken. */
enum served job_read_body(struct conn *conn, enum bs_verb verb, struct job_view *view);
enum served job_read_bodies(struct conn *conn, struct job_view *views, size_t count, uint64_t next);
/* True when the views have all bodies. */
bool job_views_whole(const struct job_view *views, size_t count);

/* A batch that is whole: what a put-batch keeps until its answer. */
struct job_batch {
    struct job_put *puts;
    struct job_duplicate *duplicates;
    struct job_body *records; /* as they came: keys and roots are there */
    struct job_body *list;    /* room for the answer, which must not fail */
    size_t count;
    size_t room; /* bytes of both arrays, once they are counted */
};
/* Room for an item of the list. */
#define JOB_ITEM_ROOM 48u
enum served job_put_all(struct conn *conn, struct job_batch *batch);
/* Answers a batch; job_batch_free gives up what the jobs have not taken. */
void job_batch_answer(struct conn *conn, struct job_batch *batch, enum jobs_status status);
void job_batch_free(struct jobs *jobs, struct job_batch *batch);

/* ---- job_ready.c ----------------------------------------------------------------------------- */

enum served job_ready(struct conn *conn, const struct bs_request *request);
/* Answers the `ready` that waits, if a tube is ready now. Returns true when it has. */
bool job_read_ready(struct conn *conn);

/* ---- job_lists.c ----------------------------------------------------------------------------- */

/* Begins the answer of list-tubes or list-tubes-watched; makes its next step. Both return true when
 * it is complete. */
bool job_list_begin(struct conn *conn, enum bs_verb verb);
bool job_list_step(struct conn *conn);
/* The connection has ended. Harmless when there is no list. */
void job_list_free(struct conn *conn);
/* An upgrade carries the rest of the answer: u32 pieces, bytes each. */
void job_list_save(struct conn *conn, struct record_writer *w);
void job_list_restore(struct conn *conn, struct record_reader *r);

/* ---- job_text.c ------------------------------------------------------------------------------ */

/* A text that is being made; it counts against the memory limit of the jobs. */
struct job_text {
    struct jobs *jobs;
    struct job_body *body; /* its length is the room; NULL: none yet */
    size_t len;
    bool failed; /* no memory */
};
/* Begins a dictionary. */
void job_text_begin(struct job_text *text, const struct conn *conn);
/* Room for `size` more bytes, which the caller fills and counts in `len`; NULL: no memory. */
uint8_t *job_text_room(struct job_text *text, size_t size);
/* Answers with the text, or OUT_OF_MEMORY, and gives it up. */
void job_text_answer(struct conn *conn, unsigned verb, struct job_text *text);
/* Answer the verbs whose answer is a dictionary. */
enum served job_stats(struct conn *conn, const struct bs_request *request);
enum served job_stats_job(struct conn *conn, const struct bs_request *request);
enum served job_stats_tube(struct conn *conn, const struct bs_request *request);
/* Answers `tube` after the settings, if there were any, are made. */
void job_describe_tube(struct conn *conn, struct bytes tube, bool was_set);
/* Answers OK with a text. */
void job_answer_text(struct conn *conn, unsigned verb, const void *text, size_t len);

#endif
