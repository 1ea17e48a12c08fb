/*
 * supply.h - decides for a supplier of a pool: when it connects, how many commands it starts, and
 * which of them join, are checked, leave and end.
 *
 * A slot is a number from 0 to max - 1 in which one command runs at a time. A command that runs may
 * become a member of the pool; a command that was told to end does not count any more for what the
 * server wants, but keeps its slot until all its processes are gone. So there are never more than
 * max.
 *
 * There is no I/O and no clock here. The caller reports each event, and then carries out what
 * supply_next returns until it returns DO_NOTHING; supply_next has noted each as done. Times are
 * monotonic, in nanoseconds.
 */
#ifndef CLI_SUPPLY_H
#define CLI_SUPPLY_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What failed is tried again after a pause (pause_longer), which begins again with the first after
   a command that was ready for this long. */
#define SUPPLY_STEADY_NS (INT64_C(10) * 1000 * 1000 * 1000)

/* Never, as a time. */
#define SUPPLY_NEVER INT64_MAX

struct supply_rules {
    uint32_t max;    /* slots */
    bool is_single;  /* one member without a command; it does not follow what the server wants */
    bool says_ready; /* a command joins when it has said READY; else at its start */
    bool keeps;      /* commands stay when the connection is lost; else they end */
    int64_t start_timeout_ns; /* for says_ready */
    int64_t grace_ns;         /* between TERM and KILL */
    int64_t every_ns;         /* between two checks of a member; 0: none */
};

enum slot_state {
    SLOT_FREE,     /* nothing runs */
    SLOT_STARTING, /* runs, and has not said READY */
    SLOT_READY,    /* will join */
    SLOT_JOINING,  /* has asked to join */
    SLOT_JOINED,   /* is a member */
    SLOT_ENDING,   /* is told to end, or has ended while others of its processes run */
    SLOT_STATES
};

enum supply_do {
    DO_NOTHING, /* until the time in at_ns, or the next event */
    DO_CONNECT, /* then supply_up or supply_down */
    DO_SUPPLY,  /* ask to be a supplier; then supply_answered */
    DO_RESIGN,  /* say that we are no supplier any more */
    DO_START,   /* start a command under a new name; then supply_ready, or supply_ended if that
                   fails */
    DO_JOIN,    /* then supply_joined or supply_refused */
    DO_CHECK,   /* then supply_checked */
    DO_DROP,    /* tell the server that the slot's member is gone */
    DO_TERM,    /* ask its processes to end; then supply_ended when they have */
    DO_GIVE_UP, /* the same, because it is not ready in time */
    DO_KILL,    /* kill its processes */
    DO_LEAVE    /* all is over: close the connection and exit */
};

struct supply_action {
    enum supply_do what;
    uint32_t slot; /* from DO_START to DO_KILL */
    int64_t at_ns; /* of DO_NOTHING */
};

struct supply {
    struct supply_rules rules;
    struct supply_slot *slots; /* `count` of them; the others are free */
    uint32_t count;
    size_t room;
    uint32_t want; /* members to have, running or starting */
    enum { SUPPLY_AWAY, SUPPLY_CALLING, SUPPLY_UP } connection;
    bool is_supplier; /* the server has said so over this connection */
    bool is_asking;   /* DO_SUPPLY is not answered */
    bool is_finishing, is_hurried;
    bool has_resigned;
    struct backoff {
        int64_t pause_ns; /* the last pause; 0: nothing has failed */
        int64_t until_ns; /* not before this time */
    } connect, ask;
};

void supply_init(struct supply *s, const struct supply_rules *rules);
void supply_free(struct supply *s);

/* What to do next. */
struct supply_action supply_next(struct supply *s, int64_t now_ns) MUST_USE;

enum slot_state supply_state(const struct supply *s, uint32_t slot);

/* ---- the connection -------------------------------------------------------------------------- */

/* The connection is up, or is lost or can't be made. */
void supply_up(struct supply *s);
void supply_down(struct supply *s, int64_t now_ns);

/* The server took us as a supplier, or did not; then it is asked again later. */
void supply_answered(struct supply *s, bool is_taken, int64_t now_ns);

/* The server wants this many members. */
void supply_want(struct supply *s, uint32_t want);

/* ---- a slot ---------------------------------------------------------------------------------- */

/* Its command has said that it is ready. Ignored unless it is starting. */
void supply_ready(struct supply *s, uint32_t slot, int64_t now_ns);

void supply_joined(struct supply *s, uint32_t slot, int64_t now_ns);

/* The server did not let it join. With `is_final` its command ends; else it tries again later. */
void supply_refused(struct supply *s, uint32_t slot, bool is_final, int64_t now_ns);

/* The command has to end: the server says so, or what it said can't be used (`is_failure`). */
void supply_stop(struct supply *s, uint32_t slot, bool is_failure);

/* The member's check is over. */
void supply_checked(struct supply *s, uint32_t slot, int64_t now_ns);

/*
 * Its command has ended. With `leaves_some` other processes that it started still run; they are
 * ended, and it is called again when they are gone.
 */
void supply_ended(struct supply *s, uint32_t slot, bool leaves_some, int64_t now_ns);

/* ---- the end --------------------------------------------------------------------------------- */

/* Ends: no member is handed out any more, and all commands end. With `at_once` they are killed
   without grace. May be called again. */
void supply_finish(struct supply *s, bool at_once);

#endif
