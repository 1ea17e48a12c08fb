/*
 * child.c - runs a command as a child process (child.h).
 */
#include "cli/child.h"

#include "base/clock.h"
#include "cli/print.h"
#include "cli/signals.h"
#include "cli/status.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- start ------------------------------------------------------------------------------- */

/* In the new process: executes the command, or writes errno to `report`. */
static _Noreturn void become(char **argv, int report, pid_t parent, bool dies_with_us)
{
    /* If we are killed, the server frees the lock: for the command it is a lost lock. */
    if (dies_with_us && prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() != parent)
        _exit(STATUS_LOST);
    signals_restore();
    execvp(argv[0], argv);
    int error = errno;
    (void)!write(report, &error, sizeof error);
    _exit(STATUS_NOT_EXECUTABLE);
}

/* Waits until exec has succeeded or failed. Returns 0, or errno. */
static int wait_executed(int report)
{
    int error = 0;
    ssize_t n;
    do
        n = read(report, &error, sizeof error);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof error ? error : 0;
}

/* Kills and reaps a process that we can't use. */
static void discard(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* The pidfd is readable: the process has ended. */
static void reap(void *owner, short revents)
{
    struct child *child = owner;
    siginfo_t about = {0};
    (void)revents;
    if (waitid(P_PIDFD, (id_t)child->watch.fd, &about, WEXITED | WNOHANG) != 0 || !about.si_pid)
        return;
    watch_clear(child->loop, &child->watch);
    timer_clear(child->loop, &child->kill);
    close(child->watch.fd);
    int how = about.si_code == CLD_EXITED ? W_EXITCODE(about.si_status, 0) : about.si_status;
    child->on_end(child->owner, how);
}

/* The grace period is over. */
static void kill_it(void *child)
{
    child_signal(child, SIGKILL);
}

int child_start(struct child *child, struct loop *loop, char **argv, bool dies_with_us)
{
    int report[2];
    CHECK(!child_runs(child));
    if (pipe2(report, O_CLOEXEC) != 0) {
        complain("no pipe: %s", strerrordesc_np(errno));
        return STATUS_SYSTEM;
    }
    fflush(stdout);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become(argv, report[1], parent, dies_with_us);
    int fd = pid < 0 ? -1 : pidfd_open(pid, 0), error = errno;
    close(report[1]);
    if (fd < 0) {
        complain("no process for %s: %s", argv[0], strerrordesc_np(error));
        close(report[0]);
        if (pid > 0)
            discard(pid);
        return STATUS_SYSTEM;
    }
    error = wait_executed(report[0]);
    close(report[0]);
    if (error) {
        close(fd);
        discard(pid);
        complain("%s: %s", argv[0], strerrordesc_np(error));
        return error == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
    }
    child->loop = loop;
    child->watch = (struct watch){.on_ready = reap, .owner = child};
    child->kill = (struct timer){.on_due = kill_it, .owner = child};
    watch_set(loop, &child->watch, fd, POLLIN);
    return STATUS_OK;
}

/* ---- end --------------------------------------------------------------------------------- */

bool child_runs(const struct child *child)
{
    return child->watch.place > 0;
}

void child_signal(const struct child *child, int number)
{
    if (child_runs(child))
        pidfd_send_signal(child->watch.fd, number, NULL, 0);
}

void child_terminate(struct child *child, int64_t grace_ns)
{
    if (!child_runs(child))
        return;
    child_signal(child, SIGTERM);
    child_signal(child, SIGCONT);
    timer_set(child->loop, &child->kill, clock_mono_ns() + grace_ns);
}

int child_status(int how)
{
    return WIFSIGNALED(how) ? STATUS_SIGNAL + WTERMSIG(how) : WEXITSTATUS(how);
}
