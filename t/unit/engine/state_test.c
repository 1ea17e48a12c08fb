/*
 * state_test.c - saved tables that the model's random calls (t/models/table_test.c) do not make:
 * larger than the new limit, in the wrong order, with sections of a later version; walks that go
 * on.
 */
#include "engine/state.h"

#include "t/unit/random.h"
#include "t/unit/unit.h"

#include <string.h>
#include <sys/mman.h>

#define INTERVAL 100

enum { NAMES = 60, HOLDERS = 25, KIND_HOLDER = 0x7001 };

static struct record_writer writer;
static struct rng rng;

/* A table with its holders. */
struct side {
    struct table_config config;
    struct table *t;
    struct holder holders[HOLDERS];
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

static void end(struct side *side)
{
    verdicts out;
    mail_list_init(&out);
    for (unsigned i = 0; i < HOLDERS; i++) {
        table_close(side->t, &side->holders[i], now, NULL, &out);
    }
    table_free(&side->t);
}

/* Each holder takes a unit of a name. */
static void take_some(struct side *side)
{
    for (unsigned i = 0; i < HOLDERS; i++) {
        struct acquire one = {.name = name_of(i), .units = 1, .limit = 1};
        ck_assert(table_acquire(side->t, &side->holders[i], &one, now, NULL, NULL) == TABLE_OK);
    }
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
    record_unmap(&r);
}

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

TEST(out_of_order)
{
    make_names();
    struct side a, b;
    begin(&a, usual_config());
    take_some(&a);
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
    take_some(&a);
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
            table_check(b.t);
            struct table_stats stats;
            table_get_stats(b.t, now, &stats);
            ck_assert_uint_eq(stats.units, HOLDERS);
            end(&b);
        }
        record_unmap(&r);
    }
    end(&a);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(what_does_not_fit_the_new_limit_is_kept_and_nothing_more_taken),
    UNIT(a_walk_goes_on_in_the_restored_table),
    UNIT(out_of_order),
    UNIT(sections_of_a_later_version),
};

UNIT_MAIN("engine/state", tests)
