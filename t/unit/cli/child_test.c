/*
 * child_test.c - commands in the loop: one and many, their ends, and the signals that they get. The
 * linker puts functions of ours around the clock, waitid and pidfd_send_signal (--wrap).
 */
#include "base/clock.h"
#include "cli/child.h"
#include "cli/signals.h"
#include "cli/status.h"
#include "t/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRACE_NS (1000 * NS_PER_S)
#define MANY     100

int64_t __real_clock_mono_ns(void);
int64_t __wrap_clock_mono_ns(void);
int __real_waitid(idtype_t type, id_t id, siginfo_t *about_r, int options);
int __wrap_waitid(idtype_t type, id_t id, siginfo_t *about_r, int options);
int __real_pidfd_send_signal(int fd, int number, siginfo_t *about, unsigned flags);
int __wrap_pidfd_send_signal(int fd, int number, siginfo_t *about, unsigned flags);

static int64_t ahead_ns; /* of the clock; added to the real time */
static int64_t skip_ns;  /* the clock's jump when a command is reaped */
static int reaped_fd = -1;
static unsigned terms, late; /* signals sent: TERM, and any sent after the command was reaped */

int64_t __wrap_clock_mono_ns(void)
{
    return __real_clock_mono_ns() + ahead_ns;
}

int __wrap_waitid(idtype_t type, id_t id, siginfo_t *about_r, int options)
{
    int result = __real_waitid(type, id, about_r, options);
    if (result == 0 && about_r->si_pid) {
        reaped_fd = (int)id;
        ahead_ns += skip_ns;
    }
    return result;
}

int __wrap_pidfd_send_signal(int fd, int number, siginfo_t *about, unsigned flags)
{
    late += fd == reaped_fd;
    terms += number == SIGTERM;
    return __real_pidfd_send_signal(fd, number, about, flags);
}

struct run {
    struct child child;
    struct loop *loop;
    unsigned *left; /* running commands; the last one to end ends the loop */
    int how;
    unsigned ends;
};

static void on_end(void *owner, int how)
{
    struct run *run = owner;
    run->how = how;
    run->ends++;
    ck_assert(!child_runs(&run->child));
    if (--*run->left == 0)
        loop_end(run->loop, STATUS_OK);
}

static struct run begin(struct loop *loop)
{
    signals_start();
    ck_assert_int_eq(signals_begin(loop), STATUS_OK);
    return (struct run){.loop = loop, .child = {.on_end = on_end}};
}

static int start(struct run *run, unsigned *left, const char *script)
{
    char program[] = "sh", option[] = "-c", text[100];
    snprintf(text, sizeof text, "%s", script);
    char *argv[] = {program, option, text, NULL};
    run->child.owner = run;
    run->left = left;
    ++*left;
    return child_start(&run->child, run->loop, argv, false);
}

TEST(a_command_ends_as_it_does)
{
    static const struct {
        const char *script;
        int status;
    } rows[] = {{"exit 0", 0}, {"exit 3", 3}, {"kill -KILL $$", 128 + SIGKILL}, {"exit 255", 255}};
    struct loop loop = {0};
    struct run run = begin(&loop);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        unsigned left = 0;
        ck_assert_int_eq(start(&run, &left, rows[i].script), STATUS_OK);
        ck_assert_int_eq(loop_run(&loop), STATUS_OK);
        ck_assert_int_eq(child_status(run.how), rows[i].status);
        ck_assert_int_eq(WIFSIGNALED(run.how), i == 2);
    }
    ck_assert_uint_eq(run.ends, ARRAY_SIZE(rows));
    signals_handle(NULL, NULL);
    loop_free(&loop);
}
END_TEST

TEST(what_can_not_be_executed_is_told_at_once)
{
    struct loop loop = {0};
    struct run run = begin(&loop);
    char missing[] = "/no/such/command", folder[] = "/";
    char *argv[] = {missing, NULL};
    ck_assert_int_eq(child_start(&run.child, &loop, argv, false), STATUS_NOT_FOUND);
    argv[0] = folder;
    ck_assert_int_eq(child_start(&run.child, &loop, argv, false), STATUS_NOT_EXECUTABLE);
    ck_assert(!child_runs(&run.child));
    child_signal(&run.child, SIGKILL);
    child_terminate(&run.child, 0);
    signals_handle(NULL, NULL);
    loop_free(&loop);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
}
END_TEST

TEST(many_run_at_once)
{
    static struct run runs[MANY];
    struct loop loop = {0};
    const struct run fresh = begin(&loop);
    unsigned left = 0;
    for (int i = 0; i < MANY; i++) {
        char script[32];
        runs[i] = fresh;
        /* Even ones exit at once, odd ones when they get a signal. */
        snprintf(script, sizeof script, i % 2 ? "exec sleep 1000" : "exit %d", i);
        ck_assert_int_eq(start(&runs[i], &left, script), STATUS_OK);
    }
    for (int i = 1; i < MANY; i += 2)
        child_terminate(&runs[i].child, GRACE_NS);
    ck_assert_int_eq(loop_run(&loop), STATUS_OK);
    for (int i = 0; i < MANY; i++) {
        ck_assert_uint_eq(runs[i].ends, 1);
        ck_assert_int_eq(child_status(runs[i].how), i % 2 ? 128 + SIGTERM : i);
    }
    signals_handle(NULL, NULL);
    loop_free(&loop);
}
END_TEST

TEST(what_does_not_end_is_killed)
{
    struct loop loop = {0};
    struct run run = begin(&loop);
    unsigned left = 0;
    ck_assert_int_eq(start(&run, &left, "trap '' TERM; kill -STOP $$; exec sleep 1000"), STATUS_OK);
    child_terminate(&run.child, NS_PER_MS);
    ck_assert_int_eq(loop_run(&loop), STATUS_OK);
    ck_assert_int_ge(child_status(run.how), 128); /* may end before it sets its trap */
    signals_handle(NULL, NULL);
    loop_free(&loop);
}
END_TEST

/* The grace period ends at the moment when the command is reaped. */
TEST(a_command_that_was_reaped_gets_no_signal)
{
    struct loop loop = {0};
    struct run run = begin(&loop);
    unsigned left = 0;
    ck_assert_int_eq(start(&run, &left, "exec sleep 1000"), STATUS_OK);
    skip_ns = 2 * GRACE_NS;
    child_terminate(&run.child, GRACE_NS);
    ck_assert_int_eq(loop_run(&loop), STATUS_OK);
    ck_assert_int_ge(reaped_fd, 0);
    child_signal(&run.child, SIGKILL);
    child_terminate(&run.child, 0);
    ck_assert_uint_eq(terms, 1);
    ck_assert_uint_eq(late, 0);
    signals_handle(NULL, NULL);
    loop_free(&loop);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(a_command_ends_as_it_does),
    UNIT(what_can_not_be_executed_is_told_at_once),
    UNIT(many_run_at_once),
    UNIT(what_does_not_end_is_killed),
    UNIT(a_command_that_was_reaped_gets_no_signal),
};

UNIT_MAIN("cli/child", tests)
