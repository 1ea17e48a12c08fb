/*
 * floor.c - the bare server that all others are compared with.
 *
 * usage: floor echo|words
 *
 * It does only what every TCP server must do for a request: wait, receive, send. It counts nothing.
 * `echo` sends back what it received. `words` answers LOCKED to a line that begins with A and
 * RELEASED to one that begins with R. One send answers all requests of one read. So the difference
 * between a server and this one is what that server adds to the kernel's work.
 *
 * It uses level-triggered epoll, one thread, and one system call for each thing, as plainly as
 * possible. It says "listening on 127.0.0.1:PORT" when clients may connect.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS   256
#define ROOM     65536 /* bytes read at once */
#define PATIENCE 2000  /* milliseconds that a client may take to read its answers */

static bool has_words;
static int listener;

static _Noreturn void fail(const char *what)
{
    perror(what);
    _exit(1);
}

/* Answers the lines of `len` bytes at `in` by writing to `out`. Returns the number of bytes
   written. A line comes whole: clients send one with each packet. */
static size_t answer(const uint8_t *in, size_t len, uint8_t *out)
{
    static const char locked[] = "LOCKED\n", released[] = "RELEASED\n";
    const uint8_t *end = in + len;
    uint8_t *to = out;
    while (in < end) {
        const char *word = *in == 'A' ? locked : released;
        size_t size = *in == 'A' ? sizeof locked - 1 : sizeof released - 1;
        memcpy(to, word, size);
        to += size;
        const uint8_t *stop = memchr(in, '\n', (size_t)(end - in));
        in = stop ? stop + 1 : end;
    }
    return (size_t)(to - out);
}

/* Sends all. Returns false when the client has gone or does not read. */
static bool send_all(int fd, const uint8_t *data, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(fd, data, len, MSG_NOSIGNAL);
        if (sent >= 0) {
            data += sent;
            len -= (size_t)sent;
        } else if (errno == EAGAIN) {
            struct pollfd p = {.fd = fd, .events = POLLOUT};
            if (poll(&p, 1, PATIENCE) <= 0)
                return false;
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* Reads once and answers. `out` has room for the answers to ROOM bytes. */
static void serve(int fd, uint8_t *in, uint8_t *out)
{
    ssize_t got = recv(fd, in, ROOM, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    bool stays = got > 0;
    if (stays && has_words)
        stays = send_all(fd, out, answer(in, (size_t)got, out));
    else if (stays)
        stays = send_all(fd, in, (size_t)got);
    if (!stays)
        close(fd);
}

static void take(int epoll)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return; /* the client has gone */
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        close(fd);
}

static _Noreturn void work(void)
{
    /* The shortest request is an empty line, the longest answer RELEASED with its line end. */
    uint8_t *in = malloc(ROOM), *out = malloc((size_t)ROOM * 9);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
    if (!in || !out || epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) != 0)
        fail("floor");
    for (;;) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == listener)
                take(epoll);
            else
                serve(events[i].data.fd, in, out);
        }
    }
}

/* Raises the limit of descriptors to the maximum. */
static void make_room(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        fail("getrlimit");
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        fail("setrlimit");
}

static void listen_anywhere(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int on = 1;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* Connections inherit TCP_NODELAY from their listener. */
    if (listener < 0 || setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
        bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, SOMAXCONN) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0)
        fail("floor: listening");
    fprintf(stderr, "listening on 127.0.0.1:%u\n", (unsigned)ntohs(address.sin_port));
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fputs("usage: floor echo|words\n", stderr);
        return 2;
    }
    has_words = strcmp(argv[1], "words") == 0;
    make_room();
    listen_anywhere();
    work();
}
