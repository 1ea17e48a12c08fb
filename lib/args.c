/* args.c - see args.h. */
#include "lib/args.h"

bool args_take(struct counter_op *op, void *all, size_t room, const void *args)
{
    size_t size = sizeof(size);
    if (args)
        memcpy(&size, args, sizeof(size));
    if (size < sizeof(size)) {
        op_usage(op, "the size of the arguments is not set: initialise them with their macro");
        return false;
    }
    if (args)
        memcpy(all, args, size < room ? size : room);
    return true;
}

bool args_is_tube(struct counter_op *op, struct counter_bytes tube)
{
    if (tube.len > 0 && bs_is_tube_name(args_bytes(tube)))
        return true;
    op_usage(op, "a tube has 1 to 200 bytes of A-Za-z0-9-+/;.$_(), the first no '-'");
    return false;
}

bool args_find_state(struct counter_op *op, const char *word)
{
    enum bs_state state = bs_find_state(bytes_of(word));
    op->word = bs_state_words[state];
    if (state == BS_STATE_NONE)
        op_usage(op, "states are ready, delayed, reserved, buried, abandoned, all");
    return state != BS_STATE_NONE;
}

bool args_round_up(struct counter_op *op, double seconds, const char *reason, uint32_t *seconds_r)
{
    bool is_good = seconds >= 0 && seconds <= UINT32_MAX;
    if (is_good)
        *seconds_r = (uint32_t)seconds + (seconds > (uint32_t)seconds);
    else
        op_usage(op, reason);
    return is_good;
}

/* A unix time as milliseconds. Returns false when the wire can't say it. */
static bool read_unix(double seconds, int64_t *ms_r, bool *is_whole_r)
{
    if (!(seconds >= 0 && seconds * 1000 <= (double)BS_TIME_MAX_MS))
        return false;
    *ms_r = (int64_t)(seconds * 1000 + 0.5);
    *is_whole_r = seconds <= (double)(int64_t)seconds;
    return true;
}

bool args_put(struct counter_op *op, const struct counter_put_args *args, struct counter_bytes body,
              struct bs_request *put_r)
{
    struct counter_put_args all = COUNTER_PUT_ARGS;
    if (!ARGS_TAKE(op, all, args))
        return false;
    *put_r = (struct bs_request){.verb = BS_VERB_PUT_INTO,
                                 .pri = args->priority,
                                 .body_len = (uint32_t)body.len,
                                 .options = {.key = args_bytes(args->key),
                                             .root = args_bytes(args->root),
                                             .tries = args->tries,
                                             .has_tries = args->tries > 0,
                                             .has_at = !(args->at < 0)}};
    struct bs_put_options *options = &put_r->options;
    if ((args->key.data && args->key.len == 0) || (args->root.data && args->root.len == 0)) {
        op_usage(op, ARGS_BAD_KEY);
        return false;
    }
    if (!args_round_up(op, args->delay, "delay: 0 to 4,294,967,295 s are allowed",
                       &put_r->delay_s) ||
        !args_round_up(op, args->ttr, "ttr: 0 to 4,294,967,295 s are allowed", &put_r->ttr_s))
        return false;
    if ((!options->has_at || read_unix(args->at, &options->at_ms, &options->at_whole)) &&
        (options->root.len == 0 ||
         read_unix(args->root_at, &options->root_ms, &options->root_whole)))
        return true;
    op_usage(op, "at and root_at are unix times, in seconds, from 0 to 4,294,967,295");
    return false;
}
