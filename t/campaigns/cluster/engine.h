/*
 * engine.h - a Redis in memory, as far as counterd nodes use one: bytes in, bytes out.
 *
 * It follows the document of the scripts, not the scripts, so the two can be compared. It knows
 * INFO, HELLO, AUTH, PING, SELECT, CLIENT SETNAME, CONFIG GET maxmemory-policy, ROLE, SUBSCRIBE,
 * SCRIPT LOAD and EVALSHA of the nine scripts. No sockets, no clock, no threads: it acts only while
 * the program calls it, and a run is the same each time. Memory that is missing ends the program.
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

enum fake_script {
    FAKE_OPEN,
    FAKE_CALL,
    FAKE_GIVE,
    FAKE_READY,
    FAKE_BEAT,
    FAKE_REAP,
    FAKE_GRACE,
    FAKE_LEAVE,
    FAKE_LOOK,
    FAKE_SCRIPTS
};

/* The name of a script, as its file has it. */
const char *fake_script_name(enum fake_script script);

/*
 * A primary without data, for the prefix PREFIX of the keys {PREFIX}:. The seed makes its run ids.
 * The caller frees it; its connections are closed then, but stay the caller's.
 */
struct fake_engine *fake_engine_new(const char *prefix, uint64_t seed);
void fake_engine_free(struct fake_engine *engine);

/*
 * Says which script this text is. Other texts are found by a line "-- NAME: ..." or "-- NAME.lua
 * ..." among those before the code, or count as the next script that was not loaded yet, in the
 * order of the enum.
 */
void fake_engine_script(struct fake_engine *engine, enum fake_script script, const char *text,
                        size_t len);

/* ---- Connections ---- */

/* A new connection. The caller frees it with fake_engine_hang_up, also when the engine closed it.
 */
struct fake_link *fake_engine_connect(struct fake_engine *engine);
/* The client closes: no message reaches it any more. */
void fake_engine_hang_up(struct fake_link *link);
/* The bytes arrive, in pieces of any size. Those that come after the engine closed are dropped. */
void fake_engine_feed(struct fake_link *link, const void *bytes, size_t len);
/* What the engine has sent and the program has not taken yet. */
const char *fake_engine_output(const struct fake_link *link, size_t *len);
void fake_engine_took(struct fake_link *link, size_t len);
/* True after the engine closed the connection: a restart, a change of its role, or wrong bytes. */
bool fake_engine_closed(const struct fake_link *link);
/* Counts commands; scripts, messages and connections of the engine's present life. */
struct fake_counts {
    uint64_t commands, scripts, ops, messages;
    size_t links;
};
struct fake_counts fake_engine_counts(const struct fake_engine *engine);

/* ---- Faults ---- */

/* Ends and starts anew with its data or without: another run_id and master_replid, no scripts, all
 * connections closed. */
void fake_engine_restart(struct fake_engine *engine, bool with_data);
/* FLUSHALL: the data is gone, the term is the same. */
void fake_engine_flush(struct fake_engine *engine);

/* Keeps the data of before each of the last `writes` writes, for fake_engine_replica. 0: none. */
void fake_engine_keep(struct fake_engine *engine, size_t writes);
/*
 * A copy of an engine that lacks the last `lacks` writes, at most those that are kept. It is a
 * replica: its role says so and scripts are refused with READONLY. Both go on, each by itself.
 */
struct fake_engine *fake_engine_replica(const struct fake_engine *engine, size_t lacks,
                                        uint64_t seed);
/* A replica follows again: it gets the primary's data, without the last `lacks` writes, and closes
 * all connections. */
void fake_engine_follow(struct fake_engine *replica, const struct fake_engine *engine,
                        size_t lacks);
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
/* What INFO and CONFIG GET say: redis_version, role, loading, cluster_enabled, maxmemory_policy. */
void fake_engine_info(struct fake_engine *engine, const char *field, const char *value);
/* `open` answers ACL with this command; NULL: all are allowed. */
void fake_engine_forbid(struct fake_engine *engine, const char *command);
/* Another program writes to the queue's key of a name that nobody waits for, at most 8 at a time;
 * or deletes that again. */
void fake_engine_wrong(struct fake_engine *engine, const char *name, bool is_wrong);
/* The data are of this version; `open` answers VERSION unless it is 1. */
void fake_engine_version(struct fake_engine *engine, uint64_t version);
/*
 * The engine is a Sentinel, which answers SENTINEL GET-MASTER-ADDR-BY-NAME: for this service with
 * this address, or that it knows none if `host` is NULL. Of the rest it knows PING and INFO.
 */
void fake_engine_sentinel(struct fake_engine *engine, const char *service, const char *host,
                          uint16_t port);
/* Forgets the scripts: SCRIPT FLUSH. */
void fake_engine_forget_scripts(struct fake_engine *engine);
/* The greatest number of names, waits or grants that a script does; 250 as in the real ones. */
void fake_engine_bound(struct fake_engine *engine, uint32_t most);

/* ---- Looking ---- */

/*
 * NULL, or what is wrong: sums that do not add up, a session that is not of its node, waits
 * out of order. The text is the engine's, until its next call.
 */
const char *fake_engine_check(struct fake_engine *engine);
/* NULL, or the first command that no node may send: wrong arguments, `s` in a live session, a name
 * asserted twice. */
const char *fake_engine_misuse(const struct fake_engine *engine);
/*
 * All keys and fields as Redis would have them, a line for each, sorted. Left out are the term and
 * what is a script's own affair (`prev`, the digest). The caller frees it.
 */
char *fake_engine_contents(const struct fake_engine *engine);
/* The term as `open` answers it; the engine's. */
const char *fake_engine_term(const struct fake_engine *engine);
/* Units of a name, of a session (16 digits) or of all (NULL). */
uint64_t fake_engine_units(const struct fake_engine *engine, const char *session, const void *name,
                           size_t len);
/* Waits of a name, of a session or of all. */
uint64_t fake_engine_waits(const struct fake_engine *engine, const char *session, const void *name,
                           size_t len);
/* True while there is grace. */
bool fake_engine_grace(const struct fake_engine *engine);
/* True if there are no units, waits, sessions and unfinished names. */
bool fake_engine_is_empty(const struct fake_engine *engine);

#endif
