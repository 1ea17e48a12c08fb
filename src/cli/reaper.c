/*
 * reaper.c - nothing that we have started outlives us (reaper.h).
 */
#include "cli/reaper.h"

#include "cli/child.h"
#include "cli/print.h"
#include "cli/signals.h"
#include "cli/status.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the child: its parent. */
static pid_t reaper;

static bool spares_sessions; /* argument of reaper_begin */

/* Calls `visit` for each of our children. Returns true if it returned true for any. */
static bool visit_children(bool (*visit)(pid_t pid))
{
    char path[64];
    int pid;
    bool any = false;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    FILE *list = fopen(path, "re");
    while (list && fscanf(list, "%d", &pid) == 1) /* NOLINT(cert-err34-c): written by the kernel */
        any |= visit(pid);
    if (list)
        fclose(list);
    return any;
}

static bool kill_one(pid_t pid)
{
    bool is_spared = spares_sessions && getsid(pid) != getsid(0);
    return !is_spared && kill(pid, SIGKILL) == 0;
}

/* Kills and reaps all our children that can be killed, and theirs, which we adopt. */
static void kill_all(void)
{
    while (visit_children(kill_one))
        waitpid(-1, NULL, 0);
}

/* Reaps what has ended. Returns true when the child has; *how_r is its status of waitpid. */
static bool reap(pid_t child, int *how_r)
{
    bool is_over = false;
    int how;
    for (pid_t pid; (pid = waitpid(-1, &how, WNOHANG)) > 0;) {
        if (pid == child) {
            is_over = true;
            *how_r = how;
        }
    }
    return is_over;
}

/* Waits for the child's end. Signals of the terminal come from the kernel: the child has them. */
static int wait_child(pid_t child, const sigset_t *taken)
{
    int how = 0;
    siginfo_t signal;
    while (!reap(child, &how)) {
        int number = sigwaitinfo(taken, &signal);
        if (number < 0 || number == SIGCHLD)
            continue;
        if (signal.si_code != SI_KERNEL)
            kill(child, number);
        if (number == SIGTSTP)
            signals_stop(); /* the shell must see that its job has stopped */
    }
    return how;
}

/* ---- in the child ---------------------------------------------------------------------------- */

bool reaper_is_gone(void)
{
    return getppid() != reaper;
}

/* Reaps a process that we have adopted, if it has ended. child.c reaps what it has started. */
static bool reap_adopted(pid_t pid)
{
    return !child_has_pid(pid) && waitpid(pid, NULL, WNOHANG) == pid;
}

static void on_ends(void *owner, short revents)
{
    const struct watch *watch = owner;
    struct signalfd_siginfo taken;
    (void)revents;
    while (read(watch->fd, &taken, sizeof taken) > 0)
        ;
    (void)visit_children(reap_adopted);
}

/* Makes the loop reap adopted processes. Returns STATUS_OK, or prints why not. */
static int watch_ends(struct loop *loop)
{
    static struct watch ends = {.on_ready = on_ends, .owner = &ends};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return complain_as(STATUS_SYSTEM, "no descriptor for ends of processes: %s",
                           strerrordesc_np(errno));
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    watch_set(loop, &ends, fd, POLLIN);
    return STATUS_OK;
}

/* ---- both ------------------------------------------------------------------------------------ */

bool reaper_begin(struct loop *loop, bool spares, int *status_r)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL}, before;
    sigset_t taken = signals_taken(), mask;
    siginfo_t other;
    /* A shell may have executed us in place of itself; its children are not ours to kill. */
    bool is_alone = waitid(P_ALL, 0, &other, WEXITED | WNOHANG | WNOWAIT) != 0;
    sigaddset(&taken, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &taken, &mask);
    sigaction(SIGCHLD, &by_default, &before); /* or the kernel might reap for us */
    reaper = getpid();
    spares_sessions = spares;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        prctl(PR_SET_CHILD_SUBREAPER, 1); /* not inherited */
        sigaction(SIGCHLD, &before, NULL);
        pthread_sigmask(SIG_SETMASK, &mask, NULL);
        if (reaper_is_gone())
            _exit(STATUS_LOST);
        *status_r = signals_begin(loop);
        if (*status_r == STATUS_OK)
            *status_r = watch_ends(loop);
        return true;
    }
    if (child < 0) {
        complain("no process: %s", strerrordesc_np(errno));
        *status_r = STATUS_SYSTEM;
        return false;
    }
    *status_r = child_status(wait_child(child, &taken));
    if (is_alone)
        kill_all();
    return false;
}

void reaper_end(void)
{
    kill_all();
}
