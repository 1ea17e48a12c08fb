/* schedule.c - scheduled starts (schedule.h). */
#include "bench/counterbench/schedule.h"

#include "base/check.h"
#include "base/clock.h"

void schedule_start(struct schedule *s, uint64_t rate, unsigned requests, unsigned thread,
                    unsigned threads, int64_t start_ns)
{
    CHECK(thread < threads);
    *s = (struct schedule){.start_ns = start_ns,
                           .requests = requests,
                           .rate = rate,
                           .next = thread,
                           .stride = threads};
}

int64_t schedule_next_ns(const struct schedule *s)
{
    /* Whole seconds are separate, so that nothing overflows in a long run. */
    uint64_t request = s->next * s->requests;
    uint64_t whole = request / s->rate, rest = request % s->rate;
    return s->start_ns +
           (int64_t)(whole * (uint64_t)NS_PER_S + rest * (uint64_t)NS_PER_S / s->rate);
}

void schedule_advance(struct schedule *s)
{
    s->next += s->stride;
}
