/*
 * jobs_state.h - what an upgrade in place carries of the jobs (base/record.md).
 *
 *     JOBS_STATE  u64 next id; u64 time of the last burial; u64 tubes made so far; u64 timeouts and
 *                 u64 jobs since the start; 4 u64 keys of the hashes below; u32 number of keys and
 *                 roots whose time is remembered; of each:
 *                   2 u64 hash; bool root; i64 time in unix ms; i64 when that is forgotten, in ns
 *                   (of a key: while no job has it)
 *                 u32 number of tubes; of each, in the order of creation:
 *                   bytes name; u64 number; i64 end of its pause in ns, u32 seconds of the pause
 *                   (0 and 0: none); its settings: u32 bits of those given, u8 order, u8 claim, u32
 *                   tries, u32 limit, u32 prune, u32 remember, bytes read-only; u64 jobs since it
 *                   was made, deletes, pauses, duplicates, claims, dropped, acks, recycled,
 *                   abandoned; u32 number of jobs; of each, by state and then by id:
 *                     u8 state; u64 id; u32 pri, delay, ttr; u32 time of its put in s; u64 turn
 *                     (struct job); u32 reserves, timeouts, releases, buries, kicks, tries, tries
 *                     at most; u32 length of its body, bool the body follows, bytes body (with
 *                     jobs.path it does not); u8 1 with a key, 2 with a root, 3 both, 0 none;
 *                     with any: i64 `at` in unix ms, i64 beginning of the reservation in unix ms;
 *                     with a key: 2 u64 hash; with a root: 2 u64 hash, i64 time in unix ms; if it
 *                     is reserved: u64 token, bool lease, bool last try, bool lease without a
 *                     connection
 *
 *     JOBS_PUT_TIMES of each job that was not put at a whole second: u64 id, u16 ms of that time
 *                 beyond the seconds; u64 0 at the end. Older programs have no such section
 *
 *     JOBS_BURIAL u64 the time of the last burial that the store has, in unix ns; with a store
 * only. Older programs have no such section
 *
 *     JOBS_CLEARS u32 clears so far; u32 number of jobs, of each: u64 id; u32 clears that had begun
 *                 when it came into its state, u32 the same of any state but reserved (0: it is
 *                 reserved). Only while a clear is under way, and only jobs that came since the
 *                 first of those began
 *
 * Left out while nobody has used the jobs. A client is written with its connection: bytes used
 * tube; u32 number of watched tubes, bytes name of each in the order of watching; u32 number of
 * reservations, u64 id of each in the order of reserving; u64 turn of the tube that served it last;
 * u8 wait: 0 none, 1 of a reserve, 2 of a claim of named tubes, 3 of a claim of the watched ones, 4
 * for tubes with something to claim; with 1, 2 and 3: u64 its age, as a number; with 2: u32 their
 * number, bytes name of each; with 4: bytes name or beginning, bytes name after which the list
 * begins, bool beginning, u32 limit.
 *
 * Threads: the main thread, while no worker runs. All messages were delivered before.
 */
#ifndef JOBS_STATE_H
#define JOBS_STATE_H

#include "base/record.h"
#include "jobs/jobs.h"

#define JOBS_STATE     UINT32_C(0x0601)
#define JOBS_CLEARS    UINT32_C(0x0604)
#define JOBS_PUT_TIMES (RECORD_OPTIONAL | UINT32_C(0x0606))
#define JOBS_BURIAL    (RECORD_OPTIONAL | UINT32_C(0x0607))

void jobs_save(struct jobs *jobs, struct record_writer *w);
/* Reads a section of this kind into new jobs, JOBS_STATE first. Returns false when `r` has failed,
 * or it is of another kind. */
bool jobs_restore(struct jobs *jobs, uint32_t kind, struct record_reader *r) MUST_USE;
/* Checks that all reservations have their clients. Returns false when `r` has failed. */
bool jobs_restore_done(struct jobs *jobs, struct record_reader *r) MUST_USE;

void jobs_client_save(const struct jobs_client *client, struct record_writer *w);
/* Makes a client as it was saved. NULL: `r` has failed. */
struct jobs_client *jobs_client_restore(struct jobs *jobs, uint64_t tag, void *owner,
                                        struct record_reader *r) MUST_USE;

#endif
