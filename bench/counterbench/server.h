/*
 * server.h - CPU time and memory of the server's process, read from the kernel.
 */
#ifndef COUNTERBENCH_SERVER_H
#define COUNTERBENCH_SERVER_H

#include "base/check.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct server_state {
    int64_t cpu_ns;             /* of all threads, also ended ones; 0: unknown */
    int64_t user_us, system_us; /* the same by kind, in the kernel's resolution */
    int64_t rss;                /* resident memory in bytes */
};

/* Reads the state of a process. False: it can't be read. */
bool server_look(pid_t pid, struct server_state *state_r) MUST_USE;

/* Only its CPU time; 0: it can't be read. */
int64_t server_cpu_ns(pid_t pid);

/*
 * Waits until the process uses no CPU time for a few milliseconds, at most for `patience_ns`. While
 * a thread runs, the kernel may report its CPU time late; this wait makes short measurements exact.
 * Returns the CPU time.
 */
int64_t server_settle(pid_t pid, int64_t patience_ns);

#endif
