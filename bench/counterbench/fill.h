/*
 * fill.h - a connection that acquires one name after the other, and holds them.
 */
#ifndef COUNTERBENCH_FILL_H
#define COUNTERBENCH_FILL_H

#include "bench/counterbench/link.h"

/*
 * Requests the names first, first + step, ... below --names, as many at once as may be in flight.
 * Returns false if there are none.
 */
bool fill_begin(struct link *link, uint32_t first, uint32_t step) MUST_USE;

/* Requests the next name after an answer. Returns false after the last answer. */
bool fill_goes_on(struct link *link, uint32_t step) MUST_USE;

#endif
