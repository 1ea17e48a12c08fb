/* file.c - see file.h. */
#include "base/file.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static bool is_null(const struct stat *status)
{
    return S_ISCHR(status->st_mode) && status->st_rdev == makedev(1, 3);
}

int file_open_regular(const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    int error = 0;
    if (fstat(fd, &status) != 0)
        error = errno;
    else if (S_ISREG(status.st_mode) || is_null(&status))
        return fd;
    else if (S_ISDIR(status.st_mode))
        error = EISDIR;
    close(fd);
    errno = error;
    return -1;
}

bool file_open_standard(bool fails)
{
    /* In rising order: open returns the lowest free number, so each one fills its own gap. */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        int wrong_way = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF &&
            open("/dev/null", fails ? wrong_way : O_RDWR) != fd)
            return false;
    }
    return true;
}

const char *file_open_reason(int error)
{
    return error ? strerrordesc_np(error) : "Not a regular file";
}

void file_warn_of_others(const char *key, const char *path, const char *remedy)
{
    struct stat status;
    if (path && stat(path, &status) == 0 && (status.st_mode & (S_IROTH | S_IWOTH)))
        log_warning("%s: %s can be %s by every user of this machine; %s", key, path,
                    status.st_mode & S_IWOTH ? "written" : "read", remedy);
}
