/*
 * fixture.h - a whole daemon without its main: workers, both services, listeners for them and for
 * the admin on free ports, and hooks that tests can set.
 */
#ifndef FIXTURE_H
#define FIXTURE_H

#include "admin/admin.h"
#include "admin/token.h"
#include "base/log.h"
#include "net/listener.h"
#include "t/unit/http_client.h"
#include "t/unit/serving.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#define TOKEN  "correct horse"
#define BEARER "Authorization: Bearer " TOKEN "\r\n"

static struct server server;
static struct services *services;
static struct listener listeners[2];
static struct listener admin_listener; /* the admin's */
static struct acceptor *acceptors[4];
static struct admin *admin;
static const char *where; /* the admin's address */

static _Atomic bool is_ready;

static inline bool hook_ready(void *arg)
{
    CHECK(arg == &server);
    return atomic_load(&is_ready);
}

static inline void hook_config(void *arg, void (*emit)(void *to, const struct admin_option *option),
                               void *to)
{
    CHECK(arg == &server);
    emit(to, &(struct admin_option){"counter.port", "1", "11215", "", "Its port.", false, false});
    emit(to, &(struct admin_option){"log.level", "info", "info", "", "Lea\xff\\st.", true, true});
}

static inline enum admin_outcome hook_reload(void *arg, char *report_r, size_t size)
{
    CHECK(arg == &server);
    snprintf(report_r, size, "done\n");
    return ADMIN_DONE;
}

static inline void hook_reloads(void *arg, struct admin_reloads *reloads_r)
{
    CHECK(arg == &server);
    *reloads_r = (struct admin_reloads){0};
}

static inline bool hook_upgrade(void *arg)
{
    CHECK(arg == &server);
    return false;
}

static inline void hook_upgrades(void *arg, struct admin_upgrades *upgrades_r)
{
    CHECK(arg == &server);
    *upgrades_r = (struct admin_upgrades){0};
}

static inline void open_listener(struct listener *l, const char *name)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert(listener_open(l, name ? services_protocol(services, name) : NULL,
                            (struct sockaddr *)&sa, sizeof(sa), false));
}

static inline const char *digest_of(const char *token)
{
    static char digest[TOKEN_DIGEST_SIZE];
    ck_assert(token_digest(token, strlen(token), digest));
    return digest;
}

static inline void begin(unsigned workers, const char *token)
{
    struct snapshot_config snapshot = {.limits = {.output_buffer = 1u << 20,
                                                  .request_timeout_ns = 100 * NS_PER_S,
                                                  .write_timeout_ns = 100 * NS_PER_S,
                                                  .handshake_timeout_ns = 10 * NS_PER_S}};
    struct serving_config config = {.table = {.buckets = 1000,
                                              .memory_limit = (size_t)1 << 30,
                                              .stats_interval_s = 86400,
                                              .hash_key = {1, 2}},
                                    .poolcounter_max_locks = 4,
                                    .poolcounter_max_line = 8192};
    services = serving_make(&server, workers, &snapshot, &config);
    open_listener(&listeners[0], "poolcounter");
    open_listener(&listeners[1], "counter");
    for (unsigned i = 0; i < workers; i++) {
        acceptors[i] = acceptor_new(server.workers[i], listeners, 2);
        ck_assert(acceptors[i] != NULL && worker_prepare(server.workers[i]));
        reactor_resume(worker_reactor(server.workers[i]));
    }
    open_listener(&admin_listener, NULL);
    struct admin_config admin_config = {
        .own = &admin_listener,
        .own_count = 1,
        .token = token ? digest_of(token) : NULL,
        .services = services,
        .server = &server,
        .listeners = listeners,
        .listener_count = 2,
        .hooks = {.arg = &server,
                  .ready = hook_ready,
                  .config = hook_config,
                  .reload = hook_reload,
                  .reloads = hook_reloads,
                  .upgrade = hook_upgrade,
                  .upgrades = hook_upgrades},
        .version = "0.1.0",
    };
    char reason[ADMIN_REASON_SIZE];
    atomic_store(&is_ready, true);
    admin = admin_new(&admin_config, reason);
    ck_assert_msg(admin != NULL, "%s", reason);
    ck_assert(admin_prepare(admin));
    admin_resume(admin);
    where = admin_listener.where;
}

static inline void finish(void)
{
    admin_free(&admin);
    listener_close(&admin_listener);
    ck_assert(admin == NULL);
    for (unsigned i = 0; i < server.count; i++)
        worker_stop(server.workers[i]);
    for (unsigned i = 0; i < server.count; i++)
        reactor_join(worker_reactor(server.workers[i]));
    for (unsigned i = 0; i < server.count; i++)
        worker_drain(server.workers[i]);
    for (unsigned i = 0; i < server.count; i++)
        acceptor_free(&acceptors[i]);
    listener_close(&listeners[0]);
    listener_close(&listeners[1]);
    serving_free(&server, &services);
}

/* ---- clients of the text protocol ------------------------------------------------------------ */

static inline int text_connect(void)
{
    return http_connect(listeners[0].where);
}

/* Sends a line and expects this answer; NULL: reads none. */
static inline void text_say(int fd, const char *line, const char *expected)
{
    http_send(fd, line);
    http_send(fd, "\n");
    char got[256] = {0};
    for (size_t len = 0; expected && (len == 0 || got[len - 1] != '\n'); len++) {
        ck_assert_uint_lt(len, sizeof(got) - 1);
        ck_assert_msg(receive_some(fd, got + len, 1) == 1, "closed after %s", line);
    }
    if (expected) {
        got[strcspn(got, "\n")] = '\0';
        ck_assert_str_eq(got, expected);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Sends a request, checks the status and returns the JSON of the answer. */
static inline json_t *ask_json(const char *method, const char *target, const char *headers,
                               int status)
{
    struct http_reply r = http_ask(where, method, target, headers);
    char type[64];
    json_error_t error;
    ck_assert_msg(r.status == status, "%s: %d %s", target, r.status, r.body);
    ck_assert_str_eq(reply_header(&r, "Content-Type", type, sizeof(type)), "application/json");
    ck_assert_str_eq(reply_header(&r, "Cache-Control", type, sizeof(type)), "no-store");
    json_t *json = json_loadb(r.body, r.len, 0, &error);
    ck_assert_msg(json != NULL, "%s: %s: %s", target, error.text, r.body);
    ck_assert_msg(r.body[r.len - 1] == '\n', "%s", target);
    reply_free(&r);
    return json;
}

static inline json_t *get_json(const char *target)
{
    return ask_json("GET", target, "", 200);
}

/* Checks that a request fails with this status and a reason that contains `says`. */
static inline void expect_error(const char *method, const char *target, const char *headers,
                                int status, const char *says)
{
    json_t *json = ask_json(method, target, headers, status);
    json_t *error = json_object_get(json, "error");
    ck_assert_int_eq(json_integer_value(json_object_get(error, "status")), status);
    const char *reason = json_string_value(json_object_get(error, "reason"));
    ck_assert_msg(reason && strstr(reason, says), "%s: %s", target, reason);
    json_decref(json);
}

/* The value at a path like "a.b.0.c" in `json`. */
static inline json_t *at(const json_t *json, const char *path)
{
    char copy[256];
    snprintf(copy, sizeof(copy), "%s", path);
    char *rest = copy, *key;
    while ((key = strsep(&rest, ".")) != NULL) {
        json = json_is_array(json) ? json_array_get(json, strtoul(key, NULL, 10))
                                   : json_object_get(json, key);
        ck_assert_msg(json != NULL, "no %s in %s", key, path);
    }
    return (json_t *)(uintptr_t)json;
}

static inline const char *text_at(const json_t *json, const char *path)
{
    const char *text = json_string_value(at(json, path));
    ck_assert_msg(text != NULL, "%s", path);
    return text;
}

static inline double number_at(const json_t *json, const char *path)
{
    ck_assert_msg(json_is_number(at(json, path)), "%s", path);
    return json_number_value(at(json, path));
}

#endif
