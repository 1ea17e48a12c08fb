/* spelling.c - see spelling.h. */
#include "base/spelling.h"

#include "base/check.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/*
 * The number of changes that turn `a` into `b`; `b` is at most SPELLING_MAX long. Row i has the
 * distances for the first i letters of `a`; the algorithm needs only three rows at a time.
 */
static size_t distance_of(const char *a, const char *b)
{
    size_t a_len = strlen(a), b_len = strlen(b);
    size_t space[3][SPELLING_MAX + 1];
    size_t *older = space[0], *old = space[1], *now = space[2];
    CHECK(b_len <= SPELLING_MAX);

    for (size_t j = 0; j <= b_len; j++)
        now[j] = older[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t *oldest = older;
        older = old;
        old = now;
        now = oldest;
        now[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            bool same = same_letter(a[i - 1], b[j - 1]);
            now[j] = least(least(old[j], now[j - 1]) + 1, old[j - 1] + (same ? 0 : 1));
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
                same_letter(a[i - 2], b[j - 1]))
                now[j] = least(now[j], older[j - 2] + 1);
        }
    }
    return now[b_len];
}

const char *spelling_nearest(const char *word, const char *(*word_at)(size_t index), size_t most)
{
    const char *nearest = NULL, *at;
    size_t len = strlen(word);
    if (len == 0 || len > SPELLING_MAX)
        return NULL;
    for (size_t i = 0; (at = word_at(i)); i++) {
        size_t distance = distance_of(word, at);
        if (distance < most || (distance == most && !nearest)) {
            most = distance;
            nearest = at;
        }
    }
    return nearest;
}
