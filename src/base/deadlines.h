/*
 * deadlines.h - a binary heap of monotonic deadlines, for one thread.
 *
 * Deadlines with equal times come out in the order in which they were set. Space in the heap is
 * reserved ahead (when a connection opens), so setting a deadline never allocates and never fails.
 */
#ifndef BASE_DEADLINES_H
#define BASE_DEADLINES_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Embedded in the struct that has the deadline. Zero-initialised: not set. */
struct deadline {
    uint32_t place; /* index in the heap plus 1; 0 when not set */
    uint32_t kind;  /* free for the owner: tells its deadlines apart */
};

struct deadlines {
    struct deadlines_row *rows; /* rows[0] is the earliest */
    uint32_t count, room, reserved;
    uint64_t set_so_far; /* sequence number that orders equal deadlines */
};

#define DEADLINE_NONE INT64_MAX

void deadlines_init(struct deadlines *ds);
void deadlines_free(struct deadlines *ds);

/* Reserves space for `more` deadlines. Returns false when out of memory. */
bool deadlines_reserve(struct deadlines *ds, uint32_t more) MUST_USE;
/* Releases space taken by deadlines_reserve. Its deadlines must not be set any more. */
void deadlines_unreserve(struct deadlines *ds, uint32_t fewer);

/* Sets `d` to `at_ns`, or moves it there if it is set. */
void deadline_set(struct deadlines *ds, struct deadline *d, int64_t at_ns);
/* Unsets `d`. Does nothing if it is not set. */
void deadline_clear(struct deadlines *ds, struct deadline *d);
static inline bool deadline_is_set(const struct deadline *d)
{
    return d->place != 0;
}

/* The time of `d`; DEADLINE_NONE when not set. */
int64_t deadline_at(const struct deadlines *ds, const struct deadline *d);

/* The earliest time; DEADLINE_NONE when no deadline is set. */
int64_t deadlines_next(const struct deadlines *ds);
/* Unsets and returns the earliest deadline if its time is now_ns or before, else returns NULL. */
struct deadline *deadlines_take_due(struct deadlines *ds, int64_t now_ns);

#endif
