/*
 * job_puts.c - what put-into and put-batch have beyond put: options, and the records of a batch.
 *
 * A batch is read whole, as one body; then its records become jobs in one call, all or none.
 */
#include "service/job_session.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(JOBS_KEY_MAX == BS_KEY_MAX && JOBS_STEP == BS_COUNT_MAX, "both limits are the same");

/* Sets what the options of a put say. */
static void set_options(struct job_put *put, const struct bs_put_options *options)
{
    put->tries = options->has_tries ? options->tries : JOB_TRIES_OF_TUBE;
    put->key = options->key;
    put->root = options->root;
    put->at_ms = options->at_ms;
    put->root_ms = options->root_ms;
    put->has_at = options->has_at;
    put->at_whole = options->at_whole;
    put->root_whole = options->root_whole;
}

void job_take_options(struct job_session *s, const struct bs_put_options *options)
{
    set_options(&s->put.is, options);
    s->put.is.key = s->put.is.root = bytes_at(NULL, 0); /* they do not outlive the line */
    s->put.key_len = (uint8_t)options->key.len;
    s->put.root_len = (uint8_t)options->root.len;
    if (options->key.len > 0)
        memcpy(s->put.key, options->key.data, options->key.len);
    if (options->root.len > 0)
        memcpy(s->put.root, options->root.data, options->root.len);
}

/* A root time further ahead of the wall clock than this is somebody's mistake. */
#define ROOT_AHEAD_MS (INT64_C(86400) * 1000)

void job_note_root(struct conn *conn, struct bytes root, int64_t root_ms)
{
    static struct log_limit limit;
    const struct job_session *s = job_session(conn);
    if (root_ms <= clock_unix_ns() / NS_PER_MS + ROOT_AHEAD_MS)
        return;
    atomic_fetch_add(&conn_tubes(conn)->counts[JOBS_ROOTS_AHEAD], 1);
    log_warning_limited(&limit,
                        "jobs: tube %.*s: a put gives its root %.*s the time %lld, more than a day "
                        "ahead; jobs of that root with earlier times are dropped: set the "
                        "producer's clock, or use another signature",
                        s->put.tube_len, s->put.tube, (int)root.len, (const char *)root.data,
                        (long long)(root_ms / 1000));
}

void job_fill_put(const struct job_session *s, struct job_put *put)
{
    *put = s->put.is;
    put->tube = bytes_at(s->put.tube, s->put.tube_len);
    put->key = bytes_at(s->put.key, s->put.key_len);
    put->root = bytes_at(s->put.root, s->put.root_len);
}

/* ---- batches --------------------------------------------------------------------------------- */

void job_batch_free(struct jobs *jobs, struct job_batch *b)
{
    for (size_t n = 0; n < b->count && b->puts; n++)
        job_body_drop(jobs, &b->puts[n].body);
    job_body_drop(jobs, &b->list);
    job_body_drop(jobs, &b->records);
    free(b->puts);
    free(b->duplicates);
    jobs_uncharge(jobs, b->room);
    *b = (struct job_batch){.count = 0};
}

/* Takes the next record, without its body. Returns BS_ANSWER_INSERTED, or an error. */
static enum bs_answer take_record(const struct conn *conn, struct bytes *in,
                                  struct bs_request *record, struct bytes *body_r)
{
    size_t used;
    if (bs_parse_record(in->data, in->len, record, &used) != BS_PARSED)
        return BS_ANSWER_BAD_FORMAT;
    (void)bytes_take(in, used);
    if (in->len < (size_t)record->body_len + 2)
        return BS_ANSWER_BAD_FORMAT;
    if (record->body_len > job_size_max(conn))
        return BS_ANSWER_JOB_TOO_BIG;
    *body_r = bytes_at(in->data, record->body_len);
    if (memcmp(in->data + record->body_len, "\r\n", 2) != 0)
        return BS_ANSWER_EXPECTED_CRLF;
    (void)bytes_take(in, (size_t)record->body_len + 2);
    return BS_ANSWER_INSERTED;
}

/* Checks all records. Returns BS_ANSWER_INSERTED, or the first error. */
static enum bs_answer check_records(const struct conn *conn, struct bytes in, size_t count)
{
    struct bs_request record;
    struct bytes body;
    for (size_t n = 0; n < count; n++) {
        enum bs_answer answer = take_record(conn, &in, &record, &body);
        if (answer != BS_ANSWER_INSERTED)
            return answer;
    }
    return in.len == 0 ? BS_ANSWER_INSERTED : BS_ANSWER_BAD_FORMAT;
}

/* Makes the jobs of records that are good. Returns false without memory. */
static bool make_batch(struct conn *conn, struct bytes in, struct job_batch *b)
{
    struct job_session *s = job_session(conn);
    struct jobs *jobs = conn_jobs(conn);
    struct bs_request record;
    struct bytes body;
    size_t room = s->put.count * (sizeof(*b->puts) + sizeof(*b->duplicates));
    if (!jobs_charge(jobs, JOBS_PUTS, room))
        return false;
    b->room = room;
    b->puts = calloc(s->put.count, sizeof(*b->puts));
    b->duplicates = calloc(s->put.count, sizeof(*b->duplicates));
    b->list = job_body_new(jobs, JOBS_PUTS, (s->put.count + 1) * JOB_ITEM_ROOM);
    if (!b->puts || !b->duplicates || !b->list)
        return false;
    for (; b->count < s->put.count; b->count++) {
        enum bs_answer answer = take_record(conn, &in, &record, &body);
        CHECK(answer == BS_ANSWER_INSERTED);
        struct job_put *put = &b->puts[b->count];
        *put = (struct job_put){
            .tube = bytes_at(s->put.tube, s->put.tube_len),
            .id = s->put.is.id + b->count,
            .pri = record.pri,
            .delay_s = record.delay_s,
            .ttr_s = record.ttr_s,
            .duplicate_r = &b->duplicates[b->count],
        };
        set_options(put, &record.options);
        if (put->root.len > 0)
            job_note_root(conn, put->root, put->root_ms);
        put->body = job_body_new(jobs, JOBS_PUTS, record.body_len);
        if (!put->body)
            return false;
        if (body.len > 0)
            memcpy(put->body->bytes, body.data, body.len);
    }
    return true;
}

static void answer_list(struct conn *conn, struct job_batch *b)
{
    uint8_t *to = b->list->bytes;
    size_t len = sizeof(BS_TEXT_START) - 1;
    memcpy(to, BS_TEXT_START, len);
    for (size_t n = 0; n < b->count; n++) {
        bool is = b->duplicates[n].is;
        len +=
            bs_compose_item_put(is ? BS_ANSWER_DUPLICATE : BS_ANSWER_INSERTED,
                                is ? b->duplicates[n].of : b->puts[n].id, to + len, JOB_ITEM_ROOM);
    }
    job_answer_text(conn, BS_VERB_PUT_BATCH, to, len);
}

void job_batch_answer(struct conn *conn, struct job_batch *batch, enum jobs_status status)
{
    if (status == JOBS_OK)
        answer_list(conn, batch);
    else
        job_answer_put(conn, BS_VERB_PUT_BATCH, status, &batch->puts[0]);
}

enum served job_put_batch(struct conn *conn, bool draining)
{
    struct job_session *s = job_session(conn);
    struct jobs *jobs = conn_jobs(conn);
    struct bytes in = bytes_at(s->put.is.body->bytes, s->put.len);
    struct job_batch b = {.records = s->put.is.body};
    enum served served = SERVED;
    enum bs_answer answer = check_records(conn, in, s->put.count);
    s->put.is.body = NULL;
    if (s->put.count > JOB_CHEAP_COUNT)
        conn_dear(conn);
    if (answer == BS_ANSWER_INSERTED && draining)
        answer = BS_ANSWER_DRAINING;
    if (answer != BS_ANSWER_INSERTED)
        job_answer(conn, BS_VERB_PUT_BATCH, answer);
    else if (!make_batch(conn, in, &b))
        job_answer(conn, BS_VERB_PUT_BATCH, BS_ANSWER_OUT_OF_MEMORY);
    else
        served = job_put_all(conn, &b);
    job_batch_free(jobs, &b);
    return served;
}
