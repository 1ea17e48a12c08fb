/*
 * simulate.c - several nodes of a cluster in one thread, with clients, under faults. See
 * simulate.h.
 *
 *     simulate [--seed N] [--seeds N] [--trace]
 *
 * T_SEED=N: the 25 seeds from 1000 N on.
 *
 * An observer counts the units of all clients: those of a strict name never exceed its limit (but
 * where threads stand still for longer than the lease, until they go on). The engine's sums always
 * add up. When the faults are over, all waits are served or run out, and when the clients
 * and the nodes have gone, nothing is left in the engine.
 */
#include "t/campaigns/cluster/simulate.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *const sim_names[NAMES] = {"s1", "s2", "s3", "l1", "l2", "x1", "x2", "pool:o"};
const uint32_t sim_limits[NAMES] = {1, 3, 2, 2, 4, 2, 1, 1};
char sim_many[MANY][8];

void sim_trace(struct sim *sim, const char *format, ...)
{
    va_list values;
    if (!sim->trace)
        return;
    printf("%9.3f ", (double)sim->now_ns / 1e9);
    va_start(values, format);
    vprintf(format, values);
    va_end(values);
    putchar('\n');
}

void sim_fail(struct sim *sim, const char *format, ...)
{
    va_list values;
    printf("not ok 1 - --seed %llu, at %.3f s: ", (unsigned long long)sim->seed,
           (double)sim->now_ns / 1e9);
    va_start(values, format);
    vprintf(format, values);
    va_end(values);
    putchar('\n');
    fflush(stdout);
    exit(1);
}

/* ---- the observer ---------------------------------------------------------------------------- */

static bool stands(const struct place *p, unsigned worker)
{
    const struct sim_message *first = p->workers[worker].to_worker.first;
    return p->paused_ns || (first && first->kind == TO_WORKER_REPORT);
}

/* Units of clients. Those of a process that is stopped for longer than its lease, or of a thread
 * that is busy with a report, are closed when it goes on. */
static uint32_t units_of(const struct place *p, unsigned name)
{
    uint32_t units = 0;
    for (unsigned i = 0; i < CLIENTS; i++) {
        const struct client *c = &p->clients[i];
        if (c->state == CLIENT_HOLDS && c->name == name &&
            !(stands(p, client_worker(i)) && place_now(p) >= p->lease_end_ns))
            units += c->units;
    }
    return units;
}

/* Threads that run close holders of strict units at the end of a lease. */
static void check_strict(struct sim *sim, const struct place *p)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        const struct client *c = &p->clients[i];
        if (c->state == CLIENT_HOLDS && client_is_strict(p, c) && !stands(p, client_worker(i)) &&
            p->lease_end_ns && place_now(p) > p->lease_end_ns + 50 * MS)
            sim_fail(sim, "client %u of place %u still holds %s after the lease", i, p->number,
                     sim_names[c->name]);
    }
}

static void observe(struct sim *sim)
{
    for (unsigned name = 0; name < NAMES && sim_names[name][0] == 's'; name++) {
        uint32_t units = 0;
        for (unsigned i = 0; i < sim->places_used; i++)
            if (sim->places[i].up)
                units += units_of(&sim->places[i], name);
        if (units > sim_limits[name])
            sim_fail(sim, "clients hold %u units of %s, and the limit is %u", units,
                     sim_names[name], sim_limits[name]);
    }
    for (unsigned i = 0; i < sim->places_used; i++)
        if (sim->places[i].up)
            check_strict(sim, &sim->places[i]);
}

/* What a client may wait for while the session lives: calls before its own, and that one. */
static void check_asks(struct sim *sim, struct place *p)
{
    int64_t silence_ns = sim->patience_ns > 200 * MS ? sim->patience_ns : 200 * MS;
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct client *c = &p->clients[i];
        struct request *r = c->request;
        bool asks = c->state == CLIENT_ASKS || (c->state == CLIENT_RELEASES && r);
        if (!asks || !r->given_ns || r->answered || r->queued_sent ||
            (client_is_strict(p, c) && place_now(p) >= p->lease_end_ns))
            continue;
        int64_t since_ns = r->given_ns > p->live_ns ? r->given_ns : p->live_ns;
        if (sim->now_ns - since_ns > 4 * silence_ns + 100 * MS)
            sim_fail(sim, "client %u of place %u waits for an answer for %lld ms", i, p->number,
                     (long long)((sim->now_ns - since_ns) / MS));
    }
}

/* People are told the present reason; no session lives in an engine that evicts keys: a beat, which
 * looks, is answered within a fifth of the lease, or the session is over with the next one. */
static void check_node(struct sim *sim, struct place *p)
{
    struct node_stats seen;
    node_look(p->node, &seen);
    if (p->said[0] && seen.reasons_count && !strstr(p->said, seen.reasons[0].text))
        sim_fail(sim, "the log says: %s; people are told: %s", p->said, seen.reasons[0].text);
    p->said[0] = '\0';
    if (seen.state != NODE_LIVE || p->paused_ns) {
        p->live_ns = NEVER;
        return;
    }
    if (p->live_ns == NEVER)
        p->live_ns = sim->now_ns;
    check_asks(sim, p);
    const struct wire *w = p->wires[NODE_COMMANDS];
    int64_t evicts_ns = w && w->engine < ENGINES ? sim->evicts_ns[w->engine] : NEVER;
    if (sim->now_ns - LEASE_NS / 2 > (evicts_ns > p->live_ns ? evicts_ns : p->live_ns))
        sim_fail(sim, "node %u has a session in an engine that evicts", p->number);
}

static void check_engines(struct sim *sim)
{
    for (unsigned i = 0; i < ENGINES; i++) {
        if (!sim->engines[i])
            continue;
        if (fake_engine_count(sim->engines[i], "units", "pool:o") ||
            fake_engine_count(sim->engines[i], "waits", "pool:o"))
            sim_fail(sim, "e%u has a name of pools", i);
        const char *wrong = fake_engine_look(sim->engines[i], "check");
        if (wrong)
            sim_fail(sim, "e%u: %s", i, wrong);
        wrong = fake_engine_look(sim->engines[i], "misuse");
        if (wrong)
            sim_fail(sim, "e%u: misuse: %s", i, wrong);
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

static void step(struct sim *sim)
{
    int64_t due = faults_due_ns(sim), other = net_due_ns(sim);
    due = other < due ? other : due;
    for (unsigned i = 0; i < sim->places_used; i++) {
        other = place_due_ns(&sim->places[i]);
        due = other < due ? other : due;
    }
    if (due == NEVER)
        due = sim->now_ns + 10 * MS;
    if (due > sim->now_ns)
        sim->now_ns = due;
    unsigned first = sim_below(sim, sim->places_used + 1);
    for (unsigned i = 0; i <= sim->places_used; i++) {
        unsigned at = (first + i) % (sim->places_used + 1);
        if (at == sim->places_used)
            net_step(sim);
        else
            place_step(&sim->places[at]);
        for (unsigned p = 0; p < sim->places_used; p++)
            if (sim->places[p].up && (p == at || at == sim->places_used))
                check_node(sim, &sim->places[p]);
    }
    faults_step(sim);
    observe(sim);
    if (++sim->steps % (sim->is_far ? 1024 : 64) == 0)
        check_engines(sim);
    if (sim->steps > 3000000)
        sim_fail(sim, "no end: the same moment again and again");
}

static void run_until(struct sim *sim, int64_t end_ns)
{
    while (sim->now_ns < end_ns)
        step(sim);
}

/* ---- the end --------------------------------------------------------------------------------- */

static const char *state_word(enum client_state state)
{
    static const char *const words[] = {"out",   "idle",    "asks", "waits", "waits in the table",
                                        "holds", "releases"};
    return words[state];
}

static bool all_clients_out(struct sim *sim, bool fail)
{
    for (unsigned i = 0; i < sim->places_used; i++)
        for (unsigned c = 0; c < CLIENTS; c++) {
            const struct client *client = &sim->places[i].clients[c];
            if (client->state == CLIENT_OUT || client->state == CLIENT_IDLE)
                continue;
            if (fail)
                sim_fail(sim, "client %u of place %u still %s: %s", c, i, state_word(client->state),
                         sim_names[client->name]);
            return false;
        }
    return true;
}

static void check_empty(struct sim *sim)
{
    struct fake_engine *engine = sim->engines[sim->primary];
    for (unsigned n = 0; n < NAMES; n++) {
        uint64_t units = fake_engine_count(engine, "units", sim_names[n]);
        uint64_t waits = fake_engine_count(engine, "waits", sim_names[n]);
        if (units || waits)
            sim_fail(sim,
                     "all clients have gone, and the engine has %llu units and %llu waits of %s",
                     (unsigned long long)units, (unsigned long long)waits, sim_names[n]);
    }
    for (unsigned i = 0; i < sim->places_used; i++) {
        struct node_stats seen;
        node_look(sim->places[i].node, &seen);
        if (seen.requests || sim->places[i].requests)
            sim_fail(sim, "all clients have gone, and node %u has %llu requests", i,
                     (unsigned long long)seen.requests);
        if (seen.state != NODE_LIVE)
            sim_fail(sim, "node %u is %s in the end: %s", i, node_state_word(seen.state),
                     seen.reasons_count ? seen.reasons[0].text : "");
    }
}

/* Holders hold on, and waiters wait on; or they go on. */
static void freeze(struct sim *sim, bool frozen)
{
    sim->frozen = frozen;
    for (unsigned i = 0; i < sim->places_used; i++)
        for (unsigned c = 0; c < CLIENTS; c++) {
            struct client *client = &sim->places[i].clients[c];
            if (client->state == CLIENT_HOLDS)
                client->act_ns = frozen ? NEVER : sim->now_ns + (int64_t)sim_below(sim, 500) * MS;
            else if (client->state == CLIENT_WAITS || client->state == CLIENT_ASKS)
                client->act_ns = NEVER;
        }
}

static bool is_shared(const struct place *p, unsigned name)
{
    return patterns_class(p->patterns, bytes_of(sim_names[name])) != PATTERNS_OWN;
}

/* Nothing moves any more: the engine has what the clients have. */
static void compare(struct sim *sim)
{
    struct fake_engine *engine = sim->engines[sim->primary];
    for (unsigned n = 0; n < NAMES; n++) {
        uint64_t units = 0, waits = 0;
        if (n == sim->wrong)
            continue;
        for (unsigned i = 0; i < sim->places_used; i++) {
            struct place *p = &sim->places[i];
            if (!is_shared(p, n))
                continue;
            units += table_units(p, n);
            for (unsigned c = 0; c < CLIENTS; c++)
                waits += p->clients[c].state == CLIENT_WAITS && p->clients[c].name == n;
        }
        uint64_t other = fake_engine_count(engine, "units", sim_names[n]);
        if (other != units)
            sim_fail(sim, "clients hold %llu units of %s, and the engine says %llu",
                     (unsigned long long)units, sim_names[n], (unsigned long long)other);
        other = fake_engine_count(engine, "waits", sim_names[n]);
        if (other != waits)
            sim_fail(sim, "%llu clients wait for %s, and the engine says %llu",
                     (unsigned long long)waits, sim_names[n], (unsigned long long)other);
    }
}

/* Each node says what the engine has, and its session goes on meanwhile. */
static void ask_all(struct sim *sim)
{
    struct node_stats seen, then;
    char sessions[PLACES][17];
    for (unsigned i = 0; i < sim->places_used; i++) {
        node_look(sim->places[i].node, &seen);
        snprintf(sessions[i], sizeof(sessions[i]), "%s", seen.session);
        for (unsigned n = 0; n < NAMES; n++)
            if (is_shared(&sim->places[i], n)) {
                request_send(&sim->places[i], request_new(&sim->places[i], 0, NOBODY, NODE_GET, n));
                sim->asked++;
            }
    }
    run_until(sim, sim->now_ns + LEASE_NS);
    if (sim->asked)
        sim_fail(sim, "%u questions have no answer", sim->asked);
    for (unsigned i = 0; i < sim->places_used; i++) {
        node_look(sim->places[i].node, &then);
        if (strcmp(then.session, sessions[i]) != 0)
            sim_fail(sim, "node %u has lost its session, and nothing fails: %s", i,
                     then.reasons_count ? then.reasons[0].text : "");
    }
}

/* A session opens within some round trips, however many names it tells. */
static void open_again(struct sim *sim)
{
    for (unsigned i = 0; i < sim->places_used; i++) {
        struct place *p = &sim->places[i];
        node_open_anew(p->node, "a test", place_now(p));
        node_flush(p->node, place_now(p));
    }
    run_until(sim, sim->now_ns + 600 * MS);
    for (unsigned i = 0; i < sim->places_used; i++) {
        struct node_stats seen;
        node_look(sim->places[i].node, &seen);
        if (seen.state != NODE_LIVE)
            sim_fail(sim, "node %u has opened for 600 ms", i);
    }
}

/* Nothing fails any more, and clients stand still: all must fit. */
static void come_to_rest(struct sim *sim)
{
    faults_end(sim);
    if (sim_one_in(sim, 2)) /* a session that opens later would mend what is wrong */
        run_until(sim, sim->now_ns + 2 * LEASE_NS);
    sim->calm = true;
    if (sim_one_in(sim, 2))
        faults_spoil(sim, NAMES);
    freeze(sim, true);
    run_until(sim, sim->now_ns + 5 * LEASE_NS);
    compare(sim);
    ask_all(sim);
}

static void go_on(struct sim *sim)
{
    sim->calm = false;
    freeze(sim, false);
    for (unsigned i = 0; i < sim->places_used; i++)
        for (unsigned c = 0; c < CLIENTS; c++) {
            struct client *client = &sim->places[i].clients[c];
            bool waits = client->state == CLIENT_ASKS || client->state == CLIENT_WAITS;
            if (client->act_ns == NEVER && !(waits && client->patient))
                client->act_ns = sim->now_ns + (int64_t)sim_below(sim, 4000) * MS;
        }
    faults_begin(sim);
}

static void finish(struct sim *sim)
{
    come_to_rest(sim);
    if (sim->is_far) /* elsewhere that might serve a wait that was forgotten */
        open_again(sim);
    faults_spoil(sim, NAMES);
    freeze(sim, false);
    int64_t end_ns = sim->now_ns + 15 * LEASE_NS;
    while (sim->now_ns < end_ns && !all_clients_out(sim, false))
        run_until(sim, sim->now_ns + LEASE_NS / 4);
    all_clients_out(sim, true);
    run_until(sim, sim->now_ns + 5 * LEASE_NS);
    check_engines(sim);
    check_empty(sim);
    for (unsigned i = 0; i < sim->places_used; i++) {
        place_leave(&sim->places[i]);
        sim->places[i].up_again_ns = 0;
    }
    run_until(sim, sim->now_ns + 2 * LEASE_NS);
    const char *left = fake_engine_look(sim->engines[sim->primary], "left");
    if (left)
        sim_fail(sim, "all nodes have left, and the engine has %s", left);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void run_seed(uint64_t seed, bool trace)
{
    static const int64_t patiences_ms[] = {1, 250, 1400};
    static struct sim sim;
    char reason[URL_REASON_SIZE];
    sim = (struct sim){.seed = seed, .rng = {.state = seed}, .trace = trace};
    sim.sentinels = seed % 3 == 0;
    sim.places_used = 2 + sim_below(&sim, PLACES - 1);
    sim.is_far = seed % 5 == 0;
    sim.wrong = NAMES;
    for (unsigned i = 0; i < ENGINES; i++)
        sim.evicts_ns[i] = NEVER;
    sim.delay_ns = sim.is_far || sim_one_in(&sim, 3) ? 20 * MS : MS;
    sim.patience_ns = patiences_ms[sim.is_far ? 2 : seed / 3 % 3] * MS;
    sim.sets[0] = patterns_new("s*", "l*, m*", NULL, reason);
    sim.sets[1] = patterns_new("s*", "*", NULL, reason);
    if (!url_parse(sim.sentinels ? "sentinel://a:1,b:2,c:3/main" : "redis://a:1", &sim.url, reason))
        sim_fail(&sim, "%s", reason);
    net_begin(&sim);
    faults_begin(&sim);
    for (unsigned i = 0; i < sim.places_used; i++) {
        struct place *p = &sim.places[i];
        p->sim = &sim;
        p->number = i;
        snprintf(p->name, sizeof(p->name), "node%u", i);
        place_start(p, false);
    }
    int64_t part_ns = (5 + (int64_t)sim_below(&sim, 15)) * 1000 * MS;
    run_until(&sim, part_ns);
    come_to_rest(&sim);
    go_on(&sim);
    run_until(&sim, sim.now_ns + part_ns);
    finish(&sim);
    for (unsigned i = 0; i < sim.places_used; i++)
        place_kill(&sim.places[i]);
    net_end(&sim);
    for (unsigned i = 0; i < PATTERN_SETS; i++)
        patterns_free(&sim.sets[i]);
}

int main(int argc, char **argv)
{
    const char *given = getenv("T_SEED"), *slow = getenv("T_SLOW");
    uint64_t first = given ? 1000 * strtoull(given, NULL, 0) : 1;
    uint64_t seeds = slow && *slow == '1' ? 8 : 25;
    bool trace = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--trace") == 0) {
            trace = true;
        } else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc) {
            seeds = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            first = strtoull(argv[++i], NULL, 10);
            seeds = 1;
        } else {
            fprintf(stderr, "usage: simulate [--seed N] [--seeds N] [--trace]\n");
            return 2;
        }
    }
    for (unsigned i = 0; i < MANY; i++)
        snprintf(sim_many[i], sizeof(sim_many[i]), "m%u", i);
    puts("1..1");
    for (uint64_t seed = first; seed < first + seeds; seed++)
        run_seed(seed, trace);
    printf("ok 1 - %llu seeds from %llu on\n", (unsigned long long)seeds,
           (unsigned long long)first);
    return 0;
}
