/*
 * upgrade_test.c - takes over a state from a file that an older daemon has written: the clients'
 * units, waits, incomplete requests and unsent output are there, and the clients continue.
 *
 * The test reads it as in a dry run, without the clients' sockets. Then each connection gets a
 * socket of the test, and the workers run. The clock is the test's (it replaces base/clock.c) and
 * starts at the time when the state was written.
 */
#include "daemon/upgrade.h"

#include "net/worker_internal.h"
#include "proto/counter.h"
#include "t/unit/random.h"
#include "t/unit/serving.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- the clock ------------------------------------------------------------------------------- */

/* The time when state-1.record was written; the file contains its monotonic time. */
#define WRITTEN_UNIX_S INT64_C(1795346582)

static int64_t written_ns, read_ns; /* by the file's clock; by this machine's */

int64_t clock_mono_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return written_ns + (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec - read_ns;
}

struct moment clock_now(void)
{
    int64_t now_ns = clock_mono_ns();
    return (struct moment){.mono_ns = now_ns,
                           .unix_s = WRITTEN_UNIX_S + (now_ns - written_ns) / NS_PER_S};
}

int64_t clock_unix_ns(void)
{
    return WRITTEN_UNIX_S * NS_PER_S + clock_mono_ns() - written_ns;
}

/* ---- the daemon that takes over -------------------------------------------------------------- */

/* The clients of the record, in its order. */
enum {
    HOLDER,     /* has k, for which 3 wait, and `second` */
    COUNTING,   /* has 3 of 5 units of n */
    READER,     /* has r, and has not read what it was told */
    WAITS,      /* for k; the next two, too */
    LEADER = 6, /* has page, for which FOLLOWER and LATER wait for anyone */
    FOLLOWER,
    DUMPER = 9, /* amid a Dump, behind which it has said NOOP */
    OTHER,      /* has 2 of n */
    HALF = 12,  /* has said 13 bytes of an ACQUIRE of `whole` */
    LATER,
    HALF_TEXT,
    CLIENTS,
    NAMES = 30, /* client 11 has so many long ones */
    FD_MAX = 40,
    HEARD_MAX = 65536,
};

static struct server server;
static struct upgrade upgrade;
static struct listeners listeners;
static int clients[CLIENTS]; /* their ends of the connections */

/* The record as a descriptor; with a bit of it turned, or cut, where `damage_at` is not 0. */
static int open_record(size_t damage_at, uint8_t bit)
{
    static uint8_t bytes[65536];
    const char *top = getenv("TOP_SRCDIR");
    char path[4096];
    snprintf(path, sizeof(path), "%s/t/unit/daemon/state-1.record", top ? top : ".");
    FILE *file = fopen(path, "re");
    ck_assert_msg(file, "%s can't be opened", path);
    size_t len = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    if (damage_at) {
        bytes[damage_at % len] ^= bit;
        len = bit ? len : damage_at % len;
    }
    int fd = memfd_create("record", MFD_CLOEXEC);
    ck_assert(write(fd, bytes, len) == (ssize_t)len && lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

/* Takes over with this many workers; false: the state is refused. */
static bool take_over(unsigned workers, int record)
{
    static char program[] = "counterd", *argv[] = {program, NULL};
    const struct snapshot_config snapshot = {.limits = {.output_buffer = 16384,
                                                        .request_timeout_ns = 600 * NS_PER_S,
                                                        .write_timeout_ns = 600 * NS_PER_S}};
    const struct serving_config config = {
        .table = {.buckets = 100, .memory_limit = 64 << 20, .stats_interval_s = 86400},
        .poolcounter_max_locks = 3,
        .poolcounter_max_line = 1000,
    };
    char variable[64];
    upgrade = (struct upgrade){0};
    written_ns = read_ns = 0;
    for (int fd = 0; fd < FD_MAX;) /* listening sockets must be open; in a dry run any will do */
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    snprintf(variable, sizeof(variable), "rehearse %d", record);
    setenv(UPGRADE_VARIABLE, variable, 1);
    if (!upgrade_init(&upgrade, argv))
        return false;
    read_ns = clock_mono_ns();
    written_ns = upgrade.paused_ns;
    upgrade.parts = (struct upgrade_parts){
        .server = &server,
        .services = serving_make(&server, workers, &snapshot, &config),
        .listeners = &listeners,
    };
    if (!upgrade_restore(&upgrade))
        return false;
    upgrade_commit(&upgrade);
    inherited_close(&upgrade.inherited);
    return true;
}

/* The connection of this client. */
static struct conn *conn_number(unsigned i)
{
    return worker_conn_at(server.workers[i % server.count], i / server.count);
}

/* Gives each connection a socket and starts the workers. */
static void serve(void)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        int ends[2];
        struct conn *conn = conn_number(i);
        ck_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
        conn->stream = (struct stream){.fd = ends[0], .transport = TRANSPORT_UNIX};
        conn->io.fd = ends[0];
        clients[i] = ends[1];
    }
    for (unsigned i = 0; i < server.count; i++) {
        ck_assert(worker_prepare(server.workers[i]));
        reactor_resume(worker_reactor(server.workers[i]));
    }
}

/* Stops the daemon; this must release everything that is held. */
static void finish(void)
{
    struct table_stats stats;
    for (unsigned i = 0; i < server.count; i++)
        worker_stop(server.workers[i]);
    for (unsigned i = 0; i < server.count; i++)
        reactor_join(worker_reactor(server.workers[i]));
    for (unsigned i = 0; i < server.count; i++)
        worker_drain(server.workers[i]);
    table_check(upgrade.parts.services->table);
    table_get_stats(upgrade.parts.services->table, clock_now(), &stats);
    ck_assert(stats.units == 0 && stats.holdings == 0 && stats.waiting == 0);
    serving_free(&server, &upgrade.parts.services);
    for (unsigned i = 0; i < CLIENTS; i++)
        close(clients[i]);
}

/* ---- clients --------------------------------------------------------------------------------- */

/* Name number `i` of those that one client holds completely. */
static const char *long_name(unsigned i)
{
    static char name[601];
    memset(name, 'x', sizeof(name) - 1);
    int len = snprintf(name, sizeof(name), "name-%02u-", i);
    name[len] = 'x';
    name[(size_t)len + 590] = '\0';
    return name;
}

static void hear(unsigned who, void *to, size_t len)
{
    for (uint8_t *at = to; len > 0;) {
        struct pollfd ready = {.fd = clients[who], .events = POLLIN};
        ck_assert_msg(poll(&ready, 1, 60000) == 1, "client %u: %zu bytes do not come", who, len);
        ssize_t n = recv(clients[who], at, len, 0);
        ck_assert_int_gt(n, 0);
        at += n;
        len -= (size_t)n;
    }
}

static void expect(unsigned who, const void *bytes, size_t len)
{
    static uint8_t heard[HEARD_MAX];
    hear(who, heard, len);
    ck_assert_msg(memcmp(heard, bytes, len) == 0, "client %u was told %.*s", who, (int)len,
                  (char *)heard);
}

/* Says the rest of a binary request, from `begin` on, and expects success. */
static void ask(unsigned who, size_t begin, struct ctr_request request, const char *name)
{
    uint8_t bytes[100], told[CTR_HEADER + 4];
    struct ctr_reply reply;
    request.name.data = (const uint8_t *)name;
    request.name.len = strlen(name);
    size_t used, len = ctr_compose_request(&request, bytes, sizeof(bytes)) - begin;
    ck_assert_int_eq(send(clients[who], bytes + begin, len, MSG_NOSIGNAL), (ssize_t)len);
    len = request.opcode == CTR_ACQUIRE ? CTR_HEADER + 4 : CTR_HEADER;
    hear(who, told, len);
    ck_assert_int_eq(ctr_parse_reply(told, len, &reply, &used), CTR_OK);
    ck_assert(reply.opcode == request.opcode && reply.status == CTR_STATUS_SUCCESS);
}

/* Copies what is queued for the reader; returns its length. */
static size_t copy_queued(uint8_t *to)
{
    size_t len = 0;
    for (const struct chunk *c = conn_number(READER)->out.first; c; c = c->next) {
        memcpy(to + len, c->data + c->begin, c->end - c->begin);
        len += c->end - c->begin;
    }
    return len;
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void expect_name(const char *name, uint32_t consumption, uint32_t peak, uint32_t limit,
                        uint32_t waiting)
{
    struct table_wait waits[CLIENTS];
    struct table_entry entry;
    size_t count;
    ck_assert_int_eq(table_inspect(upgrade.parts.services->table, bytes_of(name), clock_now(),
                                   &entry, waits, CLIENTS, &count),
                     TABLE_OK);
    ck_assert(entry.consumption == consumption && entry.peak == peak && entry.limit == limit);
    ck_assert(entry.waiting == waiting && count == waiting);
    for (size_t i = 0; i < count; i++) {
        ck_assert(waits[i].units == 1 && waits[i].limit == 1);
        ck_assert((waits[i].kind == WAIT_ME) == (strcmp(name, "page") != 0));
        ck_assert(waits[i].since_ns > written_ns - 60 * NS_PER_S && waits[i].since_ns < written_ns);
    }
}

/* What a service had counted; the record has sums of 64 bits and no times by classes. */
static void expect_counted(const char *name, const char *expected)
{
    const struct service *service = services_protocol(upgrade.parts.services, name)->service;
    unsigned long long requests = 0;
    char text[400];
    for (unsigned i = 0; i < service->verbs * service->outcomes; i++)
        requests += service_requests(service, i / service->outcomes, i % service->outcomes);
    int len = snprintf(text, sizeof(text), "%llu requests, %llu busy, bytes %llu %llu, times",
                       requests, (unsigned long long)service_busy(service),
                       (unsigned long long)service_received(service),
                       (unsigned long long)service_sent(service));
    for (unsigned i = 0; i < SERVICE_TIMES; i++) {
        struct buckets_sum times;
        service_buckets(service, i, &times);
        len += snprintf(text + len, sizeof(text) - (size_t)len, " %llu:%lld",
                        (unsigned long long)buckets_sum_count(&times), (long long)times.sum_ns);
    }
    ck_assert_str_eq(text, expected);
}

static void expect_all_there(void)
{
    struct table_stats stats;
    ck_assert_str_eq(upgrade.version, "0.1.0");
    ck_assert_uint_eq(upgrade.activation.count, 1);
    ck_assert_uint_eq(upgrade.history.tried, 1);
    ck_assert_str_eq(upgrade.history.report,
                     "15 connections were kept, 0 closed because they have TLS\n");
    expect_counted("poolcounter",
                   "370 requests, 0 busy, bytes 4266 175078, times 375:22844323 0:0 0:0 "
                   "0:0 0:0 0:0");
    expect_counted("counter",
                   "315 requests, 0 busy, bytes 22114 188962, times 316:20797891 0:0 0:0 "
                   "0:0 0:0 1:280576");
    table_get_stats(upgrade.parts.services->table, clock_now(), &stats);
    ck_assert(stats.names == NAMES + 6 && stats.units == 39 && stats.waiting == 5);
    expect_name("k", 1, 1, 1, 3);
    expect_name("page", 1, 1, 1, 2);
    expect_name("second", 1, 1, 2, 0);
    expect_name("n", 5, 5, 5, 0);
    expect_name("kept", 0, 4, 9, 0);
    expect_name("r", 1, 1, 1, 0);
    for (unsigned i = 0; i < NAMES; i++)
        expect_name(long_name(i), 1, 1, 9, 0);
    for (unsigned i = 0; i < CLIENTS; i++) {
        bool waits = (i >= WAITS && i < LEADER) || i == FOLLOWER || i == LATER;
        const struct conn *conn = conn_number(i);
        bool expires = conn->protocol->row->deadlines > 0 && conn_expires(conn, 0);
        ck_assert_msg(expires == waits, "client %u", i);
    }
}

/* A Dump goes on after its queued part: every name comes once, then the answer to the next request.
 */
static void expect_dump(void)
{
    static uint8_t bytes[HEARD_MAX];
    static const char end[] = "\x91\x11\0\0\0\0\0\0dump\x91\0\0\0\0\0\0\0noop";
    size_t len = 0;
    do
        hear(DUMPER, bytes + len++, 1);
    while (len < sizeof(end) || memcmp(bytes + len - (sizeof(end) - 1), end, sizeof(end) - 1) != 0);
    for (unsigned i = 0; i < NAMES; i++) {
        const char *name = long_name(i);
        const uint8_t *at = memmem(bytes, len, name, strlen(name));
        ck_assert_msg(at, "the Dump leaves out name %u", i);
        at += strlen(name);
        ck_assert_msg(!memmem(at, len - (size_t)(at - bytes), name, strlen(name)), "twice: %u", i);
    }
}

static const struct {
    unsigned who;
    const char *says, *hears;
} lines[] = {
    {HALF_TEXT, "lf 1 9 600\n", "LOCKED\n"},
    {HOLDER, "RELEASE k\n", "RELEASED\n"},
    {WAITS, "RELEASE k\n", "LOCKED\nRELEASED\n"},
    {WAITS + 1, "RELEASE k\n", "LOCKED\nRELEASED\n"},
    {WAITS + 2, "RELEASE k\n", "LOCKED\nRELEASED\n"},
    {HOLDER, "RELEASE second\n", "RELEASED\n"},
    {LEADER, "RELEASE\n", "RELEASED\n"},
    {FOLLOWER, "", "DONE\n"},
    {LATER, "", "DONE\n"},
    {READER, "RELEASE\n", "RELEASED\n"},
};

TEST(clients_of_a_state_of_version_1_go_on)
{
    for (unsigned workers = 1; workers <= 3; workers += 2) {
        static uint8_t queued[HEARD_MAX];
        ck_assert(take_over(workers, open_record(0, 0)));
        expect_all_there();
        size_t unread = copy_queued(queued);
        serve();
        ask(HALF, 13, (struct ctr_request){.opcode = CTR_ACQUIRE, .units = 1, .maximum = 1},
            "whole");
        ask(COUNTING, 0, (struct ctr_request){.opcode = CTR_RELEASE, .units = 3}, "n");
        ask(OTHER, 0, (struct ctr_request){.opcode = CTR_ACQUIRE, .units = 3, .maximum = 5}, "n");
        expect(READER, queued, unread);
        for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
            size_t len = strlen(lines[i].says);
            ck_assert(send(clients[lines[i].who], lines[i].says, len, MSG_NOSIGNAL) ==
                      (ssize_t)len);
            expect(lines[i].who, lines[i].hears, strlen(lines[i].hears));
        }
        expect_dump();
        finish();
    }
}
END_TEST

TEST(damage_is_refused_or_harmless)
{
    struct rng rng = rng_start("damage", random_seed());
    unsigned good = 0, tries = 200;
    for (unsigned i = 0; i < tries; i++) {
        size_t at = 1 + rng_next(&rng) % UINT16_MAX;
        uint8_t bit = (uint8_t)(i % 2 ? 1u << rng_below(&rng, 8) : 0);
        int status;
        pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0) {
            int null = open("/dev/null", O_WRONLY | O_CLOEXEC), record = open_record(at, bit);
            dup2(null, STDERR_FILENO);
            if (!take_over(1 + i % 3, record))
                _exit(1);
            table_check(upgrade.parts.services->table);
            _exit(0);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) <= 1, "it crashed: %zu, %u", at,
                      bit);
        ck_assert(bit || status != 0);
        good += status == 0;
    }
    ck_assert(good > 0 && good < tries / 2);
}
END_TEST

static struct upgrade failing; /* its program's path is not known */
static int logged;             /* the read end of a pipe that gets the log */
static bool over;

static bool has_logged(const char *text)
{
    char log[1024];
    ssize_t len = read(logged, log, sizeof(log) - 1);
    log[len > 0 ? len : 0] = '\0';
    return strstr(log, text) != NULL;
}

static void is_over(void *arg)
{
    (void)arg;
    over = true;
    ck_assert(strstr(failing.history.report, "goes on as before\n") != NULL);
    ck_assert(has_logged("is not known"));
}

TEST(an_upgrade_is_counted_before_the_log_says_that_it_is_over)
{
    int ends[2], standard = dup(STDERR_FILENO);
    ck_assert(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    logged = ends[0];
    dup2(ends[1], STDERR_FILENO);
    upgrade_run(&failing, is_over, NULL);
    dup2(standard, STDERR_FILENO);
    ck_assert(over && has_logged("goes on as before"));
    ck_assert(failing.history.tried == 1 && failing.history.done == 0);
    close(standard);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

UNIT_MAIN("daemon/upgrade")
