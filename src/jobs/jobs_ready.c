/*
 * jobs_ready.c - which tubes have something to claim, and the clients that wait for one.
 *
 * A client that waits for one name is in a set by name. A client that waits for a beginning of
 * names is in one list; a tube that becomes ready looks through it. Clients that wait for the tube
 * get a letter, and look again when they read it. So an answer is exact at its moment, and a client
 * that finds nothing waits on.
 */
#include "jobs/jobs_inside.h"

#include <string.h>

struct job_ask {
    struct tree_node node; /* of jobs->asks, for one name */
    struct ring line;      /* of jobs->prefix_asks, for a beginning */
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

void asks_init(struct jobs *jobs, uint32_t seed)
{
    tree_init(&jobs->asks, compare_asks, seed);
    ring_init(&jobs->prefix_asks);
}

static size_t ask_size(const struct job_ask *ask)
{
    return sizeof(*ask) + ask->len + ask->after_len;
}

static void ask_wait(struct jobs *jobs, struct job_ask *ask)
{
    ask->client->wait = ASKS;
    if (ask->prefix)
        ring_add(&jobs->prefix_asks, &ask->line);
    else
        tree_add(&jobs->asks, &ask->node);
}

static void ask_stop(struct jobs *jobs, struct job_ask *ask)
{
    if (tree_has(&ask->node))
        tree_remove(&jobs->asks, &ask->node);
    ring_remove(&ask->line);
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

static void tell(struct jobs *jobs, struct job_ask *ask, struct jobs_effects *effects)
{
    struct jobs_client *client = ask->client;
    ask_stop(jobs, ask);
    client->wait = ASKED;
    if (client->on_its_way)
        return;
    client->on_its_way = true;
    mail_list_add(&effects->letters, &client->letter.mail);
}

void tube_tell_ready(struct jobs *jobs, struct tube *tube, struct jobs_effects *effects)
{
    struct bytes name = tube_name(tube);
    tube->became_ready = false;
    struct tree_node *at = tree_from(&jobs->asks, &name, compare_ask), *next;
    for (; at && bytes_equal(pattern_of(ask_of(at)), name); at = next) {
        next = tree_next(at);
        tell(jobs, ask_of(at), effects);
    }
    for (struct ring *in = ring_first(&jobs->prefix_asks), *after; in; in = after) {
        struct job_ask *ask = container_of(in, struct job_ask, line);
        after = ring_after(&jobs->prefix_asks, in);
        if (bytes_begin_with(name, pattern_of(ask)))
            tell(jobs, ask, effects);
    }
}

/* ---- lists
 * ------------------------------------------------------------------------------------------ */

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
