/* jobs_check.c - see jobs_check.h. */
#include "t/models/jobs_check.h"

#include "jobs/jobs_internal.h"

/* ---- tubes and clients ----------------------------------------------------------------------- */

struct look {
    const struct jobs *jobs;
    const struct tube *tube;
    const struct jobs_client *holder;
    unsigned state;
    bool locked, doomed;
    uint32_t count;
    uint64_t last_turn, last_id;
    uint64_t urgent;
};

static void look_by_id(void *arg, uint32_t handle)
{
    struct look *look = arg;
    const struct job *job = job_at(look->jobs, handle);
    CHECK(job->tube == look->tube && job->state == look->state && job->id > look->last_id);
    CHECK(job_find(look->jobs, job->id) == handle && job->locked == look->locked);
    CHECK(job->doomed == look->doomed);
    CHECK(job->body ? job->body->len == job->body_len : look->jobs->commit != NULL);
    CHECK((job->holder != NULL) == (job->state == JOB_RESERVED));
    look->last_id = job->id;
    look->count++;
    look->urgent += job->state == JOB_READY && job->pri < 1024;
}

static void look_by_turn(void *arg, uint32_t handle)
{
    struct look *look = arg;
    const struct job *job = job_at(look->jobs, handle);
    uint64_t turn = job->state == JOB_READY ? job->pri : job->turn;
    CHECK(job->state == look->state && (!look->tube || job->tube == look->tube));
    CHECK(job->holder == look->holder);
    CHECK(look->count == 0 || turn > look->last_turn ||
          (turn == look->last_turn && job->id > look->last_id));
    look->last_turn = turn;
    look->last_id = job->id;
    look->count++;
}

static void check_turns(const struct jobs *jobs, const struct tube *tube, unsigned state,
                        const struct job_tree *tree, const struct jobs_client *holder)
{
    struct look look = {.jobs = jobs, .tube = tube, .state = state, .holder = holder};
    job_tree_visit(jobs, tree, look_by_turn, &look);
    CHECK(look.count == tree->count);
    CHECK(!tube || look.count == tube->by_id[state].count);
}

static void check_tube(struct jobs *jobs, const struct tube *tube, uint64_t *states,
                       uint64_t *doomed)
{
    for (unsigned n = 0; n < JOB_STATES; n++) {
        struct look look = {.jobs = jobs, .tube = tube, .state = n};
        job_tree_visit(jobs, &tube->by_id[n], look_by_id, &look);
        CHECK(look.count == tube->by_id[n].count);
        look.locked = true;
        look.last_id = 0;
        job_tree_visit(jobs, &tube->locked_by_id[n], look_by_id, &look);
        look.locked = false;
        look.doomed = true;
        look.last_id = 0;
        job_tree_visit(jobs, &tube->doomed_by_id[n], look_by_id, &look);
        CHECK(look.count == tube_count(tube, n));
        *doomed += tube->doomed_by_id[n].count;
        CHECK(n != JOB_READY || look.urgent == tube->urgent);
        CHECK(tube->locked_by_turn[n].count == tube->locked_by_id[n].count);
        states[n] += look.count;
    }
    check_turns(jobs, tube, JOB_READY, &tube->ready, NULL);
    check_turns(jobs, tube, JOB_DELAYED, &tube->delayed, NULL);
    check_turns(jobs, tube, JOB_BURIED, &tube->buried, NULL);
    check_turns(jobs, tube, JOB_ABANDONED, &tube->abandoned, NULL);
    CHECK(tube_is_closed(jobs, tube) || tube->serve_on || tube->searching ||
          tube->ready.count == 0 || ring_is_empty(&tube->line));
    CHECK(!tube->searching || deadline_is_set(&tube->due));
    CHECK(tree_has(&tube->by_name) == (tube->ready.count > 0 && !tube_is_closed(jobs, tube)));
    CHECK(tube->using > 0 || tube->watching > 0 || tube->waiting > 0 || tube->settings.given ||
          tube->under_way > 0 || tube_jobs(tube) > 0);
    uint32_t waiting = 0;
    for (struct ring *at = ring_first(&tube->line); at; at = ring_after(&tube->line, at)) {
        CHECK(container_of(at, struct tube_watch, line)->client->wait == WAITING);
        waiting++;
    }
    CHECK(jobs->commit ? waiting <= tube->waiting : waiting == tube->waiting);
}

static void check_client(struct jobs *jobs, const struct jobs_client *client)
{
    uint32_t count = 0, last = JOB_NONE;
    check_turns(jobs, NULL, JOB_RESERVED, &client->reserved, client);
    for (uint32_t at = client->first_reserved; at != JOB_NONE;
         at = job_at(jobs, at)->next_reserved) {
        CHECK(job_at(jobs, at)->prev_reserved == last && job_at(jobs, at)->holder == client);
        last = at;
        count++;
    }
    CHECK(last == client->last_reserved && count == client->reserved.count + client->locked);
}

/* ---- clients that watch many tubes ----------------------------------------------------------- */

struct turn {
    uint64_t pri, id;
};

static bool comes_before(struct turn a, struct turn b)
{
    return a.pri != b.pri ? a.pri < b.pri : a.id < b.id;
}

static bool has_job(const struct jobs *jobs, const struct tube *tube)
{
    return tube->ready.first != JOB_NONE && !tube_is_closed(jobs, tube);
}

/* No job of this tube comes before it. */
static struct turn first_turn(const struct jobs *jobs, const struct tube *tube)
{
    bool fifo = tube_setting(jobs, tube, JOB_SETTING_ORDER) == JOB_ORDER_FIFO;
    const struct job *first = job_at(jobs, fifo ? tube->by_id[JOB_READY].first : tube->ready.first);
    if (fifo && job_may_be_stale(first))
        return (struct turn){0}; /* the one behind it may have any priority */
    return (struct turn){.pri = first->pri, .id = first->id};
}

static bool waits_here(const struct jobs_client *client)
{
    return client->wait == WAITING && !client->named;
}

static void check_watches(const struct jobs_client *client)
{
    const struct jobs *jobs = client->jobs;
    for (struct ring *at = client->many ? ring_first(&client->watched) : NULL; at;
         at = ring_after(&client->watched, at)) {
        const struct tube_watch *watch = container_of(at, struct tube_watch, order);
        const struct tube *tube = watch->tube;
        if (tree_has(&watch->by_order)) {
            CHECK(ring_has(&watch->line) && tree_has(&watch->by_turn));
            const struct turn place = {watch->pri, watch->place};
            CHECK(!comes_before((struct turn){tube->told_pri, tube->told_id}, place));
            CHECK(!has_job(jobs, tube) || !comes_before(first_turn(jobs, tube), place));
        } else if (tree_has(&watch->by_turn)) {
            CHECK(!ring_has(&watch->line) && watch->place <= client->age);
            CHECK(!has_job(jobs, tube) || client->passed_by);
            CHECK(!has_job(jobs, tube) || !waits_here(client) || tube->serve_on || tube->searching);
        } else {
            CHECK(ring_has(&watch->line) && (!waits_here(client) || client->lines_up));
        }
        CHECK((client->last == watch) == (tube->turn == client->turn));
    }
    bool counted = client->many && !client->named && !client->ended &&
                   (client->wait == WAITING || client->wait == PROMISED);
    CHECK(client->ended || counted == tree_has(&client->by_age));
}

/* ---- keys and roots -------------------------------------------------------------------------- */

static bool has_stale(const struct jobs *jobs, const struct job_mark *root)
{
    return root->is_root && root->jobs.first != JOB_NONE &&
           job_at(jobs, root->jobs.first)->keys->root_ms < root->time_ms;
}

static bool has_its_key(const struct job *job)
{
    return job->state == JOB_READY || job->state == JOB_DELAYED;
}

static void check_table(const struct jobs *jobs, struct job_mark *const *table, size_t mask,
                        size_t *count, uint64_t *refs)
{
    for (size_t n = 0; table && n <= mask; n++) {
        for (const struct job_mark *mark = table[n]; mark; mark = mark->next_by_hash) {
            bool rests = !jobs->commit || job_ops_rest(jobs->commit);
            CHECK((mark->name[0] & mask) == n && mark->jobs.count <= mark->refs);
            CHECK(!rests || (mark->busy == 0 && mark->leaving == 0 && mark->lookers == 0));
            CHECK(mark->refs > 0 || deadline_is_set(&mark->due));
            CHECK(!has_stale(jobs, mark) || deadline_is_set(&mark->due));
            (*count)++;
            *refs += mark->refs;
        }
    }
}

static void check_marks(const struct jobs *jobs)
{
    size_t count = 0;
    uint64_t refs = 0, jobs_refs = 0, with = 0, in_trees = 0;
    check_table(jobs, jobs->marks, jobs->mark_mask, &count, &refs);
    check_table(jobs, jobs->old_marks, jobs->old_mark_mask, &count, &refs);
    CHECK(count == jobs->mark_count);
    for (uint32_t n = 0; n < jobs->page_count * JOB_PAGE; n++) {
        const struct job *job = job_at(jobs, n);
        if (job->id == 0 || !job->keys)
            continue;
        const struct job_keys *keys = job->keys;
        jobs_refs += keys->key != NULL;
        jobs_refs += keys->root != NULL;
        if (job->locked || job->doomed)
            continue;
        with += has_its_key(job);
        if (keys->key && has_its_key(job))
            in_trees +=
                job_tree_from_place(jobs, &keys->key->jobs, (uintptr_t)keys->root, job->id) == n;
        else if (has_its_key(job))
            in_trees +=
                job_tree_from_place(jobs, &keys->root->jobs, (uint64_t)keys->root_ms, job->id) == n;
    }
    bool rests = !jobs->commit || job_ops_rest(jobs->commit); /* else changes have some, too */
    CHECK((rests ? refs == jobs_refs : refs >= jobs_refs) && with == in_trees);
}

/* ---- all ------------------------------------------------------------------------------------- */

void jobs_check(struct jobs *jobs, struct moment now)
{
    uint64_t states[JOB_STATES] = {0}, jobs_seen = 0, tubes = 0, reserved = 0, waiting = 0;
    uint64_t coming = 0, held = 0, doomed = 0;
    (void)now;
    jobs_enter(jobs);
    steps_unbounded(LOCK_RANK_JOBS);
    for (struct tree_node *at = tree_first(&jobs->tubes); at; at = tree_next(at)) {
        check_tube(jobs, tube_of_number(at), states, &doomed);
        coming += tube_of_number(at)->coming;
        tubes++;
    }
    for (unsigned n = 0; n < JOB_STATES; n++) {
        CHECK(states[n] == jobs->states[n]);
        jobs_seen += states[n];
    }
    CHECK(jobs_seen + coming == jobs->job_count && tubes == jobs->tube_count);
    for (struct ring *at = ring_first(&jobs->clients); at; at = ring_after(&jobs->clients, at)) {
        const struct jobs_client *client = container_of(at, struct jobs_client, all);
        check_client(jobs, client);
        check_watches(client);
        reserved += client->reserved.count + client->locked;
        held += client == jobs->leases ? 0 : client->reserved.count + client->locked;
        waiting += client->wait == WAITING || client->wait == PROMISED;
    }
    CHECK(ring_is_empty(&jobs->ending));
    CHECK(jobs->visits_most <= JOBS_VISITS_MAX);
    CHECK(reserved == jobs->states[JOB_RESERVED] && waiting == jobs->waiting);
    CHECK(held == atomic_load(&jobs->held_now));
    CHECK(doomed == jobs->doomed.count &&
          (doomed == 0 || deadline_is_set(&jobs->drops) || jobs_are_busy(jobs)));
    check_marks(jobs);
    jobs_leave(jobs);
}
