/*
 * answer.h - what servers say, checked: words, numbers, dictionaries, and the error of a refusal.
 */
#ifndef LIB_ANSWER_H
#define LIB_ANSWER_H

#include "lib/failure.h"

#define ANSWER_WORDS      6
#define ANSWER_OK_MAX     (1u << 20) /* bytes of the body of an OK */
#define ANSWER_LINE_TEXT  16384      /* bytes of a line */
#define ANSWER_LINE_JOBS  1024
#define ANSWER_NUMBER_MAX INT64_MAX

/* A first word that is awaited, and how many words its line has at least. */
struct good {
    const char *word;
    unsigned least;
};

/* What the server may refuse with. */
#define SAYS_ANY       1u /* what any verb may be told */
#define SAYS_TIMEOUT   2u
#define SAYS_LOCK_HELD 4u
#define SAYS_NOT_FOUND 8u
#define SAYS_READ_ONLY 16u
#define SAYS_PUT       32u

/* An answer. The words and the line point into it; words behind those are empty. */
struct answer {
    struct bytes line;
    struct bytes words[ANSWER_WORDS];
    struct bytes body; /* of OK, RESERVED, FOUND; of the binary protocol */
    uint8_t code;      /* of the binary protocol */
};

/* Takes what stands before `end`, and that byte; without it, all. */
struct bytes answer_word(struct bytes *rest, char end);

/*
 * Splits a line into words. Returns COUNTER_OK when its first is one of `good` (up to a NULL) and
 * none is missing. Else *error is what the line means: one of `refusals` (0: nothing can be refused
 * any more), or COUNTER_MALFORMED.
 */
int answer_split(struct bytes line, const struct good *good, unsigned refusals,
                 struct answer *answer_r, struct counter_error *error);

/* Finds the length of the body that a line announces, without the line end behind it; SIZE_MAX:
   none. Returns false, with *error filled, when it is too long. */
bool answer_body(const struct answer *answer, uint64_t max_body, size_t *size_r,
                 struct counter_error *error);

/* Quotes a status of the binary protocol, and its text. */
void answer_code(uint8_t code, struct bytes body, struct counter_error *error);

/* The error of a status of the binary protocol. */
int answer_refused(uint8_t code, struct bytes body, struct counter_error *error);

/* COUNTER_MALFORMED, with the bytes that are wrong. */
int answer_malformed(struct counter_error *error, struct bytes what, const char *reason);

/* Reads a number within its bounds. */
bool answer_number(struct bytes word, uint64_t low, uint64_t top, uint64_t *value_r);

/* Takes the next line of a dictionary (`tube`, `ready`, `stats-job`), or of a list (the key is
   empty then). Returns false at the end: *text is empty, unless something is wrong there. */
struct entry {
    struct bytes key, value;
    uint64_t number;
    bool is_number;
};
bool answer_entry(struct bytes *text, struct entry *entry_r);

/* Takes the first line of a dictionary or list. */
bool answer_start(struct bytes *text);

#endif
