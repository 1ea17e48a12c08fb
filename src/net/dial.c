/*
 * dial.c - a dial is a small state machine (see dial.h). Each step returns an outcome: still going,
 * failed or connected. Only `go_on` and `on_time` try the next address or end the dial, so a step
 * never frees its dial. A dial has one timer, which is set for the current step.
 */
#include "net/dial.h"

#include "net/address.h"
#include "net/lookup.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* The delay before another connect to a unix socket with a full backlog; no event reports that it
 * has room again. */
#define FULL_RETRY_NS (10 * NS_PER_MS)

/* Room for the longest host name (RFC 1035); c-ares accepts no longer names. */
#define HOST_SIZE 256

enum step {
    STEP_BEGIN,     /* nothing done yet; the timer runs at once */
    STEP_LOOKUP,    /* looking up the host's addresses */
    STEP_FULL,      /* the unix socket's backlog is full */
    STEP_CONNECT,   /* connecting */
    STEP_HANDSHAKE, /* connected; the TLS handshake is running */
};

enum outcome { GOING, FAILED, CONNECTED };

struct dial {
    struct reactor *reactor;
    dial_done_fn *done;
    void *arg;
    struct timer timer;
    int64_t limit_ns, end_ns;           /* the whole dial: time limit, end */
    int64_t attempt_ns, attempt_end_ns; /* the current address: time limit, end */
    int64_t retry_ns;                   /* STEP_FULL: time of the next try */
    enum step step;
    enum transport transport;
    uint16_t port;
    char host[HOST_SIZE];
    struct tls *tls;
    const char *wrong;     /* an error in the target; NULL: none */
    struct lookup *lookup; /* NULL: not started, or done */
    unsigned at, count;    /* `at`: the address being tried, of `count` */
    struct sockaddr_storage addresses[LOOKUP_ADDRESSES];
    struct stream stream; /* fd -1: none */
    struct loop_io io;
    size_t reason_len;
    char reason[DIAL_REASON_SIZE]; /* the target, then each failure so far */
    char name_servers[];           /* "": those of the system */
};

static int64_t now_ns(const struct dial *d)
{
    return d->reactor->now.mono_ns;
}

/* ---- error texts ----------------------------------------------------------------------------- */

static void PRINTF_LIKE(2, 3) say(struct dial *d, const char *format, ...)
{
    va_list args;
    size_t room = sizeof(d->reason) - d->reason_len;
    va_start(args, format);
    int len = vsnprintf(d->reason + d->reason_len, room, format, args);
    va_end(args);
    if (len > 0)
        d->reason_len += (size_t)len < room ? (size_t)len : room - 1;
}

/* Adds a failure to the reason. The address that was tried comes first, unless the reason starts
 * with it. */
static enum outcome PRINTF_LIKE(2, 3) failed(struct dial *d, const char *format, ...)
{
    char what[DIAL_REASON_SIZE], where[ADDRESS_TEXT] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    if (d->at < d->count)
        address_text((const struct sockaddr *)&d->addresses[d->at], where, sizeof(where));
    bool known = d->at >= d->count || strncmp(d->reason, where, strlen(where)) == 0 ||
                 d->transport == TRANSPORT_UNIX;
    say(d, "%s%s%s%s", d->at == 0 ? ": " : "; ", known ? "" : where, known ? "" : ": ", what);
    return FAILED;
}

static double seconds(int64_t ns)
{
    return (double)ns / (double)NS_PER_S;
}

/* ---- one address ----------------------------------------------------------------------------- */

static void on_ready(struct loop_io *io, unsigned what);

/* Waits until the socket is ready. */
static enum outcome await(struct dial *d, enum step step, unsigned wanted)
{
    struct loop *loop = d->reactor->loop;
    d->step = step;
    if (d->io.fn ? loop_io_want(loop, &d->io, wanted)
                 : loop_io_add(loop, &d->io, d->stream.fd, wanted, on_ready))
        return GOING;
    return failed(d, "no memory");
}

/* Closes the stream of an attempt. */
static void drop(struct dial *d)
{
    loop_io_remove(d->reactor->loop, &d->io);
    stream_close(&d->stream);
}

static enum outcome shake(struct dial *d)
{
    const char *why = NULL;
    ssize_t n = stream_handshake(&d->stream, &why);
    if (n == 1)
        return CONNECTED;
    if (n == STREAM_AGAIN || n == STREAM_CROSSED)
        return await(d, STEP_HANDSHAKE, n == STREAM_AGAIN ? LOOP_READ : LOOP_WRITE);
    return failed(d, "TLS handshake: %s", why);
}

/* True when the socket is connected to itself. That can happen when nobody listens on a local port
 * of the ephemeral range. */
static bool is_own_end(int fd)
{
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t len = sizeof(here);
    if (getsockname(fd, (struct sockaddr *)&here, &len) != 0)
        return false;
    len = sizeof(there);
    return getpeername(fd, (struct sockaddr *)&there, &len) == 0 &&
           memcmp(&here, &there, sizeof(here)) == 0;
}

static enum outcome connected(struct dial *d)
{
    int yes = 1;
    if (d->transport == TRANSPORT_UNIX)
        return CONNECTED;
    if (is_own_end(d->stream.fd))
        return failed(d, "%s", strerrordesc_np(ECONNREFUSED));
    if (setsockopt(d->stream.fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)) != 0)
        return failed(d, "%s", strerrordesc_np(errno));
    if (d->transport == TRANSPORT_TCP)
        return CONNECTED;
    if (!stream_secure_client(&d->stream, d->tls, d->host))
        return failed(d, "no memory");
    return shake(d);
}

static enum outcome finish_connect(struct dial *d)
{
    int error = 0;
    socklen_t len = sizeof(error);
    if (getsockopt(d->stream.fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        error = errno;
    return error ? failed(d, "%s", strerrordesc_np(error)) : connected(d);
}

static socklen_t address_len(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET    ? sizeof(struct sockaddr_in)
           : address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                            : sizeof(struct sockaddr_un);
}

static enum outcome connect_now(struct dial *d)
{
    const struct sockaddr_storage *to = &d->addresses[d->at];
    if (connect(d->stream.fd, (const struct sockaddr *)to, address_len(to)) == 0)
        return connected(d);
    if (errno == EINPROGRESS || errno == EINTR)
        return await(d, STEP_CONNECT, LOOP_WRITE);
    if (errno == EAGAIN && d->transport == TRANSPORT_UNIX) {
        d->step = STEP_FULL;
        d->retry_ns = now_ns(d) + FULL_RETRY_NS;
        return GOING;
    }
    return failed(d, "%s", strerrordesc_np(errno));
}

/* Starts an attempt with the current address. */
static enum outcome attempt(struct dial *d)
{
    int64_t left_ns = d->end_ns - now_ns(d);
    d->attempt_ns = left_ns > 0 ? left_ns / (d->count - d->at) : 0;
    d->attempt_end_ns = now_ns(d) + d->attempt_ns;
    int fd = socket(d->addresses[d->at].ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return failed(d, "%s", strerrordesc_np(errno));
    d->stream = (struct stream){.fd = fd, .transport = (uint8_t)d->transport};
    return connect_now(d);
}

static enum outcome attempt_too_long(struct dial *d)
{
    return failed(d, "%s within %.1f s",
                  d->step == STEP_HANDSHAKE ? "TLS handshake: not done"
                  : d->step == STEP_FULL    ? "the server accepts no connection"
                                            : "no answer",
                  seconds(d->attempt_ns));
}

/* ---- lookup and start ------------------------------------------------------------------------ */

/* Handles the state of the lookup. */
static enum outcome look(struct dial *d)
{
    const struct lookup_result *result = lookup_result(d->lookup);
    if (result->state == LOOKUP_PENDING)
        return GOING;
    if (result->state == LOOKUP_FAILED)
        return failed(d, "%s", result->why);
    d->count = result->count;
    memcpy(d->addresses, result->addresses, sizeof(d->addresses));
    lookup_free(&d->lookup);
    return attempt(d);
}

static void on_lookup(void *arg);

static enum outcome begin(struct dial *d)
{
    if (d->wrong)
        return failed(d, "%s", d->wrong);
    if (d->count > 0) /* a unix socket */
        return attempt(d);
    d->step = STEP_LOOKUP;
    d->lookup = lookup_start(d->reactor->loop, d->host, d->port, d->end_ns - now_ns(d),
                             *d->name_servers ? d->name_servers : NULL, on_lookup, d);
    return d->lookup ? look(d) : failed(d, "no memory");
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void dial_free(struct dial *d)
{
    drop(d);
    lookup_free(&d->lookup);
    tls_free(&d->tls);
    free(d);
}

/* Ends the dial: frees it, then calls `done`. The caller has removed its timer. */
static void end(struct dial *d, bool good)
{
    dial_done_fn *done = d->done;
    void *arg = d->arg;
    struct stream stream = {.fd = -1};
    char reason[DIAL_REASON_SIZE];
    memcpy(reason, d->reason, d->reason_len + 1);
    if (good) {
        loop_io_remove(d->reactor->loop, &d->io);
        stream = d->stream;
        d->stream = (struct stream){.fd = -1};
    }
    dial_free(d);
    done(arg, good ? &stream : NULL, good ? NULL : reason);
}

/* The time for which the timer must be set. */
static int64_t due_ns(const struct dial *d)
{
    if (d->step == STEP_LOOKUP) {
        int64_t wait_ns = lookup_wait_ns(d->lookup), left_ns = d->end_ns - now_ns(d);
        return wait_ns < left_ns ? now_ns(d) + wait_ns : d->end_ns;
    }
    if (d->step == STEP_FULL && d->retry_ns < d->attempt_end_ns)
        return d->retry_ns;
    return d->attempt_end_ns;
}

/*
 * After a failed step, tries the next addresses, until a step does not fail or no address is left.
 */
static enum outcome advance(struct dial *d, enum outcome outcome)
{
    while (outcome == FAILED) {
        drop(d);
        if (d->at + 1 >= d->count || now_ns(d) >= d->end_ns)
            break;
        d->at++;
        outcome = attempt(d);
    }
    return outcome;
}

/* Continues after a step with this outcome; may free the dial. The timer's own callback must not
 * use it. */
static void go_on(struct dial *d, enum outcome outcome)
{
    outcome = advance(d, outcome);
    if (outcome == GOING) {
        reactor_set_timer(d->reactor, &d->timer, due_ns(d));
        return;
    }
    reactor_remove_timer(d->reactor, &d->timer);
    end(d, outcome == CONNECTED);
}

static void on_ready(struct loop_io *io, unsigned what)
{
    struct dial *d = container_of(io, struct dial, io);
    (void)what;
    go_on(d, d->step == STEP_CONNECT ? finish_connect(d) : shake(d));
}

static void on_lookup(void *arg)
{
    struct dial *d = arg;
    go_on(d, look(d));
}

/* Handles the timer for the current step, and returns the outcome. */
static enum outcome pass(struct dial *d)
{
    if (d->step == STEP_BEGIN)
        return begin(d);
    if (d->step == STEP_LOOKUP && now_ns(d) < d->end_ns) {
        lookup_time_passed(d->lookup);
        return look(d);
    }
    if (d->step == STEP_LOOKUP)
        return failed(d, "no answer from the name servers within %.1f s", seconds(d->limit_ns));
    if (now_ns(d) >= d->attempt_end_ns)
        return attempt_too_long(d);
    return d->step == STEP_FULL ? connect_now(d) : GOING;
}

static int64_t on_time(struct timer *timer, struct moment now)
{
    struct dial *d = container_of(timer, struct dial, timer);
    (void)now;
    enum outcome outcome = advance(d, pass(d));
    if (outcome == GOING)
        return due_ns(d);
    end(d, outcome == CONNECTED);
    return TIMER_OVER;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Copies the target, except the name servers. An error in it is kept and reported by the first
 * step. */
static void take_target(struct dial *d, const struct dial_target *target)
{
    d->transport = target->transport;
    if (target->transport == TRANSPORT_UNIX) {
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        say(d, "%s", target->path);
        if (!*target->path)
            d->wrong = "no path";
        else if (strlen(target->path) >= sizeof(un.sun_path))
            d->wrong = "the path is too long for a socket";
        snprintf(un.sun_path, sizeof(un.sun_path), "%s", target->path);
        memcpy(&d->addresses[0], &un, sizeof(un));
        d->count = 1;
        return;
    }
    CHECK((target->tls != NULL) == (target->transport == TRANSPORT_TLS));
    say(d, strchr(target->host, ':') ? "[%s]:%u" : "%s:%u", target->host, target->port);
    if (!*target->host)
        d->wrong = "no host";
    else if (strlen(target->host) >= sizeof(d->host))
        d->wrong = "the host's name is too long";
    snprintf(d->host, sizeof(d->host), "%s", target->host);
    d->port = target->port;
    if (target->tls)
        d->tls = tls_share(target->tls);
}

struct dial *dial_start(struct reactor *reactor, const struct dial_target *target, int64_t limit_ns,
                        dial_done_fn *done, void *arg)
{
    CHECK(limit_ns > 0);
    const char *name_servers = target->name_servers ? target->name_servers : "";
    size_t size = strlen(name_servers) + 1;
    struct dial *d = calloc(1, sizeof(*d) + size);
    if (!d)
        return NULL;
    d->timer.run = on_time;
    if (!reactor_add_timer(reactor, &d->timer, reactor->now.mono_ns)) { /* begins in the loop */
        free(d);
        return NULL;
    }
    d->reactor = reactor;
    d->done = done;
    d->arg = arg;
    d->limit_ns = limit_ns;
    d->end_ns = now_ns(d) + limit_ns;
    d->stream.fd = -1;
    memcpy(d->name_servers, name_servers, size);
    take_target(d, target);
    return d;
}

void dial_cancel(struct dial **dial)
{
    struct dial *d = *dial;
    *dial = NULL;
    if (!d)
        return;
    reactor_remove_timer(d->reactor, &d->timer);
    dial_free(d);
}
