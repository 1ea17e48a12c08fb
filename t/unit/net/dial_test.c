/*
 * dial_test.c - outgoing streams, for an owner of a loop and deadlines, to servers in the same
 * loop: listeners, TLS servers, and a name server. Nothing leaves the machine.
 */
#include "net/dial.h"

#include "net/lookup.h"
#include "net/tls_inside.h"
#include "t/unit/engine/faults.h"
#include "t/unit/net/secure.h"

#include <ares.h>
#include <fnmatch.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/un.h>

/* ---- the reactor --------------------------------------------------------------------------- */

static struct bench {
    struct reactor reactor; /* must be the first member */
    struct timer patience, later;
    int later_fd;
    unsigned pending; /* dials under way; the loop stops at 0 */
    unsigned turns, stop_after;
    bool spinning; /* iterates without events too */
    unsigned fds;  /* descriptors open before the test */
} bench;

static int64_t on_end(void *arg)
{
    (void)arg;
    if (++bench.turns == bench.stop_after)
        loop_stop(bench.reactor.loop);
    if (bench.spinning)
        loop_soon(bench.reactor.loop);
    return reactor_end(&bench.reactor);
}

static int64_t lose_patience(struct timer *timer, struct moment now)
{
    (void)timer;
    (void)now;
    CHECK(false); /* no event within PATIENCE_NS */
    return DEADLINE_NONE;
}

/* Takes one connection from a full backlog. */
static int64_t on_later(struct timer *timer, struct moment now)
{
    (void)timer;
    (void)now;
    int fd = accept(bench.later_fd, NULL, NULL);
    ck_assert(fd >= 0);
    close(fd);
    return DEADLINE_NONE;
}

static void bench_make(void)
{
    signal(SIGPIPE, SIG_IGN); /* like the daemon */
    bench = (struct bench){.fds = open_descriptors()};
    struct loop_handlers handlers = reactor_default;
    handlers.end = on_end;
    ck_assert(reactor_init(&bench.reactor, &handlers));
    bench.patience.run = lose_patience;
    bench.later.run = on_later;
    ck_assert(reactor_add_timer(&bench.reactor, &bench.patience, DEADLINE_NONE));
    ck_assert(reactor_add_timer(&bench.reactor, &bench.later, DEADLINE_NONE));
}

/* Checks that dials have given back everything. */
static void bench_free(void)
{
    reactor_remove_timer(&bench.reactor, &bench.patience);
    reactor_remove_timer(&bench.reactor, &bench.later);
    ck_assert_uint_eq(bench.reactor.deadlines.count, 0);
    ck_assert_uint_eq(bench.reactor.deadlines.reserved, 0);
    reactor_free(&bench.reactor);
    ck_assert_uint_eq(open_descriptors(), bench.fds);
    ck_assert_uint_eq(ERR_peek_error(), 0);
}

/* Runs until no dial is pending, or for `turns` iterations. */
static void run(unsigned turns)
{
    if (!bench.pending)
        return;
    bench.turns = 0;
    bench.stop_after = turns;
    reactor_set_timer(&bench.reactor, &bench.patience, clock_mono_ns() + PATIENCE_NS);
    loop_run(bench.reactor.loop);
}

/* Runs for `turns` iterations, whatever happens in them. */
static void spin(unsigned turns)
{
    bench.pending++;
    bench.spinning = true;
    loop_soon(bench.reactor.loop);
    run(turns);
    bench.spinning = false;
    bench.pending--;
}

/* ---- dials --------------------------------------------------------------------------------- */

struct call {
    struct dial *dial; /* NULL: no dial under way */
    struct stream stream;
    unsigned done;
    char reason[DIAL_REASON_SIZE];
};

static void on_done(void *arg, struct stream *stream, const char *reason)
{
    struct call *c = arg;
    fault_countdown = 0;
    fault_counting = false; /* the dial has freed its memory before the callback */
    ck_assert((stream != NULL) != (reason != NULL));
    ck_assert(c->dial != NULL);
    c->dial = NULL;
    c->done++;
    if (stream)
        c->stream = *stream;
    else
        snprintf(c->reason, sizeof(c->reason), "%s", reason);
    if (--bench.pending == 0)
        loop_stop(bench.reactor.loop);
}

#define LONG_NS (50 * NS_PER_S)

/* Starts a dial; false if memory is short. */
static bool start_call(struct call *c, const struct dial_target *target, int64_t limit_ns)
{
    *c = (struct call){.stream.fd = -1};
    bench.reactor.now = clock_now();
    c->dial = dial_start(&bench.reactor, target, limit_ns, on_done, c);
    bench.pending += c->dial != NULL;
    return c->dial;
}

static void begin(struct call *c, const struct dial_target *target, int64_t limit_ns)
{
    ck_assert(start_call(c, target, limit_ns));
}

static void cancel(struct call *c)
{
    dial_cancel(&c->dial);
    bench.pending--;
    ck_assert(c->dial == NULL);
}

/* Starts a dial and runs it to its end. */
static void make_call(struct call *c, const struct dial_target *target, int64_t limit_ns)
{
    begin(c, target, limit_ns);
    run(0);
    ck_assert_uint_eq(c->done, 1);
}

/* The same for a dial that a part of its limit decides: with more time if the machine stood still.
 */
static void make_call_soon(struct call *c, const struct dial_target *target, int64_t limit_ns)
{
    make_call(c, target, limit_ns);
    if (c->stream.fd < 0 && strstr(c->reason, " within "))
        make_call(c, target, LONG_NS);
}

static void expect_connected(const struct call *c)
{
    ck_assert_msg(c->stream.fd >= 0, "%s", c->reason);
}

/* The reason is this; `*` is anything. */
static void expect_reason(const struct call *c, const char *format, ...) PRINTF_LIKE(2, 3);
static void expect_reason(const struct call *c, const char *format, ...)
{
    char reason[400];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    ck_assert_int_eq(c->stream.fd, -1);
    ck_assert_msg(fnmatch(reason, c->reason, 0) == 0, "%s, not %s", c->reason, reason);
}

/* ---- servers in the loop ------------------------------------------------------------------- */

/* A server's entry in the loop; its callbacks run without injected faults. */
struct watched {
    struct loop_io io;
    void (*fn)(struct watched *served, unsigned what);
};

static void on_served(struct loop_io *io, unsigned what)
{
    struct watched *served = container_of(io, struct watched, io);
    unsigned long countdown = fault_countdown;
    bool counting = fault_counting;
    fault_countdown = 0;
    fault_counting = false;
    served->fn(served, what);
    fault_countdown = countdown;
    fault_counting = counting;
}

static void serve(struct watched *served, int fd, unsigned wanted,
                  void (*fn)(struct watched *served, unsigned what))
{
    served->fn = fn;
    ck_assert(loop_io_add(bench.reactor.loop, &served->io, fd, wanted, on_served));
}

static void stop_serving(struct watched *served)
{
    if (!served->io.fn)
        return;
    int fd = served->io.fd;
    loop_io_remove(bench.reactor.loop, &served->io);
    close(fd);
}

/* A socket bound to a numeric address; port 0 means any. */
static int bound(int type, const char *host, uint16_t port, uint16_t *port_r)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
    bool six = inet_pton(AF_INET6, host, &in6.sin6_addr) == 1;
    ck_assert(six || inet_pton(AF_INET, host, &in.sin_addr) == 1);
    struct sockaddr *sa = six ? (struct sockaddr *)&in6 : (struct sockaddr *)&in;
    socklen_t len = six ? sizeof(in6) : sizeof(in);
    int fd = socket(sa->sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert(fd >= 0);
    if (bind(fd, sa, len) != 0) {
        ck_assert_msg(port && errno == EADDRINUSE, "%s: %s", host, strerror(errno));
        close(fd);
        return -1;
    }
    ck_assert(getsockname(fd, sa, &len) == 0);
    *port_r = ntohs(six ? in6.sin6_port : in.sin_port);
    return fd;
}

static int listening(const char *host, uint16_t *port_r)
{
    int fd = bound(SOCK_STREAM, host, 0, port_r);
    ck_assert(listen(fd, 16) == 0);
    return fd;
}

/* Binds two sockets to two addresses with the same port. */
static void bind_both(const char *first, const char *second, int fds_r[2], uint16_t *port_r)
{
    do {
        fds_r[0] = bound(SOCK_STREAM, first, 0, port_r);
        fds_r[1] = bound(SOCK_STREAM, second, *port_r, port_r);
        if (fds_r[1] < 0)
            close(fds_r[0]);
    } while (fds_r[1] < 0);
}

/* Sends a word in each direction. */
static void talk(struct call *c, int fd)
{
    char got[8] = "";
    expect_connected(c);
    int server = accept(fd, NULL, NULL);
    ck_assert(server >= 0);
    send_text(server, "hello");
    ck_assert(wait_ready(c->stream.fd, POLLIN, clock_mono_ns() + PATIENCE_NS));
    ck_assert_int_eq(stream_read(&c->stream, got, sizeof(got)), 5);
    ck_assert_str_eq(got, "hello");
    struct iovec word = {.iov_base = (char[]){"there"}, .iov_len = 5};
    ck_assert_int_eq(stream_write(&c->stream, &word, 1), 5);
    expect(server, "there");
    stream_close(&c->stream);
    expect_end(server);
    close(server);
}

static struct dial_target tcp_target(const char *host, uint16_t port)
{
    return (struct dial_target){.transport = TRANSPORT_TCP, .host = host, .port = port};
}

/* ---- TCP ----------------------------------------------------------------------------------- */

TEST(tcp_connects_to_numeric_addresses_or_tells_which_refuses)
{
    static const char *const rows[][2] = {{"127.0.0.1", "127.0.0.1"}, {"::1", "\\[::1]"}};
    bench_make();
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        uint16_t port;
        struct call c;
        int fd = bound(SOCK_STREAM, rows[i][0], 0, &port), yes = 0;
        socklen_t len = sizeof(yes);
        struct dial_target target = tcp_target(rows[i][0], port);
        make_call(&c, &target, LONG_NS); /* nobody listens */
        expect_reason(&c, "%s:%u: Connection refused", rows[i][1], port);
        ck_assert(listen(fd, 16) == 0);
        make_call(&c, &target, LONG_NS);
        expect_connected(&c);
        ck_assert_int_eq(c.stream.transport, TRANSPORT_TCP);
        ck_assert(getsockopt(c.stream.fd, IPPROTO_TCP, TCP_NODELAY, &yes, &len) == 0 && yes);
        ck_assert(fcntl(c.stream.fd, F_GETFL) & O_NONBLOCK);
        ck_assert(fcntl(c.stream.fd, F_GETFD) & FD_CLOEXEC);
        talk(&c, fd);
        close(fd);
    }
    bench_free();
}

/* Fills the listener's backlog, so that further clients get no answer. */
static int fill_backlog(int listener, const struct sockaddr *sa, socklen_t len, int *fds, int count)
{
    int made = 0;
    ck_assert(listen(listener, 0) == 0);
    while (made < count) {
        int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
        ck_assert(fd >= 0);
        fds[made++] = fd;
        if (connect(fd, sa, len) != 0 && errno == EAGAIN)
            return made;
        if (sa->sa_family != AF_UNIX && !wait_ready(fd, POLLOUT, clock_mono_ns() + NS_PER_S / 5))
            return made;
    }
    ck_abort_msg("the backlog is never full");
}

#define FILLERS 8

static int fill_tcp_backlog(int listener, int *fds)
{
    struct sockaddr_in in;
    socklen_t len = sizeof(in);
    ck_assert(getsockname(listener, (struct sockaddr *)&in, &len) == 0);
    return fill_backlog(listener, (struct sockaddr *)&in, len, fds, FILLERS);
}

static void close_all(const int *fds, int count)
{
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

TEST(server_that_does_not_answer_runs_into_the_limit)
{
    struct call c;
    int fds[FILLERS];
    uint16_t port;
    bench_make();
    int fd = bound(SOCK_STREAM, "127.0.0.1", 0, &port);
    int count = fill_tcp_backlog(fd, fds);
    struct dial_target target = tcp_target("127.0.0.1", port);
    int64_t began_ns = clock_mono_ns();
    make_call(&c, &target, 150 * NS_PER_MS);
    ck_assert_int_ge(clock_mono_ns() - began_ns, 150 * NS_PER_MS);
    expect_reason(&c, "127.0.0.1:%u: no answer within * s", port);
    close_all(fds, count);
    close(fd);
    bench_free();
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    ck_assert_msg(file && fputs(text, file) >= 0 && fclose(file) == 0, "%s", path);
}

/*
 * Runs in a network namespace whose only ephemeral port is the missing server's. Connecting from it
 * to the server would reach the socket itself.
 */
TEST(socket_does_not_connect_to_itself)
{
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        printf("# skipped: no network namespaces: %s\n", strerror(errno));
        return;
    }
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    ck_assert(ioctl(fd, SIOCSIFFLAGS, &lo) == 0 && close(fd) == 0);
    write_file("/proc/sys/net/ipv4/ip_local_port_range", "40000 40000");
    struct call c;
    bench_make();
    struct dial_target target = tcp_target("127.0.0.1", 40000);
    make_call(&c, &target, LONG_NS);
    expect_reason(&c, "127.0.0.1:40000: Connection refused");
    bench_free();
}

/* ---- unix sockets -------------------------------------------------------------------------- */

static struct sockaddr_un unix_address(void)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    const char *base = getenv("TMPDIR");
    snprintf(un.sun_path, sizeof(un.sun_path), "%s/dial.%d", base ? base : "/tmp", (int)getpid());
    return un;
}

static int listening_unix(const struct sockaddr_un *un)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)unlink(un->sun_path);
    ck_assert(fd >= 0 && bind(fd, (const struct sockaddr *)un, sizeof(*un)) == 0 &&
              listen(fd, 16) == 0);
    return fd;
}

TEST(unix_connects)
{
    struct call c;
    bench_make();
    struct sockaddr_un un = unix_address();
    int fd = listening_unix(&un);
    struct dial_target target = {.transport = TRANSPORT_UNIX, .path = un.sun_path};
    make_call(&c, &target, LONG_NS);
    ck_assert_int_eq(c.stream.transport, TRANSPORT_UNIX);
    talk(&c, fd);
    close(fd);
    make_call(&c, &target, LONG_NS); /* the file is still there */
    expect_reason(&c, "%s: Connection refused", un.sun_path);
    ck_assert(unlink(un.sun_path) == 0);
    make_call(&c, &target, LONG_NS);
    expect_reason(&c, "%s: No such file or directory", un.sun_path);
    bench_free();
}

/* The kernel reports that a unix socket's queue is full, but not when there is room again. */
TEST(unix_socket_that_is_full_is_tried_again)
{
    struct call c;
    int fds[FILLERS];
    bench_make();
    struct sockaddr_un un = unix_address();
    int fd = listening_unix(&un);
    int count = fill_backlog(fd, (struct sockaddr *)&un, sizeof(un), fds, FILLERS);
    struct dial_target target = {.transport = TRANSPORT_UNIX, .path = un.sun_path};
    make_call(&c, &target, 50 * NS_PER_MS);
    expect_reason(&c, "%s: the server accepts no connection within * s", un.sun_path);
    bench.later_fd = fd;
    reactor_set_timer(&bench.reactor, &bench.later, clock_mono_ns() + 50 * NS_PER_MS);
    make_call(&c, &target, LONG_NS);
    expect_connected(&c);
    stream_close(&c.stream);
    close_all(fds, count);
    close(fd);
    ck_assert(unlink(un.sun_path) == 0);
    bench_free();
}

TEST(targets_that_can_be_none_are_told)
{
    static char name[600];
    memset(name, 'n', sizeof(name) - 1);
    const struct {
        struct dial_target target;
        const char *why;
    } rows[] = {
        {{.transport = TRANSPORT_UNIX, .path = name + 400}, "n*nnn: the path is too long*"},
        {{.transport = TRANSPORT_UNIX, .path = ""}, ": no path"},
        {tcp_target(name + 300, 1), "n*nnn:1: the host's name is too long"},
        {tcp_target("", 1), ":1: no host"},
        {tcp_target(name, 1), "n*n"}, /* even the message is truncated */
    };
    struct call c;
    bench_make();
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        make_call(&c, &rows[i].target, LONG_NS);
        expect_reason(&c, "%s", rows[i].why);
    }
    ck_assert_uint_eq(strlen(c.reason), DIAL_REASON_SIZE - 1);
    bench_free();
}

/* ---- names --------------------------------------------------------------------------------- */

#define TYPE_A     1
#define TYPE_CNAME 5
#define TYPE_AAAA  28

/* What the name server knows; it answers NXDOMAIN for all other names. */
struct zone_row {
    const char *name, *cname;
    const char *a[3], *aaaa[3];
    unsigned ignored;   /* ignores this many questions first */
    unsigned more;      /* gives each address so many more times */
    bool no_a, no_aaaa; /* does not answer these questions */
    bool truncated;     /* truncates over UDP, and answers over TCP */
};

static struct dns {
    struct watched udp, tcp, stream;
    struct zone_row *zone;
    size_t zone_count;
    unsigned questions, over_tcp;
    char address[32];
} dns;

static size_t put_name(uint8_t *to, const char *name)
{
    size_t len = 0;
    while (*name) {
        size_t part = strcspn(name, ".");
        to[len] = (uint8_t)part;
        memcpy(to + len + 1, name, part);
        len += 1 + part;
        name += part + (name[part] == '.');
    }
    to[len++] = 0;
    return len;
}

static size_t put_record(uint8_t *to, const char *owner, unsigned type, const void *data,
                         size_t size)
{
    size_t len = put_name(to, owner);
    uint8_t fixed[] = {0, (uint8_t)type, 0, 1, 0, 0, 0, 60, 0, (uint8_t)size};
    memcpy(to + len, fixed, sizeof(fixed));
    memcpy(to + len + sizeof(fixed), data, size);
    return len + sizeof(fixed) + size;
}

/* Writes the answer to a question. Returns its length, or 0 for no answer. */
static size_t answer(const uint8_t *question, size_t len, uint8_t *to, bool tcp)
{
    char name[256] = "";
    size_t at = 12, n = 0;
    while (at < len && question[at]) {
        n += (size_t)snprintf(name + n, sizeof(name) - n, "%s%.*s", n ? "." : "", question[at],
                              (const char *)question + at + 1);
        at += question[at] + 1u;
    }
    ck_assert_uint_le(at + 5, len);
    unsigned type = question[at + 2];
    dns.questions++;
    dns.over_tcp += tcp;
    struct zone_row *row = NULL;
    for (size_t i = 0; i < dns.zone_count; i++) {
        if (strcasecmp(dns.zone[i].name, name) == 0)
            row = &dns.zone[i];
    }
    if (row && (row->ignored > 0 || (type == TYPE_A ? row->no_a : row->no_aaaa))) {
        row->ignored -= row->ignored > 0;
        return 0;
    }
    size_t end = at + 5;
    memcpy(to, question, end);
    memset(to + 6, 0, 6);
    to[2] = 0x81;
    to[3] = row ? 0x80 : 0x83; /* NXDOMAIN */
    if (!row)
        return end;
    if (row->truncated && !tcp) {
        to[2] |= 0x02;
        return end;
    }
    const char *owner = row->name;
    if (row->cname) {
        uint8_t target[256];
        end += put_record(to + end, owner, TYPE_CNAME, target, put_name(target, row->cname));
        owner = row->cname;
        to[7]++;
    }
    const char *const *texts = type == TYPE_A ? row->a : row->aaaa;
    for (size_t i = 0; i < 3 && texts[i]; i++) {
        uint8_t address[16];
        ck_assert(inet_pton(type == TYPE_A ? AF_INET : AF_INET6, texts[i], address) == 1);
        for (unsigned k = 0; k <= row->more; k++, to[7]++)
            end += put_record(to + end, owner, type, address, type == TYPE_A ? 4 : 16);
    }
    return end;
}

static void on_datagram(struct watched *served, unsigned what)
{
    uint8_t question[512], to[512];
    struct sockaddr_in from;
    socklen_t from_len = sizeof(from);
    (void)what;
    ssize_t n =
        recvfrom(served->io.fd, question, sizeof(question), 0, (struct sockaddr *)&from, &from_len);
    ck_assert_int_gt(n, 12);
    size_t len = answer(question, (size_t)n, to, false);
    if (len > 0) /* the client's socket may be closed */
        (void)sendto(served->io.fd, to, len, 0, (struct sockaddr *)&from, from_len);
}

/* Questions arrive whole. */
static void on_question(struct watched *served, unsigned what)
{
    uint8_t question[514], to[2048];
    ssize_t n = recv(served->io.fd, question, sizeof(question), 0);
    (void)what;
    if (n <= 0) {
        stop_serving(served);
        return;
    }
    for (size_t at = 0, size; at + 2 <= (size_t)n; at += 2 + size) {
        size = (size_t)question[at] << 8 | question[at + 1];
        size_t len = answer(question + at + 2, size, to + 2, true);
        to[0] = (uint8_t)(len >> 8);
        to[1] = (uint8_t)len;
        (void)!send(served->io.fd, to, 2 + len, MSG_NOSIGNAL);
    }
}

static void on_asker(struct watched *served, unsigned what)
{
    (void)what;
    stop_serving(&dns.stream);
    int fd = accept4(served->io.fd, NULL, NULL, SOCK_NONBLOCK);
    ck_assert(fd >= 0);
    serve(&dns.stream, fd, LOOP_READ, on_question);
}

static void dns_start(struct zone_row *zone, size_t count)
{
    uint16_t port;
    int udp, tcp;
    dns = (struct dns){.zone = zone, .zone_count = count};
    do {
        udp = bound(SOCK_DGRAM, "127.0.0.1", 0, &port);
        tcp = bound(SOCK_STREAM, "127.0.0.1", port, &port);
        if (tcp < 0)
            close(udp);
    } while (tcp < 0);
    ck_assert(listen(tcp, 4) == 0);
    serve(&dns.udp, udp, LOOP_READ, on_datagram);
    serve(&dns.tcp, tcp, LOOP_READ, on_asker);
    snprintf(dns.address, sizeof(dns.address), "127.0.0.1:%u", port);
}

static void dns_stop(void)
{
    stop_serving(&dns.udp);
    stop_serving(&dns.tcp);
    stop_serving(&dns.stream);
}

static struct dial_target named(const char *host, uint16_t port)
{
    return (struct dial_target){
        .transport = TRANSPORT_TCP, .host = host, .port = port, .name_servers = dns.address};
}

TEST(names_are_resolved)
{
    static struct zone_row zone[] = {
        {.name = "good.test", .a = {"127.0.0.1"}},
        {.name = "alias.test", .cname = "real.test", .a = {"127.0.0.1"}},
        {.name = "many.test", .a = {"127.0.0.1"}, .more = 60, .truncated = true},
        {.name = "long.test", .a = {"127.0.0.1"}, .truncated = true},
        {.name = "again.test", .a = {"127.0.0.1"}, .ignored = 3},
        /* the answer for one family is enough, even if the other never comes */
        {.name = "four.test", .a = {"127.0.0.1"}, .no_aaaa = true},
        {.name = "six.test", .aaaa = {"::1"}, .no_a = true},
    };
    bench_make();
    dns_start(zone, ARRAY_SIZE(zone));
    for (size_t i = 0; i < ARRAY_SIZE(zone); i++) {
        uint16_t port;
        struct call c;
        int fd = listening(zone[i].no_a ? "::1" : "127.0.0.1", &port);
        struct dial_target target = named(zone[i].name, port);
        dns.questions = 0;
        make_call_soon(&c, &target, i < 4 ? LONG_NS : NS_PER_S); /* an eighth each, or half */
        talk(&c, fd);
        ck_assert_uint_ge(dns.questions, 2);
        close(fd);
    }
    ck_assert_uint_ge(dns.over_tcp, 2);
    dns_stop();
    bench_free();
}

TEST(what_is_wrong_with_a_name_is_told)
{
    static struct zone_row zone[] = {
        {.name = "empty.test"},
        {.name = "silent.test", .no_a = true, .no_aaaa = true},
    };
    struct call c;
    bench_make();
    dns_start(zone, ARRAY_SIZE(zone));
    struct dial_target target = named("unknown.test", 6379);
    make_call(&c, &target, LONG_NS);
    expect_reason(&c, "unknown.test:6379: no such host name");
    target = named("empty.test", 6379);
    make_call(&c, &target, LONG_NS);
    expect_reason(&c, "empty.test:6379: the name has no address");
    target = named("silent.test", 6379);
    make_call(&c, &target, 160 * NS_PER_MS);
    if (!strstr(c.reason, "do not answer")) /* on a slow machine the limit comes first */
        expect_reason(&c, "silent.test:6379: no answer from the name servers within * s");
    char address[32];
    uint16_t port;
    int fd = bound(SOCK_STREAM, "127.0.0.1", 0, &port); /* no name server there */
    snprintf(address, sizeof(address), "127.0.0.1:%u", port);
    target = named("good.test", 6379);
    target.name_servers = address;
    make_call(&c, &target, NS_PER_S / 4);
    ck_assert_ptr_eq(strstr(c.reason, "good.test:6379: "), c.reason);
    ck_assert_msg(strstr(c.reason, "name servers"), "%s", c.reason);
    close(fd);
    target.name_servers = "127.0.0.1:nowhere";
    make_call(&c, &target, NS_PER_S / 4);
    ck_assert_int_eq(c.stream.fd, -1);
    dns_stop();
    bench_free();
}

TEST(addresses_are_tried_in_turn)
{
    static struct zone_row zone[] = {
        {.name = "two.test", .a = {"127.0.0.1", "127.0.0.2"}},
        {.name = "mixed.test", .a = {"127.0.0.1"}, .aaaa = {"::1"}},
    };
    struct call c;
    uint16_t port;
    int fds[2], fillers[FILLERS];
    bench_make();
    dns_start(zone, ARRAY_SIZE(zone));
    bind_both("127.0.0.1", "127.0.0.2", fds, &port);
    struct dial_target target = named("two.test", port);
    make_call(&c, &target, LONG_NS);
    expect_reason(&c,
                  "two.test:%u: 127.0.0.1:%u: Connection refused; 127.0.0.2:%u: Connection refused",
                  port, port, port);
    ck_assert(listen(fds[1], 16) == 0);
    make_call(&c, &target, LONG_NS); /* the first refuses */
    talk(&c, fds[1]);
    int count = fill_tcp_backlog(fds[0], fillers);
    make_call_soon(&c, &target, NS_PER_S); /* the first is silent for half of the limit */
    talk(&c, fds[1]);
    close_all(fillers, count);
    close_all(fds, 2);

    bind_both("127.0.0.1", "::1", fds, &port);
    target = named("mixed.test", port);
    make_call(&c, &target, LONG_NS);
    expect_reason(&c,
                  "mixed.test:%u: \\[::1]:%u: Connection refused; 127.0.0.1:%u: Connection refused",
                  port, port, port);
    ck_assert(listen(fds[0], 16) == 0);
    make_call(&c, &target, LONG_NS);
    talk(&c, fds[0]);
    ck_assert(listen(fds[1], 16) == 0);
    make_call(&c, &target, LONG_NS);
    talk(&c, fds[1]);
    close_all(fds, 2);
    dns_stop();
    bench_free();
}

/* ---- TLS ----------------------------------------------------------------------------------- */

/* A TLS server for one connection at a time, which says "hello" and then echoes. */
struct tls_server {
    struct watched door, peer;
    struct tls *tls;
    SSL *ssl;
    bool silent, rude; /* never answers; closes at once */
    unsigned accepted;
    char asked[64]; /* the server name in the client's last handshake */
    uint16_t port;
};

static void hang_up(struct tls_server *s)
{
    SSL_free(s->ssl);
    s->ssl = NULL;
    stop_serving(&s->peer);
    ERR_clear_error();
}

static void on_peer(struct watched *served, unsigned what)
{
    struct tls_server *s = container_of(served, struct tls_server, peer);
    char bytes[256];
    size_t n = 0;
    int ret = 1;
    (void)what;
    if (!SSL_is_init_finished(s->ssl) && (ret = SSL_do_handshake(s->ssl)) == 1) {
        const char *name = SSL_get_servername(s->ssl, TLSEXT_NAMETYPE_host_name);
        snprintf(s->asked, sizeof(s->asked), "%s", name ? name : "");
        ck_assert(SSL_write_ex(s->ssl, "hello", 5, &n) == 1);
    }
    while (ret == 1 && (ret = SSL_read_ex(s->ssl, bytes, sizeof(bytes), &n)) == 1)
        ck_assert(SSL_write_ex(s->ssl, bytes, n, &n) == 1);
    if (SSL_get_error(s->ssl, ret) != SSL_ERROR_WANT_READ)
        hang_up(s);
    ERR_clear_error();
}

static void on_door(struct watched *served, unsigned what)
{
    struct tls_server *s = container_of(served, struct tls_server, door);
    (void)what;
    hang_up(s);
    int fd = accept4(served->io.fd, NULL, NULL, SOCK_NONBLOCK);
    ck_assert(fd >= 0);
    s->accepted++;
    if (s->rude) {
        close(fd);
        return;
    }
    s->ssl = SSL_new(s->tls->context);
    ck_assert(s->ssl != NULL && SSL_set_fd(s->ssl, fd) == 1);
    SSL_set_accept_state(s->ssl);
    serve(&s->peer, fd, s->silent ? 0 : LOOP_READ, on_peer);
}

static void tls_start(struct tls_server *s, const char *host, struct tls *tls)
{
    *s = (struct tls_server){.tls = tls};
    int fd = listening(host, &s->port);
    serve(&s->door, fd, LOOP_READ, on_door);
}

static void tls_stop(struct tls_server *s)
{
    hang_up(s);
    stop_serving(&s->door);
    tls_free(&s->tls);
}

static struct pki pki;

static struct tls *client_context(struct tls_client_config config)
{
    char reason[TLS_REASON_SIZE] = "";
    enum tls_file wrong;
    struct tls *tls = tls_client_new(&config, &wrong, reason);
    ck_assert_msg(tls != NULL, "%s", reason);
    return tls;
}

static struct dial_target tls_target(const char *host, uint16_t port, struct tls *tls)
{
    return (struct dial_target){.transport = TRANSPORT_TLS, .host = host, .port = port, .tls = tls};
}

/* Sends a word, and expects the server to send its own and that one back. */
static void converse(struct call *c)
{
    struct iovec word = {.iov_base = (char[]){"there"}, .iov_len = 5};
    char got[11] = "";
    expect_connected(c);
    ck_assert_int_eq(stream_write(&c->stream, &word, 1), 5);
    for (size_t len = 0; len < 10;) {
        ssize_t n = stream_read(&c->stream, got + len, 10 - len);
        ck_assert(n > 0 || n == STREAM_AGAIN);
        len += n > 0 ? (size_t)n : 0;
        spin(1);
    }
    ck_assert_str_eq(got, "hellothere");
    stream_close(&c->stream);
}

TEST(tls_server_with_a_good_certificate_is_believed)
{
    static struct zone_row zone[] = {{.name = "secure.test", .a = {"127.0.0.1"}}};
    static const struct {
        const char *host, *asked;
        enum tls_version min;
    } rows[] = {
        {"127.0.0.1", "", TLS_VERSION_1_2},
        {"::1", "", TLS_VERSION_1_3},
        {"secure.test.", "secure.test", TLS_VERSION_1_2},
        {"SECURE.test", "SECURE.test", TLS_VERSION_1_3},
    };
    pki_make(&pki);
    bench_make();
    dns_start(zone, ARRAY_SIZE(zone));
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct tls_server s;
        struct call c;
        tls_start(&s, strchr(rows[i].host, ':') ? "::1" : "127.0.0.1",
                  pki_tls(&pki, "server", TLS_VERIFY_OFF, TLS_VERSION_1_2));
        struct tls *tls = client_context(
            (struct tls_client_config){.ca = pki_path(&pki, "ca.crt"), .min_version = rows[i].min});
        struct dial_target target = tls_target(rows[i].host, s.port, tls);
        target.name_servers = dns.address;
        begin(&c, &target, LONG_NS);
        tls_free(&tls); /* the dial keeps a reference */
        run(0);
        ck_assert_int_eq(c.stream.transport, TRANSPORT_TLS);
        converse(&c);
        ck_assert_str_eq(s.asked, rows[i].asked);
        tls_stop(&s);
    }
    dns_stop();
    bench_free();
    pki_remove(&pki);
}

TEST(tls_server_that_can_not_be_believed_is_refused)
{
    static struct zone_row zone[] = {{.name = "wrong.test", .a = {"127.0.0.1"}}};
    static const struct {
        const char *cert, *host, *why;
    } rows[] = {
        {"server", "wrong.test", "hostname mismatch"},
        {"server", "127.0.0.2", "IP address mismatch"},
        {"stranger", "127.0.0.1", "unable to get local issuer certificate"},
        {"nobody's-ca", "127.0.0.1", "self-signed certificate"},
        {"expired", "127.0.0.1", "certificate has expired"},
    };
    pki_make(&pki);
    bench_make();
    dns_start(zone, ARRAY_SIZE(zone));
    struct tls *tls = client_context((struct tls_client_config){.ca = pki_path(&pki, "ca.crt")});
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct tls_server s;
        struct call c;
        char address[32] = "";
        tls_start(&s, i == 1 ? "127.0.0.2" : "127.0.0.1",
                  pki_tls(&pki, rows[i].cert, TLS_VERIFY_OFF, TLS_VERSION_1_2));
        struct dial_target target = tls_target(rows[i].host, s.port, tls);
        target.name_servers = dns.address;
        make_call(&c, &target, LONG_NS);
        if (i == 0)
            snprintf(address, sizeof(address), "127.0.0.1:%u: ", s.port);
        expect_reason(&c, "%s:%u: %sTLS handshake: %s", rows[i].host, s.port, address, rows[i].why);
        ck_assert_uint_eq(s.accepted, 1);
        tls_stop(&s);
    }
    tls_free(&tls);
    dns_stop();
    bench_free();
    pki_remove(&pki);
}

TEST(tls_server_that_says_nothing_or_hangs_up_is_told)
{
    struct tls_server s;
    struct call c;
    pki_make(&pki);
    bench_make();
    tls_start(&s, "127.0.0.1", pki_tls(&pki, "server", TLS_VERIFY_OFF, TLS_VERSION_1_2));
    struct tls *tls = client_context((struct tls_client_config){.ca = pki_path(&pki, "ca.crt")});
    struct dial_target target = tls_target("127.0.0.1", s.port, tls);
    s.silent = true;
    make_call(&c, &target, 100 * NS_PER_MS);
    expect_reason(&c, "127.0.0.1:%u: TLS handshake: not done within * s", s.port);
    hang_up(&s);
    s.rude = true;
    make_call(&c, &target, LONG_NS);
    ck_assert_msg(strstr(c.reason, "the server closed the connection") ||
                      strstr(c.reason, "Connection reset"),
                  "%s", c.reason);
    tls_free(&tls);
    tls_stop(&s);
    bench_free();
    pki_remove(&pki);
}

/* ---- several, and their end ---------------------------------------------------------------- */

/* Covers every stage of a dial: both questions, the first address, and the handshake in pieces. */
TEST(cancelled_after_any_number_of_turns)
{
    static struct zone_row zone[] = {
        {.name = "secure.test", .a = {"127.0.0.1"}, .aaaa = {"::1"}, .truncated = true}};
    struct tls_server s;
    struct call c;
    unsigned turns = 0, cancelled = 0;
    pki_make(&pki);
    bench_make();
    dns_start(zone, ARRAY_SIZE(zone));
    tls_start(&s, "127.0.0.1", pki_tls(&pki, "server", TLS_VERIFY_OFF, TLS_VERSION_1_2));
    struct tls *tls = client_context((struct tls_client_config){.ca = pki_path(&pki, "ca.crt")});
    struct dial_target target = tls_target("secure.test", s.port, tls);
    target.name_servers = dns.address;
    unsigned fds = open_descriptors();
    for (;; turns++) {
        begin(&c, &target, LONG_NS);
        if (turns > 0)
            run(turns);
        if (c.done)
            break;
        cancel(&c);
        cancelled++;
        hang_up(&s);
        stop_serving(&dns.stream);
        ck_assert_uint_eq(bench.reactor.deadlines.count, 2);
        ck_assert_uint_eq(open_descriptors(), fds);
    }
    ck_assert_uint_ge(cancelled, 10);
    expect_connected(&c);
    stream_close(&c.stream);
    tls_free(&tls);
    tls_stop(&s);
    dns_stop();
    bench_free();
    pki_remove(&pki);
}

/* ---- lack of memory ------------------------------------------------------------------------ */

TEST(lack_of_memory_is_an_answer)
{
    static struct zone_row zone[] = {
        {.name = "good.test", .a = {"127.0.0.1"}, .aaaa = {"::1"}, .truncated = true}};
    uint16_t port;
    unsigned good = 0, refused = 0;
    bench_make();
    dns_start(zone, ARRAY_SIZE(zone));
    int fd = listening("127.0.0.1", &port);
    ck_assert(listen(fd, 1000) == 0);
    struct dial_target target = named("good.test", port);
    struct call c;
    make_call(&c, &target, LONG_NS);
    expect_connected(&c);
    stream_close(&c.stream);
    unsigned fds = open_descriptors();
    bool all = false; /* the dial made fewer allocations */
    for (unsigned long at = 1; !all; at++) {
        unsigned long before = faults;
        fault_countdown = at;
        fault_counting = true;
        if (start_call(&c, &target, NS_PER_S))
            run(0);
        fault_counting = false;
        all = faults == before;
        fault_countdown = 0;
        refused += !all;
        good += c.stream.fd >= 0;
        stream_close(&c.stream);
        int64_t give_up_ns = clock_mono_ns() + PATIENCE_NS;
        while (open_descriptors() != fds) { /* until the server notices */
            ck_assert_int_lt(clock_mono_ns(), give_up_ns);
            spin(3);
        }
    }
    ck_assert_uint_ge(refused, 20);
    ck_assert_uint_lt(good, refused);
    ck_assert_int_eq(fault_pieces, 0);
    close(fd);
    dns_stop();
    bench_free();
}

/* c-ares allocates through these, so that faults.h can fail its allocations. */
static void *take(size_t size)
{
    return malloc(size);
}

static void *take_again(void *at, size_t size)
{
    return realloc(at, size);
}

static void give(void *at)
{
    free(at);
}

int main(void)
{
    if (ares_library_init_mem(ARES_LIB_INIT_ALL, take, give, take_again) != ARES_SUCCESS)
        return EXIT_FAILURE;
    return unit_run_all("dial");
}
