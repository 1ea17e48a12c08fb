/*
 * thread.h - starts the threads of the daemon, and says what each may ask of the kernel.
 */
#ifndef NET_THREAD_H
#define NET_THREAD_H

#include "base/check.h"

#include <pthread.h>
#include <stdbool.h>

/*
 * What a thread may do beyond what all may: read, write and close descriptors that are open, wait,
 * and have memory and the time. It lives as long as the thread.
 */
struct confinement {
    const char *name; /* what the thread is, for messages: "job store" */
    bool accepts;     /* accepts connections of listeners that are open */
    bool connects;    /* opens streams to others, over IP and unix sockets; asks name servers */
    /* Reads these folders with all that is below them, and these files; NULL after the last. NULL:
     * none. A file that is replaced, or that a symbolic link leads to, may be read, too: the
     * kernel is told its folder. What does not exist when the thread starts is left out. */
    const char *const *reads;
    /* Makes, reads, writes, locks, renames and removes files below these folders, which exist when
     * the thread starts. */
    const char *const *writes;
};

/* The threads that serve clients: workers, and the one of the admin interface. */
extern const struct confinement thread_serves;

/* Confines the calling thread for the rest of its life. False: errno. */
typedef bool confine_fn(const struct confinement *to);

/*
 * Starts a thread with all signals blocked, called `name` (15 bytes at most), which calls `confine`
 * (NULL: nothing) with `to` before anything else and then `run` with `arg`. False with errno: there
 * is no such thread, because it could not be made or `confine` answered false with errno. Returns
 * when the thread is confined.
 */
bool thread_start(pthread_t *thread_r, const char *name, confine_fn *confine,
                  const struct confinement *to, void *(*run)(void *arg), void *arg) MUST_USE;

#endif
