/*
 * jobs_api_change.c - what operators change: pauses of tubes, draining, and jobs that are kicked,
 * deleted or cleared; and the reading of bodies that only the store has. See tubes_monitor.h.
 *
 * A request is a change of the jobs (jobs_commit.h) with a pending answer. With a store, the
 * change comes back to worker 0 when it is committed, and goes on to the admin's thread, which
 * answers; without one, it goes there at once. Many jobs are changed in steps, each with a pending
 * answer of its own; other requests are served between them, and the end of the client ends them.
 *
 * What is committed stays changed, whether its client still waits or not; the log has it.
 */
#include "base/log.h"
#include "base/number.h"
#include "net/query.h"
#include "service/job_session.h"
#include "service/tubes_monitor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An answer comes within this time, or its client gets a 504. */
#define COMMIT_PATIENCE_NS (30 * NS_PER_S)

/* A request. Everything that the change points to is here. */
struct asked_jobs {
    struct job_op op; /* first */
    struct services *services;
    struct jobs *jobs;
    struct http_pending *pending; /* while the change is under way */
    void (*answer)(struct asked_jobs *asked, struct http_request *request);

    struct jobs_clear clear;
    struct job_view view;
    char reason[JOBS_READ_ONLY_MAX + 1];
    char tube[JOBS_TUBE_MAX];
    char peer[80]; /* for the log */
};

static void no_memory(struct http_request *request)
{
    http_answer(request, 503, "application/json", NULL, 0);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Returns NULL without memory; the request has been answered then. */
static struct asked_jobs *
ask(struct services *services, struct http_request *request, enum job_op_kind kind,
    void (*answer)(struct asked_jobs *asked, struct http_request *request))
{
    struct jobs *jobs = jobs_of(services);
    size_t size = sizeof(struct asked_jobs);
    bool ends = kind == JOB_OP_ACT || kind == JOB_OP_CLEAR;
    bool counted = jobs_charge(jobs, ends ? JOBS_ENDS : JOBS_REST, size);
    struct asked_jobs *asked = counted ? calloc(1, size) : NULL;
    if (!asked) {
        if (counted)
            jobs_uncharge(jobs, size);
        no_memory(request);
        return NULL;
    }
    asked->op.kind = kind;
    asked->op.reason = asked->reason;
    asked->op.clear = &asked->clear;
    asked->services = services;
    asked->jobs = jobs;
    asked->answer = answer;
    snprintf(asked->peer, sizeof(asked->peer), "%s", http_peer(request));
    return asked;
}

static void free_asked(struct asked_jobs *asked)
{
    job_body_drop(asked->jobs, &asked->view.body);
    jobs_clear_end(asked->jobs, &asked->clear);
    jobs_uncharge(asked->jobs, sizeof(*asked));
    free(asked);
}

/* Logs what was changed, when no more will be. */
static void log_change(const struct asked_jobs *asked)
{
    const struct job_op *op = &asked->op;
    unsigned long long id = op->act.id, deleted = asked->clear.deleted;
    int len = (int)op->tube.len;
    const char *tube = asked->tube;
    if (op->kind == JOB_OP_CLEAR && (deleted > 0 || op->status == JOBS_OK))
        log_info("admin: %s has cleared tube %.*s: %llu jobs", asked->peer, len, tube, deleted);
    else if (op->status != JOBS_OK)
        return;
    else if (op->kind == JOB_OP_ACT)
        log_info("admin: %s has %s job %llu", asked->peer,
                 op->act.verb == JOB_KICK ? "kicked" : "deleted", id);
    else if (op->kind == JOB_OP_PAUSE)
        log_info("admin: %s has paused tube %.*s for %u s", asked->peer, len, tube, op->seconds);
}

/* ---- making changes -------------------------------------------------------------------------- */

static void on_done(struct mail *mail, void *http);

/* The change is over, or a step of it: brings it to the admin's thread. Any thread. */
static void bring(struct asked_jobs *asked)
{
    asked->op.message.mail.deliver = on_done;
    if (http_post(&asked->pending, &asked->op.message))
        return;
    log_change(asked);
    free_asked(asked);
}

/* In the thread of worker 0. */
static void on_committed(struct mail *mail, void *worker)
{
    (void)worker;
    bring(container_of(mail, struct asked_jobs, op.message.mail));
}

/* Makes a change, or a step of it. `request` waits for its answer meanwhile. */
static void make(struct asked_jobs *asked, struct http_request *request)
{
    struct jobs_outbox outbox;
    const struct services *services = asked->services;
    struct job_op *op = &asked->op;
    asked->pending = http_pend(request, COMMIT_PATIENCE_NS);
    if (!asked->pending) {
        log_change(asked);
        free_asked(asked);
        return;
    }
    jobs_outbox_init(&outbox);
    op->message.to = 0; /* worker 0, when it is committed */
    op->message.mail.deliver = on_committed;
    if (jobs_submit(asked->jobs, op, clock_now(), &outbox) != JOBS_COMMITS)
        bring(asked); /* else another thread has it by now */
    jobs_deliver(NULL, services, &outbox);
}

static void on_done(struct mail *mail, void *http)
{
    struct asked_jobs *asked = container_of(mail, struct asked_jobs, op.message.mail);
    struct http_request *request = http_by_tag(http, asked->op.message.to);
    if (request && asked->op.status == JOBS_WAITS) {
        make(asked, request);
        return;
    }
    log_change(asked);
    if (request)
        asked->answer(asked, request);
    free_asked(asked);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Answers a failure that any change may have. */
static void refuse_change(const struct asked_jobs *asked, struct http_request *request)
{
    if (!jobs_has_store(asked->jobs))
        no_memory(request);
    else if (asked->op.status == JOBS_IO)
        http_error(request, 500, "what jobs.path has of it is damaged (the log says so)");
    else
        http_error(request, 503,
                   "there is no memory for it, or jobs.path cannot be written (the log says so); "
                   "ask again later");
}

static void answer_done(struct http_request *request)
{
    struct json_text json = json_text_begin();
    json_text_bool(&json, "done", true);
    http_answer_json(request, 200, &json);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void answer_job(struct asked_jobs *asked, struct http_request *request)
{
    struct job_stats stats;
    if (asked->op.status == JOBS_OK)
        answer_done(request);
    else if (asked->op.status != JOBS_NOT_FOUND)
        refuse_change(asked, request);
    else if (jobs_stats_job(asked->jobs, asked->op.act.id, clock_now(), &stats) != JOBS_OK)
        http_error(request, 404, "there is no such job");
    else
        http_error(request, 409, "%s; this one is %s",
                   asked->op.act.verb == JOB_DELETE
                       ? "only a job that nobody has reserved is deleted"
                       : "only a delayed, buried or abandoned job is kicked, and none of a tube "
                         "that is read-only",
                   job_state_word(stats.state));
}

static void change_job(const struct route_request *r, enum job_verb verb)
{
    uint64_t id;
    if (jobs_refuse_stopped(r) || !query_none(r->http) || !jobs_read_id(r, &id))
        return;
    struct asked_jobs *asked = ask(r->services, r->http, JOB_OP_ACT, answer_job);
    if (!asked)
        return;
    asked->op.act.verb = verb;
    asked->op.act.id = id;
    make(asked, r->http);
}

void kick_job(const struct route_request *r)
{
    change_job(r, JOB_KICK);
}

void delete_job(const struct route_request *r)
{
    change_job(r, JOB_DELETE);
}

static void answer_body(struct asked_jobs *asked, struct http_request *request)
{
    if (asked->view.body)
        jobs_answer_job(asked->services, request, &asked->view);
    else if (asked->op.status == JOBS_IO)
        http_error(request, 500, "the body of the job cannot be read from jobs.path");
    else if (asked->op.status == JOBS_NO_MEMORY)
        no_memory(request);
    else
        http_error(request, 404, "there is no such job");
}

void jobs_read_body(struct services *services, struct http_request *request, struct job_view *view)
{
    struct asked_jobs *asked = ask(services, request, JOB_OP_READ, answer_body);
    if (!asked)
        return;
    asked->view = *view;
    asked->op.views = &asked->view;
    asked->op.view_count = 1;
    make(asked, request);
}

/* ---- tubes ----------------------------------------------------------------------------------- */

static void answer_tube(struct asked_jobs *asked, struct http_request *request)
{
    switch (asked->op.status) {
    case JOBS_OK:
        break;
    case JOBS_NOT_FOUND:
        http_error(request, 404, "there is no such tube");
        return;
    case JOBS_READ_ONLY:
        http_error(request, 409, "the tube is read-only: %s", asked->reason);
        return;
    default:
        refuse_change(asked, request);
        return;
    }
    struct json_text json = json_text_begin();
    json_text_bool(&json, "done", true);
    if (asked->op.kind == JOB_OP_CLEAR)
        json_text_number(&json, "deleted", asked->clear.deleted);
    http_answer_json(request, 200, &json);
}

/* As `ask`, for a change of a tube. Returns NULL when the request has been answered. */
static struct asked_jobs *ask_tube(struct services *services, struct http_request *request,
                                   struct bytes name, enum job_op_kind kind)
{
    if (name.len > JOBS_TUBE_MAX) {
        http_error(request, 404, "there is no such tube");
        return NULL;
    }
    struct asked_jobs *asked = ask(services, request, kind, answer_tube);
    if (!asked)
        return NULL;
    memcpy(asked->tube, name.data, name.len);
    asked->op.tube = bytes_at(asked->tube, name.len);
    return asked;
}

void pause_tube(const struct route_request *r)
{
    enum { SECONDS };
    static const char *const names[] = {"seconds", NULL};
    uint8_t decoded[HTTP_HEADERS_MAX];
    struct bytes name;
    struct query query;
    unsigned seconds = 0;
    if (jobs_refuse_stopped(r) || !query_read(&query, r->http, names) ||
        !slug_name(r, "tube", "TUBE", decoded, &name) ||
        !query_number(&query, SECONDS, 0, UINT32_MAX, &seconds))
        return;
    if (!query.values[SECONDS].data) {
        http_error(r->http, 400, "seconds=SECONDS is missing; 0 ends a pause");
        return;
    }
    struct asked_jobs *asked = ask_tube(r->services, r->http, name, JOB_OP_PAUSE);
    if (!asked)
        return;
    asked->op.seconds = seconds;
    make(asked, r->http);
}

void clear_tube(const struct route_request *r)
{
    enum { STATE };
    static const char *const names[] = {"state", NULL};
    static const char *const states[] = {"ready",     "delayed", "reserved", "buried",
                                         "abandoned", "all",     NULL};
    uint8_t decoded[HTTP_HEADERS_MAX];
    struct bytes name;
    struct query query;
    unsigned state = JOBS_ALL;
    if (jobs_refuse_stopped(r) || !query_read(&query, r->http, names) ||
        !query_word(&query, STATE, states, &state) || !slug_name(r, "tube", "TUBE", decoded, &name))
        return;
    if (!query.values[STATE].data) {
        http_error(r->http, 400,
                   "state=ready, delayed, reserved, buried, abandoned or all is missing");
        return;
    }
    struct asked_jobs *asked = ask_tube(r->services, r->http, name, JOB_OP_CLEAR);
    if (!asked)
        return;
    asked->op.state = state;
    make(asked, r->http);
}

/* ---- draining -------------------------------------------------------------------------------- */

static void answer_drain(const struct services *services, struct http_request *request)
{
    struct json_text json = json_text_begin();
    json_text_bool(&json, "draining", jobs_draining(services));
    json_text_bool(&json, "switched", tubes_resource(services)->drains);
    http_answer_json(request, 200, &json);
}

void get_drain(const struct route_request *r)
{
    if (!jobs_refuse_stopped(r) && query_none(r->http))
        answer_drain(r->services, r->http);
}

void switch_drain(const struct route_request *r)
{
    enum { JOBS };
    static const char *const names[] = {"jobs", NULL};
    static const char *const words[] = {"off", "on", NULL};
    struct query query;
    unsigned on = 0;
    if (jobs_refuse_stopped(r) || !query_read(&query, r->http, names) ||
        !query_word(&query, JOBS, words, &on))
        return;
    if (!query.values[JOBS].data) {
        http_error(r->http, 400, "jobs=on or jobs=off is missing");
        return;
    }
    if (tubes_resource(r->services)->drains != (on == 1))
        log_info("admin: %s %s", http_peer(r->http),
                 on == 1 ? "drains the job queues: puts are answered with DRAINING"
                         : "has ended the draining of the job queues");
    tubes_resource(r->services)->drains = on == 1;
    answer_drain(r->services, r->http);
}
