/*
 * fake_store.c - see fake_store.h.
 *
 * A disk has one image; a transaction changes a copy of it, which the commit puts in its place.
 * Only the thread that has the store changes images, and only a commit, taking ids and opening
 * change that of the disk: under the disk's lock, since tests look at it.
 */
#include "t/unit/jobs/fake_store.h"

#include "base/check.h"
#include "base/clock.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What never changes of a job: its texts and its body, one behind the other. */
struct fixed {
    uint32_t refs; /* images that have it */
    uint8_t bytes[];
};

struct kept_job {
    struct job_record record; /* points into *fixed */
    struct fixed *fixed;
};

struct kept_memory {
    enum job_memory_kind kind;
    size_t tube_len, name_len;
    uint8_t tube[JOBS_TUBE_MAX], name[JOB_KEY_MAX];
    int64_t time_ns, forget_ns;
};

struct kept_tube {
    size_t len;
    uint8_t name[JOBS_TUBE_MAX];
    struct job_tube_record record; /* without its name */
};

struct image {
    struct kept_job *jobs; /* by ascending id */
    struct kept_memory *memories;
    struct kept_tube *tubes;
    size_t job_count, memory_count, tube_count;
    uint64_t next_id;
};

struct fake_disk {
    pthread_mutex_t lock;
    pthread_cond_t let_go;
    struct fake_disk *next; /* of all */
    char path[32];
    bool is_open;
    struct image image;
    struct image failed; /* of the last commit that failed */
    bool has_failed, keeps_failed, is_full, holds;
    uint64_t bad_body, bad_row;
    enum job_store_status bad_status;
    uint64_t calls[FAKE_CALLS], commits;
    struct {
        uint64_t at, left;
        enum job_store_status status;
    } faults[FAKE_ANY + 1];
};

static pthread_mutex_t disks_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_disk *disks;

struct fake {
    struct job_store store; /* first */
    struct fake_disk *disk;
    bool normal, has_reserve, full;
    bool inside;
    enum job_store_status failed; /* the first failure inside */
    struct image image;           /* of the transaction */
    int64_t unsynced_ns, not_before_ns;
};

static struct fake *fake_of(const struct job_store *store)
{
    return unconst(store);
}

/* ---- images ---------------------------------------------------------------------------------- */

static void fixed_drop(struct fixed *fixed)
{
    if (--fixed->refs == 0)
        free(fixed);
}

static void image_clear(struct image *image)
{
    for (size_t i = 0; i < image->job_count; i++)
        fixed_drop(image->jobs[i].fixed);
    free(image->jobs);
    free(image->memories);
    free(image->tubes);
    *image = (struct image){0};
}

/* Moves an array to memory of its own, with room for one more. Returns false without memory. */
#define COPY_ARRAY(to, from, count)                                                                \
    (((to) = malloc(((count) + 1) * sizeof(*(to)))) != NULL &&                                     \
     ((count) == 0 || memcpy((to), (from), (count) * sizeof(*(to)))))

static bool image_copy(struct image *to, const struct image *from)
{
    *to = (struct image){.next_id = from->next_id};
    if (!COPY_ARRAY(to->jobs, from->jobs, from->job_count) ||
        !COPY_ARRAY(to->memories, from->memories, from->memory_count) ||
        !COPY_ARRAY(to->tubes, from->tubes, from->tube_count)) {
        image_clear(to);
        return false;
    }
    to->job_count = from->job_count;
    to->memory_count = from->memory_count;
    to->tube_count = from->tube_count;
    for (size_t i = 0; i < to->job_count; i++)
        to->jobs[i].fixed->refs++;
    return true;
}

/* Makes room for one more in an array. Returns false without memory. */
#define GROW(array, count)                                                                         \
    ({                                                                                             \
        void *grown_ = reallocarray((array), (count) + 1, sizeof(*(array)));                       \
        if (grown_)                                                                                \
            (array) = grown_;                                                                      \
        grown_ != NULL;                                                                            \
    })
#define TAKE_OUT(array, count, at)                                                                 \
    ((count)--, memmove(&(array)[at], &(array)[(at) + 1], ((count) - (at)) * sizeof(*(array))))

/* The place of a job, or the place where it belongs. */
static size_t job_place(const struct image *image, uint64_t id)
{
    size_t at = image->job_count;
    while (at > 0 && image->jobs[at - 1].record.id >= id)
        at--;
    return at;
}

static struct kept_job *job_find(const struct image *image, uint64_t id)
{
    size_t at = job_place(image, id);
    return at < image->job_count && image->jobs[at].record.id == id ? &image->jobs[at] : NULL;
}

static struct kept_memory *memory_find(const struct image *image, enum job_memory_kind kind,
                                       struct bytes tube, struct bytes name)
{
    for (size_t i = 0; i < image->memory_count; i++) {
        struct kept_memory *memory = &image->memories[i];
        if (memory->kind == kind && bytes_equal(bytes_at(memory->tube, memory->tube_len), tube) &&
            bytes_equal(bytes_at(memory->name, memory->name_len), name))
            return memory;
    }
    return NULL;
}

static struct kept_tube *tube_find(const struct image *image, struct bytes name)
{
    for (size_t i = 0; i < image->tube_count; i++)
        if (bytes_equal(bytes_at(image->tubes[i].name, image->tubes[i].len), name))
            return &image->tubes[i];
    return NULL;
}

/* ---- failures -------------------------------------------------------------------------------- */

static enum job_store_status fail(struct fake *f, enum job_store_status status, const char *reason)
{
    snprintf(f->store.reason, sizeof(f->store.reason), "%s", reason);
    if (status == JOB_STORE_FULL && f->has_reserve && !f->full) {
        f->full = true;
        f->not_before_ns = 0;
    }
    if (f->inside && f->failed == JOB_STORE_OK)
        f->failed = status;
    return status;
}

/* Counts a call. Returns the status with which the test wants it to fail. */
static enum job_store_status count_call(struct fake_disk *disk, enum fake_call call, bool may_fail)
{
    enum job_store_status status = JOB_STORE_OK;
    pthread_mutex_lock(&disk->lock);
    disk->calls[call]++;
    disk->calls[FAKE_ANY] += call < FAKE_ANY;
    for (int i = 0; i < 2 && may_fail && call < FAKE_ANY; i++) {
        enum fake_call of = i == 0 ? call : FAKE_ANY;
        if (status != JOB_STORE_OK || disk->faults[of].left == 0 ||
            disk->calls[of] < disk->faults[of].at)
            continue;
        if (disk->faults[of].left != UINT64_MAX)
            disk->faults[of].left--;
        status = disk->faults[of].status;
    }
    pthread_mutex_unlock(&disk->lock);
    return status;
}

/* Begins a call: OK, or the failure of the transaction, or one that the test wants. */
static enum job_store_status enter(struct fake *f, enum fake_call call)
{
    bool has_failed = f->inside && f->failed != JOB_STORE_OK;
    enum job_store_status status = count_call(f->disk, call, !has_failed);
    if (has_failed)
        return f->failed;
    return status == JOB_STORE_OK ? status : fail(f, status, "the test wants it to fail");
}

/* The same, of a call inside a transaction. */
static enum job_store_status enter_inside(struct fake *f, enum fake_call call)
{
    CHECK(f->inside);
    return enter(f, call);
}

static enum job_store_status no_memory(struct fake *f)
{
    return fail(f, JOB_STORE_NO_MEMORY, "no memory");
}

/* ---- life ------------------------------------------------------------------------------------ */

static bool disk_is_full(struct fake_disk *disk)
{
    pthread_mutex_lock(&disk->lock);
    bool full = disk->is_full;
    pthread_mutex_unlock(&disk->lock);
    return full;
}

static enum job_store_status fake_open(const struct job_store_config *config,
                                       struct job_store **store_r, char *reason_r)
{
    *store_r = NULL;
    pthread_mutex_lock(&disks_lock);
    struct fake_disk *disk = disks;
    while (disk && strcmp(disk->path, config->path) != 0)
        disk = disk->next;
    pthread_mutex_unlock(&disks_lock);
    if (!disk) {
        snprintf(reason_r, JOB_STORE_REASON, "there is no such disk");
        return JOB_STORE_IO;
    }
    enum job_store_status status = count_call(disk, FAKE_OPEN, true);
    if (status != JOB_STORE_OK) {
        snprintf(reason_r, JOB_STORE_REASON, "the test wants it to fail");
        return status;
    }
    struct fake *f = calloc(1, sizeof(*f));
    if (!f) {
        snprintf(reason_r, JOB_STORE_REASON, "no memory");
        return JOB_STORE_NO_MEMORY;
    }
    pthread_mutex_lock(&disk->lock);
    bool is_locked = disk->is_open;
    disk->is_open = true;
    if (!is_locked && disk->has_failed) {
        image_clear(&disk->image);
        disk->image = disk->failed;
        disk->failed = (struct image){0};
        disk->has_failed = false;
    }
    pthread_mutex_unlock(&disk->lock);
    if (is_locked) {
        free(f);
        snprintf(reason_r, JOB_STORE_REASON, "another process uses it");
        return JOB_STORE_LOCKED;
    }
    f->store.does = &fake_store;
    f->disk = disk;
    f->normal = config->sync == JOB_STORE_SYNC_NORMAL;
    f->has_reserve = config->reserved_space > 0;
    f->full = f->has_reserve && disk_is_full(disk);
    f->unsynced_ns = INT64_MAX;
    *store_r = &f->store;
    return JOB_STORE_OK;
}

static void end_transaction(struct fake *f)
{
    image_clear(&f->image);
    f->inside = false;
}

static void fake_rollback(struct job_store *store)
{
    struct fake *f = fake_of(store);
    (void)count_call(f->disk, FAKE_ROLLBACK, false);
    if (f->inside)
        end_transaction(f);
}

static void fake_close(struct job_store **store)
{
    if (!*store)
        return;
    struct fake *f = fake_of(*store);
    (void)count_call(f->disk, FAKE_CLOSE, false);
    if (f->inside)
        end_transaction(f);
    pthread_mutex_lock(&f->disk->lock);
    f->disk->is_open = false;
    pthread_mutex_unlock(&f->disk->lock);
    free(f);
    *store = NULL;
}

static enum job_store_status fake_take_ids(struct job_store *store, uint64_t count,
                                           uint64_t *first_r)
{
    struct fake *f = fake_of(store);
    CHECK(!f->inside);
    *first_r = 0;
    enum job_store_status status = enter(f, FAKE_TAKE_IDS);
    if (status != JOB_STORE_OK)
        return status;
    struct image *image = &f->disk->image;
    uint64_t first = image->next_id;
    if (image->job_count > 0 && image->jobs[image->job_count - 1].record.id >= first)
        first = image->jobs[image->job_count - 1].record.id + 1;
    if (first > INT64_MAX || count > (uint64_t)INT64_MAX - first)
        return fail(f, JOB_STORE_CORRUPT, "the next id makes no sense");
    pthread_mutex_lock(&f->disk->lock);
    image->next_id = first + count;
    image_clear(&f->disk->failed); /* it was overwritten */
    f->disk->has_failed = false;
    pthread_mutex_unlock(&f->disk->lock);
    *first_r = first;
    return JOB_STORE_OK;
}

static enum job_store_status fake_begin(struct job_store *store)
{
    struct fake *f = fake_of(store);
    CHECK(!f->inside);
    f->inside = true;
    f->failed = JOB_STORE_OK;
    enum job_store_status status = enter(f, FAKE_BEGIN);
    if (status == JOB_STORE_OK && !image_copy(&f->image, &f->disk->image))
        status = no_memory(f);
    return status;
}

static enum job_store_status fake_commit(struct job_store *store, int64_t mono_ns)
{
    struct fake *f = fake_of(store);
    struct fake_disk *disk = f->disk;
    bool had_failed = f->failed != JOB_STORE_OK;
    enum job_store_status status = enter_inside(f, FAKE_COMMIT);
    pthread_mutex_lock(&disk->lock);
    while (disk->holds)
        pthread_cond_wait(&disk->let_go, &disk->lock);
    if (status == JOB_STORE_OK || (!had_failed && disk->keeps_failed)) {
        struct image *to = status == JOB_STORE_OK ? &disk->image : &disk->failed;
        image_clear(&disk->failed);
        disk->has_failed = status != JOB_STORE_OK;
        image_clear(to);
        *to = f->image;
        f->image = (struct image){0};
        disk->commits += status == JOB_STORE_OK;
    }
    pthread_mutex_unlock(&disk->lock);
    end_transaction(f);
    if (status == JOB_STORE_OK && f->normal && f->unsynced_ns == INT64_MAX)
        f->unsynced_ns = mono_ns;
    return status;
}

static int64_t fake_tend_ns(const struct job_store *store)
{
    const struct fake *f = fake_of(store);
    int64_t due = f->full ? 0 : f->unsynced_ns == INT64_MAX ? INT64_MAX : f->unsynced_ns + NS_PER_S;
    return due > f->not_before_ns ? due : f->not_before_ns;
}

static enum job_store_status fake_tend(struct job_store *store, int64_t mono_ns)
{
    struct fake *f = fake_of(store);
    CHECK(!f->inside);
    if (mono_ns < fake_tend_ns(store))
        return JOB_STORE_OK;
    f->not_before_ns = 0;
    enum job_store_status status = enter(f, FAKE_TEND);
    if (status == JOB_STORE_OK)
        f->unsynced_ns = INT64_MAX;
    if (f->full)
        f->full = disk_is_full(f->disk);
    if (status != JOB_STORE_OK || f->full)
        f->not_before_ns = mono_ns + NS_PER_S;
    return status;
}

static enum job_store_status fake_can_open(struct job_store *store)
{
    (void)store;
    return JOB_STORE_OK;
}

static bool fake_is_full(const struct job_store *store)
{
    return fake_of(store)->full;
}

static void fake_get_sizes(struct job_store *store, struct job_store_sizes *sizes_r)
{
    struct fake_counts counts = fake_disk_count(fake_of(store)->disk);
    *sizes_r = (struct job_store_sizes){.file = counts.bytes + counts.jobs * 100};
}

/* ---- changes --------------------------------------------------------------------------------- */

/* Copies bytes to *at, and moves that behind them. */
static struct bytes bring(uint8_t **at, struct bytes from)
{
    struct bytes to = bytes_at(*at, from.len);
    if (from.len > 0)
        memcpy(*at, from.data, from.len);
    *at += from.len;
    return to;
}

static enum job_store_status fake_put(struct job_store *store, const struct job_record *job,
                                      struct bytes body)
{
    struct fake *f = fake_of(store);
    struct image *image = &f->image;
    CHECK(job->id >= 1 && job->id <= INT64_MAX && body.len <= JOB_BODY_MAX);
    CHECK(job->tube.len >= 1 && job->tube.len <= JOBS_TUBE_MAX && job->key.len <= JOB_KEY_MAX &&
          job->root.len <= JOB_KEY_MAX);
    enum job_store_status status = enter_inside(f, FAKE_PUT);
    if (status != JOB_STORE_OK)
        return status;
    if (f->full || disk_is_full(f->disk))
        return fail(f, JOB_STORE_FULL, "the disk is full");
    if (job_find(image, job->id))
        return fail(f, JOB_STORE_CORRUPT, "there is a job with this id");
    struct fixed *fixed =
        malloc(sizeof(*fixed) + job->tube.len + job->key.len + job->root.len + body.len);
    if (!fixed || !GROW(image->jobs, image->job_count)) {
        free(fixed);
        return no_memory(f);
    }
    fixed->refs = 1;
    size_t at = job_place(image, job->id);
    memmove(&image->jobs[at + 1], &image->jobs[at],
            (image->job_count++ - at) * sizeof(image->jobs[0]));
    struct kept_job *kept = &image->jobs[at];
    *kept = (struct kept_job){.record = *job, .fixed = fixed};
    uint8_t *to = fixed->bytes;
    (void)bring(&to, body); /* first */
    kept->record.tube = bring(&to, job->tube);
    kept->record.key = bring(&to, job->key);
    kept->record.root = bring(&to, job->root);
    kept->record.body_len = (uint32_t)body.len;
    return JOB_STORE_OK;
}

static enum job_store_status fake_change(struct job_store *store, uint64_t id,
                                         const struct job_changing *now)
{
    struct fake *f = fake_of(store);
    enum job_store_status status = enter_inside(f, FAKE_CHANGE);
    if (status != JOB_STORE_OK)
        return status;
    if (id == f->disk->bad_row)
        return fail(f, JOB_STORE_CORRUPT, "a bad row");
    struct kept_job *job = job_find(&f->image, id);
    if (!job)
        return JOB_STORE_NONE;
    job->record.now = *now;
    return JOB_STORE_OK;
}

static enum job_store_status fake_remove(struct job_store *store, uint64_t id)
{
    struct fake *f = fake_of(store);
    enum job_store_status status = enter_inside(f, FAKE_REMOVE);
    if (status != JOB_STORE_OK)
        return status;
    if (id == f->disk->bad_row)
        return fail(f, JOB_STORE_CORRUPT, "a bad row");
    struct kept_job *job = job_find(&f->image, id);
    if (!job)
        return JOB_STORE_NONE;
    fixed_drop(job->fixed);
    TAKE_OUT(f->image.jobs, f->image.job_count, (size_t)(job - f->image.jobs));
    return JOB_STORE_OK;
}

static enum job_store_status fake_set_tube(struct job_store *store,
                                           const struct job_tube_record *tube)
{
    struct fake *f = fake_of(store);
    struct image *image = &f->image;
    enum job_store_status status = enter_inside(f, FAKE_SET_TUBE);
    if (status != JOB_STORE_OK)
        return status;
    struct kept_tube *kept = tube_find(image, tube->name);
    if (tube->settings.given == 0 && tube->pause_s == 0) {
        if (kept)
            TAKE_OUT(image->tubes, image->tube_count, (size_t)(kept - image->tubes));
        return JOB_STORE_OK;
    }
    if (!kept) {
        if (!GROW(image->tubes, image->tube_count))
            return no_memory(f);
        kept = &image->tubes[image->tube_count++];
        uint8_t *to = kept->name;
        kept->len = bring(&to, tube->name).len;
    }
    kept->record = *tube;
    kept->record.name = bytes_of("");
    return JOB_STORE_OK;
}

/* Adds a memory that is not there. NULL: no memory. */
static struct kept_memory *memory_add(struct image *image, enum job_memory_kind kind,
                                      struct bytes tube, struct bytes name)
{
    CHECK(tube.len <= JOBS_TUBE_MAX && name.len <= JOB_KEY_MAX);
    if (!GROW(image->memories, image->memory_count))
        return NULL;
    struct kept_memory *kept = &image->memories[image->memory_count++];
    *kept = (struct kept_memory){.kind = kind, .time_ns = INT64_MIN};
    uint8_t *to = kept->tube;
    kept->tube_len = bring(&to, tube).len;
    to = kept->name;
    kept->name_len = bring(&to, name).len;
    return kept;
}

static enum job_store_status fake_execute(struct job_store *store, uint64_t id, int64_t time_ns,
                                          int64_t forget_ns)
{
    struct fake *f = fake_of(store);
    enum job_store_status status = enter_inside(f, FAKE_EXECUTE);
    if (status != JOB_STORE_OK)
        return status;
    const struct kept_job *job = job_find(&f->image, id);
    if (!job || job->record.key.len == 0)
        return JOB_STORE_NONE;
    struct bytes tube = job->record.tube, key = job->record.key;
    struct kept_memory *kept = memory_find(&f->image, JOB_MEMORY_EXECUTION, tube, key);
    if (!kept && time_ns == JOB_STORE_NO_TIME)
        return JOB_STORE_OK;
    if (!kept && !(kept = memory_add(&f->image, JOB_MEMORY_EXECUTION, tube, key)))
        return no_memory(f);
    if (time_ns > kept->time_ns)
        kept->time_ns = time_ns;
    kept->forget_ns = forget_ns;
    return JOB_STORE_OK;
}

static enum job_store_status fake_remember(struct job_store *store, enum job_memory_kind kind,
                                           const struct job_memory *memory)
{
    struct fake *f = fake_of(store);
    enum job_store_status status = enter_inside(f, FAKE_REMEMBER);
    if (status != JOB_STORE_OK)
        return status;
    struct kept_memory *kept = memory_find(&f->image, kind, memory->tube, memory->name);
    if (!kept && !(kept = memory_add(&f->image, kind, memory->tube, memory->name)))
        return no_memory(f);
    if (memory->time_ns < kept->time_ns)
        return JOB_STORE_OK;
    kept->time_ns = memory->time_ns;
    kept->forget_ns = memory->forget_ns;
    return JOB_STORE_OK;
}

static enum job_store_status fake_recall(struct job_store *store, enum job_memory_kind kind,
                                         struct job_memory *memory)
{
    struct fake *f = fake_of(store);
    enum job_store_status status = enter(f, FAKE_RECALL);
    if (status != JOB_STORE_OK)
        return status;
    const struct kept_memory *kept =
        memory_find(f->inside ? &f->image : &f->disk->image, kind, memory->tube, memory->name);
    if (!kept)
        return JOB_STORE_NONE;
    memory->time_ns = kept->time_ns;
    memory->forget_ns = kept->forget_ns;
    return JOB_STORE_OK;
}

static void memory_remove(struct image *image, const struct kept_memory *kept)
{
    TAKE_OUT(image->memories, image->memory_count, (size_t)(kept - image->memories));
}

static enum job_store_status fake_forget(struct job_store *store, enum job_memory_kind kind,
                                         struct bytes tube, struct bytes name)
{
    struct fake *f = fake_of(store);
    enum job_store_status status = enter_inside(f, FAKE_FORGET);
    if (status != JOB_STORE_OK)
        return status;
    struct kept_memory *kept = memory_find(&f->image, kind, tube, name);
    if (!kept)
        return JOB_STORE_NONE;
    memory_remove(&f->image, kept);
    return JOB_STORE_OK;
}

/* The one of a kind that may be forgotten first; NULL: none may yet. */
static const struct kept_memory *oldest(const struct image *image, enum job_memory_kind kind,
                                        int64_t now_ns)
{
    const struct kept_memory *first = NULL;
    for (size_t i = 0; i < image->memory_count; i++) {
        const struct kept_memory *memory = &image->memories[i];
        if (memory->kind == kind && memory->forget_ns != JOB_STORE_KEEP &&
            memory->forget_ns <= now_ns && (!first || memory->forget_ns < first->forget_ns))
            first = memory;
    }
    return first;
}

static enum job_store_status fake_forget_old(struct job_store *store, int64_t now_ns, uint32_t most,
                                             uint32_t *count_r)
{
    struct fake *f = fake_of(store);
    *count_r = 0;
    enum job_store_status status = enter_inside(f, FAKE_FORGET_OLD);
    if (status != JOB_STORE_OK)
        return status;
    for (int kind = JOB_MEMORY_EXECUTION; kind <= JOB_MEMORY_ROOT; kind++) {
        const struct kept_memory *kept;
        while (*count_r < most &&
               (kept = oldest(&f->image, (enum job_memory_kind)kind, now_ns)) != NULL) {
            memory_remove(&f->image, kept);
            (*count_r)++;
        }
    }
    return JOB_STORE_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

static enum job_store_status fake_read_body(struct job_store *store, uint64_t id, void *into,
                                            uint32_t len)
{
    struct fake *f = fake_of(store);
    struct fake_disk *disk = f->disk;
    enum job_store_status status = enter(f, FAKE_READ_BODY);
    if (status != JOB_STORE_OK)
        return status;
    pthread_mutex_lock(&disk->lock);
    if (id == disk->bad_body)
        status = disk->bad_status;
    pthread_mutex_unlock(&disk->lock);
    if (status != JOB_STORE_OK)
        return fail(f, status, "the test wants it to fail");
    const struct kept_job *job = job_find(f->inside ? &f->image : &disk->image, id);
    if (!job)
        return JOB_STORE_NONE;
    if (job->record.body_len != len)
        return fail(f, JOB_STORE_CORRUPT, "a body has another length than its job says");
    if (len > 0)
        memcpy(into, job->fixed->bytes, len);
    return JOB_STORE_OK;
}

/* A tube as `load` shows it: without settings that were not given. */
static struct job_tube_record tube_shown(const struct kept_tube *kept)
{
    struct job_tube_record tube = kept->record;
    struct job_settings given = {.given = tube.settings.given};
#define COPY(setting, field)                                                                       \
    if (given.given & 1u << (setting))                                                             \
    given.field = tube.settings.field
    COPY(JOB_SETTING_ORDER, order);
    COPY(JOB_SETTING_CLAIM, claim);
    COPY(JOB_SETTING_TRIES, tries);
    COPY(JOB_SETTING_LIMIT, limit);
    COPY(JOB_SETTING_PRUNE, prune_s);
    COPY(JOB_SETTING_REMEMBER, remember_s);
#undef COPY
    if (given.given & 1u << JOB_SETTING_READ_ONLY)
        strcpy(given.read_only, tube.settings.read_only);
    tube.settings = given;
    tube.name = bytes_at(kept->name, kept->len);
    return tube;
}

static enum job_store_status fake_load(struct job_store *store,
                                       const struct job_store_visitors *visitors)
{
    struct fake *f = fake_of(store);
    CHECK(!f->inside);
    enum job_store_status status = enter(f, FAKE_LOAD);
    if (status != JOB_STORE_OK)
        return status;
    const struct image *image = &f->disk->image;
    bool goes_on = true;
    for (size_t i = 0; i < image->tube_count && visitors->tube && goes_on; i++) {
        struct job_tube_record tube = tube_shown(&image->tubes[i]);
        goes_on = visitors->tube(visitors->arg, &tube);
    }
    for (size_t i = 0; i < image->memory_count && visitors->memory && goes_on; i++) {
        const struct kept_memory *kept = &image->memories[i];
        struct job_memory memory = {.tube = bytes_at(kept->tube, kept->tube_len),
                                    .name = bytes_at(kept->name, kept->name_len),
                                    .time_ns = kept->time_ns,
                                    .forget_ns = kept->forget_ns};
        goes_on = visitors->memory(visitors->arg, kept->kind, &memory);
    }
    for (size_t i = 0; i < image->job_count && visitors->job && goes_on; i++)
        goes_on = visitors->job(visitors->arg, &image->jobs[i].record);
    return goes_on ? JOB_STORE_OK : fail(f, JOB_STORE_NO_MEMORY, "no memory for what is kept");
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
    static unsigned number;
    struct fake_disk *disk = calloc(1, sizeof(*disk));
    CHECK(disk);
    pthread_mutex_init(&disk->lock, NULL);
    pthread_cond_init(&disk->let_go, NULL);
    disk->image.next_id = 1;
    pthread_mutex_lock(&disks_lock);
    snprintf(disk->path, sizeof(disk->path), "/fake/%u", ++number);
    disk->next = disks;
    disks = disk;
    pthread_mutex_unlock(&disks_lock);
    return disk;
}

void fake_disk_free(struct fake_disk **disk)
{
    struct fake_disk *d = *disk;
    if (!d)
        return;
    CHECK(!d->is_open);
    pthread_mutex_lock(&disks_lock);
    struct fake_disk **link = &disks;
    while (*link != d)
        link = &(*link)->next;
    *link = d->next;
    pthread_mutex_unlock(&disks_lock);
    image_clear(&d->image);
    image_clear(&d->failed);
    pthread_cond_destroy(&d->let_go);
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
    CHECK(call <= FAKE_ANY && nth >= 1);
    pthread_mutex_lock(&disk->lock);
    disk->faults[call].at = disk->calls[call] + nth;
    disk->faults[call].left = times;
    disk->faults[call].status = status;
    pthread_mutex_unlock(&disk->lock);
}

void fake_disk_keep_failed(struct fake_disk *disk, bool keeps)
{
    pthread_mutex_lock(&disk->lock);
    disk->keeps_failed = keeps;
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
    pthread_cond_broadcast(&disk->let_go);
    pthread_mutex_unlock(&disk->lock);
}

bool fake_disk_job(struct fake_disk *disk, uint64_t id, struct fake_job *job_r)
{
    pthread_mutex_lock(&disk->lock);
    const struct kept_job *job = job_find(&disk->image, id);
    if (job) {
        uint8_t *at[] = {(uint8_t *)job_r->tube, (uint8_t *)job_r->key, (uint8_t *)job_r->root};
        job_r->record = job->record;
        job_r->record.tube = bring(&at[0], job->record.tube);
        job_r->record.key = bring(&at[1], job->record.key);
        job_r->record.root = bring(&at[2], job->record.root);
    }
    pthread_mutex_unlock(&disk->lock);
    return job != NULL;
}

bool fake_disk_has_body(struct fake_disk *disk, uint64_t id, struct bytes body)
{
    pthread_mutex_lock(&disk->lock);
    const struct kept_job *job = job_find(&disk->image, id);
    bool has = job && bytes_equal(bytes_at(job->fixed->bytes, job->record.body_len), body);
    pthread_mutex_unlock(&disk->lock);
    return has;
}

bool fake_disk_memory(struct fake_disk *disk, enum job_memory_kind kind, struct bytes tube,
                      struct bytes name, struct job_memory *memory_r)
{
    pthread_mutex_lock(&disk->lock);
    const struct kept_memory *kept = memory_find(&disk->image, kind, tube, name);
    if (kept)
        *memory_r = (struct job_memory){
            .tube = tube, .name = name, .time_ns = kept->time_ns, .forget_ns = kept->forget_ns};
    pthread_mutex_unlock(&disk->lock);
    return kept != NULL;
}

bool fake_disk_tube(struct fake_disk *disk, struct bytes name, struct job_tube_record *tube_r)
{
    pthread_mutex_lock(&disk->lock);
    const struct kept_tube *kept = tube_find(&disk->image, name);
    if (kept) {
        *tube_r = tube_shown(kept);
        tube_r->name = name;
    }
    pthread_mutex_unlock(&disk->lock);
    return kept != NULL;
}

struct fake_counts fake_disk_count(struct fake_disk *disk)
{
    pthread_mutex_lock(&disk->lock);
    const struct image *image = &disk->image;
    struct fake_counts counts = {.jobs = image->job_count,
                                 .tubes = image->tube_count,
                                 .next_id = image->next_id,
                                 .commits = disk->commits};
    for (size_t i = 0; i < image->job_count; i++) {
        counts.states[image->jobs[i].record.now.state]++;
        counts.bytes += image->jobs[i].record.body_len;
    }
    for (size_t i = 0; i < image->memory_count; i++)
        counts.memories[image->memories[i].kind]++;
    pthread_mutex_unlock(&disk->lock);
    return counts;
}
