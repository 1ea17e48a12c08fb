/*
 * link_test.c - connections of libcounter against servers that a test plays byte by byte: lines and
 * bodies, deadlines, bounds, ends.
 */
#include "base/clock.h"
#include "lib/link.h"
#include "t/unit/unit.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

/* Only hangs are this slow. */
#define DEADLINE_NS (60 * NS_PER_S)

static int listener, server; /* server: the accepted socket; -1: none */
static struct settings *settings;
static counter_link *at;
static char huge[8 * 1024 * 1024];

#define HUGE_SIZE sizeof(huge)

static void write_url(char *to, size_t size, const char *more)
{
    static unsigned number;
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    int len = snprintf(path.sun_path + 1, sizeof(path.sun_path) - 1, "link_test-%d-%u",
                       (int)getpid(), number++);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&path,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)),
                     0);
    ck_assert_int_eq(listen(listener, 1), 0);
    const char *name = path.sun_path + 1;
    snprintf(to, size, "counter://?text=unix:@%s&binary=unix:@%s&jobs=unix:@%s%s", name, name, name,
             more);
}

/* Makes a link to a listener of ours. */
static void make(enum counter_protocol protocol, const char *more)
{
    char url[512];
    struct counter_error error = COUNTER_ERROR;
    memset(huge, 'x', sizeof(huge));
    write_url(url, sizeof(url), more);
    settings = settings_read(url, &error);
    ck_assert_msg(settings, "%s", error.reason);
    at = link_open(settings, protocol, 0);
    server = -1;
}

static void start(enum counter_protocol protocol, const char *more)
{
    make(protocol, more);
    ck_assert_int_eq(counter_link_step(at), COUNTER_OK);
    server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(server, 0);
}

static void finish(void)
{
    counter_link_free(at);
    settings_drop(settings);
    close(listener);
    if (server >= 0)
        close(server);
}

static void say(const void *data, size_t len)
{
    ck_assert_int_eq(write(server, data, len), (ssize_t)len);
}

static void say_text(const char *text)
{
    say(text, strlen(text));
}

/* Waits as the link says, and steps it. */
static int step(void)
{
    struct pollfd fd = {.fd = counter_link_fd(at), .events = counter_link_events(at)};
    int ms = counter_link_wait_ms(at);
    poll(&fd, 1, ms < 0 || ms > 1000 ? 1000 : ms);
    return counter_link_step(at);
}

/* Steps until the link ends. */
static int await_end(void)
{
    int64_t until = clock_mono_ns() + DEADLINE_NS;
    int status;
    while ((status = step()) == COUNTER_OK || status == COUNTER_AGAIN)
        ck_assert_msg(clock_mono_ns() < until, "the link does not end");
    ck_assert_int_eq(counter_link_fd(at), -1);
    return status;
}

/* Steps until there is a line. */
static int await_line(size_t max, struct bytes *line_r)
{
    int64_t until = clock_mono_ns() + DEADLINE_NS;
    int status;
    while ((status = link_line(at, max, line_r)) == COUNTER_AGAIN) {
        ck_assert_msg(clock_mono_ns() < until, "no line");
        (void)step();
    }
    return status;
}

static int await_message(struct counter_message *message)
{
    int64_t until = clock_mono_ns() + DEADLINE_NS;
    int status;
    while ((status = counter_link_next(at, message)) == COUNTER_AGAIN) {
        ck_assert_msg(clock_mono_ns() < until, "no message");
        (void)step();
    }
    return status;
}

static void check_text(struct counter_bytes bytes, const char *text)
{
    ck_assert_uint_eq(bytes.len, strlen(text));
    ck_assert_int_eq(memcmp(bytes.data, text, bytes.len), 0);
}

static void check_line(const char *text)
{
    struct bytes line;
    ck_assert_int_eq(await_line(100, &line), COUNTER_OK);
    check_text(counter_bytes_at(line.data, line.len), text);
}

/* ---- messages ---------------------------------------------------------------------------- */

TEST(lines_are_taken_one_by_one)
{
    struct bytes line;
    start(COUNTER_TEXT, "");
    ck_assert_int_eq(link_line(at, 100, &line), COUNTER_AGAIN);
    say_text("one\n\ntw");
    check_line("one");
    check_line("");
    ck_assert(link_unread(at).len > 0 && !link_is_idle(at));
    ck_assert_int_eq(link_line(at, 100, &line), COUNTER_AGAIN);
    say_text("o\r\n");
    check_line("two\r");
    ck_assert(link_is_idle(at) && link_is_fresh(at));
    say_text("x");
    ck_assert(link_is_idle(at) && !link_is_fresh(at));
    finish();
}
END_TEST

TEST(a_line_may_have_its_maximum)
{
    struct bytes line;
    for (int is_jobs = 0; is_jobs < 2; is_jobs++) {
        for (size_t more = 0; more < 3; more++) {
            start(is_jobs ? COUNTER_JOBS : COUNTER_TEXT, "");
            say(huge, 50 + more);
            if (more < 2)
                say_text(is_jobs ? "\r\n" : "\n");
            int status = await_line(50, &line);
            ck_assert_int_eq(status, more == 0 ? COUNTER_OK : COUNTER_MALFORMED);
            if (more > 0) {
                ck_assert_int_eq(link_line(at, 100, &line), COUNTER_MALFORMED);
                ck_assert_int_eq(counter_link_step(at), COUNTER_MALFORMED);
                ck_assert(!link_is_late(at));
                ck_assert_ptr_nonnull(strstr(counter_link_error(at)->answer, "xxx"));
            }
            finish();
        }
    }
}
END_TEST

TEST(a_line_of_jobs_needs_its_carriage_return)
{
    static const char *const lines[] = {"CLAIMED 1\n", "\n", "ERROR BAD_COMMAND\nRELEASED\r\n"};
    struct counter_message message = COUNTER_MESSAGE;
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        start(COUNTER_JOBS, "");
        say_text(lines[i]);
        ck_assert_int_eq(await_message(&message), COUNTER_MALFORMED);
        ck_assert_ptr_nonnull(strstr(counter_link_error(at)->reason, "right port"));
        finish();
    }
}
END_TEST

TEST(messages_of_jobs_come_with_their_bodies)
{
    struct counter_message message = COUNTER_MESSAGE;
    start(COUNTER_JOBS, "&max_body=10");
    say_text("INSERTED 7\r\nOK 3\r\na\r\n\r\nRESERVED 7 10 99 t 1\r\n01234567");
    ck_assert_int_eq(await_message(&message), COUNTER_OK);
    check_text(message.line, "INSERTED 7");
    ck_assert_uint_eq(message.body.len, 0);
    ck_assert_int_eq(await_message(&message), COUNTER_OK);
    check_text(message.line, "OK 3");
    check_text(message.body, "a\r\n");
    ck_assert_int_eq(counter_link_next(at, &message), COUNTER_AGAIN);
    say_text("89\r\nFOUND 7 0\r\n\r\n");
    ck_assert_int_eq(await_message(&message), COUNTER_OK);
    check_text(message.line, "RESERVED 7 10 99 t 1");
    check_text(message.body, "0123456789");
    ck_assert_int_eq(await_message(&message), COUNTER_OK);
    check_text(message.line, "FOUND 7 0");
    ck_assert_uint_eq(message.body.len, 0);
    finish();
}
END_TEST

TEST(messages_of_jobs_that_are_wrong_end_the_link)
{
    static const char *const answers[] = {
        "OK 11\r\n",
        "OK 4294967295\r\n",
        "OK 18446744073709551615\r\n",
        "OK 18446744073709551616\r\n",
        "OK 99999999999999999999999999\r\n",
        "OK -1\r\n",
        "OK \r\n",
        "OK x\r\n",
        "RESERVED 7\r\n",
        "RESERVED 7 \r\n",
        "RESERVED x 1 1\r\n",
        "FOUND 7 11 ready 1\r\n",
        "OK 2\r\nabcd",
        "OK 2\r\nab\rd",
    };
    struct counter_message message = COUNTER_MESSAGE;
    for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
        start(COUNTER_JOBS, "&max_body=10");
        say_text(answers[i]);
        ck_assert_msg(await_message(&message) == COUNTER_MALFORMED, "%s", answers[i]);
        ck_assert_int_eq(counter_link_next(at, &message), COUNTER_MALFORMED);
        finish();
    }
}
END_TEST

TEST(messages_of_the_binary_protocol_have_a_header)
{
    static const char first[] = "\x91\1\0\0\0\0\0\4ctrd\0\0\0\5\x91\3\0\0\0\0\0\0ctrd";
    struct counter_message message = COUNTER_MESSAGE;
    start(COUNTER_BINARY, "");
    say(first, 11);
    for (int i = 0; i < 3; i++)
        (void)step();
    ck_assert_int_eq(counter_link_next(at, &message), COUNTER_AGAIN);
    say(first + 11, sizeof(first) - 1 - 11);
    ck_assert_int_eq(await_message(&message), COUNTER_OK);
    ck_assert_uint_eq(message.line.len, 12);
    ck_assert_uint_eq(message.body.len, 4);
    ck_assert_int_eq(memcmp(message.body.data, "\0\0\0\5", 4), 0);
    ck_assert_int_eq(await_message(&message), COUNTER_OK);
    ck_assert_uint_eq(message.line.len, 12);
    ck_assert_uint_eq(message.body.len, 0);
    say("\x91\1\0\0\0\1\0\x0a", 8);
    say("ctrd", 4);
    ck_assert_int_eq(await_message(&message), COUNTER_MALFORMED);
    finish();
    start(COUNTER_BINARY, "");
    say_text("LOCKED\n");
    ck_assert_int_eq(await_message(&message), COUNTER_MALFORMED);
    finish();
}
END_TEST

TEST(raw_messages_are_bytes_as_they_come)
{
    struct counter_message message = COUNTER_MESSAGE;
    start(COUNTER_RAW, "");
    say("a\0\n", 3);
    ck_assert_int_eq(await_message(&message), COUNTER_OK);
    ck_assert_uint_eq(message.body.len, 3);
    ck_assert_uint_eq(message.line.len, 0);
    ck_assert_int_eq(counter_link_next(at, &message), COUNTER_AGAIN);
    close(server);
    server = -1;
    ck_assert_int_eq(await_message(&message), COUNTER_UNANSWERED);
    finish();
}
END_TEST

/* ---- bounds ------------------------------------------------------------------------------ */

/* Writes what the socket takes. Returns how many bytes. */
static size_t flood(void)
{
    size_t sum = 0;
    ssize_t n;
    while ((n = send(server, huge, HUGE_SIZE, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0)
        sum += (size_t)n;
    return sum;
}

TEST(a_server_that_floods_is_read_within_bounds)
{
    struct counter_message message = COUNTER_MESSAGE;
    size_t sent = 0;
    start(COUNTER_RAW, "");
    for (int i = 0; i < 100; i++) {
        sent += flood();
        ck_assert_int_eq(counter_link_step(at), COUNTER_OK);
    }
    ck_assert_int_eq(counter_link_events(at), 0);
    ck_assert_int_eq(counter_link_next(at, &message), COUNTER_OK);
    ck_assert_uint_le(message.body.len, 262144);
    ck_assert_uint_lt(message.body.len, sent);
    ck_assert_int_eq(counter_link_events(at), POLLIN);
    finish();
}
END_TEST

TEST(a_body_that_is_awaited_may_be_long)
{
    struct bytes body;
    size_t sent = 0;
    start(COUNTER_JOBS, "");
    while (link_exactly(at, HUGE_SIZE, &body) == COUNTER_AGAIN) {
        ssize_t n = send(server, huge, HUGE_SIZE - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        (void)step();
    }
    ck_assert_uint_eq(body.len, HUGE_SIZE);
    ck_assert_int_eq(memcmp(body.data, huge, HUGE_SIZE), 0);
    say_text("OK\r\n");
    check_line("OK");
    finish();
}
END_TEST

/* ---- ends -------------------------------------------------------------------------------- */

TEST(what_came_whole_before_the_end_can_be_taken)
{
    struct bytes line;
    start(COUNTER_TEXT, "");
    say_text("BYE\nhal");
    close(server);
    server = -1;
    ck_assert_int_eq(await_end(), COUNTER_UNANSWERED);
    check_line("BYE");
    ck_assert_int_eq(link_line(at, 100, &line), COUNTER_UNANSWERED);
    ck_assert(!link_is_late(at) && !link_is_idle(at));
    ck_assert_str_eq(counter_link_error(at)->reason, "the server closed the connection");
    ck_assert(strncmp(counter_link_error(at)->server, "unix:@", 6) == 0);
    ck_assert_int_eq(counter_link_say(at, "x", 1), COUNTER_UNANSWERED);
    finish();
}
END_TEST

TEST(a_refusal_is_heard_although_the_rest_cannot_be_sent)
{
    start(COUNTER_JOBS, "");
    ck_assert(!link_has_sent(at));
    ck_assert_int_eq(counter_link_say(at, huge, HUGE_SIZE), COUNTER_OK);
    ck_assert_int_eq(counter_link_step(at), COUNTER_AGAIN);
    ck_assert(link_has_sent(at));
    say_text("READ_ONLY x\r\n");
    check_line("READ_ONLY x");
    ck_assert(!link_is_idle(at));
    say_text("more\r\n");
    close(server);
    server = -1;
    ck_assert_int_eq(await_end(), COUNTER_UNANSWERED); /* and no signal */
    check_line("more");
    ck_assert(counter_link_error(at)->sent);
    finish();
}
END_TEST

TEST(a_server_that_cannot_be_reached_is_named)
{
    make(COUNTER_TEXT, "");
    close(listener);
    ck_assert_int_eq(counter_link_step(at), COUNTER_UNREACHABLE);
    ck_assert_str_eq(counter_link_error(at)->reason, "Connection refused");
    ck_assert(!link_has_sent(at) && !link_is_our_fault(at));
    finish();
}
END_TEST

static void limit_descriptors(rlim_t to)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = to < limit.rlim_max ? to : limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST(a_machine_without_sockets_is_no_fault_of_the_server)
{
    make(COUNTER_TEXT, "");
    limit_descriptors(3);
    ck_assert_int_eq(counter_link_step(at), COUNTER_UNREACHABLE);
    limit_descriptors(RLIM_INFINITY);
    ck_assert(link_is_our_fault(at));
    ck_assert_str_eq(counter_link_error(at)->reason, "Too many open files");
    finish();
}
END_TEST

TEST(a_machine_that_cannot_ask_for_addresses_is_no_fault_of_the_server)
{
    struct counter_error error = COUNTER_ERROR;
    settings = settings_read("counter://localhost:1,name.invalid:1", &error);
    ck_assert_ptr_nonnull(settings);
    const struct host *host = settings_place(settings, COUNTER_TEXT, 0).host;
    (void)settings_look_up(settings, COUNTER_TEXT, 0);
    size_t known = host->count;
    for (size_t i = 0; i < 2; i++) {
        at = link_open(settings, COUNTER_TEXT, i);
        limit_descriptors(3);
        ck_assert_int_eq(settings_look_up(settings, COUNTER_TEXT, i), COUNTER_UNREACHABLE);
        ck_assert_int_eq(counter_link_step(at), COUNTER_UNREACHABLE);
        limit_descriptors(RLIM_INFINITY);
        ck_assert(link_is_our_fault(at));
        ck_assert_str_eq(counter_link_error(at)->reason, "Too many open files");
        counter_link_free(at);
    }
    ck_assert_uint_eq(host->count, known);
    settings_drop(settings);
}
END_TEST

TEST(a_full_queue_of_a_unix_socket_is_waited_for)
{
    counter_link *others[8];
    make(COUNTER_TEXT, "&connect_timeout=60");
    for (int i = 0; i < 8; i++) {
        others[i] = link_open(settings, COUNTER_TEXT, 0);
        (void)counter_link_step(others[i]);
    }
    ck_assert(!link_is_idle(others[7]));
    ck_assert_int_eq(counter_link_step(at), COUNTER_AGAIN);
    ck_assert_int_le(counter_link_wait_ms(at), 10);
    ck_assert_int_ge(counter_link_wait_ms(at), 0);
    for (int i = 0; i < 8; i++)
        counter_link_free(others[i]);
    int64_t until = clock_mono_ns() + DEADLINE_NS;
    while (step() == COUNTER_AGAIN) {
        struct pollfd fd = {.fd = listener, .events = POLLIN};
        ck_assert(clock_mono_ns() < until);
        if (poll(&fd, 1, 0) > 0)
            close(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
    }
    ck_assert(link_is_idle(at));
    finish();
}
END_TEST

TEST(a_queue_that_stays_full_is_unreachable)
{
    counter_link *others[8];
    make(COUNTER_TEXT, "&connect_timeout=0.05");
    for (int i = 0; i < 8; i++) {
        others[i] = link_open(settings, COUNTER_TEXT, 0);
        (void)counter_link_step(others[i]);
    }
    int64_t from = clock_mono_ns();
    ck_assert_int_eq(counter_link_step(at), COUNTER_AGAIN);
    ck_assert_int_eq(await_end(), COUNTER_UNREACHABLE);
    ck_assert(clock_mono_ns() - from >= 49 * NS_PER_MS);
    ck_assert(link_is_late(at));
    for (int i = 0; i < 8; i++)
        counter_link_free(others[i]);
    finish();
}
END_TEST

static int listen_at(uint32_t address, in_port_t *port)
{
    struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_port = *port, .sin_addr = {htonl(address)}};
    socklen_t len = sizeof(in);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert(bind(fd, (struct sockaddr *)&in, len) == 0 && listen(fd, 0) == 0 &&
              getsockname(fd, (struct sockaddr *)&in, &len) == 0);
    *port = in.sin_port;
    return fd;
}

TEST(each_address_of_a_host_has_its_share_of_the_time)
{
    char url[128];
    in_port_t port = 0;
    int stuck = listen_at(INADDR_LOOPBACK, &port), fillers[8];
    struct counter_error error = COUNTER_ERROR;
    struct sockaddr_storage at_both[2];
    listener = listen_at(INADDR_LOOPBACK + 1, &port);
    for (uint32_t i = 0; i < 2; i++) {
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK + i)}};
        memcpy(&at_both[i], &in, sizeof(in));
        in.sin_port = port;
        for (size_t k = 0; i == 0 && k < 8; k++) {
            fillers[k] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
            (void)connect(fillers[k], (struct sockaddr *)&in, sizeof(in));
        }
    }
    snprintf(url, sizeof(url), "counter://name.invalid:%u?connect_timeout=0.4", ntohs(port));
    settings = settings_read(url, &error);
    ck_assert_ptr_nonnull(settings);
    at = link_open(settings, COUNTER_TEXT, 0);
    ck_assert_int_eq(counter_link_step(at), COUNTER_UNREACHABLE);
    ck_assert_ptr_nonnull(strstr(counter_link_error(at)->reason, "counter_resolve"));
    counter_link_free(at);
    ck_assert_int_eq(settings_set_addresses(settings, 0, at_both, 2), COUNTER_OK);
    at = link_open(settings, COUNTER_TEXT, 0);
    int64_t from = clock_mono_ns();
    ck_assert_int_eq(counter_link_step(at), COUNTER_AGAIN);
    uint64_t serial = counter_link_fd_serial(at);
    int status;
    while ((status = step()) == COUNTER_AGAIN)
        ;
    ck_assert(clock_mono_ns() - from >= 199 * NS_PER_MS);
    ck_assert_msg(status == COUNTER_OK || link_is_late(at), "%s", counter_link_error(at)->reason);
    ck_assert_uint_ne(counter_link_fd_serial(at), serial);
    server = stuck;
    for (size_t k = 0; k < 8; k++)
        close(fillers[k]);
    finish();
}
END_TEST

TEST(an_address_that_says_nothing_in_tls_has_its_share_alone)
{
    char url[128];
    in_port_t port = 0;
    struct counter_error error = COUNTER_ERROR;
    struct sockaddr_storage at_both[2];
    server = listen_at(INADDR_LOOPBACK, &port); /* which accepts nobody: the handshake has begun */
    listener = listen_at(INADDR_LOOPBACK + 1, &port);
    for (uint32_t i = 0; i < 2; i++) {
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK + i)}};
        memcpy(&at_both[i], &in, sizeof(in));
    }
    snprintf(url, sizeof(url), "counter://localhost:%u?tls=1&connect_timeout=0.4", ntohs(port));
    settings = settings_read(url, &error);
    ck_assert_msg(settings, "%s", error.reason);
    ck_assert_int_eq(settings_set_addresses(settings, 0, at_both, 2), COUNTER_OK);
    at = link_open(settings, COUNTER_TEXT, 0);
    int64_t from = clock_mono_ns();
    ck_assert_int_eq(await_end(), COUNTER_UNREACHABLE);
    ck_assert(link_is_late(at) && clock_mono_ns() - from >= 399 * NS_PER_MS);
    ck_assert_ptr_nonnull(strstr(counter_link_error(at)->reason, "TLS handshake"));
    struct pollfd fd = {.fd = listener, .events = POLLIN};
    ck_assert_int_eq(poll(&fd, 1, 0), 1); /* the other was asked */
    finish();
}
END_TEST

TEST(a_link_that_is_finished_ends_with_the_server)
{
    start(COUNTER_TEXT, "");
    say_text("something\n");
    counter_link_finish(at);
    ck_assert_int_eq(counter_link_step(at), COUNTER_AGAIN);
    ck_assert_int_eq(counter_link_say(at, "x", 1), COUNTER_USAGE);
    char byte;
    ck_assert_int_eq(read(server, &byte, 1), 0);
    close(server);
    server = -1;
    ck_assert_int_eq(await_end(), COUNTER_UNANSWERED);
    ck_assert(link_unread(at).len == 0);
    finish();
    start(COUNTER_TEXT, "");
    int64_t from = clock_mono_ns();
    counter_link_finish(at);
    ck_assert_int_eq(await_end(), COUNTER_UNANSWERED);
    ck_assert(clock_mono_ns() - from >= 999 * NS_PER_MS);
    finish();
}
END_TEST

TEST(links_of_a_parent_are_lost)
{
    struct bytes line;
    start(COUNTER_TEXT, "");
    say_text("LOCKED\n");
    (void)step();
    settings_forked(settings);
    ck_assert(link_is_abandoned(at) && !link_is_fresh(at));
    ck_assert_int_eq(counter_link_step(at), COUNTER_LOST);
    ck_assert_int_eq(link_line(at, 100, &line), COUNTER_LOST);
    ck_assert_int_eq(counter_link_fd(at), -1);
    finish();
}
END_TEST

/* ---- deadlines --------------------------------------------------------------------------- */

TEST(an_answer_that_does_not_begin_is_late)
{
    struct bytes line;
    start(COUNTER_TEXT, "");
    ck_assert_int_eq(counter_link_wait_ms(at), -1);
    int64_t from = clock_mono_ns();
    link_expect(at, from + 50 * NS_PER_MS);
    ck_assert_int_ge(counter_link_wait_ms(at), 0);
    ck_assert_int_eq(await_line(100, &line), COUNTER_UNANSWERED);
    ck_assert(link_is_late(at) && clock_mono_ns() - from >= 50 * NS_PER_MS);
    finish();
    start(COUNTER_TEXT, "");
    link_expect(at, clock_mono_ns() - 1);
    say_text("a\n");
    check_line("a"); /* it was there, although we were late to look */
    ck_assert_int_eq(counter_link_wait_ms(at), -1);
    finish();
}
END_TEST

TEST(a_line_that_drips_is_late)
{
    struct bytes line;
    int status;
    start(COUNTER_TEXT, "&io_timeout=0.1");
    int64_t from = clock_mono_ns();
    do {
        (void)send(server, "x", 1, MSG_NOSIGNAL);
        (void)step();
        poll(NULL, 0, 1);
        (void)counter_link_step(at); /* nothing comes now */
    } while ((status = link_line(at, 16384, &line)) == COUNTER_AGAIN);
    ck_assert_int_eq(status, COUNTER_UNANSWERED);
    ck_assert(link_is_late(at) && clock_mono_ns() - from >= 100 * NS_PER_MS);
    finish();
}
END_TEST

TEST(a_body_that_stops_is_late)
{
    struct bytes body;
    start(COUNTER_JOBS, "&io_timeout=0.1");
    int64_t from = clock_mono_ns();
    int status;
    while ((status = link_exactly(at, 5, &body)) == COUNTER_AGAIN)
        (void)step();
    ck_assert_int_eq(status, COUNTER_UNANSWERED);
    ck_assert(link_is_late(at) && clock_mono_ns() - from >= 100 * NS_PER_MS);
    finish();
}
END_TEST

TEST(a_server_that_takes_no_more_is_late)
{
    start(COUNTER_TEXT, "&io_timeout=0.1");
    ck_assert_int_eq(counter_link_say(at, huge, HUGE_SIZE), COUNTER_OK);
    int64_t from = clock_mono_ns();
    ck_assert_int_eq(await_end(), COUNTER_UNANSWERED);
    ck_assert(link_is_late(at) && clock_mono_ns() - from >= 100 * NS_PER_MS);
    ck_assert_ptr_nonnull(strstr(counter_link_error(at)->reason, "takes no more bytes"));
    finish();
}
END_TEST

/* ---- OpenSSL's errors -------------------------------------------------------------------- */

TEST(the_error_queue_is_left_as_it_was)
{
    char url[128];
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(in);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert(bind(listener, (struct sockaddr *)&in, len) == 0 && listen(listener, 8) == 0 &&
              getsockname(listener, (struct sockaddr *)&in, &len) == 0);
    for (int has_error = 0; has_error < 2; has_error++) {
        ERR_clear_error();
        if (has_error)
            ERR_raise(ERR_LIB_USER, 77);
        unsigned long before = ERR_peek_error();
        struct counter_error error = COUNTER_ERROR;
        ck_assert_ptr_null(settings_read("counter://h:1?tls=1&tls_ca=/nowhere", &error));
        ck_assert_int_eq(error.status, COUNTER_USAGE);
        snprintf(url, sizeof(url), "counter://127.0.0.1:%u?tls=1&connect_timeout=60",
                 ntohs(in.sin_port));
        settings = settings_read(url, &error);
        ck_assert_ptr_nonnull(settings);
        at = link_open(settings, COUNTER_TEXT, 0);
        (void)counter_link_step(at);
        server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        ck_assert_int_eq(step(), COUNTER_AGAIN); /* waits, whatever the queue has */
        say_text("ERROR BAD_COMMAND\n");
        ck_assert_int_eq(await_end(), COUNTER_UNREACHABLE);
        ck_assert_ptr_nonnull(strstr(counter_link_error(at)->reason, "TLS handshake failed"));
        counter_link_free(at);
        settings_drop(settings);
        close(server);
        ck_assert_uint_eq(ERR_peek_error(), before);
        ck_assert_uint_eq(ERR_get_error(), before);
        ck_assert_uint_eq(ERR_get_error(), 0);
    }
    close(listener);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(lines_are_taken_one_by_one),
    UNIT(a_line_may_have_its_maximum),
    UNIT(a_line_of_jobs_needs_its_carriage_return),
    UNIT(messages_of_jobs_come_with_their_bodies),
    UNIT(messages_of_jobs_that_are_wrong_end_the_link),
    UNIT(messages_of_the_binary_protocol_have_a_header),
    UNIT(raw_messages_are_bytes_as_they_come),
    UNIT(a_server_that_floods_is_read_within_bounds),
    UNIT(a_body_that_is_awaited_may_be_long),
    UNIT(what_came_whole_before_the_end_can_be_taken),
    UNIT(a_refusal_is_heard_although_the_rest_cannot_be_sent),
    UNIT(a_server_that_cannot_be_reached_is_named),
    UNIT(a_machine_without_sockets_is_no_fault_of_the_server),
    UNIT(a_machine_that_cannot_ask_for_addresses_is_no_fault_of_the_server),
    UNIT(a_full_queue_of_a_unix_socket_is_waited_for),
    UNIT(a_queue_that_stays_full_is_unreachable),
    UNIT(each_address_of_a_host_has_its_share_of_the_time),
    UNIT(an_address_that_says_nothing_in_tls_has_its_share_alone),
    UNIT(a_link_that_is_finished_ends_with_the_server),
    UNIT(links_of_a_parent_are_lost),
    UNIT(an_answer_that_does_not_begin_is_late),
    UNIT(a_line_that_drips_is_late),
    UNIT(a_body_that_stops_is_late),
    UNIT(a_server_that_takes_no_more_is_late),
    UNIT(the_error_queue_is_left_as_it_was),
};

UNIT_MAIN("lib_link", tests)
