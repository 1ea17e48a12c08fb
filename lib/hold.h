/*
 * hold.h - what a client has taken and has to give back: a lock, units, members.
 */
#ifndef LIB_HOLD_H
#define LIB_HOLD_H

#include "lib/op.h"

/* How a hold is given back. */
extern const struct call release_lock, release_units, release_members;

struct counter_hold {
    struct counter_client *client;
    const struct call *release;
    struct wire *wire;  /* NULL: nothing is held, or not any more */
    const char *server; /* as configured */
    int64_t since_ns;
    bool is_done, is_shared, is_lost;
    bool release_ok;
    uint32_t count; /* units */
    size_t target_len;
    struct bytes sent;              /* the name as it is sent, in `texts` */
    struct counter_member *members; /* in one piece with their attributes and texts */
    size_t member_count;
    uint8_t texts[]; /* the target, and the name as it is sent */
};

/* Adds a name to the text as it is sent. Returns false when it can't be sent. */
bool hold_add_name(struct text *text, struct counter_bytes name);

/* Makes the hold of an operation that was granted: op->hold, which keeps its connection. `sent`:
   the name as it is sent. Returns what `take` does. */
int hold_grant(struct counter_op *op, const struct call *release, struct bytes sent);

#endif
