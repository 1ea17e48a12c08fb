/*
 * settings_test.c - URLs of libcounter, the order of servers for a name, and what errors quote.
 */
#include "base/clock.h"
#include "lib/failure.h"
#include "lib/settings.h"
#include "t/unit/unit.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <stdio.h>

static struct counter_error error;

static struct settings *read_url(const char *url)
{
    error = (struct counter_error)COUNTER_ERROR;
    return settings_read(url, &error);
}

static struct settings *must_read(const char *url)
{
    struct settings *settings = read_url(url);
    ck_assert_msg(settings, "%s: %s", url, error.reason);
    return settings;
}

/* ---- URLs ------------------------------------------------------------------------------------ */

/* More than every library refuses (clients/stories). */
TEST(urls_that_are_wrong_are_usage)
{
    static const char *const urls[] = {
        "",
        "counter://::1",
        "counter://.example",
        "counter://h?&",
        "counter://h?idle=1&",
        "counter://h?idle=1.5",
        "counter://h?idle=1000001",
        "counter://h?max_body=1099511627777",
        "counter://h?io_timeout=1e3",
        "counter://h?tls_name=.h",
        "counter://h?tls=",
        "counter://h?tls_ca=%zz",
        "counter://h?tls_ca=%4",
        "counter://h?tls_ca=a%00b",
        "counter://h?tls=1&tls_ca=/nowhere/at/all",
    };
    for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++) {
        ck_assert_msg(!read_url(urls[i]), "%s", urls[i]);
        ck_assert_msg(error.status == COUNTER_USAGE && !error.sent && error.reason[0], "%s",
                      urls[i]);
        ck_assert_ptr_null(settings_read(urls[i], NULL));
    }
}
END_TEST

TEST(long_parts_of_urls_are_usage)
{
    char url[512];
    snprintf(url, sizeof(url), "counter://%0255d", 1);
    settings_drop(must_read(url));
    snprintf(url, sizeof(url), "counter://%0256d", 1);
    ck_assert_ptr_null(read_url(url));
    snprintf(url, sizeof(url), "counter://?jobs=unix:%0107d", 1);
    settings_drop(must_read(url));
    snprintf(url, sizeof(url), "counter://?jobs=unix:%0108d", 1);
    ck_assert_ptr_null(read_url(url));
}
END_TEST

TEST(options_have_defaults_and_values)
{
    struct settings *settings = must_read("counter://h");
    ck_assert_int_eq(settings->connect_ns, NS_PER_S);
    ck_assert_int_eq(settings->io_ns, 10 * NS_PER_S);
    ck_assert_int_eq(settings->down_ns, 10 * NS_PER_S);
    ck_assert_int_eq(settings->idle_ns, 60 * NS_PER_S);
    ck_assert_uint_eq(settings->idle, 8);
    ck_assert_uint_eq(settings->max_body, 67108864);
    settings_drop(settings);
    settings = must_read("counter://h/?connect_timeout=0&io_timeout=0.25&down_seconds=1000000&"
                         "idle_seconds=1.5&idle=0&max_body=4294967296&tls_name=&tls_ca=/nowhere");
    ck_assert_int_eq(settings->connect_ns, 0);
    ck_assert_int_eq(settings->io_ns, NS_PER_S / 4);
    ck_assert_int_eq(settings->down_ns, 1000000 * NS_PER_S);
    ck_assert_int_eq(settings->idle_ns, 3 * NS_PER_S / 2);
    ck_assert_uint_eq(settings->idle, 0);
    ck_assert_uint_eq(settings->max_body, UINT64_C(4294967296));
    ck_assert_ptr_null(settings->tls);
    settings_drop(settings_hold(settings));
    settings_drop(settings);
}
END_TEST

/* ---- the order of servers: a story has many -------------------------------------------------- */

static const char *const servers[] = {"a:7531", "b:7531", "c:7531"};

static void check_order(const char *name, const char *wanted)
{
    size_t order[3];
    char found[4] = "";
    ck_assert_int_eq(counter_servers_for(counter_str(name), servers, 3, order), COUNTER_OK);
    for (size_t i = 0; i < 3; i++)
        found[i] = *servers[order[i]];
    ck_assert_str_eq(found, wanted);
    ck_assert_uint_eq(ERR_peek_error(), 0);
}

TEST(servers_are_ordered_where_policy_forbids_md5)
{
    ck_assert_int_eq(EVP_default_properties_enable_fips(NULL, 1), 1);
    check_order("k", "abc");
    ck_assert_int_eq(counter_servers_for(counter_str("k"), servers, 0, NULL), COUNTER_OK);
}
END_TEST

TEST(servers_are_ordered_where_the_program_has_loaded_no_md5)
{
    OSSL_PROVIDER *base = OSSL_PROVIDER_load(NULL, "base");
    ck_assert_ptr_nonnull(base);
    ck_assert_int_eq(OSSL_PROVIDER_available(NULL, "default"), 0);
    check_order("page 1", "bac");
    OSSL_PROVIDER_unload(base);
}
END_TEST

/* ---- what errors say ------------------------------------------------------------------------- */

TEST(texts_are_quoted_escaped_and_cut)
{
    char to[208], text[300];
    ck_assert_uint_eq(failure_quote(to, sizeof(to), bytes_of("a\x1b\n\xff\xc3\xa9 \\")), 17);
    ck_assert_str_eq(to, "a\\x1b\\x0a\\xff\xc3\xa9 \\");
    memset(text, 'x', sizeof(text));
    ck_assert_uint_eq(failure_quote(to, sizeof(to), bytes_at(text, sizeof(text))), 200);
    text[199] = '\xc3'; /* a character is not cut */
    text[200] = '\xa9';
    ck_assert_uint_eq(failure_quote(to, sizeof(to), bytes_at(text, sizeof(text))), 199);
    text[197] = '\x1b';
    ck_assert_uint_eq(failure_quote(to, sizeof(to), bytes_at(text, sizeof(text))), 197);
    ck_assert_uint_eq(failure_quote(to, 1, bytes_of("x")), 0);
    ck_assert_uint_eq(failure_quote(to, sizeof(to), (struct bytes){0}), 0);
    ck_assert_str_eq(to, "");
}
END_TEST

UNIT_MAIN("lib_settings")
