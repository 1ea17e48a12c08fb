/*
 * reserve_test.c - reservations: a holding that can get units later without memory, whatever the
 * limit; what becomes of its name meanwhile; and memory that is kept elsewhere.
 */
#include "engine/state.h"
#include "t/unit/engine/faults.h"
#include "t/unit/engine/tables.h"
#include "t/unit/random.h"

#include <sys/mman.h>

static struct holding *reserve(struct holder *holder, const char *name)
{
    struct holding *held = table_reserve(t, holder, name_of(name), 0, now);
    ck_assert(held != NULL);
    table_check(t);
    return held;
}

static void unreserve(struct holder *holder, struct holding *held)
{
    table_unreserve(t, holder, held, now);
    table_check(t);
}

static void add(struct holding *held, uint32_t units)
{
    ck_assert(table_add_held(t, held, units, now));
    table_check(t);
}

static void give_held(struct holder *holder, struct holding *held, uint32_t units)
{
    table_give_back_held(t, holder, held, units, now, &out);
    table_check(t);
}

/* ---- units and their name -------------------------------------------------------------------- */

TEST(reserved_holding_gets_units_later)
{
    start();
    struct holding *held = reserve(&h[0], "k");
    ck_assert_int_eq(count_of("k"), 0);
    ck_assert(stats().names == 1 && stats().holdings == 1 && stats().units == 0);
    ck_assert(stats().waiting == 0 && holding_units(held) == 0);
    ck_assert_uint_eq(holder_count(t, &h[0], 9), 1);
    ck_assert_int_eq(take(&h[1], "k", 2, 3), TABLE_OK);
    add(held, 3); /* beyond that limit */
    ck_assert_int_eq(count_of("k"), 5);
    ck_assert(peak_of("k") == 5 && stats().units == 5);
    ck_assert_int_eq(take(&h[1], "k", 1, 5), TABLE_BUSY);
    struct table_hold hold;
    ck_assert(table_holds(t, h[0].id, name_of("k"), now, &hold));
    ck_assert(hold.units == 3 && hold.limit == 0); /* it has acquired none */
    struct table_entry entry;
    struct table_wait none[1];
    size_t count;
    ck_assert_int_eq(table_inspect(t, name_of("k"), now, &entry, none, 1, &count), TABLE_OK);
    ck_assert(entry.holders == 2 && entry.waiting == 0 && entry.limit == 5 && count == 0);
    unreserve(&h[0], held);
    add(held, 1); /* it has units, so it is there */
    give_held(&h[0], held, 4);
    ck_assert(h[0].holdings == 0);
    ck_assert_int_eq(count_of("k"), 2);
    expect_nobody();
    finish();
}
END_TEST

/* Adds units whatever the limit. Returns the holding. */
static struct holding *add_to(struct holder *holder, const char *name, uint32_t units)
{
    struct holding *held = NULL;
    ck_assert_int_eq(table_add(t, holder, name_of(name), 0, units, now, &held), TABLE_OK);
    ck_assert(held != NULL);
    table_check(t);
    return held;
}

TEST(units_are_added_whatever_the_limit_which_stays)
{
    start();
    struct holding *held = add_to(&h[0], "k", 2);
    struct table_entry entry;
    struct table_wait none[1];
    size_t count;
    ck_assert_int_eq(table_inspect(t, name_of("k"), now, &entry, none, 1, &count), TABLE_OK);
    ck_assert(entry.consumption == 2 && entry.peak == 2 && entry.limit == 0);
    ck_assert_int_eq(take(&h[1], "k", 1, 3), TABLE_OK);
    ck_assert(add_to(&h[0], "k", 4) == held && holding_units(held) == 6);
    struct holding *other = add_to(&h[1], "k", 1); /* it has a holding, with a limit */
    ck_assert(holding_units(other) == 2 && count_of("k") == 8);
    ck_assert_int_eq(table_inspect(t, name_of("k"), now, &entry, none, 1, &count), TABLE_OK);
    ck_assert(entry.limit == 3 && entry.holders == 2);
    struct table_hold hold;
    ck_assert(table_holds(t, h[1].id, name_of("k"), now, &hold) && hold.limit == 3);
    ck_assert(table_holds(t, h[0].id, name_of("k"), now, &hold) && hold.limit == 0);
    give_held(&h[0], held, 6);
    give_held(&h[1], other, 2);
    ck_assert_int_eq(count_of("k"), 0); /* kept until its interval has ended */
    next_interval();
    next_interval();
    ck_assert_int_eq(count_of("k"), -1);
    finish();
}
END_TEST

TEST(units_that_are_too_many_are_not_added)
{
    start();
    struct holding *held = add_to(&h[0], "k", UINT32_MAX), *none = NULL;
    uint64_t names = stats().names_made;
    ck_assert_int_eq(table_add(t, &h[1], name_of("k"), 0, 1, now, &none), TABLE_BUSY);
    table_check(t);
    ck_assert(!none && count_of("k") == UINT32_MAX && stats().names_made == names);
    ck_assert(h[1].holdings == 0);
    give_held(&h[0], held, UINT32_MAX);
    finish();
}
END_TEST

TEST(holding_is_the_one_that_the_holder_has)
{
    start();
    struct holding *first = NULL;
    struct acquire a = {.name = name_of("k"), .units = 2, .limit = 10};
    ck_assert_int_eq(table_acquire(t, &h[0], &a, now, &first, NULL), TABLE_OK);
    struct holding *held = reserve(&h[0], "k");
    ck_assert(held == first && reserve(&h[0], "k") == held);
    ck_assert_int_eq(give(&h[0], "k", 2), TABLE_OK);
    ck_assert_int_eq(count_of("k"), 0);
    unreserve(&h[0], held);
    add(held, 1);
    unreserve(&h[0], held);
    ck_assert_int_eq(take(&h[0], "k", 1, 10), TABLE_OK);
    ck_assert(holding_units(held) == 2);
    table_close(t, &h[0], now, NULL, &out);
    table_check(t);
    finish();
}
END_TEST

TEST(reserved_name_does_not_expire)
{
    start();
    struct holding *held = reserve(&h[0], "k"), *other = reserve(&h[1], "k");
    ck_assert_int_eq(take_keep(&h[2], "idle", 1, 9), TABLE_OK);
    ck_assert_int_eq(give(&h[2], "idle", 1), TABLE_OK);
    for (int i = 0; i < 5; i++) {
        next_interval();
        if (i % 2)
            collect_all(1 + (unsigned)i);
        ck_assert_int_eq(count_of("k"), 0);
        ck_assert(stats().names == 1 && walk_for("k").times == 1);
        table_check(t);
    }
    add(held, 2);
    ck_assert(peak_of("k") == 2);
    next_interval();
    give_held(&h[0], held, 2);
    ck_assert(peak_of("k") == 2); /* it had them in this interval */
    next_interval();
    ck_assert(peak_of("k") == 0);
    unreserve(&h[0], held);
    next_interval();
    next_interval();
    ck_assert_int_eq(count_of("k"), 0);
    unreserve(&h[1], other);
    ck_assert_int_eq(count_of("k"), 0); /* kept until its interval has ended */
    ck_assert(stats().holdings == 0 && stats().names == 1);
    next_interval();
    ck_assert(stats().names == 0);
    ck_assert_int_eq(count_of("k"), -1);
    ck_assert(stats().names_made == 2);
    finish();
}
END_TEST

/* The number of names includes both kinds, and only these. */
TEST(kept_names_are_counted_beside_reserved_ones)
{
    start();
    ck_assert_int_eq(take_keep(&h[2], "a", 1, 9), TABLE_OK);
    ck_assert_int_eq(give(&h[2], "a", 1), TABLE_OK);
    struct holding *held = reserve(&h[0], "a"), *b = reserve(&h[0], "b");
    table_check(t);
    next_interval();
    ck_assert(stats().names == 2);
    ck_assert_int_eq(take_keep(&h[2], "a", 1, 9), TABLE_OK);
    ck_assert_int_eq(give(&h[2], "a", 1), TABLE_OK);
    table_check(t);
    unreserve(&h[0], held);
    ck_assert(stats().names == 2);
    next_interval();
    ck_assert(stats().names == 1);
    ck_assert(collect_all(100) == 1);
    unreserve(&h[0], b);
    next_interval();
    ck_assert(stats().names == 0 && collect_all(100) == 1);
    finish();
}
END_TEST

TEST(sum_of_units_does_not_overflow)
{
    start();
    struct holding *held = reserve(&h[0], "k"), *other = reserve(&h[1], "k");
    add(held, UINT32_MAX - 5);
    add(other, 3);
    ck_assert(!table_add_held(t, other, 3, now) && !table_add_held(t, held, UINT32_MAX, now));
    table_check(t);
    ck_assert(count_of("k") == UINT32_MAX - 2 && holding_units(other) == 3);
    add(held, 2);
    ck_assert(!table_add_held(t, other, 1, now) && !table_add_held(t, held, 1, now));
    ck_assert(count_of("k") == UINT32_MAX && peak_of("k") == UINT32_MAX);
    give_held(&h[1], other, 1);
    add(held, 1);
    give_held(&h[1], other, 2);
    give_held(&h[0], held, UINT32_MAX - 2);
    unreserve(&h[0], held);
    unreserve(&h[1], other);
    finish();
}
END_TEST

TEST(closing_a_holder_with_a_reservation_aborts)
{
    start();
    (void)reserve(&h[0], "k");
    table_close(t, &h[0], now, NULL, &out);
}
END_TEST

TEST(adding_to_a_holding_that_only_waits_aborts)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    struct waiter *w = wait_for(&h[1], WAIT_ME, "k", 1, 1);
    (void)!table_add_held(t, w->holding, 1, now);
}
END_TEST

TEST(undoing_more_than_was_reserved_aborts)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    struct waiter *w = wait_for(&h[1], WAIT_ME, "k", 1, 1);
    table_unreserve(t, &h[1], w->holding, now);
}
END_TEST

/* ---- waiters ----------------------------------------------------------------------------------
 */

TEST(units_that_come_back_wake_as_a_release_or_as_an_end)
{
    for (int as_end = 0; as_end < 2; as_end++) {
        start();
        struct holding *held = reserve(&h[0], "k");
        add(held, 2);
        struct waiter *any = wait_for(&h[1], WAIT_ANY, "k", 1, 2);
        struct waiter *big = wait_for(&h[2], WAIT_ME, "k", 2, 2);
        struct waiter *me = wait_for(&h[3], WAIT_ME, "k", 1, 2);
        if (as_end)
            table_give_back_held(t, &h[0], held, 1, now, &out);
        else
            table_release_held(t, &h[0], held, 1, now, &out);
        table_check(t);
        if (!as_end)
            expect(any, WAITER_DONE);
        expect(me, WAITER_GRANTED);
        expect_nobody();
        if (as_end) {
            table_give_back_held(t, &h[0], held, 1, now, &out);
            expect(any, WAITER_GRANTED);
            ck_assert_int_eq(table_end_wait(t, big, WAITER_CANCELLED, now), WAITER_CANCELLED);
        } else {
            table_release_held(t, &h[0], held, 1, now, &out);
            expect_nobody();
            ck_assert_int_eq(give(&h[3], "k", 1), TABLE_OK);
            expect(big, WAITER_GRANTED);
        }
        table_check(t);
        unreserve(&h[0], held);
        finish();
    }
}
END_TEST

/* A waiter that fits has come before, so a reservation is in nobody's way. */
TEST(holder_may_wait_and_reserve)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 2, 2), TABLE_OK);
    struct waiter *w = wait_for(&h[1], WAIT_ME, "k", 1, 2);
    struct holding *held = reserve(&h[1], "k");
    ck_assert(held == w->holding);
    ck_assert_int_eq(table_end_wait(t, w, WAITER_TIMED_OUT, now), WAITER_TIMED_OUT);
    table_check(t);
    w = wait_for(&h[1], WAIT_ME, "k", 1, 2);
    unreserve(&h[1], held);
    held = reserve(&h[1], "k");
    add(held, 1);
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    expect_nobody();
    ck_assert_int_eq(give(&h[0], "k", 1), TABLE_OK);
    expect(w, WAITER_GRANTED);
    ck_assert(holding_units(held) == 2);
    unreserve(&h[1], held);
    finish();
}
END_TEST

TEST(reservations_are_counted_with_the_waits)
{
    start();
    ck_assert_int_eq(take(&h[0], "k", 1, 1), TABLE_OK);
    struct waiter *w = wait_for(&h[1], WAIT_ME, "k", 1, 1);
    struct holding *held = w->holding;
    for (uint32_t i = 1; i < TABLE_WAITS_MAX; i++)
        REQUIRE(table_reserve(t, &h[1], name_of("k"), 0, now) == held);
    ck_assert(table_reserve(t, &h[1], name_of("k"), 0, now) == NULL);
    struct acquire a = {.name = name_of("k"), .units = 1, .limit = 1, .wait = WAIT_ME};
    struct waiter *none;
    ck_assert_int_eq(ask(&h[1], &a, &none), TABLE_NO_MEMORY);
    table_check(t);
    for (uint32_t i = 1; i < TABLE_WAITS_MAX; i++)
        table_unreserve(t, &h[1], held, now);
    table_check(t);
    ck_assert_int_eq(table_end_wait(t, w, WAITER_TIMED_OUT, now), WAITER_TIMED_OUT);
    finish();
}
END_TEST

/* ---- memory -----------------------------------------------------------------------------------
 */

/* Lets each allocation fail in turn; a failure changes nothing. Returns the number of failures. */
static unsigned refuse_each(struct holder *holder, struct bytes name, struct holding **held_r)
{
    for (unsigned n = 1;; n++) {
        struct table_stats before = stats(), after;
        ref_t holdings = holder->holdings;
        fault_countdown = n;
        *held_r = table_reserve(t, holder, name, 0, now);
        bool refused = fault_countdown == 0;
        fault_countdown = 0;
        table_check(t);
        if (*held_r)
            return refused ? n : n - 1;
        after = stats();
        ck_assert(refused && holder->holdings == holdings);
        ck_assert(after.names == before.names && after.names_made == before.names_made &&
                  after.holdings == before.holdings && after.units == before.units);
        size_t memory = after.memory;
        for (int again = 0; again < 1500; again++) {
            fault_countdown = n;
            REQUIRE(table_reserve(t, holder, name, 0, now) == NULL);
            fault_countdown = 0;
        }
        ck_assert(stats().memory == memory);
    }
}

TEST(without_memory_nothing_changes)
{
    static unsigned char bytes[3000];
    start();
    struct holding *held[6];
    ck_assert_msg(refuse_each(&h[0], name_of("k"), &held[0]) == 2, "link with fault_wraps");
    ck_assert(refuse_each(&h[1], name_of("k"), &held[1]) == 1); /* a holding outside */
    ck_assert(refuse_each(&h[1], name_of("k"), &held[2]) == 0);
    ck_assert(refuse_each(&h[0], bytes_at(bytes, sizeof(bytes)), &held[3]) == 4);
    ck_assert_int_eq(take(&h[2], "used", 1, 1), TABLE_OK);
    ck_assert(refuse_each(&h[2], name_of("used"), &held[4]) == 1); /* a queue */
    ck_assert_int_eq(take_keep(&h[2], "idle", 1, 1), TABLE_OK);
    ck_assert_int_eq(give(&h[2], "idle", 1), TABLE_OK);
    ck_assert(refuse_each(&h[3], name_of("idle"), &held[5]) == 1);
    /* From here on nothing is allocated. */
    fault_countdown = 1;
    for (int i = 0; i < 6; i++)
        REQUIRE(table_add_held(t, held[i], 1, now));
    table_release_held(t, &h[0], held[0], 1, now, &out);
    table_give_back_held(t, &h[1], held[1], 2, now, &out);
    table_unreserve(t, &h[0], held[0], now);
    table_unreserve(t, &h[1], held[1], now);
    table_unreserve(t, &h[1], held[1], now);
    table_unreserve(t, &h[0], held[3], now);
    table_unreserve(t, &h[2], held[4], now);
    table_unreserve(t, &h[3], held[5], now);
    REQUIRE(fault_countdown == 1);
    fault_countdown = 0;
    finish();
}
END_TEST

TEST(without_memory_no_units_are_added)
{
    start();
    struct holding *held = NULL;
    unsigned refused = 0;
    for (int i = 0; i < 3; i++) { /* a counter; a holding outside; nothing */
        struct table_stats before = stats();
        fault_countdown = 1;
        enum table_status status = table_add(t, &h[i == 0 ? 0 : 1], name_of("k"), 0, 1, now, &held);
        refused += fault_countdown == 0;
        fault_countdown = 0;
        table_check(t);
        ck_assert_int_eq(status, i < 2 ? TABLE_NO_MEMORY : TABLE_OK);
        if (i < 2) {
            ck_assert(!held && stats().units == before.units && stats().names == before.names);
            (void)add_to(&h[i], "k", 1);
        }
    }
    ck_assert_msg(refused == 2 && count_of("k") == 3, "link with fault_wraps");
    finish();
}
END_TEST

TEST(at_the_limit_reserved_holdings_get_their_units)
{
    enum { MANY = 100 };
    static unsigned char bytes[TABLE_NAME_MAX];
    struct holding *held[MANY], *others[MANY];
    start_with(&(struct table_config){
        .buckets = 1000, .memory_limit = 16 * MIB, .stats_interval_s = INTERVAL});
    for (uint32_t i = 0; i < MANY; i++) {
        struct bytes name = bytes_at(&i, sizeof(i));
        held[i] = table_reserve(t, &h[0], name, 0, now);
        others[i] = i % 2 ? table_reserve(t, &h[1], name, 0, now) : NULL;
        ck_assert(held[i] && (others[i] || i % 2 == 0));
    }
    uint32_t number = MANY;
    for (size_t len = TABLE_NAME_MAX; len > 8;) {
        number++;
        memcpy(bytes, &number, sizeof(number));
        if (take_bytes(&h[2], bytes, len, 1, false) == TABLE_NO_MEMORY)
            len /= 2;
    }
    uint64_t fresh = 1; /* names of 8 bytes, for which there is memory in begun pages */
    while (table_reserve(t, &h[3], bytes_at(&fresh, sizeof(fresh)), 0, now) != NULL)
        fresh++;
    table_check(t);
    for (uint32_t i = 0; i < MANY; i++) {
        add(held[i], i + 1);
        if (others[i])
            add(others[i], 1);
        ck_assert_uint_eq(count_of_bytes(&i, sizeof(i)), i + 1 + i % 2);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        give_held(&h[0], held[i], i + 1);
        unreserve(&h[0], held[i]);
        if (others[i])
            unreserve(&h[1], others[i]);
    }
    while (--fresh > 0) {
        struct holding *again = table_reserve(t, &h[3], bytes_at(&fresh, sizeof(fresh)), 0, now);
        ck_assert(again != NULL);
        table_unreserve(t, &h[3], again, now);
        table_unreserve(t, &h[3], again, now);
    }
    finish();
}
END_TEST

TEST(memory_kept_elsewhere_is_in_the_limit)
{
    start_with(&(struct table_config){
        .buckets = 1000, .memory_limit = 16 * MIB, .stats_interval_s = INTERVAL});
    size_t before = stats().memory, rest = 16 * MIB - before;
    ck_assert(!table_charge(t, rest + 1) && stats().memory == before);
    ck_assert(table_charge(t, rest - 1) && table_charge(t, 1) && !table_charge(t, 1));
    ck_assert(stats().memory == 16 * MIB && table_is_tight(t));
    uint32_t i = 0;
    while (take_bytes(&h[0], &i, sizeof(i), 1, false) == TABLE_OK)
        i++;
    table_uncharge(t, rest);
    ck_assert(stats().memory < 16 * MIB);
    ck_assert_int_eq(take_bytes(&h[0], &i, sizeof(i), 1, false), TABLE_OK);
    finish();
}
END_TEST

/* ---- upgrades ---------------------------------------------------------------------------------
 */

enum { KIND_HOLDERS = 0x7001 };

/* Saves the table and all holders to a file, and returns its descriptor. */
static int save_all(void)
{
    static struct record_writer w;
    int fd = memfd_create("state", MFD_CLOEXEC);
    ck_assert(fd >= 0);
    record_writer_init(&w, fd);
    table_save(t, now, &w);
    record_begin(&w, KIND_HOLDERS);
    for (int i = 0; i < HOLDERS; i++)
        holder_save(t, &h[i], &w);
    record_end(&w);
    ck_assert(record_finish(&w));
    return fd;
}

/* Ends the table, in which nothing is reserved, and continues with what was saved. */
static void go_on_with(int fd)
{
    struct record_reader r, section;
    uint32_t kind;
    for (int i = 0; i < HOLDERS; i++)
        table_close(t, &h[i], now, NULL, &out);
    for (struct mail *m; (m = mail_list_take(&out)) != NULL;)
        table_waiter_free(t, waiter_of(m));
    table_free(&t);
    t = table_new(&(struct table_config){
        .buckets = 100, .memory_limit = 64 * MIB, .stats_interval_s = INTERVAL});
    ck_assert(t != NULL && record_map(&r, fd));
    ck_assert(record_enter(&r, &kind, &section) && kind == STATE_TABLE);
    ck_assert_msg(table_restore(t, now, 1, &section), "%s", section.why);
    record_leave(&section);
    ck_assert(record_enter(&r, &kind, &section) && kind == KIND_HOLDERS);
    for (int i = 0; i < HOLDERS; i++) {
        holder_init(&h[i], h[i].id, h[i].tag);
        ck_assert_msg(holder_restore(t, &h[i], &section), "%s", section.why);
    }
    record_leave(&section);
    ck_assert_msg(table_restore_done(t, &r), "%s", r.why);
    record_unmap(&r);
    close(fd);
    table_check(t);
}

TEST(upgrade_carries_units_and_names_without_reservations)
{
    start();
    struct holding *held[] = {reserve(&h[0], "empty"), reserve(&h[0], "empty"),
                              reserve(&h[0], "held"), reserve(&h[0], "shared")};
    add(held[0], 7);
    give_held(&h[0], held[0], 7);
    add(held[2], 2);
    ck_assert_int_eq(take(&h[1], "shared", 4, 9), TABLE_OK);
    ck_assert_int_eq(take_keep(&h[1], "idle", 1, 9), TABLE_OK);
    ck_assert_int_eq(give(&h[1], "idle", 1), TABLE_OK);
    ck_assert_uint_eq(stats().names, 4);
    int fd = save_all();
    table_check(t);
    for (size_t i = 0; i < ARRAY_SIZE(held); i++)
        unreserve(&h[0], held[i]);
    go_on_with(fd);
    struct table_stats s = stats();
    ck_assert(s.names == 4 && s.holdings == 2 && s.units == 6 && s.waiting == 0);
    ck_assert_int_eq(count_of("empty"), 0);
    ck_assert(peak_of("empty") == 7 && count_of("held") == 2 && count_of("shared") == 4);
    struct holding *empty = reserve(&h[0], "empty"), *one = reserve(&h[0], "held");
    ck_assert(holding_units(one) == 2);
    ck_assert(stats().names == 4 && stats().holdings == 3 && stats().names_made == 4);
    next_interval();
    ck_assert(stats().names == 3); /* without the one that is idle */
    ck_assert(collect_all(100) == 1);
    table_check(t);
    give_held(&h[0], one, 2);
    unreserve(&h[0], one);
    unreserve(&h[0], empty);
    finish();
}
END_TEST

/* ---- at random --------------------------------------------------------------------------------
 */

enum { NAMES = 4, PAIRS = HOLDERS / 2 };

static const char *const names[NAMES] = {"a", "b", "pool:c", "pool:d"};

/* What a holder has of a name. */
struct plain {
    uint32_t units, reservations, waits;
    struct holding *held; /* while it is reserved */
};

static struct plain plain[HOLDERS][NAMES];
static struct rng rng;

static unsigned number_of(const struct holder *holder)
{
    return (unsigned)(holder - h);
}

static unsigned name_number(struct holding *held)
{
    struct bytes name = holding_name(t, held);
    for (unsigned n = 0; n < NAMES; n++) {
        if (strlen(names[n]) == name.len && memcmp(names[n], name.data, name.len) == 0)
            return n;
    }
    ck_abort_msg("no such name");
    return 0;
}

static uint32_t sum_of(unsigned n)
{
    uint32_t sum = 0;
    for (unsigned i = 0; i < HOLDERS; i++)
        sum += plain[i][n].units;
    return sum;
}

/* Takes the verdicts. A `release` ends each WAIT_ANY, an end only grants. */
static void take_verdicts(bool release)
{
    for (struct mail *m; (m = mail_list_take(&out)) != NULL;) {
        struct waiter *w = waiter_of(m);
        REQUIRE(w->holder);
        struct plain *p = &plain[number_of(w->holder)][name_number(w->holding)];
        REQUIRE(p->waits > 0);
        p->waits--;
        REQUIRE(w->state == WAITER_GRANTED || (w->state == WAITER_DONE && release));
        REQUIRE(!release || (w->state == WAITER_DONE) == (w->kind == WAIT_ANY));
        p->units += w->state == WAITER_GRANTED ? w->units : 0;
        (void)table_take_verdict(t, w);
        table_waiter_free(t, w);
    }
}

static void acquire_some(struct holder *holder, unsigned n)
{
    struct acquire a = {.name = name_of(names[n]), .keep = rng_one_in(&rng, 3)};
    struct waiter *w = NULL;
    a.units = 1 + rng_below(&rng, 3);
    a.limit = a.units + rng_below(&rng, 8);
    a.wait = (enum wait_kind)rng_below(&rng, 3);
    uint32_t sum = sum_of(n);
    enum table_status status = ask(holder, &a, &w);
    struct plain *p = &plain[number_of(holder)][n];
    if (sum + a.units <= a.limit) {
        REQUIRE(status == TABLE_OK);
        p->units += a.units;
    } else if (a.wait == WAIT_NO) {
        REQUIRE(status == TABLE_BUSY);
    } else {
        REQUIRE(status == TABLE_WAITING);
        p->waits++;
    }
}

static void reserve_some(struct holder *holder, unsigned n)
{
    struct plain *p = &plain[number_of(holder)][n];
    struct holding *held = table_reserve(t, holder, name_of(names[n]), 0, now);
    REQUIRE(held && (p->reservations == 0 || held == p->held));
    p->held = held;
    p->reservations++;
}

static void unreserve_one(struct holder *holder, struct plain *p)
{
    table_unreserve(t, holder, p->held, now);
    p->reservations--;
}

static void close_one(struct holder *holder)
{
    struct plain *all = plain[number_of(holder)];
    for (unsigned n = 0; n < NAMES; n++) {
        while (all[n].reservations > 0)
            unreserve_one(holder, &all[n]);
        all[n] = (struct plain){0};
    }
    uint32_t id = holder->id;
    uint64_t tag = holder->tag;
    table_close(t, holder, now, NULL, &out);
    holder_init(holder, id, tag);
    take_verdicts(false);
}

static void step(void)
{
    struct holder *holder = &h[rng_below(&rng, HOLDERS)];
    unsigned n = rng_below(&rng, NAMES), what = rng_below(&rng, 100);
    struct plain *p = &plain[number_of(holder)][n];
    now.mono_ns += rng_below(&rng, 5000000);
    if (what < 25) {
        acquire_some(holder, n);
    } else if (what < 40) {
        reserve_some(holder, n);
    } else if (what < 55 && p->reservations > 0) {
        unreserve_one(holder, p);
    } else if (what < 70 && p->reservations > 0) {
        uint32_t units = 1 + rng_below(&rng, 3);
        REQUIRE(table_add_held(t, p->held, units, now));
        p->units += units;
    } else if (what < 80 && p->units > 0) {
        uint32_t units = 1 + rng_below(&rng, p->units);
        REQUIRE(give(holder, names[n], units) == TABLE_OK);
        p->units -= units;
        take_verdicts(true);
    } else if (what < 90 && p->units > 0 && p->reservations > 0) {
        uint32_t units = 1 + rng_below(&rng, p->units);
        p->units -= units;
        if (what % 2) {
            table_release_held(t, holder, p->held, units, now, &out);
            take_verdicts(true);
        } else {
            table_give_back_held(t, holder, p->held, units, now, &out);
            take_verdicts(false);
        }
    } else if (what < 94 && holder->waiters) {
        struct waiter *w = holder->waiters;
        plain[number_of(holder)][name_number(w->holding)].waits--;
        REQUIRE(table_end_wait(t, w, WAITER_TIMED_OUT, now) == WAITER_TIMED_OUT);
    } else if (what < 96) {
        close_one(holder);
    } else if (what < 97) {
        next_interval();
    } else if (what < 98) {
        (void)collect_all(10);
    } else {
        struct holding *held;
        REQUIRE(table_add(t, holder, name_of(names[n]), 0, what, now, &held) == TABLE_OK);
        REQUIRE(p->reservations == 0 || held == p->held);
        p->units += what;
    }
}

static void compare(void)
{
    uint32_t units = 0, holdings = 0;
    for (unsigned n = 0; n < NAMES; n++) {
        bool exists = false;
        uint32_t sum = sum_of(n);
        for (unsigned i = 0; i < HOLDERS; i++) {
            const struct plain *p = &plain[i][n];
            struct table_hold hold = {.units = 0};
            REQUIRE(table_holds(t, h[i].id, name_of(names[n]), now, &hold) == (p->units > 0));
            REQUIRE(hold.units == p->units);
            REQUIRE(p->reservations == 0 || holding_units(p->held) == p->units);
            holdings += p->units || p->reservations || p->waits;
            exists = exists || p->units || p->reservations;
        }
        int64_t count = count_of(names[n]);
        REQUIRE(count == sum || (count == -1 && !exists));
        units += sum;
    }
    struct table_stats s = stats();
    REQUIRE(s.units == units && s.holdings == holdings);
    table_check(t);
}

/* An upgrade; all reservations are made again. */
static void carry_over(void)
{
    uint64_t names_before = stats().names, made_before = stats().names_made;
    int fd = save_all();
    compare();
    for (unsigned i = 0; i < HOLDERS; i++) {
        for (unsigned n = 0; n < NAMES; n++) {
            for (uint32_t k = 0; k < plain[i][n].reservations; k++)
                table_unreserve(t, &h[i], plain[i][n].held, now);
        }
    }
    go_on_with(fd);
    for (unsigned i = 0; i < HOLDERS; i++) {
        for (unsigned n = 0; n < NAMES; n++) {
            uint32_t count = plain[i][n].reservations;
            plain[i][n].reservations = 0;
            while (plain[i][n].reservations < count)
                reserve_some(&h[i], n);
        }
    }
    compare();
    REQUIRE(stats().names == names_before && stats().names_made >= made_before);
}

/* Each connection has two holders: one that acquires and waits, and one for what a service adds;
 * but here both do everything. The calls are made under a lock of a lower rank. */
TEST(random_requests_leave_what_a_plain_count_says)
{
    struct lock pools;
    lock_init(&pools, LOCK_RANK_POOLS);
    start();
    rng = rng_start("reservations", random_seed());
    for (int i = 0; i < PAIRS; i++)
        holder_init(&h[2 * i + 1], h[2 * i].id + 0x800000, h[2 * i].tag);
    for (unsigned i = 0; i < 200000; i++) {
        lock_acquire(&pools);
        step();
        compare();
        if (rng_one_in(&rng, 1000))
            carry_over();
        lock_release(&pools);
    }
    for (int i = 0; i < HOLDERS; i++)
        close_one(&h[i]);
    compare();
    finish();
    lock_destroy(&pools);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(reserved_holding_gets_units_later),
    UNIT(units_are_added_whatever_the_limit_which_stays),
    UNIT(units_that_are_too_many_are_not_added),
    UNIT(holding_is_the_one_that_the_holder_has),
    UNIT(reserved_name_does_not_expire),
    UNIT(kept_names_are_counted_beside_reserved_ones),
    UNIT(sum_of_units_does_not_overflow),
    UNIT_ABORTS(closing_a_holder_with_a_reservation_aborts),
    UNIT_ABORTS(adding_to_a_holding_that_only_waits_aborts),
    UNIT_ABORTS(undoing_more_than_was_reserved_aborts),
    UNIT(units_that_come_back_wake_as_a_release_or_as_an_end),
    UNIT(holder_may_wait_and_reserve),
    UNIT(reservations_are_counted_with_the_waits),
    UNIT(without_memory_nothing_changes),
    UNIT(without_memory_no_units_are_added),
    UNIT(at_the_limit_reserved_holdings_get_their_units),
    UNIT(memory_kept_elsewhere_is_in_the_limit),
    UNIT(upgrade_carries_units_and_names_without_reservations),
    UNIT(random_requests_leave_what_a_plain_count_says),
};

UNIT_MAIN("engine/reserve", tests)
