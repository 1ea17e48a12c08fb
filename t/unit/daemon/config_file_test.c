/*
 * config_file_test.c - what a configuration file sets, files of yrmcds, and that nothing is left of
 * it. Its mistakes are in transcripts/config.ctl.
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
    UNIT(a_file_is_closed_again),
    UNIT(what_was_read_is_wiped),
    UNIT(a_yrmcds_conf_is_accepted),
    UNIT(a_yrmcds_conf_is_told_what_is_ignored_and_where_we_listen),
    UNIT(keys_of_yrmcds_are_named_once_and_their_values_not_looked_at),
};

UNIT_MAIN("daemon/config_file", tests)
