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
 * Starts counter_resolve for the client, which is the thread's then. Returns a descriptor that
 * becomes readable when the lookup is over; take the client back then with lookup_take. A caller
 * that closes the descriptor earlier leaves the client to the thread, which frees it. Returns -1
 * without memory, descriptor or thread: the client stays the caller's.
 */
int lookup_start(counter_client *client) MUST_USE;

/* Closes a readable descriptor; the client is the caller's again. */
void lookup_take(int fd);

#endif
