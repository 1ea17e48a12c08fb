/*
 * log.h - writes log lines with levels, to standard error or syslog, at a limited rate.
 *
 * Threads: call log_open before any thread starts and log_close after all have ended. Call
 * everything else from any thread at any time. Lines are written whole. errno is preserved. The log
 * has one lock of its own and calls nothing else under it, so a caller may hold any lock; the
 * engine still never logs. When the reader of the log is too slow, lines are dropped, counted, and
 * the log says how many. Only the thread that called log_open waits for the reader, for up to 100
 * ms.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };
#define LOG_LEVELS 4
enum log_output { LOG_OUTPUT_STDERR, LOG_OUTPUT_SYSLOG };
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

/*
 * Starts logging. Before this call, lines of level info and above go to standard error as text.
 * With syslog, errors also go to standard error until log_ready, so that they reach the terminal or
 * script that starts the daemon.
 */
void log_open(enum log_output output, enum log_format format, enum log_level level);
/* Ends the start-up phase: from now on, every line goes only to the output given to log_open. */
void log_ready(void);
/*
 * Reconnects to syslog if the connection was lost, and logs how many lines were lost. Call it from
 * the thread that called log_open: other threads may not be allowed to connect. Makes no system
 * call when nothing needs doing.
 */
void log_renew(void);
/* Ends logging: logs how many lines were left out or lost, if any, and closes syslog. */
void log_close(void);
/* Sets the least important level that is logged from now on. Any thread. */
void log_set_level(enum log_level level);
/* Returns that level. Any thread. */
enum log_level log_level_now(void);
/* True when lines of `level` are logged. Cheap: ask before preparing an expensive message. */
bool log_enabled(enum log_level level);
/* The name of a level: "error", "warning", "info" or "debug". */
const char *log_level_word(enum log_level level);
/* Finds a level by name. Returns false, and leaves *level_r alone, when no level has that name. */
bool log_level_parse(const char *word, enum log_level *level_r) MUST_USE;

/* Counts since log_open. */
struct log_counts {
    uint64_t lines[LOG_LEVELS]; /* lines written, for each level */
    uint64_t left_out;          /* lines suppressed by a log_limit */
    uint64_t lost;              /* lines that the output did not take */
};
/*
 * Reads the counts, one after the other, so they may belong to slightly different moments. Any
 * thread.
 */
void log_get_counts(struct log_counts *counts_r);

/*
 * Each logs one line. On standard error: "2026-01-31T12:34:56.789Z warning: text" (UTC). Bytes
 * below 0x20 and from 0x7f on are written as \xNN, so a peer cannot forge a line. Lines longer than
 * 1,000 bytes are cut and end in "...". To syslog goes only the text, escaped and cut the same way.
 * After lines were lost, a warning says how many.
 *
 * With LOG_FORMAT_JSON, a line is one object, on syslog too:
 * {"time":"2026-01-31T12:34:56.789Z","level":"warning","message":"text"}. The message is escaped as
 * above and then as a JSON string, so it is always ASCII. When a line would exceed 1,000 bytes, its
 * message is cut; the object stays complete.
 */
void log_at(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);
#define log_error(...)   log_at(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_at(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)    log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)   log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)

/*
 * Limits the rate of lines that peers can provoke. Each place in the code has its own limit: at
 * most LOG_BURST lines in each window of LOG_WINDOW_S seconds. Windows are counted from zero of the
 * clock. After a window in which lines were left out, the next line ends in "(N similar lines left
 * out)". Zero-initialised. Any thread.
 */
#define LOG_BURST    10
#define LOG_WINDOW_S 10
struct log_limit {
    _Atomic uint64_t state; /* window number and lines in that window; see log.c */
};

/*
 * Returns true when a line may be logged at `limit` now. `now_ns` is monotonic; a time before the
 * current window counts as within it. *left_out_r: number of lines left out in the last window,
 * usually 0; append it to this line.
 */
bool log_limit_pass(struct log_limit *limit, long long now_ns, unsigned *left_out_r) MUST_USE;

/* log_warning with a rate limit. Reads the monotonic clock itself. */
void log_warning_limited(struct log_limit *limit, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
