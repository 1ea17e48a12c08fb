/*
 * api_test.c - what transcripts/api.ctl cannot show of the API: holders of many
 * kinds, bounds of what is counted at once, and refused memory.
 */
#include "t/unit/admin/fixture.h"

/* ---- holders of the test: in the table, without a connection --------------------------------- */

/* The id of a place so high that no connection has it. */
#define STRANGER(i) (0x00f00000u + (i))

static struct holder strangers[3000];

static void take(struct holder *holder, uint32_t units, uint32_t limit, const void *name,
                 size_t len)
{
    struct acquire a = {.name = {.data = name, .len = len}, .units = units, .limit = limit};
    struct holding *held;
    struct waiter *waiter;
    ck_assert(table_acquire(services->table, holder, &a, clock_now(), &held, &waiter) == TABLE_OK);
}

static void stranger_takes(unsigned i, uint32_t units, uint32_t limit, const char *name)
{
    if (!strangers[i].id)
        holder_init(&strangers[i], STRANGER(i), STRANGER(i));
    take(&strangers[i], units, limit, name, strlen(name));
}

static void strangers_leave(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(strangers); i++) {
        results out;
        mail_list_init(&out);
        if (strangers[i].id)
            table_close(services->table, &strangers[i], clock_now(), NULL, &out);
        strangers[i].id = 0;
        ck_assert(out.first == NULL);
    }
}

/* ---- one name -------------------------------------------------------------------------------- */

/* Connects from 127.0.0.`host` and sends a line that is answered LOCKED. */
static int text_from(unsigned host, const char *line)
{
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK + host - 1)};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port =
                                 htons((uint16_t)atoi(strrchr(listeners[0].where, ':') + 1)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), at_connect = 1;
    /* Bind at connect: ports of connections that ended just now may still be taken. */
    ck_assert(
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &at_connect, sizeof(at_connect)) == 0);
    ck_assert(bind(fd, (struct sockaddr *)&from, sizeof(from)) == 0);
    ck_assert(connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    text_say(fd, line, "LOCKED");
    return fd;
}

static _Atomic bool over;

/* Clients from .1 hold k and leave; clients from .2, which do not hold it, get their places. */
static void *come_and_go(void *arg)
{
    (void)arg;
    while (!atomic_load(&over)) {
        close(text_from(1, "ACQ4ME k 99 999 0"));
        close(text_from(2, "ACQ4ME other 99 999 0"));
    }
    return NULL;
}

/* The ledger stores ids of holders; by the time of the look-up others may have these ids. */
TEST(who_does_not_hold_is_never_shown_as_a_holder)
{
    begin(1, NULL);
    pthread_t threads[2];
    stranger_takes(0, 1, 99, "k"); /* without a connection */
    for (int i = 0; i < 2; i++)
        ck_assert(pthread_create(&threads[i], NULL, come_and_go, NULL) == 0);
    unsigned shown = 0;
    for (int i = 0; i < 500; i++) {
        json_t *json = get_json("/api/v1/names/k"), *one;
        size_t k;
        json_array_foreach(at(json, "holders"), k, one)
        {
            const char *client = text_at(one, "client");
            ck_assert_msg(strncmp(client, "127.0.0.1:", 10) == 0, "%s holds nothing", client);
            shown++;
        }
        json_decref(json);
    }
    ck_assert_uint_gt(shown, 0);
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++)
        ck_assert(pthread_join(threads[i], NULL) == 0);
    strangers_leave();
    finish();
}
END_TEST

/* More holders than the page shows: some are connections, most are not. */
TEST(of_many_holders_the_oldest_are_shown)
{
    enum { CLIENTS = 300 };
    begin(2, NULL);
    int fds[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = text_connect();
        text_say(fds[i], "ACQ4ME k 9999 99999 0", "LOCKED");
    }
    json_t *json = get_json("/api/v1/names/k");
    ck_assert_uint_eq(json_array_size(at(json, "holders")), CLIENTS);
    double first = number_at(json, "holders.0.since");
    json_decref(json);
    for (unsigned i = 0; i < ARRAY_SIZE(strangers); i++)
        stranger_takes(i, 1, 9999, "k");
    json = get_json("/api/v1/names/k");
    ck_assert_int_eq((int)number_at(json, "holders_total"), CLIENTS + ARRAY_SIZE(strangers));
    ck_assert_uint_eq(json_array_size(at(json, "holders")), CLIENTS); /* the oldest of 3,300 */
    ck_assert_double_eq_tol(number_at(json, "holders.0.since"), first, 0.01);
    json_decref(json);
    strangers_leave();
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
    finish();
}
END_TEST

/* Names that are counted for a question to a worker, and the most so far. */
static _Atomic unsigned counted, counted_most;

uint32_t __real_holder_count(const struct table *t, const struct holder *holder, uint32_t max);
uint32_t __wrap_holder_count(const struct table *t, const struct holder *holder, uint32_t max);
uint32_t __wrap_holder_count(const struct table *t, const struct holder *holder, uint32_t max)
{
    uint32_t count = __real_holder_count(t, holder, max);
    atomic_fetch_add(&counted, count);
    if (atomic_load(&counted) > atomic_load(&counted_most))
        atomic_store(&counted_most, atomic_load(&counted));
    return count;
}

void __real_worker_ask(struct worker *worker, void (*fn)(struct worker *worker, void *arg),
                       void *arg);
void __wrap_worker_ask(struct worker *worker, void (*fn)(struct worker *worker, void *arg),
                       void *arg);
void __wrap_worker_ask(struct worker *worker, void (*fn)(struct worker *worker, void *arg),
                       void *arg)
{
    atomic_store(&counted, 0);
    __real_worker_ask(worker, fn, arg);
}

/* Takes a unit of a name. */
static void counter_take(int fd, const char *name)
{
    size_t len = strlen(name);
    uint8_t request[64] = {0x90, 2, [7] = (uint8_t)(10 + len), [15] = 1, [19] = 99}, reply[16];
    request[21] = (uint8_t)len;
    memcpy(request + 22, name, len);
    ck_assert(try_send(fd, request, 22 + len));
    for (size_t got = 0; got < sizeof(reply);)
        got += receive_some(fd, reply + got, sizeof(reply) - got);
    ck_assert_uint_eq(reply[2], 0);
}

TEST(names_of_connections_are_counted_some_at_a_time)
{
    enum { CLIENTS = 4, EACH = 1000, MOST = 2100 };
    begin(1, NULL);
    int fds[CLIENTS];
    for (unsigned i = 0; i < CLIENTS * EACH; i++) {
        char name[16];
        unsigned client = i / EACH;
        snprintf(name, sizeof(name), "%u", i);
        if (i % EACH == 0)
            fds[client] = http_connect(listeners[1].where);
        counter_take(fds[client], i % EACH ? name : "k");
    }
    json_t *json = get_json("/api/v1/connections");
    ck_assert_uint_eq(json_array_size(at(json, "connections")), CLIENTS);
    ck_assert_int_eq((int)number_at(json, "connections.3.holds"), EACH);
    json_decref(json);
    ck_assert_uint_le(atomic_load(&counted_most), MOST);
    json = get_json("/api/v1/names/k");
    ck_assert_uint_eq(json_array_size(at(json, "holders")), CLIENTS);
    json_decref(json);
    ck_assert_uint_le(atomic_load(&counted_most), MOST);
    ck_assert_uint_ge(atomic_load(&counted_most), EACH);
    for (unsigned i = 0; i < CLIENTS; i++)
        close(fds[i]);
    finish();
}
END_TEST

TEST(sums_of_centuries_are_exact)
{
    begin(1, NULL);
    struct service *service = services_protocol(services, "poolcounter")->service;
    for (int i = 0; i < 4; i++)
        histogram_add(&service_counts_of(service, 0)->holds, INT64_MAX, 1);
    struct http_reply r = http_ask(where, "GET", "/metrics", "");
    ck_assert_ptr_nonnull(strstr(r.body, "\ncounterd_hold_duration_seconds_sum"
                                         "{protocol=\"poolcounter\"} 36893488147.419103228\n"));
    reply_free(&r);
    finish();
}
END_TEST

/* ---- no memory ------------------------------------------------------------------------------- */

static _Atomic int until_failure; /* allocations until one fails; below 0: none fails */

static void *failing_malloc(size_t size)
{
    return atomic_load(&until_failure) >= 0 && atomic_fetch_sub(&until_failure, 1) == 0
               ? NULL
               : malloc(size);
}

TEST(without_memory_an_answer_says_so)
{
    static const char *const targets[] = {"/api/v1/stats",
                                          "/api/v1/history?seconds=3",
                                          "/api/v1/contended?by=peak",
                                          "/api/v1/names",
                                          "/api/v1/names?sort=name",
                                          "/api/v1/names/k",
                                          "/api/v1/connections",
                                          "/api/v1/config",
                                          "/api/v1/loglevel"};
    atomic_store(&until_failure, -1);
    json_set_alloc_funcs(failing_malloc, free);
    begin(1, NULL);
    int a = text_connect(), b = text_connect();
    text_say(a, "ACQ4ME k 1 9 0", "LOCKED");
    text_say(b, "ACQ4ME k 1 9 100", NULL);
    for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
        int fine = 0;
        for (int n = 0; fine < 3; n += i == 0 ? 7 : 1) {
            atomic_store(&until_failure, n);
            struct http_reply r = http_ask(where, "GET", targets[i], "");
            atomic_store(&until_failure, -1);
            ck_assert_msg(r.status == 200 || r.status == 503, "%s: %d", targets[i], r.status);
            json_t *json = json_loadb(r.body, r.len, 0, NULL);
            ck_assert_msg(json != NULL, "%s: %s", targets[i], r.body);
            ck_assert((r.status == 503) == (json_object_get(json, "error") != NULL));
            fine += r.status == 200;
            json_decref(json);
            reply_free(&r);
            ck_assert_int_lt(n, 5000);
        }
    }
    close(a);
    close(b);
    finish();
}
END_TEST

UNIT_MAIN("api")
