/* hosts_test.c - accepted Host headers, and valid lists of names. */
#include "admin/hosts.h"

#include "base/check.h"
#include "t/unit/unit.h"

#include <string.h>

static const char list[] = "counter.example.org,\tlocks, a.b";

TEST(addresses_and_names_of_this_machine_are_let_in)
{
    static const char *const good[] = {
        "127.0.0.1",
        "127.0.0.1:7532",
        "192.0.2.7:1",
        "[::1]",
        "[::1]:7532",
        "[2001:db8::7]",
        "[::ffff:10.0.0.1]:80",
        "localhost",
        "localhost:7532",
        "LocalHost",
        "localhost.",
        "localhost.:7532",
        "box",
        "box:7532",
        "BOX.example.net:7532",
    };
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        ck_assert_msg(hosts_allow("", "box.example.net", good[i]), "%s", good[i]);
    ck_assert(hosts_allow("", "box", NULL));
    ck_assert(hosts_allow("", "box", "box"));
    ck_assert(hosts_allow("", "", "localhost"));
}
END_TEST

TEST(other_names_are_not)
{
    static const char *const bad[] = {
        "",
        ":7532",
        ".",
        "example.net",
        "box.example.com",
        "127.0.0.1.example.com",
        "localhost.example.com",
        "xlocalhost",
        "127.0.0",
        "127.0.0.1 ",
        "[]",
        "[box]",
        "[127.0.0.1]",
        "::1",
        "*",
        "evil:127.0.0.1",
        "[evil]:127.0.0.1",
        "example.org",
        "counter.example.org.evil",
        "a.b.c",
        "a",
        "localhost..",
    };
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        ck_assert_msg(!hosts_allow(list, "box.example.net", bad[i]), "%s", bad[i]);
    ck_assert(!hosts_allow("", "", ""));
    ck_assert(!hosts_allow("", "", "."));
    ck_assert(!hosts_allow("", "box", "box.example.net"));
}
END_TEST

TEST(names_of_the_list_are_let_in)
{
    ck_assert(hosts_allow(list, "box", "counter.example.org"));
    ck_assert(hosts_allow(list, "box", "Counter.Example.ORG.:7532"));
    ck_assert(hosts_allow(list, "box", "locks:7532"));
    ck_assert(hosts_allow(list, "box", "a.b"));
    ck_assert(hosts_allow("a, locks.example.", "box", "locks.example"));
    ck_assert(hosts_allow("locks.example., a", "box", "locks.example.:7532"));
    ck_assert(!hosts_allow("*.", "box", "evil.example"));
    ck_assert(hosts_allow("*", "box", "evil.example"));
    ck_assert(hosts_allow("a *", "box", "evil.example"));
    ck_assert(!hosts_allow("*.example", "box", "evil.example"));
}
END_TEST

TEST(a_list_has_names_and_nothing_else)
{
    char longest[HOSTS_MAX + 2];
    memset(longest, 'x', sizeof(longest));
    longest[HOSTS_MAX + 1] = '\0';
    ck_assert(!hosts_are_names(longest));
    longest[HOSTS_MAX] = '\0';
    ck_assert(hosts_are_names(longest));
    ck_assert(hosts_are_names(list));
    ck_assert(hosts_are_names(""));
    ck_assert(hosts_are_names("*"));
    ck_assert(hosts_are_names(" a , * "));
    static const char *const bad[] = {"*.example.org", "a:7532", "http://a", "a;b", "\xc3\xa9"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        ck_assert_msg(!hosts_are_names(bad[i]), "%s", bad[i]);
}
END_TEST

UNIT_MAIN("hosts")
