/*
 * loop.c - the loop on libevent, used without its locks: each base belongs to one thread. The bell
 * is an eventfd, the one thing other threads touch. This is the only file that includes libevent.
 */
#include "net/loop.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct loop {
    struct loop_handlers handlers;
    struct event_base *base;
    struct event bell, timer, soon;
    int bell_fd;
    int64_t timer_at_ns;
};

_Static_assert(sizeof(struct event) <= sizeof(((struct loop_io *)0)->event), "an event fits");
_Static_assert(_Alignof(struct event) <= 8, "an event fits");

static void on_bell(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct loop *loop = arg;
    uint64_t rings;
    ssize_t n = read(fd, &rings, sizeof(rings));
    CHECK(n == (ssize_t)sizeof(rings) || (n < 0 && (errno == EAGAIN || errno == EINTR)));
    loop->handlers.bell(loop->handlers.arg);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct loop *loop = arg;
    loop->timer_at_ns = INT64_MAX;
    loop->handlers.timer(loop->handlers.arg);
}

static void on_soon(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct loop *loop = arg;
    loop->handlers.soon(loop->handlers.arg);
}

static struct event_base *new_base(void)
{
    struct event_config *config = event_config_new();
    if (!config)
        return NULL;
    struct event_base *base = NULL;
    /* Cached time would make timers late by as long as a turn takes. */
    if (event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK) == 0 &&
        event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER) == 0 &&
        event_config_set_flag(config, EVENT_BASE_FLAG_NO_CACHE_TIME) == 0 &&
        event_config_require_features(config, EV_FEATURE_EARLY_CLOSE) == 0)
        base = event_base_new_with_config(config);
    event_config_free(config);
    return base;
}

/* What libevent has to say goes where everything goes. */
static void log_event(int severity, const char *text)
{
    if (severity >= EVENT_LOG_ERR)
        log_error("libevent: %s", text);
    else if (severity == EVENT_LOG_WARN)
        log_warning("libevent: %s", text);
    else
        log_debug("libevent: %s", text);
}

struct loop *loop_new(const struct loop_handlers *handlers)
{
    event_set_log_callback(log_event); /* the loops are made by one thread, before others run */
    struct loop *loop = calloc(1, sizeof(*loop));
    if (!loop)
        return NULL;
    loop->handlers = *handlers;
    loop->timer_at_ns = INT64_MAX;
    loop->bell_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (loop->bell_fd < 0)
        goto no_bell;
    loop->base = new_base();
    if (!loop->base)
        goto no_base;
    event_assign(&loop->bell, loop->base, loop->bell_fd, EV_READ | EV_PERSIST, on_bell, loop);
    event_assign(&loop->timer, loop->base, -1, 0, on_timer, loop);
    event_assign(&loop->soon, loop->base, -1, 0, on_soon, loop);
    /* Once both timers have been added, there is room for them: later it can't fail. */
    struct timeval now = {0};
    if (event_add(&loop->bell, NULL) != 0 || event_add(&loop->timer, &now) != 0 ||
        event_add(&loop->soon, &now) != 0)
        goto no_event;
    event_del(&loop->timer);
    event_del(&loop->soon);
    return loop;

no_event:
    event_base_free(loop->base);
no_base:
    close(loop->bell_fd);
no_bell:
    free(loop);
    return NULL;
}

void loop_free(struct loop **loop)
{
    struct loop *l = *loop;
    if (!l)
        return;
    *loop = NULL;
    event_del(&l->bell);
    event_del(&l->timer);
    event_del(&l->soon);
    event_base_free(l->base);
    close(l->bell_fd);
    free(l);
}

void loop_run(struct loop *loop)
{
    CHECK(event_base_loop(loop->base, EVLOOP_NO_EXIT_ON_EMPTY) == 0);
}

void loop_stop(struct loop *loop)
{
    event_base_loopbreak(loop->base);
}

void loop_ring(struct loop *loop)
{
    uint64_t one = 1;
    ssize_t n;
    do {
        n = write(loop->bell_fd, &one, sizeof(one));
    } while (n < 0 && errno == EINTR);
    /* EAGAIN: it has been rung 2^64 times already; it will be heard. */
    CHECK(n == (ssize_t)sizeof(one) || errno == EAGAIN);
}

void loop_timer_at(struct loop *loop, int64_t at_ns)
{
    if (at_ns == loop->timer_at_ns)
        return;
    loop->timer_at_ns = at_ns;
    if (at_ns == INT64_MAX) {
        event_del(&loop->timer);
        return;
    }
    int64_t wait_ns = at_ns - clock_mono_ns();
    if (wait_ns < 0)
        wait_ns = 0;
    /* Rounded up, and one more, as the library cuts what it adds this to: a timer that fires early
     * is looked at for nothing. */
    int64_t wait_us = wait_ns / 1000 + 2;
    struct timeval tv = {.tv_sec = wait_us / 1000000, .tv_usec = wait_us % 1000000};
    CHECK(event_add(&loop->timer, &tv) == 0);
}

void loop_soon(struct loop *loop)
{
    struct timeval now = {0};
    if (!event_pending(&loop->soon, EV_TIMEOUT, NULL))
        CHECK(event_add(&loop->soon, &now) == 0);
}

static struct event *event_of(struct loop_io *io)
{
    return (struct event *)(void *)io->event;
}

static void on_io(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    struct loop_io *io = arg;
    io->fn(io->arg, (what & EV_READ ? LOOP_READ : 0) | (what & EV_WRITE ? LOOP_WRITE : 0) |
                        (what & EV_CLOSED ? LOOP_GONE : 0));
}

bool loop_io_add(struct loop *loop, struct loop_io *io, int fd, unsigned wanted, loop_io_fn *fn,
                 void *arg)
{
    io->loop = loop;
    io->fn = fn;
    io->arg = arg;
    io->fd = fd;
    io->wanted = 0;
    if (loop_io_want(io, wanted))
        return true;
    io->loop = NULL;
    return false;
}

bool loop_io_want(struct loop_io *io, unsigned wanted)
{
    if (wanted == io->wanted)
        return true;
    struct event *event = event_of(io);
    if (io->wanted)
        event_del(event);
    io->wanted = 0;
    if (!wanted)
        return true;
    short what = EV_PERSIST;
    if (wanted & LOOP_READ)
        what |= EV_READ;
    if (wanted & LOOP_WRITE)
        what |= EV_WRITE;
    if (wanted & LOOP_GONE)
        what |= EV_CLOSED;
    event_assign(event, io->loop->base, io->fd, what, on_io, io);
    if (event_add(event, NULL) != 0)
        return false;
    io->wanted = wanted;
    return true;
}

void loop_io_remove(struct loop_io *io)
{
    if (!io->loop)
        return;
    if (io->wanted)
        event_del(event_of(io));
    io->wanted = 0;
    io->loop = NULL;
}
