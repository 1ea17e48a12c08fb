/*
 * beanstalk_parts.h - private to the codec of job queues: what requests and answers have in common.
 */
#ifndef PROTO_BEANSTALK_PARTS_H
#define PROTO_BEANSTALK_PARTS_H

#include "proto/beanstalk.h"
#include "proto/grammar.h"

/* Looks for "\r\n". Returns the length of what is before it, or `in.len` when it is not there. */
size_t line_length(struct bytes in);

/* Writes the line's end. Returns the length of the line; 0 when something did not fit. */
size_t end_crlf(struct out *out);

/* By enum bs_state. */
extern const char *const bs_state_words[BS_STATE_COUNT];

#endif
