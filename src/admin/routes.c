/*
 * routes.c - the table of what is served: the admin's own routes, and behind them those that
 * protocols and resources bring (service/monitor.h).
 */
#include "admin/admin_internal.h"

static const struct route_row admin_routes[] = {
    {HTTP_GET, "/", get_page, false},
    {HTTP_GET, "/page.js", get_page, false},
    {HTTP_GET, "/page.css", get_page, false},
    {HTTP_GET, "/favicon.svg", get_page, false},
    {HTTP_GET, "/healthz", get_health, false},
    {HTTP_GET, "/readyz", get_readiness, false},
    {HTTP_GET, "/metrics", get_metrics, false},
    {HTTP_GET, "/api/v1/stats", get_stats, false},
    {HTTP_GET, "/api/v1/history", get_history, false},
    {HTTP_GET, "/api/v1/contended", get_contended, false},
    {HTTP_GET, "/api/v1/names", get_names, false},
    {HTTP_GET, "/api/v1/names/*", get_name, false},
    {HTTP_GET, "/api/v1/connections", get_connections, false},
    {HTTP_POST, "/api/v1/connections/*/kill", kill_connection, true},
    {HTTP_GET, "/api/v1/config", get_config, false},
    {HTTP_GET, "/api/v1/reload", get_reload, false},
    {HTTP_POST, "/api/v1/reload", reload_config, true},
    {HTTP_GET, "/api/v1/upgrade", get_upgrade, false},
    {HTTP_POST, "/api/v1/upgrade", start_upgrade, true},
    {HTTP_GET, "/api/v1/loglevel", get_log_level, false},
    {HTTP_POST, "/api/v1/loglevel", set_log_level, true},
};

const struct route_row *admin_route_at(const struct services *services, size_t i)
{
    const struct monitor *monitor;
    if (i < ARRAY_SIZE(admin_routes))
        return &admin_routes[i];
    i -= ARRAY_SIZE(admin_routes);
    for (unsigned part = 0; services_monitor(services, part, &monitor); part++) {
        for (const struct route_row *r = monitor ? monitor->routes : NULL; r && r->path; r++) {
            if (i-- == 0)
                return r;
        }
    }
    return NULL;
}
