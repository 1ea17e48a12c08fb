/*
 * http_letter_test.c - answers of the HTTP server that another thread sends by letter: in time, too
 * late, for a client that has gone, while the server is paused and when it has ended.
 */
#include "net/http.h"

#include "t/unit/http_client.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* ---- time: the server's can be moved on ------------------------------------------------------ */

static _Atomic int64_t moved_ns;

int64_t clock_mono_ns(void)
{
    struct timespec ts; /* not real_ms: its assertion wants memory */
    CHECK(clock_gettime(CLOCK_MONOTONIC, &ts) == 0);
    return ts.tv_sec * NS_PER_S + ts.tv_nsec + atomic_load(&moved_ns);
}

struct moment clock_now(void)
{
    return (struct moment){.mono_ns = clock_mono_ns(), .unix_s = time(NULL)};
}

/* ---- memory: a thread can have none ---------------------------------------------------------- */

static _Thread_local bool no_memory;

void *__real_malloc(size_t size) __attribute__((weak));
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return no_memory ? NULL : __real_malloc(size);
}

/* ---- a server, and a desk where answers are pending ------------------------------------------ */

#define LIMIT_NS (30 * NS_PER_S)
#define WAITING  100

struct answer {
    struct letter letter; /* first */
    char text[32];
};

static struct http *http;
static const char *where;
static _Atomic unsigned turns, undone, delivered;

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

static void end_at_once(void *job)
{
    (void)job;
}

static void answer_in_a_step(void *job, struct http_request *request)
{
    (void)job;
    http_answer_static(request, 200, "text/plain", "step\n", 5);
}

static void deliver(struct mail *mail, void *reader)
{
    struct answer *answer = (struct answer *)mail;
    struct http_request *request = http_by_tag(reader, answer->letter.to);
    atomic_fetch_add(request ? &delivered : &undone, 1);
    if (!request)
        ;
    else if (strcmp(answer->text, "step") == 0)
        http_later(request, answer_in_a_step, end_at_once, NULL);
    else if (strcmp(answer->text, "again") == 0)
        pend(request);
    else
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
    answer->letter.mail.deliver = deliver;
    snprintf(answer->text, sizeof(answer->text), "%s", text);
    bool taken = http_post(&pending, &answer->letter);
    CHECK(!pending);
    if (!taken)
        free(answer);
    return taken;
}

static void handle(void *arg, struct http_request *request)
{
    (void)arg;
    const char *path = http_path(request);
    if (strcmp(path, "/pend") == 0) {
        pend(request);
    } else if (strcmp(path, "/no-memory") == 0) {
        no_memory = true;
        struct http_pending *pending = http_pend(request, LIMIT_NS);
        no_memory = false;
        CHECK(!pending);
    } else {
        http_answer_static(request, 200, "text/plain", "ok\n", 3);
    }
}

static void count_second(void *arg)
{
    (void)arg;
    atomic_fetch_add(&turns, 1);
}

static void serve(void)
{
    struct sockaddr_storage sa = {0};
    socklen_t len = sizeof(struct sockaddr_in);
    *(struct sockaddr_in *)&sa =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct http_config config = {.addresses = &sa,
                                 .address_lens = &len,
                                 .address_count = 1,
                                 .name = "admin",
                                 .handle = handle,
                                 .every_second = count_second};
    char reason[HTTP_REASON_SIZE];
    http = http_new(&config, reason);
    ck_assert_msg(http != NULL, "%s", reason);
    ck_assert(http_start(http));
    where = http_where(http, 0);
}

/* A client whose request is the only one on the desk. */
static int ask_pending(void)
{
    unsigned before = on_desk();
    int fd = http_connect(where);
    http_send(fd, "GET /pend HTTP/1.1\r\n\r\n");
    COME_TRUE(on_desk() == before + 1);
    return fd;
}

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

/* ---- tests --------------------------------------------------------------------------------- */

static void *post_late(void *arg)
{
    rest_ms(20);
    CHECK(post(arg));
    return NULL;
}

TEST(another_thread_answers)
{
    serve();
    int fd = ask_pending();
    for (int i = 0; i < 20; i++) { /* the connection is kept, and a pipelined request waits */
        pthread_t thread;
        expect_get(where, "/ok", "ok\n");
        if (i % 2)
            http_send(fd, "GET /ok HTTP/1.1\r\n\r\n");
        ck_assert(pthread_create(&thread, NULL, post_late, (void *)(uintptr_t) "by letter\n") == 0);
        expect_reply(fd, 200, "by letter\n");
        ck_assert(pthread_join(thread, NULL) == 0);
        if (i % 2)
            expect_reply(fd, 200, "ok\n");
        http_send(fd, "GET /pend HTTP/1.1\r\n\r\n");
        COME_TRUE(on_desk() == 1);
    }
    ck_assert(post("last\n"));
    expect_reply(fd, 200, "last\n");
    ck_assert_uint_eq(atomic_load(&undone), 0);
    close(fd);
    http_free(&http);
}

TEST(letter_may_bring_steps_or_a_further_wait)
{
    serve();
    int fd = ask_pending();
    ck_assert(post("step"));
    expect_reply(fd, 200, "step\n");
    http_send(fd, "GET /pend HTTP/1.1\r\n\r\n");
    COME_TRUE(on_desk() == 1);
    ck_assert(post("again"));
    COME_TRUE(on_desk() == 1);
    ck_assert(post("done\n"));
    expect_reply(fd, 200, "done\n");
    close(fd);
    http_free(&http);
}

TEST(time_limit_is_answered_and_the_letter_undone)
{
    serve();
    int fd = ask_pending();
    atomic_fetch_add(&moved_ns, LIMIT_NS - 5 * NS_PER_S);
    unsigned seconds = atomic_load(&turns);
    COME_TRUE(atomic_load(&turns) >= seconds + 2);
    char byte;
    ck_assert(recv(fd, &byte, 1, MSG_DONTWAIT) < 0); /* not before its time */
    atomic_fetch_add(&moved_ns, 5 * NS_PER_S);
    expect_reply(fd, 504, "no answer came in time");
    ck_assert(post("late\n"));
    COME_TRUE(atomic_load(&undone) == 1);
    http_send(fd, "GET /ok HTTP/1.1\r\n\r\n"); /* the connection goes on */
    expect_reply(fd, 200, "ok\n");
    /* A letter that is late does not answer the next request of the same place. */
    http_send(fd, "GET /pend HTTP/1.1\r\n\r\n");
    COME_TRUE(on_desk() == 1);
    ck_assert(post("in time\n"));
    expect_reply(fd, 200, "in time\n");
    close(fd);
    http_free(&http);
}

TEST(late_letter_does_not_answer_another_request)
{
    serve();
    int fd = ask_pending();
    atomic_fetch_add(&moved_ns, LIMIT_NS);
    expect_reply(fd, 504, "no answer came in time");
    http_send(fd, "GET /pend HTTP/1.1\r\n\r\n");
    COME_TRUE(on_desk() == 2);
    struct http_pending *newer = take_from_desk();
    ck_assert(post("late\n"));
    COME_TRUE(atomic_load(&undone) == 1);
    desk[waiting++] = newer; /* the handler is idle: nobody else is at the desk */
    ck_assert(post("right\n"));
    expect_reply(fd, 200, "right\n");
    close(fd);
    http_free(&http);
}

TEST(client_that_goes_is_dropped_and_the_letter_undone)
{
    serve();
    unsigned before = open_descriptors();
    for (unsigned i = 0; i < 6; i++) {
        int fd = ask_pending();
        if (i % 3 == 1) {
            shutdown(fd, SHUT_WR);
            char byte;
            if (i < 3)
                ck_assert_int_eq((int)receive_some(fd, &byte, 1), 0);
        }
        if (i % 3 == 2) {
            struct linger reset = {.l_onoff = 1};
            ck_assert(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)) == 0);
            http_send(fd, "GET /behind HTTP/1.1\r\n\r\n"); /* bytes that stay unread */
        }
        if (i % 3 != 1 || i >= 3)
            close(fd);
        if (i < 3 && i % 3 != 1) /* dropped before the letter, else by it */
            COME_TRUE(open_descriptors() == before);
        ck_assert(post("for nobody\n"));
        COME_TRUE(atomic_load(&undone) == i + 1);
        if (i % 3 == 1 && i < 3)
            close(fd);
        COME_TRUE(open_descriptors() == before);
    }
    expect_get(where, "/ok", "ok\n");
    ck_assert_uint_eq(atomic_load(&delivered), 0);
    http_free(&http);
}

TEST(half_of_the_places_stay_for_others)
{
    serve();
    int fds[HTTP_PENDING_MAX];
    for (int i = 0; i < HTTP_PENDING_MAX; i++)
        fds[i] = ask_pending();
    for (int i = 0; i < 3; i++) {
        int fd = http_connect(where);
        http_send(fd, "GET /pend HTTP/1.1\r\n\r\n");
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

TEST(without_memory_a_request_is_refused)
{
    if (!__real_malloc) {
        printf("# linked without --wrap: not checked\n");
        return;
    }
    serve();
    struct http_reply r = http_ask(where, "GET", "/no-memory", "");
    ck_assert_int_eq(r.status, 503);
    ck_assert_str_eq(r.body, "{\"error\":{\"status\":503,\"reason\":\"no memory\"}}\n");
    reply_free(&r);
    http_free(&http);
}

TEST(pause_refuses_what_is_pending_and_takes_no_letter)
{
    serve();
    int fd = ask_pending(), idle = http_connect(where);
    http_pause(http);
    expect_reply(fd, 503, "the server ends or is being upgraded");
    ck_assert(!post("too late\n"));
    http_resume(http);
    for (int i = 0; i < 2; i++) {
        http_send(i ? idle : fd, "GET /pend HTTP/1.1\r\n\r\n");
        COME_TRUE(on_desk() == 1);
        ck_assert(post("in time\n"));
        expect_reply(i ? idle : fd, 200, "in time\n");
    }
    close(fd);
    close(idle);
    http_free(&http);
}

TEST(end_refuses_what_is_pending_and_later_letters)
{
    serve();
    int fds[3];
    for (int i = 0; i < 3; i++)
        fds[i] = ask_pending();
    http_free(&http);
    for (int i = 0; i < 3; i++) {
        expect_reply(fds[i], 503, "the server ends or is being upgraded");
        close(fds[i]);
        ck_assert(!post("too late\n"));
    }
    ck_assert_uint_eq(atomic_load(&undone) + atomic_load(&delivered), 0);
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
        answer->letter.mail.deliver = deliver;
        strcpy(answer->text, "x\n");
        bool taken = http_post(&pending, &answer->letter);
        atomic_fetch_add(taken ? &posted : &refused, 1);
        if (!taken)
            free(answer);
    }
    return NULL;
}

/* Every letter is taken and then delivered or undone, or refused, whatever clients and pauses do.
 */
TEST(no_letter_is_lost_between_clients_that_go_and_pauses)
{
    serve();
    pthread_t senders[2];
    for (int i = 0; i < 2; i++)
        ck_assert(pthread_create(&senders[i], NULL, post_all, NULL) == 0);
    for (int round = 0; round < 300; round++) {
        int fds[8];
        for (int i = 0; i < 8; i++) {
            fds[i] = http_connect(where);
            http_send(fds[i], "GET /pend HTTP/1.1\r\n\r\n");
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

static const struct unit_test tests[] = {
    UNIT(another_thread_answers),
    UNIT(letter_may_bring_steps_or_a_further_wait),
    UNIT(time_limit_is_answered_and_the_letter_undone),
    UNIT(late_letter_does_not_answer_another_request),
    UNIT(client_that_goes_is_dropped_and_the_letter_undone),
    UNIT(half_of_the_places_stay_for_others),
    UNIT(without_memory_a_request_is_refused),
    UNIT(pause_refuses_what_is_pending_and_takes_no_letter),
    UNIT(end_refuses_what_is_pending_and_later_letters),
    UNIT(no_letter_is_lost_between_clients_that_go_and_pauses),
};

UNIT_MAIN("http_letter", tests)
