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
 * The caller frees it; its connections are closed then, but stay the caller's.
 */
struct fake_engine *fake_engine_new(const char *prefix, uint64_t seed);
void fake_engine_free(struct fake_engine *engine);

/* ---- Connections ---- */

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

/* ---- Faults ---- */

/* Ends and starts anew with its data or without: another run_id and master_replid, no scripts, all
 * connections closed. */
void fake_engine_restart(struct fake_engine *engine, bool with_data);
/* FLUSHALL: the data is gone, the term is the same. */
void fake_engine_flush(struct fake_engine *engine);

/* Keeps what the last `writes` scripts that wrote have changed. 0: none. */
void fake_engine_keep(struct fake_engine *engine, size_t writes);
/*
 * A copy of an engine that lacks the last `lacks` writes, at most those that are kept. It is a
 * replica: its role says so and scripts are refused with READONLY. Both go on, each by itself.
 */
struct fake_engine *fake_engine_replica(const struct fake_engine *engine, size_t lacks,
                                        uint64_t seed);
/* A replica becomes a primary: another master_replid. Its run_id stays, connections too. */
void fake_engine_promote(struct fake_engine *engine);

enum fake_trouble {
    FAKE_NO_TROUBLE,
    FAKE_FULL,       /* maxmemory is reached: `call` is refused with OOM */
    FAKE_MISCONF,    /* a snapshot failed: scripts are refused */
    FAKE_NOREPLICAS, /* too few replicas: scripts are refused */
    FAKE_READONLY,   /* a replica by its answers, though its role says master */
    FAKE_LOADING,    /* still reads its data: INFO and few others work */
    FAKE_BUSY        /* a script runs for too long */
};
void fake_engine_trouble(struct fake_engine *engine, enum fake_trouble trouble);
/* Forgets the scripts: SCRIPT FLUSH. */
void fake_engine_forget_scripts(struct fake_engine *engine);

/* ---- Looking ---- */

/* NULL, or what is wrong (sums.lua). The text is the engine's, until its next call. */
const char *fake_engine_check(struct fake_engine *engine);
/* NULL, or the first command that no node may send: an unknown one, or one that a script refuses.
 */
const char *fake_engine_misuse(struct fake_engine *engine);
/* Units of a name, and waits for it. */
uint64_t fake_engine_units(const struct fake_engine *engine, const char *name);
uint64_t fake_engine_waits(const struct fake_engine *engine, const char *name);
/* NULL if there are no units, waits, sessions and unfinished names, or a key of them. */
const char *fake_engine_left(struct fake_engine *engine);

#endif
