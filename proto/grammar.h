/*
 * grammar.h - private to the codecs of the text protocols: lines as rows of parts.
 *
 * A part is a word of a line, or several words of one kind: where its value is in the message, its
 * kind and its bounds. One walk over the parts reads a line into a message, and one writes it. What
 * no kind can say is a function of the codec: of one part, or of the whole message after the walk.
 */
#ifndef PROTO_GRAMMAR_H
#define PROTO_GRAMMAR_H

#include "proto/line.h"

#include <stddef.h>

/* The rest of a line. */
struct words {
    const uint8_t *at, *end;
};

struct words words_of(struct bytes line);

/* Takes the word that begins here; it is empty before a space, and before a byte that words cannot
 * have. */
struct bytes words_take(struct words *words);

void words_skip_spaces(struct words *words);

/* True when a word ends here. */
static inline bool word_ends(const struct words *words)
{
    return words->at == words->end || *words->at == ' ';
}

/* The kinds: what the word is, and the type of the member. */
enum part_kind {
    PART_END,     /* no part: it ends a row */
    PART_U32,     /* uint32_t, decimal digits, `min` to `max` */
    PART_U64,     /* the same, uint64_t */
    PART_BYTES,   /* struct bytes, `min` to `max` bytes */
    PART_TEXT,    /* only `key`; no member */
    PART_SECONDS, /* int64_t nanoseconds: seconds with or without a fraction, up to `max` ns; digits
                     after the ninth are ignored */
    PART_MILLIS,  /* the same, written with three decimals, rounded down */
    PART_WORD,    /* an enum: the word number `min` to `max` of `words` */
    PART_FLAG,    /* bool: the second of two `words` means true */
    PART_PAIRS,   /* array of two struct bytes each: K=V for each, up to `max`, each K once */
    PART_OWN,     /* `read` and `write` know */
};

/* Flags of a part. */
#define PART_OPTIONAL  1u /* may be missing: a number that is `min`, empty bytes */
#define PART_ANY_ORDER 2u /* one of neighbours in any order: once or not at all; pairs often */
#define PART_MAY_MISS  (PART_OPTIONAL | PART_ANY_ORDER)
#define PART_DASH      4u /* it is written as `none`, too, when it is missing and the next is not */
#define PART_ONE_SPACE 8u /* exactly one space before it */
#define PART_REST      16u  /* of bytes: all that is left, with its spaces */
#define PART_CLIENT    32u  /* of bytes: written with "_" for each space and control character */
#define PART_20_DIGITS 64u  /* of a number: no more of them */
#define PART_OTHERS    128u /* of pairs: words that are none are ignored */

/* A part. The message is zero before it is read; so is what is missing. */
struct part {
    uint8_t kind, flags;
    uint8_t bit;      /* with a flag of its own: the bit that says that the part is there */
    uint16_t at;      /* where the member is */
    uint16_t has;     /* where the byte with `bit` is; of pairs: their number, a size_t */
    struct bytes key; /* what the word begins with, as "count=" */
    uint64_t min, max;
    const char *none;                                 /* the word for no bytes, or no number */
    const char *const *words;                         /* an empty one cannot be read */
    bool (*good)(struct bytes word);                  /* may reject bytes, or a whole K=V */
    bool (*read)(struct words *words, void *message); /* of PART_OWN: takes what follows the key */
    void (*write)(struct out *out, const void *message); /* of any kind, in place of its own way */
};

/*
 * For rows. PARTS(...) is a row's parts with their end; the others are what a part begins with, and
 * OF is the struct of the message.
 */
/* clang-format off */
#define PARTS(...)                 (const struct part[]){__VA_ARGS__ __VA_OPT__(,) {.kind = PART_END}}
#define MEMBER(type, member)       .kind = PART_##type, .at = offsetof(OF, member)
#define BYTES(member, least, most) MEMBER(BYTES, member), .min = (least), .max = (most)
#define U32(member)                MEMBER(U32, member), .max = UINT32_MAX
#define U64(member)                MEMBER(U64, member), .max = UINT64_MAX
#define FLAG(member, no, yes)      MEMBER(FLAG, member), .words = (const char *const[]){no, yes}, .max = 1
#define PAIRS(member, count)       MEMBER(PAIRS, member), .has = offsetof(OF, count)
#define KEY(text)                  .key = BYTES_OF_LITERAL(text)
#define HAS(member, mask)          .has = offsetof(OF, member), .bit = (mask)
/* clang-format on */

/*
 * Reads the row's parts into the message. Returns false when one is wrong or missing. What follows
 * them is the caller's.
 */
bool grammar_read(const struct part *parts, struct words *words, void *message);

/* Writes the row's parts, each with a space before it if it is not the first of the line. Nothing
 * is checked. */
void grammar_write(const struct part *parts, struct out *out, const void *message);

/* True when the members of all parts are alike. */
bool grammar_same(const struct part *parts, const void *a, const void *b);

/* ---- For functions of parts ------------------------------------------------------------------ */

/* Inline: the compiler knows the length of a literal. */
static inline bool word_is(struct bytes word, const char *text)
{
    return bytes_equal(word, bytes_of(text));
}

/* Splits a word at the first `mark`. Returns false if there is none. */
bool word_split(struct bytes word, char mark, struct bytes *before_r, struct bytes *after_r);

#endif
