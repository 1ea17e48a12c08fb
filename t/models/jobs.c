/* jobs.c - see jobs.h. */
#include "t/models/jobs_internal.h"

#include <string.h>

struct model model;
uint64_t model_step;
uint64_t (*model_served)(int client);

struct bytes m_name(int tube)
{
    static const char *const names[M_TUBES - 1] = {"default", "a", "b", "wiki/a", "wiki/b", "c"};
    static char longest[JOBS_TUBE_MAX];
    if (tube < M_TUBES - 1)
        return bytes_of(names[tube]);
    memset(longest, 'n', sizeof(longest));
    return bytes_at(longest, sizeof(longest));
}

struct bytes m_key(int key)
{
    static const char *const names[M_KEYS] = {"k", "wiki:page", "k2", "another key"};
    return bytes_of(names[key]);
}

struct bytes m_root(int root)
{
    static const char *const names[M_ROOTS] = {"k", "root"};
    return bytes_of(names[root]);
}

void model_forget_tube(int t)
{
    struct m_tube blank = {.exists = false};
    memcpy(blank.keys, model.tubes[t].keys, sizeof(blank.keys));
    memcpy(blank.roots, model.tubes[t].roots, sizeof(blank.roots));
    model.tubes[t] = blank;
}

void model_make_tube(int t)
{
    struct m_tube *tube = &model.tubes[t];
    if (tube->exists)
        return;
    model_forget_tube(t);
    tube->exists = true;
    tube->number = ++model.numbers;
    tube->settings = model.defaults;
    tube->settings.given = 0;
}

void m_start(const struct job_settings *defaults, bool stored)
{
    memset(&model, 0, sizeof(model));
    model.defaults = *defaults;
    model.stored = stored;
    for (int t = 0; t < M_TUBES; t++) {
        for (int n = 0; n < M_KEYS; n++)
            model.tubes[t].keys[n].time_ms = model.tubes[t].keys[n].kept_ms = M_NO_TIME;
        for (int n = 0; n < M_ROOTS; n++)
            model.tubes[t].roots[n].time_ms = M_NO_TIME;
    }
    model_make_tube(0);
}

void m_set_time(int64_t mono_ns, int64_t wall_ms)
{
    model.now.mono_ns = mono_ns;
    model.now.unix_s = wall_ms / 1000;
    model.wall_ms = wall_ms;
    for (int t = 0; t < M_TUBES; t++) {
        for (int n = 0; n < M_KEYS; n++) {
            if (wall_ms < model.tubes[t].keys[n].lowest_ms)
                model.tubes[t].keys[n].lowest_ms = wall_ms;
        }
    }
}

void m_sweep(void)
{
    bool needed[M_TUBES] = {true}; /* default */
    EACH_JOB(job)
    needed[job->tube] = true;
    for (int c = 0; c < M_CLIENTS; c++) {
        const struct m_client *client = &model.clients[c];
        if (!client->exists)
            continue;
        needed[client->used] = true;
        for (int n = 0; n < client->watch_count; n++)
            needed[client->watched[n]] = true;
        for (int n = 0; client->wait == M_WAITS && n < client->named_count; n++)
            needed[client->named[n]] = true;
    }
    for (int t = 0; t < M_TUBES; t++) {
        if (!needed[t] && !model.tubes[t].settings.given)
            model_forget_tube(t);
    }
}

/* ---- questions ------------------------------------------------------------------------------- */

struct m_job *m_find(uint64_t id)
{
    EACH_JOB(job)
    {
        if (job->id == id)
            return job;
    }
    return NULL;
}

uint32_t m_body_len(uint64_t id)
{
    return (uint32_t)(id % (M_BODY_MAX + 1));
}

unsigned m_count(int tube, enum job_state state)
{
    unsigned count = 0;
    EACH_JOB(job)
    count += job->tube == tube && job->now.state == state;
    return count;
}

unsigned model_jobs_in(int tube)
{
    unsigned count = 0;
    EACH_JOB(job)
    count += job->tube == tube;
    return count;
}

bool model_is_read_only(int tube)
{
    return model.tubes[tube].settings.read_only[0] != '\0';
}

/* ---- keys and roots -------------------------------------------------------------------------- */

/* The clock by which is forgotten what is remembered. */
static int64_t memory_ns(void)
{
    return model.stored ? model.wall_ms * NS_PER_MS : model.now.mono_ns;
}

unsigned m_key_jobs(int tube, int key)
{
    unsigned count = 0;
    EACH_JOB(job)
    count += job->tube == tube && job->key == key;
    return count;
}

void model_forget_key(int tube, int key)
{
    struct m_mark *mark = &model.tubes[tube].keys[key];
    if (m_key_jobs(tube, key) == 0 && mark->until_ns <= memory_ns())
        mark->time_ms = mark->kept_ms = M_NO_TIME;
}

int64_t m_executed(int tube, int key)
{
    struct m_mark *mark = &model.tubes[tube].keys[key];
    if (model.stored && m_key_jobs(tube, key) == 0)
        mark->time_ms = mark->kept_ms;
    if (model.stored)
        model_forget_key(tube, key);
    return mark->time_ms > model.wall_ms ? M_NO_TIME : mark->time_ms; /* the clock was set back */
}

int64_t m_newest(int tube, int root)
{
    return model.tubes[tube].roots[root].time_ms;
}

bool model_is_of_old_root(const struct m_job *job)
{
    return job->root != M_NONE && m_newest(job->tube, job->root) > job->now.root_ms;
}

bool model_is_stale(const struct m_job *job)
{
    return model_is_of_old_root(job) ||
           (job->key != M_NONE && m_executed(job->tube, job->key) > job->now.at_ms);
}

bool model_is_good(const struct m_job *job)
{
    return job->now.state == JOB_READY && !job->doomed && !model_is_stale(job);
}

static bool has_key(const struct m_job *job)
{
    return job->now.state == JOB_READY || job->now.state == JOB_DELAYED;
}

bool model_is_due(const struct m_job *job)
{
    return job->doomed || (has_key(job) && model_is_of_old_root(job));
}

struct m_job *model_twin_of(int tube, int key, int root)
{
    struct m_job *twin = NULL;
    EACH_JOB(job)
    {
        if (job->tube == tube && job->key == key && has_key(job) && !job->doomed &&
            (job->root == M_NONE || job->root == root) && !model_is_stale(job) &&
            (!twin || job->id < twin->id))
            twin = job;
    }
    return twin;
}

void model_learn_root(int tube, int root, int64_t time_ms)
{
    if (root == M_NONE || time_ms < m_newest(tube, root))
        return;
    struct m_mark *mark = &model.tubes[tube].roots[root];
    mark->time_ms = time_ms;
    mark->until_ns = memory_ns() + INT64_C(28) * 86400 * NS_PER_S;
}

void model_forget_ahead(int tube, int key)
{
    struct m_mark *mark = &model.tubes[tube].keys[key];
    mark->time_ms = mark->kept_ms = m_executed(tube, key);
}

void model_execute(const struct m_job *job)
{
    if (job->key == M_NONE || job->now.began_ms > model.wall_ms)
        return;
    struct m_mark *mark = &model.tubes[job->tube].keys[job->key];
    int64_t before_ms = m_executed(job->tube, job->key);
    mark->time_ms = job->now.began_ms > before_ms ? job->now.began_ms : before_ms;
    mark->kept_ms = mark->time_ms;
    mark->lowest_ms = model.wall_ms;
}

int64_t m_marks_due(void)
{
    int64_t at_ns = INT64_MAX;
    EACH_JOB(job)
    at_ns = model_is_due(job) ? 0 : at_ns;
    for (int t = 0; t < M_TUBES && !model.stored; t++) {
        for (int n = 0; n < M_KEYS + M_ROOTS; n++) {
            const struct m_mark *mark =
                n < M_KEYS ? &model.tubes[t].keys[n] : &model.tubes[t].roots[n - M_KEYS];
            if (mark->time_ms != M_NO_TIME && (n >= M_KEYS || m_key_jobs(t, n) == 0) &&
                mark->until_ns < at_ns)
                at_ns = mark->until_ns;
        }
    }
    return at_ns;
}

/* ---- what comes next ------------------------------------------------------------------------- */

bool model_is_closed(int tube)
{
    return model.tubes[tube].paused_until_ns != 0 || model_is_read_only(tube);
}

bool model_comes_before(const struct m_job *a, const struct m_job *b)
{
    return a->now.pri < b->now.pri || (a->now.pri == b->now.pri && a->id < b->id);
}

static struct m_job *next_of(int tube, uint64_t chosen, bool (*is)(const struct m_job *job))
{
    enum job_order order = model.tubes[tube].settings.is[JOB_SETTING_ORDER];
    struct m_job *best = NULL;
    EACH_JOB(job)
    {
        if (job->tube != tube || !is(job))
            continue;
        if (order == JOB_ORDER_RANDOM && job->id == chosen)
            return job;
        if (!best || (order == JOB_ORDER_FIFO ? job->id < best->id : model_comes_before(job, best)))
            best = job;
    }
    AGREE(!best || order != JOB_ORDER_RANDOM);
    return best;
}

struct m_job *model_next_job(int tube, uint64_t chosen)
{
    return next_of(tube, chosen, model_is_good);
}

static bool is_ready(const struct m_job *job)
{
    return job->now.state == JOB_READY && !job->doomed;
}

struct m_job *m_peek(int tube, uint64_t chosen)
{
    return next_of(tube, chosen, is_ready);
}

struct m_job *m_first(int tube, enum job_peek what)
{
    struct m_job *best = NULL;
    EACH_JOB(job)
    {
        if (job->tube != tube || job->doomed)
            continue;
        if (what == JOB_PEEK_DELAYED && job->now.state == JOB_DELAYED &&
            (!best || job->now.until_ns < best->now.until_ns ||
             (job->now.until_ns == best->now.until_ns && job->id < best->id)))
            best = job;
        if (what == JOB_PEEK_BURIED &&
            (job->now.state == JOB_BURIED || job->now.state == JOB_ABANDONED) &&
            (!best || job->now.buried_ns < best->now.buried_ns))
            best = job;
    }
    return best;
}

bool model_has_ready(int tube)
{
    EACH_JOB(job)
    {
        if (job->tube == tube && model_is_good(job))
            return true;
    }
    return false;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t m_prune_at(const struct m_job *job)
{
    uint32_t after_s = model.tubes[job->tube].settings.is[JOB_SETTING_PRUNE];
    if (job->now.state != JOB_ABANDONED || after_s == 0 || job->doomed)
        return INT64_MAX;
    return job->now.buried_ns + (int64_t)after_s * NS_PER_S;
}

int64_t m_tube_due(int tube)
{
    int64_t at_ns = INT64_MAX;
    if (!model.tubes[tube].exists)
        return at_ns;
    if (model.tubes[tube].paused_until_ns)
        at_ns = model.tubes[tube].paused_until_ns;
    EACH_JOB(job)
    {
        if (job->tube == tube && job->now.state == JOB_DELAYED && !job->doomed)
            at_ns = earlier(at_ns, job->now.until_ns);
        if (job->tube == tube)
            at_ns = earlier(at_ns, m_prune_at(job));
    }
    return at_ns;
}

int64_t m_client_due(int client)
{
    int64_t at_ns = INT64_MAX;
    EACH_JOB(job)
    {
        if (job->now.state == JOB_RESERVED && job->holder == client)
            at_ns = earlier(at_ns, job->now.until_ns);
    }
    return at_ns;
}

/* ---- states ---------------------------------------------------------------------------------- */

int64_t model_after(uint32_t seconds)
{
    return model.now.mono_ns + (int64_t)seconds * NS_PER_S;
}

void model_remove_job(struct m_job *job)
{
    int tube = job->tube, key = job->key;
    if (model.stored && key != M_NONE && m_key_jobs(tube, key) == 1)
        model_forget_ahead(tube, key);
    *job = model.jobs[--model.job_count];
    if (key == M_NONE || m_key_jobs(tube, key) > 0)
        return;
    model.tubes[tube].keys[key].until_ns =
        memory_ns() + (int64_t)model.tubes[tube].settings.is[JOB_SETTING_REMEMBER] * NS_PER_S;
    model_forget_key(tube, key);
}

bool m_may_go(const struct m_job *job)
{
    return job->doomed || model_is_stale(job) || m_prune_at(job) <= model.now.mono_ns;
}

void m_gone(struct m_job *job)
{
    model.tubes[job->tube].dropped += job->now.state != JOB_ABANDONED;
    model_remove_job(job);
}

int64_t model_wall_of(int64_t mono_ns)
{
    return model.wall_ms * NS_PER_MS + (mono_ns - model.now.mono_ns);
}

void model_keep(struct m_job *job)
{
    job->kept = job->now;
    job->kept.until_ns = model_wall_of(job->now.until_ns);
}

uint32_t model_most_tries(const struct m_job *job)
{
    return job->tries_max == JOB_TRIES_OF_TUBE
               ? model.tubes[job->tube].settings.is[JOB_SETTING_TRIES]
               : job->tries_max;
}

void model_take(struct m_job *job, int client)
{
    struct m_tube *tube = &model.tubes[job->tube];
    uint32_t most = model_most_tries(job);
    bool leases = tube->settings.is[JOB_SETTING_CLAIM] == JOB_CLAIM_LEASE;
    bool keeps = job->now.state != JOB_READY || most > 0 || leases;
    AGREE(!model_is_stale(job));
    job->doomed = false;
    job->now.state = JOB_RESERVED;
    job->now.began_ms = model.wall_ms;
    job->holder = client;
    job->now.until_ns = model_after(job->ttr_s);
    job->reservation = ++model.reservations;
    job->old_token = job->now.token ? job->now.token : job->old_token;
    job->now.token = 0;
    job->now.reserves++;
    job->now.tries++;
    job->now.lease = leases;
    job->last_try = most > 0 && job->now.tries >= most;
    tube->claims++;
    if (keeps)
        model_keep(job);
}

bool m_waits_for(const struct m_client *client, int tube)
{
    if (!client->exists || client->wait != M_WAITS)
        return false;
    const int *tubes = client->named_count > 0 ? client->named : client->watched;
    int count = client->named_count > 0 ? client->named_count : client->watch_count;
    for (int n = 0; n < count; n++) {
        if (tubes[n] == tube)
            return true;
    }
    return false;
}

/* The one that has waited longest; M_NONE: nobody waits. */
static int first_waiting(int tube)
{
    int first = M_NONE;
    for (int c = 0; c < M_CLIENTS; c++) {
        if (m_waits_for(&model.clients[c], tube) &&
            (first == M_NONE || model.clients[c].age < model.clients[first].age))
            first = c;
    }
    return first;
}

void model_serve(int tube)
{
    int c;
    while (!model_is_closed(tube) && (c = first_waiting(tube)) != M_NONE && model_has_ready(tube)) {
        struct m_client *client = &model.clients[c];
        struct m_job *job = model_next_job(tube, model_served(c));
        model_take(job, c);
        client->wait = M_SERVED;
        client->turn = tube;
        client->served.id = job->id;
        client->served.reservation = job->reservation;
        client->served.tries = job->now.tries;
        client->served.tube = tube;
    }
}

void m_plan_burial(void)
{
    int64_t next = model.last_burial + 1;
    model.last_burial = model.now.mono_ns > next ? model.now.mono_ns : next;
    int64_t wall_ns = model_wall_of(model.last_burial);
    if (wall_ns <= model.last_burial_wall && wall_ns > model.last_burial_wall - NS_PER_S)
        wall_ns = model.last_burial_wall + 1;
    model.last_burial_wall = wall_ns;
}

void model_bury(struct m_job *job, enum job_state state)
{
    m_plan_burial();
    job->now.buried_ns = model.last_burial;
    job->now.buried_wall_ns = model.last_burial_wall;
    job->now.state = state;
}

bool model_give_back(struct m_job *job, uint32_t delay_s)
{
    if (job->last_try) {
        model_bury(job, JOB_ABANDONED);
        model.tubes[job->tube].abandoned++;
        model_keep(job);
        return true;
    }
    job->now.state = delay_s > 0 ? JOB_DELAYED : JOB_READY;
    job->now.until_ns = model_after(delay_s);
    return false;
}
