/*
 * sandbox.h - drops rights and system calls that the daemon does not need, before it accepts
 * clients.
 *
 * The strict filter is for every thread that the daemon starts. It follows the thread's struct
 * sandbox (net/thread.h). All threads may use open descriptors. Workers and the admin's thread,
 * which read bytes of peers, may also accept connections; the thread of a resource may connect, or
 * open files. No thread may listen, pass a descriptor, start a process or thread, send a signal but
 * SIGABRT to this process, map executable memory or read other processes. If a thread tries that,
 * or a call that its sandbox does not allow, the kernel ends the whole process (SIGSYS). A call
 * on no list returns ENOSYS, which a newer C library handles. A few calls return other errors,
 * because libraries make them without an attack (sandbox.c).
 *
 * Landlock restricts a thread that opens files to its folders (EACCES). If the kernel has no
 * Landlock, counterd logs that, and only the user's rights are the limit.
 *
 * The loose filter is for the main thread, which reads files on a reload and may execute a new
 * program. It returns EPERM for calls that no daemon makes (mount, ptrace, bpf, modules, keys,
 * clocks), and stays on after execve. Filters of a service manager apply as well.
 *
 * Limits: threads share memory and descriptors. Attack code in one thread can read everything in
 * the process, write to each descriptor and, by changing the main thread's memory, may get as far
 * as the loose filter and the user's rights allow (SECURITY.md).
 *
 * Threads: sandbox_apply in any thread, for itself; the other functions in the main thread before
 * it starts threads: sandbox_prepare, then sandbox_enter.
 */
#ifndef DAEMON_SANDBOX_H
#define DAEMON_SANDBOX_H

#include "base/check.h"
#include "net/thread.h"

#include <stdbool.h>
#include <stddef.h>

#define SANDBOX_REASON_SIZE 200

/*
 * Makes the filters for all these sandboxes, and tries each in a short thread. Returns false if
 * this kernel or this build has none; reason_r (SANDBOX_REASON_SIZE bytes) says why.
 */
bool sandbox_prepare(const struct sandbox *const *all, size_t count, char *reason_r) MUST_USE;

/*
 * In the main thread: drops all capabilities, sets no_new_privs, and installs the loose filter if
 * sandbox_prepare returned true and the filter is not there yet (it stays after execve). Threads
 * started later inherit all of it. Returns false with errno; a part may be done then.
 */
bool sandbox_enter(void) MUST_USE;

/* Sandboxes the calling thread until it ends. sandbox_prepare must have had this sandbox.
 * Returns false with errno. */
bool sandbox_apply(const struct sandbox *to) MUST_USE;

#endif
