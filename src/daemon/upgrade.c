/*
 * upgrade.c - see upgrade.h. The side of the old program; upgrade_take.c has that of the new one.
 *
 * The state is one file: the head; a section UPGRADE_PROCESS about the process; an optional section
 * UPGRADE_FILE (bool: the process has read a configuration file); those of upgrade_back.h, which
 * are optional, too; then the sections of the services and of the connections; then optional ones:
 * UPGRADE_COUNTS (u64 units held, u64 connections) and the sum of all (base/record.h). The check
 * gets only the first three.
 */
#include "config.h"

#include "daemon/upgrade_internal.h"

#include "base/log.h"
#include "daemon/notify.h"
#include "daemon/process.h"
#include "daemon/upgrade_child.h"
#include "daemon/upgrade_room.h"
#include "net/carry.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Limit of the check. Long, because clients are served meanwhile. */
#define CHECK_NS (20 * NS_PER_S)

/* How often the resources are asked if the pause may begin: the time that is lost then. */
#define MOMENT_NS (2 * NS_PER_MS)

/* To take over takes no longer than reading the state so many times. */
#define READINGS 2

/* Bytes for the last line of a report. */
#define LAST_ROOM 128

/* --- Log and report -------------------------------------------------------------------------- */

/* Adds a line to the report. */
static void report(struct upgrade *upgrade, const char *line)
{
    char *text = upgrade->history.report;
    size_t used = strlen(text);
    snprintf(text + used, sizeof(upgrade->history.report) - used, "%s\n", line);
}

void upgrade_say(struct upgrade *upgrade, const char *format, ...)
{
    char line[1024];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof(line), format, values);
    va_end(values);
    log_at(upgrade->history.good ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR, "upgrade: %s", line);
    report(upgrade, line);
}

/* Logs a child's messages, without "counterd: " or a log line's time at the start of each. */
static void say_said(struct upgrade *upgrade, char *said)
{
    static const char ours[] = "counterd: ", error[] = " error: ";
    char *rest = NULL;
    for (char *line = strtok_r(said, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *at = strstr(line, error);
        if (strncmp(line, ours, sizeof(ours) - 1) == 0)
            line += sizeof(ours) - 1;
        else if (at && at - line < 32)
            line = at + sizeof(error) - 1;
        upgrade_say(upgrade, "%s", line);
    }
}

/* --- The program and its role ----------------------------------------------------------------- */

bool upgrade_is_due(const struct upgrade *upgrade)
{
    struct stat st;
    return *upgrade->path && stat(upgrade->path, &st) == 0 && S_ISREG(st.st_mode) &&
           (st.st_dev != upgrade->device || st.st_ino != upgrade->inode);
}

/* The file at the program's path; all zeros if there is none. */
static struct stat program_now(const struct upgrade *upgrade)
{
    struct stat st;
    return stat(upgrade->path, &st) == 0 ? st : (struct stat){0};
}

/* True when both are the same file, not modified in between. */
static bool is_same_program(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void save_process(struct upgrade *upgrade, struct record_writer *w)
{
    const struct upgrade_parts *parts = &upgrade->parts;
    static struct inherited inherited; /* large */
    inherited.count = 0;
    for (size_t i = 0; i < parts->listeners->count; i++) {
        const struct listener *l = &parts->listeners->at[i];
        if (!listener_is_activated(l))
            inherited_add(&inherited, l->protocol->row->name, l);
    }
    for (size_t i = 0; i < parts->listeners->admin_count; i++) {
        const struct listener *l = &parts->listeners->admin[i];
        if (!listener_is_activated(l))
            inherited_add(&inherited, "admin", l);
    }
    record_begin(w, UPGRADE_PROCESS);
    record_put_text(w, PACKAGE_VERSION);
    record_put_text(w, parts->wrote_pid_file ? parts->settings->pid_file : NULL);
    record_put_i64(w, upgrade->paused_ns);
    record_put_u32(w, upgrade->history.tried);
    record_put_u32(w, upgrade->history.done);
    inherited_save(&inherited, parts->activation, w);
    record_end(w);
    record_begin(w, UPGRADE_FILE);
    record_put_u8(w, parts->settings->file != NULL);
    record_end(w);
}

/* --- Running the new program in a child ------------------------------------------------------- */

/* Says why a child failed that has ended with `status`. */
static void say_status(struct upgrade *upgrade, const char *does, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        upgrade_say(upgrade,
                    "%s %s, and did not say that it can: it is no counterd, or an older one",
                    upgrade->path, does);
    else if (WIFEXITED(status))
        upgrade_say(upgrade, "%s %s, and failed with status %d", upgrade->path, does,
                    WEXITSTATUS(status));
    else if (WIFSIGNALED(status))
        upgrade_say(upgrade, "%s %s, and crashed: SIG%s%s", upgrade->path, does,
                    sigabbrev_np(WTERMSIG(status)),
                    WTERMSIG(status) == SIGKILL ? " (memory may be short)" : "");
}

static void say_unwanted(struct upgrade *upgrade)
{
    upgrade_say(upgrade, "it is given up, because this program is to end");
}

/* Runs the new program in a child with this role. Returns false if the child fails, after logging
 * why. */
static bool ask(struct upgrade *upgrade, enum upgrade_role role, int state_fd, int64_t limit_ns,
                struct upgrade_answer *answer_r)
{
    static const char *const does[] = {
        [UPGRADE_CHECK] = "was asked to check if it can take over",
        [UPGRADE_DRY_RUN] = "tried taking over in a dry run",
    };
    struct child child;
    int status = 0;
    struct upgrade_sockets given = {.count = 0};
    if (role == UPGRADE_DRY_RUN)
        given = upgrade_sockets(&upgrade->parts);
    given.fds[given.count++] = state_fd;
    char **with = upgrade_environment(role, state_fd);
    bool started =
        with && child_start(&child, upgrade->path, upgrade->argv, with, given.fds, given.count);
    upgrade_free_environment(with);
    if (!started) {
        upgrade_say(upgrade, "%s can't be started: %s", upgrade->path, strerrordesc_np(errno));
        return false;
    }
    enum child_end end = child_await(&child, limit_ns, &status);
    say_said(upgrade, child.said.text);
    switch (end) {
    case CHILD_TOO_SLOW:
        upgrade_say(upgrade, "%s %s, and had not ended after %.3g s", upgrade->path, does[role],
                    (double)limit_ns / NS_PER_S);
        return false;
    case CHILD_UNWANTED:
        say_unwanted(upgrade);
        return false;
    case CHILD_ENDED:
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
            upgrade_answer_parse(child.told.text, upgrade_roles[role], answer_r))
            return true;
        say_status(upgrade, does[role], status);
        return false;
    }
    return false;
}

/* --- The old program -------------------------------------------------------------------------- */

static void save_counts(const struct upgrade_counts *counts, struct record_writer *w)
{
    record_begin(w, UPGRADE_COUNTS);
    record_put_u64(w, counts->units);
    record_put_u64(w, counts->connections);
    record_end(w);
}

/* Writes the state. Unless the workers are paused, writes only the sections for the check. Keeps
 * the file's memory, because the next state may need as much. Returns false with errno: at
 * `until_ns` (monotonic) with ETIMEDOUT. */
static bool write_parts(struct upgrade *upgrade, int fd, int64_t until_ns)
{
    struct record_writer *w = malloc(sizeof(*w));
    if (!w)
        return false;
    record_writer_init(w, fd);
    w->until_ns = until_ns;
    record_put_head(w);
    save_process(upgrade, w);
    if (upgrade->paused_ns) {
        upgrade_back_save(&upgrade->back, upgrade->parts.settings, w);
        services_save(upgrade->parts.services, clock_now(), w);
        server_save(upgrade->parts.server, w);
        upgrade->wrote.counts = upgrade_count(&upgrade->parts);
        save_counts(&upgrade->wrote.counts, w);
        upgrade->wrote.sum = record_put_sum(w);
    }
    bool written = record_finish(w) && ftruncate(fd, (off_t)w->flushed) == 0;
    int error = errno;
    free(w);
    errno = error;
    return written;
}

static void say_not_written(struct upgrade *upgrade, int error)
{
    upgrade_say(upgrade, "the state can't be written to memory: %s", strerrordesc_np(error));
}

/* The same; says why it failed, unless it was too late. */
static bool write_state(struct upgrade *upgrade, int fd, int64_t until_ns)
{
    bool written = write_parts(upgrade, fd, until_ns);
    if (!written && errno != ETIMEDOUT)
        say_not_written(upgrade, errno);
    return written;
}

static bool keep_one(int fd, bool keep)
{
    return fcntl(fd, F_SETFD, keep ? 0 : FD_CLOEXEC) == 0;
}

/* With `keep`, keeps all needed descriptors open over execve; else makes them close-on-exec again.
 * Returns false with errno. */
static bool keep_all(const struct upgrade *upgrade, int state_fd, bool keep)
{
    const struct upgrade_sockets sockets = upgrade_sockets(&upgrade->parts);
    bool kept = keep_one(state_fd, keep);
    if (upgrade->back.fd >= 0)
        kept = keep_one(upgrade->back.fd, keep) && kept;
    for (size_t i = 0; i < sockets.count; i++)
        kept = keep_one(sockets.fds[i], keep) && kept;
    return server_keep_descriptors(upgrade->parts.server, keep) && kept;
}

/*
 * Executes the new program, if it is still the file that made the dry run. Returns only on error;
 * TLS connections may be closed then.
 */
static void become(struct upgrade *upgrade, const struct stat *tried, int state_fd)
{
    struct stat now = program_now(upgrade);
    if (!is_same_program(&now, tried)) {
        upgrade_say(upgrade, "%s was replaced meanwhile", upgrade->path);
        return;
    }
    char **with = upgrade_environment(UPGRADE_TAKE, state_fd);
    if (with && keep_all(upgrade, state_fd, true)) {
        server_say_goodbye(upgrade->parts.server);
        execve(upgrade->path, upgrade->argv, with);
        upgrade_say(upgrade, "%s can't be executed: %s", upgrade->path, strerrordesc_np(errno));
        (void)server_close_tls(upgrade->parts.server);
    } else {
        upgrade_say(upgrade, "can't keep its descriptors open: %s", strerrordesc_np(errno));
    }
    (void)keep_all(upgrade, state_fd, false);
    upgrade_free_environment(with);
}

/* Memory for the programs themselves and for pages that are not full. */
#define ROOM_BASE ((uint64_t)8 << 20)

/* True if memory suffices for so many copies of all that this process has. Else finds *room_r, the
 * least that is left, and *needed_r. */
static bool is_room_for(unsigned copies, struct upgrade_room *room_r, uint64_t *needed_r)
{
    upgrade_room_find(UPGRADE_ROOM_PROC, UPGRADE_ROOM_CGROUPS, room_r);
    *needed_r = copies * upgrade_room_used(UPGRADE_ROOM_PROC) + ROOM_BASE;
    return *needed_r <= room_r->left;
}

/* True if memory suffices for the state and for what the dry run builds: each takes at most what
 * this process has. */
static bool has_room(struct upgrade *upgrade)
{
    struct upgrade_room room;
    uint64_t needed;
    if (is_room_for(2, &room, &needed))
        return true;
    upgrade_say(
        upgrade,
        "it needs up to %llu MiB of memory for a moment, and only %llu MiB are left%s%s: allow "
        "more, or upgrade when less is held",
        (unsigned long long)(needed >> 20), (unsigned long long)(room.left >> 20),
        *room.where ? " under the limit of " : "", room.where);
    return false;
}

/* The same, and for pages that clients change while a copy of this process writes them. */
static bool has_room_for_copy(void)
{
    struct upgrade_room room;
    uint64_t needed;
    return is_room_for(3, &room, &needed);
}

/* Has a child make a dry run with the state that was written last. Notes how long reading took. */
static bool dry_run(struct upgrade *upgrade, int state_fd, int64_t limit_ns)
{
    struct upgrade_answer read;
    upgrade->reading_ns = limit_ns;
    if (!ask(upgrade, UPGRADE_DRY_RUN, state_fd, limit_ns, &read))
        return false;
    upgrade->reading_ns = read.read_ns;
    const struct upgrade_answer *wrote = &upgrade->wrote;
    if (read.sum == wrote->sum && upgrade_same_counts(&read.counts, &wrote->counts))
        return true;
    upgrade_say(upgrade,
                "%s tried taking over in a dry run, and read something else than was written",
                upgrade->path);
    return false;
}

/* Waits until the resources allow a pause to begin. Returns false when a signal ends the daemon.
 */
static bool await_moment(struct upgrade *upgrade)
{
    int64_t since_ns = clock_mono_ns();
    const struct timespec look = {.tv_nsec = MOMENT_NS};
    while (!services_may_pause(upgrade->parts.services, since_ns, clock_mono_ns())) {
        if (process_is_to_end()) {
            say_unwanted(upgrade);
            return false;
        }
        notify_alive_again();
        (void)nanosleep(&look, NULL);
    }
    return true;
}

/* Of `limit_ns`, what the time until `by_ns` allows: then READINGS such times are left. */
static int64_t allowed_ns(int64_t by_ns, int64_t limit_ns)
{
    int64_t left_ns = by_ns - clock_mono_ns(), most_ns = left_ns > 0 ? left_ns / (READINGS + 1) : 0;
    return most_ns < limit_ns ? most_ns : limit_ns;
}

/* Says that an upgrade has no time left. `doing` took so long, or longer. */
static void say_late(struct upgrade *upgrade, const char *what, int64_t by_ns, const char *doing,
                     int64_t took_ns)
{
    upgrade_say(
        upgrade,
        "%s the state took %.3f s, and %s ends in %.3f s, which is not enough to take over: "
        "upgrade when there are fewer names and jobs",
        doing, (double)took_ns / NS_PER_S, what, (double)(by_ns - clock_mono_ns()) / NS_PER_S);
}

/* Has all threads go on. */
static void go_on(struct upgrade *upgrade, bool services_paused)
{
    const struct upgrade_parts *parts = &upgrade->parts;
    upgrade->pause_ns += clock_mono_ns() - upgrade->paused_ns;
    upgrade->paused_ns = 0;
    if (services_paused)
        services_resume(parts->services);
    server_resume(parts->server);
    if (parts->admin)
        admin_resume(parts->admin);
}

/* Waits for a good moment and pauses all threads. Returns false, after saying why, when a signal
 * ends the daemon, or a resource did not come to rest; all threads run then. */
static bool pause_all(struct upgrade *upgrade, int64_t limit_ns)
{
    const struct upgrade_parts *parts = &upgrade->parts;
    const char *what;
    if (!await_moment(upgrade))
        return false;
    if (parts->admin)
        admin_pause(parts->admin);
    upgrade->paused_ns = clock_mono_ns();
    server_pause(parts->server);
    int64_t pause_ns = allowed_ns(services_serve_by(parts->services, &what), limit_ns);
    if (services_pause(parts->services, upgrade->paused_ns + pause_ns))
        return true;
    if (parts->services->refusal)
        upgrade_say(upgrade, "%s", parts->services->refusal);
    else
        upgrade_say(upgrade, "the resources were still at work after %.3g s (%s)",
                    (double)pause_ns / NS_PER_S, pause_ns < limit_ns ? what : "upgrade.timeout");
    go_on(upgrade, false);
    return false;
}

/* A copy of this process, which writes the state as it was when all was paused. */
struct copy {
    struct child child;
    struct written { /* shared with the copy */
        struct upgrade_answer wrote;
        int error;
    } * written;
};

/* Closes all other descriptors, standard ones excepted: a connection that this process closes is
 * closed for its client only when no other process has it. */
static void close_others(int kept_fd)
{
    if (kept_fd > STDERR_FILENO + 1)
        (void)close_range(STDERR_FILENO + 1, (unsigned)kept_fd - 1, 0);
    (void)close_range((unsigned)kept_fd + 1, UINT_MAX, 0);
}

/* Makes the copy, while all is paused. No thread holds a lock then, so it can use everything. Its
 * pid is -1 when it can't be made. */
static void make_copy(struct upgrade *upgrade, int state_fd, struct copy *copy_r)
{
    const size_t size = sizeof(*copy_r->written);
    *copy_r = (struct copy){.child = {.pid = -1, .said.fd = -1, .told.fd = -1}};
    void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return;
    copy_r->written = shared;
    copy_r->child.pid = fork();
    if (copy_r->child.pid > 0) {
        child_offer(copy_r->child.pid);
    } else if (copy_r->child.pid == 0) {
        close_others(state_fd);
        bool written = write_parts(upgrade, state_fd, INT64_MAX);
        copy_r->written->error = written ? 0 : errno;
        copy_r->written->wrote = upgrade->wrote;
        _exit(written ? PROCESS_EXIT_GOOD : PROCESS_EXIT_SETUP);
    }
}

/* Waits until the copy has written the state. Returns false, after saying why, when it did not. */
static bool await_copy(struct upgrade *upgrade, struct copy *copy, int64_t limit_ns)
{
    int status = 0;
    enum child_end end = child_await(&copy->child, limit_ns, &status);
    upgrade->wrote = copy->written->wrote;
    if (end == CHILD_ENDED && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (end == CHILD_UNWANTED)
        say_unwanted(upgrade);
    else if (copy->written->error)
        say_not_written(upgrade, copy->written->error);
    else if (end == CHILD_TOO_SLOW)
        upgrade_say(upgrade, "the state was not written after %lld s (upgrade.timeout)",
                    (long long)(limit_ns / NS_PER_S));
    else
        upgrade_say(upgrade, "the process that writes the state ended early (memory may be short)");
    return false;
}

/*
 * Makes a dry run of while clients are served. Returns false when that failed, which is said. When
 * no copy of this process can be made, there was no dry run; sets *tried_r.
 */
static bool dry_run_ahead(struct upgrade *upgrade, int state_fd, int64_t limit_ns, bool *tried_r)
{
    struct copy copy;
    if (!pause_all(upgrade, limit_ns))
        return false;
    make_copy(upgrade, state_fd, &copy);
    go_on(upgrade, true);
    *tried_r = copy.child.pid > 0;
    log_info("upgrade: all threads stood still for %lld ms, to copy the state",
             (long long)(upgrade->pause_ns / NS_PER_MS));
    bool good =
        !*tried_r || (await_copy(upgrade, &copy, limit_ns) && dry_run(upgrade, state_fd, limit_ns));
    if (copy.written)
        CHECK(munmap(copy.written, sizeof(*copy.written)) == 0);
    return good;
}

/* True, after saying so, when the new program could not serve before `by_ns`. */
static bool is_late(struct upgrade *upgrade, const char *what, int64_t by_ns)
{
    if (by_ns == INT64_MAX || by_ns - clock_mono_ns() > READINGS * upgrade->reading_ns)
        return false;
    say_late(upgrade, what, by_ns, "reading", upgrade->reading_ns);
    return true;
}

/* Steps 5 and 6, while all is paused. Returns only after a failure. */
static void take_over(struct upgrade *upgrade, int state_fd, const struct stat *program, bool tried,
                      int64_t limit_ns)
{
    const char *what;
    int64_t by_ns = services_serve_by(upgrade->parts.services, &what), begin_ns = clock_mono_ns();
    if (tried && is_late(upgrade, what, by_ns))
        return;
    if (!write_state(upgrade, state_fd, begin_ns + allowed_ns(by_ns, INT64_MAX))) {
        if (errno == ETIMEDOUT)
            say_late(upgrade, what, by_ns, "writing", clock_mono_ns() - begin_ns);
        return;
    }
    bool good = tried || dry_run(upgrade, state_fd, allowed_ns(by_ns, limit_ns));
    if (!is_late(upgrade, what, by_ns) && good)
        become(upgrade, program, state_fd);
}

/* Steps 2 to 6. Returns only after a failure, when all threads run again, with the last line of the
 * report. */
static void hand_over(struct upgrade *upgrade, int state_fd, char last_r[LAST_ROOM])
{
    int64_t limit_ns = (int64_t)upgrade->parts.settings->upgrade_timeout * NS_PER_S;
    struct stat program = program_now(upgrade);
    bool tried = false;
    upgrade->pause_ns = 0;
    upgrade_back_open(&upgrade->back, upgrade->path);
    if ((!has_room_for_copy() || dry_run_ahead(upgrade, state_fd, limit_ns, &tried)) &&
        pause_all(upgrade, limit_ns)) {
        take_over(upgrade, state_fd, &program, tried, limit_ns);
        go_on(upgrade, true);
    }
    upgrade_back_close(&upgrade->back);
    snprintf(last_r, LAST_ROOM,
             "counterd " PACKAGE_VERSION " goes on as before; nobody was served for %lld ms",
             (long long)(upgrade->pause_ns / NS_PER_MS));
}

void upgrade_run(struct upgrade *upgrade, void (*over)(void *arg), void *arg)
{
    struct admin_upgrades *history = &upgrade->history;
    struct upgrade_answer checked;
    char last[LAST_ROOM] = "counterd " PACKAGE_VERSION " goes on as before";
    history->tried++;
    history->good = false;
    *history->report = '\0';
    log_info("upgrade: to %s", *upgrade->path ? upgrade->path : "an unknown path");
    int fd = memfd_create("counterd state", MFD_CLOEXEC);
    if (fd < 0)
        upgrade_say(upgrade, "can't make a file in memory: %s", strerrordesc_np(errno));
    else if (!*upgrade->path)
        upgrade_say(upgrade, "the path of the running program is not known");
    if (fd >= 0 && *upgrade->path && has_room(upgrade) && write_state(upgrade, fd, INT64_MAX) &&
        ask(upgrade, UPGRADE_CHECK, fd, CHECK_NS, &checked) && has_room(upgrade))
        hand_over(upgrade, fd, last);
    if (fd >= 0)
        close(fd);
    report(upgrade, last);
    over(arg);
    log_error("upgrade: %s", last);
}
