/*
 * schedule.h - the scheduled starts of operations in an open loop.
 *
 * A start depends only on the operation's number: a delay, ours or the target's, moves no later
 * one, so a stall lengthens the latency of every operation scheduled during it. The operations of
 * several threads interleave.
 */
#ifndef COUNTERBENCH_SCHEDULE_H
#define COUNTERBENCH_SCHEDULE_H

#include "base/clock.h"

struct schedule {
    int64_t start_ns;
    uint64_t requests;     /* requests of one operation */
    uint64_t rate;         /* requests a second, all threads together; 0: a closed loop */
    uint64_t next, stride; /* number of this thread's next operation, and the step to the next */
};

/* Starts the schedule of thread `thread` of `threads` at `start_ns`. */
static inline void schedule_start(struct schedule *s, uint64_t rate, unsigned requests,
                                  unsigned thread, unsigned threads, int64_t start_ns)
{
    *s = (struct schedule){start_ns, requests, rate, .next = thread, .stride = threads};
}

/* The scheduled start of the next operation. Whole seconds are separate, so that nothing overflows
   in a long run. */
static inline int64_t schedule_next_ns(const struct schedule *s)
{
    uint64_t request = s->next * s->requests;
    uint64_t whole = request / s->rate, rest = request % s->rate;
    return s->start_ns +
           (int64_t)(whole * (uint64_t)NS_PER_S + rest * (uint64_t)NS_PER_S / s->rate);
}

/* Moves on to the operation after it. */
static inline void schedule_advance(struct schedule *s)
{
    s->next += s->stride;
}

#endif
