/*
 * record.h - a stream of values to and from a file in memory: how a process hands its state on to
 * the one that follows it. What the whole state looks like, and what of versions: record.md.
 *
 * Numbers are little endian, of fixed size and not aligned. Values stand in sections, each with its
 * kind and length, which may lie in one another; so a reader passes over what it need not know, and
 * none reads beyond the section that it is in.
 *
 * Errors stick: a writer or reader that has failed does nothing more, so it is enough to ask at the
 * end. A reader trusts nothing: what is cut off, or is said not to be right by whoever reads it
 * (record_refuse), makes it failed, with all sections that it lies in; values read then are 0.
 *
 * One thread at a time.
 */
#ifndef BASE_RECORD_H
#define BASE_RECORD_H

#include "base/check.h"

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The version of the whole state: goes up with every change that an older reader can't take. */
#define RECORD_VERSION 2

/* The oldest version that is still read. */
#define RECORD_VERSION_OLDEST 1

/* So deep may sections lie in one another. */
#define RECORD_DEPTH 4

/* In a section's kind: who does not know it may pass over it. */
#define RECORD_OPTIONAL (UINT32_C(1) << 31)

/* ---- writing ------------------------------------------------------------------------------- */

/* Large: not for the stack of a thread. */
struct record_writer {
    int fd;
    bool failed;
    int error;        /* errno of the failure */
    unsigned depth;   /* sections that are open */
    size_t used;      /* of the buffer */
    uint64_t flushed; /* bytes in the file */
    uint64_t begun[RECORD_DEPTH];
    uint8_t buffer[65536];
};

/* Writes to `fd`, a file that one can seek in, from its beginning. */
void record_writer_init(struct record_writer *w, int fd);

/* Makes room for `len` bytes, at most the buffer's size, and returns where; NULL: failed. */
uint8_t *record_room(struct record_writer *w, size_t len);

/* The value of each is the last argument. */
static inline void record_put_u8(struct record_writer *w, uint8_t value)
{
    uint8_t *to = record_room(w, sizeof(value));
    if (to)
        *to = value;
}

static inline void record_put_u16(struct record_writer *w, uint16_t value)
{
    uint8_t *to = record_room(w, sizeof(value));
    value = htole16(value);
    if (to)
        memcpy(to, &value, sizeof(value));
}

static inline void record_put_u32(struct record_writer *w, uint32_t value)
{
    uint8_t *to = record_room(w, sizeof(value));
    value = htole32(value);
    if (to)
        memcpy(to, &value, sizeof(value));
}

static inline void record_put_u64(struct record_writer *w, uint64_t value)
{
    uint8_t *to = record_room(w, sizeof(value));
    value = htole64(value);
    if (to)
        memcpy(to, &value, sizeof(value));
}

static inline void record_put_i64(struct record_writer *w, int64_t value)
{
    record_put_u64(w, (uint64_t)value);
}

/* A double, as its 64 bits. */
void record_put_double(struct record_writer *w, double value);

/* Any bytes, their number (up to 2^32 - 1, as u32) before them. */
void record_put_bytes(struct record_writer *w, const void *data, size_t len);

/* Begins a section of that kind, and ends the one begun last. */
void record_begin(struct record_writer *w, uint32_t kind);
void record_end(struct record_writer *w);

/* What was to be written can't be, for this errno: the writer has failed. */
void record_give_up(struct record_writer *w, int error);

/* The first thing in a file: what it is, and RECORD_VERSION. */
void record_put_head(struct record_writer *w);

/* When all sections have ended: writes what is left. False: something failed; errno says what. */
bool record_finish(struct record_writer *w) MUST_USE;

/* ---- reading ------------------------------------------------------------------------------- */

struct record_reader {
    const uint8_t *data;
    size_t len, pos; /* bytes; pos <= len */
    bool failed;
    const char *why;              /* it failed; for people */
    struct record_reader *parent; /* the section that this one lies in; NULL: it is the outermost */
    void *mapped;                 /* by record_map */
};

/* Reads `len` bytes at `data`, which stay there meanwhile. */
void record_reader_init(struct record_reader *r, const void *data, size_t len);

/* Reads all of a file, by mapping it. False: errno. Undone by record_unmap. */
bool record_map(struct record_reader *r, int fd) MUST_USE;
void record_unmap(struct record_reader *r);

/* What was read can't be so: fails, for that reason (a literal), if that has not happened yet. */
void record_refuse(struct record_reader *r, const char *why);

/* The next `len` bytes; NULL: failed. */
static inline const uint8_t *record_take(struct record_reader *r, size_t len)
{
    if (unlikely(r->failed || len > r->len - r->pos)) {
        record_refuse(r, "the state ends too early");
        return NULL;
    }
    r->pos += len;
    return r->data + (r->pos - len);
}

static inline uint8_t record_get_u8(struct record_reader *r)
{
    const uint8_t *at = record_take(r, 1);
    return at ? *at : 0;
}

static inline uint16_t record_get_u16(struct record_reader *r)
{
    uint16_t value = 0;
    const uint8_t *at = record_take(r, sizeof(value));
    if (at)
        memcpy(&value, at, sizeof(value));
    return le16toh(value);
}

static inline uint32_t record_get_u32(struct record_reader *r)
{
    uint32_t value = 0;
    const uint8_t *at = record_take(r, sizeof(value));
    if (at)
        memcpy(&value, at, sizeof(value));
    return le32toh(value);
}

static inline uint64_t record_get_u64(struct record_reader *r)
{
    uint64_t value = 0;
    const uint8_t *at = record_take(r, sizeof(value));
    if (at)
        memcpy(&value, at, sizeof(value));
    return le64toh(value);
}

static inline int64_t record_get_i64(struct record_reader *r)
{
    return (int64_t)record_get_u64(r);
}

/* Not finite: fails. */
double record_get_double(struct record_reader *r);

/* 0 or 1, else fails. */
bool record_get_bool(struct record_reader *r);

/* The number of bytes and where they lie, in the file; 0 and an empty string when it failed. */
size_t record_get_bytes(struct record_reader *r, const void **data_r);

/*
 * The next section: its kind, and a reader of what is in it. False: there is none, or failed. What
 * of it is not read is passed over. A section that fails makes `r` fail, which must stay in its
 * place while the section is read.
 */
bool record_enter(struct record_reader *r, uint32_t *kind_r, struct record_reader *section_r);

/* A section whose kind the reader does not know: fine if it may be passed over, else fails. */
void record_unknown(struct record_reader *section, uint32_t kind);

/* Nothing has failed. What was not read yet does not matter. */
static inline bool record_ok(const struct record_reader *r)
{
    return !r->failed;
}

/* Whether something is left to read; false when it failed. */
static inline bool record_left(const struct record_reader *r)
{
    return !r->failed && r->pos < r->len;
}

/* A section has been read: fails if something is left in it. */
void record_leave(struct record_reader *section);

/* Reads what record_put_head wrote; fails where the version is not one that is read here. */
void record_get_head(struct record_reader *r);

#endif
