/*
 * state.h - a table's state to and from a record (base/record.h), when a process hands on to the
 * next. No other thread is in the table, and no verdict is on its way: all have been settled.
 *
 * What is kept: names with consumption, peak, limit, interval, and those kept at 0; of each holder
 * its holdings in their order with units, limit and since when; its waits with units, limit, kind,
 * since when, and their age among all others; what is contended; the sums. The key of the hash goes
 * along, because a walk's place is told by hashes (so Dump goes on where it was) and the names on
 * the lists of what is contended are known by theirs, of long ones only the beginning is there.
 *
 * The new table may have other settings. How many buckets it has makes no difference. Where there
 * is more than its memory limit allows, all is restored nevertheless and nothing more is taken.
 * Where its intervals have another length, what was used in the interval that runs, is in the one
 * that runs now, and what has expired is gone.
 *
 * Order: table_save, then each holder; so it is read, then table_restore_done puts the waiters in
 * line. The names are a section, holders are values in a section of the caller's. In between a name
 * is known by a mark (where it lay in the old table).
 *
 *     STATE_TABLE   u32 shards, u64 key k0, k1, u32 interval length in s, u32 interval that runs,
 *                   u64 bytes of memory, u64 names; and of each shard a section
 *     STATE_SHARD   u32 number, u64 age of the youngest waiter, u64 names made, u16 idle interval,
 *                   u64 idle in it, u64 in the one before, u64 names;
 *                   of each name: u32 mark, consumption, peak, limit, u16 interval, u8 flags
 *                   (1: kept at 0), u16 length and that many bytes;
 *                   u64 lines; of each name with a line, the oldest since_ns first: u32 mark,
 *                   u32 waiters, i64 since ns (up to when its waiting time is in the sketch);
 *                   and a section
 *     STATE_CONTENTION  u32 interval of the peaks, i64 landmark ns; waiting, refused, peaks: u8
 *                   entries; of each: u64 hash, double weight, error, u32 length of the name, bytes
 *     a holder      of each holding, newest first: u32 mark, units, limit, i64 since ns; u32 0;
 *                   of each wait, newest first: u32 mark, units, limit, u8 kind (1: any, 2: me),
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

/* Writes the section STATE_TABLE: all but who holds and waits. */
void table_save(const struct table *t, struct moment now, struct record_writer *w);

/*
 * What one holder has. Where it has a verdict that is not settled, the writer fails with EBUSY.
 */
void holder_save(const struct table *t, const struct holder *holder, struct record_writer *w);

/* Which of its holder's holdings this is. */
void holding_save(const struct table *t, const struct holding *held, struct record_writer *w);

/* How far a walk over the names has come. */
void table_walk_save(const struct table_walk *walk, struct record_writer *w);

/*
 * Reads what is in the section STATE_TABLE into a table that is as table_new made it. False: it
 * can't be, and the reader says why. Then, and while table_restore_done has not been called with
 * success, the table may only be read for other holders, or freed; who holds is forgotten with it.
 */
bool table_restore(struct table *t, struct moment now, struct record_reader *section) MUST_USE;

/*
 * Reads what holder_save wrote for a holder that has been opened and has nothing yet; its id and
 * tag may be others than before. Its waiters are there at once (`holder->waiters`), in line only
 * when all is done. False: the reader says why.
 */
bool holder_restore(struct table *t, struct holder *holder, struct record_reader *r) MUST_USE;

/* Reads what holding_save wrote: a holding of this holder, which was restored; NULL: it has none,
 * and the reader has failed. */
struct holding *holding_restore(struct table *t, struct holder *holder, struct record_reader *r);

/* Reads what table_walk_save wrote. Where several names agree in 38 bits of their hashes, those of
 * them that the walk had come to may be visited again. */
bool table_walk_restore(struct table_walk *walk, struct record_reader *r) MUST_USE;

/*
 * All holders have been restored: puts waiters in line, and makes sure that nothing is missing and
 * nothing contradicts itself. False: the reader, any that is open, says why. From then on the table
 * is as any other.
 */
bool table_restore_done(struct table *t, struct record_reader *r) MUST_USE;

#endif
