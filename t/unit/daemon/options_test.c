/*
 * options_test.c - the table of options: defaults, valid values, and messages for the others.
 */
#include "service/jobs.h"
#include "service/pools_config.h"
#include "t/unit/daemon/options.h"

#include <arpa/inet.h>
#include <netinet/in.h>

/* --- The table ------------------------------------------------------------------------------- */

TEST(the_defaults_are_those_that_were_published)
{
    struct settings s;
    ck_assert(settings_init(&s));
    ck_assert(!settings_protocol(&s, BINARY)->enable);
    ck_assert_uint_eq(settings_protocol(&s, BINARY)->port, 11215);
    ck_assert_uint_eq(settings_protocol(&s, BINARY)->max_connections, 0);
    ck_assert_uint_eq(table_of(&s)->buckets, 16384);
    ck_assert_uint_eq(table_of(&s)->stats_interval_s, 86400);
    ck_assert_uint_eq(table_of(&s)->memory_limit, 1073741824);
    ck_assert_uint_eq(s.threads, 0);
    ck_assert_uint_eq(s.busy_poll, 0);
    ck_assert(settings_protocol(&s, TEXT)->enable);
    ck_assert_uint_eq(settings_protocol(&s, TEXT)->port, 7531);
    ck_assert_uint_eq(settings_protocol(&s, TEXT)->max_connections, 0);
    ck_assert_uint_eq(text_of(&s)->max_locks, 4);
    ck_assert_uint_eq(text_of(&s)->max_line, 8192);
    ck_assert(!settings_protocol(&s, JOBS)->enable);
    ck_assert_uint_eq(settings_protocol(&s, JOBS)->port, 11300);
    const struct job_settings_of_protocol *jobs = settings_own(&s, jobs_options.own);
    ck_assert_uint_eq(jobs->max_job_size, 1048576);
    const struct tubes_settings *tubes = settings_own(&s, &tubes_options);
    ck_assert_uint_eq(tubes->memory_limit, 1073741824);
    const struct pools_settings *pools = settings_own(&s, &pools_options);
    ck_assert_uint_eq(pools->operators.count, 2);
    ck_assert_uint_eq(pools->suppliers.count, 0);
    ck_assert_uint_eq(pools->max, 1000);
    ck_assert_uint_eq(pools->max_members, 10000);
    ck_assert_uint_eq(pools->max_watchers, 100);
    ck_assert_uint_eq(pools->max_taken, 64);
    ck_assert_uint_eq(s.limits_request_timeout, 30);
    ck_assert_uint_eq(s.limits_write_timeout, 30);
    ck_assert_uint_eq(s.limits_output_buffer, 262144);
    ck_assert_uint_eq(s.upgrade_timeout, 5);
    ck_assert_int_eq((int)s.log_level, LOG_LEVEL_INFO);
    ck_assert_int_eq((int)s.log_output, LOG_OUTPUT_STDERR);
    ck_assert_int_eq((int)s.log_format, LOG_FORMAT_TEXT);
    ck_assert(settings_protocol(&s, BINARY)->plain && settings_protocol(&s, TEXT)->plain);
    ck_assert_uint_eq(settings_protocol(&s, BINARY)->tls_port, 0);
    ck_assert_uint_eq(settings_protocol(&s, TEXT)->tls_port, 0);
    ck_assert(!settings_protocol(&s, BINARY)->socket && !settings_protocol(&s, TEXT)->socket);
    ck_assert_uint_eq(settings_protocol(&s, BINARY)->socket_mode, 0660);
    ck_assert_uint_eq(settings_protocol(&s, TEXT)->socket_mode, 0660);
    ck_assert(!s.tls_cert && !s.tls_key && !s.tls_ca);
    ck_assert_int_eq((int)s.tls_verify_client, TLS_VERIFY_OFF);
    ck_assert_int_eq((int)s.tls_min_version, TLS_VERSION_1_2);
    ck_assert_uint_eq(s.tls_handshake_timeout, 10);
    ck_assert_uint_eq(s.tls_max_handshakes, 1000);
    ck_assert_uint_eq(s.access_allow.count, 0);
    ck_assert_uint_eq(s.access_max_per_source, 0);
    ck_assert_uint_eq(s.admin_port, 7532);
    ck_assert(!s.admin_token && !s.admin_token_file && !s.admin_hosts);
    ck_assert_ptr_null(s.user);
    ck_assert_ptr_null(s.group);
    ck_assert_ptr_null(s.pid_file);
    ck_assert(s.security_sandbox);
    ck_assert_str_eq(settings_protocol(&s, BINARY)->ignored_keys, "");

    const struct option_addresses *lists[] = {&settings_protocol(&s, BINARY)->listen,
                                              &settings_protocol(&s, TEXT)->listen,
                                              &s.admin_listen};
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
        ck_assert_uint_eq(lists[i]->count, 2);
        const struct sockaddr_in *in4 = (const struct sockaddr_in *)&lists[i]->at[0].sa;
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&lists[i]->at[1].sa;
        ck_assert_int_eq(in4->sin_family, AF_INET);
        ck_assert_uint_eq(in4->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
        ck_assert_uint_eq(in4->sin_port, 0);
        ck_assert_uint_eq(lists[i]->at[0].len, sizeof *in4);
        ck_assert_int_eq(in6->sin6_family, AF_INET6);
        ck_assert(IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr));
        ck_assert_uint_eq(in6->sin6_port, 0);
        ck_assert_uint_eq(lists[i]->at[1].len, sizeof *in6);
    }
    settings_free(&s);
}
END_TEST

TEST(every_row_is_complete_and_its_key_its_own)
{
    const struct option_row *row;
    size_t count = 0;
    for (; (row = options_row_at(count)); count++) {
        ck_assert_ptr_eq(options_find(row->key), row);
        if (row->alias)
            ck_assert_ptr_eq(options_find(row->alias), row);
        ck_assert(row->default_text && row->unit && row->help && *row->help);
        ck_assert((row->type == OPTION_CHOICE) == (row->choices != NULL));
        ck_assert(!is_number(row) || row->min < row->max);
        ck_assert(!row->by_l || row->type == OPTION_ADDRESSES);
        ck_assert(!row->secret || row->type == OPTION_STRING);
        ck_assert(!row->digest || row->secret);
    }
    ck_assert_uint_eq(count, 104);
    ck_assert_ptr_null(options_row_at(SIZE_MAX));
    ck_assert_ptr_null(options_find(""));
    ck_assert_ptr_null(options_find("counter"));
    ck_assert_ptr_null(options_find("Counter.port"));
}
END_TEST

TEST(options_are_shown_by_service_and_the_daemons_last)
{
    static const char *const keys[] = {
        "cluster.engine",
        "cluster.user",
        "cluster.password",
        "cluster.ca",
        "cluster.cert",
        "cluster.key",
        "cluster.strict",
        "cluster.loose",
        "cluster.node",
        "cluster.lease",
        "cluster.patience",
        "cluster.prefix",
        "counter.enable",
        "counter.port",
        "counter.listen",
        "counter.plain",
        "counter.tls_port",
        "counter.socket",
        "counter.socket_mode",
        "counter.max_connections",
        "counter.buckets",
        "counter.stats_interval",
        "counter.memory_limit",
        "counter.threads",
        "counter.busy_poll",
        "jobs.enable",
        "jobs.port",
        "jobs.listen",
        "jobs.plain",
        "jobs.tls_port",
        "jobs.socket",
        "jobs.socket_mode",
        "jobs.max_connections",
        "jobs.max_job_size",
        "jobs.memory_limit",
        "jobs.tube_defaults",
        "jobs.path",
        "jobs.sync",
        "jobs.backup_path",
        "pool.NAME.kind",
        "pool.NAME.group",
        "pool.NAME.max",
        "pool.NAME.order",
        "pool.NAME.queue_max",
        "pool.NAME.overtakes",
        "pool.NAME.on_return",
        "pool.NAME.on_fail",
        "pool.NAME.on_start",
        "pool.NAME.clean_after",
        "pool.NAME.clean_tries",
        "pool.NAME.on_crash",
        "pool.NAME.hold_warn",
        "pool.NAME.hold_max",
        "pool.NAME.min_free",
        "pool.NAME.cull_after",
        "pool.NAME.start_timeout",
        "pool.NAME.stop_timeout",
        "pool.NAME.max_lifetime",
        "pool.NAME.lifetime_jitter",
        "pool.NAME.members",
        "pool.NAME.members_file",
        "poolcounter.enable",
        "poolcounter.port",
        "poolcounter.listen",
        "poolcounter.plain",
        "poolcounter.tls_port",
        "poolcounter.socket",
        "poolcounter.socket_mode",
        "poolcounter.max_connections",
        "poolcounter.max_locks",
        "poolcounter.max_line",
        "pools.operators",
        "pools.suppliers",
        "pools.max",
        "pools.max_members",
        "pools.max_watchers",
        "pools.max_taken",
        "tls.cert",
    };
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        ck_assert_str_eq(options_row_at(i)->key, keys[i]);
    ck_assert_str_eq(row_of("poolcounter.enable")->help, "serve the PoolCounter text protocol");
    ck_assert_str_eq(row_of("counter.tls_port")->help,
                     "TCP port of the Counter protocol with TLS; 0: none");
}
END_TEST

TEST(every_default_is_printed_as_it_is_written)
{
    struct settings settings;
    const struct option_row *row;
    ck_assert(settings_init(&settings));
    for (size_t i = 0; (row = options_row_at(i)); i++) {
        if (options_has(&settings, row))
            assert_value(&settings, row->key, row->default_text);
        ck_assert(assigns(&settings, row->key, row->default_text));
        assert_value(&settings, row->key, row->default_text);
    }
    settings_free(&settings);
}
END_TEST

/* Sets a numeric option and checks the result. */
static void try_number(const struct option_row *row, uint64_t value, bool allowed)
{
    struct settings settings;
    char text[32], printed[32];
    ck_assert(settings_init(&settings));
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    ck_assert_msg(assigns(&settings, row->key, text) == allowed, "%s = %s", row->key, text);
    if (!allowed) {
        assert_value(&settings, row->key, row->default_text);
    } else {
        /* The printed text reads back as the same value. */
        struct settings again;
        char reprinted[32];
        ck_assert(settings_init(&again));
        options_to_text(&settings, row, printed, sizeof printed);
        ck_assert(assigns(&again, row->key, printed));
        options_to_text(&again, row, reprinted, sizeof reprinted);
        ck_assert_str_eq(printed, reprinted);
        if (row->type != OPTION_SIZE)
            ck_assert_str_eq(printed, text);
        settings_free(&again);
    }
    settings_free(&settings);
}

TEST(every_number_is_bounded_on_both_sides)
{
    const struct option_row *row;
    for (size_t i = 0; (row = options_row_at(i)); i++) {
        if (!is_number(row))
            continue;
        try_number(row, row->min, true);
        try_number(row, row->max, true);
        try_number(row, row->max + 1, false);
        try_number(row, UINT32_MAX, row->min <= UINT32_MAX && UINT32_MAX <= row->max);
        try_number(row, UINT64_MAX, false);
        if (row->min > 0)
            try_number(row, row->min - 1, false);
        /* A number that wraps round to an allowed value is refused. */
        if (row->max <= UINT32_MAX)
            try_number(row, (1ULL << 32) + row->min, false);
        if (row->max <= UINT16_MAX)
            try_number(row, (1ULL << 16) + row->min, row->max >= (1ULL << 16) + row->min);
    }
}
END_TEST

TEST(what_is_no_number_is_refused)
{
    static const char *const texts[] = {
        "",
        " ",
        "-1",
        "+1",
        "1 ",
        " 1",
        "0x10",
        "1e3",
        "1.5",
        "1,5",
        "9z",
        "z9",
        "1K",
        "--",
        "18446744073709551616",
        "ten",
        "1 2",
        "4294967296",
        "36893488147419103232",
        "\xd9\xa3",
        "99999999999999999999999999999999999999999999999999999999999999999999",
    };
    struct settings settings;
    ck_assert(settings_init(&settings));
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        ck_assert_msg(!assigns(&settings, "counter.max_connections", texts[i]), "%s", texts[i]);
        ck_assert_msg(!assigns(&settings, "counter.port", texts[i]), "%s", texts[i]);
    }
    ck_assert(assigns(&settings, "counter.port", "0007"));
    ck_assert_uint_eq(settings_protocol(&settings, BINARY)->port, 7);
    settings_free(&settings);
}
END_TEST

TEST(sizes_know_k_m_and_g)
{
    static const struct {
        const char *text, *printed;
        uint64_t value;
    } good[] = {
        {"16777216", "16M", 16777216},      {"16384K", "16M", 16777216},
        {"16M", "16M", 16777216},           {"16m", "16M", 16777216},
        {"32G", "32G", 34359738368},        {"32g", "32G", 34359738368},
        {"16777217", "16777217", 16777217}, {"17000k", "17000K", 17408000},
        {"1536M", "1536M", 1610612736},
    };
    static const char *const bad[] = {
        "M",
        "16MB",
        "16MiB",
        "16 M",
        "16Mx",
        "1T",
        "-16M",
        "33G",
        "15M",
        "0",
        "0G",
        "17179869185G",         /* 2^64 and 1G bytes */
        "18014398509498368K",   /* 2^64 and 16M bytes */
        "18446744073726328832", /* 2^64 and 16M bytes */
        "18446744073709551615G",
    };
    struct settings settings;
    ck_assert(settings_init(&settings));
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        ck_assert(assigns(&settings, "counter.memory_limit", good[i].text));
        ck_assert_uint_eq(table_of(&settings)->memory_limit, good[i].value);
        assert_value(&settings, "counter.memory_limit", good[i].printed);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        ck_assert_msg(!assigns(&settings, "counter.memory_limit", bad[i]), "%s", bad[i]);
    assert_value(&settings, "counter.memory_limit", "1536M");
    settings_free(&settings);
}
END_TEST

TEST(true_and_false_have_four_names_each)
{
    static const char *const yes[] = {"true", "yes", "on", "1"};
    static const char *const no[] = {"false", "no", "off", "0"};
    static const char *const neither[] = {"", "2", "TRUE", "t", "truey", "tru", "yes no"};
    struct settings settings;
    ck_assert(settings_init(&settings));
    for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
        ck_assert(assigns(&settings, "counter.enable", yes[i]));
        ck_assert(settings_protocol(&settings, BINARY)->enable);
        assert_value(&settings, "counter.enable", "true");
        ck_assert(assigns(&settings, "counter.enable", no[i]));
        ck_assert(!settings_protocol(&settings, BINARY)->enable);
        assert_value(&settings, "counter.enable", "false");
    }
    for (size_t i = 0; i < ARRAY_SIZE(neither); i++)
        ck_assert(!assigns(&settings, "counter.enable", neither[i]));
    settings_free(&settings);
}
END_TEST

TEST(choices_are_the_enums_of_the_log)
{
    struct settings settings;
    ck_assert(settings_init(&settings));
    ck_assert(assigns(&settings, "log.level", "error"));
    ck_assert_int_eq((int)settings.log_level, LOG_LEVEL_ERROR);
    ck_assert(assigns(&settings, "log.level", "warning"));
    ck_assert_int_eq((int)settings.log_level, LOG_LEVEL_WARNING);
    ck_assert(assigns(&settings, "log.level", "info"));
    ck_assert_int_eq((int)settings.log_level, LOG_LEVEL_INFO);
    ck_assert(assigns(&settings, "log.level", "debug"));
    ck_assert_int_eq((int)settings.log_level, LOG_LEVEL_DEBUG);
    assert_value(&settings, "log.level", "debug");
    ck_assert(assigns(&settings, "log.output", "syslog"));
    ck_assert_int_eq((int)settings.log_output, LOG_OUTPUT_SYSLOG);
    ck_assert(assigns(&settings, "log.output", "stderr"));
    ck_assert_int_eq((int)settings.log_output, LOG_OUTPUT_STDERR);
    ck_assert(!assigns(&settings, "log.output", "std"));
    ck_assert(!assigns(&settings, "log.output", ""));
    ck_assert(!assigns(&settings, "log.output", "stderr "));
    settings_free(&settings);
}
END_TEST

TEST(strings_are_copied_and_may_be_empty)
{
    struct settings settings;
    ck_assert(settings_init(&settings));
    char text[] = "/run/a b#c.pid";
    ck_assert(assigns(&settings, "pid_file", text));
    text[0] = 'x';
    ck_assert_str_eq(settings.pid_file, "/run/a b#c.pid");
    assert_value(&settings, "pid_file", "/run/a b#c.pid");
    ck_assert(assigns(&settings, "pid_file", "other"));
    ck_assert_str_eq(settings.pid_file, "other");
    ck_assert(assigns(&settings, "user", "www-data"));
    ck_assert(!assigns(&settings, "user", "a\nb"));
    ck_assert(!assigns(&settings, "user", "a\"b"));
    ck_assert_str_eq(settings.user, "www-data");
    ck_assert(assigns(&settings, "user", ""));
    ck_assert_ptr_null(settings.user);

    settings_free(&settings);
    ck_assert_ptr_null(settings.pid_file);
    settings_free(&settings);
}
END_TEST

TEST(addresses_are_numeric_and_each_once)
{
    static const struct {
        const char *text, *printed;
    } good[] = {
        {"0.0.0.0", "0.0.0.0"},
        {"::", "::"},
        {"[::1]", "::1"},
        {"127.0.0.1,::1", "127.0.0.1, ::1"},
        {"  127.0.0.1\t::1 , ,10.0.0.1,", "127.0.0.1, ::1, 10.0.0.1"},
        {"::1 0:0:0:0:0:0:0:1 [::1]", "::1"},
        {"2001:DB8::10", "2001:db8::10"},
        {"::ffff:192.0.2.1", "::ffff:192.0.2.1"},
        {"1111:2222:3333:4444:5555:6666:255.255.255.255",
         "1111:2222:3333:4444:5555:6666:ffff:ffff"},
    };
    static const char *const bad[] = {
        "",
        " , ",
        "localhost",
        "127.0.0.1:80",
        "[::1]:80",
        "127.1",
        "1.2.3.256",
        "[1.2.3.4]",
        "[::1",
        "::1]",
        "[]",
        "::1::",
        "1.2.3.4.5",
        "*",
        "fe80::1%lo",
        "1.2.3.4;::1",
        "1111:2222:3333:4444:5555:6666:7777:8888:9999",
        "1111:2222:3333:4444:5555:6666:255.255.255.2555",
    };
    struct settings settings;
    ck_assert(settings_init(&settings));
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        ck_assert_msg(assigns(&settings, "counter.listen", good[i].text), "%s", good[i].text);
        assert_value(&settings, "counter.listen", good[i].printed);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        ck_assert_msg(!assigns(&settings, "counter.listen", bad[i]), "%s", bad[i]);
    assert_value(&settings, "poolcounter.listen", "127.0.0.1, ::1");
    settings_free(&settings);
}
END_TEST

TEST(modes_are_octal)
{
    static const char *const bad[] = {"",   "8",     "0668", "1000", "00660",
                                      "rw", "0x1b0", " 660", "-1"};
    struct settings settings;
    ck_assert(settings_init(&settings));
    ck_assert(assigns(&settings, "counter.socket_mode", "600"));
    ck_assert_uint_eq(settings_protocol(&settings, BINARY)->socket_mode, 0600);
    assert_value(&settings, "counter.socket_mode", "0600");
    ck_assert(assigns(&settings, "counter.socket_mode", "0"));
    assert_value(&settings, "counter.socket_mode", "0000");
    ck_assert(assigns(&settings, "counter.socket_mode", "0777"));
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        ck_assert_msg(!assigns(&settings, "counter.socket_mode", bad[i]), "%s", bad[i]);
    assert_value(&settings, "counter.socket_mode", "0777");
    assert_reason("counter.socket_mode", "999",
                  "\"999\" is not a mode from 0000 to 0777, such as 0660");
    settings_free(&settings);
}
END_TEST

TEST(networks_may_be_none_and_are_each_once)
{
    static const struct {
        const char *text, *printed;
    } good[] = {
        {"", ""},
        {" , ", ""},
        {"10.0.0.0/8", "10.0.0.0/8"},
        {"192.0.2.7 2001:db8::/32,,10.0.0.0/8", "192.0.2.7/32, 2001:db8::/32, 10.0.0.0/8"},
        {"10.0.0.0/8 10.0.0.0/8 10.0.0.0/9", "10.0.0.0/8, 10.0.0.0/9"},
        {"0.0.0.0/0", "0.0.0.0/0"},
    };
    static const char *const bad[] = {"10.0.0.1/8", "10.0.0.0/33", "localhost",
                                      "10.0.0.0/",  "/8",          "10.0.0.0/8;10.1.0.0/16"};
    struct settings settings;
    ck_assert(settings_init(&settings));
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        char again[256];
        ck_assert_msg(assigns(&settings, "access.allow", good[i].text), "%s", good[i].text);
        options_to_text(&settings, row_of("access.allow"), again, sizeof again);
        ck_assert(assigns(&settings, "access.allow", again));
        assert_value(&settings, "access.allow", again);
        ck_assert_str_eq(again, good[i].printed);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        ck_assert_msg(!assigns(&settings, "access.allow", bad[i]), "%s", bad[i]);
    assert_value(&settings, "access.allow", "0.0.0.0/0");
    assert_reason("access.allow", "::1 10.0.0.1/8",
                  "\"10.0.0.1/8\" is not an address or a network, such as 192.0.2.7, 10.0.0.0/8 or "
                  "2001:db8::/32; the bits after the prefix must be 0");
    settings_free(&settings);
}
END_TEST

TEST(networks_are_256_at_most)
{
    static char text[8192];
    struct settings settings;
    ck_assert(settings_init(&settings));
    for (unsigned i = 0; i < 256; i++)
        append(text, sizeof text, "10.0.%u.0/24 ", i);
    ck_assert(assigns(&settings, "access.allow", text));
    ck_assert_uint_eq(settings.access_allow.count, 256);
    append(text, sizeof text, "10.0.0.0/24");
    ck_assert(assigns(&settings, "access.allow", text));
    append(text, sizeof text, " 10.1.0.0/24");
    assert_reason("access.allow", text, "more than 256 networks");
    settings_free(&settings);
}
END_TEST

/* A value other than the default, for each option. */
static const char *other_value(const struct option_row *row)
{
    switch (row->type) {
    case OPTION_BOOL:
        return strcmp(row->default_text, "true") == 0 ? "false" : "true";
    case OPTION_SIZE:
        return "16000K";
    case OPTION_CHOICE:
        return row->choices[strcmp(row->choices[0], row->default_text) == 0];
    case OPTION_STRING:
        return "other";
    case OPTION_ADDRESSES:
    case OPTION_NETWORKS:
        return "192.0.2.1";
    default:
        return strcmp(row->default_text, "64") == 0 ? "63" : row->max < 64 ? "7" : "64";
    }
}

TEST(options_are_compared_and_copied_one_by_one)
{
    const struct option_row *row, *other;
    struct settings a, b;
    for (size_t i = 0; (row = options_row_at(i)); i++) {
        const char *value =
            row->type == OPTION_SIZE && row->min > 16000 * 1024 ? "17M" : other_value(row);
        ck_assert(settings_init(&a));
        ck_assert(settings_init(&b));
        ck_assert(options_equal(&a, &b, row));
        (void)row_to_set(&a, row->key);
        ck_assert_msg(assigns(&b, row->key, value), "%s = %s", row->key, value);
        for (size_t j = 0; (other = options_row_at(j)); j++)
            ck_assert_msg(options_equal(&a, &b, other) == (i != j), "%s, %s", row->key, other->key);
        ck_assert(options_copy(&a, &b, row));
        for (size_t j = 0; (other = options_row_at(j)); j++)
            ck_assert(options_equal(&a, &b, other));
        /* A copied value does not share memory with the original. */
        ck_assert(assigns(&b, row->key, row->default_text));
        ck_assert(!options_equal(&a, &b, row));
        ck_assert(options_copy(&a, &b, row));
        ck_assert(options_equal(&a, &b, row));
        settings_free(&a);
        settings_free(&b);
    }
}
END_TEST

TEST(addresses_are_16_at_most)
{
    char text[512] = "";
    struct settings settings;
    ck_assert(settings_init(&settings));
    for (unsigned i = 1; i <= 16; i++)
        append(text, sizeof text, "10.0.0.%u ", i);
    ck_assert(assigns(&settings, "counter.listen", text));
    ck_assert_uint_eq(settings_protocol(&settings, BINARY)->listen.count, 16);
    append(text, sizeof text, "10.0.0.1");
    ck_assert(assigns(&settings, "counter.listen", text));
    append(text, sizeof text, " 10.0.0.17");
    assert_reason("counter.listen", text, "more than 16 addresses");
    settings_free(&settings);
}
END_TEST

TEST(reasons_say_what_would_be_right)
{
    assert_reason("counter.enable", "maybe", "\"maybe\" is neither true nor false");
    assert_reason("counter.port", "70000", "\"70000\" is not a number from 0 to 65535");
    assert_reason("counter.stats_interval", "0",
                  "\"0\" is not a number from 1 to 4294967295 seconds");
    assert_reason("counter.memory_limit", "1M",
                  "\"1M\" is not a size from 16M to 32G (bytes, or with K, M or G)");
    assert_reason("log.level", "loud", "\"loud\" is not one of error, warning, info or debug");
    assert_reason("log.output", "", "\"\" is not one of stderr or syslog");
    assert_reason("counter.listen", "::1, nowhere",
                  "\"nowhere\" is not a numeric IPv4 or IPv6 address, such as 127.0.0.1 or ::1");
    assert_reason("counter.listen", "", "at least one address is needed, such as 127.0.0.1 or ::1");
    assert_reason("user", "a\tb", "\"a\tb\" contains a quote or a control character");
}
END_TEST

TEST(a_token_is_printable)
{
    static char longest[OPTIONS_TOKEN_MAX + 1], longer[OPTIONS_TOKEN_MAX + 2];
    static const char wrong[] = "not 1 to 255 printable ASCII characters without blanks";
    struct settings settings;
    ck_assert(settings_init(&settings));
    memset(longest, '1', sizeof longest - 1);
    memset(longer, '1', sizeof longer - 1);
    ck_assert(assigns(&settings, "admin.token", "~!secret"));
    ck_assert(assigns(&settings, "admin.token", longest));
    settings_free(&settings);
    assert_reason("admin.token", longer, wrong);
    assert_reason("admin.token", "two words", wrong);
    assert_reason("admin.token", "\xc3\xa9", wrong);
    ck_assert(!options_is_token("", 0));
    ck_assert(!options_is_token("a\0b", 3));
    ck_assert(options_is_token("a b", 1));
}
END_TEST

TEST(of_a_token_only_a_digest_is_kept)
{
    struct settings settings;
    ck_assert(settings_init(&settings));
    ck_assert(assigns(&settings, "admin.token", "abc"));
    ck_assert_str_eq(settings.admin_token,
                     "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    ck_assert(assigns(&settings, "admin.token", ""));
    ck_assert_ptr_null(settings.admin_token);
    settings_free(&settings);
}
END_TEST

TEST(a_reason_shows_the_beginning_of_an_overlong_value)
{
    char text[4000], expected[OPTIONS_REASON_SIZE];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    snprintf(expected, sizeof expected, "\"%.100s...\" is not a number from 0 to 65535", text);
    assert_reason("counter.port", text, expected);
}
END_TEST

TEST(printing_stops_at_the_end_of_the_buffer)
{
    struct settings settings;
    char text[] = "########";
    ck_assert(settings_init(&settings));
    ck_assert_uint_eq(options_to_text(&settings, row_of("counter.listen"), text, 4), 14);
    ck_assert_str_eq(text, "127");
    ck_assert_str_eq(text + 4, "####");
    ck_assert_uint_eq(options_to_text(&settings, row_of("counter.listen"), NULL, 0), 14);
    ck_assert_uint_eq(options_to_text(&settings, row_of("user"), text, 4), 0);
    ck_assert_str_eq(text, "");
    ck_assert_uint_eq(options_range_text(row_of("log.level"), text, 3), 29);
    ck_assert_str_eq(text, "er");
    settings_free(&settings);
}
END_TEST

TEST(an_unknown_key_is_told_the_nearest)
{
    struct settings settings;
    ck_assert(settings_init(&settings));
    static const struct {
        const char *key, *nearest;
    } keys[] = {
        {"counter.prot", "counter.port"},
        {"counter.por", "counter.port"},
        {"counter.sport", "counter.port"},
        {"COUNTER.PORT", "counter.port"},
        {"counter port", "counter.port"},
        {"poolcounter.maxlocks", "poolcounter.max_locks"},
        {"pool_counter.max_lines", "poolcounter.max_line"},
        {"usr", "user"},
        {"pidfile", "pid_file"},
        {"log.levle", "log.level"},
        {"counter.stats_intervall", "counter.stats_interval"},
        {"limits.output_bufer", "limits.output_buffer"},
        {"x", NULL},
        {"", NULL},
        {"workers", NULL},
        {"memory", NULL},
        {"counter", NULL},
        {"counter.frobnicate", NULL},
        {"poolcounter.poolcounter.poolcounter.poolcounter.port", NULL},
    };
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        char reason[OPTIONS_REASON_SIZE], expected[OPTIONS_REASON_SIZE];
        ck_assert_ptr_null(options_to_set(&settings, keys[i].key, reason));
        if (keys[i].nearest)
            snprintf(expected, sizeof expected, "unknown key \"%s\"; did you mean \"%s\"?",
                     keys[i].key, keys[i].nearest);
        else
            snprintf(expected, sizeof expected,
                     "unknown key \"%s\"; counterd --help lists the keys", keys[i].key);
        ck_assert_str_eq(reason, expected);
    }
    settings_free(&settings);
}
END_TEST

TEST(a_word_of_several_keys_is_told_all_of_them)
{
    struct settings settings;
    ck_assert(settings_init(&settings));
    static const struct {
        const char *key, *reason;
    } words[] = {
        {"port", "unknown key \"port\"; did you mean \"counter.port\" or \"jobs.port\" or "
                 "\"poolcounter.port\" or \"admin.port\"?"},
        {"threads", "unknown key \"threads\"; did you mean \"counter.threads\"?"},
        {"level", "unknown key \"level\"; did you mean \"log.level\"?"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        char reason[OPTIONS_REASON_SIZE];
        ck_assert_ptr_null(options_to_set(&settings, words[i].key, reason));
        ck_assert_str_eq(reason, words[i].reason);
    }
    settings_free(&settings);
}
END_TEST

TEST(one_changed_letter_of_a_key_is_forgiven)
{
    struct settings settings;
    ck_assert(settings_init(&settings));
    const struct option_row *row;
    for (size_t i = 0; (row = options_row_at(i)); i++) {
        char key[64], reason[OPTIONS_REASON_SIZE], expected[128];
        snprintf(key, sizeof key, "%s", row->key);
        key[options_has(&settings, row) ? strlen(key) / 2 : strlen(key) - 1] = '~';
        ck_assert_ptr_null(options_to_set(&settings, key, reason));
        snprintf(expected, sizeof expected, "did you mean \"%s\"?", row->key);
        ck_assert_msg(strstr(reason, expected), "%s", reason);
    }
    settings_free(&settings);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(the_defaults_are_those_that_were_published),
    UNIT(every_row_is_complete_and_its_key_its_own),
    UNIT(options_are_shown_by_service_and_the_daemons_last),
    UNIT(every_default_is_printed_as_it_is_written),
    UNIT(every_number_is_bounded_on_both_sides),
    UNIT(what_is_no_number_is_refused),
    UNIT(sizes_know_k_m_and_g),
    UNIT(true_and_false_have_four_names_each),
    UNIT(choices_are_the_enums_of_the_log),
    UNIT(strings_are_copied_and_may_be_empty),
    UNIT(addresses_are_numeric_and_each_once),
    UNIT(modes_are_octal),
    UNIT(networks_may_be_none_and_are_each_once),
    UNIT(networks_are_256_at_most),
    UNIT(options_are_compared_and_copied_one_by_one),
    UNIT(addresses_are_16_at_most),
    UNIT(reasons_say_what_would_be_right),
    UNIT(a_token_is_printable),
    UNIT(of_a_token_only_a_digest_is_kept),
    UNIT(a_reason_shows_the_beginning_of_an_overlong_value),
    UNIT(printing_stops_at_the_end_of_the_buffer),
    UNIT(an_unknown_key_is_told_the_nearest),
    UNIT(a_word_of_several_keys_is_told_all_of_them),
    UNIT(one_changed_letter_of_a_key_is_forgiven),
};

UNIT_MAIN("daemon/options", tests)
