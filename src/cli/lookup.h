/*
 * lookup.h - finding a host's addresses without waiting for them longer than one wants to.
 *
 * The C library's resolver blocks, so it runs in a thread of its own, which can't be stopped: who
 * has waited long enough leaves it to itself. The last of both frees what they share; nothing else
 * is shared, and no lock is needed.
 */
#ifndef CLI_LOOKUP_H
#define CLI_LOOKUP_H

#include "base/check.h"

#include <netdb.h>

struct lookup;

/* Starts looking for `host` (a name) and `port`. NULL: no memory, descriptor or thread; see errno.
   lookup_free is due. */
struct lookup *lookup_start(const char *host, const char *port) MUST_USE;

/* Can be read when the search is over. */
int lookup_fd(const struct lookup *lookup);

/* After that: 0, and the list, which the caller frees with freeaddrinfo; or an EAI_ error. */
int lookup_take(struct lookup *lookup, struct addrinfo **list_r) MUST_USE;

/* At any time, once. */
void lookup_free(struct lookup **lookup);

#endif
