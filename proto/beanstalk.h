/*
 * beanstalk.h - the protocol of job queues, both directions (spec: beanstalk.md).
 *
 * A request is a line that ends in "\r\n"; after the line of a put comes a body, which is the
 * caller's. An answer is a line, too; after some of them come bodies.
 */
#ifndef PROTO_BEANSTALK_H
#define PROTO_BEANSTALK_H

#include "proto/wire.h"

/* Maximum lengths of lines in bytes, with their ends. */
#define BS_LINE_MAX     224  /* of the published verbs, and of unknown ones */
#define BS_NEW_LINE_MAX 8192 /* of our own verbs, and of a record of a batch */

/* Maximum lengths in bytes. */
#define BS_TUBE_MAX   200
#define BS_KEY_MAX    64 /* also of a root's signature */
#define BS_REASON_MAX 200

/* Maximum values; other numbers may have all values of their types. */
#define BS_COUNT_MAX    1000       /* of jobs in a request: claim, put-batch, ready, list-jobs */
#define BS_WAIT_MAX     2147483647 /* seconds of reserve-with-timeout */
#define BS_REMEMBER_MAX 31536000   /* seconds */
#define BS_TIME_MAX_MS  ((int64_t)4294967295 * 1000 + 999)

/* ---- Requests -------------------------------------------------------------------------------- */

/* The verbs: name, and word on the wire. Those that are sent most often come first. */
#define BS_VERBS(ROW)                                                                              \
    ROW(PUT, "put")                                                                                \
    ROW(RESERVE, "reserve")                                                                        \
    ROW(RESERVE_WITH_TIMEOUT, "reserve-with-timeout")                                              \
    ROW(DELETE, "delete")                                                                          \
    ROW(PUT_INTO, "put-into")                                                                      \
    ROW(CLAIM, "claim")                                                                            \
    ROW(ACK, "ack")                                                                                \
    ROW(RELEASE, "release")                                                                        \
    ROW(BURY, "bury")                                                                              \
    ROW(TOUCH, "touch")                                                                            \
    ROW(USE, "use")                                                                                \
    ROW(WATCH, "watch")                                                                            \
    ROW(IGNORE, "ignore")                                                                          \
    ROW(RESERVE_JOB, "reserve-job")                                                                \
    ROW(KICK, "kick")                                                                              \
    ROW(KICK_JOB, "kick-job")                                                                      \
    ROW(PEEK, "peek")                                                                              \
    ROW(PEEK_READY, "peek-ready")                                                                  \
    ROW(PEEK_DELAYED, "peek-delayed")                                                              \
    ROW(PEEK_BURIED, "peek-buried")                                                                \
    ROW(STATS, "stats")                                                                            \
    ROW(STATS_JOB, "stats-job")                                                                    \
    ROW(STATS_TUBE, "stats-tube")                                                                  \
    ROW(LIST_TUBES, "list-tubes")                                                                  \
    ROW(LIST_TUBES_WATCHED, "list-tubes-watched")                                                  \
    ROW(LIST_TUBE_USED, "list-tube-used")                                                          \
    ROW(PAUSE_TUBE, "pause-tube")                                                                  \
    ROW(QUIT, "quit")                                                                              \
    ROW(TUBE, "tube")                                                                              \
    ROW(PUT_BATCH, "put-batch")                                                                    \
    ROW(NACK, "nack")                                                                              \
    ROW(RENEW, "renew")                                                                            \
    ROW(READY, "ready")                                                                            \
    ROW(LIST_JOBS, "list-jobs")                                                                    \
    ROW(CLEAR, "clear")

enum bs_verb {
#define ROW(name, word) BS_VERB_##name,
    BS_VERBS(ROW)
#undef ROW
        BS_VERB_COUNT
};

/* The states of jobs on the wire: name, and word. */
#define BS_STATES(ROW)                                                                             \
    ROW(READY, "ready")                                                                            \
    ROW(DELAYED, "delayed")                                                                        \
    ROW(RESERVED, "reserved")                                                                      \
    ROW(BURIED, "buried")                                                                          \
    ROW(ABANDONED, "abandoned")                                                                    \
    ROW(ALL, "all")

enum bs_state {
    BS_STATE_NONE,
#define ROW(name, word) BS_STATE_##name,
    BS_STATES(ROW)
#undef ROW
        BS_STATE_COUNT
};

/* The words, by state; an empty one for NONE. */
extern const char *const bs_state_words[BS_STATE_COUNT];

/* The state with this word; NONE if there is none. */
enum bs_state bs_find_state(struct bytes word);

/* The options of a put. Times are milliseconds of the unix clock, 0 to BS_TIME_MAX_MS. */
struct bs_put_options {
    struct bytes key;  /* len 0 for none */
    struct bytes root; /* the signature; len 0 for none */
    int64_t at_ms;     /* only with has_at */
    int64_t root_ms;   /* only with a root */
    uint32_t tries;    /* only with has_tries; 0: no end */
    bool has_at, has_tries;
    bool at_whole, root_whole; /* the time had no decimals: it means the end of that second */
};

enum bs_order { BS_ORDER_PRIORITY, BS_ORDER_FIFO, BS_ORDER_RANDOM };
enum bs_claim { BS_CLAIM_CONNECTION, BS_CLAIM_LEASE };

/* Bits of `given`, for each setting of a tube. */
#define BS_GIVEN_ORDER     1u
#define BS_GIVEN_CLAIM     2u
#define BS_GIVEN_TRIES     4u
#define BS_GIVEN_LIMIT     8u
#define BS_GIVEN_PRUNE     16u
#define BS_GIVEN_REMEMBER  32u
#define BS_GIVEN_READ_ONLY 64u

/* Settings of a tube. Those that are not given are zero. */
struct bs_settings {
    uint8_t given; /* bits BS_GIVEN_... */
    enum bs_order order;
    enum bs_claim claim;
    uint32_t tries;      /* 0: no end */
    uint32_t limit;      /* jobs; 0: none */
    uint32_t prune_s;    /* 0: never */
    uint32_t remember_s; /* up to BS_REMEMBER_MAX */
    struct bytes read_only;
};

/* A request. Fields that the verb does not use are zero. */
struct bs_request {
    enum bs_verb verb;
    enum bs_state state; /* list-jobs, clear */
    uint32_t pri;        /* put, put-into, release, bury */
    uint32_t delay_s;    /* put, put-into, release, nack */
    uint32_t ttr_s;      /* put, put-into; 0 stays 0 */
    uint32_t body_len;   /* put, put-into, put-batch: announced; without the "\r\n" after it */
    uint32_t seconds;    /* reserve-with-timeout, claim, ready: the timeout; pause-tube */
    uint32_t count;      /* kick: the bound; claim: jobs; put-batch: records; ready, list-jobs: the
                            limit */
    uint64_t id;         /* of the job; list-jobs: `after` */
    uint64_t token;      /* ack, nack, renew: any value */
    struct bytes tube;   /* a name; ready: the pattern without "*", which may be empty */
    union {
        struct bs_put_options options; /* put-into */
        struct bs_settings settings;   /* tube */
        struct bytes tubes;            /* claim: names with a space between them; may be empty */
        struct {
            struct bytes after; /* a name; len 0 for none */
            bool prefix;        /* the pattern ended in "*" */
        } ready;
    };
};

enum bs_parsed {
    BS_PARSED,
    BS_MORE,             /* the line is not complete */
    BS_BAD_FORMAT,       /* a whole line, but a wrong one */
    BS_BAD_FORMAT_CLOSE, /* the same of a put, whose body nobody can find: answer, then close */
    BS_UNKNOWN_COMMAND,  /* a whole line with no verb of ours */
    BS_TOO_LONG,         /* drop the bytes; then bs_skip_line until it says true; then answer one
                            BAD_FORMAT */
    BS_WEB               /* a web browser speaks: close without an answer */
};

/*
 * Parses the line at the start of `data` (`len` bytes of any value). *used_r is the number of bytes
 * that the caller drops: the line with its end; 0 for MORE; after TOO_LONG more than 0. *req_r is
 * defined only for PARSED, and points into `data`.
 */
enum bs_parsed bs_parse_request(const uint8_t *data, size_t len, struct bs_request *req_r,
                                size_t *used_r);

/*
 * Drops what is left of a line that was too long. Returns true at its end. *used_r is the number
 * of bytes that the caller drops; a "\r" at the end of `data` is kept, until it is clear what
 * follows it.
 */
bool bs_skip_line(const uint8_t *data, size_t len, size_t *used_r);

/*
 * Takes the next name of the list of a claim. Returns false at its end. The list is one that was
 * parsed.
 */
bool bs_next_tube(struct bytes *tubes, struct bytes *name_r);

/* True when a tube may have this name. */
bool bs_is_tube_name(struct bytes name);

/*
 * Parses the line of a record of a batch at the start of `data`: PARSED, MORE or BAD_FORMAT. A
 * record is what follows the tube of a put-into; other fields are zero. *used_r is the
 * length of the line with its end; 0 for MORE, and for a line without an end in BS_NEW_LINE_MAX
 * bytes. The body and its "\r\n" follow.
 */
enum bs_parsed bs_parse_record(const uint8_t *data, size_t len, struct bs_request *record_r,
                               size_t *used_r);

/*
 * Writes `req` as a line with its "\r\n" into `to` (`room` bytes). Returns the length. Returns 0
 * when the line does not fit or would not be parsed as the same request: a word out of its bounds,
 * a line that is too long, an unused field that is not zero. BS_NEW_LINE_MAX bytes suffice.
 */
size_t bs_compose_request(const struct bs_request *req, uint8_t *to, size_t room);

/* The same for the line of a record. */
size_t bs_compose_record(const struct bs_request *record, uint8_t *to, size_t room);

/* ---- Answers --------------------------------------------------------------------------------- */

/* The answers of fixed text: name, and text on the wire without its end. */
#define BS_ANSWERS(ROW)                                                                            \
    ROW(DELETED, "DELETED")                                                                        \
    ROW(RELEASED, "RELEASED")                                                                      \
    ROW(BURIED, "BURIED")                                                                          \
    ROW(TOUCHED, "TOUCHED")                                                                        \
    ROW(JOB_KICKED, "KICKED") /* of kick-job */                                                    \
    ROW(PAUSED, "PAUSED")                                                                          \
    ROW(NOT_FOUND, "NOT_FOUND")                                                                    \
    ROW(NOT_IGNORED, "NOT_IGNORED")                                                                \
    ROW(TIMED_OUT, "TIMED_OUT")                                                                    \
    ROW(DEADLINE_SOON, "DEADLINE_SOON")                                                            \
    ROW(EXPECTED_CRLF, "EXPECTED_CRLF")                                                            \
    ROW(JOB_TOO_BIG, "JOB_TOO_BIG")                                                                \
    ROW(DRAINING, "DRAINING")                                                                      \
    ROW(TUBE_FULL, "TUBE_FULL")                                                                    \
    ROW(OUT_OF_MEMORY, "OUT_OF_MEMORY")                                                            \
    ROW(INTERNAL_ERROR, "INTERNAL_ERROR")                                                          \
    ROW(BAD_FORMAT, "BAD_FORMAT")                                                                  \
    ROW(UNKNOWN_COMMAND, "UNKNOWN_COMMAND")

enum bs_answer {
#define ROW(name, word) BS_ANSWER_##name,
    BS_ANSWERS(ROW)
#undef ROW
        BS_ANSWER_FIXED,                  /* the number of answers of fixed text */
    BS_ANSWER_INSERTED = BS_ANSWER_FIXED, /* INSERTED <id> */
    BS_ANSWER_RESERVED,                   /* RESERVED <id> <body_len>, and a body */
    BS_ANSWER_CLAIMED_JOB,                /* RESERVED <id> <body_len> <token> <tube> <try>, and a
                                             body */
    BS_ANSWER_FOUND,                      /* FOUND <id> <body_len>, and a body */
    BS_ANSWER_LISTED_JOB,                 /* FOUND <id> <body_len> <state> <try>, and a body */
    BS_ANSWER_UNREADABLE_JOB,             /* UNREADABLE <id> <state> <try>: a LISTED_JOB whose body
                                             cannot be read */
    BS_ANSWER_OK,                         /* OK <body_len>, and a body */
    BS_ANSWER_USING,                      /* USING <tube> */
    BS_ANSWER_WATCHING,                   /* WATCHING <count> */
    BS_ANSWER_KICKED,                     /* KICKED <count> */
    BS_ANSWER_DUPLICATE,                  /* DUPLICATE <id> */
    BS_ANSWER_CLAIMED,                    /* CLAIMED <count>, and as many CLAIMED_JOBs */
    BS_ANSWER_LISTED,                     /* LISTED <count> <next>, and as many LISTED_JOBs */
    BS_ANSWER_CLEARED,                    /* CLEARED <count> */
    BS_ANSWER_READ_ONLY,                  /* READ_ONLY <reason> */
    BS_ANSWER_PUT_BURIED,                 /* BURIED <id>: a beanstalkd without memory; never ours */
    BS_ANSWER_COUNT
};

/* An answer's line. Fields that the answer does not have are zero. */
struct bs_reply {
    enum bs_answer answer;
    bool has_body;       /* parsed: `body_len` bytes and "\r\n" follow the line */
    enum bs_state state; /* not NONE, not ALL */
    uint32_t body_len;
    uint64_t id, count, next, token;
    uint64_t try; /* up to 4294967295 */
    struct bytes tube;
    struct bytes reason; /* the rest of the line */
};

/* Suffices for any answer's line with its end. */
#define BS_REPLY_ROOM 512

/* The answer's line with its "\r\n", in static memory. Empty unless its text is fixed. */
struct bytes bs_answer_line(enum bs_answer answer);

/*
 * Writes the answer's line with its "\r\n" into `to` (`room` bytes). Parts are written as they are,
 * and must be as the spec says. Returns the length; 0 when it does not fit.
 */
size_t bs_compose_reply(const struct bs_reply *reply, uint8_t *to, size_t room);

/*
 * Parses the answer's line at the start of `data`: PARSED, MORE or BAD_FORMAT. *used_r is the
 * length of the line with its end; 0 for MORE, and for a line without an end in BS_REPLY_ROOM
 * bytes. *reply_r is defined only for PARSED, and points into `data`.
 */
enum bs_parsed bs_parse_reply(const uint8_t *data, size_t len, struct bs_reply *reply_r,
                              size_t *used_r);

/* The same for a line without its end, or the value of an entry of put-batch's list. Returns false
 * when it is wrong. */
bool bs_parse_reply_line(struct bytes line, struct bs_reply *reply_r);

/* ---- Lists and dictionaries ------------------------------------------------------------------ */

/* The first line of each. */
#define BS_TEXT_START "---\n"

/* Suffices for a line with a key of up to BS_TUBE_MAX bytes, besides the length of its value. */
#define BS_ENTRY_ROOM (BS_TUBE_MAX + 32)

/*
 * Each writes a line with its "\n" into `to` (`room` bytes) and returns the length; 0 when it does
 * not fit.
 */
size_t bs_compose_item(struct bytes name, uint8_t *to, size_t room);        /* - name */
size_t bs_compose_item_put(enum bs_answer answer, uint64_t id, uint8_t *to, /* - INSERTED 7 */
                           size_t room);
size_t bs_compose_number(const char *key, uint64_t value, uint8_t *to, size_t room); /* key: 5 */
size_t bs_compose_micros(const char *key, uint64_t us, uint8_t *to,
                         size_t room); /* key: 0.000005 */
size_t bs_compose_word(const char *key, struct bytes value, uint8_t *to,
                       size_t room); /* key: word */
/* key: value, in quotes if it needs them (bs_needs_quotes). */
size_t bs_compose_string(const char *key, struct bytes value, uint8_t *to, size_t room);
/* key: "value"; a byte that cannot stand in quotes (", \, below 32, above 126) becomes "_". */
size_t bs_compose_quoted(const char *key, struct bytes value, uint8_t *to, size_t room);
size_t bs_compose_ready(struct bytes tube, uint64_t jobs, uint8_t *to, size_t room); /* "tube": 5 */

/* True when readers of YAML 1.1 or 1.2 do not take these bytes, without quotes, for this string: a
 * number, a date, true, null, a comment (beanstalk_yaml.c). */
bool bs_needs_quotes(struct bytes value);

/* A line of a list or dictionary, without quotes. */
struct bs_entry {
    struct bytes key; /* len 0 in a list */
    struct bytes value;
};

/*
 * Takes the next entry of a list or dictionary, and the "---" before it. Returns false at the end,
 * and at a line that is no entry: *text is empty only at the end.
 */
bool bs_next_entry(struct bytes *text, struct bs_entry *entry_r);

#endif
