/*
 * beanstalk_parts.h - private to the codec of job queues: finding lines, and the words in them.
 */
#ifndef PROTO_BEANSTALK_PARTS_H
#define PROTO_BEANSTALK_PARTS_H

#include "proto/beanstalk.h"
#include "proto/line.h"

/* ---- Lines ---------------------------------------------------------------------------------- */

/* Looks for "\r\n". Returns the length of what is before it, or `in.len` when it is not there. */
size_t line_length(struct bytes in);

/* Writes the line's end. Returns the length of the line; 0 when something did not fit. */
size_t end_crlf(struct out *out);

/* ---- Words ---------------------------------------------------------------------------------- */

/*
 * Each takes a part from the front of *in, and returns false when it is not there or out of its
 * bounds. *in is undefined then.
 */

/* Any number of spaces, and digits. What follows them is the next part's business. */
bool take_u64(struct bytes *in, uint64_t *value_r);
bool take_u32(struct bytes *in, uint32_t max, uint32_t *value_r);
bool take_count(struct bytes *in, uint32_t *count_r); /* 1 to BS_COUNT_MAX */

/* The name of a tube: no spaces before it; up to the first byte that names cannot have. */
bool take_tube(struct bytes *in, struct bytes *tube_r);
/* The same with one space before it. */
bool take_next_tube(struct bytes *in, struct bytes *tube_r);
/* "*", a name, or the beginning of names and "*". One space comes before it. */
bool take_pattern(struct bytes *in, struct bytes *tube_r, bool *prefix_r);

/* One space or more, and a word that ends before a space or at the end. */
bool take_next_word(struct bytes *in, struct bytes *word_r);
bool take_state(struct bytes *in, enum bs_state *state_r);

/* All options of a put, up to the end. */
bool take_options(struct bytes *in, struct bs_put_options *options_r);
/* All settings of a tube, up to the end. */
bool take_settings(struct bytes *in, struct bs_settings *settings_r);

/* ---- Writing -------------------------------------------------------------------------------- */

/* Each writes a space before each word. */

void put_next_word(struct out *out, struct bytes word);
void put_next_number(struct out *out, uint64_t value);
void put_option_words(struct out *out, const struct bs_put_options *options);
void put_setting_words(struct out *out, const struct bs_settings *settings);

/* ---- Comparing ------------------------------------------------------------------------------ */

bool same_options(const struct bs_put_options *a, const struct bs_put_options *b);
bool same_settings(const struct bs_settings *a, const struct bs_settings *b);

#endif
