/*
 * checker.h - checks members of a joined pool, over a connection of its own.
 *
 * A check takes the member, so that nobody uses it meanwhile, and runs the user's command. The
 * member is returned as ok if that exits with 0 in time, or can't be started; else as failed, and
 * the server then stops it. A member that is in use is not checked.
 */
#ifndef CLI_CHECKER_H
#define CLI_CHECKER_H

#include "cli/child.h"
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
    struct check *checks; /* by slot */
};

/* The check of the member in a slot. Zero-initialise; private to checker.c. */
struct check {
    struct checker *checker;
    struct check *next;
    uint32_t slot;
    enum {
        CHECK_NONE,
        CHECK_WAITS, /* for the connection */
        CHECK_TAKES, /* TAKE is not answered */
        CHECK_RUNS,  /* its command runs */
        CHECK_ENDS   /* the member is returned, and what the command has started still runs */
    } state;
    struct text member;
    uint64_t fence;
    bool is_lost; /* with the connection: there is nothing to return */
    struct child child;
    struct timer limit;
};

/* Adds the check of a slot, behind those of lower slots. It stays until checker_free. */
void checker_add(struct checker *checker, struct check *check, uint32_t slot);

/* Begins to check the member in the slot, and calls on_checked once, maybe at once. */
void checker_check(struct check *check, struct bytes member);

/* The member in the slot is gone: kills the check's command if it runs. */
void checker_forget(struct check *check);

/* True if a check's command, or what it has started, runs. */
bool checker_runs(const struct checker *checker);

/* Closes the connection and kills what runs. */
void checker_close(struct checker *checker);

/* Frees the memory. No command may run. */
void checker_free(struct checker *checker);

#endif
