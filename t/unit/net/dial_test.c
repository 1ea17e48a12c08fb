/* dial_test.c - outgoing streams to addresses, unix sockets and names; lack of memory. */
#include "t/unit/net/dials.h"

#include <net/if.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/un.h>

/* ---- TCP ------------------------------------------------------------------------------------- */

/* The same for a dial that a part of its limit decides: with more time if the machine stood still.
 */
static void make_call_soon(struct call *c, const struct dial_target *target, int64_t limit_ns)
{
    make_call(c, target, limit_ns);
    if (c->stream.fd < 0 && strstr(c->reason, " within "))
        make_call(c, target, LONG_NS);
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

/* ---- unix sockets ---------------------------------------------------------------------------- */

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

/* ---- names ----------------------------------------------------------------------------------- */

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

/* ---- lack of memory -------------------------------------------------------------------------- */

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

int main(void)
{
    return run_all("dial");
}
