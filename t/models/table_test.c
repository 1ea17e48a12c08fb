/*
 * table_test.c - random calls of the table, compared with its model (table.h) after each.
 *
 * A step is one call; then everything that can be asked is compared: the answer, the results in
 * their order, the units of each name, the sums. Modes make steps harder: memory is refused, the
 * table is full, the clock is set back, threads are an interval late. In all modes the table is now
 * and then written to a record, also a damaged one, and the run goes on in the table that is read
 * from it. T_SEED repeats a run, T_MODEL_STEPS sets its length; a failure names the step.
 *
 * All calls are made under a lock of the rank of the pools, as services do.
 */
#include "base/lock.h"
#include "t/models/table_world.h"
#include "t/unit/engine/faults.h"

struct table *t;
struct table_config config;
struct holder sets_of_holders[2][HOLDERS];
struct holder *holders = sets_of_holders[0];
struct holding *held[HOLDERS][NAMES];
struct model m;
struct model_holder has[HOLDERS];
struct wait waits[WAITS];
struct bytes names[NAMES];
struct moment now;
results out;
struct histogram lasted;
uint64_t ended_count, ended_ns;
unsigned expected[WAITS], expected_count;
uint64_t step, ages;
uint32_t next_id;
struct rng rng;
size_t used_at_start;
size_t squeezed;
uint64_t dropped;
static unsigned long faults_before;
unsigned refused_records, restored_records;
bool faulty, full, set_back, late;

static bool dice(void)
{
    return rng_one_in(&rng, 12);
}

static bool always(void)
{
    return true;
}

static void memory_is_short(bool (*how)(void))
{
    faults_before = faults;
    fault_dice = faulty ? how : NULL;
}

/* Until memory_comes, all memory is refused, for calls that need none. */
static void memory_goes(void)
{
    memory_is_short(always);
}

static void memory_comes(void)
{
    fault_dice = NULL;
    AGREE(faults == faults_before);
}

void memory_ends(unsigned long after)
{
    fault_countdown = after;
}

struct table_stats stats(void)
{
    struct table_stats s;
    table_get_stats(t, now, &s);
    return s;
}

/* The hash of a name, prefetched with others; or 0: unknown. */
uint64_t some_hash(unsigned n)
{
    struct bytes some[TABLE_PREFETCH_MAX];
    uint64_t hashes[TABLE_PREFETCH_MAX];
    unsigned count = 1 + rng_below(&rng, TABLE_PREFETCH_MAX), at = rng_below(&rng, count);
    if (rng_one_in(&rng, 2))
        return 0;
    for (unsigned i = 0; i < count; i++)
        some[i] = i == at ? names[n] : rng_one_in(&rng, 3) ? bytes_at("", 0) : names[i % NAMES];
    table_prefetch(t, some, count, hashes);
    for (unsigned i = 0; i < count; i++)
        AGREE((hashes[i] == 0) == (some[i].len == 0));
    return hashes[at];
}

static void open_holder(unsigned holder)
{
    uint32_t id = ++next_id;
    holder_init(&holders[holder], id, holder);
    has[holder] = (struct model_holder){0};
    memset(held[holder], 0, sizeof(held[holder]));
}

bool keeps_holding(unsigned holder, unsigned n)
{
    return has[holder].of[n].units > 0 || has[holder].of[n].reserved > 0;
}

static unsigned free_place(void)
{
    unsigned i = 0;
    while (i < WAITS && waits[i].real)
        i++;
    return i;
}

unsigned place_of(const struct waiter *real)
{
    unsigned i = 0;
    while (i < WAITS && waits[i].real != real)
        i++;
    AGREE(i < WAITS);
    return i;
}

/* The place of a random wait; WAITS: there is none. */
static unsigned some_wait(void)
{
    unsigned at = rng_below(&rng, WAITS);
    for (unsigned i = 0; i < WAITS; i++) {
        if (waits[(at + i) % WAITS].real)
            return (at + i) % WAITS;
    }
    return WAITS;
}

/* The model has made a result. */
static void on_decided(struct model_wait *w)
{
    struct wait *wait = container_of(w, struct wait, has);
    wait->result = w->state == WAIT_GRANTED ? WAITER_GRANTED : WAITER_DONE;
    expected[expected_count++] = (unsigned)(wait - waits);
}

/* The name, in memory that the next one uses again. */
static struct bytes lent(unsigned n)
{
    static unsigned char memory[4000];
    memcpy(memory, names[n].data, names[n].len);
    return bytes_at(memory, names[n].len);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* True if memory may be short. */
static bool may_refuse(void)
{
    return faults > faults_before || squeezed > 0;
}

/* After a request without memory no other name of its shard is at 0: it has dropped them all. */
static void see_room_was_made(unsigned n)
{
    learn_of_dropped();
    for (unsigned k = 1; k < NAMES && !faulty && squeezed > 0; k++) {
        if (k != n && k % 2 == n % 2 && n > 0)
            AGREE(!model_exists(&m, k) || m.names[k].consumption > 0 || m.names[k].reserved > 0);
    }
}

/* A holding has units or reservations now. */
static void note_holding(unsigned holder, unsigned n, struct holding *where, bool had)
{
    AGREE(where != NULL && (!had || where == held[holder][n]));
    held[holder][n] = where;
}

/* Random units and limit of a name. */
static void choose_units(unsigned n, uint32_t *units, uint32_t *limit)
{
    if (n == 0) { /* one name has huge numbers */
        *units = rng_one_in(&rng, 2) ? UINT32_MAX - rng_below(&rng, 3) : 1 + rng_below(&rng, 3);
        *limit = rng_one_in(&rng, 2) || *units == UINT32_MAX ? UINT32_MAX : UINT32_MAX - 1;
        if (*limit < *units)
            *limit = *units;
    } else {
        *units = 1 + (rng_one_in(&rng, 3) ? rng_below(&rng, 4) : 0);
        *limit = *units + rng_below(&rng, n % 4 == 1 ? 2 : 2 * n);
    }
}

static void step_acquire(void)
{
    unsigned n = rng_below(&rng, NAMES), holder = rng_below(&rng, HOLDERS), place = free_place();
    struct model_acquire is = {.name = n, .keep = rng_one_in(&rng, 3)};
    choose_units(n, &is.units, &is.limit);
    is.queue_max = rng_one_in(&rng, 3) ? 1 + rng_below(&rng, 30) : 0;
    is.wait = place < WAITS ? (enum wait_kind)rng_below(&rng, 3) : WAIT_NO;
    const struct acquire a = {.name = lent(n),
                              .hash = some_hash(n),
                              .units = is.units,
                              .limit = is.limit,
                              .queue_max = is.queue_max,
                              .wait = is.wait,
                              .keep = is.keep};
    struct holding *where = NULL;
    struct waiter *real = NULL;
    bool had = keeps_holding(holder, n);
    bool fit = (uint64_t)m.names[n].consumption + is.units <= is.limit;
    memory_is_short(dice);
    enum table_status status = table_acquire(t, &holders[holder], &a, now, &where, &real);
    fault_dice = NULL;
    learn_of_made(n);
    is.no_memory = status == TABLE_NO_MEMORY;
    struct wait *wait = &waits[place < WAITS ? place : 0];
    AGREE(model_acquire(&m, &has[holder], &is, &wait->has) == status);
    AGREE(!is.no_memory || (may_refuse() && !(had && fit)));
    if (is.no_memory)
        see_room_was_made(n);
    AGREE((status == TABLE_WAITING) == (real != NULL));
    if (status == TABLE_OK)
        note_holding(holder, n, where, had);
    if (status == TABLE_WAITING) {
        wait->real = real;
        wait->holder = holder;
        wait->result = WAITER_WAITING;
        wait->noted = false;
        wait->age = ++ages;
    }
    compare_waiters(holder);
}

/* Units are added whatever the limit. */
static void step_add(void)
{
    unsigned n = rng_below(&rng, NAMES), holder = rng_below(&rng, HOLDERS);
    struct model_acquire is = {.name = n, .keep = rng_one_in(&rng, 3)};
    choose_units(n, &is.units, &is.limit);
    bool had = keeps_holding(holder, n), grants = rng_one_in(&rng, 2);
    struct holding *where = NULL;
    if (had && rng_one_in(&rng, 2)) {
        memory_goes();
        bool added = table_add_held(t, held[holder][n], is.units, now);
        memory_comes();
        bool keep = m.names[n].keep;
        AGREE(added == (model_add(&m, &has[holder], &is, false) == TABLE_OK));
        m.names[n].keep = keep;
        return;
    }
    const struct acquire a = {.name = lent(n),
                              .hash = some_hash(n),
                              .units = is.units,
                              .limit = is.limit,
                              .keep = is.keep};
    memory_is_short(dice);
    enum table_status status =
        grants ? table_grant(t, &holders[holder], &a, now, &where)
               : table_add(t, &holders[holder], lent(n), a.hash, a.units, now, &where);
    fault_dice = NULL;
    if (status == TABLE_NO_MEMORY) {
        AGREE(may_refuse() && !had);
        (void)model_release(&m, &has[holder], n, 0); /* it was used */
        see_room_was_made(n);
        return;
    }
    learn_of_made(n);
    AGREE(model_add(&m, &has[holder], &is, grants) == status);
    if (status == TABLE_OK)
        note_holding(holder, n, where, had);
}

static void step_reserve(void)
{
    unsigned n = rng_below(&rng, NAMES), holder = rng_below(&rng, HOLDERS);
    struct model_holding *of = &has[holder].of[n];
    if (of->reserved > 0 && !rng_one_in(&rng, 3)) {
        memory_goes();
        table_unreserve(t, &holders[holder], held[holder][n], now);
        memory_comes();
        model_unreserve(&m, &has[holder], n);
        return;
    }
    bool had = keeps_holding(holder, n);
    memory_is_short(dice);
    struct holding *where = table_reserve(t, &holders[holder], lent(n), some_hash(n), now);
    fault_dice = NULL;
    AGREE(where || (may_refuse() && of->reserved == 0));
    if (!where) {
        m.names[n].present = model_exists(&m, n); /* it was looked for */
        see_room_was_made(n);
        return;
    }
    learn_of_made(n);
    model_reserve(&m, &has[holder], n);
    note_holding(holder, n, where, had);
}

/* Counts a holding that ends, if the caller of the table has it measured. */
static void note_end(unsigned n, unsigned holder, uint32_t units)
{
    const struct model_holding *of = &has[holder].of[n];
    if (units == 0 || units < of->units)
        return;
    ended_count++;
    if (now.mono_ns > of->since_ns) /* else a thread that is ahead has begun it */
        ended_ns += (uint64_t)(now.mono_ns - of->since_ns);
}

static void step_release(void)
{
    unsigned n = rng_below(&rng, NAMES), holder = rng_below(&rng, HOLDERS);
    for (unsigned i = 0; i < HOLDERS && has[holder].of[n].units == 0 && !rng_one_in(&rng, 30); i++)
        holder = (holder + 1) % HOLDERS;
    uint32_t most = has[holder].of[n].units;
    uint32_t units = rng_one_in(&rng, 10) ? 0 : rng_one_in(&rng, 2) ? most : 1;
    if (rng_one_in(&rng, 20))
        units = most < UINT32_MAX ? most + 1 : most;
    if (units > 0 && units <= most && rng_one_in(&rng, 2)) {
        bool ends = rng_one_in(&rng, 3); /* the caller of these measures by itself */
        memory_goes();
        table_release_held(t, &holders[holder], held[holder][n], units, ends, now, &out);
        memory_comes();
        model_give_back(&m, &has[holder], n, units, ends);
        return;
    }
    const struct release r = {.name = lent(n), .hash = some_hash(n), .units = units};
    memory_goes();
    enum table_status status = table_release(t, &holders[holder], &r, now, &lasted, &out);
    memory_comes();
    if (status == TABLE_OK)
        note_end(n, holder, units);
    AGREE(model_release(&m, &has[holder], n, units) == status);
}

/* The owner takes a result, early or when its message arrives. */
static void take_result(unsigned i)
{
    struct wait *wait = &waits[i];
    const struct model_holding *of = &has[wait->holder].of[wait->has.name];
    const struct holding *where = wait->real->holding;
    AGREE(wait->result != WAITER_GRANTED || wait->has.life != of->life || of->units == 0 ||
          where == held[wait->holder][wait->has.name]);
    memory_goes();
    AGREE(table_take_result(t, wait->real) == wait->result);
    memory_comes();
    (void)model_note(&m, &wait->has);
    wait->noted = true;
    compare_waiters(wait->holder);
}

static void step_end_wait(void)
{
    unsigned i = some_wait();
    if (i == WAITS || waits[i].noted)
        return;
    struct wait *wait = &waits[i];
    enum waiter_state why = rng_one_in(&rng, 2) ? WAITER_TIMED_OUT : WAITER_CANCELLED;
    memory_goes();
    enum waiter_state state = table_end_wait(t, wait->real, why, now);
    memory_comes();
    if (wait->result == WAITER_WAITING) {
        AGREE(state == why);
        model_cancel(&m, &wait->has);
        wait->real = NULL;
        compare_waiters(wait->holder);
    } else {
        AGREE(state == wait->result);
        if (rng_one_in(&rng, 2))
            take_result(i);
    }
}

/* A message arrives; not always the oldest. */
void deliver(unsigned i)
{
    struct wait *wait = &waits[i];
    AGREE((wait->real->holder == NULL) == wait->noted && wait->real->message.to == wait->holder);
    if (!wait->noted)
        take_result(i);
    memory_goes();
    table_waiter_free(t, wait->real);
    memory_comes();
    wait->real = NULL;
}

static void step_deliver(void)
{
    unsigned i = some_wait();
    if (i < WAITS && waits[i].result != WAITER_WAITING)
        deliver(i);
}

static void close_holder(unsigned holder)
{
    for (unsigned n = 0; n < NAMES; n++) {
        while (has[holder].of[n].reserved > 0) {
            table_unreserve(t, &holders[holder], held[holder][n], now);
            model_unreserve(&m, &has[holder], n);
        }
    }
    memory_goes();
    while (!table_close_some(t, &holders[holder], 1 + rng_below(&rng, NAMES), now, &lasted, &out))
        continue;
    memory_comes();
    AGREE(holders[holder].waiters == NULL && holders[holder].holdings == 0);
    for (unsigned n = 0; n < NAMES; n++)
        note_end(n, holder, has[holder].of[n].units);
    for (unsigned i = 0; i < WAITS; i++) {
        struct wait *wait = &waits[i];
        if (!wait->real || wait->holder != holder || wait->noted)
            continue;
        wait->noted = true;
        if (wait->result == WAITER_WAITING)
            wait->real = NULL; /* the model's close ends it */
        else
            (void)model_note(&m, &wait->has);
    }
    model_close(&m, &has[holder]);
}

static void reopen_closed(void)
{
    for (unsigned holder = 0; holder < HOLDERS; holder++) {
        if (!holders[holder].waiters && holders[holder].holdings == 0 && rng_one_in(&rng, 4))
            open_holder(holder);
    }
}

static void step_time(void)
{
    now.mono_ns += 1 + rng_below(&rng, 1000000);
    if (rng_one_in(&rng, 500))
        now.mono_ns += (int64_t)rng_below(&rng, 100) * 86400 * NS_PER_S;
    if (rng_one_in(&rng, 3))
        now.unix_s += rng_below(&rng, INTERVAL);
    if (set_back && rng_one_in(&rng, 300))
        now.unix_s -= rng_below(&rng, 3 * INTERVAL);
    if (set_back && rng_one_in(&rng, 200))
        now.unix_s = 100 - (int64_t)rng_below(&rng, 200);
}

static void step_collect(void)
{
    uint64_t collected = 0;
    struct table_walk walk = {0};
    unsigned budget = 1 + rng_below(&rng, 200);
    while (!table_collect(t, &walk, now, budget, &collected))
        continue;
    uint64_t due = model_collect(&m, squeezed > 0);
    AGREE(collected == due || (full && collected < due)); /* a request may have dropped some */
    dropped = stats().dropped_early;
}

/* The table becomes full by memory that is kept elsewhere, or has room again. */
void step_squeeze(void)
{
    if (squeezed > 0) {
        table_uncharge(t, squeezed);
        squeezed = 0;
        return;
    }
    AGREE(!table_charge(t, LIMIT));
    squeezed = LIMIT - (size_t)stats().memory - rng_below(&rng, 4 * ARENA_PAGE);
    AGREE(table_charge(t, squeezed));
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void call_something(void)
{
    uint32_t what = rng_below(&rng, 1000);
    if (what < 350 &&
        (step / 256 % (full ? 2 : 4) > 0 || rng_one_in(&rng, 8))) /* at times names come to 0 */
        step_acquire();
    else if (what >= 350 && what < 370)
        step_add();
    else if (what >= 370 && what < 410)
        step_reserve();
    else if (what < 660)
        step_release();
    else if (what < 740)
        step_end_wait();
    else if (what < 910)
        step_deliver();
    else if (what < 950)
        step_time();
    else if (what < 957 || (full && what < 970))
        step_collect();
    else if (full && what < 975)
        step_squeeze();
    else if (what < 985)
        reopen_closed();
    else
        close_holder(rng_below(&rng, HOLDERS));
    compare_results();
    learn_of_dropped();
}

static void one_step(void)
{
    if (rng_one_in(&rng, 2000))
        step_hand_on();
    bool is_late = late && rng_one_in(&rng, 3);
    struct moment late_by = {.mono_ns = is_late ? rng_below(&rng, 3000000) : 0,
                             .unix_s = is_late ? config.stats_interval_s : 0};
    now.mono_ns -= late_by.mono_ns;
    now.unix_s -= late_by.unix_s;
    call_something();
    if (is_late)
        compare_sums();
    now.mono_ns += late_by.mono_ns;
    now.unix_s += late_by.unix_s;
    note_peaks();
    compare_consumptions();
    compare_sums();
    compare_ended();
    compare_closely(rng_below(&rng, NAMES), rng_below(&rng, 8));
    compare_holds(rng_below(&rng, NAMES), rng_below(&rng, HOLDERS));
    if (step % 64 == 0)
        compare_all();
}

/* Names of several lengths, all in two shards, so that little memory is kept for later names. */
static void make_names(const struct hash_key *key)
{
    size_t lengths[NAMES] = {1, 2, 5, 8, 24, 25, 64, 65, 200, 300, 1500, 1997};
    for (unsigned n = 0; n < NAMES; n++) {
        lengths[n] +=
            n > 1 ? rng_below(&rng, (uint32_t)lengths[n]) : 0; /* at times not in a slot */
        unsigned char *data = malloc(lengths[n]);
        ck_assert(data != NULL);
        do {
            for (size_t i = 0; i < (n < 2 ? lengths[n] : 3); i++)
                data[i] = (unsigned char)rng_next(&rng);
            for (size_t i = 3; i < lengths[n]; i++)
                data[i] = (unsigned char)i;
            /* A name of one byte cannot choose its shard. */
        } while (n > 0 && hash_bytes(key, data, lengths[n]) >> 58 != 20 + n % 2);
        names[n] = bytes_at(data, lengths[n]);
    }
}

/* Ends everything; no memory remains. */
static void end_all(void)
{
    if (squeezed > 0)
        step_squeeze();
    for (unsigned holder = 0; holder < HOLDERS; holder++) {
        close_holder(holder);
        compare_results();
        open_holder(holder);
    }
    compare_all();
    for (unsigned i = 0; i < WAITS; i++) {
        if (waits[i].real)
            deliver(i);
    }
    /* An interval that no name has, also if the clock was set back, even to before 1970. */
    now.unix_s = (now.unix_s > 0 ? now.unix_s : 0) + (int64_t)30000 * config.stats_interval_s;
    step_collect();
    compare_all();
    struct table_stats s = stats();
    AGREE(s.names == 0 && s.units == 0 && s.waiting == 0 && s.holdings == 0 && s.overflowing == 0);
    AGREE(m.untold == 0);
    for (unsigned i = 0; i < 3; i++)
        step_collect(); /* the indexes become smaller */
    table_trim(t);
    AGREE(stats().memory == used_at_start);
}

static void run(const char *mode, uint64_t seed)
{
    struct lock pools;
    uint64_t steps = env_number("T_MODEL_STEPS", STEPS);
    rng = rng_start(mode, seed);
    config = (struct table_config){
        .buckets = 100,
        .memory_limit = LIMIT,
        .stats_interval_s = INTERVAL,
        .hash_key = {rng_next(&rng), rng_next(&rng)},
    };
    make_names(&config.hash_key);
    lock_init(&pools, LOCK_RANK_POOLS);
    t = table_new(&config);
    ck_assert(t != NULL);
    m = (struct model){.now = &now, .interval_s = INTERVAL, .decided = on_decided};
    used_at_start = (size_t)stats().memory;
    mail_list_init(&out);
    for (unsigned holder = 0; holder < HOLDERS; holder++)
        open_holder(holder);
    /* The low 16 bits of the interval wrap round during the run, and the 48 of a holding's age. */
    now = (struct moment){.mono_ns = (INT64_C(1) + rng_below(&rng, 6)) << 58,
                          .unix_s = (65536 - (int64_t)steps / 300) * INTERVAL};
    now.mono_ns -= (int64_t)rng_below(&rng, 150) * 86400 * NS_PER_S;
    /* Each part ends with an empty table, so that small leaks add up and show in the last part. */
    for (uint64_t part = 0; part < 10; part++) {
        lock_acquire(&pools);
        steps_unbounded(LOCK_RANK_POOLS);
        for (uint64_t i = 0; i < steps / 10; i++, step++)
            one_step();
        end_all();
        lock_release(&pools);
    }
    AGREE(refused_records + restored_records < 64 || (refused_records && restored_records));
    table_free(&t);
    lock_destroy(&pools);
    model_free(&m);
    for (unsigned n = 0; n < NAMES; n++)
        free(unconst(names[n].data));
}

TEST(the_table_and_its_model_agree)
{
    run("the model", 20240607);
}
END_TEST

TEST(they_agree_from_anywhere_with_threads_that_are_late)
{
    late = true;
    run("the model with late threads", random_seed());
}
END_TEST

TEST(they_agree_when_the_clock_is_set_back)
{
    set_back = true;
    run("the model with a clock set back", random_seed());
}
END_TEST

TEST(they_agree_when_memory_is_refused)
{
    faulty = true;
    run("the model without memory", random_seed());
    ck_assert_msg(faults > 0, "link with fault_wraps");
}
END_TEST

TEST(they_agree_when_the_table_is_full)
{
    full = true;
    run("the model of a full table", random_seed());
}
END_TEST

UNIT_MAIN("models/table")
