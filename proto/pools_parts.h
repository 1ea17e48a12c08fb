/*
 * pools_parts.h - private to the codec of pools: what requests and replies have in common.
 */
#ifndef PROTO_POOLS_PARTS_H
#define PROTO_POOLS_PARTS_H

#include "proto/grammar.h"
#include "proto/pools.h"

/* True for K=V within the bounds of an attribute. */
bool pool_is_attribute(struct bytes word);

/* What a part for= has. */
extern const char *const pool_take_for_words[];
#define POOL_TAKE_FOR .words = pool_take_for_words, .max = POOL_TAKE_FOR_CHECK

#endif
