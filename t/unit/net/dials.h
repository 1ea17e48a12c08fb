/*
 * dials.h - dials of an owner of a loop and deadlines, and their servers in the same loop:
 * listeners and a name server. Nothing leaves the machine.
 */
#include "net/dial.h"

#include "net/lookup.h"
#include "t/unit/engine/faults.h"
#include "t/unit/net/secure.h"

#include <ares.h>
#include <fnmatch.h>
#include <stdarg.h>

/* ---- the reactor ----------------------------------------------------------------------------- */

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

/* ---- dials ----------------------------------------------------------------------------------- */

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

/* Starts a dial and runs it to its end. */
static void make_call(struct call *c, const struct dial_target *target, int64_t limit_ns)
{
    begin(c, target, limit_ns);
    run(0);
    ck_assert_uint_eq(c->done, 1);
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

/* ---- servers in the loop --------------------------------------------------------------------- */

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

/* ---- a name server --------------------------------------------------------------------------- */

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

/* ---- allocations of c-ares ------------------------------------------------------------------- */

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

static int run_all(const char *name)
{
    if (ares_library_init_mem(ARES_LIB_INIT_ALL, take, give, take_again) != ARES_SUCCESS)
        return EXIT_FAILURE;
    return unit_run_all(name);
}
