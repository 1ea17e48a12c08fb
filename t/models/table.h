/*
 * table.h - a model of the table (engine/table.h): what each call must do, in plain arrays that are
 * searched from end to end. Three drivers compare the table with it: random calls (table_test.c),
 * bytes of clients on a fake network (t/campaigns/simulate/), and histories of a real daemon
 * (t/campaigns/history/check.c).
 *
 * Names are numbers. Holders and waits belong to the driver, which zero-initialises them. The model
 * has no memory limit: the driver says when the table refused a request or dropped a name for lack
 * of memory. One thread, no locks.
 */
#ifndef MODELS_TABLE_H
#define MODELS_TABLE_H

#include "engine/table.h"

#ifndef MODEL_NAMES
#define MODEL_NAMES 40
#endif

/* What one holder has of one name. */
struct model_holding {
    uint32_t units, limit; /* `limit` of the last request that was granted or began to wait */
    uint32_t waits;        /* waits, including results that the holder has not taken */
    uint32_t reserved;
    uint32_t life;    /* that of the name when the holding was made */
    int64_t since_ns; /* when its units rose from 0 */
};

struct model_holder {
    struct model_holding of[MODEL_NAMES];
};

enum model_wait_state { WAIT_NONE, WAIT_WAITING, WAIT_GRANTED, WAIT_DONE };

/* A wait, from its beginning until its holder takes the result. */
struct model_wait {
    struct model_holder *holder;
    enum model_wait_state state;
    enum wait_kind kind;
    unsigned name;
    uint32_t units, limit;
    uint32_t life;    /* of the name; a result may outlive it */
    uint64_t decided; /* number of the result */
    int64_t since_ns, ended_ns;
};

struct model_name {
    bool present; /* it has memory, although it may have expired */
    bool keep;    /* it stays at 0 */
    bool passed;  /* the collector of a full table has seen it at 0 */
    uint16_t interval;
    uint32_t consumption, peak, limit, reserved;
    uint32_t life; /* how often it was made */
    uint32_t waiting, room;
    struct model_wait **line; /* oldest first */
};

struct model {
    const struct moment *now; /* the driver's clock; NULL: it stands still */
    uint32_t interval_s;
    struct model_name names[MODEL_NAMES];
    uint64_t units, waiting; /* sums over all names */
    uint64_t made;           /* names made */
    uint64_t decisions;      /* results made */
    uint64_t untold;         /* results that nobody has taken */
    uint64_t touched;        /* a bit for each name that may have changed; the driver clears it */
    void (*decided)(struct model_wait *w); /* called for each result, in order; may be NULL */
};

/* Frees the queues. */
void model_free(struct model *m);

/* True if a request finds the name. */
bool model_exists(const struct model *m, unsigned name);
/* True if the name is at 0 and its interval is over, so that the next look removes it. */
bool model_is_expired(const struct model *m, unsigned name);
/* The peak that the table shows. */
uint32_t model_peak(const struct model *m, unsigned name);
/* True if no waiter of the name fits. */
bool model_line_is_right(const struct model *m, unsigned name);

struct model_acquire {
    unsigned name;
    uint32_t units, limit, queue_max;
    enum wait_kind wait;
    bool keep;
    bool no_memory; /* the table has refused it */
};

/* OK, BUSY, FULL, WAITING (with `w`), or NO_MEMORY if it needs memory and there is none. */
enum table_status model_acquire(struct model *m, struct model_holder *h,
                                const struct model_acquire *a, struct model_wait *w);
/* Adds units whatever the limit. `limits`: notes the limit and `keep`, as table_grant does;
 * without, the name is kept, as by table_add. OK, or BUSY where the sum would be too large. */
enum table_status model_add(struct model *m, struct model_holder *h, const struct model_acquire *a,
                            bool limits);
/* OK, NOT_FOUND or NOT_HELD. */
enum table_status model_release(struct model *m, struct model_holder *h, unsigned name,
                                uint32_t units);
/* Gives back units that the holder has; `ends`: as the end of its connection does. */
void model_give_back(struct model *m, struct model_holder *h, unsigned name, uint32_t units,
                     bool ends);
void model_reserve(struct model *m, struct model_holder *h, unsigned name);
void model_unreserve(struct model *m, struct model_holder *h, unsigned name);

/* Ends a wait that has no result. */
void model_cancel(struct model *m, struct model_wait *w);
/* The holder takes a result. True: it has the units. */
bool model_note(struct model *m, struct model_wait *w);
/* The holder leaves all queues, and gives back what it has. It has taken all results. */
void model_close(struct model *m, struct model_holder *h);

/* An upgrade with another length of intervals: they begin anew. */
void model_change_interval(struct model *m, uint32_t interval_s);
/* A whole walk of the collector; `full`: the table is full. Returns the number of names removed. */
uint64_t model_collect(struct model *m, bool full);

#endif
