/*
 * reload.c - see reload.h.
 *
 * Four steps: read fresh settings, which their owners may refuse; merge their reloadable options
 * into a copy of the settings in force; make rules, certificates and token from the result, which
 * may fail; put all in place, which can't fail.
 */
#include "daemon/reload.h"

#include "admin/admin.h"
#include "base/log.h"
#include "net/snapshot.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* A line shows at most this many bytes of a value. */
#define SHOWN_MAX 120

/* Size of a line of a report. */
#define LINE_SIZE 512

/* --- Log and report -------------------------------------------------------------------------- */

/* Adds a line to the log and to the report. */
static void say(FILE *report, enum log_level level, const char *format, ...) PRINTF_LIKE(3, 4);
static void say(FILE *report, enum log_level level, const char *format, ...)
{
    char line[LINE_SIZE];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    log_at(level, "reload: %s", line);
    fprintf(report, "%s\n", line);
}

void reload_log_complaints(char *said, const char *prefix, FILE *also)
{
    static const char ours[] = "counterd: ";
    char *rest = NULL;
    for (char *line = strtok_r(said, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, ours, strlen(ours)) == 0)
            line += strlen(ours);
        log_error("%s%s", prefix, line);
        if (also)
            fprintf(also, "%s\n", line);
    }
}

/* --- Changes --------------------------------------------------------------------------------- */

/* Writes a value for a line: cuts a long one, and shows empty text as "". */
static void show_value(const struct settings *settings, const struct option_row *row, char *to,
                       size_t size)
{
    size_t len = options_to_text(settings, row, to, size);
    if (len == 0)
        snprintf(to, size, "\"\"");
    else if (len >= size)
        memcpy(to + size - 4, "...", 4);
}

static void describe_change(const struct settings *in_force, const struct settings *fresh,
                            const struct option_row *row, char *line, size_t size)
{
    char old[SHOWN_MAX], new[SHOWN_MAX];
    show_value(in_force, row, old, sizeof old);
    show_value(fresh, row, new, sizeof new);
    if (row->secret)
        snprintf(line, size, "%s has changed", row->key);
    else if (row->reloadable)
        snprintf(line, size, "%s is %s now; it was %s", row->key, new, old);
    else
        snprintf(line, size, "%s can't change from %s to %s while counterd runs: restart it",
                 row->key, old, new);
}

/* The report of one reload. */
struct telling {
    FILE *report;
    unsigned applied, waiting;
};

/* Reports a change, which applies or needs a restart. */
static void tell_change(struct telling *telling, bool applies, const char *line)
{
    ++*(applies ? &telling->applied : &telling->waiting);
    say(telling->report, applies ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING, "%s", line);
}

/* Reports a name of a family that is new or gone. */
static void tell_name(void *arg, const struct settings_difference *difference)
{
    char line[LINE_SIZE];
    if (difference->was && difference->is)
        return;
    snprintf(line, sizeof line, "%s.%s is %s", difference->group->prefix, difference->name,
             difference->is ? "new" : "gone");
    tell_change(arg, true, line);
}

/* Reports each option that differs, in the order of the table, then names. `level`: the log level
 * in force, which the admin interface may have changed. */
static void tell_changes(const struct settings *in_force, const struct settings *fresh,
                         enum log_level level, struct telling *telling)
{
    const struct option_row *row;
    struct settings now = *in_force; /* shares the strings: do not free */
    now.log_level = level;
    for (size_t i = 0; (row = options_in(fresh, i)); i++) {
        char line[LINE_SIZE];
        if (!options_has(&now, row) || options_equal(&now, fresh, row))
            continue;
        describe_change(&now, fresh, row, line, sizeof line);
        tell_change(telling, row->reloadable, line);
    }
    settings_compare(&now, fresh, tell_name, telling);
}

/* --- Reading --------------------------------------------------------------------------------- */

struct snapshot *reload_make_snapshot(const struct settings *settings, struct tls *tls)
{
    const struct snapshot_config config = {
        .limits =
            {
                .output_buffer = settings->limits_output_buffer,
                .unfinished = settings->limits_unfinished,
                .request_timeout_ns = settings->limits_request_timeout * NS_PER_S,
                .write_timeout_ns = settings->limits_write_timeout * NS_PER_S,
                .handshake_timeout_ns = settings->tls_handshake_timeout * NS_PER_S,
                .handshakes = settings->tls_max_handshakes,
                .per_source = settings->access_max_per_source,
            },
        .allow = settings->access_allow.at,
        .allow_count = settings->access_allow.count,
        .tls = tls,
    };
    return snapshot_new(&config);
}

/* Everything that the reload will put in place. */
struct fresh {
    struct settings read;   /* from the file and the command line */
    struct settings merged; /* with the old values of options that need a restart */
    struct credentials credentials;
    struct snapshot *snapshot;
};

static bool merge(struct fresh *fresh, const struct settings *in_force, FILE *err)
{
    const struct option_row *row;
    bool copied = true;
    for (size_t i = 0; (row = options_in(&fresh->read, i)); i++) {
        bool is_kept = !row->reloadable && options_has(in_force, row);
        copied = options_copy(&fresh->merged, is_kept ? in_force : &fresh->read, row) && copied;
    }
    fresh->merged.file = fresh->read.file;
    fresh->merged.file_secret = fresh->read.file_secret;
    if (!copied)
        options_complain(err, "no memory for the settings");
    return copied;
}

/* Checks that the merged settings, new values beside old ones, fit together. */
static bool merged_fits(const struct reload *reload, struct settings *merged, FILE *err)
{
    if (!options_fit(merged, err)) {
        options_complain(err,
                         "the new settings conflict with old ones that only a restart changes; "
                         "restart counterd to apply all");
        return false;
    }
    if (listeners_use_tls(reload->listeners) && !merged->tls_cert) {
        options_complain(err, "tls.cert: a listener serves TLS and needs a certificate");
        return false;
    }
    return true;
}

/* What owners of settings say to them. */
struct asking {
    void *services;
    FILE *err;
    bool good; /* so far all have accepted */
};

static void ask_owner(void *arg, const struct settings_difference *difference)
{
    struct asking *asking = arg;
    const struct option_group *group = difference->group;
    char reason[OPTIONS_REASON_SIZE] = "";
    if (!group->accepts ||
        group->accepts(asking->services, difference->name, difference->was, difference->is, reason))
        return;
    options_complain(asking->err, "%s%s%s: %s", group->prefix, difference->name ? "." : "",
                     difference->name ? difference->name : "", reason);
    asking->good = false;
}

bool reload_accepts(struct services *services, const struct settings *was,
                    const struct settings *is, FILE *err)
{
    struct asking asking = {.services = services, .err = err, .good = true};
    settings_compare(was, is, ask_owner, &asking);
    return asking.good;
}

/* Reads the settings and makes everything new. Returns false after printing why to `err`. The
 * caller calls free_fresh in both cases. */
static bool make_fresh(const struct reload *reload, struct fresh *fresh, FILE *err)
{
    struct options_request request = options_command_line(
        reload->argc, reload->argv, reload->settings.file != NULL, &fresh->read, err);
    if (request.action != OPTIONS_RUN || !merge(fresh, &reload->settings, err) ||
        !merged_fits(reload, &fresh->merged, err) ||
        !reload_accepts(reload->services, &reload->settings, &fresh->read, err) ||
        !credentials_load(&fresh->merged, &fresh->credentials, err))
        return false;
    fresh->snapshot = reload_make_snapshot(&fresh->merged, fresh->credentials.tls);
    if (!fresh->snapshot) {
        options_complain(err, "no memory for the rules of connections");
        return false;
    }
    fresh->credentials.tls = NULL; /* the rules have it */
    return true;
}

static void free_fresh(struct fresh *fresh)
{
    settings_free(&fresh->read);
    settings_free(&fresh->merged);
    credentials_free(&fresh->credentials);
    snapshot_free(&fresh->snapshot);
}

/* --- Putting in place ------------------------------------------------------------------------ */

/* Reports all differences from `old`, and files that were read again. */
static void tell(const struct settings *old, const struct fresh *fresh, enum log_level level,
                 bool token_changed, FILE *report)
{
    struct telling telling = {.report = report};
    tell_changes(old, &fresh->read, level, &telling);
    if (fresh->read.tls_cert)
        say(report, LOG_LEVEL_INFO, "tls: the certificates were read again");
    if (fresh->read.admin_token_file && token_changed)
        say(report, LOG_LEVEL_INFO, "admin.token_file: the token has changed");
    say(report, LOG_LEVEL_INFO, "done: %u changed, %u need a restart", telling.applied,
        telling.waiting);
}

/*
 * Puts all in place; can't fail. Afterwards fresh->merged has the old settings, and every worker
 * uses the new rules: server_barrier waits for an answer that follows the rules in its mailbox.
 */
static void put_in_place(struct reload *reload, struct fresh *fresh)
{
    server_set_snapshot(reload->server, fresh->snapshot);
    fresh->snapshot = NULL;
    server_barrier(reload->server);
    for (size_t i = 0; options_protocol_at(i); i++) {
        struct protocol *protocol =
            services_protocol(reload->services, options_protocol_at(i)->name);
        atomic_store_explicit(&protocol->max_connections,
                              settings_protocol(&fresh->merged, i)->max_connections,
                              memory_order_relaxed);
    }
    if (reload->admin) {
        admin_set_token(reload->admin, fresh->credentials.token);
        admin_set_hosts(reload->admin, fresh->merged.admin_hosts);
    }
    memcpy(reload->token, fresh->credentials.token, sizeof reload->token);

    pthread_mutex_lock(&reload->lock);
    struct settings old = reload->settings;
    reload->settings = fresh->merged;
    pthread_mutex_unlock(&reload->lock);
    fresh->merged = old;
    settings_compare(&old, &reload->settings, settings_tell, reload->services);
    settings_forget(&reload->settings);
}

bool reload_run(struct reload *reload, FILE *report)
{
    struct fresh *fresh = calloc(1, sizeof *fresh);
    char *said = NULL;
    size_t said_size;
    bool made = fresh && settings_init(&fresh->read) && settings_init(&fresh->merged);
    FILE *err = made ? open_memstream(&said, &said_size) : NULL;
    if (!err) {
        if (fresh)
            free_fresh(fresh);
        free(fresh);
        say(report, LOG_LEVEL_ERROR, "no memory; nothing was changed");
        return false;
    }
    bool good = make_fresh(reload, fresh, err);
    fclose(err);
    if (good) {
        /* While reporting, use the more verbose of the old and new log level. */
        enum log_level level = fresh->merged.log_level, before = log_level_now();
        bool token_changed = strcmp(fresh->credentials.token, reload->token) != 0;
        log_set_level(level > before ? level : before);
        put_in_place(reload, fresh);
        tell(&fresh->merged, fresh, before, token_changed, report);
        credentials_warn(&reload->settings);
        log_set_level(level);
    } else {
        reload_log_complaints(said, "reload: ", report);
        say(report, LOG_LEVEL_ERROR, "nothing was changed; the old settings stay in force");
    }
    free(said);
    free_fresh(fresh);
    free(fresh);
    return good;
}
