/* beside.c - connections that make load beside the measured work (beside.h). */
#include "bench/counterbench/beside.h"

#include "bench/counterbench/driver.h"
#include "bench/counterbench/run.h"

static void operate(struct link *link, int64_t start_ns)
{
    link_ask(link, ASK_ACQUIRE, link_random(link, link->driver->run->options->names), start_ns);
}

static void heard(struct link *link, const struct flight *flight, enum heard heard)
{
    if (flight->ask == ASK_ACQUIRE && heard == HEARD_YES)
        link_ask(link, ASK_RELEASE, flight->name, link->driver->now_ns);
    else
        driver_done(link, false);
}

const struct role beside_role = {.times_requests = true, .operate = operate, .heard = heard};
