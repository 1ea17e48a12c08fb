/*
 * http.h - a small HTTP server for operators, in a thread of its own: a thin wrapper of libevent's.
 *
 * The library reads requests and writes answers; what it leaves open is bounded here, whatever
 * clients do:
 *
 * - connections: HTTP_CONNECTIONS_MAX at once. Further clients wait in the kernel's queue, and
 *   while any does, those that have asked for nothing, or have not taken their answer, for
 *   HTTP_CROWDED_NS make room, the oldest first.
 * - time: a whole request arrives HTTP_PATIENCE_NS after the connection was made or the last answer
 *   was taken, and an answer is taken in as long, or the connection is closed.
 * - memory: HTTP_HEADERS_MAX and HTTP_BODY_MAX bytes of a request are read, and little more than
 *   HTTP_INPUT_MAX of those behind it. An answer's size is its handler's to bound.
 *
 * - pending answers: HTTP_PENDING_MAX at once, so that half of the places stay for other clients.
 *
 * A handler answers a request at once, in steps between which others are served, or by letter: then
 * another thread sends the answer, and the request takes no iteration of the loop meanwhile. Every
 * error's body is {"error":{"status":404,"reason":"..."}}, also of those that the library finds
 * itself.
 *
 * Threads: http_new, http_start and http_free in one thread; the handlers, and all that is about a
 * request, in the server's own, whose signals are all blocked.
 */
#ifndef NET_HTTP_H
#define NET_HTTP_H

#include "base/check.h"
#include "base/clock.h"
#include "base/json_text.h"
#include "base/mail.h"
#include "net/thread.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define HTTP_CONNECTIONS_MAX 64
#define HTTP_PENDING_MAX     (HTTP_CONNECTIONS_MAX / 2)
#define HTTP_HEADERS_MAX     8192 /* bytes, with the request line */
#define HTTP_BODY_MAX        4096
#define HTTP_INPUT_MAX       16384
#define HTTP_PATIENCE_NS     (10 * NS_PER_S)
#define HTTP_CROWDED_NS      (1 * NS_PER_S)
#define HTTP_REASON_SIZE     320

struct http;

/* One request, from its arrival until it is answered. */
struct http_request;

struct http_config {
    const struct sockaddr_storage *addresses; /* to listen on, ports included; 0: any */
    const socklen_t *address_lens;
    size_t address_count;
    const int *fds;              /* inherited listening sockets, taken over */
    const char *const *fd_asked; /* what http_door is to answer for each; NULL: "" for all */
    size_t fd_count;
    const char *name;    /* of the thread: at most 15 bytes */
    confine_fn *confine; /* the thread calls it first, for thread_serves; NULL: nothing */

    /* A request has come: answer it with one of the functions below, http_later or http_pend. */
    void (*handle)(void *arg, struct http_request *request);
    /* Called about once a second, at the latest after the handler that then runs; NULL: never. */
    void (*every_second)(void *arg);
    void *arg;
};

/*
 * Listens, on `fds` first; nobody is accepted yet. Of several addresses, those of IPv6 are left
 * out, with a warning, where the machine has none. NULL: reason_r (HTTP_REASON_SIZE bytes) says
 * why, and `config->fds` are closed.
 */
struct http *http_new(const struct http_config *config, char *reason_r) MUST_USE;

/* On how many addresses it listens, and the text of one: "127.0.0.1:7532". */
size_t http_listeners(const struct http *http);
const char *http_where(const struct http *http, size_t i);

/* Its descriptor, and where it was to listen (struct listener). */
int http_door(const struct http *http, size_t i, const char **asked_r);

/* Starts the thread. False: errno. */
bool http_start(struct http *http) MUST_USE;

/*
 * Ends the thread, if it runs; connections stay as they are, and go on when it is started again.
 * Pending answers do not: their clients get a 503 that says so, and http_post takes no letter until
 * http_start. Not while a handler waits for the caller.
 */
void http_pause(struct http *http);

/* Ends the thread, if it runs, closes all connections and frees *http; nulls it. */
void http_free(struct http **http);

/* ---- requests: in the server's thread ---------------------------------------------------------
 */

enum http_method { HTTP_GET, HTTP_HEAD, HTTP_POST, HTTP_OTHER };
enum http_method http_method(const struct http_request *request);

/* The path and the query (without '?'; NULL: there is none) as sent, percent-encodings and all. */
const char *http_path(const struct http_request *request);
const char *http_query(const struct http_request *request);

/* A header of the request; NULL: it has none of that name. */
const char *http_asked(const struct http_request *request, const char *name);

/* Whether it came over a unix socket. */
bool http_is_local(const struct http_request *request);

/* The client's address, for the log: "127.0.0.1:4711". Valid until the request is answered. */
const char *http_peer(struct http_request *request);

/* Sets a header of the answer, in place of one of that name. Before it is answered. */
void http_set_header(struct http_request *request, const char *name, const char *value);

/*
 * Answers with `len` bytes at `body`, which came from malloc and is taken over; NULL: there was no
 * memory for it, which is answered instead. Of HEAD, only the length is told. Unless set otherwise,
 * an answer has "Cache-Control: no-store" and "X-Content-Type-Options: nosniff".
 */
void http_answer(struct http_request *request, int status, const char *type, char *body,
                 size_t len);

/* The same with bytes that stay where they are as long as the server. */
void http_answer_static(struct http_request *request, int status, const char *type,
                        const void *body, size_t len);

/* The same with JSON, whose text is taken over, and a line end behind it. */
void http_answer_json(struct http_request *request, int status, struct json_text *json);

/*
 * Answers with an error. Bytes of the reason that are not printable ASCII are written as \xNN; it
 * is cut after HTTP_REASON_SIZE bytes.
 */
void http_error(struct http_request *request, int status, const char *format, ...)
    PRINTF_LIKE(3, 4);

/*
 * Answers later: from now on `step` is called once in each turn of the server's loop, until it has
 * answered. It should take about a millisecond at most. `end` is called once, in the server's
 * thread: after the step that answered, or when the client has gone (one that sends no more is
 * taken to have), or when the server ends; it frees the job.
 */
void http_later(struct http_request *request, void (*step)(void *job, struct http_request *request),
                void (*end)(void *job), void *job);

/* ---- answers by letter -------------------------------------------------------------------------
 *
 *     handler                        another thread               the server's thread again
 *     http_pend -> *pending  ......  http_post(&pending, letter)  letter->mail.deliver
 *                                                                   http_by_tag -> request: answer
 *                                                                   NULL: undo
 *
 * While an answer is pending its request costs nothing but a look at its client once a second: a
 * client that has gone (one that sends no more counts as gone) is dropped then, and one whose time
 * is over gets a 504. A drain does not wait for pending answers; a resource that wants it to counts
 * them in `held`.
 */

/* An answer that is pending. Its owner passes it to http_post exactly once, also when the server
 * has ended before: it may live longer than the server. */
struct http_pending;

/*
 * In a handler: makes the answer pending, for at most `limit_ns` (at least 1 s; a second more may
 * pass). NULL: there is no memory, too many are pending or the server ends, and the request has
 * been answered with a 503.
 */
struct http_pending *http_pend(struct http_request *request, int64_t limit_ns) MUST_USE;

/*
 * Sends the letter with the answer, frees *pending and nulls it. Any thread. True:
 * letter->mail.deliver will run in the server's thread, exactly once, with the server as reader.
 * False: the server is paused or has ended; the letter is the caller's, who undoes what it did.
 */
bool http_post(struct http_pending **pending, struct letter *letter) MUST_USE;

/*
 * In `deliver`, once: the request that letter->to names. `deliver` answers it with one of the
 * functions above, at once or in steps, or makes it pending again. NULL: its client has gone, its
 * time is over or the server ended: `deliver` undoes what it brings.
 */
struct http_request *http_by_tag(struct http *http, uint64_t tag);

#endif
