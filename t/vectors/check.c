/* check.c - see vectors.h. */
#include "t/vectors/vectors.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Errors after which a connection ends. */
static const char *const last_words[] = {"LINE_TOO_LONG", "TOO_LONG", "BAD_MAGIC", "CLOSE", "WEB"};

const struct codec *const codecs[CODECS_MAX] = {
    &text_request,  &text_reply,     &text_stats,   &binary_request, &binary_reply,
    &pools_request, &pools_reply,    &pools_member, &jobs_request,   &jobs_record,
    &jobs_reply,    &jobs_entry,     &jobs_name,    &base_number,    &base_digits,
    &base_seconds,  &base_character, &base_network, &base_allowed,   NULL};

/* ---- Texts ----------------------------------------------------------------------------------- */

static void text_reserve(struct text *text, size_t more)
{
    if (text->len + more < text->room)
        return;
    text->room = (text->len + more + 1) * 2;
    text->data = realloc(text->data, text->room);
    if (!text->data)
        abort();
}

void text_put(struct text *text, const char *data, size_t len)
{
    text_reserve(text, len);
    memcpy(text->data + text->len, data, len);
    text->len += len;
    text->data[text->len] = '\0';
}

void text_add(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *more = NULL;
    int len = vasprintf(&more, format, args);
    va_end(args);
    if (len < 0)
        abort();
    text_put(text, more, (size_t)len);
    free(more);
}

void text_add_bytes(struct text *text, struct bytes bytes)
{
    text_reserve(text, bytes.len * 4);
    char *to = text->data + text->len;
    for (size_t i = 0; i < bytes.len; i++) {
        uint8_t c = bytes.data[i];
        if (c > ' ' && c <= '~' && !strchr("\\;{}=<$", c))
            *to++ = (char)c;
        else
            to += sprintf(to, "\\x%02x", c);
    }
    *to = '\0';
    text->len = (size_t)(to - text->data);
}

void text_clear(struct text *text)
{
    free(text->data);
    *text = (struct text){0};
}

static unsigned hex_digit(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;
    return at ? (unsigned)(at - digits) : 0;
}

size_t text_to_bytes(const char *text, size_t len, uint8_t *to)
{
    static const char letters[] = "nrt0s\\", bytes[] = "\n\r\t\0 \\";
    const char *end = text + len;
    const uint8_t *begin = to;
    bool in_hex = false;
    while (text < end) {
        const char *letter = *text == '\\' && text + 1 < end ? memchr(letters, text[1], 6) : NULL;
        if (*text == '<' || (in_hex && (*text == ' ' || *text == '>'))) {
            in_hex = *text != '>';
            text++;
        } else if (in_hex && text + 1 < end) {
            *to++ = (uint8_t)(hex_digit(text[0]) << 4 | hex_digit(text[1]));
            text += 2;
        } else if (letter) {
            *to++ = (uint8_t)bytes[letter - letters];
            text += 2;
        } else if (*text == '\\' && text + 3 < end && text[1] == 'x') {
            *to++ = (uint8_t)(hex_digit(text[2]) << 4 | hex_digit(text[3]));
            text += 4;
        } else {
            *to++ = (uint8_t)*text++;
        }
    }
    return (size_t)(to - begin);
}

/* ---- Messages -------------------------------------------------------------------------------- */

typedef unsigned __int128 number;

static number load(const uint8_t *at, size_t size)
{
    number value = 0; /* the machine's order of bytes, so that one copy does for all sizes */
    memcpy(&value, at, size < sizeof(value) ? size : sizeof(value));
    return value;
}

static void tell_number(struct text *text, number value)
{
    if (value > UINT64_MAX / 10)
        tell_number(text, value / 10);
    text_add(text, "%" PRIu64, (uint64_t)(value > UINT64_MAX / 10 ? value % 10 : value));
}

/* Without the parts of the body that it is in. */
static const char *field_name(const struct field *field)
{
    const char *dot = strrchr(field->name, '.');
    return dot ? dot + 1 : field->name;
}

static void tell_field(const struct field *field, const uint8_t *body, struct text *text)
{
    const void *at = body + field->at;
    const struct bytes *bytes = at;
    const struct pair *pairs = at;
    size_t count = field->count_at > 0 ? (size_t)load(body + field->count_at, sizeof(size_t)) : 1;
    number value = load(at, field->size), words = 0;
    switch (field->type) {
    case NUMBER:
    case FLAG:
        while (field->words && field->words[words] && words < value)
            words++;
        if (value > 0)
            text_add(text, " %s=", field_name(field));
        if (value > 0 && field->words && field->words[words])
            text_add(text, "%s", field->words[words]);
        else if (value > 0)
            tell_number(text, value);
        break;
    case HIDDEN:
        break;
    case HEX:
        if (value > 0)
            text_add(text, " %s=", field_name(field));
        for (size_t i = 0; value > 0 && i < field->size; i++)
            text_add(text, "%02x", body[field->at + i]);
        break;
    case BYTES:
    case LIST:
        for (size_t i = 0; i < count; i++) {
            if (bytes[i].len > 0 || field->type == LIST) {
                text_add(text, " %s=", field_name(field));
                text_add_bytes(text, bytes[i]);
            }
        }
        break;
    case PAIRS:
        for (size_t i = 0; i < count; i++) {
            text_add(text, " +");
            text_add_bytes(text, pairs[i].key);
            text_add(text, "=");
            text_add_bytes(text, pairs[i].value);
        }
    }
}

static const char *kind_name(const struct codec *codec, size_t kind)
{
    return kind < codec->kind_count ? codec->kinds[kind] : NULL;
}

static const struct field *own_fields(const struct codec *codec, size_t kind)
{
    return codec->own_fields ? codec->own_fields(kind) : NULL;
}

void message_tell(const struct codec *codec, const struct message *message, struct text *text)
{
    const char *name = kind_name(codec, message->kind);
    if (name)
        text_add(text, "%s", name);
    else
        text_add(text, "%zu", message->kind);
    for (const struct field *field = codec->fields; field && field->name; field++)
        tell_field(field, message->body, text);
    for (const struct field *field = own_fields(codec, message->kind); field && field->name;
         field++)
        tell_field(field, message->body, text);
}

/* Reads a number, or one of the field's words. Returns false when it is neither. */
static bool read_number(const struct field *field, const char *text, size_t len, number *value_r)
{
    for (size_t i = 0; field->words && field->words[i]; i++) {
        *value_r = i;
        if (bytes_equal(bytes_at(text, len), bytes_of(field->words[i])))
            return true;
    }
    bool minus = len > 0 && *text == '-', hex = len > 2 && text[1] == 'x';
    unsigned base = hex ? 16 : 10;
    size_t at = hex ? 2 : minus, begin = at;
    for (*value_r = 0; at < len && memchr("0123456789abcdef", text[at], base); at++)
        *value_r = *value_r * base + hex_digit(text[at]);
    *value_r = minus ? -*value_r : *value_r;
    return at > begin && at == len;
}

/* Reads the field "name=value", or "+key=value". Returns false when it is none. */
static bool read_field(const struct field *fields, const char *text, size_t len, struct message *to,
                       uint8_t **memory)
{
    const char *mark = memchr(text, '=', len);
    if (!fields || !mark)
        return false;
    struct bytes name = bytes_at(text, (size_t)(mark - text));
    bool is_pair = *text == '+';
    const struct field *field = fields;
    while (field->name &&
           !(is_pair ? field->type == PAIRS : bytes_equal(name, bytes_of(field_name(field)))))
        field++;
    size_t value_len = len - name.len - 1;
    if (!field->name)
        return false;
    void *at = to->body + field->at;
    size_t *count = (void *)(to->body + field->count_at);
    if (field->type == FLAG || field->type == NUMBER || field->type == HIDDEN) {
        number value;
        if (!read_number(field, mark + 1, value_len, &value))
            return false;
        value = field->type == FLAG ? value != 0 : value;
        memcpy(at, &value, field->size);
        return true;
    }
    size_t key_len = is_pair ? text_to_bytes(text + 1, name.len - 1, *memory) : 0;
    struct bytes key = bytes_at(*memory, key_len);
    *memory += key_len;
    struct bytes value = bytes_at(*memory, text_to_bytes(mark + 1, value_len, *memory));
    *memory += value.len;
    if (field->type == HEX) {
        for (size_t i = 0; i < field->size && 2 * i + 1 < value_len; i++)
            to->body[field->at + i] =
                (uint8_t)(hex_digit(mark[1 + 2 * i]) << 4 | hex_digit(mark[2 + 2 * i]));
    } else if (field->type == BYTES) {
        *(struct bytes *)at = value;
    } else if (field->type == LIST && *count < field->size / sizeof(value)) {
        ((struct bytes *)at)[(*count)++] = value;
    } else if (field->type == PAIRS && *count < field->size / sizeof(struct pair)) {
        ((struct pair *)at)[(*count)++] = (struct pair){key, value};
    } else {
        return false;
    }
    return true;
}

bool message_read(const struct codec *codec, const char *text, size_t len, struct message *to)
{
    memset(to, 0, sizeof(*to));
    const char *end = text + len;
    uint8_t *memory = to->memory = malloc(len + 1);
    if (!memory)
        abort();
    for (bool first = true; text < end; first = false) {
        const char *space = memchr(text, ' ', (size_t)(end - text));
        size_t word = (size_t)((space ? space : end) - text);
        bool good = false;
        for (size_t i = 0; first && !good && i < codec->kind_count; i++) {
            good = codec->kinds[i] && bytes_equal(bytes_of(codec->kinds[i]), bytes_at(text, word));
            to->kind = i;
        }
        if (first && !good && (*text == '-' || (*text >= '0' && *text <= '9'))) {
            number kind;
            good = read_number(&(struct field){0}, text, word, &kind);
            to->kind = (size_t)kind;
        }
        if (!first)
            good = word == 0 || read_field(codec->fields, text, word, to, &memory) ||
                   read_field(own_fields(codec, to->kind), text, word, to, &memory);
        if (!good) {
            free(to->memory);
            return false;
        }
        text += word + (space != NULL);
    }
    return true;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

uint8_t *exact_bytes(const void *data, size_t len)
{
    uint8_t *copy = len > 0 ? malloc(len) : NULL;
    if (!copy && len > 0)
        abort();
    if (len > 0)
        memcpy(copy, data, len);
    return copy;
}

static bool is_last(const char *word)
{
    for (size_t i = 0; i < COUNT_OF(last_words); i++) {
        if (strcmp(word, last_words[i]) == 0)
            return true;
    }
    return false;
}

static const struct codec no_parts;

static void say(const struct codec *codec, const char *word, const struct message *message,
                size_t used, struct text *said)
{
    bool good = strcmp(word, PARSED) == 0, more = strcmp(word, MORE) == 0;
    text_add(said, "%s%s", said->len > 0 ? "; " : "", good ? "" : word);
    if (more && codec->header)
        text_add(said, " %zu", used);
    if (!good && !more && codec->errors_have_parts)
        text_add(said, " ");
    if (good || (!more && codec->errors_have_parts))
        message_tell(codec, message, said);
}

/* How much more of a stream comes next. Only in some places of a long one does each byte matter. */
static size_t next_step(size_t have, size_t len, size_t step)
{
    bool near = have < 300 || len - have < 300 || (have > 8150 && have < 8250);
    return near || len < 1000 || step > 100 ? step : 97;
}

/*
 * Gives the parser a stream in parts of `step` bytes. *said gets all that it says; *early the same
 * without the parts of a last error, of which not all bytes may have come.
 */
static void feed(const struct codec *codec, size_t max_line, struct bytes in, size_t step,
                 struct text *said, struct text *early, bool again)
{
    static struct message message;
    struct stream stream = {.max_line = max_line};
    size_t at = 0, have = step > in.len ? in.len : 0, needed = 0;
    for (bool ends = false; !ends;) {
        size_t used = 77, part_len = have - at;
        uint8_t *part = exact_bytes(in.data + at, part_len);
        memset(&message, 0xee, sizeof(message));
        const char *word = codec->parse(&stream, part, part_len, &message, &used);
        bool parsed = strcmp(word, PARSED) == 0, more = strcmp(word, MORE) == 0;
        bool dropped = strcmp(word, DROPPED) == 0, last = is_last(word);
        if (codec->header && (more || needed > codec->header) && !last) {
            size_t wanted = more && part_len < codec->header ? codec->header : needed;
            if (more ? used <= part_len || (part_len < codec->header && used != wanted)
                     : used != wanted)
                fail("%s needs %zu bytes, not %zu", word, used, wanted);
        } else if (more ? used > 0
                        : used > part_len || (used == 0 && part_len > 0 && !dropped && !last)) {
            fail("%s uses %zu of %zu bytes", word, used, part_len);
        }
        if (last && used > 0 && strcmp(word, "CLOSE") != 0 && strcmp(word, "WEB") != 0)
            fail("%s uses %zu bytes", word, used);
        needed = more ? used : 0;
        for (size_t i = 0; codec->errors_write_nothing && !parsed && i < sizeof(message.body);
             i++) {
            if (message.body[i] != 0xee)
                fail("%s writes a message", word);
        }
        at += more ? 0 : used < part_len ? used : part_len;
        bool waits = more || (dropped && (used == 0 || at == have));
        ends = last || (waits ? have == in.len : at == in.len);
        if ((!waits && !dropped) || (ends && (at < in.len || in.len == 0 || dropped))) {
            say(codec, word, &message, used, said);
            say(last ? &no_parts : codec, word, &message, used, early);
        }
        if (again && codec->compose && parsed)
            (void)check_composed(codec, &message, true, false);
        free(part);
        if (waits && !ends) {
            size_t next = next_step(have, in.len, step);
            have = in.len - have > next ? have + next : in.len;
        }
    }
}

void check_stream(const struct codec *codec, size_t max_line, struct bytes stream, size_t step,
                  bool again, struct text *said)
{
    static const size_t steps[] = {1, 2, 3, 7, 223, 224, 225, 8191, 8192};
    struct text early = {0};
    feed(codec, max_line, stream, SIZE_MAX, said, &early, again);
    for (size_t i = 0; i < (step ? 1 : COUNT_OF(steps)) && !codec->is_whole; i++) {
        struct text in_parts = {0}, ignored = {0};
        size_t length = step ? step : steps[i];
        if (i > 0 && steps[i - 1] > stream.len)
            break;
        feed(codec, max_line, stream, length, &ignored, &in_parts, false);
        if (strcmp(in_parts.data ? in_parts.data : "", early.data ? early.data : "") != 0)
            fail("in parts of %zu: %s; whole: %s", length, in_parts.data ? in_parts.data : "",
                 early.data ? early.data : "");
        text_clear(&in_parts);
        text_clear(&ignored);
    }
    text_clear(&early);
}

struct bytes check_composed(const struct codec *codec, const struct message *message, bool again,
                            bool exact)
{
    static uint8_t to[200000], twice[200000];
    size_t len = codec->compose(message, to, sizeof(to));
    bool refused = codec->is_for_reading && codec->is_for_reading(message);
    if (again && (len == 0) != refused)
        fail("%s", refused ? "it should not be composed" : "it was parsed, but is not composed");
    if (len == 0)
        return bytes_at(to, 0);
    /* What was parsed may have longer parts than a server has. */
    if (exact && codec->rooms && codec->rooms[message->kind] > 0 &&
        len > codec->rooms[message->kind])
        fail("it has %zu bytes, more than its room", len);
    size_t least = !exact ? len - 1 : len > 600 ? len - 300 : 0;
    for (size_t room = least; room <= len; room++) {
        uint8_t *tight = room > 0 ? malloc(room) : NULL;
        size_t tight_len = codec->compose(message, tight, room);
        if (tight_len != (room < len ? 0 : len) || (tight_len > 0 && memcmp(to, tight, len) != 0))
            fail("composed in %zu bytes, it has %zu; else %zu", room, tight_len, len);
        free(tight);
    }
    if (again) {
        static struct message read;
        struct stream stream = {.max_line = 100000};
        struct text before = {0}, after = {0};
        size_t used = 0;
        uint8_t *copy = exact_bytes(to, len);
        const char *word = codec->parse(&stream, copy, len, &read, &used);
        message_tell(codec, message, &before);
        if (strcmp(word, PARSED) == 0)
            message_tell(codec, &read, &after);
        bool same = after.data && strcmp(before.data, after.data) == 0;
        if (after.data && !same && codec->rounds)
            same = codec->compose(&read, twice, len) == len && memcmp(to, twice, len) == 0;
        if (used != len || !same)
            fail("composed and parsed again: %s %s; before: %s", word, after.data ? after.data : "",
                 before.data);
        text_clear(&before);
        text_clear(&after);
        free(copy);
    }
    return bytes_at(to, len);
}
