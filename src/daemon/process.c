/* process.c - see process.h. */
#include "daemon/process.h"

#include "base/log.h"
#include "base/number.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The signals that the main thread handles; 0 after the last. The manual lists each. */
static const int process_signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, 0};

void process_block_signals(sigset_t *set_r)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(set_r);
    for (size_t i = 0; process_signals[i]; i++)
        sigaddset(set_r, process_signals[i]);
    CHECK(pthread_sigmask(SIG_BLOCK, set_r, NULL) == 0);
}

bool process_is_to_end(void)
{
    sigset_t waiting;
    return sigpending(&waiting) == 0 &&
           (sigismember(&waiting, SIGTERM) == 1 || sigismember(&waiting, SIGINT) == 1);
}

void process_allow_abrupt_end(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    CHECK(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
}

uint64_t process_raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    struct rlimit raised = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
    if (limit.rlim_cur < limit.rlim_max && setrlimit(RLIMIT_NOFILE, &raised) == 0)
        limit = raised;
    return limit.rlim_cur;
}

/* Finds the ids of user and group; the process's own where the name is NULL. */
static bool find_user(const char *user, const char *group, uid_t *uid_r, gid_t *gid_r)
{
    /* These two return static buffers, which is safe: no other thread runs yet. */
    const struct passwd *pw = user ? getpwnam(user) : NULL;  // NOLINT(concurrency-mt-unsafe)
    const struct group *gr = group ? getgrnam(group) : NULL; // NOLINT(concurrency-mt-unsafe)
    if (user && !pw)
        log_error("user \"%s\": there is no such user", user);
    if (group && !gr)
        log_error("group \"%s\": there is no such group", group);
    *uid_r = pw ? pw->pw_uid : getuid();
    *gid_r = gr ? gr->gr_gid : pw ? pw->pw_gid : getgid();
    return (!user || pw) && (!group || gr);
}

bool process_know_user(const char *user, const char *group)
{
    uid_t uid;
    gid_t gid;
    return find_user(user, group, &uid, &gid);
}

bool process_give_file(const char *path, const char *user, const char *group)
{
    uid_t uid;
    gid_t gid;
    if ((!user && !group) || geteuid() != 0)
        return true;
    if (!find_user(user, group, &uid, &gid)) {
        errno = ENOENT;
        return false;
    }
    return lchown(path, uid, gid) == 0;
}

bool process_can_become(const char *user, const char *group)
{
    uid_t uid;
    gid_t gid;
    if (!find_user(user, group, &uid, &gid))
        return false;
    if (geteuid() == 0 || (uid == getuid() && gid == getgid()))
        return true;
    log_error(
        "can't become user \"%s\", group \"%s\": the process is another user already: restart it",
        user ? user : "", group ? group : "");
    return false;
}

bool process_drop_root(const char *user, const char *group)
{
    uid_t uid;
    gid_t gid;
    if (!user && !group)
        return true;
    if (!find_user(user, group, &uid, &gid))
        return false;
    if (uid == getuid() && uid == geteuid() && gid == getgid() && gid == getegid())
        return true;
    if ((user ? initgroups(user, gid) : setgroups(1, &gid)) != 0 || setresgid(gid, gid, gid) != 0 ||
        setresuid(uid, uid, uid) != 0) {
        if (user)
            log_error("can't become user \"%s\", group %u: %s; start as root, or as that user",
                      user, gid, strerrordesc_np(errno));
        else
            log_error("can't become group \"%s\": %s; start as root, or in that group", group,
                      strerrordesc_np(errno));
        return false;
    }
    if (uid != 0 && setuid(0) == 0) {
        log_error("the process could become root again: it does not start");
        return false;
    }
    return true;
}

void process_warn_of_root(void)
{
    if (geteuid() == 0)
        log_warning("running as root: set the option user, so that an attacker gets fewer rights");
}

bool process_write_pid_file(const char *path)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    bool written = fd >= 0 && write(fd, text, (size_t)len) == len;
    if (!written)
        log_error("pid_file %s: %s", path,
                  errno == ELOOP ? "is a symbolic link, which counterd does not follow; name a file"
                                 : strerrordesc_np(errno));
    if (fd >= 0)
        close(fd);
    return written;
}

/* True if the file at `path` holds our process id. */
static bool is_our_pid_file(const char *path)
{
    char text[32] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool got = fd >= 0 && read(fd, text, sizeof(text) - 1) > 0;
    if (fd >= 0)
        close(fd);
    struct bytes in = bytes_of(text);
    uint64_t number;
    return got && number_take(&in, INT32_MAX, &number) && (pid_t)number == getpid();
}

void process_remove_pid_file(const char *path)
{
    if (!is_our_pid_file(path))
        return;
    (void)unlink(path); /* may fail: the folder may belong to root */
}
