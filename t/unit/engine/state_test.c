/*
 * state_test.c - a saved and restored table equals the one before and continues like it; damaged
 * data is refused, or gives a consistent table. (model_test.c checks the later answers, because it
 * often continues in restored tables.)
 */
#include "engine/state.h"

#include "engine/contention.h"
#include "t/unit/random.h"
#include "t/unit/unit.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define INTERVAL 100

enum { NAMES = 60, HOLDERS = 25, LISTED = CONTENDED_KEPT * TABLE_SHARDS, KIND_HOLDER = 0x7001 };

static struct record_writer writer;
static struct rng rng;

/* A table with its holders, and the lengths of their holdings. */
struct side {
    struct table_config config;
    struct table *t;
    struct holder holders[HOLDERS];
    struct histogram holds;
};

static struct moment now;
static char name_bytes[NAMES][400];
static size_t name_lens[NAMES];

static struct bytes name_of(unsigned n)
{
    return bytes_at(name_bytes[n], name_lens[n]);
}

static void make_names(void)
{
    for (unsigned n = 0; n < NAMES; n++) {
        name_lens[n] = n % 10 == 0 ? 300 + n : 4 + n % 30;
        memset(name_bytes[n], 'x', name_lens[n]);
        snprintf(name_bytes[n], 4, "%03u", n % 1000);
    }
}

static struct table_config usual_config(void)
{
    return (struct table_config){.buckets = 1,
                                 .memory_limit = (size_t)64 << 20,
                                 .stats_interval_s = INTERVAL,
                                 .hash_key = {5, 6}};
}

static void begin(struct side *side, struct table_config config)
{
    side->config = config;
    side->t = table_new(&side->config);
    ck_assert_ptr_nonnull(side->t);
    for (unsigned i = 0; i < HOLDERS; i++)
        holder_init(&side->holders[i], i + 1, i);
}

/* Delivers every verdict; returns a checksum of them, in order. */
static uint64_t deliver(struct side *side, verdicts *out)
{
    uint64_t sum = 0;
    for (struct mail *m; (m = mail_list_take(out)) != NULL;) {
        struct waiter *w = waiter_of(m);
        sum = sum * 31 + w->letter.to * 7 + (w->holder ? table_take_verdict(side->t, w) : w->state);
        sum = sum * 31 + (uint64_t)w->since_ns + w->units;
        table_waiter_free(side->t, w);
    }
    return sum;
}

static void end(struct side *side)
{
    verdicts out;
    mail_list_init(&out);
    for (unsigned i = 0; i < HOLDERS; i++) {
        table_close(side->t, &side->holders[i], now, NULL, &out);
        (void)deliver(side, &out);
    }
    table_free(&side->t);
}

/* Makes one random request, chosen by `at`; returns a checksum of all answers. */
static uint64_t request(struct side *side, struct rng *at)
{
    verdicts out;
    mail_list_init(&out);
    uint32_t what = rng_below(at, 100);
    struct holder *holder = &side->holders[rng_below(at, HOLDERS)];
    unsigned n = rng_below(at, 4) ? rng_below(at, NAMES) : rng_below(at, 5);
    uint64_t answer = 0;
    if (what < 60) {
        struct acquire a = {.name = name_of(n), .keep = rng_one_in(at, 4)};
        a.units = 1 + rng_below(at, 3);
        a.limit = a.units + rng_below(at, 6);
        a.wait = (enum wait_kind)rng_below(at, 3);
        a.queue_max = rng_one_in(at, 3) ? 20 : 0;
        struct waiter *w;
        answer = table_acquire(side->t, holder, &a, now, NULL, &w);
    } else if (what < 85) {
        struct release r = {.name = name_of(n), .units = 1 + rng_below(at, 2)};
        answer = table_release(side->t, holder, &r, now, &side->holds, &out);
    } else if (what < 95 && holder->waiters) {
        answer = table_end_wait(side->t, holder->waiters, WAITER_TIMED_OUT, now);
    } else if (what < 97) {
        uint32_t id = holder->id;
        uint64_t tag = holder->tag;
        table_close(side->t, holder, now, &side->holds, &out);
        holder_init(holder, id, tag);
    } else if (what < 99) {
        struct table_walk walk = {0};
        while (!table_collect(side->t, &walk, now, 100, &answer))
            continue;
    }
    return answer * 1000003 + deliver(side, &out);
}

static void pass_time(struct rng *at)
{
    now.mono_ns += rng_below(at, 50000000);
    now.unix_s += rng_one_in(at, 20) ? rng_below(at, INTERVAL) : 0;
}

static void run(struct side *side, unsigned steps)
{
    for (unsigned i = 0; i < steps; i++) {
        pass_time(&rng);
        (void)request(side, &rng);
    }
}

static bool same_contended(const struct contended *a, const struct contended *b)
{
    return a->name_len == b->name_len && memcmp(a->name, b->name, a->name_kept) == 0 &&
           a->waiting_load == b->waiting_load && a->waiting_error == b->waiting_error &&
           a->refused_per_second == b->refused_per_second && a->refused_error == b->refused_error &&
           a->peak == b->peak && a->limit == b->limit && a->exists == b->exists &&
           a->consumption == b->consumption && a->waiting == b->waiting && a->holders == b->holders;
}

/* Names of equal rank may come in any order. */
static void compare_contended(struct side *a, struct side *b, enum contended_by by)
{
    static struct contended of_a[LISTED], of_b[LISTED];
    size_t count = table_contended(a->t, by, now, of_a, LISTED);
    REQUIRE(table_contended(b->t, by, now, of_b, LISTED) == count);
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < count && !same_contended(&of_a[i], &of_b[k]))
            k++;
        REQUIRE(k < count);
    }
    REQUIRE(table_contended_bound(a->t, by, now) == table_contended_bound(b->t, by, now));
}

static void compare_name(struct side *a, struct side *b, unsigned n)
{
    static struct table_wait waits_a[1000], waits_b[1000];
    struct table_entry in_a, in_b;
    size_t count_a, count_b;
    enum table_status status =
        table_inspect(a->t, name_of(n), now, &in_a, waits_a, ARRAY_SIZE(waits_a), &count_a);
    REQUIRE(table_inspect(b->t, name_of(n), now, &in_b, waits_b, ARRAY_SIZE(waits_b), &count_b) ==
            status);
    if (status != TABLE_OK)
        return;
    REQUIRE(in_a.consumption == in_b.consumption && in_a.peak == in_b.peak &&
            in_a.limit == in_b.limit && in_a.waiting == in_b.waiting &&
            in_a.holders == in_b.holders && count_a == count_b);
    for (size_t i = 0; i < count_a; i++)
        REQUIRE(waits_a[i].tag == waits_b[i].tag && waits_a[i].units == waits_b[i].units &&
                waits_a[i].limit == waits_b[i].limit && waits_a[i].kind == waits_b[i].kind &&
                waits_a[i].since_ns == waits_b[i].since_ns);
    for (unsigned i = 0; i < HOLDERS; i++) {
        struct table_hold hold_a, hold_b;
        bool holds = table_holds(a->t, a->holders[i].id, name_of(n), now, &hold_a);
        REQUIRE(table_holds(b->t, b->holders[i].id, name_of(n), now, &hold_b) == holds);
        REQUIRE(!holds || (hold_a.units == hold_b.units && hold_a.limit == hold_b.limit &&
                           hold_a.since_ns == hold_b.since_ns));
    }
}

/* Checks that both sides give the same answers, except for the memory in use. */
static void compare(struct side *a, struct side *b)
{
    struct table_stats of_a, of_b;
    table_check(a->t);
    table_check(b->t);
    table_get_stats(a->t, now, &of_a);
    table_get_stats(b->t, now, &of_b);
    REQUIRE(of_a.names == of_b.names && of_a.names_made == of_b.names_made &&
            of_a.waiting == of_b.waiting && of_a.holdings == of_b.holdings &&
            of_a.units == of_b.units);
    for (unsigned n = 0; n < NAMES; n++)
        compare_name(a, b, n);
    for (unsigned i = 0; i < HOLDERS; i++) {
        uint32_t count = holder_count(a->t, &a->holders[i], UINT32_MAX);
        REQUIRE(holder_count(b->t, &b->holders[i], UINT32_MAX) == count);
        const struct waiter *v = a->holders[i].waiters, *w = b->holders[i].waiters;
        for (; v && w; v = v->next, w = w->next)
            REQUIRE(v->since_ns == w->since_ns && v->units == w->units && v->limit == w->limit &&
                    w->letter.to == b->holders[i].tag && w->holder == &b->holders[i]);
        REQUIRE(!v && !w);
    }
    compare_contended(a, b, CONTENDED_WAITING);
    compare_contended(a, b, CONTENDED_REFUSED);
    compare_contended(a, b, CONTENDED_PEAK);
}

/* ---- saving and restoring ---------------------------------------------------------------- */

static void write_side(const struct side *side)
{
    record_put_head(&writer);
    table_save(side->t, now, &writer);
    for (unsigned i = 0; i < HOLDERS; i++) {
        record_begin(&writer, KIND_HOLDER);
        holder_save(side->t, &side->holders[i], &writer);
        record_end(&writer);
    }
}

static int begin_record(void)
{
    int fd = memfd_create("state", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    record_writer_init(&writer, fd);
    return fd;
}

static struct record_reader end_record(int fd)
{
    struct record_reader r;
    ck_assert(record_finish(&writer));
    ck_assert(record_map(&r, fd));
    close(fd);
    return r;
}

static struct record_reader save(const struct side *side)
{
    int fd = begin_record();
    write_side(side);
    return end_record(fd);
}

/* Reads a record into a table that has begun. */
static bool restore(struct side *side, struct record_reader *r)
{
    struct record_reader section;
    uint32_t kind;
    unsigned holder = 0;
    record_get_head(r);
    while (record_enter(r, &kind, &section)) {
        if (kind == STATE_TABLE) {
            if (!table_restore(side->t, now, 3, &section))
                return false;
        } else if (kind == KIND_HOLDER && holder < HOLDERS) {
            if (!holder_restore(side->t, &side->holders[holder++], &section))
                return false;
            record_leave(&section);
        } else {
            record_unknown(&section, kind);
        }
    }
    return record_ok(r) && table_restore_done(side->t, r);
}

/* Saves one side and restores it as another one with this configuration. */
static void hand_on(const struct side *from, struct side *to, struct table_config config)
{
    struct record_reader r = save(from);
    begin(to, config);
    ck_assert_msg(restore(to, &r), "%s", r.why);
    to->holds = from->holds;
    record_unmap(&r);
}

TEST(a_restored_table_goes_on_as_the_one_before)
{
    rng = rng_start("twins", random_seed());
    for (unsigned round = 0; round < 20; round++) {
        now = (struct moment){.mono_ns = 1 + rng_below(&rng, 1000), .unix_s = 1700000000};
        make_names();
        struct side a, b;
        begin(&a, usual_config());
        run(&a, 50 + rng_below(&rng, 3000));
        struct table_config config = usual_config();
        config.buckets = rng_below(&rng, 10000);
        config.hash_key.k0 = rng_next(&rng);
        hand_on(&a, &b, config);
        compare(&a, &b);
        for (unsigned i = 0; i < 1000; i++) {
            pass_time(&rng);
            struct rng twin = rng;
            REQUIRE(request(&a, &rng) == request(&b, &twin));
            if (i % 50 == 0)
                compare(&a, &b);
        }
        compare(&a, &b);
        REQUIRE(memcmp(&a.holds, &b.holds, sizeof(a.holds)) == 0);
        end(&a);
        end(&b);
    }
}
END_TEST

TEST(an_empty_table)
{
    make_names();
    struct side a, b;
    begin(&a, usual_config());
    hand_on(&a, &b, usual_config());
    compare(&a, &b);
    end(&a);
    end(&b);
}
END_TEST

TEST(what_does_not_fit_the_new_limit_is_kept_and_nothing_more_taken)
{
    enum { MANY = 100000 };
    now = (struct moment){.mono_ns = 1, .unix_s = 1700000000};
    struct table_config large = usual_config(), small = large;
    small.memory_limit = (size_t)4 << 20;
    struct side a, b;
    begin(&a, large);
    struct acquire one = {.units = 1, .limit = 1};
    char text[300];
    for (unsigned i = 0; i < MANY; i++) {
        int len = snprintf(text, sizeof(text), "name %u", i);
        one.name = bytes_at(text, (size_t)len);
        ck_assert(table_acquire(a.t, &a.holders[i % HOLDERS], &one, now, NULL, NULL) == TABLE_OK);
    }
    struct table_stats before, after;
    table_get_stats(a.t, now, &before);
    ck_assert_uint_gt(before.memory, small.memory_limit);
    hand_on(&a, &b, small);
    table_get_stats(b.t, now, &after);
    ck_assert_uint_eq(after.names, MANY);
    ck_assert_uint_eq(after.units, MANY);
    ck_assert_uint_gt(after.memory, small.memory_limit);
    ck_assert(table_is_tight(b.t));
    /* A name so long that it needs a new page. */
    memset(text, 'x', sizeof(text));
    one.name = bytes_at(text, sizeof(text));
    ck_assert(table_acquire(b.t, &b.holders[0], &one, now, NULL, NULL) == TABLE_NO_MEMORY);
    verdicts out;
    mail_list_init(&out);
    for (unsigned i = 0; i < HOLDERS; i++) {
        table_close(b.t, &b.holders[i], now, NULL, &out);
        holder_init(&b.holders[i], i + 1, i);
    }
    table_trim(b.t);
    table_get_stats(b.t, now, &after);
    ck_assert_uint_lt(after.memory, small.memory_limit);
    ck_assert(table_acquire(b.t, &b.holders[0], &one, now, NULL, NULL) == TABLE_OK);
    end(&a);
    end(&b);
}
END_TEST

TEST(intervals_of_another_length)
{
    now = (struct moment){.mono_ns = 1, .unix_s = 10 * INTERVAL};
    make_names();
    struct side a, b;
    begin(&a, usual_config());
    verdicts out;
    mail_list_init(&out);
    struct acquire two = {.units = 2, .limit = 5, .keep = true};
    for (unsigned n = 0; n < 4; n++) {
        now.unix_s = (n < 2 ? 10 : 20) * INTERVAL;
        two.name = name_of(n);
        ck_assert(table_acquire(a.t, &a.holders[0], &two, now, NULL, NULL) == TABLE_OK);
        struct release r = {.name = name_of(n), .units = n % 2 ? 1 : 2};
        ck_assert(table_release(a.t, &a.holders[0], &r, now, NULL, &out) == TABLE_OK);
    }
    struct table_config config = usual_config();
    config.stats_interval_s = 7;
    hand_on(&a, &b, config);
    table_check(b.t);
    struct table_entry e;
    size_t none;
    /* Name 0 was at 0 in an old interval, so it has expired. Name 1 is held; its old peak is over.
     */
    ck_assert(table_inspect(b.t, name_of(0), now, &e, NULL, 0, &none) == TABLE_NOT_FOUND);
    ck_assert(table_inspect(b.t, name_of(1), now, &e, NULL, 0, &none) == TABLE_OK);
    ck_assert(e.consumption == 1 && e.peak == 1);
    ck_assert(table_inspect(b.t, name_of(2), now, &e, NULL, 0, &none) == TABLE_OK);
    ck_assert(e.consumption == 0 && e.peak == 2);
    ck_assert(table_inspect(b.t, name_of(3), now, &e, NULL, 0, &none) == TABLE_OK);
    ck_assert(e.consumption == 1 && e.peak == 2);
    struct table_stats stats;
    table_get_stats(b.t, now, &stats);
    ck_assert_uint_eq(stats.names, 3);
    struct contended listed[4];
    ck_assert_uint_eq(table_contended(b.t, CONTENDED_PEAK, now, listed, 4), 2);
    ck_assert_uint_eq(listed[0].peak, 2);
    now.unix_s += 8;
    uint64_t collected = 0;
    struct table_walk walk = {0};
    while (!table_collect(b.t, &walk, now, 1000, &collected))
        continue;
    ck_assert_uint_eq(collected, 1);
    end(&a);
    end(&b);
}
END_TEST

struct seen {
    unsigned times[NAMES];
};

static bool see(void *arg, const struct table_entry *entry)
{
    struct seen *seen = arg;
    char text[4] = {0};
    memcpy(text, entry->name.data, 3);
    seen->times[strtoul(text, NULL, 10)]++;
    return true;
}

TEST(a_walk_goes_on_in_the_restored_table)
{
    rng = rng_start("walks", random_seed());
    make_names();
    struct side a, b;
    begin(&a, usual_config());
    struct acquire one = {.units = 1, .limit = 1};
    for (unsigned n = 0; n < NAMES; n++) {
        one.name = name_of(n);
        ck_assert(table_acquire(a.t, &a.holders[0], &one, now, NULL, NULL) == TABLE_OK);
    }
    for (unsigned round = 0; round < 100; round++) {
        struct seen seen = {0};
        struct table_walk walk = {0}, went_on;
        ck_assert(!table_walk_on(a.t, &walk, now, 1 + rng_below(&rng, 90), see, &seen));
        int fd = begin_record();
        table_walk_save(&walk, &writer);
        struct record_reader r = end_record(fd);
        ck_assert(table_walk_restore(&went_on, &r));
        record_unmap(&r);
        struct table_config config = usual_config();
        config.buckets = rng_below(&rng, 2000);
        hand_on(&a, &b, config);
        while (!table_walk_on(b.t, &went_on, now, 1 + rng_below(&rng, 20), see, &seen))
            continue;
        for (unsigned n = 0; n < NAMES; n++)
            ck_assert_uint_eq(seen.times[n], 1);
        end(&b);
    }
    end(&a);
}
END_TEST

/* ---- what is refused --------------------------------------------------------------------- */

TEST(a_verdict_on_its_way_is_not_saved)
{
    make_names();
    struct side a;
    begin(&a, usual_config());
    struct acquire one = {.name = name_of(0), .units = 1, .limit = 1, .wait = WAIT_ME};
    struct waiter *w;
    ck_assert(table_acquire(a.t, &a.holders[0], &one, now, NULL, &w) == TABLE_OK);
    ck_assert(table_acquire(a.t, &a.holders[1], &one, now, NULL, &w) == TABLE_WAITING);
    verdicts out;
    mail_list_init(&out);
    struct release r = {.name = name_of(0), .units = 1};
    ck_assert(table_release(a.t, &a.holders[0], &r, now, NULL, &out) == TABLE_OK);
    int fd = begin_record();
    write_side(&a);
    ck_assert(!record_finish(&writer));
    ck_assert_int_eq(errno, EBUSY);
    close(fd);
    (void)deliver(&a, &out);
    struct record_reader whole = save(&a);
    record_unmap(&whole);
    end(&a);
}
END_TEST

/* Saves a side without one of its holders; restoring must fail with the reason `why`. */
static void refused_without(unsigned holder, const char *why)
{
    make_names();
    struct side a, b;
    begin(&a, usual_config());
    struct acquire one = {.name = name_of(0), .units = 1, .limit = 1, .wait = WAIT_ME};
    struct waiter *w;
    ck_assert(table_acquire(a.t, &a.holders[0], &one, now, NULL, &w) == TABLE_OK);
    ck_assert(table_acquire(a.t, &a.holders[1], &one, now, NULL, &w) == TABLE_WAITING);
    struct holder kept = a.holders[holder];
    holder_init(&a.holders[holder], holder + 1, holder);
    struct record_reader r = save(&a);
    a.holders[holder] = kept;
    begin(&b, usual_config());
    ck_assert(!restore(&b, &r));
    ck_assert_str_eq(r.why, why);
    table_free(&b.t);
    record_unmap(&r);
    end(&a);
}

TEST(who_is_missing_is_noticed)
{
    refused_without(0, "a name has units that no holder has");
    refused_without(1, "a queue has too few or too many waiters");
}
END_TEST

TEST(out_of_order)
{
    make_names();
    struct side a, b;
    begin(&a, usual_config());
    run(&a, 100);
    struct record_reader whole = save(&a), r = whole;
    struct record_reader table, section;
    uint32_t kind;
    begin(&b, usual_config());
    record_get_head(&r);
    ck_assert(record_enter(&r, &kind, &table));
    struct record_reader again = table;
    while (record_enter(&r, &kind, &section) && section.len == 8)
        continue;
    ck_assert(!holder_restore(b.t, &b.holders[0], &section));
    ck_assert_str_eq(r.why, "the state has no table");
    r = whole;
    ck_assert(!table_restore_done(b.t, &r));
    r = whole;
    ck_assert(holding_restore(b.t, &b.holders[0], &r) == NULL);
    r = whole;
    table.parent = again.parent = &r;
    ck_assert(table_restore(b.t, now, 3, &table));
    ck_assert(!table_restore(b.t, now, 3, &again));
    ck_assert_str_eq(r.why, "the table appears twice");
    table_free(&b.t);
    record_unmap(&whole);
    end(&a);
}
END_TEST

TEST(sections_of_a_later_version)
{
    make_names();
    struct side a, b;
    begin(&a, usual_config());
    run(&a, 100);
    for (unsigned known = 0; known < 2; known++) {
        int fd = begin_record();
        write_side(&a);
        record_begin(&writer, 0x7777 | (known ? 0 : RECORD_OPTIONAL));
        record_put_u32(&writer, 1);
        record_end(&writer);
        struct record_reader r = end_record(fd);
        begin(&b, usual_config());
        ck_assert(restore(&b, &r) == !known);
        if (known) {
            table_free(&b.t);
        } else {
            compare(&a, &b);
            end(&b);
        }
        record_unmap(&r);
    }
    end(&a);
}
END_TEST

/* ---- damage ------------------------------------------------------------------------------ */

static uint64_t restored, refused;

/* Restores `copy`: this either fails, or gives a consistent table that can be ended. */
static void try_copy(const void *copy, size_t len)
{
    struct side side;
    struct record_reader r;
    record_reader_init(&r, copy, len);
    begin(&side, usual_config());
    if (restore(&side, &r)) {
        restored++;
        table_check(side.t);
        for (unsigned i = 0; i < 20; i++)
            (void)request(&side, &rng);
        table_check(side.t);
        end(&side);
    } else {
        refused++;
        REQUIRE(r.why != NULL);
        table_free(&side.t);
    }
}

/* The record of a small table with some of everything. */
static struct record_reader small_state(struct side *side)
{
    now = (struct moment){.mono_ns = 1, .unix_s = 1700000000};
    make_names();
    begin(side, usual_config());
    run(side, 250);
    return save(side);
}

/* In slow builds tests try one place of this many, a different set in each run. */
static unsigned stride(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 40;
#else
    return 16;
#endif
}

TEST(every_truncation_is_refused)
{
    rng = rng_start("truncations", random_seed());
    struct side a;
    struct record_reader whole = small_state(&a);
    unsigned step = (unsigned)env_number("T_STRIDE", stride());
    for (size_t len = rng_below(&rng, step); len < whole.len; len += step) {
        uint8_t *copy = malloc(len ? len : 1);
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, whole.data, len);
        try_copy(copy, len);
        free(copy);
    }
    ck_assert_uint_eq(restored, 0);
    ck_assert_uint_gt(refused, 0);
    record_unmap(&whole);
    end(&a);
}
END_TEST

TEST(flipped_bytes_do_no_harm)
{
    rng = rng_start("flips", random_seed());
    struct side a;
    struct record_reader whole = small_state(&a);
    uint8_t *copy = malloc(whole.len);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, whole.data, whole.len);
    unsigned step = (unsigned)env_number("T_STRIDE", stride());
    for (size_t at = rng_below(&rng, step); at < whole.len; at += step) {
        uint8_t before = copy[at];
        unsigned flipped = before ^ 1u << rng_below(&rng, 8);
        copy[at] = (uint8_t)(rng_one_in(&rng, 3) ? flipped : rng_next(&rng));
        try_copy(copy, whole.len);
        copy[at] = before;
    }
    ck_assert(restored > 0 && refused > 0);
    free(copy);
    record_unmap(&whole);
    end(&a);
}
END_TEST

/* ---- how long it takes ------------------------------------------------------------------- */

static double seconds(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Prints how long it takes to save and restore T_NAMES names with this many holders each. */
static void take_many(unsigned holders)
{
    uint64_t many = env_number("T_NAMES", 20000);
    struct table_config config = usual_config();
    config.memory_limit = (size_t)2 << 30;
    config.buckets = 16384;
    struct side a, b;
    begin(&a, config);
    struct acquire one = {.units = 1, .limit = holders};
    char text[40];
    for (uint64_t i = 0; i < many; i++) {
        int len = snprintf(text, sizeof(text), "a name of 24 b %09" PRIu64, i);
        one.name = bytes_at(text, (size_t)len);
        for (unsigned k = 0; k < holders; k++)
            ck_assert(table_acquire(a.t, &a.holders[(i + k) % HOLDERS], &one, now, NULL, NULL) ==
                      TABLE_OK);
    }
    double began = seconds();
    struct record_reader r = save(&a);
    double saved = seconds();
    begin(&b, config);
    ck_assert_msg(restore(&b, &r), "%s", r.why);
    double ended = seconds();
    table_check(b.t);
    double checked = seconds();
    dprintf(STDOUT_FILENO,
            "# %" PRIu64 " names, %u holders each, %zu bytes: saved in %.3f s, restored in %.3f s, "
            "checked in %.3f s\n",
            many, holders, r.len, saved - began, ended - saved, checked - ended);
    record_unmap(&r);
    struct table_stats stats;
    table_get_stats(b.t, now, &stats);
    ck_assert_uint_eq(stats.names, many);
    ck_assert_uint_eq(stats.units, holders * many);
    end(&a);
    end(&b);
}

TEST(many_names)
{
    take_many(1);
    take_many(3);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(a_restored_table_goes_on_as_the_one_before),
    UNIT(an_empty_table),
    UNIT(what_does_not_fit_the_new_limit_is_kept_and_nothing_more_taken),
    UNIT(intervals_of_another_length),
    UNIT(a_walk_goes_on_in_the_restored_table),
    UNIT(a_verdict_on_its_way_is_not_saved),
    UNIT(who_is_missing_is_noticed),
    UNIT(out_of_order),
    UNIT(sections_of_a_later_version),
    UNIT(every_truncation_is_refused),
    UNIT(flipped_bytes_do_no_harm),
    UNIT(many_names),
};

UNIT_MAIN("engine/state", tests)
