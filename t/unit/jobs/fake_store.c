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

struct fake {
    struct job_store store; /* first */
    struct fake_disk *disk;
    struct job_store *real;
    bool inside;
    enum job_store_status failed; /* the first failure inside that the test wanted */
};

struct fake_disk {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* `inside`, `holds` */
    struct fake_disk *next; /* of all */
    char folder[32], path[40];
    struct fake *open;
    bool is_full, holds;
    uint64_t bad_body, bad_row;
    enum job_store_status bad_status;
    uint64_t calls[FAKE_ANY + 1];
    struct {
        uint64_t at, left;
        enum job_store_status status;
    } faults[FAKE_ANY + 1];
};

static pthread_mutex_t disks_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_disk *disks;

/* ---- failures -------------------------------------------------------------------------------- */

/* Counts a call. Returns the status with which the test wants it to fail. */
static enum job_store_status count_call(struct fake_disk *disk, enum fake_call call, bool may_fail)
{
    enum job_store_status status = JOB_STORE_OK;
    disk->calls[call]++;
    disk->calls[FAKE_ANY]++;
    for (int i = 0; i < 2 && may_fail; i++) {
        enum fake_call of = i == 0 ? call : FAKE_ANY;
        if (status != JOB_STORE_OK || disk->faults[of].left == 0 ||
            disk->calls[of] < disk->faults[of].at)
            continue;
        if (disk->faults[of].left != UINT64_MAX)
            disk->faults[of].left--;
        status = disk->faults[of].status;
    }
    return status;
}

static enum job_store_status fail(struct fake *f, enum job_store_status status)
{
    strcpy(f->store.reason, "the test wants it to fail");
    if (f->inside && f->failed == JOB_STORE_OK)
        f->failed = status;
    return status;
}

/* Begins a call, and takes the lock. OK, or the failure of the transaction, or one that the test
 * wants. */
static enum job_store_status enter(const struct job_store *store, enum fake_call call)
{
    struct fake *f = unconst(store);
    pthread_mutex_lock(&f->disk->lock);
    bool has_failed = f->inside && f->failed != JOB_STORE_OK;
    enum job_store_status status = count_call(f->disk, call, !has_failed);
    if (has_failed)
        return f->failed;
    return status == JOB_STORE_OK ? status : fail(f, status);
}

static enum job_store_status leave(struct fake *f, enum job_store_status status)
{
    if (status != JOB_STORE_OK && f->failed == JOB_STORE_OK && *f->real->reason)
        memcpy(f->store.reason, f->real->reason, sizeof(f->store.reason));
    pthread_mutex_unlock(&f->disk->lock);
    return status;
}

/* A call of SQLite's, unless the test wants it to fail. */
#define PASS_ON(CALL, function, ...)                                                               \
    ({                                                                                             \
        struct fake *f_ = unconst(store);                                                          \
        enum job_store_status status_ = enter(store, CALL);                                        \
        if (status_ == JOB_STORE_OK)                                                               \
            status_ = job_store_sqlite.function(f_->real, ##__VA_ARGS__);                          \
        leave(f_, status_);                                                                        \
    })

/* ---- life ------------------------------------------------------------------------------------ */

static enum job_store_status fake_open(const struct job_store_config *config,
                                       struct job_store **store_r, char *reason_r)
{
    *store_r = NULL;
    pthread_mutex_lock(&disks_lock);
    struct fake_disk *disk = disks;
    while (strcmp(disk->path, config->path) != 0)
        disk = disk->next;
    pthread_mutex_unlock(&disks_lock);
    struct fake *f = calloc(1, sizeof(*f));
    CHECK(f);
    *f = (struct fake){.store.does = &fake_store, .disk = disk};
    enum job_store_status status = job_store_sqlite.open(config, &f->real, reason_r);
    if (status != JOB_STORE_OK) {
        free(f);
        return status;
    }
    pthread_mutex_lock(&disk->lock);
    disk->open = f;
    pthread_mutex_unlock(&disk->lock);
    *store_r = &f->store;
    return JOB_STORE_OK;
}

static void fake_close(struct job_store **store)
{
    struct fake *f = unconst(*store);
    if (!f)
        return;
    pthread_mutex_lock(&f->disk->lock);
    f->disk->open = NULL;
    job_store_sqlite.close(&f->real);
    pthread_mutex_unlock(&f->disk->lock);
    free(f);
    *store = NULL;
}

static void set_inside(struct fake *f, bool inside)
{
    f->inside = inside;
    f->failed = JOB_STORE_OK;
    pthread_cond_broadcast(&f->disk->changed);
}

static enum job_store_status fake_begin(struct job_store *store)
{
    struct fake *f = unconst(store);
    enum job_store_status status = enter(store, FAKE_BEGIN);
    set_inside(f, true);
    f->failed = status;
    return leave(f, status == JOB_STORE_OK ? job_store_sqlite.begin(f->real) : status);
}

static void fake_rollback(struct job_store *store)
{
    struct fake *f = unconst(store);
    pthread_mutex_lock(&f->disk->lock);
    job_store_sqlite.rollback(f->real);
    set_inside(f, false);
    pthread_mutex_unlock(&f->disk->lock);
}

static enum job_store_status fake_commit(struct job_store *store, int64_t mono_ns)
{
    struct fake *f = unconst(store);
    enum job_store_status status = enter(store, FAKE_COMMIT);
    while (f->disk->holds)
        pthread_cond_wait(&f->disk->changed, &f->disk->lock);
    if (status == JOB_STORE_OK)
        status = job_store_sqlite.commit(f->real, mono_ns);
    else
        job_store_sqlite.rollback(f->real);
    status = leave(f, status);
    pthread_mutex_lock(&f->disk->lock);
    set_inside(f, false);
    pthread_mutex_unlock(&f->disk->lock);
    return status;
}

/* ---- what SQLite does ------------------------------------------------------------------------ */

static enum job_store_status fake_load(struct job_store *store,
                                       const struct job_store_visitors *visitors)
{
    return PASS_ON(FAKE_LOAD, load, visitors);
}

static enum job_store_status fake_take_ids(struct job_store *store, uint64_t count,
                                           uint64_t *first_r)
{
    *first_r = 0;
    return PASS_ON(FAKE_TAKE_IDS, take_ids, count, first_r);
}

static enum job_store_status fake_put(struct job_store *store, const struct job_record *job,
                                      struct bytes body)
{
    struct fake *f = unconst(store);
    enum job_store_status status = enter(store, FAKE_PUT);
    if (status == JOB_STORE_OK && f->disk->is_full)
        status = fail(f, JOB_STORE_FULL);
    return leave(f, status == JOB_STORE_OK ? job_store_sqlite.put(f->real, job, body) : status);
}

/* The same of a job that has a row. */
static enum job_store_status enter_row(struct job_store *store, enum fake_call call, uint64_t id)
{
    struct fake *f = unconst(store);
    enum job_store_status status = enter(store, call);
    return status == JOB_STORE_OK && id == f->disk->bad_row ? fail(f, JOB_STORE_CORRUPT) : status;
}

static enum job_store_status fake_change(struct job_store *store, uint64_t id,
                                         const struct job_changing *now)
{
    struct fake *f = unconst(store);
    enum job_store_status status = enter_row(store, FAKE_CHANGE, id);
    return leave(f, status == JOB_STORE_OK ? job_store_sqlite.change(f->real, id, now) : status);
}

static enum job_store_status fake_remove(struct job_store *store, uint64_t id)
{
    struct fake *f = unconst(store);
    enum job_store_status status = enter_row(store, FAKE_REMOVE, id);
    return leave(f, status == JOB_STORE_OK ? job_store_sqlite.remove(f->real, id) : status);
}

static enum job_store_status fake_execute(struct job_store *store, uint64_t id, int64_t time_ns,
                                          int64_t forget_ns)
{
    return PASS_ON(FAKE_EXECUTE, execute, id, time_ns, forget_ns);
}

static enum job_store_status fake_set_tube(struct job_store *store,
                                           const struct job_tube_record *tube)
{
    return PASS_ON(FAKE_SET_TUBE, set_tube, tube);
}

static enum job_store_status fake_remember(struct job_store *store, enum job_memory_kind kind,
                                           const struct job_memory *memory)
{
    return PASS_ON(FAKE_REMEMBER, remember, kind, memory);
}

static enum job_store_status fake_recall(struct job_store *store, enum job_memory_kind kind,
                                         struct job_memory *memory)
{
    return PASS_ON(FAKE_RECALL, recall, kind, memory);
}

static enum job_store_status fake_forget(struct job_store *store, enum job_memory_kind kind,
                                         struct bytes tube, struct bytes name)
{
    return PASS_ON(FAKE_FORGET, forget, kind, tube, name);
}

static enum job_store_status fake_forget_old(struct job_store *store, int64_t now_ns, uint32_t most,
                                             uint32_t *count_r)
{
    *count_r = 0;
    return PASS_ON(FAKE_FORGET_OLD, forget_old, now_ns, most, count_r);
}

static enum job_store_status fake_read_body(struct job_store *store, uint64_t id, void *into,
                                            uint32_t len)
{
    struct fake *f = unconst(store);
    enum job_store_status status = enter(store, FAKE_READ_BODY);
    if (status == JOB_STORE_OK && id == f->disk->bad_body && f->disk->bad_status != JOB_STORE_OK)
        status = fail(f, f->disk->bad_status);
    return leave(f, status == JOB_STORE_OK ? job_store_sqlite.read_body(f->real, id, into, len)
                                           : status);
}

static enum job_store_status fake_tend(struct job_store *store, int64_t mono_ns)
{
    return PASS_ON(FAKE_TEND, tend, mono_ns);
}

/* What SQLite's function says, under the lock. */
#define LOCKED(function, ...)                                                                      \
    ({                                                                                             \
        struct fake *f_ = unconst(store);                                                          \
        pthread_mutex_lock(&f_->disk->lock);                                                       \
        __auto_type said_ = job_store_sqlite.function(f_->real, ##__VA_ARGS__);                    \
        pthread_mutex_unlock(&f_->disk->lock);                                                     \
        said_;                                                                                     \
    })

static enum job_store_status fake_can_open(struct job_store *store)
{
    return LOCKED(can_open);
}

static int64_t fake_tend_ns(const struct job_store *store)
{
    return LOCKED(tend_ns);
}

static bool fake_is_full(const struct job_store *store)
{
    return LOCKED(is_full);
}

static void fake_get_sizes(struct job_store *store, struct job_store_sizes *sizes_r)
{
    struct fake *f = unconst(store);
    pthread_mutex_lock(&f->disk->lock);
    job_store_sqlite.get_sizes(f->real, sizes_r);
    pthread_mutex_unlock(&f->disk->lock);
}

const struct job_store_kind fake_store = {
    .name = "fake",
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
    CHECK(!d->open);
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
    pthread_mutex_lock(&disk->lock);
    uint64_t calls = disk->calls[call];
    pthread_mutex_unlock(&disk->lock);
    return calls;
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
    pthread_mutex_lock(&disk->lock);
    disk->is_full = full;
    pthread_mutex_unlock(&disk->lock);
}

void fake_disk_break_body(struct fake_disk *disk, uint64_t id, enum job_store_status status)
{
    pthread_mutex_lock(&disk->lock);
    disk->bad_body = id;
    disk->bad_status = status;
    pthread_mutex_unlock(&disk->lock);
}

void fake_disk_break_row(struct fake_disk *disk, uint64_t id)
{
    pthread_mutex_lock(&disk->lock);
    disk->bad_row = id;
    pthread_mutex_unlock(&disk->lock);
}

void fake_disk_hold(struct fake_disk *disk, bool holds)
{
    pthread_mutex_lock(&disk->lock);
    disk->holds = holds;
    pthread_cond_broadcast(&disk->changed);
    pthread_mutex_unlock(&disk->lock);
}

/* ---- what is committed ----------------------------------------------------------------------- */

void fake_disk_look(struct fake_disk *disk, const struct job_store_visitors *visitors)
{
    pthread_mutex_lock(&disk->lock);
    CHECK(disk->open);
    while (disk->open->inside)
        pthread_cond_wait(&disk->changed, &disk->lock);
    CHECK(job_store_sqlite.load(disk->open->real, visitors) == JOB_STORE_OK);
    pthread_mutex_unlock(&disk->lock);
}

bool fake_disk_has_body(struct fake_disk *disk, uint64_t id, struct bytes body)
{
    uint8_t is[64];
    CHECK(body.len <= sizeof(is));
    pthread_mutex_lock(&disk->lock);
    bool has =
        job_store_sqlite.read_body(disk->open->real, id, is, (uint32_t)body.len) == JOB_STORE_OK &&
        memcmp(is, body.data, body.len) == 0;
    pthread_mutex_unlock(&disk->lock);
    return has;
}

bool fake_disk_memory(struct fake_disk *disk, enum job_memory_kind kind, struct bytes tube,
                      struct bytes name, struct job_memory *memory_r)
{
    *memory_r = (struct job_memory){.tube = tube, .name = name};
    pthread_mutex_lock(&disk->lock);
    bool is = job_store_sqlite.recall(disk->open->real, kind, memory_r) == JOB_STORE_OK;
    pthread_mutex_unlock(&disk->lock);
    return is;
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
