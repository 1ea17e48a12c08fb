/*
 * workload_mixed.c - workloads that connect again: churn and mixed.
 *
 * churn: each cycle connects, acquires a unit of a random name, gives it back
 * and closes, as PHP does. The given number of cycles run at once and never wait for each other, so
 * a connection that overflows the server's backlog counts.
 *
 * The request goes out with the first packet that can carry it, and we close first, as such clients
 * do. The latency is that of a whole cycle.
 *
 * mixed: clients of all kinds at once, on the same names. Without --protocol,
 * every other connection speaks text and the others binary.
 *
 * Each operation is drawn at random, in parts of 16. Text connections: 8 ACQ4ME that do not wait, 4
 * that do, and 4 ACQ4ANY. Binary connections: 13 Acquire and 3 Get. On both, 2 of the 16 use a new
 * connection. A unit goes back at once. With few names, few units and short queues the clients
 * conflict often; a refusal is as good an answer as a grant.
 */
#include "base/clock.h"
#include "bench/counterbench/run.h"

/* The next operation uses a new connection. */
static void lost(struct link *link)
{
    if (link->operations > 0)
        driver_done(link, false);
}

/* ---- churn ----------------------------------------------------------------------------------- */

static void churn_operate(struct link *link, int64_t start_ns)
{
    link->begun_ns = start_ns;
    link_close(link); /* the connection from the start of the run */
    if (link_open(link))
        link_ask(link, ASK_ACQUIRE, link_random(link, link->driver->run->options->names), start_ns);
}

static void churn_heard(struct link *link, const struct flight *flight, enum heard heard)
{
    struct driver *driver = link->driver;
    if (flight->ask == ASK_ACQUIRE && heard == HEARD_YES) {
        link_ask(link, ASK_RELEASE, flight->name, driver->now_ns);
        return;
    }
    link_close(link);
    driver_time(driver, link->begun_ns);
    driver_done(link, flight->ask == ASK_RELEASE && heard == HEARD_YES);
}

static const struct role churn_role = {
    .operate = churn_operate, .heard = churn_heard, .lost = lost};

const struct workload workload_churn = {
    .name = "churn",
    .help = "connect, acquire, release, close",
    .protocol = &protocol_text,
    .connections = 16,
    .names = 10000,
    .limit = 1000000,
    .asks = ASK_BIT(ASK_ACQUIRE) | ASK_BIT(ASK_RELEASE),
    .options = WORKLOAD_TIMED | BENCH_BIT(BENCH_CONNECTIONS) | BENCH_BIT(BENCH_RATE) |
               BENCH_BIT(BENCH_NAMES),
    .role = &churn_role,
};

/* ---- mixed ----------------------------------------------------------------------------------- */

/* The timeout of requests that wait, and how many may wait in addition to the holders. */
#define TIMEOUT_NS (NS_PER_S / 2)
#define QUEUE      4

#define PARTS 16

/* The parts of 16 at which each kind of operation ends. */
enum { UP_TO_WAIT = 4, UP_TO_SHARE = 8, UP_TO_GET = 11, UP_TO_RECONNECT = 13 };

/* Chooses one of `asks` that the protocol has, else a plain acquire. */
static enum ask choose(const struct link *link, uint32_t part)
{
    unsigned asks = link->language->protocol->asks;
    enum ask wanted = part < UP_TO_WAIT    ? ASK_WAIT
                      : part < UP_TO_SHARE ? ASK_SHARE
                      : part < UP_TO_GET   ? ASK_GET
                                           : ASK_ACQUIRE;
    return asks & ASK_BIT(wanted) ? wanted : ASK_ACQUIRE;
}

static void operate(struct link *link, int64_t start_ns)
{
    uint32_t part = link_random(link, PARTS);
    uint32_t name = link_random(link, link->driver->run->options->names);
    if (link->state == LINK_CLOSED || (part >= UP_TO_GET && part < UP_TO_RECONNECT)) {
        link_close(link);
        if (!link_open(link))
            return;
    }
    link_ask(link, choose(link, part), name, start_ns);
}

static void heard(struct link *link, const struct flight *flight, enum heard heard)
{
    bool has_unit = heard == HEARD_YES && flight->ask != ASK_RELEASE && flight->ask != ASK_GET;
    if (has_unit)
        link_ask(link, ASK_RELEASE, flight->name, link->driver->now_ns);
    else
        driver_done(link, heard != HEARD_WRONG);
}

static const struct role role = {
    .times_requests = true, .operate = operate, .heard = heard, .lost = lost};

static void plan(const struct bench_options *options, struct plan *plan_r)
{
    struct terms terms = {.units = 1,
                          .limit = options->limit,
                          .queue = options->limit + QUEUE,
                          .timeout_ns = TIMEOUT_NS};
    plan_r->terms[ASK_WAIT] = plan_r->terms[ASK_SHARE] = terms;
}

const struct workload workload_mixed = {
    .name = "mixed",
    .help = "requests of all kinds, of both protocols",
    .connections = 50,
    .names = 100,
    .limit = 2,
    .asks = ASK_BIT(ASK_ACQUIRE) | ASK_BIT(ASK_RELEASE),
    .options = WORKLOAD_TIMED | BENCH_BIT(BENCH_CONNECTIONS) | BENCH_BIT(BENCH_RATE) |
               BENCH_BIT(BENCH_NAMES) | BENCH_BIT(BENCH_LIMIT),
    .plan = plan,
    .role = &role,
};
