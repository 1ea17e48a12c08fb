/* histogram.c - see histogram.h. */
#include "base/histogram.h"

#include "base/check.h"

static void raise_to(tally *most, uint64_t number)
{
    if (tally_get(most) < number)
        atomic_store_explicit(most, number, memory_order_relaxed);
}

void histogram_add(struct histogram *h, int64_t ns, uint64_t times)
{
    uint64_t length = ns > 0 ? (uint64_t)ns : 0;
    buckets_add(&h->buckets, ns, times);
    tally_add(&h->counts[log_linear_class(length, HISTOGRAM_BITS)], times);
    if (unlikely(tally_get(&h->latest_ns) < length)) {
        raise_to(&h->latest_ns, length);
        raise_to(&h->longest_ns, length); /* it is at least as long as the latest */
    }
}

void histogram_add_sum(struct histogram *h, const struct histogram_sum *sum)
{
    raise_to(&h->longest_ns, sum->longest_ns);
    for (size_t i = 0; i < HISTOGRAM_CLASSES; i++)
        tally_add(&h->counts[i], sum->counts[i]);
}

static void sum_up(struct histogram_sum *sum, const struct histogram *h, uint64_t longest_ns)
{
    for (size_t i = 0; i < HISTOGRAM_CLASSES; i++)
        sum->counts[i] += tally_get(&h->counts[i]);
    if (sum->longest_ns < longest_ns)
        sum->longest_ns = longest_ns;
}

void histogram_sum_up(struct histogram_sum *sum, const struct histogram *h)
{
    sum_up(sum, h, tally_get(&h->longest_ns));
}

void histogram_sum_up_latest(struct histogram_sum *sum, struct histogram *h)
{
    sum_up(sum, h, atomic_exchange_explicit(&h->latest_ns, 0, memory_order_relaxed));
}

void histogram_sum_since(struct histogram_sum *sum, const struct histogram_sum *earlier)
{
    for (size_t i = 0; i < HISTOGRAM_CLASSES; i++)
        sum->counts[i] -= earlier->counts[i];
}

uint64_t histogram_sum_count(const struct histogram_sum *sum)
{
    uint64_t count = 0;
    for (size_t i = 0; i < HISTOGRAM_CLASSES; i++)
        count += sum->counts[i];
    return count;
}

/* The class of the duration that `rank` - 1 durations come before. */
static size_t class_at(const struct histogram_sum *sum, uint64_t rank)
{
    size_t i = 0;
    for (uint64_t seen = sum->counts[0]; seen < rank; seen += sum->counts[i])
        i++;
    return i;
}

int64_t histogram_longest_ns(const struct histogram_sum *sum)
{
    uint64_t count = histogram_sum_count(sum), longest = sum->longest_ns;
    if (count == 0)
        return 0;
    size_t last = class_at(sum, count);
    uint64_t least = log_linear_least(last, HISTOGRAM_BITS);
    uint64_t most = least + log_linear_width(last, HISTOGRAM_BITS) - 1;
    /* Another one, if the thread that adds was between two steps. */
    longest = longest < least ? least : longest > most ? most : longest;
    return (int64_t)longest;
}

int64_t histogram_quantile_ns(const struct histogram_sum *sum, unsigned per_mille)
{
    CHECK(per_mille <= 1000);
    uint64_t count = histogram_sum_count(sum);
    if (count == 0)
        return 0;
    uint64_t rank = (uint64_t)(((unsigned __int128)count * per_mille + 999) / 1000);
    size_t at = class_at(sum, rank ? rank : 1);
    int64_t middle_ns = (int64_t)(log_linear_least(at, HISTOGRAM_BITS) +
                                  (log_linear_width(at, HISTOGRAM_BITS) - 1) / 2);
    int64_t longest_ns = histogram_longest_ns(sum);
    return middle_ns < longest_ns ? middle_ns : longest_ns;
}
