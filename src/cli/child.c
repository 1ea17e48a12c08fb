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
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* How often we look if a group is empty. The kernel does not tell us. */
#define LOOK_NS (50 * NS_PER_MS)

/* All commands that run. */
static struct child *running;

/* ---- the environment ------------------------------------------------------------------------- */

/* Takes over the entry, "NAME=value"; NULL: makes room for one. */
static void append(struct environment *environment, char *entry)
{
    environment->list = array_grow(environment->list, environment->count + 1, &environment->room,
                                   sizeof *environment->list); /* one more for the NULL */
    environment->list[environment->count] = entry;
    environment->count += entry != NULL;
    environment->list[environment->count] = NULL;
}

void environment_leave_out(struct environment *environment, const char *prefix)
{
    size_t kept = 0;
    if (!environment->list) {
        append(environment, NULL);
        for (char *const *at = environ; at && *at; at++) {
            struct text entry = {0};
            text_add(&entry, *at, strlen(*at));
            append(environment, text_take(&entry, &(size_t){0}));
        }
    }
    for (size_t i = 0; i < environment->count; i++) {
        char *entry = environment->list[i];
        if (strncmp(entry, prefix, strlen(prefix)) == 0)
            free(entry);
        else
            environment->list[kept++] = entry;
    }
    environment->list[environment->count = kept] = NULL;
}

void environment_add(struct environment *environment, const char *name, struct bytes value)
{
    struct text entry = {0};
    size_t len;
    text_addf(&entry, "%s=", name);
    environment_leave_out(environment, text_str(&entry));
    text_add(&entry, value.data, value.len);
    append(environment, text_take(&entry, &len));
}

void environment_add_number(struct environment *environment, const char *name, uint64_t number)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, number);
    environment_add(environment, name, bytes_of(digits));
}

static void free_environment(struct environment *environment)
{
    for (size_t i = 0; i < environment->count; i++)
        free(environment->list[i]);
    free(environment->list);
    *environment = (struct environment){0};
}

/* ---- start ----------------------------------------------------------------------------------- */

/* True if the system takes all variables: Linux takes up to 32 pages for each, with the NUL at its
   end. Prints which one is too long. */
static bool check_variables(const char *command, char *const *list)
{
    size_t most = 32 * (size_t)sysconf(_SC_PAGESIZE) - 1;
    for (; list && *list; list++) {
        size_t len = strlen(*list);
        if (len <= most)
            continue;
        return complain(
            "%s is not executed: the variable %.*s would have %zu bytes, and the system takes "
            "up to %zu with the name; hand fewer or shorter values to one command",
            command, (int)strcspn(*list, "="), *list, len, most);
    }
    return true;
}

/* In the new process: sets its standard input, which is empty if it is apart and has none. Returns
   false with errno. */
static bool set_input(const struct child *child)
{
    int input = child->input;
    if (input == STDIN_FILENO && child->is_apart)
        input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return input == STDIN_FILENO || (input >= 0 && dup2(input, STDIN_FILENO) >= 0);
}

/* In the new process: executes the command, or writes errno to `report`. */
static _Noreturn void become(const struct child *child, char **argv, int output, int report,
                             pid_t parent)
{
    /* If we are killed, the server frees what we hold: for the command it is a lost connection. */
    if (child->death_signal && prctl(PR_SET_PDEATHSIG, child->death_signal) == 0 &&
        getppid() != parent)
        _exit(STATUS_LOST);
    signals_restore();
    if ((!child->is_apart || setpgid(0, 0) == 0) && set_input(child) &&
        (output < 0 || dup2(output, STDOUT_FILENO) >= 0))
        execvpe(argv[0], argv, child->environment.list ? child->environment.list : environ);
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

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* Forks, and executes the command. *fd_r is its pidfd. Returns 0, or errno; *is_started_r is then
   true if only the execution failed. */
static int start(struct child *child, char **argv, int output, int *fd_r, bool *is_started_r)
{
    int report[2];
    *is_started_r = false;
    if (pipe2(report, O_CLOEXEC) != 0)
        return errno;
    fflush(stdout);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become(child, argv, output, report[1], parent);
    int fd = pid < 0 ? -1 : pidfd_open(pid, 0), error = fd < 0 ? errno : 0;
    close(report[1]);
    if (fd >= 0) {
        *is_started_r = true;
        error = wait_executed(report[0]);
    }
    close(report[0]);
    if (error && pid > 0)
        discard(pid);
    if (error)
        close_if_open(fd);
    child->pid = pid;
    child->group = child->is_apart && !error ? pid : 0;
    *fd_r = fd;
    return error;
}

/* ---- passing on its output ------------------------------------------------------------------- */

/* A pipe's usual size: what can have arrived when we close. */
#define PIPE_SIZE 65536

static void remove_bytes(struct relay *relay, size_t at, size_t len)
{
    memmove(relay->data + at, relay->data + at + len, relay->len - at - len);
    relay->len -= len;
}

/* Offers a part of a line, unless it belongs to one that is passed on. Returns true if it is
   taken. */
static bool offer(struct relay *relay, struct bytes part, bool is_last)
{
    bool is_taken =
        relay->line != LINE_PASSES && relay->take && relay->take(relay->owner, part, is_last);
    if (relay->line == LINE_BEGINS)
        relay->line = is_taken ? LINE_IS_TAKEN : LINE_PASSES;
    is_taken = relay->line == LINE_IS_TAKEN;
    if (is_last)
        relay->line = LINE_BEGINS;
    return is_taken;
}

/* Offers the lines that are complete, the parts of those that are too long to wait for, and at the
   end the last line without an end. Marks the others as passed on. */
static void pass_lines(struct relay *relay)
{
    while (relay->len > relay->passed) {
        const uint8_t *part = relay->data + relay->passed;
        size_t left = relay->len - relay->passed;
        const uint8_t *end = memchr(part, '\n', left);
        bool is_full = relay->passed == 0 && relay->len == RELAY_SIZE;
        if (!end && !is_full && !relay->is_at_end)
            return;
        size_t len = end ? (size_t)(end - part) : left, with_end = end ? len + 1 : len;
        if (offer(relay, bytes_at(part, len), end || relay->is_at_end))
            remove_bytes(relay, relay->passed, with_end);
        else
            relay->passed += with_end;
    }
    if (relay->is_at_end && relay->line == LINE_IS_TAKEN)
        (void)offer(relay, (struct bytes){0}, true);
}

/* Writes what is passed on. Returns false when our output takes nothing now. Bytes that it can't
   take at all are dropped. */
static bool write_passed(struct relay *relay)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    if (relay->passed == 0)
        return true;
    if (poll(&out, 1, 0) != 1)
        return false;
    ssize_t n = write(STDOUT_FILENO, relay->data, relay->passed);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    size_t done = n < 0 ? relay->passed : (size_t)n;
    relay->passed -= done;
    remove_bytes(relay, 0, done);
    return relay->passed == 0;
}

/* Reads once. Returns false when there is nothing to read now. */
static bool read_some(struct relay *relay)
{
    ssize_t n = read(relay->fd, relay->data + relay->len, RELAY_SIZE - relay->len);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0)
        relay->is_at_end = true;
    else
        relay->len += (size_t)n;
    pass_lines(relay);
    return true;
}

static void relay_end(struct relay *relay)
{
    watch_clear(relay->loop, &relay->in);
    watch_clear(relay->loop, &relay->out);
    close(relay->fd);
    relay->loop = NULL;
}

/* Writes, and waits for what comes next: our output, the command's, or nothing more. */
static void go_on(struct relay *relay)
{
    bool is_done = write_passed(relay);
    watch_clear(relay->loop, is_done ? &relay->out : &relay->in);
    if (!is_done)
        watch_set(relay->loop, &relay->out, STDOUT_FILENO, POLLOUT);
    else if (relay->is_at_end)
        relay_end(relay);
    else
        watch_set(relay->loop, &relay->in, relay->fd, POLLIN);
}

static void on_input(void *owner, short revents)
{
    struct relay *relay = owner;
    (void)revents;
    (void)read_some(relay);
    go_on(relay);
}

static void on_output(void *owner, short revents)
{
    (void)revents;
    go_on(owner);
}

/* Reads from `fd`, which does not block, and closes it at its end. The relay must be closed. */
static void relay_open(struct relay *relay, struct loop *loop, int fd)
{
    CHECK(!relay->loop);
    *relay = (struct relay){.take = relay->take,
                            .owner = relay->owner,
                            .loop = loop,
                            .fd = fd,
                            .in = {.on_ready = on_input, .owner = relay},
                            .out = {.on_ready = on_output, .owner = relay}};
    watch_set(loop, &relay->in, fd, POLLIN);
}

/* Passes on what has arrived, as far as our output takes it now, and closes `fd`. Harmless for a
   closed relay. */
static void relay_close(struct relay *relay)
{
    if (!relay->loop)
        return;
    for (size_t i = 0; i < PIPE_SIZE / RELAY_SIZE && write_passed(relay) && read_some(relay); i++)
        ;
    relay->is_at_end = true;
    pass_lines(relay);
    (void)write_passed(relay);
    relay_end(relay);
}

/* ---- end ------------------------------------------------------------------------------------- */

/* After the end of a command that is apart: sends a signal (0: none) to what is left of its group.
   Returns false when nothing is left, and always from then on. */
static bool signal_rest(struct child *child, int number)
{
    /* A group keeps its number while a process is in it, also one that has ended and is ours. */
    while (child->group && waitpid(-child->group, NULL, WNOHANG) > 0)
        ;
    if (child->group && kill(-child->group, number) != 0)
        child->group = 0;
    return child->group != 0;
}

/* Looks at what is left of the group. */
static void look(void *owner)
{
    struct child *child = owner;
    if (signal_rest(child, 0)) {
        timer_set(child->loop, &child->look, clock_mono_ns() + LOOK_NS);
        return;
    }
    timer_clear(child->loop, &child->kill);
    relay_close(&child->relay);
    child->loop = NULL;
    child->on_end(child->owner, child->how, false);
}

/* The pidfd is readable: the command has ended. */
static void reap(void *owner, short revents)
{
    struct child *child = owner;
    siginfo_t about = {0};
    (void)revents;
    if (waitid(P_PIDFD, (id_t)child->watch.fd, &about, WEXITED | WNOHANG) != 0 || !about.si_pid)
        return;
    struct child **at = &running;
    while (*at != child)
        at = &(*at)->next;
    *at = child->next;
    watch_clear(child->loop, &child->watch);
    close(child->watch.fd);
    child->how = about.si_code == CLD_EXITED ? W_EXITCODE(about.si_status, 0) : about.si_status;
    if (signal_rest(child, 0))
        child->on_end(child->owner, child->how, true);
    look(child);
}

/* The grace period is over. */
static void kill_all(void *child)
{
    child_signal(child, SIGKILL);
}

/* ---- the interface --------------------------------------------------------------------------- */

int child_start(struct child *child, struct loop *loop, char **argv)
{
    int ends[2] = {-1, -1}, fd = -1, error = 0;
    bool is_started = false, good = check_variables(argv[0], child->environment.list);
    CHECK(!child_runs(child));
    /* The read end does not block, so that the loop never waits in it. */
    if (good && child->take &&
        (pipe2(ends, O_CLOEXEC) != 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0))
        error = errno;
    if (good && !error)
        error = start(child, argv, ends[1], &fd, &is_started);
    free_environment(&child->environment);
    if (!good)
        return STATUS_NOT_EXECUTABLE;
    close_if_open(ends[1]);
    if (error) {
        close_if_open(ends[0]);
        if (!is_started)
            return complain_as(STATUS_SYSTEM, "no process for %s: %s", argv[0],
                               strerrordesc_np(error));
        complain("%s: %s%s", argv[0], strerrordesc_np(error),
                 error == E2BIG ? ": its arguments and its environment together (ulimit -s)" : "");
        return error == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
    }
    child->loop = loop;
    child->watch = (struct watch){.on_ready = reap, .owner = child};
    child->look = (struct timer){.on_due = look, .owner = child};
    child->kill = (struct timer){.on_due = kill_all, .owner = child};
    watch_set(loop, &child->watch, fd, POLLIN);
    child->next = running;
    running = child;
    if (child->take) {
        child->relay = (struct relay){.take = child->take, .owner = child->owner};
        relay_open(&child->relay, loop, ends[0]);
    }
    return STATUS_OK;
}

bool child_runs(const struct child *child)
{
    return child->loop != NULL;
}

bool child_has_pid(pid_t pid)
{
    const struct child *child = running;
    while (child && child->pid != pid)
        child = child->next;
    return child != NULL;
}

void child_signal(struct child *child, int number)
{
    if (!child_runs(child))
        return;
    if (child->watch.place == 0)
        (void)signal_rest(child, number);
    else if (child->group) /* until the command is reaped, no other group can get its number */
        kill(-child->group, number);
    else
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

void child_explain(struct text *to, const char *name, int how)
{
    if (WIFSIGNALED(how))
        text_addf(to, "signal %d ended %s", WTERMSIG(how), name);
    else
        text_addf(to, "%s exited with %d", name, WEXITSTATUS(how));
}
