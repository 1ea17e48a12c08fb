/* put.c - puts jobs into tubes. */
#include "lib/args.h"

#define PUT_MANY_MAX ((size_t)16 << 20) /* bytes of a batch */

static const struct good put_good[] = {{"INSERTED", 2}, {"DUPLICATE", 2}, {NULL, 0}};

/* What became of a job. */
static int add_put(struct counter_op *op, const struct answer *answer)
{
    bool is_duplicate = bytes_equal(answer->words[0], bytes_of("DUPLICATE"));
    uint64_t id;
    if (!answer_number(answer->words[1], is_duplicate ? 0 : 1, ANSWER_NUMBER_MAX, &id))
        return op_malformed(op, answer->line);
    struct counter_row *row = op_add_row(op);
    if (!row)
        return op_no_memory(op);
    row->id = id;
    row->is_duplicate = is_duplicate;
    return COUNTER_OK;
}

static int take_batch(struct counter_op *op, const struct answer *answer)
{
    struct bytes rest = answer->body;
    struct entry entry;
    int status = answer_start(&rest) ? COUNTER_OK : op_malformed(op, answer->body);
    while (status == COUNTER_OK && answer_entry(&rest, &entry)) {
        struct answer put;
        if (entry.key.data)
            return op_malformed(op, answer->body);
        status = answer_split(entry.value, put_good, SAYS_ANY, &put, &op->client->error);
        if (status == COUNTER_OK)
            status = add_put(op, &put);
    }
    if (status == COUNTER_OK && (rest.len > 0 || op->row_count != op->count))
        return op_malformed(op, answer->body);
    return status;
}

static const struct call put_call =
    CALL(JOBS, OP_BODY | OP_PUTS, SAYS_ANY | SAYS_PUT | SAYS_READ_ONLY, add_put,
         .good = {{"INSERTED", 2}, {"DUPLICATE", 2}});

static const struct call put_many_call = CALL(
    JOBS, OP_BODY | OP_PUTS, SAYS_ANY | SAYS_PUT | SAYS_READ_ONLY, take_batch, .good = {{"OK", 2}});

counter_op *counter_put(counter_client *client, struct counter_bytes tube,
                        struct counter_bytes body, const struct counter_put_args *args)
{
    struct bs_request put;
    uint8_t line[BS_NEW_LINE_MAX];
    struct counter_op *op = op_new(client, &put_call, tube);
    if (!op || !args_is_tube(op, tube) || !args_put(op, args, body, &put))
        return op;
    if (body.len > UINT32_MAX)
        return op_usage(op, "a body has up to 4,294,967,295 bytes");
    put.tube = args_bytes(tube);
    size_t len = bs_compose_request(&put, line, sizeof(line));
    if (len == 0)
        return op_usage(op, ARGS_BAD_KEY);
    text_add(&op->text, line, len);
    op->body = body;
    op->has_body = true;
    if (put.options.key.len > 0)
        op->flags |= OP_AGAIN | OP_SILENT;
    return op_ready(op);
}

/* Adds a job of a batch. Returns false when the operation has ended. */
static bool add_record(struct counter_op *op, struct text *records,
                       const struct counter_new_job *job, bool *has_key)
{
    struct bs_request put;
    uint8_t line[BS_NEW_LINE_MAX];
    if (!args_put(op, job->args, job->body, &put))
        return false;
    *has_key = put.options.key.len > 0;
    if (job->body.len <= PUT_MANY_MAX) {
        size_t len = bs_compose_record(&put, line, sizeof(line));
        if (len == 0) {
            op_usage(op, ARGS_BAD_KEY);
            return false;
        }
        text_add(records, line, len);
        text_add(records, job->body.data, job->body.len);
        text_add(records, "\r\n", 2);
    }
    if (job->body.len <= PUT_MANY_MAX && records->len <= PUT_MANY_MAX)
        return true;
    op_usage(op, "1 to 1,000 jobs and 16 MiB can be put at once");
    return false;
}

counter_op *counter_put_many(counter_client *client, struct counter_bytes tube,
                             const struct counter_new_job *jobs, size_t count)
{
    struct counter_op *op = op_new(client, &put_many_call, tube);
    if (!op || !args_is_tube(op, tube))
        return op;
    if (count < 1 || count > BS_COUNT_MAX)
        return op_usage(op, "1 to 1,000 jobs and 16 MiB can be put at once");
    struct text records = {0};
    bool is_good = true, has_keys = true;
    for (size_t i = 0; is_good && i < count; i++) {
        bool has_key = false;
        is_good = add_record(op, &records, &jobs[i], &has_key);
        has_keys = has_keys && has_key;
    }
    if (is_good) {
        op->count = count;
        if (has_keys)
            op->flags |= OP_AGAIN | OP_SILENT;
        text_addf(&op->text, "put-batch %.*s %zu %zu\r\n", (int)tube.len, (const char *)tube.data,
                  count, records.len);
        text_add(&op->text, records.data, records.len);
        text_add(&op->text, "\r\n", 2);
        op->text.failed |= records.failed;
        op_ready(op);
    }
    text_free(&records);
    return op;
}
