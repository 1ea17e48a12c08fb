/* access_test.c - counts of connections by address. t/vectors/base.vec has networks. */
#include "net/sources.h"

#include "t/unit/random.h"
#include "t/unit/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

static struct sockaddr_storage address(const char *text)
{
    struct sockaddr_storage sa = {0};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(4711)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(4711)};
    if (inet_pton(AF_INET, text, &in.sin_addr) == 1) {
        memcpy(&sa, &in, sizeof(in));
    } else {
        ck_assert(inet_pton(AF_INET6, text, &in6.sin6_addr) == 1);
        memcpy(&sa, &in6, sizeof(in6));
    }
    return sa;
}

static uint32_t enter(struct sources *sources, const char *from, uint32_t limit)
{
    struct sockaddr_storage sa = address(from);
    return source_enter(sources, (struct sockaddr *)&sa, limit);
}

TEST(connections_of_one_address_are_counted_together)
{
    struct sources sources;
    sources_init(&sources);
    uint32_t a = enter(&sources, "192.0.2.1", 2), b = enter(&sources, "::ffff:192.0.2.1", 2);
    ck_assert_uint_eq(a, b); /* both spellings of IPv4 count as one */
    ck_assert_uint_ne(a, 0);
    ck_assert_uint_eq(enter(&sources, "192.0.2.1", 2), SOURCE_FULL);
    ck_assert_uint_eq(enter(&sources, "192.0.2.1", 3), a); /* a higher limit */
    uint32_t c = enter(&sources, "192.0.2.2", 2);
    ck_assert_uint_ne(c, a);
    uint32_t d = enter(&sources, "2001:db8:0:1::1", 2);
    /* Counted by /64. */
    ck_assert_uint_eq(enter(&sources, "2001:db8:0:1:ffff:ffff:ffff:ffff", 2), d);
    ck_assert_uint_eq(enter(&sources, "2001:db8:0:1::7", 2), SOURCE_FULL);
    uint32_t e = enter(&sources, "2001:db8:0:2::1", 2);
    ck_assert_uint_ne(e, d);
    uint32_t f = enter(&sources, "::1", 1); /* not counted as an IPv4 address */
    ck_assert_uint_ne(f, a);
    ck_assert_uint_eq(sources.count, 5);
    source_leave(&sources, a);
    ck_assert_uint_eq(enter(&sources, "192.0.2.1", 2), SOURCE_FULL);
    source_leave(&sources, a);
    ck_assert_uint_eq(enter(&sources, "192.0.2.1", 2), a);
    source_leave(&sources, a);
    source_leave(&sources, a);
    ck_assert_uint_eq(sources.count, 4);
    source_leave(&sources, c);
    source_leave(&sources, d);
    source_leave(&sources, d);
    source_leave(&sources, e);
    source_leave(&sources, f);
    source_leave(&sources, 0);
    ck_assert_uint_eq(sources.count, 0);
    sources_free(&sources);
}

/* Compares with a plain array of counts while addresses come and go. */
TEST(many_addresses_come_and_go)
{
    enum { ADDRESSES = 3000, STEPS = 200000, LIMIT = 5 };
    static uint32_t numbers[ADDRESSES], counts[ADDRESSES];
    struct sources sources;
    struct rng random = rng_start("addresses", 7);
    sources_init(&sources);
    uint32_t known = 0;
    for (int i = 0; i < STEPS; i++) {
        uint32_t n = rng_below(&random, i % 50000 < 25000 ? ADDRESSES : 10);
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000000 + n)};
        if (rng_below(&random, 2)) {
            uint32_t number = source_enter(&sources, (struct sockaddr *)&in, LIMIT);
            ck_assert_uint_eq(number == SOURCE_FULL, counts[n] == LIMIT);
            if (number == SOURCE_FULL)
                continue;
            ck_assert(counts[n] == 0 || numbers[n] == number);
            known += counts[n]++ == 0;
            numbers[n] = number;
        } else if (counts[n] > 0) {
            source_leave(&sources, numbers[n]);
            known -= --counts[n] == 0;
        }
        ck_assert_uint_eq(sources.count, known);
    }
    for (uint32_t n = 0; n < ADDRESSES; n++) {
        for (; counts[n] > 0; counts[n]--)
            source_leave(&sources, numbers[n]);
    }
    ck_assert_uint_eq(sources.count, 0);
    sources_free(&sources);
}

UNIT_MAIN("net/access")
