/*
 * command_line_test.c - the command line, help and messages.
 */
#include "t/unit/daemon/options.h"

/* --- The command line ------------------------------------------------------------------------ */

/* Reads a command line into new settings; the last argument is NULL. */
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
    ck_assert(settings_init(&frame->settings));
    struct options_request request =
        options_command_line(argc, argv, false, &frame->settings, listen_for_errors(frame));
    /* Either the frame's path or a copy of it in argv, which is freed below. */
    if (frame->settings.file) {
        ck_assert_str_eq(frame->settings.file, frame->path);
        frame->settings.file = frame->path;
    }
    for (int i = 0; i < argc; i++)
        free(argv[i]);
    return request;
}

/* Checks that a command line fails with this status and these messages. */
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
    ck_assert_uint_eq(settings_protocol(&frame.settings, BINARY)->port, 5);
    ASSERT_ACTION(&frame, OPTIONS_CHECK, "-t", "-f", frame.path);
    ASSERT_ACTION(&frame, OPTIONS_CHECK, "-tf", frame.path, "--");
    ASSERT_ACTION(&frame, OPTIONS_VERSION, "-V");
    ASSERT_ACTION(&frame, OPTIONS_VERSION, "--version");
    ASSERT_ACTION(&frame, OPTIONS_HELP, "-h");
    ASSERT_ACTION(&frame, OPTIONS_HELP, "--help", "-f", "/no/such/file");
    ck_assert_uint_eq(settings_protocol(&frame.settings, BINARY)->port, 11215);
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
    ck_assert_uint_eq(settings_protocol(&frame.settings, BINARY)->port, 7);
    ck_assert_uint_eq(frame.settings.threads, 5);
    ck_assert_str_eq(frame.settings.user, "a b");
    ck_assert_uint_eq(table_of(&frame.settings)->stats_interval_s, 9);
    ck_assert_str_eq(frame.settings.pid_file, "a#b");
    ck_assert_uint_eq(settings_protocol(&frame.settings, TEXT)->port, 7531);
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
    const struct option_row *row;
    for (size_t i = 0; (row = options_row_at(i)); i++) {
        char line[256], range[128];
        options_range_text(row, range, sizeof range);
        snprintf(line, sizeof line, "\n  %s = %s  (%s%s%s)\n      %s\n", row->key,
                 *row->default_text ? row->default_text : "\"\"", range, row->alias ? "; or " : "",
                 row->alias ? row->alias : "", row->help);
        ck_assert_msg(strstr(text, line), "not in --help: %s", line);
    }
    /* The default file's path depends on the build, so its length does not count. */
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

static const struct unit_test tests[] = {
    UNIT(flags_say_what_to_do),
    UNIT(o_goes_over_the_file_and_the_last_holds),
    UNIT(l_sets_every_listener_and_may_be_repeated),
    UNIT(help_shows_every_flag_and_option),
    UNIT(messages_cannot_forge_lines),
};

UNIT_MAIN("daemon/command_line", tests)
