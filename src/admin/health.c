/* health.c - whether it lives, and whether it serves. */
#include "admin/admin_internal.h"

#include <string.h>

void get_health(const struct route_request *r)
{
    http_answer_static(r->http, 200, "text/plain; charset=utf-8", "ok\n", 3);
}

void get_readiness(const struct route_request *r)
{
    bool ready = r->admin->config.hooks.ready(r->admin->config.hooks.arg);
    const char *text = ready ? "ready\n" : "not ready\n";
    http_answer_static(r->http, ready ? 200 : 503, "text/plain; charset=utf-8", text, strlen(text));
}
