/*
 * http_test.c - the HTTP server: requests whole and in pieces; answers at once, in steps, and by a
 * message of another thread; clients that occupy it or fill its memory.
 */
#include "net/http.h"

#include "base/log.h"
#include "t/unit/http_client.h"

#include <event2/event.h>
#include <event2/http.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* ---- time: it can be moved on, also for libevent --------------------------------------------- */

static _Atomic int64_t moved_ns;

int clock_gettime(clockid_t id, struct timespec *ts)
{
    if (syscall(SYS_clock_gettime, id, ts) != 0)
        return -1;
    int64_t ns = ts->tv_sec * NS_PER_S + ts->tv_nsec + atomic_load(&moved_ns);
    *ts = (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    return 0;
}

/* The server's second takes 20 ms. */
int __real_event_add(struct event *event, const struct timeval *tv) __attribute__((weak));
int __wrap_event_add(struct event *event, const struct timeval *tv);
int __wrap_event_add(struct event *event, const struct timeval *tv)
{
    static const struct timeval soon = {.tv_usec = 20000};
    return __real_event_add(event, tv && tv->tv_sec == 1 ? &soon : tv);
}

/* ---- a server -------------------------------------------------------------------------------- */

static struct http *http;
static _Atomic unsigned handled, steps, ended, seconds;
static _Atomic bool let_go; /* lets jobs without a limit of steps answer */

struct job {
    unsigned left; /* steps to go; UINT_MAX: until let_go */
};

static void step(void *arg, struct http_request *request)
{
    struct job *job = arg;
    atomic_fetch_add(&steps, 1);
    if (job->left == UINT_MAX ? !atomic_load(&let_go) : job->left-- > 0)
        return;
    http_answer(request, 200, "text/plain", strdup("later\n"), 6);
}

static void end(void *arg)
{
    free(arg);
    atomic_fetch_add(&ended, 1);
}

/* Where answers are pending. */
#define LIMIT_NS (30 * NS_PER_S)
#define WAITING  100

struct answer {
    struct message message; /* first */
    char text[32];
};

static _Atomic unsigned undone, delivered;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the desk */
static struct http_pending *desk[WAITING];
static unsigned waiting;

static unsigned on_desk(void)
{
    CHECK(pthread_mutex_lock(&lock) == 0);
    unsigned count = waiting;
    CHECK(pthread_mutex_unlock(&lock) == 0);
    return count;
}

/* The newest, or NULL. */
static struct http_pending *take_from_desk(void)
{
    CHECK(pthread_mutex_lock(&lock) == 0);
    struct http_pending *pending = waiting > 0 ? desk[--waiting] : NULL;
    CHECK(pthread_mutex_unlock(&lock) == 0);
    return pending;
}

static void pend(struct http_request *request)
{
    struct http_pending *pending = http_pend(request, LIMIT_NS);
    if (!pending)
        return;
    CHECK(pthread_mutex_lock(&lock) == 0);
    CHECK(waiting < WAITING);
    desk[waiting++] = pending;
    CHECK(pthread_mutex_unlock(&lock) == 0);
}

static void deliver(struct mail *mail, void *reader)
{
    struct answer *answer = (struct answer *)mail;
    struct http_request *request = http_by_tag(reader, answer->message.to);
    atomic_fetch_add(request ? &delivered : &undone, 1);
    if (request)
        http_answer(request, 200, "text/plain", strdup(answer->text), strlen(answer->text));
    free(answer);
}

/* Sends an answer to the newest on the desk. False: the server did not take it. */
static bool post(const char *text)
{
    struct http_pending *pending = take_from_desk();
    CHECK(pending);
    struct answer *answer = calloc(1, sizeof(*answer));
    CHECK(answer);
    answer->message.mail.deliver = deliver;
    snprintf(answer->text, sizeof(answer->text), "%s", text);
    bool taken = http_post(&pending, &answer->message);
    CHECK(!pending);
    if (!taken)
        free(answer);
    return taken;
}

static void handle(void *arg, struct http_request *request)
{
    (void)arg;
    static const char *const methods[] = {"GET", "HEAD", "POST", "OTHER"};
    const char *path = http_path(request), *query = http_query(request);
    size_t number = query ? strtoul(query, NULL, 10) : 0;
    atomic_fetch_add(&handled, 1);
    if (strcmp(path, "/ok") == 0) {
        http_answer_static(request, 200, "text/plain", "ok\n", 3);
    } else if (strcmp(path, "/slow") == 0) {
        atomic_fetch_add(&moved_ns, 2 * HTTP_PATIENCE_NS);
        http_answer_static(request, 200, "text/plain", "slow\n", 5);
    } else if (strcmp(path, "/empty") == 0) {
        http_answer(request, 200, "text/plain", malloc(1), 0);
    } else if (strcmp(path, "/nothing") == 0) {
        http_answer(request, 200, "text/plain", NULL, 0);
    } else if (strcmp(path, "/same") == 0) {
        http_set_header(request, "ETag", "\"1\"");
        http_set_header(request, "Cache-Control", "no-cache");
        http_answer_static(request, 304, "text/plain", "", 0);
    } else if (strcmp(path, "/big") == 0) {
        char *body = malloc(number);
        memset(body, 'x', number);
        http_answer(request, 200, "text/plain", body, number);
    } else if (strcmp(path, "/later") == 0 || strcmp(path, "/held") == 0) {
        struct job *job = malloc(sizeof(*job));
        job->left = path[1] == 'h' ? UINT_MAX : (unsigned)number;
        http_later(request, step, end, job);
    } else if (strcmp(path, "/pend") == 0) {
        pend(request);
    } else if (strcmp(path, "/error") == 0) {
        http_error(request, 418, "a \"tea\\pot\" of %s\x01\xff", "clay");
    } else {
        char *text = NULL;
        const char *asked = http_asked(request, "x-asked"), *peer = http_peer(request);
        int len = asprintf(&text, "%s %s %s %s %d", methods[http_method(request)], path,
                           query ? query : "-", asked ? asked : "-",
                           strncmp(peer, "127.0.0.1:", 10) == 0);
        http_answer(request, 200, "text/plain", text, (size_t)len);
    }
}

static void on_second(void *arg)
{
    (void)arg;
    atomic_fetch_add(&seconds, 1);
}

static struct listener door;

static struct sockaddr_storage loopback(in_port_t port)
{
    struct sockaddr_storage sa = {0};
    *(struct sockaddr_in *)&sa = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return sa;
}

static const char *serve(void)
{
    struct sockaddr_storage sa = loopback(0);
    struct http_config config = {.listeners = &door,
                                 .listener_count = 1,
                                 .name = "admin",
                                 .handle = handle,
                                 .every_second = on_second};
    ck_assert(
        listener_open(&door, NULL, (struct sockaddr *)&sa, sizeof(struct sockaddr_in), false));
    char reason[HTTP_REASON_SIZE] = "";
    http = http_new(&config, reason);
    ck_assert_msg(http && http_prepare(http), "%s", reason);
    http_resume(http);
    return door.where;
}

/* ---- requests and answers -------------------------------------------------------------------- */

#define REQUEST(method, target, headers) method " " target " HTTP/1.1\r\n" headers "\r\n"
#define GET(target)                      REQUEST("GET", target, "")
#define POST(headers, body)              REQUEST("POST", "/p", headers) body
#define WRONG(status)                    #status " {\"error\":{\"status\":" #status ",\"reason\":\"*\"}}\n"

/* What is sent on a connection, and its answers: status and body, and a header of the last. `*` is
 * anything; a connection is closed after WRONG. */
static const struct {
    const char *sent, *answers[3], *header;
} exchanges[] = {
    {GET("/a%2Fb%00?x=%41&y"), {"200 GET /a%2Fb%00 x=%41&y - 1"}, NULL},
    {GET("/") GET("/?"), {"200 GET / - - 1", "200 GET /  - 1"}, NULL},
    {POST("X-Asked: v w\r\nContent-Length: 5\r\n", "hello"), {"200 POST /p - v w 1"}, NULL},
    {POST("", ""), {"200 POST /p - - 1"}, NULL}, /* without a length there is no body */
    {REQUEST("DELETE", "/p", ""), {"200 OTHER /p - - 1"}, NULL},
    {GET("/ok"), {"200 ok\n"}, "Content-Type: text/plain"},
    {GET("/ok"), {"200 ok\n"}, "Cache-Control: no-store"},
    {GET("/ok"), {"200 ok\n"}, "X-Content-Type-Options: nosniff"},
    {GET("/same"), {"304 "}, "ETag: \"1\""},
    {GET("/same"), {"304 "}, "Cache-Control: no-cache"},
    {GET("/empty"), {"200 "}, "Content-Length: 0"},
    {REQUEST("HEAD", "/big?70000", ""), {"200 "}, "Content-Length: 70000"},
    {REQUEST("HEAD", "/big?70000", "") GET("/ok"), {"200 ", "200 ok\n"}, NULL},
    {GET("/nothing"), {"503 {\"error\":{\"status\":503,\"reason\":\"no memory\"}}\n"}, NULL},
    {GET("/error"),
     {"418 {\"error\":{\"status\":418,\"reason\":"
      "\"a \\\"tea\\\\pot\\\" of clay\\\\x01\\\\xff\"}}\n"},
     "Content-Type: application/json"},
    {REQUEST("GET", "/ok", "Connection: close\r\n"), {"200 ok\n"}, "Connection: close"},
    {"GET /ok HTTP/1.0\r\n\r\n", {"200 ok\n"}, NULL},
    {GET("/later?2") GET("/x") GET("/later?0"),
     {"200 later\n", "200 GET /x - - 1", "200 later\n"},
     NULL},
    {"hello\r\n\r\n", {WRONG(400)}, "Content-Type: application/json"},
    {"GET /ok\r\n\r\n", {WRONG(400)}, "Cache-Control: no-store"},
    {"GET /ok HTTP/2.0\r\n\r\n", {WRONG(400)}, NULL},
    {"GET /ok HTTP/1.1 x\r\n\r\n", {WRONG(400)}, NULL},
    {"GET /ok HTTP/1.1\r\nno colon\r\n\r\n", {WRONG(400)}, NULL},
    {"GET http://[ HTTP/1.1\r\n\r\n", {WRONG(400)}, NULL},
    {"CONNECT a HTTP/1.1\r\nno colon\r\n\r\n", {WRONG(400)}, NULL},
    {REQUEST("BREW", "/ok", ""), {WRONG(501)}, NULL},
    {REQUEST("get", "/ok", ""), {WRONG(501)}, NULL},
    {POST("Content-Length: -1\r\n", ""), {WRONG(400)}, NULL},
    {POST("Content-Length: x\r\n", ""), {WRONG(400)}, NULL},
    {POST("Content-Length: 4097\r\n", ""), {WRONG(413)}, NULL},
    {POST("Content-Length: 9223372036854775807\r\n", ""), {WRONG(413)}, NULL},
    {POST("Transfer-Encoding: chunked\r\n", "fffff\r\n"), {WRONG(413)}, NULL},
    {POST("Transfer-Encoding: chunked\r\n", "-1\r\n"), {WRONG(413)}, NULL},
    {"POST /ok HTTP/-1.1\r\nContent-Length: 4097\r\n\r\n", {WRONG(413)}, NULL},
    {POST("Expect: tea\r\nContent-Length: 4\r\n", "abcd"), {WRONG(417)}, NULL},
    {GET("/ok") "hello\r\n\r\n", {"200 ok\n", WRONG(400)}, NULL},
    {GET("/later?3") "hello\r\n\r\n",
     {"200 later\n", WRONG(400)},
     "Content-Type: application/json"},
    {GET("/big?200000") "hello\r\n\r\n", {"200 xxx*", WRONG(400)}, NULL},
};

static void expect_reply(int fd, int status, const char *body)
{
    struct http_reply r = read_reply(fd, false);
    ck_assert_msg(r.status == status && strstr(r.body, body), "%d %s", r.status, r.body);
    if (status != 200) {
        char start[64];
        snprintf(start, sizeof(start), "{\"error\":{\"status\":%d,\"reason\":\"", status);
        ck_assert_msg(strncmp(r.body, start, strlen(start)) == 0, "%s", r.body);
    }
    reply_free(&r);
}

/* One exchange, in pieces of `step` bytes. */
static void exchange(const char *where, size_t row, size_t step)
{
    const char *sent = exchanges[row].sent, *header = exchanges[row].header;
    int fd = http_connect(where);
    char value[64] = "", name[64] = "", byte;
    for (size_t at = 0, len = strlen(sent); at < len; at += step) {
        (void)try_send(fd, sent + at, len - at < step ? len - at : step);
        if (step < len)
            rest_ms(1);
    }
    for (unsigned i = 0; i < 3 && exchanges[row].answers[i]; i++) {
        struct http_reply r = read_reply(fd, i == 0 && strncmp(sent, "HEAD", 4) == 0);
        char *got = NULL;
        ck_assert(asprintf(&got, "%d %s", r.status, r.body ? r.body : "") > 0);
        ck_assert_msg(fnmatch(exchanges[row].answers[i], got, FNM_NOESCAPE) == 0, "%s: %.200s",
                      sent, got);
        if (header && !exchanges[row].answers[i + 1]) {
            snprintf(name, sizeof(name), "%.*s", (int)strcspn(header, ":"), header);
            ck_assert_str_eq(reply_header(&r, name, value, sizeof(value)),
                             header + strlen(name) + 2);
        }
        if (strstr(got, "\"reason\":\"") && r.status != 418 && r.status != 503)
            ck_assert_uint_eq(receive_some(fd, &byte, 1), 0);
        free(got);
        reply_free(&r);
    }
    close(fd);
}

TEST(requests_get_their_answers)
{
    const char *where = serve();
    int held = http_connect(where); /* others are answered in steps meanwhile */
    http_send(held, GET("/held"));
    COME_TRUE(atomic_load(&steps) > 0);
    for (size_t i = 0; i < ARRAY_SIZE(exchanges); i++) {
        exchange(where, i, SIZE_MAX / 2);
        exchange(where, i, i % 3 ? 17 : 1);
    }
    atomic_store(&let_go, true);
    expect_reply(held, 200, "later\n");
    close(held);
    http_free(&http);
    ck_assert_uint_eq(atomic_load(&ended), 7); /* with those of /later */
    ck_assert(http == NULL);
    http_free(&http);
}

/* A client goes: it closes, sends nothing more, or resets its connection. */
static void go(int fd, unsigned how)
{
    struct linger reset = {.l_onoff = 1};
    if (how == 1) {
        shutdown(fd, SHUT_WR);
        return;
    }
    if (how == 2)
        ck_assert(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)) == 0);
    close(fd);
}

TEST(steps_end_when_the_client_goes)
{
    const char *where = serve();
    for (unsigned i = 0; i < 3; i++) {
        int fd = http_connect(where);
        http_send(fd, GET("/held"));
        COME_TRUE(atomic_load(&handled) == i + 1);
        go(fd, i);
        COME_TRUE(atomic_load(&ended) == i + 1);
        if (i == 1)
            close(fd);
    }
    expect_get(where, "/ok", "ok\n");
    http_free(&http);
}

TEST(ending_ends_what_is_under_way)
{
    const char *where = serve();
    int fds[6];
    static const char *const sent[] = {"",
                                       "GET /o",
                                       GET("/held"),
                                       "GET /big?9000000 HTTP/1.1\r\n\r\n",
                                       "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n1",
                                       "\r\n"};
    for (int i = 0; i < 6; i++) {
        fds[i] = http_connect(where);
        http_send(fds[i], sent[i]);
    }
    COME_TRUE(atomic_load(&handled) == 2);
    http_free(&http);
    ck_assert_uint_eq(atomic_load(&ended), 1);
    for (int i = 0; i < 6; i++)
        close(fds[i]);
}

TEST(continue_is_said_to_who_waits_for_it)
{
    const char *where = serve();
    int fd = http_connect(where);
    http_send(fd, "POST /x HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    struct http_reply r = read_reply(fd, true);
    ck_assert_int_eq(r.status, 100);
    reply_free(&r);
    http_send(fd, "abcd");
    expect_reply(fd, 200, "");
    close(fd);
    http_free(&http);
}

TEST(headers_may_take_so_much_and_no_more)
{
    static const char *const heads[] = {"GET /", "GET / HTTP/1.1\r\nX: "};
    const char *where = serve();
    size_t size = 1u << 20;
    char *request = malloc(size);
    for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
        memset(request, 'a', size);
        memcpy(request, heads[i], strlen(heads[i]));
        struct http_reply r = http_say(where, request, size); /* without a line end */
        ck_assert_int_eq(r.status, 400);
        reply_free(&r);
        memcpy(request + HTTP_HEADERS_MAX - 200, " HTTP/1.1\r\n\r\n", 13);
        if (i == 1)
            memcpy(request + HTTP_HEADERS_MAX - 200, "\r\n\r\n", 4);
        r = http_say(where, request, HTTP_HEADERS_MAX - 200 + (i ? 4 : 13));
        ck_assert_int_eq(r.status, 200);
        reply_free(&r);
    }
    /* Too many small headers. */
    size_t len = (size_t)snprintf(request, size, "GET / HTTP/1.1\r\n");
    while (len < size - 16)
        len += (size_t)snprintf(request + len, size - len, "a: b\r\n");
    struct http_reply r = http_say(where, request, len);
    ck_assert_int_eq(r.status, 400);
    reply_free(&r);
    free(request);
    http_free(&http);
}

/* ---- answers by message ---------------------------------------------------------------------- */

/* A client whose request is the only one on the desk. */
static int ask_pending(const char *where)
{
    unsigned before = on_desk();
    int fd = http_connect(where);
    http_send(fd, GET("/pend"));
    COME_TRUE(on_desk() == before + 1);
    return fd;
}

TEST(time_limit_is_answered_and_the_message_undone)
{
    const char *where = serve();
    int fd = ask_pending(where);
    atomic_fetch_add(&moved_ns, LIMIT_NS - 5 * NS_PER_S);
    unsigned before = atomic_load(&seconds);
    COME_TRUE(atomic_load(&seconds) >= before + 2);
    char byte;
    ck_assert(recv(fd, &byte, 1, MSG_DONTWAIT) < 0); /* not before its time */
    atomic_fetch_add(&moved_ns, 5 * NS_PER_S);
    expect_reply(fd, 504, "no answer came in time");
    http_send(fd, GET("/ok")); /* the connection goes on */
    expect_reply(fd, 200, "ok\n");
    /* A message that is late does not answer the next request; another one waits behind it. */
    http_send(fd, "GET /pend HTTP/1.1\r\n\r\nGET /ok HTTP/1.1\r\n\r\n");
    COME_TRUE(on_desk() == 2);
    struct http_pending *newer = take_from_desk();
    ck_assert(post("late\n"));
    COME_TRUE(atomic_load(&undone) == 1);
    desk[waiting++] = newer; /* the handler is idle: nobody else is at the desk */
    ck_assert(post("in time\n"));
    expect_reply(fd, 200, "in time\n");
    expect_reply(fd, 200, "ok\n");
    close(fd);
    http_free(&http);
}

TEST(client_that_goes_is_dropped_and_the_message_undone)
{
    const char *where = serve();
    unsigned before = open_descriptors();
    for (unsigned i = 0; i < 6; i++) {
        int fd = ask_pending(where);
        unsigned how = i % 3;
        bool is_noticed = i < 3; /* dropped before the message, else by it */
        char byte;
        if (how == 2)
            http_send(fd, GET("/behind")); /* bytes that stay unread */
        go(fd, how);
        if (is_noticed && how == 1)
            ck_assert_uint_eq(receive_some(fd, &byte, 1), 0);
        if (how == 1 && !is_noticed)
            close(fd);
        if (is_noticed && how != 1)
            COME_TRUE(open_descriptors() == before);
        ck_assert(post("for nobody\n"));
        COME_TRUE(atomic_load(&undone) == i + 1);
        if (how == 1 && is_noticed)
            close(fd);
        COME_TRUE(open_descriptors() == before);
    }
    expect_get(where, "/ok", "ok\n");
    ck_assert_uint_eq(atomic_load(&delivered), 0);
    http_free(&http);
}

TEST(half_of_the_places_stay_for_others)
{
    const char *where = serve();
    int fds[HTTP_PENDING_MAX];
    for (int i = 0; i < HTTP_PENDING_MAX; i++)
        fds[i] = ask_pending(where);
    for (int i = 0; i < 3; i++) {
        int fd = http_connect(where);
        http_send(fd, GET("/pend"));
        expect_reply(fd, 503, "32 requests wait");
        close(fd);
        expect_get(where, "/ok", "ok\n");
    }
    for (int i = 0; i < HTTP_PENDING_MAX; i++)
        ck_assert(post("at last\n"));
    for (int i = 0; i < HTTP_PENDING_MAX; i++) {
        expect_reply(fds[i], 200, "at last\n");
        close(fds[i]);
    }
    http_pause(http);
    ck_assert_uint_eq(http_met(http, HTTP_LIMIT_PENDING), 3);
    http_free(&http);
}

TEST(pause_refuses_what_is_pending_and_takes_no_message)
{
    const char *where = serve();
    int fd = ask_pending(where), idle = http_connect(where);
    http_pause(http);
    expect_reply(fd, 503, "the server ends or is being upgraded");
    ck_assert(!post("too late\n"));
    http_resume(http);
    for (int i = 0; i < 2; i++) {
        http_send(i ? idle : fd, GET("/pend"));
        COME_TRUE(on_desk() == 1);
        ck_assert(post("in time\n"));
        expect_reply(i ? idle : fd, 200, "in time\n");
    }
    close(fd);
    close(idle);
    http_free(&http);
}

/* ---- many at once ---------------------------------------------------------------------------- */

static _Atomic bool enough;
static _Atomic unsigned posted, refused;

static void *post_all(void *arg)
{
    (void)arg;
    while (!atomic_load(&enough) || on_desk() > 0) {
        struct http_pending *pending = take_from_desk();
        if (!pending) {
            rest_ms(1);
            continue;
        }
        struct answer *answer = calloc(1, sizeof(*answer));
        CHECK(answer);
        answer->message.mail.deliver = deliver;
        strcpy(answer->text, "x\n");
        bool taken = http_post(&pending, &answer->message);
        atomic_fetch_add(taken ? &posted : &refused, 1);
        if (!taken)
            free(answer);
    }
    return NULL;
}

/* Every message is taken and then delivered or undone, or refused, whatever clients and pauses do.
 */
TEST(no_message_is_lost_between_clients_that_go_and_pauses)
{
    const char *where = serve();
    pthread_t senders[2];
    for (int i = 0; i < 2; i++)
        ck_assert(pthread_create(&senders[i], NULL, post_all, NULL) == 0);
    for (int round = 0; round < 300; round++) {
        int fds[8];
        for (int i = 0; i < 8; i++) {
            fds[i] = http_connect(where);
            http_send(fds[i], GET("/pend"));
        }
        if (round % 20 == 19) {
            http_pause(http);
            http_resume(http);
        }
        for (int i = 0; i < 8; i++) {
            if (i % 4 > 0) {
                struct http_reply r = read_reply(fds[i], false);
                ck_assert(r.status == 200 || r.status == 503);
                reply_free(&r);
            }
            close(fds[i]);
        }
    }
    http_free(&http);
    atomic_store(&enough, true);
    for (int i = 0; i < 2; i++)
        ck_assert(pthread_join(senders[i], NULL) == 0);
    ck_assert_uint_eq(atomic_load(&posted), atomic_load(&delivered) + atomic_load(&undone));
    ck_assert_uint_gt(atomic_load(&delivered), 300);
}

/* ---- clients that are slow ------------------------------------------------------------------- */

/* How often a limit was met. */
static uint64_t met(enum http_limit limit)
{
    http_pause(http);
    uint64_t count = http_met(http, limit);
    http_resume(http);
    return count;
}

static void expect_end(int fd)
{
    char bytes[4096];
    while (receive_some(fd, bytes, sizeof(bytes)) > 0)
        ;
    close(fd);
}

TEST(client_that_sends_no_whole_request_in_time_is_closed)
{
    static const char *const sent[] = {
        "", "GET /ok HTTP/1.1\r\nX: ", "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n1", GET("/ok")};
    const char *where = serve();
    int fds[ARRAY_SIZE(sent)];
    for (size_t i = 0; i < ARRAY_SIZE(sent); i++) {
        fds[i] = http_connect(where);
        http_send(fds[i], sent[i]);
    }
    expect_reply(fds[3], 200, "ok\n");
    expect_get(where, "/ok", "ok\n"); /* now the time of the last one has begun, too */
    atomic_fetch_add(&moved_ns, HTTP_PATIENCE_NS / 2);
    for (int i = 0; i < 3; i++) { /* further bytes do not extend the time */
        expect_get(where, "/ok", "ok\n");
        if (i < 2)
            http_send(fds[1], "x");
    }
    atomic_fetch_add(&moved_ns, HTTP_PATIENCE_NS / 2);
    for (size_t i = 0; i < ARRAY_SIZE(sent); i++)
        expect_end(fds[i]);
    ck_assert_uint_eq(met(HTTP_LIMIT_LATE), ARRAY_SIZE(sent));
    expect_get(where, "/ok", "ok\n");
    http_free(&http);
}

TEST(client_that_does_not_take_its_answer_in_time_is_closed)
{
    const char *where = serve();
    int fd = http_connect_buffer(where, 4096);
    http_send(fd, "GET /big?9000000 HTTP/1.1\r\n\r\n");
    COME_TRUE(atomic_load(&handled) == 1);
    unsigned before = open_descriptors();
    atomic_fetch_add(&moved_ns, HTTP_PATIENCE_NS);
    COME_TRUE(open_descriptors() == before - 1);
    close(fd);
    http_free(&http);
}

/* Regression: evhttp took the time for it from the beginning of the loop's iteration. */
TEST(time_that_the_answer_took_is_not_the_clients)
{
    const char *where = serve();
    expect_get(where, "/slow", "slow\n");
    ck_assert_uint_eq(met(HTTP_LIMIT_LATE), 0);
    http_free(&http);
}

/* evhttp itself would read on while it writes an answer. */
TEST(client_that_takes_nothing_and_sends_much_is_not_read_from)
{
    const char *where = serve();
    int fd = http_connect_buffer(where, 4096);
    http_send(fd, "GET /big?9000000 HTTP/1.1\r\n\r\n");
    COME_TRUE(atomic_load(&handled) == 1);
    ck_assert(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    char bytes[65536] = {0};
    size_t sent = 0;
    for (int quiet = 0; quiet < 100;) {
        ssize_t n = send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
        if (n > 0)
            sent += (size_t)n;
        else
            rest_ms(1);
        quiet = n > 0 ? 0 : quiet + 1;
        ck_assert_uint_lt(sent, 64u << 20); /* the kernel's buffers hold a tenth of that */
    }
    close(fd);
    http_free(&http);
}

/* ---- clients that are many ------------------------------------------------------------------- */

TEST(idle_connections_keep_nobody_out)
{
    const char *where = serve();
    int fds[HTTP_CONNECTIONS_MAX];
    int64_t began_ms = real_ms();
    for (int i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        fds[i] = http_connect(where);
        if (i % 2)
            http_send(fds[i], "GET /o");
    }
    expect_get(where, "/ok", "ok\n");
    ck_assert_int_ge(real_ms() - began_ms, HTTP_CROWDED_NS / NS_PER_MS);
    ck_assert_uint_ge(met(HTTP_LIMIT_CROWDED), 1);
    for (int i = 0; i < HTTP_CONNECTIONS_MAX; i++)
        close(fds[i]);
    http_free(&http);
}

/*
 * A full server closes nobody while nobody waits. Regression: it closed the oldest connection after
 * a second, even where it had not yet read that client's request.
 */
TEST(full_house_stays_while_nobody_waits)
{
    const char *where = serve();
    int fds[HTTP_CONNECTIONS_MAX];
    for (int i = 0; i < HTTP_CONNECTIONS_MAX; i++)
        fds[i] = http_connect(where);
    rest_ms(HTTP_CROWDED_NS / NS_PER_MS * 3 / 2);
    for (int i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        http_send(fds[i], GET("/ok"));
        expect_reply(fds[i], 200, "");
        close(fds[i]);
    }
    http_free(&http);
}

/* Clients that ask again and again on connections that they keep. */
TEST(busy_connections_keep_nobody_out)
{
    const char *where = serve();
    int fds[HTTP_CONNECTIONS_MAX];
    bool may_go_on = true;
    for (int i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        fds[i] = http_connect(where);
        http_send(fds[i], GET("/ok"));
    }
    COME_TRUE(atomic_load(&handled) == HTTP_CONNECTIONS_MAX);
    int waits = http_connect(where);
    http_send(waits, GET("/ok"));
    int64_t until_ms = real_ms() + 20000;
    for (int i = 0; may_go_on && real_ms() < until_ms; i = (i + 1) % HTTP_CONNECTIONS_MAX) {
        struct http_reply r = read_reply(fds[i], false);
        may_go_on = r.status == 200 && !strstr(r.head, "\r\nConnection: close\r\n") &&
                    try_send(fds[i], GET("/ok"), 20);
        reply_free(&r);
    }
    ck_assert_msg(!may_go_on, "nobody makes a place");
    expect_reply(waits, 200, "");
    ck_assert_uint_ge(met(HTTP_LIMIT_CROWDED), 1);
    close(waits);
    for (int i = 0; i < HTTP_CONNECTIONS_MAX; i++)
        close(fds[i]);
    http_free(&http);
}

TEST(without_descriptors_it_waits_and_goes_on_later)
{
    const char *where = serve();
    int fd = http_connect(where);
    struct sockaddr_storage sa = loopback((in_port_t)atoi(strrchr(where, ':') + 1));
    struct rlimit limit, low;
    struct log_counts counts;
    http_send(fd, GET("/ok"));
    struct http_reply r = read_reply(fd, false);
    reply_free(&r);
    ck_assert(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    low = (struct rlimit){.rlim_cur = 3, .rlim_max = limit.rlim_max};
    int late = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert(setrlimit(RLIMIT_NOFILE, &low) == 0);
    ck_assert(connect(late, (struct sockaddr *)&sa, sizeof(struct sockaddr_in)) == 0);
    http_send(late, GET("/ok"));
    int64_t began_ms = real_ms();
    for (int i = 0; i < 50; i++) { /* a connected client is still served */
        http_send(fd, GET("/ok"));
        expect_reply(fd, 200, "");
        rest_ms(10);
    }
    log_get_counts(&counts); /* it tries ten times a second */
    ck_assert_uint_ge(counts.lines[LOG_LEVEL_WARNING] + counts.left_out, 2);
    ck_assert_uint_le(counts.lines[LOG_LEVEL_WARNING] + counts.left_out,
                      (uint64_t)(real_ms() - began_ms) / 100 + 2);
    ck_assert(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    expect_reply(late, 200, "");
    close(fd);
    close(late);
    http_free(&http);
}

UNIT_MAIN("http")
