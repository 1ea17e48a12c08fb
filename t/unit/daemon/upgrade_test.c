/*
 * upgrade_test.c - takes over a state from a file that an older daemon has written: the clients'
 * units, waits, incomplete requests and unsent output are there, and the clients continue.
 *
 * The test reads it as in a rehearsal, without the clients' sockets. Then each connection gets a
 * socket of the test, and the workers run. The clock is the test's (it replaces base/clock.c) and
 * starts at the time when the state was written.
 */
#include "daemon/upgrade.h"

#include "net/private.h"
#include "proto/counter.h"
#include "t/unit/serving.h"
#include "t/unit/unit.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- the clock ----------------------------------------------------------------------------- */

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

/* ---- the daemon that takes over ------------------------------------------------------------ */

enum { CLIENTS = 15, NAMES = 30, HELD = 39, FD_MAX = 40, QUEUED_MAX = 16384, TEXT_LINE_MAX = 1000 };

struct client {
    struct conn *conn;
    int fd; /* the client's end; -1 before `serve` */
};

static struct server server;
static struct upgrade upgrade;
static struct listeners listeners;
static struct client clients[CLIENTS];

/* Listening sockets must be open descriptors; in a rehearsal any file will do. */
static void open_descriptors(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        ck_assert_int_ge(fd, 0);
    } while (fd < FD_MAX);
}

static void read_head(void)
{
    static char program[] = "counterd", *argv[] = {program, NULL};
    const char *top = getenv("TOP_SRCDIR");
    char path[4096], variable[64];
    upgrade = (struct upgrade){0};
    written_ns = read_ns = 0;
    open_descriptors();
    snprintf(path, sizeof(path), "%s/t/unit/daemon/state-1.record", top ? top : ".");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_msg(fd >= 0, "%s can't be opened", path);
    snprintf(variable, sizeof(variable), "rehearse %d", fd);
    setenv(UPGRADE_VARIABLE, variable, 1);
    ck_assert(upgrade_init(&upgrade, argv));
    read_ns = clock_mono_ns();
    written_ns = upgrade.parked_ns;
}

static void make_server(unsigned workers)
{
    const struct rules_config rules = {.limits = {.output_buffer = 16384,
                                                  .request_timeout_ns = 600 * NS_PER_S,
                                                  .write_timeout_ns = 600 * NS_PER_S}};
    const struct serving_config config = {
        .table = {.buckets = 100, .memory_limit = 64 << 20, .stats_interval_s = 86400},
        .poolcounter_max_locks = 3,
        .poolcounter_max_line = TEXT_LINE_MAX,
    };
    upgrade.parts = (struct upgrade_parts){
        .server = &server,
        .services = serving_make(&server, workers, &rules, &config),
        .listeners = &listeners,
    };
}

/* Takes over with this many workers; `serve` starts them. */
static void take_over(unsigned workers)
{
    unsigned count = 0;
    read_head();
    make_server(workers);
    ck_assert(upgrade_restore(&upgrade));
    upgrade_commit(&upgrade);
    inherited_close(&upgrade.inherited);
    for (unsigned i = 0; i < workers; i++) {
        for (uint32_t slot = 0; slot < worker_slots(server.workers[i]); slot++) {
            struct conn *conn = worker_conn_at(server.workers[i], slot);
            if (conn) {
                ck_assert_uint_lt(count, CLIENTS);
                clients[count++] = (struct client){.conn = conn, .fd = -1};
            }
        }
    }
    ck_assert_uint_eq(count, CLIENTS);
}

/* Gives each connection a socket and starts the workers. */
static void serve(void)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        int ends[2];
        ck_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
        clients[i].conn->stream = (struct stream){.fd = ends[0], .transport = TRANSPORT_UNIX};
        clients[i].conn->io.fd = ends[0];
        clients[i].fd = ends[1];
    }
    for (unsigned i = 0; i < server.count; i++)
        ck_assert(worker_start(server.workers[i]));
}

/* Stops the daemon; this must release everything that is held. */
static void finish(void)
{
    struct table_stats stats;
    for (unsigned i = 0; i < server.count; i++)
        worker_stop(server.workers[i]);
    for (unsigned i = 0; i < server.count; i++)
        worker_join(server.workers[i]);
    for (unsigned i = 0; i < server.count; i++)
        worker_drain(server.workers[i]);
    table_check(upgrade.parts.services->table);
    table_get_stats(upgrade.parts.services->table, clock_now(), &stats);
    ck_assert(stats.units == 0 && stats.holdings == 0 && stats.waiting == 0);
    serving_free(&server, &upgrade.parts.services);
    for (unsigned i = 0; i < CLIENTS; i++)
        close(clients[i].fd);
}

/* ---- clients ------------------------------------------------------------------------------- */

static struct table *table(void)
{
    return upgrade.parts.services->table;
}

static struct bytes name_of(const char *text)
{
    return bytes_of(text);
}

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

/* The client that holds this many units of a name. */
static struct client *holder_of(const char *name, uint32_t units)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct table_hold hold;
        if (table_holds(table(), conn_id(clients[i].conn), name_of(name), clock_now(), &hold) &&
            hold.units == units)
            return &clients[i];
    }
    ck_abort_msg("nobody has %u units of %s", units, name);
    return NULL;
}

/* A client that waits for a name; place 0 is the oldest. */
static struct client *waiter_for(const char *name, size_t place)
{
    struct table_wait waits[CLIENTS];
    struct table_entry entry;
    size_t count;
    ck_assert_int_eq(
        table_inspect(table(), name_of(name), clock_now(), &entry, waits, CLIENTS, &count),
        TABLE_OK);
    for (unsigned i = 0; i < CLIENTS && place < count; i++) {
        if (conn_tag(clients[i].conn) == waits[place].tag)
            return &clients[i];
    }
    ck_abort_msg("nobody waits for %s in place %zu", name, place);
    return NULL;
}

/* The client whose incomplete request has exactly these bytes. */
static struct client *sayer_of(const void *bytes, size_t len)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        const struct conn *conn = clients[i].conn;
        if (conn->in && conn->in_end - conn->in_begin == len &&
            memcmp(conn->in + conn->in_begin, bytes, len) == 0)
            return &clients[i];
    }
    ck_abort_msg("nobody has said %.*s", (int)len, (const char *)bytes);
    return NULL;
}

static struct client *dumper(void)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        if (conn_in_pieces(clients[i].conn))
            return &clients[i];
    }
    ck_abort_msg("no Dump is under way");
    return NULL;
}

/* A request of the binary protocol; the client has sent its first 13 bytes. */
static size_t half_said(uint8_t bytes[100])
{
    const struct ctr_request request = {.opcode = CTR_ACQUIRE,
                                        .units = 1,
                                        .maximum = 1,
                                        .name = {.data = (const uint8_t *)"whole", .len = 5}};
    return ctr_compose_request(&request, bytes, 100);
}

/* Copies the output queued for a client; returns its length. */
static size_t queued_for(const struct client *client, uint8_t to[QUEUED_MAX])
{
    size_t len = 0;
    for (const struct chunk *c = client->conn->out.first; c; c = c->next) {
        memcpy(to + len, c->data + c->begin, c->end - c->begin);
        len += c->end - c->begin;
    }
    return len;
}

/* ---- sending and receiving ------------------------------------------------------------------- */

static void say(const struct client *client, const void *bytes, size_t len)
{
    ck_assert_int_eq(send(client->fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

static void say_line(const struct client *client, const char *line)
{
    say(client, line, strlen(line));
}

static void hear(const struct client *client, uint8_t *to, size_t len)
{
    while (len > 0) {
        struct pollfd ready = {.fd = client->fd, .events = POLLIN};
        ck_assert_msg(poll(&ready, 1, 60000) == 1, "%zu bytes do not come", len);
        ssize_t n = recv(client->fd, to, len, 0);
        ck_assert_int_gt(n, 0);
        to += n;
        len -= (size_t)n;
    }
}

static void expect(const struct client *client, const void *bytes, size_t len)
{
    uint8_t heard[QUEUED_MAX];
    hear(client, heard, len);
    ck_assert_msg(memcmp(heard, bytes, len) == 0, "it said %.*s", (int)len, (char *)heard);
}

static void expect_line(const struct client *client, const char *line)
{
    expect(client, line, strlen(line));
}

static void expect_ok(const struct client *client, enum ctr_opcode opcode)
{
    struct ctr_reply reply;
    uint8_t bytes[CTR_HEADER + 4];
    size_t used, len = opcode == CTR_ACQUIRE ? CTR_HEADER + 4 : CTR_HEADER;
    hear(client, bytes, len);
    ck_assert_int_eq(ctr_parse_reply(bytes, len, &reply, &used), CTR_OK);
    ck_assert_uint_eq(used, len);
    ck_assert(reply.opcode == opcode && reply.status == CTR_STATUS_SUCCESS);
}

static void ask(const struct client *client, enum ctr_opcode opcode, uint32_t units,
                const char *name)
{
    uint8_t bytes[100];
    const struct ctr_request request = {
        .opcode = (uint8_t)opcode,
        .units = units,
        .maximum = 5,
        .name = {.data = (const uint8_t *)name, .len = strlen(name)}};
    say(client, bytes, ctr_compose_request(&request, bytes, sizeof(bytes)));
    expect_ok(client, opcode);
}

/* ---- the tests ----------------------------------------------------------------------------- */

/* The number of requests with this outcome. */
static uint64_t requests(const char *verb, const char *outcome)
{
    const struct service *service = services_at(upgrade.parts.services, 0);
    const struct service_row *row = service->row;
    unsigned v = 0, o = 0;
    while (strcmp(row->verbs[v], verb) != 0)
        v++;
    while (strcmp(row->outcomes[o], outcome) != 0)
        o++;
    return service_requests(service, v, o);
}

static void expect_name(const char *name, uint32_t consumption, uint32_t peak, uint32_t limit,
                        uint32_t waiting)
{
    struct table_wait waits[CLIENTS];
    struct table_entry entry;
    size_t count;
    ck_assert_int_eq(
        table_inspect(table(), name_of(name), clock_now(), &entry, waits, CLIENTS, &count),
        TABLE_OK);
    ck_assert_uint_eq(entry.consumption, consumption);
    ck_assert_uint_eq(entry.peak, peak);
    ck_assert_uint_eq(entry.limit, limit);
    ck_assert_uint_eq(entry.waiting, waiting);
    ck_assert_uint_eq(count, waiting);
    for (size_t i = 0; i < count; i++) {
        ck_assert(waits[i].units == 1 && waits[i].limit == 1);
        ck_assert(waits[i].kind == (strcmp(name, "page") == 0 ? WAIT_ANY : WAIT_ME));
        ck_assert(waits[i].since_ns > written_ns - 60 * NS_PER_S && waits[i].since_ns < written_ns);
        ck_assert(conn_expires(waiter_for(name, i)->conn, 0));
    }
}

TEST(all_of_a_state_of_version_1_is_there)
{
    uint8_t bytes[QUEUED_MAX];
    take_over(2);
    ck_assert_str_eq(upgrade.version, "0.1.0");
    ck_assert_uint_eq(upgrade.activation.count, 1);
    ck_assert_uint_eq(upgrade.history.tried, 1);
    ck_assert_str_eq(upgrade.history.report,
                     "15 connections were kept, 0 closed because they have TLS\n");
    struct table_stats stats;
    table_get_stats(table(), clock_now(), &stats);
    ck_assert_uint_eq(stats.names, NAMES + 6);
    ck_assert_uint_eq(stats.units, HELD);
    ck_assert_uint_eq(stats.waiting, 5);
    expect_name("k", 1, 1, 1, 3);
    expect_name("page", 1, 1, 1, 2);
    expect_name("second", 1, 1, 2, 0);
    expect_name("n", 5, 5, 5, 0);
    expect_name("kept", 0, 4, 9, 0);
    expect_name("r", 1, 1, 1, 0);
    for (unsigned i = 0; i < NAMES; i++)
        expect_name(long_name(i), 1, 1, 9, 0);
    ck_assert_ptr_eq(holder_of("k", 1), holder_of("second", 1));
    ck_assert_ptr_ne(holder_of("n", 3), holder_of("n", 2));
    ck_assert_uint_eq(requests("ACQ4ME", "QUEUE_FULL"), 1);
    (void)sayer_of("ACQ4ME ha", 9);
    ck_assert_uint_gt(half_said(bytes), 13);
    (void)sayer_of(bytes, 13);
    ck_assert_uint_eq(queued_for(holder_of("r", 1), bytes), 3976);
    ck_assert_uint_eq(queued_for(dumper(), bytes), 8693);
    serve();
    finish();
}
END_TEST

/*
 * A Dump continues after its queued part: every name comes once, then the answer to the next
 * request.
 */
static void expect_dump(const struct client *client)
{
    static uint8_t bytes[65536];
    static const char end[] = "\x91\x11\0\0\0\0\0\0dump\x91\0\0\0\0\0\0\0noop";
    size_t len = 0;
    do {
        hear(client, bytes + len, 1);
        len++;
    } while (len < sizeof(end) ||
             memcmp(bytes + len - (sizeof(end) - 1), end, sizeof(end) - 1) != 0);
    for (unsigned i = 0; i < NAMES; i++) {
        const char *name = long_name(i);
        const uint8_t *at = memmem(bytes, len, name, strlen(name));
        ck_assert_msg(at, "the Dump leaves out name %u", i);
        at += strlen(name);
        ck_assert_msg(!memmem(at, len - (size_t)(at - bytes), name, strlen(name)), "twice: %u", i);
    }
}

static void go_on_with(unsigned workers)
{
    uint8_t request[100], queued[QUEUED_MAX];
    take_over(workers);
    size_t len = half_said(request);
    const struct client *half_text = sayer_of("ACQ4ME ha", 9), *half = sayer_of(request, 13);
    const struct client *holder = holder_of("k", 1), *leader = holder_of("page", 1);
    const struct client *line[] = {waiter_for("k", 0), waiter_for("k", 1), waiter_for("k", 2)};
    const struct client *followers[] = {waiter_for("page", 0), waiter_for("page", 1)};
    const struct client *counting = holder_of("n", 3), *other = holder_of("n", 2);
    const struct client *reader = holder_of("r", 1), *dumps = dumper();
    size_t unread = queued_for(reader, queued);
    serve();
    say_line(half_text, "lf 1 9 600\n");
    expect_line(half_text, "LOCKED\n");
    say(half, request + 13, len - 13);
    expect_ok(half, CTR_ACQUIRE);
    ask(counting, CTR_RELEASE, 3, "n");
    ask(other, CTR_ACQUIRE, 3, "n");
    say_line(holder, "RELEASE k\n");
    expect_line(holder, "RELEASED\n");
    for (unsigned i = 0; i < ARRAY_SIZE(line); i++) {
        expect_line(line[i], "LOCKED\n");
        say_line(line[i], "RELEASE k\n");
        expect_line(line[i], "RELEASED\n");
    }
    say_line(holder, "RELEASE second\n");
    expect_line(holder, "RELEASED\n");
    say_line(leader, "RELEASE\n");
    expect_line(leader, "RELEASED\n");
    expect_line(followers[0], "DONE\n");
    expect_line(followers[1], "DONE\n");
    expect(reader, queued, unread);
    say_line(reader, "RELEASE\n");
    expect_line(reader, "RELEASED\n");
    expect_dump(dumps);
    finish();
}

TEST(clients_of_a_state_of_version_1_go_on_with_any_number_of_workers)
{
    for (unsigned workers = 1; workers <= 3; workers++)
        go_on_with(workers);
}
END_TEST

/* --- An upgrade that fails ---------------------------------------------------------------------
 */

/* An upgrade that fails at once, and the log. */
struct failing {
    struct upgrade upgrade;
    int log; /* the read end of a pipe that gets the log */
    char logged[1024];
    bool over;
};

static void read_log(struct failing *failing)
{
    ssize_t len = read(failing->log, failing->logged, sizeof(failing->logged) - 1);
    failing->logged[len > 0 ? len : 0] = '\0';
}

static void failing_is_over(void *arg)
{
    struct failing *failing = arg;
    failing->over = true;
    ck_assert(strstr(failing->upgrade.history.report, "goes on as before\n") != NULL);
    read_log(failing);
}

TEST(an_upgrade_is_counted_before_the_log_says_that_it_is_over)
{
    static struct failing failing; /* the program's path is not known */
    int ends[2], standard = dup(STDERR_FILENO);
    ck_assert(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    failing.log = ends[0];
    dup2(ends[1], STDERR_FILENO);
    upgrade_run(&failing.upgrade, failing_is_over, &failing);
    dup2(standard, STDERR_FILENO);
    ck_assert(failing.over);
    ck_assert(strstr(failing.logged, "is not known") && !strstr(failing.logged, "goes on"));
    read_log(&failing);
    ck_assert(strstr(failing.logged, "goes on as before") != NULL);
    ck_assert(failing.upgrade.history.tried == 1 && failing.upgrade.history.done == 0);
    close(standard);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(an_upgrade_is_counted_before_the_log_says_that_it_is_over),
    UNIT(all_of_a_state_of_version_1_is_there),
    UNIT(clients_of_a_state_of_version_1_go_on_with_any_number_of_workers),
};

UNIT_MAIN("daemon/upgrade", tests)
