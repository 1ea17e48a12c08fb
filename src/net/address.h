/* address.h - socket addresses: one normal form for each, and their text. */
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <stddef.h>
#include <sys/socket.h>

/* Size of a buffer for the text of any IPv4 or IPv6 address with its port. */
#define ADDRESS_TEXT 64

/* Copies the IPv4 or IPv6 address `from` to *to_r; from any other family, copies the family alone.
 * An IPv4 address in IPv6 form (::ffff:192.0.2.1) becomes the plain IPv4 address. */
void address_normal(const struct sockaddr *from, struct sockaddr_storage *to_r);

/* Writes "192.0.2.1:4711" or "[2001:db8::1]:4711", normalised as above, or "?" for another family.
 * Cuts the text to `size` bytes, null byte included. Returns the full length, like snprintf. */
size_t address_text(const struct sockaddr *from, char *to, size_t size);

#endif
