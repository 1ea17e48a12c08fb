/* url_test.c - addresses of engines: what is right, and what is said of each mistake. */
#include "cluster/url.h"

#include "base/text.h"
#include "t/unit/random.h"
#include "t/unit/unit.h"

#include <stdio.h>
#include <string.h>

static struct url good(const char *text)
{
    struct url url;
    char reason[URL_REASON_SIZE] = "";
    ck_assert_msg(url_parse(text, &url, reason), "%s: %s", text, reason);
    return url;
}

/* The reason has these words. */
static void bad(const char *text, const char *words)
{
    struct url url;
    char reason[URL_REASON_SIZE] = "";
    ck_assert_msg(!url_parse(text, &url, reason), "%s", text);
    ck_assert_msg(strstr(reason, words) != NULL, "%s: %s", text, reason);
}

TEST(no_engine)
{
    ck_assert_int_eq(good("").kind, URL_NONE);
    ck_assert_int_eq(good(NULL).kind, URL_NONE);
}
END_TEST

TEST(a_server)
{
    struct url url = good("redis://db.example.org:6379");
    ck_assert_int_eq(url.kind, URL_TCP);
    ck_assert_uint_eq(url.count, 1);
    ck_assert_str_eq(url.hosts[0].host, "db.example.org");
    ck_assert_uint_eq(url.hosts[0].port, 6379);
    ck_assert_uint_eq(url.db, 0);
    url = good("rediss://127.0.0.1:65535/15");
    ck_assert_int_eq(url.kind, URL_TLS);
    ck_assert_str_eq(url.hosts[0].host, "127.0.0.1");
    ck_assert_uint_eq(url.hosts[0].port, 65535);
    ck_assert_uint_eq(url.db, 15);
    url = good("redis://[2001:db8::1]:1/0");
    ck_assert_str_eq(url.hosts[0].host, "2001:db8::1");
    ck_assert_uint_eq(url.hosts[0].port, 1);
    ck_assert_uint_eq(good("redis://h:1/2147483647").db, INT32_MAX);
}
END_TEST

TEST(a_socket)
{
    struct url url = good("unix:/run/redis/a b@c,d.sock");
    ck_assert_int_eq(url.kind, URL_UNIX);
    ck_assert_str_eq(url.path, "/run/redis/a b@c,d.sock");
    ck_assert_uint_eq(url.count, 0);
    char text[256] = "unix:/";
    memset(text + 6, 'x', 106);
    ck_assert_uint_eq(strlen(good(text).path), 107);
    text[112] = 'x';
    bad(text, "at most 107 bytes");
    bad("unix:", "begins with a slash");
    bad("unix:redis.sock", "unix:/PATH");
}
END_TEST

TEST(sentinels)
{
    struct url url = good("sentinel://a:26379,10.0.0.2:26380,[::1]:26379/my-engine.1");
    ck_assert_int_eq(url.kind, URL_SENTINEL);
    ck_assert_uint_eq(url.count, 3);
    ck_assert_str_eq(url.hosts[0].host, "a");
    ck_assert_str_eq(url.hosts[1].host, "10.0.0.2");
    ck_assert_uint_eq(url.hosts[1].port, 26380);
    ck_assert_str_eq(url.hosts[2].host, "::1");
    ck_assert_str_eq(url.service, "my-engine.1");
    ck_assert_uint_eq(good("sentinel://a:1/s").count, 1);
    bad("sentinel://a:1,b:1", "service's name is missing");
    bad("sentinel://a:1/", "service's name is missing");
    bad("sentinel://a:1/x/y", "service's name");
    bad("sentinel://a:1/x y", "service's name");
    bad("sentinel://a:1,,b:1/s", "a host is missing");
    bad("sentinel://a:1,/s", "a host is missing");
    bad("sentinel:///s", "a host is missing");
    bad("sentinel://a,b:1/s", "write a:26379");
    bad("sentinel://a:1,b:2,A:1/s", "twice");
    ck_assert_uint_eq(good("sentinel://a:1,a:2/s").count, 2);
}
END_TEST

TEST(only_so_many_sentinels)
{
    struct text text = {0};
    text_addf(&text, "sentinel://h:1");
    for (unsigned i = 2; i <= URL_HOSTS_MAX; i++)
        text_addf(&text, ",h:%u", i);
    size_t len = text.len;
    text_addf(&text, "/s");
    ck_assert_uint_eq(good(text_str(&text)).count, URL_HOSTS_MAX);
    text.data[len] = '\0';
    text.len = len;
    text_addf(&text, ",h:9999/s");
    bad(text_str(&text), "more than 16 Sentinels");
    text_free(&text);
}
END_TEST

TEST(mistakes_in_hosts_and_ports)
{
    bad("redis://", "a host is missing");
    bad("redis://:6379", "a host is missing");
    bad("redis://h", "the port of h is missing: write h:6379");
    bad("rediss://[::1]", "the port of ::1 is missing: write [::1]:6379");
    bad("redis://h/3", "write h:6379");
    bad("redis://h:", "from 1 to 65535");
    bad("redis://h:0", "from 1 to 65535");
    bad("redis://h:65536", "\"65536\" is no port");
    bad("redis://h:06379", "from 1 to 65535");
    bad("redis://h:+1", "from 1 to 65535");
    bad("redis://h:6379 ", "from 1 to 65535");
    bad("redis://::1:6379", "a host is missing");
    bad("redis://fe80::1:6379", "needs brackets");
    bad("redis://[::1:6379", "not closed");
    bad("redis://[]:6379", "a host is missing");
    bad("redis://[::1]6379", "write [::1]:6379");
    bad("redis://[h]:6379", "\"h\" is neither");
    bad("redis://[127.0.0.1]:6379", "neither");
    bad("redis://256.0.0.1:6379", "\"256.0.0.1\" is neither");
    bad("redis://1.2.3:6379", "neither");
    bad("redis://a b:6379", "neither");
    bad("redis://h\xc3\xa4user:6379", "neither");
    bad("redis://a:1,b:2", "one host");
    bad("redis://a\n:1", "control character");
    struct text text = {0};
    text_addf(&text, "redis://");
    for (int i = 0; i < 256; i++)
        text_addf(&text, "a");
    text_addf(&text, ":1");
    bad(text_str(&text), "neither");
    text_free(&text);
}
END_TEST

TEST(mistakes_in_the_rest)
{
    bad("localhost:6379", "write redis://HOST:PORT");
    bad("http://h:1", "rediss://HOST:PORT");
    bad("REDIS://h:1", "unix:PATH");
    bad("redis:/h:1", "sentinel://HOST:PORT,.../SERVICE");
    bad(" redis://h:1", "no address");
    bad("redis://h:1/", "no database");
    bad("redis://h:1/-1", "no database");
    bad("redis://h:1/01", "no database");
    bad("redis://h:1/x", "\"x\" is no database");
    bad("redis://h:1/2147483648", "no database");
    bad("redis://h:1/0?x=1", "no database");
}
END_TEST

TEST(a_password_is_never_shown)
{
    static const char *const texts[] = {
        "redis://user:secret@h:6379",       "redis://:secret@h",
        "rediss://secret@[::1]:6379/1",     "redis://u:sec/ret,secret@h:1",
        "sentinel://user:secret@a:1,b:1/s", "secret@redis://h:1",
    };
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct url url;
        char reason[URL_REASON_SIZE] = "";
        ck_assert(!url_parse(texts[i], &url, reason));
        ck_assert_msg(!strstr(reason, "secret") && *reason, "%s", reason);
        if (i + 1 < ARRAY_SIZE(texts))
            ck_assert_msg(strstr(reason, "cluster.password") != NULL, "%s", reason);
    }
}
END_TEST

TEST(targets_and_texts)
{
    struct tls *tls = (struct tls *)&tls; /* is never looked into */
    char text[URL_HOST_SIZE + 16];
    struct url url = good("rediss://[::1]:7/2");
    struct dial_target target = url_target(&url, 0, tls);
    ck_assert_int_eq(target.transport, TRANSPORT_TLS);
    ck_assert_str_eq(target.host, "::1");
    ck_assert_uint_eq(target.port, 7);
    ck_assert_ptr_eq(target.tls, tls);
    url_host_text(&url.hosts[0], text, sizeof(text));
    ck_assert_str_eq(text, "[::1]:7");
    url = good("sentinel://a:1,b:2/s");
    target = url_target(&url, 1, tls);
    ck_assert_int_eq(target.transport, TRANSPORT_TCP);
    ck_assert_str_eq(target.host, "b");
    ck_assert_ptr_null(target.tls);
    url_host_text(&url.hosts[1], text, sizeof(text));
    ck_assert_str_eq(text, "b:2");
    url = good("unix:/x");
    target = url_target(&url, 0, NULL);
    ck_assert_int_eq(target.transport, TRANSPORT_UNIX);
    ck_assert_str_eq(target.path, "/x");
}
END_TEST

/* What is accepted is written again from its parts, and must be the same. */
static void rewrite(const struct url *url, const char *was)
{
    struct text text = {0};
    char host[URL_HOST_SIZE + 16];
    text_addf(&text, "%s",
              url->kind == URL_TCP        ? "redis://"
              : url->kind == URL_TLS      ? "rediss://"
              : url->kind == URL_SENTINEL ? "sentinel://"
                                          : "unix:");
    for (unsigned i = 0; i < url->count; i++) {
        url_host_text(&url->hosts[i], host, sizeof(host));
        text_addf(&text, "%s%s", i ? "," : "", host);
    }
    if (url->kind == URL_SENTINEL)
        text_addf(&text, "/%s", url->service);
    else if (url->kind == URL_UNIX)
        text_addf(&text, "%s", url->path);
    else if (url->db)
        text_addf(&text, "/%u", url->db);
    if (url->kind != URL_NONE && !strstr(was, "/0"))
        ck_assert_str_eq(text_str(&text), was);
    text_free(&text);
}

TEST(random_texts)
{
    static const char *const parts[] = {
        "redis://", "rediss://", "unix:", "sentinel://", "[", "]",   ":",       ":1", ":65535",
        ",",        "/",         "/3",    "@",           "a", "::1", "1.2.3.4", "",   "\x80"};
    struct rng rng = rng_start("addresses", random_seed());
    unsigned accepted = 0;
    for (int round = 0; round < 200000; round++) {
        struct text text = {0};
        struct url url;
        char reason[URL_REASON_SIZE] = "";
        text_addf(&text, "%s", parts[rng_below(&rng, 5)]);
        for (uint32_t n = rng_below(&rng, 9); n > 0; n--)
            text_addf(&text, "%s", parts[rng_below(&rng, ARRAY_SIZE(parts))]);
        if (url_parse(text_str(&text), &url, reason)) {
            rewrite(&url, text_str(&text));
            accepted++;
        } else {
            ck_assert(*reason && strlen(reason) < URL_REASON_SIZE - 1);
        }
        text_free(&text);
    }
    ck_assert_uint_gt(accepted, 100);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(no_engine),
    UNIT(a_server),
    UNIT(a_socket),
    UNIT(sentinels),
    UNIT(only_so_many_sentinels),
    UNIT(mistakes_in_hosts_and_ports),
    UNIT(mistakes_in_the_rest),
    UNIT(a_password_is_never_shown),
    UNIT(targets_and_texts),
    UNIT(random_texts),
};

UNIT_MAIN("url", tests)
