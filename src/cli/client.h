/*
 * client.h - what a client of a server has in whatever protocol: a connection, and requests that
 * are not answered yet, in the order of their answers. ask_text.h and ask_binary.h ask.
 *
 * As the loop's, its work is written as callbacks, which one sets after client_begin; or in steps,
 * without any: then being up ends the loop with STATUS_OK, and an end of the connection is said and
 * ends the loop with its status.
 */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include "cli/link.h"
#include "cli/status.h"

struct client;

/*
 * Called with each part of an answer: `answer` is what ask_text.h or ask_binary.h says. True: it
 * was the last one.
 */
typedef bool answer_handler(void *owner, const void *answer);

/* A request that is not answered yet. */
struct ask {
    answer_handler *on_answer;
    void *owner;
    int64_t timeout_ns; /* for each part of its answer; SECONDS_NONE: none */
    int64_t due_ns;     /* client.c's own: when that is over */
    uint8_t kind;       /* the protocol's */
};

struct protocol {
    const char *name; /* for people: "text protocol" */
    uint16_t port;    /* where an address names none */
    /* Takes a message from the beginning of `data`, as struct link_calls has it. `data` is not
       empty, and something is asked or there is an on_notice. */
    size_t (*take)(struct client *client, struct bytes data);
};

struct client {
    struct link link; /* its `where` and `reason` are for messages */
    /* Each is called with `owner`. When on_end is called the connection is closed, and what was not
       answered is forgotten. `status` is what to exit with for that. */
    void (*on_up)(void *owner);
    void (*on_end)(void *owner, enum status status);
    /* Told each message that comes: true where it is no answer. While nothing is asked all are of
       this kind. NULL: all are answers; what comes while nothing is asked is dropped. */
    bool (*on_notice)(void *owner, struct bytes message);
    void *owner;
    /* client.c's own, and the protocols' */
    const struct protocol *protocol;
    struct ask *asks; /* the oldest first */
    size_t count, room;
    struct timer timer; /* the oldest's answer */
    bool was_up;
    void *answer; /* where a step wants its answer, and how long that is */
    size_t answer_size;
};

/*
 * Reads options->server or its default. False: says what is wrong and with which option or
 * variable.
 */
bool client_address(const struct options *options, struct address *address_r) MUST_USE;

/* Begins to connect where the options say, without callbacks. STATUS_OK, or STATUS_USAGE (said).
   Whatever the result, client_close is due, also before it is begun again. */
enum status client_begin(struct client *client, const struct protocol *protocol, struct loop *loop,
                         const struct options *options) MUST_USE;

/* As a step: until it is up. The loop's status; all but STATUS_OK was said, but for a signal. */
enum status client_open(struct client *client, const struct protocol *protocol, struct loop *loop,
                        const struct options *options) MUST_USE;

/* Says why the connection has ended. */
void client_complain(const struct client *client);

/* For on_end, its owner being the client: says that what it held is free, and ends the loop with
   STATUS_LOST. */
void client_lost(void *owner, enum status status);

/* Closes it; what it held at the server is free then. May be called at any time, also again. */
void client_close(struct client *client);

/* As a step that no signal ends: closes it, and waits for a second at most until the server has
   done so, too (link_finish). */
void client_finish(struct client *client);

/* ---- for protocols ----------------------------------------------------------------------- */

/* Sends a request and adds it to those that are not answered. */
void client_ask(struct client *client, struct ask ask, const void *request, size_t len);

/* Gives a part of its answer to the oldest request. There is one. */
void client_answer(struct client *client, const void *answer);

/* Ends the connection: what has come is none of its protocol's. Returns 0. */
size_t client_refuse(struct client *client);

/* An answer_handler for a step: copies the answer to where client_expect has said, and ends the
   loop. What it points to is valid until the next step. */
answer_handler client_keep;

/* For the step that follows. Returns the owner for client_keep. */
void *client_expect(struct client *client, void *answer, size_t size);

/* As a step: waits until a callback ends the loop. All but STATUS_OK was said, but for a signal,
   and the client is closed then. */
enum status client_wait(struct client *client) MUST_USE;

#endif
