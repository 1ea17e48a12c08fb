/*
 * command_test.c - the command line, its options and their values, and error messages.
 */
#include "base/clock.h"
#include "cli/command.h"
#include "t/unit/words.h"

#include <string.h>

/* Parses words ended by NULL. *said_r gets the output, which the caller frees. */
static bool parse(struct invocation *invocation, char **said_r, const char *const *words)
{
    struct command_line *line = command_line_of("counterctl", words);
    size_t size;
    FILE *err = open_memstream(said_r, &size);
    ck_assert_ptr_nonnull(err);
    bool good = command_line_parse(line->argc, line->argv, invocation, err);
    fclose(err);
    return good;
}

/* A valid command line; the caller frees it. */
static struct invocation right(const char *const *words)
{
    struct invocation invocation;
    char *said;
    ck_assert_msg(parse(&invocation, &said, words), "%s", said);
    ck_assert_str_eq(said, "");
    free(said);
    return invocation;
}

/* Checks that a command line is refused with a message that contains `why`. */
static void assert_wrong(const char *const *words, const char *why)
{
    struct invocation invocation;
    char *said;
    ck_assert_msg(!parse(&invocation, &said, words), "taken: %s %s", words[0], words[1]);
    ck_assert_msg(strstr(said, why), "%s", said);
    ck_assert_msg(strncmp(said, "counterctl: ", 12) == 0 && said[strlen(said) - 1] == '\n', "%s",
                  said);
    free(said);
    invocation_free(&invocation);
}

TEST(a_command_has_its_arguments)
{
    struct invocation invocation = right(WORDS("acquire", "name", "2", "5"));
    ck_assert_str_eq(invocation.command->name, "acquire");
    ck_assert_uint_eq(invocation.count, 3);
    ck_assert_str_eq(invocation.arguments[2], "5");
    ck_assert_ptr_null(invocation.execute);
    invocation_free(&invocation);
}
END_TEST

TEST(options_stand_anywhere_before_the_dashes)
{
    struct invocation invocation =
        right(WORDS("-s", "a:1", "run", "--workers=3", "key", "-Q9", "-aq", "--timeout", "0.5",
                    "--", "cmd", "-x", "--any", "--"));
    ck_assert_str_eq(invocation.options.server, "a:1");
    ck_assert_uint_eq(invocation.options.workers, 3);
    ck_assert_uint_eq(invocation.options.queue, 9);
    ck_assert(invocation.options.any && invocation.options.quiet);
    ck_assert_int_eq(invocation.options.timeout_ns, NS_PER_S / 2);
    ck_assert_uint_eq(invocation.count, 1);
    ck_assert_str_eq(invocation.arguments[0], "key");
    ck_assert_str_eq(invocation.execute[0], "cmd");
    ck_assert_str_eq(invocation.execute[3], "--");
    ck_assert_ptr_null(invocation.execute[4]);
    invocation_free(&invocation);
}
END_TEST

TEST(a_supplier_has_defaults_of_its_own)
{
    struct invocation invocation =
        right(WORDS("member", "p", "--attr=a=b", "--attr", "c=", "--", "x"));
    const struct options *options = &invocation.options;
    ck_assert_int_eq(options->grace_ns, 10 * NS_PER_S);
    ck_assert_int_eq(options->start_timeout_ns, 60 * NS_PER_S);
    ck_assert_int_eq(options->every_ns, 10 * NS_PER_S);
    ck_assert_uint_eq(options->init, 1);
    ck_assert_uint_eq(options->max, 0);
    ck_assert_uint_eq(options->attrs.count, 2);
    invocation_free(&invocation);
    invocation = right(WORDS("member", "p", "--grace", "0", "--", "x"));
    ck_assert_int_eq(invocation.options.grace_ns, 0);
    invocation_free(&invocation);
    assert_wrong(WORDS("member", "p", "--ready"), "need \"--\" and COMMAND");
    assert_wrong(WORDS("member", "p", "--start-timeout", "1", "--", "x"), "needs --ready");
    assert_wrong(WORDS("member", "p", "--every", "1", "--", "x"), "needs --check");
}
END_TEST

TEST(a_pool_stands_for_the_key)
{
    struct invocation invocation = right(
        WORDS("run", "--with=a=b", "--pool", "p", "--with", "c=", "--count", "64", "--", "cmd"));
    const struct options *options = &invocation.options;
    ck_assert_str_eq(options->pool, "p");
    ck_assert_uint_eq(options->count, 64);
    ck_assert_uint_eq(options->with.count, 2);
    ck_assert_str_eq(options->with.at[0], "a=b");
    ck_assert_str_eq(options->with.at[1], "c=");
    ck_assert_uint_eq(invocation.count, 0);
    invocation_free(&invocation);
    assert_wrong(WORDS("run", "--pool", "p", "key", "--", "cmd"), "too many arguments");
    assert_wrong(WORDS("run", "--pool", "p", "--any", "--", "cmd"), "not for --pool");
    assert_wrong(WORDS("run", "key", "--env", "X", "--", "cmd"), "need --pool");
    assert_wrong(WORDS("clean", "p", "--pool", "p", "--", "cmd"), "takes no --pool");
}
END_TEST

TEST(a_worker_has_its_own_options)
{
    struct invocation invocation =
        right(WORDS("work", "t", "u", "--jobs", "4", "--lock", "k", "-w", "2", "--", "cmd", "-x"));
    const struct options *options = &invocation.options;
    ck_assert_uint_eq(invocation.count, 2);
    ck_assert_uint_eq(options->jobs, 4);
    ck_assert_uint_eq(options->workers, 2);
    ck_assert_uint_eq(options->backoff, 1);
    ck_assert_uint_eq(options->tries, 0);
    ck_assert_str_eq(invocation.execute[1], "-x");
    invocation_free(&invocation);
    invocation = right(WORDS("put", "t", "-", "--lines"));
    ck_assert_uint_eq(invocation.options.pri, 1024);
    ck_assert_uint_eq(invocation.options.ttr, 60);
    ck_assert(invocation.options.lines);
    invocation_free(&invocation);
    invocation = right(WORDS("jobs"));
    invocation_free(&invocation);
    assert_wrong(WORDS("work", "t", "--workers", "2", "--", "x"), "need --lock");
    assert_wrong(WORDS("work", "t", "--lock-server", "h", "--", "x"), "need --lock");
    assert_wrong(WORDS("work", "t"), "COMMAND are missing");
    assert_wrong(WORDS("work", "--", "x"), "is missing");
    assert_wrong(WORDS("put", "t", "--tries", "0"), "from 1");
    assert_wrong(WORDS("put", "t", "--key", "k"), "need --tls");
}
END_TEST

TEST(dashes_let_a_name_begin_with_one)
{
    struct invocation invocation = right(WORDS("get", "--", "-name"));
    ck_assert_str_eq(invocation.arguments[0], "-name");
    ck_assert_ptr_null(invocation.execute);
    invocation_free(&invocation);
    invocation = right(WORDS("get", "-"));
    ck_assert_str_eq(invocation.arguments[0], "-");
    invocation_free(&invocation);
}
END_TEST

TEST(defaults)
{
    struct invocation invocation = right(WORDS("run", "k", "--", "true"));
    const struct options *options = &invocation.options;
    ck_assert_ptr_null(options->server);
    ck_assert_uint_eq(options->workers, 1);
    ck_assert_uint_eq(options->queue, 100);
    ck_assert_int_eq(options->timeout_ns, SECONDS_NONE);
    ck_assert_int_eq(options->for_ns, SECONDS_NONE);
    ck_assert_int_eq(options->grace_ns, 5 * NS_PER_S);
    ck_assert_int_eq(options->connect_timeout_ns, 5 * NS_PER_S);
    ck_assert_int_eq(options->io_timeout_ns, 30 * NS_PER_S);
    ck_assert_int_eq(options->interval_ns, 2 * NS_PER_S);
    ck_assert_uint_eq(options->sort, SORT_NONE);
    ck_assert_uint_eq(options->by, BY_WAITING);
    ck_assert_uint_eq(options->limit, 0);
    ck_assert(!options->any && !options->strict && !options->json);
    invocation_free(&invocation);
}
END_TEST

TEST(what_is_wrong_is_said)
{
    assert_wrong(WORDS("dmup"), "did you mean dump?");
    assert_wrong(WORDS("connection"), "did you mean connections?");
    assert_wrong(WORDS("xyzzy"), "lists them");
    assert_wrong(WORDS("\x1b[1m"), "\\x1b[1m");
    assert_wrong(WORDS("--json"), "no command");
    assert_wrong(WORDS("get", "--sever", "x"), "did you mean --server?");
    assert_wrong(WORDS("get", "--xyzzy"), "no such option: --xyzzy");
    assert_wrong(WORDS("get", "-Z"), "no such option: -Z");
    assert_wrong(WORDS("kill", "--token=x", "0.0.0"), "list of processes");
    assert_wrong(WORDS("get", "--json=yes", "k"), "takes no value");
    assert_wrong(WORDS("get", "k", "--server"), "needs a value");
    assert_wrong(WORDS("get", "k", "-s"), "needs a value");
    assert_wrong(WORDS("get", "--any", "k"), "get takes no --any");
    assert_wrong(WORDS("--any", "get", "k"), "get takes no --any");
    assert_wrong(WORDS("get"), "is missing");
    assert_wrong(WORDS("get", "a", "b"), "too many");
    assert_wrong(WORDS("run", "k"), "COMMAND are missing");
    assert_wrong(WORDS("run", "k", "true"), "too many arguments before \"--\"");
    assert_wrong(WORDS("run", "k", "--"), "no COMMAND follows");
    assert_wrong(WORDS("run", "--", "true"), "is missing");
    assert_wrong(WORDS("get", "k", "--ca", "f"), "need --tls");
    assert_wrong(WORDS("get", "k", "--tls", "--key", "f"), "--key needs --cert");
    assert_wrong(WORDS("get", "k", "--tls", "--insecure"), "no such option: --insecure");
}
END_TEST

TEST(values_are_checked)
{
    assert_wrong(WORDS("run", "k", "--workers", "0", "--", "x"), "from 1 to 4294967295");
    assert_wrong(WORDS("run", "k", "--workers", "4294967296", "--", "x"), "from 1 to");
    assert_wrong(WORDS("run", "k", "-w", "", "--", "x"), "from 1 to");
    assert_wrong(WORDS("run", "k", "-w", "2x", "--", "x"), "\"2x\"");
    assert_wrong(WORDS("run", "k", "-t", "-1", "--", "x"), "number of seconds");
    assert_wrong(WORDS("run", "k", "-t", "1e3", "--", "x"), "number of seconds");
    assert_wrong(WORDS("run", "k", "-t", ".", "--", "x"), "number of seconds");
    assert_wrong(WORDS("run", "k", "-t", "4294967296", "--", "x"), "number of seconds");
    assert_wrong(WORDS("get", "k", "--io-timeout", "0"), "above 0");
    assert_wrong(WORDS("get", "k", "--io-timeout", "none"), "above 0");
    assert_wrong(WORDS("dump", "--sort", "size"), "none, name, in-use, peak");
    assert_wrong(WORDS("dump", "--limit", "0"), "from 1");
}
END_TEST

TEST(seconds)
{
    static const struct {
        const char *text;
        int64_t ns;
    } cases[] = {{"0", 0},
                 {"5", 5 * NS_PER_S},
                 {"5.", 5 * NS_PER_S},
                 {".5", NS_PER_S / 2},
                 {"0.000000001", 1},
                 {"0.0000000019", 1},
                 {"4294967295", SECONDS_MAX * NS_PER_S},
                 {"4294967295.9", SECONDS_MAX * NS_PER_S}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int64_t ns = -5;
        ck_assert(parse_seconds(cases[i].text, &ns));
        ck_assert_int_eq(ns, cases[i].ns);
    }
    int64_t ns;
    ck_assert(!parse_seconds("", &ns));
    ck_assert(!parse_seconds(" 1", &ns));
    ck_assert(!parse_seconds("1 ", &ns));
    ck_assert(!parse_seconds("1.2.3", &ns));
}
END_TEST

TEST(a_grace_may_be_nothing_and_a_wait_none)
{
    struct invocation invocation =
        right(WORDS("run", "k", "--grace", "0", "--timeout", "none", "--", "x"));
    ck_assert_int_eq(invocation.options.grace_ns, 0);
    ck_assert_int_eq(invocation.options.timeout_ns, SECONDS_NONE);
    invocation_free(&invocation);
}
END_TEST

TEST(help_and_version_go_before_what_is_missing)
{
    struct invocation invocation = right(WORDS("run", "--help"));
    ck_assert(invocation.options.help);
    ck_assert_str_eq(invocation.command->name, "run");
    invocation_free(&invocation);
    invocation = right(WORDS("-V"));
    ck_assert(invocation.options.version);
    invocation_free(&invocation);
}
END_TEST

TEST(names_are_read)
{
    struct text name = {0}, reason = {0};
    ck_assert(parse_name("a\\x00b", 6, true, &name, &reason));
    ck_assert_uint_eq(name.len, 3);
    text_clear(&name);
    ck_assert(parse_name("a\\x00b", 6, false, &name, &reason));
    ck_assert_uint_eq(name.len, 6);
    text_clear(&name);
    ck_assert_str_eq(text_str(&reason), "");
    ck_assert(!parse_name("", 0, false, &name, &reason));
    ck_assert_ptr_nonnull(strstr(text_str(&reason), "empty"));
    text_clear(&reason);
    ck_assert(!parse_name("ab\\q", 4, true, &name, &reason));
    ck_assert_ptr_nonnull(strstr(text_str(&reason), "character 3"));
    text_clear(&name);
    text_clear(&reason);
    static char longest[65537];
    memset(longest, 'x', sizeof longest);
    ck_assert(parse_name(longest, 65535, false, &name, &reason));
    text_clear(&name);
    ck_assert(!parse_name(longest, 65536, false, &name, &reason));
    ck_assert_ptr_nonnull(strstr(text_str(&reason), "at most 65535"));
    text_free(&name);
    text_free(&reason);
}
END_TEST

TEST(options_of_tables_are_told_apart)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = option_at(i);
        ck_assert_ptr_nonnull(row->name);
        ck_assert_ptr_eq(option_named(row->name, strlen(row->name)), row);
        ck_assert_uint_eq(option_index(row), i);
        if (row->letter)
            ck_assert_ptr_eq(option_lettered(row->letter), row);
        ck_assert_msg((row->argument == NULL) == (row->type == OPTION_IS_FLAG), "%s", row->name);
    }
    const struct command *command;
    for (size_t i = 0; (command = command_at(i)); i++) {
        ck_assert_ptr_eq(command_named(command->name), command);
        ck_assert_ptr_nonnull(command->run);
        ck_assert(command->least <= command->most);
    }
}
END_TEST

TEST(help_of_every_command_names_its_options)
{
    const struct command *command;
    for (size_t i = 0; (command = command_at(i)); i++) {
        char *text;
        size_t size;
        FILE *to = open_memstream(&text, &size);
        print_help(command, to);
        fclose(to);
        for (size_t j = 0; j < OPTION_COUNT; j++) {
            char name[40];
            snprintf(name, sizeof name, " --%s%s", option_at(j)->name,
                     option_at(j)->argument ? "=" : " ");
            ck_assert_msg(!strstr(text, name) == !(command->options & OPTION_BIT(j)), "%s:%s",
                          command->name, name);
        }
        free(text);
    }
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(a_command_has_its_arguments),
    UNIT(options_stand_anywhere_before_the_dashes),
    UNIT(a_supplier_has_defaults_of_its_own),
    UNIT(a_pool_stands_for_the_key),
    UNIT(a_worker_has_its_own_options),
    UNIT(dashes_let_a_name_begin_with_one),
    UNIT(defaults),
    UNIT(what_is_wrong_is_said),
    UNIT(values_are_checked),
    UNIT(seconds),
    UNIT(a_grace_may_be_nothing_and_a_wait_none),
    UNIT(help_and_version_go_before_what_is_missing),
    UNIT(names_are_read),
    UNIT(options_of_tables_are_told_apart),
    UNIT(help_of_every_command_names_its_options),
};

UNIT_MAIN("cli/command", tests)
