/*
 * landlock.c - see landlock.h.
 *
 * A rule grants rights on a folder and all below it, or on a file. It is bound to the inode, not to
 * the name. A file that may be replaced therefore needs a rule on its folder.
 */
#include "daemon/landlock.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if __has_include(<linux/landlock.h>)
#include <linux/landlock.h>

#ifndef LANDLOCK_ACCESS_FS_TRUNCATE /* headers before 6.2 */
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif

#define READ_RIGHTS (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITE_RIGHTS                                                                               \
    (READ_RIGHTS | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE |                   \
     LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE)

/* A set of rules under construction. */
struct rules_of {
    const struct sandbox *to;
    uint64_t rights; /* all rights that the kernel knows; those without a rule are denied */
    int fd;
};

/* The kernel's version of Landlock's interface; negative with errno: none. */
static int version(void)
{
    return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

/* All file rights that this version knows. */
static uint64_t rights_of(int version)
{
    static const unsigned counts[] = {0, 13, 14, 15, 15, 16}; /* number of rights, by version */
    size_t last = ARRAY_SIZE(counts) - 1;
    return (1ULL << counts[(size_t)version < last ? (size_t)version : last]) - 1;
}

/* Allows these rights in a folder, or on a file. Returns false with errno. */
static bool allow(const struct rules_of *rules, const char *path, uint64_t rights)
{
    struct landlock_path_beneath_attr rule = {
        .allowed_access = rights & rules->rights,
        .parent_fd = open(path, O_PATH | O_CLOEXEC),
    };
    if (rule.parent_fd < 0)
        return false;
    long status = syscall(SYS_landlock_add_rule, rules->fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    int error = errno;
    close(rule.parent_fd);
    errno = error;
    return status == 0;
}

static bool allow_folder_of(const struct rules_of *rules, const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (!slash)
        return allow(rules, ".", READ_RIGHTS);
    size_t len = slash == path ? 1 : (size_t)(slash - path);
    if (len >= sizeof(folder)) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(folder, path, len);
    folder[len] = '\0';
    return allow(rules, folder, READ_RIGHTS);
}

/* Allows to read a folder, a device, or a file. For a regular file, allows to read its folder, so
 * that a replacement can be read, too. */
static bool allow_reading(const struct rules_of *rules, const char *path)
{
    char real[PATH_MAX];
    struct stat st;
    bool exists = stat(path, &st) == 0;
    if (exists && S_ISDIR(st.st_mode))
        return allow(rules, path, READ_RIGHTS);
    if (exists && !S_ISREG(st.st_mode))
        return allow(rules, path, LANDLOCK_ACCESS_FS_READ_FILE);
    return allow_folder_of(rules, path) &&
           (!exists || (realpath(path, real) && allow_folder_of(rules, real)));
}

static bool failed(const struct rules_of *rules, const char *path)
{
    int error = errno;
    log_error("security.sandbox: can't restrict the thread of the %s to %s: %s", rules->to->name,
              path, strerrordesc_np(error));
    errno = error;
    return false;
}

static bool add_rules(const struct rules_of *rules)
{
    const struct sandbox *to = rules->to;
    for (size_t i = 0; to->reads && to->reads[i]; i++)
        if (!allow_reading(rules, to->reads[i]) && errno != ENOENT)
            return failed(rules, to->reads[i]);
    for (size_t i = 0; to->writes && to->writes[i]; i++)
        if (!allow(rules, to->writes[i], WRITE_RIGHTS))
            return failed(rules, to->writes[i]);
    return true;
}

bool landlock_exists(void)
{
    return version() > 0;
}

bool landlock_apply(const struct sandbox *to)
{
    struct landlock_ruleset_attr attr = {.handled_access_fs = rights_of(version())};
    struct rules_of rules = {.to = to, .rights = attr.handled_access_fs};
    rules.fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
    if (rules.fd < 0)
        return failed(&rules, "its files");
    bool good = add_rules(&rules);
    if (good && syscall(SYS_landlock_restrict_self, rules.fd, 0) != 0)
        good = failed(&rules, "its files");
    int error = errno;
    close(rules.fd);
    errno = error;
    return good;
}

#else

bool landlock_exists(void)
{
    errno = ENOSYS;
    return false;
}

bool landlock_apply(const struct sandbox *to)
{
    (void)to;
    errno = ENOSYS;
    return false;
}

#endif
