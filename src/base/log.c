/*
 * log.c - one function formats a line, another sends it.
 *
 * Locking: `sending` is held while a line is written, so lines of different threads do not mix.
 * Nothing else is called under it. Everything else is atomic.
 *
 * The log must not block the service. When its reader is too slow, lines are dropped. Only the
 * thread that opened the log, which serves nobody, waits for room, for up to STALL_MS and without
 * the lock; and not again until there was room. What poll finds writable takes a line at once: a
 * pipe has PIPE_BUF bytes free then, a socket a part of its buffer.
 */
#include "base/log.h"

#include "base/clock.h"
#include "base/syslog.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

/*
 * Longest line, without its newline. At most PIPE_BUF: a pipe takes a line whole or not at all.
 */
#define LINE_MAX_BYTES 1000
_Static_assert(LINE_MAX_BYTES < PIPE_BUF, "a pipe that has room takes a line whole");

#define STALL_MS 100

static const struct {
    const char *name;
    int priority; /* for syslog */
} levels[] = {
    [LOG_LEVEL_ERROR] = {"error", LOG_ERR},
    [LOG_LEVEL_WARNING] = {"warning", LOG_WARNING},
    [LOG_LEVEL_INFO] = {"info", LOG_INFO},
    [LOG_LEVEL_DEBUG] = {"debug", LOG_DEBUG},
};

_Static_assert(sizeof(levels) / sizeof(levels[0]) == LOG_LEVELS, "each level has its row");

static _Atomic int sink = LOG_OUTPUT_STDERR;
static _Atomic int line_format = LOG_FORMAT_TEXT;
static _Atomic int threshold = LOG_LEVEL_INFO;
static _Atomic bool started; /* set by log_ready: errors no longer go to standard error as well */

/* Since log_open: lines written, suppressed by a limit, and not taken by the output. */
static _Atomic uint64_t lines_total[LOG_LEVELS];
static _Atomic uint64_t left_out_total;
static _Atomic uint64_t lost_total;

/* The thread that may wait, and connect to syslog; any one before log_open. Other threads begin
 * later than it is set. */
static pthread_t opener;
static bool has_opener;

static pthread_mutex_t sending = PTHREAD_MUTEX_INITIALIZER;
/* Lines that an output missed, not reported to it yet. Changed under `sending`. */
static _Atomic uint64_t missed[LOG_OUTPUT_SYSLOG + 1];

/* --- Making a line --------------------------------------------------------------------------- */

struct line {
    char bytes[LINE_MAX_BYTES + 1]; /* room for the newline */
    size_t len;
};

/*
 * Writes a byte as itself or as \xNN; with `json`, escaped as in a JSON string. Returns the length.
 */
static size_t spell(unsigned char byte, bool json, char spelled_r[5])
{
    static const char digits[] = "0123456789abcdef";
    size_t len = 0;
    bool printable = byte >= 0x20 && byte < 0x7f;
    if (json && (!printable || byte == '\\' || byte == '"'))
        spelled_r[len++] = '\\';
    if (printable) {
        spelled_r[len++] = (char)byte;
        return len;
    }
    spelled_r[len++] = '\\';
    spelled_r[len++] = 'x';
    spelled_r[len++] = digits[byte >> 4];
    spelled_r[len++] = digits[byte & 0xf];
    return len;
}

/* Appends text, escaped, and keeps `reserved` bytes free. Text that is too long ends in "...". */
static void add_spelled(struct line *line, const char *text, bool json, size_t reserved)
{
    size_t limit = LINE_MAX_BYTES - reserved;
    size_t cut = line->len; /* the last place to cut where "..." still fits */
    for (; *text; text++) {
        char spelled[5];
        size_t len = spell((unsigned char)*text, json, spelled);
        if (len > limit - line->len) {
            memcpy(line->bytes + cut, "...", 3);
            line->len = cut + 3;
            return;
        }
        memcpy(line->bytes + line->len, spelled, len);
        line->len += len;
        if (line->len + 3 <= limit)
            cut = line->len;
    }
}

/* Appends our own text, which must fit. */
static void add(struct line *line, const char *text)
{
    size_t len = strlen(text);
    memcpy(line->bytes + line->len, text, len);
    line->len += len;
}

/* Appends "2026-01-31T12:34:56.789Z". */
static void add_time(struct line *line)
{
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    if (!gmtime_r(&now.tv_sec, &utc))
        memset(&utc, 0, sizeof utc);
    line->len += strftime(line->bytes + line->len, sizeof line->bytes - line->len,
                          "%Y-%m-%dT%H:%M:%S", &utc);
    int len = snprintf(line->bytes + line->len, sizeof line->bytes - line->len, ".%03dZ",
                       (int)(now.tv_nsec / 1000000));
    line->len += (size_t)len;
}

/* Formats a line without its newline. Plain text gets time and level in front only if `headed`. */
static void make_line(struct line *line, enum log_level level, bool headed, const char *text,
                      const char *tail)
{
    static const char end[] = "\"}";
    bool json = atomic_load_explicit(&line_format, memory_order_relaxed) == LOG_FORMAT_JSON;
    line->len = 0;
    if (json) {
        add(line, "{\"time\":\"");
        add_time(line);
        add(line, "\",\"level\":\"");
        add(line, levels[level].name);
        add(line, "\",\"message\":\"");
    } else if (headed) {
        add_time(line);
        add(line, " ");
        add(line, levels[level].name);
        add(line, ": ");
    }
    size_t after = json ? strlen(end) : 0;
    add_spelled(line, text, json, strlen(tail) + after);
    add_spelled(line, tail, json, after);
    if (json)
        add(line, end);
}

/* --- Sending a line -------------------------------------------------------------------------- */

static bool is_opener(void)
{
    return !has_opener || pthread_equal(pthread_self(), opener);
}

/* True when standard error can take a line now, or within `wait_ms`. */
static bool stderr_has_room(int wait_ms)
{
    struct pollfd to = {.fd = STDERR_FILENO, .events = POLLOUT};
    int ready;
    do
        ready = poll(&to, 1, wait_ms);
    while (ready == -1 && errno == EINTR);
    return ready == 1 && (to.revents & POLLOUT);
}

/* Writes a line once; repeats only after EINTR. Returns false when the line is lost. */
static bool write_to_stderr(enum log_level level, const char *text, const char *tail)
{
    struct line line;
    ssize_t written;
    if (!stderr_has_room(0))
        return false;
    make_line(&line, level, true, text, tail);
    line.bytes[line.len++] = '\n';
    do
        written = write(STDERR_FILENO, line.bytes, line.len);
    while (written == -1 && errno == EINTR);
    return written == (ssize_t)line.len;
}

static void count(_Atomic uint64_t *total)
{
    atomic_fetch_add_explicit(total, 1, memory_order_relaxed);
}

/* Passes a line to an output. Returns false when that did not take it. Caller holds `sending`. */
static bool pass(enum log_output output, enum log_level level, const char *text, const char *tail)
{
    struct line line;
    if (output == LOG_OUTPUT_STDERR)
        return write_to_stderr(level, text, tail);
    make_line(&line, level, false, text, tail);
    return syslog_send(levels[level].priority, line.bytes, line.len);
}

/*
 * Tells an output how many lines it missed. Returns false when it still takes none. Caller holds
 * `sending`.
 */
static bool tell_missed(enum log_output output)
{
    char text[80];
    uint64_t lines = atomic_load_explicit(&missed[output], memory_order_relaxed);
    if (!lines)
        return true;
    if (log_enabled(LOG_LEVEL_WARNING)) {
        snprintf(text, sizeof text, "%" PRIu64 " line%s lost because %s did not take %s", lines,
                 lines == 1 ? " was" : "s were",
                 output == LOG_OUTPUT_SYSLOG ? "syslog" : "standard error",
                 lines == 1 ? "it" : "them");
        if (!pass(output, LOG_LEVEL_WARNING, text, ""))
            return false;
        count(&lines_total[LOG_LEVEL_WARNING]);
    }
    atomic_store_explicit(&missed[output], 0, memory_order_relaxed);
    return true;
}

/* Waits for room, unless lines were missed before. */
static void wait_for_room(enum log_output output)
{
    if (atomic_load_explicit(&missed[output], memory_order_relaxed))
        return;
    if (output == LOG_OUTPUT_SYSLOG)
        syslog_wait(STALL_MS);
    else
        (void)stderr_has_room(STALL_MS);
}

/* Sends a line. Returns false when it is lost. */
static bool send_to(enum log_output output, enum log_level level, const char *text,
                    const char *tail)
{
    bool connects = is_opener();
    if (connects)
        wait_for_room(output);
    pthread_mutex_lock(&sending);
    if (connects && output == LOG_OUTPUT_SYSLOG)
        syslog_connect();
    bool taken = tell_missed(output) && pass(output, level, text, tail);
    if (!taken)
        count(&missed[output]);
    pthread_mutex_unlock(&sending);
    return taken;
}

/* Logs one line. If `left_out` is not 0, the line says how many lines like it were left out. */
static void log_line(enum log_level level, unsigned left_out, const char *format, va_list values)
    PRINTF_LIKE(3, 0);
static void log_line(enum log_level level, unsigned left_out, const char *format, va_list values)
{
    int error = errno; /* callers may log before they look at errno */
    char text[LINE_MAX_BYTES + 2], tail[48] = "";

    if (vsnprintf(text, sizeof text, format, values) < 0)
        snprintf(text, sizeof text, "(a message that could not be formatted: %s)", format);
    if (left_out)
        snprintf(tail, sizeof tail, " (%u similar line%s left out)", left_out,
                 left_out == 1 ? "" : "s");

    bool to_syslog = atomic_load_explicit(&sink, memory_order_relaxed) == LOG_OUTPUT_SYSLOG;
    bool starting = !atomic_load_explicit(&started, memory_order_relaxed);
    bool taken = to_syslog && send_to(LOG_OUTPUT_SYSLOG, level, text, tail);
    if (!to_syslog || (starting && level == LOG_LEVEL_ERROR))
        taken = send_to(LOG_OUTPUT_STDERR, level, text, tail) || taken;
    count(taken ? &lines_total[level] : &lost_total);
    errno = error;
}

/* --- The interface --------------------------------------------------------------------------- */

void log_open(enum log_output output, enum log_format format, enum log_level level)
{
    atomic_store(&sink, (int)output);
    atomic_store(&line_format, (int)format);
    atomic_store(&started, false);
    for (unsigned i = 0; i < LOG_LEVELS; i++)
        atomic_store(&lines_total[i], 0);
    atomic_store(&left_out_total, 0);
    atomic_store(&lost_total, 0);
    log_set_level(level);
    opener = pthread_self();
    has_opener = true;
    tzset(); /* reads a file; other threads may not be allowed to */
    log_renew();
}

void log_renew(void)
{
    enum log_output output = (enum log_output)atomic_load(&sink);
    pthread_mutex_lock(&sending);
    if (output == LOG_OUTPUT_SYSLOG)
        syslog_connect();
    (void)tell_missed(output);
    pthread_mutex_unlock(&sending);
}

void log_ready(void)
{
    atomic_store(&started, true);
}

void log_close(void)
{
    unsigned long left_out = atomic_load(&left_out_total), lost = atomic_load(&lost_total);
    if (left_out || lost)
        log_warning("log: %lu lines left out because of the rate limit, %lu lost", left_out, lost);
    pthread_mutex_lock(&sending);
    syslog_disconnect();
    atomic_store(&missed[LOG_OUTPUT_STDERR], 0);
    atomic_store(&missed[LOG_OUTPUT_SYSLOG], 0);
    pthread_mutex_unlock(&sending);
    atomic_store(&sink, LOG_OUTPUT_STDERR);
    atomic_store(&line_format, LOG_FORMAT_TEXT);
    log_set_level(LOG_LEVEL_INFO);
}

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&threshold, (int)level, memory_order_relaxed);
}

enum log_level log_level_now(void)
{
    return (enum log_level)atomic_load_explicit(&threshold, memory_order_relaxed);
}

bool log_enabled(enum log_level level)
{
    return level <= log_level_now();
}

const char *log_level_word(enum log_level level)
{
    return levels[level].name;
}

bool log_level_parse(const char *word, enum log_level *level_r)
{
    for (unsigned i = 0; i < LOG_LEVELS; i++) {
        if (strcmp(word, levels[i].name) == 0) {
            *level_r = (enum log_level)i;
            return true;
        }
    }
    return false;
}

void log_get_counts(struct log_counts *counts_r)
{
    for (unsigned i = 0; i < LOG_LEVELS; i++)
        counts_r->lines[i] = atomic_load_explicit(&lines_total[i], memory_order_relaxed);
    counts_r->left_out = atomic_load_explicit(&left_out_total, memory_order_relaxed);
    counts_r->lost = atomic_load_explicit(&lost_total, memory_order_relaxed);
}

void log_at(enum log_level level, const char *format, ...)
{
    if (!log_enabled(level))
        return;
    va_list values;
    va_start(values, format);
    log_line(level, 0, format, values);
    va_end(values);
}

/* --- Limits ---------------------------------------------------------------------------------- */

/*
 * The state of a limit is one word, so one compare-and-swap changes it. Upper half: number of the
 * window, from zero of the clock. Lower half: lines in that window.
 */
static uint32_t window_of(uint64_t state)
{
    return (uint32_t)(state >> 32);
}

static uint32_t count_of(uint64_t state)
{
    return (uint32_t)state;
}

bool log_limit_pass(struct log_limit *limit, long long now_ns, unsigned *left_out_r)
{
    uint64_t now_s = now_ns > 0 ? (uint64_t)now_ns / 1000000000 : 0;
    uint32_t window = (uint32_t)(now_s / LOG_WINDOW_S);
    uint64_t old = atomic_load_explicit(&limit->state, memory_order_relaxed), new;
    do {
        /* A thread may have read the clock just before another thread began a window. */
        if (window <= window_of(old))
            new = old + (count_of(old) < UINT32_MAX);
        else
            new = (uint64_t)window << 32 | 1;
    } while (!atomic_compare_exchange_weak_explicit(&limit->state, &old, new, memory_order_relaxed,
                                                    memory_order_relaxed));

    bool begins = window_of(new) != window_of(old);
    *left_out_r = begins && count_of(old) > LOG_BURST ? count_of(old) - LOG_BURST : 0;
    if (begins || count_of(old) < LOG_BURST)
        return true;
    count(&left_out_total);
    return false;
}

void log_warning_limited(struct log_limit *limit, const char *format, ...)
{
    unsigned left_out;
    if (!log_enabled(LOG_LEVEL_WARNING) || !log_limit_pass(limit, clock_mono_ns(), &left_out))
        return;
    va_list values;
    va_start(values, format);
    log_line(LOG_LEVEL_WARNING, left_out, format, values);
    va_end(values);
}
