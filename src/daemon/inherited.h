/*
 * inherited.h - listening sockets that the process before this one, in an upgrade, had opened
 * itself: each is taken over by whatever is to listen on the same address or path. (Those that a
 * service manager made stay what they were: activation.h.)
 *
 * Threads: main thread only, before any other starts.
 */
#ifndef DAEMON_INHERITED_H
#define DAEMON_INHERITED_H

#include "daemon/activation.h"
#include "daemon/listeners.h"

struct record_reader;
struct record_writer;

/* Most sockets there may be: the daemon's listeners, and as many again of the admin interface. */
#define INHERITED_MAX ((size_t)2 * LISTENERS_MAX)

struct inherited_socket {
    int fd;         /* -1: it was taken over or closed */
    char owner[32]; /* a protocol's name, or "admin" */
    char asked[sizeof(((struct listener *)0)->asked)];
    bool tls;
    bool own_file; /* `asked` is a socket file that was made: this one */
    dev_t device;
    ino_t inode;
    bool wanted; /* something is to listen there again */
};

/* Zero-initialised: this process follows none. */
struct inherited {
    bool exists;   /* there was a process before */
    bool rehearse; /* and it is still there: what it has is not to be touched */
    size_t count;
    struct inherited_socket at[INHERITED_MAX];
};

/* The socket on which `owner` listens there, if there is one that was not taken; else NULL. */
struct inherited_socket *inherited_find(struct inherited *inherited, const char *owner, bool tls,
                                        const char *asked);
/* Marks it as wanted, if it is there. */
void inherited_want(struct inherited *inherited, const char *owner, bool tls, const char *asked);
/* Closes those that are not wanted, and unlinks their files; in a rehearsal does nothing. */
void inherited_close_unwanted(struct inherited *inherited);
/* Whether an address can't be had only because a socket listens that is going to be closed. */
bool inherited_blocks(const struct inherited *inherited, const struct sockaddr *address);
/* Makes a listener of one of them. False: it can't be listened on any more; it is closed. */
bool inherited_take(struct inherited_socket *sock, struct listener *listener_r,
                    struct protocol *protocol) MUST_USE;
/* Closes what nobody has taken. */
void inherited_close(struct inherited *inherited);

/* Adds one socket that stays open over an upgrade. */
void inherited_add(struct inherited *inherited, const char *owner, const struct listener *listener,
                   int fd);
/* Writes and reads what there is, and the sockets of a service manager. */
void inherited_save(const struct inherited *inherited, const struct activation *activation,
                    struct record_writer *w);
void inherited_restore(struct inherited *inherited_r, struct activation *activation_r,
                       struct record_reader *r);

#endif
