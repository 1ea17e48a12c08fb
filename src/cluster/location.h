/*
 * location.h - which process of which machine this is, and whether the process that another such
 * text names has gone. A node that was killed and comes back on the same machine can so tell at
 * once that its earlier session has no process any more.
 *
 * The text is "BOOTID/PIDNS/PID/START": the kernel's boot id as 32 hexadecimal digits, the number
 * of the pid namespace, the process id in it, and when the process started, in clock ticks since
 * boot (0: unknown). It stays the same when the process executes another program. No two processes
 * have the same: when boot id or namespace are unknown, random digits stand for the boot id, and
 * nothing can be proved by them.
 *
 * /proc/sys can be hidden, as in our systemd unit; the environment's COUNTERD_BOOT_ID has the boot
 * id then.
 *
 * Threads: location_read in the main thread, before threads are sandboxed; location_is_gone in any.
 */
#ifndef CLUSTER_WHERE_H
#define CLUSTER_WHERE_H

#include "base/bytes.h"
#include "base/check.h"

#define LOCATION_SIZE 96 /* of the text, with its null byte */

/* The environment's variable that has the boot id. */
#define LOCATION_VARIABLE "COUNTERD_BOOT_ID"

struct location {
    char text[LOCATION_SIZE];
    size_t mine_len;   /* bytes of "BOOTID/PIDNS/" */
    bool knows_starts; /* /proc shows the processes of this namespace, with plain start times */
};

/* What location_is_gone reads, for the sandbox (net/thread.h) of a thread that calls it; NULL
 * after the last. It needs no other right. */
extern const char *const location_reads[];

/* Finds out where this process is. */
void location_read(struct location *own_r);

/*
 * True only if it is certain that the process has gone: `text` has the boot id and the pid
 * namespace of `own`, and no process has the pid, or one that started at another time has it.
 * False when anything can't be read, and for any text of another form.
 */
bool location_is_gone(const struct location *own, struct bytes text);

#endif
