/*
 * job_store.c - the store of the jobs as a resource with a thread of its own, which alone writes.
 *
 * While a commit runs, what arrives is queued; it is the next transaction. Changes ring the thread
 * (one message, however many they are), and it goes on until nothing is queued. A transaction that
 * fails runs again without its puts, so that a full disk can be emptied; so does one without puts,
 * since the store has space in reserve then.
 * Damage is no failure of the transaction: what it concerns is left out (job_ops_write).
 *
 * Without jobs.path there is no thread, and jobs live in memory.
 */
#include "base/log.h"
#include "base/record.h"
#include "jobs/jobs_commit.h"
#include "service/beanstalk.h"
#include "service/job_backup.h"
#include "service/job_session.h"
#include "service/monitor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A transaction has no more of either, so that answers do not wait for long. */
#define CYCLE_WRITES 2000u
#define CYCLE_BYTES  ((size_t)4 << 20)

/* Ids are taken from the store in blocks of so many. */
#define IDS_BLOCK 1000u

/* What is remembered of keys and roots, and has become old, is removed in such pieces. For a minute
 * they rest as deletions of doomed jobs do; then there are very many. */
#define FORGET_STEP  100u
#define FORGET_NS    (60 * NS_PER_S)
#define FORGET_ON_NS (NS_PER_S / 100)

/* Space on disk for the time when it is full. */
#define RESERVED_SPACE ((uint32_t)4 << 20)

/* The same failure is logged so often at most. */
#define TELL_NS (60 * NS_PER_S)

#define PATH_ROOM 4096u

struct store_resource {
    struct resource resource; /* first */
    const struct store_settings *settings;
    char folder[PATH_ROOM];
    const char *writes[3];
    bool restored, stopped;
    char refusal[PATH_ROOM + JOB_STORE_REASON + 64]; /* of an upgrade; why it was stopped */

    struct mail bell;
    _Atomic bool rings;

    /* The thread's. */
    struct job_store *store;
    uint64_t ids_end; /* ids below it may be used */
    struct timer tend, forget;
    int64_t forgets_since_ns; /* in pieces; 0: it does not */
    bool has_tend, has_forget;
    bool failing, told;
    enum job_store_status told_status;
    int64_t told_ns;
    unsigned untold; /* damage, since the log said so last */
    uint64_t damaged_id;
    int64_t damage_told_ns; /* 0: never */

    struct job_backup backup;

    /* For the admin's thread. */
    _Atomic uint64_t commits, failures, damages, commit_ns, longest_ns, file, log;
    _Atomic bool is_failing;
};

static struct store_resource *own(const struct resource *r)
{
    return container_of(unconst(r), struct store_resource, resource);
}

static struct store_resource *of_timer(struct reactor *thread)
{
    return own(container_of(thread, struct resource, thread));
}

static struct jobs *jobs_in(const struct store_resource *s)
{
    return jobs_of(s->resource.services);
}

static const char *path_of(const struct store_resource *s)
{
    return s->settings && s->settings->path ? s->settings->path : "";
}

static const char *backup_folder(const struct store_resource *s)
{
    const char *folder = s->settings->backup_path;
    return folder && *folder ? folder : s->folder;
}

struct job_backup *backup_of(const struct services *services)
{
    return &own(services_resource(services, "job store"))->backup;
}

/* ---- failures -------------------------------------------------------------------------------- */

static void note_failure(struct store_resource *s, enum job_store_status status)
{
    int64_t now_ns = clock_now().mono_ns;
    atomic_fetch_add_explicit(&s->failures, 1, memory_order_relaxed);
    /* A disk that is nearly full fails, and does not, again and again. */
    if (!s->failing && (status != s->told_status || now_ns >= s->told_ns + TELL_NS)) {
        log_error("jobs.path: %s: %s: %s; puts are refused until that is over", path_of(s),
                  job_store_status_word(status), s->store->reason);
        s->told = true;
        s->told_status = status;
        s->told_ns = now_ns;
    }
    s->failing = true;
    atomic_store_explicit(&s->is_failing, true, memory_order_relaxed);
}

static void note_success(struct store_resource *s)
{
    if (s->told)
        log_info("jobs.path: %s: puts are taken again", path_of(s));
    s->failing = s->told = false;
    atomic_store_explicit(&s->is_failing, false, memory_order_relaxed);
}

/* What is damaged concerns few: the others go on, and so does the rest of a transaction. */
static void note_damage(struct store_resource *s, uint64_t id, const char *reason, unsigned count)
{
    int64_t now_ns = clock_now().mono_ns, quiet_ns = id == s->damaged_id ? TELL_NS : NS_PER_S;
    char what[64] = "what it has of a key, root or tube";
    atomic_fetch_add_explicit(&s->damages, count, memory_order_relaxed);
    s->untold += count;
    if (s->damage_told_ns != 0 && now_ns < s->damage_told_ns + quiet_ns)
        return;
    if (id != 0)
        snprintf(what, sizeof(what), "job %llu", (unsigned long long)id);
    log_error(
        "jobs.path: %s: the file is damaged: %s cannot be read or changed: %s (%u times since "
        "the last such line)",
        path_of(s), what, reason, s->untold);
    s->damaged_id = id;
    s->damage_told_ns = now_ns;
    s->untold = 0;
}

/* ---- cycles ---------------------------------------------------------------------------------- */

static void set_tend(struct store_resource *s)
{
    int64_t at_ns = s->store->does->tend_ns(s->store);
    reactor_set_timer(&s->resource.thread, &s->tend, at_ns);
}

/* Takes ids up to those of new jobs. */
static enum job_store_status take_ids(struct store_resource *s, uint64_t max_id)
{
    uint64_t first;
    if (max_id < s->ids_end)
        return JOB_STORE_OK;
    uint64_t count = (max_id + 1 - s->ids_end + IDS_BLOCK - 1) / IDS_BLOCK * IDS_BLOCK;
    enum job_store_status status = s->store->does->take_ids(s->store, count, &first);
    if (status == JOB_STORE_OK)
        s->ids_end = first + count;
    return status;
}

/* Counts a transaction that began then. Returns how long it took. */
static int64_t count_commit(struct store_resource *s, int64_t begin_ns)
{
    uint64_t took_ns = (uint64_t)(clock_now().mono_ns - begin_ns);
    atomic_fetch_add_explicit(&s->commits, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->commit_ns, took_ns, memory_order_relaxed);
    if (took_ns > atomic_load_explicit(&s->longest_ns, memory_order_relaxed))
        atomic_store_explicit(&s->longest_ns, took_ns, memory_order_relaxed);
    return (int64_t)took_ns;
}

/* Commits what the list changes. */
static void commit(struct store_resource *s, struct job_op_list *list)
{
    struct job_store *store = s->store;
    int64_t begin_ns = clock_now().mono_ns;
    enum job_store_status status = JOB_STORE_FULL, without;
    bool with_puts = list->has_puts && !store->does->is_full(store);
    if (with_puts)
        status = take_ids(s, list->max_id);
    if (!list->has_puts || (with_puts && status == JOB_STORE_OK))
        status = job_ops_write(store, list, begin_ns, false);
    if (status != JOB_STORE_OK)
        note_failure(s, status);
    if (status != JOB_STORE_OK && (list->has_puts || status == JOB_STORE_FULL)) {
        without = job_ops_write(store, list, begin_ns, true);
        if (without != JOB_STORE_OK)
            note_failure(s, without);
        job_ops_committed(list, without, true);
    } else {
        job_ops_committed(list, status, false);
    }
    if (status == JOB_STORE_OK && !store->does->is_full(store))
        note_success(s);
    backup_worked(&s->backup, count_commit(s, begin_ns));
}

static void deliver(struct store_resource *s, struct jobs_outbox *outbox)
{
    struct services *services = s->resource.services;
    jobs_deliver(NULL, services, outbox);
    for (struct mail *mail; (mail = mail_list_take(&outbox->done)) != NULL;)
        conn_post_late(services->server, /* `deliver` is the owner's */
                       container_of(mail, struct message, mail));
}

/* Does one transaction of what is queued. Returns false when nothing was. */
static bool cycle(struct store_resource *s)
{
    struct job_op_list list;
    struct jobs_outbox outbox;
    if (!jobs_take_ops(jobs_in(s), &list, CYCLE_WRITES, CYCLE_BYTES))
        return false;
    job_ops_read(jobs_in(s), s->store, &list, clock_unix_ns());
    if (list.has_writes)
        commit(s, &list);
    if (list.damages > 0)
        note_damage(s, list.damaged_id, list.damage_reason, list.damages);
    jobs_outbox_init(&outbox);
    jobs_settle(jobs_in(s), &list, clock_now(), &outbox);
    deliver(s, &outbox);
    return true;
}

static void ring(void *arg)
{
    struct store_resource *s = arg;
    if (!atomic_exchange(&s->rings, true))
        reactor_post_late(&s->resource.thread, &s->bell);
}

static void on_bell(struct mail *mail, void *reactor)
{
    struct store_resource *s = of_timer(reactor);
    (void)mail;
    atomic_store(&s->rings, false);
    if (!s->store)
        return;
    if (cycle(s) && jobs_has_ops(jobs_in(s)))
        ring(s); /* what is left, after the thread's other work */
    set_tend(s);
}

/* ---- upkeep ---------------------------------------------------------------------------------- */

static void note_sizes(struct store_resource *s)
{
    struct job_store_sizes sizes;
    s->store->does->get_sizes(s->store, &sizes);
    atomic_store_explicit(&s->file, sizes.file, memory_order_relaxed);
    atomic_store_explicit(&s->log, sizes.log, memory_order_relaxed);
}

static int64_t on_tend(struct timer *timer, struct moment now)
{
    struct store_resource *s = container_of(timer, struct store_resource, tend);
    bool was_full = s->store->does->is_full(s->store);
    int64_t begin_ns = clock_now().mono_ns;
    enum job_store_status status = s->store->does->tend(s->store, now.mono_ns);
    if (status != JOB_STORE_OK)
        note_failure(s, status);
    else if (was_full && !s->store->does->is_full(s->store))
        note_success(s);
    note_sizes(s);
    struct moment after = clock_now();
    int64_t until_ns = jobs_upkeep_over(jobs_in(s), after.mono_ns - begin_ns, after);
    jobs_set_timer(s->resource.services);
    if (s->forgets_since_ns != 0 && after.mono_ns < s->forgets_since_ns + FORGET_NS)
        reactor_set_timer(&s->resource.thread, &s->forget, until_ns);
    int64_t at_ns = s->store->does->tend_ns(s->store);
    return at_ns == INT64_MAX ? DEADLINE_NONE : at_ns > now.mono_ns ? at_ns : now.mono_ns + 1;
}

static int64_t on_forget(struct timer *timer, struct moment now)
{
    struct store_resource *s = container_of(timer, struct store_resource, forget);
    const struct job_store_kind *does = s->store->does;
    uint32_t count = 0;
    int64_t begin_ns = clock_now().mono_ns;
    enum job_store_status status = does->begin(s->store);
    if (status == JOB_STORE_OK)
        status = does->forget_old(s->store, clock_unix_ns(), FORGET_STEP, &count);
    if (status == JOB_STORE_OK)
        status = does->commit(s->store, now.mono_ns);
    else
        does->rollback(s->store);
    if (status == JOB_STORE_CORRUPT)
        note_damage(s, 0, s->store->reason, 1);
    if (count > 0)
        (void)count_commit(s, begin_ns);
    set_tend(s);
    bool more = status == JOB_STORE_OK && count == FORGET_STEP;
    if (!more || s->forgets_since_ns == 0)
        s->forgets_since_ns = more ? now.mono_ns : 0;
    return now.mono_ns + (more ? FORGET_ON_NS : FORGET_NS);
}

/* ---- life ------------------------------------------------------------------------------------ */

static bool start(struct resource *r, const void *settings, struct moment now)
{
    struct store_resource *s = own(r);
    (void)now;
    s->settings = settings;
    backup_init(&s->backup, r->services, &r->thread);
    r->without_thread = *path_of(s) == '\0';
    if (r->without_thread)
        return true;
    (void)snprintf(s->folder, sizeof(s->folder), "%s", path_of(s));
    char *slash = strrchr(s->folder, '/');
    slash[slash == s->folder] = '\0';
    s->writes[0] = s->folder;
    if (strcmp(backup_folder(s), s->folder) != 0)
        s->writes[1] = backup_folder(s);
    r->sandbox = (struct sandbox){.name = "job store", .writes = s->writes};
    s->bell.deliver = on_bell;
    s->tend.run = on_tend;
    s->forget.run = on_forget;
    return jobs_use_store(jobs_in(s), ring, s);
}

static bool refuse(const struct store_resource *s, enum job_store_status status, const char *reason)
{
    const char *hint = "";
    if (status == JOB_STORE_LOCKED)
        hint = "; is another counterd running?";
    else if (status == JOB_STORE_NO_MEMORY)
        hint = "; the jobs need more memory than there is";
    log_error("jobs.path: %s: %s: %s%s", path_of(s), job_store_status_word(status), reason, hint);
    return false;
}

/* A file that is damaged keeps nobody but the job queues from being served. */
static bool stop(struct store_resource *s, enum job_store_status status, const char *reason)
{
    snprintf(s->refusal, sizeof(s->refusal), "jobs.path: %s: %s: %s", path_of(s),
             job_store_status_word(status), reason);
    log_error("%s; the job queues do not serve, and their ports are closed, until counterd starts "
              "with a good file",
              s->refusal);
    if (s->store)
        s->store->does->close(&s->store);
    s->resource.without_thread = true;
    s->stopped = true;
    return jobs_stop(s->resource.services, s->refusal);
}

static bool refuse_or_stop(struct store_resource *s, enum job_store_status status,
                           const char *reason)
{
    bool stops = status == JOB_STORE_CORRUPT || status == JOB_STORE_IO;
    if (!stops || s->restored) /* connections may be in the middle of something */
        return refuse(s, status, reason);
    return stop(s, status, reason);
}

static bool load(struct store_resource *s, struct moment now)
{
    struct jobs_stats stats;
    uint64_t first, count = 0;
    enum job_store_status status = jobs_load(jobs_in(s), s->store, now);
    if (status == JOB_STORE_OK)
        status = s->store->does->take_ids(s->store, IDS_BLOCK, &first);
    if (status != JOB_STORE_OK)
        return refuse_or_stop(s, status, s->store->reason);
    s->ids_end = first + IDS_BLOCK;
    jobs_set_next_id(jobs_in(s), first);
    jobs_get_stats(jobs_in(s), &stats);
    for (unsigned n = 0; n < JOB_STATES; n++)
        count += stats.states[n];
    log_info("jobs.path: %s: %llu jobs in %.1f s", path_of(s), (unsigned long long)count,
             (double)(clock_now().mono_ns - now.mono_ns) / (double)NS_PER_S);
    return true;
}

static bool open_store(struct resource *r, struct moment now)
{
    struct store_resource *s = own(r);
    char reason[JOB_STORE_REASON];
    if (r->without_thread)
        return true;
    const struct job_store_config config = {.path = path_of(s),
                                            .sync = (enum job_store_sync)s->settings->sync,
                                            .reserved_space = RESERVED_SPACE};
    enum job_store_status status = job_store_sqlite.open(&config, &s->store, reason);
    if (status != JOB_STORE_OK)
        return refuse_or_stop(s, status, reason);
    if (!s->restored && !load(s, now))
        return false;
    if (s->stopped)
        return true;
    if (!backup_open(&s->backup, s->store, path_of(s), backup_folder(s))) {
        log_error("jobs.backup_path: %s: %s; name a folder that is there", backup_folder(s),
                  strerrordesc_np(errno));
        return false;
    }
    note_sizes(s);
    s->has_tend = reactor_add_timer(&r->thread, &s->tend, s->store->does->tend_ns(s->store));
    s->has_forget = reactor_add_timer(&r->thread, &s->forget, now.mono_ns + FORGET_NS);
    if (!s->has_tend || !s->has_forget)
        return refuse(s, JOB_STORE_NO_MEMORY, "no timers");
    jobs_set_timer(r->services);
    return true;
}

struct pausing {
    int64_t until_ns;
    enum job_store_status status;
};

static void run_cycles(struct reactor *thread, void *arg)
{
    struct pausing *pausing = arg;
    struct store_resource *s = of_timer(thread);
    backup_end(&s->backup, "counterd ends or is upgraded");
    while (clock_now().mono_ns < pausing->until_ns &&
           (cycle(s) || jobs_finish_ends(jobs_in(s), clock_now())))
        continue;
    if (pausing->until_ns != DEADLINE_NONE)
        pausing->status = s->store->does->can_open(s->store);
}

/* Commits everything that is queued, and what follows from that. The next process could neither
 * serve the jobs nor keep their connections with a file that it cannot open. */
static bool pause_resource(struct resource *r, int64_t until_ns)
{
    struct store_resource *s = own(r);
    struct pausing pausing = {.until_ns = until_ns, .status = JOB_STORE_OK};
    if (r->without_thread)
        return true;
    reactor_ask(&r->thread, run_cycles, &pausing);
    if (pausing.status == JOB_STORE_OK)
        return !jobs_has_ops(jobs_in(s));
    snprintf(s->refusal, sizeof(s->refusal), "jobs.path: %s: %s: %s", path_of(s),
             job_store_status_word(pausing.status), s->store->reason);
    r->services->refusal = s->refusal;
    return false;
}

static void end(struct resource *r)
{
    struct store_resource *s = own(r);
    backup_close(&s->backup);
    backup_destroy(&s->backup);
    if (!s->store)
        return;
    if (s->has_tend)
        reactor_remove_timer(&r->thread, &s->tend);
    if (s->has_forget)
        reactor_remove_timer(&r->thread, &s->forget);
    s->store->does->close(&s->store);
}

/* ---- upgrades -------------------------------------------------------------------------------- */

/* bytes jobs.path, u64 the first id that is not taken; if there is a store */
#define STORE_STATE UINT32_C(0x0603)

static void save(const struct resource *r, struct moment now, struct record_writer *w)
{
    const struct store_resource *s = own(r);
    (void)now;
    if (r->without_thread)
        return;
    record_begin(w, STORE_STATE);
    record_put_bytes(w, path_of(s), strlen(path_of(s)));
    record_put_u64(w, s->ids_end);
    record_end(w);
}

static bool restore(struct resource *r, struct moment now, uint32_t kind,
                    struct record_reader *section)
{
    struct store_resource *s = own(r);
    const void *path;
    (void)now;
    if (kind != STORE_STATE)
        return false;
    size_t len = record_get_bytes(section, &path);
    s->ids_end = record_get_u64(section);
    s->restored = true;
    if (record_ok(section) && !bytes_equal(bytes_at(path, len), bytes_of(path_of(s))))
        record_refuse(section, "jobs.path has changed, which needs a restart");
    else if (record_ok(section) && !backup_can_use(backup_folder(s)))
        record_refuse(section, "jobs.backup_path is no folder");
    return record_ok(section);
}

static bool restore_done(struct resource *r, struct record_reader *reader)
{
    struct store_resource *s = own(r);
    const struct protocol *protocol = services_protocol(r->services, "jobs");
    if (r->without_thread || s->restored)
        return true;
    struct jobs_stats stats;
    jobs_get_stats(jobs_in(s), &stats);
    /* Clients know ids of jobs and wait for tubes, which the file may have, too. */
    bool used = protocol && atomic_load(&protocol->connections) > 0;
    for (unsigned n = 0; n < JOB_STATES; n++)
        used = used || stats.states[n] > 0;
    if (used)
        record_refuse(reader, "jobs.path was set, which needs a restart while there are jobs or "
                              "clients of the job queues");
    return !used;
}

/* ---- what it shows --------------------------------------------------------------------------- */

struct reading {
    struct backup_stats backup;
    uint64_t commits, failures, damages, file, log;
    duration commit_ns, longest_ns;
    bool on, failing, stopped;
    uint64_t backups[2]; /* good, failed */
};

static void read_store(struct services *services, struct moment now, void *to)
{
    const struct store_resource *s = own(services_resource(services, "job store"));
    struct reading *reading = to;
    (void)now;
    *reading = (struct reading){
        .on = *path_of(s) != '\0',
        .stopped = s->stopped,
        .commits = atomic_load_explicit(&s->commits, memory_order_relaxed),
        .failures = atomic_load_explicit(&s->failures, memory_order_relaxed),
        .damages = atomic_load_explicit(&s->damages, memory_order_relaxed),
        .commit_ns = atomic_load_explicit(&s->commit_ns, memory_order_relaxed),
        .longest_ns = atomic_load_explicit(&s->longest_ns, memory_order_relaxed),
        .file = atomic_load_explicit(&s->file, memory_order_relaxed),
        .log = atomic_load_explicit(&s->log, memory_order_relaxed),
        .failing = atomic_load_explicit(&s->is_failing, memory_order_relaxed),
    };
    backup_read(backup_of(services), &reading->backup);
    reading->backups[0] = reading->backup.made;
    reading->backups[1] = reading->backup.failed;
}

static const char *backup_word(unsigned failed)
{
    return failed ? "failed" : "good";
}

#define OF(member) METRIC_OF(struct reading, member), .when = offsetof(struct reading, on)

static const struct metric_row metrics[] = {
    {"counterd_jobs_store_commits_total", METRIC_COUNTER, "Transactions of the store of jobs.", "",
     1, OF(commits)},
    {"counterd_jobs_store_commit_seconds_total", METRIC_COUNTER, "Time of those transactions.", "",
     1, OF(commit_ns), .kind = METRIC_IS_NS},
    {"counterd_jobs_store_longest_commit_seconds", METRIC_GAUGE,
     "The longest of them since the start.", "", 1, OF(longest_ns), .kind = METRIC_IS_NS},
    {"counterd_jobs_store_failures_total", METRIC_COUNTER, "Failures to write or to sync.", "", 1,
     OF(failures)},
    {"counterd_jobs_store_damages_total", METRIC_COUNTER,
     "Reads and changes of jobs that failed because the file is damaged.", "", 1, OF(damages)},
    {"counterd_jobs_store_failing", METRIC_GAUGE, "1 while the last commit has failed.", "", 1,
     OF(failing)},
    {"counterd_jobs_store_stopped", METRIC_GAUGE,
     "1 if the file was damaged at the start, so that the job queues do not serve.", "", 1,
     OF(stopped)},
    {"counterd_jobs_store_backups_total", METRIC_COUNTER,
     "Backups that are over: good, or failed or ended.", "outcome", 2,
     METRIC_BY(struct reading, backups, backup_word), .when = offsetof(struct reading, on)},
    {"counterd_jobs_store_backup_running", METRIC_GAUGE, "1 while a backup is made.", "", 1,
     OF(backup.running)},
    {"counterd_jobs_store_file_bytes", METRIC_GAUGE, "Size of the file jobs.path.", "", 1,
     OF(file)},
    {"counterd_jobs_store_log_bytes", METRIC_GAUGE, "Bytes in its log, not yet in the file.", "", 1,
     OF(log)},
    {0},
};

static void add_statistics(struct services *services, struct moment now, struct json_text *to)
{
    struct reading r;
    read_store(services, now, &r);
    json_text_bool(to, "enabled", r.on);
    json_text_string(to, "stopped", bytes_of(r.stopped ? tubes_resource(services)->stopped : ""));
    json_text_bool(to, "failing", r.failing);
    json_text_number(to, "commits", r.commits);
    json_text_number(to, "failures", r.failures);
    json_text_number(to, "damages", r.damages);
    json_text_number(to, "file_bytes", r.file);
    json_text_number(to, "log_bytes", r.log);
}

static const struct route_row routes[] = {
    {HTTP_GET, "/api/v1/backup", get_backup, false},
    {HTTP_POST, "/api/v1/backup", make_backup, true},
    {0},
};

static const struct monitor monitor = {.read = read_store,
                                       .reading_size = sizeof(struct reading),
                                       .metrics = metrics,
                                       .routes = routes,
                                       .statistics = add_statistics};

const struct resource_row store_resource_row = {
    .name = "job store",
    .size = sizeof(struct store_resource),
    .threaded = true,
    .start = start,
    .open = open_store,
    .pause = pause_resource,
    .save = save,
    .restore = restore,
    .restore_done = restore_done,
    .monitor = &monitor,
    .end = end,
};

/* ---- options --------------------------------------------------------------------------------- */

enum { STORE_ROW_PATH, STORE_ROW_SYNC, STORE_ROW_BACKUP };

/* None, or an absolute one. */
static bool is_path(const char *path)
{
    return !path || *path == '\0' || (*path == '/' && strlen(path) < PATH_ROOM);
}

static bool check_settings(struct option_check *check)
{
    const struct store_settings *settings = check->is;
    _Static_assert(sizeof(check->reason) >= JOB_STORE_REASON, "it has room for the store's");
    if (!is_path(settings->path)) {
        check->row = STORE_ROW_PATH;
        snprintf(check->reason, sizeof(check->reason), "not an absolute path, such as \"%s\"",
                 "/var/lib/counterd/jobs.db");
    } else if (!is_path(settings->backup_path)) {
        check->row = STORE_ROW_BACKUP;
        snprintf(check->reason, sizeof(check->reason), "not an absolute path, such as \"%s\"",
                 "/var/backups/counterd");
    } else {
        /* At a start as root, opening it tells; at a reload, root has given up its rights. */
        check->row = STORE_ROW_PATH;
        return !settings->path || !*settings->path || geteuid() == 0 ||
               job_store_sqlite_may_use(settings->path, check->reason);
    }
    return false;
}

static const char *const syncs[] = {"full", "normal", NULL};

/* clang-format off */
static const struct option_row rows[] = {
    [STORE_ROW_PATH] = { .key = "path", OPTION_IS_STRING(struct store_settings, path),
      .default_text = "", .unit = "",
      .help = "file of the job queues (SQLite); none: jobs live in memory" },
    [STORE_ROW_SYNC] = { .key = "sync", OPTION_IS_CHOICE(struct store_settings, sync), .choices = syncs,
      .default_text = "full", .unit = "",
      .help = "full: answers survive power loss; normal: those of the last second may not" },
    [STORE_ROW_BACKUP] = { .key = "backup_path", OPTION_IS_STRING(struct store_settings, backup_path),
      .default_text = "", .unit = "",
      .help = "folder for backups of that file; none: its own" },
};
/* clang-format on */

const struct option_group store_options = {
    .owner = "job store",
    .prefix = "jobs",
    .rows = rows,
    .count = ARRAY_SIZE(rows),
    .size = sizeof(struct store_settings),
    .check = check_settings,
    .opened_as_user = true,
};
