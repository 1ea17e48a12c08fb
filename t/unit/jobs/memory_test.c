/*
 * memory_test.c - the memory limit of the jobs: what each need may use, and that what ends a job is
 * never refused. All is counted in bytes, over SQLite.
 */
#include "base/record.h"
#include "jobs/jobs_state.h"
#include "t/unit/jobs/commit_rig.h"
#include "t/unit/jobs/fake_store.h"
#include "t/unit/random.h"
#include "t/unit/unit.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LIMIT     UINT64_C(160000)
#define SIXTEENTH (LIMIT / 16)

static struct fake_disk *disk;
static struct jobs_client *a, *b;

static struct jobs_stats stats(void)
{
    struct jobs_stats s;
    jobs_get_stats(rig.jobs, &s);
    return s;
}

static void begin(void)
{
    disk = fake_disk_new();
    REQUIRE(disk != NULL);
    rig_begin(&fake_store, fake_disk_path(disk));
    a = rig_client();
    b = rig_client();
    jobs_set_memory_limit(rig.jobs, LIMIT);
}

static void end(void)
{
    rig_commit();
    rig_end(&a);
    rig_end(&b);
    rig_commit();
    ck_assert(!jobs_has_ops(rig.jobs));
    if (stats().states[JOB_READY] + stats().states[JOB_BURIED] + stats().states[JOB_DELAYED] == 0)
        ck_assert_uint_eq(stats().memory, rig.empty);
    rig_close();
    fake_disk_free(&disk);
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

static enum jobs_status answer(struct ask *ask)
{
    ask_submit(ask);
    rig_commit();
    enum jobs_status status = ask->status;
    REQUIRE(ask->done);
    ask_free(&ask);
    return status;
}

static enum jobs_status act(enum job_op_kind kind, uint64_t id, uint64_t token)
{
    struct ask *ask = ask_new(a, kind);
    ask->op.id = id;
    ask->op.token = token;
    return answer(ask);
}

/* Puts until one is refused. Returns the last id, of jobs from 1 on. */
static uint64_t fill(const char *text)
{
    for (uint64_t count = 0;; count++) {
        struct job_body *fits = job_body_new(rig.jobs, JOBS_PUTS, (uint32_t)strlen(text));
        if (!fits)
            return count;
        job_body_drop(rig.jobs, &fits);
        struct ask *ask = ask_new(a, JOB_OP_PUT);
        ask_put(ask, "default", text);
        enum jobs_status status = answer(ask);
        ck_assert(status == JOBS_OK || status == JOBS_NO_MEMORY);
        ck_assert_uint_le(stats().memory, LIMIT - 2 * SIXTEENTH);
        if (status != JOBS_OK)
            return count;
    }
}

static uint64_t reserve(uint64_t *token_r)
{
    struct job_view view;
    enum jobs_status status = jobs_reserve(a, JOBS_FOREVER, &view, rig.now);
    if (status == JOBS_WAITS) {
        rig_commit();
        ck_assert(rig_hears(a) && jobs_read(a, &view));
    } else {
        ck_assert(status == JOBS_OK);
    }
    job_body_drop(rig.jobs, &view.body);
    *token_r = view.token;
    return view.id;
}

static uint32_t kick(void)
{
    struct jobs_kick kick = {.left = UINT32_MAX};
    enum jobs_status status = JOBS_WAITS;
    while (status == JOBS_WAITS) {
        struct ask *ask = ask_new(a, JOB_OP_KICK);
        ask->op.kick = &kick;
        status = answer(ask);
    }
    ck_assert(status == JOBS_OK);
    return kick.kicked;
}

static uint64_t clear(unsigned state, unsigned *steps_r)
{
    struct jobs_clear clear = {0};
    enum jobs_status status = JOBS_WAITS;
    for (*steps_r = 0; status == JOBS_WAITS; ++*steps_r) {
        struct ask *ask = ask_new(a, JOB_OP_CLEAR);
        ask_tube(ask, "default");
        ask->op.client = NULL;
        ask->op.state = state;
        ask->op.clear = &clear;
        status = answer(ask);
    }
    ck_assert(status == JOBS_OK);
    return clear.deleted;
}

/* ---- what each need may use --------------------------------------------------------------------
 */

TEST(each_need_has_its_part_of_the_limit)
{
    static const uint64_t most[JOBS_NEEDS] = {LIMIT - 2 * SIXTEENTH, LIMIT - SIXTEENTH,
                                              LIMIT - SIXTEENTH / 4, LIMIT};
    size_t taken = 0;
    begin();
    for (unsigned n = 0; n < JOBS_NEEDS; n++) {
        uint64_t refused = stats().refused[n];
        taken += take_all((enum jobs_need)n);
        ck_assert_uint_eq(stats().memory, most[n]);
        ck_assert_uint_gt(stats().refused[n], refused);
    }
    uint32_t count;
    ck_assert(jobs_watch(a, bytes_of("new"), &count) == JOBS_NO_MEMORY);
    ck_assert(jobs_use(a, bytes_of("new")) == JOBS_NO_MEMORY);
    ck_assert(jobs_client_new(rig.jobs, 0, NULL) == NULL);
    jobs_uncharge(rig.jobs, taken);
    end();
}

TEST(tubes_can_be_watched_when_puts_are_refused)
{
    uint32_t count;
    begin();
    size_t taken = take_all(JOBS_PUTS);
    ck_assert(jobs_watch(a, bytes_of("new"), &count) == JOBS_OK && count == 2);
    struct jobs_client *more = rig_client();
    rig_end(&more);
    ck_assert(jobs_ignore(a, bytes_of("new"), &count) == JOBS_OK);
    jobs_uncharge(rig.jobs, taken);
    end();
}

TEST(a_claim_that_does_not_wait_makes_no_tubes)
{
    struct bytes tubes[] = {bytes_of("new"), bytes_of("t"), bytes_of("newer")};
    struct job_claim_request request = {
        .tubes = tubes, .tube_count = 1, .count = 1, .answer_max = SIZE_MAX};
    struct job_view view;
    char reason[JOBS_READ_ONLY_MAX + 1];
    size_t count;
    begin();
    struct ask *put = ask_new(a, JOB_OP_PUT);
    ask_put(put, "t", "x");
    ck_assert(answer(put) == JOBS_OK);
    size_t taken = take_all(JOBS_TUBES);
    ck_assert(jobs_claim(a, &request, &view, &count, reason, rig.now) == JOBS_TIMED_OUT);
    request.tube_count = 3; /* the job in t is given out when that is committed */
    ck_assert(jobs_claim(a, &request, &view, &count, reason, rig.now) == JOBS_WAITS);
    rig_commit();
    ck_assert(rig_hears(a) && jobs_read(a, &view));
    job_body_drop(rig.jobs, &view.body);
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
    begin();
    ck_assert(pthread_create(&other, NULL, ask_too_much, disk) == 0);
    for (unsigned n = 0; n < 200000; n++) {
        ck_assert(jobs_charge(rig.jobs, JOBS_REST, 1));
        jobs_uncharge(rig.jobs, 1);
    }
    others_stop = true;
    ck_assert(pthread_join(other, &charged) == 0 && charged == NULL);
    end();
}

/* ---- ends --------------------------------------------------------------------------------------
 */

TEST(every_verb_that_ends_a_job_works_when_all_is_full)
{
    static const enum job_op_kind kinds[] = {JOB_OP_DELETE, JOB_OP_RELEASE, JOB_OP_BURY,
                                             JOB_OP_TOUCH,  JOB_OP_ACK,     JOB_OP_NACK,
                                             JOB_OP_RENEW};
    uint64_t gone = 0, token;
    unsigned steps;
    begin();
    struct ask *lease = ask_new(a, JOB_OP_SET_TUBE);
    ask_tube(lease, "default");
    lease->settings =
        (struct job_settings){.given = 1u << JOB_SETTING_CLAIM, .claim = JOB_CLAIM_LEASE};
    ck_assert(answer(lease) == JOBS_OK);
    uint64_t count = fill("some text");
    ck_assert_uint_gt(count, 200);
    for (uint64_t n = 0; n < count; n++) {
        uint64_t id = reserve(&token);
        size_t taken = take_all(JOBS_ENDS);
        enum job_op_kind kind = kinds[n % (sizeof(kinds) / sizeof(kinds[0]))];
        ck_assert_int_eq(act(kind, id, token), JOBS_OK);
        ck_assert_uint_le(stats().memory, LIMIT);
        gone += kind == JOB_OP_DELETE || kind == JOB_OP_ACK;
        if (kind == JOB_OP_RELEASE || kind == JOB_OP_NACK || kind == JOB_OP_TOUCH ||
            kind == JOB_OP_RENEW)
            gone += act(JOB_OP_DELETE, id, 0) == JOBS_OK;
        jobs_uncharge(rig.jobs, taken);
    }
    size_t taken = take_all(JOBS_ENDS);
    uint64_t buried = stats().states[JOB_BURIED];
    ck_assert_uint_eq(gone + buried, count);
    ck_assert_uint_eq(kick(), buried);
    ck_assert_uint_eq(clear(JOBS_ALL, &steps), buried);
    jobs_uncharge(rig.jobs, taken);
    lease = ask_new(a, JOB_OP_SET_TUBE);
    ask_tube(lease, "default");
    lease->settings = (struct job_settings){.given = 1u << JOB_SETTING_CLAIM};
    ck_assert(answer(lease) == JOBS_OK);
    end();
}

TEST(a_step_of_many_jobs_is_as_large_as_there_is_room)
{
    unsigned steps;
    begin();
    uint64_t count = fill("");
    ck_assert_uint_eq(clear(JOB_READY, &steps), count);
    ck_assert_uint_lt(steps, 40); /* the first ones have two sixteenths */
    count = fill("");
    size_t taken = take_all(JOBS_ENDS);
    ck_assert_uint_eq(clear(JOB_READY, &steps), count);
    ck_assert_uint_gt(steps, 1);
    ck_assert_uint_lt(steps, count); /* what is gone makes room */
    jobs_uncharge(rig.jobs, taken);
    end();
}

/* ---- more than the limit -----------------------------------------------------------------------
 */

/* More is there than the limit: jobs end, puts are refused, and the rest has its room. */
static void check_over(uint64_t count)
{
    uint64_t token, over = stats().memory;
    ck_assert_uint_gt(over, stats().memory_limit);
    ck_assert(job_body_new(rig.jobs, JOBS_PUTS, 1) == NULL);
    size_t taken = take_all(JOBS_REST);
    ck_assert_uint_gt(taken, stats().memory_limit / 16);
    ck_assert_uint_le(taken, stats().memory_limit / 8);
    jobs_uncharge(rig.jobs, taken);
    for (uint64_t n = 0; n < count; n++)
        ck_assert(act(JOB_OP_DELETE, reserve(&token), 0) == JOBS_OK);
    taken = take_all(JOBS_ENDS);
    ck_assert_uint_eq(stats().memory, stats().memory_limit); /* it has come down */
    jobs_uncharge(rig.jobs, taken);
}

TEST(a_start_loads_more_than_the_limit)
{
    begin();
    uint64_t count = fill("");
    rig_end(&a);
    rig_end(&b);
    rig.config.memory_limit = LIMIT / 4;
    rig_restart();
    a = rig_client();
    b = rig_client();
    check_over(count);
    end();
}

TEST(a_reload_leaves_what_is_there)
{
    begin();
    uint64_t count = fill("");
    jobs_set_memory_limit(rig.jobs, LIMIT / 4);
    check_over(count);
    for (unsigned n = 0; n < 3; n++) { /* one that changes nothing gives no room */
        size_t taken = take_all(JOBS_REST);
        jobs_set_memory_limit(rig.jobs, LIMIT / 4);
        ck_assert_uint_eq(take_all(JOBS_REST), 0);
        jobs_uncharge(rig.jobs, taken);
    }
    jobs_set_memory_limit(rig.jobs, LIMIT);
    ck_assert_uint_gt(fill(""), count / 2);
    unsigned steps;
    ck_assert_uint_gt(clear(JOBS_ALL, &steps), 0);
    end();
}

static void ring(void *arg)
{
    (void)arg;
}

TEST(an_upgrade_carries_more_than_the_limit)
{
    static struct record_writer w;
    static struct record_reader r, section;
    uint32_t kind;
    struct jobs_config config = {.memory_limit = LIMIT / 4, .defaults = job_default_settings};
    int fd = memfd_create("jobs", MFD_CLOEXEC);
    ck_assert(fd >= 0);
    begin();
    uint64_t count = fill("");
    record_writer_init(&w, fd);
    jobs_save(rig.jobs, &w);
    ck_assert(record_finish(&w));
    struct jobs *jobs = jobs_new(&config);
    ck_assert(jobs && jobs_use_store(jobs, ring, NULL));
    ck_assert(record_map(&r, fd) && record_enter(&r, &kind, &section));
    ck_assert(kind == JOBS_STATE && jobs_restore(jobs, &section) && jobs_restore_done(jobs, &r));
    struct jobs_stats restored;
    jobs_get_stats(jobs, &restored);
    ck_assert(restored.states[JOB_READY] == count && restored.memory > restored.memory_limit);
    ck_assert(restored.memory_limit == LIMIT / 4 && !jobs_charge(jobs, JOBS_PUTS, 1));
    ck_assert(jobs_charge(jobs, JOBS_REST, 1));
    record_unmap(&r);
    close(fd);
    jobs_free(&jobs);
    end();
}

UNIT_MAIN("memory of jobs")
