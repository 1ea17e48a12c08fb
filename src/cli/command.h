/*
 * command.h - the commands of counterctl: one table, which drives parsing, help, and the tests of
 * the manual and of the completions; and the command line as it was understood.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "cli/loop.h"
#include "cli/options.h"
#include "cli/status.h"
#include "cli/text.h"

#include <stdio.h>

/* A command line, understood. */
struct invocation {
    const struct command *command; /* NULL: --help or --version alone */
    struct options options;
    struct loop loop; /* what the command waits in */
    char **arguments; /* the command's own, `count` of them; names as they were given */
    size_t count;
    char **execute; /* what stands behind "--", ended by NULL; NULL: nothing does */
};

/* Whether a command is followed by "--" and a command to execute. */
enum command_execute { EXECUTE_NEVER, EXECUTE_MAY, EXECUTE_MUST };

struct command {
    const char *name;
    const char *arguments; /* for people; "" where it has none */
    size_t least, most;    /* how many they are */
    enum command_execute execute;
    uint64_t options; /* OPTION_BIT of each */
    int (*run)(struct invocation *invocation);
    const char *help; /* a line */
    const char *more; /* some sentences, in lines of up to 79 columns; each ends in "\n" */
};

/* The command at an index; NULL: there are no more. */
const struct command *command_at(size_t index);

/* The command of that name; NULL: there is none. */
const struct command *command_named(const char *name);

/*
 * Understands the command line. False: it said what is wrong to `err`; exit with STATUS_USAGE.
 * Whatever the result, invocation_free is due. The arguments are not copied.
 */
bool command_line_parse(int argc, char **argv, struct invocation *invocation_r, FILE *err) MUST_USE;

void invocation_free(struct invocation *invocation);

/* The word of `words` (ended by NULL by `next`) nearest to `word`; NULL: none is near. */
const char *nearest_word(const char *word, const char *(*next)(size_t index));

/* The command that is nearest; NULL: none is near. */
const char *nearest_command(const char *word);

/* Prints the help of counterctl, or of a command. */
void print_help(const struct command *command, FILE *to);

/*
 * Reads a name that was given as an argument: 1 to 65,535 bytes, escaped where --escapes says so.
 * False: it said what is wrong.
 */
bool read_name(const struct invocation *invocation, const char *given,
               struct text *name_r) MUST_USE;

/* The same with the result in a text, for `what` ("line 3", "NAME"); false: *reason_r says why. */
bool parse_name(const char *given, size_t len, bool is_escaped, struct text *name_r,
                struct text *reason_r) MUST_USE;

/* The functions of the commands. Each returns an exit status and has said what went wrong. */
int do_run(struct invocation *invocation);
int do_acquire(struct invocation *invocation);
int do_release(struct invocation *invocation);
int do_get(struct invocation *invocation);
int do_dump(struct invocation *invocation);
int do_stats(struct invocation *invocation);
int do_noop(struct invocation *invocation);
int do_batch(struct invocation *invocation);
int do_top(struct invocation *invocation);
int do_contended(struct invocation *invocation);
int do_holders(struct invocation *invocation);
int do_connections(struct invocation *invocation);
int do_kill(struct invocation *invocation);
int do_config(struct invocation *invocation);
int do_reload(struct invocation *invocation);
int do_upgrade(struct invocation *invocation);
int do_loglevel(struct invocation *invocation);
int do_help(struct invocation *invocation);

#endif
