/*
 * schedule.h - the scheduled starts of operations in an open loop.
 *
 * The start of an operation depends only on its number. A delay, ours or the target's, moves no
 * later start, so a stall lengthens the latency of every operation scheduled during it. The
 * operations of several threads interleave.
 */
#ifndef COUNTERBENCH_SCHEDULE_H
#define COUNTERBENCH_SCHEDULE_H

#include <stdint.h>

struct schedule {
    int64_t start_ns;
    uint64_t requests;     /* requests of one operation */
    uint64_t rate;         /* requests a second, all threads together; 0: a closed loop */
    uint64_t next, stride; /* number of this thread's next operation, and the step to the next */
};

/* Starts the schedule of thread `thread` of `threads` at `start_ns`. */
void schedule_start(struct schedule *s, uint64_t rate, unsigned requests, unsigned thread,
                    unsigned threads, int64_t start_ns);

/* The scheduled start of the next operation. */
int64_t schedule_next_ns(const struct schedule *s);

/* Moves on to the operation after it. */
void schedule_advance(struct schedule *s);

#endif
