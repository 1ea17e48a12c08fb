/*
 * simulate_place.c - a place: one process with its node, and the threads of its connections.
 * Messages between a thread and the node arrive in order, but late, and those of two threads in any
 * order.
 */
#include "base/record.h"
#include "t/campaigns/cluster/simulate.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int64_t place_now(const struct place *p)
{
    return p->sim->now_ns + p->clock_ns;
}

/* ---- messages -------------------------------------------------------------------------------- */

struct sim_message *place_post(struct place *p, unsigned worker, enum message_kind kind)
{
    struct sim *sim = p->sim;
    struct sim_message *l = calloc(1, sizeof(*l));
    if (!l)
        abort();
    struct box *box =
        kind < TO_NODE_SUBMIT ? &p->workers[worker].to_worker : &p->workers[worker].to_node;
    l->kind = kind;
    l->at_ns = sim->now_ns + (sim_one_in(sim, 20) ? (int64_t)sim_below(sim, 10) * MS : 1000);
    /* A thread with many connections takes its time for a report. */
    if (kind == TO_WORKER_REPORT && !sim->calm && sim_one_in(sim, 4))
        l->at_ns += (int64_t)sim_below(sim, 1000) * MS;
    if (l->at_ns < box->last_ns)
        l->at_ns = box->last_ns;
    box->last_ns = l->at_ns;
    *(box->last ? &box->last->next : &box->first) = l;
    box->last = l;
    return l;
}

static struct sim_message *box_take(struct box *box)
{
    struct sim_message *l = box->first;
    if (!l)
        return NULL;
    box->first = l->next;
    if (!box->first)
        box->last = NULL;
    return l;
}

struct request *request_new(struct place *p, unsigned worker, unsigned client, enum node_op op,
                            unsigned name)
{
    struct request *r = calloc(1, sizeof(*r));
    if (!r)
        abort();
    r->ask.op = op;
    r->ask.name = bytes_of(name < NAMES ? sim_names[name] : sim_many[name - NAMES]);
    r->ask.report = p->workers[worker].report;
    r->ask.limit = name < NAMES ? sim_limits[name] : 1;
    r->client = client;
    r->worker = worker;
    r->name = name;
    return r;
}

void request_send(struct place *p, struct request *r)
{
    place_post(p, r->worker, TO_NODE_SUBMIT)->request = r;
    p->requests++;
}

/* ---- what the node asks for ------------------------------------------------------------------ */

static void does_queued(void *arg, struct node_request *ask)
{
    struct place *p = arg;
    struct request *r = container_of(ask, struct request, ask);
    if (r->queued_sent || r->answered)
        sim_fail(p->sim, "queued twice, or after the answer");
    r->queued_sent = true;
    place_post(p, r->worker, TO_WORKER_QUEUED)->request = r;
}

static void does_answer(void *arg, struct node_request *ask)
{
    struct place *p = arg;
    struct request *r = container_of(ask, struct request, ask);
    if (r->answered)
        sim_fail(p->sim, "answered twice");
    r->answered = true;
    p->requests--;
    place_post(p, r->worker, TO_WORKER_ANSWER)->request = r;
}

static void does_report(void *arg, const struct patterns *patterns, uint32_t number)
{
    struct place *p = arg;
    if (p->parts_due)
        sim_fail(p->sim, "a report before the end of the last one");
    p->parts_due = WORKERS;
    for (unsigned w = 0; w < WORKERS; w++) {
        struct sim_message *l = place_post(p, w, TO_WORKER_REPORT);
        l->patterns = patterns_share(unconst(patterns));
        l->number = number;
    }
}

static void does_serve_alone(void *arg)
{
    for (unsigned w = 0; w < WORKERS; w++)
        place_post(arg, w, TO_WORKER_ALONE);
}

static void does_close_strict(void *arg)
{
    struct place *p = arg;
    if (p->closed_due)
        sim_fail(p->sim, "strict holders are closed twice at a time");
    p->closed_due = WORKERS;
    for (unsigned w = 0; w < WORKERS; w++)
        place_post(p, w, TO_WORKER_CLOSE_STRICT);
}

static void does_lease(void *arg, int64_t end_ns)
{
    struct place *p = arg;
    /* As the daemon: what is lost leaves a time that has passed, at which threads look. */
    if (end_ns == 0 && p->lease_end_ns)
        end_ns = p->lease_end_ns < place_now(p) ? p->lease_end_ns : place_now(p);
    p->lease_end_ns = end_ns;
}

/* A process of this machine is gone unless it is this one. */
static bool does_is_gone(void *arg, const char *where)
{
    struct place *p = arg;
    char machine[64];
    snprintf(machine, sizeof(machine), "%.*s", (int)(strrchr(p->where, '/') - p->where), p->where);
    return strncmp(where, machine, strlen(machine)) == 0 && where[strlen(machine)] == '/' &&
           strcmp(where, p->where) != 0;
}

static uint64_t does_random(void *arg)
{
    struct place *p = arg;
    return rng_next(&p->sim->rng);
}

static void does_log(void *arg, enum node_level level, const char *text)
{
    struct place *p = arg;
    sim_trace(p->sim, "place %u log %u: %s", p->number, level, text);
    if (level != NODE_LOG_INFO && (strstr(text, "does not join") || strstr(text, " the engine (") ||
                                   strstr(text, " is over (")))
        snprintf(p->said, sizeof(p->said), "%s", text);
    if (strstr(text, "no sense") || strstr(text, "fewer units") || strstr(text, PASSWORD))
        sim_fail(p->sim, "place %u says: %s", p->number, text);
}

static const struct node_does does = {
    .open = net_open,
    .send = net_send,
    .close = net_close,
    .queued = does_queued,
    .answer = does_answer,
    .report = does_report,
    .serve_alone = does_serve_alone,
    .close_strict = does_close_strict,
    .lease = does_lease,
    .is_gone = does_is_gone,
    .random = does_random,
    .log = does_log,
};

static void make_node(struct place *p)
{
    struct node_config config = {.url = &p->sim->url,
                                 .user = "",
                                 .password = PASSWORD,
                                 .node = p->name,
                                 .where = p->where,
                                 .prefix = PREFIX,
                                 .patterns = p->patterns,
                                 .lease_ns = LEASE_NS,
                                 .patience_ns = p->sim->patience_ns};
    p->node = node_new(&config, &does, p);
    if (!p->node)
        abort();
}

/* ---- threads --------------------------------------------------------------------------------- */

/* Strict holders are closed once the lease is over: before anything else, in each thread. */
static void close_strict_of(struct place *p, unsigned worker)
{
    for (unsigned c = 0; c < CLIENTS; c++)
        if (client_worker(c) == worker && p->clients[c].state == CLIENT_HOLDS &&
            client_is_strict(p, &p->clients[c]))
            client_end(p, c);
}

static void worker_hook(struct place *p, unsigned worker)
{
    if (place_now(p) >= p->lease_end_ns && p->lease_end_ns)
        close_strict_of(p, worker);
}

/* Waits that the table alone has of names that are shared now become asks. */
static void table_waits_to_node(struct place *p, unsigned worker)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct client *c = &p->clients[i];
        enum patterns_class class =
            patterns_class(p->workers[worker].patterns, bytes_of(sim_names[c->name]));
        if (client_worker(i) != worker || c->state != CLIENT_IN_TABLE || class == PATTERNS_OWN ||
            (class == PATTERNS_LOOSE && p->workers[worker].alone))
            continue;
        struct request *r = request_new(p, worker, i, NODE_ACQUIRE, c->name);
        r->turn = c->turn;
        r->ask.wait = c->wait;
        r->ask.units = c->units;
        r->ask.queue_max = c->queue_max;
        r->ask.id = c->id;
        r->ask.seq = c->seq;
        r->ask.queued = true;
        r->queued_sent = true;
        c->state = CLIENT_WAITS;
        c->request = r;
        request_send(p, r);
    }
}

static void worker_report(struct place *p, unsigned w, const struct sim_message *l)
{
    struct worker *worker = &p->workers[w];
    patterns_free(&worker->patterns);
    worker->patterns = patterns_share(l->patterns);
    if (l->number) {
        worker->alone = false;
        worker->report = l->number;
    }
    table_waits_to_node(p, w);
    struct sim_message *part = place_post(p, w, TO_NODE_PART);
    for (unsigned i = 0; i < CLIENTS; i++)
        if (client_worker(i) == w && p->clients[i].state == CLIENT_HOLDS)
            part->units[p->clients[i].name] += p->clients[i].units;
}

static void worker_message(struct place *p, unsigned w, struct sim_message *l)
{
    worker_hook(p, w);
    switch (l->kind) {
    case TO_WORKER_ANSWER:
        client_answered(p, l->request);
        free(l->request->ask.shares);
        free(l->request);
        break;
    case TO_WORKER_QUEUED:
        client_queued(p, l->request);
        break;
    case TO_WORKER_REPORT:
        worker_report(p, w, l);
        break;
    case TO_WORKER_ALONE:
        p->workers[w].alone = true;
        break;
    case TO_WORKER_CLOSE_STRICT:
        close_strict_of(p, w);
        place_post(p, w, TO_NODE_CLOSED_STRICT);
        break;
    default:
        abort();
    }
}

static void node_message(struct place *p, struct sim_message *l)
{
    int64_t now = place_now(p);
    switch (l->kind) {
    case TO_NODE_SUBMIT:
        l->request->given_ns = p->sim->now_ns;
        node_submit(p->node, &l->request->ask, now);
        break;
    case TO_NODE_CANCEL:
        node_cancel(p->node, l->id, now);
        break;
    case TO_NODE_PART:
        for (unsigned i = 0; p->has_many && p->parts_due == WORKERS && i < MANY; i++)
            node_report(p->node, bytes_of(sim_many[i]), 1);
        for (unsigned n = 0; n < NAMES; n++)
            if (l->units[n])
                node_report(p->node, bytes_of(sim_names[n]), l->units[n]);
        if (--p->parts_due == 0)
            node_reported(p->node, now);
        break;
    case TO_NODE_CLOSED_STRICT:
        if (--p->closed_due == 0)
            node_strict_closed(p->node, now);
        break;
    default:
        abort();
    }
    node_flush(p->node, now);
}

static void message_done(struct sim_message *l)
{
    if (l->patterns)
        patterns_free(&l->patterns);
    free(l);
}

static void take_over(struct place *p);

/* ---- steps ----------------------------------------------------------------------------------- */

int64_t place_due_ns(const struct place *p)
{
    int64_t due = NEVER;
    if (!p->up)
        return p->up_again_ns ? p->up_again_ns : NEVER;
    if (p->paused_ns)
        return p->paused_ns;
    int64_t node = node_due_ns(p->node);
    if (node != NEVER)
        due = node - p->clock_ns;
    for (unsigned w = 0; w < WORKERS; w++) {
        const struct sim_message *a = p->workers[w].to_worker.first,
                                 *b = p->workers[w].to_node.first;
        due = a && a->at_ns < due ? a->at_ns : due;
        due = b && b->at_ns < due ? b->at_ns : due;
    }
    for (unsigned c = 0; c < CLIENTS; c++)
        due = p->clients[c].act_ns < due ? p->clients[c].act_ns : due;
    if (p->leaving && p->leave_until_ns < due)
        due = p->leave_until_ns;
    return due;
}

static bool step_message(struct place *p)
{
    unsigned from = sim_below(p->sim, 2 * WORKERS);
    for (unsigned i = 0; i < 2 * WORKERS; i++) {
        unsigned at = (from + i) % (2 * WORKERS), w = at / 2;
        struct box *box = at % 2 ? &p->workers[w].to_worker : &p->workers[w].to_node;
        if (!box->first || box->first->at_ns > p->sim->now_ns)
            continue;
        struct sim_message *l = box_take(box);
        if (at % 2)
            worker_message(p, w, l);
        else
            node_message(p, l);
        message_done(l);
        return true;
    }
    return false;
}

void place_step(struct place *p)
{
    struct sim *sim = p->sim;
    if (!p->up) {
        if (p->up_again_ns && p->up_again_ns <= sim->now_ns)
            place_start(p, !p->moved);
        return;
    }
    if (p->paused_ns) {
        if (p->paused_ns > sim->now_ns)
            return;
        /* It wakes: each thread looks first. */
        p->paused_ns = 0;
        sim_trace(sim, "place %u wakes", p->number);
        for (unsigned w = 0; w < WORKERS; w++)
            worker_hook(p, w);
        if (p->paused)
            take_over(p);
        node_tick(p->node, place_now(p));
        node_flush(p->node, place_now(p));
        return;
    }
    if (node_due_ns(p->node) <= place_now(p)) {
        node_tick(p->node, place_now(p));
        node_flush(p->node, place_now(p));
        return;
    }
    if (step_message(p))
        return;
    for (unsigned c = 0; c < CLIENTS; c++) {
        if (p->clients[c].act_ns > sim->now_ns)
            continue;
        worker_hook(p, client_worker(c));
        if (p->clients[c].act_ns <= sim->now_ns)
            client_act(p, c);
        return;
    }
    if (p->leaving && (node_has_left(p->node) || p->leave_until_ns <= sim->now_ns)) {
        sim_trace(sim, "place %u %s", p->number, node_has_left(p->node) ? "has left" : "is late");
        place_kill(p);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

void place_start(struct place *p, bool same_machine)
{
    struct sim *sim = p->sim;
    p->life++;
    if (!same_machine) {
        p->machine++;
        p->clock_ns = (int64_t)sim_below(sim, 1000000) * MS;
    }
    snprintf(p->where, sizeof(p->where), "boot%u/%u/%u", p->number, p->machine, p->life);
    p->up = true;
    p->has_many = sim->is_far && p->number == 0;
    p->live_ns = NEVER;
    p->leaving = p->paused = false;
    p->paused_ns = p->up_again_ns = 0;
    p->lease_end_ns = 0;
    p->parts_due = p->closed_due = 0;
    p->requests = 0;
    p->patterns = patterns_share(sim->sets[sim_below(sim, 4) ? 0 : 1]);
    p->next_id = 1;
    for (unsigned w = 0; w < WORKERS; w++)
        p->workers[w] = (struct worker){.patterns = patterns_share(p->patterns)};
    for (unsigned c = 0; c < CLIENTS; c++) {
        p->clients[c] = (struct client){.turn = p->clients[c].turn + 1};
        p->clients[c].act_ns = sim->calm ? NEVER : sim->now_ns + (int64_t)sim_below(sim, 500) * MS;
    }
    make_node(p);
    sim_trace(sim, "place %u starts at %s", p->number, p->where);
    node_start(p->node, place_now(p));
}

static void free_request(struct node_request *ask)
{
    free(container_of(ask, struct request, ask));
}

/* Frees all messages; requests in them as well. */
static void drop_messages(struct place *p)
{
    for (unsigned w = 0; w < WORKERS; w++) {
        struct sim_message *l;
        while ((l = box_take(&p->workers[w].to_worker))) {
            /* An ask that was queued is freed by its answer, or it is the node's. */
            if (l->kind == TO_WORKER_ANSWER)
                free(l->request);
            message_done(l);
        }
        while ((l = box_take(&p->workers[w].to_node))) {
            if (l->kind == TO_NODE_SUBMIT)
                free(l->request);
            message_done(l);
        }
        p->workers[w].to_worker.last_ns = p->workers[w].to_node.last_ns = 0;
    }
}

/* kill -9: nothing is sent any more; the clients see the end. */
void place_kill(struct place *p)
{
    struct node_request *ask;
    if (!p->up)
        return;
    sim_trace(p->sim, "place %u ends", p->number);
    node_pause(p->node, place_now(p));
    drop_messages(p);
    while ((ask = node_forget_request(p->node)))
        free_request(ask);
    node_free(&p->node);
    for (unsigned w = 0; w < WORKERS; w++)
        patterns_free(&p->workers[w].patterns);
    patterns_free(&p->patterns);
    p->up = p->leaving = false;
    for (unsigned n = 0; n < NAMES; n++) {
        /* What was sent may still arrive. */
        if (p->releasing[n])
            p->sim->released_ns[n] = p->sim->now_ns + LEASE_NS;
        p->releasing[n] = 0;
    }
    for (unsigned c = 0; c < CLIENTS; c++) {
        p->clients[c].state = CLIENT_OUT;
        p->clients[c].act_ns = NEVER;
        p->clients[c].turn++;
    }
}

/* All that is on its way between the threads and the node arrives. */
static void arrive(struct place *p)
{
    bool any = true;
    while (any) {
        any = false;
        for (unsigned w = 0; w < WORKERS; w++) {
            struct sim_message *l;
            while ((l = box_take(&p->workers[w].to_worker))) {
                worker_message(p, w, l);
                message_done(l);
                any = true;
            }
            while ((l = box_take(&p->workers[w].to_node))) {
                node_message(p, l);
                message_done(l);
                any = true;
            }
        }
    }
}

/* The upgrade's new program goes on, or the old one. */
static void take_over(struct place *p)
{
    struct sim *sim = p->sim;
    static struct record_writer w;
    struct record_reader r;
    struct node_request *ask;
    struct node_request *kept[CLIENTS * 2];
    size_t count = 0;
    p->paused = false;
    if (sim_one_in(sim, 3)) {
        sim_trace(sim, "the upgrade fails");
        node_start(p->node, place_now(p));
        return;
    }
    while ((ask = node_forget_request(p->node))) {
        if (count == ARRAY_SIZE(kept))
            sim_fail(sim, "more asks than clients");
        kept[count++] = ask;
    }
    int fd = memfd_create("upgrade", MFD_CLOEXEC);
    record_writer_init(&w, fd);
    record_put_head(&w);
    node_save(p->node, &w);
    if (!record_finish(&w) || !record_map(&r, fd))
        abort();
    node_free(&p->node);
    p->lease_end_ns = 0;
    p->closed_due = 0;
    make_node(p);
    record_get_head(&r);
    if (!node_restore(p->node, &r))
        sim_fail(sim, "the state of a node can't be read");
    record_unmap(&r);
    close(fd);
    if (sim_one_in(sim, 2))
        node_start(p->node, place_now(p));
    bool started = node_due_ns(p->node) != NEVER;
    for (size_t i = 0; i < count; i++) {
        struct request *req = container_of(kept[i], struct request, ask);
        if (kept[i]->op == NODE_ACQUIRE)
            req->queued_sent = kept[i]->queued;
        node_submit(p->node, kept[i], place_now(p));
    }
    if (!started)
        node_start(p->node, place_now(p));
    for (unsigned i = 0; i < WORKERS; i++) {
        /* The workers of the new process have no view yet. */
        p->workers[i].alone = false;
        p->workers[i].report = 0;
    }
    node_flush(p->node, place_now(p));
}

/* Another program is to go on in the same process: all stands still, maybe for longer than the
 * lease. */
void place_upgrade(struct place *p)
{
    struct sim *sim = p->sim;
    if (!p->up || p->paused_ns || p->leaving)
        return;
    p->paused_ns = sim->now_ns + (int64_t)sim_below(sim, sim_one_in(sim, 3) ? 4000 : 50) * MS + 1;
    sim_trace(sim, "place %u upgrades until %lld", p->number, (long long)(p->paused_ns / MS));
    for (unsigned i = 0; i < WORKERS; i++)
        worker_hook(p, i);
    arrive(p);
    node_pause(p->node, place_now(p));
    arrive(p);
    p->paused = true;
}

void place_leave(struct place *p)
{
    if (!p->up || p->paused_ns || p->leaving)
        return;
    sim_trace(p->sim, "place %u leaves", p->number);
    for (unsigned c = 0; c < CLIENTS; c++) {
        client_end(p, c);
        p->clients[c].act_ns = NEVER;
    }
    for (unsigned i = 0; p->has_many && !p->workers[0].alone && i < MANY; i++) {
        struct request *r = request_new(p, 0, NOBODY, NODE_RELEASE, NAMES + i);
        r->ask.units = 1;
        r->ask.by_end = true;
        request_send(p, r);
    }
    p->has_many = false;
    arrive(p);
    p->leaving = true;
    p->leave_until_ns = p->sim->now_ns + LEASE_NS;
    node_leave(p->node, place_now(p));
    node_flush(p->node, place_now(p));
}
