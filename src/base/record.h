/*
 * record.h - writes and reads a stream of values in a memory file. A process hands its state to its
 * successor this way. record.md has the layout of the whole state and the rules for versions.
 *
 * Numbers are little endian, of fixed size and not aligned. Values are grouped in sections, each
 * with a kind and a length; sections may be nested. So a reader can skip a section that it does not
 * need and never reads beyond the section that it is in.
 *
 * Errors stick: after a failure a writer or reader does nothing more, so check once at the end. A
 * reader trusts nothing: it fails when data is missing or when its caller rejects a value
 * (record_refuse). All enclosing sections then fail too, and further reads return 0.
 *
 * A sum of all bytes before it may end a record. It shows damage that no value shows.
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

/* Version of the whole state. Increase it with every change that an older reader cannot read. */
#define RECORD_VERSION 2

/* The oldest version that this reader accepts. */
#define RECORD_VERSION_OLDEST 1

/* Maximum nesting depth of sections. */
#define RECORD_DEPTH 4

/* Flag in a section's kind: readers that do not know the kind skip the section. */
#define RECORD_OPTIONAL (UINT32_C(1) << 31)

/* The section with the sum: u64 number of bytes before it, u64 their sum. Nothing follows it. */
#define RECORD_SUM (RECORD_OPTIONAL | UINT32_C(0x0001))

/* Bytes of a block. Each block has a sum. */
#define RECORD_SUM_BLOCK ((size_t)1 << 20)

/* The sum of block `number` of some bytes; only the last block is shorter than RECORD_SUM_BLOCK.
 * The sum of all bytes is the sum of their blocks' sums modulo 2^64, so several threads may share
 * the work. */
uint64_t record_sum_block(const void *block, size_t len, uint64_t number);
/* The sum of all bytes. */
uint64_t record_sum(const void *data, size_t len);

/* ---- writing --------------------------------------------------------------------------------- */

/* Large: do not put it on a thread's stack. */
struct record_writer {
    int fd;
    bool failed;
    int error;        /* errno of the failure */
    int64_t until_ns; /* later it fails with ETIMEDOUT (monotonic); the owner may set it */
    unsigned depth;   /* number of open sections */
    size_t used;      /* bytes of the buffer in use */
    uint64_t flushed; /* bytes already in the file */
    uint64_t begun[RECORD_DEPTH];
    uint8_t buffer[65536];
};

/* Writes to `fd`, a seekable file, from its beginning. */
void record_writer_init(struct record_writer *w, int fd);

/* Reserves `len` bytes, at most the buffer's size, and returns their address. NULL: failed. */
uint8_t *record_room(struct record_writer *w, size_t len);

/* Each appends one value. */
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

/* Appends a double as its 64 bits. */
void record_put_double(struct record_writer *w, double value);

/* Appends `len` bytes (up to 2^32 - 1), preceded by `len` as u32. */
void record_put_bytes(struct record_writer *w, const void *data, size_t len);
/* Appends a text like bytes, without its null byte; NULL is an empty one. */
void record_put_text(struct record_writer *w, const char *text);

/* record_begin opens a section of this kind; record_end closes the section opened last. */
void record_begin(struct record_writer *w, uint32_t kind);
void record_end(struct record_writer *w);

/* Makes the writer fail with this errno: the caller cannot write a value. */
void record_give_up(struct record_writer *w, int error);

/* Writes the start of a file: the magic bytes and RECORD_VERSION. */
void record_put_head(struct record_writer *w);

/* Writes the section RECORD_SUM, when all other sections are closed. Returns the sum. */
uint64_t record_put_sum(struct record_writer *w);

/*
 * Writes what is left in the buffer. All sections must be closed. Returns false and sets errno when
 * anything failed.
 */
bool record_finish(struct record_writer *w) MUST_USE;

/* ---- reading --------------------------------------------------------------------------------- */

struct record_reader {
    const uint8_t *data;
    size_t len, pos; /* bytes; pos <= len */
    bool failed;
    const char *why;              /* reason of the failure, for people */
    struct record_reader *parent; /* the enclosing section; NULL: this is the outermost */
    void *mapped;                 /* set by record_map */
};

/* Reads `len` bytes at `data`, which must stay valid. */
void record_reader_init(struct record_reader *r, const void *data, size_t len);

/*
 * Maps a whole file and reads it. Returns false and sets errno on failure. record_unmap undoes it.
 */
bool record_map(struct record_reader *r, int fd) MUST_USE;
void record_unmap(struct record_reader *r);

/* Makes the reader fail with this reason (a string literal), and returns false. Keeps the first
 * reason. */
bool record_refuse(struct record_reader *r, const char *why);

/* Takes the next `len` bytes; NULL: failed. */
static inline const uint8_t *record_take(struct record_reader *r, size_t len)
{
    if (unlikely(r->failed || len > r->len - r->pos)) {
        record_refuse(r, "the state is cut off");
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

/* Fails if the number is not finite. */
double record_get_double(struct record_reader *r);

/* Fails if the value is neither 0 nor 1. */
bool record_get_bool(struct record_reader *r);

/*
 * Returns the length; *data_r points into the file. On failure the length is 0 and the string
 * empty.
 */
size_t record_get_bytes(struct record_reader *r, const void **data_r);
/* Copies a text of less than `size` bytes, and a null byte. A longer one makes the reader fail with
 * `too_long`, a string literal; the text is then empty, as on any failure. */
void record_get_text(struct record_reader *r, char *to, size_t size, const char *too_long);

/*
 * Opens the next section: sets its kind and a reader for its contents. Returns false when there is
 * none or `r` has failed. `r` then stands behind the section, even if the caller reads only part of
 * it. A failure in the section makes `r` fail; do not move `r` while the section is read.
 */
bool record_enter(struct record_reader *r, uint32_t *kind_r, struct record_reader *section_r);

/* Handles a section of unknown kind: fails unless the kind has RECORD_OPTIONAL. */
void record_unknown(struct record_reader *section, uint32_t kind);

/* True when nothing has failed. There may still be unread data. */
static inline bool record_ok(const struct record_reader *r)
{
    return !r->failed;
}

/* True when there is unread data and nothing has failed. */
static inline bool record_left(const struct record_reader *r)
{
    return !r->failed && r->pos < r->len;
}

/* Call at the end of a section: fails if any of it is unread. */
void record_leave(struct record_reader *section);

/* Reads a section RECORD_SUM of `r` and returns the sum. Fails when the bytes before it have
 * another one. */
uint64_t record_get_sum(const struct record_reader *r, struct record_reader *section);

/* Reads what record_put_head wrote. Fails when the version is not supported. */
void record_get_head(struct record_reader *r);

#endif
