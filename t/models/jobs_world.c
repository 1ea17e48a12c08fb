/* jobs_world.c - see jobs_world.h. */
#include "t/models/jobs_world.h"
#include "t/models/jobs_check.h"

#include "jobs/jobs_commit_inside.h"
#include "jobs/jobs_state.h"
#include "t/unit/engine/faults.h"
#include "t/unit/jobs/commit_rig.h"
#include "t/unit/jobs/fake_store.h"
#include "t/unit/jobs/submit.h"
#include "t/unit/random.h"

#include <limits.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LETTERS = 1 << 16 };

struct rng world_random;
static struct rng *const rng = &world_random;

static struct world_config config;
static struct jobs *jobs;
static struct jobs_client *clients[M_CLIENTS];
static struct jobs_effects effects;
static struct mail *letters[LETTERS]; /* on their way */
static unsigned letter_count;
static uint64_t base_memory, refusals, store_failures;
static int64_t wall_offset_s;
static bool was_set_back;
static struct job_view views[JOBS_STEP];
static struct fake_disk *disk; /* of the store; NULL: none */

unsigned long world_faults(void)
{
    return faults;
}

uint64_t world_refusals(void)
{
    return refusals;
}

uint64_t world_store_failures(void)
{
    return store_failures;
}

static uint32_t below(uint32_t bound)
{
    return rng_below(rng, bound);
}

static bool one_in(uint32_t n)
{
    return rng_one_in(rng, n);
}

static bool dice(void)
{
    return one_in(6);
}

static uint64_t served_of(int c)
{
    return clients[c]->served.id;
}

/* Everything is done under the world's faults, so what must not fail is seen not to. */
static void begin_call(void)
{
    fault_dice = config.faulty ? dice : NULL;
}

/* With a store, nothing is under way after a call. */
static void end_call(void)
{
    struct mail *mail;
    fault_dice = NULL;
    rig_send(&effects);
    if (config.store)
        rig_commit();
    while ((mail = mail_list_take(&rig.letters))) {
        AGREE(letter_count < LETTERS);
        letters[letter_count++] = mail;
    }
    jobs_effects_init(&effects);
}

#define CALL(call)                                                                                 \
    do {                                                                                           \
        begin_call();                                                                              \
        call;                                                                                      \
        end_call();                                                                                \
    } while (0)

/* The same for what may end many last tries at once. With a store each is an operation; the engine
 * waits a second when these do not fit into the memory, of which the model does not know. */
#define CALL_THAT_ENDS(call)                                                                       \
    do {                                                                                           \
        bool limited = disk && config.memory_limit != UINT64_MAX;                                  \
        if (limited)                                                                               \
            jobs_begin_load(jobs); /* whatever the limit */                                        \
        CALL(call);                                                                                \
        if (limited)                                                                               \
            jobs_end_load(jobs);                                                                   \
    } while (0)

/* ---- requests --------------------------------------------------------------------------------
 *
 * With a store, they are committed at once. Some commits fail: then the answer is JOBS_NO_MEMORY,
 * and nothing has changed.
 */

static struct ask *new_ask(int c, enum job_op_kind kind)
{
    rig.jobs = jobs;
    return ask_new(c == M_NONE ? NULL : clients[c], kind);
}

static enum jobs_status submit(struct ask *ask)
{
    static const enum job_store_status ways[] = {JOB_STORE_FULL, JOB_STORE_IO, JOB_STORE_NO_MEMORY};
    /* What fails a put is tried again without it. */
    uint64_t failed = rig.failed_commits, times = ask->op.kind == JOB_OP_PUT ? 2 : 1;
    bool fails = config.fails && one_in(10);
    if (fails)
        fake_disk_fail(disk, FAKE_COMMIT, 1, times, ways[below(ARRAY_SIZE(ways))]);
    if (config.store)
        CALL(ask_submit(ask));
    else
        CALL(ask->status = jobs_submit(jobs, &ask->op, model.now, &effects));
    if (fails)
        fake_disk_fail(disk, FAKE_COMMIT, 1, 0, JOB_STORE_OK);
    AGREE(ask->done || !config.store);
    ask->done = true;
    if ((config.memory_limit == UINT64_MAX && !config.faulty) || job_op_need(&ask->op) == JOBS_ENDS)
        AGREE((rig.failed_commits > failed) == (ask->status == JOBS_NO_MEMORY));
    store_failures += rig.failed_commits > failed;
    return ask->status;
}

/* True when a call was refused for want of memory, or by the store, which changes nothing. */
static bool is_refused(enum jobs_status status)
{
    if (status != JOBS_NO_MEMORY)
        return false;
    AGREE(config.faulty || config.memory_limit != UINT64_MAX || config.fails);
    refusals++;
    return true;
}

/* A change of one job. A reservation is in views[0]. */
static enum jobs_status act(enum job_verb verb, int c, uint64_t id, uint64_t token, uint32_t pri,
                            uint32_t delay_s)
{
    rig.jobs = jobs;
    struct ask *ask = ask_act(c == M_NONE ? NULL : clients[c], verb, id);
    ask->op.act.token = token;
    ask->op.act.pri = pri;
    ask->op.act.delay_s = delay_s;
    enum jobs_status status = submit(ask);
    views[0] = ask->view;
    ask->view.body = NULL;
    ask_free(&ask);
    bool gives_back = verb == JOB_RELEASE || verb == JOB_NACK;
    if (config.fails && status == JOBS_NO_MEMORY &&
        (verb == JOB_BURY || (gives_back && m_find(id)->last_try)))
        m_plan_burial();
    return status;
}

/* ---- views ----------------------------------------------------------------------------------- */

/* Only the store may have it. */
static void check_body(struct job_view *view)
{
    AGREE(view->body_len == m_body_len(view->id));
    if (!view->body && config.store) {
        struct ask *ask = new_ask(M_NONE, JOB_OP_READ);
        ask->op.views = view;
        ask->op.view_count = 1;
        AGREE(submit(ask) == JOBS_OK);
        ask_free(&ask);
    }
    AGREE(view->body && view->body->len == m_body_len(view->id));
    for (uint32_t n = 0; n < view->body->len; n++)
        AGREE(view->body->bytes[n] == (uint8_t)(view->id + n));
}

static void learn_token(struct m_job *job, uint64_t token)
{
    AGREE(token > 0 && token <= JOBS_TOKEN_MAX && token != job->old_token);
    AGREE(job->now.token == 0 || job->now.token == token);
    job->now.token = token;
    if (job->kept.reserves == job->now.reserves)
        job->kept.token = token;
}

/* Compares what is told of a job, and gives it up. */
static void check_view(struct job_view *view, struct m_job *job)
{
    AGREE(job && view->id == job->id);
    AGREE(view->state == job->now.state && view->tries == job->now.tries);
    AGREE(bytes_equal(bytes_at(view->tube.text, view->tube.len), m_name(job->tube)));
    check_body(view);
    if (job->now.state == JOB_RESERVED)
        learn_token(job, view->token);
    else
        AGREE(view->token == 0);
    job_body_drop(jobs, &view->body);
}

/* What a client is told of a wait that has ended, maybe long ago. */
static void check_served(int c, struct job_view *view)
{
    struct m_client *client = &model.clients[c];
    AGREE(client->wait == M_SERVED && view->id == client->served.id);
    AGREE(view->tries == client->served.tries && view->state == JOB_RESERVED);
    AGREE(bytes_equal(bytes_at(view->tube.text, view->tube.len), m_name(client->served.tube)));
    check_body(view);
    struct m_job *job = m_find(view->id);
    if (job && job->now.state == JOB_RESERVED && job->reservation == client->served.reservation)
        learn_token(job, view->token);
    job_body_drop(jobs, &view->body);
    m_end_wait(c);
}

/* ---- comparing ------------------------------------------------------------------------------- */

static uint64_t age_of(int64_t since_ms)
{
    return model.wall_ms > since_ms ? (uint64_t)(model.wall_ms - since_ms) / 1000 : 0;
}

static uint64_t left_of(int64_t at_ns)
{
    int64_t left_ns = at_ns - model.now.mono_ns;
    return left_ns > 0 ? (uint64_t)(left_ns / NS_PER_S) : 0;
}

static void compare_job(const struct m_job *job)
{
    struct job_stats s;
    AGREE(jobs_stats_job(jobs, job->id, model.now, &s) == JOBS_OK);
    AGREE(s.id == job->id && bytes_equal(bytes_of(s.tube), m_name(job->tube)));
    AGREE(s.state == job->now.state && s.pri == job->now.pri && s.delay_s == job->now.delay_s);
    AGREE(s.ttr_s == job->ttr_s && s.age_s == age_of(job->put_ms));
    AGREE(s.reserves == job->now.reserves && s.timeouts == job->now.timeouts);
    AGREE(s.releases == job->now.releases && s.buries == job->now.buries &&
          s.kicks == job->now.kicks);
    bool timed = job->now.state == JOB_RESERVED || job->now.state == JOB_DELAYED;
    AGREE(s.time_left_s == (timed ? left_of(job->now.until_ns) : 0));
}

static void compare_settings(const struct job_settings *a, const struct job_settings *b)
{
    AGREE(a->given == b->given && m_differ(a, b) == 0);
}

static void compare_tube(int t)
{
    const struct m_tube *tube = &model.tubes[t];
    struct tube_stats s;
    enum jobs_status status = jobs_stats_tube(jobs, m_name(t), model.now, &s);
    AGREE((status == JOBS_OK) == tube->exists);
    if (!tube->exists)
        return;
    uint64_t using = 0, watching = 0, waiting = 0, urgent = 0, counts[JOB_STATES] = {0};
    const struct m_job *oldest = NULL;
    for (unsigned n = 0; n < model.job_count; n++) {
        const struct m_job *job = &model.jobs[n];
        if (job->tube != t)
            continue;
        counts[job->now.state]++;
        urgent += job->now.state == JOB_READY && job->now.pri < 1024;
        if (job->now.state == JOB_READY && !job->doomed && (!oldest || job->id < oldest->id))
            oldest = job;
    }
    for (int c = 0; c < M_CLIENTS; c++) {
        const struct m_client *client = &model.clients[c];
        using += client->exists && client->used == t;
        for (int n = 0; client->exists && n < client->watch_count; n++)
            watching += client->watched[n] == t;
        waiting += m_waits_for(client, t);
    }
    AGREE(memcmp(counts, s.states, sizeof(counts)) == 0);
    AGREE(s.urgent == urgent && s.using == using && s.watching == watching && s.waiting == waiting);
    AGREE(s.total_jobs == tube->total_jobs && s.cmd_delete == tube->cmd_delete);
    AGREE(s.cmd_pause == tube->cmd_pause && s.pause_s == tube->pause_s);
    AGREE(s.pause_left_s == (tube->paused_until_ns ? left_of(tube->paused_until_ns) : 0));
    AGREE_ON(s.oldest_ready_s, oldest ? age_of(oldest->put_ms) : 0);
    AGREE(s.claims == tube->claims && s.acks == tube->acks && s.recycled == tube->recycled);
    AGREE(s.abandoned == tube->abandoned && s.dropped == tube->dropped);
    AGREE(s.duplicates == tube->duplicates);
    AGREE(bytes_equal(bytes_of(s.name), m_name(t)));
    compare_settings(&s.settings, &tube->settings);
}

struct names {
    int tubes[M_TUBES];
    int count;
};

/* Adds names of a list, and drops them. */
static void add_names(struct names *names, struct job_body **listed, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        AGREE(names->count < M_TUBES);
        for (int t = 0; t < M_TUBES; t++) {
            if (bytes_equal(bytes_at(listed[n]->bytes, listed[n]->len), m_name(t)))
                names->tubes[names->count++] = t;
        }
        job_body_drop(jobs, &listed[n]);
    }
}

static void compare_names(void)
{
    struct names names = {.count = 0};
    struct job_body *listed[3];
    uint64_t place = 0, last = 0;
    size_t some;
    int count = 0;
    bool all;
    do {
        all = jobs_list_tubes(jobs, &place, 1 + below(3), listed, &some);
        add_names(&names, listed, some);
    } while (!all);
    for (int n = 0; n < names.count; n++) {
        AGREE(model.tubes[names.tubes[n]].exists && model.tubes[names.tubes[n]].number > last);
        last = model.tubes[names.tubes[n]].number;
    }
    for (int t = 0; t < M_TUBES; t++)
        count += model.tubes[t].exists;
    AGREE(count == names.count);
}

static void compare_client(int c)
{
    const struct m_client *client = &model.clients[c];
    char used[JOBS_TUBE_MAX];
    if (!client->exists)
        return;
    AGREE(bytes_equal(bytes_at(used, jobs_used(clients[c], used)), m_name(client->used)));
    struct names names = {.count = 0};
    struct tube_watch *place = NULL;
    struct job_body *listed[3];
    size_t some;
    bool all;
    do {
        all = jobs_list_watched(clients[c], &place, 1 + below(3), listed, &some);
        add_names(&names, listed, some);
    } while (!all);
    AGREE(names.count == client->watch_count);
    AGREE(memcmp(names.tubes, client->watched, sizeof(int) * (size_t)names.count) == 0);
    AGREE(jobs_client_waits(clients[c]) == (client->wait != M_IDLE));
    uint32_t held = 0;
    for (unsigned n = 0; n < model.job_count; n++)
        held += model.jobs[n].now.state == JOB_RESERVED && model.jobs[n].holder == c;
    AGREE(jobs_client_reserved(clients[c]) == held);
    int64_t due_ns = m_client_due(c);
    if (client->wait != M_IDLE && client->claims)
        due_ns = INT64_MAX;
    AGREE(jobs_wait_soon_ns(clients[c]) == (due_ns == INT64_MAX ? due_ns : due_ns - NS_PER_S));
    AGREE(jobs_client_owner(clients[c]) == &clients[c]);
}

static int64_t due_of(int n)
{
    return n < M_TUBES ? m_tube_due(n) : m_client_due(n - M_TUBES);
}

enum { OWNERS = M_TUBES + M_CLIENTS + 1 };

static int64_t first_due(void)
{
    int64_t first_ns = INT64_MAX;
    for (int n = 0; n < OWNERS; n++)
        first_ns = due_of(n) < first_ns ? due_of(n) : first_ns;
    return first_ns;
}

#define SLACK_NS 1000

/* With a store, what is remembered of roots is in memory only now and then. */
static int64_t soon(int64_t at_ns)
{
    return config.store && at_ns > model.now.mono_ns + INT64_C(20) * 86400 * NS_PER_S ? INT64_MAX
                                                                                      : at_ns;
}

static void compare_sums(void)
{
    struct jobs_stats s;
    uint64_t counts[JOB_STATES] = {0}, urgent = 0, waiting = 0, tubes = 0, held = 0;
    int64_t next_ns = first_due();
    jobs_get_stats(jobs, &s);
    for (unsigned n = 0; n < model.job_count; n++) {
        counts[model.jobs[n].now.state]++;
        urgent += model.jobs[n].now.state == JOB_READY && model.jobs[n].now.pri < 1024;
        held += model.jobs[n].now.state == JOB_RESERVED && model.jobs[n].holder != M_LEASES;
    }
    for (int c = 0; c < M_CLIENTS; c++)
        waiting += model.clients[c].exists && model.clients[c].wait == M_WAITS;
    for (int t = 0; t < M_TUBES; t++)
        tubes += model.tubes[t].exists;
    AGREE(memcmp(counts, s.states, sizeof(counts)) == 0);
    AGREE_ON(s.urgent, urgent);
    AGREE(s.waiting == waiting && s.tubes == tubes);
    AGREE(s.total_jobs == model.total_jobs && s.timeouts == model.timeouts);
    AGREE(jobs_held(jobs) == held);
    next_ns = m_marks_due() < next_ns ? m_marks_due() : next_ns;
    int64_t its_ns = soon(jobs_next_ns(jobs));
    /* A root that had stale jobs may be looked at once more, and so may a key whose time was
     * forgotten because the clock was set back. With a store, the times of burials that come
     * together are some ns apart. */
    if (!(config.keyed && (its_ns == 0 || (was_set_back && its_ns < next_ns))) &&
        !(config.store && llabs(its_ns - soon(next_ns)) <= SLACK_NS))
        AGREE_ON(its_ns, soon(next_ns));
}

/* ---- keys, roots and the store --------------------------------------------------------------- */

/* The marks of a key and a root of a tube, which may be gone. */
static void find_marks(int t, int key, int root, struct job_mark **key_r, struct job_mark **root_r)
{
    static uint64_t room[(sizeof(struct job_body) + JOBS_TUBE_MAX) / sizeof(uint64_t) + 1];
    struct job_body *name = (struct job_body *)room;
    const struct tube tube = {.name = name};
    const struct job_put put = {.key = m_key(key), .root = m_root(root)};
    name->len = (uint32_t)m_name(t).len;
    memcpy(name->bytes, m_name(t).data, name->len);
    job_keys_marks(jobs, &tube, &put, key_r, root_r);
}

static void compare_marks(int t)
{
    struct job_mark *key, *root;
    for (int n = 0; n < M_KEYS; n++) {
        struct m_mark *mark = &model.tubes[t].keys[n];
        find_marks(t, n, n % M_ROOTS, &key, &root);
        /* A time ahead of a clock that was set back is forgotten by the next look. */
        if (mark->lowest_ms < mark->time_ms && (!key || key->time_ms == JOB_NO_TIME))
            mark->time_ms = M_NO_TIME;
        AGREE(!key || key->time_ms == mark->time_ms);
        AGREE(!root || root->time_ms == m_newest(t, n % M_ROOTS));
        AGREE(config.store || key || mark->time_ms == M_NO_TIME);
        if (!config.store && key && key->refs == 0)
            AGREE_ON(key->until_ns, mark->until_ns);
        if (!config.store && root)
            AGREE_ON(root->until_ns, model.tubes[t].roots[n % M_ROOTS].until_ns);
        AGREE(config.store || root || m_newest(t, n % M_ROOTS) == M_NO_TIME);
    }
}

/* What the engine deletes when it likes, if it may. After each call. */
static void follow(void)
{
    for (unsigned n = model.job_count; n-- > 0;) {
        struct m_job *job = &model.jobs[n];
        uint32_t handle = job_find(jobs, job->id);
        if (handle == JOB_NONE) {
            AGREE(m_may_go(job));
            m_gone(job);
            continue;
        }
        AGREE(!job_at(jobs, handle)->frozen);
        AGREE(!job_at(jobs, handle)->doomed || m_may_go(job));
        job->doomed = job_at(jobs, handle)->doomed;
    }
    for (int t = 0; t < M_TUBES && config.keyed; t++) {
        if (was_set_back || one_in(M_TUBES))
            compare_marks(t);
    }
}

/* A visitor of what the store has. */
static bool compare_kept(void *count, const struct job_record *r)
{
    const struct m_job *job = m_find(r->id);
    AGREE(job);
    const struct m_changing *now = &job->kept;
    (*(unsigned *)count)++;
    AGREE(bytes_equal(r->tube, m_name(job->tube)) && r->put_ns == job->put_ms * NS_PER_MS);
    AGREE(bytes_equal(r->key, job->key == M_NONE ? bytes_at("", 0) : m_key(job->key)));
    AGREE(bytes_equal(r->root, job->root == M_NONE ? bytes_at("", 0) : m_root(job->root)));
    AGREE(r->ttr_s == job->ttr_s && r->tries_max == job->tries_max);
    AGREE(r->now.state == now->state && r->now.pri == now->pri && r->now.tries == now->tries);
    AGREE(r->now.delay_s == now->delay_s && r->now.reserves == now->reserves);
    AGREE(r->now.timeouts == now->timeouts && r->now.releases == now->releases);
    AGREE(r->now.buries == now->buries && r->now.kicks == now->kicks);
    bool reserved = now->state == JOB_RESERVED, delayed = now->state == JOB_DELAYED;
    AGREE((r->now.token != 0) == reserved &&
          (!now->token || !reserved || r->now.token == now->token));
    if (now->state == JOB_BURIED || now->state == JOB_ABANDONED)
        AGREE(llabs(r->now.due_ns - now->buried_wall_ns) <= NS_PER_MS);
    else
        AGREE(r->now.due_ns == (delayed || (reserved && now->lease) ? now->until_ns : 0));
    AGREE(r->now.at_ns == (job->key != M_NONE ? now->at_ms * NS_PER_MS : 0));
    AGREE(r->now.root_ns == (job->root != M_NONE ? now->root_ms * NS_PER_MS : 0));
    AGREE(r->now.began_ns == (job->key != M_NONE && reserved ? now->began_ms * NS_PER_MS : 0));
    return true;
}

static void compare_stored_body(uint64_t id)
{
    uint8_t body[M_BODY_MAX];
    for (uint32_t n = 0; n < m_body_len(id); n++)
        body[n] = (uint8_t)(id + n);
    AGREE(fake_disk_has_body(disk, id, bytes_at(body, m_body_len(id))));
}

static void compare_memory(enum job_memory_kind kind, int t, struct bytes name, int64_t time_ms,
                           int64_t forget_ns)
{
    struct job_memory kept;
    bool is = fake_disk_memory(disk, kind, m_name(t), name, &kept);
    is = is && (kept.forget_ns == JOB_STORE_KEEP || kept.forget_ns > model.wall_ms * NS_PER_MS);
    AGREE_ON(is ? kept.time_ns / NS_PER_MS : M_NO_TIME, time_ms);
    AGREE_ON(is ? kept.forget_ns : forget_ns, forget_ns);
}

static void compare_disk(void)
{
    struct job_tube_record row;
    unsigned count = 0;
    fake_disk_look(disk, &(struct job_store_visitors){.arg = &count, .job = compare_kept});
    AGREE(count == model.job_count);
    for (unsigned n = 0; n < model.job_count; n++)
        compare_stored_body(model.jobs[n].id);
    for (int t = 0; t < M_TUBES; t++) {
        const struct m_tube *tube = &model.tubes[t];
        for (int n = 0; n < M_KEYS; n++) {
            (void)m_executed(t, n); /* forgets a time that is over */
            compare_memory(JOB_MEMORY_EXECUTION, t, m_key(n), tube->keys[n].kept_ms,
                           m_key_jobs(t, n) > 0 ? JOB_STORE_KEEP : tube->keys[n].until_ns);
        }
        for (int n = 0; n < M_ROOTS; n++)
            compare_memory(JOB_MEMORY_ROOT, t, m_root(n), m_newest(t, n), tube->roots[n].until_ns);
        if (!fake_disk_tube(disk, m_name(t), &row)) {
            AGREE(!tube->exists || (!tube->settings.given && tube->pause_s == 0));
            continue;
        }
        AGREE(tube->exists && row.settings.given == tube->settings.given);
        AGREE((m_differ(&row.settings, &tube->settings) & row.settings.given) == 0);
        AGREE(tube->pause_s == 0 ||
              (row.pause_s == tube->pause_s && row.paused_until_ns == tube->kept_until_ns));
    }
}

void world_compare(void)
{
    compare_sums();
    compare_names();
    for (unsigned n = 0; n < model.job_count; n++)
        compare_job(&model.jobs[n]);
    for (int t = 0; t < M_TUBES; t++)
        compare_tube(t);
    for (int c = 0; c < M_CLIENTS; c++)
        compare_client(c);
    if (disk)
        compare_disk();
    jobs_check(jobs, model.now);
}

static void compare_some(void)
{
    follow();
    m_sweep();
    if (one_in(config.rarely)) {
        world_compare();
        return;
    }
    compare_sums();
    if (model.job_count > 0)
        compare_job(&model.jobs[below(model.job_count)]);
    compare_tube((int)below(M_TUBES));
    compare_client((int)below(M_CLIENTS));
}

/* ---- random choices -------------------------------------------------------------------------- */

static struct m_job *random_job(void)
{
    return model.job_count > 0 ? &model.jobs[below(model.job_count)] : NULL;
}

/* Mostly of one that this client has reserved; sometimes none. */
static uint64_t random_id(int client)
{
    struct m_job *job = NULL;
    for (unsigned n = 0; n < 6; n++) {
        job = random_job();
        if (job && job->now.state == JOB_RESERVED && job->holder == client)
            break;
    }
    return !job || one_in(30) ? below(1 + (uint32_t)atomic_load(&jobs->next_id)) : job->id;
}

static int random_tube(void)
{
    return (int)below(M_TUBES);
}

static uint32_t random_pri(void)
{
    static const uint32_t pris[] = {0, 1, 1023, 1024, 5000, UINT32_MAX};
    return pris[below(ARRAY_SIZE(pris))];
}

static uint32_t random_seconds(void)
{
    return one_in(50) ? UINT32_MAX : one_in(10) ? below(1000) : below(6);
}

/* A client that may send a command; M_NONE: none. */
static int random_idle(void)
{
    for (unsigned tries = 0; tries < 20; tries++) {
        int c = (int)below(M_CLIENTS);
        if (model.clients[c].exists && model.clients[c].wait == M_IDLE)
            return c;
    }
    return M_NONE;
}

static struct job_settings random_settings(void)
{
    struct job_settings s = {.given = below(1u << JOB_SETTINGS)};
    s.is[JOB_SETTING_ORDER] = below(3);
    s.is[JOB_SETTING_CLAIM] = below(2);
    s.is[JOB_SETTING_TRIES] = below(4);
    s.is[JOB_SETTING_LIMIT] = one_in(3) ? 1 + below(12) : 0;
    s.is[JOB_SETTING_PRUNE] = below(3) * 4;
    s.is[JOB_SETTING_REMEMBER] = one_in(2) ? 3600 : below(100);
    if (one_in(4))
        strcpy(s.read_only, "it is being moved");
    if (!one_in(3))
        s.given &= ~(1u << JOB_SETTING_READ_ONLY);
    return s;
}

struct world_config world_config_random(void)
{
    struct world_config c = {.jobs = 2 + below(60), .batch = 6, .memory_limit = UINT64_MAX};
    c.rarely = 8;
    c.many_watches = below(4); /* 0: more than there are tubes */
    if (one_in(40)) {
        c.jobs = 1200 + below(1300);
        c.batch = 150;
        c.rarely = 400;
    }
    c.defaults = job_default_settings;
    if (one_in(4)) {
        c.defaults = random_settings();
        c.defaults.read_only[0] = '\0';
        c.defaults.is[JOB_SETTING_LIMIT] = 0;
    }
    c.defaults.given = 0;
    c.keyed = c.jobs < 1000 && one_in(2);
    return c;
}

/* ---- commands -------------------------------------------------------------------------------- */

static void new_client(int c)
{
    CALL(clients[c] = jobs_client_new(jobs, (uint64_t)c, &clients[c]));
    if (!is_refused(clients[c] ? JOBS_OK : JOBS_NO_MEMORY))
        m_client_new(c);
}

static void end_client(int c)
{
    unsigned budget = UINT_MAX;
    struct ring *at;
    CALL_THAT_ENDS(jobs_client_end(clients[c], model.now, &effects));
    at = ring_last(&jobs->clients); /* the model knows no steps */
    while (at && container_of(at, struct jobs_client, all) != clients[c])
        at = at->prev == &jobs->clients ? NULL : at->prev;
    if (at && clients[c]->ends_on)
        CALL(client_end_on(clients[c], &budget, model.now, &effects));
    m_client_end(c);
    follow();
}

static struct job_body *new_body(uint64_t id)
{
    uint32_t len = m_body_len(id);
    struct job_body *body;
    bool sized = true;
    CALL(body = job_body_new(jobs, JOBS_PUTS, one_in(4) ? len + 5 : len / 2));
    if (body)
        CALL(sized = job_body_resize(jobs, JOBS_PUTS, &body, len));
    if (!sized)
        job_body_drop(jobs, &body);
    for (uint32_t n = 0; body && n < len; n++)
        body->bytes[n] = (uint8_t)(id + n);
    if (!body && disk && !config.faulty) /* those that the store has gave way */
        AGREE(atomic_load(&jobs->pages_of_bodies) == 0);
    return body;
}

static void random_key(struct job_put *put)
{
    if (config.keyed && !one_in(3)) {
        put->key = m_key((int)below(M_KEYS));
        put->has_at = one_in(2);
        put->at_ms = model.wall_ms + 500 - below(5000);
        put->at_whole = one_in(4);
    }
    if (config.keyed && one_in(3)) {
        put->root = m_root((int)below(M_ROOTS));
        put->root_ms = model.wall_ms + 4500 - below(9000);
        put->root_whole = one_in(4);
    }
}

static void put_some(int c, size_t count)
{
    static struct job_put puts[JOBS_STEP];
    static struct job_duplicate duplicates[JOBS_STEP], m_duplicates[JOBS_STEP];
    uint32_t most = config.jobs > model.job_count ? config.jobs - model.job_count : 0;
    size_t made = 0, failed = 0, m_failed;
    enum jobs_status status = JOBS_NO_MEMORY;
    int tube = one_in(3) ? random_tube() : M_NONE;
    if (count > most)
        return;
    uint32_t tries = one_in(4) ? below(4) : JOB_TRIES_OF_TUBE;
    for (; made < count; made++) {
        uint64_t id = jobs_take_ids(jobs, 1);
        puts[made] = (struct job_put){.tube = tube == M_NONE ? bytes_at(NULL, 0) : m_name(tube),
                                      .id = id,
                                      .pri = random_pri(),
                                      .delay_s = one_in(3) ? random_seconds() : 0,
                                      .ttr_s = one_in(3) ? below(3) : random_seconds(),
                                      .tries = tries,
                                      .body = new_body(id)};
        random_key(&puts[made]);
        puts[made].duplicate_r = &duplicates[made];
        duplicates[made] = (struct job_duplicate){.is = false};
        if (!puts[made].body)
            break;
    }
    if (made == count) {
        struct ask *ask = new_ask(c, JOB_OP_PUT);
        ask->op.puts = puts;
        ask->op.count = count;
        status = submit(ask);
        failed = ask->op.failed;
        ask_free(&ask);
    }
    if (status != JOBS_OK) {
        for (size_t n = 0; n < made; n++)
            job_body_drop(jobs, &puts[n].body);
    }
    if (is_refused(status))
        return;
    AGREE(m_put(c, puts, count, &m_failed, m_duplicates) == status);
    AGREE(status == JOBS_OK || count == 1 || failed == m_failed);
    for (size_t n = 0; n < count && status == JOBS_OK; n++)
        AGREE(duplicates[n].is == m_duplicates[n].is && duplicates[n].of == m_duplicates[n].of);
}

static void put(int c)
{
    put_some(c, one_in(3) ? 1 + below(config.batch) : 1);
}

/* Uses the memory for jobs up, with ever fewer at once. */
static void fill(void)
{
    for (size_t count = config.batch; count > 0; count /= 3) {
        uint64_t before = refusals;
        for (unsigned n = 0; n < 40 && refusals == before; n++) {
            int c = random_idle();
            if (c != M_NONE)
                put_some(c, count);
            m_sweep();
        }
    }
}

static void reserve(int c)
{
    bool waits = !one_in(3);
    enum jobs_status status;
    views[0].id = 0;
    CALL(status = jobs_reserve(clients[c], waits ? NS_PER_S : 0, &views[0], model.now));
    if (status == JOBS_WAITS && jobs_read(clients[c], &views[0])) /* once it was committed */
        status = JOBS_OK;
    AGREE(m_reserve(c, waits, status == JOBS_OK ? views[0].id : 0) == status);
    if (status == JOBS_OK)
        check_view(&views[0], m_find(views[0].id));
}

/* What a claim has got once it was committed. */
static enum jobs_status read_claim(int c, size_t *taken_r)
{
    struct job_views *claimed = jobs_take_claimed(clients[c]);
    *taken_r = claimed ? claimed->count : jobs_read(clients[c], &views[0]);
    if (claimed)
        memcpy(views, claimed->at, claimed->count * sizeof(views[0]));
    job_views_free(jobs, &claimed);
    return *taken_r > 0 ? JOBS_OK : JOBS_WAITS;
}

static void claim(int c)
{
    int tubes[M_TUBES];
    struct bytes names[M_TUBES];
    int count = (int)below(4);
    struct job_claim_request request = {.tubes = names,
                                        .tube_count = (size_t)count,
                                        .count = 1 + below(config.store ? 6 : config.batch),
                                        .timeout_ns = one_in(2) ? JOBS_FOREVER : 0,
                                        .answer_max = one_in(3) ? below(1000) : SIZE_MAX};
    static uint64_t chosen[JOBS_STEP];
    char reason[JOBS_READ_ONLY_MAX + 1];
    size_t taken;
    enum jobs_status status;
    for (int n = 0; n < count; n++) {
        tubes[n] = random_tube();
        names[n] = m_name(tubes[n]);
    }
    CALL(status = jobs_claim(clients[c], &request, views, &taken, reason, model.now));
    if (is_refused(status))
        return;
    if (status == JOBS_WAITS)
        status = read_claim(c, &taken);
    for (size_t n = 0; n < taken; n++)
        chosen[n] = views[n].id;
    AGREE(m_claim(c, tubes, count, request.count, request.timeout_ns > 0, request.answer_max,
                  chosen, taken) == status);
    for (size_t n = 0; n < taken; n++)
        check_view(&views[n], m_find(views[n].id));
    if (status == JOBS_READ_ONLY)
        AGREE(strcmp(reason, "it is being moved") == 0);
}

static void reserve_job(int c)
{
    uint64_t id = random_id(c);
    enum jobs_status status = act(JOB_RESERVE, c, id, 0, 0, 0);
    if (is_refused(status))
        return;
    AGREE(m_reserve_job(c, id) == status);
    if (status == JOBS_OK)
        check_view(&views[0], m_find(id));
}

static void delete_id(int c, uint64_t id)
{
    enum jobs_status status = act(JOB_DELETE, c, id, 0, 0, 0);
    if (!is_refused(status))
        AGREE(m_delete(c, id) == status);
}

static struct m_job *own_job(int c, uint64_t id)
{
    struct m_job *job = m_find(id);
    return job && job->now.state == JOB_RESERVED && job->holder == c ? job : NULL;
}

static void release(int c)
{
    uint64_t id = random_id(c);
    uint32_t pri = random_pri(), delay_s = one_in(3) ? random_seconds() : 0;
    enum jobs_status status = act(JOB_RELEASE, c, id, 0, pri, delay_s);
    struct m_job *job = own_job(c, id);
    if (!is_refused(status))
        AGREE((job ? m_release(job, pri, delay_s) : JOBS_NOT_FOUND) == status);
}

static void bury(int c)
{
    uint64_t id = random_id(c);
    uint32_t pri = random_pri();
    enum jobs_status status = act(JOB_BURY, c, id, 0, pri, 0);
    if (!is_refused(status))
        AGREE(m_bury(c, id, pri) == status);
}

static void touch(int c)
{
    uint64_t id = random_id(c);
    enum jobs_status status = act(JOB_TOUCH, c, id, 0, 0, 0);
    struct m_job *job = own_job(c, id);
    if (is_refused(status))
        return;
    AGREE((job ? JOBS_OK : JOBS_NOT_FOUND) == status);
    if (!job)
        return;
    m_touch(job);
    if (one_in(4)) /* the job keeps its place in the order of reserving */
        end_client(c);
}

/* A job with a token that is good, of an earlier reservation, or any number. */
static struct m_job *random_token(uint64_t *id_r, uint64_t *token_r)
{
    struct m_job *job = random_job();
    *id_r = job ? job->id : 1;
    *token_r = job && job->now.token && !one_in(8) ? job->now.token
               : job && job->old_token             ? job->old_token
                                                   : below(3);
    return job && job->now.state == JOB_RESERVED && job->now.token && *token_r == job->now.token
               ? job
               : NULL;
}

static void by_token(void)
{
    uint64_t id, token;
    struct m_job *job = random_token(&id, &token);
    if (!job && m_find(id) && m_find(id)->now.state == JOB_RESERVED && !m_find(id)->now.token)
        token = 0; /* nobody has seen its token */
    static const enum job_verb verbs[] = {JOB_ACK, JOB_NACK, JOB_RENEW};
    enum job_verb verb = verbs[below(ARRAY_SIZE(verbs))];
    uint32_t delay_s = random_seconds();
    enum jobs_status status = act(verb, M_NONE, id, token, 0, delay_s);
    if (is_refused(status))
        return;
    AGREE(job || status == JOBS_NOT_FOUND);
    if (job && verb == JOB_NACK)
        AGREE(status == m_release(job, job->now.pri, delay_s));
    else if (job)
        AGREE(status == JOBS_OK);
    if (job && verb == JOB_ACK)
        m_ack(job);
    else if (job && verb == JOB_RENEW)
        m_touch(job);
}

static void kick(int c)
{
    struct jobs_kick kick = {.left = one_in(20) ? UINT32_MAX : below(8)};
    uint32_t bound = kick.left;
    struct ask *ask = new_ask(c, JOB_OP_KICK);
    enum jobs_status status = JOBS_WAITS;
    ask->op.kick = &kick;
    for (unsigned n = 0; n < M_JOBS && status == JOBS_WAITS; n++)
        status = submit(ask);
    ask_free(&ask);
    if (is_refused(status)) /* after some steps, maybe */
        bound = kick.kicked;
    else
        AGREE(status == JOBS_OK);
    AGREE(kick.kicked == m_kick(c, bound));
}

static void kick_job(int c)
{
    uint64_t id = random_id(c);
    enum jobs_status status = act(JOB_KICK, M_NONE, id, 0, 0, 0);
    if (!is_refused(status))
        AGREE(m_kick_job(id) == status);
}

static void change_watches(int c)
{
    int tube = random_tube();
    uint32_t count = 0;
    enum jobs_status status;
    switch (below(3)) {
    case 0:
        CALL(status = jobs_use(clients[c], m_name(tube)));
        if (!is_refused(status))
            m_use(c, tube);
        return;
    case 1:
        CALL(status = jobs_watch(clients[c], m_name(tube), &count));
        if (!is_refused(status))
            m_watch(c, tube);
        break;
    default:
        CALL(status = jobs_ignore(clients[c], m_name(tube), &count));
        AGREE(m_ignore(c, tube) == status);
    }
    AGREE(count == (uint32_t)model.clients[c].watch_count);
}

static void pause_for(int tube, uint32_t seconds)
{
    struct ask *ask = new_ask(M_NONE, JOB_OP_PAUSE);
    ask->op.tube = m_name(tube);
    ask->op.seconds = seconds;
    enum jobs_status status = submit(ask);
    ask_free(&ask);
    AGREE(config.store || status != JOBS_NO_MEMORY);
    if (!is_refused(status))
        AGREE(m_pause(tube, seconds) == status);
}

static void pause_tube(void)
{
    int tube = random_tube();
    uint32_t seconds = one_in(2) ? 0 : random_seconds();
    pause_for(tube, seconds);
}

/* Returns false when it was refused. */
static bool set_to(int tube, const struct job_settings *settings)
{
    struct ask *ask = new_ask(M_NONE, JOB_OP_SET_TUBE);
    ask->op.tube = m_name(tube);
    ask->op.settings = settings;
    enum jobs_status status = submit(ask);
    ask_free(&ask);
    if (is_refused(status))
        return false;
    AGREE(status == JOBS_OK);
    m_set(tube, settings);
    follow();
    return true;
}

static void set_tube(void)
{
    int tube = random_tube();
    struct job_settings settings = random_settings();
    if (one_in(2)) /* back to how it was, so that tubes may vanish */
        settings = model.defaults, settings.given = (1u << JOB_SETTINGS) - 1;
    if (settings.given)
        (void)set_to(tube, &settings);
}

static void set_defaults(const struct job_settings *defaults)
{
    uint64_t place = 0;
    bool done = false;
    while (!done)
        CALL(done = jobs_set_defaults(jobs, defaults, &place, model.now, &effects));
    m_set_defaults(defaults);
    follow();
}

static void set_any_defaults(void)
{
    struct job_settings defaults = random_settings();
    defaults.given = 0;
    set_defaults(&defaults);
}

static void clear_tube(int tube, unsigned state)
{
    struct jobs_clear clear = {.deleted = 0};
    uint64_t deleted;
    enum jobs_status status = JOBS_WAITS;
    struct ask *ask = new_ask(M_NONE, JOB_OP_CLEAR);
    ask->op.tube = m_name(tube);
    ask->op.state = state;
    ask->op.clear = &clear;
    for (unsigned n = 0; n < M_JOBS && status == JOBS_WAITS; n++)
        status = submit(ask);
    AGREE(config.store || status != JOBS_NO_MEMORY);
    ask_free(&ask);
    if (is_refused(status)) {
        AGREE(clear.deleted == 0);
        return;
    }
    AGREE(m_clear(tube, state, &deleted) == status && deleted == clear.deleted);
    follow();
}

static void peek(int c)
{
    enum job_peek what = (enum job_peek)below(3);
    struct m_job *job;
    enum jobs_status status;
    if (one_in(2)) {
        uint64_t id = random_id(c);
        CALL(status = jobs_peek(jobs, id, &views[0]));
        job = m_find(id);
    } else {
        int tube = model.clients[c].used;
        CALL(status = jobs_peek_next(clients[c], what, &views[0]));
        if (what == JOB_PEEK_READY)
            job = m_count(tube, JOB_READY) > 0 ? m_peek(tube, views[0].id) : NULL;
        else
            job = m_first(tube, what);
    }
    AGREE(status == (job ? JOBS_OK : JOBS_NOT_FOUND));
    if (job)
        check_view(&views[0], job);
}

static bool is_listed(const struct m_job *job, int tube, unsigned state, uint64_t after)
{
    return job->tube == tube && job->id > after &&
           (state == JOBS_ALL || job->now.state == state ||
            (state == JOB_BURIED && job->now.state == JOB_ABANDONED));
}

static void list(void)
{
    int tube = random_tube();
    unsigned state = below(JOBS_ALL + 1);
    uint64_t after = one_in(2) ? 0 : below((uint32_t)atomic_load(&jobs->next_id)), next;
    size_t limit = 1 + below(one_in(4) ? JOBS_STEP : 6), count, bytes = 0;
    size_t answer_max = one_in(3) ? below(500) : SIZE_MAX;
    enum jobs_status status;
    if (one_in(20))
        after = UINT64_MAX;
    CALL(status =
             jobs_list(jobs, m_name(tube), state, after, limit, answer_max, views, &count, &next));
    AGREE(status == (model.tubes[tube].exists ? JOBS_OK : JOBS_NOT_FOUND));
    AGREE(count <= limit);
    for (size_t n = 0; n <= count; n++) {
        struct m_job *first = NULL;
        for (unsigned i = 0; i < model.job_count; i++) {
            struct m_job *job = &model.jobs[i];
            if (is_listed(job, tube, state, after) && (!first || job->id < first->id))
                first = job;
        }
        if (n == count) {
            AGREE(next == (first ? after : 0));
            AGREE(!first || count == limit ||
                  (count > 0 && bytes + JOBS_LINE + M_BODY_MAX > answer_max));
            break;
        }
        AGREE(first);
        bytes += JOBS_LINE + m_body_len(first->id);
        AGREE(n == 0 || bytes <= answer_max);
        after = first->id;
        check_view(&views[n], first);
    }
}

/* ---- waits and letters ----------------------------------------------------------------------- */

static void read_wait(int c)
{
    bool read;
    CALL(read = jobs_read(clients[c], &views[0]));
    AGREE(read == (model.clients[c].wait == M_SERVED));
    if (read)
        check_served(c, &views[0]);
}

static void end_wait(int c)
{
    bool ended;
    CALL(ended = jobs_end_wait(clients[c]));
    AGREE(ended == (model.clients[c].wait != M_SERVED));
    if (ended)
        m_end_wait(c);
    else
        read_wait(c);
}

static void deliver(unsigned n)
{
    struct jobs_client *client = jobs_client_of(letters[n]);
    bool lives;
    letters[n] = letters[--letter_count];
    int c = (int)client->letter.to;
    bool is = clients[c] == client && model.clients[c].exists;
    CALL(lives = jobs_client_letter(client));
    AGREE(lives == is);
    if (lives)
        read_wait(c);
}

static void deliver_all(void)
{
    while (letter_count > 0)
        deliver(letter_count - 1);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void set_time(int64_t at_ns)
{
    rig_wall_offset_ns = (1000000000 + wall_offset_s) * NS_PER_S;
    rig.now.mono_ns = at_ns;
    rig.now.unix_s = rig_wall_ns() / NS_PER_S;
    m_set_time(at_ns, rig_wall_ms());
}

static bool is_due(const struct m_job *job, int owner, int64_t at_ns)
{
    if (owner >= M_TUBES)
        return job->now.state == JOB_RESERVED && job->holder == owner - M_TUBES &&
               job->now.until_ns == at_ns;
    return job->tube == owner && (job->now.state == JOB_ABANDONED ||
                                  (job->now.state == JOB_DELAYED && job->now.until_ns == at_ns));
}

/* Ends something that is due in one tube or client at this time. */
static void end_due(int owner, int64_t at_ns)
{
    const struct job_settings open = {.given = 1u << JOB_SETTING_READ_ONLY};
    struct m_job *job = model.jobs, *end = model.jobs + model.job_count;
    if (owner < M_TUBES && model.tubes[owner].paused_until_ns == at_ns) {
        pause_for(owner, 0);
        return;
    }
    while (job < end && !is_due(job, owner, at_ns))
        job++;
    if (job == end)
        return;
    if (job->now.state == JOB_ABANDONED) { /* whatever is pruned first */
        if (model.tubes[owner].settings.read_only[0])
            (void)set_to(owner, &open);
        else
            clear_tube(owner, JOB_ABANDONED);
    } else if (job->now.state != JOB_RESERVED) {
        delete_id(M_NONE, job->id);
    } else {
        if (!job->now.token) {
            AGREE(jobs_peek(jobs, job->id, &views[0]) == JOBS_OK);
            check_view(&views[0], job);
        }
        if (!is_refused(act(JOB_ACK, M_NONE, job->id, job->now.token, 0, 0)))
            m_ack(job);
    }
    follow();
}

/* Several things that are due in the same nanosecond have no order. */
static void untie(int64_t until_ns)
{
    for (int a = 0; a < OWNERS; a++) {
        for (int b = 0; b < a; b++) {
            for (unsigned n = 0; n < 1000 && due_of(a) == due_of(b) && due_of(a) <= until_ns; n++)
                end_due(a, due_of(a));
        }
    }
    m_sweep();
}

static unsigned count_due(int64_t until_ns)
{
    unsigned count = 0;
    for (unsigned n = 0; n < model.job_count; n++) {
        const struct m_job *job = &model.jobs[n];
        bool timed = job->now.state == JOB_RESERVED || job->now.state == JOB_DELAYED;
        count += (timed && job->now.until_ns <= until_ns) || job->now.state == JOB_ABANDONED;
    }
    return count;
}

static void run(void)
{
    do { /* each call does a bounded amount of work */
        CALL_THAT_ENDS(jobs_run(jobs, model.now, &effects));
    } while (jobs_next_ns(jobs) <= model.now.mono_ns);
    m_run();
    follow();
}

/* The wall clock jumps. What is over by the old one has gone from the store. */
static void set_clock(void)
{
    uint32_t count;
    if (config.store) {
        AGREE(rig.store->does->begin(rig.store) == JOB_STORE_OK);
        AGREE(rig.store->does->forget_old(rig.store, rig_wall_ns(), M_TUBES * (M_KEYS + M_ROOTS),
                                          &count) == JOB_STORE_OK);
        AGREE(rig.store->does->commit(rig.store, model.now.mono_ns) == JOB_STORE_OK);
    }
    for (int n = 0; n < M_TUBES * M_KEYS; n++)
        (void)m_executed(n / M_KEYS, n % M_KEYS);
    wall_offset_s = (int64_t)below(200) - 100;
    was_set_back = true;
}

static void move_time(void)
{
    int64_t to_ns = model.now.mono_ns, first_ns = first_due();
    int64_t slack_ns = config.store ? SLACK_NS : 0;
    switch (below(8)) {
    case 0: /* the moment before */
        to_ns = first_ns != INT64_MAX ? first_ns - 1 - slack_ns : to_ns;
        break;
    case 1:
    case 2:
        to_ns = first_ns != INT64_MAX ? first_ns + slack_ns : to_ns;
        break;
    case 3: /* the last second of a reservation begins */
        to_ns = m_client_due((int)below(M_CLIENTS));
        to_ns -= to_ns == INT64_MAX ? 0 : NS_PER_S + below(2);
        break;
    case 4:
        to_ns += (int64_t)below(3000) * NS_PER_MS;
        break;
    case 5:
        to_ns += one_in(20) ? (int64_t)below(1000) * NS_PER_S : NS_PER_MS;
        break;
    case 6:
        if (one_in(10))
            set_clock();
        break;
    default:
        to_ns += below(1000000);
    }
    /* One run does a bounded amount of work. */
    while (to_ns > first_ns && count_due(to_ns) > 200)
        to_ns = first_ns + (to_ns - first_ns) / 2;
    if (to_ns < model.now.mono_ns || to_ns - model.now.mono_ns > 5000 * NS_PER_S)
        to_ns = model.now.mono_ns;
    for (unsigned n = 0; n < model.job_count && config.store;) { /* burials are some ns apart */
        int64_t at_ns = m_prune_at(&model.jobs[n]);
        bool near = llabs(at_ns - to_ns) <= SLACK_NS;
        to_ns = near ? at_ns + SLACK_NS + 1 : to_ns;
        n = near ? 0 : n + 1; /* the first ones may be near the new time */
    }
    bool late = one_in(10); /* the timer comes later */
    if (!late)
        untie(to_ns);
    set_time(to_ns);
    if (late)
        return;
    run();
    m_sweep();
    AGREE(first_due() > model.now.mono_ns || count_due(to_ns) > 200);
    while (first_due() <= model.now.mono_ns)
        run();
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void command(int c)
{
    uint32_t what = below(100);
    if (what < 22)
        put(c);
    else if (what < 38)
        reserve(c);
    else if (what < 47)
        claim(c);
    else if (what < 51)
        reserve_job(c);
    else if (what < 60)
        delete_id(c, random_id(c));
    else if (what < 69)
        release(c);
    else if (what < 74)
        bury(c);
    else if (what < 78)
        touch(c);
    else if (what < 80)
        kick(c);
    else if (what < 83)
        kick_job(c);
    else if (what < 91)
        change_watches(c);
    else if (what < 97)
        peek(c);
    else
        list();
}

/* What does not ask for an idle client. */
static void other_step(void)
{
    int c = (int)below(M_CLIENTS);
    switch (below(8)) {
    case 0:
        if (!model.clients[c].exists)
            new_client(c);
        else if (one_in(4))
            end_client(c);
        break;
    case 1:
        if (model.clients[c].exists && model.clients[c].wait != M_IDLE)
            end_wait(c);
        break;
    case 2:
        if (letter_count > 0)
            deliver(below(letter_count));
        break;
    case 3:
    case 4:
        by_token();
        break;
    case 5:
        pause_tube();
        break;
    case 6:
        if (one_in(20))
            set_any_defaults();
        else
            set_tube();
        break;
    default:
        if (one_in(config.jobs > 100 ? 100 : 10))
            clear_tube(random_tube(), below(JOBS_ALL + 1));
    }
}

void world_step(void)
{
    int c;
    model_step++;
    if (disk && config.memory_limit != UINT64_MAX && one_in(30)) {
        fill();
    } else if (one_in(4)) {
        move_time();
    } else {
        if (!one_in(4)) /* few deadlines are equal */
            set_time(model.now.mono_ns + 1 + below(2000));
        if (one_in(4))
            other_step();
        else if ((c = random_idle()) != M_NONE)
            command(c);
        else
            other_step();
    }
    compare_some();
}

/* ---- life ------------------------------------------------------------------------------------ */

static struct jobs_config jobs_config(uint64_t first_id)
{
    return (struct jobs_config){.memory_limit = UINT64_MAX,
                                .defaults = model.defaults,
                                .hash_key = {rng_next(rng), rng_next(rng)},
                                .seed = rng_next(rng),
                                .wall_ms = rig_wall_ms,
                                .first_id = first_id,
                                .many_watches = config.many_watches};
}

static void limit_memory(struct jobs *of)
{
    if (config.memory_limit != UINT64_MAX)
        jobs_set_memory_limit(of, base_memory + config.memory_limit);
}

static struct jobs *new_jobs(uint64_t first_id)
{
    const struct jobs_config of = jobs_config(first_id);
    struct jobs *made = jobs_new(&of);
    AGREE(made && (!config.store || rig_adopt(made)));
    struct jobs_stats stats;
    jobs_get_stats(made, &stats);
    base_memory = stats.memory;
    limit_memory(made);
    return made;
}

static void some_clients(void)
{
    for (int c = 0; c < M_CLIENTS; c++)
        clients[c] = NULL;
    for (int c = 0; c < 3; c++)
        new_client(c);
}

void world_start(const struct world_config *with)
{
    config = *with;
    wall_offset_s = 0;
    was_set_back = false;
    letter_count = 0;
    jobs_effects_init(&effects);
    mail_list_init(&rig.letters);
    m_start(&config.defaults, config.store);
    set_time(NS_PER_S + below(1000000000));
    if (config.store) {
        disk = fake_disk_new();
        rig.config = jobs_config(1);
        rig_start(&fake_store, fake_disk_path(disk));
        jobs = rig.jobs;
        base_memory = rig.empty;
        limit_memory(jobs);
    } else {
        jobs = new_jobs(one_in(2) ? 0 : 1 + below(100000));
    }
    model_served = served_of;
    some_clients();
}

static void tell_all(void)
{
    while (letter_count > 0)
        (void)jobs_client_letter(jobs_client_of(letters[--letter_count]));
}

/* The tubes are made again, in the order of the store. */
static void number_tubes(void)
{
    uint64_t place = 0, number = 0;
    struct job_body *name;
    size_t count;
    bool all;
    do {
        all = jobs_list_tubes(jobs, &place, 1, &name, &count);
        for (int t = 0; t < M_TUBES && count > 0; t++) {
            if (bytes_equal(bytes_at(name->bytes, name->len), m_name(t)))
                model.tubes[t].number = ++number;
        }
        if (count > 0)
            job_body_drop(jobs, &name);
    } while (!all);
    model.numbers = number;
}

/* ---- files that lie -------------------------------------------------------------------------- */

static const struct job_store_visitors *truth;
static unsigned true_ones, lie_kind; /* so many are visited before the lie */
static bool lied;

/* Shows one more job or tube. Returns true when it is the one that the lie is about. */
static bool lies_now(bool about_this)
{
    bool now = about_this && !lied && true_ones == 0;
    true_ones -= about_this && true_ones > 0;
    lied = lied || now;
    return now;
}

static bool lie_about_job(void *arg, const struct job_record *job)
{
    struct job_record r = *job;
    int64_t *times[] = {&r.put_ns, &r.now.due_ns, &r.now.began_ns, &r.now.at_ns, &r.now.root_ns};
    if (!lies_now(lie_kind < 7))
        return truth->job(arg, job);
    switch (lie_kind) {
    case 0:
        return truth->job(arg, job) && truth->job(arg, job);
    case 1:
        r.id = INT64_MAX;
        break;
    case 2:
        r.tube = bytes_of("a b");
        break;
    case 3:
        r.ttr_s = 0;
        break;
    case 4:
        r.now.state = JOB_RESERVED;
        r.now.token = 0;
        break;
    case 5:
        r.now.state = JOB_BURIED;
        r.now.due_ns = INT64_MAX;
        break;
    default:
        *times[below(ARRAY_SIZE(times))] = one_in(2) ? INT64_MIN : -1;
    }
    return truth->job(arg, &r);
}

static bool lie_about_tube(void *arg, const struct job_tube_record *tube)
{
    struct job_tube_record r = *tube;
    if (!lies_now(lie_kind >= 7 && truth->job))
        return truth->tube(arg, tube);
    if (lie_kind == 7)
        return truth->tube(arg, tube) && truth->tube(arg, tube);
    if (lie_kind == 8)
        r.name.len = 0;
    else
        r.paused_until_ns = -1;
    return truth->tube(arg, &r);
}

static const struct job_store_visitors *lie(const struct job_store_visitors *visitors)
{
    static struct job_store_visitors liars;
    truth = visitors;
    liars = *visitors;
    liars.job = visitors->job ? lie_about_job : NULL;
    liars.tube = lie_about_tube;
    return &liars;
}

/* A file of which one thing cannot be is refused. */
static void open_lying(void)
{
    true_ones = below(4);
    lie_kind = below(10);
    lied = false;
    fake_disk_lie(disk, lie);
    enum job_store_status status = rig_open();
    fake_disk_lie(disk, NULL);
    AGREE(status == (lied ? JOB_STORE_CORRUPT : JOB_STORE_OK));
    if (status == JOB_STORE_OK)
        rig_close();
}

void world_restart(void)
{
    struct jobs_effects caused;
    jobs_effects_init(&caused);
    model_step++;
    for (int c = 0; c < M_CLIENTS; c++) {
        if (model.clients[c].exists)
            jobs_client_end(clients[c], model.now, &caused);
    }
    tell_all();
    rig_send(&caused);
    rig_crash(NULL, 0);
    rig.config = jobs_config(1);
    rig.config.memory_limit = 2 * rig.empty; /* all that the file has comes, whatever the limit */
    open_lying();
    AGREE(rig_open() == JOB_STORE_OK);
    jobs_set_memory_limit(rig.jobs, UINT64_MAX);
    jobs = rig.jobs;
    m_restart();
    number_tubes();
    some_clients();
    world_compare();
}

void world_end(void)
{
    struct jobs_stats stats;
    model_step++;
    for (int n = (int)below(M_CLIENTS), left = M_CLIENTS; left > 0; left--, n++) {
        if (model.clients[n % M_CLIENTS].exists)
            end_client(n % M_CLIENTS);
    }
    m_sweep();
    world_compare();
    deliver_all();
    config.fails = false;
    set_defaults(&config.defaults);
    struct job_settings settings = config.defaults;
    settings.given = (1u << JOB_SETTINGS) - 1;
    for (int t = 0; t < M_TUBES; t++) {
        if (!model.tubes[t].exists)
            continue;
        AGREE(set_to(t, &settings));
        m_sweep();
        if (!model.tubes[t].exists)
            continue;
        clear_tube(t, JOBS_ALL);
        m_sweep();
        if (model.tubes[t].exists)
            clear_tube(t, JOB_RESERVED);
        m_sweep();
    }
    AGREE(model.job_count == 0);
    world_compare();
    /* All that is remembered is forgotten. */
    wall_offset_s = 0;
    set_time(model.now.mono_ns + INT64_C(200) * 365 * 86400 * NS_PER_S);
    run();
    jobs_get_stats(jobs, &stats);
    AGREE(stats.memory == base_memory && letter_count == 0);
    if (!config.store) {
        jobs_free(&jobs);
        return;
    }
    rig_close();
    fake_disk_free(&disk);
}

/* ---- upgrades -------------------------------------------------------------------------------- */

static struct record_writer writer;

uint8_t *world_save(size_t *len_r)
{
    deliver_all();
    for (int c = 0; c < M_CLIENTS; c++) {
        if (model.clients[c].exists)
            read_wait(c);
    }
    int fd = memfd_create("jobs", MFD_CLOEXEC);
    AGREE(fd >= 0);
    record_writer_init(&writer, fd);
    jobs_save(jobs, &writer);
    record_begin(&writer, 1);
    for (int c = 0; c < M_CLIENTS; c++) {
        record_put_u8(&writer, model.clients[c].exists);
        if (model.clients[c].exists)
            jobs_client_save(clients[c], &writer);
    }
    record_end(&writer);
    AGREE(record_finish(&writer));
    off_t len = lseek(fd, 0, SEEK_END);
    AGREE(len > 0);
    *len_r = (size_t)len;
    uint8_t *bytes = malloc(*len_r);
    AGREE(bytes && pread(fd, bytes, *len_r, 0) == len);
    AGREE(close(fd) == 0);
    return bytes;
}

static bool restore_clients(struct jobs *to, struct jobs_client **new, struct record_reader *r)
{
    for (int c = 0; c < M_CLIENTS && record_ok(r); c++) {
        if (record_get_bool(r))
            new[c] = jobs_client_restore(to, (uint64_t)c, &clients[c], r);
    }
    record_leave(r);
    return record_ok(r);
}

static bool restore_all(struct jobs *to, struct jobs_client **new, struct record_reader *r)
{
    struct record_reader section;
    uint32_t kind;
    bool good = true, whole = false;
    while (record_enter(r, &kind, &section)) {
        whole = kind == 1; /* the last one */
        if (kind == JOBS_STATE)
            good = jobs_restore(to, &section) && good;
        else if (kind == JOBS_PUT_TIMES)
            good = jobs_restore_put_times(to, &section) && good;
        else if (kind == JOBS_BURIAL)
            good = jobs_restore_burial(to, &section) && good;
        else if (whole)
            good = restore_clients(to, new, &section) && good;
        else
            record_unknown(&section, kind);
    }
    if (!whole)
        record_refuse(r, "the clients are missing");
    return good && record_ok(r) && jobs_restore_done(to, r);
}

/* Ends clients and jobs, which no model follows. */
static void end_all(struct jobs *which, struct jobs_client **its)
{
    struct jobs_effects caused;
    struct mail *mail;
    jobs_effects_init(&caused);
    for (int c = 0; c < M_CLIENTS; c++) {
        if (its[c])
            jobs_client_end(its[c], model.now, &caused);
    }
    while ((mail = mail_list_take(&caused.letters)))
        AGREE(!jobs_client_letter(jobs_client_of(mail)));
    jobs_free(&which);
}

/* Buries a job, if a client has one. */
static void bury_some(void)
{
    for (unsigned n = 0; n < model.job_count; n++) {
        const struct m_job *job = &model.jobs[n];
        if (job->now.state == JOB_RESERVED && job->holder != M_LEASES &&
            model.clients[job->holder].wait == M_IDLE) {
            bury(job->holder);
            return;
        }
    }
}

void world_upgrade(void)
{
    size_t len;
    struct jobs_client *old_clients[M_CLIENTS] = {NULL}, *new_clients[M_CLIENTS] = {NULL};
    struct record_reader r;
    model_step++;
    bury_some(); /* burials in one millisecond keep their order */
    for (int c = one_in(10) ? 0 : M_CLIENTS; c < M_CLIENTS; c++) { /* nobody is connected */
        if (model.clients[c].exists)
            end_client(c);
        m_sweep();
    }
    uint8_t *record = world_save(&len);
    struct jobs *old = jobs, *new = new_jobs(1);
    if (config.memory_limit != UINT64_MAX) /* all comes, whatever the limit */
        jobs_set_memory_limit(new, 1);
    record_reader_init(&r, record, len);
    if (!restore_all(new, new_clients, &r))
        ck_abort_msg("step %" PRIu64 ": not restored: %s", model_step, r.why);
    limit_memory(new);
    for (int c = 0; c < M_CLIENTS; c++)
        old_clients[c] = model.clients[c].exists ? clients[c] : NULL;
    memcpy(clients, new_clients, sizeof(clients));
    jobs = rig.jobs = new;
    end_all(old, old_clients);
    follow();
    free(record);
    for (unsigned n = 0; n < model.job_count; n++) /* tokens, too */ {
        uint64_t id = model.jobs[n].id; /* over a store the record has no bodies */
        AGREE(!config.store || !job_at(jobs, job_find(jobs, id))->body);
        AGREE(jobs_peek(jobs, id, &views[0]) == JOBS_OK);
        check_view(&views[0], &model.jobs[n]);
    }
    bury_some();
    world_compare();
}

bool world_try(const uint8_t *record, size_t len, const char **why_r)
{
    struct jobs_client *new[M_CLIENTS] = {NULL};
    struct jobs_effects caused;
    struct mail *mail;
    struct record_reader r;
    struct jobs *to = new_jobs(1);
    record_reader_init(&r, record, len);
    bool good = restore_all(to, new, &r);
    *why_r = good ? NULL : r.why;
    jobs_effects_init(&caused);
    struct moment later = model.now;
    later.mono_ns += 3 * NS_PER_S;
    if (good) {
        for (unsigned n = 0; n < 10; n++)
            jobs_run(to, later, &caused);
        for (int c = 0; c < M_CLIENTS; c++) {
            if (!new[c] || jobs_client_waits(new[c]))
                continue;
            uint64_t id = 1 + below(100);
            struct job_act act = {.verb = JOB_DELETE, .client = new[c], .id = id};
            AGREE(submit_act(to, act, NULL, later, &caused) == JOBS_NOT_FOUND ||
                  jobs_peek(to, id, &views[0]) == JOBS_NOT_FOUND);
            act = (struct job_act){.verb = JOB_RELEASE, .client = new[c], .id = below(100)};
            AGREE(submit_act(to, act, NULL, later, &caused) < JOBS_NOT_IGNORED);
            if (jobs_reserve(new[c], 0, &views[0], later) == JOBS_OK)
                job_body_drop(to, &views[0].body);
        }
        while ((mail = mail_list_take(&caused.letters))) {
            struct jobs_client *client = jobs_client_of(mail);
            if (jobs_client_letter(client) && jobs_read(client, &views[0]))
                job_body_drop(to, &views[0].body);
        }
    }
    end_all(to, new);
    return good;
}
