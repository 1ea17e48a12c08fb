/*
 * cluster.h - the resource "cluster": a node (cluster/node.h) with a thread, which the services ask
 * about shared names. Shared by cluster.c (the thread), cluster_upgrade.c, cluster_options.c,
 * cluster_monitor.c (what people see), cluster_copies.c and arbiter.c (the workers' side).
 *
 * Modes. Each worker has its own view (struct cluster_copy): the patterns, and whether the node is
 * asked. The node changes it by message (`report` with a number, `serve_alone`), a reload the
 * patterns, so that a name that is strict now is granted by no worker, even without an engine. All
 * messages between the cluster's thread and a worker arrive in the order sent. That makes the
 * ledger whole:
 *
 * - The node's message that grants units comes before its message that asks for a report, or after;
 *   the report has exactly what the connections hold when the worker reads it.
 * - What a worker released before its part of the report was sent before it. Each release names the
 *   report that its worker has given last, so the node knows which ones the report has already.
 * - Waits that the table alone has become requests before the part of the report ends.
 *
 * Lease. The node writes its end to `lease_end_ns`. Each worker looks at the beginning of each
 * iteration: if it has passed, the worker closes the connections that have units of strict names,
 * before it reads anything. The same comes by message (`close_strict`), which the worker confirms.
 *
 * Upgrades. Nobody looks at the lease in the pause. So it begins when the lease was renewed just
 * now, and ends early enough (cluster_upgrade.c). A successor for which that was not enough closes
 * the connections as any worker does, before it reads.
 *
 * Threads: said of each field and function.
 */
#ifndef SERVICE_CLUSTER_H
#define SERVICE_CLUSTER_H

#include "base/lock.h"
#include "base/option.h"
#include "base/tally.h"
#include "cluster/location.h"
#include "cluster/node.h"
#include "cluster/patterns.h"
#include "cluster/url.h"
#include "cluster/wire.h"
#include "service/service.h"

#include <semaphore.h>

struct cluster_settings {
    /* NULL: empty. */
    char *engine, *user, *password, *strict, *loose, *node, *prefix, *ca, *cert, *key;
    int64_t lease_ns, patience_ns;
    struct tls *tls; /* what the check made of the files; NULL: the engine is reached without TLS */
};

/* A message to a view that is sent again only after it was confirmed. */
struct cluster_call {
    struct mail mail;
    bool under_way, again; /* of the cluster's thread */
};

/* What one worker knows. */
struct cluster_copy {
    struct cluster *cluster; /* constant, as the next two */
    struct worker *worker;
    struct reactor_hook hook;

    /* The worker's: */
    struct patterns *patterns;
    enum node_mode mode;
    _Atomic bool may_have_strict; /* some `may_have_strict` of its links (arbiter.h); any thread
                                     reads */
    uint32_t report;              /* number of the last one that had one */
    int64_t closed_for_ns;        /* the end of the lease whose holders were closed */
    tally requests[NODE_NO_MEMORY + 1]; /* answered, by result; any thread reads */
    tally lease_lost;                   /* connections that were closed */

    /* Messages there and back. */
    struct cluster_call report_call, alone_call, strict_call;
    struct patterns *new_patterns; /* with report_call */
    uint32_t new_report;           /* 0: the mode stays */
    struct cluster_part *part;     /* of the report; NULL: none begun */
    bool failed;                   /* the report is not whole: no memory */
} __attribute__((aligned(64)));

/* A wire of the node. */
struct cluster_wire {
    struct cluster *cluster;
    unsigned number;
    struct wire *wire; /* NULL: not used yet */
};

/* What the other threads see of the node; under the lock. */
struct cluster_snapshot {
    struct node_stats node;
    struct node_peer *peers;
    size_t peer_count, peer_room;
};

struct cluster {
    struct resource resource; /* first */

    /* Constant after `start`. */
    const struct cluster_settings *settings;
    struct url url;
    struct location where;
    char node_name[65];
    const char *reads[24];      /* files that the thread may read */
    struct cluster_copy *views; /* one for each worker */
    int wake_fd;                /* a timer on the clock of the lease */

    /* Any thread. */
    _Atomic uint64_t next_id;
    _Atomic int64_t lease_end_ns;
    _Atomic bool is_live;
    _Atomic bool lost_on_its_way; /* the message that a release is lost for lack of memory */
    struct mail lost_message;

    /* The thread's; the main thread's while it does not run. */
    struct node *node;
    struct tls *tls; /* for new connections to the engine; NULL: they have none */
    struct cluster_wire wires[NODE_WIRES];
    struct timer timer; /* what is due; also at the end of each iteration with anything to send */
    struct reactor_hook hook;
    struct loop_io wake;
    unsigned reporting, closing; /* views that have not confirmed */
    bool paused, ending, over, restored;
    bool hooked, timed;          /* what `end` must undo */
    bool changed;                /* since the snapshot */
    bool report_due, strict_due; /* to confirm without the workers, which have ended */
    int64_t seen_ns;             /* time of the snapshot */
    /* The main thread's, of an upgrade that waits: since when, and the lease's end then. */
    int64_t waits_since_ns, waits_end_ns;
    char refused[160]; /* why the state of the last process can't be taken */
    sem_t left;        /* of the end: the node has left */
    bool waits_to_leave;

    struct lock lock; /* of the rest; rank LOCK_RANK_RIGHTS */
    struct cluster_snapshot snapshot;
    /* Settings that a reload may change, for people. */
    struct patterns *patterns; /* a share */
    int64_t patience_ns;
};

/* A request on its way. It belongs to the node until its answer is here, then to its receiver. */
struct arbiter_request {
    struct message message; /* first; to the node, and back with the answer */
    struct message queued;  /* back, before the answer: it is a wait now */
    struct node_request request;
    struct cluster *cluster;
    bool has_place; /* written before `queued` is sent: the engine has given it a place */
    bool keep;      /* of struct acquire */
    /* Gets the answer in the thread of the cluster, instead of a connection; NULL: the latter. */
    void (*answered)(struct cluster *c, struct arbiter_request *request);
    unsigned char name[];
};

static inline struct cluster *cluster_own(const struct resource *r)
{
    return unconst(r); /* `resource` is its first member */
}

/* A setting, which may be NULL. */
static inline const char *cluster_text(const char *setting)
{
    return setting ? setting : "";
}

/* The resource; NULL: no name is shared. Any thread. */
static inline struct cluster *cluster_of(const struct services *services)
{
    return services->cluster ? cluster_own(services->cluster) : NULL;
}

/* The view of a connection's worker, which must be there. */
static inline struct cluster_copy *cluster_copy_of(const struct conn *conn)
{
    return &cluster_own(service_of(conn)->services->cluster)
                ->views[worker_number(conn_worker(conn))];
}

/* ---- cluster_wires.c ------------------------------------------------------------------------- */

/* Makes the wires, and what they need. Returns false when there is no memory. */
bool cluster_make_wires(struct cluster *c) MUST_USE;
/* Undoes it, all or the part that was done; after node_free. */
void cluster_free_wires(struct cluster *c);
/* Of struct node_does. */
void cluster_open_wire(void *arg, unsigned number, const struct url_host *engine, int64_t limit_ns);
void cluster_send(void *arg, unsigned number, const void *data, size_t len);
void cluster_close_wire(void *arg, unsigned number);

/* ---- cluster.c: in its thread ---------------------------------------------------------------- */

/* Something has come: the node sends at the end of the iteration. */
void cluster_stir(struct cluster *c);

/* ---- cluster.c: messages to its thread ------------------------------------------------------- */

/* Sends a request. Any thread. */
void cluster_ask(struct cluster *c, struct arbiter_request *request);
/* Cancels an acquisition; if there is no memory, it goes on. Any thread. */
void cluster_cancel(struct cluster *c, uint64_t id);
/* A release is lost for lack of memory: the node opens anew. Any thread. */
void cluster_lost(struct cluster *c);

/* Units of shared names that the connections of a worker hold. */
#define CLUSTER_PART_ROOM ((size_t)64 * 1024)
struct cluster_part {
    struct mail mail; /* first; to the cluster's thread, which frees it */
    size_t used;
    /* u32 units, u32 length, name; and so on. The last one begins below CLUSTER_PART_ROOM. */
    unsigned char data[CLUSTER_PART_ROOM + 2 * sizeof(uint32_t) + TABLE_NAME_MAX];
};
void cluster_on_part(struct mail *mail, void *reactor);
/* New patterns for a view; to its worker, which frees the message. */
struct cluster_patterns {
    struct mail mail; /* first */
    struct cluster_copy *view;
    struct patterns *patterns;
};
/* Confirmations of a view, by the messages of its calls. */
void cluster_on_reported(struct mail *mail, void *reactor);
void cluster_on_alone(struct mail *mail, void *reactor);
void cluster_on_strict_closed(struct mail *mail, void *reactor);

/* ---- cluster_upgrade.c; the main thread ------------------------------------------------------ */

/* Of struct resource_row. */
bool cluster_may_pause(struct resource *r, int64_t since_ns, int64_t now_ns);
int64_t cluster_serve_by(struct resource *r, const char **what_r);
void cluster_save(const struct resource *r, struct moment now, struct record_writer *w);
bool cluster_restore(struct resource *r, struct moment now, uint32_t kind,
                     struct record_reader *section);
bool cluster_restore_done(struct resource *r, struct record_reader *reader);

/* ---- cluster_copies.c: messages to a worker, and its hook ------------------------------------ */

void cluster_copy_on_report(struct mail *mail, void *worker);
void cluster_copy_on_alone(struct mail *mail, void *worker);
void cluster_copy_on_patterns(struct mail *mail, void *worker);
void cluster_copy_on_close_strict(struct mail *mail, void *worker);
void cluster_copy_hook(struct reactor_hook *hook, struct moment now);
/* Sets `may_have_strict` to what is so, and returns it. In the worker's thread, or while that is
 * paused. */
bool cluster_copy_look_for_strict(struct cluster_copy *view);
/* The connection may have units of strict names; of any shared names. */
void cluster_set_may_have_strict(struct conn *conn);
void cluster_expect_all(struct conn *conn);

/* ---- arbiter.c: messages to a worker --------------------------------------------------------- */

void arbiter_on_answer(struct mail *mail, void *worker);
void arbiter_on_queued(struct mail *mail, void *worker);

/* ---- cluster_options.c ----------------------------------------------------------------------- */

extern const struct option_group cluster_options;

/* ---- cluster.c: reloads; the main thread ----------------------------------------------------- */

/* Puts settings in force; `was` is NULL before the thread runs. */
void cluster_change(struct services *services, const struct cluster_settings *was,
                    const struct cluster_settings *is);

/* ---- cluster_monitor.c ----------------------------------------------------------------------- */

extern const struct monitor cluster_monitor;

extern const struct resource_row cluster_resource_row;

#endif
