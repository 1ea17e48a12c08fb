/* engine.c - the engine in memory: its life, connections and faults, and the way to Lua. */
#include "t/campaigns/cluster/engine_inside.h"

#include <inttypes.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *fe_made(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

void fe_put(struct fe_bytes *bytes, const void *more, size_t len)
{
    if (bytes->len + len + 1 > bytes->room) {
        bytes->room = 2 * (bytes->len + len + 1);
        bytes->at = fe_made(realloc(bytes->at, bytes->room));
    }
    if (len > 0)
        memcpy(bytes->at + bytes->len, more, len);
    bytes->len += len;
    bytes->at[bytes->len] = 0;
}

void fe_putf(struct fe_bytes *bytes, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fe_put(bytes, text, len < (int)sizeof(text) ? (size_t)len : sizeof(text) - 1);
}

static void took(struct fe_bytes *bytes, size_t len)
{
    bytes->len -= len;
    if (bytes->len > 0)
        memmove(bytes->at, bytes->at + len, bytes->len);
}

/* ---- Lua ---- */

static lua_State *lua; /* one for all engines */
static int api;        /* what engine.lua returns */

static struct fake_engine *engine_at(int index)
{
    return lua_touserdata(lua, index);
}

static int host_info(lua_State *state)
{
    struct fe_bytes text = {0};
    fe_info(engine_at(1), &text);
    lua_pushlstring(state, text.at, text.len);
    free(text.at);
    return 1;
}

static int host_publish(lua_State *state)
{
    size_t len;
    const char *message = lua_tolstring(state, 3, &len);
    lua_pushinteger(state, fe_publish(engine_at(1), lua_tostring(state, 2), message, len));
    return 1;
}

/* Calls what lies on the stack. */
static void call(int arguments, int results)
{
    if (lua_pcall(lua, arguments, results, 0) != 0) {
        fprintf(stderr, "engine.lua: %s\n", lua_tostring(lua, -1));
        abort();
    }
}

static void start_lua(void)
{
    static const lua_CFunction libraries[] = {luaopen_base, luaopen_table, luaopen_string,
                                              luaopen_math};
    static const luaL_Reg host[] = {{"info", host_info}, {"publish", host_publish}, {NULL, NULL}};
    lua = fe_made(luaL_newstate());
    for (size_t n = 0; n < sizeof(libraries) / sizeof(libraries[0]); n++) {
        lua_pushcfunction(lua, libraries[n]);
        call(0, 0);
    }
    if (luaL_loadbuffer(lua, fe_engine_lua, strlen(fe_engine_lua), "=engine.lua") != 0) {
        fprintf(stderr, "%s\n", lua_tostring(lua, -1));
        abort();
    }
    lua_newtable(lua);
    luaL_register(lua, NULL, host);
    call(1, 1);
    api = luaL_ref(lua, LUA_REGISTRYINDEX);
}

/* Pushes a function of engine.lua and the engine. */
static void begin(const struct fake_engine *engine, const char *function)
{
    lua_rawgeti(lua, LUA_REGISTRYINDEX, api);
    lua_getfield(lua, -1, function);
    lua_remove(lua, -2);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, engine->keys);
}

static void push_words(const struct fe_bytes *words, size_t count)
{
    luaL_checkstack(lua, (int)count + 4, "words");
    for (size_t n = 0; n < count; n++)
        lua_pushlstring(lua, words[n].at, words[n].len);
}

/* Answers with a value of Lua, as Redis does. */
static void say_value(struct fe_bytes *out, int index)
{
    size_t len;
    switch (lua_type(lua, index)) {
    case LUA_TNUMBER:
        fe_putf(out, ":%" PRId64 "\r\n", (int64_t)lua_tonumber(lua, index));
        return;
    case LUA_TSTRING: {
        const char *text = lua_tolstring(lua, index, &len);
        fe_say_bytes(out, text, len);
        return;
    }
    case LUA_TTABLE:
        break;
    default:
        fe_put(out, lua_toboolean(lua, index) ? ":1\r\n" : "$-1\r\n",
               lua_toboolean(lua, index) ? 4 : 5);
        return;
    }
    luaL_checkstack(lua, 4, "arrays in arrays");
    static const struct {
        const char *field;
        char mark;
    } lines[] = {{"err", '-'}, {"ok", '+'}};
    for (size_t n = 0; n < 2; n++) {
        lua_getfield(lua, index, lines[n].field);
        const char *text = lua_tostring(lua, -1);
        if (text)
            fe_putf(out, "%c%s\r\n", lines[n].mark, text);
        lua_pop(lua, 1);
        if (text)
            return;
    }
    int count = (int)lua_objlen(lua, index);
    fe_putf(out, "*%d\r\n", count);
    for (int n = 1; n <= count; n++) {
        lua_rawgeti(lua, index, n);
        say_value(out, lua_gettop(lua));
        lua_pop(lua, 1);
    }
}

bool fe_has(const struct fake_engine *engine, const char *sha, bool *when_full)
{
    begin(engine, "has");
    lua_pushstring(lua, sha);
    call(2, 2);
    bool has = lua_toboolean(lua, -2);
    *when_full = lua_toboolean(lua, -1);
    lua_settop(lua, 0);
    return has;
}

void fe_load(struct fake_engine *engine, const struct fe_bytes *text, struct fe_bytes *out)
{
    begin(engine, "load");
    push_words(text, 1);
    call(2, 1);
    say_value(out, 1);
    lua_settop(lua, 0);
}

bool fe_run(struct fake_engine *engine, const struct fe_bytes *words, size_t count,
            struct fe_bytes *out)
{
    /* Messages stand before the answer, also when a connection reads its own. */
    struct fe_bytes answer = {0};
    begin(engine, "run");
    push_words(words, count);
    call((int)count + 1, 2);
    bool fits = !lua_toboolean(lua, 2);
    say_value(&answer, 1);
    lua_settop(lua, 0);
    fits = fits && strncmp(answer.at, "-ERR", 4) != 0 && !strstr(answer.at, "only an opening");
    fe_put(out, answer.at, answer.len);
    free(answer.at);
    return fits;
}

/* ---- Life ---- */

static void new_id(struct fake_engine *engine, char id[FE_ID + 1])
{
    for (size_t n = 0; n < FE_ID; n++) {
        engine->seed = engine->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        id[n] = "0123456789abcdef"[engine->seed >> 60];
    }
    id[FE_ID] = 0;
}

static struct fake_engine *made(const char *prefix, uint64_t seed)
{
    if (!lua)
        start_lua();
    struct fake_engine *engine = fe_made(calloc(1, sizeof(*engine)));
    engine->seed = seed;
    engine->prefix = fe_made(strdup(prefix));
    new_id(engine, engine->run_id);
    new_id(engine, engine->replid);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, api);
    lua_getfield(lua, -1, "make");
    lua_pushlightuserdata(lua, engine);
    call(1, 1);
    engine->keys = luaL_ref(lua, LUA_REGISTRYINDEX);
    lua_settop(lua, 0);
    return engine;
}

struct fake_engine *fake_engine_new(const char *prefix, uint64_t seed)
{
    struct fe_bytes key = {0};
    fe_putf(&key, "{%s}:", prefix);
    struct fake_engine *engine = made(key.at, seed);
    free(key.at);
    return engine;
}

static void close_link(struct fake_link *link)
{
    struct fake_link **at = &link->engine->links;
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    link->engine = NULL;
    while (link->channel_count > 0)
        free(link->channels[--link->channel_count].at);
    link->in.len = 0;
}

static void close_all(struct fake_engine *engine)
{
    while (engine->links)
        close_link(engine->links);
}

void fake_engine_free(struct fake_engine *engine)
{
    if (!engine)
        return;
    close_all(engine);
    luaL_unref(lua, LUA_REGISTRYINDEX, engine->keys);
    free(engine->prefix);
    free(engine->problem.at);
    free(engine->misuse.at);
    free(engine);
}

/* ---- Connections ---- */

struct fake_link *fake_engine_connect(struct fake_engine *engine)
{
    struct fake_link *link = fe_made(calloc(1, sizeof(*link)));
    link->engine = engine;
    struct fake_link **at = &engine->links;
    while (*at)
        at = &(*at)->next;
    *at = link;
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
static int line_of(const char *bytes, size_t len, char mark, size_t *value)
{
    if (len == 0)
        return 0;
    if (bytes[0] != mark)
        return -1;
    *value = 0;
    for (size_t n = 1; n < len; n++) {
        if (bytes[n] == '\r')
            return n + 1 == len ? 0 : bytes[n + 1] == '\n' && n > 1 ? (int)n + 2 : -1;
        if (bytes[n] < '0' || bytes[n] > '9' || n > 9)
            return -1;
        *value = *value * 10 + (size_t)(bytes[n] - '0');
    }
    return 0;
}

/* Takes a command from the input. 0: not all there, -1: wrong, else its bytes. */
static long command_of(const struct fe_bytes *in, struct fe_bytes **words, size_t *count)
{
    size_t value;
    long at = line_of(in->at, in->len, '*', &value);
    if (at <= 0)
        return at;
    if (value == 0 || value > 100000)
        return -1;
    *count = value;
    *words = fe_made(calloc(value, sizeof(**words)));
    for (size_t n = 0; n < *count; n++) {
        int line = line_of(in->at + at, in->len - (size_t)at, '$', &value);
        if (line <= 0)
            return line;
        at += line;
        if ((size_t)at + value + 2 > in->len)
            return 0;
        fe_put(&(*words)[n], in->at + at, value);
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
        struct fe_bytes *words = NULL;
        size_t count = 0;
        long size = command_of(&link->in, &words, &count);
        if (size > 0) {
            took(&link->in, (size_t)size);
            fe_serve(link, words, count);
        }
        for (size_t n = 0; n < count; n++)
            free(words[n].at);
        free(words);
        if (size < 0) {
            fe_putf(&link->out, "-ERR Protocol error\r\n");
            close_link(link);
        }
        if (size <= 0)
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
    took(&link->out, len);
}

bool fake_engine_closed(const struct fake_link *link)
{
    return !link->engine;
}

int fe_publish(struct fake_engine *engine, const char *channel, const char *bytes, size_t len)
{
    int reached = 0;
    for (struct fake_link *link = engine->links; link; link = link->next) {
        for (size_t n = 0; n < link->channel_count; n++) {
            if (strcmp(link->channels[n].at, channel) != 0)
                continue;
            fe_putf(&link->out, "*3\r\n");
            fe_say_text(&link->out, "message");
            fe_say_text(&link->out, channel);
            fe_say_bytes(&link->out, bytes, len);
            reached++;
        }
    }
    return reached;
}

/* ---- Faults ---- */

void fake_engine_forget_scripts(struct fake_engine *engine)
{
    begin(engine, "forget");
    call(1, 0);
}

void fake_engine_flush(struct fake_engine *engine)
{
    begin(engine, "flush");
    call(1, 0);
}

void fake_engine_restart(struct fake_engine *engine, bool with_data)
{
    close_all(engine);
    fake_engine_forget_scripts(engine);
    if (!with_data)
        fake_engine_flush(engine);
    new_id(engine, engine->run_id);
    new_id(engine, engine->replid);
}

void fake_engine_keep(struct fake_engine *engine, size_t writes)
{
    begin(engine, "keep");
    lua_pushinteger(lua, (lua_Integer)writes);
    call(2, 0);
}

struct fake_engine *fake_engine_replica(const struct fake_engine *engine, size_t lacks,
                                        uint64_t seed)
{
    struct fake_engine *copy = made(engine->prefix, seed);
    copy->replica = true;
    memcpy(copy->replid, engine->replid, sizeof(copy->replid));
    begin(copy, "follow");
    lua_rawgeti(lua, LUA_REGISTRYINDEX, engine->keys);
    lua_pushinteger(lua, (lua_Integer)lacks);
    call(3, 0);
    return copy;
}

void fake_engine_promote(struct fake_engine *engine)
{
    engine->replica = false;
    new_id(engine, engine->replid);
}

void fake_engine_trouble(struct fake_engine *engine, enum fake_trouble trouble)
{
    engine->trouble = trouble;
}

/* ---- Looking ---- */

const char *fake_engine_check(struct fake_engine *engine)
{
    struct fe_bytes text = {0}, name = {0};
    fe_put(&text, fe_sums_lua, strlen(fe_sums_lua));
    fe_load(engine, &text, &name);
    struct fe_bytes words[2] = {{name.at + 5, FE_ID, 0},
                                {engine->prefix, strlen(engine->prefix), 0}};
    engine->problem.len = 0;
    fe_run(engine, words, 2, &engine->problem);
    free(text.at);
    free(name.at);
    return strcmp(engine->problem.at, "*0\r\n") == 0 ? NULL : engine->problem.at;
}

const char *fake_engine_misuse(const struct fake_engine *engine)
{
    return engine->misuse.len > 0 ? engine->misuse.at : NULL;
}

static uint64_t counted(const struct fake_engine *engine, const char *what, const char *name)
{
    begin(engine, what);
    lua_pushstring(lua, engine->prefix);
    lua_pushstring(lua, name);
    call(3, 1);
    uint64_t count = (uint64_t)lua_tonumber(lua, 1);
    lua_settop(lua, 0);
    return count;
}

uint64_t fake_engine_units(const struct fake_engine *engine, const char *name)
{
    return counted(engine, "units", name);
}

uint64_t fake_engine_waits(const struct fake_engine *engine, const char *name)
{
    return counted(engine, "waits", name);
}

const char *fake_engine_left(struct fake_engine *engine)
{
    begin(engine, "left");
    lua_pushstring(lua, engine->prefix);
    call(2, 1);
    engine->problem.len = 0;
    if (lua_isstring(lua, 1))
        fe_putf(&engine->problem, "%s", lua_tostring(lua, 1));
    lua_settop(lua, 0);
    return engine->problem.len > 0 ? engine->problem.at : NULL;
}
