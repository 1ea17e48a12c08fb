/* pools_check.h - checks every invariant of all pools and their clients. */
#ifndef T_MODELS_POOLS_CHECK_H
#define T_MODELS_POOLS_CHECK_H

#include "engine/pool.h"

/* Aborts when one does not hold. Takes the lock of the pools. */
void pools_check(struct pools *pools, struct moment now);

#endif
