/*
 * resource.h - a resource: what services hand out (counters, pools, jobs), or what they need for it
 * (another machine). One interface for all; services.c walks over it.
 *
 * A resource lives in the workers, behind locks of its own, or has a thread of its own: a reactor
 * (net/reactor.h), to which services send letters and from which letters come back to connections.
 * services.c starts that thread, stops it and delivers its letters: a resource only says what the
 * thread may do.
 *
 * In order: `start` before any thread runs; its thread runs when the workers run; for an upgrade
 * `park`, then the thread stops, letters are delivered until there are none, and then `save`. Where
 * the upgrade fails the thread runs again. `end` when no thread runs. In a new process `restore`
 * takes the place of what `start` would build. A rehearsal of an upgrade calls `start`, `restore`
 * and `end` alone: these open no file for writing and connect nowhere.
 *
 * Threads: the main thread calls all of it. Where a function is missing (NULL) there is nothing to
 * do.
 */
#ifndef SERVICE_RESOURCE_H
#define SERVICE_RESOURCE_H

#include "base/check.h"
#include "base/clock.h"
#include "net/reactor.h"

#include <stdbool.h>
#include <stdint.h>

struct admin_part;
struct record_reader;
struct record_writer;
struct resource;
struct services;

struct resource_row {
    const char *name; /* "table"; at most 15 bytes where it is that of a thread */

    size_t size;   /* of its own struct, which begins with struct resource */
    bool threaded; /* it has a thread: `start` sets `confinement` and may add timers */

    /* Makes it, in a struct that is zero but for struct resource, from its settings (struct
     * part_config, `own`). False: no memory or what else errno says, and more was logged where that
     * is not enough; then `end` is called. */
    bool (*start)(struct resource *r, const void *settings, struct moment now);
    /* An upgrade, or the end, and the workers have stopped: brings to an end what must not be left
     * half done, while its thread runs, which is stopped next. False: that did not happen until
     * `until_ns` (monotonic); the thread runs on. */
    bool (*park)(struct resource *r, int64_t until_ns);

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

    /* What /metrics, the JSON interface and the status page show of it; NULL: nothing. */
    const struct admin_part *seen;

    /* Frees what it has, also after a `start` that failed half-way. No thread runs. NULL: nothing
     * to free. */
    void (*end)(struct resource *r);
};

/* The beginning of every resource's own struct. */
struct resource {
    const struct resource_row *row;
    struct services *services;
    const struct confinement
        *confinement;      /* what its thread may do, as long as the resource lives */
    struct reactor thread; /* threaded: it is there from before `start` until after `end` */
};

#endif
