/*
 * syslog.c - see syslog.h.
 *
 * When no program receives at the other end, sending a datagram ends the connection. The socket
 * stays open; syslog_connect connects it again to the program that then has the path bound.
 */
#include "base/syslog.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

/* Maximum length of a log line plus its head. Longer lines are cut. */
#define LINE_SIZE 1200

static const char *log_path = _PATH_LOG;
static int sock = -1;
static bool connected;

void syslog_set_path(const char *path)
{
    log_path = path;
}

void syslog_connect(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (connected)
        return;
    if (sock < 0)
        sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(strlen(log_path) < sizeof to.sun_path);
    memcpy(to.sun_path, log_path, strlen(log_path) + 1);
    connected = sock >= 0 && connect(sock, (struct sockaddr *)&to, sizeof to) == 0;
}

void syslog_disconnect(void)
{
    if (sock >= 0)
        close(sock);
    sock = -1;
    connected = false;
}

/* Writes "<30>Jan 31 12:34:56 counterd[123]: ", in local time. Returns its length. */
static size_t make_head(int priority, char *to, size_t size)
{
    char stamp[32] = "";
    struct tm local;
    time_t now = time(NULL);
    if (localtime_r(&now, &local))
        (void)strftime(stamp, sizeof stamp, "%b %e %H:%M:%S ", &local);
    int len =
        snprintf(to, size, "<%d>%scounterd[%d]: ", LOG_DAEMON | priority, stamp, (int)getpid());
    CHECK(len > 0 && (size_t)len < size);
    return (size_t)len;
}

void syslog_wait(int wait_ms)
{
    struct pollfd to = {.fd = sock, .events = POLLOUT};
    if (sock >= 0)
        (void)poll(&to, 1, wait_ms);
}

bool syslog_send(int priority, const char *text, size_t len)
{
    char line[LINE_SIZE];
    size_t head = make_head(priority, line, sizeof line);
    if (!connected)
        return false;
    if (len > sizeof line - head)
        len = sizeof line - head;
    memcpy(line + head, text, len);
    ssize_t sent = write(sock, line, head + len);
    if (sent < 0 && errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM && errno != EMSGSIZE)
        connected = false;
    return sent >= 0;
}
