/* Units of a limit: at most 10 calls of an interface at once, of which this program makes 3. */
#include "example.h"

static unsigned in_use(counter_client *client)
{
    counter_op *op = done(counter_usage(client, counter_str("api")));
    unsigned number = (unsigned)counter_next_row(op)->number;
    counter_op_free(op);
    return number;
}

int main(void)
{
    counter_client *client = opened();
    struct counter_units_args args = COUNTER_UNITS_ARGS;
    args.count = 3;
    args.limit = 10;
    counter_op *op = done(counter_units(client, counter_str("api"), &args));
    counter_hold *units = counter_take_hold(op);
    counter_op_free(op);
    printf("%u calls, %u in use\n", args.count, in_use(client));

    args.count = 8;
    op = counter_units(client, counter_str("api"), &args);
    if (op && counter_run(op) == COUNTER_BUSY)
        printf("8 more are too many\n");
    counter_op_free(op);

    counter_op_free(done(counter_release(units, true)));
    printf("%u in use\n", in_use(client));
    counter_close(client);
    return 0;
}
