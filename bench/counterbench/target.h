/*
 * target.h - where the server is, and where our connections come from.
 *
 * A connection to 127.0.0.0/8 may come from any address of that net. Beyond what one address has
 * ports for, and for connections that are closed again at once and leave their ports in TIME_WAIT,
 * ours come from several in turn.
 */
#ifndef COUNTERBENCH_TARGET_H
#define COUNTERBENCH_TARGET_H

#include "cli/address.h"

#include <sys/socket.h>

/* How many connections at once may come from one address: fewer than there are ports. */
#define TARGET_PER_SOURCE 20000
/* How many addresses there are to come from. */
#define TARGET_SOURCES 250

#define TARGET_REASON_SIZE (ADDRESS_REASON_SIZE + 64)

struct target {
    struct sockaddr_storage to;
    socklen_t len;
    bool is_loopback;                /* in 127.0.0.0/8 */
    char host[ADDRESS_HOST_MAX + 1]; /* "" for a unix socket */
    char text[ADDRESS_TEXT];
};

/*
 * Reads HOST[:PORT], [V6][:PORT], a path or unix:@NAME, and finds the host's address. False:
 * *reason_r (TARGET_REASON_SIZE) says what is wrong.
 */
bool target_find(struct target *target, const char *text, uint16_t port, char *reason_r) MUST_USE;

/*
 * Begins to connect, without waiting. `source` says which of our addresses the connection comes
 * from, where there is a choice: 0 for the system's, others modulo TARGET_SOURCES. Returns the
 * descriptor, -1 with errno.
 */
int target_connect(const struct target *target, uint64_t source);

#endif
