/*
 * world.h - the daemon's services, engine, worker and connections with a few clients, on a
 * simulated network, event loop and clock (t/campaigns/simulate/fake.h). Harnesses feed bytes into
 * it.
 *
 * There may be several worlds; they share one clock. A world stays from one input to the next,
 * because making one takes longer than most inputs. world_drain resets it, except for its
 * statistics.
 */
#ifndef FUZZ_WORLD_H
#define FUZZ_WORLD_H

#include "service/service.h"
#include "t/campaigns/simulate/fake.h"

#define WORLD_CLIENTS 8

/* A client and the bytes that it has received. */
struct world_client {
    struct fake_peer peer;
    struct protocol *protocol; /* NULL: this slot has no client */
    uint8_t *got;
    size_t got_len, got_room;
};

struct world {
    struct server server;
    struct services *services;
    struct world_client clients[WORLD_CLIENTS];
};

struct world_config {
    uint32_t max_locks;
    size_t max_line;
    size_t output_buffer;
    const struct pools_settings *pools;          /* borrowed; NULL: none */
    const struct job_settings_of_protocol *jobs; /* likewise */
    const struct tubes_settings *tubes;
};

/* Makes a world. Aborts when out of memory. Free it with world_free. */
struct world *world_new(const struct world_config *config);
/* Frees *world and sets it to NULL. All its clients must be gone. */
void world_free(struct world **world);

/* The address of client `i`. */
#define WORLD_ADDRESS(i) (UINT32_C(0x0a000000) + (i)) /* 10.0.0.i */

/*
 * Connects client `i` by "poolcounter", "counter" or "jobs". The slot must be free or its
 * connection closed. Discards what the previous client in this slot received.
 */
struct world_client *world_open(struct world *world, unsigned i, const char *protocol);
/* Sends bytes from client `i`, which must be open. */
void world_send(struct world *world, unsigned i, const void *bytes, size_t len);

/*
 * One iteration of the event loop: handles everything that is ready, once. Returns false when
 * nothing was ready.
 */
bool world_turn(struct world *world);
/* Repeats world_turn until nothing is ready. */
void world_run(struct world *world);
/* Advances both clocks in `count` worlds. Deadlines on the way fire in order. */
void world_advance(struct world *const *worlds, unsigned count, int64_t ns);

/*
 * Disconnects all clients. Checks that nothing is held, waited for or open then, drops all pools,
 * and removes names kept at 0 from the table. Does not call table_check, which takes longer than
 * most inputs; the caller may.
 */
#define WORLD_INTERVAL_S 60
void world_drain(struct world *world);
/* Call when no world has clients. Frees all peers and advances the wall clock. */
void worlds_drained(void);

#endif
