/*
 * listener.c - listens, and accepts connections (see listener.h).
 *
 * A worker that runs out of descriptors or memory stops watching its listeners; otherwise it would
 * spin on a socket that stays ready. It watches them again when one of its connections closes. It
 * also tries again every tenth of a second, because connections of other workers close too. A
 * single listener whose accepts keep failing, for example because somebody shut the socket down,
 * rests in the same way. Socket options for clients (no delay, keepalive) are set on the listener:
 * accepted sockets inherit them, which saves six calls for each.
 */
#include "net/listener.h"

#include "net/address.h"
#include "net/worker_internal.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* ACCEPTS_MAX: maximum number of accepts at one door in an iteration. FULL_TURNS: a door's burst
 * doubles after this many iterations that used all of it. FAILURES_MAX: a door rests when so many
 * accepts failed in a row; the log tells it once in SAY_NS. */
#define ACCEPTS_MAX  16
#define FULL_TURNS   4
#define FAILURES_MAX 8
#define RETRY_NS     (100 * NS_PER_MS)
#define SAY_NS       (60 * NS_PER_S)

/* A connection to a silent peer is closed after 30 s. */
#define KEEPALIVE_IDLE_S     15
#define KEEPALIVE_INTERVAL_S 5
#define KEEPALIVE_PROBES     3
#define USER_TIMEOUT_MS      30000

/* The longest backlog; the kernel cuts it to net.core.somaxconn. */
#define BACKLOG 65535

/* ---- listening ------------------------------------------------------------------------------- */

static bool set_option(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof(value)) == 0;
}

/* Sets the options that clients rely on; accepted sockets inherit them. */
static bool set_client_options(int fd)
{
    return set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1) &&
           set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1) &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S) &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S) &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES) &&
           set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS);
}

/* Sets the options that bind needs. */
static bool set_address_options(int fd, int family)
{
    return set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1) &&
           (family != AF_INET6 || set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1));
}

/* Closes `fd` and keeps errno. */
static bool give_up(int fd)
{
    int error = errno;
    close(fd);
    errno = error;
    return false;
}

bool listener_open(struct listener *listener_r, struct protocol *protocol,
                   const struct sockaddr *address, socklen_t len, bool tls)
{
    struct sockaddr_storage sa = {0};
    memcpy(&sa, address, len);
    *listener_r = (struct listener){.fd = -1, .protocol = protocol, .tls = tls};
    address_text((struct sockaddr *)&sa, listener_r->where, sizeof(listener_r->where));
    memcpy(listener_r->asked, listener_r->where, sizeof(listener_r->asked));
    int fd = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    socklen_t bound = sizeof(sa);
    if (!set_address_options(fd, sa.ss_family) || !set_client_options(fd) ||
        bind(fd, address, len) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&sa, &bound) != 0)
        return give_up(fd);
    address_text((struct sockaddr *)&sa, listener_r->where, sizeof(listener_r->where));
    listener_r->fd = fd;
    return true;
}

/* ---- unix sockets ---------------------------------------------------------------------------- */

/* Makes the socket address of a path or of "@name". Returns false with errno. */
static bool unix_address(const char *path, struct sockaddr_un *sa_r, socklen_t *len_r)
{
    size_t len = strlen(path);
    *sa_r = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (len == 0 || (path[0] == '@' && len == 1)) {
        errno = EINVAL;
        return false;
    }
    if (len >= sizeof(sa_r->sun_path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(sa_r->sun_path, path, len);
    bool is_abstract = path[0] == '@';
    if (is_abstract)
        sa_r->sun_path[0] = '\0';
    *len_r = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + !is_abstract);
    return true;
}

/* Unlinks an existing socket file on which no server listens, so that we can bind. Returns false
 * with errno; EEXIST: the file is not a socket. */
static bool replace_stale(const struct sockaddr_un *sa, socklen_t len)
{
    struct stat st;
    if (lstat(sa->sun_path, &st) != 0)
        return errno == ENOENT; /* it was removed meanwhile */
    if (!S_ISSOCK(st.st_mode)) {
        errno = EEXIST;
        return false;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool stale = connect(fd, (const struct sockaddr *)sa, len) != 0 && errno == ECONNREFUSED;
    close(fd);
    if (!stale) {
        errno = EADDRINUSE;
        return false;
    }
    return unlink(sa->sun_path) == 0 || errno == ENOENT;
}

/* Unlinks our socket file, unless another file has replaced it. */
static void remove_file(const struct listener *l)
{
    struct stat st;
    if (l->own_file && lstat(l->where, &st) == 0 && st.st_dev == l->device && st.st_ino == l->inode)
        (void)unlink(l->where); /* on failure the file stays: its folder may not be ours any more */
}

/* Binds to l->where and sets the file's mode. Nobody can connect in between, because the socket
 * does not listen yet. */
static bool bind_file(struct listener *l, int fd, const struct sockaddr_un *sa, socklen_t len,
                      unsigned mode)
{
    const struct sockaddr *address = (const struct sockaddr *)sa;
    struct stat st;
    if (bind(fd, address, len) != 0 &&
        (errno != EADDRINUSE || !replace_stale(sa, len) || bind(fd, address, len) != 0))
        return false;
    if (lstat(l->where, &st) != 0)
        return false;
    l->own_file = true;
    l->device = st.st_dev;
    l->inode = st.st_ino;
    return chmod(l->where, mode) == 0;
}

bool listener_open_unix(struct listener *listener_r, struct protocol *protocol, const char *path,
                        unsigned mode)
{
    struct sockaddr_un sa;
    socklen_t len;
    *listener_r = (struct listener){.fd = -1, .protocol = protocol, .local = true};
    snprintf(listener_r->where, sizeof(listener_r->where), "%s", path);
    memcpy(listener_r->asked, listener_r->where, sizeof(listener_r->asked));
    if (!unix_address(path, &sa, &len))
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool bound = path[0] == '@' ? bind(fd, (struct sockaddr *)&sa, len) == 0
                                : bind_file(listener_r, fd, &sa, len, mode);
    if (!bound || listen(fd, BACKLOG) != 0) {
        give_up(fd);
        int error = errno;
        remove_file(listener_r);
        errno = error;
        return false;
    }
    listener_r->fd = fd;
    return true;
}

/* ---- inherited sockets ----------------------------------------------------------------------- */

/* True when `fd` is a listening stream socket. Otherwise false with errno. */
static bool is_listening(int fd)
{
    int type = 0, listening = 0;
    socklen_t size = sizeof(int);
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0)
        return false;
    errno = EINVAL;
    return type == SOCK_STREAM && listening;
}

/* Writes the name of a unix socket to l->where: its path, or "@name". */
static void name_unix(struct listener *l, const struct sockaddr_un *sa, socklen_t len)
{
    size_t room = sizeof(l->where) - 1;
    size_t head = offsetof(struct sockaddr_un, sun_path), have = len > head ? len - head : 0;
    size_t used = have < room ? have : room;
    memcpy(l->where, sa->sun_path, used);
    l->where[used] = '\0';
    if (have > 0 && sa->sun_path[0] == '\0')
        l->where[0] = '@';
}

bool listener_find(struct listener *listener_r, int fd, uint16_t *port_r)
{
    union {
        struct sockaddr any;
        struct sockaddr_un local;
        struct sockaddr_storage storage;
    } sa = {0};
    socklen_t len = sizeof(sa);
    *listener_r = (struct listener){.fd = -1};
    *port_r = 0;
    if (!is_listening(fd) || getsockname(fd, &sa.any, &len) != 0)
        return false;
    listener_r->local = sa.any.sa_family == AF_UNIX;
    if (listener_r->local) {
        name_unix(listener_r, &sa.local, len);
    } else if (address_bytes(&sa.storage)) {
        *port_r = ntohs(*address_port(&sa.storage));
        address_text(&sa.any, listener_r->where, sizeof(listener_r->where));
    } else {
        errno = EINVAL;
        return false;
    }
    return true;
}

bool listener_adopt(struct listener *listener_r, struct protocol *protocol, int fd, bool tls)
{
    uint16_t port;
    if (!listener_find(listener_r, fd, &port))
        return false;
    listener_r->protocol = protocol;
    listener_r->tls = tls;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || (!listener_r->local && !set_client_options(fd)))
        return false;
    listener_r->fd = fd;
    return true;
}

void listener_close(struct listener *listener)
{
    if (listener->fd < 0)
        return;
    remove_file(listener);
    close(listener->fd);
    listener->fd = -1;
}

/* ---- accepting ------------------------------------------------------------------------------- */

/* One listener, watched by one worker. */
struct door {
    struct acceptor *acceptor;
    const struct listener *listener;
    /* `burst`: the number of accepts in an iteration. It doubles only after several full
     * iterations: an accept that finds no client costs 1 % of a connection. */
    unsigned burst, full_turns;
    unsigned failures; /* accepts that failed in a row, in a way that need not end */
    struct loop_io io;
};

struct acceptor {
    struct worker *worker;
    struct timer retry; /* set while paused */
    bool paused;
    size_t count;
    struct door doors[];
};

/* A connection that is handed off to another worker. */
struct hand_off {
    struct mail mail;
    struct protocol *protocol;
    struct stream stream;
    uint32_t source;
};

/* The number of workers that have stopped accepting. Logged when the first one stops and when the
 * last one resumes. */
static _Atomic unsigned workers_paused;
static struct log_limit pauses, resumptions;

/* Changes the watch on all doors. Returns false when there is no memory for one of them. */
static bool watch_doors(struct acceptor *acceptor, unsigned wanted)
{
    struct loop *loop = worker_reactor(acceptor->worker)->loop;
    bool all = true;
    for (size_t i = 0; i < acceptor->count; i++)
        all = loop_io_want(loop, &acceptor->doors[i].io, wanted) && all;
    return all;
}

/* Watches the doors again. Returns the time of the next try: DEADLINE_NONE on success, soon on
 * failure. */
static int64_t try_again(struct acceptor *acceptor)
{
    if (watch_doors(acceptor, LOOP_READ | LOOP_SHARED))
        return DEADLINE_NONE;
    return worker_now(acceptor->worker).mono_ns + RETRY_NS;
}

static void fd_freed(void *arg)
{
    struct acceptor *acceptor = arg;
    reactor_set_timer(worker_reactor(acceptor->worker), &acceptor->retry, try_again(acceptor));
}

static void pause_accepting(struct acceptor *acceptor, int error)
{
    if (!acceptor->paused) {
        acceptor->paused = true;
        if (atomic_fetch_add(&workers_paused, 1) == 0)
            log_warning_limited(&pauses, "can't accept connections (%s): paused until others close",
                                strerrordesc_np(error));
    }
    (void)watch_doors(acceptor, 0); /* removing a watch needs no memory */
    worker_await_fd(acceptor->worker, fd_freed, acceptor);
    reactor_set_timer(worker_reactor(acceptor->worker), &acceptor->retry,
                      worker_now(acceptor->worker).mono_ns + RETRY_NS);
}

/* Counts an accept that failed. Stops watching the door when too many failed in a row: the next try
 * may fail, too. Returns false then. */
static bool go_on_after(struct door *door, int error)
{
    static _Atomic int64_t say_again_ns;
    struct acceptor *acceptor = door->acceptor;
    int64_t now_ns = worker_now(acceptor->worker).mono_ns;
    int64_t say_ns = atomic_load(&say_again_ns);
    /* The client has gone already. */
    if (error == EINTR || error == ECONNABORTED)
        return true;
    if (now_ns >= say_ns && atomic_compare_exchange_strong(&say_again_ns, &say_ns, now_ns + SAY_NS))
        log_warning("%s: accepting failed: %s", door->listener->where, strerrordesc_np(error));
    if (++door->failures < FAILURES_MAX)
        return true;
    atomic_fetch_add_explicit(&door->listener->protocol->accept_errors, 1, memory_order_relaxed);
    CHECK(loop_io_want(worker_reactor(acceptor->worker)->loop, &door->io, 0));
    reactor_set_timer(worker_reactor(acceptor->worker), &acceptor->retry, now_ns + RETRY_NS);
    return false;
}

/* Resumes: no client is left in the backlog. */
static void caught_up(struct acceptor *acceptor)
{
    if (!acceptor->paused)
        return;
    acceptor->paused = false;
    worker_await_fd(acceptor->worker, NULL, NULL);
    if (atomic_fetch_sub(&workers_paused, 1) == 1)
        log_warning_limited(&resumptions, "accepting connections again");
}

static int64_t retry(struct timer *timer, struct moment now)
{
    (void)now;
    return try_again(container_of(timer, struct acceptor, retry));
}

static void open_handed(struct mail *mail, void *reader)
{
    struct hand_off *hand_off = container_of(mail, struct hand_off, mail);
    (void)worker_open(reader, hand_off->protocol, hand_off->stream,
                      hand_off->source); /* it counts its own failures */
    worker_expect(reader, -1);
    free(hand_off);
}

/* Chooses the worker for the next connection. */
static struct worker *place(struct worker *self)
{
    const struct server *server = worker_server(self);
    struct worker *fewest = self;
    for (unsigned i = 0; i < server->count; i++) {
        if (worker_connections(server->workers[i]) < worker_connections(fewest))
            fewest = server->workers[i];
    }
    uint32_t least = worker_connections(fewest);
    return worker_connections(self) > least + 2 + least / 8 ? fewest : self;
}

/* Admits an accepted connection and gives it to a worker. `from` is the client's address; NULL when
 * admission does not depend on it. */
static void take_in(struct acceptor *acceptor, const struct listener *listener, int fd,
                    const struct sockaddr *from)
{
    struct protocol *protocol = listener->protocol;
    struct stream stream = {.fd = fd,
                            .transport = listener->tls     ? TRANSPORT_TLS
                                         : listener->local ? TRANSPORT_UNIX
                                                           : TRANSPORT_TCP};
    uint32_t source;
    if (!admission_enter(acceptor->worker, protocol, &stream, from, &source))
        return;
    struct worker *to = place(acceptor->worker);
    struct hand_off *hand_off = to == acceptor->worker ? NULL : malloc(sizeof(*hand_off));
    if (!hand_off) {
        (void)worker_open(acceptor->worker, protocol, stream, source);
        return;
    }
    *hand_off = (struct hand_off){
        .mail.deliver = open_handed, .protocol = protocol, .stream = stream, .source = source};
    worker_expect(to, 1); /* count it now; otherwise a burst would all go to that worker */
    reactor_post(worker_reactor(to), &hand_off->mail);
}

/* Accepts connections at a door. */
static void on_door(struct loop_io *io, unsigned what)
{
    (void)what;
    struct door *door = container_of(io, struct door, io);
    struct acceptor *acceptor = door->acceptor;
    bool ask = !door->listener->local && admission_asks_address(acceptor->worker);
    unsigned i, burst = acceptor->paused ? ACCEPTS_MAX : door->burst;
    for (i = 0; i < burst; i++) {
        struct sockaddr_storage from;
        struct sockaddr *sa = ask ? (struct sockaddr *)&from : NULL;
        socklen_t len = sizeof(from);
        int fd = accept4(door->listener->fd, sa, sa ? &len : NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            door->failures = 0;
            take_in(acceptor, door->listener, fd, sa);
            continue;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            caught_up(acceptor);
            door->failures = 0;
            door->burst = i > 0 ? i : 1;
            door->full_turns = 0;
            i = 0; /* fewer clients came than expected */
            break;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            atomic_fetch_add_explicit(&door->listener->protocol->accept_errors, 1,
                                      memory_order_relaxed);
            pause_accepting(acceptor, errno);
            break;
        }
        if (!go_on_after(door, errno))
            break;
    }
    if (i == door->burst && ++door->full_turns == FULL_TURNS) {
        door->burst = 2 * i < ACCEPTS_MAX ? 2 * i : ACCEPTS_MAX;
        door->full_turns = 0;
    }
    worker_flush(acceptor->worker);
}

struct acceptor *acceptor_new(struct worker *worker, const struct listener *listeners, size_t count)
{
    struct acceptor *acceptor = calloc(1, sizeof(*acceptor) + count * sizeof(struct door));
    if (!acceptor)
        return NULL;
    acceptor->worker = worker;
    acceptor->retry.run = retry;
    if (!reactor_add_timer(worker_reactor(worker), &acceptor->retry, DEADLINE_NONE)) {
        free(acceptor);
        return NULL;
    }
    for (; acceptor->count < count; acceptor->count++) {
        struct door *door = &acceptor->doors[acceptor->count];
        door->acceptor = acceptor;
        door->burst = 1;
        door->listener = &listeners[acceptor->count];
        if (!loop_io_add(worker_reactor(worker)->loop, &door->io, door->listener->fd,
                         LOOP_READ | LOOP_SHARED, on_door)) {
            acceptor_free(&acceptor);
            return NULL;
        }
    }
    return acceptor;
}

void acceptor_free(struct acceptor **acceptor)
{
    struct acceptor *a = *acceptor;
    if (!a)
        return;
    *acceptor = NULL;
    for (size_t i = 0; i < a->count; i++)
        loop_io_remove(worker_reactor(a->worker)->loop, &a->doors[i].io);
    reactor_remove_timer(worker_reactor(a->worker), &a->retry);
    if (a->paused)
        atomic_fetch_sub(&workers_paused, 1);
    free(a);
}
