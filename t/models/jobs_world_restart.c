/* jobs_world_restart.c - restarts from a file, which may lie, and upgrades in place. */
#include "t/models/jobs_world_internal.h"

#include "jobs/jobs_state.h"

#include <sys/mman.h>

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
    fake_disk_lie(world.disk, lie);
    enum job_store_status status = rig_open();
    fake_disk_lie(world.disk, NULL);
    AGREE(status == (lied ? JOB_STORE_CORRUPT : JOB_STORE_OK));
    if (status == JOB_STORE_OK)
        rig_close();
}

void world_restart(void)
{
    struct jobs_outbox caused;
    jobs_outbox_init(&caused);
    model_step++;
    for (int c = 0; c < M_CLIENTS; c++) {
        if (model.clients[c].exists)
            jobs_client_end(world.clients[c], model.now, &caused);
    }
    world_tell_all();
    rig_send(&caused);
    rig_crash(NULL, 0);
    rig.config = world_jobs_config(1);
    rig.config.memory_limit = 2 * rig.empty; /* all that the file has comes, whatever the limit */
    open_lying();
    AGREE(rig_open() == JOB_STORE_OK);
    jobs_set_memory_limit(rig.jobs, UINT64_MAX);
    world.jobs = rig.jobs;
    m_restart();
    world_number_tubes();
    world_some_clients();
    world_compare();
}

void world_end(void)
{
    struct jobs_stats stats;
    model_step++;
    for (int n = (int)below(M_CLIENTS), left = M_CLIENTS; left > 0; left--, n++) {
        if (model.clients[n % M_CLIENTS].exists)
            world_end_client(n % M_CLIENTS);
    }
    m_sweep();
    world_compare();
    world_deliver_all();
    world.config.fails = false;
    world_set_defaults(&world.config.defaults);
    struct job_settings settings = world.config.defaults;
    settings.given = (1u << JOB_SETTINGS) - 1;
    for (int t = 0; t < M_TUBES; t++) {
        if (!model.tubes[t].exists)
            continue;
        AGREE(world_set_to(t, &settings));
        m_sweep();
        if (!model.tubes[t].exists)
            continue;
        world_clear_tube(t, JOBS_ALL);
        m_sweep();
        if (model.tubes[t].exists)
            world_clear_tube(t, JOB_RESERVED);
        m_sweep();
    }
    AGREE(model.job_count == 0);
    world_compare();
    /* All that is remembered is forgotten. */
    world.wall_offset_s = 0;
    world_set_time(model.now.mono_ns + INT64_C(200) * 365 * 86400 * NS_PER_S);
    world_run();
    jobs_get_stats(world.jobs, &stats);
    AGREE(stats.memory == world.base_memory && world.message_count == 0);
    if (!world.config.store) {
        jobs_free(&world.jobs);
        return;
    }
    rig_close();
    fake_disk_free(&world.disk);
}

/* ---- upgrades -------------------------------------------------------------------------------- */

static struct record_writer writer;

uint8_t *world_save(size_t *len_r)
{
    world_deliver_all();
    for (int c = 0; c < M_CLIENTS; c++) {
        if (model.clients[c].exists)
            world_read_wait(c);
    }
    int fd = memfd_create("jobs", MFD_CLOEXEC);
    AGREE(fd >= 0);
    record_writer_init(&writer, fd);
    jobs_save(world.jobs, &writer);
    record_begin(&writer, 1);
    for (int c = 0; c < M_CLIENTS; c++) {
        record_put_u8(&writer, model.clients[c].exists);
        if (model.clients[c].exists)
            jobs_client_save(world.clients[c], &writer);
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
            new[c] = jobs_client_restore(to, (uint64_t)c, &world.clients[c], r);
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
        if (kind == JOBS_STATE || kind == JOBS_PUT_TIMES || kind == JOBS_BURIAL)
            good = jobs_restore(to, kind, &section) && good;
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
    struct jobs_outbox caused;
    struct mail *mail;
    jobs_outbox_init(&caused);
    for (int c = 0; c < M_CLIENTS; c++) {
        if (its[c])
            jobs_client_end(its[c], model.now, &caused);
    }
    while ((mail = mail_list_take(&caused.messages)))
        AGREE(!jobs_client_message(jobs_client_of(mail)));
    jobs_free(&which);
}

/* Buries a job, if a client has one. */
static void bury_some(void)
{
    for (unsigned n = 0; n < model.job_count; n++) {
        const struct m_job *job = &model.jobs[n];
        if (job->now.state == JOB_RESERVED && job->holder != M_LEASES &&
            model.clients[job->holder].wait == M_IDLE) {
            world_bury(job->holder);
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
            world_end_client(c);
        m_sweep();
    }
    uint8_t *record = world_save(&len);
    struct jobs *old = world.jobs, *new = world_new_jobs(1);
    if (world.config.memory_limit != UINT64_MAX) /* all comes, whatever the limit */
        jobs_set_memory_limit(new, 1);
    record_reader_init(&r, record, len);
    if (!restore_all(new, new_clients, &r))
        ck_abort_msg("step %" PRIu64 ": not restored: %s", model_step, r.why);
    world_limit_memory(new);
    for (int c = 0; c < M_CLIENTS; c++)
        old_clients[c] = model.clients[c].exists ? world.clients[c] : NULL;
    memcpy(world.clients, new_clients, sizeof(world.clients));
    world.jobs = rig.jobs = new;
    end_all(old, old_clients);
    world_follow();
    free(record);
    for (unsigned n = 0; n < model.job_count; n++) /* tokens, too */ {
        uint64_t id = model.jobs[n].id; /* over a store the record has no bodies */
        AGREE(!world.config.store || !job_at(world.jobs, job_find(world.jobs, id))->body);
        AGREE(jobs_peek(world.jobs, id, &world.views[0]) == JOBS_OK);
        world_check_view(&world.views[0], &model.jobs[n]);
    }
    bury_some();
    world_compare();
}

bool world_try(const uint8_t *record, size_t len, const char **why_r)
{
    struct jobs_client *new[M_CLIENTS] = {NULL};
    struct jobs_outbox caused;
    struct mail *mail;
    struct record_reader r;
    struct jobs *to = world_new_jobs(1);
    record_reader_init(&r, record, len);
    bool good = restore_all(to, new, &r);
    *why_r = good ? NULL : r.why;
    jobs_outbox_init(&caused);
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
                  jobs_peek(to, id, &world.views[0]) == JOBS_NOT_FOUND);
            act = (struct job_act){.verb = JOB_RELEASE, .client = new[c], .id = below(100)};
            AGREE(submit_act(to, act, NULL, later, &caused) < JOBS_NOT_IGNORED);
            if (jobs_reserve(new[c], 0, &world.views[0], later) == JOBS_OK)
                job_body_drop(to, &world.views[0].body);
        }
        while ((mail = mail_list_take(&caused.messages))) {
            struct jobs_client *client = jobs_client_of(mail);
            if (jobs_client_message(client) && jobs_read(client, &world.views[0]))
                job_body_drop(to, &world.views[0].body);
        }
    }
    end_all(to, new);
    return good;
}
