/*
 * loop.c - the event loop (loop.h), on poll.
 */
#include "cli/loop.h"

#include "base/clock.h"
#include "cli/text.h"

#include <errno.h>
#include <stdlib.h>

/* ---- watches --------------------------------------------------------------------------------- */

void watch_set(struct loop *loop, struct watch *watch, int fd, short events)
{
    watch->fd = fd;
    watch->events = events;
    if (watch->place)
        return;
    size_t room = loop->room;
    loop->watches = array_grow(loop->watches, loop->count, &room, sizeof(struct watch *));
    loop->fds = array_grow(loop->fds, loop->count, &loop->room, sizeof *loop->fds);
    loop->watches[loop->count] = watch;
    watch->place = ++loop->count;
}

void watch_clear(struct loop *loop, struct watch *watch)
{
    if (watch->place)
        loop->watches[watch->place - 1] = NULL;
    watch->place = 0;
}

/* Removes cleared watches from the list, and fills poll's array. */
static void prepare(struct loop *loop)
{
    size_t count = 0;
    for (size_t i = 0; i < loop->count; i++) {
        struct watch *watch = loop->watches[i];
        if (!watch)
            continue;
        loop->fds[count] = (struct pollfd){.fd = watch->fd, .events = watch->events};
        loop->watches[count] = watch;
        watch->place = ++count;
    }
    loop->count = count;
}

/* ---- timers ---------------------------------------------------------------------------------- */

void timer_set(struct loop *loop, struct timer *timer, int64_t at_ns)
{
    if (!deadline_is_set(&timer->deadline) && !deadlines_reserve(&loop->timers, 1))
        out_of_memory();
    deadline_set(&loop->timers, &timer->deadline, at_ns);
}

int64_t pause_longer(int64_t *pause_ns)
{
    if (*pause_ns == 0)
        *pause_ns = PAUSE_MIN_NS;
    else
        *pause_ns = *pause_ns < PAUSE_MAX_NS / 2 ? 2 * *pause_ns : PAUSE_MAX_NS;
    return *pause_ns;
}

void timer_clear(struct loop *loop, struct timer *timer)
{
    if (!deadline_is_set(&timer->deadline))
        return;
    deadline_clear(&loop->timers, &timer->deadline);
    deadlines_unreserve(&loop->timers, 1);
}

static void call_due(struct loop *loop)
{
    int64_t now = clock_mono_ns();
    struct deadline *due;
    while (!loop->is_over && (due = deadlines_take_due(&loop->timers, now))) {
        struct timer *timer = container_of(due, struct timer, deadline);
        deadlines_unreserve(&loop->timers, 1);
        if (timer->on_due)
            timer->on_due(timer->owner);
    }
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* Waits for the first descriptor or timer. Returns the number of watches polled. */
static size_t wait(struct loop *loop)
{
    int64_t next = deadlines_next(&loop->timers), now = clock_mono_ns();
    int64_t left = next > now ? next - now : 0;
    struct timespec timeout = {.tv_sec = left / NS_PER_S, .tv_nsec = left % NS_PER_S};
    prepare(loop);
    int ready = ppoll(loop->fds, loop->count, next == DEADLINE_NONE ? NULL : &timeout, NULL);
    CHECK(ready >= 0 || errno == EINTR);
    return ready > 0 ? loop->count : 0;
}

int loop_run(struct loop *loop)
{
    CHECK(!loop->is_running);
    loop->is_running = true;
    loop->is_over = false;
    while (!loop->is_over) {
        if (loop->before_wait)
            loop->before_wait(loop->owner);
        if (loop->is_over)
            break;
        size_t count = wait(loop);
        for (size_t i = 0; i < count && !loop->is_over; i++) {
            struct watch *watch = loop->watches[i]; /* an earlier callback may have cleared it */
            if (watch && loop->fds[i].revents)
                watch->on_ready(watch->owner, loop->fds[i].revents);
        }
        call_due(loop);
    }
    loop->is_running = false;
    return loop->result;
}

void loop_end(struct loop *loop, int result)
{
    loop->is_over = true;
    loop->result = result;
}

void loop_free(struct loop *loop)
{
    deadlines_free(&loop->timers);
    free(loop->watches);
    free(loop->fds);
    *loop = (struct loop){0};
}
