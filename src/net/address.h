/* address.h - socket addresses: one normal form for each, and their text. */
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Size of a buffer for the text of any IPv4 or IPv6 address with its port. */
#define ADDRESS_TEXT 64

/* Copies the IPv4 or IPv6 address `from` to *to_r; from any other family, copies the family alone.
 * An IPv4 address in IPv6 form (::ffff:192.0.2.1) becomes the plain IPv4 address. */
void address_normal(const struct sockaddr *from, struct sockaddr_storage *to_r);

/* The bytes of an IPv4 or IPv6 address, in the order of the network; NULL: it is another one. */
const uint8_t *address_bytes(const struct sockaddr_storage *sa);

/* The port of an IPv4 or IPv6 address, in the order of the network. */
static inline in_port_t *address_port(struct sockaddr_storage *sa)
{
    _Static_assert(offsetof(struct sockaddr_in, sin_port) ==
                       offsetof(struct sockaddr_in6, sin6_port),
                   "both have it at the same place");
    return &((struct sockaddr_in *)sa)->sin_port;
}

/* Writes "192.0.2.1:4711" or "[2001:db8::1]:4711", normalised as above, or "?" for another family.
 * Cuts the text to `size` bytes, null byte included. Returns the full length, like snprintf. */
size_t address_text(const struct sockaddr *from, char *to, size_t size);

#endif
