/*
 * sandbox.h - what the process gives up before it lets clients in: rights it does not need, and
 * system calls that only somebody who has taken it over would make.
 *
 * Each thread that the daemon starts has a strict filter, by what its struct confinement
 * (net/thread.h) says it may. All work on descriptors that are open. Workers, and the thread of the
 * admin interface, which see bytes of peers, accept connections besides; the thread of a resource
 * may connect, or open files. None can listen, hand a descriptor over, start a process or thread,
 * signal another, map memory to be executed or look into other processes, nor do what its own
 * confinement does not say: the kernel ends the whole process (SIGSYS) when it tries.
 * A call on no list is answered with ENOSYS, which a C library gets over that is newer than the
 * lists; and a few with other errors, since libraries make them where nobody attacks (sandbox.c).
 * Landlock keeps a thread that opens files to its folders (EACCES); where the kernel has none, the
 * log says so, and the user's rights are the limit.
 * The loose filter is on the main thread, which reads files on a reload and may execute its own
 * binary anew, and is inherited over that: it answers EPERM to what no daemon does (mount, ptrace,
 * bpf, modules, keys, clocks). Both are in force beside a service manager's.
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
#include "net/thread.h"

#include <stdbool.h>
#include <stddef.h>

#define SANDBOX_REASON_SIZE 200

/*
 * Makes the filters of all threads that will be confined so, and tries each in a thread that ends
 * at once. False: they can't be had here, and reason_r (SANDBOX_REASON_SIZE bytes) says why.
 */
bool sandbox_prepare(const struct confinement *const *all, size_t count, char *reason_r) MUST_USE;

/*
 * In the main thread: gives up all capabilities, and that anything executed gains rights; puts on
 * the loose filter, if sandbox_prepare was true and it is not on yet (it outlives execve). Threads
 * started from now on have the same. False: errno, after which some of it may have been done.
 */
bool sandbox_enter(void) MUST_USE;

/* In a thread that begins: confines it for good, as sandbox_prepare was told. False: errno. */
bool sandbox_confine(const struct confinement *to) MUST_USE;

/* For tests: writes the strict filter as the text of seccomp_export_pfc(3). False: there is none.
 */
bool sandbox_export(const struct confinement *to, int fd) MUST_USE;

#endif
