/*
 * beanstalk_test.c - the protocol of job queues, both directions.
 *
 * `read_line` passes every line in buffers of exactly their size, so that a sanitizer sees a read
 * past the end, and cut after each byte.
 */
#include "proto/beanstalk.h"
#include "t/unit/unit.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Like ck_assert, but silent on success: for loops that run a million times. */
#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s", #condition);                                                        \
    } while (0)

/* ---- Helpers -------------------------------------------------------------------------------- */

/* A copy of `data` in a buffer of exactly its size, which the caller frees. */
static uint8_t *exact_copy(const void *data, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    REQUIRE(copy);
    if (len > 0)
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

/* Texts that last as long as the test, or until texts_len is set back. */
static char texts[1 << 24];
static size_t texts_len;

static char *text_room(size_t len)
{
    REQUIRE(len < sizeof(texts) - texts_len);
    char *text = texts + texts_len;
    texts_len += len + 1;
    text[len] = '\0';
    return text;
}

/* A text of `len` letters. */
static const char *letters(size_t len)
{
    return memset(text_room(len), 'x', len);
}

static const char *format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));
static const char *format(const char *pattern, ...)
{
    char text[20000];
    va_list args;
    va_start(args, pattern);
    int len = vsnprintf(text, sizeof(text), pattern, args);
    va_end(args);
    REQUIRE(len >= 0 && (size_t)len < sizeof(text));
    return memcpy(text_room((size_t)len), text, (size_t)len);
}

/* Takes the next of several texts with "|" between them. Returns NULL after the last. */
static const char *next_part(const char **list)
{
    if (!*list)
        return NULL;
    const char *part = *list, *mark = strchr(part, '|');
    *list = mark ? mark + 1 : NULL;
    return mark ? format("%.*s", (int)(mark - part), part) : part;
}

/* Checks a line for each part of `list`: `front`, the part, `back`. */
static void check_each(void (*check)(const char *line), const char *front, const char *list,
                       const char *back)
{
    for (const char *part; (part = next_part(&list));)
        check(format("%s%s%s", front, part, back));
}

static void check_text(struct bytes b, const char *expected)
{
    if (!bytes_equal(b, bytes_of(expected)))
        ck_abort_msg("\"%.*s\" instead of \"%s\"", (int)b.len, b.data ? (const char *)b.data : "",
                     expected);
}

static bool same_options(const struct bs_put_options *a, const struct bs_put_options *b)
{
    return bytes_equal(a->key, b->key) && bytes_equal(a->root, b->root) && a->at_ms == b->at_ms &&
           a->root_ms == b->root_ms && a->tries == b->tries && a->has_at == b->has_at &&
           a->has_tries == b->has_tries && a->at_whole == b->at_whole &&
           a->root_whole == b->root_whole;
}

static bool same_own(const struct bs_request *a, const struct bs_request *b)
{
    const struct bs_settings *s = &a->settings, *t = &b->settings;
    switch (a->verb) {
    case BS_VERB_TUBE:
        return s->given == t->given && s->order == t->order && s->claim == t->claim &&
               s->tries == t->tries && s->limit == t->limit && s->prune_s == t->prune_s &&
               s->remember_s == t->remember_s && bytes_equal(s->read_only, t->read_only);
    case BS_VERB_CLAIM:
        return bytes_equal(a->tubes, b->tubes);
    case BS_VERB_READY:
        return bytes_equal(a->ready.after, b->ready.after) && a->ready.prefix == b->ready.prefix;
    default:
        return same_options(&a->options, &b->options);
    }
}

static bool same_request(const struct bs_request *a, const struct bs_request *b)
{
    return a->verb == b->verb && a->state == b->state && a->pri == b->pri &&
           a->delay_s == b->delay_s && a->ttr_s == b->ttr_s && a->body_len == b->body_len &&
           a->seconds == b->seconds && a->count == b->count && a->id == b->id &&
           a->token == b->token && bytes_equal(a->tube, b->tube) && same_own(a, b);
}

/* Bytes that come behind a line: nothing of them may be read. */
static const char behind[] = "put 1 2 3 4\r\n";

/* Parses what `line` (`len` bytes, without an end) gives with its "\r\n": cut after each byte,
 * alone and with bytes behind it. The request points into `line`. */
static enum bs_parsed read_len(const char *line, size_t len, struct bs_request *req_r)
{
    size_t whole_len = len + 2 + sizeof(behind) - 1, used;
    char *whole = text_room(whole_len);
    memcpy(whole, line, len);
    memcpy(whole + len, "\r\n", 2);
    memcpy(whole + len + 2, behind, sizeof(behind) - 1);
    struct bs_request ignored;
    for (size_t n = 0; n < len + 2; n++) {
        uint8_t *part = exact_copy(whole, n);
        used = 77;
        REQUIRE(bs_parse_request(part, n, &ignored, &used) == BS_MORE && used == 0);
        free(part);
    }
    uint8_t *exact = exact_copy(whole, len + 2);
    memset(&ignored, 0xee, sizeof(ignored));
    memset(req_r, 0x11, sizeof(*req_r));
    enum bs_parsed parsed = bs_parse_request(exact, len + 2, &ignored, &used);
    REQUIRE(used == len + 2);
    REQUIRE(bs_parse_request((uint8_t *)whole, whole_len, req_r, &used) == parsed);
    REQUIRE(used == len + 2);
    REQUIRE(parsed != BS_PARSED || same_request(req_r, &ignored));
    free(exact);
    return parsed;
}

/* Composes a request in a buffer of exactly its length, one byte less, and any. */
static const char *compose(const struct bs_request *req)
{
    char *text = text_room(BS_NEW_LINE_MAX);
    size_t len = bs_compose_request(req, (uint8_t *)text, BS_NEW_LINE_MAX);
    REQUIRE(len <= BS_NEW_LINE_MAX);
    if (len == 0)
        return NULL;
    text[len] = '\0';
    uint8_t *tight = malloc(len);
    REQUIRE(tight);
    REQUIRE(bs_compose_request(req, tight, len) == len && memcmp(tight, text, len) == 0);
    REQUIRE(bs_compose_request(req, tight, len - 1) == 0);
    free(tight);
    return text;
}

/* Parses a line that is good, and checks that it survives a round trip. */
static struct bs_request read_line(const char *line)
{
    struct bs_request req, again;
    enum bs_parsed parsed = read_len(line, strlen(line), &req);
    if (parsed != BS_PARSED)
        ck_abort_msg("refused (%d): %s", (int)parsed, line);
    const char *composed = compose(&req);
    if (!composed)
        ck_abort_msg("not composed: %s", line);
    size_t used;
    REQUIRE(bs_parse_request((const uint8_t *)composed, strlen(composed), &again, &used) ==
            BS_PARSED);
    REQUIRE(same_request(&req, &again));
    return req;
}

/* The same for a line that must be composed as it is. */
static struct bs_request read_plain(const char *line)
{
    struct bs_request req = read_line(line);
    ck_assert_str_eq(compose(&req), format("%s\r\n", line));
    return req;
}

static void check_len(const char *line, size_t len, enum bs_parsed expected)
{
    struct bs_request req;
    enum bs_parsed parsed = read_len(line, len, &req);
    if (parsed != expected)
        ck_abort_msg("%d instead of %d: %s", (int)parsed, (int)expected, line);
}

static void check_bad(const char *line)
{
    check_len(line, strlen(line), BS_BAD_FORMAT);
}

static void check_closes(const char *line)
{
    check_len(line, strlen(line), BS_BAD_FORMAT_CLOSE);
}

static void check_unknown(const char *line)
{
    check_len(line, strlen(line), BS_UNKNOWN_COMMAND);
}

static void check_good(const char *line)
{
    (void)read_line(line);
}

/* ---- Requests, read ------------------------------------------------------------------------- */

static const char verbs_alone[] = "reserve|peek-ready|peek-delayed|peek-buried|list-tubes|"
                                  "list-tubes-watched|list-tube-used|stats|quit";
/* With one number, up to 64 bits. */
static const char verbs_of_ids[] = "reserve-job |delete |touch |kick-job |peek |stats-job ";
static const char verbs_of_tubes[] = "use |watch |ignore |stats-tube |tube ";

TEST(verbs_have_their_listed_words)
{
    static const char *const lines[BS_VERB_COUNT] = {
        [BS_VERB_PUT] = "put 1 2 3 4",
        [BS_VERB_RESERVE] = "reserve",
        [BS_VERB_RESERVE_WITH_TIMEOUT] = "reserve-with-timeout 1",
        [BS_VERB_DELETE] = "delete 1",
        [BS_VERB_PUT_INTO] = "put-into t 1 2 3 4",
        [BS_VERB_CLAIM] = "claim 1 2",
        [BS_VERB_ACK] = "ack 1 2",
        [BS_VERB_RELEASE] = "release 1 2 3",
        [BS_VERB_BURY] = "bury 1 2",
        [BS_VERB_TOUCH] = "touch 1",
        [BS_VERB_USE] = "use t",
        [BS_VERB_WATCH] = "watch t",
        [BS_VERB_IGNORE] = "ignore t",
        [BS_VERB_RESERVE_JOB] = "reserve-job 1",
        [BS_VERB_KICK] = "kick 1",
        [BS_VERB_KICK_JOB] = "kick-job 1",
        [BS_VERB_PEEK] = "peek 1",
        [BS_VERB_PEEK_READY] = "peek-ready",
        [BS_VERB_PEEK_DELAYED] = "peek-delayed",
        [BS_VERB_PEEK_BURIED] = "peek-buried",
        [BS_VERB_STATS] = "stats",
        [BS_VERB_STATS_JOB] = "stats-job 1",
        [BS_VERB_STATS_TUBE] = "stats-tube t",
        [BS_VERB_LIST_TUBES] = "list-tubes",
        [BS_VERB_LIST_TUBES_WATCHED] = "list-tubes-watched",
        [BS_VERB_LIST_TUBE_USED] = "list-tube-used",
        [BS_VERB_PAUSE_TUBE] = "pause-tube t 1",
        [BS_VERB_QUIT] = "quit",
        [BS_VERB_TUBE] = "tube t",
        [BS_VERB_PUT_BATCH] = "put-batch t 1 2",
        [BS_VERB_NACK] = "nack 1 2 3",
        [BS_VERB_RENEW] = "renew 1 2",
        [BS_VERB_READY] = "ready 1 2 t",
        [BS_VERB_LIST_JOBS] = "list-jobs t ready 1 2",
        [BS_VERB_CLEAR] = "clear t ready",
    };
    ck_assert_int_eq(BS_VERB_COUNT, 35);
    for (size_t i = 0; i < BS_VERB_COUNT; i++)
        ck_assert_uint_eq(read_plain(lines[i]).verb, i);
}

TEST(arguments_are_where_they_belong)
{
    struct bs_request req = read_plain("put 1 2 3 4");
    ck_assert(req.pri == 1 && req.delay_s == 2 && req.ttr_s == 3 && req.body_len == 4);
    req = read_plain("put-into a/b 1 2 3 4");
    check_text(req.tube, "a/b");
    ck_assert(req.pri == 1 && req.delay_s == 2 && req.ttr_s == 3 && req.body_len == 4);
    req = read_plain("put-batch t 5 6");
    check_text(req.tube, "t");
    ck_assert(req.count == 5 && req.body_len == 6);
    req = read_plain("release 1 2 3");
    ck_assert(req.id == 1 && req.pri == 2 && req.delay_s == 3);
    req = read_plain("bury 1 2");
    ck_assert(req.id == 1 && req.pri == 2);
    req = read_plain("nack 1 2 3");
    ck_assert(req.id == 1 && req.token == 2 && req.delay_s == 3);
    ck_assert_uint_eq(read_plain("ack 1 9007199254740991").token, 9007199254740991);
    ck_assert_uint_eq(read_plain("renew 1 2").token, 2);
    ck_assert_uint_eq(read_plain("kick 7").count, 7);
    ck_assert_uint_eq(read_plain("reserve-with-timeout 7").seconds, 7);
    req = read_plain("pause-tube t 7");
    check_text(req.tube, "t");
    ck_assert_uint_eq(req.seconds, 7);
    req = read_plain("list-jobs t buried 9 10");
    check_text(req.tube, "t");
    ck_assert(req.state == BS_STATE_BURIED && req.id == 9 && req.count == 10);
    req = read_plain("clear t all");
    ck_assert(req.state == BS_STATE_ALL && req.id == 0);
    for (const char *list = verbs_of_ids, *verb; (verb = next_part(&list));)
        ck_assert_uint_eq(read_plain(format("%s7", verb)).id, 7);
    for (const char *list = verbs_of_tubes, *verb; (verb = next_part(&list));)
        check_text(read_plain(format("%stube", verb)).tube, "tube");
}

/* Checks a number between `front` and `back` that may be up to `max`. */
static void check_number(void (*check_wrong)(const char *line), const char *front, uint64_t max,
                         const char *back)
{
    const char *above = max == UINT64_MAX ? "18446744073709551616" : format("%" PRIu64, max + 1);
    (void)read_plain(format("%s%" PRIu64 "%s", front, max, back));
    (void)read_plain(format("%s1%s", front, back));
    check_each(check_good, front, " 1|      1|01|0000000000000000000000000000000000001| 01", back);
    check_wrong(format("%s%s%s", front, above, back));
    check_each(check_wrong, front,
               "|-1|+1|x|1x|0x1|1.0|1,|\t1|1\t|1\n|1\r|\n1|\xb9|:|99999999999999999999999999",
               back);
    check_wrong(format("%s18446744073709551617%s", front, back)); /* 2^64 + 1 */
    check_wrong(format("%s1 %s", front, back[0] == ' ' ? ":" : ""));
}

TEST(numbers_are_digits_with_spaces_before_them)
{
    check_number(check_closes, "put ", UINT32_MAX, " 2 3 4");
    check_number(check_closes, "put 1 ", UINT32_MAX, " 3 4");
    check_number(check_closes, "put 1 2 ", UINT32_MAX, " 4");
    check_number(check_closes, "put 1 2 3 ", UINT32_MAX, "");
    check_number(check_closes, "put-into t ", UINT32_MAX, " 2 3 4");
    check_number(check_closes, "put-into t 1 ", UINT32_MAX, " 3 4");
    check_number(check_closes, "put-into t 1 2 ", UINT32_MAX, " 4");
    check_number(check_closes, "put-into t 1 2 3 ", UINT32_MAX, "");
    check_number(check_closes, "put-into t 1 2 3 ", UINT32_MAX, " key=k");
    check_number(check_closes, "put-batch t ", 1000, " 5");
    check_number(check_closes, "put-batch t 5 ", UINT32_MAX, "");
    for (const char *list = verbs_of_ids, *verb; (verb = next_part(&list));)
        check_number(check_bad, verb, UINT64_MAX, "");
    check_number(check_bad, "reserve-with-timeout ", 2147483647, "");
    check_number(check_bad, "release ", UINT64_MAX, " 2 3");
    check_number(check_bad, "release 1 ", UINT32_MAX, " 3");
    check_number(check_bad, "release 1 2 ", UINT32_MAX, "");
    check_number(check_bad, "bury ", UINT64_MAX, " 2");
    check_number(check_bad, "bury 1 ", UINT32_MAX, "");
    check_number(check_bad, "kick ", UINT32_MAX, "");
    check_number(check_bad, "pause-tube t ", UINT32_MAX, "");
    check_number(check_bad, "claim ", 1000, " 0");
    check_number(check_bad, "claim 1 ", UINT32_MAX, "");
    check_number(check_bad, "ack ", UINT64_MAX, " 2");
    check_number(check_bad, "ack 1 ", UINT64_MAX, "");
    check_number(check_bad, "renew ", UINT64_MAX, " 2");
    check_number(check_bad, "renew 1 ", UINT64_MAX, "");
    check_number(check_bad, "nack ", UINT64_MAX, " 2 3");
    check_number(check_bad, "nack 1 ", UINT64_MAX, " 3");
    check_number(check_bad, "nack 1 2 ", UINT32_MAX, "");
    check_number(check_bad, "ready ", UINT32_MAX, " 1 t");
    check_number(check_bad, "ready 0 ", 1000, " t");
    check_number(check_bad, "list-jobs t all ", UINT64_MAX, " 5");
    check_number(check_bad, "list-jobs t all 0 ", 1000, "");
}

TEST(counts_of_jobs_are_not_zero)
{
    check_bad("claim 0 1");
    check_bad("ready 1 0 t");
    check_bad("list-jobs t all 1 0");
    check_closes("put-batch t 0 1");
    check_each(check_good, "",
               "put 0 0 0 0|kick 0|claim 1 0|ack 0 0|reserve-with-timeout 0|"
               "list-jobs t all 0 1|delete 0|put-batch t 1 0",
               "");
}

TEST(nothing_may_follow_the_last_argument)
{
    for (const char *list = verbs_alone, *verb; (verb = next_part(&list));) {
        check_good(verb);
        check_each(check_bad, verb, " |  | x| 1", "");
        check_each(check_unknown, verb, "x|1|-|\t|\n|\r|:", "");
    }
    check_each(check_bad, "",
               "delete 1|release 1 2 3|bury 1 2|touch 1|kick 1|kick-job 1|peek 1|stats-job 1|"
               "reserve-job 1|reserve-with-timeout 1|use t|watch t|ignore t|stats-tube t|"
               "pause-tube t 1|claim 1 2|claim 1 2 t|ack 1 2|nack 1 2 3|renew 1 2|tube t|"
               "tube t tries=1|ready 1 2 t|ready 1 2 t a|ready 1 2 *|list-jobs t all 1 2|"
               "clear t all",
               " ");
    check_each(check_bad, "",
               "delete 1|release 1 2 3|bury 1 2|touch 1|kick 1|kick-job 1|peek 1|stats-job 1|"
               "reserve-job 1|reserve-with-timeout 1|use t|watch t|ignore t|stats-tube t|"
               "pause-tube t 1|ack 1 2|nack 1 2 3|renew 1 2|tube t|tube t tries=1|"
               "ready 1 2 t a|list-jobs t all 1 2|clear t all",
               " 1");
    check_each(check_closes, "",
               "put 1 2 3 4|put-into t 1 2 3 4|put-into t 1 2 3 4 key=k|put-batch t 1 2", " ");
    check_each(check_closes, "",
               "put 1 2 3 4|put-into t 1 2 3 4|put-into t 1 2 3 4 key=k|put-batch t 1 2", " 5");
}

TEST(arguments_that_are_missing_are_wrong)
{
    check_each(check_bad, "",
               "delete |release |release 1|release 1 |release 1 2|bury |bury 1|touch |kick |"
               "kick-job |peek |stats-job |reserve-job |reserve-with-timeout |use |watch |ignore |"
               "stats-tube |pause-tube |pause-tube t|pause-tube t |tube |claim |claim 1|claim 1 |"
               "ack |ack 1|nack |nack 1|nack 1 2|renew |renew 1|ready |ready 1|ready 1 2|"
               "ready 1 2 |list-jobs |list-jobs t|list-jobs t all|list-jobs t all 1|clear |"
               "clear t|clear t ",
               "");
    check_each(check_closes, "",
               "put |put 1|put 1 2|put 1 2 3|put 1 2 3 |put-into |put-into t|put-into t 1|"
               "put-into t 1 2|put-into t 1 2 3|put-batch |put-batch t|put-batch t 1",
               "");
}

TEST(a_verb_without_its_space_is_unknown_but_three)
{
    check_each(check_unknown, "",
               "put|use|delete|release|bury|touch|kick|kick-job|peek|watch|ignore|stats-job|"
               "stats-tube|tube|put-into|put-batch|claim|ack|nack|renew|ready|list-jobs|clear",
               "");
    check_each(check_bad, "", "reserve-with-timeout|reserve-job|pause-tube", "");
}

TEST(verbs_match_whole_and_as_they_are)
{
    check_each(check_unknown, "",
               "|x|foo bar|reservefoo|statsx|quitter|quits now|pause-tubedefault 0|puts 1 2 3 4|"
               "use\tt|delete:1|reserve-with-timeout1|reserve-with-timeouts 1|reserve-jobs 1|"
               "peek-readyx|peek-|list-tube|list-|kick-|stats-|put1 2 3 4|\xff|put-|put-x 1|"
               "put-intot 1 2 3 4|claims 1 2|tubes t",
               "");
    check_each(check_unknown, "", " stats|  put 1 2 3 4|\tstats|\nstats|\rstats| ", "");
    check_each(check_unknown, "", "STATS|Stats|PUT|Put 1 2 3 4|Use t|Claim 1 2|qUIT", "");
}

TEST(a_nul_byte_is_bad_format)
{
    check_len("st\0ats", 6, BS_BAD_FORMAT);
    check_len("stats\0", 6, BS_BAD_FORMAT);
    check_len("\0stats", 6, BS_BAD_FORMAT);
    check_len("\0", 1, BS_BAD_FORMAT);
    check_len("foo\0", 4, BS_BAD_FORMAT);
    check_len("use t\0", 6, BS_BAD_FORMAT);
    check_len("delete 1\0", 9, BS_BAD_FORMAT);
    check_len("tube t read-only=a\0b", 20, BS_BAD_FORMAT);
    check_len("put\0001 2 3 4", 11, BS_BAD_FORMAT);
    check_len("put 1 2 3 4\0", 12, BS_BAD_FORMAT_CLOSE);
    check_len("put \0001 2 3 4", 12, BS_BAD_FORMAT_CLOSE);
    check_len("put-into t 1 2 3 4\0", 19, BS_BAD_FORMAT_CLOSE);
    check_len("put-batch t 1 2\0", 16, BS_BAD_FORMAT_CLOSE);
}

TEST(only_cr_and_lf_together_end_a_line)
{
    /* read_len checks each: nothing is parsed before the "\r\n". */
    check_each(check_unknown, "", "foo\rbar|foo\nbar|\r|\n|\n\n\n|\r\r\r|foo\n\r|stats\r|stats\n",
               "");
    check_each(check_bad, "", "use a\rb|use a\nb|use a\r|use a\n|stats \r", "");
    check_closes("put 1 2 3 4\n");
    check_closes("put 1 2 3 4\r");
    struct bs_request req;
    size_t used;
    ck_assert_int_eq(bs_parse_request((const uint8_t *)"\n\r\n", 3, &req, &used),
                     BS_UNKNOWN_COMMAND);
    ck_assert_uint_eq(used, 3);
    ck_assert_int_eq(bs_parse_request(NULL, 0, &req, &used), BS_MORE);
}

TEST(names_of_tubes_have_listed_bytes)
{
    for (int c = 1; c < 256; c++) {
        if (c == '\n' || c == '|')
            continue;
        bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    strchr("-+/;.$_()", c);
        (good ? check_good : check_bad)(format("use x%c", c));
        (good ? check_good : check_bad)(format("use x%cx", c));
        (good && c != '-' ? check_good : check_bad)(format("use %c", c));
        (good && c != '-' ? check_good : check_bad)(format("claim 1 2 %c", c));
        (good && c != '-' ? check_good : check_closes)(format("put-batch %c 1 2", c));
        ck_assert(bs_is_tube_name(bytes_of(format("%c", c))) == (good && c != '-'));
        texts_len = 0;
    }
    static const char *const fronts[] = {"use ", "watch ", "ignore ", "stats-tube ", "tube "};
    for (size_t i = 0; i < COUNT_OF(fronts); i++) {
        check_each(check_bad, fronts[i], "| t|t |-t|t:|:t|a b|\"t\"|\xc3\xa4|t\xff|t\t|*|a*", "");
        ck_assert_uint_eq(read_plain(format("%s%s", fronts[i], letters(200))).tube.len, 200);
        check_bad(format("%s%s", fronts[i], letters(201)));
    }
    check_each(check_closes, "put-into ", " t|-t|t:|\"t\"", " 1 2 3 4");
    check_closes(format("put-into %s 1 2 3 4", letters(201)));
    check_each(check_closes, "put-batch ", " t|-t|t:|\"t\"", " 1 2");
    check_each(check_bad, "list-jobs ", " t|-t|t:|\"t\"", " all 1 2");
    check_each(check_bad, "clear ", " t|-t|t:|\"t\"", " all");
    ck_assert(!bs_is_tube_name(bytes_of("")) && bs_is_tube_name(bytes_of(letters(200))));
    ck_assert(!bs_is_tube_name(bytes_of(letters(201))) && !bs_is_tube_name(bytes_of("-")));
}

TEST(pause_tube_alone_allows_spaces_before_the_name)
{
    check_text(read_line("pause-tube    t 1").tube, "t");
    check_text(read_line("pause-tube  t5   1").tube, "t5");
    check_each(check_bad, "pause-tube ", "-t 1|t:1|t: 1|: 1| 1|t=1|\tt 1", "");
    check_good(format("pause-tube %s 1", letters(200)));
    check_bad(format("pause-tube %s 1", letters(201)));
}

TEST(a_claim_names_tubes_or_none)
{
    struct bs_request req = read_plain("claim 5 10");
    ck_assert(req.count == 5 && req.seconds == 10 && req.tubes.len == 0);
    req = read_plain("claim 5 10 a b/c a");
    struct bytes tubes = req.tubes, name;
    check_text(tubes, "a b/c a");
    ck_assert(bs_next_tube(&tubes, &name));
    check_text(name, "a");
    ck_assert(bs_next_tube(&tubes, &name));
    check_text(name, "b/c");
    ck_assert(bs_next_tube(&tubes, &name));
    check_text(name, "a");
    ck_assert(!bs_next_tube(&tubes, &name) && !bs_next_tube(&tubes, &name));
    check_each(check_bad, "claim 5 10", "  a| a  b| a b | a -b| a:b| a,b|a", "");
    check_bad(format("claim 5 10 a %s", letters(201)));
    /* As many as the line has room for. */
    char line[BS_NEW_LINE_MAX] = "claim 1000 4294967295";
    size_t len = strlen(line), count = 0;
    for (; len + 2 < sizeof(line) - 1; len += 2, count++)
        memcpy(line + len, " t", 3);
    struct bytes many = read_line(line).tubes;
    for (; bs_next_tube(&many, &name); count--)
        check_text(name, "t");
    ck_assert_uint_eq(count, 0);
}

TEST(a_pattern_is_a_name_or_the_beginning_of_names)
{
    struct bs_request req = read_plain("ready 0 1000 wiki/*");
    check_text(req.tube, "wiki/");
    ck_assert(req.ready.prefix && req.ready.after.len == 0 && req.count == 1000);
    req = read_plain("ready 5 1 wiki");
    check_text(req.tube, "wiki");
    ck_assert(!req.ready.prefix && req.seconds == 5);
    req = read_plain("ready 5 1 *");
    ck_assert(req.ready.prefix && req.tube.len == 0);
    req = read_plain("ready 5 1 * last");
    check_text(req.ready.after, "last");
    req = read_plain("ready 5 1 a* b");
    check_text(req.ready.after, "b");
    check_each(check_bad, "ready 5 1 ", "**|a**|*a|a*b|-a*|-*| a|:| *|a  b|a -b|a b*|a *|a b c| ",
               "");
    check_bad("ready 5 1*");
    (void)read_plain(format("ready 5 1 %s* %s", letters(200), letters(200)));
    check_bad(format("ready 5 1 %s*", letters(201)));
    check_bad(format("ready 5 1 a %s", letters(201)));
}

TEST(states_are_six_words)
{
    static const char *const words[] = {"ready",  "delayed",   "reserved",
                                        "buried", "abandoned", "all"};
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        enum bs_state state = (enum bs_state)(BS_STATE_READY + i);
        ck_assert_int_eq(read_plain(format("clear t %s", words[i])).state, state);
        ck_assert_int_eq(read_line(format("list-jobs t   %s 0 1", words[i])).state, state);
        check_text(bs_state_word(state), words[i]);
    }
    ck_assert_uint_eq(bs_state_word(BS_STATE_NONE).len, 0);
    check_each(check_bad, "clear t ", "Ready|readyx|read|none|\"all\"|all\t|1", "");
    check_each(check_bad, "list-jobs t ", "Ready|readyx|read|none|\"all\"|all\t|1", " 0 1");
    check_bad("list-jobs t all0 1");
}

TEST(options_of_a_put_are_each_there_once)
{
    struct bs_request req = read_plain("put-into t 1 2 3 4 key=a at=5.250 root=r:6 tries=7");
    check_text(req.options.key, "a");
    check_text(req.options.root, "r");
    ck_assert(req.options.has_at && !req.options.at_whole && req.options.at_ms == 5250);
    ck_assert(req.options.root_whole && req.options.root_ms == 6000);
    ck_assert(req.options.has_tries && req.options.tries == 7);
    struct bs_request other = read_line("put-into t 1 2 3 4   tries=7 root=r:6  at=5.25 key=a");
    ck_assert(same_request(&req, &other));
    req = read_plain("put-into t 1 2 3 4");
    ck_assert(!req.options.has_at && !req.options.has_tries && req.options.key.len == 0);
    ck_assert(read_plain("put-into t 1 2 3 4 tries=0").options.has_tries);
    (void)read_plain("put-into t 1 2 3 4 tries=4294967295");
    (void)read_plain(format("put-into t 1 2 3 4 key=%s root=%s:0", letters(64), letters(64)));
    check_text(read_plain("put-into t 1 2 3 4 key=-+/;.$_()").options.key, "-+/;.$_()");
    const char *wrong = "key|key=|key =a|key= a|Key=a|key=a:|key=\"a\"|key=a key=a|key=a key=b|"
                        "key=a\tat=1|keys=a|x=1|=|=a|a|tries=|tries=-1|tries=x|tries=1x|"
                        "tries=4294967296|tries=1 tries=1|tries= 1|at=1 at=1|root|root=|root=r|"
                        "root=:1|root=r:|root=r:x|root=r:1:2|root=r:1 root=r:1|root=r:1 root=s:1|"
                        "root=r: 1|root=r\xff:1|delay=1|order=fifo|key=a  ";
    check_each(check_closes, "put-into t 1 2 3 4 ", wrong, "");
    check_closes(format("put-into t 1 2 3 4 key=%s", letters(65)));
    check_closes(format("put-into t 1 2 3 4 root=%s:1", letters(65)));
    check_closes("put-into t 1 2 3 4key=a");
    check_closes("put 1 2 3 4 key=a");
    check_closes("put-batch t 1 2 key=a");
}

TEST(times_are_seconds_with_up_to_three_decimals)
{
    static const struct {
        const char *text;
        int64_t ms;
        bool whole;
    } rows[] = {
        {"0", 0, true},
        {"1", 1000, true},
        {"007", 7000, true},
        {"1.5", 1500, false},
        {"1.05", 1050, false},
        {"1.005", 1005, false},
        {"1.0", 1000, false},
        {"1.000", 1000, false},
        {"1700000000.999", INT64_C(1700000000999), false},
        {"4294967295", INT64_C(4294967295000), true},
        {"4294967295.999", BS_TIME_MAX_MS, false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct bs_put_options o =
            read_line(format("put-into t 1 2 3 4 at=%s", rows[i].text)).options;
        ck_assert(o.has_at && o.at_ms == rows[i].ms && o.at_whole == rows[i].whole);
        o = read_line(format("put-into t 1 2 3 4 root=r:%s", rows[i].text)).options;
        ck_assert(!o.has_at && o.root_ms == rows[i].ms && o.root_whole == rows[i].whole);
    }
    const char *wrong = "|.|1.|.5|1.0000|1.x|1.5x|1,5|-1|+1|1e3|1.5.5|1..5|4294967296|"
                        "18446744073709551616|18446744073709551617.5|now|1.-5|1. 5";
    check_each(check_closes, "put-into t 1 2 3 4 at=", wrong, "");
    check_each(check_closes, "put-into t 1 2 3 4 root=r:", wrong, "");
}

TEST(settings_of_a_tube_are_each_there_once)
{
    struct bs_settings s = read_plain("tube t order=random claim=lease tries=1 limit=2 prune=3 "
                                      "remember=4 read-only=away for a while ")
                               .settings;
    ck_assert_uint_eq(s.given, 127);
    ck_assert(s.order == BS_ORDER_RANDOM && s.claim == BS_CLAIM_LEASE);
    ck_assert(s.tries == 1 && s.limit == 2 && s.prune_s == 3 && s.remember_s == 4);
    check_text(s.read_only, "away for a while ");
    s = read_line("tube t   limit=2  order=fifo claim=connection").settings;
    ck_assert_uint_eq(s.given, BS_GIVEN_LIMIT | BS_GIVEN_ORDER | BS_GIVEN_CLAIM);
    ck_assert(s.order == BS_ORDER_FIFO && s.claim == BS_CLAIM_CONNECTION && s.limit == 2);
    ck_assert_int_eq(read_plain("tube t order=priority").settings.order, BS_ORDER_PRIORITY);
    s = read_plain("tube t read-only=").settings;
    ck_assert(s.given == BS_GIVEN_READ_ONLY && s.read_only.len == 0);
    check_text(read_plain("tube t read-only= limit=5 read-only=x").settings.read_only,
               " limit=5 read-only=x");
    ck_assert_uint_eq(read_plain("tube t").settings.given, 0);
    (void)read_plain("tube t tries=4294967295 limit=4294967295 prune=4294967295 remember=31536000");
    const char *wrong =
        "order|order=|order=lifo|order=Fifo|order=fifo,|claim=|claim=leases|tries=|"
        "tries=-1|tries=4294967296|limit=|limit=1x|limit=4294967296|prune=|prune=1.5|"
        "prune=4294967296|remember=|remember=31536001|remember=forever|"
        "order=fifo order=fifo|claim=lease claim=lease|tries=1 tries=1|limit=1 limit=1|"
        "prune=1 prune=1|remember=1 remember=1|tries=1 tries=2|readonly=x|"
        "read-only|read-only=a\"b|read-only=a\\b|read-only=\t|read-only=\x7f|"
        "read-only=\xc3\xa4|x=1|=|key=a|tries= 1|tries=1  |read-only=\r|read-only=\n";
    check_each(check_bad, "tube t ", wrong, "");
    (void)read_plain(format("tube t read-only=%s", letters(200)));
    check_bad(format("tube t read-only=%s", letters(201)));
    for (int c = ' '; c <= '~'; c++) {
        if (c != '"' && c != '\\')
            (void)read_plain(format("tube t read-only=%c", c));
    }
    check_bad("tube torder=fifo");
}

/* ---- Long lines ----------------------------------------------------------------------------- */

/* What a whole stream gives when it comes in parts of `step` bytes: a letter for each line. */
static const char *feed(const char *stream, size_t len, size_t step)
{
    char *seen = text_room(64);
    size_t at = 0, have = 0, count = 0;
    bool skipping = false;
    while (at < len && count < 60) {
        if (have == at && have == len)
            break;
        uint8_t *part = exact_copy(stream + at, have - at);
        size_t used = 0;
        struct bs_request req;
        char letter = 0;
        bool more = false;
        if (skipping) {
            skipping = !bs_skip_line(part, have - at, &used);
            letter = skipping ? 0 : 'b';
            more = skipping;
        } else {
            switch (bs_parse_request(part, have - at, &req, &used)) {
            case BS_PARSED:
                letter = 'p';
                break;
            case BS_MORE:
                more = true;
                break;
            case BS_BAD_FORMAT:
                letter = 'b';
                break;
            case BS_BAD_FORMAT_CLOSE:
                letter = 'c';
                break;
            case BS_UNKNOWN_COMMAND:
                letter = 'u';
                break;
            case BS_TOO_LONG:
                REQUIRE(used > 0);
                skipping = true;
                break;
            case BS_WEB:
                letter = 'w';
                break;
            }
        }
        free(part);
        REQUIRE(used <= have - at);
        at += used;
        if (letter)
            seen[count++] = letter;
        if (letter == 'c' || letter == 'w')
            break;
        if (more) {
            if (have == len)
                break;
            have = have + step < len ? have + step : len;
        }
    }
    seen[count] = '\0';
    return seen;
}

static void check_stream(const char *stream, size_t len, const char *expected)
{
    size_t mark = texts_len;
    static const size_t steps[] = {1, 2, 3, 7, 222, 223, 224, 225, 8191, 8192, 20000};
    for (size_t i = 0; i < COUNT_OF(steps); i++)
        ck_assert_str_eq(feed(stream, len, steps[i]), expected);
    texts_len = mark;
}

/* A line of `front` and as many bytes `fill` that it has `len` bytes with its end; then a good one.
 */
static void check_long(const char *front, char fill, size_t len, const char *expected)
{
    static char stream[40000];
    size_t front_len = strlen(front);
    REQUIRE(front_len + 2 <= len && len + 10 < sizeof(stream));
    memset(stream, fill, len);
    memcpy(stream, front, front_len);
    memcpy(stream + len - 2, "\r\nstats\r\n", 9);
    check_stream(stream, len + 7, expected);
}

TEST(a_line_that_is_too_long_is_skipped_and_answered_once)
{
    check_long("delete ", '0', 224, "pp");
    static const size_t lengths[] = {225, 226, 227, 447, 448, 449, 450, 8192, 8193, 30000};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        check_long("delete ", '0', lengths[i], "bp");
        check_long("", 'x', lengths[i], "bp");
        check_long("delete ", '\r', lengths[i], "bp");
        check_long("delete ", '\n', lengths[i], "bp");
        check_long("", ' ', lengths[i], "bp");
        check_long("", '\0', lengths[i], "bp");
        check_long("claims 1 2 t", 't', lengths[i], "bp");
        check_long("stats ", 't', lengths[i], "bp");
        check_long("put-int ", 't', lengths[i], "bp");
        check_long("put", 't', lengths[i], "bp");
    }
    check_long("", 'x', 224, "up");
    check_long("", '\r', 224, "up");
}

TEST(lines_of_new_verbs_may_be_longer)
{
    static const char *const good[] = {"claim 1 2 t", "tube t read-only=x", "ack 1 ",  "renew 1 ",
                                       "nack 1 2 ",   "ready 1 ",           "clear t "};
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        check_long(good[i], 't', 225, "bp");
        check_long(good[i], 't', 8192, "bp");
        check_long(good[i], 't', 8193, "bp");
        check_long(good[i], '\r', 30000, "bp");
    }
    check_long("ack 1 ", '0', 225, "pp");
    check_long("ack 1 ", '0', 8192, "pp");
    check_long("ack 1 ", '0', 8193, "bp");
    check_long("list-jobs t all 1 1", ' ', 8192, "bp");
    check_long("list-jobs t all 1 000", '1', 225, "bp");
}

TEST(a_put_that_is_too_long_closes)
{
    check_long("put 1 2 3 ", '0', 224, "pp");
    check_long("put 1 2 3 ", '0', 225, "c");
    check_long("put 1 2 3 ", '0', 30000, "c");
    check_long("put-into t 1 2 3 ", '0', 225, "pp");
    check_long("put-into t 1 2 3 ", '0', 8192, "pp");
    check_long("put-into t 1 2 3 ", '0', 8193, "c");
    check_long("put-into t 1 2 3 ", '\r', 30000, "c");
    check_long("put-batch t 1 ", '0', 8192, "pp");
    check_long("put-batch t 1 ", '0', 8193, "c");
    /* It is known before the line has ended. */
    char line[BS_NEW_LINE_MAX];
    memset(line, '0', sizeof(line));
    memcpy(line, "put 1 ", 6);
    struct bs_request req;
    size_t used;
    ck_assert_int_eq(bs_parse_request((uint8_t *)line, 223, &req, &used), BS_MORE);
    ck_assert_int_eq(bs_parse_request((uint8_t *)line, 224, &req, &used), BS_BAD_FORMAT_CLOSE);
    ck_assert_uint_eq(used, 224);
    memcpy(line, "put-batch t ", 12);
    ck_assert_int_eq(bs_parse_request((uint8_t *)line, 8191, &req, &used), BS_MORE);
    ck_assert_int_eq(bs_parse_request((uint8_t *)line, 8192, &req, &used), BS_BAD_FORMAT_CLOSE);
}

TEST(a_long_line_is_dropped_as_it_comes)
{
    size_t used = 77;
    ck_assert(!bs_skip_line(NULL, 0, &used));
    ck_assert_uint_eq(used, 0);
    ck_assert(!bs_skip_line((const uint8_t *)"abc", 3, &used));
    ck_assert_uint_eq(used, 3);
    /* What follows the "\r" decides. */
    ck_assert(!bs_skip_line((const uint8_t *)"abc\r", 4, &used));
    ck_assert_uint_eq(used, 3);
    ck_assert(!bs_skip_line((const uint8_t *)"\r", 1, &used));
    ck_assert_uint_eq(used, 0);
    ck_assert(!bs_skip_line((const uint8_t *)"\rx\n", 3, &used));
    ck_assert_uint_eq(used, 3);
    ck_assert(bs_skip_line((const uint8_t *)"\r\nstats\r\n", 9, &used));
    ck_assert_uint_eq(used, 2);
    ck_assert(bs_skip_line((const uint8_t *)"\n\r\r\n", 4, &used));
    ck_assert_uint_eq(used, 4);
}

TEST(web_browsers_are_known_by_the_first_bytes)
{
    static const char *const fronts[] = {"GET ", "POST ", "PUT ", "OPTIONS ", "Host:"};
    struct bs_request req;
    size_t used;
    for (size_t i = 0; i < COUNT_OF(fronts); i++) {
        size_t len = strlen(fronts[i]);
        for (size_t n = 0; n < len; n++)
            REQUIRE(bs_parse_request((const uint8_t *)fronts[i], n, &req, &used) == BS_MORE);
        ck_assert_int_eq(bs_parse_request((const uint8_t *)fronts[i], len, &req, &used), BS_WEB);
        ck_assert_uint_eq(used, len);
        check_long(fronts[i], 'x', 30000, "w");
        check_long(fronts[i], 'x', 50, "w");
        const char *stream = format("stats\r\n%s/ HTTP/1.1\r\n", fronts[i]);
        check_stream(stream, strlen(stream), "pw");
        check_unknown(format("%.*s", (int)len - 1, fronts[i]));
        check_unknown(format(" %s", fronts[i]));
    }
    check_each(check_unknown, "", "get /|Get /|GETS /|HEAD /|host: x|Host : x|GET/|POST", "");
}

TEST(requests_in_one_packet_are_parsed_one_by_one)
{
    static const char stream[] =
        "use t\r\nfoo\r\nreserve \r\n\r\nstats\0\r\nclaim 1 0\r\nquit\r\nput x\r\n"
        "stats\r\n";
    check_stream(stream, sizeof(stream) - 1, "pububppc");
}

/* ---- Records -------------------------------------------------------------------------------- */

static enum bs_parsed read_record_len(const char *line, size_t len, struct bs_record *record_r)
{
    char *whole = text_room(len + 2);
    size_t used;
    memcpy(whole, line, len);
    memcpy(whole + len, "\r\n", 2);
    for (size_t n = 0; n < len + 2; n++) {
        uint8_t *part = exact_copy(whole, n);
        REQUIRE(bs_parse_record(part, n, record_r, &used) == BS_MORE && used == 0);
        free(part);
    }
    enum bs_parsed parsed = bs_parse_record((uint8_t *)whole, len + 2, record_r, &used);
    REQUIRE(used == len + 2);
    return parsed;
}

static struct bs_record read_record(const char *line)
{
    struct bs_record record;
    if (read_record_len(line, strlen(line), &record) != BS_PARSED)
        ck_abort_msg("refused: %s", line);
    return record;
}

static void check_bad_record(const char *line)
{
    struct bs_record record;
    if (read_record_len(line, strlen(line), &record) != BS_BAD_FORMAT)
        ck_abort_msg("not refused: %s", line);
}

TEST(records_are_lines_with_the_arguments_of_a_put)
{
    struct bs_record record = read_record("1 2 3 4 key=k at=5 root=r:6.500 tries=7");
    ck_assert(record.pri == 1 && record.delay_s == 2 && record.ttr_s == 3 && record.body_len == 4);
    check_text(record.options.key, "k");
    check_text(record.options.root, "r");
    ck_assert(record.options.root_ms == 6500 && record.options.tries == 7);
    uint8_t to[BS_NEW_LINE_MAX];
    size_t len = bs_compose_record(&record, to, sizeof(to));
    check_text(bytes_at(to, len), "1 2 3 4 key=k at=5 root=r:6.500 tries=7\r\n");
    ck_assert_uint_eq(bs_compose_record(&record, to, len), len);
    ck_assert_uint_eq(bs_compose_record(&record, to, len - 1), 0);
    record.options.key = bytes_of("k k");
    ck_assert_uint_eq(bs_compose_record(&record, to, sizeof(to)), 0);
    record = read_record("  01 2   3 4294967295");
    ck_assert(record.pri == 1 && record.body_len == UINT32_MAX && !record.options.has_at);
    check_each(check_bad_record, "",
               "|1|1 2 3|1 2 3 |1 2 3 4 |1 2 3 4x|1 2 3 4 5|-1 2 3 4|1 2 3 4294967296|x|"
               "1 2 3 4 key=|1 2 3 4 key=a key=a|1 2 3 4key=a|put 1 2 3 4|1\n2 3 4|1 2 3 4\r",
               "");
    struct bs_record ignored;
    ck_assert_int_eq(read_record_len("1 2 3 4\0", 8, &ignored), BS_BAD_FORMAT);
    /* As long as a line. */
    size_t used;
    memset(to, '0', sizeof(to));
    memcpy(to, "1 2 3 ", 6);
    ck_assert_int_eq(bs_parse_record(to, 8191, &ignored, &used), BS_MORE);
    ck_assert_int_eq(bs_parse_record(to, 8192, &ignored, &used), BS_BAD_FORMAT);
    ck_assert_uint_eq(used, 0);
    memcpy(to + 8190, "\r\n", 2);
    ck_assert_int_eq(bs_parse_record(to, 8192, &ignored, &used), BS_PARSED);
}

/* ---- Requests, written ---------------------------------------------------------------------- */

TEST(what_would_be_another_request_is_not_composed)
{
    struct bytes t = bytes_of("t");
    const struct bs_request wrong[] = {
        {.verb = BS_VERB_COUNT},
        {.verb = (enum bs_verb) - 1},
        {.verb = BS_VERB_USE},
        {.verb = BS_VERB_USE, .tube = bytes_of("a b")},
        {.verb = BS_VERB_USE, .tube = bytes_of("a\r\nstats")},
        {.verb = BS_VERB_USE, .tube = bytes_of("-a")},
        {.verb = BS_VERB_USE, .tube = bytes_of(letters(201))},
        {.verb = BS_VERB_USE, .tube = t, .id = 1},
        {.verb = BS_VERB_USE, .tube = t, .options.key = t},
        {.verb = BS_VERB_STATS, .tube = t},
        {.verb = BS_VERB_PUT, .options.has_tries = true},
        {.verb = BS_VERB_PUT, .state = BS_STATE_READY},
        {.verb = BS_VERB_DELETE, .id = 1, .token = 1},
        {.verb = BS_VERB_RESERVE_WITH_TIMEOUT, .seconds = 2147483648},
        {.verb = BS_VERB_CLAIM, .seconds = 1},
        {.verb = BS_VERB_CLAIM, .count = 1001},
        {.verb = BS_VERB_CLAIM, .count = 1, .tubes = bytes_of("a  b")},
        {.verb = BS_VERB_CLAIM, .count = 1, .tubes = bytes_of("a ")},
        {.verb = BS_VERB_CLAIM, .count = 1, .tubes = bytes_of("a\r\nb")},
        {.verb = BS_VERB_CLAIM, .count = 1, .tube = t},
        {.verb = BS_VERB_READY, .count = 1},
        {.verb = BS_VERB_READY, .count = 1, .tube = bytes_of("a*")},
        {.verb = BS_VERB_READY, .count = 1, .tube = t, .ready.after = bytes_of("a b")},
        {.verb = BS_VERB_LIST_JOBS, .count = 1, .tube = t},
        {.verb = BS_VERB_LIST_JOBS, .count = 1, .tube = t, .state = BS_STATE_COUNT},
        {.verb = BS_VERB_CLEAR, .tube = t, .state = (enum bs_state)99},
        {.verb = BS_VERB_TUBE, .tube = t, .settings.limit = 1},
        {.verb = BS_VERB_TUBE, .tube = t, .settings.given = 128},
        {.verb = BS_VERB_TUBE, .tube = t, .settings = {.given = 1, .order = (enum bs_order)3}},
        {.verb = BS_VERB_TUBE, .tube = t, .settings = {.given = 2, .claim = (enum bs_claim)2}},
        {.verb = BS_VERB_TUBE, .tube = t, .settings = {.given = 32, .remember_s = 31536001}},
        {.verb = BS_VERB_TUBE, .tube = t, .settings = {.given = 64, .read_only = bytes_of("\"")}},
        {.verb = BS_VERB_PUT_INTO, .tube = t, .options.key = bytes_of("a b")},
        {.verb = BS_VERB_PUT_INTO, .tube = t, .options.root = bytes_of("a:b")},
        {.verb = BS_VERB_PUT_INTO, .tube = t, .options.at_ms = 5},
        {.verb = BS_VERB_PUT_INTO, .tube = t, .options.root_ms = 5},
        {.verb = BS_VERB_PUT_INTO, .tube = t, .options = {.has_at = true, .at_ms = -1}},
        {.verb = BS_VERB_PUT_INTO,
         .tube = t,
         .options = {.has_at = true, .at_ms = BS_TIME_MAX_MS + 1}},
        {.verb = BS_VERB_PUT_INTO,
         .tube = t,
         .options = {.has_at = true, .at_ms = 1500, .at_whole = true}},
        {.verb = BS_VERB_PUT_INTO, .tube = t, .options.tries = 1},
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        if (compose(&wrong[i]))
            ck_abort_msg("row %zu is composed: %s", i, compose(&wrong[i]));
    }
}

static struct bytes random_name(uint64_t *seed, size_t max)
{
    static const char bytes[] = "abcXYZ0189-+/;.$_()";
    size_t len = 1 + random_below(seed, random_below(seed, 4) ? 12 : max);
    char *name = text_room(len);
    for (size_t i = 0; i < len; i++)
        name[i] = bytes[random_below(seed, sizeof(bytes) - 1)];
    if (name[0] == '-')
        name[0] = 'a';
    return bytes_at(name, len);
}

static uint32_t random_u32(uint64_t *seed)
{
    static const uint32_t some[] = {0, 1, 9, 10, UINT32_MAX};
    return random_below(seed, 2) ? some[random_below(seed, COUNT_OF(some))]
                                 : (uint32_t)random_next(seed) >> random_below(seed, 32);
}

static uint64_t random_u64(uint64_t *seed)
{
    return random_below(seed, 8) ? random_next(seed) >> random_below(seed, 64) : UINT64_MAX;
}

static void random_options(uint64_t *seed, struct bs_put_options *options)
{
    if (random_below(seed, 2))
        options->key = random_name(seed, BS_KEY_MAX);
    options->has_at = random_below(seed, 2);
    if (options->has_at) {
        options->at_whole = random_below(seed, 2);
        options->at_ms = options->at_whole ? (int64_t)random_u32(seed) * 1000
                                           : (int64_t)(random_next(seed) % (BS_TIME_MAX_MS + 1));
    }
    if (random_below(seed, 2)) {
        options->root = random_name(seed, BS_KEY_MAX);
        options->root_whole = random_below(seed, 2);
        options->root_ms = options->root_whole
                               ? (int64_t)random_u32(seed) * 1000
                               : (int64_t)(random_next(seed) % (BS_TIME_MAX_MS + 1));
    }
    options->has_tries = random_below(seed, 2);
    if (options->has_tries)
        options->tries = random_u32(seed);
}

static void random_settings(uint64_t *seed, struct bs_settings *s)
{
    s->given = (unsigned)random_below(seed, 128);
    if (s->given & BS_GIVEN_ORDER)
        s->order = (enum bs_order)random_below(seed, 3);
    if (s->given & BS_GIVEN_CLAIM)
        s->claim = (enum bs_claim)random_below(seed, 2);
    s->tries = s->given & BS_GIVEN_TRIES ? random_u32(seed) : 0;
    s->limit = s->given & BS_GIVEN_LIMIT ? random_u32(seed) : 0;
    s->prune_s = s->given & BS_GIVEN_PRUNE ? random_u32(seed) : 0;
    s->remember_s = s->given & BS_GIVEN_REMEMBER ? random_u32(seed) % (BS_REMEMBER_MAX + 1) : 0;
    if (s->given & BS_GIVEN_READ_ONLY)
        s->read_only = bytes_of(random_below(seed, 2) ? "away for a while" : "");
}

static struct bs_request random_request(uint64_t *seed)
{
    struct bs_request req = {.verb = (enum bs_verb)random_below(seed, BS_VERB_COUNT)};
    uint32_t count = 1 + (uint32_t)random_below(seed, BS_COUNT_MAX);
    switch (req.verb) {
    case BS_VERB_PUT_INTO:
        random_options(seed, &req.options);
        req.tube = random_name(seed, BS_TUBE_MAX);
        /* fall through */
    case BS_VERB_PUT:
        req.pri = random_u32(seed);
        req.delay_s = random_u32(seed);
        req.ttr_s = random_u32(seed);
        req.body_len = random_u32(seed);
        break;
    case BS_VERB_PUT_BATCH:
        req.tube = random_name(seed, BS_TUBE_MAX);
        req.count = count;
        req.body_len = random_u32(seed);
        break;
    case BS_VERB_USE:
    case BS_VERB_WATCH:
    case BS_VERB_IGNORE:
    case BS_VERB_STATS_TUBE:
        req.tube = random_name(seed, BS_TUBE_MAX);
        break;
    case BS_VERB_RESERVE_WITH_TIMEOUT:
        req.seconds = random_u32(seed) % (BS_WAIT_MAX + 1u);
        break;
    case BS_VERB_RELEASE:
        req.delay_s = random_u32(seed);
        /* fall through */
    case BS_VERB_BURY:
        req.pri = random_u32(seed);
        /* fall through */
    case BS_VERB_RESERVE_JOB:
    case BS_VERB_DELETE:
    case BS_VERB_TOUCH:
    case BS_VERB_KICK_JOB:
    case BS_VERB_PEEK:
    case BS_VERB_STATS_JOB:
        req.id = random_u64(seed);
        break;
    case BS_VERB_KICK:
        req.count = random_u32(seed);
        break;
    case BS_VERB_PAUSE_TUBE:
        req.tube = random_name(seed, BS_TUBE_MAX);
        req.seconds = random_u32(seed);
        break;
    case BS_VERB_TUBE:
        req.tube = random_name(seed, BS_TUBE_MAX);
        random_settings(seed, &req.settings);
        break;
    case BS_VERB_CLAIM:
        req.count = count;
        req.seconds = random_u32(seed);
        if (random_below(seed, 2))
            req.tubes = random_name(seed, BS_TUBE_MAX);
        break;
    case BS_VERB_NACK:
        req.delay_s = random_u32(seed);
        /* fall through */
    case BS_VERB_ACK:
    case BS_VERB_RENEW:
        req.id = random_u64(seed);
        req.token = random_u64(seed);
        break;
    case BS_VERB_READY:
        req.seconds = random_u32(seed);
        req.count = count;
        req.tube = random_name(seed, BS_TUBE_MAX);
        req.ready.prefix = random_below(seed, 2);
        if (random_below(seed, 2))
            req.ready.after = random_name(seed, BS_TUBE_MAX);
        break;
    case BS_VERB_LIST_JOBS:
        req.id = random_u64(seed);
        req.count = count;
        /* fall through */
    case BS_VERB_CLEAR:
        req.tube = random_name(seed, BS_TUBE_MAX);
        req.state = (enum bs_state)(1 + random_below(seed, BS_STATE_COUNT - 1));
        break;
    default:
        break;
    }
    return req;
}

TEST(random_requests_survive_a_round_trip)
{
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        texts_len = 0;
        struct bs_request req = random_request(&seed), again;
        const char *line = compose(&req);
        if (!line)
            ck_abort_msg("not composed: verb %d", (int)req.verb);
        size_t used, len = strlen(line);
        REQUIRE(bs_parse_request((const uint8_t *)line, len, &again, &used) == BS_PARSED);
        REQUIRE(used == len && same_request(&req, &again));
    }
}

TEST(the_longest_requests_fit_in_their_lines)
{
    struct bs_request req = {.verb = BS_VERB_STATS_TUBE, .tube = bytes_of(letters(200))};
    ck_assert(compose(&req));
    req.verb = BS_VERB_PAUSE_TUBE;
    req.seconds = UINT32_MAX; /* 10 + 1 + 200 + 1 + 10 + 2 bytes: exactly 224 */
    ck_assert(compose(&req));
    ck_assert_uint_eq(strlen(compose(&req)), BS_LINE_MAX);
    /* A list of tubes that needs more than a line is not composed. */
    struct bs_request claim = {.verb = BS_VERB_CLAIM, .count = 1000, .seconds = UINT32_MAX};
    char *tubes = text_room(9000);
    for (size_t i = 0; i < 9000; i++)
        tubes[i] = i % 2 ? ' ' : 't';
    size_t len = BS_NEW_LINE_MAX - strlen("claim 1000 4294967295 \r\n");
    len -= len % 2 == 0; /* a list ends with a name */
    claim.tubes = bytes_at(tubes, len);
    ck_assert(compose(&claim));
    claim.tubes.len += 2;
    ck_assert(!compose(&claim));
}

/* ---- Answers -------------------------------------------------------------------------------- */

static bool same_reply(const struct bs_reply *a, const struct bs_reply *b)
{
    return a->answer == b->answer && a->has_body == b->has_body && a->state == b->state &&
           a->body_len == b->body_len && a->id == b->id && a->count == b->count &&
           a->next == b->next && a->token == b->token && a->try == b->try &&
           bytes_equal(a->tube, b->tube) && bytes_equal(a->reason, b->reason);
}

/* Parses a line cut after each byte, and whole. */
static enum bs_parsed read_reply_len(const char *line, size_t len, struct bs_reply *reply_r)
{
    char *whole = text_room(len + 3);
    memcpy(whole, line, len);
    memcpy(whole + len, "\r\nx", 3);
    size_t used;
    for (size_t n = 0; n < len + 2; n++) {
        uint8_t *part = exact_copy(whole, n);
        REQUIRE(bs_parse_reply(part, n, reply_r, &used) == BS_MORE && used == 0);
        free(part);
    }
    enum bs_parsed parsed = bs_parse_reply((uint8_t *)whole, len + 3, reply_r, &used);
    REQUIRE(used == len + 2);
    return parsed;
}

/* Parses a good line, and composes it again. */
static struct bs_reply read_reply(const char *line)
{
    struct bs_reply reply;
    memset(&reply, 0x11, sizeof(reply));
    if (read_reply_len(line, strlen(line), &reply) != BS_PARSED)
        ck_abort_msg("refused: %s", line);
    char *text = text_room(BS_REPLY_ROOM);
    size_t len = bs_compose_reply(&reply, (uint8_t *)text, BS_REPLY_ROOM);
    check_text(bytes_at(text, len), format("%s\r\n", line));
    uint8_t *tight = malloc(len);
    REQUIRE(tight);
    REQUIRE(bs_compose_reply(&reply, tight, len) == len);
    REQUIRE(bs_compose_reply(&reply, tight, len - 1) == 0);
    free(tight);
    return reply;
}

static void check_bad_reply(const char *line)
{
    struct bs_reply reply;
    if (read_reply_len(line, strlen(line), &reply) != BS_BAD_FORMAT)
        ck_abort_msg("not refused: %s", line);
}

TEST(answers_of_fixed_text_are_these_words)
{
    static const char *const words[] = {
        "DELETED",        "RELEASED",    "BURIED",         "TOUCHED",   "KICKED",
        "PAUSED",         "NOT_FOUND",   "NOT_IGNORED",    "TIMED_OUT", "DEADLINE_SOON",
        "EXPECTED_CRLF",  "JOB_TOO_BIG", "DRAINING",       "TUBE_FULL", "OUT_OF_MEMORY",
        "INTERNAL_ERROR", "BAD_FORMAT",  "UNKNOWN_COMMAND"};
    ck_assert_uint_eq(COUNT_OF(words), BS_ANSWER_FIXED);
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        struct bs_reply expected = {.answer = (enum bs_answer)i}, reply = read_reply(words[i]);
        ck_assert(same_reply(&reply, &expected));
        check_text(bs_answer_line((enum bs_answer)i), format("%s\r\n", words[i]));
        check_each(check_bad_reply, words[i], " |x| x", "");
    }
    ck_assert_uint_eq(bs_answer_line(BS_ANSWER_INSERTED).len, 0);
    ck_assert_uint_eq(bs_answer_line((enum bs_answer)999).len, 0);
}

TEST(answers_carry_their_parts)
{
    static const struct {
        const char *line;
        struct bs_reply reply;
    } rows[] = {
        {"INSERTED 7", {.answer = BS_ANSWER_INSERTED, .id = 7}},
        {"INSERTED 18446744073709551615", {.answer = BS_ANSWER_INSERTED, .id = UINT64_MAX}},
        {"DUPLICATE 0", {.answer = BS_ANSWER_DUPLICATE}},
        {"UNREADABLE 7 ready 2",
         {.answer = BS_ANSWER_UNREADABLE_JOB, .id = 7, .state = BS_STATE_READY, .try = 2}},
        {"BURIED 7", {.answer = BS_ANSWER_PUT_BURIED, .id = 7}},
        {"RESERVED 7 8", {.answer = BS_ANSWER_RESERVED, .has_body = true, .id = 7, .body_len = 8}},
        {"FOUND 7 0", {.answer = BS_ANSWER_FOUND, .has_body = true, .id = 7}},
        {"OK 4294967295", {.answer = BS_ANSWER_OK, .has_body = true, .body_len = UINT32_MAX}},
        {"WATCHING 2", {.answer = BS_ANSWER_WATCHING, .count = 2}},
        {"KICKED 0", {.answer = BS_ANSWER_KICKED}},
        {"CLAIMED 1000", {.answer = BS_ANSWER_CLAIMED, .count = 1000}},
        {"LISTED 5 9", {.answer = BS_ANSWER_LISTED, .count = 5, .next = 9}},
        {"CLEARED 1000000", {.answer = BS_ANSWER_CLEARED, .count = 1000000}},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct bs_reply reply = read_reply(rows[i].line);
        if (!same_reply(&reply, &rows[i].reply))
            ck_abort_msg("%s", rows[i].line);
    }
    struct bs_reply reply = read_reply("USING a/b");
    ck_assert_int_eq(reply.answer, BS_ANSWER_USING);
    check_text(reply.tube, "a/b");
    reply = read_reply("READ_ONLY away for a while");
    ck_assert_int_eq(reply.answer, BS_ANSWER_READ_ONLY);
    check_text(reply.reason, "away for a while");
    reply = read_reply("RESERVED 7 8 9007199254740991 wiki/a 3");
    ck_assert(reply.answer == BS_ANSWER_CLAIMED_JOB && reply.id == 7 && reply.body_len == 8);
    ck_assert(reply.token == 9007199254740991 && reply.try == 3 && reply.has_body);
    check_text(reply.tube, "wiki/a");
    reply = read_reply("FOUND 7 8 abandoned 3");
    ck_assert(reply.answer == BS_ANSWER_LISTED_JOB && reply.state == BS_STATE_ABANDONED);
    ck_assert(reply.id == 7 && reply.body_len == 8 && reply.try == 3 && reply.has_body);
}

TEST(other_lines_are_no_answers)
{
    check_each(check_bad_reply, "",
               "|x|OK|OK |OK x|OK -1|OK 4294967296|OK 1 |OK 1 2|OK1|ok 1| OK 1|INSERTED|INSERTED |"
               "INSERTED x|INSERTED 1 2|INSERTED 18446744073709551616|RESERVED|RESERVED 1|"
               "RESERVED 1 2 3|RESERVED 1 2 3 t|RESERVED 1 2 3 t 4 5|RESERVED 1 2 3 -t 4|"
               "RESERVED 1 2 3 t 4294967296|FOUND 1|FOUND 1 2 ready|FOUND 1 2 all 3|"
               "FOUND 1 2 Ready 3|FOUND 1 2 ready 3 4|USING|USING |USING a b|USING -a|WATCHING|"
               "WATCHING x|LISTED 1|LISTED 1 2 3|CLAIMED|CLEARED x|READ_ONLY|READ_ONLY |KICKED x|"
               "DUPLICATE|BURIED x",
               "");
    struct bs_reply reply;
    size_t used;
    uint8_t line[BS_REPLY_ROOM];
    memset(line, 'x', sizeof(line));
    ck_assert_int_eq(bs_parse_reply(line, BS_REPLY_ROOM - 1, &reply, &used), BS_MORE);
    ck_assert_int_eq(bs_parse_reply(line, BS_REPLY_ROOM, &reply, &used), BS_BAD_FORMAT);
    ck_assert_uint_eq(used, 0);
    ck_assert_int_eq(bs_parse_reply(NULL, 0, &reply, &used), BS_MORE);
    ck_assert(!bs_parse_reply_line((struct bytes){0}, &reply));
    ck_assert_uint_eq(bs_compose_reply(&(struct bs_reply){.answer = BS_ANSWER_COUNT}, line, 512),
                      0);
}

TEST(the_longest_answers_fit_in_their_room)
{
    struct bs_reply reply = {
        .answer = BS_ANSWER_CLAIMED_JOB,
        .id = UINT64_MAX,
        .body_len = UINT32_MAX,
        .token = UINT64_MAX,
        .tube = bytes_of(letters(BS_TUBE_MAX)),
        .try = UINT32_MAX,
        .reason = bytes_of(letters(BS_REASON_MAX)),
        .state = BS_STATE_ABANDONED,
        .count = UINT64_MAX,
        .next = UINT64_MAX,
    };
    for (size_t i = 0; i < BS_ANSWER_COUNT; i++) {
        uint8_t to[BS_REPLY_ROOM];
        size_t used;
        struct bs_reply again;
        reply.answer = (enum bs_answer)i;
        size_t len = bs_compose_reply(&reply, to, sizeof(to));
        ck_assert_uint_gt(len, 0);
        ck_assert_int_eq(bs_parse_reply(to, len, &again, &used), BS_PARSED);
        ck_assert_uint_eq(again.answer, i);
    }
}

/* ---- Lists and dictionaries ----------------------------------------------------------------- */

TEST(entries_are_lines_with_quotes_or_without)
{
    uint8_t to[256];
    size_t len = bs_compose_item(bytes_of("default"), to, sizeof(to));
    check_text(bytes_at(to, len), "- default\n");
    ck_assert_uint_eq(bs_compose_item(bytes_of("default"), to, len), len);
    ck_assert_uint_eq(bs_compose_item(bytes_of("default"), to, len - 1), 0);
    len = bs_compose_item_put(BS_ANSWER_INSERTED, UINT64_MAX, to, sizeof(to));
    check_text(bytes_at(to, len), "- INSERTED 18446744073709551615\n");
    len = bs_compose_item_put(BS_ANSWER_DUPLICATE, 0, to, sizeof(to));
    check_text(bytes_at(to, len), "- DUPLICATE 0\n");
    ck_assert_uint_eq(bs_compose_item_put(BS_ANSWER_DUPLICATE, 0, to, len - 1), 0);
    len = bs_compose_number("current-tubes", 12, to, sizeof(to));
    check_text(bytes_at(to, len), "current-tubes: 12\n");
    ck_assert_uint_eq(bs_compose_number("current-tubes", 12, to, len - 1), 0);
    len = bs_compose_micros("rusage-utime", 12005192, to, sizeof(to));
    check_text(bytes_at(to, len), "rusage-utime: 12.005192\n");
    ck_assert_uint_eq(bs_compose_micros("rusage-utime", 12005192, to, len - 1), 0);
    len = bs_compose_word("state", bytes_of("ready"), to, sizeof(to));
    check_text(bytes_at(to, len), "state: ready\n");
    ck_assert_uint_eq(bs_compose_word("state", bytes_of("ready"), to, len - 1), 0);
    len = bs_compose_quoted("os", bytes_of("a \"b\"\\\n\x7f\xff ~!#"), to, sizeof(to));
    check_text(bytes_at(to, len), "os: \"a _b_____ ~!#\"\n");
    ck_assert_uint_eq(bs_compose_quoted("os", bytes_of("a \"b\"\\\n\x7f\xff ~!#"), to, len - 1), 0);
    len = bs_compose_quoted("read-only", (struct bytes){0}, to, sizeof(to));
    check_text(bytes_at(to, len), "read-only: \"\"\n");
    len = bs_compose_ready(bytes_of("wiki/a"), 5, to, sizeof(to));
    check_text(bytes_at(to, len), "\"wiki/a\": 5\n");
    ck_assert_uint_eq(bs_compose_ready(bytes_of("wiki/a"), 5, to, len - 1), 0);
    uint8_t room[BS_ENTRY_ROOM];
    const char *longest = letters(BS_TUBE_MAX);
    ck_assert_uint_gt(bs_compose_ready(bytes_of(longest), UINT64_MAX, room, sizeof(room)), 0);
    ck_assert_uint_gt(bs_compose_micros(longest, UINT64_MAX, room, sizeof(room)), 0);
}

static void check_quotes(const char *value, bool needed)
{
    ck_assert_msg(bs_needs_quotes(bytes_of(value)) == needed, "%s: %d awaited", value, needed);
}

/* PyYAML, Psych, js-yaml 3.6, 3.14 and 4, and yaml of Node.js, as 1.1 and 1.2, take all of `bare`
 * for strings; what one of them takes for something else is quoted. */
TEST(strings_are_bare_unless_yaml_takes_them_for_something_else)
{
    static const char quoted[] =
        "~ null Null NULL true False tRUE yes NO on Off y N 0 123 +5 -5 007 08 1_000 1_ 0_ _1 __1_ "
        "1,000 0x1F 0Xff +0x_f 0b101 0b_ 0o17 0O7 1e3 1E-3 1e+3 1.5 1. .5 +.5 -.5 . +. ._ .e+0 "
        "1_0.5_0 1.5e3 .5E9 1:30 190:20:30 190:20:30.15 .inf -.Inf +.INF .nan .NaN 2026-11-27 "
        "2026-1-7 2001-12-14t21:59:43.10-05:00 = << - ? :a a: #a [a {a &a *a !a | > 'a' \"a\" %a "
        "@a "
        "`a ,a a\tb a\nb \x7f \xc3\xa9 ---";
    static const char bare[] =
        "default mail-queue wiki/refreshLinks a.b x86_64 Linux a#b a:b a'b a\"b a\\b v1 1.2.3 "
        "10.0.0.1 2fa 0x 0xg 0b2 0o8 1e 1e+ e + ++1 1+1 1-2 _ _a /1 ; $1 (1) ... .. 1.5. inf "
        "nan "
        "Infinity .info +.nan +a yesterday nulls none t f ye 2026-11 2026-11- 2026-11-271 "
        "2026-111-27 226-11-27 2026-11-27x 2026/11/27 20-11-2026 1_000a a1 1/2 1; 0.0.0";
    static const char *const spaced[] = {"",
                                         " a",
                                         "a ",
                                         "a: b",
                                         "a #b",
                                         "- a",
                                         "2026-11-27 21:59:43",
                                         "#1 SMP PREEMPT_DYNAMIC Debian 6.1.1-1 (2024-11-22)"};
    char words[1024], *rest, *word;
    for (int n = 0; n < 2; n++) {
        strcpy(words, n == 0 ? quoted : bare);
        for (word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
            check_quotes(word, n == 0);
    }
    for (size_t i = 0; i < COUNT_OF(spaced); i++)
        check_quotes(spaced[i], true);
    check_quotes("SMP x86_64 (of 2026:it's one)", false);

    uint8_t to[64];
    size_t len = bs_compose_string("tube", bytes_of("mail-queue"), to, sizeof(to));
    check_text(bytes_at(to, len), "tube: mail-queue\n");
    ck_assert_uint_eq(bs_compose_string("tube", bytes_of("mail-queue"), to, len - 1), 0);
    len = bs_compose_string("tube", bytes_of("1e3"), to, sizeof(to));
    check_text(bytes_at(to, len), "tube: \"1e3\"\n");
}

TEST(entries_are_read_without_quotes)
{
    struct bytes text = bytes_of("---\n- default\n- INSERTED 7\n");
    struct bs_entry entry;
    ck_assert(bs_next_entry(&text, &entry) && entry.key.len == 0);
    check_text(entry.value, "default");
    ck_assert(bs_next_entry(&text, &entry));
    struct bs_reply reply;
    ck_assert(bs_parse_reply_line(entry.value, &reply));
    ck_assert(reply.answer == BS_ANSWER_INSERTED && reply.id == 7);
    ck_assert(!bs_next_entry(&text, &entry) && text.len == 0);

    text = bytes_of("---\nid: 7\nname: \"a: b\"\n\"wiki/a\": 5\nempty: \nquoted: \"\"\n");
    static const char *const pairs[][2] = {
        {"id", "7"}, {"name", "a: b"}, {"wiki/a", "5"}, {"empty", ""}, {"quoted", ""}};
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        ck_assert(bs_next_entry(&text, &entry));
        check_text(entry.key, pairs[i][0]);
        check_text(entry.value, pairs[i][1]);
    }
    ck_assert(!bs_next_entry(&text, &entry) && text.len == 0);

    static const char *const wrong[] = {"x", "x\n", "\n", ": x\n", "-x\n", "---", "a: b", "x:y\n"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        text = bytes_of(wrong[i]);
        ck_assert(!bs_next_entry(&text, &entry));
        ck_assert_uint_gt(text.len, 0);
    }
    text = bytes_of("---\n");
    ck_assert(!bs_next_entry(&text, &entry) && text.len == 0);
    text = (struct bytes){0};
    ck_assert(!bs_next_entry(&text, &entry) && text.len == 0);
}

/* ---- Random bytes --------------------------------------------------------------------------- */

TEST(what_is_parsed_of_random_words_is_composed_and_parsed_again)
{
    static const char *const words[] = {"put",        "put-into",   "claim",
                                        "tube",       "ready",      "list-jobs",
                                        "clear",      "ack",        "nack",
                                        "delete",     "release",    "use",
                                        "kick",       "pause-tube", "put-batch",
                                        " ",          " ",          " ",
                                        " ",          " ",          " ",
                                        " ",          " ",          "1",
                                        "2",          "0",          "99999",
                                        "t",          "a/b",        "*",
                                        "all",        "ready",      "key=k",
                                        "at=1.5",     "root=r:1",   "tries=1",
                                        "order=fifo", "limit=5",    "read-only=x y",
                                        "-",          "\r",         "\n",
                                        "\"",         ":",          " 1",
                                        " 1",         " 2",         " t",
                                        " t",         " all"};
    uint64_t seed = 2;
    unsigned parsed = 0;
    for (int i = 0; i < 300000; i++) {
        texts_len = 0;
        char line[600];
        size_t len = 0, count = 1 + random_below(&seed, 9);
        for (size_t w = 0; w < count; w++) {
            const char *word =
                words[w == 0 ? random_below(&seed, 15) : random_below(&seed, COUNT_OF(words))];
            memcpy(line + len, word, strlen(word));
            len += strlen(word);
        }
        memcpy(line + len, "\r\n", 2);
        uint8_t *exact = exact_copy(line, len + 2);
        struct bs_request req, again;
        size_t used;
        if (bs_parse_request(exact, len + 2, &req, &used) == BS_PARSED) {
            parsed++;
            const char *composed = compose(&req);
            REQUIRE(composed);
            REQUIRE(bs_parse_request((const uint8_t *)composed, strlen(composed), &again, &used) ==
                    BS_PARSED);
            REQUIRE(same_request(&req, &again));
        }
        free(exact);
    }
    ck_assert_uint_gt(parsed, 1000);
}

/* ---- The program ---------------------------------------------------------------------------- */

int main(void)
{
    const struct unit_test tests[] = {
        UNIT(verbs_have_their_listed_words),
        UNIT(arguments_are_where_they_belong),
        UNIT(numbers_are_digits_with_spaces_before_them),
        UNIT(counts_of_jobs_are_not_zero),
        UNIT(nothing_may_follow_the_last_argument),
        UNIT(arguments_that_are_missing_are_wrong),
        UNIT(a_verb_without_its_space_is_unknown_but_three),
        UNIT(verbs_match_whole_and_as_they_are),
        UNIT(a_nul_byte_is_bad_format),
        UNIT(only_cr_and_lf_together_end_a_line),
        UNIT(names_of_tubes_have_listed_bytes),
        UNIT(pause_tube_alone_allows_spaces_before_the_name),
        UNIT(a_claim_names_tubes_or_none),
        UNIT(a_pattern_is_a_name_or_the_beginning_of_names),
        UNIT(states_are_six_words),
        UNIT(options_of_a_put_are_each_there_once),
        UNIT(times_are_seconds_with_up_to_three_decimals),
        UNIT(settings_of_a_tube_are_each_there_once),
        UNIT(a_line_that_is_too_long_is_skipped_and_answered_once),
        UNIT(lines_of_new_verbs_may_be_longer),
        UNIT(a_put_that_is_too_long_closes),
        UNIT(a_long_line_is_dropped_as_it_comes),
        UNIT(web_browsers_are_known_by_the_first_bytes),
        UNIT(requests_in_one_packet_are_parsed_one_by_one),
        UNIT(records_are_lines_with_the_arguments_of_a_put),
        UNIT(what_would_be_another_request_is_not_composed),
        UNIT(random_requests_survive_a_round_trip),
        UNIT(the_longest_requests_fit_in_their_lines),
        UNIT(answers_of_fixed_text_are_these_words),
        UNIT(answers_carry_their_parts),
        UNIT(other_lines_are_no_answers),
        UNIT(the_longest_answers_fit_in_their_room),
        UNIT(entries_are_lines_with_quotes_or_without),
        UNIT(strings_are_bare_unless_yaml_takes_them_for_something_else),
        UNIT(entries_are_read_without_quotes),
        UNIT(what_is_parsed_of_random_words_is_composed_and_parsed_again),
    };
    return unit_run("proto/beanstalk", tests, COUNT_OF(tests));
}
