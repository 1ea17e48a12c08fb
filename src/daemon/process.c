/* process.c - see process.h. */
#include "daemon/process.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

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

bool process_drop_root(const char *user, const char *group)
{
    if (!user && !group)
        return true;
    /* The main thread is the only one yet, so the static buffers of these two are its own. */
    const struct passwd *pw = user ? getpwnam(user) : NULL;  // NOLINT(concurrency-mt-unsafe)
    const struct group *gr = group ? getgrnam(group) : NULL; // NOLINT(concurrency-mt-unsafe)
    if (user && !pw) {
        log_error("user \"%s\": there is no such user", user);
        return false;
    }
    if (group && !gr) {
        log_error("group \"%s\": there is no such group", group);
        return false;
    }
    uid_t uid = pw ? pw->pw_uid : getuid();
    gid_t gid = gr ? gr->gr_gid : pw ? pw->pw_gid : getgid();
    if (uid == getuid() && uid == geteuid() && gid == getgid() && gid == getegid())
        return true;
    if (setgroups(1, &gid) != 0 || setresgid(gid, gid, gid) != 0 || setresuid(uid, uid, uid) != 0) {
        log_error("can't become user %u, group %u: %s", uid, gid, strerrordesc_np(errno));
        return false;
    }
    if (uid != 0 && setuid(0) == 0) {
        log_error("root's rights could be had back: refusing to go on");
        return false;
    }
    return true;
}

bool process_write_pid_file(const char *path)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    bool written = fd >= 0 && write(fd, text, (size_t)len) == len;
    if (!written)
        log_error("pid_file %s: %s", path, strerrordesc_np(errno));
    if (fd >= 0)
        close(fd);
    return written;
}

void process_remove_pid_file(const char *path)
{
    (void)unlink(path); /* the directory may be root's, and root given up: nothing is to be done */
}
