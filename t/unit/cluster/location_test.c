/* location_test.c - where this process is; processes that live, have gone, or can't be judged. */
#include "cluster/location.h"

#include "t/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static bool gone(const struct location *own, const char *text)
{
    return location_is_gone(own, bytes_of(text));
}

/* The text of `own` with another pid and start. */
static const char *with(const struct location *own, const char *end)
{
    static char text[256];
    snprintf(text, sizeof(text), "%.*s%s", (int)own->mine_len, own->text, end);
    return text;
}

/* Starts a process whose name is hard to read. It says where it is, and waits to be killed. */
static pid_t start(struct location *is_r)
{
    int fds[2];
    ck_assert(pipe(fds) == 0);
    pid_t pid = fork();
    ck_assert(pid >= 0);
    if (pid == 0) {
        struct location is;
        (void)prctl(PR_SET_NAME, "a) S 1 (2) 3\n");
        location_read(&is);
        if (write(fds[1], &is, sizeof(is)) != (ssize_t)sizeof(is))
            _exit(1);
        for (;;)
            pause();
    }
    ck_assert_int_eq(read(fds[0], is_r, sizeof(*is_r)), (ssize_t)sizeof(*is_r));
    close(fds[0]);
    close(fds[1]);
    return pid;
}

TEST(a_process_lives_and_goes)
{
    struct location own, is, again;
    siginfo_t info;
    unsigned long long space = 0, begun = 0;
    int pid = 0, used = 0;
    location_read(&own);
    pid_t child = start(&is);
    ck_assert_uint_eq(strspn(is.text, "0123456789abcdef"), 32);
    ck_assert_int_eq(sscanf(is.text + 32, "/%llu/%d/%llu%n", &space, &pid, &begun, &used), 3);
    ck_assert_uint_eq(strlen(is.text), 32 + (size_t)used);
    ck_assert(pid == child && space > 0 && is.knows_starts == (begun > 0));
    location_read(&again);
    ck_assert_str_eq(own.text, again.text);
    ck_assert(!gone(&own, own.text) && !gone(&own, is.text));
    ck_assert(kill(child, SIGKILL) == 0);
    ck_assert(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0);
    ck_assert(!gone(&own, is.text)); /* its parent has not waited for it */
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    ck_assert(gone(&own, is.text));
    /* Other machines and namespaces prove nothing. */
    char text[LOCATION_SIZE + 1];
    for (size_t i = 0; i < own.mine_len - 1; i++) {
        strcpy(text, is.text);
        text[i] = text[i] == '1' ? '2' : '1';
        ck_assert_msg(is.text[i] == '/' || !gone(&own, text), "%s", text);
    }
    snprintf(text, sizeof(text), "%.*s9%s", (int)own.mine_len - 1, own.text,
             is.text + own.mine_len - 1); /* a longer number of the namespace */
    ck_assert(!gone(&own, text));
}

TEST(a_pid_is_used_again)
{
    static const char *const starts[] = {"1", "18446744073709551615", "0"}; /* 0: unknown */
    struct location own;
    char end[64];
    location_read(&own);
    for (size_t i = 0; i < ARRAY_SIZE(starts) && own.knows_starts; i++) {
        snprintf(end, sizeof(end), "%d/%s", (int)getpid(), starts[i]);
        ck_assert_int_eq(gone(&own, with(&own, end)), i < 2);
    }
    own.knows_starts = false;
    ck_assert(!gone(&own, with(&own, end)));
}

TEST(wrong_texts)
{
    static const char *const ends[] = {"",
                                       "1",
                                       "/",
                                       "/1",
                                       "0/1",
                                       "-1/1",
                                       "+1/1",
                                       " 1/1",
                                       "x/1",
                                       "99999/",
                                       "99999",
                                       "99999/x",
                                       "2147483648/1",
                                       "99999/1x",
                                       "99999/-1",
                                       "99999/1/",
                                       "99999//1",
                                       "99999/01",
                                       "99999/18446744073709551616"};
    struct location own;
    location_read(&own);
    for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
        ck_assert_msg(!gone(&own, with(&own, ends[i])), "%s", ends[i]);
    for (size_t len = 0; len < own.mine_len; len++)
        ck_assert(!location_is_gone(&own, bytes_at(own.text, len)));
    ck_assert(!gone(&own, "-") && !location_is_gone(&own, bytes_at(NULL, 0)));
}

/* The end of a test in a process of its own. */
enum { GOOD = 42, NOT_ALLOWED = 43 };

static int end_of(int (*does)(void))
{
    int status = 0;
    pid_t pid = fork();
    ck_assert(pid >= 0);
    if (pid == 0)
        _exit(does());
    ck_assert(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    if (WEXITSTATUS(status) == NOT_ALLOWED)
        printf("# skipped: no namespaces here\n");
    return WEXITSTATUS(status) == NOT_ALLOWED ? GOOD : WEXITSTATUS(status);
}

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static bool apart(int flags)
{
    return unshare(flags) == 0 || unshare(flags | CLONE_NEWUSER) == 0;
}

static struct location outside;

/* The first process of a namespace, which still sees the /proc of the outer one. */
static int judge_inside(void)
{
    struct location own;
    location_read(&own);
    if (own.knows_starts || strncmp(own.text, outside.text, outside.mine_len) == 0)
        return 1;
    if (gone(&own, own.text) || gone(&outside, own.text) || gone(&own, outside.text))
        return 2;
    if (gone(&own, with(&own, "1/12345"))) /* /proc shows another process 1 */
        return 3;
    return gone(&own, with(&own, "4711/12345")) ? GOOD : 4;
}

static int judge_in_namespace(void)
{
    return apart(CLONE_NEWPID) ? end_of(judge_inside) : NOT_ALLOWED;
}

/* In a time namespace the clock since boot is shifted, and start times with it. */
static int judge_shifted(void)
{
    struct location own;
    location_read(&own);
    if (own.knows_starts || strcmp(strrchr(own.text, '/'), "/0") != 0)
        return 1;
    return gone(&own, outside.text) || gone(&outside, own.text) ? 2 : GOOD;
}

static int judge_in_other_time(void)
{
    int fd;
    if (!apart(CLONE_NEWTIME) ||
        (fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC)) < 0 ||
        write(fd, "boottime 1000 0", 15) != 15)
        return NOT_ALLOWED;
    return end_of(judge_shifted);
}

/* A process that can't be looked at may live. */
static int judge_without_proc(void)
{
    struct location own;
    location_read(&own);
    if (!apart(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("/tmp", "/proc", NULL, MS_BIND, NULL) != 0)
        return NOT_ALLOWED;
    return gone(&own, outside.text) || gone(&own, with(&own, "1/1")) ? 1 : GOOD;
}

/*
 * With /proc/sys hidden, as by systemd, the environment has the boot id. Without one the text is
 * another one each time, and proves nothing.
 */
static int judge_without_boot_id(void)
{
    static const char *const ids[] = {
        "0123456789abcdef0123456789abcdef", "", "0123456789abcdef0123456789abcde",
        "0123456789abcdef0123456789abcdef0", "0123456789ABCDEF0123456789abcdeg"};
    struct location own, again;
    if (!apart(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("/tmp", "/proc/sys/kernel/random", NULL, MS_BIND, NULL) != 0)
        return NOT_ALLOWED;
    for (size_t i = 0; i <= ARRAY_SIZE(ids); i++) {
        (void)(i < ARRAY_SIZE(ids) ? setenv("COUNTERD_BOOT_ID", ids[i], 1)
                                   : unsetenv("COUNTERD_BOOT_ID"));
        location_read(&own);
        location_read(&again);
        if (own.text[32] != '/' || (i == 0 && strncmp(own.text, ids[0], 32) != 0))
            return 1;
        if (i > 0 && (strncmp(own.text, again.text, 33) == 0 || gone(&own, with(&again, "4711/1"))))
            return 2;
    }
    return GOOD;
}

TEST(what_is_elsewhere_or_hidden_proves_nothing)
{
    static int (*const judges[])(void) = {judge_in_namespace, judge_in_other_time,
                                          judge_without_proc, judge_without_boot_id};
    location_read(&outside);
    for (size_t i = 0; i < ARRAY_SIZE(judges); i++)
        ck_assert_int_eq(end_of(judges[i]), GOOD);
}

UNIT_MAIN("where")
