/*
 * beanstalk.c - the service of the job queues: beanstalk's protocol and ten verbs of our own.
 * (Protocol page: job queues.)
 *
 * A request is a line. After the line of a put comes a body, in as many parts as it takes; memory
 * for it grows as it comes. A body that cannot be kept is read away, and then refused.
 *
 * A request that waits has a pending answer: the requests behind it are not read until that has
 * come, as a message from whoever made a job ready, or from the connection's deadline.
 */
#include "service/beanstalk.h"

#include "base/option.h"
#include "base/record.h"
#include "jobs/jobs_state.h"
#include "service/job_session.h"

#include <string.h>

/* So many bytes of a body restart limits.request_timeout. */
#define PART_STEP 65536u

/* The first room for a body that did not come with its line, in bytes. */
#define BODY_FIRST 4096u

static const struct job_settings_of_protocol *settings_of(const struct service *service)
{
    return service->settings;
}

uint32_t job_size_max(const struct conn *conn)
{
    return (uint32_t)settings_of(service_of(conn))->max_job_size;
}

/* This connection puts. */
static void produces(struct conn *conn)
{
    struct job_session *s = job_session(conn);
    if (!s->produces)
        atomic_fetch_add(&conn_tubes(conn)->counts[JOBS_PRODUCERS], 1);
    s->produces = true;
}

void job_works(struct conn *conn)
{
    struct job_session *s = job_session(conn);
    if (!s->works)
        atomic_fetch_add(&conn_tubes(conn)->counts[JOBS_WORKERS], 1);
    s->works = true;
}

/* ---- parsing --------------------------------------------------------------------------------- */

static enum parsed parse_line(const uint8_t *data, size_t len, struct job_request *r,
                              size_t *used_r)
{
    r->parsed = bs_parse_request(data, len, &r->line, used_r);
    if (r->parsed == BS_MORE) {
        *used_r = 0;
        return PARSED_MORE;
    }
    return r->parsed == BS_TOO_LONG ||
                   (r->parsed == BS_PARSED && job_verb_rows[r->line.verb].class == JOB_CLASS_PUTS)
               ? PARSED_LAST
               : PARSED;
}

static enum parsed on_parse(struct conn *conn, const uint8_t *data, size_t len, void *request,
                            size_t *used_r)
{
    const struct job_session *s = job_session(conn);
    struct job_request *r = request;
    uint64_t left = (uint64_t)s->put.len + 2 - s->put.have;
    r->input = s->input;
    switch (s->input) {
    case JOB_INPUT_LINE:
        return parse_line(data, len, r, used_r);
    case JOB_INPUT_REST_OF_LINE:
        r->parsed = bs_skip_line(data, len, used_r) ? BS_PARSED : BS_MORE;
        if (*used_r == 0)
            return PARSED_MORE; /* a "\r", until more comes */
        break;
    default:
        r->parsed = BS_PARSED;
        *used_r = len < left ? len : (size_t)left;
    }
    r->part = bytes_at(data, *used_r);
    return PARSED_LAST;
}

/* ---- bodies ---------------------------------------------------------------------------------- */

/* From now on, the body is read away. */
static void refuse_body(struct conn *conn, enum bs_answer refusal)
{
    struct job_session *s = job_session(conn);
    job_body_drop(conn_jobs(conn), &s->put.is.body);
    s->put.refusal = refusal;
    s->input = JOB_INPUT_REST_OF_BODY;
}

static bool resize(struct conn *conn, uint32_t room)
{
    struct job_session *s = job_session(conn);
    if (s->put.is.body)
        return job_body_resize(conn_jobs(conn), JOBS_PUTS, &s->put.is.body, room);
    s->put.is.body = job_body_new(conn_jobs(conn), JOBS_PUTS, room);
    return s->put.is.body != NULL;
}

/* Makes room for `have` bytes of the body. Returns false without memory. */
static bool make_room(struct conn *conn, uint32_t have)
{
    struct job_session *s = job_session(conn);
    uint32_t len = s->put.len, room = s->put.is.body ? s->put.is.body->len : 0;
    if (s->put.is.body && have <= room)
        return true;
    room = room > len / 2 ? len : room * 2;
    if (room < BODY_FIRST)
        room = len < BODY_FIRST ? len : BODY_FIRST;
    if (room < have)
        room = have;
    return resize(conn, room);
}

/* Takes a part of the body, and of the "\r\n" after it. */
static void take_part(struct conn *conn, struct bytes part)
{
    struct job_session *s = job_session(conn);
    uint64_t len = s->put.len, have = s->put.have, left = have < len ? len - have : 0;
    size_t of_body = part.len < left ? part.len : (size_t)left;
    if (s->input == JOB_INPUT_BODY && !make_room(conn, (uint32_t)(have + of_body)))
        refuse_body(conn, BS_ANSWER_OUT_OF_MEMORY);
    if (s->input == JOB_INPUT_BODY && of_body > 0)
        memcpy(s->put.is.body->bytes + have, part.data, of_body);
    for (size_t n = of_body; n < part.len; n++)
        s->put.end[have + n - len] = part.data[n];
    s->put.have += part.len;
}

/* The body is whole, or it was read away. */
static enum served end_body(struct conn *conn)
{
    struct job_session *s = job_session(conn);
    bool dropped = s->input == JOB_INPUT_REST_OF_BODY;
    bool draining = jobs_draining(service_of(conn)->services);
    enum bs_answer refusal = s->put.refusal;
    s->input = JOB_INPUT_LINE;
    if (dropped && refusal == BS_ANSWER_JOB_TOO_BIG) {
        job_answer(conn, s->put.verb, refusal);
        return SERVED;
    }
    if (memcmp(s->put.end, "\r\n", 2) != 0) {
        job_body_drop(conn_jobs(conn), &s->put.is.body);
        job_answer(conn, s->put.verb, BS_ANSWER_EXPECTED_CRLF);
        conn_finish(conn, CLOSE_PROTOCOL);
        return SERVED_LAST;
    }
    if (s->put.verb == BS_VERB_PUT_BATCH && !dropped) {
        return job_put_batch(conn, draining);
    } else if (draining) {
        job_body_drop(conn_jobs(conn), &s->put.is.body);
        job_answer(conn, s->put.verb, BS_ANSWER_DRAINING);
    } else if (dropped) {
        job_answer(conn, s->put.verb, refusal);
    } else {
        return job_put(conn);
    }
    return SERVED;
}

static enum served serve_part(struct conn *conn, const struct job_request *r)
{
    struct job_session *s = job_session(conn);
    take_part(conn, r->part);
    return s->put.have < (uint64_t)s->put.len + 2 ? SERVED_PART : end_body(conn);
}

#define BATCH_MAX (UINT32_C(16) << 20)

/* The line of a put has come. */
static enum served begin_put(struct conn *conn, const struct bs_request *r)
{
    struct job_session *s = job_session(conn);
    uint32_t most = r->verb == BS_VERB_PUT_BATCH ? BATCH_MAX : job_size_max(conn);
    produces(conn);
    memset(&s->put, 0, offsetof(typeof(s->put), tube));
    s->put.verb = r->verb;
    s->put.is.pri = r->pri;
    s->put.is.delay_s = r->delay_s;
    s->put.is.ttr_s = r->ttr_s;
    s->put.count = r->count;
    s->put.len = r->body_len;
    s->put.is.tries = JOB_TRIES_OF_TUBE;
    s->put.tube_len = (uint8_t)r->tube.len;
    if (r->tube.len > 0)
        memcpy(s->put.tube, r->tube.data, r->tube.len);
    if (r->verb == BS_VERB_PUT_INTO)
        job_take_options(s, &r->options);
    s->input = JOB_INPUT_BODY;
    if (r->body_len > most)
        refuse_body(conn, BS_ANSWER_JOB_TOO_BIG);
    else
        s->put.is.id = jobs_take_ids(conn_jobs(conn), r->verb == BS_VERB_PUT_BATCH ? r->count : 1);
    return SERVED_PART;
}

/* ---- requests -------------------------------------------------------------------------------- */

static enum served serve_line(struct conn *conn, const struct job_request *r)
{
    struct job_session *s = job_session(conn);
    if (s->under_way > 0 && (r->parsed != BS_PARSED || job_must_wait(conn, &r->line)))
        return SERVED_LATER;
    switch (r->parsed) {
    case BS_PARSED:
        break;
    case BS_TOO_LONG:
        s->input = JOB_INPUT_REST_OF_LINE;
        return SERVED_PART;
    case BS_UNKNOWN_COMMAND:
        job_answer(conn, JOB_VERB_INVALID, BS_ANSWER_UNKNOWN_COMMAND);
        return SERVED;
    case BS_WEB:
        conn_finish(conn, CLOSE_PROTOCOL);
        return SERVED_LAST;
    case BS_BAD_FORMAT_CLOSE:
        job_answer(conn, JOB_VERB_INVALID, BS_ANSWER_BAD_FORMAT);
        conn_finish(conn, CLOSE_PROTOCOL);
        return SERVED_LAST;
    default:
        job_answer(conn, JOB_VERB_INVALID, BS_ANSWER_BAD_FORMAT);
        return SERVED;
    }
    const struct job_verb_row *row = &job_verb_rows[r->line.verb];
    return row->class == JOB_CLASS_PUTS ? begin_put(conn, &r->line) : row->serve(conn, &r->line);
}

static enum served on_serve(struct conn *conn, const void *request)
{
    struct job_session *s = job_session(conn);
    const struct job_request *r = request;
    if (unlikely(!s->client)) {
        conn_close(conn, CLOSE_MEMORY);
        return SERVED_LAST;
    }
    switch (r->input) {
    case JOB_INPUT_LINE:
        return serve_line(conn, r);
    case JOB_INPUT_REST_OF_LINE:
        if (r->parsed != BS_PARSED)
            return SERVED_PART;
        s->input = JOB_INPUT_LINE;
        job_answer(conn, JOB_VERB_INVALID, BS_ANSWER_BAD_FORMAT);
        return SERVED;
    default:
        return serve_part(conn, r);
    }
}

static void on_expire(struct conn *conn, unsigned which)
{
    CHECK(which == WAIT_DEADLINE);
    job_wait_expired(conn);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void on_open(struct conn *conn)
{
    if (job_take_room(conn))
        job_session(conn)->client = jobs_client_new(conn_jobs(conn), conn_tag(conn), conn);
}

static void on_close(struct conn *conn)
{
    struct job_session *s = job_session(conn);
    struct jobs_outbox outbox;
    job_body_drop(conn_jobs(conn), &s->put.is.body);
    job_leave_room(conn);
    if (s->steps == JOB_STEPS_CLEAR)
        jobs_clear_end(conn_jobs(conn), &s->clear);
    job_list_free(conn);
    if (s->wait.on)
        job_give_up_wait(conn);
    if (s->produces)
        atomic_fetch_sub(&conn_tubes(conn)->counts[JOBS_PRODUCERS], 1);
    if (s->works)
        atomic_fetch_sub(&conn_tubes(conn)->counts[JOBS_WORKERS], 1);
    s->produces = s->works = false;
    if (!s->client)
        return;
    if (server_is_ending(service_of(conn)->services->server))
        jobs_stop_serving(conn_jobs(conn));
    jobs_outbox_init(&outbox);
    jobs_client_end(s->client, service_now(conn), &outbox);
    s->client = NULL;
    jobs_deliver(conn_worker(conn), service_of(conn)->services, &outbox);
}

/* ---- upgrades -------------------------------------------------------------------------------- */

static void save_put(const struct job_session *s, struct record_writer *w)
{
    record_put_u8(w, (uint8_t)s->put.verb);
    record_put_u32(w, s->put.is.pri);
    record_put_u32(w, s->put.is.delay_s);
    record_put_u32(w, s->put.is.ttr_s);
    record_put_u32(w, s->put.count);
    record_put_u32(w, s->put.is.tries);
    record_put_u64(w, s->put.is.id);
    record_put_u32(w, s->put.len);
    record_put_u64(w, s->put.have);
    record_put_u8(w, s->put.end[0]);
    record_put_u8(w, s->put.end[1]);
    record_put_u8(w, (uint8_t)s->put.refusal);
    record_put_bytes(w, s->put.tube, s->put.tube_len);
    record_put_bytes(w, s->put.key, s->put.key_len);
    record_put_bytes(w, s->put.root, s->put.root_len);
    record_put_u8(w, s->put.is.has_at);
    record_put_u8(w, s->put.is.at_whole);
    record_put_u8(w, s->put.is.root_whole);
    record_put_i64(w, s->put.is.at_ms);
    record_put_i64(w, s->put.is.root_ms);
    if (s->input == JOB_INPUT_BODY) {
        size_t have = s->put.have < s->put.len ? (size_t)s->put.have : s->put.len;
        record_put_bytes(w, s->put.is.body ? s->put.is.body->bytes : NULL, have);
    }
}

/*
 * Saves the session: bool client; the client (jobs_state.h); u8 input; of a body that is coming: u8
 * verb, u32 pri, delay, ttr, records, tries, u64 id, u32 length, u64 what has come, 2 bytes u8 of
 * its end, u8 answer, bytes tube, bytes key, bytes root, bool has `at`, `at` is whole, root is
 * whole, i64 `at` in ms, i64 root in ms, and if it is kept, bytes of what has come; bool produces,
 * works, half-closed; bool waits, and then u8 verb, i64 end in ns; u8 steps, and then of a kick:
 * u32 left, u32 kicked, bool begun, bool buried, u64 tube; of a clear: u64 deleted, u64 tube, u64
 * id, u32 number, bool begun, u8 state asked for (what it still deletes has smaller ids, and came
 * before the clear of that number began, jobs_state.h; the id is 0 if it is finished); of a list of
 * tubes: u32 pieces of the rest of the answer, bytes each.
 */
static void on_save(struct conn *conn, struct record_writer *w)
{
    const struct job_session *s = job_session(conn);
    record_put_u8(w, s->client != NULL);
    if (!s->client)
        return;
    jobs_client_save(s->client, w);
    record_put_u8(w, (uint8_t)s->input);
    if (s->input == JOB_INPUT_BODY || s->input == JOB_INPUT_REST_OF_BODY)
        save_put(s, w);
    record_put_u8(w, s->produces);
    record_put_u8(w, s->works);
    record_put_u8(w, s->half_closed);
    record_put_u8(w, s->wait.on != WAIT_ON_NOTHING);
    if (s->wait.on) {
        record_put_u8(w, s->wait.note[0]);
        record_put_i64(w, s->wait.until_ns);
    }
    record_put_u8(w, (uint8_t)s->steps);
    if (s->steps == JOB_STEPS_KICK) {
        record_put_u32(w, s->kick.left);
        record_put_u32(w, s->kick.kicked);
        record_put_u8(w, s->kick.begun);
        record_put_u8(w, s->kick.buried);
        record_put_u64(w, s->kick.tube);
    } else if (s->steps == JOB_STEPS_CLEAR) {
        record_put_u64(w, s->clear.deleted);
        record_put_u64(w, s->clear.tube);
        record_put_u64(w, s->clear.before_id);
        record_put_u32(w, s->clear.number);
        record_put_u8(w, s->clear.begun);
        record_put_u8(w, (uint8_t)s->clear_state);
    } else if (s->steps == JOB_STEPS_LIST) {
        job_list_save(conn, w);
    }
}

/* Reads a number of an enum with `count` values. */
static unsigned get_choice(struct record_reader *r, unsigned count)
{
    unsigned value = record_get_u8(r);
    if (record_ok(r) && value >= count)
        record_refuse(r, "a connection of jobs is in no known state");
    return record_ok(r) ? value : 0;
}

static void restore_put(struct conn *conn, struct record_reader *r)
{
    struct job_session *s = job_session(conn);
    const void *tube, *key, *root, *body;
    s->put.verb = (enum bs_verb)get_choice(r, BS_VERB_COUNT);
    s->put.is.pri = record_get_u32(r);
    s->put.is.delay_s = record_get_u32(r);
    s->put.is.ttr_s = record_get_u32(r);
    s->put.count = record_get_u32(r);
    s->put.is.tries = record_get_u32(r);
    s->put.is.id = record_get_u64(r);
    s->put.len = record_get_u32(r);
    s->put.have = record_get_u64(r);
    s->put.end[0] = record_get_u8(r);
    s->put.end[1] = record_get_u8(r);
    s->put.refusal = (enum bs_answer)get_choice(r, BS_ANSWER_FIXED);
    size_t tube_len = record_get_bytes(r, &tube), key_len = record_get_bytes(r, &key),
           root_len = record_get_bytes(r, &root);
    s->put.is.has_at = record_get_bool(r);
    s->put.is.at_whole = record_get_bool(r);
    s->put.is.root_whole = record_get_bool(r);
    s->put.is.at_ms = record_get_i64(r);
    s->put.is.root_ms = record_get_i64(r);
    if (record_ok(r) &&
        (tube_len > JOBS_TUBE_MAX || key_len > JOBS_KEY_MAX || root_len > JOBS_KEY_MAX ||
         s->put.is.at_ms < 0 || s->put.is.at_ms > BS_TIME_MAX_MS || s->put.is.root_ms < 0 ||
         s->put.is.root_ms > BS_TIME_MAX_MS || s->put.count > JOBS_STEP ||
         s->put.have > s->put.len + (uint64_t)1))
        record_refuse(r, "a put of a connection is not good");
    if (!record_ok(r))
        return;
    s->put.tube_len = (uint8_t)tube_len;
    memcpy(s->put.tube, tube, tube_len);
    s->put.key_len = (uint8_t)key_len;
    memcpy(s->put.key, key, key_len);
    s->put.root_len = (uint8_t)root_len;
    memcpy(s->put.root, root, root_len);
    if (s->input != JOB_INPUT_BODY)
        return;
    size_t len = record_get_bytes(r, &body);
    if (record_ok(r) && len != (s->put.have < s->put.len ? s->put.have : s->put.len))
        record_refuse(r, "a body is not as long as it should be");
    if (!record_ok(r) || len == 0)
        return;
    s->put.is.body = job_body_new(conn_jobs(conn), JOBS_PUTS, (uint32_t)len);
    if (!s->put.is.body)
        record_refuse(r, "there is no memory for a body");
    else
        memcpy(s->put.is.body->bytes, body, len);
}

static void restore_steps(struct conn *conn, struct record_reader *r)
{
    struct job_session *s = job_session(conn);
    s->steps = (enum job_steps)get_choice(r, JOB_STEPS_LIST + 1);
    if (s->steps == JOB_STEPS_KICK) {
        s->kick.left = record_get_u32(r);
        s->kick.kicked = record_get_u32(r);
        s->kick.begun = record_get_bool(r);
        s->kick.buried = record_get_bool(r);
        s->kick.tube = record_get_u64(r);
    } else if (s->steps == JOB_STEPS_CLEAR) {
        s->clear.deleted = record_get_u64(r);
        s->clear.tube = record_get_u64(r);
        s->clear.before_id = record_get_u64(r);
        s->clear.number = record_get_u32(r);
        s->clear.begun = record_get_bool(r);
        s->clear_state = (enum bs_state)get_choice(r, BS_STATE_COUNT);
        s->clear.state = job_state_of(s->clear_state);
        if (record_ok(r) && s->clear.number > 0)
            jobs_clear_restored(conn_jobs(conn), &s->clear);
    } else if (s->steps == JOB_STEPS_LIST) {
        job_list_restore(conn, r);
    }
}

static bool on_restore(struct conn *conn, struct record_reader *r)
{
    struct job_session *s = job_session(conn);
    if (!record_get_bool(r))
        return record_ok(r);
    s->client = jobs_client_restore(conn_jobs(conn), conn_tag(conn), conn, r);
    if (!s->client || !job_take_room(conn))
        return false;
    s->input = (enum job_input)get_choice(r, JOB_INPUT_REST_OF_BODY + 1);
    if (s->input == JOB_INPUT_BODY || s->input == JOB_INPUT_REST_OF_BODY)
        restore_put(conn, r);
    if (record_get_bool(r))
        produces(conn);
    if (record_get_bool(r))
        job_works(conn);
    s->half_closed = record_get_bool(r);
    bool waits = record_get_bool(r);
    if (waits) {
        enum bs_verb verb = (enum bs_verb)get_choice(r, BS_VERB_COUNT);
        job_wait_begins(conn, verb, record_get_i64(r));
    }
    restore_steps(conn, r);
    if (record_ok(r) &&
        (waits != jobs_client_waits(s->client) || waits != (conn_pending(conn) == 1) ||
         (s->steps != JOB_STEPS_NONE) != conn_in_pieces(conn)))
        record_refuse(r, "a connection of jobs does not match its client");
    return record_ok(r);
}

static void on_describe(struct conn *conn, struct conn_info *info)
{
    const struct job_session *s = job_session(conn);
    info->holds = s->client ? jobs_client_reserved(s->client) : 0;
    info->waits = s->wait.on != WAIT_ON_NOTHING;
}

static const char *const verbs[] = {
#define ROW(name, word) word,
    BS_VERBS(ROW)
#undef ROW
        "invalid",
    NULL};
static const char *const outcomes[] = {
#define ROW(name, word) word,
    JOB_OUTCOMES(ROW)
#undef ROW
        NULL};

static enum meaning meaning_of(unsigned verb, unsigned outcome)
{
    (void)verb;
    switch ((enum job_outcome)outcome) {
    case JOB_OUTCOME_RESERVED:
        return MEANS_GRANTED;
    case JOB_OUTCOME_DRAINING:
    case JOB_OUTCOME_OUT_OF_MEMORY:
        return MEANS_REFUSED;
    default: /* TIMED_OUT: there was no work */
        return MEANS_OTHER;
    }
}

const struct service_row jobs_row = {
    .protocol =
        {
            .name = "jobs",
            .request_size = sizeof(struct job_request),
            .deadlines = 1,
            .pending_max = PROTOCOL_PENDING_MAX,
            .part_step = PART_STEP,
            .input_end = INPUT_END_SERVED,
            .open = on_open,
            .parse = on_parse,
            .serve = on_serve,
            .resume = job_resume,
            .expire = on_expire,
            .ended = job_half_closed,
            .close = on_close,
            .save = on_save,
            .restore = on_restore,
            .describe = on_describe,
        },
    .verbs = verbs,
    .outcomes = outcomes,
    .meaning = meaning_of,
    .wait_at = offsetof(struct job_session, wait),
    .session_size = sizeof(struct job_session),
    .request_max = BS_NEW_LINE_MAX + 2,
};

/* ---- options --------------------------------------------------------------------------------- */

/* clang-format off */
static const struct option_row rows[] = {
    { .key = "max_job_size", OPTION_IS_SIZE(struct job_settings_of_protocol, max_job_size), .min = 1,
      .max = UINT64_C(64) << 20, .default_text = "1M", .unit = "",
      .help = "the largest body of a job" },
};
/* clang-format on */

static const struct option_group group = {
    .prefix = "jobs",
    .rows = rows,
    .count = ARRAY_SIZE(rows),
    .size = sizeof(struct job_settings_of_protocol),
};

const struct option_protocol jobs_options = {
    .name = "jobs",
    .title = "beanstalk",
    .help = "serve job queues, with beanstalk's protocol",
    .enable = "false",
    .port = "11300",
    .trial_send = "printf 'put 0 0 60 5\\r\\nhello\\r\\n'",
    .trial_show = "",
    .own = &group,
};
