/*
 * pool_test.c - small stories of pools that random steps (pool_model_test.c) seldom meet, or that
 * the engine once told wrongly.
 */
#include "engine/pool.h"
#include "t/unit/engine/faults.h"
#include "t/unit/engine/tables.h"

#include <inttypes.h>

enum { CLIENTS = 6 };

/* A client, and what it has read since it was looked at last. */
static struct side {
    struct pool_client *real;
    char heard[4000];
} clients[CLIENTS];

static struct pools *pools;
static struct pool_effects effects;
static const struct bytes db = {(const uint8_t *)"db", 2};

/* Notes a word, maybe a name and a number (not -1). */
static void hear(void *owner, const char *word, struct bytes name, int64_t number)
{
    struct side *side = owner;
    size_t len = strlen(side->heard), room = sizeof(side->heard) - len;
    int more = snprintf(side->heard + len, room, "%s%.*s ", word, (int)name.len, name.data);
    if (number >= 0)
        more += snprintf(side->heard + len + more, room - (size_t)more, "%" PRId64 " ", number);
    ck_assert((size_t)more < room);
}

static void hear_event(void *owner, const struct pool_event *event)
{
    (void)owner;
    (void)event;
}

static void hear_late(void *arg, const struct pool_event *event, int64_t held_ns)
{
    (void)arg;
    (void)event;
    (void)held_ns;
}

static void hear_taken(void *owner, const struct pool_taken *taken)
{
    hear(owner, "", taken->member, -1);
}

static void hear_refused(void *owner, enum pool_status why)
{
    hear(owner, "refused", bytes_at(NULL, 0), (int64_t)why);
}

static void hear_stop(void *owner, struct bytes pool, struct bytes member, enum pool_why why)
{
    (void)pool;
    (void)why;
    hear(owner, "STOP ", member, -1);
}

static bool hear_want(void *owner, struct bytes pool, uint32_t want)
{
    hear(owner, "WANT ", pool, want);
    return true;
}

static bool hear_events(void *owner)
{
    (void)owner;
    return true;
}

static const struct pool_hooks hooks = {hear_event, hear_late};
static const struct pool_reader reader = {hear_taken, hear_refused, hear_stop, hear_want,
                                          hear_events};

/* ---- short functions ----------------------------------------------------------------------- */

static void check(void)
{
    pools_check(pools, now);
    table_check(t);
}

static struct pool_options options_of(enum pool_kind kind)
{
    struct pool_options o = {.kind = kind,
                             .queue_max = 50,
                             .overtakes = 32,
                             .on_fail = POOL_AFTER_DIRTY,
                             .clean_tries = 5};
    if (kind == POOL_JOINED) {
        o.start_timeout_ns = 60 * NS_PER_S;
        o.stop_timeout_ns = 30 * NS_PER_S;
        o.on_fail = POOL_AFTER_FREE;
    }
    return o;
}

static void begin(const struct pool_options *options)
{
    start();
    struct pools_config config = {
        .table = t, .limits = {10, 1000, 10, 50}, .first_fence = 100, .seed = 7, .hooks = &hooks};
    pools = pools_new(&config);
    ck_assert(pools != NULL);
    pool_effects_init(&effects);
    for (uint32_t c = 0; c < CLIENTS; c++) {
        clients[c].real = pool_client_new(pools, 1000 + c, c + 1, &clients[c]);
        ck_assert(clients[c].real != NULL);
    }
    ck_assert(pool_add(pools, db, options, false, now, &effects) == POOL_OK);
}

static void pass(int64_t ns)
{
    now.mono_ns += ns;
}

static void run(void)
{
    for (unsigned times = 0; pools_next_ns(pools) <= now.mono_ns; times++) {
        ck_assert(times < 100);
        pools_run(pools, now, &effects);
    }
    check();
}

/* Everything that a client reads until now. */
static const char *heard(int c)
{
    static char text[sizeof(clients[c].heard)];
    pool_client_read(clients[c].real, &reader, 0, now, &effects);
    memcpy(text, clients[c].heard, sizeof(text));
    clients[c].heard[0] = '\0';
    check();
    return text;
}

static bool written(void *owner, uint64_t position)
{
    (void)owner;
    (void)position;
    return true;
}

static void leave(int c, enum pool_end how)
{
    pool_client_end(clients[c].real, how, written, now, &effects);
    clients[c].real = NULL;
    check();
}

static void end(void)
{
    for (int c = 0; c < CLIENTS; c++) {
        if (clients[c].real)
            leave(c, POOL_END_QUIT);
    }
    for (struct mail *mail; (mail = mail_list_take(&effects.clients)) != NULL;)
        ck_assert(!pool_client_letter(pool_client_of(mail)));
    pools_free(&pools);
    finish();
}

static void add(const char *name)
{
    struct pool_new_member new = {.pool = db, .name = bytes_of(name)};
    ck_assert(pool_member_add(pools, &new, now, &effects) == POOL_OK);
    check();
}

static void join(int c, const char *name)
{
    struct pool_new_member new = {.pool = db, .name = bytes_of(name)};
    ck_assert(pool_join(clients[c].real, &new, now, &effects) == POOL_OK);
    check();
}

static void supply(int c, uint32_t init, uint32_t max)
{
    ck_assert(pool_supply(clients[c].real, db, init, max, now, &effects) == POOL_OK);
    check();
}

static enum pool_status ask_for(int c, uint32_t count, enum pool_for what, const char *key)
{
    struct pool_attribute with = {bytes_of(key), bytes_at(NULL, 0)};
    struct pool_take take = {.targets = &db,
                             .target_count = 1,
                             .count = count,
                             .what = what,
                             .with = &with,
                             .with_count = *key ? 1 : 0,
                             .timeout_ns = NS_PER_S};
    enum pool_status status = pool_take(clients[c].real, &take, &reader, 0, now, &effects);
    check();
    return status;
}

static void get(int c, uint32_t count)
{
    ck_assert_int_eq(ask_for(c, count, POOL_FOR_USE, ""), POOL_OK);
}

static void await(int c, uint32_t count)
{
    ck_assert_int_eq(ask_for(c, count, POOL_FOR_USE, ""), POOL_WAITS);
}

static void give_back(int c, bool ok)
{
    ck_assert(pool_return(clients[c].real, 0, ok, now, &effects) == POOL_OK);
    check();
}

static void set(const char *name, enum pool_state state, bool at_once)
{
    struct pool_member_change change = {
        .pool = db, .name = bytes_of(name), .sets_state = true, .state = state, .now = at_once};
    ck_assert(pool_member_set(pools, &change, now, &effects) == POOL_OK);
    check();
}

static void set_options(const struct pool_options *options)
{
    ck_assert(pool_set(pools, db, options, false, now, &effects) == POOL_OK);
    check();
}

struct looked {
    const char *name;
    enum pool_state state;
    char then[20];
};

static bool look(void *arg, const struct pool_member_entry *entry)
{
    struct looked *looked = arg;
    if (bytes_equal(entry->name, bytes_of(looked->name))) {
        looked->state = entry->state;
        snprintf(looked->then, sizeof(looked->then), "%s", entry->then ? entry->then : "");
    }
    return true;
}

static struct looked look_at(const char *name)
{
    struct looked looked = {.name = name};
    (void)pool_show_members(pools, db, bytes_at(NULL, 0), UINT32_MAX, look, &looked);
    return looked;
}

static enum pool_state state_of(const char *name)
{
    return look_at(name).state;
}

/* ---- what is handed out -------------------------------------------------------------------- */

TEST(member_whose_lifetime_is_over_is_not_handed_on)
{
    struct pool_options o = options_of(POOL_JOINED);
    o.max_lifetime_ns = 10 * NS_PER_S;
    begin(&o);
    join(0, "a");
    join(0, "b");
    get(1, 1); /* b */
    pass(9 * NS_PER_S);
    join(0, "c");
    get(1, 1); /* c */
    await(2, 2);
    pass(2 * NS_PER_S); /* too late for a and b, but no timer has run */
    give_back(1, true);
    ck_assert_int_eq(state_of("a"), MEMBER_STOPPING);
    ck_assert_int_eq(state_of("c"), MEMBER_FREE);
    give_back(1, true);
    ck_assert_int_eq(state_of("b"), MEMBER_STOPPING);
    ck_assert_str_eq(heard(2), "");
    end();
}
END_TEST

static void see_one_take(void *arg, const struct pool_counts *counts)
{
    (void)arg;
    ck_assert(counts->moves[POOL_WHY_TAKE] == 1);
}

TEST(member_of_an_ended_connection_is_not_handed_on)
{
    struct pool_options o = options_of(POOL_JOINED);
    begin(&o);
    join(0, "a");
    get(0, 1);
    await(1, 1);
    leave(0, POOL_END_QUIT); /* which returns its own member, and then it leaves */
    ck_assert_int_eq(state_of("a"), MEMBER_GONE);
    ck_assert_str_eq(heard(1), "");
    pools_count(pools, see_one_take, NULL);
    end();
}
END_TEST

TEST(waiter_for_members_without_an_attribute_gets_no_other)
{
    struct pool_options o = options_of(POOL_STATIC);
    struct pool_attribute gpu = {bytes_of("arch"), bytes_of("a100")};
    struct pool_new_member new = {
        .pool = db, .name = bytes_of("a"), .attributes = &gpu, .attribute_count = 1};
    begin(&o);
    ck_assert(pool_member_add(pools, &new, now, &effects) == POOL_OK);
    get(0, 1);
    ck_assert_int_eq(ask_for(1, 1, POOL_FOR_USE, "arch"), POOL_WAITS);
    give_back(0, true);
    ck_assert_str_eq(heard(1), "");
    add("b");
    ck_assert_str_eq(heard(1), "b ");
    end();
}
END_TEST

TEST(what_was_served_together_is_back_together)
{
    struct pool_options o = options_of(POOL_STATIC);
    begin(&o);
    add("a");
    add("b");
    get(0, 2);
    await(1, 2);
    await(2, 1);
    await(3, 1);
    give_back(0, true);
    give_back(0, true); /* to 2, to 3 */
    ck_assert_str_eq(heard(2), "a ");
    ck_assert_str_eq(heard(3), "b ");
    give_back(2, true);
    give_back(3, true); /* and now 1's, which does not know */
    await(2, 1);
    await(3, 1);
    set("a", MEMBER_FREE, true);
    ck_assert_str_eq(heard(1), "a b ");
    ck_assert_str_eq(heard(2), "");
    give_back(1, true);
    give_back(1, true);
    ck_assert_str_eq(heard(2), "b ");
    ck_assert_str_eq(heard(3), "a ");
    end();
}
END_TEST

TEST(members_of_a_waiter_that_dies_go_to_the_oldest_that_fits)
{
    struct pool_options o = options_of(POOL_STATIC);
    begin(&o);
    add("a");
    add("b");
    get(0, 2);
    await(1, 2);
    o.overtakes = 0; /* 1 is served before all others */
    set_options(&o);
    await(2, 2);
    await(3, 1);
    give_back(0, true);
    give_back(0, true);
    o.overtakes = 32;
    set_options(&o);
    leave(1, POOL_END_CRASH);
    ck_assert_str_eq(heard(2), "b a ");
    ck_assert_str_eq(heard(3), "");
    end();
}
END_TEST

TEST(request_that_cannot_be_served_any_more_closes_nothing)
{
    struct pool_options o = options_of(POOL_STATIC);
    o.overtakes = 0;
    o.on_fail = POOL_AFTER_DOWN;
    begin(&o);
    add("a");
    add("b");
    get(0, 1);
    await(1, 2);
    await(2, 1);
    ck_assert_str_eq(heard(2), ""); /* a is kept for 1 */
    give_back(0, false);            /* b is down, so two are not there */
    ck_assert_str_eq(heard(2), "a ");
    end();
}
END_TEST

/* ---- where members go ---------------------------------------------------------------------- */

TEST(operator_cannot_keep_a_member_that_is_to_go)
{
    struct pool_options o = options_of(POOL_STATIC);
    begin(&o);
    add("a");
    get(0, 1);
    ck_assert(pool_drop(pools, db, false, now, &effects) == POOL_OK);
    set("a", MEMBER_FREE, true);
    struct pools_sums sums;
    pools_sums(pools, &sums);
    ck_assert(sums.pools == 0 && sums.members == 0);
    end();
}
END_TEST

TEST(failed_cleanings_are_counted_anew_after_an_operator)
{
    struct pool_options o = options_of(POOL_STATIC);
    o.clean_tries = 2;
    begin(&o);
    add("a");
    set("a", MEMBER_DIRTY, false);
    for (unsigned times = 0; times < 2; times++) {
        ck_assert_int_eq(ask_for(0, 1, POOL_FOR_CLEAN, ""), POOL_OK);
        give_back(0, false);
        ck_assert_int_eq(state_of("a"), MEMBER_DIRTY);
        ck_assert_int_eq(ask_for(0, 1, POOL_FOR_CLEAN, ""), POOL_OK);
        give_back(0, false);
        ck_assert_int_eq(state_of("a"), MEMBER_DOWN);
        set("a", MEMBER_DIRTY, false);
    }
    end();
}
END_TEST

TEST(member_whose_check_hangs_is_checked_last)
{
    struct pool_options o = options_of(POOL_STATIC);
    o.on_fail = POOL_AFTER_FREE;
    o.hold_max_ns = NS_PER_S;
    begin(&o);
    add("a");
    add("b");
    ck_assert_int_eq(ask_for(0, 1, POOL_FOR_CHECK, ""), POOL_OK);
    ck_assert_str_eq(heard(0), "a ");
    pass(NS_PER_S);
    run();
    ck_assert_int_eq(ask_for(1, 1, POOL_FOR_CHECK, ""), POOL_OK);
    ck_assert_str_eq(heard(1), "b ");
    end();
}
END_TEST

TEST(undone_take_does_not_count_in_the_order)
{
    struct pool_options o = options_of(POOL_STATIC);
    begin(&o);
    add("a");
    add("b");
    get(0, 2); /* b, a */
    give_back(0, true);
    await(1, 2);
    add("c"); /* 1 gets a and c, and dies before it knows */
    o.order = POOL_LEAST;
    set_options(&o);
    give_back(0, true);
    leave(1, POOL_END_CRASH);
    get(2, 3);
    ck_assert_str_eq(heard(2), "c a b ");
    end();
}
END_TEST

/* ---- time ---------------------------------------------------------------------------------- */

TEST(nothing_is_due_when_the_pool_is_gone)
{
    struct pool_options o = options_of(POOL_STATIC);
    o.hold_max_ns = NS_PER_S;
    begin(&o);
    add("a");
    get(0, 1);
    ck_assert(pools_next_ns(pools) == now.mono_ns + NS_PER_S);
    ck_assert(pool_drop(pools, db, true, now, &effects) == POOL_OK);
    ck_assert(pools_next_ns(pools) == INT64_MAX);
    end();
}
END_TEST

TEST(member_that_was_down_is_not_idle_yet)
{
    struct pool_options o = options_of(POOL_JOINED);
    o.cull_after_ns = 10 * NS_PER_S;
    begin(&o);
    supply(0, 0, 5);
    join(0, "a");
    set("a", MEMBER_DOWN, false);
    pass(60 * NS_PER_S);
    run();
    join(0, "b");
    pass(5 * NS_PER_S);
    set("a", MEMBER_FREE, false);
    pass(6 * NS_PER_S);
    run();
    ck_assert_int_eq(state_of("a"), MEMBER_FREE);
    ck_assert_int_eq(state_of("b"), MEMBER_STOPPING);
    pass(5 * NS_PER_S);
    run();
    ck_assert_int_eq(state_of("a"), MEMBER_STOPPING);
    end();
}
END_TEST

TEST(check_does_not_put_off_a_cull)
{
    struct pool_options o = options_of(POOL_JOINED);
    o.cull_after_ns = 10 * NS_PER_S;
    begin(&o);
    supply(0, 0, 5);
    join(0, "a");
    run();
    pass(8 * NS_PER_S);
    ck_assert_int_eq(ask_for(1, 1, POOL_FOR_CHECK, ""), POOL_OK);
    pass(3 * NS_PER_S);
    run(); /* no free member is there */
    give_back(1, true);
    pass(NS_PER_S);
    run();
    ck_assert_int_eq(state_of("a"), MEMBER_STOPPING);
    end();
}
END_TEST

/* ---- suppliers ----------------------------------------------------------------------------- */

TEST(supplier_that_was_told_nothing_yet_is_told_of_the_drop)
{
    struct pool_options o = options_of(POOL_JOINED);
    begin(&o);
    supply(0, 2, 5);
    ck_assert(pool_drop(pools, db, false, now, &effects) == POOL_OK);
    ck_assert_str_eq(heard(0), "WANT db 0 ");
    end();
}
END_TEST

TEST(suppliers_are_asked_for_what_new_limits_allow)
{
    struct pool_options o = options_of(POOL_JOINED);
    struct pools_limits limits = {10, 2, 10, 20};
    begin(&o);
    pools_set_limits(pools, &limits, now, &effects);
    supply(0, 5, 5);
    ck_assert_str_eq(heard(0), "WANT db 2 ");
    limits.members_max = 4;
    pools_set_limits(pools, &limits, now, &effects);
    ck_assert_str_eq(heard(0), "WANT db 4 ");
    end();
}
END_TEST

TEST(no_more_members_stop_than_are_too_many)
{
    struct pool_options o = options_of(POOL_JOINED);
    begin(&o);
    join(0, "a");
    join(1, "b");
    join(2, "c");
    get(3, 3);
    o.max = 2;
    set_options(&o);
    ck_assert_str_eq(look_at("c").then, "shrink"); /* its hold is the oldest */
    leave(0, POOL_END_CRASH);                      /* a is lost: two are left */
    ck_assert_str_eq(look_at("c").then, "");
    ck_assert(pool_return(clients[3].real, 0, true, now, &effects) == POOL_GONE);
    give_back(3, true);
    give_back(3, true);
    ck_assert_int_eq(state_of("b"), MEMBER_FREE);
    ck_assert_int_eq(state_of("c"), MEMBER_FREE);
    end();
}
END_TEST

/* ---- the counter --------------------------------------------------------------------------- */

/* Lifetimes that are over no more do not count as members that go. */
TEST(smaller_pool_with_a_longer_lifetime_has_members_that_stop)
{
    struct pool_options o = options_of(POOL_JOINED);
    o.max_lifetime_ns = 10 * NS_PER_S;
    begin(&o);
    join(0, "a");
    join(0, "b");
    get(1, 2);
    pass(11 * NS_PER_S);
    run();
    ck_assert_str_eq(look_at("a").then, "lifetime");
    o.max_lifetime_ns = 0;
    o.max = 1;
    set_options(&o);
    ck_assert_str_ne(look_at("a").then, look_at("b").then);
    give_back(1, true);
    give_back(1, true);
    ck_assert((state_of("a") == MEMBER_FREE) != (state_of("b") == MEMBER_FREE));
    clients[0].heard[0] = clients[1].heard[0] = '\0';
    end();
}
END_TEST

TEST(peak_of_the_counter_is_the_most_that_were_held)
{
    struct pool_options o = options_of(POOL_STATIC);
    begin(&o);
    add("a");
    get(0, 1);
    await(1, 1);
    give_back(0, true);
    ck_assert_str_eq(heard(1), "a ");
    ck_assert(count_of("pool:db") == 1 && peak_of("pool:db") == 1);
    end();
}
END_TEST

TEST(hold_without_a_unit_gets_the_one_that_becomes_free)
{
    struct pool_options o = options_of(POOL_STATIC);
    begin(&o);
    add("a");
    add("b");
    add("c");
    ck_assert(take(&h[0], "pool:db", UINT32_MAX - 1, UINT32_MAX) == TABLE_OK);
    get(0, 1);
    get(1, 2); /* which have no room */
    ck_assert(count_of("pool:db") == UINT32_MAX);
    give_back(0, true);
    ck_assert(count_of("pool:db") == UINT32_MAX);
    ck_assert(give(&h[0], "pool:db", UINT32_MAX - 1) == TABLE_OK);
    ck_assert(count_of("pool:db") == 1);
    ck_assert(pools_next_ns(pools) <= now.mono_ns + NS_PER_S / 10);
    pass(NS_PER_S / 10);
    run();
    ck_assert(count_of("pool:db") == 2);
    end();
}
END_TEST

/* Checks if the waiter for any release of the counter was woken; it waits again then. */
static void expect_wake(bool done)
{
    struct mail *mail = mail_list_take(&effects.woken);
    ck_assert((mail != NULL) == done);
    if (!mail)
        return;
    struct waiter *w = waiter_of(mail);
    ck_assert_int_eq(table_take_verdict(t, w), WAITER_DONE);
    table_waiter_free(t, w);
    (void)wait_for(&h[1], WAIT_ANY, "pool:db", 1, 1);
}

TEST(returned_units_wake_as_released_ones_and_others_as_ended_ones)
{
    struct pool_options o = options_of(POOL_STATIC);
    o.hold_max_ns = NS_PER_S;
    begin(&o);
    add("a");
    add("b");
    add("c");
    add("d");
    ck_assert(take(&h[0], "pool:db", 1, UINT32_MAX) == TABLE_OK);
    (void)wait_for(&h[1], WAIT_ANY, "pool:db", 1, 1);
    get(0, 2);
    get(1, 1);
    get(2, 1);
    give_back(0, true);
    expect_wake(true);
    give_back(0, false);
    expect_wake(true);
    leave(1, POOL_END_QUIT);
    expect_wake(true);
    pass(NS_PER_S);
    run();
    expect_wake(false);
    get(3, 1);
    leave(3, POOL_END_CRASH);
    expect_wake(false);
    ck_assert_int_eq(table_end_wait(t, h[1].waiters, WAITER_CANCELLED, now), WAITER_CANCELLED);
    end();
}
END_TEST

/* ---- many ---------------------------------------------------------------------------------- */

enum { MANY = 300 }; /* more than one run of the timer handles */

static const char *number_name(unsigned i)
{
    static char name[8];
    snprintf(name, sizeof(name), "m%u", i % 1000);
    return name;
}

static void see_states(void *arg, const struct pool_entry *entry)
{
    memcpy(arg, entry->states, sizeof(entry->states));
}

static uint32_t count_in(enum pool_state state)
{
    uint32_t states[MEMBER_STATES] = {0};
    ck_assert(pool_show(pools, db, see_states, states, now));
    return states[state];
}

TEST(many_holds_are_taken_back_at_once)
{
    struct pool_options o = options_of(POOL_STATIC);
    o.hold_max_ns = NS_PER_S;
    o.clean_after_ns = NS_PER_S;
    begin(&o);
    for (unsigned i = 0; i < MANY; i++)
        add(number_name(i));
    for (int c = 0; c < CLIENTS; c++)
        get(c, MANY / CLIENTS);
    ck_assert_uint_eq(count_in(MEMBER_TAKEN), MANY);
    pass(NS_PER_S);
    run();
    ck_assert_uint_eq(count_in(MEMBER_DIRTY), MANY);
    pass(NS_PER_S);
    run();
    ck_assert_uint_eq(count_in(MEMBER_FREE), MANY);
    end();
}
END_TEST

TEST(suppliers_may_offer_any_number)
{
    struct pool_options o = options_of(POOL_JOINED);
    begin(&o);
    supply(0, UINT32_MAX, UINT32_MAX);
    supply(1, UINT32_MAX, UINT32_MAX);
    ck_assert_str_eq(heard(0), "WANT db 1000 "); /* pools.max_members */
    ck_assert_str_eq(heard(1), "WANT db 0 ");
    o.max = 5;
    set_options(&o);
    ck_assert_str_eq(heard(0), "WANT db 3 ");
    ck_assert_str_eq(heard(1), "WANT db 2 ");
    supply(0, 0, 0);
    ck_assert_str_eq(heard(0), "");
    ck_assert_str_eq(heard(1), "WANT db 5 ");
    end();
}
END_TEST

/* ---- the configuration --------------------------------------------------------------------- */

static struct pools *configured;

static void configure(const char *pool, enum pool_kind kind, const char *member)
{
    struct pool_options o = options_of(kind);
    struct pool_new_member new = {.pool = bytes_of(pool), .name = bytes_of(member)};
    o.queue_max = 7;
    ck_assert(pool_add(configured, new.pool, &o, true, now, &effects) == POOL_OK);
    if (kind == POOL_STATIC)
        ck_assert(pool_member_add(configured, &new, now, &effects) == POOL_OK);
}

static bool see_pool(void *arg, const struct pool_entry *entry)
{
    char *text = arg;
    size_t len = strlen(text);
    snprintf(text + len, 100 - len, "%.*s:%u%s%s ", (int)entry->name.len, entry->name.data,
             entry->options->queue_max, entry->of_file ? "f" : "", entry->draining ? "d" : "");
    return true;
}

static const char *list(void)
{
    static char text[100];
    text[0] = '\0';
    ck_assert(pools_list(pools, bytes_at(NULL, 0), bytes_at(NULL, 0), 10, see_pool, text, now));
    return text;
}

TEST(configuration_is_adopted_after_an_upgrade)
{
    struct pool_options o = options_of(POOL_STATIC);
    begin(&o); /* db was made by a verb */
    struct pools_config config = {
        .table = t, .limits = {10, 20, 10, 20}, .first_fence = 1, .seed = 7, .hooks = &hooks};
    add("a");
    configured = pools;
    configure("empty", POOL_STATIC, "x");
    configure("held", POOL_STATIC, "x");
    configure("kept", POOL_STATIC, "x");
    configure("kind", POOL_STATIC, "x");
    struct bytes target = bytes_of("held");
    struct pool_take take = {.targets = &target, .target_count = 1, .count = 1};
    ck_assert(pool_take(clients[0].real, &take, &reader, 0, now, &effects) == POOL_OK);
    configured = pools_new(&config);
    ck_assert(configured != NULL);
    configure("kept", POOL_STATIC, "y");
    configure("kind", POOL_JOINED, "");
    configure("new", POOL_STATIC, "z");
    configure("db", POOL_STATIC, "of-file");
    o.queue_max = 3;
    ck_assert(pool_set(pools, bytes_of("kept"), &o, true, now, &effects) == POOL_OK);
    ck_assert(!pools_adopt(pools, configured, now, &effects)); /* another kind, made by a verb */
    check();
    ck_assert(state_of("a") == MEMBER_FREE); /* of db */
    ck_assert_str_eq(list(), "db:50 held:7fd kept:7f kind:7f new:7f ");
    take.targets = &(struct bytes){(const uint8_t *)"kept", 4};
    clients[0].heard[0] = '\0';
    ck_assert(pool_take(clients[0].real, &take, &reader, 0, now, &effects) == POOL_OK);
    ck_assert_str_eq(heard(0), "y ");
    pools_free(&configured);
    end();
}
END_TEST

static struct pool_changes declare(const char *const *names, const char *value)
{
    struct pool_new_member new[4];
    struct pool_changes changes;
    size_t count = 0;
    for (; names[count]; count++)
        new[count] = (struct pool_new_member){
            .pool = db, .name = bytes_of(names[count]), .value = bytes_of(value)};
    ck_assert(pool_declare(pools, db, new, count, &changes, now, &effects) == POOL_OK);
    check();
    return changes;
}

TEST(reload_makes_the_members_what_the_file_says)
{
    struct pool_options o = options_of(POOL_STATIC);
    begin(&o);
    struct pool_changes changes = declare((const char *const[]){"a", "b", NULL}, "1");
    ck_assert(changes.added == 2 && changes.dropped == 0 && changes.put_back == 0);
    get(0, 2);
    changes = declare((const char *const[]){"c", NULL}, "1");
    ck_assert(changes.added == 1 && changes.dropped == 2);
    ck_assert_str_eq(look_at("a").then, "drop");
    changes = declare((const char *const[]){"a", "c", NULL}, "2");
    ck_assert(changes.added == 0 && changes.dropped == 0 && changes.put_back == 2);
    ck_assert_str_eq(look_at("a").then, "");
    changes = declare((const char *const[]){"a", "c", NULL}, "2");
    ck_assert(changes.added == 0 && changes.dropped == 0 && changes.put_back == 0);
    give_back(0, true);
    give_back(0, true);
    ck_assert_int_eq(state_of("a"), MEMBER_FREE);
    ck_assert_int_eq(state_of("b"), MEMBER_GONE);
    end();
}
END_TEST

TEST(reload_without_memory_can_be_repeated)
{
    struct pool_options o = options_of(POOL_STATIC);
    struct pool_attribute at[] = {{bytes_of("arch"), bytes_of("a100")}};
    begin(&o);
    add("a");
    add("b");
    add("c");
    get(0, 1); /* c */
    struct pool_new_member new[] = {
        {.pool = db, .name = bytes_of("b"), .value = bytes_of("2")},
        {.pool = db, .name = bytes_of("c"), .attributes = at, .attribute_count = 1},
        {.pool = db, .name = bytes_of("d"), .attributes = at, .attribute_count = 1},
    };
    enum pool_status status;
    unsigned long n = 0;
    do {
        struct pool_changes changes;
        fault_countdown = ++n;
        status = pool_declare(pools, db, new, ARRAY_SIZE(new), &changes, now, &effects);
        fault_countdown = 0;
        check();
    } while (status == POOL_NO_MEMORY);
    ck_assert_int_eq(status, POOL_OK);
    ck_assert_msg(n > 3, "link with fault_wraps");
    ck_assert_int_eq(state_of("a"), MEMBER_GONE);
    ck_assert_int_eq(state_of("d"), MEMBER_FREE);
    get(1, 2);
    ck_assert_str_eq(heard(1), "d b ");
    end();
}
END_TEST

TEST(member_has_as_many_attributes_as_fit)
{
    static const char keys[] = "abcdefghijklmnopq";
    struct pool_options o = options_of(POOL_STATIC);
    struct pool_attribute at[POOL_ATTRIBUTES_MAX];
    struct pool_member_change change = {.pool = db, .name = bytes_of("m"), .attributes = at};
    begin(&o);
    add("m");
    for (size_t i = 0; i < POOL_ATTRIBUTES_MAX; i++)
        at[i] = (struct pool_attribute){bytes_at(keys + i, 1), bytes_of("v")};
    change.attribute_count = POOL_ATTRIBUTES_MAX;
    ck_assert(pool_member_set(pools, &change, now, &effects) == POOL_OK);
    at[0].key = bytes_at(keys + POOL_ATTRIBUTES_MAX, 1);
    change.attribute_count = 1;
    ck_assert(pool_member_set(pools, &change, now, &effects) == POOL_TOO_MANY);
    at[1] = (struct pool_attribute){bytes_at(keys + 3, 1), bytes_at(NULL, 0)};
    change.attribute_count = 2; /* one goes, one comes */
    ck_assert(pool_member_set(pools, &change, now, &effects) == POOL_OK);
    check();
    end();
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(member_whose_lifetime_is_over_is_not_handed_on),
    UNIT(member_of_an_ended_connection_is_not_handed_on),
    UNIT(waiter_for_members_without_an_attribute_gets_no_other),
    UNIT(what_was_served_together_is_back_together),
    UNIT(members_of_a_waiter_that_dies_go_to_the_oldest_that_fits),
    UNIT(request_that_cannot_be_served_any_more_closes_nothing),
    UNIT(operator_cannot_keep_a_member_that_is_to_go),
    UNIT(failed_cleanings_are_counted_anew_after_an_operator),
    UNIT(member_whose_check_hangs_is_checked_last),
    UNIT(undone_take_does_not_count_in_the_order),
    UNIT(nothing_is_due_when_the_pool_is_gone),
    UNIT(member_that_was_down_is_not_idle_yet),
    UNIT(check_does_not_put_off_a_cull),
    UNIT(supplier_that_was_told_nothing_yet_is_told_of_the_drop),
    UNIT(suppliers_are_asked_for_what_new_limits_allow),
    UNIT(no_more_members_stop_than_are_too_many),
    UNIT(smaller_pool_with_a_longer_lifetime_has_members_that_stop),
    UNIT(peak_of_the_counter_is_the_most_that_were_held),
    UNIT(hold_without_a_unit_gets_the_one_that_becomes_free),
    UNIT(returned_units_wake_as_released_ones_and_others_as_ended_ones),
    UNIT(many_holds_are_taken_back_at_once),
    UNIT(suppliers_may_offer_any_number),
    UNIT(configuration_is_adopted_after_an_upgrade),
    UNIT(reload_makes_the_members_what_the_file_says),
    UNIT(reload_without_memory_can_be_repeated),
    UNIT(member_has_as_many_attributes_as_fit),
};

UNIT_MAIN("engine/pool", tests)
