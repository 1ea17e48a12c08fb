/*
 * unix_test.c - listening on unix sockets, and on inherited sockets: what no client sees. The rest
 * is in daemon-access.scn and activation.ctl.
 */
#include "net/listener.h"

#include "t/unit/net/toy.h"

#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>

/* ---- helpers --------------------------------------------------------------------------------- */

static char folder[64], path[96];

/* Makes a folder for the test's sockets, and the path of one in it. */
static void make_folder(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof(folder), "%s/unix.XXXXXX", base ? base : "/tmp");
    ck_assert(mkdtemp(folder) != NULL);
    snprintf(path, sizeof(path), "%s/text.sock", folder);
}

static struct sockaddr_un address_of(const char *name)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    memcpy(sa.sun_path, name, strlen(name));
    return sa;
}

static int listening(int family, int type, const void *sa, socklen_t len)
{
    int fd = socket(family, type, 0);
    ck_assert(fd >= 0 && bind(fd, sa, len) == 0 && listen(fd, 1) == 0);
    return fd;
}

static struct protocol protocol = {.row = &toy_row};

TEST(server_with_a_full_queue_is_left)
{
    struct listener l;
    int clients[64], count = 0;
    make_folder();
    struct sockaddr_un sa = address_of(path);
    int fd = listening(AF_UNIX, SOCK_STREAM, &sa, sizeof(sa));
    for (; count < 64; count++) {
        clients[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (connect(clients[count], (struct sockaddr *)&sa, sizeof(sa)) != 0)
            break;
    }
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert(!listener_open_unix(&l, &protocol, path, 0600));
    ck_assert_int_eq(errno, EADDRINUSE);
    ck_assert_int_eq(l.fd, -1);
    listener_close(&l);
    for (int i = 0; i <= count; i++)
        close(clients[i]);
    close(fd);
    ck_assert(unlink(path) == 0 && rmdir(folder) == 0);
}

TEST(longest_path_possible_is_listened_on)
{
    struct listener l;
    char longest[109];
    make_folder();
    memset(longest, 'x', sizeof(longest));
    longest[108] = '\0';
    memcpy(longest, folder, strlen(folder));
    longest[strlen(folder)] = '/';
    ck_assert(!listener_open_unix(&l, &protocol, longest, 0600));
    ck_assert_int_eq(errno, ENAMETOOLONG);
    longest[107] = '\0';
    ck_assert(listener_open_unix(&l, &protocol, longest, 0600));
    ck_assert_str_eq(l.where, longest);
    listener_close(&l);
    listener_close(&l);
    ck_assert(rmdir(folder) == 0);
}

TEST(stale_socket_needs_a_descriptor_more)
{
    struct listener l;
    struct rlimit limit;
    make_folder();
    struct sockaddr_un sa = address_of(path);
    close(listening(AF_UNIX, SOCK_STREAM, &sa, sizeof(sa)));
    ck_assert(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    rlim_t most = limit.rlim_cur;
    int next = dup(STDERR_FILENO);
    close(next);
    limit.rlim_cur = (rlim_t)next + 1; /* for the socket itself */
    ck_assert(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    ck_assert(!listener_open_unix(&l, &protocol, path, 0600));
    ck_assert_int_eq(errno, EMFILE);
    limit.rlim_cur = most;
    ck_assert(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    ck_assert(listener_open_unix(&l, &protocol, path, 0600));
    listener_close(&l);
    ck_assert(rmdir(folder) == 0);
}

/* ---- inherited sockets ----------------------------------------------------------------------- */

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof(value);
    CHECK(getsockopt(fd, level, name, &value, &len) == 0);
    return value;
}

TEST(adopted_tcp_socket_gets_what_clients_rely_on)
{
    struct sockaddr_in in = loopback(0);
    int fd = listening(AF_INET, SOCK_STREAM, &in, sizeof(in));
    struct listener l;
    ck_assert(listener_adopt(&l, &protocol, fd, true));
    ck_assert(l.fd == fd && l.tls && !l.local && !l.own_file);
    ck_assert_int_eq(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
    ck_assert_int_eq(option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    ck_assert_int_eq(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 15);
    ck_assert_int_eq(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 30000);
    ck_assert(fcntl(fd, F_GETFL) & O_NONBLOCK);
    ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    listener_close(&l);
    ck_assert(fcntl(fd, F_GETFD) < 0);
}

TEST(what_does_not_listen_for_streams_is_not_adopted_and_its_owner_keeps_it)
{
    struct listener l;
    make_folder();
    struct sockaddr_un sa = address_of(path);
    int fd = listening(AF_UNIX, SOCK_SEQPACKET, &sa, sizeof(sa));
    int silent = socket(AF_INET, SOCK_STREAM, 0);
    for (int i = 0; i < 2; i++) {
        ck_assert(!listener_adopt(&l, &protocol, i ? silent : fd, false));
        ck_assert_int_eq(errno, EINVAL);
        ck_assert_int_eq(l.fd, -1);
        listener_close(&l);
    }
    ck_assert(close(silent) == 0 && close(fd) == 0 && unlink(path) == 0 && rmdir(folder) == 0);
}

UNIT_MAIN("net/unix")
