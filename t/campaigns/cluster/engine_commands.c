/* engine_commands.c - the commands of the engine in memory, and its answers in RESP2. */
#include "t/campaigns/cluster/engine_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void say_array(struct fe_bytes *out, size_t count)
{
    fe_putf(out, "*%zu\r\n", count);
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

/* Notes a command that no node may send. */
static void misused(struct fake_engine *engine, const char *what, const struct fe_bytes *words,
                    size_t count)
{
    if (engine->misuse.len > 0)
        return;
    fe_putf(&engine->misuse, "%s:", what);
    for (size_t n = 0; n < count; n++)
        fe_putf(&engine->misuse, " %.200s", words[n].at);
}

/* ---- Scripts ---- */

/* What Redis says of a script that it refuses, or NULL. */
static const char *trouble_of(const struct fake_engine *engine, bool when_full)
{
    if (engine->replica || engine->trouble == FAKE_READONLY)
        return "READONLY You can't write against a read only replica.";
    switch (engine->trouble) {
    case FAKE_FULL:
        return when_full ? NULL
                         : "OOM allow-oom flag is not set on the script, can not run it when used "
                           "memory > 'maxmemory'";
    case FAKE_MISCONF:
        return "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to "
               "persist to disk.";
    case FAKE_NOREPLICAS:
        return "NOREPLICAS Not enough good replicas to write.";
    default:
        return NULL;
    }
}

/* EVALSHA sha 1 {PREFIX}: args... */
static void evalsha(struct fake_link *link, const struct fe_bytes *words, size_t count)
{
    struct fake_engine *engine = link->engine;
    bool when_full;
    if (!fe_has(engine, words[1].at, &when_full)) {
        fe_putf(&link->out, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
        return;
    }
    const char *trouble = trouble_of(engine, when_full);
    if (trouble) {
        fe_putf(&link->out, "-%s\r\n", trouble);
        return;
    }
    struct fe_bytes run[2] = {words[1], words[3]};
    struct fe_bytes *arguments = fe_made(calloc(count, sizeof(*arguments)));
    memcpy(arguments, run, sizeof(run));
    memcpy(arguments + 2, words + 4, (count - 4) * sizeof(*words));
    if (strcmp(words[2].at, "1") != 0 || strcmp(words[3].at, engine->prefix) != 0)
        misused(engine, "the key of a script is wrong", words, count);
    if (!fe_run(engine, arguments, count - 2, &link->out))
        misused(engine, "a script refuses", words, count);
    free(arguments);
}

/* EVAL text 1 key */
static void eval(struct fake_link *link, const struct fe_bytes *words, size_t count)
{
    (void)count;
    struct fe_bytes name = {0};
    fe_load(link->engine, &words[1], &name);
    struct fe_bytes run[2] = {{name.at + 5, FE_ID, 0}, words[3]};
    if (name.at[0] == '$')
        fe_run(link->engine, run, 2, &link->out);
    else
        fe_put(&link->out, name.at, name.len);
    free(name.at);
}

/* ---- Other commands ---- */

static void ok(struct fake_link *link, const struct fe_bytes *words, size_t count)
{
    (void)words, (void)count;
    fe_put(&link->out, "+OK\r\n", 5);
}

static const char *policy_of(const struct fake_engine *engine)
{
    return engine->info[4] ? engine->info[4] : "noeviction";
}

static const char *role_of(const struct fake_engine *engine)
{
    if (engine->info[1])
        return engine->info[1];
    return engine->replica ? "slave" : "master";
}

void fe_info(const struct fake_engine *engine, struct fe_bytes *text)
{
    bool loading = engine->trouble == FAKE_LOADING;
    fe_putf(text, "# Server\r\nredis_version:%s\r\nrun_id:%s\r\n",
            engine->info[0] ? engine->info[0] : "7.0.15", engine->run_id);
    fe_putf(text, "\r\n# Memory\r\nmaxmemory_policy:%s\r\n", policy_of(engine));
    fe_putf(text, "\r\n# Persistence\r\nloading:%s\r\n",
            engine->info[2] ? engine->info[2] : (loading ? "1" : "0"));
    fe_putf(text, "\r\n# Replication\r\nrole:%s\r\nmaster_replid:%s\r\n", role_of(engine),
            engine->replid);
    fe_putf(text, "\r\n# Cluster\r\ncluster_enabled:%s\r\n",
            engine->info[3] ? engine->info[3] : "0");
}

static void info(struct fake_link *link, const struct fe_bytes *words, size_t count)
{
    (void)words, (void)count;
    struct fe_bytes text = {0};
    fe_info(link->engine, &text);
    fe_say_bytes(&link->out, text.at, text.len);
    free(text.at);
}

static void subscribe(struct fake_link *link, const struct fe_bytes *words, size_t count)
{
    for (size_t n = 1; n < count; n++) {
        size_t at = 0;
        while (at < link->channel_count && strcmp(link->channels[at].at, words[n].at) != 0)
            at++;
        if (at == link->channel_count) {
            link->channels = fe_made(realloc(link->channels, (at + 1) * sizeof(*link->channels)));
            link->channels[link->channel_count++] = (struct fe_bytes){0};
            fe_put(&link->channels[at], words[n].at, words[n].len);
        }
        say_array(&link->out, 3);
        fe_say_text(&link->out, "subscribe");
        fe_say_bytes(&link->out, words[n].at, words[n].len);
        fe_putf(&link->out, ":%zu\r\n", link->channel_count);
    }
}

/* From what only tests send: memory, the policy of eviction. */
static void config_set(struct fake_link *link, const struct fe_bytes *words, size_t count)
{
    if (strcmp(words[2].at, "maxmemory") == 0)
        link->engine->trouble = words[3].at[0] == '0' ? FAKE_NO_TROUBLE : FAKE_FULL;
    else
        fake_engine_info(link->engine, "maxmemory_policy", words[3].at);
    ok(link, words, count);
}

static void config_get(struct fake_link *link, const struct fe_bytes *words, size_t count)
{
    (void)count;
    if (strcmp(words[2].at, "maxmemory-policy") != 0) {
        say_array(&link->out, 0); /* as for any word that no setting has */
        return;
    }
    say_array(&link->out, 2);
    fe_say_text(&link->out, "maxmemory-policy");
    fe_say_text(&link->out, policy_of(link->engine));
}

static void ping(struct fake_link *link, const struct fe_bytes *words, size_t count)
{
    (void)words, (void)count;
    if (link->channel_count == 0) {
        fe_putf(&link->out, "+PONG\r\n");
        return;
    }
    say_array(&link->out, 2);
    fe_say_text(&link->out, "pong");
    fe_say_text(&link->out, "");
}

static void role(struct fake_link *link, const struct fe_bytes *words, size_t count)
{
    (void)words, (void)count;
    fe_putf(&link->out, link->engine->replica
                            ? "*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:6379\r\n$9\r\nconnected"
                              "\r\n:0\r\n"
                            : "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
}

static void script_load(struct fake_link *link, const struct fe_bytes *words, size_t count)
{
    (void)count;
    fe_load(link->engine, &words[2], &link->out);
}

static void sentinel(struct fake_link *link, const struct fe_bytes *words, size_t count)
{
    const struct fake_engine *engine = link->engine;
    char port[8];
    (void)count;
    if (!engine->host || strcmp(words[2].at, engine->service) != 0) {
        fe_putf(&link->out, "*-1\r\n");
        return;
    }
    snprintf(port, sizeof(port), "%u", (unsigned)engine->port);
    say_array(&link->out, 2);
    fe_say_text(&link->out, engine->host);
    fe_say_text(&link->out, port);
}

/* ---- From what only tests send ---- */

static void flushall(struct fake_link *link, const struct fe_bytes *words, size_t count)
{
    fake_engine_flush(link->engine);
    ok(link, words, count);
}

static void change_term(struct fake_link *link, const struct fe_bytes *words, size_t count)
{
    fake_engine_promote(link->engine);
    ok(link, words, count);
}

static void unsubscribe(struct fake_link *link, const struct fe_bytes *words, size_t count)
{
    (void)words, (void)count;
    while (link->channel_count > 0)
        free(link->channels[--link->channel_count].at);
    fe_putf(&link->out, "*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n");
}

enum { LOADING = 1, SUBSCRIBED = 2, SENTINELS = 4, BUSY = 8 }; /* also then, or there */

static const struct verb {
    const char *word, *second; /* the second word, if it must be this one */
    size_t fewest;
    unsigned also;
    void (*serve)(struct fake_link *link, const struct fe_bytes *words, size_t count);
} verbs[] = {
    {"AUTH", NULL, 2, LOADING | BUSY, ok},
    {"CLIENT", "SETNAME", 3, LOADING, ok},
    {"CONFIG", "GET", 3, LOADING, config_get},
    {"CONFIG", "SET", 4, LOADING, config_set},
    {"DEBUG", "CHANGE-REPL-ID", 2, 0, change_term},
    {"EVAL", NULL, 4, 0, eval},
    {"EVALSHA", NULL, 4, 0, evalsha},
    {"FLUSHALL", NULL, 1, 0, flushall},
    {"INFO", NULL, 1, LOADING | SENTINELS, info},
    {"PING", NULL, 1, SUBSCRIBED | SENTINELS, ping},
    {"ROLE", NULL, 1, LOADING, role},
    {"SCRIPT", "LOAD", 3, 0, script_load},
    {"SELECT", NULL, 2, LOADING, ok},
    {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", 3, SENTINELS, sentinel},
    {"SUBSCRIBE", NULL, 2, LOADING | SUBSCRIBED, subscribe},
    {"UNSUBSCRIBE", NULL, 1, SUBSCRIBED, unsubscribe},
};

static const struct verb *verb_of(const struct fe_bytes *words, size_t count)
{
    for (size_t n = 0; n < sizeof(verbs) / sizeof(verbs[0]); n++) {
        if (strcasecmp(words[0].at, verbs[n].word) == 0 && count >= verbs[n].fewest &&
            (!verbs[n].second || strcasecmp(words[1].at, verbs[n].second) == 0))
            return &verbs[n];
    }
    return NULL;
}

/* An error that the state of the engine or of the connection causes, or NULL. */
static const char *refusal_of(const struct fake_link *link, const struct verb *verb)
{
    if (link->engine->service ? !(verb->also & SENTINELS) : verb->serve == sentinel)
        return "ERR unknown command";
    if (link->channel_count > 0 && !(verb->also & SUBSCRIBED))
        return "ERR Can't execute this command: only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / "
               "QUIT / RESET are allowed in this context";
    if (link->engine->trouble == FAKE_LOADING && !(verb->also & LOADING))
        return "LOADING Redis is loading the dataset in memory";
    if (link->engine->trouble == FAKE_BUSY && !(verb->also & BUSY))
        return "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN "
               "NOSAVE.";
    return NULL;
}

void fe_serve(struct fake_link *link, const struct fe_bytes *words, size_t count)
{
    const struct verb *verb = verb_of(words, count);
    const char *refusal = verb ? refusal_of(link, verb) : NULL;
    if (verb && !refusal) {
        verb->serve(link, words, count);
        return;
    }
    if (!verb)
        misused(link->engine, "a command that no node sends", words, count);
    if (verb || !fe_ask(link->engine, words, count, &link->out))
        fe_putf(&link->out, "-%s\r\n", verb ? refusal : "ERR unknown command");
}
