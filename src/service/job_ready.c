/* job_ready.c - the verb `ready`: which tubes have something to claim, now or as soon as one has.
 */
#include "service/job_session.h"

static void add(void *arg, struct bytes name, uint64_t count)
{
    struct job_text *text = arg;
    uint8_t *to = job_text_room(text, BS_ENTRY_ROOM);
    if (to)
        text->len += bs_compose_ready(name, count, to, BS_ENTRY_ROOM);
}

enum served job_ready(struct conn *conn, const struct bs_request *r)
{
    struct job_session *s = job_session(conn);
    struct job_text text;
    const struct jobs_ready ready = {
        .pattern = r->tube, .after = r->ready.after, .prefix = r->ready.prefix, .limit = r->count};
    bool waits = r->seconds > 0 && !s->half_closed;
    job_text_begin(&text, conn);
    switch (jobs_list_ready(s->client, &ready, waits, add, &text)) {
    case JOBS_OK:
        job_text_answer(conn, BS_VERB_READY, &text);
        return SERVED;
    case JOBS_WAITS:
        job_body_drop(text.jobs, &text.body);
        return job_begin_wait(conn, BS_VERB_READY, (int64_t)r->seconds * NS_PER_S);
    case JOBS_TIMED_OUT:
        job_answer(conn, BS_VERB_READY, BS_ANSWER_TIMED_OUT);
        break;
    default:
        job_answer(conn, BS_VERB_READY, BS_ANSWER_OUT_OF_MEMORY);
    }
    job_body_drop(text.jobs, &text.body);
    return SERVED;
}

bool job_read_ready(struct conn *conn)
{
    struct job_session *s = job_session(conn);
    struct job_text text;
    job_text_begin(&text, conn);
    if (!jobs_read_ready(s->client, add, &text)) {
        job_body_drop(text.jobs, &text.body);
        return false;
    }
    job_forget_wait(conn);
    conn_answer(conn, s->wait.number);
    job_text_answer(conn, BS_VERB_READY, &text);
    conn_answered(conn);
    return true;
}
