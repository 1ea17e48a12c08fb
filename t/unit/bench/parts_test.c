/*
 * parts_test.c - the small parts of counterbench: the histogram, names, the starts of an open loop,
 * and addresses of the server and of ours.
 */
#include "base/clock.h"
#include "bench/counterbench/latency.h"
#include "bench/counterbench/names.h"
#include "bench/counterbench/schedule.h"
#include "bench/counterbench/target.h"
#include "t/unit/random.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- the histogram --------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const int64_t *one = a, *other = b;
    return (*one > *other) - (*one < *other);
}

TEST(quantiles_are_those_of_a_sorted_list)
{
    enum { COUNT = 20000 };
    static int64_t all[COUNT];
    static struct latency halves[2], l;
    struct rng rng = rng_start("latency", random_seed());
    ck_assert_int_eq(latency_quantile_ns(&l, 0.5), 0);
    ck_assert(latency_mean_ns(&l) == 0);
    int64_t sum = 0;
    for (size_t i = 0; i < COUNT; i++) {
        all[i] = (int64_t)(rng_next(&rng) >> (24 + rng_below(&rng, 36)));
        sum += all[i];
        latency_add(&halves[i % 2], all[i]);
    }
    latency_add(&halves[0], -5); /* clocks of two processors: the first class */
    latency_sum_up(&l, &halves[0]);
    latency_sum_up(&l, &halves[1]);
    qsort(all, COUNT, sizeof *all, compare);
    ck_assert_uint_eq(l.count, COUNT + 1);
    ck_assert_uint_eq(l.sum_ns, (uint64_t)sum);
    ck_assert_int_eq(latency_quantile_ns(&l, 1), all[COUNT - 1]); /* exactly */
    ck_assert_int_eq(latency_quantile_ns(&l, 0), 0);
    for (size_t rank = 1; rank <= COUNT; rank += 7) {
        int64_t exact = all[rank - 1];
        /* The middle of the rank, so rounding does not change the result. */
        int64_t got = latency_quantile_ns(&l, ((double)rank + 0.5) / (COUNT + 1));
        REQUIRE(got >= exact && (double)got <= (double)exact * 1.008 + 1);
    }
    latency_add(&l, INT64_C(1) << 50);
    ck_assert_uint_eq(l.counts[LATENCY_CLASSES - 1], 1);
    ck_assert_int_eq(l.max_ns, INT64_C(1) << 50);
}
END_TEST

/* ---- names ----------------------------------------------------------------------------------- */

TEST(names_of_a_length_differ_and_end_with_their_number)
{
    static uint8_t whole[300], digits[300];
    ck_assert_uint_eq(names_most(1), 16);
    ck_assert_uint_eq(names_most(7), UINT64_C(1) << 28);
    ck_assert_uint_eq(names_most(8), UINT64_C(1) << 32);
    ck_assert_uint_eq(names_most(NAMES_LONGEST), UINT64_C(1) << 32);
    for (size_t len = 1; len <= sizeof whole; len++) {
        size_t shown = len < NAMES_DIGITS ? len : NAMES_DIGITS;
        names_write(0, digits, len);
        names_write(0xfedcba98, whole, len);
        ck_assert_mem_eq(whole + len - shown, &"fedcba98"[NAMES_DIGITS - shown], shown);
        names_write_digits(0xfedcba98, digits + len, len);
        ck_assert_mem_eq(whole, digits, len);
        for (size_t i = 0; i < len; i++)
            ck_assert(whole[i] > ' ' && whole[i] < 0x7f); /* valid in both protocols */
    }
}
END_TEST

/* ---- an open loop ---------------------------------------------------------------------------- */

TEST(threads_share_a_rate_that_does_not_drift)
{
    struct schedule all, one[3];
    schedule_start(&all, 7, 2, 0, 1, 77);
    for (unsigned i = 0; i < 3; i++)
        schedule_start(&one[i], 7, 2, i, 3, 77);
    for (unsigned i = 0; i < 7000; i++) {
        ck_assert_int_eq(schedule_next_ns(&all), 77 + i * 2 * NS_PER_S / 7);
        ck_assert_int_eq(schedule_next_ns(&one[i % 3]), schedule_next_ns(&all));
        schedule_advance(&one[i % 3]);
        schedule_advance(&all);
    }
    schedule_start(&all, 100000000, 2, 0, 1, 0);
    all.next = UINT64_C(100000000) * 86400 * 365 * 10 / 2;
    ck_assert_int_eq(schedule_next_ns(&all), INT64_C(86400) * 365 * 10 * NS_PER_S);
}
END_TEST

/* ---- addresses ------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    int family;    /* 0: no address */
    uint16_t port; /* of unix sockets: the bytes of the path */
    bool is_loopback;
    const char *host;
} addresses[] = {
    {"127.0.0.1", AF_INET, 7531, true, "127.0.0.1"},
    {"127.1.2.3:99", AF_INET, 99, true, "127.1.2.3"},
    {"[::1]:99", AF_INET6, 99, false, "::1"},
    {"/run/x", AF_UNIX, 7, false, ""},
    {"unix:@x", AF_UNIX, 2, false, ""},
    {.text = ""},
};

TEST(addresses_of_servers)
{
    for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
        struct target target;
        struct sockaddr_in to;
        char reason[TARGET_REASON_SIZE] = "";
        bool good = target_find(&target, addresses[i].text, 7531, reason);
        ck_assert_msg(good == (addresses[i].family != 0), "%s: %s", addresses[i].text, reason);
        ck_assert(good == (reason[0] == '\0'));
        if (!good)
            continue;
        memcpy(&to, &target.to, sizeof to); /* its port is where that of IPv6 is */
        ck_assert_int_eq(target.to.ss_family, addresses[i].family);
        if (addresses[i].family == AF_UNIX)
            ck_assert_uint_eq(target.len,
                              offsetof(struct sockaddr_un, sun_path) + addresses[i].port);
        else
            ck_assert_uint_eq(ntohs(to.sin_port), addresses[i].port);
        ck_assert(target.is_loopback == addresses[i].is_loopback);
        ck_assert_str_eq(target.host, addresses[i].host);
    }
}
END_TEST

/* The IPv4 address from which counterbench opens this connection. */
static uint32_t source(const struct target *target, int listener, uint64_t number)
{
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    int fd = target_connect(target, number);
    int peer = accept(listener, (struct sockaddr *)&from, &len);
    ck_assert(fd >= 0 && peer >= 0);
    close(fd);
    close(peer);
    return ntohl(from.sin_addr.s_addr);
}

TEST(sources_are_addresses_of_ours)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    struct target target;
    char text[32], reason[TARGET_REASON_SIZE];
    ck_assert(bind(listener, (struct sockaddr *)&at, len) == 0 && listen(listener, 8) == 0 &&
              getsockname(listener, (struct sockaddr *)&at, &len) == 0);
    snprintf(text, sizeof text, "127.0.0.1:%u", ntohs(at.sin_port));
    ck_assert(target_find(&target, text, 7531, reason));
    ck_assert_uint_eq(source(&target, listener, 0), INADDR_LOOPBACK);
    ck_assert_uint_eq(source(&target, listener, 1), INADDR_LOOPBACK + 1);
    ck_assert_uint_eq(source(&target, listener, TARGET_SOURCES - 1),
                      INADDR_LOOPBACK + TARGET_SOURCES - 1);
    ck_assert_uint_eq(source(&target, listener, TARGET_SOURCES + 1), INADDR_LOOPBACK + 1);
    close(listener);
}
END_TEST

UNIT_MAIN("bench/parts")
