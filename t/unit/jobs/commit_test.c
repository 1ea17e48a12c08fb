/*
 * commit_test.c - changes of jobs that a store keeps (protocol page: job queues, section 8), rule
 * by rule: what waits for others, what fails, what is damaged. commit_model_test shows that nobody
 * sees a change before its commit, and that no answered change is lost.
 */
#include "t/unit/jobs/commit_words.h"

/* ---- parked ---------------------------------------------------------------------------------- */

/* So that a connection has one such operation at most. */
TEST(an_operation_that_waits_for_another_says_so)
{
    struct ask *asks[4];
    static const char *const keys[] = {"k", "other", "k", "k"};
    begin();
    for (unsigned n = 0; n < ARRAY_SIZE(asks); n++) {
        asks[n] = ask_submit(new_put_keyed("default", keys[n], 1000));
        ck_assert(asks[n]->op.parked == (n >= 2)); /* they look for the same key in the store */
    }
    rig_commit();
    for (unsigned n = 0; n < ARRAY_SIZE(asks); n++) {
        ck_assert(asks[n]->done && asks[n]->status == JOBS_OK);
        ck_assert(asks[n]->duplicates[0].is == (n >= 2));
    }
    uint64_t id = put("default");
    for (unsigned n = 0; n < 2; n++) {
        asks[n] = ask_submit(new_act(a, JOB_OP_DELETE, id));
        ck_assert(asks[n]->op.parked == (n == 1)); /* the job is under change */
    }
    rig_commit();
    ck_assert(asks[0]->status == JOBS_OK && asks[1]->status == JOBS_NOT_FOUND);
    end();
}

TEST(operations_on_one_job_are_decided_in_the_order_of_arrival)
{
    static const struct {
        enum job_op_kind kind;
        bool by_b;
        enum jobs_status status;
    } rows[] = {
        {JOB_OP_BURY, false, JOBS_OK},   {JOB_OP_KICK_JOB, true, JOBS_OK},
        {JOB_OP_RESERVE, true, JOBS_OK}, {JOB_OP_DELETE, false, JOBS_NOT_FOUND},
        {JOB_OP_DELETE, true, JOBS_OK},  {JOB_OP_DELETE, true, JOBS_NOT_FOUND},
    };
    struct ask *asks[ARRAY_SIZE(rows)];
    begin();
    uint64_t id = put("default");
    ck_assert(reserve(a, 0, NULL) == id);
    for (size_t n = 0; n < ARRAY_SIZE(rows); n++)
        asks[n] = ask_submit(new_act(rows[n].by_b ? b : a, rows[n].kind, id));
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
    uint64_t id = put("default");
    ck_assert(reserve(a, 0, NULL) == id);
    ck_assert(act(a, JOB_OP_BURY, id) == JOBS_OK);
    uint64_t delayed = put_delayed("default", 100);
    struct ask *delete = ask_submit(new_act(b, JOB_OP_DELETE, id));
    fake_disk_fail(disk, FAKE_REMOVE, 1, 1, JOB_STORE_IO);
    struct ask *kick = new_kick(5);
    (void)make_steps(kick);
    ck_assert(delete->status == JOBS_NO_MEMORY && kick->kick.kicked == 1);
    ck_assert(state_of(id) == JOB_READY && state_of(delayed) == JOB_DELAYED);
    end();
}

/* ---- reservations ---------------------------------------------------------------------------- */

TEST(a_lease_is_committed_and_its_ttr_counts_from_the_commit)
{
    struct job_changing now;
    uint64_t token = 0;
    begin();
    set_lease("default", JOB_CLAIM_LEASE);
    uint64_t id = put("default");
    waits(a, 0);
    ck_assert(rig_take());
    rig_pass(30);
    rig_write();
    rig_settle();
    ck_assert(heard(a, &token) == id && stats_of(id).time_left_s == 60);
    rig_pass(59);
    rig_run();
    ck_assert(state_of(id) == JOB_RESERVED);
    struct ask *renew = ask_submit(new_by_token(JOB_OP_RENEW, id, token));
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

TEST(a_twin_of_a_put_that_fails_goes_to_who_began_to_wait_meanwhile)
{
    begin();
    uint64_t id = put_keyed("default", "k", 1000);
    struct ask *twin = ask_submit(new_put_keyed("default", "k", 2000));
    ck_assert(reserve(b, JOBS_FOREVER, NULL) == 0);
    fake_disk_fail(disk, FAKE_COMMIT, 1, 1, JOB_STORE_IO);
    rig_commit();
    ck_assert(twin->status == JOBS_NO_MEMORY && heard(b, NULL) == id);
    end();
}

/* ---- ends of connections --------------------------------------------------------------------- */

TEST(a_holder_may_end_while_another_connection_ends_its_reservation)
{
    for (unsigned fails = 0; fails < 2; fails++) {
        uint64_t token = 0;
        begin();
        uint64_t id = put("default");
        ck_assert(reserve(a, 0, &token) == id);
        struct ask *nack = new_by_token(JOB_OP_NACK, id, token);
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

TEST(a_promise_to_a_connection_that_has_ended_is_taken_back)
{
    for (unsigned fails = 0; fails < 2; fails++) {
        begin();
        set_tries("default", 2);
        uint64_t id = put("default"), other = put("default");
        waits(a, 0);
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
    begin();
    set_tries("default", 1);
    uint64_t bad = put("default"), good = put("default");
    restart(); /* the bodies are in the store alone */
    fake_disk_break_body(disk, bad, JOB_STORE_CORRUPT);
    waits(a, JOBS_FOREVER);
    rig_end(&a);
    rig_commit();
    ck_assert(state_of(bad) == JOB_BURIED && state_of(good) == JOB_READY);
    ck_assert(stats_of(good).tries == 0);
    end();
}

/* ---- waits ----------------------------------------------------------------------------------- */

TEST(who_waits_goes_on_waiting_when_a_reservation_cannot_be_committed)
{
    begin();
    set_tries("default", 3);
    ck_assert(reserve(a, JOBS_FOREVER, NULL) == 0 && reserve(b, JOBS_FOREVER, NULL) == 0);
    uint64_t id = ask_submit(new_put("default"))->puts[0].id;
    rig_take();
    rig_write();
    rig_settle(); /* the put; then the reservation is queued */
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
    waits(a, 0);
    ck_assert(!jobs_end_wait(a));
    rig_commit();
    ck_assert(rig_hears(a) && jobs_was_refused(a) && !jobs_read(a, &view));
    ck_assert(jobs_end_wait(a) && state_of(id) == JOB_READY);
    end();
}

TEST(jobs_that_came_to_another_tube_are_found_after_a_refusal)
{
    begin();
    set_tries("default", 3);
    uint64_t id = put("default");
    watch(a, "x");
    uint64_t other = ask_submit(new_put("x"))->puts[0].id; /* commits before the reservation */
    ck_assert(rig_take());
    waits(a, JOBS_FOREVER);
    rig_write();
    rig_settle();
    ck_assert(state_of(other) == JOB_READY);
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

/* ---- failures and damage --------------------------------------------------------------------- */

/* Puts fail while the disk is full; of the rest, damage concerns one operation. */
TEST(a_transaction_that_fails_runs_again_without_its_puts)
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
    ck_assert(stored(early->puts[0].id) == JOB_STATES && stored(late->puts[0].id) == JOB_STATES);
    ck_assert(one->status == JOBS_IO && two->status == JOBS_OK);
    ck_assert(state_of(bad) == JOB_READY && stored(good) == JOB_STATES);
    fake_disk_fail(disk, FAKE_PUT, 1, 0, JOB_STORE_OK);
    put("default");
    end();
}

TEST(damage_concerns_no_other_operation_of_the_transaction)
{
    static const enum job_op_kind kinds[] = {JOB_OP_DELETE, JOB_OP_KICK_JOB, JOB_OP_DELETE};
    struct ask *asks[3];
    uint64_t ids[3];
    for (unsigned bad = 0; bad < 3; bad++) {
        begin();
        for (unsigned n = 0; n < 3; n++)
            ids[n] = put_delayed("default", 1000);
        fake_disk_break_row(disk, ids[bad]);
        struct ask *first = ask_submit(new_put("default"));
        for (unsigned n = 0; n < 3; n++)
            asks[n] = ask_submit(new_act(b, kinds[n], ids[n]));
        struct ask *last = ask_submit(new_put("default"));
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
    uint64_t id = put("default"), delayed = put_delayed("default", 1000);
    for (unsigned n = 0; n < 3; n++) {
        uint64_t asked = n == 1 ? delayed : id; /* ready, delayed, buried */
        restart();
        fake_disk_break_body(disk, asked, JOB_STORE_CORRUPT);
        ck_assert(act(a, JOB_OP_RESERVE, asked) == JOBS_IO);
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
        ck_assert(heard(a, NULL) == 0 && state_of(id) == JOB_READY);
        jobs_uncharge(rig.jobs, taken);
        fake_disk_break_body(disk, id, JOB_STORE_OK);
        rig_pass(1.1);
        rig_run();
        ck_assert(heard(a, NULL) == id);
        end();
    }
}

TEST(a_damaged_job_is_buried_and_holds_nobody_up)
{
    begin();
    set_tries("t", 1);
    set("t", JOB_SETTING_PRUNE, (struct job_settings){.prune_s = 10});
    watch(a, "t");
    uint64_t id = put("t");
    for (unsigned n = 0; n < 3; n++) { /* to be reserved; abandoned; pruned */
        ck_assert(n == 0 || take(a, NULL) == id);
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

/* A job that the store cannot change, as is known. */
static uint64_t put_damaged(uint32_t delay_s)
{
    uint64_t id = put_delayed("default", delay_s);
    fake_disk_break_row(disk, id);
    ck_assert(act(a, JOB_OP_DELETE, id) == JOBS_IO);
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
        ck_assert(act(b, JOB_OP_RESERVE, good) == JOBS_OK);
        struct ask *kept = new_act(b, JOB_OP_RELEASE, good);
        kept->op.delay_s = delay_s;
        struct ask *clear = new_clear("default", JOBS_ALL);
        ask_submit(kept);
        (void)make_steps(clear);
        ck_assert(kept->done && clear->clear.deleted == 0); /* it was reserved at the beginning */
    }
    struct ask *kick = ask_submit(new_act(b, JOB_OP_KICK_JOB, good)); /* it is delayed */
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
    ck_assert(heard(b, NULL) == id && clear->done && clear->clear.deleted == 0);
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

/* ---- the jobs' own changes ------------------------------------------------------------------- */

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
    ck_assert(take(a, NULL) == last_try);
    watch(a, "other");
    ck_assert(reserve(a, 0, NULL) == other);
    uint64_t late = put_delayed("late", 61);
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
    ck_assert(reserve(a, 0, NULL) == id);
    struct ask *batch = new_put_keyed("default", "unknown", before_ms);
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

static bool remembers(struct job_memory *memory_r)
{
    return fake_disk_memory(disk, JOB_MEMORY_EXECUTION, bytes_of("default"), bytes_of("k"),
                            memory_r);
}

TEST(an_execution_is_forgotten_though_a_put_has_looked_for_it)
{
    struct job_memory memory;
    begin();
    (void)put_keyed("default", "k", 1000);
    restart();
    uint64_t id = take(a, NULL);
    (void)ask_submit(new_pause("default", 1));
    (void)ask_submit(new_put_keyed("other", "k", 1000));
    ck_assert(act(a, JOB_OP_DELETE, id) == JOBS_OK);
    ck_assert(remembers(&memory) && memory.forget_ns != JOB_STORE_KEEP);
    end();
}

TEST(an_execution_ahead_of_the_clock_is_forgotten_in_the_store_too)
{
    struct job_memory memory;
    begin();
    for (unsigned n = 0; n < 2; n++) { /* a put makes a job; it is a duplicate of one */
        uint64_t id = put_keyed("default", "k", rig_wall_ms()), twin = id;
        ck_assert(reserve(a, 0, NULL) == id);
        if (n == 1)
            twin = put_keyed("default", "k", rig_wall_ms());
        rig_pass(1);
        ck_assert(n == 0 || reserve(a, 0, NULL) == twin);
        ck_assert(act(a, JOB_OP_DELETE, twin) == JOBS_OK);
        rig_wall_offset_ns -= 6 * NS_PER_S;
        ck_assert(n == 0 || act(a, JOB_OP_RELEASE, id) == JOBS_OK);
        uint64_t answered = put_keyed("default", "k", rig_wall_ms());
        ck_assert(answered != 0 && (n == 0 || answered == id));
        ck_assert(!remembers(&memory));
        rig_wall_offset_ns += 20 * NS_PER_S;
        restart();
        ck_assert(take(a, NULL) == answered);
        ck_assert(act(a, JOB_OP_DELETE, answered) == JOBS_OK);
    }
    end();
}

/* ---- rebuilt at start ------------------------------------------------------------------------ */

TEST(delays_leases_and_pauses_go_on_or_are_over)
{
    /* The clock moves; what is left then of the lease, the delay and the pause; 0: it is over. */
    static const struct {
        int64_t by_s;
        uint64_t lease_s, delay_s, pause_s;
    } rows[] = {{0, 50, 40, 30}, {-1000, 60, 50, 40}, {2000, 0, 0, 0}};
    uint64_t token = 0;
    begin();
    set_lease("lease", JOB_CLAIM_LEASE);
    uint64_t lease = put("lease");
    watch(a, "lease");
    ck_assert(take(a, &token) == lease);
    uint64_t delayed = put_delayed("default", 50);
    ck_assert(answer(new_pause("default", 40)) == JOBS_OK);
    rig_pass(10);
    for (size_t n = 0; n < ARRAY_SIZE(rows); n++) { /* none lasts longer than it is */
        rig_wall_offset_ns += rows[n].by_s * NS_PER_S;
        restart();
        ck_assert(state_of(lease) == (rows[n].lease_s ? JOB_RESERVED : JOB_READY));
        ck_assert(state_of(delayed) == (rows[n].delay_s ? JOB_DELAYED : JOB_READY));
        ck_assert_uint_eq(stats_of(lease).time_left_s, rows[n].lease_s);
        ck_assert_uint_eq(stats_of(delayed).time_left_s, rows[n].delay_s);
        ck_assert_uint_eq(tube_of("default").pause_left_s, rows[n].pause_s);
        if (n == 0)
            ck_assert(answer(new_by_token(JOB_OP_RENEW, lease, token)) == JOBS_OK);
    }
    ck_assert(tube_of("default").pause_s == 0);
    end();
}

TEST(buried_jobs_keep_the_order_of_their_burials)
{
    struct job_view view;
    uint64_t ids[5];
    begin();
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
        ck_assert(view.id == ids[4 - n] && act(a, JOB_OP_DELETE, view.id) == JOBS_OK);
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
    struct job_record bad[9];
    begin();
    crafted_tubes[0] = (struct job_tube_record){.name = bytes_of("t"), .pause_s = 1};
    for (unsigned n = 0; n < 9; n++)
        bad[n] = good;
    bad[0].id = 6;
    bad[0].ttr_s = 0;
    bad[1].now.state = JOB_RESERVED;
    bad[2].now.due_ns = -1;
    bad[3].now.root_ns = INT64_MIN;
    bad[4].tube = bytes_of("a b");
    bad[5].now = (struct job_changing){.state = JOB_BURIED, .due_ns = INT64_MAX};
    bad[7].id = 8;
    bad[8].id = INT64_MAX;
    static const char *const why[] = {
        "job 6 has no ttr",       "job 7 is reserved without a token",
        "job 7 has a time",       "job 7 has a time",
        "job 7 has a tube",       "job 7 was buried at an impossible time",
        "job 7 is there twice",   "job 7 is there twice",
        "job 9223372036854775807"};
    crafted[1] = good;
    for (unsigned n = 0; n < 9; n++) {
        crafted[0] = bad[n];
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
