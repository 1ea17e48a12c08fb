/*
 * model.h - what the server must do, in plain arrays searched from end to end: names, and what
 * clients hold and wait for. The simulation asks it for every answer.
 */
#ifndef MODEL_H
#define MODEL_H

#include "engine/table.h"
#include "proto/poolcounter.h"

#define MODEL_NAMES 40
#define MODEL_LOCKS 4

enum model_wait_state { WAIT_NONE, WAIT_WAITING, WAIT_GRANTED, WAIT_DONE };

/* A connection. Zero-initialised: it has nothing. */
struct model_client {
    uint32_t units[MODEL_NAMES];
    unsigned lock_count; /* text: the names of its locks, oldest first */
    uint8_t locks[MODEL_LOCKS];
    struct model_wait {
        enum model_wait_state state; /* GRANTED, DONE: its client is not notified yet */
        unsigned name;
        enum wait_kind kind;
        uint32_t limit;
        int64_t deadline_ns;
        uint64_t decided; /* the number of the decision */
    } wait;
};

struct model_name {
    bool present, keep;
    uint16_t interval;
    uint32_t consumption, peak;
    uint32_t life; /* how often it was created */
    uint32_t waiting, room;
    struct model_client **line; /* waiters, oldest first */
};

struct model {
    struct model_name names[MODEL_NAMES];
    uint64_t units;     /* held, of all names */
    uint64_t in_line;   /* all waiters */
    uint64_t untold;    /* finished waits whose clients are not notified */
    uint64_t decisions; /* so far */
    uint64_t touched;   /* bit set of names that may have changed since it was cleared */
    uint32_t interval;  /* the current one */
};

void model_free(struct model *m);

/* True if the name exists, maybe with nothing held. */
bool model_exists(const struct model *m, unsigned name);
/* The peak that the server shows for it. */
uint32_t model_peak(const struct model *m, unsigned name);

struct model_acquire {
    unsigned name;
    uint32_t units, limit, queue_max;
    enum wait_kind wait;
    bool keep;
    bool no_memory; /* if it needs memory, there is none */
};

/* OK, BUSY, FULL, WAITING, or NO_MEMORY if it needs memory. */
enum table_status model_acquire(struct model *m, struct model_client *c,
                                const struct model_acquire *a);
/* OK, NOT_FOUND, NOT_HELD. */
enum table_status model_release(struct model *m, struct model_client *c, unsigned name,
                                uint32_t units);
/* It stops waiting, without a grant. */
void model_cancel(struct model *m, struct model_client *c);
/* It takes note of the end of its wait. True: granted, false: done. */
bool model_note(struct model *m, struct model_client *c);
void model_close(struct model *m, struct model_client *c);

/* ---- what a text client is answered ---- */

/* ACQ4*; PC_REPLY_COUNT: it waits. `a->units` is 1. */
enum pc_reply model_lock(struct model *m, struct model_client *c, const struct model_acquire *a);

/* The answer to a RELEASE; before it, maybe the end of a wait that the client did not know yet. */
struct model_words {
    unsigned count;
    enum pc_reply word[2];
};

#define MODEL_NEWEST MODEL_NAMES /* no name is given */
struct model_words model_unlock_name(struct model *m, struct model_client *c, unsigned name);

/* model_note, with the word of the answer. */
enum pc_reply model_note_word(struct model *m, struct model_client *c);

/* True if no waiter of this line fits. */
bool model_line_is_right(const struct model *m, unsigned name);

#endif
