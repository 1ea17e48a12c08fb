#include "bench/counts/later.h"

#include "net/conn.h"

#include <string.h>

/* A request that was served, and its answer. */
struct question {
    struct letter letter; /* first */
    uint32_t number;
    uint8_t text[LATER_LEN];
};

static struct question questions[LATER_PENDING];
static unsigned asked;

static void take_answer(struct mail *mail, void *worker)
{
    struct question *q = container_of(mail, struct question, letter.mail);
    struct conn *conn = conn_by_tag(worker, q->letter.to);
    CHECK(conn);
    conn_answer(conn, q->number);
    conn_reply(conn, q->text, LATER_LEN);
    conn_answered(conn);
}

unsigned later_answer(struct worker *worker)
{
    unsigned count = asked;
    for (unsigned i = 0; i < count; i++)
        worker_post(worker, &questions[i].letter.mail);
    asked = 0;
    return count;
}

static void on_open(struct conn *conn)
{
    (void)conn;
}

static enum parsed parse(struct conn *conn, const uint8_t *data, size_t len, void *request,
                         size_t *used_r)
{
    (void)conn;
    *used_r = LATER_LEN;
    if (len < LATER_LEN)
        return PARSED_MORE;
    memcpy(request, data, LATER_LEN);
    return PARSED;
}

static enum served serve(struct conn *conn, const void *request)
{
    CHECK(asked < LATER_PENDING);
    struct question *q = &questions[asked++];
    CHECK(conn_pend(conn, &q->number));
    q->letter = (struct letter){.mail.deliver = take_answer, .to = conn_tag(conn)};
    memcpy(q->text, request, LATER_LEN);
    return SERVED_PENDING_NEXT;
}

static const struct protocol_row row = {
    .name = "later",
    .request_size = LATER_LEN,
    .pending_max = LATER_PENDING,
    .open = on_open,
    .parse = parse,
    .serve = serve,
    .close = on_open,
};

struct protocol later_protocol = {.row = &row, .request_max = LATER_LEN};
