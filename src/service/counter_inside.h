/*
 * counter_inside.h - what the binary protocol's service (counter.c) shares with the row that serves
 * when names are shared with other nodes (shared_counter.c).
 *
 * Threads: the thread of the connection's worker.
 */
#ifndef SERVICE_COUNTER_INSIDE_H
#define SERVICE_COUNTER_INSIDE_H

#include "proto/counter.h"
#include "service/service.h"

extern const struct service_row counter_row;

struct ctr_dump;

struct ctr_session {
    struct holder holder;
    struct ctr_dump *dump; /* NULL: no Dump in progress */
};

/* A parsed request. */
struct ctr_parsed_request {
    enum ctr_parsed parsed;
    struct ctr_request req;
    uint64_t hash; /* of its name; 0: not computed yet */
};

/* Answers a request: of it, these use the opcode and the opaque bytes. */
void counter_reply_status(struct conn *conn, const struct ctr_request *req, enum ctr_status status);
void counter_reply_number(struct conn *conn, const struct ctr_request *req, uint32_t number);

/* ---- shared_counter.c: for the row that serves when names are shared ---- */

enum served shared_counter_serve(struct conn *conn, const void *request);
void shared_counter_close(struct conn *conn);
void shared_counter_save(struct conn *conn, struct record_writer *w);
bool shared_counter_restore(struct conn *conn, struct record_reader *r);
void shared_counter_fit(struct service *service);
extern const struct shared_host shared_counter_host;

#endif
