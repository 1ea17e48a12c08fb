/*
 * activation.h - listening sockets that whoever starts the daemon made for it: a service manager's,
 * announced in LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES, and one as standard input, for
 * the protocol that takes it (struct option_protocol).
 *
 * A socket's name says what it is for; one that has no name of ours goes by its port or path, which
 * has to be one of the settings'.
 *
 * Threads: main thread only, before any other starts.
 */
#ifndef DAEMON_ACTIVATION_H
#define DAEMON_ACTIVATION_H

#include "base/check.h"
#include "daemon/options.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Most sockets, and the longest name, that a service manager may hand over. */
#define ACTIVATION_MAX      64
#define ACTIVATION_NAME_MAX 255

/* The environment variables that are read; NULL after the last. */
extern const char *const activation_variables[];

/* One socket. */
struct activation_socket {
    int fd;                             /* that it has now, or -1 when another has taken it over */
    int used_fd;                        /* that it has, whoever uses it */
    int number;                         /* of the descriptor it came as, for messages */
    char name[ACTIVATION_NAME_MAX + 1]; /* "" where it has none */
};

struct activation {
    size_t count;
    struct activation_socket at[ACTIVATION_MAX];
};

/* What a socket is for. */
struct activation_use {
    size_t protocol; /* number of the protocol, or ACTIVATION_ADMIN */
    bool tls;
    bool local; /* a unix socket */
};
#define ACTIVATION_ADMIN OPTION_PROTOCOLS_MAX

/* Room for any reason of the functions below. */
#define ACTIVATION_REASON_SIZE 640

/*
 * Reads what the three variables say (NULL: not set) to the process `self`: the descriptors from 3
 * on. Nothing, when they are not set or meant for another process. False: they say what can't be;
 * reason_r tells.
 */
bool activation_parse(const char *pid, const char *fds, const char *names, pid_t self,
                      struct activation *activation_r, char *reason_r) MUST_USE;

/*
 * Takes all that was handed to this process: what the environment says, which is removed from it,
 * and standard input if that is a listening socket, whose place /dev/null takes. None is left to
 * programs that are started. False: reason_r tells why not.
 */
bool activation_take(struct activation *activation_r, char *reason_r) MUST_USE;

/*
 * Finds what a socket is for. False: nothing of ours, no listening socket, or what the settings
 * exclude; reason_r says so, with the descriptor and its name.
 */
bool activation_find_use(const struct activation_socket *sock, const struct settings *settings,
                         struct activation_use *use_r, char *reason_r) MUST_USE;

/* Closes those that nobody has taken over. */
void activation_close(struct activation *activation);

#endif
