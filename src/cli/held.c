/*
 * held.c - runs a command while a connection holds something for it (held.h).
 */
#include "cli/held.h"

#include "cli/print.h"
#include "cli/signals.h"

struct held {
    struct child child;
    struct client *client;
    const struct options *options;
    const char *name;
    int how; /* the status of waitpid */
};

/* Signals from the kernel come from the terminal, which has sent them to the command too. */
static void pass_on(void *owner, const struct signalfd_siginfo *taken)
{
    struct held *held = owner;
    if (taken->ssi_code != SI_KERNEL)
        child_signal(&held->child, (int)taken->ssi_signo);
    if (taken->ssi_signo == SIGTSTP)
        signals_stop(); /* the shell must see that its job has stopped */
}

static void on_lost(void *owner, enum status status)
{
    struct held *held = owner;
    (void)status;
    complain("%s: %s: the server frees what this command held, and %s %s", held->client->where,
             held->client->reason, held->name,
             held->options->strict ? "gets TERM (--strict)" : "goes on without it");
    if (held->options->strict)
        child_terminate(&held->child, held->options->grace_ns);
}

static void on_end(void *owner, int how, bool leaves_some)
{
    struct held *held = owner;
    bool is_told = held->client->state == CLIENT_CLOSED && held->options->strict;
    (void)leaves_some; /* of a command in our group nobody asks */
    held->how = how;
    loop_end(held->client->loop, is_told ? STATUS_LOST : child_status(how));
}

int held_run(char **argv, struct environment *environment, struct client *client,
             const struct options *options, int *how_r)
{
    struct held held = {.client = client,
                        .options = options,
                        .name = argv[0],
                        .child = {.on_end = on_end, .death_signal = options->strict ? SIGTERM : 0}};
    struct loop *loop = client->loop;
    if (environment)
        held.child.environment = *environment;
    held.child.owner = client->owner = &held;
    client->on_end = on_lost;
    signals_handle(pass_on, &held);
    int status = child_start(&held.child, loop, argv);
    if (status == STATUS_OK)
        status = loop_run(loop);
    signals_handle(NULL, NULL);
    client->on_end = NULL;
    *how_r = held.how;
    return status;
}
