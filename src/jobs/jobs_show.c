/* jobs_show.c - what there is: peeks, lists, statistics; and the check of all invariants. */
#include "jobs/jobs_internal.h"

#include <stdio.h>
#include <string.h>

/* A tube that only changes under way need is seen by nobody. */
static bool is_seen(const struct tube *tube)
{
    return tube->using > 0 || tube->watching > 0 || tube->waiting > 0 || tube->settings.given ||
           tube_jobs(tube) > 0;
}

/* The tube of this name; NULL: nobody sees one. */
static const struct tube *find_seen(const struct jobs *jobs, struct bytes name)
{
    const struct tube *tube = tube_find(jobs, name);
    return tube && is_seen(tube) ? tube : NULL;
}

/* ---- peek ------------------------------------------------------------------------------------ */

enum jobs_status jobs_peek(struct jobs *jobs, uint64_t id, struct job_view *view_r)
{
    jobs_enter(jobs);
    uint32_t handle = job_find(jobs, id);
    if (handle != JOB_NONE)
        job_see(jobs, handle, view_r);
    jobs_leave(jobs);
    return handle != JOB_NONE ? JOBS_OK : JOBS_NOT_FOUND;
}

static uint32_t tube_peek_ready(struct jobs *jobs, const struct tube *tube)
{
    uint32_t next = tube_next(jobs, tube);
    if (tube_setting(jobs, tube, JOB_SETTING_ORDER) == JOB_ORDER_PRIORITY)
        return job_first_turn_of(jobs, next, tube->locked_by_turn[JOB_READY].first);
    return job_first_of(jobs, next, tube->locked_by_id[JOB_READY].first);
}

static uint32_t tube_peek_buried(const struct jobs *jobs, const struct tube *tube)
{
    uint32_t first = job_first_turn_of(jobs, tube_first_buried(jobs, tube, 0),
                                       tube->locked_by_turn[JOB_BURIED].first);
    return job_first_turn_of(jobs, first, tube->locked_by_turn[JOB_ABANDONED].first);
}

enum jobs_status jobs_peek_next(struct jobs_client *client, enum job_peek what,
                                struct job_view *view_r)
{
    struct jobs *jobs = client->jobs;
    jobs_enter(jobs);
    const struct tube *tube = client->used;
    uint32_t handle =
        what == JOB_PEEK_READY ? tube_peek_ready(jobs, tube)
        : what == JOB_PEEK_DELAYED
            ? job_first_turn_of(jobs, tube->delayed.first, tube->locked_by_turn[JOB_DELAYED].first)
            : tube_peek_buried(jobs, tube);
    if (handle != JOB_NONE)
        job_see(jobs, handle, view_r);
    jobs_leave(jobs);
    return handle != JOB_NONE ? JOBS_OK : JOBS_NOT_FOUND;
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* True for the states that a list of `state` has. */
static bool is_listed(unsigned state, unsigned its)
{
    return state == JOBS_ALL || its == state || (state == JOB_BURIED && its == JOB_ABANDONED);
}

/* A walk over sets by id that are listed as one: the next job of each. A step costs one search, in
 * the set whose job was first. */
struct list_walk {
    const struct job_tree *trees[3 * JOB_STATES];
    uint32_t next[3 * JOB_STATES];
    unsigned count;
};

/* Begins with an id of at least `id`, which the set of `tree` need not have. */
static void walk_tree(const struct jobs *jobs, struct list_walk *walk, const struct job_tree *tree,
                      uint64_t id)
{
    uint32_t next = tree->count > 0 ? job_tree_from(jobs, tree, id) : JOB_NONE;
    if (next == JOB_NONE)
        return;
    walk->trees[walk->count] = tree;
    walk->next[walk->count++] = next;
}

/* NULL: there is no such tube. */
static const struct tube *walk_begin(const struct jobs *jobs, struct list_walk *walk,
                                     struct bytes name, unsigned state, uint64_t after)
{
    const struct tube *tube = find_seen(jobs, name);
    walk->count = 0;
    for (unsigned n = 0; tube && after < UINT64_MAX && n < JOB_STATES; n++) {
        if (!is_listed(state, n))
            continue;
        walk_tree(jobs, walk, &tube->by_id[n], after + 1);
        walk_tree(jobs, walk, &tube->locked_by_id[n], after + 1);
        walk_tree(jobs, walk, &tube->doomed_by_id[n], after + 1);
    }
    return tube;
}

/* The job with the smallest id; JOB_NONE: there is no more. */
static uint32_t walk_first(const struct jobs *jobs, const struct list_walk *walk)
{
    uint32_t first = JOB_NONE;
    for (unsigned n = 0; n < walk->count; n++)
        first = job_first_of(jobs, first, walk->next[n]);
    return first;
}

/* Goes past that job. */
static void walk_on(const struct jobs *jobs, struct list_walk *walk, uint32_t first)
{
    for (unsigned n = 0; n < walk->count; n++) {
        if (walk->next[n] == first)
            walk->next[n] = job_tree_from(jobs, walk->trees[n], job_at(jobs, first)->id + 1);
    }
}

bool jobs_list_tubes(struct jobs *jobs, uint64_t *place, unsigned budget, struct job_body **names_r,
                     size_t *count_r)
{
    *count_r = 0;
    jobs_enter(jobs);
    struct tube *first = tube_from(jobs, *place);
    struct tree_node *at = first ? &first->by_number : NULL;
    for (; at && budget > 0; at = tree_next(at), budget--) {
        const struct tube *tube = tube_of_number(at);
        if (is_seen(tube))
            names_r[(*count_r)++] = job_body_share(tube->name);
        *place = tube->number + 1;
    }
    jobs_leave(jobs);
    return at == NULL;
}

bool jobs_list_watched(struct jobs_client *client, struct tube_watch **place, unsigned budget,
                       struct job_body **names_r, size_t *count_r)
{
    *count_r = 0;
    jobs_enter(client->jobs);
    struct ring *at =
        *place ? ring_after(&client->watched, &(*place)->order) : ring_first(&client->watched);
    for (; at && budget > 0; at = ring_after(&client->watched, at), budget--) {
        *place = container_of(at, struct tube_watch, order);
        names_r[(*count_r)++] = job_body_share((*place)->tube->name);
    }
    jobs_leave(client->jobs);
    return at == NULL;
}

/* ---- statistics ------------------------------------------------------------------------------ */

/* Whole seconds until a time, cut. */
static uint64_t seconds_until(int64_t at_ns, struct moment now)
{
    return at_ns > now.mono_ns ? (uint64_t)(at_ns - now.mono_ns) / (uint64_t)NS_PER_S : 0;
}

/* Whole seconds that have passed since the put, by the wall clock, which may have been set back. */
static uint64_t age_of(const struct job *job, int64_t wall_ms)
{
    int64_t put_ms = (int64_t)job->put_ms;
    return wall_ms > put_ms ? (uint64_t)(wall_ms - put_ms) / 1000 : 0;
}

static void copy_name(const struct tube *tube, char *to)
{
    memcpy(to, tube->name->bytes, tube->name->len);
    to[tube->name->len] = '\0';
}

static void fill_job_stats(const struct jobs *jobs, const struct job *job, struct moment now,
                           struct job_stats *stats_r)
{
    bool timed = job->state == JOB_RESERVED || job->state == JOB_DELAYED;
    *stats_r = (struct job_stats){
        .id = job->id,
        .state = job->state,
        .pri = job->pri,
        .delay_s = job->delay_s,
        .ttr_s = job->ttr_s,
        .age_s = age_of(job, jobs_wall_ms(jobs, now)),
        .time_left_s = timed ? seconds_until((int64_t)job->turn, now) : 0,
        .counts = job->counts,
        .tries = job->tries,
        .body_len = job->body_len,
    };
    copy_name(job->tube, stats_r->tube);
}

enum jobs_status jobs_stats_job(struct jobs *jobs, uint64_t id, struct moment now,
                                struct job_stats *stats_r)
{
    jobs_enter(jobs);
    uint32_t handle = job_find(jobs, id);
    if (handle != JOB_NONE)
        fill_job_stats(jobs, job_at(jobs, handle), now, stats_r);
    jobs_leave(jobs);
    return handle != JOB_NONE ? JOBS_OK : JOBS_NOT_FOUND;
}

/* A list of jobs that is made in steps, between which others get the lock. */
struct listing {
    struct job_view *views;
    struct job_stats *stats; /* instead of those, by this clock */
    struct moment now;
    size_t limit, count, bytes, answer_max;
    uint64_t after, next;
    bool found, over;
};

/* So many jobs are listed in a step. */
#define LIST_STEP 64u

static void list_step(struct jobs *jobs, struct listing *list, struct bytes name, unsigned state)
{
    struct list_walk walk;
    jobs_enter(jobs);
    list->found |= walk_begin(jobs, &walk, name, state, list->after) != NULL;
    list->over = true; /* unless there are more */
    for (uint32_t at, n = 0; (at = walk_first(jobs, &walk)) != JOB_NONE; n++) {
        const struct job *job = job_at(jobs, at);
        size_t len = JOBS_LINE + job->body_len;
        bool room = list->bytes <= list->answer_max && len <= list->answer_max - list->bytes;
        if (list->count == list->limit || (list->count > 0 && !room)) {
            list->next = list->after;
            break;
        }
        list->over = n < LIST_STEP;
        if (!list->over)
            break;
        list->bytes += len;
        list->after = job->id;
        if (list->stats)
            fill_job_stats(jobs, job, list->now, &list->stats[list->count++]);
        else
            job_see(jobs, at, &list->views[list->count++]);
        walk_on(jobs, &walk, at);
    }
    jobs_leave(jobs);
}

/* Makes all of it. */
static enum jobs_status make_list(struct jobs *jobs, struct listing *list, struct bytes name,
                                  unsigned state, size_t *count_r, uint64_t *next_r)
{
    if (list->limit > JOBS_STEP)
        list->limit = JOBS_STEP;
    do
        list_step(jobs, list, name, state);
    while (!list->over);
    *count_r = list->count;
    *next_r = list->next;
    return list->found ? JOBS_OK : JOBS_NOT_FOUND;
}

enum jobs_status jobs_list(struct jobs *jobs, struct bytes name, unsigned state, uint64_t after,
                           size_t limit, size_t answer_max, struct job_view *views_r,
                           size_t *count_r, uint64_t *next_r)
{
    struct listing list = {
        .views = views_r, .limit = limit, .answer_max = answer_max, .after = after};
    return make_list(jobs, &list, name, state, count_r, next_r);
}

enum jobs_status jobs_list_stats(struct jobs *jobs, struct bytes name, unsigned state,
                                 uint64_t after, size_t limit, struct moment now,
                                 struct job_stats *stats_r, size_t *count_r, uint64_t *next_r)
{
    struct listing list = {
        .stats = stats_r, .now = now, .limit = limit, .answer_max = SIZE_MAX, .after = after};
    return make_list(jobs, &list, name, state, count_r, next_r);
}

/* The settings of a tube that are in force. */
static struct job_settings settings_of(const struct jobs *jobs, const struct tube *tube)
{
    struct job_settings s = {.given = tube->settings.given};
    for (unsigned n = 0; n < JOB_SETTING_READ_ONLY; n++)
        s.is[n] = tube_setting(jobs, tube, n);
    memcpy(s.read_only, tube_read_only(jobs, tube), JOBS_READ_ONLY_MAX + 1);
    return s;
}

/*
 * Counts the clients that wait for a tube. After JOBS_STEP of those that watch many tubes, others
 * get the lock; false: the tube has gone then.
 */
static bool count_waiting(struct jobs *jobs, const struct tube *tube, unsigned *done,
                          uint64_t *count_r)
{
    const struct jobs_client *client;
    uint64_t number = tube->number, age = 0, many = 0;
    while (tube->many > 0 && (client = watches_wait_from(jobs, age)) != NULL) {
        many += client_find_watch(client, tube) != NULL;
        age = client->age + 1;
        if (++*done % JOBS_STEP != 0)
            continue;
        jobs_let_others(jobs);
        tube = tube_from(jobs, number);
        if (!tube || tube->number != number)
            return false;
    }
    *count_r = tube->waiting + many;
    return true;
}

static void fill_tube_stats(const struct jobs *jobs, const struct tube *tube, uint64_t waiting,
                            struct moment now, struct tube_stats *stats_r)
{
    uint32_t oldest =
        job_first_of(jobs, tube->by_id[JOB_READY].first, tube->locked_by_id[JOB_READY].first);
    *stats_r = (struct tube_stats){
        .settings = settings_of(jobs, tube),
        .urgent = tube->urgent,
        .using = tube->using - bytes_equal(tube_name(tube), bytes_of("default")),
        .watching = tube->watching,
        .waiting = waiting,
        .total_jobs = tube->total_jobs,
        .cmd_delete = tube->cmd_delete,
        .cmd_pause = tube->cmd_pause,
        .pause_s = tube->pause_s,
        .pause_left_s = seconds_until(tube->paused_until_ns, now),
        .oldest_ready_s =
            oldest == JOB_NONE ? 0 : age_of(job_at(jobs, oldest), jobs_wall_ms(jobs, now)),
        .duplicates = tube->duplicates,
        .claims = tube->claims,
        .dropped = tube->dropped,
        .acks = tube->acks,
        .recycled = tube->recycled,
        .abandoned = tube->given_up,
    };
    for (unsigned n = 0; n < JOB_STATES; n++)
        stats_r->states[n] = tube_count(tube, n);
    copy_name(tube, stats_r->name);
}

void jobs_get_defaults(struct jobs *jobs, struct job_settings *settings_r)
{
    jobs_enter(jobs);
    *settings_r = jobs->defaults;
    jobs_leave(jobs);
}

enum jobs_status jobs_stats_tube(struct jobs *jobs, struct bytes name, struct moment now,
                                 struct tube_stats *stats_r)
{
    unsigned done = 0;
    uint64_t waiting;
    jobs_enter(jobs);
    const struct tube *tube = find_seen(jobs, name);
    if (tube && count_waiting(jobs, tube, &done, &waiting))
        fill_tube_stats(jobs, tube, waiting, now, stats_r);
    else
        tube = NULL;
    jobs_leave(jobs);
    return tube ? JOBS_OK : JOBS_NOT_FOUND;
}

bool jobs_visit_tubes(struct jobs *jobs, uint64_t *place, unsigned budget, struct moment now,
                      void (*visit)(void *arg, const struct tube_stats *stats), void *arg)
{
    struct tube_stats stats;
    struct tube *tube;
    uint64_t waiting;
    unsigned done = 0;
    jobs_enter(jobs);
    while ((tube = tube_from(jobs, *place)) && budget-- > 0) {
        *place = tube->number + 1;
        if (is_seen(tube) && count_waiting(jobs, tube, &done, &waiting)) {
            fill_tube_stats(jobs, tube, waiting, now, &stats);
            visit(arg, &stats);
        }
    }
    jobs_leave(jobs);
    return tube == NULL;
}

void jobs_get_stats(struct jobs *jobs, struct jobs_stats *stats_r)
{
    jobs_enter(jobs);
    *stats_r = (struct jobs_stats){
        .urgent = jobs->urgent,
        .tubes = jobs->tube_count,
        .waiting = jobs->waiting,
        .total_jobs = jobs->total_jobs,
        .timeouts = jobs->timeouts,
        .memory = atomic_load(&jobs->memory),
        .memory_limit = atomic_load(&jobs->memory_limit),
        .doomed = jobs->doomed.count,
        .steps = jobs->steps,
        .visits = jobs->visits,
    };
    memcpy(stats_r->states, jobs->states, sizeof(jobs->states));
    for (unsigned n = 0; n < JOBS_NEEDS; n++)
        stats_r->refused[n] = atomic_load_explicit(&jobs->refused[n], memory_order_relaxed);
    jobs_leave(jobs);
}
