/*
 * commit_test.c - changes of jobs that a store keeps (protocol page: job queues, section 8), rule
 * by rule: what waits for others, what fails, what is damaged. commit_model_test shows that nobody
 * sees a change before its commit, and that no answered change is lost.
 */
#include "t/unit/jobs/commit_words.h"

/* ---- deferred -------------------------------------------------------------------------------- */

/* So that a connection has one such change at most. */
TEST(an_operation_that_waits_for_another_says_so)
{
    struct ask *asks[4];
    static const char *const keys[] = {"k", "other", "k", "k"};
    begin();
    for (unsigned n = 0; n < ARRAY_SIZE(asks); n++) {
        asks[n] = ask_submit(new_put_keyed("default", keys[n], 1000));
        ck_assert(asks[n]->op.deferred == (n >= 2)); /* they look for the same key in the store */
    }
    rig_commit();
    for (unsigned n = 0; n < ARRAY_SIZE(asks); n++) {
        ck_assert(asks[n]->done && asks[n]->status == JOBS_OK);
        ck_assert(asks[n]->duplicates[0].is == (n >= 2));
    }
    uint64_t id = put("default");
    for (unsigned n = 0; n < 2; n++) {
        asks[n] = ask_submit(new_act(a, JOB_DELETE, id));
        ck_assert(asks[n]->op.deferred == (n == 1)); /* the job is under change */
    }
    rig_commit();
    ck_assert(asks[0]->status == JOBS_OK && asks[1]->status == JOBS_NOT_FOUND);
    end();
}

TEST(operations_on_one_job_are_decided_in_the_order_of_arrival)
{
    static const struct {
        enum job_verb verb;
        bool by_b;
        enum jobs_status status;
    } rows[] = {
        {JOB_BURY, false, JOBS_OK},   {JOB_KICK, true, JOBS_OK},
        {JOB_RESERVE, true, JOBS_OK}, {JOB_DELETE, false, JOBS_NOT_FOUND},
        {JOB_DELETE, true, JOBS_OK},  {JOB_DELETE, true, JOBS_NOT_FOUND},
    };
    struct ask *asks[ARRAY_SIZE(rows)];
    begin();
    uint64_t id = put("default");
    ck_assert(reserve(a, 0) == id);
    for (size_t n = 0; n < ARRAY_SIZE(rows); n++)
        asks[n] = ask_submit(new_act(rows[n].by_b ? b : a, rows[n].verb, id));
    rig_commit();
    for (size_t n = 0; n < ARRAY_SIZE(rows); n++)
        ck_assert(asks[n]->done && asks[n]->status == rows[n].status);
    ck_assert(stored(id) == JOB_STATES);
    end();
}

TEST(a_put_takes_no_part_in_the_failure_of_another_with_its_key)
{
    begin();
    struct ask *first = ask_submit(new_put_keyed("default", "k", 0));
    rig_take(); /* looks */
    rig_settle();
    struct ask *second = ask_submit(new_put_keyed("default", "k", 0));
    fake_disk_fail(disk, FAKE_PUT, 1, 1, JOB_STORE_FULL);
    rig_commit();
    ck_assert(first->status == JOBS_NO_MEMORY);
    ck_assert(second->status == JOBS_OK && !second->duplicates[0].is);
    end();
}

TEST(puts_and_pauses_wait_for_settings_under_change)
{
    struct job_tube_record record;
    begin();
    struct ask *pause = ask_submit(new_pause("default", 9));
    struct ask *set_it = ask_submit(
        new_set("default", JOB_SETTING_READ_ONLY, (struct job_settings){.read_only = "moving"}));
    struct ask *ask = ask_submit(new_put("default"));
    ck_assert(ask->status == JOBS_COMMITS);
    rig_commit();
    ck_assert(pause->status == JOBS_OK && set_it->status == JOBS_OK);
    ck_assert(ask->status == JOBS_READ_ONLY);
    ck_assert(fake_disk_tube(disk, bytes_of("default"), &record));
    ck_assert(record.pause_s == 9 && strcmp(record.settings.read_only, "moving") == 0);
    end();
}

TEST(a_kick_waits_for_a_buried_job_under_change)
{
    begin();
    uint64_t id = put("default");
    ck_assert(reserve(a, 0) == id);
    ck_assert(act(a, JOB_BURY, id) == JOBS_OK);
    uint64_t delayed = put_delayed("default", 100);
    struct ask *delete = ask_submit(new_act(b, JOB_DELETE, id));
    fake_disk_fail(disk, FAKE_REMOVE, 1, 1, JOB_STORE_IO);
    struct ask *kick = new_kick(5);
    (void)make_steps(kick);
    ck_assert(delete->status == JOBS_NO_MEMORY && kick->kick.kicked == 1);
    ck_assert(state_of(id) == JOB_READY && state_of(delayed) == JOB_DELAYED);
    end();
}

TEST(a_twin_of_a_put_that_fails_goes_to_who_began_to_wait_meanwhile)
{
    begin();
    uint64_t id = put_keyed("default", "k", 1000);
    struct ask *twin = ask_submit(new_put_keyed("default", "k", 2000));
    ck_assert(reserve(b, JOBS_FOREVER) == 0);
    fake_disk_fail(disk, FAKE_COMMIT, 1, 1, JOB_STORE_IO);
    rig_commit();
    ck_assert(twin->status == JOBS_NO_MEMORY && heard(b) == id);
    end();
}

/* ---- waits ----------------------------------------------------------------------------------- */

TEST(who_waits_goes_on_waiting_when_a_reservation_cannot_be_committed)
{
    begin();
    set_tries("default", 3);
    ck_assert(reserve(a, JOBS_FOREVER) == 0 && reserve(b, JOBS_FOREVER) == 0);
    uint64_t id = ask_submit(new_put("default"))->puts[0].id;
    rig_take();
    rig_write();
    rig_settle(); /* the put; then the reservation is queued */
    fake_disk_fail(disk, FAKE_COMMIT, 1, 3, JOB_STORE_FULL);
    rig_commit();
    ck_assert(state_of(id) == JOB_READY && stats_of(id).tries == 0);
    ck_assert(heard(a) == 0 && jobs_client_waits(a));
    for (unsigned n = 0; n < 3; n++) { /* tried again each second */
        ck_assert(heard(a) == 0 && heard(b) == 0);
        ck_assert(jobs_next_ns(rig.jobs) > rig.now.mono_ns);
        rig_pass(1.1);
        rig_run();
    }
    ck_assert(heard(a) == id && heard(b) == 0); /* it kept its place */
    end();
}

TEST(with_timeout_0_a_reservation_that_cannot_be_committed_is_refused)
{
    struct job_view view;
    begin();
    set_tries("default", 3);
    uint64_t id = put("default");
    fake_disk_fail(disk, FAKE_COMMIT, 1, 1, JOB_STORE_FULL);
    waits(a, 0);
    ck_assert(!jobs_end_wait(a));
    rig_commit();
    ck_assert(rig_hears(a) && jobs_was_refused(a) && !jobs_read(a, &view));
    ck_assert(jobs_end_wait(a) && state_of(id) == JOB_READY);
    end();
}

TEST(a_stale_job_that_cannot_be_deleted_is_in_nobodys_way)
{
    begin();
    uint64_t old = put_keyed("default", "k", 1000);
    ck_assert(reserve(a, 0) == old);
    /* Another with the key; then the first is done, and the second is stale. */
    rig_pass(1);
    uint64_t second = put_keyed("default", "k", 2000), good = put("default");
    fake_disk_fail(disk, FAKE_REMOVE, 2, 1, JOB_STORE_FULL);
    ck_assert(act(a, JOB_DELETE, old) == JOBS_OK);
    ck_assert(state_of(second) == JOB_READY);
    ck_assert(reserve(b, 0) == good);
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

/* ---- failures and damage --------------------------------------------------------------------- */

/* Puts fail while the disk is full; of the rest, damage concerns one change. */
TEST(a_transaction_that_fails_runs_again_without_its_puts)
{
    begin();
    uint64_t bad = put("default"), good = put("default");
    fake_disk_break_row(disk, bad);
    fake_disk_fail(disk, FAKE_PUT, 1, UINT64_MAX, JOB_STORE_FULL);
    struct ask *early = ask_submit(new_put("default"));
    struct ask *one = ask_submit(new_act(a, JOB_DELETE, bad));
    struct ask *late = ask_submit(new_put("default"));
    struct ask *two = ask_submit(new_act(a, JOB_DELETE, good));
    rig_commit();
    ck_assert(early->status == JOBS_NO_MEMORY && late->status == JOBS_NO_MEMORY);
    ck_assert(stored(early->puts[0].id) == JOB_STATES && stored(late->puts[0].id) == JOB_STATES);
    ck_assert(one->status == JOBS_IO && two->status == JOBS_OK);
    ck_assert(state_of(bad) == JOB_READY && stored(good) == JOB_STATES);
    fake_disk_fail(disk, FAKE_PUT, 1, 0, JOB_STORE_OK);
    put("default");
    end();
}

TEST(a_body_that_cannot_be_read_is_an_error_for_who_asks_by_id)
{
    begin();
    uint64_t id = put("default"), delayed = put_delayed("default", 1000);
    for (unsigned n = 0; n < 3; n++) {
        uint64_t asked = n == 1 ? delayed : id; /* ready, delayed, buried */
        restart();
        fake_disk_break_body(disk, asked, JOB_STORE_CORRUPT);
        ck_assert(act(a, JOB_RESERVE, asked) == JOBS_IO);
        ck_assert(state_of(asked) == JOB_BURIED);
    }
    end();
}

TEST(a_job_whose_body_finds_no_memory_is_not_buried)
{
    for (unsigned ours = 0; ours < 2; ours++) {
        size_t taken = 0;
        begin();
        uint64_t id = put("default");
        restart();
        waits(a, JOBS_FOREVER);
        jobs_set_memory_limit(rig.jobs, 100000);
        while (ours && jobs_charge(rig.jobs, JOBS_REST, 1))
            taken++;
        if (!ours)
            fake_disk_break_body(disk, id, JOB_STORE_NO_MEMORY);
        rig_commit();
        ck_assert(heard(a) == 0 && state_of(id) == JOB_READY);
        jobs_uncharge(rig.jobs, taken);
        fake_disk_break_body(disk, id, JOB_STORE_OK);
        rig_pass(1.1);
        rig_run();
        ck_assert(heard(a) == id);
        end();
    }
}

TEST(a_damaged_job_is_buried_and_holds_nobody_up)
{
    begin();
    set_tries("t", 1);
    set("t", JOB_SETTING_PRUNE, (struct job_settings){.is[JOB_SETTING_PRUNE] = 10});
    watch(a, "t");
    uint64_t id = put("t");
    for (unsigned n = 0; n < 3; n++) { /* to be reserved; abandoned; pruned */
        ck_assert(n == 0 || take(a) == id);
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
        ck_assert(take(a) == next); /* at once */
        ck_assert(state_of(id) == JOB_BURIED);
        fake_disk_break_row(disk, 0);
        ck_assert(act(a, JOB_DELETE, next) == JOBS_OK);
        ck_assert(act(a, JOB_DELETE, id) == JOBS_OK);
        id = put("t");
    }
    end();
}

/* A job that the store cannot change, as is known. */
static uint64_t put_damaged(uint32_t delay_s)
{
    uint64_t id = put_delayed("default", delay_s);
    fake_disk_break_row(disk, id);
    ck_assert(act(a, JOB_DELETE, id) == JOBS_IO);
    return id;
}

/* Even a whole step of damaged jobs, while the last job is under change. */
TEST(a_clear_passes_damaged_jobs_by_while_it_waits)
{
    enum { DAMAGED = JOBS_STEP + 1 };
    begin();
    for (unsigned n = 0; n < DAMAGED; n++)
        (void)put_damaged(0);
    uint64_t good = put("default");
    for (unsigned delay_s = 0; delay_s <= 100; delay_s += 100) {
        ck_assert(act(b, JOB_RESERVE, good) == JOBS_OK);
        struct ask *kept = new_act(b, JOB_RELEASE, good);
        kept->op.act.delay_s = delay_s;
        struct ask *clear = new_clear("default", JOBS_ALL);
        ask_submit(kept);
        (void)make_steps(clear);
        ck_assert(kept->done && clear->clear.deleted == 0); /* it was reserved at the beginning */
    }
    struct ask *kick = ask_submit(new_act(b, JOB_KICK, good)); /* it is delayed */
    struct ask *clear = new_clear("default", JOBS_ALL);
    (void)make_steps(clear);
    ck_assert(kick->status == JOBS_OK && clear->clear.deleted == 1);
    ck_assert(state_of(good) == JOB_STATES && stored(good) == JOB_STATES);
    ck_assert(tube_of("default").states[JOB_READY] == DAMAGED);
    end();
}

/* Who began to wait while the clear was under way is given the job that it left out. */
TEST(a_clear_serves_the_damaged_job_that_it_leaves_out)
{
    begin();
    uint64_t id = put("default");
    fake_disk_break_row(disk, id);
    struct ask *clear = ask_submit(new_clear("default", JOB_READY));
    waits(b, JOBS_FOREVER);
    rig_commit();
    ck_assert(heard(b) == id && clear->done && clear->clear.deleted == 0);
    end();
}

/* Damaged jobs in front are passed by, and none of them is touched. */
TEST(a_kick_passes_damaged_jobs_by_in_steps)
{
    begin();
    for (unsigned n = 0; n < JOBS_STEP + 1; n++)
        (void)put_damaged(100);
    uint64_t good = put_delayed("default", 100);
    struct ask *kick = ask_submit(new_kick(3));
    ck_assert(kick->op.write_count == 0 && !kick->done); /* a step of looking */
    rig_commit();
    ck_assert(kick->done && kick->status == JOBS_WAITS && kick->kick.kicked == 0);
    (void)make_steps(kick);
    ck_assert(kick->kick.kicked == 1 && state_of(good) == JOB_READY);
    end();
}

TEST(a_damaged_store_makes_no_endless_work)
{
    begin();
    set_tries("default", 3);
    put("default");
    ck_assert(reserve(a, JOBS_FOREVER) == 0);
    fake_disk_fail(disk, FAKE_COMMIT, 1, UINT64_MAX, JOB_STORE_CORRUPT);
    rig_commit();
    ck_assert(!jobs_has_ops(rig.jobs) && jobs_next_ns(rig.jobs) > rig.now.mono_ns);
    fake_disk_fail(disk, FAKE_COMMIT, 1, 0, JOB_STORE_CORRUPT);
    end();
}

/* ---- keys that the store alone remembers ----------------------------------------------------- */

TEST(a_look_that_fails_refuses_that_put)
{
    static const struct {
        enum job_store_status fails;
        enum jobs_status status;
    } rows[] = {{JOB_STORE_CORRUPT, JOBS_IO}, {JOB_STORE_IO, JOBS_NO_MEMORY}};
    begin();
    for (size_t n = 0; n < ARRAY_SIZE(rows); n++) {
        fake_disk_fail(disk, FAKE_RECALL, 1, 1, rows[n].fails);
        struct ask *keyed = ask_submit(new_put_keyed("default", "k", 0));
        struct ask *other = ask_submit(new_put("default"));
        ck_assert(rig_take());
        ck_assert(rig.list.damages == 1 && rig.list.damaged_id == 0);
        rig_commit();
        ck_assert(keyed->status == rows[n].status && other->status == JOBS_OK);
    }
    ck_assert(put_keyed("default", "k", 1000) != 0);
    end();
}

TEST(a_batch_looks_again_for_a_key_whose_job_is_done_meanwhile)
{
    begin();
    int64_t before_ms = rig_wall_ms();
    rig_pass(1);
    uint64_t id = put_keyed("default", "known", before_ms);
    ck_assert(reserve(a, 0) == id);
    struct ask *batch = new_put_keyed("default", "unknown", before_ms);
    ask_put(batch, "default", "body");
    ask_key(batch, "known", before_ms);
    ask_submit(batch);
    ck_assert(rig_take()); /* it asks for the time of the other key */
    struct ask *done = ask_submit(new_act(a, JOB_DELETE, id));
    rig_commit();
    ck_assert(done->status == JOBS_OK && batch->status == JOBS_OK);
    ck_assert(!batch->duplicates[0].is);
    ck_assert(batch->duplicates[1].is && batch->duplicates[1].of == 0);
    end();
}

static struct job_memory memory; /* what the store remembers */

static bool remembers(void)
{
    return fake_disk_memory(disk, JOB_MEMORY_EXECUTION, bytes_of("default"), bytes_of("k"),
                            &memory);
}

TEST(an_execution_is_forgotten_though_a_put_has_looked_for_it)
{
    begin();
    (void)put_keyed("default", "k", 1000);
    restart();
    uint64_t id = take(a);
    (void)ask_submit(new_pause("default", 1));
    (void)ask_submit(new_put_keyed("other", "k", 1000));
    ck_assert(act(a, JOB_DELETE, id) == JOBS_OK);
    ck_assert(remembers() && memory.forget_ns != JOB_STORE_KEEP);
    end();
}

/* A put has it forgotten, because it is ahead of the clock, when another has read it already. */
TEST(a_time_that_a_put_has_forgotten_is_not_learned_again)
{
    begin();
    uint64_t id = put_keyed("default", "k", 1000);
    ck_assert(reserve(a, 0) == id && act(a, JOB_DELETE, id) == JOBS_OK);
    rig_wall_offset_ns -= 5 * NS_PER_S;
    struct ask *first = ask_submit(new_put_keyed("default", "k", 0));
    ck_assert(rig_take()); /* looks */
    struct ask *second = ask_submit(new_put_keyed("default", "k", 0));
    rig_settle();
    rig_pass(10);
    rig_commit();
    ck_assert(!first->duplicates[0].is && second->duplicates[0].of == first->puts[0].id);
    ck_assert(take(a) == first->puts[0].id);
    end();
}

TEST(a_time_that_the_store_alone_has_goes_with_the_next_put)
{
    begin();
    uint64_t id = put_keyed("default", "k", 1000);
    ck_assert(reserve(a, 0) == id);
    uint64_t next = put_keyed("default", "k", 1000);
    struct ask *done = ask_submit(new_act(a, JOB_DELETE, id));
    rig_wall_offset_ns -= 5 * NS_PER_S; /* the reservation began ahead of the clock */
    rig_commit();
    ck_assert(done->status == JOBS_OK && remembers());
    ck_assert(put_keyed("default", "k", 1000) == next);
    ck_assert(!remembers());
    end();
}

/* Its last job goes in a change of its own, while an execution is under way. */
TEST(an_execution_is_forgotten_though_its_last_job_goes_beside_it)
{
    begin();
    uint64_t id = put_keyed("default", "k", 1000);
    ck_assert(reserve(a, 0) == id);
    (void)put_keyed("default", "k", 0);
    struct ask *done = ask_submit(new_act(a, JOB_DELETE, id));
    ck_assert(answer(new_clear("default", JOB_READY)) != JOBS_NO_MEMORY);
    ck_assert(done->status == JOBS_OK && tube_of("default").states[JOB_READY] == 0);
    ck_assert(remembers() && memory.forget_ns != JOB_STORE_KEEP);
    end();
}

/* The clock is set back after an execution, and one more job has the key. */
TEST(an_execution_ahead_of_the_clock_goes_with_the_last_job_of_its_key)
{
    for (unsigned n = 0; n < 4; n++) {
        begin();
        uint64_t id = put_keyed("default", "k", 1000);
        ck_assert(reserve(a, 0) == id);
        uint64_t last = put_keyed("default", "k", 0);
        ck_assert(act(a, JOB_DELETE, id) == JOBS_OK);
        rig_wall_offset_ns -= 5 * NS_PER_S;
        ck_assert(n > 0 || reserve(a, 0) == last);
        if (n > 1) { /* a change is planned, but fails */
            fake_disk_fail(disk, FAKE_COMMIT, 1, 2, JOB_STORE_IO);
            struct ask *lost =
                n == 2 ? new_act(a, JOB_DELETE, last) : new_put_keyed("default", "k", 0);
            ck_assert(answer(lost) == JOBS_NO_MEMORY);
            fake_disk_fail(disk, FAKE_COMMIT, 1, 0, JOB_STORE_OK);
        }
        ck_assert(act(a, JOB_DELETE, last) == JOBS_OK);
        bool has = remembers() && memory.forget_ns > rig_wall_ns();
        ck_assert(has == (n == 0) && (!has || memory.time_ns == rig_wall_ms() * NS_PER_MS));
        end();
    }
}

TEST(of_two_executions_the_store_has_the_one_that_began_later)
{
    begin();
    uint64_t id = put_keyed("default", "k", 1000);
    ck_assert(reserve(a, 0) == id);
    rig_pass(1);
    uint64_t later = put_keyed("default", "k", 1000);
    ck_assert(reserve(a, 0) == later);
    ck_assert(act(a, JOB_DELETE, later) == JOBS_OK && act(a, JOB_DELETE, id) == JOBS_OK);
    ck_assert(remembers() && memory.time_ns == rig_wall_ms() * NS_PER_MS);
    end();
}

TEST(an_execution_is_kept_for_a_job_that_was_to_go)
{
    begin();
    uint64_t id = put_keyed("default", "k", 1000);
    ck_assert(reserve(a, 0) == id);
    uint64_t kept = put_keyed("default", "k", 0);
    ck_assert(act(a, JOB_DELETE, id) == JOBS_OK);
    ck_assert(reserve(a, 0) == kept && put_keyed("default", "k", 0) > kept);
    ck_assert(act(a, JOB_RELEASE, kept) == JOBS_OK);
    fake_disk_break_row(disk, kept);
    (void)answer(new_clear("default", JOB_READY)); /* without that job */
    ck_assert(tube_of("default").states[JOB_READY] == 1 && put_keyed("default", "k", 0) == kept);
    ck_assert(remembers() && memory.forget_ns == JOB_STORE_KEEP);
    end();
}

static struct ask *put_root(int64_t root_ms)
{
    struct ask *ask = new_put("default");
    ask_root(ask, "r", root_ms);
    return ask_submit(ask);
}

/* The store has a time of the root that is over, and was not taken out yet. */
TEST(a_put_waits_while_another_takes_the_time_of_its_root_out_of_the_store)
{
    begin();
    (void)put_root(200);
    rig_commit();
    ck_assert(act(a, JOB_DELETE, 1) == JOBS_OK);
    rig_pass(29.0 * 24 * 3600);
    struct ask *first = put_root(300);
    ck_assert(rig_take()); /* looks */
    rig_settle();
    struct ask *second = put_root(250);
    ck_assert(!first->done && second->op.deferred);
    rig_commit();
    ck_assert(first->status == JOBS_OK && second->status == JOBS_OK);
    ck_assert(second->duplicates[0].is && second->duplicates[0].of == 0);
    ck_assert(fake_disk_memory(disk, JOB_MEMORY_ROOT, bytes_of("default"), bytes_of("r"), &memory));
    ck_assert_int_eq(memory.time_ns, 300 * NS_PER_MS);
    end();
}

UNIT_MAIN("jobs over a store")
