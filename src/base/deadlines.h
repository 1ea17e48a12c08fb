/*
 * deadlines.h - what is due when: a binary heap of monotonic deadlines, for one thread.
 *
 * Deadlines of one instant come out in the order in which they were set. The heap's room is
 * reserved ahead (when a connection is opened), so setting one never allocates and never fails.
 */
#ifndef BASE_DEADLINES_H
#define BASE_DEADLINES_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Part of what the deadline is for. Zero-initialised: not set. */
struct deadline {
    uint32_t place; /* its place in the heap, from 1; 0 when not set */
    uint32_t kind;  /* the owner's: tells its several deadlines apart */
};

struct deadlines {
    struct deadlines_row *rows; /* rows[0] is the earliest */
    uint32_t count, room, reserved;
    uint64_t set_so_far; /* ties are broken by age */
};

#define DEADLINE_NONE INT64_MAX

void deadlines_init(struct deadlines *ds);
void deadlines_free(struct deadlines *ds);

/* Makes room for `more` deadlines beyond those reserved so far; false: no memory. */
bool deadlines_reserve(struct deadlines *ds, uint32_t more) MUST_USE;
/* Gives back what deadlines_reserve took; they must not be set any more. */
void deadlines_unreserve(struct deadlines *ds, uint32_t fewer);

/* Sets `d` to `at_ns`, whether it was set or not. */
void deadline_set(struct deadlines *ds, struct deadline *d, int64_t at_ns);
/* Unsets `d`; harmless when it was not set. */
void deadline_clear(struct deadlines *ds, struct deadline *d);
static inline bool deadline_is_set(const struct deadline *d)
{
    return d->place != 0;
}

/* When `d` is due; DEADLINE_NONE when it is not set. */
int64_t deadline_at(const struct deadlines *ds, const struct deadline *d);

/* When the earliest is due; DEADLINE_NONE when there is none. */
int64_t deadlines_next(const struct deadlines *ds);
/* Unsets and returns the earliest that is due at `now_ns` (at <= now); NULL when none is. */
struct deadline *deadlines_take_due(struct deadlines *ds, int64_t now_ns);

#endif
