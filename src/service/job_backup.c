/* job_backup.c - see job_backup.h. */
#include "service/job_backup.h"

#include "base/log.h"
#include "net/query.h"
#include "service/job_session.h"
#include "service/tubes_monitor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A request waits so long until the copy has begun. */
#define BEGIN_PATIENCE_NS (30 * NS_PER_S)

/* ---- the copy -------------------------------------------------------------------------------- */

static void note_end(struct job_backup *backup, bool good, const char *reason)
{
    struct backup_stats *stats = &backup->stats;
    backup->copies = false;
    pthread_mutex_lock(&backup->lock);
    stats->running = false;
    stats->good = good;
    stats->took_ns = clock_now().mono_ns - backup->began_ns;
    stats->made += good;
    stats->failed += !good;
    snprintf(stats->reason, sizeof(stats->reason), "%s", reason);
    pthread_mutex_unlock(&backup->lock);
    /* Only this thread changes it. */
    if (good)
        log_info("jobs.path: %s: backup %s/%s: %llu bytes in %.1f s", backup->path, backup->folder,
                 stats->file, (unsigned long long)stats->total,
                 (double)stats->took_ns / (double)NS_PER_S);
    else
        log_error("jobs.path: %s: backup %s/%s: %s; nothing is left of it", backup->path,
                  backup->folder, stats->file, reason);
}

/* Makes a piece. Returns false when the copy is over. */
static bool copy_piece(struct job_backup *backup)
{
    struct job_store_copied copied;
    enum job_store_status status = backup->store->does->copy(backup->store, &copied);
    pthread_mutex_lock(&backup->lock);
    backup->stats.done = copied.done;
    backup->stats.total = copied.total;
    backup->stats.took_ns = clock_now().mono_ns - backup->began_ns;
    pthread_mutex_unlock(&backup->lock);
    if (status == JOB_STORE_OK && !copied.whole)
        return true;
    note_end(backup, status == JOB_STORE_OK, status == JOB_STORE_OK ? "" : backup->store->reason);
    return false;
}

static int64_t on_time(struct timer *timer, struct moment now)
{
    struct job_backup *backup = container_of(timer, struct job_backup, timer);
    int64_t begin_ns = clock_now().mono_ns, end_ns;
    bool again = backup->copies;
    while (again && copy_piece(backup)) {
        end_ns = clock_now().mono_ns;
        again = backup_share_copied(&backup->share, end_ns - begin_ns) &&
                jobs_has_ops(jobs_of(backup->services));
        begin_ns = end_ns;
    }
    /* Messages come before the next piece. */
    return backup->copies ? now.mono_ns + 1 : DEADLINE_NONE;
}

static enum job_store_status begin(struct job_backup *backup, const char *file)
{
    struct job_store *store = backup->store;
    if (backup->copies) {
        snprintf(store->reason, sizeof(store->reason), "another backup is under way: %s",
                 backup->stats.file);
        return JOB_STORE_LOCKED;
    }
    enum job_store_status status = store->does->begin_copy(store, backup->folder, file);
    if (status != JOB_STORE_OK)
        return status;
    backup->copies = true;
    backup->share = (struct backup_share){0};
    backup->began_ns = clock_now().mono_ns;
    pthread_mutex_lock(&backup->lock);
    const struct backup_stats before = backup->stats;
    backup->stats =
        (struct backup_stats){.running = true, .made = before.made, .failed = before.failed};
    snprintf(backup->stats.file, sizeof(backup->stats.file), "%s", file);
    pthread_mutex_unlock(&backup->lock);
    reactor_set_timer(backup->thread, &backup->timer, backup->began_ns);
    return JOB_STORE_OK;
}

void backup_end(struct job_backup *backup, const char *reason)
{
    if (!backup->copies)
        return;
    backup->store->does->end_copy(backup->store);
    reactor_set_timer(backup->thread, &backup->timer, DEADLINE_NONE);
    note_end(backup, false, reason);
}

void backup_worked(struct job_backup *backup, int64_t ns)
{
    backup_share_worked(&backup->share, ns);
}

/* ---- life ------------------------------------------------------------------------------------ */

void backup_init(struct job_backup *backup, struct services *services, struct reactor *thread)
{
    CHECK(pthread_mutex_init(&backup->lock, NULL) == 0);
    backup->services = services;
    backup->thread = thread;
    backup->timer.run = on_time;
}

void backup_destroy(struct job_backup *backup)
{
    pthread_mutex_destroy(&backup->lock);
}

bool backup_can_use(const char *folder)
{
    struct stat st;
    if (stat(folder, &st) != 0)
        return false;
    if (S_ISDIR(st.st_mode))
        return true;
    errno = ENOTDIR;
    return false;
}

bool backup_open(struct job_backup *backup, struct job_store *store, const char *path,
                 const char *folder)
{
    backup->path = path;
    backup->folder = folder;
    if (!backup_can_use(folder))
        return false;
    store->does->forget_copy(path, folder);
    backup->has_timer = reactor_add_timer(backup->thread, &backup->timer, DEADLINE_NONE);
    if (!backup->has_timer) {
        errno = ENOMEM;
        return false;
    }
    backup->store = store;
    return true;
}

void backup_close(struct job_backup *backup)
{
    backup_end(backup, "counterd ends");
    if (backup->has_timer)
        reactor_remove_timer(backup->thread, &backup->timer);
    backup->has_timer = false;
    backup->store = NULL;
}

void backup_read(struct job_backup *backup, struct backup_stats *stats_r)
{
    pthread_mutex_lock(&backup->lock);
    *stats_r = backup->stats;
    pthread_mutex_unlock(&backup->lock);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* A request on its way to the store's thread and back. */
struct asked_backup {
    struct message message; /* first */
    struct http_pending *pending;
    struct job_backup *backup;
    enum job_store_status status;
    char file[NAME_MAX + 1];
    char reason[JOB_STORE_REASON];
    char peer[80];
};

static void answer_seen(struct job_backup *backup, struct http_request *request, int status)
{
    struct backup_stats stats;
    struct json_text json = json_text_begin();
    backup_read(backup, &stats);
    json_text_bool(&json, "running", stats.running);
    if (*stats.file)
        json_text_string(&json, "file", bytes_of(stats.file));
    else
        json_text_null(&json, "file");
    json_text_string(&json, "folder", bytes_of(backup->folder));
    json_text_bool(&json, "good", stats.good);
    json_text_string(&json, "reason", bytes_of(stats.reason));
    json_text_number(&json, "done_bytes", stats.done);
    json_text_number(&json, "total_bytes", stats.total);
    json_text_real(&json, "seconds", (double)stats.took_ns / (double)NS_PER_S);
    json_text_number(&json, "made", stats.made);
    json_text_number(&json, "failed", stats.failed);
    http_answer_json(request, status, &json);
}

static void answer_begun(const struct asked_backup *asked, struct http_request *request)
{
    switch (asked->status) {
    case JOB_STORE_OK:
        answer_seen(asked->backup, request, 202);
        break;
    case JOB_STORE_EXISTS:
    case JOB_STORE_LOCKED:
        http_error(request, 409, "%s", asked->reason);
        break;
    case JOB_STORE_ACCESS:
        http_error(request, 400, "file: %s", asked->reason);
        break;
    default:
        http_error(request, 500, "the backup cannot begin: %s", asked->reason);
        break;
    }
}

/* In the admin's thread. */
static void on_begun(struct mail *mail, void *http)
{
    struct asked_backup *asked = container_of(mail, struct asked_backup, message.mail);
    struct http_request *request = http_by_tag(http, asked->message.to);
    if (request) /* else it goes on all the same */
        answer_begun(asked, request);
    free(asked);
}

/* In the store's thread. */
static void on_asked(struct mail *mail, void *reactor)
{
    struct asked_backup *asked = container_of(mail, struct asked_backup, message.mail);
    struct job_backup *backup = asked->backup;
    (void)reactor;
    asked->status = begin(backup, asked->file);
    if (asked->status == JOB_STORE_OK)
        log_info("jobs.path: %s: %s asks for a backup: %s/%s", backup->path, asked->peer,
                 backup->folder, asked->file);
    else
        snprintf(asked->reason, sizeof(asked->reason), "%s", backup->store->reason);
    asked->message.mail.deliver = on_begun;
    if (http_post(&asked->pending, &asked->message))
        return;
    if (asked->status == JOB_STORE_OK)
        backup_end(backup, "counterd ends or is upgraded");
    free(asked);
}

/* Answers, and returns true, where there is nothing to copy. */
static bool refuse(const struct job_backup *backup, const struct route_request *r)
{
    if (jobs_refuse_stopped(r))
        return true;
    if (!backup->store)
        http_error(r->http, 404, "jobs.path is not set: jobs live in memory, and have no file");
    return !backup->store;
}

/* A bare name, which nobody mistakes in a list or a log. */
static bool is_bare(const uint8_t *name, size_t len)
{
    bool good = len > 0 && len <= NAME_MAX && name[0] != '.';
    for (size_t i = 0; i < len; i++)
        good = good && name[i] > ' ' && name[i] < 0x7f && name[i] != '/';
    return good;
}

void get_backup(const struct route_request *r)
{
    struct job_backup *backup = backup_of(r->services);
    if (query_none(r->http) && !refuse(backup, r))
        answer_seen(backup, r->http, 200);
}

void make_backup(const struct route_request *r)
{
    static const char *const names[] = {"file", NULL};
    struct job_backup *backup = backup_of(r->services);
    uint8_t name[HTTP_HEADERS_MAX];
    struct query query;
    size_t len = 0;
    if (!query_read(&query, r->http, names) || !query_bytes(&query, 0, name, &len) ||
        refuse(backup, r))
        return;
    if (!is_bare(name, len)) {
        http_error(r->http, 400,
                   "file=NAME: a name without a slash, of visible ASCII characters, that does not "
                   "begin with a dot; the file will be in %s",
                   backup->folder);
        return;
    }
    struct asked_backup *asked = calloc(1, sizeof(*asked));
    if (!asked) {
        http_error(r->http, 503, "no memory");
        return;
    }
    memcpy(asked->file, name, len);
    asked->backup = backup;
    snprintf(asked->peer, sizeof(asked->peer), "%s", http_peer(r->http));
    asked->pending = http_pend(r->http, BEGIN_PATIENCE_NS);
    if (!asked->pending) {
        free(asked);
        return;
    }
    asked->message.mail.deliver = on_asked;
    reactor_post(backup->thread, &asked->message.mail);
}
