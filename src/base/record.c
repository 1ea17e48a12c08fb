/*
 * record.c - writes values to a memory file and reads them back (see record.h).
 *
 * A section's length is unknown when it begins. record_end fills it in: in the buffer, or in the
 * file if that part was flushed already. A number is never split between buffer and file.
 */
#include "base/record.h"

#include "base/clock.h"

#include <errno.h>
#include <math.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint8_t magic[8] = {'c', 'o', 'u', 'n', 't', 'e', 'r', 'd'};

/* ---- sums ------------------------------------------------------------------------------------ */

/* Two factors, odd and without pattern: digits of pi. */
#define SUM_ONE UINT64_C(0x243f6a8885a308d3)
#define SUM_TWO UINT64_C(0x13198a2e03707345)

static inline uint64_t word_at(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    return le64toh(word);
}

/* Both halves of the product, so that each bit depends on all. */
static inline uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t add_words(uint64_t sum, const uint8_t *at)
{
    return fold(word_at(at) ^ sum, word_at(at + 8) ^ SUM_ONE) + SUM_TWO;
}

uint64_t record_sum_block(const void *block, size_t len, uint64_t number)
{
    const uint8_t *at = block;
    uint64_t sum = SUM_TWO ^ len, other = SUM_ONE + number; /* two, for the processor to overlap */
    size_t left = len;
    for (; left >= 32; left -= 32, at += 32) {
        sum = add_words(sum, at);
        other = add_words(other, at + 16);
    }
    uint8_t rest[32] = {0};
    if (left > 0)
        memcpy(rest, at, left);
    return fold(add_words(sum, rest) ^ SUM_ONE, add_words(other, rest + 16) | 1);
}

uint64_t record_sum(const void *data, size_t len)
{
    const uint8_t *at = data;
    uint64_t sum = 0;
    for (uint64_t number = 0; len > 0; number++) {
        size_t some = len < RECORD_SUM_BLOCK ? len : RECORD_SUM_BLOCK;
        sum += record_sum_block(at, some, number);
        at += some;
        len -= some;
    }
    return sum;
}

/* ---- writing --------------------------------------------------------------------------------- */

void record_writer_init(struct record_writer *w, int fd)
{
    w->fd = fd;
    w->failed = false;
    w->error = 0;
    w->until_ns = INT64_MAX;
    w->depth = 0;
    w->used = 0;
    w->flushed = 0;
}

void record_give_up(struct record_writer *w, int error)
{
    if (!w->failed)
        w->error = error;
    w->failed = true;
}

/* Writes `len` bytes at offset `at` of the file. */
static void write_at(struct record_writer *w, const uint8_t *data, size_t len, uint64_t at)
{
    while (len > 0 && !w->failed) {
        ssize_t n = pwrite(w->fd, data, len, (off_t)at);
        if (n > 0) {
            data += n;
            len -= (size_t)n;
            at += (uint64_t)n;
        } else if (n == 0 || errno != EINTR) {
            record_give_up(w, n == 0 ? EIO : errno);
        }
    }
}

static void flush(struct record_writer *w)
{
    if (w->until_ns != INT64_MAX && clock_mono_ns() > w->until_ns)
        record_give_up(w, ETIMEDOUT);
    write_at(w, w->buffer, w->used, w->flushed);
    w->flushed += w->used;
    w->used = 0;
}

uint8_t *record_room(struct record_writer *w, size_t len)
{
    CHECK(len <= sizeof(w->buffer));
    if (len > sizeof(w->buffer) - w->used)
        flush(w);
    if (w->failed)
        return NULL;
    w->used += len;
    return w->buffer + (w->used - len);
}

void record_put_double(struct record_writer *w, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    record_put_u64(w, bits);
}

void record_put_bytes(struct record_writer *w, const void *data, size_t len)
{
    CHECK(len <= UINT32_MAX);
    record_put_u32(w, (uint32_t)len);
    for (const uint8_t *from = data; len > 0;) {
        size_t some = len < sizeof(w->buffer) ? len : sizeof(w->buffer);
        uint8_t *to = record_room(w, some);
        if (!to)
            return;
        memcpy(to, from, some);
        from += some;
        len -= some;
    }
}

void record_put_text(struct record_writer *w, const char *text)
{
    record_put_bytes(w, text, text ? strlen(text) : 0);
}

void record_begin(struct record_writer *w, uint32_t kind)
{
    CHECK(w->depth < RECORD_DEPTH);
    record_put_u32(w, kind);
    w->begun[w->depth++] = w->flushed + w->used;
    record_put_u64(w, 0);
}

void record_end(struct record_writer *w)
{
    CHECK(w->depth > 0);
    uint64_t at = w->begun[--w->depth];
    uint64_t len = htole64(w->flushed + w->used - at - sizeof(len));
    if (w->failed)
        return;
    if (at >= w->flushed)
        memcpy(w->buffer + (at - w->flushed), &len, sizeof(len));
    else
        write_at(w, (const uint8_t *)&len, sizeof(len), at);
}

void record_put_head(struct record_writer *w)
{
    uint8_t *to = record_room(w, sizeof(magic));
    if (to)
        memcpy(to, magic, sizeof(magic));
    record_put_u32(w, RECORD_VERSION);
}

uint64_t record_put_sum(struct record_writer *w)
{
    uint64_t sum = 0;
    CHECK(w->depth == 0);
    flush(w);
    if (!w->failed) {
        size_t len = (size_t)w->flushed;
        void *data = mmap(NULL, len, PROT_READ, MAP_SHARED | MAP_POPULATE, w->fd, 0);
        if (data == MAP_FAILED) {
            record_give_up(w, errno);
        } else {
            sum = record_sum(data, len);
            CHECK(munmap(data, len) == 0);
        }
    }
    uint64_t before = w->flushed;
    record_begin(w, RECORD_SUM);
    record_put_u64(w, before);
    record_put_u64(w, sum);
    record_end(w);
    return sum;
}

bool record_finish(struct record_writer *w)
{
    CHECK(w->depth == 0);
    flush(w);
    if (w->failed)
        errno = w->error;
    return !w->failed;
}

/* ---- reading --------------------------------------------------------------------------------- */

void record_reader_init(struct record_reader *r, const void *data, size_t len)
{
    *r = (struct record_reader){.data = data, .len = len};
}

bool record_map(struct record_reader *r, int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return false;
    if (st.st_size <= 0) {
        record_reader_init(r, NULL, 0);
        return true;
    }
    void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return false;
    record_reader_init(r, data, (size_t)st.st_size);
    r->mapped = data;
    return true;
}

void record_unmap(struct record_reader *r)
{
    if (r->mapped)
        CHECK(munmap(r->mapped, r->len) == 0);
    record_reader_init(r, NULL, 0);
}

bool record_refuse(struct record_reader *r, const char *why)
{
    for (; r && !r->failed; r = r->parent) {
        r->failed = true;
        r->why = why;
    }
    return false;
}

double record_get_double(struct record_reader *r)
{
    uint64_t bits = record_get_u64(r);
    double value;
    memcpy(&value, &bits, sizeof(value));
    if (isfinite(value))
        return value;
    record_refuse(r, "a number is not finite");
    return 0;
}

bool record_get_bool(struct record_reader *r)
{
    uint8_t value = record_get_u8(r);
    if (value > 1)
        record_refuse(r, "a boolean is neither 0 nor 1");
    return value == 1;
}

size_t record_get_bytes(struct record_reader *r, const void **data_r)
{
    size_t len = record_get_u32(r);
    const uint8_t *data = record_take(r, len);
    *data_r = data ? (const void *)data : "";
    return data ? len : 0;
}

void record_get_text(struct record_reader *r, char *to, size_t size, const char *too_long)
{
    const void *text;
    size_t len = record_get_bytes(r, &text);
    if (len >= size || (len > 0 && memchr(text, 0, len))) {
        record_refuse(r, too_long);
        len = 0;
    }
    memcpy(to, text, len);
    to[len] = '\0';
}

bool record_enter(struct record_reader *r, uint32_t *kind_r, struct record_reader *section_r)
{
    if (!record_left(r))
        return false;
    uint32_t kind = record_get_u32(r);
    uint64_t len = record_get_u64(r);
    const uint8_t *data = record_take(r, len);
    if (!data)
        return false;
    record_reader_init(section_r, data, len);
    section_r->parent = r;
    *kind_r = kind;
    return true;
}

void record_unknown(struct record_reader *section, uint32_t kind)
{
    if (!(kind & RECORD_OPTIONAL))
        record_refuse(section, "a section has an unknown kind");
}

void record_leave(struct record_reader *section)
{
    if (record_left(section))
        record_refuse(section, "a section has extra bytes");
}

uint64_t record_get_sum(const struct record_reader *r, struct record_reader *section)
{
    uint64_t len = record_get_u64(section), sum = record_get_u64(section);
    record_leave(section);
    if (record_ok(section) && (len > r->len || record_sum(r->data, (size_t)len) != sum))
        record_refuse(section, "its bytes have another sum than when it was written");
    return record_ok(section) ? sum : 0;
}

void record_get_head(struct record_reader *r)
{
    const uint8_t *at = record_take(r, sizeof(magic));
    if (at && memcmp(at, magic, sizeof(magic)) != 0)
        record_refuse(r, "it is not a state of counterd");
    uint32_t version = record_get_u32(r);
    if (record_ok(r) && version > RECORD_VERSION)
        record_refuse(r, "the state has a newer version");
    if (record_ok(r) && version < RECORD_VERSION_OLDEST)
        record_refuse(r, "the state has an older version");
}
