/*
 * command_line.c - parses the command line. Part of command.h.
 *
 * Options may stand anywhere. They are checked against the command when all words are read. "--"
 * ends the options; after the command's arguments it starts the command to execute.
 */
#include "cli/command.h"

#include "base/clock.h"
#include "cli/http.h"
#include "cli/print.h"
#include "proto/counter.h"

#include <stdlib.h>
#include <string.h>

/* How many bytes of a wrong argument a message shows. */
#define SHOWN_MAX 100

struct parser {
    struct invocation *invocation;
    char **words;  /* the rest of argv, ended by NULL */
    uint64_t seen; /* set of the options given */
};

static const char *option_name(size_t index)
{
    const struct option_row *row = option_at(index);
    return row ? row->name : NULL;
}

/* --- Options --------------------------------------------------------------------------------- */

static bool complain_unknown_option(const char *name, size_t len)
{
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(len < sizeof word ? len : sizeof word - 1), name);
    if (strcmp(word, "token") == 0)
        return complain("no such option: --token; every user of this machine could read it in the "
                        "list of processes; use --token-file or $COUNTER_ADMIN_TOKEN");
    const char *nearest = nearest_word(word, option_name);
    if (nearest)
        return complain("no such option: --%s; did you mean --%s?", word, nearest);
    return complain("no such option: --%s; \"counterctl help COMMAND\" lists those of a command",
                    word);
}

/* Sets an option; `as_given` is the user's spelling. */
static bool set(struct parser *p, const struct option_row *row, const char *as_given,
                const char *value)
{
    char reason[OPTION_REASON_SIZE];
    p->seen |= option_bit(row);
    return option_set(&p->invocation->options, row, value, reason) ||
           complain("%s: %s", as_given, reason);
}

/* The next word, which is the option's value; NULL after printing that there is none. */
static const char *next_value(struct parser *p, const struct option_row *row, const char *as_given)
{
    if (*p->words)
        return *p->words++;
    complain("%s needs a value: %s", as_given, row->argument);
    return NULL;
}

/* --name, --name=value, --name value */
static bool long_option(struct parser *p, const char *word)
{
    size_t len = strcspn(word, "=");
    const struct option_row *row = option_named(word, len);
    if (!row)
        return complain_unknown_option(word, len);
    char as_given[32];
    snprintf(as_given, sizeof as_given, "--%s", row->name);
    const char *value = word[len] == '=' ? word + len + 1 : NULL;
    if (!row->argument && value)
        return complain("%s takes no value", as_given);
    if (row->argument && !value && !(value = next_value(p, row, as_given)))
        return false;
    return set(p, row, as_given, value);
}

/* -x, -xyz, -x value, -xvalue */
static bool short_options(struct parser *p, const char *letters)
{
    for (; *letters; letters++) {
        const struct option_row *row = option_lettered(*letters);
        char as_given[] = {'-', *letters, '\0'};
        if (!row)
            return complain("no such option: %s; \"counterctl help COMMAND\" lists those of a "
                            "command",
                            as_given);
        if (!row->argument) {
            if (!set(p, row, as_given, NULL))
                return false;
            continue;
        }
        const char *value = letters[1] ? letters + 1 : next_value(p, row, as_given);
        return value && set(p, row, as_given, value);
    }
    return true;
}

/* --- Words ----------------------------------------------------------------------------------- */

/* Takes a word that is not an option: the first is the command, the others are its arguments. */
static bool take_word(struct parser *p, char *word)
{
    struct invocation *invocation = p->invocation;
    if (invocation->command) {
        invocation->arguments[invocation->count++] = word;
        return true;
    }
    invocation->command = command_named(word);
    if (invocation->command)
        return true;
    const char *nearest = nearest_command(word);
    if (nearest)
        return complain("no such command: \"%.*s\"; did you mean %s?", SHOWN_MAX, word, nearest);
    return complain("no such command: \"%.*s\"; \"counterctl help\" lists them", SHOWN_MAX, word);
}

/* Takes the words after "--": a command to execute, or arguments that may begin with a dash. */
static bool take_rest(struct parser *p)
{
    struct invocation *invocation = p->invocation;
    if (invocation->command && invocation->command->execute != EXECUTE_NEVER) {
        invocation->execute = p->words;
        return true;
    }
    while (*p->words)
        if (!take_word(p, *p->words++))
            return false;
    return true;
}

static bool read_words(struct parser *p)
{
    while (*p->words) {
        char *word = *p->words++;
        if (strcmp(word, "--") == 0)
            return take_rest(p);
        bool good;
        if (strncmp(word, "--", 2) == 0)
            good = long_option(p, word + 2);
        else if (word[0] == '-' && word[1])
            good = short_options(p, word + 1);
        else
            good = take_word(p, word);
        if (!good)
            return false;
    }
    return true;
}

/* --- The whole line -------------------------------------------------------------------------- */

static bool check_arguments(const struct invocation *invocation)
{
    const struct command *command = invocation->command;
    /* --pool takes the place of KEY. */
    size_t instead = invocation->options.pool ? 1 : 0;
    const char *wrong = NULL;
    if (invocation->count + instead < command->least)
        wrong = "an argument is missing";
    else if (invocation->count + instead > command->most)
        wrong = command->execute == EXECUTE_NEVER
                    ? "there are too many arguments"
                    : "there are too many arguments before \"--\", behind which COMMAND stands";
    else if (command->execute == EXECUTE_MUST && !invocation->execute)
        wrong = "\"--\" and COMMAND are missing";
    else if (invocation->execute && !invocation->execute[0])
        wrong = "no COMMAND follows \"--\"";
    return !wrong || complain("%s: %s: counterctl %s [OPTION]...%s%s", command->name, wrong,
                              command->name, *command->arguments ? " " : "", command->arguments);
}

/* What options need or exclude. Each is a name, or names with spaces between them. */
static const struct rule {
    const char *command; /* NULL: any that takes them */
    const char *given, *needs, *excludes;
    const char *wrong;
} rules[] = {
    {"run", "count with member fail-on env", "pool", NULL,
     "--count, --with, --member, --fail-on and --env need --pool"},
    {"run", "workers queue any escapes", NULL, "pool",
     "--workers, --queue, --any and --escapes are for a KEY, not for --pool"},
    {NULL, "start-timeout", "ready", NULL, "--start-timeout needs --ready"},
    {NULL, "every", "check", NULL, "--every needs --check"},
    {"work", "workers lock-server", "lock", NULL, "--workers and --lock-server need --lock"},
    {NULL, "ca cert key tls-name", "tls", NULL, "--ca, --cert, --key and --tls-name need --tls"},
    {NULL, "key", "cert", NULL, "--key needs --cert"},
};

static bool check_options(const struct parser *p)
{
    const struct invocation *invocation = p->invocation;
    const struct command *command = invocation->command;
    uint64_t foreign = p->seen & ~option_bits(command->options);
    const char *wrong = NULL;
    for (size_t i = 0; foreign && option_at(i); i++)
        if (foreign & option_bit(option_at(i)))
            return complain("%s takes no --%s", command->name, option_at(i)->name);
    for (size_t i = 0; !wrong && i < ARRAY_SIZE(rules); i++) {
        const struct rule *rule = &rules[i];
        bool applies = (!rule->command || strcmp(rule->command, command->name) == 0) &&
                       (p->seen & option_bits(rule->given));
        if (applies && ((rule->needs && !(p->seen & option_bits(rule->needs))) ||
                        (rule->excludes && (p->seen & option_bits(rule->excludes)))))
            wrong = rule->wrong;
    }
    if (!wrong && command->run == do_cluster && (p->seen & option_bits("prefix db")) &&
        !(invocation->count > 0 && strcmp(invocation->arguments[0], "acl") == 0))
        wrong = "--prefix and --db of cluster are for acl";
    if (!wrong && (p->seen & option_bits("init max ready")) && !invocation->execute)
        wrong = "--init, --max and --ready need \"--\" and COMMAND";
    return !wrong || complain("%s", wrong);
}

bool command_line_parse(int argc, char **argv, struct invocation *invocation_r)
{
    *invocation_r = (struct invocation){0};
    options_init(&invocation_r->options);
    invocation_r->arguments = allocate(((size_t)argc + 1) * sizeof *invocation_r->arguments);
    struct parser p = {.invocation = invocation_r, .words = argv + (argc > 0)};
    if (!read_words(&p))
        return false;
    if (invocation_r->options.version || invocation_r->options.help)
        return true;
    if (!invocation_r->command)
        return complain("no command is named; \"counterctl help\" lists them");
    if (invocation_r->options.grace_ns == SECONDS_NONE)
        invocation_r->options.grace_ns =
            (invocation_r->command->run == do_member ? 10 : 5) * NS_PER_S;
    return check_options(&p) && check_arguments(invocation_r);
}

void invocation_free(struct invocation *invocation)
{
    http_free(&invocation->http);
    loop_free(&invocation->loop);
    free(invocation->arguments);
    *invocation = (struct invocation){0};
}

/* --- Names ----------------------------------------------------------------------------------- */

bool parse_name(const char *given, size_t len, bool is_escaped, struct text *name_r,
                struct text *reason_r)
{
    size_t at = 0;
    if (!is_escaped) {
        text_add(name_r, given, len);
    } else if (!text_add_unescaped(name_r, given, len, &at)) {
        text_addf(reason_r,
                  "character %zu: this backslash begins neither \\xNN (a byte, in hexadecimal) nor "
                  "\\\\ (a backslash)",
                  at + 1);
        return false;
    }
    if (name_r->len >= 1 && name_r->len <= CTR_NAME_MAX)
        return true;
    if (name_r->len == 0)
        text_addf(reason_r, "it is empty");
    else
        text_addf(reason_r, "it has %zu bytes; names have at most %d", name_r->len, CTR_NAME_MAX);
    return false;
}

bool read_name(const struct invocation *invocation, const char *given, struct text *name_r)
{
    struct text reason = {0};
    bool good = parse_name(given, strlen(given), invocation->options.escapes, name_r, &reason);
    if (!good)
        complain("%s: the name is wrong: %s", invocation->command->name, text_str(&reason));
    text_free(&reason);
    return good;
}
