/*
 * counter_test.c - the binary counter protocol, both directions.
 *
 * The bytes come from the published layouts, not from the codec. Every message is passed at every
 * split, each prefix in a buffer of exactly its size, so that a sanitizer sees a read past the end.
 */
#include "proto/counter.h"
#include "t/unit/unit.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Like ck_assert, but silent on success: for loops that run a million times. */
#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s", #condition);                                                        \
    } while (0)

/* ---- Helpers -------------------------------------------------------------------------------- */

static const uint8_t some_opaque[4] = {0xde, 0xad, 0x00, 0xff};

/* A buffer of exactly `len` bytes, which the caller frees; NULL for none. */
static uint8_t *exact_room(size_t len)
{
    uint8_t *room = len > 0 ? malloc(len) : NULL;
    REQUIRE(room || len == 0);
    return room;
}

/* A copy of `data` in a buffer of exactly its size, which the caller frees. */
static uint8_t *exact_copy(const void *data, size_t len)
{
    uint8_t *copy = exact_room(len);
    if (copy)
        memcpy(copy, data, len);
    return copy;
}

static uint64_t random_next(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static size_t random_below(uint64_t *state, size_t bound)
{
    return (size_t)(random_next(state) % bound);
}

static bool same_request(const struct ctr_request *a, const struct ctr_request *b)
{
    return a->opcode == b->opcode && memcmp(a->opaque, b->opaque, 4) == 0 && a->units == b->units &&
           a->maximum == b->maximum && bytes_equal(a->name, b->name);
}

static struct ctr_request request_of(uint8_t opcode, uint32_t units, uint32_t maximum,
                                     struct bytes name)
{
    struct ctr_request req = {.opcode = opcode, .units = units, .maximum = maximum, .name = name};
    memcpy(req.opaque, some_opaque, 4);
    return req;
}

/* The longest valid name, made of random bytes. */
static struct bytes longest_name(void)
{
    static uint8_t name[CTR_NAME_MAX];
    uint64_t seed = 65535;
    for (size_t i = 0; i < sizeof(name); i++)
        name[i] = (uint8_t)random_next(&seed);
    return (struct bytes){.data = name, .len = sizeof(name)};
}

/* True if a prefix of `n` bytes gets its own buffer: every prefix of a short message. */
static bool is_worth_a_copy(size_t n)
{
    return n < 256 || n % 4099 == 0;
}

/*
 * Parses the request in `data`. Every prefix must need more and report how long the request is
 * at least. Bytes behind the request must not change the result.
 */
static enum ctr_parsed read_request_at_every_split(const uint8_t *data, size_t len,
                                                   struct ctr_request *req)
{
    size_t used = 77;
    struct ctr_request other;
    for (size_t n = 0; n < len; n++) {
        uint8_t *part = is_worth_a_copy(n) ? exact_copy(data, n) : NULL;
        REQUIRE(ctr_parse_request(part ? part : data, n, &other, &used) == CTR_MORE);
        REQUIRE(used == (n < CTR_HEADER ? CTR_HEADER : len));
        free(part);
    }
    uint8_t *longer = malloc(len + 1);
    REQUIRE(longer);
    memcpy(longer, data, len);
    longer[len] = CTR_MAGIC_REQUEST;
    enum ctr_parsed with_more = ctr_parse_request(longer, len + 1, &other, &used);
    REQUIRE(used == len);

    uint8_t *exact = exact_copy(data, len);
    memset(req, 0xee, sizeof(*req));
    enum ctr_parsed parsed = ctr_parse_request(exact, len, req, &used);
    REQUIRE(parsed == with_more);
    REQUIRE(used == len);
    REQUIRE(same_request(req, &other));
    free(exact);
    free(longer);
    /* The result must point into memory that is still valid. */
    (void)ctr_parse_request(data, len, req, &used);
    return parsed;
}

/*
 * Checks that `req` is composed to these bytes and parsed from them, and that it needs exactly this
 * much room.
 */
static void check_request(const struct ctr_request *req, const uint8_t *expected, size_t len)
{
    struct ctr_request read;
    ck_assert_int_eq(read_request_at_every_split(expected, len, &read), CTR_OK);
    ck_assert(same_request(&read, req));
    for (size_t room = 0; room <= len; room++) {
        if (room < len && !is_worth_a_copy(room))
            continue;
        uint8_t *to = exact_room(room);
        REQUIRE(ctr_compose_request(req, to, room) == (room == len ? len : 0));
        REQUIRE(room < len || memcmp(to, expected, len) == 0);
        free(to);
    }
}

/* A request with any body, also an invalid one; in static memory. */
static struct bytes raw_request(uint8_t opcode, const void *body, size_t body_len)
{
    static uint8_t raw[CTR_HEADER + CTR_BODY_MAX + 1];
    REQUIRE(body_len <= CTR_BODY_MAX + 1);
    memset(raw, 0, CTR_HEADER);
    raw[0] = 0x90;
    raw[1] = opcode;
    raw[5] = (uint8_t)(body_len >> 16);
    raw[6] = (uint8_t)(body_len >> 8);
    raw[7] = (uint8_t)body_len;
    memcpy(raw + 8, some_opaque, 4);
    if (body_len > 0)
        memcpy(raw + CTR_HEADER, body, body_len);
    return (struct bytes){.data = raw, .len = CTR_HEADER + body_len};
}

/*
 * Checks the result. Opcode and opaque must be set, so that the server can answer, and nothing
 * else.
 */
static void check_refused(uint8_t opcode, const void *body, size_t body_len,
                          enum ctr_parsed expected)
{
    struct bytes raw = raw_request(opcode, body, body_len);
    struct ctr_request req;
    ck_assert_int_eq(read_request_at_every_split(raw.data, raw.len, &req), expected);
    struct ctr_request bare = request_of(opcode, 0, 0, (struct bytes){0});
    ck_assert(same_request(&req, &bare));
}

static struct ctr_request read_ok(uint8_t opcode, const void *body, size_t body_len)
{
    struct bytes raw = raw_request(opcode, body, body_len);
    struct ctr_request req;
    ck_assert_int_eq(read_request_at_every_split(raw.data, raw.len, &req), CTR_OK);
    ck_assert_uint_eq(req.opcode, opcode);
    ck_assert(memcmp(req.opaque, some_opaque, 4) == 0);
    return req;
}

/* ---- Requests ------------------------------------------------------------------------------- */

TEST(requests_without_a_body_are_a_header)
{
    static const uint8_t opcodes[] = {0x00, 0x10, 0x11};
    for (size_t i = 0; i < sizeof(opcodes); i++) {
        const uint8_t bytes[] = {0x90, opcodes[i], 0, 0, 0, 0, 0, 0, 0xde, 0xad, 0x00, 0xff};
        struct ctr_request req = request_of(opcodes[i], 0, 0, (struct bytes){0});
        check_request(&req, bytes, sizeof(bytes));
    }
}

TEST(get_is_a_name)
{
    static const uint8_t bytes[] = {0x90, 0x01, 0,    0, 0, 0,   0,   5,   0xde,
                                    0xad, 0x00, 0xff, 0, 3, 'a', 'b', 0xc3};
    struct ctr_request req = request_of(CTR_GET, 0, 0, bytes_of("ab\xc3"));
    check_request(&req, bytes, sizeof(bytes));
}

TEST(acquire_is_units_maximum_and_name)
{
    static const uint8_t bytes[] = {0x90, 0x02, 0, 0, 0, 0,    0,    11,   0xde, 0xad, 0x00, 0xff,
                                    0x01, 0x02, 3, 4, 5, 0x06, 0x07, 0x08, 0,    1,    'n'};
    struct ctr_request req = request_of(CTR_ACQUIRE, 0x01020304, 0x05060708, bytes_of("n"));
    check_request(&req, bytes, sizeof(bytes));
}

TEST(release_is_units_and_name)
{
    static const uint8_t bytes[] = {0x90, 0x03, 0,    0,    0,    0,    0, 8, 0xde, 0xad,
                                    0x00, 0xff, 0xfe, 0xdc, 0xba, 0x98, 0, 2, 0,    '\n'};
    struct ctr_request req =
        request_of(CTR_RELEASE, 0xfedcba98, 0, (struct bytes){.data = bytes + 18, .len = 2});
    check_request(&req, bytes, sizeof(bytes));
}

TEST(names_reach_65535_bytes_of_any_value)
{
    struct bytes name = longest_name();
    static uint8_t bytes[CTR_HEADER + CTR_BODY_MAX];

    static const uint8_t acquire[] = {0x90, 0x02, 0, 0, 0, 1, 0, 9, 0xde, 0xad, 0x00,
                                      0xff, 0,    0, 0, 1, 0, 0, 0, 2,    0xff, 0xff};
    memcpy(bytes, acquire, sizeof(acquire));
    memcpy(bytes + sizeof(acquire), name.data, name.len);
    ck_assert_uint_eq(sizeof(acquire) + name.len, CTR_HEADER + 65545);
    struct ctr_request req = request_of(CTR_ACQUIRE, 1, 2, name);
    check_request(&req, bytes, sizeof(acquire) + name.len);

    static const uint8_t release[] = {0x90, 0x03, 0,    0, 0, 1, 0, 5,    0xde,
                                      0xad, 0x00, 0xff, 0, 0, 0, 9, 0xff, 0xff};
    memcpy(bytes, release, sizeof(release));
    memcpy(bytes + sizeof(release), name.data, name.len);
    req = request_of(CTR_RELEASE, 9, 0, name);
    check_request(&req, bytes, sizeof(release) + name.len);

    static const uint8_t get[] = {0x90, 0x01, 0, 0, 0, 1, 0, 1, 0xde, 0xad, 0x00, 0xff, 0xff, 0xff};
    memcpy(bytes, get, sizeof(get));
    memcpy(bytes + sizeof(get), name.data, name.len);
    req = request_of(CTR_GET, 0, 0, name);
    check_request(&req, bytes, sizeof(get) + name.len);
}

TEST(a_longer_name_or_an_unknown_opcode_is_not_composed)
{
    static uint8_t to[CTR_HEADER + CTR_BODY_MAX + 10];
    struct bytes name = longest_name();
    name.len++;
    static const uint8_t named[] = {CTR_GET, CTR_ACQUIRE, CTR_RELEASE};
    for (size_t i = 0; i < sizeof(named); i++) {
        struct ctr_request req = request_of(named[i], 1, 1, name);
        ck_assert_uint_eq(ctr_compose_request(&req, to, sizeof(to)), 0);
        req.name.len = SIZE_MAX;
        ck_assert_uint_eq(ctr_compose_request(&req, to, sizeof(to)), 0);
    }
    struct ctr_request req = request_of(0x04, 1, 1, bytes_of("n"));
    ck_assert_uint_eq(ctr_compose_request(&req, to, sizeof(to)), 0);
}

TEST(fields_an_opcode_does_not_have_are_not_composed)
{
    static const uint8_t noop[] = {0x90, 0, 0, 0, 0, 0, 0, 0, 0xde, 0xad, 0x00, 0xff};
    uint8_t to[64];
    struct ctr_request req = request_of(CTR_NOOP, 1, 2, bytes_of("name"));
    ck_assert_uint_eq(ctr_compose_request(&req, to, sizeof(to)), sizeof(noop));
    ck_assert(memcmp(to, noop, sizeof(noop)) == 0);
    req.opcode = CTR_GET;
    ck_assert_uint_eq(ctr_compose_request(&req, to, sizeof(to)), 18);
    req.opcode = CTR_RELEASE;
    ck_assert_uint_eq(ctr_compose_request(&req, to, sizeof(to)), 22);
}

TEST(wrong_arguments_can_be_composed_for_a_server_to_refuse)
{
    uint8_t to[64];
    struct ctr_request req = request_of(CTR_ACQUIRE, 0, 0, (struct bytes){0});
    size_t used = 77;
    ck_assert_uint_eq(ctr_compose_request(&req, to, sizeof(to)), 22);
    ck_assert_int_eq(ctr_parse_request(to, 22, &req, &used), CTR_BAD_ARGS);
    ck_assert_uint_eq(used, 22);
}

TEST(flags_and_reserved_are_ignored)
{
    static const uint8_t bytes[] = {0x90, 0x01, 0xff, 0xee, 0, 0, 0,  3,
                                    0xde, 0xad, 0x00, 0xff, 0, 1, 'n'};
    struct ctr_request req;
    struct ctr_request expected = request_of(CTR_GET, 0, 0, bytes_of("n"));
    ck_assert_int_eq(read_request_at_every_split(bytes, sizeof(bytes), &req), CTR_OK);
    ck_assert(same_request(&req, &expected));
}

TEST(a_body_nobody_asked_for_is_accepted)
{
    static const uint8_t opcodes[] = {CTR_NOOP, CTR_STATS, CTR_DUMP};
    static uint8_t body[CTR_BODY_MAX];
    for (size_t i = 0; i < sizeof(opcodes); i++) {
        struct ctr_request bare = request_of(opcodes[i], 0, 0, (struct bytes){0});
        struct ctr_request req = read_ok(opcodes[i], "x", 1);
        ck_assert(same_request(&req, &bare));
        req = read_ok(opcodes[i], body, sizeof(body));
        ck_assert(same_request(&req, &bare));
    }
}

TEST(bytes_after_the_name_are_accepted)
{
    ck_assert(bytes_equal(read_ok(CTR_GET, "\0\1nX", 4).name, bytes_of("n")));
    ck_assert(bytes_equal(read_ok(CTR_RELEASE, "\0\0\0\1\0\1nXYZ", 10).name, bytes_of("n")));
    struct ctr_request req = read_ok(CTR_ACQUIRE, "\0\0\0\1\0\0\0\1\0\1nX", 12);
    ck_assert(bytes_equal(req.name, bytes_of("n")));

    /* The longest body: a Get with the longest name and 8 more bytes. */
    static uint8_t body[CTR_BODY_MAX] = {0xff, 0xff};
    req = read_ok(CTR_GET, body, sizeof(body));
    ck_assert_uint_eq(req.name.len, CTR_NAME_MAX);
}

TEST(an_empty_name_is_a_bad_argument)
{
    check_refused(CTR_GET, "\0\0", 2, CTR_BAD_ARGS);
    check_refused(CTR_GET, "\0\0n", 3, CTR_BAD_ARGS);
    check_refused(CTR_ACQUIRE, "\0\0\0\1\0\0\0\1\0\0", 10, CTR_BAD_ARGS);
    check_refused(CTR_RELEASE, "\0\0\0\1\0\0", 6, CTR_BAD_ARGS);
}

TEST(a_body_too_short_for_its_fields_or_name_is_a_bad_argument)
{
    static const struct {
        uint8_t opcode;
        struct bytes body;
    } rows[] = {
        {CTR_GET, {.data = (const uint8_t *)"\0\2no", .len = 4}},
        {CTR_ACQUIRE, {.data = (const uint8_t *)"\0\0\0\1\0\0\0\1\0\2no", .len = 12}},
        {CTR_RELEASE, {.data = (const uint8_t *)"\0\0\0\1\0\2no", .len = 8}},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct bytes body = rows[i].body;
        ck_assert(bytes_equal(read_ok(rows[i].opcode, body.data, body.len).name, bytes_of("no")));
        while (body.len-- > 0)
            check_refused(rows[i].opcode, body.data, body.len, CTR_BAD_ARGS);
    }
    check_refused(CTR_GET, "\xff\xffname", 6, CTR_BAD_ARGS);

    /* A name that ends one byte behind the longest body. */
    static uint8_t body[CTR_BODY_MAX] = {0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0xff};
    check_refused(CTR_ACQUIRE, body, sizeof(body) - 1, CTR_BAD_ARGS);
}

TEST(units_of_acquire_are_from_1_to_the_maximum)
{
    static const struct {
        uint32_t units;
        uint32_t maximum;
        enum ctr_parsed parsed;
    } rows[] = {
        {1, 1, CTR_OK},
        {1, UINT32_MAX, CTR_OK},
        {UINT32_MAX, UINT32_MAX, CTR_OK},
        {0x7fffffff, 0x80000000, CTR_OK},
        {0, 0, CTR_BAD_ARGS},
        {0, 1, CTR_BAD_ARGS},
        {0, UINT32_MAX, CTR_BAD_ARGS},
        {1, 0, CTR_BAD_ARGS},
        {2, 1, CTR_BAD_ARGS},
        {UINT32_MAX, UINT32_MAX - 1, CTR_BAD_ARGS},
        {UINT32_MAX, 0, CTR_BAD_ARGS},
        {0x80000000, 0x7fffffff, CTR_BAD_ARGS},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint8_t body[11] = {0};
        (void)wire_store_u32(body, rows[i].units);
        (void)wire_store_u32(body + 4, rows[i].maximum);
        body[9] = 1;
        body[10] = 'n';
        if (rows[i].parsed != CTR_OK) {
            check_refused(CTR_ACQUIRE, body, sizeof(body), rows[i].parsed);
            continue;
        }
        struct ctr_request req = read_ok(CTR_ACQUIRE, body, sizeof(body));
        ck_assert_uint_eq(req.units, rows[i].units);
        ck_assert_uint_eq(req.maximum, rows[i].maximum);
    }
}

TEST(units_of_release_may_be_anything)
{
    ck_assert_uint_eq(read_ok(CTR_RELEASE, "\0\0\0\0\0\1n", 7).units, 0);
    ck_assert_uint_eq(read_ok(CTR_RELEASE, "\xff\xff\xff\xff\0\1n", 7).units, UINT32_MAX);
}

TEST(every_other_opcode_is_unknown_and_told_when_its_request_is_whole)
{
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        if (opcode <= 3 || opcode == 0x10 || opcode == 0x11)
            continue;
        check_refused((uint8_t)opcode, NULL, 0, CTR_UNKNOWN);
        check_refused((uint8_t)opcode, "\0\0\0\1\0\1nX", 8, CTR_UNKNOWN);
    }
}

TEST(a_body_of_65545_bytes_is_the_longest)
{
    static uint8_t body[CTR_BODY_MAX + 1];
    struct ctr_request req = read_ok(CTR_NOOP, body, CTR_BODY_MAX);
    struct bytes raw = raw_request(CTR_ACQUIRE, body, CTR_BODY_MAX + 1);
    struct ctr_request bare = request_of(CTR_ACQUIRE, 0, 0, (struct bytes){0});
    size_t used = 77;
    for (size_t n = 0; n <= raw.len; n++) {
        if (!is_worth_a_copy(n) && n != raw.len)
            continue;
        uint8_t *part = exact_copy(raw.data, n);
        enum ctr_parsed parsed = ctr_parse_request(part, n, &req, &used);
        free(part);
        REQUIRE(parsed == (n < CTR_HEADER ? CTR_MORE : CTR_TOO_LONG));
        REQUIRE(used == (n < CTR_HEADER ? CTR_HEADER : 0));
        REQUIRE(n < CTR_HEADER || same_request(&req, &bare));
    }
}

TEST(a_body_as_long_as_32_bits_say_is_refused_from_the_header)
{
    static const uint8_t lengths[][4] = {
        {0xff, 0xff, 0xff, 0xff}, {0xff, 0xff, 0xff, 0xf4}, {0x80, 0, 0, 0}, {1, 0, 0, 0}};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        uint8_t header[12] = {0x90, 0x77, 0, 0, 0, 0, 0, 0, 0xde, 0xad, 0x00, 0xff};
        memcpy(header + 4, lengths[i], 4);
        struct ctr_request bare = request_of(0x77, 0, 0, (struct bytes){0});
        struct ctr_request req;
        size_t used = 77;
        ck_assert_int_eq(ctr_parse_request(header, 11, &req, &used), CTR_MORE);
        ck_assert_int_eq(ctr_parse_request(header, 12, &req, &used), CTR_TOO_LONG);
        ck_assert_uint_eq(used, 0);
        ck_assert(same_request(&req, &bare));
    }
}

TEST(another_first_byte_is_refused_at_once_with_what_has_arrived)
{
    for (unsigned first = 0; first < 256; first++) {
        if (first == CTR_MAGIC_REQUEST)
            continue;
        const uint8_t bytes[] = {(uint8_t)first, 0x55, 1, 2, 3, 4, 5, 6, 0xde, 0xad, 0x01, 0xff, 9};
        for (size_t n = 1; n <= sizeof(bytes); n++) {
            struct ctr_request expected = {.opcode = n > 1 ? 0x55 : 0};
            for (size_t k = 8; k < 12 && k < n; k++)
                expected.opaque[k - 8] = bytes[k];
            struct ctr_request req;
            size_t used = 77;
            uint8_t *part = exact_copy(bytes, n);
            memset(&req, 0xee, sizeof(req));
            REQUIRE(ctr_parse_request(part, n, &req, &used) == CTR_BAD_MAGIC);
            free(part);
            REQUIRE(used == 0);
            REQUIRE(same_request(&req, &expected));
        }
    }
}

TEST(several_requests_in_one_buffer_are_read_one_by_one)
{
    static const uint8_t bytes[] = {
        0x90, 0x00, 0, 0, 0, 0, 0, 0,  0, 0, 0, 1,            /* Noop */
        0x90, 0x01, 0, 0, 0, 0, 0, 3,  0, 0, 0, 2, 0, 1, 'n', /* Get */
        0x90, 0x7f, 0, 0, 0, 0, 0, 2,  0, 0, 0, 3, 0, 1,      /* unknown */
        0x90, 0x03, 0, 0, 0, 0, 0, 1,  0, 0, 0, 4, 0,         /* Release, too short */
        0x90, 0x02, 0, 0, 0, 0, 0, 11, 0, 0, 0, 5, 0, 0, 0,   1, 0, 0, 0, 1, /* Acquire, in part */
    };
    static const struct {
        enum ctr_parsed parsed;
        size_t used;
    } rows[] = {{CTR_OK, 12}, {CTR_OK, 15}, {CTR_UNKNOWN, 14}, {CTR_BAD_ARGS, 13}, {CTR_MORE, 23}};
    const uint8_t *at = bytes;
    size_t left = sizeof(bytes);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ctr_request req;
        size_t used = 77;
        ck_assert_int_eq(ctr_parse_request(at, left, &req, &used), rows[i].parsed);
        ck_assert_uint_eq(used, rows[i].used);
        if (rows[i].parsed == CTR_MORE)
            break;
        ck_assert_uint_eq(req.opaque[3], i + 1);
        at += used;
        left -= used;
    }
    ck_assert_uint_eq(left, 20);
}

TEST(random_requests_survive_a_round_trip)
{
    static const uint8_t opcodes[] = {CTR_NOOP,    CTR_GET,   CTR_ACQUIRE,
                                      CTR_RELEASE, CTR_STATS, CTR_DUMP};
    uint64_t seed = 11;
    uint8_t to[256];
    uint8_t name[200];
    for (int i = 0; i < 200000; i++) {
        uint8_t opcode = opcodes[random_below(&seed, sizeof(opcodes))];
        struct ctr_request req = {.opcode = opcode};
        for (size_t k = 0; k < 4; k++)
            req.opaque[k] = (uint8_t)random_next(&seed);
        if (opcode == CTR_ACQUIRE || opcode == CTR_RELEASE)
            req.units = (uint32_t)random_next(&seed) >> random_below(&seed, 32);
        if (opcode == CTR_ACQUIRE) {
            req.units |= 1;
            req.maximum = req.units | (uint32_t)random_next(&seed);
        }
        if (opcode >= CTR_GET && opcode <= CTR_RELEASE) {
            req.name.data = name;
            req.name.len = 1 + random_below(&seed, sizeof(name));
            for (size_t k = 0; k < req.name.len; k++)
                name[k] = (uint8_t)random_next(&seed);
        }
        size_t len = ctr_compose_request(&req, to, sizeof(to));
        REQUIRE(len >= CTR_HEADER);
        struct ctr_request again;
        size_t used = 0;
        REQUIRE(ctr_parse_request(to, len, &again, &used) == CTR_OK);
        REQUIRE(used == len);
        REQUIRE(same_request(&req, &again));
    }
}

/* ---- Replies -------------------------------------------------------------------------------- */

/* Parses the reply that `data` is, at every split. Its body points into `data`. */
static struct ctr_reply read_reply(const uint8_t *data, size_t len)
{
    size_t used = 77;
    struct ctr_reply reply;
    for (size_t n = 0; n < len; n++) {
        uint8_t *part = is_worth_a_copy(n) ? exact_copy(data, n) : NULL;
        REQUIRE(ctr_parse_reply(part ? part : data, n, &reply, &used) == CTR_MORE);
        REQUIRE(used == (n < CTR_HEADER ? CTR_HEADER : len));
        free(part);
    }
    uint8_t *exact = exact_copy(data, len);
    ck_assert_int_eq(ctr_parse_reply(exact, len, &reply, &used), CTR_OK);
    free(exact);
    memset(&reply, 0xee, sizeof(reply));
    ck_assert_int_eq(ctr_parse_reply(data, len, &reply, &used), CTR_OK);
    ck_assert_uint_eq(used, len);
    ck_assert_uint_eq(reply.body.len, len - CTR_HEADER);
    ck_assert(memcmp(reply.opaque, some_opaque, 4) == 0);
    return reply;
}

TEST(each_status_has_its_text)
{
    static const struct {
        enum ctr_status status;
        uint8_t number;
        const char *text;
    } rows[] = {
        {CTR_STATUS_SUCCESS, 0x00, ""},
        {CTR_STATUS_NOT_FOUND, 0x01, "Not found"},
        {CTR_STATUS_INVALID, 0x04, "Invalid arguments"},
        {CTR_STATUS_NOT_AVAILABLE, 0x21, "Resource not available"},
        {CTR_STATUS_NOT_ACQUIRED, 0x22, "Not acquired"},
        {CTR_STATUS_UNKNOWN_COMMAND, 0x81, "Unknown command"},
        {CTR_STATUS_OUT_OF_MEMORY, 0x82, "Out of memory"},
    };
    size_t texts = 0;
    for (unsigned status = 0; status < 256; status++)
        texts += *ctr_status_text((uint8_t)status) != '\0';
    ck_assert_uint_eq(texts, COUNT_OF(rows) - 1);

    uint8_t *ending = malloc(CTR_REPLY_ROOM);
    size_t ending_len = ctr_compose_shutting_down(CTR_ACQUIRE, some_opaque, ending);
    ck_assert_mem_eq(ending,
                     "\x91\x02\x21\0\0\0\0\x0d\xde\xad\x00\xff"
                     "Shutting down",
                     ending_len);
    ck_assert_uint_eq(ending_len, 12 + 13);
    free(ending);

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        size_t text_len = strlen(rows[i].text);
        ck_assert_str_eq(ctr_status_text(rows[i].number), rows[i].text);
        uint8_t expected[CTR_REPLY_ROOM] = {
            0x91, 0x7f, rows[i].number, 0, 0, 0, 0, (uint8_t)text_len, 0xde, 0xad, 0x00, 0xff};
        memcpy(expected + 12, rows[i].text, text_len);
        uint8_t *to = malloc(CTR_REPLY_ROOM);
        ck_assert_ptr_nonnull(to);
        size_t len = ctr_compose_status(0x7f, some_opaque, rows[i].status, to);
        ck_assert_uint_eq(len, 12 + text_len);
        ck_assert(memcmp(to, expected, len) == 0);
        struct ctr_reply reply = read_reply(to, len);
        ck_assert_uint_eq(reply.opcode, 0x7f);
        ck_assert_uint_eq(reply.status, rows[i].number);
        ck_assert(bytes_equal(reply.body, bytes_of(rows[i].text)));
        free(to);
    }
}

TEST(a_number_is_four_bytes)
{
    static const uint8_t expected[] = {0x91, 0x02, 0, 0,    0, 0, 0, 4,
                                       0xde, 0xad, 0, 0xff, 1, 2, 3, 4};
    uint8_t to[CTR_REPLY_ROOM];
    ck_assert_uint_eq(ctr_compose_number(CTR_ACQUIRE, some_opaque, 0x01020304, to), 16);
    ck_assert(memcmp(to, expected, sizeof(expected)) == 0);
    struct ctr_reply reply = read_reply(to, 16);
    uint32_t number = 0;
    ck_assert(ctr_reply_number(&reply, &number));
    ck_assert_uint_eq(number, 0x01020304);
    static const uint32_t edges[] = {0, 1, 0x7fffffff, 0x80000000, UINT32_MAX};
    for (size_t i = 0; i < COUNT_OF(edges); i++) {
        size_t len = ctr_compose_number(CTR_GET, some_opaque, edges[i], to);
        reply = read_reply(to, len);
        ck_assert(ctr_reply_number(&reply, &number));
        ck_assert_uint_eq(number, edges[i]);
    }
}

TEST(no_other_body_is_a_number)
{
    uint32_t number = 77;
    for (size_t len = 0; len < 9; len++) {
        uint8_t *body = exact_copy("\0\0\0\0\0\0\0\0", len);
        struct ctr_reply reply = {.opcode = CTR_GET, .body = {.data = body, .len = len}};
        ck_assert_int_eq(ctr_reply_number(&reply, &number), len == 4);
        reply.status = CTR_STATUS_NOT_FOUND; /* with an error status, four bytes are text */
        ck_assert(!ctr_reply_number(&reply, &number));
        free(body);
    }
}

TEST(a_header_alone_announces_a_body)
{
    static const uint8_t expected[] = {0x91, 0x10, 0, 0, 0x01, 0x02, 3, 4, 0xde, 0xad, 0, 0xff};
    uint8_t to[CTR_HEADER];
    size_t len = ctr_compose_header(CTR_STATS, some_opaque, CTR_STATUS_SUCCESS, 0x01020304, to);
    ck_assert_uint_eq(len, 12);
    ck_assert(memcmp(to, expected, 12) == 0);
}

TEST(dump_tells_consumption_peak_and_name)
{
    static const uint8_t expected[] = {0x91, 0x11, 0, 0, 0, 0, 0, 12, 0xde, 0xad, 0,   0xff,
                                       1,    2,    3, 4, 5, 6, 7, 8,  0,    2,    'a', 0};
    const struct bytes name = {.data = (const uint8_t *)"a", .len = 2};
    uint8_t *to = malloc(CTR_DUMP_LEN(2));
    ck_assert_ptr_nonnull(to);
    ck_assert_uint_eq(sizeof(expected), CTR_DUMP_LEN(2));
    ck_assert_uint_eq(ctr_compose_dump(some_opaque, 0x01020304, 0x05060708, name, to), 24);
    ck_assert(memcmp(to, expected, 24) == 0);
    struct ctr_reply reply = read_reply(to, 24);
    uint32_t consumption = 0;
    uint32_t peak = 0;
    struct bytes read;
    ck_assert(ctr_reply_dump(&reply, &consumption, &peak, &read));
    ck_assert_uint_eq(consumption, 0x01020304);
    ck_assert_uint_eq(peak, 0x05060708);
    ck_assert(bytes_equal(read, name));
    free(to);
}

TEST(dump_tells_the_longest_name)
{
    struct bytes name = longest_name();
    size_t room = CTR_DUMP_LEN(name.len);
    uint8_t *to = malloc(room);
    ck_assert_ptr_nonnull(to);
    ck_assert_uint_eq(ctr_compose_dump(some_opaque, UINT32_MAX, 0, name, to), room);
    static const uint8_t expected[] = {0x91, 0x11, 0,    0,    0,    1, 0, 9, 0xde, 0xad, 0,
                                       0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0,    0xff, 0xff};
    ck_assert(memcmp(to, expected, sizeof(expected)) == 0);
    struct ctr_reply reply = read_reply(to, room);
    uint32_t consumption = 0;
    uint32_t peak = 1;
    struct bytes read;
    ck_assert(ctr_reply_dump(&reply, &consumption, &peak, &read));
    ck_assert_uint_eq(consumption, UINT32_MAX);
    ck_assert_uint_eq(peak, 0);
    ck_assert(bytes_equal(read, name));
    free(to);
}

TEST(no_other_body_is_a_dump)
{
    static const uint8_t body[] = {0, 0, 0, 1, 0, 0, 0, 2, 0, 2, 'n', 'o', '!'};
    uint32_t consumption = 77;
    uint32_t peak = 77;
    struct bytes name = {0};
    for (size_t len = 0; len <= sizeof(body); len++) {
        uint8_t *exact = exact_copy(body, len);
        struct ctr_reply reply = {.opcode = CTR_DUMP, .body = {.data = exact, .len = len}};
        ck_assert_int_eq(ctr_reply_dump(&reply, &consumption, &peak, &name), len == 12);
        reply.status = CTR_STATUS_OUT_OF_MEMORY;
        ck_assert(!ctr_reply_dump(&reply, &consumption, &peak, &name));
        free(exact);
    }
    static const uint8_t nameless[10] = {0, 0, 0, 1, 0, 0, 0, 1};
    struct ctr_reply reply = {.opcode = CTR_DUMP, .body = {.data = nameless, .len = 10}};
    ck_assert(!ctr_reply_dump(&reply, &consumption, &peak, &name));
}

TEST(stats_are_pairs_one_after_the_other)
{
    static const uint8_t expected[] = {0,   7,   0, 2, 'o', 'b', 'j', 'e', 'c', 't', 's',
                                       '4', '2', 0, 4, 0,   1,   'n', 'a', 'm', 'e', '0',
                                       0,   0,   0, 1, 'x', 0,   1,   0,   0,   'y'};
    uint8_t to[64];
    size_t len = ctr_compose_stat("objects", "42", to, sizeof(to));
    ck_assert_uint_eq(len, 13);
    len += ctr_compose_stat("name", "0", to + len, sizeof(to) - len);
    len += ctr_compose_stat("", "x", to + len, sizeof(to) - len);
    len += ctr_compose_stat("y", "", to + len, sizeof(to) - len);
    ck_assert_uint_eq(len, sizeof(expected));
    ck_assert(memcmp(to, expected, len) == 0);

    static const char *const pairs[][2] = {{"objects", "42"}, {"name", "0"}, {"", "x"}, {"y", ""}};
    struct bytes body = {.data = to, .len = len};
    struct bytes name;
    struct bytes value;
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        ck_assert(ctr_reply_stat(&body, &name, &value));
        ck_assert(bytes_equal(name, bytes_of(pairs[i][0])));
        ck_assert(bytes_equal(value, bytes_of(pairs[i][1])));
    }
    ck_assert(!ctr_reply_stat(&body, &name, &value));
    ck_assert_uint_eq(body.len, 0);
}

TEST(a_stat_that_does_not_fit_is_not_begun)
{
    for (size_t room = 0; room <= 13; room++) {
        uint8_t *to = exact_room(room);
        ck_assert_uint_eq(ctr_compose_stat("objects", "42", to, room), room < 13 ? 0 : 13);
        free(to);
    }
}

TEST(stats_of_65535_bytes_are_the_longest)
{
    static char text[65537];
    static uint8_t to[4 + 65535 + 65536];
    memset(text, 'x', 65535);
    size_t len = ctr_compose_stat(text, text, to, sizeof(to));
    ck_assert_uint_eq(len, 4 + 65535 + 65535);
    struct bytes body = {.data = to, .len = len};
    struct bytes name;
    struct bytes value;
    ck_assert(ctr_reply_stat(&body, &name, &value));
    ck_assert(bytes_equal(name, bytes_of(text)));
    ck_assert(bytes_equal(value, bytes_of(text)));
    text[65535] = 'x';
    ck_assert_uint_eq(ctr_compose_stat(text, "1", to, sizeof(to)), 0);
    ck_assert_uint_eq(ctr_compose_stat("1", text, to, sizeof(to)), 0);
}

TEST(stats_cut_anywhere_end_with_bytes_left)
{
    uint8_t whole[32];
    size_t first = ctr_compose_stat("a", "12", whole, sizeof(whole));
    size_t len = first + ctr_compose_stat("bc", "3", whole + first, sizeof(whole) - first);
    for (size_t n = 0; n <= len; n++) {
        uint8_t *exact = exact_copy(whole, n);
        struct bytes body = {.data = exact, .len = n};
        struct bytes name;
        struct bytes value;
        size_t pairs = 0;
        while (ctr_reply_stat(&body, &name, &value))
            pairs++;
        ck_assert_uint_eq(pairs, n == len ? 2 : n >= first ? 1 : 0);
        ck_assert_uint_eq(body.len, n == len || n == first ? 0 : n > first ? n - first : n);
        free(exact);
    }
}

TEST(the_longest_reply_a_client_accepts_is_16_mib)
{
    struct ctr_reply reply;
    size_t used = 77;
    const uint8_t longest[] = {0x91, 0x10, 0, 0, 1, 0, 0, 0, 0xde, 0xad, 0, 0xff};
    ck_assert_int_eq(ctr_parse_reply(longest, sizeof(longest), &reply, &used), CTR_MORE);
    ck_assert_uint_eq(used, 12 + (16u << 20));
    const uint8_t longer[] = {0x91, 0x10, 0x22, 0, 1, 0, 0, 1, 0xde, 0xad, 0, 0xff};
    ck_assert_int_eq(ctr_parse_reply(longer, sizeof(longer), &reply, &used), CTR_TOO_LONG);
    ck_assert_uint_eq(used, 0);
    ck_assert_uint_eq(reply.opcode, 0x10);
    ck_assert_uint_eq(reply.status, 0x22);
    ck_assert(memcmp(reply.opaque, some_opaque, 4) == 0);
}

TEST(a_reply_begins_with_0x91)
{
    struct ctr_reply reply;
    for (unsigned first = 0; first < 256; first++) {
        const uint8_t byte = (uint8_t)first;
        size_t used = 77;
        enum ctr_parsed parsed = ctr_parse_reply(&byte, 1, &reply, &used);
        ck_assert_int_eq(parsed, first == 0x91 ? CTR_MORE : CTR_BAD_MAGIC);
        ck_assert_uint_eq(used, first == 0x91 ? 12 : 0);
    }
}

TEST(several_replies_in_one_buffer_are_read_one_by_one)
{
    uint8_t bytes[256];
    size_t len = ctr_compose_dump(some_opaque, 1, 2, bytes_of("name"), bytes);
    len += ctr_compose_status(CTR_DUMP, some_opaque, CTR_STATUS_SUCCESS, bytes + len);
    len += ctr_compose_status(CTR_GET, some_opaque, CTR_STATUS_NOT_FOUND, bytes + len);
    len += ctr_compose_number(CTR_GET, some_opaque, 9, bytes + len);
    static const uint8_t opcodes[] = {CTR_DUMP, CTR_DUMP, CTR_GET, CTR_GET};
    static const size_t body_lens[] = {14, 0, 9, 4};
    const uint8_t *at = bytes;
    for (size_t i = 0; i < COUNT_OF(opcodes); i++) {
        struct ctr_reply reply;
        size_t used = 0;
        ck_assert_int_eq(ctr_parse_reply(at, len, &reply, &used), CTR_OK);
        ck_assert_uint_eq(reply.opcode, opcodes[i]);
        ck_assert_uint_eq(reply.body.len, body_lens[i]);
        ck_assert_uint_eq(used, 12 + body_lens[i]);
        at += used;
        len -= used;
    }
    ck_assert_uint_eq(len, 0);
}

/* ---- Bytes of any kind ---------------------------------------------------------------------- */

/* Writes noise to `to`, often in the shape of a message; returns its length. */
static size_t random_input(uint64_t *seed, uint8_t magic, uint8_t *to, size_t room)
{
    static const uint8_t opcodes[] = {0, 1, 2, 3, 0x10, 0x11, 0x04};
    size_t len = random_below(seed, room + 1);
    for (size_t i = 0; i < len; i++)
        to[i] = (uint8_t)(random_next(seed) >> random_below(seed, 8));
    uint64_t dice = random_next(seed);
    if (len < CTR_HEADER || dice % 16 == 0)
        return len;
    to[0] = magic;
    to[1] = opcodes[random_below(seed, sizeof(opcodes))];
    if (dice % 16 == 1)
        return len;
    (void)wire_store_u32(to + 4, (uint32_t)random_below(seed, len - CTR_HEADER + 3));
    static const size_t name_len_at[] = {12, 20, 16}; /* the offsets in Get, Acquire and Release */
    size_t at = name_len_at[random_below(seed, COUNT_OF(name_len_at))];
    if (at + 2 <= len && dice % 16 > 4)
        (void)wire_store_u16(to + at, (uint16_t)random_below(seed, 12));
    return len;
}

static bool is_inside(struct bytes part, const uint8_t *data, size_t len)
{
    return part.len == 0 ||
           (part.data >= data && part.len <= len && (size_t)(part.data - data) <= len - part.len);
}

static void check_random_request(uint64_t *seed)
{
    uint8_t input[64];
    size_t len = random_input(seed, CTR_MAGIC_REQUEST, input, sizeof(input));
    uint8_t *exact = exact_copy(input, len);
    struct ctr_request req;
    size_t used = 77;
    enum ctr_parsed parsed = ctr_parse_request(exact, len, &req, &used);
    bool whole = parsed == CTR_OK || parsed == CTR_UNKNOWN || parsed == CTR_BAD_ARGS;
    REQUIRE(is_inside(req.name, exact, used));
    if (whole)
        REQUIRE(used >= CTR_HEADER && used <= len);
    else
        REQUIRE(parsed == CTR_MORE ? used > len && used >= CTR_HEADER : used == 0);
    if (parsed == CTR_OK) {
        uint8_t to[64];
        struct ctr_request again;
        size_t again_used = 0;
        size_t to_len = ctr_compose_request(&req, to, sizeof(to));
        REQUIRE(to_len >= CTR_HEADER && to_len <= used);
        REQUIRE(ctr_parse_request(to, to_len, &again, &again_used) == CTR_OK);
        REQUIRE(again_used == to_len && same_request(&req, &again));
    }
    free(exact);

    /* A shorter prefix needs more or gives the same result. */
    size_t less = random_below(seed, len + 1);
    uint8_t *part = exact_copy(input, less);
    size_t part_used = 77;
    enum ctr_parsed earlier = ctr_parse_request(part, less, &req, &part_used);
    REQUIRE(earlier == parsed || earlier == CTR_MORE);
    REQUIRE(earlier == CTR_MORE ? part_used > less : part_used == used);
    free(part);
}

static void check_random_reply(uint64_t *seed)
{
    uint8_t input[64];
    size_t len = random_input(seed, CTR_MAGIC_REPLY, input, sizeof(input));
    uint8_t *exact = exact_copy(input, len);
    struct ctr_reply reply;
    size_t used = 77;
    enum ctr_parsed parsed = ctr_parse_reply(exact, len, &reply, &used);
    REQUIRE(parsed != CTR_UNKNOWN && parsed != CTR_BAD_ARGS);
    REQUIRE(parsed == CTR_OK ? used <= len : parsed == CTR_MORE ? used > len : used == 0);
    REQUIRE(parsed == CTR_OK ? is_inside(reply.body, exact, used) : reply.body.len == 0);
    uint32_t numbers[2];
    struct bytes name = {0};
    struct bytes value = {0};
    (void)ctr_reply_number(&reply, numbers);
    if (ctr_reply_dump(&reply, &numbers[0], &numbers[1], &name))
        REQUIRE(name.len > 0 && is_inside(name, exact, used));
    size_t left = reply.body.len;
    while (ctr_reply_stat(&reply.body, &name, &value)) {
        REQUIRE(reply.body.len < left);
        left = reply.body.len;
        REQUIRE(is_inside(name, exact, used) && is_inside(value, exact, used));
    }
    free(exact);
}

TEST(random_bytes_never_lead_past_the_end)
{
    uint64_t seed = 3;
    for (int i = 0; i < 300000; i++) {
        check_random_request(&seed);
        check_random_reply(&seed);
    }
}

/* ---- The program ---------------------------------------------------------------------------- */

int main(void)
{
    const struct unit_test tests[] = {
        UNIT(requests_without_a_body_are_a_header),
        UNIT(get_is_a_name),
        UNIT(acquire_is_units_maximum_and_name),
        UNIT(release_is_units_and_name),
        UNIT(names_reach_65535_bytes_of_any_value),
        UNIT(a_longer_name_or_an_unknown_opcode_is_not_composed),
        UNIT(fields_an_opcode_does_not_have_are_not_composed),
        UNIT(wrong_arguments_can_be_composed_for_a_server_to_refuse),
        UNIT(flags_and_reserved_are_ignored),
        UNIT(a_body_nobody_asked_for_is_accepted),
        UNIT(bytes_after_the_name_are_accepted),
        UNIT(an_empty_name_is_a_bad_argument),
        UNIT(a_body_too_short_for_its_fields_or_name_is_a_bad_argument),
        UNIT(units_of_acquire_are_from_1_to_the_maximum),
        UNIT(units_of_release_may_be_anything),
        UNIT(every_other_opcode_is_unknown_and_told_when_its_request_is_whole),
        UNIT(a_body_of_65545_bytes_is_the_longest),
        UNIT(a_body_as_long_as_32_bits_say_is_refused_from_the_header),
        UNIT(another_first_byte_is_refused_at_once_with_what_has_arrived),
        UNIT(several_requests_in_one_buffer_are_read_one_by_one),
        UNIT(random_requests_survive_a_round_trip),
        UNIT(each_status_has_its_text),
        UNIT(a_number_is_four_bytes),
        UNIT(no_other_body_is_a_number),
        UNIT(a_header_alone_announces_a_body),
        UNIT(dump_tells_consumption_peak_and_name),
        UNIT(dump_tells_the_longest_name),
        UNIT(no_other_body_is_a_dump),
        UNIT(stats_are_pairs_one_after_the_other),
        UNIT(a_stat_that_does_not_fit_is_not_begun),
        UNIT(stats_of_65535_bytes_are_the_longest),
        UNIT(stats_cut_anywhere_end_with_bytes_left),
        UNIT(the_longest_reply_a_client_accepts_is_16_mib),
        UNIT(a_reply_begins_with_0x91),
        UNIT(several_replies_in_one_buffer_are_read_one_by_one),
        UNIT(random_bytes_never_lead_past_the_end),
    };
    return unit_run("proto/counter", tests, COUNT_OF(tests));
}
