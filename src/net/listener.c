/*
 * listener.c - accepting (see listener.h).
 *
 * Out of descriptors or memory, a worker stops watching its listeners, so it does not spin on a
 * socket that stays ready, and goes on when one of its connections closes, or looks again after a
 * tenth of a second in case another worker's did. What a client's socket needs (no delay,
 * keepalive) is set on the listener: accepted sockets inherit it, which saves six calls for each.
 */
#include "net/listener.h"

#include "base/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ACCEPTS_PER_TURN 16
#define RETRY_NS         (100 * NS_PER_MS)

/* A peer that vanished is given up 30 s after it was last heard of. */
#define KEEPALIVE_IDLE_S     15
#define KEEPALIVE_INTERVAL_S 5
#define KEEPALIVE_PROBES     3
#define USER_TIMEOUT_MS      30000

/* As long as the kernel allows (net.core.somaxconn cuts it). */
#define BACKLOG 65535

/* ---- listening --------------------------------------------------------------------------- */

static void name_address(struct listener *l, const struct sockaddr_storage *sa)
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (sa->ss_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, sa, sizeof(in6));
        inet_ntop(AF_INET6, &in6.sin6_addr, host, sizeof(host));
        snprintf(l->where, sizeof(l->where), "[%s]:%u", host, ntohs(in6.sin6_port));
    } else {
        struct sockaddr_in in;
        memcpy(&in, sa, sizeof(in));
        inet_ntop(AF_INET, &in.sin_addr, host, sizeof(host));
        snprintf(l->where, sizeof(l->where), "%s:%u", host, ntohs(in.sin_port));
    }
}

static bool set_option(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof(value)) == 0;
}

static bool set_options(int fd, int family)
{
    return set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1) &&
           (family != AF_INET6 || set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1)) &&
           set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1) &&
           set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1) &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S) &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S) &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES) &&
           set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS);
}

bool listener_open(struct listener *listener_r, struct protocol *protocol,
                   const struct sockaddr *address, socklen_t len)
{
    struct sockaddr_storage sa = {0};
    memcpy(&sa, address, len);
    *listener_r = (struct listener){.fd = -1, .protocol = protocol};
    name_address(listener_r, &sa);
    int fd = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    socklen_t bound = sizeof(sa);
    if (!set_options(fd, sa.ss_family) || bind(fd, address, len) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&sa, &bound) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return false;
    }
    name_address(listener_r, &sa);
    listener_r->fd = fd;
    return true;
}

void listener_close(struct listener *listener)
{
    if (listener->fd >= 0)
        close(listener->fd);
    listener->fd = -1;
}

/* ---- accepting --------------------------------------------------------------------------- */

/* One listener as one worker watches it. */
struct door {
    struct acceptor *acceptor;
    const struct listener *listener;
    struct loop_io io;
};

struct acceptor {
    struct worker *worker;
    struct chore retry; /* while paused */
    bool paused;
    size_t count;
    struct door doors[];
};

/* A connection on its way to another worker. */
struct handover {
    struct mail mail;
    struct protocol *protocol;
    struct stream stream;
};

/* How many workers have stopped accepting: said when the first does, and when the last goes on. */
static _Atomic unsigned workers_paused;
static struct log_limit pauses, resumptions;

/* False: there is no memory to watch some door. */
static bool watch_doors(struct acceptor *acceptor, unsigned wanted)
{
    bool all = true;
    for (size_t i = 0; i < acceptor->count; i++)
        all = loop_io_want(&acceptor->doors[i].io, wanted) && all;
    return all;
}

/* Watches the doors again. Returns when to try once more: DEADLINE_NONE, or soon if it failed. */
static int64_t try_again(struct acceptor *acceptor)
{
    if (watch_doors(acceptor, LOOP_READ))
        return DEADLINE_NONE;
    return worker_now(acceptor->worker).mono_ns + RETRY_NS;
}

static void fd_freed(void *arg)
{
    struct acceptor *acceptor = arg;
    worker_set_chore(acceptor->worker, &acceptor->retry, try_again(acceptor));
}

static void pause_accepting(struct acceptor *acceptor, int error)
{
    if (!acceptor->paused) {
        acceptor->paused = true;
        if (atomic_fetch_add(&workers_paused, 1) == 0)
            log_warning_limited(&pauses,
                                "can't accept connections (%s): waiting until others have closed",
                                strerrordesc_np(error));
    }
    (void)watch_doors(acceptor, 0); /* not watching needs no memory */
    worker_await_fd(acceptor->worker, fd_freed, acceptor);
    worker_set_chore(acceptor->worker, &acceptor->retry,
                     worker_now(acceptor->worker).mono_ns + RETRY_NS);
}

/* Nobody waits any more. */
static void caught_up(struct acceptor *acceptor)
{
    if (!acceptor->paused)
        return;
    acceptor->paused = false;
    worker_await_fd(acceptor->worker, NULL, NULL);
    if (atomic_fetch_sub(&workers_paused, 1) == 1)
        log_warning_limited(&resumptions, "accepting connections again");
}

static int64_t retry(struct chore *chore, struct moment now)
{
    (void)now;
    return try_again(container_of(chore, struct acceptor, retry));
}

static void open_handed(struct mail *mail, void *reader)
{
    struct handover *handover = container_of(mail, struct handover, mail);
    (void)worker_open(reader, handover->protocol, handover->stream); /* it counts its failures */
    worker_expect(reader, -1);
    free(handover);
}

/* Which worker should have the next connection. */
static struct worker *place(struct worker *self)
{
    const struct server *server = worker_server(self);
    struct worker *fewest = self;
    for (unsigned i = 0; i < server->count; i++) {
        if (worker_connections(server->workers[i]) < worker_connections(fewest))
            fewest = server->workers[i];
    }
    uint32_t least = worker_connections(fewest);
    return worker_connections(self) > least + 2 + least / 8 ? fewest : self;
}

static void take_in(struct acceptor *acceptor, struct protocol *protocol, int fd)
{
    static struct log_limit refusals;
    struct stream stream = {.fd = fd};
    uint32_t now_open =
        atomic_fetch_add_explicit(&protocol->connections, 1, memory_order_relaxed) + 1;
    if (protocol->max_connections && now_open > protocol->max_connections) {
        atomic_fetch_sub_explicit(&protocol->connections, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&protocol->closed[CLOSE_REFUSED], 1, memory_order_relaxed);
        stream_close(&stream);
        log_warning_limited(&refusals, "%s: connection refused: %u are open, the most allowed",
                            protocol->name, protocol->max_connections);
        return;
    }
    struct worker *to = place(acceptor->worker);
    struct handover *handover = to == acceptor->worker ? NULL : malloc(sizeof(*handover));
    if (!handover) {
        (void)worker_open(acceptor->worker, protocol, stream);
        return;
    }
    *handover =
        (struct handover){.mail.deliver = open_handed, .protocol = protocol, .stream = stream};
    worker_expect(to, 1); /* or a burst would all go to one that has not seen it yet */
    worker_post(to, &handover->mail);
}

/* Accepts some of what waits at a door. */
static void on_door(void *arg, unsigned what)
{
    (void)what;
    static struct log_limit failures;
    struct door *door = arg;
    struct acceptor *acceptor = door->acceptor;
    worker_wake(acceptor->worker);
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        int fd = accept4(door->listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            take_in(acceptor, door->listener->protocol, fd);
            continue;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            caught_up(acceptor);
            break;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            atomic_fetch_add_explicit(&door->listener->protocol->accept_errors, 1,
                                      memory_order_relaxed);
            pause_accepting(acceptor, errno);
            break;
        }
        /* The client has gone again, or the network reports an old error: the next may do. */
        if (errno != EINTR && errno != ECONNABORTED)
            log_warning_limited(&failures, "%s: accepting failed: %s", door->listener->where,
                                strerrordesc_np(errno));
    }
    worker_settle(acceptor->worker);
}

struct acceptor *acceptor_new(struct worker *worker, const struct listener *listeners, size_t count)
{
    struct acceptor *acceptor = calloc(1, sizeof(*acceptor) + count * sizeof(struct door));
    if (!acceptor)
        return NULL;
    acceptor->worker = worker;
    acceptor->retry.run = retry;
    if (!worker_add_chore(worker, &acceptor->retry, DEADLINE_NONE)) {
        free(acceptor);
        return NULL;
    }
    for (; acceptor->count < count; acceptor->count++) {
        struct door *door = &acceptor->doors[acceptor->count];
        door->acceptor = acceptor;
        door->listener = &listeners[acceptor->count];
        if (!loop_io_add(worker_loop(worker), &door->io, door->listener->fd, LOOP_READ, on_door,
                         door)) {
            acceptor_free(&acceptor);
            return NULL;
        }
    }
    return acceptor;
}

void acceptor_free(struct acceptor **acceptor)
{
    struct acceptor *a = *acceptor;
    if (!a)
        return;
    *acceptor = NULL;
    for (size_t i = 0; i < a->count; i++)
        loop_io_remove(&a->doors[i].io);
    worker_remove_chore(a->worker, &a->retry);
    if (a->paused)
        atomic_fetch_sub(&workers_paused, 1);
    free(a);
}
