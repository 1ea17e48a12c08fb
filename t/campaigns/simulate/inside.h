/*
 * inside.h - the inside of the simulation (world.h): its state, and the functions that its files
 * share.
 *
 * world.c runs it and makes the seed's choices, turns.c runs the rounds of the workers, clients.c
 * has the clients' actions, ends.c the reasons of closes, protocols.c the wrappers of the services'
 * functions, answers.c the model's answers (t/models/locks.h), replies.c the real ones, and look.c
 * compares everything.
 */
#ifndef SIMULATE_INSIDE_H
#define SIMULATE_INSIDE_H

#include "net/rules.h"
#include "proto/counter.h"
#include "proto/poolcounter.h"
#include "service/service.h"
#include "t/campaigns/simulate/fake.h"
#include "t/campaigns/simulate/world.h"
#include "t/models/locks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS  8
#define DEPTH    64 /* most requests of a client on their way */
#define LINE_MAX 4000
#define TIMEOUT  (30 * NS_PER_S) /* for requests and writes */

/* ---- state --------------------------------------------------------------------------------- */

/* Bytes in order, taken from the front. */
struct bytes_queue {
    uint8_t *data;
    size_t begin, end, room;
};

enum request_kind {
    TEXT_ACQUIRE,
    TEXT_RELEASE_KEY,
    TEXT_RELEASE,
    TEXT_STATS,
    TEXT_BAD,
    TEXT_TOO_LONG,
    TEXT_QUIT,
    BINARY_NOOP,
    BINARY_GET,
    BINARY_ACQUIRE,
    BINARY_RELEASE,
    BINARY_STATS,
    BINARY_DUMP,
    BINARY_BAD,
    BINARY_UNKNOWN,
    BINARY_BAD_MAGIC,
};

struct request {
    enum request_kind kind;
    uint8_t name;
    bool any; /* ACQ4ANY */
    uint32_t units, limit, queue_max;
    uint32_t len; /* bytes */
    uint8_t opaque[4];
    int64_t timeout_ns;
};

/* A pending Dump. */
struct dump {
    uint8_t opaque[4];
    uint32_t life[MODEL_NAMES]; /* lives of the names when it began; 0: the name did not exist */
    bool seen[MODEL_NAMES];
};

struct client {
    struct fake_peer peer;
    struct model_client has;
    struct client *next, *next_closed; /* lists: all clients, also closed ones; `closed` */
    unsigned worker, place;
    bool text, opened, over; /* over: no longer served, but may still read the last reply */
    bool hot;                /* in its worker's list of clients that may be ready */
    bool rude;               /* disconnects as soon as it has sent everything */
    bool killed;
    struct conn *conn;
    uint64_t tag;
    int64_t deadline_ns; /* of its wait for units */
    struct mail kill;
    struct protocol *protocol;
    struct request requests[DEPTH];
    unsigned head, tail;        /* number of requests served, and sent */
    unsigned parsed;            /* parsed requests of this batch, from `head` on */
    bool batch_over;            /* a request was served since the last parsing */
    struct bytes_queue wire;    /* sent, not arrived */
    struct bytes_queue reply;   /* replied, not received */
    struct bytes_queue said;    /* replied, not yet compared */
    uint64_t replied, received; /* bytes since it was opened */
    struct dump *dump;
    bool partial;  /* a part of a request has arrived */
    bool was_full; /* its output was full: an unfinished request restarts when the output is gone */
    int64_t partial_ns, partial_again_ns, progress_ns;
    unsigned allowed; /* allowed reasons of its close */
};

/* A worker, and those of its clients that may be ready. */
struct crew {
    struct worker *worker;
    struct loop *loop;
    struct client **hot;
    unsigned hot_count, hot_room;
    struct client **by_slot;
    unsigned slots;
    int at;        /* step of the iteration; -1: not in one */
    unsigned left; /* descriptors left to handle in this iteration */
    bool soon, in_bell;
    uint64_t mail_decided[MODEL_NAMES]; /* the last decision that arrived by mail, for each name */
};

/* The choices of the seed. */
struct mix {
    unsigned workers, names, clients, depth, burst, rush;
    unsigned slow, chop, leave, refused, dumps, bad, calm, drains; /* one in N; 0: never */
    uint32_t limits[MODEL_NAMES];
    struct bytes name[MODEL_NAMES];
    uint8_t bytes[MODEL_NAMES][3000];
    bool fixed_limits;
};

extern struct outcome *result;
extern uint64_t step, served;
extern bool in_server; /* true while server code runs; allocations of this program never fail */
extern bool ending;
extern bool draining; /* nothing new is handed out */
extern struct mix mix;
extern struct services *services;
extern struct server server;
extern struct model model;
extern struct crew crew[WORKERS];
extern struct client *all;
extern struct client **open_clients;
extern unsigned open_count, open_room;
extern struct client *opening;
extern uint64_t reasons_told[2][CLOSE_MAX];

/* ---- world.c ------------------------------------------------------------------------------- */

/* Prints the error, and ends the process. */
_Noreturn void fail(const char *file, int line, const char *what, const char *format, ...);

#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (unlikely(!(condition)))                                                                \
            fail(__FILE_NAME__, __LINE__, #condition, "" __VA_ARGS__);                             \
    } while (0)

/* Random choices, from the seed. */
uint64_t random_bits(void);
uint32_t below(uint32_t bound);
bool one_in(uint32_t n);
/* True once in `n` times; never if n is 0. */
bool sometimes(unsigned n);

/* The number of failed allocations so far. */
unsigned long refusals(void);
/* True if an allocation has failed since `before`, or the table has almost no memory left. */
bool may_lack_memory(unsigned long before);

/* Returns the number of bytes; appends some. */
size_t queued(const struct bytes_queue *q);
void enqueue(struct bytes_queue *q, const void *bytes, size_t len);

/* ---- turns.c ------------------------------------------------------------------------------- */

/* Some workers, or all, run one iteration each, interleaved. */
void take_turns(bool every);
/* True if no worker and no client has anything to do now. */
bool is_quiet(void);
void pass_time(int64_t ns);
/* Advances the clock to a worker's next deadline, just before or after it, or by any time. */
void let_time_pass(void);

/* ---- clients.c ----------------------------------------------------------------------------- */

/* Puts a client on its worker's list of those that may be ready. */
void heat(struct client *c);
/* Return the client at this end of the network, or of this connection. */
struct client *client_of_peer(struct fake_peer *peer);
struct client *client_of(struct conn *conn);
/* One client does something. */
void act(void);
/* At most `most` bytes of the wire arrive. */
void arrive(struct client *c, size_t most);
/* The client stops sending; its connection breaks. */
void end_client(struct client *c);
void break_client(struct client *c);

/* Returns a random timeout: very short, near TIMEOUT, whole seconds, or any other. */
int64_t some_timeout(void);

/* ---- ends.c -------------------------------------------------------------------------------- */

/* The server has closed a connection (fake_hooks). */
void on_closed(struct fake_peer *peer);
/* Checks that every closed client has given the reason for it. */
void look_at_closed(void);

/* ---- protocols.c --------------------------------------------------------------------------- */

/* Wraps every function of a service's row, so that it asks the model first. */
void replace_protocols(void);

/* ---- answers.c ----------------------------------------------------------------------------- */

/* Before and after the server serves a request of this client. The second checks the answer. */
void begin_answer(struct client *c);
void end_answer(struct client *c);
/*
 * Call before the real request: gives back in the model. Returns the word of the reply;
 * notifications for the waiters that it wakes come first.
 */
enum pc_reply give_back(struct client *c, const struct request *r);
/* Runs a Release of the binary protocol in the model. Call it before the server runs the request;
 * all other requests run in the model after the server. */
enum ctr_status give_back_units(struct client *c, const struct request *r);
/* Call after the real request: adds the rest of the model's answer. */
void expect_text(struct client *c, const struct request *r, enum pc_reply released,
                 unsigned long faults_before);
void expect_binary(struct client *c, const struct request *r, enum ctr_status released,
                   unsigned long faults_before);

/* ---- replies.c ----------------------------------------------------------------------------- */

/* The model's reply to the current request, so far. */
extern struct answer {
    struct client *to;
    uint8_t bytes[1 << 18];
    size_t len;
} answer;

/* Appends to the model's reply. */
void expect_bytes(const void *bytes, size_t len);
void expect_word(enum pc_reply word);
/* The replies that are not compared yet. */
const uint8_t *unchecked(const struct client *c);
/* True if the reply ends with these bytes. */
bool was_replied(const struct client *c, const void *bytes, size_t len);
/* Checks that all replies are the model's. */
void compare_answer(struct client *c, const void *bytes, size_t len);
/* A client receives, or may be ready for something (fake_hooks). */
void on_received(struct fake_peer *peer, const uint8_t *bytes, size_t len, bool first, bool last);
void on_stirred(struct fake_peer *peer);

/* ---- look.c -------------------------------------------------------------------------------- */

/* Compares the sums of the table with those of the model. */
void compare_sums(void);
/* Forgets names at 0 that the server has dropped because memory is short. `dropped`: how many so
 * far. */
extern uint64_t dropped;
void learn_of_dropped(void);
/* Compares the waiters of a name, oldest first. */
void compare_line(unsigned n);
/*
 * Lets all bytes on the wire arrive, and runs the server until it is idle. Then compares
 * everything.
 */
void become_quiet(bool windows_open);

#endif
