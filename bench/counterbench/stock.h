/*
 * stock.h - units that must be at the server before clients can take them (ASK_STOCK). The first
 * connection puts those of all names there, before the run.
 */
#ifndef COUNTERBENCH_STOCK_H
#define COUNTERBENCH_STOCK_H

#include "bench/counterbench/link.h"
#include "bench/counterbench/options.h"

/* A role's `prepare`: false if the protocol needs no stock, or another link makes it. */
bool stock_begin(struct link *link);

/* Goes on after an answer to ASK_STOCK. */
void stock_goes_on(struct link *link);

/* Why the options ask for too many units; NULL: they do not. */
const char *stock_refuses(const struct bench_options *options);

#endif
