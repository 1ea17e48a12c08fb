/*
 * store_sqlite_change.c - jobs in a file of SQLite: what transactions change.
 */
#include "jobs/store_sqlite.h"

/* ---- changes --------------------------------------------------------------------------------- */

static void set_body(sqlite3_stmt *statement, int at, struct bytes body)
{
    CHECK(sqlite3_bind_blob(statement, at, body.len > 0 ? (const void *)body.data : "",
                            (int)body.len, SQLITE_STATIC) == SQLITE_OK);
}

/* Sets ?1 to ?14 and ?22. */
static void set_changing(sqlite3_stmt *statement, uint64_t id, const struct job_changing *now)
{
    set_int(statement, 1, (int64_t)id);
    set_int(statement, 2, now->state);
    set_int(statement, 3, now->pri);
    set_int(statement, 4, now->delay_s);
    set_int(statement, 5, now->due_ns);
    set_int(statement, 6, now->began_ns);
    set_int(statement, 7, (int64_t)now->token);
    set_int(statement, 8, now->tries);
    for (int n = 0; n < JOB_COUNTS; n++)
        set_int(statement, 9 + n, now->counts.of[n]);
    set_int(statement, 14, now->at_ns);
    set_int(statement, 22, now->root_ns);
}

enum job_store_status sqlite_put(struct job_store *store, const struct job_record *job,
                                 struct bytes body)
{
    struct sqlite_store *s = inside_of(store);
    CHECK(s->inside && job->id >= 1 && job->id <= INT64_MAX && body.len <= JOB_BODY_MAX);
    CHECK(job->tube.len >= 1 && job->tube.len <= JOBS_TUBE_MAX && job->key.len <= JOBS_KEY_MAX &&
          job->root.len <= JOBS_KEY_MAX);
    if (s->full && s->failed == JOB_STORE_OK)
        return store_fail_because(s, JOB_STORE_FULL, "the disk is full, and takes no new jobs");
    sqlite3_stmt *put = s->statements[PUT];
    set_changing(put, job->id, &job->now);
    set_text(put, 15, job->tube);
    set_int(put, 16, job->ttr_s);
    set_int(put, 17, job->put_ns);
    set_int_or_null(put, 18, job->tries_max, JOB_TRIES_OF_TUBE);
    set_int(put, 19, (int64_t)body.len);
    set_text(put, 20, job->key);
    set_text(put, 21, job->root);
    bool is_small = body.len <= SMALL_BODY;
    if (is_small)
        set_body(put, 23, body);
    else
        CHECK(sqlite3_bind_null(put, 23) == SQLITE_OK);
    enum job_store_status status = run(s, PUT, "cannot add a job");
    if (status != JOB_STORE_OK || is_small)
        return status;
    sqlite3_stmt *put_large = s->statements[PUT_LARGE];
    s->has_large = true;
    set_int(put_large, 1, (int64_t)job->id);
    set_body(put_large, 2, body);
    return run(s, PUT_LARGE, "cannot add a body");
}

enum job_store_status sqlite_change(struct job_store *store, uint64_t id,
                                    const struct job_changing *now)
{
    struct sqlite_store *s = inside_of(store);
    set_changing(s->statements[CHANGE], id, now);
    return run_on_one(s, CHANGE, "cannot change a job");
}

enum job_store_status sqlite_remove(struct job_store *store, uint64_t id)
{
    struct sqlite_store *s = inside_of(store);
    set_int(s->statements[REMOVE], 1, (int64_t)id);
    enum job_store_status status = run_on_one(s, REMOVE, "cannot delete a job");
    if (status != JOB_STORE_OK || !s->has_large)
        return status;
    set_int(s->statements[REMOVE_LARGE], 1, (int64_t)id); /* most have none there */
    return run(s, REMOVE_LARGE, "cannot delete a body");
}

enum job_store_status sqlite_set_tube(struct job_store *store, const struct job_tube_record *tube)
{
    struct sqlite_store *s = inside_of(store);
    const struct job_settings *settings = &tube->settings;
    bool has_any = settings->given != 0 || tube->pause_s != 0;
    enum statement which = has_any ? SET_TUBE : FORGET_TUBE;
    sqlite3_stmt *statement = s->statements[which];
    set_text(statement, 1, tube->name);
    if (has_any) {
        for (int i = 0; i < JOB_SETTINGS; i++)
            if (!(settings->given & 1u << i))
                CHECK(sqlite3_bind_null(statement, i + 2) == SQLITE_OK);
            else if (i == JOB_SETTING_READ_ONLY)
                CHECK(sqlite3_bind_text(statement, i + 2, settings->read_only, -1, SQLITE_STATIC) ==
                      SQLITE_OK);
            else
                set_int(statement, i + 2, settings->is[i]);
        set_int(statement, JOB_SETTINGS + 2, tube->pause_s);
        set_int(statement, JOB_SETTINGS + 3, tube->paused_until_ns);
    }
    return run(s, which, "cannot keep a tube");
}

/* ---- executions and roots -------------------------------------------------------------------- */

enum job_store_status sqlite_execute(struct job_store *store, uint64_t id, int64_t time_ns,
                                     int64_t forget_ns)
{
    struct sqlite_store *s = inside_of(store);
    enum statement which = time_ns == JOB_STORE_NO_TIME ? KEEP_EXECUTION : EXECUTE;
    set_int(s->statements[which], 1, (int64_t)id);
    if (which == EXECUTE)
        set_int(s->statements[which], 2, time_ns);
    set_int_or_null(s->statements[which], 3, forget_ns, JOB_STORE_KEEP);
    return run_on_one(s, which, "cannot keep an execution");
}

enum job_store_status sqlite_remember(struct job_store *store, enum job_memory_kind kind,
                                      const struct job_memory *memory)
{
    struct sqlite_store *s = inside_of(store);
    sqlite3_stmt *statement = of_kind(s, REMEMBER, kind, memory->tube, memory->name);
    set_int(statement, 3, memory->time_ns);
    set_int_or_null(statement, 4, memory->forget_ns, JOB_STORE_KEEP);
    return run(s, REMEMBER + kind, "cannot keep an execution or a root job");
}

enum job_store_status sqlite_forget(struct job_store *store, enum job_memory_kind kind,
                                    struct bytes tube, struct bytes name)
{
    struct sqlite_store *s = inside_of(store);
    of_kind(s, FORGET, kind, tube, name);
    return run_on_one(s, FORGET + kind, "cannot forget an execution or a root job");
}

enum job_store_status sqlite_forget_old(struct job_store *store, int64_t now_ns, uint32_t most,
                                        uint32_t *count_r)
{
    struct sqlite_store *s = inside_of(store);
    *count_r = 0;
    for (enum statement which = FORGET_OLD; which <= FORGET_OLD + 1 && *count_r < most; which++) {
        set_int(s->statements[which], 1, now_ns);
        set_int(s->statements[which], 2, most - *count_r);
        enum job_store_status status = run(s, which, "cannot forget what is old");
        if (status != JOB_STORE_OK)
            return status;
        *count_r += (uint32_t)sqlite3_changes(s->db);
    }
    return JOB_STORE_OK;
}
