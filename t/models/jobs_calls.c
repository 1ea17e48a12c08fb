/* jobs_calls.c - what each call does to the model; what time and a restart do. */
#include "t/models/jobs_internal.h"

/* ---- clients --------------------------------------------------------------------------------- */

void m_client_new(int client)
{
    model.clients[client] =
        (struct m_client){.exists = true, .watched = {0}, .watch_count = 1, .turn = M_NONE};
}

void m_end_wait(int client)
{
    model.clients[client].wait = M_IDLE;
    model.clients[client].named_count = 0;
}

void m_client_end(int client)
{
    m_end_wait(client);
    for (;;) {
        struct m_job *first = NULL;
        EACH_JOB(job)
        {
            if (job->now.state == JOB_RESERVED && job->holder == client &&
                (!first || job->reservation < first->reservation))
                first = job;
        }
        if (!first)
            break;
        int tube = first->tube;
        if (first->now.lease)
            first->holder = M_LEASES;
        else
            (void)model_give_back(first, 0);
        model_serve(tube);
    }
    model.clients[client].exists = false;
}

void m_use(int client, int tube)
{
    model_make_tube(tube);
    model.clients[client].used = tube;
}

void m_watch(int client, int tube)
{
    struct m_client *c = &model.clients[client];
    model_make_tube(tube);
    for (int n = 0; n < c->watch_count; n++) {
        if (c->watched[n] == tube)
            return;
    }
    c->watched[c->watch_count++] = tube;
}

enum jobs_status m_ignore(int client, int tube)
{
    struct m_client *c = &model.clients[client];
    int at = 0;
    while (at < c->watch_count && c->watched[at] != tube)
        at++;
    if (at == c->watch_count)
        return JOBS_OK;
    if (c->watch_count == 1)
        return JOBS_NOT_IGNORED;
    for (c->watch_count--; at < c->watch_count; at++)
        c->watched[at] = c->watched[at + 1];
    return JOBS_OK;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static int64_t meant_ms(int64_t ms, bool whole)
{
    return ms + (whole ? 999 : 0);
}

static int key_of(const struct job_put *put)
{
    for (int n = 0; n < M_KEYS; n++) {
        if (bytes_equal(put->key, m_key(n)))
            return n;
    }
    return M_NONE;
}

/* One put; the tube is served later. */
static enum jobs_status put(int tube, const struct job_put *put, struct job_duplicate *duplicate_r)
{
    struct m_tube *to = &model.tubes[tube];
    struct m_job new = {.id = put->id, .tube = tube, .key = M_NONE, .root = M_NONE};
    struct m_job *twin = NULL;
    new.now.at_ms = put->has_at ? meant_ms(put->at_ms, put->at_whole) : model.wall_ms;
    if (new.now.at_ms > model.wall_ms)
        new.now.at_ms = model.wall_ms;
    new.key = key_of(put);
    for (int n = 0; n < M_ROOTS; n++)
        new.root = bytes_equal(put->root, m_root(n)) ? n : new.root;
    if (new.root != M_NONE)
        new.now.root_ms = meant_ms(put->root_ms, put->root_whole);
    *duplicate_r = (struct job_duplicate){.is = false};
    if (model_is_read_only(tube))
        return JOBS_READ_ONLY;
    if (model_is_of_old_root(&new)) {
        duplicate_r->is = true;
    } else if (new.key != M_NONE) {
        twin = model_twin_of(tube, new.key, new.root);
        duplicate_r->is = twin || m_executed(tube, new.key) > new.now.at_ms;
        duplicate_r->of = twin ? twin->id : 0;
    }
    if (twin) {
        struct m_changing was = twin->now;
        if (new.now.at_ms > was.at_ms)
            twin->now.at_ms = new.now.at_ms;
        if (twin->root != M_NONE && new.now.root_ms > was.root_ms)
            twin->now.root_ms = new.now.root_ms;
        if (twin->now.at_ms != was.at_ms || twin->now.root_ms != was.root_ms)
            model_keep(twin);
        model_learn_root(tube, new.root, new.now.root_ms);
        model_forget_ahead(tube, new.key);
    }
    to->duplicates += duplicate_r->is;
    if (duplicate_r->is)
        return JOBS_OK;
    if (to->settings.is[JOB_SETTING_LIMIT] > 0 &&
        model_jobs_in(tube) >= to->settings.is[JOB_SETTING_LIMIT])
        return JOBS_TUBE_FULL;
    new.now.state = put->delay_s > 0 ? JOB_DELAYED : JOB_READY;
    new.now.pri = put->pri;
    new.now.delay_s = put->delay_s;
    new.now.until_ns = model_after(put->delay_s);
    new.ttr_s = put->ttr_s > 0 ? put->ttr_s : 1;
    new.tries_max = put->tries;
    new.put_ms = model.wall_ms;
    model_keep(&new);
    AGREE(model.job_count < M_JOBS);
    if (new.key != M_NONE)
        model_forget_ahead(tube, new.key);
    model.jobs[model.job_count++] = new;
    model_learn_root(tube, new.root, new.now.root_ms);
    to->total_jobs++;
    model.total_jobs++;
    return JOBS_OK;
}

enum jobs_status m_put(int client, const struct job_put *puts, size_t count, size_t *failed_r,
                       struct job_duplicate *duplicates_r)
{
    static struct model before;
    int tube = model.clients[client].used;
    for (int t = 0; puts->tube.len > 0 && t < M_TUBES; t++) {
        if (bytes_equal(m_name(t), puts->tube))
            tube = t;
    }
    model_make_tube(tube);
    memcpy(&before, &model, (size_t)((char *)&model.jobs[model.job_count] - (char *)&model));
    for (*failed_r = 0; *failed_r < count; ++*failed_r) {
        enum jobs_status status = put(tube, &puts[*failed_r], &duplicates_r[*failed_r]);
        if (status == JOBS_OK)
            continue;
        memcpy(&model, &before, (size_t)((char *)&before.jobs[before.job_count] - (char *)&before));
        return status;
    }
    model_serve(tube);
    return JOBS_OK;
}

/* True if some ready job of a tube in random order comes after this one. */
static bool may_be_after(int tube, const struct m_job *best)
{
    EACH_JOB(job)
    {
        if (job->tube == tube && model_is_good(job) && model_comes_before(best, job))
            return true;
    }
    return false;
}

enum jobs_status m_reserve(int client, bool waits, uint64_t chosen)
{
    struct m_client *c = &model.clients[client];
    struct m_job *best = m_find(chosen);
    bool any = false;
    for (int n = 0; n < c->watch_count; n++) {
        int tube = c->watched[n];
        if (model_is_closed(tube) || !model_has_ready(tube))
            continue;
        any = true;
        AGREE(best && model_is_good(best));
        if (best->tube == tube)
            AGREE(model_next_job(tube, chosen) == best);
        else if (model.tubes[tube].settings.is[JOB_SETTING_ORDER] == JOB_ORDER_RANDOM)
            AGREE(may_be_after(tube, best));
        else
            AGREE(model_comes_before(best, model_next_job(tube, 0)));
    }
    AGREE(any == (chosen != 0));
    if (any) {
        bool watched = false;
        for (int n = 0; n < c->watch_count; n++)
            watched = watched || (c->watched[n] == best->tube && !model_is_closed(best->tube));
        AGREE(watched);
        model_take(best, client);
        c->turn = best->tube;
        return JOBS_OK;
    }
    if (m_client_due(client) != INT64_MAX && m_client_due(client) - NS_PER_S <= model.now.mono_ns)
        return JOBS_DEADLINE_SOON;
    if (!waits)
        return JOBS_TIMED_OUT;
    c->wait = M_WAITS;
    c->age = ++model.waits;
    c->claims = false;
    c->named_count = 0;
    return JOBS_WAITS;
}

enum jobs_status m_claim(int client, const int *tubes, int tube_count, uint32_t count, bool waits,
                         size_t answer_max, const uint64_t *chosen, size_t chosen_count)
{
    struct m_client *c = &model.clients[client];
    int order[M_TUBES], orders = 0, first = 0, closed = 0;
    size_t bytes = 0, taken = 0;
    for (int n = 0; n < tube_count; n++) {
        bool twice = false;
        for (int i = 0; i < orders; i++)
            twice = twice || order[i] == tubes[n];
        if (!twice)
            order[orders++] = tubes[n];
        model_make_tube(tubes[n]);
    }
    if (tube_count == 0) {
        orders = c->watch_count;
        memcpy(order, c->watched, sizeof(order));
    }
    for (int n = 0; n < orders; n++) {
        closed += model_is_read_only(order[n]);
        if (order[n] == c->turn)
            first = n + 1;
    }
    if (closed == orders)
        return JOBS_READ_ONLY;
    for (int n = first, idle = 0; taken < count && idle < orders; n++) {
        int tube = order[n % orders];
        idle++;
        if (model_is_closed(tube) || !model_has_ready(tube))
            continue;
        idle = 0;
        /* An answer ends when it is long; only then is one missing that is there. */
        struct m_job *job = taken < chosen_count ? model_next_job(tube, chosen[taken]) : NULL;
        if (!job) {
            AGREE(taken > 0 && bytes + JOBS_LINE + m_name(tube).len + M_BODY_MAX > answer_max);
            break;
        }
        AGREE(job->id == chosen[taken]);
        bytes += JOBS_LINE + m_name(tube).len + m_body_len(job->id);
        AGREE(taken == 0 || bytes <= answer_max);
        model_take(job, client);
        c->turn = tube;
        taken++;
    }
    AGREE(taken == chosen_count);
    if (taken > 0)
        return JOBS_OK;
    if (!waits)
        return JOBS_TIMED_OUT;
    c->wait = M_WAITS;
    c->age = ++model.waits;
    c->claims = true;
    c->named_count = tube_count > 0 ? orders : 0;
    memcpy(c->named, order, sizeof(order));
    return JOBS_WAITS;
}

enum jobs_status m_reserve_job(int client, uint64_t id)
{
    struct m_job *job = m_find(id);
    if (!job || job->now.state == JOB_RESERVED || model_is_read_only(job->tube))
        return JOBS_NOT_FOUND;
    if (model_is_stale(job)) {
        job->doomed = true; /* it goes now, or with a store soon */
        return JOBS_NOT_FOUND;
    }
    model_take(job, client);
    return JOBS_OK;
}

void m_ack(struct m_job *job)
{
    model.tubes[job->tube].acks++;
    model_execute(job);
    model_remove_job(job);
}

enum jobs_status m_delete(int client, uint64_t id)
{
    struct m_job *job = m_find(id);
    if (!job || (job->now.state == JOB_RESERVED && job->holder != client))
        return JOBS_NOT_FOUND;
    model.tubes[job->tube].cmd_delete++;
    if (job->now.state == JOB_RESERVED)
        m_ack(job);
    else
        model_remove_job(job);
    return JOBS_OK;
}

enum jobs_status m_release(struct m_job *job, uint32_t pri, uint32_t delay_s)
{
    job->now.pri = pri;
    if (model_give_back(job, delay_s))
        return JOBS_BURIED;
    job->now.delay_s = delay_s;
    job->now.releases++;
    model_keep(job);
    model_serve(job->tube);
    return JOBS_OK;
}

enum jobs_status m_bury(int client, uint64_t id, uint32_t pri)
{
    struct m_job *job = m_find(id);
    if (!job || job->now.state != JOB_RESERVED || job->holder != client)
        return JOBS_NOT_FOUND;
    job->now.pri = pri;
    job->now.buries++;
    model_bury(job, JOB_BURIED);
    model_keep(job);
    return JOBS_OK;
}

void m_touch(struct m_job *job)
{
    job->now.until_ns = model_after(job->ttr_s);
    if (job->now.lease)
        model_keep(job);
}

static void kick(struct m_job *job)
{
    job->doomed = false;
    job->now.state = JOB_READY;
    job->now.tries = 0;
    job->now.kicks++;
    model_keep(job);
    model_serve(job->tube);
}

uint32_t m_kick(int client, uint32_t bound)
{
    int tube = model.clients[client].used;
    uint32_t kicked = 0;
    if (model_is_read_only(tube))
        return 0;
    bool buried = m_first(tube, JOB_PEEK_BURIED) != NULL;
    while (kicked < bound) {
        struct m_job *job = m_first(tube, buried ? JOB_PEEK_BURIED : JOB_PEEK_DELAYED);
        if (!job)
            break;
        kick(job);
        kicked++;
    }
    return kicked;
}

enum jobs_status m_kick_job(uint64_t id)
{
    struct m_job *job = m_find(id);
    if (!job || job->now.state == JOB_READY || job->now.state == JOB_RESERVED ||
        model_is_read_only(job->tube))
        return JOBS_NOT_FOUND;
    kick(job);
    return JOBS_OK;
}

/* ---- tubes ----------------------------------------------------------------------------------- */

static void keep_pause(struct m_tube *tube)
{
    tube->kept_pause_s = tube->pause_s;
    tube->kept_until_ns = model_wall_of(tube->paused_until_ns);
}

enum jobs_status m_pause(int tube, uint32_t seconds)
{
    struct m_tube *t = &model.tubes[tube];
    if (!t->exists)
        return JOBS_NOT_FOUND;
    t->cmd_pause++;
    t->pause_s = seconds;
    t->paused_until_ns = seconds > 0 ? model_after(seconds) : 0;
    keep_pause(t);
    model_serve(tube);
    return JOBS_OK;
}

/* Takes the settings of some numbers from others. */
static void copy_settings(struct job_settings *to, const struct job_settings *from, uint32_t which)
{
    for (unsigned n = 0; n < JOB_SETTING_READ_ONLY; n++) {
        if (which & 1u << n)
            to->is[n] = from->is[n];
    }
    if (which & 1u << JOB_SETTING_READ_ONLY)
        memcpy(to->read_only, from->read_only, sizeof(to->read_only));
}

uint32_t m_differ(const struct job_settings *a, const struct job_settings *b)
{
    uint32_t differ = (uint32_t)(strcmp(a->read_only, b->read_only) != 0) << JOB_SETTING_READ_ONLY;
    for (unsigned n = 0; n < JOB_SETTING_READ_ONLY; n++)
        differ |= (uint32_t)(a->is[n] != b->is[n]) << n;
    return differ;
}

void m_set(int tube, const struct job_settings *settings)
{
    model_make_tube(tube);
    struct job_settings *own = &model.tubes[tube].settings;
    copy_settings(own, settings, settings->given);
    own->given &= ~settings->given;
    own->given |= settings->given & m_differ(own, &model.defaults);
    keep_pause(&model.tubes[tube]);
    model_serve(tube);
}

/* Tubes that were given a setting keep it. */
void m_set_defaults(const struct job_settings *defaults)
{
    model.defaults = *defaults;
    for (int t = 0; t < M_TUBES; t++)
        copy_settings(&model.tubes[t].settings, defaults, ~model.tubes[t].settings.given);
    for (uint64_t number = 1; number <= model.numbers; number++) {
        for (int t = 0; t < M_TUBES; t++) {
            if (model.tubes[t].exists && model.tubes[t].number == number)
                model_serve(t);
        }
    }
}

enum jobs_status m_clear(int tube, unsigned state, uint64_t *deleted_r)
{
    *deleted_r = 0;
    if (!model.tubes[tube].exists)
        return JOBS_NOT_FOUND;
    if (model_is_read_only(tube))
        return JOBS_READ_ONLY;
    for (unsigned n = model.job_count; n-- > 0;) {
        struct m_job *job = &model.jobs[n];
        bool is = state == JOBS_ALL ? job->now.state != JOB_RESERVED
                  : state == JOB_BURIED
                      ? job->now.state == JOB_BURIED || job->now.state == JOB_ABANDONED
                      : job->now.state == state;
        if (job->tube != tube || !is)
            continue;
        model_remove_job(job);
        ++*deleted_r;
    }
    return JOBS_OK;
}

/* ---- time ------------------------------------------------------------------------------------ */

static void run_tube(int tube)
{
    struct m_tube *t = &model.tubes[tube];
    int64_t now_ns = model.now.mono_ns;
    if (t->paused_until_ns && t->paused_until_ns <= now_ns) {
        t->paused_until_ns = 0;
        t->pause_s = 0;
    }
    for (unsigned n = model.job_count; n-- > 0;) {
        struct m_job *job = &model.jobs[n];
        if (job->tube == tube && job->now.state == JOB_DELAYED && !job->doomed &&
            job->now.until_ns <= now_ns)
            job->now.state = JOB_READY;
        if (job->tube == tube && m_prune_at(job) <= now_ns)
            model_remove_job(job);
    }
    model_serve(tube);
}

static void run_client(int client)
{
    for (;;) {
        struct m_job *first = NULL;
        EACH_JOB(job)
        {
            if (job->now.state == JOB_RESERVED && job->holder == client &&
                job->now.until_ns <= model.now.mono_ns &&
                (!first || job->now.until_ns < first->now.until_ns ||
                 (job->now.until_ns == first->now.until_ns && job->id < first->id)))
                first = job;
        }
        if (!first)
            return;
        int tube = first->tube;
        /* The end of a connection, which a restart notices, is no timeout. */
        bool times_out = client != M_LEASES || first->now.lease;
        first->now.timeouts += times_out;
        model.timeouts += times_out;
        if (!model_give_back(first, 0))
            model.tubes[tube].recycled++;
        model_serve(tube);
    }
}

static void drop_stale(void)
{
    for (unsigned n = model.job_count; n-- > 0;) {
        if (model_is_due(&model.jobs[n]))
            m_gone(&model.jobs[n]);
    }
}

void m_run(void)
{
    for (;;) {
        int64_t first_ns = model.now.mono_ns;
        int which = M_NONE;
        drop_stale();
        for (int n = 0; n < M_TUBES + M_CLIENTS + 1; n++) {
            int64_t due_ns = n < M_TUBES ? m_tube_due(n) : m_client_due(n - M_TUBES);
            if (due_ns < first_ns || (due_ns == first_ns && which == M_NONE)) {
                first_ns = due_ns;
                which = n;
            }
        }
        if (which == M_NONE)
            break;
        if (which < M_TUBES)
            run_tube(which);
        else
            run_client(which - M_TUBES);
    }
    for (int t = 0; t < M_TUBES && !model.stored; t++) {
        for (int n = 0; n < M_KEYS; n++)
            model_forget_key(t, n);
        for (int n = 0; n < M_ROOTS; n++) {
            if (model.tubes[t].roots[n].until_ns <= model.now.mono_ns)
                model.tubes[t].roots[n].time_ms = M_NO_TIME;
        }
    }
}

/* ---- restarts -------------------------------------------------------------------------------- */

/* How long until a point in wall time, at most so many seconds. */
static int64_t left_ns(int64_t wall_ns, uint32_t seconds)
{
    int64_t left = wall_ns - model.wall_ms * NS_PER_MS, most = (int64_t)seconds * NS_PER_S;
    return left < 0 ? 0 : left < most ? left : most;
}

static void restart_job(struct m_job *job)
{
    int64_t left = 0;
    job->now = job->kept;
    job->doomed = false;
    if (job->old_token == job->now.token) /* the store has an earlier reservation */
        job->old_token = 0;
    job->now.buried_ns = model.now.mono_ns + (job->kept.buried_wall_ns - model.wall_ms * NS_PER_MS);
    bool buried = job->now.state == JOB_BURIED || job->now.state == JOB_ABANDONED;
    if (buried && job->now.buried_ns > model.last_burial)
        model.last_burial = job->now.buried_ns;
    if (buried && job->now.buried_wall_ns > model.last_burial_wall)
        model.last_burial_wall = job->now.buried_wall_ns;
    if (job->now.state == JOB_DELAYED)
        left = left_ns(job->kept.until_ns, job->now.delay_s);
    if (job->now.state == JOB_RESERVED && job->now.lease)
        left = left_ns(job->kept.until_ns, job->ttr_s);
    job->now.until_ns = model.now.mono_ns + left;
    if (job->now.state == JOB_DELAYED && left == 0)
        job->now.state = JOB_READY;
    if (job->now.state != JOB_RESERVED)
        return;
    job->last_try = model_most_tries(job) > 0 && job->now.tries >= model_most_tries(job);
    job->now.lease = left > 0;
    job->holder = M_LEASES;
    job->reservation = ++model.reservations;
    if (left == 0 && !job->last_try)
        job->now.state = JOB_READY;
}

void m_restart(void)
{
    for (int c = 0; c < M_CLIENTS; c++)
        model.clients[c] = (struct m_client){.exists = false};
    for (int t = 0; t < M_TUBES; t++) {
        struct m_tube was = model.tubes[t];
        model_forget_tube(t);
        model.tubes[t].settings = was.settings;
        for (int n = 0; n < M_KEYS; n++)
            model.tubes[t].keys[n].time_ms = model.tubes[t].keys[n].kept_ms;
        model.tubes[t].exists = was.exists;
        int64_t left = left_ns(was.kept_until_ns, was.kept_pause_s);
        model.tubes[t].pause_s = left > 0 ? was.kept_pause_s : 0;
        model.tubes[t].kept_pause_s = was.kept_pause_s;
        model.tubes[t].kept_until_ns = was.kept_until_ns;
        model.tubes[t].paused_until_ns = left > 0 ? model.now.mono_ns + left : 0;
    }
    model.timeouts = model.total_jobs = 0;
    model.last_burial = model.last_burial_wall = 0;
    EACH_JOB(job)
    restart_job(job);
    m_sweep();
}
