/*
 * poolcounter.h - the PoolCounter line protocol, both directions (spec: poolcounter.md).
 *
 * Requests are lines that end in "\n" or "\r\n"; replies are lines that end in "\n". Only STATS
 * FULL has a reply of several lines; it ends with an empty line.
 */
#ifndef PROTO_POOLCOUNTER_H
#define PROTO_POOLCOUNTER_H

#include "proto/wire.h"

/* Maximum length of a key for any line length: the table's maximum for names. */
#define PC_KEY_MAX 65535

enum pc_verb {
    PC_ACQ4ANY,
    PC_ACQ4ME,
    PC_RELEASE,
    PC_STATS,
};

/* A request. Fields that the verb does not use are zero. */
struct pc_request {
    enum pc_verb verb;
    struct bytes key;     /* ACQ4*: required; RELEASE: len 0 when absent */
    uint32_t workers;     /* ACQ4*: how many may work, at least 1 */
    uint32_t maxqueue;    /* ACQ4*: how many may work or wait, at least 1 */
    int64_t timeout_ns;   /* ACQ4*: 0 when absent or malformed, never negative */
    struct bytes subject; /* STATS: the subject without spaces around it; may be empty */
};

enum pc_parsed {
    PC_OK,           /* a whole request */
    PC_MORE,         /* the line is not complete */
    PC_POOLS,        /* a whole line with a verb of pools: pool_parse_request (pools.h) parses it */
    PC_BAD_COMMAND,  /* a whole line with an unknown verb */
    PC_BAD_SYNTAX,   /* a whole line with wrong arguments */
    PC_LINE_TOO_LONG /* too long for any line: answer and close */
};

/* Maximum timeout in nanoseconds, about 136 years; longer ones are reduced to it. */
#define PC_TIMEOUT_MAX_NS ((int64_t)4294967295 * 1000000000)

/*
 * Parses the line at the start of `data` (`len` bytes of any value). `max_line` is the maximum
 * length of a line without its line end (an "\r" before "\n" is part of the line end). *used_r is
 * the number of bytes in the line and its end, also for POOLS, BAD_COMMAND and BAD_SYNTAX; 0 for
 * MORE and LINE_TOO_LONG. *req_r is written only for PC_OK and points into `data`.
 */
enum pc_parsed pc_parse_request(const uint8_t *data, size_t len, size_t max_line,
                                struct pc_request *req_r, size_t *used_r);

/*
 * Writes `req` as a line with its "\n" into `to` (`room` bytes). Timeouts are decimal seconds with
 * as few digits as possible, down to the nanosecond. Returns the length. Returns 0 when the line
 * does not fit or would be parsed as another request: a key with a byte that keys cannot have
 * (space, CR, LF, NUL), ACQ4* without a key, a negative timeout, a subject with CR or LF, an
 * unknown verb. Limits are not checked: 0 is written although a server refuses it.
 */
size_t pc_compose_request(const struct pc_request *req, uint8_t *to, size_t room);

/* The one-line replies: name, and text on the wire without its line end. One row each. */
#define PC_REPLIES(ROW)                                                                            \
    ROW(LOCKED, "LOCKED")                                                                          \
    ROW(DONE, "DONE")                                                                              \
    ROW(QUEUE_FULL, "QUEUE_FULL")                                                                  \
    ROW(TIMEOUT, "TIMEOUT")                                                                        \
    ROW(LOCK_HELD, "LOCK_HELD")                                                                    \
    ROW(NOT_LOCKED, "NOT_LOCKED")                                                                  \
    ROW(RELEASED, "RELEASED")                                                                      \
    ROW(BAD_COMMAND, "ERROR BAD_COMMAND")                                                          \
    ROW(BAD_SYNTAX, "ERROR BAD_SYNTAX")                                                            \
    ROW(WAIT_FOR_RESPONSE, "ERROR WAIT_FOR_RESPONSE")                                              \
    ROW(WRONG_STAT, "ERROR WRONG_STAT")                                                            \
    ROW(LINE_TOO_LONG, "ERROR LINE_TOO_LONG")                                                      \
    ROW(OUT_OF_MEMORY, "ERROR OUT_OF_MEMORY")                                                      \
    ROW(SHUTTING_DOWN, "ERROR SHUTTING_DOWN")                                                      \
    ROW(ENGINE_AWAY, "ERROR ENGINE_AWAY")                                                          \
    ROW(ENGINE_FULL, "ERROR ENGINE_FULL")

enum pc_reply {
#define ROW(name, word) PC_REPLY_##name,
    PC_REPLIES(ROW)
#undef ROW
        PC_REPLY_COUNT,
    PC_REPLY_OTHER = PC_REPLY_COUNT /* a line without fixed text: a line of STATS */
};

/* The reply's line with its "\n", in static memory. Empty for PC_REPLY_OTHER. */
struct bytes pc_reply_line(enum pc_reply reply);

/*
 * Parses one reply line at the start of `data`. PC_OK: *reply_r is the reply, or PC_REPLY_OTHER;
 * *line_r is the line without its end, pointing into `data`; *used_r is its length with the end.
 * PC_MORE: the line is not complete. PC_LINE_TOO_LONG: more than `max_line` bytes without a line
 * end. Line ends, `max_line` and *used_r work as for requests. *reply_r and *line_r are written
 * only for PC_OK.
 */
enum pc_parsed pc_parse_reply(const uint8_t *data, size_t len, size_t max_line,
                              enum pc_reply *reply_r, struct bytes *line_r, size_t *used_r);

/* Nanoseconds, summed over many clients: 1,000 locks fill 64 bits in 7 months. */
typedef unsigned __int128 pc_ns;

/* Maximum sum: its whole seconds just fit into 64 bits. Larger sums are reduced to it. */
#define PC_NS_MAX (((pc_ns)1 << 64) * 1000000000 - 1)

/* The values of STATS. */
struct pc_stats {
    uint64_t uptime_s;
    pc_ns processing_ns;         /* finished locks, from grant to release or close */
    pc_ns gained_ns;             /* DONE answers: the processing time that each one saved */
    pc_ns waiting_ns;            /* waits that ended in LOCKED: for_me + for_anyone */
    pc_ns waiting_for_me_ns;     /* ACQ4ME waits that ended in LOCKED */
    pc_ns waiting_for_anyone_ns; /* ACQ4ANY waits that ended in LOCKED */
    pc_ns waiting_for_good_ns;   /* ACQ4ANY waits that ended in DONE */
    pc_ns wasted_timeout_ns;     /* waits that ended in TIMEOUT */
/* The plain counts, in output order. */
#define PC_COUNTS(ROW)                                                                             \
    ROW(total_acquired)                                                                            \
    ROW(total_releases)                                                                            \
    ROW(hashtable_entries)                                                                         \
    ROW(processing_workers)                                                                        \
    ROW(waiting_workers)                                                                           \
    ROW(connect_errors)                                                                            \
    ROW(failed_sends)                                                                              \
    ROW(full_queues)                                                                               \
    ROW(lock_mismatch)                                                                             \
    ROW(lock_while_waiting)                                                                        \
    ROW(release_mismatch)                                                                          \
    ROW(processed_count)
#define ROW(name) uint64_t name;
    PC_COUNTS(ROW)
#undef ROW
};

/* Buffer size that suffices for any answer to STATS. */
#define PC_STATS_ROOM 2048

/*
 * Writes the answer to STATS `subject` (any case; empty means FULL) into `to` (`room` bytes, at
 * least PC_STATS_ROOM): FULL with its closing empty line, UPTIME, or one count by name. Returns the
 * length; 0 for an unknown subject (answer PC_REPLY_WRONG_STAT).
 */
size_t pc_compose_stats(const struct pc_stats *stats, struct bytes subject, char *to, size_t room);

#endif
