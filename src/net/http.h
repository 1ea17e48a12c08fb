/*
 * http.h - a small HTTP server for operators, in its own thread: a thin wrapper around libevent's
 * evhttp.
 *
 * The library reads requests and writes answers. This wrapper adds limits that hold for all
 * clients:
 *
 * - connections: at most HTTP_CONNECTIONS_MAX at once. More clients wait in the kernel's backlog.
 *   While one waits, each connection ends with its answer, and the oldest one is closed if for
 *   HTTP_CROWDED_NS its client has sent no request or has not read its answer.
 * - time: a connection is closed when a request does not arrive completely within HTTP_PATIENCE_NS
 *   after the connection was made or the last answer was read, or when an answer is not read within
 *   that time.
 * - memory: a request may have HTTP_HEADERS_MAX and HTTP_BODY_MAX bytes, and little more than
 *   HTTP_INPUT_MAX bytes are read after it. The handler must limit the size of its answer.
 *
 * - pending answers: HTTP_PENDING_MAX at once, so half of the places stay free for other clients.
 *
 * A handler answers a request at once, in steps, or by message. Other requests are served between
 * the steps. With a message, another thread sends the answer, and the loop does nothing for the
 * request meanwhile. The body of every error is {"error":{"status":404,"reason":"..."}}, also when
 * evhttp itself refuses a request.
 *
 * Threads: http_new, http_prepare and http_free in one thread; handlers and all functions of a
 * request in the server's own thread, which has all signals blocked.
 */
#ifndef NET_HTTP_H
#define NET_HTTP_H

#include "base/check.h"
#include "base/clock.h"
#include "base/json_text.h"
#include "base/mail.h"
#include "net/listener.h"
#include "net/thread.h"

#include <stdbool.h>
#include <stddef.h>

#define HTTP_CONNECTIONS_MAX 64
#define HTTP_PENDING_MAX     (HTTP_CONNECTIONS_MAX / 2)
#define HTTP_HEADERS_MAX     8192 /* bytes, including the request line */
#define HTTP_BODY_MAX        4096
#define HTTP_INPUT_MAX       16384
#define HTTP_PATIENCE_NS     (10 * NS_PER_S)
#define HTTP_CROWDED_NS      (1 * NS_PER_S)
#define HTTP_REASON_SIZE     320

struct http;

/* A request, from its arrival until it is answered. */
struct http_request;

struct http_config {
    const struct listener *listeners; /* open; they outlive the server */
    size_t listener_count;
    const char *name;    /* the thread's name, at most 15 bytes */
    sandbox_fn *sandbox; /* called first in the thread, with thread_serves; NULL: none */

    /* Called for each request. It must answer with a function below, or call http_later or
     * http_pend. */
    void (*handle)(void *arg, struct http_request *request);
    /* Called about once a second; a running handler may delay it. NULL: never. */
    void (*every_second)(void *arg);
    void *arg;
};

/* Makes a server, which does not accept yet. Returns NULL on failure: reason_r (HTTP_REASON_SIZE
 * bytes) has the reason. */
struct http *http_new(const struct http_config *config, char *reason_r) MUST_USE;

/* Makes the thread, which sleeps. Returns false with errno. */
bool http_prepare(struct http *http) MUST_USE;
/* Has the sleeping thread run. */
void http_resume(struct http *http);

/*
 * Puts the thread to sleep, if it runs; connections stay as they are, and go on with http_resume.
 * Pending answers do not: their clients get a 503 that says so, and http_post takes no message
 * until http_resume. Not while a handler waits for the caller.
 */
void http_pause(struct http *http);

/* The limits above that clients meet. */
enum http_limit {
    HTTP_LIMIT_LATE, /* closed: a request or the reading of an answer took too long, or none came */
    HTTP_LIMIT_CROWDED, /* closed while all places were taken and another client waited */
    HTTP_LIMIT_PENDING, /* refused: so many answers were pending */
    HTTP_LIMIT_ANSWER,  /* refused: the answer did not come in time */
    HTTP_LIMITS
};
const char *http_limit_word(enum http_limit limit);
/* How often a limit was met, and the connections that are open. In the server's thread, or while it
 * sleeps. */
uint64_t http_met(const struct http *http, enum http_limit limit);
unsigned http_connections(const struct http *http);

/* Ends the thread if there is one, closes all connections, frees *http and sets it to NULL. */
void http_free(struct http **http);

/* ---- requests: in the server's thread -------------------------------------------------------- */

enum http_method { HTTP_GET, HTTP_HEAD, HTTP_POST, HTTP_OTHER };
enum http_method http_method(const struct http_request *request);

/* The path, and the query without '?' (NULL: none), as sent, with percent-encoding. */
const char *http_path(const struct http_request *request);
const char *http_query(const struct http_request *request);

/* The value of a request header; NULL when it is missing. */
const char *http_asked(const struct http_request *request, const char *name);

/* True when the client uses a unix socket. */
bool http_is_local(const struct http_request *request);

/* The client's address for the log: "127.0.0.1:4711". Valid until the request is answered. */
const char *http_peer(struct http_request *request);

/* Sets a header of the answer, replacing one with the same name. Call it before the answer. */
void http_set_header(struct http_request *request, const char *name, const char *value);

/*
 * Answers with `len` bytes at `body`, which came from malloc and will be freed; NULL: answers that
 * there is no memory. An answer to HEAD has the length, but no body. Unless set otherwise, an
 * answer has "Cache-Control: no-store" and "X-Content-Type-Options: nosniff".
 */
void http_answer(struct http_request *request, int status, const char *type, char *body,
                 size_t len);

/* The same with constant bytes, which must live as long as the server. */
void http_answer_static(struct http_request *request, int status, const char *type,
                        const void *body, size_t len);

/* The same with JSON: closes the object, which is open, and takes the text over. */
void http_answer_json(struct http_request *request, int status, struct json_text *json);

/* Answers with an error. In the reason, bytes that are not printable ASCII become \xNN; it is cut
 * to HTTP_REASON_SIZE bytes. */
void http_error(struct http_request *request, int status, const char *format, ...)
    PRINTF_LIKE(3, 4);

/*
 * Answers later, in steps: `step` is called once in each iteration of the server's loop until it
 * has answered. A step should take a millisecond at most. `end` is called once, in the server's
 * thread, and frees the job: after the step that answered, or when the client has gone (or has
 * closed its sending side), or when the server ends.
 */
void http_later(struct http_request *request, void (*step)(void *job, struct http_request *request),
                void (*end)(void *job), void *job);

/* ---- answers by message -------------------------------------------------------------------------
 *
 *     handler                        another thread               the server's thread again
 *     http_pend -> *pending  ......  http_post(&pending, message)  message->mail.deliver
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
 * Sends the message with the answer, frees *pending and nulls it. Any thread. True:
 * message->mail.deliver will run in the server's thread, exactly once, with the server as reader.
 * False: the server is paused or has ended; the message is the caller's, who undoes what it did.
 */
bool http_post(struct http_pending **pending, struct message *message) MUST_USE;

/*
 * In `deliver`, once: the request that message->to names. `deliver` answers it with one of the
 * functions above, at once or in steps, or makes it pending again. NULL: its client has gone, its
 * time is over or the server ended: `deliver` undoes what it brings.
 */
struct http_request *http_by_tag(struct http *http, uint64_t tag);

#endif
