/*
 * floor.c - the bare server that all others are compared with.
 *
 * usage: floor [-p PORT] [-m echo|words-text|words-binary] [-w WORKERS]
 *
 * It does only what every TCP server must do for a request: wait, receive, send. It counts nothing.
 * `echo` sends back what it received. `words-text` answers LOCKED to a line that begins with A and
 * RELEASED to one that begins with R. `words-binary` answers Acquire and Release with a frame of
 * success that has the request's opaque. One send answers all requests of one read. So the
 * difference between a server and this one is what that server adds to the kernel's work.
 *
 * It uses level-triggered epoll and one system call for each thing, as plainly as possible. Each
 * worker is a thread with its own epoll; all watch one listening socket, and a connection stays
 * with the worker that accepted it. It prints "listening on 127.0.0.1:PORT" when clients may
 * connect; SIGTERM ends it.
 */
#include "proto/wire.h"

#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define WORKERS_MAX 64
#define EVENTS      256
#define ROOM        65536 /* bytes read at once */
#define PATIENCE    2000  /* milliseconds that a client may take to read its answers */

#define FRAME_HEADER 12
#define FRAME_MAGIC  0x91
#define OP_ACQUIRE   0x02

/* The incomplete request of a connection. */
struct half {
    size_t have;                  /* bytes of its header, or 1 inside a line */
    size_t skip;                  /* missing bytes of its body */
    uint8_t header[FRAME_HEADER]; /* words-binary */
};

/* Answers `len` bytes of requests at `in` by writing to `out`. Returns the number of bytes written.
 */
typedef size_t answer_fn(struct half *half, const uint8_t *in, size_t len, uint8_t *out);

struct mode {
    const char *name;
    answer_fn *answer; /* NULL: echo */
};

static const struct mode *mode;
static int listener;
static struct half *halves; /* by descriptor; only the worker of a connection touches its entry */

static _Noreturn void fail(const char *what)
{
    perror(what);
    _exit(1);
}

static size_t answer_text(struct half *half, const uint8_t *in, size_t len, uint8_t *out)
{
    static const char locked[] = "LOCKED\n", released[] = "RELEASED\n";
    const uint8_t *end = in + len;
    uint8_t *to = out;
    while (in < end) {
        if (half->have == 0) {
            const char *word = *in == 'A' ? locked : released;
            size_t size = *in == 'A' ? sizeof locked - 1 : sizeof released - 1;
            memcpy(to, word, size);
            to += size;
        }
        const uint8_t *stop = memchr(in, '\n', (size_t)(end - in));
        half->have = stop == NULL;
        in = stop ? stop + 1 : end;
    }
    return (size_t)(to - out);
}

static uint8_t *put_frame(uint8_t *to, const uint8_t *header)
{
    bool acquires = header[1] == OP_ACQUIRE;
    uint32_t body = acquires ? 4 : 0;
    *to++ = FRAME_MAGIC;
    *to++ = header[1];
    *to++ = 0;
    *to++ = 0;
    to = wire_store_u32(to, body);
    memcpy(to, header + 8, 4);
    to += 4;
    return acquires ? wire_store_u32(to, 1) : to;
}

static size_t answer_binary(struct half *half, const uint8_t *in, size_t len, uint8_t *out)
{
    uint8_t *to = out;
    while (len > 0) {
        if (half->skip > 0) {
            size_t n = half->skip < len ? half->skip : len;
            half->skip -= n;
            in += n;
            len -= n;
            continue;
        }
        size_t n = FRAME_HEADER - half->have < len ? FRAME_HEADER - half->have : len;
        memcpy(half->header + half->have, in, n);
        half->have += n;
        in += n;
        len -= n;
        if (half->have == FRAME_HEADER) {
            half->have = 0;
            half->skip = wire_load_u32(half->header + 4);
            to = put_frame(to, half->header);
        }
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
    if (stays && mode->answer == NULL)
        stays = send_all(fd, in, (size_t)got);
    else if (stays)
        stays = send_all(fd, out, mode->answer(&halves[fd], in, (size_t)got, out));
    if (!stays)
        close(fd);
}

static void take(int epoll)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return; /* another worker accepted it, or the client has gone */
    halves[fd] = (struct half){0};
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        close(fd);
}

static void *work(void *unused)
{
    (void)unused;
    /* The shortest request is an empty line, the longest answer RELEASED with its line end. */
    uint8_t *in = malloc(ROOM), *out = malloc((size_t)ROOM * 9);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE, .data.fd = listener};
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

static void end(int signal_number)
{
    (void)signal_number;
    _exit(0);
}

/* Raises the limit of descriptors to the maximum, and allocates the state for each. */
static void make_room(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        fail("getrlimit");
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        fail("setrlimit");
    halves = calloc(limit.rlim_cur, sizeof *halves);
    if (!halves)
        fail("calloc");
}

static void listen_on(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int on = 1;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* Connections inherit TCP_NODELAY from their listener. */
    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
        bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, SOMAXCONN) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0)
        fail("floor: listening");
    printf("listening on 127.0.0.1:%u\n", (unsigned)ntohs(address.sin_port));
    fflush(stdout);
}

static const struct mode *find_mode(const char *name)
{
    static const struct mode modes[] = {
        {"echo", NULL}, {"words-text", answer_text}, {"words-binary", answer_binary}};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(modes[i].name, name) == 0)
            return &modes[i];
    return NULL;
}

/* Parses a number; -1 when it is none or above `max`. */
static long number(const char *text, long max)
{
    char *stop;
    errno = 0;
    long n = strtol(text, &stop, 10);
    return errno != 0 || *stop != '\0' || stop == text || n < 0 || n > max ? -1 : n;
}

int main(int argc, char **argv)
{
    long port = 0, workers = 1;
    bool is_used_well = true;
    mode = find_mode("echo");
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread yet */
    for (int option; (option = getopt(argc, argv, "p:m:w:")) != -1;) {
        if (option == 'p')
            port = number(optarg, UINT16_MAX);
        else if (option == 'm')
            mode = find_mode(optarg);
        else if (option == 'w')
            workers = number(optarg, WORKERS_MAX);
        else
            is_used_well = false;
    }
    if (!is_used_well || optind != argc || port < 0 || workers < 1 || !mode) {
        fputs("usage: floor [-p PORT] [-m echo|words-text|words-binary] [-w WORKERS]\n", stderr);
        return 2;
    }
    signal(SIGTERM, end);
    signal(SIGINT, end);
    make_room();
    listen_on((uint16_t)port);
    for (long i = 1; i < workers; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, NULL) != 0)
            fail("pthread_create");
    }
    work(NULL);
}
