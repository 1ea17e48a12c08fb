/*
 * load_test.c - the admin interface and the workers under load at the same time, and the effect of
 * one on the other. Under TSan it shows that each thread touches only its own data.
 */
#include "t/unit/admin/fixture.h"

static _Atomic bool over;
static _Atomic unsigned cycles;

/* Locks, waits and disconnects, again and again. */
static void *work(void *arg)
{
    unsigned number = (unsigned)(uintptr_t)arg;
    while (!atomic_load(&over)) {
        int a = text_connect(), b = text_connect();
        char line[64];
        snprintf(line, sizeof(line), "ACQ4ME k%u 3 99 0.05", number % 3);
        for (int i = 0; i < 10; i++) {
            (void)try_send(a, line, strlen(line)); /* the admin may have killed the connection */
            (void)try_send(a, "\nRELEASE\n", 9);
            (void)try_send(b, line, strlen(line));
            (void)try_send(b, "\nSTATS FULL\n", 12);
            atomic_fetch_add(&cycles, 1);
        }
        close(a);
        close(b);
    }
    return NULL;
}

/* Requests everything that reads the workers' state, and kills connections it lists. */
static void *look(void *arg)
{
    (void)arg;
    static const char *const targets[] = {
        "/metrics",
        "/api/v1/stats",
        "/api/v1/history",
        "/api/v1/names",
        "/api/v1/names?sort=waiting",
        "/api/v1/names/k0",
        "/api/v1/names/k1",
        "/api/v1/connections?limit=1000",
        "/api/v1/contended?by=waiting",
        "/api/v1/contended?by=refused",
    };
    for (unsigned i = 0; !atomic_load(&over); i++) {
        struct http_reply r = http_ask(where, "GET", targets[i % ARRAY_SIZE(targets)], "");
        ck_assert_msg(r.status == 200 || r.status == 404, "%d", r.status);
        const char *tag = strstr(r.body, "\"connection\":\"");
        char target[128];
        if (tag && i % 3 == 0) {
            tag += 14;
            snprintf(target, sizeof(target), "/api/v1/connections/%.*s/kill",
                     (int)strcspn(tag, "\""), tag);
            reply_free(&r);
            r = http_ask(where, "POST", target, BEARER);
            ck_assert(r.status == 200 || r.status == 404 ||
                      r.status == 401); /* reloads change the token */
        }
        reply_free(&r);
    }
    return NULL;
}

TEST(everything_is_asked_for_while_the_workers_work)
{
    enum { WORKING = 4, LOOKING = 4 };
    begin(2, TOKEN);
    log_set_level(LOG_LEVEL_WARNING);
    pthread_t threads[WORKING + LOOKING];
    for (uintptr_t i = 0; i < WORKING; i++)
        ck_assert(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < LOOKING; i++)
        ck_assert(pthread_create(&threads[WORKING + i], NULL, look, NULL) == 0);
    COME_TRUE(atomic_load(&cycles) >= 500);
    for (int i = 0; i < 20; i++) {
        admin_set_token(admin, i % 2 ? TOKEN : "other");
        rest_ms(1);
    }
    atomic_store(&over, true);
    for (int i = 0; i < WORKING + LOOKING; i++)
        ck_assert(pthread_join(threads[i], NULL) == 0);
    finish();
}
END_TEST

/* ---- many names ------------------------------------------------------------------------------ */

static void take(struct holder *holder, const void *name, size_t len)
{
    struct acquire a = {.name = {.data = name, .len = len}, .units = 1, .limit = 1};
    struct holding *held;
    struct waiter *waiter;
    ck_assert(table_acquire(services->table, holder, &a, clock_now(), &held, &waiter) == TABLE_OK);
}

static void leave(struct holder *holder)
{
    results out;
    mail_list_init(&out);
    table_close(services->table, holder, clock_now(), NULL, &out);
}

TEST(others_are_served_while_all_names_are_looked_at)
{
    enum { NAMES = 200000 };
    begin(1, NULL);
    struct holder holder;
    holder_init(&holder, 0x00f00001, 0);
    for (int i = 0; i < NAMES; i++)
        take(&holder, &i, sizeof(i));
    int slow = http_connect(where);
    http_send(slow, "GET /api/v1/names?sort=name HTTP/1.1\r\n\r\n");
    /* At least one answer must overtake the slow one, which takes hundreds of steps. */
    struct pollfd p = {.fd = slow, .events = POLLIN};
    unsigned between = 0;
    do {
        expect_get(where, "/healthz", "ok\n");
        between++;
    } while (poll(&p, 1, 0) == 0);
    ck_assert_uint_gt(between, 1);
    struct http_reply r = read_reply(slow, false);
    json_t *json = json_loadb(r.body, r.len, 0, NULL);
    ck_assert_int_eq((int)number_at(json, "examined"), NAMES);
    ck_assert_uint_eq(json_array_size(at(json, "names")), 100);
    json_decref(json);
    reply_free(&r);
    close(slow);
    leave(&holder);
    finish();
}
END_TEST

UNIT_MAIN("load")
