/*
 * beanstalk_replies.c - composes and parses the answers of job queues, their lists and
 * dictionaries.
 *
 * Each answer with parts is a row: its word and its parts, in order. Both directions follow it. The
 * server composes what it has checked before; so nothing is checked here.
 */
#include "proto/beanstalk.h"

#include "base/check.h"
#include "proto/beanstalk_parts.h"

/* ---- Rows ----------------------------------------------------------------------------------- */

enum part { END, ID, BODY_LEN, COUNT, NEXT, TOKEN, TUBE, STATE, TRY, REASON };

static const struct answer_row {
    enum bs_answer answer;
    struct bytes word;
    enum part parts[6]; /* END after the last */
} answers[] = {
#define PARTS(name, word, ...)                                                                     \
    {                                                                                              \
        BS_ANSWER_##name, BYTES_OF_LITERAL(word),                                                  \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
    PARTS(INSERTED, "INSERTED", ID),
    PARTS(RESERVED, "RESERVED", ID, BODY_LEN),
    PARTS(CLAIMED_JOB, "RESERVED", ID, BODY_LEN, TOKEN, TUBE, TRY),
    PARTS(FOUND, "FOUND", ID, BODY_LEN),
    PARTS(LISTED_JOB, "FOUND", ID, BODY_LEN, STATE, TRY),
    PARTS(UNREADABLE_JOB, "UNREADABLE", ID, STATE, TRY),
    PARTS(OK, "OK", BODY_LEN),
    PARTS(USING, "USING", TUBE),
    PARTS(WATCHING, "WATCHING", COUNT),
    PARTS(KICKED, "KICKED", COUNT),
    PARTS(DUPLICATE, "DUPLICATE", ID),
    PARTS(CLAIMED, "CLAIMED", COUNT),
    PARTS(LISTED, "LISTED", COUNT, NEXT),
    PARTS(CLEARED, "CLEARED", COUNT),
    PARTS(READ_ONLY, "READ_ONLY", REASON),
    PARTS(PUT_BURIED, "BURIED", ID),
#undef PARTS
};
_Static_assert(ARRAY_SIZE(answers) == BS_ANSWER_COUNT - BS_ANSWER_FIXED, "a row for each answer");

static const struct bytes fixed_lines[BS_ANSWER_FIXED + 1] = {
#define ROW(name, text) [BS_ANSWER_##name] = BYTES_OF_LITERAL(text "\r\n"),
    BS_ANSWERS(ROW)
#undef ROW
        [BS_ANSWER_FIXED] = BYTES_OF_LITERAL(""),
};

struct bytes bs_answer_line(enum bs_answer answer)
{
    return fixed_lines[(size_t)answer < BS_ANSWER_FIXED ? answer : BS_ANSWER_FIXED];
}

/* ---- Answers, written ----------------------------------------------------------------------- */

static void put_part(struct out *out, enum part part, const struct bs_reply *reply)
{
    switch (part) {
    case END:
        break;
    case ID:
        put_next_number(out, reply->id);
        break;
    case BODY_LEN:
        put_next_number(out, reply->body_len);
        break;
    case COUNT:
        put_next_number(out, reply->count);
        break;
    case NEXT:
        put_next_number(out, reply->next);
        break;
    case TOKEN:
        put_next_number(out, reply->token);
        break;
    case TUBE:
        put_next_word(out, reply->tube);
        break;
    case STATE:
        put_next_word(out, bs_state_word(reply->state));
        break;
    case TRY:
        put_next_number(out, reply->try);
        break;
    case REASON:
        put_next_word(out, reply->reason);
        break;
    }
}

size_t bs_compose_reply(const struct bs_reply *reply, uint8_t *to, size_t room)
{
    struct out out = {.to = to, .room = room};
    if ((size_t)reply->answer >= BS_ANSWER_COUNT)
        return 0;
    if (reply->answer < BS_ANSWER_FIXED) {
        put_bytes(&out, fixed_lines[reply->answer]);
        return out_length(&out);
    }
    const struct answer_row *row = &answers[reply->answer - BS_ANSWER_FIXED];
    put_bytes(&out, row->word);
    for (const enum part *part = row->parts; *part != END; part++)
        put_part(&out, *part, reply);
    return end_crlf(&out);
}

/* ---- Answers, read -------------------------------------------------------------------------- */

static bool take_try(struct bytes *in, uint64_t *try_r)
{
    return take_u64(in, try_r) && *try_r <= UINT32_MAX;
}

static bool take_reason(struct bytes *in, struct bytes *reason_r)
{
    if (!bytes_take_text(in, " ") || in->len == 0)
        return false;
    *reason_r = *in;
    *in = bytes_at(in->data + in->len, 0);
    return true;
}

static bool take_part(struct bytes *in, enum part part, struct bs_reply *reply_r)
{
    switch (part) {
    case END:
        break;
    case ID:
        return take_u64(in, &reply_r->id);
    case BODY_LEN:
        reply_r->has_body = true;
        return take_u32(in, UINT32_MAX, &reply_r->body_len);
    case COUNT:
        return take_u64(in, &reply_r->count);
    case NEXT:
        return take_u64(in, &reply_r->next);
    case TOKEN:
        return take_u64(in, &reply_r->token);
    case TUBE:
        return take_next_tube(in, &reply_r->tube);
    case STATE:
        return take_state(in, &reply_r->state) && reply_r->state != BS_STATE_ALL;
    case TRY:
        return take_try(in, &reply_r->try);
    case REASON:
        return take_reason(in, &reply_r->reason);
    }
    return false;
}

/* Parses what follows the row's word. */
static bool parse_parts(struct bytes rest, const struct answer_row *row, struct bs_reply *reply_r)
{
    *reply_r = (struct bs_reply){.answer = row->answer};
    for (const enum part *part = row->parts; *part != END; part++) {
        if (!take_part(&rest, *part, reply_r))
            return false;
    }
    return rest.len == 0;
}

bool bs_parse_reply_line(struct bytes line, struct bs_reply *reply_r)
{
    const uint8_t *space = line.len > 0 ? memchr(line.data, ' ', line.len) : NULL;
    struct bytes word = bytes_at(line.data, space ? (size_t)(space - line.data) : line.len);
    if (!space) {
        for (size_t i = 0; i < BS_ANSWER_FIXED; i++) {
            struct bytes text = bytes_at(fixed_lines[i].data, fixed_lines[i].len - 2);
            if (bytes_equal(word, text)) {
                *reply_r = (struct bs_reply){.answer = (enum bs_answer)i};
                return true;
            }
        }
        return false;
    }
    struct bytes rest = bytes_at(space, line.len - word.len);
    for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
        if (bytes_equal(word, answers[i].word) && parse_parts(rest, &answers[i], reply_r))
            return true;
    }
    return false;
}

enum bs_parsed bs_parse_reply(const uint8_t *data, size_t len, struct bs_reply *reply_r,
                              size_t *used_r)
{
    size_t room = len < BS_REPLY_ROOM ? len : BS_REPLY_ROOM;
    size_t line_len = line_length(bytes_at(data, room));
    *used_r = 0;
    if (line_len == room)
        return len < BS_REPLY_ROOM ? BS_MORE : BS_BAD_FORMAT;
    *used_r = line_len + 2;
    return bs_parse_reply_line(bytes_at(data, line_len), reply_r) ? BS_PARSED : BS_BAD_FORMAT;
}

/* ---- Lists and dictionaries, written -------------------------------------------------------- */

static size_t end_entry(struct out *out)
{
    put_byte(out, '\n');
    return out_length(out);
}

static struct out begin_entry(const char *key, uint8_t *to, size_t room)
{
    struct out out = {.to = to, .room = room};
    put_text(&out, key);
    put_text(&out, ": ");
    return out;
}

size_t bs_compose_item(struct bytes name, uint8_t *to, size_t room)
{
    struct out out = {.to = to, .room = room};
    put_text(&out, "- ");
    put_bytes(&out, name);
    return end_entry(&out);
}

size_t bs_compose_item_put(enum bs_answer answer, uint64_t id, uint8_t *to, size_t room)
{
    struct out out = {.to = to, .room = room};
    put_text(&out, answer == BS_ANSWER_INSERTED ? "- INSERTED " : "- DUPLICATE ");
    put_number(&out, id, 1);
    return end_entry(&out);
}

size_t bs_compose_number(const char *key, uint64_t value, uint8_t *to, size_t room)
{
    struct out out = begin_entry(key, to, room);
    put_number(&out, value, 1);
    return end_entry(&out);
}

size_t bs_compose_micros(const char *key, uint64_t us, uint8_t *to, size_t room)
{
    struct out out = begin_entry(key, to, room);
    put_number(&out, us / 1000000, 1);
    put_byte(&out, '.');
    put_number(&out, us % 1000000, 6);
    return end_entry(&out);
}

size_t bs_compose_word(const char *key, struct bytes value, uint8_t *to, size_t room)
{
    struct out out = begin_entry(key, to, room);
    put_bytes(&out, value);
    return end_entry(&out);
}

size_t bs_compose_quoted(const char *key, struct bytes value, uint8_t *to, size_t room)
{
    struct out out = begin_entry(key, to, room);
    put_byte(&out, '"');
    size_t at = out.len;
    put_bytes(&out, value);
    for (; !out.full && at < out.len; at++) {
        uint8_t byte = to[at];
        if (byte < ' ' || byte > '~' || byte == '"' || byte == '\\')
            to[at] = '_';
    }
    put_byte(&out, '"');
    return end_entry(&out);
}

size_t bs_compose_string(const char *key, struct bytes value, uint8_t *to, size_t room)
{
    return bs_needs_quotes(value) ? bs_compose_quoted(key, value, to, room)
                                  : bs_compose_word(key, value, to, room);
}

size_t bs_compose_ready(struct bytes tube, uint64_t jobs, uint8_t *to, size_t room)
{
    struct out out = {.to = to, .room = room};
    put_byte(&out, '"');
    put_bytes(&out, tube);
    put_text(&out, "\": ");
    put_number(&out, jobs, 1);
    return end_entry(&out);
}

/* ---- Lists and dictionaries, read ----------------------------------------------------------- */

static struct bytes without_quotes(struct bytes word)
{
    if (word.len < 2 || word.data[0] != '"' || word.data[word.len - 1] != '"')
        return word;
    return bytes_at(word.data + 1, word.len - 2);
}

/* Takes a line with its "\n". Returns false when there is no end. */
static bool take_line(struct bytes *text, struct bytes *line_r)
{
    const uint8_t *end = text->len > 0 ? memchr(text->data, '\n', text->len) : NULL;
    if (!end)
        return false;
    size_t len = (size_t)(end - text->data);
    *line_r = bytes_at(text->data, len);
    *text = bytes_at(end + 1, text->len - len - 1);
    return true;
}

bool bs_next_entry(struct bytes *text, struct bs_entry *entry_r)
{
    struct bytes rest = *text, line;
    (void)bytes_take_text(&rest, BS_TEXT_START);
    if (rest.len == 0)
        *text = rest;
    if (!take_line(&rest, &line))
        return false;
    if (bytes_take_text(&line, "- ")) {
        *entry_r = (struct bs_entry){.value = without_quotes(line)};
    } else {
        const uint8_t *mark = line.len > 0 ? memmem(line.data, line.len, ": ", 2) : NULL;
        if (!mark || mark == line.data)
            return false;
        size_t len = (size_t)(mark - line.data);
        *entry_r = (struct bs_entry){
            .key = without_quotes(bytes_at(line.data, len)),
            .value = without_quotes(bytes_at(mark + 2, line.len - len - 2)),
        };
    }
    *text = rest;
    return true;
}
