/*
 * simulate_faults.c - what goes wrong, and how all of it is mended in the end.
 */
#include "t/campaigns/cluster/simulate.h"

enum fault {
    FAULT_CUT,
    FAULT_STALL,
    FAULT_DEAD,
    FAULT_APART,
    FAULT_RESTART,
    FAULT_EMPTY,
    FAULT_FLUSH,
    FAULT_PAUSE,
    FAULT_KILL,
    FAULT_MOVE,
    FAULT_LEAVE,
    FAULT_UPGRADE,
    FAULT_RELOAD,
    FAULT_TROUBLE,
    FAULT_SCRIPTS,
    FAULT_FAILOVER,
    FAULT_SENTINEL,
    FAULT_WRONG,
    FAULTS
};

static struct place *some_place(struct sim *sim)
{
    return &sim->places[sim_below(sim, sim->places_used)];
}

static struct wire *some_wire(struct sim *sim)
{
    unsigned count = 0;
    for (struct wire *w = sim->wires; w; w = w->next)
        count += w->place != NULL;
    if (!count)
        return NULL;
    unsigned chosen = sim_below(sim, count);
    struct wire *w = sim->wires;
    while (!w->place || chosen-- > 0)
        w = w->next;
    return w;
}

static void stall(struct sim *sim)
{
    struct wire *one = some_wire(sim);
    if (!one)
        return;
    int64_t until = sim->now_ns + (int64_t)sim_below(sim, sim_one_in(sim, 3) ? 6000 : 600) * MS;
    uint32_t which = 1 + sim_below(sim, 3);
    bool all = sim_one_in(sim, 3);
    sim_trace(sim, "place %u wire %u stalls (%u)%s", one->place->number, one->number, which,
              all ? ", all others too" : "");
    for (struct wire *w = sim->wires; w; w = w->next) {
        if ((which & 1) && (all || w == one))
            w->to_node.stalled_ns = until;
        if ((which & 2) && (all || w == one))
            w->to_engine.stalled_ns = until;
    }
}

/* Nothing arrives any more, and nobody says so. */
static void dead(struct sim *sim)
{
    struct wire *w = some_wire(sim);
    if (!w || !sim_one_in(sim, 2))
        return;
    sim_trace(sim, "place %u wire %u is dead", w->place->number, w->number);
    w->dead = true;
}

/* A place is cut from everything: wires are reset, or dead, and new ones fail. */
static void apart(struct sim *sim)
{
    struct place *p = some_place(sim);
    bool dead = sim_one_in(sim, 2);
    p->apart_ns = sim->now_ns + (int64_t)sim_below(sim, 6000) * MS;
    sim_trace(sim, "place %u is apart until %lld", p->number, (long long)(p->apart_ns / MS));
    for (struct wire *w = sim->wires; w; w = w->next)
        if (w->place == p && dead)
            w->dead = true;
        else if (w->place == p)
            net_cut(sim, w);
}

static void pause_place(struct sim *sim)
{
    struct place *p = some_place(sim);
    if (!p->up || p->paused_ns)
        return;
    p->paused_ns = sim->now_ns + (int64_t)sim_below(sim, sim_one_in(sim, 2) ? 8000 : 800) * MS + 1;
    sim_trace(sim, "place %u pauses until %lld", p->number, (long long)(p->paused_ns / MS));
}

static void kill_place(struct sim *sim, bool move)
{
    struct place *p = some_place(sim);
    if (!p->up)
        return;
    place_kill(p);
    p->moved = move;
    p->up_again_ns = sim->now_ns + (int64_t)sim_below(sim, 3000) * MS + 1;
}

static void reload(struct sim *sim)
{
    struct place *p = some_place(sim);
    if (!p->up || p->paused_ns || p->leaving)
        return;
    patterns_free(&p->patterns);
    p->patterns = patterns_share(sim->sets[sim_below(sim, PATTERN_SETS)]);
    sim_trace(sim, "place %u has other patterns", p->number);
    node_set_patterns(p->node, p->patterns, place_now(p));
    node_flush(p->node, place_now(p));
}

static void trouble(struct sim *sim)
{
    static const enum fake_trouble kinds[] = {
        FAKE_FULL,    FAKE_FULL, FAKE_MISCONF, FAKE_NOREPLICAS, FAKE_READONLY,
        FAKE_LOADING, FAKE_BUSY, FAKE_DENIED,  FAKE_EVICTS,     FAKE_EVICTS};
    enum fake_trouble kind = kinds[sim_below(sim, sizeof(kinds) / sizeof(kinds[0]))];
    sim_trace(sim, "trouble %u", kind);
    fake_engine_do(sim->engines[sim->primary], "trouble", kind);
    sim->evicts_ns[sim->primary] = kind == FAKE_EVICTS ? sim->now_ns : NEVER;
    for (struct wire *w = sim->wires; w && kind == FAKE_DENIED; w = w->next)
        if (sim_one_in(sim, 2))
            net_cut(sim, w);
    sim->mended_ns = sim->now_ns + (int64_t)sim_below(sim, 4000) * MS + 1;
}

void faults_spoil(struct sim *sim, unsigned name)
{
    struct fake_engine *engine = sim->engines[sim->primary];
    unsigned either = name < NAMES ? name : sim->wrong;
    if (name < NAMES && fake_engine_count(engine, "waits", sim_names[name]))
        return; /* what it has overwritten nobody can know */
    sim->wrong = name;
    if (either == NAMES)
        return;
    sim_trace(sim, "the queue of %s is %s", sim_names[either], name < NAMES ? "wrong" : "mended");
    fake_engine_spoil(engine, sim_names[either], name < NAMES);
}

/* Another engine has the data, but for the last writes; the old one may go on for a while. */
static void failover(struct sim *sim)
{
    unsigned to = (sim->primary + 1) % ENGINES;
    struct fake_engine *old = sim->engines[sim->primary];
    if (!sim->sentinels)
        return;
    if (sim->engines[to]) {
        for (struct wire *w = sim->wires; w; w = w->next)
            if (w->link && w->engine == to)
                return; /* somebody is still there */
        fake_engine_free(sim->engines[to]);
    }
    size_t lacks = sim_one_in(sim, 2) ? sim_below(sim, 20) : 0;
    sim->engines[to] = fake_engine_replica(old, lacks, rng_next(&sim->rng));
    sim_trace(sim, "failover from e%u to e%u without the last %zu writes", sim->primary, to, lacks);
    fake_engine_do(sim->engines[to], "promote", 0);
    fake_engine_do(sim->engines[to], "keep", 20);
    bool goes_on = sim_one_in(sim, 2);
    if (!goes_on)
        fake_engine_do(old, "trouble", FAKE_READONLY);
    if (sim_one_in(sim, 2) && !goes_on)
        for (struct wire *w = sim->wires; w; w = w->next)
            if (w->engine == sim->primary)
                net_cut(sim, w);
    sim->primary = to;
    sim->evicts_ns[to] = NEVER;
    unsigned wrong = sim->wrong;
    sim->wrong = NAMES;
    if (wrong < NAMES)
        faults_spoil(sim, wrong);
    sim->mended_ns = 0;
    /* A majority of the Sentinels names the new one before it is promoted; others learn later. */
    unsigned first = sim_below(sim, SENTINELS);
    for (unsigned i = 0; i < SENTINELS; i++) {
        unsigned s = (first + i) % SENTINELS;
        if (i <= SENTINELS / 2)
            sim->named[s] = to;
        else
            sim->learns_ns[s] = sim->now_ns + (int64_t)sim_below(sim, 4000) * MS + 1;
    }
}

static void sentinel_fault(struct sim *sim)
{
    if (sim->sentinels) {
        unsigned s = sim_below(sim, SENTINELS);
        sim->deaf[s] = !sim->deaf[s];
        sim_trace(sim, "Sentinel %u is %s", s, sim->deaf[s] ? "deaf" : "back");
    }
}

static void cut(struct sim *sim)
{
    struct wire *w = some_wire(sim);
    if (w) {
        sim_trace(sim, "place %u wire %u is cut", w->place->number, w->number);
        net_cut(sim, w);
    }
}

static void restart(struct sim *sim, bool is_empty)
{
    sim_trace(sim, "the engine restarts %s", is_empty ? "empty" : "with its data");
    fake_engine_do(sim->engines[sim->primary], "restart", !is_empty);
    if (is_empty)
        sim->wrong = NAMES;
}

static void flush(struct sim *sim)
{
    sim_trace(sim, "FLUSHALL");
    fake_engine_do(sim->engines[sim->primary], "flush", 0);
    sim->wrong = NAMES;
}

static void leave(struct sim *sim)
{
    if (!sim_one_in(sim, 3))
        return;
    struct place *p = some_place(sim);
    place_leave(p);
    if (p->leaving)
        p->up_again_ns = sim->now_ns + 2 * LEASE_NS;
}

static void one_fault(struct sim *sim)
{
    enum fault fault = (enum fault)sim_below(sim, FAULTS);
    switch (fault) {
    case FAULT_CUT:
        cut(sim);
        break;
    case FAULT_STALL:
        stall(sim);
        break;
    case FAULT_DEAD:
        dead(sim);
        break;
    case FAULT_APART:
        apart(sim);
        break;
    case FAULT_RESTART:
    case FAULT_EMPTY:
        restart(sim, fault == FAULT_EMPTY);
        break;
    case FAULT_FLUSH:
        flush(sim);
        break;
    case FAULT_PAUSE:
        pause_place(sim);
        break;
    case FAULT_KILL:
    case FAULT_MOVE:
        kill_place(sim, fault == FAULT_MOVE);
        break;
    case FAULT_LEAVE:
        leave(sim);
        break;
    case FAULT_UPGRADE:
        place_upgrade(some_place(sim));
        break;
    case FAULT_RELOAD:
        reload(sim);
        break;
    case FAULT_TROUBLE:
        trouble(sim);
        break;
    case FAULT_SCRIPTS:
        fake_engine_do(sim->engines[sim->primary], "forget", 0);
        break;
    case FAULT_FAILOVER:
        failover(sim);
        break;
    case FAULT_SENTINEL:
        sentinel_fault(sim);
        break;
    case FAULT_WRONG:
        faults_spoil(sim, sim->wrong < NAMES ? NAMES : sim_below(sim, NAMES - 1));
        break;
    case FAULTS:
        break;
    }
    net_collect(sim);
}

static int64_t next_fault(struct sim *sim)
{
    /* Calm times and bursts. */
    return sim->now_ns + (int64_t)(1 + sim_below(sim, sim_one_in(sim, 3) ? 100 : 4000)) * MS;
}

void faults_begin(struct sim *sim)
{
    sim->fault_ns = sim_one_in(sim, 20) ? NEVER : next_fault(sim);
}

static void mend(struct sim *sim)
{
    fake_engine_do(sim->engines[sim->primary], "trouble", FAKE_NO_TROUBLE);
    sim->evicts_ns[sim->primary] = NEVER;
}

int64_t faults_due_ns(const struct sim *sim)
{
    int64_t due = sim->fault_ns;
    if (sim->mended_ns && sim->mended_ns < due)
        due = sim->mended_ns;
    for (unsigned i = 0; i < SENTINELS; i++)
        if (sim->learns_ns[i] && sim->learns_ns[i] < due)
            due = sim->learns_ns[i];
    return due;
}

void faults_step(struct sim *sim)
{
    if (sim->mended_ns && sim->mended_ns <= sim->now_ns) {
        sim->mended_ns = 0;
        mend(sim);
    }
    for (unsigned i = 0; i < SENTINELS; i++)
        if (sim->learns_ns[i] && sim->learns_ns[i] <= sim->now_ns) {
            sim->learns_ns[i] = 0;
            sim->named[i] = sim->primary;
        }
    if (sim->fault_ns <= sim->now_ns) {
        one_fault(sim);
        sim->fault_ns = next_fault(sim);
    }
}

void faults_end(struct sim *sim)
{
    sim_trace(sim, "no faults from now on");
    sim->fault_ns = NEVER;
    sim->mended_ns = 0;
    mend(sim);
    for (unsigned i = 0; i < SENTINELS; i++) {
        sim->learns_ns[i] = 0;
        sim->named[i] = sim->primary;
        sim->deaf[i] = false;
    }
    for (unsigned i = 0; i < sim->places_used; i++) {
        struct place *p = &sim->places[i];
        if (p->paused_ns > sim->now_ns)
            p->paused_ns = sim->now_ns;
        if (!p->up)
            p->up_again_ns = sim->now_ns + 1;
        p->apart_ns = 0;
    }
    for (struct wire *w = sim->wires; w; w = w->next)
        w->to_engine.stalled_ns = w->to_node.stalled_ns = 0;
}
