/* engine_commands.c - the commands of the engine in memory, and its answers in RESP2. */
#include "t/campaigns/cluster/engine_inside.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- Answers ---- */

void fe_say_array(struct fe_bytes *out, size_t count)
{
    fe_putf(out, "*%zu\r\n", count);
}

void fe_say_integer(struct fe_bytes *out, int64_t value)
{
    fe_putf(out, ":%" PRId64 "\r\n", value);
}

void fe_say_bytes(struct fe_bytes *out, const void *bytes, size_t len)
{
    fe_putf(out, "$%zu\r\n", len);
    fe_put(out, bytes, len);
    fe_put(out, "\r\n", 2);
}

void fe_say_text(struct fe_bytes *out, const char *text)
{
    fe_say_bytes(out, text, strlen(text));
}

void fe_say_number(struct fe_bytes *out, uint64_t value)
{
    struct fe_bytes text = {0};
    fe_putf(&text, "%" PRIu64, value);
    fe_say_bytes(out, text.at, text.len);
    free(text.at);
}

void fe_say_error(struct fe_bytes *out, const char *text)
{
    fe_putf(out, "-%s\r\n", text);
}

/* ---- Scripts ---- */

static const char *const script_names[FAKE_SCRIPTS] = {
    [FAKE_OPEN] = "open",   [FAKE_CALL] = "call",   [FAKE_GIVE] = "give",
    [FAKE_READY] = "ready", [FAKE_BEAT] = "beat",   [FAKE_REAP] = "reap",
    [FAKE_GRACE] = "grace", [FAKE_LEAVE] = "leave", [FAKE_LOOK] = "look",
};

const char *fake_script_name(enum fake_script script)
{
    return script_names[script];
}

/* True if the line is a comment that begins with the name of a file, or the name and a colon. */
static bool names(const char *line, const char *name)
{
    if (strncmp(line, "-- ", 3) != 0 || strncmp(line + 3, name, strlen(name)) != 0)
        return false;
    const char *end = line + 3 + strlen(name);
    return *end == ':' || strncmp(end, ".lua", 4) == 0;
}

static enum fake_script script_of(struct fake_engine *engine, const struct fe_text *text)
{
    for (size_t n = 0; n < engine->known_count; n++) {
        const struct fe_known *known = &engine->known[n];
        if (known->len == text->len && memcmp(known->text, text->bytes, text->len) == 0)
            return known->script;
    }
    for (const char *line = text->bytes; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        for (int n = 0; n < FAKE_SCRIPTS; n++) {
            if (names(line, script_names[n]))
                return (enum fake_script)n;
        }
    }
    enum fake_script next = (enum fake_script)(engine->scripts_seen++ % FAKE_SCRIPTS);
    fake_engine_script(engine, next, text->bytes, text->len);
    return next;
}

static void sha_of(const struct fe_text *text, char sha[FE_SHA + 1])
{
    uint64_t hash = UINT64_C(0x9ae16a3b2f90404f);
    for (size_t n = 0; n < text->len; n++)
        hash = (hash ^ (unsigned char)text->bytes[n]) * UINT64_C(0x100000001b3);
    for (size_t n = 0; n < FE_SHA; n++) {
        sha[n] = "0123456789abcdef"[hash >> 60];
        hash = hash * UINT64_C(0x9e3779b97f4a7c15) + 1;
    }
    sha[FE_SHA] = 0;
}

static void load(struct fake_link *link, const struct fe_text *text)
{
    struct fake_engine *engine = link->engine;
    struct fe_loaded loaded = {.script = script_of(engine, text)};
    sha_of(text, loaded.sha);
    fe_say_text(&link->out, loaded.sha);
    for (size_t n = 0; n < engine->loaded_count; n++) {
        if (strcmp(engine->loaded[n].sha, loaded.sha) == 0)
            return;
    }
    engine->loaded =
        fe_grow(engine->loaded, &engine->loaded_room, engine->loaded_count, sizeof(loaded));
    engine->loaded[engine->loaded_count++] = loaded;
}

/* What Redis says of a script that it refuses, or NULL. */
static const char *trouble_of(const struct fake_engine *engine, enum fake_script script)
{
    if (engine->replica || engine->trouble == FAKE_READONLY)
        return "READONLY You can't write against a read only replica.";
    switch (engine->trouble) {
    case FAKE_FULL:
        return script == FAKE_CALL ? "OOM allow-oom flag is not set on the script, can not run it "
                                     "when used memory > 'maxmemory'"
                                   : NULL;
    case FAKE_MISCONF:
        return "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to "
               "persist to disk.";
    case FAKE_NOREPLICAS:
        return "NOREPLICAS Not enough good replicas to write.";
    default:
        return NULL;
    }
}

static bool same_rows(const void *a, const void *b, size_t a_count, size_t b_count, size_t size)
{
    return a_count == b_count && (a_count == 0 || memcmp(a, b, a_count * size) == 0);
}

static bool same_sessions(const struct fe_data *a, const struct fe_data *b)
{
    for (size_t n = 0; n < a->session_count && n < b->session_count; n++) {
        const struct fe_session *x = &a->sessions[n], *y = &b->sessions[n];
        if (x->id != y->id || x->last != y->last || x->life != y->life || x->reaped != y->reaped ||
            x->beat != y->beat)
            return false;
    }
    return a->session_count == b->session_count;
}

static bool same_waits(const struct fe_data *a, const struct fe_data *b)
{
    for (size_t n = 0; n < a->wait_count && n < b->wait_count; n++) {
        const struct fe_wait *x = &a->waits[n], *y = &b->waits[n];
        if (x->session != y->session || x->name != y->name || x->class != y->class ||
            x->seq != y->seq || x->id != y->id)
            return false;
    }
    return a->wait_count == b->wait_count;
}

static bool same_data(const struct fe_data *a, const struct fe_data *b)
{
    return a->version == b->version && a->term == b->term && a->grace == b->grace &&
           a->lease == b->lease && a->seq == b->seq && same_sessions(a, b) && same_waits(a, b) &&
           same_rows(a->held, b->held, a->held_count, b->held_count, sizeof(*a->held)) &&
           same_rows(a->more, b->more, a->more_count, b->more_count, sizeof(*a->more));
}

/* Keeps the data of before a write. */
static void keep(struct fake_engine *engine, struct fe_data before)
{
    if (same_data(&before, &engine->data)) {
        fe_data_free(&before);
        return;
    }
    if (engine->kept_count == engine->keep) {
        fe_data_free(&engine->kept[0]);
        engine->kept_count--;
        memmove(engine->kept, engine->kept + 1, engine->kept_count * sizeof(*engine->kept));
    }
    engine->kept[engine->kept_count++] = before;
}

static void run_script(struct fake_link *link, enum fake_script script, const struct fe_text *args,
                       size_t count)
{
    struct fake_engine *engine = link->engine;
    struct fe_data before = engine->keep ? fe_data_copy(&engine->data) : (struct fe_data){0};
    /* Messages stand before the answer, also when a connection reads its own. */
    struct fe_bytes out = {0};
    struct fe_run run = {engine, args, count, &out, engine->bound};
    fe_run_script(&run, script);
    fe_put(&link->out, out.at, out.len);
    free(out.at);
    engine->counts.scripts++;
    if (engine->keep)
        keep(engine, before);
}

/* EVALSHA sha 1 {PREFIX}: args... */
static void evalsha(struct fake_link *link, const struct fe_text *words, size_t count)
{
    struct fake_engine *engine = link->engine;
    size_t n = 0;
    while (n < engine->loaded_count &&
           (words[1].len != FE_SHA || strcasecmp(engine->loaded[n].sha, words[1].bytes) != 0))
        n++;
    if (n == engine->loaded_count) {
        fe_say_error(&link->out, "NOSCRIPT No matching script. Please use EVAL.");
        return;
    }
    enum fake_script script = engine->loaded[n].script;
    const char *trouble = trouble_of(engine, script);
    if (trouble) {
        fe_say_error(&link->out, trouble);
        return;
    }
    if (strcmp(words[2].bytes, "1") != 0 || strcmp(words[3].bytes, engine->prefix) != 0) {
        struct fe_run run = {engine, words, count, &link->out, 0};
        fe_misused(&run, "the key of a script is wrong");
        fe_say_error(&link->out, "ERR the key of a script is wrong");
        return;
    }
    run_script(link, script, words + 4, count - 4);
}

/* ---- Other commands ---- */

static void ok(struct fake_link *link)
{
    fe_put(&link->out, "+OK\r\n", 5);
}

static const char *role_of(const struct fake_engine *engine)
{
    if (engine->info[1])
        return engine->info[1];
    return engine->replica ? "slave" : "master";
}

static void info(struct fake_link *link)
{
    struct fake_engine *engine = link->engine;
    struct fe_bytes text = {0};
    bool loading = engine->trouble == FAKE_LOADING;
    fe_putf(&text, "# Server\r\nredis_version:%s\r\nrun_id:%s\r\n",
            engine->info[0] ? engine->info[0] : "7.0.15", engine->run_id);
    fe_putf(&text, "\r\n# Memory\r\nmaxmemory_policy:%s\r\n",
            engine->info[4] ? engine->info[4] : "noeviction");
    fe_putf(&text, "\r\n# Persistence\r\nloading:%s\r\n",
            engine->info[2] ? engine->info[2] : (loading ? "1" : "0"));
    fe_putf(&text, "\r\n# Replication\r\nrole:%s\r\nmaster_replid:%s\r\n", role_of(engine),
            engine->replid);
    fe_putf(&text, "\r\n# Cluster\r\ncluster_enabled:%s\r\n",
            engine->info[3] ? engine->info[3] : "0");
    fe_say_bytes(&link->out, text.at, text.len);
    free(text.at);
}

static void hello(struct fake_link *link, const struct fe_text *words, size_t count)
{
    if (count > 1 && strcmp(words[1].bytes, "2") != 0) {
        fe_say_error(&link->out, "NOPROTO unsupported protocol version");
        return;
    }
    static const char *const fields[] = {"server", "redis", "version", "7.0.15"};
    fe_say_array(&link->out, 14);
    for (size_t n = 0; n < 4; n++)
        fe_say_text(&link->out, fields[n]);
    fe_say_text(&link->out, "proto");
    fe_say_integer(&link->out, 2);
    fe_say_text(&link->out, "id");
    fe_say_integer(&link->out, 1);
    fe_say_text(&link->out, "mode");
    fe_say_text(&link->out, "standalone");
    fe_say_text(&link->out, "role");
    fe_say_text(&link->out, role_of(link->engine));
    fe_say_text(&link->out, "modules");
    fe_say_array(&link->out, 0);
}

static void subscribe(struct fake_link *link, const struct fe_text *words, size_t count)
{
    for (size_t n = 1; n < count; n++) {
        int channel = fe_text(link->engine->texts, words[n].bytes, words[n].len);
        size_t at = 0;
        while (at < link->channel_count && link->channels[at] != channel)
            at++;
        if (at == link->channel_count) {
            link->channels = fe_grow(link->channels, &link->channel_room, link->channel_count,
                                     sizeof(*link->channels));
            link->channels[link->channel_count++] = channel;
        }
        fe_say_array(&link->out, 3);
        fe_say_text(&link->out, "subscribe");
        fe_say_bytes(&link->out, words[n].bytes, words[n].len);
        fe_say_integer(&link->out, (int64_t)link->channel_count);
    }
}

static void ping(struct fake_link *link, const struct fe_text *words, size_t count)
{
    if (link->channel_count > 0) {
        fe_say_array(&link->out, 2);
        fe_say_text(&link->out, "pong");
        fe_say_bytes(&link->out, count > 1 ? words[1].bytes : "", count > 1 ? words[1].len : 0);
    } else if (count > 1) {
        fe_say_bytes(&link->out, words[1].bytes, words[1].len);
    } else {
        fe_put(&link->out, "+PONG\r\n", 7);
    }
}

static void role(struct fake_link *link)
{
    if (link->engine->replica) {
        fe_say_array(&link->out, 5);
        fe_say_text(&link->out, "slave");
        fe_say_text(&link->out, "127.0.0.1");
        fe_say_integer(&link->out, 6379);
        fe_say_text(&link->out, "connected");
        fe_say_integer(&link->out, 0);
        return;
    }
    fe_say_array(&link->out, 3);
    fe_say_text(&link->out, "master");
    fe_say_integer(&link->out, 0);
    fe_say_array(&link->out, 0);
}

static void sentinel(struct fake_link *link, const struct fe_text *service)
{
    const struct fake_engine *engine = link->engine;
    if (!engine->host || strcmp(service->bytes, engine->service) != 0) {
        fe_putf(&link->out, "*-1\r\n");
        return;
    }
    fe_say_array(&link->out, 2);
    fe_say_text(&link->out, engine->host);
    fe_say_number(&link->out, engine->port);
}

enum verb {
    AUTH,
    CLIENT,
    CONFIG,
    EVALSHA,
    HELLO,
    INFO,
    PING,
    ROLE,
    SCRIPT,
    SELECT,
    SENTINEL,
    SUBSCRIBE,
    VERBS
};

static const struct {
    const char *word, *second; /* the second word, if it must be this one */
    size_t fewest;
    bool while_loading, while_subscribed;
} verbs[VERBS] = {
    [AUTH] = {"AUTH", NULL, 2, true, false},
    [CLIENT] = {"CLIENT", "SETNAME", 3, true, false},
    [CONFIG] = {"CONFIG", "GET", 3, true, false},
    [EVALSHA] = {"EVALSHA", NULL, 4, false, false},
    [HELLO] = {"HELLO", NULL, 1, true, false},
    [INFO] = {"INFO", NULL, 1, true, false},
    [PING] = {"PING", NULL, 1, false, true},
    [ROLE] = {"ROLE", NULL, 1, true, false},
    [SCRIPT] = {"SCRIPT", "LOAD", 3, false, false},
    [SELECT] = {"SELECT", NULL, 2, true, false},
    [SENTINEL] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", 3, true, false},
    [SUBSCRIBE] = {"SUBSCRIBE", NULL, 2, true, true},
};

static enum verb verb_of(const struct fe_text *words, size_t count)
{
    for (int n = 0; n < VERBS; n++) {
        if (strcasecmp(words[0].bytes, verbs[n].word) == 0 && count >= verbs[n].fewest &&
            (!verbs[n].second || strcasecmp(words[1].bytes, verbs[n].second) == 0))
            return (enum verb)n;
    }
    return VERBS;
}

/* An error that the state of the engine or of the connection causes, or NULL. */
static const char *refusal_of(const struct fake_link *link, enum verb verb)
{
    if (verb == VERBS)
        return "ERR unknown command";
    if (link->engine->service ? verb != SENTINEL && verb != PING && verb != INFO : verb == SENTINEL)
        return "ERR unknown command";
    if (link->channel_count > 0 && !verbs[verb].while_subscribed)
        return "ERR Can't execute this command: only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / "
               "QUIT / RESET are allowed in this context";
    if (link->engine->trouble == FAKE_LOADING && !verbs[verb].while_loading)
        return "LOADING Redis is loading the dataset in memory";
    if (link->engine->trouble == FAKE_BUSY && verb != AUTH && verb != HELLO)
        return "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN "
               "NOSAVE.";
    return NULL;
}

void fe_serve(struct fake_link *link, const struct fe_text *words, size_t count)
{
    enum verb verb = verb_of(words, count);
    const char *refusal = refusal_of(link, verb);
    link->engine->counts.commands++;
    if (refusal) {
        if (verb == VERBS) {
            struct fe_run run = {link->engine, words, count, &link->out, 0};
            fe_misused(&run, "an unknown command");
        }
        fe_say_error(&link->out, refusal);
        return;
    }
    switch (verb) {
    case AUTH:
    case CLIENT:
    case SELECT:
        ok(link);
        break;
    case CONFIG:
        if (strcmp(words[2].bytes, "maxmemory-policy") != 0) {
            fe_say_array(&link->out, 0); /* as for any word that no setting has */
            break;
        }
        fe_say_array(&link->out, 2);
        fe_say_text(&link->out, "maxmemory-policy");
        fe_say_text(&link->out, link->engine->info[4] ? link->engine->info[4] : "noeviction");
        break;
    case EVALSHA:
        evalsha(link, words, count);
        break;
    case HELLO:
        hello(link, words, count);
        break;
    case INFO:
        info(link);
        break;
    case PING:
        ping(link, words, count);
        break;
    case ROLE:
        role(link);
        break;
    case SCRIPT:
        load(link, &words[2]);
        break;
    case SENTINEL:
        sentinel(link, &words[2]);
        break;
    case SUBSCRIBE:
        subscribe(link, words, count);
        break;
    case VERBS:
        break;
    }
}
