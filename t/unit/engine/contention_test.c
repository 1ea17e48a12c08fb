/*
 * contention_test.c - contended names, compared with the exact loads and rates of all names: listed
 * values are right within their error, and unlisted names are below the bound. Peaks are compared
 * in t/models/table_test.c.
 */
#include "engine/contention.h"

#include "t/unit/random.h"

#include <math.h>
#include <string.h>

#define INTERVAL    100L
#define MIB         ((size_t)1 << 20)
#define HALF_LIFE_S ((double)CONTENDED_HALF_LIFE_S)

enum {
    NAMES = 400,
    HOLDERS = 1500,
    ROOM = 2000,
    NAME_LEN = 12,
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    FLOOD = 100000,
    STEPS = 1500,
#else
    FLOOD = 1000000,
    STEPS = 10000,
#endif
};

static struct table *t;
static const struct hash_key hash_key = {.k0 = 1, .k1 = 2};
static struct moment now = {.mono_ns = 5000 * NS_PER_S, .unix_s = 1000 * INTERVAL};
static verdicts out;
static uint32_t next_id = 1;
static struct holder blocker; /* holds a unit of each name with waiters */
static struct contended found[ROOM];
static size_t found_count;

/* A name and its exact values. */
struct name {
    char text[NAME_LEN + 1];
    double load, refused; /* decayed; each refusal adds 1 */
    uint32_t waiting;
};

static struct name names[NAMES];

static void start(size_t memory)
{
    t = table_new(&(struct table_config){
        .buckets = 100,
        .memory_limit = memory,
        .stats_interval_s = INTERVAL,
        .hash_key = hash_key,
    });
    ck_assert(t != NULL);
    mail_list_init(&out);
    holder_init(&blocker, next_id++, 0);
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
    table_close(t, &blocker, now, NULL, &out);
    free_letters();
    table_check(t);
    table_free(&t);
}

/* Makes `count` names that belong to `shard`; TABLE_SHARDS: to any shard. */
static void make_names(unsigned count, uint64_t shard)
{
    unsigned number = 0;
    ck_assert(count <= NAMES);
    for (unsigned n = 0; n < count; n++) {
        names[n] = (struct name){0};
        do {
            (void)snprintf(names[n].text, sizeof(names[n].text), "name%08u", number++);
        } while (shard < TABLE_SHARDS &&
                 hash_bytes(&hash_key, names[n].text, NAME_LEN) >> 58 != shard);
    }
}

static struct bytes name_at(unsigned n)
{
    return bytes_at(names[n].text, NAME_LEN);
}

static enum table_status ask(struct holder *holder, unsigned n, uint32_t units, uint32_t limit,
                             enum wait_kind kind, struct waiter **w)
{
    struct acquire a = {.name = name_at(n), .units = units, .limit = limit, .wait = kind};
    return table_acquire(t, holder, &a, now, NULL, w);
}

/* The number of a listed name; `count` if it is none of the first `count` names. */
static unsigned number_of(const struct contended *c, unsigned count)
{
    unsigned n = 0;
    while (n < count && (c->name_len != NAME_LEN || memcmp(c->name, names[n].text, NAME_LEN) != 0))
        n++;
    return n;
}

static void pass(int64_t ns)
{
    double left = exp2(-(double)ns / (double)NS_PER_S / HALF_LIFE_S);
    now.mono_ns += ns;
    for (unsigned n = 0; n < NAMES; n++) {
        names[n].load = names[n].load * left + names[n].waiting * (1 - left);
        names[n].refused *= left;
    }
}

static double rate_of(double refused)
{
    return refused * log(2) / HALF_LIFE_S;
}

static bool about(double a, double b)
{
    return fabs(a - b) <= 1e-9 + 1e-7 * fabs(b);
}

static void read_all(enum contended_by by)
{
    found_count = table_contended(t, by, now, found, ROOM);
}

/* The entry of name `n` in the list; NULL if it is not listed. */
static const struct contended *listed(unsigned n)
{
    for (size_t i = 0; i < found_count; i++) {
        if (number_of(&found[i], NAMES) == n)
            return &found[i];
    }
    return NULL;
}

static double rank_of(enum contended_by by, const struct contended *c)
{
    return by == CONTENDED_WAITING ? c->waiting_load : c->refused_per_second;
}

/*
 * Reads the list and compares it with the exact values of `count` names of one shard. If every line
 * was read, the bound is also at most a sixteenth of the shard's total.
 */
static void compare(enum contended_by by, unsigned count, bool all_accounted)
{
    const double slack = 1e-8;
    static bool is_listed[NAMES];
    double total = 0;
    read_all(by);
    double bound = table_contended_bound(t, by, now);
    memset(is_listed, 0, sizeof(is_listed));
    for (size_t i = 0; i < found_count; i++) {
        const struct contended *c = &found[i];
        unsigned n = number_of(c, count);
        REQUIRE(n < count && !is_listed[n]);
        is_listed[n] = true;
        REQUIRE(i == 0 || rank_of(by, c) <= rank_of(by, c - 1));
        REQUIRE(c->name_kept == NAME_LEN);
        REQUIRE(c->waiting_load >= names[n].load - slack);
        REQUIRE(c->waiting_load - c->waiting_error <= names[n].load + slack);
        REQUIRE(c->refused_per_second >= rate_of(names[n].refused) - slack);
        REQUIRE(c->refused_per_second - c->refused_error <= rate_of(names[n].refused) + slack);
        REQUIRE(c->waiting == names[n].waiting);
    }
    for (unsigned n = 0; n < count; n++) {
        double value = by == CONTENDED_WAITING ? names[n].load : rate_of(names[n].refused);
        total += value;
        REQUIRE(is_listed[n] || value <= bound + CONTENDED_LEAST);
    }
    REQUIRE(!all_accounted || bound <= total / CONTENDED_KEPT + slack);
}

/* ---- many names of one shard, at random --------------------------------------------------------
 */

struct client {
    struct holder holder;
    struct waiter *waiter;
    unsigned name;
};

static struct client clients[HOLDERS];

static void open_clients(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        clients[i] = (struct client){0};
        holder_init(&clients[i].holder, next_id++, i);
    }
}

static void block_all(unsigned count)
{
    for (unsigned n = 0; n < count; n++)
        ck_assert(ask(&blocker, n, 1, 1, WAIT_NO, NULL) == TABLE_OK);
}

static void begin_wait(struct client *c, unsigned n)
{
    REQUIRE(ask(&c->holder, n, 1, 1, WAIT_ME, &c->waiter) == TABLE_WAITING);
    c->name = n;
    names[n].waiting++;
}

static void end_wait(struct client *c)
{
    REQUIRE(table_end_wait(t, c->waiter, WAITER_CANCELLED, now) == WAITER_CANCELLED);
    c->waiter = NULL;
    names[c->name].waiting--;
}

static void close_clients(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        table_close(t, &clients[i].holder, now, NULL, &out);
}

/* A random name; low numbers are much more frequent. */
static unsigned some_name(struct rng *rng, unsigned count)
{
    unsigned bits = rng_below(rng, 10);
    return rng_below(rng, 1 + (count - 1) / (1u << bits));
}

static void random_run(struct rng *rng, unsigned count, unsigned steps, bool all_accounted)
{
    unsigned many = all_accounted ? 60 : HOLDERS;
    start(64 * MIB);
    make_names(count, 17);
    block_all(count);
    open_clients(many);
    for (unsigned step = 0; step < steps; step++) {
        struct client *c = &clients[rng_below(rng, many)];
        uint32_t what = rng_below(rng, 10);
        unsigned n = some_name(rng, count);
        if (what < 5 && !c->waiter) {
            begin_wait(c, n);
        } else if (what < 6 && c->waiter) {
            end_wait(c);
        } else if (what < 9) {
            struct waiter *w;
            REQUIRE(ask(&blocker, n, 1, 1, WAIT_NO, &w) == TABLE_BUSY);
            names[n].refused++;
        }
        if (rng_one_in(rng, 2))
            pass(rng_below(rng, rng_one_in(rng, 20) ? 2000000000 : 20000000));
        compare(CONTENDED_WAITING, count, all_accounted);
        compare(CONTENDED_REFUSED, count, true);
        if (step % 64 == 0)
            table_check(t);
    }
    close_clients(many);
    finish();
}

TEST(bounds_hold)
{
    struct rng rng = rng_start("names", random_seed());
    random_run(&rng, CONTENDED_KEPT, STEPS, true);
    for (size_t i = 0; i < found_count; i++)
        ck_assert(found[i].waiting_error <= 0 && found[i].refused_error <= 0);
    random_run(&rng, 50, STEPS, true);
    random_run(&rng, NAMES, STEPS / 2, false); /* more lines than are accounted */
}
END_TEST

TEST(lines_that_change_bring_the_others_up_to_date)
{
    start(64 * MIB);
    make_names(NAMES, 5);
    block_all(NAMES);
    open_clients(HOLDERS);
    enum { HOT = NAMES - 5 };
    unsigned used = 1;
    for (unsigned n = 0; n < NAMES; n++) {
        for (unsigned k = 0; k < (n == HOT ? 500 : 2); k++)
            begin_wait(&clients[used++], n);
    }
    pass(2 * NS_PER_S);
    for (unsigned i = 0; i < NAMES; i++) {
        begin_wait(&clients[0], 3);
        end_wait(&clients[0]);
    }
    /* One reading alone looks only at the 64 oldest. */
    compare(CONTENDED_WAITING, NAMES, true);
    ck_assert(listed(HOT) == &found[0]);
    close_clients(HOLDERS);
    finish();
}
END_TEST

/* ---- a flood ------------------------------------------------------------------------------------
 */

TEST(a_hot_name_is_found_under_a_flood_of_names_refused_once)
{
    struct rng rng = rng_start("flood", random_seed());
    start(64 * MIB);
    make_names(1, TABLE_SHARDS);
    struct holder other;
    holder_init(&other, next_id++, 0);
    ck_assert(ask(&blocker, 0, 1, 1, WAIT_NO, NULL) == TABLE_OK);
    /* The shard gets a 64th of the flood; the hot name gets a tenth of that. */
    uint32_t hot = 0;
    for (uint32_t i = 0; i < FLOOD; i++) {
        struct acquire a = {.name = bytes_at(&i, sizeof(i)), .units = 1, .limit = 1};
        REQUIRE(table_acquire(t, &blocker, &a, now, NULL, NULL) == TABLE_OK);
        REQUIRE(table_acquire(t, &other, &a, now, NULL, NULL) == TABLE_BUSY);
        REQUIRE(table_release(t, &blocker, &(struct release){.name = a.name, .units = 1}, now, NULL,
                              &out) == TABLE_OK);
        if (rng_one_in(&rng, 640)) {
            REQUIRE(ask(&other, 0, 1, 1, WAIT_NO, NULL) == TABLE_BUSY);
            hot++;
        }
    }
    read_all(CONTENDED_REFUSED);
    double bound = table_contended_bound(t, CONTENDED_REFUSED, now);
    ck_assert(found_count == TABLE_SHARDS * CONTENDED_KEPT);
    ck_assert(listed(0) == &found[0]);
    ck_assert(found[0].exists && found[0].refused_per_second >= rate_of(hot) - 1e-9);
    ck_assert(found[0].refused_per_second - found[0].refused_error <= rate_of(hot) + 1e-9);
    /* The flood's share of each shard. The bound is a sixteenth of the largest shard. */
    double share = rate_of((double)FLOOD / TABLE_SHARDS);
    ck_assert(bound > share / 32 && bound < 2 * share / CONTENDED_KEPT);
    for (size_t i = 1; i < found_count; i++)
        ck_assert(!found[i].exists && found[i].refused_per_second <= 2 * bound);
    /* With less room, the table lists only the first ones. */
    struct contended first[3];
    ck_assert(table_contended(t, CONTENDED_REFUSED, now, first, 3) == 3);
    for (size_t i = 0; i < 3; i++)
        ck_assert(about(first[i].refused_per_second, found[i].refused_per_second));
    ck_assert(number_of(&first[0], 1) == 0);
    ck_assert(table_contended(t, CONTENDED_REFUSED, now, NULL, 0) == 0);
    finish();
}
END_TEST

/* ---- peaks ---------------------------------------------------------------------------------- */

TEST(of_many_peaks_the_highest_are_listed)
{
    enum { COUNT = 40 };
    static uint32_t peaks[COUNT];
    struct rng rng = rng_start("peaks", random_seed());
    start(16 * MIB);
    make_names(COUNT, 9);
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned n = some_name(&rng, COUNT), used = 0;
        const struct release all = {.name = name_at(n),
                                    .units = 1 + rng_below(&rng, n % 3 ? 3 : 30)};
        if (rng_one_in(&rng, 100)) {
            now.unix_s += INTERVAL;
            memset(peaks, 0, sizeof(peaks));
        }
        REQUIRE(ask(&blocker, n, all.units, UINT32_MAX, WAIT_NO, NULL) == TABLE_OK);
        REQUIRE(table_release(t, &blocker, &all, now, NULL, &out) == TABLE_OK);
        peaks[n] = peaks[n] > all.units ? peaks[n] : all.units;
        read_all(CONTENDED_PEAK);
        double bound = table_contended_bound(t, CONTENDED_PEAK, now);
        for (unsigned k = 0; k < COUNT; k++) {
            const struct contended *c = listed(k);
            used += peaks[k] > 0;
            REQUIRE(c ? c->peak == peaks[k] : peaks[k] <= bound);
        }
        REQUIRE(found_count == (used < CONTENDED_KEPT ? used : CONTENDED_KEPT));
        if (step % 64 == 0)
            table_check(t);
    }
    finish();
}
END_TEST

TEST(a_late_thread_does_not_spoil_the_peaks)
{
    start(16 * MIB);
    make_names(4, 30);
    struct moment late = now;
    now.unix_s += INTERVAL;
    ck_assert(ask(&blocker, 0, 5, 9, WAIT_NO, NULL) == TABLE_OK);
    struct acquire a = {.name = name_at(1), .units = 8, .limit = 9};
    /* A peak of the previous interval does not count in this one, */
    ck_assert(table_acquire(t, &blocker, &a, late, NULL, NULL) == TABLE_OK);
    read_all(CONTENDED_PEAK);
    ck_assert(found_count == 1 && number_of(&found[0], 4) == 0 && found[0].peak == 5);
    /* until the name is used in this one. A late thread sees the same list. */
    ck_assert(ask(&blocker, 1, 1, 9, WAIT_NO, NULL) == TABLE_OK);
    struct contended top[4];
    ck_assert(table_contended(t, CONTENDED_PEAK, late, top, 4) == 2);
    ck_assert(top[0].peak == 9 && top[1].peak == 5);
    a.name = name_at(0);
    a.units = 4;
    ck_assert(table_acquire(t, &blocker, &a, late, NULL, NULL) == TABLE_OK);
    read_all(CONTENDED_PEAK);
    ck_assert(found_count == 2 && found[0].peak == 9 && found[1].peak == 9);
    finish();
}
END_TEST

/* ---- time
 * ---------------------------------------------------------------------------------------- */

/* Decay over days, while the table lowers the scale again and again. */
TEST(decay_goes_on_for_ever)
{
    start(16 * MIB);
    make_names(3, TABLE_SHARDS);
    block_all(3);
    open_clients(1);
    begin_wait(&clients[0], 2);
    for (unsigned i = 0; i < 30000; i++) { /* a month */
        pass(87 * NS_PER_S);
        ck_assert(ask(&blocker, 0, 1, 1, WAIT_NO, NULL) == TABLE_BUSY);
        names[0].refused++;
        if (i % 2000 == 0) {
            ck_assert(ask(&blocker, 1, 1, 1, WAIT_NO, NULL) == TABLE_BUSY);
            names[1].refused++;
        }
        if (i % 1000 < 3) {
            read_all(CONTENDED_REFUSED);
            ck_assert(listed(0) && about(listed(0)->refused_per_second, rate_of(names[0].refused)));
            const struct contended *c = listed(1);
            if (c)
                ck_assert(about(c->refused_per_second, rate_of(names[1].refused)));
            else
                ck_assert(rate_of(names[1].refused) < CONTENDED_LEAST);
            read_all(CONTENDED_WAITING);
            ck_assert(found_count == 1 && about(found[0].waiting_load, names[2].load));
            ck_assert(found[0].exists && found[0].consumption == 1 && found[0].limit == 1);
            ck_assert(found[0].waiting == 1 && found[0].holders == 1);
        }
    }
    /* After years without requests, only the waiters remain. */
    pass(3 * 365 * 86400 * NS_PER_S);
    read_all(CONTENDED_REFUSED);
    ck_assert(found_count == 0);
    read_all(CONTENDED_WAITING);
    ck_assert(found_count == 1 && about(found[0].waiting_load, 1));
    table_check(t);
    close_clients(1);
    finish();
}
END_TEST

TEST(a_thread_that_is_late_changes_nothing_much)
{
    start(16 * MIB);
    make_names(1, TABLE_SHARDS);
    block_all(1);
    open_clients(2);
    begin_wait(&clients[0], 0);
    pass(NS_PER_S);
    begin_wait(&clients[1], 0);
    now.mono_ns -= 5 * NS_PER_MS;
    read_all(CONTENDED_WAITING);
    ck_assert(found_count == 1 && fabs(found[0].waiting_load - names[0].load) < 1e-4);
    now.mono_ns += 5 * NS_PER_MS; /* no period is counted twice */
    read_all(CONTENDED_WAITING);
    ck_assert(found_count == 1 && about(found[0].waiting_load, names[0].load));
    now.mono_ns -= 5 * NS_PER_MS;
    ck_assert(ask(&blocker, 0, 1, 1, WAIT_NO, NULL) == TABLE_BUSY);
    end_wait(&clients[0]);
    now.mono_ns += 5 * NS_PER_MS;
    ck_assert(fabs(found[0].refused_per_second - rate_of(0)) < 1e-5);
    pass(NS_PER_S);
    read_all(CONTENDED_WAITING);
    ck_assert(found_count == 1 && about(found[0].waiting_load, names[0].load));
    ck_assert(fabs(found[0].refused_per_second - rate_of(exp2(-1 / HALF_LIFE_S))) < 1e-5);
    end_wait(&clients[1]);
    ck_assert(table_contended(t, CONTENDED_WAITING, now, found, ROOM) == 1);
    ck_assert(table_contended_bound(t, CONTENDED_WAITING, now) <= 0);
    table_check(t);
    close_clients(2);
    finish();
}
END_TEST

/* ---- long names
 * ---------------------------------------------------------------------------------- */

/* Two names whose hashes agree even in the bits that find the counter. */
TEST(long_names_of_equal_short_hashes_are_told_apart)
{
    static unsigned char bytes[2][CONTENDED_NAME_MAX + 4];
    static const uint32_t ends[2] = {562830, 830317}; /* found by trial, for hash_key */
    uint64_t hashes[2];
    start(16 * MIB);
    for (unsigned i = 0; i < 2; i++) {
        memset(bytes[i], 'x', CONTENDED_NAME_MAX);
        for (unsigned k = 0; k < 4; k++)
            bytes[i][CONTENDED_NAME_MAX + k] = (unsigned char)(ends[i] >> 8 * k);
        hashes[i] = hash_bytes(&hash_key, bytes[i], sizeof(bytes[i]));
        struct acquire a = {.name = {bytes[i], sizeof(bytes[i])}, .units = i + 1, .limit = 9};
        ck_assert(table_acquire(t, &blocker, &a, now, NULL, NULL) == TABLE_OK);
        a.units = 9;
        for (unsigned n = 0; n <= i; n++)
            ck_assert(table_acquire(t, &blocker, &a, now, NULL, NULL) == TABLE_BUSY);
    }
    ck_assert((uint32_t)hashes[0] == (uint32_t)hashes[1] && hashes[0] >> 58 == hashes[1] >> 58);
    ck_assert(hashes[0] != hashes[1]);
    read_all(CONTENDED_REFUSED);
    ck_assert(found_count == 2);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert(found[1 - i].consumption == i + 1 && found[1 - i].peak == i + 1);
        ck_assert(about(found[1 - i].refused_per_second, rate_of(i + 1)));
    }
    finish();
}
END_TEST

UNIT_MAIN("engine/contention")
