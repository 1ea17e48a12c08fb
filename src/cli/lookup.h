/*
 * lookup.h - finds the addresses of a server's host; the event loop waits for the result.
 *
 * The C library's resolver blocks, so it runs in a thread of its own. That thread can't be stopped:
 * a caller that gives up leaves it running.
 */
#ifndef CLI_LOOKUP_H
#define CLI_LOOKUP_H

#include "base/check.h"
#include "lib/counter.h"

/*
 * Starts counter_resolve for the client, which is the thread's then. Returns a descriptor; when it
 * becomes readable the lookup is over, and the client is the caller's again, who closes the
 * descriptor. A caller that closes it earlier leaves the client to the thread, which frees it.
 * Returns -1 without memory, descriptor or thread (see errno): the client stays the caller's.
 */
int lookup_start(counter_client *client) MUST_USE;

#endif
