/* pools_parts.c - see pools_parts.h. */
#include "proto/pools_parts.h"

#include "base/check.h"
#include "base/number.h"

/* ---- Words ---------------------------------------------------------------------------------- */

struct words words_of(struct bytes line)
{
    /* The address of no bytes may be NULL, which nothing may be added to. */
    struct bytes some = line.len > 0 ? line : bytes_of("");
    return (struct words){.at = some.data, .end = some.data + some.len};
}

struct bytes words_next(struct words *words)
{
    while (words->at < words->end && *words->at == ' ')
        words->at++;
    struct bytes word = bytes_at(words->at, (size_t)(words->end - words->at));
    word.len = word_length(word);
    const uint8_t *after = words->at + word.len;
    if (after < words->end && *after != ' ')
        return bytes_at(words->at, 0);
    words->at = after;
    return word;
}

bool words_at_end(struct words words)
{
    while (words.at < words.end && *words.at == ' ')
        words.at++;
    return words.at == words.end;
}

bool pair_split(struct bytes word, struct pool_pair *pair_r)
{
    const uint8_t *mark = word.len > 0 ? memchr(word.data, '=', word.len) : NULL;
    if (!mark || mark == word.data)
        return false;
    size_t key_len = (size_t)(mark - word.data);
    *pair_r = (struct pool_pair){.key = bytes_at(word.data, key_len),
                                 .value = bytes_at(mark + 1, word.len - key_len - 1)};
    return true;
}

bool pair_add(struct pool_pair *pairs, size_t *count, size_t max, struct pool_pair pair)
{
    for (size_t i = 0; i < *count; i++) {
        if (bytes_equal(pairs[i].key, pair.key))
            return false;
    }
    if (*count == max)
        return false;
    pairs[(*count)++] = pair;
    return true;
}

/* ---- Bounds --------------------------------------------------------------------------------- */

bool is_length(struct bytes word, size_t min, size_t max)
{
    return word.len >= min && word.len <= max;
}

bool is_member_name(struct bytes word)
{
    return is_length(word, 1, POOLS_NAME_MAX);
}

bool is_pool_in_list(struct bytes word)
{
    return is_length(word, 1, POOLS_NAME_MAX) && word.data[0] != '@' && word.data[0] != '*';
}

bool is_pool_name(struct bytes word)
{
    return is_pool_in_list(word) && !memchr(word.data, ',', word.len);
}

bool is_attribute(const struct pool_pair *pair)
{
    struct bytes key = pair->key;
    if (!is_length(key, 1, POOLS_KEY_MAX) || pair->value.len > POOLS_ATTR_MAX ||
        key.data[0] < 'a' || key.data[0] > 'z')
        return false;
    for (size_t i = 1; i < key.len; i++) {
        uint8_t c = key.data[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_')
            return false;
    }
    return !word_is(key, "value") && !word_is(key, "state") && !word_is(key, "note");
}

bool read_seconds(struct bytes word, int64_t max_ns, int64_t *ns_r)
{
    const uint8_t *at = word.data, *end = at + word.len;
    uint64_t seconds, ns = 0, scale = NS_PER_S;
    if (!word.data || word.len == 0 || !number_scan(&at, end, 10, INT64_MAX / NS_PER_S, &seconds))
        return false;
    size_t digits = (size_t)(at - word.data);
    if (at < end && *at == '.') {
        for (at++; at < end && number_digit(*at, 10) < 10; at++, digits++) {
            scale /= 10;
            ns += number_digit(*at, 10) * scale;
        }
    }
    ns += seconds * NS_PER_S;
    *ns_r = (int64_t)ns;
    return at == end && digits > 0 && ns <= (uint64_t)max_ns;
}

/* Inline: the compiler knows `max`. */
static inline bool read_number(struct bytes word, uint64_t max, uint64_t *value_r)
{
    const uint8_t *at = word.data, *end = at + word.len;
    return word.data && word.len > 0 && number_scan(&at, end, 10, max, value_r) && at == end;
}

bool read_u32(struct bytes word, uint32_t *value_r)
{
    uint64_t value;
    if (!read_number(word, UINT32_MAX, &value))
        return false;
    *value_r = (uint32_t)value;
    return true;
}

bool read_u64(struct bytes word, uint64_t *value_r)
{
    if (word.len > 19)
        return read_number(word, UINT64_MAX, value_r);
    uint64_t value = 0; /* 19 digits are always below 2^64 */
    for (size_t i = 0; i < word.len; i++) {
        unsigned digit = number_digit(word.data[i], 10);
        if (digit >= 10)
            return false;
        value = value * 10 + digit;
    }
    *value_r = value;
    return word.len > 0;
}

bool read_fence(struct bytes word, uint64_t *fence_r)
{
    return word.len <= 20 && read_u64(word, fence_r);
}

struct bytes unless_dash(struct bytes word)
{
    return word_is(word, "-") ? (struct bytes){0} : word;
}

bool read_value(struct bytes word, struct bytes *value_r)
{
    *value_r = unless_dash(word);
    return word.len <= POOLS_VALUE_MAX;
}

static const struct bytes take_for_words[] = {
    [POOL_TAKE_FOR_USE] = BYTES_OF_LITERAL("use"),
    [POOL_TAKE_FOR_CLEAN] = BYTES_OF_LITERAL("clean"),
    [POOL_TAKE_FOR_CHECK] = BYTES_OF_LITERAL("check"),
};

bool read_take_for(struct bytes word, enum pool_take_for *take_for_r)
{
    for (size_t i = 0; i < ARRAY_SIZE(take_for_words); i++) {
        if (bytes_equal(word, take_for_words[i])) {
            *take_for_r = (enum pool_take_for)i;
            return true;
        }
    }
    return false;
}

bool read_attribute(struct bytes word, struct pool_pair *attrs, size_t *count)
{
    struct pool_pair attr;
    return pair_split(word, &attr) && is_attribute(&attr) &&
           pair_add(attrs, count, POOLS_ATTRS_MAX, attr);
}

/* ---- Writing -------------------------------------------------------------------------------- */

void put_word(struct out *out, struct bytes word)
{
    put_byte(out, ' ');
    put_bytes(out, word);
}

void put_word_text(struct out *out, const char *text)
{
    put_word(out, bytes_of(text));
}

void put_word_number(struct out *out, uint64_t value)
{
    put_byte(out, ' ');
    put_number(out, value, 1);
}

void put_word_or_dash(struct out *out, struct bytes word)
{
    put_word(out, word.len > 0 ? word : bytes_at("-", 1));
}

void put_key(struct out *out, const char *key, struct bytes value)
{
    put_word_text(out, key);
    put_bytes(out, value);
}

void put_key_number(struct out *out, const char *key, uint64_t value)
{
    put_word_text(out, key);
    put_number(out, value, 1);
}

void put_key_if(struct out *out, const char *key, struct bytes value)
{
    if (value.len > 0)
        put_key(out, key, value);
}

void put_pairs(struct out *out, const char *prefix, const struct pool_pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        put_word_text(out, prefix);
        put_bytes(out, pairs[i].key);
        put_byte(out, '=');
        put_bytes(out, pairs[i].value);
    }
}

void put_take_for(struct out *out, enum pool_take_for take_for)
{
    if ((size_t)take_for < ARRAY_SIZE(take_for_words))
        put_key(out, "for=", take_for_words[take_for]);
}

size_t end_line(struct out *out)
{
    put_byte(out, '\n');
    return out_length(out);
}
