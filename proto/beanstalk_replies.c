/*
 * beanstalk_replies.c - composes and parses the answers of job queues, their lists and
 * dictionaries.
 *
 * Each answer is a row: its word and its parts, in order. Both directions follow it. The server
 * composes what it has checked before; so nothing is checked here.
 */
#include "proto/beanstalk.h"

#include "base/check.h"
#include "proto/grammar.h"

/* ---- Rows ------------------------------------------------------------------------------------ */

/* clang-format off */
#define OF struct bs_reply
#define ID         {U64(id)}
#define BODY_LEN   {U32(body_len), HAS(has_body, 1)}
#define NUMBER     {U64(count)}
#define NEXT       {U64(next)}
#define TOKEN      {U64(token)}
#define TUBE       {BYTES(tube, 1, BS_TUBE_MAX), .good = bs_is_tube_name, .flags = PART_ONE_SPACE}
#define STATE      {MEMBER(WORD, state), .words = bs_state_words, .min = 1, .max = BS_STATE_ALL - 1}
#define TRY        {MEMBER(U64, try), .max = UINT32_MAX}
#define REASON     {BYTES(reason, 1, SIZE_MAX), .flags = PART_ONE_SPACE | PART_REST}

static const struct answer_row {
    struct bytes word;
    const struct part *parts;
} answers[BS_ANSWER_COUNT] = {
#define ROW(name, word, ...) [BS_ANSWER_##name] = {BYTES_OF_LITERAL(word), PARTS(__VA_ARGS__)},
    BS_ANSWERS(ROW)
    ROW(INSERTED, "INSERTED", ID)
    ROW(RESERVED, "RESERVED", ID, BODY_LEN)
    ROW(CLAIMED_JOB, "RESERVED", ID, BODY_LEN, TOKEN, TUBE, TRY)
    ROW(FOUND, "FOUND", ID, BODY_LEN)
    ROW(LISTED_JOB, "FOUND", ID, BODY_LEN, STATE, TRY)
    ROW(UNREADABLE_JOB, "UNREADABLE", ID, STATE, TRY)
    ROW(OK, "OK", BODY_LEN)
    ROW(USING, "USING", TUBE)
    ROW(WATCHING, "WATCHING", NUMBER)
    ROW(KICKED, "KICKED", NUMBER)
    ROW(DUPLICATE, "DUPLICATE", ID)
    ROW(CLAIMED, "CLAIMED", NUMBER)
    ROW(LISTED, "LISTED", NUMBER, NEXT)
    ROW(CLEARED, "CLEARED", NUMBER)
    ROW(READ_ONLY, "READ_ONLY", REASON)
    ROW(PUT_BURIED, "BURIED", ID)
#undef ROW
};
/* clang-format on */

struct bytes bs_answer_line(enum bs_answer answer)
{
    static const struct bytes lines[BS_ANSWER_FIXED + 1] = {
#define ROW(name, text) [BS_ANSWER_##name] = BYTES_OF_LITERAL(text "\r\n"),
        BS_ANSWERS(ROW)
#undef ROW
            [BS_ANSWER_FIXED] = BYTES_OF_LITERAL(""),
    };
    return lines[(size_t)answer < BS_ANSWER_FIXED ? answer : BS_ANSWER_FIXED];
}

/* ---- Answers, written ------------------------------------------------------------------------ */

size_t bs_compose_reply(const struct bs_reply *reply, uint8_t *to, size_t room)
{
    struct out out = {.to = to, .room = room};
    if ((size_t)reply->answer >= BS_ANSWER_COUNT)
        return 0;
    put_bytes(&out, answers[reply->answer].word);
    grammar_write(answers[reply->answer].parts, &out, reply);
    return end_crlf(&out);
}

/* ---- Answers, read --------------------------------------------------------------------------- */

bool bs_parse_reply_line(struct bytes line, struct bs_reply *reply_r)
{
    const uint8_t *space = line.len > 0 ? memchr(line.data, ' ', line.len) : NULL;
    struct bytes word = bytes_at(line.data, space ? (size_t)(space - line.data) : line.len);
    for (enum bs_answer i = 0; i < BS_ANSWER_COUNT; i++) {
        if (!bytes_equal(word, answers[i].word))
            continue;
        struct words words = words_of(bytes_at(space, line.len - word.len));
        *reply_r = (struct bs_reply){.answer = i};
        if (grammar_read(answers[i].parts, &words, reply_r) && words.at == words.end)
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

/* ---- Lists and dictionaries, written --------------------------------------------------------- */

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

/* ---- Lists and dictionaries, read ------------------------------------------------------------ */

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
