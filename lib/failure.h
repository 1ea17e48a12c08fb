/*
 * failure.h - fills what the library says of an error (struct counter_error).
 */
#ifndef LIB_FAILURE_H
#define LIB_FAILURE_H

#include "base/bytes.h"
#include "base/check.h"
#include "lib/counter.h"

/* Most bytes of a quoted text. */
#define FAILURE_QUOTED_MAX 200

/*
 * Says what has happened: sets status and reason, clears `answer` and `sent`, keeps server and
 * target. The text of the reason is escaped: it may have untrusted bytes. Returns `status`.
 * `error` NULL: does nothing else.
 */
int failure_set(struct counter_error *error, int status, const char *format, ...) PRINTF_LIKE(3, 4);

/* The same for our own lack of memory; `server` becomes empty. Returns COUNTER_NO_MEMORY. */
int failure_no_memory(struct counter_error *error);

/* Says where it happened, where that is not said yet, but no server of our own lack of memory. A
   server that is NULL says nothing. */
void failure_place(struct counter_error *error, const char *server, struct bytes target);

/* Quotes the answer: its first line, escaped and cut. */
void failure_answer(struct counter_error *error, struct bytes answer);

/*
 * Writes text for people, null-terminated: at most FAILURE_QUOTED_MAX bytes and what fits in `room`
 * (at least 1) of it; control characters and what is not UTF-8 are escaped. A character is never
 * cut. Returns the length.
 */
size_t failure_quote(char *to, size_t room, struct bytes from);

/* Is that errno a lack of this machine, and no server's fault? */
bool failure_is_ours(int error);

/* Copies an error to a caller's struct, as much as its `size` says. `to` NULL: does nothing. */
void failure_give(struct counter_error *to, const struct counter_error *from);

#endif
