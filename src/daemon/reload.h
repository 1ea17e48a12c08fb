/*
 * reload.h - new settings for a running daemon.
 *
 * A reload reads the command line and the configuration file again. Reloadable options that differ
 * take effect; other differences are reported as needing a restart. Files that the settings name
 * (certificates, token) are read again each time. After any error nothing changes. A missing
 * configuration file is an error if one was read before, even the default one: without it, access
 * lists, limits and the token would fall back to their defaults.
 *
 * Threads: main thread. Other threads may read the settings in force under `lock`.
 */
#ifndef DAEMON_RELOAD_H
#define DAEMON_RELOAD_H

#include "daemon/credentials.h"
#include "daemon/listeners.h"
#include "daemon/options.h"

#include <pthread.h>

struct admin;

/* The settings in force, and the parts that a reload changes. main.c fills it in. */
struct reload {
    int argc;
    char **argv;
    struct services *services;
    struct server *server;
    const struct listeners *listeners;
    struct admin *admin; /* NULL: there is none */

    /* Protects `settings`. Only the main thread changes them, and it reads them without the lock.
     */
    pthread_mutex_t lock;
    struct settings settings;
    char token[TOKEN_DIGEST_SIZE]; /* digest of the admin interface's token; main thread only */
};

/*
 * Makes rules (net/snapshot.h) from the settings and `tls`, which the rules own then. Returns NULL
 * without memory; the caller still owns `tls`.
 */
struct snapshot *reload_make_snapshot(const struct settings *settings, struct tls *tls) MUST_USE;

/*
 * Asks the owners (`accepts` of struct option_group) whether settings may be put in force: in a
 * reload, and in the dry run of an upgrade, where `services` have the state of the old process
 * and `was` is NULL. Returns false after printing why not to `err`.
 */
bool reload_accepts(struct services *services, const struct settings *was,
                    const struct settings *is, FILE *err) MUST_USE;

/*
 * Reloads while the workers run; when it returns, all of them use the new rules. Writes each
 * message to the log and as a line to `report`, which gets at least one line. Returns false after
 * an error, and nothing has changed.
 */
bool reload_run(struct reload *reload, FILE *report);

/* Logs each line that options_complain printed as an error, after `prefix`; writes the lines to
 * `also`, too, unless it is NULL. Changes `said`. */
void reload_log_complaints(char *said, const char *prefix, FILE *also);

#endif
