/*
 * pools_parts.h - private to the codec of pools: the words of its lines, the bounds of each kind of
 * word, and writing them.
 */
#ifndef PROTO_POOLS_PARTS_H
#define PROTO_POOLS_PARTS_H

#include "proto/line.h"
#include "proto/pools.h"

/* ---- Words ---------------------------------------------------------------------------------- */

/* The rest of a line. */
struct words {
    const uint8_t *at, *end;
};

struct words words_of(struct bytes line);

/*
 * Takes the next word. Returns an empty one at the end of the line. A word with a byte that words
 * cannot have is never taken: the rest begins with it, and an empty one is returned.
 */
struct bytes words_next(struct words *words);

/* True when only spaces are left. */
bool words_at_end(struct words words);

/* Inline: the compiler knows the length of a literal. */
static inline bool word_is(struct bytes word, const char *text)
{
    return bytes_equal(word, bytes_of(text));
}

/* Splits "key=value" at the first "=". Returns false if there is none, or no key. */
bool pair_split(struct bytes word, struct pool_pair *pair_r);

/* Adds a pair to an array with room for `max`. Returns false when it is full or has the key. */
bool pair_add(struct pool_pair *pairs, size_t *count, size_t max, struct pool_pair pair);

/* ---- Bounds --------------------------------------------------------------------------------- */

/* Each returns false for a word that is missing (empty) or out of its bounds. */

bool is_length(struct bytes word, size_t min, size_t max);
bool is_member_name(struct bytes word);
bool is_pool_name(struct bytes word);    /* also of groups */
bool is_pool_in_list(struct bytes word); /* a part without "," */
bool is_attribute(const struct pool_pair *pair);

/* Reads seconds, with or without a fraction. Ignores digits after the ninth. */
bool read_seconds(struct bytes word, int64_t max_ns, int64_t *ns_r);
bool read_u32(struct bytes word, uint32_t *value_r);
bool read_u64(struct bytes word, uint64_t *value_r);
bool read_fence(struct bytes word, uint64_t *fence_r); /* up to 20 digits */
bool read_take_for(struct bytes word, enum pool_take_for *take_for_r);

/* Returns the word, or an empty one for "-". */
struct bytes unless_dash(struct bytes word);
/* Reads the value of a member. A missing one is good. */
bool read_value(struct bytes word, struct bytes *value_r);
/* Reads "K=V" and adds it to the attributes of a member. */
bool read_attribute(struct bytes word, struct pool_pair *attrs, size_t *count);

/* ---- Writing -------------------------------------------------------------------------------- */

/* Each writes a space and a word. `key` is written with the "=" that it ends with. */

void put_word(struct out *out, struct bytes word);
void put_word_text(struct out *out, const char *text);
void put_word_number(struct out *out, uint64_t value);
void put_word_or_dash(struct out *out, struct bytes word); /* "-" for an empty word */
void put_key(struct out *out, const char *key, struct bytes value);
void put_key_number(struct out *out, const char *key, uint64_t value);
void put_key_if(struct out *out, const char *key, struct bytes value); /* unless it is empty */
void put_take_for(struct out *out, enum pool_take_for take_for);
/* A word for each: prefix, key, "=" and value. */
void put_pairs(struct out *out, const char *prefix, const struct pool_pair *pairs, size_t count);

/* Ends the line. Returns its length; 0 when something did not fit. */
size_t end_line(struct out *out);

#endif
