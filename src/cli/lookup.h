/*
 * lookup.h - finds the addresses of a host; the event loop waits for the result.
 *
 * The C library's resolver blocks, so it runs in a thread of its own. That thread can't be stopped:
 * a caller that gives up closes the descriptor and leaves it running.
 */
#ifndef CLI_LOOKUP_H
#define CLI_LOOKUP_H

#include "base/check.h"

#include <stddef.h>
#include <sys/socket.h>

struct lookup {
    const char *fault; /* why there is no address; NULL: there are */
    size_t count;
    struct sockaddr_storage at[16];
    /* private to the thread */
    int to; /* write end of the pipe */
    char host[];
};

/* Starts a lookup. Returns a descriptor that becomes readable when it is over; -1: no memory,
   descriptor or thread. */
int lookup_start(const char *host) MUST_USE;

/* Takes the result of a lookup that is over, and closes the descriptor. The caller frees it. */
struct lookup *lookup_take(int fd);

#endif
