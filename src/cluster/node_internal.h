/*
 * node_internal.h - what the files of the node share. The parts of a node, each in its file:
 *
 *     node.c           life, phases, the loss of the engine, patience
 *     node_wires.c     bytes: commands go out, replies and messages are parsed
 *     node_connect.c   from nothing to an open session
 *     node_checks.c    what the engine must be, and how to say what is wrong
 *     node_assert.c    the report of the ledger, and how it is asserted
 *     node_live.c      beat, lease, grace, leaving
 *     node_watch.c     sessions of others: their beats, and how they are reaped
 *     node_calls.c     requests into calls, and their answers
 *     node_wrong.c     names with a key that another program has written
 *     node_requests.c      life of a request
 *     node_names.c     requests by name and by id
 *     node_messages.c  what comes by subscription
 *     node_sentinel.c  the majority of the Sentinels
 *     node_stats.c      what people see; saving and restoring
 *
 * Threads: one uses a node.
 */
#ifndef CLUSTER_NODE_INTERNAL_H
#define CLUSTER_NODE_INTERNAL_H

#include "base/hash.h"
#include "base/number.h"
#include "base/text.h"
#include "cluster/node.h"
#include "cluster/patterns.h"
#include "cluster/scripts.h"
#include "cluster/url.h"

#include <hiredis/hiredis.h>

/* ---- constants of the protocol page ---------------------------------------------------------- */

#define NODE_NS_PER_MS INT64_C(1000000)

#define NODE_CALL_OPS   128u                  /* of one call, at most */
#define NODE_CALL_BYTES ((size_t)256 * 1024)  /* of one call, with what RESP adds */
#define NODE_CALLS_MAX  2u                    /* under way; the second only when it is full */
#define NODE_AHEAD      ((size_t)1024 * 1024) /* of the calls under way while the node asserts */
/* Full calls with names of one byte, and some more. */
#define NODE_GIVES_MAX 176u

#define NODE_BEATS_PER_LEASE    5 /* also the limit of an answer: lease / 5 */
#define NODE_LEASE_TENTHS       9 /* of the lease, after which this node's is over */
#define NODE_BACKOFF_FIRST_NS   (50 * NODE_NS_PER_MS)
#define NODE_BACKOFF_MOST_NS    (1000 * NODE_NS_PER_MS)
#define NODE_BACKOFFS_PER_LEASE 10 /* the longest is lease / 10 */
#define NODE_SAY_AGAIN_NS       (INT64_C(60000) * NODE_NS_PER_MS)
#define NODE_PATIENCE_LEAST_NS  (200 * NODE_NS_PER_MS) /* with a call that has no answer */
#define NODE_HELD_UPS_PER_LEASE 50                     /* a tick that is later by lease / 50 */
#define NODE_LEAVES_PER_LEASE   50 /* how often `leave` is tried again: each lease / 50 */

#define NODE_OVER_MAX 500u /* sessions known to be over, in one `open` */

#define NODE_REAPS_MAX       8u   /* calls of `reap` under way */
#define NODE_REAP_PART       250u /* names and waits that one gives back */
#define NODE_REAPS_PER_LEASE 100  /* how long those under way may take together: lease / 100 */

#define NODE_SEQ_MAX (UINT64_C(1) << 53) /* scripts count with doubles */

#define NODE_SESSION_SIZE 17u
#define NODE_TERM_SIZE    128u
#define NODE_PREFIX_SIZE  40u
#define NODE_PENDING_MAX  256u        /* replies that are awaited */
#define NODE_DEPTH_MAX    4u          /* of arrays in arrays; the scripts answer 3 */
#define NODE_ELEMENTS_MAX (1u << 20)  /* of all arrays of a reply */
#define NODE_REPLY_MAX    (32u << 20) /* bytes of a reply */
#define NODE_ROUNDS_MAX   8u          /* questions under way at a Sentinel */

/* An honest engine keeps to less. */
#define NODE_SESSIONS_MAX ((size_t)4096) /* sessions looked at in an answer; to be reaped */
#define NODE_TRIES_MAX    (4u << 20)  /* bytes of names to try, beyond which none that it lists */
#define NODE_GIVEN_MAX    (64u << 20) /* bytes of units on their way back that nobody waited for */

/* ---- phases ---------------------------------------------------------------------------------- */

/* In order: each is reached from the one before, or from HELD. node_move has the table. */
enum node_phase {
    PHASE_IDLE,        /* not started, or paused */
    PHASE_BACKOFF,     /* no wires; begins again at retry_ns */
    PHASE_FINDING,     /* asks the Sentinels where the engine is */
    PHASE_CONNECTING,  /* both wires are being opened */
    PHASE_CHECKING,    /* AUTH, SELECT, INFO, SCRIPT LOAD */
    PHASE_SUBSCRIBING, /* waits for the confirmation */
    PHASE_HELD,        /* sends `open` (again) at open_ns, once strict holders are closed */
    PHASE_MAJORITY,    /* asks the Sentinels if this is the engine */
    PHASE_OPENING,     /* `open` is under way */
    PHASE_REPORTING,   /* the session is open; the owner reports the ledger */
    PHASE_ASSERTING,   /* `s` and `w` are under way */
    PHASE_READYING,    /* `ready` is under way */
    PHASE_LIVE,
    PHASE_LEFT, /* left, or gave up leaving */
    PHASES
};

/* ---- requests -------------------------------------------------------------------------------- */

/* `state` of a request. */
enum {
    REQUEST_NEW,
    /* On todo: */
    REQUEST_TODO,        /* goes with one of the next calls */
    REQUEST_CANCEL_TODO, /* its `c` goes next */
    REQUEST_GIVE_TODO,   /* units that nobody wants go back */
    /* On sent: */
    REQUEST_SENT, /* its `a`, `w`, `r`, `g` or `h` is under way */
    REQUEST_CANCEL_SENT,
    REQUEST_GIVE_SENT,
    /* On waits: */
    REQUEST_PLACED,  /* has a seq; this session was not given it yet */
    REQUEST_WAITING, /* the engine has it */
    REQUEST_GRANTED, /* strict, granted, and the node has no lease; goes on with one */
    /* Flags, beside one of these: */
    REQUEST_ADMITTED = 1u << 8, /* was a wait before: queue_max is no reason to refuse it */
    REQUEST_EARLY = 1u << 9,    /* its G came before the answer */
    REQUEST_DONE = 1u << 10,    /* cancelled by a D: the result is DONE */
    REQUEST_INDEXED = 1u << 11,
};
#define REQUEST_STATE(request) ((request)->state & 0xffu)

struct requests {
    struct node_request *first, *last;
    size_t count;
};

/* A hash table: chains of what has a struct node_entry inside. */
struct node_table {
    struct node_entry **chains;
    size_t size, count;
};

/* A shared name that something here concerns: acquisitions that may wait, a report, a `t`. */
struct node_name {
    struct node_entry by_name;
    struct node_name *next, *prev;     /* all names, in order of arrival */
    struct node_request *first, *last; /* acquisitions that may wait, by same_name */
    uint64_t units;                    /* as reported, while the session opens */
    uint64_t told;                     /* as this session, which opens, was told */
    uint64_t done_seq;                 /* of the last D; 0: none */
    struct node_name *try_next;
    unsigned pins;       /* uses of it beside the lists */
    bool try_queued;     /* on node->tries */
    bool wrong;          /* a key of its queue is of another type: another program has written it */
    uint32_t tries_sent; /* `t`s under way */
    size_t len;
    uint8_t bytes[];
};

/* ---- what is under way ----------------------------------------------------------------------- */

enum node_op_kind {
    OP_ACQUIRE = NODE_ACQUIRE,
    OP_RELEASE = NODE_RELEASE,
    OP_GET = NODE_GET,
    OP_HOLDERS = NODE_HOLDERS,
    OP_GIVE,
    OP_CANCEL,
    OP_TRY,
    OP_UNITS, /* so many more than were told */
    OP_LESS,  /* so many fewer */
    OP_WAIT
};

struct node_op_sent {
    enum node_op_kind kind;
    struct node_request *request; /* NULL: TRY, UNITS, LESS */
    struct node_name *name;       /* TRY, UNITS, LESS */
};

struct node_call {
    bool used;
    bool again;      /* sent again by `give`, after OOM */
    int64_t sent_ns; /* of requests: when they were sent first */
    unsigned count;
    size_t bytes; /* while the node asserts: those of its command */
    struct node_op_sent ops[NODE_CALL_OPS];
};

/* The kinds of replies on the wire for commands. */
enum pending_kind {
    PENDING_AUTH,
    PENDING_SELECT,
    PENDING_INFO,
    PENDING_CONFIG,
    PENDING_LOAD,
    PENDING_OPEN,
    PENDING_ASSERT,
    PENDING_READY,
    PENDING_BEAT,
    PENDING_REAP,
    PENDING_GRACE,
    PENDING_LEAVE,
    PENDING_LOOK,
    PENDING_CALL,
    PENDING_KINDS
};

struct pending {
    enum pending_kind kind;
    unsigned detail; /* which call, which script */
    int64_t sent_ns;
};

struct node_wire_state {
    bool asked, open; /* the owner was asked to open it; it is open */
    redisReader *reader;
    size_t bytes, elements; /* of the reply that is being read */
};

/* A session of which only the beat is known. */
struct watched {
    char session[NODE_SESSION_SIZE];
    uint64_t beat;
    int64_t since_ns; /* when this beat came first, on this connection */
    uint32_t round;
};

#define ENDED_KNOWN UINT64_MAX

/* A session that is over: for `open` (X), and for `reap`. */
struct ended {
    char session[NODE_SESSION_SIZE];
    uint64_t beat;   /* ENDED_KNOWN: it is over, whatever its beat */
    bool foreign;    /* of another node, as far as known */
    int64_t over_ns; /* when that was certain; foreign ones wait for a later renewal (Sentinel) */
    bool confirmed;  /* of X: the predecessor's, stays over connections */
};

struct ended_list {
    struct ended *items;
    size_t count, room;
};

struct sentinel {
    char why[128];                    /* why it has not voted; empty: not known */
    uint32_t rounds[NODE_ROUNDS_MAX]; /* of the questions under way, oldest first */
    int64_t sent_ns[NODE_ROUNDS_MAX];
    unsigned asked;
    uint32_t voted; /* the round of the vote; 0: none */
    struct url_host vote;
};

/* The engine's settings that are looked at and decide nothing: not every user may read them. */
enum node_advised { NODE_ADVISED_SAVE, NODE_ADVISED_STOP, NODE_ADVISED_COUNT };

enum round_purpose { ROUND_NONE, ROUND_FIND, ROUND_OPEN, ROUND_RENEW };

/* The most arguments of a command: those of `open`, or of a call whose ops have at most five. */
#define COMMAND_ARGS (2 * NODE_OVER_MAX + 16)
_Static_assert(COMMAND_ARGS >= 5 * NODE_CALL_OPS + 16, "a full call fits into a command");

/* A command is begun, gets its arguments, and is sent. Arguments must stay valid until then. */
struct command {
    const char *args[COMMAND_ARGS];
    size_t lens[COMMAND_ARGS];
    int count;
    size_t bytes;
    char numbers[NODE_CALL_OPS * 5 + 16][40]; /* ids, and classes with a maxqueue */
    unsigned numbers_used;
};

struct node {
    /* Configuration. */
    const struct url *url;
    char *user, *password, *node, *where, *prefix;
    char key[NODE_PREFIX_SIZE]; /* of each script: the prefix in braces */
    struct patterns *patterns;
    int64_t lease_ns, patience_ns;
    struct node_does does;
    void *arg;

    /* Life. */
    int64_t now_ns; /* the time of the call from outside */
    enum node_phase phase;
    bool leaving;
    int64_t lost_ns;    /* patience counts from here: the last live session was lost, or its oldest
                           call without an answer was sent; or the start */
    bool lost_known;    /* restored: node_start keeps lost_ns */
    bool alone;         /* patience is over; the threads were told */
    bool alone_ended;   /* in this session they were told again to ask */
    int64_t backoff_ns; /* of the next failure; 0: the first */
    int64_t retry_ns;   /* BACKOFF */
    int64_t step_ns;    /* the limit of the present step; 0: none */
    int64_t open_ns;    /* HELD: when to send `open` */
    int64_t show_ns;    /* REPORTING: when to show others that the session lives */
    struct node_reason reasons[NODE_REASONS_MAX]; /* the present one first; since the last beat */
    unsigned reasons_count;

    /* The session. */
    char session[NODE_SESSION_SIZE]; /* empty: none */
    char opened[NODE_SESSION_SIZE];  /* the last one that `open` accepted; empty: none */
    char last[NODE_SESSION_SIZE];    /* in which this process was live; empty: none */
    char term[NODE_TERM_SIZE];
    uint64_t seq;            /* highest ever seen */
    bool strict_held;        /* strict units may be held */
    bool strict_closing;     /* close_strict was called */
    struct ended_list over;  /* X of the next `open` */
    struct ended_list reaps; /* to reap, this node's own first; calls are for the first */
    unsigned reaping;        /* calls under way */
    unsigned reap_calls;     /* as many were sent together */
    unsigned reap_most;      /* as many may go together; 0: one */
    uint32_t reap_number;    /* counts sessions, to know which one an answer is for */
    uint64_t reap_left;      /* names and waits of the first that are left; 0: not known */
    int64_t reap_sent_ns;
    struct watched *watched;
    size_t watched_count, watched_room, watched_hint;
    uint32_t watch_round;

    /* Lease, beats, grace. */
    int64_t lease_end_ns;  /* 0: no lease */
    int64_t live_ns;       /* since when the session is live */
    int64_t beat_ns;       /* the next beat, and the limit of the last one */
    bool calls_late;       /* the last tick found a call without an answer for too long */
    bool beat_awaited;     /* its reply */
    uint64_t beat_number;  /* of the last reply */
    uint64_t beat_heard;   /* of the last B */
    bool beat_checked;     /* beat_number is of a beat: its B must have come by beat_ns */
    int64_t renew_sent_ns; /* when the `ready` or beat was sent which may renew */
    bool renew_answered, renew_agreed;
    int64_t renewed_ns; /* when the one was sent that renewed last; 0: none in this session */
    bool grace, grace_asked;
    int64_t grace_since_ns;
    int64_t loose_try_ns; /* `t` of loose names after `ready` in grace; 0: none */
    int64_t look_ns;      /* next look; 0: none */
    int64_t leave_ns, leave_until_ns;
    bool leave_sent;

    /* Asks. */
    struct requests todo, sent, waits;
    struct node_table ids, names;
    struct node_name *first_name, *last_name;
    struct node_name *tries, *last_try;
    size_t tries_bytes;
    size_t given_bytes; /* of requests that are its own */
    struct hash_key hash_key;
    uint64_t granted_held; /* asks in REQUEST_GRANTED */
    int64_t wrong_said_ns; /* when the log had names with a wrong key last; 0: not yet */

    /* The report. */
    uint32_t report_number;     /* of the last one that made the threads ask */
    uint32_t session_report;    /* of this session's; 0: none, or patience was over since */
    uint32_t report_connection; /* when the last one was asked for */
    bool report_under_way, report_failed;
    struct node_name *assert_name;    /* the next to assert; NULL: none */
    struct node_request *assert_wait; /* its next wait */
    bool assert_units;                /* its units come next */

    /* Wires. */
    struct command command; /* the one that is being made */
    uint32_t connection;    /* grows with each closing of the engine's wires */
    struct node_wire_state wires[NODE_WIRES];
    struct pending pending[NODE_PENDING_MAX];
    unsigned pending_first, pending_count;
    struct pending answered; /* the command whose reply is handled now */
    bool auth_awaited;       /* the answer of AUTH on the wire for messages */
    int64_t answered_ns;     /* the last reply */
    int64_t late_ns;         /* the limit of an answer that a tick found long past */
    char shas[CLUSTER_SCRIPT_COUNT][48];
    struct node_call calls[NODE_GIVES_MAX];
    unsigned calls_used;
    size_t ahead; /* bytes of those under way while the node asserts */

    /* Sentinels. */
    struct sentinel sentinels[NODE_SENTINELS_MAX];
    uint32_t round;
    enum round_purpose purpose;
    struct url_host engine; /* as the majority names it; its host is empty before */

    /* Seen. */
    struct node_stats counts;
    bool advised[NODE_ADVISED_COUNT]; /* so set that a failed snapshot stops writes */
    struct node_peer *peers;
    size_t peers_count;
    char patterns_differ[256]; /* the nodes that were named in the log last for other patterns */
};

/* ---- node.c ---------------------------------------------------------------------------------- */

/* Changes the phase; checks that the change is allowed. */
void node_move(struct node *node, enum node_phase to);
/* Closes the session and both wires, and begins again after a while; harmless when there are none.
 * Returns false, as the next two do. */
bool node_lose(struct node *node, enum node_loss loss, const char *why);
/* The same, because this process has no memory. */
bool node_no_memory(struct node *node);
/* The node does not join: notes why, and begins again. */
bool node_refuse(struct node *node, const char *format, ...) PRINTF_LIKE(2, 3);
/* Notes why the node does not join. The log has each reason when it comes, then once a minute. */
void node_note_refused(struct node *node, const char *format, ...) PRINTF_LIKE(2, 3);
void node_log(struct node *node, enum node_level level, const char *format, ...) PRINTF_LIKE(3, 4);
/* Leaving is over: there is no session, and no other one follows. */
void node_left(struct node *node);
/* Asks the owner to close all connections that hold strict units. */
void node_close_strict(struct node *node);
/* A session is open (or opening to be live): requests go to the engine, or wait for that. */
static inline bool node_is_open(const struct node *node)
{
    return node->phase >= PHASE_REPORTING && node->phase <= PHASE_LIVE;
}
static inline bool node_is_sentinel(const struct node *node)
{
    return node->url->kind == URL_SENTINEL;
}
static inline int64_t node_answer_limit(const struct node *node)
{
    return node->lease_ns / NODE_BEATS_PER_LEASE;
}
/* How long the engine may be silent while requests wait for it. */
static inline int64_t node_silence_limit(const struct node *node)
{
    return node->patience_ns > NODE_PATIENCE_LEAST_NS ? node->patience_ns : NODE_PATIENCE_LEAST_NS;
}
/* Everything that comes from outside begins with this: takes the time, and looks if the lease is
 * over. */
void node_enter(struct node *node, int64_t now_ns);
/* Looks if the lease is over. */
void node_look_at_lease(struct node *node);

/* Puts *due forward to `at`; 0: to none. */
static inline void node_earlier(int64_t *due, int64_t at)
{
    if (at && at < *due)
        *due = at;
}

/* Takes the reply to node->answered. Returns false when it makes no sense, or the engine was lost.
 */
typedef bool reply_fn(struct node *node, const redisReply *reply);
reply_fn node_on_auth, node_on_select, node_on_info, node_on_config, node_on_load, node_on_open,
    node_on_assert, node_on_ready, node_on_beat, node_on_reap, node_on_grace, node_on_leave,
    node_on_look, node_on_call;

/* ---- node_wires.c ---------------------------------------------------------------------------- */

/* Begins a command with these words; NULL after the last. */
struct command *node_command(struct node *node, const char *word, ...) __attribute__((sentinel));
/* Begins the call of a script: with its key, and the session if it takes one. */
struct command *node_script(struct node *node, enum cluster_script script);
void command_add(struct command *c, const void *bytes, size_t len);
void command_str(struct command *c, const char *text);
void command_number(struct command *c, uint64_t number);
/* Room for a text of 23 characters that stays valid until the command is sent. */
char *command_room(struct command *c);
/* Copies as much as there is room for; what is not visible becomes '?'. */
void bytes_visible(struct bytes text, char *to, size_t size);
/* Sends the command to the engine and expects a reply; false: the engine was lost. */
bool node_send(struct node *node, enum pending_kind kind, unsigned detail);
/* Sends it on any wire, without a reply that node_wires.c knows of. */
bool node_send_on(struct node *node, unsigned wire);

void node_wire_open(struct node *node, unsigned wire);
void node_wire_close(struct node *node, unsigned wire);
/* Closes both wires to the engine and forgets what is under way. */
void node_engine_close(struct node *node);

/* The reply as a number or text; false: it is something else. */
bool reply_number(const redisReply *reply, int64_t *number_r);
bool reply_text(const redisReply *reply, struct bytes *text_r);
bool reply_decimal(const redisReply *reply, uint64_t *number_r);
/* Copies a text that must fit, of visible characters. */
bool reply_copy(const redisReply *reply, char *to, size_t size);
/* A session and its beat. */
bool reply_beat(redisReply *const at[2], char session_r[NODE_SESSION_SIZE], uint64_t *beat_r);
/* The engine said something that it never says: begins again, and returns false. */
bool node_odd(struct node *node, const char *what);
/* An error reply where none is expected: the same. */
bool node_error_reply(struct node *node, const redisReply *reply);
bool reply_error_is(const redisReply *reply, const char *word);
/* What the engine says, for people: the first line, as visible characters. */
void reply_error_text(const redisReply *reply, char *to, size_t size);

/* ---- node_connect.c -------------------------------------------------------------------------- */

/* Begins to connect (with Sentinels: to look for the engine). */
void node_connect(struct node *node);
/* The engine's address is known. */
void node_connect_engine(struct node *node);
/* A wire to the engine is open. */
void node_connected(struct node *node);
/* Sends `open`, when strict holders are closed and (with Sentinels) the majority agrees. */
void node_open_session(struct node *node);
void node_send_open(struct node *node);
/* The subscription is confirmed. False: there was none to be. */
bool node_subscribed(struct node *node);

/* ---- node_checks.c --------------------------------------------------------------------------- */

/* Looks at the answer of INFO. False: the node was refused, with what is wrong and what to set. */
bool node_check_info(struct node *node, struct bytes info);
/* The node does not join an engine with such a `maxmemory-policy`. Returns false. */
bool node_refuse_policy(struct node *node, const char *policy);
extern const char *const node_advised_words[NODE_ADVISED_COUNT];
/* What to do about an error reply while connecting; NULL: it is none that a person must mend. */
const char *node_error_advice(const redisReply *reply);

/* ---- node_assert.c --------------------------------------------------------------------------- */

/* Asks for a report; the last one of the session ends the time alone. */
void node_begin_report(struct node *node, bool last);
/* Forgets what was reported and told. */
void node_forget_told(struct node *node);
/* The workers' report takes its time: shows others that the session lives. */
void node_show_life(struct node *node);

/* ---- node_live.c ----------------------------------------------------------------------------- */

void node_live_begin(struct node *node, int64_t ready_sent_ns);
void node_live_tick(struct node *node);
int64_t node_live_due_ns(const struct node *node);
/* A `ready` or a beat is sent: it will renew the lease. */
void node_renew_sent(struct node *node);
void node_renew_agreed(struct node *node);
/* Tries to send `leave`. */
void node_try_leave(struct node *node);
/* The lease is not this node's any more. */
void node_set_lease(struct node *node, int64_t end_ns);

/* ---- node_watch.c ---------------------------------------------------------------------------- */

void node_watch_clear(struct node *node);
void node_watch_begin(struct node *node);
/* A session's beat, as the engine says it. A new session is looked at soon. NULL: no memory. */
struct watched *node_watch(struct node *node, const char *session, uint64_t beat) MUST_USE;
/* Forgets the sessions that were not in the last round. If there are any, a look is due. */
void node_watch_end(struct node *node);
bool ended_add(struct ended_list *list, const struct ended *item) MUST_USE;
struct ended *ended_find(struct ended_list *list, const char *session);
void ended_remove(struct ended_list *list, size_t at);
/* Adds a session to those that are reaped; harmless when it is there. */
bool node_reap_later(struct node *node, const struct ended *item) MUST_USE;
/* Reaps those that watching found to be over. */
bool node_reap_watched(struct node *node) MUST_USE;
/* Sends the next calls of `reap`, if any may be sent. */
void node_reap_next(struct node *node);
/* A flat array of sessions and beats: each is watched. False: odd, or no memory (the engine was
 * lost). */
bool node_watch_array(struct node *node, const redisReply *all) MUST_USE;

/* ---- node_calls.c ---------------------------------------------------------------------------- */

/* Sends calls, as far as they may go now. */
void node_calls_send(struct node *node);
/* A free call; there is one as long as calls_used is below the bound. */
struct node_call *node_call_take(struct node *node);
void node_call_free(struct node *node, struct node_call *call);
/* Forgets the calls under way, but not their requests. */
void node_calls_lost(struct node *node);
/* Of a live session: when the oldest call without an answer was sent; INT64_MAX: there is none. */
int64_t node_calls_since_ns(const struct node *node);
static inline struct bytes node_op_name(const struct node_op_sent *op)
{
    return op->request ? op->request->name : bytes_at(op->name->bytes, op->name->len);
}
/* Is there room for one more op in this call? */
bool node_op_fits(const struct node_call *call, const struct command *c, struct bytes name);
/* Adds an op to a call and to its command. */
void node_op_add(struct node_call *call, struct command *c, const struct node_op_sent *op);
/* `t` of a name goes with one of the next calls. */
void node_try(struct node *node, struct node_name *name);
/* `t` of names with waits: all, or of one class. */
void node_try_all(struct node *node, bool strict, bool loose);
/* `t` of names whose hand over is not finished, as a reply lists them. False: odd, or no memory
 * (the engine was lost). */
bool node_try_listed(struct node *node, const redisReply *names) MUST_USE;

/* ---- node_wrong.c ---------------------------------------------------------------------------- */

/* Is it the answer of an op that found a key of the name to be of another type? */
bool node_is_wrong(const redisReply *reply);
/* Notes that. False: no memory (the engine was lost). */
bool node_note_wrong(struct node *node, struct bytes name, const redisReply *reply);
/* Has this name such a key, as far as is known? */
bool node_has_wrong(struct node *node, struct bytes name);
/* Answers an acquisition of such a name, or has it wait until the key is right. */
void node_request_wrong(struct node *node, struct node_request *request);
/* The same for all acquisitions of such names that are not under way. */
void node_answer_all_wrong(struct node *node);
/* A beat was answered: looks at all such names. */
void node_try_wrong(struct node *node);
/* `t` found that the key is right: the node opens anew, and tells all. */
void node_wrong_over(struct node *node, struct node_name *name);
/* Forgets them; what is still wrong shows again. */
void node_forget_wrong(struct node *node);

/* ---- node_requests.c ------------------------------------------------------------------------- */

void request_set(struct node *node, struct node_request *request, unsigned state);
/* Answers a request, which leaves the node. */
void request_finish(struct node *node, struct node_request *request, enum node_result result);
/* The answer to a request that was cancelled. */
static inline enum node_result ask_end(const struct node_request *request)
{
    return request->state & REQUEST_DONE ? NODE_DONE : NODE_CANCELLED;
}
/* Units arrived, by answer or message: the client gets them, or they go back. */
void request_granted(struct node *node, struct node_request *request);
/* The engine put it into the queue. */
void request_queued(struct node *node, struct node_request *request, uint64_t seq);
/* Units that nobody here wants go back. False: no memory (the engine was lost). */
bool node_give_back(struct node *node, struct bytes name, uint32_t units, uint64_t id);
/* The waits of ACQ4ANY of a name up to this seq are done. */
void node_done(struct node *node, struct bytes name, uint64_t up_to);
/* The session is lost: what was under way is as if never sent. */
void node_requests_lost(struct node *node);
/* Patience is over: answers what need not wait for the engine. */
void node_requests_alone(struct node *node);
/* Strict units that waited for a lease go to their clients. */
void node_requests_lease(struct node *node);
/* All is reported. Waits without a place go before what else is to do, by age: the threads told of
 * them in an order of their own. */
void node_requests_by_age(struct node *node);
/* The patterns are others: names that are shared no more, and other classes. */
void node_requests_patterns(struct node *node);

/* ---- node_names.c ---------------------------------------------------------------------------- */

struct node_name *node_name_find(struct node *node, struct bytes name);
/* Finds or makes; NULL: no memory. */
struct node_name *node_name_get(struct node *node, struct bytes name) MUST_USE;
/* Frees it if nothing needs it any more. */
void node_name_release(struct node *node, struct node_name *name);
/* Gives back what a table for many more names took. */
void node_names_shrink(struct node *node);
static inline struct bytes name_bytes(const struct node_name *name)
{
    return bytes_at(name->bytes, name->len);
}
/* Acquisitions by id, and those that may wait by name. */
bool node_index_add(struct node *node, struct node_request *request) MUST_USE;
void node_index_remove(struct node *node, struct node_request *request);
struct node_request *node_request_find(struct node *node, uint64_t id);
void node_names_free(struct node *node);

/* ---- node_messages.c ------------------------------------------------------------------------- */

/* A message, or the confirmation of the subscription. False: as of a reply. */
bool node_on_message(struct node *node, const redisReply *reply);

/* ---- node_sentinel.c ------------------------------------------------------------------------- */

/* Asks all Sentinels. The answers of an earlier round count no more. */
void node_round(struct node *node, enum round_purpose purpose);
void node_sentinel_opened(struct node *node, unsigned wire);
void node_sentinel_closed(struct node *node, unsigned wire, const char *reason);
void node_on_sentinel(struct node *node, unsigned wire, const redisReply *reply);
/* Says why no majority of the Sentinels names an engine, as far as it is known. */
void node_sentinel_why(const struct node *node, char *why, size_t size);
void node_sentinels_close(struct node *node);

/* ---- node_stats.c ---------------------------------------------------------------------------- */

void node_forget_peers(struct node *node);

#endif
