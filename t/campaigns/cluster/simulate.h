/*
 * simulate.h - several nodes, their connections' threads, clients and one engine in memory, in one
 * thread. A seed decides everything: faults, delays, orders. The clock is a number.
 *
 *     simulate.c         seeds, time, what is checked
 *     simulate_net.c     wires: delays, pieces, cuts; engines; Sentinels
 *     simulate_place.c   a place: one process with its node, threads and messages
 *     simulate_client.c  clients, and the table that is their ledger
 *     simulate_faults.c  what goes wrong
 */
#ifndef SIMULATE_H
#define SIMULATE_H

#include "cluster/node.h"
#include "cluster/patterns.h"
#include "cluster/url.h"
#include "t/campaigns/cluster/engine.h"
#include "t/unit/rng.h"

#include <stdio.h>

#define MS           INT64_C(1000000)
#define PLACES       4u
#define WORKERS      2u
#define CLIENTS      10u
#define NAMES        8u
#define MANY         5000u /* names that a place holds from its start on */
#define NOBODY       CLIENTS
#define ENGINES      3u
#define SENTINELS    3u
#define PATTERN_SETS 2u
#define LEASE_NS     (2000 * MS)
#define PREFIX       "sim"
#define PASSWORD     "open-sesame"
#define NEVER        INT64_MAX

struct sim;
struct place;

/* ---- net ------------------------------------------------------------------------------------- */

struct segment {
    struct segment *next;
    int64_t at_ns;
    size_t len;
    char bytes[];
};

struct line { /* one direction of a wire */
    struct segment *first, *last;
    int64_t last_ns, stalled_ns; /* nothing arrives before that */
};

struct wire {
    struct wire *next;
    struct place *place; /* NULL: the node closed it, and what it sent is still on its way */
    unsigned number;     /* of the node's wires */
    int64_t opens_ns;    /* 0: it is open */
    bool fails, dead;
    int64_t closes_ns; /* when the node learns that it is closed; NEVER */
    unsigned engine;   /* to which, or ENGINES + Sentinel */
    struct fake_link *link;
    struct line to_engine, to_node;
};

/* ---- places ---------------------------------------------------------------------------------- */

enum message_kind {
    TO_WORKER_ANSWER,
    TO_WORKER_QUEUED,
    TO_WORKER_REPORT,
    TO_WORKER_ALONE,
    TO_WORKER_CLOSE_STRICT,
    TO_NODE_SUBMIT,
    TO_NODE_CANCEL,
    TO_NODE_PART,
    TO_NODE_CLOSED_STRICT,
};

struct sim_message {
    struct sim_message *next;
    enum message_kind kind;
    int64_t at_ns;
    struct request *request;
    uint64_t id;
    uint32_t number;
    struct patterns *patterns;
    uint32_t units[NAMES]; /* PART */
};

struct box {
    struct sim_message *first, *last;
    int64_t last_ns;
};

struct request {
    struct node_request ask;
    unsigned client;  /* NOBODY: of none */
    int64_t given_ns; /* to the node */
    uint32_t turn;    /* of the client; another one: it has gone, or has its answer */
    unsigned worker, name;
    bool queued_sent, answered;
};

enum client_state {
    CLIENT_OUT, /* not connected */
    CLIENT_IDLE,
    CLIENT_ASKS,     /* its request is at the node, or on its way */
    CLIENT_WAITS,    /* a wait at the node */
    CLIENT_IN_TABLE, /* a wait in the table */
    CLIENT_HOLDS,
    CLIENT_RELEASES,
};

struct client {
    enum client_state state;
    uint32_t turn;
    unsigned name;
    uint32_t units, limit, queue_max;
    enum node_wait wait;
    uint64_t id, seq;
    struct request *request;
    int64_t asked_ns;
    int64_t act_ns; /* its next act: ends, releases, gives up, asks */
    bool patient;   /* waits without a limit */
    uint64_t since; /* order in the table's queue */
};

struct worker {
    struct box to_worker, to_node;
    struct patterns *patterns;
    bool alone;
    uint32_t report;
    bool part_due;
};

struct place {
    struct sim *sim;
    unsigned number, life, machine;
    bool up, paused, leaving;
    bool has_many;     /* it holds MANY names */
    int64_t live_ns;   /* since when its session lives and it runs; NEVER */
    char said[512];    /* why there is no session, as the log had it last; to be compared */
    int64_t paused_ns; /* runs again then; 0: it runs */
    int64_t clock_ns;  /* what its clock shows beyond the simulation's */
    bool moved;        /* on another machine */
    char name[16], where[64];
    struct node *node;
    struct patterns *patterns;
    int64_t lease_end_ns;
    struct wire *wires[NODE_WIRES];
    struct worker workers[WORKERS];
    struct client clients[CLIENTS];
    uint64_t next_id;
    unsigned parts_due, closed_due;
    uint32_t report_number;
    unsigned releasing[NAMES]; /* explicit releases that are not answered */
    uint64_t requests;         /* that were submitted and not answered */
    int64_t leave_until_ns, up_again_ns;
    int64_t apart_ns; /* no wire can be opened before that */
};

struct sim {
    uint64_t seed;
    struct rng rng;
    int64_t now_ns;
    bool trace, calm, frozen, is_far; /* far: engines are, and a place has many names */
    struct url url;
    bool sentinels;
    unsigned places_used;
    struct place places[PLACES];
    struct fake_engine *engines[ENGINES];
    bool replica[ENGINES];
    unsigned primary;
    unsigned named[SENTINELS]; /* which engine each Sentinel names */
    int64_t learns_ns[SENTINELS];
    bool deaf[SENTINELS];
    struct wire *wires;
    int64_t delay_ns, patience_ns;
    struct patterns *sets[PATTERN_SETS];
    int64_t fault_ns;
    int64_t mended_ns;          /* when the trouble of the engine ends; 0: none */
    int64_t evicts_ns[ENGINES]; /* since when it evicts; NEVER */
    unsigned wrong;             /* the name whose queue another program has written; NAMES: none */
    unsigned asked;             /* questions of `ask_all` that have no answer */
    int64_t released_ns[NAMES]; /* when a client said that the work is done */
    uint64_t order;             /* grows: orders the waits of the table */
    uint64_t steps;
};

/* ---- simulate.c */
_Noreturn void sim_fail(struct sim *sim, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sim_trace(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline uint32_t sim_below(struct sim *sim, uint32_t bound)
{
    return rng_below(&sim->rng, bound);
}
static inline bool sim_one_in(struct sim *sim, uint32_t n)
{
    return rng_one_in(&sim->rng, n);
}
extern const char *const sim_names[NAMES];
extern const uint32_t sim_limits[NAMES];
extern char sim_many[MANY][8];

/* ---- simulate_net.c */
void net_begin(struct sim *sim);
void net_end(struct sim *sim);
int64_t net_due_ns(const struct sim *sim);
void net_step(struct sim *sim);
/* For the node of a place, `arg`. */
void net_open(void *arg, unsigned wire, const struct url_host *engine, int64_t limit_ns);
void net_send(void *arg, unsigned wire, const void *data, size_t len);
void net_close(void *arg, unsigned wire);
void net_cut(struct sim *sim, struct wire *w);
/* Takes what the engines have to say. */
void net_collect(struct sim *sim);

/* ---- simulate_place.c */
void place_start(struct place *p, bool same_machine);
void place_kill(struct place *p);
void place_upgrade(struct place *p);
void place_leave(struct place *p);
int64_t place_due_ns(const struct place *p);
void place_step(struct place *p);
int64_t place_now(const struct place *p);
struct sim_message *place_post(struct place *p, unsigned worker, enum message_kind kind);
void request_send(struct place *p, struct request *r);
struct request *request_new(struct place *p, unsigned worker, unsigned client, enum node_op op,
                            unsigned name);

/* ---- simulate_client.c */
void client_act(struct place *p, unsigned client);
void client_end(struct place *p, unsigned client);
void client_answered(struct place *p, struct request *r);
void client_queued(struct place *p, struct request *r);
/* The units in the table of a place. */
uint32_t table_units(const struct place *p, unsigned name);
void table_hand_over(struct place *p, unsigned name);
bool client_is_strict(const struct place *p, const struct client *c);
static inline unsigned client_worker(unsigned client)
{
    return client % WORKERS;
}

/* ---- simulate_faults.c */
void faults_begin(struct sim *sim);
void faults_step(struct sim *sim);
int64_t faults_due_ns(const struct sim *sim);
void faults_end(struct sim *sim);
void faults_spoil(struct sim *sim, unsigned name);

#endif
