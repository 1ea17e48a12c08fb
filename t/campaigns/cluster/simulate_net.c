/*
 * simulate_net.c - the network of the simulation: wires between nodes and engines or Sentinels.
 * Bytes arrive late, in order and in pieces; a wire can be cut or stalled. What a node sent before
 * it closed a wire may still arrive.
 */
#include "t/campaigns/cluster/simulate.h"

#include <stdlib.h>
#include <string.h>

static int64_t delay(struct sim *sim)
{
    int64_t ns = 100000 + (int64_t)sim_below(sim, (uint32_t)sim->delay_ns);
    return !sim->calm && sim_one_in(sim, 200) ? ns + (int64_t)sim_below(sim, 200) * MS : ns;
}

static void line_add(struct sim *sim, struct line *line, bool dead, const char *bytes, size_t len)
{
    while (len > 0 && !dead) {
        size_t piece = sim_one_in(sim, 4) ? 1 + sim_below(sim, (uint32_t)len) : len;
        struct segment *s = malloc(sizeof(*s) + piece);
        if (!s)
            abort();
        s->next = NULL;
        s->len = piece;
        memcpy(s->bytes, bytes, piece);
        s->at_ns = sim->now_ns + delay(sim);
        if (s->at_ns < line->last_ns)
            s->at_ns = line->last_ns;
        line->last_ns = s->at_ns;
        *(line->last ? &line->last->next : &line->first) = s;
        line->last = s;
        bytes += piece;
        len -= piece;
    }
}

static void line_clear(struct line *line)
{
    while (line->first) {
        struct segment *s = line->first;
        line->first = s->next;
        free(s);
    }
    line->last = NULL;
}

static int64_t line_due(const struct line *line)
{
    if (!line->first)
        return NEVER;
    return line->first->at_ns > line->stalled_ns ? line->first->at_ns : line->stalled_ns;
}

static struct segment *line_take(struct line *line)
{
    struct segment *s = line->first;
    line->first = s->next;
    if (!line->first)
        line->last = NULL;
    return s;
}

void net_open(void *arg, unsigned number, const struct url_host *engine, int64_t limit_ns)
{
    struct place *p = arg;
    struct sim *sim = p->sim;
    struct wire *w = calloc(1, sizeof(*w));
    if (!w || p->wires[number])
        abort();
    w->place = p;
    w->number = number;
    w->closes_ns = NEVER;
    w->opens_ns = sim->now_ns + delay(sim);
    if (number >= NODE_SENTINEL)
        w->engine = ENGINES + number - NODE_SENTINEL;
    else
        w->engine = engine ? (unsigned)(engine->host[1] - '0') : sim->primary;
    w->fails = (sim_one_in(sim, 100) && !sim->calm) || p->apart_ns > sim->now_ns;
    if (w->engine >= ENGINES && sim->deaf[w->engine - ENGINES])
        w->opens_ns = sim->now_ns + limit_ns, w->fails = true;
    w->next = sim->wires;
    sim->wires = w;
    p->wires[number] = w;
}

void net_send(void *arg, unsigned number, const void *data, size_t len)
{
    struct place *p = arg;
    struct wire *w = p->wires[number];
    if (!w || w->opens_ns)
        sim_fail(p->sim, "bytes for a wire that is not open");
    line_add(p->sim, &w->to_engine, w->dead, data, len);
}

/* The node closes: what it sent may still arrive, or not. */
void net_close(void *arg, unsigned number)
{
    struct place *p = arg;
    struct wire *w = p->wires[number];
    if (!w)
        sim_fail(p->sim, "a wire is closed that is not there");
    p->wires[number] = NULL;
    w->place = NULL;
    line_clear(&w->to_node);
    if (sim_one_in(p->sim, 2))
        line_clear(&w->to_engine);
}

/* Both sides lose it; bytes on the way to the engine may arrive. */
void net_cut(struct sim *sim, struct wire *w)
{
    if (w->closes_ns == NEVER)
        w->closes_ns = sim->now_ns + delay(sim);
    if (sim_one_in(sim, 2))
        line_clear(&w->to_node);
    if (sim_one_in(sim, 2))
        line_clear(&w->to_engine);
}

static void wire_free(struct wire *w)
{
    if (w->link)
        fake_engine_hang_up(w->link);
    line_clear(&w->to_engine);
    line_clear(&w->to_node);
    free(w);
}

void net_collect(struct sim *sim)
{
    for (struct wire *w = sim->wires; w; w = w->next) {
        if (!w->link)
            continue;
        size_t len;
        const char *bytes = fake_engine_take(w->link, &len);
        if (len && w->place && w->closes_ns == NEVER)
            line_add(sim, &w->to_node, w->dead, bytes, len);
        if (fake_engine_closed(w->link) && w->closes_ns == NEVER && !w->dead)
            w->closes_ns =
                (w->to_node.last_ns > sim->now_ns ? w->to_node.last_ns : sim->now_ns) + delay(sim);
    }
}

/* A Sentinel answers each question; questions are all alike, so it counts their lines' ends. */
static void sentinel_feed(struct sim *sim, struct wire *w, const char *bytes, size_t len)
{
    unsigned i = w->engine - ENGINES;
    char answer[64];
    if (sim->deaf[i] || !w->place)
        return;
    for (size_t n = 0; n < len; n++) {
        if (bytes[n] != '*')
            continue;
        int size =
            snprintf(answer, sizeof(answer), "*2\r\n$2\r\ne%u\r\n$4\r\n6379\r\n", sim->named[i]);
        line_add(sim, &w->to_node, w->dead, answer, (size_t)size);
    }
}

static bool place_runs(const struct place *p)
{
    return p->up && !p->paused_ns && !p->paused;
}

static void deliver(struct sim *sim, struct wire *w)
{
    if (line_due(&w->to_engine) <= sim->now_ns) {
        struct segment *s = line_take(&w->to_engine);
        if (w->engine >= ENGINES)
            sentinel_feed(sim, w, s->bytes, s->len);
        else if (w->link)
            fake_engine_feed(w->link, s->bytes, s->len);
        free(s);
        net_collect(sim);
        return;
    }
    struct place *p = w->place;
    if (!p || !place_runs(p))
        return;
    if (w->opens_ns && w->opens_ns <= sim->now_ns) {
        unsigned number = w->number;
        if (w->fails || w->closes_ns != NEVER) {
            p->wires[number] = NULL;
            w->place = NULL;
            node_closed(p->node, number, "refused", place_now(p));
        } else {
            w->opens_ns = 0;
            if (w->engine < ENGINES)
                w->link = fake_engine_connect(sim->engines[w->engine]);
            node_opened(p->node, number, place_now(p));
        }
        node_flush(p->node, place_now(p));
    } else if (line_due(&w->to_node) <= sim->now_ns) {
        struct segment *s = line_take(&w->to_node);
        node_received(p->node, w->number, s->bytes, s->len, place_now(p));
        node_flush(p->node, place_now(p));
        free(s);
    } else if (w->closes_ns <= sim->now_ns && !w->to_node.first) {
        unsigned number = w->number;
        p->wires[number] = NULL;
        w->place = NULL;
        node_closed(p->node, number, "closed by the peer", place_now(p));
        node_flush(p->node, place_now(p));
    }
}

static int64_t wire_due(const struct wire *w)
{
    int64_t due = line_due(&w->to_engine), other;
    if (!w->place || !place_runs(w->place))
        return due;
    other = w->opens_ns ? w->opens_ns : w->to_node.first ? line_due(&w->to_node) : w->closes_ns;
    return other < due ? other : due;
}

int64_t net_due_ns(const struct sim *sim)
{
    int64_t due = NEVER;
    for (const struct wire *w = sim->wires; w; w = w->next) {
        int64_t at = wire_due(w);
        if (at < due)
            due = at;
    }
    return due;
}

/* Delivers one thing on one of the wires, any that is due. */
void net_step(struct sim *sim)
{
    unsigned due = 0;
    for (struct wire *w = sim->wires; w; w = w->next)
        due += wire_due(w) <= sim->now_ns;
    if (due) {
        unsigned chosen = sim_below(sim, due);
        struct wire *w = sim->wires;
        while (wire_due(w) > sim->now_ns || chosen-- > 0)
            w = w->next;
        deliver(sim, w);
    }
    for (struct wire **at = &sim->wires; *at;) {
        struct wire *w = *at;
        if (w->place || (w->to_engine.first && w->link && !fake_engine_closed(w->link))) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        wire_free(w);
    }
}

void net_begin(struct sim *sim)
{
    for (unsigned i = 0; i < ENGINES && (i == 0 || sim->sentinels); i++)
        sim->engines[i] = NULL;
    sim->engines[0] = fake_engine_new(PREFIX, rng_next(&sim->rng), PASSWORD);
    fake_engine_do(sim->engines[0], "keep", sim->sentinels ? 20 : 0);
    sim->primary = 0;
}

void net_end(struct sim *sim)
{
    while (sim->wires) {
        struct wire *w = sim->wires;
        sim->wires = w->next;
        wire_free(w);
    }
    for (unsigned i = 0; i < ENGINES; i++)
        if (sim->engines[i])
            fake_engine_free(sim->engines[i]);
}
