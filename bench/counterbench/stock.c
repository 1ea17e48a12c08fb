/* stock.c - units that must be at the server first (stock.h). */
#include "bench/counterbench/stock.h"

#include "bench/counterbench/driver.h"
#include "bench/counterbench/run.h"

/* The most units of all names. */
#define STOCK_MAX 1000000

/* link->name is the next name. */
static void ask_many(struct link *link)
{
    const struct run *run = link->driver->run;
    for (; link->count < run->plan.flights && link->name < run->options->names; link->name++)
        link_ask(link, ASK_STOCK, link->name, link->driver->now_ns);
}

bool stock_begin(struct link *link)
{
    if (link->number > 0 || !(link->language->protocol->asks & ASK_BIT(ASK_STOCK)))
        return false;
    link->name = 0;
    ask_many(link);
    return true;
}

void stock_goes_on(struct link *link)
{
    ask_many(link);
    if (link->count == 0)
        driver_prepared(link);
}

const char *stock_refuses(const struct bench_options *options)
{
    if (options->protocol && (options->protocol->asks & ASK_BIT(ASK_STOCK)) &&
        (uint64_t)options->names * options->limit > STOCK_MAX)
        return "--names times --limit: each unit is an entry of a list; at most 1,000,000";
    return NULL;
}
