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
    char reason[PATTERNS_REASON_SIZE] = "";
    bool strict_wrong = false;
    ck_assert(!patterns_new(list, "a", &strict_wrong, reason));
    ck_assert(strict_wrong);
    ck_assert_msg(strstr(reason, words) != NULL, "%s: %s", list, reason);
    *reason = '\0';
    ck_assert(!patterns_new("a", list, &strict_wrong, reason));
    ck_assert(!strict_wrong);
    ck_assert_msg(strstr(reason, words) != NULL, "%s: %s", list, reason);
}

/* True if this one pattern matches. */
static bool matches(const char *pattern, const char *name)
{
    struct patterns *p = lists(pattern, NULL);
    bool yes = patterns_class(p, bytes_of(name)) == PATTERNS_STRICT;
    patterns_free(&p);
    return yes;
}

TEST(lists_have_commas_and_spaces)
{
    struct patterns *p = lists(" lic:* ,\tgpu?,  quota x ", "cache:*, *");
    ck_assert_int_eq(patterns_class(p, bytes_of("lic:cad")), PATTERNS_STRICT);
    ck_assert_int_eq(patterns_class(p, bytes_of("gpu7")), PATTERNS_STRICT);
    ck_assert_int_eq(patterns_class(p, bytes_of("quota x")), PATTERNS_STRICT);
    ck_assert_int_eq(patterns_class(p, bytes_of("gpu10")), PATTERNS_LOOSE);
    patterns_free(&p);
    ck_assert_ptr_null(p);
    patterns_free(&p);
}
END_TEST

TEST(names_of_pools_need_a_pattern_that_begins_so)
{
    static const char *const reach[] = {"*", "p*", "?ool:x", "po?*", "*:x", "pool?*", "a, pool*"};
    static const char *const miss[] = {"", "pool", "????", "q*", "pool;*", "*, pool:x", "pool:*"};
    for (size_t i = 0; i < ARRAY_SIZE(reach); i++) {
        ck_assert_msg(!matches(reach[i], "pool:x"), "%s", reach[i]);
        struct patterns *p = lists(reach[i], NULL), *other = lists(NULL, reach[i]);
        ck_assert_msg(patterns_leave_pools(p) && patterns_leave_pools(other), "%s", reach[i]);
        patterns_free(&p);
        patterns_free(&other);
    }
    for (size_t i = 0; i < ARRAY_SIZE(miss); i++) {
        struct patterns *p = lists(miss[i], NULL);
        ck_assert_msg(!patterns_leave_pools(p), "%s", miss[i]);
        patterns_free(&p);
    }
    ck_assert(matches("pool:*", "pool:x") && matches("pool:", "pool:") &&
              matches("pool:?", "pool:x"));
    ck_assert(matches("*", "pool") && matches("*", "Pool:x") && matches("*", "spool:x"));
    struct patterns *p = lists("*", "pool:*"); /* strict wins among those that match */
    ck_assert_int_eq(patterns_class(p, bytes_of("pool:x")), PATTERNS_LOOSE);
    ck_assert_int_eq(patterns_class(p, bytes_of("x")), PATTERNS_STRICT);
    patterns_free(&p);
}
END_TEST

TEST(names_are_bytes)
{
    struct patterns *p = lists("\xff?\x80*", "a");
    ck_assert_int_eq(patterns_class(p, bytes_at("\xff\0\x80\0\n", 5)), PATTERNS_STRICT);
    ck_assert_int_eq(patterns_class(p, bytes_at("a\0", 2)), PATTERNS_OWN);
    ck_assert_int_eq(patterns_class(p, bytes_at("\0", 1)), PATTERNS_OWN);
    patterns_free(&p);
}
END_TEST

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
END_TEST

/* The digest of both lists, in a buffer of the caller. */
static const char *digest(const char *strict, const char *loose, char *to)
{
    struct patterns *p = lists(strict, loose);
    memcpy(to, patterns_digest(p), PATTERNS_DIGEST_SIZE);
    patterns_free(&p);
    ck_assert_uint_eq(strlen(to), PATTERNS_DIGEST_SIZE - 1);
    ck_assert_uint_eq(strspn(to, "0123456789abcdef"), PATTERNS_DIGEST_SIZE - 1);
    return to;
}

static bool same(const char *strict, const char *loose, const char *strict2, const char *loose2)
{
    char a[PATTERNS_DIGEST_SIZE], b[PATTERNS_DIGEST_SIZE];
    struct patterns *p = lists(strict, loose), *q = lists(strict2, loose2);
    bool equal = patterns_equal(p, q);
    bool digests = strcmp(digest(strict, loose, a), digest(strict2, loose2, b)) == 0;
    ck_assert_int_eq(equal, digests);
    patterns_free(&p);
    patterns_free(&q);
    return equal;
}

TEST(digests)
{
    char text[PATTERNS_DIGEST_SIZE];
    ck_assert(same("a*,b", "c", " b , a*", "c"));
    ck_assert(same("a*,a*", NULL, "a**", ""));
    ck_assert(same("a*?*b", "", "a?*b", ""));
    ck_assert(same("", "", " ", NULL));
    ck_assert(!same("a", "b", "b", "a"));
    ck_assert(!same("a", "", "", "a"));
    ck_assert(!same("a,b", "", "ab", ""));
    ck_assert(!same("asb", "", "a,b", ""));
    ck_assert(!same("a?", "", "a*", ""));
    ck_assert(!same("a", "", "", ""));
    /* Nodes of any version compare it, so it never changes. */
    ck_assert_str_eq(digest("lic:*, gpu?", "cache:*", text), "2142c3dd6330d981");
    ck_assert_str_eq(digest("", "", text), "1e924b9d737700d7");
}
END_TEST

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

/* Compares with the obvious matcher; returns its answer. */
static bool compare(const struct patterns *p, const char *pattern, const uint8_t *name, size_t len)
{
    bool want = slow(pattern, name, len);
    bool is = patterns_class(p, bytes_at(name, len)) == PATTERNS_LOOSE;
    ck_assert_msg(is == want, "%s: %.*s", pattern, (int)len, (const char *)name);
    return want;
}

TEST(random_patterns)
{
    static const char letters[] = "aab**?";
    struct rng rng = rng_start("patterns", random_seed());
    unsigned long yes = 0;
    for (int round = 0; round < 20000; round++) {
        char pattern[16];
        size_t plen = 1 + rng_below(&rng, 12);
        for (size_t i = 0; i < plen; i++)
            pattern[i] = letters[rng_below(&rng, sizeof(letters) - 1)];
        pattern[plen] = '\0';
        struct patterns *p = lists(NULL, pattern);
        for (int i = 0; i < 40; i++) {
            uint8_t name[32];
            size_t len = rng_below(&rng, sizeof(name));
            for (size_t j = 0; j < len; j++)
                name[j] = rng_below(&rng, 3) ? 'a' : 'b';
            yes += compare(p, pattern, name, len);
        }
        patterns_free(&p);
    }
    ck_assert_uint_gt(yes, 10000);
}
END_TEST

/* Automata of several words: patterns of up to 255 bytes, names made from them, and changed. */
TEST(random_long_patterns)
{
    struct rng rng = rng_start("long patterns", random_seed());
    unsigned yes = 0, no = 0;
    for (int round = 0; round < 2000; round++) {
        char pattern[PATTERNS_LEN_MAX + 1];
        uint8_t name[NAME_MAX_LEN];
        size_t plen = 60 + rng_below(&rng, PATTERNS_LEN_MAX - 59), len = 0;
        for (size_t i = 0; i < plen; i++) {
            uint32_t dice = rng_below(&rng, 12);
            pattern[i] = (char)(dice == 0 ? '*' : dice < 3 ? '?' : 'a' + dice % 2);
            for (uint32_t n = dice == 0 ? rng_below(&rng, 4) : 1; n > 0; n--)
                name[len++] = (uint8_t)(dice < 3 ? 'a' + rng_below(&rng, 2) : 'a' + dice % 2);
        }
        pattern[plen] = '\0';
        struct patterns *p = lists(NULL, pattern);
        ck_assert_msg(compare(p, pattern, name, len), "%s", pattern);
        for (int i = 0; i < 4; i++) {
            name[rng_below(&rng, (uint32_t)len)] ^= 'a' ^ 'b';
            if (compare(p, pattern, name, len))
                yes++;
            else
                no++;
        }
        ck_assert_int_eq(patterns_class(p, bytes_at(name, 10)), PATTERNS_OWN);
        patterns_free(&p);
    }
    ck_assert(yes > 100 && no > 100);
}
END_TEST

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
END_TEST

UNIT_MAIN("patterns")
