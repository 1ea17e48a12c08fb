/*
 * serve.c - the engine in memory as a server on a unix socket, for tests that compare it
 * with Redis.
 *
 *     serve PATH PREFIX SEED
 *
 * Reads lines from the standard input and answers each; the answer ends with a line that has only a
 * dot: contents, check, misuse, term, term again, restart, restart empty, flush, trouble NUMBER,
 * forbid [COMMAND], version NUMBER, forget, keep NUMBER, promote NUMBER (a copy that lacks so many
 * writes takes over). It prints a dot when it listens, and ends with its input. One thread.
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

enum { PEERS_MAX = 256, PIECE = 65536 };

struct peer {
    int fd;
    struct fake_link *link;
};

static struct peer peers[PEERS_MAX];
static size_t peer_count;
static struct fake_engine *engine;

static _Noreturn void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; /* the client is gone, which its read says */
        bytes += n;
        len -= (size_t)n;
    }
}

static void drop(size_t at)
{
    fake_engine_hang_up(peers[at].link);
    close(peers[at].fd);
    peers[at] = peers[--peer_count];
}

/* Writes what the engine sent to anybody, and closes what it closed. */
static void flush_all(void)
{
    for (size_t n = 0; n < peer_count;) {
        size_t len;
        const char *bytes = fake_engine_output(peers[n].link, &len);
        write_all(peers[n].fd, bytes, len);
        fake_engine_took(peers[n].link, len);
        if (fake_engine_closed(peers[n].link))
            drop(n);
        else
            n++;
    }
}

static void promote(size_t lacks)
{
    struct fake_engine *copy = fake_engine_replica(engine, lacks, 2 + lacks);
    fake_engine_promote(copy);
    fake_engine_free(engine);
    engine = copy;
}

/* Carries out a line of the standard input that changes the engine. */
static void change(const char *line)
{
    unsigned long number = 0;
    if (strcmp(line, "restart") == 0)
        fake_engine_restart(engine, true);
    else if (strcmp(line, "restart empty") == 0)
        fake_engine_restart(engine, false);
    else if (strncmp(line, "wrong ", 6) == 0)
        fake_engine_wrong(engine, line + 6, true);
    else if (strncmp(line, "right ", 6) == 0)
        fake_engine_wrong(engine, line + 6, false);
    else if (strcmp(line, "flush") == 0)
        fake_engine_flush(engine);
    else if (strcmp(line, "term again") == 0)
        fake_engine_promote(engine);
    else if (strcmp(line, "forget") == 0)
        fake_engine_forget_scripts(engine);
    else if (strncmp(line, "forbid", 6) == 0)
        fake_engine_forbid(engine, line[6] ? line + 7 : NULL);
    else if (sscanf(line, "trouble %lu", &number) == 1)
        fake_engine_trouble(engine, (enum fake_trouble)number);
    else if (sscanf(line, "version %lu", &number) == 1)
        fake_engine_version(engine, number);
    else if (sscanf(line, "keep %lu", &number) == 1)
        fake_engine_keep(engine, number);
    else if (sscanf(line, "promote %lu", &number) == 1)
        promote(number);
    else
        puts("no such command");
}

static void obey(const char *line)
{
    if (strcmp(line, "contents") == 0) {
        char *text = fake_engine_contents(engine);
        fputs(text, stdout);
        free(text);
    } else if (strcmp(line, "check") == 0 || strcmp(line, "misuse") == 0) {
        const char *wrong = line[0] == 'c' ? fake_engine_check(engine) : fake_engine_misuse(engine);
        if (wrong)
            puts(wrong);
    } else if (strcmp(line, "term") == 0) {
        puts(fake_engine_term(engine));
    } else {
        change(line);
    }
    puts(".");
    fflush(stdout);
}

/* Reads commands. False at the end of the input. */
static bool read_lines(void)
{
    static char text[4096];
    static size_t len;
    ssize_t n = read(STDIN_FILENO, text + len, sizeof(text) - len);
    if (n <= 0)
        return false;
    len += (size_t)n;
    for (char *end; (end = memchr(text, '\n', len));) {
        *end = 0;
        obey(text);
        len -= (size_t)(end + 1 - text);
        memmove(text, end + 1, len);
    }
    return true;
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

static void accept_peer(int listener)
{
    int fd = accept(listener, NULL, NULL);
    if (fd < 0 || peer_count == PEERS_MAX)
        fail("accept");
    peers[peer_count++] = (struct peer){fd, fake_engine_connect(engine)};
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fputs("usage: serve PATH PREFIX SEED\n", stderr);
        return 2;
    }
    engine = fake_engine_new(argv[2], strtoull(argv[3], NULL, 10));
    int listener = listen_at(argv[1]);
    puts(".");
    fflush(stdout);
    for (bool more = true; more;) {
        struct pollfd fds[PEERS_MAX + 2] = {{STDIN_FILENO, POLLIN, 0}, {listener, POLLIN, 0}};
        size_t polled = peer_count;
        for (size_t n = 0; n < polled; n++)
            fds[n + 2] = (struct pollfd){peers[n].fd, POLLIN, 0};
        if (poll(fds, polled + 2, -1) < 0 && errno != EINTR)
            fail("poll");
        for (size_t n = polled; n-- > 0;) { /* the last first, as `drop` moves the last one */
            if (fds[n + 2].revents)
                read_peer(n);
        }
        if (fds[0].revents)
            more = read_lines();
        flush_all();
        if (fds[1].revents)
            accept_peer(listener);
    }
    while (peer_count > 0)
        drop(0);
    fake_engine_free(engine);
    close(listener);
    unlink(argv[1]);
    return 0;
}
