/* Puts jobs: one with a key, which is put once however often it is tried, and many at once. */
#include "example.h"

static struct counter_row put(counter_client *client, const struct counter_put_args *args)
{
    counter_op *op =
        done(counter_put(client, counter_str("mail"), counter_str("Dear customer"), args));
    struct counter_row row = *counter_next_row(op);
    counter_op_free(op);
    return row;
}

static void clear(counter_client *client, const char *state)
{
    counter_op *op = done(counter_clear(client, counter_str("mail"), state));
    printf("%s: %u\n", state, (unsigned)counter_next_row(op)->number);
    counter_op_free(op);
}

int main(void)
{
    counter_client *client = opened();
    struct counter_put_args args = COUNTER_PUT_ARGS;
    args.key = counter_str("welcome-7");
    args.delay = 60;
    struct counter_row first = put(client, &args), second = put(client, &args);
    printf("the same job: %s\n", second.is_duplicate && second.id == first.id ? "yes" : "no");

    struct counter_new_job letters[3] = {{counter_str("letter 1"), NULL},
                                         {counter_str("letter 2"), NULL},
                                         {counter_str("letter 3"), NULL}};
    counter_op *op = done(counter_put_many(client, counter_str("mail"), letters, 3));
    unsigned more = 0;
    while (counter_next_row(op))
        more++;
    printf("%u more\n", more);
    counter_op_free(op);

    clear(client, "ready");
    clear(client, "delayed");
    counter_close(client);
    return 0;
}
