/*
 * workload_churn.c - churn: each cycle connects, acquires a unit of a random name, gives it back
 * and closes, as PHP does. The given number of cycles run at once and never wait for each other, so
 * a connection that overflows the server's backlog counts.
 *
 * The request goes out with the first packet that can carry it, and we close first, as such clients
 * do. The latency is that of a whole cycle.
 */
#include "bench/counterbench/driver.h"
#include "bench/counterbench/run.h"

static void operate(struct link *link, int64_t start_ns)
{
    link->begun_ns = start_ns;
    link_close(link); /* the connection from the start of the run */
    if (link_open(link))
        link_ask(link, ASK_ACQUIRE, link_random(link, link->driver->run->options->names), start_ns);
}

static void heard(struct link *link, const struct flight *flight, enum heard heard)
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

/* The next cycle uses a new connection. */
static void lost(struct link *link)
{
    if (link->operations > 0)
        driver_done(link, false);
}

static const struct role role = {.operate = operate, .heard = heard, .lost = lost};

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
    .role = &role,
};
