/*
 * reload_test.c - what transcripts/config.ctl cannot show of a reload: a line for each option, the
 * default file, and secrets in files.
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

int main(void)
{
    const struct unit_test tests[] = {
        UNIT(every_option_has_its_line),
        UNIT(the_default_file_may_be_missing_until_it_was_read),
        UNIT(new_settings_must_fit_the_old_that_stay),
        UNIT(an_inherited_tls_socket_keeps_its_certificate),
        UNIT(a_token_file_is_read_again),
        UNIT(a_token_that_all_can_read_is_warned_of_after_a_reload_too),
    };
    return unit_run("daemon/reload", tests, ARRAY_SIZE(tests));
}
