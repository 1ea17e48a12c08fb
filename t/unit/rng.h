/* rng.h - a generator of reproducible random numbers. */
#ifndef RNG_H
#define RNG_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
