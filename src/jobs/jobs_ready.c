/*
 * jobs_ready.c - which tubes have something to claim, and the clients that wait for one.
 *
 * A client that waits for one name is in a set by name, one that waits for a beginning of names in
 * another. Clients that wait for a tube that becomes ready get a message, some at a time, and look
 * again when they read it. So an answer is exact at its moment, and a client that finds nothing
 * waits on.
 *
 * The set of beginnings is in descending order. So the first one from a name on is the longest that
 * may be a beginning of it. If it is none, only what both have in common may be, or less. So a tube
 * looks at no more places than its name has bytes, and mostly at one.
 */
#include "jobs/jobs_internal.h"

#include <string.h>

/* So many clients are told of a tube before others get the lock. */
#define TELL_STEP 64u

struct job_ask {
    struct tree_node node; /* of jobs->asks, for one name, or jobs->prefix_asks, for a beginning */
    struct jobs_client *client;
    uint64_t age;
    uint32_t limit;
    bool prefix;
    uint8_t len, after_len;
    char text[]; /* the pattern, and the name after which the list begins */
};

static struct job_ask *ask_of(const struct tree_node *node)
{
    return container_of(unconst(node), struct job_ask, node);
}

static struct bytes pattern_of(const struct job_ask *ask)
{
    return bytes_at(ask->text, ask->len);
}

static int compare_asks(const struct tree_node *a, const struct tree_node *b)
{
    int by_name = bytes_compare(pattern_of(ask_of(a)), pattern_of(ask_of(b)));
    return by_name != 0 ? by_name : ask_of(a)->age < ask_of(b)->age ? -1 : 1;
}

static int compare_ask(const struct tree_node *node, const void *name)
{
    return bytes_compare(pattern_of(ask_of(node)), *(const struct bytes *)name);
}

static int compare_prefix_asks(const struct tree_node *a, const struct tree_node *b)
{
    int by_name = bytes_compare(pattern_of(ask_of(b)), pattern_of(ask_of(a)));
    return by_name != 0 ? by_name : ask_of(a)->age < ask_of(b)->age ? -1 : 1;
}

static int compare_prefix_ask(const struct tree_node *node, const void *name)
{
    return bytes_compare(*(const struct bytes *)name, pattern_of(ask_of(node)));
}

void asks_init(struct jobs *jobs, uint32_t seed)
{
    tree_init(&jobs->asks, compare_asks, seed);
    tree_init(&jobs->prefix_asks, compare_prefix_asks, seed + 1);
}

static size_t ask_size(const struct job_ask *ask)
{
    return sizeof(*ask) + ask->len + ask->after_len;
}

static struct tree *set_of(struct jobs *jobs, const struct job_ask *ask)
{
    return ask->prefix ? &jobs->prefix_asks : &jobs->asks;
}

static void ask_wait(struct jobs *jobs, struct job_ask *ask)
{
    ask->client->wait = ASKS;
    tree_add(set_of(jobs, ask), &ask->node);
}

static void ask_stop(struct jobs *jobs, struct job_ask *ask)
{
    if (tree_has(&ask->node))
        tree_remove(set_of(jobs, ask), &ask->node);
}

void client_stop_asking(struct jobs_client *client)
{
    struct job_ask *ask = client->ask;
    if (!ask)
        return;
    ask_stop(client->jobs, ask);
    jobs_release_memory(client->jobs, ask, ask_size(ask));
    client->ask = NULL;
    client->wait = NOT_WAITING;
}

bool client_ask(struct jobs_client *client, const struct jobs_ready *ready)
{
    struct jobs *jobs = client->jobs;
    CHECK(client->wait == NOT_WAITING && ready->pattern.len <= JOBS_TUBE_MAX &&
          ready->after.len <= JOBS_TUBE_MAX);
    struct job_ask *ask =
        jobs_alloc(jobs, JOBS_REST, sizeof(*ask) + ready->pattern.len + ready->after.len);
    if (!ask)
        return false;
    ask->client = client;
    ask->age = ++jobs->waits;
    ask->limit = ready->limit;
    ask->prefix = ready->prefix;
    ask->len = (uint8_t)ready->pattern.len;
    ask->after_len = (uint8_t)ready->after.len;
    if (ask->len > 0)
        memcpy(ask->text, ready->pattern.data, ask->len);
    if (ask->after_len > 0)
        memcpy(ask->text + ask->len, ready->after.data, ask->after_len);
    client->ask = ask;
    ask_wait(jobs, ask);
    return true;
}

void client_asks(const struct jobs_client *client, struct jobs_ready *ready_r)
{
    const struct job_ask *ask = client->ask;
    *ready_r = (struct jobs_ready){.pattern = pattern_of(ask),
                                   .after = bytes_at(ask->text + ask->len, ask->after_len),
                                   .prefix = ask->prefix,
                                   .limit = ask->limit};
}

static void tell(struct jobs *jobs, struct job_ask *ask, struct jobs_outbox *outbox)
{
    struct jobs_client *client = ask->client;
    ask_stop(jobs, ask);
    client->wait = ASKED;
    if (client->on_its_way)
        return;
    client->on_its_way = true;
    mail_list_add(&outbox->messages, &client->message.mail);
}

static size_t in_common(struct bytes a, struct bytes b)
{
    size_t len = 0;
    while (len < a.len && len < b.len && a.data[len] == b.data[len])
        len++;
    return len;
}

/* One that waits for a beginning of this name; NULL: none does. */
static struct job_ask *find_prefix_ask(struct jobs *jobs, struct bytes name)
{
    struct tree_node *at;
    while ((at = tree_from(&jobs->prefix_asks, &name, compare_prefix_ask)) != NULL) {
        struct bytes pattern = pattern_of(ask_of(at));
        jobs->visits++;
        if (bytes_begin_with(name, pattern))
            return ask_of(at);
        name.len = in_common(name, pattern);
    }
    return NULL;
}

static struct job_ask *find_ask(struct jobs *jobs, struct bytes name)
{
    struct tree_node *at = NULL;
    if (tree_first(&jobs->asks))
        at = tree_from(&jobs->asks, &name, compare_ask);
    if (at && bytes_equal(pattern_of(ask_of(at)), name))
        return ask_of(at);
    return tree_first(&jobs->prefix_asks) ? find_prefix_ask(jobs, name) : NULL;
}

void tube_tell_ready(struct jobs *jobs, struct tube *tube, unsigned *budget,
                     struct jobs_outbox *outbox)
{
    struct job_ask *ask;
    unsigned told = 0;
    while (told < TELL_STEP && (ask = find_ask(jobs, tube_name(tube))) != NULL) {
        tell(jobs, ask, outbox);
        told++;
    }
    *budget -= told < *budget ? told : *budget;
    tube->became_ready = told == TELL_STEP;
    if (told == TELL_STEP)
        tube_serve_later(jobs, tube);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static struct tube *tube_of_name(const struct tree_node *node)
{
    return container_of(unconst(node), struct tube, by_name);
}

static int compare_name(const struct tree_node *node, const void *name)
{
    return bytes_compare(tube_name(tube_of_name(node)), *(const struct bytes *)name);
}

/* Visits the tubes that are ready now. Returns their number. */
static uint32_t list(const struct jobs *jobs, const struct jobs_ready *ready,
                     jobs_ready_visit *visit, void *arg)
{
    uint32_t count = 0;
    bool begins_after = ready->after.len > 0 && bytes_compare(ready->after, ready->pattern) >= 0;
    const struct bytes *first = begins_after ? &ready->after : &ready->pattern;
    struct tree_node *at = tree_from(&jobs->ready_tubes, first, compare_name);
    for (; at && count < ready->limit; at = tree_next(at)) {
        const struct tube *tube = tube_of_name(at);
        struct bytes name = tube_name(tube);
        if (begins_after && bytes_equal(name, ready->after))
            continue;
        if (!(ready->prefix ? bytes_begin_with(name, ready->pattern)
                            : bytes_equal(name, ready->pattern)))
            break;
        visit(arg, name, tube->ready.count);
        count++;
    }
    return count;
}

enum jobs_status jobs_list_ready(struct jobs_client *client, const struct jobs_ready *ready,
                                 bool waits, jobs_ready_visit *visit, void *arg)
{
    struct jobs *jobs = client->jobs;
    enum jobs_status status = JOBS_OK;
    jobs_enter(jobs);
    if (list(jobs, ready, visit, arg) == 0)
        status = !waits ? JOBS_TIMED_OUT : client_ask(client, ready) ? JOBS_WAITS : JOBS_NO_MEMORY;
    jobs_leave(jobs);
    return status;
}

bool jobs_read_ready(struct jobs_client *client, jobs_ready_visit *visit, void *arg)
{
    struct jobs *jobs = client->jobs;
    bool ended = false;
    jobs_enter(jobs);
    if (client->ask) {
        struct jobs_ready ready;
        client_asks(client, &ready);
        ended = list(jobs, &ready, visit, arg) > 0;
        if (ended)
            client_stop_asking(client);
        else if (client->wait == ASKED)
            ask_wait(jobs, client->ask);
    }
    jobs_leave(jobs);
    return ended;
}
