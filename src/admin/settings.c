/* settings.c - the options in force, reading them again, and the log's level. */
#include "admin/admin_internal.h"
#include "base/log.h"
#include "net/query.h"

#include <math.h>

#define REPORT_SIZE 8192

static void add_option(void *to, const struct admin_option *option)
{
    json_text_open(to, NULL, '{');
    json_words(to, "key", option->key);
    json_words(to, "value", option->value);
    json_words(to, "default", option->default_text);
    json_words(to, "unit", option->unit);
    json_words(to, "help", option->help);
    json_text_bool(to, "reloadable", option->reloadable);
    json_text_bool(to, "is_default", option->is_default);
    json_text_close(to, '}');
}

void get_config(const struct route_request *r)
{
    if (!query_none(r->http))
        return;
    struct json_text json = json_text_begin();
    json_text_open(&json, "options", '[');
    r->admin->config.hooks.config(r->admin->config.hooks.arg, add_option, &json);
    json_text_close(&json, ']');
    http_answer_json(r->http, 200, &json);
}

/* Without the report, which may quote the file: the answer to POST and the log have that. */
void get_reload(const struct route_request *r)
{
    if (!query_none(r->http))
        return;
    struct admin_reloads reloads;
    r->admin->config.hooks.reloads(r->admin->config.hooks.arg, &reloads);
    struct json_text json = json_text_begin();
    json_text_number(&json, "tried", reloads.tried);
    json_text_bool(&json, "good", reloads.good);
    json_decimal(&json, "at", reloads.tried ? clock_unix_of(reloads.at_ns) : NAN);
    http_answer_json(r->http, 200, &json);
}

void reload_config(const struct route_request *r)
{
    if (!query_none(r->http))
        return;
    char report[REPORT_SIZE] = "";
    log_info("admin: %s has the configuration read again", http_peer(r->http));
    enum admin_outcome status =
        r->admin->config.hooks.reload(r->admin->config.hooks.arg, report, sizeof(report));
    if (status == ADMIN_AWAY) {
        http_error(r->http, 503, "%s", report);
        return;
    }
    struct json_text json = json_text_begin();
    if (status == ADMIN_DONE) {
        json_text_bool(&json, "reloaded", true);
    } else {
        json_text_open(&json, "error", '{');
        json_text_number(&json, "status", 409);
        json_words(&json, "reason", "the configuration has mistakes: nothing was changed");
        json_text_close(&json, '}');
    }
    json_lines(&json, "report", report);
    http_answer_json(r->http, status == ADMIN_DONE ? 200 : 409, &json);
}

static void answer_log_level(struct http_request *request)
{
    struct json_text json = json_text_begin();
    json_words(&json, "level", log_level_word(log_level_now()));
    http_answer_json(request, 200, &json);
}

void get_log_level(const struct route_request *r)
{
    if (query_none(r->http))
        answer_log_level(r->http);
}

void set_log_level(const struct route_request *r)
{
    static const char *const names[] = {"level", NULL};
    const char *levels[LOG_LEVELS + 1] = {NULL};
    for (unsigned i = 0; i < LOG_LEVELS; i++)
        levels[i] = log_level_word(i);
    struct query query;
    unsigned level = LOG_LEVELS;
    if (!query_read(&query, r->http, names) || !query_word(&query, 0, levels, &level))
        return;
    if (level == LOG_LEVELS) {
        http_error(r->http, 400, "which level? loglevel?level=debug, info, warning or error");
        return;
    }
    log_set_level(level);
    log_info("admin: %s sets log.level to %s", http_peer(r->http), log_level_word(level));
    answer_log_level(r->http);
}
