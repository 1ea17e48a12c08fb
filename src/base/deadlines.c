/* deadlines.c - a binary heap whose entries know their index (see deadlines.h). */
#include "base/deadlines.h"

#include <stdlib.h>

struct deadlines_row {
    int64_t at_ns;
    uint64_t seq;
    struct deadline *deadline;
};

void deadlines_init(struct deadlines *ds)
{
    *ds = (struct deadlines){0};
}

void deadlines_free(struct deadlines *ds)
{
    CHECK(ds->count == 0);
    free(ds->rows);
    *ds = (struct deadlines){0};
}

bool deadlines_reserve(struct deadlines *ds, uint32_t more)
{
    if (more > UINT32_MAX / 2 - ds->reserved)
        return false;
    uint32_t needed = ds->reserved + more;
    if (needed > ds->room) {
        uint32_t room = ds->room ? ds->room : 16;
        while (room < needed)
            room *= 2;
        struct deadlines_row *rows = realloc(ds->rows, room * sizeof(*rows));
        if (!rows)
            return false;
        ds->rows = rows;
        ds->room = room;
    }
    ds->reserved = needed;
    return true;
}

void deadlines_unreserve(struct deadlines *ds, uint32_t fewer)
{
    CHECK(fewer <= ds->reserved && ds->count <= ds->reserved - fewer);
    ds->reserved -= fewer;
}

static bool before(const struct deadlines_row *a, const struct deadlines_row *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->seq < b->seq;
}

static void put(struct deadlines *ds, uint32_t i, struct deadlines_row row)
{
    ds->rows[i] = row;
    row.deadline->place = i + 1;
}

/* Puts `row` into the heap: starts at the free index `i` and moves up, then down. */
static void sift(struct deadlines *ds, uint32_t i, struct deadlines_row row)
{
    while (i > 0) {
        uint32_t parent = (i - 1) / 2;
        if (!before(&row, &ds->rows[parent]))
            break;
        put(ds, i, ds->rows[parent]);
        i = parent;
    }
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= ds->count)
            break;
        if (child + 1 < ds->count && before(&ds->rows[child + 1], &ds->rows[child]))
            child++;
        if (!before(&ds->rows[child], &row))
            break;
        put(ds, i, ds->rows[child]);
        i = child;
    }
    put(ds, i, row);
}

void deadline_set(struct deadlines *ds, struct deadline *d, int64_t at_ns)
{
    struct deadlines_row row = {.at_ns = at_ns, .seq = ds->set_so_far++, .deadline = d};
    uint32_t i = d->place ? d->place - 1 : ds->count;
    if (!d->place) {
        CHECK(ds->count < ds->reserved);
        ds->count++;
    }
    sift(ds, i, row);
}

void deadline_clear(struct deadlines *ds, struct deadline *d)
{
    if (!d->place)
        return;
    uint32_t i = d->place - 1;
    CHECK(i < ds->count && ds->rows[i].deadline == d);
    d->place = 0;
    struct deadlines_row last = ds->rows[--ds->count];
    if (i < ds->count)
        sift(ds, i, last);
}

int64_t deadline_at(const struct deadlines *ds, const struct deadline *d)
{
    return d->place ? ds->rows[d->place - 1].at_ns : DEADLINE_NONE;
}

int64_t deadlines_next(const struct deadlines *ds)
{
    return ds->count ? ds->rows[0].at_ns : DEADLINE_NONE;
}

struct deadline *deadlines_take_due(struct deadlines *ds, int64_t now_ns)
{
    if (!ds->count || ds->rows[0].at_ns > now_ns)
        return NULL;
    struct deadline *d = ds->rows[0].deadline;
    deadline_clear(ds, d);
    return d;
}
