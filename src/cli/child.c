/*
 * child.c - executing a command while a connection holds something for it (child.h).
 */
#include "cli/child.h"

#include "base/clock.h"
#include "cli/print.h"
#include "cli/status.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct child {
    pid_t pid;
    struct client *client;
    struct signals *signals;
    const struct options *options;
    const char *name;
    struct child_result result;
    bool has_ended;
    bool is_told;       /* TERM was sent, for the lost connection */
    int64_t kill_at_ns; /* when KILL follows; SECONDS_NONE: not, or it was sent */
};

/* --- Beginning ------------------------------------------------------------------------------- */

/* In the new process: becomes the command, or writes errno to `report`. */
static _Noreturn void become(char **argv, const struct signals *signals, int report, pid_t parent,
                             bool strict)
{
    /* Where we are killed outright, nobody holds the lock any more: the same as a lost one. */
    if (strict && prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() != parent)
        _exit(STATUS_LOST);
    signals_restore(signals);
    execvp(argv[0], argv);
    int error = errno;
    (void)!write(report, &error, sizeof error);
    _exit(STATUS_NOT_EXECUTABLE);
}

/* Waits until the command is executed; returns 0, or the errno of what failed. */
static int wait_executed(int report)
{
    int error = 0;
    ssize_t n;
    do
        n = read(report, &error, sizeof error);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof error ? error : 0;
}

/* Starts the command. Returns 0, or the status to exit with (said why). */
static int start(struct child *child, char **argv)
{
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0) {
        complain("no pipe: %s", strerrordesc_np(errno));
        return STATUS_SYSTEM;
    }
    fflush(stdout);
    pid_t parent = getpid();
    child->pid = fork();
    if (child->pid == 0)
        become(argv, child->signals, report[1], parent, child->options->strict);
    close(report[1]);
    if (child->pid < 0) {
        complain("no process for %s: %s", argv[0], strerrordesc_np(errno));
        close(report[0]);
        return STATUS_SYSTEM;
    }
    int error = wait_executed(report[0]);
    close(report[0]);
    if (!error)
        return 0;
    waitpid(child->pid, NULL, 0);
    complain("%s: %s", argv[0], strerrordesc_np(error));
    return error == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
}

/* --- Signals --------------------------------------------------------------------------------- */

/* Sends the command a signal, while its number is its own: once reaped it may be another's. */
static void send_signal(const struct child *child, int number)
{
    if (!child->has_ended)
        kill(child->pid, number);
}

/* Notes that the command has ended, if it has. */
static void reap(struct child *child)
{
    int how;
    if (waitpid(child->pid, &how, WNOHANG) != child->pid)
        return;
    child->has_ended = true;
    if (child->is_told)
        child->result.status = STATUS_LOST;
    else
        child->result.status = WIFSIGNALED(how) ? STATUS_SIGNAL + WTERMSIG(how) : WEXITSTATUS(how);
}

/*
 * Passes a signal on. What the kernel sends is of the terminal, which has sent it to the command,
 * too.
 */
static void pass_on(struct child *child, const struct signalfd_siginfo *taken)
{
    int number = (int)taken->ssi_signo;
    if (taken->ssi_code != SI_KERNEL)
        send_signal(child, number);
    if (number == SIGTSTP)
        signals_stop(); /* so that the shell sees that its job has stopped */
}

static void take_signals(struct child *child)
{
    struct signalfd_siginfo taken;
    while (!child->has_ended && signals_take(child->signals, &taken)) {
        if (taken.ssi_signo == SIGCHLD)
            reap(child);
        else
            pass_on(child, &taken);
    }
}

/* --- The connection -------------------------------------------------------------------------- */

/* Has the command end: it may be stopped, and must go on to do so. */
static void tell_to_end(struct child *child)
{
    child->is_told = true;
    child->kill_at_ns = clock_mono_ns() + child->options->grace_ns;
    send_signal(child, SIGTERM);
    send_signal(child, SIGCONT);
}

/* Looks whether the connection is still there. What the server says unasked does not matter. */
static void look_at_connection(struct child *child)
{
    struct client *client = child->client;
    enum client_end end;
    do {
        client_take(client, client->len);
        end = client_fill(client, 0);
    } while (end == CLIENT_OK);
    if (end != CLIENT_CLOSED)
        return;
    child->result.is_lost = true;
    complain("%s: %s: what it held is free, and %s %s", client->where, client->reason, child->name,
             child->options->strict ? "is told to end (--strict)" : "goes on without it");
    client_close(client);
    if (child->options->strict)
        tell_to_end(child);
}

/* --- All together ---------------------------------------------------------------------------- */

/* How long poll may wait: until the command is to be killed. */
static int wait_ms(const struct child *child)
{
    if (child->kill_at_ns == SECONDS_NONE)
        return -1;
    int64_t left = child->kill_at_ns - clock_mono_ns();
    return left <= 0 ? 0 : left > 3600 * NS_PER_S ? 3600000 : (int)(left / NS_PER_MS) + 1;
}

static void wait_and_look(struct child *child)
{
    struct pollfd fds[] = {{.fd = child->signals->fd, .events = POLLIN},
                           {.fd = child->client->fd, .events = POLLIN}};
    int ready = poll(fds, 2, wait_ms(child));
    CHECK(ready >= 0 || errno == EINTR);
    if (ready > 0 && fds[0].revents)
        take_signals(child);
    if (ready > 0 && fds[1].revents && !child->has_ended)
        look_at_connection(child);
    if (child->kill_at_ns != SECONDS_NONE && clock_mono_ns() >= child->kill_at_ns) {
        send_signal(child, SIGKILL);
        child->kill_at_ns = SECONDS_NONE;
    }
}

struct child_result child_run(char **argv, struct client *client, struct signals *signals,
                              const struct options *options)
{
    struct child child = {.client = client,
                          .signals = signals,
                          .options = options,
                          .name = argv[0],
                          .kill_at_ns = SECONDS_NONE};
    child.result.status = start(&child, argv);
    if (child.result.status != 0)
        return child.result;
    client->interrupt = -1; /* a signal does not end the look at the connection */
    look_at_connection(&child);
    while (!child.has_ended)
        wait_and_look(&child);
    return child.result;
}
