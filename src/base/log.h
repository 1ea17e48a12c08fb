/*
 * log.h - what the daemon says: levels, to standard error or syslog, at a bounded rate.
 *
 * Threads: log_open before any thread starts, log_close after they ended; everything else from any
 * thread at any time. Lines are written whole, and errno is left as it was. The log has one lock of
 * its own, under which it calls nothing else, so any lock may be held by a caller; the engine still
 * never logs. When whoever reads the lines stops reading, they are lost rather than waited for.
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
 * Starts logging; before it, lines of level info and above go to standard error as text. With
 * syslog, errors go to standard error as well, for whoever starts the daemon, until log_ready.
 */
void log_open(enum log_output output, enum log_format format, enum log_level level);
/* The start is over: from now on, every line goes only where log_open said. */
void log_ready(void);
/*
 * Where lines go to syslog: connects to it again if it was lost, which other threads may not be
 * allowed to, and tells it how many lines it has missed. Without a system call where there is no
 * need.
 */
void log_renew(void);
/* Ends it: says how many lines were left out or lost, if any, and closes syslog. */
void log_close(void);
/* Sets the least important level that is written, from now on. Any thread. */
void log_set_level(enum log_level level);
/* That level. Any thread. */
enum log_level log_level_now(void);
/* Whether lines of `level` are written at all; cheap, for callers that prepare much. */
bool log_enabled(enum log_level level);
/* The word of a level: "error", "warning", "info" or "debug". */
const char *log_level_word(enum log_level level);
/* The level that has this word. False, and *level_r as it was: none has. */
bool log_level_parse(const char *word, enum log_level *level_r) MUST_USE;

/* What the log has done since log_open. */
struct log_counts {
    uint64_t lines[LOG_LEVELS]; /* of each level: lines that went off */
    uint64_t left_out;          /* lines that a log_limit held back */
    uint64_t lost;              /* lines that nobody took */
};
/* Takes the counts, each as it is at some moment of the call. Any thread. */
void log_get_counts(struct log_counts *counts_r);

/*
 * One line. To standard error: "2026-01-31T12:34:56.789Z warning: text" (UTC). Bytes below 0x20 and
 * from 0x7f on that got into the text are written as \xNN, so a peer cannot forge a line. Lines
 * longer than 1,000 bytes are cut and end in "...". To syslog: the text, spelled and cut the same;
 * after lines that it did not take, a warning says how many.
 *
 * With LOG_FORMAT_JSON, a line is one object,
 * {"time":"2026-01-31T12:34:56.789Z","level":"warning","message":"text"}, to syslog as well. Its
 * message is spelled the same and then escaped as JSON wants, so it is ASCII whatever the text
 * held; a line that would be longer than 1,000 bytes has its message cut, and is a whole object.
 */
void log_error(const char *format, ...) PRINTF_LIKE(1, 2);
void log_warning(const char *format, ...) PRINTF_LIKE(1, 2);
void log_info(const char *format, ...) PRINTF_LIKE(1, 2);
void log_debug(const char *format, ...) PRINTF_LIKE(1, 2);

/*
 * A place in the code whose lines peers can provoke: at most `LOG_BURST` lines in each window of
 * `LOG_WINDOW_S` seconds of the clock given, counted from its zero; the first line in a later
 * window than one that left lines out is followed by "(N like it left out)". Zero-initialised; any
 * thread.
 */
#define LOG_BURST    10
#define LOG_WINDOW_S 10
struct log_limit {
    _Atomic uint64_t state; /* which window, and how many lines came in it; see log.c */
};

/*
 * Whether a line may be written at `limit` now (monotonic ns; one that lies in an earlier window
 * than the last counts for the last). *left_out_r: how many were left out in the last window, to be
 * said with this line; mostly 0.
 */
bool log_limit_pass(struct log_limit *limit, long long now_ns, unsigned *left_out_r) MUST_USE;

/* log_warning at a bounded rate; takes the monotonic clock itself. */
void log_warning_limited(struct log_limit *limit, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
