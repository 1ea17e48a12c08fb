/*
 * sandbox.c - see sandbox.h.
 *
 * libseccomp makes each filter once, as a program in memory; a thread installs it with one system
 * call. The kernel keeps a bitmap of calls that are allowed with any arguments (since Linux 5.11),
 * and skips the filter for them. So the calls that requests need have no conditions.
 *
 * Libraries open files at their first use of some functions. Threads that may not open files need
 * that done before:
 * - the C library reads the time zone when it first formats a time (log_open does that), reads the
 *   overcommit setting when it first shrinks a thread's heap (shrink_heap), and newer versions
 * count the cores when there are many arenas (mallopt);
 * - the JSON library reads /dev/urandom for its first object (admin_new); OpenSSL reads its
 *   configuration for its first random byte (the key of the table);
 * - admin_new opens /proc/self for the metrics and keeps it (admin/process.h); log_open opens
 *   syslog's socket, and only the main thread reconnects it (log_renew).
 *
 * Some calls return an error and do not end the process, because libraries make them and handle the
 * error: a datagram socket, which getnameinfo uses to name the interface of a link-local address;
 * newfstatat, which some C libraries use for fstat (admin/process.c avoids it), and which could
 * look at any file because a filter can't see its path; and fchown, which SQLite calls as root.
 * tgkill is allowed only for the SIGABRT of a failed check, with this process as its target.
 *
 * Output uses write and writev, which take no address and no descriptors. Only c-ares, in a thread
 * that connects, uses sendto. No thread may use sendmsg and recvmsg, which can pass descriptors.
 *
 * A filter depends only on the rights (enum right), so threads with the same rights share it.
 * Landlock restricts each thread to its own folders (landlock.h).
 */
#include "config.h"

#include "daemon/sandbox.h"

#include "base/log.h"
#include "daemon/landlock.h"

#include <errno.h>
#include <linux/capability.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef HAVE_SECCOMP
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#endif

/* A sanitizer maps memory, opens files and executes programs at any time in any thread. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IN_SANITIZER true
#else
#define IN_SANITIZER false
#endif

/* ---- rights ---------------------------------------------------------------------------------- */

/*
 * Drops all capabilities of this thread, also those that execve would restore. Returns early if
 * there are none, because a service unit may forbid capset.
 */
static bool drop_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3], none[_LINUX_CAPABILITY_U32S_3];
    memset(has, 0, sizeof(has));
    memset(none, 0, sizeof(none));
    /* EINVAL: an old kernel without ambient capabilities. */
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 && errno != EINVAL)
        return false;
    if (syscall(SYS_capget, &head, has) == 0 && memcmp(has, none, sizeof(has)) == 0)
        return true;
    return syscall(SYS_capset, &head, none) == 0;
}

#ifdef HAVE_SECCOMP

/* libseccomp's macros leave fields out, and clang warns about it. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

/* ---- lists ----------------------------------------------------------------------------------- */

#define CALL(name) SCMP_SYS(name)

/* Rights of a thread beyond those of all threads (struct sandbox). */
enum right {
    ACCEPTS = 1,
    CONNECTS = 2,
    READS = 4,
    WRITES = 8,
    RIGHTS_ALL = 15,
    ALWAYS = 16, /* every thread has it */
};

/* Allowed in every thread, with any arguments. */
static const int always_allowed[] = {
    /* requests */
    CALL(read), CALL(readv), CALL(recvfrom), CALL(recv), CALL(write), CALL(writev),
    CALL(epoll_wait), CALL(epoll_pwait), CALL(epoll_pwait2), CALL(epoll_ctl), CALL(close),
    CALL(futex), CALL(poll), CALL(ppoll), CALL(getsockopt), CALL(getsockname), CALL(getpeername),
    /* files kept open for the metrics */
    CALL(pread64), CALL(lseek), CALL(_llseek), CALL(getdents64), CALL(fstat), CALL(fstat64),
    CALL(uname),
    /* statistics of the job queues */
    CALL(getrusage),
    /* memory; mmap and mprotect have conditions (add_memory) */
    CALL(brk), CALL(munmap), CALL(mremap), CALL(madvise),
    /* time */
    CALL(clock_gettime), CALL(clock_gettime64), CALL(clock_getres), CALL(clock_nanosleep),
    CALL(nanosleep), CALL(gettimeofday), CALL(time),
    /* the C library, for threads, signals, random bytes and itself */
    CALL(rt_sigaction), CALL(rt_sigprocmask), CALL(rt_sigreturn), CALL(sigreturn),
    CALL(sigaltstack), CALL(restart_syscall), CALL(sched_yield), CALL(sched_getaffinity),
    CALL(getcpu), CALL(getrandom), CALL(getpid), CALL(gettid), CALL(getuid), CALL(geteuid),
    CALL(getgid), CALL(getegid), CALL(getrlimit), CALL(sysinfo), CALL(membarrier), CALL(rseq),
    CALL(set_robust_list), CALL(exit), CALL(exit_group)};

static const int accepting[] = {CALL(accept), CALL(accept4)};

static const int connecting[] = {CALL(connect), CALL(send), CALL(sendto)};

static const int opening[] = {CALL(open), CALL(openat)};

/* Calls of libraries to find a file and read its status. */
static const int looking[] = {
    CALL(stat),      CALL(lstat),      CALL(stat64), CALL(lstat64),   CALL(newfstatat),
    CALL(fstatat64), CALL(statx),      CALL(access), CALL(faccessat), CALL(faccessat2),
    CALL(readlink),  CALL(readlinkat), CALL(getcwd), CALL(fadvise64), CALL(fadvise64_64),
};

static const int writing[] = {
    CALL(pwrite64), CALL(pwritev),   CALL(ftruncate),       CALL(ftruncate64),      CALL(fallocate),
    CALL(fsync),    CALL(fdatasync), CALL(sync_file_range), CALL(sync_file_range2), CALL(unlink),
    CALL(unlinkat), CALL(rename),    CALL(renameat),        CALL(renameat2),        CALL(fchmod),
};

static const int owning[] = {CALL(fchown), CALL(fchown32)};

/* The action for calls, with any arguments, in a thread that has one of these rights. */
static const struct group {
    unsigned rights;
    uint32_t action;
    const int *calls;
    size_t count;
} groups[] = {
    {ALWAYS, SCMP_ACT_ALLOW, always_allowed, ARRAY_SIZE(always_allowed)},
    {ACCEPTS, SCMP_ACT_ALLOW, accepting, ARRAY_SIZE(accepting)},
    {CONNECTS, SCMP_ACT_ALLOW, connecting, ARRAY_SIZE(connecting)},
    {READS | WRITES, SCMP_ACT_ALLOW, looking, ARRAY_SIZE(looking)},
    {WRITES, SCMP_ACT_ALLOW, writing, ARRAY_SIZE(writing)},
    {WRITES, SCMP_ACT_ERRNO(EPERM), owning, ARRAY_SIZE(owning)},
};

/*
 * Calls that end the process, unless a group above has them. Without socketcall, which some
 * machines use for all socket calls: libseccomp makes rules for its first argument from the rules
 * for accept4, connect and so on.
 */
static const int strict_killing[] = {
    /* files */
    CALL(openat2), CALL(creat), CALL(open_by_handle_at), CALL(memfd_create), CALL(unlink),
    CALL(unlinkat), CALL(rename), CALL(renameat), CALL(renameat2), CALL(link), CALL(linkat),
    CALL(symlink), CALL(symlinkat), CALL(mkdir), CALL(mkdirat), CALL(rmdir), CALL(mknod),
    CALL(mknodat), CALL(truncate), CALL(chmod), CALL(fchmod), CALL(fchmodat), CALL(chown),
    CALL(fchown), CALL(lchown), CALL(fchownat), CALL(chdir), CALL(fchdir), CALL(fanotify_init),
    CALL(fanotify_mark),
    /* the network: send calls could also connect a socket, or pass a descriptor */
    CALL(send), CALL(sendto), CALL(sendmsg), CALL(sendmmsg), CALL(connect), CALL(bind),
    CALL(listen), CALL(accept), CALL(accept4), CALL(socketpair),
    /* processes and threads */
    CALL(execve), CALL(execveat), CALL(fork), CALL(vfork), CALL(clone), CALL(clone3), CALL(kill),
    CALL(tkill), CALL(rt_sigqueueinfo), CALL(rt_tgsigqueueinfo), CALL(pidfd_open),
    CALL(pidfd_getfd), CALL(pidfd_send_signal), CALL(kcmp), CALL(setpgid), CALL(setsid),
    CALL(modify_ldt), CALL(arch_prctl),
    /* rights */
    CALL(setuid), CALL(setgid), CALL(setreuid), CALL(setregid), CALL(setresuid), CALL(setresgid),
    CALL(setgroups), CALL(setfsuid), CALL(setfsgid), CALL(capset), CALL(setrlimit)};

/* Calls that no thread makes: the strict filter ends the process, the loose one returns EPERM. */
static const int never[] = {
    /* other processes, and what the kernel does for them */
    CALL(ptrace), CALL(process_madvise), CALL(process_vm_readv), CALL(process_vm_writev), CALL(bpf),
    CALL(perf_event_open), CALL(userfaultfd), CALL(io_uring_setup), CALL(io_uring_enter),
    CALL(io_uring_register), CALL(lookup_dcookie), CALL(personality),
    /* mounts and namespaces */
    CALL(mount), CALL(umount), CALL(umount2), CALL(mount_setattr), CALL(move_mount),
    CALL(open_tree), CALL(fsopen), CALL(fsconfig), CALL(fsmount), CALL(fspick), CALL(pivot_root),
    CALL(chroot), CALL(setns), CALL(unshare), CALL(name_to_handle_at),
    /* the machine: kernel modules, keys, clocks, names, ports */
    CALL(init_module), CALL(finit_module), CALL(delete_module), CALL(kexec_load),
    CALL(kexec_file_load), CALL(reboot), CALL(swapon), CALL(swapoff), CALL(add_key),
    CALL(request_key), CALL(keyctl), CALL(acct), CALL(quotactl), CALL(quotactl_fd), CALL(syslog),
    CALL(settimeofday), CALL(clock_settime), CALL(clock_settime64), CALL(clock_adjtime),
    CALL(clock_adjtime64), CALL(adjtimex), CALL(stime), CALL(sethostname), CALL(setdomainname),
    CALL(iopl), CALL(ioperm), CALL(vhangup)};

/* Allowed values of the argument that selects the operation. */
static const int fcntl_allowed[] = {F_GETFD, F_SETFD, F_GETFL, F_SETFL};
static const int ioctl_allowed[] = {FIONREAD, FIONBIO, TIOCOUTQ};
static const int option_levels[] = {IPPROTO_TCP, 282 /* SOL_TLS */};
static const int lock_commands[] = {F_GETLK, F_SETLK, F_SETLKW};
static const int families[] = {AF_UNIX, AF_INET, AF_INET6};
static const int sockets_connecting[] = {SOCK_STREAM, SOCK_DGRAM};
static const int sockets_killing[] = {SOCK_STREAM, SOCK_RAW, SOCK_RDM, SOCK_SEQPACKET, SOCK_PACKET};
static const int opening_killing[] = {O_WRONLY, O_RDWR, O_CREAT, O_TRUNC};

#define SOCKET_KIND 0xfU /* mask for the type in the second argument of socket(2) */

/* ---- filters --------------------------------------------------------------------------------- */

/* The strict filter's action for a call without a rule. */
#define STRICT_OTHERWISE SCMP_ACT_ERRNO(ENOSYS)

/* The loose filter returns EALREADY for prctl(MARK), which no kernel does: so it can be detected.
 */
#define MARK 0x636f7531U

/* The filters as programs for the kernel; strict[] by rights. `filter` is NULL until it is made. */
static struct sock_fprog strict[RIGHTS_ALL + 1], loose;
static pid_t made_for; /* the process id in the rule for tgkill of the strict filters */

/* Adds a rule, unless an earlier one failed. *error_r keeps the first negative result. */
#define ADD(error_r, ...)                                                                          \
    do {                                                                                           \
        int added_ = *(error_r) ? 0 : seccomp_rule_add(__VA_ARGS__);                               \
        if (added_ < 0)                                                                            \
            *(error_r) = added_;                                                                   \
    } while (0)

static void add_all(scmp_filter_ctx ctx, uint32_t action, const int *calls, size_t count,
                    int *error)
{
    for (size_t i = 0; i < count; i++)
        if (calls[i] != __NR_SCMP_ERROR)
            ADD(error, ctx, action, calls[i], 0);
}

/* True if a group of these rights has this call. */
static bool is_in_group(unsigned rights, int call)
{
    for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
        for (size_t j = 0; j < groups[i].count; j++)
            if (groups[i].calls[j] == call && (groups[i].rights & rights))
                return true;
    return false;
}

/* Allows a call if its argument number `at` is one of these words. */
static void allow_commands(scmp_filter_ctx ctx, int call, unsigned at, const int *words,
                           size_t count, int *error)
{
    for (size_t i = 0; i < count; i++)
        ADD(error, ctx, SCMP_ACT_ALLOW, call, 1, SCMP_CMP32(at, SCMP_CMP_EQ, (uint32_t)words[i]));
}

/* Allows to map and protect memory, but not as executable. */
static void add_memory(scmp_filter_ctx ctx, int *error)
{
    static const int mapping[] = {CALL(mmap), CALL(mmap2), CALL(mprotect), CALL(pkey_mprotect)};
    for (size_t i = 0; i < ARRAY_SIZE(mapping); i++) {
        ADD(error, ctx, SCMP_ACT_ALLOW, mapping[i], 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
        ADD(error, ctx, SCMP_ACT_KILL_PROCESS, mapping[i], 1,
            SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC));
    }
}

/* Allows to open files for reading only; not to create or truncate them. */
static void add_opening(scmp_filter_ctx ctx, int *error)
{
    uint32_t all = 0;
    for (size_t i = 0; i < ARRAY_SIZE(opening_killing); i++)
        all |= (uint32_t)opening_killing[i];
    for (unsigned i = 0; i < ARRAY_SIZE(opening); i++) {
        unsigned at = i + 1; /* the argument with the flags: 1 of open, 2 of openat */
        ADD(error, ctx, SCMP_ACT_ALLOW, opening[i], 1, SCMP_CMP32(at, SCMP_CMP_MASKED_EQ, all, 0));
        for (size_t j = 0; j < ARRAY_SIZE(opening_killing); j++) {
            uint32_t flag = (uint32_t)opening_killing[j];
            ADD(error, ctx, SCMP_ACT_KILL_PROCESS, opening[i], 1,
                SCMP_CMP32(at, SCMP_CMP_MASKED_EQ, flag, flag));
        }
    }
}

static void add_sockets(scmp_filter_ctx ctx, bool connects, int *error)
{
    if (connects) {
        for (size_t i = 0; i < ARRAY_SIZE(families); i++)
            for (size_t j = 0; j < ARRAY_SIZE(sockets_connecting); j++)
                ADD(error, ctx, SCMP_ACT_ALLOW, CALL(socket), 2,
                    SCMP_A0_32(SCMP_CMP_EQ, (uint32_t)families[i]),
                    SCMP_A1_32(SCMP_CMP_MASKED_EQ, SOCKET_KIND, (uint32_t)sockets_connecting[j]));
        return;
    }
    ADD(error, ctx, SCMP_ACT_ERRNO(EACCES), CALL(socket), 1,
        SCMP_A1_32(SCMP_CMP_MASKED_EQ, SOCKET_KIND, SOCK_DGRAM));
    for (size_t i = 0; i < ARRAY_SIZE(sockets_killing); i++)
        ADD(error, ctx, SCMP_ACT_KILL_PROCESS, CALL(socket), 1,
            SCMP_A1_32(SCMP_CMP_MASKED_EQ, SOCKET_KIND, (uint32_t)sockets_killing[i]));
}

/* Adds the rules that do not depend on arguments. */
static void add_calls(scmp_filter_ctx ctx, unsigned rights, int *error)
{
    for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
        if (groups[i].rights & rights)
            add_all(ctx, groups[i].action, groups[i].calls, groups[i].count, error);
    for (size_t i = 0; i < ARRAY_SIZE(strict_killing); i++)
        if (!is_in_group(rights, strict_killing[i]))
            add_all(ctx, SCMP_ACT_KILL_PROCESS, &strict_killing[i], 1, error);
    add_all(ctx, SCMP_ACT_KILL_PROCESS, never, ARRAY_SIZE(never), error);
}

/* Adds the rules of the strict filter for these rights. */
static void add_strict(scmp_filter_ctx ctx, unsigned rights, int *error)
{
    add_calls(ctx, rights | ALWAYS, error);
    if ((rights & (READS | WRITES)) == READS)
        add_opening(ctx, error);
    else
        add_all(ctx, rights & WRITES ? SCMP_ACT_ALLOW : SCMP_ACT_KILL_PROCESS, opening,
                ARRAY_SIZE(opening), error);
    add_memory(ctx, error);
    add_sockets(ctx, rights & CONNECTS, error);
    allow_commands(ctx, CALL(fcntl), 1, fcntl_allowed, ARRAY_SIZE(fcntl_allowed), error);
    allow_commands(ctx, CALL(fcntl64), 1, fcntl_allowed, ARRAY_SIZE(fcntl_allowed), error);
    if (rights & WRITES) {
        allow_commands(ctx, CALL(fcntl), 1, lock_commands, ARRAY_SIZE(lock_commands), error);
        allow_commands(ctx, CALL(fcntl64), 1, lock_commands, ARRAY_SIZE(lock_commands), error);
    }
    allow_commands(ctx, CALL(ioctl), 1, ioctl_allowed, ARRAY_SIZE(ioctl_allowed), error);
    allow_commands(ctx, CALL(setsockopt), 1, option_levels, ARRAY_SIZE(option_levels), error);
    /* Other ways of shutdown would turn a listener into a socket for other uses. */
    ADD(error, ctx, SCMP_ACT_ALLOW, CALL(shutdown), 1, SCMP_A1_32(SCMP_CMP_EQ, SHUT_WR));
    ADD(error, ctx, SCMP_ACT_KILL_PROCESS, CALL(shutdown), 1, SCMP_A1_32(SCMP_CMP_NE, SHUT_WR));
    ADD(error, ctx, SCMP_ACT_ALLOW, CALL(tgkill), 2, SCMP_A0_32(SCMP_CMP_EQ, (uint32_t)made_for),
        SCMP_A2_32(SCMP_CMP_EQ, SIGABRT));
    ADD(error, ctx, SCMP_ACT_KILL_PROCESS, CALL(tgkill), 1,
        SCMP_A0_32(SCMP_CMP_NE, (uint32_t)made_for));
    ADD(error, ctx, SCMP_ACT_KILL_PROCESS, CALL(tgkill), 1, SCMP_A2_32(SCMP_CMP_NE, SIGABRT));
    ADD(error, ctx, SCMP_ACT_ALLOW, CALL(prctl), 1, SCMP_A0_32(SCMP_CMP_EQ, PR_SET_NAME));
    /* The process may read its own limits, but not set them. */
    ADD(error, ctx, SCMP_ACT_ALLOW, CALL(prlimit64), 2, SCMP_A0_32(SCMP_CMP_EQ, 0),
        SCMP_A2(SCMP_CMP_EQ, 0));
}

static void add_loose(scmp_filter_ctx ctx, unsigned rights, int *error)
{
    (void)rights;
    add_all(ctx, SCMP_ACT_ERRNO(EPERM), never, ARRAY_SIZE(never), error);
    ADD(error, ctx, SCMP_ACT_ERRNO(EALREADY), CALL(prctl), 1, SCMP_A0_32(SCMP_CMP_EQ, MARK));
}

/* Reads the filter's program from a file in memory. Returns 0 or an error number. The caller frees
 * code_r->filter. */
static int read_program(int fd, struct sock_fprog *code_r)
{
    off_t size = lseek(fd, 0, SEEK_END);
    if (size <= 0 || size > (off_t)(BPF_MAXINSNS * sizeof(struct sock_filter)))
        return E2BIG;
    void *steps = malloc((size_t)size);
    if (!steps)
        return ENOMEM;
    if (pread(fd, steps, (size_t)size, 0) != size) {
        free(steps);
        return EIO;
    }
    *code_r = (struct sock_fprog){
        .len = (unsigned short)((size_t)size / sizeof(struct sock_filter)), .filter = steps};
    return 0;
}

typedef void add_fn(scmp_filter_ctx ctx, unsigned rights, int *error);

/* Makes a filter. The caller releases it. *error_r: 0, or a negative error number. */
static scmp_filter_ctx make_filter(uint32_t otherwise, add_fn *add, unsigned rights, int *error_r)
{
    scmp_filter_ctx ctx = seccomp_init(otherwise);
    *error_r = -ENOMEM;
    if (!ctx)
        return NULL;
    /* A tree instead of a list: about 7 comparisons for a call, not 100. */
    (void)seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    *error_r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    add(ctx, rights, error_r);
    return ctx;
}

/* Makes the program of a filter. Returns 0 or an error number. */
static int make_program(uint32_t otherwise, add_fn *add, unsigned rights, struct sock_fprog *code_r)
{
    int fd = memfd_create("filter", MFD_CLOEXEC), error;
    if (fd < 0)
        return errno;
    scmp_filter_ctx ctx = make_filter(otherwise, add, rights, &error);
    if (!error)
        error = seccomp_export_bpf(ctx, fd);
    seccomp_release(ctx);
    error = error ? -error : read_program(fd, code_r);
    close(fd);
    return error;
}

static void free_filter(struct sock_fprog *filter)
{
    free(filter->filter);
    filter->filter = NULL;
}

static void free_filters(void)
{
    for (size_t i = 0; i <= RIGHTS_ALL; i++)
        free_filter(&strict[i]);
    free_filter(&loose);
}

static unsigned rights_of(const struct sandbox *to)
{
    return (to->accepts ? ACCEPTS : 0U) | (to->connects ? CONNECTS : 0U) |
           (to->reads ? READS : 0U) | (to->writes ? WRITES : 0U);
}

static bool put_on(const struct sock_fprog *filter)
{
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, filter) == 0;
}

/*
 * Makes the C library shrink a thread's heap. It then reads the overcommit setting, once for all
 * threads. It shrinks a heap when enough memory is free at its end; that threshold grows with the
 * largest piece ever freed, or is set in the environment. So this takes most of the 64 MiB of a
 * heap, but touches only one page of each piece. The small pieces are for an environment that sets
 * a low threshold for mmap.
 */
static void shrink_heap(void)
{
    enum { SMALL = 64, ALL = SMALL + 512 };
    void **pieces = calloc(ALL, sizeof(*pieces));
    for (size_t i = 0; pieces && i < ALL; i++)
        pieces[i] = malloc((size_t)(i < SMALL ? 16 : 112) * 1024);
    for (size_t i = ALL; pieces && i > 0; i--)
        free(pieces[i - 1]);
    free(pieces);
}

/* A filter to try, and the result. */
struct trial {
    const struct sock_fprog *filter;
    int error;
};

static void *try_on(void *arg)
{
    static bool shrunk; /* no lock: one trial at a time */
    struct trial *trial = arg;
    if (!shrunk)
        shrink_heap();
    shrunk = true;
    trial->error = put_on(&loose) && put_on(trial->filter) ? 0 : errno;
    return NULL;
}

/* Makes the loose filter, unless this process has made it. Returns 0 or an error number. */
static int make_loose(void)
{
    if (loose.filter && made_for == getpid())
        return 0;
    free_filters();
    made_for = getpid();
    return make_program(SCMP_ACT_ALLOW, add_loose, 0, &loose);
}

/* Makes a strict filter, unless it exists, and tries it. Returns 0 or an error number. */
static int make_strict(unsigned rights)
{
    pthread_t thread;
    struct trial trial = {.filter = &strict[rights]};
    if (strict[rights].filter)
        return 0;
    int error = make_program(STRICT_OTHERWISE, add_strict, rights, &strict[rights]);
    if (!error)
        error = pthread_create(&thread, NULL, try_on, &trial);
    if (error)
        return error;
    CHECK(pthread_join(thread, NULL) == 0);
    return trial.error;
}

/* ---- the interface --------------------------------------------------------------------------- */

bool sandbox_prepare(const struct sandbox *const *all, size_t count, char *reason_r)
{
    if (IN_SANITIZER) {
        snprintf(reason_r, SANDBOX_REASON_SIZE,
                 "this build has a sanitizer, which makes system calls of its own");
        return false;
    }
    int error = make_loose();
    for (size_t i = 0; i < count && !error; i++)
        error = make_strict(rights_of(all[i]));
    if (error) {
        free_filters();
        snprintf(reason_r, SANDBOX_REASON_SIZE, "the kernel can't filter system calls: %s",
                 strerrordesc_np(error));
    }
    return error == 0;
}

/* Restricts a thread that opens files with Landlock; logs if the kernel has none. */
static bool keep_to_files(const struct sandbox *to)
{
    if (!to->reads && !to->writes)
        return true; /* the thread opens no files */
    if (landlock_exists())
        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && landlock_apply(to);
    log_info(
        "security.sandbox: the thread \"%s\" may use all files that the daemon's user may, because "
        "the kernel has no Landlock: %s",
        to->name, strerrordesc_np(errno));
    return true;
}

static bool has_loose(void)
{
    return prctl((int)MARK, 0, 0, 0, 0) == -1 && errno == EALREADY;
}

bool sandbox_apply(const struct sandbox *to)
{
    const struct sock_fprog *filter = &strict[rights_of(to)];
    CHECK(filter->filter); /* sandbox_prepare has made it */
    return keep_to_files(to) && put_on(filter);
}

static bool enter_filter(void)
{
    return !loose.filter || has_loose() || put_on(&loose);
}

#else

bool sandbox_prepare(const struct sandbox *const *all, size_t count, char *reason_r)
{
    (void)all;
    (void)count;
    snprintf(reason_r, SANDBOX_REASON_SIZE, "this build is without libseccomp");
    return false;
}

bool sandbox_apply(const struct sandbox *to)
{
    (void)to;
    errno = ENOSYS;
    return false;
}

static bool enter_filter(void)
{
    return true;
}

#endif

bool sandbox_enter(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    /* The C library's own default of arenas, set now so that it does not count cores later. */
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
    (void)mallopt(M_ARENA_MAX, 8 * (cores < 1 ? 1 : cores > 4096 ? 4096 : (int)cores));
    if (IN_SANITIZER)
        return true; /* the leak sanitizer uses ptrace on its own process */
    return drop_capabilities() && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && enter_filter();
}
