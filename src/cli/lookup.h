/*
 * lookup.h - finding a host's addresses as something that the loop waits for.
 *
 * The C library's resolver blocks, so it runs in a thread of its own, which can't be stopped: who
 * has waited long enough leaves it to itself. What it has found comes through a pipe, so that they
 * share nothing.
 */
#ifndef CLI_LOOKUP_H
#define CLI_LOOKUP_H

#include "base/check.h"

#include <netdb.h>

/*
 * Starts looking for `host` (a name) and `port`. Returns a descriptor that can be read when the
 * search is over; who closes it earlier gives up. -1: no memory, descriptor or thread; see errno.
 */
int lookup_start(const char *host, const char *port) MUST_USE;

/* When it can be read: 0, and the list, which the caller frees with freeaddrinfo; or an EAI_ error.
 */
int lookup_take(int fd, struct addrinfo **list_r) MUST_USE;

#endif
