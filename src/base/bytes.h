/*
 * bytes.h - a pointer and a length: names, messages and parts of texts that belong to other code.
 */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Not null-terminated. May hold any byte. Valid while the memory at `data` is. */
struct bytes {
    const uint8_t *data;
    size_t len;
};

/* Initialiser with the bytes of a string literal. */
#define BYTES_OF_LITERAL(literal)                                                                  \
    {                                                                                              \
        .data = (const uint8_t *)(literal), .len = sizeof(literal) - 1                             \
    }

static inline struct bytes bytes_at(const void *data, size_t len)
{
    return (struct bytes){.data = data, .len = len};
}

static inline struct bytes bytes_of(const char *string)
{
    return bytes_at(string, strlen(string));
}

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* True when `b` begins with `prefix`. */
static inline bool bytes_begin_with(struct bytes b, struct bytes prefix)
{
    return b.len >= prefix.len && (prefix.len == 0 || memcmp(b.data, prefix.data, prefix.len) == 0);
}

/* Compares byte by byte, as memcmp does. If one begins with the other, the shorter comes first. */
static inline int bytes_compare(struct bytes a, struct bytes b)
{
    size_t both = a.len < b.len ? a.len : b.len;
    int order = both > 0 ? memcmp(a.data, b.data, both) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

/*
 * Takes `len` bytes from the front of *in and returns them. Returns NULL if *in is shorter: *in
 * then becomes empty with `data` NULL, and every later call returns NULL too. So a parser can take
 * all fields and check for NULL once, at the end.
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

/* Takes `text` from the front of *in. Returns false, and leaves *in alone, when it is not there. */
static inline bool bytes_take_text(struct bytes *in, const char *text)
{
    struct bytes prefix = bytes_of(text);
    return bytes_begin_with(*in, prefix) && bytes_take(in, prefix.len);
}

#endif
