/*
 * target_test.c - the server's address, and the source addresses of our connections.
 */
#include "bench/counterbench/target.h"
#include "t/unit/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

static struct target find(const char *text)
{
    struct target target;
    char reason[TARGET_REASON_SIZE] = "";
    ck_assert_msg(target_find(&target, text, 7531, reason), "%s: %s", text, reason);
    return target;
}

static uint16_t port_of(const struct target *target)
{
    struct sockaddr_in to;
    memcpy(&to, &target->to, sizeof to);
    return ntohs(to.sin_port);
}

TEST(hosts_and_ports)
{
    struct target target = find("127.0.0.1");
    ck_assert_int_eq(target.to.ss_family, AF_INET);
    ck_assert_uint_eq(port_of(&target), 7531);
    ck_assert(target.is_loopback);
    ck_assert_str_eq(target.host, "127.0.0.1");
    target = find("127.1.2.3:99");
    ck_assert_uint_eq(port_of(&target), 99);
    ck_assert(target.is_loopback);
    target = find("[::1]:99");
    ck_assert_int_eq(target.to.ss_family, AF_INET6);
    ck_assert(!target.is_loopback);
    ck_assert(!find("192.0.2.1").is_loopback);
}
END_TEST

TEST(unix_sockets)
{
    struct sockaddr_un to;
    struct target target = find("/run/x");
    ck_assert_int_eq(target.to.ss_family, AF_UNIX);
    memcpy(&to, &target.to, sizeof to);
    ck_assert_str_eq(to.sun_path, "/run/x");
    ck_assert_uint_eq(target.len, offsetof(struct sockaddr_un, sun_path) + sizeof "/run/x");
    target = find("unix:@x");
    memcpy(&to, &target.to, sizeof to);
    ck_assert_mem_eq(to.sun_path, "\0x", 2);
    ck_assert_uint_eq(target.len, offsetof(struct sockaddr_un, sun_path) + 2);
    ck_assert_str_eq(target.host, "");
}
END_TEST

TEST(what_is_no_address)
{
    static const char *const wrong[] = {"",     "127.0.0.1:", "127.0.0.1:x",
                                        "[::1", "unix:",      "no host"};
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        struct target target;
        char reason[TARGET_REASON_SIZE] = "";
        ck_assert_msg(!target_find(&target, wrong[i], 7531, reason), "%s", wrong[i]);
        ck_assert_str_ne(reason, "");
    }
}
END_TEST

/* The IPv4 address from which counterbench opens this connection. */
static uint32_t source(const struct target *target, int listener, uint64_t number)
{
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    int fd = target_connect(target, number);
    ck_assert_int_ge(fd, 0);
    int peer = accept(listener, (struct sockaddr *)&from, &len);
    ck_assert_int_ge(peer, 0);
    close(fd);
    close(peer);
    return ntohl(from.sin_addr.s_addr);
}

TEST(sources_are_addresses_of_ours)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(listener, 8), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    char text[32];
    snprintf(text, sizeof text, "127.0.0.1:%u", ntohs(at.sin_port));
    struct target target = find(text);
    ck_assert_uint_eq(source(&target, listener, 0), INADDR_LOOPBACK);
    ck_assert_uint_eq(source(&target, listener, 1), INADDR_LOOPBACK + 1);
    ck_assert_uint_eq(source(&target, listener, TARGET_SOURCES - 1),
                      INADDR_LOOPBACK + TARGET_SOURCES - 1);
    ck_assert_uint_eq(source(&target, listener, TARGET_SOURCES + 1), INADDR_LOOPBACK + 1);
    close(listener);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(hosts_and_ports),
    UNIT(unix_sockets),
    UNIT(what_is_no_address),
    UNIT(sources_are_addresses_of_ours),
};

UNIT_MAIN("bench/target", tests)
