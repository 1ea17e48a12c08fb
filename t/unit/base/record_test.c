/* record_test.c - a record reads back as it was written; sums show damage. */
#include "base/record.h"

#include "t/unit/random.h"
#include "t/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { KIND_ONE = 0x7001, KIND_TWO, KIND_EXTRA };

static struct record_writer writer;

static int begin(void)
{
    int fd = memfd_create("record", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_ge(fd, 0);
    record_writer_init(&writer, fd);
    return fd;
}

/* Finishes the record and opens it for reading. */
static struct record_reader turn_round(int fd)
{
    struct record_reader r;
    ck_assert(record_finish(&writer));
    ck_assert(record_map(&r, fd));
    close(fd);
    return r;
}

TEST(values_come_back)
{
    int fd = begin();
    record_put_u8(&writer, 0xfe);
    record_put_u16(&writer, 0xfedc);
    record_put_u32(&writer, 0xfedcba98);
    record_put_u64(&writer, UINT64_C(0xfedcba9876543210));
    record_put_i64(&writer, INT64_MIN);
    record_put_double(&writer, -0.125);
    record_put_bytes(&writer, "abc", 3);
    record_put_bytes(&writer, NULL, 0);
    struct record_reader r = turn_round(fd);
    const uint8_t first[] = {0xfe, 0xdc, 0xfe, 0x98, 0xba, 0xdc, 0xfe, 0x10};
    ck_assert_mem_eq(r.data, first, sizeof(first));
    ck_assert_uint_eq(record_get_u8(&r), 0xfe);
    ck_assert_uint_eq(record_get_u16(&r), 0xfedc);
    ck_assert_uint_eq(record_get_u32(&r), 0xfedcba98);
    ck_assert_uint_eq(record_get_u64(&r), UINT64_C(0xfedcba9876543210));
    ck_assert_int_eq(record_get_i64(&r), INT64_MIN);
    ck_assert_double_eq(record_get_double(&r), -0.125);
    const void *data;
    ck_assert_uint_eq(record_get_bytes(&r, &data), 3);
    ck_assert_mem_eq(data, "abc", 3);
    ck_assert_uint_eq(record_get_bytes(&r, &data), 0);
    ck_assert(record_ok(&r) && !record_left(&r));
    ck_assert_uint_eq(record_get_u8(&r), 0);
    ck_assert(!record_ok(&r));
    ck_assert_str_eq(r.why, "the state is cut off");
    record_unmap(&r);
}

/* A length is filled in wherever its section began: still in the buffer, or already in the file. */
TEST(sections_of_all_lengths)
{
    static uint8_t filling[200000];
    for (size_t i = 0; i < sizeof(filling); i++)
        filling[i] = (uint8_t)(i * 7);
    const size_t lengths[] = {0, 1, 65519, 65520, 65521, 65530, 65536, 70000, sizeof(filling)};
    int fd = begin();
    record_put_head(&writer);
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
        record_begin(&writer, KIND_ONE);
        record_begin(&writer, KIND_TWO);
        record_put_bytes(&writer, filling, lengths[i]);
        record_end(&writer);
        record_put_u32(&writer, (uint32_t)i);
        record_end(&writer);
    }
    struct record_reader r = turn_round(fd), one, two;
    record_get_head(&r);
    uint32_t kind;
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
        ck_assert(record_enter(&r, &kind, &one) && kind == KIND_ONE);
        ck_assert(record_enter(&one, &kind, &two) && kind == KIND_TWO);
        const void *data;
        ck_assert_uint_eq(record_get_bytes(&two, &data), lengths[i]);
        ck_assert_mem_eq(data, filling, lengths[i]);
        record_leave(&two);
        ck_assert_uint_eq(record_get_u32(&one), i);
        record_leave(&one);
    }
    ck_assert(!record_enter(&r, &kind, &one));
    ck_assert(record_ok(&r));
    record_unmap(&r);
}

TEST(a_section_that_fails_fails_the_whole)
{
    int fd = begin();
    record_begin(&writer, KIND_ONE);
    record_begin(&writer, KIND_TWO);
    record_put_u8(&writer, 2);
    record_put_u8(&writer, 3);
    record_end(&writer);
    record_end(&writer);
    struct record_reader whole = turn_round(fd);
    for (unsigned how = 0; how < 5; how++) {
        struct record_reader r = whole, one, two;
        uint32_t kind;
        ck_assert(record_enter(&r, &kind, &one));
        ck_assert(record_enter(&one, &kind, &two));
        switch (how) {
        case 0: /* beyond the section's end, although the file goes on */
            (void)record_get_u32(&two);
            ck_assert_str_eq(r.why, "the state is cut off");
            break;
        case 1:
            ck_assert(!record_get_bool(&two));
            ck_assert_str_eq(r.why, "a boolean is neither 0 nor 1");
            break;
        case 2:
            (void)record_get_u8(&two);
            record_leave(&two);
            ck_assert_str_eq(r.why, "a section has extra bytes");
            break;
        case 3:
            record_refuse(&two, "so");
            record_refuse(&two, "or so");
            ck_assert_str_eq(r.why, "so");
            break;
        default:
            record_unknown(&two, kind | RECORD_OPTIONAL);
            ck_assert(record_ok(&two) && record_ok(&r));
            record_unknown(&two, kind);
        }
        ck_assert(!record_ok(&two) && !record_ok(&one) && !record_ok(&r));
        ck_assert(!record_enter(&r, &kind, &one));
        ck_assert_uint_eq(record_get_u64(&r), 0);
        const void *data;
        ck_assert_uint_eq(record_get_bytes(&r, &data), 0);
        ck_assert_ptr_nonnull(data);
    }
    record_unmap(&whole);
}

/* What is wrong with a head; NULL: nothing. */
static const char *why_of(const uint8_t *head, size_t len)
{
    struct record_reader r;
    record_reader_init(&r, head, len);
    record_get_head(&r);
    return record_ok(&r) ? NULL : r.why;
}

TEST(heads)
{
    int fd = begin();
    record_put_head(&writer);
    struct record_reader whole = turn_round(fd);
    uint8_t head[12];
    ck_assert_uint_eq(whole.len, sizeof(head));
    memcpy(head, whole.data, sizeof(head));
    record_unmap(&whole);
    for (size_t len = 0; len <= sizeof(head); len++)
        ck_assert(!why_of(head, len) == (len == sizeof(head)));
    head[8] = RECORD_VERSION + 1;
    ck_assert_str_eq(why_of(head, sizeof(head)), "the state has a newer version");
    for (unsigned version = RECORD_VERSION; version >= RECORD_VERSION_OLDEST; version--) {
        head[8] = (uint8_t)version;
        ck_assert_ptr_null(why_of(head, sizeof(head)));
    }
    head[8] = RECORD_VERSION_OLDEST - 1;
    ck_assert_str_eq(why_of(head, sizeof(head)), "the state has an older version");
    head[0] = 'x';
    ck_assert_str_eq(why_of(head, sizeof(head)), "it is not a state of counterd");
}

TEST(what_can_not_be_written_is_said)
{
    int fd = begin();
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
    record_begin(&writer, KIND_ONE);
    for (unsigned i = 0; i < 100000; i++)
        record_put_u64(&writer, i);
    record_put_bytes(&writer, "abc", 3);
    record_end(&writer);
    errno = 0;
    ck_assert(!record_finish(&writer));
    ck_assert_int_eq(errno, EPERM);
    record_give_up(&writer, EBUSY);
    ck_assert(!record_finish(&writer));
    ck_assert_int_eq(errno, EPERM); /* the first error stays */
    close(fd);
    fd = begin();
    record_give_up(&writer, EBUSY);
    record_put_u8(&writer, 1);
    ck_assert(!record_finish(&writer));
    ck_assert_int_eq(errno, EBUSY);
    close(fd);
}

TEST(a_record_that_is_written_for_too_long_fails)
{
    int fd = begin();
    writer.until_ns = 1; /* has passed */
    for (size_t i = 0; i < sizeof(writer.buffer); i++)
        record_put_u8(&writer, 1);
    ck_assert(!writer.failed);
    record_put_u8(&writer, 1);
    ck_assert(writer.failed);
    errno = 0;
    ck_assert(!record_finish(&writer));
    ck_assert_int_eq(errno, ETIMEDOUT);
    close(fd);
}

/* Writes a record with a sum over `len` bytes of random contents. */
static int begin_with_sum(struct rng *rng, size_t len, uint64_t *sum_r)
{
    int fd = begin();
    record_put_head(&writer);
    record_begin(&writer, KIND_ONE);
    for (size_t i = 0; i < len; i++)
        record_put_u8(&writer, (uint8_t)rng_next(rng));
    record_end(&writer);
    *sum_r = record_put_sum(&writer);
    return fd;
}

/* Reads such a record. Returns the sum; 0: there is none, or another one. */
static uint64_t read_sum(struct record_reader r)
{
    struct record_reader section;
    uint32_t kind;
    uint64_t sum = 0;
    record_get_head(&r);
    while (record_enter(&r, &kind, &section)) {
        ck_assert_uint_eq(sum, 0);
        if (kind == RECORD_SUM)
            sum = record_get_sum(&r, &section);
    }
    return record_ok(&r) ? sum : 0;
}

TEST(a_sum_shows_any_damage)
{
    struct rng rng = rng_start("sums", random_seed());
    for (size_t len = 0; len < 70; len++) {
        uint64_t sum;
        struct record_reader r = turn_round(begin_with_sum(&rng, len, &sum));
        uint8_t *copy = malloc(r.len);
        ck_assert(copy != NULL);
        ck_assert(sum != 0 && read_sum(r) == sum);
        for (size_t bit = 0; bit < r.len * 8; bit++) {
            struct record_reader damaged;
            memcpy(copy, r.data, r.len);
            copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
            record_reader_init(&damaged, copy, r.len);
            ck_assert_msg(read_sum(damaged) != sum, "length %zu, bit %zu", len, bit);
        }
        free(copy);
        record_unmap(&r);
    }
}

TEST(a_sum_is_that_of_the_blocks)
{
    static uint8_t data[3 * RECORD_SUM_BLOCK];
    const size_t lens[] = {
        0, 1, RECORD_SUM_BLOCK - 1, RECORD_SUM_BLOCK, RECORD_SUM_BLOCK + 1, sizeof(data)};
    for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
        uint64_t sum = 0;
        for (uint64_t at = 0; at < lens[i]; at += RECORD_SUM_BLOCK) {
            size_t some = lens[i] - at < RECORD_SUM_BLOCK ? lens[i] - at : RECORD_SUM_BLOCK;
            sum += record_sum_block(data + at, some, at / RECORD_SUM_BLOCK);
        }
        ck_assert_uint_eq(record_sum(data, lens[i]), sum);
    }
    /* Equal blocks that change places have another sum; so have zeros that are one more. */
    uint64_t before = record_sum(data, sizeof(data));
    data[0] = 1;
    uint64_t first = record_sum(data, sizeof(data));
    data[0] = 0;
    data[RECORD_SUM_BLOCK] = 1;
    ck_assert(first != before && record_sum(data, sizeof(data)) != first);
    ck_assert(record_sum(data + 1, 7) != record_sum(data + 1, 8));
}

UNIT_MAIN("record")
