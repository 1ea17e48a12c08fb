/*
 * lookup.c - name lookups with c-ares (see lookup.h).
 *
 * Each lookup has its own c-ares channel and destroys it as soon as the result is known. A callback
 * of c-ares must not touch the channel, so the callbacks only store the result, and
 * `close_when_known` destroys the channel after each call into the library.
 */
#include "net/lookup.h"

#include "base/clock.h"

#include <ares.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const lookup_reads[] = {
    "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/svc.conf",
    "/etc/hosts",       "/etc/services",      "/dev/urandom",   NULL,
};

/* Each server gets this many queries; each query has twice the timeout of the one before. With one
 * server they take seven eighths of the limit. */
#define TRIES        3
#define LIMIT_PARTS  8
#define TIMEOUT_MAX  5000 /* ms, for the first query */
#define SERVICE_SIZE sizeof("65535")

/* A socket of c-ares. */
struct lookup_socket {
    struct loop_io io;
    struct lookup *lookup;
    struct lookup_socket *next;
};

struct lookup {
    struct loop *loop;
    lookup_progress_fn *progress;
    void *arg;
    ares_channel channel; /* NULL: not needed, or destroyed */
    struct lookup_socket *sockets;
    struct lookup_result result;
};

/* ---- results --------------------------------------------------------------------------------- */

static void fail(struct lookup *l, const char *why)
{
    if (l->result.state != LOOKUP_PENDING)
        return;
    l->result.state = LOOKUP_FAILED;
    l->result.why = why;
}

static void add_address(struct lookup *l, const struct sockaddr *from, size_t len)
{
    if ((from->sa_family != AF_INET && from->sa_family != AF_INET6) ||
        l->result.count == LOOKUP_ADDRESSES || len > sizeof(l->result.addresses[0]))
        return;
    memcpy(&l->result.addresses[l->result.count++], from, len);
    l->result.state = LOOKUP_FOUND;
}

static const char *words_for(int status)
{
    switch (status) {
    case ARES_ENOMEM:
        return "no memory";
    case ARES_ENOTFOUND:
        return "no such host name";
    case ARES_ENODATA:
        return "the name has no address";
    case ARES_ETIMEOUT:
        return "the name servers do not answer";
    case ARES_ECONNREFUSED:
        return "the name servers can't be reached";
    default:
        return ares_strerror(status);
    }
}

/* Destroys the channel; c-ares calls the callbacks that are still pending. */
static void close_channel(struct lookup *l)
{
    if (l->channel)
        ares_destroy(l->channel);
    l->channel = NULL;
    CHECK(!l->sockets);
}

/* Destroys the channel if the result is known. Call it after each call into c-ares. */
static void close_when_known(struct lookup *l)
{
    if (l->result.state != LOOKUP_PENDING)
        close_channel(l);
}

/* ---- callbacks of c-ares --------------------------------------------------------------------- */

static void on_ready(struct loop_io *io, unsigned what)
{
    struct lookup_socket *s = container_of(io, struct lookup_socket, io);
    struct lookup *l = s->lookup;
    int fd = io->fd;
    ares_process_fd(l->channel, what & LOOP_READ ? fd : ARES_SOCKET_BAD,
                    what & LOOP_WRITE ? fd : ARES_SOCKET_BAD);
    close_when_known(l);
    l->progress(l->arg);
}

/* The link that points to the socket's record, or the end of the list. */
static struct lookup_socket **place_of(struct lookup *l, int fd)
{
    struct lookup_socket **at = &l->sockets;
    while (*at && (*at)->io.fd != fd)
        at = &(*at)->next;
    return at;
}

/* Called by c-ares when it starts or stops to wait for a socket. When it stops, it is about to
 * close the socket. */
static void on_socket(void *arg, ares_socket_t fd, int readable, int writable)
{
    struct lookup *l = arg;
    struct lookup_socket **at = place_of(l, fd), *s = *at;
    unsigned wanted = (readable ? LOOP_READ : 0) | (writable ? LOOP_WRITE : 0);
    if (!wanted) {
        if (!s)
            return;
        loop_io_remove(l->loop, &s->io);
        *at = s->next;
        free(s);
        return;
    }
    if (s) {
        if (!loop_io_want(l->loop, &s->io, wanted))
            fail(l, "no memory");
        return;
    }
    s = calloc(1, sizeof(*s));
    if (!s || !loop_io_add(l->loop, &s->io, fd, wanted, on_ready)) {
        free(s);
        fail(l, "no memory");
        return;
    }
    s->lookup = l;
    *at = s;
}

static void on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *found)
{
    struct lookup *l = arg;
    (void)timeouts;
    if (status == ARES_SUCCESS && l->result.state == LOOKUP_PENDING) {
        for (const struct ares_addrinfo_node *node = found->nodes; node; node = node->ai_next)
            add_address(l, node->ai_addr, node->ai_addrlen);
        status = ARES_ENODATA; /* used only when no address was found */
    }
    fail(l, words_for(status));
    if (found)
        ares_freeaddrinfo(found);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* True when `host` is not a name. The lookup then has its address, or the reason for failure. */
static bool is_numeric(struct lookup *l, const char *host, const char *service)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                             .ai_socktype = SOCK_STREAM},
                    *found = NULL;
    int error = getaddrinfo(host, service, &hints, &found); /* sends no query */
    if (error == EAI_NONAME)
        return false;
    if (error)
        fail(l, gai_strerror(error));
    else
        add_address(l, found->ai_addr, found->ai_addrlen);
    if (found)
        freeaddrinfo(found);
    return true;
}

static int open_channel(struct lookup *l, int64_t limit_ns, const char *servers)
{
    int64_t timeout_ms = limit_ns / LIMIT_PARTS / NS_PER_MS;
    struct ares_options options = {
        .timeout = timeout_ms < 1             ? 1
                   : timeout_ms > TIMEOUT_MAX ? TIMEOUT_MAX
                                              : (int)timeout_ms,
        .tries = TRIES,
        .sock_state_cb = on_socket,
        .sock_state_cb_data = l,
    };
    int status = ares_init_options(&l->channel, &options,
                                   ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB);
    if (status != ARES_SUCCESS)
        l->channel = NULL;
    else if (servers)
        status = ares_set_servers_ports_csv(l->channel, servers);
    return status;
}

static int library_status;

static void init_library(void)
{
    library_status = ares_library_init(ARES_LIB_INIT_ALL);
}

struct lookup *lookup_start(struct loop *loop, const char *host, uint16_t port, int64_t limit_ns,
                            const char *servers, lookup_progress_fn *progress, void *arg)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    CHECK(pthread_once(&once, init_library) == 0);
    struct lookup *l = calloc(1, sizeof(*l));
    if (!l)
        return NULL;
    *l = (struct lookup){.loop = loop, .progress = progress, .arg = arg};
    char service[SERVICE_SIZE];
    snprintf(service, sizeof(service), "%u", port);
    if (is_numeric(l, host, service))
        return l;
    int status =
        library_status == ARES_SUCCESS ? open_channel(l, limit_ns, servers) : library_status;
    if (status == ARES_SUCCESS) {
        struct ares_addrinfo_hints hints = {
            .ai_flags = ARES_AI_NUMERICSERV, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
        ares_getaddrinfo(l->channel, host, service, &hints, on_answer, l);
    } else {
        fail(l, words_for(status));
    }
    close_when_known(l);
    return l;
}

void lookup_free(struct lookup **lookup)
{
    struct lookup *l = *lookup;
    if (!l)
        return;
    *lookup = NULL;
    fail(l, "given up"); /* callbacks do nothing from now on */
    close_channel(l);
    free(l);
}

/* ---- for the owner --------------------------------------------------------------------------- */

const struct lookup_result *lookup_result(const struct lookup *lookup)
{
    return &lookup->result;
}

int64_t lookup_wait_ns(const struct lookup *lookup)
{
    struct timeval tv;
    if (!ares_timeout(lookup->channel, NULL, &tv))
        return INT64_MAX;
    /* Adds one millisecond, because c-ares reads the clock later than the loop does. */
    return tv.tv_sec * NS_PER_S + tv.tv_usec * NS_PER_US + NS_PER_MS;
}

void lookup_time_passed(struct lookup *lookup)
{
    ares_process_fd(lookup->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    close_when_known(lookup);
}
