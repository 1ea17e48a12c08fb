/*
 * sandbox_test.c - the rights that the main thread gives up, also after execve; and for each kind
 * of sandboxed thread what it may do, what is refused and what kills it. Each test runs in its own
 * process, because nothing of this can be undone.
 */
#include "daemon/sandbox.c" /* the test of the filter as text looks inside */

#include "cluster/location.h"
#include "daemon/landlock.h"
#include "net/lookup.h"
#include "net/reactor.h"
#include "t/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs `act` in a child; returns the child's exit status, or minus the signal that killed it. */
static int end_of(int (*act)(void))
{
    int status;
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        _exit(act());
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* Prepares for the threads that every daemon has. */
static bool prepare(char *reason_r)
{
    const struct sandbox *all[] = {&thread_serves};
    return sandbox_prepare(all, ARRAY_SIZE(all), reason_r);
}

/* True if the kernel and this build have filters; the caller skips its test if not. */
static bool can(void)
{
    char reason[SANDBOX_REASON_SIZE] = "";
    bool good = prepare(reason);
    ck_assert(good == (*reason == '\0'));
    return good;
}

/* ---- the main thread ------------------------------------------------------------------------- */

static int may_read_files_and_run_programs(void)
{
    char reason[SANDBOX_REASON_SIZE];
    if (!prepare(reason) || !sandbox_enter())
        return 1;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) < 0)
        return 2;
    execl("/bin/sh", "sh", "-c", "exec 3</dev/null && exit 42", (char *)NULL);
    return 3;
}

static int is_refused_what_no_daemon_does(void)
{
    char reason[SANDBOX_REASON_SIZE];
    if (!prepare(reason) || !sandbox_enter())
        return 1;
    if (ptrace(PTRACE_TRACEME, 0, 0, 0) != -1 || errno != EPERM)
        return 2;
    errno = 0;
    if (mount("none", "/", NULL, MS_REMOUNT | MS_BIND, NULL) != -1 || errno != EPERM)
        return 3;
    errno = 0;
    return syscall(SYS_keyctl, 0, 0, 0) == -1 && errno == EPERM ? 42 : 4;
}

/* The number of this thread's filters; -1 if the kernel does not tell. */
static int filters(void)
{
    char line[256];
    int count = -1;
    FILE *file = fopen("/proc/thread-self/status", "re");
    while (file && fgets(line, sizeof line, file))
        (void)sscanf(line, "Seccomp_filters: %d", &count);
    if (file)
        fclose(file);
    return count;
}

/* Acts like a sandboxed daemon that executes a new binary: its filters must not pile up. */
static int enters_once(void)
{
    char reason[SANDBOX_REASON_SIZE];
    int before = filters();
    if (before < 0)
        return 42;
    for (int i = 0; i < 3; i++)
        if (!prepare(reason) || !sandbox_enter())
            return 1;
    return filters() == before + 1 ? 42 : 2;
}

TEST(the_main_thread_keeps_what_it_needs)
{
    if (!can())
        return;
    ck_assert_int_eq(end_of(may_read_files_and_run_programs), 42);
    ck_assert_int_eq(end_of(is_refused_what_no_daemon_does), 42);
    ck_assert_int_eq(end_of(enters_once), 42);
}

/* ---- sandboxed threads ----------------------------------------------------------------------- */

/* A folder where threads may write, one where they may not, and existing listeners. */
static char folder[] = "/tmp/sandbox_test.XXXXXX", elsewhere[] = "/tmp/sandbox_test.XXXXXX";
static const char *const folders[] = {folder, NULL};
static struct sockaddr_in tcp_place;
static struct sockaddr_un unix_place;
static int open_file = -1; /* in the folder */

/* One thread of each kind. */
static const struct sandbox store = {.name = "store", .writes = folders},
                            link_ = {.name = "link", .connects = true, .reads = lookup_reads},
                            blind = {.name = "blind", .connects = true};

/* The path of a file in a folder. */
static const char *in(const char *where, const char *name)
{
    static _Thread_local char paths[2][64];
    static _Thread_local unsigned at;
    char *path = paths[at++ % 2];
    snprintf(path, sizeof paths[0], "%s/%s", where, name);
    return path;
}

static void make_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "text", 4), 4);
    close(fd);
}

static int listen_at(const void *at, socklen_t len, sa_family_t family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert(fd >= 0 && bind(fd, at, len) == 0 && listen(fd, 8) == 0);
    return fd;
}

static void set_up(void)
{
    socklen_t len = sizeof tcp_place;
    ck_assert(mkdtemp(folder) && mkdtemp(elsewhere));
    make_file(in(folder, "file"));
    make_file(in(elsewhere, "file"));
    open_file = open(in(folder, "file"), O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(open_file, 0);
    tcp_place = (struct sockaddr_in){.sin_family = AF_INET};
    tcp_place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = listen_at(&tcp_place, sizeof tcp_place, AF_INET);
    ck_assert(getsockname(fd, (struct sockaddr *)&tcp_place, &len) == 0);
    unix_place = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(unix_place.sun_path, sizeof unix_place.sun_path, "%s", in(folder, "socket"));
    (void)listen_at(&unix_place, sizeof unix_place, AF_UNIX);
}

static void tear_down(void)
{
    (void)unlink(in(folder, "socket"));
    (void)unlink(in(folder, "file"));
    (void)unlink(in(elsewhere, "file"));
    ck_assert_int_eq(rmdir(folder), 0);
    ck_assert_int_eq(rmdir(elsewhere), 0);
}

/* Exit statuses of the test's process, apart from the result of what it tries. */
enum { NOT_PREPARED = 200, NOT_STARTED, ALL_CONFINED, LEAKED };

static const struct sandbox *sandboxed_to;
static int (*act_sandboxed)(void);
static void (*meanwhile)(void); /* of the main thread; or NULL */

static void act(void *arg)
{
    int *result = arg;
    *result = act_sandboxed();
}

static unsigned descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 64; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Runs `act_sandboxed` in a sandboxed thread; the process survives if that does. */
static int in_thread(void)
{
    char reason[SANDBOX_REASON_SIZE];
    struct thread thread;
    int result;
    if (!sandbox_prepare(&sandboxed_to, 1, reason) || !sandbox_enter())
        return NOT_PREPARED;
    unsigned had = descriptors();
    if (!thread_make(&thread, "sandboxed", sandbox_apply, sandboxed_to, act, &result))
        return NOT_STARTED;
    if (descriptors() != had)
        return LEAKED;
    thread_resume(&thread);
    if (meanwhile)
        meanwhile();
    thread_end(&thread);
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC); /* only that thread is sandboxed */
    return fd < 0 ? ALL_CONFINED : result;
}

static int end_sandboxed(const struct sandbox *to, int (*does)(void))
{
    sandboxed_to = to;
    act_sandboxed = does;
    return end_of(in_thread);
}

/* ---- attempts -------------------------------------------------------------------------------- */

/* Uses a file like a database library. */
static bool keeps_records(void)
{
    char byte = 'x';
    int fd = open(in(folder, "new"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, 8192) != 0 || pwrite(fd, &byte, 1, 4096) != 1)
        return false;
    void *shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED)
        return false;
    memset(shared, 'y', 4096);
    if (pread(fd, &byte, 1, 1) != 1 || byte != 'y' || fsync(fd) != 0 || fdatasync(fd) != 0)
        return false;
    return fchmod(fd, 0640) == 0 && close(fd) == 0 &&
           rename(in(folder, "new"), in(folder, "newer")) == 0 && unlink(in(folder, "newer")) == 0;
}

static bool connects(const void *to, socklen_t len, sa_family_t family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1, error = 1;
    socklen_t error_len = sizeof error;
    if (fd < 0 || connect(fd, to, len) != 0)
        return false;
    if (family == AF_INET && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) != 0)
        return false;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_len) == 0 && error == 0 &&
           write(fd, "x", 1) == 1;
}

static bool starts_process(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    return child > 0;
}

static void *nothing(void *arg)
{
    return arg;
}

/* For a link-local address the C library asks a socket for the interface's name: that is refused,
 * and the result has a number. */
static bool names_address(void)
{
    char host[NI_MAXHOST];
    struct sockaddr_in6 of = {.sin6_family = AF_INET6, .sin6_scope_id = 1};
    return inet_pton(AF_INET6, "fe80::1", &of.sin6_addr) == 1 &&
           getnameinfo((struct sockaddr *)&of, sizeof of, host, sizeof host, NULL, 0,
                       NI_NUMERICHOST) == 0;
}

/* Takes so much memory in small pieces that the C library trims its heap when they are free; it
 * reads the kernel's overcommit setting then. */
static bool gives_memory_back(void)
{
    char *pieces[200];
    for (size_t i = 0; i < ARRAY_SIZE(pieces); i++)
        pieces[i] = memset(malloc((size_t)50 << 10), 1, (size_t)50 << 10);
    for (size_t i = ARRAY_SIZE(pieces); i > 0; i--)
        free(pieces[i - 1]);
    return true;
}

static bool fails_check(void)
{
    CHECK(getpid() == 0);
    return true;
}

static bool opens(const char *path, int flags)
{
    return open(path, flags | O_CLOEXEC, 0600) >= 0;
}

/* Opens by the call that some C libraries make; newer machines have no such call. */
static bool opens_by_old_call(const char *path)
{
#ifdef SYS_open
    return syscall(SYS_open, path, O_RDONLY | O_CLOEXEC) >= 0;
#else
    return opens(path, O_RDONLY);
#endif
}

enum { DONE = 0, KILLED = -SIGSYS };

/*
 * What is tried; its result in each kind of thread, one that serves, one that writes files, and one
 * that connects; and an expression that is true if it goes well. A filter decides by the call
 * alone, so -1 does as a socket. The last of those of files removes it. Reading a limit is allowed;
 * a request that sets one is refused, and does not kill.
 */
#define TRIES(TRY)                                                                                 \
    /* files */                                                                                    \
    TRY(read_inside, KILLED, DONE, EACCES, opens(in(folder, "file"), O_RDONLY))                    \
    TRY(read_by_old_call, KILLED, DONE, EACCES, opens_by_old_call(in(folder, "file")))             \
    TRY(read_hosts, KILLED, EACCES, DONE, opens("/etc/hosts", O_RDONLY))                           \
    TRY(read_elsewhere, KILLED, EACCES, EACCES, opens(in(elsewhere, "file"), O_RDONLY))            \
    TRY(make_inside, KILLED, DONE, KILLED, opens(in(folder, "file"), O_RDWR | O_CREAT))            \
    TRY(make_elsewhere, KILLED, EACCES, KILLED, opens(in(elsewhere, "new"), O_RDWR | O_CREAT))     \
    TRY(write_elsewhere, KILLED, EACCES, KILLED, opens(in(elsewhere, "file"), O_WRONLY))           \
    TRY(make_to_read, KILLED, DONE, KILLED, opens(in(folder, "file"), O_RDONLY | O_CREAT))         \
    TRY(empty_to_read, KILLED, DONE, KILLED, opens(in(folder, "file"), O_RDONLY | O_TRUNC))        \
    TRY(keep_records, KILLED, DONE, KILLED, keeps_records())                                       \
    TRY(lock_file, ENOSYS, DONE, ENOSYS,                                                           \
        fcntl(open_file, F_SETLK, &(struct flock){.l_type = F_WRLCK, .l_len = 1}) == 0)            \
    TRY(write_open_file, DONE, DONE, DONE, write(open_file, "t", 1) == 1)                          \
    TRY(cut_open_file, ENOSYS, DONE, ENOSYS, ftruncate(open_file, 1) == 0)                         \
    TRY(remove_elsewhere, KILLED, EACCES, KILLED, unlink(in(elsewhere, "file")) == 0)              \
    TRY(move_out, KILLED, EACCES, KILLED, rename(in(folder, "file"), in(elsewhere, "new")) == 0)   \
    TRY(link_in, KILLED, KILLED, KILLED, link(in(elsewhere, "file"), in(folder, "new")) == 0)      \
    TRY(make_folder, KILLED, KILLED, KILLED, mkdir(in(folder, "new"), 0700) == 0)                  \
    TRY(give_file_away, KILLED, KILLED, KILLED, chmod(in(folder, "file"), 0604) == 0)              \
    TRY(tell_file_by_path, ENOSYS, DONE, DONE, stat(in(folder, "file"), &(struct stat){0}) == 0)   \
    TRY(remove_file, KILLED, DONE, KILLED, unlink(in(folder, "file")) == 0)                        \
    /* the network */                                                                              \
    TRY(open_stream, KILLED, KILLED, DONE, socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0) >= 0)   \
    TRY(open_datagram, EACCES, EACCES, DONE, socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0) >= 0)  \
    TRY(open_raw, KILLED, KILLED, ENOSYS, socket(AF_INET, SOCK_RAW, 1) >= 0)                       \
    TRY(connect_tcp, KILLED, KILLED, DONE, connects(&tcp_place, sizeof tcp_place, AF_INET))        \
    TRY(connect_unix, KILLED, KILLED, DONE, connects(&unix_place, sizeof unix_place, AF_UNIX))     \
    TRY(connect_nothing, KILLED, KILLED, EBADF,                                                    \
        connect(-1, (struct sockaddr *)&tcp_place, sizeof tcp_place) == 0)                         \
    TRY(send_to_address, KILLED, KILLED, EBADF, sendto(-1, "x", 1, MSG_FASTOPEN, NULL, 0) == 1)    \
    TRY(send_descriptor, KILLED, KILLED, KILLED, sendmsg(-1, &(struct msghdr){0}, 0) == 0)         \
    TRY(send_descriptors, KILLED, KILLED, KILLED, sendmmsg(-1, &(struct mmsghdr){0}, 1, 0) == 0)   \
    TRY(take_descriptor, ENOSYS, ENOSYS, ENOSYS, recvmsg(-1, &(struct msghdr){0}, 0) == 0)         \
    TRY(bind_socket, KILLED, KILLED, KILLED,                                                       \
        bind(-1, (struct sockaddr *)&tcp_place, sizeof tcp_place) == 0)                            \
    TRY(listen_on, KILLED, KILLED, KILLED, listen(-1, 1) == 0)                                     \
    TRY(accept_one, EBADF, KILLED, KILLED, accept4(-1, NULL, NULL, SOCK_CLOEXEC) >= 0)             \
    TRY(stop_listening, KILLED, KILLED, KILLED, shutdown(-1, SHUT_RD) == 0)                        \
    TRY(finish_sending, EBADF, EBADF, EBADF, shutdown(-1, SHUT_WR) == 0)                           \
    /* processes */                                                                                \
    TRY(start_process, KILLED, KILLED, KILLED, starts_process())                                   \
    TRY(start_program, KILLED, KILLED, KILLED, execl("/bin/true", "true", (char *)NULL) == 0)      \
    TRY(make_code, KILLED, KILLED, KILLED,                                                         \
        mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) \
    TRY(signal_parent, KILLED, KILLED, KILLED, kill(getppid(), 0) == 0)                            \
    TRY(signal_main_thread, KILLED, KILLED, KILLED,                                                \
        syscall(SYS_tgkill, getpid(), getpid(), SIGUSR1) == 0)                                     \
    TRY(change_limit, ENOSYS, ENOSYS, ENOSYS,                                                      \
        syscall(SYS_prlimit64, 0, 7, "01234567012345670", NULL) == 0)                              \
    TRY(ask_limit, DONE, DONE, DONE,                                                               \
        syscall(SYS_prlimit64, 0, 7, NULL, (unsigned long[2]){0}) == 0)                            \
    TRY(protect_code, KILLED, KILLED, KILLED,                                                      \
        mprotect((void *)((uintptr_t)folder & ~(uintptr_t)4095), 1, PROT_EXEC) == 0)               \
    TRY(start_thread, KILLED, KILLED, KILLED,                                                      \
        pthread_create(&(pthread_t){0}, NULL, nothing, NULL) == 0)                                 \
    TRY(trace_parent, KILLED, KILLED, KILLED, ptrace(PTRACE_PEEKUSER, getppid(), 0, 0) == 0)       \
    /* what libraries do */                                                                        \
    TRY(call_unknown, ENOSYS, ENOSYS, ENOSYS, syscall(100000) == 0)                                \
    TRY(name_address, DONE, DONE, DONE, names_address())                                           \
    TRY(give_memory_back, DONE, DONE, DONE, gives_memory_back())                                   \
    TRY(fail_check, -SIGABRT, -SIGABRT, -SIGABRT, fails_check())                                   \
    TRY(die_by_own_hand, -SIGABRT, -SIGABRT, -SIGABRT, (abort(), true))

/* An attempt: returns 0, or the error number. */
#define FUNCTION(name, serves, store, link, ...)                                                   \
    static int name(void)                                                                          \
    {                                                                                              \
        return (__VA_ARGS__) ? 0 : errno;                                                          \
    }
TRIES(FUNCTION)

#define ROW(name, serves, store, link, ...) {#name, name, serves, store, link},
static const struct {
    const char *what;
    int (*does)(void);
    int serves, store, link_;
} tries[] = {TRIES(ROW)};

/* True if the kernel has Landlock; without it the tests skip what only Landlock refuses. */
static bool has_landlock(void)
{
    bool has = landlock_exists();
    if (!has)
        printf("# the kernel has no Landlock: which files a thread opens is not tested: %s\n",
               strerrordesc_np(errno));
    return has;
}

static void assert_tries(const struct sandbox *to, size_t i, int wanted, bool landlocked)
{
    bool by_landlock =
        (to->reads || to->writes) && wanted == EACCES && tries[i].does != open_datagram;
    if (by_landlock && !landlocked)
        return;
    int got = end_sandboxed(to, tries[i].does);
    ck_assert_msg(got == wanted, "%s: %s: %d instead of %d", to->name, tries[i].what, got, wanted);
}

TEST(each_kind_of_thread_may_do_its_own_and_nothing_else)
{
    if (!can())
        return;
    bool landlocked = has_landlock();
    set_up();
    for (size_t i = 0; i < ARRAY_SIZE(tries); i++) {
        assert_tries(&thread_serves, i, tries[i].serves, landlocked);
        assert_tries(&link_, i, tries[i].link_, landlocked);
        assert_tries(&store, i, tries[i].store, landlocked);
    }
    ck_assert_int_eq(end_sandboxed(&blind, connect_tcp), DONE); /* who connects need not read */
    ck_assert_int_eq(end_sandboxed(&blind, read_hosts), KILLED);
    tear_down();
}

static struct location own_place;

static int judge_processes(void)
{
    struct location other = own_place;
    if (location_is_gone(&own_place, bytes_of(own_place.text)))
        return 1;
    /* The same pid, another start. */
    strcpy(strrchr(other.text, '/'), "/1");
    if (own_place.knows_starts && !location_is_gone(&own_place, bytes_of(other.text)))
        return 2;
    strcpy(other.text + own_place.mine_len, "2000000000/1"); /* a pid that no process has */
    return location_is_gone(&own_place, bytes_of(other.text)) ? DONE : 3;
}

TEST(who_connects_can_judge_processes)
{
    static const struct sandbox node = {.name = "node", .connects = true, .reads = location_reads};
    if (!can())
        return;
    location_read(&own_place);
    ck_assert_int_eq(end_sandboxed(&node, judge_processes), DONE);
}

/*
 * Looks up one name from the hosts file and one from a server; c-ares makes different calls for
 * them.
 */
static void on_progress(void *arg)
{
    (void)arg;
}

static struct reactor reactor;

static int look_names_up(void)
{
    struct loop *loop = reactor.loop;
    struct lookup *known = lookup_start(loop, "localhost", 1, NS_PER_S, NULL, on_progress, NULL);
    struct lookup *asked =
        lookup_start(loop, "a.test", 1, NS_PER_S, "127.0.0.1:9", on_progress, NULL);
    int result = !known || lookup_result(known)->state != LOOKUP_FOUND ? 1 : !asked ? 2 : 0;
    lookup_free(&known);
    lookup_free(&asked);
    return result;
}

TEST(who_connects_can_look_names_up)
{
    if (!can())
        return;
    ck_assert(reactor_init(&reactor, &reactor_default));
    ck_assert_int_eq(end_sandboxed(&link_, look_names_up), DONE);
    reactor_free(&reactor);
}

static atomic_bool replaced;

/* In the sandboxed thread: reads after the file was replaced. */
static int read_anew(void)
{
    while (!replaced)
        sched_yield();
    return open(in(elsewhere, "link"), O_RDONLY | O_CLOEXEC) < 0 ||
                   open("/dev/null", O_RDONLY | O_CLOEXEC) < 0
               ? errno
               : 0;
}

static void replace_file(void)
{
    make_file(in(folder, "new"));
    (void)rename(in(folder, "new"), in(folder, "file"));
    replaced = true;
}

/* A thread may read a file through a symbolic link, like resolv.conf. Another file takes that one's
 * place; the thread must be able to read it, too. */
TEST(a_file_that_is_replaced_can_still_be_read)
{
    static const char *reads[] = {NULL, "/dev/null", "/no/such/file", NULL};
    static const struct sandbox reader = {.name = "reader", .reads = reads};
    if (!can())
        return;
    set_up();
    reads[0] = strdup(in(elsewhere, "link"));
    ck_assert_int_eq(symlink(in(folder, "file"), reads[0]), 0);
    meanwhile = replace_file;
    ck_assert_int_eq(end_sandboxed(&reader, read_anew), DONE);
    (void)unlink(reads[0]);
    tear_down();
}

TEST(without_its_folder_a_thread_that_writes_does_not_start)
{
    static const char *const missing[] = {"/no/such/folder", NULL};
    static const struct sandbox lost = {.name = "lost", .writes = missing};
    if (!can() || !has_landlock())
        return;
    ck_assert_int_eq(end_sandboxed(&lost, make_inside), NOT_STARTED);
}

/* Simulates a kernel without Landlock; logs to a file. */
static int write_without_landlock(void)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_landlock_create_ruleset, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = ARRAY_SIZE(steps), .filter = steps};
    char said[512] = "";
    int log = open(in(elsewhere, "file"), O_RDWR | O_TRUNC | O_CLOEXEC);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0 || dup2(log, STDERR_FILENO) < 0)
        return NOT_PREPARED;
    int result = in_thread();
    return pread(log, said, sizeof said - 1, 0) > 0 &&
                   strstr(said,
                          "may use all files that the daemon's user may, because the kernel has "
                          "no Landlock: Function not implemented")
               ? result
               : ALL_CONFINED;
}

TEST(without_landlock_the_log_says_so_and_calls_are_limited_still)
{
    if (!can())
        return;
    set_up();
    sandboxed_to = &store;
    act_sandboxed = make_elsewhere;
    ck_assert_int_eq(end_of(write_without_landlock), DONE);
    act_sandboxed = open_stream;
    ck_assert_int_eq(end_of(write_without_landlock), KILLED);
    (void)unlink(in(elsewhere, "new"));
    tear_down();
}

/* ---- the filter as text ---------------------------------------------------------------------- */

#ifdef HAVE_SECCOMP
TEST(what_requests_consist_of_has_no_conditions)
{
    static const char *const calls[] = {"read",       "recvfrom",    "write",        "writev",
                                        "epoll_wait", "epoll_pwait", "epoll_pwait2", "epoll_ctl",
                                        "close",      "futex"};
    static const struct sandbox *const all[] = {&thread_serves, &store, &link_, &blind};
    static char filter[1 << 16];
    if (!can())
        return;
    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        FILE *file = tmpfile();
        ck_assert_ptr_nonnull(file);
        int error;
        scmp_filter_ctx ctx = make_filter(STRICT_OTHERWISE, add_strict, rights_of(all[i]), &error);
        ck_assert(error == 0 && seccomp_export_pfc(ctx, fileno(file)) == 0);
        seccomp_release(ctx);
        rewind(file);
        filter[fread(filter, 1, sizeof filter - 1, file)] = '\0';
        fclose(file);
        for (size_t j = 0; j < ARRAY_SIZE(calls); j++) {
            char head[64];
            snprintf(head, sizeof head, "# filter for syscall \"%s\"", calls[j]);
            char *rules = strstr(filter, head), *end = rules ? strstr(rules + 1, "# ") : NULL;
            ck_assert_msg(end, "no rule for %s", calls[j]);
            *end = '\0';
            ck_assert_msg(strstr(rules, "action ALLOW") && !strstr(rules, "$a"), "%s", rules);
            *end = '#';
        }
    }
}
#endif

UNIT_MAIN("daemon/sandbox")
