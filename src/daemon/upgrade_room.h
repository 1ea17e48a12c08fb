/*
 * upgrade_room.h - how much memory an upgrade may use. The kernel kills a process when a control
 * group exceeds its limit, or when the machine has no memory left, and so ends all that is held.
 * Therefore the room is looked at before an upgrade uses any.
 *
 * Threads: main thread only.
 */
#ifndef DAEMON_UPGRADE_ROOM_H
#define DAEMON_UPGRADE_ROOM_H

#include "base/check.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* Where the kernel tells. Tests have other folders. */
#define UPGRADE_ROOM_PROC    "/proc"
#define UPGRADE_ROOM_CGROUPS "/sys/fs/cgroup"

/* What is left of memory. */
struct upgrade_room {
    uint64_t left;        /* bytes; UINT64_MAX: not known */
    char where[PATH_MAX]; /* the control group whose limit that is; "": the machine's memory */
};

/* Finds the least of what is left on the machine and in each control group of this process. Pages
 * of files count as left, because the kernel takes them back. */
void upgrade_room_find(const char *proc, const char *cgroups, struct upgrade_room *room_r);

/* The memory of this process that no other one shares, in bytes; 0: not known. */
uint64_t upgrade_room_used(const char *proc);

#endif
