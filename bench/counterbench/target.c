/* target.c - the server's address (target.h). */
#include "bench/counterbench/target.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

static void set_unix(struct target *target, const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t len = strlen(path), is_abstract = path[0] == '@';
    memcpy(to.sun_path + is_abstract, path + is_abstract, len - is_abstract);
    memcpy(&target->to, &to, sizeof to);
    /* A path has a NUL at its end, an abstract name has one in place of the '@'. */
    target->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1 - is_abstract);
}

static bool look_up(struct target *target, const struct server *server, uint16_t port,
                    char *reason_r)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *list = NULL;
    char service[8];
    snprintf(service, sizeof service, "%u", server->port ? server->port : port);
    int error = getaddrinfo(server->place, service, &hints, &list);
    if (error) {
        snprintf(reason_r, TARGET_REASON_SIZE, "%s: %s", server->place, gai_strerror(error));
        return false;
    }
    memcpy(&target->to, list->ai_addr, list->ai_addrlen);
    target->len = list->ai_addrlen;
    freeaddrinfo(list);
    struct sockaddr_in v4;
    memcpy(&v4, &target->to, sizeof v4);
    target->is_loopback = v4.sin_family == AF_INET && ntohl(v4.sin_addr.s_addr) >> 24 == 127;
    memcpy(target->host, server->place, sizeof target->host);
    return true;
}

bool target_find(struct target *target, const char *text, uint16_t port, char *reason_r)
{
    *target = (struct target){0};
    struct server server;
    struct text reason = {0};
    char path[sizeof server.place + 8];
    if (text[0] == '/') {
        snprintf(path, sizeof path, "unix:%s", text);
        text = path;
    }
    bool good = server_parse(text, &server, &reason);
    snprintf(reason_r, TARGET_REASON_SIZE, "%s", text_str(&reason));
    text_free(&reason);
    if (!good)
        return false;
    server_text(&server, port, target->text);
    if (server.is_unix) {
        set_unix(target, server.place);
        return true;
    }
    return look_up(target, &server, port, reason_r);
}

/* Binds a socket to one of our addresses; the kernel chooses the port when it connects. */
static bool come_from(int fd, uint64_t source)
{
    int on = 1;
    uint32_t host = UINT32_C(0x7f000001) + (uint32_t)(source % TARGET_SOURCES);
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(host)};
    return setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on) == 0 &&
           bind(fd, (struct sockaddr *)&from, sizeof from) == 0;
}

int target_connect(const struct target *target, uint64_t source)
{
    int fd = socket(target->to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    int on = 1;
    bool good = target->to.ss_family == AF_UNIX ||
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0;
    if (good && target->is_loopback && source > 0)
        good = come_from(fd, source);
    if (good && (connect(fd, (const struct sockaddr *)&target->to, target->len) == 0 ||
                 errno == EINPROGRESS))
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}
