/*
 * log_test.c - lines, levels, limits, and readers of standard error that do not read.
 *
 * Every test runs in its own process, so it may change standard error: `capture` redirects it to a
 * file or a pipe of ours, and `captured` returns what arrived there.
 */
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/syslog.h"
#include "t/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

/* --- Frame ----------------------------------------------------------------------------------- */

/* The length of "2026-01-31T12:34:56.789Z ". */
#define STAMP_LEN 25

#define SECOND 1000000000LL
#define WINDOW (LOG_WINDOW_S * SECOND)

static int old_stderr;
static int reading_end;
static char text[1 << 20];

static void redirect(int to, int from)
{
    ck_assert_int_ne(to, -1);
    reading_end = from;
    old_stderr = dup(STDERR_FILENO);
    ck_assert_int_ne(dup2(to, STDERR_FILENO), -1);
}

static void capture(void)
{
    int fd = memfd_create("stderr", MFD_CLOEXEC);
    redirect(fd, fd);
}

static void capture_in_pipe(void)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    redirect(ends[1], ends[0]);
    close(ends[1]);
}

/* Restores standard error and returns everything written since `capture`. */
static char *captured(void)
{
    dup2(old_stderr, STDERR_FILENO);
    close(old_stderr);
    size_t len = 0;
    ssize_t got;
    lseek(reading_end, 0, SEEK_SET); /* fails on a pipe, harmlessly */
    while ((got = read(reading_end, text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)got;
    close(reading_end);
    text[len] = '\0';
    return text;
}

/* Replaces syslog: a socket in a folder of the test. */
static int reader = -1;
static struct sockaddr_un reader_at = {.sun_family = AF_UNIX};

static void start_reader(void)
{
    if (!*reader_at.sun_path) {
        char folder[] = "/tmp/log_test.XXXXXX";
        ck_assert_ptr_nonnull(mkdtemp(folder));
        snprintf(reader_at.sun_path, sizeof reader_at.sun_path, "%s/log", folder);
        syslog_set_path(reader_at.sun_path);
    }
    reader = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_ge(reader, 0);
    ck_assert_int_eq(bind(reader, (struct sockaddr *)&reader_at, sizeof reader_at), 0);
}

static void end_reader(void)
{
    close(reader);
    reader = -1;
    unlink(reader_at.sun_path);
}

/* Returns the text of the next line sent to syslog, and its priority; NULL if there is none. */
static const char *sent_text(int *priority_r)
{
    static char line[2048];
    char month[4], id[32];
    int day, hour, minute, second, pid, head = 0;
    ssize_t len = recv(reader, line, sizeof line - 1, 0);
    if (len < 0)
        return NULL;
    line[len] = '\0';
    ck_assert_uint_eq(strlen(line), (size_t)len);
    ck_assert_int_eq(sscanf(line, "<%d>%3s %2d %2d:%2d:%2d %31[a-z][%d]: %n", priority_r, month,
                            &day, &hour, &minute, &second, id, &pid, &head),
                     8);
    /* "<30>Jan  1 12:34:56 counterd[123]: " */
    ck_assert_int_eq(strchr(line, '>')[16], ' ');
    ck_assert_str_eq(id, "counterd");
    ck_assert_int_eq(pid, getpid());
    ck_assert_int_eq(*priority_r & LOG_FACMASK, LOG_DAEMON);
    *priority_r &= LOG_PRIMASK;
    return line + head;
}

static void expect_sent(int priority, const char *expected)
{
    int sent_priority;
    const char *line = sent_text(&sent_priority);
    ck_assert_ptr_nonnull(line);
    ck_assert_str_eq(line, expected);
    ck_assert_int_eq(sent_priority, priority);
}

static long long monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

/* The log's limits use this clock, which stands still; it replaces base/clock.c. */
static int64_t log_clock_ns = 3 * WINDOW;

int64_t clock_mono_ns(void)
{
    return log_clock_ns;
}

struct moment clock_now(void)
{
    return (struct moment){.mono_ns = log_clock_ns, .unix_s = 0};
}

/* Replaces poll(2) of the log: notes how long it would wait. */
static _Atomic int longest_wait_ms;

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    struct timespec limit = {.tv_sec = timeout / 1000, .tv_nsec = timeout % 1000 * 1000000L};
    if (atomic_load(&longest_wait_ms) < timeout)
        atomic_store(&longest_wait_ms, timeout);
    return ppoll(fds, count, &limit, NULL);
}

/* --- Lines ----------------------------------------------------------------------------------- */

/* From the clock that the log reads; time() may be some milliseconds behind it. */
static time_t wall_s(void)
{
    struct timespec now;
    ck_assert_int_eq(clock_gettime(CLOCK_REALTIME, &now), 0);
    return now.tv_sec;
}

TEST(a_line_has_a_time_in_utc_and_its_level)
{
    setenv("TZ", "Asia/Kolkata", 1); /* NOLINT(concurrency-mt-unsafe): one thread */
    tzset();
    time_t before = wall_s();
    capture();
    log_warning("%s %d", "text", 5);
    const char *line = captured();
    ck_assert_str_eq(line + STAMP_LEN, "warning: text 5\n");

    struct tm utc;
    memset(&utc, 0, sizeof utc);
    const char *rest = strptime(line, "%Y-%m-%dT%H:%M:%S", &utc);
    ck_assert_ptr_nonnull(rest);
    ck_assert_int_eq(*rest, '.');
    ck_assert_uint_eq(strspn(rest + 1, "0123456789"), 3);
    ck_assert_str_eq(rest + 4, "Z warning: text 5\n");
    time_t then = timegm(&utc);
    ck_assert(before <= then && then <= wall_s());
}

/* Logs a line at each of the four levels; returns how many were written. */
static unsigned say_all_levels(void)
{
    unsigned lines = 0;
    capture();
    log_error("x");
    log_warning("x");
    log_info("x");
    log_debug("x");
    for (const char *c = captured(); *c; c++)
        lines += *c == '\n';
    return lines;
}

TEST(lines_below_the_level_are_not_written_and_the_others_counted)
{
    struct log_counts counts;
    ck_assert_uint_eq(say_all_levels(), 3); /* before log_open */
    for (unsigned level = LOG_LEVEL_ERROR; level <= LOG_LEVEL_DEBUG; level++) {
        log_open(LOG_OUTPUT_STDERR, LOG_FORMAT_TEXT, (enum log_level)level);
        ck_assert_uint_eq(say_all_levels(), level + 1);
        log_get_counts(&counts);
        for (unsigned asked = LOG_LEVEL_ERROR; asked <= LOG_LEVEL_DEBUG; asked++) {
            ck_assert(log_enabled((enum log_level)asked) == (asked <= level));
            ck_assert_uint_eq(counts.lines[asked], asked <= level);
        }
        log_close();
    }
    ck_assert_uint_eq(say_all_levels(), 3); /* after log_close */
}

/* By format: what precedes a message of level info, where the time differs; and what follows. */
static const char *const heads[] = {
    [LOG_FORMAT_TEXT] = "2026-01-31T12:34:56.789Z info: ",
    [LOG_FORMAT_JSON] = "{\"time\":\"2026-01-31T12:34:56.789Z\",\"level\":\"info\",\"message\":\""};
static const char *const ends[] = {[LOG_FORMAT_TEXT] = "\n", [LOG_FORMAT_JSON] = "\"}\n"};

/* The line that says this; without its head. */
static const char *line_of(enum log_format format, const char *said)
{
    log_open(LOG_OUTPUT_STDERR, format, LOG_LEVEL_INFO);
    capture();
    log_info("%s", said);
    return captured() + strlen(heads[format]);
}

TEST(bytes_that_are_not_printable_are_spelled)
{
    ck_assert_str_eq(line_of(LOG_FORMAT_TEXT, "a\nb\r\tc\x1b[31m\x1f \x7f\x80\xff~ \\ \" \xc3\xa9"),
                     "a\\x0ab\\x0d\\x09c\\x1b[31m\\x1f \\x7f\\x80\\xff~ \\ \" \\xc3\\xa9\n");
    ck_assert_str_eq(line_of(LOG_FORMAT_JSON, "a\nb\"c\\d\x1f~ \x7f\xff \xc3\xa9"),
                     "a\\\\x0ab\\\"c\\\\d\\\\x1f~ \\\\x7f\\\\xff \\\\xc3\\\\xa9\"}\n");
}

/* Cuts at every place: in plain bytes, and in escapes of several lengths. */
TEST(a_line_of_1000_bytes_is_whole_and_longer_ones_are_cut_between_bytes)
{
    static const char *const spelled[][3] = {
        [LOG_FORMAT_TEXT] = {"x", "\"", "\\x0a"}, [LOG_FORMAT_JSON] = {"x", "\\\"", "\\\\x0a"}};
    for (unsigned i = 0; i < 2 * 3 * 5; i++) {
        enum log_format format = i % 2 ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT;
        unsigned kind = i / 2 % 3, shift = i / 6;
        size_t head = strlen(heads[format]), end = strlen(ends[format]);
        size_t width = strlen(spelled[format][kind]), room = 1001 - head - end;
        char said[3000] = "";
        memset(said, 'x', room);
        const char *line = line_of(format, said);
        ck_assert(strlen(line) == room + end && strcmp(line + room, ends[format]) == 0);
        memset(said, "x\"\n"[kind], sizeof said - 1);
        memset(said, 'y', shift);
        line = line_of(format, said);
        size_t len = strlen(line) - end;
        ck_assert(len <= room && len + width > room);
        ck_assert(strncmp(line + len - 3, "...", 3) == 0 && strcmp(line + len, ends[format]) == 0);
        ck_assert(strncmp(line + len - 3 - width, spelled[format][kind], width) == 0);
        ck_assert_uint_eq((len - 3 - shift) % width, 0);
    }
}

/* --- Readers that do not read ---------------------------------------------------------------- */

/* Fills the pipe behind standard error; returns how many bytes it took. */
static size_t fill(void)
{
    size_t len = 0;
    ssize_t written;
    char block[4096];
    memset(block, '-', sizeof block);
    fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK);
    while ((written = write(STDERR_FILENO, block, sizeof block)) > 0)
        len += (size_t)written;
    fcntl(STDERR_FILENO, F_SETFL, 0);
    return len;
}

/* Expects these lines of everything written since `capture`, and no others. */
static void expect_lines(const char *const *expected, size_t count)
{
    char *rest = captured(), *line;
    for (size_t i = 0; i < count; i++) {
        line = strsep(&rest, "\n");
        ck_assert_ptr_nonnull(rest);
        ck_assert_str_eq(line + STAMP_LEN, expected[i]);
    }
    ck_assert_str_eq(rest, "");
}

TEST(a_full_pipe_loses_lines_and_holds_nobody_up)
{
    static const char *const expected[] = {
        "warning: 1000 lines were lost because standard error did not take them", "info: found",
        "warning: log: 0 lines left out because of the rate limit, 1000 lost"};
    log_open(LOG_OUTPUT_STDERR, LOG_FORMAT_TEXT, LOG_LEVEL_INFO);
    capture_in_pipe();
    size_t len = fill();
    long long start = monotonic_ns();
    for (int i = 0; i < 1000; i++)
        log_info("lost");
    /* If each line had waited, this would have taken 100 s. */
    ck_assert_int_lt(monotonic_ns() - start, 50 * SECOND);

    /* There is room again: the next line is written, with the number of lost lines. */
    for (size_t left = len; left;) {
        ssize_t got = read(reading_end, text, left);
        ck_assert_int_gt(got, 0);
        left -= (size_t)got;
    }
    log_info("found");
    log_close();
    expect_lines(expected, ARRAY_SIZE(expected));
}

TEST(a_reader_that_has_gone_loses_lines)
{
    static const char *const expected[] = {
        "warning: 1 line was lost because standard error did not take it",
        "warning: log: 0 lines left out because of the rate limit, 1 lost"};
    signal(SIGPIPE, SIG_IGN);
    capture_in_pipe();
    close(reading_end);
    errno = EXDEV;
    log_error("lost");
    ck_assert_int_eq(errno, EXDEV);
    dup2(old_stderr, STDERR_FILENO);
    capture();
    log_close();
    expect_lines(expected, ARRAY_SIZE(expected));
}

/* --- Syslog ---------------------------------------------------------------------------------- */

static void *say_one(void *arg)
{
    log_info("%s", (const char *)arg);
    return NULL;
}

/* Logs in a thread that may not connect: only the thread that opened the log does. */
static void say_elsewhere(void)
{
    static char word[] = "elsewhere";
    pthread_t thread;
    atomic_store(&longest_wait_ms, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, say_one, word), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(atomic_load(&longest_wait_ms), 0);
}

TEST(syslog_gets_lines_instead_of_standard_error_also_after_it_was_started_again)
{
    struct log_counts counts;
    int priority;
    start_reader();
    end_reader();
    capture();
    log_open(LOG_OUTPUT_SYSLOG, LOG_FORMAT_TEXT, LOG_LEVEL_INFO);
    log_info("nobody is there yet");
    start_reader();
    log_info("%%s %s", "%n");
    expect_sent(LOG_WARNING, "1 line was lost because syslog did not take it");
    expect_sent(LOG_INFO, "%s %n"); /* syslog adds its own time and level */
    log_ready();
    log_error("%%s %s", "%n");
    expect_sent(LOG_ERR, "%s %n");
    end_reader();
    say_elsewhere();
    start_reader();
    say_elsewhere();
    ck_assert_ptr_null(sent_text(&priority));
    log_renew();
    expect_sent(LOG_WARNING, "2 lines were lost because syslog did not take them");
    say_elsewhere();
    expect_sent(LOG_INFO, "elsewhere");
    log_renew();
    ck_assert_ptr_null(sent_text(&priority));
    log_get_counts(&counts);
    ck_assert_uint_eq(counts.lost, 3);
    log_close();
    expect_sent(LOG_WARNING, "log: 0 lines left out because of the rate limit, 3 lost");
    log_info("here");
    ck_assert_ptr_null(sent_text(&priority));
    ck_assert_str_eq(captured() + STAMP_LEN, "info: here\n");
    end_reader();
    *strrchr(reader_at.sun_path, '/') = '\0';
    ck_assert_int_eq(rmdir(reader_at.sun_path), 0);
}

/* --- Limits ---------------------------------------------------------------------------------- */

/* Tries the limit `times` times at `now_ns`; returns how often it passed. */
static unsigned ask(struct log_limit *limit, long long now_ns, unsigned times)
{
    unsigned passed = 0, left_out;
    for (unsigned i = 0; i < times; i++) {
        passed += log_limit_pass(limit, now_ns, &left_out);
        ck_assert_uint_eq(left_out, 0);
    }
    return passed;
}

TEST(a_window_lets_a_burst_pass_and_a_later_one_tells_once_what_was_left_out)
{
    static const long long starts[] = {0, 1, WINDOW, 5 * WINDOW, 400000000LL * SECOND};
    for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
        struct log_limit limit = {0};
        long long now = starts[i];
        unsigned left_out;
        ck_assert_uint_eq(ask(&limit, now, LOG_BURST - 1), LOG_BURST - 1);
        ck_assert_uint_eq(ask(&limit, now + WINDOW - 2, 5), 1);
        ck_assert_uint_eq(ask(&limit, now + WINDOW - 2, 100), 0);
        ck_assert(log_limit_pass(&limit, now + WINDOW, &left_out) && left_out == 104);
        ck_assert_uint_eq(ask(&limit, now + WINDOW, LOG_BURST), LOG_BURST - 1);
        ck_assert(log_limit_pass(&limit, now + 900 * WINDOW + 1, &left_out) && left_out == 1);
        ck_assert(log_limit_pass(&limit, now + 901 * WINDOW, &left_out) && left_out == 0);
    }
}

#define THREADS 8L

/* A limit shared by threads that all use it in the same window. */
struct race {
    struct log_limit limit;
    long long now_ns;
    _Atomic unsigned passed;
    _Atomic unsigned told;
};

static void *ask_many(void *argument)
{
    struct race *race = argument;
    for (int i = 0; i < 1000; i++) {
        unsigned left_out;
        if (log_limit_pass(&race->limit, race->now_ns, &left_out))
            race->passed++;
        race->told += left_out;
    }
    return NULL;
}

TEST(threads_share_a_limit)
{
    static struct race race;
    for (int round = 1; round <= 20; round++) {
        pthread_t threads[THREADS];
        race.now_ns = round * WINDOW;
        race.passed = 0;
        race.told = 0;
        for (size_t i = 0; i < THREADS; i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, ask_many, &race), 0);
        for (size_t i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        ck_assert_uint_eq(race.passed, LOG_BURST);
        ck_assert_uint_eq(race.told, round == 1 ? 0 : THREADS * 1000 - LOG_BURST);
    }
}

TEST(a_limited_warning_tells_how_many_were_left_out)
{
    static const char end[] = "x... (12 similar lines left out)\n";
    struct log_limit limit = {0};
    struct log_counts counts;
    char x[2000] = "";
    memset(x, 'x', sizeof x - 1);
    log_open(LOG_OUTPUT_STDERR, LOG_FORMAT_TEXT, LOG_LEVEL_INFO);
    capture();
    for (int i = 0; i < LOG_BURST + 12; i++)
        log_warning_limited(&limit, "x");
    (void)captured();
    log_get_counts(&counts);
    ck_assert(counts.lines[LOG_LEVEL_WARNING] == LOG_BURST && counts.left_out == 12);
    log_clock_ns += WINDOW;
    struct log_limit copy = limit;
    capture();
    log_warning_limited(&limit, "again\n");
    ck_assert_str_eq(captured() + STAMP_LEN, "warning: again\\x0a (12 similar lines left out)\n");
    capture();
    log_warning_limited(&copy, "%s", x);
    const char *line = captured();
    ck_assert_uint_eq(strlen(line), 1001);
    ck_assert_str_eq(line + 1001 - strlen(end), end);
}

/* --- Checks ---------------------------------------------------------------------------------- */

TEST(a_check_that_fails_says_where)
{
    capture();
    pid_t child = fork();
    ck_assert_int_ne(child, -1);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        check_failed("file.c", 12, "some_function", "a == b");
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    ck_assert_str_eq(captured(), "file.c:12: some_function: check failed: a == b\n");
}

UNIT_MAIN("base/log")
