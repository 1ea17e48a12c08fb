/* jobs_state.c - see jobs_state.h. */
#include "jobs/jobs_state.h"

#include "jobs/jobs_internal.h"

#include <limits.h>
#include <string.h>

/* ---- saving ---------------------------------------------------------------------------------- */

static void save_settings(const struct job_settings *s, struct record_writer *w)
{
    record_put_u32(w, s->given);
    for (unsigned n = 0; n < JOB_SETTING_READ_ONLY; n++) {
        if (job_setting_rows[n].words)
            record_put_u8(w, (uint8_t)s->is[n]);
        else
            record_put_u32(w, s->is[n]);
    }
    record_put_text(w, s->read_only);
}

struct saving {
    const struct jobs *jobs;
    struct record_writer *w;
};

static void save_job(void *arg, uint32_t handle)
{
    const struct saving *saving = arg;
    const struct job *job = job_at(saving->jobs, handle);
    struct record_writer *w = saving->w;
    if (w->failed)
        return;
    record_put_u8(w, job->state);
    record_put_u64(w, job->id);
    record_put_u32(w, job->pri);
    record_put_u32(w, job->delay_s);
    record_put_u32(w, job->ttr_s);
    record_put_u32(w, (uint32_t)(job->put_ms / 1000));
    record_put_u64(w, job->turn);
    for (unsigned n = 0; n < JOB_COUNTS; n++)
        record_put_u32(w, job->counts.of[n]);
    record_put_u32(w, job->tries);
    record_put_u32(w, job->tries_max);
    record_put_u32(w, job->body_len);
    bool carries = job->body && !saving->jobs->commit; /* else the store has it */
    record_put_u8(w, carries);
    if (carries)
        record_put_bytes(w, job->body->bytes, job->body->len);
    job_keys_save(job, w);
    if (job->state != JOB_RESERVED)
        return;
    record_put_u64(w, job->token);
    record_put_u8(w, job->is_lease);
    record_put_u8(w, job->last_try);
    record_put_u8(w, job->holder == saving->jobs->leases);
}

static void put_name(struct record_writer *w, const struct tube *tube)
{
    record_put_bytes(w, tube->name->bytes, tube->name->len);
}

static void save_tube(const struct jobs *jobs, const struct tube *tube, struct record_writer *w)
{
    struct saving saving = {.jobs = jobs, .w = w};
    put_name(w, tube);
    record_put_u64(w, tube->number);
    record_put_i64(w, tube->paused_until_ns);
    record_put_u32(w, tube->pause_s);
    save_settings(&tube->settings, w);
    record_put_u64(w, tube->total_jobs);
    record_put_u64(w, tube->cmd_delete);
    record_put_u64(w, tube->cmd_pause);
    record_put_u64(w, tube->duplicates);
    record_put_u64(w, tube->claims);
    record_put_u64(w, tube->dropped);
    record_put_u64(w, tube->acks);
    record_put_u64(w, tube->recycled);
    record_put_u64(w, tube->given_up);
    record_put_u32(w, (uint32_t)tube_jobs(tube));
    for (unsigned n = 0; n < JOB_STATES; n++) {
        job_tree_visit(jobs, &tube->by_id[n], save_job, &saving);
        job_tree_visit(jobs, &tube->doomed_by_id[n], save_job, &saving);
    }
}

/* Visits the jobs that have come into their state since the first clear under way began. Returns
 * their number. */
static uint32_t save_late(const struct jobs *jobs, uint32_t first, struct record_writer *w)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < jobs->page_count * JOB_PAGE; n++) {
        const struct job *job = job_at(jobs, n);
        uint32_t came = job->state == JOB_RESERVED ? 0 : job->came, entered = job_entered(job);
        if (job->id == 0 || (came < first && entered < first))
            continue;
        count++;
        if (!w)
            continue;
        record_put_u64(w, job->id);
        record_put_u32(w, entered);
        record_put_u32(w, came);
    }
    return count;
}

/* What JOBS_STATE, which has whole seconds, leaves of the times of puts. */
static void save_put_times(const struct jobs *jobs, struct record_writer *w)
{
    record_begin(w, JOBS_PUT_TIMES);
    for (uint32_t n = 0; n < jobs->page_count * JOB_PAGE; n++) {
        const struct job *job = job_at(jobs, n);
        if (job->id == 0 || job->state == JOB_STATES || job->put_ms % 1000 == 0)
            continue;
        record_put_u64(w, job->id);
        record_put_u16(w, (uint16_t)(job->put_ms % 1000));
    }
    record_put_u64(w, 0);
    record_end(w);
}

static void save_clears(const struct jobs *jobs, struct record_writer *w)
{
    uint32_t first = jobs->clears;
    for (struct ring *at = ring_first(&jobs->clearing); at; at = ring_after(&jobs->clearing, at)) {
        uint32_t number = container_of(at, struct jobs_clear, running)->number;
        first = number < first ? number : first;
    }
    record_begin(w, JOBS_CLEARS);
    record_put_u32(w, jobs->clears);
    record_put_u32(w, save_late(jobs, first, NULL));
    (void)save_late(jobs, first, w);
    record_end(w);
}

void jobs_save(struct jobs *jobs, struct record_writer *w)
{
    jobs_enter(jobs);
    steps_unbounded(LOCK_RANK_JOBS);
    if (jobs->used) {
        record_begin(w, JOBS_STATE);
        record_put_u64(w, atomic_load(&jobs->next_id));
        record_put_u64(w, jobs->last_burial);
        record_put_u64(w, jobs->tube_numbers);
        record_put_u64(w, jobs->timeouts);
        record_put_u64(w, jobs->total_jobs);
        marks_save(jobs, w);
        record_put_u32(w, (uint32_t)jobs->tube_count);
        for (struct tree_node *at = tree_first(&jobs->tubes); at; at = tree_next(at))
            save_tube(jobs, tube_of_number(at), w);
        record_end(w);
        save_put_times(jobs, w);
    }
    if (jobs->used && jobs->commit) {
        record_begin(w, JOBS_BURIAL);
        record_put_u64(w, (uint64_t)jobs->last_burial_wall_ns);
        record_end(w);
    }
    if (!ring_is_empty(&jobs->clearing))
        save_clears(jobs, w);
    jobs_leave(jobs);
}

void jobs_client_save(const struct jobs_client *client, struct record_writer *w)
{
    struct jobs *jobs = client->jobs;
    jobs_enter(jobs);
    CHECK(client->wait != SERVED && client->wait != ASKED);
    put_name(w, client->used);
    record_put_u32(w, client->watch_count);
    for (struct tube_watch *watch = NULL; (watch = client_next_watch(client, watch)) != NULL;)
        put_name(w, watch->tube);
    record_put_u32(w, client->reserved.count);
    for (uint32_t at = client->first_reserved; at != JOB_NONE; at = job_at(jobs, at)->next_reserved)
        record_put_u64(w, job_at(jobs, at)->id);
    record_put_u64(w, client->turn);
    record_put_u8(w, client->wait == NOT_WAITING ? 0
                     : client->ask               ? 4
                     : client->named             ? 2
                     : client->claims            ? 3
                                                 : 1);
    if (client->ask) {
        struct jobs_ready ready;
        client_asks(client, &ready);
        record_put_bytes(w, ready.pattern.data, ready.pattern.len);
        record_put_bytes(w, ready.after.data, ready.after.len);
        record_put_u8(w, ready.prefix);
        record_put_u32(w, ready.limit);
    }
    if (client->wait == WAITING)
        record_put_u64(w, client->age);
    if (client->wait == WAITING && client->named) {
        record_put_u32(w, (uint32_t)client->named_count);
        for (size_t n = 0; n < client->named_count; n++)
            put_name(w, client->named[n].tube);
    }
    jobs_leave(jobs);
}

/* ---- restoring ------------------------------------------------------------------------------- */

/* Greater numbers are no good: they grow, or seconds are added to them. */
#define NUMBER_MAX ((uint64_t)INT64_MAX / 2)

#define NO_MEMORY "there is no memory for the jobs"

/* Reads a name of a tube; empty when it is none. */
static struct bytes get_name(struct record_reader *r)
{
    const void *data;
    size_t len = record_get_bytes(r, &data);
    if (record_ok(r) && (len == 0 || len > JOBS_TUBE_MAX))
        record_refuse(r, "a tube has no good name");
    return record_ok(r) ? bytes_at(data, len) : bytes_at(NULL, 0);
}

/* The tube of a name, which is made if it is new; NULL: failed. */
static struct tube *get_tube(struct jobs *jobs, struct record_reader *r)
{
    struct bytes name = get_name(r);
    struct tube *tube = name.len > 0 ? tube_get(jobs, name) : NULL;
    if (!tube)
        record_refuse(r, NO_MEMORY);
    return tube;
}

static void restore_settings(struct job_settings *s, struct record_reader *r)
{
    s->given = record_get_u32(r);
    bool good = s->given >> JOB_SETTINGS == 0;
    for (unsigned n = 0; n < JOB_SETTING_READ_ONLY; n++) {
        s->is[n] = job_setting_rows[n].words ? record_get_u8(r) : record_get_u32(r);
        good = good && s->is[n] <= job_setting_rows[n].max;
    }
    if (!good)
        record_refuse(r, "the settings of a tube are not good");
    record_get_text(r, s->read_only, sizeof(s->read_only), "the settings of a tube are not good");
}

/* Reads a body, if it was in memory. NULL: it was not, or `r` has failed. */
static struct job_body *restore_body(struct jobs *jobs, uint32_t expected, struct record_reader *r)
{
    const void *data;
    if (!record_get_bool(r)) {
        if (record_ok(r) && !jobs->commit)
            record_refuse(
                r,
                "jobs.path is not set any more, but has the bodies of jobs; that needs a restart");
        return NULL;
    }
    size_t len = record_get_bytes(r, &data);
    if (record_ok(r) && len != expected)
        record_refuse(r, "the body of a job has another length");
    if (!record_ok(r))
        return NULL;
    struct job_body *body = job_body_new(jobs, JOBS_PUTS, (uint32_t)len);
    if (!body)
        record_refuse(r, NO_MEMORY);
    else if (len > 0)
        memcpy(body->bytes, data, len);
    return body;
}

void job_place_restored(struct jobs *jobs, uint32_t handle, unsigned state, struct job_place to)
{
    const struct job_place any = {.turn = 0, .pri = to.pri};
    job_move(jobs, handle, JOB_READY, any);
    if (state == JOB_READY)
        return;
    job_move(jobs, handle, JOB_RESERVED,
             (struct job_place){.turn = to.turn, .holder = jobs->leases, .pri = to.pri});
    if (state != JOB_RESERVED)
        job_move(jobs, handle, state, to);
}

/* Makes the job that was read. It has the room, the body and the keys. */
static void make_restored(struct jobs *jobs, unsigned state, const struct job *read)
{
    uint32_t handle = job_make(jobs, read->tube, read->id);
    struct job *job = job_at(jobs, handle);
    *job = *read;
    job_publish(jobs, handle);
    if (job->body)
        jobs_note_body(jobs, handle);
    job_place_restored(jobs, handle, state,
                       (struct job_place){.turn = read->turn,
                                          .pri = read->pri,
                                          .holder = state == JOB_RESERVED ? jobs->leases : NULL});
}

static void restore_job(struct jobs *jobs, struct tube *tube, uint64_t next_id,
                        struct record_reader *r)
{
    unsigned state = record_get_u8(r);
    struct job read = {.id = record_get_u64(r), .tube = tube, .state = JOB_STATES};
    read.pri = record_get_u32(r);
    read.delay_s = record_get_u32(r);
    read.ttr_s = record_get_u32(r);
    job_set_put(&read, (int64_t)record_get_u32(r) * 1000);
    read.turn = record_get_u64(r);
    for (unsigned n = 0; n < JOB_COUNTS; n++)
        read.counts.of[n] = record_get_u32(r);
    read.tries = record_get_u32(r);
    read.tries_max = record_get_u32(r);
    if (record_ok(r) &&
        (state >= JOB_STATES || read.id == 0 || read.id >= next_id || read.ttr_s == 0 ||
         read.turn > (state >= JOB_BURIED ? NUMBER_MAX : INT64_MAX) ||
         job_find(jobs, read.id) != JOB_NONE))
        record_refuse(r, "a job is not good, or is there twice");
    uint32_t body_len = record_get_u32(r);
    if (record_ok(r) && body_len > JOB_BODY_MAX)
        record_refuse(r, "the body of a job is too long");
    read.body = record_ok(r) ? restore_body(jobs, body_len, r) : NULL;
    read.keys = record_ok(r) ? job_keys_restore(jobs, r) : NULL;
    if (record_ok(r) && state == JOB_RESERVED) {
        read.token = record_get_u64(r);
        read.is_lease = record_get_bool(r);
        read.last_try = record_get_bool(r);
        jobs->unclaimed += !record_get_bool(r);
        if (record_ok(r) && (read.token == 0 || read.token > JOBS_TOKEN_MAX))
            record_refuse(r, "a reservation has no good token");
    }
    if (record_ok(r) && !jobs_reserve_slots(jobs, 1))
        record_refuse(r, NO_MEMORY);
    if (!record_ok(r)) {
        job_body_drop(jobs, &read.body);
        jobs_release_memory(jobs, read.keys, sizeof(*read.keys)); /* the jobs are thrown away */
        return;
    }
    job_set_body_len(&read, body_len);
    make_restored(jobs, state, &read);
}

static void set_number(struct jobs *jobs, struct tube *tube, uint64_t number)
{
    tree_remove(&jobs->tubes, &tube->by_number);
    tube->number = number;
    tree_add(&jobs->tubes, &tube->by_number);
}

/* Reads a tube with a number up to `numbers`; others have greater ones. */
static void restore_tube(struct jobs *jobs, uint64_t numbers, uint64_t *last, uint64_t next_id,
                         struct record_reader *r)
{
    struct tube *tube = get_tube(jobs, r);
    uint64_t number = record_get_u64(r);
    if (record_ok(r) && (number <= *last || number > numbers))
        record_refuse(r, "the tubes are not in the order of creation");
    if (record_ok(r) && tube->number <= numbers)
        record_refuse(r, "a tube is there twice");
    if (!record_ok(r))
        return;
    *last = number;
    set_number(jobs, tube, number);
    tube->paused_until_ns = record_get_i64(r);
    tube->pause_s = record_get_u32(r);
    if (tube->paused_until_ns < 0)
        record_refuse(r, "a pause ends at a negative time");
    restore_settings(&tube->settings, r);
    tube->kept = jobs->commit != NULL; /* a pause that is over may have left a row */
    tube->total_jobs = record_get_u64(r);
    tube->cmd_delete = record_get_u64(r);
    tube->cmd_pause = record_get_u64(r);
    tube->duplicates = record_get_u64(r);
    tube->claims = record_get_u64(r);
    tube->dropped = record_get_u64(r);
    tube->acks = record_get_u64(r);
    tube->recycled = record_get_u64(r);
    tube->given_up = record_get_u64(r);
    for (uint32_t n = record_get_u32(r); n > 0 && record_ok(r); n--)
        restore_job(jobs, tube, next_id, r);
    tube_note_ready(jobs, tube);
    tube_set_due(jobs, tube);
}

static void restore_state(struct jobs *jobs, struct record_reader *r)
{
    uint64_t last = 0;
    jobs->used = true;
    jobs_begin_load(jobs); /* until the clients have come, too */
    uint64_t next_id = record_get_u64(r);
    jobs->last_burial = record_get_u64(r);
    jobs->tube_numbers = record_get_u64(r);
    uint64_t timeouts = record_get_u64(r), total_jobs = record_get_u64(r);
    if (record_ok(r) && (next_id == 0 || next_id > NUMBER_MAX || jobs->last_burial > NUMBER_MAX ||
                         jobs->tube_numbers == 0 || jobs->tube_numbers > NUMBER_MAX))
        record_refuse(r, "the numbers of the jobs are not good");
    if (!record_ok(r))
        return;
    /* New tubes, and `default`, have numbers above those of the record, until each gets its own. */
    uint64_t numbers = jobs->tube_numbers;
    marks_restore(jobs, r);
    struct tube *first = tube_find(jobs, bytes_of("default"));
    set_number(jobs, first, ++jobs->tube_numbers);
    for (uint32_t n = record_get_u32(r); n > 0 && record_ok(r); n--)
        restore_tube(jobs, numbers, &last, next_id, r);
    if (record_ok(r) && first->number > numbers)
        record_refuse(r, "the first tube is missing");
    if (record_ok(r)) {
        jobs->tube_numbers = numbers;
        jobs->timeouts = timeouts;
        jobs->total_jobs = total_jobs;
        atomic_store(&jobs->next_id, next_id);
    }
}

static void restore_put_times(struct jobs *jobs, struct record_reader *r)
{
    for (uint64_t id; (id = record_get_u64(r)) != 0 && record_ok(r);) {
        uint32_t handle = job_find(jobs, id);
        uint16_t ms = record_get_u16(r);
        if (record_ok(r) && (handle == JOB_NONE || ms >= 1000))
            record_refuse(r, "the time of a put is not good");
        if (record_ok(r))
            job_set_put(job_at(jobs, handle), (int64_t)job_at(jobs, handle)->put_ms + ms);
    }
}

static void restore_burial(struct jobs *jobs, struct record_reader *r)
{
    uint64_t wall_ns = record_get_u64(r);
    if (record_ok(r) && wall_ns > NUMBER_MAX)
        record_refuse(r, "the time of the last burial is not good");
    if (record_ok(r))
        jobs->last_burial_wall_ns = (int64_t)wall_ns;
}

static void restore_clears(struct jobs *jobs, struct record_reader *r)
{
    jobs->clears = record_get_u32(r);
    if (record_ok(r) && jobs->clears > CLEARS_MAX)
        record_refuse(r, "there are too many clears");
    for (uint32_t n = record_get_u32(r); n > 0 && record_ok(r); n--) {
        uint32_t handle = job_find(jobs, record_get_u64(r));
        uint32_t entered = record_get_u32(r), came = record_get_u32(r);
        struct job *job = handle == JOB_NONE ? NULL : job_at(jobs, handle);
        if (record_ok(r) && (!job || entered > jobs->clears || came > jobs->clears))
            record_refuse(r, "a job that a clear leaves is not good");
        if (!job || !record_ok(r))
            break;
        job_set_entered(job, entered);
        if (job->state != JOB_RESERVED)
            job->came = came;
    }
}

bool jobs_restore(struct jobs *jobs, uint32_t kind, struct record_reader *r)
{
    void (*restore)(struct jobs * jobs, struct record_reader * r) =
        kind == JOBS_STATE       ? restore_state
        : kind == JOBS_PUT_TIMES ? restore_put_times
        : kind == JOBS_BURIAL    ? restore_burial
        : kind == JOBS_CLEARS    ? restore_clears
                                 : NULL;
    if (!restore)
        return false;
    jobs_enter(jobs);
    steps_unbounded(LOCK_RANK_JOBS);
    restore(jobs, r);
    record_leave(r);
    jobs_leave(jobs);
    return record_ok(r);
}

bool jobs_restore_done(struct jobs *jobs, struct record_reader *r)
{
    jobs_enter(jobs);
    steps_unbounded(LOCK_RANK_JOBS);
    jobs_end_load(jobs);
    if (jobs->unclaimed > 0)
        record_refuse(r, "a reservation has lost its connection");
    /* Tubes that only lost connections referred to. */
    for (struct tree_node *at = tree_first(&jobs->tubes), *next; at; at = next) {
        struct tube *tube = tube_of_number(at);
        next = tree_next(at);
        tube->became_ready = false;
        tube->serve_on = tube->ready.count > 0 && !tube_is_closed(jobs, tube) &&
                         (tube->waiting > 0 || tree_first(&tube->empty));
        tube_set_due(jobs, tube);
        tube_drop_if_unused(jobs, tube);
    }
    jobs_leave(jobs);
    return record_ok(r);
}

static void restore_line(struct tube_watch *watch)
{
    rejoin_line(watch);
    watch->tube->waiting++;
}

/* Reads the tubes that a wait names. */
static void restore_named(struct jobs_client *client, struct record_reader *r)
{
    struct jobs *jobs = client->jobs;
    uint32_t count = record_get_u32(r);
    if (record_ok(r) && (count == 0 || count > 8192))
        record_refuse(r, "a wait names no tubes");
    if (!record_ok(r))
        return;
    client->named = jobs_alloc(jobs, JOBS_REST, count * sizeof(*client->named));
    if (!client->named) {
        record_refuse(r, NO_MEMORY);
        return;
    }
    client->named_room = count;
    jobs->claims++;
    for (uint32_t n = 0; n < count && record_ok(r); n++) {
        struct tube *tube = get_tube(jobs, r);
        if (tube && tube->named == jobs->claims)
            record_refuse(r, "a wait names a tube twice");
        if (!record_ok(r))
            return;
        tube->named = jobs->claims;
        client->named[client->named_count++] = (struct tube_watch){.tube = tube, .client = client};
    }
}

/* Reads which tubes a client waits for with `ready`. */
static void restore_ask(struct jobs_client *client, struct record_reader *r)
{
    struct jobs_ready ready;
    const void *pattern, *after;
    size_t len = record_get_bytes(r, &pattern), after_len = record_get_bytes(r, &after);
    ready.prefix = record_get_bool(r);
    ready.limit = record_get_u32(r);
    if (record_ok(r) && (len > JOBS_TUBE_MAX || after_len > JOBS_TUBE_MAX || ready.limit == 0 ||
                         (len == 0 && !ready.prefix)))
        record_refuse(r, "a wait for a tube to be ready is not good");
    if (!record_ok(r))
        return;
    ready.pattern = bytes_at(pattern, len);
    ready.after = bytes_at(after, after_len);
    if (!client_ask(client, &ready))
        record_refuse(r, NO_MEMORY);
}

static void restore_wait(struct jobs_client *client, struct record_reader *r)
{
    struct jobs *jobs = client->jobs;
    unsigned kind = record_get_u8(r);
    if (record_ok(r) && kind > 4)
        record_refuse(r, "a wait is of no known kind");
    if (kind == 0 || !record_ok(r))
        return;
    if (kind == 4) {
        restore_ask(client, r);
        return;
    }
    client->age = record_get_u64(r);
    if (client->age > jobs->waits)
        jobs->waits = client->age;
    client->claims = kind > 1;
    if (kind == 2)
        restore_named(client, r);
    if (!record_ok(r))
        return;
    client->wait = WAITING;
    jobs->waiting++;
    client_each_waited(client, restore_line);
    watches_count_wait(client);
    watches_line_up(client, UINT_MAX);
}

/* Reads the reservations of a client, which belong to nobody yet. */
static void restore_reserved(struct jobs_client *client, struct record_reader *r)
{
    struct jobs *jobs = client->jobs;
    for (uint32_t n = record_get_u32(r); n > 0 && record_ok(r); n--) {
        uint32_t handle = job_find(jobs, record_get_u64(r));
        struct job *job = handle == JOB_NONE ? NULL : job_at(jobs, handle);
        if (!record_ok(r))
            return;
        if (!job || job->holder != jobs->leases || jobs->unclaimed == 0) {
            record_refuse(r, "a connection has reserved a job that is not reserved");
            return;
        }
        jobs->unclaimed--;
        job_move(jobs, handle, JOB_RESERVED,
                 (struct job_place){.turn = job->turn, .holder = client, .pri = job->pri});
    }
}

/* Gives up a client that was restored in part. Its reservations stay with nobody. */
static void undo_client(struct jobs_client *client)
{
    struct jobs *jobs = client->jobs;
    for (uint32_t at; (at = client->first_reserved) != JOB_NONE;) {
        const struct job *job = job_at(jobs, at);
        job_move(jobs, at, JOB_RESERVED,
                 (struct job_place){.turn = job->turn, .holder = jobs->leases, .pri = job->pri});
    }
    client_drop(client);
    client_free(client);
}

struct jobs_client *jobs_client_restore(struct jobs *jobs, uint64_t tag, void *owner,
                                        struct record_reader *r)
{
    jobs_enter(jobs);
    struct jobs_client *client = client_make(jobs, tag, owner);
    struct tube *used = client ? get_tube(jobs, r) : NULL;
    if (!client)
        record_refuse(r, NO_MEMORY);
    if (used) {
        used->using ++;
        client->used = used;
    }
    for (uint32_t n = record_ok(r) ? record_get_u32(r) : 0; n > 0 && record_ok(r); n--) {
        struct tube *tube = get_tube(jobs, r);
        if (tube && !client_watch(client, tube, JOBS_REST))
            record_refuse(r, NO_MEMORY);
    }
    if (client && record_ok(r) && client->watch_count == 0)
        record_refuse(r, "a connection watches no tube");
    if (client && record_ok(r)) {
        restore_reserved(client, r);
        client->turn = record_get_u64(r);
        watches_restore_last(client);
        restore_wait(client, r);
    }
    if (client && !record_ok(r)) {
        undo_client(client);
        client = NULL;
    }
    jobs->visits_noted = jobs->visits; /* nobody waits for the lock */
    jobs_leave(jobs);
    return client;
}
