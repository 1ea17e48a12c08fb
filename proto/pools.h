/*
 * pools.h - the verbs of pools in the text protocol, both directions (spec: pools.md).
 *
 * The parsers of poolcounter.h split the lines: pc_parse_request returns PC_POOLS for a line with
 * one of these verbs; pc_parse_reply gives the line of any reply. The functions here take a line
 * without its end, and read nothing after it.
 */
#ifndef PROTO_POOLS_H
#define PROTO_POOLS_H

#include "proto/wire.h"

/* Maximum lengths in bytes, and numbers of words. */
#define POOLS_NAME_MAX       255 /* of pools, groups and members */
#define POOLS_VALUE_MAX      4096
#define POOLS_KEY_MAX        32  /* of an attribute */
#define POOLS_ATTR_MAX       128 /* the value of an attribute */
#define POOLS_NOTE_MAX       128
#define POOLS_BY_MAX         128
#define POOLS_HOLDER_MAX     128 /* of a connection's id and address */
#define POOLS_STATE_MAX      32  /* of a word that we choose: states, reasons, kinds */
#define POOLS_ATTRS_MAX      16  /* attributes of a member */
#define POOLS_WITH_MAX       8   /* attributes that a TAKE demands */
#define POOLS_TARGETS_MAX    16  /* pools of a TAKE */
#define POOLS_OPTIONS_MAX    32  /* options of a pool */
#define POOLS_OPTION_MAX     64  /* an option's name and value, each, when we write them */
#define POOLS_COUNT_MAX      64  /* members of a TAKE */
#define POOLS_TIMEOUT_MAX_NS ((int64_t)4294967295 * 1000000000)

/* "key=value". An attribute with an empty value is one that is taken away, or none. */
struct pool_pair {
    struct bytes key, value;
};

/* True for "key=value" of a member: within its bounds, and the key is no word of our own. */
bool pool_is_attribute(struct bytes word);

/* ---- Requests -------------------------------------------------------------------------------- */

/* The verbs: name, and first word on the wire. Those with the same word are neighbours. */
#define POOL_VERBS(ROW)                                                                            \
    ROW(TAKE, "TAKE")                                                                              \
    ROW(RETURN, "RETURN")                                                                          \
    ROW(JOIN, "JOIN")                                                                              \
    ROW(SUPPLY, "SUPPLY")                                                                          \
    ROW(MEMBER_ADD, "MEMBER")                                                                      \
    ROW(MEMBER_SET, "MEMBER")                                                                      \
    ROW(MEMBER_DROP, "MEMBER")                                                                     \
    ROW(POOL_ADD, "POOL")                                                                          \
    ROW(POOL_SET, "POOL")                                                                          \
    ROW(POOL_DROP, "POOL")                                                                         \
    ROW(POOL_SHOW, "POOL")                                                                         \
    ROW(POOL_LIST, "POOL")                                                                         \
    ROW(WATCH, "WATCH")                                                                            \
    ROW(QUIT, "QUIT")

enum pool_verb {
#define ROW(name, words) POOL_VERB_##name,
    POOL_VERBS(ROW)
#undef ROW
        POOL_VERB_COUNT
};

/* for=: what a member is taken for. */
enum pool_take_for {
    POOL_TAKE_FOR_USE,
    POOL_TAKE_FOR_CLEAN,
    POOL_TAKE_FOR_CHECK,
    POOL_TAKE_FOR_COUNT
};
extern const char *const pool_take_for_words[POOL_TAKE_FOR_COUNT];

/*
 * A request, about 1.5 KB. Fields that the verb does not use are zero, but entries of the arrays
 * behind their count are undefined.
 */
struct pool_request {
    enum pool_verb verb;
    enum pool_take_for take_for;             /* TAKE */
    uint32_t count;                          /* TAKE: 1 to POOLS_COUNT_MAX */
    int64_t timeout_ns;                      /* TAKE: 0 when absent, up to POOLS_TIMEOUT_MAX_NS */
    struct bytes group;                      /* TAKE: without its "@"; or `targets` */
    struct bytes by;                         /* TAKE: len 0 when absent */
    bool has_fence;                          /* RETURN */
    bool failed;                             /* RETURN: "fail" was said */
    bool now;                                /* MEMBER SET, MEMBER DROP, POOL DROP */
    bool mine;                               /* WATCH */
    bool has_value, has_note, has_state;     /* MEMBER SET: these words are there */
    uint64_t fence;                          /* RETURN: only with has_fence */
    uint32_t init, max;                      /* SUPPLY: init <= max */
    struct bytes pool;                       /* JOIN, SUPPLY, MEMBER, POOL; LIST: the prefix, may be
                                                empty; WATCH: empty for "*" */
    struct bytes member;                     /* JOIN, MEMBER; TAKE: len 0 when absent */
    struct bytes value;                      /* JOIN, MEMBER ADD, MEMBER SET: len 0 for none */
    struct bytes note, state;                /* MEMBER SET: any text, also an empty one */
    size_t target_count, pair_count;         /* TAKE: targets 0 with a group */
    struct bytes targets[POOLS_TARGETS_MAX]; /* TAKE */
    struct pool_pair pairs[POOLS_OPTIONS_MAX]; /* JOIN, MEMBER: attributes, at most POOLS_ATTRS_MAX;
                                                  TAKE: with=, at most POOLS_WITH_MAX; POOL ADD,
                                                  POOL SET: options, with any name and value */
};

enum pool_parsed {
    POOL_PARSED,
    POOL_BAD_COMMAND, /* an unknown verb, or a verb that needs words alone on its line */
    POOL_BAD_SYNTAX   /* wrong words */
};

/* True when the line has one of these verbs: pool_parse_request does not return BAD_COMMAND. */
bool pool_is_request(struct bytes line);

/*
 * Parses a line (any bytes, without the line end). *req_r points into the line; it is undefined
 * after BAD_COMMAND and BAD_SYNTAX. Left to the caller: names and values of options, and what
 * `state` may be.
 */
enum pool_parsed pool_parse_request(struct bytes line, struct pool_request *req_r);

/* Buffer size that suffices for any request whose options have POOLS_OPTION_MAX bytes each. */
#define POOLS_REQUEST_ROOM 8192

/*
 * Writes `req` as a line with its "\n" into `to` (`room` bytes). Timeouts are decimal seconds with
 * as few digits as possible. Returns the length. Returns 0 when the line does not fit or would not
 * be parsed as the same request: a word out of its bounds, an unused field that is not zero, a TAKE
 * with a count of 0, a member with the value "-".
 */
size_t pool_compose_request(const struct pool_request *req, uint8_t *to, size_t room);

/* A line of a members file. Points into the line. */
struct pool_member_line {
    struct bytes name;
    struct bytes value; /* len 0 for none */
    struct bytes note;  /* len 0 for none */
    bool down;          /* state=down */
    size_t attr_count;
    struct pool_pair attrs[POOLS_ATTRS_MAX]; /* those behind attr_count are undefined */
};

/*
 * Parses "<member> [<value> [<K=V>]...]", with state=down and note= among the K=V, as strictly as a
 * request: so a blank line and one that begins with a space are wrong. Returns false when the line
 * is wrong; *line_r is undefined then.
 */
bool pool_parse_member(struct bytes line, struct pool_member_line *line_r);

/* ---- Replies --------------------------------------------------------------------------------- */

/* The replies of fixed text: name, and text on the wire without its line end. */
#define POOL_REPLIES(ROW)                                                                          \
    ROW(RETURNED, "RETURNED")                                                                      \
    ROW(GONE, "GONE")                                                                              \
    ROW(NOT_TAKEN, "NOT_TAKEN")                                                                    \
    ROW(JOINED, "JOINED")                                                                          \
    ROW(OK, "OK")                                                                                  \
    ROW(BYE, "BYE")                                                                                \
    ROW(TIMEOUT, "TIMEOUT")                                                                        \
    ROW(QUEUE_FULL, "QUEUE_FULL")                                                                  \
    ROW(END, "") /* of LIST and SHOW */                                                            \
    ROW(BAD_COMMAND, "ERROR BAD_COMMAND")                                                          \
    ROW(BAD_SYNTAX, "ERROR BAD_SYNTAX")                                                            \
    ROW(SHUTTING_DOWN, "ERROR SHUTTING_DOWN")                                                      \
    ROW(DENIED, "ERROR DENIED")                                                                    \
    ROW(WAIT_FOR_RESPONSE, "ERROR WAIT_FOR_RESPONSE")                                              \
    ROW(NO_POOL, "ERROR NO_POOL")                                                                  \
    ROW(WRONG_KIND, "ERROR WRONG_KIND")                                                            \
    ROW(NO_MEMBER, "ERROR NO_MEMBER")                                                              \
    ROW(EXISTS, "ERROR EXISTS")                                                                    \
    ROW(TOO_MANY, "ERROR TOO_MANY")                                                                \
    ROW(POOL_FULL, "ERROR POOL_FULL")                                                              \
    ROW(OUT_OF_MEMORY, "ERROR OUT_OF_MEMORY")                                                      \
    ROW(LINE_TOO_LONG, "ERROR LINE_TOO_LONG")

enum pool_reply {
#define ROW(name, word) POOL_REPLY_##name,
    POOL_REPLIES(ROW)
#undef ROW
        POOL_REPLY_FIXED,                    /* the number of replies of fixed text */
    POOL_REPLY_BAD_VALUE = POOL_REPLY_FIXED, /* "ERROR BAD_VALUE <name>" */
    POOL_REPLY_TAKEN,
    POOL_REPLY_WANT,
    POOL_REPLY_STOP,
    POOL_REPLY_LOST,
    POOL_REPLY_EVENT,
    POOL_REPLY_POOL,
    POOL_REPLY_MEMBER,
    POOL_REPLY_WAITER,
    POOL_REPLY_OTHER /* no reply to these verbs, or a wrong one */
};

/* The reply's line with its "\n", in static memory. Empty unless its text is fixed. */
struct bytes pool_reply_line(enum pool_reply reply);

/* TAKEN <pool> <member> <fence> <value or -> [<K=V>]... */
struct pool_taken_reply {
    struct bytes pool, member;
    uint64_t fence;
    struct bytes value; /* len 0 for none */
    size_t attr_count;
    struct pool_pair attrs[POOLS_ATTRS_MAX]; /* those behind attr_count are undefined */
};

/* WANT <pool> <n> */
struct pool_want_reply {
    struct bytes pool;
    uint32_t want;
};

/* STOP <pool> <member> <why> */
struct pool_stop_reply {
    struct bytes pool, member, why;
};

/* EVENT <pool> <member> <from> <to> <why> [fence=<n>] [conn=<id>] [by=<word>] */
struct pool_event_reply {
    struct bytes pool, member, from, to, why; /* "-" for not there */
    uint64_t fence;                           /* 0 when absent */
    struct bytes conn, by;                    /* len 0 when absent */
};

/* The counts of a POOL line, in its order. */
#define POOL_COUNTS(ROW)                                                                           \
    ROW(members)                                                                                   \
    ROW(free)                                                                                      \
    ROW(taken)                                                                                     \
    ROW(cleaning)                                                                                  \
    ROW(checking)                                                                                  \
    ROW(dirty)                                                                                     \
    ROW(stopping)                                                                                  \
    ROW(down)                                                                                      \
    ROW(waiting)

/*
 * POOL <name> <kind> <open|draining> group=<g or -> members=4 ... waiting=0 want=<n or ->
 * <option=value>...
 */
struct pool_pool_reply {
    struct bytes name, kind;
    bool draining;
    struct bytes group; /* len 0 for none */
#define ROW(name) uint32_t name;
    POOL_COUNTS(ROW)
#undef ROW
    bool has_want;
    uint32_t want; /* only with has_want */
    size_t option_count;
    struct pool_pair options[POOLS_OPTIONS_MAX]; /* those behind option_count are undefined */
};

/*
 * MEMBER <name> <state> <seconds> <fence or -> <holder or -> takes=<n> fails=<n> [then=..] [by=..]
 * [note=..] [<K=V>]...
 */
struct pool_member_reply {
    struct bytes name, state;
    int64_t since_ns;    /* how long it has been in its state; on the wire whole milliseconds */
    uint64_t fence;      /* 0 for none */
    struct bytes holder; /* len 0 for none */
    uint64_t takes, fails;
    struct bytes then, by, note; /* len 0 for none */
    size_t attr_count;
    struct pool_pair attrs[POOLS_ATTRS_MAX]; /* those behind attr_count are undefined */
};

/*
 * WAITER <client> <seconds> <timeout> count=<n> for=<..> [member=..] [with=<K=V>]... [by=..]
 */
struct pool_waiter_reply {
    struct bytes client;
    int64_t since_ns;   /* how long it has waited; on the wire whole milliseconds */
    int64_t timeout_ns; /* as it asked */
    uint32_t count;
    enum pool_take_for take_for;
    struct bytes member, by; /* len 0 for none */
    size_t with_count;
    struct pool_pair with[POOLS_WITH_MAX]; /* those behind with_count are undefined */
};

/* Buffer sizes that suffice for a line with its end. The constants in front are words and spaces.
 */
#define POOLS_PAIRS_ROOM(count) ((count) * (1 + POOLS_KEY_MAX + 1 + POOLS_ATTR_MAX))
#define POOLS_BAD_VALUE_ROOM    (17 + POOLS_OPTION_MAX)
#define POOLS_WANT_ROOM         (17 + POOLS_NAME_MAX)
#define POOLS_STOP_ROOM         (8 + 2 * POOLS_NAME_MAX + POOLS_STATE_MAX)
#define POOLS_LOST_ROOM         26
#define POOLS_EVENT_ROOM                                                                           \
    (48 + 2 * POOLS_NAME_MAX + 3 * POOLS_STATE_MAX + POOLS_HOLDER_MAX + POOLS_BY_MAX)
#define POOLS_TAKEN_ROOM                                                                           \
    (30 + 2 * POOLS_NAME_MAX + POOLS_VALUE_MAX + POOLS_PAIRS_ROOM(POOLS_ATTRS_MAX))
#define POOLS_POOL_ROOM                                                                            \
    (203 + 2 * POOLS_NAME_MAX + POOLS_STATE_MAX + POOLS_OPTIONS_MAX * 2 * (1 + POOLS_OPTION_MAX))
#define POOLS_MEMBER_ROOM                                                                          \
    (116 + POOLS_NAME_MAX + 2 * POOLS_STATE_MAX + POOLS_HOLDER_MAX + POOLS_BY_MAX +                \
     POOLS_NOTE_MAX + POOLS_PAIRS_ROOM(POOLS_ATTRS_MAX))
#define POOLS_WAITER_ROOM                                                                          \
    (83 + POOLS_HOLDER_MAX + POOLS_NAME_MAX + POOLS_BY_MAX + POOLS_WITH_MAX * 5 +                  \
     POOLS_PAIRS_ROOM(POOLS_WITH_MAX))
/* Suffices for each of them. */
#define POOLS_REPLY_ROOM 8192

/*
 * Each writes a line with its "\n" into `to` (`room` bytes) and returns the length; 0 when it does
 * not fit. Parts are written as they are, and must be as the spec says: only in `conn`, `holder`
 * and `client`, each space and control character becomes "_". Times are rounded down.
 */
size_t pool_compose_bad_value(struct bytes name, uint8_t *to, size_t room);
size_t pool_compose_taken(const struct pool_taken_reply *taken, uint8_t *to, size_t room);
/* Buffer size that suffices for this line, whatever its fence. */
size_t pool_taken_room(const struct pool_taken_reply *taken);
size_t pool_compose_want(const struct pool_want_reply *reply, uint8_t *to, size_t room);
size_t pool_compose_stop(const struct pool_stop_reply *reply, uint8_t *to, size_t room);
size_t pool_compose_lost(uint64_t lost, uint8_t *to, size_t room);
size_t pool_compose_event(const struct pool_event_reply *reply, uint8_t *to, size_t room);
size_t pool_compose_pool(const struct pool_pool_reply *reply, uint8_t *to, size_t room);
size_t pool_compose_member(const struct pool_member_reply *reply, uint8_t *to, size_t room);
size_t pool_compose_waiter(const struct pool_waiter_reply *reply, uint8_t *to, size_t room);

/* Any reply line; `reply` says which field of the union is valid. Points into the line. */
struct pool_answer {
    enum pool_reply reply;
    union {
        struct bytes bad_value; /* the name */
        struct pool_taken_reply taken;
        struct pool_want_reply want;
        struct pool_stop_reply stop;
        uint64_t lost;
        struct pool_event_reply event;
        struct pool_pool_reply pool;
        struct pool_member_reply member;
        struct pool_waiter_reply waiter;
    };
};

/* Parses a reply line (any bytes, without the line end). Unknown words at its end are ignored. */
void pool_parse_reply(struct bytes line, struct pool_answer *answer_r);

#endif
