/*
 * lookup.h - finds a host's addresses; the event loop waits for the result.
 *
 * The C library's resolver blocks, so it runs in a thread of its own. That thread can't be stopped:
 * a caller that gives up leaves it running. The result comes through a pipe, so the two threads
 * share no memory.
 */
#ifndef CLI_LOOKUP_H
#define CLI_LOOKUP_H

#include "base/check.h"

#include <netdb.h>

/*
 * Starts to look up `host` (a name) and `port`. Returns a descriptor that becomes readable when the
 * lookup is over; the caller may close it earlier to give up. Returns -1 without memory, descriptor
 * or thread; see errno.
 */
int lookup_start(const char *host, const char *port) MUST_USE;

/* Reads the result from a readable `fd`. Returns 0 and the list, which the caller frees with
   freeaddrinfo, or an EAI_ error. */
int lookup_take(int fd, struct addrinfo **list_r) MUST_USE;

#endif
