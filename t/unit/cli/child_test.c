/*
 * child_test.c - the signals that a command gets while a connection holds something for it. The
 * linker puts functions of ours around the clock, waitpid and kill (--wrap).
 */
#include "base/clock.h"
#include "cli/child.h"
#include "cli/status.h"
#include "t/unit/unit.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRACE_NS (1000 * NS_PER_S)

int64_t __wrap_clock_mono_ns(void);
pid_t __real_waitpid(pid_t pid, int *status_r, int options);
pid_t __wrap_waitpid(pid_t pid, int *status_r, int options);
int __real_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number);

static int64_t now_ns = NS_PER_S;
static pid_t reaped;
static unsigned terms, late; /* signals to the command: TERM, and any after it was reaped */

int64_t __wrap_clock_mono_ns(void)
{
    return now_ns;
}

/* The grace is over in the moment in which the command is reaped. */
pid_t __wrap_waitpid(pid_t pid, int *status_r, int options)
{
    pid_t found = __real_waitpid(pid, status_r, options);
    if (found > 0) {
        reaped = found;
        now_ns += 2 * GRACE_NS;
    }
    return found;
}

int __wrap_kill(pid_t pid, int number)
{
    if (pid == reaped) {
        late++;
        errno = ESRCH;
        return -1;
    }
    terms += number == SIGTERM;
    return __real_kill(pid, number);
}

TEST(a_command_that_was_reaped_gets_no_signal)
{
    char program[] = "sleep", how_long[] = "1000";
    char *argv[] = {program, how_long, NULL};
    const struct options options = {.strict = true, .grace_ns = GRACE_NS};
    struct client client = {.interrupt = -1, .where = "here"};
    struct signals signals;
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    client.fd = ends[0];
    close(ends[1]); /* the connection is lost: the command is told to end */
    signals_start();
    ck_assert_int_eq(signals_begin(&signals), STATUS_OK);
    struct child_result result = child_run(argv, &client, &signals, &options);
    ck_assert(result.is_lost);
    ck_assert_int_eq(result.status, STATUS_LOST);
    ck_assert_int_gt(reaped, 0);
    ck_assert_uint_eq(terms, 1);
    ck_assert_uint_eq(late, 0);
    signals_close(&signals);
    client_close(&client);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(a_command_that_was_reaped_gets_no_signal),
};

UNIT_MAIN("cli/child", tests)
