/*
 * manual_test.c - compares the manual, the help and the completions with the tables of commands,
 * options and exit statuses.
 *
 * A command, an option or a status is an ".It" of a list, and its text goes to the next one.
 */
#include "base/clock.h"
#include "cli/command.h"
#include "t/unit/manual.h"
#include "t/unit/words.h"

/* --- The manual ------------------------------------------------------------------------------ */

/* Options that the manual explains once for all commands. */
static bool is_common(size_t option)
{
    return option <= OPTION_ADMIN || option >= OPTION_HELP;
}

TEST(every_command_is_in_the_manual_with_its_options_and_no_other)
{
    char *page = read_source("man/counterctl.1"), *text = section(page, ".Sh COMMANDS");
    const struct command *command;
    unsigned commands = 0;
    for (; (command = command_at(commands)); commands++) {
        char head[100];
        snprintf(head, sizeof head, ".It Ic %s", command->name);
        char *item = item_text(text, head);
        const char *takes = strstr(item, "\nTakes\n");
        for (size_t i = 0; i < OPTION_COUNT; i++) {
            char flag[64];
            snprintf(flag, sizeof flag, "Fl -%s", option_at(i)->name);
            bool has = command->options & OPTION_BIT(i);
            if (!is_common(i))
                ck_assert_msg((takes && has_word(takes, flag)) == has, "%s: %s%s", command->name,
                              flag, has ? " is missing" : " is none of its options");
        }
        free(item);
    }
    ck_assert_uint_eq(count(text, "\n.It Ic "), commands);
    free(text);
    free(page);
}
END_TEST

TEST(every_option_is_in_the_manual_with_its_default_and_no_other)
{
    char *page = read_source("man/counterctl.1"), *text = section(page, ".Sh OPTIONS");
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = option_at(i);
        char head[128], line[128], argument[64];
        if (row->argument)
            snprintf(argument, sizeof argument, "Ar %s", row->argument);
        write_option_head(head, row->letter, row->name, row->argument ? argument : NULL);
        char *item = item_text(text, head);
        if (row->default_text) {
            snprintf(line, sizeof line, "\nDefault: %s.\n", row->default_text);
            ck_assert_msg(count(item, line) == 1, "%s: not there once:%s", row->name, line);
        }
        for (size_t j = 0; row->words && row->words[j]; j++) {
            snprintf(line, sizeof line, "\n.Cm %s", row->words[j]);
            ck_assert_msg(count(item, line) >= 1, "%s: not there: %s", row->name, row->words[j]);
        }
        free(item);
    }
    ck_assert_uint_eq(count(text, "\n.It Fl "), OPTION_COUNT);
    free(text);
    free(page);
}
END_TEST

TEST(every_exit_status_is_in_the_manual_and_no_other)
{
    static const struct {
        int number;
        const char *name;
    } statuses[] = {
#define ROW(name, number, meaning) {number, #name},
        STATUSES(ROW)
#undef ROW
    };
    char *page = read_source("man/counterctl.1"), *text = section(page, ".Sh EXIT STATUS");
    for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
        char head[32];
        snprintf(head, sizeof head, ".It %d%s", statuses[i].number,
                 statuses[i].number == STATUS_SIGNAL ? "+N" : "");
        free(item_text(text, head));
    }
    ck_assert_uint_eq(count(text, "\n.It "), ARRAY_SIZE(statuses));
    free(text);
    free(page);
}
END_TEST

/* --- Completions ----------------------------------------------------------------------------- */

/* Compares a command's options in a completion with the table's. */
static void assert_options(const char *text, const char *name, uint64_t options)
{
    char head[64];
    snprintf(head, sizeof head, "\n    %s)\n        options='", name);
    ck_assert_msg(count(text, head) == 1, "not there once: %s", head);
    const char *start = strstr(text, head) + strlen(head);
    char *words = strndup(start, strcspn(start, "'"));
    unsigned expected = 0;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char flag[64];
        snprintf(flag, sizeof flag, "--%s", option_at(i)->name);
        bool has = options & OPTION_BIT(i);
        expected += has;
        ck_assert_msg(has_word(words, flag) == has, "%s: %s%s", name, flag,
                      has ? " is missing" : " is none of its options");
    }
    ck_assert_uint_eq(count(words, "--"), expected);
    free(words);
}

static void assert_completion(const char *file)
{
    char *text = read_source(file);
    const struct command *command;
    unsigned commands = 0;
    for (; (command = command_at(commands)); commands++)
        assert_options(text, command->name, command->options);
    /* One more list is for the options before a command. */
    ck_assert_uint_eq(count(text, ")\n        options='"), commands + 1);
    free(text);
}

TEST(the_completion_of_bash_has_every_command_and_option)
{
    assert_completion("conf/completion/counterctl");
    char *text = read_source("conf/completion/counterctl");
    const char *start = strstr(text, "local commands='");
    ck_assert_ptr_nonnull(start);
    start += strlen("local commands='");
    char *words = strndup(start, strcspn(start, "'"));
    const char *values = strstr(text, "_counterctl_has_value()");
    char *with_value = strndup(values, (size_t)(strstr(values, "return 0") - values));
    const struct command *command;
    unsigned commands = 0, spaces = 0;
    for (; (command = command_at(commands)); commands++)
        ck_assert_msg(has_word(words, command->name), "%s is missing", command->name);
    for (const char *at = words; (at = strpbrk(at, " \n")); at += strspn(at, " \n"))
        spaces++;
    ck_assert_uint_eq(spaces + 1, commands);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = option_at(i);
        char flag[64];
        snprintf(flag, sizeof flag, "--%s", row->name);
        ck_assert_msg(has_word(with_value, flag) == (row->argument != NULL), "%s", flag);
        snprintf(flag, sizeof flag, "-%c", row->letter ? row->letter : ' ');
        if (row->letter)
            ck_assert_msg(has_word(with_value, flag) == (row->argument != NULL), "%s", flag);
    }
    free(words);
    free(with_value);
    free(text);
}
END_TEST

TEST(the_completion_of_zsh_has_every_command_and_option)
{
    assert_completion("conf/completion/_counterctl");
    char *text = read_source("conf/completion/_counterctl");
    const struct command *command;
    unsigned commands = 0;
    for (; (command = command_at(commands)); commands++) {
        char row[64];
        snprintf(row, sizeof row, "\n        '%s:", command->name);
        ck_assert_msg(count(text, row) == 1, "not there once: %s", row);
    }
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = option_at(i);
        char spec[128];
        snprintf(spec, sizeof spec, "\n    --%s) _counterctl_spec '%.1s' %s '", row->name,
                 row->letter ? &row->letter : "", row->name);
        ck_assert_msg(count(text, spec) == 1, "not there once: %s", spec);
        const char *line = strstr(text, spec) + 1;
        bool has_value = memmem(line, strcspn(line, "\n"), " '' ;;", 6) == NULL;
        ck_assert_msg(has_value == (row->argument != NULL), "%s", spec);
    }
    ck_assert_uint_eq(count(text, ") _counterctl_spec "), OPTION_COUNT);
    free(text);
}
END_TEST

/* --- The tables and the help ------------------------------------------------------------------ */

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

/* Returns how long a command may take to end when nothing says it. */
static int64_t grace_of(const char *const *words)
{
    struct command_line *line = command_line_of("counterctl", words);
    struct invocation invocation;
    ck_assert(command_line_parse(line->argc, line->argv, &invocation, stderr));
    int64_t grace_ns = invocation.options.grace_ns;
    invocation_free(&invocation);
    return grace_ns;
}

TEST(a_supplier_has_a_default_of_its_own)
{
    ck_assert_int_eq(grace_of(WORDS("member", "p", "--", "x")), 10 * NS_PER_S);
    ck_assert_int_eq(grace_of(WORDS("member", "p", "--grace", "0", "--", "x")), 0);
    ck_assert_int_eq(grace_of(WORDS("run", "k", "--", "x")), 5 * NS_PER_S);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(every_command_is_in_the_manual_with_its_options_and_no_other),
    UNIT(every_option_is_in_the_manual_with_its_default_and_no_other),
    UNIT(every_exit_status_is_in_the_manual_and_no_other),
    UNIT(the_completion_of_bash_has_every_command_and_option),
    UNIT(the_completion_of_zsh_has_every_command_and_option),
    UNIT(options_of_tables_are_told_apart),
    UNIT(help_of_every_command_names_its_options),
    UNIT(a_supplier_has_a_default_of_its_own),
};

UNIT_MAIN("cli/manual", tests)
