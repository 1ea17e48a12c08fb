/*
 * commit_bounds_test.c - how much work and memory jobs over a store take: what a transaction and a
 * step have, who gives way to whom; what each need may use of the memory limit, and that what ends
 * a job is never refused. Steps and bytes are counted, not time.
 */
#include "t/models/jobs_check.h"
#include "t/unit/jobs/commit_words.h"

#include <pthread.h>

/* ---- transactions ---------------------------------------------------------------------------- */

/* Takes a transaction with so much in it; returns its changes. */
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
    for (size_t n = 0; n < PUTS; n++)
        ck_assert(asks[n]->done && asks[n]->status == JOBS_OK);
    end();
}

TEST(who_asks_for_much_is_behind_others_and_keeps_its_order)
{
    enum { PUTS = 100, FEW = 32 };
    struct ask *asks[PUTS];
    begin();
    for (size_t n = 0; n < PUTS; n++)
        asks[n] = ask_submit(new_put("default"));
    struct ask *other = make(b, JOB_OP_PUT);
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

/* ---- steps ----------------------------------------------------------------------------------- */

/* Puts jobs without bodies, of a root if `root_ms` is not 0. Returns the last id. */
static uint64_t put_jobs(const char *tube, unsigned count, uint32_t delay_s, int64_t root_ms)
{
    static struct job_put puts[JOBS_STEP];
    static struct job_duplicate duplicate;
    uint64_t last = 0;
    size_t n;
    for (; count > 0; count -= (unsigned)n) {
        struct ask *ask = make(a, JOB_OP_PUT);
        ask_tube(ask, tube);
        for (n = 0; n < JOBS_STEP && n < count; n++)
            puts[n] = (struct job_put){.tube = ask->op.tube,
                                       .id = jobs_take_ids(rig.jobs, 1),
                                       .pri = 10,
                                       .delay_s = delay_s,
                                       .ttr_s = 60,
                                       .tries = JOB_TRIES_OF_TUBE,
                                       .root = bytes_of(root_ms ? "r" : ""),
                                       .root_ms = root_ms,
                                       .duplicate_r = &duplicate,
                                       .body = job_body_new(rig.jobs, JOBS_PUTS, 0)};
        ask->op.puts = puts;
        ask->op.count = n;
        ck_assert(answer(ask) == JOBS_OK);
        last = puts[n - 1].id;
    }
    return last;
}

static uint64_t put_many(const char *tube, unsigned count, uint32_t delay_s)
{
    return put_jobs(tube, count, delay_s, 0);
}

/* Puts jobs of a root into a tube, and makes them stale by a newer time of it. */
static void put_stale(const char *tube, unsigned count)
{
    (void)put_jobs(tube, count, 0, 4000);
    (void)put_jobs(tube, 1, 0, 5000);
}

/* Lets a search go on to its end. Returns its steps, each of which finds so many stale jobs. */
static unsigned search(uint64_t doomed)
{
    struct jobs_outbox outbox;
    bool goes_on = true;
    unsigned steps = 0;
    jobs_outbox_init(&outbox);
    while (goes_on) {
        steps++;
        ck_assert(all_stats().doomed <= doomed + steps * JOBS_STEP);
        goes_on = jobs_search(a, rig.now, &outbox);
        jobs_check(rig.jobs, rig.now);
    }
    rig_send(&outbox);
    return steps;
}

/* Neither room in memory nor on disk: the search has to end all the same, in steps. */
TEST(stale_jobs_that_nothing_can_delete_end_a_search)
{
    enum { STALE = 2 * JOBS_STEP };
    struct job_view view;
    begin();
    put_stale("default", STALE);
    set_tries("default", 3); /* so a reservation needs the store, too */
    fake_disk_fail(disk, FAKE_REMOVE, 1, UINT64_MAX, JOB_STORE_IO);
    jobs_set_memory_limit(rig.jobs, 0);
    waits(a, 0);
    ck_assert(all_stats().doomed == JOBS_STEP);
    ck_assert(search(0) == 2 && all_stats().doomed == STALE);
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

/* The same of a client that watches many tubes, whose stale jobs are in front of one good one. */
TEST(a_search_in_many_watched_tubes_goes_on_in_steps)
{
    enum { STALE = 2 * JOBS_STEP };
    struct job_view view;
    rig_many_watches = 1;
    begin();
    rig_many_watches = 0;
    watch(a, "more");
    put_stale("default", STALE);
    put_stale("more", STALE);
    for (unsigned round = 0; round < 2; round++) {
        uint64_t doomed = all_stats().doomed;
        waits(a, 0);
        ck_assert(all_stats().doomed == doomed + JOBS_STEP);
        ck_assert(search(doomed) < 8 && jobs_read(a, &view));
        (void)seen(&view);
    }
    ck_assert(jobs_reserve(a, 0, &view, rig.now) == JOBS_TIMED_OUT);
    (void)make_steps(new_clear("default", JOB_READY));
    ck_assert(tube_of("default").states[JOB_READY] == 0); /* with the stale ones */
    end();
}

/* So that the next put of the key does not look at them again. */
TEST(a_put_dooms_the_stale_jobs_of_its_key)
{
    enum { STALE = 200 };
    begin();
    for (unsigned n = 0; n < STALE; n++) {
        uint64_t one = put_keyed("default", "k", 1000);
        ck_assert(reserve(b, 0) == one);
    }
    rig_pass(1);
    uint64_t last = put_keyed("default", "k", 2000);
    ck_assert(reserve(a, 0) == last);
    rig_end(&b); /* all of them come back */
    ck_assert(jobs_finish_ends(rig.jobs, rig.now));
    ck_assert(act(a, JOB_DELETE, last) == JOBS_OK);
    ck_assert(all_stats().doomed == 64); /* what an execution looks at */
    uint64_t id = put_keyed("default", "k", rig_wall_ms() + 1000);
    ck_assert(state_of(id) == JOB_READY && all_stats().doomed == STALE);
    rig_run();
    ck_assert(tube_of("default").dropped == STALE && state_of(id) == JOB_READY);
    end();
}

/* A transaction has what clients ask for, and one step of the rest. */
TEST(deletions_of_stale_jobs_go_in_steps_behind_changes_of_clients)
{
    enum { STALE = 3 * JOBS_OWN_MAX };
    begin();
    put_stale("default", STALE);
    uint64_t steps = all_stats().steps, most = 0;
    for (unsigned n = 0; n < 100 && tube_of("default").dropped < STALE; n++) {
        run_jobs(20);
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

/* Deletes stale jobs, if that may go on; returns how many. */
static uint64_t drop_some(void)
{
    uint64_t dropped = tube_of("default").dropped;
    run_jobs(20);
    rig_commit();
    return tube_of("default").dropped - dropped;
}

TEST(deletions_of_stale_jobs_rest_after_upkeep_of_the_store)
{
    static const int64_t took_ns[] = {10 * NS_PER_MS, 3600 * NS_PER_S},
                         rest_ns[] = {160 * NS_PER_MS, NS_PER_S};
    begin();
    put_stale("default", 5 * JOBS_OWN_MAX);
    for (unsigned n = 0; n < ARRAY_SIZE(took_ns); n++) {
        (void)ask_submit(new_put("other"));
        ck_assert(drop_some() > 0);
        jobs_upkeep_over(rig.jobs, took_ns[n], rig.now);
        rig_pass_ns(rest_ns[n] - 1);
        ck_assert(drop_some() == 0);
        rig_pass_ns(1);
        ck_assert(drop_some() > 0);
    }
    jobs_upkeep_over(rig.jobs, took_ns[0], rig.now); /* no client was beside them */
    ck_assert(drop_some() > 0);
    end();
}

TEST(steps_of_many_jobs_take_turns)
{
    enum { CLEARS = 5, EACH = 40 };
    struct ask *clears[CLEARS];
    char tube[] = "0";
    begin();
    for (unsigned n = 0; n < CLEARS; n++, tube[0]++)
        (void)put_many(tube, EACH, 0);
    tube[0] = '0';
    for (unsigned n = 0; n < CLEARS; n++, tube[0]++)
        clears[n] = ask_submit(new_clear(tube, JOB_READY));
    ck_assert(rig_take());
    for (unsigned n = 0; n < CLEARS; n++)
        ck_assert(clears[n]->op.write_count == (n < JOBS_MANY_MAX ? EACH : 0));
    struct ask *ask = ask_submit(new_put("other")); /* which waits for none of them */
    for (unsigned n = 0; n < 2; n++) {
        ck_assert(n == 0 || rig_take());
        rig_write();
        rig_settle();
    }
    ck_assert(ask->done);
    rig_commit();
    for (unsigned n = 0; n < CLEARS; n++) {
        ck_assert(clears[n]->done && clears[n]->status == JOBS_WAITS);
        (void)make_steps(clears[n]); /* which finds nothing more */
        ck_assert(clears[n]->clear.deleted == EACH);
    }
    end();
}

/* Client a has got so many jobs. */
static void claim(uint32_t count)
{
    const struct job_claim_request request = {.count = count, .answer_max = SIZE_MAX};
    char reason[JOBS_READ_ONLY_MAX + 1];
    struct job_view view;
    size_t taken;
    ck_assert(jobs_claim(a, &request, &view, &taken, reason, rig.now) == JOBS_WAITS);
    rig_commit();
    struct job_views *views = rig_hears(a) ? jobs_take_claimed(a) : NULL;
    ck_assert(views && views->count == count);
    for (size_t n = 0; n < count; n++)
        (void)seen(&views->at[n]);
    job_views_free(rig.jobs, &views);
}

/* Last tries that end together are so many under way, and the rest waits a little. */
TEST(last_tries_that_end_together_go_in_steps)
{
    enum { LAST = JOBS_OWN_MAX + 100 };
    begin();
    set_tries("default", 1);
    (void)put_many("default", LAST, 0);
    for (unsigned n = 0; n < 2; n++)
        claim(LAST / 2);
    rig_pass(200);
    run_jobs(20);
    ck_assert(tube_of("default").states[JOB_ABANDONED] == 0);
    rig_commit();
    ck_assert(tube_of("default").states[JOB_ABANDONED] == JOBS_OWN_MAX);
    rig_pass(0.02);
    rig_run();
    ck_assert(tube_of("default").states[JOB_ABANDONED] == LAST);
    end();
}

TEST(a_connection_with_many_kicks_ends)
{
    enum { DELAYED = JOBS_OP_STEP + 100 };
    begin();
    uint64_t mine = put("mine");
    watch(a, "mine");
    ck_assert(reserve(a, 0) == mine);
    uint64_t last = put_many("default", DELAYED, 100);
    struct ask *kick = new_kick(DELAYED + 100);
    ck_assert(make_steps(kick) == 2 && kick->kick.kicked == DELAYED);
    ck_assert(state_of(last) == JOB_READY && stored(last) == JOB_READY);
    rig_end(&a);
    ck_assert(state_of(mine) == JOB_READY && tube_of("mine").watching == 0);
    end();
}

TEST(steps_that_are_done_stay_done)
{
    enum { JOBS = JOBS_OP_STEP + 100 };
    begin();
    (void)put_many("x", JOBS, 0);
    struct ask *clear = new_clear("x", JOBS_ALL);
    fake_disk_fail(disk, FAKE_COMMIT, 2, 1, JOB_STORE_IO);
    while (answer(clear) == JOBS_WAITS)
        continue;
    ck_assert(clear->status == JOBS_NO_MEMORY && clear->clear.deleted == JOBS_OP_STEP);
    ck_assert(tube_of("x").states[JOB_READY] == JOBS - JOBS_OP_STEP);
    ck_assert(fake_disk_count(disk).jobs == JOBS - JOBS_OP_STEP);
    end();
}

/* ---- what each need may use of the memory limit ---------------------------------------------- */

#define LIMIT     UINT64_C(160000)
#define SIXTEENTH (LIMIT / 16)

static void begin_limited(void)
{
    begin();
    jobs_set_memory_limit(rig.jobs, LIMIT);
}

/* Without jobs and settings, memory is what it was. */
static void end_empty(void)
{
    leave_all();
    ck_assert_uint_eq(all_stats().memory, rig.empty);
    end();
}

/* Takes all that is left for a need. Returns how much that was. */
static size_t take_all(enum jobs_need need)
{
    size_t taken = 0;
    for (size_t step = LIMIT; step > 0; step /= 2) {
        while (jobs_charge(rig.jobs, need, step))
            taken += step;
    }
    return taken;
}

/* Puts until one is refused. Returns the number of jobs. */
static uint64_t fill(const char *text)
{
    for (uint64_t count = 0;; count++) {
        struct job_body *fits = job_body_new(rig.jobs, JOBS_PUTS, (uint32_t)strlen(text));
        if (!fits)
            return count;
        job_body_drop(rig.jobs, &fits);
        struct ask *ask = make(a, JOB_OP_PUT);
        ask_put(ask, "default", text);
        enum jobs_status status = answer(ask);
        ask_free(&asks_made[--made_count]);
        ck_assert(status == JOBS_OK || status == JOBS_NO_MEMORY);
        ck_assert_uint_le(all_stats().memory, LIMIT - 2 * SIXTEENTH);
        if (status != JOBS_OK)
            return count;
    }
}

/* Deletes all; returns the steps. */
static unsigned clear_all(uint64_t count)
{
    struct ask *clear = new_clear("default", JOBS_ALL);
    unsigned steps = make_steps(clear);
    ck_assert_uint_eq(clear->clear.deleted, count);
    return steps;
}

TEST(each_need_has_its_part_of_the_limit)
{
    static const uint64_t most[JOBS_NEEDS] = {LIMIT - 2 * SIXTEENTH, LIMIT - SIXTEENTH,
                                              LIMIT - SIXTEENTH / 4, LIMIT};
    size_t taken = 0;
    uint32_t count;
    begin_limited();
    for (unsigned n = 0; n < JOBS_NEEDS; n++) {
        uint64_t refused = all_stats().refused[n];
        taken += take_all((enum jobs_need)n);
        ck_assert_uint_eq(all_stats().memory, most[n]);
        ck_assert_uint_gt(all_stats().refused[n], refused);
        if (n > 0)
            continue;
        watch(a, "new"); /* though puts are refused */
        struct jobs_client *more = rig_client();
        rig_end(&more);
        ck_assert(jobs_ignore(a, bytes_of("new"), &count) == JOBS_OK);
    }
    ck_assert(jobs_watch(a, bytes_of("new"), &count) == JOBS_NO_MEMORY);
    ck_assert(jobs_use(a, bytes_of("new")) == JOBS_NO_MEMORY);
    ck_assert(jobs_client_new(rig.jobs, 0, NULL) == NULL);
    jobs_uncharge(rig.jobs, taken);
    end_empty();
}

TEST(a_claim_that_does_not_wait_makes_no_tubes)
{
    struct bytes tubes[] = {bytes_of("new"), bytes_of("t"), bytes_of("newer")};
    struct job_claim_request request = {
        .tubes = tubes, .tube_count = 1, .count = 1, .answer_max = SIZE_MAX};
    struct job_view view;
    char reason[JOBS_READ_ONLY_MAX + 1];
    size_t count;
    begin_limited();
    (void)put("t");
    size_t taken = take_all(JOBS_TUBES);
    ck_assert(jobs_claim(a, &request, &view, &count, reason, rig.now) == JOBS_TIMED_OUT);
    request.tube_count = 3; /* the job in t is given out when that is committed */
    ck_assert(jobs_claim(a, &request, &view, &count, reason, rig.now) == JOBS_WAITS);
    rig_commit();
    ck_assert(heard(a) != 0);
    request.timeout_ns = NS_PER_S;
    ck_assert(jobs_claim(a, &request, &view, &count, reason, rig.now) == JOBS_NO_MEMORY);
    jobs_uncharge(rig.jobs, taken);
    end();
}

static _Atomic bool others_stop;

static void *ask_too_much(void *arg)
{
    while (!others_stop) {
        if (jobs_charge(rig.jobs, JOBS_PUTS, LIMIT))
            return arg;
    }
    return NULL;
}

TEST(a_refused_put_takes_nothing_from_others_meanwhile)
{
    pthread_t other;
    void *charged;
    begin_limited();
    ck_assert(pthread_create(&other, NULL, ask_too_much, disk) == 0);
    for (unsigned n = 0; n < 100000; n++) {
        ck_assert(jobs_charge(rig.jobs, JOBS_REST, 1));
        jobs_uncharge(rig.jobs, 1);
    }
    others_stop = true;
    ck_assert(pthread_join(other, &charged) == 0 && charged == NULL);
    end_empty();
}

TEST(a_step_of_many_jobs_is_as_large_as_there_is_room)
{
    begin_limited();
    ck_assert_uint_lt(clear_all(fill("")), 40); /* the first ones have two sixteenths */
    uint64_t count = fill("");
    size_t taken = take_all(JOBS_ENDS);
    unsigned steps = clear_all(count);
    ck_assert(steps > 1 && steps < count); /* what is gone makes room */
    jobs_uncharge(rig.jobs, taken);
    end_empty();
}

TEST(bodies_give_way_behind_many_jobs_that_have_none)
{
    static char text[4000];
    begin();
    (void)put_many("default", 12000, 0);
    restart();
    memset(text, 'x', sizeof(text) - 1);
    for (unsigned n = 0; n < 4; n++) {
        struct ask *ask = make(a, JOB_OP_PUT);
        ask_put(ask, "default", text);
        ck_assert(answer(ask) == JOBS_OK);
    }
    jobs_set_memory_limit(rig.jobs, all_stats().memory / 14 * 16);
    ck_assert(jobs_charge(rig.jobs, JOBS_PUTS, 3 * sizeof(text)));
    jobs_uncharge(rig.jobs, 3 * sizeof(text));
    ck_assert(!jobs_charge(rig.jobs, JOBS_PUTS, 5 * sizeof(text)));
    end();
}

/* ---- more than the limit --------------------------------------------------------------------- */

/* After a start and after a reload: jobs end, puts are refused, and the rest has its room. */
TEST(there_may_be_more_than_the_limit)
{
    for (unsigned starts = 0; starts < 2; starts++) {
        begin_limited();
        uint64_t count = fill("");
        rig.config.memory_limit = LIMIT / 4;
        if (starts)
            restart();
        jobs_set_memory_limit(rig.jobs, LIMIT / 4);
        ck_assert_uint_gt(all_stats().memory, LIMIT / 4);
        ck_assert(job_body_new(rig.jobs, JOBS_PUTS, 1) == NULL);
        size_t taken = take_all(JOBS_REST);
        ck_assert(taken > LIMIT / 64 && taken <= LIMIT / 32);
        jobs_set_memory_limit(rig.jobs, LIMIT / 4); /* which changes nothing, and gives no room */
        ck_assert_uint_eq(take_all(JOBS_REST), 0);
        jobs_uncharge(rig.jobs, taken);
        for (uint64_t n = 0; n < count; n++)
            ck_assert(act(a, JOB_DELETE, take(a)) == JOBS_OK);
        taken = take_all(JOBS_ENDS);
        ck_assert_uint_eq(all_stats().memory, LIMIT / 4); /* it has come down */
        jobs_uncharge(rig.jobs, taken);
        jobs_set_memory_limit(rig.jobs, LIMIT);
        ck_assert_uint_gt(fill(""), count / 2);
        end();
    }
}

UNIT_MAIN("bounds of jobs over a store")
