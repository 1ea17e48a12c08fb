/*
 * main.c - counterctl: parses the command line, and runs the command.
 */
#include "config.h"

#include "cli/command.h"
#include "cli/print.h"
#include "cli/signals.h"

#include <locale.h>

static int execute(struct invocation *invocation)
{
    if (invocation->options.version) {
        printf("counterctl " PACKAGE_VERSION "\n");
        return STATUS_OK;
    }
    if (invocation->options.help) {
        print_help(invocation->command, stdout);
        return STATUS_OK;
    }
    return invocation->command->run(invocation);
}

int main(int argc, char **argv)
{
    struct invocation invocation;
    /* For the widths of characters in top. NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
    setlocale(LC_CTYPE, "");
    text_no_memory = out_of_memory;
    signals_start();
    bool good = command_line_parse(argc, argv, &invocation, stderr);
    int status = good ? execute(&invocation) : STATUS_USAGE;
    invocation_free(&invocation);
    return print_end(status);
}
