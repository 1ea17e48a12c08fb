/*
 * admin.h - what operators look at and turn: health, metrics, an HTTP API in JSON, the status page.
 *
 * It is served by a thread of its own (net/http.h), so that whatever its clients do costs the
 * workers nothing. What is in the table or counted is read as any thread may; what belongs to a
 * worker (its connections) is asked of it in pieces that take it microseconds.
 *
 * Threads: admin_new, admin_prepare and admin_free in the main thread; admin_set_token and
 * admin_set_hosts in any. The hooks are called in the admin's thread.
 */
#ifndef ADMIN_ADMIN_H
#define ADMIN_ADMIN_H

#include "net/listener.h"
#include "service/service.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* An option of the daemon, as text. The callee copies all strings. */
struct admin_option {
    const char *key;          /* "log.level" */
    const char *value;        /* in force; "(set)" in place of a secret */
    const char *default_text; /* where nothing is said */
    const char *unit;         /* "bytes", "seconds"; "" for none */
    const char *help;         /* one line */
    bool reloadable;          /* takes effect without a restart */
    bool is_default;          /* its value is the default */
};

#define ADMIN_UPGRADE_REPORT_SIZE 4096

/* What has come of upgrades in place. */
struct admin_upgrades {
    unsigned tried, done; /* that are over, and that were good, since the daemon first started */
    bool running;         /* one has been asked for and is not over */
    bool good;            /* the last that is over */
    int64_t pause_ns;     /* how long nobody was served when the last good one took over */
    char report[ADMIN_UPGRADE_REPORT_SIZE]; /* of the last: lines of text for people */
};

/* What has come of reloads since this program started, whoever asked for them. */
struct admin_reloads {
    unsigned tried; /* that are over */
    bool good;      /* the last of them; if not, it changed nothing */
    int64_t at_ns;  /* when that was over (monotonic) */
};

/* What has come of a request to the main thread. */
enum admin_outcome {
    ADMIN_DONE,
    ADMIN_REFUSED, /* nothing was changed */
    ADMIN_AWAY,    /* the daemon ends, or is being upgraded: nothing was done */
};

/* What the daemon does for the admin; called in the admin's thread. */
struct admin_hooks {
    void *arg;
    /* Whether clients are served: not before the workers run, nor from the moment it is to end. */
    bool (*ready)(void *arg);
    /* Calls `emit` for every option, in order. */
    void (*config)(void *arg, void (*emit)(void *to, const struct admin_option *option), void *to);
    /*
     * Has the configuration read again, and waits for it. DONE: what could be changed was.
     * *report_r: what there is to say of it, lines of text for people; AWAY: one line.
     */
    enum admin_outcome (*reload)(void *arg, char *report_r, size_t size);
    void (*reloads)(void *arg, struct admin_reloads *reloads_r);
    /* Has the daemon upgraded, without waiting for it: it may be another that answers then. False:
     * the daemon ends. */
    bool (*upgrade)(void *arg);
    void (*upgrades)(void *arg, struct admin_upgrades *upgrades_r);
};

/* All that is pointed to outlives the admin, but for token and hosts, which are copied. */
struct admin_config {
    const struct listener *own; /* its own listeners, open */
    size_t own_count;
    const char *token; /* for what changes something, as a digest (token.h); NULL or "": nothing
                          may be changed */
    const char *hosts; /* by which names it may be asked for, see hosts.h; NULL: no more */
    struct services *services;
    struct server *server;
    const struct listener *listeners; /* of all protocols: shown by /api/v1/stats */
    size_t listener_count;
    struct admin_hooks hooks;
    const char *version; /* "0.1.0" */
};

#define ADMIN_REASON_SIZE 320

struct admin;

/* Serves nobody yet: for when the daemon still has root's rights. NULL: *reason_r says why not. */
struct admin *admin_new(const struct admin_config *config, char *reason_r) MUST_USE;

/* Makes its thread, which sleeps. False: errno. */
bool admin_prepare(struct admin *admin) MUST_USE;
/* Has its thread run, the first time or after admin_pause; the workers run. */
void admin_resume(struct admin *admin);
/* Puts its thread to sleep, so that it asks the workers nothing; its connections stay. Not while a
 * hook waits for the caller. */
void admin_pause(struct admin *admin);

/* From now on changes need the token of this digest (token.h); NULL or "": nothing may be changed.
 * Any thread. */
void admin_set_token(struct admin *admin, const char *digest);

/* From now on it may be asked for by these names: a list of hosts.h; NULL: no more. Any thread. */
void admin_set_hosts(struct admin *admin, const char *hosts);

/*
 * Ends the thread, closes all its connections and frees *admin; nulls it. Before the workers are
 * stopped, because the thread may be waiting for one. Not while a hook waits for the caller.
 */
void admin_free(struct admin **admin);

#endif
