/* health.c - whether it lives, and whether it serves. */
#include "admin/admin_inside.h"

#include <string.h>

void get_health(struct admin *admin, struct http_request *request, struct slug slug)
{
    (void)admin;
    (void)slug;
    http_answer_static(request, 200, "text/plain; charset=utf-8", "ok\n", 3);
}

void get_readiness(struct admin *admin, struct http_request *request, struct slug slug)
{
    (void)slug;
    bool ready = admin->config.hooks.ready(admin->config.hooks.arg);
    const char *text = ready ? "ready\n" : "not ready\n";
    http_answer_static(request, ready ? 200 : 503, "text/plain; charset=utf-8", text, strlen(text));
}
