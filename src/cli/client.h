/*
 * client.h - the part of a client that both protocols share: a connection, and its unanswered
 * requests in the order of their answers. ask_text.h and ask_binary.h send the requests.
 *
 * The caller works in one of two ways (loop.h). With callbacks: set them after client_begin. In
 * steps: set none. In steps loop_run returns STATUS_OK when the connection is up; when the
 * connection ends, the client prints why and loop_run returns the exit status.
 */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include "cli/link.h"
#include "cli/status.h"

struct client;

/*
 * Called with each part of an answer; ask_text.h and ask_binary.h define its type. Returns true
 * after the last part.
 */
typedef bool answer_handler(void *owner, const void *answer);

/* An unanswered request. */
struct ask {
    answer_handler *on_answer;
    void *owner;
    /* The limit for each part of the answer, from when the request is the oldest; SECONDS_NONE: its
       first part is waited for without limit, the others as long as options->io_timeout_ns. */
    int64_t timeout_ns;
    int64_t due_ns; /* private to client.c: the deadline */
    uint64_t parts; /* private to client.c: of the answer, so far */
    uint8_t kind;   /* private to the protocol */
};

struct protocol {
    const char *name; /* for people: "text protocol" */
    uint16_t port;    /* default port */
    /* Parts that an answer has at most. A server whose answer does not end is refused. */
    uint64_t parts_max;
    /* Takes one message from the start of `data`, as in struct link_calls. Called only when `data`
       is not empty and a request is unanswered or on_notice is set. */
    size_t (*take)(struct client *client, struct bytes data);
};

struct client {
    struct link link; /* callers may print its `where` and `reason` */
    /* All callbacks get `owner`. Before on_end the client closes the connection and drops the
       unanswered requests. `status`: the exit status for this end. */
    void (*on_up)(void *owner);
    void (*on_end)(void *owner, enum status status);
    /* Called with each message. Returns true when the message is no answer; while no request is
       unanswered, no message is one. NULL: every message is an answer, and the client drops
       messages while no request is unanswered. */
    bool (*on_notice)(void *owner, struct bytes message);
    void *owner;
    /* private to client.c and the protocols */
    const struct protocol *protocol;
    struct ask *asks; /* oldest first */
    size_t count, room;
    struct timer timer; /* deadline of the oldest request */
    struct timer whole; /* deadline of a message of which a part has come */
    bool was_up;
    void *answer; /* where client_keep copies the answer of a step, and its size */
    size_t answer_size;
};

/*
 * Parses options->server, $COUNTER_SERVER or the default. Returns false after printing what is
 * wrong and with which option or variable.
 */
bool client_address(const struct options *options, struct address *address_r) MUST_USE;

/* Starts to connect to the server of the options, and clears all callbacks. Returns STATUS_OK, or
   STATUS_USAGE after printing why. In both cases the caller must call client_close, also before the
   next client_begin. */
enum status client_begin(struct client *client, const struct protocol *protocol, struct loop *loop,
                         const struct options *options) MUST_USE;

/* Step: connects, and waits until the connection is up. Returns the loop's status. Errors are
   printed; a signal is not. */
enum status client_open(struct client *client, const struct protocol *protocol, struct loop *loop,
                        const struct options *options) MUST_USE;

/* Prints why the connection has ended. */
void client_complain(const struct client *client);

/* An on_end callback; `owner` is the client. Prints that the server has freed what the client held,
   and ends the loop with STATUS_LOST. */
void client_lost(void *owner, enum status status);

/* Closes the connection; the server then frees what it held. May be called at any time, also twice.
 */
void client_close(struct client *client);

/* Step: closes the connection, and waits up to a second until the server has closed it too
   (link_finish), or a signal comes. */
void client_finish(struct client *client);

/* ---- for protocols ----------------------------------------------------------------------- */

/* Sends a request and appends it to the unanswered ones. */
void client_ask(struct client *client, struct ask ask, const void *request, size_t len);

/* Passes a part of an answer to the oldest request. There must be one. */
void client_answer(struct client *client, const void *answer);

/* Ends the connection: the server sent something outside the protocol. Returns 0. */
size_t client_refuse(struct client *client);

/* The same for what is of the protocol, but `why`. */
size_t client_refuse_as(struct client *client, const char *why);

/* An answer_handler for a step: copies the answer to the buffer of client_expect, and ends the
   loop. Pointers in the copy are valid until the next step. */
answer_handler client_keep;

/* Sets the buffer for client_keep in the next step. Returns the owner to pass with client_keep. */
void *client_expect(struct client *client, void *answer, size_t size);

/* Step: waits until a callback ends the loop. On any status but STATUS_OK the client is closed and
   the error printed; a signal is not printed. */
enum status client_wait(struct client *client) MUST_USE;

#endif
