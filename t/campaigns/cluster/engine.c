/* engine.c - the engine in memory: calls of engine.lua. */
#include "t/campaigns/cluster/engine.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char fe_engine_lua[], fe_sums_lua[]; /* made of engine.lua and sums.lua */

/* References of Lua: the table, and a text that was answered. */
struct fake_engine {
    int at, text;
};
struct fake_link {
    int at, text;
};

static lua_State *lua; /* one for all engines */
static int api;        /* what engine.lua returns */

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
    lua = luaL_newstate();
    for (size_t n = 0; n < sizeof(libraries) / sizeof(libraries[0]); n++) {
        lua_pushcfunction(lua, libraries[n]);
        call(0, 0);
    }
    if (luaL_loadbuffer(lua, fe_engine_lua, strlen(fe_engine_lua), "=engine.lua") != 0) {
        fprintf(stderr, "%s\n", lua_tostring(lua, -1));
        abort();
    }
    lua_pushstring(lua, fe_sums_lua);
    call(1, 1);
    api = luaL_ref(lua, LUA_REGISTRYINDEX);
}

/* Pushes a function of engine.lua and its first argument. */
static void begin(const char *function, int at)
{
    lua_rawgeti(lua, LUA_REGISTRYINDEX, api);
    lua_getfield(lua, -1, function);
    lua_remove(lua, -2);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, at);
}

/* Calls it; the text that it answers, NULL if none, stays until the next call for the same `ref`.
 */
static const char *text_of(int arguments, int *ref, size_t *len)
{
    call(arguments, 1);
    const char *text = lua_tolstring(lua, -1, len);
    luaL_unref(lua, LUA_REGISTRYINDEX, *ref);
    *ref = luaL_ref(lua, LUA_REGISTRYINDEX);
    return text;
}

/* An object of C for what was answered; both kinds are alike. */
static void *kept(void)
{
    struct fake_engine *made = malloc(sizeof(*made));
    if (!made)
        abort();
    *made = (struct fake_engine){luaL_ref(lua, LUA_REGISTRYINDEX), LUA_NOREF};
    return made;
}

static void dropped(int at, int text)
{
    luaL_unref(lua, LUA_REGISTRYINDEX, at);
    luaL_unref(lua, LUA_REGISTRYINDEX, text);
}

struct fake_engine *fake_engine_new(const char *prefix, uint64_t seed, const char *password)
{
    if (!lua)
        start_lua();
    lua_rawgeti(lua, LUA_REGISTRYINDEX, api);
    lua_getfield(lua, -1, "new");
    lua_remove(lua, -2);
    lua_pushfstring(lua, "{%s}:", prefix);
    lua_pushnumber(lua, (double)(seed >> 16));
    lua_pushstring(lua, password); /* nil for NULL */
    call(3, 1);
    return kept();
}

void fake_engine_free(struct fake_engine *engine)
{
    begin("free", engine->at);
    call(1, 0);
    dropped(engine->at, engine->text);
    free(engine);
}

/* ---- Connections ----------------------------------------------------------------------------- */

struct fake_link *fake_engine_connect(struct fake_engine *engine)
{
    begin("connect", engine->at);
    call(1, 1);
    return kept();
}

void fake_engine_hang_up(struct fake_link *link)
{
    begin("hang_up", link->at);
    call(1, 0);
    dropped(link->at, link->text);
    free(link);
}

void fake_engine_feed(struct fake_link *link, const void *bytes, size_t len)
{
    begin("feed", link->at);
    lua_pushlstring(lua, bytes, len);
    call(2, 0);
}

const char *fake_engine_take(struct fake_link *link, size_t *len)
{
    begin("take", link->at);
    return text_of(1, &link->text, len);
}

bool fake_engine_closed(const struct fake_link *link)
{
    begin("closed", link->at);
    call(1, 1);
    bool is_closed = lua_toboolean(lua, -1);
    lua_pop(lua, 1);
    return is_closed;
}

/* ---- Faults ---------------------------------------------------------------------------------- */

void fake_engine_do(struct fake_engine *engine, const char *what, long value)
{
    begin(what, engine->at);
    lua_pushinteger(lua, value);
    call(2, 0);
}

struct fake_engine *fake_engine_replica(const struct fake_engine *engine, size_t lacks,
                                        uint64_t seed)
{
    begin("replica", engine->at);
    lua_pushinteger(lua, (lua_Integer)lacks);
    lua_pushnumber(lua, (double)(seed >> 16));
    call(3, 1);
    return kept();
}

void fake_engine_spoil(struct fake_engine *engine, const char *name, bool spoils)
{
    begin("spoil", engine->at);
    lua_pushstring(lua, name);
    lua_pushboolean(lua, spoils);
    call(3, 0);
}

/* ---- Looking --------------------------------------------------------------------------------- */

const char *fake_engine_look(struct fake_engine *engine, const char *what)
{
    begin(what, engine->at);
    return text_of(1, &engine->text, NULL);
}

uint64_t fake_engine_count(const struct fake_engine *engine, const char *what, const char *name)
{
    begin(what, engine->at);
    lua_pushstring(lua, name);
    call(2, 1);
    uint64_t count = (uint64_t)lua_tonumber(lua, -1);
    lua_pop(lua, 1);
    return count;
}
