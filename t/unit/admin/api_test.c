/* api_test.c - every endpoint: its shape key by key, its errors, and its values. */
#include "t/unit/admin/fixture.h"

#include "admin/private.h"
#include "t/unit/random.h"

#include <math.h>

/* ---- holders of the test: in the table, without a connection -------------------------------- */

/* The id of a place so high that no connection has it. */
#define STRANGER(i) (0x00f00000u + (i))

static struct holder strangers[3000];

static void take(struct holder *holder, uint32_t units, uint32_t limit, const void *name,
                 size_t len)
{
    struct acquire a = {.name = {.data = name, .len = len}, .units = units, .limit = limit};
    struct holding *held;
    struct waiter *waiter;
    ck_assert(table_acquire(services->table, holder, &a, clock_now(), &held, &waiter) == TABLE_OK);
}

static void stranger_takes(unsigned i, uint32_t units, uint32_t limit, const char *name)
{
    if (!strangers[i].id)
        holder_init(&strangers[i], STRANGER(i), STRANGER(i));
    take(&strangers[i], units, limit, name, strlen(name));
}

static void strangers_leave(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(strangers); i++) {
        verdicts out;
        mail_list_init(&out);
        if (strangers[i].id)
            table_close(services->table, &strangers[i], clock_now(), NULL, &out);
        strangers[i].id = 0;
        ck_assert(out.first == NULL);
    }
}

/* ---- health, methods, paths ------------------------------------------------------------------ */

TEST(health_and_readiness)
{
    begin(1, NULL);
    expect_get(where, "/healthz", "ok\n");
    expect_get(where, "/readyz", "ready\n");
    atomic_store(&is_ready, false);
    expect_get(where, "/healthz", "ok\n");
    struct http_reply r = http_ask(where, "GET", "/readyz", "");
    ck_assert_int_eq(r.status, 503);
    ck_assert_str_eq(r.body, "not ready\n");
    reply_free(&r);
    finish();
}
END_TEST

TEST(page_has_its_headers_and_is_not_sent_twice)
{
    begin(1, NULL);
    static const char *const paths[] = {"/", "/page.js", "/page.css", "/favicon.svg"};
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        char tag[128], value[512], asked[256];
        struct http_reply r = http_ask(where, "GET", paths[i], "");
        ck_assert_int_eq(r.status, 200);
        ck_assert_uint_gt(r.len, 0);
        ck_assert(reply_header(&r, "ETag", tag, sizeof(tag)) != NULL);
        ck_assert_str_eq(reply_header(&r, "Referrer-Policy", value, sizeof(value)), "no-referrer");
        ck_assert_str_eq(reply_header(&r, "X-Content-Type-Options", value, sizeof(value)),
                         "nosniff");
        ck_assert_str_eq(reply_header(&r, "Content-Security-Policy", value, sizeof(value)),
                         "default-src 'none'; script-src 'self'; style-src 'self'; "
                         "connect-src 'self'; img-src 'self' data:; base-uri 'none'; "
                         "form-action 'none'; frame-ancestors 'none'");
        reply_free(&r);
        snprintf(asked, sizeof(asked), "If-None-Match: %s\r\n", tag);
        r = http_ask(where, "GET", paths[i], asked);
        ck_assert_int_eq(r.status, 304);
        ck_assert_uint_eq(r.len, 0);
        reply_free(&r);
        r = http_ask(where, "GET", paths[i], "If-None-Match: \"other\"\r\n");
        ck_assert_int_eq(r.status, 200);
        reply_free(&r);
    }
    finish();
}
END_TEST

TEST(only_what_there_is_is_found)
{
    static const char *const targets[] = {"/nothing",
                                          "/healthz/",
                                          "//healthz",
                                          "/api",
                                          "/api/v1/",
                                          "/api/v1/statsx",
                                          "/api/v1/stats/",
                                          "/api/v1/names/a/b",
                                          "/api/v1/connections/1.2.3",
                                          "/api/v1/connections/1/2/kill",
                                          "/API/v1/stats"};
    begin(1, NULL);
    for (size_t i = 0; i < ARRAY_SIZE(targets); i++)
        expect_error("GET", targets[i], "", 404, "counterd-admin(7)");
    finish();
}
END_TEST

/* Writes a valid target for a route. */
static void target_of(const struct admin_route *route, char *to, size_t size)
{
    const char *star = strchr(route->path, '*');
    if (star)
        snprintf(to, size, "%.*sx%s", (int)(star - route->path), route->path, star + 1);
    else
        snprintf(to, size, "%s", route->path);
}

static bool has_route(const char *path, enum http_method method)
{
    for (size_t i = 0; i < admin_route_count; i++) {
        if (strcmp(admin_routes[i].path, path) == 0 && admin_routes[i].method == method)
            return true;
    }
    return false;
}

TEST(other_methods_are_refused_and_told_which_there_are)
{
    begin(1, TOKEN);
    for (size_t i = 0; i < admin_route_count; i++) {
        const struct admin_route *route = &admin_routes[i];
        bool get = has_route(route->path, HTTP_GET), post = has_route(route->path, HTTP_POST);
        static const char *const methods[] = {"GET",    "HEAD",    "POST",  "PUT",
                                              "DELETE", "OPTIONS", "TRACE", "PATCH"};
        for (size_t m = 0; m < ARRAY_SIZE(methods); m++) {
            char target[128], allow[32];
            if (m < 2 ? get : m == 2 && post)
                continue;
            target_of(route, target, sizeof(target));
            struct http_reply r = http_ask(where, methods[m], target, BEARER);
            ck_assert_msg(r.status == 405, "%s %s: %d", methods[m], target, r.status);
            ck_assert_str_eq(reply_header(&r, "Allow", allow, sizeof(allow)),
                             get && post ? "GET, HEAD, POST"
                             : get       ? "GET, HEAD"
                                         : "POST");
            reply_free(&r);
        }
    }
    finish();
}
END_TEST

TEST(head_is_answered_as_get_without_the_body)
{
    begin(1, NULL);
    stranger_takes(0, 1, 2, "x");
    for (size_t i = 0; i < admin_route_count; i++) {
        char target[128];
        if (admin_routes[i].method != HTTP_GET)
            continue;
        target_of(&admin_routes[i], target, sizeof(target));
        struct http_reply r = http_ask(where, "HEAD", target, "");
        ck_assert_msg(r.status == 200, "%s: %d", target, r.status);
        ck_assert_uint_gt(r.len, 0);
        reply_free(&r);
    }
    strangers_leave();
    finish();
}
END_TEST

TEST(wrong_parameters_are_named_with_what_would_be_right)
{
    static const struct {
        const char *target, *says;
    } rows[] = {
        {"/api/v1/stats?x=1", "no parameter \"x\""},
        {"/api/v1/config?x", "no parameter \"x\""},
        {"/api/v1/loglevel?level=info", "no parameter \"level\""},
        {"/api/v1/names/a?limit=1", "no parameter \"limit\""},
        {"/api/v1/history?secondz=1", "there is seconds"},
        {"/api/v1/history?=1", "no parameter \"\""},
        {"/api/v1/history?seconds=0", "a number from 1 to 600"},
        {"/api/v1/history?seconds=601", "a number from 1 to 600"},
        {"/api/v1/history?seconds=", "a number from 1 to 600"},
        {"/api/v1/history?seconds", "a number from 1 to 600"},
        {"/api/v1/history?seconds=-1", "seconds=-1"},
        {"/api/v1/history?seconds=1x", "seconds=1x"},
        {"/api/v1/history?seconds=99999999999999999999", "a number from"},
        {"/api/v1/history?seconds=1&seconds=2", "given twice"},
        {"/api/v1/contended?by=size", "waiting, refused or peak"},
        {"/api/v1/contended?by=", "waiting, refused or peak"},
        {"/api/v1/contended?limit=0", "from 1 to 1000"},
        {"/api/v1/contended?names=1", "there is by or limit"},
        {"/api/v1/names?limit=1001", "from 1 to 1000"},
        {"/api/v1/names?sort=size", "none, name, in_use, peak or waiting"},
        {"/api/v1/names?prefix=%4", "two hexadecimal digits"},
        {"/api/v1/names?prefix=%zz", "two hexadecimal digits"},
        {"/api/v1/names?cursor=x", "previous page"},
        {"/api/v1/names?cursor=", "previous page"},
        {"/api/v1/names?cursor=1.2", "previous page"},
        {"/api/v1/names?cursor=1.2.3x", "previous page"},
        {"/api/v1/names?cursor=40.0.0", "previous page"},
        {"/api/v1/names?cursor=0.0.100000001", "previous page"},
        {"/api/v1/names?cursor=0.0.0&sort=name", "only with sort=none"},
        {"/api/v1/connections?protocol=smtp", "poolcounter, counter or jobs"},
        {"/api/v1/connections?limit=9999", "from 1 to 1000"},
        {"/api/v1/connections?cursor=0", "previous page"},
        {"/api/v1/connections?cursor=9.0", "previous page"},
        {"/api/v1/connections?cursor=0.0.0", "previous page"},
        {"/api/v1/names/%4", "two hexadecimal digits"},
        {"/api/v1/names/%", "two hexadecimal digits"},
        {"/api/v1/names/", "the path has no name"},
    };
    begin(1, TOKEN);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        expect_error("GET", rows[i].target, "", 400, rows[i].says);
    expect_error("POST", "/api/v1/loglevel", BEARER, 400, "which level?");
    expect_error("POST", "/api/v1/loglevel?level=loud", BEARER, 400,
                 "error, warning, info or debug");
    expect_error("POST", "/api/v1/reload?x=1", BEARER, 400, "no parameter");
    expect_error("POST", "/api/v1/connections/0.0.1/kill?x=1", BEARER, 400, "no parameter");
    /* Empty parts of a query are ignored. */
    json_decref(get_json("/api/v1/stats?"));
    json_decref(get_json("/api/v1/history?&seconds=5&&"));
    finish();
}
END_TEST

/* ---- the token ------------------------------------------------------------------------------- */

static void expect_refused(const char *headers, const char *says)
{
    char value[32];
    for (size_t i = 0; i < admin_route_count; i++) {
        char target[128];
        if (!admin_routes[i].changes)
            continue;
        target_of(&admin_routes[i], target, sizeof(target));
        struct http_reply r = http_ask(where, "POST", target, headers);
        ck_assert_msg(r.status == 401, "%s: %d", target, r.status);
        ck_assert_str_eq(reply_header(&r, "WWW-Authenticate", value, sizeof(value)), "Bearer");
        ck_assert_msg(strstr(r.body, says) != NULL, "%s", r.body);
        reply_free(&r);
    }
}

TEST(changes_need_the_token)
{
    begin(1, TOKEN);
    expect_refused("", "send");
    expect_refused("Authorization: Basic " TOKEN "\r\n", "send");
    expect_refused("Authorization: Bearer\r\n", "send");
    expect_refused("Authorization: Bearer \r\n", "send");
    expect_refused("Authorization: Bearer x\r\n", "not the token");
    expect_refused("Authorization: Bearer correct hors\r\n", "not the token");
    expect_refused("Authorization: Bearer correct horsf\r\n", "not the token");
    expect_refused("Authorization: Bearer correct horse2\r\n", "not the token");
    expect_refused("X-Authorization: Bearer " TOKEN "\r\n", "send");
    json_decref(ask_json("POST", "/api/v1/loglevel?level=info", BEARER, 200));
    json_decref(ask_json("POST", "/api/v1/loglevel?level=info",
                         "authorization: bearer   " TOKEN "\r\n", 200));
    admin_set_token(admin, digest_of("new"));
    expect_refused(BEARER, "not the token");
    json_decref(
        ask_json("POST", "/api/v1/loglevel?level=info", "Authorization: Bearer new\r\n", 200));
    admin_set_token(admin, "");
    expect_error("POST", "/api/v1/loglevel?level=info", "Authorization: Bearer \r\n", 403,
                 "admin.token");
    finish();
}
END_TEST

TEST(without_a_token_nothing_can_be_changed)
{
    begin(1, NULL);
    expect_error("POST", "/api/v1/loglevel?level=debug", "", 403, "admin.token");
    expect_error("POST", "/api/v1/loglevel?level=debug", "Authorization: Bearer x\r\n", 403,
                 "admin.token");
    json_t *json = get_json("/api/v1/loglevel");
    ck_assert_str_eq(text_at(json, "level"), "info");
    json_decref(json);
    finish();
}
END_TEST

/* ---- names ----------------------------------------------------------------------------------- */

/* ---- requests from other sites' pages -------------------------------------------------------- */

#define FETCH(site, mode, dest)                                                                    \
    "Sec-Fetch-Site: " site "\r\nSec-Fetch-Mode: " mode "\r\nSec-Fetch-Dest: " dest "\r\n"

static int status_of(const char *method, const char *target, const char *headers)
{
    struct http_reply r = http_ask(where, method, target, headers);
    int status = r.status;
    reply_free(&r);
    return status;
}

TEST(requests_for_pages_of_other_sites_are_refused)
{
    static const char *const theirs[] = {
        FETCH("cross-site", "cors", "empty"),
        FETCH("cross-site", "no-cors", "image"),
        FETCH("same-site", "cors", "empty"),
        FETCH("same-site", "no-cors", "script"),
        FETCH("cross-site", "navigate", "iframe"),
        FETCH("Cross-Site", "NAVIGATE", "IFRAME"),
        FETCH("something-new", "cors", "empty"),
        "Sec-Fetch-Site:\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n",
    };
    begin(1, "secret");
    for (size_t i = 0; i < ARRAY_SIZE(theirs); i++) {
        expect_error("GET", "/", theirs[i], 403, "page of another site");
        expect_error("GET", "/api/v1/names", theirs[i], 403, "page of another site");
        expect_error("GET", "/nothing", theirs[i], 403, "page of another site");
    }
    for (size_t i = 0; i < admin_route_count; i++) {
        const struct admin_route *route = &admin_routes[i];
        const char *method = route->method == HTTP_POST ? "POST" : "GET";
        ck_assert_int_eq(
            status_of(method, route->path,
                      FETCH("cross-site", "cors", "empty") "Authorization: Bearer secret\r\n"),
            403);
    }
    finish();
}
END_TEST

TEST(a_link_of_another_site_leads_to_the_page_and_no_further)
{
    static const char link[] = FETCH("cross-site", "navigate", "document");
    begin(1, "secret");
    ck_assert_int_eq(status_of("GET", "/", link), 200);
    ck_assert_int_eq(status_of("GET", "/?name=k", link), 200);
    ck_assert_int_eq(status_of("GET", "/", FETCH("same-site", "navigate", "document")), 200);
    ck_assert_int_eq(status_of("POST", "/", link), 403);
    ck_assert_int_eq(status_of("GET", "/metrics", link), 403);
    ck_assert_int_eq(status_of("GET", "/api/v1/names", link), 403);
    ck_assert_int_eq(status_of("POST", "/api/v1/reload", link), 403);
    finish();
}
END_TEST

TEST(requests_of_the_page_itself_and_of_people_are_served)
{
    static const char *const ours[] = {
        "",
        FETCH("same-origin", "cors", "empty"),
        FETCH("same-origin", "no-cors", "script"),
        FETCH("none", "navigate", "document"),
    };
    begin(1, "secret");
    for (size_t i = 0; i < ARRAY_SIZE(ours); i++) {
        ck_assert_int_eq(status_of("GET", "/", ours[i]), 200);
        ck_assert_int_eq(status_of("GET", "/page.js", ours[i]), 200);
        ck_assert_int_eq(status_of("GET", "/api/v1/stats", ours[i]), 200);
        ck_assert_int_eq(status_of("POST", "/api/v1/loglevel?level=info", ours[i]), 401);
    }
    finish();
}
END_TEST

/* The status of a GET with this Host header (NULL: none). An error must name the option to set. */
static int status_for(const char *target, const char *host)
{
    char request[256];
    int len = snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\n%s%s%s\r\n", target,
                       host ? "Host: " : "", host ? host : "", host ? "\r\n" : "");
    struct http_reply r = http_say(where, request, (size_t)len);
    ck_assert_msg(r.status == 200 || strstr(r.body, "admin.hosts"), "%s", r.body);
    int status = r.status;
    reply_free(&r);
    return status;
}

TEST(other_names_than_this_servers_are_refused)
{
    char machine[256] = "";
    ck_assert(gethostname(machine, sizeof(machine) - 1) == 0);
    begin(1, NULL);
    ck_assert_int_eq(status_for("/metrics", NULL), 200);
    ck_assert_int_eq(status_for("/metrics", where), 200);
    ck_assert_int_eq(status_for("/metrics", "[::1]:7532"), 200);
    ck_assert_int_eq(status_for("/metrics", machine), 200);
    for (size_t i = 0; i < admin_route_count; i++)
        ck_assert_int_eq(status_for(admin_routes[i].path, "evil.example:7532"), 421);
    ck_assert_int_eq(status_for("/nothing", "evil.example"), 421);
    ck_assert_int_eq(status_for("/metrics", ""), 421);
    admin_set_hosts(admin, "a.example, b.example");
    ck_assert_int_eq(status_for("/metrics", "b.example:7532"), 200);
    ck_assert_int_eq(status_for("/metrics", "evil.example"), 421);
    admin_set_hosts(admin, "*");
    ck_assert_int_eq(status_for("/metrics", "evil.example"), 200);
    admin_set_hosts(admin, NULL);
    ck_assert_int_eq(status_for("/metrics", "b.example"), 421);
    finish();
}
END_TEST

/* ---- settings -------------------------------------------------------------------------------- */

TEST(options_are_listed)
{
    begin(1, NULL);
    json_t *json = get_shaped("/api/v1/config",
                              "{'options':[{'key':'','value':'','default':'','unit':'','help':'',"
                              "'reloadable':true,'is_default':true}]}");
    ck_assert_uint_eq(json_array_size(at(json, "options")), 2);
    ck_assert_str_eq(text_at(json, "options.0.key"), "counter.port");
    ck_assert_str_eq(text_at(json, "options.0.value"), "1");
    ck_assert_str_eq(text_at(json, "options.0.default"), "11215");
    ck_assert(json_is_false(at(json, "options.0.reloadable")));
    ck_assert(json_is_true(at(json, "options.1.is_default")));
    ck_assert_str_eq(text_at(json, "options.1.help"), "Lea\\xff\\\\st.");
    json_decref(json);
    finish();
}
END_TEST

TEST(reload_tells_what_came_of_it)
{
    begin(1, TOKEN);
    json_t *json = ask_json("POST", "/api/v1/reload", BEARER, 200);
    ck_assert(json_is_true(at(json, "reloaded")));
    ck_assert_uint_eq(json_array_size(at(json, "report")), 2);
    ck_assert_str_eq(text_at(json, "report.0"), "one line");
    ck_assert_str_eq(text_at(json, "report.1"), "two \\xff lines");
    json_decref(json);
    atomic_store(&outcome, ADMIN_REFUSED);
    json = ask_json("POST", "/api/v1/reload", BEARER, 409);
    ck_assert_int_eq((int)number_at(json, "error.status"), 409);
    ck_assert(strstr(text_at(json, "error.reason"), "nothing was changed") != NULL);
    ck_assert_str_eq(text_at(json, "report.0"), "one line");
    json_decref(json);
    atomic_store(&outcome, ADMIN_AWAY);
    expect_error("POST", "/api/v1/reload", BEARER, 503, "one line");
    expect_error("POST", "/api/v1/upgrade", BEARER, 503, "counterd is ending");
    finish();
}
END_TEST

TEST(the_last_reload_is_told_of_without_its_report)
{
    begin(1, TOKEN);
    json_t *json = ask_json("GET", "/api/v1/reload", "", 200);
    ck_assert_int_eq((int)number_at(json, "tried"), 0);
    ck_assert(json_is_null(at(json, "at")));
    json_decref(json);
    admin_pause(admin);
    hooked_reloads = (struct admin_reloads){.tried = 2, .at_ns = clock_mono_ns()};
    admin_resume(admin);
    json = ask_json("GET", "/api/v1/reload", "", 200);
    ck_assert_int_eq((int)number_at(json, "tried"), 2);
    ck_assert(json_is_false(at(json, "good")));
    ck_assert(json_real_value(at(json, "at")) > 1e9);
    ck_assert_uint_eq(json_object_size(json), 3);
    json_decref(json);
    expect_error("GET", "/api/v1/reload?x=1", "", 400, "x");
    finish();
}
END_TEST

TEST(upgrade_is_asked_for_and_told_of)
{
    begin(1, TOKEN);
    json_t *json = ask_json("GET", "/api/v1/upgrade", "", 200);
    ck_assert(json_is_false(at(json, "running")));
    ck_assert(json_is_null(at(json, "pause_seconds")));
    ck_assert_str_eq(text_at(json, "version"), "0.1.0");
    json_decref(json);
    json = ask_json("POST", "/api/v1/upgrade", BEARER, 202);
    ck_assert(json_is_true(at(json, "running")));
    json_decref(json);
    admin_pause(admin);
    hooked_upgrades = (struct admin_upgrades){
        .tried = 3, .done = 2, .pause_ns = 250 * NS_PER_MS, .report = "no\nfor a reason\n"};
    admin_resume(admin);
    json = ask_json("GET", "/api/v1/upgrade", "", 200);
    ck_assert_int_eq((int)number_at(json, "tried"), 3);
    ck_assert_int_eq((int)number_at(json, "done"), 2);
    ck_assert(json_is_false(at(json, "good")));
    ck_assert(json_real_value(at(json, "pause_seconds")) == 0.25);
    ck_assert_str_eq(text_at(json, "report.1"), "for a reason");
    json_decref(json);
    expect_error("POST", "/api/v1/upgrade", "", 401, "token");
    finish();
}
END_TEST

TEST(log_level_is_told_and_set)
{
    static const char *const levels[] = {"error", "warning", "info", "debug"};
    begin(1, TOKEN);
    log_set_level(LOG_LEVEL_INFO);
    for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
        char target[64];
        snprintf(target, sizeof(target), "/api/v1/loglevel?level=%s", levels[i]);
        json_t *json = ask_json("POST", target, BEARER, 200);
        ck_assert_str_eq(text_at(json, "level"), levels[i]);
        json_decref(json);
        ck_assert_uint_eq(log_level_now(), i);
        json = get_shaped("/api/v1/loglevel", "{'level':''}");
        ck_assert_str_eq(text_at(json, "level"), levels[i]);
        json_decref(json);
    }
    log_set_level(LOG_LEVEL_ERROR);
    finish();
}
END_TEST

/* ---- stats and history ----------------------------------------------------------------------- */

#define SHORT                                                                                      \
    "'count':1,'p50_seconds':['?',0.1],'p90_seconds':['?',0.1],'p99_seconds':['?',0.1],'max_"      \
    "seconds':['?',0.1]"
#define DURATION "{" SHORT ",'sum_seconds':0.1}"

#define STATS                                                                                      \
    "{'version':'0.1.0','now':0.5,'started':0.5,'uptime_seconds':0.5,'threads':2,"                 \
    "'memory':{'used_bytes':1,'limit_bytes':1,'resident_bytes':1},"                                \
    "'names':3,'units':5,'holdings':4,'waiting':2,"                                                \
    "'protocols':[{'name':'','enabled':true,'listeners':[''],"                                     \
    "'connections':{'open':1,'made':1,'max':0,'accept_errors':0,'send_errors':0,"                  \
    "'closed':{'peer':1,'reset':0,'vanished':0,'error':0,'protocol':0,'request_timeout':0,"        \
    "'write_timeout':0,'memory':0,'shutdown':0,'refused':0,'killed':0,'denied':0,"                 \
    "'per_source':0,'handshake':0,'upgrade':0,'unfinished':0,'records':0}},"                       \
    "'bytes':{'received':1,'sent':2},"                                                             \
    "'requests':[{'verb':'','outcome':'','count':7}],'refused':6,'waiting':2,"                     \
    "'waits':{'granted':" DURATION ",'done':" DURATION ",'timed_out':" DURATION                    \
    ",'cancelled':" DURATION "},'holds':" DURATION ",'answers':" DURATION "}],"                    \
    "'workers':[{'worker':0,'connections':5,'busy_seconds':1.5,'cpu_seconds':1.5}],"               \
    "'recent':{'window_seconds':60.5,'requests_per_second':1.5,'granted_per_second':1.5,"          \
    "'refused_per_second':1.5,'timed_out_per_second':1.5,'waits':{" SHORT "},'holds':{" SHORT      \
    "},'answers':{" SHORT "}},"                                                                    \
    "'resources':{'pools':{'pools':0,'members':0,'held':0,'waiting':0},"                           \
    "'tubes':{'tubes':1,'ready':0,'delayed':0,'reserved':0,'buried':0,'abandoned':0,"              \
    "'urgent':0,'waiting':0,'puts':0,'timeouts':0,'memory_bytes':1,'memory_limit_bytes':1,'"       \
    "draining':false},"                                                                            \
    "'job store':{'enabled':true,'stopped':'','failing':true,'commits':0,'failures':0,"            \
    "'damages':0,'file_bytes':0,'log_bytes':0},"                                                   \
    "'cluster':{'enabled':true,'state':'','grace':true,'asks':0,'waits':0,'calls':0,'ops':0,"      \
    "'closed':0}}}"

TEST(stats_are_as_agreed_and_true)
{
    begin(2, NULL);
    json_t *json = get_shaped("/api/v1/stats", STATS);
    ck_assert_int_eq((int)number_at(json, "names"), 0);
    ck_assert_uint_eq(json_array_size(at(json, "protocols.0.requests")), 0);
    ck_assert(json_is_null(at(json, "protocols.0.waits.granted.p50_seconds")));
    json_decref(json);
    int a = text_connect(), b = text_connect(), c = text_connect();
    text_say(a, "ACQ4ME k 1 9 0", "LOCKED");
    text_say(a, "ACQ4ME l 1 9 0", "LOCKED");
    text_say(b, "ACQ4ME k 1 9 0", "TIMEOUT");
    text_say(b, "ACQ4ME k 1 9 1000", NULL);
    text_say(c, "ACQ4ANY k 1 9 0.01", "TIMEOUT");
    text_say(a, "RELEASE l", "RELEASED");
    json = get_shaped("/api/v1/stats", STATS);
    ck_assert_str_eq(text_at(json, "version"), "0.1.0");
    ck_assert_int_eq((int)number_at(json, "threads"), 2);
    ck_assert_int_eq((int)number_at(json, "names"), 1);
    ck_assert_int_eq((int)number_at(json, "units"), 1);
    ck_assert_int_eq((int)number_at(json, "holdings"), 2);
    ck_assert_int_eq((int)number_at(json, "waiting"), 1);
    ck_assert_double_gt(number_at(json, "memory.used_bytes"), 0);
    ck_assert_double_eq(number_at(json, "memory.limit_bytes"), 1 << 30);
    ck_assert_double_gt(number_at(json, "memory.resident_bytes"), 100000);
    ck_assert_double_lt(fabs(number_at(json, "now") - (double)time(NULL)), 60);
    ck_assert_double_eq_tol(number_at(json, "now") - number_at(json, "started"),
                            number_at(json, "uptime_seconds"), 0.5);
    ck_assert_str_eq(text_at(json, "protocols.0.name"), "poolcounter");
    ck_assert_str_eq(text_at(json, "protocols.1.name"), "counter");
    ck_assert_str_eq(text_at(json, "protocols.0.listeners.0"), listeners[0].where);
    ck_assert_str_eq(text_at(json, "protocols.1.listeners.0"), listeners[1].where);
    ck_assert(json_is_true(at(json, "protocols.0.enabled")));
    ck_assert_int_eq((int)number_at(json, "protocols.0.connections.open"), 3);
    ck_assert_int_eq((int)number_at(json, "protocols.0.connections.made"), 3);
    ck_assert_int_eq((int)number_at(json, "protocols.1.connections.made"), 0);
    ck_assert_double_gt(number_at(json, "protocols.0.bytes.received"), 80);
    ck_assert_double_gt(number_at(json, "protocols.0.bytes.sent"), 30);
    ck_assert_int_eq((int)number_at(json, "protocols.0.waiting"), 1);
    ck_assert_int_eq((int)number_at(json, "protocols.0.waits.timed_out.count"), 1);
    ck_assert_double_ge(number_at(json, "protocols.0.waits.timed_out.sum_seconds"), 0.01);
    double longest = number_at(json, "protocols.0.waits.timed_out.max_seconds");
    ck_assert_double_eq(longest, number_at(json, "protocols.0.waits.timed_out.sum_seconds"));
    ck_assert_double_eq_tol(number_at(json, "protocols.0.waits.timed_out.p50_seconds"), longest,
                            0.05 * longest);
    ck_assert_double_le(number_at(json, "protocols.0.waits.timed_out.p99_seconds"), longest);
    ck_assert_int_eq((int)number_at(json, "protocols.0.waits.granted.count"), 0);
    ck_assert_int_eq((int)number_at(json, "protocols.0.holds.count"), 1);
    ck_assert_double_gt(number_at(json, "protocols.0.answers.count"), 3);
    ck_assert_double_eq(
        number_at(json, "workers.0.connections") + number_at(json, "workers.1.connections"), 3);
    ck_assert_double_gt(number_at(json, "workers.0.cpu_seconds"), 0);
    size_t i;
    json_t *row;
    int locked = 0;
    json_array_foreach(at(json, "protocols.0.requests"), i, row)
    {
        if (strcmp(text_at(row, "verb"), "ACQ4ME") == 0 &&
            strcmp(text_at(row, "outcome"), "LOCKED") == 0)
            locked = (int)number_at(row, "count");
    }
    ck_assert_int_eq(locked, 2);
    json_decref(json);
    close(a);
    close(b);
    close(c);
    finish();
}
END_TEST

#define SERIES "[['?',1.5]]"
#define HISTORY                                                                                    \
    "{'interval_seconds':1,'end':0.5,'seconds':300,'series':{'requests':" SERIES                   \
    ",'granted':" SERIES ",'refused':" SERIES ",'timed_out':" SERIES ",'waiting':" SERIES          \
    ",'units':" SERIES ",'names':" SERIES ",'connections':" SERIES ",'wait_p50_seconds':" SERIES   \
    ",'wait_p99_seconds':" SERIES ",'wait_max_seconds':" SERIES ",'busy':" SERIES "}}"

/* The sum of a series; unknown values count as 0. */
static double sum_of(const json_t *json, const char *series)
{
    double sum = 0;
    size_t i;
    json_t *value;
    json_array_foreach(at(at(json, "series"), series), i, value) sum += json_number_value(value);
    return sum;
}

TEST(stats_have_sums_of_centuries)
{
    begin(1, NULL);
    struct service *service = services_protocol(services, "poolcounter")->service;
    for (int i = 0; i < 4; i++)
        histogram_add(&service_counts_of(service, 0)->holds, INT64_MAX, 1);
    json_t *json = get_json("/api/v1/stats");
    ck_assert_double_eq_tol(number_at(json, "protocols.0.holds.sum_seconds"), 36893488147.4, 0.1);
    json_decref(json);
    finish();
}
END_TEST

/* Waits that time out, and requests for members or jobs that find none, are not refused. */
TEST(refused_is_one_number)
{
    begin(1, NULL);
    allow_pools();
    int a = text_connect(), b = text_connect();
    text_say(a, "ACQ4ME k 1 9 0", "LOCKED");
    text_say(b, "ACQ4ME k 1 9 0", "TIMEOUT");
    text_say(b, "ACQ4ANY k 1 9", "TIMEOUT");
    text_say(b, "ACQ4ME k 1 1 0.01", "QUEUE_FULL");
    text_say(b, "ACQ4ME k 1 9 0.01", "TIMEOUT");
    text_say(a, "POOL ADD db", "OK");
    text_say(b, "TAKE db 0.01 for=clean", "TIMEOUT");
    text_say(b, "TAKE db", "TIMEOUT");
    json_t *json = get_json("/api/v1/stats");
    ck_assert_int_eq((int)number_at(json, "protocols.0.refused"), 3);
    ck_assert_int_eq((int)number_at(json, "protocols.1.refused"), 0);
    json_decref(json);
    json = get_json("/api/v1/contended?by=refused");
    double of_name = number_at(json, "names.0.refused_per_second"); /* 3 ln(2) / 60 s */
    ck_assert_double_eq_tol(of_name, 3 * 0.01155, 0.25 * 0.01155);
    json_decref(json);
    struct http_reply r = http_ask(where, "GET", "/metrics", "");
    ck_assert_ptr_nonnull(strstr(r.body, "\ncounterd_refused_total{protocol=\"poolcounter\"} 3\n"));
    ck_assert_ptr_nonnull(strstr(r.body, "\ncounterd_refused_total{protocol=\"counter\"} 0\n"));
    reply_free(&r);
    struct totals totals;
    totals_take(&totals, services, clock_now());
    ck_assert(totals.refused == 3 && totals.timed_out == 1 && totals.granted == 1);
    close(a);
    close(b);
    finish();
}
END_TEST

TEST(history_has_what_happened_second_by_second)
{
    begin(1, NULL);
    int a = text_connect(), b = text_connect();
    text_say(a, "ACQ4ME k 1 9 0", "LOCKED");
    for (int i = 0; i < 5; i++)
        text_say(b, "ACQ4ME k 1 9 0", "TIMEOUT");
    text_say(b, "ACQ4ME k 1 1 0", "QUEUE_FULL");
    text_say(b, "ACQ4ME k 1 9 0.01", "TIMEOUT");
    json_t *json = NULL;
    COME_TRUE((json_decref(json), json = get_shaped("/api/v1/history", HISTORY),
               sum_of(json, "requests") > 0.5));
    ck_assert_uint_eq(json_array_size(at(json, "series.requests")), 300);
    ck_assert(json_is_null(at(json, "series.requests.0")));
    ck_assert_double_lt(fabs(number_at(json, "end") - (double)time(NULL)), 60);
    json_decref(json);
    json = NULL;
    /* In total: 8 requests, 1 granted, 6 refused at once, 1 wait that timed out. */
    COME_TRUE((json_decref(json), json = get_json("/api/v1/history?seconds=600"),
               sum_of(json, "timed_out") > 0.5));
    ck_assert_uint_eq(json_array_size(at(json, "series.busy")), 600);
    ck_assert_double_eq_tol(sum_of(json, "refused"), 6,
                            1.5); /* rates over slightly less than a second */
    ck_assert_double_eq_tol(sum_of(json, "granted"), 1, 0.5);
    ck_assert_double_eq_tol(sum_of(json, "timed_out"), 1, 0.5);
    ck_assert_double_eq(number_at(json, "series.units.599"), 1);
    ck_assert_double_eq(number_at(json, "series.names.599"), 1);
    ck_assert_double_eq(number_at(json, "series.connections.599"), 2);
    json_decref(json);
    json = get_json("/api/v1/history?seconds=1");
    ck_assert_uint_eq(json_array_size(at(json, "series.names")), 1);
    json_decref(json);
    json = get_json("/api/v1/stats");
    ck_assert_double_gt(number_at(json, "recent.window_seconds"), 0.5);
    ck_assert_double_gt(number_at(json, "recent.refused_per_second"), 0);
    ck_assert_int_eq((int)number_at(json, "recent.waits.count"), 1);
    double longest = number_at(json, "recent.waits.max_seconds");
    ck_assert_double_ge(longest, 0.01);
    ck_assert_double_eq(longest, number_at(json, "protocols.0.waits.timed_out.max_seconds"));
    ck_assert_double_eq_tol(number_at(json, "recent.waits.p50_seconds"), longest, 0.05 * longest);
    ck_assert_double_le(number_at(json, "recent.waits.p99_seconds"), longest);
    json_decref(json);
    close(a);
    close(b);
    finish();
}
END_TEST

/* ---- names ----------------------------------------------------------------------------------- */

#define NAMES                                                                                      \
    "{'names':[{'name':'','id':'','in_use':2,'peak':3,'limit':2,'waiting':5,'holders':2}],"        \
    "'cursor':['?',''],'examined':1234}"

TEST(names_of_any_bytes_are_listed_and_found)
{
    static const struct {
        const char *name;
        size_t len;
        const char *text, *id;
    } rows[] = {
        {"plain", 5, "plain", "plain"},
        {"a/b", 3, "a/b", "a%2Fb"},
        {"\0", 1, "\\x00", "%00"},
        {"a\0b", 3, "a\\x00b", "a%00b"},
        {"\xff\xfe", 2, "\\xff\\xfe", "%FF%FE"},
        {"\xc3\xa9", 2, "é", "%C3%A9"},
        {"\\xff", 4, "\\\\xff", "%5Cxff"},
        {"\"&?#% +", 7, "\"&?#% +", "%22%26%3F%23%25%20%2B"},
        {"..", 2, "..", ".."},
    };
    begin(1, NULL);
    holder_init(&strangers[0], STRANGER(0), 0);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        take(&strangers[0], (uint32_t)i + 1, 100, rows[i].name, rows[i].len);
    json_t *json = get_shaped("/api/v1/names", NAMES);
    ck_assert_uint_eq(json_array_size(at(json, "names")), ARRAY_SIZE(rows));
    ck_assert(json_is_null(at(json, "cursor")));
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        size_t k, found = 0;
        json_t *one;
        json_array_foreach(at(json, "names"), k, one)
        {
            if (strcmp(text_at(one, "name"), rows[i].text) != 0)
                continue;
            found++;
            ck_assert_str_eq(text_at(one, "id"), rows[i].id);
            ck_assert_uint_eq((size_t)number_at(one, "in_use"), i + 1);
        }
        ck_assert_msg(found == 1, "%s", rows[i].text);
        char target[128];
        snprintf(target, sizeof(target), "/api/v1/names/%s", rows[i].id);
        one = get_json(target);
        ck_assert_str_eq(text_at(one, "name"), rows[i].text);
        ck_assert_str_eq(text_at(one, "id"), rows[i].id);
        ck_assert_uint_eq((size_t)number_at(one, "in_use"), i + 1);
        json_decref(one);
    }
    json_decref(json);
    json = get_json("/api/v1/names?prefix=a%00");
    ck_assert_uint_eq(json_array_size(at(json, "names")), 1);
    ck_assert_int_eq((int)number_at(json, "examined"), ARRAY_SIZE(rows));
    json_decref(json);
    expect_error("GET", "/api/v1/names/plai", "", 404, "no such name");
    expect_error("GET", "/api/v1/names/plain%00", "", 404, "no such name");
    strangers_leave();
    finish();
}
END_TEST

/* Walks all pages; counts each name. */
static unsigned walk_pages(const char *parameters, unsigned *seen, unsigned names)
{
    char cursor[64] = "", target[256];
    unsigned pages = 0;
    do {
        snprintf(target, sizeof(target), "/api/v1/names?%s%s%s", parameters,
                 *cursor ? "&cursor=" : "", cursor);
        json_t *json = get_json(target), *one;
        size_t i;
        json_array_foreach(at(json, "names"), i, one)
        {
            unsigned number = (unsigned)atoi(text_at(one, "name") + 1);
            ck_assert_uint_lt(number, names);
            seen[number]++;
        }
        snprintf(cursor, sizeof(cursor), "%s",
                 json_is_null(at(json, "cursor")) ? "" : text_at(json, "cursor"));
        json_decref(json);
        pages++;
    } while (*cursor);
    return pages;
}

TEST(pages_have_every_name_once)
{
    enum { MANY = 5000 };
    begin(1, NULL);
    holder_init(&strangers[0], STRANGER(0), 0);
    for (unsigned i = 0; i < MANY; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%c%u", i % 10 ? 'n' : 'm', i);
        take(&strangers[0], 1, 1, name, strlen(name));
    }
    static const char *const parameters[] = {"limit=1000", "limit=7", "limit=100&prefix=m", ""};
    for (size_t p = 0; p < ARRAY_SIZE(parameters); p++) {
        unsigned *seen = calloc(MANY, sizeof(*seen));
        unsigned pages = walk_pages(parameters[p], seen, MANY);
        for (unsigned i = 0; i < MANY; i++)
            ck_assert_uint_eq(seen[i], p != 2 || i % 10 == 0);
        ck_assert_uint_ge(pages, p == 0 ? 5 : p == 1 ? MANY / 7 : p == 2 ? 5 : 50);
        free(seen);
    }
    strangers_leave();
    finish();
}
END_TEST

TEST(sorted_lists_have_the_highest_or_first)
{
    enum { MANY = 3000 };
    begin(1, NULL);
    struct rng rng = rng_start("names", 7);
    uint32_t units[MANY];
    holder_init(&strangers[0], STRANGER(0), 0);
    for (unsigned i = 0; i < MANY; i++) {
        char name[16];
        units[i] = 1 + rng_below(&rng, 500);
        snprintf(name, sizeof(name), "n%04u", i);
        take(&strangers[0], units[i], 1000, name, strlen(name));
    }
    static const struct {
        const char *target;
        size_t count;
    } rows[] = {
        {"/api/v1/names?sort=in_use", 100},           {"/api/v1/names?sort=in_use&limit=1", 1},
        {"/api/v1/names?sort=peak&limit=1000", 1000}, {"/api/v1/names?sort=name&limit=10", 10},
        {"/api/v1/names?sort=waiting&limit=10", 10},  {"/api/v1/names?sort=in_use&prefix=n001", 10},
    };
    for (size_t r = 0; r < ARRAY_SIZE(rows); r++) {
        json_t *json = get_shaped(rows[r].target, NAMES), *one;
        json_t *list = at(json, "names");
        ck_assert_uint_eq(json_array_size(list), rows[r].count);
        ck_assert(json_is_null(at(json, "cursor")));
        ck_assert_int_eq((int)number_at(json, "examined"), MANY);
        bool by_units = strstr(rows[r].target, "in_use") || strstr(rows[r].target, "peak");
        size_t i, better = 0;
        json_array_foreach(list, i, one)
        {
            const json_t *before = i ? json_array_get(list, i - 1) : NULL;
            unsigned number = (unsigned)atoi(text_at(one, "name") + 1);
            ck_assert_uint_eq((uint32_t)number_at(one, "in_use"), units[number]);
            if (!before)
                continue;
            double a = number_at(before, "in_use"), b = number_at(one, "in_use");
            ck_assert(by_units ? a >= b : true);
            if (!by_units || a == b)
                ck_assert(strcmp(text_at(before, "name"), text_at(one, "name")) < 0);
        }
        double least = number_at(json_array_get(list, rows[r].count - 1), "in_use");
        for (i = 0; i < MANY; i++)
            better += units[i] > least;
        if (by_units && !strstr(rows[r].target, "prefix"))
            ck_assert_uint_lt(better, rows[r].count); /* no row with more units was left out */
        if (!by_units)
            ck_assert_str_eq(text_at(list, "9.name"), "n0009");
        json_decref(json);
    }
    strangers_leave();
    finish();
}
END_TEST

/* 600 names of 60,000 bytes; each byte takes 4 as text and 3 in the id. */
TEST(long_names_are_listed_fewer_at_a_time)
{
    enum { MANY = 100, LEN = 60000 };
    begin(1, NULL);
    char *name = malloc(LEN);
    holder_init(&strangers[0], STRANGER(0), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        memset(name, 0xff, LEN);
        memcpy(name, &i, sizeof(i));
        take(&strangers[0], i + 1, 1000, name, LEN);
    }
    char target[128] = "/api/v1/names?limit=1000";
    unsigned found = 0, pages = 0;
    for (; *target; pages++) {
        struct http_reply r = http_ask(where, "GET", target, "");
        ck_assert_int_eq(r.status, 200);
        ck_assert_uint_lt(r.len, 4u << 20);
        json_t *json = json_loadb(r.body, r.len, 0, NULL);
        ck_assert(json != NULL);
        found += (unsigned)json_array_size(at(json, "names"));
        *target = '\0';
        if (!json_is_null(at(json, "cursor")))
            snprintf(target, sizeof(target), "/api/v1/names?limit=1000&cursor=%s",
                     text_at(json, "cursor"));
        json_decref(json);
        reply_free(&r);
    }
    ck_assert_uint_eq(found, MANY);
    ck_assert_uint_ge(pages, MANY / 2);
    json_t *json = get_json("/api/v1/names?sort=in_use&limit=1000");
    size_t count = json_array_size(at(json, "names"));
    ck_assert(count >= 1 && count <= 3);
    ck_assert_int_eq((int)number_at(json, "names.0.in_use"), MANY);
    json_decref(json);
    free(name);
    strangers_leave();
    finish();
}
END_TEST

/* ---- one name -------------------------------------------------------------------------------- */

#define CLIENT "'connection':'','protocol':'','client':'','transport':'','since':0.5,"
#define NAME                                                                                       \
    "{'name':'','id':'','in_use':2,'peak':3,'limit':2,'waiting':5,'holders_total':2,"              \
    "'holders':[{" CLIENT "'held_seconds':0.5,'units':1,'limit':2}],"                              \
    "'waiters':[{" CLIENT "'waited_seconds':0.5,'units':1,'limit':2,'kind':''}]}"

TEST(holders_and_waiters_of_a_name_are_named)
{
    begin(2, NULL);
    int fds[6];
    json_t *json = NULL;
    for (int i = 0; i < 6; i++) {
        fds[i] = text_connect();
        text_say(fds[i], i % 2 ? "ACQ4ANY k 3 99 1000" : "ACQ4ME k 3 99 1000",
                 i < 3 ? "LOCKED" : NULL);
        if (i >= 3)
            COME_TRUE((json_decref(json), json = get_json("/api/v1/names/k"),
                       number_at(json, "waiting") == i - 2));
    }
    json_decref(json);
    json = get_shaped("/api/v1/names/k", NAME);
    ck_assert_int_eq((int)number_at(json, "in_use"), 3);
    ck_assert_int_eq((int)number_at(json, "peak"), 3);
    ck_assert_int_eq((int)number_at(json, "limit"), 3);
    ck_assert_int_eq((int)number_at(json, "waiting"), 3);
    ck_assert_int_eq((int)number_at(json, "holders_total"), 3);
    ck_assert_uint_eq(json_array_size(at(json, "holders")), 3);
    ck_assert_uint_eq(json_array_size(at(json, "waiters")), 3);
    double before = 0;
    for (int i = 0; i < 6; i++) {
        char path[32], client[32];
        struct sockaddr_in sa;
        socklen_t len = sizeof(sa);
        ck_assert(getsockname(fds[i], (struct sockaddr *)&sa, &len) == 0);
        snprintf(client, sizeof(client), "127.0.0.1:%u", ntohs(sa.sin_port));
        snprintf(path, sizeof(path), i < 3 ? "holders.%d" : "waiters.%d", i % 3);
        const json_t *one = at(json, path);
        ck_assert_str_eq(text_at(one, "client"), client);
        ck_assert_str_eq(text_at(one, "protocol"), "poolcounter");
        ck_assert_str_eq(text_at(one, "transport"), "tcp");
        ck_assert_int_eq((int)number_at(one, "units"), 1);
        ck_assert_int_eq((int)number_at(one, "limit"), 3);
        ck_assert_double_lt(fabs(number_at(one, "since") - (double)time(NULL)), 60);
        ck_assert_double_ge(number_at(one, i < 3 ? "held_seconds" : "waited_seconds"), 0);
        if (i % 3 != 0)
            ck_assert_double_ge(number_at(one, "since"), before - 0.001);
        before = number_at(one, "since");
        if (i >= 3)
            ck_assert_str_eq(text_at(one, "kind"), i % 2 ? "any" : "me");
    }
    json_decref(json);
    for (int i = 0; i < 6; i++)
        close(fds[i]);
    finish();
}
END_TEST

/* Connects from 127.0.0.`host` and sends a line that is answered LOCKED. */
static int text_from(unsigned host, const char *line)
{
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK + host - 1)};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port =
                                 htons((uint16_t)atoi(strrchr(listeners[0].where, ':') + 1)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), at_connect = 1;
    /* Bind at connect: ports of connections that ended just now may still be taken. */
    ck_assert(
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &at_connect, sizeof(at_connect)) == 0);
    ck_assert(bind(fd, (struct sockaddr *)&from, sizeof(from)) == 0);
    ck_assert(connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    text_say(fd, line, "LOCKED");
    return fd;
}

static _Atomic bool over;

/* Clients from .1 hold k and leave; clients from .2, which do not hold it, get their places. */
static void *come_and_go(void *arg)
{
    (void)arg;
    while (!atomic_load(&over)) {
        close(text_from(1, "ACQ4ME k 99 999 0"));
        close(text_from(2, "ACQ4ME other 99 999 0"));
    }
    return NULL;
}

/* The ledger stores ids of holders; by the time of the look-up others may have these ids. */
TEST(who_does_not_hold_is_never_shown_as_a_holder)
{
    begin(1, NULL);
    pthread_t threads[2];
    stranger_takes(0, 1, 99, "k"); /* without a connection */
    for (int i = 0; i < 2; i++)
        ck_assert(pthread_create(&threads[i], NULL, come_and_go, NULL) == 0);
    unsigned shown = 0;
    for (int i = 0; i < 500; i++) {
        json_t *json = get_json("/api/v1/names/k"), *one;
        size_t k;
        json_array_foreach(at(json, "holders"), k, one)
        {
            const char *client = text_at(one, "client");
            ck_assert_msg(strncmp(client, "127.0.0.1:", 10) == 0, "%s holds nothing", client);
            shown++;
        }
        json_decref(json);
    }
    ck_assert_uint_gt(shown, 0);
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++)
        ck_assert(pthread_join(threads[i], NULL) == 0);
    strangers_leave();
    finish();
}
END_TEST

struct second {
    struct holder holder;
    uint32_t slot; /* of its connection */
};

static void open_second(struct worker *worker, void *arg)
{
    struct second *second = arg;
    struct conn *conn = worker_conn_at(worker, second->slot);
    CHECK(conn);
    holder_init(&second->holder, conn_id(conn) + CONN_ID_SECOND, conn_tag(conn));
}

/* Of the first connection both holders have units; of the second one its second, of the third one
 * its first. */
TEST(two_holders_of_a_connection_are_one)
{
    enum { CLIENTS = 3 };
    static const int units[CLIENTS] = {5, 7, 1};
    static const int limits[CLIENTS] = {50, 99, 50};
    static struct second seconds[CLIENTS];
    int fds[CLIENTS];
    double since = 0;
    begin(1, NULL);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        fds[i] = text_connect();
        text_say(fds[i], "RELEASE", "NOT_LOCKED");
        seconds[i].slot = i;
        worker_ask(server.workers[0], open_second, &seconds[i]);
    }
    take(&seconds[0].holder, 4, 99, "k", 1);
    text_say(fds[2], "RELEASE", "NOT_LOCKED"); /* some time passes */
    take(&seconds[1].holder, 7, 99, "k", 1);
    text_say(fds[0], "ACQ4ME k 50 999 0", "LOCKED");
    text_say(fds[2], "ACQ4ME k 50 999 0", "LOCKED");
    json_t *json = get_shaped("/api/v1/names/k", NAME);
    ck_assert_int_eq((int)number_at(json, "in_use"), 13);
    ck_assert_uint_eq(json_array_size(at(json, "holders")), CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        char path[32], client[32];
        struct sockaddr_in sa;
        socklen_t len = sizeof(sa);
        ck_assert(getsockname(fds[i], (struct sockaddr *)&sa, &len) == 0);
        snprintf(client, sizeof(client), "127.0.0.1:%u", ntohs(sa.sin_port));
        snprintf(path, sizeof(path), "holders.%d", i);
        const json_t *one = at(json, path);
        ck_assert_str_eq(text_at(one, "client"), client);
        ck_assert_int_eq((int)number_at(one, "units"), units[i]);
        ck_assert_int_eq((int)number_at(one, "limit"), limits[i]);
        ck_assert_double_ge(number_at(one, "since"), since);
        since = number_at(one, "since");
    }
    json_decref(json);
    for (int i = 0; i < CLIENTS; i++) {
        verdicts out;
        mail_list_init(&out);
        table_close(services->table, &seconds[i].holder, clock_now(), NULL, &out);
        close(fds[i]);
    }
    finish();
}
END_TEST

/* More holders than the page shows: some are connections, most are not. */
TEST(of_many_holders_the_oldest_are_shown)
{
    enum { CLIENTS = 300 };
    begin(2, NULL);
    int fds[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = text_connect();
        text_say(fds[i], "ACQ4ME k 9999 99999 0", "LOCKED");
    }
    json_t *json = get_shaped("/api/v1/names/k", NAME);
    ck_assert_uint_eq(json_array_size(at(json, "holders")), CLIENTS);
    double first = number_at(json, "holders.0.since");
    json_decref(json);
    for (unsigned i = 0; i < ARRAY_SIZE(strangers); i++)
        stranger_takes(i, 1, 9999, "k");
    json = get_json("/api/v1/names/k");
    ck_assert_int_eq((int)number_at(json, "holders_total"), CLIENTS + ARRAY_SIZE(strangers));
    ck_assert_uint_eq(json_array_size(at(json, "holders")), CLIENTS); /* the oldest of 3,300 */
    ck_assert_double_eq_tol(number_at(json, "holders.0.since"), first, 0.01);
    json_decref(json);
    strangers_leave();
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
    finish();
}
END_TEST

/* ---- contended ------------------------------------------------------------------------------- */

#define CONTENDED                                                                                  \
    "{'by':'','half_life_seconds':60,'bound':0.5,'names':[{'name':'','id':['?',''],"               \
    "'truncated':false,'exists':true,'in_use':2,'peak':3,'limit':2,'waiting':5,'holders':2,"       \
    "'waiting_load':0.5,'waiting_error':0.5,'refused_per_second':0.5,'refused_error':0.5}]}"

TEST(contended_names_are_listed)
{
    begin(1, NULL);
    int a = text_connect(), b = text_connect();
    text_say(a, "ACQ4ME busy 1 9 0", "LOCKED");
    for (int i = 0; i < 10; i++)
        text_say(b, "ACQ4ME busy 1 9 0", "TIMEOUT");
    char line[512], name[301];
    memset(name, 'l', sizeof(name));
    name[300] = '\0';
    snprintf(line, sizeof(line), "ACQ4ME %s 1 9 0", name);
    text_say(a, line, "LOCKED");
    text_say(b, line, "TIMEOUT");
    json_t *json = get_shaped("/api/v1/contended?by=refused", CONTENDED);
    ck_assert_str_eq(text_at(json, "by"), "refused");
    ck_assert_uint_eq(json_array_size(at(json, "names")), 2);
    ck_assert_str_eq(text_at(json, "names.0.name"), "busy");
    ck_assert_str_eq(text_at(json, "names.0.id"), "busy");
    ck_assert_double_gt(number_at(json, "names.0.refused_per_second"), 0);
    ck_assert_int_eq((int)number_at(json, "names.0.in_use"), 1);
    ck_assert_int_eq((int)number_at(json, "names.0.limit"), 1);
    ck_assert(json_is_true(at(json, "names.0.exists")));
    ck_assert(json_is_true(at(json, "names.1.truncated")));
    ck_assert(json_is_null(at(json, "names.1.id")));
    ck_assert_uint_eq(strlen(text_at(json, "names.1.name")), 255);
    json_decref(json);
    json = get_json("/api/v1/contended?by=refused&limit=1");
    ck_assert_uint_eq(json_array_size(at(json, "names")), 1);
    json_decref(json);
    text_say(b, "ACQ4ME busy 1 9 100", NULL);
    json = NULL;
    COME_TRUE((json_decref(json), json = get_shaped("/api/v1/contended", CONTENDED),
               json_array_size(at(json, "names")) == 1));
    ck_assert_str_eq(text_at(json, "by"), "waiting");
    ck_assert_int_eq((int)number_at(json, "names.0.waiting"), 1);
    json_decref(json);
    json = get_shaped("/api/v1/contended?by=peak", CONTENDED);
    ck_assert_uint_eq(json_array_size(at(json, "names")), 2);
    json_decref(json);
    close(a);
    close(b);
    finish();
}
END_TEST

/* ---- connections ----------------------------------------------------------------------------- */

#define CONNECTIONS                                                                                \
    "{'connections':[{'connection':'','protocol':'','client':'','transport':'','opened':0.5,"      \
    "'age_seconds':0.5,'queued_bytes':0,'holds':1,'waits':0}],'cursor':['?','']}"

TEST(connections_are_listed_page_by_page)
{
    enum { EACH = 300 };
    begin(2, NULL);
    int fds[2 * EACH];
    for (int i = 0; i < 2 * EACH; i++)
        fds[i] = http_connect(listeners[i % 2].where);
    COME_TRUE(atomic_load(&services_protocol(services, "counter")->connections_made) == EACH);
    COME_TRUE(atomic_load(&services_protocol(services, "poolcounter")->connections_made) == EACH);
    static const char *const parameters[] = {"limit=1000", "limit=7", "limit=250&protocol=counter",
                                             "protocol=poolcounter"};
    for (size_t p = 0; p < ARRAY_SIZE(parameters); p++) {
        char cursor[64] = "", target[128], *seen = calloc(1, 1);
        unsigned count = 0;
        do {
            snprintf(target, sizeof(target), "/api/v1/connections?%s%s%s", parameters[p],
                     *cursor ? "&cursor=" : "", cursor);
            json_t *json = get_shaped(target, CONNECTIONS), *one;
            size_t i;
            json_array_foreach(at(json, "connections"), i, one)
            {
                char tag[64];
                if (p == 2)
                    ck_assert_str_eq(text_at(one, "protocol"), "counter");
                snprintf(tag, sizeof(tag), " %s ", text_at(one, "connection"));
                ck_assert_msg(strstr(seen, tag) == NULL, "%s twice", tag);
                seen = realloc(seen, strlen(seen) + strlen(tag) + 1);
                strcat(seen, tag);
                count++;
            }
            snprintf(cursor, sizeof(cursor), "%s",
                     json_is_null(at(json, "cursor")) ? "" : text_at(json, "cursor"));
            json_decref(json);
        } while (*cursor);
        ck_assert_uint_eq(count, p < 2 ? 2 * EACH : EACH);
        free(seen);
    }
    for (int i = 0; i < 2 * EACH; i++)
        close(fds[i]);
    finish();
}
END_TEST

/* Names that are counted for a question to a worker, and the most so far. */
static _Atomic unsigned counted, counted_most;

uint32_t __real_holder_count(const struct table *t, const struct holder *holder, uint32_t max);
uint32_t __wrap_holder_count(const struct table *t, const struct holder *holder, uint32_t max);
uint32_t __wrap_holder_count(const struct table *t, const struct holder *holder, uint32_t max)
{
    uint32_t count = __real_holder_count(t, holder, max);
    atomic_fetch_add(&counted, count);
    if (atomic_load(&counted) > atomic_load(&counted_most))
        atomic_store(&counted_most, atomic_load(&counted));
    return count;
}

void __real_worker_ask(struct worker *worker, void (*fn)(struct worker *worker, void *arg),
                       void *arg);
void __wrap_worker_ask(struct worker *worker, void (*fn)(struct worker *worker, void *arg),
                       void *arg);
void __wrap_worker_ask(struct worker *worker, void (*fn)(struct worker *worker, void *arg),
                       void *arg)
{
    atomic_store(&counted, 0);
    __real_worker_ask(worker, fn, arg);
}

/* Takes a unit of a name. */
static void counter_take(int fd, const char *name)
{
    size_t len = strlen(name);
    uint8_t request[64] = {0x90, 2, [7] = (uint8_t)(10 + len), [15] = 1, [19] = 99}, reply[16];
    request[21] = (uint8_t)len;
    memcpy(request + 22, name, len);
    ck_assert(try_send(fd, request, 22 + len));
    for (size_t got = 0; got < sizeof(reply);)
        got += receive_some(fd, reply + got, sizeof(reply) - got);
    ck_assert_uint_eq(reply[2], 0);
}

TEST(names_of_connections_are_counted_some_at_a_time)
{
    enum { CLIENTS = 4, EACH = 1000, MOST = 2100 };
    begin(1, NULL);
    int fds[CLIENTS];
    for (unsigned i = 0; i < CLIENTS * EACH; i++) {
        char name[16];
        unsigned client = i / EACH;
        snprintf(name, sizeof(name), "%u", i);
        if (i % EACH == 0)
            fds[client] = http_connect(listeners[1].where);
        counter_take(fds[client], i % EACH ? name : "k");
    }
    json_t *json = get_shaped("/api/v1/connections", CONNECTIONS);
    ck_assert_uint_eq(json_array_size(at(json, "connections")), CLIENTS);
    ck_assert_int_eq((int)number_at(json, "connections.3.holds"), EACH);
    json_decref(json);
    ck_assert_uint_le(atomic_load(&counted_most), MOST);
    json = get_shaped("/api/v1/names/k", NAME);
    ck_assert_uint_eq(json_array_size(at(json, "holders")), CLIENTS);
    json_decref(json);
    ck_assert_uint_le(atomic_load(&counted_most), MOST);
    ck_assert_uint_ge(atomic_load(&counted_most), EACH);
    for (unsigned i = 0; i < CLIENTS; i++)
        close(fds[i]);
    finish();
}
END_TEST

TEST(connection_is_described)
{
    begin(1, NULL);
    int a = text_connect(), b = text_connect();
    text_say(a, "ACQ4ME k 1 9 0", "LOCKED");
    text_say(a, "ACQ4ME l 1 9 0", "LOCKED");
    text_say(b, "ACQ4ME m 1 9 0", "LOCKED");
    text_say(b, "ACQ4ME k 1 9 100", NULL);
    json_t *json = NULL, *one;
    COME_TRUE(
        (json_decref(json), json = get_shaped("/api/v1/connections", CONNECTIONS),
         number_at(json, "connections.0.waits") + number_at(json, "connections.1.waits") == 1));
    size_t i;
    json_array_foreach(at(json, "connections"), i, one)
    {
        ck_assert_int_eq((int)number_at(one, "holds"), 2); /* holds or waits for 2 */
        ck_assert_double_lt(fabs(number_at(one, "opened") - (double)time(NULL)), 60);
        ck_assert_double_lt(number_at(one, "age_seconds"), 60);
        ck_assert_int_eq((int)number_at(one, "queued_bytes"), 0);
    }
    json_decref(json);
    close(a);
    close(b);
    finish();
}
END_TEST

TEST(killed_connection_is_closed_and_gives_back_what_it_had)
{
    begin(2, TOKEN);
    int a = text_connect(), b = text_connect();
    text_say(a, "ACQ4ME k 1 9 0", "LOCKED");
    text_say(b, "ACQ4ME k 1 9 100", NULL);
    json_t *json = NULL;
    COME_TRUE((json_decref(json), json = get_json("/api/v1/names/k"),
               json_array_size(at(json, "waiters")) == 1));
    char target[128], tag[64];
    snprintf(tag, sizeof(tag), "%s", text_at(json, "holders.0.connection"));
    snprintf(target, sizeof(target), "/api/v1/connections/%s/kill", tag);
    json_decref(json);
    expect_error("POST", target, "", 401, "token");
    json = ask_json("POST", target, BEARER, 200);
    ck_assert_str_eq(text_at(json, "killed"), tag);
    ck_assert_uint_eq(json_object_size(json), 1);
    json_decref(json);
    char bytes[64] = {0};
    ck_assert_uint_eq(receive_some(a, bytes, 1), 0);
    ck_assert_uint_eq(receive_some(b, bytes, sizeof(bytes)), 7);
    ck_assert_str_eq(bytes, "LOCKED\n");
    expect_error("POST", target, BEARER, 404, tag);
    expect_error("POST", "/api/v1/connections/0.0.99999/kill", BEARER, 404, "no connection");
    expect_error("POST", "/api/v1/connections/9.0.1/kill", BEARER, 404, "no connection");
    expect_error("POST", "/api/v1/connections/0.16777213.1/kill", BEARER, 404, "no connection");
    static const char *const bad[] = {
        "x",      "0",       "0.0", "0.0.0.0",
        "0.0.-1", "%30.0.1", "",    "00000000000000000000000000000000000000000000.0.1"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        snprintf(target, sizeof(target), "/api/v1/connections/%s/kill", bad[i]);
        expect_error("POST", target, BEARER, 400, "names no connection");
    }
    json = get_json("/api/v1/stats");
    ck_assert_int_eq((int)number_at(json, "protocols.0.connections.closed.killed"), 1);
    json_decref(json);
    close(a);
    close(b);
    finish();
}
END_TEST

/* ---- no memory ------------------------------------------------------------------------------- */

static _Atomic int until_failure; /* allocations until one fails; below 0: none fails */

static void *failing_malloc(size_t size)
{
    return atomic_load(&until_failure) >= 0 && atomic_fetch_sub(&until_failure, 1) == 0
               ? NULL
               : malloc(size);
}

TEST(without_memory_an_answer_says_so)
{
    static const char *const targets[] = {"/api/v1/stats",
                                          "/api/v1/history?seconds=3",
                                          "/api/v1/contended?by=peak",
                                          "/api/v1/names",
                                          "/api/v1/names?sort=name",
                                          "/api/v1/names/k",
                                          "/api/v1/connections",
                                          "/api/v1/config",
                                          "/api/v1/loglevel"};
    atomic_store(&until_failure, -1);
    json_set_alloc_funcs(failing_malloc, free);
    begin(1, NULL);
    int a = text_connect(), b = text_connect();
    text_say(a, "ACQ4ME k 1 9 0", "LOCKED");
    text_say(b, "ACQ4ME k 1 9 100", NULL);
    for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
        int fine = 0;
        for (int n = 0; fine < 3; n += i == 0 ? 7 : 1) {
            atomic_store(&until_failure, n);
            struct http_reply r = http_ask(where, "GET", targets[i], "");
            atomic_store(&until_failure, -1);
            ck_assert_msg(r.status == 200 || r.status == 503, "%s: %d", targets[i], r.status);
            json_t *json = json_loadb(r.body, r.len, 0, NULL);
            ck_assert_msg(json != NULL, "%s: %s", targets[i], r.body);
            ck_assert((r.status == 503) == (json_object_get(json, "error") != NULL));
            fine += r.status == 200;
            json_decref(json);
            reply_free(&r);
            ck_assert_int_lt(n, 5000);
        }
    }
    close(a);
    close(b);
    finish();
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(health_and_readiness),
    UNIT(page_has_its_headers_and_is_not_sent_twice),
    UNIT(only_what_there_is_is_found),
    UNIT(other_methods_are_refused_and_told_which_there_are),
    UNIT(head_is_answered_as_get_without_the_body),
    UNIT(wrong_parameters_are_named_with_what_would_be_right),
    UNIT(changes_need_the_token),
    UNIT(without_a_token_nothing_can_be_changed),
    UNIT(other_names_than_this_servers_are_refused),
    UNIT(requests_for_pages_of_other_sites_are_refused),
    UNIT(a_link_of_another_site_leads_to_the_page_and_no_further),
    UNIT(requests_of_the_page_itself_and_of_people_are_served),
    UNIT(options_are_listed),
    UNIT(reload_tells_what_came_of_it),
    UNIT(the_last_reload_is_told_of_without_its_report),
    UNIT(upgrade_is_asked_for_and_told_of),
    UNIT(log_level_is_told_and_set),
    UNIT(stats_are_as_agreed_and_true),
    UNIT(stats_have_sums_of_centuries),
    UNIT(refused_is_one_number),
    UNIT(history_has_what_happened_second_by_second),
    UNIT(names_of_any_bytes_are_listed_and_found),
    UNIT(pages_have_every_name_once),
    UNIT(sorted_lists_have_the_highest_or_first),
    UNIT(long_names_are_listed_fewer_at_a_time),
    UNIT(holders_and_waiters_of_a_name_are_named),
    UNIT(who_does_not_hold_is_never_shown_as_a_holder),
    UNIT(two_holders_of_a_connection_are_one),
    UNIT(of_many_holders_the_oldest_are_shown),
    UNIT(contended_names_are_listed),
    UNIT(connections_are_listed_page_by_page),
    UNIT(names_of_connections_are_counted_some_at_a_time),
    UNIT(connection_is_described),
    UNIT(killed_connection_is_closed_and_gives_back_what_it_had),
    UNIT(without_memory_an_answer_says_so),
};

UNIT_MAIN("api", tests)
