/*
 * jobs_api_test.c - changes of jobs that operators ask for while the store is slow or fails. The
 * store is the one in memory (fake_store.h), and a thread of the test does what that of the
 * daemon's store does. What is shown is in transcripts/api-resources.ctl.
 */
#include "service/job_session.h"
#include "t/models/jobs_check.h"
#include "t/unit/admin/fixture.h"
#include "t/unit/jobs/fake_store.h"

#include <semaphore.h>

static struct jobs *jobs;
static struct jobs_client *client;
static struct jobs_outbox outbox;

/* ---- with a store ---------------------------------------------------------------------------- */

static struct fake_disk *disk;
static struct job_store *store;
static pthread_t store_thread;
static sem_t bell;
static _Atomic bool store_ends;

static void ring(void *arg)
{
    ck_assert_int_eq(sem_post(arg), 0);
}

static void post_done(struct jobs_outbox *of)
{
    for (struct mail *mail; (mail = mail_list_take(&of->messages)) != NULL;) {
        mail->deliver = job_on_message;
        conn_post(services->server, container_of(mail, struct message, mail));
    }
    for (struct mail *mail; (mail = mail_list_take(&of->done)) != NULL;)
        conn_post(services->server, container_of(mail, struct message, mail));
}

static void *run_store(void *arg)
{
    struct job_op_list list;
    struct jobs_outbox outbox_here;
    while (sem_wait(arg) == 0 && !atomic_load(&store_ends)) {
        while (jobs_take_ops(jobs, &list, 2000, (size_t)4 << 20)) {
            job_ops_read(jobs, store, &list, clock_unix_ns());
            if (list.has_writes)
                job_ops_committed(&list, job_ops_write(store, &list, clock_now().mono_ns, false),
                                  false);
            jobs_outbox_init(&outbox_here);
            jobs_settle(jobs, &list, clock_now(), &outbox_here);
            post_done(&outbox_here);
        }
    }
    return NULL;
}

static void begin_store(void)
{
    char reason[JOB_STORE_REASON];
    uint64_t first;
    const struct job_store_config config = {.path = fake_disk_path(disk)};
    ck_assert_int_eq(fake_store.open(&config, &store, reason), JOB_STORE_OK);
    ck_assert_int_eq(sem_init(&bell, 0, 0), 0);
    ck_assert(jobs_use_store(jobs, ring, &bell));
    ck_assert_int_eq(jobs_load(jobs, store, clock_now()), JOB_STORE_OK);
    ck_assert_int_eq(store->does->take_ids(store, 1000000, &first), JOB_STORE_OK);
    jobs_set_next_id(jobs, first);
    ck_assert_int_eq(pthread_create(&store_thread, NULL, run_store, &bell), 0);
}

static void finish_store(void)
{
    COME_TRUE(!jobs_has_ops(jobs));
    atomic_store(&store_ends, true);
    ring(&bell);
    ck_assert_int_eq(pthread_join(store_thread, NULL), 0);
    store->does->close(&store);
}

/* An operation of the test's own. */
struct own_op {
    struct job_op op; /* first */
    _Atomic bool done;
};

static void on_own(struct mail *mail, void *worker)
{
    (void)worker;
    atomic_store(&container_of(mail, struct own_op, op.message.mail)->done, true);
}

static void submit(struct own_op *own)
{
    own->op.message.mail.deliver = on_own;
    if (jobs_submit(jobs, &own->op, clock_now(), &outbox) == JOBS_COMMITS) {
        for (int64_t end_ms = real_ms() + CLIENT_PATIENCE_MS; !atomic_load(&own->done); rest_ms(0))
            ck_assert(real_ms() < end_ms);
    }
    ck_assert_int_eq(own->op.status, JOBS_OK);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void begin_jobs(void)
{
    if (!disk)
        disk = fake_disk_new();
    begin(2, TOKEN);
    jobs = jobs_of(services);
    begin_store();
    jobs_outbox_init(&outbox);
    client = jobs_client_new(jobs, 1, NULL);
    ck_assert(client != NULL);
}

static void finish_jobs(void)
{
    finish_store();
    jobs_client_end(client, clock_now(), &outbox);
    finish();
    fake_disk_free(&disk);
}

static uint64_t put(const char *tube, uint32_t delay_s)
{
    struct job_put put = {.tube = bytes_of(tube),
                          .id = jobs_take_ids(jobs, 1),
                          .pri = 7,
                          .delay_s = delay_s,
                          .ttr_s = 1000,
                          .tries = JOB_TRIES_OF_TUBE,
                          .body = job_body_new(jobs, JOBS_PUTS, 1)};
    ck_assert(put.body != NULL);
    put.body->bytes[0] = 'x';
    struct own_op own = {
        .op = {.kind = JOB_OP_PUT, .act.client = client, .puts = &put, .count = 1}};
    submit(&own);
    return put.id;
}

/* Changes something; the answer must have this status. */
static void post(const char *target, int status)
{
    json_t *json = ask_json("POST", target, BEARER, status);
    ck_assert((status == 200) == json_is_true(json_object_get(json, "done")));
    json_decref(json);
}

static void post_job(uint64_t id, const char *what, int status)
{
    char target[100];
    snprintf(target, sizeof(target), "/api/v1/jobs/%llu/%s", (unsigned long long)id, what);
    post(target, status);
}

/* ---- changes --------------------------------------------------------------------------------- */

static enum job_state state_of(uint64_t id)
{
    struct job_stats stats;
    ck_assert_int_eq(jobs_stats_job(jobs, id, clock_now(), &stats), JOBS_OK);
    return stats.state;
}

/* ---- what the store is asked for ------------------------------------------------------------- */

/* The jobs of a daemon that has ended, whose bodies are in the store alone. */
static uint64_t begin_after_a_start(const char *body)
{
    char reason[JOB_STORE_REASON];
    uint64_t id;
    disk = fake_disk_new();
    ck_assert(disk != NULL);
    const struct job_store_config config = {.path = fake_disk_path(disk)};
    ck_assert_int_eq(fake_store.open(&config, &store, reason), JOB_STORE_OK);
    ck_assert_int_eq(store->does->take_ids(store, 1, &id), JOB_STORE_OK);
    const struct job_record record = {.id = id,
                                      .tube = bytes_of("old"),
                                      .put_ns = clock_unix_ns(),
                                      .ttr_s = 60,
                                      .tries_max = JOB_TRIES_OF_TUBE,
                                      .body_len = (uint32_t)strlen(body),
                                      .now = {.state = JOB_READY}};
    ck_assert_int_eq(store->does->begin(store), JOB_STORE_OK);
    ck_assert_int_eq(store->does->put(store, &record, bytes_of(body)), JOB_STORE_OK);
    ck_assert_int_eq(store->does->commit(store, 1), JOB_STORE_OK);
    store->does->close(&store);
    begin_jobs();
    return id;
}

TEST(a_body_is_read_from_the_store)
{
    char target[100];
    uint64_t id = begin_after_a_start("on disk");
    snprintf(target, sizeof(target), "/api/v1/jobs/%llu", (unsigned long long)id);
    struct job_view view;
    ck_assert_int_eq(jobs_peek(jobs, id, &view), JOBS_OK);
    ck_assert(view.body == NULL);
    json_t *json = get_json(target);
    ck_assert_str_eq(text_at(json, "job.body"), "on disk");
    ck_assert_str_eq(text_at(json, "job.tube"), "old");
    json_decref(json);
    fake_disk_break_body(disk, id, JOB_STORE_CORRUPT);
    expect_error("GET", target, "", 500, "cannot be read");
    fake_disk_break_body(disk, id, JOB_STORE_OK);
    json_decref(get_json(target));
    post_job(id, "delete", 200);
    expect_error("GET", target, "", 404, "no such job");
    finish_jobs();
}
END_TEST

TEST(a_change_that_cannot_be_written_is_not_made)
{
    struct tube_stats stats;
    begin_jobs();
    uint64_t delayed = put("t", 1000);
    static const char *const changes[] = {"/api/v1/tubes/t/pause?seconds=9",
                                          "/api/v1/tubes/t/clear?state=all"};
    fake_disk_fail(disk, FAKE_COMMIT, 1, UINT64_MAX, JOB_STORE_FULL);
    post_job(delayed, "kick", 503);
    post_job(delayed, "delete", 503);
    for (size_t i = 0; i < ARRAY_SIZE(changes); i++)
        expect_error("POST", changes[i], BEARER, 503, "jobs.path");
    ck_assert_int_eq(state_of(delayed), JOB_DELAYED);
    ck_assert_int_eq(jobs_stats_tube(jobs, bytes_of("t"), clock_now(), &stats), JOBS_OK);
    ck_assert(stats.pause_s == 0 && stats.states[JOB_DELAYED] == 1);
    fake_disk_fail(disk, FAKE_COMMIT, 1, 0, JOB_STORE_OK);
    post_job(delayed, "kick", 200);
    ck_assert_int_eq(state_of(delayed), JOB_READY);
    jobs_check(jobs, clock_now());
    finish_jobs();
}
END_TEST

TEST(steps_that_are_done_stay_done)
{
    begin_jobs();
    for (unsigned i = 0; i < 600; i++)
        put("t", 0);
    fake_disk_fail(disk, FAKE_COMMIT, 2, 1, JOB_STORE_IO);
    expect_error("POST", "/api/v1/tubes/t/clear?state=ready", BEARER, 503, "jobs.path");
    ck_assert_uint_eq(fake_disk_count(disk).jobs, 344);
    json_t *json = ask_json("POST", "/api/v1/tubes/t/clear?state=ready", BEARER, 200);
    ck_assert(number_at(json, "deleted") == 344);
    json_decref(json);
    ck_assert_uint_eq(fake_disk_count(disk).jobs, 0);
    finish_jobs();
}
END_TEST

static int post_without_waiting(const char *target)
{
    char text[300];
    int fd = http_connect(where);
    snprintf(text, sizeof(text), "POST %s HTTP/1.1\r\nHost: localhost\r\n" BEARER "\r\n", target);
    http_send(fd, text);
    COME_TRUE(jobs_has_ops(jobs));
    return fd;
}

TEST(others_are_served_while_a_commit_takes_long)
{
    begin_jobs();
    put("t", 1000);
    fake_disk_hold(disk, true);
    int fd = post_without_waiting("/api/v1/tubes/t/clear?state=all");
    json_decref(get_json("/api/v1/tubes/t"));
    fake_disk_hold(disk, false);
    struct http_reply r = read_reply(fd, false);
    ck_assert_int_eq(r.status, 200);
    ck_assert_ptr_nonnull(strstr(r.body, "\"deleted\":1"));
    reply_free(&r);
    close(fd);
    finish_jobs();
}
END_TEST

TEST(a_change_goes_through_without_its_client)
{
    char target[100];
    begin_jobs();
    uint64_t id = put("t", 1000);
    snprintf(target, sizeof(target), "/api/v1/jobs/%llu/kick", (unsigned long long)id);
    fake_disk_hold(disk, true);
    close(post_without_waiting(target));
    fake_disk_hold(disk, false);
    COME_TRUE(!jobs_has_ops(jobs));
    ck_assert_int_eq(state_of(id), JOB_READY);
    json_decref(get_json("/api/v1/tubes/t"));
    finish_jobs();
}
END_TEST

TEST(an_upgrade_answers_changes_under_way)
{
    begin_jobs();
    for (unsigned i = 0; i < 300; i++)
        put("t", 0);
    fake_disk_hold(disk, true);
    int fd = post_without_waiting("/api/v1/tubes/t/clear?state=all");
    admin_pause(admin);
    struct http_reply r = read_reply(fd, false);
    ck_assert_int_eq(r.status, 503);
    ck_assert_ptr_nonnull(strstr(r.body, "upgraded"));
    reply_free(&r);
    close(fd);
    fake_disk_hold(disk, false);
    COME_TRUE(!jobs_has_ops(jobs));
    ck_assert_uint_eq(fake_disk_count(disk).jobs, 44); /* the step that had begun is done */
    admin_resume(admin);
    json_t *json = ask_json("POST", "/api/v1/tubes/t/clear?state=all", BEARER, 200);
    ck_assert(number_at(json, "deleted") == 44);
    json_decref(json);
    finish_jobs();
}
END_TEST

UNIT_MAIN("jobs_api")
