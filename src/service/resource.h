/*
 * resource.h - a resource: something that services hand out (counters, pools, jobs), or a machine
 * that they need for that. All resources have this interface; service.c calls it.
 *
 * A resource lives in the workers, behind its own locks, or has its own thread: a reactor
 * (net/reactor.h). In the second case services send messages to the reactor, and it sends messages
 * back to connections; service.c makes the thread, pauses it and delivers its messages.
 *
 * Order of calls: `start` and then `open` before any thread runs; the thread of a resource starts
 * after the workers. For an upgrade: `may_pause` until it is true; `serve_by`; `pause`, then the
 * thread sleeps and messages are delivered until there are none; `serve_by` again, `save`; the
 * thread goes on if the upgrade fails. Before, all that may happen for a copy, which is for the
 * dry run: a forked process then calls `save`, and the thread goes on. `end` when no thread runs.
 * In a new process `restore` replaces the state that `start` made. A dry run of an upgrade calls
 * only `start`, `restore` and `end`, so these must not open files for writing and must not connect.
 *
 * Threads: the main thread calls every function, except where "any thread" is said. A missing
 * function (NULL) does nothing.
 */
#ifndef SERVICE_RESOURCE_H
#define SERVICE_RESOURCE_H

#include "base/check.h"
#include "base/clock.h"
#include "net/reactor.h"

#include <stdbool.h>
#include <stdint.h>

struct record_reader;
struct record_writer;
struct resource;
struct monitor;
struct services;

struct resource_row {
    const char *name; /* "table"; at most 15 bytes where it is that of a thread */

    size_t size; /* of its own struct, which begins with struct resource */
    /* It has a thread: `start` sets `sandbox`, and may add timers. `start` may also set
     * resource->without_thread. */
    bool threaded;

    /* Makes the resource from its settings (struct part_config, `own`), in a struct that is zero
     * but for struct resource. Returns false with errno (no memory, or another error); details are
     * logged if errno does not say enough. Then nothing is left to end. */
    bool (*start)(struct resource *r, const void *settings, struct moment now);
    /*
     * Opens what a dry run must not touch, such as files for writing: after all `start` and
     * `restore_done`, with the rights that the daemon keeps, before any thread runs. Returns false
     * when that fails, which it has logged. It may stop a service that cannot do without (struct
     * service) instead, so that the others serve.
     */
    bool (*open)(struct resource *r, struct moment now);
    /*
     * True when this is a good moment for an upgrade to begin a pause, in which nobody is served.
     * Asked often from `since_ns` on, while all threads run; it must be true before long.
     */
    bool (*may_pause)(struct resource *r, int64_t since_ns, int64_t now_ns);
    /* While the workers are paused: by when clients must be served again, by this process or the
     * next one (monotonic), and what ends then, for people; INT64_MAX: at any time. */
    int64_t (*serve_by)(struct resource *r, const char **what_r);
    /*
     * Completes the work in progress that the next process cannot take up, before its thread is
     * stopped and after the workers' threads have stopped. Returns false when that is not done at
     * `until_ns` (monotonic), or when the next process could not go on (services->refusal says
     * why); the thread then keeps running. DEADLINE_NONE: the daemon ends, all
     * connections are closed, and it must return true.
     */
    bool (*pause)(struct resource *r, int64_t until_ns);

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

    /* What /metrics and the JSON interface show of it (monitor.h); NULL: nothing. */
    const struct monitor *monitor;

    /* Frees what the resource has, and removes its timers. No thread runs. */
    void (*end)(struct resource *r);
};

/* The first member of every resource's struct. */
struct resource {
    const struct resource_row *row;
    struct services *services;
    /* Of a threaded resource: what its thread may do, which `start` sets; and the thread, whose
     * reactor exists from before `start` until after `end`. */
    struct sandbox sandbox;
    bool without_thread; /* with these settings it needs none */
    struct reactor thread;
};

#endif
