/*
 * address.h - parses and prints server addresses.
 */
#ifndef CLI_ADDRESS_H
#define CLI_ADDRESS_H

#include "base/check.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

#define ADDRESS_HOST_MAX    255
#define ADDRESS_REASON_SIZE 320

/* Default port of each protocol. */
#define PORT_TEXT   7531
#define PORT_BINARY 11215
#define PORT_ADMIN  7532
#define PORT_JOBS   11300

struct address {
    bool is_unix;
    bool is_abstract;                                       /* unix socket with an abstract name */
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* without the '@' */
    char host[ADDRESS_HOST_MAX + 1];                        /* without brackets */
    uint16_t port;                                          /* 0: the text named no port */
};

/*
 * Parses HOST, HOST:PORT, [V6], [V6]:PORT, a bare V6, unix:PATH or unix:@NAME. Returns false on an
 * error; *reason_r (ADDRESS_REASON_SIZE bytes) then says what is wrong and how to write it.
 */
bool address_parse(const char *text, struct address *address_r, char *reason_r) MUST_USE;

/* Buffer size for address_text. */
#define ADDRESS_TEXT (ADDRESS_HOST_MAX + 16)

/* Writes the address in the form that address_parse reads, with `port` as the default port. Returns
   `to`. */
const char *address_text(const struct address *address, uint16_t port, char to[ADDRESS_TEXT]);

#endif
