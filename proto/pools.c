/*
 * pools.c - parses and composes the requests of pools, and parses members files.
 *
 * A request is strict: the handler of its verb takes the words that the verb may have, and no word
 * may be left.
 *
 * A request is composed without checks and then parsed: it counts only if that gives the same
 * request. So the bounds are in one place, the parser.
 */
#include "proto/pools.h"

#include "base/number.h"
#include "proto/pools_parts.h"

/* ---- TAKE and RETURN ------------------------------------------------------------------------ */

/* Reads one pool, several with commas between them, or "@" and a group. */
static bool read_targets(struct bytes word, struct pool_request *req_r)
{
    if (word.len > 0 && word.data[0] == '@') {
        req_r->group = bytes_at(word.data + 1, word.len - 1);
        return is_pool_name(req_r->group);
    }
    for (bool more = true; more;) {
        const uint8_t *comma = word.len > 0 ? memchr(word.data, ',', word.len) : NULL;
        more = comma != NULL;
        struct bytes pool = more ? bytes_at(word.data, (size_t)(comma - word.data)) : word;
        if (!is_pool_in_list(pool) || req_r->target_count == POOLS_TARGETS_MAX)
            return false;
        for (size_t i = 0; i < req_r->target_count; i++) {
            if (bytes_equal(req_r->targets[i], pool))
                return false;
        }
        req_r->targets[req_r->target_count++] = pool;
        if (more)
            word = bytes_at(comma + 1, word.len - pool.len - 1);
    }
    return true;
}

/* Options of TAKE that have been read. */
#define SEEN_COUNT  1u
#define SEEN_MEMBER 2u
#define SEEN_FOR    4u
#define SEEN_BY     8u

/* Notes that an option is there. Returns false when it was there before. */
static bool see(unsigned *seen, unsigned option)
{
    bool first = (*seen & option) == 0;
    *seen |= option;
    return first;
}

static bool read_take_option(struct bytes word, unsigned *seen, struct pool_request *req_r)
{
    struct pool_pair option, with;
    if (!pair_split(word, &option))
        return false;
    if (word_is(option.key, "count"))
        return see(seen, SEEN_COUNT) && read_u32(option.value, &req_r->count) && req_r->count > 0 &&
               req_r->count <= POOLS_COUNT_MAX;
    if (word_is(option.key, "member")) {
        req_r->member = option.value;
        return see(seen, SEEN_MEMBER) && is_member_name(option.value);
    }
    if (word_is(option.key, "with"))
        return pair_split(option.value, &with) && is_attribute(&with) &&
               pair_add(req_r->pairs, &req_r->pair_count, POOLS_WITH_MAX, with);
    if (word_is(option.key, "for"))
        return see(seen, SEEN_FOR) && read_take_for(option.value, &req_r->take_for);
    if (word_is(option.key, "by")) {
        req_r->by = option.value;
        return see(seen, SEEN_BY) && is_length(option.value, 1, POOLS_BY_MAX);
    }
    return false;
}

static bool read_take(struct words *words, struct pool_request *req_r)
{
    req_r->count = 1;
    if (!read_targets(words_next(words), req_r))
        return false;
    struct bytes word = words_next(words);
    if (word.len > 0 && !memchr(word.data, '=', word.len)) {
        if (!read_seconds(word, POOLS_TIMEOUT_MAX_NS, &req_r->timeout_ns))
            return false;
        word = words_next(words);
    }
    unsigned seen = 0;
    for (; word.len > 0; word = words_next(words)) {
        if (!read_take_option(word, &seen, req_r))
            return false;
    }
    return req_r->member.len == 0 || (req_r->target_count == 1 && req_r->count == 1);
}

static void write_take(struct out *out, const struct pool_request *req)
{
    if (req->group.len > 0)
        put_key(out, "@", req->group);
    for (size_t i = 0; i < req->target_count && i < POOLS_TARGETS_MAX; i++) {
        put_text(out, i == 0 ? " " : ",");
        put_bytes(out, req->targets[i]);
    }
    if (req->timeout_ns != 0) {
        put_byte(out, ' ');
        put_seconds(out, req->timeout_ns);
    }
    if (req->count != 1)
        put_key_number(out, "count=", req->count);
    put_key_if(out, "member=", req->member);
    put_pairs(out, "with=", req->pairs, req->pair_count);
    if (req->take_for != POOL_TAKE_FOR_USE)
        put_take_for(out, req->take_for);
    put_key_if(out, "by=", req->by);
}

static bool read_return(struct words *words, struct pool_request *req_r)
{
    struct bytes word = words_next(words);
    if (word.len > 0 && number_digit(word.data[0], 10) < 10) {
        req_r->has_fence = true;
        if (!read_fence(word, &req_r->fence))
            return false;
        word = words_next(words);
    }
    req_r->failed = word_is(word, "fail");
    return word.len == 0 || req_r->failed || word_is(word, "ok");
}

static void write_return(struct out *out, const struct pool_request *req)
{
    if (req->has_fence)
        put_word_number(out, req->fence);
    if (req->failed)
        put_word_text(out, "fail");
}

/* ---- JOIN, SUPPLY and MEMBER ---------------------------------------------------------------- */

static bool read_pool(struct words *words, struct pool_request *req_r)
{
    req_r->pool = words_next(words);
    return is_pool_name(req_r->pool);
}

static bool read_pool_and_member(struct words *words, struct pool_request *req_r)
{
    if (!read_pool(words, req_r))
        return false;
    req_r->member = words_next(words);
    return is_member_name(req_r->member);
}

/* Reads the words of JOIN and of MEMBER ADD. */
static bool read_new_member(struct words *words, struct pool_request *req_r)
{
    if (!read_pool_and_member(words, req_r) || !read_value(words_next(words), &req_r->value))
        return false;
    for (struct bytes word; (word = words_next(words)).len > 0;) {
        if (!read_attribute(word, req_r->pairs, &req_r->pair_count))
            return false;
    }
    return true;
}

static void write_new_member(struct out *out, const struct pool_request *req)
{
    put_word(out, req->pool);
    put_word(out, req->member);
    if (req->value.len > 0 || req->pair_count > 0)
        put_word_or_dash(out, req->value);
    put_pairs(out, "", req->pairs, req->pair_count);
}

static bool read_supply(struct words *words, struct pool_request *req_r)
{
    return read_pool(words, req_r) && read_u32(words_next(words), &req_r->init) &&
           read_u32(words_next(words), &req_r->max) && req_r->init <= req_r->max;
}

static void write_supply(struct out *out, const struct pool_request *req)
{
    put_word(out, req->pool);
    put_word_number(out, req->init);
    put_word_number(out, req->max);
}

static bool read_change(struct bytes word, struct pool_request *req_r)
{
    struct pool_pair pair;
    bool *has;
    if (!pair_split(word, &pair))
        return false;
    if (word_is(pair.key, "value")) {
        has = &req_r->has_value;
        if (!read_value(pair.value, &req_r->value))
            return false;
    } else if (word_is(pair.key, "note")) {
        has = &req_r->has_note;
        req_r->note = pair.value;
        if (pair.value.len > POOLS_NOTE_MAX)
            return false;
    } else if (word_is(pair.key, "state")) {
        has = &req_r->has_state;
        req_r->state = pair.value;
    } else {
        return read_attribute(word, req_r->pairs, &req_r->pair_count);
    }
    bool first = !*has;
    *has = true;
    return first;
}

static bool read_member_set(struct words *words, struct pool_request *req_r)
{
    if (!read_pool_and_member(words, req_r))
        return false;
    size_t changes = 0;
    struct bytes word = words_next(words);
    for (; word.len > 0 && !word_is(word, "now"); word = words_next(words)) {
        if (!read_change(word, req_r))
            return false;
        changes++;
    }
    req_r->now = word.len > 0;
    return changes > 0;
}

static void write_member_set(struct out *out, const struct pool_request *req)
{
    put_word(out, req->pool);
    put_word(out, req->member);
    put_pairs(out, "", req->pairs, req->pair_count);
    if (req->has_value)
        put_key(out, "value=", req->value);
    if (req->has_note)
        put_key(out, "note=", req->note);
    if (req->has_state)
        put_key(out, "state=", req->state);
    if (req->now)
        put_word_text(out, "now");
}

/* Reads the last word, which may be missing. */
static bool read_last(struct words *words, const char *text, bool *is_there_r)
{
    struct bytes word = words_next(words);
    *is_there_r = word.len > 0;
    return word.len == 0 || word_is(word, text);
}

static bool read_member_drop(struct words *words, struct pool_request *req_r)
{
    return read_pool_and_member(words, req_r) && read_last(words, "now", &req_r->now);
}

static void write_member_drop(struct out *out, const struct pool_request *req)
{
    put_word(out, req->pool);
    put_word(out, req->member);
    if (req->now)
        put_word_text(out, "now");
}

/* ---- POOL, WATCH and QUIT ------------------------------------------------------------------- */

static bool read_options(struct words *words, struct pool_request *req_r)
{
    if (!read_pool(words, req_r))
        return false;
    for (struct bytes word; (word = words_next(words)).len > 0;) {
        struct pool_pair option;
        if (!pair_split(word, &option) ||
            !pair_add(req_r->pairs, &req_r->pair_count, POOLS_OPTIONS_MAX, option))
            return false;
    }
    return true;
}

static void write_options(struct out *out, const struct pool_request *req)
{
    put_word(out, req->pool);
    put_pairs(out, "", req->pairs, req->pair_count);
}

static bool read_pool_drop(struct words *words, struct pool_request *req_r)
{
    return read_pool(words, req_r) && read_last(words, "now", &req_r->now);
}

static void write_pool_drop(struct out *out, const struct pool_request *req)
{
    put_word(out, req->pool);
    if (req->now)
        put_word_text(out, "now");
}

static void write_pool_show(struct out *out, const struct pool_request *req)
{
    put_word(out, req->pool);
}

static bool read_pool_list(struct words *words, struct pool_request *req_r)
{
    req_r->pool = words_next(words);
    return req_r->pool.len == 0 || is_pool_name(req_r->pool);
}

static void write_pool_list(struct out *out, const struct pool_request *req)
{
    if (req->pool.len > 0)
        put_word(out, req->pool);
}

static bool read_watch(struct words *words, struct pool_request *req_r)
{
    struct bytes word = words_next(words);
    if (!word_is(word, "*"))
        req_r->pool = word;
    return (word_is(word, "*") || is_pool_name(word)) && read_last(words, "mine", &req_r->mine);
}

static void write_watch(struct out *out, const struct pool_request *req)
{
    put_word(out, req->pool.len > 0 ? req->pool : bytes_of("*"));
    if (req->mine)
        put_word_text(out, "mine");
}

static bool read_quit(struct words *words, struct pool_request *req_r)
{
    (void)words;
    (void)req_r;
    return true;
}

static void write_quit(struct out *out, const struct pool_request *req)
{
    (void)out;
    (void)req;
}

/* ---- Requests ------------------------------------------------------------------------------- */

/* The verbs: true if the verb may stand alone, parser, composer. */
#define HANDLERS(ROW)                                                                              \
    ROW(TAKE, false, read_take, write_take)                                                        \
    ROW(RETURN, true, read_return, write_return)                                                   \
    ROW(JOIN, false, read_new_member, write_new_member)                                            \
    ROW(SUPPLY, false, read_supply, write_supply)                                                  \
    ROW(MEMBER_ADD, false, read_new_member, write_new_member)                                      \
    ROW(MEMBER_SET, false, read_member_set, write_member_set)                                      \
    ROW(MEMBER_DROP, false, read_member_drop, write_member_drop)                                   \
    ROW(POOL_ADD, false, read_options, write_options)                                              \
    ROW(POOL_SET, false, read_options, write_options)                                              \
    ROW(POOL_DROP, false, read_pool_drop, write_pool_drop)                                         \
    ROW(POOL_SHOW, false, read_pool, write_pool_show)                                              \
    ROW(POOL_LIST, false, read_pool_list, write_pool_list)                                         \
    ROW(WATCH, false, read_watch, write_watch)                                                     \
    ROW(QUIT, true, read_quit, write_quit)

static const struct verb {
    bool bare;
    /*
     * Fills in the fields that the verb uses; the others are zero. Returns false on wrong words.
     * The caller checks that no word is left.
     */
    bool (*read)(struct words *words, struct pool_request *req_r);
    void (*write)(struct out *out, const struct pool_request *req);
} verbs[POOL_VERB_COUNT] = {
#define ROW(name, bare, read, write) [POOL_VERB_##name] = {bare, read, write},
    HANDLERS(ROW)
#undef ROW
};

static const struct bytes verb_words[POOL_VERB_COUNT] = {
#define ROW(name, words) [POOL_VERB_##name] = BYTES_OF_LITERAL(words),
    POOL_VERBS(ROW)
#undef ROW
};

/* Takes the first word of a verb of one or two words. Returns false if it is another. */
static bool take_first(struct bytes *verb, struct bytes word)
{
    if (word.len == 0 || !bytes_begin_with(*verb, word))
        return false;
    (void)bytes_take(verb, word.len);
    return verb->len == 0 || bytes_take_text(verb, " ");
}

enum pool_parsed pool_parse_request(struct bytes line, struct pool_request *req_r)
{
    struct words words = words_of(line);
    struct bytes first = words_next(&words);
    if (first.data != line.data)
        return POOL_BAD_COMMAND;
    enum pool_parsed parsed = POOL_BAD_COMMAND;
    for (size_t i = 0; i < POOL_VERB_COUNT; i++) {
        struct bytes second = verb_words[i];
        struct words rest = words;
        if (!take_first(&second, first))
            continue;
        if (words.at == words.end && !verbs[i].bare)
            return POOL_BAD_COMMAND;
        parsed = POOL_BAD_SYNTAX;
        if (second.len > 0 && !bytes_equal(words_next(&rest), second))
            continue;
        memset(req_r, 0, offsetof(struct pool_request, targets));
        req_r->verb = (enum pool_verb)i;
        return verbs[i].read(&rest, req_r) && words_at_end(rest) ? POOL_PARSED : POOL_BAD_SYNTAX;
    }
    return parsed;
}

static bool same_pairs(const struct pool_pair *a, const struct pool_pair *b, size_t count)
{
    bool same = true;
    for (size_t i = 0; i < count; i++)
        same &= bytes_equal(a[i].key, b[i].key) && bytes_equal(a[i].value, b[i].value);
    return same;
}

static bool same_targets(const struct bytes *a, const struct bytes *b, size_t count)
{
    bool same = true;
    for (size_t i = 0; i < count; i++)
        same &= bytes_equal(a[i], b[i]);
    return same;
}

static bool same_request(const struct pool_request *a, const struct pool_request *b)
{
    return a->verb == b->verb && a->take_for == b->take_for && a->count == b->count &&
           a->timeout_ns == b->timeout_ns && bytes_equal(a->group, b->group) &&
           bytes_equal(a->by, b->by) && a->has_fence == b->has_fence && a->failed == b->failed &&
           a->now == b->now && a->mine == b->mine && a->has_value == b->has_value &&
           a->has_note == b->has_note && a->has_state == b->has_state && a->fence == b->fence &&
           a->init == b->init && a->max == b->max && bytes_equal(a->pool, b->pool) &&
           bytes_equal(a->member, b->member) && bytes_equal(a->value, b->value) &&
           bytes_equal(a->note, b->note) && bytes_equal(a->state, b->state) &&
           a->target_count == b->target_count && a->pair_count == b->pair_count &&
           same_targets(a->targets, b->targets, a->target_count) &&
           same_pairs(a->pairs, b->pairs, a->pair_count);
}

size_t pool_compose_request(const struct pool_request *req, uint8_t *to, size_t room)
{
    if ((size_t)req->verb >= POOL_VERB_COUNT || req->target_count > POOLS_TARGETS_MAX ||
        req->pair_count > POOLS_OPTIONS_MAX)
        return 0;
    struct out out = {.to = to, .room = room};
    put_bytes(&out, verb_words[req->verb]);
    verbs[req->verb].write(&out, req);
    size_t len = end_line(&out);
    struct pool_request again;
    if (len == 0 || pool_parse_request(bytes_at(to, len - 1), &again) != POOL_PARSED)
        return 0;
    return same_request(req, &again) ? len : 0;
}

/* ---- Members files -------------------------------------------------------------------------- */

static bool read_member_word(struct bytes word, bool *has_note, struct pool_member_line *line_r)
{
    struct pool_pair pair;
    if (!pair_split(word, &pair))
        return false;
    if (word_is(pair.key, "state")) {
        bool first = !line_r->down;
        line_r->down = true;
        return first && word_is(pair.value, "down");
    }
    if (word_is(pair.key, "note")) {
        bool first = !*has_note;
        *has_note = true;
        line_r->note = pair.value;
        return first && pair.value.len <= POOLS_NOTE_MAX;
    }
    return read_attribute(word, line_r->attrs, &line_r->attr_count);
}

bool pool_parse_member(struct bytes line, struct pool_member_line *line_r)
{
    struct words words = words_of(line);
    memset(line_r, 0, offsetof(struct pool_member_line, attrs));
    line_r->name = words_next(&words);
    if (!is_member_name(line_r->name) || line_r->name.data != line.data ||
        !read_value(words_next(&words), &line_r->value))
        return false;
    bool has_note = false;
    for (struct bytes word; (word = words_next(&words)).len > 0;) {
        if (!read_member_word(word, &has_note, line_r))
            return false;
    }
    return words_at_end(words);
}
