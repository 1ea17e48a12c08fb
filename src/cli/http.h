/*
 * http.h - calls of the admin interface: HTTP with answers in JSON, on libcurl.
 *
 * A call is begun, goes on in the loop, which calls its on_done, and is freed. No proxy is used,
 * whatever the environment says, no redirection is followed, and answers are bounded. One thread.
 */
#ifndef CLI_HTTP_H
#define CLI_HTTP_H

#include "cli/loop.h"
#include "cli/options.h"
#include "cli/status.h"
#include "cli/text.h"

#include <jansson.h>

/* The longest answer that is taken. */
#define HTTP_ANSWER_MAX ((size_t)64 << 20)

#define HTTP_TOKEN_MAX 4096

struct http;

struct http_call {
    bool is_done;
    long code;           /* of HTTP, when an answer came; 0: none did */
    json_t *answer;      /* NULL: there is none, or it is no JSON */
    struct text failure; /* why there is none; or what the server says where the code is an error */
    /* http.c's own */
    void (*on_done)(void *owner);
    void *owner;
    void *easy; /* NULL: it is freed, or was never begun */
    void *headers;
    struct text body;
};

/*
 * Finds out where the admin interface is: --admin, $COUNTER_ADMIN, or the server's host. NULL: it
 * said what is wrong with that; exit with STATUS_USAGE.
 */
struct http *http_new(struct loop *loop, const struct options *options) MUST_USE;

/* NULL is fine. All calls are to be freed before. */
void http_free(struct http **http);

/* "host:port" of the interface, for messages. */
const char *http_where(const struct http *http);

/*
 * Has the calls to come carry the admin token of --token-file or $COUNTER_ADMIN_TOKEN, if there is
 * one. STATUS_OK also where there is none; STATUS_NO_INPUT, STATUS_USAGE: it said why.
 */
enum status http_read_token(struct http *http, const struct options *options) MUST_USE;

/* Begins a call of `path` ("/api/v1/stats"); `is_post`: with an empty body, else it is a GET.
   `call` is zero-initialised, or freed; on_done may free it. */
void http_begin(struct http *http, struct http_call *call, const char *path, bool is_post,
                void (*on_done)(void *owner), void *owner);

/* As a step: begins a call, and waits until it is done. */
void http_run(struct http *http, struct http_call *call, const char *path, bool is_post);

/* Ends a call, whatever its state, and frees what it has. */
void http_call_free(struct http *http, struct http_call *call);

/*
 * As a step: one call from begin to end. STATUS_OK: *answer_r is the JSON, which the caller gives
 * up. Else it said why; *answer_r is then NULL, or the answer of a refusal.
 */
enum status http_ask(struct http *http, const char *path, bool is_post, json_t **answer_r) MUST_USE;

/* The exit status of a call that is done; and says why where `complains`. */
enum status http_status(const struct http *http, const struct http_call *call, bool complains);

#endif
