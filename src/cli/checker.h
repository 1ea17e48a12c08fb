/*
 * checker.h - checks members of a joined pool, over a connection of its own.
 *
 * A check takes the member, so that nobody uses it meanwhile, and runs the user's command. The
 * member is returned as ok if that exits with 0 in time; else as failed, and the server then stops
 * it. A member that is in use is not checked.
 */
#ifndef CLI_CHECKER_H
#define CLI_CHECKER_H

#include "cli/client.h"

/* Zero-initialise, and set the first fields. */
struct checker {
    const struct options *options; /* check: the command, for a shell; every_ns: its time limit */
    struct loop *loop;
    const char *pool;
    void (*on_checked)(void *owner,
                       uint32_t slot); /* a check is over, also one that was not made */
    void *owner;
    /* private to checker.c */
    struct client client;
    struct check **checks; /* by slot; NULL: never checked */
    uint32_t count;
};

/* Begins to check the member in a slot, and calls on_checked once, maybe at once. */
void checker_check(struct checker *checker, uint32_t slot, struct bytes member);

/* The member in the slot is gone: kills the check's command if it runs. */
void checker_forget(struct checker *checker, uint32_t slot);

/* True if a check's command, or what it has started, runs. */
bool checker_runs(const struct checker *checker);

/* Closes the connection and kills what runs. */
void checker_close(struct checker *checker);

/* Frees the memory. No command may run. */
void checker_free(struct checker *checker);

#endif
