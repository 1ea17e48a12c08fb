/*
 * pools_replies.c - composes and parses the replies to the verbs of pools, and the lines that come
 * between them.
 *
 * The server composes what it has checked before; so nothing is checked here. Clients parse:
 * unknown words at the end are ignored, because a later server may have more of them.
 */
#include "proto/pools.h"

#include "base/check.h"
#include "base/clock.h"
#include "proto/pools_parts.h"

/* ---- Replies, written ----------------------------------------------------------------------- */

static const struct bytes reply_lines[POOL_REPLY_FIXED + 1] = {
#define ROW(name, word) [POOL_REPLY_##name] = BYTES_OF_LITERAL(word "\n"),
    POOL_REPLIES(ROW)
#undef ROW
        [POOL_REPLY_FIXED] = BYTES_OF_LITERAL(""),
};

struct bytes pool_reply_line(enum pool_reply reply)
{
    return reply_lines[(size_t)reply < POOL_REPLY_FIXED ? reply : POOL_REPLY_FIXED];
}

/* Writes the first word of a line into an empty buffer. */
static struct out begin_line(uint8_t *to, size_t room, const char *word)
{
    struct out out = {.to = to, .room = room};
    put_text(&out, word);
    return out;
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

/* Writes " N.NNN": seconds, rounded down. */
static void put_elapsed(struct out *out, int64_t ns)
{
    uint64_t ms = ns > 0 ? (uint64_t)(ns / NS_PER_MS) : 0;
    put_word_number(out, ms / 1000);
    put_byte(out, '.');
    put_number(out, ms % 1000, 3);
}

size_t pool_compose_bad_value(struct bytes name, uint8_t *to, size_t room)
{
    struct out out = begin_line(to, room, "ERROR BAD_VALUE");
    put_word(&out, name);
    return end_line(&out);
}

size_t pool_compose_taken(const struct pool_taken_reply *taken, uint8_t *to, size_t room)
{
    struct out out = begin_line(to, room, "TAKEN");
    put_word(&out, taken->pool);
    put_word(&out, taken->member);
    put_word_number(&out, taken->fence);
    put_word_or_dash(&out, taken->value);
    put_pairs(&out, "", taken->attrs, taken->attr_count);
    return end_line(&out);
}

size_t pool_taken_room(const struct pool_taken_reply *taken)
{
    size_t value = taken->value.len > 0 ? taken->value.len : 1;
    size_t room = 30 + taken->pool.len + taken->member.len + value;
    for (size_t i = 0; i < taken->attr_count; i++)
        room += 2 + taken->attrs[i].key.len + taken->attrs[i].value.len;
    return room;
}

size_t pool_compose_want(const struct pool_want_reply *want, uint8_t *to, size_t room)
{
    struct out out = begin_line(to, room, "WANT");
    put_word(&out, want->pool);
    put_word_number(&out, want->want);
    return end_line(&out);
}

size_t pool_compose_stop(const struct pool_stop_reply *stop, uint8_t *to, size_t room)
{
    struct out out = begin_line(to, room, "STOP");
    put_word(&out, stop->pool);
    put_word(&out, stop->member);
    put_word(&out, stop->why);
    return end_line(&out);
}

size_t pool_compose_lost(uint64_t lost, uint8_t *to, size_t room)
{
    struct out out = begin_line(to, room, "LOST");
    put_word_number(&out, lost);
    return end_line(&out);
}

size_t pool_compose_event(const struct pool_event_reply *event, uint8_t *to, size_t room)
{
    struct out out = begin_line(to, room, "EVENT");
    put_word(&out, event->pool);
    put_word(&out, event->member);
    put_word(&out, event->from);
    put_word(&out, event->to);
    put_word(&out, event->why);
    if (event->fence != 0)
        put_key_number(&out, "fence=", event->fence);
    if (event->conn.len > 0) {
        put_word_text(&out, "conn=");
        put_client(&out, event->conn);
    }
    put_key_if(&out, "by=", event->by);
    return end_line(&out);
}

size_t pool_compose_pool(const struct pool_pool_reply *pool, uint8_t *to, size_t room)
{
    struct out out = begin_line(to, room, "POOL");
    put_word(&out, pool->name);
    put_word(&out, pool->kind);
    put_word_text(&out, pool->draining ? "draining" : "open");
    put_key(&out, "group=", pool->group.len > 0 ? pool->group : bytes_of("-"));
#define ROW(name) put_key_number(&out, #name "=", pool->name);
    POOL_COUNTS(ROW)
#undef ROW
    if (pool->has_want)
        put_key_number(&out, "want=", pool->want);
    else
        put_word_text(&out, "want=-");
    put_pairs(&out, "", pool->options, pool->option_count);
    return end_line(&out);
}

size_t pool_compose_member(const struct pool_member_reply *member, uint8_t *to, size_t room)
{
    struct out out = begin_line(to, room, "MEMBER");
    put_word(&out, member->name);
    put_word(&out, member->state);
    put_elapsed(&out, member->since_ns);
    if (member->fence != 0)
        put_word_number(&out, member->fence);
    else
        put_word_text(&out, "-");
    put_byte(&out, ' ');
    put_client(&out, member->holder.len > 0 ? member->holder : bytes_of("-"));
    put_key_number(&out, "takes=", member->takes);
    put_key_number(&out, "fails=", member->fails);
    put_key_if(&out, "then=", member->then);
    put_key_if(&out, "by=", member->by);
    /* An empty note keeps an attribute with the name of a part from being read as that part. */
    bool ambiguous = member->attr_count > 0 &&
                     (word_is(member->attrs[0].key, "then") || word_is(member->attrs[0].key, "by"));
    if (member->note.len > 0 || ambiguous)
        put_key(&out, "note=", member->note);
    put_pairs(&out, "", member->attrs, member->attr_count);
    return end_line(&out);
}

size_t pool_compose_waiter(const struct pool_waiter_reply *waiter, uint8_t *to, size_t room)
{
    struct out out = begin_line(to, room, "WAITER ");
    put_client(&out, waiter->client);
    put_elapsed(&out, waiter->since_ns);
    put_byte(&out, ' ');
    put_seconds(&out, waiter->timeout_ns);
    put_key_number(&out, "count=", waiter->count);
    put_take_for(&out, waiter->take_for);
    put_key_if(&out, "member=", waiter->member);
    put_pairs(&out, "with=", waiter->with, waiter->with_count);
    put_key_if(&out, "by=", waiter->by);
    return end_line(&out);
}

/* ---- Replies, read -------------------------------------------------------------------------- */

/* Takes a word that must be there. */
static bool take_word(struct words *words, struct bytes *word_r)
{
    *word_r = words_next(words);
    return word_r->len > 0;
}

/* Takes "key=value" if it is next; else *value_r is empty. */
static bool take_key(struct words *words, const char *key, struct bytes *value_r)
{
    struct words rest = *words;
    struct pool_pair pair;
    *value_r = (struct bytes){0};
    if (!pair_split(words_next(&rest), &pair) || !word_is(pair.key, key))
        return false;
    *value_r = pair.value;
    *words = rest;
    return true;
}

static bool take_key_u32(struct words *words, const char *key, uint32_t *value_r)
{
    struct bytes text;
    return take_key(words, key, &text) && read_u32(text, value_r);
}

static bool take_key_u64(struct words *words, const char *key, uint64_t *value_r)
{
    struct bytes text;
    return take_key(words, key, &text) && read_u64(text, value_r);
}

static bool take_elapsed(struct words *words, int64_t *ns_r)
{
    return read_seconds(words_next(words), INT64_MAX, ns_r);
}

/* Takes all words that are left. Keeps those that are attributes, and ignores the others. */
static void take_attributes(struct words *words, struct pool_pair *attrs, size_t *count)
{
    for (struct bytes word; take_word(words, &word);)
        (void)read_attribute(word, attrs, count);
}

static bool parse_bad_value(struct words *words, struct pool_answer *answer_r)
{
    return word_is(words_next(words), "BAD_VALUE") && take_word(words, &answer_r->bad_value);
}

static bool parse_taken(struct words *words, struct pool_answer *answer_r)
{
    struct pool_taken_reply *taken = &answer_r->taken;
    struct bytes value;
    if (!take_word(words, &taken->pool) || !take_word(words, &taken->member) ||
        !read_fence(words_next(words), &taken->fence) || !take_word(words, &value))
        return false;
    taken->value = unless_dash(value);
    taken->attr_count = 0;
    take_attributes(words, taken->attrs, &taken->attr_count);
    return true;
}

static bool parse_want(struct words *words, struct pool_answer *answer_r)
{
    struct pool_want_reply *want = &answer_r->want;
    return take_word(words, &want->pool) && read_u32(words_next(words), &want->want);
}

static bool parse_stop(struct words *words, struct pool_answer *answer_r)
{
    struct pool_stop_reply *stop = &answer_r->stop;
    return take_word(words, &stop->pool) && take_word(words, &stop->member) &&
           take_word(words, &stop->why);
}

static bool parse_lost(struct words *words, struct pool_answer *answer_r)
{
    return read_u64(words_next(words), &answer_r->lost);
}

static bool parse_event(struct words *words, struct pool_answer *answer_r)
{
    struct pool_event_reply *event = &answer_r->event;
    struct bytes fence;
    if (!take_word(words, &event->pool) || !take_word(words, &event->member) ||
        !take_word(words, &event->from) || !take_word(words, &event->to) ||
        !take_word(words, &event->why))
        return false;
    event->fence = 0;
    if (take_key(words, "fence", &fence) && !read_fence(fence, &event->fence))
        return false;
    (void)take_key(words, "conn", &event->conn);
    (void)take_key(words, "by", &event->by);
    return true;
}

static bool parse_pool(struct words *words, struct pool_answer *answer_r)
{
    struct pool_pool_reply *pool = &answer_r->pool;
    struct bytes open, group, want;
    if (!take_word(words, &pool->name) || !take_word(words, &pool->kind) ||
        !take_word(words, &open) || !take_key(words, "group", &group))
        return false;
    pool->draining = word_is(open, "draining");
    pool->group = unless_dash(group);
    if (!pool->draining && !word_is(open, "open"))
        return false;
#define ROW(name)                                                                                  \
    if (!take_key_u32(words, #name, &pool->name))                                                  \
        return false;
    POOL_COUNTS(ROW)
#undef ROW
    if (!take_key(words, "want", &want))
        return false;
    pool->has_want = !word_is(want, "-");
    pool->want = 0;
    if (pool->has_want && !read_u32(want, &pool->want))
        return false;
    pool->option_count = 0;
    for (struct bytes word; take_word(words, &word);) {
        struct pool_pair option;
        if (pair_split(word, &option))
            (void)pair_add(pool->options, &pool->option_count, POOLS_OPTIONS_MAX, option);
    }
    return true;
}

static bool parse_member(struct words *words, struct pool_answer *answer_r)
{
    struct pool_member_reply *member = &answer_r->member;
    struct bytes fence, holder;
    if (!take_word(words, &member->name) || !take_word(words, &member->state) ||
        !take_elapsed(words, &member->since_ns) || !take_word(words, &fence) ||
        !take_word(words, &holder) || !take_key_u64(words, "takes", &member->takes) ||
        !take_key_u64(words, "fails", &member->fails))
        return false;
    member->fence = 0;
    if (!word_is(fence, "-") && !read_fence(fence, &member->fence))
        return false;
    member->holder = unless_dash(holder);
    (void)take_key(words, "then", &member->then);
    (void)take_key(words, "by", &member->by);
    (void)take_key(words, "note", &member->note);
    member->attr_count = 0;
    take_attributes(words, member->attrs, &member->attr_count);
    return true;
}

static bool parse_waiter(struct words *words, struct pool_answer *answer_r)
{
    struct pool_waiter_reply *waiter = &answer_r->waiter;
    struct bytes take_for, with;
    if (!take_word(words, &waiter->client) || !take_elapsed(words, &waiter->since_ns) ||
        !read_seconds(words_next(words), POOLS_TIMEOUT_MAX_NS, &waiter->timeout_ns) ||
        !take_key_u32(words, "count", &waiter->count) || !take_key(words, "for", &take_for) ||
        !read_take_for(take_for, &waiter->take_for))
        return false;
    (void)take_key(words, "member", &waiter->member);
    waiter->with_count = 0;
    while (take_key(words, "with", &with)) {
        struct pool_pair pair;
        if (!pair_split(with, &pair) ||
            !pair_add(waiter->with, &waiter->with_count, POOLS_WITH_MAX, pair))
            return false;
    }
    (void)take_key(words, "by", &waiter->by);
    return true;
}

/* The replies with parts: first word, and parser of the others. */
static const struct reply_row {
    const char *word;
    enum pool_reply reply;
    bool (*parse)(struct words *words, struct pool_answer *answer_r);
} reply_rows[] = {
    {"TAKEN", POOL_REPLY_TAKEN, parse_taken},
    {"WANT", POOL_REPLY_WANT, parse_want},
    {"STOP", POOL_REPLY_STOP, parse_stop},
    {"LOST", POOL_REPLY_LOST, parse_lost},
    {"EVENT", POOL_REPLY_EVENT, parse_event},
    {"POOL", POOL_REPLY_POOL, parse_pool},
    {"MEMBER", POOL_REPLY_MEMBER, parse_member},
    {"WAITER", POOL_REPLY_WAITER, parse_waiter},
    {"ERROR", POOL_REPLY_BAD_VALUE, parse_bad_value},
};

/* True when no word has a byte that words cannot have. */
static bool is_line(struct words words)
{
    while (words_next(&words).len > 0)
        continue;
    return words_at_end(words);
}

/* True when the line is `text`, perhaps with more words. */
static bool begins_with_words(struct bytes line, struct bytes text)
{
    return bytes_equal(line, text) ||
           (text.len > 0 && bytes_begin_with(line, text) && line.data[text.len] == ' ');
}

/* Returns the reply of fixed text that the line is, or POOL_REPLY_FIXED if there is none. */
static enum pool_reply fixed_reply(struct bytes line)
{
    size_t i = 0;
    for (; i < POOL_REPLY_FIXED; i++) {
        struct bytes text = reply_lines[i];
        text.len--; /* without the line end */
        if (begins_with_words(line, text))
            break;
    }
    return (enum pool_reply)i;
}

static enum pool_reply parse_parts(struct bytes line, struct words words,
                                   struct pool_answer *answer_r)
{
    struct bytes first = words_next(&words);
    for (size_t i = 0; i < ARRAY_SIZE(reply_rows); i++) {
        const struct reply_row *row = &reply_rows[i];
        if (first.data == line.data && word_is(first, row->word))
            return row->parse(&words, answer_r) ? row->reply : POOL_REPLY_OTHER;
    }
    return POOL_REPLY_OTHER;
}

void pool_parse_reply(struct bytes line, struct pool_answer *answer_r)
{
    struct words words = words_of(line);
    answer_r->reply = POOL_REPLY_OTHER;
    if (!is_line(words))
        return;
    answer_r->reply = fixed_reply(line);
    if (answer_r->reply == POOL_REPLY_FIXED)
        answer_r->reply = parse_parts(line, words, answer_r);
}
