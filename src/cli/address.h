/*
 * address.h - where a server is, as people write it.
 */
#ifndef CLI_ADDRESS_H
#define CLI_ADDRESS_H

#include "base/check.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

#define ADDRESS_HOST_MAX    255
#define ADDRESS_REASON_SIZE 320

/* Ports of the protocols, where an address names none. */
#define PORT_TEXT   7531
#define PORT_BINARY 11215
#define PORT_ADMIN  7532

struct address {
    bool is_unix;
    bool is_abstract;                                       /* of the unix sockets */
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* without the '@' */
    char host[ADDRESS_HOST_MAX + 1];                        /* without brackets */
    uint16_t port;                                          /* 0: none was named */
};

/*
 * Reads HOST, HOST:PORT, [V6], [V6]:PORT, a bare V6, unix:PATH or unix:@NAME. False: *reason_r
 * (ADDRESS_REASON_SIZE bytes) says what is wrong and what would be right.
 */
bool address_parse(const char *text, struct address *address_r, char *reason_r) MUST_USE;

/* Room for address_text. */
#define ADDRESS_TEXT (ADDRESS_HOST_MAX + 16)

/* The address as address_parse reads it, with `port` where it names none. Returns `to`. */
const char *address_text(const struct address *address, uint16_t port, char to[ADDRESS_TEXT]);

#endif
