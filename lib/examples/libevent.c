/*
 * Operations in the loop of libevent: one event for each operation, which is set anew after each
 * step. cc libevent.c $(pkg-config --cflags --libs libcounter libevent_core)
 */
#include "example.h"

#include <event2/event.h>
#include <poll.h>

struct call {
    struct event_base *base;
    struct event *event; /* NULL: none yet */
    counter_op *op;
    void (*ended)(struct call *call, int status);
};

static void on_event(evutil_socket_t fd, short what, void *arg);

/* Steps the operation; then it has ended, or its event waits for what it says. */
static void go_on(struct call *call)
{
    if (call->event)
        event_free(call->event); /* before its descriptor may be closed */
    call->event = NULL;
    int status = counter_step(call->op);
    if (status != COUNTER_AGAIN) {
        call->ended(call, status);
        return;
    }
    short wanted = counter_events(call->op), events = 0;
    int ms = counter_wait_ms(call->op);
    struct timeval wait = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    if (wanted & POLLIN)
        events |= EV_READ;
    if (wanted & POLLOUT)
        events |= EV_WRITE;
    call->event = event_new(call->base, counter_fd(call->op), events, on_event, call);
    if (!call->event || event_add(call->event, ms >= 0 ? &wait : NULL) != 0)
        exit(EXIT_FAILURE);
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    go_on(arg);
}

static void released(struct call *call, int status)
{
    printf("released: %s\n", counter_status_name(status));
    counter_op_free(call->op);
    event_base_loopbreak(call->base);
}

static void locked(struct call *call, int status)
{
    counter_hold *lock = counter_take_hold(call->op);
    printf("locked: %s\n", counter_status_name(status));
    counter_op_free(call->op);
    call->op = counter_release(lock, true);
    call->ended = released;
    if (!call->op)
        event_base_loopbreak(call->base);
    else
        go_on(call);
}

int main(void)
{
    counter_client *client = opened();
    counter_resolve(client); /* counter_step never asks for names */
    struct call call = {.base = event_base_new(), .ended = locked};
    call.op = counter_lock(client, counter_str("render:42"), NULL);
    if (!call.base || !call.op)
        return EXIT_FAILURE;
    go_on(&call);
    event_base_dispatch(call.base);
    event_base_free(call.base);
    counter_close(client);
    return 0;
}
