/* address.h - addresses of sockets: as text, and one form for those that can be written in two. */
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <stddef.h>
#include <sys/socket.h>

/* Room for the text of any IPv4 or IPv6 address with its port. */
#define ADDRESS_TEXT 64

/*
 * Copies `from` (IPv4, IPv6, or of another family, of which nothing but the family is copied) to
 * *to_r. An IPv4 address that is written as an IPv6 one (::ffff:192.0.2.1) becomes the IPv4 one.
 */
void address_normal(const struct sockaddr *from, struct sockaddr_storage *to_r);

/*
 * Writes "192.0.2.1:4711", "[2001:db8::1]:4711", or "?" for another family, normalised as above,
 * cut to `size` bytes with the null byte. Returns its length uncut, as snprintf.
 */
size_t address_text(const struct sockaddr *from, char *to, size_t size);

#endif
