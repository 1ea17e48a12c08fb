/*
 * reload.h - new settings for a daemon that runs.
 *
 * The command line is read again, with the file it names. What is reloadable of the differences
 * takes effect, what is not is said to need a restart. Files that the settings name (certificates,
 * token) are read again in any case. All or nothing: where anything is wrong, all stays as it was.
 * A file that was read before and is missing now is wrong, too, even the default one: without it
 * access lists, limits and the token would fall to their defaults.
 *
 * Threads: the main thread's, but for what other threads may read of the settings in force, under
 * their lock.
 */
#ifndef DAEMON_RELOAD_H
#define DAEMON_RELOAD_H

#include "daemon/credentials.h"
#include "daemon/listeners.h"
#include "daemon/options.h"

#include <pthread.h>

struct admin;

/* What is in force, and what a change of it has to be told to. Filled in by main.c. */
struct reload {
    int argc;
    char **argv;
    struct services *services;
    struct server *server;
    const struct listeners *listeners;
    struct admin *admin; /* NULL: there is none */

    /* Of the settings, which the main thread alone changes; it reads them without. */
    pthread_mutex_t lock;
    struct settings settings;
    char token[TOKEN_DIGEST_SIZE]; /* the main thread's: what the admin interface wants */
};

/* The most bytes that a line of a report has. */
#define RELOAD_LINE_SIZE 512

/* One difference between the settings in force and new ones. */
struct reload_change {
    bool applies;     /* false: it needs a restart */
    const char *line; /* for people: "log.level is debug now; it was info" */
};

/*
 * Calls `found` for each option that differs, in the order of the table, and then for each name of
 * a family that is new or gone; `level` is the level in
 * force, which may have been changed without a reload. Answers how many there were.
 */
size_t reload_compare(const struct settings *in_force, const struct settings *fresh,
                      enum log_level level,
                      void (*found)(void *arg, const struct reload_change *change), void *arg);

/*
 * Makes the net's rules of the settings and of what they name; `tls` is taken over. NULL: no
 * memory, and tls still the caller's.
 */
struct rules *reload_make_rules(const struct settings *settings, struct tls *tls) MUST_USE;

/*
 * Reloads; the workers run, and go by the new when it returns. Each thing there is to say becomes a
 * line of the log and one of `report`, which has one line for each at least. False: something is
 * wrong, and everything is as before.
 */
bool reload_run(struct reload *reload, FILE *report);

/* Logs as errors what was said with options_complain, line by line; and writes it to `also`. */
void reload_log_complaints(char *said, const char *prefix, FILE *also);

#endif
