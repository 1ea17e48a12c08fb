/*
 * manual_test.c - compares the sample file and the manuals with the tables of options, flags,
 * signals, exit statuses and environment variables.
 *
 * An option or flag is an ".It" of a list, and its text goes to the next one.
 */
#include "cluster/where.h"
#include "daemon/activation.h"
#include "daemon/config_file.h"
#include "daemon/notify.h"
#include "daemon/options.h"
#include "daemon/process.h"
#include "daemon/upgrade.h"
#include "t/unit/manual.h"

#include <unistd.h>

/* A copy of the line at `text`, without its end, which the caller frees. */
static char *copy_line(const char *text)
{
    char *line = strndup(text, strcspn(text, "\n"));
    ck_assert_ptr_nonnull(line);
    return line;
}

static const char *next_line(const char *text)
{
    text += strcspn(text, "\n");
    return *text ? text + 1 : text;
}

/* --- The manual ------------------------------------------------------------------------------ */

TEST(every_option_is_in_the_manual_with_its_range_and_default)
{
    char *page = read_source("man/counter.conf.5");
    const struct option_row *row;
    for (size_t i = 0; (row = options_row_at(i)); i++) {
        char line[256], range[128];
        snprintf(line, sizeof line, ".It Ic %s", row->key);
        char *text = item_text(page, line);

        if (*row->default_text)
            snprintf(line, sizeof line, "\nDefault: %s.\n", row->default_text);
        else
            snprintf(line, sizeof line, "\nDefault: none");
        ck_assert_msg(count(text, line) == 1, "%s: not there once:%s", row->key, line);
        ck_assert_uint_eq(count(text, "Default:"), 1);

        options_range_text(row, range, sizeof range);
        snprintf(line, sizeof line, "\nRange: %s.\n", range);
        bool any = row->type == OPTION_STRING;
        ck_assert_msg(count(text, line) == (any ? 0 : 1), "%s: not there once:%s", row->key, line);
        ck_assert_uint_eq(count(text, "Range:"), any ? 0 : 1);

        ck_assert_msg(count(text, "\nReloadable.\n") == row->reloadable, "%s: is%s reloadable",
                      row->key, row->reloadable ? "" : " not");
        if (row->alias) {
            snprintf(line, sizeof line, "\n.Ic %s\n", row->alias);
            ck_assert_msg(count(text, line) == 1, "%s: not there once:%s", row->key, line);
        }
        free(text);
    }
    free(page);
}
END_TEST

TEST(every_option_in_the_manual_exists)
{
    char *page = read_source("man/counter.conf.5");
    for (const char *at = page; *at; at = next_line(at)) {
        bool item = strncmp(at, ".It Ic ", 7) == 0;
        if (!item && strncmp(at, ".Ic ", 4) != 0)
            continue;
        /* The key may be followed by punctuation. */
        char *key = copy_line(at + (item ? 7 : 4));
        if (!item)
            key[strcspn(key, " ")] = '\0';
        ck_assert_msg(options_find(key), "no such option: %s", key);
        free(key);
    }
    free(page);
}
END_TEST

/* The line that begins the item of a flag. */
static void flag_head(const struct options_flag *flag, char *to, size_t size)
{
    const char *equals = flag->argument ? strchr(flag->argument, '=') : NULL;
    if (equals)
        snprintf(to, size, ".It Fl %c Ar %.*s Ns = Ns Ar %s", flag->letter,
                 (int)(equals - flag->argument), flag->argument, equals + 1);
    else if (flag->argument)
        snprintf(to, size, ".It Fl %c Ar %s", flag->letter, flag->argument);
    else if (flag->name)
        snprintf(to, size, ".It Fl %c , Fl -%s", flag->letter, flag->name);
    else
        snprintf(to, size, ".It Fl %c", flag->letter);
}

TEST(every_flag_is_in_the_manual_and_no_other)
{
    char *page = read_source("man/counterd.8");
    const struct options_flag *flag;
    size_t flags = 0;
    for (; (flag = options_flag_at(flags)); flags++) {
        char head[128];
        flag_head(flag, head, sizeof head);
        free(item_text(page, head));
        /* The synopsis has it too. */
        snprintf(head, sizeof head, "\n.%s Fl %c",
                 flag->argument && *flag->argument != 'F' ? "Oo" : "Op", flag->letter);
        ck_assert_msg(count(page, head) == 1, "not in the synopsis: -%c", flag->letter);
    }
    ck_assert_uint_eq(count(page, "\n.It Fl "), flags);
    ck_assert_uint_eq(count(page, "\n.Oo Fl ") + count(page, "\n.Op Fl "), flags);
    free(page);
}
END_TEST

TEST(every_option_that_the_daemon_page_names_exists)
{
    char *page = read_source("man/counterd.8");
    for (const char *at = page; *at; at = next_line(at)) {
        if (strncmp(at, ".Ic ", 4) != 0)
            continue;
        char *key = copy_line(at + 4);
        key[strcspn(key, " ")] = '\0'; /* punctuation may follow */
        ck_assert_msg(options_find(key), "no such option: %s", key);
        free(key);
    }
    free(page);
}
END_TEST

/* How many words the items of a list name, like ".It Dv WORD , OTHER"; not the macro. */
static unsigned words_of_items(const char *text, const char *macro)
{
    unsigned n = 0;
    for (const char *at = text; *at; at = next_line(at)) {
        char *rest, *line = copy_line(at);
        for (char *part = strncmp(line, ".It ", 4) == 0 ? strtok_r(line + 4, " ,", &rest) : NULL;
             part; part = strtok_r(NULL, " ,", &rest))
            n += strcmp(part, macro) != 0;
        free(line);
    }
    return n;
}

/* A section of counterd(8) with a list whose items name what there is, after a macro. */
struct listed {
    char *text;
    const char *macro;
    unsigned words;
};

static struct listed list_begin(const char *head, const char *macro)
{
    char *page = read_source("man/counterd.8");
    struct listed list = {section(page, head), macro, 0};
    free(page);
    return list;
}

/* The list has `word` once. */
static void list_has(struct listed *list, const char *word)
{
    unsigned found = 0;
    for (const char *at = list->text; *at; at = next_line(at)) {
        char *line = copy_line(at);
        found += strncmp(line, ".It ", 4) == 0 && has_word(line, word);
        free(line);
    }
    ck_assert_msg(found == 1, "not there once: %s", word);
    list->words++;
}

/* It has nothing else. */
static void list_end(struct listed *list)
{
    ck_assert_uint_eq(words_of_items(list->text, list->macro), list->words);
    free(list->text);
}

TEST(every_signal_is_in_the_manual_and_no_other)
{
    struct listed list = list_begin(".Sh SIGNALS", "Dv");
    list_has(&list, "SIGPIPE"); /* ignored, so that it is not in process_signals */
    for (unsigned i = 0; process_signals[i]; i++) {
        char name[32];
        snprintf(name, sizeof name, "SIG%s", sigabbrev_np(process_signals[i]));
        list_has(&list, name);
    }
    list_end(&list);
}
END_TEST

TEST(every_exit_status_is_in_the_manual_and_no_other)
{
    struct listed list = list_begin(".Sh EXIT STATUS", "");
    for (unsigned status = 0; status < PROCESS_EXIT_COUNT; status++) {
        char number[16];
        snprintf(number, sizeof number, "%u", status);
        list_has(&list, number);
    }
    list_end(&list);
}
END_TEST

TEST(every_environment_variable_is_in_the_manual_and_no_other)
{
    static const char *const other_variables[] = {UPGRADE_VARIABLE, WHERE_VARIABLE, NULL};
    const char *const *const lists[] = {activation_variables, notify_variables, other_variables};
    struct listed list = list_begin(".Sh ENVIRONMENT", "Ev");
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        for (size_t j = 0; lists[i][j]; j++)
            list_has(&list, lists[i][j]);
    list_end(&list);
}
END_TEST

/* --- The sample ------------------------------------------------------------------------------ */

/* Loads a file and checks that it gives no messages. */
static void assert_loads(struct settings *settings, const char *path)
{
    char *said;
    size_t size;
    FILE *err = open_memstream(&said, &size);
    ck_assert_ptr_nonnull(err);
    enum config_file_status status = config_file_load(settings, path, err);
    fclose(err);
    ck_assert_str_eq(said, "");
    ck_assert_int_eq(status, CONFIG_FILE_READ);
    free(said);
}

/* Writes the value of an option; its default where nothing has it. */
static void value_text(const struct settings *settings, const struct option_row *row, char *to,
                       size_t size)
{
    if (options_has(settings, row))
        options_to_text(settings, row, to, size);
    else
        snprintf(to, size, "%s", row->default_text);
}

/* The value of an option that the sample file turns on; NULL: it shows the default. */
static const char *turned_on(const struct option_row *row)
{
    static const char *const values[][2] = {{"counter.enable", "true"},
                                            {"jobs.enable", "true"},
                                            {"jobs.path", "/var/lib/counterd/jobs.db"}};
    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        if (strcmp(row->key, values[i][0]) == 0)
            return values[i][1];
    }
    return NULL;
}

/* Checks that settings are equal except for what the sample turns on. */
static void assert_same_but_on(const struct settings *a, const struct settings *b)
{
    const struct option_row *row;
    for (size_t i = 0; (row = options_row_at(i)); i++) {
        char a_text[256], b_text[256];
        value_text(a, row, a_text, sizeof a_text);
        value_text(b, row, b_text, sizeof b_text);
        if (!turned_on(row))
            ck_assert_str_eq(a_text, b_text);
    }
}

/* True if the line is a commented-out option. */
static bool is_shown_default(const char *line)
{
    return line[0] == '#' && islower((unsigned char)line[1]) && strstr(line, " = ");
}

TEST(the_sample_turns_all_listeners_on_and_changes_nothing_else)
{
    struct settings sample, defaults;
    char path[4096];
    const char *top = getenv("TOP_SRCDIR"); /* NOLINT(concurrency-mt-unsafe): one thread */
    ck_assert(settings_init(&sample));
    ck_assert(settings_init(&defaults));
    snprintf(path, sizeof path, "%s/conf/counter.conf", top ? top : ".");
    assert_loads(&sample, path);
    for (size_t i = 0; options_protocol_at(i); i++) {
        ck_assert(settings_protocol(&sample, i)->enable);
        ck_assert_str_eq(settings_protocol(&sample, i)->ignored_keys, "");
    }
    assert_same_but_on(&sample, &defaults);
    settings_free(&sample);
    settings_free(&defaults);
}
END_TEST

TEST(the_sample_shows_every_option_once_with_its_default)
{
    char *sample = read_source("conf/counter.conf");
    const struct option_row *row;
    for (size_t i = 0; (row = options_row_at(i)); i++) {
        char line[256];
        const char *value = *row->default_text ? row->default_text : "\"\"";
        if (turned_on(row))
            snprintf(line, sizeof line, "\n%s = %s\n", row->key, turned_on(row));
        else
            snprintf(line, sizeof line, "\n#%s = %s\n", row->key, value);
        ck_assert_msg(count(sample, line) == 1, "not there once: %s", line);
        snprintf(line, sizeof line, "%s = ", row->key);
        ck_assert_msg(count(sample, line) >= 1, "not there: %s", line);
    }
    for (const char *at = sample; *at; at = next_line(at)) {
        char *line = copy_line(at);
        if (is_shown_default(line)) {
            line[1 + strcspn(line + 1, " ")] = '\0';
            ck_assert_msg(options_find(line + 1), "no such option: %s", line + 1);
        }
        free(line);
    }
    free(sample);
}
END_TEST

/* Writes `text`, with the # removed from shown default number `which`, or from all if it is -1. */
static void write_without_mark(FILE *to, const char *text, int which)
{
    int number = 0;
    for (; *text; text = next_line(text)) {
        char *line = copy_line(text);
        bool shown = is_shown_default(line);
        bool unmark = shown && (which == -1 || number == which);
        number += shown;
        fprintf(to, "%s\n", line + unmark);
        free(line);
    }
}

TEST(the_sample_can_be_uncommented_line_by_line_and_whole)
{
    char *sample = read_source("conf/counter.conf");
    struct settings defaults;
    ck_assert(settings_init(&defaults));
    /* All shown defaults; some options of the sample are not commented out. */
    const struct option_row *row;
    int shown = 0;
    for (size_t i = 0; (row = options_row_at(i)); i++)
        shown += !turned_on(row);
    for (int which = -1; which < shown; which++) {
        char path[] = "/tmp/manual_test.XXXXXX";
        int fd = mkstemp(path);
        ck_assert_int_ne(fd, -1);
        FILE *to = fdopen(fd, "w");
        write_without_mark(to, sample, which);
        long size = ftell(to);
        fclose(to);
        /* One byte less for each removed mark. */
        ck_assert_int_eq(size, (long)strlen(sample) - (which == -1 ? shown : 1));

        struct settings settings;
        ck_assert(settings_init(&settings));
        assert_loads(&settings, path);
        assert_same_but_on(&settings, &defaults);
        settings_free(&settings);
        unlink(path);
    }
    settings_free(&defaults);
    free(sample);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(every_option_is_in_the_manual_with_its_range_and_default),
    UNIT(every_option_in_the_manual_exists),
    UNIT(every_flag_is_in_the_manual_and_no_other),
    UNIT(every_option_that_the_daemon_page_names_exists),
    UNIT(every_signal_is_in_the_manual_and_no_other),
    UNIT(every_exit_status_is_in_the_manual_and_no_other),
    UNIT(every_environment_variable_is_in_the_manual_and_no_other),
    UNIT(the_sample_turns_all_listeners_on_and_changes_nothing_else),
    UNIT(the_sample_shows_every_option_once_with_its_default),
    UNIT(the_sample_can_be_uncommented_line_by_line_and_whole),
};

UNIT_MAIN("daemon/manual", tests)
