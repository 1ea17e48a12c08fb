/* url_test.c - addresses of engines: what is right, and what is said of each mistake. */
#include "cluster/url.h"

#include "base/text.h"
#include "t/unit/unit.h"

#include <stdio.h>
#include <string.h>

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

/* Long addresses of a few messages: BEGIN, a message so many times, END. */
static const char *longer(const char *begin, int count, const char *end)
{
    static char text[600];
    snprintf(text, sizeof(text), "%s%0*d%s", begin, count, 0, end);
    return text;
}

/* Parses it; if it is right, the parts are those of the text, else the reason has these words. */
static struct url parse(const char *text, const char *words)
{
    struct url url;
    char reason[URL_REASON_SIZE] = "";
    bool right = url_parse(text, &url, reason);
    ck_assert_msg(right == !words, "%s: %s", text ? text : "none", reason);
    if (right)
        rewrite(&url, text);
    else
        ck_assert_msg(strstr(reason, words) != NULL, "%s: %s", text, reason);
    return url;
}

static const struct {
    const char *text, *words; /* NULL: it is right */
} rows[] = {
    {NULL, NULL},
    {"", NULL},
    {"redis://db.example.org:6379", NULL},
    {"rediss://127.0.0.1:65535/15", NULL},
    {"redis://[2001:db8::1]:1/0", NULL},
    {"redis://h:1/2147483647", NULL},
    {"unix:/run/redis/a b@c,d.sock", NULL},
    {"sentinel://a:26379,10.0.0.2:26380,[::1]:26379/my-engine.1", NULL},
    {"sentinel://a:1/s", NULL},
    {"sentinel://a:1,a:2/s", NULL},
    {"unix:", "begins with a slash"},
    {"unix:redis.sock", "unix:/PATH"},
    {"sentinel://a:1,b:1", "service's name is missing"},
    {"sentinel://a:1/", "service's name is missing"},
    {"sentinel://a:1/x/y", "service's name"},
    {"sentinel://a:1/x y", "service's name"},
    {"sentinel://a:1,,b:1/s", "a host is missing"},
    {"sentinel://a:1,/s", "a host is missing"},
    {"sentinel:///s", "a host is missing"},
    {"sentinel://a,b:1/s", "write a:26379"},
    {"sentinel://a:1,b:2,A:1/s", "twice"},
    {"redis://", "a host is missing"},
    {"redis://:6379", "a host is missing"},
    {"redis://h", "the port of h is missing: write h:6379"},
    {"rediss://[::1]", "the port of ::1 is missing: write [::1]:6379"},
    {"redis://h/3", "write h:6379"},
    {"redis://h:", "from 1 to 65535"},
    {"redis://h:0", "from 1 to 65535"},
    {"redis://h:65536", "\"65536\" is no port"},
    {"redis://h:06379", "from 1 to 65535"},
    {"redis://h:+1", "from 1 to 65535"},
    {"redis://h:6379 ", "from 1 to 65535"},
    {"redis://::1:6379", "a host is missing"},
    {"redis://fe80::1:6379", "needs brackets"},
    {"redis://[::1:6379", "not closed"},
    {"redis://[]:6379", "a host is missing"},
    {"redis://[::1]6379", "write [::1]:6379"},
    {"redis://[h]:6379", "\"h\" is neither"},
    {"redis://[127.0.0.1]:6379", "neither"},
    {"redis://256.0.0.1:6379", "\"256.0.0.1\" is neither"},
    {"redis://1.2.3:6379", "neither"},
    {"redis://a b:6379", "neither"},
    {"redis://h\xc3\xa4user:6379", "neither"},
    {"redis://a:1,b:2", "one host"},
    {"redis://a\n:1", "control character"},
    {"localhost:6379", "write redis://HOST:PORT"},
    {"http://h:1", "rediss://HOST:PORT"},
    {"REDIS://h:1", "unix:PATH"},
    {"redis:/h:1", "sentinel://HOST:PORT,.../SERVICE"},
    {" redis://h:1", "no address"},
    {"redis://h:1/", "no database"},
    {"redis://h:1/-1", "no database"},
    {"redis://h:1/01", "no database"},
    {"redis://h:1/x", "\"x\" is no database"},
    {"redis://h:1/2147483648", "no database"},
    {"redis://h:1/0?x=1", "no database"},
};

TEST(addresses)
{
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        parse(rows[i].text, rows[i].words);
    ck_assert_int_eq(parse(NULL, NULL).kind, URL_NONE);
    ck_assert_uint_eq(parse("redis://h:1/0", NULL).db, 0);
    ck_assert_uint_eq(parse("redis://h:1/2147483647", NULL).db, INT32_MAX);
    parse(longer("unix:/", 106, ""), NULL);
    parse(longer("unix:/", 107, ""), "at most 107 bytes");
    parse(longer("redis://a", 255, ":1"), "neither");
}

TEST(only_so_many_sentinels)
{
    char text[300] = "sentinel://h:9";
    size_t len = strlen(text);
    for (unsigned i = 1; i < URL_HOSTS_MAX; i++)
        len += (size_t)sprintf(text + len, ",h:1%02u", i);
    strcpy(text + len, "/s");
    ck_assert_uint_eq(parse(text, NULL).count, URL_HOSTS_MAX);
    strcpy(text + len, ",h:8/s");
    parse(text, "more than 16 Sentinels");
}

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

UNIT_MAIN("url")
