/*
 * fake_store.c - see fake_store.h.
 *
 * Each function counts its call, and then either fails or calls the one of SQLite. The disk's lock
 * is held meanwhile, so that a test may look from another thread; it waits for a transaction's end.
 */
#include "t/unit/jobs/fake_store.h"

#include "base/check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fake_disk {
    struct job_store store; /* first */
    struct job_store *real; /* NULL: it is not open */
    bool inside;
    enum job_store_status failed; /* the first failure inside that the test wanted */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* `inside`, `holds` */
    struct fake_disk *next; /* of all */
    char folder[32], path[40];
    bool is_full, holds;
    uint64_t bad_body, bad_row;
    enum job_store_status bad_status;
    const struct job_store_visitors *(*lie)(const struct job_store_visitors *);
    uint64_t calls[FAKE_ANY + 1];
    struct {
        uint64_t at, left;
        enum job_store_status status;
    } faults[FAKE_ANY + 1];
};

static pthread_mutex_t disks_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_disk *disks;

/* Under the lock of `disk`. */
#define LOCKED(...)                                                                                \
    ({                                                                                             \
        pthread_mutex_lock(&disk->lock);                                                           \
        __auto_type value_ = (__VA_ARGS__);                                                        \
        pthread_mutex_unlock(&disk->lock);                                                         \
        value_;                                                                                    \
    })

/* ---- calls of SQLite that fail as the test wants --------------------------------------------- */

/* Counts a call. Returns the status with which the test wants it to fail; `id`: a job that has a
 * row. */
static enum job_store_status count_call(struct fake_disk *disk, enum fake_call call, uint64_t id,
                                        bool may_fail)
{
    enum job_store_status status = JOB_STORE_OK;
    disk->calls[call]++;
    disk->calls[FAKE_ANY]++;
    if (!may_fail)
        return status;
    for (int i = 0; i < 2; i++) {
        enum fake_call of = i == 0 ? call : FAKE_ANY;
        if (status != JOB_STORE_OK || disk->faults[of].left == 0 ||
            disk->calls[of] < disk->faults[of].at)
            continue;
        if (disk->faults[of].left != UINT64_MAX)
            disk->faults[of].left--;
        status = disk->faults[of].status;
    }
    if (status != JOB_STORE_OK)
        return status;
    if (call == FAKE_READ_BODY)
        return id == disk->bad_body ? disk->bad_status : JOB_STORE_OK;
    if ((call == FAKE_CHANGE || call == FAKE_REMOVE) && id == disk->bad_row)
        return JOB_STORE_CORRUPT;
    return call == FAKE_PUT && disk->is_full ? JOB_STORE_FULL : JOB_STORE_OK;
}

/* Begins a call, and takes the lock. OK, or the failure of the transaction, or one that the test
 * wants. */
static enum job_store_status enter(const struct job_store *store, enum fake_call call, uint64_t id)
{
    struct fake_disk *disk = unconst(store);
    pthread_mutex_lock(&disk->lock);
    bool has_failed = disk->inside && disk->failed != JOB_STORE_OK;
    enum job_store_status status = count_call(disk, call, id, !has_failed);
    if (has_failed)
        return disk->failed;
    if (status != JOB_STORE_OK) {
        strcpy(disk->store.reason, "the test wants it to fail");
        if (disk->inside || call == FAKE_BEGIN)
            disk->failed = status;
    }
    return status;
}

static enum job_store_status leave(const struct job_store *store, enum job_store_status status)
{
    struct fake_disk *disk = unconst(store);
    if (status != JOB_STORE_OK && disk->failed == JOB_STORE_OK && *disk->real->reason)
        memcpy(disk->store.reason, disk->real->reason, sizeof(disk->store.reason));
    pthread_mutex_unlock(&disk->lock);
    return status;
}

static struct job_store *real(const struct job_store *store)
{
    return ((const struct fake_disk *)store)->real;
}

#define CALL(function, which, id, parameters, ...)                                                 \
    static enum job_store_status fake_##function parameters                                        \
    {                                                                                              \
        enum job_store_status status = enter(store, FAKE_##which, id);                             \
        if (status == JOB_STORE_OK)                                                                \
            status = job_store_sqlite.function(real(store), __VA_ARGS__);                          \
        return leave(store, status);                                                               \
    }

CALL(take_ids, TAKE_IDS, 0, (struct job_store * store, uint64_t count, uint64_t *first_r), count,
     first_r)
CALL(put, PUT, 0, (struct job_store * store, const struct job_record *job, struct bytes body), job,
     body)
CALL(change, CHANGE, id, (struct job_store * store, uint64_t id, const struct job_changing *now),
     id, now)
CALL(remove, REMOVE, id, (struct job_store * store, uint64_t id), id)
CALL(execute, EXECUTE, 0,
     (struct job_store * store, uint64_t id, int64_t time_ns, int64_t forget_ns), id, time_ns,
     forget_ns)
CALL(set_tube, SET_TUBE, 0, (struct job_store * store, const struct job_tube_record *tube), tube)
CALL(remember, REMEMBER, 0,
     (struct job_store * store, enum job_memory_kind kind, const struct job_memory *memory), kind,
     memory)
CALL(recall, RECALL, 0,
     (struct job_store * store, enum job_memory_kind kind, struct job_memory *memory), kind, memory)
CALL(forget, FORGET, 0,
     (struct job_store * store, enum job_memory_kind kind, struct bytes tube, struct bytes name),
     kind, tube, name)
CALL(forget_old, FORGET_OLD, 0,
     (struct job_store * store, int64_t now_ns, uint32_t most, uint32_t *count_r), now_ns, most,
     count_r)
CALL(read_body, READ_BODY, id, (struct job_store * store, uint64_t id, void *into, uint32_t len),
     id, into, len)
CALL(tend, TEND, 0, (struct job_store * store, int64_t mono_ns), mono_ns)

static enum job_store_status fake_load(struct job_store *store,
                                       const struct job_store_visitors *visitors)
{
    const struct fake_disk *disk = unconst(store);
    enum job_store_status status = enter(store, FAKE_LOAD, 0);
    if (status == JOB_STORE_OK)
        status = job_store_sqlite.load(disk->real, disk->lie ? disk->lie(visitors) : visitors);
    return leave(store, status);
}

static enum job_store_status fake_can_open(struct job_store *store)
{
    struct fake_disk *disk = unconst(store);
    return LOCKED(job_store_sqlite.can_open(disk->real));
}

static int64_t fake_tend_ns(const struct job_store *store)
{
    struct fake_disk *disk = unconst(store);
    return LOCKED(job_store_sqlite.tend_ns(disk->real));
}

static bool fake_is_full(const struct job_store *store)
{
    struct fake_disk *disk = unconst(store);
    return LOCKED(job_store_sqlite.is_full(disk->real));
}

static void fake_get_sizes(struct job_store *store, struct job_store_sizes *sizes_r)
{
    struct fake_disk *disk = unconst(store);
    (void)LOCKED(job_store_sqlite.get_sizes(disk->real, sizes_r), true);
}

/* ---- life, transactions ---------------------------------------------------------------------- */

static enum job_store_status fake_open(const struct job_store_config *config,
                                       struct job_store **store_r, char *reason_r)
{
    struct job_store *opened;
    pthread_mutex_lock(&disks_lock);
    struct fake_disk *disk = disks;
    while (strcmp(disk->path, config->path) != 0)
        disk = disk->next;
    pthread_mutex_unlock(&disks_lock);
    enum job_store_status status = job_store_sqlite.open(config, &opened, reason_r);
    *store_r = NULL;
    if (status != JOB_STORE_OK)
        return status;
    (void)LOCKED(disk->real = opened);
    disk->store = (struct job_store){.does = &fake_store};
    *store_r = &disk->store;
    return JOB_STORE_OK;
}

/* A transaction begins, or is over. */
static void set_inside(struct fake_disk *disk, bool inside)
{
    disk->inside = inside;
    if (!inside)
        disk->failed = JOB_STORE_OK;
    pthread_cond_broadcast(&disk->changed);
}

static void fake_close(struct job_store **store)
{
    struct fake_disk *disk = unconst(*store);
    *store = NULL;
    if (!disk)
        return;
    pthread_mutex_lock(&disk->lock);
    job_store_sqlite.close(&disk->real);
    set_inside(disk, false);
    pthread_mutex_unlock(&disk->lock);
}

static enum job_store_status fake_begin(struct job_store *store)
{
    enum job_store_status status = enter(store, FAKE_BEGIN, 0);
    set_inside(unconst(store), true);
    return leave(store, status == JOB_STORE_OK ? job_store_sqlite.begin(real(store)) : status);
}

static void fake_rollback(struct job_store *store)
{
    struct fake_disk *disk = unconst(store);
    pthread_mutex_lock(&disk->lock);
    job_store_sqlite.rollback(disk->real);
    set_inside(disk, false);
    pthread_mutex_unlock(&disk->lock);
}

static enum job_store_status fake_commit(struct job_store *store, int64_t mono_ns)
{
    struct fake_disk *disk = unconst(store);
    enum job_store_status status = enter(store, FAKE_COMMIT, 0);
    while (disk->holds)
        pthread_cond_wait(&disk->changed, &disk->lock);
    if (status == JOB_STORE_OK)
        status = job_store_sqlite.commit(disk->real, mono_ns);
    else
        job_store_sqlite.rollback(disk->real);
    set_inside(disk, false);
    return leave(store, status);
}

const struct job_store_kind fake_store = {
    .open = fake_open,
    .close = fake_close,
    .load = fake_load,
    .take_ids = fake_take_ids,
    .begin = fake_begin,
    .commit = fake_commit,
    .rollback = fake_rollback,
    .put = fake_put,
    .change = fake_change,
    .remove = fake_remove,
    .execute = fake_execute,
    .set_tube = fake_set_tube,
    .remember = fake_remember,
    .recall = fake_recall,
    .forget = fake_forget,
    .forget_old = fake_forget_old,
    .read_body = fake_read_body,
    .can_open = fake_can_open,
    .tend = fake_tend,
    .tend_ns = fake_tend_ns,
    .is_full = fake_is_full,
    .get_sizes = fake_get_sizes,
};

/* ---- disks ----------------------------------------------------------------------------------- */

struct fake_disk *fake_disk_new(void)
{
    struct fake_disk *disk = calloc(1, sizeof(*disk));
    CHECK(disk);
    strcpy(disk->folder, "/dev/shm/fake-disk.XXXXXX"); /* in memory: syncs cost nothing */
    if (!mkdtemp(disk->folder)) {
        strcpy(disk->folder, "/tmp/fake-disk.XXXXXX");
        CHECK(mkdtemp(disk->folder));
    }
    snprintf(disk->path, sizeof(disk->path), "%s/jobs", disk->folder);
    pthread_mutex_init(&disk->lock, NULL);
    pthread_cond_init(&disk->changed, NULL);
    pthread_mutex_lock(&disks_lock);
    disk->next = disks;
    disks = disk;
    pthread_mutex_unlock(&disks_lock);
    return disk;
}

void fake_disk_free(struct fake_disk **disk)
{
    static const char *const endings[] = {"", "-wal", "-shm", "-lock", "-reserve", "-journal"};
    struct fake_disk *d = *disk;
    char name[64];
    if (!d)
        return;
    CHECK(!d->real);
    pthread_mutex_lock(&disks_lock);
    struct fake_disk **link = &disks;
    while (*link != d)
        link = &(*link)->next;
    *link = d->next;
    pthread_mutex_unlock(&disks_lock);
    for (size_t n = 0; n < sizeof(endings) / sizeof(endings[0]); n++) {
        snprintf(name, sizeof(name), "%s%s", d->path, endings[n]);
        (void)unlink(name);
    }
    CHECK(rmdir(d->folder) == 0);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    free(d);
    *disk = NULL;
}

const char *fake_disk_path(const struct fake_disk *disk)
{
    return disk->path;
}

uint64_t fake_disk_calls(struct fake_disk *disk, enum fake_call call)
{
    return LOCKED(disk->calls[call]);
}

void fake_disk_fail(struct fake_disk *disk, enum fake_call call, uint64_t nth, uint64_t times,
                    enum job_store_status status)
{
    CHECK(nth >= 1);
    pthread_mutex_lock(&disk->lock);
    disk->faults[call].at = disk->calls[call] + nth;
    disk->faults[call].left = times;
    disk->faults[call].status = status;
    pthread_mutex_unlock(&disk->lock);
}

void fake_disk_fill(struct fake_disk *disk, bool full)
{
    (void)LOCKED(disk->is_full = full);
}

void fake_disk_break_body(struct fake_disk *disk, uint64_t id, enum job_store_status status)
{
    (void)LOCKED(disk->bad_body = id, disk->bad_status = status);
}

void fake_disk_break_row(struct fake_disk *disk, uint64_t id)
{
    (void)LOCKED(disk->bad_row = id);
}

void fake_disk_lie(struct fake_disk *disk,
                   const struct job_store_visitors *(*lie)(const struct job_store_visitors *))
{
    disk->lie = lie;
}

void fake_disk_hold(struct fake_disk *disk, bool holds)
{
    (void)LOCKED(disk->holds = holds);
    pthread_cond_broadcast(&disk->changed);
}

/* ---- what is committed ----------------------------------------------------------------------- */

void fake_disk_look(struct fake_disk *disk, const struct job_store_visitors *visitors)
{
    pthread_mutex_lock(&disk->lock);
    CHECK(disk->real);
    while (disk->inside)
        pthread_cond_wait(&disk->changed, &disk->lock);
    CHECK(job_store_sqlite.load(disk->real, visitors) == JOB_STORE_OK);
    pthread_mutex_unlock(&disk->lock);
}

bool fake_disk_has_body(struct fake_disk *disk, uint64_t id, struct bytes body)
{
    uint8_t is[64];
    CHECK(body.len <= sizeof(is));
    return LOCKED(job_store_sqlite.read_body(disk->real, id, is, (uint32_t)body.len)) ==
               JOB_STORE_OK &&
           memcmp(is, body.data, body.len) == 0;
}

bool fake_disk_memory(struct fake_disk *disk, enum job_memory_kind kind, struct bytes tube,
                      struct bytes name, struct job_memory *memory_r)
{
    *memory_r = (struct job_memory){.tube = tube, .name = name};
    return LOCKED(job_store_sqlite.recall(disk->real, kind, memory_r)) == JOB_STORE_OK;
}

struct search {
    uint64_t id;
    struct bytes tube;
    struct job_changing *now_r;
    struct job_tube_record *tube_r;
    struct fake_counts *counts;
    bool found;
};

static bool see_job(void *arg, const struct job_record *job)
{
    struct search *s = arg;
    if (s->counts)
        s->counts->jobs++;
    if (s->now_r && job->id == s->id) {
        *s->now_r = job->now;
        s->found = true;
    }
    return true;
}

static bool see_memory(void *arg, enum job_memory_kind kind, const struct job_memory *memory)
{
    struct search *s = arg;
    (void)memory;
    if (s->counts)
        s->counts->memories[kind]++;
    return true;
}

static bool see_tube(void *arg, const struct job_tube_record *tube)
{
    struct search *s = arg;
    if (s->tube_r && bytes_equal(tube->name, s->tube)) {
        *s->tube_r = *tube;
        s->found = true;
    }
    return true;
}

static bool look_for(struct fake_disk *disk, struct search search)
{
    const struct job_store_visitors visitors = {
        .arg = &search, .tube = see_tube, .memory = see_memory, .job = see_job};
    fake_disk_look(disk, &visitors);
    return search.found;
}

bool fake_disk_job(struct fake_disk *disk, uint64_t id, struct job_changing *now_r)
{
    return look_for(disk, (struct search){.id = id, .now_r = now_r});
}

bool fake_disk_tube(struct fake_disk *disk, struct bytes name, struct job_tube_record *tube_r)
{
    return look_for(disk, (struct search){.tube = name, .tube_r = tube_r});
}

struct fake_counts fake_disk_count(struct fake_disk *disk)
{
    struct fake_counts counts = {0};
    (void)look_for(disk, (struct search){.counts = &counts});
    return counts;
}
