/* unix_test.c - listening on unix sockets, and on inherited sockets. */
#include "net/listener.h"

#include "t/unit/net/toy.h"

#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>

/* ---- helpers ------------------------------------------------------------------------------- */

static char folder[64], path[96];

/* Makes a folder for the test's sockets, and the path of one in it. */
static void make_folder(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof(folder), "%s/unix.XXXXXX", base ? base : "/tmp");
    ck_assert(mkdtemp(folder) != NULL);
    snprintf(path, sizeof(path), "%s/text.sock", folder);
}

static void remove_folder(void)
{
    ck_assert_msg(rmdir(folder) == 0, "%s: %s", folder, strerror(errno));
}

static socklen_t unix_address(const char *name, struct sockaddr_un *sa)
{
    *sa = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t len = strlen(name);
    memcpy(sa->sun_path, name, len);
    if (name[0] == '@')
        sa->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (name[0] != '@'));
}

/* Connects a client; -1 with errno. */
static int connect_unix(const char *name)
{
    struct sockaddr_un sa;
    socklen_t len = unix_address(name, &sa);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert(fd >= 0);
    if (connect(fd, (struct sockaddr *)&sa, len) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static mode_t mode_of(const char *name)
{
    struct stat st;
    ck_assert_msg(lstat(name, &st) == 0, "%s: %s", name, strerror(errno));
    return st.st_mode;
}

static bool exists(const char *name)
{
    struct stat st;
    return lstat(name, &st) == 0;
}

static struct protocol protocol = {.row = &toy_row};

static void expect_failure(const char *name, int error)
{
    struct listener l;
    errno = 0;
    ck_assert_msg(!listener_open_unix(&l, &protocol, name, 0600), "%s", name);
    ck_assert_msg(errno == error, "%s, not %s", strerror(errno), strerror(error));
    ck_assert_int_eq(l.fd, -1);
    listener_close(&l);
}

/* ---- unix sockets --------------------------------------------------------------------------- */

TEST(file_has_the_mode_whatever_the_umask)
{
    static const struct {
        mode_t mask;
        unsigned mode;
    } rows[] = {{0, 0600}, {0, 0666}, {077, 0666}, {0777, 0660}, {022, 0}, {022, 0777}};
    make_folder();
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct listener l;
        mode_t before = umask(rows[i].mask);
        ck_assert(listener_open_unix(&l, &protocol, path, rows[i].mode));
        ck_assert_uint_eq(umask(before), rows[i].mask); /* the umask is unchanged */
        ck_assert_uint_eq(mode_of(path), S_IFSOCK | rows[i].mode);
        ck_assert_str_eq(l.where, path);
        ck_assert(l.local && !l.tls);
        ck_assert_ptr_eq(l.protocol, &protocol);
        ck_assert(fcntl(l.fd, F_GETFL) & O_NONBLOCK);
        ck_assert(fcntl(l.fd, F_GETFD) & FD_CLOEXEC);
        listener_close(&l);
        ck_assert_int_eq(l.fd, -1);
        ck_assert(!exists(path));
        listener_close(&l);
    }
    remove_folder();
}

TEST(server_with_a_full_queue_is_left)
{
    struct sockaddr_un sa;
    int clients[64], count = 0;
    make_folder();
    socklen_t len = unix_address(path, &sa);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert(fd >= 0 && bind(fd, (struct sockaddr *)&sa, len) == 0 && listen(fd, 1) == 0);
    for (; count < 64; count++) {
        clients[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (connect(clients[count], (struct sockaddr *)&sa, len) != 0)
            break;
    }
    ck_assert_int_eq(errno, EAGAIN);
    expect_failure(path, EADDRINUSE);
    for (int i = 0; i <= count; i++)
        close(clients[i]);
    close(fd);
    ck_assert(unlink(path) == 0);
    remove_folder();
}

TEST(paths_that_can_not_be_are_errors)
{
    char longest[200], name[128];
    make_folder();
    memset(longest, 'x', sizeof(longest));
    memcpy(longest, folder, strlen(folder));
    longest[strlen(folder)] = '/';
    longest[108] = '\0';
    expect_failure(longest, ENAMETOOLONG);
    longest[0] = '@';
    expect_failure(longest, ENAMETOOLONG);
    longest[0] = folder[0];
    longest[107] = '\0';
    struct listener l;
    ck_assert(listener_open_unix(&l, &protocol, longest, 0600)); /* the longest path possible */
    ck_assert_str_eq(l.where, longest);
    int client = connect_unix(longest);
    ck_assert_int_ge(client, 0);
    close(client);
    listener_close(&l);
    ck_assert(!exists(longest));
    expect_failure("", EINVAL);
    expect_failure("@", EINVAL);
    snprintf(name, sizeof(name), "%s/no/such/folder", folder);
    expect_failure(name, ENOENT);
    remove_folder();
}

TEST(file_that_has_become_anothers_is_not_unlinked)
{
    struct listener first, second;
    make_folder();
    ck_assert(listener_open_unix(&first, &protocol, path, 0600));
    ck_assert(unlink(path) == 0);
    ck_assert(listener_open_unix(&second, &protocol, path, 0600));
    listener_close(&first);
    ck_assert(exists(path));
    int client = connect_unix(path);
    ck_assert_int_ge(client, 0);
    close(client);
    ck_assert(unlink(path) == 0);
    listener_close(&second); /* its file is gone already */
    remove_folder();
}

/* ---- inherited sockets ---------------------------------------------------------------------- */

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof(value);
    CHECK(getsockopt(fd, level, name, &value, &len) == 0);
    return value;
}

static int listening(int family, const struct sockaddr *sa, socklen_t len)
{
    int fd = socket(family, SOCK_STREAM, 0);
    ck_assert(fd >= 0 && bind(fd, sa, len) == 0 && listen(fd, 5) == 0);
    return fd;
}

TEST(adopted_tcp_socket_gets_what_clients_rely_on)
{
    struct sockaddr_in in = loopback(0);
    socklen_t len = sizeof(in);
    for (int tls = 0; tls < 2; tls++) {
        int fd = listening(AF_INET, (struct sockaddr *)&in, sizeof(in));
        struct listener l;
        struct sockaddr_in bound;
        char where[64];
        ck_assert(getsockname(fd, (struct sockaddr *)&bound, &len) == 0);
        ck_assert(listener_adopt(&l, &protocol, fd, tls));
        ck_assert_int_eq(l.fd, fd);
        ck_assert(l.tls == tls && !l.local && !l.own_file);
        snprintf(where, sizeof(where), "127.0.0.1:%u", ntohs(bound.sin_port));
        ck_assert_str_eq(l.where, where);
        ck_assert_int_eq(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
        ck_assert_int_eq(option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
        ck_assert_int_eq(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 15);
        ck_assert_int_eq(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 30000);
        ck_assert(fcntl(fd, F_GETFL) & O_NONBLOCK);
        ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        listener_close(&l);
        ck_assert(fcntl(fd, F_GETFD) < 0);
    }
}

TEST(adopted_unix_socket_keeps_its_file)
{
    struct sockaddr_un sa;
    struct listener l;
    char name[64];
    make_folder();
    socklen_t len = unix_address(path, &sa);
    int fd = listening(AF_UNIX, (struct sockaddr *)&sa, len);
    ck_assert(listener_adopt(&l, &protocol, fd, false));
    ck_assert_str_eq(l.where, path);
    ck_assert(l.local);
    ck_assert(fcntl(fd, F_GETFL) & O_NONBLOCK);
    listener_close(&l);
    ck_assert(exists(path) && unlink(path) == 0);
    remove_folder();
    snprintf(name, sizeof(name), "@counterd-adopted-%ld", (long)getpid());
    len = unix_address(name, &sa);
    fd = listening(AF_UNIX, (struct sockaddr *)&sa, len);
    ck_assert(listener_adopt(&l, &protocol, fd, false));
    ck_assert_str_eq(l.where, name);
    listener_close(&l);
}

TEST(what_does_not_listen_is_not_adopted)
{
    struct listener l;
    int fds[4], pair[2];
    ck_assert(pipe(fds) == 0);
    ck_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    fds[2] = socket(AF_INET, SOCK_STREAM, 0);
    fds[3] = socket(AF_INET, SOCK_DGRAM, 0);
    const struct {
        int fd, error;
    } rows[] = {{fds[0], ENOTSOCK}, {pair[0], EINVAL}, {fds[2], EINVAL},
                {fds[3], EINVAL},   {-1, EBADF},       {1000000, EBADF}};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        errno = 0;
        ck_assert(!listener_adopt(&l, &protocol, rows[i].fd, false));
        ck_assert_msg(errno == rows[i].error, "row %zu: %s", i, strerror(errno));
        ck_assert_int_eq(l.fd, -1);
        listener_close(&l);
        /* The caller keeps it. */
        ck_assert(rows[i].error == EBADF || fcntl(rows[i].fd, F_GETFD) >= 0);
    }
    struct sockaddr_un sa;
    char name[64];
    snprintf(name, sizeof(name), "@counterd-packets-%ld", (long)getpid());
    socklen_t len = unix_address(name, &sa);
    int packets = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    ck_assert(bind(packets, (struct sockaddr *)&sa, len) == 0 && listen(packets, 1) == 0);
    ck_assert(!listener_adopt(&l, &protocol, packets, false));
    ck_assert_int_eq(errno, EINVAL);
    close(packets);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    close(pair[0]);
    close(pair[1]);
}

UNIT_MAIN("net/unix")
