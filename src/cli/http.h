/*
 * http.h - calls to the admin interface: HTTP with JSON answers, on libcurl.
 *
 * http_begin starts a call, the event loop continues it and calls its on_done, http_call_free frees
 * it. Calls use no proxy, whatever the environment says, follow no redirection, and bound the
 * answer. One thread.
 */
#ifndef CLI_HTTP_H
#define CLI_HTTP_H

#include "cli/loop.h"
#include "cli/status.h"
#include "cli/text.h"

#include <jansson.h>

/* The longest answer accepted, in bytes, and the longest head. As JSON in memory it may be fifty
   times as long. */
#define HTTP_ANSWER_MAX ((size_t)8 << 20)
#define HTTP_HEAD_MAX   ((size_t)64 << 10)

#define HTTP_TOKEN_MAX 4096

struct http;

struct http_call {
    bool is_done;
    long code;           /* HTTP status; 0: no answer came */
    json_t *answer;      /* NULL: no answer, or not JSON */
    struct text failure; /* why there is no answer, or the server's error text */
    /* private to http.c */
    void (*on_done)(void *owner);
    void *owner;
    struct http *http;
    struct timer due; /* of the answer; set when the request goes out */
    void *easy;       /* NULL: freed or never begun */
    void *headers;
    struct text body;
    size_t head;            /* bytes of it so far */
    bool is_post, is_again; /* is_again: it was made a second time */
};

struct invocation;

/*
 * The admin interface of a command: --admin, $COUNTER_ADMIN, or at the server's host. It is made by
 * the first call, and freed with the invocation. NULL after printing what is wrong with the
 * address; exit with STATUS_USAGE then.
 */
struct http *http_of(struct invocation *invocation);

/* Frees *http, which may be NULL. The caller frees all calls first. */
void http_free(struct http **http);

/* "host:port" of the interface, for messages. */
const char *http_where(const struct http *http);

/* Starts a call of `path` ("/api/v1/stats"): a GET, or a POST with an empty body. The options'
   timeouts bound connecting, and the answer. `call` must be zero-initialised or freed; on_done may
   free it. */
void http_begin(struct http *http, struct http_call *call, const char *path, bool is_post,
                void (*on_done)(void *owner), void *owner);

/* Step: starts a call and waits until it is done. */
void http_run(struct http *http, struct http_call *call, const char *path, bool is_post);

/* Ends a call in any state, and frees its memory. */
void http_call_free(struct http_call *call);

/*
 * Step: makes one call and frees it; with `is_post` a POST with an empty body, and with the admin
 * token of --token-file or $COUNTER_ADMIN_TOKEN, if there is one. STATUS_OK: the caller owns the
 * JSON in *answer_r. Other statuses: it printed why; *answer_r is NULL or the answer of a refusal.
 */
enum status http_ask(struct invocation *invocation, const char *path, bool is_post,
                     json_t **answer_r) MUST_USE;

/* Step: makes a call as http_ask does, and frees `path`. With --json prints the answer, whatever it
   is; else `print` prints a good one. */
enum status http_show(struct invocation *invocation, struct text *path, bool is_post,
                      void (*print)(const json_t *answer));

/* The exit status of a finished call. With `complains` it prints the error. */
enum status http_status(const struct http_call *call, bool complains);

#endif
