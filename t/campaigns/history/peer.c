/* peer.c - see peer.h. */
#include "t/campaigns/history/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define HEADER 12

static bool fail(struct peer *peer, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool fail(struct peer *peer, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(peer->error, sizeof(peer->error), format, args);
    va_end(args);
    return false;
}

/* ---- time, numbers ------------------------------------------------------------------------- */

int64_t peer_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static struct timespec timespec_of(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

void peer_pause_ns(int64_t ns)
{
    struct timespec t = timespec_of(ns);
    nanosleep(&t, NULL);
}

bool peer_number(const char *word, uint64_t max, uint64_t *number_r)
{
    char *end = NULL;
    errno = 0;
    *number_r = strtoull(word, &end, 10);
    return errno == 0 && *word >= '0' && *word <= '9' && *end == '\0' && *number_r <= max;
}

/* splitmix64 */
uint32_t peer_below(uint64_t *random, uint32_t limit)
{
    uint64_t z = (*random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (uint32_t)(z % limit);
}

bool peer_server_parse(char *const *words, struct peer_server *server_r)
{
    uint64_t text, binary;
    if (inet_pton(AF_INET, words[0], &server_r->host) != 1 ||
        !peer_number(words[1], UINT16_MAX, &text) || !peer_number(words[2], UINT16_MAX, &binary))
        return false;
    server_r->text_port = (uint16_t)text;
    server_r->binary_port = (uint16_t)binary;
    return true;
}

/* ---- connections --------------------------------------------------------------------------- */

static bool try_connect(struct peer *peer, const struct sockaddr_in *to, struct in_addr from)
{
    struct sockaddr_in source = {.sin_family = AF_INET, .sin_addr = from};
    struct timeval silent = {.tv_sec = PEER_SILENT};
    int on = 1;
    peer->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (peer->fd < 0)
        return fail(peer, "socket: %s", strerrordesc_np(errno));
    setsockopt(peer->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(peer->fd, SOL_SOCKET, SO_RCVTIMEO, &silent, sizeof(silent));
    setsockopt(peer->fd, SOL_SOCKET, SO_SNDTIMEO, &silent, sizeof(silent));
    if (bind(peer->fd, (struct sockaddr *)&source, sizeof(source)) == 0 &&
        connect(peer->fd, (const struct sockaddr *)to, sizeof(*to)) == 0)
        return true;
    int error = errno;
    close(peer->fd);
    peer->fd = -1;
    errno = error;
    return fail(peer, "connecting: %s", strerrordesc_np(error));
}

bool peer_connect(struct peer *peer, const struct peer_server *server, bool text, unsigned number)
{
    bool loopback = ntohl(server->host.s_addr) >> 24 == 127;
    struct sockaddr_in to = {
        .sin_family = AF_INET,
        .sin_addr = server->host,
        .sin_port = htons(text ? server->text_port : server->binary_port),
    };
    struct in_addr from = {.s_addr = loopback ? htonl(0x7f4d0001u + number) : INADDR_ANY};
    peer->have = 0;
    peer->asked = peer->answered = 0;
    peer->error[0] = '\0';
    for (unsigned i = 0; i < 1000; i++) {
        if (try_connect(peer, &to, from))
            return true;
        if (errno != EADDRNOTAVAIL && errno != EADDRINUSE)
            return false;
        peer_pause_ns(10000000);
    }
    return false;
}

void peer_close(struct peer *peer)
{
    if (peer->fd >= 0)
        close(peer->fd);
    peer->fd = -1;
}

void peer_reset(struct peer *peer)
{
    struct linger hard = {.l_onoff = 1, .l_linger = 0};
    setsockopt(peer->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    peer_close(peer);
}

bool peer_half_close(struct peer *peer, bool *said_r)
{
    char rest[PEER_LINE];
    ssize_t got;
    bool said = peer->have > 0;
    shutdown(peer->fd, SHUT_WR);
    do {
        got = recv(peer->fd, rest, sizeof(rest), 0);
        said = said || got > 0;
    } while (got > 0 || (got < 0 && errno == EINTR));
    bool over = got == 0 || errno == ECONNRESET;
    if (said_r)
        *said_r = said;
    if (!over)
        fail(peer, "after a half-close: %s", strerrordesc_np(errno));
    peer_close(peer);
    return over;
}

/* ---- bytes --------------------------------------------------------------------------------- */

bool peer_send(struct peer *peer, const void *data, size_t len)
{
    const char *at = data;
    while (len > 0) {
        ssize_t sent = send(peer->fd, at, len, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return fail(peer, "sending: %s", strerrordesc_np(errno));
        at += sent;
        len -= (size_t)sent;
    }
    return true;
}

bool peer_is_ready(const struct peer *peer, int64_t wait_ns)
{
    struct pollfd fd = {.fd = peer->fd, .events = POLLIN};
    struct timespec wait = timespec_of(wait_ns);
    return peer->have > 0 || ppoll(&fd, 1, &wait, NULL) > 0;
}

/* Reads until `want` bytes are there. */
static bool fill(struct peer *peer, size_t want)
{
    while (peer->have < want) {
        ssize_t got =
            recv(peer->fd, peer->buffer + peer->have, sizeof(peer->buffer) - peer->have, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return fail(peer, "no answer: %s", got == 0 ? "closed" : strerrordesc_np(errno));
        peer->have += (size_t)got;
    }
    return true;
}

static void drop(struct peer *peer, size_t len)
{
    peer->have -= len;
    memmove(peer->buffer, peer->buffer + len, peer->have);
}

bool peer_line(struct peer *peer, char *line)
{
    const char *end;
    while ((end = memchr(peer->buffer, '\n', peer->have)) == NULL) {
        if (peer->have >= PEER_LINE)
            return fail(peer, "a line without an end");
        if (!fill(peer, peer->have + 1))
            return false;
    }
    size_t len = (size_t)(end - peer->buffer);
    if (len >= PEER_LINE)
        return fail(peer, "a line of %zu bytes", len);
    memcpy(line, peer->buffer, len);
    line[len] = '\0';
    drop(peer, len + 1);
    return true;
}

/* ---- the binary protocol ------------------------------------------------------------------- */

static unsigned char *put16(unsigned char *to, uint32_t value)
{
    to[0] = (unsigned char)(value >> 8);
    to[1] = (unsigned char)value;
    return to + 2;
}

static unsigned char *put32(unsigned char *to, uint32_t value)
{
    return put16(put16(to, value >> 16), value);
}

static uint32_t get32(const char *from)
{
    unsigned char bytes[4];
    memcpy(bytes, from, sizeof(bytes));
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

size_t peer_compose(struct peer *peer, enum peer_opcode opcode, const char *name, uint32_t units,
                    uint32_t limit, unsigned char *to)
{
    size_t name_len = strlen(name);
    unsigned char *at = to + HEADER;
    if (opcode != PEER_GET)
        at = put32(at, units);
    if (opcode == PEER_ACQUIRE)
        at = put32(at, limit);
    at = put16(at, (uint32_t)name_len);
    memcpy(at, name, name_len);
    at += name_len;
    memset(to, 0, HEADER);
    to[0] = 0x90;
    to[1] = (unsigned char)opcode;
    put32(to + 4, (uint32_t)(at - to - HEADER));
    put32(to + 8, ++peer->asked);
    return (size_t)(at - to);
}

bool peer_answer(struct peer *peer, enum peer_opcode opcode, unsigned *status_r, uint32_t *number_r)
{
    if (!fill(peer, HEADER))
        return false;
    const char *b = peer->buffer;
    uint32_t body = get32(b + 4);
    if ((unsigned char)b[0] != 0x91 || b[1] != (char)opcode || b[3] != 0 ||
        get32(b + 8) != ++peer->answered || body > 64)
        return fail(peer, "no answer to %u is header %08x, body %u, opaque %u", peer->answered,
                    get32(b), body, get32(b + 8));
    if (!fill(peer, HEADER + body))
        return false;
    *status_r = (unsigned char)b[2];
    *number_r = body == 4 ? get32(b + HEADER) : 0;
    drop(peer, HEADER + body);
    return true;
}

bool peer_ask(struct peer *peer, enum peer_opcode opcode, const char *name, uint32_t units,
              uint32_t limit, unsigned *status_r, uint32_t *number_r)
{
    unsigned char request[PEER_LINE];
    size_t len = peer_compose(peer, opcode, name, units, limit, request);
    return peer_send(peer, request, len) && peer_answer(peer, opcode, status_r, number_r);
}

/* ---- the end ------------------------------------------------------------------------------- */

/* Returns 1 if units of a name are held, 0 if not, -1 if the request failed. */
static int is_held(struct peer *peer, const char *prefix, uint32_t number)
{
    char name[PEER_LINE / 4];
    unsigned status = PEER_OK;
    uint32_t units = 0;
    snprintf(name, sizeof(name), "%s-%u", prefix, number);
    if (!peer_ask(peer, PEER_GET, name, 0, 0, &status, &units))
        return -1;
    return status == PEER_OK && units > 0;
}

/*
 * Returns 1 if a number in the text protocol's STATS is not 0, 0 if it is, -1 if the request
 * failed.
 */
static int is_counted(struct peer *peer, const char *what)
{
    char line[PEER_LINE];
    int len = snprintf(line, sizeof(line), "STATS %s\n", what);
    if (!peer_send(peer, line, (size_t)len) || !peer_line(peer, line))
        return -1;
    const char *number = strchr(line, ' ');
    return !number || strcmp(number, " 0") != 0;
}

static bool await_free(struct peer *text, struct peer *binary, const char *prefix, uint32_t names,
                       int64_t until_ns, char *why)
{
    static const char *const counted[] = {"processing_workers", "waiting_workers"};
    for (uint32_t i = 0; i < names + 2; i++) {
        int left;
        while ((left = i < names ? is_held(binary, prefix, i)
                                 : is_counted(text, counted[i - names])) == 1 &&
               peer_now_ns() < until_ns)
            peer_pause_ns(500000);
        if (left == 0)
            continue;
        if (left < 0)
            snprintf(why, PEER_LINE, "%s", i < names ? binary->error : text->error);
        else if (i < names)
            snprintf(why, PEER_LINE, "%s-%u is still held, by nobody", prefix, i);
        else
            snprintf(why, PEER_LINE, "%s is not 0", counted[i - names]);
        return false;
    }
    return true;
}

bool peer_await_free(const struct peer_server *server, const char *prefix, uint32_t names,
                     int64_t until_ns, char *why)
{
    struct peer text, binary;
    bool connected = peer_connect(&text, server, true, 0);
    if (!connected || !peer_connect(&binary, server, false, 0)) {
        snprintf(why, PEER_LINE, "%s", connected ? binary.error : text.error);
        if (connected)
            peer_close(&text);
        return false;
    }
    bool free_ = await_free(&text, &binary, prefix, names, until_ns, why);
    peer_close(&text);
    peer_close(&binary);
    return free_;
}
