/*
 * serve.c - the engine in memory as a server on a unix socket, for stories of the scripts.
 *
 *     serve PATH PREFIX
 *
 * It prints a dot when it listens, and ends with its standard input. One thread.
 */
#include "t/campaigns/cluster/engine.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PEERS_MAX = 64, PIECE = 65536 };

static struct peer {
    int fd;
    struct fake_link *link;
} peers[PEERS_MAX];
static size_t peer_count;

static _Noreturn void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void drop(size_t at)
{
    fake_engine_hang_up(peers[at].link);
    close(peers[at].fd);
    peers[at] = peers[--peer_count];
}

/* Writes what the engine sent. A client that is gone is noticed as it is read. */
static void flush(const struct peer *peer)
{
    size_t len;
    const char *bytes = fake_engine_output(peer->link, &len);
    while (len > 0) {
        ssize_t n = send(peer->fd, bytes, len, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            n = (ssize_t)len;
        fake_engine_took(peer->link, n > 0 ? (size_t)n : 0);
        bytes = fake_engine_output(peer->link, &len);
    }
}

static void read_peer(size_t at)
{
    static char piece[PIECE];
    ssize_t n = recv(peers[at].fd, piece, sizeof(piece), 0);
    if (n > 0)
        fake_engine_feed(peers[at].link, piece, (size_t)n);
    else
        drop(at);
}

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || strlen(path) >= sizeof(address.sun_path))
        fail(path);
    strcpy(address.sun_path, path);
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 64) != 0)
        fail(path);
    return fd;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: serve PATH PREFIX\n", stderr);
        return 2;
    }
    struct fake_engine *engine = fake_engine_new(argv[2], 1);
    int listener = listen_at(argv[1]);
    puts(".");
    fflush(stdout);
    for (;;) {
        struct pollfd fds[PEERS_MAX + 2] = {{STDIN_FILENO, POLLIN, 0}, {listener, POLLIN, 0}};
        size_t polled = peer_count;
        for (size_t n = 0; n < polled; n++)
            fds[n + 2] = (struct pollfd){peers[n].fd, POLLIN, 0};
        if (poll(fds, polled + 2, -1) < 0 && errno != EINTR)
            fail("poll");
        if (fds[0].revents)
            break;
        for (size_t n = polled; n-- > 0;) { /* the last first, as `drop` moves the last one */
            if (fds[n + 2].revents)
                read_peer(n);
        }
        for (size_t n = 0; n < peer_count; n++)
            flush(&peers[n]);
        if (fds[1].revents) {
            int fd = accept(listener, NULL, NULL);
            if (fd < 0 || peer_count == PEERS_MAX)
                fail("accept");
            peers[peer_count++] = (struct peer){fd, fake_engine_connect(engine)};
        }
    }
    while (peer_count > 0)
        drop(0);
    fake_engine_free(engine);
    close(listener);
    unlink(argv[1]);
    return 0;
}
