/*
 * model.h - the correct behaviour, in plain arrays searched from end to end: names, and what
 * clients hold and wait for. The simulation asks it for every answer.
 */
#ifndef MODEL_H
#define MODEL_H

#include "engine/table.h"
#include "proto/poolcounter.h"

#define MODEL_NAMES 40
#define MODEL_LOCKS 4

enum model_wait_state { WAIT_NONE, WAIT_WAITING, WAIT_GRANTED, WAIT_DONE };

/* A connection. Zero-initialise: it holds nothing. */
struct model_client {
    uint32_t units[MODEL_NAMES];
    unsigned lock_count; /* text: the names of its locks, oldest first */
    uint8_t locks[MODEL_LOCKS];
    struct model_wait {
        enum model_wait_state state; /* GRANTED, DONE: the client is not yet notified */
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
    uint64_t units;     /* held units of all names */
    uint64_t in_line;   /* all waiters */
    uint64_t untold;    /* finished waits whose clients are not yet notified */
    uint64_t decisions; /* number of decisions so far */
    uint64_t dropped;   /* names that the server has dropped early, as far as is known */
    uint64_t
        touched; /* bit set of names that may have changed; the caller of the model clears it */
    uint32_t interval; /* current interval */
};

void model_free(struct model *m);

/* True if the name exists, maybe with nothing held. */
bool model_exists(const struct model *m, unsigned name);
/* Returns the peak that the server shows for the name. */
uint32_t model_peak(const struct model *m, unsigned name);

struct model_acquire {
    unsigned name;
    uint32_t units, limit, queue_max;
    enum wait_kind wait;
    bool keep;
    bool no_memory; /* fails if it needs memory */
};

/* Returns OK, BUSY, FULL, WAITING, or NO_MEMORY if it needs memory. */
enum table_status model_acquire(struct model *m, struct model_client *c,
                                const struct model_acquire *a);
/* Returns OK, NOT_FOUND or NOT_HELD. */
enum table_status model_release(struct model *m, struct model_client *c, unsigned name,
                                uint32_t units);
/* Ends the client's wait without a grant. */
void model_cancel(struct model *m, struct model_client *c);
/* The client is notified of the end of its wait. Returns true for a grant, false for DONE. */
bool model_note(struct model *m, struct model_client *c);
void model_close(struct model *m, struct model_client *c);
/* Ends the client's wait, and gives back its locks, newest first. */
void model_quit(struct model *m, struct model_client *c);

/*
 * The next three return answers to text clients.
 *
 * ACQ4*, with `a->units` 1. Returns PC_REPLY_COUNT when the client waits.
 */
enum pc_reply model_lock(struct model *m, struct model_client *c, const struct model_acquire *a);

/* The answer to a RELEASE. The notification of a finished wait may come before it. */
struct model_words {
    unsigned count;
    enum pc_reply word[2];
};

#define MODEL_NEWEST MODEL_NAMES /* no name given */
struct model_words model_unlock_name(struct model *m, struct model_client *c, unsigned name);

/* Like model_note. Returns the word of the answer. */
enum pc_reply model_note_word(struct model *m, struct model_client *c);

/* True if no waiter of this line fits. */
bool model_line_is_right(const struct model *m, unsigned name);

#endif
