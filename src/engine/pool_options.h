/*
 * pool_options.h - the options of one pool (proto/pools.md, "Options"). Types only.
 */
#ifndef ENGINE_POOL_OPTIONS_H
#define ENGINE_POOL_OPTIONS_H

#include <stdint.h>

/* Maximum length of the names of pools, groups and members, in bytes. */
#define POOL_NAME_MAX 255

/* The values of these enums are in the order of the option's words. */
enum pool_kind {
    POOL_STATIC, /* members are declared */
    POOL_JOINED, /* connections register members */
};

/* Which free member is taken first. */
enum pool_order {
    POOL_LIFO,   /* most lately used */
    POOL_FIFO,   /* least lately used */
    POOL_RANDOM, /* any */
    POOL_LEAST,  /* fewest takes */
};

/* Where a member goes: on_return, on_fail, on_start. */
enum pool_after { POOL_AFTER_FREE, POOL_AFTER_DIRTY, POOL_AFTER_DOWN };

/* What the end of a connection without QUIT counts as. */
enum pool_on_crash { POOL_CRASH_FAILS, POOL_CRASH_OK };

/* Times are in nanoseconds. The enums are `unsigned` because options are read by table. */
struct pool_options {
    unsigned kind;  /* enum pool_kind; constant */
    char *group;    /* NULL: none; owned by who owns the struct */
    uint32_t max;   /* members; 0: no maximum but pools.max_members */
    unsigned order; /* enum pool_order */
    uint32_t queue_max, overtakes;

    /* static pools */
    unsigned on_return, on_start; /* enum pool_after: free or dirty */
    unsigned on_fail;             /* enum pool_after */
    int64_t clean_after_ns;       /* 0: never */
    uint32_t clean_tries;         /* 0: no limit */

    unsigned on_crash;                 /* enum pool_on_crash */
    int64_t hold_warn_ns, hold_max_ns; /* 0: never */

    /* joined pools */
    uint32_t min_free;
    int64_t cull_after_ns; /* 0: never */
    int64_t start_timeout_ns, stop_timeout_ns;
    int64_t max_lifetime_ns;    /* 0: none */
    int64_t lifetime_jitter_ns; /* less than max_lifetime_ns, unless that is 0 */
};

#endif
