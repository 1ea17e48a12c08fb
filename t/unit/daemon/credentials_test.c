/*
 * credentials_test.c - tokens in files, and the messages for bad files. The tests of net cover
 * certificates; here a bad one only has to be reported.
 */
#include "daemon/credentials.h"
#include "t/unit/unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- Frame ----------------------------------------------------------------------------------- */

static char path[] = "/tmp/credentials_test.XXXXXX";
static struct settings settings;
static struct credentials credentials;

/* Writes these bytes to the test's file. */
static void write_bytes(const char *bytes, size_t len)
{
    static bool made;
    int fd = made ? open(path, O_WRONLY | O_TRUNC) : mkstemp(path);
    made = true;
    ck_assert_int_ne(fd, -1);
    ck_assert_int_eq(write(fd, bytes, len), (ssize_t)len);
    close(fd);
}

/* Writes these bytes to the test's file and sets the option to its path. */
static void write_file(const char *key, const char *bytes, size_t len)
{
    char reason[OPTIONS_REASON_SIZE];
    write_bytes(bytes, len);
    ck_assert(options_assign(&settings, options_find(key), path, reason));
}

/* Loads the credentials; returns the error with "FILE" for the path, "" if there is none. */
static const char *complaint(void)
{
    static char text[1024];
    char *said = NULL;
    size_t size;
    FILE *err = open_memstream(&said, &size);
    bool good = credentials_load(&settings, &credentials, err);
    fclose(err);
    ck_assert(good == (*said == '\0'));
    char *at = strstr(said, path);
    if (at)
        snprintf(text, sizeof text, "%.*sFILE%s", (int)(at - said), said, at + strlen(path));
    else
        snprintf(text, sizeof text, "%s", said);
    free(said);
    return text;
}

/* Checks that a digest belongs to this token. */
static void assert_digest(const char *digest, const char *token)
{
    char expected[TOKEN_DIGEST_SIZE];
    ck_assert(token_digest(token, strlen(token), expected));
    ck_assert_str_eq(digest, expected);
}

static void assert_token(const char *content, const char *token)
{
    write_file("admin.token_file", content, strlen(content));
    ck_assert_str_eq(complaint(), "");
    assert_digest(credentials.token, token);
    ck_assert_ptr_null(credentials.tls);
    credentials_free(&credentials);
    ck_assert_str_eq(credentials.token, "");
}

static void assert_no_token(const char *content, size_t len)
{
    write_file("admin.token_file", content, len);
    ck_assert_str_eq(complaint(),
                     "counterd: admin.token_file: FILE: its first line is not 1 to 255 "
                     "printable ASCII characters without blanks\n");
}

/* --- Tokens ---------------------------------------------------------------------------------- */

TEST(there_may_be_none)
{
    ck_assert(settings_init(&settings));
    ck_assert_str_eq(complaint(), "");
    ck_assert_str_eq(credentials.token, "");
    ck_assert_ptr_null(credentials.tls);
}
END_TEST

TEST(a_token_is_the_first_line_of_its_file)
{
    char token[OPTIONS_TOKEN_MAX + 1];
    ck_assert(settings_init(&settings));
    memset(token, 'x', OPTIONS_TOKEN_MAX);
    token[OPTIONS_TOKEN_MAX] = '\0';
    assert_token("secret", "secret");
    assert_token("secret\n", "secret");
    assert_token("secret\r\nmore\n", "secret");
    assert_token("secret \t\n", "secret");
    assert_token(token, token);
    unlink(path);
}
END_TEST

TEST(what_is_no_token_is_told)
{
    char token[OPTIONS_TOKEN_MAX + 2];
    ck_assert(settings_init(&settings));
    memset(token, 'x', sizeof token);
    assert_no_token("", 0);
    assert_no_token("\nsecret\n", 8);
    assert_no_token(" secret", 7);
    assert_no_token("two words\n", 10);
    assert_no_token("\xc3\xa9\n", 3);
    assert_no_token("a\0b\n", 4);
    assert_no_token(token, OPTIONS_TOKEN_MAX + 1);
    unlink(path);
}
END_TEST

TEST(the_file_goes_over_the_option)
{
    char reason[OPTIONS_REASON_SIZE];
    ck_assert(settings_init(&settings));
    ck_assert(options_assign(&settings, options_find("admin.token"), "option", reason));
    ck_assert_str_eq(complaint(), "");
    assert_digest(credentials.token, "option");
    assert_token("file", "file");
    unlink(path);
    ck_assert_str_eq(complaint(),
                     "counterd: admin.token_file: FILE: can't be read: No such file or "
                     "directory\n");
}
END_TEST

TEST(only_a_regular_file_is_read)
{
    char reason[OPTIONS_REASON_SIZE];
    ck_assert(settings_init(&settings));
    ck_assert(options_assign(&settings, options_find("admin.token_file"), "/tmp", reason));
    ck_assert_str_eq(complaint(),
                     "counterd: admin.token_file: /tmp: can't be read: Is a directory\n");
    ck_assert_int_ne(mkstemp(path), -1);
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert(options_assign(&settings, options_find("admin.token_file"), path, reason));
    ck_assert_str_eq(complaint(),
                     "counterd: admin.token_file: FILE: can't be read: Not a regular file\n");
    unlink(path);
}
END_TEST

/* --- Certificates ---------------------------------------------------------------------------- */

TEST(a_bad_certificate_is_told)
{
    ck_assert(settings_init(&settings));
    write_file("tls.cert", "nothing\n", 8);
    static const char beginning[] = "counterd: tls: certificate FILE: ";
    ck_assert_int_eq(strncmp(complaint(), beginning, strlen(beginning)), 0);
    unlink(path);
    ck_assert_str_eq(complaint(), "counterd: tls: certificate FILE: No such file or directory\n");
}
END_TEST

/* --- Warnings -------------------------------------------------------------------------------- */

/* The logged warning, without its time. */
static const char *warning(void)
{
    static char text[1024];
    char file[] = "/tmp/credentials_test.XXXXXX";
    int fd = mkstemp(file), old = dup(STDERR_FILENO);
    unlink(file);
    dup2(fd, STDERR_FILENO);
    credentials_warn(&settings);
    dup2(old, STDERR_FILENO);
    ssize_t got = pread(fd, text, sizeof text - 1, 0);
    close(fd);
    text[got] = '\0';
    return got ? strchr(text, ' ') + 1 : "";
}

TEST(secrets_that_all_can_read_are_warned_of)
{
    static const struct {
        const char *key, *named;
    } keys[] = {
        {"tls.cert", "tls.cert, which also has the key"},
        {"tls.key", "tls.key"},
        {"admin.token_file", "admin.token_file"},
    };
    ck_assert(settings_init(&settings));
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        char expected[256];
        settings_free(&settings);
        ck_assert(settings_init(&settings));
        ck_assert_str_eq(warning(), "");
        write_file(keys[i].key, "x", 1);
        ck_assert_int_eq(chmod(path, 0660), 0);
        ck_assert_str_eq(warning(), "");
        ck_assert_int_eq(chmod(path, 0644), 0);
        snprintf(expected, sizeof expected,
                 "warning: %s: %s can be read by every user of this machine; forbid that with "
                 "chmod o=\n",
                 keys[i].named, path);
        ck_assert_str_eq(warning(), expected);
        ck_assert_int_eq(chmod(path, 0602), 0);
        ck_assert_ptr_nonnull(strstr(warning(), " can be written by "));
    }
    unlink(path);
    ck_assert_str_eq(warning(), "");
}
END_TEST

TEST(a_secret_in_a_configuration_file_that_all_can_read_is_warned_of)
{
    static const struct {
        const char *text, *option;
        const char *warns; /* of which option; NULL: it does not */
    } files[] = {
        {"admin.token = hush\n", "log.level=info", "admin.token"},
        {"admin.token = hush\n", "admin.token_file=/elsewhere", "admin.token"},
        {"cluster.password = hush\n", "log.level=info", "cluster.password"},
        {"# nothing\n", "admin.token=hush", NULL},
    };
    char program[] = "counterd", file_flag[] = "-f", option_flag[] = "-o", expected[256];
    ck_assert(settings_init(&settings));
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        write_bytes(files[i].text, strlen(files[i].text));
        char *option = strdup(files[i].option);
        char *argv[] = {program, file_flag, path, option_flag, option, NULL};
        settings_free(&settings);
        ck_assert(settings_init(&settings));
        ck_assert_int_eq(options_command_line(5, argv, false, &settings, stderr).action,
                         OPTIONS_RUN);
        free(option);
        ck_assert_int_eq(chmod(path, 0640), 0);
        ck_assert_str_eq(warning(), "");
        ck_assert_int_eq(chmod(path, 0644), 0);
        snprintf(expected, sizeof expected,
                 "warning: %s: %s can be read by every user of this machine; give it the group of "
                 "counterd and chmod 640\n",
                 files[i].warns ? files[i].warns : "", path);
        ck_assert_str_eq(warning(), files[i].warns ? expected : "");
        ck_assert_int_eq(chmod(path, 0602), 0);
        ck_assert_int_eq(strstr(warning(), " can be written by ") != NULL, files[i].warns != NULL);
    }
    unlink(path);
    ck_assert_str_eq(warning(), "");
}
END_TEST

int main(void)
{
    const struct unit_test tests[] = {
        UNIT(there_may_be_none),
        UNIT(a_token_is_the_first_line_of_its_file),
        UNIT(what_is_no_token_is_told),
        UNIT(the_file_goes_over_the_option),
        UNIT(only_a_regular_file_is_read),
        UNIT(a_bad_certificate_is_told),
        UNIT(secrets_that_all_can_read_are_warned_of),
        UNIT(a_secret_in_a_configuration_file_that_all_can_read_is_warned_of),
    };
    return unit_run("daemon/credentials", tests, ARRAY_SIZE(tests));
}
