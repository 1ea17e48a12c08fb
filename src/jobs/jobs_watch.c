/*
 * jobs_watch.c - clients that watch many tubes (JOBS_MANY_WATCHES): what they know of these, so
 * that nothing visits all of them.
 *
 * A watch of such a client is one of
 *
 *     ready   the tube had a job that comes at this place, or later: in client->ready by that
 *             place, in client->turns by the order of watching, and of tube->looked
 *     unseen  it has a better job now: of client->unseen
 *     empty   it had none: in tube->empty, by the age of a wait that the client has begun, maybe
 * not its last
 *
 * A look sees the unseen ones, and corrects the first of the ready ones, until it has found the
 * best job. A client begins to wait when all its watches are empty, and changes none of them: a
 * tube that gets a job goes through its empty ones, by age. Those whose clients do not wait become
 * ready, and those whose clients have begun to wait anew move to their places; the first that is
 * right is the longest wait. So each step of a put or a look is owed to a look before it, or to a
 * watch.
 */
#include "jobs/jobs_internal.h"

#include <string.h>

static struct tube_watch *of_turn(const struct tree_node *node)
{
    return container_of(unconst(node), struct tube_watch, by_turn);
}

static struct tube_watch *of_order(const struct tree_node *node)
{
    return container_of(unconst(node), struct tube_watch, by_order);
}

static struct tube_watch *of_line(struct ring *item)
{
    return container_of(item, struct tube_watch, line);
}

static bool comes_before(uint64_t pri, uint64_t id, uint64_t other_pri, uint64_t other_id)
{
    return pri != other_pri ? pri < other_pri : id < other_id;
}

static int compare_turns(const struct tree_node *a, const struct tree_node *b)
{
    const struct tube_watch *x = of_turn(a), *y = of_turn(b);
    if (x->pri == y->pri && x->place == y->place)
        return x->number < y->number ? -1 : 1;
    return comes_before(x->pri, x->place, y->pri, y->place) ? -1 : 1;
}

static int compare_orders(const struct tree_node *a, const struct tree_node *b)
{
    return of_order(a)->number < of_order(b)->number ? -1 : 1;
}

static int compare_order(const struct tree_node *node, const void *number)
{
    uint64_t its = of_order(node)->number, key = *(const uint64_t *)number;
    return its < key ? -1 : its > key;
}

static struct jobs_client *of_wait(const struct tree_node *node)
{
    return container_of(unconst(node), struct jobs_client, by_age);
}

static int compare_ages(const struct tree_node *a, const struct tree_node *b)
{
    return of_wait(a)->age < of_wait(b)->age ? -1 : 1;
}

static int compare_age(const struct tree_node *node, const void *age)
{
    uint64_t its = of_wait(node)->age, key = *(const uint64_t *)age;
    return its < key ? -1 : its > key;
}

void watches_init(struct jobs *jobs, uint32_t seed)
{
    tree_init(&jobs->many_waits, compare_ages, seed);
}

void watches_init_tube(struct tube *tube)
{
    tree_init(&tube->empty, compare_turns, (uint32_t)tube->number);
    ring_init(&tube->looked);
}

void watches_init_client(struct jobs_client *client, uint32_t seed)
{
    tree_init(&client->ready, compare_turns, seed);
    tree_init(&client->turns, compare_orders, seed + 1);
    ring_init(&client->unseen);
}

/* ---- states ---------------------------------------------------------------------------------- */

static bool has_job(const struct jobs *jobs, const struct tube *tube)
{
    return tube->ready.first != JOB_NONE && !tube_is_closed(jobs, tube);
}

struct turn {
    uint32_t pri;
    uint64_t id;
};

/* No job of this tube comes before it. */
static struct turn first_turn(const struct jobs *jobs, const struct tube *tube)
{
    bool fifo = tube_setting(jobs, tube, JOB_SETTING_ORDER) == JOB_ORDER_FIFO;
    const struct job *first = job_at(jobs, fifo ? tube->by_id[JOB_READY].first : tube->ready.first);
    if (fifo && job_may_be_stale(first))
        return (struct turn){0}; /* the one behind it may have any priority */
    return (struct turn){.pri = first->pri, .id = first->id};
}

static void leave_state(struct tube_watch *watch)
{
    struct jobs_client *client = watch->client;
    client->jobs->visits++;
    ring_remove(&watch->line);
    if (tree_has(&watch->by_order)) {
        tree_remove(&client->ready, &watch->by_turn);
        tree_remove(&client->turns, &watch->by_order);
    } else if (tree_has(&watch->by_turn)) {
        tree_remove(&watch->tube->empty, &watch->by_turn);
    }
}

static void make_unseen(struct tube_watch *watch)
{
    leave_state(watch);
    ring_add(&watch->client->unseen, &watch->line);
}

static void make_ready(struct tube_watch *watch)
{
    struct jobs_client *client = watch->client;
    struct tube *tube = watch->tube;
    struct turn first = first_turn(client->jobs, tube);
    leave_state(watch);
    watch->pri = first.pri;
    watch->place = first.id;
    tree_add(&client->ready, &watch->by_turn);
    tree_add(&client->turns, &watch->by_order);
    ring_add(&tube->looked, &watch->line);
    if (comes_before(tube->told_pri, tube->told_id, first.pri, first.id)) {
        tube->told_pri = first.pri;
        tube->told_id = first.id;
    }
}

static void make_empty(struct tube_watch *watch)
{
    leave_state(watch);
    watch->pri = 0;
    watch->place = watch->client->age;
    tree_add(&watch->tube->empty, &watch->by_turn);
}

static void look_at(struct tube_watch *watch)
{
    if (has_job(watch->client->jobs, watch->tube))
        make_ready(watch);
    else
        make_empty(watch);
}

static bool waits_here(const struct jobs_client *client)
{
    return client->wait == WAITING && !client->named;
}

void watch_begin(struct tube_watch *watch)
{
    watch->tube->many++;
    if (watch->tube->turn == watch->client->turn)
        watch->client->last = watch;
    look_at(watch);
}

void watch_end(struct tube_watch *watch)
{
    watch->tube->many--;
    if (watch->client->last == watch)
        watch->client->last = NULL;
    leave_state(watch);
}

void watches_restore_last(struct jobs_client *client)
{
    struct tube_watch *watch = NULL;
    while (client->many && (watch = client_next_watch(client, watch)) != NULL) {
        if (watch->tube->turn == client->turn)
            client->last = watch;
    }
}

/* ---- what happens to tubes ------------------------------------------------------------------- */

void watches_note_turn(const struct jobs *jobs, struct tube *tube)
{
    struct ring *at;
    if (!has_job(jobs, tube))
        return;
    struct turn first = first_turn(jobs, tube);
    if (!comes_before(first.pri, first.id, tube->told_pri, tube->told_id))
        return;
    while ((at = ring_first(&tube->looked)) != NULL)
        make_unseen(of_line(at));
    tube->told_pri = 0;
    tube->told_id = 0;
}

struct jobs_client *watches_first_waiting(struct tube *tube)
{
    struct tree_node *at;
    while ((at = tree_first(&tube->empty)) != NULL) {
        struct tube_watch *watch = of_turn(at);
        if (!waits_here(watch->client))
            make_ready(watch);
        else if (watch->place == watch->client->age)
            return watch->client;
        else
            make_empty(watch); /* it has begun to wait anew */
    }
    return NULL;
}

void watches_keep_waiting(struct tube *tube)
{
    for (struct tree_node *at = tree_first(&tube->empty), *next; at; at = next) {
        struct tube_watch *watch = of_turn(at);
        next = tree_next(at);
        if (waits_here(watch->client))
            watch->client->passed_by = true;
        else
            make_ready(watch);
    }
}

/* ---- looks ----------------------------------------------------------------------------------- */

/* Finds the tubes that got jobs which could not be handed out while the client waited for them.
 * Others get the lock in between. */
static void look_again(struct jobs_client *client)
{
    struct jobs *jobs = client->jobs;
    unsigned done = 0;
    client->passed_by = false;
    for (struct tube_watch *watch = NULL; (watch = client_next_watch(client, watch)) != NULL;) {
        jobs->visits++;
        if (has_job(jobs, watch->tube) && !tree_has(&watch->by_order))
            make_ready(watch);
        if (++done % JOBS_STEP == 0)
            jobs_let_others(jobs);
    }
}

/* Looks at watches that must be. Returns false when *looks are used up. */
static bool see(struct jobs_client *client, unsigned *looks)
{
    struct ring *at;
    if (unlikely(client->passed_by))
        look_again(client);
    while ((at = ring_first(&client->unseen)) != NULL) {
        if (*looks == 0)
            return false;
        (*looks)--;
        look_at(of_line(at));
    }
    return true;
}

/* True while its place is the first turn of the tube. */
static bool is_right(const struct jobs *jobs, const struct tube_watch *watch)
{
    if (!has_job(jobs, watch->tube) || !tree_has(&watch->by_order))
        return false;
    struct turn first = first_turn(jobs, watch->tube);
    return watch->pri == first.pri && watch->place == first.id;
}

/* Returns false when *looks are used up. */
static bool find_best(struct jobs_client *client, unsigned *looks, unsigned *budget,
                      struct moment now, uint32_t *handle_r)
{
    struct jobs *jobs = client->jobs;
    const struct job *best = NULL;
    unsigned drawn = 0;
    *handle_r = JOB_NONE;
    if (!see(client, looks))
        return false;
    for (struct tree_node *at = tree_first(&client->ready), *next; at; at = next) {
        struct tube_watch *watch = of_turn(at);
        if (best && comes_before(best->pri, best->id, watch->pri, watch->place))
            break;
        jobs->visits++;
        next = tree_next(at);
        if (is_right(jobs, watch)) {
            /* In a tube with random order it may be another job than the first. */
            if (drawn++ == JOBS_STEP)
                break;
            uint32_t found = tube_next_good(jobs, watch->tube, budget, now);
            const struct job *job = found != JOB_NONE ? job_at(jobs, found) : NULL;
            if (job && (!best || comes_before(job->pri, job->id, best->pri, best->id))) {
                best = job;
                *handle_r = found;
            }
            if (is_right(jobs, watch))
                continue;
        }
        if (*looks == 0)
            return false;
        (*looks)--;
        look_at(watch);
        if (tree_has(&watch->by_order) && (!next || compare_turns(at, next) < 0))
            next = at;
    }
    return true;
}

uint32_t watches_best(struct jobs_client *client, unsigned *budget, struct moment now)
{
    struct jobs *jobs = client->jobs;
    uint32_t handle;
    unsigned looks = JOBS_STEP;
    while (!find_best(client, &looks, budget, now, &handle)) {
        jobs_let_others(jobs);
        looks = JOBS_STEP;
    }
    return handle;
}

struct tube *watches_next_turn(struct jobs_client *client, uint64_t *after, unsigned *looks)
{
    while (see(client, looks)) { /* a job that was taken may have left a better one */
        uint64_t from = *after + 1;
        struct tree_node *at = tree_from(&client->turns, &from, compare_order);
        if (!at)
            at = tree_first(&client->turns);
        if (!at || *looks == 0)
            return NULL;
        struct tube_watch *watch = of_order(at);
        client->jobs->visits++;
        (*looks)--;
        *after = watch->number;
        if (has_job(client->jobs, watch->tube))
            return watch->tube;
        make_empty(watch);
    }
    return NULL;
}

bool watches_read_only(struct jobs_client *client, char *reason_r)
{
    struct jobs *jobs = client->jobs;
    unsigned done = 0;
    for (struct tube_watch *watch = NULL; (watch = client_next_watch(client, watch)) != NULL;) {
        const char *reason = tube_read_only(jobs, watch->tube);
        jobs->visits++;
        if (!*reason)
            return false;
        if (done++ == 0)
            memcpy(reason_r, reason, JOBS_READ_ONLY_MAX + 1);
        if (done % JOBS_STEP == 0)
            jobs_let_others(jobs);
    }
    return true;
}

/* ---- waits ----------------------------------------------------------------------------------- */

void watches_count_wait(struct jobs_client *client)
{
    if (client->many && !client->named)
        tree_add(&client->jobs->many_waits, &client->by_age);
}

void watches_uncount_wait(struct jobs_client *client)
{
    if (tree_has(&client->by_age))
        tree_remove(&client->jobs->many_waits, &client->by_age);
}

const struct jobs_client *watches_wait_from(const struct jobs *jobs, uint64_t age)
{
    struct tree_node *at = tree_from(&jobs->many_waits, &age, compare_age);
    return at ? of_wait(at) : NULL;
}

/* A watch that is not empty; NULL: all are. */
static struct tube_watch *not_empty(const struct jobs_client *client)
{
    struct ring *unseen = ring_first(&client->unseen);
    struct tree_node *ready = tree_first(&client->ready);
    return unseen ? of_line(unseen) : ready ? of_turn(ready) : NULL;
}

void watches_line_up(struct jobs_client *client, unsigned budget)
{
    struct jobs *jobs = client->jobs;
    client->lines_up = false;
    if (!client->many || !waits_here(client))
        return;
    for (struct tube_watch *watch; !client->lines_up && (watch = not_empty(client)); budget--) {
        make_empty(watch);
        if (has_job(jobs, watch->tube)) {
            client->passed_by = true;
            tube_serve_later(jobs, watch->tube);
        }
        client->lines_up = budget == 1;
    }
    client_set_due(jobs, client);
}

void watches_serve(struct jobs_client *client, unsigned *budget, struct moment now,
                   struct jobs_outbox *outbox)
{
    struct jobs *jobs = client->jobs;
    if (client->passed_by)
        look_again(client);
    struct tube_watch *watch;
    while (*budget > 0 && waits_here(client) && (watch = not_empty(client)) != NULL) {
        (*budget)--;
        make_empty(watch);
        tube_serve_some(jobs, watch->tube, budget, now, outbox);
    }
    watches_line_up(client, JOBS_STEP);
}
