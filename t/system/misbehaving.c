/*
 * misbehaving.c - counterd as if an attacker had taken it over: the daemon with some of its
 * functions replaced by the linker (--wrap), so that a request makes the thread that parses it
 * misbehave. A request of the text protocol, "MISBEHAVE WHAT", does so in a worker; a path of the
 * HTTP interface,
 * "/misbehave/WHAT", in its thread. Afterwards it is a request like any other. The program is for
 * tests only and is never installed.
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

/* ---- what it does: each answers whether that went well ------------------------------------------
 */

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
    return system("exit 3") == 3 << 8; // NOLINT(cert-env33-c,concurrency-mt-unsafe): that is it
}

/* Becomes another program, without a process of its own for it. */
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

/* Out to another address; any answer will do, as long as it is asked. */
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

/* A socket of this family that listens, or one that does not; -1: there is none. */
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

/* Out to another address, with a socket that there is. It is sent from twice: confined, the thread
 * is not to get as far as shutting it down. */
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

/* Passes a listener to a client on a unix socket, maybe of another user. */
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

/* ---- what libraries do: refused, and nobody is ended -------------------------------------------
 */

/* A link-local address's interface is asked of a socket, which is refused: it is a number then. */
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

/* As fstat in some C libraries, but for the path. */
static bool look_at_file(void)
{
    struct stat st;
    return syscall(SYS_newfstatat, AT_FDCWD, "/etc/passwd", &st, AT_EMPTY_PATH) == -1 &&
           errno == ENOSYS;
}

/* Much in small pieces, so that the C library has a heap of the thread's to make smaller again. */
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

/* A check that fails says so, and ends the process by SIGABRT. */
static bool fail_check(void)
{
    CHECK(getpid() == 0);
    return false;
}

/* The C library says so of itself, and ends the process by SIGABRT. */
static bool free_twice(void)
{
    char *volatile twice = malloc(4096);
    char *volatile between = malloc(4096);
    free(twice);
    free(twice); // NOLINT(clang-analyzer-unix.Malloc): that is it
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
    {"name", name_address},
    {"unknown", call_unknown},
    {"datagrams", open_datagrams},
    {"stat", look_at_file},
    {"memory", take_memory},
    {"check", fail_check},
    {"free-twice", free_twice},
};

/* Does what `word`, which goes on to a blank or its end, says; says on stderr how that went. */
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

/* ---- how it is asked ------------------------------------------------------------------------- */

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
