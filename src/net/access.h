/*
 * access.h - from which networks clients may come: addresses with a number of leading bits, as in
 * 10.0.0.0/8. IPv4 addresses written as IPv6 ones (::ffff:10.0.0.1) are IPv4 addresses here.
 *
 * Pure functions; any thread.
 */
#ifndef NET_ACCESS_H
#define NET_ACCESS_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct access_network {
    sa_family_t family;  /* AF_INET or AF_INET6 */
    uint8_t bits;        /* so many leading bits count: up to 32 or 128 */
    uint8_t address[16]; /* in network order; the bits after those are 0; IPv4: the first 4 bytes */
};

/* Room for the text of any network. */
#define ACCESS_TEXT 64

/*
 * Parses `len` bytes: an address, alone or with "/BITS". False: it is neither, BITS is out of
 * range, or the address has bits set behind the first BITS ("10.0.0.1/8"); *network_r is unchanged.
 */
bool access_parse(const char *text, size_t len, struct access_network *network_r) MUST_USE;

/*
 * Writes a network so that access_parse takes it: "10.0.0.0/8", "::1/128"; cut to `size` bytes with
 * the null byte. Returns the length uncut, as snprintf.
 */
size_t access_text(const struct access_network *network, char *to, size_t size);

/*
 * Whether a client from `from` is allowed: when the list is empty, or one of its networks has the
 * address. A client whose address is neither IPv4 nor IPv6 (a unix socket's) always is.
 */
bool access_allows(const struct access_network *list, size_t count, const struct sockaddr *from);

#endif
