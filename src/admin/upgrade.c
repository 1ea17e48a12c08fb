/*
 * upgrade.c - having the daemon upgraded, and what has come of that.
 *
 * The thread that answers ends with the old program, so nobody waits for the end of an upgrade in a
 * request: who asked for it looks again, and may find another program answering.
 */
#include "admin/admin_internal.h"
#include "base/log.h"
#include "net/query.h"

#include <math.h>

/* Answers with what there is to know. */
static void answer_upgrades(struct admin *admin, struct http_request *request, int status)
{
    struct admin_upgrades u;
    admin->config.hooks.upgrades(admin->config.hooks.arg, &u);
    struct json_text json = json_text_begin();
    json_text_bool(&json, "running", u.running);
    json_text_number(&json, "tried", u.tried);
    json_text_number(&json, "done", u.done);
    json_text_bool(&json, "good", u.good);
    json_decimal(&json, "pause_seconds", u.done ? clock_seconds(u.pause_ns) : NAN);
    json_lines(&json, "report", u.report);
    json_words(&json, "version", admin->config.version);
    http_answer_json(request, status, &json);
}

void get_upgrade(const struct route_request *r)
{
    if (query_none(r->http))
        answer_upgrades(r->admin, r->http, 200);
}

void start_upgrade(const struct route_request *r)
{
    if (!query_none(r->http))
        return;
    log_info("admin: %s asks for an upgrade of counterd", http_peer(r->http));
    if (r->admin->config.hooks.upgrade(r->admin->config.hooks.arg))
        answer_upgrades(r->admin, r->http, 202);
    else
        http_error(r->http, 503, "counterd is ending");
}
