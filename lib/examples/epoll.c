/* An operation in a loop of epoll, which has to be told of each new socket of an operation, and to
   forget it in time: sockets live on, in holds and as idle connections. */
#include "example.h"

#include <sys/epoll.h>
#include <unistd.h>

/* What a loop keeps for each operation. */
struct watch {
    counter_op *op;
    int fd; /* that epoll has for it; -1: none */
    uint64_t serial;
};

static void forget(int epoll, struct watch *watch)
{
    if (watch->fd >= 0)
        (void)epoll_ctl(epoll, EPOLL_CTL_DEL, watch->fd, NULL); /* fails if it is closed: as well */
    watch->fd = -1;
}

/* Tells epoll what the operation waits for now. */
static void wait_for(int epoll, struct watch *watch)
{
    struct epoll_event event = {.events =
                                    (uint32_t)counter_events(watch->op), /* as poll has them */
                                .data = {.ptr = watch}};
    int how = EPOLL_CTL_MOD;
    if (watch->fd < 0 || watch->serial != counter_fd_serial(watch->op)) {
        if (watch->fd !=
            counter_fd(watch->op)) /* the same number: epoll has forgotten the old one */
            forget(epoll, watch);
        watch->fd = counter_fd(watch->op);
        watch->serial = counter_fd_serial(watch->op);
        how = EPOLL_CTL_ADD;
    }
    if (watch->fd >= 0 && epoll_ctl(epoll, how, watch->fd, &event) != 0)
        perror("epoll_ctl");
}

/* Steps until the operation ends, and frees it. Returns its hold. */
static counter_hold *run(int epoll, counter_op *op)
{
    struct watch watch = {.op = op, .fd = -1};
    int status = COUNTER_NO_MEMORY;
    while (op && (status = counter_step(op)) == COUNTER_AGAIN) {
        struct epoll_event happened; /* a loop with more operations steps that of data.ptr */
        wait_for(epoll, &watch);
        epoll_wait(epoll, &happened, 1, counter_wait_ms(op));
    }
    forget(epoll, &watch); /* before another operation has the connection */
    printf("%s\n", counter_status_name(status));
    counter_hold *hold = op ? counter_take_hold(op) : NULL;
    counter_op_free(op);
    return hold;
}

int main(void)
{
    counter_client *client = opened();
    counter_resolve(client); /* counter_step never asks for names */
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < 2; i++) {
        counter_hold *lock = run(epoll, counter_lock(client, counter_str("render:42"), NULL));
        if (!lock)
            return EXIT_FAILURE;
        (void)run(epoll, counter_release(lock, true));
    }
    counter_close(client);
    close(epoll);
    return 0;
}
