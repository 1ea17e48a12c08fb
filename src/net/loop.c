/*
 * loop.c - the loop on epoll. The wake-up is an eventfd, the only part that other threads touch.
 * Nobody reads it, because it is edge-triggered: each write is reported once.
 *
 * epoll returns pointers to the descriptors that are ready. A handler may remove any of them and
 * free it at once. So loop_io_remove also deletes the pointer from the events that were not yet
 * handled.
 *
 * We use no event library: one with a record and a map entry for each descriptor costs about 200
 * bytes a connection and 300 instructions an event, and we would use nothing else of it.
 */
#include "net/loop.h"
#include "base/steps.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Maximum number of descriptors handled in an iteration. The kernel reports the others in later
 * iterations, in turn. */
#define TURN_EVENTS 256

struct loop {
    struct loop_handlers handlers;
    int epoll_fd;
    struct loop_io bell;
    int64_t timer_at_ns; /* INT64_MAX: unset */
    int64_t busy_ns;     /* set by loop_busy_poll */
    bool rung, soon, stopped;
    bool coarse;   /* the kernel supports only whole milliseconds */
    int at, ready; /* `events` from `at` to `ready` were not handled yet */
    struct epoll_event events[TURN_EVENTS];
};

/* ---- descriptors ----------------------------------------------------------------------------- */

_Static_assert(LOOP_READ == EPOLLIN && LOOP_WRITE == EPOLLOUT && LOOP_GONE == EPOLLRDHUP &&
                   LOOP_MARK == EPOLLPRI && LOOP_ONCE == (uint32_t)EPOLLET &&
                   LOOP_SHARED == (uint32_t)EPOLLEXCLUSIVE,
               "flags are epoll's events");

/* What of epoll's events is wanted. */
static unsigned readiness(uint32_t events, unsigned wanted)
{
    /* On an error, reports everything that is wanted: the next read or write returns the error, and
     * LOOP_GONE reaches an owner that does neither. */
    if (unlikely(events & (EPOLLERR | EPOLLHUP)))
        events |= EPOLLIN | EPOLLOUT | EPOLLRDHUP;
    return wanted & events;
}

/* Deletes a descriptor from the unhandled events. */
static void strike(struct loop *loop, const struct loop_io *io)
{
    for (int i = loop->at; i < loop->ready; i++) {
        if (loop->events[i].data.ptr == io)
            loop->events[i].data.ptr = NULL;
    }
}

bool loop_io_add(struct loop *loop, struct loop_io *io, int fd, unsigned wanted, loop_io_fn *fn)
{
    *io = (struct loop_io){.fn = fn, .fd = fd};
    if (loop_io_want(loop, io, wanted))
        return true;
    io->fn = NULL;
    return false;
}

bool loop_io_want(struct loop *loop, struct loop_io *io, unsigned wanted)
{
    if (wanted == io->wanted)
        return true;
    /* With nothing wanted the descriptor leaves epoll, which would report errors otherwise. */
    int what = !io->wanted ? EPOLL_CTL_ADD : wanted ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
    struct epoll_event event = {.events = wanted, .data.ptr = io};
    if (epoll_ctl(loop->epoll_fd, what, io->fd, &event) == 0) {
        io->wanted = wanted;
        return true;
    }
    CHECK(errno == ENOMEM || errno == ENOSPC);
    io->wanted = 0; /* only ADD needs memory */
    return false;
}

void loop_io_remove(struct loop *loop, struct loop_io *io)
{
    if (!io->fn)
        return;
    CHECK(loop_io_want(loop, io, 0));
    strike(loop, io);
    io->fn = NULL;
}

/* ---- wake-up --------------------------------------------------------------------------------- */

static void on_bell(struct loop_io *io, unsigned what)
{
    (void)what;
    container_of(io, struct loop, bell)->rung = true;
}

void loop_ring(struct loop *loop)
{
    uint64_t one = 1;
    ssize_t n;
    do {
        n = write(loop->bell.fd, &one, sizeof(one));
    } while (n < 0 && errno == EINTR);
    CHECK(n == (ssize_t)sizeof(one)); /* fails only after 2^64 rings */
}

/* ---- life ------------------------------------------------------------------------------------ */

struct loop *loop_new(const struct loop_handlers *handlers)
{
    struct loop *loop = calloc(1, sizeof(*loop));
    if (!loop)
        return NULL;
    loop->handlers = *handlers;
    loop->timer_at_ns = INT64_MAX;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int bell_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (loop->epoll_fd >= 0 && bell_fd >= 0 &&
        loop_io_add(loop, &loop->bell, bell_fd, LOOP_READ | LOOP_ONCE, on_bell))
        return loop;
    int error = errno;
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    if (bell_fd >= 0)
        close(bell_fd);
    free(loop);
    errno = error;
    return NULL;
}

void loop_free(struct loop **loop)
{
    struct loop *l = *loop;
    if (!l)
        return;
    *loop = NULL;
    close(l->bell.fd);
    close(l->epoll_fd);
    free(l);
}

void loop_stop(struct loop *loop)
{
    loop->stopped = true;
}

void loop_timer_at(struct loop *loop, int64_t at_ns)
{
    loop->timer_at_ns = at_ns;
}

void loop_busy_poll(struct loop *loop, int64_t busy_ns)
{
    loop->busy_ns = busy_ns;
}

void loop_soon(struct loop *loop)
{
    loop->soon = true;
}

/* ---- iterations ------------------------------------------------------------------------------ */

/* Polls for events without sleeping, until `until_ns` or until the timer is due. */
static int poll_busily(struct loop *loop, int64_t until_ns)
{
    if (until_ns > loop->timer_at_ns)
        until_ns = loop->timer_at_ns;
    int n;
    do {
        n = epoll_wait(loop->epoll_fd, loop->events, TURN_EVENTS, 0);
    } while (n == 0 && clock_mono_ns() < until_ns);
    return n;
}

/* Waits for events until the timer is due, or does not wait when work is pending. `now_ns` is the
 * time. */
static int await(struct loop *loop, int64_t now_ns)
{
    int64_t wait_ns = INT64_MAX; /* no limit */
    if (loop->soon || loop->rung || loop->timer_at_ns <= now_ns)
        wait_ns = 0;
    else if (loop->timer_at_ns != INT64_MAX)
        wait_ns = loop->timer_at_ns - now_ns;
    if (unlikely(loop->busy_ns > 0) && wait_ns > 0) {
        int n = poll_busily(loop, now_ns + loop->busy_ns);
        if (n != 0 || loop->timer_at_ns <= now_ns + loop->busy_ns)
            return n;
        if (loop->timer_at_ns != INT64_MAX)
            wait_ns -= loop->busy_ns;
    }
    if (!loop->coarse) {
        struct timespec ts = {.tv_sec = wait_ns / NS_PER_S, .tv_nsec = wait_ns % NS_PER_S};
        int n = epoll_pwait2(loop->epoll_fd, loop->events, TURN_EVENTS,
                             wait_ns == INT64_MAX ? NULL : &ts, NULL);
        if (n >= 0 || (errno != ENOSYS && errno != EPERM))
            return n;
        loop->coarse = true; /* the kernel is older than 5.11, or forbids the call */
    }
    /* Rounds up: waking before the timer is due would be useless. */
    int64_t wait_ms = wait_ns / NS_PER_MS + (wait_ns % NS_PER_MS != 0);
    int ms = wait_ns == INT64_MAX ? -1 : wait_ms < INT_MAX ? (int)wait_ms : INT_MAX;
    return epoll_wait(loop->epoll_fd, loop->events, TURN_EVENTS, ms);
}

/* Prefetches the memory of the next descriptor and the bytes after it. */
static inline void fetch_next(const struct loop *loop)
{
    const char *next = loop->events[loop->at].data.ptr;
    for (size_t at = 0; at < 256; at += 64)
        __builtin_prefetch(next + at, 1);
}

static void tell_descriptors(struct loop *loop)
{
    while (loop->at < loop->ready && !loop->stopped) {
        const struct epoll_event *event = &loop->events[loop->at++];
        if (loop->at < loop->ready)
            fetch_next(loop);
        struct loop_io *io = event->data.ptr;
        if (!io)
            continue;
        unsigned what = readiness(event->events, io->wanted);
        if (what)
            io->fn(io, what);
    }
    loop->at = loop->ready = 0;
}

void loop_run(struct loop *loop)
{
    const struct loop_handlers *h = &loop->handlers;
    int64_t now_ns = h->begin(h->arg);
    loop->stopped = false;
    while (!loop->stopped) {
        int ready = await(loop, now_ns);
        CHECK(ready >= 0 || errno == EINTR);
        steps_begin(STEPS_LOOP);
        bool soon = loop->soon;
        loop->soon = false;
        now_ns = h->begin(h->arg);
        loop->ready = ready > 0 ? ready : 0;
        tell_descriptors(loop);
        if (loop->rung && !loop->stopped) {
            loop->rung = false;
            h->bell(h->arg);
        }
        if (loop->timer_at_ns <= now_ns && !loop->stopped) {
            loop->timer_at_ns = INT64_MAX;
            h->timer(h->arg);
        }
        if (soon && !loop->stopped)
            h->soon(h->arg);
        else if (soon)
            loop->soon = true;
        now_ns = h->end(h->arg);
        steps_end(STEPS_LOOP);
    }
}
