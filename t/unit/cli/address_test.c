/*
 * address_test.c - parsing and printing server addresses.
 */
#include "cli/address.h"
#include "t/unit/unit.h"

#include <string.h>

static struct address good(const char *text)
{
    struct address address;
    char reason[ADDRESS_REASON_SIZE] = "";
    ck_assert_msg(address_parse(text, &address, reason), "%s: %s", text, reason);
    return address;
}

static void assert_bad(const char *text, const char *why)
{
    struct address address;
    char reason[ADDRESS_REASON_SIZE] = "";
    ck_assert_msg(!address_parse(text, &address, reason), "%s was taken", text);
    ck_assert_msg(strstr(reason, why), "%s: %s", text, reason);
}

static void assert_host(const char *text, const char *host, unsigned port)
{
    struct address address = good(text);
    ck_assert(!address.is_unix);
    ck_assert_str_eq(address.host, host);
    ck_assert_uint_eq(address.port, port);
}

TEST(hosts_with_and_without_ports)
{
    assert_host("example", "example", 0);
    assert_host("example.org:7531", "example.org", 7531);
    assert_host("192.0.2.1:1", "192.0.2.1", 1);
    assert_host("192.0.2.1:65535", "192.0.2.1", 65535);
    assert_host("[::1]:80", "::1", 80);
    assert_host("[::1]", "::1", 0);
    assert_host("::1", "::1", 0);
    assert_host("2001:db8::7531", "2001:db8::7531", 0);
    assert_host("fe80::1%eth0", "fe80::1%eth0", 0);
}
END_TEST

TEST(unix_sockets)
{
    struct address address = good("unix:/run/counterd.sock");
    ck_assert(address.is_unix && !address.is_abstract);
    ck_assert_str_eq(address.path, "/run/counterd.sock");
    address = good("unix:@counterd");
    ck_assert(address.is_unix && address.is_abstract);
    ck_assert_str_eq(address.path, "counterd");
}
END_TEST

TEST(what_is_wrong_is_said)
{
    assert_bad("", "no host");
    assert_bad(":7531", "no host");
    assert_bad("[]:1", "no host");
    assert_bad("host:", "port");
    assert_bad("host:0", "1 to 65535");
    assert_bad("host:65536", "1 to 65535");
    assert_bad("host:99999999999999999999", "1 to 65535");
    assert_bad("host:7a", "1 to 65535");
    assert_bad("host:-1", "1 to 65535");
    assert_bad("[::1", "brackets");
    assert_bad("[::1]7531", "brackets");
    assert_bad("unix:", "path");
    assert_bad("unix:@", "path");
    assert_bad("a b", "0x20");
    assert_bad("http://host", "port");
    assert_bad("host/path", "0x2f");
    char text[400] = "unix:";
    memset(text + 5, 'a', 108);
    assert_bad(text, "longer");
    memset(text, 'a', 256);
    assert_bad(text, "longer");
    text[5 + 107] = '\0';
    memcpy(text, "unix:", 5);
    ck_assert_uint_eq(strlen(good(text).path), 107);
}
END_TEST

TEST(addresses_as_text)
{
    static const struct {
        const char *given, *text;
    } cases[] = {
        {"host", "host:11215"}, {"host:1", "host:1"},   {"::1", "[::1]:11215"},
        {"[::1]:2", "[::1]:2"}, {"unix:/a", "unix:/a"}, {"unix:@a", "unix:@a"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[ADDRESS_TEXT];
        struct address address = good(cases[i].given);
        ck_assert_str_eq(address_text(&address, PORT_BINARY, text), cases[i].text);
    }
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(hosts_with_and_without_ports),
    UNIT(unix_sockets),
    UNIT(what_is_wrong_is_said),
    UNIT(addresses_as_text),
};

UNIT_MAIN("cli/address", tests)
