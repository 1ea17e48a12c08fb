/* latency.c - a histogram of durations (latency.h). */
#include "bench/counterbench/latency.h"

#include "base/check.h"

#include <math.h>

#define LONGEST_NS ((INT64_C(1) << LATENCY_MAX_LOG) - 1)

size_t latency_class(int64_t ns)
{
    if (ns < 0)
        ns = 0;
    if (ns > LONGEST_NS)
        ns = LONGEST_NS;
    return log_linear_class((uint64_t)ns, LATENCY_BITS);
}

int64_t latency_upper_ns(size_t class_index)
{
    CHECK(class_index < LATENCY_CLASSES);
    return (int64_t)(log_linear_least(class_index, LATENCY_BITS) +
                     log_linear_width(class_index, LATENCY_BITS) - 1);
}

void latency_add(struct latency *l, int64_t ns)
{
    if (ns < 0)
        ns = 0;
    l->counts[latency_class(ns)]++;
    l->count++;
    l->sum_ns += (uint64_t)ns;
    if (ns > l->max_ns)
        l->max_ns = ns;
}

void latency_sum_up(struct latency *l, const struct latency *from)
{
    for (size_t i = 0; i < LATENCY_CLASSES; i++)
        l->counts[i] += from->counts[i];
    l->count += from->count;
    l->sum_ns += from->sum_ns;
    if (from->max_ns > l->max_ns)
        l->max_ns = from->max_ns;
}

int64_t latency_quantile_ns(const struct latency *l, double share)
{
    uint64_t rank = (uint64_t)ceil((double)l->count * share);
    uint64_t seen = 0;
    if (rank == 0)
        rank = 1;
    for (size_t i = 0; i < LATENCY_CLASSES; i++) {
        seen += l->counts[i];
        if (seen < rank)
            continue;
        int64_t upper = latency_upper_ns(i);
        return upper < l->max_ns ? upper : l->max_ns;
    }
    return l->max_ns;
}

double latency_mean_ns(const struct latency *l)
{
    return l->count ? (double)l->sum_ns / (double)l->count : 0;
}
