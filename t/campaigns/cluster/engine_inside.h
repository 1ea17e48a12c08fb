/*
 * engine_inside.h - what the files of the engine in memory share.
 *
 * Texts (names, sessions, nodes, classes) are numbers of a table that an engine and its copies
 * share, so that the data are a few arrays of numbers, which are copied as they are. Only what the
 * document calls the truth is kept: units, waits, sessions. Sums and queues are counted when asked.
 */
#ifndef FAKE_ENGINE_INSIDE_H
#define FAKE_ENGINE_INSIDE_H

#include "t/campaigns/cluster/engine.h"

enum {
    FE_NONE = 0,           /* the number of the empty text */
    FE_SCRIPT_BOUND = 250, /* names, waits and grants of a script */
    FE_PAIRS = 256,        /* pairs of session and class of a name */
    FE_MORE_SHOWN = 100,   /* names of `more` that a beat shows */
    FE_WRONG = 8,          /* names with a queue that another program has written */
    FE_SHA = 40
};

/* Bytes that grow; zeroed is empty. */
struct fe_bytes {
    char *at;
    size_t len, room;
};
void fe_put(struct fe_bytes *bytes, const void *more, size_t len);
void fe_putf(struct fe_bytes *bytes, const char *format, ...) __attribute__((format(printf, 2, 3)));
void fe_took(struct fe_bytes *bytes, size_t len);
void *fe_grow(void *rows, size_t *room, size_t count, size_t size);

/* ---- Answers ---- */

void fe_say_array(struct fe_bytes *out, size_t count);
void fe_say_integer(struct fe_bytes *out, int64_t value);
void fe_say_text(struct fe_bytes *out, const char *text);
void fe_say_bytes(struct fe_bytes *out, const void *bytes, size_t len);
void fe_say_number(struct fe_bytes *out, uint64_t value); /* as a bulk string */
void fe_say_error(struct fe_bytes *out, const char *text);

/* ---- Texts ---- */

struct fe_text {
    char *bytes; /* a 0 follows */
    size_t len;
};
struct fe_texts {
    struct fe_text *rows;
    int *slots;
    size_t count, room, slot_count;
    size_t users;
};
int fe_text(struct fe_texts *texts, const void *bytes, size_t len);

/* ---- Data ---- */

enum fe_life { FE_OPENING, FE_LIVE, FE_ENDED };

struct fe_session {
    int id, node, where, digest, last;
    enum fe_life life;
    bool reaped;
    uint64_t beat;
};
struct fe_held { /* units of a name in a session; at least 1 */
    int session, name;
    uint64_t units;
};
struct fe_wait {
    int session, name, class;
    uint64_t seq, id;
};
struct fe_data {
    uint64_t version; /* 0: there is none */
    int term;
    bool grace;
    uint64_t lease, seq;
    struct fe_session *sessions;
    struct fe_held *held;
    struct fe_wait *waits;
    int *more;
    size_t session_count, session_room, held_count, held_room;
    size_t wait_count, wait_room, more_count, more_room;
    int wrong[FE_WRONG]; /* names; FE_NONE: free */
};
void fe_data_free(struct fe_data *data);
struct fe_data fe_data_copy(const struct fe_data *data);

struct fe_known {
    char *text;
    size_t len;
    enum fake_script script;
};
struct fe_loaded {
    char sha[FE_SHA + 1];
    enum fake_script script;
};

struct fake_engine {
    struct fe_texts *texts;
    struct fe_data data;
    struct fe_data *kept; /* the oldest first */
    size_t kept_count, keep;
    char *prefix; /* {PREFIX}: */
    uint64_t seed;
    char run_id[FE_SHA + 1], replid[FE_SHA + 1];
    int term;
    bool replica;
    enum fake_trouble trouble;
    char *info[5];
    char *forbidden;
    char *service, *host; /* of a Sentinel */
    uint16_t port;
    uint32_t bound;
    struct fe_known *known;
    size_t known_count, known_room;
    struct fe_loaded *loaded;
    size_t loaded_count, loaded_room;
    size_t scripts_seen; /* texts that were recognised by their order */
    struct fake_link *links;
    struct fake_counts counts;
    struct fe_bytes problem, misuse;
};

/* ---- Data: looking ---- */

const char *fe_text_of(const struct fake_engine *engine, int text);
size_t fe_len_of(const struct fake_engine *engine, int text);
/* NULL if it is unknown. */
struct fe_session *fe_session(struct fake_engine *engine, int id);
/* The session of a node that is not ended, or NULL. */
struct fe_session *fe_of_node(struct fake_engine *engine, int node);
/* Units and waits of a name; of one session unless that is FE_NONE. */
uint64_t fe_units(const struct fake_engine *engine, int session, int name);
uint64_t fe_waits(const struct fake_engine *engine, int session, int name);
/* Pairs of session and class that wait for a name; `has`: is this pair one of them? */
size_t fe_pairs(const struct fake_engine *engine, int name, int session, int class, bool *has);
/* True if `a` stands before `b` in the line of a name. */
bool fe_before(const struct fake_engine *engine, const struct fe_wait *a, const struct fe_wait *b);

struct fe_class {
    char kind;
    bool strict;
    uint64_t units, limit;
};
/* False if the text is no class. */
bool fe_class_of(const struct fake_engine *engine, int class, struct fe_class *found);

/* ---- Data: changes ---- */

/* A script that runs. */
struct fe_run {
    struct fake_engine *engine;
    const struct fe_text *args;
    size_t arg_count;
    struct fe_bytes *out;
    uint32_t left; /* of the bound */
};

void fe_add_units(struct fake_engine *engine, int session, int name, uint64_t units);
void fe_drop_units(struct fake_engine *engine, int session, int name, uint64_t units);
void fe_add_wait(struct fake_engine *engine, struct fe_wait wait);
/* Drops the waits of a name in a session and class; FE_NONE: in all of them. Returns how many. */
size_t fe_drop_waits(struct fake_engine *engine, int session, int name, int class);
void fe_add_more(struct fake_engine *engine, int name);
void fe_drop_more(struct fake_engine *engine, int name);
/* True for a name whose queue another program has written. */
bool fe_is_wrong(const struct fake_engine *engine, int name);
void fe_drop_session(struct fake_engine *engine, int id);
/* Publishes on to:SESSION; how many connections it reached. */
size_t fe_publish(struct fake_engine *engine, int session, const char *bytes, size_t len);
/* Grants what fits. False: not finished, the name is in `more` then. */
bool fe_hand_over(struct fe_run *run, int name);
/* Says DONE to all that wait in a class `a` of the name. */
void fe_done(struct fe_run *run, int name);

/* ---- Scripts ---- */

/* The answer of a script goes to run->out. */
void fe_run_script(struct fe_run *run, enum fake_script script);
void fe_run_ops(struct fe_run *run, bool call);
void fe_run_reap(struct fe_run *run);
/* A session by its text, or NULL after an error answer SESSION. */
struct fe_session *fe_asking(struct fe_run *run, bool live_only);
/* Notes a command that no node may send, and answers it with an error. */
void fe_misused(struct fe_run *run, const char *what);
/* A text, or an argument, as a number; false if it is none. */
bool fe_digits(const char *text, size_t len, uint64_t *value);
bool fe_number(const struct fe_text *arg, uint64_t *value);
int fe_arg(struct fe_run *run, size_t n);

/* ---- Commands ---- */

/* Serves a command of a connection: engine_commands.c. */
void fe_serve(struct fake_link *link, const struct fe_text *words, size_t count);

struct fake_link {
    struct fake_engine *engine; /* NULL after the engine closed */
    struct fake_link *next;
    struct fe_bytes in, out;
    int *channels;
    size_t channel_count, channel_room;
};

#endif
