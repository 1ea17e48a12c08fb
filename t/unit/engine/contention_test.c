/*
 * contention_test.c - contended names, compared with the exact loads and rates of all names: listed
 * values are right within their error, and unlisted names are below the bound.
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
    STEPS = 1500,
#else
    STEPS = 5000,
#endif
};

static struct table *t;
static const struct hash_key hash_key = {.k0 = 1, .k1 = 2};
static struct moment now = {.mono_ns = 5000 * NS_PER_S, .unix_s = 1000 * INTERVAL};
static results out;
static uint32_t next_id = 1;
static struct holder blocker; /* has a unit of each name with waiters */
static struct contended found[ROOM];
static size_t found_count;

/* A name and its exact values. */
struct name {
    char text[NAME_LEN + 1];
    double load, refused;          /* decayed; each refusal adds 1 */
    uint32_t waiting, peak, limit; /* `peak` of this interval */
    bool blocked;                  /* the blocker has a unit; else the name is gone */
};

static struct name names[NAMES];

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
    holder_init(&blocker, next_id++, 0);
}

static void free_messages(void)
{
    for (struct mail *m; (m = mail_list_take(&out)) != NULL;) {
        struct waiter *w = waiter_of(m);
        if (w->holder)
            (void)table_take_result(t, w);
        table_waiter_free(t, w);
    }
}

static void finish(void)
{
    table_close(t, &blocker, now, NULL, &out);
    free_messages();
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

/* The number of a listed name, which is one of the first `count`. */
static unsigned number_of(const struct contended *c, unsigned count)
{
    unsigned n = 0;
    while (c->name_len != NAME_LEN || memcmp(c->name, names[n].text, NAME_LEN) != 0)
        REQUIRE(++n < count);
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

static double rank_of(enum contended_by by, const struct contended *c)
{
    return by == CONTENDED_WAITING   ? c->waiting_load
           : by == CONTENDED_REFUSED ? c->refused_per_second
                                     : c->peak;
}

static double value_of(enum contended_by by, const struct name *name)
{
    return by == CONTENDED_WAITING   ? name->load
           : by == CONTENDED_REFUSED ? rate_of(name->refused)
                                     : name->peak;
}

/* A listed name beside its exact values. */
static void compare_one(enum contended_by by, const struct contended *c, const struct name *name)
{
    const double slack = 1e-8;
    REQUIRE(c->name_kept == NAME_LEN && c->exists == name->blocked);
    REQUIRE(c->waiting_load >= name->load - slack);
    REQUIRE(c->waiting_load - c->waiting_error <= name->load + slack);
    REQUIRE(c->refused_per_second >= rate_of(name->refused) - slack);
    REQUIRE(c->refused_per_second - c->refused_error <= rate_of(name->refused) + slack);
    REQUIRE(c->waiting == name->waiting && c->consumption == name->blocked);
    REQUIRE(c->holders == name->blocked && (!name->blocked || c->limit == name->limit));
    REQUIRE(by != CONTENDED_PEAK || c->peak == name->peak);
}

/*
 * Reads the list and compares it with the exact values of `count` names. If every line was read,
 * the bound is also at most a sixteenth of the total.
 */
static void compare(enum contended_by by, unsigned count, bool all_accounted)
{
    static bool is_listed[NAMES];
    struct contended first[3];
    double total = 0;
    size_t used = 0;
    found_count = table_contended(t, by, now, found, ROOM);
    double bound = table_contended_bound(t, by, now);
    memset(is_listed, 0, sizeof(is_listed));
    for (size_t i = 0; i < found_count; i++) {
        unsigned n = number_of(&found[i], count);
        REQUIRE(!is_listed[n] && (i == 0 || rank_of(by, &found[i]) <= rank_of(by, &found[i - 1])));
        is_listed[n] = true;
        compare_one(by, &found[i], &names[n]);
    }
    for (unsigned n = 0; n < count; n++) {
        double value = value_of(by, &names[n]);
        total += value;
        used += value > 0;
        REQUIRE(is_listed[n] || value <= bound + CONTENDED_LEAST);
    }
    if (by == CONTENDED_PEAK)
        REQUIRE(found_count >= (used < CONTENDED_KEPT ? used : CONTENDED_KEPT));
    else if (all_accounted)
        REQUIRE(bound <= total / CONTENDED_KEPT + 1e-8);
    /* With less room, the first ones. */
    size_t some = table_contended(t, by, now, first, 3);
    REQUIRE(some == (found_count < 3 ? found_count : 3));
    for (size_t i = 0; i < some && all_accounted; i++) /* else this reading accounts others */
        REQUIRE(about(rank_of(by, &first[i]), rank_of(by, &found[i])));
    REQUIRE(table_contended(t, by, now, NULL, 0) == 0);
}

/* ---- names at random ------------------------------------------------------------------------- */

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

/* The name has been used: its peak is that of this interval. */
static void note_use(unsigned n, uint32_t units, uint32_t limit)
{
    names[n].peak = names[n].peak > units ? names[n].peak : units;
    names[n].limit = limit;
}

static void give(unsigned n, uint32_t units)
{
    const struct release r = {.name = name_at(n), .units = units};
    REQUIRE(table_release(t, &blocker, &r, now, NULL, &out) == TABLE_OK);
}

/* The blocker has a unit, or none and the name is gone. */
static void block(unsigned n, bool blocks)
{
    if (blocks && !names[n].blocked)
        REQUIRE(ask(&blocker, n, 1, 1, WAIT_NO, NULL) == TABLE_OK);
    else if (!blocks && names[n].blocked)
        give(n, 1);
    if (blocks || names[n].blocked)
        note_use(n, 1, 1);
    names[n].blocked = blocks;
}

static void begin_wait(struct client *c, unsigned n)
{
    block(n, true);
    REQUIRE(ask(&c->holder, n, 1, 1, WAIT_ME, &c->waiter) == TABLE_WAITING);
    c->name = n;
    names[n].waiting++;
}

static void end_wait(struct client *c)
{
    REQUIRE(table_end_wait(t, c->waiter, WAITER_CANCELLED, now) == WAITER_CANCELLED);
    note_use(c->name, 1, names[c->name].limit);
    c->waiter = NULL;
    names[c->name].waiting--;
}

static void be_refused(unsigned n)
{
    struct waiter *w;
    block(n, true);
    REQUIRE(ask(&blocker, n, 1, 1, WAIT_NO, &w) == TABLE_BUSY);
    note_use(n, 1, 1);
    names[n].refused++;
}

static void rise(unsigned n, uint32_t units)
{
    block(n, true);
    REQUIRE(ask(&blocker, n, units, UINT32_MAX, WAIT_NO, NULL) == TABLE_OK);
    give(n, units);
    note_use(n, 1 + units, UINT32_MAX);
}

/* Milliseconds, at times minutes to days; an interval may end. */
static void some_time(struct rng *rng, bool days)
{
    if (days && rng_one_in(rng, 10))
        pass((int64_t)rng_below(rng, 200000U >> rng_below(rng, 9)) * NS_PER_S);
    else
        pass(rng_below(rng, rng_one_in(rng, 20) ? 2000000000 : 20000000));
    if (!rng_one_in(rng, 100))
        return;
    now.unix_s += INTERVAL;
    for (unsigned n = 0; n < NAMES; n++)
        names[n].peak = 0;
}

/* A random name; low numbers are much more frequent. */
static unsigned some_name(struct rng *rng, unsigned count)
{
    return rng_below(rng, 1 + (count - 1) / (1u << rng_below(rng, 10)));
}

struct row {
    unsigned names, shard, clients;
    bool days;
};

static void run(const struct row *row, struct rng *rng)
{
    uint64_t steps = env_number("T_MODEL_STEPS", STEPS);
    unsigned count = row->names, many = row->clients;
    start();
    make_names(count, row->shard);
    open_clients(many);
    for (uint64_t step = 0; step < steps; step++) {
        struct client *c = &clients[rng_below(rng, many)];
        uint32_t what = rng_below(rng, 12);
        unsigned n = some_name(rng, count);
        if (what < 5 && !c->waiter)
            begin_wait(c, n);
        else if (what < 6 && c->waiter)
            end_wait(c);
        else if (what < 9)
            be_refused(n);
        else if (what < 11)
            rise(n, 1 + rng_below(rng, n % 3 ? 3 : 30));
        else if (names[n].waiting == 0)
            block(n, false);
        if (rng_one_in(rng, 2))
            some_time(rng, row->days);
        for (int by = 0; by < CONTENDED_BY_COUNT; by++)
            compare((enum contended_by)by, count, many < HOLDERS || by == CONTENDED_REFUSED);
        if (step % 64 == 0)
            table_check(t);
        for (size_t i = 0; i < found_count && count <= CONTENDED_KEPT; i++)
            REQUIRE(found[i].waiting_error <= 0 && found[i].refused_error <= 0);
    }
    /* Lines that change bring the others up to date: one reading looks only at the 64 oldest. */
    struct client *c = clients;
    if (c->waiter)
        end_wait(c);
    pass(2 * NS_PER_S);
    for (unsigned i = 0; i < NAMES; i++) {
        begin_wait(c, 3);
        end_wait(c);
    }
    compare(CONTENDED_WAITING, count, true);
    /* After years without requests, only the waiters remain. */
    pass(3 * 365 * 86400 * NS_PER_S);
    compare(CONTENDED_REFUSED, count, true);
    ck_assert(found_count == 0);
    compare(CONTENDED_WAITING, count, true);
    for (unsigned i = 0; i < many; i++)
        table_close(t, &clients[i].holder, now, NULL, &out);
    finish();
}

TEST(what_is_listed_is_right)
{
    static const struct row rows[] = {
        {CONTENDED_KEPT, 17, 60, true},
        {50, 17, 60, false},
        {40, TABLE_SHARDS, 60, true},
        {NAMES, 5, HOLDERS, false}, /* more lines than are accounted */
    };
    struct rng rng = rng_start("names", random_seed());
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        run(&rows[i], &rng);
}
END_TEST

TEST(a_thread_that_is_late_changes_nothing_much)
{
    start();
    make_names(1, TABLE_SHARDS);
    open_clients(2);
    begin_wait(&clients[0], 0);
    pass(NS_PER_S);
    begin_wait(&clients[1], 0);
    now.mono_ns -= 5 * NS_PER_MS;
    ck_assert(table_contended(t, CONTENDED_WAITING, now, found, ROOM) == 1);
    ck_assert(fabs(found[0].waiting_load - names[0].load) < 1e-4);
    now.mono_ns += 5 * NS_PER_MS;
    compare(CONTENDED_WAITING, 1, true); /* no period is counted twice */
    now.mono_ns -= 5 * NS_PER_MS;
    be_refused(0);
    end_wait(&clients[0]);
    now.mono_ns += 5 * NS_PER_MS;
    pass(NS_PER_S);
    ck_assert(table_contended(t, CONTENDED_WAITING, now, found, ROOM) == 1);
    ck_assert(about(found[0].waiting_load, names[0].load));
    ck_assert(fabs(found[0].refused_per_second - rate_of(names[0].refused)) < 1e-5);
    end_wait(&clients[1]);
    ck_assert(table_contended(t, CONTENDED_WAITING, now, found, ROOM) == 1);
    ck_assert(table_contended_bound(t, CONTENDED_WAITING, now) <= 0);
    table_check(t);
    for (unsigned i = 0; i < 2; i++)
        table_close(t, &clients[i].holder, now, NULL, &out);
    finish();
}
END_TEST

/* Two names whose hashes agree even in the bits that find the counter. */
TEST(long_names_of_equal_short_hashes_are_told_apart)
{
    static unsigned char bytes[2][CONTENDED_NAME_MAX + 4];
    static const uint32_t ends[2] = {562830, 830317}; /* found by trial, for hash_key */
    uint64_t hashes[2];
    start();
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
    ck_assert(table_contended(t, CONTENDED_REFUSED, now, found, ROOM) == 2);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert(found[1 - i].consumption == i + 1 && found[1 - i].peak == i + 1);
        ck_assert(about(found[1 - i].refused_per_second, rate_of(i + 1)));
    }
    finish();
}
END_TEST

UNIT_MAIN("engine/contention")
