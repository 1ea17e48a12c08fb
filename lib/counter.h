/*
 * counter.h - libcounter, the client of counterd: locks, units of a limit, members of pools, job
 * queues. Link with -lcounter; libcounter(3) is the manual.
 *
 * A client (`counter_open`) knows servers and keeps idle connections. A call makes an operation
 * (`counter_op`), which the program runs to its end: with `counter_run`, which waits, or in its own
 * loop with `counter_step`, which never waits. Then it takes the results: a hold, jobs or rows.
 * What a call gave has one connection; when that ends, it is lost, and the library says so.
 *
 * There are no threads, no signals, no callbacks and no globals: results are pulled, so nothing is
 * called after the end of anything. Everything may be freed at any time and in any order. A client
 * and all that came from it belong to one thread at a time; two clients share nothing.
 *
 * Times are seconds, with fractions, from 0 to 1,000,000. Structs that begin with `size` may grow
 * in later versions: initialise them with their macro (else a call ends as COUNTER_USAGE), which
 * has a value for each member, in order, as older C++ wants it. No pointer argument may be NULL
 * unless it is said. Every function that takes an object to free accepts NULL.
 */
#ifndef COUNTER_H
#define COUNTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct counter_client counter_client; /* servers, defaults, idle connections */
typedef struct counter_op counter_op;         /* a call under way, and its results */
typedef struct counter_hold counter_hold;     /* a lock, units or members that are held */
typedef struct counter_job counter_job;       /* a reserved job */
typedef struct counter_link counter_link;     /* a connection, one floor below calls */

/* Bytes with a length: not null-terminated, and may have any byte. */
struct counter_bytes {
    const void *data;
    size_t len;
};

static inline struct counter_bytes counter_bytes_at(const void *data, size_t len)
{
    struct counter_bytes bytes = {data, len};
    return bytes;
}

static inline struct counter_bytes counter_str(const char *string)
{
    return counter_bytes_at(string, strlen(string));
}

/* ---- errors ---------------------------------------------------------------------------------- */

enum counter_status {
    COUNTER_OK = 0,
    COUNTER_AGAIN = 1, /* not yet: wait for what the operation says, and step again */
    COUNTER_USAGE = 2, /* the call is wrong, or its client is closed */
    COUNTER_LOST = 3,  /* the hold or job is not yours any more */
    /* Refused: the server said no; nothing has changed. */
    COUNTER_BUSY = 10,   /* not free within the timeout */
    COUNTER_QUEUE_FULL,  /* of a lock, a pool, a tube */
    COUNTER_NOT_FOUND,   /* no such pool, member, tube or job */
    COUNTER_WRONG,       /* the kind of a pool, a value */
    COUNTER_DENIED,      /* this host may not */
    COUNTER_READ_ONLY,   /* the tube; the reason is in `answer` */
    COUNTER_DRAINING,    /* the server takes nothing new */
    COUNTER_TOO_BIG,     /* the job's body */
    COUNTER_TOO_MANY,    /* of one connection, or for one request */
    COUNTER_NO_MEMORY,   /* the server's, or our own (then `server` is empty) */
    COUNTER_ENGINE_AWAY, /* a limit that nodes share, without its engine */
    /* Failed: no answer that can be believed. */
    COUNTER_UNREACHABLE = 30, /* nothing was sent: name, connect, TLS, certificate */
    COUNTER_UNANSWERED,       /* a request was sent, and its answer did not come */
    COUNTER_MALFORMED,        /* bytes outside the protocol, or more than may come */
    COUNTER_UNSUPPORTED       /* the server does not know the request */
};

static inline bool counter_is_refused(int status)
{
    return status >= COUNTER_BUSY && status < COUNTER_UNREACHABLE;
}

static inline bool counter_is_failed(int status)
{
    return status >= COUNTER_UNREACHABLE;
}

/* "Busy", "QueueFull" and so on; "OK", "Again"; "unknown" for other numbers. Never NULL. */
const char *counter_status_name(int status);

/* What went wrong, and where. Texts are null-terminated, with controls escaped, and may be empty.
   Initialise with COUNTER_ERROR. */
struct counter_error {
    size_t size;
    int status;       /* enum counter_status */
    bool sent;        /* the server may have acted on the request */
    char server[272]; /* as configured */
    char target[208]; /* the name, pool or tube; at most 200 bytes of it */
    char answer[208]; /* the first line of the answer; at most 200 bytes of it */
    char reason[640]; /* for people: what happened, and what to do */
};
#define COUNTER_ERROR                                                                              \
    {                                                                                              \
        sizeof(struct counter_error), COUNTER_OK, false, "", "", "", ""                            \
    }

/* ---- client ---------------------------------------------------------------------------------- */

/*
 * Makes a client; connects to nothing. `url`: counter://HOST[:PORT][,HOST...][/][?K=V&...], as
 * libcounter(3) has it; NULL: $COUNTER_URL, or counter://127.0.0.1. Reads the files that tls_ca,
 * tls_cert and tls_key name. Returns NULL and fills *error (may be NULL) when the URL is wrong
 * (COUNTER_USAGE), a file can't be used (COUNTER_USAGE) or memory is short (COUNTER_NO_MEMORY).
 */
counter_client *counter_open(const char *url, struct counter_error *error);

/* Closes idle connections and the client. Its operations under way end as COUNTER_USAGE at their
   next step; holds, jobs, and what gives them back live on. Free of any order. */
void counter_close(counter_client *client);

/*
 * Finds the addresses of the hosts that are names, for all connections to come, until the next
 * call. MAY WAIT as long as the system's resolver does. counter_run calls it for the host that it
 * needs; a program with its own loop calls it before its first call, and again when it wants (in a
 * thread that has the client meanwhile, or not at all: see counter_set_addresses). Returns
 * COUNTER_OK; or COUNTER_UNREACHABLE when a name was not found (that server then fails to connect,
 * saying so), or COUNTER_NO_MEMORY.
 */
int counter_resolve(counter_client *client);

/* For who resolves by himself: the `n` addresses of the host of server number `server` (in the
   order of the URL; behind them that of jobs=HOST:PORT), IPv4 or IPv6; ports are set by the
   library. They replace earlier ones. Returns COUNTER_OK, COUNTER_USAGE (no such server, another
   family, n is 0) or COUNTER_NO_MEMORY. */
int counter_set_addresses(counter_client *client, size_t server,
                          const struct sockaddr_storage *addresses, size_t n);

/* In the child of a fork: closes the child's copies of all connections. Holds and jobs of the
   parent are lost in the child and send nothing; operations end as COUNTER_LOST. */
void counter_forked(counter_client *client);

/* The order in which servers are asked for a name: writes to order[0..n-1] indexes of `servers`,
   which are texts as in the URL. Returns COUNTER_OK or COUNTER_NO_MEMORY. */
int counter_servers_for(struct counter_bytes name, const char *const *servers, size_t n,
                        size_t *order);

/* Something that happened: pulled, newest last. Texts are valid until the next call for the client.
 */
struct counter_event {
    size_t size;
    const char *kind;   /* connect, disconnect, down, up, wait, held, lost, retry, put, job */
    const char *server; /* as configured */
    const char *name;   /* the lock, pool or tube, escaped; NULL: none */
    double seconds;     /* how long it took; negative: says nothing */
    const char *result; /* locked, done, released, inserted, ack... or the error's; NULL: none */
    int status;         /* of an error; COUNTER_OK: none */
};

/* The oldest event of the client, which is then forgotten; NULL: none. The client keeps the
 * last 64. */
const struct counter_event *counter_next_event(counter_client *client);

/* ---- operations ------------------------------------------------------------------------------ */

/*
 * Every call below returns an operation that the caller frees, in any state; NULL: no memory. Wrong
 * arguments end it as COUNTER_USAGE at its first step. Names and arguments are copied; bodies and
 * arrays of jobs stay the caller's, unchanged, until the operation ends or is freed. Freeing an
 * operation under way cancels it: its connection is closed, so what the server may yet grant goes
 * back. Later versions may add errors; each call names those that its server gives, beside
 * COUNTER_USAGE, COUNTER_NO_MEMORY and those of counter_is_failed.
 */

/* Goes on as far as it can without waiting. COUNTER_OK: ended well; take its results.
   COUNTER_AGAIN: wait for counter_fd, counter_events and counter_wait_ms (ask for all three after
   each step), then step again; steps for no reason do no harm. Else the error, which
   counter_op_error explains; it stays. */
int counter_step(counter_op *op);

/* What to wait for after COUNTER_AGAIN: a descriptor (-1: none now), poll's events for it, and
   milliseconds at most (-1: no limit). Operations of jobs of one claim have turns on its
   descriptor: a step of one may move another, so ask all of them anew. */
int counter_fd(const counter_op *op);
short counter_events(const counter_op *op);
int counter_wait_ms(const counter_op *op);

/* Changes with the socket, even if its number is the same: for epoll, which must add it again. */
uint64_t counter_fd_serial(const counter_op *op);

/* Steps, and waits with poll, until the operation ends; also resolves names. Signals do not end it.
   Returns what counter_step does, but never COUNTER_AGAIN. */
int counter_run(counter_op *op);

/* Explains the last status of counter_step. Valid until the next step. Never NULL. */
const struct counter_error *counter_op_error(const counter_op *op);

void counter_op_free(counter_op *op);

/* ---- locks, units ---------------------------------------------------------------------------- */

struct counter_lock_args {
    size_t size;
    uint32_t workers; /* how many may hold it at once */
    uint32_t queue;   /* holders and waiters together, at most; 0: workers + 100 */
    double timeout;   /* of the whole call */
    bool shared;      /* also granted, with counter_hold_is_done, when another has done the work */
};
#define COUNTER_LOCK_ARGS                                                                          \
    {                                                                                              \
        sizeof(struct counter_lock_args), 1, 0, 10, false                                          \
    }

/* Takes a lock. Gives a hold. Errors: BUSY, QUEUE_FULL, DRAINING, ENGINE_AWAY. `args` NULL:
 * defaults. */
counter_op *counter_lock(counter_client *client, struct counter_bytes name,
                         const struct counter_lock_args *args);

struct counter_units_args {
    size_t size;
    uint32_t count; /* units to take */
    uint32_t limit; /* units of this name that may be held */
};
#define COUNTER_UNITS_ARGS                                                                         \
    {                                                                                              \
        sizeof(struct counter_units_args), 1, 1                                                    \
    }

/* Takes units, or fails at once. Gives a hold. Errors: BUSY. */
counter_op *counter_units(counter_client *client, struct counter_bytes name,
                          const struct counter_units_args *args);

/* Asks how many units of a name are held. Gives a row with `number`; 0: there is no such counter.
 */
counter_op *counter_usage(counter_client *client, struct counter_bytes name);

/* ---- members of pools ------------------------------------------------------------------------ */

struct counter_pair {
    struct counter_bytes key, value;
};

struct counter_member_args {
    size_t size;
    double timeout;
    uint32_t count;                   /* members */
    struct counter_bytes name;        /* this one only; data NULL: any */
    const struct counter_pair *attrs; /* only members with all of these */
    size_t attr_count;
    struct counter_bytes purpose; /* use, clean, check */
    struct counter_bytes by;      /* names the caller for people; data NULL: no name */
};
#define COUNTER_MEMBER_ARGS                                                                        \
    {                                                                                              \
        sizeof(struct counter_member_args), 10, 1, {NULL, 0}, NULL, 0, {"use", 3},                 \
        {                                                                                          \
            NULL, 0                                                                                \
        }                                                                                          \
    }

/* Takes members of a pool: `target` is a pool, several with commas between (the first that can
   serve), or @GROUP. Gives a hold. Errors: BUSY, QUEUE_FULL, NOT_FOUND, WRONG, TOO_MANY, DRAINING.
   `args` NULL: defaults. */
counter_op *counter_member(counter_client *client, struct counter_bytes target,
                           const struct counter_member_args *args);

/* ---- holds ----------------------------------------------------------------------------------- */

/* The hold of an operation that ended well, which is then the caller's; NULL: none (more). One that
   is not taken goes with the operation. */
counter_hold *counter_take_hold(counter_op *op);

struct counter_member {
    size_t size;
    struct counter_bytes pool, name;
    struct counter_bytes value; /* data NULL: it has none */
    uint64_t fence; /* greater than those before; pass it to what must refuse old holders */
    const struct counter_pair *attrs;
    size_t attr_count;
};

/* Member number `index` of a hold; NULL: no more. Valid as long as the hold. */
const struct counter_member *counter_hold_member(const counter_hold *hold, size_t index);

/* True for a shared lock that holds nothing, because another has done the work. */
bool counter_hold_is_done(const counter_hold *hold);

/* The server, as configured. Valid as long as the hold. */
const char *counter_hold_server(const counter_hold *hold);

/* Its connection: readable when it may be lost (then ask counter_hold_check); -1: it has none. */
int counter_hold_fd(const counter_hold *hold);

/* COUNTER_OK while it is held, else COUNTER_LOST. Never waits. */
int counter_hold_check(counter_hold *hold);

/*
 * Gives a hold back. `ok`: the work ended well; if not, members return as failed, and a shared
 * lock's connection is closed, so that nobody is told it were done. The hold goes with the
 * operation: don't use it any more. Ends as COUNTER_OK, COUNTER_LOST, or COUNTER_UNANSWERED (the
 * connection is closed, so it is free). NULL: no memory; the hold is freed, and its connection
 * closed. Works after counter_close. `hold` NULL: returns NULL.
 */
counter_op *counter_release(counter_hold *hold, bool ok);

/* Closes the connection without a word: the server frees what was held. */
void counter_hold_free(counter_hold *hold);

/* ---- jobs ------------------------------------------------------------------------------------ */

struct counter_put_args {
    size_t size;
    uint32_t priority;         /* lower ones come first */
    double delay;              /* rounded up to seconds */
    double ttr;                /* how long a worker may have it before it must renew; rounded up */
    struct counter_bytes key;  /* a job of this key is there once; data NULL: no key */
    double at;                 /* unix time of the key; negative: none */
    struct counter_bytes root; /* signature of the root job; data NULL: none */
    double root_at;            /* its unix time */
    uint32_t tries;            /* runs before it is buried; 0: as the tube says */
};
#define COUNTER_PUT_ARGS                                                                           \
    {                                                                                              \
        sizeof(struct counter_put_args), 1024, 0, 60, {NULL, 0}, -1, {NULL, 0}, 0, 0               \
    }

/* Puts a job. Gives a row with `id` and `duplicate`. Without a key it is never sent twice. Errors:
   TOO_BIG, DRAINING, READ_ONLY, QUEUE_FULL. `args` NULL: defaults. */
counter_op *counter_put(counter_client *client, struct counter_bytes tube,
                        struct counter_bytes body, const struct counter_put_args *args);

struct counter_new_job {
    struct counter_bytes body;
    const struct counter_put_args *args; /* NULL: defaults */
};

/* Puts all of these jobs or none: 1 to 1,000, and 16 MiB. Gives a row for each. Errors as of put.
 */
counter_op *counter_put_many(counter_client *client, struct counter_bytes tube,
                             const struct counter_new_job *jobs, size_t count);

struct counter_claim_args {
    size_t size;
    uint32_t count; /* jobs at most, to 1,000 */
    double timeout; /* rounded up to seconds */
};
#define COUNTER_CLAIM_ARGS                                                                         \
    {                                                                                              \
        sizeof(struct counter_claim_args), 1, 10                                                   \
    }

/* Reserves jobs of tubes, which take turns. Gives jobs; none when none came in time. Errors:
   READ_ONLY. `args` NULL: defaults. */
counter_op *counter_claim(counter_client *client, const struct counter_bytes *tubes, size_t count,
                          const struct counter_claim_args *args);

/* The next job of a claim that ended well, which is then the caller's; NULL: no more. */
counter_job *counter_take_job(counter_op *op);

struct counter_job_view {
    size_t size;
    uint64_t id, token;
    struct counter_bytes tube, body;
    uint32_t tries; /* 1: its first run */
    bool is_lost;   /* a renewal has found that it is reserved no more */
    const char *server;
};

/* What a job is. Valid as long as the job. */
const struct counter_job_view *counter_job_view(const counter_job *job);

/*
 * Give a job back: done; to be tried again after a delay; put aside. The job goes with the
 * operation: don't use it any more. Requests of the jobs of one claim go in the order of these
 * calls. Errors: LOST, UNANSWERED. nack gives a row whose `number` is 1 when the job was buried,
 * because its tries are used up. NULL: no memory, or `job` is NULL; then the job is freed. They
 * work after counter_close.
 */
counter_op *counter_ack(counter_job *job);
counter_op *counter_nack(counter_job *job, double delay);
counter_op *counter_bury(counter_job *job);

/* Starts its time to run anew. The job stays the caller's. Errors: LOST, UNANSWERED. */
counter_op *counter_renew(counter_job *job);

/* The descriptor of its connection, which others of its claim share; -1: closed. Readable while no
   operation of the claim is under way: the connection has ended. */
int counter_job_fd(const counter_job *job);

/* Forgets a job. Its connection closes with the last job of its claim. */
void counter_job_free(counter_job *job);

/* Settings of a tube, after setting `settings` (count 0: asks only). Gives rows with `key`, `value`
   and `number`. Errors: NOT_FOUND (without settings). */
counter_op *counter_tube(counter_client *client, struct counter_bytes tube,
                         const struct counter_pair *settings, size_t count);

struct counter_ready_args {
    size_t size;
    struct counter_bytes after; /* only tubes behind this name */
    uint32_t limit;             /* tubes at most, to 1,000 */
    double timeout;             /* waits for the first ready job; rounded up to seconds */
};
#define COUNTER_READY_ARGS                                                                         \
    {                                                                                              \
        sizeof(struct counter_ready_args), {NULL, 0}, 1000, 0                                      \
    }

/* Tubes with ready jobs: `pattern` is a name, or a beginning and '*'. Gives rows with `key` and
   `number`, ordered by name. `args` NULL: defaults. */
counter_op *counter_ready(counter_client *client, struct counter_bytes pattern,
                          const struct counter_ready_args *args);

/* Jobs of a tube in a state (ready, delayed, reserved, buried, abandoned, all). Ends as COUNTER_OK
   with up to 100 rows of `id`, `state`, `tries`, `value` (the body; `data` is NULL when the server
   can't read it); stepped again once they are taken, it asks for the next ones. At the end it is
   COUNTER_OK without a row. Errors: NOT_FOUND. */
counter_op *counter_list_jobs(counter_client *client, struct counter_bytes tube, const char *state);

/* Deletes the tube's jobs in a state. Gives a row with `number`. Errors: NOT_FOUND, READ_ONLY. */
counter_op *counter_clear(counter_client *client, struct counter_bytes tube, const char *state);

/* Deletes a job that nobody has reserved; makes a buried or delayed job ready. Errors: NOT_FOUND.
 */
counter_op *counter_delete(counter_client *client, uint64_t id);
counter_op *counter_kick(counter_client *client, uint64_t id);

/* A result. Which fields are set is said at the call; others are 0. */
struct counter_row {
    struct counter_bytes key, value; /* of a setting: as text */
    uint64_t number;
    bool is_number; /* `value` is a number */
    uint64_t id;
    bool is_duplicate; /* put: a job of this key was there; `id` is its, or 0 */
    uint32_t tries;
    const char *state;
};

/* The next row of an operation that ended well; NULL: no more. Valid until the next call for `op`.
 */
const struct counter_row *counter_next_row(counter_op *op);

/* ---- one floor below: any request over a connection ------------------------------------------ */

enum counter_protocol {
    COUNTER_TEXT,
    COUNTER_BINARY,
    COUNTER_JOBS,
    COUNTER_RAW /* to the text port; messages are bytes as they come */
};

struct counter_message {
    size_t size;
    struct counter_bytes line; /* text, jobs: without its end. Binary: the header, 12 bytes */
    struct counter_bytes
        body; /* jobs: what the line announces. Binary: behind the header. RAW: all */
};
#define COUNTER_MESSAGE                                                                            \
    {                                                                                              \
        sizeof(struct counter_message), {NULL, 0},                                                 \
        {                                                                                          \
            NULL, 0                                                                                \
        }                                                                                          \
    }

/* Begins to connect to server number `server` (in the order of the URL; 0 if the protocol has an
   address of its own there), with the URL's options; no other server is tried. NULL: no memory, or
   the client is closed. It is no client's: nothing is asked, retried or reused. */
counter_link *counter_link_open(counter_client *client, enum counter_protocol protocol,
                                size_t server);

/* Connects, sends, and reads. COUNTER_OK: it is up, and all is sent. COUNTER_AGAIN: not yet. Else
   it has ended; messages that came before can still be taken. */
int counter_link_step(counter_link *link);

/* Adds bytes to send, copied; counter_link_step sends them. Only `io_timeout` bounds them: a server
   that takes no more ends the link. COUNTER_OK, COUNTER_NO_MEMORY, or why the link has ended. */
int counter_link_say(counter_link *link, const void *data, size_t len);

/* The next message that has come: COUNTER_OK. COUNTER_AGAIN: none is whole. Else why the link has
   ended, after its last message. Valid until the next call for `link`. A line may have 64 KiB, a
   body what the URL's max_body says; a message must be whole io_timeout after it began (a body: for
   each 64 KiB). */
int counter_link_next(counter_link *link, struct counter_message *message);

/* As of an operation. counter_link_events is what to wait for although all is sent: for messages.
 */
int counter_link_fd(const counter_link *link);
uint64_t counter_link_fd_serial(const counter_link *link);
short counter_link_events(const counter_link *link);
int counter_link_wait_ms(const counter_link *link);
const struct counter_error *counter_link_error(const counter_link *link);

/* Says that we send no more; what still comes is dropped, and the link ends (COUNTER_UNANSWERED)
   when the server has closed its side, a second later at most. A later request then finds free what
   the link held. */
void counter_link_finish(counter_link *link);

/* Closes it at once. */
void counter_link_free(counter_link *link);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
