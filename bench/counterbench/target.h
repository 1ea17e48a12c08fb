/*
 * target.h - the server's address, and the source addresses of our connections.
 *
 * A connection to 127.0.0.0/8 may come from any address of that net. We use several when one
 * address has too few ports, and for connections that close at once and leave their ports in
 * TIME_WAIT.
 */
#ifndef COUNTERBENCH_TARGET_H
#define COUNTERBENCH_TARGET_H

#include "cli/server.h"

#include <sys/socket.h>

/* The most connections at once from one address: fewer than there are ports. */
#define TARGET_PER_SOURCE 20000
/* The number of source addresses. */
#define TARGET_SOURCES 250

#define TARGET_REASON_SIZE 400

struct target {
    struct sockaddr_storage to;
    socklen_t len;
    bool is_loopback;                /* in 127.0.0.0/8 */
    char host[SERVER_PLACE_MAX + 1]; /* "": a unix socket */
    char text[SERVER_TEXT];
};

/*
 * Parses HOST[:PORT], [V6][:PORT], a path or unix:@NAME, and looks up the host. Returns false on an
 * error; *reason_r (TARGET_REASON_SIZE) says what is wrong.
 */
bool target_find(struct target *target, const char *text, uint16_t port, char *reason_r) MUST_USE;

/*
 * Starts to connect, without blocking. If there is a choice, `source` selects our address: 0 for
 * the system's, others modulo TARGET_SOURCES. Returns the descriptor, or -1 with errno.
 */
int target_connect(const struct target *target, uint64_t source);

#endif
