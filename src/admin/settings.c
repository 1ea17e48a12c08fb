/* settings.c - the options in force, reading them again, and the log's level. */
#include "admin/admin_inside.h"
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

void get_config(struct admin *admin, struct http_request *request, struct slug slug)
{
    (void)slug;
    if (!query_none(request))
        return;
    struct json_text json = json_text_begin();
    json_text_open(&json, "options", '[');
    admin->config.hooks.config(admin->config.hooks.arg, add_option, &json);
    json_text_close(&json, ']');
    http_answer_json(request, 200, &json);
}

/* Without the report, which may quote the file: the answer to POST and the log have that. */
void get_reload(struct admin *admin, struct http_request *request, struct slug slug)
{
    (void)slug;
    if (!query_none(request))
        return;
    struct admin_reloads r;
    admin->config.hooks.reloads(admin->config.hooks.arg, &r);
    struct json_text json = json_text_begin();
    json_text_number(&json, "tried", r.tried);
    json_text_bool(&json, "good", r.good);
    json_decimal(&json, "at", r.tried ? clock_unix_of(r.at_ns) : NAN);
    http_answer_json(request, 200, &json);
}

void reload_config(struct admin *admin, struct http_request *request, struct slug slug)
{
    (void)slug;
    if (!query_none(request))
        return;
    char report[REPORT_SIZE] = "";
    log_info("admin: %s has the configuration read again", http_peer(request));
    enum admin_outcome status =
        admin->config.hooks.reload(admin->config.hooks.arg, report, sizeof(report));
    if (status == ADMIN_AWAY) {
        http_error(request, 503, "%s", report);
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
    http_answer_json(request, status == ADMIN_DONE ? 200 : 409, &json);
}

static void answer_log_level(struct http_request *request)
{
    struct json_text json = json_text_begin();
    json_words(&json, "level", log_level_word(log_level_now()));
    http_answer_json(request, 200, &json);
}

void get_log_level(struct admin *admin, struct http_request *request, struct slug slug)
{
    (void)admin;
    (void)slug;
    if (query_none(request))
        answer_log_level(request);
}

void set_log_level(struct admin *admin, struct http_request *request, struct slug slug)
{
    (void)admin;
    (void)slug;
    static const char *const names[] = {"level", NULL};
    const char *levels[LOG_LEVELS + 1] = {NULL};
    for (unsigned i = 0; i < LOG_LEVELS; i++)
        levels[i] = log_level_word(i);
    struct query query;
    unsigned level = LOG_LEVELS;
    if (!query_read(&query, request, names) || !query_word(&query, 0, levels, &level))
        return;
    if (level == LOG_LEVELS) {
        http_error(request, 400, "which level? loglevel?level=debug, info, warning or error");
        return;
    }
    log_set_level(level);
    log_info("admin: %s sets log.level to %s", http_peer(request), log_level_word(level));
    answer_log_level(request);
}
