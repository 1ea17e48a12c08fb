/*
 * node.h - a node of the cluster: one counterd that shares limits with others through an engine
 * (Redis). (Protocol page of the cluster, sections 3 and 4.)
 *
 * A node has no sockets and no clock. Bytes come in and go out, and the time is an argument, so the
 * simulation runs several nodes in one thread. The owner (service/cluster.c, or the simulation)
 * opens the wires, sends and receives bytes, and speaks to the connections' threads.
 *
 * The engine is not the truth. The truth is the ledger of each node: its table, which knows what
 * every connection holds. A node keeps no units itself. Each time it opens a session it asks the
 * owner for a report of the ledger (`report`), and asserts that, and the waits that it has.
 *
 * A request of a connection is a struct node_request. It belongs to the node from node_submit until
 * the node calls `answer` for it, exactly once.
 *
 * Threads: one thread uses a node. Nothing here blocks.
 */
#ifndef CLUSTER_NODE_H
#define CLUSTER_NODE_H

#include "base/bytes.h"
#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct node;
struct node_name;
struct patterns;
struct record_reader;
struct record_writer;
struct url;
struct url_host;

/* ---- requests -------------------------------------------------------------------------------- */

enum node_op { NODE_ACQUIRE, NODE_RELEASE, NODE_GET, NODE_HOLDERS };

/* How an acquisition that does not fit goes on. */
enum node_wait { NODE_WAIT_NO, NODE_WAIT_ANY, NODE_WAIT_ME };

enum node_result {
    NODE_GRANTED,    /* the connection has the units, once its ledger has */
    NODE_DONE,       /* a wait (NODE_WAIT_ANY): the work is done */
    NODE_BUSY,       /* does not fit, and the request does not wait */
    NODE_QUEUE_FULL, /* units and waits have reached queue_max */
    NODE_RELEASED,
    NODE_COUNTED,     /* GET: `units` and `waits`; HOLDERS: `shares` */
    NODE_CANCELLED,   /* node_cancel; units that came too late were given back */
    NODE_ALONE,       /* the name is not shared (now): ask the table */
    NODE_ENGINE_AWAY, /* strict, and patience is over; or the node leaves */
    NODE_ENGINE_FULL, /* the engine has no memory */
    NODE_NO_MEMORY,   /* this node has none */
};

/* Units and waits of one node. */
struct node_share {
    char node[65];
    uint64_t units, waits;
};

/* In a hash table of the node. */
struct node_entry {
    struct node_entry *next;
    uint64_t hash;
};

struct node_request {
    /* Of the owner, constant while the node has it: */
    enum node_op op;
    enum node_wait wait;   /* ACQUIRE */
    bool by_end;           /* RELEASE: by the end of a connection, or of units that nobody wants:
                              no waiter becomes DONE, and nobody waits for the answer */
    uint32_t units, limit; /* at least 1; limit and queue_max: ACQUIRE */
    uint32_t queue_max;    /* 0: no maximum */
    uint64_t id;           /* ACQUIRE: never used again by this process and its successors */
    int64_t since_ns;      /* ACQUIRE: when its client asked; waits that come without a place get
                              theirs in this order */
    uint32_t report;       /* RELEASE: the number of the last report that its thread has given its
                              part of (see `report` below); 0: of none */
    struct bytes name;     /* stays valid until the answer */
    /* Both; zero for a new request. A wait that an upgrade carried, or that began in the table,
     * comes with `queued`; its `seq` is 0 when the engine never gave it one. */
    uint64_t seq; /* its place, from the engine; greater than 1 */
    bool queued;  /* a wait, as its client sees it (see `queued` of struct node_does) */
    /* The answer: */
    enum node_result result;
    uint64_t count_units, count_waits; /* COUNTED; HOLDERS: of all nodes */
    struct node_share *shares;         /* HOLDERS: from malloc, the owner frees it */
    size_t share_count;
    /* Of the node: */
    struct node_request *next, *prev;
    struct node_request *same_name, *same_name_prev; /* in its index of acquisitions by name */
    struct node_name *of_name;
    struct node_entry by_id;
    uint32_t state;
    bool strict;
    bool own; /* made by the node itself: never answered */
    bool cancelled;
};

/* ---- what a node asks of its owner ----------------------------------------------------------- */

enum node_wire {
    NODE_COMMANDS, /* to the engine */
    NODE_MESSAGES, /* to the engine, for the subscription */
    NODE_SENTINEL, /* the first of the Sentinels */
};
#define NODE_SENTINELS_MAX 16
#define NODE_WIRES         ((unsigned)NODE_SENTINEL + NODE_SENTINELS_MAX)

/* How the owner serves requests for shared names. */
enum node_mode {
    NODE_ASK_ENGINE, /* every request goes to the node */
    NODE_ALONE_MODE, /* patience is over: loose names are admitted by the table alone, and their
                        releases are the table's; Get is the table's; strict names go to the node */
};

enum node_level { NODE_LOG_INFO, NODE_LOG_WARNING, NODE_LOG_ERROR };

/* All are called from inside the functions below; they must not call these again, except where
 * said. */
struct node_does {
    /* Opens a wire. Later the owner calls node_opened or node_closed. `engine`: the one behind
     * Sentinels; NULL: as in the URL (NODE_SENTINEL + i: its number i). The time limit counts from
     * now. */
    void (*open)(void *arg, unsigned wire, const struct url_host *engine, int64_t limit_ns);
    /* Sends bytes, which are copied. A wire that cannot take them is closed (node_closed later). */
    void (*send)(void *arg, unsigned wire, const void *data, size_t len);
    /* Closes a wire at once; nothing of it comes after that. */
    void (*close)(void *arg, unsigned wire);

    /* An acquisition that its client still waits for is a wait now: it has its place, or the engine
     * is away. Called at most once for a request, before `answer`. */
    void (*queued)(void *arg, struct node_request *request);
    /* The answer; the request is the owner's again. */
    void (*answer)(void *arg, struct node_request *request);

    /*
     * Asks for a report of the ledger, under `patterns`: from then on all threads serve as
     * NODE_ASK_ENGINE says, with these patterns; waits that the table alone has of shared names
     * come as asks (`queued`). The owner calls node_report for what its connections hold of shared
     * names, any number of times for a name, and node_reported at the end. Everything that a thread
     * sent before its part of the report comes before that part. Not called again until reported.
     *
     * `number` is another one each time. A thread keeps it from its part on, for `report` of its
     * releases: so the node knows which releases the report has already. 0: patience is over, and
     * the threads go on as NODE_ALONE_MODE says; another report follows.
     */
    void (*report)(void *arg, const struct patterns *patterns, uint32_t number);
    /* From now on the threads serve as NODE_ALONE_MODE says. No answer. */
    void (*serve_alone)(void *arg);
    /* Closes every connection that holds units of a strict name (reason lease_lost), then calls
     * node_strict_closed. */
    void (*close_strict)(void *arg);
    /* The lease changed: strict names may be granted until `end_ns`; 0: not at all. Any thread may
     * read it after this, so that no LOCKED is written later. */
    void (*lease)(void *arg, int64_t end_ns);

    /* True when the process `where` ran on this machine and is gone (location.h). */
    bool (*is_gone)(void *arg, const char *where);
    uint64_t (*random)(void *arg);
    void (*log)(void *arg, enum node_level level, const char *text);
};

/* ---- life ------------------------------------------------------------------------------------ */

struct node_config {
    const struct url *url;           /* outlives the node */
    const char *user, *password;     /* may be empty; copied */
    const char *node;                /* 1 to 64 visible bytes; copied */
    const char *where;               /* this process (location.h); copied */
    const char *prefix;              /* copied */
    const struct patterns *patterns; /* the node takes a share */
    int64_t lease_ns, patience_ns;
};

/* Makes a node. Nothing is opened before node_start. NULL: no memory. */
struct node *node_new(const struct node_config *config, const struct node_does *does,
                      void *arg) MUST_USE;
/* Frees *node and sets it to NULL; NULL is harmless. It must have no requests
 * (node_forget_requests). */
void node_free(struct node **node);

/* Begins: patience counts from now. Also after node_pause, when an upgrade failed. */
void node_start(struct node *node, int64_t now_ns);

/* The time of the next node_tick; INT64_MAX: none. May change with every call. */
int64_t node_due_ns(const struct node *node);
/* Does what is due. A node that was stopped for a while must be called first of all. */
void node_tick(struct node *node, int64_t now_ns);
/* Sends what was gathered: call it after every round of the calls below. */
void node_flush(struct node *node, int64_t now_ns);

void node_opened(struct node *node, unsigned wire, int64_t now_ns);
/* `now_ns`: read after the bytes were. */
void node_received(struct node *node, unsigned wire, const void *data, size_t len, int64_t now_ns);
void node_closed(struct node *node, unsigned wire, const char *reason, int64_t now_ns);

void node_submit(struct node *node, struct node_request *request, int64_t now_ns);
/* The client of this acquisition has its answer, or has gone. Harmless when it was answered. */
void node_cancel(struct node *node, uint64_t id, int64_t now_ns);

void node_report(struct node *node, struct bytes name, uint32_t units);
void node_reported(struct node *node, int64_t now_ns);
void node_strict_closed(struct node *node, int64_t now_ns);

/* The ledger lost a release (no memory for its message): opens anew, with a report. */
void node_open_anew(struct node *node, const char *why, int64_t now_ns);

/* Reload. New patterns open anew: requests for names that are shared no more are answered
 * NODE_ALONE. The node takes a share of `patterns`. False: no memory, nothing has changed. */
void node_set_patterns(struct node *node, const struct patterns *patterns, int64_t now_ns);
bool node_set_access(struct node *node, const char *user, const char *password,
                     int64_t now_ns) MUST_USE;
void node_set_patience(struct node *node, int64_t patience_ns, int64_t now_ns);
/* What connections need has changed: a session that stands stays, and an attempt that failed is
 * repeated at once. node_set_access does it, too. */
void node_try_again(struct node *node, int64_t now_ns);

/* ---- the end, upgrades ----------------------------------------------------------------------- */

/*
 * Drain and shutdown: sends what was released, then `leave`, again each lease / 5 while the engine
 * says HOLDS. Where the engine may have units of a session that was lost, the node opens another
 * one first; it tries that once. New acquisitions are answered NODE_ENGINE_AWAY. node_has_left:
 * true when the session is over, or there is none.
 */
void node_leave(struct node *node, int64_t now_ns);
bool node_has_left(const struct node *node);

/*
 * Before an upgrade: closes the wires; releases that were not answered are answered RELEASED;
 * acquisitions stay requests. Nothing is sent from then on. node_start goes on if the upgrade
 * fails.
 */
void node_pause(struct node *node, int64_t now_ns);
/* Takes all requests of a paused node, or at the end, one by one; NULL: none are left. */
struct node_request *node_forget_request(struct node *node);

/* Writes and reads what the next process needs (the caller's section): last session, lease's end,
 * seq, since when there is no engine. `restore` before node_start; requests come again by
 * node_submit. */
void node_save(const struct node *node, struct record_writer *w);
bool node_restore(struct node *node, struct record_reader *r) MUST_USE;

/* ---- what people see ------------------------------------------------------------------------- */

enum node_state { NODE_AWAY, NODE_CONNECTING, NODE_OPENING, NODE_REFUSED, NODE_LIVE, NODE_LEAVING };
const char *node_state_word(enum node_state state);

/* Why the engine was lost, or a session ended: one counter each. */
#define NODE_LOSSES(ROW)                                                                           \
    ROW(CLOSED, "closed")                                                                          \
    ROW(SLOW, "slow")                                                                              \
    ROW(DEAF, "deaf")                                                                              \
    ROW(SESSION, "session")                                                                        \
    ROW(TERM, "term")                                                                              \
    ROW(ERROR, "error")                                                                            \
    ROW(LEASE, "lease")                                                                            \
    ROW(SENTINEL, "sentinel")                                                                      \
    ROW(LEDGER, "ledger")                                                                          \
    ROW(RELOAD, "reload")
enum node_loss {
#define ROW(name, word) NODE_LOSS_##name,
    NODE_LOSSES(ROW)
#undef ROW
        NODE_LOSS_COUNT
};
const char *node_loss_word(enum node_loss loss);

struct node_peer { /* a session that the engine knows, from `look` */
    char session[17], node[65], state[8], digest[17];
    uint64_t beat;
    uint64_t names, waits;
    uint64_t units;   /* UINT64_MAX: not known */
    int64_t heard_ns; /* when its beat changed last, as this node saw it; 0: not yet */
};

/* Why there is no live session, and what to set. */
#define NODE_REASON_SIZE 512u
#define NODE_REASONS_MAX 4u
struct node_reason {
    char text[NODE_REASON_SIZE];
    bool refuses;              /* somebody must set something */
    int64_t since_ns, said_ns; /* when it came first; when the log had it last */
    uint64_t times;
};

struct node_stats {
    enum node_state state;
    char session[17], term[128], engine[128]; /* engine: address in use */
    /* Those since a beat was answered, the present one first; none while the session is live. */
    struct node_reason reasons[NODE_REASONS_MAX];
    unsigned reasons_count;
    /* Shared names with a key that another program has written, and the last such key. */
    uint64_t wrong_names;
    char wrong_key[160];
    bool stops_on_save; /* the engine takes no writes after a snapshot that failed */
    bool grace;
    uint64_t requests; /* requests that the node has */
    uint64_t waits;    /* of these, waits */
    uint64_t beats, calls, ops, asserted, reaped, leases_lost;
    uint64_t losses[NODE_LOSS_COUNT];
    uint64_t round_trip_ns, round_trips; /* sum and number, of calls */
};
void node_look(const struct node *node, struct node_stats *seen_r);
/* The sessions of all nodes, as of the last look at the engine, which the node repeats each lease
 * while it is live, and when a beat shows that one has come or left. The node owns them. */
const struct node_peer *node_peers(const struct node *node, size_t *count_r);

#endif
