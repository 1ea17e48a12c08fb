/* jobs_write.c - what the store's thread does with operations: reads, and one transaction. It looks
 * at nothing of the engine but the operations and the names of their tubes, and does not lock. */
#include "jobs/jobs_op.h"

#include <stdlib.h>

static struct job_op *first_op(struct job_op_list *list)
{
    return list->ops.first ? container_of(list->ops.first, struct job_op, letter.mail) : NULL;
}

static struct job_op *next_op(struct job_op *op)
{
    struct mail *next = op->letter.mail.next;
    return next ? container_of(next, struct job_op, letter.mail) : NULL;
}

static bool is_put(const struct job_op *op)
{
    return op->kind == JOB_OP_PUT;
}

/* ---- reads
 * ------------------------------------------------------------------------------------ */

static enum job_store_status look(struct job_store *store, const struct job_op *op,
                                  struct job_write *write, int64_t wall_ns)
{
    struct job_memory memory = {.tube = tube_name(op->of), .name = write->name};
    enum job_store_status status = store->does->recall(store, write->memory, &memory);
    write->time_ns = JOB_STORE_NO_TIME;
    if (status == JOB_STORE_OK && memory.forget_ns > wall_ns) {
        write->time_ns = memory.time_ns;
        write->forget_ns = memory.forget_ns;
    }
    return status == JOB_STORE_NONE ? JOB_STORE_OK : status;
}

static enum job_store_status read_body(struct jobs *jobs, struct job_store *store,
                                       struct job_write *write)
{
    write->body = job_body_new(jobs, write->body_len);
    if (!write->body && jobs_make_room(jobs, sizeof(struct job_body) + write->body_len))
        write->body = job_body_new(jobs, write->body_len);
    if (!write->body)
        return JOB_STORE_NO_MEMORY;
    enum job_store_status status =
        store->does->read_body(store, write->id, write->body->bytes, write->body_len);
    if (status == JOB_STORE_OK)
        return status;
    job_body_drop(jobs, &write->body);
    write->unreadable = status != JOB_STORE_NO_MEMORY && write->handle != JOB_NONE;
    return status;
}

void job_ops_read(struct jobs *jobs, struct job_store *store, struct job_op_list *list,
                  int64_t wall_ns)
{
    for (struct job_op *op = first_op(list); op; op = next_op(op)) {
        for (size_t n = 0; n < op->write_count; n++) {
            struct job_write *write = &op->writes[n];
            enum job_store_status status = JOB_STORE_OK;
            if (write->kind == JOB_WRITE_LOOK)
                status = look(store, op, write, wall_ns);
            else if (write->reads)
                status = read_body(jobs, store, write);
            if (status != JOB_STORE_OK && op->stored == JOB_STORE_OK)
                op->stored = status;
        }
    }
}

/* ---- writes
 * ----------------------------------------------------------------------------------- */

static enum job_store_status put(struct job_store *store, const struct job_op *op,
                                 const struct job_write *write)
{
    const struct job_put *put = write->put;
    const struct job_record record = {.id = write->id,
                                      .tube = tube_name(op->of),
                                      .key = put->key,
                                      .root = put->root,
                                      .put_ns = write->put_ns,
                                      .ttr_s = put->ttr_s > 0 ? put->ttr_s : 1,
                                      .tries_max = put->tries,
                                      .body_len = put->body->len,
                                      .now = write->now};
    return store->does->put(store, &record, bytes_at(put->body->bytes, put->body->len));
}

static enum job_store_status set_tube(struct job_store *store, const struct job_op *op,
                                      const struct job_write *write)
{
    struct job_tube_record record = {.name = op->of ? tube_name(op->of) : op->tube,
                                     .pause_s = write->now.delay_s,
                                     .paused_until_ns = write->time_ns};
    if (op->new_settings)
        record.settings = *op->new_settings;
    return store->does->set_tube(store, &record);
}

static enum job_store_status write_one(struct job_store *store, const struct job_op *op,
                                       const struct job_write *write)
{
    const struct job_store_kind *does = store->does;
    struct job_memory memory;
    enum job_store_status status = JOB_STORE_OK;
    switch (write->kind) {
    case JOB_WRITE_PUT:
        return put(store, op, write);
    case JOB_WRITE_CHANGE:
        return does->change(store, write->id, &write->now);
    case JOB_WRITE_REMOVE:
        if (write->executes)
            status = does->execute(store, write->id, write->time_ns, write->forget_ns);
        return status == JOB_STORE_OK || status == JOB_STORE_NONE ? does->remove(store, write->id)
                                                                  : status;
    case JOB_WRITE_REMEMBER:
        memory = (struct job_memory){.tube = tube_name(op->of),
                                     .name = write->name,
                                     .time_ns = write->time_ns,
                                     .forget_ns = write->forget_ns};
        return does->remember(store, write->memory, &memory);
    case JOB_WRITE_TUBE:
        return set_tube(store, op, write);
    default:
        return JOB_STORE_OK;
    }
}

/* True if the transaction has this operation's changes. */
static bool takes_part(const struct job_op *op, bool but_puts)
{
    return op->has_writes && op->stored == JOB_STORE_OK && !(but_puts && is_put(op));
}

enum job_store_status job_ops_write(struct job_store *store, struct job_op_list *list,
                                    int64_t mono_ns, bool but_puts)
{
    enum job_store_status status = store->does->begin(store);
    for (struct job_op *op = first_op(list); op && status == JOB_STORE_OK; op = next_op(op)) {
        for (size_t n = 0; n < op->write_count && takes_part(op, but_puts); n++) {
            enum job_store_status one = write_one(store, op, &op->writes[n]);
            if (one != JOB_STORE_OK && one != JOB_STORE_NONE) {
                status = one;
                break;
            }
        }
    }
    if (status == JOB_STORE_OK)
        return store->does->commit(store, mono_ns);
    store->does->rollback(store);
    return status;
}

void job_ops_committed(struct job_op_list *list, enum job_store_status status, bool but_puts)
{
    for (struct job_op *op = first_op(list); op; op = next_op(op)) {
        if (op->has_writes && op->stored == JOB_STORE_OK)
            op->stored = but_puts && is_put(op) ? JOB_STORE_FULL : status;
    }
}
