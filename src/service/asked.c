/* asked.c - see asked.h. */
#include "service/asked.h"

#include "base/record.h"

#include <stdlib.h>

/* A request has come. In the resource's thread. */
static void on_asked(struct mail *mail, void *reactor)
{
    struct asked *asked = container_of(mail, struct asked, letter.mail);
    asked->row->asked(container_of(reactor, struct resource, thread), asked);
}

/* Takes a request out of its connection's list. */
static void take_out(struct asks *asks, const struct asked *asked)
{
    struct asked **at = &asks->first;
    while (*at != asked)
        at = &(*at)->next;
    *at = asked->next;
}

/* A request has come back. In the worker's thread. */
static void on_answered(struct mail *mail, void *worker)
{
    struct asked *asked = container_of(mail, struct asked, letter.mail);
    struct conn *conn = conn_by_tag(worker, asked->letter.to);
    if (conn) {
        take_out(conn_session(conn), asked);
        conn_answer(conn, asked->number);
        asked->row->answer(conn, asked);
        conn_answered(conn);
    }
    free(asked);
}

void asked_answer(const struct resource *from, struct asked *asked)
{
    asked->letter.mail.deliver = on_answered;
    conn_post(from->services->server, &asked->letter);
}

struct asked *asked_take(struct mail_list *list)
{
    struct mail *mail = mail_list_take(list);
    return mail ? container_of(mail, struct asked, letter.mail) : NULL;
}

void asked_free_all(struct mail_list *list)
{
    for (struct asked *asked; (asked = asked_take(list)) != NULL;)
        free(asked);
}

/* Sends the request whose pending answer has that number. Returns false without memory. */
static bool ask(struct conn *conn, uint32_t number, struct bytes request)
{
    const struct service *service = service_of(conn);
    struct resource *to = services_resource(service->services, service->row->asks);
    struct asks *asks = conn_session(conn);
    struct asked **at = &asks->first;
    struct asked *asked = malloc(sizeof(*asked) + request.len);
    if (!asked)
        return false;
    *asked = (struct asked){
        .letter = {.mail.deliver = on_asked, .to = conn_tag(conn)},
        .row = service->row,
        .number = number,
        .len = (uint32_t)request.len,
    };
    memcpy(asked->request, request.data, request.len);
    while (*at)
        at = &(*at)->next;
    *at = asked;
    reactor_post(&to->thread, &asked->letter.mail);
    return true;
}

enum served asks_serve(struct conn *conn, const void *request)
{
    const struct bytes *bytes = request;
    uint32_t number;
    if (conn_pend(conn, &number) && ask(conn, number, *bytes))
        return SERVED_PENDING_NEXT;
    conn_close(conn, CLOSE_MEMORY);
    return SERVED_LAST;
}

void asks_open(struct conn *conn)
{
    (void)conn; /* a session begins as zeroes */
}

void asks_close(struct conn *conn)
{
    struct asks *asks = conn_session(conn);
    asks->first = NULL; /* each is freed when it comes back */
}

void asks_save(struct conn *conn, struct record_writer *w)
{
    const struct asks *asks = conn_session(conn);
    uint32_t count = 0;
    for (const struct asked *a = asks->first; a; a = a->next)
        count++;
    record_put_u32(w, count);
    for (const struct asked *a = asks->first; a; a = a->next) {
        record_put_u32(w, a->number - asks->first->number); /* the oldest answer has not come */
        record_put_bytes(w, a->request, a->len);
    }
}

bool asks_restore(struct conn *conn, struct record_reader *r)
{
    uint32_t count = record_get_u32(r), next = 0;
    for (uint32_t i = 0; i < count && record_ok(r); i++) {
        const void *request;
        uint32_t number = record_get_u32(r);
        size_t len = record_get_bytes(r, &request);
        if (number < next || number >= conn_pending(conn) || (i == 0 && number > 0))
            record_refuse(r, "a pending request has no place");
        else if (record_ok(r) && !ask(conn, number, bytes_at(request, len)))
            record_refuse(r, "there is no memory for pending requests");
        next = number + 1;
    }
    if (count == 0 && conn_pending(conn) > 0)
        record_refuse(r, "a pending answer has no request");
    return record_ok(r);
}
