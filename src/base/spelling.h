/*
 * spelling.h - which word somebody may have meant.
 */
#ifndef BASE_SPELLING_H
#define BASE_SPELLING_H

#include <stddef.h>

/* Longer words are not compared: no name of ours is so long. */
#define SPELLING_MAX 48

/*
 * The word that is nearest to `word` among word_at(0), word_at(1) and so on up to NULL: the first
 * of those that take the fewest letters put in, left out, changed, or swapped with their neighbour,
 * and at most `most`. Case does not count. NULL: none is so near, or `word` is empty or too long.
 */
const char *spelling_nearest(const char *word, const char *(*word_at)(size_t index), size_t most);

#endif
