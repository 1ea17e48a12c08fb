/*
 * fuzz.h - shared by all harnesses.
 *
 * A harness is one function that takes any bytes and aborts when they make the tested code break a
 * promise. It is linked with libFuzzer, which searches for such bytes (./dev fuzz), and with
 * replay.c, which only runs the corpus (in the tests). The same bytes must always give the same
 * result, even though a harness may keep objects from one input to the next.
 */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The harness; libFuzzer prescribes the name. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The start of an input, which controls how the rest is used. Reads 0 after the end. */
struct input {
    const uint8_t *at;
    size_t left;
};

static inline uint8_t input_byte(struct input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->at++;
}

static inline uint64_t input_number(struct input *in, unsigned bytes)
{
    uint64_t value = 0;
    while (bytes-- > 0)
        value = value << 8 | input_byte(in);
    return value;
}

/* Takes the next `len` bytes, or fewer at the end; *len_r is their number. */
static inline const uint8_t *input_bytes(struct input *in, size_t len, size_t *len_r)
{
    const uint8_t *at = in->at;
    *len_r = len < in->left ? len : in->left;
    in->at += *len_r;
    in->left -= *len_r;
    return at;
}

/*
 * Copies exactly these bytes, so that a sanitizer notices reads past their end. The caller frees
 * it.
 */
static inline uint8_t *exact_copy(const void *data, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    CHECK(copy);
    if (len > 0)
        memcpy(copy, data, len);
    return copy;
}

static inline bool same_bytes(const void *a, size_t a_len, const void *b, size_t b_len)
{
    return a_len == b_len && (a_len == 0 || memcmp(a, b, a_len) == 0);
}

#endif
