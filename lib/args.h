/*
 * args.h - what callers say, checked: each function ends the operation as COUNTER_USAGE, and
 * returns false, when it is wrong.
 */
#ifndef LIB_ARGS_H
#define LIB_ARGS_H

#include "lib/op.h"
#include "proto/beanstalk.h"

/* Takes what the caller's struct `args` has, as much as its `size` says; the rest of `all` keeps
   its defaults, and all of it if `args` is NULL. `args` is then that. */
#define ARGS_TAKE(op, all, args)                                                                   \
    (args_take(op, &(all), sizeof(all), args) && ((args) = &(all), true))
bool args_take(struct counter_op *op, void *all, size_t room, const void *args);

bool args_is_tube(struct counter_op *op, struct counter_bytes tube);

/* The state of jobs that the word means. */
bool args_find_state(struct counter_op *op, const char *word);

/* A number of seconds, rounded up. */
bool args_round_up(struct counter_op *op, double seconds, const char *reason, uint32_t *seconds_r);

#define ARGS_BAD_KEY "key and root: 1 to 64 of A-Za-z0-9-+/;.$_(); for other text pass a hash"

/* The arguments and the body of a put, as a request without a tube. */
bool args_put(struct counter_op *op, const struct counter_put_args *args, struct counter_bytes body,
              struct bs_request *put_r);

static inline struct bytes args_bytes(struct counter_bytes bytes)
{
    return bytes_at(bytes.data, bytes.len);
}

#endif
