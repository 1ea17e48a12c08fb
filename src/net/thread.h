/*
 * thread.h - starts the threads of the daemon that see what peers send: workers and HTTP.
 */
#ifndef NET_THREAD_H
#define NET_THREAD_H

#include "base/check.h"

#include <pthread.h>
#include <stdbool.h>

/*
 * Starts a thread with all signals blocked, called `name` (15 bytes at most), which calls `confine`
 * (NULL: nothing) before anything else and then `run` with `arg`. False with errno: there is no
 * such thread, because it could not be made or `confine` answered false with errno. Returns when
 * the thread is confined.
 */
bool thread_start(pthread_t *thread_r, const char *name, bool (*confine)(void),
                  void *(*run)(void *arg), void *arg) MUST_USE;

#endif
