/*
 * spelling.h - suggests the word that a misspelled one may stand for.
 */
#ifndef BASE_SPELLING_H
#define BASE_SPELLING_H

#include <stddef.h>

/* Longer words are not compared: none of our names is that long. */
#define SPELLING_MAX 48

/*
 * Returns the word nearest to `word` among word_at(0), word_at(1) and so on up to NULL. The
 * distance is the number of letters inserted, removed, changed, or swapped with a neighbour; case
 * does not count. On a tie the first word wins. Returns NULL when no distance is `most` or less, or
 * when `word` is empty or longer than SPELLING_MAX.
 */
const char *spelling_nearest(const char *word, const char *(*word_at)(size_t index), size_t most);

#endif
