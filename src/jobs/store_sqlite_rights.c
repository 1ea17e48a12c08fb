/*
 * store_sqlite_rights.c - jobs in a file of SQLite: which of its files the process may not use, and
 * whose that is.
 */
#include "jobs/store_sqlite.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_ROOM 64u

/* Finds the name of a user; its number if that is not in /etc/passwd, or the thread may not read
 * that. getpwuid would ask servers, which ends a sandboxed thread. */
static void find_name(uid_t uid, char name_r[NAME_ROOM])
{
    char line[1024];
    struct passwd user, *found = NULL;
    FILE *from = fopen("/etc/passwd", "re");
    snprintf(name_r, NAME_ROOM, "%u", uid);
    while (from && fgetpwent_r(from, &user, line, sizeof(line), &found) == 0 && user.pw_uid != uid)
        found = NULL;
    if (found)
        snprintf(name_r, NAME_ROOM, "%s", user.pw_name);
    if (from)
        fclose(from);
}

/* Says in `reason_r` that this user may not use the file or folder `name`, unless it may or there
 * is none. `path`: that of the store. Returns true if it may. */
static bool may_use(const char *name, const char *path, char *reason_r)
{
    char owner[NAME_ROOM], own[NAME_ROOM];
    struct stat st;
    if (stat(name, &st) != 0)
        return true;
    bool is_folder = S_ISDIR(st.st_mode);
    if (access(name, is_folder ? R_OK | W_OK | X_OK : R_OK | W_OK) == 0 || errno != EACCES)
        return true;
    find_name(st.st_uid, owner);
    find_name(geteuid(), own);
    int len =
        snprintf(reason_r, JOB_STORE_REASON,
                 "%s belongs to user %s, with mode %04o, and counterd runs as user %s, who may "
                 "not write it: ",
                 name, owner, st.st_mode & 07777u, own);
    size_t left = (size_t)len < JOB_STORE_REASON ? JOB_STORE_REASON - (size_t)len : 0;
    char *to = reason_r + (left > 0 ? len : 0);
    if (st.st_uid == geteuid())
        snprintf(to, left, "chmod %s %s%s", is_folder ? "u+rwx" : "u+rw", is_folder ? name : path,
                 is_folder ? "" : "*");
    else if (is_folder)
        snprintf(to, left, "chown %s %s, or set jobs.path to a file in a folder of that user", own,
                 name);
    else
        snprintf(to, left, "chown %s %s*", own, path);
    return false;
}

bool job_store_sqlite_may_use(const char *path, char *reason_r)
{
    static const char *const endings[] = {"", "-wal", "-shm", "-lock", "-reserve"};
    char name[4096 + 16];
    const char *slash = strrchr(path, '/');
    if (!slash || strlen(path) + 16 > sizeof(name))
        return true;
    snprintf(name, sizeof(name), "%.*s", slash == path ? 1 : (int)(slash - path), path);
    bool may = may_use(name, path, reason_r);
    for (size_t i = 0; may && i < ARRAY_SIZE(endings); i++) {
        snprintf(name, sizeof(name), "%s%s", path, endings[i]);
        may = may_use(name, path, reason_r);
    }
    return may;
}
