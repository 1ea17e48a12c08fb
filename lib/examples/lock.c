/* A lock with a bounded queue: few render a page at once, others wait or are refused. */
#include <counter.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    struct counter_error error = COUNTER_ERROR;
    counter_client *client = counter_open(NULL, &error); /* $COUNTER_URL, or this machine */
    if (!client) {
        fprintf(stderr, "%s: %s\n", counter_status_name(error.status), error.reason);
        return EXIT_FAILURE;
    }
    struct counter_lock_args args = COUNTER_LOCK_ARGS;
    args.queue = 2; /* one renders, one waits */
    args.timeout = 5;
    counter_op *op = counter_lock(client, counter_str("render:42"), &args);
    int status = op ? counter_run(op) : COUNTER_NO_MEMORY;
    counter_hold *lock = op ? counter_take_hold(op) : NULL;
    if (lock) {
        printf("rendering, lost: %s\n", counter_hold_check(lock) == COUNTER_OK ? "no" : "yes");

        args.timeout = 0.2;
        counter_op *other = counter_lock(client, counter_str("render:42"), &args);
        if (other && counter_run(other) == COUNTER_BUSY)
            printf("another one renders: %s\n", counter_op_error(other)->answer);
        counter_op_free(other);

        counter_op *end = counter_release(lock, true); /* the lock goes with `end` */
        status = end ? counter_run(end) : COUNTER_NO_MEMORY;
        counter_op_free(end);
        printf("released: %s\n", counter_status_name(status));
    } else if (op) {
        fprintf(stderr, "no lock: %s %s\n", counter_op_error(op)->answer,
                counter_op_error(op)->reason);
    }
    counter_op_free(op);
    counter_close(client);
    return status == COUNTER_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
