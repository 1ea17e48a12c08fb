/*
 * simulate_client.c - the clients of a place, and the table that is the ledger of what they hold.
 * The table also serves names that are not shared, and loose ones while the node is alone.
 */
#include "t/campaigns/cluster/simulate.h"

#include <stdlib.h>

uint32_t table_units(const struct place *p, unsigned name)
{
    uint32_t units = 0;
    for (unsigned c = 0; c < CLIENTS; c++)
        if (p->clients[c].state == CLIENT_HOLDS && p->clients[c].name == name)
            units += p->clients[c].units;
    return units;
}

static enum patterns_class class_in(const struct place *p, unsigned client, unsigned name)
{
    return patterns_class(p->workers[client_worker(client)].patterns, bytes_of(sim_names[name]));
}

bool client_is_strict(const struct place *p, const struct client *c)
{
    return class_in(p, (unsigned)(c - p->clients), c->name) == PATTERNS_STRICT;
}

/* Does the table alone serve this name now? */
static bool by_table(const struct place *p, unsigned client, unsigned name)
{
    enum patterns_class class = class_in(p, client, name);
    return class == PATTERNS_OWN ||
           (class == PATTERNS_LOOSE && p->workers[client_worker(client)].alone);
}

static void idle(struct place *p, struct client *c)
{
    struct sim *sim = p->sim;
    c->state = sim->calm ? CLIENT_OUT : CLIENT_IDLE;
    c->request = NULL;
    c->turn++;
    c->act_ns = sim->calm ? NEVER : sim->now_ns + (int64_t)sim_below(sim, 300) * MS;
}

static void holds(struct place *p, struct client *c)
{
    struct sim *sim = p->sim;
    c->state = CLIENT_HOLDS;
    c->request = NULL;
    c->act_ns = sim->now_ns + (int64_t)sim_below(sim, sim_one_in(sim, 8) ? 8000 : 300) * MS;
    if (sim->frozen)
        c->act_ns = NEVER;
    sim_trace(sim, "place %u client %u holds %u of %s", p->number, (unsigned)(c - p->clients),
              c->units, sim_names[c->name]);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* The oldest wait in the table. */
static struct client *first_in_table(struct place *p, unsigned name)
{
    struct client *first = NULL;
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct client *c = &p->clients[i];
        if (c->state == CLIENT_IN_TABLE && c->name == name && (!first || c->since < first->since))
            first = c;
    }
    return first;
}

void table_hand_over(struct place *p, unsigned name)
{
    struct client *c;
    while ((c = first_in_table(p, name)) && table_units(p, name) + c->units <= c->limit)
        holds(p, c);
}

static void table_acquire(struct place *p, struct client *c)
{
    if (!first_in_table(p, c->name) && table_units(p, c->name) + c->units <= c->limit) {
        holds(p, c);
        return;
    }
    if (c->wait == NODE_WAIT_NO) {
        idle(p, c);
        return;
    }
    c->state = CLIENT_IN_TABLE;
    c->request = NULL;
    c->since = ++p->sim->order;
}

static void table_done(struct place *p, unsigned name)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct client *c = &p->clients[i];
        if (c->state == CLIENT_IN_TABLE && c->name == name && c->wait == NODE_WAIT_ANY)
            idle(p, c);
    }
}

/* ---- acts ------------------------------------------------------------------------------------ */

static void acquire(struct place *p, unsigned client)
{
    struct sim *sim = p->sim;
    struct client *c = &p->clients[client];
    c->name = sim_below(sim, NAMES);
    c->limit = sim_limits[c->name];
    c->units = 1 + (sim_one_in(sim, 4) ? sim_below(sim, c->limit) : 0);
    c->wait = (enum node_wait)sim_below(sim, 3);
    c->queue_max = sim_one_in(sim, 4) ? 1 + sim_below(sim, 8) : 0;
    c->id = p->next_id++;
    c->asked_ns = sim->now_ns;
    c->seq = 0;
    c->patient = sim_one_in(sim, 2);
    c->act_ns = c->patient ? NEVER : sim->now_ns + (int64_t)sim_below(sim, 4000) * MS;
    if (by_table(p, client, c->name)) {
        table_acquire(p, c);
        return;
    }
    struct request *r = request_new(p, client_worker(client), client, NODE_ACQUIRE, c->name);
    r->turn = c->turn;
    r->ask.wait = c->wait;
    r->ask.units = c->units;
    r->ask.queue_max = c->queue_max;
    r->ask.id = c->id;
    c->request = r;
    c->state = CLIENT_ASKS;
    request_send(p, r);
}

static void look(struct place *p, unsigned client)
{
    struct client *c = &p->clients[client];
    unsigned name = sim_below(p->sim, NAMES);
    if (by_table(p, client, name)) {
        idle(p, c);
        return;
    }
    struct request *r = request_new(p, client_worker(client), client,
                                    sim_one_in(p->sim, 2) ? NODE_GET : NODE_HOLDERS, name);
    r->turn = c->turn;
    c->request = r;
    c->state = CLIENT_ASKS;
    c->id = 0;
    c->patient = true;
    c->act_ns = NEVER;
    request_send(p, r);
}

/* Units go back; true: the node is asked, and the client waits for its answer. */
static bool release(struct place *p, unsigned client, bool by_end)
{
    struct client *c = &p->clients[client];
    bool table = by_table(p, client, c->name);
    c->state = CLIENT_RELEASES;
    if (!by_end)
        p->sim->released_ns[c->name] = p->sim->now_ns;
    if (!by_end && !table)
        p->releasing[c->name]++;
    if (!table) {
        struct request *r = request_new(p, client_worker(client), client, NODE_RELEASE, c->name);
        r->turn = c->turn;
        r->ask.units = c->units;
        r->ask.by_end = by_end;
        c->request = r;
        request_send(p, r);
    } else if (!by_end)
        table_done(p, c->name);
    table_hand_over(p, c->name);
    return !table;
}

static void cancel(struct place *p, unsigned client)
{
    struct client *c = &p->clients[client];
    if (c->id)
        place_post(p, client_worker(client), TO_NODE_CANCEL)->id = c->id;
}

void client_end(struct place *p, unsigned client)
{
    struct sim *sim = p->sim;
    struct client *c = &p->clients[client];
    if (c->state == CLIENT_OUT)
        return;
    if (c->state == CLIENT_HOLDS)
        release(p, client, true);
    else if (c->state == CLIENT_ASKS || c->state == CLIENT_WAITS)
        cancel(p, client);
    unsigned name = c->name;
    c->turn++;
    c->request = NULL;
    c->state = CLIENT_OUT;
    c->act_ns = sim->calm || p->leaving ? NEVER : sim->now_ns + (int64_t)sim_below(sim, 800) * MS;
    table_hand_over(p, name);
}

void client_act(struct place *p, unsigned client)
{
    struct sim *sim = p->sim;
    struct client *c = &p->clients[client];
    c->act_ns = NEVER;
    switch (c->state) {
    case CLIENT_OUT:
    case CLIENT_IDLE:
        if (sim->calm)
            c->state = CLIENT_OUT;
        else if (sim_one_in(sim, 30))
            look(p, client);
        else
            acquire(p, client);
        break;
    case CLIENT_ASKS:
    case CLIENT_WAITS:
        if (sim_one_in(sim, 3)) {
            client_end(p, client);
        } else {
            cancel(p, client);
            idle(p, c);
        }
        break;
    case CLIENT_IN_TABLE:
        idle(p, c);
        table_hand_over(p, c->name);
        break;
    case CLIENT_HOLDS:
        if (sim_one_in(sim, 3))
            client_end(p, client);
        else if (!release(p, client, false))
            idle(p, c);
        break;
    case CLIENT_RELEASES:
        break;
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

/* The units came for a client that has gone, or does not want them any more. */
static void give_back(struct place *p, const struct request *r)
{
    struct request *back = request_new(p, r->worker, r->client, NODE_RELEASE, r->name);
    back->ask.units = r->ask.units;
    back->ask.by_end = true;
    back->turn = p->clients[r->client].turn - 1;
    request_send(p, back);
}

static void granted(struct place *p, struct client *c)
{
    if (client_is_strict(p, c) && place_now(p) >= p->lease_end_ns) {
        /* Too late to say so: the connection is closed. */
        c->state = CLIENT_HOLDS;
        client_end(p, (unsigned)(c - p->clients));
        return;
    }
    holds(p, c);
}

/* Is a release under way that may have been done already? */
static bool is_releasing(const struct sim *sim, unsigned name)
{
    for (unsigned i = 0; i < sim->places_used; i++)
        if (sim->places[i].releasing[name])
            return true;
    return false;
}

/* A question of nobody's: what the engine has. */
static void asked(struct place *p, const struct request *r)
{
    struct fake_engine *engine = p->sim->engines[p->sim->primary];
    const char *name = sim_names[r->name];
    bool right = r->ask.result == NODE_COUNTED &&
                 r->ask.count_units == fake_engine_count(engine, "units", name) &&
                 r->ask.count_waits == fake_engine_count(engine, "waits", name);
    p->sim->asked--;
    if (!right && (r->name != p->sim->wrong || r->ask.result != NODE_ALONE))
        sim_fail(p->sim, "node %u is asked for %s, and answers %u: %llu and %llu", p->number, name,
                 r->ask.result, (unsigned long long)r->ask.count_units,
                 (unsigned long long)r->ask.count_waits);
}

void client_answered(struct place *p, struct request *r)
{
    if (r->client == NOBODY) {
        if (r->ask.op == NODE_GET)
            asked(p, r);
        return;
    }
    struct client *c = &p->clients[r->client];
    bool mine = c->request == r && c->turn == r->turn;
    if (r->ask.result == NODE_GRANTED && !mine)
        give_back(p, r);
    if (r->ask.op == NODE_RELEASE && !r->ask.by_end) {
        p->releasing[r->name]--;
        p->sim->released_ns[r->name] = p->sim->now_ns + LEASE_NS / 4;
    }
    if (!mine)
        return;
    switch (r->ask.result) {
    case NODE_GRANTED:
        granted(p, c);
        break;
    case NODE_ALONE:
        c->seq = r->ask.seq;
        if (r->ask.op == NODE_ACQUIRE)
            table_acquire(p, c);
        else
            idle(p, c);
        break;
    case NODE_CANCELLED:
        sim_fail(p->sim, "cancelled, but nobody asked for that");
    case NODE_DONE:
        if (c->wait != NODE_WAIT_ANY)
            sim_fail(p->sim, "done, but it waits for units");
        if (p->sim->released_ns[c->name] < c->asked_ns && !is_releasing(p->sim, c->name))
            sim_fail(p->sim, "done, but nobody has released %s since", sim_names[c->name]);
        idle(p, c);
        break;
    default:
        idle(p, c);
        break;
    }
}

void client_queued(struct place *p, struct request *r)
{
    struct client *c = &p->clients[r->client];
    if (c->request == r && c->turn == r->turn && c->state == CLIENT_ASKS)
        c->state = CLIENT_WAITS;
}
