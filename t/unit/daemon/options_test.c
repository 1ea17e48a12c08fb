/*
 * options_test.c - the table of options: each row, and how values are kept and printed. What is
 * said of other values is in transcripts/config.ctl.
 */
#include "daemon/config_file.h"
#include "daemon/reload.c" /* what it says of changes */
#include "service/beanstalk.h"
#include "service/pools_config.h"
#include "service/table_resource.h"
#include "t/unit/engine/faults.h"
#include "t/unit/unit.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BINARY = 1 }; /* its place in the registry */

static const struct table_settings *table_of(const struct settings *settings)
{
    return settings_own(settings, &table_options);
}

static const struct option_row *row_of(const char *key)
{
    const struct option_row *row = options_find(key);
    ck_assert_msg(row, "no option %s", key);
    return row;
}

/* The row of a key that may be set; the key of a family adds its name. */
static const struct option_row *row_to_set(struct settings *settings, const char *key)
{
    char reason[OPTIONS_REASON_SIZE];
    const struct option_row *row = options_to_set(settings, key, reason);
    ck_assert_msg(row, "%s", reason);
    return row;
}

static bool assigns(struct settings *settings, const char *key, const char *text)
{
    char reason[OPTIONS_REASON_SIZE] = "";
    bool good = options_assign(settings, row_to_set(settings, key), text, reason);
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

static bool is_number(const struct option_row *row)
{
    return row->type == &option_port || row->type == &option_number || row->type == &option_size ||
           row->type == &option_seconds;
}

/* --- The table ------------------------------------------------------------------------------- */

TEST(every_row_is_complete_and_its_key_its_own)
{
    const struct option_row *row;
    size_t count = 0;
    for (; (row = options_row_at(count)); count++) {
        ck_assert_ptr_eq(options_find(row->key), row);
        if (row->alias)
            ck_assert_ptr_eq(options_find(row->alias), row);
        ck_assert(row->default_text && row->unit && row->help && *row->help);
        ck_assert((row->type == &option_choice) == (row->choices != NULL));
        ck_assert(!is_number(row) || row->min < row->max);
        ck_assert(!row->by_l || row->type == &option_addresses);
        ck_assert(!row->secret || row->type->is_string);
        ck_assert(!row->digest || row->secret);
    }
    ck_assert_uint_eq(count, 104);
    ck_assert_ptr_null(options_row_at(SIZE_MAX));
    ck_assert_ptr_null(options_find(""));
    ck_assert_ptr_null(options_find("counter"));
    ck_assert_ptr_null(options_find("Counter.port"));
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
        if (row->type != &option_size)
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

/* A value as it may be written, and as it is printed. */
static const struct {
    const char *key, *text, *printed;
} spellings[] = {
    {"counter.memory_limit", "16777216", "16M"},
    {"counter.memory_limit", "16384K", "16M"},
    {"counter.memory_limit", "16m", "16M"},
    {"counter.memory_limit", "32g", "32G"},
    {"counter.memory_limit", "34359738368", "32G"},
    {"counter.memory_limit", "16777217", "16777217"},
    {"counter.memory_limit", "17000k", "17000K"},
    {"counter.memory_limit", "1536M", "1536M"},
    {"counter.enable", "true", "true"},
    {"counter.enable", "no", "false"},
    {"counter.enable", "yes", "true"},
    {"counter.enable", "off", "false"},
    {"counter.enable", "on", "true"},
    {"counter.enable", "0", "false"},
    {"counter.enable", "1", "true"},
    {"counter.enable", "false", "false"},
    {"counter.listen", "0.0.0.0", "0.0.0.0"},
    {"counter.listen", "::", "::"},
    {"counter.listen", "  127.0.0.1\t::1 , ,10.0.0.1,", "127.0.0.1, ::1, 10.0.0.1"},
    {"counter.listen", "::1 0:0:0:0:0:0:0:1 [::1]", "::1"},
    {"counter.listen", "2001:DB8::10", "2001:db8::10"},
    {"counter.listen", "::ffff:192.0.2.1", "::ffff:192.0.2.1"},
    {"counter.listen", "1111:2222:3333:4444:5555:6666:255.255.255.255",
     "1111:2222:3333:4444:5555:6666:ffff:ffff"},
    {"counter.socket_mode", "600", "0600"},
    {"counter.socket_mode", "0", "0000"},
    {"counter.socket_mode", "0777", "0777"},
    {"access.allow", " , ", ""},
    {"access.allow", "", ""},
    {"access.allow", "192.0.2.7 2001:db8::/32,,10.0.0.0/8",
     "192.0.2.7/32, 2001:db8::/32, 10.0.0.0/8"},
    {"access.allow", "10.0.0.0/8 10.0.0.0/8 10.0.0.0/9", "10.0.0.0/8, 10.0.0.0/9"},
    {"access.allow", "0.0.0.0/0", "0.0.0.0/0"},
    {"access.allow", "2001:DB8:0::/33 ::ffff:192.0.2.1", "2001:db8::/33, 192.0.2.1/32"},
};

TEST(values_are_printed_in_one_way_which_reads_back)
{
    struct settings settings;
    ck_assert(settings_init(&settings));
    for (size_t i = 0; i < ARRAY_SIZE(spellings); i++) {
        ck_assert_msg(assigns(&settings, spellings[i].key, spellings[i].text), "%s",
                      spellings[i].text);
        assert_value(&settings, spellings[i].key, spellings[i].printed);
        ck_assert(assigns(&settings, spellings[i].key, spellings[i].printed));
        assert_value(&settings, spellings[i].key, spellings[i].printed);
    }
    ck_assert_uint_eq(table_of(&settings)->memory_limit, UINT64_C(1536) << 20);
    ck_assert_uint_eq(settings_protocol(&settings, BINARY)->socket_mode, 0777);
    assert_value(&settings, "poolcounter.listen", "127.0.0.1, ::1");
    settings_free(&settings);
}
END_TEST

/* A value other than the default, for each option. */
static const char *other_value(const struct option_row *row)
{
    if (row->type == &option_bool)
        return strcmp(row->default_text, "true") == 0 ? "false" : "true";
    if (row->type == &option_size)
        return "16000K";
    if (row->type == &option_choice)
        return row->choices[strcmp(row->choices[0], row->default_text) == 0];
    if (row->type->is_string)
        return "other";
    if (row->type->list)
        return "192.0.2.1";
    return strcmp(row->default_text, "64") == 0 ? "63" : row->max < 64 ? "7" : "64";
}

/* What a reload says of a change. */
static void assert_line(const struct settings *a, const struct settings *b,
                        const struct option_row *row)
{
    char line[4096] = "";
    struct telling telling = {.report = fmemopen(line, sizeof line, "w")};
    tell_changes(a, b, LOG_LEVEL_INFO, &telling);
    fclose(telling.report);
    ck_assert_ptr_eq(strchr(line, '\n'), line + strlen(line) - 1); /* it is one line */
    ck_assert_uint_eq(telling.applied + telling.waiting, 1);
    ck_assert_uint_eq(telling.applied, !strstr(line, " while counterd runs"));
    ck_assert_int_eq(strncmp(line, row->key, strlen(row->key)), 0);
    ck_assert_ptr_nonnull(strstr(line, row->secret       ? " has changed\n"
                                       : row->reloadable ? " now; it was "
                                                         : " can't change from "));
}

TEST(options_are_compared_and_copied_one_by_one)
{
    const struct option_row *row, *other;
    struct settings a, b;
    for (size_t i = 0; (row = options_row_at(i)); i++) {
        const char *value =
            row->type == &option_size && row->min > 16000 * 1024 ? "17M" : other_value(row);
        ck_assert(settings_init(&a));
        ck_assert(settings_init(&b));
        ck_assert(options_equal(&a, &b, row));
        (void)row_to_set(&a, row->key);
        ck_assert_msg(assigns(&b, row->key, value), "%s = %s", row->key, value);
        for (size_t j = 0; (other = options_row_at(j)); j++)
            ck_assert_msg(options_equal(&a, &b, other) == (i != j), "%s, %s", row->key, other->key);
        assert_line(&a, &b, row);
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

FILE *__real_fdopen(int fd, const char *mode);
FILE *__wrap_fdopen(int fd, const char *mode);

FILE *__wrap_fdopen(int fd, const char *mode)
{
    return fault_now() ? NULL : __real_fdopen(fd, mode);
}

/* Each allocation fails once; LeakSanitizer looks at the memory. */
TEST(without_memory_a_file_is_refused_and_nothing_is_left)
{
    static const char text[] = "pool.p.members = a, b\naccess.allow = ::1\npid_file = /p\n";
    char path[32];
    FILE *said = fopen("/dev/null", "we");
    int conf = memfd_create("conf", MFD_CLOEXEC), next = dup(conf);
    snprintf(path, sizeof path, "/proc/self/fd/%d", conf);
    ck_assert(said && write(conf, text, strlen(text)) == (ssize_t)strlen(text));
    close(next);
    for (unsigned long place = 1; faults == place - 1; place++) {
        struct settings settings;
        fault_countdown = place;
        bool good =
            settings_init(&settings) && config_file_load(&settings, path, said) == CONFIG_FILE_READ;
        fault_countdown = 0;
        settings_free(&settings);
        ck_assert_msg(good == (faults < place), "allocation %lu", place);
        ck_assert_int_eq(fcntl(next, F_GETFD), -1);
    }
    ck_assert_uint_gt(faults, 30);
    fclose(said);
    close(conf);
}
END_TEST

UNIT_MAIN("daemon/options")
