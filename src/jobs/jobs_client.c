/* jobs_client.c - clients: the tube that each uses, those that it watches, and its end. */
#include "jobs/jobs_internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static struct tube_watch *watch_of(const struct tree_node *node)
{
    return container_of(unconst(node), struct tube_watch, node);
}

static int compare_watches(const struct tree_node *a, const struct tree_node *b)
{
    return watch_of(a)->tube->number < watch_of(b)->tube->number ? -1 : 1;
}

static int compare_watch(const struct tree_node *node, const void *key)
{
    uint64_t number = ((const struct tube *)key)->number, its = watch_of(node)->tube->number;
    return its < number ? -1 : its > number;
}

struct tube_watch *client_find_watch(const struct jobs_client *client, const struct tube *tube)
{
    struct tree_node *node = tree_from(&client->watches, tube, compare_watch);
    return node && watch_of(node)->tube == tube ? watch_of(node) : NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct jobs_client *client_make(struct jobs *jobs, uint64_t tag, void *owner)
{
    struct jobs_client *client = jobs_alloc(jobs, JOBS_REST, sizeof(*client));
    if (!client)
        return NULL;
    if (!deadlines_reserve(&jobs->due, 1)) {
        jobs_release_memory(jobs, client, sizeof(*client));
        return NULL;
    }
    client->message.to = tag;
    client->jobs = jobs;
    client->owner = owner;
    client->due.kind = DUE_CLIENT;
    client->first_reserved = client->last_reserved = JOB_NONE;
    job_tree_init(&client->reserved, JOB_BY_TURN);
    tree_init(&client->watches, compare_watches, (uint32_t)tag);
    ring_init(&client->watched);
    watches_init_client(client, (uint32_t)tag);
    ring_add(&jobs->clients, &client->all);
    return client;
}

void client_free(struct jobs_client *client)
{
    jobs_release_memory(client->jobs, client, sizeof(*client));
}

bool client_watch(struct jobs_client *client, struct tube *tube, enum jobs_need need)
{
    struct jobs *jobs = client->jobs;
    if (client_find_watch(client, tube))
        return true;
    struct tube_watch *watch = jobs_alloc(jobs, need, sizeof(*watch));
    if (!watch)
        return false;
    watch->tube = tube;
    watch->client = client;
    watch->number = ++jobs->watch_numbers;
    tube->watching++;
    tree_add(&client->watches, &watch->node);
    ring_add(&client->watched, &watch->order);
    client->watch_count++;
    if (client->many) {
        watch_begin(watch);
    } else if (client->watch_count > jobs->many_watches) {
        client->many = true;
        for (watch = NULL; (watch = client_next_watch(client, watch)) != NULL;)
            watch_begin(watch);
    }
    return true;
}

static void remove_watch(struct tube_watch *watch)
{
    struct jobs_client *client = watch->client;
    struct jobs *jobs = client->jobs;
    struct tube *tube = watch->tube;
    if (client->many)
        watch_end(watch);
    CHECK(!ring_has(&watch->line));
    tree_remove(&client->watches, &watch->node);
    ring_remove(&watch->order);
    client->watch_count--;
    tube->watching--;
    jobs_release_memory(jobs, watch, sizeof(*watch));
    tube_drop_if_unused(jobs, tube);
}

static void use(struct jobs_client *client, struct tube *tube)
{
    struct tube *before = client->used;
    tube->using ++;
    client->used = tube;
    if (!before)
        return;
    before->using --;
    tube_drop_if_unused(client->jobs, before);
}

struct jobs_client *jobs_client_new(struct jobs *jobs, uint64_t tag, void *owner)
{
    jobs_enter(jobs);
    struct tube *tube = tube_find(jobs, bytes_of("default"));
    struct jobs_client *client = client_make(jobs, tag, owner);
    if (client && client_watch(client, tube, JOBS_REST)) {
        use(client, tube);
        jobs->used = true;
    } else if (client) {
        ring_remove(&client->all);
        deadlines_unreserve(&jobs->due, 1);
        client_free(client);
        client = NULL;
    }
    jobs_leave(jobs);
    return client;
}

/* What a reservation becomes when its connection has ended. */
static void end_reservation(struct jobs *jobs, uint32_t handle, struct moment now,
                            struct jobs_outbox *outbox)
{
    const struct job_act act = {.verb = JOB_END};
    const struct job *job = job_at(jobs, handle);
    bool last_try = jobs->commit && job->last_try;
    if (job->is_lease || last_try) {
        /* Its holder changes, not its state. */
        job_move(jobs, handle, JOB_RESERVED,
                 (struct job_place){.turn = job->is_lease ? job->turn : (uint64_t)now.mono_ns,
                                    .holder = jobs->leases,
                                    .pri = job->pri});
        if (last_try && !job->is_lease)
            (void)job_begin_own(jobs, JOB_END, handle, now); /* else it is due at once */
        return;
    }
    struct tube *tube = job->tube;
    job_change_now(jobs, handle, &act, now);
    if (outbox)
        tube_serve(jobs, tube, now, outbox);
    else
        tube_serve_later(jobs, tube);
}

void client_drop(struct jobs_client *client)
{
    struct jobs *jobs = client->jobs;
    client_stop_waiting(client);
    for (struct ring *at; (at = ring_first(&client->watched));)
        remove_watch(container_of(at, struct tube_watch, order));
    if (client->used) {
        client->used->using --;
        tube_drop_if_unused(jobs, client->used);
    }
    ring_remove(&client->all);
    deadline_clear(&jobs->due, &client->due);
    deadlines_unreserve(&jobs->due, 1);
}

void job_views_free(struct jobs *jobs, struct job_views **views_at)
{
    struct job_views *views = *views_at;
    *views_at = NULL;
    if (views)
        jobs_release_memory(jobs, views, sizeof(*views) + views->count * sizeof(views->at[0]));
}

static void drop_served(struct jobs_client *client)
{
    job_body_drop(client->jobs, &client->served.body);
    for (size_t n = 0; client->claimed && n < client->claimed->count; n++)
        job_body_drop(client->jobs, &client->claimed->at[n].body);
    job_views_free(client->jobs, &client->claimed);
}

/* True while changes are under way that it asked for, or that end its reservations. */
static bool needs_commit(const struct jobs_client *client)
{
    return client->under_way > 0 || client->locked > 0;
}

void client_end_on(struct jobs_client *client, unsigned *budget, struct moment now,
                   struct jobs_outbox *outbox)
{
    struct jobs *jobs = client->jobs;
    struct ring *watch;
    client->ends_on = false;
    for (uint32_t at = client->first_reserved, next; at != JOB_NONE && *budget > 0; at = next) {
        next = job_at(jobs, at)->next_reserved;
        if (job_at(jobs, at)->locked)
            continue; /* it goes with what is under way */
        jobs->visits++;
        (*budget)--;
        end_reservation(jobs, at, now, outbox);
    }
    while (!needs_commit(client) && *budget > 0 && (watch = ring_first(&client->watched))) {
        (*budget)--;
        jobs->visits++;
        remove_watch(container_of(watch, struct tube_watch, order));
    }
    if (*budget == 0) {
        client->ends_on = true;
        client->ends_ns = now.mono_ns + 1;
        client_set_due(jobs, client);
    } else if (!needs_commit(client)) {
        client_drop(client);
        client->gone = true;
        if (!client->on_its_way)
            client_free(client);
    }
}

static void give_back(struct jobs_client *client, unsigned *budget, struct moment now,
                      struct jobs_outbox *outbox)
{
    if (!client->ended || needs_commit(client))
        return;
    if (client->wait == SERVED)
        drop_served(client);
    client_stop_waiting(client);
    client_end_on(client, budget, now, outbox);
}

void client_settle(struct jobs_client *client, struct moment now, struct jobs_outbox *outbox)
{
    unsigned budget = JOBS_END_STEP;
    give_back(client, &budget, now, outbox);
}

bool jobs_finish_ends(struct jobs *jobs, struct moment now)
{
    bool any = false;
    jobs_enter(jobs);
    steps_unbounded(LOCK_RANK_JOBS);
    for (struct ring *at = ring_first(&jobs->clients), *next; at; at = next) {
        struct jobs_client *client = container_of(at, struct jobs_client, all);
        next = ring_after(&jobs->clients, at);
        unsigned budget = UINT_MAX;
        if (!client->ends_on)
            continue;
        any = true;
        client_end_on(client, &budget, now, NULL);
    }
    jobs->visits_noted = jobs->visits; /* nobody waits for the lock */
    jobs_leave(jobs);
    return any;
}

void clients_end(struct jobs *jobs, struct moment now, struct jobs_outbox *outbox)
{
    unsigned budget = JOBS_END_STEP; /* for all of them */
    for (struct ring *at; (at = ring_first(&jobs->ending)) != NULL;) {
        ring_remove(at);
        ring_add(&jobs->clients, at);
        give_back(container_of(at, struct jobs_client, all), &budget, now, outbox);
    }
}

void clients_free(struct jobs *jobs)
{
    struct ring *at;
    while ((at = ring_first(&jobs->clients)) != NULL) {
        struct jobs_client *client = container_of(at, struct jobs_client, all);
        if (client == jobs->leases) {
            ring_remove(at);
            continue;
        }
        CHECK(client->ended);
        drop_served(client);
        if (client->wait == PROMISED)
            client_refuse(client, false, NULL);
        client_drop(client);
        client->gone = true;
        if (!client->on_its_way)
            client_free(client);
    }
}

void jobs_client_end(struct jobs_client *client, struct moment now, struct jobs_outbox *outbox)
{
    struct jobs *jobs = client->jobs;
    unsigned budget = JOBS_END_STEP;
    jobs_enter(jobs);
    client->ended = true;
    if (needs_commit(client)) { /* the rest ends with what is under way */
        if (client->wait == SERVED)
            drop_served(client);
        if (client->wait != PROMISED)
            client_stop_waiting(client);
        client_end_on(client, &budget, now, outbox);
    } else {
        client_settle(client, now, outbox);
    }
    jobs_leave(jobs);
}

void jobs_stop_serving(struct jobs *jobs)
{
    jobs_enter(jobs);
    jobs->stopped = true;
    jobs_leave(jobs);
}

struct jobs_client *jobs_client_of(struct mail *mail)
{
    return container_of(mail, struct jobs_client, message.mail);
}

void *jobs_client_owner(const struct jobs_client *client)
{
    return client->owner;
}

bool jobs_client_message(struct jobs_client *client)
{
    struct jobs *jobs = client->jobs;
    jobs_enter(jobs);
    client->on_its_way = false;
    bool ended = client->ended;
    if (client->gone)
        client_free(client);
    jobs_leave(jobs);
    return !ended;
}

uint32_t jobs_client_reserved(const struct jobs_client *client)
{
    struct jobs *jobs = client->jobs;
    jobs_enter(jobs);
    uint32_t count = client->reserved.count + client->locked;
    jobs_leave(jobs);
    return count;
}

/* ---- use, watch, ignore ---------------------------------------------------------------------- */

enum jobs_status jobs_use(struct jobs_client *client, struct bytes name)
{
    struct jobs *jobs = client->jobs;
    jobs_enter(jobs);
    struct tube *tube = tube_get(jobs, name);
    if (tube)
        use(client, tube);
    jobs_leave(jobs);
    return tube ? JOBS_OK : JOBS_NO_MEMORY;
}

size_t jobs_used(struct jobs_client *client, char *name_r)
{
    struct jobs *jobs = client->jobs;
    jobs_enter(jobs);
    size_t len = client->used->name->len;
    memcpy(name_r, client->used->name->bytes, len);
    jobs_leave(jobs);
    return len;
}

enum jobs_status jobs_watch(struct jobs_client *client, struct bytes name, uint32_t *count_r)
{
    struct jobs *jobs = client->jobs;
    enum jobs_status status = JOBS_NO_MEMORY;
    jobs_enter(jobs);
    struct tube *tube = tube_get(jobs, name);
    if (tube && client_watch(client, tube, JOBS_TUBES))
        status = JOBS_OK;
    else if (tube)
        tube_drop_if_unused(jobs, tube);
    *count_r = client->watch_count;
    jobs_leave(jobs);
    return status;
}

enum jobs_status jobs_ignore(struct jobs_client *client, struct bytes name, uint32_t *count_r)
{
    struct jobs *jobs = client->jobs;
    enum jobs_status status = JOBS_OK;
    jobs_enter(jobs);
    struct tube *tube = tube_find(jobs, name);
    struct tube_watch *watch = tube ? client_find_watch(client, tube) : NULL;
    if (watch && client->watch_count == 1)
        status = JOBS_NOT_IGNORED;
    else if (watch)
        remove_watch(watch);
    *count_r = client->watch_count;
    jobs_leave(jobs);
    return status;
}
