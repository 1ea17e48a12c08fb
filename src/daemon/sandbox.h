/*
 * sandbox.h - what the process gives up before it lets clients in: rights it does not need, and
 * system calls that only somebody who has taken it over would make.
 *
 * Two filters. The strict one is on every thread that sees bytes of peers: workers, and the one of
 * the admin interface. They serve descriptors that there are already and accept further ones; they
 * can't open a file, connect, listen, hand a descriptor over, start a process or thread, signal
 * another, map memory to be executed or look into other processes: the kernel ends the whole
 * process (SIGSYS) when they try.
 * A call on neither list is answered with ENOSYS, which a C library gets over that is newer than
 * the lists; and two with other errors, since libraries make them where nobody attacks (sandbox.c).
 * The loose one is on the main thread, which reads files on a reload and may execute its own binary
 * anew, and is inherited over that: it answers EPERM to what no daemon does (mount, ptrace, bpf,
 * modules, keys, clocks). Both are in force beside a service manager's.
 *
 * What this is not: threads share memory, so whoever runs code in one of them has all that the
 * process knows and holds, and by overwriting what the main thread looks at may get as far as its
 * loose filter and its user's rights.
 *
 * Threads: sandbox_confine in any thread for itself; the others in the main thread, in the order in
 * which they stand here, before it starts others.
 */
#ifndef DAEMON_SANDBOX_H
#define DAEMON_SANDBOX_H

#include "base/check.h"

#include <stdbool.h>

#define SANDBOX_REASON_SIZE 200

/*
 * Makes the filters, and tries them in a thread that ends at once. False: they can't be had here,
 * and reason_r (SANDBOX_REASON_SIZE bytes) says why.
 */
bool sandbox_prepare(char *reason_r) MUST_USE;

/*
 * In the main thread: gives up all capabilities, and that anything executed gains rights; puts on
 * the loose filter, if sandbox_prepare was true and it is not on yet (it outlives execve). Threads
 * started from now on have the same. False: errno, after which some of it may have been done.
 */
bool sandbox_enter(void) MUST_USE;

/* In a thread that begins: puts the strict filter on it. False: errno. */
bool sandbox_confine(void) MUST_USE;

/* For tests: writes the strict filter as the text of seccomp_export_pfc(3). False: there is none.
 */
bool sandbox_export(int fd) MUST_USE;

#endif
