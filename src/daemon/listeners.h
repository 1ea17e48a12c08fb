/*
 * listeners.h - the listening sockets of all protocols: addresses and unix sockets from the
 * settings, and sockets passed by a service manager (activation.h).
 *
 * A protocol with an activated plain socket (TCP or unix) does not open its own `port` and
 * `socket`; with an activated TLS socket it does not open its own `tls_port`. So a service manager
 * must pass all sockets of a kind.
 *
 * Threads: main thread only.
 */
#ifndef DAEMON_LISTENERS_H
#define DAEMON_LISTENERS_H

#include "daemon/inherited.h"
#include "service/service.h"

struct listeners {
    size_t count;
    size_t aside; /* behind the others: those that nobody serves, still open */
    struct listener at[LISTENERS_MAX];
    size_t admin_count;
    struct listener admin[ACTIVATION_MAX]; /* those of the admin interface */
};

/* True when a service manager made it (activation.h). */
static inline bool listener_is_activated(const struct listener *listener)
{
    return !*listener->asked;
}

/* Puts the listeners of services that were stopped (service.h) aside, before any acceptor is made.
 * An old program that goes on again may need them. */
void listeners_set_aside_stopped(struct listeners *listeners);
/* Closes those listeners, when nothing can fail any more, before any thread runs. */
void listeners_close_aside(struct listeners *listeners, struct activation *activation);

/*
 * Takes the sockets of `activation` (sets their fd to -1), takes the sockets of `inherited` that
 * the settings still name and closes the rest, then opens all other addresses of the settings.
 * Returns false after an error, which is logged; the caller calls listeners_close. In the new
 * program of an upgrade an address that fails is logged and left out.
 */
bool listeners_open(struct listeners *listeners, struct services *services,
                    const struct settings *settings, struct activation *activation,
                    struct inherited *inherited) MUST_USE;

/*
 * Opens the addresses of the admin interface, unless it has activated sockets. Returns false with
 * the reason (LISTENERS_REASON_SIZE bytes); the caller calls listeners_close_admin then.
 */
bool listeners_open_admin(struct listeners *listeners, const struct settings *settings,
                          struct inherited *inherited, char *reason_r) MUST_USE;
#define LISTENERS_REASON_SIZE 320
void listeners_close_admin(struct listeners *listeners);

/* Closes all listeners. */
void listeners_close(struct listeners *listeners);

/* True when a listener serves TLS, so a certificate is needed. */
bool listeners_use_tls(const struct listeners *listeners);

/* Logs the address of each listener, and a command to try it by hand. */
void listeners_say(const struct listeners *listeners);

/* Logs a warning for each listener without TLS on a public address, unless access.allow is set. */
void listeners_warn(const struct listeners *listeners, const struct settings *settings);

/* True when other machines can reach the admin interface. */
bool listeners_open_up_admin(const struct listeners *listeners);

/* From where an address can be reached. */
enum reach {
    REACH_MACHINE, /* loopback, or a unix socket */
    REACH_NETWORK, /* private and link-local addresses */
    REACH_WORLD,   /* the wildcard address, or a public one */
};
enum reach listeners_reach(const struct sockaddr *address);
/* The same for the address of a listening socket. */
enum reach listeners_fd_reach(int fd);

#endif
