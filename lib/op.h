/*
 * op.h - operations: one machine runs them all. What differs between calls is a row (struct call):
 * its protocol, what it may be told, when it is asked again, and what takes its answers.
 *
 * An attempt picks a server and a connection, connects, sends, and hears answers, until the row has
 * taken the last one. A failed attempt may be followed by others (fail_attempt). Nothing here
 * waits: each step goes on until it would have to.
 */
#ifndef LIB_OP_H
#define LIB_OP_H

#include "base/clock.h"
#include "base/text.h"
#include "lib/answer.h"
#include "lib/client.h"

/* Flags of a call. */
#define OP_AGAIN    1u  /* is asked again when the connection ended before its answer */
#define OP_SILENT   2u  /* also when no answer came in time; a refusal then proves nothing */
#define OP_BODY     4u  /* has a body: a new connection must know our verbs before it is sent */
#define OP_TELLS_MS 8u  /* the request has the time to wait, in milliseconds */
#define OP_TELLS_S  16u /* the same, in whole seconds, rounded up */
#define OP_OWN_ONLY 32u /* only on the connection that it was made for */
#define OP_LIVES_ON 64u /* works after counter_close */
#define OP_ENDS_JOB 128u
#define OP_ACQUIRES 256u /* has an event of its wait */
#define OP_PUTS     512u /* has an event of its put */

#define OP_OPAQUE "ctrd" /* of all requests of the binary protocol: none overtakes another */

struct call {
    enum counter_protocol protocol;
    unsigned flags;
    unsigned refusals; /* SAYS_... */
    struct good good[4];
    uint8_t known[2]; /* binary: statuses that are no errors */
    const char *name; /* of what gives a job back */
    /* Takes an answer. COUNTER_OK: it was the last one. COUNTER_AGAIN: another one comes. Else the
       attempt has failed as client->error says. */
    int (*take)(struct counter_op *op, const struct answer *answer);
    /* Called once before the first attempt. False: the operation has ended. NULL: nothing. */
    bool (*begin)(struct counter_op *op);
    /* Called once when it ends by itself, with op->status. NULL: nothing. */
    void (*ended)(struct counter_op *op);
};

#define CALL(kind, has, may_say, taken_by, ...)                                                    \
    {                                                                                              \
        .protocol = COUNTER_##kind, .flags = (has), .refusals = (may_say), .take = (taken_by),     \
        __VA_ARGS__                                                                                \
    }

enum op_state { OP_BEGINS, OP_PICKS, OP_CONNECTS, OP_SAYS, OP_SENDS, OP_HEARS, OP_ENDED };

struct counter_op {
    struct counter_client *client;
    const struct call *call;
    unsigned flags; /* of the call, and of its arguments */
    enum op_state state;
    int status;     /* once it has ended */
    int result;     /* how it ends although the server has answered; *error is filled then */
    unsigned forks; /* of the client when it was made */
    bool may_wait;  /* for the address of a name */
    struct counter_error error;

    /* the request */
    struct text text;          /* the target, the request, and the line of an answer with a body */
    size_t target_len;         /* the request begins here */
    size_t time_at;            /* the time to wait goes here; 0: nowhere */
    size_t text_len;           /* of target and request */
    struct counter_bytes body; /* of a put: goes behind the request */
    bool has_body;
    int64_t timeout_ns;

    /* the attempt */
    int64_t begun_ns, connect_ns, told_ns;
    struct point *points, *point; /* all of the protocol; that of the attempt */
    size_t point_count, attempt;
    size_t *order;      /* of the points; NULL: by number */
    struct wire *wire;  /* under way; may be *own */
    struct wire **own;  /* the connection to try first, which stays its owner's; NULL: none */
    const char *server; /* of `own` */
    bool own_tried;
    bool is_idle;            /* the connection was there before */
    bool is_hello;           /* the server is asked whether it knows our verbs */
    bool just_sent;          /* no answer can be there yet */
    bool was_cut;            /* the attempt failed because the server ended the connection */
    uint8_t opcode, code;    /* of a binary request, and of its answer whose body comes */
    size_t awaited;          /* bytes of a body, and more; 0: a line or header */
    size_t taken;            /* answers in this attempt */
    const struct good *good; /* of the next answer */
    unsigned refusals;

    /* what came of it */
    struct wire **keep; /* where the connection goes; NULL: it is given back */
    struct text found;  /* texts of rows, or lines */
    struct counter_row *rows, one;
    size_t row_count, row_room, row_next;
    size_t count;              /* as asked for */
    uint64_t announced;        /* jobs of this answer */
    size_t asked_len;          /* member: of the target as the caller said it, in the request */
    const char *word;          /* list_jobs: the state */
    uint64_t after, following; /* list_jobs: the page that was asked for, and the next one */
    struct counter_hold *hold; /* granted, or to be released */
    struct counter_job *jobs, **jobs_end; /* granted */
    struct counter_job *job;              /* to be given back or renewed */
    struct claim *claim;                  /* of `job`, while this stands in its turns */
    struct counter_op *next;              /* in the turns */
};

/* Makes an operation with a copy of the target. NULL: no memory. */
struct counter_op *op_new(struct counter_client *client, const struct call *call,
                          struct counter_bytes target);

/* Wrong arguments: the operation has ended. Returns `op`. */
struct counter_op *op_usage(struct counter_op *op, const char *reason);

/* The request is composed. Returns `op`, which has ended if there was no memory for it. */
struct counter_op *op_ready(struct counter_op *op);

struct bytes op_target(const struct counter_op *op);

/* A time in seconds, as nanoseconds. False, and the operation has ended: it is out of bounds. */
bool op_seconds(struct counter_op *op, double seconds, int64_t *ns_r);

/* Ends. With another status than COUNTER_OK, op->error is filled. */
void op_end(struct counter_op *op, int status);

/* Ends with an error that says where. Returns false. */
bool op_fail(struct counter_op *op, int status, const char *reason);

/* Adds a row. NULL: no memory. */
struct counter_row *op_add_row(struct counter_op *op);

/* An answer that is outside the protocol, or no memory for it, as `take` returns it. */
int op_malformed(struct counter_op *op, struct bytes what);
int op_no_memory(struct counter_op *op);

#endif
