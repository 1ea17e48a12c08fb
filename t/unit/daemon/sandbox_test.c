/*
 * sandbox_test.c - what the main thread gives up, which goes on over execve, and what a confined
 * thread is killed for. In processes of their own: nothing of it can be taken back.
 */
#include "daemon/sandbox.h"
#include "t/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* How a child ends that does `act`: its exit status, or a signal's number with a minus. */
static int end_of(int (*act)(void))
{
    int status;
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        _exit(act());
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* Whether this machine and this build have filters; else there is no more to be seen here. */
static bool can(void)
{
    char reason[SANDBOX_REASON_SIZE] = "";
    bool good = sandbox_prepare(reason);
    ck_assert(good == (*reason == '\0'));
    return good;
}

/* ---- the main thread --------------------------------------------------------------------------
 */

static int may_read_files_and_run_programs(void)
{
    char reason[SANDBOX_REASON_SIZE];
    if (!sandbox_prepare(reason) || !sandbox_enter())
        return 1;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) < 0)
        return 2;
    execl("/bin/sh", "sh", "-c", "exec 3</dev/null && exit 42", (char *)NULL);
    return 3;
}

static int is_refused_what_no_daemon_does(void)
{
    char reason[SANDBOX_REASON_SIZE];
    if (!sandbox_prepare(reason) || !sandbox_enter())
        return 1;
    if (ptrace(PTRACE_TRACEME, 0, 0, 0) != -1 || errno != EPERM)
        return 2;
    errno = 0;
    if (mount("none", "/", NULL, MS_REMOUNT | MS_BIND, NULL) != -1 || errno != EPERM)
        return 3;
    errno = 0;
    return syscall(SYS_keyctl, 0, 0, 0) == -1 && errno == EPERM ? 42 : 4;
}

static int has_no_rights_left(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];
    char reason[SANDBOX_REASON_SIZE];
    if (!sandbox_prepare(reason) || !sandbox_enter() || syscall(SYS_capget, &head, caps) != 0)
        return 1;
    for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
        if (caps[i].effective || caps[i].permitted || caps[i].inheritable)
            return 2;
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 42 : 3;
}

/* How many filters are on this thread, -1 where the kernel doesn't tell. */
static int filters(void)
{
    char line[256];
    int count = -1;
    FILE *file = fopen("/proc/thread-self/status", "re");
    while (file && fgets(line, sizeof line, file))
        (void)sscanf(line, "Seccomp_filters: %d", &count);
    if (file)
        fclose(file);
    return count;
}

/* As a binary that is executed by one that has entered already: filters must not pile up. */
static int enters_once(void)
{
    char reason[SANDBOX_REASON_SIZE];
    int before = filters();
    if (before < 0)
        return 42;
    for (int i = 0; i < 3; i++)
        if (!sandbox_prepare(reason) || !sandbox_enter())
            return 1;
    return filters() == before + 1 ? 42 : 2;
}

TEST(the_main_thread_keeps_what_it_needs)
{
    if (!can())
        return;
    ck_assert_int_eq(end_of(may_read_files_and_run_programs), 42);
    ck_assert_int_eq(end_of(is_refused_what_no_daemon_does), 42);
    ck_assert_int_eq(end_of(has_no_rights_left), 42);
    ck_assert_int_eq(end_of(enters_once), 42);
}

/* ---- a confined thread ------------------------------------------------------------------------
 */

static int (*act_confined)(void);

static void *confined(void *arg)
{
    int *result = arg;
    *result = sandbox_confine() ? act_confined() : 100;
    return NULL;
}

/* Does `act_confined` in a confined thread; the process goes on if that does. */
static int in_thread(void)
{
    char reason[SANDBOX_REASON_SIZE];
    pthread_t thread;
    int result = 101;
    if (!sandbox_prepare(reason) || !sandbox_enter() ||
        pthread_create(&thread, NULL, confined, &result) != 0 || pthread_join(thread, NULL) != 0)
        return 102;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC); /* nobody but that thread is confined */
    return fd < 0 ? 103 : result;
}

static int end_confined(int (*act)(void))
{
    act_confined = act;
    return end_of(in_thread);
}

static int open_file(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0;
}

static int open_stream(void)
{
    return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0) >= 0;
}

static int open_raw(void)
{
    return socket(AF_INET, SOCK_RAW, 1) >= 0;
}

static int give_file_away(void)
{
    return chmod("/tmp/sandbox_test", 0600) == 0;
}

static int change_limit(void)
{
    /* Asking is allowed; what is no answer to that is no killing either, but refused. */
    return syscall(SYS_prlimit64, 0, 7, "01234567012345670", NULL) == -1 && errno == ENOSYS ? 42
                                                                                            : 1;
}

static int ask_limit(void)
{
    unsigned long limit[2];
    return syscall(SYS_prlimit64, 0, 7, NULL, limit) == 0 ? 42 : 1;
}

static int ask_for_datagrams(void)
{
    return socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0) == -1 && errno == EACCES ? 42 : 1;
}

static int die_by_own_hand(void)
{
    raise(SIGUSR1);
    return 1;
}

static int tell_file_by_path(void)
{
    struct stat st;
    if (stat("/etc/passwd", &st) != -1 || errno != ENOSYS)
        return 1;
    errno = 0;
    return fstatat(AT_FDCWD, "/etc/passwd", &st, AT_EMPTY_PATH) == -1 && errno == ENOSYS ? 42 : 2;
}

/* The call is what counts: that it is made on no socket is not looked at. */
static int send_to_address(void)
{
    return sendto(-1, "x", 1, MSG_FASTOPEN, NULL, 0) == 0;
}

static int send_descriptor(void)
{
    struct msghdr message = {.msg_iov = NULL};
    return sendmsg(-1, &message, 0) == 0;
}

static int send_descriptors(void)
{
    struct mmsghdr message = {.msg_len = 0};
    return sendmmsg(-1, &message, 1, 0) == 0;
}

static int stop_listening(void)
{
    return shutdown(-1, SHUT_RD) == 0;
}

static int finish_sending(void)
{
    return shutdown(-1, SHUT_WR) == -1 && errno == EBADF ? 42 : 1;
}

TEST(a_confined_thread_is_killed_for_what_no_worker_does)
{
    if (!can())
        return;
    ck_assert_int_eq(end_confined(open_file), -SIGSYS);
    ck_assert_int_eq(end_confined(open_stream), -SIGSYS);
    ck_assert_int_eq(end_confined(open_raw), -SIGSYS);
    ck_assert_int_eq(end_confined(give_file_away), -SIGSYS);
    ck_assert_int_eq(end_confined(send_to_address), -SIGSYS);
    ck_assert_int_eq(end_confined(send_descriptor), -SIGSYS);
    ck_assert_int_eq(end_confined(send_descriptors), -SIGSYS);
    ck_assert_int_eq(end_confined(stop_listening), -SIGSYS);
}

TEST(a_confined_thread_is_refused_what_nobody_listed)
{
    if (!can())
        return;
    ck_assert_int_eq(end_confined(change_limit), 42);
    ck_assert_int_eq(end_confined(ask_limit), 42);
    ck_assert_int_eq(end_confined(ask_for_datagrams), 42);
    ck_assert_int_eq(end_confined(tell_file_by_path), 42);
    ck_assert_int_eq(end_confined(finish_sending), 42);
    ck_assert_int_eq(end_confined(die_by_own_hand), -SIGUSR1);
}

/* ---- the filter as text -----------------------------------------------------------------------
 */

/* What the filter has for a call; NULL: nothing. Valid until the next call. */
static const char *rules_for(const char *filter, const char *call)
{
    static char rules[4096];
    char head[64];
    snprintf(head, sizeof head, "# filter for syscall \"%s\"", call);
    const char *begin = strstr(filter, head), *end = begin ? strstr(begin + 1, "# ") : NULL;
    if (!end)
        return NULL;
    snprintf(rules, sizeof rules, "%.*s", (int)(end - begin), begin);
    return rules;
}

TEST(what_requests_consist_of_has_no_conditions)
{
    static const char *const calls[] = {"read",       "recvfrom",    "write",        "writev",
                                        "epoll_wait", "epoll_pwait", "epoll_pwait2", "epoll_ctl",
                                        "accept4",    "close",       "futex"};
    static const char *const none[] = {"sendto", "sendmsg", "sendmmsg", "connect"};
    static const char *const absent[] = {"recvmsg", "recvmmsg", "newfstatat", "statx"};
    char filter[1 << 16];
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    if (!sandbox_export(fileno(file))) {
        fclose(file);
        return; /* this build has no filters */
    }
    rewind(file);
    size_t len = fread(filter, 1, sizeof filter - 1, file);
    fclose(file);
    filter[len] = '\0';
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const char *rules = rules_for(filter, calls[i]);
        ck_assert_msg(rules && strstr(rules, "action ALLOW") && !strstr(rules, "$a"), "%s: %s",
                      calls[i], rules ? rules : "no rule");
    }
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        const char *rules = rules_for(filter, none[i]);
        ck_assert_msg(rules && strstr(rules, "action KILL") && !strstr(rules, "ALLOW"), "%s: %s",
                      none[i], rules ? rules : "no rule");
    }
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        ck_assert_msg(!rules_for(filter, absent[i]), "%s", rules_for(filter, absent[i]));
}

static const struct unit_test tests[] = {
    UNIT(the_main_thread_keeps_what_it_needs),
    UNIT(a_confined_thread_is_killed_for_what_no_worker_does),
    UNIT(a_confined_thread_is_refused_what_nobody_listed),
    UNIT(what_requests_consist_of_has_no_conditions),
};

UNIT_MAIN("daemon/sandbox", tests)
