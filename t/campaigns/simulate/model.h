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

/* A connection's part. Zero-initialised: it has nothing. */
struct model_client {
    uint32_t units[MODEL_NAMES];
    unsigned lock_count; /* text: the names of its locks, oldest first */
    uint8_t locks[MODEL_LOCKS];
    struct model_wait {
        enum model_wait_state state; /* GRANTED, DONE: its client was not told yet */
        unsigned name;
        enum wait_kind kind;
        uint32_t limit;
        int64_t deadline_ns;
        uint64_t decided; /* the how-manieth decision it was */
    } wait;
};

struct model_name {
    bool present, keep;
    uint16_t interval;
    uint32_t consumption, peak;
    uint32_t life; /* how often it was made */
    uint32_t waiting, room;
    struct model_client **line; /* waiters, oldest first */
};

struct model {
    struct model_name names[MODEL_NAMES];
    uint64_t units;     /* held, of all names */
    uint64_t in_line;   /* all that wait */
    uint64_t untold;    /* waits that are over and whose clients were not told */
    uint64_t decisions; /* so far */
    uint64_t touched;   /* names that may have changed since somebody cleared this: bits */
    uint32_t interval;  /* the present one */
};

void model_free(struct model *m);

/* True if the name exists, maybe with nothing held. */
bool model_exists(const struct model *m, unsigned name);
/* The peak that is shown of it. */
uint32_t model_peak(const struct model *m, unsigned name);

struct model_acquire {
    unsigned name;
    uint32_t units, limit, queue_max;
    enum wait_kind wait;
    bool keep;
    bool no_memory; /* there was none, where this takes some */
};

/* OK, BUSY, FULL, WAITING, or NO_MEMORY where it asked for some. */
enum table_status model_acquire(struct model *m, struct model_client *c,
                                const struct model_acquire *a);
/* OK, NOT_FOUND, NOT_HELD. */
enum table_status model_release(struct model *m, struct model_client *c, unsigned name,
                                uint32_t units);
/* It does not wait any more, in vain. */
void model_cancel(struct model *m, struct model_client *c);
/* It takes note of how its wait has ended: true: granted, false: done. */
bool model_note(struct model *m, struct model_client *c);
void model_close(struct model *m, struct model_client *c);

/* ---- what a text client is answered ---- */

/* ACQ4*; PC_REPLY_COUNT: it waits. `a->units` is 1. */
enum pc_reply model_lock(struct model *m, struct model_client *c, const struct model_acquire *a);

/* What a RELEASE is answered: maybe first how its wait has ended, which it had not been told. */
struct model_words {
    unsigned count;
    enum pc_reply word[2];
};

#define MODEL_NEWEST MODEL_NAMES /* no name is given */
struct model_words model_unlock_name(struct model *m, struct model_client *c, unsigned name);

/* model_note, in the word for it. */
enum pc_reply model_note_word(struct model *m, struct model_client *c);

/* Whether nobody of this line waits who fits. */
bool model_line_is_right(const struct model *m, unsigned name);

#endif
