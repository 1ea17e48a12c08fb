/*
 * misbehaving.c - counterd under the control of an attacker: the daemon, with some functions
 * replaced by the linker (--wrap), so that a request makes the thread that parses it misbehave.
 *
 * A text request "MISBEHAVE WHAT" acts in a worker; an HTTP path "/misbehave/WHAT" acts in the
 * admin thread. Afterwards the request is handled as usual. The program is for tests only and is
 * never installed.
 */
#include "net/http.h"
#include "proto/poolcounter.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum pc_parsed __real_pc_parse_request(const uint8_t *data, size_t len, size_t max_line,
                                       struct pc_request *req_r, size_t *used_r);
enum pc_parsed __wrap_pc_parse_request(const uint8_t *data, size_t len, size_t max_line,
                                       struct pc_request *req_r, size_t *used_r);
const char *__real_http_path(const struct http_request *request);
const char *__wrap_http_path(const struct http_request *request);

/* ---- actions: each returns true on success --------------------------------------------------- */

static bool good(int fd)
{
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return fd >= 0;
}

static bool open_file(void)
{
    return good(open("/etc/passwd", O_RDONLY | O_CLOEXEC));
}

static bool write_file(void)
{
    return good(open("/tmp", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600));
}

static bool run_shell(void)
{
    return system("exit 3") == 3 << 8; // the point of this test
}

/* Executes another program in this process. */
static bool become_shell(void)
{
    return execl("/bin/sh", "sh", "-c", "exit 42", (char *)NULL) == 0;
}

static bool fork_child(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    return child > 0 && waitpid(child, NULL, 0) == child;
}

static void *nothing(void *arg)
{
    return arg;
}

static bool start_thread(void)
{
    pthread_t thread;
    errno = pthread_create(&thread, NULL, nothing, NULL);
    return errno == 0 && pthread_join(thread, NULL) == 0;
}

/* Connects to another address. Any result will do if the call is made. */
static bool connect_out(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool tried = fd >= 0 && (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 ||
                             errno == ECONNREFUSED || errno == ENETUNREACH);
    good(fd);
    return tried;
}

static bool listen_on(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool listens = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && !listen(fd, 1);
    good(fd);
    return listens;
}

/* Returns a socket of this family that listens, or one that does not; -1 if there is none. */
static int find_socket(sa_family_t family, bool listens)
{
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_storage at;
        int has = 0;
        socklen_t len = sizeof(has), at_len = sizeof(at);
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &has, &len) == 0 && (has != 0) == listens &&
            getsockname(fd, (struct sockaddr *)&at, &at_len) == 0 && at.ss_family == family)
            return fd;
    }
    return -1;
}

/* Shuts a listener down. It could then connect to another host. */
static bool shut_listener(void)
{
    return shutdown(find_socket(AF_INET, true), SHUT_RD) == 0;
}

/*
 * Connects to another address with an existing socket, by sending (TCP Fast Open). Sends twice: a
 * confined thread must not get as far as the shutdown.
 */
static bool connect_by_sending(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = find_socket(AF_INET, true);
    if (sendto(fd, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&to, sizeof(to)) >= 0 ||
        shutdown(fd, SHUT_RD) != 0)
        return false;
    return sendto(fd, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&to, sizeof(to)) >= 0 ||
           errno == EINPROGRESS || errno == ECONNREFUSED;
}

/* Passes a listener to a client on a unix socket, which may belong to another user. */
static bool give_descriptor(void)
{
    int listener = find_socket(AF_INET, true);
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)),
                          .cmsg_level = SOL_SOCKET,
                          .cmsg_type = SCM_RIGHTS}};
    char byte = 'x';
    struct iovec piece = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    memcpy(CMSG_DATA(&control.head), &listener, sizeof(int));
    return sendmsg(find_socket(AF_UNIX, false), &message, MSG_NOSIGNAL) == 1;
}

static bool make_code(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page != MAP_FAILED && mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0 &&
           munmap(page, 4096) == 0;
}

static bool map_code(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page != MAP_FAILED && munmap(page, 4096) == 0;
}

static bool trace_parent(void)
{
    return ptrace(PTRACE_PEEKUSER, getppid(), 0, 0) == 0 || errno == ESRCH || errno == EPERM;
}

static bool signal_parent(void)
{
    return kill(getppid(), 0) == 0;
}

static bool signal_parent_thread(void)
{
    return syscall(SYS_tgkill, getppid(), getppid(), 0) == 0;
}

/* An upgrade would execute the program that the main thread's memory names. */
static bool ask_for_upgrade(void)
{
    return syscall(SYS_tgkill, getpid(), getpid(), SIGUSR1) == 0;
}

/* ---- actions of libraries: refused, but nobody is killed ------------------------------------- */

/*
 * For a link-local address the C library asks a socket for the interface's name. That is refused,
 * and the result has a number instead.
 */
static bool name_address(void)
{
    char host[NI_MAXHOST];
    struct sockaddr_in6 of = {.sin6_family = AF_INET6, .sin6_scope_id = 1};
    return inet_pton(AF_INET6, "fe80::1", &of.sin6_addr) == 1 &&
           getnameinfo((struct sockaddr *)&of, sizeof(of), host, sizeof(host), NULL, 0,
                       NI_NUMERICHOST) == 0;
}

static bool call_unknown(void)
{
    return syscall(100000) == -1 && errno == ENOSYS;
}

static bool open_datagrams(void)
{
    return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) < 0 && errno == EACCES;
}

/* Like fstat in some C libraries, except for the path. */
static bool look_at_file(void)
{
    struct stat st;
    return syscall(SYS_newfstatat, AT_FDCWD, "/etc/passwd", &st, AT_EMPTY_PATH) == -1 &&
           errno == ENOSYS;
}

/* Allocates much memory in small pieces, so that the C library has a heap of the thread to trim. */
static bool take_memory(void)
{
    char *pieces[200];
    bool taken = true;
    for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
        pieces[i] = malloc((size_t)50 << 10);
        taken = taken && pieces[i];
        if (pieces[i])
            memset(pieces[i], 1, (size_t)50 << 10);
    }
    for (size_t i = ARRAY_SIZE(pieces); i > 0; i--)
        free(pieces[i - 1]);
    return taken;
}

/* A failed check logs a message and ends the process by SIGABRT. */
static bool fail_check(void)
{
    CHECK(getpid() == 0);
    return false;
}

/* The C library prints a message and ends the process by SIGABRT. */
static bool free_twice(void)
{
    char *volatile twice = malloc(4096);
    char *volatile between = malloc(4096);
    free(twice);
    free(twice); // the point of this test
    free(between);
    return false;
}

static const struct {
    const char *name;
    bool (*act)(void);
} acts[] = {
    {"open", open_file},
    {"write", write_file},
    {"system", run_shell},
    {"exec", become_shell},
    {"fork", fork_child},
    {"thread", start_thread},
    {"connect", connect_out},
    {"listen", listen_on},
    {"shut-listener", shut_listener},
    {"fastopen", connect_by_sending},
    {"give-descriptor", give_descriptor},
    {"make-code", make_code},
    {"map-code", map_code},
    {"trace", trace_parent},
    {"kill", signal_parent},
    {"tgkill", signal_parent_thread},
    {"ask-upgrade", ask_for_upgrade},
    {"name", name_address},
    {"unknown", call_unknown},
    {"datagrams", open_datagrams},
    {"stat", look_at_file},
    {"memory", take_memory},
    {"check", fail_check},
    {"free-twice", free_twice},
};

/* Performs the action `word`, of `len` bytes. Reports the result on standard error. */
static void misbehave(const char *word, size_t len)
{
    for (size_t i = 0; i < ARRAY_SIZE(acts); i++) {
        if (strlen(acts[i].name) != len || memcmp(acts[i].name, word, len) != 0)
            continue;
        dprintf(STDERR_FILENO, "misbehaving: %s\n", acts[i].name);
        bool done = acts[i].act();
        dprintf(STDERR_FILENO, "misbehaving: %s: %s\n", acts[i].name,
                done ? "done" : strerrordesc_np(errno));
    }
}

/* ---- how requests call it -------------------------------------------------------------------- */

enum pc_parsed __wrap_pc_parse_request(const uint8_t *data, size_t len, size_t max_line,
                                       struct pc_request *req_r, size_t *used_r)
{
    static const char word[] = "MISBEHAVE ";
    const uint8_t *end = memchr(data, '\n', len);
    size_t head = sizeof(word) - 1;
    if (end && (size_t)(end - data) > head && memcmp(data, word, head) == 0)
        misbehave((const char *)data + head, (size_t)(end - data) - head);
    return __real_pc_parse_request(data, len, max_line, req_r, used_r);
}

const char *__wrap_http_path(const struct http_request *request)
{
    static const char head[] = "/misbehave/";
    const char *path = __real_http_path(request);
    if (strncmp(path, head, sizeof(head) - 1) == 0)
        misbehave(path + sizeof(head) - 1, strlen(path) - (sizeof(head) - 1));
    return path;
}
