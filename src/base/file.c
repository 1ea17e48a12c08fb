/* file.c - see file.h. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int file_open_regular(const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    int error = 0;
    if (fstat(fd, &status) != 0)
        error = errno;
    else if (S_ISREG(status.st_mode))
        return fd;
    else if (S_ISDIR(status.st_mode))
        error = EISDIR;
    close(fd);
    errno = error;
    return -1;
}

const char *file_open_reason(int error)
{
    return error ? strerrordesc_np(error) : "Not a regular file";
}
