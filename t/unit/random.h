/*
 * random.h - reproducible random numbers, for tests that compare with a model.
 *
 * A test prints its seed on a line that TAP readers ignore; T_SEED in the environment repeats it.
 */
#ifndef RANDOM_H
#define RANDOM_H

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

struct rng {
    uint64_t state;
};

/* 64 random bits: a counter, mixed. */
static inline uint64_t rng_next(struct rng *rng)
{
    rng->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = rng->state;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* A number below `bound`, which is not 0. */
static inline uint32_t rng_below(struct rng *rng, uint32_t bound)
{
    return (uint32_t)((rng_next(rng) >> 32) * bound >> 32);
}

/* True once in `n` times. */
static inline bool rng_one_in(struct rng *rng, uint32_t n)
{
    return rng_below(rng, n) == 0;
}

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
