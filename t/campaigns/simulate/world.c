/*
 * world.c - one run of the simulation (see world.h).
 *
 * The real engine, services, connections and workers run on fake.c's loops and streams, in one
 * thread (turns.c). Between rounds the clients act (clients.c) and the clock advances.
 *
 * The rows of the services are replaced by copies whose functions ask the model first and then call
 * the real ones (protocols.c). A service's reply is caught when the service passes it to the
 * connection (replies.c), and compared at once. The bytes that a client receives are compared with
 * the replies to it. So a failure names its request, and does not appear only at the end.
 */
#include "t/unit/serving.h"

#include "base/log.h"
#include "t/campaigns/simulate/inside.h"
#include "t/unit/engine/faults.h"

#include <stdarg.h>

/* ---- state -------------------------------------------------------------------------------- */

static uint64_t seed;
struct outcome *result;
uint64_t step, served;
bool in_server, ending, draining;
struct mix mix;
struct services *services;
struct server server;
struct model model;
struct crew crew[WORKERS];
struct client *all;
struct client **open_clients;
unsigned open_count, open_room;
struct client *opening;
uint64_t reasons_told[2][CLOSE_MAX];

static bool limited;
static uint64_t memory_at_start; /* memory of the new table */

/* ---- failing ------------------------------------------------------------------------------ */

void fail(const char *file, int line, const char *what, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "seed %" PRIu64 ", step %" PRIu64 " (%s:%d): %s", seed, step, file, line, what);
    va_start(args, format);
    if (*format)
        fprintf(stderr, ": ");
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    exit(1);
}

/* ---- random choices ----------------------------------------------------------------------- */

static uint64_t rng_state;

uint64_t random_bits(void)
{
    rng_state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = rng_state;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint32_t below(uint32_t bound)
{
    return (uint32_t)((random_bits() >> 32) * bound >> 32);
}

bool one_in(uint32_t n)
{
    return below(n) == 0;
}

bool sometimes(unsigned n)
{
    return n && one_in(n);
}

/* ---- memory ------------------------------------------------------------------------------- */

static uint32_t fail_one_in;

static bool refuse_memory(void)
{
    if (!in_server)
        return false;
    result->pieces++;
    bool no = fail_one_in && one_in(fail_one_in);
    result->refused += no;
    return no;
}

unsigned long refusals(void)
{
    return faults;
}

bool may_lack_memory(unsigned long before)
{
    return faults != before || table_is_tight(services->table);
}

size_t queued(const struct bytes_queue *q)
{
    return q->end - q->begin;
}

void enqueue(struct bytes_queue *q, const void *bytes, size_t len)
{
    if (len == 0)
        return; /* there may be no memory for it */
    if (q->begin == q->end)
        q->begin = q->end = 0;
    if (q->end + len > q->room) {
        bool was = in_server;
        in_server = false;
        q->room = (q->end + len) * 2;
        q->data = realloc(q->data, q->room);
        CHECK(q->data);
        in_server = was;
    }
    memcpy(q->data + q->end, bytes, len);
    q->end += len;
}

/* ---- the run ------------------------------------------------------------------------------ */

static void choose_mix(void)
{
    memset(&mix, 0, offsetof(typeof(mix), bytes));
    mix.workers = 1 + below(WORKERS);
    mix.names = 1 + below(one_in(2) ? 4 : MODEL_NAMES);
    mix.clients = 2 + below(one_in(4) ? 300 : 40);
    mix.rush = 3;
    if (one_in(50)) {
        mix.clients = 1000 + below(3000);
        mix.rush = 100;
    }
    mix.depth = 1 + below(one_in(2) ? 3 : DEPTH - 1);
    mix.burst = 1 + below(mix.depth);
    mix.slow = one_in(2) ? 0 : 4 + below(60);
    mix.chop = one_in(3) ? 0 : 1 + below(8);
    mix.leave = 8 + below(one_in(2) ? 20 : 200);
    mix.refused = one_in(2) ? 2 + below(20) : 0;
    mix.calm = 20 + below(500);
    mix.dumps = one_in(2) ? 0 : 10 + below(100);
    mix.bad = one_in(2) ? 0 : 10 + below(100);
    mix.fixed_limits = one_in(2);
    mix.drains = one_in(4) ? 100 + below(300) : 0;
    bool long_names = one_in(8);
    for (unsigned n = 0; n < mix.names; n++) {
        mix.limits[n] = 1 + below(one_in(2) ? 3 : 20);
        size_t len = 2 + below(30);
        if (long_names && one_in(4))
            len = 1000 + below(2000);
        memset(mix.bytes[n], 'a' + (int)(n % 26), len);
        mix.bytes[n][0] = (uint8_t)('A' + n / 26);
        mix.bytes[n][1] = (uint8_t)('a' + n % 26);
        mix.name[n] = bytes_at(mix.bytes[n], len);
    }
    limited = one_in(8);
    static const int64_t starts[] = {0, INT64_C(2147483648) * NS_PER_MS,
                                     INT64_C(4294967296) * NS_PER_MS, NS_PER_S};
    fake_now = (struct moment){.mono_ns = starts[below(4)], .unix_s = 1700000000};
    if (fake_now.mono_ns)
        fake_now.mono_ns -= (int64_t)below(20) * NS_PER_S / 20;
}

static struct rules *some_rules(void)
{
    const struct rules_config config = {
        .limits = {.output_buffer = (size_t)1 << (8 + below(12)),
                   .request_timeout_ns = TIMEOUT,
                   .write_timeout_ns = TIMEOUT},
    };
    in_server = true;
    struct rules *rules = rules_new(&config);
    in_server = false;
    return rules;
}

/* Starts the server. Returns false without memory. */
static bool start(void)
{
    struct rules *rules = some_rules();
    if (!rules)
        return false;
    server_set_rules(&server, rules);
    server.count = mix.workers;
    for (unsigned i = 0; i < mix.workers; i++) {
        in_server = true;
        struct worker *worker = worker_new(&server, i);
        in_server = false;
        if (!worker)
            return false;
        server.workers[i] = worker;
        crew[i] = (struct crew){.worker = worker, .loop = worker_reactor(worker)->loop, .at = -1};
    }
    const struct serving_config config = {
        .table = {.buckets = 1 + below(200),
                  .memory_limit = (size_t)(limited ? 3 << 20 : 64 << 20),
                  .stats_interval_s = 1 + below(one_in(2) ? 20 : 1000),
                  .hash_key = {.k0 = random_bits(), .k1 = random_bits()}},
        .poolcounter_max_locks = MODEL_LOCKS,
        .poolcounter_max_line = LINE_MAX,
    };
    in_server = true;
    services = serving_services(&config, &server, fake_now);
    in_server = false;
    if (!services)
        return false;
    pass_time(0);
    struct table_stats stats;
    table_get_stats(services->table, fake_now, &stats);
    memory_at_start = stats.memory;
    model = (struct model){.now = &fake_now, .interval_s = config.table.stats_interval_s};
    dropped = 0;
    replace_protocols();
    return true;
}

/* Checks that everything is free. */
static void expect_nothing_held(void)
{
    struct table_stats s;
    table_get_stats(services->table, fake_now, &s);
    EXPECT(s.units == 0 && s.waiting == 0 && s.holdings == 0);
    EXPECT(model.units == 0 && model.waiting == 0 && model.untold == 0);
    EXPECT(open_count == 0);
    EXPECT(atomic_load(&services->services[0]->protocol.connections) == 0 &&
           atomic_load(&services->services[1]->protocol.connections) == 0);
    table_check(services->table);
}

/* Names kept at 0 expire; then the table must have all its memory back. */
static void expect_memory_back(void)
{
    struct table_walk walk = {0};
    struct table_stats s;
    uint64_t collected;
    pass_time(INT64_C(5000) * NS_PER_S);
    for (unsigned sweeps = 0; sweeps < 3; sweeps++) {
        walk = (struct table_walk){0};
        while (!table_collect(services->table, &walk, fake_now, 10000, &collected))
            continue;
    }
    table_trim(services->table);
    table_get_stats(services->table, fake_now, &s);
    EXPECT(s.memory == memory_at_start, "%" PRIu64 " bytes instead of %" PRIu64, s.memory,
           memory_at_start);
}

/* Ends all clients, or the server first. Nothing may be left in either case. */
static void finish(void)
{
    if (one_in(2)) {
        for (unsigned i = 0; i < open_count; i++) {
            if (one_in(2))
                break_client(open_clients[i]);
            else
                end_client(open_clients[i]);
        }
        become_quiet(true);
        for (unsigned i = 0; open_count > 0; i++) { /* connections that linger */
            EXPECT(i < 1000, "%u clients are not closed", open_count);
            pass_time(3 * NS_PER_S);
            become_quiet(true);
        }
        expect_nothing_held();
    }
    ending = true;
    server_end(&server);
    for (unsigned i = 0; i < mix.workers; i++)
        worker_stop(crew[i].worker);
    for (unsigned i = 0; open_count > 0; i++) {
        EXPECT(i < 100000, "%u clients are not closed", open_count);
        take_turns(false);
    }
    for (unsigned i = 0; i < mix.workers; i++) {
        in_server = true;
        worker_drain(crew[i].worker);
        in_server = false;
    }
    expect_nothing_held();
    expect_memory_back();
}

static void play(void)
{
    uint64_t until = 1000 + below(one_in(8) ? 9000 : 2000);
    for (uint64_t round = 0; served < until; round++) {
        for (unsigned i = below(8); i > 0 && open_count > 0; i--)
            act();
        if (sometimes(300)) {
            struct rules *rules = some_rules();
            if (rules)
                server_set_rules(&server, rules);
        }
        if (sometimes(draining ? 10 : mix.drains)) {
            draining = !draining;
            services_drain(services, draining);
        }
        take_turns(false);
        let_time_pass();
        if (round % 8 == 0)
            compare_sums();
        if (round % 16 == 0)
            compare_line(below(mix.names));
        if (one_in(200))
            become_quiet(one_in(2));
    }
    finish();
}

static void clean_up(void)
{
    if (services)
        services_free(&services);
    for (unsigned i = 0; i < mix.workers; i++) {
        if (server.workers[i])
            worker_free(&server.workers[i]);
        free(crew[i].hot);
        free(crew[i].by_slot);
        crew[i] = (struct crew){0};
    }
    server_free_rules(&server);
    memset(&server, 0, sizeof(server));
    fake_peers_leave();
    while (all) {
        struct client *c = all;
        all = c->next;
        free(c->wire.data);
        free(c->reply.data);
        free(c->said.data);
        free(c->dump);
        free(c);
    }
    free(open_clients);
    open_clients = NULL;
    open_count = open_room = 0;
    model_free(&model);
    memset(reasons_told, 0, sizeof(reasons_told));
}

void world_run(uint64_t of, struct outcome *sum)
{
    struct outcome here = {0};
    seed = of;
    result = &here;
    rng_state = seed;
    step = served = 0;
    faults = 0;
    fault_dice = refuse_memory;
    ending = draining = false;
    fake_hooks = (struct fake_hooks){
        .received = on_received, .closed = on_closed, .stirred = on_stirred, .refuses = fault_now};
    log_set_level(LOG_LEVEL_ERROR);
    fault_counting = true;
    fault_pieces = 0;
    choose_mix();
    fail_one_in = 0; /* no failure before the server has started */
    if (start()) {
        if (one_in(4))
            fail_one_in = 20 + below(500);
        play();
    } else {
        EXPECT(faults > 0, "it did not start");
    }
    clean_up();
    EXPECT(fault_pieces == 0, "%ld pieces of memory were not freed", fault_pieces);
    here.requests = served;
    uint64_t *to = (uint64_t *)sum;
    for (size_t i = 0; i < sizeof(here) / sizeof(uint64_t); i++)
        to[i] += ((const uint64_t *)&here)[i];
}
