/* upgrade_child.c - see upgrade_child.h. */
#include "daemon/upgrade_child.h"

#include "base/check.h"
#include "base/clock.h"
#include "daemon/notify.h"
#include "daemon/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* How often a silent child is checked. */
#define LISTEN_NS (50 * NS_PER_MS)

/* A process of the same user may always raise this value. */
void child_offer(pid_t pid)
{
    static const char most[] = "1000";
    char path[64];
    snprintf(path, sizeof(path), "/proc/%lld/oom_score_adj", (long long)pid);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)!write(fd, most, sizeof(most) - 1);
    close(fd);
}

/* Closes a pipe; harmless when there is none. */
static void close_both(const int ends[2])
{
    for (unsigned i = 0; i < 2; i++) {
        if (ends[i] >= 0)
            close(ends[i]);
    }
}

/* Closes the end of a pipe that the child has, and returns ours. */
static int keep_read_end(const int ends[2])
{
    close(ends[1]);
    return ends[0];
}

bool child_start(struct child *child_r, const char *path, char **argv, char **environment,
                 const int *fds, size_t fd_count)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int said[2] = {-1, -1}, told[2] = {-1, -1};
    sigset_t none, ignored;
    sigemptyset(&none);
    sigemptyset(&ignored);
    sigaddset(&ignored, SIGPIPE);
    *child_r = (struct child){.pid = -1};
    if (pipe2(said, O_CLOEXEC | O_NONBLOCK) != 0 || pipe2(told, O_CLOEXEC | O_NONBLOCK) != 0) {
        close_both(said);
        return false;
    }
    CHECK(posix_spawn_file_actions_init(&actions) == 0 && posix_spawnattr_init(&attributes) == 0);
    CHECK(posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) == 0);
    CHECK(posix_spawn_file_actions_adddup2(&actions, told[1], 1) == 0);
    CHECK(posix_spawn_file_actions_adddup2(&actions, said[1], 2) == 0);
    for (size_t i = 0; i < fd_count; i++)
        CHECK(posix_spawn_file_actions_adddup2(&actions, fds[i], fds[i]) == 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &ignored);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int error = posix_spawn(&child_r->pid, path, &actions, &attributes, argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (error == 0) {
        child_offer(child_r->pid);
        child_r->said.fd = keep_read_end(said);
        child_r->told.fd = keep_read_end(told);
    } else {
        close_both(said);
        close_both(told);
    }
    errno = error;
    return error == 0;
}

/* Reads what a child has written so far. */
static void read_text(struct child_text *text)
{
    char lost[512];
    ssize_t n = 1;
    while (text->fd >= 0 && n > 0) {
        size_t room = sizeof(text->text) - 1 - text->len;
        n = read(text->fd, room ? text->text + text->len : lost, room ? room : sizeof(lost));
        if (n > 0 && room)
            text->len += (size_t)n;
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            close(text->fd);
            text->fd = -1;
        }
    }
}

static void read_rest(struct child_text *text)
{
    read_text(text);
    if (text->fd >= 0)
        close(text->fd);
    text->fd = -1;
}

/* Waits as child_await does, and leaves the pipes open. */
static enum child_end await_end(struct child *child, int64_t limit_ns, int *status_r)
{
    int64_t until_ns = clock_mono_ns() + limit_ns;
    int64_t interval_ns = notify_alive_interval_ns();
    int pause_ms = interval_ns && interval_ns < LISTEN_NS ? 1 : (int)(LISTEN_NS / NS_PER_MS);
    for (;;) {
        struct pollfd ready[] = {{.fd = child->said.fd, .events = POLLIN},
                                 {.fd = child->told.fd, .events = POLLIN}};
        bool speaks = child->said.fd >= 0 && child->told.fd >= 0;
        (void)poll(ready, 2, speaks ? pause_ms : 1); /* one that ends closes them first */
        read_text(&child->said);
        read_text(&child->told);
        if (waitpid(child->pid, status_r, WNOHANG) == child->pid)
            return CHILD_ENDED;
        bool is_unwanted = process_is_to_end();
        if (clock_mono_ns() >= until_ns || is_unwanted) {
            kill(child->pid, SIGKILL);
            while (waitpid(child->pid, status_r, 0) < 0 && errno == EINTR)
                continue;
            return is_unwanted ? CHILD_UNWANTED : CHILD_TOO_SLOW;
        }
        notify_alive_again(); /* this process waits, but does not hang */
    }
}

enum child_end child_await(struct child *child, int64_t limit_ns, int *status_r)
{
    enum child_end end = await_end(child, limit_ns, status_r);
    read_rest(&child->said);
    read_rest(&child->told);
    return end;
}
