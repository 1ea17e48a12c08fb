/*
 * admin_internal.h - the inside of the admin, shared by its files. All of it is the admin thread's,
 * but for the token and the hosts.
 */
#ifndef ADMIN_ADMIN_INTERNAL_H
#define ADMIN_ADMIN_INTERNAL_H

#include "admin/admin.h"
#include "admin/history.h"
#include "admin/hosts.h"
#include "admin/token.h"
#include "net/http.h"
#include "service/monitor.h"

#include <pthread.h>

struct admin {
    struct admin_config config; /* but token and hosts are below */
    struct http *http;
    struct history *history;

    pthread_mutex_t lock;          /* of these two; nothing else is locked under it */
    char token[TOKEN_DIGEST_SIZE]; /* its digest; "": there is none */
    char hosts[HOSTS_MAX + 1];
};

/* ---- requests -------------------------------------------------------------------------------- */

/* Route number `i` of all, from 0: the admin's own, then those of protocols and resources. NULL:
 * there are no more. */
const struct route_row *admin_route_at(const struct services *services, size_t i);

/* health.c, status_page.c */
route_handler get_health, get_readiness, get_page;
/* metrics.c */
route_handler get_metrics;
/* stats.c */
route_handler get_stats, get_history;
/* names.c, holders.c, contended.c */
route_handler get_names, get_name, get_contended;
/* connections.c */
route_handler get_connections, kill_connection;
/* settings.c */
route_handler get_config, get_reload, reload_config, get_log_level, set_log_level;
/* upgrade.c */
route_handler get_upgrade, start_upgrade;

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Writes the lines of a report as an array. Takes the report apart. */
void json_lines(struct json_text *to, const char *key, char *report);
/* Writes a C string, which may be no UTF-8; NULL: null. */
void json_words(struct json_text *to, const char *key, const char *text);
/* Writes a number that shows that it may have a fraction: 5.0; not finite: null. */
void json_decimal(struct json_text *to, const char *key, double value);
/* names.c: writes what the table has of a name; the number of its holders under that key. */
void json_entry(struct json_text *to, const struct table_entry *entry, const char *holders);

#endif
