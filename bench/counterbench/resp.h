/*
 * resp.h - as much of Redis's protocol as a load tool needs: commands as arrays of strings, answers
 * that are numbers, strings or errors.
 */
#ifndef COUNTERBENCH_RESP_H
#define COUNTERBENCH_RESP_H

#include "bench/counterbench/protocol.h"

/* Writes a command of `count` arguments; 0: it does not fit. */
size_t resp_compose(const struct bytes *arguments, size_t count, uint8_t *to, size_t room);

/*
 * Judges an answer: YES for a string and for a number from `least` on, NO for a smaller one, WRONG
 * for an error. As `hear` of struct protocol.
 */
enum heard resp_hear(int64_t least, const uint8_t *data, size_t len, size_t *used_r, char *said);

#endif
