/* jobs_tubes.c - tubes: by name and number, their settings, and what follows from these. */
#include "jobs/jobs_internal.h"

#include <stdlib.h>
#include <string.h>

#define TUBES_FIRST 64u

const struct job_settings job_default_settings = {.is[JOB_SETTING_REMEMBER] = 3600};

static const char *const orders[] = {"priority", "fifo", "random"};
static const char *const claims[] = {"connection", "lease"};
const struct job_setting_row job_setting_rows[JOB_SETTINGS] = {
    [JOB_SETTING_ORDER] = {"order", orders, JOB_ORDER_RANDOM},
    [JOB_SETTING_CLAIM] = {"claim", claims, JOB_CLAIM_LEASE},
    [JOB_SETTING_TRIES] = {"tries", NULL, UINT32_MAX},
    [JOB_SETTING_LIMIT] = {"limit", NULL, UINT32_MAX},
    [JOB_SETTING_PRUNE] = {"prune", NULL, UINT32_MAX},
    [JOB_SETTING_REMEMBER] = {"remember", NULL, UINT32_MAX},
    [JOB_SETTING_READ_ONLY] = {"read-only", NULL, 0},
};

/* ---- tubes ----------------------------------------------------------------------------------- */

static struct tube *tube_of_name(const struct tree_node *node)
{
    return container_of(unconst(node), struct tube, by_name);
}

static int compare_numbers(const struct tree_node *a, const struct tree_node *b)
{
    return tube_of_number(a)->number < tube_of_number(b)->number ? -1 : 1;
}

static int compare_names(const struct tree_node *a, const struct tree_node *b)
{
    return bytes_compare(tube_name(tube_of_name(a)), tube_name(tube_of_name(b)));
}

static int compare_number(const struct tree_node *node, const void *key)
{
    uint64_t number = *(const uint64_t *)key, its = tube_of_number(node)->number;
    return its < number ? -1 : its > number;
}

bool tubes_init(struct jobs *jobs, uint64_t seed)
{
    jobs->tube_mask = TUBES_FIRST - 1;
    jobs->tubes_by_hash = calloc(TUBES_FIRST, sizeof(struct tube *));
    tree_init(&jobs->tubes, compare_numbers, (uint32_t)seed);
    tree_init(&jobs->ready_tubes, compare_names, (uint32_t)(seed >> 32));
    return jobs->tubes_by_hash != NULL;
}

struct tube *tube_from(const struct jobs *jobs, uint64_t number)
{
    struct tree_node *node = tree_from(&jobs->tubes, &number, compare_number);
    return node ? tube_of_number(node) : NULL;
}

static struct tube **tube_bucket(const struct jobs *jobs, struct tube **table, size_t mask,
                                 struct bytes name)
{
    return &table[hash_bytes(&jobs->hash_key, name.data, name.len) & mask];
}

/* The pointer to a tube in its chain, or to the end of a chain. */
static struct tube **tube_link(const struct jobs *jobs, struct bytes name)
{
    struct tube **link = tube_bucket(jobs, jobs->tubes_by_hash, jobs->tube_mask, name);
    while (*link && !bytes_equal(tube_name(*link), name))
        link = &(*link)->next_by_hash;
    if (*link || !jobs->old_tubes)
        return link;
    link = tube_bucket(jobs, jobs->old_tubes, jobs->old_tube_mask, name);
    while (*link && !bytes_equal(tube_name(*link), name))
        link = &(*link)->next_by_hash;
    return link;
}

struct tube *tube_find(const struct jobs *jobs, struct bytes name)
{
    return *tube_link(jobs, name);
}

uint64_t tube_turn(struct bytes name)
{
    return hash_bytes(&(struct hash_key){0}, name.data, name.len);
}

/* Moves some buckets of the old table to the new one. */
static void move_tubes(struct jobs *jobs)
{
    for (unsigned n = 0; n < 4 && jobs->old_tubes; n++) {
        struct tube *tube;
        while ((tube = jobs->old_tubes[jobs->tubes_moved])) {
            struct tube **bucket =
                tube_bucket(jobs, jobs->tubes_by_hash, jobs->tube_mask, tube_name(tube));
            jobs->old_tubes[jobs->tubes_moved] = tube->next_by_hash;
            tube->next_by_hash = *bucket;
            *bucket = tube;
        }
        if (jobs->tubes_moved++ < jobs->old_tube_mask)
            continue;
        free(jobs->old_tubes);
        jobs->old_tubes = NULL;
    }
}

/* Begins to double the table of tubes. Without memory the chains get longer. */
static void grow_tubes(struct jobs *jobs)
{
    size_t mask = jobs->tube_mask * 2 + 1;
    struct tube **table = calloc(mask + 1, sizeof(struct tube *));
    if (!table)
        return;
    jobs->old_tubes = jobs->tubes_by_hash;
    jobs->old_tube_mask = jobs->tube_mask;
    jobs->tubes_moved = 0;
    jobs->tubes_by_hash = table;
    jobs->tube_mask = mask;
}

struct tube *tube_get(struct jobs *jobs, struct bytes name)
{
    struct tube **link = tube_link(jobs, name);
    CHECK(name.len > 0 && name.len <= JOBS_TUBE_MAX);
    if (*link)
        return *link;
    struct tube *tube = jobs_alloc(jobs, JOBS_TUBES, sizeof(*tube));
    struct job_body *text = tube ? job_body_new_here(jobs, JOBS_TUBES, (uint32_t)name.len) : NULL;
    if (!text || !deadlines_reserve(&jobs->due, 1)) {
        job_body_drop(jobs, &text);
        jobs_release_memory(jobs, tube, sizeof(*tube));
        return NULL;
    }
    tube->number = ++jobs->tube_numbers;
    tube->turn = tube_turn(name);
    tube->due.kind = DUE_TUBE;
    tube->name = text;
    memcpy(text->bytes, name.data, name.len);
    for (unsigned n = 0; n < JOB_STATES; n++)
        job_tree_init(&tube->by_id[n], JOB_BY_ID);
    for (unsigned n = 0; n < JOB_STATES; n++) {
        job_tree_init(&tube->locked_by_id[n], JOB_BY_ID);
        job_tree_init(&tube->locked_by_turn[n], JOB_BY_TURN);
        job_tree_init(&tube->doomed_by_id[n], JOB_BY_ID);
    }
    job_tree_init(&tube->ready, JOB_BY_TURN);
    job_tree_init(&tube->delayed, JOB_BY_TURN);
    job_tree_init(&tube->buried, JOB_BY_TURN);
    job_tree_init(&tube->abandoned, JOB_BY_TURN);
    ring_init(&tube->line);
    watches_init_tube(tube);
    if (jobs->old_tubes)
        move_tubes(jobs);
    else if (jobs->tube_count > jobs->tube_mask)
        grow_tubes(jobs);
    link = tube_bucket(jobs, jobs->tubes_by_hash, jobs->tube_mask, name);
    tube->next_by_hash = *link;
    *link = tube;
    tree_add(&jobs->tubes, &tube->by_number);
    jobs->tube_count++;
    return tube;
}

uint64_t tube_jobs(const struct tube *tube)
{
    uint64_t count = 0;
    for (unsigned n = 0; n < JOB_STATES; n++)
        count += tube_count(tube, n);
    return count;
}

void tube_drop_if_unused(struct jobs *jobs, struct tube *tube)
{
    if (tube->using > 0 || tube->watching > 0 || tube->waiting > 0 || tube->settings.given ||
        tube->under_way > 0 || tube_jobs(tube) > 0)
        return;
    if (tube->kept)
        tube_forget_row(jobs, tube);
    struct tube **link = tube_link(jobs, tube_name(tube));
    CHECK(*link == tube && ring_is_empty(&tube->line));
    *link = tube->next_by_hash;
    tree_remove(&jobs->tubes, &tube->by_number);
    if (tree_has(&tube->by_name))
        tree_remove(&jobs->ready_tubes, &tube->by_name);
    deadline_clear(&jobs->due, &tube->due);
    deadlines_unreserve(&jobs->due, 1);
    jobs->tube_count--;
    job_body_leave(jobs, &tube->name);
    jobs_release_memory(jobs, tube, sizeof(*tube));
}

uint32_t job_tries(const struct jobs *jobs, const struct job *job)
{
    return job->tries_max == JOB_TRIES_OF_TUBE ? tube_setting(jobs, job->tube, JOB_SETTING_TRIES)
                                               : job->tries_max;
}

uint32_t tube_next(struct jobs *jobs, const struct tube *tube)
{
    const struct job_tree *by_id = &tube->by_id[JOB_READY];
    if (by_id->first == JOB_NONE ||
        tube_setting(jobs, tube, JOB_SETTING_ORDER) == JOB_ORDER_PRIORITY)
        return tube->ready.first;
    if (tube_setting(jobs, tube, JOB_SETTING_ORDER) == JOB_ORDER_FIFO)
        return by_id->first;
    uint64_t first = job_at(jobs, by_id->first)->id;
    uint64_t span = atomic_load_explicit(&jobs->next_id, memory_order_relaxed) - first;
    uint32_t found = job_tree_from(jobs, by_id, first + jobs_random(jobs) % (span > 0 ? span : 1));
    return found != JOB_NONE ? found : by_id->first;
}

uint32_t tube_first_buried(const struct jobs *jobs, const struct tube *tube, uint64_t turn)
{
    uint32_t buried = tube->buried.first, abandoned = tube->abandoned.first;
    if (unlikely(turn > 0)) {
        buried = job_tree_from_place(jobs, &tube->buried, turn, 0);
        abandoned = job_tree_from_place(jobs, &tube->abandoned, turn, 0);
    }
    return job_first_turn_of(jobs, buried, abandoned);
}

uint32_t tube_from_id(const struct jobs *jobs, const struct tube *tube, unsigned state, uint64_t id)
{
    return job_first_of(jobs, job_tree_from(jobs, &tube->by_id[state], id),
                        job_tree_from(jobs, &tube->doomed_by_id[state], id));
}

const char *tube_read_only(const struct jobs *jobs, const struct tube *tube)
{
    bool own = tube->settings.given & 1u << JOB_SETTING_READ_ONLY;
    return own ? tube->settings.read_only : jobs->defaults.read_only;
}

bool tube_is_closed(const struct jobs *jobs, const struct tube *tube)
{
    return tube->paused_until_ns != 0 || *tube_read_only(jobs, tube);
}

void tube_set_due(struct jobs *jobs, struct tube *tube)
{
    int64_t at_ns = tube->paused_until_ns ? tube->paused_until_ns : INT64_MAX;
    if (tube->serve_on)
        at_ns = jobs->hold_until_ns;
    if (tube->searching)
        at_ns = 0;
    if (tube->delayed.first != JOB_NONE) {
        int64_t first_ns = (int64_t)job_at(jobs, tube->delayed.first)->turn;
        at_ns = first_ns < at_ns ? first_ns : at_ns;
    }
    if (tube->abandoned.first != JOB_NONE && tube_setting(jobs, tube, JOB_SETTING_PRUNE) > 0) {
        int64_t first_ns = (int64_t)job_at(jobs, tube->abandoned.first)->turn - BURIAL_BASE +
                           (int64_t)tube_setting(jobs, tube, JOB_SETTING_PRUNE) * NS_PER_S;
        at_ns = first_ns < at_ns ? first_ns : at_ns;
    }
    if (at_ns == INT64_MAX)
        deadline_clear(&jobs->due, &tube->due);
    else if (at_ns != deadline_at(&jobs->due, &tube->due))
        deadline_set(&jobs->due, &tube->due, at_ns);
}

void client_set_due(struct jobs *jobs, struct jobs_client *client)
{
    int64_t at_ns = INT64_MAX;
    if (client->reserved.first != JOB_NONE) {
        const struct job *first = job_at(jobs, client->reserved.first);
        at_ns = (int64_t)first->turn;
        if (first->last_try && at_ns < jobs->hold_until_ns)
            at_ns = jobs->hold_until_ns; /* the store could not end it */
    }
    if (client->lines_up && at_ns > jobs->hold_until_ns)
        at_ns = jobs->hold_until_ns;
    if (client->ends_on)
        at_ns = client->ends_ns;
    if (at_ns == INT64_MAX)
        deadline_clear(&jobs->due, &client->due);
    else if (at_ns != deadline_at(&jobs->due, &client->due))
        deadline_set(&jobs->due, &client->due, at_ns);
}

void tube_note_ready(struct jobs *jobs, struct tube *tube)
{
    bool is = tube->ready.count > 0 && !tube_is_closed(jobs, tube);
    if (unlikely(!ring_is_empty(&tube->looked)))
        watches_note_turn(jobs, tube);
    if (is == tree_has(&tube->by_name))
        return;
    tube->became_ready = is;
    if (is)
        tree_add(&jobs->ready_tubes, &tube->by_name);
    else
        tree_remove(&jobs->ready_tubes, &tube->by_name);
}

/* ---- settings -------------------------------------------------------------------------------- */

void tube_pause(struct tube *tube, uint32_t seconds, struct moment now)
{
    tube->cmd_pause++;
    tube->pause_s = seconds;
    tube->paused_until_ns = seconds > 0 ? after_seconds(now, seconds) : 0;
}

void tube_changed(struct jobs *jobs, struct tube *tube, struct moment now,
                  struct jobs_outbox *outbox)
{
    tube_note_ready(jobs, tube);
    tube_set_due(jobs, tube);
    tube_serve(jobs, tube, now, outbox);
}

void settings_with(const struct jobs *jobs, struct job_settings *settings,
                   const struct job_settings *given)
{
    for (unsigned n = 0; n < JOB_SETTINGS; n++) {
        if (!(given->given & 1u << n))
            continue;
        bool is_default;
        if (n == JOB_SETTING_READ_ONLY) {
            memcpy(settings->read_only, given->read_only, sizeof(given->read_only));
            is_default = strcmp(given->read_only, jobs->defaults.read_only) == 0;
        } else {
            settings->is[n] = given->is[n];
            is_default = given->is[n] == jobs->defaults.is[n];
        }
        settings->given &= ~(1u << n);
        settings->given |= is_default ? 0 : 1u << n;
    }
}

bool jobs_set_defaults(struct jobs *jobs, const struct job_settings *defaults, uint64_t *place,
                       struct moment now, struct jobs_outbox *outbox)
{
    unsigned budget = JOBS_STEP;
    jobs_enter(jobs);
    jobs->defaults = *defaults;
    struct tube *tube = tube_from(jobs, *place);
    for (; tube && budget > 0; tube = tube_from(jobs, *place)) {
        budget--;
        tube_note_ready(jobs, tube);
        tube_set_due(jobs, tube);
        tube_serve_some(jobs, tube, &budget, now, outbox);
        *place = tube->number + 1;
    }
    jobs_leave(jobs);
    return tube == NULL;
}
