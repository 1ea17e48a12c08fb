/*
 * heritage.h - listening sockets that the process before this one, in an upgrade, had opened
 * itself: each is taken over by whatever is to listen on the same address or path. (Those that a
 * service manager made stay what they were: activation.h.)
 *
 * Threads: main thread only, before any other starts.
 */
#ifndef DAEMON_HERITAGE_H
#define DAEMON_HERITAGE_H

#include "daemon/activation.h"
#include "daemon/listeners.h"

struct record_reader;
struct record_writer;

/* Most sockets there may be: the daemon's listeners, and as many again of the admin interface. */
#define HERITAGE_MAX ((size_t)2 * LISTENERS_MAX)

struct heritage_socket {
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
struct heritage {
    bool exists;   /* there was a process before */
    bool rehearse; /* and it is still there: what it has is not to be touched */
    size_t count;
    struct heritage_socket at[HERITAGE_MAX];
};

/* The socket on which `owner` listens there, if there is one that was not taken; else NULL. */
struct heritage_socket *heritage_find(struct heritage *heritage, const char *owner, bool tls,
                                      const char *asked);
/* Marks it as wanted, if it is there. */
void heritage_want(struct heritage *heritage, const char *owner, bool tls, const char *asked);
/* Closes those that are not wanted, and unlinks their files; in a rehearsal does nothing. */
void heritage_close_unwanted(struct heritage *heritage);
/* Whether an address can't be had only because a socket listens that is going to be closed. */
bool heritage_blocks(const struct heritage *heritage, const struct sockaddr *address);
/* Makes a listener of one of them. False: it can't be listened on any more; it is closed. */
bool heritage_take(struct heritage_socket *sock, struct listener *listener_r,
                   struct protocol *protocol) MUST_USE;
/* Closes what nobody has taken. */
void heritage_close(struct heritage *heritage);

/* Adds one socket that stays open over an upgrade. */
void heritage_add(struct heritage *heritage, const char *owner, const struct listener *listener,
                  int fd);
/* Writes and reads what there is, and the sockets of a service manager. */
void heritage_save(const struct heritage *heritage, const struct activation *activation,
                   struct record_writer *w);
void heritage_restore(struct heritage *heritage_r, struct activation *activation_r,
                      struct record_reader *r);

#endif
