/* spelling_test.c - the nearest of some words. */
#include "base/check.h"
#include "base/spelling.h"
#include "t/unit/unit.h"

#include <string.h>

static const char *word_at(size_t index)
{
    static const char *const words[] = {"release", "reload", "get", "kill", "connections"};
    return index < ARRAY_SIZE(words) ? words[index] : NULL;
}

static const char *nearest(const char *word, size_t most)
{
    const char *found = spelling_nearest(word, word_at, most);
    return found ? found : "none";
}

TEST(each_change_counts_once)
{
    ck_assert_str_eq(nearest("kill", 0), "kill");
    ck_assert_str_eq(nearest("kil", 1), "kill");   /* a letter left out */
    ck_assert_str_eq(nearest("killl", 1), "kill"); /* a letter added */
    ck_assert_str_eq(nearest("bill", 1), "kill");  /* a letter changed */
    ck_assert_str_eq(nearest("klil", 1), "kill");  /* letters swapped */
    ck_assert_str_eq(nearest("conections", 0), "none");
    ck_assert_str_eq(nearest("klilx", 1), "none");
    ck_assert_str_eq(nearest("klilx", 2), "kill");
}

TEST(case_does_not_count)
{
    ck_assert_str_eq(nearest("KILL", 0), "kill");
    ck_assert_str_eq(nearest("KLIL", 1), "kill");
}

TEST(the_nearest_wins_and_then_the_first)
{
    ck_assert_str_eq(nearest("reloads", 3), "reload");
    ck_assert_str_eq(nearest("releaad", 2), "release"); /* equally far from both */
}

TEST(far_words_are_none)
{
    char longest[SPELLING_MAX + 2];
    memset(longest, 'x', sizeof longest);
    longest[SPELLING_MAX + 1] = '\0';
    ck_assert_str_eq(nearest("", 9), "none");
    ck_assert_str_eq(nearest("zzzz", 3), "none");
    ck_assert_str_eq(nearest(longest, 99), "none");
    ck_assert_str_eq(nearest(longest + 1, 99), "release");
}

static const struct unit_test tests[] = {
    UNIT(each_change_counts_once),
    UNIT(case_does_not_count),
    UNIT(the_nearest_wins_and_then_the_first),
    UNIT(far_words_are_none),
};

UNIT_MAIN("base/spelling", tests)
