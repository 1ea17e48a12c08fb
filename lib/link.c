/*
 * link.c - one connection (link.h).
 */
#include "lib/link.h"

#include "base/clock.h"
#include "lib/failure.h"
#include "lib/tls.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#define KIB        ((size_t)1024)
#define FIRST_ROOM 4096        /* of what comes */
#define KEPT_ROOM  (64 * KIB)  /* a larger buffer is freed when it is empty */
#define STEP_MAX   (256 * KIB) /* bytes that one step reads, and sends */
#define UNREAD_MAX (256 * KIB) /* unless a longer message is awaited, no more are read */
#define FINISH_NS  (1 * NS_PER_S)
#define RETRY_NS   (10 * NS_PER_MS) /* while a unix socket's queue is full */

/* ---- end ------------------------------------------------------------------------------------- */

static void close_socket(struct counter_link *link)
{
    if (link->tls && (link->state == LINK_UP || link->state == LINK_FINISHING) &&
        !link->is_abandoned)
        tls_goodbye(link->tls);
    tls_end(link->tls);
    link->tls = NULL;
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
}

/* Ends a link whose error is set. Returns its status. */
static int end(struct counter_link *link)
{
    close_socket(link);
    link->state = LINK_ENDED;
    link->error.sent = link->has_sent;
    text_free(&link->out);
    link->sent = 0;
    failure_place(&link->error,
                  settings_servers(link->settings, link->protocol, NULL) > link->server
                      ? settings_server(link->settings, link->protocol, link->server)
                      : NULL,
                  (struct bytes){0});
    return link->error.status;
}

/* The status of a connection that has failed. */
static int failed(const struct counter_link *link)
{
    return link->was_up ? COUNTER_UNANSWERED : COUNTER_UNREACHABLE;
}

static int end_late(struct counter_link *link, const char *reason)
{
    link->is_late = true;
    failure_set(&link->error, failed(link), "%s", reason);
    return end(link);
}

static int end_without_memory(struct counter_link *link)
{
    failure_no_memory(&link->error);
    return end(link);
}

int link_malformed(counter_link *link, struct bytes answer, const char *reason)
{
    failure_set(&link->error, COUNTER_MALFORMED, "%s", reason);
    failure_answer(&link->error, answer);
    link->taken = link->in_len; /* the bytes stay, because `answer` may be of them */
    return end(link);
}

/* ---- receiving ------------------------------------------------------------------------------- */

struct bytes link_unread(const counter_link *link)
{
    return link->in ? bytes_at(link->in + link->taken, link->in_len - link->taken)
                    : (struct bytes){0};
}

/* How many unread bytes there may be. */
static size_t unread_max(const struct counter_link *link)
{
    return link->wanted > UNREAD_MAX ? link->wanted : UNREAD_MAX;
}

/* Makes room for at least one byte more. False: no memory. */
static bool make_room(struct counter_link *link)
{
    if (link->taken == link->in_len) {
        link->taken = link->in_len = 0;
        if (link->in_room > KEPT_ROOM) {
            free(link->in);
            link->in = NULL;
            link->in_room = 0;
        }
    } else if (link->in_len == link->in_room && link->taken > 0) {
        memmove(link->in, link->in + link->taken, link->in_len -= link->taken);
        link->taken = 0;
    }
    if (link->in_len < link->in_room)
        return true;
    size_t room = link->in_room ? 2 * link->in_room : FIRST_ROOM;
    uint8_t *in = realloc(link->in, room);
    if (!in)
        return false;
    link->in = in;
    link->in_room = room;
    return true;
}

/* Reads once. Returns how many bytes; 0: none now, or the link has ended. */
static size_t receive(struct counter_link *link, void *to, size_t room)
{
    ssize_t n;
    if (link->tls) {
        n = tls_receive(link->tls, to, room);
        link->read_events = n == TLS_WAITS_TO_WRITE ? POLLOUT : POLLIN;
        if (n == TLS_IS_AT_ITS_END) {
            tls_explain(link->tls, &link->error, failed(link));
            end(link);
        }
        return n > 0 ? (size_t)n : 0;
    }
    n = recv(link->fd, to, room, 0);
    if (n > 0)
        return (size_t)n;
    int error = n == 0 ? 0 : errno;
    if (error == EINTR || (error == EAGAIN && !link->send_error))
        return 0;
    if (error == 0)
        failure_set(&link->error, failed(link), "the server closed the connection");
    else
        failure_set(&link->error, failed(link), "%s",
                    strerrordesc_np(link->send_error ? link->send_error : error));
    end(link);
    return 0;
}

/* Reads what is there, within bounds. Returns whether anything was. */
static bool read_bytes(struct counter_link *link)
{
    size_t got = 0;
    bool goes_on = true;
    link->has_more = false;
    while (goes_on && got < STEP_MAX && link_unread(link).len < unread_max(link)) {
        if (!make_room(link)) {
            end_without_memory(link);
            return true;
        }
        size_t room = link->in_room - link->in_len, most = unread_max(link) - link_unread(link).len;
        room = room < most ? room : most;
        size_t n = receive(link, link->in + link->in_len, room);
        if (n == 0)
            return got > 0;
        got += n;
        link->in_len += n;
        if (link->state == LINK_FINISHING)
            link->taken = link->in_len;
        /* A short read from the socket has emptied it. */
        goes_on = n == room || (link->tls && tls_has_more(link->tls));
    }
    link->has_more = goes_on && link->tls;
    return got > 0;
}

/* ---- sending --------------------------------------------------------------------------------- */

static size_t unsent(const struct counter_link *link)
{
    return link->out.len - link->sent;
}

/* Writes once. Returns how many bytes; 0: none now, or none any more. */
static size_t send_some(struct counter_link *link, const void *data, size_t len)
{
    if (link->tls) {
        ssize_t n = tls_send(link->tls, data, len);
        link->write_events = n == TLS_WAITS_TO_READ ? POLLIN : POLLOUT;
        if (n == TLS_IS_AT_ITS_END) {
            tls_explain(link->tls, &link->error, failed(link));
            end(link);
        }
        return n > 0 ? (size_t)n : 0;
    }
    ssize_t n = send(link->fd, data, len, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        link->send_error = errno;
    return n > 0 ? (size_t)n : 0;
}

/* Sends what it can, within bounds. Returns whether it has sent anything. */
static bool send_bytes(struct counter_link *link)
{
    size_t done = 0, n = 1;
    while (n > 0 && done < STEP_MAX && unsent(link) > 0 && !link->send_error) {
        n = unsent(link) < STEP_MAX ? unsent(link) : STEP_MAX;
        n = send_some(link, link->out.data + link->sent, n);
        if (link->state == LINK_ENDED)
            return true;
        link->sent += n;
        link->has_sent |= n > 0;
        done += n;
    }
    if (unsent(link) == 0) {
        if (link->out.room > KEPT_ROOM)
            text_free(&link->out);
        text_clear(&link->out);
        link->sent = 0;
        link->send_by = LINK_NO_DEADLINE;
    } else if (link->send_by == LINK_NO_DEADLINE || link->sent >= link->send_mark) {
        link->send_by = clock_mono_ns() + link->settings->io_ns;
        link->send_mark = link->sent + LINK_CHUNK;
    }
    return done > 0;
}

int counter_link_say(counter_link *link, const void *data, size_t len)
{
    if (link->state == LINK_ENDED)
        return link->error.status;
    if (link->state == LINK_FINISHING)
        return COUNTER_USAGE;
    if (link->sent > unsent(link)) { /* moves each byte once, on average */
        memmove(link->out.data, link->out.data + link->sent, unsent(link));
        link->out.len = unsent(link);
        link->send_mark -= link->sent;
        link->sent = 0;
    }
    text_add(&link->out, data, len);
    return link->out.failed ? end_without_memory(link) : COUNTER_OK;
}

/* ---- connecting ------------------------------------------------------------------------------ */

/* Sends small messages at once, and notices a vanished server within half a minute. */
static void tune(int fd)
{
    int on = 1, idle_s = 10, interval_s = 5, probes = 3;
    unsigned unacknowledged_ms = 25000;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
}

static void go_up(struct counter_link *link)
{
    link->state = LINK_UP;
    link->was_up = true;
    link->read_events = POLLIN;
    link->write_events = POLLOUT;
}

/* Each of the following returns false when this address has failed; the error is set. */

static bool shake(struct counter_link *link)
{
    int result = tls_shake(link->tls);
    link->read_events = result == TLS_WAITS_TO_WRITE ? POLLOUT : POLLIN;
    if (result == TLS_IS_AT_ITS_END)
        tls_explain(link->tls, &link->error, COUNTER_UNREACHABLE);
    else if (result > 0)
        go_up(link);
    return result != TLS_IS_AT_ITS_END;
}

/* The socket is connected. */
static bool connected(struct counter_link *link, const struct host *host)
{
    if (!link->settings->tls) {
        go_up(link);
        return true;
    }
    const char *name = link->settings->tls_name ? link->settings->tls_name : host->name;
    link->tls = tls_begin(link->settings->tls, link->fd, name);
    if (!link->tls) {
        end_without_memory(link);
        return true;
    }
    link->state = LINK_SHAKING;
    return shake(link);
}

static int fail(struct counter_link *link, int error)
{
    link->is_our_fault = failure_is_ours(error);
    failure_set(&link->error, COUNTER_UNREACHABLE, "%s", strerrordesc_np(error));
    return error;
}

/* Returns 0: it goes on; else what is wrong: errno, or -1. */
static int connect_to(struct counter_link *link, const struct host *host, const void *to,
                      socklen_t len)
{
    const struct sockaddr *address = to;
    close_socket(link);
    link->state = LINK_CONNECTING;
    link->is_late = link->is_our_fault = false;
    link->fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (link->fd < 0)
        return fail(link, errno);
    link->serial = ++link->settings->serial;
    if (host)
        tune(link->fd);
    if (connect(link->fd, address, len) == 0)
        return connected(link, host) ? 0 : -1;
    return errno == EINPROGRESS ? 0 : fail(link, errno);
}

/* A unix socket. Its server's queue may be full for a moment. */
static bool connect_path(struct counter_link *link, const struct own_address *own)
{
    int error = connect_to(link, NULL, &own->path, own->path_len);
    if (error != EAGAIN)
        return error == 0;
    close_socket(link);
    int64_t again = clock_mono_ns() + RETRY_NS;
    link->address_by = again < link->connect_by ? again : link->connect_by;
    return true;
}

static bool connect_host(struct counter_link *link, const struct host *host, uint16_t port)
{
    struct sockaddr_storage at = host->at[link->address];
    int64_t now = clock_mono_ns();
    link->address_by = now + (link->connect_by - now) / (int64_t)(host->count - link->address);
    link->address++;
    if (at.ss_family == AF_INET)
        ((struct sockaddr_in *)&at)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)&at)->sin6_port = htons(port);
    return connect_to(link, host, &at,
                      at.ss_family == AF_INET ? sizeof(struct sockaddr_in)
                                              : sizeof(struct sockaddr_in6)) == 0;
}

/* Tries the addresses that are left; each may use its share of the time left. */
static void connect_next(struct counter_link *link)
{
    struct place place = settings_place(link->settings, link->protocol, link->server);
    bool goes_on = false;
    if (place.path)
        goes_on = link->address++ == 0 && connect_path(link, place.path);
    else if (place.host->count == 0) {
        link->is_our_fault = failure_is_ours(place.host->error);
        failure_set(&link->error, COUNTER_UNREACHABLE, "%s", place.host->fault);
    }
    while (!goes_on && !place.path && link->address < place.host->count)
        goes_on = connect_host(link, place.host, place.port);
    if (!goes_on)
        end(link);
}

static void begin(struct counter_link *link)
{
    int64_t least = NS_PER_MS, time = link->settings->connect_ns;
    if (settings_servers(link->settings, link->protocol, &link->error) <= link->server) {
        if (link->error.status == COUNTER_OK)
            failure_set(&link->error, COUNTER_USAGE, "there is no server number %zu", link->server);
        end(link);
        return;
    }
    link->connect_by = clock_mono_ns() + (time > least ? time : least);
    connect_next(link);
}

static void go_on_connecting(struct counter_link *link)
{
    struct pollfd poll_fd = {.fd = link->fd, .events = POLLOUT};
    struct place place = settings_place(link->settings, link->protocol, link->server);
    int error = 0;
    socklen_t len = sizeof error;
    if (link->fd >= 0 && poll(&poll_fd, 1, 0) > 0) {
        getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &len);
        if (error)
            fail(link, error);
        if (error || !connected(link, place.host))
            connect_next(link);
        return;
    }
    int64_t now = clock_mono_ns();
    if (now < link->address_by)
        return;
    if (place.path && now < link->connect_by) {
        link->address = 0;
    } else {
        link->is_late = true;
        failure_set(&link->error, COUNTER_UNREACHABLE,
                    "it does not answer in time "
                    "(connect_timeout)");
    }
    connect_next(link);
}

static void go_on_shaking(struct counter_link *link)
{
    if (shake(link)) {
        if (link->state != LINK_SHAKING || clock_mono_ns() < link->address_by)
            return;
        link->is_late = true;
        failure_set(&link->error, COUNTER_UNREACHABLE,
                    "the TLS handshake took too long (connect_timeout; does it speak TLS there?)");
    }
    connect_next(link);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* The deadline of what the link waits for; LINK_NO_DEADLINE: none. */
static int64_t deadline(const struct counter_link *link)
{
    switch (link->state) {
    case LINK_CONNECTING:
    case LINK_SHAKING:
        return link->address_by;
    case LINK_FINISHING:
        return link->finish_by;
    case LINK_UP: {
        int64_t by = link_unread(link).len > 0 || link->part_by != LINK_NO_DEADLINE
                         ? link->part_by
                         : link->expect_by;
        return link->send_by < by ? link->send_by : by;
    }
    default:
        return 0;
    }
}

static void end_if_late(struct counter_link *link)
{
    int64_t by = deadline(link);
    if (by == LINK_NO_DEADLINE || clock_mono_ns() < by)
        return;
    if (link->state == LINK_FINISHING)
        end_late(link, "it does not close the connection");
    else if (by == link->send_by)
        end_late(link, "it takes no more bytes (io_timeout)");
    else if (by == link->part_by)
        end_late(link, "its answer has begun, and was not whole in time (io_timeout)");
    else
        end_late(link, "no answer in time (io_timeout)");
}

static void move_bytes(struct counter_link *link)
{
    bool has_moved = unsent(link) > 0 && send_bytes(link);
    if (link->state == LINK_ENDED)
        return;
    /* The answer to what has just been sent is not there yet. */
    if (!has_moved || unsent(link) > 0 || link->has_more)
        has_moved |= read_bytes(link);
    if ((!has_moved || link->state == LINK_FINISHING) && link->state != LINK_ENDED)
        end_if_late(link);
}

int counter_link_step(counter_link *link)
{
    bool was_up = link->was_up;
    if (link->state == LINK_BEGUN)
        begin(link);
    else if (link->state == LINK_CONNECTING)
        go_on_connecting(link);
    else if (link->state == LINK_SHAKING)
        go_on_shaking(link);
    else if (link->state != LINK_ENDED)
        move_bytes(link);
    if (!was_up && link->state == LINK_UP && unsent(link) > 0)
        move_bytes(link);
    if (link->state == LINK_ENDED)
        return link->error.status;
    return link->state == LINK_UP && unsent(link) == 0 ? COUNTER_OK : COUNTER_AGAIN;
}

int counter_link_fd(const counter_link *link)
{
    return link->fd;
}

uint64_t counter_link_fd_serial(const counter_link *link)
{
    return link->serial;
}

short counter_link_events(const counter_link *link)
{
    switch (link->state) {
    case LINK_CONNECTING:
        return POLLOUT;
    case LINK_SHAKING:
    case LINK_FINISHING:
        return link->read_events;
    case LINK_UP: {
        bool sends = unsent(link) > 0 && !link->send_error;
        bool reads = link_unread(link).len < unread_max(link);
        return (short)((sends ? link->write_events : 0) | (reads ? link->read_events : 0));
    }
    default:
        return 0;
    }
}

int counter_link_wait_ms(const counter_link *link)
{
    int64_t by = deadline(link);
    if (link->has_more && link_unread(link).len < unread_max(link))
        return 0;
    if (by == LINK_NO_DEADLINE)
        return -1;
    int64_t left = by == 0 ? 0 : (by - clock_mono_ns() + NS_PER_MS - 1) / NS_PER_MS;
    return left < 0 ? 0 : left < INT_MAX ? (int)left : INT_MAX;
}

const struct counter_error *counter_link_error(const counter_link *link)
{
    return &link->error;
}

/* ---- taking ---------------------------------------------------------------------------------- */

int link_lack(counter_link *link, size_t size, size_t part, bool has_begun)
{
    size_t have = link_unread(link).len;
    if (link->state == LINK_ENDED)
        return link->error.status;
    link->wanted = size;
    bool is_next_part = link->part_by == LINK_NO_DEADLINE || have >= link->part_mark ||
                        (link->part_mark == SIZE_MAX && part != SIZE_MAX);
    if (has_begun && is_next_part) {
        link->part_by = clock_mono_ns() + link->settings->io_ns;
        link->part_mark = part < SIZE_MAX - have ? have + part : SIZE_MAX;
    }
    return COUNTER_AGAIN;
}

const uint8_t *link_take(counter_link *link, size_t size)
{
    const uint8_t *at = link_unread(link).data;
    link->taken += size;
    link->wanted = 0;
    link->part_by = link->expect_by = LINK_NO_DEADLINE;
    return at;
}

/* ---- the whole ------------------------------------------------------------------------------- */

counter_link *link_open(struct settings *settings, enum counter_protocol protocol, size_t server)
{
    struct counter_link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->settings = settings_hold(settings);
    link->protocol = protocol;
    link->server = server;
    link->fd = -1;
    link->send_by = link->expect_by = link->part_by = LINK_NO_DEADLINE;
    link->error.size = sizeof link->error;
    link->next = settings->links;
    link->at = &settings->links;
    if (link->next)
        link->next->at = &link->next;
    settings->links = link;
    return link;
}

void counter_link_finish(counter_link *link)
{
    if (link->state == LINK_ENDED || link->state == LINK_FINISHING)
        return;
    if (link->state != LINK_UP) {
        failure_set(&link->error, COUNTER_UNREACHABLE, "it was closed before it was connected");
        end(link);
        return;
    }
    link->state = LINK_FINISHING;
    link->taken = link->in_len;
    text_free(&link->out);
    link->sent = 0;
    if (link->tls)
        tls_goodbye(link->tls);
    shutdown(link->fd, SHUT_WR);
    link->finish_by = clock_mono_ns() + FINISH_NS;
}

void counter_link_free(counter_link *link)
{
    if (!link)
        return;
    close_socket(link);
    *link->at = link->next;
    if (link->next)
        link->next->at = link->at;
    text_free(&link->out);
    free(link->in);
    settings_drop(link->settings);
    free(link);
}

void settings_forked(struct settings *settings)
{
    for (struct counter_link *link = settings->links; link; link = link->next) {
        if (link->is_abandoned)
            continue;
        link->is_abandoned = true;
        link->taken = link->in_len;
        if (link->state == LINK_ENDED)
            continue;
        failure_set(&link->error, COUNTER_LOST, "the connection is that of the parent process");
        end(link);
    }
}

/* ---- for calls ------------------------------------------------------------------------------- */

bool link_is_idle(const counter_link *link)
{
    return link->state == LINK_UP && unsent(link) == 0 && link_unread(link).len == 0;
}

bool link_is_fresh(counter_link *link)
{
    char byte;
    if (!link_is_idle(link))
        return false;
    if (link->tls)
        return tls_peek(link->tls) == TLS_WAITS_TO_READ;
    return recv(link->fd, &byte, sizeof byte, MSG_PEEK) < 0 && errno == EAGAIN;
}
