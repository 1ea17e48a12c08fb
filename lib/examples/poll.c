/* Ten locks are waited for at once, in one loop of poll, and each loss would be seen there. */
#include "example.h"

#include <poll.h>

enum { PAGES = 10 };

int main(void)
{
    counter_client *client = opened();
    counter_op *ops[PAGES];
    counter_hold *locks[PAGES] = {0};
    int under_way = PAGES, held = 0;
    counter_resolve(client); /* counter_step never asks for names */
    for (int i = 0; i < PAGES; i++) {
        char name[32];
        snprintf(name, sizeof(name), "page:%d", i);
        ops[i] = counter_lock(client, counter_str(name), NULL);
        if (!ops[i])
            return EXIT_FAILURE;
    }
    while (under_way > 0) {
        struct pollfd fds[PAGES];
        int wait_ms = -1;
        for (int i = 0; i < PAGES; i++) {
            fds[i] = (struct pollfd){.fd = -1};
            if (!ops[i])
                continue;
            int status = counter_step(ops[i]); /* never waits */
            if (status != COUNTER_AGAIN) {
                locks[i] = counter_take_hold(ops[i]);
                held += locks[i] != NULL;
                counter_op_free(ops[i]);
                ops[i] = NULL;
                under_way--;
                continue;
            }
            fds[i] = (struct pollfd){.fd = counter_fd(ops[i]), .events = counter_events(ops[i])};
            int ms = counter_wait_ms(ops[i]);
            if (ms >= 0 && (wait_ms < 0 || ms < wait_ms))
                wait_ms = ms;
        }
        if (under_way > 0)
            poll(fds, PAGES, wait_ms);
    }
    printf("%d locks are held\n", held);
    for (int i = 0; i < PAGES; i++) {
        if (locks[i] &&
            counter_hold_check(locks[i]) != COUNTER_OK) /* also when its fd is readable */
            printf("page:%d is lost\n", i);
        counter_hold_free(locks[i]); /* closes the connection, which gives the lock back, too */
    }
    counter_close(client);
    return held == PAGES ? EXIT_SUCCESS : EXIT_FAILURE;
}
