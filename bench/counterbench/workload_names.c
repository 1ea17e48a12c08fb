/*
 * workload_names.c - names, dump and idle: what the server keeps.
 *
 * names acquires many names and holds them; each connection takes its share, with --depth requests
 * in flight. The run measures the memory of each name; and, with others beside, their latency while
 * the table grows.
 *
 * dump: one connection holds the names, another makes the server dump all of them, again and again,
 * while others work. The run measures the others' latency, for the same time without a dump and
 * during dumps.
 *
 * idle: connections that were served once and then do nothing. The run measures the memory of each,
 * after the server had time to free what it needed to serve them.
 */
#include "base/clock.h"
#include "bench/counterbench/run.h"

/* ---- a connection that acquires one name after the other ------------------------------------- */

static void ask_for_name(struct link *link)
{
    link_ask(link, ASK_ACQUIRE, link->name, link->driver->now_ns);
}

static bool fill(struct link *link, uint32_t step)
{
    const struct bench_options *options = link->driver->run->options;
    return link_fill(link, step, options->names, options->depth, ask_for_name);
}

/* Requests the names first, first + step, ... below --names, as many at once as may be in flight.
   Returns false if there are none. */
static bool fill_begin(struct link *link, uint32_t first, uint32_t step)
{
    link->name = first;
    if (!fill(link, step))
        return false;
    driver_begun(link);
    return true;
}

/* Requests the next name after an answer. Returns false after the last answer. */
static bool fill_goes_on(struct link *link, uint32_t step)
{
    if (fill(link, step))
        return true;
    driver_ended(link);
    return false;
}

/* ---- connections that work beside the measured ones ------------------------------------------ */

static void beside_operate(struct link *link, int64_t start_ns)
{
    link_ask(link, ASK_ACQUIRE, link_random(link, link->driver->run->options->names), start_ns);
}

static void beside_heard(struct link *link, const struct flight *flight, enum heard heard)
{
    if (flight->ask == ASK_ACQUIRE && heard == HEARD_YES)
        link_ask(link, ASK_RELEASE, flight->name, link->driver->now_ns);
    else
        driver_done(link, false);
}

static const struct role beside_role = {
    .times_requests = true, .operate = beside_operate, .heard = beside_heard};

/* ---- names ----------------------------------------------------------------------------------- */

/* The number of connections that have not finished. */
static _Atomic uint32_t *unfinished(const struct link *link)
{
    return link->driver->run->shared;
}

static void names_begin(struct link *link)
{
    const struct bench_options *options = link->driver->run->options;
    CHECK(fill_begin(link, link->number, options->connections));
}

static void names_heard(struct link *link, const struct flight *flight, enum heard heard)
{
    struct run *run = link->driver->run;
    if (heard == HEARD_YES)
        driver_count(link->driver);
    (void)flight;
    if (!fill_goes_on(link, run->options->connections) &&
        atomic_fetch_add(unfinished(link), 1) + 1 == run->options->connections)
        run_end(run, link->driver->now_ns);
}

static const struct role alone = {
    .times_requests = true, .begin = names_begin, .heard = names_heard};
static const struct role accompanied = {.begin = names_begin, .heard = names_heard};

static const struct role *names_role_of(const struct run *run, uint32_t number)
{
    if (number >= run->options->connections)
        return &beside_role;
    return run->options->beside > 0 ? &accompanied : &alone;
}

static void names_plan(const struct bench_options *options, struct plan *plan_r)
{
    plan_r->links = options->connections + options->beside;
    plan_r->flights = options->depth;
    plan_r->end = ENDS_BY_ROLE;
    plan_r->things = options->names;
    plan_r->shared_size = sizeof(_Atomic uint32_t);
}

static const char *refuses(const struct bench_options *options)
{
    return options->connections > options->names ? "--connections: more than --names" : NULL;
}

const struct workload workload_names = {
    .name = "names",
    .help = "names that are held: bytes of each",
    .protocol = &protocol_binary,
    .connections = 1,
    .depth = 64,
    .names = 1000000,
    .limit = 1000000,
    .asks = ASK_BIT(ASK_ACQUIRE) | ASK_BIT(ASK_RELEASE),
    .options = BENCH_BIT(BENCH_CONNECTIONS) | BENCH_BIT(BENCH_DEPTH) | BENCH_BIT(BENCH_NAMES) |
               BENCH_BIT(BENCH_BESIDE) | BENCH_BIT(BENCH_RATE),
    .refuses = refuses,
    .plan = names_plan,
    .role_of = names_role_of,
};

/* ---- dump ------------------------------------------------------------------------------------ */

/* Links by number; the other clients follow. */
enum { HOLDER, DUMPER, OTHERS };

/* Only the dumper's thread writes it; the main thread reads it at the end. */
struct dump {
    uint64_t parts;        /* parts of the current dump */
    uint64_t dumps, names; /* finished dumps, and names in the last one */
    int64_t sum_ns, longest_ns;
};

/* ---- the holder of the names ----------------------------------------------------------------- */

static bool holder_prepare(struct link *link)
{
    return fill_begin(link, 0, 1);
}

static void holder_heard(struct link *link, const struct flight *flight, enum heard heard)
{
    (void)flight;
    (void)heard;
    if (!fill_goes_on(link, 1))
        driver_prepared(link);
}

static const struct role holder = {.prepare = holder_prepare, .heard = holder_heard};

/* ---- the dumper ------------------------------------------------------------------------------ */

static void dumper_begin(struct link *link)
{
    driver_alarm(link, link->driver->run->from_ns);
}

static void dump(struct link *link)
{
    link_ask(link, ASK_DUMP, 0, link->driver->now_ns);
}

static void dumper_heard(struct link *link, const struct flight *flight, enum heard heard)
{
    struct driver *driver = link->driver;
    struct run *run = driver->run;
    struct dump *dumped = run->shared;
    if (heard == HEARD_PART) {
        dumped->parts++;
        return;
    }
    int64_t took_ns = driver->now_ns - flight->start_ns;
    dumped->dumps++;
    dumped->names = dumped->parts;
    dumped->parts = 0;
    dumped->sum_ns += took_ns;
    if (took_ns > dumped->longest_ns)
        dumped->longest_ns = took_ns;
    if (heard != HEARD_YES || driver->now_ns >= run->from_ns + run->options->seconds_ns)
        run_end(run, driver->now_ns);
    else if (!driver_is_over(driver))
        dump(link);
}

static const struct role dumper = {.begin = dumper_begin, .alarm = dump, .heard = dumper_heard};

/* ---- the run --------------------------------------------------------------------------------- */

static const struct role *dump_role_of(const struct run *run, uint32_t number)
{
    (void)run;
    return number == HOLDER ? &holder : number == DUMPER ? &dumper : &beside_role;
}

static void dump_plan(const struct bench_options *options, struct plan *plan_r)
{
    plan_r->links = OTHERS + options->beside;
    plan_r->flights = options->depth;
    plan_r->end = ENDS_BY_ROLE;
    plan_r->counts_requests = true;
    plan_r->has_quiet = true;
    plan_r->shared_size = sizeof(struct dump);
}

static void dump_describe(const struct run *run, json_t *to)
{
    const struct dump *dumped = run->shared;
    double each_ns = dumped->dumps > 0 ? (double)dumped->sum_ns / (double)dumped->dumps : 0;
    json_object_set_new(to, "dump",
                        json_pack("{sf sf sI sI}", "seconds", each_ns / (double)NS_PER_S, "longest",
                                  (double)dumped->longest_ns / (double)NS_PER_S, "names",
                                  (json_int_t)dumped->names, "dumps", (json_int_t)dumped->dumps));
}

const struct workload workload_dump = {
    .name = "dump",
    .help = "dump of all names, while others work",
    .protocol = &protocol_binary,
    .connections = 1,
    .depth = 64,
    .names = 1000000,
    .limit = 1000000,
    .beside = 50,
    .asks = ASK_BIT(ASK_ACQUIRE) | ASK_BIT(ASK_RELEASE) | ASK_BIT(ASK_DUMP),
    .options = BENCH_BIT(BENCH_SECONDS) | BENCH_BIT(BENCH_WARMUP) | BENCH_BIT(BENCH_DEPTH) |
               BENCH_BIT(BENCH_NAMES) | BENCH_BIT(BENCH_BESIDE) | BENCH_BIT(BENCH_RATE),
    .plan = dump_plan,
    .role_of = dump_role_of,
    .describe = dump_describe,
};

/* ---- idle ------------------------------------------------------------------------------------ */

static const struct role idle_role;

static void idle_plan(const struct bench_options *options, struct plan *plan_r)
{
    plan_r->slots = 0;
    plan_r->things = options->connections;
}

static void idle_describe(const struct run *run, json_t *to)
{
    json_object_set_new(to, "operations", json_integer(run->plan.links));
    json_object_del(to, "per_second");
}

const struct workload workload_idle = {
    .name = "idle",
    .help = "connections that do nothing: bytes of each",
    .protocol = &protocol_text,
    .connections = 1000,
    .options = BENCH_BIT(BENCH_CONNECTIONS) | BENCH_BIT(BENCH_SECONDS),
    .plan = idle_plan,
    .role = &idle_role,
    .describe = idle_describe,
};
