/* engine_commands.c - the commands of the engine in memory, and its answers in RESP2. */
#include "t/campaigns/cluster/engine_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- Other commands ---- */

static void auth(struct fake_link *link, const struct fe_bytes *words, size_t count)
{
    (void)words, (void)count;
    fe_putf(&link->out, "+OK\r\n");
}

void fe_info(const struct fake_engine *engine, struct fe_bytes *text)
{
    fe_putf(text,
            "redis_version:7.0.15\r\nrun_id:%s\r\nmaxmemory_policy:noeviction\r\nloading:%d\r\n"
            "role:%s\r\nmaster_replid:%s\r\ncluster_enabled:0\r\n",
            engine->run_id, engine->trouble == FAKE_LOADING, engine->replica ? "slave" : "master",
            engine->replid);
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
    (void)count;
    link->channels =
        fe_made(realloc(link->channels, (link->channel_count + 1) * sizeof(*link->channels)));
    link->channels[link->channel_count] = (struct fe_bytes){0};
    fe_put(&link->channels[link->channel_count++], words[1].at, words[1].len);
    fe_putf(&link->out, "*3\r\n");
    fe_say_text(&link->out, "subscribe");
    fe_say_bytes(&link->out, words[1].at, words[1].len);
    fe_putf(&link->out, ":%zu\r\n", link->channel_count);
}

/* As for words that no setting has. */
static void config_get(struct fake_link *link, const struct fe_bytes *words, size_t count)
{
    (void)words, (void)count;
    fe_putf(&link->out, "*0\r\n");
}

static void script_load(struct fake_link *link, const struct fe_bytes *words, size_t count)
{
    (void)count;
    fe_load(link->engine, &words[2], &link->out);
}

enum { LOADING = 1, BUSY = 2 }; /* also then */

static const struct verb {
    const char *word, *second; /* the second word, if it must be this one */
    size_t fewest;
    unsigned also;
    void (*serve)(struct fake_link *link, const struct fe_bytes *words, size_t count);
} verbs[] = {
    {"AUTH", NULL, 2, LOADING | BUSY, auth}, {"CONFIG", "GET", 3, LOADING, config_get},
    {"EVALSHA", NULL, 4, 0, evalsha},        {"INFO", NULL, 1, LOADING, info},
    {"SCRIPT", "LOAD", 3, 0, script_load},   {"SUBSCRIBE", NULL, 2, LOADING, subscribe},
};

static const struct verb *verb_of(const struct fe_bytes *words, size_t count)
{
    for (size_t n = 0; n < sizeof(verbs) / sizeof(verbs[0]); n++) {
        if (strcmp(words[0].at, verbs[n].word) == 0 && count >= verbs[n].fewest &&
            (!verbs[n].second || strcmp(words[1].at, verbs[n].second) == 0))
            return &verbs[n];
    }
    return NULL;
}

void fe_serve(struct fake_link *link, const struct fe_bytes *words, size_t count)
{
    const struct verb *verb = verb_of(words, count);
    if (!verb || (link->channel_count > 0 && verb->serve != subscribe)) {
        misused(link->engine, "a command that no node sends", words, count);
        fe_putf(&link->out, "-ERR unknown command\r\n");
    } else if (link->engine->trouble == FAKE_LOADING && !(verb->also & LOADING)) {
        fe_putf(&link->out, "-LOADING Redis is loading the dataset in memory\r\n");
    } else if (link->engine->trouble == FAKE_BUSY && !(verb->also & BUSY)) {
        fe_putf(&link->out, "-BUSY Redis is busy running a script.\r\n");
    } else {
        verb->serve(link, words, count);
    }
}
