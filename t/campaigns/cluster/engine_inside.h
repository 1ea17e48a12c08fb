/* engine_inside.h - what the files of the engine in memory share. */
#ifndef FAKE_ENGINE_INSIDE_H
#define FAKE_ENGINE_INSIDE_H

#include "t/campaigns/cluster/engine.h"

enum { FE_ID = 40 };

/* Bytes that grow, with a NUL behind them; zeroed is empty. */
struct fe_bytes {
    char *at;
    size_t len, room;
};
void fe_put(struct fe_bytes *bytes, const void *more, size_t len);
void fe_putf(struct fe_bytes *bytes, const char *format, ...) __attribute__((format(printf, 2, 3)));
void fe_say_bytes(struct fe_bytes *out, const void *bytes, size_t len);
void fe_say_text(struct fe_bytes *out, const char *text);
void *fe_made(void *memory);

struct fake_engine {
    int keys; /* the engine's table of engine.lua */
    char *prefix;
    uint64_t seed;
    char run_id[FE_ID + 1], replid[FE_ID + 1];
    bool replica;
    enum fake_trouble trouble;
    struct fake_link *links;
    struct fe_bytes problem, misuse;
};

struct fake_link {
    struct fake_engine *engine; /* NULL after the engine closed */
    struct fake_link *next;
    struct fe_bytes in, out;
    struct fe_bytes *channels;
    size_t channel_count;
};

/* Serves a command of a connection: engine_commands.c. */
void fe_serve(struct fake_link *link, const struct fe_bytes *words, size_t count);
/* INFO. */
void fe_info(const struct fake_engine *engine, struct fe_bytes *text);
/* How many connections a message reached. */
int fe_publish(struct fake_engine *engine, const char *channel, const char *bytes, size_t len);

/* Lua, in engine.c. A script is there; `when_full`: it runs although the engine is full. */
bool fe_has(const struct fake_engine *engine, const char *sha, bool *when_full);
/* Loads a script and answers its name. */
void fe_load(struct fake_engine *engine, const struct fe_bytes *text, struct fe_bytes *out);
/* Runs a script and answers. False: no node may call it so. */
bool fe_run(struct fake_engine *engine, const struct fe_bytes *words, size_t count,
            struct fe_bytes *out);

/* Made of engine.lua and sums.lua. */
extern const char fe_engine_lua[], fe_sums_lua[];

#endif
