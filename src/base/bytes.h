/*
 * bytes.h - a run of bytes that somebody else owns: names, messages, parts of texts.
 */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Not terminated; may hold any byte. Valid as long as what it points into. */
struct bytes {
    const uint8_t *data;
    size_t len;
};

/* The bytes of a literal, as an initialiser: the compiler finds their number. */
#define BYTES_OF_LITERAL(literal)                                                                  \
    {                                                                                              \
        .data = (const uint8_t *)(literal), .len = sizeof(literal) - 1                             \
    }

/* `len` bytes at `data`. */
static inline struct bytes bytes_at(const void *data, size_t len)
{
    return (struct bytes){.data = data, .len = len};
}

/* The bytes of a C string. */
static inline struct bytes bytes_of(const char *string)
{
    return bytes_at(string, strlen(string));
}

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Whether `b` begins with `prefix`. */
static inline bool bytes_begin_with(struct bytes b, struct bytes prefix)
{
    return b.len >= prefix.len && (prefix.len == 0 || memcmp(b.data, prefix.data, prefix.len) == 0);
}

/* The order of two, byte by byte, as memcmp; of which one begins with the other, that comes last.
 */
static inline int bytes_compare(struct bytes a, struct bytes b)
{
    size_t both = a.len < b.len ? a.len : b.len;
    int order = both > 0 ? memcmp(a.data, b.data, both) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

/*
 * Takes `len` bytes from the front of *in and returns them. NULL where there are not as many: *in
 * is then empty with `data` NULL, and so is whatever is taken from it after. So a parser may go
 * straight through and look at `data` once.
 */
static inline const uint8_t *bytes_take(struct bytes *in, size_t len)
{
    const uint8_t *at = in->data;
    if (!at || len > in->len) {
        *in = (struct bytes){0};
        return NULL;
    }
    *in = bytes_at(at + len, in->len - len);
    return at;
}

/* Takes `text` from the front of *in, if it is there. */
static inline bool bytes_take_text(struct bytes *in, const char *text)
{
    struct bytes prefix = bytes_of(text);
    return bytes_begin_with(*in, prefix) && bytes_take(in, prefix.len);
}

#endif
