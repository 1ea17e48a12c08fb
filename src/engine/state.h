/*
 * state.h - writes a table's state to a record (base/record.h) and reads it, when a process hands
 * over to the next. No other thread uses the table, and all results are acknowledged.
 *
 * Saved: names with consumption, peak, limit and interval, including names kept at 0; for each
 * holder, its holdings in order with units, limit and start time, and its waits with units, limit,
 * kind, start time and age among all waits; the contention lists; the sums. The hash key is saved
 * too, for two reasons. The position of a walk is a hash, and Dump must continue there. And the
 * contention lists identify names by hash: of a long name they keep only the beginning.
 *
 * The new table may have other settings. The number of buckets does not matter. If the state
 * exceeds the new memory limit, all of it is restored, but nothing new is allocated. Reservations
 * are not saved: who made them makes them again after table_restore_done. If the
 * interval length differs, names used in the old process's current interval count as used in the
 * new one's, and expired names are dropped.
 *
 * Order: table_save, then each holder. Reading uses the same order; table_restore_done then puts
 * the waiters into their queues. The names are a section; holders are values in a section of the
 * caller. Holders refer to a name by its mark (its position in the old table).
 *
 *     STATE_TABLE   u32 shards, u64 key k0, k1, u32 interval length in s, u32 current interval,
 *                   u64 bytes of memory, u64 names; and for each shard a section
 *     STATE_SHARD   u32 number, u64 age of the youngest waiter, u64 names made, u16 idle interval,
 *                   u64 idle in it, u64 in the one before, u64 names;
 *                   for each name: u32 mark, consumption, peak, limit, u16 interval, u8 flags
 *                   (1: kept at 0), u16 length and that many bytes;
 *                   u64 queues; for each name with a queue, the oldest since_ns first: u32 mark,
 *                   u32 waiters, i64 since ns (waiting time before it is in the sketch);
 *                   and a section
 *     STATE_CONTENTION  u32 interval of the peaks, i64 landmark ns; waiting, refused, peaks: u8
 *                   entries; for each: u64 hash, double weight, error, u32 name length, bytes
 *     a holder      for each holding, newest first: u32 mark, units, limit, i64 since ns; u32 0;
 *                   for each wait, newest first: u32 mark, units, limit, u8 kind (1: any, 2: me),
 *                   i64 since ns, u64 age; u32 0
 *     a holding     u32 mark
 *     a walk        u32 shard, u64 hash
 */
#ifndef ENGINE_STATE_H
#define ENGINE_STATE_H

#include "base/record.h"
#include "engine/table.h"

#define STATE_TABLE      UINT32_C(0x0101)
#define STATE_SHARD      UINT32_C(0x0102)
#define STATE_CONTENTION (UINT32_C(0x0103) | RECORD_OPTIONAL)

/* Writes the section STATE_TABLE: everything except holders and waiters. */
void table_save(const struct table *t, struct moment now, struct record_writer *w);

/* Writes what one holder has. Fails with EBUSY if the holder has an unacknowledged result. */
void holder_save(const struct table *t, const struct holder *holder, struct record_writer *w);

/* Writes which of its holder's holdings this is. It must have units or waits. */
void holding_save(const struct table *t, const struct holding *held, struct record_writer *w);

/* Writes the position of a walk over the names. */
void table_walk_save(const struct table_walk *walk, struct record_writer *w);

/*
 * Reads the contents of STATE_TABLE into a table just made by table_new, with up to `threads`
 * threads, this one among them; the others end before it returns. Returns false on failure;
 * the reader has the reason. Until table_restore_done succeeds, use the table only to restore
 * holders, or free it; freeing it also forgets the holders.
 */
bool table_restore(struct table *t, struct moment now, unsigned threads,
                   struct record_reader *section) MUST_USE;

/*
 * Reads what holder_save wrote into a holder that is open and empty; its id and tag may differ from
 * the saved ones. Its waiters exist at once (`holder->waiters`), but join their queues only in
 * table_restore_done. Returns false on failure; the reader has the reason.
 */
bool holder_restore(struct table *t, struct holder *holder, struct record_reader *r) MUST_USE;

/*
 * Reads what holding_save wrote and returns that holding of a restored holder. NULL: there is none;
 * the reader has failed.
 */
struct holding *holding_restore(struct table *t, struct holder *holder, struct record_reader *r);

/*
 * Reads what table_walk_save wrote. If several names share 38 bits of their hashes, the walk may
 * visit some of them again.
 */
bool table_walk_restore(struct table_walk *walk, struct record_reader *r) MUST_USE;

/*
 * Call after all holders were restored. Puts waiters into their queues, and checks that the state
 * is complete and consistent. On failure returns false; the reason is in `r`, which may be any open
 * reader. On success the table is ready for normal use.
 */
bool table_restore_done(struct table *t, struct record_reader *r) MUST_USE;

#endif
