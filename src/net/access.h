/*
 * access.h - access lists: the networks from which clients may connect. A network is an address
 * with a number of leading bits, as in 10.0.0.0/8. An IPv4 address in IPv6 form (::ffff:10.0.0.1)
 * counts as the IPv4 address.
 *
 * Pure functions; any thread.
 */
#ifndef NET_ACCESS_H
#define NET_ACCESS_H

#include "base/check.h"
#include "base/option_value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct access_network {
    sa_family_t family;  /* AF_INET or AF_INET6 */
    uint8_t bits;        /* number of leading bits to compare: up to 32 or 128 */
    uint8_t address[16]; /* in network order; all bits after `bits` are 0; IPv4 uses the first 4
                            bytes */
};

/* Limit of networks in one list. */
#define ACCESS_NETWORKS_MAX 256

/* A list of networks without duplicates; may be empty. */
struct access_networks {
    size_t count;
    struct access_network at[ACCESS_NETWORKS_MAX];
};

/* The type of an option with such a list. */
extern const struct option_type option_networks;
#define OPTION_IS_NETWORKS(owner, member)                                                          \
    .type = &option_networks, .offset = OPTION_FIELD(owner, member, struct access_networks)

/* Size of a buffer for the text of any network. */
#define ACCESS_TEXT 64

/*
 * Parses `len` bytes: an address, with or without "/BITS". Returns false when the text is neither,
 * when BITS is out of range, or when a bit after the first BITS is set ("10.0.0.1/8"); *network_r
 * is then unchanged.
 */
bool access_parse(const char *text, size_t len, struct access_network *network_r) MUST_USE;

/*
 * True when the list allows a client from `from`: the list is empty, or one of its networks
 * contains the address. A client with neither an IPv4 nor an IPv6 address (unix socket) is always
 * allowed.
 */
bool access_allows(const struct access_network *list, size_t count, const struct sockaddr *from);

#endif
