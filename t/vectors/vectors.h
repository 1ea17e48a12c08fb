/*
 * vectors.h - codecs as tables: what a codec reads and writes, as bytes and as a line of text.
 *
 * A message's text is its kind and its parts that are not zero: `TAKE count=1 targets=db by=me`.
 * The same table reads and writes it, so a vector compares two texts, and the checks need nothing
 * but a codec's table: the runner (run.c) makes them with vectors, the fuzzer (fuzz/codecs.c) with
 * any bytes. One thread.
 */
#ifndef VECTORS_H
#define VECTORS_H

#include "base/bytes.h"

#include <stdalign.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- Texts ----------------------------------------------------------------------------------- */

/* A text that grows; zero is an empty one. `data` is NULL, or ends with a null byte. */
struct text {
    char *data;
    size_t len, room;
};

void text_put(struct text *text, const char *data, size_t len);
void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds bytes: those below '!', above '~', and "\;{}=" as \xNN. */
void text_add_bytes(struct text *text, struct bytes bytes);
void text_clear(struct text *text);
/* Reads bytes with \n \r \t \0 \s (space) \\ \xNN, and <90 0a> in hexadecimal, into `to`, which may
 * be the text itself. Returns the length. */
size_t text_to_bytes(const char *text, size_t len, uint8_t *to);

/* ---- Messages -------------------------------------------------------------------------------- */

/* A key and a value, as struct pool_pair. */
struct pair {
    struct bytes key, value;
};

enum field_type {
    NUMBER, /* of `size` bytes: name=5, or one of `words` */
    FLAG,   /* bool: name=1 */
    HIDDEN, /* a number that is read, and never told */
    BYTES,  /* struct bytes: name=value */
    HEX,    /* `size` bytes in hexadecimal: name=deadbeef */
    PAIRS,  /* struct pair: +key=value for each */
    LIST,   /* struct bytes: name=value for each */
};

/* A part of a message. A table of them ends with a name of NULL. */
struct field {
    const char *name;
    enum field_type type;
    size_t at, size;          /* in the body */
    size_t count_at;          /* of PAIRS and LIST: where their number (size_t) is */
    const char *const *words; /* up to a NULL; or none */
};

#define PART(type, of, member) #member, type, offsetof(of, member), sizeof(((of *)0)->member)
#define FIELD(type, of, member)                                                                    \
    {                                                                                              \
        PART(type, of, member), 0, NULL                                                            \
    }
#define WORDS(of, member, words)                                                                   \
    {                                                                                              \
        PART(NUMBER, of, member), 0, words                                                         \
    }
#define ARRAY(type, of, member, count)                                                             \
    {                                                                                              \
        PART(type, of, member), offsetof(of, count), NULL                                          \
    }

struct message {
    size_t kind;
    uint8_t *memory; /* what the parts of a message that was read from a text point into, or NULL */
    alignas(16) uint8_t body[4096];
};

/* ---- Codecs ---------------------------------------------------------------------------------- */

/* What a parser says; other words are errors. */
#define PARSED  "PARSED"
#define MORE    "MORE"
#define DROPPED "DROPPED" /* some bytes are dropped, and nothing is said yet */

/* A connection's stream. */
struct stream {
    size_t max_line;
    bool skipping; /* a line that is too long */
};

struct codec {
    const char *name;
    const char *const *kinds; /* NULL among them: a kind that has only a number */
    size_t kind_count;
    const struct field *fields;                     /* of all kinds, or NULL */
    const struct field *(*own_fields)(size_t kind); /* more of one kind, or NULL */
    /* Parses the message at the front. Returns a word in static memory, and the bytes to drop; for
     * MORE, how long the message is at least, or 0. */
    const char *(*parse)(struct stream *stream, const uint8_t *data, size_t len,
                         struct message *message, size_t *used_r);
    /* Returns the length, or 0; NULL: there is none. */
    size_t (*compose)(const struct message *message, uint8_t *to, size_t room);
    /* True of a message that is parsed but not composed; or NULL. */
    bool (*is_for_reading)(const struct message *message);
    const size_t *rooms; /* what the longest line of each kind needs, 0 for any; or NULL */
    bool rooms_are_tight;
    size_t header; /* MORE says this, and then the whole length */
    bool is_whole; /* it gets whole texts, never parts */
    bool errors_have_parts;
    bool errors_write_nothing;
    bool rounds;          /* the composer writes some parts less exactly than they were parsed */
    bool takes_any_parts; /* the composer does not check its parts */
};

enum { CODECS_MAX = 32 };
/* All codecs, in the order of the fuzzer's inputs; NULL after the last. */
extern const struct codec *const codecs[CODECS_MAX];
extern const struct codec text_request, text_reply, text_stats, binary_request, binary_reply,
    pools_request, pools_reply, pools_member, jobs_request, jobs_record, jobs_reply, jobs_entry,
    jobs_name, base_number, base_digits, base_seconds, base_character, base_network, base_allowed;

/* Adds the message's text. */
void message_tell(const struct codec *codec, const struct message *message, struct text *text);
/* Reads a text; the caller frees `memory`. Returns false, and leaves nothing to free, when it is
 * none of this codec. */
bool message_read(const struct codec *codec, const char *text, size_t len, struct message *to);

/* ---- Checks ---------------------------------------------------------------------------------- */

/* Each program has its own: says what is wrong. A check goes on if it returns. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Parses a stream whole, and, unless the codec gets whole texts, in parts; composes what it was
 * parsed to if `again`. Adds to *said all that was said, with "; " between. `step`: the length of
 * the parts, or 0 for all of many lengths. */
void check_stream(const struct codec *codec, size_t max_line, struct bytes stream, size_t step,
                  bool again, struct text *said);

/* Composes a message in buffers of many sizes; `exact`: also in all that are too small. Returns the
 * bytes, in memory that the next call uses. What is composed must be parsed to the same message if
 * `again`. */
struct bytes check_composed(const struct codec *codec, const struct message *message, bool again,
                            bool exact);

/* A buffer of exactly `len` bytes, so that a sanitizer sees a read past the end; NULL for none. */
uint8_t *exact_bytes(const void *data, size_t len);

#endif
