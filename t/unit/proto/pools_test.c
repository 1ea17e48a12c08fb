/*
 * pools_test.c - the verbs of pools, both directions.
 *
 * `read_request` passes every line in a buffer of exactly its size, so that a sanitizer sees a read
 * past the end, and byte by byte through pc_parse_request, which has to split it.
 */
#include "proto/poolcounter.h"
#include "proto/pools.h"
#include "t/unit/unit.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define MAX_LINE        65536

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

/* Texts that last as long as the test: the memory of one round is used again in the next. */
static char texts[1 << 20];
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
    char text[40000];
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

/* `count` words " PREFIXn=v". */
static const char *pairs_text(const char *prefix, size_t count)
{
    const char *text = "";
    for (size_t i = 0; i < count; i++)
        text = format("%s %s%zu=v", text, prefix, i);
    return text;
}

static bool same_pairs(const struct pool_pair *a, size_t a_count, const struct pool_pair *b,
                       size_t b_count)
{
    if (a_count != b_count)
        return false;
    for (size_t i = 0; i < a_count; i++) {
        if (!bytes_equal(a[i].key, b[i].key) || !bytes_equal(a[i].value, b[i].value))
            return false;
    }
    return true;
}

static bool same_request(const struct pool_request *a, const struct pool_request *b)
{
    if (a->target_count != b->target_count)
        return false;
    for (size_t i = 0; i < a->target_count; i++) {
        if (!bytes_equal(a->targets[i], b->targets[i]))
            return false;
    }
    return a->verb == b->verb && bytes_equal(a->group, b->group) &&
           a->timeout_ns == b->timeout_ns && a->count == b->count && a->take_for == b->take_for &&
           bytes_equal(a->by, b->by) && a->has_fence == b->has_fence && a->fence == b->fence &&
           a->failed == b->failed && a->init == b->init && a->max == b->max &&
           bytes_equal(a->pool, b->pool) && bytes_equal(a->member, b->member) &&
           bytes_equal(a->value, b->value) && bytes_equal(a->note, b->note) &&
           bytes_equal(a->state, b->state) && a->has_value == b->has_value &&
           a->has_note == b->has_note && a->has_state == b->has_state && a->now == b->now &&
           a->mine == b->mine && same_pairs(a->pairs, a->pair_count, b->pairs, b->pair_count);
}

/* The text protocol's parser splits the line wherever the bytes are cut, and leaves it to pools. */
static void check_split(const char *line, size_t len)
{
    uint8_t *whole = exact_copy(line, len + 1);
    whole[len] = '\n';
    struct pc_request ignored;
    size_t used = 77;
    for (size_t n = 0; n <= len; n++) {
        uint8_t *part = exact_copy(whole, n);
        REQUIRE(pc_parse_request(part, n, MAX_LINE, &ignored, &used) == PC_MORE);
        free(part);
    }
    REQUIRE(pc_parse_request(whole, len + 1, MAX_LINE, &ignored, &used) == PC_BAD_COMMAND);
    REQUIRE(used == len + 1);
    free(whole);
}

/* Parses a line. The request points into `line`. */
static enum pool_parsed read_len(const char *line, size_t len, struct pool_request *req_r)
{
    uint8_t *exact = exact_copy(line, len);
    struct pool_request of_exact;
    memset(&of_exact, 0xee, sizeof(of_exact));
    memset(req_r, 0x11, sizeof(*req_r));
    enum pool_parsed parsed = pool_parse_request(bytes_at(exact, len), &of_exact);
    REQUIRE(pool_parse_request(bytes_at(line, len), req_r) == parsed);
    REQUIRE(parsed != POOL_PARSED || same_request(req_r, &of_exact));
    free(exact);
    return parsed;
}

static struct pool_request read_request(const char *line)
{
    struct pool_request req;
    if (strlen(line) < 1000)
        check_split(line, strlen(line));
    enum pool_parsed parsed = read_len(line, strlen(line), &req);
    if (parsed != POOL_PARSED)
        ck_abort_msg("refused (%d): %s", (int)parsed, line);
    return req;
}

static void check_refused_len(const char *line, size_t len, enum pool_parsed expected)
{
    struct pool_request req;
    enum pool_parsed parsed = read_len(line, len, &req);
    if (parsed != expected)
        ck_abort_msg("%d instead of %d: %s", (int)parsed, (int)expected, line);
}

static void check_bad_syntax(const char *line)
{
    check_refused_len(line, strlen(line), POOL_BAD_SYNTAX);
}

static void check_bad_command(const char *line)
{
    check_refused_len(line, strlen(line), POOL_BAD_COMMAND);
}

static void check_text(struct bytes b, const char *expected)
{
    if (!bytes_equal(b, bytes_of(expected)))
        ck_abort_msg("\"%.*s\" instead of \"%s\"", (int)b.len, b.data ? (const char *)b.data : "",
                     expected);
}

static void check_pair(const struct pool_pair *pair, const char *key, const char *value)
{
    check_text(pair->key, key);
    check_text(pair->value, value);
}

/* True when nothing but the verb differs from an empty request. */
static bool is_empty(const struct pool_request *req)
{
    struct pool_request empty = {.verb = req->verb};
    return same_request(req, &empty);
}

/* ---- Requests, read ------------------------------------------------------------------------- */

TEST(take_carries_target_timeout_and_options)
{
    struct pool_request req = read_request("TAKE db");
    ck_assert_int_eq(req.verb, POOL_VERB_TAKE);
    ck_assert_uint_eq(req.target_count, 1);
    check_text(req.targets[0], "db");
    ck_assert_uint_eq(req.count, 1);
    ck_assert_int_eq(req.take_for, POOL_TAKE_FOR_USE);
    req.count = 0;
    req.target_count = 0;
    ck_assert(is_empty(&req));

    req = read_request("TAKE a,b,c 0.25 by=me with=gpu=a100 for=check count=3 with=os=a=b  ");
    ck_assert_uint_eq(req.target_count, 3);
    check_text(req.targets[0], "a");
    check_text(req.targets[2], "c");
    ck_assert_int_eq(req.timeout_ns, 250000000);
    check_text(req.by, "me");
    ck_assert_int_eq(req.take_for, POOL_TAKE_FOR_CHECK);
    ck_assert_uint_eq(req.count, 3);
    ck_assert_uint_eq(req.pair_count, 2);
    check_pair(&req.pairs[0], "gpu", "a100");
    check_pair(&req.pairs[1], "os", "a=b");
    ck_assert_uint_eq(req.member.len, 0);

    req = read_request("TAKE  @gpus   for=clean   with=a=");
    check_text(req.group, "gpus");
    ck_assert_uint_eq(req.target_count, 0);
    ck_assert_int_eq(req.take_for, POOL_TAKE_FOR_CLEAN);
    check_pair(&req.pairs[0], "a", "");

    req = read_request("TAKE db 1 count=1 for=use member=a=b,@c");
    check_text(req.member, "a=b,@c");
    ck_assert_int_eq(req.take_for, POOL_TAKE_FOR_USE);
    ck_assert_uint_eq(req.count, 1);
}

TEST(a_target_is_a_pool_or_pools_or_a_group_and_nothing_else)
{
    const char *wrong = "@|*|*a|,|a,|,a|a,,b|a,a|a,b,a|a,@b|@a,b|@@a|@*a|a,*|a\rb|\r";
    check_each(check_bad_syntax, "TAKE ", wrong, "");
    check_each(check_bad_syntax, "TAKE ", wrong, " 5");
    check_refused_len("TAKE a\0b", 8, POOL_BAD_SYNTAX);
    check_refused_len("TAKE a\nb", 8, POOL_BAD_SYNTAX);
    const char *list = "p0";
    for (int i = 1; i < 16; i++)
        list = format("%s,p%d", list, i);
    struct pool_request req = read_request(format("TAKE %s 5", list));
    ck_assert_uint_eq(req.target_count, 16);
    check_text(req.targets[15], "p15");
    check_bad_syntax(format("TAKE %s,p16 5", list));
    ck_assert_uint_eq(read_request(format("TAKE %s", letters(255))).targets[0].len, 255);
    check_bad_syntax(format("TAKE %s", letters(256)));
    ck_assert_uint_eq(read_request(format("TAKE a,%s", letters(255))).targets[1].len, 255);
    check_bad_syntax(format("TAKE a,%s", letters(256)));
    ck_assert_uint_eq(read_request(format("TAKE @%s", letters(255))).group.len, 255);
    check_bad_syntax(format("TAKE @%s", letters(256)));
    /* The others are ordinary bytes. */
    check_text(read_request("TAKE a@*=-\t\x01\xff").targets[0], "a@*=-\t\x01\xff");
}

TEST(a_timeout_is_decimal_seconds_or_the_line_is_wrong)
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
        {"1.000000001", INT64_C(1000000001)},
        {"0.0000000009", 0},
        {"0.9999999999999999999999999999999", 999999999},
        {"4294967294.999999999", POOLS_TIMEOUT_MAX_NS - 1},
        {"4294967295", POOLS_TIMEOUT_MAX_NS},
        {"4294967295.000000000", POOLS_TIMEOUT_MAX_NS},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct pool_request req = read_request(format("TAKE db %s by=me", rows[i].text));
        if (req.timeout_ns != rows[i].ns)
            ck_abort_msg("%s is %" PRId64, rows[i].text, req.timeout_ns);
        ck_assert(req.timeout_ns == read_request(format("TAKE db %s", rows[i].text)).timeout_ns);
    }
    check_each(check_bad_syntax, "TAKE db ",
               ".|-|-5|+5|5e3|5s|1,5|1.5.5|..5|1.-5|0x5|inf|now|\xb9|5\r|"
               "4294967295.000000001|4294967296|18446744073709551616|"
               "18446744073709551617.5",
               "");
    /* It is the second word, and there is one. */
    check_bad_syntax("TAKE db 5 5");
    check_bad_syntax("TAKE db by=me 5");
    check_bad_syntax("TAKE db 5 by=me 5");
}

TEST(options_of_take_are_each_there_once_and_within_their_bounds)
{
    ck_assert_uint_eq(read_request("TAKE db count=64").count, 64);
    ck_assert_uint_eq(read_request(format("TAKE db by=%s", letters(128))).by.len, 128);
    ck_assert_uint_eq(read_request(format("TAKE db member=%s", letters(255))).member.len, 255);
    ck_assert_uint_eq(read_request(format("TAKE db%s", pairs_text("with=k", 8))).pair_count, 8);
    const char *wrong = "count=|count=0|count=65|count=-1|count=1.0|count=a|count=4294967297|"
                        "count=1 count=1|for=|for=Use|for=used|for=use for=use|by=|by=a by=a|"
                        "member=|member=a member=a|with=|with=a|with==a|with=A=b|with=value=1|"
                        "with=state=free|with=note=x|with=a=1 with=a=1|with=a=1 with=a=2|"
                        "timeout=5|=|=a|count|COUNT=1|count =1|nice=5|by=a\rb";
    check_each(check_bad_syntax, "TAKE db 5 ", wrong, "");
    check_each(check_bad_syntax, "TAKE db 5 ", wrong, " for=use");
    check_each(check_bad_syntax, "TAKE db ", wrong, "");
    check_bad_syntax(format("TAKE db by=%s", letters(129)));
    check_bad_syntax(format("TAKE db member=%s", letters(256)));
    check_bad_syntax(format("TAKE db%s", pairs_text("with=k", 9)));
}

TEST(one_member_is_taken_by_name_of_one_pool)
{
    (void)read_request("TAKE a member=m count=1");
    check_bad_syntax("TAKE a,b member=m");
    check_bad_syntax("TAKE @a member=m");
    check_bad_syntax("TAKE a member=m count=2");
    check_bad_syntax("TAKE a count=2 member=m");
}

TEST(return_has_a_fence_and_a_result_or_not)
{
    struct pool_request req = read_request("RETURN");
    ck_assert_int_eq(req.verb, POOL_VERB_RETURN);
    ck_assert(is_empty(&req));
    req = read_request("RETURN ok");
    ck_assert(is_empty(&req));
    req = read_request("RETURN   ");
    ck_assert(is_empty(&req));
    req = read_request("RETURN fail");
    ck_assert(req.failed && !req.has_fence);
    req = read_request("RETURN 17");
    ck_assert(!req.failed && req.has_fence && req.fence == 17);
    req = read_request("RETURN  0  ok ");
    ck_assert(!req.failed && req.has_fence && req.fence == 0);
    req = read_request("RETURN 18446744073709551615 fail");
    ck_assert(req.failed && req.has_fence && req.fence == UINT64_MAX);
    ck_assert_uint_eq(read_request("RETURN 00000000000000000017").fence, 17);
    check_each(check_bad_syntax, "RETURN ",
               "18446744073709551616|000000000000000000017|-1|+1|1x|x|0x1|1.|OK|okay|"
               "Fail|ok 1|fail 1|1 1|ok ok|1 ok ok|1 x|1 ok x|1\r|-",
               "");
}

/* Checks the words of JOIN and MEMBER ADD. */
static void check_new_member(const char *verb, enum pool_verb expected)
{
    struct pool_request req = read_request(format("%s db m", verb));
    ck_assert_int_eq(req.verb, expected);
    check_text(req.pool, "db");
    check_text(req.member, "m");
    ck_assert(req.value.len == 0 && req.pair_count == 0 && !req.has_value);
    ck_assert_uint_eq(read_request(format("%s db m -", verb)).value.len, 0);
    check_text(read_request(format("%s db m --", verb)).value, "--");
    /* The word after the member is the value, even if it looks like an attribute. */
    req = read_request(format("%s db m host=h;port=5", verb));
    check_text(req.value, "host=h;port=5");
    ck_assert_uint_eq(req.pair_count, 0);
    req = read_request(format("%s db @,*=  -  gpu=a100 a_0=x=y b= ", verb));
    check_text(req.member, "@,*=");
    ck_assert_uint_eq(req.value.len, 0);
    ck_assert_uint_eq(req.pair_count, 3);
    check_pair(&req.pairs[0], "gpu", "a100");
    check_pair(&req.pairs[1], "a_0", "x=y");
    check_pair(&req.pairs[2], "b", "");

    ck_assert_uint_eq(read_request(format("%s %s m", verb, letters(255))).pool.len, 255);
    check_bad_syntax(format("%s %s m", verb, letters(256)));
    ck_assert_uint_eq(read_request(format("%s db %s", verb, letters(255))).member.len, 255);
    check_bad_syntax(format("%s db %s", verb, letters(256)));
    ck_assert_uint_eq(read_request(format("%s db m %s", verb, letters(4096))).value.len, 4096);
    check_bad_syntax(format("%s db m %s", verb, letters(4097)));
    ck_assert_uint_eq(read_request(format("%s db m -%s", verb, pairs_text("k", 16))).pair_count,
                      16);
    check_bad_syntax(format("%s db m -%s", verb, pairs_text("k", 17)));
    check_each(check_bad_syntax, verb,
               " | db| @db m| *db m| d,b m| db m - x| db m - now| db m\r| db m v\r| db m v a=1\r",
               "");
}

TEST(a_new_member_has_a_name_a_value_and_attributes)
{
    check_new_member("JOIN", POOL_VERB_JOIN);
    check_new_member("MEMBER ADD", POOL_VERB_MEMBER_ADD);
    check_new_member("MEMBER   ADD", POOL_VERB_MEMBER_ADD);
}

TEST(the_key_of_an_attribute_has_small_letters_digits_and_underscores)
{
    static const char *const lines[] = {"JOIN db m - ", "MEMBER ADD db m - ", "MEMBER SET db m ",
                                        "TAKE db with="};
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        for (int c = 1; c < 256; c++) {
            if (c == ' ' || c == '=')
                continue;
            bool letter = c >= 'a' && c <= 'z';
            bool later = letter || (c >= '0' && c <= '9') || c == '_';
            struct pool_request req;
            const char *line = format("%s%c=v", lines[i], c);
            REQUIRE(read_len(line, strlen(line), &req) == (letter ? POOL_PARSED : POOL_BAD_SYNTAX));
            line = format("%sa%cb=v", lines[i], c);
            REQUIRE(read_len(line, strlen(line), &req) == (later ? POOL_PARSED : POOL_BAD_SYNTAX));
        }
        struct pool_request req = read_request(format("%s%s=v", lines[i], letters(32)));
        ck_assert_uint_eq(req.pairs[0].key.len, 32);
        check_bad_syntax(format("%s%s=v", lines[i], letters(33)));
        req = read_request(format("%sa=%s", lines[i], letters(128)));
        ck_assert_uint_eq(req.pairs[0].value.len, 128);
        check_bad_syntax(format("%sa=%s", lines[i], letters(129)));
        check_bad_syntax(format("%sa", lines[i]));
        check_bad_syntax(format("%s=", lines[i]));
        check_bad_syntax(format("%s=v", lines[i]));
        (void)read_request(format("%svalue_=v", lines[i]));
        (void)read_request(format("%sstates=v", lines[i]));
        (void)read_request(format("%snot=v", lines[i]));
    }
    for (size_t i = 0; i < 2; i++) {
        check_bad_syntax(format("%svalue=v", lines[i]));
        check_bad_syntax(format("%sstate=down", lines[i]));
        check_bad_syntax(format("%snote=n", lines[i]));
        check_bad_syntax(format("%sa=1 a=1", lines[i]));
        check_bad_syntax(format("%sa= a=1", lines[i]));
    }
}

TEST(supply_has_two_numbers_the_first_not_above_the_second)
{
    struct pool_request req = read_request("SUPPLY db 1 4");
    ck_assert_int_eq(req.verb, POOL_VERB_SUPPLY);
    check_text(req.pool, "db");
    ck_assert_uint_eq(req.init, 1);
    ck_assert_uint_eq(req.max, 4);
    req = read_request("SUPPLY db 0 0 ");
    ck_assert(req.init == 0 && req.max == 0);
    req = read_request("SUPPLY  db  4294967295  4294967295");
    ck_assert(req.init == UINT32_MAX && req.max == UINT32_MAX);
    check_each(check_bad_syntax, "SUPPLY ",
               "|db|db 1|db 1 |db 2 1|db 4294967295 4294967294|db 1 4294967296|"
               "db 4294967296 4294967296|db -1 1|db 1 +1|db 1 1.0|db a 1|db 1 1a|"
               "db 1 1 1|db 1 1 now|db 1 1\r|@db 1 1|*db 1 1|d,b 1 1",
               "");
    check_bad_syntax(format("SUPPLY %s 1 1", letters(256)));
}

TEST(member_set_changes_something)
{
    struct pool_request req = read_request("MEMBER SET db m gpu=a100");
    ck_assert_int_eq(req.verb, POOL_VERB_MEMBER_SET);
    check_text(req.pool, "db");
    check_text(req.member, "m");
    check_pair(&req.pairs[0], "gpu", "a100");
    ck_assert(!req.now && !req.has_value && !req.has_note && !req.has_state);

    req = read_request("MEMBER  SET db m state=down a= note=fan value=host=h b=2  now ");
    ck_assert(req.now && req.has_value && req.has_note && req.has_state);
    check_text(req.value, "host=h");
    check_text(req.note, "fan");
    check_text(req.state, "down");
    ck_assert_uint_eq(req.pair_count, 2);
    check_pair(&req.pairs[0], "a", "");
    check_pair(&req.pairs[1], "b", "2");

    /* What states there are, the service says. */
    check_text(read_request("MEMBER SET db m state=").state, "");
    ck_assert(read_request("MEMBER SET db m state=").has_state);
    check_text(read_request("MEMBER SET db m state=nonsense").state, "nonsense");
    ck_assert(read_request("MEMBER SET db m note=").has_note);
    ck_assert_uint_eq(read_request(format("MEMBER SET db m note=%s", letters(128))).note.len, 128);
    check_bad_syntax(format("MEMBER SET db m note=%s", letters(129)));
    req = read_request("MEMBER SET db m value=");
    ck_assert(req.has_value && req.value.len == 0);
    req = read_request("MEMBER SET db m value=-");
    ck_assert(req.has_value && req.value.len == 0);
    ck_assert_uint_eq(read_request(format("MEMBER SET db m value=%s", letters(4096))).value.len,
                      4096);
    check_bad_syntax(format("MEMBER SET db m value=%s", letters(4097)));
    req = read_request(format("MEMBER SET db m value=v state=s note=n%s", pairs_text("k", 16)));
    ck_assert_uint_eq(req.pair_count, 16);
    check_bad_syntax(format("MEMBER SET db m%s", pairs_text("k", 17)));
    check_each(check_bad_syntax, "MEMBER SET ",
               "|db|db m|db m now|db m x|db m a=1 x|db m now a=1|db m a=1 now now|"
               "db m a=1 now b=2|db m a=1 Now|db m a=1 now\r|db m value=a value=a|"
               "db m value= value=a|db m note= note=|db m state=free state=down|"
               "db m state=free a=1 a=2|db m -|db m v a=1|@db m a=1|*db m a=1",
               "");
    check_bad_syntax(format("MEMBER SET %s m a=1", letters(256)));
    check_bad_syntax(format("MEMBER SET db %s a=1", letters(256)));
}

TEST(drops_may_be_now)
{
    struct pool_request req = read_request("MEMBER DROP db m");
    ck_assert_int_eq(req.verb, POOL_VERB_MEMBER_DROP);
    check_text(req.pool, "db");
    check_text(req.member, "m");
    ck_assert(!req.now);
    ck_assert(read_request("MEMBER DROP db m  now  ").now);
    req = read_request("POOL DROP db");
    ck_assert_int_eq(req.verb, POOL_VERB_POOL_DROP);
    check_text(req.pool, "db");
    ck_assert(!req.now);
    ck_assert(read_request("POOL DROP db now").now);
    check_each(check_bad_syntax, "",
               "MEMBER DROP|MEMBER DROP db|MEMBER DROP db m later|"
               "MEMBER DROP db m now now|MEMBER DROP @db m|MEMBER DROP db m NOW|"
               "MEMBER DROP db m now\r|POOL DROP|POOL DROP |POOL DROP db later|"
               "POOL DROP db now now|POOL DROP @db|POOL DROP *|POOL DROP db\r",
               "");
    check_bad_syntax(format("POOL DROP %s", letters(256)));
    check_bad_syntax(format("MEMBER DROP db %s", letters(256)));
}

TEST(options_of_pools_are_passed_on_by_name)
{
    static const char *const verbs[] = {"POOL ADD", "POOL SET"};
    for (size_t i = 0; i < COUNT_OF(verbs); i++) {
        struct pool_request req = read_request(format("%s db", verbs[i]));
        ck_assert_int_eq(req.verb, i == 0 ? POOL_VERB_POOL_ADD : POOL_VERB_POOL_SET);
        check_text(req.pool, "db");
        ck_assert_uint_eq(req.pair_count, 0);
        req = read_request(format("%s  db kind=joined  max=  WHAT,EVER=a=b 1=2", verbs[i]));
        ck_assert_uint_eq(req.pair_count, 4);
        check_pair(&req.pairs[0], "kind", "joined");
        check_pair(&req.pairs[1], "max", "");
        check_pair(&req.pairs[2], "WHAT,EVER", "a=b");
        check_pair(&req.pairs[3], "1", "2");
        req = read_request(format("%s %s%s", verbs[i], letters(255), pairs_text("k", 32)));
        ck_assert_uint_eq(req.pair_count, 32);
        check_pair(&req.pairs[31], "k31", "v");
        req = read_request(format("%s db %s=%s", verbs[i], letters(5000), letters(5000)));
        ck_assert_uint_eq(req.pairs[0].value.len, 5000);
        check_bad_syntax(format("%s db%s", verbs[i], pairs_text("k", 33)));
        check_bad_syntax(format("%s %s", verbs[i], letters(256)));
        check_each(check_bad_syntax, verbs[i],
                   "| | @db| *db| d,b| db max| db =5| db now| db max 5| db max=5 kind|"
                   " db max=5 max=5| db max=5\r| db\r",
                   "");
    }
}

TEST(show_list_watch_and_quit)
{
    struct pool_request req = read_request("POOL SHOW db ");
    ck_assert_int_eq(req.verb, POOL_VERB_POOL_SHOW);
    check_text(req.pool, "db");
    req = read_request("POOL LIST");
    ck_assert_int_eq(req.verb, POOL_VERB_POOL_LIST);
    ck_assert(is_empty(&req));
    check_text(read_request("POOL  LIST  gpu").pool, "gpu");
    ck_assert_uint_eq(read_request("POOL LIST ").pool.len, 0);
    req = read_request("WATCH db");
    ck_assert_int_eq(req.verb, POOL_VERB_WATCH);
    check_text(req.pool, "db");
    ck_assert(!req.mine);
    req = read_request("WATCH *");
    ck_assert(req.pool.len == 0 && !req.mine);
    req = read_request("WATCH  *  mine ");
    ck_assert(req.pool.len == 0 && req.mine);
    ck_assert(read_request("WATCH db mine").mine);
    req = read_request("QUIT");
    ck_assert_int_eq(req.verb, POOL_VERB_QUIT);
    ck_assert(is_empty(&req));
    req = read_request("QUIT  ");
    ck_assert(is_empty(&req));
    ck_assert_uint_eq(read_request(format("POOL SHOW %s", letters(255))).pool.len, 255);
    ck_assert_uint_eq(read_request(format("POOL LIST %s", letters(255))).pool.len, 255);
    ck_assert_uint_eq(read_request(format("WATCH %s", letters(255))).pool.len, 255);
    check_each(check_bad_syntax, "",
               "POOL SHOW|POOL SHOW |POOL SHOW a b|POOL SHOW @a|POOL SHOW *|"
               "POOL LIST a b|POOL LIST *|POOL LIST @a|POOL LIST a,b|POOL LIST\r|WATCH |"
               "WATCH db x|WATCH * x|WATCH *a|WATCH @a|WATCH a,b|WATCH mine x|"
               "WATCH * mine mine|WATCH db Mine|WATCH * *|QUIT now|QUIT 1|QUIT \r",
               "");
    check_bad_syntax(format("POOL SHOW %s", letters(256)));
    check_bad_syntax(format("POOL LIST %s", letters(256)));
    check_bad_syntax(format("WATCH %s", letters(256)));
}

TEST(a_line_of_no_verb_is_a_bad_command)
{
    check_each(check_bad_command, "",
               "| |\r|take db|Take db|TAKE|TAKEN db|TAK db|TAKE\tdb|TAKE\r|TAKE,db|"
               " TAKE db| QUIT|RETURN\r|RETURNS|RETURN\t1|JOIN|SUPPLY|MEMBER|POOL|WATCH|"
               "MEMBERS|MEMBERADD db m|POOLS|POOLLIST|QUIT\r|quit|QUITS|ADD db m|LIST|"
               "ACQ4ME k 1 1|RELEASE|STATS|HELLO db",
               "");
    check_refused_len("TAKE\0db", 7, POOL_BAD_COMMAND);
    check_refused_len("\0", 1, POOL_BAD_COMMAND);
    check_refused_len("TAKE\n", 5, POOL_BAD_COMMAND);
    struct pool_request req;
    ck_assert_int_eq(pool_parse_request((struct bytes){0}, &req), POOL_BAD_COMMAND);
}

TEST(a_verb_without_its_words_is_bad_syntax)
{
    check_each(check_bad_syntax, "",
               "TAKE |JOIN |SUPPLY |WATCH |MEMBER |POOL |MEMBER ADD|MEMBER SET|"
               "MEMBER DROP|POOL ADD|POOL SET|POOL DROP|POOL SHOW|MEMBER x|"
               "MEMBER add db m|MEMBER ADDS db m|MEMBER AD db m|MEMBER LIST|"
               "MEMBER SHOW db|MEMBER ADD\r|POOL x|POOL list|POOL LISTS|POOL LIS|"
               "POOL ADD\r|POOL JOIN db|MEMBER MEMBER ADD db m|TAKE \r",
               "");
}

/* ---- Requests, composed --------------------------------------------------------------------- */

/* Composes a line, with "\n". In a smaller buffer, composing must fail. NULL: not composed. */
static const char *compose(const struct pool_request *req)
{
    static uint8_t enough[20000];
    size_t len = pool_compose_request(req, enough, sizeof(enough));
    if (len == 0)
        return NULL;
    for (size_t room = len > 300 ? len - 300 : 0; room <= len; room++) {
        uint8_t *to = exact_copy(enough, room);
        memset(to, 0, room);
        size_t got = pool_compose_request(req, to, room);
        REQUIRE(got == (room == len ? len : 0));
        REQUIRE(got == 0 || memcmp(to, enough, len) == 0);
        free(to);
    }
    return memcpy(text_room(len), enough, len);
}

static void check_composed(const struct pool_request *req, const char *expected)
{
    const char *line = compose(req);
    ck_assert_ptr_nonnull(line);
    ck_assert_str_eq(line, expected);
}

#define B(literal) bytes_of(literal)

TEST(composed_requests_are_these_lines)
{
    struct pool_request req = {
        .verb = POOL_VERB_TAKE, .count = 1, .target_count = 1, .targets = {B("db")}};
    check_composed(&req, "TAKE db\n");
    req = (struct pool_request){.verb = POOL_VERB_TAKE,
                                .count = 2,
                                .target_count = 2,
                                .targets = {B("a"), B("b")},
                                .timeout_ns = 1500000000,
                                .take_for = POOL_TAKE_FOR_CLEAN,
                                .by = B("me"),
                                .pair_count = 2,
                                .pairs = {{B("gpu"), B("a100")}, {B("os"), B("")}}};
    check_composed(&req, "TAKE a,b 1.5 count=2 with=gpu=a100 with=os= for=clean by=me\n");
    req = (struct pool_request){.verb = POOL_VERB_TAKE,
                                .count = 1,
                                .group = B("g"),
                                .timeout_ns = 1,
                                .take_for = POOL_TAKE_FOR_CHECK};
    check_composed(&req, "TAKE @g 0.000000001 for=check\n");
    req = (struct pool_request){.verb = POOL_VERB_TAKE,
                                .count = 1,
                                .target_count = 1,
                                .targets = {B("db")},
                                .timeout_ns = POOLS_TIMEOUT_MAX_NS,
                                .member = B("m")};
    check_composed(&req, "TAKE db 4294967295 member=m\n");

    req = (struct pool_request){.verb = POOL_VERB_RETURN};
    check_composed(&req, "RETURN\n");
    req.failed = true;
    check_composed(&req, "RETURN fail\n");
    req.has_fence = true;
    req.fence = UINT64_MAX;
    check_composed(&req, "RETURN 18446744073709551615 fail\n");
    req.failed = false;
    check_composed(&req, "RETURN 18446744073709551615\n");

    req = (struct pool_request){.verb = POOL_VERB_JOIN, .pool = B("db"), .member = B("m")};
    check_composed(&req, "JOIN db m\n");
    req.pair_count = 1;
    req.pairs[0] = (struct pool_pair){B("a"), B("1")};
    check_composed(&req, "JOIN db m - a=1\n");
    req.verb = POOL_VERB_MEMBER_ADD;
    req.value = B("host:1");
    check_composed(&req, "MEMBER ADD db m host:1 a=1\n");
    req.verb = POOL_VERB_MEMBER_SET;
    req.value = B("");
    check_composed(&req, "MEMBER SET db m a=1\n");
    req.has_value = req.has_note = req.has_state = req.now = true;
    req.note = B("broken");
    req.state = B("down");
    check_composed(&req, "MEMBER SET db m a=1 value= note=broken state=down now\n");
    req = (struct pool_request){
        .verb = POOL_VERB_MEMBER_DROP, .pool = B("db"), .member = B("m"), .now = true};
    check_composed(&req, "MEMBER DROP db m now\n");
    req.now = false;
    check_composed(&req, "MEMBER DROP db m\n");

    req = (struct pool_request){.verb = POOL_VERB_SUPPLY, .pool = B("db"), .init = 1, .max = 4};
    check_composed(&req, "SUPPLY db 1 4\n");
    req = (struct pool_request){.verb = POOL_VERB_POOL_ADD,
                                .pool = B("db"),
                                .pair_count = 2,
                                .pairs = {{B("kind"), B("joined")}, {B("max"), B("4")}}};
    check_composed(&req, "POOL ADD db kind=joined max=4\n");
    req.verb = POOL_VERB_POOL_SET;
    check_composed(&req, "POOL SET db kind=joined max=4\n");
    req = (struct pool_request){.verb = POOL_VERB_POOL_DROP, .pool = B("db")};
    check_composed(&req, "POOL DROP db\n");
    req.now = true;
    check_composed(&req, "POOL DROP db now\n");
    req = (struct pool_request){.verb = POOL_VERB_POOL_SHOW, .pool = B("db")};
    check_composed(&req, "POOL SHOW db\n");
    req.verb = POOL_VERB_POOL_LIST;
    check_composed(&req, "POOL LIST db\n");
    req.pool = B("");
    check_composed(&req, "POOL LIST\n");
    req.verb = POOL_VERB_WATCH;
    check_composed(&req, "WATCH *\n");
    req.pool = B("db");
    req.mine = true;
    check_composed(&req, "WATCH db mine\n");
    req = (struct pool_request){.verb = POOL_VERB_QUIT};
    check_composed(&req, "QUIT\n");
}

/* Every verb is composed with the words that it is listed with. */
TEST(verbs_have_their_listed_words)
{
    static const char *const words[] = {
#define ROW(name, words) [POOL_VERB_##name] = (words),
        POOL_VERBS(ROW)
#undef ROW
    };
    static const char *const rest[POOL_VERB_COUNT] = {[POOL_VERB_TAKE] = " db",
                                                      [POOL_VERB_JOIN] = " db m",
                                                      [POOL_VERB_SUPPLY] = " db 1 2",
                                                      [POOL_VERB_MEMBER_ADD] = " db m",
                                                      [POOL_VERB_MEMBER_SET] = " db m a=1",
                                                      [POOL_VERB_MEMBER_DROP] = " db m",
                                                      [POOL_VERB_POOL_ADD] = " db",
                                                      [POOL_VERB_POOL_SET] = " db",
                                                      [POOL_VERB_POOL_DROP] = " db",
                                                      [POOL_VERB_POOL_SHOW] = " db",
                                                      [POOL_VERB_WATCH] = " db"};
    for (size_t i = 0; i < POOL_VERB_COUNT; i++) {
        const char *line = format("%s%s", words[i], rest[i] ? rest[i] : "");
        struct pool_request req = read_request(line);
        ck_assert_uint_eq(req.verb, i);
        check_composed(&req, format("%s\n", line));
    }
}

TEST(what_would_be_another_request_is_not_composed)
{
    const struct pool_request take = {
        .verb = POOL_VERB_TAKE, .count = 1, .target_count = 1, .targets = {B("db")}};
    const struct pool_request join = {.verb = POOL_VERB_JOIN, .pool = B("db"), .member = B("m")};
    const struct pool_request set = {.verb = POOL_VERB_MEMBER_SET,
                                     .pool = B("db"),
                                     .member = B("m"),
                                     .pair_count = 1,
                                     .pairs = {{B("a"), B("1")}}};
    const struct pool_request list = {.verb = POOL_VERB_POOL_LIST};
    const struct pool_request back = {.verb = POOL_VERB_RETURN};
    ck_assert(compose(&take) && compose(&join) && compose(&set) && compose(&list) &&
              compose(&back));
    struct pool_request req;
#define REFUSED(of, change)                                                                        \
    do {                                                                                           \
        req = of;                                                                                  \
        req.change;                                                                                \
        if (compose(&req))                                                                         \
            ck_abort_msg("%s: %s", #change, compose(&req));                                        \
    } while (0)
    REFUSED(take, verb = POOL_VERB_COUNT);
    REFUSED(take, verb = (enum pool_verb) - 1);
    REFUSED(take, count = 0);
    REFUSED(take, count = 65);
    REFUSED(take, target_count = 0);
    REFUSED(take, target_count = 17);
    REFUSED(take, target_count = SIZE_MAX);
    REFUSED(take, pair_count = SIZE_MAX);
    REFUSED(take, pair_count = 33);
    REFUSED(take, targets[0] = B(""));
    REFUSED(take, targets[0] = B("a,b"));
    REFUSED(take, targets[0] = B("@a"));
    REFUSED(take, targets[0] = B("a 5"));
    REFUSED(take, targets[0] = B("a\nQUIT"));
    REFUSED(take, group = B("g"));
    REFUSED(take, timeout_ns = -1);
    REFUSED(take, timeout_ns = POOLS_TIMEOUT_MAX_NS + 1);
    REFUSED(take, timeout_ns = INT64_MIN);
    REFUSED(take, take_for = (enum pool_take_for)3);
    REFUSED(take, take_for = (enum pool_take_for) - 1);
    REFUSED(take, by = B("a b"));
    REFUSED(take, by = B("a by=b"));
    REFUSED(take, by = B("a\r"));
    REFUSED(take, member = B("a count=2"));
    REFUSED(take, pool = B("db"));
    REFUSED(take, now = true);
    REFUSED(take, max = 1);
    REFUSED(join, pool = B(""));
    REFUSED(join, pool = B("*"));
    REFUSED(join, member = B(""));
    REFUSED(join, member = B("m v"));
    REFUSED(join, value = B("-"));
    REFUSED(join, value = B("v a=1"));
    REFUSED(join, has_value = true);
    REFUSED(set, pair_count = 0);
    REFUSED(set, pairs[0].key = B("A"));
    REFUSED(set, pairs[0].key = B("a=b"));
    REFUSED(set, pairs[0].key = B("state"));
    REFUSED(set, pairs[0].key = B(""));
    REFUSED(set, pairs[0].value = B("1 now"));
    REFUSED(set, value = B("v"));
    REFUSED(set, note = B("n"));
    REFUSED(set, state = B("free"));
    REFUSED(list, pool = B("a b"));
    REFUSED(list, mine = true);
    REFUSED(list, target_count = 1);
    REFUSED(back, fence = 1);
    REFUSED(back, init = 1);
#undef REFUSED
}

/* ---- Random requests ------------------------------------------------------------------------ */

/* A word of 0 to `max` bytes, mostly short ones, without the bytes in `but`. */
static struct bytes random_word(uint64_t *seed, size_t max, const char *but)
{
    size_t len = random_below(seed, 16) == 0 ? max : random_below(seed, max < 9 ? max + 1 : 9);
    uint8_t *to = (uint8_t *)text_room(len);
    for (size_t i = 0; i < len; i++) {
        do
            to[i] = (uint8_t)(random_next(seed) >> random_below(seed, 2));
        while (to[i] == 0 || strchr(" \r\n", to[i]) || strchr(but, to[i]));
    }
    return bytes_at(to, len);
}

static struct bytes random_name(uint64_t *seed, const char *but)
{
    struct bytes name;
    do
        name = random_word(seed, POOLS_NAME_MAX, but);
    while (name.len == 0);
    return name;
}

static struct bytes random_value(uint64_t *seed)
{
    struct bytes value = random_word(seed, POOLS_VALUE_MAX, "");
    return bytes_equal(value, B("-")) ? B("--") : value;
}

/* Pairs with different keys. */
static size_t random_pairs(uint64_t *seed, struct pool_pair *pairs, size_t max)
{
    size_t count = random_below(seed, 3) ? random_below(seed, 3) : random_below(seed, max + 1);
    for (size_t i = 0; i < count; i++) {
        pairs[i].key =
            random_below(seed, 2) ? bytes_of(format("k%zu", i)) : bytes_of(format("k%030zu_", i));
        pairs[i].value = random_word(seed, POOLS_ATTR_MAX, "");
    }
    return count;
}

static int64_t random_ns(uint64_t *seed)
{
    static const int64_t units[] = {1, 1000000, 500000000, 1000000000};
    uint64_t ns = (random_next(seed) >> random_below(seed, 64)) *
                  (uint64_t)units[random_below(seed, COUNT_OF(units))];
    return (int64_t)(ns % ((uint64_t)POOLS_TIMEOUT_MAX_NS + 1));
}

#define POOL_BUT "@*,"

static void random_take(uint64_t *seed, struct pool_request *req)
{
    req->count = 1 + (uint32_t)random_below(seed, 64);
    if (random_below(seed, 4) == 0) {
        req->group = random_name(seed, POOL_BUT);
    } else {
        req->target_count = 1 + random_below(seed, random_below(seed, 2) ? 1 : 16);
        for (size_t i = 0; i < req->target_count; i++)
            req->targets[i] = bytes_of(format("p%zu", i));
        req->targets[0] = random_name(seed, POOL_BUT "p");
    }
    if (req->target_count == 1 && random_below(seed, 2)) {
        req->member = random_name(seed, "");
        req->count = 1;
    }
    if (random_below(seed, 2))
        req->timeout_ns = random_ns(seed);
    req->by = random_word(seed, POOLS_BY_MAX, "");
    req->take_for = (enum pool_take_for)random_below(seed, 3);
    req->pair_count = random_pairs(seed, req->pairs, POOLS_WITH_MAX);
}

static void random_member_set(uint64_t *seed, struct pool_request *req)
{
    req->pair_count = random_pairs(seed, req->pairs, POOLS_ATTRS_MAX);
    req->has_value = random_below(seed, 2);
    req->has_note = random_below(seed, 2);
    req->has_state = random_below(seed, 2) || req->pair_count == 0;
    if (req->has_value)
        req->value = random_value(seed);
    if (req->has_note)
        req->note = random_word(seed, POOLS_NOTE_MAX, "");
    if (req->has_state)
        req->state = random_word(seed, 20, "");
    req->now = random_below(seed, 2);
}

/* The struct's padding and unused entries are filled with noise. */
static void random_request(uint64_t *seed, struct pool_request *req)
{
    memset(req, 0, sizeof(*req));
    memset(req->targets, 0xee, sizeof(req->targets));
    memset(req->pairs, 0xee, sizeof(req->pairs));
    req->verb = (enum pool_verb)random_below(seed, POOL_VERB_COUNT);
    bool of_member = req->verb == POOL_VERB_JOIN || req->verb == POOL_VERB_MEMBER_ADD ||
                     req->verb == POOL_VERB_MEMBER_SET || req->verb == POOL_VERB_MEMBER_DROP;
    bool no_pool =
        req->verb == POOL_VERB_TAKE || req->verb == POOL_VERB_RETURN || req->verb == POOL_VERB_QUIT;
    bool any_pool = req->verb == POOL_VERB_WATCH || req->verb == POOL_VERB_POOL_LIST;
    if (!no_pool && (!any_pool || random_below(seed, 2)))
        req->pool = random_name(seed, POOL_BUT);
    if (of_member)
        req->member = random_name(seed, "");
    switch (req->verb) {
    case POOL_VERB_TAKE:
        random_take(seed, req);
        break;
    case POOL_VERB_RETURN:
        req->failed = random_below(seed, 2);
        req->has_fence = random_below(seed, 2);
        if (req->has_fence)
            req->fence = random_next(seed) >> random_below(seed, 64);
        break;
    case POOL_VERB_JOIN:
    case POOL_VERB_MEMBER_ADD:
        req->value = random_value(seed);
        req->pair_count = random_pairs(seed, req->pairs, POOLS_ATTRS_MAX);
        break;
    case POOL_VERB_SUPPLY:
        req->max = (uint32_t)(random_next(seed) >> random_below(seed, 64));
        req->init = (uint32_t)random_below(seed, (size_t)req->max + 1);
        break;
    case POOL_VERB_MEMBER_SET:
        random_member_set(seed, req);
        break;
    case POOL_VERB_POOL_ADD:
    case POOL_VERB_POOL_SET:
        req->pair_count = random_pairs(seed, req->pairs, POOLS_OPTIONS_MAX);
        break;
    case POOL_VERB_MEMBER_DROP:
    case POOL_VERB_POOL_DROP:
        req->now = random_below(seed, 2);
        break;
    case POOL_VERB_WATCH:
        req->mine = random_below(seed, 2);
        break;
    default:
        break;
    }
}

TEST(random_requests_survive_a_round_trip)
{
    uint64_t seed = 3;
    for (int i = 0; i < 40000; i++) {
        texts_len = 0;
        struct pool_request req, again;
        random_request(&seed, &req);
        uint8_t line[POOLS_REQUEST_ROOM];
        size_t len = pool_compose_request(&req, line, sizeof(line));
        if (len == 0)
            ck_abort_msg("verb %d is not composed in round %d", (int)req.verb, i);
        REQUIRE(line[len - 1] == '\n' && !memchr(line, '\n', len - 1));
        REQUIRE(read_len((const char *)line, len - 1, &again) == POOL_PARSED);
        REQUIRE(same_request(&req, &again));
    }
}

TEST(the_longest_requests_fit_in_their_room)
{
    struct pool_pair pairs[POOLS_OPTIONS_MAX];
    for (size_t i = 0; i < COUNT_OF(pairs); i++)
        pairs[i] = (struct pool_pair){bytes_of(format("k%031zu", i)), bytes_of(letters(128))};
    struct pool_request set = {.verb = POOL_VERB_MEMBER_SET,
                               .pool = bytes_of(letters(255)),
                               .member = bytes_of(letters(255)),
                               .value = bytes_of(letters(4096)),
                               .note = bytes_of(letters(128)),
                               .state = bytes_of(letters(POOLS_STATE_MAX)),
                               .has_value = true,
                               .has_note = true,
                               .has_state = true,
                               .now = true,
                               .pair_count = 16};
    memcpy(set.pairs, pairs, 16 * sizeof(pairs[0]));
    struct pool_request take = {.verb = POOL_VERB_TAKE,
                                .count = 64,
                                .take_for = POOL_TAKE_FOR_CHECK,
                                .timeout_ns = POOLS_TIMEOUT_MAX_NS - 1,
                                .by = bytes_of(letters(128)),
                                .target_count = 16,
                                .pair_count = 8};
    for (size_t i = 0; i < 16; i++)
        take.targets[i] = bytes_of(format("p%0254zu", i));
    memcpy(take.pairs, pairs, 8 * sizeof(pairs[0]));
    struct pool_request add = {
        .verb = POOL_VERB_POOL_ADD, .pool = bytes_of(letters(255)), .pair_count = 32};
    for (size_t i = 0; i < 32; i++)
        add.pairs[i] =
            (struct pool_pair){bytes_of(format("k%063zu", i)), bytes_of(letters(POOLS_OPTION_MAX))};
    uint8_t line[POOLS_REQUEST_ROOM];
    ck_assert_uint_gt(pool_compose_request(&set, line, sizeof(line)), 7000);
    ck_assert_uint_gt(pool_compose_request(&take, line, sizeof(line)), 5000);
    ck_assert_uint_gt(pool_compose_request(&add, line, sizeof(line)), 4000);
}

/* ---- Members files -------------------------------------------------------------------------- */

static bool read_member(const char *line, struct pool_member_line *member_r)
{
    uint8_t *exact = exact_copy(line, strlen(line));
    memset(member_r, 0xee, sizeof(*member_r));
    bool good = pool_parse_member(bytes_at(exact, strlen(line)), member_r);
    free(exact);
    bool again = pool_parse_member(bytes_of(line), member_r);
    REQUIRE(good == again);
    return good;
}

static void check_no_member(const char *line)
{
    struct pool_member_line member;
    if (read_member(line, &member))
        ck_abort_msg("taken: %s", line);
}

TEST(a_line_of_a_members_file_is_a_member)
{
    struct pool_member_line member;
    ck_assert(read_member("db_1", &member));
    check_text(member.name, "db_1");
    ck_assert(member.value.len == 0 && member.note.len == 0 && !member.down);
    ck_assert_uint_eq(member.attr_count, 0);
    ck_assert(read_member("db_1  host:5433  ", &member));
    check_text(member.value, "host:5433");
    ck_assert(read_member("db_1 - a=1 note=fan state=down b=", &member));
    ck_assert(member.value.len == 0 && member.down);
    check_text(member.note, "fan");
    ck_assert_uint_eq(member.attr_count, 2);
    check_pair(&member.attrs[0], "a", "1");
    check_pair(&member.attrs[1], "b", "");
    ck_assert(read_member("db_1 state=down", &member));
    check_text(member.value, "state=down");
    ck_assert(!member.down);
    ck_assert(read_member("db_1 - note=", &member));
    ck_assert_uint_eq(member.note.len, 0);
    check_each(check_no_member, "",
               "| | db_1|\r|a\rb|a v\r|a v a=1\r|a - b|a - state=free|a - state=|"
               "a - state=down state=down|a - note= note=|a - note=a note=b|a - value=b|a - A=b|"
               "a - =b|a - a=1 a=2|a - now",
               "");
    ck_assert(!pool_parse_member((struct bytes){0}, &member));
}

TEST(a_line_of_a_members_file_has_the_bounds_of_requests)
{
    struct pool_member_line member;
    ck_assert(read_member(letters(255), &member));
    ck_assert(!read_member(letters(256), &member));
    ck_assert(read_member(format("m %s", letters(4096)), &member));
    ck_assert(!read_member(format("m %s", letters(4097)), &member));
    ck_assert(read_member(format("m - a=%s", letters(128)), &member));
    ck_assert(!read_member(format("m - a=%s", letters(129)), &member));
    ck_assert(read_member(format("m - %s=1", letters(32)), &member));
    ck_assert(!read_member(format("m - %s=1", letters(33)), &member));
    ck_assert(read_member(format("m - note=%s", letters(128)), &member));
    ck_assert(!read_member(format("m - note=%s", letters(129)), &member));
    ck_assert(read_member(format("m - state=down note=n%s", pairs_text("k", 16)), &member));
    ck_assert_uint_eq(member.attr_count, 16);
    ck_assert(!read_member(format("m -%s", pairs_text("k", 17)), &member));
}

/* ---- Replies -------------------------------------------------------------------------------- */

/* Parses a reply line. The answer points into `line`. */
static struct pool_answer read_reply_len(const char *line, size_t len)
{
    struct pool_answer of_exact, answer;
    uint8_t *exact = exact_copy(line, len);
    memset(&of_exact, 0xee, sizeof(of_exact));
    memset(&answer, 0x11, sizeof(answer));
    pool_parse_reply(bytes_at(exact, len), &of_exact);
    free(exact);
    pool_parse_reply(bytes_at(line, len), &answer);
    REQUIRE(answer.reply == of_exact.reply);
    return answer;
}

static struct pool_answer read_reply(const char *line, enum pool_reply expected)
{
    struct pool_answer answer = read_reply_len(line, strlen(line));
    if (answer.reply != expected)
        ck_abort_msg("%d instead of %d: %s", (int)answer.reply, (int)expected, line);
    return answer;
}

static void check_other(const char *line)
{
    (void)read_reply(line, POOL_REPLY_OTHER);
}

/* Composes any reply with parts. */
static size_t compose_answer(const struct pool_answer *answer, uint8_t *to, size_t room)
{
    switch (answer->reply) {
    case POOL_REPLY_BAD_VALUE:
        return pool_compose_bad_value(answer->bad_value, to, room);
    case POOL_REPLY_TAKEN:
        return pool_compose_taken(&answer->taken, to, room);
    case POOL_REPLY_WANT:
        return pool_compose_want(&answer->want, to, room);
    case POOL_REPLY_STOP:
        return pool_compose_stop(&answer->stop, to, room);
    case POOL_REPLY_LOST:
        return pool_compose_lost(answer->lost, to, room);
    case POOL_REPLY_EVENT:
        return pool_compose_event(&answer->event, to, room);
    case POOL_REPLY_POOL:
        return pool_compose_pool(&answer->pool, to, room);
    case POOL_REPLY_MEMBER:
        return pool_compose_member(&answer->member, to, room);
    default:
        return pool_compose_waiter(&answer->waiter, to, room);
    }
}

/* Composes a line, which must fit in no smaller buffer, and returns it without its "\n". */
static const char *answer_text(const struct pool_answer *answer)
{
    static uint8_t enough[POOLS_REPLY_ROOM];
    size_t len = compose_answer(answer, enough, sizeof(enough));
    REQUIRE(len > 0 && enough[len - 1] == '\n');
    for (size_t room = len > 300 ? len - 300 : 0; room <= len; room++) {
        uint8_t *to = exact_copy(enough, room);
        REQUIRE(compose_answer(answer, to, room) == (room == len ? len : 0));
        free(to);
    }
    return memcpy(text_room(len - 1), enough, len - 1);
}

/* Checks the line of an answer, and that it is parsed to an answer with the same line. */
static void check_answer(const struct pool_answer *answer, const char *expected)
{
    const char *line = answer_text(answer);
    ck_assert_str_eq(line, expected);
    struct pool_answer again = read_reply(line, answer->reply);
    ck_assert_str_eq(answer_text(&again), expected);
}

TEST(replies_of_fixed_text_are_these_words)
{
    static const struct {
        enum pool_reply reply;
        const char *line;
    } rows[] = {{POOL_REPLY_RETURNED, "RETURNED"},
                {POOL_REPLY_GONE, "GONE"},
                {POOL_REPLY_NOT_TAKEN, "NOT_TAKEN"},
                {POOL_REPLY_JOINED, "JOINED"},
                {POOL_REPLY_OK, "OK"},
                {POOL_REPLY_BYE, "BYE"},
                {POOL_REPLY_TIMEOUT, "TIMEOUT"},
                {POOL_REPLY_QUEUE_FULL, "QUEUE_FULL"},
                {POOL_REPLY_END, ""},
                {POOL_REPLY_BAD_COMMAND, "ERROR BAD_COMMAND"},
                {POOL_REPLY_BAD_SYNTAX, "ERROR BAD_SYNTAX"},
                {POOL_REPLY_SHUTTING_DOWN, "ERROR SHUTTING_DOWN"},
                {POOL_REPLY_DENIED, "ERROR DENIED"},
                {POOL_REPLY_WAIT_FOR_RESPONSE, "ERROR WAIT_FOR_RESPONSE"},
                {POOL_REPLY_NO_POOL, "ERROR NO_POOL"},
                {POOL_REPLY_WRONG_KIND, "ERROR WRONG_KIND"},
                {POOL_REPLY_NO_MEMBER, "ERROR NO_MEMBER"},
                {POOL_REPLY_EXISTS, "ERROR EXISTS"},
                {POOL_REPLY_TOO_MANY, "ERROR TOO_MANY"},
                {POOL_REPLY_POOL_FULL, "ERROR POOL_FULL"},
                {POOL_REPLY_OUT_OF_MEMORY, "ERROR OUT_OF_MEMORY"},
                {POOL_REPLY_LINE_TOO_LONG, "ERROR LINE_TOO_LONG"}};
    ck_assert_uint_eq(COUNT_OF(rows), POOL_REPLY_FIXED);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        check_text(pool_reply_line(rows[i].reply), format("%s\n", rows[i].line));
        (void)read_reply(rows[i].line, rows[i].reply);
        if (rows[i].line[0]) {
            (void)read_reply(format("%s more=1", rows[i].line), rows[i].reply);
            check_other(format("%sX", rows[i].line));
            check_other(format(" %s", rows[i].line));
            check_other(format("%s\r", rows[i].line));
            check_other(format("%s more\r", rows[i].line));
        }
    }
    ck_assert_uint_eq(pool_reply_line(POOL_REPLY_FIXED).len, 0);
    ck_assert_uint_eq(pool_reply_line(POOL_REPLY_OTHER).len, 0);
    ck_assert_uint_eq(pool_reply_line((enum pool_reply) - 1).len, 0);
    struct pool_answer answer;
    pool_parse_reply((struct bytes){0}, &answer);
    ck_assert_int_eq(answer.reply, POOL_REPLY_END);
}

/* A reply of the text protocol has the same text in both codecs. */
TEST(pc_parse_reply_splits_these_replies)
{
    static const char lines[] = "TAKEN db m 1 -\r\nERROR NO_POOL\n\nTIMEOUT\n";
    static const enum pool_reply expected[] = {POOL_REPLY_TAKEN, POOL_REPLY_NO_POOL, POOL_REPLY_END,
                                               POOL_REPLY_TIMEOUT};
    size_t at = 0;
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        enum pc_reply reply;
        struct bytes line;
        size_t used;
        ck_assert_int_eq(pc_parse_reply((const uint8_t *)lines + at, sizeof(lines) - 1 - at,
                                        MAX_LINE, &reply, &line, &used),
                         PC_OK);
        struct pool_answer answer;
        pool_parse_reply(line, &answer);
        ck_assert_int_eq(answer.reply, expected[i]);
        at += used;
    }
    ck_assert_uint_eq(at, sizeof(lines) - 1);
}

TEST(taken_carries_member_fence_value_and_attributes)
{
    struct pool_answer answer = {
        .reply = POOL_REPLY_TAKEN,
        .taken = {.pool = B("db"), .member = B("db_7"), .fence = UINT64_MAX, .value = B("h:1")}};
    check_answer(&answer, "TAKEN db db_7 18446744073709551615 h:1");
    answer.taken.value = B("");
    answer.taken.attr_count = 2;
    answer.taken.attrs[0] = (struct pool_pair){B("gpu"), B("a100")};
    answer.taken.attrs[1] = (struct pool_pair){B("x"), B("a=b")};
    check_answer(&answer, "TAKEN db db_7 18446744073709551615 - gpu=a100 x=a=b");

    answer = read_reply("TAKEN db  m 17 v a=1 what ever=x A=b =c b=2 ", POOL_REPLY_TAKEN);
    check_text(answer.taken.pool, "db");
    check_text(answer.taken.member, "m");
    ck_assert_uint_eq(answer.taken.fence, 17);
    check_text(answer.taken.value, "v");
    ck_assert_uint_eq(answer.taken.attr_count, 3);
    check_pair(&answer.taken.attrs[1], "ever", "x");
    check_pair(&answer.taken.attrs[2], "b", "2");
    answer = read_reply(format("TAKEN db m 17 v%s", pairs_text("k", 17)), POOL_REPLY_TAKEN);
    ck_assert_uint_eq(answer.taken.attr_count, 16);
    check_each(check_other, "",
               "TAKEN|TAKEN db|TAKEN db m|TAKEN db m 1|TAKEN db m x v|"
               "TAKEN db m 18446744073709551616 v|TAKEN db m - v|TAKEN db m 1 v\r|"
               "TAKENS db m 1 v|TAKEN db m 1 v a=1\r| TAKEN db m 1 v|taken db m 1 v",
               "");
}

TEST(want_stop_and_lost_are_short_lines)
{
    struct pool_answer answer = {.reply = POOL_REPLY_WANT, .want = {B("db"), UINT32_MAX}};
    check_answer(&answer, "WANT db 4294967295");
    answer = read_reply("WANT db 0 more", POOL_REPLY_WANT);
    check_text(answer.want.pool, "db");
    ck_assert_uint_eq(answer.want.want, 0);
    answer = (struct pool_answer){.reply = POOL_REPLY_STOP, .stop = {B("db"), B("m"), B("cull")}};
    check_answer(&answer, "STOP db m cull");
    check_text(read_reply("STOP db m lifetime more", POOL_REPLY_STOP).stop.why, "lifetime");
    answer = (struct pool_answer){.reply = POOL_REPLY_LOST, .lost = UINT64_MAX};
    check_answer(&answer, "LOST 18446744073709551615");
    ck_assert_uint_eq(read_reply("LOST 5 more", POOL_REPLY_LOST).lost, 5);
    answer = (struct pool_answer){.reply = POOL_REPLY_BAD_VALUE, .bad_value = B("max")};
    check_answer(&answer, "ERROR BAD_VALUE max");
    check_text(read_reply("ERROR BAD_VALUE a b", POOL_REPLY_BAD_VALUE).bad_value, "a");
    check_each(check_other, "",
               "WANT|WANT db|WANT db -1|WANT db 4294967296|WANT db -|STOP|STOP db|"
               "STOP db m|LOST|LOST -1|LOST 18446744073709551616|ERROR|ERROR BAD_VALUE|"
               "ERROR WHAT|ERROR  x",
               "");
}

TEST(events_carry_fence_connection_and_by)
{
    struct pool_answer answer = {
        .reply = POOL_REPLY_EVENT,
        .event = {B("db"), B("m"), B("free"), B("taken"), B("take"), 17, B("0.12.3"), B("me")}};
    check_answer(&answer, "EVENT db m free taken take fence=17 conn=0.12.3 by=me");
    answer.event.fence = 0;
    check_answer(&answer, "EVENT db m free taken take conn=0.12.3 by=me");
    answer = (struct pool_answer){
        .reply = POOL_REPLY_EVENT,
        .event = {
            .pool = B("db"), .member = B("-"), .from = B("-"), .to = B("-"), .why = B("drain")}};
    check_answer(&answer, "EVENT db - - - drain");
    answer = read_reply("EVENT db m a b c by=x more=1", POOL_REPLY_EVENT);
    ck_assert(answer.event.fence == 0 && answer.event.conn.len == 0);
    check_text(answer.event.by, "x");
    check_text(read_reply("EVENT db m a b c fence=3", POOL_REPLY_EVENT).event.to, "b");
    ck_assert_uint_eq(read_reply("EVENT db m a b c more", POOL_REPLY_EVENT).event.by.len, 0);
    check_each(check_other, "",
               "EVENT|EVENT db|EVENT db m|EVENT db m a|EVENT db m a b|"
               "EVENT db m a b c fence=x|EVENT db m a b c fence=18446744073709551616",
               "");
}

TEST(pools_are_listed_with_counts_and_options)
{
    struct pool_answer answer = {
        .reply = POOL_REPLY_POOL,
        .pool = {
            .name = B("db"), .kind = B("static"), .members = 4, .free = 2, .taken = 1, .dirty = 1}};
    check_answer(&answer, "POOL db static open group=- members=4 free=2 taken=1 cleaning=0 "
                          "checking=0 dirty=1 stopping=0 down=0 waiting=0 want=-");
    answer.pool.kind = B("joined");
    answer.pool.draining = true;
    answer.pool.group = B("g");
    answer.pool.cleaning = 5;
    answer.pool.checking = 6;
    answer.pool.stopping = 7;
    answer.pool.down = 8;
    answer.pool.waiting = UINT32_MAX;
    answer.pool.has_want = true;
    answer.pool.want = 9;
    answer.pool.option_count = 2;
    answer.pool.options[0] = (struct pool_pair){B("order"), B("lifo")};
    answer.pool.options[1] = (struct pool_pair){B("cull_after"), B("60")};
    const char *line = "POOL db joined draining group=g members=4 free=2 taken=1 cleaning=5 "
                       "checking=6 dirty=1 stopping=7 down=8 waiting=4294967295 want=9 order=lifo "
                       "cull_after=60";
    check_answer(&answer, line);
    struct pool_pool_reply pool = read_reply(format("%s more =x", line), POOL_REPLY_POOL).pool;
    check_text(pool.name, "db");
    check_text(pool.kind, "joined");
    ck_assert(pool.draining && pool.has_want && pool.want == 9);
    check_text(pool.group, "g");
    ck_assert_uint_eq(pool.waiting, UINT32_MAX);
    ck_assert_uint_eq(pool.option_count, 2);
    check_pair(&pool.options[1], "cull_after", "60");
    /* A missing, unknown or wrong word in front is no POOL. */
    for (const char *at = strchr(line, ' '); at; at = strchr(at + 1, ' ')) {
        int len = (int)(at - line);
        bool whole = strncmp(at, " order", 6) == 0 || strncmp(at, " cull", 5) == 0;
        (void)read_reply(format("%.*s", len, line), whole ? POOL_REPLY_POOL : POOL_REPLY_OTHER);
        if (at > strchr(line, 'g') && !whole)
            check_other(format("%.*s more=1%s", len, line, at));
    }
    check_other("POOL db static closed group=- members=4 free=2 taken=1 cleaning=0 checking=0 "
                "dirty=1 stopping=0 down=0 waiting=0 want=-");
    check_other("POOL db static open group=- members=4 free=2 taken=1 cleaning=0 checking=0 "
                "dirty=x stopping=0 down=0 waiting=0 want=-");
    check_other("POOL db static open group=- members=4 free=2 taken=1 cleaning=0 checking=0 "
                "dirty=1 stopping=0 down=0 waiting=4294967296 want=-");
    check_other("POOL db static open group=- members=4 free=2 taken=1 cleaning=0 checking=0 "
                "dirty=1 stopping=0 down=0 waiting=0 want=");
}

TEST(members_are_listed_with_state_time_and_holder)
{
    struct pool_answer answer = {
        .reply = POOL_REPLY_MEMBER,
        .member = {
            .name = B("m"), .state = B("free"), .since_ns = INT64_C(1999999999), .takes = 3}};
    check_answer(&answer, "MEMBER m free 1.999 - - takes=3 fails=0");
    answer.member.since_ns = 999999;
    answer.member.state = B("taken");
    answer.member.fence = 17;
    answer.member.holder = B("0.12.3@unix pid 12 uid 0\x7f\x01\r\n\xc3\xa4");
    answer.member.fails = UINT64_MAX;
    answer.member.then = B("dirty");
    answer.member.by = B("me");
    answer.member.note = B("fan");
    answer.member.attr_count = 1;
    answer.member.attrs[0] = (struct pool_pair){B("gpu"), B("a100")};
    check_answer(&answer, "MEMBER m taken 0.000 17 0.12.3@unix_pid_12_uid_0____\xc3\xa4 takes=3 "
                          "fails=18446744073709551615 then=dirty by=me note=fan gpu=a100");
    answer.member.since_ns = INT64_MAX;
    answer.member.holder = B("-");
    answer.member.attr_count = 0;
    check_answer(&answer, "MEMBER m taken 9223372036.854 17 - takes=3 "
                          "fails=18446744073709551615 then=dirty by=me note=fan");
    answer.member.since_ns = -1;
    ck_assert(strstr(answer_text(&answer), "MEMBER m taken 0.000 ") != NULL);

    struct pool_member_reply member =
        read_reply("MEMBER m down 3605.007 - - takes=1 fails=2 by=x more a=1", POOL_REPLY_MEMBER)
            .member;
    ck_assert_int_eq(member.since_ns, INT64_C(3605007000000));
    ck_assert(member.fence == 0 && member.holder.len == 0 && member.then.len == 0);
    ck_assert(member.takes == 1 && member.fails == 2);
    check_text(member.by, "x");
    ck_assert_uint_eq(member.attr_count, 1);
    check_each(check_other, "",
               "MEMBER|MEMBER m|MEMBER m free|MEMBER m free 1.000|MEMBER m free 1.000 -|"
               "MEMBER m free 1.000 - -|MEMBER m free 1.000 - - takes=1|"
               "MEMBER m free 1.000 - - fails=1 takes=1|"
               "MEMBER m free 1.000 - - takes=x fails=1|"
               "MEMBER m free -1.000 - - takes=1 fails=1|"
               "MEMBER m free x - - takes=1 fails=1|"
               "MEMBER m free 1.000 x - takes=1 fails=1|"
               "MEMBER m free . - - takes=1 fails=1|"
               "MEMBER m free 9223372037.000 - - takes=1 fails=1|"
               "MEMBER m free 1.000 - - more takes=1 fails=1",
               "");
}

TEST(an_attribute_with_the_name_of_a_part_stays_an_attribute)
{
    static const char *const keys[] = {"by", "then", "holder"};
    static const char *const parts[] = {
        "", " then=dirty", " by=me", " then=dirty by=me", " note=n", " then=dirty by=me note=n"};
    for (size_t k = 0; k < COUNT_OF(keys); k++) {
        for (size_t i = 0; i < COUNT_OF(parts); i++) {
            struct pool_answer answer = read_reply(
                format("MEMBER m free 0.000 - - takes=0 fails=0%s", parts[i]), POOL_REPLY_MEMBER);
            answer.member.attr_count = 2;
            answer.member.attrs[0] = (struct pool_pair){bytes_of(keys[k]), B("x")};
            answer.member.attrs[1] =
                (struct pool_pair){bytes_of(keys[(k + 1) % COUNT_OF(keys)]), B("y")};
            struct pool_answer again = read_reply(answer_text(&answer), POOL_REPLY_MEMBER);
            ck_assert(bytes_equal(again.member.by, answer.member.by));
            ck_assert(bytes_equal(again.member.then, answer.member.then));
            ck_assert(bytes_equal(again.member.note, answer.member.note));
            ck_assert(same_pairs(again.member.attrs, again.member.attr_count, answer.member.attrs,
                                 answer.member.attr_count));
        }
    }
}

TEST(waiters_are_listed_with_what_they_ask_for)
{
    struct pool_answer answer = {.reply = POOL_REPLY_WAITER,
                                 .waiter = {.client = B("0.1.2@10.0.0.7:53122"),
                                            .since_ns = 12345678901,
                                            .timeout_ns = 250000000,
                                            .count = 2}};
    check_answer(&answer, "WAITER 0.1.2@10.0.0.7:53122 12.345 0.25 count=2 for=use");
    answer.waiter.client = B("0.1.2@unix pid 1");
    answer.waiter.take_for = POOL_TAKE_FOR_CLEAN;
    answer.waiter.count = 1;
    answer.waiter.member = B("m");
    answer.waiter.by = B("me");
    answer.waiter.with_count = 2;
    answer.waiter.with[0] = (struct pool_pair){B("a"), B("1")};
    answer.waiter.with[1] = (struct pool_pair){B("b"), B("")};
    check_answer(&answer, "WAITER 0.1.2@unix_pid_1 12.345 0.25 count=1 for=clean member=m "
                          "with=a=1 with=b= by=me");
    struct pool_waiter_reply waiter =
        read_reply("WAITER c 1.5 4294967295 count=3 for=check with=a=1 more", POOL_REPLY_WAITER)
            .waiter;
    check_text(waiter.client, "c");
    ck_assert_int_eq(waiter.since_ns, 1500000000);
    ck_assert_int_eq(waiter.timeout_ns, POOLS_TIMEOUT_MAX_NS);
    ck_assert(waiter.count == 3 && waiter.take_for == POOL_TAKE_FOR_CHECK);
    ck_assert(waiter.with_count == 1 && waiter.member.len == 0 && waiter.by.len == 0);
    check_each(check_other, "",
               "WAITER|WAITER c|WAITER c 1.000|WAITER c 1.000 5|"
               "WAITER c 1.000 5 count=1|WAITER c x 5 count=1 for=use|"
               "WAITER c 1.000 x count=1 for=use|"
               "WAITER c 1.000 4294967296 count=1 for=use|"
               "WAITER c 1.000 5 count=x for=use|WAITER c 1.000 5 count=1 for=what|"
               "WAITER c 1.000 5 for=use count=1|"
               "WAITER c 1.000 5 count=1 for=use with=a|"
               "WAITER c 1.000 5 count=1 for=use with=a=1 with=a=2",
               "");
    check_other(format("WAITER c 1.000 5 count=1 for=use%s", pairs_text("with=k", 9)));
}

TEST(the_longest_replies_fill_their_room)
{
    struct bytes name = bytes_of(letters(POOLS_NAME_MAX));
    struct bytes word = bytes_of(letters(POOLS_STATE_MAX));
    struct bytes holder = bytes_of(letters(POOLS_HOLDER_MAX));
    struct bytes by = bytes_of(letters(POOLS_BY_MAX));
    struct pool_pair attrs[POOLS_ATTRS_MAX], options[POOLS_OPTIONS_MAX];
    for (size_t i = 0; i < POOLS_ATTRS_MAX; i++)
        attrs[i] = (struct pool_pair){bytes_of(format("k%0*zu", POOLS_KEY_MAX - 1, i)),
                                      bytes_of(letters(POOLS_ATTR_MAX))};
    for (size_t i = 0; i < POOLS_OPTIONS_MAX; i++)
        options[i] = (struct pool_pair){bytes_of(format("k%0*zu", POOLS_OPTION_MAX - 1, i)),
                                        bytes_of(letters(POOLS_OPTION_MAX))};
#define FILLS(answer, room)                                                                        \
    do {                                                                                           \
        ck_assert_uint_eq(strlen(answer_text(&(answer))) + 1, room);                               \
        ck_assert_uint_le(room, POOLS_REPLY_ROOM);                                                 \
        (void)read_reply(answer_text(&(answer)), (answer).reply);                                  \
    } while (0)
    struct pool_answer answer = {.reply = POOL_REPLY_BAD_VALUE, .bad_value = options[0].key};
    FILLS(answer, POOLS_BAD_VALUE_ROOM);
    answer = (struct pool_answer){.reply = POOL_REPLY_WANT, .want = {name, UINT32_MAX}};
    FILLS(answer, POOLS_WANT_ROOM);
    answer = (struct pool_answer){.reply = POOL_REPLY_STOP, .stop = {name, name, word}};
    FILLS(answer, POOLS_STOP_ROOM);
    answer = (struct pool_answer){.reply = POOL_REPLY_LOST, .lost = UINT64_MAX};
    FILLS(answer, POOLS_LOST_ROOM);
    answer = (struct pool_answer){.reply = POOL_REPLY_EVENT,
                                  .event = {name, name, word, word, word, UINT64_MAX, holder, by}};
    FILLS(answer, POOLS_EVENT_ROOM);
    answer = (struct pool_answer){.reply = POOL_REPLY_TAKEN,
                                  .taken = {.pool = name,
                                            .member = name,
                                            .fence = UINT64_MAX,
                                            .value = bytes_of(letters(POOLS_VALUE_MAX)),
                                            .attr_count = POOLS_ATTRS_MAX}};
    memcpy(answer.taken.attrs, attrs, sizeof(attrs));
    FILLS(answer, POOLS_TAKEN_ROOM);
    ck_assert_uint_eq(pool_taken_room(&answer.taken), POOLS_TAKEN_ROOM);
    answer.taken.value = (struct bytes){0};
    answer.taken.attr_count = 1;
    FILLS(answer, pool_taken_room(&answer.taken));
    answer = (struct pool_answer){.reply = POOL_REPLY_POOL,
                                  .pool = {.name = name,
                                           .kind = word,
                                           .draining = true,
                                           .group = name,
#define ROW(name) .name = UINT32_MAX,
                                           POOL_COUNTS(ROW)
#undef ROW
                                               .has_want = true,
                                           .want = UINT32_MAX,
                                           .option_count = POOLS_OPTIONS_MAX}};
    memcpy(answer.pool.options, options, sizeof(options));
    FILLS(answer, POOLS_POOL_ROOM);
    answer = (struct pool_answer){.reply = POOL_REPLY_MEMBER,
                                  .member = {.name = name,
                                             .state = word,
                                             .since_ns = INT64_MAX,
                                             .fence = UINT64_MAX,
                                             .holder = holder,
                                             .takes = UINT64_MAX,
                                             .fails = UINT64_MAX,
                                             .then = word,
                                             .by = by,
                                             .note = bytes_of(letters(POOLS_NOTE_MAX)),
                                             .attr_count = POOLS_ATTRS_MAX}};
    memcpy(answer.member.attrs, attrs, sizeof(attrs));
    FILLS(answer, POOLS_MEMBER_ROOM);
    answer = (struct pool_answer){.reply = POOL_REPLY_WAITER,
                                  .waiter = {.client = holder,
                                             .since_ns = INT64_MAX,
                                             .timeout_ns = POOLS_TIMEOUT_MAX_NS - 1,
                                             .count = UINT32_MAX,
                                             .take_for = POOL_TAKE_FOR_CLEAN,
                                             .member = name,
                                             .by = by,
                                             .with_count = POOLS_WITH_MAX}};
    memcpy(answer.waiter.with, attrs, POOLS_WITH_MAX * sizeof(attrs[0]));
    FILLS(answer, POOLS_WAITER_ROOM);
#undef FILLS
}

/* ---- Random replies and bytes --------------------------------------------------------------- */

static struct bytes random_text(uint64_t *seed)
{
    struct bytes text;
    do
        text = random_word(seed, POOLS_STATE_MAX, "-");
    while (text.len == 0);
    return text;
}

/* A word without the bytes that are replaced. */
static struct bytes random_client(uint64_t *seed)
{
    return bytes_of(format("%zu.%zu@10.0.0.%zu:5", random_below(seed, 99), random_below(seed, 9999),
                           random_below(seed, 255)));
}

static struct pool_answer random_answer(uint64_t *seed)
{
    struct pool_answer answer;
    memset(&answer, 0xee, sizeof(answer));
    answer.reply = POOL_REPLY_BAD_VALUE +
                   (enum pool_reply)random_below(seed, POOL_REPLY_OTHER - POOL_REPLY_BAD_VALUE);
    uint64_t any = random_next(seed) >> random_below(seed, 64);
    bool some = random_below(seed, 2);
    struct bytes none = B("");
    struct bytes pool = random_name(seed, POOL_BUT), member = random_name(seed, "");
    switch (answer.reply) {
    case POOL_REPLY_BAD_VALUE:
        answer.bad_value = random_text(seed);
        break;
    case POOL_REPLY_TAKEN:
        answer.taken.pool = pool;
        answer.taken.member = member;
        answer.taken.fence = any;
        answer.taken.value = random_value(seed);
        answer.taken.attr_count = random_pairs(seed, answer.taken.attrs, POOLS_ATTRS_MAX);
        break;
    case POOL_REPLY_WANT:
        answer.want = (struct pool_want_reply){pool, (uint32_t)any};
        break;
    case POOL_REPLY_STOP:
        answer.stop = (struct pool_stop_reply){pool, member, random_text(seed)};
        break;
    case POOL_REPLY_LOST:
        answer.lost = any;
        break;
    case POOL_REPLY_EVENT:
        answer.event = (struct pool_event_reply){pool,
                                                 member,
                                                 random_text(seed),
                                                 random_text(seed),
                                                 random_text(seed),
                                                 some ? any : 0,
                                                 random_below(seed, 2) ? random_client(seed) : none,
                                                 random_below(seed, 2) ? random_text(seed) : none};
        break;
    case POOL_REPLY_POOL:
        answer.pool = (struct pool_pool_reply){.name = pool,
                                               .kind = random_text(seed),
                                               .draining = random_below(seed, 2),
                                               .group = some ? random_text(seed) : none,
                                               .members = (uint32_t)any,
                                               .waiting = (uint32_t)random_below(seed, 9),
                                               .has_want = some,
                                               .want = some ? (uint32_t)any : 0};
        answer.pool.option_count = random_pairs(seed, answer.pool.options, POOLS_OPTIONS_MAX);
        break;
    case POOL_REPLY_MEMBER:
        answer.member =
            (struct pool_member_reply){.name = member,
                                       .state = random_text(seed),
                                       .since_ns = (int64_t)(any / 2000000 * 1000000),
                                       .fence = some ? any : 0,
                                       .holder = some ? random_client(seed) : none,
                                       .takes = random_below(seed, 99),
                                       .fails = any,
                                       .then = random_below(seed, 2) ? random_text(seed) : none,
                                       .by = random_below(seed, 2) ? random_text(seed) : none,
                                       .note = random_word(seed, POOLS_NOTE_MAX, "")};
        answer.member.attr_count = random_pairs(seed, answer.member.attrs, POOLS_ATTRS_MAX);
        break;
    default:
        answer.waiter =
            (struct pool_waiter_reply){.client = random_client(seed),
                                       .since_ns = (int64_t)(any / 2000000 * 1000000),
                                       .timeout_ns = random_ns(seed),
                                       .count = (uint32_t)any,
                                       .take_for = (enum pool_take_for)random_below(seed, 3),
                                       .member = some ? member : none,
                                       .by = random_below(seed, 2) ? random_text(seed) : none};
        answer.waiter.with_count = random_pairs(seed, answer.waiter.with, POOLS_WITH_MAX);
        break;
    }
    return answer;
}

/* Compares what the lines say, part by part. */
static bool same_answer(const struct pool_answer *a, const struct pool_answer *b)
{
    if (a->reply != b->reply)
        return false;
    switch (a->reply) {
    case POOL_REPLY_BAD_VALUE:
        return bytes_equal(a->bad_value, b->bad_value);
    case POOL_REPLY_TAKEN:
        return bytes_equal(a->taken.pool, b->taken.pool) &&
               bytes_equal(a->taken.member, b->taken.member) && a->taken.fence == b->taken.fence &&
               bytes_equal(a->taken.value, b->taken.value) &&
               same_pairs(a->taken.attrs, a->taken.attr_count, b->taken.attrs, b->taken.attr_count);
    case POOL_REPLY_WANT:
        return bytes_equal(a->want.pool, b->want.pool) && a->want.want == b->want.want;
    case POOL_REPLY_STOP:
        return bytes_equal(a->stop.pool, b->stop.pool) &&
               bytes_equal(a->stop.member, b->stop.member) && bytes_equal(a->stop.why, b->stop.why);
    case POOL_REPLY_LOST:
        return a->lost == b->lost;
    case POOL_REPLY_EVENT:
        return bytes_equal(a->event.pool, b->event.pool) &&
               bytes_equal(a->event.member, b->event.member) &&
               bytes_equal(a->event.from, b->event.from) && bytes_equal(a->event.to, b->event.to) &&
               bytes_equal(a->event.why, b->event.why) && a->event.fence == b->event.fence &&
               bytes_equal(a->event.conn, b->event.conn) && bytes_equal(a->event.by, b->event.by);
    case POOL_REPLY_POOL:
#define ROW(name)                                                                                  \
    if (a->pool.name != b->pool.name)                                                              \
        return false;
        POOL_COUNTS(ROW)
#undef ROW
        return bytes_equal(a->pool.name, b->pool.name) && bytes_equal(a->pool.kind, b->pool.kind) &&
               a->pool.draining == b->pool.draining && bytes_equal(a->pool.group, b->pool.group) &&
               a->pool.has_want == b->pool.has_want && a->pool.want == b->pool.want &&
               same_pairs(a->pool.options, a->pool.option_count, b->pool.options,
                          b->pool.option_count);
    case POOL_REPLY_MEMBER:
        return bytes_equal(a->member.name, b->member.name) &&
               bytes_equal(a->member.state, b->member.state) &&
               a->member.since_ns == b->member.since_ns && a->member.fence == b->member.fence &&
               bytes_equal(a->member.holder, b->member.holder) &&
               a->member.takes == b->member.takes && a->member.fails == b->member.fails &&
               bytes_equal(a->member.then, b->member.then) &&
               bytes_equal(a->member.by, b->member.by) &&
               bytes_equal(a->member.note, b->member.note) &&
               same_pairs(a->member.attrs, a->member.attr_count, b->member.attrs,
                          b->member.attr_count);
    case POOL_REPLY_WAITER:
        return bytes_equal(a->waiter.client, b->waiter.client) &&
               a->waiter.since_ns == b->waiter.since_ns &&
               a->waiter.timeout_ns == b->waiter.timeout_ns && a->waiter.count == b->waiter.count &&
               a->waiter.take_for == b->waiter.take_for &&
               bytes_equal(a->waiter.member, b->waiter.member) &&
               bytes_equal(a->waiter.by, b->waiter.by) &&
               same_pairs(a->waiter.with, a->waiter.with_count, b->waiter.with,
                          b->waiter.with_count);
    default:
        return true;
    }
}

TEST(random_replies_survive_a_round_trip)
{
    uint64_t seed = 5;
    for (int i = 0; i < 40000; i++) {
        texts_len = 0;
        struct pool_answer answer = random_answer(&seed);
        uint8_t line[POOLS_REPLY_ROOM];
        size_t len = compose_answer(&answer, line, sizeof(line));
        REQUIRE(len > 0 && line[len - 1] == '\n' && !memchr(line, '\n', len - 1));
        struct pool_answer again = read_reply_len((const char *)line, len - 1);
        if (!same_answer(&answer, &again))
            ck_abort_msg("round %d: %.*s", i, (int)len, (const char *)line);
    }
}

/* Writes words of the protocol and noise to `to`; returns the length. */
static size_t random_line(uint64_t *seed, char *to, size_t room)
{
    static const char *const pieces[] = {
        "TAKE",   "RETURN",  "JOIN",    "SUPPLY",    "MEMBER",  "POOL",   "WATCH",    "QUIT",
        "ADD",    "SET",     "DROP",    "SHOW",      "LIST",    " ",      " ",        " ",
        "  ",     "db",      "@g",      ",",         "*",       "0",      "17",       "4294967296",
        ".5",     "5.",      "-",       "count=",    "member=", "with=",  "k=",       "a=b",
        "for=",   "use",     "clean",   "by=",       "now",     "mine",   "ok",       "fail",
        "value=", "note=",   "state=",  "down",      "TAKEN",   "WANT",   "STOP",     "LOST",
        "EVENT",  "WAITER",  "ERROR",   "BAD_VALUE", "open",    "group=", "members=", "free=",
        "taken=", "takes=1", "fails=0", "fence=",    "conn=",   "\r",     "\t",       "then="};
    size_t wanted = random_below(seed, room + 1), len = 0;
    while (len < wanted) {
        size_t pick = random_below(seed, COUNT_OF(pieces) + 4);
        if (pick >= COUNT_OF(pieces)) {
            to[len++] = (char)random_next(seed);
            continue;
        }
        size_t add = strlen(pieces[pick]);
        for (size_t i = 0; i < add && len < wanted; i++)
            to[len++] = pieces[pick][i];
        if (random_below(seed, 2) && len < wanted)
            to[len++] = ' ';
    }
    return len;
}

TEST(what_is_parsed_of_random_bytes_is_composed_and_parsed_again)
{
    uint64_t seed = 1;
    char line[96];
    size_t requests = 0, replies = 0, members = 0;
    for (int i = 0; i < 400000; i++) {
        size_t len = random_line(&seed, line, sizeof(line));
        struct pool_request req, again;
        uint8_t composed[1000];
        if (read_len(line, len, &req) == POOL_PARSED) {
            requests++;
            size_t composed_len = pool_compose_request(&req, composed, sizeof(composed));
            REQUIRE(composed_len > 0);
            REQUIRE(read_len((const char *)composed, composed_len - 1, &again) == POOL_PARSED);
            REQUIRE(same_request(&req, &again));
        }
        struct pool_answer answer = read_reply_len(line, len);
        if (answer.reply > POOL_REPLY_FIXED && answer.reply < POOL_REPLY_OTHER) {
            replies++;
            size_t composed_len = compose_answer(&answer, composed, sizeof(composed));
            REQUIRE(composed_len > 0);
            REQUIRE(read_reply_len((const char *)composed, composed_len - 1).reply == answer.reply);
        }
        struct pool_member_line member;
        uint8_t *exact = exact_copy(line, len);
        members += pool_parse_member(bytes_at(exact, len), &member);
        free(exact);
    }
    ck_assert_uint_gt(requests, 1000);
    ck_assert_uint_gt(replies, 100);
    ck_assert_uint_gt(members, 1000);
}

/* ---- The program ---------------------------------------------------------------------------- */

int main(void)
{
    const struct unit_test tests[] = {
        UNIT(take_carries_target_timeout_and_options),
        UNIT(a_target_is_a_pool_or_pools_or_a_group_and_nothing_else),
        UNIT(a_timeout_is_decimal_seconds_or_the_line_is_wrong),
        UNIT(options_of_take_are_each_there_once_and_within_their_bounds),
        UNIT(one_member_is_taken_by_name_of_one_pool),
        UNIT(return_has_a_fence_and_a_result_or_not),
        UNIT(a_new_member_has_a_name_a_value_and_attributes),
        UNIT(the_key_of_an_attribute_has_small_letters_digits_and_underscores),
        UNIT(supply_has_two_numbers_the_first_not_above_the_second),
        UNIT(member_set_changes_something),
        UNIT(drops_may_be_now),
        UNIT(options_of_pools_are_passed_on_by_name),
        UNIT(show_list_watch_and_quit),
        UNIT(a_line_of_no_verb_is_a_bad_command),
        UNIT(a_verb_without_its_words_is_bad_syntax),
        UNIT(composed_requests_are_these_lines),
        UNIT(verbs_have_their_listed_words),
        UNIT(what_would_be_another_request_is_not_composed),
        UNIT(random_requests_survive_a_round_trip),
        UNIT(the_longest_requests_fit_in_their_room),
        UNIT(a_line_of_a_members_file_is_a_member),
        UNIT(a_line_of_a_members_file_has_the_bounds_of_requests),
        UNIT(replies_of_fixed_text_are_these_words),
        UNIT(pc_parse_reply_splits_these_replies),
        UNIT(taken_carries_member_fence_value_and_attributes),
        UNIT(want_stop_and_lost_are_short_lines),
        UNIT(events_carry_fence_connection_and_by),
        UNIT(pools_are_listed_with_counts_and_options),
        UNIT(members_are_listed_with_state_time_and_holder),
        UNIT(an_attribute_with_the_name_of_a_part_stays_an_attribute),
        UNIT(waiters_are_listed_with_what_they_ask_for),
        UNIT(the_longest_replies_fill_their_room),
        UNIT(random_replies_survive_a_round_trip),
        UNIT(what_is_parsed_of_random_bytes_is_composed_and_parsed_again),
    };
    return unit_run("proto/pools", tests, COUNT_OF(tests));
}
