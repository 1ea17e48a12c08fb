/*
 * schedule.h - when operations are meant to begin in an open loop.
 *
 * The intended start of each operation follows from its number alone, so what the target or we do
 * late shifts nothing: a stall is seen by all operations that were meant to begin during it. The
 * operations of several threads interleave.
 */
#ifndef COUNTERBENCH_SCHEDULE_H
#define COUNTERBENCH_SCHEDULE_H

#include <stdint.h>

struct schedule {
    int64_t start_ns;
    uint64_t requests;     /* of an operation */
    uint64_t rate;         /* requests a second of all threads together; 0: a closed loop */
    uint64_t next, stride; /* the number of this thread's next operation, and to the one after */
};

/* Thread number `thread` of `threads` begins at `start_ns`. */
void schedule_start(struct schedule *s, uint64_t rate, unsigned requests, unsigned thread,
                    unsigned threads, int64_t start_ns);

/* When the next operation is meant to begin. */
int64_t schedule_next_ns(const struct schedule *s);

/* Goes on to the one after. */
void schedule_advance(struct schedule *s);

#endif
