/*
 * fake_store.h - the store of jobs in SQLite, whose calls fail as a test wants.
 *
 * A disk is a folder of its own, in memory where there is /dev/shm; its path is `config.path`.
 *
 * Threads: one at a time has the store, as ever. The functions of a disk are for any thread at any
 * time, but a visitor.
 */
#ifndef FAKE_STORE_H
#define FAKE_STORE_H

#include "jobs/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern const struct job_store_kind fake_store;

struct fake_disk;
struct fake_disk *fake_disk_new(void);
/* Frees *disk, which nobody has open, and sets it to NULL. */
void fake_disk_free(struct fake_disk **disk);
const char *fake_disk_path(const struct fake_disk *disk);

/* ---- failures -------------------------------------------------------------------------------- */

enum fake_call {
    FAKE_LOAD,
    FAKE_TAKE_IDS,
    FAKE_BEGIN,
    FAKE_COMMIT,
    FAKE_PUT,
    FAKE_CHANGE,
    FAKE_REMOVE,
    FAKE_EXECUTE,
    FAKE_SET_TUBE,
    FAKE_REMEMBER,
    FAKE_RECALL,
    FAKE_FORGET,
    FAKE_FORGET_OLD,
    FAKE_READ_BODY,
    FAKE_TEND,
    FAKE_ANY /* any of those above */
};
/* How many of them have begun. */
uint64_t fake_disk_calls(struct fake_disk *disk, enum fake_call call);
/*
 * The `nth` call from now (1: the next) fails, and those that follow, `times` in all (UINT64_MAX:
 * for ever; 0: none does). It replaces what was said of this `call` before; FAKE_ANY counts apart.
 * A call that an earlier failure of its transaction makes fail does not count as failed.
 */
void fake_disk_fail(struct fake_disk *disk, enum fake_call call, uint64_t nth, uint64_t times,
                    enum job_store_status status);
/* There is no room for jobs: puts fail. */
void fake_disk_fill(struct fake_disk *disk, bool full);
/* Reading the body of `id` fails; JOB_STORE_OK: no longer. One body at a time. */
void fake_disk_break_body(struct fake_disk *disk, uint64_t id, enum job_store_status status);
/* Changing or removing the job `id` fails: CORRUPT; 0: none does. One job at a time. */
void fake_disk_break_row(struct fake_disk *disk, uint64_t id);
/* Has loads visit what `lie` makes of their visitors; NULL: what is in the file. */
void fake_disk_lie(struct fake_disk *disk,
                   const struct job_store_visitors *(*lie)(const struct job_store_visitors *));
/* Commits wait until this is called with false. */
void fake_disk_hold(struct fake_disk *disk, bool holds);

/* ---- what is committed, while the store is open ---------------------------------------------- */

/* Visits everything; a transaction ends before. */
void fake_disk_look(struct fake_disk *disk, const struct job_store_visitors *visitors);
/* Each returns false when it is not there. A body has at most 64 bytes. */
bool fake_disk_job(struct fake_disk *disk, uint64_t id, struct job_changing *now_r);
bool fake_disk_has_body(struct fake_disk *disk, uint64_t id, struct bytes body);
bool fake_disk_memory(struct fake_disk *disk, enum job_memory_kind kind, struct bytes tube,
                      struct bytes name, struct job_memory *memory_r);
bool fake_disk_tube(struct fake_disk *disk, struct bytes name, struct job_tube_record *tube_r);

struct fake_counts {
    size_t jobs, memories[2];
};
struct fake_counts fake_disk_count(struct fake_disk *disk);

#endif
