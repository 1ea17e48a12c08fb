/*
 * threads_test.c - several threads on one table, each with its own holders: no limit is exceeded,
 * no result is lost, and in the end nothing is left. And several threads restore a table.
 *
 * Results go to their owner through a mailbox for each thread, as in workers. An observer outside
 * the table counts the units that holders know they have. A holder raises the count after it knows
 * of a grant, and lowers it before it releases, so the count must never be above the limit.
 */
#include "engine/contention.h"
#include "engine/state.h"

#include "t/unit/random.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

enum { THREADS = 4, INTERVAL = 5 };

static struct table *t;
static pthread_barrier_t all_closed;

static const struct moment start_time = {.mono_ns = 1, .unix_s = 1000};

static void new_table(size_t memory_limit)
{
    t = table_new(&(struct table_config){
        .buckets = 10,
        .memory_limit = memory_limit,
        .stats_interval_s = INTERVAL,
        .hash_key = {.k0 = 3, .k1 = 4},
    });
    ck_assert(t != NULL);
}

static void end_table(void)
{
    table_check(t);
    struct table_stats s;
    table_get_stats(t, clock_now(), &s);
    ck_assert(s.units == 0 && s.waiting == 0 && s.holdings == 0);
    struct table_walk walk = {0};
    uint64_t collected = 0;
    struct moment late = {.mono_ns = INT64_MAX, .unix_s = INT32_MAX};
    while (!table_collect(t, &walk, late, 100, &collected))
        continue;
    table_get_stats(t, late, &s);
    ck_assert(s.names == 0);
    table_check(t);
    table_free(&t);
}

/* ---- few names, many clients, and names that come and go in little memory -------------------- */

enum {
    NAMES = 4,
    HOLDERS = 6,
    OWN_NAMES = 400, /* of each thread */
    OWN_LEN = 60000,
    ALL_NAMES = NAMES + THREADS * OWN_NAMES,
#ifdef __SANITIZE_THREAD__
    OPERATIONS = 80000,
#else
    OPERATIONS = 400000,
#endif
};

static const struct {
    const char *name;
    uint32_t limit, most; /* the name's limit, and the most units in one request */
} wanted[NAMES + 1] = {
    {"one", 1, 1}, {"two", 2, 1}, {"five", 5, 3}, {"nine", 9, 9}, {"", 1, 1} /* all others */};

static _Atomic uint32_t known[NAMES + 1];

struct client {
    struct holder holder;
    struct holding *held[NAMES];
    uint32_t units[NAMES]; /* units of which the client knows */
    bool open;
};

struct worker {
    struct mailbox box;
    struct rng rng;
    unsigned number;
    uint32_t next_id;
    struct moment now;
    results out;
    struct client clients[HOLDERS];
    struct holder own; /* of the thread's own names */
    bool has_own[OWN_NAMES];
    unsigned char own_name[OWN_LEN];
    uint64_t bells, taken, grants, dones, refused;
    struct histogram holds;
};

static struct worker workers[THREADS];

static unsigned name_at(const struct bytes *name)
{
    unsigned n = 0;
    while (n < NAMES && !bytes_equal(*name, bytes_of(wanted[n].name)))
        n++;
    return n;
}

static void raise_known(struct client *c, unsigned n, uint32_t units)
{
    c->units[n] += units;
    uint32_t before = atomic_fetch_add(&known[n], units);
    CHECK(before + units <= wanted[n].limit);
}

static void lower_known(struct client *c, unsigned n, uint32_t units)
{
    c->units[n] -= units;
    uint32_t before = atomic_fetch_sub(&known[n], units);
    CHECK(before >= units);
}

/* Takes a result that a message brought, or that came before the end of a wait. */
static void take_note(struct worker *w, struct waiter *waiter)
{
    struct client *c = container_of(waiter->holder, struct client, holder);
    CHECK(c >= w->clients && c < w->clients + HOLDERS && c->open);
    struct holding *holding = waiter->holding;
    if (table_take_result(t, waiter) == WAITER_GRANTED) {
        struct bytes name = holding_name(t, holding);
        unsigned n = name_at(&name);
        c->held[n] = holding;
        raise_known(c, n, waiter->units);
        w->grants++;
    } else {
        w->dones++;
    }
}

static void deliver(struct mail *mail, void *arg)
{
    struct worker *w = arg;
    struct waiter *waiter = waiter_of(mail);
    CHECK(waiter->message.to == w->number);
    if (waiter->holder)
        take_note(w, waiter);
    table_waiter_free(t, waiter);
}

static void read_mail(struct worker *w)
{
    struct mail *m = mailbox_take(&w->box);
    w->taken += m != NULL;
    while (m) {
        struct mail *next = m->next;
        deliver(m, w);
        m = next;
    }
}

static void send_results(struct worker *w)
{
    for (struct mail *m; (m = mail_list_take(&w->out)) != NULL;) {
        struct worker *owner = &workers[waiter_of(m)->message.to];
        if (mailbox_send(&owner->box, m))
            w->bells++;
    }
}

static void open_client(struct worker *w, struct client *c)
{
    memset(c, 0, sizeof(*c));
    holder_init(&c->holder, w->next_id, w->number);
    w->next_id += THREADS;
    c->open = true;
}

static void count_units(void *arg, struct bytes name, uint32_t units)
{
    uint64_t *sum = arg;
    CHECK(name.len > 0);
    *sum += units;
}

static void close_client(struct worker *w, struct client *c)
{
    uint64_t has = 0, knows = 0;
    holder_visit(t, &c->holder, count_units, &has);
    for (unsigned n = 0; n < NAMES; n++)
        knows += c->units[n];
    CHECK(has >= knows);
    for (unsigned n = 0; n < NAMES; n++)
        lower_known(c, n, c->units[n]);
    table_close(t, &c->holder, w->now, &w->holds, &w->out);
    c->open = false;
}

/* Sometimes prefetches the name; returns its hash or 0. */
static uint64_t prefetched(struct rng *rng, struct bytes name)
{
    uint64_t hash = 0;
    if (rng_one_in(rng, 2))
        table_prefetch(t, &name, 1, &hash);
    return hash;
}

static void want(struct worker *w, struct client *c, unsigned n)
{
    struct bytes name = bytes_of(wanted[n].name);
    struct acquire a = {
        .name = name,
        .hash = prefetched(&w->rng, name),
        .units = 1 + rng_below(&w->rng, wanted[n].most),
        .limit = wanted[n].limit,
        .queue_max = rng_one_in(&w->rng, 2) ? 20 : 0,
        .wait = (enum wait_kind)rng_below(&w->rng, 3),
        .keep = n % 2 == 0,
    };
    struct waiter *waiter = NULL;
    struct holding *held = NULL;
    switch (table_acquire(t, &c->holder, &a, w->now, &held, &waiter)) {
    case TABLE_OK:
        c->held[n] = held;
        raise_known(c, n, a.units);
        break;
    case TABLE_WAITING:
        CHECK(waiter && waiter->holder == &c->holder);
        break;
    case TABLE_BUSY:
    case TABLE_FULL:
        break;
    case TABLE_NO_MEMORY:
        w->refused++;
        break;
    default:
        CHECK(false);
    }
}

/* Takes or gives back a name of any length that no other thread has. Pages change shards. */
static void use_own(struct worker *w)
{
    static const size_t lengths[] = {4, 8, 30, 300, 1500, 3000, OWN_LEN};
    uint32_t number = rng_below(&w->rng, OWN_NAMES), who = w->number << 16 | number;
    memcpy(w->own_name, &who, sizeof(who));
    struct bytes name = {w->own_name, lengths[number % ARRAY_SIZE(lengths)]};
    uint64_t hash = prefetched(&w->rng, name);
    if (w->has_own[number]) {
        struct release r = {.name = name, .hash = hash, .units = 1};
        CHECK(table_release(t, &w->own, &r, w->now, NULL, &w->out) == TABLE_OK);
        w->has_own[number] = false;
    } else {
        struct acquire a = {.name = name, .hash = hash, .units = 1, .limit = 1};
        enum table_status status = table_acquire(t, &w->own, &a, w->now, NULL, NULL);
        w->has_own[number] = status == TABLE_OK;
        w->refused += status == TABLE_NO_MEMORY;
        CHECK(status == TABLE_OK || status == TABLE_NO_MEMORY);
    }
    if (rng_one_in(&w->rng, 5000)) {
        table_close(t, &w->own, w->now, NULL, &w->out);
        memset(w->has_own, 0, sizeof(w->has_own));
    }
}

static void give_back(struct worker *w, struct client *c, unsigned n)
{
    if (c->units[n] == 0)
        return;
    uint32_t units = 1 + rng_below(&w->rng, c->units[n]);
    lower_known(c, n, units);
    if (rng_one_in(&w->rng, 2)) {
        table_release_held(t, &c->holder, c->held[n], units, false, w->now, &w->out);
    } else {
        struct bytes name = bytes_of(wanted[n].name);
        struct release r = {.name = name, .hash = prefetched(&w->rng, name), .units = units};
        CHECK(table_release(t, &c->holder, &r, w->now, &w->holds, &w->out) == TABLE_OK);
    }
}

static void give_up(struct worker *w, struct client *c)
{
    struct waiter *waiter = c->holder.waiters;
    if (!waiter)
        return;
    if (waiter->next && rng_one_in(&w->rng, 2))
        waiter = waiter->next;
    enum waiter_state state = table_end_wait(t, waiter, WAITER_TIMED_OUT, w->now);
    if (state != WAITER_TIMED_OUT && rng_one_in(&w->rng, 2))
        take_note(w, waiter);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    for (unsigned i = 0; i < OPERATIONS; i++) {
        struct client *c = &w->clients[rng_below(&w->rng, HOLDERS)];
        unsigned n = rng_below(&w->rng, NAMES);
        w->now.mono_ns++;
        if (i % 1000 == 0)
            w->now.unix_s++;
        if (!c->open)
            open_client(w, c);
        uint32_t what = rng_below(&w->rng, 100);
        if (what < 15)
            use_own(w);
        else if (what < 53)
            want(w, c, n);
        else if (what < 87)
            give_back(w, c, n);
        else if (what < 95)
            give_up(w, c);
        else
            close_client(w, c);
        send_results(w);
        if (rng_one_in(&w->rng, 3))
            read_mail(w);
    }
    for (unsigned k = 0; k < HOLDERS; k++) {
        if (w->clients[k].open)
            close_client(w, &w->clients[k]);
        send_results(w);
    }
    table_close(t, &w->own, w->now, NULL, &w->out);
    /* Grants can arrive until all have closed. */
    (void)pthread_barrier_wait(&all_closed);
    read_mail(w);
    return NULL;
}

static bool look_at(void *arg, const struct table_entry *entry)
{
    unsigned n = name_at(&entry->name);
    CHECK(entry->consumption <= wanted[n].limit && entry->peak <= wanted[n].limit);
    CHECK(entry->peak >= entry->consumption && entry->holders <= entry->consumption);
    ++*(unsigned *)arg;
    return true;
}

/* Inspects a name: no number may exceed its limits. */
static void look_closely(unsigned n, struct moment now)
{
    enum { MOST_WAITS = 50 };
    struct bytes name = bytes_of(wanted[n].name);
    struct table_entry entry;
    struct table_wait waits[MOST_WAITS];
    size_t count;
    if (table_inspect(t, name, now, &entry, waits, MOST_WAITS, &count) == TABLE_OK) {
        unsigned seen = 0;
        (void)look_at(&seen, &entry);
        CHECK(count == (entry.waiting < MOST_WAITS ? entry.waiting : MOST_WAITS));
        for (size_t i = 0; i < count; i++)
            CHECK(waits[i].tag < THREADS && waits[i].limit == wanted[n].limit);
    }
    struct table_walk walk = {0};
    bool over;
    do {
        struct table_hold holds[3];
        over = table_holders_on(t, name, &walk, now, 10, holds, 3, &count);
        for (size_t i = 0; i < count; i++)
            CHECK(holds[i].units <= wanted[n].limit && holds[i].limit == wanted[n].limit);
    } while (!over);
    for (int by = 0; by < CONTENDED_BY_COUNT; by++) {
        struct contended top[NAMES];
        count = table_contended(t, (enum contended_by)by, now, top, NAMES);
        for (size_t i = 0; i < count; i++) {
            struct bytes listed = {top[i].name, top[i].name_len};
            CHECK(top[i].peak <= wanted[name_at(&listed)].limit);
            CHECK(top[i].waiting_load >= 0 && top[i].waiting_load <= THREADS * HOLDERS * 1e6);
            CHECK(top[i].waiting_error <= 0 && top[i].refused_error <= 0);
        }
        CHECK(table_contended_bound(t, (enum contended_by)by, now) >= 0);
    }
}

/* Only looks at the table, and collects. */
static void look_on(void)
{
    struct moment now = start_time;
    for (unsigned i = 0; i < 800; i++) {
        struct table_walk walk = {0}, collector = {0};
        unsigned count = 0;
        uint64_t collected = 0;
        while (!table_walk_on(t, &walk, now, 30, look_at, &count))
            continue;
        CHECK(count <= ALL_NAMES);
        while (!table_collect(t, &collector, now, 30, &collected))
            continue;
        struct table_stats s;
        table_get_stats(t, clock_now(), &s);
        CHECK(s.names <= ALL_NAMES && s.units <= 1 + 2 + 5 + 9 + ALL_NAMES);
        CHECK(s.memory <= 12 * MIB);
        for (unsigned n = 0; n < NAMES; n++) {
            uint32_t consumption = 0;
            struct bytes name = bytes_of(wanted[n].name);
            (void)!table_get(t, name, now, &consumption);
            CHECK(consumption <= wanted[n].limit);
        }
        look_closely(i % NAMES, now);
        now.unix_s += i % 30 == 0;
    }
}

TEST(no_limit_is_ever_passed)
{
    struct rng rng = rng_start("threads", random_seed());
    new_table(12 * MIB);
    ck_assert(pthread_barrier_init(&all_closed, NULL, THREADS) == 0);
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){
            .rng = {rng_next(&rng)}, .number = i, .next_id = i + 1, .now = start_time};
        mailbox_init(&workers[i].box);
        mail_list_init(&workers[i].out);
        holder_init(&workers[i].own, UINT32_MAX - i, i);
    }
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    look_on();
    uint64_t bells = 0, taken = 0, grants = 0, dones = 0, refused = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        ck_assert(pthread_join(threads[i], NULL) == 0);
        bells += workers[i].bells;
        taken += workers[i].taken;
        grants += workers[i].grants;
        dones += workers[i].dones;
        refused += workers[i].refused;
        ck_assert(mailbox_take(&workers[i].box) == NULL);
    }
    for (unsigned n = 0; n < NAMES; n++)
        ck_assert(atomic_load(&known[n]) == 0);
    ck_assert(bells == taken);
    ck_assert(grants > 1000 && dones > 1000); /* the test did compete for units, */
    ck_assert(refused > 0);                   /* and memory was short */
    end_table();
}
END_TEST

/* ---- a herd of waiters, and others in the pauses of a release -------------------------------- */

enum { HERD = 3000, HERD_ROUNDS = 20 };

static _Atomic bool herd_is_over;

/* Asks for the unit that the herd waits for; it must never get it before the herd has. */
static void *ask_beside_the_herd(void *arg)
{
    struct holder *holder = arg;
    const struct acquire a = {.name = bytes_of("k"), .units = 1, .limit = HERD, .wait = WAIT_NO};
    while (!atomic_load(&herd_is_over)) {
        uint32_t consumption = 0;
        CHECK(table_acquire(t, holder, &a, start_time, NULL, NULL) == TABLE_BUSY);
        CHECK(table_get(t, a.name, start_time, &consumption) == TABLE_OK);
        CHECK(consumption >= HERD);
    }
    return NULL;
}

static void herd_waits(struct holder *holder, enum wait_kind kind, struct waiter **waiters)
{
    const struct acquire a = {.name = bytes_of("k"), .units = 1, .limit = HERD, .wait = kind};
    for (unsigned i = 0; i < HERD; i++)
        ck_assert_int_eq(table_acquire(t, holder, &a, start_time, NULL, &waiters[i]),
                         TABLE_WAITING);
}

static void herd_gets(results *out, struct waiter **waiters, enum waiter_state result)
{
    for (unsigned i = 0; i < HERD; i++) {
        struct mail *mail = mail_list_take(out);
        ck_assert(mail == &waiters[i]->message.mail);
        ck_assert_int_eq(table_take_result(t, waiters[i]), result);
        table_waiter_free(t, waiters[i]);
    }
}

/* A release with many waiters pauses; nobody else sees a moment in which it is half done. */
TEST(in_the_pauses_of_a_release_nobody_gets_what_waiters_will_get)
{
    static struct waiter *any[HERD], *me[HERD];
    struct holder holders[2], herd[2], other;
    struct acquire all = {.name = bytes_of("k"), .units = HERD, .limit = HERD};
    results out;
    pthread_t beside;
    mail_list_init(&out);
    new_table(16 * MIB);
    holder_init(&other, 1, 1);
    for (unsigned i = 0; i < 2; i++) {
        holder_init(&holders[i], 2 + i, 2 + i);
        holder_init(&herd[i], 4 + i, 4 + i);
    }
    ck_assert_int_eq(table_acquire(t, &holders[0], &all, start_time, NULL, NULL), TABLE_OK);
    ck_assert_int_eq(pthread_create(&beside, NULL, ask_beside_the_herd, &other), 0);
    for (unsigned i = 0; i < HERD_ROUNDS; i++) {
        struct holder *from = i % 2 == 0 ? &holders[0] : &herd[1];
        bool closes = i % 3 == 0;
        if (!closes)
            herd_waits(&herd[0], WAIT_ANY, any);
        herd_waits(i % 2 == 0 ? &herd[1] : &holders[0], WAIT_ME, me);
        if (closes)
            table_close(t, from, start_time, NULL, &out);
        else
            ck_assert_int_eq(table_release(t, from,
                                           &(struct release){.name = all.name, .units = HERD},
                                           start_time, NULL, &out),
                             TABLE_OK);
        if (closes)
            holder_init(from, from->id, from->tag);
        else
            herd_gets(&out, any, WAITER_DONE);
        herd_gets(&out, me, WAITER_GRANTED);
        ck_assert(out.first == NULL);
    }
    atomic_store(&herd_is_over, true);
    ck_assert_int_eq(pthread_join(beside, NULL), 0);
    table_check(t);
    for (unsigned i = 0; i < 2; i++) {
        table_close(t, &holders[i], start_time, NULL, &out);
        table_close(t, &herd[i], start_time, NULL, &out);
    }
    end_table();
}
END_TEST

/* ---- restoring ------------------------------------------------------------------------------- */

enum { HELD = 20000, KIND_HOLDER = 0x7001 };

/* Saves the table with its one holder, in memory. */
static struct record_reader save(const struct holder *holder)
{
    static struct record_writer w;
    struct record_reader r;
    int fd = memfd_create("state", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    record_writer_init(&w, fd);
    table_save(t, start_time, &w);
    record_begin(&w, KIND_HOLDER);
    holder_save(t, holder, &w);
    record_end(&w);
    ck_assert(record_finish(&w) && record_map(&r, fd));
    ck_assert_int_eq(close(fd), 0);
    return r;
}

/* Restores a record into a new table. */
static bool restore(struct holder *holder, struct record_reader *r, size_t memory_limit)
{
    struct record_reader section;
    uint32_t kind;
    new_table(memory_limit);
    holder_init(holder, 1, 0);
    return record_enter(r, &kind, &section) && table_restore(t, start_time, THREADS, &section) &&
           record_enter(r, &kind, &section) && holder_restore(t, holder, &section) &&
           table_restore_done(t, r);
}

TEST(a_table_is_restored_by_several_threads)
{
    struct holder holder;
    char name[32];
    new_table(64 * MIB);
    holder_init(&holder, 1, 0);
    for (unsigned i = 0; i < HELD; i++) {
        struct acquire one = {.units = 1 + i % 3, .limit = 3};
        one.name = bytes_at(name, (size_t)snprintf(name, sizeof(name), "held %u", i));
        ck_assert(table_acquire(t, &holder, &one, start_time, NULL, NULL) == TABLE_OK);
    }
    struct table_stats before, after;
    table_get_stats(t, start_time, &before);
    const struct record_reader whole = save(&holder);
    /* The second limit is too small: what does not fit is kept, and nothing more is taken. */
    const size_t limits[] = {64 * MIB, 5 * MIB / 2};
    static unsigned char longer[300];
    const struct acquire one = {.name = {longer, sizeof(longer)}, .units = 1, .limit = 1};
    for (unsigned i = 0; i < ARRAY_SIZE(limits); i++) {
        results out = {0};
        struct record_reader r = whole;
        table_close(t, &holder, start_time, NULL, &out);
        table_free(&t);
        ck_assert_msg(restore(&holder, &r, limits[i]), "%s", r.why);
        table_check(t);
        table_get_stats(t, start_time, &after);
        ck_assert_uint_eq(after.names, HELD);
        ck_assert_uint_eq(after.units, before.units);
        ck_assert_uint_eq(after.holdings, before.holdings);
        ck_assert(table_is_tight(t) == (i == 1));
        ck_assert(table_acquire(t, &holder, &one, start_time, NULL, NULL) ==
                  (i == 1 ? TABLE_NO_MEMORY : TABLE_OK));
    }
    results out = {0};
    table_close(t, &holder, start_time, NULL, &out);
    table_trim(t);
    holder_init(&holder, 1, 0);
    ck_assert(table_acquire(t, &holder, &one, start_time, NULL, NULL) == TABLE_OK);
    table_close(t, &holder, start_time, NULL, &out);
    table_free(&t);

    /* Damage that all threads meet. */
    struct record_reader r = whole;
    uint8_t *damaged = malloc(r.len);
    ck_assert_ptr_nonnull(damaged);
    memcpy(damaged, r.data, r.len);
    for (size_t i = r.len / 64; i + 64 <= r.len; i += r.len / 64)
        memset(damaged + i, 0xff, 64);
    record_reader_init(&r, damaged, r.len);
    ck_assert(!restore(&holder, &r, 64 * MIB) && r.why);
    table_free(&t);
    free(damaged);
}
END_TEST

UNIT_MAIN("engine/threads")
