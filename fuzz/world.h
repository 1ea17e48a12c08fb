/*
 * world.h - the daemon's services, engine, worker and connections with a few clients, on a network,
 * a loop and a clock that a program moves (t/campaigns/simulate/fake.h): what harnesses put bytes
 * into.
 *
 * There may be several worlds; the clock is one. A world stays from one input to the next, because
 * making one takes longer than most inputs; world_drain makes it as new, but for what has been
 * counted.
 */
#ifndef FUZZ_WORLD_H
#define FUZZ_WORLD_H

#include "service/service.h"
#include "t/campaigns/simulate/fake.h"

#define WORLD_CLIENTS 8

/* A client, and what it has received. */
struct world_client {
    struct fake_peer peer;
    struct protocol *protocol; /* NULL: there is none in this place */
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
};

/* Ends the process where there is no memory. */
struct world *world_new(const struct world_config *config);
/* Frees *world, whose clients have all gone, and nulls it. */
void world_free(struct world **world);

/* Client `i` (whose place is free, or whose connection has been closed) connects: "poolcounter" or
 * "counter". What the one before it received is forgotten. */
struct world_client *world_open(struct world *world, unsigned i, const char *protocol);
/* Client `i` sends bytes; it is open. */
void world_send(struct world *world, unsigned i, const void *bytes, size_t len);

/* One turn of the loop: everything that is ready, once. False: nothing was. */
bool world_turn(struct world *world);
/* Turns until nothing is ready. */
void world_run(struct world *world);
/* Both clocks go on in `count` worlds; deadlines on the way fire in order. */
void world_advance(struct world *const *worlds, unsigned count, int64_t ns);

/*
 * All clients break off; checks that nothing is held, awaited or open then, and takes the names out
 * of the table that were kept at 0. (All invariants of the table take longer to check than most
 * inputs to be served: that is the caller's.)
 */
#define WORLD_INTERVAL_S 60
void world_drain(struct world *world);
/* When no world has clients: lets go of all peers, and moves the wall clock on. */
void worlds_drained(void);

#endif
