/* access_test.c - networks as text, and their addresses; addresses as text; counts by address. */
#include "net/access.h"

#include "net/address.h"
#include "net/sources.h"
#include "t/unit/random.h"
#include "t/unit/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

/* The socket address for "192.0.2.1", "::1" or "unix", with a port where it has one. */
static struct sockaddr_storage address(const char *text)
{
    struct sockaddr_storage sa = {.ss_family = AF_UNIX};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(4711)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(4711)};
    if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
        memcpy(&sa, &in, sizeof(in));
    else if (inet_pton(AF_INET6, text, &in6.sin6_addr) == 1)
        memcpy(&sa, &in6, sizeof(in6));
    else
        ck_assert_str_eq(text, "unix");
    return sa;
}

/* ---- networks ------------------------------------------------------------------------------ */

TEST(networks_are_parsed_and_written)
{
    static const struct {
        const char *text, *written;
        sa_family_t family;
        unsigned bits;
    } rows[] = {
        {"10.0.0.0/8", "10.0.0.0/8", AF_INET, 8},
        {"192.0.2.1", "192.0.2.1/32", AF_INET, 32},
        {"192.0.2.1/32", "192.0.2.1/32", AF_INET, 32},
        {"0.0.0.0/0", "0.0.0.0/0", AF_INET, 0},
        {"128.0.0.0/1", "128.0.0.0/1", AF_INET, 1},
        {"192.0.2.254/31", "192.0.2.254/31", AF_INET, 31},
        {"::1", "::1/128", AF_INET6, 128},
        {"::/0", "::/0", AF_INET6, 0},
        {"2001:db8::/32", "2001:db8::/32", AF_INET6, 32},
        {"2001:DB8:0:0::/33", "2001:db8::/33", AF_INET6, 33},
        {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127",
         "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127", AF_INET6, 127},
        {"::ffff:192.0.2.0/120", "192.0.2.0/24", AF_INET, 24},
        {"::ffff:192.0.2.1", "192.0.2.1/32", AF_INET, 32},
        {"::ffff:0:0/96", "0.0.0.0/0", AF_INET, 0},
        {"::fffe:0:0/95", "::fffe:0:0/95", AF_INET6, 95},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct access_network network, again;
        char written[ACCESS_TEXT];
        ck_assert_msg(access_parse(rows[i].text, strlen(rows[i].text), &network), "%s",
                      rows[i].text);
        ck_assert_int_eq(network.family, rows[i].family);
        ck_assert_uint_eq(network.bits, rows[i].bits);
        ck_assert_uint_eq(access_text(&network, written, sizeof(written)), strlen(written));
        ck_assert_str_eq(written, rows[i].written);
        ck_assert(access_parse(written, strlen(written), &again));
        ck_assert(memcmp(&again, &network, sizeof(network)) == 0);
    }
}
END_TEST

TEST(what_is_no_network_is_refused)
{
    static const char *const texts[] = {
        "",
        "/",
        "/8",
        "10.0.0.0/",
        "10.0.0.0/33",
        "10.0.0.0/08",
        "10.0.0.0/+8",
        "10.0.0.0/ 8",
        "10.0.0.0/8 ",
        " 10.0.0.0/8",
        "10.0.0.0/-1",
        "10.0.0.0/4294967304",
        "10.0.0.0/8/8",
        "10.0.0.0/255.0.0.0",
        "10.0.0.1/8", /* bits set beyond the prefix length */
        "10.0.0.1/31",
        "128.0.0.0/0",
        "10.0.0",
        "10",
        "10.0.0.256",
        "010.0.0.1",
        "localhost",
        "::1/129",
        "::1/127",
        "2001:db8::/28",
        "::ffff:10.0.0.1/104",
        ":::",
        "[::1]",
        "fe80::1%lo",
        "::1/128x",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "a",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct access_network network = {.family = AF_INET, .bits = 7}, before = network;
        ck_assert_msg(!access_parse(texts[i], strlen(texts[i]), &network), "%s", texts[i]);
        ck_assert(memcmp(&network, &before, sizeof(network)) == 0);
    }
    struct access_network network;
    ck_assert(!access_parse("10.0.0.0\0/8", 11, &network));
    /* Reads no further than the given length. */
    ck_assert(access_parse("10.0.0.0/8,junk", 10, &network));
}
END_TEST

TEST(text_of_a_network_is_cut)
{
    struct access_network network;
    char text[8];
    ck_assert(access_parse("192.0.2.0/24", 12, &network));
    ck_assert_uint_eq(access_text(&network, text, sizeof(text)), 12);
    ck_assert_str_eq(text, "192.0.2");
}
END_TEST

static bool allows(const char *networks, const char *from)
{
    struct access_network list[8];
    size_t count = 0;
    for (const char *at = networks; *at;) {
        size_t len = strcspn(at, " ");
        ck_assert(access_parse(at, len, &list[count++]));
        at += len + (at[len] != '\0');
    }
    struct sockaddr_storage sa = address(from);
    return access_allows(list, count, (struct sockaddr *)&sa);
}

TEST(who_is_allowed)
{
    static const struct {
        const char *networks, *from;
        bool allowed;
    } rows[] = {
        {"", "192.0.2.1", true},
        {"", "2001:db8::1", true},
        {"", "unix", true},
        {"10.0.0.0/8", "10.255.255.255", true},
        {"10.0.0.0/8", "11.0.0.0", false},
        {"10.0.0.0/8", "9.255.255.255", false},
        {"10.0.0.0/8", "unix", true},
        {"10.0.0.0/8", "::1", false},
        {"10.0.0.0/8", "::ffff:10.1.2.3", true},
        {"10.0.0.0/8", "::ffff:11.1.2.3", false},
        {"10.0.0.0/8", "::10.1.2.3", false}, /* IPv4-compatible, not IPv4-mapped */
        {"10.1.2.3", "10.1.2.3", true},
        {"10.1.2.3", "10.1.2.2", false},
        {"10.1.2.4/30", "10.1.2.7", true},
        {"10.1.2.4/30", "10.1.2.8", false},
        {"128.0.0.0/1", "127.255.255.255", false},
        {"128.0.0.0/1", "255.0.0.1", true},
        {"0.0.0.0/0", "255.255.255.255", true},
        {"0.0.0.0/0", "::1", false},
        {"::/0", "::1", true},
        {"::/0", "10.0.0.1", false},
        {"::/0", "::ffff:10.0.0.1", false},
        {"::ffff:10.0.0.0/104", "10.1.1.1", true},
        {"2001:db8::/33", "2001:db8:7fff::1", true},
        {"2001:db8::/33", "2001:db8:8000::1", false},
        {"::1", "::1", true},
        {"::1", "::2", false},
        {"192.0.2.0/24 10.0.0.0/8 ::1", "10.0.0.1", true},
        {"192.0.2.0/24 10.0.0.0/8 ::1", "::1", true},
        {"192.0.2.0/24 10.0.0.0/8 ::1", "127.0.0.1", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ck_assert_msg(allows(rows[i].networks, rows[i].from) == rows[i].allowed, "%s in \"%s\"",
                      rows[i].from, rows[i].networks);
}
END_TEST

/* ---- addresses ----------------------------------------------------------------------------- */

TEST(addresses_as_text)
{
    static const char *const rows[][2] = {
        {"192.0.2.1", "192.0.2.1:4711"},
        {"2001:db8::1", "[2001:db8::1]:4711"},
        {"::ffff:192.0.2.1", "192.0.2.1:4711"},
        {"unix", "?"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sockaddr_storage sa = address(rows[i][0]);
        char text[ADDRESS_TEXT], cut[5];
        ck_assert_uint_eq(address_text((struct sockaddr *)&sa, text, sizeof(text)),
                          strlen(rows[i][1]));
        ck_assert_str_eq(text, rows[i][1]);
        ck_assert_uint_eq(address_text((struct sockaddr *)&sa, cut, sizeof(cut)),
                          strlen(rows[i][1]));
        ck_assert_uint_eq(strlen(cut), strlen(rows[i][1]) < 4 ? strlen(rows[i][1]) : 4);
    }
}
END_TEST

/* ---- connections by address ------------------------------------------------------------------ */

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
    ck_assert_uint_eq(sources_count(&sources), 5);
    source_leave(&sources, a);
    ck_assert_uint_eq(enter(&sources, "192.0.2.1", 2), SOURCE_FULL);
    source_leave(&sources, a);
    ck_assert_uint_eq(enter(&sources, "192.0.2.1", 2), a);
    source_leave(&sources, a);
    source_leave(&sources, a);
    ck_assert_uint_eq(sources_count(&sources), 4);
    source_leave(&sources, c);
    source_leave(&sources, d);
    source_leave(&sources, d);
    source_leave(&sources, e);
    source_leave(&sources, f);
    source_leave(&sources, 0);
    ck_assert_uint_eq(sources_count(&sources), 0);
    sources_free(&sources);
}
END_TEST

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
        ck_assert_uint_eq(sources_count(&sources), known);
    }
    for (uint32_t n = 0; n < ADDRESSES; n++) {
        for (; counts[n] > 0; counts[n]--)
            source_leave(&sources, numbers[n]);
    }
    ck_assert_uint_eq(sources_count(&sources), 0);
    sources_free(&sources);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(networks_are_parsed_and_written),
    UNIT(what_is_no_network_is_refused),
    UNIT(text_of_a_network_is_cut),
    UNIT(who_is_allowed),
    UNIT(addresses_as_text),
    UNIT(connections_of_one_address_are_counted_together),
    UNIT(many_addresses_come_and_go),
};

UNIT_MAIN("net/access", tests)
