/*
 * server_test.c - parsing and printing server addresses, and their URLs for libcounter.
 */
#include "base/clock.h"
#include "cli/server.h"
#include "t/unit/unit.h"

#include <string.h>

static struct server good(const char *text)
{
    struct server server;
    struct text reason = {0};
    ck_assert_msg(server_parse(text, &server, &reason), "%s: %s", text, text_str(&reason));
    return server;
}

static void assert_bad(const char *text, const char *why)
{
    struct server server;
    struct text reason = {0};
    ck_assert_msg(!server_parse(text, &server, &reason), "%s was taken", text);
    ck_assert_msg(strstr(text_str(&reason), why), "%s: %s", text, text_str(&reason));
    text_free(&reason);
}

static void assert_host(const char *text, const char *host, unsigned port)
{
    struct server server = good(text);
    ck_assert(!server.is_unix);
    ck_assert_str_eq(server.place, host);
    ck_assert_uint_eq(server.port, port);
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
    struct server server = good("unix:/run/counterd.sock");
    ck_assert(server.is_unix);
    ck_assert_str_eq(server.place, "/run/counterd.sock");
    server = good("unix:@counterd");
    ck_assert(server.is_unix);
    ck_assert_str_eq(server.place, "@counterd");
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
    assert_bad("host?tls=0", "0x3f");
    assert_bad("host,other", "0x2c");
    char text[400] = "unix:";
    memset(text + 5, 'a', 108);
    assert_bad(text, "longer");
    memset(text, 'a', 256);
    assert_bad(text, "longer");
    text[5 + 107] = '\0';
    memcpy(text, "unix:", 5);
    ck_assert_uint_eq(strlen(good(text).place), 107);
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
        char text[SERVER_TEXT];
        struct server server = good(cases[i].given);
        ck_assert_str_eq(server_text(&server, PORT_BINARY, text), cases[i].text);
    }
}
END_TEST

TEST(names_are_looked_up)
{
    ck_assert(good("example.org").is_name && good("1and1.example:1").is_name);
    ck_assert(!good("127.0.0.1").is_name && !good("[::1]:2").is_name && !good("::1").is_name);
    ck_assert(!good("unix:/a").is_name);
}
END_TEST

TEST(urls)
{
    static const struct {
        const char *given, *url;
    } cases[] = {
        {"::1",
         "counter://"
         "[::1]:7531?connect_timeout=5.000000000&io_timeout=0.250000000&binary=7531&jobs=7531"},
        {"h:1", "counter://h:1?connect_timeout=5.000000000&io_timeout=0.250000000&binary=1&jobs=1"},
        {"unix:/a&b",
         "counter://?connect_timeout=5.000000000&io_timeout=0.250000000&text=unix%3A%2Fa%26b"
         "&binary=unix%3A%2Fa%26b&jobs=unix%3A%2Fa%26b"},
    };
    struct options options;
    options_init(&options);
    options.io_timeout_ns = NS_PER_S / 4;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct server server = good(cases[i].given);
        struct text url = {0};
        server_add_url(&url, &server, PORT_TEXT, &options);
        ck_assert_str_eq(text_str(&url), cases[i].url);
        text_free(&url);
    }
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(hosts_with_and_without_ports), UNIT(unix_sockets),
    UNIT(what_is_wrong_is_said),        UNIT(addresses_as_text),
    UNIT(names_are_looked_up),          UNIT(urls),
};

UNIT_MAIN("cli/server", tests)
