/*
 * admin.c - tests the requests of the admin interface. It sends bytes over unix sockets to the
 * real HTTP server, routes and handlers. A worker has clients that hold and wait for units.
 *
 * The harness has no server thread: it runs the server's iterations itself until nothing happens
 * any more, so it never needs to wait for an answer. This needs the private parts of net/http.c, so
 * this file includes it; the linker then ignores the other copy. Handlers ask the worker in its own
 * thread, as in the daemon.
 *
 * The first byte chooses how the rest is used: sent as it is, or as the target of a whole request.
 *
 * Promises: an answer begins as HTTP does; a whole request gets one answer, with the right
 * Content-Length, and valid JSON if it says so; a connection closed by its client goes away.
 */
#include "fuzz/fuzz.h"
#include "net/http.c"

#include "admin/admin_internal.h"
#include "t/unit/serving.h"

#include <jansson.h>
#include <signal.h>
#include <sys/un.h>

#define TOKEN "correct horse"

/* Bits of the first byte. */
#define AS_TARGET    2  /* the rest is a target */
#define SHUT_AFTER   4  /* the client shuts down sending afterwards */
#define IN_PIECES    8  /* with an iteration of the server between them */
#define WITH_TOKEN   16 /* with AS_TARGET: POST with the token */
#define READ_NOTHING 32 /* the client closes without reading */

#define TURNS_MAX 20000

static struct server server;
static struct services *services;
static struct admin *admin;
static struct sockaddr_un unix_address = {.sun_family = AF_UNIX};
static socklen_t unix_address_len;

/* ---- data to show ---------------------------------------------------------------------------- */

/* Clients of the worker that hold or wait for units and members. */
static struct holder_client {
    const char *protocol, *says;
    size_t len;
    int fd; /* -1: not connected */
} holders[] = {
#define SAYS(protocol, text)                                                                       \
    {                                                                                              \
        protocol, text, sizeof(text) - 1, -1                                                       \
    }
    SAYS("poolcounter", "ACQ4ME k 1 9 100000\n"),
    SAYS("poolcounter", "ACQ4ME k 1 9 100000\n"),
    SAYS("counter", "\x90\x02\0\0\0\0\0\x0e\0\0\0\0\0\0\0\x03\0\0\0\x0a\0\x04\xff/%\""),
    SAYS("poolcounter",
         "POOL ADD p group=g\nMEMBER ADD p m s3cret k=v\nMEMBER ADD p \xff/%\" - k=\xff\n"
         "MEMBER SET p \xff/%\" state=down note=\x01\nTAKE p member=m by=\xfe\n"
         "TAKE p 100000 with=k=v by=me\n"),
    SAYS("poolcounter", "POOL ADD j kind=joined max=3\nSUPPLY j 1 3\nJOIN j m s3cret\nTAKE j\n"),
#undef SAYS
};

struct opening {
    struct protocol *protocol;
    int fd;
};

static void open_there(struct worker *worker, void *arg)
{
    struct opening *opening = arg;
    atomic_fetch_add(&opening->protocol->connections, 1);
    CHECK(worker_open(worker, opening->protocol,
                      (struct stream){.fd = opening->fd, .transport = TRANSPORT_UNIX}, 0));
}

/* Connects clients that are not connected yet or were disconnected. */
static void connect_holders(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(holders); i++) {
        struct holder_client *h = &holders[i];
        char byte;
        if (h->fd >= 0 && recv(h->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0) {
            close(h->fd);
            h->fd = -1;
        }
        if (h->fd >= 0)
            continue;
        int fds[2];
        CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
        struct opening opening = {services_protocol(services, h->protocol), fds[0]};
        worker_ask(server.workers[0], open_there, &opening);
        h->fd = fds[1];
        CHECK(send(h->fd, h->says, h->len, MSG_NOSIGNAL) == (ssize_t)h->len);
    }
}

/* ---- the server ------------------------------------------------------------------------------ */

static bool hook_ready(void *arg)
{
    (void)arg;
    return true;
}

static void hook_config(void *arg, void (*emit)(void *to, const struct admin_option *option),
                        void *to)
{
    (void)arg;
    emit(to, &(struct admin_option){"log.level", "info", "info", "", "Lea\xff\\st.", true, true});
}

static enum admin_outcome hook_reload(void *arg, char *report_r, size_t size)
{
    (void)arg;
    snprintf(report_r, size, "one line\n\ntwo \xff lines\n");
    return ADMIN_DONE;
}

static void hook_reloads(void *arg, struct admin_reloads *reloads_r)
{
    (void)arg;
    *reloads_r = (struct admin_reloads){.tried = 1};
}

static bool hook_upgrade(void *arg)
{
    (void)arg;
    return true;
}

static void hook_upgrades(void *arg, struct admin_upgrades *upgrades_r)
{
    (void)arg;
    *upgrades_r = (struct admin_upgrades){0};
}

static void start(void)
{
    struct snapshot_config snapshot = {.limits = {.output_buffer = 1u << 20,
                                                  .request_timeout_ns = 3600 * NS_PER_S,
                                                  .write_timeout_ns = 3600 * NS_PER_S}};
    struct serving_config config = {.table = {.buckets = 64,
                                              .memory_limit = (size_t)16 << 20,
                                              .stats_interval_s = 86400,
                                              .hash_key = {1, 2}},
                                    .poolcounter_max_locks = 4,
                                    .poolcounter_max_line = 8192};
    signal(SIGPIPE, SIG_IGN); /* the server's own thread blocks all signals */
    log_set_level(LOG_LEVEL_ERROR);
    services = serving_make(&server, 1, &snapshot, &config);
    CHECK(worker_prepare(server.workers[0]));
    reactor_resume(worker_reactor(server.workers[0]));
    int fds[] = {socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    unix_address_len = sizeof(unix_address);
    CHECK(bind(fds[0], (struct sockaddr *)&unix_address, sizeof(sa_family_t)) == 0 &&
          listen(fds[0], 16) == 0 &&
          getsockname(fds[0], (struct sockaddr *)&unix_address, &unix_address_len) == 0);
    static struct listener own;
    CHECK(listener_adopt(&own, NULL, fds[0], false));
    char digest[TOKEN_DIGEST_SIZE];
    CHECK(token_digest(TOKEN, strlen(TOKEN), digest));
    struct admin_config admin_config = {
        .own = &own,
        .own_count = 1,
        .token = digest,
        .services = services,
        .server = &server,
        .hooks = {.ready = hook_ready,
                  .config = hook_config,
                  .reload = hook_reload,
                  .reloads = hook_reloads,
                  .upgrade = hook_upgrade,
                  .upgrades = hook_upgrades},
        .version = "0.1.0",
    };
    char reason[ADMIN_REASON_SIZE];
    admin = admin_new(&admin_config, reason);
    CHECK(admin);
    here = admin->http; /* as in the server's own thread */
}

/* One iteration of the server's thread, without waiting. */
static void turn(void)
{
    event_base_loop(admin->http->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    take_steps(admin->http);
    look_at_clients(admin->http);
}

static bool has_clients(void)
{
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        if (admin->http->clients[i].bev)
            return true;
    }
    return false;
}

/* ---- a client -------------------------------------------------------------------------------- */

/* The answer received so far. */
struct got {
    char data[1 << 20];
    size_t len;
    bool ended;
};

static struct got got;

static int connect_client(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&unix_address, unix_address_len) == 0);
    return fd;
}

/* Reads what has arrived. Returns false if nothing has. */
static bool receive(int fd)
{
    ssize_t n = recv(fd, got.data + got.len, sizeof(got.data) - 1 - got.len, MSG_DONTWAIT);
    got.ended |= n == 0 || (n < 0 && errno != EAGAIN);
    got.len += n > 0 ? (size_t)n : 0;
    return n > 0;
}

/* Runs iterations until nothing happens any more. */
static void turn_until_quiet(int fd, bool reads)
{
    unsigned quiet = 0;
    for (unsigned i = 0; quiet < 3; i++) {
        CHECK(i < TURNS_MAX);
        turn();
        bool any = (reads && receive(fd)) || admin->http->handling > 0;
        quiet = any ? 0 : quiet + 1;
    }
}

static void send_all(int fd, const char *data, size_t len, bool in_pieces)
{
    size_t piece = in_pieces ? len / 3 + 1 : len;
    for (size_t at = 0; at < len; at += piece) {
        if (at > 0)
            turn();
        size_t n = piece < len - at ? piece : len - at;
        if (send(fd, data + at, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n)
            return; /* the server has closed the connection or stopped reading */
    }
}

static bool is_status_line(const char *line)
{
    return strncmp(line, "HTTP/", 5) == 0;
}

/* Checks the one answer to a whole request. */
static void check_answer(void)
{
    CHECK(got.ended && is_status_line(got.data));
    const char *end = strstr(got.data, "\r\n\r\n"), *value;
    CHECK(end);
    size_t body_len = got.len - (size_t)(end + 4 - got.data);
    value = strcasestr(got.data, "\r\nContent-Length: ");
    CHECK(value && value < end && strtoull(value + 18, NULL, 10) == body_len);
    if (!strcasestr(got.data, "\r\nContent-Type: application/json\r\n"))
        return;
    json_error_t error;
    json_t *json = json_loadb(end + 4, body_len, JSON_REJECT_DUPLICATES, &error);
    CHECK(json);
    bool is_error = json_object_get(json, "error");
    CHECK(is_error == (got.data[9] == '4' || got.data[9] == '5'));
    json_decref(json);
}

/* True when a target has no byte that would end the target or the request line. */
static bool is_plain(const uint8_t *target, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (target[i] <= ' ' || target[i] == 0x7f)
            return false;
    }
    return len > 0;
}

/* Makes a request with this target. The caller frees it. */
static char *request_of(uint8_t how, const uint8_t *target, size_t len, size_t *len_r)
{
    const char *method = how & WITH_TOKEN ? "POST " : "GET ";
    const char *rest = how & WITH_TOKEN
                           ? " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                             "Authorization: Bearer " TOKEN "\r\nContent-Length: 0\r\n\r\n"
                           : " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    *len_r = strlen(method) + len + strlen(rest);
    char *request = malloc(*len_r + 1);
    CHECK(request);
    char *at = stpcpy(request, method);
    if (len > 0)
        memcpy(at, target, len);
    strcpy(at + len, rest);
    return request;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {.at = data, .left = size};
    uint8_t how = input_byte(&in);
    if (!admin)
        start();
    log_set_level(LOG_LEVEL_ERROR);
    connect_holders();
    got.len = 0;
    got.ended = false;
    size_t len = in.left;
    char *request = how & AS_TARGET ? request_of(how, in.at, in.left, &len) : NULL;
    int fd = connect_client();
    turn();
    send_all(fd, request ? request : (const char *)in.at, len, how & IN_PIECES);
    if (how & SHUT_AFTER)
        CHECK(shutdown(fd, SHUT_WR) == 0 || errno == ENOTCONN);
    turn_until_quiet(fd, !(how & READ_NOTHING));
    got.data[got.len] = '\0';
    if (request && !(how & (SHUT_AFTER | READ_NOTHING)) && is_plain(in.at, in.left))
        check_answer();
    CHECK(got.len == 0 || is_status_line(got.data));
    CHECK(memmem(data, size, "s3cret", 6) || !strstr(got.data, "s3cret")); /* values */
    CHECK(!strstr(got.data, "\r\n\r\n<HTML>")); /* an error page of libevent */
    close(fd);
    free(request);
    for (unsigned i = 0; has_clients(); i++) {
        CHECK(i < TURNS_MAX);
        turn();
    }
    return 0;
}
