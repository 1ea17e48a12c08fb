/* job_backup_test.c - how the store's thread shares its time between transactions and a copy. */
#include "service/job_backup.h"

#include "t/unit/unit.h"

#define MS NS_PER_MS

/* The times of `rounds` transactions with pieces of a copy between them, while a transaction is
 * always queued. */
struct shared {
    int64_t worked_ns, copied_ns, longest_ns; /* longest: of the pieces between two transactions */
};

static struct shared share_for(unsigned rounds, int64_t work_ns, int64_t piece_ns)
{
    struct backup_share share = {0};
    struct shared shared = {0};
    for (unsigned i = 0; i < rounds; i++) {
        backup_share_worked(&share, work_ns);
        shared.worked_ns += work_ns;
        int64_t took_ns = 0;
        do
            took_ns += piece_ns;
        while (backup_share_copied(&share, piece_ns));
        shared.copied_ns += took_ns;
        if (took_ns > shared.longest_ns)
            shared.longest_ns = took_ns;
    }
    return shared;
}

TEST(a_copy_gets_as_much_time_as_transactions_and_each_waits_for_a_bounded_time)
{
    static const struct {
        int64_t work_ns, piece_ns;
    } rows[] = {{MS, MS / 3}, {10 * MS, MS / 4}, {MS / 100, MS}, {50 * MS, 7 * MS}};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct shared shared = share_for(1000, rows[i].work_ns, rows[i].piece_ns);
        int64_t longer_ns = rows[i].work_ns > rows[i].piece_ns ? rows[i].work_ns : rows[i].piece_ns;
        ck_assert(shared.copied_ns >= shared.worked_ns - longer_ns);
        ck_assert(shared.longest_ns <= longer_ns + rows[i].piece_ns);
    }
}
END_TEST

/* The pieces of 1 ms before the next transaction. */
static unsigned pieces(struct backup_share *share)
{
    unsigned count = 1;
    while (backup_share_copied(share, MS))
        count++;
    return count;
}

TEST(neither_side_saves_up_time)
{
    struct backup_share share = {0};
    backup_share_worked(&share, 3600 * NS_PER_S);
    ck_assert_uint_eq(pieces(&share), BACKUP_WAIT_NS / MS);
    for (int i = 0; i < 1000; i++)
        backup_share_worked(&share, 2 * MS); /* nothing is queued behind it */
    ck_assert_uint_eq(pieces(&share), 2);
    (void)backup_share_copied(&share, 3600 * NS_PER_S);
    backup_share_worked(&share, BACKUP_WAIT_NS);
    backup_share_worked(&share, 2 * MS);
    ck_assert_uint_eq(pieces(&share), 2);
}
END_TEST

UNIT_MAIN("service/job_backup")
