/*
 * pools_beside.h - what the simulation's files of pools share: requests in the numbers of the model
 * (t/models/pools.h), and the request that the server serves now.
 */
#ifndef SIMULATE_POOLS_BESIDE_H
#define SIMULATE_POOLS_BESIDE_H

#include "proto/pools.h"
#include "service/pool_options.h"
#include "t/campaigns/simulate/inside.h"
#include "t/models/pools_compare.h"

#define OPTIONS_SAID 5

/* A request of pools, as its client means it. */
struct pools_ask {
    union {
        struct m_take take;
        struct {
            bool has_fence, ok;
            uint64_t fence;
        } give;
        struct m_new_member new;
        struct {
            int pool;
            uint32_t init, max;
        } supply;
        struct m_change change;
        struct {
            int pool, member; /* member: not of POOL DROP */
            bool now;
        } drop;
        struct {
            int pool;
            unsigned count;
            enum pool_option option[OPTIONS_SAID];
            char text[OPTIONS_SAID][POOL_OPTION_TEXT];
        } options;
        struct {
            int pool; /* M_NOBODY: all */
            bool mine;
        } watch;
        int pool; /* SHOW */
        enum pool_reply bad;
    };
};

/* The request or timeout that the server serves now. */
extern struct doing {
    struct client *c; /* NULL: none */
    const struct request *r;
    struct pools_ask *ask; /* of a verb of pools */
    bool timeout;
    bool waited;  /* for anything, when it began */
    bool in_line; /* for members, when it began */
    bool called;  /* the engine was */
    bool no_client;
    bool wait_ended;
    enum pool_status status; /* what the engine answered */
} doing;

/* Answers: adds the line to the model's answer. */
void expect_pool_reply(enum pool_reply reply);
void expect_bad_value(const char *name);
/* The reply for a status. */
enum pool_reply reply_of_status(enum pool_status status, enum pool_reply ok);

/* The client of the simulation with this number. */
extern struct client *pool_users[M_CLIENTS];

/* True if a client may change pools; if it may join members. */
bool is_operator(const struct client *c);
bool is_supplier(const struct client *c);

/* The options that a request asks for, when they are `is` so far; `group` is one of group_names.
 * Returns the option with a wrong value, or POOL_OPTION_COUNT. */
enum pool_option asked_options(const struct pools_ask *ask, bool adds,
                               const struct pool_options *is, struct pool_options *to_r);

#endif
