/*
 * tables.h - a table with some holders and a clock, and short functions to use it. A test begins
 * with start() and ends with finish(), which also checks that nothing is left; tests that abort
 * need no finish().
 */
#ifndef UNIT_ENGINE_TABLES_H
#define UNIT_ENGINE_TABLES_H

#include "engine/table.h"
#include "t/unit/unit.h"

#include <stdio.h>
#include <string.h>

#define INTERVAL 100L
#define MIB      ((size_t)1 << 20)

enum { HOLDERS = 12 };

static struct table *t;
static struct holder h[HOLDERS];
static results out;
static struct moment now = {.mono_ns = 5000, .unix_s = 1000 * INTERVAL};
static uint32_t next_id = 1;

static inline void open_holder(struct holder *holder)
{
    uint32_t id = next_id++;
    holder_init(holder, id, UINT64_C(0x7000000000000000) + id);
}

static inline void start_with(const struct table_config *config)
{
    t = table_new(config);
    ck_assert(t != NULL);
    mail_list_init(&out);
    for (int i = 0; i < HOLDERS; i++)
        open_holder(&h[i]);
}

static inline void start(void)
{
    start_with(&(struct table_config){
        .buckets = 100,
        .memory_limit = 64 * MIB,
        .stats_interval_s = INTERVAL,
        .hash_key = {.k0 = 1, .k1 = 2},
    });
}

static inline struct table_stats stats(void)
{
    struct table_stats s;
    table_get_stats(t, now, &s);
    return s;
}

static inline uint64_t collect_all(unsigned budget)
{
    struct table_walk walk = {0};
    uint64_t collected = 0;
    while (!table_collect(t, &walk, now, budget, &collected))
        continue;
    return collected;
}

/* Closes all holders, and checks that the table is empty then. */
static inline void finish(void)
{
    for (int i = 0; i < HOLDERS; i++)
        table_close(t, &h[i], now, NULL, &out);
    for (struct mail *m; (m = mail_list_take(&out)) != NULL;) {
        struct waiter *w = waiter_of(m);
        ck_assert(w->holder == NULL);
        table_waiter_free(t, w);
    }
    table_check(t);
    struct table_stats s = stats();
    ck_assert(s.units == 0 && s.holdings == 0 && s.waiting == 0);
    now.unix_s += INTERVAL;
    collect_all(100);
    s = stats();
    ck_assert(s.names == 0 && s.overflowing == 0);
    table_check(t);
    table_free(&t);
    ck_assert(t == NULL);
}

static inline struct bytes name_of(const char *text)
{
    return bytes_of(text);
}

static inline enum table_status ask(struct holder *holder, const struct acquire *a,
                                    struct waiter **w)
{
    return table_acquire(t, holder, a, now, NULL, w);
}

/* Acquires units without waiting. */
static inline enum table_status take(struct holder *holder, const char *name, uint32_t units,
                                     uint32_t limit)
{
    struct acquire a = {.name = name_of(name), .units = units, .limit = limit};
    return ask(holder, &a, NULL);
}

/* The same for binary clients: the counter stays until its interval ends. */
static inline enum table_status take_keep(struct holder *holder, const char *name, uint32_t units,
                                          uint32_t limit)
{
    struct acquire a = {.name = name_of(name), .units = units, .limit = limit, .keep = true};
    return ask(holder, &a, NULL);
}

static inline struct waiter *wait_for(struct holder *holder, enum wait_kind kind, const char *name,
                                      uint32_t units, uint32_t limit)
{
    struct acquire a = {.name = name_of(name), .units = units, .limit = limit, .wait = kind};
    struct waiter *w = NULL;
    ck_assert_int_eq(ask(holder, &a, &w), TABLE_WAITING);
    ck_assert(w != NULL && w->holder == holder && w->message.to == holder->tag);
    ck_assert(w->since_ns == now.mono_ns && w->units == units && w->limit == limit);
    ck_assert(w->kind == kind && holder->waiters == w);
    return w;
}

static inline enum table_status give(struct holder *holder, const char *name, uint32_t units)
{
    return table_release(t, holder, &(struct release){.name = name_of(name), .units = units}, now,
                         NULL, &out);
}

/* The consumption of a name, or -1. */
static inline int64_t count_of(const char *name)
{
    uint32_t consumption = 0xdead;
    enum table_status status = table_get(t, name_of(name), now, &consumption);
    ck_assert(status == TABLE_OK || (status == TABLE_NOT_FOUND && consumption == 0xdead));
    return status == TABLE_OK ? (int64_t)consumption : -1;
}

/* What a walk reports about one name. */
struct monitor {
    uint32_t count;
    const char *name; /* the name to look for */
    uint32_t consumption, peak, times;
};

static inline bool see(void *arg, const struct table_entry *entry)
{
    struct monitor *seen = arg;
    seen->count++;
    if (seen->name && entry->name.len == strlen(seen->name) &&
        memcmp(entry->name.data, seen->name, entry->name.len) == 0) {
        seen->consumption = entry->consumption;
        seen->peak = entry->peak;
        seen->times++;
    }
    return true;
}

static inline struct monitor walk_for(const char *name)
{
    struct monitor seen = {.name = name};
    struct table_walk walk = {0};
    while (!table_walk_on(t, &walk, now, 7, see, &seen))
        continue;
    ck_assert(seen.times <= 1);
    return seen;
}

/* The peak of an existing name. */
static inline uint32_t peak_of(const char *name)
{
    struct monitor seen = walk_for(name);
    ck_assert(seen.times == 1 && (int64_t)seen.consumption == count_of(name));
    return seen.peak;
}

static inline void next_interval(void)
{
    now.unix_s = (now.unix_s / INTERVAL + 1) * INTERVAL;
}

static inline enum table_status take_bytes(struct holder *holder, const void *data, size_t len,
                                           uint32_t units, bool keep)
{
    struct acquire a = {.name = {data, len}, .units = units, .limit = UINT32_MAX, .keep = keep};
    return table_acquire(t, holder, &a, now, NULL, NULL);
}

#endif
