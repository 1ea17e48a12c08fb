/* settings.c - the options in force, reading them again, and the log's level. */
#include "admin/private.h"
#include "base/log.h"
#include "net/query.h"

#include <math.h>

#define REPORT_SIZE 8192

static void add_option(void *to, const struct admin_option *option)
{
    json_add(to, json_pack("{s:o, s:o, s:o, s:s, s:o, s:b, s:b}", "key", json_words(option->key),
                           "value", json_words(option->value), "default",
                           json_words(option->default_text), "unit", option->unit, "help",
                           json_words(option->help), "reloadable", (int)option->reloadable,
                           "is_default", (int)option->is_default));
}

void get_config(struct admin *admin, struct http_request *request, struct slug slug)
{
    (void)slug;
    if (!query_none(request))
        return;
    json_t *options = json_array();
    admin->config.hooks.config(admin->config.hooks.arg, add_option, &options);
    answer_json(request, 200, json_pack("{s:o}", "options", options));
}

/* Without the report, which may quote the file: the answer to POST and the log have that. */
void get_reload(struct admin *admin, struct http_request *request, struct slug slug)
{
    (void)slug;
    if (!query_none(request))
        return;
    struct admin_reloads r;
    admin->config.hooks.reloads(admin->config.hooks.arg, &r);
    answer_json(request, 200,
                json_pack("{s:i, s:b, s:o}", "tried", (int)r.tried, "good", (int)r.good, "at",
                          json_known(r.tried ? unix_of(r.at_ns) : NAN)));
}

void reload_config(struct admin *admin, struct http_request *request, struct slug slug)
{
    (void)slug;
    if (!query_none(request))
        return;
    char report[REPORT_SIZE] = "";
    log_info("admin: %s has the configuration read again", http_peer(request));
    switch (admin->config.hooks.reload(admin->config.hooks.arg, report, sizeof(report))) {
    case ADMIN_DONE:
        answer_json(request, 200,
                    json_pack("{s:b, s:o}", "reloaded", 1, "report", json_lines(report)));
        break;
    case ADMIN_REFUSED:
        answer_json(request, 409,
                    json_pack("{s:{s:i, s:s}, s:o}", "error", "status", 409, "reason",
                              "the configuration has mistakes: nothing was changed", "report",
                              json_lines(report)));
        break;
    case ADMIN_AWAY:
        http_error(request, 503, "%s", report);
        break;
    }
}

static void answer_log_level(struct http_request *request)
{
    answer_json(request, 200, json_pack("{s:s}", "level", log_level_word(log_level_now())));
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
