/*
 * main.c - counterctl: parses the command line, and runs the command.
 */
#include "config.h"

#include "base/file.h"
#include "cli/command.h"
#include "cli/print.h"
#include "cli/signals.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

static int execute(struct invocation *invocation)
{
    if (invocation->options.version) {
        printf("counterctl " PACKAGE_VERSION "\n");
        return STATUS_OK;
    }
    if (invocation->options.help) {
        print_help(invocation->command);
        return STATUS_OK;
    }
    return invocation->command->run(invocation);
}

int main(int argc, char **argv)
{
    struct invocation invocation;
    text_no_memory = out_of_memory;
    json_set_alloc_funcs(allocate, free);
    if (!file_open_standard(true))
        return complain_as(
            STATUS_SYSTEM,
            "standard input, output or error is closed, and /dev/null can't be opened in its "
            "place: %s",
            strerrordesc_np(errno));
    /* For the widths of characters in top. NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
    setlocale(LC_CTYPE, "");
    signals_start();
    bool good = command_line_parse(argc, argv, &invocation);
    int status = good ? execute(&invocation) : STATUS_USAGE;
    invocation_free(&invocation);
    return print_end(status);
}
