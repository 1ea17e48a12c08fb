/* job_ready.c - the verb `ready`: which tubes have something to claim, now or as soon as one has.
 */
#include "service/job_session.h"

#include <string.h>

/* The dictionary that is being made. */
struct answer {
    struct jobs *jobs;
    struct job_body *text; /* counts against the memory limit; its length is the room */
    size_t len;
    bool failed; /* no memory */
};

static uint8_t *room(struct answer *a)
{
    size_t have = a->text ? a->text->len : 0;
    if (a->failed || a->len + BS_ENTRY_ROOM <= have)
        return a->failed ? NULL : a->text->bytes + a->len;
    uint32_t wanted = (uint32_t)(a->len + BS_ENTRY_ROOM) * 2;
    if (!a->text)
        a->text = job_body_new(a->jobs, JOBS_REST, wanted);
    else if (!job_body_resize(a->jobs, JOBS_REST, &a->text, wanted))
        a->failed = true;
    a->failed = a->failed || !a->text;
    return a->failed ? NULL : a->text->bytes + a->len;
}

static void begin(struct answer *a, const struct conn *conn)
{
    *a = (struct answer){.jobs = conn_jobs(conn)};
    uint8_t *to = room(a);
    if (!to)
        return;
    a->len = sizeof(BS_TEXT_START) - 1;
    memcpy(to, BS_TEXT_START, a->len);
}

static void add(void *arg, struct bytes name, uint64_t count)
{
    struct answer *a = arg;
    uint8_t *to = room(a);
    if (to)
        a->len += bs_compose_ready(name, count, to, BS_ENTRY_ROOM);
}

static void finish(struct conn *conn, struct answer *a)
{
    if (a->failed)
        job_answer(conn, BS_VERB_READY, BS_ANSWER_OUT_OF_MEMORY);
    else
        job_answer_text(conn, BS_VERB_READY, a->text->bytes, a->len);
    job_body_drop(a->jobs, &a->text);
}

enum served job_ready(struct conn *conn, const struct job_request *r)
{
    struct job_session *s = job_session(conn);
    struct bs_request req;
    struct answer a;
    size_t used;
    enum bs_parsed parsed = bs_parse_request(r->bytes.data, r->bytes.len, &req, &used);
    CHECK(parsed == BS_PARSED && req.verb == BS_VERB_READY);
    const struct jobs_ready ready = {.pattern = req.tube,
                                     .after = req.ready.after,
                                     .prefix = req.ready.prefix,
                                     .limit = req.count};
    bool waits = req.seconds > 0 && !s->half_closed;
    begin(&a, conn);
    switch (jobs_list_ready(s->client, &ready, waits, add, &a)) {
    case JOBS_OK:
        finish(conn, &a);
        return SERVED;
    case JOBS_WAITS:
        job_body_drop(a.jobs, &a.text);
        return job_begin_wait(conn, BS_VERB_READY, (int64_t)req.seconds * NS_PER_S);
    case JOBS_TIMED_OUT:
        job_answer(conn, BS_VERB_READY, BS_ANSWER_TIMED_OUT);
        break;
    default:
        job_answer(conn, BS_VERB_READY, BS_ANSWER_OUT_OF_MEMORY);
    }
    job_body_drop(a.jobs, &a.text);
    return SERVED;
}

bool job_read_ready(struct conn *conn)
{
    struct job_session *s = job_session(conn);
    struct answer a;
    begin(&a, conn);
    if (!jobs_read_ready(s->client, add, &a)) {
        job_body_drop(a.jobs, &a.text);
        return false;
    }
    job_forget_wait(conn);
    conn_answer(conn, s->number);
    finish(conn, &a);
    conn_answered(conn);
    return true;
}
