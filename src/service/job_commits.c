/*
 * job_commits.c - requests that change jobs, or need bodies that only the store has.
 *
 * Each is a change of the jobs (jobs_commit.h). Without a store, it is answered when
 * jobs_submit returns. With one it has a pending answer, and comes back as a message to the
 * connection, or is freed if that has closed. Everything that the change points to is in its
 * struct here then, since a session may end first.
 *
 * The next request of the connection may start before the answer if both are puts, or both end or
 * prolong reservations; so they share a commit. Any other one waits; and so does the next one
 * behind one that is deferred, because each commit looks at all that are.
 *
 * Their memory counts against the limit of the jobs (jobs_memory.c). Each connection has had the
 * room for one that ends a job since it was made. Those behind it wait until it is over while there
 * is no room for more.
 */
#include "service/job_session.h"

#include <stdlib.h>
#include <string.h>

/* A request. */
struct waiting {
    struct job_op op; /* first */
    struct jobs *jobs;
    enum bs_verb verb;
    uint32_t number; /* of the pending answer */
    void (*answer)(struct conn *conn, struct waiting *waiting);
    size_t size;    /* bytes; 0: it is on the stack */
    size_t charged; /* bytes that count against the memory limit, and not for the connection */
    bool in_room;   /* it has the connection's room */

    struct job_view *views;
    uint64_t next;
    size_t kept;

    /* What only some verbs have; nothing of it is set at first. */
    union {
        struct {
            struct job_put put;
            struct job_duplicate duplicate;
        };
        struct job_batch batch;
        struct jobs_kick kick; /* with a store; else the session has them */
        struct jobs_clear clear;
    };

    struct job_view view; /* at first, only its body means something */

    /* What only some verbs have: settings, names, room for a reason, views. */
    _Alignas(struct job_view) uint8_t more[];
};

bool job_must_wait(const struct conn *conn, const struct bs_request *r)
{
    const struct job_session *s = conn_session(unconst(conn));
    size_t list = r->verb == BS_VERB_PUT_BATCH ? (r->count + 1) * (size_t)JOB_ITEM_ROOM : 0;
    return s->class == JOB_CLASS_NONE || job_verb_rows[r->verb].class != s->class ||
           (list > 0 && s->lists + list > conn_space(conn));
}

/* ---- life ------------------------------------------------------------------------------------ */

/* The room that each connection has, for whatever ends a job. */
#define ROOM (sizeof(struct waiting) + JOBS_READ_ONLY_MAX + 1 + JOBS_TUBE_MAX)

bool job_take_room(struct conn *conn)
{
    struct job_session *s = job_session(conn);
    s->has_room = jobs_has_store(conn_jobs(conn)) && jobs_charge(conn_jobs(conn), JOBS_REST, ROOM);
    return s->has_room || !jobs_has_store(conn_jobs(conn));
}

void job_leave_room(struct conn *conn)
{
    struct job_session *s = job_session(conn);
    if (s->has_room && !s->room_lent) /* else the one that has it gives it back */
        jobs_uncharge(conn_jobs(conn), ROOM);
    s->has_room = false;
}

/* Has the memory of a request counted. Returns false without memory. */
static bool charge(struct conn *conn, enum bs_verb verb, size_t size, bool *in_room_r)
{
    struct job_session *s = job_session(conn);
    enum jobs_need need = job_verb_rows[verb].class == JOB_CLASS_PUTS ? JOBS_PUTS : JOBS_REST;
    *in_room_r = job_verb_rows[verb].ends && s->has_room && !s->room_lent;
    if (*in_room_r)
        s->room_lent = true;
    return *in_room_r || jobs_charge(conn_jobs(conn), need, size);
}

/* A request is over. */
static void give_room_back(struct conn *conn, struct waiting *w)
{
    if (!w->in_room)
        return;
    job_session(conn)->room_lent = w->in_room = false;
    w->charged = 0;
}

static void on_committed(struct mail *mail, void *worker);

/* What jobs_submit reads of every change, and `answer` and `end` of every request. */
static inline struct waiting *begin(struct conn *conn, struct jobs *jobs, struct waiting *w,
                                    enum bs_verb verb, enum job_op_kind kind,
                                    void (*answer)(struct conn *conn, struct waiting *waiting))
{
    w->op.kind = kind;
    w->op.act.client = job_session(conn)->client;
    w->op.views = &w->view;
    w->view.body = NULL;
    w->jobs = jobs;
    w->verb = verb;
    w->answer = answer;
    w->size = 0;
    w->in_room = false;
    return w;
}

/* Makes one with room for `more` bytes. malloc keeps small blocks at hand; calloc would not use
 * those. */
static __attribute__((noinline)) struct waiting *
make_kept(struct conn *conn, enum bs_verb verb, enum job_op_kind kind,
          void (*answer)(struct conn *conn, struct waiting *waiting), size_t more)
{
    struct jobs *jobs = conn_jobs(conn);
    size_t size = sizeof(struct waiting) + more;
    bool in_room;
    if (!charge(conn, verb, size, &in_room))
        return NULL;
    struct waiting *w = malloc(size);
    if (!w) {
        job_session(conn)->room_lent &= !in_room;
        jobs_uncharge(jobs, in_room ? 0 : size);
        return NULL;
    }
    begin(conn, jobs, w, verb, kind, answer);
    w->op.message.to = conn_tag(conn);
    w->op.message.mail.deliver = on_committed;
    w->size = size;
    w->in_room = in_room;
    w->charged = in_room ? ROOM : size;
    w->views = NULL;
    w->kept = 0;
    return w;
}

/* Makes one; without a store it is `local`, and needs no room. NULL: no memory. */
static inline struct waiting *make(struct conn *conn, struct waiting *local, enum bs_verb verb,
                                   enum job_op_kind kind,
                                   void (*answer)(struct conn *conn, struct waiting *waiting),
                                   size_t more)
{
    struct jobs *jobs = conn_jobs(conn);
    return jobs_has_store(jobs) ? make_kept(conn, verb, kind, answer, more)
                                : begin(conn, jobs, local, verb, kind, answer);
}

static void end(struct waiting *w)
{
    if (w->verb == BS_VERB_PUT_BATCH)
        job_batch_free(w->jobs, &w->batch);
    else if (w->op.kind == JOB_OP_PUT)
        job_body_drop(w->jobs, &w->put.body);
    if (w->size == 0)
        return;
    job_body_drop(w->jobs, &w->view.body);
    for (size_t n = 0; w->views && n < w->op.view_count; n++)
        job_body_drop(w->jobs, &w->views[n].body);
    jobs_uncharge(w->jobs, w->charged);
    free(w);
}

/* What a finished change has taken is not the owner's any more. */
static void note_taken(struct waiting *w)
{
    if (w->op.kind != JOB_OP_PUT || w->op.status != JOBS_OK)
        return;
    if (w->verb != BS_VERB_PUT_BATCH)
        w->put.body = NULL;
    else
        for (size_t n = 0; n < w->batch.count; n++)
            w->batch.puts[n].body = NULL;
}

static enum jobs_status submit(struct conn *conn, struct waiting *w, struct jobs_outbox *outbox)
{
    jobs_outbox_init(outbox);
    return jobs_submit(w->jobs, &w->op, service_now(conn), outbox);
}

static void deliver(struct conn *conn, struct jobs_outbox *outbox)
{
    if (outbox->messages.first)
        jobs_deliver(conn_worker(conn), service_of(conn)->services, outbox);
    else
        jobs_set_timer(service_of(conn)->services);
}

static size_t list_room(const struct waiting *w)
{
    return w->verb == BS_VERB_PUT_BATCH ? w->batch.list->len : 0;
}

/* The answer comes when the change is committed. */
static enum served pend(struct conn *conn, struct waiting *w)
{
    struct job_session *s = job_session(conn);
    enum job_class class = job_verb_rows[w->verb].class;
    if (!conn_pend(conn, &w->number)) { /* its message finds no connection */
        conn_close(conn, CLOSE_MEMORY);
        return SERVED_LAST;
    }
    s->under_way++;
    s->class = w->op.deferred ? JOB_CLASS_NONE : class;
    s->lists += list_room(w);
    return class == JOB_CLASS_NONE ? SERVED_PENDING : SERVED_PENDING_NEXT;
}

/* Submits, and answers at once if no commit is needed. SERVED_PIECES: it was a step, without a
 * store, and another one follows. */
static enum served start(struct conn *conn, struct waiting *w)
{
    struct jobs_outbox outbox;
    enum served served = SERVED;
    enum jobs_status status = submit(conn, w, &outbox);
    if (status == JOBS_COMMITS) {
        CHECK(w->size > 0); /* the jobs have it by now */
        served = pend(conn, w);
    } else if (status == JOBS_WAITS) {
        served = SERVED_PIECES;
    } else {
        note_taken(w);
        give_room_back(conn, w);
        w->answer(conn, w);
        if (w->size > 0 || w->op.kind == JOB_OP_PUT) /* others have nothing */
            end(w);
    }
    deliver(conn, &outbox);
    return served;
}

/* A change comes back, in the thread of its connection's worker. */
static void on_committed(struct mail *mail, void *worker)
{
    struct waiting *w = container_of(mail, struct waiting, op.message.mail);
    struct conn *conn = conn_by_tag(worker, w->op.message.to);
    struct jobs_outbox outbox;
    note_taken(w);
    if (!conn) {
        end(w);
        return;
    }
    /* Many jobs are changed in steps. */
    if (w->op.status == JOBS_WAITS) {
        enum jobs_status status = submit(conn, w, &outbox);
        deliver(conn, &outbox);
        if (status == JOBS_COMMITS)
            return;
    }
    job_session(conn)->under_way--;
    give_room_back(conn, w);
    job_session(conn)->lists -= list_room(w);
    conn_answer(conn, w->number);
    w->answer(conn, w);
    conn_answered(conn);
    end(w);
}

/* Keeps bytes in `more`. */
static uint8_t *keep(struct waiting *w, const void *data, size_t len)
{
    uint8_t *to = w->more + w->kept;
    w->kept += len;
    CHECK(sizeof(*w) + w->kept <= w->size);
    if (len > 0)
        memcpy(to, data, len);
    return to;
}

static struct bytes keep_name(struct waiting *w, struct bytes name)
{
    if (w->size == 0)
        return name;
    return bytes_at(keep(w, name.data, name.len), name.len);
}

/* What ends a job waits for the room that an earlier request has. */
static enum served no_memory(struct conn *conn, enum bs_verb verb)
{
    if (job_verb_rows[verb].ends && job_session(conn)->room_lent)
        return SERVED_LATER;
    job_answer(conn, verb, BS_ANSWER_OUT_OF_MEMORY);
    return SERVED;
}

/* ---- puts ------------------------------------------------------------------------------------ */

static void answer_put(struct conn *conn, struct waiting *w)
{
    job_answer_put(conn, w->verb, w->op.status, &w->put);
}

enum served job_put(struct conn *conn)
{
    struct job_session *s = job_session(conn);
    struct jobs *jobs = conn_jobs(conn);
    size_t names = (size_t)s->put.tube_len + s->put.key_len + s->put.root_len;
    bool fits = s->put.is.body->len == s->put.len ||
                job_body_resize(jobs, JOBS_PUTS, &s->put.is.body, s->put.len);
    if (unlikely(s->put.root_len > 0))
        job_note_root(conn, bytes_at(s->put.root, s->put.root_len), s->put.is.root_ms);
    struct waiting local;
    struct waiting *w =
        fits ? make(conn, &local, s->put.verb, JOB_OP_PUT, answer_put, names) : NULL;
    if (!w) {
        job_body_drop(jobs, &s->put.is.body);
        return no_memory(conn, s->put.verb);
    }
    job_fill_put(s, &w->put);
    s->put.is.body = NULL;
    if (w->size > 0) {
        w->put.tube = keep_name(w, w->put.tube);
        w->put.key = keep_name(w, w->put.key);
        w->put.root = keep_name(w, w->put.root);
    }
    w->duplicate.is = false;
    w->put.duplicate_r = &w->duplicate;
    w->op.puts = &w->put;
    w->op.count = 1;
    return start(conn, w);
}

static void answer_batch(struct conn *conn, struct waiting *w)
{
    job_batch_answer(conn, &w->batch, w->op.status);
}

enum served job_put_all(struct conn *conn, struct job_batch *batch)
{
    const struct job_session *s = job_session(conn);
    struct waiting local;
    struct waiting *w =
        make(conn, &local, BS_VERB_PUT_BATCH, JOB_OP_PUT, answer_batch, s->put.tube_len);
    if (!w) {
        job_batch_free(conn_jobs(conn), batch);
        return no_memory(conn, BS_VERB_PUT_BATCH);
    }
    w->batch = *batch;
    *batch = (struct job_batch){.count = 0};
    struct bytes tube = keep_name(w, bytes_at(s->put.tube, s->put.tube_len));
    for (size_t n = 0; n < w->batch.count; n++)
        w->batch.puts[n].tube = tube;
    w->op.puts = w->batch.puts;
    w->op.count = w->batch.count;
    return start(conn, w);
}

/* ---- changes --------------------------------------------------------------------------------- */

static void answer_change(struct conn *conn, struct waiting *w)
{
    if (w->verb == BS_VERB_RESERVE_JOB && w->op.status == JOBS_OK)
        job_answer_one(conn, w->verb, BS_ANSWER_RESERVED, &w->view);
    else
        job_answer_change(conn, w->verb, w->op.status);
}

enum served job_change(struct conn *conn, const struct bs_request *r)
{
    struct waiting local;
    struct waiting *w = make(conn, &local, r->verb, JOB_OP_ACT, answer_change, 0);
    if (!w)
        return no_memory(conn, r->verb);
    w->op.act.verb = job_verb_rows[r->verb].act;
    w->op.act.id = r->id;
    w->op.act.token = r->token;
    w->op.act.pri = r->pri;
    w->op.act.delay_s = r->delay_s;
    return start(conn, w);
}

enum served job_pause(struct conn *conn, const struct bs_request *r)
{
    struct waiting local;
    struct waiting *w = make(conn, &local, r->verb, JOB_OP_PAUSE, answer_change, r->tube.len);
    if (!w)
        return no_memory(conn, r->verb);
    w->op.tube = keep_name(w, r->tube);
    w->op.seconds = r->seconds;
    return start(conn, w);
}

static void answer_kick(struct conn *conn, struct waiting *w)
{
    if (w->op.status == JOBS_OK)
        job_answer_number(conn, BS_VERB_KICK, BS_ANSWER_KICKED, w->op.kick->kicked);
    else
        job_answer(conn, BS_VERB_KICK, BS_ANSWER_OUT_OF_MEMORY);
}

enum served job_kick(struct conn *conn, uint32_t count)
{
    struct waiting *w = make_kept(conn, BS_VERB_KICK, JOB_OP_KICK, answer_kick, 0);
    if (!w)
        return no_memory(conn, BS_VERB_KICK);
    w->kick = (struct jobs_kick){.left = count};
    w->op.kick = &w->kick;
    return start(conn, w);
}

static const char no_reason[JOBS_READ_ONLY_MAX + 1];

static void answer_clear(struct conn *conn, struct waiting *w)
{
    if (w->op.status == JOBS_OK)
        job_answer_number(conn, BS_VERB_CLEAR, BS_ANSWER_CLEARED, w->op.clear->deleted);
    else if (w->op.status == JOBS_READ_ONLY)
        job_answer_read_only(conn, BS_VERB_CLEAR, w->op.reason);
    else
        job_answer_change(conn, BS_VERB_CLEAR, w->op.status);
}

enum served job_clear(struct conn *conn, struct bytes tube, unsigned state)
{
    struct waiting *w =
        make_kept(conn, BS_VERB_CLEAR, JOB_OP_CLEAR, answer_clear, sizeof(no_reason) + tube.len);
    if (!w)
        return no_memory(conn, BS_VERB_CLEAR);
    w->op.act.client = NULL;
    w->op.reason = (char *)keep(w, no_reason, sizeof(no_reason));
    w->op.tube = keep_name(w, tube);
    w->op.state = state;
    w->clear = (struct jobs_clear){.deleted = 0};
    w->op.clear = &w->clear;
    return start(conn, w);
}

enum served job_step(struct conn *conn, struct bytes tube)
{
    struct job_session *s = job_session(conn);
    bool kicks = s->steps == JOB_STEPS_KICK;
    char reason[JOBS_READ_ONLY_MAX + 1];
    struct waiting w;
    begin(conn, conn_jobs(conn), &w, kicks ? BS_VERB_KICK : BS_VERB_CLEAR,
          kicks ? JOB_OP_KICK : JOB_OP_CLEAR, kicks ? answer_kick : answer_clear);
    w.op.kick = &s->kick;
    w.op.clear = &s->clear;
    w.op.tube = tube;
    w.op.state = job_state_of(s->clear_state);
    w.op.reason = reason;
    enum served served = start(conn, &w);
    if (served == SERVED)
        s->steps = JOB_STEPS_NONE;
    return served;
}

static void answer_settings(struct conn *conn, struct waiting *w)
{
    if (w->op.status == JOBS_OK)
        job_describe_tube(conn, w->op.tube, true);
    else
        job_answer_change(conn, BS_VERB_TUBE, w->op.status);
}

enum served job_set_tube(struct conn *conn, struct bytes tube, const struct job_settings *settings)
{
    struct waiting local;
    struct waiting *w = make(conn, &local, BS_VERB_TUBE, JOB_OP_SET_TUBE, answer_settings,
                             sizeof(*settings) + tube.len);
    if (!w)
        return no_memory(conn, BS_VERB_TUBE);
    w->op.settings =
        w->size > 0 ? (const void *)keep(w, settings, sizeof(*settings)) : settings; /* aligned */
    w->op.tube = keep_name(w, tube);
    return start(conn, w);
}

/* ---- bodies ---------------------------------------------------------------------------------- */

bool job_views_whole(const struct job_view *views, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        if (!views[n].body)
            return false;
    }
    return true;
}

static void answer_peek(struct conn *conn, struct waiting *w)
{
    if (w->view.body)
        job_answer_one(conn, w->verb, BS_ANSWER_FOUND, &w->view);
    else
        job_answer_change(conn, w->verb, w->op.status == JOBS_OK ? JOBS_NOT_FOUND : w->op.status);
}

enum served job_read_body(struct conn *conn, enum bs_verb verb, struct job_view *view)
{
    struct waiting *w = make_kept(conn, verb, JOB_OP_READ, answer_peek, 0);
    if (!w)
        return no_memory(conn, verb);
    w->op.act.client = NULL;
    w->view = *view;
    w->op.view_count = 1;
    return start(conn, w);
}

static void answer_list(struct conn *conn, struct waiting *w)
{
    size_t count = 0;
    if (w->op.status == JOBS_NO_MEMORY) {
        job_answer(conn, BS_VERB_LIST_JOBS, BS_ANSWER_OUT_OF_MEMORY);
        return;
    }
    for (size_t n = 0; n < w->op.view_count; n++) { /* others without a body have gone */
        if (!w->views[n].body && !w->views[n].unreadable)
            continue;
        struct job_view view = w->views[count];
        w->views[count++] = w->views[n];
        if (count - 1 != n)
            w->views[n] = view;
    }
    job_answer_list(conn, w->views, count, w->next);
}

enum served job_read_bodies(struct conn *conn, struct job_view *views, size_t count, uint64_t next)
{
    size_t size = count * sizeof(*views);
    struct waiting *w = make_kept(conn, BS_VERB_LIST_JOBS, JOB_OP_READ, answer_list, size);
    if (!w)
        return no_memory(conn, BS_VERB_LIST_JOBS);
    w->views = (void *)keep(w, views, size);
    for (size_t n = 0; n < count; n++)
        views[n].body = NULL; /* they are the copy's */
    w->op.act.client = NULL;
    w->op.views = w->views;
    w->op.view_count = count;
    w->next = next;
    return start(conn, w);
}
