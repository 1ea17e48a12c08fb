/*
 * inspect_test.c - inspection: one name with its waiters, the walk over its holders, one holder's
 * units, start and limit; and the duration of holdings.
 */
#include "engine/table.h"

#include "t/unit/random.h"

#include <string.h>

#define INTERVAL 100L
#define MIB      ((size_t)1 << 20)
#define STEP_NS  1024 /* of since_ns */

enum { HOLDERS = 12, MANY = 4000 };

static struct table *t;
static struct holder h[HOLDERS], many[MANY];
static verdicts out;
static struct moment now = {.mono_ns = 5000 * NS_PER_S, .unix_s = 1000 * INTERVAL};
static uint32_t next_id = 1;
static const struct hash_key hash_key = {.k0 = 1, .k1 = 2};

static void open_holder(struct holder *holder)
{
    uint32_t id = next_id++;
    holder_init(holder, id, UINT64_C(0x7000000000000000) + id);
}

static void start(void)
{
    t = table_new(&(struct table_config){
        .buckets = 100,
        .memory_limit = 64 * MIB,
        .stats_interval_s = INTERVAL,
        .hash_key = hash_key,
    });
    ck_assert(t != NULL);
    mail_list_init(&out);
    for (int i = 0; i < HOLDERS; i++)
        open_holder(&h[i]);
    for (int i = 0; i < MANY; i++)
        open_holder(&many[i]);
}

static void free_letters(void)
{
    for (struct mail *m; (m = mail_list_take(&out)) != NULL;) {
        struct waiter *w = waiter_of(m);
        if (w->holder)
            (void)table_take_verdict(t, w);
        table_waiter_free(t, w);
    }
}

static void finish(void)
{
    for (int i = 0; i < HOLDERS; i++)
        table_close(t, &h[i], now, NULL, &out);
    for (int i = 0; i < MANY; i++)
        table_close(t, &many[i], now, NULL, &out);
    free_letters();
    table_check(t);
    table_free(&t);
}

static enum table_status ask(struct holder *holder, const char *name, uint32_t units,
                             uint32_t limit, enum wait_kind kind)
{
    struct acquire a = {.name = bytes_of(name), .units = units, .limit = limit, .wait = kind};
    struct waiter *w = NULL;
    return table_acquire(t, holder, &a, now, NULL, &w);
}

static enum table_status take(struct holder *holder, const char *name, uint32_t units,
                              uint32_t limit)
{
    return ask(holder, name, units, limit, WAIT_NO);
}

static enum table_status give(struct holder *holder, const char *name, uint32_t units)
{
    return table_release(t, holder, &(struct release){.name = bytes_of(name), .units = units}, now,
                         NULL, &out);
}

static struct table_entry entry_of(const char *name)
{
    struct table_entry entry;
    size_t count = 99;
    ck_assert(table_inspect(t, bytes_of(name), now, &entry, NULL, 0, &count) == TABLE_OK);
    ck_assert(count == 0 && (const char *)entry.name.data == name &&
              entry.name.len == strlen(name));
    return entry;
}

/* The holder's units of the name; it must have some. */
static struct table_hold hold_of(const struct holder *holder, const char *name)
{
    struct table_hold hold;
    ck_assert(table_holds(t, holder->id, bytes_of(name), now, &hold));
    ck_assert(hold.holder == holder->id && hold.units > 0);
    return hold;
}

static bool holds(const struct holder *holder, const char *name)
{
    struct table_hold hold;
    return table_holds(t, holder->id, bytes_of(name), now, &hold);
}

/* True if `ns` is what the table shows for a holding that began at `since_ns`. */
static bool is_since(int64_t ns, int64_t since_ns)
{
    return ns <= since_ns && ns > since_ns - STEP_NS;
}

/* ---- a name ---------------------------------------------------------------------------------- */

TEST(what_is_not_there_is_not_found)
{
    start();
    struct table_entry entry = {.peak = 77};
    size_t count = 99;
    ck_assert(table_inspect(t, bytes_of("k"), now, &entry, NULL, 0, &count) == TABLE_NOT_FOUND);
    ck_assert(count == 0 && entry.peak == 77);
    ck_assert(!holds(&h[0], "k"));
    /* An expired name is not found either. */
    struct acquire a = {.name = bytes_of("k"), .units = 1, .limit = 1, .keep = true};
    ck_assert(table_acquire(t, &h[0], &a, now, NULL, NULL) == TABLE_OK);
    ck_assert(give(&h[0], "k", 1) == TABLE_OK);
    ck_assert(entry_of("k").consumption == 0 && entry_of("k").peak == 1);
    ck_assert(entry_of("k").limit == 1 && entry_of("k").holders == 0);
    ck_assert(!holds(&h[0], "k"));
    now.unix_s += INTERVAL;
    ck_assert(table_inspect(t, bytes_of("k"), now, &entry, NULL, 0, &count) == TABLE_NOT_FOUND);
    finish();
}
END_TEST

TEST(an_entry_shows_what_is_held_and_waited_for)
{
    start();
    ck_assert(take(&h[0], "k", 3, 9) == TABLE_OK);
    ck_assert(take(&h[1], "k", 2, 8) == TABLE_OK);
    ck_assert(give(&h[0], "k", 1) == TABLE_OK);
    struct table_entry e = entry_of("k");
    ck_assert(e.consumption == 4 && e.peak == 5 && e.limit == 8);
    ck_assert(e.waiting == 0 && e.holders == 2);
    /*
     * A waiter is no holder; a holder that also waits is one; a refused request sets the name's
     * limit.
     */
    ck_assert(ask(&h[2], "k", 1, 4, WAIT_ME) == TABLE_WAITING);
    ck_assert(ask(&h[2], "k", 1, 4, WAIT_ANY) == TABLE_WAITING);
    ck_assert(ask(&h[1], "k", 1, 4, WAIT_ANY) == TABLE_WAITING);
    ck_assert(take(&h[3], "k", 1, 3) == TABLE_BUSY);
    e = entry_of("k");
    ck_assert(e.waiting == 3 && e.holders == 2 && e.limit == 3);
    /* A holder that gives back all its units while it waits is no longer a holder. */
    ck_assert(give(&h[1], "k", 2) == TABLE_OK);
    /* Two waits are DONE, the third was granted. */
    e = entry_of("k");
    ck_assert(e.consumption == 3 && e.waiting == 0 && e.holders == 2);
    free_letters();
    ck_assert(entry_of("k").holders == 2);
    ck_assert(give(&h[0], "k", 2) == TABLE_OK && give(&h[2], "k", 1) == TABLE_OK);
    size_t count;
    ck_assert(table_inspect(t, bytes_of("k"), now, &e, NULL, 0, &count) == TABLE_NOT_FOUND);
    finish();
}
END_TEST

/* The number of holders is right even while verdicts are on their way. */
TEST(holders_are_counted_right_before_verdicts_are_taken)
{
    start();
    ck_assert(take(&h[0], "k", 1, 1) == TABLE_OK);
    ck_assert(ask(&h[1], "k", 1, 1, WAIT_ME) == TABLE_WAITING);
    ck_assert(ask(&h[2], "k", 1, 1, WAIT_ANY) == TABLE_WAITING);
    ck_assert(give(&h[0], "k", 1) == TABLE_OK);
    ck_assert(entry_of("k").holders == 1); /* h[1]; h[2] is DONE and has no notice yet */
    table_check(t);
    ck_assert(give(&h[1], "k", 1) == TABLE_OK); /* before its notice arrives */
    ck_assert(take(&h[3], "k", 1, 1) == TABLE_OK);
    ck_assert(entry_of("k").holders == 1);
    table_check(t);
    free_letters();
    ck_assert(entry_of("k").holders == 1);
    finish();
}
END_TEST

TEST(waiters_are_shown_oldest_first)
{
    start();
    ck_assert(take(&h[0], "k", 5, 9) == TABLE_OK);
    for (uint32_t i = 1; i < HOLDERS; i++) {
        now.mono_ns += 1000;
        ck_assert(ask(&h[i], "k", 1 + i % 2, 2 + i % 4, i % 3 ? WAIT_ME : WAIT_ANY) ==
                  TABLE_WAITING);
    }
    struct table_entry e;
    struct table_wait waits[HOLDERS];
    for (size_t room = 0; room <= HOLDERS; room++) {
        size_t count = 99;
        memset(waits, 0, sizeof(waits));
        ck_assert(table_inspect(t, bytes_of("k"), now, &e, waits, room, &count) == TABLE_OK);
        ck_assert(e.waiting == HOLDERS - 1);
        ck_assert(count == (room < HOLDERS - 1 ? room : HOLDERS - 1));
        for (uint32_t k = 0; k < HOLDERS; k++) {
            uint32_t i = k + 1;
            if (k >= count) {
                ck_assert(waits[k].tag == 0);
                continue;
            }
            ck_assert(waits[k].tag == h[i].tag && waits[k].units == 1 + i % 2);
            ck_assert(waits[k].limit == 2 + i % 4);
            ck_assert(waits[k].kind == (i % 3 ? WAIT_ME : WAIT_ANY));
            ck_assert(waits[k].since_ns == now.mono_ns - 1000 * (HOLDERS - 1 - (int64_t)i));
        }
    }
    finish();
}
END_TEST

/*
 * Waits with `lanes` different thresholds. The table shows the oldest, in order. Returns how many.
 */
static size_t inspect_many(uint32_t lanes, size_t room)
{
    static struct table_wait waits[MANY];
    static struct waiter *real[MANY];
    struct rng rng = rng_start("waiters", random_seed());
    bool left[MANY] = {false};
    uint32_t waiting = MANY;
    start();
    ck_assert(take(&h[0], "k", 1000000, 1000000) == TABLE_OK);
    for (uint32_t i = 0; i < MANY; i++) {
        struct acquire a = {.name = bytes_of("k"),
                            .units = 1,
                            .limit = 1 + rng_below(&rng, lanes),
                            .wait = rng_one_in(&rng, 2) ? WAIT_ME : WAIT_ANY};
        now.mono_ns++;
        REQUIRE(table_acquire(t, &many[i], &a, now, NULL, &real[i]) == TABLE_WAITING);
    }
    for (uint32_t n = 0; n < MANY / 4; n++) { /* some end their waits, anywhere in the queue */
        uint32_t i = rng_below(&rng, MANY);
        if (left[i])
            continue;
        REQUIRE(table_end_wait(t, real[i], WAITER_CANCELLED, now) == WAITER_CANCELLED);
        left[i] = true;
        waiting--;
    }
    struct table_entry e;
    size_t count;
    ck_assert(table_inspect(t, bytes_of("k"), now, &e, waits, room, &count) == TABLE_OK);
    ck_assert(e.waiting == waiting && e.holders == 1 && count <= room);
    uint32_t i = 0;
    for (size_t k = 0; k < count; k++, i++) {
        while (left[i])
            i++;
        REQUIRE(waits[k].tag == many[i].tag);
    }
    finish();
    return count < waiting ? count : SIZE_MAX;
}

TEST(thousands_of_waiters_of_one_limit)
{
    ck_assert(inspect_many(1, MANY) == SIZE_MAX);
    ck_assert(inspect_many(1, 1000) == 1000);
}
END_TEST

TEST(thousands_of_waiters_in_many_lanes)
{
    ck_assert(inspect_many(WAITQ_SCAN_LANES / 2, MANY) == SIZE_MAX);
    ck_assert(inspect_many(WAITQ_SCAN_LANES / 2, 700) == 700);
}
END_TEST

TEST(more_lanes_than_are_looked_at_show_fewer_but_the_oldest)
{
    size_t count = inspect_many(1000000, MANY);
    ck_assert(count > 20 && count <= WAITQ_SCAN_LANES);
}
END_TEST

/* ---- start and limit of a holding ----------------------------------------------------------- */

static void since_and_limit(struct holder *holder)
{
    int64_t begun_ns = now.mono_ns;
    ck_assert(take(holder, "k", 2, 50) == TABLE_OK);
    now.mono_ns += 10 * NS_PER_S + 7;
    struct table_hold hold = hold_of(holder, "k");
    ck_assert(hold.units == 2 && hold.limit == 50 && is_since(hold.since_ns, begun_ns));
    /* Taking more and giving some back continues the holding; the last granted limit counts. */
    ck_assert(take(holder, "k", 3, 60) == TABLE_OK);
    now.mono_ns += NS_PER_S;
    ck_assert(give(holder, "k", 4) == TABLE_OK);
    hold = hold_of(holder, "k");
    ck_assert(hold.units == 1 && hold.limit == 60 && is_since(hold.since_ns, begun_ns));
    ck_assert(entry_of("k").limit == 60);
    /* A refused request does not change the holding's limit. */
    ck_assert(take(holder, "k", 40, 40) == TABLE_BUSY);
    ck_assert(hold_of(holder, "k").limit == 60 && entry_of("k").limit == 40);
    /* Giving all back and taking again begins another holding. */
    ck_assert(give(holder, "k", 1) == TABLE_OK);
    ck_assert(!holds(holder, "k"));
    now.mono_ns += NS_PER_S;
    begun_ns = now.mono_ns;
    ck_assert(take(holder, "k", 1, 70) == TABLE_OK);
    now.mono_ns += NS_PER_S;
    hold = hold_of(holder, "k");
    ck_assert(hold.limit == 70 && is_since(hold.since_ns, begun_ns));
    ck_assert(give(holder, "k", 1) == TABLE_OK);
}

TEST(since_and_limit_of_the_holding_inside_the_counter)
{
    start();
    since_and_limit(&h[1]);
    /* The same with other holders. */
    struct acquire a = {.name = bytes_of("k"), .units = 1, .limit = 99};
    struct holding *held;
    ck_assert(table_acquire(t, &h[1], &a, now, &held, NULL) == TABLE_OK);
    int64_t begun_ns = now.mono_ns;
    now.mono_ns += NS_PER_S;
    since_and_limit(&h[2]);
    struct table_hold hold = hold_of(&h[1], "k");
    ck_assert(hold.limit == 99 && is_since(hold.since_ns, begun_ns));
    ck_assert(holding_units(held) == 1 && holding_name(t, held).len == 1);
    finish();
}
END_TEST

TEST(since_and_limit_of_holdings_outside)
{
    start();
    ck_assert(take(&h[0], "k", 1, 40) == TABLE_OK);
    int64_t begun_ns = now.mono_ns;
    since_and_limit(&h[1]);
    since_and_limit(&h[2]);
    struct table_hold hold = hold_of(&h[0], "k");
    ck_assert(hold.limit == 40 && hold.units == 1 && is_since(hold.since_ns, begun_ns));
    finish();
}
END_TEST

TEST(who_has_waited_holds_since_the_grant)
{
    start();
    ck_assert(take(&h[0], "k", 1, 1) == TABLE_OK);
    ck_assert(take(&h[1], "k", 1, 2) == TABLE_OK);
    ck_assert(ask(&h[1], "k", 1, 2, WAIT_ME) == TABLE_WAITING);
    ck_assert(ask(&h[2], "k", 1, 2, WAIT_ME) == TABLE_WAITING);
    int64_t begun_ns = now.mono_ns;
    ck_assert(!holds(&h[2], "k"));
    now.mono_ns += NS_PER_S;
    ck_assert(give(&h[0], "k", 1) == TABLE_OK);
    /* A holder gets more units, and a connection without units becomes a holder. */
    struct table_hold hold = hold_of(&h[1], "k");
    ck_assert(hold.units == 2 && is_since(hold.since_ns, begun_ns) && !holds(&h[2], "k"));
    now.mono_ns += NS_PER_S;
    int64_t granted_ns = now.mono_ns;
    table_close(t, &h[1], now, NULL, &out);
    now.mono_ns += NS_PER_S;
    hold = hold_of(&h[2], "k");
    ck_assert(is_since(hold.since_ns, granted_ns) && hold.limit == 2 && hold.units == 1);
    finish();
}
END_TEST

TEST(since_is_right_for_years)
{
    start();
    now.mono_ns = 1;
    ck_assert(take(&h[0], "k", 1, 9) == TABLE_OK);
    ck_assert(take(&h[1], "k", 1, 9) == TABLE_OK);
    static const int64_t day_ns = 86400 * NS_PER_S;
    now.mono_ns += 4 * 365 * day_ns;
    ck_assert(is_since(hold_of(&h[0], "k").since_ns, 1));
    ck_assert(is_since(hold_of(&h[1], "k").since_ns, 1));
    /* Holdings that begin later are right, whatever the clock shows. */
    now.mono_ns = 50 * 365 * day_ns + 12345;
    int64_t begun_ns = now.mono_ns;
    ck_assert(take(&h[2], "k", 1, 9) == TABLE_OK);
    ck_assert(take(&h[0], "j", 1, 9) == TABLE_OK);
    now.mono_ns += 400 * day_ns;
    ck_assert(is_since(hold_of(&h[2], "k").since_ns, begun_ns));
    ck_assert(is_since(hold_of(&h[0], "j").since_ns, begun_ns));
    finish();
}
END_TEST

TEST(a_holding_that_a_thread_ahead_began_has_lasted_no_time)
{
    start();
    struct histogram holds_of = {0};
    ck_assert(take(&h[0], "k", 1, 9) == TABLE_OK);
    int64_t begun_ns = now.mono_ns;
    now.mono_ns -= 3 * NS_PER_MS;
    ck_assert(is_since(hold_of(&h[0], "k").since_ns, begun_ns));
    ck_assert(table_release(t, &h[0], &(struct release){.name = bytes_of("k"), .units = 1}, now,
                            &holds_of, &out) == TABLE_OK);
    struct buckets_sum sum = {0};
    buckets_sum_up(&sum, &holds_of.buckets);
    ck_assert(buckets_sum_count(&sum) == 1 && sum.counts[0] == 1 && sum.sum_ns == 0);
    finish();
}
END_TEST

/* ---- how long ----------------------------------------------------------------------------------
 */

static struct buckets_sum sum_of(const struct histogram *histogram)
{
    struct buckets_sum sum = {0};
    buckets_sum_up(&sum, &histogram->buckets);
    return sum;
}

/* True if the histogram has `count` holdings of this total length, within one step for each. */
static bool lasted(const struct histogram *histogram, uint64_t count, int64_t ns)
{
    struct buckets_sum sum = sum_of(histogram);
    int64_t off = (int64_t)sum.sum_ns - ns, most = (int64_t)count * STEP_NS;
    return buckets_sum_count(&sum) == count && off <= most && off >= -most;
}

TEST(a_release_of_all_tells_how_long)
{
    start();
    struct histogram told = {0};
    ck_assert(take(&h[0], "k", 3, 9) == TABLE_OK);
    ck_assert(take(&h[1], "k", 1, 9) == TABLE_OK);
    now.mono_ns += 2 * NS_PER_S;
    struct bytes k = bytes_of("k");
    ck_assert(table_release(t, &h[0], &(struct release){.name = k, .units = 0}, now, &told, &out) ==
              TABLE_OK);
    ck_assert(table_release(t, &h[0], &(struct release){.name = k, .units = 2}, now, &told, &out) ==
              TABLE_OK);
    ck_assert(table_release(t, &h[0], &(struct release){.name = k, .units = 2}, now, &told, &out) ==
              TABLE_NOT_HELD);
    ck_assert(lasted(&told, 0, 0));
    now.mono_ns += NS_PER_S;
    ck_assert(table_release(t, &h[0], &(struct release){.name = k, .units = 1}, now, &told, &out) ==
              TABLE_OK);
    ck_assert(lasted(&told, 1, 3 * NS_PER_S));
    now.mono_ns += NS_PER_S;
    ck_assert(table_release(t, &h[1], &(struct release){.name = k, .units = 1}, now, &told, &out) ==
              TABLE_OK);
    ck_assert(lasted(&told, 2, 7 * NS_PER_S));
    /* Both within one wake-up. */
    ck_assert(take(&h[0], "k", 1, 9) == TABLE_OK);
    ck_assert(table_release(t, &h[0], &(struct release){.name = k, .units = 1}, now, &told, &out) ==
              TABLE_OK);
    ck_assert(lasted(&told, 3, 7 * NS_PER_S) && sum_of(&told).counts[0] == 1);
    /* Units held while a verdict is on its way count too. */
    ck_assert(take(&h[0], "k", 1, 1) == TABLE_OK);
    ck_assert(ask(&h[1], "k", 1, 1, WAIT_ME) == TABLE_WAITING);
    ck_assert(table_release(t, &h[0], &(struct release){.name = k, .units = 1}, now, &told, &out) ==
              TABLE_OK);
    now.mono_ns += NS_PER_S;
    ck_assert(table_release(t, &h[1], &(struct release){.name = k, .units = 1}, now, &told, &out) ==
              TABLE_OK);
    ck_assert(lasted(&told, 5, 8 * NS_PER_S));
    finish();
}
END_TEST

TEST(a_close_tells_how_long_each_has_lasted)
{
    start();
    struct histogram told = {0};
    ck_assert(take(&h[1], "b", 1, 9) == TABLE_OK);
    ck_assert(take(&h[0], "a", 3, 9) == TABLE_OK);
    now.mono_ns += NS_PER_S;
    ck_assert(take(&h[0], "b", 1, 9) == TABLE_OK);
    ck_assert(take(&h[0], "a", 3, 9) == TABLE_OK);
    ck_assert(ask(&h[0], "b", 1, 1, WAIT_ME) == TABLE_WAITING); /* waiting is not holding */
    ck_assert(take(&h[1], "c", 1, 1) == TABLE_OK);
    ck_assert(ask(&h[0], "c", 1, 1, WAIT_ME) == TABLE_WAITING);
    now.mono_ns += NS_PER_S;
    table_close(t, &h[0], now, &told, &out);
    ck_assert(lasted(&told, 2, 3 * NS_PER_S));
    table_close(t, &h[0], now, &told, &out);
    ck_assert(lasted(&told, 2, 3 * NS_PER_S));
    finish();
}
END_TEST

/* ---- holders -----------------------------------------------------------------------------------
 */

/* How often a walk has shown each holder, by id. */
static unsigned shown[64 * MANY];

/* Walks one slice; returns true at the end of the walk. */
static bool slice(const char *name, struct table_walk *walk, unsigned budget, size_t room)
{
    struct table_hold holders[64];
    size_t count = 99;
    ck_assert(room <= ARRAY_SIZE(holders));
    bool over = table_holders_on(t, bytes_of(name), walk, now, budget, holders, room, &count);
    ck_assert(count <= room);
    for (size_t i = 0; i < count; i++) {
        REQUIRE(holders[i].holder < ARRAY_SIZE(shown) && holders[i].units > 0);
        shown[holders[i].holder]++;
    }
    return over;
}

static unsigned walk_all(const char *name, unsigned budget, size_t room)
{
    struct table_walk walk = {0};
    unsigned slices = 1;
    memset(shown, 0, sizeof(shown));
    while (!slice(name, &walk, budget, room))
        slices++;
    return slices;
}

TEST(a_walk_shows_every_holder_and_no_waiter)
{
    start();
    (void)walk_all("k", 1, 1);
    ck_assert(shown[h[0].id] == 0);
    for (uint32_t i = 0; i < 6; i++)
        ck_assert(take(&h[i], "k", 1 + i, 100) == TABLE_OK);
    ck_assert(take(&h[6], "other", 1, 1) == TABLE_OK);
    ck_assert(ask(&h[7], "k", 1, 2, WAIT_ME) == TABLE_WAITING);
    for (unsigned budget = 1; budget < 40; budget += 13) {
        for (size_t room = 1; room < 10; room += 4) {
            unsigned slices = walk_all("k", budget, room);
            ck_assert(slices >= 6 / room);
            for (uint32_t i = 0; i < HOLDERS; i++)
                ck_assert(shown[h[i].id] == (i < 6));
        }
    }
    /* The place inside the counter may be free, or belong to a waiter. */
    ck_assert(give(&h[0], "k", 1) == TABLE_OK);
    (void)walk_all("k", 3, 3);
    for (uint32_t i = 0; i < HOLDERS; i++)
        ck_assert(shown[h[i].id] == (i > 0 && i < 6));
    ck_assert(ask(&h[8], "k", 1, 2, WAIT_ME) == TABLE_WAITING);
    (void)walk_all("k", 3, 3);
    ck_assert(shown[h[8].id] == 0 && shown[h[1].id] == 1);
    finish();
}
END_TEST

TEST(a_walk_shows_units_limit_and_since)
{
    start();
    int64_t begun_ns[3];
    for (uint32_t i = 0; i < 3; i++) {
        begun_ns[i] = now.mono_ns;
        ck_assert(take(&h[i], "k", 1 + i, 10 + i) == TABLE_OK);
        now.mono_ns += NS_PER_S;
    }
    struct table_walk walk = {0};
    struct table_hold holds_r[8];
    size_t count = 0;
    ck_assert(table_holders_on(t, bytes_of("k"), &walk, now, 10000, holds_r, 8, &count));
    ck_assert(count == 3);
    for (uint32_t k = 0; k < 3; k++) {
        uint32_t i = holds_r[k].holder - h[0].id;
        ck_assert(i < 3 && holds_r[k].units == 1 + i && holds_r[k].limit == 10 + i);
        ck_assert(is_since(holds_r[k].since_ns, begun_ns[i]));
    }
    finish();
}
END_TEST

/* Thousands of holders come and go during a walk; those that stay are shown exactly once. */
TEST(holders_that_stay_are_shown_exactly_once)
{
    struct rng rng = rng_start("holders", random_seed());
    start();
    for (uint32_t i = 0; i < MANY; i++)
        REQUIRE(take(&many[i], "k", 1, UINT32_MAX) == TABLE_OK);
    for (unsigned round = 0; round < 6; round++) {
        struct table_walk walk = {0};
        unsigned slices = 0;
        memset(shown, 0, sizeof(shown));
        /* The first holder is inside the counter. In even rounds it is one of those that go. */
        uint32_t goes = round % 2;
        while (!slice("k", &walk, 1 + rng_below(&rng, 40), 1 + rng_below(&rng, 16))) {
            slices++;
            for (unsigned n = 0; n < 40; n++) {
                uint32_t i = 2 * rng_below(&rng, MANY / 2) + goes;
                if (many[i].holdings) {
                    table_close(t, &many[i], now, NULL, &out);
                    open_holder(&many[i]);
                } else {
                    REQUIRE(take(&many[i], "k", 1, UINT32_MAX) == TABLE_OK);
                }
            }
            REQUIRE(slices < 100000);
        }
        ck_assert(slices > 50);
        for (uint32_t i = 0; i < MANY; i++) {
            bool stays = i % 2 != goes;
            REQUIRE(shown[many[i].id] <= 1);
            REQUIRE(!stays || shown[many[i].id] == 1);
        }
        for (uint32_t i = 0; i < MANY; i++)
            REQUIRE(many[i].holdings || take(&many[i], "k", 1, UINT32_MAX) == TABLE_OK);
        table_check(t);
    }
    finish();
}
END_TEST

/* A name in the same shard as "k". */
static const char *neighbour_of_k(void)
{
    static char name[16];
    for (int i = 0;; i++) {
        int len = snprintf(name, sizeof(name), "n%d", i);
        if (hash_bytes(&hash_key, name, (size_t)len) >> 58 == hash_bytes(&hash_key, "k", 1) >> 58)
            return name;
    }
}

TEST(a_name_that_vanishes_ends_the_walk)
{
    start();
    const char *neighbour = neighbour_of_k();
    for (uint32_t i = 0; i < MANY / 2; i++)
        REQUIRE(take(&many[i], "k", 1, UINT32_MAX) == TABLE_OK);
    memset(shown, 0, sizeof(shown));
    struct table_walk walk = {0};
    ck_assert(!slice("k", &walk, 10, 5));
    for (uint32_t i = 0; i < MANY / 2; i++)
        table_close(t, &many[i], now, NULL, &out);
    ck_assert(slice("k", &walk, 10, 5)); /* the name is gone */

    /* The name goes, and comes back elsewhere in memory. */
    for (uint32_t i = 0; i < MANY / 2; i++)
        REQUIRE(take(&many[i], "k", 1, UINT32_MAX) == TABLE_OK);
    walk = (struct table_walk){0};
    ck_assert(!slice("k", &walk, 10, 5));
    for (uint32_t i = 0; i < MANY / 2; i++)
        table_close(t, &many[i], now, NULL, &out);
    ck_assert(take(&h[0], neighbour, 1, 1) == TABLE_OK); /* now it has that memory */
    ck_assert(take(&h[1], "k", 1, 9) == TABLE_OK);
    ck_assert(take(&h[2], "k", 1, 9) == TABLE_OK);
    memset(shown, 0, sizeof(shown));
    ck_assert(slice("k", &walk, 10, 5));
    ck_assert(shown[h[0].id] == 0 && shown[h[1].id] == 0 && shown[h[2].id] == 0);
    finish();
}
END_TEST

TEST(what_one_holder_has_is_counted_up_to_a_bound)
{
    start();
    ck_assert(holder_count(t, &h[0], 10) == 0);
    char name[16];
    for (int i = 0; i < 9; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        ck_assert(take(&h[0], name, 2, 9) == TABLE_OK);
        ck_assert(take(&h[0], name, 1, 9) == TABLE_OK);
    }
    ck_assert(take(&h[1], "w", 1, 1) == TABLE_OK);
    ck_assert(ask(&h[0], "w", 1, 1, WAIT_ME) == TABLE_WAITING);
    ck_assert(holder_count(t, &h[0], 100) == 10);
    ck_assert(holder_count(t, &h[0], 10) == 10);
    ck_assert(holder_count(t, &h[0], 4) == 4);
    ck_assert(holder_count(t, &h[0], 0) == 0);
    ck_assert(holder_count(t, &h[1], 100) == 1);
    finish();
}
END_TEST

TEST(a_holder_waits_for_one_name_only_so_often)
{
    start();
    ck_assert(take(&h[0], "k", 1, 2) == TABLE_OK && take(&h[3], "k", 1, 2) == TABLE_OK);
    for (unsigned i = 0; i < TABLE_WAITS_MAX; i++)
        REQUIRE(ask(&h[1], "k", 1, 1, WAIT_ANY) == TABLE_WAITING);
    ck_assert(ask(&h[1], "k", 1, 1, WAIT_ANY) == TABLE_NO_MEMORY);
    ck_assert(ask(&h[2], "k", 1, 1, WAIT_ANY) == TABLE_WAITING);
    ck_assert(entry_of("k").waiting == TABLE_WAITS_MAX + 1);
    table_check(t);
    ck_assert(give(&h[0], "k", 1) == TABLE_OK);
    /* The verdicts are still on their way. */
    ck_assert(ask(&h[1], "k", 1, 1, WAIT_ANY) == TABLE_NO_MEMORY);
    free_letters();
    ck_assert(ask(&h[1], "k", 1, 1, WAIT_ANY) == TABLE_WAITING);
    finish();
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(what_is_not_there_is_not_found),
    UNIT(an_entry_shows_what_is_held_and_waited_for),
    UNIT(holders_are_counted_right_before_verdicts_are_taken),
    UNIT(waiters_are_shown_oldest_first),
    UNIT(thousands_of_waiters_of_one_limit),
    UNIT(thousands_of_waiters_in_many_lanes),
    UNIT(more_lanes_than_are_looked_at_show_fewer_but_the_oldest),
    UNIT(since_and_limit_of_the_holding_inside_the_counter),
    UNIT(since_and_limit_of_holdings_outside),
    UNIT(who_has_waited_holds_since_the_grant),
    UNIT(since_is_right_for_years),
    UNIT(a_holding_that_a_thread_ahead_began_has_lasted_no_time),
    UNIT(a_release_of_all_tells_how_long),
    UNIT(a_close_tells_how_long_each_has_lasted),
    UNIT(a_walk_shows_every_holder_and_no_waiter),
    UNIT(a_walk_shows_units_limit_and_since),
    UNIT(holders_that_stay_are_shown_exactly_once),
    UNIT(a_name_that_vanishes_ends_the_walk),
    UNIT(what_one_holder_has_is_counted_up_to_a_bound),
    UNIT(a_holder_waits_for_one_name_only_so_often),
};

UNIT_MAIN("engine/inspect", tests)
