/*
 * asked.h - requests that the thread of a resource answers: a letter there and back for each.
 *
 * The row of such a protocol (struct service_row) names the resource (`asks`), the function that
 * takes each request there (`asked`), and the function that replies (`answer`). The session begins
 * with struct asks; `open`, `close`, `save` and `restore` of the row are the functions of this
 * file, or call them.
 *
 * An upgrade saves each request that is not answered yet with its connection, and the new process
 * asks again. So a resource that changes something long before it answers must complete that when
 * it is parked (`park` in resource.h), or bear to be asked twice.
 *
 * Threads: the thread of the connection's worker, except where another is said.
 */
#ifndef SERVICE_ASKED_H
#define SERVICE_ASKED_H

#include "base/bytes.h"
#include "service/service.h"

/* A request. It belongs to the resource until that calls asked_answer or, at its end, frees it. */
struct asked {
    struct letter letter; /* first; to the resource, and back to the connection */
    const struct service_row *row;
    struct asked *next; /* in the connection's list, which the worker alone uses */
    uint32_t number;    /* of the pending answer */
    uint32_t len;
    char request[];
};

/* The pending requests of a connection, oldest first. */
struct asks {
    struct asked *first;
};

/* `serve` of a row whose requests are struct bytes: copies the request and sends it to the
 * resource. The next request may start before the answer. Without memory it closes the connection.
 */
enum served asks_serve(struct conn *conn, const void *request);

/* Sends a request back to its connection, where `answer` is called unless the client has gone; then
 * the request is freed. In the thread of `from`, the resource. */
void asked_answer(const struct resource *from, struct asked *asked);

/* For a resource that keeps the letters of requests in a list: takes the first request (NULL: there
 * is none); frees all, when the resource ends. In the thread that owns the list. */
struct asked *asked_take(struct mail_list *list);
void asked_free_all(struct mail_list *list);

/* `open` and `close` of a row. A request whose connection has closed is freed when it comes back.
 */
void asks_open(struct conn *conn);
void asks_close(struct conn *conn);

/*
 * `save` and `restore` of a row. u32 number of requests; of each u32 its place among the pending
 * answers, bytes request. An answer that is complete and waits for those before it has none.
 */
void asks_save(struct conn *conn, struct record_writer *w);
bool asks_restore(struct conn *conn, struct record_reader *r);

#endif
