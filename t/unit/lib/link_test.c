/*
 * link_test.c - connections of libcounter where stories do not reach: messages of the links that
 * programs use themselves, bounds, addresses.
 */
#include "base/clock.h"
#include "lib/link.h"
#include "t/unit/unit.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
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

static void check_text(struct counter_bytes bytes, const char *text, size_t len)
{
    ck_assert_uint_eq(bytes.len, len);
    ck_assert(len == 0 || memcmp(bytes.data, text, len) == 0);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* What a program sees of what a server says, in two parts. Messages: "line|body" each. */
static const struct {
    enum counter_protocol protocol;
    struct counter_bytes parts[2];
    const char *messages[5];
    int end; /* what comes then */
} talks[] = {
#define BYTES(text)                                                                                \
    {                                                                                              \
        (text), sizeof(text) - 1                                                                   \
    }
#define HEADER "\x91\1\0\0\0\0\0\4ctrd"
    {COUNTER_JOBS,
     {BYTES("INSERTED 7\r\nOK 3\r\na\r\n\r\nRESERVED 7 10 99 t 1\r\n01234567"),
      BYTES("89\r\nFOUND 7 0\r\n\r\n")},
     {"INSERTED 7|", "OK 3|a\r\n", "RESERVED 7 10 99 t 1|0123456789", "FOUND 7 0|"},
     COUNTER_AGAIN},
    {COUNTER_TEXT, {BYTES("one\n\ntw"), BYTES("o\r\n")}, {"one|", "|", "two\r|"}, COUNTER_AGAIN},
    {COUNTER_JOBS, {BYTES("OK 11\r\n")}, {0}, COUNTER_MALFORMED},
    {COUNTER_JOBS, {BYTES("OK 4294967295\r\n")}, {0}, COUNTER_MALFORMED},
    {COUNTER_JOBS, {BYTES("OK 18446744073709551615\r\n")}, {0}, COUNTER_MALFORMED},
    {COUNTER_JOBS, {BYTES("OK 18446744073709551616\r\n")}, {0}, COUNTER_MALFORMED},
    {COUNTER_JOBS, {BYTES("OK -1\r\n")}, {0}, COUNTER_MALFORMED},
    {COUNTER_JOBS, {BYTES("OK \r\n")}, {0}, COUNTER_MALFORMED},
    {COUNTER_JOBS, {BYTES("OK x\r\n")}, {0}, COUNTER_MALFORMED},
    {COUNTER_JOBS, {BYTES("CLAIMED 1\n")}, {0}, COUNTER_MALFORMED},
    {COUNTER_JOBS, {BYTES("RESERVED 7\r\n")}, {0}, COUNTER_MALFORMED},
    {COUNTER_JOBS, {BYTES("RESERVED 7 \r\n")}, {0}, COUNTER_MALFORMED},
    {COUNTER_JOBS, {BYTES("RESERVED x 1 1\r\n")}, {0}, COUNTER_MALFORMED},
    {COUNTER_JOBS, {BYTES("FOUND 7 11 ready 1\r\n")}, {0}, COUNTER_MALFORMED},
    {COUNTER_JOBS, {BYTES("OK 2\r\nabcd")}, {0}, COUNTER_MALFORMED},
    {COUNTER_JOBS, {BYTES("OK 2\r\nab\rd")}, {0}, COUNTER_MALFORMED},
    {COUNTER_BINARY,
     {BYTES("\x91\1\0\0\0\0\0\4ctr"), BYTES("d\x7f\x7f\x7f\5" HEADER "1234")},
     {"@|\x7f\x7f\x7f\5", "@|1234"},
     COUNTER_AGAIN},
    {COUNTER_BINARY,
     {BYTES("\x91\1\0\0\0\1\0\x0a"
            "ctrd")},
     {0},
     COUNTER_MALFORMED},
    {COUNTER_BINARY, {BYTES("LOCKED\n")}, {0}, COUNTER_MALFORMED},
    {COUNTER_RAW, {BYTES("a\n"), BYTES("b")}, {"|a\n", "|b"}, COUNTER_AGAIN},
};

TEST(messages_are_told_apart)
{
    struct counter_message message = COUNTER_MESSAGE;
    for (size_t i = 0; i < sizeof(talks) / sizeof(*talks); i++) {
        const char *const *wanted = talks[i].messages;
        start(talks[i].protocol, "&max_body=10");
        for (size_t part = 0; part < 2; part++) {
            if (talks[i].parts[part].len > 0)
                say(talks[i].parts[part].data, talks[i].parts[part].len);
            int status = COUNTER_AGAIN;
            for (int quiet = 0; quiet < 3; quiet += status == COUNTER_AGAIN) {
                (void)counter_link_step(at);
                if ((status = counter_link_next(at, &message)) > COUNTER_AGAIN)
                    break;
                if (status == COUNTER_AGAIN)
                    continue;
                ck_assert_msg(*wanted, "talk %zu: more than it wants", i);
                const char *body = strchr(*wanted, '|');
                if (**wanted == '@')
                    ck_assert_uint_eq(message.line.len, 12);
                else
                    check_text(message.line, *wanted, (size_t)(body - *wanted));
                check_text(message.body, body + 1, strlen(body + 1));
                wanted++;
            }
            if (part == 1 || talks[i].end > COUNTER_AGAIN)
                ck_assert_msg(status == talks[i].end, "talk %zu: %d", i, status);
        }
        ck_assert_msg(!*wanted, "talk %zu: %s", i, *wanted);
        ck_assert_int_eq(counter_link_next(at, &message), talks[i].end);
        finish();
    }
}
END_TEST

/* ---- bounds ---------------------------------------------------------------------------------- */

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

/* ---- ends ------------------------------------------------------------------------------------ */

/* Links that fill the queue of the listener. */
static counter_link *others[8];

static void fill_queue(const char *more)
{
    make(COUNTER_TEXT, more);
    for (int i = 0; i < 8; i++) {
        others[i] = link_open(settings, COUNTER_TEXT, 0);
        (void)counter_link_step(others[i]);
    }
    ck_assert_int_eq(counter_link_step(at), COUNTER_AGAIN);
    ck_assert_int_le(counter_link_wait_ms(at), 10);
    ck_assert_int_ge(counter_link_wait_ms(at), 0);
}

static void free_others(void)
{
    for (int i = 0; i < 8; i++)
        counter_link_free(others[i]);
}

TEST(a_full_queue_of_a_unix_socket_is_waited_for)
{
    fill_queue("&connect_timeout=60");
    free_others();
    int64_t until = clock_mono_ns() + DEADLINE_NS;
    while (step() == COUNTER_AGAIN) {
        struct pollfd fd = {.fd = listener, .events = POLLIN};
        ck_assert(clock_mono_ns() < until);
        if (poll(&fd, 1, 0) > 0)
            close(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
    }
    ck_assert(link_is_idle(at));
    finish();
    int64_t from = clock_mono_ns();
    fill_queue("&connect_timeout=0.05"); /* and stays full */
    ck_assert_int_eq(await_end(), COUNTER_UNREACHABLE);
    ck_assert(clock_mono_ns() - from >= 49 * NS_PER_MS);
    ck_assert(at->is_late);
    free_others();
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
    struct counter_error error = COUNTER_ERROR;
    struct sockaddr_storage both[2] = {{.ss_family = AF_INET}, {.ss_family = AF_INET}};
    server = listen_at(INADDR_LOOPBACK, &port); /* says nothing; the second one is asked then */
    listener = listen_at(INADDR_LOOPBACK + 1, &port);
    for (uint32_t i = 0; i < 2; i++)
        ((struct sockaddr_in *)&both[i])->sin_addr.s_addr = htonl(INADDR_LOOPBACK + i);
    snprintf(url, sizeof(url), "counter://localhost:%u?connect_timeout=5&tls=1", ntohs(port));
    settings = settings_read(url, &error);
    ck_assert_ptr_nonnull(settings);
    ck_assert_int_eq(settings_set_addresses(settings, 0, both, 2), COUNTER_OK);
    at = link_open(settings, COUNTER_TEXT, 0);
    int64_t from = clock_mono_ns();
    ck_assert_int_eq(counter_link_step(at), COUNTER_AGAIN);
    uint64_t serial = counter_link_fd_serial(at);
    ck_assert_int_eq(await_end(), COUNTER_UNREACHABLE);
    ck_assert(at->is_late && clock_mono_ns() - from >= 4999 * NS_PER_MS);
    ck_assert_uint_ne(counter_link_fd_serial(at), serial);
    ck_assert_ptr_nonnull(strstr(counter_link_error(at)->reason, "TLS handshake"));
    struct pollfd fd = {.fd = listener, .events = POLLIN};
    ck_assert_int_eq(poll(&fd, 1, 0), 1);
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

TEST(what_is_there_when_we_are_late_to_look_counts)
{
    struct bytes line;
    start(COUNTER_TEXT, "");
    ck_assert_int_eq(counter_link_wait_ms(at), -1);
    at->expect_by = clock_mono_ns() - 1;
    say_text("a\n");
    (void)step();
    ck_assert_int_eq(link_line(at, 100, &line), COUNTER_OK);
    ck_assert_int_eq(counter_link_wait_ms(at), -1);
    finish();
}
END_TEST

TEST(a_refusal_is_heard_although_the_rest_cannot_be_sent)
{
    struct counter_message message = COUNTER_MESSAGE;
    start(COUNTER_JOBS, "");
    ck_assert_int_eq(counter_link_say(at, huge, HUGE_SIZE), COUNTER_OK);
    ck_assert_int_eq(counter_link_step(at), COUNTER_AGAIN);
    say_text("READ_ONLY x\r\n");
    close(server);
    server = -1;
    ck_assert_int_eq(await_end(), COUNTER_UNANSWERED); /* and no signal */
    ck_assert_int_eq(counter_link_next(at, &message), COUNTER_OK);
    check_text(message.line, "READ_ONLY x", 11);
    ck_assert(counter_link_error(at)->sent);
    finish();
}
END_TEST

UNIT_MAIN("lib_link")
