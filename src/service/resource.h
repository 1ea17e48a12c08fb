/*
 * resource.h - a resource: something that services hand out (counters, pools, jobs), or a machine
 * that they need for that. All resources have this interface; service.c calls it.
 *
 * A resource lives in the workers, behind its own locks, or has its own reactor (net/reactor.h). In
 * the second case services send letters to the reactor, and it sends letters back to connections.
 *
 * Order of calls: `start` before any thread runs; `run` when the workers run. For an upgrade:
 * `park`, then `flush` until there is no mail, then `save`, and `unpark` if the upgrade fails.
 * `end` when no worker runs. In a new process `restore` replaces the state that `start` made. A
 * rehearsal of an upgrade calls only `start`, `restore` and `end`, so these must not open files for
 * writing and must not connect.
 *
 * Threads: the main thread calls every function, except where "any thread" is said. A missing
 * function (NULL) does nothing.
 */
#ifndef SERVICE_RESOURCE_H
#define SERVICE_RESOURCE_H

#include "base/check.h"
#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

struct confinement;
struct record_reader;
struct record_writer;
struct resource;
struct seen;
struct services;

struct resource_row {
    const char *name; /* "table" */

    /* Makes the resource from its settings (struct part_config, `own`). Returns NULL with errno (no
     * memory, or another error); details are logged if errno does not say enough. */
    struct resource *(*start)(struct services *services, const void *settings, struct moment now);
    /* The rights of its own thread; they must live as long as the resource. NULL, or a NULL result:
     * it has no thread. */
    const struct confinement *(*confinement)(const struct resource *r);
    /* Starts its thread (reactor_start) with that confinement; the workers run already. Returns
     * false with errno. */
    bool (*run)(struct resource *r);
    /*
     * Completes all work in progress and stops its thread, after the workers' threads have stopped.
     * Returns false when that is not done at `until_ns` (monotonic); the thread then keeps running.
     */
    bool (*park)(struct resource *r, int64_t until_ns);
    /* Delivers its mail while it is parked. Returns false when there was none. */
    bool (*flush)(struct resource *r);
    /* Starts its thread again. Returns false with errno. */
    bool (*unpark)(struct resource *r);

    /* Writes its state, in sections of its own kinds (base/record.md). */
    void (*save)(const struct resource *r, struct moment now, struct record_writer *w);
    /*
     * Reads a section. Returns false when the kind is not its own, or when the section has failed.
     */
    bool (*restore)(struct resource *r, struct moment now, uint32_t kind,
                    struct record_reader *section);
    /* Called after all sections and connections were read. Returns false when something is missing;
     * `reader` has the reason. */
    bool (*restore_done)(struct resource *r, struct record_reader *reader);

    /* `on`: hands out nothing new from now on. Not `on`: goes back to normal. Any thread. */
    void (*drain)(struct resource *r, bool on);
    /* The number of units, locks or jobs that clients hold; a drain waits until it is 0. Any
     * thread. */
    uint64_t (*held)(const struct resource *r, struct moment now);

    /* What /metrics and the JSON interface show of it (seen.h); NULL: nothing. */
    const struct seen *seen;

    /* Frees *r and sets it to NULL, while no worker runs. */
    void (*end)(struct resource **r);
};

/* The first member of every resource's struct. */
struct resource {
    const struct resource_row *row;
    struct services *services;
};

#endif
