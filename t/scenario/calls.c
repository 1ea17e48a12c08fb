/*
 * calls.c - counterd in trouble: the daemon, with system calls of its workers replaced by the
 * linker (--wrap). At random, as the environment says, they are interrupted, are not ready, or move
 * one byte.
 *
 *     CALLS_SEED=N     one call in 3 is troubled, as this seed chooses
 *
 * epoll tells of a connection's bytes only once. So after a read that this program has cut short or
 * refused it arms the descriptor again (`tell_again`), as if the rest came later. A descriptor
 * belongs to one thread; nothing is locked. With one seed in four, the first accept of each worker
 * fails SPELL times, in half of these runs because no descriptors are left: the daemon must rest in
 * between, not try for as long as a processor can.
 */
#include "t/unit/rng.h"

#include <errno.h>
#include <openssl/err.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#define FDS   4096
#define SPELL 20

enum trouble { NONE, INTERRUPTED, AGAIN, ONE_BYTE };

static uint64_t seed;

static _Thread_local struct {
    bool is_worker;
    struct rng rng;
    bool any_again;
    unsigned spell; /* tries to accept that have failed */
    time_t spell_ms;
} here;

/* The descriptors of this thread's loop. */
static _Thread_local struct {
    struct epoll_event event;
    bool watched, again;
} watches[FDS];

/* A thread says its name once, before it gives up the right to ask for it. */
int __real_pthread_setname_np(pthread_t thread, const char *name);
int __wrap_pthread_setname_np(pthread_t thread, const char *name);
int __wrap_pthread_setname_np(pthread_t thread, const char *name)
{
    here.is_worker = strncmp(name, "worker", 6) == 0;
    here.rng.state = seed ^ (uint64_t)(unsigned char)name[strlen(name) - 1] << 32;
    return __real_pthread_setname_np(thread, name);
}

/* Chooses the trouble for this call, among these kinds (bits). */
static enum trouble befall(unsigned kinds)
{
    if (!seed || !here.is_worker || !rng_one_in(&here.rng, 3))
        return NONE;
    enum trouble kind = INTERRUPTED + (enum trouble)rng_below(&here.rng, 3);
    return kinds & 1u << kind ? kind : NONE;
}

/* The result of a call that did nothing. */
static int in_vain(enum trouble kind)
{
    errno = kind == INTERRUPTED ? EINTR : EAGAIN;
    return -1;
}

#define IS(kind) (1u << (kind))

ssize_t __real_recv(int fd, void *to, size_t room, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t room, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t room, int flags)
{
    enum trouble kind = befall(IS(INTERRUPTED) | IS(AGAIN) | IS(ONE_BYTE));
    if ((kind == AGAIN || kind == ONE_BYTE) && fd < FDS)
        watches[fd].again = here.any_again = true;
    if (kind == INTERRUPTED || kind == AGAIN)
        return in_vain(kind);
    return __real_recv(fd, to, kind == ONE_BYTE ? 1 : room, flags);
}

/* Eight bytes may be for an eventfd, which takes them at once. */
ssize_t __real_write(int fd, const void *from, size_t len);
ssize_t __wrap_write(int fd, const void *from, size_t len);
ssize_t __wrap_write(int fd, const void *from, size_t len)
{
    enum trouble kind = befall(IS(INTERRUPTED) | (len != 8 ? IS(AGAIN) | IS(ONE_BYTE) : 0));
    if (kind == INTERRUPTED || kind == AGAIN)
        return in_vain(kind);
    return __real_write(fd, from, kind == ONE_BYTE ? 1 : len);
}

ssize_t __real_writev(int fd, const struct iovec *parts, int count);
ssize_t __wrap_writev(int fd, const struct iovec *parts, int count);
ssize_t __wrap_writev(int fd, const struct iovec *parts, int count)
{
    enum trouble kind = befall(IS(INTERRUPTED) | IS(AGAIN) | IS(ONE_BYTE));
    if (kind == INTERRUPTED || kind == AGAIN)
        return in_vain(kind);
    return kind == ONE_BYTE ? __real_write(fd, parts->iov_base, 1)
                            : __real_writev(fd, parts, count);
}

static time_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool accept_fails(void)
{
    if (!seed || seed % 4 || !here.is_worker || here.spell > SPELL)
        return false;
    if (here.spell++ == 0)
        here.spell_ms = now_ms();
    if (here.spell <= SPELL)
        return true;
    if (now_ms() >= here.spell_ms + 500)
        return false;
    fprintf(stderr, "calls: %d tries to accept failed without a rest\n", SPELL);
    abort();
}

int __real_accept4(int fd, struct sockaddr *from, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *len, int flags)
{
    if (accept_fails()) {
        errno = seed % 8 ? ENETDOWN : EMFILE;
        return -1;
    }
    enum trouble kind = befall(IS(INTERRUPTED) | IS(AGAIN));
    return kind ? in_vain(kind) : __real_accept4(fd, from, len, flags);
}

/* The descriptor is closed in any case. */
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    enum trouble kind = befall(IS(INTERRUPTED));
    if (fd >= 0 && fd < FDS && here.is_worker)
        watches[fd].watched = watches[fd].again = false;
    int closed = __real_close(fd);
    return kind ? in_vain(kind) : closed;
}

int __real_epoll_ctl(int epoll_fd, int what, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll_fd, int what, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll_fd, int what, int fd, struct epoll_event *event)
{
    if (fd < FDS && here.is_worker) {
        watches[fd].watched = what != EPOLL_CTL_DEL;
        if (event)
            watches[fd].event = *event;
    }
    return __real_epoll_ctl(epoll_fd, what, fd, event);
}

/* Before a worker waits: it has left no error in OpenSSL's queue, which the next connection would
 * report as its own. */
static void tell_again(int epoll_fd)
{
    if (ERR_peek_error() != 0) {
        fprintf(stderr, "calls: OpenSSL's queue of errors was not emptied\n");
        abort();
    }
    for (int fd = 0; here.any_again && fd < FDS; fd++) {
        if (watches[fd].again && watches[fd].watched)
            (void)__real_epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &watches[fd].event);
        watches[fd].again = false;
    }
    here.any_again = false;
}

int __real_epoll_wait(int epoll_fd, struct epoll_event *events, int room, int timeout_ms);
int __wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int room, int timeout_ms);
int __wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int room, int timeout_ms)
{
    enum trouble kind = befall(IS(INTERRUPTED));
    if (here.is_worker)
        tell_again(epoll_fd);
    return kind ? in_vain(kind) : __real_epoll_wait(epoll_fd, events, room, timeout_ms);
}

/* With an odd seed the kernel is old: it has no epoll_pwait2, so timeouts are in milliseconds. */
int __real_epoll_pwait2(int epoll_fd, struct epoll_event *events, int room,
                        const struct timespec *timeout, const sigset_t *mask);
int __wrap_epoll_pwait2(int epoll_fd, struct epoll_event *events, int room,
                        const struct timespec *timeout, const sigset_t *mask);
int __wrap_epoll_pwait2(int epoll_fd, struct epoll_event *events, int room,
                        const struct timespec *timeout, const sigset_t *mask)
{
    if (seed % 2) {
        errno = ENOSYS;
        return -1;
    }
    enum trouble kind = befall(IS(INTERRUPTED));
    if (here.is_worker)
        tell_again(epoll_fd);
    return kind ? in_vain(kind) : __real_epoll_pwait2(epoll_fd, events, room, timeout, mask);
}

__attribute__((constructor)) static void take_orders(void)
{
    const char *of_seed = getenv("CALLS_SEED");
    seed = of_seed ? strtoull(of_seed, NULL, 10) : 0;
}
