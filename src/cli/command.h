/*
 * command.h - the commands of counterctl, and the parsed command line. One table of commands drives
 * the parser, the help, and the tests of the manual and of the completions.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "cli/loop.h"
#include "cli/options.h"
#include "cli/status.h"
#include "cli/text.h"

/* A parsed command line. */
struct invocation {
    const struct command *command; /* NULL: --help or --version alone */
    struct options options;
    struct loop loop;  /* the command's event loop */
    struct http *http; /* the admin interface, as http_of makes it; NULL: not asked yet */
    char **arguments;  /* of the command, `count` of them; names are not decoded */
    size_t count;
    char **execute; /* the words after "--", ended by NULL; NULL: no "--" */
};

/* Does a command take "--" and a command to execute? */
enum command_execute { EXECUTE_NEVER, EXECUTE_MAY, EXECUTE_MUST };

struct command {
    const char *name;
    const char *arguments; /* for people; "" for no arguments */
    size_t least, most;    /* number of arguments */
    enum command_execute execute;
    const char *options; /* names with spaces between them */
    int (*run)(struct invocation *invocation);
    const char *help; /* one line */
    const char *more; /* lines of up to 79 columns, each ended by "\n" */
};

/* The command of that name; NULL when there is none. */
const struct command *command_named(const char *name);

/*
 * Parses the command line. Returns false after printing what is wrong; exit with STATUS_USAGE then.
 * In both cases the caller must call invocation_free. The result points into `argv`.
 */
bool command_line_parse(int argc, char **argv, struct invocation *invocation_r) MUST_USE;

void invocation_free(struct invocation *invocation);

/* Finds the word nearest to `word`; `next` returns the known words, and NULL after the last. NULL:
   none is near. */
const char *nearest_word(const char *word, const char *(*next)(size_t index));

/* The command name nearest to `word`; NULL: none is near. */
const char *nearest_command(const char *word);

/* Prints the help of counterctl (NULL) or of a command. */
void print_help(const struct command *command);

/*
 * Reads a name from an argument: 1 to 65,535 bytes, with escapes if --escapes was given. Returns
 * false after printing what is wrong.
 */
bool read_name(const struct invocation *invocation, const char *given,
               struct text *name_r) MUST_USE;

/* Like read_name, for names from elsewhere: false puts the error into *reason_r and prints nothing.
 */
bool parse_name(const char *given, size_t len, bool is_escaped, struct text *name_r,
                struct text *reason_r) MUST_USE;

/* The commands. Each prints its errors and returns an exit status. */
int do_run(struct invocation *invocation);
int run_with_pool(struct invocation *invocation); /* run with --pool */
int do_acquire(struct invocation *invocation);
int do_release(struct invocation *invocation);
int do_get(struct invocation *invocation);
int do_dump(struct invocation *invocation);
int do_stats(struct invocation *invocation);
int do_noop(struct invocation *invocation);
int do_batch(struct invocation *invocation);
int do_pool(struct invocation *invocation);
int do_clean(struct invocation *invocation);
int do_member(struct invocation *invocation);
int do_put(struct invocation *invocation);
int do_work(struct invocation *invocation);
int do_jobs(struct invocation *invocation);
int do_top(struct invocation *invocation);
int do_contended(struct invocation *invocation);
int do_holders(struct invocation *invocation);
int do_cluster(struct invocation *invocation);
int do_connections(struct invocation *invocation);
int do_kill(struct invocation *invocation);
int do_config(struct invocation *invocation);
int do_reload(struct invocation *invocation);
int do_upgrade(struct invocation *invocation);
int do_loglevel(struct invocation *invocation);

#endif
