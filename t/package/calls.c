/* Takes a lock, puts and claims a job. t/package/inside builds it, shared and static. */
#include <counter.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "calls.c: %s\n", what);
        exit(1);
    }
}

/* Runs an operation, which must succeed. */
static counter_op *ran(counter_op *op)
{
    expect(op != NULL, "no memory");
    expect(counter_run(op) == COUNTER_OK, counter_op_error(op)->reason);
    return op;
}

/* Puts the job. Returns its id; 0: it is a duplicate. */
static uint64_t put(counter_client *client)
{
    struct counter_put_args args = COUNTER_PUT_ARGS;
    args.key = counter_str("once");
    counter_op *op = ran(counter_put(client, counter_str("calls"), counter_str("body"), &args));
    const struct counter_row *row = counter_next_row(op);
    uint64_t id = row->is_duplicate ? 0 : row->id;
    counter_op_free(op);
    return id;
}

int main(void)
{
    struct counter_error error = COUNTER_ERROR;
    counter_client *client = counter_open(NULL, &error);
    expect(client != NULL, error.reason);

    counter_op *op = ran(counter_lock(client, counter_str("calls"), NULL));
    counter_hold *lock = counter_take_hold(op);
    counter_op_free(op);
    op = ran(counter_usage(client, counter_str("calls")));
    expect(counter_hold_check(lock) == COUNTER_OK && counter_next_row(op)->number == 1,
           "the lock is not held");
    counter_op_free(op);
    counter_op_free(ran(counter_release(lock, true)));

    uint64_t id = put(client);
    expect(id != 0 && put(client) == 0, "the key is forgotten");
    struct counter_bytes tube = counter_str("calls");
    op = ran(counter_claim(client, &tube, 1, NULL));
    counter_job *job = counter_take_job(op);
    counter_op_free(op);
    expect(job != NULL, "no job");
    const struct counter_job_view *view = counter_job_view(job);
    expect(view->id == id && view->body.len == 4 && memcmp(view->body.data, "body", 4) == 0,
           "not the job that was put");
    counter_op_free(ran(counter_ack(job)));

    counter_close(client);
    puts("done");
    return 0;
}
