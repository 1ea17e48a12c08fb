/*
 * jobs_api_test.c - /api/v1/tubes and /api/v1/jobs: what is listed and shown, page by page while
 * tubes change, what operators change, and the metrics of tubes.
 *
 * The jobs are put without a connection, by a client of the test's own. With a store, which is the
 * one in memory (fake_store.h), a thread of the test does what that of the daemon's store does.
 */
#include "service/job_session.h"
#include "t/unit/admin/fixture.h"
#include "t/unit/jobs/fake_store.h"

#include <semaphore.h>

#define TUBE                                                                                       \
    "{'name':'','id':'','states':{'ready':1,'delayed':1,'reserved':1,'buried':1,'abandoned':1},"   \
    "'jobs':1,'urgent':1,'oldest_ready_seconds':['?',1],'waiting':1,'watching':1,'using':1,"       \
    "'pause_seconds':1,'pause_left_seconds':1,'totals':{'puts':1,'duplicates':1,'claims':1,"       \
    "'dropped':1,'acks':1,'recycled':1,'abandoned':1},'settings':{'order':'','claim':'',"          \
    "'tries':1,'limit':1,'prune':1,'remember':1,'read_only':''}}"
#define JOB_MEMBERS                                                                                \
    "'id':1,'state':'','pri':1,'age_seconds':1,'delay_seconds':1,'ttr_seconds':1,"                 \
    "'left_seconds':['?',1],'tries':1,'reserves':1,'timeouts':1,'releases':1,'buries':1,"          \
    "'kicks':1,'body_bytes':1"

static struct jobs *jobs;
static struct jobs_client *client;
static struct jobs_effects effects;

/* ---- with a store -------------------------------------------------------------------------- */

static struct fake_disk *disk; /* NULL: jobs are in memory alone */
static struct job_store *store;
static pthread_t store_thread;
static sem_t bell;
static _Atomic bool store_ends;

static void ring(void *arg)
{
    ck_assert_int_eq(sem_post(arg), 0);
}

static void post_done(struct jobs_effects *of)
{
    for (struct mail *mail; (mail = mail_list_take(&of->letters)) != NULL;) {
        mail->deliver = job_on_letter;
        conn_post(services->server, container_of(mail, struct letter, mail));
    }
    for (struct mail *mail; (mail = mail_list_take(&of->done)) != NULL;)
        conn_post(services->server, container_of(mail, struct letter, mail));
}

static void *run_store(void *arg)
{
    struct job_op_list list;
    struct jobs_effects effects_here;
    while (sem_wait(arg) == 0 && !atomic_load(&store_ends)) {
        while (jobs_take_ops(jobs, &list, 2000, (size_t)4 << 20)) {
            job_ops_read(jobs, store, &list, clock_unix_ns());
            if (list.has_writes)
                job_ops_committed(&list, job_ops_write(store, &list, clock_now().mono_ns, false),
                                  false);
            jobs_effects_init(&effects_here);
            jobs_settle(jobs, &list, clock_now(), &effects_here);
            post_done(&effects_here);
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
    atomic_store(&container_of(mail, struct own_op, op.letter.mail)->done, true);
}

static void submit(struct own_op *own)
{
    own->op.letter.mail.deliver = on_own;
    if (jobs_submit(jobs, &own->op, clock_now(), &effects) == JOBS_COMMITS) {
        for (int64_t end_ms = real_ms() + CLIENT_PATIENCE_MS; !atomic_load(&own->done); rest_ms(0))
            ck_assert(real_ms() < end_ms);
    }
    ck_assert_int_eq(own->op.status, JOBS_OK);
}

/* ---- jobs ---------------------------------------------------------------------------------- */

static void begin_jobs(void)
{
    begin(2, TOKEN);
    jobs = jobs_of(services);
    if (disk)
        begin_store();
    jobs_effects_init(&effects);
    client = jobs_client_new(jobs, 1, NULL);
    ck_assert(client != NULL);
}

static void finish_jobs(void)
{
    if (disk)
        finish_store();
    jobs_client_end(client, clock_now(), &effects);
    finish();
}

static uint64_t put_body(const char *tube, struct bytes body, uint32_t delay_s)
{
    struct job_put put = {.tube = bytes_of(tube),
                          .id = jobs_take_id(jobs),
                          .pri = 7,
                          .delay_s = delay_s,
                          .ttr_s = 1000,
                          .tries = JOB_TRIES_OF_TUBE,
                          .body = job_body_new(jobs, JOBS_PUTS, (uint32_t)body.len)};
    ck_assert(put.body != NULL);
    if (body.len > 0)
        memcpy(put.body->bytes, body.data, body.len);
    struct own_op own = {.op = {.kind = JOB_OP_PUT, .client = client, .puts = &put, .count = 1}};
    if (disk)
        submit(&own);
    else
        ck_assert_int_eq(jobs_put(client, &put, clock_now(), &effects), JOBS_OK);
    return put.id;
}

static uint64_t put(const char *tube, uint32_t delay_s)
{
    return put_body(tube, bytes_of("body"), delay_s);
}

static void reserve(uint64_t id)
{
    struct job_view view;
    struct own_op own = {
        .op = {.kind = JOB_OP_RESERVE, .client = client, .id = id, .views = &view}};
    if (disk)
        submit(&own);
    else
        ck_assert_int_eq(jobs_reserve_job(client, id, &view, clock_now()), JOBS_OK);
    job_body_drop(jobs, &view.body);
}

static void bury(uint64_t id)
{
    struct own_op own = {.op = {.kind = JOB_OP_BURY, .client = client, .id = id, .pri = 7}};
    reserve(id);
    if (disk)
        submit(&own);
    else
        ck_assert_int_eq(jobs_bury(client, id, 7, clock_now()), JOBS_OK);
}

static void set_read_only(const char *tube, const char *reason)
{
    struct job_settings settings = {.given = 1u << JOB_SETTING_READ_ONLY};
    snprintf(settings.read_only, sizeof(settings.read_only), "%s", reason);
    struct own_op own = {
        .op = {.kind = JOB_OP_SET_TUBE, .tube = bytes_of(tube), .settings = &settings}};
    if (disk)
        submit(&own);
    else
        ck_assert_int_eq(jobs_set_tube(jobs, bytes_of(tube), &settings, clock_now(), &effects),
                         JOBS_OK);
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

/* A test in memory alone, and with a store. */
#define BOTH(name)                                                                                 \
    static void name##_anyhow(void);                                                               \
    TEST(name)                                                                                     \
    {                                                                                              \
        name##_anyhow();                                                                           \
    }                                                                                              \
    END_TEST                                                                                       \
    TEST(name##_with_a_store)                                                                      \
    {                                                                                              \
        disk = fake_disk_new();                                                                    \
        ck_assert(disk != NULL);                                                                   \
        name##_anyhow();                                                                           \
        fake_disk_free(&disk);                                                                     \
    }                                                                                              \
    END_TEST                                                                                       \
    static void name##_anyhow(void)

/* ---- what is shown ------------------------------------------------------------------------- */

BOTH(tubes_are_listed_and_shown)
{
    begin_jobs();
    uint64_t buried = put("wiki/mail", 0), held = put("wiki/mail", 0);
    put("wiki/mail", 0);
    put("wiki/mail", 1000);
    bury(buried);
    reserve(held);
    set_read_only("a+b", "moving");
    json_t *json = get_shaped("/api/v1/tubes", "{'tubes':[" TUBE "],'cursor':['?','']}");
    ck_assert_uint_eq(json_array_size(at(json, "tubes")), 3);
    ck_assert_str_eq(text_at(json, "tubes.0.name"), "a+b");
    ck_assert_str_eq(text_at(json, "tubes.0.id"), "a%2Bb");
    ck_assert_str_eq(text_at(json, "tubes.0.settings.read_only"), "moving");
    ck_assert(json_is_null(at(json, "tubes.0.oldest_ready_seconds")));
    ck_assert_str_eq(text_at(json, "tubes.1.name"), "default");
    ck_assert_str_eq(text_at(json, "tubes.2.id"), "wiki%2Fmail");
    ck_assert(json_is_null(at(json, "cursor")));
    json_decref(json);
    json = get_shaped("/api/v1/tubes/wiki%2Fmail", "{'tube':" TUBE "}");
    static const char *const states[] = {"ready", "delayed", "reserved", "buried"};
    for (size_t i = 0; i < ARRAY_SIZE(states); i++)
        ck_assert(number_at(at(json, "tube.states"), states[i]) == 1);
    ck_assert(number_at(json, "tube.jobs") == 4);
    ck_assert(number_at(json, "tube.urgent") == 1);
    ck_assert(number_at(json, "tube.oldest_ready_seconds") >= 0);
    ck_assert(number_at(json, "tube.totals.puts") == 4);
    ck_assert(number_at(json, "tube.totals.claims") == 2);
    ck_assert_str_eq(text_at(json, "tube.settings.order"), "priority");
    json_decref(json);
    json = get_json("/api/v1/tubes?prefix=wiki%2F");
    ck_assert_uint_eq(json_array_size(at(json, "tubes")), 1);
    json_decref(json);
    json = get_json("/api/v1/stats");
    ck_assert(number_at(json, "resources.tubes.tubes") == 3);
    ck_assert(number_at(json, "resources.tubes.ready") == 1);
    ck_assert(number_at(json, "resources.tubes.buried") == 1);
    ck_assert(number_at(json, "resources.tubes.puts") == 4);
    ck_assert(number_at(json, "resources.tubes.memory_bytes") > 0);
    json_decref(json);
    finish_jobs();
}

#define STAYING 300

TEST(every_tube_is_listed_once_while_others_come_and_go)
{
    unsigned seen[STAYING] = {0};
    char target[300] = "/api/v1/tubes?prefix=s&limit=7", name[20], last[20] = "";
    begin_jobs();
    for (unsigned i = 0; i < STAYING; i++) {
        snprintf(name, sizeof(name), "s%u", i * 7919 % STAYING); /* not in order */
        put(name, 0);
    }
    uint64_t passing[STAYING] = {0};
    for (unsigned page = 0;; page++) {
        json_t *json = get_json(target), *item;
        size_t i;
        json_array_foreach(at(json, "tubes"), i, item)
        {
            const char *text = text_at(item, "name");
            ck_assert_msg(strcmp(text, last) > 0, "%s after %s", text, last);
            snprintf(last, sizeof(last), "%s", text);
            if (strchr(text, '-') == NULL)
                seen[strtoul(text + 1, NULL, 10)]++;
        }
        const json_t *next = at(json, "cursor");
        bool over = json_is_null(next);
        if (!over)
            snprintf(target, sizeof(target), "/api/v1/tubes?prefix=s&limit=7&cursor=%s",
                     json_string_value(next));
        json_decref(json);
        if (over)
            break;
        ck_assert_uint_lt(page, STAYING);
        snprintf(name, sizeof(name), "s%u-", page * 31 % STAYING);
        passing[page] = put(name, 0);
        if (page >= 3)
            ck_assert_int_eq(jobs_delete(client, passing[page - 3], clock_now()), JOBS_OK);
    }
    for (unsigned i = 0; i < STAYING; i++)
        ck_assert_msg(seen[i] == 1, "s%u was listed %u times", i, seen[i]);
    finish_jobs();
}
END_TEST

BOTH(jobs_are_listed_page_by_page)
{
    begin_jobs();
    uint64_t ids[200];
    for (unsigned i = 0; i < ARRAY_SIZE(ids); i++)
        ids[i] = put("many", i % 2 ? 1000 : 0);
    bury(ids[0]);
    uint64_t after = 0;
    size_t count = 0;
    for (bool over = false; !over;) {
        char target[200];
        snprintf(target, sizeof(target), "/api/v1/jobs?tube=many&limit=70&after=%llu",
                 (unsigned long long)after);
        json_t *json = get_shaped(target, "{'jobs':[{" JOB_MEMBERS "}],'next':['?',1]}"), *item;
        size_t i;
        json_array_foreach(at(json, "jobs"), i, item)
        {
            ck_assert_uint_lt(count, ARRAY_SIZE(ids));
            ck_assert(number_at(item, "id") == (double)ids[count]);
            ck_assert_str_eq(text_at(item, "state"), count == 0       ? "buried"
                                                     : count % 2 == 1 ? "delayed"
                                                                      : "ready");
            ck_assert(json_is_null(at(item, "left_seconds")) == (count % 2 == 0));
            count++;
        }
        over = json_is_null(at(json, "next"));
        if (!over)
            after = (uint64_t)number_at(json, "next");
        json_decref(json);
    }
    ck_assert_uint_eq(count, ARRAY_SIZE(ids));
    json_t *json = get_json("/api/v1/jobs?tube=many&state=buried");
    ck_assert_uint_eq(json_array_size(at(json, "jobs")), 1);
    ck_assert(number_at(json, "jobs.0.tries") == 1 && number_at(json, "jobs.0.buries") == 1);
    json_decref(json);
    json = get_json("/api/v1/jobs?tube=many&state=delayed&limit=1000");
    ck_assert_uint_eq(json_array_size(at(json, "jobs")), 100);
    ck_assert(number_at(json, "jobs.99.left_seconds") > 900);
    json_decref(json);
    json = get_json("/api/v1/jobs?tube=default");
    ck_assert_uint_eq(json_array_size(at(json, "jobs")), 0);
    json_decref(json);
    finish_jobs();
}

/* Checks how a body is shown. */
static void expect_body(struct bytes body, const char *encoding, struct bytes shown, bool cut)
{
    char target[100];
    uint64_t id = put_body("bodies/+", body, 0);
    snprintf(target, sizeof(target), "/api/v1/jobs/%llu", (unsigned long long)id);
    json_t *json =
        get_shaped(target, "{'job':{" JOB_MEMBERS
                           ",'tube':'','tube_id':'','encoding':'','cut':true,'body':''}}");
    ck_assert_str_eq(text_at(json, "job.tube"), "bodies/+");
    ck_assert_str_eq(text_at(json, "job.tube_id"), "bodies%2F%2B");
    ck_assert_str_eq(text_at(json, "job.encoding"), encoding);
    ck_assert(number_at(json, "job.body_bytes") == (double)body.len);
    ck_assert(json_is_true(at(json, "job.cut")) == cut);
    ck_assert_uint_eq(json_string_length(at(json, "job.body")), shown.len);
    ck_assert_mem_eq(text_at(json, "job.body"), shown.data, shown.len);
    json_decref(json);
}

BOTH(bodies_are_shown_as_text_or_base64)
{
    static char large[65540];
    static const char text[] = "a\t\"\\x41\\\r\n\x7f\x1b[2J\xc3\xa4\xe2\x80\xae</script>";
    begin_jobs();
    expect_body(bytes_of(text), "text", bytes_of(text), false);
    expect_body(bytes_of(""), "text", bytes_of(""), false);
    expect_body(bytes_of("\xff"), "base64", bytes_of("/w=="), false);
    expect_body(bytes_of("\xff\xfe"), "base64", bytes_of("//4="), false);
    expect_body(bytes_of("\xff\xfe\xfd"), "base64", bytes_of("//79"), false);
    expect_body(bytes_at("a\0b", 3), "base64", bytes_of("YQBi"), false);
    expect_body(bytes_of("cut \xc3"), "base64", bytes_of("Y3V0IMM="), false);
    memset(large, 'x', sizeof(large));
    expect_body(bytes_at(large, 65536), "text", bytes_at(large, 65536), false);
    expect_body(bytes_at(large, 65537), "text", bytes_at(large, 65536), true);
    memcpy(large + 65534, "\xe2\x80\xae", 3); /* the limit is inside of this character */
    expect_body(bytes_at(large, 65540), "text", bytes_at(large, 65534), true);
    memset(large, 0, sizeof(large));
    static char zeros[87384]; /* of 65536 bytes */
    memset(zeros, 'A', sizeof(zeros));
    memcpy(zeros + sizeof(zeros) - 2, "==", 2);
    expect_body(bytes_at(large, 65540), "base64", bytes_at(zeros, sizeof(zeros)), true);
    finish_jobs();
}

TEST(wrong_parameters_are_named_with_what_would_be_right)
{
    static const struct {
        const char *target;
        int status;
        const char *says;
    } rows[] = {
        {"/api/v1/tubes?limit=0", 400, "from 1 to 1000"},
        {"/api/v1/tubes?prefix=%4", 400, "two hexadecimal"},
        {"/api/v1/tubes?state=ready", 400, "there is no parameter"},
        {"/api/v1/tubes/", 400, "the path has no tube"},
        {"/api/v1/tubes/%zz", 400, "two hexadecimal"},
        {"/api/v1/tubes/none", 404, "no such tube"},
        {"/api/v1/tubes/default?limit=1", 400, "there is no parameter"},
        {"/api/v1/jobs", 400, "tube=TUBE is missing"},
        {"/api/v1/jobs?tube=none", 404, "no such tube"},
        {"/api/v1/jobs?tube=default&state=gone", 400, "abandoned"},
        {"/api/v1/jobs?tube=default&after=x", 400, "after"},
        {"/api/v1/jobs?tube=default&after=18446744073709551616", 400, "after"},
        {"/api/v1/jobs?tube=default&limit=1001", 400, "from 1 to 1000"},
        {"/api/v1/jobs/", 400, "the path has no job"},
        {"/api/v1/jobs/1x", 400, "the path has no job"},
        {"/api/v1/jobs/0", 404, "no such job"},
        {"/api/v1/jobs/18446744073709551615", 404, "no such job"},
    };
    begin_jobs();
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        expect_error("GET", rows[i].target, "", rows[i].status, rows[i].says);
    json_t *json = get_json("/api/v1/jobs?tube=default&after=18446744073709551615");
    ck_assert_uint_eq(json_array_size(at(json, "jobs")), 0);
    json_decref(json);
    finish_jobs();
}
END_TEST

/* ---- changes ------------------------------------------------------------------------------- */

static enum job_state state_of(uint64_t id)
{
    struct job_stats stats;
    ck_assert_int_eq(jobs_stats_job(jobs, id, clock_now(), &stats), JOBS_OK);
    return stats.state;
}

BOTH(jobs_are_kicked_and_deleted)
{
    begin_jobs();
    uint64_t ready = put("t", 0), delayed = put("t", 1000), buried = put("t", 0);
    bury(buried);
    post_job(delayed, "kick", 200);
    post_job(buried, "kick", 200);
    ck_assert_int_eq(state_of(delayed), JOB_READY);
    ck_assert_int_eq(state_of(buried), JOB_READY);
    post_job(ready, "kick", 409);
    reserve(ready);
    post_job(ready, "kick", 409);
    post_job(ready, "delete", 409);
    ck_assert_int_eq(state_of(ready), JOB_RESERVED);
    post_job(buried, "delete", 200);
    post_job(buried, "delete", 404);
    post_job(buried, "kick", 404);
    bury(delayed);
    set_read_only("t", "moving");
    post_job(delayed, "kick", 409);
    post_job(delayed, "delete", 200);
    expect_error("POST", "/api/v1/jobs/1/delete", "", 401, "token");
    expect_error("POST", "/api/v1/jobs/1/kick", "", 401, "token");
    expect_error("POST", "/api/v1/jobs/x/kick", BEARER, 400, "the path has no job");
    jobs_check(jobs, clock_now());
    finish_jobs();
}

BOTH(tubes_are_paused_and_cleared)
{
    struct tube_stats stats;
    begin_jobs();
    for (unsigned i = 0; i < 2500; i++) /* more than one step */
        put("wiki/x", i < 10 ? 1000 : 0);
    uint64_t held = put("wiki/x", 0);
    reserve(held);
    post("/api/v1/tubes/wiki%2Fx/pause?seconds=1000", 200);
    ck_assert_int_eq(jobs_stats_tube(jobs, bytes_of("wiki/x"), clock_now(), &stats), JOBS_OK);
    ck_assert(stats.pause_s == 1000 && stats.pause_left_s > 900);
    post("/api/v1/tubes/wiki%2Fx/pause?seconds=0", 200);
    ck_assert_int_eq(jobs_stats_tube(jobs, bytes_of("wiki/x"), clock_now(), &stats), JOBS_OK);
    ck_assert(stats.pause_s == 0);
    json_t *json = ask_json("POST", "/api/v1/tubes/wiki%2Fx/clear?state=ready", BEARER, 200);
    ck_assert(number_at(json, "deleted") == 2490);
    json_decref(json);
    json = ask_json("POST", "/api/v1/tubes/wiki%2Fx/clear?state=all", BEARER, 200);
    ck_assert(number_at(json, "deleted") == 10);
    json_decref(json);
    ck_assert_int_eq(state_of(held), JOB_RESERVED);
    set_read_only("wiki/x", "moving");
    expect_error("POST", "/api/v1/tubes/wiki%2Fx/clear?state=all", BEARER, 409, "moving");
    expect_error("POST", "/api/v1/tubes/wiki%2Fx/clear", BEARER, 400, "state=ready");
    expect_error("POST", "/api/v1/tubes/wiki%2Fx/pause", BEARER, 400, "seconds=SECONDS");
    expect_error("POST", "/api/v1/tubes/none/pause?seconds=1", BEARER, 404, "no such tube");
    expect_error("POST", "/api/v1/tubes/none/clear?state=all", BEARER, 404, "no such tube");
    expect_error("POST", "/api/v1/tubes/default/clear?state=all", "", 401, "token");
    expect_error("POST", "/api/v1/tubes/default/pause?seconds=1", "", 401, "token");
    jobs_check(jobs, clock_now());
    finish_jobs();
}

/* ---- what the store is asked for ----------------------------------------------------------- */

static void begin_with_disk(void)
{
    disk = fake_disk_new();
    ck_assert(disk != NULL);
    begin_jobs();
}

static void finish_with_disk(void)
{
    finish_jobs();
    fake_disk_free(&disk);
}

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
    finish_with_disk();
}
END_TEST

TEST(a_change_that_cannot_be_written_is_not_made)
{
    struct tube_stats stats;
    begin_with_disk();
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
    finish_with_disk();
}
END_TEST

TEST(steps_that_are_done_stay_done)
{
    begin_with_disk();
    for (unsigned i = 0; i < 600; i++)
        put("t", 0);
    fake_disk_fail(disk, FAKE_COMMIT, 2, 1, JOB_STORE_IO);
    expect_error("POST", "/api/v1/tubes/t/clear?state=ready", BEARER, 503, "jobs.path");
    ck_assert_uint_eq(fake_disk_count(disk).jobs, 344);
    json_t *json = ask_json("POST", "/api/v1/tubes/t/clear?state=ready", BEARER, 200);
    ck_assert(number_at(json, "deleted") == 344);
    json_decref(json);
    ck_assert_uint_eq(fake_disk_count(disk).jobs, 0);
    finish_with_disk();
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
    begin_with_disk();
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
    finish_with_disk();
}
END_TEST

TEST(a_change_goes_through_without_its_client)
{
    char target[100];
    begin_with_disk();
    uint64_t id = put("t", 1000);
    snprintf(target, sizeof(target), "/api/v1/jobs/%llu/kick", (unsigned long long)id);
    fake_disk_hold(disk, true);
    close(post_without_waiting(target));
    fake_disk_hold(disk, false);
    COME_TRUE(!jobs_has_ops(jobs));
    ck_assert_int_eq(state_of(id), JOB_READY);
    json_decref(get_json("/api/v1/tubes/t"));
    finish_with_disk();
}
END_TEST

TEST(an_upgrade_answers_changes_under_way)
{
    begin_with_disk();
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
    finish_with_disk();
}
END_TEST

/* ---- draining ------------------------------------------------------------------------------ */

static void expect_drain(json_t *json, bool draining, bool switched)
{
    ck_assert(json_is_true(at(json, "draining")) == draining);
    ck_assert(json_is_true(at(json, "switched")) == switched);
    json_decref(json);
}

TEST(draining_is_switched_on_and_off_whatever_the_end_of_the_daemon_does)
{
    static const char on[] = "/api/v1/drain?jobs=on", off[] = "/api/v1/drain?jobs=off";
    begin_jobs();
    expect_drain(get_json("/api/v1/drain"), false, false);
    expect_error("POST", on, "", 401, "token");
    expect_error("POST", "/api/v1/drain", BEARER, 400, "jobs=on or jobs=off is missing");
    expect_error("POST", "/api/v1/drain?jobs=maybe", BEARER, 400, "off or on");
    expect_error("GET", "/api/v1/drain?jobs=on", "", 400, "no parameter");
    expect_drain(get_json("/api/v1/drain"), false, false);
    expect_drain(ask_json("POST", on, BEARER, 200), true, true);
    expect_drain(ask_json("POST", on, BEARER, 200), true, true);
    services_drain(services, true);
    expect_drain(ask_json("POST", off, BEARER, 200), true, false);
    expect_drain(ask_json("POST", on, BEARER, 200), true, true);
    services_drain(services, false);
    expect_drain(get_json("/api/v1/drain"), true, true);
    struct http_reply r = http_ask(where, "GET", "/metrics", "");
    ck_assert_ptr_nonnull(strstr(r.body, "\ncounterd_jobs_draining 1\n"));
    reply_free(&r);
    json_t *stats = get_json("/api/v1/stats");
    ck_assert(json_is_true(at(at(at(stats, "resources"), "tubes"), "draining")));
    json_decref(stats);
    expect_drain(ask_json("POST", off, BEARER, 200), false, false);
    finish_jobs();
}
END_TEST

/* ---- metrics ------------------------------------------------------------------------------- */

/* Checks that the metrics have this line, or not. */
static void expect_line(const char *metrics, const char *line, bool has)
{
    const char *p = strstr(metrics, line);
    ck_assert_msg((p != NULL) == has, "%s\n%s", line, metrics);
}

TEST(metrics_have_the_largest_tubes_and_the_rest)
{
    char name[20];
    begin_jobs();
    for (unsigned i = 0; i < 60; i++) {
        snprintf(name, sizeof(name), "t%u", i);
        for (unsigned n = 0; n <= i; n++)
            put(name, 0);
    }
    bury(put("t3", 0));
    struct http_reply r = http_ask(where, "GET", "/metrics", "");
    expect_line(r.body, "\ncounterd_tube_jobs{tube=\"t59\",state=\"ready\"} 60\n", true);
    expect_line(r.body, "\ncounterd_tube_jobs{tube=\"t10\",state=\"ready\"} 11\n", true);
    expect_line(r.body, "\ncounterd_tube_jobs{tube=\"t9\",state=", false);
    expect_line(r.body, "\ncounterd_tube_jobs{tube=\"default\",state=", false);
    expect_line(r.body, "\ncounterd_tube_jobs{tube=\"\",state=\"ready\"} 55\n", true);
    expect_line(r.body, "\ncounterd_tube_jobs{tube=\"\",state=\"buried\"} 1\n", true);
    expect_line(r.body, "\ncounterd_tube_waiting{tube=\"\"} 0\n", true);
    expect_line(r.body, "\ncounterd_tube_puts_total{tube=\"t59\"} 60\n", true);
    expect_line(r.body, "\ncounterd_tube_puts_total{tube=\"\"}", false);
    expect_line(r.body, "\ncounterd_jobs{state=\"ready\"} 1830\n", true);
    expect_line(r.body, "\ncounterd_jobs_tubes 61\n", true);
    expect_line(r.body, "\ncounterd_jobs_puts_total 1831\n", true);
    expect_line(r.body, "samples are left out", false);
    reply_free(&r);
    finish_jobs();
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(draining_is_switched_on_and_off_whatever_the_end_of_the_daemon_does),
    UNIT(tubes_are_listed_and_shown),
    UNIT(tubes_are_listed_and_shown_with_a_store),
    UNIT(every_tube_is_listed_once_while_others_come_and_go),
    UNIT(jobs_are_listed_page_by_page),
    UNIT(jobs_are_listed_page_by_page_with_a_store),
    UNIT(bodies_are_shown_as_text_or_base64),
    UNIT(bodies_are_shown_as_text_or_base64_with_a_store),
    UNIT(wrong_parameters_are_named_with_what_would_be_right),
    UNIT(jobs_are_kicked_and_deleted),
    UNIT(jobs_are_kicked_and_deleted_with_a_store),
    UNIT(tubes_are_paused_and_cleared),
    UNIT(tubes_are_paused_and_cleared_with_a_store),
    UNIT(a_body_is_read_from_the_store),
    UNIT(a_change_that_cannot_be_written_is_not_made),
    UNIT(steps_that_are_done_stay_done),
    UNIT(others_are_served_while_a_commit_takes_long),
    UNIT(a_change_goes_through_without_its_client),
    UNIT(an_upgrade_answers_changes_under_way),
    UNIT(metrics_have_the_largest_tubes_and_the_rest),
};

UNIT_MAIN("jobs_api", tests)
