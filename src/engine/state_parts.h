/*
 * state_parts.h - what state_save.c, state_restore.c and state_holders.c share: sizes of what is
 * saved, and what is remembered from the first name to the last waiter that is restored.
 */
#ifndef ENGINE_STATE_PARTS_H
#define ENGINE_STATE_PARTS_H

#include "engine/shard.h"
#include "engine/state.h"

#include <stdlib.h>
#include <string.h>

/* What comes before a name's bytes; read_name of state_restore.c takes it apart. */
#define NAME_FIXED 21

/* A holding. */
#define HOLDING_SIZE 20

/* How much of the name of a contended one is saved. */
static inline size_t kept_of(size_t len)
{
    return len < SKETCH_NAME_MAX ? len : SKETCH_NAME_MAX;
}

/* Restoring: what is known of a name under its mark. */
struct marked {
    uint32_t mark; /* 0: the place is free */
    ref_t counter;
    uint32_t units; /* still to come */
};

/* Restoring: a line of waiters, in the order of the ring; a waiter that is not in line yet. */
struct line_to_come {
    ref_t counter;
    uint32_t waiting;
    int64_t since_ns;
};

struct wait_to_come {
    uint64_t seq;
    struct waiter *waiter;
    uint32_t shard;
};

struct restoring {
    struct marked *marked; /* by mark, in open addressing; never full */
    uint32_t mask;         /* places - 1 */
    struct line_to_come *lines;
    size_t line_count, line_room;
    struct wait_to_come *waits;
    size_t wait_count, wait_room;
};

#define NO_TABLE "there is no table"

/* Both have the reader fail: false. */
static inline bool refuse(struct record_reader *r, const char *why)
{
    record_refuse(r, why);
    return false;
}

static inline bool no_memory(struct record_reader *r)
{
    return refuse(r, "no memory for the state");
}

/*
 * An array with room for one more element of `size` bytes: the same, or where it has gone to. NULL:
 * no memory, and it is as it was.
 */
static inline void *grown(void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return array;
    size_t more = *room ? *room * 2 : 64;
    void *larger = reallocarray(array, more, size);
    if (larger)
        *room = more;
    return larger;
}

/* What is known under a mark that was read; NULL: nothing, and the reader has failed. */
struct marked *find_marked(const struct table *t, uint32_t mark, struct record_reader *r);

static inline struct counter *counter_at(const struct table *t, ref_t ref)
{
    return arena_at(&t->arena, ref);
}

static inline uint32_t get_u32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return le32toh(value);
}

static inline uint16_t get_u16(const uint8_t *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof(value));
    return le16toh(value);
}

#endif
