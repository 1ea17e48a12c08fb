/*
 * runner.c - runs a command together with everything that it starts (runner.h).
 */
#include "cli/runner.h"

#include "base/clock.h"

#include <signal.h>

/* How often we look if a group is empty. The kernel does not tell us. */
#define LOOK_NS (50 * NS_PER_MS)

bool runner_runs(const struct runner *runner)
{
    return runner->loop != NULL;
}

static void end(struct runner *runner)
{
    timer_clear(runner->loop, &runner->kill);
    relay_close(&runner->relay);
    runner->loop = NULL;
    runner->on_end(runner->owner, runner->how, false);
}

static void look_later(struct runner *runner)
{
    timer_set(runner->loop, &runner->look, clock_mono_ns() + LOOK_NS);
}

/* Looks at what is left of the group. */
static void look(void *owner)
{
    struct runner *runner = owner;
    if (child_signal_rest(&runner->child, 0))
        look_later(runner);
    else
        end(runner);
}

/* The command has ended. */
static void on_end(void *owner, int how)
{
    struct runner *runner = owner;
    runner->how = how;
    if (child_signal_rest(&runner->child, 0)) {
        look_later(runner);
        runner->on_end(runner->owner, how, true);
    } else {
        end(runner);
    }
}

/* The grace period is over. */
static void kill_all(void *runner)
{
    runner_signal(runner, SIGKILL);
}

int runner_start(struct runner *runner, struct loop *loop, char **argv,
                 const struct environment *environment)
{
    CHECK(!runner_runs(runner));
    runner->look = (struct timer){.on_due = look, .owner = runner};
    runner->kill = (struct timer){.on_due = kill_all, .owner = runner};
    runner->relay = (struct relay){.take = runner->take, .owner = runner->owner};
    runner->child = (struct child){.on_end = on_end,
                                   .owner = runner,
                                   .environment = environment->list,
                                   .input = runner->input,
                                   .death_signal = SIGKILL,
                                   .is_apart = true,
                                   .is_read = runner->take != NULL};
    int status = child_start(&runner->child, loop, argv);
    if (status == 0) {
        runner->loop = loop;
        if (runner->take)
            relay_open(&runner->relay, loop, runner->child.output);
    }
    return status;
}

void runner_signal(struct runner *runner, int number)
{
    if (!runner_runs(runner))
        return;
    if (child_runs(&runner->child))
        child_signal(&runner->child, number);
    else
        (void)child_signal_rest(&runner->child, number);
}

void runner_terminate(struct runner *runner, int64_t grace_ns)
{
    if (!runner_runs(runner))
        return;
    runner_signal(runner, SIGTERM);
    runner_signal(runner, SIGCONT);
    timer_set(runner->loop, &runner->kill, clock_mono_ns() + grace_ns);
}
