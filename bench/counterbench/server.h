/*
 * server.h - what the server's process uses, as the system tells it.
 */
#ifndef COUNTERBENCH_SERVER_H
#define COUNTERBENCH_SERVER_H

#include "base/check.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct server_state {
    int64_t cpu_ns;             /* of all its threads, those that ended too; 0: not known */
    int64_t user_us, system_us; /* the same by kind, as finely as the system counts that */
    int64_t rss;                /* bytes of memory that are there */
};

/* Looks at a process. False: it can't be seen. */
bool server_look(pid_t pid, struct server_state *state_r) MUST_USE;

/* Its CPU time alone; 0: it can't be seen. */
int64_t server_cpu_ns(pid_t pid);

/*
 * Waits until the process uses no CPU time for a few milliseconds, at most for `patience_ns`.
 * Meanwhile what a thread uses that runs may be told late, so for short times this is what makes
 * the CPU time true. Returns its CPU time.
 */
int64_t server_settle(pid_t pid, int64_t patience_ns);

#endif
