/*
 * child_test.c - commands in the loop: one and many, their ends, and the signals that they get. The
 * linker puts functions of ours around the clock, waitid and pidfd_send_signal (--wrap).
 */
#include "base/clock.h"
#include "cli/child.h"
#include "cli/environment.h"
#include "cli/signals.h"
#include "cli/status.h"
#include "t/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
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
    return child_start(&run->child, run->loop, argv);
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
    ck_assert_int_eq(child_start(&run.child, &loop, argv), STATUS_NOT_FOUND);
    argv[0] = folder;
    ck_assert_int_eq(child_start(&run.child, &loop, argv), STATUS_NOT_EXECUTABLE);
    ck_assert(!child_runs(&run.child));
    child_signal(&run.child, SIGKILL);
    child_terminate(&run.child, 0);
    signals_handle(NULL, NULL);
    loop_free(&loop);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
}
END_TEST

TEST(a_variable_may_be_as_long_as_the_system_takes)
{
    static char variable[32 * 4096 + 2] = "CHILD_TEST=";
    size_t most = 32 * (size_t)sysconf(_SC_PAGESIZE) - 1;
    struct loop loop = {0};
    struct run run = begin(&loop);
    unsigned left = 1;
    char command[] = "true", *argv[] = {command, NULL}, *list[] = {variable, NULL};
    if (most > sizeof variable - 2) /* other pages */
        return;
    memset(variable + strlen(variable), 'x', most + 1 - strlen(variable));
    run.child.environment = list;
    ck_assert_int_eq(child_start(&run.child, &loop, argv), STATUS_NOT_EXECUTABLE);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    variable[most] = '\0';
    run.child.owner = &run;
    run.left = &left;
    ck_assert_int_eq(child_start(&run.child, &loop, argv), STATUS_OK);
    ck_assert_int_eq(loop_run(&loop), STATUS_OK);
    ck_assert_int_eq(run.how, 0);
    loop_free(&loop);
}
END_TEST

/* Reads what a command writes until it has closed its output. */
struct reader {
    struct loop *loop;
    struct watch watch;
    unsigned *left;
    char text[256];
    size_t len;
};

static void read_output(void *owner, short revents)
{
    struct reader *reader = owner;
    (void)revents;
    ssize_t n =
        read(reader->watch.fd, reader->text + reader->len, sizeof reader->text - 1 - reader->len);
    if (n < 0) {
        ck_assert_int_eq(errno, EAGAIN);
        return;
    }
    reader->len += (size_t)n;
    if (n > 0)
        return;
    watch_clear(reader->loop, &reader->watch);
    close(reader->watch.fd);
    if (--*reader->left == 0)
        loop_end(reader->loop, STATUS_OK);
}

TEST(it_gets_variables_and_its_output_is_read)
{
    struct loop loop = {0};
    struct run run = begin(&loop);
    struct environment environment = {0};
    unsigned left = 1;
    struct reader reader = {
        .loop = &loop, .left = &left, .watch = {.on_ready = read_output, .owner = &reader}};
    ck_assert_int_eq(setenv("CHILD_TEST_OURS", "ours", 1), 0);
    ck_assert_int_eq(setenv("CHILD_TEST_BOTH", "ours", 1), 0);
    environment_add(&environment, "CHILD_TEST_BOTH", bytes_of("x"));
    environment_add(&environment, "CHILD_TEST", bytes_of("a=b c"));
    environment_add(&environment, "CHILD_TEST_BOTH", bytes_of("its own"));
    ck_assert_int_eq(setenv("CHILD_TEST_OUT", "ours", 1), 0);
    environment_leave_out(&environment, "CHILD_TEST_OUT");
    environment_leave_out(&environment, "CHILD_TEST_BOTH");
    run.child.environment = environment.list;
    run.child.is_read = true;
    ck_assert_int_eq(start(&run, &left, "echo $CHILD_TEST_OURS; env | grep '^CHILD_TEST' | sort"),
                     STATUS_OK);
    environment_free(&environment);
    watch_set(&loop, &reader.watch, run.child.output, POLLIN);
    ck_assert_int_eq(loop_run(&loop), STATUS_OK);
    ck_assert_str_eq(reader.text, "ours\nCHILD_TEST=a=b c\nCHILD_TEST_BOTH=its own\n"
                                  "CHILD_TEST_OURS=ours\n");
    ck_assert_int_eq(child_status(run.how), 0);
    ck_assert_str_eq(getenv("CHILD_TEST_BOTH"), "ours");
    signals_handle(NULL, NULL);
    loop_free(&loop);
}
END_TEST

TEST(without_a_command_there_is_no_pipe)
{
    struct loop loop = {0};
    struct run run = begin(&loop);
    char missing[] = "/no/such/command";
    char *argv[] = {missing, NULL};
    int before = dup(STDIN_FILENO);
    close(before);
    run.child.is_read = true;
    ck_assert_int_eq(child_start(&run.child, &loop, argv), STATUS_NOT_FOUND);
    int after = dup(STDIN_FILENO);
    ck_assert_int_eq(after, before);
    close(after);
    signals_handle(NULL, NULL);
    loop_free(&loop);
}
END_TEST

TEST(a_command_that_is_apart_has_its_group_and_no_input)
{
    struct loop loop = {0};
    struct run run = begin(&loop);
    unsigned left = 0;
    run.child.is_apart = true;
    ck_assert_int_eq(start(&run, &left, "read word || exit 7"), STATUS_OK);
    ck_assert_int_ne(run.child.group, getpgrp());
    ck_assert_int_eq(getpgid(run.child.group), run.child.group); /* not reaped yet */
    ck_assert_int_eq(loop_run(&loop), STATUS_OK);
    ck_assert_int_eq(child_status(run.how), 7);
    ck_assert(!child_signal_rest(&run.child, 0));
    signals_handle(NULL, NULL);
    loop_free(&loop);
}
END_TEST

/* Reaps the process that a command has started; its parent has ended. Returns the signal that has
   ended it. */
static int reap_adopted(void)
{
    int how;
    ck_assert_int_gt(waitpid(-1, &how, 0), 0);
    ck_assert(WIFSIGNALED(how));
    return WTERMSIG(how);
}

TEST(signals_reach_what_a_command_that_is_apart_has_started)
{
    struct loop loop = {0};
    struct run run = begin(&loop);
    unsigned left = 0;
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    run.child.is_apart = run.child.is_read = true;
    ck_assert_int_eq(start(&run, &left, "sleep 1000 & echo; wait"), STATUS_OK);
    struct pollfd output = {.fd = run.child.output, .events = POLLIN};
    ck_assert_int_eq(poll(&output, 1, -1), 1); /* it has started the other */
    close(run.child.output);
    run.child.is_read = false;
    child_terminate(&run.child, GRACE_NS);
    ck_assert_int_eq(loop_run(&loop), STATUS_OK);
    ck_assert_int_eq(child_status(run.how), 128 + SIGTERM);
    ck_assert_int_eq(reap_adopted(), SIGTERM);
    ck_assert(!child_signal_rest(&run.child, 0));
    ck_assert_int_eq(start(&run, &left, "sleep 1000 & exit 3"), STATUS_OK);
    ck_assert_int_eq(loop_run(&loop), STATUS_OK);
    ck_assert_int_eq(child_status(run.how), 3);
    ck_assert(child_signal_rest(&run.child, 0));
    ck_assert(child_signal_rest(&run.child, SIGKILL));
    ck_assert_int_eq(reap_adopted(), SIGKILL);
    ck_assert(!child_signal_rest(&run.child, 0));
    ck_assert(!child_signal_rest(&run.child, SIGKILL));
    signals_handle(NULL, NULL);
    loop_free(&loop);
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

TEST(its_input_may_be_a_file)
{
    for (int apart = 0; apart <= 1; apart++) {
        struct loop loop = {0};
        struct run run = begin(&loop);
        unsigned left = 0;
        int ends[2];
        ck_assert_int_eq(pipe(ends), 0);
        ck_assert_int_eq((int)write(ends[1], "a job\n", 6), 6);
        close(ends[1]);
        run.child.input = ends[0];
        run.child.is_apart = apart;
        ck_assert_int_eq(start(&run, &left, "[ \"$(cat)\" = 'a job' ]"), STATUS_OK);
        close(ends[0]);
        ck_assert_int_eq(loop_run(&loop), STATUS_OK);
        ck_assert_int_eq(run.how, 0);
        signals_handle(NULL, NULL);
        loop_free(&loop);
    }
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(a_command_ends_as_it_does),
    UNIT(what_can_not_be_executed_is_told_at_once),
    UNIT(a_variable_may_be_as_long_as_the_system_takes),
    UNIT(it_gets_variables_and_its_output_is_read),
    UNIT(without_a_command_there_is_no_pipe),
    UNIT(a_command_that_is_apart_has_its_group_and_no_input),
    UNIT(its_input_may_be_a_file),
    UNIT(signals_reach_what_a_command_that_is_apart_has_started),
    UNIT(many_run_at_once),
    UNIT(what_does_not_end_is_killed),
    UNIT(a_command_that_was_reaped_gets_no_signal),
};

UNIT_MAIN("cli/child", tests)
