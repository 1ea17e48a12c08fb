/*
 * turns.c - rounds: some of the workers run an iteration of their loops. The steps of an iteration
 * (begin, handle one descriptor, take mail, check deadlines, continue, end) are mixed at random, so
 * that verdicts are on their way during requests, timeouts and ends. Then the clock advances.
 */
#include "t/campaigns/simulate/inside.h"

/* Connects a client, inside an iteration of its worker. */
static void connect_one(unsigned worker)
{
    struct client *c = calloc(1, sizeof(*c));
    CHECK(c);
    c->next = all;
    all = c;
    c->worker = worker;
    c->text = one_in(3) ? false : true;
    c->protocol = services_protocol(services, c->text ? "poolcounter" : "counter");
    c->peer.window = SIZE_MAX;
    c->peer.stubborn = one_in(4);
    fake_peer_join(&c->peer);
    atomic_fetch_add(&c->protocol->connections, 1);
    opening = c;
    if (open_count == open_room) {
        open_room = open_room ? open_room * 2 : 256;
        open_clients = realloc(open_clients, open_room * sizeof(struct client *));
        CHECK(open_clients);
    }
    in_server = true;
    bool opened =
        worker_open(crew[worker].worker, c->protocol, (struct stream){.fd = c->peer.fd}, 0);
    in_server = false;
    opening = NULL;
    EXPECT(opened == c->opened);
    result->clients++;
    if (opened) {
        c->place = open_count;
        open_clients[open_count++] = c;
        heat(c);
    }
}

/* Takes one client off the worker's list, and notifies the server if it is ready. */
static void tell_one(struct crew *w)
{
    unsigned i = below(w->hot_count);
    struct client *c = w->hot[i];
    w->hot[i] = w->hot[--w->hot_count];
    c->hot = false;
    unsigned ready = c->peer.closed ? 0 : fake_peer_ready(&c->peer);
    if (!ready)
        return;
    in_server = true;
    fake_peer_tell(&c->peer, ready);
    in_server = false;
    if (!c->peer.closed && fake_peer_ready(&c->peer))
        heat(c);
}

/* Runs the next step of a worker's iteration. */
static void go_on(struct crew *w)
{
    const struct loop_handlers *h = &w->loop->handlers;
    step++;
    switch (w->at) {
    case 0:
        w->soon = w->loop->soon;
        w->loop->soon = false;
        w->left = w->hot_count;
        in_server = true;
        (void)h->begin(h->arg);
        break;
    case 1:
        if (w->left > 0 && w->hot_count > 0) {
            w->left--;
            tell_one(w);
            look_at_closed();
            return;
        }
        break;
    case 2:
        for (unsigned i = below(mix.rush); i > 0 && !ending && open_count < mix.clients; i--)
            connect_one((unsigned)(w - crew));
        break;
    case 3:
        w->in_bell = in_server = true;
        if (w->loop->rung) {
            w->loop->rung = false;
            h->bell(h->arg);
        }
        w->in_bell = false;
        break;
    case 4:
        in_server = true;
        if (w->loop->timer_at_ns <= worker_now(w->worker).mono_ns) {
            w->loop->timer_at_ns = INT64_MAX;
            h->timer(h->arg);
        }
        break;
    case 5:
        in_server = true;
        if (w->soon)
            h->soon(h->arg);
        break;
    default:
        in_server = true;
        (void)h->end(h->arg);
        w->at = -2;
    }
    in_server = false;
    w->at++;
    look_at_closed();
}

/* Compares the names that the last step touched with the model. */
static void compare_touched(void)
{
    learn_of_dropped();
    for (; model.touched; model.touched &= model.touched - 1) {
        unsigned n = (unsigned)__builtin_ctzll(model.touched);
        uint32_t consumption = 0;
        bool is = table_get(services->table, mix.name[n], fake_now, &consumption) == TABLE_OK;
        EXPECT(is == model_exists(&model, n), "name %u", n);
        EXPECT(!is || consumption == model.names[n].consumption, "name %u: %u, not %u", n,
               consumption, model.names[n].consumption);
        EXPECT(!mix.fixed_limits || consumption <= mix.limits[n], "name %u is over its limit", n);
        EXPECT(model_line_is_right(&model, n));
    }
}

void take_turns(bool every)
{
    unsigned turning[WORKERS], count = 0;
    for (unsigned i = 0; i < mix.workers; i++) {
        if (every || one_in(2)) {
            turning[count++] = i;
            crew[i].at = 0;
        }
    }
    while (count > 0) {
        unsigned i = below(count);
        go_on(&crew[turning[i]]);
        compare_touched();
        fake_now.mono_ns += below(2) * below(300);
        if (crew[turning[i]].at < 0)
            turning[i] = turning[--count];
    }
}

bool is_quiet(void)
{
    for (unsigned i = 0; i < mix.workers; i++) {
        const struct loop *loop = crew[i].loop;
        if (crew[i].hot_count || loop->rung || loop->soon || loop->timer_at_ns <= fake_now.mono_ns)
            return false;
    }
    return true;
}

void pass_time(int64_t ns)
{
    static int64_t rest_ns;
    fake_now.mono_ns += ns;
    fake_now.unix_s += (rest_ns + ns) / NS_PER_S;
    rest_ns = (rest_ns + ns) % NS_PER_S;
}

void let_time_pass(void)
{
    int64_t next_ns = crew[below(mix.workers)].loop->timer_at_ns - fake_now.mono_ns;
    if (one_in(mix.calm)) {
        pass_time((int64_t)below(40) * NS_PER_S);
        return;
    }
    switch (below(8)) {
    case 0:
        next_ns = (next_ns < DEADLINE_NONE / 2 ? next_ns : 0) + (int64_t)below(3) - 1;
        if (next_ns > 0 && next_ns < (one_in(mix.calm) ? 100 * NS_PER_S : 2 * NS_PER_S))
            pass_time(next_ns);
        break;
    case 1:
        pass_time((int64_t)below(20) * NS_PER_MS);
        break;
    default:
        pass_time((int64_t)below(200000));
    }
}
