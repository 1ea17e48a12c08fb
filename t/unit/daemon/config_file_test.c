/*
 * config_file_test.c - the configuration file: its lines, its errors, files of yrmcds.
 */
#include "t/unit/daemon/options.h"

#include <fcntl.h>
#include <sys/stat.h>

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
    ck_assert(settings_protocol(s, BINARY)->enable);
    ck_assert_uint_eq(settings_protocol(s, BINARY)->port, 1);
    ck_assert_uint_eq(table_of(s)->buckets, 5);
    ck_assert_uint_eq(s->threads, 3);
    ck_assert_uint_eq(settings_protocol(s, BINARY)->max_connections, 9);
    assert_value(s, "counter.listen", "10.0.0.1, ::2");
    ck_assert_str_eq(s->user, " a #b ");
    ck_assert_ptr_null(s->group);
    ck_assert_str_eq(s->pid_file, "/run/x y.pid");
    ck_assert_int_eq((int)s->log_level, LOG_LEVEL_DEBUG);
    ck_assert_uint_eq(s->limits_output_buffer, 1048576);
    ck_assert_uint_eq(settings_protocol(s, TEXT)->port, 7531);
    free_frame(&frame);
}
END_TEST

TEST(lines_may_end_in_cr_lf)
{
    struct frame frame = make_frame();
    assert_loads(&frame, "counter.port = 5\r\n\r\n# x\r\nuser = \"me\"\r\ngroup = us\r");
    ck_assert_uint_eq(settings_protocol(&frame.settings, BINARY)->port, 5);
    ck_assert_str_eq(frame.settings.user, "me");
    ck_assert_str_eq(frame.settings.group, "us");
    assert_complains(&frame, "counter.port = 5\r\r\n",
                     "counterd: c.conf:1: counter.port: \"5\\x0d\" is not a number from 0 to "
                     "65535\n");
    free_frame(&frame);
}
END_TEST

/* The number of the next file descriptor. */
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
    ck_assert_uint_eq(settings_protocol(&frame.settings, BINARY)->port, 5);
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
           "counterd: c.conf: too many mistakes; the rest was not read\n");
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
    ck_assert_uint_eq(settings_protocol(&frame.settings, BINARY)->port, 11215);
    free_frame(&frame);
}
END_TEST

/* A line of `len` bytes, "user = xxx...", followed by `rest`. */
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

    ck_assert_int_eq(config_file_load(&frame.settings, "/dev/zero", listen_for_errors(&frame)),
                     CONFIG_FILE_BAD);
    ck_assert_str_eq(said(&frame), "counterd: /dev/zero: cannot be read: Not a regular file\n");
    ck_assert_int_eq(config_file_load(&frame.settings, "/dev/null", listen_for_errors(&frame)),
                     CONFIG_FILE_READ);
    ck_assert_str_eq(said(&frame), "");

    write_text(&frame, "");
    ck_assert_int_eq(chmod(frame.path, 0), 0);
    if (access(frame.path, R_OK) != 0) { /* root can read it anyway */
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

/* How often these bytes occur in the process's heap and on its stack. */
static unsigned occurrences(const char *bytes, size_t len)
{
    static char memory[1 << 22]; /* static, so neither in the heap nor on the stack */
    char line[256], *end;
    unsigned count = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    ck_assert(maps && fd >= 0);
    while (fgets(line, sizeof line, maps)) {
        if (!strstr(line, "[heap]") && !strstr(line, "[stack]"))
            continue;
        unsigned long from = strtoul(line, &end, 16), to = strtoul(end + 1, NULL, 16);
        size_t size = to - from < sizeof memory ? to - from : sizeof memory;
        /* The used part of the stack is at its end. */
        from = strstr(line, "[stack]") ? to - size : from;
        ssize_t got = pread(fd, memory, size, (off_t)from);
        ck_assert_int_gt(got, 0);
        for (char *at = memory; (at = memmem(at, (size_t)(memory + got - at), bytes, len)); at++)
            count++;
    }
    fclose(maps);
    close(fd);
    return count;
}

TEST(what_was_read_is_wiped)
{
    static char text[2048]; /* a comment, a line with a token, a comment */
    static const char key[] = "\nadmin.token = ", last[] = "\n#";
    enum { AT = 900, TOKEN = 40 };
    struct frame frame = make_frame();
    memset(text, '#', sizeof text);
    memcpy(text + AT - (sizeof key - 1), key, sizeof key - 1);
    memcpy(text + AT + TOKEN, last, sizeof last - 1);
    for (size_t i = 0; i < TOKEN; i++)
        text[AT + i] = (char)('a' + i * 7 % 26);
    int fd = open(frame.path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ck_assert(fd >= 0 && write(fd, text, sizeof text) == (ssize_t)sizeof text);
    close(fd);
    ck_assert_int_eq(config_file_load(&frame.settings, frame.path, listen_for_errors(&frame)),
                     CONFIG_FILE_READ);
    ck_assert_str_eq(said(&frame), "");
    ck_assert_ptr_nonnull(frame.settings.admin_token);
    ck_assert_uint_eq(occurrences(text + AT + TOKEN / 2, TOKEN / 2), 0);
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
    ck_assert_str_eq(settings_protocol(s, BINARY)->ignored_keys,
                     "virtual_ip, port, repl_port, bind_ip, max_connections, temp_dir, "
                     "log.threshold, log.file, buckets, max_data_size, heap_data_limit, "
                     "repl_buffer_size, initial_repl_sleep_delay_usec, secure_erase, lock_memory, "
                     "memory_limit, workers, gc_interval, slave_timeout");
    ck_assert_str_eq(s->user, "yrmcds");
    ck_assert_str_eq(s->group, "yrmcds");
    ck_assert(settings_protocol(s, BINARY)->enable);
    ck_assert_uint_eq(settings_protocol(s, BINARY)->port, 11216);
    ck_assert_uint_eq(settings_protocol(s, BINARY)->max_connections, 7);
    ck_assert_uint_eq(table_of(s)->buckets, 1000);
    ck_assert_uint_eq(table_of(s)->stats_interval_s, 3600);
    ck_assert_uint_eq(table_of(s)->memory_limit, 1073741824);
    free_frame(&frame);
}
END_TEST

TEST(a_yrmcds_conf_is_told_what_is_ignored_and_where_we_listen)
{
    struct frame frame = make_frame();
    char notice[256];
    assert_loads(&frame, "workers = 10\nport = 11211\n");
    options_ignored_text(&frame.settings, BINARY, notice, sizeof notice);
    ck_assert_str_eq(notice, "options that only yrmcds has are ignored: workers, port");
    assert_loads(&frame, "workers = 10\ncounter.enable = true\n");
    size_t len = options_ignored_text(&frame.settings, BINARY, notice, sizeof notice);
    ck_assert_str_eq(notice, "options that only yrmcds has are ignored: workers; "
                             "unlike yrmcds, counterd listens only on the addresses of "
                             "counter.listen: "
                             "127.0.0.1, ::1");
    ck_assert_uint_eq(len, strlen(notice));
    free_frame(&frame);
}
END_TEST

TEST(keys_of_yrmcds_are_named_once_and_their_values_not_looked_at)
{
    struct frame frame = make_frame();
    assert_loads(&frame, "workers = \"10\nport = \"a\" b\nworkers = many\nport =\n");
    ck_assert_str_eq(settings_protocol(&frame.settings, BINARY)->ignored_keys, "workers, port");
    /* Loading another file forgets in which lines the previous one set the options. */
    write_text(&frame, "buckets = 3\n");
    ck_assert_int_eq(config_file_load(&frame.settings, frame.path, listen_for_errors(&frame)),
                     CONFIG_FILE_READ);
    ck_assert_str_eq(said(&frame), "");
    ck_assert_str_eq(settings_protocol(&frame.settings, BINARY)->ignored_keys, "buckets");
    free_frame(&frame);
}
END_TEST

static const struct unit_test tests[] = {
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
    UNIT(what_was_read_is_wiped),
    UNIT(a_yrmcds_conf_is_accepted),
    UNIT(a_yrmcds_conf_is_told_what_is_ignored_and_where_we_listen),
    UNIT(keys_of_yrmcds_are_named_once_and_their_values_not_looked_at),
};

UNIT_MAIN("daemon/config_file", tests)
