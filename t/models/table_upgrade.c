/* table_upgrade.c - the table is written to a record, and read by another (see table_world.h). */
#include "engine/state.h"
#include "t/models/table_world.h"

#include <sys/mman.h>

static struct record_writer writer;
static struct table_walk walked; /* goes on in the other table */

/* Writes the table, its holders and a walk. Returns the file. */
static int save(void)
{
    int fd = memfd_create("state", MFD_CLOEXEC);
    AGREE(fd >= 0);
    record_writer_init(&writer, fd);
    table_save(t, now, &writer);
    for (unsigned holder = 0; holder < HOLDERS; holder++) {
        record_begin(&writer, holder);
        holder_save(t, &holders[holder], &writer);
        for (unsigned n = 0; n < NAMES; n++) {
            if (has[holder].of[n].units > 0)
                holding_save(t, held[holder][n], &writer);
        }
        record_end(&writer);
    }
    record_begin(&writer, HOLDERS);
    table_walk_save(&walked, &writer);
    record_end(&writer);
    return fd;
}

/* Reads a record into another table, without the holder `missing`; the one before reads what
 * `confused` holds. Returns false on failure. */
static bool restore(struct table *to, struct holder *new_holders, struct record_reader *r,
                    struct holding *new_held[HOLDERS][NAMES], unsigned missing, unsigned confused)
{
    struct record_reader again = *r, section;
    uint32_t kind;
    if (!record_enter(r, &kind, &section) || kind != STATE_TABLE) {
        record_refuse(r, "no table");
        return false;
    }
    if (!table_restore(to, now, 1 + rng_below(&rng, 2), &section))
        return false;
    AGREE(record_enter(&again, &kind, &section) &&
          !table_restore(to, now, 1, &section)); /* twice */
    for (unsigned holder = 0; holder < HOLDERS; holder++) {
        holder_init(&new_holders[holder], ++next_id, holder);
        if (!record_enter(r, &kind, &section)) {
            record_refuse(r, "no holder");
            return false;
        }
        if (holder == missing)
            continue;
        if (!holder_restore(to, &new_holders[holder], &section))
            return false;
        for (unsigned n = 0; n < NAMES; n++) {
            new_held[holder][n] = NULL;
            if (has[holder].of[n].units == 0)
                continue;
            struct holder *reads = &new_holders[holder - (holder == confused)];
            new_held[holder][n] = holding_restore(to, reads, &section);
            if (!new_held[holder][n])
                return false;
        }
        record_leave(&section);
    }
    if (!record_enter(r, &kind, &section)) {
        record_refuse(r, "no walk");
        return false;
    }
    if (!table_walk_restore(&walked, &section))
        return false;
    record_leave(&section);
    return record_ok(r) && table_restore_done(to, r);
}

/* A table of the record's settings, or others. */
static struct table *another_table(void)
{
    struct table_config other = config;
    other.buckets = rng_below(&rng, 3000);
    other.hash_key.k0 = rng_next(&rng);
    return table_new(&other);
}

static struct holder *other_holders(void)
{
    return sets_of_holders[holders == sets_of_holders[0]];
}

/* What is only reserved is not saved. */
static bool has_units_or_waits(unsigned holder)
{
    return holders[holder].waiters || holder_units(t, &holders[holder]) > 0;
}

struct one {
    size_t len; /* 0: none */
    unsigned char bytes[TABLE_NAME_MAX];
};

static bool take_one(void *arg, const struct table_entry *entry)
{
    struct one *one = arg;
    if (one->len > 0)
        return false;
    one->len = entry->name.len;
    memcpy(one->bytes, entry->name.data, one->len);
    return true;
}

/* Each name that a walk shows is found by requests. */
static void find_all(struct table *to)
{
    static struct one one;
    struct table_walk walk = {0};
    uint32_t consumption;
    for (bool over = false; !over;) {
        one.len = 0;
        over = table_walk_on(to, &walk, now, 50, take_one, &one);
        AGREE(one.len == 0 ||
              table_get(to, bytes_at(one.bytes, one.len), now, &consumption) == TABLE_OK);
    }
}

/* Reads a holder before the table. */
static void try_out_of_order(struct table *to, const struct record_reader *whole)
{
    struct holder early;
    struct record_reader r = *whole, section;
    uint32_t kind;
    holder_init(&early, ++next_id, 0);
    AGREE(record_enter(&r, &kind, &section) && record_enter(&r, &kind, &section));
    AGREE(!holder_restore(to, &early, &section) && r.why);
    r = *whole;
    AGREE(!holding_restore(to, &early, &r));
    r = *whole;
    AGREE(!table_restore_done(to, &r));
}

/* A damaged or incomplete record is refused, or gives a table that is whole. */
static void try_damaged(const struct record_reader *whole)
{
    static struct holding *new_held[HOLDERS][NAMES];
    struct holder *new_holders = other_holders();
    unsigned missing = HOLDERS, confused = HOLDERS, cut = 0;
    struct record_reader r;
    uint8_t *copy = malloc(whole->len); /* of this size, so that ASan sees what is read behind it */
    AGREE(copy != NULL);
    memcpy(copy, whole->data, whole->len);
    uint32_t how = rng_below(&rng, 9);
    uint8_t *at = &copy[rng_below(&rng, (uint32_t)whole->len)];
    if (how == 0)
        missing = rng_below(&rng, HOLDERS);
    else if (how == 1)
        cut = 1 + rng_below(&rng, (uint32_t)whole->len - 1);
    else if (how == 2)
        confused = 1 + rng_below(&rng, HOLDERS - 1);
    else if (how < 6)
        *at ^= (uint8_t)(1u << rng_below(&rng, 8));
    else
        *at = (uint8_t)rng_next(&rng);
    record_reader_init(&r, copy, whole->len - cut);
    struct table *to = another_table();
    AGREE(to != NULL);
    try_out_of_order(to, whole);
    if (restore(to, new_holders, &r, new_held, missing, confused)) {
        AGREE(cut == 0 && (missing == HOLDERS || !has_units_or_waits(missing)));
        restored_records++;
        table_check(to);
        find_all(to);
        for (unsigned i = 0; i < 20; i++) {
            struct holder *one = &new_holders[rng_below(&rng, HOLDERS)];
            struct bytes name = names[rng_below(&rng, NAMES)];
            const struct acquire a = {.name = name, .units = 1, .limit = 1 + rng_below(&rng, 20)};
            const struct release r1 = {.name = name, .units = 1};
            (void)!table_acquire(to, one, &a, now, NULL, NULL);
            (void)!table_release(to, one, &r1, now, NULL, &out);
        }
        for (unsigned holder = 0; holder < HOLDERS; holder++)
            table_close(to, &new_holders[holder], now, NULL, &out);
        for (struct mail *mail; (mail = mail_list_take(&out)) != NULL;)
            table_waiter_free(to, waiter_of(mail));
        table_check(to);
    } else {
        AGREE(r.why != NULL);
        refused_records++;
    }
    table_free(&to);
    free(copy);
}

/* The walk goes on: each name that lasts is shown once. */
static void walk_on(struct table *to)
{
    while (!table_walk_on(to, &walked, now, 1 + rng_below(&rng, 20), see, NULL))
        continue;
    for (unsigned n = 0; n < NAMES; n++)
        AGREE(seen[n] == 1 || (seen[n] == 0 && (!model_exists(&m, n) || m.names[n].reserved > 0)));
}

/* Reservations are not saved: those who made them make them again. */
static void reserve_again(struct table *to, struct holder *new_holders,
                          struct holding *new_held[HOLDERS][NAMES])
{
    uint32_t counts[HOLDERS][NAMES];
    for (unsigned holder = 0; holder < HOLDERS; holder++) {
        for (unsigned n = 0; n < NAMES; n++) {
            struct model_holding *of = &has[holder].of[n];
            counts[holder][n] = of->reserved;
            for (; of->reserved > 0; of->reserved--) {
                table_unreserve(t, &holders[holder], held[holder][n], now);
                m.names[n].reserved--;
            }
        }
    }
    for (unsigned n = 0; n < NAMES; n++) {
        if (model_is_expired(&m, n))
            m.names[n].present = false; /* at the latest when somebody looks for it */
        m.names[n].passed = false;
    }
    for (unsigned holder = 0; holder < HOLDERS; holder++) {
        for (unsigned n = 0; n < NAMES; n++) {
            for (uint32_t i = 0; i < counts[holder][n]; i++) {
                struct holding *where =
                    table_reserve(to, &new_holders[holder], names[n], some_hash(n), now);
                AGREE(where && (!new_held[holder][n] || where == new_held[holder][n]));
                new_held[holder][n] = where;
                model_reserve(&m, &has[holder], n);
            }
        }
    }
}

/* The new table takes the place of the old one. Its holders' waits have the same order. */
static void go_on_with(struct table *to, struct holder *new_holders)
{
    for (unsigned holder = 0; holder < HOLDERS; holder++) {
        struct waiter *real = new_holders[holder].waiters;
        for (struct waiter *w = holders[holder].waiters; w; w = w->next, real = real->next) {
            AGREE(real != NULL);
            waits[place_of(w)].real = real;
        }
        AGREE(real == NULL);
        table_close(t, &holders[holder], now, NULL, &out);
    }
    for (struct mail *mail; (mail = mail_list_take(&out)) != NULL;)
        table_waiter_free(t, waiter_of(mail));
    table_free(&t);
    t = to;
    holders = new_holders;
    dropped = stats().dropped_early;
}

void step_hand_on(void)
{
    static struct holding *new_held[HOLDERS][NAMES];
    unsigned unread = 0;
    if (squeezed > 0)
        step_squeeze();
    memset(seen, 0, sizeof(seen));
    walked = (struct table_walk){0};
    (void)!table_walk_on(t, &walked, now, 1 + rng_below(&rng, 400), see, NULL);
    for (unsigned i = 0; i < WAITS; i++)
        unread += waits[i].real && !waits[i].noted && waits[i].result != WAITER_WAITING;
    int fd = save();
    AGREE(record_finish(&writer) == (unread == 0)); /* a result on its way is not saved */
    for (unsigned i = 0; i < WAITS; i++) {
        if (waits[i].real && waits[i].result != WAITER_WAITING)
            deliver(i);
    }
    AGREE(close(fd) == 0);
    fd = save();
    AGREE(record_finish(&writer));
    struct record_reader r;
    AGREE(record_map(&r, fd));
    AGREE(close(fd) == 0);
    for (unsigned i = 0; i < 16; i++)
        try_damaged(&r);
    struct table_config before = config;
    config.stats_interval_s = rng_one_in(&rng, 2) ? INTERVAL : 7;
    memory_ends(faulty ? 1 + rng_below(&rng, 1000) : 0);
    struct holder *new_holders = other_holders();
    struct table_stats empty = {0};
    struct table *to = another_table();
    if (to)
        table_get_stats(to, now, &empty);
    bool restored = to && restore(to, new_holders, &r, new_held, HOLDERS, HOLDERS);
    memory_ends(0);
    if (restored) {
        bool same = config.stats_interval_s == m.interval_s;
        compare_contended(to, CONTENDED_WAITING, same);
        compare_contended(to, CONTENDED_REFUSED, same);
        if (same)
            compare_contended(to, CONTENDED_PEAK, same);
        else
            model_change_interval(&m, config.stats_interval_s);
        if (!late && !set_back && !faulty && !full)
            compare_peaks(to);
        walk_on(to);
        reserve_again(to, new_holders, new_held);
        go_on_with(to, new_holders);
        memcpy(held, new_held, sizeof(held));
        used_at_start = (size_t)empty.memory;
        for (unsigned holder = 0; holder < HOLDERS; holder++)
            compare_waiters(holder);
    } else {
        AGREE(faulty);
        config = before;
        table_free(&to);
    }
    record_unmap(&r);
    compare_all();
}
