/*
 * pools_config.h - the configuration of pools: the options `pools.*`, and the pools that the file
 * declares (`pool.NAME.*`).
 *
 * Threads: the main thread, except where said.
 */
#ifndef SERVICE_POOLS_CONFIG_H
#define SERVICE_POOLS_CONFIG_H

#include "net/access.h"
#include "service/pool_options.h"

struct services;

/* The options `pools.*`. */
struct pools_settings {
    struct access_networks operators; /* may change pools */
    struct access_networks suppliers; /* may join members */
    uint32_t max;                     /* pools */
    uint32_t max_members;             /* of one pool */
    uint32_t max_watchers;            /* connections that watch more than their own */
    uint32_t max_taken;               /* members that one connection may hold; not reloadable */
};

/* `pools.*`, for the resource "pools". */
extern const struct option_group pools_options;
/* `pool.NAME.*`: a struct pool_settings for each pool of the file. */
extern const struct option_group pool_family;

/* ---- what the resource provides (pools.c) ---------------------------------------------------- */

/* Takes new `pools.*`: at the start, and after each reload that changed them. */
void pools_change_settings(struct services *services, const struct pools_settings *settings);

/*
 * True if the file may declare a pool of this name and kind. False, with the reason
 * (OPTIONS_REASON_SIZE bytes), if the pool was made by a verb or is of the other kind.
 */
bool pools_accept(const struct services *services, const char *name, enum pool_kind kind,
                  char *reason_r) MUST_USE;

/*
 * Makes or changes a pool of the file: its options and members are then as declared; members that
 * are not are dropped gracefully. With `options` NULL the file has the pool no more: it is dropped
 * gracefully. Called at the start and in each reload, for each pool of the old and the new file,
 * changed or not, after pools_change_settings; limits of pools and members were checked. Copies
 * what it keeps. Without memory, or if a verb has made the pool, nothing changes; the log says so.
 */
void pools_configure(struct services *services, const char *name,
                     const struct pool_options *options, const struct pool_members *members);

#endif
