/* jobs_write.c - what the store's thread does with changes: reads, and one transaction. It looks
 * at nothing of the engine but the changes and the names of their tubes, and does not lock. */
#include "jobs/jobs_commit_internal.h"

#include <stdlib.h>
#include <string.h>

static struct job_op *first_op(struct job_op_list *list)
{
    return list->ops.first ? container_of(list->ops.first, struct job_op, message.mail) : NULL;
}

static struct job_op *next_op(struct job_op *op)
{
    struct mail *next = op->message.mail.next;
    return next ? container_of(next, struct job_op, message.mail) : NULL;
}

static bool is_put(const struct job_op *op)
{
    return op->kind == JOB_OP_PUT;
}

static bool is_of_many(const struct job_op *op)
{
    return op->kind == JOB_OP_KICK || op->kind == JOB_OP_CLEAR || op->kind == JOB_OP_DROP;
}

/* Notes damage, whose reason is in the store. */
static void note_damage(struct job_op_list *list, const struct job_store *store, uint64_t id)
{
    list->damages++;
    list->damaged_id = id;
    memcpy(list->damage_reason, store->reason, JOB_STORE_REASON);
}

/* ---- reads ----------------------------------------------------------------------------------- */

static enum job_store_status look(struct job_store *store, const struct job_op *op,
                                  struct job_write *write, int64_t wall_ns)
{
    struct job_memory memory = {.tube = tube_name(op->of), .name = write->name};
    enum job_store_status status = store->does->recall(store, write->memory, &memory);
    write->time_ns = JOB_STORE_NO_TIME;
    write->is_over = status == JOB_STORE_OK && memory.forget_ns <= wall_ns;
    if (status == JOB_STORE_OK && !write->is_over) {
        write->time_ns = memory.time_ns;
        write->forget_ns = memory.forget_ns;
    }
    return status == JOB_STORE_NONE ? JOB_STORE_OK : status;
}

static enum job_store_status read_body(struct jobs *jobs, struct job_store *store,
                                       struct job_write *write)
{
    write->body = job_body_new(jobs, JOBS_REST, write->body_len);
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
            if (status == JOB_STORE_OK)
                continue;
            bool is_gone = status == JOB_STORE_NONE && write->handle == JOB_NONE;
            if (status != JOB_STORE_NO_MEMORY && !is_gone)
                note_damage(list, store, write->id);
            if (op->stored == JOB_STORE_OK || status == JOB_STORE_NO_MEMORY)
                op->stored = status;
        }
    }
}

/* ---- writes ---------------------------------------------------------------------------------- */

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

/* Apart, because others need no room for settings. */
static __attribute__((noinline)) enum job_store_status
set_tube(struct job_store *store, const struct job_op *op, const struct job_write *write)
{
    struct job_tube_record record = {.name = op->of ? tube_name(op->of) : op->tube,
                                     .pause_s = write->pause_s,
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
    case JOB_WRITE_FORGET:
        return does->forget(store, write->memory, tube_name(op->of), write->name);
    case JOB_WRITE_TUBE:
        return set_tube(store, op, write);
    default:
        return JOB_STORE_OK;
    }
}

/* True if the transaction has this change's changes. */
static bool takes_part(const struct job_op *op, bool but_puts)
{
    return op->has_writes && op->stored == JOB_STORE_OK && !(but_puts && is_put(op));
}

/* Where a transaction failed. */
struct failure {
    struct job_op *op; /* NULL: not in one of them */
    struct job_write *write;
};

/* Writes the changes from `first` to before `end` (NULL: all) in one transaction. */
static enum job_store_status write_some(struct job_store *store, struct job_op *first,
                                        const struct job_op *end, int64_t mono_ns, bool but_puts,
                                        struct failure *failure_r)
{
    enum job_store_status status = store->does->begin(store);
    failure_r->op = NULL;
    for (struct job_op *op = first; op != end && status == JOB_STORE_OK; op = next_op(op)) {
        for (size_t n = 0; n < op->write_count && takes_part(op, but_puts); n++) {
            if (op->writes[n].damaged)
                continue;
            enum job_store_status one = write_one(store, op, &op->writes[n]);
            if (one != JOB_STORE_OK && one != JOB_STORE_NONE) {
                *failure_r = (struct failure){.op = op, .write = &op->writes[n]};
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

/* What is before `end` was committed, but for puts that were left out. */
static void pass(struct job_op_list *list, struct job_op *end, bool but_puts)
{
    for (; list->rest != end; list->rest = next_op(list->rest)) {
        struct job_op *op = list->rest;
        if (op->has_writes && op->stored == JOB_STORE_OK && but_puts && is_put(op))
            op->stored = JOB_STORE_FULL;
    }
}

/* SQLite commits nothing after it has met damage in a transaction, not even by savepoints. */
enum job_store_status job_ops_write(struct job_store *store, struct job_op_list *list,
                                    int64_t mono_ns, bool but_puts)
{
    enum job_store_status status = JOB_STORE_OK;
    struct job_op *end = NULL;
    while (list->rest) {
        struct failure failure = {NULL};
        status = write_some(store, list->rest, end, mono_ns, but_puts, &failure);
        if (status == JOB_STORE_OK && !end)
            break;
        if (status == JOB_STORE_OK) {
            pass(list, end, but_puts);
            end = NULL;
        } else if (status != JOB_STORE_CORRUPT || !failure.op) {
            break;
        } else if (failure.op != list->rest) {
            end = failure.op;
        } else {
            failure.write->damaged = true;
            note_damage(list, store, failure.write->id);
            status = JOB_STORE_OK;
            end = NULL;
            if (is_of_many(failure.op))
                continue; /* without that job */
            failure.op->stored = JOB_STORE_CORRUPT;
            list->rest = next_op(failure.op);
        }
    }
    return status;
}

void job_ops_committed(struct job_op_list *list, enum job_store_status status, bool but_puts)
{
    for (struct job_op *op = list->rest; op; op = next_op(op)) {
        if (op->has_writes && op->stored == JOB_STORE_OK)
            op->stored = but_puts && is_put(op) ? JOB_STORE_FULL : status;
    }
}
