/*
 * command_line.c - the daemon's flags, and --help. Part of options.h.
 *
 * The command line is read twice: first for the file to load, then for the values that override the
 * file.
 */
#include "daemon/config_file.h"
#include "daemon/options.h"
#include "daemon/process.h"

#include <getopt.h>
#include <string.h>

#ifndef SYSCONFDIR
#define SYSCONFDIR "/etc"
#endif

#define DEFAULT_FILE SYSCONFDIR "/counter.conf"

/* Messages show at most this many bytes of a wrong argument. */
#define SHOWN_MAX 100

/* --- Flags ----------------------------------------------------------------------------------- */

struct flag {
    char letter;
    const char *name;     /* the long form without its dashes, or NULL */
    const char *argument; /* its name in --help; NULL: no argument */
    const char *help;
};

static const struct flag flags[] = {
    {'f', NULL, "FILE", "read this file; without it, " DEFAULT_FILE " if there is one"},
    {'o', NULL, "KEY=VALUE", "set an option, over what the file says; may be repeated"},
    {'l', NULL, "ADDRESS", "serve clients here, with every protocol; may be repeated"},
    {'t', NULL, NULL, "check the configuration and exit"},
    {'V', "version", NULL, "print the version and exit"},
    {'h', "help", NULL, "print this help and exit"},
};

static const struct flag *find_flag(int letter)
{
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
        if (flags[i].letter == letter)
            return &flags[i];
    return NULL;
}

/* The flags as arguments of getopt_long. */
struct getopt_tables {
    char letters[2 + 2 * ARRAY_SIZE(flags) + 1];
    struct option names[ARRAY_SIZE(flags) + 1];
};

/* Fills in the tables and resets getopt_long to the first argument. */
static void walk_from_start(struct getopt_tables *tables)
{
    memset(tables, 0, sizeof *tables);
    char *letter = tables->letters;
    struct option *name = tables->names;
    *letter++ = '+'; /* stop at the first argument that is no flag */
    *letter++ = ':'; /* return ':' for a missing argument, '?' for an unknown flag */
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
        *letter++ = flags[i].letter;
        if (flags[i].argument)
            *letter++ = ':';
        if (flags[i].name) {
            name->name = flags[i].name;
            name->has_arg = flags[i].argument ? required_argument : no_argument;
            name->val = (unsigned char)flags[i].letter;
            name++;
        }
    }
    opterr = 0;
    optind = 0;
}

/* Returns the next flag's letter, -1 at the end, '?' or ':' on an error. */
static int next_flag(int argc, char **argv, const struct getopt_tables *tables,
                     const char **argument_r)
{
    optarg = NULL;
    /* getopt's state is global; only the main thread uses it. */
    /* NOLINTNEXTLINE(concurrency-mt-unsafe) */
    int flag = getopt_long(argc, argv, tables->letters, tables->names, NULL);
    *argument_r = optarg ? optarg : "";
    return flag;
}

/* After next_flag returned '?'. For a long flag, optopt has its value, or 0 if it is unknown. */
static void complain_unknown_flag(char **argv, FILE *err)
{
    if (optopt == 0 || find_flag(optopt))
        options_complain(err, "unknown flag %s; counterd --help lists them", argv[optind - 1]);
    else
        options_complain(err, "unknown flag -%c; counterd --help lists them", optopt);
}

static struct options_request failure(int exit_status)
{
    return (struct options_request){.action = OPTIONS_ERROR, .exit_status = exit_status};
}

/* First pass: finds the action and the file to read (*file_r; NULL: none named). Sets no option. */
static struct options_request read_flags(int argc, char **argv, const char **file_r, FILE *err)
{
    struct options_request request = {.action = OPTIONS_RUN};
    struct option_addresses addresses = {.count = 0};
    char reason[OPTIONS_REASON_SIZE];
    const char *argument;
    struct getopt_tables tables;
    *file_r = NULL;
    walk_from_start(&tables);
    for (int flag; (flag = next_flag(argc, argv, &tables, &argument)) != -1;) {
        switch (flag) {
        case 'f':
            if (*file_r) {
                options_complain(err, "-f is given twice");
                return failure(PROCESS_EXIT_SETUP);
            }
            *file_r = argument;
            break;
        case 'o':
            break;
        case 'l':
            if (!option_list_extend(&addresses, &option_address_list, argument, strlen(argument),
                                    reason)) {
                options_complain(err, "-l: %s", reason);
                return failure(PROCESS_EXIT_ADDRESS);
            }
            break;
        case 't':
            request.action = OPTIONS_CHECK;
            break;
        case 'V':
            return (struct options_request){.action = OPTIONS_VERSION};
        case 'h':
            return (struct options_request){.action = OPTIONS_HELP};
        case ':':
            options_complain(err, "the argument of -%c is missing", optopt);
            return failure(PROCESS_EXIT_SETUP);
        default:
            complain_unknown_flag(argv, err);
            return failure(PROCESS_EXIT_SETUP);
        }
    }
    if (optind < argc) {
        options_complain(err, "\"%s\" is not a flag; counterd --help lists them", argv[optind]);
        return failure(PROCESS_EXIT_SETUP);
    }
    return request;
}

/* The key of the first option that is set and secret: a token or a password. NULL: there is none.
 */
static const char *secret_in(const struct settings *settings)
{
    const struct option_row *row;
    char text[2];
    for (size_t i = 0; (row = options_row_at(i)); i++) {
        if (row->secret && options_has(settings, row) &&
            options_to_text(settings, row, text, sizeof text) > 0)
            return row->key;
    }
    return NULL;
}

/* Reads the named file, or the default one when `named` is NULL. */
static bool read_file(const char *named, bool had_file, struct settings *settings, FILE *err)
{
    const char *path = named ? named : DEFAULT_FILE;
    switch (config_file_load(settings, path, err)) {
    case CONFIG_FILE_READ:
        settings->file = path;
        settings->file_secret = secret_in(settings);
        return true;
    case CONFIG_FILE_MISSING:
        if (!named && !had_file)
            return true;
        options_complain(err, "%s: no such file%s%s", path,
                         had_file ? ", and one was read before: put it back" : "",
                         named ? "" : ", or restart counterd to go on with the defaults");
        return false;
    case CONFIG_FILE_BAD:
        return false;
    }
    return false;
}

/* Sets an option from a value that may be in quotes. Changes `text`. */
static bool assign_key(struct settings *settings, const char *key, char *text, char *reason_r)
{
    const struct option_row *row = options_to_set(settings, key, reason_r);
    if (!row)
        return false;
    const char *why, *value = options_unquote(text, false, &why);
    if (!value)
        return option_say(reason_r, "%s", why);
    options_mark(settings, row)->line = 0; /* the file's value no longer counts */
    return options_assign(settings, row, value, reason_r);
}

/* Sets the option of `-o argument`. */
static bool set_option(struct settings *settings, const char *argument, FILE *err)
{
    char text[CONFIG_FILE_LINE_MAX + 1];
    size_t len = strlen(argument);
    if (len >= sizeof text) {
        options_complain(err, "-o %.*s...: longer than %d bytes", SHOWN_MAX, argument,
                         CONFIG_FILE_LINE_MAX);
        return false;
    }
    memcpy(text, argument, len + 1);

    char *equals = strchr(text, '=');
    if (!equals) {
        options_complain(err, "-o %s: not of the form KEY=VALUE", text);
        return false;
    }
    char *key = text + strspn(text, " \t"), *end = equals;
    while (end > key && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *end = '\0';

    char reason[OPTIONS_REASON_SIZE];
    if (!assign_key(settings, key, equals + 1, reason)) {
        options_complain(err, "-o %.*s: %s", SHOWN_MAX, key, reason);
        return false;
    }
    return true;
}

/*
 * Second pass: applies -o and -l. Continues after a mistake to report all of them. Each -l sets the
 * addresses of every protocol to all -l so far, and overrides an earlier -o.
 */
static bool apply_flags(int argc, char **argv, struct settings *settings, FILE *err)
{
    bool good = true;
    struct option_addresses addresses = {.count = 0};
    char reason[OPTIONS_REASON_SIZE];
    const char *argument;
    struct getopt_tables tables;
    walk_from_start(&tables);
    for (int flag; (flag = next_flag(argc, argv, &tables, &argument)) != -1;) {
        if (flag == 'o') {
            good &= set_option(settings, argument, err);
        } else if (flag == 'l') {
            /* The first pass has checked these addresses. */
            CHECK(option_list_extend(&addresses, &option_address_list, argument, strlen(argument),
                                     reason));
            options_listen(settings, &addresses);
        }
    }
    return good;
}

struct options_request options_command_line(int argc, char **argv, bool had_file,
                                            struct settings *settings, FILE *err)
{
    const char *file;
    struct options_request request = read_flags(argc, argv, &file, err);
    if (request.action != OPTIONS_RUN && request.action != OPTIONS_CHECK)
        return request;
    bool file_good = read_file(file, had_file, settings, err);
    bool flags_good = apply_flags(argc, argv, settings, err);
    if (!file_good || !flags_good)
        return failure(PROCESS_EXIT_SETUP);
    return options_fit(settings, err) ? request : failure(PROCESS_EXIT_SETUP);
}

/* --- Help ------------------------------------------------------------------------------------ */

static void print_flag(FILE *to, const struct flag *flag)
{
    char left[64];
    snprintf(left, sizeof left, "-%c%s%s%s%s", flag->letter, flag->argument ? " " : "",
             flag->argument ? flag->argument : "", flag->name ? ", --" : "",
             flag->name ? flag->name : "");
    fprintf(to, "  %-14s  %s\n", left, flag->help);
}

static void print_row(FILE *to, const struct option_row *row)
{
    char range[128] = "";
    struct option_text text = {.to = range, .size = sizeof range};
    option_value_add_range(&text, row);
    fprintf(to, "  %s = %s  (%s%s%s)\n      %s\n", row->key,
            *row->default_text ? row->default_text : "\"\"", range, row->alias ? "; or " : "",
            row->alias ? row->alias : "", row->help);
}

void options_print_help(FILE *to)
{
    fputs("Usage: counterd", to);
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
        const char *argument = flags[i].argument;
        bool repeats = flags[i].letter == 'o' || flags[i].letter == 'l';
        fprintf(to, " [-%c%s%s]%s", flags[i].letter, argument ? " " : "", argument ? argument : "",
                repeats ? "..." : "");
    }
    fputs("\n\nKeeps count of who may do what: locks with bounded queues, and counters.\n\n", to);
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
        print_flag(to, &flags[i]);
    fputs("\nOptions of the file and of -o, with their defaults:\n\n", to);
    const struct option_row *row;
    for (size_t i = 0; (row = options_row_at(i)); i++)
        print_row(to, row);
}
