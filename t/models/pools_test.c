/*
 * pools_test.c - random steps of the pools, in many worlds of different sizes (pools_world.h); each
 * step is compared with the model (pools.h). In half of the worlds an upgrade comes now and then:
 * the world is written to a record, also a damaged one, and goes on with what is read from it.
 * T_SEED repeats a run, T_MODEL_STEPS sets its length; a failure names the step.
 */
#include "engine/pool_internal.h"
#include "engine/state.h"
#include "t/models/pools_world.h"
#include "t/unit/random.h"

#include <sys/mman.h>
#include <unistd.h>

enum {
#ifdef __SANITIZE_THREAD__
    MOST_STEPS = 100000, /* slow under TSan, and the test has only one thread */
#elif defined(__SANITIZE_ADDRESS__)
    MOST_STEPS = 200000,
#else
    MOST_STEPS = 250000,
#endif
    WORLD_STEPS = 3000, /* at most, in one world */
    WORLDS = 6,         /* of which records are damaged, */
    DAMAGED = 60,       /* each so often */
};

/* Sections of a record, beside those of the table and the pools. */
enum { SECTION_OTHERS = 0x7001, SECTION_CLIENT };

/* ---- upgrades -------------------------------------------------------------------------------- */

/* All that a new process has. */
struct restored {
    struct table *table;
    struct pools *pools;
    struct pool_client *clients[M_CLIENTS + 1]; /* the last one is the observer's */
    struct holder others[OTHERS];
    bool table_is_whole;
};

static int64_t save_position(void *owner, uint64_t at)
{
    (void)owner;
    return (int64_t)at;
}

static uint64_t restore_position(void *owner, int64_t saved)
{
    (void)owner;
    return (uint64_t)saved;
}

static struct record_writer writer;

static void save_client(uint32_t number, const struct pool_client *client)
{
    record_begin(&writer, SECTION_CLIENT);
    record_put_u32(&writer, number);
    pool_client_save(client, &writer, save_position);
    record_end(&writer);
}

/* Writes a record of the world. Returns its bytes, which the caller frees, their number, and where
 * the pools begin. */
static uint8_t *save(size_t *len_r, size_t *pools_at_r)
{
    world_read_all();
    int fd = memfd_create("pools", MFD_CLOEXEC);
    AGREE(fd >= 0);
    record_writer_init(&writer, fd);
    table_save(table, model_now, &writer);
    record_begin(&writer, SECTION_OTHERS);
    for (unsigned k = 0; k < OTHERS; k++)
        holder_save(table, &others[k], &writer);
    record_end(&writer);
    *pools_at_r = (size_t)writer.flushed + writer.used;
    pools_save(pools, model_now, &writer);
    for (uint32_t c = 0; c < M_CLIENTS; c++) {
        if (sides[c].real)
            save_client(c, sides[c].real);
    }
    save_client(M_CLIENTS, observer.real);
    AGREE(record_finish(&writer));
    off_t len = lseek(fd, 0, SEEK_END);
    AGREE(len > 0);
    *len_r = (size_t)len;
    uint8_t *bytes = malloc(*len_r);
    AGREE(bytes && pread(fd, bytes, *len_r, 0) == len);
    AGREE(close(fd) == 0);
    return bytes;
}

/* Opens the next section, which must be of this kind. */
static bool enter(struct record_reader *r, uint32_t kind, struct record_reader *section)
{
    uint32_t got;
    if (!record_enter(r, &got, section)) {
        record_refuse(r, "a section is missing");
        return false;
    }
    if (got != kind)
        record_refuse(section, "another section was expected");
    return got == kind;
}

/* Reads the clients; each connection comes once. */
static bool restore_clients(struct restored *to, struct record_reader *r)
{
    struct record_reader section;
    while (record_left(r)) {
        if (!enter(r, SECTION_CLIENT, &section))
            return false;
        uint32_t c = record_get_u32(&section);
        if (c > M_CLIENTS || to->clients[c]) {
            record_refuse(r, "a connection is there twice");
            return false;
        }
        struct side *side = c == M_CLIENTS ? &observer : &sides[c];
        to->clients[c] =
            pool_client_restore(to->pools, next_id++, ++next_tag, side, &section, restore_position);
        record_leave(&section);
        if (!to->clients[c] || !record_ok(&section))
            return false;
    }
    return record_ok(r);
}

static bool restore_all(struct restored *to, struct record_reader *r, struct pool_outbox *caused)
{
    struct record_reader section;
    if (!enter(r, STATE_TABLE, &section) || !table_restore(to->table, model_now, 1, &section))
        return false;
    if (!enter(r, SECTION_OTHERS, &section))
        return false;
    for (unsigned k = 0; k < OTHERS; k++) {
        holder_init(&to->others[k], next_id++, k);
        if (!holder_restore(to->table, &to->others[k], &section))
            return false;
    }
    if (!enter(r, POOLS_STATE, &section) || !pools_restore(to->pools, model_now, &section) ||
        !restore_clients(to, r) || !table_restore_done(to->table, r))
        return false;
    to->table_is_whole = true;
    if (!is_deaf) {
        pools = to->pools;
        table = to->table;
        last_event = 0;
    }
    return pools_restore_done(to->pools, model_now, caused, r);
}

/* Ends the pools of the old process, which nobody hears. */
static void forget(struct restored *old)
{
    struct pool_outbox none;
    pool_outbox_init(&none);
    is_deaf = true;
    for (unsigned c = 0; c <= M_CLIENTS; c++) {
        if (old->clients[c])
            pool_client_end(old->clients[c], POOL_END_QUIT, NULL, model_now, &none);
    }
    for (struct mail *mail; (mail = mail_list_take(&none.clients)) != NULL;)
        AGREE(!pool_client_message(pool_client_of(mail)));
    pools_free(&old->pools);
    for (unsigned k = 0; k < OTHERS; k++)
        table_close(old->table, &old->others[k], model_now, NULL, &none.woken);
    table_free(&old->table);
    is_deaf = false;
}

/* The model goes on with the new connections. */
static void adopt(const struct restored *new)
{
    table = new->table;
    memcpy(others, new->others, sizeof(others));
    for (uint32_t c = 0; c < M_CLIENTS; c++) {
        sides[c].real = new->clients[c];
        if (sides[c].real)
            model_clients[c].tag = sides[c].tag = pool_client_tag(sides[c].real);
    }
    observer.real = new->clients[M_CLIENTS];
    observer.tag = pool_client_tag(observer.real);
    model_upgrade();
}

/* A request for static members that was in steps goes on with them, and waits then. */
static void look_on(int c)
{
    enum pool_status status = POOL_LOOKS;
    const struct m_wait *w = &model_clients[c].wait;
    for (unsigned k = 0; k < w->place_count; k++) {
        if (model_pools[w->places[k].pool].options.kind == POOL_JOINED)
            return;
    }
    AGREE(pool_client_look_on(sides[c].real));
    model_timely = false; /* time goes on, and nobody does what is due */
    while (status == POOL_LOOKS) {
        model_now.mono_ns++;
        status = pool_take_on(sides[c].real, &hearer, 1, model_now, &outbox);
    }
    AGREE(status == POOL_WAITS);
}

/* Goes on with what another table and other pools read from a record. */
static void upgrade(void)
{
    size_t len, pools_at;
    struct restored old = {.table = table, .pools = pools}, new = {0};
    uint8_t *record = save(&len, &pools_at);
    snprintf(model_doing, sizeof(model_doing), "an upgrade");
    for (unsigned c = 0; c < M_CLIENTS; c++)
        old.clients[c] = sides[c].real;
    old.clients[M_CLIENTS] = observer.real;
    memcpy(old.others, others, sizeof(others));
    new.table = new_table();
    AGREE(new.table);
    new.pools = new_pools(new.table, &model_limits, 1);
    AGREE(new.pools);
    struct record_reader r;
    record_reader_init(&r, record, len);
    if (!restore_all(&new, &r, &outbox))
        ck_abort_msg("step %" PRIu64 ": not restored: %s", model_step, r.why);
    adopt(&new);
    done();
    for (int c = 0; c < M_CLIENTS; c++) {
        if (sides[c].real && model_clients[c].wait.state == M_IN_LINE && one_in(2))
            look_on(c);
    }
    forget(&old);
    free(record);
    compare_all();
    table_check(table);
}

/* ---- damaged records ------------------------------------------------------------------------- */

static bool was_written(void *owner, uint64_t at)
{
    (void)owner;
    return at % 2 == 0;
}

static void read_messages(struct pool_outbox *all, struct moment now)
{
    for (struct mail *mail; (mail = mail_list_take(&all->clients)) != NULL;) {
        struct pool_client *client = pool_client_of(mail);
        if (pool_client_message(client))
            pool_client_read(client, &hearer, 1, now, all);
    }
}

/* Some calls, whatever they do. */
static void try_calls_of(struct restored *in, struct pool_client *client, struct moment now,
                         struct pool_outbox *all)
{
    struct m_take take = random_take(below(1000));
    struct pool_take real = real_take(&take);
    struct pool_options o = random_pool_options(below(2), config.members);
    if (pool_client_waits(client))
        pool_client_read(client, &hearer, 1, now, all);
    if (pool_client_looks(client))
        (void)!pool_take_on(client, &hearer, 1, now, all);
    else if (!pool_client_waits(client))
        (void)!pool_take(client, &real, &hearer, 1, now, all);
    if (one_in(4))
        (void)!pool_set(in->pools, pool_at(some_pool()), &o, one_in(2), now, all);
    (void)!pool_return(client, 0, one_in(2), now, all);
    for (unsigned n = 0; n < 20 && pools_next_ns(in->pools) <= now.mono_ns; n++)
        pools_run(in->pools, now, all);
}

/* Uses restored pools, and ends their clients. */
static void try_calls(struct restored *in, struct pool_outbox *all)
{
    struct moment now = model_now;
    for (unsigned n = 0; n < 30; n++) {
        struct pool_client *client = in->clients[below(M_CLIENTS + 1)];
        now.mono_ns += below((uint32_t)NS_PER_S);
        if (client)
            try_calls_of(in, client, now, all);
        if (one_in(3))
            read_messages(all, now);
    }
    read_messages(all, now);
    for (unsigned c = 0; c <= M_CLIENTS; c++) {
        if (in->clients[c])
            pool_client_end(in->clients[c], one_in(2) ? POOL_END_QUIT : POOL_END_CRASH, was_written,
                            now, all);
        in->clients[c] = NULL;
        read_messages(all, now);
    }
    struct pools_sums sums;
    pools_sums(in->pools, &sums);
    AGREE(sums.held == 0 && sums.waiting == 0);
}

/* Tables that cannot be freed, because the units of their holders were not given back. */
enum { LOST = 10000 };
static struct table *lost_tables[LOST];
static unsigned lost_count;

/* Reads a record, which may be damaged, into other pools, which do some steps then. Returns false,
 * with the reason, if it is refused. */
static bool try_record(const uint8_t *record, size_t len, const char **why_r)
{
    struct restored new = {.table = new_table()};
    struct record_reader r;
    struct pool_outbox caused;
    AGREE(new.table);
    new.pools = new_pools(new.table, &model_limits, 1);
    AGREE(new.pools);
    record_reader_init(&r, record, len);
    is_deaf = true;
    pool_outbox_init(&caused);
    bool restored = restore_all(&new, &r, &caused), whole = new.table_is_whole;
    *why_r = r.why;
    if (restored) {
        try_calls(&new, &caused);
        for (unsigned k = 0; k < OTHERS; k++)
            table_close(new.table, &new.others[k], model_now, NULL, &caused.woken);
    }
    pools_free(&new.pools);
    if (restored)
        table_check(new.table);
    if (restored || !whole)
        table_free(&new.table);
    else
        lost_tables[lost_count++ % LOST] = new.table; /* the process would have ended */
    is_deaf = false;
    return restored;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void run(uint64_t steps, bool faulty, unsigned upgrades)
{
    steps = env_number("T_MODEL_STEPS", steps);
    model_step = 0;
    while (model_step < steps) {
        struct world_config size = world_random();
        size.faulty = faulty;
        world_start(&size);
        for (uint32_t n = 1 + below(WORLD_STEPS); n > 0; n--) {
            world_step();
            if (upgrades > 0 && one_in(upgrades))
                upgrade();
        }
        world_end();
    }
}

TEST(the_pools_and_their_model_agree)
{
    model_random = rng_start("the pools", random_seed());
    run(MOST_STEPS, false, 0);
}
END_TEST

TEST(the_pools_and_their_model_agree_when_memory_is_refused)
{
    model_random = rng_start("the pools without memory", random_seed());
    run(MOST_STEPS / 4, true, 0);
    ck_assert_msg(world_faults() > 0, "link with fault_wraps");
}
END_TEST

TEST(upgraded_pools_go_on_as_before)
{
    model_random = rng_start("upgrades of pools", random_seed());
    run(MOST_STEPS / 5, false, 50);
}
END_TEST

/* Tries a copy of a record, so that a sanitizer sees what is read beyond its end. */
static bool try_copy(const uint8_t *record, size_t len)
{
    const char *why = NULL;
    uint8_t *copy = malloc(len + !len);
    ck_assert(copy != NULL);
    memcpy(copy, record, len);
    bool restored = try_record(copy, len, &why);
    REQUIRE(restored || why != NULL);
    free(copy);
    return restored;
}

/* Changes some bytes, mostly near each other: a length and its bytes, a number. */
static void damage(uint8_t *record, size_t len)
{
    size_t at = below((uint32_t)len);
    for (unsigned n = 1 + below(3); n > 0; n--) {
        record[at] = one_in(2) ? (uint8_t)rng_next(&model_random) : (uint8_t)(record[at] ^ 1);
        at = one_in(3) ? below((uint32_t)len) : (at + below(9)) % len;
    }
}

TEST(damaged_records_are_refused_or_harmless_and_cut_ones_are_refused)
{
    unsigned refused = 0, restored = 0;
    model_random = rng_start("damaged records of pools", random_seed());
    for (unsigned worlds = 0; worlds < WORLDS; worlds++) {
        struct world_config size = world_random();
        size_t len, at;
        size.full_sums = false;
        world_start(&size);
        for (uint32_t n = 100 + below(WORLD_STEPS); n > 0; n--)
            world_step();
        uint8_t *record = save(&len, &at), *other = malloc(len);
        ck_assert(other != NULL && try_copy(record, len));
        for (unsigned n = 0; n < DAMAGED; n++) {
            REQUIRE(!try_copy(record, at + below((uint32_t)(len - at))));
            memcpy(other, record, len);
            damage(other + at, len - at);
            bool ok = try_copy(other, len);
            restored += ok;
            refused += !ok;
        }
        free(other);
        free(record);
        world_end();
    }
    ck_assert(refused > 10 && restored > 10);
}
END_TEST

UNIT_MAIN("models/pools")
