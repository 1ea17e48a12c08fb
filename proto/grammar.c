/* grammar.c - see grammar.h. */
#include "proto/grammar.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/number.h"

/* ---- Words ----------------------------------------------------------------------------------- */

struct words words_of(struct bytes line)
{
    /* The address of no bytes may be NULL, which nothing may be added to. */
    struct bytes some = line.len > 0 ? line : bytes_of("");
    return (struct words){.at = some.data, .end = some.data + some.len};
}

static inline struct bytes rest_of(const struct words *words)
{
    return bytes_at(words->at, (size_t)(words->end - words->at));
}

struct bytes words_take(struct words *words)
{
    struct bytes word = bytes_at(words->at, word_length(rest_of(words)));
    words->at += word.len;
    return word;
}

void words_skip_spaces(struct words *words)
{
    while (words->at < words->end && *words->at == ' ')
        words->at++;
}

bool word_split(struct bytes word, char mark, struct bytes *before_r, struct bytes *after_r)
{
    const uint8_t *at = word.len > 0 ? memchr(word.data, mark, word.len) : NULL;
    if (!at)
        return false;
    *before_r = bytes_at(word.data, (size_t)(at - word.data));
    *after_r = bytes_at(at + 1, word.len - before_r->len - 1);
    return true;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static bool read_seconds(struct bytes word, uint64_t max_ns, int64_t *ns_r)
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
    return at == end && digits > 0 && ns <= max_ns;
}

/* Returns the number of the word, or one above `max`. */
static uint64_t find_word(const struct part *part, struct bytes word)
{
    uint64_t i = part->min;
    while (i <= part->max && (word.len == 0 || !word_is(word, part->words[i])))
        i++;
    return i;
}

static bool read_bytes(const struct part *part, struct words *words, struct bytes *to)
{
    struct bytes word = part->flags & PART_REST ? rest_of(words) : words_take(words);
    if (part->flags & PART_REST)
        words->at = words->end;
    if (part->none && word_is(word, part->none))
        return true;
    *to = word;
    return word.len >= part->min && word.len <= part->max && (!part->good || part->good(word));
}

static bool read_pair(const struct part *part, struct words *words, uint8_t *message)
{
    struct bytes word = words_take(words), key, value;
    struct bytes *pairs = (void *)(message + part->at);
    size_t *count = (void *)(message + part->has);
    if (!word_split(word, '=', &key, &value) || key.len == 0 || (part->good && !part->good(word)) ||
        *count == part->max)
        return false;
    for (size_t i = 0; i < *count; i++) {
        if (bytes_equal(pairs[2 * i], key))
            return false;
    }
    pairs[2 * *count] = key;
    pairs[2 * *count + 1] = value;
    ++*count;
    return true;
}

/* Inline: most numbers have less than 19 digits, and so are below 2^64. */
static inline bool read_number(const struct part *part, struct words *words, uint8_t *message)
{
    const uint8_t *at = words->at, *end = words->end;
    const uint8_t *safe = end - at > 19 ? at + 19 : end;
    uint64_t value = 0;
    for (unsigned digit; at < safe && (digit = number_digit(*at, 10)) < 10; at++)
        value = value * 10 + digit;
    if (unlikely(at == safe && at < end)) {
        at = words->at;
        if (!number_scan(&at, end, 10, UINT64_MAX, &value) ||
            (part->flags & PART_20_DIGITS && at - words->at > 20))
            return false;
    }
    if (at == words->at || value < part->min || value > part->max)
        return false;
    if (part->kind == PART_U32)
        *(uint32_t *)(void *)(message + part->at) = (uint32_t)value;
    else
        *(uint64_t *)(void *)(message + part->at) = value;
    words->at = at;
    return true;
}

/* Takes what follows the key. */
static inline bool read_value(const struct part *part, struct words *words, uint8_t *message)
{
    void *to = message + part->at;
    uint64_t number;
    switch ((enum part_kind)part->kind) {
    case PART_U32:
    case PART_U64:
        if (part->none && words->at < words->end && *words->at == (uint8_t)*part->none) {
            words->at++;
            return true;
        }
        if (!read_number(part, words, message))
            return false;
        break;
    case PART_BYTES:
        if (!read_bytes(part, words, to))
            return false;
        break;
    case PART_SECONDS:
    case PART_MILLIS:
        if (!read_seconds(words_take(words), part->max, to))
            return false;
        break;
    case PART_WORD:
    case PART_FLAG:
        number = find_word(part, words_take(words));
        if (number > part->max)
            return false;
        if (part->kind == PART_FLAG)
            *(bool *)to = number > 0;
        else
            *(unsigned *)to = (unsigned)number;
        break;
    case PART_PAIRS:
        return read_pair(part, words, message) || part->flags & PART_OTHERS;
    case PART_OWN:
        return part->read(words, message);
    case PART_TEXT:
    case PART_END:
        break;
    }
    if (part->bit)
        message[part->has] |= part->bit;
    return true;
}

/* True when the word that begins here is this part. */
static bool is_next(const struct part *part, struct words words)
{
    struct bytes key, value;
    if (words.at == words.end || part->key.len > 0)
        return words.at < words.end && bytes_begin_with(rest_of(&words), part->key);
    switch ((enum part_kind)part->kind) {
    case PART_U32:
    case PART_U64:
    case PART_SECONDS:
        return *words.at == '.' || number_digit(*words.at, 10) < 10;
    case PART_FLAG:
        return find_word(part, words_take(&words)) <= part->max;
    case PART_PAIRS:
        return part->flags & PART_OTHERS || word_split(words_take(&words), '=', &key, &value);
    default:
        return true;
    }
}

/*
 * Looks in a run of parts that come in any order for the one that begins here. Returns the part
 * after the run if there is none. Keys come before pairs, which have any key.
 */
static const struct part *find_in_run(const struct part *run, struct words words)
{
    const struct part *part = run, *found = NULL;
    for (; part->flags & PART_ANY_ORDER; part++) {
        if ((!found || part->key.len > 0) && is_next(part, words))
            found = part;
    }
    return found ? found : part;
}

bool grammar_read(const struct part *parts, struct words *words, void *message)
{
    unsigned seen = 0; /* a bit for each part of a run */
    for (const struct part *next = parts; next->kind != PART_END;) {
        const struct part *part = next;
        struct words rest = *words;
        if (rest.at == rest.end && part->flags & PART_MAY_MISS) {
            do
                next++;
            while (next->flags & PART_MAY_MISS);
            continue;
        }
        if (part->flags & PART_ONE_SPACE)
            rest.at += rest.at < rest.end && *rest.at == ' ';
        else
            words_skip_spaces(&rest);
        if (part->flags & PART_ANY_ORDER) {
            part = find_in_run(next, rest);
            unsigned bit = 1u << (part - next);
            if (!(part->flags & PART_ANY_ORDER)) {
                next = part;
                seen = 0;
                continue;
            }
            if (part->kind != PART_PAIRS && seen & bit)
                return false;
            seen |= bit;
        } else {
            next++;
            if (part->flags & PART_OPTIONAL && !is_next(part, rest))
                continue;
            if (part->key.len > 0 && !bytes_begin_with(rest_of(&rest), part->key))
                return false;
        }
        words->at = rest.at + part->key.len;
        if (!read_value(part, words, message) || !word_ends(words))
            return false;
    }
    return true;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static inline void put_key(struct out *out, struct bytes key)
{
    if (out->len > 0)
        put_byte(out, ' ');
    if (key.len > 0)
        put_bytes(out, key);
}

/* Writes a connection's id and address, which may have spaces, as one word. */
static void put_client(struct out *out, struct bytes client)
{
    size_t at = out->len;
    put_bytes(out, client);
    for (; !out->full && at < out->len; at++) {
        if (out->to[at] <= ' ' || out->to[at] == 0x7f)
            out->to[at] = '_';
    }
}

/* Writes "N.NNN": seconds, rounded down. */
static void put_millis(struct out *out, int64_t ns)
{
    uint64_t ms = ns > 0 ? (uint64_t)(ns / NS_PER_MS) : 0;
    put_number(out, ms / 1000, 1);
    put_byte(out, '.');
    put_number(out, ms % 1000, 3);
}

/* The value of a number, a word or a flag; of bytes their length, of pairs how many they are. */
static uint64_t value_of(const struct part *part, const uint8_t *message)
{
    const void *from = message + part->at;
    switch ((enum part_kind)part->kind) {
    case PART_U32:
    case PART_WORD:
        return *(const uint32_t *)from;
    case PART_U64:
    case PART_SECONDS:
    case PART_MILLIS:
        return *(const uint64_t *)from;
    case PART_FLAG:
        return *(const bool *)from;
    case PART_BYTES:
        return ((const struct bytes *)from)->len;
    case PART_PAIRS:
        return *(const size_t *)(const void *)(message + part->has);
    case PART_OWN:
    case PART_TEXT:
    case PART_END:
        break;
    }
    return 0;
}

static void put_pairs(struct out *out, const struct part *part, const uint8_t *message)
{
    const struct bytes *pairs = (const void *)(message + part->at);
    for (size_t i = 0, count = value_of(part, message); i < count; i++) {
        put_key(out, part->key);
        put_bytes(out, pairs[2 * i]);
        put_byte(out, '=');
        put_bytes(out, pairs[2 * i + 1]);
    }
}

/* True when the part is there; of one that cannot be missing: when it is not written as `none`. */
static bool is_there(const struct part *part, const uint8_t *message)
{
    if (part->bit)
        return (message[part->has] & part->bit) != 0;
    uint64_t missing = part->kind == PART_BYTES ? 0 : part->min;
    return value_of(part, message) != missing;
}

static inline void put_value(struct out *out, const struct part *part, const uint8_t *message)
{
    const struct bytes *bytes = (const void *)(message + part->at);
    uint64_t value = value_of(part, message);
    switch ((enum part_kind)part->kind) {
    case PART_U32:
    case PART_U64:
        put_number(out, value, 1);
        break;
    case PART_BYTES:
        if (part->flags & PART_CLIENT)
            put_client(out, *bytes);
        else
            put_bytes(out, *bytes);
        break;
    case PART_SECONDS:
        put_seconds(out, (int64_t)value);
        break;
    case PART_MILLIS:
        put_millis(out, (int64_t)value);
        break;
    case PART_WORD:
    case PART_FLAG:
        if (value <= part->max)
            put_text(out, part->words[value]);
        break;
    default:
        break;
    }
}

void grammar_write(const struct part *parts, struct out *out, const void *message)
{
    for (const struct part *part = parts; part->kind != PART_END; part++) {
        if (part->write) {
            part->write(out, message);
        } else if (part->kind == PART_PAIRS) {
            put_pairs(out, part, message);
        } else if (!(part->flags & PART_MAY_MISS) || is_there(part, message) ||
                   (part->flags & PART_DASH && is_there(part + 1, message))) {
            put_key(out, part->key);
            if (part->none && !is_there(part, message))
                put_text(out, part->none);
            else
                put_value(out, part, message);
        }
    }
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static bool same_bytes(const struct bytes *a, const struct bytes *b, size_t count)
{
    size_t i = 0;
    while (i < count && bytes_equal(a[i], b[i]))
        i++;
    return i == count;
}

bool grammar_same(const struct part *parts, const void *a, const void *b)
{
    bool same = true;
    for (const struct part *part = parts; same && part->kind != PART_END; part++) {
        const uint8_t *one = a, *other = b;
        same = value_of(part, one) == value_of(part, other) &&
               (!part->bit || one[part->has] == other[part->has]);
        if (same && (part->kind == PART_BYTES || part->kind == PART_PAIRS))
            same = same_bytes((const void *)(one + part->at), (const void *)(other + part->at),
                              part->kind == PART_BYTES ? 1 : 2 * value_of(part, one));
    }
    return same;
}
