/* beanstalk_parts.c - see beanstalk_parts.h. */
#include "proto/beanstalk_parts.h"

#include "base/check.h"
#include "base/number.h"

/* ---- Lines ---------------------------------------------------------------------------------- */

size_t line_length(struct bytes in)
{
    for (size_t at = 0; at < in.len; at++) {
        const uint8_t *end = memchr(in.data + at, '\n', in.len - at);
        if (!end)
            break;
        at = (size_t)(end - in.data);
        if (at > 0 && in.data[at - 1] == '\r')
            return at - 1;
    }
    return in.len;
}

size_t end_crlf(struct out *out)
{
    put_text(out, "\r\n");
    return out_length(out);
}

/* ---- Numbers -------------------------------------------------------------------------------- */

/* Takes `len` bytes, which are there. */
static void drop(struct bytes *in, size_t len)
{
    *in = bytes_at(in->data + len, in->len - len);
}

static size_t drop_spaces(struct bytes *in)
{
    size_t count = 0;
    while (count < in->len && in->data[count] == ' ')
        count++;
    drop(in, count);
    return count;
}

/* Takes one digit or more. Inline: the compiler knows `max`. */
static inline bool take_digits(struct bytes *in, uint64_t max, uint64_t *value_r)
{
    const uint8_t *at = in->data;
    if (in->len == 0 || number_digit(*at, 10) >= 10 ||
        !number_scan(&at, in->data + in->len, 10, max, value_r))
        return false;
    drop(in, (size_t)(at - in->data));
    return true;
}

bool take_u64(struct bytes *in, uint64_t *value_r)
{
    drop_spaces(in);
    return take_digits(in, UINT64_MAX, value_r);
}

bool take_u32(struct bytes *in, uint32_t max, uint32_t *value_r)
{
    uint64_t value;
    drop_spaces(in);
    if (!take_digits(in, UINT32_MAX, &value) || value > max)
        return false;
    *value_r = (uint32_t)value;
    return true;
}

bool take_count(struct bytes *in, uint32_t *count_r)
{
    return take_u32(in, BS_COUNT_MAX, count_r) && *count_r > 0;
}

/* Reads all of a word as a number. */
static bool read_u32(struct bytes word, uint32_t max, uint32_t *value_r)
{
    uint64_t value;
    if (!take_digits(&word, UINT32_MAX, &value) || value > max || word.len > 0)
        return false;
    *value_r = (uint32_t)value;
    return true;
}

/* Reads all of a word as seconds with up to three decimals. */
static bool read_time(struct bytes word, int64_t *ms_r, bool *whole_r)
{
    uint64_t seconds;
    if (!take_digits(&word, UINT32_MAX, &seconds))
        return false;
    *ms_r = (int64_t)seconds * 1000;
    *whole_r = word.len == 0;
    if (*whole_r)
        return true;
    if (word.data[0] != '.' || word.len < 2 || word.len > 4)
        return false;
    int64_t scale = 100;
    for (size_t i = 1; i < word.len; i++, scale /= 10) {
        unsigned digit = number_digit(word.data[i], 10);
        if (digit >= 10)
            return false;
        *ms_r += digit * scale;
    }
    return true;
}

/* ---- Names ---------------------------------------------------------------------------------- */

/* The bytes of names, a bit each: letters, digits, and "-+/;.$_()". */
#define BIT(byte) (UINT64_C(1) << ((byte)&63))
static const uint64_t name_bytes[] = {
    BIT('0') * 0x3ff | BIT('-') | BIT('+') | BIT('/') | BIT(';') | BIT('.') | BIT('$') | BIT('(') |
        BIT(')'),
    BIT('A') * 0x3ffffff | BIT('a') * 0x3ffffff | BIT('_'),
};

static bool is_name_byte(uint8_t byte)
{
    return byte < 128 && (name_bytes[byte / 64] & BIT(byte)) != 0;
}

/* The number of bytes of names at the front, counted up to `max` + 1. */
static size_t name_length(struct bytes in, size_t max)
{
    size_t len = 0;
    while (len < in.len && len <= max && is_name_byte(in.data[len]))
        len++;
    return len;
}

bool bs_is_tube_name(struct bytes name)
{
    return name.len > 0 && name.len <= BS_TUBE_MAX && name.data[0] != '-' &&
           name_length(name, BS_TUBE_MAX) == name.len;
}

/* Names of keys and signatures, which may begin with "-". */
static bool is_key(struct bytes key)
{
    return key.len > 0 && key.len <= BS_KEY_MAX && name_length(key, BS_KEY_MAX) == key.len;
}

bool take_tube(struct bytes *in, struct bytes *tube_r)
{
    size_t len = name_length(*in, BS_TUBE_MAX);
    if (len == 0 || len > BS_TUBE_MAX || in->data[0] == '-')
        return false;
    *tube_r = bytes_at(in->data, len);
    drop(in, len);
    return true;
}

bool take_next_tube(struct bytes *in, struct bytes *tube_r)
{
    return bytes_take_text(in, " ") && take_tube(in, tube_r);
}

bool take_pattern(struct bytes *in, struct bytes *tube_r, bool *prefix_r)
{
    if (!bytes_take_text(in, " "))
        return false;
    *tube_r = (struct bytes){0};
    *prefix_r = true;
    if (bytes_take_text(in, "*"))
        return true;
    if (!take_tube(in, tube_r))
        return false;
    *prefix_r = bytes_take_text(in, "*");
    return true;
}

bool bs_next_tube(struct bytes *tubes, struct bytes *name_r)
{
    if (tubes->len == 0 || !take_tube(tubes, name_r))
        return false;
    (void)bytes_take_text(tubes, " ");
    return true;
}

/* ---- Words ---------------------------------------------------------------------------------- */

static bool word_is(struct bytes word, const char *text)
{
    return bytes_equal(word, bytes_of(text));
}

bool take_next_word(struct bytes *in, struct bytes *word_r)
{
    if (drop_spaces(in) == 0 || in->len == 0)
        return false;
    const uint8_t *space = memchr(in->data, ' ', in->len);
    *word_r = bytes_at(in->data, space ? (size_t)(space - in->data) : in->len);
    drop(in, word_r->len);
    return true;
}

static const struct bytes state_words[BS_STATE_COUNT] = {
#define ROW(name, word) [BS_STATE_##name] = BYTES_OF_LITERAL(word),
    BS_STATES(ROW)
#undef ROW
};

struct bytes bs_state_word(enum bs_state state)
{
    return state_words[(size_t)state < BS_STATE_COUNT ? state : BS_STATE_NONE];
}

bool take_state(struct bytes *in, enum bs_state *state_r)
{
    struct bytes word;
    if (!take_next_word(in, &word))
        return false;
    for (size_t i = BS_STATE_NONE + 1; i < BS_STATE_COUNT; i++) {
        if (bytes_equal(word, state_words[i])) {
            *state_r = (enum bs_state)i;
            return true;
        }
    }
    return false;
}

/* ---- Options of puts ------------------------------------------------------------------------ */

static bool read_option(struct bytes word, struct bs_put_options *options)
{
    if (bytes_take_text(&word, "key=")) {
        bool first = options->key.len == 0;
        options->key = word;
        return first && is_key(word);
    }
    if (bytes_take_text(&word, "at=")) {
        bool first = !options->has_at;
        options->has_at = true;
        return first && read_time(word, &options->at_ms, &options->at_whole);
    }
    if (bytes_take_text(&word, "root=")) {
        const uint8_t *mark = word.len > 0 ? memchr(word.data, ':', word.len) : NULL;
        if (!mark || options->root.len > 0)
            return false;
        options->root = bytes_at(word.data, (size_t)(mark - word.data));
        drop(&word, options->root.len + 1);
        return is_key(options->root) && read_time(word, &options->root_ms, &options->root_whole);
    }
    if (bytes_take_text(&word, "tries=")) {
        bool first = !options->has_tries;
        options->has_tries = true;
        return first && read_u32(word, UINT32_MAX, &options->tries);
    }
    return false;
}

bool take_options(struct bytes *in, struct bs_put_options *options_r)
{
    *options_r = (struct bs_put_options){0};
    for (struct bytes word; in->len > 0;) {
        if (!take_next_word(in, &word) || !read_option(word, options_r))
            return false;
    }
    return true;
}

/* ---- Settings of tubes ---------------------------------------------------------------------- */

static const char *const order_words[] = {
    [BS_ORDER_PRIORITY] = "priority",
    [BS_ORDER_FIFO] = "fifo",
    [BS_ORDER_RANDOM] = "random",
};

static const char *const claim_words[] = {
    [BS_CLAIM_CONNECTION] = "connection",
    [BS_CLAIM_LEASE] = "lease",
};

/* Returns the number of the word, or `count`. */
static size_t find_word(struct bytes word, const char *const *words, size_t count)
{
    size_t i = 0;
    while (i < count && !word_is(word, words[i]))
        i++;
    return i;
}

/* Takes "name=" and notes that the setting is there. *wrong becomes true when it was there before.
 */
static bool take_setting(struct bytes *word, const char *name, unsigned bit,
                         struct bs_settings *settings, bool *wrong)
{
    if (!bytes_take_text(word, name))
        return false;
    *wrong = (settings->given & bit) != 0;
    settings->given |= bit;
    return true;
}

static bool read_setting(struct bytes word, struct bs_settings *settings)
{
    bool wrong = true;
    if (take_setting(&word, "order=", BS_GIVEN_ORDER, settings, &wrong)) {
        size_t order = find_word(word, order_words, ARRAY_SIZE(order_words));
        settings->order = (enum bs_order)order;
        return !wrong && order < ARRAY_SIZE(order_words);
    }
    if (take_setting(&word, "claim=", BS_GIVEN_CLAIM, settings, &wrong)) {
        size_t claim = find_word(word, claim_words, ARRAY_SIZE(claim_words));
        settings->claim = (enum bs_claim)claim;
        return !wrong && claim < ARRAY_SIZE(claim_words);
    }
    if (take_setting(&word, "tries=", BS_GIVEN_TRIES, settings, &wrong))
        return !wrong && read_u32(word, UINT32_MAX, &settings->tries);
    if (take_setting(&word, "limit=", BS_GIVEN_LIMIT, settings, &wrong))
        return !wrong && read_u32(word, UINT32_MAX, &settings->limit);
    if (take_setting(&word, "prune=", BS_GIVEN_PRUNE, settings, &wrong))
        return !wrong && read_u32(word, UINT32_MAX, &settings->prune_s);
    if (take_setting(&word, "remember=", BS_GIVEN_REMEMBER, settings, &wrong))
        return !wrong && read_u32(word, BS_REMEMBER_MAX, &settings->remember_s);
    return false;
}

/* Bytes that may stand between double quotes. */
static bool is_reason(struct bytes text)
{
    bool good = text.len <= BS_REASON_MAX;
    for (size_t i = 0; good && i < text.len; i++) {
        uint8_t byte = text.data[i];
        good = byte >= ' ' && byte <= '~' && byte != '"' && byte != '\\';
    }
    return good;
}

bool take_settings(struct bytes *in, struct bs_settings *settings_r)
{
    *settings_r = (struct bs_settings){0};
    while (in->len > 0) {
        struct bytes rest = *in, word;
        if (drop_spaces(&rest) > 0 && bytes_take_text(&rest, "read-only=")) {
            settings_r->given |= BS_GIVEN_READ_ONLY;
            settings_r->read_only = rest;
            drop(in, in->len);
            return is_reason(rest);
        }
        if (!take_next_word(in, &word) || !read_setting(word, settings_r))
            return false;
    }
    return true;
}

/* ---- Writing -------------------------------------------------------------------------------- */

void put_next_word(struct out *out, struct bytes word)
{
    put_byte(out, ' ');
    put_bytes(out, word);
}

void put_next_number(struct out *out, uint64_t value)
{
    put_byte(out, ' ');
    put_number(out, value, 1);
}

/* Writes a time without a space. A negative one becomes one that is too large. */
static void put_time(struct out *out, int64_t ms, bool whole)
{
    put_number(out, (uint64_t)ms / 1000, 1);
    if (whole)
        return;
    put_byte(out, '.');
    put_number(out, (uint64_t)ms % 1000, 3);
}

void put_option_words(struct out *out, const struct bs_put_options *options)
{
    if (options->key.len > 0) {
        put_text(out, " key=");
        put_bytes(out, options->key);
    }
    if (options->has_at) {
        put_text(out, " at=");
        put_time(out, options->at_ms, options->at_whole);
    }
    if (options->root.len > 0) {
        put_text(out, " root=");
        put_bytes(out, options->root);
        put_byte(out, ':');
        put_time(out, options->root_ms, options->root_whole);
    }
    if (options->has_tries) {
        put_text(out, " tries=");
        put_number(out, options->tries, 1);
    }
}

static void put_setting_number(struct out *out, const char *name, bool given, uint32_t value)
{
    if (!given)
        return;
    put_text(out, name);
    put_number(out, value, 1);
}

void put_setting_words(struct out *out, const struct bs_settings *settings)
{
    unsigned given = settings->given;
    if ((given & BS_GIVEN_ORDER) && (size_t)settings->order < ARRAY_SIZE(order_words)) {
        put_text(out, " order=");
        put_text(out, order_words[settings->order]);
    }
    if ((given & BS_GIVEN_CLAIM) && (size_t)settings->claim < ARRAY_SIZE(claim_words)) {
        put_text(out, " claim=");
        put_text(out, claim_words[settings->claim]);
    }
    put_setting_number(out, " tries=", given & BS_GIVEN_TRIES, settings->tries);
    put_setting_number(out, " limit=", given & BS_GIVEN_LIMIT, settings->limit);
    put_setting_number(out, " prune=", given & BS_GIVEN_PRUNE, settings->prune_s);
    put_setting_number(out, " remember=", given & BS_GIVEN_REMEMBER, settings->remember_s);
    if (given & BS_GIVEN_READ_ONLY) {
        put_text(out, " read-only=");
        put_bytes(out, settings->read_only);
    }
}

/* ---- Comparing ------------------------------------------------------------------------------ */

bool same_options(const struct bs_put_options *a, const struct bs_put_options *b)
{
    return bytes_equal(a->key, b->key) && bytes_equal(a->root, b->root) && a->at_ms == b->at_ms &&
           a->root_ms == b->root_ms && a->tries == b->tries && a->has_at == b->has_at &&
           a->has_tries == b->has_tries && a->at_whole == b->at_whole &&
           a->root_whole == b->root_whole;
}

bool same_settings(const struct bs_settings *a, const struct bs_settings *b)
{
    return a->given == b->given && a->order == b->order && a->claim == b->claim &&
           a->tries == b->tries && a->limit == b->limit && a->prune_s == b->prune_s &&
           a->remember_s == b->remember_s && bytes_equal(a->read_only, b->read_only);
}
