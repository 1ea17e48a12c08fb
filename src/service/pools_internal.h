/*
 * pools_internal.h - what pools show of themselves (monitor.h), in three files: pools_monitor.c has
 * metrics and statistics, pools_api.c the lists in JSON, pools_change.c what operators change.
 *
 * Threads: the admin's thread. Under the pools' lock it only copies, and only a bounded piece at a
 * time, so the workers hardly wait for it.
 */
#ifndef SERVICE_POOLS_INTERNAL_H
#define SERVICE_POOLS_INTERNAL_H

#include "service/monitor.h"

extern const struct monitor pools_monitor;

/* pools_api.c */
route_handler get_pools, get_pool;
/* pools_change.c */
route_handler set_pool_member, drop_pool_member, drop_pool;

#endif
