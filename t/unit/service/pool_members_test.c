/* pool_members_test.c - members that the configuration declares: the list, the file, and what is
 * wrong in them. */
#include "service/pool_members.h"

#include "t/unit/unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file of a test. */
static char path[64];

static void write_file(const char *text, size_t len)
{
    snprintf(path, sizeof path, "/tmp/pool_members_test.XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, len), (ssize_t)len);
    close(fd);
}

static void add_bytes(char *line, const char *before, struct bytes bytes)
{
    size_t len = strlen(line);
    if (bytes.len > 0)
        snprintf(line + len, 4096 - len, "%s%.*s", before, (int)bytes.len,
                 (const char *)bytes.data);
}

/* The members as "NAME@LINE>VALUE K=V !NOTE down; ...". */
static const char *shown(const struct pool_members *members)
{
    static char line[4096];
    *line = '\0';
    for (size_t i = 0; i < members->count; i++) {
        const struct pool_declared *m = &members->at[i];
        const struct pool_pair *attrs = pool_declared_attrs(members, m);
        char digits[16];
        snprintf(digits, sizeof digits, "@%u", m->line);
        add_bytes(line, "", m->name);
        add_bytes(line, "", bytes_of(m->line ? digits : ""));
        add_bytes(line, ">", m->value);
        for (size_t j = 0; j < m->attr_count; j++) {
            add_bytes(line, " ", attrs[j].key);
            add_bytes(line, "=", attrs[j].value);
        }
        add_bytes(line, " !", m->note);
        add_bytes(line, "", bytes_of(m->down ? " down; " : "; "));
    }
    return line;
}

/* Loads a list and a file of this text; NULL: none. Returns the members, or the reason with FILE
 * for the file's path. */
static const char *load(const char *list, const char *text, size_t max)
{
    static char said[OPTION_CHECK_REASON + 4096];
    struct pool_members members;
    char reason[OPTION_CHECK_REASON] = "";
    bool in_file;
    if (text)
        write_file(text, strlen(text));
    bool good = pool_members_load(&members, list, text ? path : NULL, max, &in_file, reason);
    if (good) {
        snprintf(said, sizeof said, "%s", shown(&members));
        pool_members_free(&members);
    } else {
        bool names_file = text && strncmp(reason, path, strlen(path)) == 0;
        ck_assert_int_eq(in_file, names_file);
        snprintf(said, sizeof said, "%s%s", names_file ? "FILE" : "",
                 reason + (names_file ? strlen(path) : 0));
    }
    ck_assert_uint_eq(members.count, 0);
    ck_assert_ptr_null(members.at);
    if (text)
        unlink(path);
    return said;
}

TEST(there_may_be_none)
{
    ck_assert_str_eq(load(NULL, NULL, 0), "");
    ck_assert_str_eq(load("", "", 0), "");
    ck_assert_str_eq(load(" , ,", "\n\r\n \t \n# nothing\n#", 0), "");
}
END_TEST

TEST(a_list_has_names_and_values)
{
    ck_assert_str_eq(load("db_1, db_2=host:5433", NULL, 2), "db_1; db_2>host:5433; ");
    ck_assert_str_eq(load("a,b ,,  c=x=y,d=,e=-,", NULL, 9), "a; b; c>x=y; d; e; ");
}
END_TEST

#define NO_ITEM " is not a member, NAME or NAME=VALUE, without blanks; a name has at most 255 bytes"

TEST(what_is_wrong_in_a_list_is_told_without_its_value)
{
    char name[300], expected[400], list[5000];
    ck_assert_str_eq(load("a, b c", NULL, 9), "\"b c\"" NO_ITEM);
    ck_assert_str_eq(load("a, b=hidden text", NULL, 9), "\"b\"" NO_ITEM);
    ck_assert_str_eq(load("=hidden", NULL, 9), "\"\"" NO_ITEM);
    memset(name, 'n', sizeof name);
    name[256] = '\0';
    snprintf(expected, sizeof expected, "\"%.100s...\"" NO_ITEM, name);
    ck_assert_str_eq(load(name, NULL, 9), expected);
    name[255] = '\0';
    snprintf(expected, sizeof expected, "%s; ", name);
    ck_assert_str_eq(load(name, NULL, 9), expected);
    memset(list, 'v', sizeof list);
    memcpy(list, "a=", 2);
    list[2 + POOLS_VALUE_MAX + 1] = '\0';
    ck_assert_str_eq(load(list, NULL, 9), "\"a\"" NO_ITEM);
}
END_TEST

TEST(a_line_of_a_file_is_one_of_the_protocol)
{
    ck_assert_str_eq(load("x",
                          "\xef\xbb\xbf# databases\n"
                          "db_1\r\n"
                          "\n"
                          "db_2 host:5433\n"
                          "db_3 - gpu=a100 rack=7 empty=\n"
                          "db,4=x  v  note=broken disk=9 state=down \n"
                          "state=down",
                          9),
                     "x; db_1@2; db_2@4>host:5433; db_3@5 gpu=a100 rack=7; "
                     "db,4=x@6>v disk=9 !broken down; state=down@7; ");
}
END_TEST

#define NO_LINE                                                                                    \
    "not of the form NAME [VALUE [KEY=VALUE]...], where - is no value, and keys are of a-z, 0-9 "  \
    "and _, each once, at most 16"

TEST(what_is_wrong_in_a_file_has_its_line)
{
    static const struct {
        const char *text, *reason;
    } rows[] = {
        {"a v word\n", "FILE:1: " NO_LINE},
        {"\na - K=1\n", "FILE:2: " NO_LINE},
        {"a - k=1 k=2\n", "FILE:1: " NO_LINE},
        {"a - state=dirty\n", "FILE:1: " NO_LINE},
        {"a - value=secret\n", "FILE:1: " NO_LINE},
        {"a\rb\n", "FILE:1: " NO_LINE},
        {" a\n", "FILE:1: the line begins with a blank; begin it with the member's name"},
        {"a\tv\n", "FILE:1: the line has a tab; put spaces between the words"},
        {"a\nb state=down\n",
         "FILE:2: the value is missing before state= or note=; - stands for none"},
        {"a note=x\n", "FILE:1: the value is missing before state= or note=; - stands for none"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_str_eq(load(NULL, rows[i].text, 9), rows[i].reason);
    struct pool_members members;
    char reason[OPTION_CHECK_REASON];
    bool in_file;
    write_file("a\0b\n", 4);
    ck_assert(!pool_members_load(&members, NULL, path, 9, &in_file, reason));
    ck_assert_ptr_nonnull(strstr(reason, ":1: not of the form"));
    unlink(path);
}
END_TEST

TEST(a_name_is_there_once)
{
    ck_assert_str_eq(load("a,b,a,b", NULL, 9),
                     "\"a\" is there twice, also in the option members; remove one");
    ck_assert_str_eq(load("a,b", "c\nb v\n", 9),
                     "FILE:2: \"b\" is there twice, also in the option members; remove one");
    ck_assert_str_eq(load("z", "c\nb v\n\nb w\nc\n", 9),
                     "FILE:4: \"b\" is there twice, also in line 2; remove one");
    ck_assert_str_eq(load("a", "A\nab\n", 9), "a; A@1; ab@2; ");
}
END_TEST

TEST(members_are_counted)
{
    static const char more[] = "there are more members than pools.max_members, which is 2";
    char expected[128];
    ck_assert_str_eq(load("a,b,c", NULL, 2), more);
    ck_assert_str_eq(load("a", "b\n", 2), "a; b@1; ");
    snprintf(expected, sizeof expected, "FILE:2: %s", more);
    ck_assert_str_eq(load("a", "b\nc\n", 2), expected);
}
END_TEST

TEST(many_members_are_loaded)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    for (unsigned i = 0; i < 100000; i++)
        fprintf(to, "m%u host:%u k=%u\n", i * 7919 % 100000, i, i);
    fclose(to);
    write_file(text, size);
    struct pool_members members;
    char reason[OPTION_CHECK_REASON];
    bool in_file;
    ck_assert(pool_members_load(&members, NULL, path, 100000, &in_file, reason));
    ck_assert_uint_eq(members.count, 100000);
    const struct pool_declared *last = &members.at[99999];
    ck_assert_uint_eq(last->line, 100000);
    ck_assert(bytes_equal(pool_declared_attrs(&members, last)->value, bytes_of("99999")));
    pool_members_free(&members);
    unlink(path);
    free(text);
}
END_TEST

TEST(a_file_must_be_readable_and_regular)
{
    struct pool_members members;
    char reason[OPTION_CHECK_REASON], fifo[] = "/tmp/pool_members_test.XXXXXX";
    bool in_file;
    ck_assert(!pool_members_load(&members, NULL, "/no/such", 9, &in_file, reason));
    ck_assert(in_file);
    ck_assert_str_eq(reason, "/no/such: can't be read: No such file or directory");
    ck_assert(!pool_members_load(&members, NULL, "/tmp", 9, &in_file, reason));
    ck_assert_str_eq(reason, "/tmp: can't be read: Is a directory");
    ck_assert_ptr_nonnull(mkdtemp(fifo));
    rmdir(fifo);
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    ck_assert(!pool_members_load(&members, NULL, fifo, 9, &in_file, reason));
    ck_assert_ptr_nonnull(strstr(reason, ": can't be read: Not a regular file"));
    unlink(fifo);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(there_may_be_none),
    UNIT(a_list_has_names_and_values),
    UNIT(what_is_wrong_in_a_list_is_told_without_its_value),
    UNIT(a_line_of_a_file_is_one_of_the_protocol),
    UNIT(what_is_wrong_in_a_file_has_its_line),
    UNIT(a_name_is_there_once),
    UNIT(members_are_counted),
    UNIT(many_members_are_loaded),
    UNIT(a_file_must_be_readable_and_regular),
};

UNIT_MAIN("service/pool_members", tests)
