/*
 * beanstalk.c - parses and composes the requests of job queues.
 *
 * Each verb is a row: the parts of its line, and what is special about it. A request is composed
 * without checks and then parsed: it counts only if that gives the same request. So the bounds are
 * in one place, the parts.
 */
#include "proto/beanstalk.h"

#include "base/check.h"
#include "base/number.h"
#include "proto/grammar.h"

/* A parsed request of a service has up to 128 bytes, some of them the service's own. */
_Static_assert(sizeof(struct bs_request) <= 120, "a parsed request is small");

/* ---- Names ----------------------------------------------------------------------------------- */

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

bool bs_next_tube(struct bytes *tubes, struct bytes *name_r)
{
    *name_r = *tubes;
    if (!word_split(*tubes, ' ', name_r, tubes))
        tubes->len = 0;
    return bs_is_tube_name(*name_r);
}

/* Names with a space between them. */
static bool is_tube_list(struct bytes list)
{
    bool good = list.data[list.len - 1] != ' ';
    for (struct bytes name; good && list.len > 0;)
        good = bs_next_tube(&list, &name);
    return good;
}

/* A name, the beginning of names and "*", or "*". */
static bool read_pattern(struct words *words, void *message)
{
    struct bs_request *req = message;
    struct bytes word = words_take(words);
    req->ready.prefix = word.len > 0 && word.data[word.len - 1] == '*';
    req->tube = bytes_at(word.data, word.len - req->ready.prefix);
    return bs_is_tube_name(req->tube) || (req->ready.prefix && word.len == 1);
}

static void write_pattern(struct out *out, const void *message)
{
    const struct bs_request *req = message;
    put_byte(out, ' ');
    put_bytes(out, req->tube);
    if (req->ready.prefix)
        put_byte(out, '*');
}

const char *const bs_state_words[BS_STATE_COUNT] = {
#define ROW(name, word) [BS_STATE_##name] = (word),
    BS_STATES(ROW)
#undef ROW
        [BS_STATE_NONE] = "",
};

enum bs_state bs_find_state(struct bytes word)
{
    enum bs_state state = BS_STATE_COUNT - 1;
    while (state > BS_STATE_NONE && !word_is(word, bs_state_words[state]))
        state--;
    return state;
}

/* ---- Options of puts ------------------------------------------------------------------------- */

/* Reads all of a word as seconds with up to three decimals. */
static bool read_time(struct bytes word, int64_t *ms_r, bool *whole_r)
{
    uint64_t seconds;
    if (!number_take(&word, UINT32_MAX, &seconds))
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

static bool read_at(struct words *words, void *message)
{
    struct bs_put_options *options = &((struct bs_request *)message)->options;
    options->has_at = true;
    return read_time(words_take(words), &options->at_ms, &options->at_whole);
}

static bool read_root(struct words *words, void *message)
{
    struct bs_put_options *options = &((struct bs_request *)message)->options;
    struct bytes time;
    return word_split(words_take(words), ':', &options->root, &time) && is_key(options->root) &&
           read_time(time, &options->root_ms, &options->root_whole);
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

static void write_at(struct out *out, const void *message)
{
    const struct bs_put_options *options = &((const struct bs_request *)message)->options;
    if (!options->has_at)
        return;
    put_text(out, " at=");
    put_time(out, options->at_ms, options->at_whole);
}

static void write_root(struct out *out, const void *message)
{
    const struct bs_put_options *options = &((const struct bs_request *)message)->options;
    if (options->root.len == 0)
        return;
    put_text(out, " root=");
    put_bytes(out, options->root);
    put_byte(out, ':');
    put_time(out, options->root_ms, options->root_whole);
}

static bool same_options(const struct bs_put_options *a, const struct bs_put_options *b)
{
    return bytes_equal(a->key, b->key) && bytes_equal(a->root, b->root) && a->at_ms == b->at_ms &&
           a->root_ms == b->root_ms && a->tries == b->tries && a->has_at == b->has_at &&
           a->has_tries == b->has_tries && a->at_whole == b->at_whole &&
           a->root_whole == b->root_whole;
}

/* ---- Settings of tubes ----------------------------------------------------------------------- */

static const char *const order_words[] = {
    [BS_ORDER_PRIORITY] = "priority",
    [BS_ORDER_FIFO] = "fifo",
    [BS_ORDER_RANDOM] = "random",
};

static const char *const claim_words[] = {
    [BS_CLAIM_CONNECTION] = "connection",
    [BS_CLAIM_LEASE] = "lease",
};

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

/* ---- Verbs ----------------------------------------------------------------------------------- */

#define ALONE_IS_BAD 1u /* without its space, a known verb */
#define HAS_BODY     2u /* a wrong line closes the connection */
#define IS_NEW       4u /* up to BS_NEW_LINE_MAX bytes */
#define NO_OPTIONS   8u /* the union has something else than options of a put */

/* clang-format off */
#define OF struct bs_request
#define TUBE      {BYTES(tube, 1, BS_TUBE_MAX), .good = bs_is_tube_name, .flags = PART_ONE_SPACE}
#define ANY_SPACE {BYTES(tube, 1, BS_TUBE_MAX), .good = bs_is_tube_name}
#define STATE     {MEMBER(WORD, state), .words = bs_state_words, .min = 1, .max = BS_STATE_COUNT - 1}
#define COUNTED   {MEMBER(U32, count), .min = 1, .max = BS_COUNT_MAX}
#define WAIT      {MEMBER(U32, seconds), .max = BS_WAIT_MAX}
#define ID        {U64(id)}
#define TOKEN     {U64(token)}
#define PUT       {U32(pri)}, {U32(delay_s)}, {U32(ttr_s)}, {U32(body_len)}
#define TUBES     {BYTES(tubes, 1, BS_NEW_LINE_MAX), .good = is_tube_list, \
                   .flags = PART_OPTIONAL | PART_ONE_SPACE | PART_REST}
#define PATTERN   {.kind = PART_OWN, .read = read_pattern, .write = write_pattern, \
                   HAS(ready.prefix, 1), .flags = PART_ONE_SPACE}
#define AFTER     {BYTES(ready.after, 1, BS_TUBE_MAX), .good = bs_is_tube_name, \
                   .flags = PART_OPTIONAL | PART_ONE_SPACE}
#define NAMED(text)        KEY(text), .flags = PART_ANY_ORDER
#define OPTIONS   {BYTES(options.key, 1, BS_KEY_MAX), NAMED("key="), .good = is_key}, \
                  {.kind = PART_OWN, NAMED("at="), .read = read_at, .write = write_at}, \
                  {.kind = PART_OWN, NAMED("root="), .read = read_root, .write = write_root}, \
                  {U32(options.tries), NAMED("tries="), HAS(options.has_tries, 1)}
#define SETTING(text, bit) NAMED(text), HAS(settings.given, BS_GIVEN_##bit)

static const struct part settings[] = {
    TUBE,
    {MEMBER(WORD, settings.order), SETTING("order=", ORDER), .words = order_words, .max = BS_ORDER_RANDOM},
    {MEMBER(WORD, settings.claim), SETTING("claim=", CLAIM), .words = claim_words, .max = BS_CLAIM_LEASE},
    {U32(settings.tries), SETTING("tries=", TRIES)},
    {U32(settings.limit), SETTING("limit=", LIMIT)},
    {U32(settings.prune_s), SETTING("prune=", PRUNE)},
    {MEMBER(U32, settings.remember_s), SETTING("remember=", REMEMBER), .max = BS_REMEMBER_MAX},
    {BYTES(settings.read_only, 0, BS_REASON_MAX), KEY("read-only="),
     HAS(settings.given, BS_GIVEN_READ_ONLY), .good = is_reason, .flags = PART_ANY_ORDER | PART_REST},
    {.kind = PART_END},
};

static const struct part record_parts[] = {PUT, OPTIONS, {.kind = PART_END}};

/* All members but the union. */
static const struct part common[] = {
    TUBE, STATE, PUT, {U32(seconds)}, {U32(count)}, ID, TOKEN, {.kind = PART_END},
};
/* clang-format on */

static const struct verb_row {
    const struct part *parts; /* NULL, as for verbs without a row: nothing may follow */
    unsigned flags;
} verbs[BS_VERB_COUNT] = {
    [BS_VERB_PUT] = {PARTS(PUT), HAS_BODY},
    [BS_VERB_RESERVE_WITH_TIMEOUT] = {PARTS(WAIT), ALONE_IS_BAD},
    [BS_VERB_DELETE] = {PARTS(ID)},
    [BS_VERB_PUT_INTO] = {PARTS(TUBE, PUT, OPTIONS), IS_NEW | HAS_BODY},
    [BS_VERB_CLAIM] = {PARTS(COUNTED, {U32(seconds)}, TUBES), IS_NEW | NO_OPTIONS},
    [BS_VERB_ACK] = {PARTS(ID, TOKEN), IS_NEW},
    [BS_VERB_RELEASE] = {PARTS(ID, {U32(pri)}, {U32(delay_s)})},
    [BS_VERB_BURY] = {PARTS(ID, {U32(pri)})},
    [BS_VERB_TOUCH] = {PARTS(ID)},
    [BS_VERB_USE] = {PARTS(TUBE)},
    [BS_VERB_WATCH] = {PARTS(TUBE)},
    [BS_VERB_IGNORE] = {PARTS(TUBE)},
    [BS_VERB_RESERVE_JOB] = {PARTS(ID), ALONE_IS_BAD},
    [BS_VERB_KICK] = {PARTS({U32(count)})},
    [BS_VERB_KICK_JOB] = {PARTS(ID)},
    [BS_VERB_PEEK] = {PARTS(ID)},
    [BS_VERB_STATS_JOB] = {PARTS(ID)},
    [BS_VERB_STATS_TUBE] = {PARTS(TUBE)},
    [BS_VERB_PAUSE_TUBE] = {PARTS(ANY_SPACE, {U32(seconds)}), ALONE_IS_BAD},
    [BS_VERB_TUBE] = {settings, IS_NEW | NO_OPTIONS},
    [BS_VERB_PUT_BATCH] = {PARTS(TUBE, COUNTED, {U32(body_len)}), IS_NEW | HAS_BODY},
    [BS_VERB_NACK] = {PARTS(ID, TOKEN, {U32(delay_s)}), IS_NEW},
    [BS_VERB_RENEW] = {PARTS(ID, TOKEN), IS_NEW},
    [BS_VERB_READY] = {PARTS({U32(seconds)}, COUNTED, PATTERN, AFTER), IS_NEW | NO_OPTIONS},
    [BS_VERB_LIST_JOBS] = {PARTS(TUBE, STATE, ID, COUNTED), IS_NEW},
    [BS_VERB_CLEAR] = {PARTS(TUBE, STATE), IS_NEW},
};

static const struct bytes verb_words[BS_VERB_COUNT] = {
#define ROW(name, word) [BS_VERB_##name] = BYTES_OF_LITERAL(word),
    BS_VERBS(ROW)
#undef ROW
};

/*
 * Returns the verb whose word is all of `word`, or BS_VERB_COUNT. The compiler knows each word's
 * length, so a comparison takes a few instructions and no call.
 */
static inline enum bs_verb find_verb(struct bytes word)
{
#define ROW(name, text)                                                                            \
    if (word.len == sizeof(text) - 1 && memcmp(word.data, text, sizeof(text) - 1) == 0)            \
        return BS_VERB_##name;
    BS_VERBS(ROW)
#undef ROW
    return BS_VERB_COUNT;
}

/* Finds the verb. *rest_r begins with the first space; it is empty when there is none. */
static enum bs_verb split_verb(struct bytes line, struct bytes *rest_r)
{
    const uint8_t *space = line.len > 0 ? memchr(line.data, ' ', line.len) : NULL;
    size_t len = space ? (size_t)(space - line.data) : line.len;
    *rest_r = bytes_at(space, line.len - len);
    return find_verb(bytes_at(line.data, len));
}

/* ---- Requests, read -------------------------------------------------------------------------- */

/* A page can make a browser connect to any port, and choose most lines, but not the first words. */
static bool is_web(struct bytes in)
{
    static const struct bytes beginnings[] = {
        BYTES_OF_LITERAL("GET "),     BYTES_OF_LITERAL("POST "), BYTES_OF_LITERAL("PUT "),
        BYTES_OF_LITERAL("OPTIONS "), BYTES_OF_LITERAL("Host:"),
    };
    if (in.len == 0 || in.data[0] > 'P') /* as all verbs are */
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(beginnings); i++) {
        if (bytes_begin_with(in, beginnings[i]))
            return true;
    }
    return false;
}

/* Reads parts that are all of the rest of a line. */
static bool read_all(const struct part *parts, struct bytes rest, struct bs_request *req_r)
{
    struct words words = words_of(rest);
    return grammar_read(parts, &words, req_r) && words.at == words.end;
}

static enum bs_parsed parse_line(struct bytes line, struct bs_request *req_r)
{
    struct bytes rest;
    enum bs_verb verb = split_verb(line, &rest);
    if (verb == BS_VERB_COUNT) {
        /* Arguments have no NUL byte; so only a wrong verb must be searched for one. */
        bool has_nul = line.len > 0 && memchr(line.data, '\0', line.len);
        return has_nul ? BS_BAD_FORMAT : BS_UNKNOWN_COMMAND;
    }
    const struct verb_row *row = &verbs[verb];
    if (rest.len == 0 && row->parts)
        return row->flags & ALONE_IS_BAD ? BS_BAD_FORMAT : BS_UNKNOWN_COMMAND;
    memset(req_r, 0, sizeof(*req_r));
    req_r->verb = verb;
    if (row->parts ? read_all(row->parts, rest, req_r) : rest.len == 0)
        return BS_PARSED;
    return row->flags & HAS_BODY ? BS_BAD_FORMAT_CLOSE : BS_BAD_FORMAT;
}

/* Looks for the line's end in the first `max` bytes. */
static bool find_line(struct bytes in, size_t max, struct bytes *line_r)
{
    size_t len = in.len < max ? in.len : max;
    *line_r = bytes_at(in.data, line_length(bytes_at(in.data, len)));
    return line_r->len < len;
}

enum bs_parsed bs_parse_request(const uint8_t *data, size_t len, struct bs_request *req_r,
                                size_t *used_r)
{
    struct bytes in = bytes_at(data, len), line, rest;
    *used_r = 0;
    if (is_web(in)) {
        *used_r = len;
        return BS_WEB;
    }
    bool whole = find_line(in, BS_LINE_MAX, &line);
    if (!whole && len < BS_LINE_MAX)
        return BS_MORE;
    if (!whole) {
        enum bs_verb verb = split_verb(bytes_at(data, BS_LINE_MAX), &rest);
        unsigned flags = verb < BS_VERB_COUNT ? verbs[verb].flags : 0;
        if (flags & IS_NEW) {
            whole = find_line(in, BS_NEW_LINE_MAX, &line);
            if (!whole && len < BS_NEW_LINE_MAX)
                return BS_MORE;
        }
        if (!whole && (flags & HAS_BODY)) {
            *used_r = len;
            return BS_BAD_FORMAT_CLOSE;
        }
    }
    if (!whole)
        return bs_skip_line(data, len, used_r) ? BS_BAD_FORMAT : BS_TOO_LONG;
    *used_r = line.len + 2;
    return parse_line(line, req_r);
}

bool bs_skip_line(const uint8_t *data, size_t len, size_t *used_r)
{
    struct bytes in = bytes_at(data, len);
    size_t line_len = line_length(in);
    if (line_len < len) {
        *used_r = line_len + 2;
        return true;
    }
    *used_r = len > 0 && data[len - 1] == '\r' ? len - 1 : len;
    return false;
}

enum bs_parsed bs_parse_record(const uint8_t *data, size_t len, struct bs_request *record_r,
                               size_t *used_r)
{
    struct bytes line;
    *used_r = 0;
    if (!find_line(bytes_at(data, len), BS_NEW_LINE_MAX, &line))
        return len < BS_NEW_LINE_MAX ? BS_MORE : BS_BAD_FORMAT;
    *used_r = line.len + 2;
    memset(record_r, 0, sizeof(*record_r));
    return read_all(record_parts, line, record_r) ? BS_PARSED : BS_BAD_FORMAT;
}

/* ---- Requests, written ----------------------------------------------------------------------- */

size_t bs_compose_request(const struct bs_request *req, uint8_t *to, size_t room)
{
    if ((size_t)req->verb >= BS_VERB_COUNT)
        return 0;
    const struct verb_row *row = &verbs[req->verb];
    struct out out = {.to = to, .room = room};
    put_bytes(&out, verb_words[req->verb]);
    if (row->parts)
        grammar_write(row->parts, &out, req);
    size_t len = end_crlf(&out), used;
    struct bs_request again;
    if (len == 0 || bs_parse_request(to, len, &again, &used) != BS_PARSED || used != len ||
        req->verb != again.verb || !grammar_same(common, req, &again))
        return 0;
    bool same = row->flags & NO_OPTIONS ? grammar_same(row->parts, req, &again)
                                        : same_options(&req->options, &again.options);
    return same ? len : 0;
}

size_t bs_compose_record(const struct bs_request *record, uint8_t *to, size_t room)
{
    struct out out = {.to = to, .room = room};
    grammar_write(record_parts, &out, record);
    size_t len = end_crlf(&out), used;
    struct bs_request again;
    if (len == 0 || bs_parse_record(to, len, &again, &used) != BS_PARSED || used != len)
        return 0;
    return same_options(&record->options, &again.options) ? len : 0;
}
