/* engine.c - the engine in memory: its connections and faults. See engine.h. */
#include "t/campaigns/cluster/engine_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *text_copy(const char *text)
{
    char *copy = text ? strdup(text) : NULL;
    if (text && !copy)
        abort();
    return copy;
}

/* ---- Life ---- */

static void new_id(struct fake_engine *engine, char id[FE_SHA + 1])
{
    for (size_t n = 0; n < FE_SHA; n++) {
        engine->seed = engine->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        id[n] = "0123456789abcdef"[engine->seed >> 60];
    }
    id[FE_SHA] = 0;
}

static void new_term(struct fake_engine *engine)
{
    char term[2 * FE_SHA + 2];
    snprintf(term, sizeof(term), "%s:%s", engine->run_id, engine->replid);
    engine->term = fe_text(engine->texts, term, strlen(term));
}

static struct fake_engine *made(uint64_t seed)
{
    struct fake_engine *engine = calloc(1, sizeof(*engine));
    if (!engine)
        abort();
    engine->seed = seed;
    engine->bound = FE_SCRIPT_BOUND;
    return engine;
}

struct fake_engine *fake_engine_new(const char *prefix, uint64_t seed)
{
    struct fake_engine *engine = made(seed);
    engine->texts = calloc(1, sizeof(*engine->texts));
    if (!engine->texts)
        abort();
    engine->texts->users = 1;
    struct fe_bytes key = {0};
    fe_putf(&key, "{%s}:", prefix);
    engine->prefix = key.at;
    new_id(engine, engine->run_id);
    new_id(engine, engine->replid);
    new_term(engine);
    return engine;
}

static void close_link(struct fake_link *link)
{
    struct fake_link **at = &link->engine->links;
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    link->engine->counts.links--;
    link->engine = NULL;
    link->channel_count = 0;
    link->in.len = 0;
}

static void close_all(struct fake_engine *engine)
{
    while (engine->links)
        close_link(engine->links);
}

static void forget_kept(struct fake_engine *engine)
{
    while (engine->kept_count > 0)
        fe_data_free(&engine->kept[--engine->kept_count]);
}

static void texts_drop(struct fe_texts *texts)
{
    if (--texts->users > 0)
        return;
    for (size_t n = 1; n < texts->count; n++)
        free(texts->rows[n].bytes);
    free(texts->rows);
    free(texts->slots);
    free(texts);
}

void fake_engine_free(struct fake_engine *engine)
{
    if (!engine)
        return;
    close_all(engine);
    fe_data_free(&engine->data);
    forget_kept(engine);
    free(engine->kept);
    for (size_t n = 0; n < engine->known_count; n++)
        free(engine->known[n].text);
    free(engine->known);
    free(engine->loaded);
    for (size_t n = 0; n < sizeof(engine->info) / sizeof(engine->info[0]); n++)
        free(engine->info[n]);
    free(engine->forbidden);
    free(engine->service);
    free(engine->host);
    free(engine->prefix);
    free(engine->problem.at);
    free(engine->misuse.at);
    texts_drop(engine->texts);
    free(engine);
}

void fake_engine_script(struct fake_engine *engine, enum fake_script script, const char *text,
                        size_t len)
{
    engine->known =
        fe_grow(engine->known, &engine->known_room, engine->known_count, sizeof(*engine->known));
    struct fe_bytes copy = {0};
    fe_put(&copy, text, len);
    engine->known[engine->known_count++] = (struct fe_known){copy.at, len, script};
}

/* ---- Connections ---- */

struct fake_link *fake_engine_connect(struct fake_engine *engine)
{
    struct fake_link *link = calloc(1, sizeof(*link));
    if (!link)
        abort();
    link->engine = engine;
    struct fake_link **at = &engine->links;
    while (*at)
        at = &(*at)->next;
    *at = link;
    engine->counts.links++;
    return link;
}

void fake_engine_hang_up(struct fake_link *link)
{
    if (!link)
        return;
    if (link->engine)
        close_link(link);
    free(link->in.at);
    free(link->out.at);
    free(link->channels);
    free(link);
}

/* A number after a mark, up to its line's end. 0: not all there, -1: wrong, else its bytes. */
static int line_of(const char *bytes, size_t len, char mark, uint64_t *value)
{
    if (len == 0)
        return 0;
    if (bytes[0] != mark)
        return -1;
    const char *end = memchr(bytes, '\r', len);
    if (!end)
        return len > 32 ? -1 : 0;
    if ((size_t)(end - bytes) + 2 > len)
        return 0;
    if (end[1] != '\n' || !fe_digits(bytes + 1, (size_t)(end - bytes) - 1, value))
        return -1;
    return (int)(end - bytes) + 2;
}

/* Takes a command from the input. 0: not all there, -1: wrong, else its bytes. */
static long command_of(const struct fe_bytes *in, struct fe_text **words, size_t *count)
{
    uint64_t value;
    long at = line_of(in->at, in->len, '*', &value);
    if (at <= 0)
        return at;
    if (value == 0 || value > 100000)
        return -1;
    *count = value;
    *words = calloc(value, sizeof(**words));
    if (!*words)
        abort();
    for (size_t n = 0; n < *count; n++) {
        int line = line_of(in->at + at, in->len - (size_t)at, '$', &value);
        if (line <= 0)
            return line;
        at += line;
        if (value > in->len || (size_t)at + value + 2 > in->len)
            return value > (1u << 29) ? -1 : 0;
        struct fe_bytes word = {0};
        fe_put(&word, in->at + at, value);
        (*words)[n] = (struct fe_text){word.at, value};
        at += (long)value + 2;
    }
    return at;
}

void fake_engine_feed(struct fake_link *link, const void *bytes, size_t len)
{
    if (!link->engine)
        return;
    fe_put(&link->in, bytes, len);
    while (link->engine && link->in.len > 0) {
        struct fe_text *words = NULL;
        size_t count = 0;
        long took = command_of(&link->in, &words, &count);
        if (took > 0) {
            fe_took(&link->in, (size_t)took);
            fe_serve(link, words, count);
        }
        for (size_t n = 0; n < count; n++)
            free(words[n].bytes);
        free(words);
        if (took < 0) {
            fe_say_error(&link->out, "ERR Protocol error");
            close_link(link);
        }
        if (took <= 0)
            return;
    }
}

const char *fake_engine_output(const struct fake_link *link, size_t *len)
{
    *len = link->out.len;
    return link->out.at;
}

void fake_engine_took(struct fake_link *link, size_t len)
{
    fe_took(&link->out, len);
}

bool fake_engine_closed(const struct fake_link *link)
{
    return !link->engine;
}

struct fake_counts fake_engine_counts(const struct fake_engine *engine)
{
    return engine->counts;
}

/* ---- Faults ---- */

static void forget_scripts(struct fake_engine *engine)
{
    engine->loaded_count = 0;
}

void fake_engine_forget_scripts(struct fake_engine *engine)
{
    forget_scripts(engine);
}

void fake_engine_restart(struct fake_engine *engine, bool with_data)
{
    close_all(engine);
    forget_scripts(engine);
    if (!with_data)
        fe_data_free(&engine->data);
    forget_kept(engine);
    new_id(engine, engine->run_id);
    new_id(engine, engine->replid);
    new_term(engine);
    engine->counts = (struct fake_counts){0};
}

void fake_engine_flush(struct fake_engine *engine)
{
    fe_data_free(&engine->data);
    forget_kept(engine);
}

void fake_engine_keep(struct fake_engine *engine, size_t writes)
{
    forget_kept(engine);
    free(engine->kept);
    engine->kept = calloc(writes + 1, sizeof(*engine->kept));
    if (!engine->kept)
        abort();
    engine->keep = writes;
}

static struct fe_data lacking(const struct fake_engine *engine, size_t lacks)
{
    if (lacks > engine->kept_count)
        lacks = engine->kept_count;
    return fe_data_copy(lacks == 0 ? &engine->data : &engine->kept[engine->kept_count - lacks]);
}

struct fake_engine *fake_engine_replica(const struct fake_engine *engine, size_t lacks,
                                        uint64_t seed)
{
    struct fake_engine *copy = made(seed);
    copy->texts = engine->texts;
    copy->texts->users++;
    copy->prefix = text_copy(engine->prefix);
    copy->bound = engine->bound;
    copy->replica = true;
    for (size_t n = 0; n < engine->known_count; n++)
        fake_engine_script(copy, engine->known[n].script, engine->known[n].text,
                           engine->known[n].len);
    copy->scripts_seen = engine->scripts_seen;
    copy->data = lacking(engine, lacks);
    new_id(copy, copy->run_id);
    memcpy(copy->replid, engine->replid, sizeof(copy->replid));
    new_term(copy);
    if (engine->keep)
        fake_engine_keep(copy, engine->keep);
    return copy;
}

void fake_engine_follow(struct fake_engine *replica, const struct fake_engine *engine, size_t lacks)
{
    struct fe_data data = lacking(engine, lacks);
    close_all(replica);
    fe_data_free(&replica->data);
    forget_kept(replica);
    replica->data = data;
    replica->replica = true;
    memcpy(replica->replid, engine->replid, sizeof(replica->replid));
    new_term(replica);
}

void fake_engine_promote(struct fake_engine *engine)
{
    engine->replica = false;
    new_id(engine, engine->replid);
    new_term(engine);
}

void fake_engine_trouble(struct fake_engine *engine, enum fake_trouble trouble)
{
    engine->trouble = trouble;
}

void fake_engine_info(struct fake_engine *engine, const char *field, const char *value)
{
    static const char *const fields[] = {"redis_version", "role", "loading", "cluster_enabled",
                                         "maxmemory_policy"};
    for (size_t n = 0; n < sizeof(fields) / sizeof(fields[0]); n++) {
        if (strcmp(field, fields[n]) != 0)
            continue;
        free(engine->info[n]);
        engine->info[n] = text_copy(value);
    }
}

void fake_engine_wrong(struct fake_engine *engine, const char *name, bool is_wrong)
{
    int text = fe_text(engine->texts, name, strlen(name));
    for (size_t n = 0; n < FE_WRONG; n++) {
        int *slot = &engine->data.wrong[n];
        if (is_wrong ? !*slot : *slot == text) {
            *slot = is_wrong ? text : FE_NONE;
            return;
        }
    }
}

void fake_engine_forbid(struct fake_engine *engine, const char *command)
{
    free(engine->forbidden);
    engine->forbidden = text_copy(command);
}

void fake_engine_sentinel(struct fake_engine *engine, const char *service, const char *host,
                          uint16_t port)
{
    free(engine->service);
    free(engine->host);
    engine->service = text_copy(service);
    engine->host = text_copy(host);
    engine->port = port;
}

void fake_engine_version(struct fake_engine *engine, uint64_t version)
{
    engine->data.version = version;
}

void fake_engine_bound(struct fake_engine *engine, uint32_t most)
{
    engine->bound = most;
}
