/* patterns_test.c - lists of patterns, beside a slow and obvious matcher. */
#include "cluster/patterns.h"

#include "base/text.h"
#include "t/unit/random.h"
#include "t/unit/unit.h"

#include <string.h>

/* The longest name of the random tests, in bytes. */
#define NAME_MAX_LEN 1024

static struct patterns *lists(const char *strict, const char *loose)
{
    char reason[PATTERNS_REASON_SIZE] = "";
    struct patterns *p = patterns_new(strict, loose, NULL, reason);
    ck_assert_msg(p != NULL, "%s | %s: %s", strict, loose, reason);
    return p;
}

/* The list is wrong, in both places, for this reason. */
static void bad(const char *list, const char *words)
{
    for (int i = 0; i < 2; i++) {
        char reason[PATTERNS_REASON_SIZE] = "";
        bool strict_wrong = i != 0;
        ck_assert(!patterns_new(i ? "a" : list, i ? list : "a", &strict_wrong, reason));
        ck_assert_int_eq(strict_wrong, i == 0);
        ck_assert_msg(strstr(reason, words) != NULL, "%s: %s", list, reason);
    }
}

TEST(lists_have_commas_and_spaces)
{
    struct patterns *p = lists(" lic:* ,\tgpu?,  quota x ", "cache:*, *");
    ck_assert_int_eq(patterns_class(p, bytes_of("lic:cad")), PATTERNS_STRICT);
    ck_assert_int_eq(patterns_class(p, bytes_of("gpu7")), PATTERNS_STRICT);
    ck_assert_int_eq(patterns_class(p, bytes_of("quota x")), PATTERNS_STRICT);
    ck_assert_int_eq(patterns_class(p, bytes_of("gpu10")), PATTERNS_LOOSE);
    ck_assert_str_eq(patterns_list(p, PATTERNS_STRICT), " lic:* ,\tgpu?,  quota x ");
    ck_assert_str_eq(patterns_list(p, PATTERNS_LOOSE), "cache:*, *");
    patterns_free(&p);
    ck_assert_ptr_null(p);
    patterns_free(&p);
}

TEST(patterns_that_leave_out_names_of_pools_are_told)
{
    static const char *const leave[] = {"*", "p*", "?ool:x", "po?*", "*:x", "pool?*", "a, pool*"};
    static const char *const miss[] = {"", "pool", "????", "q*", "pool;*", "*, pool:x", "pool:*"};
    for (size_t i = 0; i < ARRAY_SIZE(leave); i++) {
        struct patterns *p = lists(leave[i], NULL), *q = lists(NULL, leave[i]);
        struct patterns *other = lists(miss[i], NULL);
        ck_assert_msg(patterns_leave_pools(p) && patterns_leave_pools(q), "%s", leave[i]);
        ck_assert_msg(!patterns_leave_pools(other), "%s", miss[i]);
        patterns_free(&p);
        patterns_free(&q);
        patterns_free(&other);
    }
    struct patterns *p = lists("*", "pool:*"); /* strict wins among those that match */
    ck_assert_int_eq(patterns_class(p, bytes_of("pool:x")), PATTERNS_LOOSE);
    ck_assert_int_eq(patterns_class(p, bytes_of("x")), PATTERNS_STRICT);
    patterns_free(&p);
}

TEST(names_are_bytes)
{
    struct patterns *p = lists("\xff?\x80*", "a");
    ck_assert_int_eq(patterns_class(p, bytes_at("\xff\0\x80\0\n", 5)), PATTERNS_STRICT);
    ck_assert_int_eq(patterns_class(p, bytes_at("a\0", 2)), PATTERNS_OWN);
    ck_assert_int_eq(patterns_class(p, bytes_at("\0", 1)), PATTERNS_OWN);
    patterns_free(&p);
}

TEST(mistakes)
{
    bad(",", "missing beside a comma");
    bad("a,", "missing beside a comma");
    bad("a,,b", "missing beside a comma");
    bad(",a", "missing beside a comma");
    char text[1100];
    memset(text, 'y', 256);
    text[256] = '\0';
    bad(text, "begins with \"yyyyyy");
    text[255] = '\0';
    struct patterns *p = lists(text, NULL);
    patterns_free(&p);
    for (int i = 0; i < 256; i++)
        snprintf(text + (size_t)i * 4, sizeof(text) - (size_t)i * 4, "%03d,", i);
    text[256 * 4 - 1] = '\0';
    char reason[PATTERNS_REASON_SIZE] = "";
    bool strict_wrong = true;
    ck_assert(!patterns_new(text, "a", &strict_wrong, reason) && !strict_wrong);
    ck_assert_msg(strstr(reason, "more than 256 patterns") != NULL, "%s", reason);
    p = lists(text, NULL);
    ck_assert_int_eq(patterns_class(p, bytes_of("255")), PATTERNS_STRICT);
    ck_assert_int_eq(patterns_class(p, bytes_of("256")), PATTERNS_OWN);
    patterns_free(&p);
}

TEST(digests)
{
    static const struct {
        const char *strict[2], *loose[2];
        bool same;
    } rows[] = {
        {{"a*,b", " b , a*"}, {"c", "c"}, true}, {{"a*,a*", "a**"}, {NULL, ""}, true},
        {{"a*?*b", "a?*b"}, {"", ""}, true},     {{"", " "}, {"", NULL}, true},
        {{"a", "b"}, {"b", "a"}, false},         {{"a", ""}, {"", "a"}, false},
        {{"a,b", "ab"}, {"", ""}, false},        {{"asb", "a,b"}, {"", ""}, false},
        {{"a?", "a*"}, {"", ""}, false},         {{"a", ""}, {"", ""}, false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct patterns *p = lists(rows[i].strict[0], rows[i].loose[0]);
        struct patterns *q = lists(rows[i].strict[1], rows[i].loose[1]);
        bool same = strcmp(patterns_digest(p), patterns_digest(q)) == 0;
        ck_assert_msg(same == rows[i].same, "row %zu", i);
        patterns_free(&p);
        patterns_free(&q);
    }
    /* Nodes of any version compare it, so it never changes. */
    struct patterns *p = lists("lic:*, gpu?", "cache:*"), *q = lists("", "");
    ck_assert_str_eq(patterns_digest(p), "2142c3dd6330d981");
    ck_assert_str_eq(patterns_digest(q), "1e924b9d737700d7");
    patterns_free(&p);
    patterns_free(&q);
}

/* The obvious matcher. */
static bool slow(const char *pattern, const uint8_t *name, size_t len)
{
    static bool rows[2][NAME_MAX_LEN + 1]; /* [j]: the pattern so far matches the first j bytes */
    bool *row = rows[0], *next = rows[1];
    memset(rows, 0, sizeof(rows));
    row[0] = true;
    for (; *pattern; pattern++) {
        for (size_t j = 0; j <= len; j++) {
            if (*pattern == '*')
                next[j] = row[j] || (j > 0 && next[j - 1]);
            else
                next[j] =
                    j > 0 && row[j - 1] && (*pattern == '?' || (uint8_t)*pattern == name[j - 1]);
        }
        bool *swap = row;
        row = next;
        next = swap;
    }
    return row[len];
}

static bool is_of_pools(const void *name, size_t len)
{
    return len >= 5 && memcmp(name, "pool:", 5) == 0;
}

/*
 * Beside the obvious matcher: short patterns of few messages, and patterns of up to 255 bytes,
 * whose automata have several words. Names are made from their patterns, then changed byte by byte.
 * Names of pools need a pattern that begins like them.
 */
TEST(random_patterns)
{
    struct rng rng = rng_start("patterns", random_seed());
    unsigned counts[2] = {0};
    for (int round = 0; round < 6000; round++) {
        char pattern[PATTERNS_LEN_MAX + 1];
        uint8_t name[NAME_MAX_LEN];
        const char *begin = round % 4 ? "" : rng_one_in(&rng, 2) ? "pool:" : "*:";
        size_t plen = strlen(begin), len = *begin ? 5 : 0;
        size_t end = plen + 1 + rng_below(&rng, round % 6 ? 12 : PATTERNS_LEN_MAX - 5);
        uint32_t dices = round % 6 ? 6 : 12;
        memcpy(pattern, begin, plen);
        memcpy(name, "pool:", len);
        for (; plen < end; plen++) {
            uint32_t dice = rng_below(&rng, dices);
            pattern[plen] = (char)(dice == 0 ? '*' : dice < 3 ? '?' : 'a' + dice % 2);
            for (uint32_t n = dice == 0 ? rng_below(&rng, 4) : 1; n > 0; n--)
                name[len++] = (uint8_t)(dice < 3 ? 'a' + rng_below(&rng, 2) : 'a' + dice % 2);
        }
        pattern[plen] = '\0';
        struct patterns *p = lists(NULL, pattern);
        for (int i = 0; i < 12; i++) {
            bool fits = slow(pattern, name, len);
            bool want = fits && (!is_of_pools(name, len) || is_of_pools(pattern, plen));
            ck_assert_msg(fits || i > 0, "%s", pattern);
            ck_assert_msg(patterns_leave_pools(p) || want == fits, "%s", pattern);
            ck_assert_msg((patterns_class(p, bytes_at(name, len)) == PATTERNS_LOOSE) == want,
                          "%s: %.*s", pattern, (int)len, (const char *)name);
            counts[want]++;
            if (len > 0)
                name[rng_below(&rng, (uint32_t)len)] ^= 'a' ^ 'b';
            len -= len > 0 && rng_one_in(&rng, 3);
        }
        patterns_free(&p);
    }
    ck_assert(counts[0] > 2000 && counts[1] > 2000);
}

/* A matcher that tries all ways would never end. */
TEST(time_is_linear)
{
    struct text pattern = {0};
    static uint8_t name[65535];
    for (int i = 0; i < 60; i++)
        text_addf(&pattern, "*a?");
    text_addf(&pattern, "*b");
    struct patterns *p = lists(text_str(&pattern), "*");
    memset(name, 'a', sizeof(name));
    ck_assert_int_eq(patterns_class(p, bytes_at(name, sizeof(name))), PATTERNS_LOOSE);
    name[sizeof(name) - 1] = 'b';
    ck_assert_int_eq(patterns_class(p, bytes_at(name, sizeof(name))), PATTERNS_STRICT);
    patterns_free(&p);
    text_free(&pattern);
}

UNIT_MAIN("patterns")
