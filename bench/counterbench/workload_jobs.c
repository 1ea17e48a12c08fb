/*
 * workload_jobs.c - jobs: each connection puts a job into its tube, reserves a job of the tube and
 * deletes it.
 *
 * With a depth above 1 a connection has that many such operations under way, each with one request
 * in flight. A reserve follows the answer to a put of the same connection, so there is always a job
 * for it, even if connections share a tube.
 *
 * With --waiters others reserve and delete, and our connections only put. Then latency is from the
 * put until a waiter has read the job: the job's body begins with the time of the put. A waiter
 * deletes its job and reserves the next one in one go.
 *
 * put-jobs only puts, and take-jobs reserves and deletes what is there. Where each request names
 * its tube (protocol_jobs.c), tubes are drawn at random, or one after the other by these two.
 */
#include "base/clock.h"
#include "base/number.h"
#include "bench/counterbench/run.h"

/* True if the protocol's requests name their tube. */
static bool names_tubes(const struct protocol *protocol)
{
    return !(protocol->asks & ASK_BIT(ASK_TUBE));
}

/* The most bytes of a batch, and those of each job besides its body. */
#define BATCH_MAX  60000u
#define BATCH_EACH 30u

/* The number of tubes in use. */
static uint32_t tubes(const struct bench_options *options)
{
    uint32_t most = options->names;
    if (options->waiters == 0 && names_tubes(options->protocol))
        return most;
    if (options->waiters > 0 && options->waiters < most)
        most = options->waiters;
    return options->waiters > 0 && options->connections < most ? options->connections : most;
}

/* True if the link is one of the waiters. */
static bool is_waiter(const struct link *link)
{
    return link->number >= link->driver->run->options->connections;
}

/* The link's tube. */
static uint32_t own_tube(const struct link *link)
{
    const struct bench_options *options = link->driver->run->options;
    uint32_t own = is_waiter(link) ? link->number - options->connections : link->number;
    return own % tubes(options);
}

/* The tube of an operation of `jobs`. */
static uint32_t any_tube(struct link *link)
{
    const struct bench_options *options = link->driver->run->options;
    if (options->waiters > 0 || !names_tubes(link->language->protocol))
        return own_tube(link);
    return link_random(link, tubes(options));
}

/* The next tube of those that the link goes through. */
static uint32_t next_tube(struct link *link)
{
    const struct bench_options *options = link->driver->run->options;
    if (!names_tubes(link->language->protocol))
        return own_tube(link);
    uint64_t at = link->number + (uint64_t)options->connections * link->name++;
    return (uint32_t)(at % tubes(options));
}

static bool prepare(struct link *link)
{
    if (names_tubes(link->language->protocol))
        return false;
    link_ask_composed(link, ASK_TUBE, own_tube(link), (struct bytes){0}, link->driver->now_ns);
    return true;
}

/* The answer to a reserve: the stamp of the job, and what DELETE needs. Returns false if it has
   none. */
static bool take_job(const struct driver *driver, int64_t *stamp_ns_r, struct bytes *job_r)
{
    struct bytes said = bytes_of(driver->said);
    uint64_t stamp;
    if (!number_take(&said, INT64_MAX, &stamp) || !bytes_take_text(&said, " "))
        return false;
    *stamp_ns_r = (int64_t)stamp;
    *job_r = said;
    return true;
}

static void operate(struct link *link, int64_t start_ns)
{
    link_ask_composed(link, ASK_PUT, any_tube(link), (struct bytes){0}, start_ns);
}

static void heard(struct link *link, const struct flight *flight, enum heard heard)
{
    struct driver *driver = link->driver;
    struct bytes job = {0};
    int64_t stamp_ns;
    if (flight->ask == ASK_TUBE)
        driver_prepared(link);
    else if (flight->ask == ASK_DELETE || heard != HEARD_YES)
        driver_done(link, heard == HEARD_YES);
    else if (flight->ask == ASK_PUT)
        link_ask_composed(link, ASK_RESERVE, flight->name, job, driver->now_ns);
    else if (take_job(driver, &stamp_ns, &job))
        link_ask_composed(link, ASK_DELETE, flight->name, job, driver->now_ns);
    else
        driver_done(link, false);
}

static const struct role role = {
    .times_requests = true, .prepare = prepare, .operate = operate, .heard = heard};

/* ---- some put, others wait ------------------------------------------------------------------- */

static void putter_heard(struct link *link, const struct flight *flight, enum heard heard)
{
    (void)heard;
    if (flight->ask == ASK_TUBE)
        driver_prepared(link);
    else
        driver_done(link, false); /* the waiter counts it */
}

/* The waiters wait before the first job comes. */
static bool prepare_waiter(struct link *link)
{
    bool waits = prepare(link);
    link_ask_composed(link, ASK_RESERVE, own_tube(link), (struct bytes){0}, link->driver->now_ns);
    return waits;
}

static void waiter_heard(struct link *link, const struct flight *flight, enum heard heard)
{
    struct driver *driver = link->driver;
    struct bytes job = {0};
    int64_t stamp_ns;
    if (flight->ask == ASK_TUBE) {
        driver_prepared(link);
    } else if (flight->ask == ASK_RESERVE && heard == HEARD_YES &&
               take_job(driver, &stamp_ns, &job)) {
        driver_time(driver, stamp_ns);
        driver_count(driver);
        link_ask_composed(link, ASK_DELETE, flight->name, job, driver->now_ns);
        link_ask_composed(link, ASK_RESERVE, flight->name, (struct bytes){0}, driver->now_ns);
    }
}

static const struct role putter = {.prepare = prepare, .operate = operate, .heard = putter_heard};
static const struct role waiter = {.prepare = prepare_waiter, .heard = waiter_heard};

static const struct role *role_of(const struct run *run, uint32_t number)
{
    if (run->options->waiters == 0)
        return &role;
    return number < run->options->connections ? &putter : &waiter;
}

/* ---- only puts, only takes ------------------------------------------------------------------- */

static void put(struct link *link, int64_t start_ns)
{
    bool several = link->driver->run->options->batch > 1;
    link_ask_composed(link, several ? ASK_BATCH : ASK_PUT, next_tube(link), (struct bytes){0},
                      start_ns);
}

static void put_heard(struct link *link, const struct flight *flight, enum heard heard)
{
    struct driver *driver = link->driver;
    if (flight->ask == ASK_TUBE) {
        driver_prepared(link);
        return;
    }
    for (uint32_t n = 1; n < driver->run->options->batch && heard == HEARD_YES; n++)
        driver_count(driver);
    driver_done(link, heard == HEARD_YES);
}

static void take(struct link *link, int64_t start_ns)
{
    link_ask_composed(link, ASK_RESERVE, next_tube(link), (struct bytes){0}, start_ns);
}

static const struct role puts_only = {
    .times_requests = true, .prepare = prepare, .operate = put, .heard = put_heard};
static const struct role takes_only = {
    .times_requests = true, .prepare = prepare, .operate = take, .heard = heard};

/* ---------------------------------------------------------------------------------------------- */

static const char *refuses(const struct bench_options *options)
{
    if (options->name_length > LINK_NAME_MAX)
        return "--name-length: at most 100";
    if (options->batch > 1 && !(options->protocol->asks & ASK_BIT(ASK_BATCH)))
        return "--batch: only with -p jobs";
    if ((uint64_t)options->batch * (options->body + BATCH_EACH) > BATCH_MAX)
        return "--batch: that is too long for a request";
    if (options->waiters > 0 && options->depth > 1)
        return "--depth: with --waiters each connection puts one job at a time";
    if (options->waiters > 0 && options->connections < options->threads)
        return "--waiters: fewer --connections than --threads";
    return NULL;
}

static void plan(const struct bench_options *options, struct plan *plan_r)
{
    plan_r->links = options->connections + options->waiters;
    plan_r->slots = options->depth;
    plan_r->flights = options->depth > 2 ? options->depth : 2;
    plan_r->requests = 3;
    plan_r->terms[ASK_PUT].body = plan_r->terms[ASK_DELETE].body = options->body;
    plan_r->terms[ASK_BATCH] = (struct terms){.body = options->body, .jobs = options->batch};
}

static void plan_puts(const struct bench_options *options, struct plan *plan_r)
{
    plan(options, plan_r);
    plan_r->requests = 1;
    plan_r->things = (uint64_t)options->requests * options->batch;
}

static void plan_takes(const struct bench_options *options, struct plan *plan_r)
{
    plan(options, plan_r);
    plan_r->requests = 2;
}

#define WORKLOAD(called, does, tubes_most, takes, ...)                                             \
    {                                                                                              \
        .name = (called), .help = (does), .protocol = &protocol_beanstalk, .connections = 50,      \
        .depth = 1, .names = (tubes_most), .body = 64,                                             \
        .asks = ASK_BIT(ASK_PUT) | ASK_BIT(ASK_RESERVE) | ASK_BIT(ASK_DELETE),                     \
        .options = WORKLOAD_TIMED | BENCH_BIT(BENCH_CONNECTIONS) | BENCH_BIT(BENCH_DEPTH) |        \
                   BENCH_BIT(BENCH_RATE) | BENCH_BIT(BENCH_NAMES) | BENCH_BIT(BENCH_BODY) |        \
                   (takes),                                                                        \
        .refuses = refuses, __VA_ARGS__                                                            \
    }

const struct workload workload_jobs =
    WORKLOAD("jobs", "put, reserve and delete jobs", 1000000, BENCH_BIT(BENCH_WAITERS),
             .plan = plan, .role_of = role_of);
const struct workload workload_put_jobs = WORKLOAD(
    "put-jobs", "put jobs", 1, BENCH_BIT(BENCH_BATCH), .plan = plan_puts, .role = &puts_only);
const struct workload workload_take_jobs =
    WORKLOAD("take-jobs", "reserve and delete jobs that are there", 1, 0, .plan = plan_takes,
             .role = &takes_only);
