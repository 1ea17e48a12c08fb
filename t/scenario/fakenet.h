/*
 * fakenet.h - what the two files of fakenet share: its server (fakenet_server.c), and the clients
 * and commands (fakenet.c). There is one thread.
 */
#ifndef FAKENET_H
#define FAKENET_H

#include "service/job_session.h"
#include "service/pools.h"
#include "t/campaigns/simulate/fake.h"
#include "t/unit/rng.h"
#include "t/unit/serving.h"

/* The keys of `start`, and their values if they are not given; those from SEED on are of trouble.
 */
#define ARGUMENT_ROWS(ROW)                                                                         \
    ROW(STATS_INTERVAL, "stats_interval", 86400)                                                   \
    ROW(BUCKETS, "buckets", 1000)                                                                  \
    ROW(MEMORY_LIMIT, "memory_limit", 64 << 20)                                                    \
    ROW(MAX_LOCKS, "max_locks", 4)                                                                 \
    ROW(MAX_LINE, "max_line", 8192)                                                                \
    ROW(MAX_CONNECTIONS, "max_connections", 0)                                                     \
    ROW(OUTPUT_BUFFER, "output_buffer", 262144)                                                    \
    ROW(HANDSHAKES, "handshakes", 1000)                                                            \
    ROW(UNFINISHED, "unfinished", 256 << 20)                                                       \
    ROW(REQUEST_TIMEOUT, "request_timeout", 30)                                                    \
    ROW(WRITE_TIMEOUT, "write_timeout", 30)                                                        \
    ROW(MONO, "mono", 0)                                                                           \
    ROW(POOLS_MAX, "pools_max", 1000)                                                              \
    ROW(POOLS_MAX_MEMBERS, "pools_max_members", 10000)                                             \
    ROW(POOLS_MAX_WATCHERS, "pools_max_watchers", 100)                                             \
    ROW(POOLS_MAX_TAKEN, "pools_max_taken", 64)                                                    \
    ROW(MAX_JOB_SIZE, "max_job_size", 1 << 20)                                                     \
    ROW(JOBS_MEMORY, "jobs_memory", 64 << 20)                                                      \
    ROW(SEED, "seed", 0)                                                                           \
    ROW(WORKERS, "workers", 1)                                                                     \
    ROW(SPLIT, "split", 0)                                                                         \
    ROW(SHORT, "short", 0)                                                                         \
    ROW(SLOW, "slow", 0)                                                                           \
    ROW(AMID, "amid", 0)                                                                           \
    ROW(REFUSE, "refuse", 0)                                                                       \
    ROW(REFUSE_START, "refuse_start", 0)                                                           \
    ROW(BREAK, "break", 0)

enum argument {
#define ROW(name, key, usual) name,
    ARGUMENT_ROWS(ROW)
#undef ROW
        ARGUMENTS,
};

extern uint64_t arguments[ARGUMENTS];
extern struct rng rng;
extern struct server server;
extern struct services *services; /* NULL: no server runs */
extern bool in_server;            /* its code runs; allocations of this program never fail */
extern uint64_t allocations;      /* since the server has started */

struct loop *loop_of(unsigned worker);

/* These return NULL, or an error text. Keys of `start` are the words that *save has. */
const char *server_start(char **save, const struct fake_hooks *hooks);
const char *server_upgrade(unsigned workers);
const char *server_reload(void);

/* Checks the engines' invariants. */
void server_check(void);

/* Names that nobody has used go. Returns NULL if the table has all its memory back then. */
const char *server_see_memory_back(void);

/* True if memory was not freed, though the server and all clients have gone. */
bool server_leaks(void);

/* Frees workers, services and settings, also if some could not be made. */
void server_gone(void);

#endif
