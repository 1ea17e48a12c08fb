/*
 * client.h - a connection to a server: a link of libcounter in the event loop (loop.h), and its
 * unanswered requests in the order of their answers. answer.h has the words of answers.
 *
 * The caller works in one of two ways (loop.h). With callbacks: give them to client_begin. In
 * steps: give none. In steps loop_run returns STATUS_OK when the connection is up; when the
 * connection ends, the client prints why and loop_run returns the exit status.
 *
 * Only the loop calls back, and nobody is called after client_close, or after the end of the loop
 * before it runs again: what has come then waits in the link.
 */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include "cli/loop.h"
#include "cli/server.h"
#include "cli/status.h"
#include "lib/counter.h"
#include "proto/beanstalk.h"
#include "proto/counter.h"
#include "proto/poolcounter.h"
#include "proto/pools.h"

/* The largest body of a job that any server takes. */
#define CLIENT_BODY_MAX (64u << 20)

#define CLIENT_REASON_SIZE 640

struct invocation;

struct protocol {
    enum counter_protocol wire;
    const char *name; /* for people: "text protocol" */
    uint16_t port;    /* default port */
    /* Bytes of a body, and parts of an answer, at most. A server that sends more is refused. */
    uint32_t body_max;
    uint64_t parts_max;
};

/* That of tubes is that of jobs, whose lists may have more bytes. */
extern const struct protocol protocol_text, protocol_binary, protocol_jobs, protocol_tubes;

/* A part of an answer, or what comes between answers. Valid until the loop runs again. */
struct answer {
    const struct protocol *protocol;
    struct bytes line; /* without its end */
    struct bytes body; /* jobs: without its end; len 0 when there is none */
    enum pc_reply text;
    union {
        struct pool_answer pool; /* also of the text protocol */
        struct ctr_reply binary;
        struct bs_reply jobs;
    };
};

/* Called with each part of an answer. Returns true after the last part. */
typedef bool answer_handler(void *owner, const struct answer *answer);

/* The handler of an answer of one part that says nothing. */
bool ignore_answer(void *owner, const struct answer *answer);

/* An unanswered request. */
struct ask {
    answer_handler *on_answer;
    void *owner;
    /* The limit for each part of the answer, from when the request is the oldest; SECONDS_NONE: its
       first part is waited for without limit, the others as long as options->io_timeout_ns. */
    int64_t timeout_ns;
    int64_t due_ns; /* private to client.c: the deadline */
};

/* Zero-initialised: closed. */
struct client {
    enum { CLIENT_CLOSED, CLIENT_BEGUN, CLIENT_UP } state;
    struct loop *loop;
    const struct options *options;
    char where[SERVER_TEXT];
    char reason[CLIENT_REASON_SIZE]; /* why it has ended, for people */
    /* All callbacks get `owner`. Before on_end the client closes the connection and drops the
       unanswered requests. `status`: the exit status for this end. */
    void (*on_up)(void *owner);
    void (*on_end)(void *owner, enum status status);
    /* Called with each message. Returns true when the message is no answer. NULL: every message is
       an answer, and the client drops messages while no request is unanswered. */
    answer_handler *on_notice;
    void *owner;
    /* private to client.c */
    const struct protocol *protocol;
    struct server server;
    counter_link *link; /* NULL: not yet, or closed */
    int looking;        /* the lookup's pipe; -1: none */
    struct watch watch; /* of the pipe, then of the link */
    struct timer timer; /* of the link */
    struct timer due;   /* of the lookup, then of the oldest request */
    struct ask *asks;   /* oldest first */
    size_t count, room;
    struct answer *heard; /* where client_hear wants a part of an answer; NULL: it does not */
    uint64_t parts;       /* of this answer, so far */
    uint8_t opcode;       /* of the binary protocol: of the last request */
    bool was_up;
};

/*
 * Closes the connection, starts to connect to the server of the options, and sets all callbacks.
 * Returns STATUS_OK, or STATUS_USAGE after printing why. In both cases the caller must call
 * client_close.
 */
enum status client_begin(struct client *client, const struct protocol *protocol, struct loop *loop,
                         const struct options *options, void (*on_up)(void *owner),
                         void (*on_end)(void *owner, enum status status), void *owner) MUST_USE;

/* Step: connects for a command, and waits until the connection is up. Returns as client_wait does.
 */
enum status client_open(struct client *client, const struct protocol *protocol,
                        struct invocation *invocation) MUST_USE;

/* Prints why the connection has ended. */
void client_complain(const struct client *client);

/* An on_end callback; `owner` is the client. Prints that the server has freed what the client held,
   and ends the loop with STATUS_LOST. */
void client_lost(void *owner, enum status status);

/* Closes the connection; the server then frees what it held. May be called at any time, also twice.
 */
void client_close(struct client *client);

/* Step: closes the connection, and waits up to a second until the server has closed it too, so that
   a later request finds free what it held; or until a signal comes. */
void client_finish(struct client *client);

/*
 * Step: sends QUIT of the text protocol, waits up to a second for BYE or a signal, and closes the
 * connection. The server ends what waits, and takes back what is held as returned ok. What else
 * arrives is dropped. Returns true if the server said BYE. For a connection that is not up it only
 * closes.
 */
bool client_quit(struct client *client);

/* Step: waits until a callback ends the loop. On any status but STATUS_OK the client is closed and
   the error printed; a signal is not printed. */
enum status client_wait(struct client *client) MUST_USE;

/* Step: the same until there is something to read from `fd`. */
enum status client_wait_input(struct client *client, int fd) MUST_USE;

/* Step: waits for the next part of the answers to requests without a handler, at most `timeout_ns`
   (SECONDS_NONE: without limit). Returns as client_wait does. */
enum status client_hear(struct client *client, int64_t timeout_ns,
                        struct answer *answer_r) MUST_USE;

/*
 * Send a request, which must be valid; the connection must be up. Answers come in the order of the
 * requests, except that of a TAKE that waits: it comes when the wait is over, behind the answers of
 * later requests. So while a TAKE waits, send nothing but QUIT; use several connections for several
 * waits. Without a handler (NULL) client_hear takes the answers, and has the limit of time.
 *
 * ask_jobs sends the body of a put, too, and sets request->body_len; for other verbs `body` is
 * empty.
 */
void ask_text(struct client *client, const struct pc_request *request, int64_t timeout_ns,
              answer_handler *on_answer, void *owner);
void ask_pool(struct client *client, const struct pool_request *request, int64_t timeout_ns,
              answer_handler *on_answer, void *owner);
void ask_jobs(struct client *client, struct bs_request *request, struct bytes body,
              int64_t timeout_ns, answer_handler *on_answer, void *owner);

/* Step: asks, and hears the first part of the answer in the time of the options. Returns as
   client_wait does. */
enum status ask_binary(struct client *client, const struct ctr_request *request,
                       struct answer *answer_r) MUST_USE;

#endif
