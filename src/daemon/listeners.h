/*
 * listeners.h - where clients are served: addresses and unix sockets of the settings, and sockets
 * that whoever started the daemon had made for it.
 *
 * A protocol that was handed a plain socket (TCP or unix) opens neither `port` nor `socket` of its
 * own, and one that was handed a TLS socket no `tls_port`: who makes sockets for it makes all of a
 * kind.
 *
 * Threads: main thread only.
 */
#ifndef DAEMON_LISTENERS_H
#define DAEMON_LISTENERS_H

#include "daemon/activation.h"
#include "daemon/options.h"
#include "net/listener.h"
#include "service/service.h"

/* Of each protocol: its addresses with and without TLS, its unix socket; and what was inherited. */
#define LISTENERS_MAX (OPTION_PROTOCOLS_MAX * (2 * OPTION_ADDRESSES_MAX + 1) + ACTIVATION_MAX)

struct listeners {
    size_t count;
    struct listener at[LISTENERS_MAX];
    bool activated[LISTENERS_MAX]; /* true: the service manager made it (activation.h) */
    bool inherited[LISTENERS_MAX]; /* true: the process before an upgrade opened it (inherited.h) */

    /* Sockets handed to us for the admin interface. */
    size_t admin_count;
    int admin[ACTIVATION_MAX];
};

struct inherited;

/*
 * Takes over the sockets of `activation` (their fd is -1 then) and opens what the settings ask for
 * besides; of `inherited`, what they ask for is taken over and the rest closed. False: it was said
 * on the log why not; what is open is to be closed. In the new process of an upgrade, an address
 * that can't be listened on is said to be so and left out.
 */
bool listeners_open(struct listeners *listeners, struct services *services,
                    const struct settings *settings, struct activation *activation,
                    struct inherited *inherited) MUST_USE;

/* Closes all of them, but for those of the admin interface where that has taken them. */
void listeners_close(struct listeners *listeners);

/* Whether any serves TLS, and so needs a certificate. */
bool listeners_use_tls(const struct listeners *listeners);

/* Logs where each listener is, and what to type to try it by hand. */
void listeners_say(const struct listeners *listeners);

/*
 * Logs a warning for each listener without TLS that the whole Internet may reach, unless
 * access.allow says who may come.
 */
void listeners_warn(const struct listeners *listeners, const struct settings *settings);

/* How far an address can be reached from. */
enum reach {
    REACH_MACHINE, /* loopback, or a unix socket */
    REACH_NETWORK, /* private and link-local addresses */
    REACH_WORLD,   /* all addresses of the machine, or one that is routed everywhere */
};
enum reach listeners_reach(const struct sockaddr *address);
/* The same of the address that a socket listens on. */
enum reach listeners_fd_reach(int fd);

#endif
