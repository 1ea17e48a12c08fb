/*
 * command.c - the table of commands, help and suggestions (command.h).
 */
#include "cli/command.h"

#include "base/spelling.h"
#include "cli/print.h"

#include <string.h>

/* --- The table ------------------------------------------------------------------------------- */

/* The most words of a request about pools, and tubes of a worker. */
#define WORDS_MAX 64

#define TIMEOUTS     "server connect-timeout io-timeout help "
#define TO_SERVER    TIMEOUTS "tls ca cert key tls-name "
#define TO_ADMIN     TIMEOUTS "admin json "
#define WITH_NAME    "escapes "
#define WITH_EXECUTE "strict grace quiet "

static int do_help(struct invocation *invocation);

static const struct command commands[] = {
    {"run", "KEY|--pool=TARGET -- COMMAND...", 1, 1, EXECUTE_MUST,
     TO_SERVER WITH_NAME WITH_EXECUTE
     "workers queue timeout any pool count with member fail-on env",
     do_run, "execute a command while holding a lock, or a member of a pool",
     "Waits for a lock of the text protocol, executes COMMAND, gives the lock back, and\n"
     "exits with the status of COMMAND. If that is 0, the lock goes back as finished work;\n"
     "else run just closes the connection, and a client waiting with --any does the work.\n"
     "A space in KEY is sent as %20, as MediaWiki does; controls are refused.\n"
     "\n"
     "With --pool it takes members of a pool instead. COMMAND learns which from\n"
     "COUNTER_POOL, COUNTER_MEMBER, COUNTER_VALUE, COUNTER_FENCE and COUNTER_ATTR_K, the\n"
     "key K of an attribute in capitals. They go back as failed if a signal ended COMMAND\n"
     "or --fail-on has its exit status, else as ok.\n"},
    {"acquire", "NAME UNITS MAX [-- COMMAND...]", 3, 3, EXECUTE_MAY,
     TO_SERVER WITH_NAME WITH_EXECUTE "for json", do_acquire,
     "hold units of a name, of which at most MAX may be in use",
     "Holds the units while COMMAND runs; without one, until standard input ends, a\n"
     "signal arrives, or the time of --for is over (--for ignores standard input). It\n"
     "never waits for units: if they are not available now, it exits with 75.\n"},
    {"release", "NAME UNITS", 2, 2, EXECUTE_NEVER, TO_SERVER WITH_NAME "json", do_release,
     "give units of a name back",
     "Units belong to the connection that acquired them. This is a new connection, which\n"
     "has none to give back. Use batch to acquire and release over one connection.\n"},
    {"get", "NAME", 1, 1, EXECUTE_NEVER, TO_SERVER WITH_NAME "json", do_get,
     "print how many units of a name are in use", ""},
    {"dump", "", 0, 0, EXECUTE_NEVER, TO_SERVER WITH_NAME "json sort prefix min limit", do_dump,
     "list all names with their units in use and their peak",
     "Names are printed in the server's order, or with --sort after all have arrived.\n"},
    {"stats", "", 0, 0, EXECUTE_NEVER, TO_SERVER "json text", do_stats,
     "print the statistics of both protocols",
     "Asks both ports. An address with a port, or unix:, is that of the binary protocol,\n"
     "or with --text that of the text protocol.\n"},
    {"noop", "", 0, 0, EXECUTE_NEVER, TO_SERVER "json", do_noop,
     "ask for nothing: check that the server answers, and how fast", ""},
    {"batch", "", 0, 0, EXECUTE_NEVER, TO_SERVER "json", do_batch,
     "execute commands of standard input over one connection",
     "Each line is one of\n"
     "    acquire NAME UNITS MAX\n"
     "    release NAME UNITS\n"
     "    get NAME\n"
     "    stats\n"
     "    noop\n"
     "and gets one line as answer: \"ok\", with a number if there is one, \"no\" with the\n"
     "server's reason, or \"error\" with the mistake in the line. In names \\xNN is a\n"
     "byte, \\x20 a space, and \\\\ a backslash. Empty lines and those that begin with #\n"
     "are ignored. All units go back at the end of the input.\n"},
    {"pool", "VERB [WORD]...", 1, WORDS_MAX, EXECUTE_NEVER, TO_SERVER WITH_NAME "json", do_pool,
     "list, show, change and watch pools and their members",
     "VERB and its words are one of\n"
     "    list [PREFIX]\n"
     "    show POOL\n"
     "    add POOL [OPTION=VALUE]...\n"
     "    set POOL OPTION=VALUE...\n"
     "    drop POOL [now]\n"
     "    watch POOL|*\n"
     "    member add POOL MEMBER [VALUE [K=V]...]\n"
     "    member set POOL MEMBER K=V... [now]\n"
     "    member drop POOL MEMBER [now]\n"
     "What is held is changed when it is returned, or with \"now\" at once. K is an\n"
     "attribute, or with set also value, note or state: free, dirty or down.\n"},
    {"clean", "POOL -- COMMAND...", 1, 1, EXECUTE_MUST, TO_SERVER "grace jobs once", do_clean,
     "execute a command for each dirty member of a pool",
     "Takes dirty members of the pool one after another, and executes COMMAND with the\n"
     "variables of run --pool. If it exits with 0 the member is clean and free, else it\n"
     "stays dirty. It goes on until a signal ends it, also when the server is away for a\n"
     "time; with --once it cleans what is dirty now.\n"},
    {"member", "POOL [-- COMMAND...]", 1, 1, EXECUTE_MAY,
     TO_SERVER "grace init max name value attr ready start-timeout check every keep", do_member,
     "supply a pool with members: run a command as often as there is demand",
     "Executes COMMAND as often as the server wants members, from --init to --max times,\n"
     "and again when one ends. Each gets COUNTER_POOL, COUNTER_MEMBER and COUNTER_SLOT,\n"
     "the lowest number that is free. It is a member from its start on, or with --ready\n"
     "from when it prints READY. All of them end when counterctl ends. Without COMMAND\n"
     "there is one member, for something that runs already.\n"},
    {"put", "TUBE [FILE|-]", 1, 2, EXECUTE_NEVER,
     TO_SERVER "json pri delay ttr unique tries lines quiet", do_put,
     "store a job in a tube of the job queues, and print its id",
     "The job is what standard input or FILE has; with --lines there is a job for each\n"
     "line. With --unique nothing is stored if the tube has a ready or delayed job with\n"
     "that key; its id is printed then, or 0 if such a job was done since.\n"},
    {"work", "TUBE... -- COMMAND...", 1, WORDS_MAX, EXECUTE_MUST,
     TO_SERVER "workers grace jobs tries backoff lock lock-server once quiet", do_work,
     "execute a command for each job of tubes",
     "COMMAND gets the job on standard input, and COUNTER_JOB_ID, COUNTER_JOB_TUBE and\n"
     "COUNTER_JOB_TRY. If it exits with 0 the job is done, with 100 the job is buried;\n"
     "else it is tried again after --backoff seconds, which double with each try. After\n"
     "a first INT or TERM no more jobs are taken, and the running ones end; a second\n"
     "one ends them. With --once it ends when no job is ready.\n"},
    {"jobs", "[VERB [WORD]...]", 0, 3, EXECUTE_NEVER, TO_SERVER "json limit admin token-file off",
     do_jobs, "list, show, change, export and import jobs and tubes",
     "VERB and its words are one of\n"
     "    tubes\n"
     "    list TUBE [STATE]\n"
     "    peek ID\n"
     "    kick TUBE N\n"
     "    clear TUBE STATE\n"
     "    export TUBE\n"
     "    import [FILE|-]\n"
     "    backup FILE\n"
     "    drain\n"
     "STATE is ready, delayed, reserved, buried, abandoned or all. Without VERB it lists\n"
     "the tubes. backup and drain ask the admin interface: the server makes FILE, a name\n"
     "without a folder, in its own folder for backups, or takes no new jobs (DRAINING)\n"
     "until drain --off or its next start.\n"},
    {"top", "", 0, 0, EXECUTE_NEVER, TO_ADMIN "by limit interval once filter", do_top,
     "watch the server: rates, waits, and the most contended names",
     "In full screen; the key h lists all keys. --json needs --once.\n"},
    {"contended", "", 0, 0, EXECUTE_NEVER, TO_ADMIN "by limit", do_contended,
     "list the most contended names", ""},
    {"holders", "NAME", 1, 1, EXECUTE_NEVER, TO_ADMIN WITH_NAME, do_holders,
     "list the holders of a name, and its waiting clients", ""},
    {"cluster", "[NAME|acl|check]", 0, 1, EXECUTE_NEVER, TO_ADMIN WITH_NAME "prefix db", do_cluster,
     "print the nodes that share limits, or where units of a name are held",
     "Without a word it prints the state of this node, all nodes, and advice. With\n"
     "check it exits with 0 if this node is live and there is no advice, else with 1.\n"
     "acl asks no server: it prints the command for redis-cli that makes the nodes' user.\n"
     "To see a name that is one of these words, use --escapes: \\x61cl is acl.\n"},
    {"connections", "", 0, 0, EXECUTE_NEVER, TO_ADMIN "protocol limit", do_connections,
     "list connections", ""},
    {"kill", "CONNECTION", 1, 1, EXECUTE_NEVER, TO_ADMIN "token-file", do_kill,
     "close a connection, which frees what it holds",
     "CONNECTION is an id printed by holders or connections, such as 0.12.3.\n"},
    {"config", "", 0, 0, EXECUTE_NEVER, TO_ADMIN, do_config, "print the server's options", ""},
    {"reload", "", 0, 0, EXECUTE_NEVER, TO_ADMIN "token-file", do_reload,
     "make the server read its configuration again", ""},
    {"upgrade", "", 0, 0, EXECUTE_NEVER, TO_ADMIN "token-file", do_upgrade,
     "replace the running server by the program on its disk, in place",
     "Clients stay connected and keep what they hold, except those with TLS.\n"},
    {"loglevel", "[LEVEL]", 0, 1, EXECUTE_NEVER, TO_ADMIN "token-file", do_loglevel,
     "print what the server logs, or set it", "LEVEL is error, warning, info or debug.\n"},
    {"help", "[COMMAND]", 0, 1, EXECUTE_NEVER, "help", do_help, "explain a command", ""},
};

const struct command *command_named(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

/* --- The nearest word ------------------------------------------------------------------------ */

const char *nearest_word(const char *word, const char *(*next)(size_t index))
{
    size_t len = strlen(word);
    const char *nearest = spelling_nearest(word, next, len > 4 ? 2 : 1), *at;
    /* A prefix counts too. */
    for (size_t i = 0; len >= 2 && !nearest && (at = next(i)); i++)
        if (strncmp(at, word, len) == 0)
            nearest = at;
    return nearest;
}

static const char *command_name(size_t index)
{
    return index < ARRAY_SIZE(commands) ? commands[index].name : NULL;
}

const char *nearest_command(const char *word)
{
    return nearest_word(word, command_name);
}

/* --- Help ------------------------------------------------------------------------------------ */

static void print_option(const struct option_row *row)
{
    char left[64];
    snprintf(left, sizeof left, "%c%c%s --%s%s%s", row->letter ? '-' : ' ',
             row->letter ? row->letter : ' ', row->letter ? "," : " ", row->name,
             row->argument ? "=" : "", row->argument ? row->argument : "");
    printf("  %-26s  %s", left, row->help);
    if (row->default_text)
        printf(" (default: %s)", row->default_text);
    putchar('\n');
}

static void print_options(const char *names)
{
    const struct option_row *row;
    for (size_t i = 0; (row = option_at(i)); i++)
        if (option_bits(names) & option_bit(row))
            print_option(row);
}

static void print_command_help(const struct command *command)
{
    printf("Usage: counterctl %s [OPTION]... %s\n\n", command->name, command->arguments);
    printf("To %s.\n", command->help);
    if (*command->more)
        printf("\n%s", command->more);
    fputs("\nOptions:\n", stdout);
    print_options(command->options);
}

void print_help(const struct command *command)
{
    if (command) {
        print_command_help(command);
        return;
    }
    fputs("Usage: counterctl [OPTION]... COMMAND [OPTION]... [ARGUMENT]...\n\n"
          "Locks, counters and administration of counterd.\n\nCommands:\n",
          stdout);
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
        printf("  %-12s %s\n", commands[i].name, commands[i].help);
    fputs("\nOptions of all commands that talk to a server:\n", stdout);
    print_options(TO_SERVER "admin version");
    fputs("\n\"counterctl help COMMAND\" has the others, counterctl(1) all of it.\n", stdout);
}

static int do_help(struct invocation *invocation)
{
    const struct command *command = NULL;
    if (invocation->count > 0) {
        command = command_named(invocation->arguments[0]);
        if (!command) {
            const char *nearest = nearest_command(invocation->arguments[0]);
            return complain_as(STATUS_USAGE,
                               "help: no such command; \"counterctl help\" lists them%s%s",
                               nearest ? "; did you mean: " : "", nearest ? nearest : "");
        }
    }
    print_help(command);
    return STATUS_OK;
}
