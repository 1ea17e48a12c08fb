/*
 * asked.h - requests that the thread of a resource answers: a letter there and back for each.
 *
 * A protocol that has them names the resource in its row (`asks`), and what is done with a request
 * there (`asked`) and with the answer here (`answer`). Its session begins with struct asks, and the
 * functions of its row, `open`, `close`, `save` and `restore`, are or call those of this file. So
 * an upgrade carries each pending request with its connection: in the new process it is asked
 * again. The old thread was parked (resource.h), so a request that it had begun was answered.
 *
 * Threads: the thread of the connection's worker, but for asked_answer.
 */
#ifndef SERVICE_ASKED_H
#define SERVICE_ASKED_H

#include "base/bytes.h"
#include "service/service.h"

/* A request on its way: the resource's, until it calls asked_answer or, at its end, frees it. */
struct asked {
    struct letter letter; /* first; to the resource, and back to the connection */
    const struct service_row *row;
    struct asked *next; /* of the connection's; its worker's */
    uint32_t number;    /* of the pending answer */
    uint32_t len;
    char request[];
};

/* The pending requests of a connection, oldest first. */
struct asks {
    struct asked *first;
};

/* Of a row, `serve`, or called by it: copies a request, a struct bytes, and sends it to the
 * resource. The next request need not wait. Without memory the connection is closed. */
enum served asks_serve(struct conn *conn, const void *request);

/* Sends a request back to its connection: the row's `answer` is called, unless the client has gone,
 * and then it is freed. In the thread of the resource `from`. */
void asked_answer(const struct resource *from, struct asked *asked);

/* For a resource that keeps requests in a list, by their letters: takes the first one (NULL: there
 * is none), and frees all, at the end. */
struct asked *asked_take(struct mail_list *list);
void asked_free_all(struct mail_list *list);

/* Of a row: `open` and `close`. What is pending when a connection ends is freed when it returns. */
void asks_open(struct conn *conn);
void asks_close(struct conn *conn);

/* Of a row: `save` and `restore`. u32 how many; of each u32 its place among the pending answers,
 * bytes request. (The other answers have come, and net keeps them.) */
void asks_save(struct conn *conn, struct record_writer *w);
bool asks_restore(struct conn *conn, struct record_reader *r);

#endif
