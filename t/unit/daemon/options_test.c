/*
 * options_test.c - the table of options, the file, and the command line.
 *
 * Files are written into a directory of the test's own, which `setting_up` makes; what would go to
 * standard error goes to a string, in which the directory's name is left out.
 */
#include "daemon/config_file.h"
#include "daemon/options.h"
#include "t/unit/unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- Frame ----------------------------------------------------------------------------------- */

/* What a test needs; made by make_frame, freed by free_frame. */
struct frame {
    char dir[64];
    char path[96]; /* DIR/c.conf */
    struct settings settings;
    FILE *err;
    char *said; /* what was said, with "DIR/" taken out; see said() */
    size_t said_size;
};

static struct frame make_frame(void)
{
    struct frame frame = {.dir = "/tmp/options_test.XXXXXX"};
    ck_assert_ptr_nonnull(mkdtemp(frame.dir));
    snprintf(frame.path, sizeof frame.path, "%s/c.conf", frame.dir);
    settings_init(&frame.settings);
    return frame;
}

static void free_frame(struct frame *frame)
{
    unlink(frame->path);
    ck_assert_int_eq(rmdir(frame->dir), 0);
    settings_free(&frame->settings);
    free(frame->said);
}

/* A stream for messages. */
static FILE *listen_for_errors(struct frame *frame)
{
    free(frame->said);
    frame->said = NULL;
    frame->err = open_memstream(&frame->said, &frame->said_size);
    ck_assert_ptr_nonnull(frame->err);
    return frame->err;
}

/* What has been said on it; ends it. */
static const char *said(struct frame *frame)
{
    fclose(frame->err);
    size_t len = strlen(frame->dir) + 1;
    for (char *at = frame->said; (at = strstr(at, frame->dir));)
        memmove(at, at + len, strlen(at + len) + 1);
    return frame->said;
}

static void write_bytes(struct frame *frame, const char *bytes, size_t len)
{
    FILE *to = fopen(frame->path, "w");
    ck_assert_ptr_nonnull(to);
    ck_assert_uint_eq(fwrite(bytes, 1, len, to), len);
    ck_assert_int_eq(fclose(to), 0);
}

static void write_text(struct frame *frame, const char *text)
{
    write_bytes(frame, text, strlen(text));
}

/* Loads a file of this content into fresh settings. */
static enum config_file_status load_bytes(struct frame *frame, const char *bytes, size_t len)
{
    settings_free(&frame->settings);
    write_bytes(frame, bytes, len);
    return config_file_load(&frame->settings, frame->path, listen_for_errors(frame));
}

static enum config_file_status load(struct frame *frame, const char *text)
{
    return load_bytes(frame, text, strlen(text));
}

static void assert_loads(struct frame *frame, const char *text)
{
    enum config_file_status status = load(frame, text);
    ck_assert_str_eq(said(frame), "");
    ck_assert_int_eq(status, CONFIG_FILE_READ);
}

static void assert_complains(struct frame *frame, const char *text, const char *message)
{
    enum config_file_status status = load(frame, text);
    ck_assert_str_eq(said(frame), message);
    ck_assert_int_eq(status, CONFIG_FILE_BAD);
}

static const struct options_row *row_of(const char *key)
{
    const struct options_row *row = options_find(key);
    ck_assert_msg(row, "no option %s", key);
    return row;
}

static bool assigns(struct settings *settings, const char *key, const char *text)
{
    char reason[OPTIONS_REASON_SIZE] = "";
    bool good = options_assign(settings, row_of(key), text, reason);
    ck_assert(good == (*reason == '\0'));
    return good;
}

static void assert_value(const struct settings *settings, const char *key, const char *text)
{
    char value[4200];
    size_t len = options_to_text(settings, row_of(key), value, sizeof value);
    ck_assert_str_eq(value, text);
    ck_assert_uint_eq(len, strlen(text));
}

static void assert_reason(const char *key, const char *text, const char *expected)
{
    struct settings settings;
    char reason[OPTIONS_REASON_SIZE];
    settings_init(&settings);
    ck_assert(!options_assign(&settings, row_of(key), text, reason));
    ck_assert_str_eq(reason, expected);
    settings_free(&settings);
}

static bool is_number(const struct options_row *row)
{
    return row->type == OPTIONS_PORT || row->type == OPTIONS_NUMBER || row->type == OPTIONS_SIZE;
}

/* Adds to the text in a buffer of `size` bytes. */
static void append(char *text, size_t size, const char *format, ...) PRINTF_LIKE(3, 4);
static void append(char *text, size_t size, const char *format, ...)
{
    size_t len = strlen(text);
    va_list values;
    va_start(values, format);
    vsnprintf(text + len, size - len, format, values);
    va_end(values);
}

/* --- The table ------------------------------------------------------------------------------- */

TEST(the_defaults_are_those_that_were_published)
{
    struct settings s;
    settings_init(&s);
    ck_assert(!s.counter.enable);
    ck_assert_uint_eq(s.counter.port, 11215);
    ck_assert_uint_eq(s.counter.max_connections, 0);
    ck_assert_uint_eq(s.counter_buckets, 16384);
    ck_assert_uint_eq(s.counter_stats_interval, 86400);
    ck_assert_uint_eq(s.counter_memory_limit, 1073741824);
    ck_assert_uint_eq(s.counter_threads, 0);
    ck_assert_uint_eq(s.counter_busy_poll, 0);
    ck_assert(s.poolcounter.enable);
    ck_assert_uint_eq(s.poolcounter.port, 7531);
    ck_assert_uint_eq(s.poolcounter.max_connections, 0);
    ck_assert_uint_eq(s.poolcounter_max_locks, 4);
    ck_assert_uint_eq(s.poolcounter_max_line, 8192);
    ck_assert_uint_eq(s.limits_request_timeout, 30);
    ck_assert_uint_eq(s.limits_write_timeout, 30);
    ck_assert_uint_eq(s.limits_output_buffer, 262144);
    ck_assert_uint_eq(s.upgrade_timeout, 5);
    ck_assert_int_eq((int)s.log_level, LOG_LEVEL_INFO);
    ck_assert_int_eq((int)s.log_output, LOG_OUTPUT_STDERR);
    ck_assert_int_eq((int)s.log_format, LOG_FORMAT_TEXT);
    ck_assert(s.counter.plain && s.poolcounter.plain);
    ck_assert_uint_eq(s.counter.tls_port, 0);
    ck_assert_uint_eq(s.poolcounter.tls_port, 0);
    ck_assert(!s.counter.socket && !s.poolcounter.socket);
    ck_assert_uint_eq(s.counter.socket_mode, 0660);
    ck_assert_uint_eq(s.poolcounter.socket_mode, 0660);
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
    ck_assert_str_eq(s.ignored_keys, "");

    const struct settings_addresses *lists[] = {&s.counter.listen, &s.poolcounter.listen,
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
}
END_TEST

TEST(every_row_is_complete_and_its_key_its_own)
{
    const struct options_row *row;
    size_t count = 0;
    for (; (row = options_row_at(count)); count++) {
        ck_assert_ptr_eq(options_find(row->key), row);
        if (row->alias)
            ck_assert_ptr_eq(options_find(row->alias), row);
        ck_assert(row->default_text && row->unit && row->help && *row->help);
        ck_assert_uint_lt(row->offset, sizeof(struct settings));
        ck_assert((row->type == OPTIONS_CHOICE) == (row->choices != NULL));
        ck_assert(!is_number(row) || row->min < row->max);
        ck_assert(!row->by_l || row->type == OPTIONS_ADDRESSES);
        ck_assert(!row->secret || row->type == OPTIONS_STRING);
        for (size_t i = 0; i < count; i++)
            ck_assert_uint_ne(row->offset, options_row_at(i)->offset);
    }
    ck_assert_uint_eq(count, 49);
    ck_assert_uint_le(count, OPTIONS_MAX);
    ck_assert_ptr_null(options_row_at(SIZE_MAX));
    ck_assert_ptr_null(options_find(""));
    ck_assert_ptr_null(options_find("counter"));
    ck_assert_ptr_null(options_find("Counter.port"));
}
END_TEST

TEST(every_default_is_printed_as_it_is_written)
{
    struct settings settings;
    const struct options_row *row;
    settings_init(&settings);
    for (size_t i = 0; (row = options_row_at(i)); i++) {
        assert_value(&settings, row->key, row->default_text);
        ck_assert(assigns(&settings, row->key, row->default_text));
        assert_value(&settings, row->key, row->default_text);
    }
    settings_free(&settings);
}
END_TEST

/* Tries one number. */
static void try_number(const struct options_row *row, uint64_t value, bool allowed)
{
    struct settings settings;
    char text[32], printed[32];
    settings_init(&settings);
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    ck_assert_msg(assigns(&settings, row->key, text) == allowed, "%s = %s", row->key, text);
    if (!allowed) {
        assert_value(&settings, row->key, row->default_text);
    } else {
        /* What is printed is the same value. */
        struct settings again;
        char reprinted[32];
        settings_init(&again);
        options_to_text(&settings, row, printed, sizeof printed);
        ck_assert(assigns(&again, row->key, printed));
        options_to_text(&again, row, reprinted, sizeof reprinted);
        ck_assert_str_eq(printed, reprinted);
        if (row->type != OPTIONS_SIZE)
            ck_assert_str_eq(printed, text);
    }
}

TEST(every_number_is_bounded_on_both_sides)
{
    const struct options_row *row;
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
        /* What wraps to a value in the range is out of it nevertheless. */
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
    settings_init(&settings);
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        ck_assert_msg(!assigns(&settings, "counter.max_connections", texts[i]), "%s", texts[i]);
        ck_assert_msg(!assigns(&settings, "counter.port", texts[i]), "%s", texts[i]);
    }
    ck_assert(assigns(&settings, "counter.port", "0007"));
    ck_assert_uint_eq(settings.counter.port, 7);
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
    settings_init(&settings);
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        ck_assert(assigns(&settings, "counter.memory_limit", good[i].text));
        ck_assert_uint_eq(settings.counter_memory_limit, good[i].value);
        assert_value(&settings, "counter.memory_limit", good[i].printed);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        ck_assert_msg(!assigns(&settings, "counter.memory_limit", bad[i]), "%s", bad[i]);
    assert_value(&settings, "counter.memory_limit", "1536M");
}
END_TEST

TEST(true_and_false_have_four_names_each)
{
    static const char *const yes[] = {"true", "yes", "on", "1"};
    static const char *const no[] = {"false", "no", "off", "0"};
    static const char *const neither[] = {"", "2", "TRUE", "t", "truey", "tru", "yes no"};
    struct settings settings;
    settings_init(&settings);
    for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
        ck_assert(assigns(&settings, "counter.enable", yes[i]));
        ck_assert(settings.counter.enable);
        assert_value(&settings, "counter.enable", "true");
        ck_assert(assigns(&settings, "counter.enable", no[i]));
        ck_assert(!settings.counter.enable);
        assert_value(&settings, "counter.enable", "false");
    }
    for (size_t i = 0; i < ARRAY_SIZE(neither); i++)
        ck_assert(!assigns(&settings, "counter.enable", neither[i]));
}
END_TEST

TEST(choices_are_the_enums_of_the_log)
{
    struct settings settings;
    settings_init(&settings);
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
}
END_TEST

TEST(strings_are_copied_and_may_be_empty)
{
    struct settings settings;
    settings_init(&settings);
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
    settings_free(NULL);
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
    settings_init(&settings);
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        ck_assert_msg(assigns(&settings, "counter.listen", good[i].text), "%s", good[i].text);
        assert_value(&settings, "counter.listen", good[i].printed);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        ck_assert_msg(!assigns(&settings, "counter.listen", bad[i]), "%s", bad[i]);
    assert_value(&settings, "poolcounter.listen", "127.0.0.1, ::1");
}
END_TEST

TEST(modes_are_octal)
{
    static const char *const bad[] = {"",   "8",     "0668", "1000", "00660",
                                      "rw", "0x1b0", " 660", "-1"};
    struct settings settings;
    settings_init(&settings);
    ck_assert(assigns(&settings, "counter.socket_mode", "600"));
    ck_assert_uint_eq(settings.counter.socket_mode, 0600);
    assert_value(&settings, "counter.socket_mode", "0600");
    ck_assert(assigns(&settings, "counter.socket_mode", "0"));
    assert_value(&settings, "counter.socket_mode", "0000");
    ck_assert(assigns(&settings, "counter.socket_mode", "0777"));
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        ck_assert_msg(!assigns(&settings, "counter.socket_mode", bad[i]), "%s", bad[i]);
    assert_value(&settings, "counter.socket_mode", "0777");
    assert_reason("counter.socket_mode", "999",
                  "\"999\" is not a mode from 0000 to 0777, such as 0660");
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
    settings_init(&settings);
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
                  "2001:db8::/32; the bits after the first so many must be 0");
}
END_TEST

TEST(networks_are_256_at_most)
{
    static char text[8192];
    struct settings settings;
    settings_init(&settings);
    for (unsigned i = 0; i < 256; i++)
        append(text, sizeof text, "10.0.%u.0/24 ", i);
    ck_assert(assigns(&settings, "access.allow", text));
    ck_assert_uint_eq(settings.access_allow.count, 256);
    append(text, sizeof text, "10.0.0.0/24");
    ck_assert(assigns(&settings, "access.allow", text));
    append(text, sizeof text, " 10.1.0.0/24");
    assert_reason("access.allow", text, "more than 256 networks");
}
END_TEST

/* Another value than its default, for each option. */
static const char *other_value(const struct options_row *row)
{
    switch (row->type) {
    case OPTIONS_BOOL:
        return strcmp(row->default_text, "true") == 0 ? "false" : "true";
    case OPTIONS_SIZE:
        return "16000K";
    case OPTIONS_CHOICE:
        return row->choices[strcmp(row->choices[0], row->default_text) == 0];
    case OPTIONS_STRING:
        return "other";
    case OPTIONS_ADDRESSES:
    case OPTIONS_NETWORKS:
        return "192.0.2.1";
    default:
        return "64";
    }
}

TEST(options_are_compared_and_copied_one_by_one)
{
    const struct options_row *row, *other;
    struct settings a, b;
    for (size_t i = 0; (row = options_row_at(i)); i++) {
        const char *value =
            row->type == OPTIONS_SIZE && row->min > 16000 * 1024 ? "17M" : other_value(row);
        settings_init(&a);
        settings_init(&b);
        ck_assert(options_equal(&a, &b, row));
        ck_assert_msg(assigns(&b, row->key, value), "%s = %s", row->key, value);
        for (size_t j = 0; (other = options_row_at(j)); j++)
            ck_assert_msg(options_equal(&a, &b, other) == (i != j), "%s, %s", row->key, other->key);
        ck_assert(options_copy(&a, &b, row));
        for (size_t j = 0; (other = options_row_at(j)); j++)
            ck_assert(options_equal(&a, &b, other));
        /* The copy is its own, and goes back. */
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
    settings_init(&settings);
    for (unsigned i = 1; i <= 16; i++)
        append(text, sizeof text, "10.0.0.%u ", i);
    ck_assert(assigns(&settings, "counter.listen", text));
    ck_assert_uint_eq(settings.counter.listen.count, 16);
    append(text, sizeof text, "10.0.0.1");
    ck_assert(assigns(&settings, "counter.listen", text));
    append(text, sizeof text, " 10.0.0.17");
    assert_reason("counter.listen", text, "more than 16 addresses");
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
    assert_reason("user", "a\tb", "\"a\tb\" holds a quote or a control character");
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
    settings_init(&settings);
    ck_assert_uint_eq(options_to_text(&settings, row_of("counter.listen"), text, 4), 14);
    ck_assert_str_eq(text, "127");
    ck_assert_str_eq(text + 4, "####");
    ck_assert_uint_eq(options_to_text(&settings, row_of("counter.listen"), NULL, 0), 14);
    ck_assert_uint_eq(options_to_text(&settings, row_of("user"), text, 4), 0);
    ck_assert_str_eq(text, "");
    ck_assert_uint_eq(options_range_text(row_of("log.level"), text, 3), 29);
    ck_assert_str_eq(text, "er");
}
END_TEST

TEST(an_unknown_key_is_told_the_nearest)
{
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
        options_unknown_key(keys[i].key, reason);
        if (keys[i].nearest)
            snprintf(expected, sizeof expected, "unknown key \"%s\"; did you mean \"%s\"?",
                     keys[i].key, keys[i].nearest);
        else
            snprintf(expected, sizeof expected,
                     "unknown key \"%s\"; counterd --help lists the keys", keys[i].key);
        ck_assert_str_eq(reason, expected);
    }
}
END_TEST

TEST(a_word_of_several_keys_is_told_all_of_them)
{
    static const struct {
        const char *key, *reason;
    } words[] = {
        {"port", "unknown key \"port\"; did you mean \"counter.port\" or \"poolcounter.port\" or "
                 "\"admin.port\"?"},
        {"threads", "unknown key \"threads\"; did you mean \"counter.threads\"?"},
        {"level", "unknown key \"level\"; did you mean \"log.level\"?"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        char reason[OPTIONS_REASON_SIZE];
        options_unknown_key(words[i].key, reason);
        ck_assert_str_eq(reason, words[i].reason);
    }
}
END_TEST

TEST(one_changed_letter_of_a_key_is_forgiven)
{
    const struct options_row *row;
    for (size_t i = 0; (row = options_row_at(i)); i++) {
        char key[64], reason[OPTIONS_REASON_SIZE], expected[128];
        snprintf(key, sizeof key, "%s", row->key);
        key[strlen(key) / 2] = '~';
        options_unknown_key(key, reason);
        snprintf(expected, sizeof expected, "did you mean \"%s\"?", row->key);
        ck_assert_msg(strstr(reason, expected), "%s", reason);
    }
}
END_TEST

/* --- The file -------------------------------------------------------------------------------- */

TEST(a_file_sets_what_it_says)
{
    struct frame frame = make_frame();
    assert_loads(&frame, "# a comment\n"
                         "\n"
                         "  \t \n"
                         "counter.enable = true\n"
                         "counter.port=1\n"
                         "\t counter.buckets \t=\t 5 \t \n"
                         "counter.threads = 3# three\n"
                         "counter.max_connections = \"9\" # nine\n"
                         "counter.listen = 10.0.0.1 ::2 # two = too\n"
                         "user = \" a #b \"\n"
                         "group =\n"
                         "pid_file = /run/x y.pid   # with a blank\n"
                         "log.level = \"debug\"\n"
                         "   # indented\n"
                         "limits.output_buffer = 1M");
    const struct settings *s = &frame.settings;
    ck_assert(s->counter.enable);
    ck_assert_uint_eq(s->counter.port, 1);
    ck_assert_uint_eq(s->counter_buckets, 5);
    ck_assert_uint_eq(s->counter_threads, 3);
    ck_assert_uint_eq(s->counter.max_connections, 9);
    assert_value(s, "counter.listen", "10.0.0.1, ::2");
    ck_assert_str_eq(s->user, " a #b ");
    ck_assert_ptr_null(s->group);
    ck_assert_str_eq(s->pid_file, "/run/x y.pid");
    ck_assert_int_eq((int)s->log_level, LOG_LEVEL_DEBUG);
    ck_assert_uint_eq(s->limits_output_buffer, 1048576);
    ck_assert_uint_eq(s->poolcounter.port, 7531);
    free_frame(&frame);
}
END_TEST

TEST(lines_may_end_in_cr_lf)
{
    struct frame frame = make_frame();
    assert_loads(&frame, "counter.port = 5\r\n\r\n# x\r\nuser = \"me\"\r\ngroup = us\r");
    ck_assert_uint_eq(frame.settings.counter.port, 5);
    ck_assert_str_eq(frame.settings.user, "me");
    ck_assert_str_eq(frame.settings.group, "us");
    assert_complains(&frame, "counter.port = 5\r\r\n",
                     "counterd: c.conf:1: counter.port: \"5\\x0d\" is not a number from 0 to "
                     "65535\n");
    free_frame(&frame);
}
END_TEST

/* The number that the next file to be opened gets. */
static int next_fd(void)
{
    int fd = open("/dev/null", O_RDONLY);
    ck_assert_int_ne(fd, -1);
    close(fd);
    return fd;
}

TEST(a_file_is_closed_again)
{
    struct frame frame = make_frame();
    int fd = next_fd();
    assert_loads(&frame, "");
    ck_assert_int_eq(next_fd(), fd);
    assert_complains(&frame, "x", "counterd: c.conf:1: neither \"key = value\" nor a comment\n");
    ck_assert_int_eq(next_fd(), fd);
    free_frame(&frame);
}
END_TEST

TEST(a_byte_order_mark_before_the_first_line_is_skipped)
{
    struct frame frame = make_frame();
    assert_loads(&frame, "\xef\xbb\xbf"
                         "counter.port = 5\n");
    ck_assert_uint_eq(frame.settings.counter.port, 5);
    assert_loads(&frame, "\xef\xbb\xbf");
    assert_complains(&frame,
                     "\n\xef\xbb\xbf"
                     "user = me\n",
                     "counterd: c.conf:2: unknown key \"\\xef\\xbb\\xbfuser\"; counterd --help "
                     "lists the keys\n");
    free_frame(&frame);
}
END_TEST

TEST(empty_files_are_good)
{
    struct frame frame = make_frame();
    assert_loads(&frame, "");
    assert_loads(&frame, "\n");
    assert_loads(&frame, "#");
    assert_loads(&frame, "\r\n\n\n");
    free_frame(&frame);
}
END_TEST

TEST(a_mistake_is_said_with_its_line)
{
    static const struct {
        const char *text, *message;
    } mistakes[] = {
        {"\n\ncounter.prot = 1\n",
         "c.conf:3: unknown key \"counter.prot\"; did you mean \"counter.port\"?"},
        {"frobnicate = 1", "c.conf:1: unknown key \"frobnicate\"; counterd --help lists the keys"},
        {"counter.port = 65536",
         "c.conf:1: counter.port: \"65536\" is not a number from 0 to 65535"},
        {"counter.port =", "c.conf:1: counter.port: \"\" is not a number from 0 to 65535"},
        {"counter.port = # 3", "c.conf:1: counter.port: \"\" is not a number from 0 to 65535"},
        {"counter.port = 1 2", "c.conf:1: counter.port: \"1 2\" is not a number from 0 to 65535"},
        {"counter.port", "c.conf:1: neither \"key = value\" nor a comment"},
        {"counter.port # = 3", "c.conf:1: neither \"key = value\" nor a comment"},
        {"[counter]", "c.conf:1: neither \"key = value\" nor a comment"},
        {" = 3", "c.conf:1: neither \"key = value\" nor a comment"},
        {"=", "c.conf:1: neither \"key = value\" nor a comment"},
        {"user = \"me", "c.conf:1: user: the closing quote is missing"},
        {"user = \"", "c.conf:1: user: the closing quote is missing"},
        {"user = me\"", "c.conf:1: user: a quote inside the value; quotes go around all of it"},
        {"user = \"me\" you", "c.conf:1: user: something follows the closing quote; quotes go "
                              "around all of the value"},
        {"user = \"me\"\"", "c.conf:1: user: something follows the closing quote; quotes go "
                            "around all of the value"},
        {"user = a\nuser = b", "c.conf:2: user: set on line 1 already"},
        {"user = a\n\nuser = a", "c.conf:3: user: set on line 1 already"},
        {"counter.stat_interval = 1\ncounter.stats_interval = 1",
         "c.conf:2: counter.stats_interval: set on line 1 already, as counter.stat_interval, which "
         "is the same"},
        {"counter.stats_interval = 1\ncounter.stat_interval = 1",
         "c.conf:2: counter.stat_interval: set on line 1 already, as counter.stats_interval, which "
         "is the same"},
        {"counter.stat_interval = 1\ncounter.stat_interval = 2",
         "c.conf:2: counter.stat_interval: set on line 1 already"},
        {"counter.listen = 127.0.0.1, localhost",
         "c.conf:1: counter.listen: \"localhost\" is not a numeric IPv4 or IPv6 address, such as "
         "127.0.0.1 or ::1"},
        {"us\033[31mer\x80 = x",
         "c.conf:1: unknown key \"us\\x1b[31mer\\x80\"; counterd --help lists the keys"},
        {"counter.port = \a\x7f",
         "c.conf:1: counter.port: \"\\x07\\x7f\" is not a number from 0 to 65535"},
    };
    struct frame frame = make_frame();
    for (size_t i = 0; i < ARRAY_SIZE(mistakes); i++) {
        char message[512];
        snprintf(message, sizeof message, "counterd: %s\n", mistakes[i].message);
        assert_complains(&frame, mistakes[i].text, message);
    }
    free_frame(&frame);
}
END_TEST

TEST(all_mistakes_of_a_file_are_said)
{
    struct frame frame = make_frame();
    assert_complains(
        &frame,
        "counter.port = x\ncounter.enable = true\njunk\nusr = me\n"
        "counter.threads = 257\n",
        "counterd: c.conf:1: counter.port: \"x\" is not a number from 0 to 65535\n"
        "counterd: c.conf:3: neither \"key = value\" nor a comment\n"
        "counterd: c.conf:4: unknown key \"usr\"; did you mean \"user\"?\n"
        "counterd: c.conf:5: counter.threads: \"257\" is not a number from 0 to 256\n");
    free_frame(&frame);
}
END_TEST

TEST(twenty_mistakes_are_enough)
{
    struct frame frame = make_frame();
    char text[200] = "", expected[4000] = "";
    for (int i = 1; i <= 60; i++) {
        append(text, sizeof text, "x\n");
        if (i <= 20)
            append(expected, sizeof expected,
                   "counterd: c.conf:%d: neither \"key = value\" nor a comment\n", i);
    }
    append(expected, sizeof expected,
           "counterd: c.conf: too many mistakes; the rest was not looked at\n");
    assert_complains(&frame, text, expected);
    free_frame(&frame);
}
END_TEST

TEST(nul_bytes_are_mistakes)
{
    static const char bytes[] = "counter.port = 5\0 6\nuser = \0\n\0";
    struct frame frame = make_frame();
    ck_assert_int_eq(load_bytes(&frame, bytes, sizeof bytes), CONFIG_FILE_BAD);
    ck_assert_str_eq(said(&frame), "counterd: c.conf:1: the line holds a NUL byte\n"
                                   "counterd: c.conf:2: the line holds a NUL byte\n"
                                   "counterd: c.conf:3: the line holds a NUL byte\n");
    ck_assert_uint_eq(frame.settings.counter.port, 11215);
    free_frame(&frame);
}
END_TEST

/* A line "user = xxx..." of `len` bytes and what follows it. */
static char *long_line(size_t len, const char *rest)
{
    size_t size = len + strlen(rest) + 1;
    char *text = malloc(size);
    ck_assert_ptr_nonnull(text);
    memset(text, 'x', len);
    memcpy(text, "user = ", 7);
    text[len] = '\0';
    append(text, size, "%s", rest);
    return text;
}

TEST(a_line_is_4096_bytes_long_at_most)
{
    static const char *const ends[] = {"", "\n", "\r\n", "\ncounter.port = 5"};
    struct frame frame = make_frame();
    for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
        char *text = long_line(4096, ends[i]);
        assert_loads(&frame, text);
        ck_assert_uint_eq(strlen(frame.settings.user), 4096 - 7);
        free(text);
        text = long_line(4097, ends[i]);
        assert_complains(&frame, text, "counterd: c.conf:1: the line is longer than 4096 bytes\n");
        ck_assert_ptr_null(frame.settings.user);
        free(text);
    }
    static const char *const carriage_returns[] = {"\rx\n", "\r\r\n", "\rxx\r\n"};
    for (size_t i = 0; i < ARRAY_SIZE(carriage_returns); i++) {
        char *text = long_line(4096, carriage_returns[i]);
        assert_complains(&frame, text, "counterd: c.conf:1: the line is longer than 4096 bytes\n");
        free(text);
    }
    char *text = long_line(900000, "\nx\n");
    assert_complains(&frame, text,
                     "counterd: c.conf:1: the line is longer than 4096 bytes\n"
                     "counterd: c.conf:2: neither \"key = value\" nor a comment\n");
    free(text);
    free_frame(&frame);
}
END_TEST

TEST(a_file_has_an_end)
{
    struct frame frame = make_frame();
    char *text = malloc(1048578);
    ck_assert_ptr_nonnull(text);
    memset(text, '\n', 1048577);
    text[1048577] = '\0';
    assert_loads(&frame, text + 1);
    assert_complains(&frame, text,
                     "counterd: c.conf:1048577: the file is larger than 1048576 "
                     "bytes\n");
    free(text);

    ck_assert_int_eq(truncate(frame.path, 0), 0);
    ck_assert_int_eq(truncate(frame.path, 1L << 40), 0);
    ck_assert_int_eq(config_file_load(&frame.settings, frame.path, listen_for_errors(&frame)),
                     CONFIG_FILE_BAD);
    ck_assert_str_eq(said(&frame), "counterd: c.conf:1: the file is larger than 1048576 bytes\n");
    free_frame(&frame);
}
END_TEST

TEST(what_cannot_be_read_is_a_mistake)
{
    struct frame frame = make_frame();
    ck_assert_int_eq(config_file_load(&frame.settings, frame.path, listen_for_errors(&frame)),
                     CONFIG_FILE_MISSING);
    ck_assert_str_eq(said(&frame), "");

    ck_assert_int_eq(mkdir(frame.path, 0700), 0);
    ck_assert_int_eq(config_file_load(&frame.settings, frame.path, listen_for_errors(&frame)),
                     CONFIG_FILE_BAD);
    ck_assert_str_eq(said(&frame), "counterd: c.conf: cannot be read: Is a directory\n");
    ck_assert_int_eq(rmdir(frame.path), 0);

    ck_assert_int_eq(symlink("c.conf", frame.path), 0);
    ck_assert_int_eq(config_file_load(&frame.settings, frame.path, listen_for_errors(&frame)),
                     CONFIG_FILE_BAD);
    ck_assert_str_eq(said(&frame),
                     "counterd: c.conf: cannot be read: Too many levels of symbolic links\n");
    unlink(frame.path);

    ck_assert_int_eq(mkfifo(frame.path, 0600), 0);
    ck_assert_int_eq(config_file_load(&frame.settings, frame.path, listen_for_errors(&frame)),
                     CONFIG_FILE_BAD);
    ck_assert_str_eq(said(&frame), "counterd: c.conf: cannot be read: Not a regular file\n");
    unlink(frame.path);

    write_text(&frame, "");
    ck_assert_int_eq(chmod(frame.path, 0), 0);
    if (access(frame.path, R_OK) != 0) { /* root may read it all the same */
        ck_assert_int_eq(config_file_load(&frame.settings, frame.path, listen_for_errors(&frame)),
                         CONFIG_FILE_BAD);
        ck_assert_str_eq(said(&frame), "counterd: c.conf: cannot be read: Permission denied\n");
    }
    free_frame(&frame);
}
END_TEST

TEST(a_file_that_fails_while_it_is_read_is_a_mistake)
{
    struct frame frame = make_frame();
    ck_assert_int_eq(config_file_load(&frame.settings, "/proc/self/mem", listen_for_errors(&frame)),
                     CONFIG_FILE_BAD);
    ck_assert_str_eq(said(&frame),
                     "counterd: /proc/self/mem: cannot be read: Input/output error\n");
    free_frame(&frame);
}
END_TEST

TEST(a_yrmcds_conf_is_accepted)
{
    struct frame frame = make_frame();
    assert_loads(&frame, "user = yrmcds\ngroup = yrmcds\n"
                         "virtual_ip = 127.0.0.1\nport = 11211\nrepl_port = 11213\n"
                         "bind_ip = 10.0.0.1 10.0.0.2\nmax_connections = 10000\n"
                         "temp_dir = \"/var/tmp/yrmcds\"\nlog.threshold = info\n"
                         "log.file = \"/var/log/yrmcds.log\"\nbuckets = 1000000\n"
                         "max_data_size = 10M\nheap_data_limit = 256K\nrepl_buffer_size = 30\n"
                         "initial_repl_sleep_delay_usec = 0\nsecure_erase = false\n"
                         "lock_memory = false\nmemory_limit = 1024M\nworkers = 10\n"
                         "gc_interval = 10\nslave_timeout = 10\n"
                         "counter.enable = true\ncounter.port = 11216\n"
                         "counter.max_connections = 7\ncounter.buckets = 1000\n"
                         "counter.stat_interval = 3600\n");
    const struct settings *s = &frame.settings;
    ck_assert_str_eq(s->ignored_keys,
                     "virtual_ip, port, repl_port, bind_ip, max_connections, temp_dir, "
                     "log.threshold, log.file, buckets, max_data_size, heap_data_limit, "
                     "repl_buffer_size, initial_repl_sleep_delay_usec, secure_erase, lock_memory, "
                     "memory_limit, workers, gc_interval, slave_timeout");
    ck_assert_str_eq(s->user, "yrmcds");
    ck_assert_str_eq(s->group, "yrmcds");
    ck_assert(s->counter.enable);
    ck_assert_uint_eq(s->counter.port, 11216);
    ck_assert_uint_eq(s->counter.max_connections, 7);
    ck_assert_uint_eq(s->counter_buckets, 1000);
    ck_assert_uint_eq(s->counter_stats_interval, 3600);
    ck_assert_uint_eq(s->counter_memory_limit, 1073741824);
    free_frame(&frame);
}
END_TEST

TEST(a_yrmcds_conf_is_told_what_is_ignored_and_where_we_listen)
{
    struct frame frame = make_frame();
    char notice[256];
    assert_loads(&frame, "workers = 10\nport = 11211\n");
    options_ignored_text(&frame.settings, notice, sizeof notice);
    ck_assert_str_eq(notice, "options of yrmcds that mean nothing here are ignored: workers, port");
    assert_loads(&frame, "workers = 10\ncounter.enable = true\n");
    size_t len = options_ignored_text(&frame.settings, notice, sizeof notice);
    ck_assert_str_eq(notice, "options of yrmcds that mean nothing here are ignored: workers; "
                             "unlike yrmcds, counterd listens only where counter.listen says: "
                             "127.0.0.1, ::1");
    ck_assert_uint_eq(len, strlen(notice));
    free_frame(&frame);
}
END_TEST

TEST(keys_of_yrmcds_are_named_once_and_their_values_not_looked_at)
{
    struct frame frame = make_frame();
    assert_loads(&frame, "workers = \"10\nport = \"a\" b\nworkers = many\nport =\n");
    ck_assert_str_eq(frame.settings.ignored_keys, "workers, port");
    /* A file that is loaded over another does not add to its notes. */
    write_text(&frame, "buckets = 3\n");
    ck_assert_int_eq(config_file_load(&frame.settings, frame.path, listen_for_errors(&frame)),
                     CONFIG_FILE_READ);
    ck_assert_str_eq(said(&frame), "");
    ck_assert_str_eq(frame.settings.ignored_keys, "buckets");
    free_frame(&frame);
}
END_TEST

/* --- The command line ------------------------------------------------------------------------ */

/* Reads a command line into fresh settings; the last argument is NULL. */
static struct options_request run(struct frame *frame, ...)
{
    char *argv[32] = {strdup("counterd")};
    int argc = 1;
    va_list values;
    va_start(values, frame);
    for (const char *argument; (argument = va_arg(values, const char *));)
        argv[argc++] = strdup(argument);
    va_end(values);

    settings_free(&frame->settings);
    struct options_request request =
        options_command_line(argc, argv, false, &frame->settings, listen_for_errors(frame));
    if (frame->settings.file) { /* it points into argv, and at the frame's path when we gave that */
        ck_assert_str_eq(frame->settings.file, frame->path);
        frame->settings.file = frame->path;
    }
    for (int i = 0; i < argc; i++)
        free(argv[i]);
    return request;
}

/* Expects an error of this status and these messages. */
#define ASSERT_FAILS(frame, status, message, ...)                                                  \
    do {                                                                                           \
        struct options_request request = run(frame, __VA_ARGS__, NULL);                            \
        ck_assert_str_eq(said(frame), message);                                                    \
        ck_assert_int_eq(request.action, OPTIONS_ERROR);                                           \
        ck_assert_int_eq(request.exit_status, status);                                             \
    } while (0)

/* Expects success. */
#define ASSERT_ACTION(frame, expected, ...)                                                        \
    do {                                                                                           \
        struct options_request request = run(frame, __VA_ARGS__, NULL);                            \
        ck_assert_str_eq(said(frame), "");                                                         \
        ck_assert_int_eq(request.action, expected);                                                \
        ck_assert_int_eq(request.exit_status, 0);                                                  \
    } while (0)

TEST(flags_say_what_to_do)
{
    struct frame frame = make_frame();
    write_text(&frame, "counter.port = 5\n");
    ASSERT_ACTION(&frame, OPTIONS_RUN, "-f", frame.path);
    ck_assert_uint_eq(frame.settings.counter.port, 5);
    ASSERT_ACTION(&frame, OPTIONS_CHECK, "-t", "-f", frame.path);
    ASSERT_ACTION(&frame, OPTIONS_CHECK, "-tf", frame.path, "--");
    ASSERT_ACTION(&frame, OPTIONS_VERSION, "-V");
    ASSERT_ACTION(&frame, OPTIONS_VERSION, "--version");
    ASSERT_ACTION(&frame, OPTIONS_HELP, "-h");
    ASSERT_ACTION(&frame, OPTIONS_HELP, "--help", "-f", "/no/such/file");
    ck_assert_uint_eq(frame.settings.counter.port, 11215);
    free_frame(&frame);
}
END_TEST

TEST(the_settings_name_the_file_that_was_read)
{
    struct frame frame = make_frame();
    write_text(&frame, "");
    ASSERT_ACTION(&frame, OPTIONS_RUN, "-f", frame.path);
    ck_assert_ptr_eq(frame.settings.file, frame.path);
    ck_assert_int_eq(strncmp(options_default_file(), "/", 1), 0);
    ck_assert_str_eq(strrchr(options_default_file(), '/'), "/counter.conf");
    free_frame(&frame);
}
END_TEST

TEST(wrong_flags_end_with_status_2)
{
    struct frame frame = make_frame();
    ASSERT_FAILS(&frame, 2, "counterd: unknown flag -x; counterd --help lists them\n", "-x");
    ASSERT_FAILS(&frame, 2, "counterd: unknown flag -x; counterd --help lists them\n", "-tx");
    ASSERT_FAILS(&frame, 2, "counterd: unknown flag --frob; counterd --help lists them\n",
                 "--frob");
    ASSERT_FAILS(&frame, 2, "counterd: unknown flag --help=x; counterd --help lists them\n",
                 "--help=x");
    ASSERT_FAILS(&frame, 2, "counterd: unknown flag -\\x01; counterd --help lists them\n", "-\001");
    ASSERT_FAILS(&frame, 2, "counterd: the argument of -f is missing\n", "-f");
    ASSERT_FAILS(&frame, 2, "counterd: the argument of -o is missing\n", "-t", "-o");
    ASSERT_FAILS(&frame, 2, "counterd: the argument of -l is missing\n", "-l");
    ASSERT_FAILS(&frame, 2, "counterd: -f is given twice\n", "-f", "a", "-f", "b");
    ASSERT_FAILS(&frame, 2, "counterd: \"start\" is no flag; counterd --help lists them\n", "start",
                 "-h");
    ASSERT_FAILS(&frame, 2, "counterd: \"-h\" is no flag; counterd --help lists them\n", "--",
                 "-h");
    free_frame(&frame);
}
END_TEST

TEST(a_file_that_is_named_must_exist)
{
    struct frame frame = make_frame();
    ASSERT_FAILS(&frame, 2, "counterd: c.conf: no such file\n", "-f", frame.path);
    ASSERT_FAILS(&frame, 2, "counterd: c.conf: no such file\n", "-t", "-f", frame.path);
    ASSERT_FAILS(&frame, 2, "counterd: : no such file\n", "-f", "");
    free_frame(&frame);
}
END_TEST

TEST(o_goes_over_the_file_and_the_last_holds)
{
    struct frame frame = make_frame();
    write_text(&frame, "counter.port = 5\ncounter.threads = 5\nuser = five\n");
    ASSERT_ACTION(&frame, OPTIONS_RUN, "-o", "counter.port=6", "-f", frame.path, "-o",
                  " counter.port = 7 ", "-o", "user=\"a b\"", "-ocounter.stat_interval=9", "-o",
                  "pid_file=a#b");
    ck_assert_uint_eq(frame.settings.counter.port, 7);
    ck_assert_uint_eq(frame.settings.counter_threads, 5);
    ck_assert_str_eq(frame.settings.user, "a b");
    ck_assert_uint_eq(frame.settings.counter_stats_interval, 9);
    ck_assert_str_eq(frame.settings.pid_file, "a#b");
    ck_assert_uint_eq(frame.settings.poolcounter.port, 7531);
    free_frame(&frame);
}
END_TEST

TEST(l_sets_every_listener_and_may_be_repeated)
{
    struct frame frame = make_frame();
    write_text(&frame, "counter.listen = 10.0.0.1\n");
    ASSERT_ACTION(&frame, OPTIONS_RUN, "-f", frame.path, "-l", "10.0.0.2", "-l", "[::3]", "-l",
                  "::3");
    assert_value(&frame.settings, "counter.listen", "10.0.0.2, ::3");
    assert_value(&frame.settings, "poolcounter.listen", "10.0.0.2, ::3");
    assert_value(&frame.settings, "admin.listen", "127.0.0.1, ::1"); /* serves no clients */

    ASSERT_ACTION(&frame, OPTIONS_RUN, "-f", frame.path, "-l", "10.0.0.2", "-o",
                  "counter.listen=10.0.0.4");
    assert_value(&frame.settings, "counter.listen", "10.0.0.4");
    assert_value(&frame.settings, "poolcounter.listen", "10.0.0.2");

    ASSERT_ACTION(&frame, OPTIONS_RUN, "-f", frame.path, "-o", "counter.listen=10.0.0.4", "-l",
                  "10.0.0.2");
    assert_value(&frame.settings, "counter.listen", "10.0.0.2");
    free_frame(&frame);
}
END_TEST

TEST(l_without_an_address_ends_with_status_1)
{
#define NO_ADDRESS(text)                                                                           \
    "counterd: -l: \"" text "\" is not a numeric IPv4 or IPv6 address, such as 127.0.0.1 or ::1\n"
    struct frame frame = make_frame();
    ASSERT_FAILS(&frame, 1, NO_ADDRESS("localhost"), "-l", "localhost");
    ASSERT_FAILS(&frame, 1, NO_ADDRESS("127.0.0.1:7531"), "-l127.0.0.1:7531");
    ASSERT_FAILS(&frame, 1, NO_ADDRESS("127.0.0.1, ::1"), "-l", "127.0.0.1, ::1");
    ASSERT_FAILS(&frame, 1, NO_ADDRESS(""), "-l", "");
    ASSERT_FAILS(&frame, 1, NO_ADDRESS("\\x0a"), "-l", "\n", "-o", "nonsense");
    ASSERT_FAILS(&frame, 1, NO_ADDRESS("256.0.0.1"), "-t", "-l", "::1", "-l", "256.0.0.1");
    ASSERT_FAILS(&frame, 1, "counterd: -l: more than 16 addresses\n", "-l1.1.1.1", "-l1.1.1.2",
                 "-l1.1.1.3", "-l1.1.1.4", "-l1.1.1.5", "-l1.1.1.6", "-l1.1.1.7", "-l1.1.1.8",
                 "-l1.1.1.9", "-l1.1.1.10", "-l1.1.1.11", "-l1.1.1.12", "-l1.1.1.13", "-l1.1.1.14",
                 "-l1.1.1.15", "-l1.1.1.16", "-l1.1.1.17");
    free_frame(&frame);
}
END_TEST

TEST(mistakes_of_o_are_said_with_their_key)
{
    struct frame frame = make_frame();
    write_text(&frame, "");
    ASSERT_FAILS(&frame, 2,
                 "counterd: -o counter.prot: unknown key \"counter.prot\"; did you mean "
                 "\"counter.port\"?\n",
                 "-f", frame.path, "-o", "counter.prot=1");
    ASSERT_FAILS(&frame, 2,
                 "counterd: -o counter.port: \"65536\" is not a number from 0 to 65535\n", "-f",
                 frame.path, "-o", "counter.port=65536");
    ASSERT_FAILS(
        &frame, 2,
        "counterd: -o counter.listen: \"here\" is not a numeric IPv4 or IPv6 address, such "
        "as 127.0.0.1 or ::1\n",
        "-f", frame.path, "-o", "counter.listen=here");
    ASSERT_FAILS(&frame, 2, "counterd: -o counter.port: not of the form KEY=VALUE\n", "-f",
                 frame.path, "-o", "counter.port");
    ASSERT_FAILS(&frame, 2, "counterd: -o user: the closing quote is missing\n", "-f", frame.path,
                 "-o", "user=\"me");
    ASSERT_FAILS(&frame, 2, "counterd: -o : unknown key \"\"; counterd --help lists the keys\n",
                 "-f", frame.path, "-o", "=5");
    ASSERT_FAILS(&frame, 2, "counterd: -o x: not of the form KEY=VALUE\n", "-f", frame.path, "-o",
                 "x", "-o", "counter.port=1", "-l", "::1");
    /* Its keys are accepted where a file of yrmcds may be read, and nowhere else. */
    ASSERT_FAILS(&frame, 2,
                 "counterd: -o workers: unknown key \"workers\"; counterd --help lists the keys\n",
                 "-f", frame.path, "-o", "workers=5");
    free_frame(&frame);
}
END_TEST

TEST(an_overlong_o_is_a_mistake)
{
    struct frame frame = make_frame();
    char text[4098], expected[256];
    write_text(&frame, "");
    memset(text, 'x', sizeof text);
    text[4097] = '\0';
    memcpy(text, "user=", 5);
    snprintf(expected, sizeof expected, "counterd: -o %.100s...: longer than 4096 bytes\n", text);
    ASSERT_FAILS(&frame, 2, expected, "-f", frame.path, "-o", text);
    text[4096] = '\0';
    ASSERT_ACTION(&frame, OPTIONS_RUN, "-f", frame.path, "-o", text);
    free_frame(&frame);
}
END_TEST

TEST(mistakes_of_file_and_flags_are_said_together)
{
    struct frame frame = make_frame();
    write_text(&frame, "junk\n");
    ASSERT_FAILS(&frame, 2,
                 "counterd: c.conf:1: neither \"key = value\" nor a comment\n"
                 "counterd: -o x: not of the form KEY=VALUE\n"
                 "counterd: -o counter.port: \"x\" is not a number from 0 to 65535\n",
                 "-t", "-o", "x", "-f", frame.path, "-o", "counter.port=x");
    free_frame(&frame);
}
END_TEST

TEST(something_is_to_be_served)
{
    static const char message[] =
        "counterd: nothing to serve: set poolcounter.enable or counter.enable to true\n";
    struct frame frame = make_frame();
    write_text(&frame, "poolcounter.enable = false\n");
    ASSERT_FAILS(&frame, 2, message, "-f", frame.path);
    ASSERT_FAILS(&frame, 2, message, "-t", "-f", frame.path);
    ASSERT_ACTION(&frame, OPTIONS_CHECK, "-t", "-f", frame.path, "-o", "counter.enable=true");
    free_frame(&frame);
}
END_TEST

/* --- Help and messages ----------------------------------------------------------------------- */

TEST(help_shows_every_flag_and_option)
{
    char *text;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(to);
    options_print_help(to);
    fclose(to);

    static const char usage[] = "Usage: counterd [-f FILE] [-o KEY=VALUE]... [-l ADDRESS]... [-t] "
                                "[-V] [-h]\n";
    ck_assert_int_eq(strncmp(text, usage, strlen(usage)), 0);
    const struct options_flag *flag;
    for (size_t i = 0; (flag = options_flag_at(i)); i++)
        ck_assert_ptr_nonnull(strstr(text, flag->help));
    const struct options_row *row;
    for (size_t i = 0; (row = options_row_at(i)); i++) {
        char line[256], range[128];
        options_range_text(row, range, sizeof range);
        snprintf(line, sizeof line, "\n  %s = %s  (%s%s%s)\n      %s\n", row->key,
                 *row->default_text ? row->default_text : "\"\"", range, row->alias ? "; or " : "",
                 row->alias ? row->alias : "", row->help);
        ck_assert_msg(strstr(text, line), "not in --help: %s", line);
    }
    /* The default file may lie anywhere; its path does not count. */
    char *rest;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        bool has_path = strstr(line, options_default_file()) != NULL;
        size_t path_len = has_path ? strlen(options_default_file()) : 0;
        ck_assert_msg(strlen(line) - path_len <= 100, "%s", line);
    }
    free(text);
}
END_TEST

TEST(messages_cannot_forge_lines)
{
    char *text, long_text[2000], expected[1100];
    size_t size;
    FILE *to = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(to);
    options_complain(to, "%s %d", "a\nb\tc\x80\x7f~", 5);
    fflush(to);
    ck_assert_str_eq(text, "counterd: a\\x0ab\\x09c\\x80\\x7f~ 5\n");
    rewind(to);
    memset(long_text, 'y', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    options_complain(to, "%s", long_text);
    fclose(to);
    snprintf(expected, sizeof expected, "counterd: %.1023s...\n", long_text);
    ck_assert_str_eq(text, expected);
    free(text);
}
END_TEST

int main(void)
{
    const struct unit_test tests[] = {
        UNIT(the_defaults_are_those_that_were_published),
        UNIT(every_row_is_complete_and_its_key_its_own),
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
        UNIT(a_reason_shows_the_beginning_of_an_overlong_value),
        UNIT(printing_stops_at_the_end_of_the_buffer),
        UNIT(an_unknown_key_is_told_the_nearest),
        UNIT(a_word_of_several_keys_is_told_all_of_them),
        UNIT(one_changed_letter_of_a_key_is_forgiven),
        UNIT(a_file_sets_what_it_says),
        UNIT(lines_may_end_in_cr_lf),
        UNIT(a_file_is_closed_again),
        UNIT(a_byte_order_mark_before_the_first_line_is_skipped),
        UNIT(empty_files_are_good),
        UNIT(a_mistake_is_said_with_its_line),
        UNIT(all_mistakes_of_a_file_are_said),
        UNIT(twenty_mistakes_are_enough),
        UNIT(nul_bytes_are_mistakes),
        UNIT(a_line_is_4096_bytes_long_at_most),
        UNIT(a_file_has_an_end),
        UNIT(what_cannot_be_read_is_a_mistake),
        UNIT(a_file_that_fails_while_it_is_read_is_a_mistake),
        UNIT(a_yrmcds_conf_is_accepted),
        UNIT(a_yrmcds_conf_is_told_what_is_ignored_and_where_we_listen),
        UNIT(keys_of_yrmcds_are_named_once_and_their_values_not_looked_at),
        UNIT(flags_say_what_to_do),
        UNIT(the_settings_name_the_file_that_was_read),
        UNIT(wrong_flags_end_with_status_2),
        UNIT(a_file_that_is_named_must_exist),
        UNIT(o_goes_over_the_file_and_the_last_holds),
        UNIT(l_sets_every_listener_and_may_be_repeated),
        UNIT(l_without_an_address_ends_with_status_1),
        UNIT(mistakes_of_o_are_said_with_their_key),
        UNIT(an_overlong_o_is_a_mistake),
        UNIT(mistakes_of_file_and_flags_are_said_together),
        UNIT(something_is_to_be_served),
        UNIT(help_shows_every_flag_and_option),
        UNIT(messages_cannot_forge_lines),
    };
    return unit_run("daemon/options", tests, ARRAY_SIZE(tests));
}
