/*
 * signals.c - the event loop reads signals (signals.h).
 */
#include "cli/signals.h"

#include "cli/print.h"
#include "cli/status.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* The disposition of SIGPIPE when we started. */
static struct sigaction pipe_before;

static struct {
    struct loop *loop; /* NULL: signals are unchanged */
    struct watch watch;
    signal_handler *handle;
    sigset_t mask_before;
    struct sigaction child_before;
} signals;

void signals_start(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, &pipe_before);
}

sigset_t signals_taken(void)
{
    static const int taken[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_SIZE(taken); i++) {
        struct sigaction now;
        if (sigaction(taken[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&set, taken[i]);
    }
    return set;
}

/* The handler unless another one is set. */
static void end_wait(void *owner, const struct signalfd_siginfo *taken)
{
    int number = (int)taken->ssi_signo;
    if (number == SIGTSTP)
        signals_stop();
    else if (number != SIGCONT)
        loop_end(owner, STATUS_SIGNAL + number);
}

bool signals_end_is_due(void)
{
    sigset_t pending, taken = signals_taken();
    sigdelset(&taken, SIGTSTP);
    sigdelset(&taken, SIGCONT);
    sigpending(&pending);
    sigandset(&pending, &pending, &taken);
    return !sigisemptyset(&pending);
}

/* Reads one signal at a time, because its handler may end the loop. */
static void take_signal(void *owner, short revents)
{
    struct signalfd_siginfo taken;
    (void)revents;
    if (read(signals.watch.fd, &taken, sizeof taken) == (ssize_t)sizeof taken)
        signals.handle(owner, &taken);
}

int signals_begin(struct loop *loop)
{
    /* While SIGCHLD is ignored we can't wait for children. */
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigset_t set = signals_taken();
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return complain_as(STATUS_SYSTEM, "no descriptor for signals: %s", strerrordesc_np(errno));
    sigaction(SIGCHLD, &by_default, &signals.child_before);
    pthread_sigmask(SIG_BLOCK, &set, &signals.mask_before);
    signals.loop = loop;
    signals.watch = (struct watch){.on_ready = take_signal, .fd = fd};
    signals_handle(NULL, NULL);
    return STATUS_OK;
}

void signals_handle(signal_handler *handle, void *owner)
{
    if (!signals.loop)
        return;
    signals.handle = handle ? handle : end_wait;
    signals.watch.owner = handle ? owner : signals.loop;
    watch_clear(signals.loop, &signals.watch);
    watch_set(signals.loop, &signals.watch, signals.watch.fd, POLLIN); /* behind all others */
}

void signals_stop(void)
{
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    raise(SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &stop, NULL); /* the process stops here until SIGCONT */
    pthread_sigmask(SIG_BLOCK, &stop, NULL);
}

void signals_restore(void)
{
    sigaction(SIGPIPE, &pipe_before, NULL);
    sigaction(SIGCHLD, &signals.child_before, NULL);
    pthread_sigmask(SIG_SETMASK, &signals.mask_before, NULL);
}
