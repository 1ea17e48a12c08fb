/* bad_disk.c - see bad_disk.h. */
#include "t/unit/jobs/bad_disk.h"

#include "base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECTOR 512

struct bad_disk bad_disk;

/* A write (bytes), or a truncation (no bytes). */
struct op {
    struct op *next;
    int64_t at;
    size_t len;
    uint8_t bytes[];
};

/* What is on the disk of one file. */
struct image {
    struct image *next;
    char *path;
    uint8_t *bytes;
    size_t len, room;
    struct op *first, **last; /* not synced */
};
static struct image *images;

struct file {
    sqlite3_file base; /* first */
    struct image *image;
    bool is_log;
    sqlite3_file *real;
};

static sqlite3_vfs *real_vfs, vfs;

/* ---- images ---------------------------------------------------------------------------------- */

static void image_resize(struct image *image, size_t len)
{
    if (len > image->len) {
        if (len > image->room) {
            image->room = 2 * len; /* a sanitizer copies all of it each time */
            image->bytes = realloc(image->bytes, image->room);
            CHECK(image->bytes);
        }
        memset(image->bytes + image->len, 0, len - image->len);
    }
    image->len = len;
}

static void image_write(struct image *image, int64_t at, const uint8_t *bytes, size_t len)
{
    size_t end = (size_t)at + len;
    if (end > image->len)
        image_resize(image, end);
    memcpy(image->bytes + at, bytes, len);
}

/* Brings what was not synced to the disk, or a random part of it. */
static void image_sync(struct image *image, bool all)
{
    while (image->first) {
        struct op *op = image->first;
        image->first = op->next;
        uint32_t luck = all ? 0 : rng_below(&bad_disk.rng, 3);
        if (luck == 0 && op->len == 0)
            image_resize(image, (size_t)op->at);
        else if (luck == 0)
            image_write(image, op->at, op->bytes, op->len);
        else if (luck == 1) /* some sectors */
            for (size_t at = 0; at < op->len;) {
                size_t len = SECTOR - ((size_t)op->at + at) % SECTOR;
                if (len > op->len - at)
                    len = op->len - at;
                if (rng_one_in(&bad_disk.rng, 2))
                    image_write(image, op->at + (int64_t)at, op->bytes + at, len);
                at += len;
            }
        free(op);
    }
    image->last = &image->first;
}

static void image_note(struct image *image, int64_t at, const void *bytes, size_t len)
{
    struct op *op = malloc(sizeof(*op) + len);
    CHECK(op);
    *op = (struct op){.at = at, .len = len};
    if (len > 0)
        memcpy(op->bytes, bytes, len);
    *image->last = op;
    image->last = &op->next;
}

static struct image *image_of(const char *path)
{
    for (struct image *image = images; image; image = image->next)
        if (strcmp(image->path, path) == 0)
            return image;
    struct image *image = calloc(1, sizeof(*image));
    CHECK(image);
    *image = (struct image){.next = images, .path = strdup(path)};
    image->last = &image->first;
    images = image;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
        image_resize(image, (size_t)st.st_size);
        CHECK(read(fd, image->bytes, image->len) == (ssize_t)image->len);
    }
    if (fd >= 0)
        close(fd);
    return image;
}

static void images_free(void)
{
    while (images) {
        struct image *image = images;
        images = image->next;
        image_sync(image, true);
        free(image->bytes);
        free(image->path);
        free(image);
    }
}

/* ---- faults ---------------------------------------------------------------------------------- */

static bool fails(void)
{
    int64_t call = bad_disk.calls++;
    if (call == bad_disk.cut_at)
        bad_disk.is_cut = true;
    bool fail = call == bad_disk.fails_at ||
                (bad_disk.one_in > 0 && rng_one_in(&bad_disk.rng, bad_disk.one_in));
    fail = bad_disk.is_cut || fail;
    bad_disk.faults += fail;
    return fail;
}

static bool is_over_capacity(const struct image *grows, size_t to)
{
    struct stat st;
    if (bad_disk.capacity == 0 || (stat(grows->path, &st) == 0 && (size_t)st.st_size >= to))
        return false;
    int64_t sum = (int64_t)to;
    for (const struct image *image = images; image; image = image->next)
        if (image != grows && stat(image->path, &st) == 0)
            sum += st.st_size;
    if (bad_disk.beside && stat(bad_disk.beside, &st) == 0)
        sum += st.st_size;
    return sum > bad_disk.capacity;
}

/* ---- files ----------------------------------------------------------------------------------- */

static struct file *file_of(sqlite3_file *file)
{
    return (struct file *)(void *)file;
}

#define REAL(file, method, ...)                                                                    \
    file_of(file)->real->pMethods->method(file_of(file)->real __VA_OPT__(, ) __VA_ARGS__)

/* What the real file does itself. */
#define PASS(name, method, parameters, ...)                                                        \
    static int name parameters                                                                     \
    {                                                                                              \
        return REAL(file, method __VA_OPT__(, ) __VA_ARGS__);                                      \
    }

PASS(file_close, xClose, (sqlite3_file * file))
PASS(file_size, xFileSize, (sqlite3_file * file, sqlite3_int64 *len), len)
PASS(file_lock, xLock, (sqlite3_file * file, int lock), lock)
PASS(file_unlock, xUnlock, (sqlite3_file * file, int lock), lock)
PASS(file_check_lock, xCheckReservedLock, (sqlite3_file * file, int *result), result)
PASS(file_sector_size, xSectorSize, (sqlite3_file * file))
PASS(file_device, xDeviceCharacteristics, (sqlite3_file * file))
PASS(file_shm_map, xShmMap,
     (sqlite3_file * file, int page, int size, int extend, void volatile **at), page, size, extend,
     at)
PASS(file_shm_lock, xShmLock, (sqlite3_file * file, int offset, int n, int flags), offset, n, flags)
PASS(file_shm_unmap, xShmUnmap, (sqlite3_file * file, int delete), delete)

static int file_read(sqlite3_file *file, void *to, int len, sqlite3_int64 at)
{
    if (bad_disk.reads_fail && !file_of(file)->is_log)
        return SQLITE_IOERR_READ;
    return REAL(file, xRead, to, len, at);
}

static int file_write(sqlite3_file *file, const void *from, int len, sqlite3_int64 at)
{
    struct image *image = file_of(file)->image;
    if (is_over_capacity(image, (size_t)(at + len)))
        return SQLITE_FULL;
    if (!fails()) {
        int code = REAL(file, xWrite, from, len, at);
        if (code == SQLITE_OK)
            image_note(image, at, from, (size_t)len);
        return code;
    }
    if (bad_disk.fault == BAD_DISK_SHORT && !bad_disk.is_cut && len > 1 &&
        REAL(file, xWrite, from, len / 2, at) == SQLITE_OK)
        image_note(image, at, from, (size_t)len / 2);
    return bad_disk.fault == BAD_DISK_FULL ? SQLITE_FULL : SQLITE_IOERR_WRITE;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 len)
{
    if (fails())
        return SQLITE_IOERR_TRUNCATE;
    int code = REAL(file, xTruncate, len);
    if (code == SQLITE_OK)
        image_note(file_of(file)->image, len, NULL, 0);
    return code;
}

static int file_sync(sqlite3_file *file, int flags)
{
    (void)flags;
    bool fail = fails();
    if (!bad_disk.is_cut)
        image_sync(file_of(file)->image, !fail);
    return fail ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}

static int file_control(sqlite3_file *file, int what, void *arg)
{
    /* It would write past us. */
    return what == SQLITE_FCNTL_SIZE_HINT ? SQLITE_OK : REAL(file, xFileControl, what, arg);
}

static void file_shm_barrier(sqlite3_file *file)
{
    REAL(file, xShmBarrier);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_lock,
    .xFileControl = file_control,
    .xSectorSize = file_sector_size,
    .xDeviceCharacteristics = file_device,
    .xShmMap = file_shm_map,
    .xShmLock = file_shm_lock,
    .xShmBarrier = file_shm_barrier,
    .xShmUnmap = file_shm_unmap,
};

/* ---- the VFS --------------------------------------------------------------------------------- */

static int vfs_open(sqlite3_vfs *self, const char *path, sqlite3_file *file, int flags,
                    int *flags_r)
{
    (void)self;
    struct file *f = file_of(file);
    f->base.pMethods = NULL;
    f->real = (sqlite3_file *)(void *)(f + 1);
    int code = real_vfs->xOpen(real_vfs, path, f->real, flags, flags_r);
    if (code != SQLITE_OK)
        return code;
    f->is_log = (flags & SQLITE_OPEN_WAL) != 0;
    f->image = image_of(path ? path : "");
    f->base.pMethods = &methods;
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *self, const char *path, int sync)
{
    (void)self;
    if (fails())
        return SQLITE_IOERR_DELETE;
    struct image *image = image_of(path);
    image_sync(image, true);
    image_resize(image, 0); /* an empty log is none */
    return real_vfs->xDelete(real_vfs, path, sync);
}

void bad_disk_start(uint64_t seed)
{
    bad_disk_end();
    bad_disk = (struct bad_disk){.rng = {.state = seed}, .fails_at = -1, .cut_at = -1};
    real_vfs = sqlite3_vfs_find(NULL);
    vfs = *real_vfs;
    vfs.zName = "bad-disk";
    vfs.szOsFile = (int)sizeof(struct file) + real_vfs->szOsFile;
    vfs.pNext = NULL;
    vfs.xOpen = vfs_open;
    vfs.xDelete = vfs_delete;
    CHECK(sqlite3_vfs_register(&vfs, 1) == SQLITE_OK);
}

void bad_disk_cut(void)
{
    bad_disk.is_cut = true;
}

void bad_disk_restart(void)
{
    for (struct image *image = images; image; image = image->next) {
        image_sync(image, false);
        int fd = open(image->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        CHECK(fd >= 0 && write(fd, image->bytes, image->len) == (ssize_t)image->len);
        close(fd);
        char shared[4096];
        snprintf(shared, sizeof(shared), "%s-shm", image->path);
        unlink(shared);
    }
    bad_disk.is_cut = false;
    bad_disk.cut_at = bad_disk.fails_at = -1;
    bad_disk.one_in = 0;
}

void bad_disk_end(void)
{
    if (real_vfs) {
        sqlite3_vfs_unregister(&vfs);
        sqlite3_vfs_register(real_vfs, 1);
    }
    images_free();
    real_vfs = NULL;
}
