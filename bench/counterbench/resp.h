/*
 * resp.h - the part of Redis's protocol that a load tool needs: commands as arrays of strings, and
 * answers that are numbers, strings or errors.
 */
#ifndef COUNTERBENCH_RESP_H
#define COUNTERBENCH_RESP_H

#include "bench/counterbench/protocol.h"

/* Writes a command of `count` arguments. 0: it does not fit. */
size_t resp_compose(const struct bytes *arguments, size_t count, uint8_t *to, size_t room);

/*
 * Judges an answer, like `hear` of struct protocol: YES for a string and for a number of at least
 * `least`, NO for a smaller number, WRONG for an error.
 */
enum heard resp_hear(int64_t least, const uint8_t *data, size_t len, size_t *used_r, char *said);

#endif
