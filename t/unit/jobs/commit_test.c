/*
 * commit_test.c - changes of jobs that a store keeps (protocol page: job queues, section 8), rule
 * by rule. The test plays the store's thread, over SQLite whose calls fail.
 */
#include "base/record.h"
#include "jobs/jobs_state.h"
#include "t/unit/jobs/commit_rig.h"
#include "t/unit/jobs/fake_store.h"
#include "t/unit/random.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct fake_disk *disk;
static struct jobs_client *a, *b;

static void begin(void)
{
    disk = fake_disk_new();
    REQUIRE(disk != NULL);
    rig_begin(&fake_store, fake_disk_path(disk));
    a = rig_client();
    b = rig_client();
}

static struct ask *asks_made[4000];
static size_t made_count;

/* A request that is freed at the end, or before a restart. */
static struct ask *make(struct jobs_client *client, enum job_op_kind kind)
{
    REQUIRE(made_count < ARRAY_SIZE(asks_made));
    return asks_made[made_count++] = ask_new(client, kind);
}

static void free_asks(void)
{
    while (made_count > 0)
        ask_free(&asks_made[--made_count]);
}

/* What is there at the end: nothing waits, and memory goes back to what it was. */
static void end(void)
{
    rig_commit();
    if (a)
        rig_end(&a);
    if (b)
        rig_end(&b);
    rig_commit();
    free_asks();
    ck_assert(!jobs_has_ops(rig.jobs));
    rig_close();
    fake_disk_free(&disk);
}

static void restart(void)
{
    rig_commit();
    if (a)
        rig_end(&a);
    if (b)
        rig_end(&b);
    free_asks();
    rig_restart();
    a = rig_client();
    b = rig_client();
}

/* ---- short words ------------------------------------------------------------------------------
 */

/* Submits, commits, and gives the answer. */
static enum jobs_status answer(struct ask *ask)
{
    ask_submit(ask);
    rig_commit();
    REQUIRE(ask->done);
    enum jobs_status status = ask->status;
    return status;
}

static struct ask *new_put(const char *tube)
{
    struct ask *ask = make(a, JOB_OP_PUT);
    ask_put(ask, tube, "body");
    return ask;
}

static uint64_t put(const char *tube)
{
    struct ask *ask = new_put(tube);
    uint64_t id = ask->puts[0].id;
    ck_assert(answer(ask) == JOBS_OK);
    return id;
}

static uint64_t put_keyed(const char *tube, const char *key, int64_t at_ms)
{
    struct ask *ask = new_put(tube);
    uint64_t id = ask->puts[0].id;
    ask_key(ask, key, at_ms);
    ask_submit(ask);
    rig_commit();
    ck_assert(ask->done && ask->status == JOBS_OK);
    id = ask->duplicates[0].is ? ask->duplicates[0].of : id;
    return id;
}

static struct ask *new_act(struct jobs_client *client, enum job_op_kind kind, uint64_t id)
{
    struct ask *ask = make(client, kind);
    ask->op.id = id;
    return ask;
}

static enum jobs_status act(struct jobs_client *client, enum job_op_kind kind, uint64_t id)
{
    return answer(new_act(client, kind, id));
}

static void set(const char *tube, unsigned which, struct job_settings settings)
{
    struct ask *ask = make(a, JOB_OP_SET_TUBE);
    ask_tube(ask, tube);
    ask->settings = settings;
    ask->settings.given = 1u << which;
    ck_assert(answer(ask) == JOBS_OK);
}

static void set_tries(const char *tube, uint32_t tries)
{
    set(tube, JOB_SETTING_TRIES, (struct job_settings){.tries = tries});
}

static void set_lease(const char *tube)
{
    set(tube, JOB_SETTING_CLAIM, (struct job_settings){.claim = JOB_CLAIM_LEASE});
}

static struct ask *new_pause(const char *tube, uint32_t seconds)
{
    struct ask *ask = make(a, JOB_OP_PAUSE);
    ask_tube(ask, tube);
    ask->op.seconds = seconds;
    return ask;
}

/* The job that a client is given at once; 0: none. */
static uint64_t reserve(struct jobs_client *client, int64_t timeout_ns, uint64_t *token_r)
{
    struct job_view view;
    if (jobs_reserve(client, timeout_ns, &view, rig.now) != JOBS_OK)
        return 0;
    if (token_r)
        *token_r = view.token;
    job_body_drop(rig.jobs, &view.body);
    return view.id;
}

/* The job that a wait has brought; 0: none yet. */
static uint64_t heard(struct jobs_client *client, uint64_t *token_r)
{
    struct job_view view;
    if (!rig_hears(client) || !jobs_read(client, &view))
        return 0;
    if (token_r)
        *token_r = view.token;
    ck_assert(view.body != NULL);
    job_body_drop(rig.jobs, &view.body);
    return view.id;
}

/* The same, of a reservation that is committed first. */
static uint64_t take(struct jobs_client *client, uint64_t *token_r)
{
    struct job_view view;
    enum jobs_status status = jobs_reserve(client, JOBS_FOREVER, &view, rig.now);
    if (status == JOBS_OK) {
        if (token_r)
            *token_r = view.token;
        job_body_drop(rig.jobs, &view.body);
        return view.id;
    }
    ck_assert(status == JOBS_WAITS);
    rig_commit();
    return heard(client, token_r);
}

static struct job_stats stats_of(uint64_t id)
{
    struct job_stats stats;
    if (jobs_stats_job(rig.jobs, id, rig.now, &stats) != JOBS_OK)
        stats = (struct job_stats){.state = JOB_STATES};
    return stats;
}

static unsigned state_of(uint64_t id)
{
    return stats_of(id).state;
}

static unsigned stored(uint64_t id)
{
    struct job_changing now;
    return fake_disk_job(disk, id, &now) ? now.state : JOB_STATES;
}

static struct tube_stats tube_of(const char *tube)
{
    struct tube_stats stats;
    if (jobs_stats_tube(rig.jobs, bytes_of(tube), rig.now, &stats) != JOBS_OK)
        stats = (struct tube_stats){.name = ""};
    return stats;
}

static int64_t wall_ms(void)
{
    return rig_wall_ns() / NS_PER_MS;
}

/* ---- nothing of a change is seen before its commit ---------------------------------------------
 */

TEST(a_put_is_seen_by_nobody_before_its_commit)
{
    struct job_view view;
    size_t count;
    uint64_t next;
    begin();
    ck_assert(reserve(b, JOBS_FOREVER, NULL) == 0);
    struct ask *ask = ask_submit(new_put("default"));
    ck_assert(ask->status == JOBS_COMMITS && rig_take());
    rig_write();
    ck_assert(stored(ask->puts[0].id) == JOB_READY);
    ck_assert(jobs_peek(rig.jobs, ask->puts[0].id, &view) == JOBS_NOT_FOUND);
    ck_assert(jobs_peek_next(a, JOB_PEEK_READY, &view) == JOBS_NOT_FOUND);
    ck_assert(tube_of("default").states[JOB_READY] == 0 && tube_of("default").total_jobs == 0);
    ck_assert(jobs_list(rig.jobs, bytes_of("default"), JOBS_ALL, 0, 1, SIZE_MAX, &view, &count,
                        &next) == JOBS_OK &&
              count == 0);
    ck_assert(!rig_hears(b) && !ask->done);
    rig_settle();
    ck_assert(ask->done && ask->status == JOBS_OK);
    ck_assert(heard(b, NULL) == ask->puts[0].id);
    end();
}

/* Takes a transaction with so much in it; returns its operations. */
static unsigned take_and_commit(size_t writes, size_t bytes)
{
    unsigned count = 0;
    rig.has_list = jobs_take_ops(rig.jobs, &rig.list, writes, bytes);
    if (!rig.has_list)
        return 0;
    for (const struct mail *mail = rig.list.ops.first; mail; mail = mail->next)
        count++;
    job_ops_read(rig.jobs, rig.store, &rig.list, rig_wall_ns());
    rig_write();
    rig_settle();
    return count;
}

TEST(a_transaction_has_so_many_writes_at_most)
{
    enum { PUTS = 10 };
    struct ask *asks[PUTS];
    begin();
    for (size_t n = 0; n < PUTS; n++)
        asks[n] = ask_submit(new_put("default"));
    ck_assert_uint_eq(take_and_commit(4, SIZE_MAX), 4);
    ck_assert(asks[3]->done && !asks[4]->done);
    ck_assert_uint_eq(take_and_commit(SIZE_MAX, 2 * strlen("body") + 1), 3); /* and one more body */
    ck_assert_uint_eq(take_and_commit(1, 1), 1);
    ck_assert_uint_eq(take_and_commit(2000, SIZE_MAX), 2);
    ck_assert_uint_eq(take_and_commit(2000, SIZE_MAX), 0);
    for (size_t n = 0; n < PUTS; n++) {
        ck_assert(asks[n]->done && asks[n]->status == JOBS_OK);
    }
    end();
}

TEST(who_asks_for_much_is_behind_others_and_keeps_its_order)
{
    enum { PUTS = 100, FEW = 32 };
    struct ask *asks[PUTS], *other;
    begin();
    for (size_t n = 0; n < PUTS; n++)
        asks[n] = ask_submit(new_put("default"));
    other = make(b, JOB_OP_PUT);
    ask_put(other, "default", "body");
    ask_submit(other);
    ck_assert_uint_eq(take_and_commit(FEW, SIZE_MAX), FEW + FEW / 2);
    ck_assert(asks[FEW + FEW / 2 - 1]->done && !asks[FEW + FEW / 2]->done && !other->done);
    ck_assert_uint_eq(take_and_commit(2, SIZE_MAX), 2);
    ck_assert(other->done && asks[FEW + FEW / 2]->done);
    struct ask *last = ask_submit(new_put("default"));
    ck_assert_uint_eq(take_and_commit(2, SIZE_MAX), 1);
    ck_assert(!last->done); /* though there are few of them now */
    while (take_and_commit(FEW, SIZE_MAX) > 0)
        ck_assert(!last->done || asks[PUTS - 1]->done);
    ck_assert(last->done);
    last = ask_submit(new_put("default"));
    ck_assert_uint_eq(take_and_commit(1, SIZE_MAX), 1); /* it is among the first again */
    ck_assert(last->done);
    end();
}

/* So that a connection has one such operation at most. */
TEST(an_operation_that_waits_for_another_says_so)
{
    struct ask *asks[4];
    static const char *const keys[] = {"k", "other", "k", "k"};
    begin();
    for (unsigned n = 0; n < ARRAY_SIZE(asks); n++) {
        asks[n] = new_put("default");
        ask_key(asks[n], keys[n], 1000);
        ask_submit(asks[n]);
        ck_assert(asks[n]->op.parked == (n >= 2)); /* they look for the same key in the store */
    }
    rig_commit();
    for (unsigned n = 0; n < ARRAY_SIZE(asks); n++) {
        ck_assert(asks[n]->done && asks[n]->status == JOBS_OK);
    }
    uint64_t id = put("default");
    for (unsigned n = 0; n < 2; n++) {
        asks[n] = make(a, JOB_OP_DELETE);
        asks[n]->op.id = id;
        ask_submit(asks[n]);
        ck_assert(asks[n]->op.parked == (n == 1)); /* the job is under change */
    }
    rig_commit();
    ck_assert(asks[0]->status == JOBS_OK && asks[1]->status == JOBS_NOT_FOUND);
    end();
}

TEST(changes_are_seen_by_nobody_before_their_commit)
{
    static const enum job_op_kind kinds[] = {JOB_OP_DELETE, JOB_OP_RELEASE, JOB_OP_BURY, JOB_OP_ACK,
                                             JOB_OP_NACK};
    static const unsigned after[] = {JOB_STATES, JOB_DELAYED, JOB_BURIED, JOB_STATES, JOB_DELAYED};
    begin();
    for (size_t n = 0; n < sizeof(kinds) / sizeof(kinds[0]); n++) {
        uint64_t id = put("default"), token = 0;
        ck_assert(reserve(a, 0, &token) == id);
        struct ask *ask = new_act(a, kinds[n], id);
        ask->op.delay_s = 5;
        ask->op.token = token;
        ask_submit(ask);
        ck_assert(ask->status == JOBS_COMMITS && rig_take());
        rig_write();
        ck_assert(stored(id) == after[n]);
        ck_assert(state_of(id) == JOB_RESERVED && tube_of("default").states[JOB_RESERVED] == 1);
        rig_settle();
        ck_assert(ask->done && ask->status == JOBS_OK && state_of(id) == after[n]);
        if (after[n] != JOB_STATES)
            ck_assert(act(a, JOB_OP_DELETE, id) == JOBS_OK);
    }
    end();
}

/* ---- parked ------------------------------------------------------------------------------------
 */

TEST(operations_on_one_job_are_decided_in_the_order_of_arrival)
{
    begin();
    uint64_t id = put("default"), token = 0;
    ck_assert(reserve(a, 0, &token) == id);
    struct ask *bury = ask_submit(new_act(a, JOB_OP_BURY, id));
    struct ask *kick = ask_submit(new_act(b, JOB_OP_KICK_JOB, id));
    struct ask *take_it = ask_submit(new_act(b, JOB_OP_RESERVE, id));
    struct ask *delete = ask_submit(new_act(a, JOB_OP_DELETE, id));
    struct ask *mine = ask_submit(new_act(b, JOB_OP_DELETE, id));
    struct ask *late = ask_submit(new_act(b, JOB_OP_DELETE, id));
    rig_commit();
    ck_assert(bury->status == JOBS_OK && kick->status == JOBS_OK && take_it->status == JOBS_OK);
    ck_assert(delete->status == JOBS_NOT_FOUND && mine->status == JOBS_OK);
    ck_assert(late->done && late->status == JOBS_NOT_FOUND && stored(id) == JOB_STATES);
    end();
}

TEST(a_put_takes_no_part_in_the_failure_of_another_with_its_key)
{
    begin();
    struct ask *first = new_put("default"), *second = new_put("default");
    ask_key(first, "k", 0);
    ask_key(second, "k", 0);
    ask_submit(first);
    rig_take(); /* looks */
    rig_settle();
    ask_submit(second);
    fake_disk_fail(disk, FAKE_PUT, 1, 1, JOB_STORE_FULL);
    rig_commit();
    ck_assert(first->status == JOBS_NO_MEMORY);
    ck_assert(second->status == JOBS_OK && !second->duplicates[0].is);
    end();
}

TEST(a_put_waits_for_settings_under_change)
{
    begin();
    struct ask *set_it = make(a, JOB_OP_SET_TUBE);
    ask_tube(set_it, "default");
    set_it->settings =
        (struct job_settings){.given = 1u << JOB_SETTING_READ_ONLY, .read_only = "moving"};
    ask_submit(set_it);
    struct ask *ask = ask_submit(new_put("default"));
    ck_assert(ask->status == JOBS_COMMITS);
    rig_commit();
    ck_assert(set_it->status == JOBS_OK && ask->status == JOBS_READ_ONLY);
    end();
}

TEST(settings_and_pauses_of_a_tube_wait_for_each_other)
{
    struct job_tube_record record;
    begin();
    struct ask *pause = ask_submit(new_pause("default", 9));
    struct ask *set_it = make(a, JOB_OP_SET_TUBE);
    ask_tube(set_it, "default");
    set_it->settings = (struct job_settings){.given = 1u << JOB_SETTING_TRIES, .tries = 3};
    ask_submit(set_it);
    rig_commit();
    ck_assert(pause->status == JOBS_OK && set_it->status == JOBS_OK);
    ck_assert(fake_disk_tube(disk, bytes_of("default"), &record));
    ck_assert(record.pause_s == 9 && record.settings.tries == 3);
    end();
}

TEST(puts_under_way_count_towards_the_limit)
{
    begin();
    set("default", JOB_SETTING_LIMIT, (struct job_settings){.limit = 2});
    struct ask *asks[3];
    for (unsigned n = 0; n < 3; n++)
        asks[n] = ask_submit(new_put("default"));
    ck_assert(asks[2]->status == JOBS_TUBE_FULL);
    fake_disk_fail(disk, FAKE_PUT, 1, 1, JOB_STORE_FULL);
    rig_commit();
    ck_assert(asks[0]->status == JOBS_NO_MEMORY && asks[1]->status == JOBS_NO_MEMORY);
    put("default");
    put("default");
    ck_assert(answer(new_put("default")) == JOBS_TUBE_FULL);
    end();
}

TEST(a_kick_waits_for_a_buried_job_under_change)
{
    begin();
    uint64_t id = put("default"), other;
    ck_assert(reserve(a, 0, NULL) == id);
    ck_assert(act(a, JOB_OP_BURY, id) == JOBS_OK);
    struct ask *delayed = new_put("default");
    delayed->puts[0].delay_s = 100;
    other = delayed->puts[0].id;
    ck_assert(answer(delayed) == JOBS_OK);
    struct ask *delete = ask_submit(new_act(b, JOB_OP_DELETE, id));
    fake_disk_fail(disk, FAKE_REMOVE, 1, 1, JOB_STORE_IO);
    struct ask *kick = make(a, JOB_OP_KICK);
    kick->kick.left = 5;
    ask_submit(kick);
    rig_commit();
    while (kick->status == JOBS_WAITS) {
        ask_submit(kick);
        rig_commit();
    }
    ck_assert(delete->status == JOBS_NO_MEMORY && kick->kick.kicked == 1);
    ck_assert(state_of(id) == JOB_READY && state_of(other) == JOB_DELAYED);
    end();
}

/* ---- reservations ------------------------------------------------------------------------------
 */

TEST(a_lease_is_committed_and_its_ttr_counts_from_the_commit)
{
    struct job_changing now;
    struct job_view view;
    uint64_t token = 0;
    begin();
    set_lease("default");
    uint64_t id = put("default");
    ck_assert(jobs_reserve(a, 0, &view, rig.now) == JOBS_WAITS && rig_take());
    rig_pass(30);
    rig_write();
    rig_settle();
    ck_assert(heard(a, &token) == id && stats_of(id).time_left_s == 60);
    rig_pass(59);
    rig_run();
    ck_assert(state_of(id) == JOB_RESERVED);
    struct ask *renew = new_act(b, JOB_OP_RENEW, id);
    renew->op.token = token;
    ask_submit(renew);
    ck_assert(renew->status == JOBS_COMMITS);
    rig_pass(10); /* it does not run out while that is under way */
    rig_run();
    rig_commit();
    ck_assert(renew->done && renew->status == JOBS_OK && stats_of(id).time_left_s == 60);
    ck_assert(fake_disk_job(disk, id, &now) && now.due_ns > rig_wall_ns());
    rig_pass(61);
    rig_run();
    ck_assert(state_of(id) == JOB_READY && stats_of(id).timeouts == 1);
    end();
}

TEST(a_reservation_under_change_does_not_run_out)
{
    begin();
    uint64_t id = put("default");
    ck_assert(reserve(a, 0, NULL) == id);
    struct ask *bury = ask_submit(new_act(a, JOB_OP_BURY, id));
    ck_assert(rig_take());
    rig_pass(100);
    struct jobs_effects effects;
    jobs_effects_init(&effects);
    jobs_run(rig.jobs, rig.now, &effects);
    ck_assert(state_of(id) == JOB_RESERVED);
    rig_write();
    rig_settle();
    ck_assert(bury->status == JOBS_OK && state_of(id) == JOB_BURIED && stats_of(id).timeouts == 0);
    end();
}

TEST(a_twin_of_a_put_that_fails_goes_to_who_began_to_wait_meanwhile)
{
    begin();
    uint64_t id = put_keyed("default", "k", 1000);
    struct ask *twin = new_put("default");
    ask_key(twin, "k", 2000);
    ask_submit(twin);
    ck_assert(reserve(b, JOBS_FOREVER, NULL) == 0);
    fake_disk_fail(disk, FAKE_COMMIT, 1, 1, JOB_STORE_IO);
    rig_commit();
    ck_assert(twin->status == JOBS_NO_MEMORY && heard(b, NULL) == id);
    end();
}

/* ---- ends of connections -----------------------------------------------------------------------
 */

TEST(a_holder_may_end_while_another_connection_ends_its_reservation)
{
    for (unsigned fails = 0; fails < 2; fails++) {
        uint64_t token = 0;
        begin();
        uint64_t id = put("default");
        ck_assert(reserve(a, 0, &token) == id);
        struct ask *nack = new_act(b, JOB_OP_NACK, id);
        nack->op.token = token;
        nack->op.delay_s = 5;
        ask_submit(nack);
        fake_disk_fail(disk, FAKE_COMMIT, 1, fails, JOB_STORE_IO);
        ck_assert(rig_take());
        rig_end(&a);
        ck_assert(state_of(id) == JOB_RESERVED);
        rig_write();
        rig_settle();
        ck_assert(nack->done && state_of(id) == (fails ? JOB_READY : JOB_DELAYED));
        end();
    }
}

TEST(a_connection_with_many_kicks_ends)
{
    begin();
    uint64_t mine = put("mine"), ids[1500];
    uint32_t count;
    ck_assert(jobs_watch(a, bytes_of("mine"), &count) == JOBS_OK);
    ck_assert(reserve(a, 0, NULL) == mine);
    for (unsigned n = 0; n < 1500; n++) {
        struct ask *ask = new_put("default");
        ask->puts[0].delay_s = 100;
        ids[n] = ask->puts[0].id;
        ask_submit(ask);
        rig_commit();
    }
    struct ask *kick = make(a, JOB_OP_KICK);
    kick->kick.left = 2000;
    unsigned steps = 0;
    do {
        ask_submit(kick);
        rig_commit();
        steps++;
    } while (kick->status == JOBS_WAITS);
    ck_assert(kick->status == JOBS_OK && kick->kick.kicked == 1500);
    ck_assert(steps == (1500 + JOBS_OP_STEP - 1) / JOBS_OP_STEP);
    ck_assert(state_of(ids[0]) == JOB_READY && stored(ids[1499]) == JOB_READY);
    rig_end(&a);
    ck_assert(state_of(mine) == JOB_READY && tube_of("mine").watching == 0);
    end();
}

TEST(a_promise_to_a_connection_that_has_ended_is_taken_back)
{
    struct job_view view;
    for (unsigned fails = 0; fails < 2; fails++) {
        begin();
        set_tries("default", 2);
        uint64_t id = put("default"), other = put("default");
        ck_assert(jobs_reserve(a, 0, &view, rig.now) == JOBS_WAITS);
        fake_disk_fail(disk, FAKE_COMMIT, 1, fails, JOB_STORE_IO);
        rig_end(&a);
        rig_commit();
        ck_assert(state_of(id) == JOB_READY && stats_of(id).tries == 1 - fails);
        ck_assert(state_of(other) == JOB_READY && stats_of(other).tries == 0);
        end();
    }
}

TEST(nobody_uses_up_a_try_for_a_connection_that_has_ended)
{
    struct job_view view;
    begin();
    set_tries("default", 1);
    uint64_t bad = put("default"), good = put("default");
    restart(); /* the bodies are in the store alone */
    fake_disk_break_body(disk, bad, JOB_STORE_CORRUPT);
    ck_assert(jobs_reserve(a, JOBS_FOREVER, &view, rig.now) == JOBS_WAITS);
    rig_end(&a);
    rig_commit();
    ck_assert(state_of(bad) == JOB_BURIED && state_of(good) == JOB_READY);
    ck_assert(stats_of(good).tries == 0);
    end();
}

/* ---- waits -------------------------------------------------------------------------------------
 */

TEST(who_waits_goes_on_waiting_when_a_reservation_cannot_be_committed)
{
    begin();
    set_tries("default", 3);
    ck_assert(reserve(a, JOBS_FOREVER, NULL) == 0 && reserve(b, JOBS_FOREVER, NULL) == 0);
    struct ask *ask = ask_submit(new_put("default"));
    rig_take();
    rig_write();
    rig_settle(); /* the put; then the reservation is queued */
    uint64_t id = ask->puts[0].id;
    fake_disk_fail(disk, FAKE_COMMIT, 1, 3, JOB_STORE_FULL);
    rig_commit();
    ck_assert(state_of(id) == JOB_READY && stats_of(id).tries == 0);
    ck_assert(heard(a, NULL) == 0 && jobs_client_waits(a));
    for (unsigned n = 0; n < 3; n++) { /* tried again each second */
        ck_assert(heard(a, NULL) == 0 && heard(b, NULL) == 0);
        ck_assert(jobs_next_ns(rig.jobs) > rig.now.mono_ns);
        rig_pass(1.1);
        rig_run();
    }
    ck_assert(heard(a, NULL) == id && heard(b, NULL) == 0); /* it kept its place */
    end();
}

TEST(with_timeout_0_a_reservation_that_cannot_be_committed_is_refused)
{
    struct job_view view;
    begin();
    set_tries("default", 3);
    uint64_t id = put("default");
    fake_disk_fail(disk, FAKE_COMMIT, 1, 1, JOB_STORE_FULL);
    ck_assert(jobs_reserve(a, 0, &view, rig.now) == JOBS_WAITS);
    ck_assert(!jobs_end_wait(a));
    rig_commit();
    ck_assert(rig_hears(a) && jobs_was_refused(a) && !jobs_read(a, &view));
    ck_assert(jobs_end_wait(a) && state_of(id) == JOB_READY);
    end();
}

TEST(jobs_that_came_to_another_tube_are_found_after_a_refusal)
{
    struct job_view view;
    begin();
    uint32_t count;
    set_tries("default", 3);
    uint64_t id = put("default");
    ck_assert(jobs_watch(a, bytes_of("x"), &count) == JOBS_OK);
    struct ask *ask = ask_submit(new_put("x")); /* commits before the reservation */
    ck_assert(rig_take());
    ck_assert(jobs_reserve(a, JOBS_FOREVER, &view, rig.now) == JOBS_WAITS);
    rig_write();
    rig_settle();
    uint64_t other = ask->puts[0].id;
    ck_assert(ask->status == JOBS_OK && state_of(other) == JOB_READY);
    fake_disk_fail(disk, FAKE_COMMIT, 1, 1, JOB_STORE_FULL);
    rig_commit();
    ck_assert(heard(a, NULL) == other && state_of(id) == JOB_READY);
    end();
}

TEST(a_stale_job_that_cannot_be_deleted_is_in_nobodys_way)
{
    begin();
    uint64_t old = put_keyed("default", "k", 1000);
    ck_assert(reserve(a, 0, NULL) == old);
    /* Another with the key; then the first is done, and the second is stale. */
    rig_pass(1);
    uint64_t second = put_keyed("default", "k", 2000), good = put("default");
    fake_disk_fail(disk, FAKE_REMOVE, 2, 1, JOB_STORE_FULL);
    ck_assert(act(a, JOB_OP_DELETE, old) == JOBS_OK);
    ck_assert(state_of(second) == JOB_READY);
    ck_assert(reserve(b, 0, NULL) == good);
    fake_disk_fail(disk, FAKE_REMOVE, 1, 1, JOB_STORE_FULL);
    rig_run();
    ck_assert(state_of(second) == JOB_READY && tube_of("default").states[JOB_READY] == 1);
    for (unsigned n = 0; n < 4; n++) {
        rig_pass(1.1);
        rig_run();
    }
    ck_assert(state_of(second) == JOB_STATES && tube_of("default").dropped == 1);
    end();
}

/* ---- failures ----------------------------------------------------------------------------------
 */

TEST(a_transaction_that_fails_runs_again_without_its_puts)
{
    begin();
    uint64_t id = put("default");
    struct ask *ask = ask_submit(new_put("default"));
    struct ask *delete = ask_submit(new_act(a, JOB_OP_DELETE, id));
    fake_disk_fail(disk, FAKE_PUT, 1, 1, JOB_STORE_FULL);
    rig_commit();
    ck_assert(ask->status == JOBS_NO_MEMORY && state_of(ask->puts[0].id) == JOB_STATES);
    ck_assert(delete->status == JOBS_OK && stored(id) == JOB_STATES);
    ck_assert(stored(ask->puts[0].id) == JOB_STATES);
    put("default");
    end();
}

/* ---- bodies ------------------------------------------------------------------------------------
 */

TEST(a_job_whose_body_cannot_be_read_is_buried_and_the_next_is_taken)
{
    static const enum job_store_status ways[] = {JOB_STORE_CORRUPT, JOB_STORE_NONE, JOB_STORE_IO};
    for (unsigned n = 0; n < 3; n++) {
        begin();
        uint64_t bad = put("default"), good = put("default");
        restart();
        fake_disk_break_body(disk, bad, ways[n]);
        ck_assert(take(a, NULL) == good);
        ck_assert(state_of(bad) == JOB_BURIED && stored(bad) == JOB_BURIED);
        ck_assert(stats_of(bad).tries == 0);
        end();
    }
}

TEST(a_body_that_cannot_be_read_is_an_error_for_who_asks_by_id)
{
    begin();
    uint64_t id = put("default"), delayed;
    struct ask *ask = new_put("default");
    ask->puts[0].delay_s = 1000;
    delayed = ask->puts[0].id;
    ck_assert(answer(ask) == JOBS_OK);
    for (unsigned n = 0; n < 3; n++) {
        uint64_t asked = n == 1 ? delayed : id; /* ready, delayed, buried */
        restart();
        fake_disk_break_body(disk, asked, JOB_STORE_CORRUPT);
        ck_assert(act(a, JOB_OP_RESERVE, asked) == JOBS_IO);
        ck_assert(state_of(asked) == JOB_BURIED);
    }
    end();
}

/* ---- damage ------------------------------------------------------------------------------------
 */

/* Submits again while there are steps to make. */
static void make_steps(struct ask *ask)
{
    do {
        ask_submit(ask);
        rig_commit();
        ck_assert(ask->done);
    } while (ask->status == JOBS_WAITS);
    ck_assert(ask->status == JOBS_OK);
}

TEST(damage_concerns_no_other_operation_of_the_transaction)
{
    static const enum job_op_kind kinds[] = {JOB_OP_DELETE, JOB_OP_KICK_JOB, JOB_OP_DELETE};
    struct ask *asks[3], *first, *last;
    uint64_t ids[3];
    for (unsigned bad = 0; bad < 3; bad++) {
        begin();
        for (unsigned n = 0; n < 3; n++) {
            struct ask *ask = new_put("default");
            ask->puts[0].delay_s = 1000;
            ids[n] = ask->puts[0].id;
            ck_assert(answer(ask) == JOBS_OK);
        }
        fake_disk_break_row(disk, ids[bad]);
        first = ask_submit(new_put("default"));
        for (unsigned n = 0; n < 3; n++)
            asks[n] = ask_submit(new_act(b, kinds[n], ids[n]));
        last = ask_submit(new_put("default"));
        ck_assert(rig_take());
        rig_write();
        ck_assert(rig.list.damages == 1 && rig.list.damaged_id == ids[bad]);
        rig_settle();
        ck_assert(first->status == JOBS_OK && last->status == JOBS_OK);
        ck_assert(stored(last->puts[0].id) == JOB_READY);
        for (unsigned n = 0; n < 3; n++) {
            ck_assert(asks[n]->done && asks[n]->status == (n == bad ? JOBS_IO : JOBS_OK));
            ck_assert(state_of(ids[n]) == stored(ids[n]));
        }
        ck_assert(state_of(ids[bad]) == JOB_DELAYED);
        end();
    }
}

/* While the disk is full, too. */
TEST(damage_concerns_no_other_operation_of_the_second_run)
{
    begin();
    uint64_t bad = put("default"), good = put("default");
    fake_disk_break_row(disk, bad);
    fake_disk_fail(disk, FAKE_PUT, 1, UINT64_MAX, JOB_STORE_FULL);
    struct ask *early = ask_submit(new_put("default"));
    struct ask *one = ask_submit(new_act(a, JOB_OP_DELETE, bad));
    struct ask *late = ask_submit(new_put("default"));
    struct ask *two = ask_submit(new_act(a, JOB_OP_DELETE, good));
    rig_commit();
    ck_assert(early->status == JOBS_NO_MEMORY && late->status == JOBS_NO_MEMORY);
    ck_assert(one->status == JOBS_IO && two->status == JOBS_OK);
    ck_assert(state_of(bad) == JOB_READY && stored(good) == JOB_STATES);
    fake_disk_fail(disk, FAKE_PUT, 1, 0, JOB_STORE_OK);
    end();
}

/* Even a whole step of damaged jobs, while the last job is under change. */
TEST(a_clear_passes_damaged_jobs_by_while_it_waits)
{
    enum { DAMAGED = JOBS_STEP + 1 };
    begin();
    uint64_t first = 0, good;
    for (unsigned n = 0; n < DAMAGED; n++) {
        uint64_t id = put("default");
        first = n == 0 ? id : first;
        fake_disk_break_row(disk, id);
        ck_assert(act(a, JOB_OP_DELETE, id) == JOBS_IO);
    }
    good = put("default");
    for (unsigned delay_s = 0; delay_s <= 100; delay_s += 100) {
        struct ask *kept = ask_submit(new_act(b, JOB_OP_RESERVE, good));
        ck_assert(kept->done && kept->status == JOBS_OK);
        kept = new_act(b, JOB_OP_RELEASE, good);
        kept->op.delay_s = delay_s;
        struct ask *clear = make(NULL, JOB_OP_CLEAR);
        ask_tube(clear, "default");
        clear->op.state = JOBS_ALL;
        ask_submit(kept);
        make_steps(clear);
        ck_assert(kept->done && clear->clear.deleted == 0); /* it was reserved at the beginning */
    }
    struct ask *kick = ask_submit(new_act(b, JOB_OP_KICK_JOB, good)); /* it is delayed */
    struct ask *clear = make(NULL, JOB_OP_CLEAR);
    ask_tube(clear, "default");
    clear->op.state = JOBS_ALL;
    make_steps(clear);
    ck_assert(kick->status == JOBS_OK && clear->clear.deleted == 1);
    ck_assert(state_of(good) == JOB_STATES && stored(good) == JOB_STATES);
    ck_assert(state_of(first) == JOB_READY && tube_of("default").states[JOB_READY] == DAMAGED);
    end();
}

/* Who began to wait while the clear was under way is given the job that it left out. */
TEST(a_clear_serves_the_damaged_job_that_it_leaves_out)
{
    struct job_view view;
    begin();
    uint64_t id = put("default");
    fake_disk_break_row(disk, id);
    struct ask *clear = make(NULL, JOB_OP_CLEAR);
    ask_tube(clear, "default");
    clear->op.state = JOB_READY;
    ask_submit(clear);
    ck_assert(jobs_reserve(b, JOBS_FOREVER, &view, rig.now) == JOBS_WAITS);
    rig_commit();
    ck_assert(rig_hears(b) && jobs_read(b, &view) && view.id == id);
    ck_assert(clear->done && clear->clear.deleted == 0);
    job_body_drop(rig.jobs, &view.body);
    end();
}

/* ---- steps ----------------------------------------------------------------------------------
 */

static struct jobs_stats all_stats(void)
{
    struct jobs_stats stats;
    jobs_get_stats(rig.jobs, &stats);
    return stats;
}

/* Puts jobs of a root into a tube, and then makes them stale by a newer time of it. */
static void put_stale(const char *tube, unsigned count)
{
    for (unsigned n = 0; n <= count; n += RIG_PUTS) {
        bool newer = n + RIG_PUTS > count;
        struct ask *ask = make(a, JOB_OP_PUT);
        for (unsigned i = 0; i < (newer ? 1 : RIG_PUTS); i++) {
            ask_put(ask, tube, "");
            ask_root(ask, "r", newer ? 5000 : 4000);
            ask->puts[i].pri = newer ? 100 : 1;
        }
        ck_assert(answer(ask) == JOBS_OK);
    }
}

/* Neither room in memory nor on disk: the search has to end all the same, in steps. */
TEST(stale_jobs_that_nothing_can_delete_end_a_search)
{
    enum { STALE = 2 * JOBS_STEP };
    struct jobs_effects effects;
    struct job_view view;
    begin();
    put_stale("default", STALE);
    set_tries("default", 3); /* so a reservation needs the store, too */
    fake_disk_fail(disk, FAKE_REMOVE, 1, UINT64_MAX, JOB_STORE_IO);
    jobs_set_memory_limit(rig.jobs, 0);
    unsigned steps = 1;
    ck_assert(jobs_reserve(a, 0, &view, rig.now) == JOBS_WAITS);
    ck_assert(all_stats().doomed == JOBS_STEP);
    jobs_effects_init(&effects);
    for (; jobs_search(a, rig.now, &effects); steps++)
        ck_assert(all_stats().doomed <= (steps + 1) * JOBS_STEP);
    rig_send(&effects);
    ck_assert(steps == 2 && all_stats().doomed == STALE);
    ck_assert(jobs_end_wait(a)); /* the good one cannot be promised without memory */
    ck_assert(jobs_reserve(b, 0, &view, rig.now) == JOBS_NO_MEMORY);
    jobs_set_memory_limit(rig.jobs, UINT64_MAX);
    for (unsigned n = 0; n < 3; n++) {
        rig_run(); /* the store still fails */
        rig_pass(1.1);
    }
    ck_assert(all_stats().doomed == STALE && !jobs_has_ops(rig.jobs));
    fake_disk_fail(disk, FAKE_REMOVE, 1, 0, JOB_STORE_OK);
    rig_run();
    ck_assert(all_stats().doomed == 0 && tube_of("default").dropped == STALE);
    end();
}

/* So that the next put of the key does not look at them again. */
/* The same of a client that watches many tubes, whose stale jobs are in front of one good one. */
TEST(a_search_in_many_watched_tubes_goes_on_in_steps)
{
    enum { STALE = 2 * JOBS_STEP };
    struct jobs_effects effects;
    struct job_view view;
    uint32_t watched;
    rig_many_watches = 1;
    begin();
    rig_many_watches = 0;
    ck_assert(jobs_watch(a, bytes_of("more"), &watched) == JOBS_OK && watched == 2);
    put_stale("default", STALE);
    put_stale("more", STALE);
    jobs_effects_init(&effects);
    for (unsigned round = 0; round < 2; round++) {
        uint64_t doomed = all_stats().doomed;
        ck_assert(jobs_reserve(a, 0, &view, rig.now) == JOBS_WAITS);
        ck_assert(all_stats().doomed == doomed + JOBS_STEP);
        bool goes_on = true;
        for (unsigned steps = 1; goes_on; steps++) {
            ck_assert(steps < 8);
            goes_on = jobs_search(a, rig.now, &effects);
            ck_assert(all_stats().doomed <= doomed + (steps + 1) * JOBS_STEP);
            jobs_check(rig.jobs, rig.now);
        }
        rig_send(&effects);
        jobs_effects_init(&effects);
        ck_assert(jobs_read(a, &view));
        job_body_drop(rig.jobs, &view.body);
    }
    ck_assert(jobs_reserve(a, 0, &view, rig.now) == JOBS_TIMED_OUT);
    end();
}

TEST(a_put_dooms_the_stale_jobs_of_its_key)
{
    enum { STALE = 200 };
    begin();
    for (unsigned n = 0; n < STALE; n++) {
        uint64_t one = put_keyed("default", "k", 1000);
        ck_assert(reserve(b, 0, NULL) == one);
    }
    rig_pass(1);
    uint64_t last = put_keyed("default", "k", 2000);
    ck_assert(reserve(a, 0, NULL) == last);
    rig_end(&b); /* all of them come back */
    ck_assert(jobs_finish_ends(rig.jobs, rig.now));
    b = rig_client();
    ck_assert(act(a, JOB_OP_DELETE, last) == JOBS_OK);
    ck_assert(all_stats().doomed == 64); /* what an execution looks at */
    struct ask *ask = new_put("default");
    uint64_t id = ask->puts[0].id;
    ask_key(ask, "k", rig_wall_ns() / NS_PER_MS + 1000);
    ck_assert(answer(ask) == JOBS_OK && state_of(id) == JOB_READY);
    ck_assert(all_stats().doomed == STALE);
    rig_run();
    ck_assert(tube_of("default").dropped == STALE && state_of(id) == JOB_READY);
    end();
}

/* A transaction has what clients ask for, and one step of the rest. */
TEST(deletions_of_stale_jobs_go_in_steps_behind_changes_of_clients)
{
    enum { STALE = 3 * JOBS_OWN_MAX };
    struct jobs_effects effects;
    begin();
    put_stale("default", STALE);
    uint64_t steps = all_stats().steps, most = 0;
    for (unsigned n = 0; n < 100 && tube_of("default").dropped < STALE; n++) {
        for (unsigned i = 0; i < 20; i++) {
            jobs_effects_init(&effects);
            jobs_run(rig.jobs, rig.now, &effects);
            rig_send(&effects);
        }
        uint64_t before = fake_disk_calls(disk, FAKE_REMOVE), dropped = tube_of("default").dropped;
        struct ask *ask = ask_submit(new_put("other"));
        ck_assert(rig_take());
        rig_write();
        rig_settle();
        ck_assert(ask->done && ask->status == JOBS_OK);
        uint64_t removed = fake_disk_calls(disk, FAKE_REMOVE) - before;
        ck_assert(removed <= JOBS_OP_STEP && tube_of("default").dropped == dropped + removed);
        most = removed > most ? removed : most;
    }
    ck_assert(most == JOBS_OP_STEP && tube_of("default").dropped == STALE);
    ck_assert(all_stats().steps >= steps + STALE / JOBS_OP_STEP);
    end();
}

/* Lets deletions of stale jobs begin. Returns how many jobs were deleted before. */
static uint64_t begin_deletions(void)
{
    uint64_t dropped = tube_of("default").dropped;
    for (unsigned n = 0; n < 20; n++) {
        struct jobs_effects effects;
        jobs_effects_init(&effects);
        jobs_run(rig.jobs, rig.now, &effects);
        rig_send(&effects);
    }
    return dropped;
}

TEST(deletions_of_stale_jobs_rest_after_upkeep_of_the_store)
{
    static const int64_t took_ns[] = {10 * NS_PER_MS, 3600 * NS_PER_S},
                         rest_ns[] = {160 * NS_PER_MS, NS_PER_S};
    begin();
    put_stale("default", 5 * JOBS_OWN_MAX);
    for (unsigned n = 0; n < ARRAY_SIZE(took_ns); n++) {
        (void)begin_deletions();
        (void)ask_submit(new_put("other"));
        rig_commit();
        jobs_upkeep_over(rig.jobs, took_ns[n], rig.now);
        rig_pass_ns(rest_ns[n] - 1);
        uint64_t dropped = begin_deletions();
        rig_commit();
        ck_assert(dropped > 0 && tube_of("default").dropped == dropped);
        rig_pass_ns(1);
        (void)begin_deletions();
        rig_commit();
        ck_assert(tube_of("default").dropped > dropped);
    }
    jobs_upkeep_over(rig.jobs, took_ns[0], rig.now); /* no client was beside them */
    uint64_t dropped = begin_deletions();
    rig_commit();
    ck_assert(tube_of("default").dropped > dropped);
    end();
}

TEST(steps_of_many_jobs_take_turns)
{
    enum { CLEARS = 5, EACH = 40 };
    struct ask *clears[CLEARS];
    char tube[] = "0";
    begin();
    for (unsigned n = 0; n < CLEARS * EACH; n++) {
        tube[0] = (char)('0' + n / EACH);
        put(tube);
    }
    for (unsigned n = 0; n < CLEARS; n++) {
        tube[0] = (char)('0' + n);
        clears[n] = make(NULL, JOB_OP_CLEAR);
        ask_tube(clears[n], tube);
        clears[n]->op.state = JOB_READY;
        ask_submit(clears[n]);
    }
    ck_assert(rig_take());
    for (unsigned n = 0; n < CLEARS; n++) {
        size_t writes = clears[n]->op.write_count;
        ck_assert(writes == (n < JOBS_MANY_MAX ? EACH : 0));
    }
    struct ask *ask = ask_submit(new_put("other")); /* which waits for none of them */
    rig_write();
    rig_settle();
    ck_assert(rig_take());
    rig_write();
    rig_settle();
    ck_assert(ask->done);
    rig_commit();
    for (unsigned n = 0; n < CLEARS; n++) {
        ck_assert(clears[n]->done && clears[n]->status == JOBS_WAITS);
        make_steps(clears[n]); /* which finds nothing more */
        ck_assert(clears[n]->clear.deleted == EACH);
    }
    end();
}

/* Last tries that end together are so many under way, and the rest waits a little. */
TEST(last_tries_that_end_together_go_in_steps)
{
    enum { LAST = JOBS_OWN_MAX + 100 };
    struct jobs_effects effects;
    struct job_view view;
    begin();
    set_tries("default", 1);
    for (unsigned n = 0; n < LAST; n++) {
        put("default");
        ck_assert(jobs_reserve(a, 0, &view, rig.now) == JOBS_WAITS);
        rig_commit();
        ck_assert(heard(a, NULL) != 0);
    }
    rig_pass(200);
    for (unsigned n = 0; n < 20; n++) {
        jobs_effects_init(&effects);
        jobs_run(rig.jobs, rig.now, &effects);
        rig_send(&effects);
    }
    ck_assert(tube_of("default").states[JOB_ABANDONED] == 0);
    rig_commit();
    ck_assert(tube_of("default").states[JOB_ABANDONED] == JOBS_OWN_MAX);
    rig_pass(0.02);
    rig_run();
    ck_assert(tube_of("default").states[JOB_ABANDONED] == LAST);
    end();
}

/* Damaged jobs in front are passed by, and none of them is touched. */
TEST(a_kick_passes_damaged_jobs_by_in_steps)
{
    enum { DAMAGED = JOBS_STEP + 1 };
    begin();
    for (unsigned n = 0; n < DAMAGED; n++) {
        struct ask *ask = new_put("default");
        uint64_t id = ask->puts[0].id;
        ask->puts[0].delay_s = 100;
        ck_assert(answer(ask) == JOBS_OK);
        fake_disk_break_row(disk, id);
        ck_assert(act(a, JOB_OP_DELETE, id) == JOBS_IO);
    }
    struct ask *put = new_put("default");
    uint64_t good = put->puts[0].id;
    put->puts[0].delay_s = 100;
    ck_assert(answer(put) == JOBS_OK);
    struct ask *kick = make(a, JOB_OP_KICK);
    kick->kick.left = 3;
    ask_submit(kick);
    ck_assert(kick->op.write_count == 0 && !kick->done); /* a step of looking */
    rig_commit();
    ck_assert(kick->done && kick->status == JOBS_WAITS && kick->kick.kicked == 0);
    make_steps(kick);
    ck_assert(kick->kick.kicked == 1 && state_of(good) == JOB_READY);
    end();
}

/* ---- damage ---------------------------------------------------------------------------------
 */

TEST(a_damaged_job_is_buried_and_holds_nobody_up)
{
    begin();
    set_tries("t", 1);
    set("t", JOB_SETTING_PRUNE, (struct job_settings){.prune_s = 10});
    uint32_t count;
    ck_assert(jobs_watch(a, bytes_of("t"), &count) == JOBS_OK);
    uint64_t id = put("t");
    for (unsigned n = 0; n < 3; n++) { /* to be reserved; abandoned; pruned */
        if (n > 0) {
            ck_assert(take(a, NULL) == id);
        }
        if (n == 2) {
            rig_pass(61);
            rig_run();
            ck_assert(state_of(id) == JOB_ABANDONED);
        }
        fake_disk_break_row(disk, id);
        uint64_t next = put("t");
        if (n > 0) {
            rig_pass(61);
            rig_run();
        }
        ck_assert(take(a, NULL) == next); /* at once */
        ck_assert(state_of(id) == JOB_BURIED);
        fake_disk_break_row(disk, 0);
        ck_assert(act(a, JOB_OP_DELETE, next) == JOBS_OK);
        ck_assert(act(a, JOB_OP_DELETE, id) == JOBS_OK);
        id = put("t");
    }
    end();
}

TEST(a_look_that_meets_damage_is_an_error_for_that_put)
{
    begin();
    fake_disk_fail(disk, FAKE_RECALL, 1, 1, JOB_STORE_CORRUPT);
    struct ask *keyed = new_put("default");
    ask_key(keyed, "k", 0);
    ask_submit(keyed);
    struct ask *other = ask_submit(new_put("default"));
    ck_assert(rig_take());
    ck_assert(rig.list.damages == 1 && rig.list.damaged_id == 0);
    rig_commit();
    ck_assert(keyed->status == JOBS_IO && other->status == JOBS_OK);
    end();
}

TEST(a_job_whose_body_finds_no_memory_is_not_buried)
{
    struct job_view view;
    for (unsigned ours = 0; ours < 2; ours++) {
        size_t taken = 0;
        begin();
        uint64_t id = put("default");
        restart();
        ck_assert(jobs_reserve(a, JOBS_FOREVER, &view, rig.now) == JOBS_WAITS);
        jobs_set_memory_limit(rig.jobs, 100000);
        while (ours && jobs_charge(rig.jobs, JOBS_REST, 1))
            taken++;
        if (!ours)
            fake_disk_break_body(disk, id, JOB_STORE_NO_MEMORY);
        rig_commit();
        ck_assert(heard(a, NULL) == 0 && state_of(id) == JOB_READY);
        jobs_uncharge(rig.jobs, taken);
        fake_disk_break_body(disk, id, JOB_STORE_OK);
        rig_pass(1.1);
        rig_run();
        ck_assert(heard(a, NULL) == id);
        end();
    }
}

TEST(bodies_give_way_behind_many_jobs_that_have_none)
{
    enum { MANY = 3000 };
    static struct ask *asks[MANY];
    static char text[4000];
    struct jobs_stats stats;
    begin();
    for (unsigned n = 0; n < MANY; n++) {
        asks[n] = make(a, JOB_OP_PUT);
        for (unsigned i = 0; i < RIG_PUTS; i++)
            ask_put(asks[n], "default", "");
        ask_submit(asks[n]);
    }
    rig_commit();
    restart();
    memset(text, 'x', sizeof(text) - 1);
    for (unsigned n = 0; n < 4; n++) {
        struct ask *ask = make(a, JOB_OP_PUT);
        ask_put(ask, "default", text);
        ck_assert(answer(ask) == JOBS_OK);
    }
    jobs_get_stats(rig.jobs, &stats);
    jobs_set_memory_limit(rig.jobs, stats.memory / 14 * 16);
    ck_assert(jobs_charge(rig.jobs, JOBS_PUTS, 3 * sizeof(text)));
    jobs_uncharge(rig.jobs, 3 * sizeof(text));
    ck_assert(!jobs_charge(rig.jobs, JOBS_PUTS, 5 * sizeof(text)));
    end();
}

/* ---- keys and roots that the store alone remembers ----------------------------------------------
 */

TEST(a_batch_looks_again_for_a_key_whose_job_is_done_meanwhile)
{
    begin();
    int64_t before_ms = wall_ms();
    rig_pass(1);
    uint64_t id = put_keyed("default", "known", before_ms);
    ck_assert(reserve(a, 0, NULL) == id);
    struct ask *batch = new_put("default");
    ask_key(batch, "unknown", before_ms);
    ask_put(batch, "default", "body");
    ask_key(batch, "known", before_ms);
    ask_submit(batch);
    ck_assert(rig_take()); /* it asks for the time of the other key */
    struct ask *done = ask_submit(new_act(a, JOB_OP_DELETE, id));
    rig_commit();
    ck_assert(done->status == JOBS_OK && batch->status == JOBS_OK);
    ck_assert(!batch->duplicates[0].is);
    ck_assert(batch->duplicates[1].is && batch->duplicates[1].of == 0);
    end();
}

TEST(two_puts_look_for_one_key_at_the_same_time)
{
    begin();
    struct ask *first = new_put("default"), *second = new_put("default");
    ask_key(first, "k", 0);
    ask_key(second, "k", 0);
    ask_submit(first);
    ck_assert(rig_take());
    ask_submit(second);
    rig_commit();
    ck_assert(first->status == JOBS_OK && !first->duplicates[0].is);
    ck_assert(second->status == JOBS_OK && second->duplicates[0].of == first->puts[0].id);
    end();
}

TEST(a_look_that_fails_refuses_the_put)
{
    begin();
    struct ask *ask = new_put("default");
    ask_key(ask, "k", 1000);
    fake_disk_fail(disk, FAKE_RECALL, 1, 1, JOB_STORE_IO);
    ck_assert(answer(ask) == JOBS_NO_MEMORY);
    ck_assert(put_keyed("default", "k", 1000) != 0);
    end();
}

TEST(an_execution_is_forgotten_though_a_put_has_looked_for_it)
{
    struct job_memory memory;
    begin();
    uint64_t first = put_keyed("default", "k", 1000);
    ck_assert(reserve(a, 0, NULL) == first);
    restart();
    first = 0;
    ck_assert((first = take(a, NULL)) != 0);
    (void)ask_submit(new_pause("default", 1));
    struct ask *ask = new_put("other");
    ask_key(ask, "k", 1000);
    ask_submit(ask);
    ck_assert(act(a, JOB_OP_DELETE, first) == JOBS_OK);
    ck_assert(
        fake_disk_memory(disk, JOB_MEMORY_EXECUTION, bytes_of("default"), bytes_of("k"), &memory) &&
        memory.forget_ns != JOB_STORE_KEEP);
    end();
}

/* ---- steps, and the jobs' own changes
 * ------------------------------------------------------------
 */

TEST(steps_that_are_done_stay_done)
{
    begin();
    for (unsigned n = 0; n < 1500; n += 4) {
        struct ask *ask = make(a, JOB_OP_PUT);
        for (unsigned i = 0; i < 4 && n + i < 1500; i++)
            ask_put(ask, "x", "");
        ck_assert(answer(ask) == JOBS_OK);
    }
    struct ask *clear = make(a, JOB_OP_CLEAR);
    clear->op.client = NULL;
    ask_tube(clear, "x");
    clear->op.state = JOBS_ALL;
    fake_disk_fail(disk, FAKE_COMMIT, 2, 1, JOB_STORE_IO);
    do {
        ask_submit(clear);
        rig_commit();
    } while (clear->status == JOBS_WAITS);
    ck_assert(clear->status == JOBS_NO_MEMORY && clear->clear.deleted == JOBS_OP_STEP);
    ck_assert(tube_of("x").states[JOB_READY] == 1500 - JOBS_OP_STEP);
    ck_assert(fake_disk_count(disk).jobs == 1500 - JOBS_OP_STEP);
    end();
}

TEST(abandoned_jobs_are_pruned_when_the_store_lets_them)
{
    begin();
    set_tries("default", 1);
    set("default", JOB_SETTING_PRUNE, (struct job_settings){.prune_s = 10});
    uint64_t id = put("default");
    ck_assert(take(a, NULL) == id);
    ck_assert(act(a, JOB_OP_RELEASE, id) == JOBS_BURIED && stored(id) == JOB_ABANDONED);
    fake_disk_fail(disk, FAKE_REMOVE, 1, 2, JOB_STORE_IO);
    rig_pass(11);
    for (unsigned n = 0; n < 3; n++) {
        ck_assert(state_of(id) == JOB_ABANDONED);
        rig_run();
        ck_assert(jobs_next_ns(rig.jobs) > rig.now.mono_ns);
        rig_pass(1.1);
    }
    ck_assert(state_of(id) == JOB_STATES && stored(id) == JOB_STATES);
    end();
}

TEST(what_the_store_cannot_do_holds_up_nothing_else)
{
    begin();
    set_tries("default", 1);
    set("pruned", JOB_SETTING_PRUNE, (struct job_settings){.prune_s = 10});
    uint64_t last_try = put("default"), other = put("other");
    uint32_t count;
    ck_assert(take(a, NULL) == last_try);
    ck_assert(jobs_watch(a, bytes_of("other"), &count) == JOBS_OK && reserve(a, 0, NULL) == other);
    struct ask *ask = new_put("late");
    ask->puts[0].delay_s = 61;
    uint64_t late = ask->puts[0].id;
    ck_assert(answer(ask) == JOBS_OK);
    fake_disk_fail(disk, FAKE_BEGIN, 1, 3, JOB_STORE_IO);
    rig_pass(62);
    for (unsigned n = 0; n < 3; n++) {
        rig_run();
        ck_assert(jobs_next_ns(rig.jobs) > rig.now.mono_ns);
        ck_assert(state_of(last_try) == JOB_RESERVED);
        ck_assert(state_of(other) == JOB_READY && state_of(late) == JOB_READY);
        rig_pass(1.1);
    }
    rig_run();
    ck_assert(state_of(last_try) == JOB_ABANDONED && stats_of(last_try).timeouts == 1);
    end();
}

TEST(a_damaged_store_makes_no_endless_work)
{
    begin();
    set_tries("default", 3);
    put("default");
    ck_assert(reserve(a, JOBS_FOREVER, NULL) == 0);
    fake_disk_fail(disk, FAKE_COMMIT, 1, UINT64_MAX, JOB_STORE_CORRUPT);
    rig_commit();
    ck_assert(!jobs_has_ops(rig.jobs) && jobs_next_ns(rig.jobs) > rig.now.mono_ns);
    fake_disk_fail(disk, FAKE_COMMIT, 1, 0, JOB_STORE_CORRUPT);
    end();
}

/* ---- rebuilt at start -------------------------------------------------------------------------
 */

TEST(delays_leases_and_pauses_go_on_or_are_over)
{
    uint64_t token = 0;
    begin();
    set_lease("lease");
    uint64_t lease = put("lease");
    uint32_t count;
    ck_assert(jobs_watch(a, bytes_of("lease"), &count) == JOBS_OK && take(a, &token) == lease);
    struct ask *ask = new_put("default");
    ask->puts[0].delay_s = 50;
    uint64_t delayed = ask->puts[0].id;
    ck_assert(answer(ask) == JOBS_OK);
    ck_assert(answer(new_pause("default", 40)) == JOBS_OK);
    rig_pass(10);
    restart();
    ck_assert(stats_of(lease).state == JOB_RESERVED && stats_of(lease).time_left_s == 50);
    ck_assert(stats_of(delayed).time_left_s == 40 && tube_of("default").pause_left_s == 30);
    struct ask *renew = new_act(NULL, JOB_OP_RENEW, lease);
    renew->op.token = token;
    ck_assert(answer(renew) == JOBS_OK);
    rig_wall_offset_ns -= 1000 * NS_PER_S; /* the clock is set back: none lasts longer than it is */
    restart();
    ck_assert(stats_of(lease).time_left_s == 60 && stats_of(delayed).time_left_s == 50 &&
              tube_of("default").pause_left_s == 40);
    rig_wall_offset_ns += 2000 * NS_PER_S;
    restart();
    ck_assert(state_of(lease) == JOB_READY && state_of(delayed) == JOB_READY);
    ck_assert(tube_of("default").pause_s == 0);
    end();
}

TEST(buried_jobs_keep_the_order_of_their_burials)
{
    struct job_view view;
    begin();
    uint64_t ids[5];
    rig_pass_ns(NS_PER_MS - rig.now.mono_ns % NS_PER_MS);
    for (unsigned n = 0; n < 5; n++)
        ids[n] = put("default");
    for (unsigned n = 0; n < 5; n++) {
        ck_assert(act(a, JOB_OP_RESERVE, ids[4 - n]) == JOBS_OK);
        ck_assert(act(a, JOB_OP_BURY, ids[4 - n]) == JOBS_OK);
        rig_pass_ns(1000);
    }
    restart();
    for (unsigned n = 0; n < 5; n++) {
        ck_assert(jobs_peek_next(a, JOB_PEEK_BURIED, &view) == JOBS_OK);
        job_body_drop(rig.jobs, &view.body);
        ck_assert(view.id == ids[4 - n]);
        ck_assert(act(a, JOB_OP_DELETE, view.id) == JOBS_OK);
    }
    end();
}

TEST(an_execution_ahead_of_the_clock_is_forgotten_in_the_store_too)
{
    struct job_memory memory;
    begin();
    for (unsigned n = 0; n < 2; n++) { /* a put makes a job; it is a duplicate of one */
        uint64_t id = put_keyed("default", "k", wall_ms()), twin = 0;
        ck_assert(reserve(a, 0, NULL) == id);
        if (n == 1)
            twin = put_keyed("default", "k", wall_ms());
        rig_pass(1);
        if (n == 1)
            ck_assert(reserve(a, 0, NULL) == twin);
        ck_assert(act(a, JOB_OP_DELETE, n == 1 ? twin : id) == JOBS_OK);
        rig_wall_offset_ns -= 6 * NS_PER_S;
        if (n == 1)
            ck_assert(act(a, JOB_OP_RELEASE, id) == JOBS_OK);
        uint64_t answered = put_keyed("default", "k", wall_ms());
        ck_assert(answered != 0 && (n == 0 || answered == id));
        ck_assert(!fake_disk_memory(disk, JOB_MEMORY_EXECUTION, bytes_of("default"), bytes_of("k"),
                                    &memory));
        rig_wall_offset_ns += 20 * NS_PER_S;
        restart();
        ck_assert(take(a, NULL) == answered);
        ck_assert(act(a, JOB_OP_DELETE, answered) == JOBS_OK);
    }
    end();
}

static struct job_record crafted[2];
static struct job_tube_record crafted_tubes[2];

static enum job_store_status load_crafted(struct job_store *store,
                                          const struct job_store_visitors *visitors)
{
    (void)store;
    for (unsigned n = 0; n < 2 && crafted_tubes[n].name.len > 0 && visitors->tube; n++) {
        if (!visitors->tube(visitors->arg, &crafted_tubes[n]))
            return JOB_STORE_NO_MEMORY;
    }
    for (unsigned n = 0; n < 2 && visitors->job; n++) {
        if (!visitors->job(visitors->arg, &crafted[n]))
            return JOB_STORE_NO_MEMORY;
    }
    return JOB_STORE_OK;
}

/* Loads what is crafted, and says why not. */
static const char *refusal(void)
{
    static struct job_store_kind kind;
    static struct job_store store;
    kind.load = load_crafted;
    store.does = &kind;
    struct jobs *jobs = jobs_new(&rig.config);
    ck_assert(jobs != NULL);
    enum job_store_status status = jobs_load(jobs, &store, rig.now);
    jobs_free(&jobs);
    ck_assert(status == JOB_STORE_OK || status == JOB_STORE_CORRUPT);
    return status == JOB_STORE_OK ? "" : store.reason;
}

TEST(a_load_refuses_what_cannot_be)
{
    const struct job_record good = {
        .id = 7, .tube = bytes_of("t"), .ttr_s = 1, .tries_max = JOB_TRIES_OF_TUBE};
    begin();
    crafted_tubes[0] = (struct job_tube_record){.name = bytes_of("t"), .pause_s = 1};
    struct job_record bad[9];
    for (unsigned n = 0; n < 9; n++)
        bad[n] = good;
    bad[0].id = 6;
    bad[0].ttr_s = 0;
    bad[1].now.state = JOB_RESERVED;
    bad[2].now.due_ns = -1;
    bad[3].now.root_ns = INT64_MIN;
    bad[4].tube = bytes_of("a b");
    bad[5].now = (struct job_changing){.state = JOB_BURIED, .due_ns = INT64_MAX};
    bad[6].id = 7;
    bad[7].id = 8;
    bad[8].id = INT64_MAX;
    static const char *const why[] = {
        "job 6 has no ttr",       "job 7 is reserved without a token",
        "job 7 has a time",       "job 7 has a time",
        "job 7 has a tube",       "job 7 was buried at an impossible time",
        "job 7 is there twice",   "job 7 is there twice",
        "job 9223372036854775807"};
    for (unsigned n = 0; n < 9; n++) {
        crafted[0] = n < 6 ? bad[n] : n == 6 ? good : bad[n];
        crafted[1] = good;
        if (strncmp(refusal(), why[n], strlen(why[n])) != 0)
            ck_abort_msg("%u: %s", n, refusal());
    }
    crafted[0] = good;
    crafted[1].id = 8;
    ck_assert_str_eq(refusal(), "");
    crafted_tubes[1] = crafted_tubes[0];
    ck_assert_str_eq(refusal(), "tube t has its settings twice");
    end();
}

UNIT_MAIN("jobs over a store")
