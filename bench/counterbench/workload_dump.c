/*
 * workload_dump.c - dump: one connection makes the server dump all names, again and again, while
 * others work. The run measures the others' latency, for the same time without a dump and during
 * dumps.
 *
 * Before that, one connection acquires the names and holds them.
 */
#include "base/clock.h"
#include "bench/counterbench/beside.h"
#include "bench/counterbench/driver.h"
#include "bench/counterbench/fill.h"
#include "bench/counterbench/run.h"

/* Links by number; the other clients follow. */
enum { HOLDER, DUMPER, OTHERS };

/* Only the dumper's thread writes it; the main thread reads it at the end. */
struct dump {
    uint64_t parts;        /* parts of the current dump */
    uint64_t dumps, names; /* finished dumps, and names in the last one */
    int64_t sum_ns, longest_ns;
};

/* ---- the holder of the names ----------------------------------------------------------------- */

static bool prepare(struct link *link)
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

static const struct role holder = {.prepare = prepare, .heard = holder_heard};

/* ---- the dumper ------------------------------------------------------------------------------ */

static void begin(struct link *link)
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

static const struct role dumper = {.begin = begin, .alarm = dump, .heard = dumper_heard};

/* ---- the run --------------------------------------------------------------------------------- */

static const struct role *role_of(const struct run *run, uint32_t number)
{
    (void)run;
    return number == HOLDER ? &holder : number == DUMPER ? &dumper : &beside_role;
}

static void plan(const struct bench_options *options, struct plan *plan_r)
{
    plan_r->links = OTHERS + options->beside;
    plan_r->flights = options->depth;
    plan_r->end = ENDS_BY_ROLE;
    plan_r->counts_requests = true;
    plan_r->has_quiet = true;
    plan_r->shared_size = sizeof(struct dump);
}

static void describe(const struct run *run, json_t *to)
{
    const struct dump *dumped = run->shared;
    double each_ns = dumped->dumps > 0 ? (double)dumped->sum_ns / (double)dumped->dumps : 0;
    json_t *object = json_object();
    json_object_set_new(object, "seconds", json_real(each_ns / (double)NS_PER_S));
    json_object_set_new(object, "longest",
                        json_real((double)dumped->longest_ns / (double)NS_PER_S));
    json_object_set_new(object, "names", json_integer((json_int_t)dumped->names));
    json_object_set_new(object, "dumps", json_integer((json_int_t)dumped->dumps));
    json_object_set_new(to, "dump", object);
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
    .plan = plan,
    .role_of = role_of,
    .describe = describe,
};
