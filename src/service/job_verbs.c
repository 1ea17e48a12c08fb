/*
 * job_verbs.c - what the verbs of the job queues do: each asks the jobs, and answers.
 *
 * A verb that touches many jobs makes its answer in steps (SERVED_PIECES), so that other
 * connections are served in between.
 */
#include "base/lock.h"
#include "service/job_session.h"

#include <stdlib.h>
#include <string.h>

/* The most bytes of an answer of several jobs. */
static size_t answer_max(const struct conn *conn)
{
    size_t space = conn_space(conn);
    return space > BS_REPLY_ROOM ? space - BS_REPLY_ROOM : 0; /* for its first line */
}

/* ---- answers --------------------------------------------------------------------------------- */

static enum job_outcome outcome_of(enum bs_answer answer)
{
    static const uint8_t outcomes[BS_ANSWER_COUNT] = {
        [BS_ANSWER_INSERTED] = JOB_OUTCOME_INSERTED,
        [BS_ANSWER_RESERVED] = JOB_OUTCOME_RESERVED,
        [BS_ANSWER_CLAIMED] = JOB_OUTCOME_RESERVED,
        [BS_ANSWER_BURIED] = JOB_OUTCOME_BURIED,
        [BS_ANSWER_NOT_FOUND] = JOB_OUTCOME_NOT_FOUND,
        [BS_ANSWER_TIMED_OUT] = JOB_OUTCOME_TIMED_OUT,
        [BS_ANSWER_DEADLINE_SOON] = JOB_OUTCOME_DEADLINE_SOON,
        [BS_ANSWER_DRAINING] = JOB_OUTCOME_DRAINING,
        [BS_ANSWER_OUT_OF_MEMORY] = JOB_OUTCOME_OUT_OF_MEMORY,
        [BS_ANSWER_EXPECTED_CRLF] = JOB_OUTCOME_ERROR,
        [BS_ANSWER_JOB_TOO_BIG] = JOB_OUTCOME_ERROR,
        [BS_ANSWER_TUBE_FULL] = JOB_OUTCOME_ERROR,
        [BS_ANSWER_INTERNAL_ERROR] = JOB_OUTCOME_ERROR,
        [BS_ANSWER_BAD_FORMAT] = JOB_OUTCOME_ERROR,
        [BS_ANSWER_UNKNOWN_COMMAND] = JOB_OUTCOME_ERROR,
        [BS_ANSWER_NOT_IGNORED] = JOB_OUTCOME_ERROR,
        [BS_ANSWER_READ_ONLY] = JOB_OUTCOME_ERROR,
    };
    _Static_assert(JOB_OUTCOME_OK == 0, "that of all others");
    return outcomes[answer];
}

static void write_line(struct conn *conn, const struct bs_reply *reply)
{
    uint8_t *to = conn_reply_room(conn, BS_REPLY_ROOM);
    size_t len = bs_compose_reply(reply, to, BS_REPLY_ROOM);
    CHECK(len > 0);
    conn_replied(conn, len);
}

static void answer_with(struct conn *conn, unsigned verb, const struct bs_reply *reply)
{
    service_count(conn, verb, outcome_of(reply->answer));
    write_line(conn, reply);
}

void job_answer(struct conn *conn, unsigned verb, enum bs_answer answer)
{
    struct bytes line = bs_answer_line(answer);
    service_count(conn, verb, outcome_of(answer));
    conn_reply(conn, line.data, line.len);
}

static void write_body(struct conn *conn, struct job_view *view)
{
    const uint8_t *bytes = job_body_to_output(conn_jobs(conn), &view->body);
    conn_reply_shared(conn, bytes, view->body_len, job_body_written);
    conn_reply(conn, "\r\n", 2);
}

/* Answers with a job, whose body is taken. */
void job_answer_one(struct conn *conn, unsigned verb, enum bs_answer answer, struct job_view *view)
{
    const struct bs_reply reply = {.answer = answer, .id = view->id, .body_len = view->body_len};
    answer_with(conn, verb, &reply);
    write_body(conn, view);
}

void job_answer_number(struct conn *conn, unsigned verb, enum bs_answer answer, uint64_t number)
{
    const struct bs_reply reply = {.answer = answer, .count = number};
    answer_with(conn, verb, &reply);
}

void job_answer_read_only(struct conn *conn, unsigned verb, const char *reason)
{
    const struct bs_reply reply = {.answer = BS_ANSWER_READ_ONLY, .reason = bytes_of(reason)};
    answer_with(conn, verb, &reply);
}

/* The answer that stands for a status; `good` for JOBS_OK. */
static enum bs_answer answer_of(enum jobs_status status, enum bs_answer good)
{
    static const enum bs_answer answers[] = {
        [JOBS_TIMED_OUT] = BS_ANSWER_TIMED_OUT,     [JOBS_DEADLINE_SOON] = BS_ANSWER_DEADLINE_SOON,
        [JOBS_NOT_FOUND] = BS_ANSWER_NOT_FOUND,     [JOBS_BURIED] = BS_ANSWER_BURIED,
        [JOBS_NOT_IGNORED] = BS_ANSWER_NOT_IGNORED, [JOBS_TUBE_FULL] = BS_ANSWER_TUBE_FULL,
        [JOBS_NO_MEMORY] = BS_ANSWER_OUT_OF_MEMORY, [JOBS_IO] = BS_ANSWER_INTERNAL_ERROR,
    };
    if (status == JOBS_OK)
        return good;
    CHECK(status < ARRAY_SIZE(answers) && answers[status]);
    return answers[status];
}

/* ---- put ------------------------------------------------------------------------------------- */

static void answer_duplicate(struct conn *conn, uint64_t id)
{
    const struct bs_reply reply = {.answer = BS_ANSWER_DUPLICATE, .id = id};
    answer_with(conn, BS_VERB_PUT_INTO, &reply);
}

void job_answer_put(struct conn *conn, enum bs_verb verb, enum jobs_status status,
                    const struct job_put *put)
{
    const struct bs_reply good = {.answer = BS_ANSWER_INSERTED, .id = put->id};
    struct tube_stats stats;
    switch (status) {
    case JOBS_OK:
        if (put->duplicate_r && put->duplicate_r->is)
            answer_duplicate(conn, put->duplicate_r->of);
        else
            answer_with(conn, verb, &good);
        break;
    case JOBS_READ_ONLY:
        if (verb == BS_VERB_PUT) {
            job_answer(conn, verb, BS_ANSWER_DRAINING);
            break;
        }
        if (jobs_stats_tube(conn_jobs(conn), put->tube, service_now(conn), &stats) != JOBS_OK)
            jobs_get_defaults(conn_jobs(conn), &stats.settings); /* the tube has gone */
        job_answer_read_only(conn, verb,
                             *stats.settings.read_only ? stats.settings.read_only : "read-only");
        break;
    case JOBS_TUBE_FULL:
        job_answer(conn, verb, verb == BS_VERB_PUT ? BS_ANSWER_OUT_OF_MEMORY : BS_ANSWER_TUBE_FULL);
        break;
    default:
        job_answer(conn, verb, answer_of(status, BS_ANSWER_INSERTED));
    }
}

/* ---- reserve, and waits ---------------------------------------------------------------------- */

/* Sets the deadline of the wait: its end, or the time when DEADLINE_SOON is due. */
static void set_deadline(struct conn *conn)
{
    struct job_session *s = job_session(conn);
    int64_t soon_ns =
        job_waiting_verb(s) == BS_VERB_CLAIM ? INT64_MAX : jobs_wait_soon_ns(s->client);
    int64_t at_ns = soon_ns < s->wait.until_ns ? soon_ns : s->wait.until_ns;
    if (at_ns == INT64_MAX)
        conn_clear_deadline(conn, WAIT_DEADLINE);
    else
        conn_expire_in(conn, WAIT_DEADLINE, at_ns - service_now(conn).mono_ns);
}

static void answer_claim(struct conn *conn, struct job_view *views, size_t count);

enum served job_begin_wait(struct conn *conn, enum bs_verb verb, int64_t timeout_ns)
{
    struct job_session *s = job_session(conn);
    if (!conn_pend(conn, &s->wait.number)) {
        struct job_view view;
        if (jobs_end_wait(s->client)) {
            job_answer(conn, verb, BS_ANSWER_OUT_OF_MEMORY);
        } else if (!jobs_read(s->client, &view)) {
            conn_close(conn, CLOSE_MEMORY); /* a job was promised */
            return SERVED_LAST;
        } else if (verb == BS_VERB_CLAIM) {
            answer_claim(conn, &view, 1);
        } else {
            job_answer_one(conn, verb, BS_ANSWER_RESERVED, &view);
        }
        return SERVED;
    }
    int64_t now_ns = service_now(conn).mono_ns;
    job_wait_begins(conn, verb, timeout_ns == JOBS_FOREVER ? JOBS_FOREVER : now_ns + timeout_ns);
    set_deadline(conn);
    return SERVED_PENDING;
}

void job_wait_begins(struct conn *conn, enum bs_verb verb, int64_t until_ns)
{
    struct wait *wait = &job_session(conn)->wait;
    wait_begin(conn, wait, WAIT_ON_JOBS, service_now(conn).mono_ns);
    wait->note[0] = (uint8_t)verb;
    wait->until_ns = until_ns;
    atomic_fetch_add(&conn_tubes(conn)->counts[JOBS_WAITING + verb], 1);
}

void job_forget_wait(struct conn *conn)
{
    struct job_session *s = job_session(conn);
    atomic_fetch_sub(&conn_tubes(conn)->counts[JOBS_WAITING + job_waiting_verb(s)], 1);
    wait_end(conn, &s->wait, WAITED_CANCELLED, 0);
}

void job_give_up_wait(struct conn *conn)
{
    service_count(conn, job_waiting_verb(job_session(conn)), JOB_OUTCOME_GONE);
    job_forget_wait(conn);
}

static void answer_claim(struct conn *conn, struct job_view *views, size_t count)
{
    const struct bs_reply head = {.answer = BS_ANSWER_CLAIMED, .count = count};
    answer_with(conn, BS_VERB_CLAIM, &head);
    for (size_t n = 0; n < count; n++) {
        struct job_view *view = &views[n];
        const struct bs_reply line = {.answer = BS_ANSWER_CLAIMED_JOB,
                                      .id = view->id,
                                      .body_len = view->body_len,
                                      .token = view->token,
                                      .tube = bytes_at(view->tube.text, view->tube.len),
                                      .try = view->tries};
        write_line(conn, &line);
        write_body(conn, view);
    }
}

/* Answers the pending claim with the jobs that it was promised. */
static bool answer_claimed(struct conn *conn)
{
    struct job_session *s = job_session(conn);
    struct job_views *claimed = jobs_take_claimed(s->client);
    if (!claimed)
        return false;
    job_forget_wait(conn);
    conn_answer(conn, s->wait.number);
    answer_claim(conn, claimed->at, claimed->count);
    conn_answered(conn);
    job_views_free(conn_jobs(conn), &claimed);
    return true;
}

/* Answers the pending request with the job that has come. */
static void answer_wait(struct conn *conn, struct job_view *view)
{
    struct job_session *s = job_session(conn);
    job_forget_wait(conn);
    conn_answer(conn, s->wait.number);
    if (job_waiting_verb(s) == BS_VERB_CLAIM)
        answer_claim(conn, view, 1);
    else
        job_answer_one(conn, job_waiting_verb(s), BS_ANSWER_RESERVED, view);
    conn_answered(conn);
}

/* Ends the wait with a word, unless a job came first. */
static void end_wait(struct conn *conn, enum bs_answer answer)
{
    struct job_session *s = job_session(conn);
    struct job_view view;
    if (job_waiting_verb(s) == BS_VERB_READY && job_read_ready(conn))
        return;
    if (!jobs_end_wait(s->client)) { /* without a job, it is on its way to the store */
        if (jobs_read(s->client, &view))
            answer_wait(conn, &view);
        else
            (void)answer_claimed(conn);
        return;
    }
    job_forget_wait(conn);
    conn_answer(conn, s->wait.number);
    job_answer(conn, job_waiting_verb(s), answer);
    conn_answered(conn);
}

void job_on_message(struct mail *mail, void *worker)
{
    struct jobs_client *client = jobs_client_of(mail);
    struct job_view view;
    (void)worker;
    if (!jobs_client_message(client))
        return;
    struct conn *conn = jobs_client_owner(client);
    struct job_session *s = job_session(conn);
    bool refused = jobs_was_refused(client);
    if (jobs_read(client, &view))
        answer_wait(conn, &view);
    else if (answer_claimed(conn) || !s->wait.on)
        return;
    else if (job_waiting_verb(s) == BS_VERB_READY)
        (void)job_read_ready(conn);
    else if (refused && s->wait.until_ns <= service_now(conn).mono_ns)
        end_wait(conn, BS_ANSWER_OUT_OF_MEMORY);
    else
        job_wait_expired(conn); /* its time may have ended while a job was promised */
}

/* Goes on with the search with which a wait began. Returns true if the wait must not be ended: the
 * search is not over, or it has found a job and answered. */
static bool search_on(struct conn *conn)
{
    struct job_session *s = job_session(conn);
    struct jobs_outbox outbox;
    jobs_outbox_init(&outbox);
    bool more = jobs_search(s->client, service_now(conn), &outbox);
    jobs_deliver(conn_worker(conn), service_of(conn)->services, &outbox);
    if (more) {
        conn_expire_in(conn, WAIT_DEADLINE, 0);
        lock_give_way();
    }
    return more || !s->wait.on;
}

void job_wait_expired(struct conn *conn)
{
    struct job_session *s = job_session(conn);
    int64_t now_ns = service_now(conn).mono_ns;
    bool soon = job_waiting_verb(s) != BS_VERB_CLAIM && jobs_wait_soon_ns(s->client) <= now_ns;
    if (!soon && s->wait.until_ns > now_ns)
        set_deadline(conn);
    else if (!search_on(conn))
        end_wait(conn, soon ? BS_ANSWER_DEADLINE_SOON : BS_ANSWER_TIMED_OUT);
}

void job_half_closed(struct conn *conn)
{
    struct job_session *s = job_session(conn);
    s->half_closed = true;
    if (!s->wait.on)
        return;
    s->wait.until_ns =
        service_now(conn).mono_ns; /* should the store refuse a job that is promised */
    if (!search_on(conn))
        end_wait(conn, BS_ANSWER_TIMED_OUT);
}

static enum served do_reserve(struct conn *conn, const struct bs_request *r)
{
    struct job_session *s = job_session(conn);
    int64_t timeout_ns = r->verb == BS_VERB_RESERVE ? JOBS_FOREVER : (int64_t)r->seconds * NS_PER_S;
    struct job_view view;
    job_works(conn);
    if (s->half_closed)
        timeout_ns = 0;
    enum jobs_status status = jobs_reserve(s->client, timeout_ns, &view, service_now(conn));
    jobs_set_timer(service_of(conn)->services);
    if (status == JOBS_WAITS)
        return job_begin_wait(conn, r->verb, timeout_ns);
    if (status == JOBS_OK)
        job_answer_one(conn, r->verb, BS_ANSWER_RESERVED, &view);
    else
        job_answer(conn, r->verb, answer_of(status, BS_ANSWER_OUT_OF_MEMORY));
    return SERVED;
}

/* Reads the tubes of a claim from its line. Returns their number. */
static size_t tubes_of(const struct bs_request *r, struct bytes *tubes_r, size_t room)
{
    struct bytes names = r->tubes;
    size_t count = 0;
    while (count < room && bs_next_tube(&names, &tubes_r[count]))
        count++;
    return count;
}

/* A line of BS_NEW_LINE_MAX bytes has no more names. */
#define CLAIM_TUBES (BS_NEW_LINE_MAX / 2)

static enum served do_claim(struct conn *conn, const struct bs_request *r)
{
    struct job_session *s = job_session(conn);
    char reason[JOBS_READ_ONLY_MAX + 1];
    size_t count = 0, room = r->count * sizeof(struct job_view);
    struct bytes *tubes = malloc(CLAIM_TUBES * sizeof(*tubes));
    struct job_view *views = malloc(room);
    enum jobs_status status = JOBS_NO_MEMORY;
    struct job_claim_request request = {.count = r->count,
                                        .timeout_ns = (int64_t)r->seconds * NS_PER_S,
                                        .answer_max = answer_max(conn)};
    job_works(conn);
    if (s->half_closed)
        request.timeout_ns = 0;
    if (tubes && views) {
        request.tubes = tubes;
        request.tube_count = tubes_of(r, tubes, CLAIM_TUBES);
        if (r->count > JOB_CHEAP_COUNT || request.tube_count > JOB_CHEAP_COUNT)
            conn_dear(conn);
        status = jobs_claim(s->client, &request, views, &count, reason, service_now(conn));
        jobs_set_timer(service_of(conn)->services);
    }
    if (status == JOBS_OK)
        answer_claim(conn, views, count);
    else if (status == JOBS_READ_ONLY)
        job_answer_read_only(conn, r->verb, reason);
    else if (status != JOBS_WAITS)
        job_answer(conn, r->verb, answer_of(status, BS_ANSWER_OUT_OF_MEMORY));
    free(tubes);
    free(views);
    return status == JOBS_WAITS ? job_begin_wait(conn, r->verb, request.timeout_ns) : SERVED;
}

/* ---- many jobs ------------------------------------------------------------------------------- */

_Static_assert((int)BS_STATE_READY == JOB_READY + 1 && (int)BS_STATE_DELAYED == JOB_DELAYED + 1 &&
                   (int)BS_STATE_RESERVED == JOB_RESERVED + 1 &&
                   (int)BS_STATE_BURIED == JOB_BURIED + 1 &&
                   (int)BS_STATE_ABANDONED == JOB_ABANDONED + 1 && BS_STATE_ALL == JOBS_ALL + 1,
               "they are in the same order");

unsigned job_state_of(enum bs_state state)
{
    return state == BS_STATE_NONE ? JOBS_ALL : state - 1;
}

static enum bs_state word_of(enum job_state state)
{
    return (enum bs_state)(state + 1);
}

bool job_resume(struct conn *conn)
{
    struct job_session *s = job_session(conn);
    if (s->steps != JOB_STEPS_LIST)
        return job_step(conn, bytes_at(NULL, 0)) == SERVED;
    bool done = job_list_step(conn);
    if (done)
        s->steps = JOB_STEPS_NONE;
    return done;
}

static enum served do_list(struct conn *conn, const struct bs_request *r)
{
    bool done = job_list_begin(conn, r->verb);
    job_session(conn)->steps = done ? JOB_STEPS_NONE : JOB_STEPS_LIST;
    return done ? SERVED : SERVED_PIECES;
}

static enum served do_kick(struct conn *conn, const struct bs_request *r)
{
    struct job_session *s = job_session(conn);
    if (jobs_has_store(conn_jobs(conn)))
        return job_kick(conn, r->count);
    s->kick = (struct jobs_kick){.left = r->count};
    s->steps = JOB_STEPS_KICK;
    return job_step(conn, r->tube);
}

static enum served do_clear(struct conn *conn, const struct bs_request *r)
{
    struct job_session *s = job_session(conn);
    if (jobs_has_store(conn_jobs(conn)))
        return job_clear(conn, r->tube, job_state_of(r->state));
    s->clear = (struct jobs_clear){.deleted = 0};
    s->clear_state = r->state;
    s->steps = JOB_STEPS_CLEAR;
    return job_step(conn, r->tube);
}

static enum served do_list_jobs(struct conn *conn, const struct bs_request *r)
{
    struct job_view *views = malloc(r->count * sizeof(*views));
    size_t count = 0;
    uint64_t next = 0;
    enum jobs_status status = JOBS_NO_MEMORY;
    enum served served = SERVED;
    if (r->count > JOB_CHEAP_COUNT)
        conn_dear(conn);
    if (views)
        status = jobs_list(conn_jobs(conn), r->tube, job_state_of(r->state), r->id, r->count,
                           answer_max(conn), views, &count, &next);
    if (status != JOBS_OK)
        job_answer(conn, r->verb, answer_of(status, BS_ANSWER_OUT_OF_MEMORY));
    else if (job_views_whole(views, count))
        job_answer_list(conn, views, count, next);
    else
        served = job_read_bodies(conn, views, count, next);
    for (size_t n = 0; n < count; n++)
        job_body_drop(conn_jobs(conn), &views[n].body);
    free(views);
    return served;
}

void job_answer_list(struct conn *conn, struct job_view *views, size_t count, uint64_t next)
{
    const struct bs_reply head = {.answer = BS_ANSWER_LISTED, .count = count, .next = next};
    answer_with(conn, BS_VERB_LIST_JOBS, &head);
    for (size_t n = 0; n < count; n++) {
        const struct bs_reply line = {.answer = BS_ANSWER_LISTED_JOB,
                                      .id = views[n].id,
                                      .body_len = views[n].body_len,
                                      .state = word_of(views[n].state),
                                      .try = views[n].tries};
        const struct bs_reply bare = {.answer = BS_ANSWER_UNREADABLE_JOB,
                                      .id = views[n].id,
                                      .state = word_of(views[n].state),
                                      .try = views[n].tries};
        write_line(conn, views[n].body ? &line : &bare);
        if (views[n].body)
            write_body(conn, &views[n]);
    }
}

/* ---- tubes ----------------------------------------------------------------------------------- */

static enum served do_use(struct conn *conn, const struct bs_request *r)
{
    const struct bs_reply reply = {.answer = BS_ANSWER_USING, .tube = r->tube};
    if (jobs_use(job_session(conn)->client, r->tube) == JOBS_OK)
        answer_with(conn, r->verb, &reply);
    else
        job_answer(conn, r->verb, BS_ANSWER_OUT_OF_MEMORY);
    return SERVED;
}

static enum served do_list_tube_used(struct conn *conn, const struct bs_request *r)
{
    char name[JOBS_TUBE_MAX];
    const struct bs_reply reply = {.answer = BS_ANSWER_USING,
                                   .tube =
                                       bytes_at(name, jobs_used(job_session(conn)->client, name))};
    answer_with(conn, r->verb, &reply);
    return SERVED;
}

static enum served do_watch(struct conn *conn, const struct bs_request *r)
{
    struct jobs_client *client = job_session(conn)->client;
    uint32_t count;
    enum jobs_status status = r->verb == BS_VERB_WATCH ? jobs_watch(client, r->tube, &count)
                                                       : jobs_ignore(client, r->tube, &count);
    if (status == JOBS_OK)
        job_answer_number(conn, r->verb, BS_ANSWER_WATCHING, count);
    else
        job_answer(conn, r->verb, answer_of(status, BS_ANSWER_WATCHING));
    return SERVED;
}

static enum served do_tube(struct conn *conn, const struct bs_request *r)
{
    struct job_settings settings;
    job_settings_from(&r->settings, &settings);
    if (settings.given)
        return job_set_tube(conn, r->tube, &settings);
    job_describe_tube(conn, r->tube, false);
    return SERVED;
}

/* ---- verbs ----------------------------------------------------------------------------------- */

static enum served do_peek(struct conn *conn, const struct bs_request *r)
{
    struct job_view view;
    enum jobs_status status =
        r->verb == BS_VERB_PEEK
            ? jobs_peek(conn_jobs(conn), r->id, &view)
            : jobs_peek_next(job_session(conn)->client, job_verb_rows[r->verb].peeks, &view);
    if (status != JOBS_OK)
        job_answer(conn, r->verb, BS_ANSWER_NOT_FOUND);
    else if (view.body)
        job_answer_one(conn, r->verb, BS_ANSWER_FOUND, &view);
    else
        return job_read_body(conn, r->verb, &view);
    return SERVED;
}

static enum served do_reserve_job(struct conn *conn, const struct bs_request *r)
{
    job_works(conn);
    return job_change(conn, r);
}

static enum served do_quit(struct conn *conn, const struct bs_request *r)
{
    (void)r;
    conn_finish(conn, CLOSE_PEER);
    return SERVED_LAST;
}

const struct job_verb_row job_verb_rows[BS_VERB_COUNT] = {
    [BS_VERB_PUT] = {.class = JOB_CLASS_PUTS},
    [BS_VERB_PUT_INTO] = {.class = JOB_CLASS_PUTS},
    [BS_VERB_PUT_BATCH] = {.class = JOB_CLASS_PUTS},
    [BS_VERB_RESERVE] = {do_reserve},
    [BS_VERB_RESERVE_WITH_TIMEOUT] = {do_reserve},
    [BS_VERB_RESERVE_JOB] = {do_reserve_job, .act = JOB_RESERVE},
    [BS_VERB_CLAIM] = {do_claim},
    [BS_VERB_DELETE] = {job_change, JOB_CLASS_ENDS, true, JOB_DELETE, BS_ANSWER_DELETED},
    [BS_VERB_ACK] = {job_change, JOB_CLASS_ENDS, true, JOB_ACK, BS_ANSWER_DELETED},
    [BS_VERB_TOUCH] = {job_change, JOB_CLASS_ENDS, true, JOB_TOUCH, BS_ANSWER_TOUCHED},
    [BS_VERB_RENEW] = {job_change, JOB_CLASS_ENDS, true, JOB_RENEW, BS_ANSWER_TOUCHED},
    [BS_VERB_RELEASE] = {job_change, JOB_CLASS_NONE, true, JOB_RELEASE, BS_ANSWER_RELEASED},
    [BS_VERB_NACK] = {job_change, JOB_CLASS_NONE, true, JOB_NACK, BS_ANSWER_RELEASED},
    [BS_VERB_BURY] = {job_change, JOB_CLASS_NONE, true, JOB_BURY, BS_ANSWER_BURIED},
    [BS_VERB_KICK_JOB] = {job_change, JOB_CLASS_NONE, true, JOB_KICK, BS_ANSWER_JOB_KICKED},
    [BS_VERB_KICK] = {do_kick, .ends = true},
    [BS_VERB_CLEAR] = {do_clear, .ends = true},
    [BS_VERB_PAUSE_TUBE] = {job_pause, .good = BS_ANSWER_PAUSED},
    [BS_VERB_PEEK] = {do_peek},
    [BS_VERB_PEEK_READY] = {do_peek, .peeks = JOB_PEEK_READY},
    [BS_VERB_PEEK_DELAYED] = {do_peek, .peeks = JOB_PEEK_DELAYED},
    [BS_VERB_PEEK_BURIED] = {do_peek, .peeks = JOB_PEEK_BURIED},
    [BS_VERB_USE] = {do_use},
    [BS_VERB_WATCH] = {do_watch},
    [BS_VERB_IGNORE] = {do_watch},
    [BS_VERB_READY] = {job_ready},
    [BS_VERB_TUBE] = {do_tube},
    [BS_VERB_LIST_JOBS] = {do_list_jobs},
    [BS_VERB_LIST_TUBE_USED] = {do_list_tube_used},
    [BS_VERB_LIST_TUBES] = {do_list},
    [BS_VERB_LIST_TUBES_WATCHED] = {do_list},
    [BS_VERB_STATS] = {job_stats},
    [BS_VERB_STATS_JOB] = {job_stats_job},
    [BS_VERB_STATS_TUBE] = {job_stats_tube},
    [BS_VERB_QUIT] = {do_quit},
};

void job_answer_change(struct conn *conn, enum bs_verb verb, enum jobs_status status)
{
    const struct job_verb_row *is = &job_verb_rows[verb];
    CHECK(status != JOBS_OK || is->serve == job_change || is->serve == job_pause);
    job_answer(conn, verb, answer_of(status, is->good));
}
