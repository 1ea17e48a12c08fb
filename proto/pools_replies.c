/*
 * pools_replies.c - composes and parses the replies to the verbs of pools, and the lines that come
 * between them.
 *
 * The server composes what it has checked before; so nothing is checked here. Clients parse:
 * unknown words at the end are ignored, because a later server may have more of them.
 */
#include "proto/pools.h"

#include "base/check.h"
#include "proto/grammar.h"

/* ---- Rows ------------------------------------------------------------------------------------ */

/* clang-format off */

#define WORD(member)     {BYTES(member, 1, SIZE_MAX)}
#define IF(text, member) {BYTES(member, 0, SIZE_MAX), KEY(text), .flags = PART_OPTIONAL}
#define SINCE            {MEMBER(MILLIS, since_ns), .max = INT64_MAX}
#define ALL(pairs, count, most)                                                                    \
    PAIRS(pairs, count), .max = (most), .flags = PART_ANY_ORDER | PART_OTHERS

#define OF struct pool_taken_reply
#define TAKEN_ATTRS 4
static const struct part taken_parts[] = {
    WORD(pool),
    WORD(member),
    {U64(fence), .flags = PART_20_DIGITS},
    {BYTES(value, 1, SIZE_MAX), .none = "-"},
    {ALL(attrs, attr_count, POOLS_ATTRS_MAX), .good = pool_is_attribute},
    {.kind = PART_END},
};
#undef OF

#define OF struct pool_want_reply
static const struct part want_parts[] = {WORD(pool), {U32(want)}, {.kind = PART_END}};
#undef OF

#define OF struct pool_stop_reply
static const struct part stop_parts[] = {WORD(pool), WORD(member), WORD(why), {.kind = PART_END}};
#undef OF

#define OF struct pool_event_reply
static const struct part event_parts[] = {
    WORD(pool),
    WORD(member),
    WORD(from),
    WORD(to),
    WORD(why),
    {U64(fence), KEY("fence="), .flags = PART_OPTIONAL | PART_20_DIGITS},
    {BYTES(conn, 0, SIZE_MAX), KEY("conn="), .flags = PART_OPTIONAL | PART_CLIENT},
    IF("by=", by),
    {.kind = PART_END},
};
#undef OF

#define OF struct pool_pool_reply
static const struct part pool_parts[] = {
    WORD(name),
    WORD(kind),
    {FLAG(draining, "open", "draining")},
    {BYTES(group, 0, SIZE_MAX), KEY("group="), .none = "-"},
#define ROW(name) {U32(name), KEY(#name "=")},
    POOL_COUNTS(ROW)
#undef ROW
    {U32(want), KEY("want="), HAS(has_want, 1), .none = "-"},
    {ALL(options, option_count, POOLS_OPTIONS_MAX)},
    {.kind = PART_END},
};
#undef OF

/* An empty note keeps an attribute with the name of a part from being read as that part. */
static void write_note(struct out *out, const void *message)
{
    const struct pool_member_reply *member = message;
    bool ambiguous = member->attr_count > 0 &&
                     (word_is(member->attrs[0].key, "then") || word_is(member->attrs[0].key, "by"));
    if (member->note.len == 0 && !ambiguous)
        return;
    put_text(out, " note=");
    put_bytes(out, member->note);
}

#define OF struct pool_member_reply
static const struct part member_parts[] = {
    WORD(name),
    WORD(state),
    SINCE,
    {U64(fence), .flags = PART_20_DIGITS, .none = "-"},
    {BYTES(holder, 1, SIZE_MAX), .flags = PART_CLIENT, .none = "-"},
    {U64(takes), KEY("takes=")},
    {U64(fails), KEY("fails=")},
    IF("then=", then),
    IF("by=", by),
    {BYTES(note, 0, SIZE_MAX), KEY("note="), .flags = PART_OPTIONAL, .write = write_note},
    {ALL(attrs, attr_count, POOLS_ATTRS_MAX), .good = pool_is_attribute},
    {.kind = PART_END},
};
#undef OF

#define OF struct pool_waiter_reply
static const struct part waiter_parts[] = {
    {BYTES(client, 1, SIZE_MAX), .flags = PART_CLIENT},
    SINCE,
    {MEMBER(SECONDS, timeout_ns), .max = POOLS_TIMEOUT_MAX_NS},
    {U32(count), KEY("count=")},
    {MEMBER(WORD, take_for), .words = pool_take_for_words, .max = POOL_TAKE_FOR_CHECK, KEY("for=")},
    IF("member=", member),
    {PAIRS(with, with_count), .max = POOLS_WITH_MAX, KEY("with="), .flags = PART_ANY_ORDER},
    IF("by=", by),
    {.kind = PART_END},
};
#undef OF

#define ONE_WORD  {.kind = PART_BYTES, .min = 1, .max = SIZE_MAX}
#define BAD_VALUE {.kind = PART_TEXT, KEY("BAD_VALUE")}
#define LOST      {.kind = PART_U64, .max = UINT64_MAX}

/* The replies with parts. Those with pairs are zero up to these before they are read. */
static const struct reply_row {
    struct bytes word;
    const struct part *parts;
    size_t zeroed;
} rows[] = {
#define ROW(name, word, zeroed, parts)                                                             \
    [POOL_REPLY_##name - POOL_REPLY_FIXED] = {BYTES_OF_LITERAL(word), parts, zeroed},
    ROW(BAD_VALUE, "ERROR", sizeof(struct bytes), PARTS(BAD_VALUE, ONE_WORD))
    ROW(TAKEN, "TAKEN", offsetof(struct pool_taken_reply, attrs), taken_parts)
    ROW(WANT, "WANT", sizeof(struct pool_want_reply), want_parts)
    ROW(STOP, "STOP", sizeof(struct pool_stop_reply), stop_parts)
    ROW(LOST, "LOST", sizeof(uint64_t), PARTS(LOST))
    ROW(EVENT, "EVENT", sizeof(struct pool_event_reply), event_parts)
    ROW(POOL, "POOL", offsetof(struct pool_pool_reply, options), pool_parts)
    ROW(MEMBER, "MEMBER", offsetof(struct pool_member_reply, attrs), member_parts)
    ROW(WAITER, "WAITER", offsetof(struct pool_waiter_reply, with), waiter_parts)
#undef ROW
};

/* clang-format on */

static const struct bytes reply_lines[POOL_REPLY_FIXED + 1] = {
#define ROW(name, word) [POOL_REPLY_##name] = BYTES_OF_LITERAL(word "\n"),
    POOL_REPLIES(ROW)
#undef ROW
        [POOL_REPLY_FIXED] = BYTES_OF_LITERAL(""),
};

/* ---- Replies, written ------------------------------------------------------------------------ */

struct bytes pool_reply_line(enum pool_reply reply)
{
    return reply_lines[(size_t)reply < POOL_REPLY_FIXED ? reply : POOL_REPLY_FIXED];
}

static size_t compose(enum pool_reply reply, const void *message, uint8_t *to, size_t room)
{
    const struct reply_row *row = &rows[reply - POOL_REPLY_FIXED];
    struct out out = {.to = to, .room = room};
    put_bytes(&out, row->word);
    grammar_write(row->parts, &out, message);
    put_byte(&out, '\n');
    return out_length(&out);
}

size_t pool_taken_room(const struct pool_taken_reply *taken)
{
    size_t value = taken->value.len > 0 ? taken->value.len : 1;
    size_t room = 30 + taken->pool.len + taken->member.len + value;
    for (size_t i = 0; i < taken->attr_count; i++)
        room += 2 + taken->attrs[i].key.len + taken->attrs[i].value.len;
    return room;
}

/* Without the walk, because it is sent most often. */
size_t pool_compose_taken(const struct pool_taken_reply *taken, uint8_t *to, size_t room)
{
    struct out out = {.to = to, .room = room};
    put_text(&out, "TAKEN ");
    put_bytes(&out, taken->pool);
    put_byte(&out, ' ');
    put_bytes(&out, taken->member);
    put_byte(&out, ' ');
    put_number(&out, taken->fence, 1);
    put_byte(&out, ' ');
    put_bytes(&out, taken->value.len > 0 ? taken->value : bytes_at("-", 1));
    grammar_write(&taken_parts[TAKEN_ATTRS], &out, taken);
    put_byte(&out, '\n');
    return out_length(&out);
}

size_t pool_compose_bad_value(struct bytes name, uint8_t *to, size_t room)
{
    return compose(POOL_REPLY_BAD_VALUE, &name, to, room);
}

size_t pool_compose_lost(uint64_t lost, uint8_t *to, size_t room)
{
    return compose(POOL_REPLY_LOST, &lost, to, room);
}

#define COMPOSER(name, NAME)                                                                       \
    size_t pool_compose_##name(const struct pool_##name##_reply *reply, uint8_t *to, size_t room)  \
    {                                                                                              \
        return compose(POOL_REPLY_##NAME, reply, to, room);                                        \
    }
COMPOSER(want, WANT)
COMPOSER(stop, STOP)
COMPOSER(event, EVENT)
COMPOSER(pool, POOL)
COMPOSER(member, MEMBER)
COMPOSER(waiter, WAITER)

/* ---- Replies, read --------------------------------------------------------------------------- */

/* True when no word has a byte that words cannot have. */
static bool is_line(struct words words)
{
    do
        words_skip_spaces(&words);
    while (words_take(&words).len > 0);
    return words.at == words.end;
}

/* True when the line is `text`, perhaps with more words. */
static bool begins_with_words(struct bytes line, struct bytes text)
{
    return bytes_equal(line, text) ||
           (text.len > 0 && bytes_begin_with(line, text) && line.data[text.len] == ' ');
}

static bool parse(struct bytes line, const struct reply_row *row, struct pool_answer *answer_r)
{
    if (!begins_with_words(line, row->word))
        return false;
    struct words words = {line.data + row->word.len, line.data + line.len};
    memset(&answer_r->taken, 0, row->zeroed);
    return grammar_read(row->parts, &words, &answer_r->taken);
}

void pool_parse_reply(struct bytes line, struct pool_answer *answer_r)
{
    size_t i = 0;
    answer_r->reply = POOL_REPLY_OTHER;
    if (!is_line(words_of(line)))
        return;
    for (; i < POOL_REPLY_FIXED; i++) {
        struct bytes text = reply_lines[i];
        text.len--; /* without the line end */
        if (begins_with_words(line, text))
            break;
    }
    while (i >= POOL_REPLY_FIXED && i < POOL_REPLY_OTHER &&
           !parse(line, &rows[i - POOL_REPLY_FIXED], answer_r))
        i++;
    answer_r->reply = (enum pool_reply)i;
}
