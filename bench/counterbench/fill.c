/* fill.c - a connection that acquires names (fill.h). */
#include "bench/counterbench/fill.h"

#include "bench/counterbench/driver.h"
#include "bench/counterbench/run.h"

/* link->name is the next name to request; past --names there is none. */
static bool ask_next(struct link *link, uint32_t step)
{
    struct driver *driver = link->driver;
    uint32_t names = driver->run->options->names;
    if (link->name >= names)
        return false;
    link_ask(link, ASK_ACQUIRE, link->name, driver->now_ns);
    link->name = names - link->name > step ? link->name + step : names;
    return true;
}

/* Requests as many names as may be in flight. */
static void ask_many(struct link *link, uint32_t step)
{
    while (link->count < link->driver->run->options->depth && !link_is_full(link) &&
           ask_next(link, step)) {
    }
}

bool fill_begin(struct link *link, uint32_t first, uint32_t step)
{
    link->name = first;
    ask_many(link, step);
    if (link->count > 0)
        driver_begun(link);
    return link->count > 0;
}

bool fill_goes_on(struct link *link, uint32_t step)
{
    ask_many(link, step);
    if (link->count > 0)
        return true;
    driver_ended(link);
    return false;
}
