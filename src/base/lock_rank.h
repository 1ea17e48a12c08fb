/* lock_rank.h - the ranks of all locks. Their order is declared here only. */
#ifndef BASE_LOCK_RANK_H
#define BASE_LOCK_RANK_H

/* In the order in which a thread may take them. */
enum lock_rank {
    LOCK_RANK_JOBS,    /* all tubes and jobs, and their clients */
    LOCK_RANK_POOLS,   /* all pools: their members, waiters, clients */
    LOCK_RANK_SHARD,   /* one shard of the table: its names, holdings, waiters */
    LOCK_RANK_ARENA,   /* the pages that all shards share */
    LOCK_RANK_SOURCES, /* connection counts by source address */
    LOCK_RANK_RIGHTS,  /* which clients may change pools */
    LOCK_RANK_COUNT
};

#endif
