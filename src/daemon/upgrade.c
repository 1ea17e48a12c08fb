/*
 * upgrade.c - see upgrade.h.
 *
 * The state is one file: the head; a section UPGRADE_PROCESS about the process; an optional section
 * UPGRADE_FILE (bool: the process has read a configuration file); those of upgrade_back.h, which
 * are optional, too; then the sections of the services and of the connections; then optional ones:
 * UPGRADE_COUNTS (u64 units held, u64 connections) and the sum of all (base/record.h). The check
 * gets only the first three.
 */
#include "config.h"

#include "daemon/upgrade.h"

#include "base/log.h"
#include "base/number.h"
#include "daemon/notify.h"
#include "daemon/process.h"
#include "daemon/upgrade_room.h"
#include "net/carry.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define UPGRADE_PROCESS 0x0401u
#define UPGRADE_FILE    (RECORD_OPTIONAL | 0x0402u)
#define UPGRADE_COUNTS  (RECORD_OPTIONAL | 0x0405u)

/* Limit of the check. Long, because clients are served meanwhile. */
#define CHECK_NS (20 * NS_PER_S)

/* How often the resources are asked if the pause may begin: the time that is lost then. */
#define MOMENT_NS (2 * NS_PER_MS)

/* To take over takes no longer than reading the state so many times. */
#define READINGS 2

/* How often a silent child is checked. */
#define LISTEN_NS (50 * NS_PER_MS)

/* Descriptors that the start needs briefly after the connections are restored: the password file.
 */
#define SPARE_DESCRIPTORS 2

/* Bytes for the last line of a report. */
#define LAST_ROOM 128

static const char *const role_words[] = {
    [UPGRADE_NONE] = "",     [UPGRADE_CHECK] = "check", [UPGRADE_REHEARSE] = "rehearse",
    [UPGRADE_TAKE] = "take", [UPGRADE_GO_ON] = "go-on",
};

/* --- Log and report -------------------------------------------------------------------------- */

/* Adds a line to the report. */
static void report(struct upgrade *upgrade, const char *line)
{
    char *text = upgrade->history.report;
    size_t used = strlen(text);
    snprintf(text + used, sizeof(upgrade->history.report) - used, "%s\n", line);
}

/* Adds a line to the log and to the report. */
static void say(struct upgrade *upgrade, enum log_level level, const char *format, ...)
    PRINTF_LIKE(3, 4);
static void say(struct upgrade *upgrade, enum log_level level, const char *format, ...)
{
    char line[1024];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof(line), format, values);
    va_end(values);
    if (level == LOG_LEVEL_ERROR)
        log_error("upgrade: %s", line);
    else
        log_info("upgrade: %s", line);
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
        say(upgrade, LOG_LEVEL_ERROR, "%s", line);
    }
}

/* --- The program and its role ----------------------------------------------------------------- */

/* True when `path` is the running program. */
static bool is_program(const struct upgrade *upgrade, const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && st.st_dev == upgrade->device && st.st_ino == upgrade->inode;
}

#define DELETED " (deleted)"

/*
 * Finds the path by which this program was started; a new program may be put there later. If the
 * path that the kernel recorded is not this program, uses /proc/self/exe.
 */
static void find_path(struct upgrade *upgrade)
{
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): getauxval returns pointers as numbers */
    const char *started = (const char *)getauxval(AT_EXECFN);
    struct stat st;
    if (stat("/proc/self/exe", &st) != 0 && (!started || stat(started, &st) != 0))
        return;
    upgrade->device = st.st_dev;
    upgrade->inode = st.st_ino;
    char folder[PATH_MAX] = "";
    bool relative = started && *started != '/';
    if (started && (!relative || getcwd(folder, sizeof(folder)))) {
        int len = snprintf(upgrade->path, sizeof(upgrade->path), "%s%s%s", folder,
                           relative ? "/" : "", started);
        if (len < (int)sizeof(upgrade->path) && is_program(upgrade, upgrade->path))
            return;
    }
    ssize_t len = readlink("/proc/self/exe", upgrade->path, sizeof(upgrade->path) - 1);
    len = len > 0 ? len : 0;
    upgrade->path[len] = '\0';
    /* The kernel adds this suffix when the file was replaced. */
    const ssize_t mark = (ssize_t)strlen(DELETED);
    if (len > mark && strcmp(upgrade->path + len - mark, DELETED) == 0 &&
        !is_program(upgrade, upgrade->path))
        upgrade->path[len - mark] = '\0';
}

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

/* Parses "ROLE FD", the value of the environment variable. */
static bool read_variable(const char *text, enum upgrade_role *role_r, int *fd_r)
{
    for (enum upgrade_role role = UPGRADE_CHECK; role <= UPGRADE_GO_ON; role++) {
        size_t len = strlen(role_words[role]);
        if (strncmp(text, role_words[role], len) != 0 || text[len] != ' ')
            continue;
        uint64_t fd;
        if (!number_parse(bytes_of(text + len + 1), INT_MAX, &fd))
            return false;
        *role_r = role;
        *fd_r = (int)fd;
        return true;
    }
    return false;
}

/* Reads a text; cuts one that does not fit. */
static void get_text(struct record_reader *r, char *to, size_t size)
{
    const void *text;
    size_t len = record_get_bytes(r, &text);
    if (len >= size)
        len = size - 1;
    memcpy(to, text, len);
    to[len] = '\0';
}

static void save_process(struct upgrade *upgrade, struct record_writer *w)
{
    const struct upgrade_parts *parts = &upgrade->parts;
    static struct inherited inherited; /* large */
    inherited.count = 0;
    for (size_t i = 0; i < parts->listeners->count; i++) {
        const struct listener *l = &parts->listeners->at[i];
        if (!parts->listeners->activated[i])
            inherited_add(&inherited, l->protocol->row->name, l);
    }
    for (size_t i = 0; i < parts->listeners->admin_count; i++) {
        const struct listener *l = &parts->listeners->admin[i];
        if (*l->asked)
            inherited_add(&inherited, "admin", l);
    }
    record_begin(w, UPGRADE_PROCESS);
    record_put_text(w, PACKAGE_VERSION);
    record_put_text(w, parts->wrote_pid_file ? parts->settings->pid_file : NULL);
    record_put_i64(w, upgrade->parked_ns);
    record_put_u32(w, upgrade->history.tried);
    record_put_u32(w, upgrade->history.done);
    inherited_save(&inherited, parts->activation, w);
    record_end(w);
    record_begin(w, UPGRADE_FILE);
    record_put_u8(w, parts->settings->file != NULL);
    record_end(w);
}

/* Reads the optional sections of the process. Does not move `state`: restore_sections skips them.
 */
static bool restore_optional(struct upgrade *upgrade)
{
    struct record_reader next = upgrade->state, section;
    uint32_t kind;
    bool takes = upgrade->role == UPGRADE_TAKE, is_ours = true;
    while (is_ours && record_enter(&next, &kind, &section)) {
        if (kind == UPGRADE_FILE)
            upgrade->had_file = record_get_bool(&section);
        else
            is_ours = upgrade_back_restore(&upgrade->back, takes, kind, &section);
    }
    return record_ok(&next);
}

/* Reads the head and the sections of the process. */
static bool restore_process(struct upgrade *upgrade)
{
    struct record_reader section;
    uint32_t kind;
    record_get_head(&upgrade->state);
    if (!record_enter(&upgrade->state, &kind, &section) || kind != UPGRADE_PROCESS)
        return false;
    get_text(&section, upgrade->version, sizeof(upgrade->version));
    get_text(&section, upgrade->pid_file, sizeof(upgrade->pid_file));
    upgrade->parked_ns = record_get_i64(&section);
    upgrade->history.tried = record_get_u32(&section);
    upgrade->history.done = record_get_u32(&section);
    if (upgrade->role != UPGRADE_CHECK)
        inherited_restore(&upgrade->inherited, &upgrade->activation, upgrade->role == UPGRADE_GO_ON,
                          &section);
    upgrade->inherited.exists = true;
    upgrade->inherited.rehearse = upgrade->role == UPGRADE_REHEARSE;
    upgrade_back_note(&upgrade->back, &upgrade->inherited, &upgrade->activation);
    return record_ok(&section) && restore_optional(upgrade);
}

/* Takes path and name from the state: this program was executed by a descriptor. */
static void go_by_path(struct upgrade *upgrade)
{
    const char *slash = strrchr(upgrade->back.path, '/');
    snprintf(upgrade->path, sizeof(upgrade->path), "%s", upgrade->back.path);
    (void)prctl(PR_SET_NAME, slash ? slash + 1 : upgrade->back.path);
}

/* NOLINTBEGIN(concurrency-mt-unsafe): no other thread runs yet */
bool upgrade_init(struct upgrade *upgrade, char **argv)
{
    upgrade->argv = argv;
    upgrade->back.fd = upgrade->state_fd = -1;
    find_path(upgrade);
    const char *variable = getenv(UPGRADE_VARIABLE);
    if (!variable)
        return true;
    int fd = -1;
    bool good = read_variable(variable, &upgrade->role, &fd) && record_map(&upgrade->state, fd);
    unsetenv(UPGRADE_VARIABLE);
    if (!good) {
        options_complain(stderr, "do not set %s by hand", UPGRADE_VARIABLE);
        return false;
    }
    if (upgrade->role == UPGRADE_TAKE && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0)
        upgrade->state_fd = fd;
    else
        close(fd);
    if (!upgrade_takes(upgrade))
        log_set_level(LOG_LEVEL_ERROR); /* the old program logs the errors of its child */
    if (restore_process(upgrade)) {
        if (upgrade->role == UPGRADE_GO_ON)
            go_by_path(upgrade);
        return true;
    }
    options_complain(stderr, "can't restore the state: %s",
                     upgrade->state.why ? upgrade->state.why : "its head is invalid");
    return false;
}
/* NOLINTEND(concurrency-mt-unsafe) */

/* --- Running the new program in a child ------------------------------------------------------- */

/* A copy of the environment with the variable added. The caller calls free_environment. NULL: no
 * memory. */
static char **environment_with(enum upgrade_role role, int fd)
{
    size_t count = 0;
    while (environ[count])
        count++;
    char **with = calloc(count + 2, sizeof(*with));
    if (!with || asprintf(&with[0], "%s=%s %d", UPGRADE_VARIABLE, role_words[role], fd) < 0) {
        free(with);
        return NULL;
    }
    memcpy(with + 1, environ, count * sizeof(*with));
    return with;
}

static void free_environment(char **with)
{
    if (with)
        free(with[0]);
    free(with);
}

/* A list of all listening sockets. */
struct sockets {
    size_t count;
    int fds[LISTENERS_MAX + ACTIVATION_MAX];
};

static struct sockets list_sockets(const struct upgrade_parts *parts)
{
    const struct listeners *listeners = parts->listeners;
    struct sockets sockets = {.count = 0};
    for (size_t i = 0; i < listeners->count; i++)
        sockets.fds[sockets.count++] = listeners->at[i].fd;
    for (size_t i = 0; i < listeners->admin_count; i++)
        sockets.fds[sockets.count++] = listeners->admin[i].fd;
    return sockets;
}

/* Gives a descriptor to a child, with the same number. */
static void give(posix_spawn_file_actions_t *actions, int fd)
{
    CHECK(posix_spawn_file_actions_adddup2(actions, fd, fd) == 0);
}

/* Makes a process the first that the kernel ends when memory is short: better a failed upgrade than
 * everything lost. A process of the same user may always raise this value. */
static void offer(pid_t pid)
{
    static const char most[] = "1000";
    char path[64];
    snprintf(path, sizeof(path), "/proc/%lld/oom_score_adj", (long long)pid);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)!write(fd, most, sizeof(most) - 1);
    close(fd);
}

/* What a child writes to one of its descriptors. */
struct hearing {
    int fd; /* the pipe; -1: it has ended */
    char text[4096];
    size_t len;
};

/* A child that runs the new program. */
struct child {
    pid_t pid;
    struct hearing said; /* on standard error */
    struct hearing told; /* on standard output: its answer */
};

/* How a child ended. */
enum child_end { CHILD_ENDED, CHILD_TOO_SLOW, CHILD_UNWANTED /* the daemon is to end */ };

/* Closes a pipe; harmless when there is none. */
static void close_both(const int ends[2])
{
    for (unsigned i = 0; i < 2; i++) {
        if (ends[i] >= 0)
            close(ends[i]);
    }
}

/* Closes the end of a pipe that the child has, and returns ours. */
static int keep_read_end(const int ends[2])
{
    close(ends[1]);
    return ends[0];
}

/* Starts the new program in a child. Returns false with errno. */
static bool start_child(const struct upgrade *upgrade, enum upgrade_role role, int state_fd,
                        struct child *child_r)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int said[2] = {-1, -1}, told[2] = {-1, -1};
    const struct sockets sockets = list_sockets(&upgrade->parts);
    char **with = environment_with(role, state_fd);
    sigset_t none, ignored;
    sigemptyset(&none);
    sigemptyset(&ignored);
    sigaddset(&ignored, SIGPIPE);
    *child_r = (struct child){.pid = -1};
    if (!with || pipe2(said, O_CLOEXEC | O_NONBLOCK) != 0 ||
        pipe2(told, O_CLOEXEC | O_NONBLOCK) != 0) {
        close_both(said);
        free_environment(with);
        return false;
    }
    CHECK(posix_spawn_file_actions_init(&actions) == 0 && posix_spawnattr_init(&attributes) == 0);
    CHECK(posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) == 0);
    CHECK(posix_spawn_file_actions_adddup2(&actions, told[1], 1) == 0);
    CHECK(posix_spawn_file_actions_adddup2(&actions, said[1], 2) == 0);
    give(&actions, state_fd);
    for (size_t i = 0; role == UPGRADE_REHEARSE && i < sockets.count; i++)
        give(&actions, sockets.fds[i]);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &ignored);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int error =
        posix_spawn(&child_r->pid, upgrade->path, &actions, &attributes, upgrade->argv, with);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    free_environment(with);
    if (error == 0) {
        offer(child_r->pid);
        child_r->said.fd = keep_read_end(said);
        child_r->told.fd = keep_read_end(told);
    } else {
        close_both(said);
        close_both(told);
    }
    errno = error;
    return error == 0;
}

/* Reads what a child has written so far. */
static void listen_to(struct hearing *hearing)
{
    char lost[512];
    ssize_t n = 1;
    while (hearing->fd >= 0 && n > 0) {
        size_t room = sizeof(hearing->text) - 1 - hearing->len;
        n = read(hearing->fd, room ? hearing->text + hearing->len : lost,
                 room ? room : sizeof(lost));
        if (n > 0 && room)
            hearing->len += (size_t)n;
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            close(hearing->fd);
            hearing->fd = -1;
        }
    }
}

static void stop_listening(struct hearing *hearing)
{
    listen_to(hearing);
    if (hearing->fd >= 0)
        close(hearing->fd);
    hearing->fd = -1;
}

/* True when a signal waits that ends the daemon. It stays for the main loop. */
static bool is_to_end(void)
{
    sigset_t waiting;
    return sigpending(&waiting) == 0 &&
           (sigismember(&waiting, SIGTERM) == 1 || sigismember(&waiting, SIGINT) == 1);
}

/* Waits for the child's end. Kills it after limit_ns nanoseconds, or when the daemon is to end. */
static enum child_end await_child(struct child *child, int64_t limit_ns, int *status_r)
{
    int64_t until_ns = clock_mono_ns() + limit_ns;
    int64_t interval_ns = notify_alive_interval_ns(), alive_ns = 0;
    int pause_ms = interval_ns && interval_ns < LISTEN_NS ? 1 : (int)(LISTEN_NS / NS_PER_MS);
    for (;;) {
        struct pollfd ready[] = {{.fd = child->said.fd, .events = POLLIN},
                                 {.fd = child->told.fd, .events = POLLIN}};
        bool speaks = child->said.fd >= 0 && child->told.fd >= 0;
        (void)poll(ready, 2, speaks ? pause_ms : 1); /* one that ends closes them first */
        listen_to(&child->said);
        listen_to(&child->told);
        if (waitpid(child->pid, status_r, WNOHANG) == child->pid)
            return CHILD_ENDED;
        int64_t now_ns = clock_mono_ns();
        bool is_unwanted = is_to_end();
        if (now_ns >= until_ns || is_unwanted) {
            kill(child->pid, SIGKILL);
            while (waitpid(child->pid, status_r, 0) < 0 && errno == EINTR)
                continue;
            return is_unwanted ? CHILD_UNWANTED : CHILD_TOO_SLOW;
        }
        if (interval_ns && now_ns - alive_ns >= interval_ns) {
            notify_alive(); /* this process waits, but does not hang */
            alive_ns = now_ns;
        }
    }
}

/* Says why a child failed that has ended with `status`. */
static void say_status(struct upgrade *upgrade, const char *does, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        say(upgrade, LOG_LEVEL_ERROR,
            "%s %s, and did not say that it can: it is no counterd, or an older one", upgrade->path,
            does);
    else if (WIFEXITED(status))
        say(upgrade, LOG_LEVEL_ERROR, "%s %s, and failed with status %d", upgrade->path, does,
            WEXITSTATUS(status));
    else if (WIFSIGNALED(status))
        say(upgrade, LOG_LEVEL_ERROR, "%s %s, and crashed: SIG%s%s", upgrade->path, does,
            sigabbrev_np(WTERMSIG(status)),
            WTERMSIG(status) == SIGKILL ? " (memory may be short)" : "");
}

static void say_unwanted(struct upgrade *upgrade)
{
    say(upgrade, LOG_LEVEL_ERROR, "it is given up, because this program is to end");
}

/* Runs the new program in a child with this role. Returns false if the child fails, after logging
 * why. */
static bool ask(struct upgrade *upgrade, enum upgrade_role role, int state_fd, int64_t limit_ns,
                struct upgrade_answer *answer_r)
{
    static const char *const does[] = {
        [UPGRADE_CHECK] = "was asked to check if it can take over",
        [UPGRADE_REHEARSE] = "rehearsed taking over",
    };
    struct child child;
    int status = 0;
    if (!start_child(upgrade, role, state_fd, &child)) {
        say(upgrade, LOG_LEVEL_ERROR, "%s can't be started: %s", upgrade->path,
            strerrordesc_np(errno));
        return false;
    }
    enum child_end end = await_child(&child, limit_ns, &status);
    stop_listening(&child.said);
    stop_listening(&child.told);
    say_said(upgrade, child.said.text);
    switch (end) {
    case CHILD_TOO_SLOW:
        say(upgrade, LOG_LEVEL_ERROR, "%s %s, and had not ended after %.3g s", upgrade->path,
            does[role], (double)limit_ns / NS_PER_S);
        return false;
    case CHILD_UNWANTED:
        say_unwanted(upgrade);
        return false;
    case CHILD_ENDED:
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
            upgrade_answer_parse(child.told.text, role_words[role], answer_r))
            return true;
        say_status(upgrade, does[role], status);
        return false;
    }
    return false;
}

/* --- The old program -------------------------------------------------------------------------- */

/* Counts what the parts have. */
static struct upgrade_counts count_all(const struct upgrade_parts *parts)
{
    struct upgrade_counts counts = {0};
    struct table_stats stats;
    table_get_stats(parts->services->table, clock_now(), &stats);
    counts.units = stats.units;
    for (unsigned i = 0; i < parts->server->count; i++)
        counts.connections += worker_connections(parts->server->workers[i]);
    return counts;
}

static bool same_counts(const struct upgrade_counts *a, const struct upgrade_counts *b)
{
    return a->units == b->units && a->connections == b->connections;
}

static void save_counts(const struct upgrade_counts *counts, struct record_writer *w)
{
    record_begin(w, UPGRADE_COUNTS);
    record_put_u64(w, counts->units);
    record_put_u64(w, counts->connections);
    record_end(w);
}

/* Writes the state. Unless the workers are parked, writes only the sections for the check. Keeps
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
    if (upgrade->parked_ns) {
        upgrade_back_save(&upgrade->back, upgrade->parts.settings, w);
        services_save(upgrade->parts.services, clock_now(), w);
        server_save(upgrade->parts.server, w);
        upgrade->wrote.counts = count_all(&upgrade->parts);
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
    say(upgrade, LOG_LEVEL_ERROR, "the state can't be written to memory: %s",
        strerrordesc_np(error));
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
    const struct sockets sockets = list_sockets(&upgrade->parts);
    bool kept = keep_one(state_fd, keep);
    if (upgrade->back.fd >= 0)
        kept = keep_one(upgrade->back.fd, keep) && kept;
    for (size_t i = 0; i < sockets.count; i++)
        kept = keep_one(sockets.fds[i], keep) && kept;
    return server_keep_descriptors(upgrade->parts.server, keep) && kept;
}

/*
 * Executes the new program, if it is still the file that has rehearsed. Returns only on error; TLS
 * connections may be closed then.
 */
static void become(struct upgrade *upgrade, const struct stat *rehearsed, int state_fd)
{
    struct stat now = program_now(upgrade);
    if (!is_same_program(&now, rehearsed)) {
        say(upgrade, LOG_LEVEL_ERROR, "%s was replaced meanwhile", upgrade->path);
        return;
    }
    char **with = environment_with(UPGRADE_TAKE, state_fd);
    if (with && keep_all(upgrade, state_fd, true)) {
        server_say_goodbye(upgrade->parts.server);
        execve(upgrade->path, upgrade->argv, with);
        say(upgrade, LOG_LEVEL_ERROR, "%s can't be executed: %s", upgrade->path,
            strerrordesc_np(errno));
        (void)server_close_tls(upgrade->parts.server);
    } else {
        say(upgrade, LOG_LEVEL_ERROR, "can't keep its descriptors open: %s",
            strerrordesc_np(errno));
    }
    (void)keep_all(upgrade, state_fd, false);
    free_environment(with);
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

/* True if memory suffices for the state and for what the rehearsal builds: each takes at most what
 * this process has. */
static bool has_room(struct upgrade *upgrade)
{
    struct upgrade_room room;
    uint64_t needed;
    if (is_room_for(2, &room, &needed))
        return true;
    say(upgrade, LOG_LEVEL_ERROR,
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

/* Has a child rehearse with the state that was written last. Notes how long reading took. */
static bool rehearse(struct upgrade *upgrade, int state_fd, int64_t limit_ns)
{
    struct upgrade_answer read;
    upgrade->reading_ns = limit_ns;
    if (!ask(upgrade, UPGRADE_REHEARSE, state_fd, limit_ns, &read))
        return false;
    upgrade->reading_ns = read.read_ns;
    const struct upgrade_answer *wrote = &upgrade->wrote;
    if (read.sum == wrote->sum && same_counts(&read.counts, &wrote->counts))
        return true;
    say(upgrade, LOG_LEVEL_ERROR,
        "%s rehearsed taking over, and read something else than was written", upgrade->path);
    return false;
}

/* Waits until the resources allow a pause to begin. Returns false when a signal ends the daemon.
 */
static bool await_moment(struct upgrade *upgrade)
{
    int64_t since_ns = clock_mono_ns(), now_ns = since_ns, alive_ns = since_ns;
    int64_t interval_ns = notify_alive_interval_ns();
    const struct timespec look = {.tv_nsec = MOMENT_NS};
    while (!services_may_pause(upgrade->parts.services, since_ns, now_ns)) {
        if (is_to_end()) {
            say_unwanted(upgrade);
            return false;
        }
        if (interval_ns && now_ns - alive_ns >= interval_ns) {
            notify_alive();
            alive_ns = now_ns;
        }
        (void)nanosleep(&look, NULL);
        now_ns = clock_mono_ns();
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
    say(upgrade, LOG_LEVEL_ERROR,
        "%s the state took %.3f s, and %s ends in %.3f s, which is not enough to take over: "
        "upgrade when there are fewer names and jobs",
        doing, (double)took_ns / NS_PER_S, what, (double)(by_ns - clock_mono_ns()) / NS_PER_S);
}

/* Has all threads go on. */
static void go_on(struct upgrade *upgrade, bool services_parked)
{
    const struct upgrade_parts *parts = &upgrade->parts;
    upgrade->pause_ns += clock_mono_ns() - upgrade->parked_ns;
    upgrade->parked_ns = 0;
    if (services_parked)
        services_resume(parts->services);
    server_unpark(parts->server);
    if (parts->admin)
        admin_resume(parts->admin);
}

/* Waits for a good moment and parks all threads. Returns false, after saying why, when a signal
 * ends the daemon, or a resource did not come to rest; all threads run then. */
static bool park_all(struct upgrade *upgrade, int64_t limit_ns)
{
    const struct upgrade_parts *parts = &upgrade->parts;
    const char *what;
    if (!await_moment(upgrade))
        return false;
    if (parts->admin)
        admin_pause(parts->admin);
    upgrade->parked_ns = clock_mono_ns();
    server_park(parts->server);
    int64_t park_ns = allowed_ns(services_serve_by(parts->services, &what), limit_ns);
    if (services_park(parts->services, upgrade->parked_ns + park_ns))
        return true;
    if (parts->services->refusal)
        say(upgrade, LOG_LEVEL_ERROR, "%s", parts->services->refusal);
    else
        say(upgrade, LOG_LEVEL_ERROR, "the resources were still at work after %.3g s (%s)",
            (double)park_ns / NS_PER_S, park_ns < limit_ns ? what : "upgrade.timeout");
    go_on(upgrade, false);
    return false;
}

/* A copy of this process, which writes the state as it was when all was parked. */
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

/* Makes the copy, while all is parked. No thread holds a lock then, so it can use everything. Its
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
        offer(copy_r->child.pid);
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
    enum child_end end = await_child(&copy->child, limit_ns, &status);
    upgrade->wrote = copy->written->wrote;
    if (end == CHILD_ENDED && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (end == CHILD_UNWANTED)
        say_unwanted(upgrade);
    else if (copy->written->error)
        say_not_written(upgrade, copy->written->error);
    else if (end == CHILD_TOO_SLOW)
        say(upgrade, LOG_LEVEL_ERROR, "the state was not written after %lld s (upgrade.timeout)",
            (long long)(limit_ns / NS_PER_S));
    else
        say(upgrade, LOG_LEVEL_ERROR,
            "the process that writes the state ended early (memory may be short)");
    return false;
}

/*
 * Rehearses while clients are served. Returns false when that failed, which is said. When no copy
 * of this process can be made, there was no rehearsal; sets *rehearsed_r.
 */
static bool rehearse_ahead(struct upgrade *upgrade, int state_fd, int64_t limit_ns,
                           bool *rehearsed_r)
{
    struct copy copy;
    if (!park_all(upgrade, limit_ns))
        return false;
    make_copy(upgrade, state_fd, &copy);
    go_on(upgrade, true);
    *rehearsed_r = copy.child.pid > 0;
    log_info("upgrade: all threads stood still for %lld ms, to copy the state",
             (long long)(upgrade->pause_ns / NS_PER_MS));
    bool good = !*rehearsed_r ||
                (await_copy(upgrade, &copy, limit_ns) && rehearse(upgrade, state_fd, limit_ns));
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

/* Steps 5 and 6, while all is parked. Returns only after a failure. */
static void take_over(struct upgrade *upgrade, int state_fd, const struct stat *program,
                      bool rehearsed, int64_t limit_ns)
{
    const char *what;
    int64_t by_ns = services_serve_by(upgrade->parts.services, &what), begin_ns = clock_mono_ns();
    if (rehearsed && is_late(upgrade, what, by_ns))
        return;
    if (!write_state(upgrade, state_fd, begin_ns + allowed_ns(by_ns, INT64_MAX))) {
        if (errno == ETIMEDOUT)
            say_late(upgrade, what, by_ns, "writing", clock_mono_ns() - begin_ns);
        return;
    }
    bool good = rehearsed || rehearse(upgrade, state_fd, allowed_ns(by_ns, limit_ns));
    if (!is_late(upgrade, what, by_ns) && good)
        become(upgrade, program, state_fd);
}

/* Steps 2 to 6. Returns only after a failure, when all threads run again, with the last line of the
 * report. */
static void hand_over(struct upgrade *upgrade, int state_fd, char last_r[LAST_ROOM])
{
    int64_t limit_ns = (int64_t)upgrade->parts.settings->upgrade_timeout * NS_PER_S;
    struct stat program = program_now(upgrade);
    bool rehearsed = false;
    upgrade->pause_ns = 0;
    upgrade_back_open(&upgrade->back, upgrade->path);
    if ((!has_room_for_copy() || rehearse_ahead(upgrade, state_fd, limit_ns, &rehearsed)) &&
        park_all(upgrade, limit_ns)) {
        take_over(upgrade, state_fd, &program, rehearsed, limit_ns);
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
        say(upgrade, LOG_LEVEL_ERROR, "can't make a file in memory: %s", strerrordesc_np(errno));
    else if (!*upgrade->path)
        say(upgrade, LOG_LEVEL_ERROR, "the path of the running program is not known");
    if (fd >= 0 && *upgrade->path && has_room(upgrade) && write_state(upgrade, fd, INT64_MAX) &&
        ask(upgrade, UPGRADE_CHECK, fd, CHECK_NS, &checked) && has_room(upgrade))
        hand_over(upgrade, fd, last);
    if (fd >= 0)
        close(fd);
    report(upgrade, last);
    over(arg);
    log_error("upgrade: %s", last);
}

/* --- The new program -------------------------------------------------------------------------- */

static struct protocol *find_protocol(void *arg, const char *name)
{
    return services_protocol(arg, name);
}

/* Reads the sections that say what the state has. */
static bool restore_counts(struct upgrade *upgrade, uint32_t kind, struct record_reader *section)
{
    switch (kind) {
    case UPGRADE_COUNTS:
        upgrade->counts.units = record_get_u64(section);
        upgrade->counts.connections = record_get_u64(section);
        record_leave(section);
        upgrade->has_counts = true;
        return record_ok(section);
    case RECORD_SUM:
        if (upgrade->role == UPGRADE_GO_ON)
            return true; /* better what can be read than nothing */
        upgrade->built.sum = record_get_sum(&upgrade->state, section);
        return record_ok(section);
    default:
        return false;
    }
}

/* Compares what was built with what the state should have. A state of an older program does not say
 * that. */
static bool check_counts(struct upgrade *upgrade, const struct carry *carry)
{
    upgrade->built.counts = count_all(&upgrade->parts);
    upgrade->built.counts.connections = carry->carried;
    const struct upgrade_counts *built = &upgrade->built.counts, *told = &upgrade->counts;
    if (!upgrade->has_counts || same_counts(built, told))
        return true;
    log_error("of %llu units and %llu connections in the state, %llu and %llu were read",
              (unsigned long long)told->units, (unsigned long long)told->connections,
              (unsigned long long)built->units, (unsigned long long)built->connections);
    if (upgrade->role == UPGRADE_GO_ON)
        return true;
    record_refuse(&upgrade->state, "it is not complete");
    return false;
}

/* Reads the remaining sections. */
static bool restore_sections(struct upgrade *upgrade)
{
    struct carry *carry = &upgrade->carry;
    struct record_reader section;
    uint32_t kind;
    struct moment now = clock_now();
    while (record_enter(&upgrade->state, &kind, &section)) {
        if (!restore_counts(upgrade, kind, &section) && !carry_restore(carry, kind, &section) &&
            !services_restore(upgrade->parts.services, now, kind, &section))
            record_unknown(&section, kind);
    }
    if (!record_ok(&upgrade->state) || !carry->begun || !check_counts(upgrade, carry))
        return false;
    carry_done(carry);
    return services_restore_done(upgrade->parts.services, &upgrade->state);
}

/*
 * In a rehearsal, which has all descriptors except those of the connections: true if the limit
 * allows these, the connections and SPARE_DESCRIPTORS together.
 */
static bool descriptors_suffice(const struct upgrade *upgrade, uint32_t connections)
{
    struct rlimit limit;
    int free_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    if (free_fd >= 0)
        close(free_fd);
    if (free_fd < 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return free_fd >= 0;
    const struct sockets sockets = list_sockets(&upgrade->parts);
    uint64_t needed = (uint64_t)free_fd + connections + SPARE_DESCRIPTORS;
    for (size_t i = 0; i < sockets.count; i++)
        needed += sockets.fds[i] >= free_fd;
    if (needed <= limit.rlim_cur)
        return true;
    log_error("%u connections need %llu descriptors, but only %llu are allowed", connections,
              (unsigned long long)needed, (unsigned long long)limit.rlim_cur);
    return false;
}

bool upgrade_restore(struct upgrade *upgrade)
{
    const struct upgrade_parts *parts = &upgrade->parts;
    struct carry *carry = &upgrade->carry;
    *carry = (struct carry){
        .server = parts->server,
        .protocol = find_protocol,
        .arg = parts->services,
        .rehearse = upgrade->role == UPGRADE_REHEARSE,
    };
    int64_t begun_ns = clock_mono_ns();
    bool good = restore_sections(upgrade);
    upgrade->built.read_ns = clock_mono_ns() - begun_ns;
    if (!good)
        log_error("can't restore the state: %s",
                  upgrade->state.why ? upgrade->state.why : "a section is missing");
    if (!good || !carry->rehearse)
        return good;
    table_check(parts->services->table);
    return descriptors_suffice(upgrade, carry->carried);
}

void upgrade_commit(struct upgrade *upgrade)
{
    struct carry *carry = &upgrade->carry;
    uint32_t closed = server_close_tls(upgrade->parts.server) + carry->handshakes;
    carry_drop_handshakes(carry);
    upgrade_back_close(&upgrade->back);
    if (upgrade->state_fd >= 0)
        close(upgrade->state_fd);
    upgrade->state_fd = -1;
    snprintf(upgrade->history.report, sizeof(upgrade->history.report),
             "%u connections were kept, %u closed because they have TLS\n", carry->carried - closed,
             closed);
}

bool upgrade_settings(struct upgrade *upgrade, struct settings *settings)
{
    return upgrade_back_settings(&upgrade->back, settings, stderr);
}

void upgrade_go_back(struct upgrade *upgrade)
{
    struct upgrade_back *back = &upgrade->back;
    if (upgrade->role != UPGRADE_TAKE || back->fd < 0 || upgrade->state_fd < 0)
        return;
    log_error("upgrade: counterd " PACKAGE_VERSION " can't take over: counterd %s goes on again",
              upgrade->version);
    const struct server *server = upgrade->parts.server;
    char **with = environment_with(UPGRADE_GO_ON, upgrade->state_fd);
    upgrade_back_keep(back);
    if (with && fcntl(upgrade->state_fd, F_SETFD, 0) == 0 &&
        (!server || server_keep_descriptors(server, true)))
        fexecve(back->fd, upgrade->argv, with);
    log_error("upgrade: counterd %s can't be executed: %s", upgrade->version,
              strerrordesc_np(errno));
    free_environment(with);
}

bool upgrade_answer(const struct upgrade *upgrade)
{
    struct upgrade_answer answer = upgrade->built;
    snprintf(answer.version, sizeof(answer.version), "%s", PACKAGE_VERSION);
    upgrade_answer_print(stdout, role_words[upgrade->role], &answer);
    return fflush(stdout) == 0 && !ferror(stdout);
}

void upgrade_over(struct upgrade *upgrade)
{
    upgrade->history.pause_ns = clock_mono_ns() - upgrade->parked_ns;
    record_unmap(&upgrade->state); /* not before: it takes 10 ms for a million names */
    upgrade->parked_ns = 0;
    bool done = upgrade->role == UPGRADE_TAKE;
    upgrade->history.done += done;
    upgrade->history.good = done;
    log_info("upgrade: %.*s", (int)strcspn(upgrade->history.report, "\n"), upgrade->history.report);
    if (!done) {
        say(upgrade, LOG_LEVEL_ERROR,
            "counterd " PACKAGE_VERSION
            " goes on as before, because the new program could not take "
            "over (the log says why); nobody was served for %lld ms",
            (long long)(upgrade->history.pause_ns / NS_PER_MS));
        return;
    }
    say(upgrade, LOG_LEVEL_INFO,
        "counterd " PACKAGE_VERSION " has taken over from %s; nobody was served for %lld ms",
        upgrade->version, (long long)(upgrade->history.pause_ns / NS_PER_MS));
}
