/*
 * child.h - runs a command as a child process; the event loop waits for its end.
 *
 * The command is a plain child in our own process group. It has our environment, terminal, standard
 * input and output, if nothing else is asked for, and both of us get what the terminal sends
 * (Ctrl-C, Ctrl-Z). It inherits none of our other descriptors. Several commands may run at once.
 *
 * A command that is apart has a process group of its own, so what the terminal sends does not reach
 * it, our signals reach what it has started too, and its end is over only when the group is empty.
 * When we are killed the kernel kills the command (death_signal), and the reaper (reaper.h) the
 * rest.
 *
 * We name the process by a pidfd, never by its number: the kernel may reuse a number after the
 * process was reaped, and our signals must not reach another process.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include "cli/loop.h"
#include "cli/text.h"

#include <stdbool.h>
#include <sys/types.h>

/* The environment of a command. Zero-initialise: as ours. */
struct environment {
    char **list; /* ended by NULL; NULL: as ours */
    size_t count, room;
};

/* Adds a variable, or replaces its value, which may have any byte but NUL. */
void environment_add(struct environment *environment, const char *name, struct bytes value);
void environment_add_number(struct environment *environment, const char *name, uint64_t number);

/* Leaves out the variables that are there by now and whose entries, NAME=VALUE, begin with
 * `prefix`.
 */
void environment_leave_out(struct environment *environment, const char *prefix);

/* Writing as many bytes to a pipe that poll calls ready does not block. */
#define RELAY_SIZE 4096

/*
 * Private to child.c: passes on what a command writes to its standard output, line by line, to
 * ours, except for the lines that the caller takes. Several commands may write at once: a line of
 * up to RELAY_SIZE bytes stays in one piece. When nobody reads our output, we read no more of
 * theirs, and go on with everything else.
 */
struct relay {
    /* Called with each line, without its end, or with the first RELAY_SIZE bytes of a longer one.
       Returns true to keep the line from our output; it then gets the other parts of the line too,
       the last one with `is_last`, perhaps empty. It may not close the relay. NULL: all lines are
       passed on. */
    bool (*take)(void *owner, struct bytes part, bool is_last);
    void *owner;
    struct loop *loop; /* NULL: closed */
    int fd;
    struct watch in, out;
    uint8_t data[RELAY_SIZE];
    size_t len, passed; /* bytes in data, and how many of them we pass on */
    enum { LINE_BEGINS, LINE_PASSES, LINE_IS_TAKEN } line; /* the line of the next byte */
    bool is_at_end;
};

/* Zero-initialise, then set on_end, owner, and what is wanted of the fields up to is_apart. The
   command does not run yet. */
struct child {
    /* The command has ended; how: the status of waitpid. With `leaves_some` others of its group
       still run, and it is called again when they are gone. */
    void (*on_end)(void *owner, int how, bool leaves_some);
    /* Called with each line of its output, as struct relay says. NULL: its output is ours. */
    bool (*take)(void *owner, struct bytes part, bool is_last);
    void *owner;
    struct environment environment; /* freed by child_start */
    int death_signal; /* the kernel sends it to the command when we are killed; 0: none */
    int input;        /* its standard input, which the caller closes; 0: ours, or none if it
                         is apart. Read by child_start only */
    bool is_apart;    /* it has a process group of its own */
    /* private to child.c */
    struct loop *loop;  /* NULL: nothing runs */
    struct watch watch; /* of the pidfd; set while the command itself runs */
    struct timer look;  /* at what is left of the group */
    struct timer kill;
    struct relay relay;
    pid_t pid;   /* while the command itself runs */
    pid_t group; /* of a command that is apart; 0: none, or nothing is left of it */
    int how;
    struct child *next; /* of all that run */
};

/* Starts `argv`; nothing may run. Returns 0, or the status to exit with after printing why; on_end
   is not called then. */
int child_start(struct child *child, struct loop *loop, char **argv) MUST_USE;

/* True until on_end was called for the last time. */
bool child_runs(const struct child *child);

/* Sends a signal to the command, or to the whole group if it is apart, also when only others of it
   are left; does nothing when nothing runs. */
void child_signal(struct child *child, int number);

/* Ends all that run, if anything does: sends TERM (and CONT, because it may be stopped), and KILL
   after `grace_ns`. */
void child_terminate(struct child *child, int64_t grace_ns);

/* True if a command that was started, and whose end was not reported yet, has that number. */
bool child_has_pid(pid_t pid);

/* The exit status for `how` (of on_end): the command's own, or 128 plus the signal's number. */
int child_status(int how);

/* Adds how a command has ended, for people. */
void child_explain(struct text *to, const char *name, int how);

#endif
