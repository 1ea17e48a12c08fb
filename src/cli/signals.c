/*
 * signals.c - signals as something to read (signals.h).
 */
#include "cli/signals.h"

#include "cli/print.h"
#include "cli/status.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* How SIGPIPE was when we were started. */
static struct sigaction pipe_before;

void signals_start(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, &pipe_before);
}

/* Those that are taken: all of ours but what is ignored, which a block would have us see. */
static sigset_t taken_signals(void)
{
    static const int taken[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                                SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_SIZE(taken); i++) {
        struct sigaction now;
        if (sigaction(taken[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&set, taken[i]);
    }
    return set;
}

int signals_begin(struct signals *signals)
{
    /* Where children are ignored they can't be waited for. */
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigaction(SIGCHLD, &by_default, &signals->child_before);
    sigset_t set = taken_signals();
    pthread_sigmask(SIG_BLOCK, &set, &signals->mask_before);
    signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals->fd >= 0)
        return STATUS_OK;
    complain("no descriptor for signals: %s", strerrordesc_np(errno));
    pthread_sigmask(SIG_SETMASK, &signals->mask_before, NULL);
    return STATUS_SYSTEM;
}

void signals_close(struct signals *signals)
{
    close(signals->fd);
    signals->fd = -1;
}

bool signals_take(struct signals *signals, struct signalfd_siginfo *signal_r)
{
    return read(signals->fd, signal_r, sizeof *signal_r) == (ssize_t)sizeof *signal_r;
}

void signals_stop(void)
{
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    raise(SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &stop, NULL); /* it stops here, until it is continued */
    pthread_sigmask(SIG_BLOCK, &stop, NULL);
}

int signals_end_of_wait(struct signals *signals)
{
    struct signalfd_siginfo taken;
    while (signals_take(signals, &taken)) {
        int number = (int)taken.ssi_signo;
        if (number == SIGTSTP)
            signals_stop();
        else if (number != SIGCONT && number != SIGCHLD)
            return number;
    }
    return 0;
}

void signals_restore(const struct signals *signals)
{
    sigaction(SIGPIPE, &pipe_before, NULL);
    sigaction(SIGCHLD, &signals->child_before, NULL);
    pthread_sigmask(SIG_SETMASK, &signals->mask_before, NULL);
}
