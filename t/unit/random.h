/*
 * random.h - reproducible random numbers, for tests that compare with a model.
 *
 * A test prints its seed on a line that TAP readers ignore; T_SEED in the environment repeats it.
 */
#ifndef RANDOM_H
#define RANDOM_H

#include "t/unit/rng.h"
#include "t/unit/unit.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

/* Like ck_assert, but silent on success: for loops that run a million times. */
#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s", #condition);                                                        \
    } while (0)

/* A number from the environment; `otherwise` if it is unset. */
static inline uint64_t env_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name); // NOLINT(concurrency-mt-unsafe): nobody sets it
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

/* A generator with T_SEED or else with `seed`; prints the seed. */
static inline struct rng rng_start(const char *what, uint64_t seed)
{
    struct rng rng = {.state = env_number("T_SEED", seed)};
    dprintf(STDOUT_FILENO, "# seed of %s: T_SEED=%" PRIu64 "\n", what, rng.state);
    return rng;
}

/* A random seed. */
static inline uint64_t random_seed(void)
{
    uint64_t seed = 0;
    ck_assert(getrandom(&seed, sizeof(seed), 0) == (ssize_t)sizeof(seed));
    return seed;
}

#endif
