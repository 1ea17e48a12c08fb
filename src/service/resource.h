/*
 * resource.h - a resource: what services hand out (counters, pools, jobs), or what they need for it
 * (another machine). One interface for all; services.c walks over it.
 *
 * A resource lives in the workers, behind locks of its own, or has a reactor of its own
 * (net/reactor.h), to which services send letters and from which letters come back to connections.
 *
 * In order: `start` before any thread runs; `run` when the workers run; for an upgrade `park`, then
 * `flush` until there are no letters, then `save`, and `unpark` where the upgrade fails; `end` when
 * no worker runs. In a new process `restore` takes the place of what `start` would build. A
 * rehearsal of an upgrade calls `start`, `restore` and `end` alone: these open no file for writing
 * and connect nowhere.
 *
 * Threads: the main thread calls all of it. Where a function is missing (NULL) there is nothing to
 * do.
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

    /* Makes it, from its settings (struct part_config, `own`). NULL: no memory or what else errno
     * says; more was logged where that is not enough. */
    struct resource *(*start)(struct services *services, const void *settings, struct moment now);
    /* What its own thread may do, for as long as the resource lives. NULL, or answering that: it
     * has no thread. */
    const struct confinement *(*confinement)(const struct resource *r);
    /* The workers run: starts its own thread (reactor_start), so confined. False: errno. */
    bool (*run)(struct resource *r);
    /* Stops its thread, after the workers' have stopped: with everything on its way brought to an
     * end. False: that did not happen until `until_ns` (monotonic); the thread runs on. */
    bool (*park)(struct resource *r, int64_t until_ns);
    /* Delivers its letters while it is parked. False: there were none. */
    bool (*flush)(struct resource *r);
    /* Starts the thread again. False: errno. */
    bool (*unpark)(struct resource *r);

    /* Writes what it is, as sections of its own kinds (base/record.md). */
    void (*save)(const struct resource *r, struct moment now, struct record_writer *w);
    /* Reads a section. False: the kind is none of its own, or the section has failed. */
    bool (*restore)(struct resource *r, struct moment now, uint32_t kind,
                    struct record_reader *section);
    /* All sections and connections were read. False: something is missing, and `reader` says so. */
    bool (*restore_done)(struct resource *r, struct record_reader *reader);

    /* From now on nothing new is handed out; or again it is. Any thread. */
    void (*drain)(struct resource *r, bool on);
    /* How much is held that a drain waits for. Any thread. */
    uint64_t (*held)(const struct resource *r, struct moment now);

    /* What /metrics and the JSON interface show of it (seen.h); NULL: nothing. */
    const struct seen *seen;

    /* Frees *r, when no worker runs, and nulls it. */
    void (*end)(struct resource **r);
};

/* The beginning of every resource's own struct. */
struct resource {
    const struct resource_row *row;
    struct services *services;
};

#endif
