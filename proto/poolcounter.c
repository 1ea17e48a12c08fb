/*
 * poolcounter.c - parses and composes lines of the PoolCounter protocol.
 *
 * A request is parsed in three independent steps: find the line end (split_line), find the verb
 * (the table of verbs), parse the arguments (the verb's handler). A line is judged only when it is
 * complete or certainly too long. So the answer never depends on how the network splits the bytes.
 *
 * STATS is a table of rows: label, field of struct pc_stats, and the function that writes its
 * value.
 */
#include "proto/poolcounter.h"

#include "base/number.h"
#include "proto/grammar.h"
#include "proto/pools.h"

#include <strings.h>

/* ---- Bytes and words ------------------------------------------------------------------------- */

static bool equals_any_case(struct bytes a, struct bytes b)
{
    return a.len == b.len && strncasecmp((const char *)a.data, (const char *)b.data, a.len) == 0;
}

static struct bytes trim(struct bytes b)
{
    while (b.len > 0 && b.data[0] == ' ')
        (void)bytes_take(&b, 1);
    while (b.len > 0 && b.data[b.len - 1] == ' ')
        b.len--;
    return b;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/*
 * Finds the line at the start of `data`: *line_r is its content, *used_r its length with the line
 * end. Returns PC_OK, PC_MORE or PC_LINE_TOO_LONG, as soon as no further byte could change the
 * result.
 */
static inline enum pc_parsed split_line(const uint8_t *data, size_t len, size_t max_line,
                                        struct bytes *line_r, size_t *used_r)
{
    *used_r = 0;
    if (len == 0)
        return PC_MORE;
    /* The longest line and "\r\n": a line end after this is too late. */
    size_t window = len > max_line && len - max_line > 2 ? max_line + 2 : len;
    const uint8_t *end = memchr(data, '\n', window);
    size_t before = end ? (size_t)(end - data) : window;
    size_t content = before > 0 && data[before - 1] == '\r' ? before - 1 : before;
    if (content > max_line)
        return PC_LINE_TOO_LONG;
    if (!end)
        return PC_MORE;
    *line_r = bytes_at(data, content);
    *used_r = before + 1;
    return PC_OK;
}

/* ---- Arguments of requests ------------------------------------------------------------------- */

/*
 * The line end follows the words, so the byte at `end` can be read, and is neither a space nor a
 * digit: loops over these need not check for the end.
 */

/* Skips the spaces before a word. */
static inline const uint8_t *word_begin(struct words args)
{
    while (*args.at == ' ')
        args.at++;
    return args.at;
}

static bool is_key(struct bytes key)
{
    return key.len <= PC_KEY_MAX && word_length(key) == key.len;
}

/* Takes a key; it is empty if there is no word. Returns false when the word is not a valid key. */
static inline bool take_key(struct words *args, struct bytes *key_r)
{
    const uint8_t *begin = word_begin(*args);
    size_t len = word_length(bytes_at(begin, (size_t)(args->end - begin)));
    *key_r = bytes_at(begin, len);
    args->at = begin + len;
    return len <= PC_KEY_MAX && word_ends(args);
}

/* Takes a limit: decimal digits only, 1 to 4,294,967,295. Returns false if there is none. */
static inline bool take_limit(struct words *args, uint32_t *limit_r)
{
    uint64_t value;
    args->at = word_begin(*args);
    if (!number_scan(&args->at, NULL, 10, UINT32_MAX, &value))
        return false;
    *limit_r = (uint32_t)value;
    return value > 0 && word_ends(args);
}

/*
 * Reads the next word as seconds with an optional fraction. Returns nanoseconds; 0 for anything
 * else.
 */
static inline int64_t read_timeout(struct words args)
{
    args.at = word_begin(args);
    int64_t ns = number_scan_seconds(&args.at, PC_TIMEOUT_MAX_NS / NS_PER_S);
    return word_ends(&args) ? ns : 0;
}

static bool read_acquire(struct words args, struct pc_request *req_r)
{
    struct bytes key;
    uint32_t workers;
    uint32_t maxqueue;
    if (!take_key(&args, &key) || key.len == 0 || !take_limit(&args, &workers) ||
        !take_limit(&args, &maxqueue))
        return false;
    *req_r = (struct pc_request){
        .key = key, .workers = workers, .maxqueue = maxqueue, .timeout_ns = read_timeout(args)};
    return true;
}

static bool write_acquire(struct out *out, const struct pc_request *req)
{
    if (req->key.len == 0 || !is_key(req->key) || req->timeout_ns < 0)
        return false;
    put_text(out, " ");
    put_bytes(out, req->key);
    put_text(out, " ");
    put_number(out, req->workers, 1);
    put_text(out, " ");
    put_number(out, req->maxqueue, 1);
    put_text(out, " ");
    put_seconds(out, req->timeout_ns);
    return true;
}

static bool read_release(struct words args, struct pc_request *req_r)
{
    struct bytes key;
    if (!take_key(&args, &key))
        return false;
    *req_r = (struct pc_request){.key = key};
    return true;
}

static bool write_release(struct out *out, const struct pc_request *req)
{
    if (!is_key(req->key))
        return false;
    put_text(out, req->key.len > 0 ? " " : "");
    put_bytes(out, req->key);
    return true;
}

static bool read_stats(struct words args, struct pc_request *req_r)
{
    struct bytes rest = {.data = args.at, .len = (size_t)(args.end - args.at)};
    *req_r = (struct pc_request){.subject = trim(rest)};
    return true;
}

static bool write_stats(struct out *out, const struct pc_request *req)
{
    for (size_t i = 0; i < req->subject.len; i++) {
        if (req->subject.data[i] == '\r' || req->subject.data[i] == '\n')
            return false;
    }
    put_text(out, req->subject.len > 0 ? " " : "");
    put_bytes(out, req->subject);
    return true;
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* The verbs: word, true if it may stand alone without a space, parser, composer. */
#define VERBS(ROW)                                                                                 \
    ROW(PC_ACQ4ME, "ACQ4ME", false, read_acquire, write_acquire)                                   \
    ROW(PC_RELEASE, "RELEASE", true, read_release, write_release)                                  \
    ROW(PC_ACQ4ANY, "ACQ4ANY", false, read_acquire, write_acquire)                                 \
    ROW(PC_STATS, "STATS", true, read_stats, write_stats)

static const struct verb {
    struct bytes word;
    bool bare;
    /*
     * Fills in all fields except the verb. Returns false, and writes nothing, on wrong arguments.
     */
    bool (*read)(struct words args, struct pc_request *req_r);
    bool (*write)(struct out *out, const struct pc_request *req);
} verbs[] = {
#define ROW(verb, word, bare, read, write) [verb] = {BYTES_OF_LITERAL(word), bare, read, write},
    VERBS(ROW)
#undef ROW
};

/*
 * Returns the verb that a line begins with, or the number of verbs if there is none. The compiler
 * knows each word's length, so a comparison takes two or three instructions instead of a call.
 */
static size_t verb_of(struct bytes line)
{
#define ROW(verb, word, bare, read, write)                                                         \
    if (line.len >= sizeof(word) - 1 && memcmp(line.data, word, sizeof(word) - 1) == 0)            \
        return verb;
    VERBS(ROW)
#undef ROW
    return ARRAY_SIZE(verbs);
}

enum pc_parsed pc_parse_request(const uint8_t *data, size_t len, size_t max_line,
                                struct pc_request *req_r, size_t *used_r)
{
    struct bytes line = {0};
    enum pc_parsed split = split_line(data, len, max_line, &line, used_r);
    if (split != PC_OK)
        return split;
    size_t number = verb_of(line);
    if (number == ARRAY_SIZE(verbs))
        return pool_is_request(line) ? PC_POOLS : PC_BAD_COMMAND;
    const struct verb *verb = &verbs[number];
    struct words args = {.at = line.data + verb->word.len, .end = line.data + line.len};
    if (!word_ends(&args) || (args.at == args.end && !verb->bare))
        return PC_BAD_COMMAND;
    if (!verb->read(args, req_r))
        return PC_BAD_SYNTAX;
    req_r->verb = (enum pc_verb)number;
    return PC_OK;
}

size_t pc_compose_request(const struct pc_request *req, uint8_t *to, size_t room)
{
    if ((size_t)req->verb >= ARRAY_SIZE(verbs))
        return 0;
    struct out out = {.to = to, .room = room};
    put_bytes(&out, verbs[req->verb].word);
    if (!verbs[req->verb].write(&out, req))
        return 0;
    put_text(&out, "\n");
    return out_length(&out);
}

/* ---- Replies --------------------------------------------------------------------------------- */

static const struct bytes reply_lines[PC_REPLY_COUNT + 1] = {
#define ROW(name, word) [PC_REPLY_##name] = BYTES_OF_LITERAL(word "\n"),
    PC_REPLIES(ROW)
#undef ROW
        [PC_REPLY_OTHER] = BYTES_OF_LITERAL(""),
};

struct bytes pc_reply_line(enum pc_reply reply)
{
    return reply_lines[(size_t)reply < PC_REPLY_COUNT ? reply : PC_REPLY_OTHER];
}

enum pc_parsed pc_parse_reply(const uint8_t *data, size_t len, size_t max_line,
                              enum pc_reply *reply_r, struct bytes *line_r, size_t *used_r)
{
    struct bytes line = {0};
    enum pc_parsed split = split_line(data, len, max_line, &line, used_r);
    if (split != PC_OK)
        return split;
    *line_r = line;
    *reply_r = PC_REPLY_OTHER;
    for (size_t i = 0; i < PC_REPLY_COUNT; i++) {
        struct bytes word = reply_lines[i];
        word.len--; /* without the line end */
        if (bytes_equal(line, word))
            *reply_r = (enum pc_reply)i;
    }
    return PC_OK;
}

/* ---- Notations of STATS ---------------------------------------------------------------------- */

/* Writes a value. Values have 64 bits, sums of times more. */
typedef void notation(struct out *out, pc_ns value);

static void write_count(struct out *out, pc_ns value)
{
    put_number(out, (uint64_t)value, 1);
}

/* Writes seconds as "[[[N days ]Nh ]Nm ]N". `days`: how days are marked. */
static void put_units(struct out *out, uint64_t seconds, bool all, const char *days)
{
    const struct {
        uint64_t seconds;
        const char *mark;
    } units[] = {{86400, days}, {3600, "h "}, {60, "m "}};
    uint64_t rest = seconds;
    for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
        if (all || seconds >= units[i].seconds) {
            put_number(out, rest / units[i].seconds, 1);
            put_text(out, units[i].mark);
        }
        rest %= units[i].seconds;
    }
    put_number(out, rest, 1);
}

/* Seconds: "N days, Nh Nm Ns". */
static void write_uptime(struct out *out, pc_ns value)
{
    put_units(out, (uint64_t)value, true, " days, ");
    put_text(out, "s");
}

/* Nanoseconds: "[[[N days ]Nh ]Nm ]N.NNNNNNs", rounded down to microseconds. */
static void write_duration(struct out *out, pc_ns value)
{
    if (value > PC_NS_MAX)
        value = PC_NS_MAX;
    put_units(out, (uint64_t)(value / NS_PER_S), false, " days ");
    put_text(out, ".");
    put_number(out, (uint64_t)(value % NS_PER_S) / NS_PER_US, 6);
    put_text(out, "s");
}

/* ---- Lines of STATS -------------------------------------------------------------------------- */

/* The lines, in the order of FULL. All but durations can be requested by their labels. */
static const struct stat_row {
    const char *label;
    notation *write;
    bool derived;  /* computed from other fields; `offset` is unused */
    size_t offset; /* in struct pc_stats: of a pc_ns for durations, else of a uint64_t */
} stat_rows[] = {
#define DURATION(label, field)                                                                     \
    {                                                                                              \
        label, write_duration, false, offsetof(struct pc_stats, field)                             \
    }
#define COUNT(field) {#field, write_count, false, offsetof(struct pc_stats, field)},
    {"uptime", write_uptime, false, offsetof(struct pc_stats, uptime_s)},
    DURATION("total processing time", processing_ns),
    {"average processing time", write_duration, true, 0},
    DURATION("gained time", gained_ns),
    DURATION("waiting time", waiting_ns),
    DURATION("waiting time for me", waiting_for_me_ns),
    DURATION("waiting time for anyone", waiting_for_anyone_ns),
    DURATION("waiting time for good", waiting_for_good_ns),
    DURATION("wasted timeout time", wasted_timeout_ns),
    PC_COUNTS(COUNT)
#undef COUNT
#undef DURATION
};

static pc_ns row_value(const struct stat_row *row, const struct pc_stats *stats)
{
    if (row->derived)
        return stats->processed_count ? stats->processing_ns / stats->processed_count : 0;
    const void *field = (const uint8_t *)stats + row->offset;
    return row->write == write_duration ? *(const pc_ns *)field : *(const uint64_t *)field;
}

static void put_row(struct out *out, const struct stat_row *row, const struct pc_stats *stats)
{
    put_text(out, row->label);
    put_text(out, ": ");
    row->write(out, row_value(row, stats));
    put_text(out, "\n");
}

size_t pc_compose_stats(const struct pc_stats *stats, struct bytes subject, char *to, size_t room)
{
    struct out out = {.to = (uint8_t *)to, .room = room};
    bool full = subject.len == 0 || equals_any_case(subject, bytes_of("full"));
    for (size_t i = 0; i < ARRAY_SIZE(stat_rows); i++) {
        const struct stat_row *row = &stat_rows[i];
        if (full ||
            (row->write != write_duration && equals_any_case(subject, bytes_of(row->label))))
            put_row(&out, row, stats);
    }
    if (full)
        put_text(&out, "\n");
    return out_length(&out);
}
