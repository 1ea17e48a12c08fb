/* jobs_world_compare.c - compares all that can be asked, and the store, with the model. */
#include "t/models/jobs_world_internal.h"

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
    AGREE(jobs_stats_job(world.jobs, job->id, model.now, &s) == JOBS_OK);
    AGREE(s.id == job->id && bytes_equal(bytes_of(s.tube), m_name(job->tube)));
    AGREE(s.state == job->now.state && s.pri == job->now.pri && s.delay_s == job->now.delay_s);
    AGREE(s.ttr_s == job->ttr_s && s.age_s == age_of(job->put_ms));
    AGREE(s.counts.of[JOB_RESERVES] == job->now.reserves &&
          s.counts.of[JOB_TIMEOUTS] == job->now.timeouts);
    AGREE(s.counts.of[JOB_RELEASES] == job->now.releases &&
          s.counts.of[JOB_BURIES] == job->now.buries && s.counts.of[JOB_KICKS] == job->now.kicks);
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
    enum jobs_status status = jobs_stats_tube(world.jobs, m_name(t), model.now, &s);
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
        job_body_drop(world.jobs, &listed[n]);
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
        all = jobs_list_tubes(world.jobs, &place, 1 + below(3), listed, &some);
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
    AGREE(bytes_equal(bytes_at(used, jobs_used(world.clients[c], used)), m_name(client->used)));
    struct names names = {.count = 0};
    struct tube_watch *place = NULL;
    struct job_body *listed[3];
    size_t some;
    bool all;
    do {
        all = jobs_list_watched(world.clients[c], &place, 1 + below(3), listed, &some);
        add_names(&names, listed, some);
    } while (!all);
    AGREE(names.count == client->watch_count);
    AGREE(memcmp(names.tubes, client->watched, sizeof(int) * (size_t)names.count) == 0);
    AGREE(jobs_client_waits(world.clients[c]) == (client->wait != M_IDLE));
    uint32_t held = 0;
    for (unsigned n = 0; n < model.job_count; n++)
        held += model.jobs[n].now.state == JOB_RESERVED && model.jobs[n].holder == c;
    AGREE(jobs_client_reserved(world.clients[c]) == held);
    int64_t due_ns = m_client_due(c);
    if (client->wait != M_IDLE && client->claims)
        due_ns = INT64_MAX;
    AGREE(jobs_wait_soon_ns(world.clients[c]) ==
          (due_ns == INT64_MAX ? due_ns : due_ns - NS_PER_S));
    AGREE(jobs_client_owner(world.clients[c]) == &world.clients[c]);
}

int64_t world_due_of(int n)
{
    return n < M_TUBES ? m_tube_due(n) : m_client_due(n - M_TUBES);
}

int64_t world_first_due(void)
{
    int64_t first_ns = INT64_MAX;
    for (int n = 0; n < OWNERS; n++)
        first_ns = world_due_of(n) < first_ns ? world_due_of(n) : first_ns;
    return first_ns;
}

/* With a store, what is remembered of roots is in memory only now and then. */
static int64_t soon(int64_t at_ns)
{
    return world.config.store && at_ns > model.now.mono_ns + INT64_C(20) * 86400 * NS_PER_S
               ? INT64_MAX
               : at_ns;
}

static void compare_sums(void)
{
    struct jobs_stats s;
    uint64_t counts[JOB_STATES] = {0}, urgent = 0, waiting = 0, tubes = 0, held = 0;
    int64_t next_ns = world_first_due();
    jobs_get_stats(world.jobs, &s);
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
    AGREE(jobs_held(world.jobs) == held);
    next_ns = m_marks_due() < next_ns ? m_marks_due() : next_ns;
    int64_t its_ns = soon(jobs_next_ns(world.jobs));
    /* A root that had stale jobs may be looked at once more, and so may a key whose time was
     * forgotten because the clock was set back. With a store, the times of burials that come
     * together are some ns apart. */
    if (!(world.config.keyed && (its_ns == 0 || (world.was_set_back && its_ns < next_ns))) &&
        !(world.config.store && llabs(its_ns - soon(next_ns)) <= SLACK_NS))
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
    job_keys_marks(world.jobs, &tube, &put, key_r, root_r);
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
        AGREE(world.config.store || key || mark->time_ms == M_NO_TIME);
        if (!world.config.store && key && key->refs == 0)
            AGREE_ON(key->until_ns, mark->until_ns);
        if (!world.config.store && root)
            AGREE_ON(root->until_ns, model.tubes[t].roots[n % M_ROOTS].until_ns);
        AGREE(world.config.store || root || m_newest(t, n % M_ROOTS) == M_NO_TIME);
    }
}

void world_follow(void)
{
    for (unsigned n = model.job_count; n-- > 0;) {
        struct m_job *job = &model.jobs[n];
        uint32_t handle = job_find(world.jobs, job->id);
        if (handle == JOB_NONE) {
            AGREE(m_may_go(job));
            m_gone(job);
            continue;
        }
        AGREE(!job_at(world.jobs, handle)->locked);
        AGREE(!job_at(world.jobs, handle)->doomed || m_may_go(job));
        job->doomed = job_at(world.jobs, handle)->doomed;
    }
    for (int t = 0; t < M_TUBES && world.config.keyed; t++) {
        if (world.was_set_back || one_in(M_TUBES))
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
    AGREE(r->now.delay_s == now->delay_s && r->now.counts.of[JOB_RESERVES] == now->reserves);
    AGREE(r->now.counts.of[JOB_TIMEOUTS] == now->timeouts &&
          r->now.counts.of[JOB_RELEASES] == now->releases);
    AGREE(r->now.counts.of[JOB_BURIES] == now->buries && r->now.counts.of[JOB_KICKS] == now->kicks);
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
    AGREE(fake_disk_has_body(world.disk, id, bytes_at(body, m_body_len(id))));
}

static void compare_memory(enum job_memory_kind kind, int t, struct bytes name, int64_t time_ms,
                           int64_t forget_ns)
{
    struct job_memory kept;
    bool is = fake_disk_memory(world.disk, kind, m_name(t), name, &kept);
    is = is && (kept.forget_ns == JOB_STORE_KEEP || kept.forget_ns > model.wall_ms * NS_PER_MS);
    AGREE_ON(is ? kept.time_ns / NS_PER_MS : M_NO_TIME, time_ms);
    AGREE_ON(is ? kept.forget_ns : forget_ns, forget_ns);
}

static void compare_disk(void)
{
    struct job_tube_record row;
    unsigned count = 0;
    fake_disk_look(world.disk, &(struct job_store_visitors){.arg = &count, .job = compare_kept});
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
        if (!fake_disk_tube(world.disk, m_name(t), &row)) {
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
    if (world.disk)
        compare_disk();
    jobs_check(world.jobs, model.now);
}

void world_compare_some(void)
{
    world_follow();
    m_sweep();
    if (one_in(world.config.rarely)) {
        world_compare();
        return;
    }
    compare_sums();
    if (model.job_count > 0)
        compare_job(&model.jobs[below(model.job_count)]);
    compare_tube((int)below(M_TUBES));
    compare_client((int)below(M_CLIENTS));
}
