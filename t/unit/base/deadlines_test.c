/* deadlines_test.c - the heap of deadlines, against an array that is searched from end to end. */
#include "base/deadlines.h"

#include "base/check.h"
#include "t/unit/random.h"

TEST_ABORTS(setting_beyond_the_reserve_aborts)
{
    struct deadlines ds;
    struct deadline d[2] = {0};
    deadlines_init(&ds);
    ck_assert(deadlines_reserve(&ds, 1));
    deadline_set(&ds, &d[0], 1);
    deadline_set(&ds, &d[1], 1);
}

/* ---- against a model --------------------------------------------------------------------- */

enum { MANY = 300 };

struct model_row {
    bool set;
    int64_t at_ns;
    uint64_t order;
};

/* The index of the first due; MANY when none is set. */
static unsigned model_first(const struct model_row *model)
{
    unsigned first = MANY;
    for (unsigned i = 0; i < MANY; i++) {
        if (model[i].set &&
            (first == MANY || model[i].at_ns < model[first].at_ns ||
             (model[i].at_ns == model[first].at_ns && model[i].order < model[first].order)))
            first = i;
    }
    return first;
}

static void check_heap(const struct deadlines *ds, const struct deadline *d,
                       const struct model_row *model)
{
    uint32_t count = 0;
    for (unsigned i = 0; i < MANY; i++) {
        REQUIRE(deadline_is_set(&d[i]) == model[i].set);
        REQUIRE(d[i].place <= ds->count);
        count += model[i].set;
    }
    REQUIRE(count == ds->count);
    unsigned first = model_first(model);
    REQUIRE(deadlines_next(ds) == (first < MANY ? model[first].at_ns : DEADLINE_NONE));
}

static void random_run(struct rng *rng, uint32_t instants)
{
    struct deadlines ds;
    struct deadline d[MANY] = {0};
    struct model_row model[MANY] = {0};
    uint64_t order = 0;
    deadlines_init(&ds);
    ck_assert(deadlines_reserve(&ds, MANY));
    for (int step = 0; step < 30000; step++) {
        unsigned i = rng_below(rng, MANY);
        switch (rng_below(rng, 4)) {
        case 0:
        case 1:
            model[i] = (struct model_row){true, rng_below(rng, instants), order++};
            deadline_set(&ds, &d[i], model[i].at_ns);
            break;
        case 2:
            model[i].set = false;
            deadline_clear(&ds, &d[i]);
            break;
        default: {
            int64_t now = rng_below(rng, instants) / 4;
            unsigned first = model_first(model);
            struct deadline *due = deadlines_take_due(&ds, now);
            if (first < MANY && model[first].at_ns <= now) {
                REQUIRE(due == &d[first]);
                model[first].set = false;
            } else {
                REQUIRE(due == NULL);
            }
        }
        }
        check_heap(&ds, d, model);
    }
    for (unsigned first; (first = model_first(model)) < MANY; model[first].set = false)
        REQUIRE(deadlines_take_due(&ds, INT64_MAX) == &d[first]);
    REQUIRE(deadlines_take_due(&ds, INT64_MAX) == NULL);
    deadlines_unreserve(&ds, MANY);
    deadlines_free(&ds);
}

TEST(random_few_instants)
{
    struct rng rng = rng_start("deadlines, few instants", random_seed());
    random_run(&rng, 12);
}

TEST(random_many_instants)
{
    struct rng rng = rng_start("deadlines, many instants", random_seed());
    random_run(&rng, UINT32_MAX);
}

UNIT_MAIN("base/deadlines")
