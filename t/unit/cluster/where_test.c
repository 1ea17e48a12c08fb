/* where_test.c - where this process is; processes that live, have gone, or can't be judged. */
#include "cluster/where.h"

#include "base/text.h"
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

static bool gone(const struct where *own, const char *text)
{
    return where_is_gone(own, bytes_of(text));
}

/* A process, and where it says it is. */
struct child {
    pid_t pid;
    struct where is;
};

/* Starts a process that says where it is and waits to be killed. */
static struct child start(void (*before)(void))
{
    struct child child = {0};
    int fds[2];
    ck_assert(pipe(fds) == 0);
    child.pid = fork();
    ck_assert(child.pid >= 0);
    if (child.pid == 0) {
        struct where is;
        if (before)
            before();
        where_read(&is);
        if (write(fds[1], &is, sizeof(is)) != (ssize_t)sizeof(is))
            _exit(1);
        close(fds[1]);
        for (;;)
            pause();
    }
    close(fds[1]);
    ck_assert_int_eq(read(fds[0], &child.is, sizeof(child.is)), (ssize_t)sizeof(child.is));
    close(fds[0]);
    return child;
}

/* Kills the process, and waits until it is a zombie. */
static void kill_child(const struct child *child)
{
    siginfo_t info;
    ck_assert(kill(child->pid, SIGKILL) == 0);
    ck_assert(waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOWAIT) == 0);
}

static void reap(const struct child *child)
{
    ck_assert_int_eq(waitpid(child->pid, NULL, 0), child->pid);
}

TEST(the_text)
{
    struct where own, again;
    where_read(&own);
    where_read(&again);
    ck_assert_str_eq(own.text, again.text);
    ck_assert_uint_eq(strspn(own.text, "0123456789abcdef"), 32);
    unsigned long long space = 0, start = 0;
    int pid = 0, used = 0;
    ck_assert_int_eq(sscanf(own.text + 32, "/%llu/%d/%llu%n", &space, &pid, &start, &used), 3);
    ck_assert_uint_eq(strlen(own.text), 32 + (size_t)used);
    ck_assert_int_eq(pid, getpid());
    ck_assert_uint_gt(space, 0);
    ck_assert(own.knows_starts == (start > 0));
    if (!own.knows_starts)
        printf("# /proc does not show this pid namespace\n");
    ck_assert(!gone(&own, own.text));
}
END_TEST

TEST(a_process_lives_and_goes)
{
    struct where own;
    where_read(&own);
    struct child child = start(NULL);
    ck_assert_str_ne(child.is.text, own.text);
    ck_assert(!gone(&own, child.is.text));
    kill_child(&child);
    ck_assert(!gone(&own, child.is.text)); /* its parent has not waited for it */
    reap(&child);
    ck_assert(gone(&own, child.is.text));
}
END_TEST

static void take_a_bad_name(void)
{
    (void)prctl(PR_SET_NAME, "a) S 1 (2) 3\n");
}

TEST(any_program_name)
{
    struct where own, again;
    struct child child = start(take_a_bad_name);
    where_read(&own);
    ck_assert(!gone(&own, child.is.text));
    ck_assert(prctl(PR_SET_NAME, ") ) R 4 ") == 0);
    where_read(&again);
    ck_assert_str_eq(own.text, again.text);
    kill_child(&child);
    reap(&child);
}
END_TEST

/* The text of `own` with another pid and start. */
static const char *with(const struct where *own, long long pid, const char *start)
{
    static char text[256];
    snprintf(text, sizeof(text), "%.*s%lld/%s", (int)own->mine_len, own->text, pid, start);
    return text;
}

TEST(a_pid_is_used_again)
{
    struct where own;
    where_read(&own);
    const char *start = strrchr(own.text, '/') + 1;
    if (!own.knows_starts)
        return;
    ck_assert(!gone(&own, with(&own, getpid(), start)));
    ck_assert(gone(&own, with(&own, getpid(), "1")));
    ck_assert(gone(&own, with(&own, getpid(), "18446744073709551615")));
    ck_assert(!gone(&own, with(&own, getpid(), "0"))); /* unknown */
    own.knows_starts = false;
    ck_assert(!gone(&own, with(&own, getpid(), "1")));
}
END_TEST

TEST(other_machines_and_namespaces_prove_nothing)
{
    struct where own;
    where_read(&own);
    struct child child = start(NULL);
    kill_child(&child);
    reap(&child);
    char text[WHERE_SIZE + 1];
    ck_assert(gone(&own, child.is.text));
    for (size_t i = 0; i < own.mine_len - 1; i++) {
        if (own.text[i] == '/')
            continue;
        strcpy(text, child.is.text);
        text[i] = text[i] == '1' ? '2' : '1';
        ck_assert_msg(!gone(&own, text), "%s", text);
    }
    snprintf(text, sizeof(text), "%.*s9%s", (int)own.mine_len - 1, own.text,
             child.is.text + own.mine_len - 1); /* a longer number of the namespace */
    ck_assert(!gone(&own, text));
}
END_TEST

TEST(wrong_texts)
{
    struct where own;
    where_read(&own);
    static const char *const ends[] = {"",
                                       "1",
                                       "/",
                                       "/1",
                                       "0/1",
                                       "-1/1",
                                       "+1/1",
                                       " 1/1",
                                       "x/1",
                                       "2147483648/1",
                                       "99999/",
                                       "99999",
                                       "99999/x",
                                       "99999/1x",
                                       "99999/-1",
                                       "99999/1/",
                                       "99999//1",
                                       "99999/01",
                                       "99999/18446744073709551616"};
    for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
        struct text text = {0};
        text_addf(&text, "%.*s%s", (int)own.mine_len, own.text, ends[i]);
        ck_assert_msg(!gone(&own, text_str(&text)), "%s", text_str(&text));
        text_free(&text);
    }
    for (size_t len = 0; len < own.mine_len; len++)
        ck_assert(!where_is_gone(&own, bytes_at(own.text, len)));
    ck_assert(!gone(&own, "-"));
    ck_assert(!where_is_gone(&own, bytes_at(NULL, 0)));
}
END_TEST

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

static struct where outside;

/* The first process of a namespace, which still sees the /proc of the outer one. */
static int judge_inside(void)
{
    struct where own;
    where_read(&own);
    if (own.knows_starts || strncmp(own.text, outside.text, outside.mine_len) == 0)
        return 1;
    if (gone(&own, own.text) || gone(&outside, own.text) || gone(&own, outside.text))
        return 2;
    if (gone(&own, with(&own, 1, "12345"))) /* /proc shows another process 1 */
        return 3;
    return gone(&own, with(&own, 4711, "12345")) ? GOOD : 4;
}

static int judge_in_namespace(void)
{
    int status = 0;
    if (!apart(CLONE_NEWPID))
        return NOT_ALLOWED;
    pid_t pid = fork();
    if (pid == 0)
        _exit(judge_inside());
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 9;
}

/* In a time namespace the clock since boot is shifted, and start times with it. */
static int judge_in_other_time(void)
{
    int status = 0, fd;
    if (!apart(CLONE_NEWTIME) ||
        (fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC)) < 0 ||
        write(fd, "boottime 1000 0", 15) != 15)
        return NOT_ALLOWED;
    pid_t pid = fork();
    if (pid == 0) {
        struct where own;
        where_read(&own);
        if (own.knows_starts || strcmp(strrchr(own.text, '/'), "/0") != 0)
            _exit(1);
        _exit(gone(&own, outside.text) || gone(&outside, own.text) ? 2 : GOOD);
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 9;
}

/* Hides /proc/sys, as systemd does. */
static bool hide_boot_id(void)
{
    return apart(CLONE_NEWNS) && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("/tmp", "/proc/sys/kernel/random", NULL, MS_BIND, NULL) == 0;
}

static int take_from_environment(void)
{
    struct where own;
    if (!hide_boot_id())
        return NOT_ALLOWED;
    (void)setenv("COUNTERD_BOOT_ID", "0123456789abcdef0123456789abcdef", 1);
    where_read(&own);
    return strncmp(own.text, "0123456789abcdef0123456789abcdef/", 33) == 0 ? GOOD : 1;
}

/* A process that can't be looked at may live. */
static int judge_without_proc(void)
{
    struct where own;
    where_read(&own);
    if (!apart(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("/tmp", "/proc", NULL, MS_BIND, NULL) != 0)
        return NOT_ALLOWED;
    return gone(&own, outside.text) || gone(&own, with(&own, getpid(), "1")) ? 1 : GOOD;
}

/* Without a boot id the text is another one each time, and proves nothing. */
static int be_random(void)
{
    static const char *const ids[] = {NULL, "", "0123456789abcdef0123456789abcde",
                                      "0123456789abcdef0123456789abcdef0",
                                      "0123456789ABCDEF0123456789abcdeg"};
    struct where own, again;
    if (!hide_boot_id())
        return NOT_ALLOWED;
    for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
        (void)(ids[i] ? setenv("COUNTERD_BOOT_ID", ids[i], 1) : unsetenv("COUNTERD_BOOT_ID"));
        where_read(&own);
        where_read(&again);
        if (strncmp(own.text, again.text, 33) == 0 || own.text[32] != '/')
            return 1;
        if (gone(&own, with(&again, 4711, "1")))
            return 2;
    }
    return GOOD;
}

TEST(what_is_elsewhere_or_hidden_proves_nothing)
{
    static int (*const judges[])(void) = {judge_in_namespace, judge_in_other_time,
                                          judge_without_proc, take_from_environment, be_random};
    where_read(&outside);
    for (size_t i = 0; i < ARRAY_SIZE(judges); i++)
        ck_assert_int_eq(end_of(judges[i]), GOOD);
}
END_TEST

UNIT_MAIN("where")
