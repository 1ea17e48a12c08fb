/*
 * stats.h - reads the lines of an answer to STATS, which no client of the project does.
 */
#ifndef T_VECTORS_STATS_H
#define T_VECTORS_STATS_H

#include "base/clock.h"
#include "base/number.h"
#include "proto/poolcounter.h"

/* Takes "N<mark>", perhaps, and adds so many times `each`. Returns false if the sum is too large.
 */
static inline bool stats_take_unit(struct bytes *in, const char *mark, uint64_t each, uint64_t *sum)
{
    struct bytes rest = *in;
    uint64_t number = 0;
    if (!number_take(&rest, UINT64_MAX, &number) || !bytes_take_text(&rest, mark))
        return true;
    *in = rest;
    return !__builtin_mul_overflow(number, each, &number) &&
           !__builtin_add_overflow(*sum, number, sum);
}

/* Takes a time; those of a duration have microseconds behind the point. */
static inline bool stats_take_time(struct bytes *in, bool is_duration, pc_ns *value_r)
{
    uint64_t seconds = 0, us = 0;
    if (!stats_take_unit(in, is_duration ? " days " : " days, ", 86400, &seconds) ||
        !stats_take_unit(in, "h ", 3600, &seconds) || !stats_take_unit(in, "m ", 60, &seconds) ||
        !stats_take_unit(in, is_duration ? "." : "s", 1, &seconds))
        return false;
    *value_r = seconds;
    if (!is_duration)
        return true;
    *value_r = (pc_ns)seconds * NS_PER_S;
    if (!number_take(in, UINT64_MAX, &us) || !bytes_take_text(in, "s"))
        return false;
    *value_r += (pc_ns)us * NS_PER_US;
    return true;
}

/* True when an answer with these values has the line. */
static inline bool stats_have_line(const struct pc_stats *stats, struct bytes line)
{
    char full[PC_STATS_ROOM];
    size_t len = pc_compose_stats(stats, bytes_of("full"), full, sizeof(full));
    struct bytes rest = bytes_at(full, len), found;
    for (const uint8_t *end; (end = memchr(rest.data, '\n', rest.len)) && end > rest.data;) {
        found = bytes_at(rest.data, (size_t)(end - rest.data));
        if (bytes_equal(found, line))
            return true;
        (void)bytes_take(&rest, found.len + 1);
    }
    return false;
}

static inline bool stats_read_duration(struct bytes line, const char *label, pc_ns *value_r)
{
    return bytes_take_text(&line, label) && bytes_take_text(&line, ": ") &&
           stats_take_time(&line, true, value_r) && line.len == 0;
}

/*
 * Parses a line, without its end, into *stats. Accepts only lines spelled exactly as
 * pc_compose_stats writes them; for others returns false and changes nothing. Times are read in
 * whole microseconds. "average processing time", which is derived, changes nothing.
 */
static inline bool stats_parse_line(struct bytes line, struct pc_stats *stats)
{
    struct pc_stats is = *stats, average = {.processed_count = 1};
    struct bytes rest = line;
    pc_ns value;
    if (stats_read_duration(line, "average processing time", &average.processing_ns))
        return stats_have_line(&average, line);
    bool good = false;
    if (bytes_take_text(&rest, "uptime: ")) {
        good = stats_take_time(&rest, false, &value) && rest.len == 0;
        is.uptime_s = (uint64_t)value;
    }
#define DURATION(label, name) good = good || stats_read_duration(line, label, &is.name);
    DURATION("total processing time", processing_ns)
    DURATION("gained time", gained_ns)
    DURATION("waiting time", waiting_ns)
    DURATION("waiting time for me", waiting_for_me_ns)
    DURATION("waiting time for anyone", waiting_for_anyone_ns)
    DURATION("waiting time for good", waiting_for_good_ns)
    DURATION("wasted timeout time", wasted_timeout_ns)
#undef DURATION
#define ROW(name)                                                                                  \
    if (!good && bytes_take_text(&rest, #name ": "))                                               \
        good = number_take(&rest, UINT64_MAX, &is.name) && rest.len == 0;
    PC_COUNTS(ROW)
#undef ROW
    if (!good || !stats_have_line(&is, line))
        return false;
    *stats = is;
    return true;
}

#endif
