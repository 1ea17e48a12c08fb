/*
 * poolcounter_test.c - the PoolCounter line protocol, both directions.
 *
 * `read_line_at_every_split` passes every line byte by byte, each prefix in a buffer of exactly its
 * size, so that a sanitizer sees a read past the end, and no result depends on how the network cut
 * the line.
 */
#include "proto/poolcounter.h"
#include "t/unit/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_LINE        8192
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Like ck_assert, but silent on success: for loops that run a million times. */
#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s", #condition);                                                        \
    } while (0)

/* ---- Helpers -------------------------------------------------------------------------------- */

/* A buffer of exactly `len` bytes, which the caller frees; NULL for none. */
static uint8_t *exact_room(size_t len)
{
    uint8_t *room = len > 0 ? malloc(len) : NULL;
    REQUIRE(room || len == 0);
    return room;
}

/* A copy of `data` in a buffer of exactly its size, which the caller frees. */
static uint8_t *exact_copy(const void *data, size_t len)
{
    uint8_t *copy = exact_room(len);
    if (copy)
        memcpy(copy, data, len);
    return copy;
}

static uint64_t random_next(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static size_t random_below(uint64_t *state, size_t bound)
{
    return (size_t)(random_next(state) % bound);
}

static bool same_request(const struct pc_request *a, const struct pc_request *b)
{
    return a->verb == b->verb && bytes_equal(a->key, b->key) && a->workers == b->workers &&
           a->maxqueue == b->maxqueue && a->timeout_ns == b->timeout_ns &&
           bytes_equal(a->subject, b->subject);
}

/*
 * Parses `line` (with its end). Every prefix must need more, and bytes behind the line must not
 * change the result. The request points into `line`.
 */
static enum pc_parsed read_line_at_every_split(const char *line, size_t len, struct pc_request *req)
{
    for (size_t n = 0; n < len; n++) {
        uint8_t *part = exact_copy(line, n);
        struct pc_request ignored = {0};
        size_t used = 77;
        REQUIRE(pc_parse_request(part, n, MAX_LINE, &ignored, &used) == PC_MORE);
        REQUIRE(used == 0);
        free(part);
    }
    uint8_t *longer = malloc(len + 2);
    REQUIRE(longer);
    memcpy(longer, line, len);
    longer[len] = '\n';
    longer[len + 1] = 'R';
    struct pc_request behind = {0};
    size_t used = 77;
    enum pc_parsed with_more = pc_parse_request(longer, len + 2, MAX_LINE, &behind, &used);
    REQUIRE(used == len);

    used = 77;
    enum pc_parsed parsed = pc_parse_request((const uint8_t *)line, len, MAX_LINE, req, &used);
    REQUIRE(parsed == with_more);
    REQUIRE(used == len);
    if (parsed == PC_OK)
        REQUIRE(same_request(req, &behind));
    free(longer);
    return parsed;
}

static struct pc_request read_ok(const char *line)
{
    struct pc_request req;
    memset(&req, 0xee, sizeof(req));
    enum pc_parsed parsed = read_line_at_every_split(line, strlen(line), &req);
    if (parsed != PC_OK)
        ck_abort_msg("refused (%d): %s", (int)parsed, line);
    return req;
}

static void check_refused_len(const char *line, size_t len, enum pc_parsed expected)
{
    struct pc_request req = {.workers = 77};
    enum pc_parsed parsed = read_line_at_every_split(line, len, &req);
    if (parsed != expected)
        ck_abort_msg("%d instead of %d: %s", (int)parsed, (int)expected, line);
    REQUIRE(req.workers == 77); /* only PC_OK writes the request */
}

static void check_refused(const char *line, enum pc_parsed expected)
{
    check_refused_len(line, strlen(line), expected);
}

static void check_key(const struct pc_request *req, const char *key)
{
    ck_assert(bytes_equal(req->key, bytes_of(key)));
}

/* Composes a line, which the caller frees. In a smaller buffer, composing must fail. */
static char *compose(const struct pc_request *req)
{
    static uint8_t enough[70000];
    size_t len = pc_compose_request(req, enough, sizeof(enough));
    if (len == 0)
        return NULL;
    for (size_t room = 0; room <= len; room++) {
        uint8_t *to = exact_room(room);
        size_t got = pc_compose_request(req, to, room);
        REQUIRE(got == (room == len ? len : 0));
        REQUIRE(got == 0 || memcmp(to, enough, len) == 0);
        free(to);
    }
    char *line = malloc(len + 1);
    REQUIRE(line);
    memcpy(line, enough, len);
    line[len] = '\0';
    return line;
}

static void check_composed(const struct pc_request *req, const char *expected)
{
    char *line = compose(req);
    ck_assert_ptr_nonnull(line);
    ck_assert_str_eq(line, expected);
    struct pc_request again = read_ok(line);
    ck_assert(same_request(req, &again));
    free(line);
}

/* ---- Requests, read ------------------------------------------------------------------------- */

TEST(acquire_carries_key_limits_and_timeout)
{
    struct pc_request req = read_ok("ACQ4ME enwiki:pcache:1 2 50 15\n");
    ck_assert_int_eq(req.verb, PC_ACQ4ME);
    check_key(&req, "enwiki:pcache:1");
    ck_assert_uint_eq(req.workers, 2);
    ck_assert_uint_eq(req.maxqueue, 50);
    ck_assert_int_eq(req.timeout_ns, INT64_C(15000000000));
    ck_assert_uint_eq(req.subject.len, 0);

    req = read_ok("ACQ4ANY a%20b 1 1\n");
    ck_assert_int_eq(req.verb, PC_ACQ4ANY);
    check_key(&req, "a%20b");
    ck_assert_uint_eq(req.workers, 1);
    ck_assert_uint_eq(req.maxqueue, 1);
    ck_assert_int_eq(req.timeout_ns, 0);
}

TEST(either_line_end_is_taken_with_the_line)
{
    struct pc_request req = read_ok("ACQ4ME k 1 2 3\r\n");
    check_key(&req, "k");
    ck_assert_int_eq(req.timeout_ns, INT64_C(3000000000));
    req = read_ok("RELEASE k\r\n");
    check_key(&req, "k");
    req = read_ok("RELEASE\r\n");
    ck_assert_int_eq(req.verb, PC_RELEASE);
    ck_assert_uint_eq(req.key.len, 0);
    req = read_ok("STATS\r\n");
    ck_assert_int_eq(req.verb, PC_STATS);
    ck_assert_uint_eq(req.subject.len, 0);
}

TEST(runs_of_spaces_count_as_one)
{
    struct pc_request req = read_ok("ACQ4ME    k  3    4     0.5   \n");
    check_key(&req, "k");
    ck_assert_uint_eq(req.workers, 3);
    ck_assert_uint_eq(req.maxqueue, 4);
    ck_assert_int_eq(req.timeout_ns, 500000000);
    req = read_ok("RELEASE    k   \n");
    check_key(&req, "k");
    req = read_ok("RELEASE    \n");
    ck_assert_uint_eq(req.key.len, 0);
}

TEST(further_arguments_are_ignored)
{
    struct pc_request req = read_ok("ACQ4ANY k 1 2 3 4 -5 what\tever\r\r\n");
    check_key(&req, "k");
    ck_assert_int_eq(req.timeout_ns, INT64_C(3000000000));
    req = read_ok("RELEASE k l m\n");
    check_key(&req, "k");
}

TEST(a_tab_is_an_ordinary_byte)
{
    struct pc_request req = read_ok("RELEASE a\tb\n");
    check_key(&req, "a\tb");
    check_refused("RELEASE\tk\n", PC_BAD_COMMAND);
    check_refused("ACQ4ME\tk 1 1\n", PC_BAD_COMMAND);
    check_refused("ACQ4ME k\t1 1\n", PC_BAD_SYNTAX);
    check_refused("ACQ4ME k 1\t 1\n", PC_BAD_SYNTAX);
    ck_assert_int_eq(read_ok("ACQ4ME k 1 1 5\t\n").timeout_ns, 0);
    ck_assert(bytes_equal(read_ok("STATS \tFULL\n").subject, bytes_of("\tFULL")));
}

TEST(a_key_is_any_bytes_but_four)
{
    for (unsigned c = 0; c < 256; c++) {
        char acquire[] = "ACQ4ME aXb 1 1\n";
        char release[] = "RELEASE aXb\n";
        if (c == ' ' || c == '\n')
            continue; /* these end the word or the line */
        acquire[8] = (char)c;
        release[9] = (char)c;
        if (c == '\r' || c == '\0') {
            check_refused_len(acquire, sizeof(acquire) - 1, PC_BAD_SYNTAX);
            check_refused_len(release, sizeof(release) - 1, PC_BAD_SYNTAX);
            continue;
        }
        struct pc_request req;
        ck_assert_int_eq(read_line_at_every_split(acquire, sizeof(acquire) - 1, &req), PC_OK);
        ck_assert(req.key.len == 3 && memcmp(req.key.data, acquire + 7, 3) == 0);
        ck_assert_int_eq(read_line_at_every_split(release, sizeof(release) - 1, &req), PC_OK);
        ck_assert(req.key.len == 3 && memcmp(req.key.data, release + 8, 3) == 0);
    }
    check_refused("RELEASE k\r\r\n", PC_BAD_SYNTAX);
    check_refused("RELEASE \r\r\n", PC_BAD_SYNTAX);
}

/* The parser reads keys several bytes at a time; the end of a key may be at any of them. */
TEST(a_key_is_cut_at_the_same_byte_wherever_it_stands)
{
    static const uint8_t others[] = {'!', 'a', '\t', 0x01, 0x1f, 0x7f, 0x80, 0xa1, 0xff};
    static const uint8_t specials[] = {'\0', '\t', '\r', 0x1f, ' ', '!', 0x80, 0xa0};
    for (size_t len = 1; len <= 34; len++) {
        uint8_t *line = exact_room(8 + len + 1);
        for (size_t i = 0; i < COUNT_OF(others) * COUNT_OF(specials) * len; i++) {
            uint8_t special = specials[i % COUNT_OF(specials)];
            size_t at = i / COUNT_OF(specials) % len;
            memcpy(line, "RELEASE ", 8);
            memset(line + 8, others[i / COUNT_OF(specials) / len], len);
            line[8 + at] = special;
            line[8 + len] = '\n';
            bool in_line_end = special == '\r' && at == len - 1;
            struct pc_request req;
            size_t used = 0;
            enum pc_parsed parsed = pc_parse_request(line, 8 + len + 1, MAX_LINE, &req, &used);
            REQUIRE(used == 8 + len + 1);
            if (special == '\0' || (special == '\r' && !in_line_end)) {
                REQUIRE(parsed == PC_BAD_SYNTAX);
                continue;
            }
            REQUIRE(parsed == PC_OK);
            /* A leading space only adds to the spaces before the key; a later one ends the key. */
            bool in_front = special == ' ' && at == 0;
            bool cut = (special == ' ' && at > 0) || in_line_end;
            REQUIRE(req.key.len == (cut ? at : len - in_front));
            REQUIRE(req.key.len == 0 || req.key.data == line + 8 + in_front);
        }
        free(line);
    }
}

TEST(a_line_of_no_verb_is_a_bad_command)
{
    static const char *const lines[] = {"\n",
                                        "\r\n",
                                        " \n",
                                        "\r\r\n",
                                        "HELLO\n",
                                        "acq4me k 1 1\n",
                                        "Acq4me k 1 1\n",
                                        "ACQ4 k 1 1\n",
                                        "ACQ4MEE k 1 1\n",
                                        "ACQ4ME\n",
                                        "ACQ4ANY\r\n",
                                        "ACQ4ANY,k 1 1\n",
                                        " ACQ4ME k 1 1\n",
                                        " RELEASE\n",
                                        " STATS\n",
                                        "RELEASEX\n",
                                        "RELEASE\r\r\n",
                                        "release\n",
                                        "RELEAS\n",
                                        "STATSX\n",
                                        "stats\n",
                                        "STAT\n",
                                        "STATS\tFULL\n",
                                        "GET / HTTP/1.1\r\n",
                                        "ACQ4ME\r\r\n"};
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        check_refused(lines[i], PC_BAD_COMMAND);
    check_refused_len("RELEASE\0k\n", 10, PC_BAD_COMMAND);
    check_refused_len("\0\n", 2, PC_BAD_COMMAND);
}

TEST(a_limit_missing_or_not_a_positive_number_of_32_bits_is_bad_syntax)
{
    static const char *const limits[] = {"0",
                                         "00",
                                         "-1",
                                         "+1",
                                         "1.0",
                                         "1e3",
                                         "0x10",
                                         "a",
                                         "1a",
                                         "a1",
                                         "4294967296",
                                         "4294967297",
                                         "1,0",
                                         "\r",
                                         "1\r",
                                         "\t1",
                                         "99999999999999999999999999",
                                         "18446744073709551616",
                                         "18446744073709551617",
                                         "\xb9"};
    char line[128];
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        (void)snprintf(line, sizeof(line), "ACQ4ME k %s 1 5\n", limits[i]);
        check_refused(line, PC_BAD_SYNTAX);
        (void)snprintf(line, sizeof(line), "ACQ4ANY k 1 %s 5\n", limits[i]);
        check_refused(line, PC_BAD_SYNTAX);
    }
    check_refused("ACQ4ME \n", PC_BAD_SYNTAX);
    check_refused("ACQ4ME     \r\n", PC_BAD_SYNTAX);
    check_refused("ACQ4ME k\n", PC_BAD_SYNTAX);
    check_refused("ACQ4ME k \n", PC_BAD_SYNTAX);
    check_refused("ACQ4ME k 1\n", PC_BAD_SYNTAX);
    check_refused("ACQ4ANY k 1  \r\n", PC_BAD_SYNTAX);
    check_refused_len("ACQ4ME k 1\0 1\n", 14, PC_BAD_SYNTAX);
}

TEST(limits_reach_the_edge_of_32_bits)
{
    struct pc_request req = read_ok("ACQ4ME k 4294967295 4294967295 0\n");
    ck_assert_uint_eq(req.workers, UINT32_MAX);
    ck_assert_uint_eq(req.maxqueue, UINT32_MAX);
    req = read_ok("ACQ4ME k 1 4294967294 0\n");
    ck_assert_uint_eq(req.workers, 1);
    ck_assert_uint_eq(req.maxqueue, UINT32_MAX - 1);
    req = read_ok("ACQ4ME k 000000000000000000000000000007 08 0\n");
    ck_assert_uint_eq(req.workers, 7);
    ck_assert_uint_eq(req.maxqueue, 8);
}

TEST(timeouts_are_decimal_seconds_and_unreadable_ones_are_0)
{
    static const struct {
        const char *text;
        int64_t ns;
    } rows[] = {
        {"0", 0},
        {"5", INT64_C(5000000000)},
        {"5.", INT64_C(5000000000)},
        {"007", INT64_C(7000000000)},
        {"0.5", 500000000},
        {".5", 500000000},
        {"00.50", 500000000},
        {"1.000000001", INT64_C(1000000001)},
        {"0.000000001", 1},
        {"0.0000000001", 0},
        {"0.9999999999999999999999999999999", 999999999},
        {"1.123456789987654321", INT64_C(1123456789)},
        {"4294967294.999999999", PC_TIMEOUT_MAX_NS - 1},
        {"4294967295", PC_TIMEOUT_MAX_NS},
        {"4294967295.000000001", PC_TIMEOUT_MAX_NS},
        {"4294967296", PC_TIMEOUT_MAX_NS},
        {"42949672959.5", PC_TIMEOUT_MAX_NS},
        {"18446744073709551616", PC_TIMEOUT_MAX_NS},
        {"18446744073709551617.5", PC_TIMEOUT_MAX_NS},
        {"99999999999999999999999999999999999999999", PC_TIMEOUT_MAX_NS},
        {".", 0},
        {"", 0},
        {"-5", 0},
        {"+5", 0},
        {"-0.5", 0},
        {"5e3", 0},
        {"5s", 0},
        {"1,5", 0},
        {"1.5.5", 0},
        {"..5", 0},
        {"1.-5", 0},
        {"0x5", 0},
        {"inf", 0},
        {"nan", 0},
        {"99999999999999999999x", 0},
        {"0.99999999999999999999x", 0},
    };
    char line[128];
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        (void)snprintf(line, sizeof(line), "ACQ4ME k 1 1 %s\n", rows[i].text);
        struct pc_request req = read_ok(line);
        if (rows[i].ns != req.timeout_ns)
            ck_abort_msg("%s is %" PRId64, rows[i].text, req.timeout_ns);
    }
    /* One "\r" before "\n" belongs to the line end; a second one does not. */
    ck_assert_int_eq(read_ok("ACQ4ME k 1 1 5\r\n").timeout_ns, INT64_C(5000000000));
    ck_assert_int_eq(read_ok("ACQ4ME k 1 1 5\r\r\n").timeout_ns, 0);

    struct pc_request req;
    ck_assert_int_eq(read_line_at_every_split("ACQ4ME k 1 1 5\0\n", 16, &req), PC_OK);
    ck_assert_int_eq(req.timeout_ns, 0);
}

TEST(release_with_and_without_a_key)
{
    struct pc_request req = read_ok("RELEASE\n");
    ck_assert_int_eq(req.verb, PC_RELEASE);
    ck_assert_uint_eq(req.key.len, 0);
    ck_assert_uint_eq(req.workers, 0);
    ck_assert_int_eq(req.timeout_ns, 0);
    req = read_ok("RELEASE \n");
    ck_assert_uint_eq(req.key.len, 0);
    req = read_ok("RELEASE some:key\n");
    ck_assert_int_eq(req.verb, PC_RELEASE);
    check_key(&req, "some:key");
}

TEST(stats_subject_is_the_rest_without_blanks_around_it)
{
    ck_assert_uint_eq(read_ok("STATS\n").subject.len, 0);
    ck_assert_uint_eq(read_ok("STATS   \n").subject.len, 0);
    ck_assert(bytes_equal(read_ok("STATS FULL\n").subject, bytes_of("FULL")));
    ck_assert(bytes_equal(read_ok("STATS   uptime  \r\n").subject, bytes_of("uptime")));
    ck_assert(bytes_equal(read_ok("STATS  a  b \n").subject, bytes_of("a  b")));
    struct pc_request req = read_ok("STATS FULL\n");
    ck_assert_int_eq(req.verb, PC_STATS);
    ck_assert_uint_eq(req.key.len, 0);
}

/* A line of `len` bytes, and `end`. */
static char *line_of(size_t len, const char *end)
{
    char *line = malloc(len + strlen(end) + 1);
    REQUIRE(line);
    memset(line, 'k', len);
    memcpy(line, "RELEASE ", len < 8 ? len : 8);
    memcpy(line + len, end, strlen(end) + 1);
    return line;
}

static enum pc_parsed parse_with_max(const char *line, size_t len, size_t max_line, size_t *used)
{
    struct pc_request req;
    uint8_t *copy = exact_copy(line, len);
    enum pc_parsed parsed = pc_parse_request(copy, len, max_line, &req, used);
    free(copy);
    return parsed;
}

TEST(the_longest_line_is_accepted_and_one_byte_more_is_not)
{
    static const size_t maxima[] = {8, 9, 100, 8192};
    static const char *const ends[] = {"\n", "\r\n"};
    size_t used = 77;
    for (size_t i = 0; i < COUNT_OF(maxima) * COUNT_OF(ends); i++) {
        size_t max = maxima[i / 2];
        const char *end = ends[i % 2];
        char *fits = line_of(max, end);
        char *longer = line_of(max + 1, end);
        size_t len = strlen(fits);
        ck_assert_int_eq(parse_with_max(fits, len, max, &used), PC_OK);
        ck_assert_uint_eq(used, len);
        for (size_t n = 0; n < len; n += n + 8 < max ? 7 : 1) {
            REQUIRE(parse_with_max(fits, n, max, &used) == PC_MORE);
            REQUIRE(used == 0);
        }
        for (size_t n = max + 1; n <= max + 1 + strlen(end); n++) {
            ck_assert_int_eq(parse_with_max(longer, n, max, &used), PC_LINE_TOO_LONG);
            ck_assert_uint_eq(used, 0);
        }
        free(fits);
        free(longer);
    }
}

TEST(a_line_too_long_is_told_without_its_end)
{
    size_t used = 77;
    ck_assert_int_eq(parse_with_max("12345", 5, 5, &used), PC_MORE);
    ck_assert_int_eq(parse_with_max("123456", 6, 5, &used), PC_LINE_TOO_LONG);
    /* A final "\r" may belong to the line end, until another byte follows. */
    ck_assert_int_eq(parse_with_max("12345\r", 6, 5, &used), PC_MORE);
    ck_assert_int_eq(parse_with_max("12345\r\n", 7, 5, &used), PC_BAD_COMMAND);
    ck_assert_uint_eq(used, 7);
    ck_assert_int_eq(parse_with_max("12345\rX", 7, 5, &used), PC_LINE_TOO_LONG);
    ck_assert_uint_eq(used, 0);
    ck_assert_int_eq(parse_with_max("12345\r\r", 7, 5, &used), PC_LINE_TOO_LONG);
    ck_assert_int_eq(parse_with_max("12345\r\r\n", 8, 5, &used), PC_LINE_TOO_LONG);
    ck_assert_int_eq(parse_with_max("12345\rX\n", 8, 5, &used), PC_LINE_TOO_LONG);
    ck_assert_int_eq(parse_with_max("123456\r", 7, 5, &used), PC_LINE_TOO_LONG);
}

TEST(limits_of_0_and_of_all_memory_do_not_wrap)
{
    size_t used = 77;
    ck_assert_int_eq(parse_with_max("", 0, 0, &used), PC_MORE);
    ck_assert_int_eq(parse_with_max("\r", 1, 0, &used), PC_MORE);
    ck_assert_int_eq(parse_with_max("\n", 1, 0, &used), PC_BAD_COMMAND);
    ck_assert_int_eq(parse_with_max("\r\n", 2, 0, &used), PC_BAD_COMMAND);
    ck_assert_uint_eq(used, 2);
    ck_assert_int_eq(parse_with_max("x", 1, 0, &used), PC_LINE_TOO_LONG);
    for (size_t less = 0; less < 4; less++) {
        ck_assert_int_eq(parse_with_max("STATS\n", 6, SIZE_MAX - less, &used), PC_OK);
        ck_assert_int_eq(parse_with_max("STATS", 5, SIZE_MAX - less, &used), PC_MORE);
    }
}

TEST(several_lines_in_one_buffer_are_read_one_by_one)
{
    static const char text[] = "ACQ4ME a 1 2 3\nRELEASE a\r\n\nNO\nACQ4ME b\nSTATS uptime\nRELEA";
    static const struct {
        enum pc_parsed parsed;
        size_t used;
    } rows[] = {{PC_OK, 15},        {PC_OK, 11}, {PC_BAD_COMMAND, 1}, {PC_BAD_COMMAND, 3},
                {PC_BAD_SYNTAX, 9}, {PC_OK, 13}, {PC_MORE, 0}};
    const uint8_t *at = (const uint8_t *)text;
    size_t left = sizeof(text) - 1;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct pc_request req;
        size_t used = 77;
        ck_assert_int_eq(pc_parse_request(at, left, MAX_LINE, &req, &used), rows[i].parsed);
        ck_assert_uint_eq(used, rows[i].used);
        at += used;
        left -= used;
    }
    ck_assert_uint_eq(left, 5);
}

/* ---- Requests, written ---------------------------------------------------------------------- */

static struct pc_request acquire_of(enum pc_verb verb, const char *key, int64_t timeout_ns)
{
    return (struct pc_request){
        .verb = verb, .key = bytes_of(key), .workers = 2, .maxqueue = 50, .timeout_ns = timeout_ns};
}

TEST(composed_requests_are_these_lines)
{
    struct pc_request req = acquire_of(PC_ACQ4ME, "enwiki:pcache:1", INT64_C(15000000000));
    check_composed(&req, "ACQ4ME enwiki:pcache:1 2 50 15\n");
    req = acquire_of(PC_ACQ4ANY, "k", 0);
    check_composed(&req, "ACQ4ANY k 2 50 0\n");
    req.workers = UINT32_MAX;
    req.maxqueue = UINT32_MAX;
    req.timeout_ns = PC_TIMEOUT_MAX_NS;
    check_composed(&req, "ACQ4ANY k 4294967295 4294967295 4294967295\n");
    req = (struct pc_request){.verb = PC_RELEASE};
    check_composed(&req, "RELEASE\n");
    req.key = bytes_of("a%20b\t\xff");
    check_composed(&req, "RELEASE a%20b\t\xff\n");
    req = (struct pc_request){.verb = PC_STATS};
    check_composed(&req, "STATS\n");
    req.subject = bytes_of("FULL");
    check_composed(&req, "STATS FULL\n");
}

TEST(composed_timeouts_have_no_more_digits_than_needed)
{
    static const struct {
        int64_t ns;
        const char *line;
    } rows[] = {
        {1, "ACQ4ME k 2 50 0.000000001\n"},
        {10, "ACQ4ME k 2 50 0.00000001\n"},
        {500000000, "ACQ4ME k 2 50 0.5\n"},
        {50000000, "ACQ4ME k 2 50 0.05\n"},
        {999999999, "ACQ4ME k 2 50 0.999999999\n"},
        {1000000000, "ACQ4ME k 2 50 1\n"},
        {1000000001, "ACQ4ME k 2 50 1.000000001\n"},
        {INT64_C(10250000000), "ACQ4ME k 2 50 10.25\n"},
        {PC_TIMEOUT_MAX_NS - 1, "ACQ4ME k 2 50 4294967294.999999999\n"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct pc_request req = acquire_of(PC_ACQ4ME, "k", rows[i].ns);
        check_composed(&req, rows[i].line);
    }
}

TEST(limits_of_0_can_be_composed_for_a_server_to_refuse)
{
    struct pc_request req = {.verb = PC_ACQ4ME, .key = bytes_of("k")};
    char *line = compose(&req);
    ck_assert_str_eq(line, "ACQ4ME k 0 0 0\n");
    check_refused(line, PC_BAD_SYNTAX);
    free(line);
}

TEST(what_would_be_another_request_is_not_composed)
{
    static const char bad[] = {' ', '\r', '\n', '\0'};
    uint8_t to[64];
    for (size_t i = 0; i < sizeof(bad); i++) {
        const uint8_t key[] = {'a', (uint8_t)bad[i], 'b'};
        for (enum pc_verb verb = PC_ACQ4ANY; verb <= PC_RELEASE; verb++) {
            struct pc_request req = acquire_of(verb, "", 0);
            req.key = (struct bytes){.data = key, .len = sizeof(key)};
            ck_assert_uint_eq(pc_compose_request(&req, to, sizeof(to)), 0);
        }
    }
    struct pc_request req = acquire_of(PC_ACQ4ME, "", 0);
    ck_assert_uint_eq(pc_compose_request(&req, to, sizeof(to)), 0);
    req = acquire_of(PC_ACQ4ME, "k", -1);
    ck_assert_uint_eq(pc_compose_request(&req, to, sizeof(to)), 0);
    req = (struct pc_request){.verb = PC_STATS, .subject = bytes_of("FULL\nRELEASE")};
    ck_assert_uint_eq(pc_compose_request(&req, to, sizeof(to)), 0);
    req.subject = bytes_of("FULL\r");
    ck_assert_uint_eq(pc_compose_request(&req, to, sizeof(to)), 0);
    req = (struct pc_request){.verb = (enum pc_verb)(PC_STATS + 1)};
    ck_assert_uint_eq(pc_compose_request(&req, to, sizeof(to)), 0);
}

TEST(random_requests_survive_a_round_trip)
{
    uint64_t seed = 20;
    uint8_t to[256];
    for (int i = 0; i < 200000; i++) {
        uint8_t key[100];
        size_t key_len = 1 + random_below(&seed, sizeof(key));
        for (size_t k = 0; k < key_len; k++) {
            do
                key[k] = (uint8_t)random_next(&seed);
            while (memchr(" \r\n", key[k], 4)); /* and the terminating null byte */
        }
        struct pc_request req = {.verb = (enum pc_verb)random_below(&seed, 3)};
        req.key = (struct bytes){.data = key, .len = key_len};
        if (req.verb != PC_RELEASE) {
            req.workers = (uint32_t)random_next(&seed) | 1;
            req.maxqueue = (uint32_t)random_next(&seed) | 1;
            req.timeout_ns = (int64_t)(random_next(&seed) % ((uint64_t)PC_TIMEOUT_MAX_NS + 1));
            req.timeout_ns >>= (unsigned)random_below(&seed, 62);
        }
        size_t len = pc_compose_request(&req, to, sizeof(to));
        REQUIRE(len > 0);
        struct pc_request again;
        size_t used = 0;
        REQUIRE(pc_parse_request(to, len, MAX_LINE, &again, &used) == PC_OK);
        REQUIRE(used == len);
        REQUIRE(same_request(&req, &again));
    }
}

/* ---- Replies -------------------------------------------------------------------------------- */

/* Parses `text` (with its end) at every split. */
static enum pc_reply reply_of(const char *text, size_t len, struct bytes *line)
{
    enum pc_reply reply = PC_REPLY_LOCKED;
    size_t used = 77;
    for (size_t n = 0; n < len; n++) {
        uint8_t *part = exact_copy(text, n);
        REQUIRE(pc_parse_reply(part, n, MAX_LINE, &reply, line, &used) == PC_MORE);
        REQUIRE(used == 0);
        free(part);
    }
    const uint8_t *data = (const uint8_t *)text;
    ck_assert_int_eq(pc_parse_reply(data, len, MAX_LINE, &reply, line, &used), PC_OK);
    ck_assert_uint_eq(used, len);
    ck_assert_ptr_eq(line->data, data);
    return reply;
}

TEST(replies_are_these_words)
{
    static const struct {
        enum pc_reply reply;
        const char *line;
    } rows[] = {
        {PC_REPLY_LOCKED, "LOCKED\n"},
        {PC_REPLY_DONE, "DONE\n"},
        {PC_REPLY_QUEUE_FULL, "QUEUE_FULL\n"},
        {PC_REPLY_TIMEOUT, "TIMEOUT\n"},
        {PC_REPLY_LOCK_HELD, "LOCK_HELD\n"},
        {PC_REPLY_NOT_LOCKED, "NOT_LOCKED\n"},
        {PC_REPLY_RELEASED, "RELEASED\n"},
        {PC_REPLY_BAD_COMMAND, "ERROR BAD_COMMAND\n"},
        {PC_REPLY_BAD_SYNTAX, "ERROR BAD_SYNTAX\n"},
        {PC_REPLY_WAIT_FOR_RESPONSE, "ERROR WAIT_FOR_RESPONSE\n"},
        {PC_REPLY_WRONG_STAT, "ERROR WRONG_STAT\n"},
        {PC_REPLY_LINE_TOO_LONG, "ERROR LINE_TOO_LONG\n"},
        {PC_REPLY_OUT_OF_MEMORY, "ERROR OUT_OF_MEMORY\n"},
        {PC_REPLY_SHUTTING_DOWN, "ERROR SHUTTING_DOWN\n"},
        {PC_REPLY_ENGINE_AWAY, "ERROR ENGINE_AWAY\n"},
        {PC_REPLY_ENGINE_FULL, "ERROR ENGINE_FULL\n"},
    };
    ck_assert_uint_eq(COUNT_OF(rows), PC_REPLY_COUNT);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct bytes line = pc_reply_line(rows[i].reply);
        ck_assert(bytes_equal(line, bytes_of(rows[i].line)));
        struct bytes read;
        ck_assert_int_eq(reply_of(rows[i].line, strlen(rows[i].line), &read), rows[i].reply);
        ck_assert_uint_eq(read.len, strlen(rows[i].line) - 1);
    }
    ck_assert_uint_eq(pc_reply_line(PC_REPLY_OTHER).len, 0);
}

TEST(a_reply_of_no_fixed_word_is_another_line)
{
    static const char *const lines[] = {"",      "locked", "LOCKED ", " LOCKED",
                                        "LOCKE", "ERROR",  "LOCKEDX", "uptime: 0 days, 0h 0m 1s"};
    char text[64];
    struct bytes line;
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        (void)snprintf(text, sizeof(text), "%s\n", lines[i]);
        ck_assert_int_eq(reply_of(text, strlen(text), &line), PC_REPLY_OTHER);
        ck_assert(bytes_equal(line, bytes_of(lines[i])));
    }
    ck_assert_int_eq(reply_of("LOCKED\0\n", 8, &line), PC_REPLY_OTHER);
    ck_assert_uint_eq(line.len, 7);
    ck_assert_int_eq(reply_of("DONE\r\n", 6, &line), PC_REPLY_DONE);
    ck_assert_uint_eq(line.len, 4);
}

TEST(replies_in_one_buffer_are_read_one_by_one)
{
    static const char text[] = "LOCKED\nRELEASED\nuptime: 1\n\nDO";
    static const enum pc_reply expected[] = {PC_REPLY_LOCKED, PC_REPLY_RELEASED, PC_REPLY_OTHER,
                                             PC_REPLY_OTHER};
    const uint8_t *at = (const uint8_t *)text;
    size_t left = sizeof(text) - 1;
    enum pc_reply reply = PC_REPLY_DONE;
    struct bytes line;
    size_t used = 77;
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        ck_assert_int_eq(pc_parse_reply(at, left, MAX_LINE, &reply, &line, &used), PC_OK);
        ck_assert_int_eq(reply, expected[i]);
        at += used;
        left -= used;
    }
    ck_assert_uint_eq(line.len, 0);
    ck_assert_int_eq(pc_parse_reply(at, left, MAX_LINE, &reply, &line, &used), PC_MORE);
}

TEST(a_reply_line_too_long_is_told)
{
    enum pc_reply reply = PC_REPLY_DONE;
    struct bytes line;
    size_t used = 77;
    const uint8_t *locked = (const uint8_t *)"LOCKED\n";
    ck_assert_int_eq(pc_parse_reply(locked, 7, 6, &reply, &line, &used), PC_OK);
    ck_assert_int_eq(pc_parse_reply(locked, 7, 5, &reply, &line, &used), PC_LINE_TOO_LONG);
    ck_assert_uint_eq(used, 0);
    ck_assert_int_eq(pc_parse_reply(locked, 6, 5, &reply, &line, &used), PC_LINE_TOO_LONG);
    ck_assert_int_eq(pc_parse_reply(locked, 5, 5, &reply, &line, &used), PC_MORE);
}

/* ---- STATS ---------------------------------------------------------------------------------- */

static char stats_text[PC_STATS_ROOM + 1];

/* The answer to STATS `subject` as a C string; "" if there is none. */
static const char *stats_of(const struct pc_stats *stats, const char *subject)
{
    char *exact = malloc(PC_STATS_ROOM);
    REQUIRE(exact);
    size_t len = pc_compose_stats(stats, bytes_of(subject), exact, PC_STATS_ROOM);
    REQUIRE(len <= PC_STATS_ROOM);
    memcpy(stats_text, exact, len);
    stats_text[len] = '\0';
    free(exact);
    return stats_text;
}

/* The line "gained time: ..." for this gain. */
static const char *duration_of(pc_ns ns)
{
    static char line[128];
    struct pc_stats stats = {.gained_ns = ns};
    const char *start = strstr(stats_of(&stats, "FULL"), "gained time: ");
    ck_assert_ptr_nonnull(start);
    start += strlen("gained time: ");
    size_t len = strcspn(start, "\n");
    memcpy(line, start, len);
    line[len] = '\0';
    return line;
}

TEST(full_stats_are_byte_for_byte_poolcounterds)
{
    const struct pc_stats stats = {
        .uptime_s = 1, .processing_ns = 27999, .total_acquired = 1, .processed_count = 1};
    static const char expected[] = "uptime: 0 days, 0h 0m 1s\n"
                                   "total processing time: 0.000027s\n"
                                   "average processing time: 0.000027s\n"
                                   "gained time: 0.000000s\n"
                                   "waiting time: 0.000000s\n"
                                   "waiting time for me: 0.000000s\n"
                                   "waiting time for anyone: 0.000000s\n"
                                   "waiting time for good: 0.000000s\n"
                                   "wasted timeout time: 0.000000s\n"
                                   "total_acquired: 1\n"
                                   "total_releases: 0\n"
                                   "hashtable_entries: 0\n"
                                   "processing_workers: 0\n"
                                   "waiting_workers: 0\n"
                                   "connect_errors: 0\n"
                                   "failed_sends: 0\n"
                                   "full_queues: 0\n"
                                   "lock_mismatch: 0\n"
                                   "lock_while_waiting: 0\n"
                                   "release_mismatch: 0\n"
                                   "processed_count: 1\n"
                                   "\n";
    ck_assert_str_eq(stats_of(&stats, "FULL"), expected);
    ck_assert_str_eq(stats_of(&stats, "full"), expected);
    ck_assert_str_eq(stats_of(&stats, "fUlL"), expected);
    ck_assert_str_eq(stats_of(&stats, ""), expected);
}

/* Every field has a distinct value, so that a swap would show. */
static struct pc_stats stats_of_many(void)
{
    return (struct pc_stats){.uptime_s = UINT64_C(54754946),
                             .processing_ns = INT64_C(90061000001000),
                             .gained_ns = INT64_C(3661000002000),
                             .waiting_ns = INT64_C(61000003000),
                             .waiting_for_me_ns = INT64_C(59999999000),
                             .waiting_for_anyone_ns = INT64_C(60000000000),
                             .waiting_for_good_ns = INT64_C(86400000000000),
                             .wasted_timeout_ns = INT64_C(3600000000000),
                             .total_acquired = UINT64_C(7739031655),
                             .total_releases = UINT64_C(7736374042),
                             .hashtable_entries = 119,
                             .processing_workers = 120,
                             .waiting_workers = 216,
                             .connect_errors = 5,
                             .failed_sends = 6,
                             .full_queues = 10294544,
                             .lock_mismatch = 227,
                             .lock_while_waiting = 8,
                             .release_mismatch = 9,
                             .processed_count = UINT64_MAX};
}

TEST(every_value_is_on_its_own_line)
{
    const struct pc_stats stats = stats_of_many();
    ck_assert_str_eq(stats_of(&stats, "FULL"), "uptime: 633 days, 17h 42m 26s\n"
                                               "total processing time: 1 days 1h 1m 1.000001s\n"
                                               "average processing time: 0.000000s\n"
                                               "gained time: 1h 1m 1.000002s\n"
                                               "waiting time: 1m 1.000003s\n"
                                               "waiting time for me: 59.999999s\n"
                                               "waiting time for anyone: 1m 0.000000s\n"
                                               "waiting time for good: 1 days 0h 0m 0.000000s\n"
                                               "wasted timeout time: 1h 0m 0.000000s\n"
                                               "total_acquired: 7739031655\n"
                                               "total_releases: 7736374042\n"
                                               "hashtable_entries: 119\n"
                                               "processing_workers: 120\n"
                                               "waiting_workers: 216\n"
                                               "connect_errors: 5\n"
                                               "failed_sends: 6\n"
                                               "full_queues: 10294544\n"
                                               "lock_mismatch: 227\n"
                                               "lock_while_waiting: 8\n"
                                               "release_mismatch: 9\n"
                                               "processed_count: 18446744073709551615\n"
                                               "\n");
}

TEST(one_stat_is_one_line)
{
    struct pc_stats stats = stats_of_many();
    ck_assert_str_eq(stats_of(&stats, "UPTIME"), "uptime: 633 days, 17h 42m 26s\n");
    ck_assert_str_eq(stats_of(&stats, "Uptime"), "uptime: 633 days, 17h 42m 26s\n");
    char expected[64];
#define ROW(name)                                                                                  \
    (void)snprintf(expected, sizeof(expected), #name ": %" PRIu64 "\n", stats.name);               \
    ck_assert_str_eq(stats_of(&stats, #name), expected);
    PC_COUNTS(ROW)
#undef ROW
    ck_assert_str_eq(stats_of(&stats, "PROCESSED_COUNT"),
                     "processed_count: 18446744073709551615\n");
    ck_assert_str_eq(stats_of(&stats, "Lock_Mismatch"), "lock_mismatch: 227\n");
}

TEST(no_other_stat_can_be_asked_for)
{
    static const char *const subjects[] = {"FULLX",
                                           "FUL",
                                           "FULL UPTIME",
                                           "UPTIME:",
                                           "gained time",
                                           "waiting",
                                           "waiting time",
                                           "uptime_s",
                                           "gained_ns",
                                           "total processing time",
                                           "*",
                                           "\xc6ULL",
                                           "processed_count\x7f",
                                           "average processing time",
                                           "K"};
    struct pc_stats stats = {0};
    for (size_t i = 0; i < COUNT_OF(subjects); i++)
        ck_assert_str_eq(stats_of(&stats, subjects[i]), "");
    const struct bytes with_nul = {.data = (const uint8_t *)"FULL", .len = 5};
    char to[PC_STATS_ROOM];
    ck_assert_uint_eq(pc_compose_stats(&stats, with_nul, to, sizeof(to)), 0);
}

TEST(durations_show_larger_units_only_from_where_they_begin)
{
    static const struct {
        pc_ns ns;
        const char *text;
    } rows[] = {
        {0, "0.000000s"},
        {999, "0.000000s"},
        {1000, "0.000001s"},
        {999999, "0.000999s"},
        {999999999, "0.999999s"},
        {INT64_C(1000000000), "1.000000s"},
        {INT64_C(59999999999), "59.999999s"},
        {INT64_C(60000000000), "1m 0.000000s"},
        {INT64_C(3599999999999), "59m 59.999999s"},
        {INT64_C(3600000000000), "1h 0m 0.000000s"},
        {INT64_C(86399999999999), "23h 59m 59.999999s"},
        {INT64_C(86400000000000), "1 days 0h 0m 0.000000s"},
        {INT64_C(86460000000000), "1 days 0h 1m 0.000000s"},
        {INT64_C(80093898438000), "22h 14m 53.898438s"},
        {INT64_MAX, "106751 days 23h 47m 16.854775s"},
        {(pc_ns)INT64_MAX + 1, "106751 days 23h 47m 16.854775s"},
        {UINT64_MAX, "213503 days 23h 34m 33.709551s"},
        {(pc_ns)UINT64_MAX + 1, "213503 days 23h 34m 33.709551s"},
        {(pc_ns)1000000 * 3652 * 86400 * 1000000000, "3652000000 days 0h 0m 0.000000s"},
        {PC_NS_MAX, "213503982334601 days 7h 0m 15.999999s"},
        {PC_NS_MAX + 1, "213503982334601 days 7h 0m 15.999999s"},
        {~(pc_ns)0, "213503982334601 days 7h 0m 15.999999s"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        ck_assert_str_eq(duration_of(rows[i].ns), rows[i].text);
}

TEST(uptime_always_has_all_four_parts)
{
    static const struct {
        uint64_t seconds;
        const char *text;
    } rows[] = {
        {0, "uptime: 0 days, 0h 0m 0s\n"},
        {59, "uptime: 0 days, 0h 0m 59s\n"},
        {60, "uptime: 0 days, 0h 1m 0s\n"},
        {3599, "uptime: 0 days, 0h 59m 59s\n"},
        {3600, "uptime: 0 days, 1h 0m 0s\n"},
        {86399, "uptime: 0 days, 23h 59m 59s\n"},
        {86400, "uptime: 1 days, 0h 0m 0s\n"},
        {UINT64_MAX, "uptime: 213503982334601 days, 7h 0m 15s\n"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct pc_stats stats = {.uptime_s = rows[i].seconds};
        ck_assert_str_eq(stats_of(&stats, "uptime"), rows[i].text);
        struct pc_stats read = {0};
        struct bytes line = {.data = (const uint8_t *)rows[i].text,
                             .len = strlen(rows[i].text) - 1};
        ck_assert(pc_parse_stats_line(line, &read));
        ck_assert(read.uptime_s == rows[i].seconds);
    }
}

TEST(average_is_total_by_count_and_0_of_none)
{
    struct pc_stats stats = {.processing_ns = INT64_C(100000000000), .processed_count = 3};
    ck_assert_ptr_nonnull(strstr(stats_of(&stats, ""), "\naverage processing time: 33.333333s\n"));
    stats.processed_count = 0;
    ck_assert_ptr_nonnull(strstr(stats_of(&stats, ""), "\naverage processing time: 0.000000s\n"));
    stats.processing_ns = (pc_ns)INT64_MAX * 1000;
    stats.processed_count = 1000;
    ck_assert_ptr_nonnull(strstr(stats_of(&stats, ""), "\naverage processing time: 106751 days 23h "
                                                       "47m 16.854775s\n"));
}

TEST(the_longest_stats_fit_in_their_room_and_in_nothing_smaller)
{
    struct pc_stats stats;
    memset(&stats, 0xff, sizeof(stats)); /* every number has its longest form */
    stats.processed_count = 1;           /* the average too */
    char *to = malloc(PC_STATS_ROOM);
    ck_assert_ptr_nonnull(to);
    size_t len = pc_compose_stats(&stats, bytes_of("FULL"), to, PC_STATS_ROOM);
    ck_assert_uint_gt(len, 0);
    free(to);
    for (size_t room = 0; room <= len; room++) {
        to = (char *)exact_room(room);
        REQUIRE(pc_compose_stats(&stats, bytes_of("FULL"), to, room) == (room == len ? len : 0));
        free(to);
    }
}

static const size_t times[] = {
    offsetof(struct pc_stats, processing_ns),
    offsetof(struct pc_stats, gained_ns),
    offsetof(struct pc_stats, waiting_ns),
    offsetof(struct pc_stats, waiting_for_me_ns),
    offsetof(struct pc_stats, waiting_for_anyone_ns),
    offsetof(struct pc_stats, waiting_for_good_ns),
    offsetof(struct pc_stats, wasted_timeout_ns),
};

static pc_ns *time_in(struct pc_stats *stats, size_t number)
{
    void *at = (uint8_t *)stats + times[number];
    return at;
}

static bool are_same(const struct pc_stats *a, const struct pc_stats *b)
{
    bool same = a->uptime_s == b->uptime_s;
    struct pc_stats of_a = *a, of_b = *b;
    for (size_t i = 0; i < COUNT_OF(times); i++)
        same &= *time_in(&of_a, i) == *time_in(&of_b, i);
#define ROW(name) same &= a->name == b->name;
    PC_COUNTS(ROW)
#undef ROW
    return same;
}

/* Parses an answer to STATS line by line; returns the number of known lines. */
static int read_stats(const char *text, struct pc_stats *stats)
{
    int known = 0;
    while (*text) {
        size_t len = strcspn(text, "\n");
        uint8_t *exact = exact_copy(text, len);
        known += pc_parse_stats_line((struct bytes){.data = exact, .len = len}, stats);
        free(exact);
        text += len + (text[len] == '\n');
    }
    return known;
}

TEST(stats_that_were_written_can_be_read)
{
    const struct pc_stats stats = stats_of_many();
    struct pc_stats read;
    memset(&read, 0, sizeof(read));
    ck_assert_int_eq(read_stats(stats_of(&stats, "FULL"), &read), 21);
    ck_assert(are_same(&read, &stats));
}

TEST(random_stats_survive_a_round_trip)
{
    uint64_t seed = 4;
    for (int i = 0; i < 5000; i++) {
        struct pc_stats stats = {.uptime_s = random_next(&seed) >> random_below(&seed, 64)};
        struct pc_stats read = {0};
        for (size_t k = 0; k < COUNT_OF(times); k++) /* whole microseconds only */
            *time_in(&stats, k) = (pc_ns)(random_next(&seed) >> random_below(&seed, 64)) *
                                  (1 + random_below(&seed, 1000000)) * 1000;
#define ROW(name) stats.name = random_next(&seed) >> random_below(&seed, 64);
        PC_COUNTS(ROW)
#undef ROW
        REQUIRE(read_stats(stats_of(&stats, "FULL"), &read) == 21);
        REQUIRE(are_same(&read, &stats));
    }
}

TEST(lines_that_are_no_stats_change_nothing)
{
    static const char *const lines[] = {"",
                                        ":",
                                        "uptime",
                                        "uptime:",
                                        "uptime: ",
                                        "uptime:0 days, 0h 0m 1s",
                                        "uptime: 0 days, 0h 0m 1",
                                        "uptime: 0 days, 0h 0m s",
                                        "uptime: 0 days, 0h 0m 1s ",
                                        "uptime: 0 days, 0h 1s",
                                        "uptime: 0 days, 24h 0m 1s",
                                        "uptime: 0 days, 0h 60m 1s",
                                        "uptime: 0 days, 0h 0m 60s",
                                        "uptime: 0 days 0h 0m 1s",
                                        "uptime: 00 days, 0h 0m 1s",
                                        "uptime: -1 days, 0h 0m 1s",
                                        "uptime: 213503982334601 days, 7h 0m 16s",
                                        "uptime: 213503982334602 days, 0h 0m 0s",
                                        "uptime: 18446744073709551616 days, 0h 0m 0s",
                                        "Uptime: 0 days, 0h 0m 1s",
                                        " uptime: 0 days, 0h 0m 1s",
                                        "uptime: 0 days, 0h 0m 1s\r",
                                        "gained time: 1.00000s",
                                        "gained time: 1.0000000s",
                                        "gained time: 1.s",
                                        "gained time: .000000s",
                                        "gained time: 1s",
                                        "gained time: 1.000000",
                                        "gained time: 1.000000s\n",
                                        "gained time: 60.000000s",
                                        "gained time: 0m 1.000000s",
                                        "gained time: 60m 1.000000s",
                                        "gained time: 1h 1.000000s",
                                        "gained time: 1 days 24h 0m 1.000000s",
                                        "gained time: 1867 days 44820h 50m 24.000000s",
                                        "gained time: 1m 1h 0.000000s",
                                        "gained time: 213503982334601 days 7h 0m 16.000000s",
                                        "gained time: 213503982334602 days 0h 0m 0.000000s",
                                        "gained time: 999999999999999999 days 0h 0m 0.000000s",
                                        "gained time: 0.18446744073709551616s",
                                        "gained time: 0.18446744073709551615s",
                                        "gained time: 106751 days 0h 0m 0.18446744073709551s",
                                        "gained time: 0.99999999999999999999999s",
                                        "average processing time: x",
                                        "total_acquired: ",
                                        "total_acquired: -1",
                                        "total_acquired: 01",
                                        "total_acquired: 1 ",
                                        "total_acquired: 1.0",
                                        "total_acquired: 18446744073709551616",
                                        "total_acquired:1",
                                        "total_acquiredx: 1",
                                        "TOTAL_ACQUIRED: 1",
                                        "unheard_of: 1",
                                        "gained_ns: 1",
                                        "LOCKED"};
    const struct pc_stats before = stats_of_many();
    struct pc_stats stats = stats_of_many();
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        uint8_t *exact = exact_copy(lines[i], strlen(lines[i]));
        if (pc_parse_stats_line((struct bytes){.data = exact, .len = strlen(lines[i])}, &stats))
            ck_abort_msg("known: %s", lines[i]);
        free(exact);
        ck_assert(are_same(&stats, &before));
    }
    ck_assert(!pc_parse_stats_line((struct bytes){0}, &stats));
    ck_assert(pc_parse_stats_line(bytes_of("average processing time: 1m 2.000000s"), &stats));
    ck_assert(are_same(&stats, &before));
}

/* ---- Bytes of any kind ---------------------------------------------------------------------- */

/* Writes pieces of the protocol and noise to `to`; returns the length. */
static size_t random_input(uint64_t *seed, uint8_t *to, size_t room)
{
    static const char *const pieces[] = {"ACQ4ME ",
                                         "ACQ4ANY ",
                                         "RELEASE",
                                         "STATS",
                                         " ",
                                         "  ",
                                         "\n",
                                         "\r\n",
                                         "\r",
                                         "\t",
                                         "key",
                                         "1",
                                         "0",
                                         ".5",
                                         " 1 2 ",
                                         "5.",
                                         "4294967295",
                                         "4294967296",
                                         "-",
                                         "LOCKED",
                                         "uptime: ",
                                         "1 days, ",
                                         "gained time: ",
                                         "0.000001s",
                                         "1h ",
                                         "processed_count: "};
    size_t wanted = random_below(seed, room + 1);
    size_t len = 0;
    while (len < wanted) {
        size_t pick = random_below(seed, COUNT_OF(pieces) + 6);
        if (pick >= COUNT_OF(pieces)) {
            to[len++] = (uint8_t)random_next(seed);
            continue;
        }
        size_t add = strlen(pieces[pick]);
        if (add > wanted - len)
            add = wanted - len;
        for (size_t i = 0; i < add; i++)
            to[len++] = (uint8_t)pieces[pick][i];
    }
    return len;
}

static void check_input(const uint8_t *input, size_t len, size_t max_line)
{
    uint8_t *exact = exact_copy(input, len);
    struct pc_request req = {0};
    size_t used = 77;
    enum pc_parsed parsed = pc_parse_request(exact, len, max_line, &req, &used);
    bool whole = parsed == PC_OK || parsed == PC_BAD_COMMAND || parsed == PC_BAD_SYNTAX;
    REQUIRE(whole == (used > 0));
    REQUIRE(used <= len && used <= max_line + 2);
    REQUIRE(!whole || exact[used - 1] == '\n');
    REQUIRE(parsed != PC_MORE || !len || !memchr(exact, '\n', len));
    if (parsed == PC_OK) {
        /* A parsed request can be composed, and then parses to the same request. */
        uint8_t line[256];
        size_t line_len = pc_compose_request(&req, line, sizeof(line));
        struct pc_request again = {0};
        if (line_len > 0) {
            size_t again_used = 0;
            REQUIRE(pc_parse_request(line, line_len, 256, &again, &again_used) == PC_OK);
            REQUIRE(again_used == line_len);
            REQUIRE(same_request(&req, &again));
        } else {
            REQUIRE(req.verb == PC_STATS); /* the subject may contain "\r" */
        }
    }
    enum pc_reply reply = PC_REPLY_OTHER;
    struct bytes line = {0};
    size_t reply_used = 77;
    enum pc_parsed answer = pc_parse_reply(exact, len, max_line, &reply, &line, &reply_used);
    REQUIRE((answer == PC_OK) == whole && reply_used == used);
    REQUIRE((answer == PC_MORE) == (parsed == PC_MORE));
    free(exact);

    exact = exact_copy(input, len);
    struct pc_stats stats = {0};
    (void)pc_parse_stats_line((struct bytes){.data = exact, .len = len}, &stats);
    char *text = malloc(PC_STATS_ROOM);
    REQUIRE(text);
    size_t text_len =
        pc_compose_stats(&stats, (struct bytes){.data = exact, .len = len}, text, PC_STATS_ROOM);
    REQUIRE(text_len <= PC_STATS_ROOM);
    free(text);
    free(exact);
}

TEST(random_bytes_never_lead_past_the_end)
{
    uint64_t seed = 1;
    uint8_t input[64];
    for (int i = 0; i < 300000; i++) {
        size_t len = random_input(&seed, input, sizeof(input));
        check_input(input, len, i % 2 ? MAX_LINE : random_below(&seed, 40));
    }
}

TEST(a_verdict_does_not_depend_on_how_many_bytes_have_arrived)
{
    uint64_t seed = 2;
    uint8_t input[48];
    for (int i = 0; i < 20000; i++) {
        size_t len = random_input(&seed, input, sizeof(input));
        size_t max_line = i % 2 ? MAX_LINE : random_below(&seed, 40);
        enum pc_parsed first = PC_MORE;
        struct pc_request first_req = {0};
        size_t first_used = 0;
        for (size_t n = 0; n <= len; n++) {
            uint8_t *part = exact_copy(input, n);
            struct pc_request req = {0};
            size_t used = 77;
            enum pc_parsed parsed = pc_parse_request(part, n, max_line, &req, &used);
            free(part);
            /* The result points into freed memory; parses the input again to make it valid. */
            if (parsed == PC_OK) {
                part = input;
                parsed = pc_parse_request(part, n, max_line, &req, &used);
            }
            if (first == PC_MORE) {
                first = parsed;
                first_used = used;
                first_req = req;
            }
            REQUIRE(parsed == first && used == first_used && same_request(&req, &first_req));
        }
    }
}

/* ---- The program ---------------------------------------------------------------------------- */

int main(void)
{
    const struct unit_test tests[] = {
        UNIT(acquire_carries_key_limits_and_timeout),
        UNIT(either_line_end_is_taken_with_the_line),
        UNIT(runs_of_spaces_count_as_one),
        UNIT(further_arguments_are_ignored),
        UNIT(a_tab_is_an_ordinary_byte),
        UNIT(a_key_is_any_bytes_but_four),
        UNIT(a_key_is_cut_at_the_same_byte_wherever_it_stands),
        UNIT(a_line_of_no_verb_is_a_bad_command),
        UNIT(a_limit_missing_or_not_a_positive_number_of_32_bits_is_bad_syntax),
        UNIT(limits_reach_the_edge_of_32_bits),
        UNIT(timeouts_are_decimal_seconds_and_unreadable_ones_are_0),
        UNIT(release_with_and_without_a_key),
        UNIT(stats_subject_is_the_rest_without_blanks_around_it),
        UNIT(the_longest_line_is_accepted_and_one_byte_more_is_not),
        UNIT(a_line_too_long_is_told_without_its_end),
        UNIT(limits_of_0_and_of_all_memory_do_not_wrap),
        UNIT(several_lines_in_one_buffer_are_read_one_by_one),
        UNIT(composed_requests_are_these_lines),
        UNIT(composed_timeouts_have_no_more_digits_than_needed),
        UNIT(limits_of_0_can_be_composed_for_a_server_to_refuse),
        UNIT(what_would_be_another_request_is_not_composed),
        UNIT(random_requests_survive_a_round_trip),
        UNIT(replies_are_these_words),
        UNIT(a_reply_of_no_fixed_word_is_another_line),
        UNIT(replies_in_one_buffer_are_read_one_by_one),
        UNIT(a_reply_line_too_long_is_told),
        UNIT(full_stats_are_byte_for_byte_poolcounterds),
        UNIT(every_value_is_on_its_own_line),
        UNIT(one_stat_is_one_line),
        UNIT(no_other_stat_can_be_asked_for),
        UNIT(durations_show_larger_units_only_from_where_they_begin),
        UNIT(uptime_always_has_all_four_parts),
        UNIT(average_is_total_by_count_and_0_of_none),
        UNIT(the_longest_stats_fit_in_their_room_and_in_nothing_smaller),
        UNIT(stats_that_were_written_can_be_read),
        UNIT(random_stats_survive_a_round_trip),
        UNIT(lines_that_are_no_stats_change_nothing),
        UNIT(random_bytes_never_lead_past_the_end),
        UNIT(a_verdict_does_not_depend_on_how_many_bytes_have_arrived),
    };
    return unit_run("proto/poolcounter", tests, COUNT_OF(tests));
}
