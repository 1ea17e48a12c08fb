/* jobs_world.c - see jobs_world.h. */
#include "t/models/jobs_world_internal.h"

#include "t/unit/engine/faults.h"

struct world world;
struct rng world_random;

unsigned long world_faults(void)
{
    return faults;
}

uint64_t world_refusals(void)
{
    return world.refusals;
}

uint64_t world_store_failures(void)
{
    return world.store_failures;
}

static bool dice(void)
{
    return one_in(6);
}

static uint64_t served_of(int c)
{
    return world.clients[c]->served.id;
}

void world_begin_call(void)
{
    fault_dice = world.config.faulty ? dice : NULL;
}

void world_end_call(void)
{
    struct mail *mail;
    fault_dice = NULL;
    rig_send(&world.outbox);
    if (world.config.store)
        rig_commit();
    while ((mail = mail_list_take(&rig.messages))) {
        AGREE(world.message_count < MESSAGES);
        world.messages[world.message_count++] = mail;
    }
    jobs_outbox_init(&world.outbox);
}

/* ---- requests --------------------------------------------------------------------------------
 *
 * With a store, they are committed at once. Some commits fail: then the answer is JOBS_NO_MEMORY,
 * and nothing has changed.
 */

struct ask *world_new_ask(int c, enum job_op_kind kind)
{
    rig.jobs = world.jobs;
    return ask_new(c == M_NONE ? NULL : world.clients[c], kind);
}

enum jobs_status world_submit(struct ask *ask)
{
    static const enum job_store_status ways[] = {JOB_STORE_FULL, JOB_STORE_IO, JOB_STORE_NO_MEMORY};
    /* What fails a put is tried again without it. */
    uint64_t failed = rig.failed_commits, times = ask->op.kind == JOB_OP_PUT ? 2 : 1;
    bool fails = world.config.fails && one_in(10);
    if (fails)
        fake_disk_fail(world.disk, FAKE_COMMIT, 1, times, ways[below(ARRAY_SIZE(ways))]);
    if (world.config.store)
        CALL(ask_submit(ask));
    else
        CALL(ask->status = jobs_submit(world.jobs, &ask->op, model.now, &world.outbox));
    if (fails)
        fake_disk_fail(world.disk, FAKE_COMMIT, 1, 0, JOB_STORE_OK);
    AGREE(ask->done || !world.config.store);
    ask->done = true;
    if ((world.config.memory_limit == UINT64_MAX && !world.config.faulty) ||
        job_op_need(&ask->op) == JOBS_ENDS)
        AGREE((rig.failed_commits > failed) == (ask->status == JOBS_NO_MEMORY));
    world.store_failures += rig.failed_commits > failed;
    return ask->status;
}

bool world_is_refused(enum jobs_status status)
{
    if (status != JOBS_NO_MEMORY)
        return false;
    AGREE(world.config.faulty || world.config.memory_limit != UINT64_MAX || world.config.fails);
    world.refusals++;
    return true;
}

enum jobs_status world_act(enum job_verb verb, int c, uint64_t id, uint64_t token, uint32_t pri,
                           uint32_t delay_s)
{
    rig.jobs = world.jobs;
    struct ask *ask = ask_act(c == M_NONE ? NULL : world.clients[c], verb, id);
    ask->op.act.token = token;
    ask->op.act.pri = pri;
    ask->op.act.delay_s = delay_s;
    enum jobs_status status = world_submit(ask);
    world.views[0] = ask->view;
    ask->view.body = NULL;
    ask_free(&ask);
    bool gives_back = verb == JOB_RELEASE || verb == JOB_NACK;
    if (world.config.fails && status == JOBS_NO_MEMORY &&
        (verb == JOB_BURY || (gives_back && m_find(id)->last_try)))
        m_plan_burial();
    return status;
}

/* ---- views ----------------------------------------------------------------------------------- */

/* Only the store may have it. */
static void check_body(struct job_view *view)
{
    AGREE(view->body_len == m_body_len(view->id));
    if (!view->body && world.config.store) {
        struct ask *ask = world_new_ask(M_NONE, JOB_OP_READ);
        ask->op.views = view;
        ask->op.view_count = 1;
        AGREE(world_submit(ask) == JOBS_OK);
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

void world_check_view(struct job_view *view, struct m_job *job)
{
    AGREE(job && view->id == job->id);
    AGREE(view->state == job->now.state && view->tries == job->now.tries);
    AGREE(bytes_equal(bytes_at(view->tube.text, view->tube.len), m_name(job->tube)));
    check_body(view);
    if (job->now.state == JOB_RESERVED)
        learn_token(job, view->token);
    else
        AGREE(view->token == 0);
    job_body_drop(world.jobs, &view->body);
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
    job_body_drop(world.jobs, &view->body);
    m_end_wait(c);
}

/* ---- waits and messages ---------------------------------------------------------------------- */

void world_read_wait(int c)
{
    bool read;
    CALL(read = jobs_read(world.clients[c], &world.views[0]));
    AGREE(read == (model.clients[c].wait == M_SERVED));
    if (read)
        check_served(c, &world.views[0]);
}

void world_end_wait(int c)
{
    bool ended;
    CALL(ended = jobs_end_wait(world.clients[c]));
    AGREE(ended == (model.clients[c].wait != M_SERVED));
    if (ended)
        m_end_wait(c);
    else
        world_read_wait(c);
}

void world_deliver(unsigned n)
{
    struct jobs_client *client = jobs_client_of(world.messages[n]);
    bool lives;
    world.messages[n] = world.messages[--world.message_count];
    int c = (int)client->message.to;
    bool is = world.clients[c] == client && model.clients[c].exists;
    CALL(lives = jobs_client_message(client));
    AGREE(lives == is);
    if (lives)
        world_read_wait(c);
}

void world_deliver_all(void)
{
    while (world.message_count > 0)
        world_deliver(world.message_count - 1);
}

/* ---- time ------------------------------------------------------------------------------------ */

void world_set_time(int64_t at_ns)
{
    rig_wall_offset_ns = (1000000000 + world.wall_offset_s) * NS_PER_S;
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
        world_pause_for(owner, 0);
        return;
    }
    while (job < end && !is_due(job, owner, at_ns))
        job++;
    if (job == end)
        return;
    if (job->now.state == JOB_ABANDONED) { /* whatever is pruned first */
        if (model.tubes[owner].settings.read_only[0])
            (void)world_set_to(owner, &open);
        else
            world_clear_tube(owner, JOB_ABANDONED);
    } else if (job->now.state != JOB_RESERVED) {
        world_delete_id(M_NONE, job->id);
    } else {
        if (!job->now.token) {
            AGREE(jobs_peek(world.jobs, job->id, &world.views[0]) == JOBS_OK);
            world_check_view(&world.views[0], job);
        }
        if (!world_is_refused(world_act(JOB_ACK, M_NONE, job->id, job->now.token, 0, 0)))
            m_ack(job);
    }
    world_follow();
}

/* Several things that are due in the same nanosecond have no order. */
static void untie(int64_t until_ns)
{
    for (int a = 0; a < OWNERS; a++) {
        for (int b = 0; b < a; b++) {
            for (unsigned n = 0;
                 n < 1000 && world_due_of(a) == world_due_of(b) && world_due_of(a) <= until_ns; n++)
                end_due(a, world_due_of(a));
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

void world_run(void)
{
    do { /* each call does a bounded amount of work */
        CALL_THAT_ENDS(jobs_run(world.jobs, model.now, &world.outbox));
    } while (jobs_next_ns(world.jobs) <= model.now.mono_ns);
    m_run();
    world_follow();
}

/* The wall clock jumps. What is over by the old one has gone from the store. */
static void set_clock(void)
{
    uint32_t count;
    if (world.config.store) {
        AGREE(rig.store->does->begin(rig.store) == JOB_STORE_OK);
        AGREE(rig.store->does->forget_old(rig.store, rig_wall_ns(), M_TUBES * (M_KEYS + M_ROOTS),
                                          &count) == JOB_STORE_OK);
        AGREE(rig.store->does->commit(rig.store, model.now.mono_ns) == JOB_STORE_OK);
    }
    for (int n = 0; n < M_TUBES * M_KEYS; n++)
        (void)m_executed(n / M_KEYS, n % M_KEYS);
    world.wall_offset_s = (int64_t)below(200) - 100;
    world.was_set_back = true;
}

void world_move_time(void)
{
    int64_t to_ns = model.now.mono_ns, first_ns = world_first_due();
    int64_t slack_ns = world.config.store ? SLACK_NS : 0;
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
    for (unsigned n = 0;
         n < model.job_count && world.config.store;) { /* burials are some ns apart */
        int64_t at_ns = m_prune_at(&model.jobs[n]);
        bool near = llabs(at_ns - to_ns) <= SLACK_NS;
        to_ns = near ? at_ns + SLACK_NS + 1 : to_ns;
        n = near ? 0 : n + 1; /* the first ones may be near the new time */
    }
    bool late = one_in(10); /* the timer comes later */
    if (!late)
        untie(to_ns);
    world_set_time(to_ns);
    if (late)
        return;
    world_run();
    m_sweep();
    AGREE(world_first_due() > model.now.mono_ns || count_due(to_ns) > 200);
    while (world_first_due() <= model.now.mono_ns)
        world_run();
}

/* ---- life ------------------------------------------------------------------------------------ */

struct jobs_config world_jobs_config(uint64_t first_id)
{
    return (struct jobs_config){.memory_limit = UINT64_MAX,
                                .defaults = model.defaults,
                                .hash_key = {rng_next(&world_random), rng_next(&world_random)},
                                .seed = rng_next(&world_random),
                                .wall_ms = rig_wall_ms,
                                .first_id = first_id,
                                .many_watches = world.config.many_watches};
}

void world_limit_memory(struct jobs *of)
{
    if (world.config.memory_limit != UINT64_MAX)
        jobs_set_memory_limit(of, world.base_memory + world.config.memory_limit);
}

struct jobs *world_new_jobs(uint64_t first_id)
{
    const struct jobs_config of = world_jobs_config(first_id);
    struct jobs *made = jobs_new(&of);
    AGREE(made && (!world.config.store || rig_adopt(made)));
    struct jobs_stats stats;
    jobs_get_stats(made, &stats);
    world.base_memory = stats.memory;
    world_limit_memory(made);
    return made;
}

void world_some_clients(void)
{
    for (int c = 0; c < M_CLIENTS; c++)
        world.clients[c] = NULL;
    for (int c = 0; c < 3; c++)
        world_new_client(c);
}

void world_start(const struct world_config *with)
{
    world.config = *with;
    world.wall_offset_s = 0;
    world.was_set_back = false;
    world.message_count = 0;
    jobs_outbox_init(&world.outbox);
    mail_list_init(&rig.messages);
    m_start(&world.config.defaults, world.config.store);
    world_set_time(NS_PER_S + below(1000000000));
    if (world.config.store) {
        world.disk = fake_disk_new();
        rig.config = world_jobs_config(1);
        rig_start(&fake_store, fake_disk_path(world.disk));
        world.jobs = rig.jobs;
        world.base_memory = rig.empty;
        world_limit_memory(world.jobs);
    } else {
        world.jobs = world_new_jobs(one_in(2) ? 0 : 1 + below(100000));
    }
    model_served = served_of;
    world_some_clients();
}

void world_tell_all(void)
{
    while (world.message_count > 0)
        (void)jobs_client_message(jobs_client_of(world.messages[--world.message_count]));
}

void world_number_tubes(void)
{
    uint64_t place = 0, number = 0;
    struct job_body *name;
    size_t count;
    bool all;
    do {
        all = jobs_list_tubes(world.jobs, &place, 1, &name, &count);
        for (int t = 0; t < M_TUBES && count > 0; t++) {
            if (bytes_equal(bytes_at(name->bytes, name->len), m_name(t)))
                model.tubes[t].number = ++number;
        }
        if (count > 0)
            job_body_drop(world.jobs, &name);
    } while (!all);
    model.numbers = number;
}
