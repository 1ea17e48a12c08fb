/*
 * upgrade_take.c - see upgrade.h. The side of the new program: it finds its role, and builds all
 * from the state that the old one wrote (upgrade.c).
 */
#include "config.h"

#include "base/log.h"
#include "base/number.h"
#include "daemon/upgrade_internal.h"
#include "net/carry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Descriptors that the start needs briefly after the connections are restored: the password file.
 */
#define SPARE_DESCRIPTORS 2

const char *const upgrade_roles[] = {
    [UPGRADE_NONE] = "",     [UPGRADE_CHECK] = "check", [UPGRADE_DRY_RUN] = "rehearse",
    [UPGRADE_TAKE] = "take", [UPGRADE_GO_ON] = "go-on",
};

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

/* Parses "ROLE FD", the value of the environment variable. */
static bool read_variable(const char *text, enum upgrade_role *role_r, int *fd_r)
{
    for (enum upgrade_role role = UPGRADE_CHECK; role <= UPGRADE_GO_ON; role++) {
        size_t len = strlen(upgrade_roles[role]);
        if (strncmp(text, upgrade_roles[role], len) != 0 || text[len] != ' ')
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

char **upgrade_environment(enum upgrade_role role, int fd)
{
    size_t count = 0;
    while (environ[count])
        count++;
    char **with = calloc(count + 2, sizeof(*with));
    if (!with || asprintf(&with[0], "%s=%s %d", UPGRADE_VARIABLE, upgrade_roles[role], fd) < 0) {
        free(with);
        return NULL;
    }
    memcpy(with + 1, environ, count * sizeof(*with));
    return with;
}

void upgrade_free_environment(char **with)
{
    if (with)
        free(with[0]);
    free(with);
}

struct upgrade_sockets upgrade_sockets(const struct upgrade_parts *parts)
{
    const struct listeners *listeners = parts->listeners;
    struct upgrade_sockets sockets = {.count = 0};
    for (size_t i = 0; i < listeners->count; i++)
        sockets.fds[sockets.count++] = listeners->at[i].fd;
    for (size_t i = 0; i < listeners->admin_count; i++)
        sockets.fds[sockets.count++] = listeners->admin[i].fd;
    return sockets;
}

struct upgrade_counts upgrade_count(const struct upgrade_parts *parts)
{
    struct upgrade_counts counts = {0};
    struct table_stats stats;
    table_get_stats(parts->services->table, clock_now(), &stats);
    counts.units = stats.units;
    for (unsigned i = 0; i < parts->server->count; i++)
        counts.connections += worker_connections(parts->server->workers[i]);
    return counts;
}

bool upgrade_same_counts(const struct upgrade_counts *a, const struct upgrade_counts *b)
{
    return a->units == b->units && a->connections == b->connections;
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
    upgrade->paused_ns = record_get_i64(&section);
    upgrade->history.tried = record_get_u32(&section);
    upgrade->history.done = record_get_u32(&section);
    if (upgrade->role != UPGRADE_CHECK)
        inherited_restore(&upgrade->inherited, &upgrade->activation, upgrade->role == UPGRADE_GO_ON,
                          &section);
    upgrade->inherited.exists = true;
    upgrade->inherited.dry_run = upgrade->role == UPGRADE_DRY_RUN;
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
    upgrade->built.counts = upgrade_count(&upgrade->parts);
    upgrade->built.counts.connections = carry->carried;
    const struct upgrade_counts *built = &upgrade->built.counts, *told = &upgrade->counts;
    if (!upgrade->has_counts || upgrade_same_counts(built, told))
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
 * In a dry run, which has all descriptors except those of the connections: true if the limit
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
    const struct upgrade_sockets sockets = upgrade_sockets(&upgrade->parts);
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
        .dry_run = upgrade->role == UPGRADE_DRY_RUN,
    };
    int64_t begun_ns = clock_mono_ns();
    bool good = restore_sections(upgrade);
    upgrade->built.read_ns = clock_mono_ns() - begun_ns;
    if (!good)
        log_error("can't restore the state: %s",
                  upgrade->state.why ? upgrade->state.why : "a section is missing");
    if (!good || !carry->dry_run)
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
    char **with = upgrade_environment(UPGRADE_GO_ON, upgrade->state_fd);
    upgrade_back_keep(back);
    if (with && fcntl(upgrade->state_fd, F_SETFD, 0) == 0 &&
        (!server || server_keep_descriptors(server, true)))
        fexecve(back->fd, upgrade->argv, with);
    log_error("upgrade: counterd %s can't be executed: %s", upgrade->version,
              strerrordesc_np(errno));
    upgrade_free_environment(with);
}

bool upgrade_answer(const struct upgrade *upgrade)
{
    struct upgrade_answer answer = upgrade->built;
    snprintf(answer.version, sizeof(answer.version), "%s", PACKAGE_VERSION);
    upgrade_answer_print(stdout, upgrade_roles[upgrade->role], &answer);
    return fflush(stdout) == 0 && !ferror(stdout);
}

void upgrade_over(struct upgrade *upgrade)
{
    upgrade->history.pause_ns = clock_mono_ns() - upgrade->paused_ns;
    record_unmap(&upgrade->state); /* not before: it takes 10 ms for a million names */
    upgrade->paused_ns = 0;
    bool done = upgrade->role == UPGRADE_TAKE;
    upgrade->history.done += done;
    upgrade->history.good = done;
    log_info("upgrade: %.*s", (int)strcspn(upgrade->history.report, "\n"), upgrade->history.report);
    if (!done) {
        upgrade_say(upgrade,
                    "counterd " PACKAGE_VERSION
                    " goes on as before, because the new program could not take "
                    "over (the log says why); nobody was served for %lld ms",
                    (long long)(upgrade->history.pause_ns / NS_PER_MS));
        return;
    }
    upgrade_say(upgrade,
                "counterd " PACKAGE_VERSION
                " has taken over from %s; nobody was served for %lld ms",
                upgrade->version, (long long)(upgrade->history.pause_ns / NS_PER_MS));
}
