/* A member of a pool: which GPU is mine, and since when. The daemon needs
   pool.gpu.members = gpu0=/dev/nvidia0 */
#include "example.h"

/* Stands for the device, which refuses fences below the highest that it has seen. */
static void use(struct counter_bytes device, uint64_t fence)
{
    static uint64_t highest;
    if (fence < highest) {
        fprintf(stderr, "another program has this device by now\n");
        exit(EXIT_FAILURE);
    }
    highest = fence;
    printf("working on %.*s\n", (int)device.len, (const char *)device.data);
}

int main(void)
{
    counter_client *client = opened();
    struct counter_member_args args = COUNTER_MEMBER_ARGS;
    args.by = counter_str("member.c");
    for (int i = 0; i < 2; i++) {
        counter_op *op = done(counter_member(client, counter_str("gpu"), &args));
        counter_hold *hold = counter_take_hold(op);
        counter_op_free(op);
        const struct counter_member *gpu = counter_hold_member(hold, 0);
        use(gpu->value.data ? gpu->value : gpu->name, gpu->fence);
        counter_op_free(done(counter_release(hold, true))); /* false: it returns as failed */
    }
    printf("gave it back\n");
    counter_close(client);
    return 0;
}
