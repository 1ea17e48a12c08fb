/*
 * inherited.h - listening sockets that survive an upgrade in place. The old program opened them;
 * the new program uses each for the listener that has the same address or path. Sockets made by a
 * service manager are not here (activation.h).
 *
 * Threads: main thread only, before any other starts.
 */
#ifndef DAEMON_INHERITED_H
#define DAEMON_INHERITED_H

#include "daemon/activation.h"
#include "net/listener.h"

struct record_reader;
struct record_writer;

/* Listeners of a daemon: each protocol has addresses with and without TLS and one unix socket; then
 * activated sockets. */
#define LISTENERS_MAX (OPTION_PROTOCOLS_MAX * (2 * OPTION_ADDRESSES_MAX + 1) + ACTIVATION_MAX)

/* Enough for the daemon's listeners and as many of the admin interface. */
#define INHERITED_MAX ((size_t)2 * LISTENERS_MAX)

struct inherited_socket {
    int fd;                                            /* -1: taken or closed */
    char owner[32];                                    /* a protocol's name, or "admin" */
    char asked[sizeof(((struct listener *)0)->asked)]; /* address or path from the settings */
    bool tls;
    bool own_file; /* counterd made the socket file at `asked`; it has this device and inode */
    dev_t device;
    ino_t inode;
    bool wanted; /* the settings still have this address or path */
};

/* All zeros: this start is no upgrade. */
struct inherited {
    bool exists;  /* this process took over from an old program */
    bool dry_run; /* the old program still runs: do not touch its sockets and files */
    size_t count;
    struct inherited_socket at[INHERITED_MAX];
};

/* Finds the socket of `owner` at `asked`. NULL when there is none, or it was taken. */
struct inherited_socket *inherited_find(struct inherited *inherited, const char *owner, bool tls,
                                        const char *asked);
/* Sets `wanted` on that socket, if it exists. */
void inherited_want(struct inherited *inherited, const char *owner, bool tls, const char *asked);
/* Closes the sockets that are not wanted and unlinks their files. Does nothing in a dry run. */
void inherited_close_unwanted(struct inherited *inherited);
/* True in a dry run when an unwanted socket, which the upgrade will close, uses this port. */
bool inherited_blocks(const struct inherited *inherited, uint16_t port);
/* Makes a listener from a socket, which it owns then. Returns false when that fails: the socket is
 * closed, the error logged. */
bool inherited_take(struct inherited_socket *sock, struct listener *listener_r,
                    struct protocol *protocol) MUST_USE;
/* Closes the sockets that no listener took. */
void inherited_close(struct inherited *inherited);

/* Adds a socket that stays open during the upgrade; the caller still owns it. */
void inherited_add(struct inherited *inherited, const char *owner, const struct listener *listener);
/* Writes and reads these sockets and those of a service manager. `again`: the old program goes on
 * again, and the new one may have closed some. After an error the reader says what is wrong
 * (record_ok). */
void inherited_save(const struct inherited *inherited, const struct activation *activation,
                    struct record_writer *w);
void inherited_restore(struct inherited *inherited_r, struct activation *activation_r, bool again,
                       struct record_reader *r);

#endif
