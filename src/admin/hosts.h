/*
 * hosts.h - by which names of this server a request may ask for it.
 *
 * A page of any site can have its own name resolve to 127.0.0.1 and then read, through its
 * visitor's browser, what only this machine's users are to see. What it can't do is change the Host
 * header, which has its name. So that has to be an address, "localhost", the machine's name, or one
 * that the operator has listed.
 *
 * Pure functions; any thread.
 */
#ifndef ADMIN_HOSTS_H
#define ADMIN_HOSTS_H

#include <stdbool.h>

/* The most bytes of a list of names. */
#define HOSTS_MAX 1023

/*
 * True if `list` is valid: at most HOSTS_MAX bytes, names with commas or blanks between them, or
 * "*" for any.
 */
bool hosts_are_names(const char *list);

/*
 * True if a request may ask for `asked`, the value of its Host header, with or without a port.
 * NULL: no Host header, which no browser sends. `machine`: the machine's own name, alone or with
 * its domain; then the name alone matches too.
 */
bool hosts_allow(const char *list, const char *machine, const char *asked);

#endif
