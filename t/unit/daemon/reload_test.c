/*
 * reload_test.c - new settings for a running daemon: what the reload reports, which settings take
 * effect, and that an error leaves all as they were. t/system tests certificates and running
 * connections.
 */
#include "t/unit/daemon/running.h"

#include "base/check.h"
#include "base/log.h"

#include <stdlib.h>
#include <sys/stat.h>

/* --- Frame ----------------------------------------------------------------------------------- */

/* Reloads with the file as it is; returns the report with "FILE" for its path. */
static const char *reload_again(bool good)
{
    static char report[8192];
    char *said = NULL;
    size_t size;
    FILE *to = open_memstream(&said, &size);
    ck_assert_int_eq(reload_run(&running.control.reload, to), good);
    fclose(to);
    *report = '\0';
    for (char *at = said, *found; at; at = found ? found + strlen(running.path) : NULL) {
        found = strstr(at, running.path);
        size_t len = strlen(report);
        snprintf(report + len, sizeof report - len, "%.*s%s",
                 (int)(found ? (size_t)(found - at) : strlen(at)), at, found ? "FILE" : "");
    }
    free(said);
    return report;
}

/* Writes the file and reloads; returns the report. */
static const char *reload(const char *text, bool good)
{
    write_file(text);
    return reload_again(good);
}

/* True if a reload with this file logs a warning about a secret that others can read. */
static bool is_warned(const char *text)
{
    char said[4096];
    FILE *log = tmpfile();
    ck_assert_ptr_nonnull(log);
    int old = dup(STDERR_FILENO);
    dup2(fileno(log), STDERR_FILENO);
    (void)reload(text, true);
    dup2(old, STDERR_FILENO);
    close(old);
    rewind(log);
    said[fread(said, 1, sizeof said - 1, log)] = '\0';
    fclose(log);
    return strstr(said, " can be read by every user") != NULL;
}

static const struct settings *in_force(void)
{
    return &running.control.reload.settings;
}

static void assert_value(const char *key, const char *value)
{
    char text[512];
    options_to_text(in_force(), options_find(key), text, sizeof text);
    ck_assert_str_eq(text, value);
}

/* Checks that the admin interface accepts this token. */
static void assert_token(const char *token)
{
    char digest[TOKEN_DIGEST_SIZE];
    ck_assert(token_digest(token, strlen(token), digest));
    ck_assert_str_eq(running.admin.token, digest);
}

/* --- Comparing ------------------------------------------------------------------------------- */

/* The lines of all changes. */
static char lines[4096];

static void gather(void *arg, const struct reload_change *change)
{
    ck_assert_ptr_eq(arg, lines);
    ck_assert_int_eq(change->applies, !strstr(change->line, " while counterd runs"));
    size_t len = strlen(lines);
    snprintf(lines + len, sizeof lines - len, "%s\n", change->line);
}

static const char *compare(const char *key, const char *value, enum log_level level)
{
    struct settings a, b;
    char reason[OPTIONS_REASON_SIZE];
    ck_assert(settings_init(&a));
    ck_assert(settings_init(&b));
    ck_assert_ptr_nonnull(options_to_set(&a, key, reason));
    ck_assert_msg(options_assign(&b, options_to_set(&b, key, reason), value, reason), "%s", reason);
    *lines = '\0';
    size_t count = reload_compare(&a, &b, level, gather, lines);
    ck_assert_uint_eq(count, *lines != '\0');
    settings_free(&a);
    settings_free(&b);
    return lines;
}

TEST(a_change_is_one_line)
{
    ck_assert_str_eq(compare("log.level", "debug", LOG_LEVEL_INFO),
                     "log.level is debug now; it was info\n");
    ck_assert_str_eq(compare("access.allow", "10.0.0.0/8", LOG_LEVEL_INFO),
                     "access.allow is 10.0.0.0/8 now; it was \"\"\n");
    ck_assert_str_eq(compare("counter.port", "7", LOG_LEVEL_INFO),
                     "counter.port can't change from 11215 to 7 while counterd runs: restart it\n");
    ck_assert_str_eq(compare("user", "me", LOG_LEVEL_INFO),
                     "user can't change from \"\" to me while counterd runs: restart it\n");
    ck_assert_str_eq(compare("user", "", LOG_LEVEL_INFO), "");
}
END_TEST

TEST(a_secret_is_not_told)
{
    ck_assert_str_eq(compare("admin.token", "hush", LOG_LEVEL_INFO), "admin.token has changed\n");
}
END_TEST

TEST(the_level_is_the_one_in_force)
{
    ck_assert_str_eq(compare("log.level", "debug", LOG_LEVEL_DEBUG), "");
    ck_assert_str_eq(compare("log.level", "info", LOG_LEVEL_DEBUG),
                     "log.level is info now; it was debug\n");
}
END_TEST

TEST(a_long_value_is_cut)
{
    char text[2048] = "";
    for (int i = 0; i < 100; i++) {
        size_t len = strlen(text);
        snprintf(text + len, sizeof text - len, "10.0.%d.0/24 ", i);
    }
    const char *line = compare("access.allow", text, LOG_LEVEL_INFO);
    ck_assert_uint_lt(strlen(line), 200);
    ck_assert_ptr_nonnull(strstr(line, "... now; it was \"\"\n"));
}
END_TEST

TEST(every_option_has_its_line)
{
    const struct option_row *row;
    for (size_t i = 0; (row = options_row_at(i)); i++) {
        bool names = row->type == OPTION_ADDRESSES || row->type == OPTION_NETWORKS;
        const char *value = row->type == OPTION_BOOL
                                ? strcmp(row->default_text, "true") == 0 ? "false" : "true"
                            : row->type == OPTION_CHOICE
                                ? row->choices[strcmp(row->choices[0], row->default_text) == 0]
                            : row->type == OPTION_SIZE ? row->min > 1 << 20 ? "17M" : "3M"
                            : names                    ? "192.0.2.1"
                            : strcmp(row->default_text, "64") == 0        ? "63"
                            : row->type != OPTION_STRING && row->max < 64 ? "7"
                                                                          : "64";
        const char *line = compare(row->key, value, LOG_LEVEL_INFO);
        ck_assert_int_eq(strncmp(line, row->key, strlen(row->key)), 0);
        ck_assert_ptr_nonnull(strstr(line, row->secret       ? " has changed\n"
                                           : row->reloadable ? " now; it was "
                                                             : " can't change from "));
    }
}
END_TEST

/* --- Reloading ------------------------------------------------------------------------------- */

TEST(what_did_not_change_is_not_told)
{
    set_up("counter.enable = true\n");
    ck_assert_str_eq(reload("# all the same\ncounter.enable = yes\n", true),
                     "done: 0 changed, 0 need a restart\n");
    tear_down();
}
END_TEST

TEST(what_is_reloadable_takes_effect)
{
    set_up("poolcounter.max_connections = 3\n");
    ck_assert_str_eq(reload("counter.max_connections = 5\n"
                            "access.max_per_source = 9\n"
                            "log.level = warning\n"
                            "admin.token = hush\n"
                            "admin.hosts = a.example, b\n",
                            true),
                     "counter.max_connections is 5 now; it was 0\n"
                     "poolcounter.max_connections is 0 now; it was 3\n"
                     "access.max_per_source is 9 now; it was 0\n"
                     "admin.token has changed\n"
                     "admin.hosts is a.example, b now; it was \"\"\n"
                     "log.level is warning now; it was info\n"
                     "done: 6 changed, 0 need a restart\n");
    ck_assert_uint_eq(services_protocol(running.services, "counter")->max_connections, 5);
    ck_assert_uint_eq(services_protocol(running.services, "poolcounter")->max_connections, 0);
    assert_token("hush");
    ck_assert_str_eq(running.admin.hosts, "a.example, b");
    ck_assert_int_eq((int)log_level_now(), LOG_LEVEL_WARNING);
    assert_value("access.max_per_source", "9");
    tear_down();
}
END_TEST

TEST(what_needs_a_restart_is_told_each_time)
{
    static const char text[] = "counter.port = 5\ncounter.max_connections = 5\n";
    static const char restart[] =
        "counter.port can't change from 11215 to 5 while counterd runs: restart it\n";
    char expected[512];
    set_up("");
    snprintf(expected, sizeof expected, "%s%s%s", restart,
             "counter.max_connections is 5 now; it was 0\n", "done: 1 changed, 1 need a restart\n");
    ck_assert_str_eq(reload(text, true), expected);
    assert_value("counter.port", "11215");
    snprintf(expected, sizeof expected, "%s%s", restart, "done: 0 changed, 1 need a restart\n");
    ck_assert_str_eq(reload(text, true), expected);
    tear_down();
}
END_TEST

TEST(a_bad_file_changes_nothing)
{
    set_up("counter.max_connections = 3\n");
    ck_assert_str_eq(reload("counter.max_connections = 5\nlog.level = loud\nnonsense\n", false),
                     "FILE:2: log.level: \"loud\" is not one of error, warning, info or debug\n"
                     "FILE:3: neither \"key = value\" nor a comment\n"
                     "nothing was changed; the old settings stay in force\n");
    assert_value("counter.max_connections", "3");
    unlink(running.path);
    ck_assert_int_eq(mkdir(running.path, 0700), 0);
    ck_assert_ptr_nonnull(strstr(reload_again(false), ": cannot be read: Is a directory\n"));
    rmdir(running.path);
    tear_down();
}
END_TEST

TEST(a_file_that_is_missing_changes_nothing)
{
    set_up("access.allow = 10.0.0.0/8\nadmin.token = hush\n");
    unlink(running.path);
    for (int i = 0; i < 2; i++) {
        ck_assert_str_eq(reload_again(false),
                         "FILE: no such file, and one was read before: put "
                         "it back\n"
                         "nothing was changed; the old settings stay in force\n");
        assert_value("access.allow", "10.0.0.0/8");
        assert_value("admin.token",
                     "dc8331bcb2283e89d275a1c2fe66f7bf5ac3163ec1967f149dd7e27906365f0c");
    }
    ck_assert_str_eq(reload("admin.token = hush\n", true),
                     "access.allow is \"\" now; it was 10.0.0.0/8\n"
                     "done: 1 changed, 0 need a restart\n");
    tear_down();
}
END_TEST

TEST(the_default_file_may_be_missing_until_it_was_read)
{
    static const char missing[] =
        "FILE: no such file, and one was read before: put it back, or restart counterd to go on "
        "with the defaults\n"
        "nothing was changed; the old settings stay in force\n";
    set_up(NULL);
    ck_assert_int_eq(chdir(running.dir), 0);
    snprintf(running.path, sizeof running.path, "%s", options_default_file());
    ck_assert_str_eq(reload_again(true), "done: 0 changed, 0 need a restart\n");
    ck_assert_ptr_nonnull(strstr(reload("access.max_per_source = 9\n", true),
                                 "access.max_per_source is 9 now; it was 0\n"));
    ck_assert_str_eq(reload("nonsense\n", false),
                     "FILE:1: neither \"key = value\" nor a comment\n"
                     "nothing was changed; the old settings stay in force\n");
    unlink(running.path);
    for (int i = 0; i < 2; i++) {
        ck_assert_str_eq(reload_again(false), missing);
        assert_value("access.max_per_source", "9");
    }
    ck_assert_ptr_nonnull(strstr(reload("", true), "access.max_per_source is 0 now; it was 9\n"));
    unlink(running.path);
    ck_assert_str_eq(reload_again(false), missing);
    tear_down();
}
END_TEST

TEST(options_that_do_not_fit_change_nothing)
{
    set_up("");
    ck_assert_str_eq(reload("tls.verify_client = require\nlog.level = error\n", false),
                     "tls.verify_client is require, and there is nothing to verify with; set "
                     "tls.ca\nnothing was changed; the old settings stay in force\n");
    ck_assert_int_eq((int)log_level_now(), LOG_LEVEL_INFO);
    ck_assert_str_eq(reload("tls.cert = /no/such/file\n", false),
                     "tls: certificate /no/such/file: No such file or directory\n"
                     "nothing was changed; the old settings stay in force\n");
    assert_value("tls.cert", "");
    tear_down();
}
END_TEST

TEST(new_settings_must_fit_the_old_that_stay)
{
    /* The new file is valid alone, but TLS stays on until a restart. */
    set_up("poolcounter.tls_port = 7533\ntls.cert = /x\n");
    ck_assert_str_eq(reload("", false),
                     "poolcounter.tls_port is 7533, and there is no certificate; set tls.cert\n"
                     "the new settings conflict with old ones that only a restart changes; "
                     "restart counterd to apply all\n"
                     "nothing was changed; the old settings stay in force\n");
    tear_down();
}
END_TEST

TEST(an_inherited_tls_socket_keeps_its_certificate)
{
    set_up("tls.cert = /x\n");
    running.listeners.count = 1;
    running.listeners.at[0].tls = true;
    ck_assert_str_eq(reload("", false), "tls.cert: a listener serves TLS and needs a certificate\n"
                                        "nothing was changed; the old settings stay in force\n");
    tear_down();
}
END_TEST

TEST(a_token_file_is_read_again)
{
    char token_path[128], text[256];
    set_up("");
    snprintf(token_path, sizeof token_path, "%s/token", running.dir);
    snprintf(text, sizeof text, "admin.token_file = %s\n", token_path);
    for (int i = 0; i < 2; i++) {
        FILE *to = fopen(token_path, "w");
        fprintf(to, "token%d\n", i);
        fclose(to);
        ck_assert_ptr_nonnull(
            strstr(reload(text, true), "admin.token_file: the token has changed"));
        assert_token(i ? "token1" : "token0");
        ck_assert_str_eq(reload(text, true), "done: 0 changed, 0 need a restart\n");
    }
    unlink(token_path);
    ck_assert_ptr_nonnull(strstr(reload(text, false), "can't be read: No such file"));
    assert_token("token1");
    tear_down();
}
END_TEST

TEST(a_token_that_all_can_read_is_warned_of_after_a_reload_too)
{
    set_up("");
    ck_assert_int_eq(chmod(running.path, 0644), 0);
    ck_assert(!is_warned(""));
    ck_assert(is_warned("admin.token = hush\n"));
    ck_assert_int_eq(chmod(running.path, 0640), 0);
    ck_assert(!is_warned("admin.token = hush\n"));
    tear_down();
}
END_TEST

TEST(a_level_that_another_set_goes_back)
{
    set_up("");
    log_set_level(LOG_LEVEL_DEBUG);
    ck_assert_str_eq(reload("", true), "log.level is info now; it was debug\n"
                                       "done: 1 changed, 0 need a restart\n");
    ck_assert_int_eq((int)log_level_now(), LOG_LEVEL_INFO);
    tear_down();
}
END_TEST

int main(void)
{
    const struct unit_test tests[] = {
        UNIT(a_change_is_one_line),
        UNIT(a_secret_is_not_told),
        UNIT(the_level_is_the_one_in_force),
        UNIT(a_long_value_is_cut),
        UNIT(every_option_has_its_line),
        UNIT(what_did_not_change_is_not_told),
        UNIT(what_is_reloadable_takes_effect),
        UNIT(what_needs_a_restart_is_told_each_time),
        UNIT(a_bad_file_changes_nothing),
        UNIT(a_file_that_is_missing_changes_nothing),
        UNIT(the_default_file_may_be_missing_until_it_was_read),
        UNIT(options_that_do_not_fit_change_nothing),
        UNIT(new_settings_must_fit_the_old_that_stay),
        UNIT(an_inherited_tls_socket_keeps_its_certificate),
        UNIT(a_token_file_is_read_again),
        UNIT(a_token_that_all_can_read_is_warned_of_after_a_reload_too),
        UNIT(a_level_that_another_set_goes_back),
    };
    return unit_run("daemon/reload", tests, ARRAY_SIZE(tests));
}
