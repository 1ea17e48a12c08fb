/*
 * fill.h - a connection that acquires names one after the other, and holds them.
 */
#ifndef COUNTERBENCH_FILL_H
#define COUNTERBENCH_FILL_H

#include "bench/counterbench/link.h"

/*
 * Asks for the names first, first + step, ... below --names, as many at once as may be in flight.
 * False: there are none.
 */
bool fill_begin(struct link *link, uint32_t first, uint32_t step) MUST_USE;

/* Asks for the next one after an answer. False: that was the last answer. */
bool fill_goes_on(struct link *link, uint32_t step) MUST_USE;

#endif
