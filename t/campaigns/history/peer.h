/*
 * peer.h - a client of either protocol that waits for each answer, for programs that test a real
 * server. It shares no code with the server, not even the codecs.
 *
 * A function that fails sets `error`. The connection is unusable afterwards.
 */
#ifndef PEER_H
#define PEER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PEER_ROOM   2048 /* bytes of answers received but not parsed */
#define PEER_LINE   512  /* the longest request, and the longest one-line answer */
#define PEER_SILENT 60   /* seconds without an answer before it counts as a failure */

enum peer_opcode { PEER_GET = 0x01, PEER_ACQUIRE = 0x02, PEER_RELEASE = 0x03 };

enum peer_status {
    PEER_OK = 0x00,
    PEER_NOT_FOUND = 0x01,
    PEER_NOT_AVAILABLE = 0x21,
    PEER_NOT_ACQUIRED = 0x22,
};

struct peer {
    int fd;
    uint32_t asked, answered; /* opaque of the last binary request, and of the last answered one */
    size_t have;
    char buffer[PEER_ROOM];
    char error[256];
};

/* A server's addresses for both protocols. */
struct peer_server {
    struct in_addr host;
    uint16_t text_port, binary_port;
};

/* Parses a server from three words of a command line. */
bool peer_server_parse(char *const *words, struct peer_server *server_r);

/*
 * Connects. On loopback it uses the source address with this number, so that many connections have
 * enough ports. Waits for a while when no port is free.
 */
bool peer_connect(struct peer *peer, const struct peer_server *server, bool text, unsigned number);
bool peer_send(struct peer *peer, const void *data, size_t len);
/* True if data or an end is ready to read within `wait_ns`. */
bool peer_is_ready(const struct peer *peer, int64_t wait_ns);
/* Reads a line of text of at most PEER_LINE bytes, and ends it with NUL. */
bool peer_line(struct peer *peer, char *line);
/* Composes a request of the binary protocol of at most PEER_LINE bytes. Returns its length. */
size_t peer_compose(struct peer *peer, enum peer_opcode opcode, const char *name, uint32_t units,
                    uint32_t limit, unsigned char *to);
/* Reads the answer to the oldest unanswered request. */
bool peer_answer(struct peer *peer, enum peer_opcode opcode, unsigned *status_r,
                 uint32_t *number_r);
/* Composes and sends a request, and reads the answer. */
bool peer_ask(struct peer *peer, enum peer_opcode opcode, const char *name, uint32_t units,
              uint32_t limit, unsigned *status_r, uint32_t *number_r);

void peer_close(struct peer *peer);
/* Closes with RST. */
void peer_reset(struct peer *peer);
/*
 * Shuts down the sending side, waits until the server has closed, and closes. *said_r (may be NULL)
 * becomes true if the server has sent anything before its close.
 */
bool peer_half_close(struct peer *peer, bool *said_r);

/*
 * Waits until none of the names PREFIX-0, PREFIX-1, ... is held, and nobody holds or waits for
 * anything by text. Returns false at the deadline; *why (PEER_LINE bytes) then says what was left.
 */
bool peer_await_free(const struct peer_server *server, const char *prefix, uint32_t names,
                     int64_t until_ns, char *why);

/* Nanoseconds of CLOCK_MONOTONIC. */
int64_t peer_now_ns(void);
void peer_pause_ns(int64_t ns);

/* Parses a number of at most `max`. */
bool peer_number(const char *word, uint64_t max, uint64_t *number_r);

/* A random number below `limit`, which must not be 0. */
uint32_t peer_below(uint64_t *random, uint32_t limit);

#endif
