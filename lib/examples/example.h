/* example.h - what the shorter examples share: they end with a message when a call fails. */
#include <counter.h>
#include <stdio.h>
#include <stdlib.h>

static inline counter_client *opened(void)
{
    struct counter_error error = COUNTER_ERROR;
    counter_client *client = counter_open(NULL, &error); /* $COUNTER_URL, or this machine */
    if (!client) {
        fprintf(stderr, "%s: %s\n", counter_status_name(error.status), error.reason);
        exit(EXIT_FAILURE);
    }
    return client;
}

/* Runs an operation that has to end well. */
static inline counter_op *done(counter_op *op)
{
    if (!op || counter_run(op) != COUNTER_OK) {
        const struct counter_error *error = op ? counter_op_error(op) : NULL;
        fprintf(stderr, "%s: %s %s\n", error ? counter_status_name(error->status) : "no memory",
                error ? error->answer : "", error ? error->reason : "");
        exit(EXIT_FAILURE);
    }
    return op;
}
