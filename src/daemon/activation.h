/*
 * activation.h - socket activation: listening sockets that the process's parent made. A service
 * manager announces them in LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES. One more may be standard
 * input; it goes to the protocol with `takes_stdin` (struct option_protocol).
 *
 * The name of a socket says what it serves. A socket without a known name is matched by its port or
 * path, which must be in the settings.
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

/* Limits: sockets that a service manager may pass, and bytes of a name. */
#define ACTIVATION_MAX      64
#define ACTIVATION_NAME_MAX 255

struct activation_socket {
    int fd;                             /* -1 once a listener or the admin interface owns it */
    int used_fd;                        /* the descriptor; stays set after the owner changed */
    int number;                         /* the descriptor that the parent passed, for messages */
    char name[ACTIVATION_NAME_MAX + 1]; /* "": no name */
};

struct activation {
    size_t count;
    struct activation_socket at[ACTIVATION_MAX];
};

/* What a socket serves. */
struct activation_use {
    size_t protocol; /* index for options_protocol_at, or ACTIVATION_ADMIN */
    bool tls;
    bool local; /* a unix socket */
};
#define ACTIVATION_ADMIN OPTION_PROTOCOLS_MAX

/* Size of reason_r for the functions below. */
#define ACTIVATION_REASON_SIZE 640

/*
 * Takes all sockets passed to this process: those in the environment (the variables are removed),
 * and standard input if it is a listening socket (/dev/null replaces it). All become close-on-exec.
 * Returns false on error; reason_r says why.
 */
bool activation_take(struct activation *activation_r, char *reason_r) MUST_USE;

/*
 * Finds what a socket serves. Returns false when it matches no setting, does not listen, or the
 * settings forbid the use; reason_r says why, with the descriptor and its name.
 */
bool activation_find_use(const struct activation_socket *sock, const struct settings *settings,
                         struct activation_use *use_r, char *reason_r) MUST_USE;

/* Forgets a socket whose owner closes it, so that no upgrade carries it. */
void activation_forget(struct activation *activation, int fd);
/* Closes the sockets that still have no other owner. */
void activation_close(struct activation *activation);

#endif
