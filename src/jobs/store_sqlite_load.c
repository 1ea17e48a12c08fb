/*
 * store_sqlite_load.c - jobs in a file of SQLite: reading bodies, and everything at the start.
 */
#include "jobs/store_sqlite.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- reading --------------------------------------------------------------------------------- */

enum job_store_status sqlite_read_body(struct job_store *store, uint64_t id, void *into,
                                       uint32_t len)
{
    struct sqlite_store *s = inside_of(store);
    sqlite3_stmt *statement = s->statements[READ_BODY];
    set_int(statement, 1, (int64_t)id);
    enum job_store_status status;
    if (!step(s, READ_BODY, "cannot read a body", &status))
        return status == JOB_STORE_OK ? JOB_STORE_NONE : status;
    struct bytes body = get_text(statement, 0);
    int code = sqlite3_errcode(s->db);
    if (!body.data && (code & 0xff) == SQLITE_NOMEM)
        status = store_fail_sqlite(s, code, "cannot read a body");
    else if (sqlite3_column_type(statement, 0) == SQLITE_NULL)
        status = store_fail_because(s, JOB_STORE_CORRUPT, "a job has no body");
    else if (body.len != len)
        status =
            store_fail_because(s, JOB_STORE_CORRUPT, "a body has another length than its job says");
    else
        status = JOB_STORE_OK;
    if (status == JOB_STORE_OK && body.data)
        memcpy(into, body.data, len);
    sqlite3_reset(statement);
    return status;
}

/* Reads time_ns and forget_ns from two columns. */
static void read_memory(sqlite3_stmt *statement, int at, struct job_memory *memory)
{
    memory->time_ns = sqlite3_column_int64(statement, at);
    memory->forget_ns = sqlite3_column_type(statement, at + 1) == SQLITE_NULL
                            ? JOB_STORE_KEEP
                            : sqlite3_column_int64(statement, at + 1);
}

enum job_store_status sqlite_recall(struct job_store *store, enum job_memory_kind kind,
                                    struct job_memory *memory)
{
    struct sqlite_store *s = inside_of(store);
    sqlite3_stmt *statement = of_kind(s, RECALL, kind, memory->tube, memory->name);
    enum job_store_status status;
    if (!step(s, RECALL + kind, "cannot look for an execution or a root job", &status))
        return status == JOB_STORE_OK ? JOB_STORE_NONE : status;
    read_memory(statement, 0, memory);
    sqlite3_reset(statement);
    return JOB_STORE_OK;
}

/* Reads columns, and remembers when one makes no sense. */
struct row {
    sqlite3_stmt *statement;
    int at; /* the next column */
    bool bad;
};

static int64_t row_number(struct row *row, int64_t min, int64_t max)
{
    int64_t value = sqlite3_column_int64(row->statement, row->at++);
    if (value < min || value > max) {
        row->bad = true;
        return min;
    }
    return value;
}

static uint32_t row_u32(struct row *row)
{
    return (uint32_t)row_number(row, 0, UINT32_MAX);
}

static struct bytes row_text(struct row *row, size_t min, size_t max)
{
    struct bytes text = get_text(row->statement, row->at++);
    if (text.len < min || text.len > max)
        row->bad = true;
    return text;
}

static bool row_is_null(const struct row *row)
{
    return sqlite3_column_type(row->statement, row->at) == SQLITE_NULL;
}

static enum job_store_status load_tubes(struct sqlite_store *s,
                                        const struct job_store_visitors *visitors)
{
    enum job_store_status status;
    while (step(s, LOAD_TUBES, "cannot read the tubes", &status)) {
        struct row row = {.statement = s->statements[LOAD_TUBES]};
        struct job_tube_record tube = {.name = row_text(&row, 1, JOBS_TUBE_MAX)};
        struct job_settings *settings = &tube.settings;
        for (unsigned i = 0; i < JOB_SETTINGS; i++) {
            if (row_is_null(&row)) {
                row.at++;
                continue;
            }
            settings->given |= 1u << i;
            if (i != JOB_SETTING_READ_ONLY) {
                settings->is[i] = (uint32_t)row_number(&row, 0, job_setting_rows[i].max);
                continue;
            }
            struct bytes reason = row_text(&row, 0, JOBS_READ_ONLY_MAX);
            if (!row.bad && reason.len > 0)
                memcpy(settings->read_only, reason.data, reason.len);
        }
        tube.pause_s = row_u32(&row);
        tube.paused_until_ns = row_number(&row, INT64_MIN, INT64_MAX);
        status = row.bad                                 ? JOB_STORE_CORRUPT
                 : !visitors->tube(visitors->arg, &tube) ? JOB_STORE_NO_MEMORY
                                                         : JOB_STORE_OK;
        if (status == JOB_STORE_OK)
            continue;
        sqlite3_reset(s->statements[LOAD_TUBES]);
        return store_fail_because(
            s, status, row.bad ? "settings of a tube make no sense" : "no memory for tubes");
    }
    return status;
}

static enum job_store_status load_memories(struct sqlite_store *s, enum job_memory_kind kind,
                                           const struct job_store_visitors *visitors)
{
    enum job_store_status status;
    while (step(s, LOAD_MEMORY + kind, "cannot read executions or root jobs", &status)) {
        struct row row = {.statement = s->statements[LOAD_MEMORY + kind]};
        struct job_memory memory = {.tube = row_text(&row, 1, JOBS_TUBE_MAX),
                                    .name = row_text(&row, 1, JOBS_KEY_MAX)};
        read_memory(row.statement, row.at, &memory);
        status = row.bad                                           ? JOB_STORE_CORRUPT
                 : !visitors->memory(visitors->arg, kind, &memory) ? JOB_STORE_NO_MEMORY
                                                                   : JOB_STORE_OK;
        if (status == JOB_STORE_OK)
            continue;
        sqlite3_reset(row.statement);
        return store_fail_because(s, status,
                                  row.bad ? "an execution or a root job makes no sense"
                                          : "no memory for executions or root jobs");
    }
    return status;
}

static enum job_store_status load_jobs(struct sqlite_store *s,
                                       const struct job_store_visitors *visitors)
{
    enum job_store_status status;
    while (step(s, LOAD_JOBS, "cannot read the jobs", &status)) {
        struct row row = {.statement = s->statements[LOAD_JOBS]};
        struct job_record job = {.id = (uint64_t)row_number(&row, 1, INT64_MAX)};
        job.tube = row_text(&row, 1, JOBS_TUBE_MAX);
        job.now.state = (enum job_state)row_number(&row, 0, JOB_STATES - 1);
        job.now.pri = row_u32(&row);
        job.now.delay_s = row_u32(&row);
        job.ttr_s = row_u32(&row);
        job.put_ns = row_number(&row, INT64_MIN, INT64_MAX);
        job.now.due_ns = row_number(&row, INT64_MIN, INT64_MAX);
        job.now.began_ns = row_number(&row, INT64_MIN, INT64_MAX);
        job.now.token = (uint64_t)row_number(&row, 0, (int64_t)JOBS_TOKEN_MAX);
        job.now.tries = row_u32(&row);
        if (row_is_null(&row)) {
            job.tries_max = JOB_TRIES_OF_TUBE;
            row.at++;
        } else {
            job.tries_max = row_u32(&row);
        }
        for (unsigned n = 0; n < JOB_COUNTS; n++)
            job.now.counts.of[n] = row_u32(&row);
        job.body_len = (uint32_t)row_number(&row, 0, JOB_BODY_MAX);
        job.key = row_text(&row, 0, JOBS_KEY_MAX);
        job.now.at_ns = row_number(&row, INT64_MIN, INT64_MAX);
        job.root = row_text(&row, 0, JOBS_KEY_MAX);
        job.now.root_ns = row_number(&row, INT64_MIN, INT64_MAX);
        if (!row.bad && visitors->job(visitors->arg, &job))
            continue;
        sqlite3_reset(row.statement);
        if (!row.bad)
            return store_fail_because(s, JOB_STORE_NO_MEMORY, "no memory for jobs");
        snprintf(s->store.reason, sizeof(s->store.reason),
                 "what it says of job %" PRIu64 " makes no sense", job.id);
        return store_fail(s, JOB_STORE_CORRUPT);
    }
    return status;
}

enum job_store_status sqlite_load(struct job_store *store,
                                  const struct job_store_visitors *visitors)
{
    struct sqlite_store *s = inside_of(store);
    CHECK(!s->inside);
    enum job_store_status status = JOB_STORE_OK;
    if (visitors->tube)
        status = load_tubes(s, visitors);
    if (status == JOB_STORE_OK && visitors->memory)
        status = load_memories(s, JOB_MEMORY_EXECUTION, visitors);
    if (status == JOB_STORE_OK && visitors->memory)
        status = load_memories(s, JOB_MEMORY_ROOT, visitors);
    if (status == JOB_STORE_OK && visitors->job)
        status = load_jobs(s, visitors);
    return status;
}
