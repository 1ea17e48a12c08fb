/*
 * engine.h - a Redis in memory, as far as counterd nodes use one: bytes in, bytes out.
 *
 * It runs the real scripts in Lua, over keys that engine.lua has, and knows the commands that nodes
 * send. No sockets, no clock, no threads: it acts only while the program calls it, and a run is the
 * same each time. Memory that is missing ends the program.
 *
 * A connection's commands are served at once, in fake_engine_feed. What it must send, answers and
 * messages, stays in its output until the program takes it: so the program is the network.
 */
#ifndef FAKE_ENGINE_H
#define FAKE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_engine;
struct fake_link; /* a connection of a client */

/*
 * A primary without data, for the prefix PREFIX of the keys {PREFIX}:. The seed makes its run ids.
 * `password`: what connections must say first; NULL: nothing. The caller frees it; its connections
 * are closed then, but stay the caller's.
 */
struct fake_engine *fake_engine_new(const char *prefix, uint64_t seed, const char *password);
void fake_engine_free(struct fake_engine *engine);

/* ---- Connections ----------------------------------------------------------------------------- */

/* A new connection. The caller frees it with fake_engine_hang_up, also when the engine closed it.
 */
struct fake_link *fake_engine_connect(struct fake_engine *engine);
/* The client closes: no message reaches it any more. */
void fake_engine_hang_up(struct fake_link *link);
/* The bytes arrive, in pieces of any size. Those that come after the engine closed are dropped. */
void fake_engine_feed(struct fake_link *link, const void *bytes, size_t len);
/* Takes what the engine has sent. It stays until the next call of this for the connection. */
const char *fake_engine_take(struct fake_link *link, size_t *len);
/* True after the engine closed the connection: a restart, a change of its role, or wrong bytes. */
bool fake_engine_closed(const struct fake_link *link);

/* ---- Faults ---------------------------------------------------------------------------------- */

enum fake_trouble {
    FAKE_NO_TROUBLE,
    FAKE_FULL,       /* maxmemory is reached: `call` is refused with OOM */
    FAKE_MISCONF,    /* a snapshot failed: scripts are refused */
    FAKE_NOREPLICAS, /* too few replicas: scripts are refused */
    FAKE_READONLY,   /* a replica by its answers, though its role says master */
    FAKE_LOADING,    /* still reads its data: INFO and few others work */
    FAKE_BUSY,       /* a script runs for too long */
    FAKE_DENIED,     /* AUTH is refused, and what it said is quoted */
    FAKE_EVICTS      /* any key may be evicted */
};

/*
 * What happens to the engine:
 *
 *     trouble  it has that one, of enum fake_trouble, and no other
 *     restart  another run_id and master_replid, no scripts, all connections closed; value 0: its
 *              data is gone
 *     flush    FLUSHALL: the data is gone, the term is the same
 *     forget   SCRIPT FLUSH
 *     keep     what the last `value` scripts that wrote have changed is kept, for replicas
 *     promote  a replica becomes a primary: another master_replid; its connections stay
 */
void fake_engine_do(struct fake_engine *engine, const char *what, long value);
/*
 * A copy of an engine that lacks the last `lacks` writes, at most those that are kept. It is a
 * replica: its role says so and scripts are refused with READONLY. Both go on, each by itself.
 */
struct fake_engine *fake_engine_replica(const struct fake_engine *engine, size_t lacks,
                                        uint64_t seed);
/* Another program writes the key of a name's queue, or deletes it (`spoils` false). */
void fake_engine_spoil(struct fake_engine *engine, const char *name, bool spoils);

/* ---- Looking --------------------------------------------------------------------------------- */

/*
 * NULL, or a text that is the engine's until its next call. `check`: what is wrong (sums.lua);
 * `misuse`: the first command that no node may send, an unknown one or one that a script refuses;
 * `left`: a key of units, waits, sessions or unfinished names.
 */
const char *fake_engine_look(struct fake_engine *engine, const char *what);
/* How many `units` or `waits` a name has. */
uint64_t fake_engine_count(const struct fake_engine *engine, const char *what, const char *name);

#endif
