/*
 * slots.h - places where processes run: several slots, in each of which one command runs at a time.
 *
 * A slot has a connection, and takes one thing after another over it to run the command for: a job,
 * a dirty member. A wait needs a connection of its own, and the loss of one then concerns one
 * thing. What fails is tried again after a pause, which doubles with each failure up to a longest
 * one, so neither a server that has gone nor a command that can't work is asked without end. All
 * slots meet the same trouble with the server: people are told once, until it works again.
 *
 *     paused -> connecting -> up: the kind takes things and runs commands -> over
 *
 * A signal, or trouble that no try can mend, ends all slots: those in which nothing runs at once,
 * the others as the kind says when their command has ended. The first reason is the exit status.
 * When the last slot is over the loop ends.
 */
#ifndef CLI_SLOTS_H
#define CLI_SLOTS_H

#include "cli/answer.h"
#include "cli/child.h"
#include "cli/command.h"

/* The first field of what a kind has for each slot. */
struct slot {
    struct slots *all;
    struct loop *loop;
    const struct options *options;
    const char *command; /* its name */
    struct client client;
    struct child child;
    struct timer pause;
    int64_t pause_ns; /* the last pause; 0: nothing has failed */
    bool is_over;
};

/* What a command does with its slots. Its functions get a slot. */
struct slots_kind {
    size_t size; /* of what it has for a slot */
    const struct protocol *protocol;
    void (*on_up)(void *slot);                    /* the connection is up */
    void (*on_lost)(void *slot, enum status why); /* it is lost, or can't be made */
    void (*on_again)(void *slot);                 /* the pause is over, and the connection is up */
    void (*on_end)(void *slot, int how, bool leaves_some); /* of the command, as in child.h */
    /* The slot has to end. `at_once`: a further signal says so, or the reaper has gone. */
    void (*stop)(void *slot, bool at_once);
    void (*forget)(void *slot); /* frees what the thing has that it works on */
    bool heeds_user_signals;    /* USR1 and USR2 end it, too */
};

struct slots {
    const struct slots_kind *kind;
    struct invocation *invocation;
    size_t count;
    int status; /* to exit with */
    bool is_ending;
    struct text said; /* the last complaint about the server; empty when it works again */
    /* private to slots.c */
    void *slots;
    size_t over; /* slots that are */
};

/* Runs all slots until they are over. Returns the exit status. Call reaper_begin before. */
int slots_run(struct slots *all) MUST_USE;

/* Ends all slots. */
void slots_end(struct slots *all, int status, bool at_once);

/* The slot is over. May be called again. */
void slot_over(struct slot *slot);

/* Goes on after a pause: connects if that is needed, and then calls on_again. */
void slot_pause(struct slot *slot);

/* Says what is wrong with the server, and frees the text. Pauses; or ends all slots if another try
   is of no use (`is_final`), or with --once. Returns false when all slots end. */
bool slot_trouble(struct slot *slot, struct text *what, enum status status, bool is_final);

/* The same for a refused request, which `what` names. */
bool slot_refused(struct slot *slot, const char *what, const struct answer *answer, bool is_final);

#endif
