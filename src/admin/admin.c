/*
 * admin.c - the admin's life, the way from a request to its handler, by which names it may be
 * asked for, for whose pages, and who may change something.
 *
 * A request for a change needs the token, of which only a digest is stored. Digests are compared in
 * constant time, so neither the token nor its length can be guessed bit by bit.
 */
#include "admin/admin.h"

#include "admin/admin_internal.h"
#include "admin/process.h"
#include "base/log.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

_Static_assert(ADMIN_REASON_SIZE >= HTTP_REASON_SIZE, "the server's reason fits");

/* ---- the token ------------------------------------------------------------------------------- */

void admin_set_token(struct admin *admin, const char *digest)
{
    char given[TOKEN_DIGEST_SIZE] = "";
    if (digest)
        snprintf(given, sizeof(given), "%s", digest);
    CHECK(pthread_mutex_lock(&admin->lock) == 0);
    memcpy(admin->token, given, sizeof(given));
    CHECK(pthread_mutex_unlock(&admin->lock) == 0);
}

/* Whether `given` (NULL: nothing) is the token. *none_r: there is none, so nothing may be changed.
 */
static bool is_token(struct admin *admin, const char *given, bool *none_r)
{
    char made[TOKEN_DIGEST_SIZE] = "";
    bool made_it = given && token_digest(given, strlen(given), made);
    CHECK(pthread_mutex_lock(&admin->lock) == 0);
    *none_r = !*admin->token;
    bool same = CRYPTO_memcmp(made, admin->token, sizeof(made)) == 0;
    CHECK(pthread_mutex_unlock(&admin->lock) == 0);
    return !*none_r && made_it && same;
}

/* The token of "Authorization: Bearer TOKEN"; NULL: there is none. */
static const char *token_of(const struct http_request *request)
{
    static const char bearer[] = "Bearer ";
    const char *value = http_asked(request, "Authorization");
    if (!value || strncasecmp(value, bearer, sizeof(bearer) - 1) != 0)
        return NULL;
    value += sizeof(bearer) - 1;
    return value + strspn(value, " ");
}

/* True if the request may change something. Otherwise answers it and returns false. */
static bool may_change(struct admin *admin, struct http_request *request)
{
    static struct log_limit refusals;
    const char *given = token_of(request);
    bool none;
    if (is_token(admin, given, &none))
        return true;
    if (none) {
        http_error(request, 403,
                   "nothing can be changed here: set admin.token or admin.token_file, and send "
                   "\"Authorization: Bearer TOKEN\"");
        return false;
    }
    log_warning_limited(&refusals, "admin: %s asked for a change with %s token (%s)",
                        http_peer(request), given ? "a wrong" : "no", http_path(request));
    http_set_header(request, "WWW-Authenticate", "Bearer");
    http_error(request, 401,
               given ? "this is not the token"
                     : "this needs the token: send \"Authorization: Bearer TOKEN\"");
    return false;
}

/* ---- names ----------------------------------------------------------------------------------- */

void admin_set_hosts(struct admin *admin, const char *hosts)
{
    CHECK(!hosts || strlen(hosts) <= HOSTS_MAX);
    CHECK(pthread_mutex_lock(&admin->lock) == 0);
    snprintf(admin->hosts, sizeof(admin->hosts), "%s", hosts ? hosts : "");
    CHECK(pthread_mutex_unlock(&admin->lock) == 0);
}

/* True if the request names this server by one of its names. Otherwise answers it, returns false.
 */
static bool is_for_us(struct admin *admin, struct http_request *request)
{
    static struct log_limit refusals;
    char machine[256] = "";
    const char *asked = http_asked(request, "Host");
    if (gethostname(machine, sizeof(machine) - 1) != 0)
        *machine = '\0';
    CHECK(pthread_mutex_lock(&admin->lock) == 0);
    bool allowed = hosts_allow(admin->hosts, machine, asked);
    CHECK(pthread_mutex_unlock(&admin->lock) == 0);
    if (allowed || http_is_local(request))
        return true;
    log_warning_limited(&refusals,
                        "admin: %s asked for \"%.100s\", which admin.hosts does not have",
                        http_peer(request), asked);
    http_error(request, 421,
               "this server is not known as \"%.100s\": ask by its address or as localhost, or add "
               "that name to admin.hosts",
               asked);
    return false;
}

/* ---- pages of other sites -------------------------------------------------------------------- */

static bool says(const struct http_request *request, const char *header, const char *value)
{
    const char *said = http_asked(request, header);
    return said && strcmp(said, value) == 0;
}

/* True if the reader follows a link to the status page; the page with the link sees nothing. */
static bool follows_link(const struct http_request *request)
{
    return http_method(request) == HTTP_GET && strcmp(http_path(request), "/") == 0 &&
           says(request, "Sec-Fetch-Mode", "navigate") &&
           says(request, "Sec-Fetch-Dest", "document");
}

/*
 * Whether no page of another site has its visitor's browser ask for this, as far as the browser
 * tells: not all do, and to plain HTTP only where it leads to this machine. Another port of the
 * same host is another site here ("same-site"). False: it has been answered.
 */
static bool is_for_our_page(struct http_request *request)
{
    static struct log_limit refusals;
    if (!http_asked(request, "Sec-Fetch-Site") || says(request, "Sec-Fetch-Site", "same-origin") ||
        says(request, "Sec-Fetch-Site", "none") || follows_link(request))
        return true;
    log_warning_limited(&refusals,
                        "admin: the browser of %s asked for %s for a page of another site",
                        http_peer(request), http_path(request));
    http_error(request, 403,
               "a browser asks for this for a page of another site, which may link to the status "
               "page and no more: open it from the address bar");
    return false;
}

/* ---- routes ---------------------------------------------------------------------------------- */

/* True if a path matches a route; *slug_r is the part for its '*'. */
static bool is_path(const char *route, const char *path, struct bytes *slug_r)
{
    size_t len = strlen(path), head = strcspn(route, "*");
    *slug_r = bytes_at(path + len, 0);
    if (!route[head])
        return strcmp(route, path) == 0;
    const char *tail = route + head + 1;
    size_t tail_len = strlen(tail);
    if (len < head + tail_len || strncmp(path, route, head) != 0 ||
        strcmp(path + len - tail_len, tail) != 0)
        return false;
    *slug_r = bytes_at(path + head, len - head - tail_len);
    return !memchr(slug_r->data, '/', slug_r->len);
}

static bool is_method(enum http_method route, enum http_method method)
{
    return route == method || (route == HTTP_GET && method == HTTP_HEAD);
}

/* Says which methods this path has, if any: 405, else 404. */
static void refuse(struct admin *admin, struct http_request *request)
{
    char allow[32] = "";
    struct bytes slug;
    const struct route_row *route;
    for (size_t i = 0; (route = admin_route_at(admin->config.services, i)) != NULL; i++) {
        if (!is_path(route->path, http_path(request), &slug))
            continue;
        const char *methods = route->method == HTTP_GET ? "GET, HEAD" : "POST";
        size_t len = strlen(allow);
        snprintf(allow + len, sizeof(allow) - len, "%s%s", len ? ", " : "", methods);
    }
    if (!*allow) {
        http_error(request, 404, "there is nothing here: counterd-admin(7) has the list");
        return;
    }
    http_set_header(request, "Allow", allow);
    http_error(request, 405, "this can't be done here: %s can", allow);
}

static void handle(void *arg, struct http_request *request)
{
    struct admin *admin = arg;
    struct route_request r = {request, admin->config.services, admin, {0}};
    if (!is_for_us(admin, request) || !is_for_our_page(request))
        return;
    const struct route_row *route;
    for (size_t i = 0; (route = admin_route_at(r.services, i)) != NULL; i++) {
        if (!is_method(route->method, http_method(request)) ||
            !is_path(route->path, http_path(request), &r.slug))
            continue;
        if (!route->changes || may_change(admin, request))
            route->handle(&r);
        return;
    }
    refuse(admin, request);
}

static void sample(void *arg)
{
    struct admin *admin = arg;
    struct totals totals;
    totals_take(&totals, admin->config.services, clock_now());
    history_add(admin->history, &totals);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct admin *admin_new(const struct admin_config *config, char *reason_r)
{
    struct admin *admin = calloc(1, sizeof(*admin));
    if (admin)
        admin->history = history_new(config->server->count);
    if (!admin || !admin->history) {
        free(admin);
        snprintf(reason_r, ADMIN_REASON_SIZE, "no memory");
        return NULL;
    }
    struct http_config http = {
        .listeners = config->own,
        .listener_count = config->own_count,
        .name = "admin",
        .handle = handle,
        .every_second = sample,
        .arg = admin,
        .sandbox = config->server->sandbox,
    };
    admin->http = http_new(&http, reason_r);
    if (!admin->http) {
        history_free(&admin->history);
        free(admin);
        return NULL;
    }
    admin->config = *config;
    CHECK(pthread_mutex_init(&admin->lock, NULL) == 0);
    admin_set_token(admin, config->token);
    admin_set_hosts(admin, config->hosts);
    process_open(); /* its thread may not open files */
    return admin;
}

bool admin_prepare(struct admin *admin)
{
    sample(admin); /* so that the first second has something to be compared with */
    return http_prepare(admin->http);
}

void admin_pause(struct admin *admin)
{
    http_pause(admin->http);
}

void admin_resume(struct admin *admin)
{
    http_resume(admin->http);
}

void admin_free(struct admin **admin)
{
    struct admin *a = *admin;
    if (!a)
        return;
    *admin = NULL;
    http_free(&a->http);
    process_close();
    history_free(&a->history);
    CHECK(pthread_mutex_destroy(&a->lock) == 0);
    free(a);
}
