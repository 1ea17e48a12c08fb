/*
 * pools.c - parses and composes the requests of pools, and parses members files.
 *
 * A request is strict: it has the parts of its row, and no word may be left. It is composed without
 * checks and then parsed: it counts only if that gives the same request. So the bounds are in one
 * place, the parts.
 */
#include "proto/pools.h"

#include "base/check.h"
#include "proto/grammar.h"

/* ---- Words ----------------------------------------------------------------------------------- */

/* A name from a list, which has no comma. */
static bool is_pool_in_list(struct bytes word)
{
    return word.len > 0 && word.len <= POOLS_NAME_MAX && word.data[0] != '@' && word.data[0] != '*';
}

static bool is_pool_name(struct bytes word)
{
    return is_pool_in_list(word) && !memchr(word.data, ',', word.len);
}

bool pool_is_attribute(struct bytes word)
{
    struct bytes key, value;
    if (!word_split(word, '=', &key, &value) || key.len == 0 || key.len > POOLS_KEY_MAX ||
        value.len > POOLS_ATTR_MAX || key.data[0] < 'a' || key.data[0] > 'z')
        return false;
    for (size_t i = 1; i < key.len; i++) {
        uint8_t c = key.data[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_')
            return false;
    }
    return !word_is(key, "value") && !word_is(key, "state") && !word_is(key, "note");
}

const char *const pool_take_for_words[POOL_TAKE_FOR_COUNT] = {
    [POOL_TAKE_FOR_USE] = "use",
    [POOL_TAKE_FOR_CLEAN] = "clean",
    [POOL_TAKE_FOR_CHECK] = "check",
};

/* Reads pools with commas between them; the group behind "@" instead. */
static bool read_targets(struct words *words, void *message)
{
    struct pool_request *req = message;
    struct bytes rest = words_take(words), pool;
    if (rest.len > 0 && rest.data[0] == '@') {
        req->group = bytes_at(rest.data + 1, rest.len - 1);
        return is_pool_name(req->group);
    }
    for (bool more = true; more;) {
        more = word_split(rest, ',', &pool, &rest);
        if (!more)
            pool = rest;
        if (!is_pool_in_list(pool) || req->target_count == POOLS_TARGETS_MAX)
            return false;
        for (size_t i = 0; i < req->target_count; i++) {
            if (bytes_equal(req->targets[i], pool))
                return false;
        }
        req->targets[req->target_count++] = pool;
    }
    return true;
}

static void write_targets(struct out *out, const void *message)
{
    const struct pool_request *req = message;
    if (req->group.len > 0) {
        put_text(out, " @");
        put_bytes(out, req->group);
    }
    for (size_t i = 0; i < req->target_count; i++) {
        put_byte(out, i == 0 ? ' ' : ',');
        put_bytes(out, req->targets[i]);
    }
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* clang-format off */

#define OF struct pool_request
#define TEXT(text) {.kind = PART_TEXT, KEY(text)}
#define POOL       {BYTES(pool, 1, POOLS_NAME_MAX), .good = is_pool_name}
#define PREFIX     {BYTES(pool, 1, POOLS_NAME_MAX), .good = is_pool_name, .flags = PART_OPTIONAL}
#define POOL_OR_ALL {BYTES(pool, 1, POOLS_NAME_MAX), .good = is_pool_name, .none = "*"}
#define NAME       {BYTES(member, 1, POOLS_NAME_MAX)}
#define VALUE      {BYTES(value, 0, POOLS_VALUE_MAX), .none = "-", .flags = PART_OPTIONAL | PART_DASH}
#define ATTRIBUTES {PAIRS(pairs, pair_count), .max = POOLS_ATTRS_MAX, .good = pool_is_attribute, \
                    .flags = PART_ANY_ORDER}
#define OPTIONS    {PAIRS(pairs, pair_count), .max = POOLS_OPTIONS_MAX, .flags = PART_ANY_ORDER}
#define LAST(text, member) {FLAG(member, "", text), .flags = PART_OPTIONAL}
#define OPTION(text) .flags = PART_ANY_ORDER, KEY(text)

static const struct part take[] = {
    {.kind = PART_OWN, .read = read_targets, .write = write_targets},
    {MEMBER(SECONDS, timeout_ns), .max = POOLS_TIMEOUT_MAX_NS, .flags = PART_OPTIONAL},
    {MEMBER(U32, count), .min = 1, .max = POOLS_COUNT_MAX, OPTION("count=")},
    {BYTES(member, 1, POOLS_NAME_MAX), OPTION("member=")},
    {PAIRS(pairs, pair_count), .max = POOLS_WITH_MAX, .good = pool_is_attribute, OPTION("with=")},
    {MEMBER(WORD, take_for), .words = pool_take_for_words, .max = POOL_TAKE_FOR_CHECK, OPTION("for=")},
    {BYTES(by, 1, POOLS_BY_MAX), OPTION("by=")},
    {.kind = PART_END},
};

static const struct part take_back[] = {
    {U64(fence), HAS(has_fence, 1), .flags = PART_OPTIONAL | PART_20_DIGITS},
    {FLAG(failed, "ok", "fail"), .flags = PART_OPTIONAL},
    {.kind = PART_END},
};

static const struct part member_set[] = {
    TEXT("SET"), POOL, NAME, ATTRIBUTES,
    {BYTES(value, 0, POOLS_VALUE_MAX), HAS(has_value, 1), .none = "-", OPTION("value=")},
    {BYTES(note, 0, POOLS_NOTE_MAX), HAS(has_note, 1), OPTION("note=")},
    {BYTES(state, 0, SIZE_MAX), HAS(has_state, 1), OPTION("state=")},
    LAST("now", now),
    {.kind = PART_END},
};

/* clang-format on */

static bool fits_take(const struct pool_request *req)
{
    return req->member.len == 0 || (req->target_count == 1 && req->count == 1);
}

static bool fits_supply(const struct pool_request *req)
{
    return req->init <= req->max;
}

static bool fits_member_set(const struct pool_request *req)
{
    return req->pair_count > 0 || req->has_value || req->has_note || req->has_state;
}

static const struct verb {
    const struct part *parts;
    bool bare;                                    /* it may be alone on its line */
    bool (*fits)(const struct pool_request *req); /* NULL: any parts fit together */
} verbs[POOL_VERB_COUNT] = {
    [POOL_VERB_TAKE] = {take, .fits = fits_take},
    [POOL_VERB_RETURN] = {take_back, .bare = true},
    [POOL_VERB_JOIN] = {PARTS(POOL, NAME, VALUE, ATTRIBUTES)},
    [POOL_VERB_SUPPLY] = {PARTS(POOL, {U32(init)}, {U32(max)}), .fits = fits_supply},
    [POOL_VERB_MEMBER_ADD] = {PARTS(TEXT("ADD"), POOL, NAME, VALUE, ATTRIBUTES)},
    [POOL_VERB_MEMBER_SET] = {member_set, .fits = fits_member_set},
    [POOL_VERB_MEMBER_DROP] = {PARTS(TEXT("DROP"), POOL, NAME, LAST("now", now))},
    [POOL_VERB_POOL_ADD] = {PARTS(TEXT("ADD"), POOL, OPTIONS)},
    [POOL_VERB_POOL_SET] = {PARTS(TEXT("SET"), POOL, OPTIONS)},
    [POOL_VERB_POOL_DROP] = {PARTS(TEXT("DROP"), POOL, LAST("now", now))},
    [POOL_VERB_POOL_SHOW] = {PARTS(TEXT("SHOW"), POOL)},
    [POOL_VERB_POOL_LIST] = {PARTS(TEXT("LIST"), PREFIX)},
    [POOL_VERB_WATCH] = {PARTS(POOL_OR_ALL, LAST("mine", mine))},
    [POOL_VERB_QUIT] = {PARTS(), .bare = true},
};

static const struct bytes verb_words[POOL_VERB_COUNT] = {
#define ROW(name, word) [POOL_VERB_##name] = BYTES_OF_LITERAL(word),
    POOL_VERBS(ROW)
#undef ROW
};

/* ---- Requests -------------------------------------------------------------------------------- */

/*
 * Returns the first verb with the line's first word; POOL_VERB_COUNT for a line that is no request.
 * The compiler knows each word's length, so a comparison takes a few instructions and no call.
 */
static size_t verb_of(struct bytes line)
{
#define ROW(name, word)                                                                            \
    if (line.len >= sizeof(word) - 1 && memcmp(line.data, word, sizeof(word) - 1) == 0 &&          \
        (line.len == sizeof(word) - 1 ? verbs[POOL_VERB_##name].bare                               \
                                      : line.data[sizeof(word) - 1] == ' '))                       \
        return POOL_VERB_##name;
    POOL_VERBS(ROW)
#undef ROW
    return POOL_VERB_COUNT;
}

bool pool_is_request(struct bytes line)
{
    return verb_of(line) < POOL_VERB_COUNT;
}

enum pool_parsed pool_parse_request(struct bytes line, struct pool_request *req_r)
{
    size_t verb = verb_of(line);
    if (verb == POOL_VERB_COUNT)
        return POOL_BAD_COMMAND;
    struct bytes word = verb_words[verb];
    do { /* for each verb with this word: their second words differ */
        struct words words = {line.data + word.len, line.data + line.len};
        memset(req_r, 0, offsetof(struct pool_request, targets));
        req_r->verb = (enum pool_verb)verb;
        req_r->count = verb == POOL_VERB_TAKE;
        if (grammar_read(verbs[verb].parts, &words, req_r)) {
            words_skip_spaces(&words);
            bool fits = !verbs[verb].fits || verbs[verb].fits(req_r);
            return fits && words.at == words.end ? POOL_PARSED : POOL_BAD_SYNTAX;
        }
    } while (++verb < POOL_VERB_COUNT && bytes_equal(verb_words[verb], word));
    return POOL_BAD_SYNTAX;
}

static bool same_request(const struct pool_request *a, const struct pool_request *b)
{
    bool same =
        a->verb == b->verb && bytes_equal(a->group, b->group) && a->target_count == b->target_count;
    for (size_t i = 0; same && i < a->target_count; i++)
        same = bytes_equal(a->targets[i], b->targets[i]);
    for (size_t i = 0; same && i < POOL_VERB_COUNT; i++) /* what another verb has is zero */
        same = grammar_same(verbs[i].parts, a, b);
    return same;
}

size_t pool_compose_request(const struct pool_request *req, uint8_t *to, size_t room)
{
    if ((size_t)req->verb >= POOL_VERB_COUNT || req->target_count > POOLS_TARGETS_MAX ||
        req->pair_count > POOLS_OPTIONS_MAX)
        return 0;
    struct out out = {.to = to, .room = room};
    put_bytes(&out, verb_words[req->verb]);
    grammar_write(verbs[req->verb].parts, &out, req);
    put_byte(&out, '\n');
    size_t len = out_length(&out);
    struct pool_request again;
    if (len == 0 || pool_parse_request(bytes_at(to, len - 1), &again) != POOL_PARSED)
        return 0;
    return same_request(req, &again) ? len : 0;
}

/* ---- Members files --------------------------------------------------------------------------- */

#undef OF
#define OF struct pool_member_line
static const struct part member_line[] = {
    {BYTES(name, 1, POOLS_NAME_MAX)},
    {BYTES(value, 0, POOLS_VALUE_MAX), .none = "-", .flags = PART_OPTIONAL},
    {FLAG(down, "", "down"), OPTION("state=")},
    {BYTES(note, 0, POOLS_NOTE_MAX), OPTION("note=")},
    {PAIRS(attrs, attr_count), .max = POOLS_ATTRS_MAX, .good = pool_is_attribute,
     .flags = PART_ANY_ORDER},
    {.kind = PART_END},
};

bool pool_parse_member(struct bytes line, struct pool_member_line *line_r)
{
    struct words words = words_of(line);
    memset(line_r, 0, offsetof(struct pool_member_line, attrs));
    if (!grammar_read(member_line, &words, line_r) || line_r->name.data != line.data)
        return false;
    words_skip_spaces(&words);
    return words.at == words.end;
}
