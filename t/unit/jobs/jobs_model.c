/* jobs_model.c - see jobs_model.h. */
#include "t/unit/jobs/jobs_model.h"

#include "t/unit/random.h"

#include <string.h>

struct model model;
uint64_t model_step;
uint64_t (*model_served)(int client);

#define EACH_JOB(job)                                                                              \
    for (struct m_job *job = model.jobs; job < model.jobs + model.job_count; job++)

struct bytes m_name(int tube)
{
    static const char *const names[M_TUBES - 1] = {"default", "a", "b", "wiki/a", "wiki/b", "c"};
    static char longest[JOBS_TUBE_MAX];
    if (tube < M_TUBES - 1)
        return bytes_of(names[tube]);
    memset(longest, 'n', sizeof(longest));
    return bytes_at(longest, sizeof(longest));
}

static void make_tube(int t)
{
    if (model.tubes[t].exists)
        return;
    model.tubes[t] =
        (struct m_tube){.exists = true, .number = ++model.numbers, .settings = model.defaults};
    model.tubes[t].settings.given = 0;
}

void m_start(const struct job_settings *defaults, struct moment now)
{
    memset(&model, 0, sizeof(model));
    model.defaults = *defaults;
    model.now = now;
    make_tube(0);
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
            model.tubes[t] = (struct m_tube){.exists = false};
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
    count += job->tube == tube && job->state == state;
    return count;
}

static unsigned jobs_in(int tube)
{
    unsigned count = 0;
    EACH_JOB(job)
    count += job->tube == tube;
    return count;
}

static bool is_read_only(int tube)
{
    return model.tubes[tube].settings.read_only[0] != '\0';
}

bool m_is_closed(int tube)
{
    return model.tubes[tube].paused_until_ns != 0 || is_read_only(tube);
}

static bool comes_before(const struct m_job *a, const struct m_job *b)
{
    return a->pri < b->pri || (a->pri == b->pri && a->id < b->id);
}

struct m_job *m_next(int tube, uint64_t chosen)
{
    enum job_order order = model.tubes[tube].settings.order;
    struct m_job *best = NULL;
    EACH_JOB(job)
    {
        if (job->tube != tube || job->state != JOB_READY)
            continue;
        if (order == JOB_ORDER_RANDOM && job->id == chosen)
            return job;
        if (!best || (order == JOB_ORDER_FIFO ? job->id < best->id : comes_before(job, best)))
            best = job;
    }
    AGREE(!best || order != JOB_ORDER_RANDOM);
    return best;
}

struct m_job *m_first(int tube, enum job_peek what)
{
    struct m_job *best = NULL;
    EACH_JOB(job)
    {
        if (job->tube != tube)
            continue;
        if (what == JOB_PEEK_DELAYED && job->state == JOB_DELAYED &&
            (!best || job->until_ns < best->until_ns ||
             (job->until_ns == best->until_ns && job->id < best->id)))
            best = job;
        if (what == JOB_PEEK_BURIED && (job->state == JOB_BURIED || job->state == JOB_ABANDONED) &&
            (!best || job->buried_ns < best->buried_ns))
            best = job;
    }
    return best;
}

static bool has_ready(int tube)
{
    return m_count(tube, JOB_READY) > 0;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t prune_at(const struct m_job *job)
{
    uint32_t after_s = model.tubes[job->tube].settings.prune_s;
    if (job->state != JOB_ABANDONED || after_s == 0)
        return INT64_MAX;
    return job->buried_ns + (int64_t)after_s * NS_PER_S;
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
        if (job->tube == tube && job->state == JOB_DELAYED)
            at_ns = earlier(at_ns, job->until_ns);
        if (job->tube == tube)
            at_ns = earlier(at_ns, prune_at(job));
    }
    return at_ns;
}

int64_t m_client_due(int client)
{
    int64_t at_ns = INT64_MAX;
    EACH_JOB(job)
    {
        if (job->state == JOB_RESERVED && job->holder == client)
            at_ns = earlier(at_ns, job->until_ns);
    }
    return at_ns;
}

/* ---- states ---------------------------------------------------------------------------------- */

static int64_t after(uint32_t seconds)
{
    return model.now.mono_ns + (int64_t)seconds * NS_PER_S;
}

static void remove_job(struct m_job *job)
{
    *job = model.jobs[--model.job_count];
}

static void take(struct m_job *job, int client)
{
    struct m_tube *tube = &model.tubes[job->tube];
    uint32_t most = job->tries_max == JOB_TRIES_OF_TUBE ? tube->settings.tries : job->tries_max;
    job->state = JOB_RESERVED;
    job->holder = client;
    job->until_ns = after(job->ttr_s);
    job->reservation = ++model.reservations;
    job->old_token = job->token ? job->token : job->old_token;
    job->token = 0;
    job->reserves++;
    job->tries++;
    job->lease = tube->settings.claim == JOB_CLAIM_LEASE;
    job->last_try = most > 0 && job->tries >= most;
    tube->claims++;
}

static bool waits_for(const struct m_client *client, int tube)
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
        if (waits_for(&model.clients[c], tube) &&
            (first == M_NONE || model.clients[c].age < model.clients[first].age))
            first = c;
    }
    return first;
}

static void serve(int tube)
{
    int c;
    while (!m_is_closed(tube) && (c = first_waiting(tube)) != M_NONE && has_ready(tube)) {
        struct m_client *client = &model.clients[c];
        struct m_job *job = m_next(tube, model_served(c));
        take(job, c);
        client->wait = M_SERVED;
        client->turn = tube;
        client->served.id = job->id;
        client->served.reservation = job->reservation;
        client->served.tries = job->tries;
        client->served.tube = tube;
    }
}

static void bury(struct m_job *job, enum job_state state)
{
    int64_t next = model.last_burial + 1;
    model.last_burial = model.now.mono_ns > next ? model.now.mono_ns : next;
    job->buried_ns = model.last_burial;
    job->state = state;
}

/* A reservation ends. Returns true when it was the last try. */
static bool give_back(struct m_job *job, uint32_t delay_s)
{
    if (job->last_try) {
        bury(job, JOB_ABANDONED);
        model.tubes[job->tube].abandoned++;
        return true;
    }
    job->state = delay_s > 0 ? JOB_DELAYED : JOB_READY;
    job->until_ns = after(delay_s);
    return false;
}

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
            if (job->state == JOB_RESERVED && job->holder == client &&
                (!first || job->reservation < first->reservation))
                first = job;
        }
        if (!first)
            break;
        int tube = first->tube;
        if (first->lease)
            first->holder = M_LEASES;
        else
            (void)give_back(first, 0);
        serve(tube);
    }
    model.clients[client].exists = false;
}

void m_use(int client, int tube)
{
    make_tube(tube);
    model.clients[client].used = tube;
}

void m_watch(int client, int tube)
{
    struct m_client *c = &model.clients[client];
    make_tube(tube);
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

enum jobs_status m_put(int client, const struct job_put *puts, size_t count, size_t *failed_r)
{
    int tube = model.clients[client].used;
    for (int t = 0; puts->tube.len > 0 && t < M_TUBES; t++) {
        if (bytes_equal(m_name(t), puts->tube))
            tube = t;
    }
    make_tube(tube);
    struct m_tube *to = &model.tubes[tube];
    *failed_r = 0;
    if (is_read_only(tube))
        return JOBS_READ_ONLY;
    unsigned there = jobs_in(tube);
    if (to->settings.limit > 0 && there + count > to->settings.limit) {
        *failed_r = to->settings.limit > there ? to->settings.limit - there : 0;
        return JOBS_TUBE_FULL;
    }
    for (size_t n = 0; n < count; n++) {
        struct m_job *job = &model.jobs[model.job_count++];
        AGREE(model.job_count <= M_JOBS);
        *job = (struct m_job){.id = puts[n].id,
                              .tube = tube,
                              .state = puts[n].delay_s > 0 ? JOB_DELAYED : JOB_READY,
                              .pri = puts[n].pri,
                              .delay_s = puts[n].delay_s,
                              .ttr_s = puts[n].ttr_s > 0 ? puts[n].ttr_s : 1,
                              .tries_max = puts[n].tries,
                              .put_s = model.now.unix_s,
                              .until_ns = after(puts[n].delay_s)};
        to->total_jobs++;
        model.total_jobs++;
    }
    serve(tube);
    return JOBS_OK;
}

/* True if some ready job of a tube in random order comes after this one. */
static bool may_be_after(int tube, const struct m_job *best)
{
    EACH_JOB(job)
    {
        if (job->tube == tube && job->state == JOB_READY && comes_before(best, job))
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
        if (m_is_closed(tube) || !has_ready(tube))
            continue;
        any = true;
        AGREE(best && best->state == JOB_READY);
        if (best->tube == tube)
            AGREE(m_next(tube, chosen) == best);
        else if (model.tubes[tube].settings.order == JOB_ORDER_RANDOM)
            AGREE(may_be_after(tube, best));
        else
            AGREE(comes_before(best, m_next(tube, 0)));
    }
    AGREE(any == (chosen != 0));
    if (any) {
        bool watched = false;
        for (int n = 0; n < c->watch_count; n++)
            watched = watched || (c->watched[n] == best->tube && !m_is_closed(best->tube));
        AGREE(watched);
        take(best, client);
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
        make_tube(tubes[n]);
    }
    if (tube_count == 0) {
        orders = c->watch_count;
        memcpy(order, c->watched, sizeof(order));
    }
    for (int n = 0; n < orders; n++) {
        closed += is_read_only(order[n]);
        if (order[n] == c->turn)
            first = n + 1;
    }
    if (closed == orders)
        return JOBS_READ_ONLY;
    for (int n = first, idle = 0; taken < count && idle < orders; n++) {
        int tube = order[n % orders];
        idle++;
        if (m_is_closed(tube) || !has_ready(tube))
            continue;
        idle = 0;
        /* An answer ends when it is long; only then is one missing that is there. */
        struct m_job *job = taken < chosen_count ? m_next(tube, chosen[taken]) : NULL;
        if (!job) {
            AGREE(taken > 0 && bytes + JOBS_LINE + m_name(tube).len + M_BODY_MAX > answer_max);
            break;
        }
        AGREE(job->id == chosen[taken]);
        bytes += JOBS_LINE + m_name(tube).len + m_body_len(job->id);
        AGREE(taken == 0 || bytes <= answer_max);
        take(job, client);
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
    if (!job || job->state == JOB_RESERVED || is_read_only(job->tube))
        return JOBS_NOT_FOUND;
    take(job, client);
    return JOBS_OK;
}

void m_ack(struct m_job *job)
{
    model.tubes[job->tube].acks++;
    remove_job(job);
}

enum jobs_status m_delete(int client, uint64_t id)
{
    struct m_job *job = m_find(id);
    if (!job || (job->state == JOB_RESERVED && job->holder != client))
        return JOBS_NOT_FOUND;
    model.tubes[job->tube].cmd_delete++;
    if (job->state == JOB_RESERVED)
        m_ack(job);
    else
        remove_job(job);
    return JOBS_OK;
}

enum jobs_status m_release(struct m_job *job, uint32_t pri, uint32_t delay_s)
{
    job->pri = pri;
    if (give_back(job, delay_s))
        return JOBS_BURIED;
    job->delay_s = delay_s;
    job->releases++;
    serve(job->tube);
    return JOBS_OK;
}

enum jobs_status m_bury(int client, uint64_t id, uint32_t pri)
{
    struct m_job *job = m_find(id);
    if (!job || job->state != JOB_RESERVED || job->holder != client)
        return JOBS_NOT_FOUND;
    job->pri = pri;
    job->buries++;
    bury(job, JOB_BURIED);
    return JOBS_OK;
}

void m_touch(struct m_job *job)
{
    job->until_ns = after(job->ttr_s);
}

static void kick(struct m_job *job)
{
    job->state = JOB_READY;
    job->tries = 0;
    job->kicks++;
    serve(job->tube);
}

uint32_t m_kick(int client, uint32_t bound)
{
    int tube = model.clients[client].used;
    uint32_t kicked = 0;
    if (is_read_only(tube))
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
    if (!job || job->state == JOB_READY || job->state == JOB_RESERVED || is_read_only(job->tube))
        return JOBS_NOT_FOUND;
    kick(job);
    return JOBS_OK;
}

/* ---- tubes ----------------------------------------------------------------------------------- */

enum jobs_status m_pause(int tube, uint32_t seconds)
{
    struct m_tube *t = &model.tubes[tube];
    if (!t->exists)
        return JOBS_NOT_FOUND;
    t->cmd_pause++;
    t->pause_s = seconds;
    t->paused_until_ns = seconds > 0 ? after(seconds) : 0;
    serve(tube);
    return JOBS_OK;
}

#define SET(NUMBER, field)                                                                         \
    do {                                                                                           \
        if (settings->given & 1u << (NUMBER)) {                                                    \
            own->field = settings->field;                                                          \
            own->given &= ~(1u << (NUMBER));                                                       \
            if (own->field != model.defaults.field)                                                \
                own->given |= 1u << (NUMBER);                                                      \
        }                                                                                          \
    } while (0)

void m_set(int tube, const struct job_settings *settings)
{
    make_tube(tube);
    struct job_settings *own = &model.tubes[tube].settings;
    SET(JOB_SETTING_ORDER, order);
    SET(JOB_SETTING_CLAIM, claim);
    SET(JOB_SETTING_TRIES, tries);
    SET(JOB_SETTING_LIMIT, limit);
    SET(JOB_SETTING_PRUNE, prune_s);
    SET(JOB_SETTING_REMEMBER, remember_s);
    if (settings->given & 1u << JOB_SETTING_READ_ONLY) {
        memcpy(own->read_only, settings->read_only, sizeof(own->read_only));
        own->given &= ~(1u << JOB_SETTING_READ_ONLY);
        if (strcmp(own->read_only, model.defaults.read_only) != 0)
            own->given |= 1u << JOB_SETTING_READ_ONLY;
    }
    serve(tube);
}

enum jobs_status m_clear(int tube, unsigned state, uint64_t *deleted_r)
{
    *deleted_r = 0;
    if (!model.tubes[tube].exists)
        return JOBS_NOT_FOUND;
    if (is_read_only(tube))
        return JOBS_READ_ONLY;
    for (unsigned n = model.job_count; n-- > 0;) {
        struct m_job *job = &model.jobs[n];
        bool is = state == JOBS_ALL     ? job->state != JOB_RESERVED
                  : state == JOB_BURIED ? job->state == JOB_BURIED || job->state == JOB_ABANDONED
                                        : job->state == state;
        if (job->tube != tube || !is)
            continue;
        remove_job(job);
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
        if (job->tube == tube && job->state == JOB_DELAYED && job->until_ns <= now_ns)
            job->state = JOB_READY;
        if (job->tube == tube && prune_at(job) <= now_ns)
            remove_job(job);
    }
    serve(tube);
}

static void run_client(int client)
{
    for (;;) {
        struct m_job *first = NULL;
        EACH_JOB(job)
        {
            if (job->state == JOB_RESERVED && job->holder == client &&
                job->until_ns <= model.now.mono_ns &&
                (!first || job->until_ns < first->until_ns ||
                 (job->until_ns == first->until_ns && job->id < first->id)))
                first = job;
        }
        if (!first)
            return;
        int tube = first->tube;
        first->timeouts++;
        model.timeouts++;
        if (!give_back(first, 0))
            model.tubes[tube].recycled++;
        serve(tube);
    }
}

void m_run(void)
{
    for (;;) {
        int64_t first_ns = model.now.mono_ns;
        int which = M_NONE;
        for (int n = 0; n < M_TUBES + M_CLIENTS + 1; n++) {
            int64_t due_ns = n < M_TUBES ? m_tube_due(n) : m_client_due(n - M_TUBES);
            if (due_ns < first_ns || (due_ns == first_ns && which == M_NONE)) {
                first_ns = due_ns;
                which = n;
            }
        }
        if (which == M_NONE)
            return;
        if (which < M_TUBES)
            run_tube(which);
        else
            run_client(which - M_TUBES);
    }
}
