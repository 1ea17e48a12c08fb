/*
 * table_world.h - the table beside its model, for table_test.c: what both have, the comparisons
 * (table_compare.c) and the way into another table (table_upgrade.c).
 */
#ifndef MODELS_TABLE_WORLD_H
#define MODELS_TABLE_WORLD_H

#include "engine/contention.h"
#include "t/models/table.h"
#include "t/unit/random.h"

#define INTERVAL 50U
#define LIMIT    ((size_t)16 << 20)

enum {
    NAMES = 12,
    HOLDERS = 40,
    WAITS = 400, /* at the same time, including messages on their way */
    SHOWN = CONTENDED_KEPT * TABLE_SHARDS,
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    STEPS = 15000, /* slow, and the test has only one thread */
#else
    STEPS = 60000,
#endif
};

/* A wait, from its beginning until its message has arrived. */
struct wait {
    struct model_wait has;
    struct waiter *real; /* NULL: this place is free */
    unsigned holder;
    enum waiter_state result; /* WAITING: none yet */
    bool noted;               /* its holder has taken the result, or has closed */
    uint64_t age;
};

/* The table, and the model of it. */
extern struct table *t;
extern struct table_config config;
extern struct holder sets_of_holders[2][HOLDERS];
extern struct holder *holders;
extern struct holding *held[HOLDERS][NAMES]; /* while there are units or reservations */
extern struct model m;
extern struct model_holder has[HOLDERS];
extern struct wait waits[WAITS];
extern struct bytes names[NAMES];

extern struct moment now;
extern results out;
extern struct histogram lasted;        /* the lengths of holdings */
extern uint64_t ended_count, ended_ns; /* the same by the model */
extern unsigned expected[WAITS], expected_count;
extern uint64_t step, ages;
extern uint32_t next_id;
extern struct rng rng;
extern size_t used_at_start; /* memory of this table when it was empty */
extern size_t squeezed;      /* memory charged so that the table is full */
extern uint64_t dropped;     /* names that this table has dropped early so far */
extern unsigned refused_records, restored_records; /* of the damaged ones */

/* The modes. */
extern bool faulty, full, set_back, late;

/* Fails with the step's number. */
#define AGREE(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("step %" PRIu64 ": %s (line %d)", step, #condition, __LINE__);            \
    } while (0)

struct table_stats stats(void);
bool keeps_holding(unsigned holder, unsigned n);
unsigned place_of(const struct waiter *real);
/* The hash of a name, prefetched with others; or 0: unknown. */
uint64_t some_hash(unsigned n);
/* A message arrives; not always the oldest. */
void deliver(unsigned i);
/* The table becomes full by memory that is kept elsewhere, or has room again. */
void step_squeeze(void);
/* The next allocation but so many is refused; 0: none. */
void memory_ends(unsigned long after);

/* ---- table_compare.c ------------------------------------------------------------------------- */

/*
 * The results are the expected ones, and in the model's order for each name. A close can notify
 * several names; their order is the table's.
 */
void compare_results(void);
void compare_waiters(unsigned holder);
/* Names at 0 that a full table has dropped. */
void learn_of_dropped(void);
/* A request has made a name again for which it had to drop it. */
void learn_of_made(unsigned n);
void compare_sums(void);
void compare_consumptions(void);
void compare_ended(void);
/* A name and its waiters, oldest first. */
void compare_closely(unsigned n, size_t room);
/* One holder's units of a name. */
void compare_holds(unsigned n, unsigned holder);
/* For a walk over the names: counts in `monitor` how often each is shown; at times there is no
 * room.
 */
extern unsigned seen[NAMES];
bool see(void *arg, const struct table_entry *entry);
/* The slower comparisons. */
void compare_all(void);
/* What is contended is the same in both tables; names of equal rank may come in any order. */
void compare_contended(struct table *to, enum contended_by by, bool with_peaks);
/* After each step: what the highest use of each name in this interval was. */
void note_peaks(void);
/* The peaks that a table shows are these. */
void compare_peaks(struct table *to);

/* ---- table_upgrade.c ------------------------------------------------------------------------- */

/* Goes on in a table that is read from this one's record, if it can be read. */
void step_hand_on(void);

#endif
